/* Messages: protobuf-c behind a guard, in one arena per call.
 *
 * protobuf-c alone may be killed by a deeply nested message, takes any bytes for a string and cuts one
 * at its first NUL. So bytes are first walked by the guard, driven by the generated descriptor; only
 * what passes is decoded. Fields that may hold NUL are declared bytes in proto/ (same wire). */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H
#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/note.h"

struct message_limits {
    uint32_t depth_max;                 /* 0: 64 */
    uint32_t fields_max;                /* 0: 16 million: elements of one message, all levels */
};
/* ERR_PARSE with a note that names the field path: "needs[3].group: not UTF-8". */
enum err message_guard(const ProtobufCMessageDescriptor *type, struct str bytes,
                       const struct message_limits *limits, struct note *note);
/* Guard, then decode into the arena. The message lives as long as the arena; nothing is freed one by
 * one. ERR_PARSE, ERR_NOMEM (also the arena's ceiling). */
enum err message_read(const ProtobufCMessageDescriptor *type, struct str bytes,
                      const struct message_limits *limits, struct arena *arena,
                      ProtobufCMessage **ret_message, struct note *note);
enum err message_write(const ProtobufCMessage *message, struct buf *into);

/* -- very large messages, element by element --
 * Walks one message of type `type` as its bytes arrive and hands out each element of the repeated
 * message field `field` decoded in a scratch arena that is reset after the call; every other field is
 * kept for message_stream_end. Memory follows the largest element, not the message. */
struct message_stream;
typedef enum err message_element_fn(void *owner, const ProtobufCMessage *element);
enum err message_stream_open(const ProtobufCMessageDescriptor *type, const char *field,
                             size_t element_max, message_element_fn *each, void *owner,
                             struct message_stream **ret_stream);
enum err message_stream_feed(struct message_stream *stream, struct str bytes, struct note *note);
/* At the end: the message without the streamed elements, in `arena`. ERR_PARSE when cut short. */
enum err message_stream_end(struct message_stream *stream, struct arena *arena,
                            ProtobufCMessage **ret_rest, struct note *note);
void message_stream_close(struct message_stream *stream);
#endif
