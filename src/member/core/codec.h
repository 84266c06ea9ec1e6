/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and texts as bytes: of commands and of snapshots. Inside member/core only. */
#ifndef MEMBER_CORE_CODEC_H
#define MEMBER_CORE_CODEC_H
#include "base/buf.h"
#include "base/bytes.h"

struct pen { /* the first failure stays and makes the rest do nothing */
    struct buf *into;
    enum err err;
};

static inline void pen_bytes(struct pen *pen, const void *bytes, size_t len)
{
    if (!pen->err && len) pen->err = buf_append(pen->into, str_of(bytes, len));
}
static inline void pen_u8(struct pen *pen, unsigned value)
{
    if (!pen->err) pen->err = buf_append_byte(pen->into, (char)value);
}
static inline void pen_u32(struct pen *pen, uint32_t value)
{
    char bytes[4];

    store_le32(bytes, value);
    pen_bytes(pen, bytes, sizeof bytes);
}
static inline void pen_u64(struct pen *pen, uint64_t value)
{
    char bytes[8];

    store_le64(bytes, value);
    pen_bytes(pen, bytes, sizeof bytes);
}
static inline void pen_text(struct pen *pen, struct str text)
{
    pen_u32(pen, (uint32_t)text.len);
    pen_bytes(pen, text.at, text.len);
}

struct eye { /* what is not there reads as zero, and `good` is false from then on */
    struct str left;
    bool good;
};

static inline const char *eye_bytes(struct eye *eye, size_t len)
{
    const char *at = eye->left.at;

    eye->good = eye->good && eye->left.len >= len;
    if (!eye->good) return NULL;
    eye->left = str_of(at + len, eye->left.len - len);
    return at;
}
static inline unsigned eye_u8(struct eye *eye)
{
    const char *at = eye_bytes(eye, 1);

    return at ? (unsigned char)*at : 0;
}
static inline bool eye_bool(struct eye *eye)
{
    unsigned value = eye_u8(eye);

    if (value > 1) eye->good = false;
    return value == 1;
}
static inline uint32_t eye_u32(struct eye *eye)
{
    const char *at = eye_bytes(eye, 4);

    return at ? load_le32(at) : 0;
}
static inline uint64_t eye_u64(struct eye *eye)
{
    const char *at = eye_bytes(eye, 8);

    return at ? load_le64(at) : 0;
}
static inline void eye_copy(struct eye *eye, void *to, size_t len)
{
    const char *at = eye_bytes(eye, len);

    if (at) memcpy(to, at, len);
}
static inline struct str eye_text(struct eye *eye, size_t max)
{
    uint32_t len = eye_u32(eye);
    const char *at;

    if (len > max) eye->good = false;
    at = eye_bytes(eye, len);
    return at ? str_of(at, len) : STR_EMPTY;
}
static inline bool eye_done(const struct eye *eye)
{
    return eye->good && eye->left.len == 0;
}

struct member_rules;
void pen_rules(struct pen *pen, const struct member_rules *rules);
/* False: out of bounds. */
bool eye_rules(struct eye *eye, struct member_rules *ret_rules);
#endif
