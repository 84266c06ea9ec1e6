/* SPDX-License-Identifier: Apache-2.0 */
/* A growable run of bytes that cannot be created without naming its ceiling.
 *
 * Appending is all or nothing: after ERR_FULL (the ceiling) or ERR_NOMEM the content is what it
 * was. `peek` views stay valid until the next call that changes the buffer. */
#ifndef BASE_BUF_H
#define BASE_BUF_H
#include <stdarg.h>

#include "base/str.h"

struct buf {
    char *data; /* NULL while nothing was ever appended */
    size_t len, cap, max;
};

void buf_init(struct buf *b, size_t max); /* takes no memory yet */
void buf_deinit(struct buf *b);           /* fine on a zeroed one, and twice */
void buf_clear(struct buf *b);            /* empties, keeps the memory */
struct str buf_peek(const struct buf *b);
enum err buf_append(struct buf *b, struct str bytes);
enum err buf_append_c(struct buf *b, const char *c_string);
enum err buf_append_byte(struct buf *b, char byte);
enum err buf_appendf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum err buf_vappendf(struct buf *b, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
/* Room for `len` more bytes at the end; write there, then buf_commit what was written. The address
 * is NULL only when no byte was asked for and the buffer has no memory yet. */
enum err buf_reserve(struct buf *b, size_t len, char **ret_room);
void buf_commit(struct buf *b, size_t len);
/* Drops bytes from the front; the rest moves up. */
void buf_consume(struct buf *b, size_t len);
/* The content as a NUL-terminated heap string, now the caller's; the buffer is empty after. */
enum err buf_detach(struct buf *b, char **ret_text);
#endif
