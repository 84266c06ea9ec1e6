/* SPDX-License-Identifier: Apache-2.0 */
/* A growable byte buffer with a mandatory limit.
 *
 * Appending is all or nothing: after ERR_FULL (the limit) or ERR_NOMEM the content is unchanged.
 * The view from buf_peek() is valid until the next call that changes the buffer. */
#ifndef BASE_BUF_H
#define BASE_BUF_H
#include <stdarg.h>

#include "base/str.h"

struct buf {
    char *data; /* NULL until something is appended */
    size_t len, cap, max;
};

void buf_init(struct buf *b, size_t max); /* allocates nothing */
void buf_deinit(struct buf *b);           /* accepts a zeroed buffer; may be called twice */
void buf_clear(struct buf *b);            /* keeps the memory */
struct str buf_peek(const struct buf *b);
enum err buf_append(struct buf *b, struct str bytes);
enum err buf_append_c(struct buf *b, const char *c_string);
enum err buf_append_byte(struct buf *b, char byte);
enum err buf_appendf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum err buf_vappendf(struct buf *b, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
/* Makes room for `len` more bytes at the end, for the caller to write. buf_commit() then adds the
 * written bytes. *ret_room may be NULL if `len` is 0. */
enum err buf_reserve(struct buf *b, size_t len, char **ret_room);
void buf_commit(struct buf *b, size_t len);
void buf_consume(struct buf *b, size_t len);
/* Passes the content to the caller as a NUL-terminated heap text, and empties the buffer. */
enum err buf_detach(struct buf *b, char **ret_text);
#endif
