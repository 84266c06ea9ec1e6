/* SPDX-License-Identifier: Apache-2.0 */
/* Encodings that gRPC adds to HTTP/2, as pure functions on bytes. An append that fails leaves
 * `into` unchanged. */
#ifndef WIRE_GRPC_H
#define WIRE_GRPC_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/note.h"

/* -- messages: 1 byte of flags, 4 bytes of length (big-endian), then the message -- */
enum { GRPC_FRAME_BYTES = 5 };
void grpc_frame_write(uint32_t length, bool compressed, char out[GRPC_FRAME_BYTES]);

/* Splits a byte stream into messages without buffering. A message's length is checked before the
 * caller gets any of its bytes. */
struct grpc_reader {
    size_t message_max;
    char head[GRPC_FRAME_BYTES];
    size_t head_len;
    bool compressed; /* of the current message, or of the last one */
    uint32_t length; /* bytes of the message */
    uint32_t passed; /* bytes of the message that were already returned */
};
void grpc_reader_init(struct grpc_reader *r, size_t message_max);
/* Takes a piece of a message from *bytes. *ret_piece is a view of *bytes and may be empty.
 * *ret_last: the piece ends the message. ERR_TOO_LARGE and ERR_PARSE (reserved flag bits) are
 * final. */
enum err grpc_reader_piece(struct grpc_reader *r, struct str *bytes, struct str *ret_piece,
                           bool *ret_last);
bool grpc_reader_between(const struct grpc_reader *r); /* true between two messages */
/* Inflates a gzip message to at most `max` bytes. ERR_TOO_LARGE, ERR_NOMEM. ERR_PARSE: damaged,
 * truncated, or followed by other bytes. */
enum err grpc_gunzip(struct str compressed, size_t max, struct buf *into);

/* -- grpc-timeout: 1 to 8 digits and a unit of H M S m u n -- */
enum err grpc_timeout_parse(struct str text, uint64_t *ret_us); /* rounds nanoseconds up */
void grpc_timeout_text(uint64_t us, char out[16]);              /* rounds up; at most 8 digits */

/* -- grpc-message: percent-encoding of '%' and of all bytes that are not printable ASCII -- */
enum err grpc_message_encode(struct str text, struct buf *into);
/* Malformed escapes are kept as text. */
enum err grpc_message_decode(struct str text, struct buf *into);

/* -- metadata whose name ends in -bin: base64, written without padding. Commas join several values.
 * -- */
enum err grpc_bin_encode(struct str bytes, struct buf *into);
enum err grpc_bin_decode(struct str text, struct buf *into); /* ERR_PARSE, and errors of `into` */

const char *grpc_status_name(
    enum grpc_status status); /* such as "NOT_FOUND"; "UNKNOWN" for an undefined number */
/* By gRPC's table, for a response without grpc-status. */
enum grpc_status grpc_status_from_http(int http_status);
enum grpc_status grpc_status_from_reset(uint32_t code);
#endif
