/* SPDX-License-Identifier: Apache-2.0 */
/* Messages: protobuf-c behind a guard, in one arena per call.
 *
 * protobuf-c alone may be killed by a deeply nested message, takes any bytes for a string, cuts one
 * at its first NUL and mixes up a sub-message that is given twice. So bytes are first walked by the
 * guard, driven by the generated descriptor; only what passes is decoded. A few text fields may
 * hold NUL and are bytes in the generated code (proto/text-as-bytes.txt): same wire, still UTF-8.
 *
 * The surprising rule: a peer's small message can make protobuf-c take a hundred times its size.
 * The ceiling of the arena is what stops it, so size the arena for the call. */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H
#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/note.h"

enum {
    MESSAGE_DEPTH_USUAL = 64,
    MESSAGE_DEPTH_MOST = 128, /* protobuf-c takes about 1 KiB of stack per level */
    /* The largest message we must take, a roll-up of 256 MiB, has about 30 million. */
    MESSAGE_FIELDS_USUAL = 64 * 1000 * 1000,
};
struct message_limits {  /* NULL or 0 takes the usual one */
    uint32_t depth_max;  /* levels of messages, the outermost counted; past MOST it is MOST */
    uint32_t fields_max; /* elements of one message at all levels, known or not, packed ones too */
};
/* True of every message that passes: tags, wire types and lengths are right; strings are UTF-8
 * without NUL; no singular sub-message is given twice. Unknown fields pass, unknown enum numbers
 * too. ERR_PARSE with a note that names the field path: "needs[3].group: not UTF-8". ERR_TOO_LARGE:
 * past fields_max or 2 GiB. */
enum err message_guard(const ProtobufCMessageDescriptor *type, struct str bytes,
                       const struct message_limits *limits, struct note *note);
/* Guard, then decode into the arena. The message lives as long as the arena and copies what it
 * needs of `bytes`; nothing is freed one by one, never call free_unpacked. After an error the arena
 * may hold a part that nobody points to. ERR_PARSE, ERR_TOO_LARGE, ERR_NOMEM (also the arena's
 * ceiling). */
enum err message_read(const ProtobufCMessageDescriptor *type, struct str bytes,
                      const struct message_limits *limits, struct arena *arena,
                      ProtobufCMessage **ret_message, struct note *note);
/* Appends the encoding, all or nothing. ERR_INTERNAL with a note: a string is not UTF-8, which is
 * our mistake, and no reader would take it. ERR_FULL (the buffer's ceiling), ERR_TOO_LARGE (2 GiB),
 * ERR_NOMEM. */
enum err message_write(const ProtobufCMessage *message, struct buf *into, struct note *note);

/* -- very large messages, element by element -- */

/* Walks one message of type `type` as its bytes arrive and passes on each element of the
 * repeated message field `field` as on the wire, unchecked; every other field is kept for
 * message_stream_end. Memory follows the largest element, not the message: of an element of more
 * than `element_max` bytes only the first are passed on, and `len` says how many it has. All other
 * fields together may be `rest_max` bytes.
 *
 * An error of `each` ends the walk and is what feed returns. After any error the stream stays as it
 * is: every later call returns the same error. */
struct message_stream;
typedef enum err message_raw_fn(void *owner, struct str bytes, size_t len);
/* ERR_INVALID: `field` is not a repeated message field of `type`. ERR_NOMEM. */
enum err message_stream_open_raw(const ProtobufCMessageDescriptor *type, const char *field,
                                 size_t element_max, size_t rest_max, message_raw_fn *each,
                                 void *owner, struct message_stream **ret_stream);
/* ERR_PARSE, ERR_TOO_LARGE, ERR_NOMEM, or what `each` said. */
enum err message_stream_feed(struct message_stream *stream, struct str bytes, struct note *note);
/* At the end: the message without the streamed elements, in `arena`. ERR_PARSE when cut short. */
enum err message_stream_end(struct message_stream *stream, struct arena *arena,
                            ProtobufCMessage **ret_rest, struct note *note);
void message_stream_close(struct message_stream *stream); /* NULL is fine */
#endif
