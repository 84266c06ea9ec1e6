/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf messages: protobuf-c behind a guard, in one arena per call.
 *
 * protobuf-c alone can crash on a deeply nested message, accepts any bytes as a string, cuts
 * strings at the first NUL, and mixes up a sub-message that occurs twice. Therefore the guard
 * checks the bytes first. Text fields that may contain NUL are bytes in the generated code
 * (proto/text-as-bytes.txt).
 *
 * Decoding can need a hundred times a message's size in memory. Only the arena's ceiling limits
 * this. */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H
#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/note.h"

enum {
    MESSAGE_DEPTH_USUAL = 64,
    MESSAGE_DEPTH_MOST = 128, /* levels; protobuf-c needs about 1 KiB of stack for each */
    /* The largest valid message, a roll-up of 256 MiB, has about 30 million elements. */
    MESSAGE_FIELDS_USUAL = 64 * 1000 * 1000,
};
struct message_limits { /* NULL or 0 selects the default */
    /* Levels of messages, including the outermost; at most MESSAGE_DEPTH_MOST. */
    uint32_t depth_max;
    uint32_t fields_max; /* elements at all levels, with unknown and packed ones */
};
/* Checks that tags, wire types and lengths are valid, strings are UTF-8 without NUL, and no
 * singular sub-message occurs twice. Unknown fields and enum numbers are allowed. ERR_PARSE with a
 * path in the note: "needs[3].group: not UTF-8". ERR_TOO_LARGE: above fields_max or 2 GiB. */
enum err message_guard(const ProtobufCMessageDescriptor *type, struct str bytes,
                       const struct message_limits *limits, struct note *note);
/* Checks the message, then decodes it into the arena, which owns the result: never call
 * free_unpacked. ERR_PARSE, ERR_TOO_LARGE, ERR_NOMEM (also the arena's ceiling). */
enum err message_read(const ProtobufCMessageDescriptor *type, struct str bytes,
                      const struct message_limits *limits, struct arena *arena,
                      ProtobufCMessage **ret_message, struct note *note);
/* Appends the encoding, all or nothing. ERR_INTERNAL with a note: a string is not UTF-8, a bug of
 * the caller. ERR_FULL (the buffer's ceiling), ERR_TOO_LARGE (2 GiB), ERR_NOMEM. */
enum err message_write(const ProtobufCMessage *message, struct buf *into, struct note *note);

/* -- very large messages, element by element -- */

/* Parses a message as its bytes arrive. `each` gets every element of the repeated message field
 * `field` as encoded bytes, unchecked. Of an element longer than `element_max`, `each` gets the
 * first bytes and the full length `len`. All other fields, at most `rest_max` bytes, are kept for
 * message_stream_end.
 *
 * An error of `each` ends the parsing. Every error is final. */
struct message_stream;
typedef enum err message_raw_fn(void *owner, struct str bytes, size_t len);
/* ERR_INVALID: `field` is not a repeated message field of `type`. ERR_NOMEM. */
enum err message_stream_open_raw(const ProtobufCMessageDescriptor *type, const char *field,
                                 size_t element_max, size_t rest_max, message_raw_fn *each,
                                 void *owner, struct message_stream **ret_stream);
/* ERR_PARSE, ERR_TOO_LARGE, ERR_NOMEM, or the error of `each`. */
enum err message_stream_feed(struct message_stream *stream, struct str bytes, struct note *note);
/* Decodes the message without the streamed elements. ERR_PARSE if the message is incomplete. */
enum err message_stream_end(struct message_stream *stream, struct arena *arena,
                            ProtobufCMessage **ret_rest, struct note *note);
void message_stream_close(struct message_stream *stream); /* NULL is allowed */
#endif
