/* SPDX-License-Identifier: Apache-2.0 */
/* Growing byte buffers. One byte more than `cap` is always allocated, for a closing NUL. */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_FIRST = 64 }; /* bytes of the first allocation, at least */

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_deinit(struct buf *b)
{
    free(b->data);
    b->data = NULL;
    b->len = b->cap = 0;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
}

struct str buf_peek(const struct buf *b)
{
    return b->data ? (struct str){b->data, b->len} : STR_EMPTY;
}

static enum err buf_grow_now(struct buf *b, size_t len)
{
    size_t cap;
    char *data;

    if (len > b->max - b->len) return ERR_FULL;
    if (b->len + len > PTRDIFF_MAX / 2) return ERR_NOMEM;
    cap = max_size(max_size(b->cap * 2, b->len + len), BUF_FIRST);
    cap = min_size(cap, b->max);
    data = realloc(b->data, cap + 1);
    if (!data) return ERR_NOMEM;
    b->data = data;
    b->cap = cap;
    return ERR_OK;
}

static inline enum err buf_grow(struct buf *b, size_t len)
{
    assert(b->len <= b->cap && b->cap <= b->max);
    return len <= b->cap - b->len ? ERR_OK : buf_grow_now(b, len);
}

enum err buf_append(struct buf *b, struct str bytes)
{
    enum err err;

    if (bytes.len == 0) return ERR_OK;
    /* `bytes` must not point into this buffer, because growing may move the buffer's memory. */
    assert(!b->data || (uintptr_t)bytes.at >= (uintptr_t)b->data + b->cap ||
           (uintptr_t)bytes.at + bytes.len <= (uintptr_t)b->data);
    err = buf_grow(b, bytes.len);
    if (err) return err;
    memcpy(b->data + b->len, bytes.at, bytes.len);
    b->len += bytes.len;
    return ERR_OK;
}

enum err buf_append_c(struct buf *b, const char *c_string)
{
    return buf_append(b, str_from(c_string));
}

enum err buf_append_byte(struct buf *b, char byte)
{
    enum err err = buf_grow(b, 1);

    if (err) return err;
    b->data[b->len++] = byte;
    return ERR_OK;
}

enum err buf_vappendf(struct buf *b, const char *format, va_list args)
{
    size_t room = b->data ? b->cap - b->len + 1 : 0;
    va_list again;
    int wrote;
    enum err err = ERR_OK;

    va_copy(again, args);
    /* Most texts fit into the available room. */
    wrote = vsnprintf(room > 0 ? b->data + b->len : NULL, room, format, args);
    if (wrote < 0) err = ERR_INVALID;
    if (!err && (size_t)wrote >= room && wrote > 0) {
        err = buf_grow(b, (size_t)wrote);
        if (!err) vsnprintf(b->data + b->len, (size_t)wrote + 1, format, again);
    }
    if (!err) b->len += (size_t)wrote;
    va_end(again);
    return err;
}

enum err buf_appendf(struct buf *b, const char *format, ...)
{
    va_list args;
    enum err err;

    va_start(args, format);
    err = buf_vappendf(b, format, args);
    va_end(args);
    return err;
}

enum err buf_reserve(struct buf *b, size_t len, char **ret_room)
{
    enum err err = buf_grow(b, len);

    if (err) return err;
    *ret_room = b->data ? b->data + b->len : NULL;
    return ERR_OK;
}

void buf_commit(struct buf *b, size_t len)
{
    assert(len <= b->cap - b->len); /* the caller reserved `len` bytes */
    b->len += len;
}

void buf_consume(struct buf *b, size_t len)
{
    assert(len <= b->len);
    if (len == 0) return;
    b->len -= len;
    memmove(b->data, b->data + len, b->len);
}

enum err buf_detach(struct buf *b, char **ret_text)
{
    char *text = b->data ? b->data : malloc(1);

    if (!text) return ERR_NOMEM;
    text[b->len] = '\0';
    b->data = NULL;
    b->len = b->cap = 0;
    *ret_text = text;
    return ERR_OK;
}
