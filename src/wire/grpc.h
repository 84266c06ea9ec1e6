/* SPDX-License-Identifier: Apache-2.0 */
/* What gRPC adds to HTTP/2, as plain functions on bytes: message frames, timeouts, status text,
 * binary metadata.
 *
 * Everything that appends does it whole or not at all: after an error `into` holds what it held.
 * Nothing here knows of streams or time. */
#ifndef WIRE_GRPC_H
#define WIRE_GRPC_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/note.h"

/* -- messages: 1 byte of flags, 4 bytes of length (big-endian), then the message -- */
enum { GRPC_FRAME_BYTES = 5 };
void grpc_frame_write(uint32_t length, bool compressed, char out[GRPC_FRAME_BYTES]);

/* Cuts messages out of a byte stream, and keeps nothing of them. The length is checked on the five
 * bytes, before a byte of the message is given to the caller. */
struct grpc_reader {
    size_t message_max;
    char head[GRPC_FRAME_BYTES];
    size_t head_len;
    bool compressed; /* of the message that is being read, or was read last; so is its length */
    uint32_t length;
    uint32_t passed; /* bytes of the body that the caller was given */
};
void grpc_reader_init(struct grpc_reader *r, size_t message_max);
/* Takes the head, and one piece of the body as far as *bytes goes, which is a view of *bytes and may
 * be empty. *ret_last: the message ends with it; the next one may follow at once. ERR_TOO_LARGE
 * (limit), ERR_PARSE (reserved flag bits): this stream is lost, and each further call says so. */
enum err grpc_reader_piece(struct grpc_reader *r, struct str *bytes, struct str *ret_piece,
                           bool *ret_last);
bool grpc_reader_between(const struct grpc_reader *r); /* no message is half-read */
/* Inflates a gzip message, never past `max` bytes of result. ERR_TOO_LARGE, ERR_PARSE (damaged, cut
 * off, or followed by something else), ERR_NOMEM. */
enum err grpc_gunzip(struct str compressed, size_t max, struct buf *into);

/* -- grpc-timeout: 1 to 8 digits and a unit of H M S m u n -- */
enum err grpc_timeout_parse(struct str text, uint64_t *ret_us); /* nanoseconds round up */
void grpc_timeout_text(uint64_t us, char out[16]);              /* rounds up; at most 8 digits */

/* -- grpc-message: percent-encoding of all but printable ASCII and '%' -- */
enum err grpc_message_encode(struct str text, struct buf *into);
enum err grpc_message_decode(struct str text, struct buf *into); /* bad escapes stay as they are */

/* -- metadata whose name ends in -bin: base64, written without padding, read with or without.
 * Several values joined by commas are decoded one by one and joined by commas again. -- */
enum err grpc_bin_encode(struct str bytes, struct buf *into);
enum err grpc_bin_decode(struct str text, struct buf *into); /* ERR_PARSE */

const char *grpc_status_name(
    enum grpc_status status); /* "NOT_FOUND"; any other number: "UNKNOWN" */
/* The status that an HTTP answer without grpc-status means, by the protocol's table. */
enum grpc_status grpc_status_from_http(int http_status);
/* ... and an HTTP/2 reset code. */
enum grpc_status grpc_status_from_reset(uint32_t code);
#endif
