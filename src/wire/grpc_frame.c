/* SPDX-License-Identifier: Apache-2.0 */
/* gRPC message frames:
 *
 *   byte 0      flags; bit 0: compressed, the others are reserved and must be 0
 *   bytes 1-4   length of the message, big-endian
 *   bytes 5-    the message */
#include <string.h>

#include "wire/grpc.h"

enum { FLAG_COMPRESSED = 1 };

void grpc_frame_write(uint32_t length, bool compressed, char out[GRPC_FRAME_BYTES])
{
    out[0] = compressed ? FLAG_COMPRESSED : 0;
    for (size_t i = 0; i < 4; i++) out[1 + i] = (char)(length >> (24 - 8 * i));
}

void grpc_reader_init(struct grpc_reader *r, size_t message_max)
{
    *r = (struct grpc_reader){.message_max = message_max};
}

/* The bytes of a refused head are kept and checked again by every later call. */
static enum err judge_head(struct grpc_reader *r)
{
    uint32_t length = 0;

    if (r->head[0] & ~FLAG_COMPRESSED) return ERR_PARSE;
    for (size_t i = 1; i < GRPC_FRAME_BYTES; i++) length = length << 8 | (unsigned char)r->head[i];
    if (length > r->message_max) return ERR_TOO_LARGE;
    r->compressed = r->head[0] & FLAG_COMPRESSED;
    r->length = length;
    return ERR_OK;
}

/* Returns true when the head is complete. */
static bool grpc_frame_take_head(struct grpc_reader *r, struct str *bytes)
{
    size_t n = min_size(GRPC_FRAME_BYTES - r->head_len, bytes->len);

    if (n > 0) {
        memcpy(r->head + r->head_len, bytes->at, n);
        r->head_len += n;
        *bytes = str_tail(*bytes, n);
    }
    return r->head_len == GRPC_FRAME_BYTES;
}

enum err grpc_reader_piece(struct grpc_reader *r, struct str *bytes, struct str *ret_piece,
                           bool *ret_last)
{
    struct str piece = STR_EMPTY;
    bool whole = grpc_frame_take_head(r, bytes);
    enum err err = whole ? judge_head(r) : ERR_OK;

    if (err) return err;
    if (whole) piece = str_of(bytes->at, min_size(r->length - r->passed, bytes->len));
    *bytes = str_tail(*bytes, piece.len);
    r->passed += (uint32_t)piece.len;
    *ret_last = whole && r->passed == r->length;
    if (*ret_last) r->head_len = r->passed = 0;
    *ret_piece = piece;
    return ERR_OK;
}

bool grpc_reader_between(const struct grpc_reader *r)
{
    return r->head_len == 0;
}
