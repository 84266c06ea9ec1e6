/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes numbers and texts, little-endian, for commands and snapshot sections. */
#ifndef SECTION_CODEC_H
#define SECTION_CODEC_H
#include "base/buf.h"
#include "base/bytes.h"

struct encoder { /* after the first failure all further calls do nothing */
    struct buf *into;
    enum err err;
};

static inline void encode_bytes(struct encoder *out, const void *bytes, size_t len)
{
    if (!out->err && len) out->err = buf_append(out->into, str_of(bytes, len));
}
static inline void encode_u8(struct encoder *out, unsigned value)
{
    if (!out->err) out->err = buf_append_byte(out->into, (char)value);
}
static inline void encode_u32(struct encoder *out, uint32_t value)
{
    char bytes[4];

    store_le32(bytes, value);
    encode_bytes(out, bytes, sizeof bytes);
}
static inline void encode_u64(struct encoder *out, uint64_t value)
{
    char bytes[8];

    store_le64(bytes, value);
    encode_bytes(out, bytes, sizeof bytes);
}
static inline void encode_text(struct encoder *out, struct str text)
{
    encode_u32(out, (uint32_t)text.len);
    encode_bytes(out, text.at, text.len);
}

struct decoder { /* missing bytes read as zero, and `good` stays false from then on */
    struct str left;
    bool good;
};

static inline const char *decode_bytes(struct decoder *in, size_t len)
{
    const char *at = in->left.at;

    in->good = in->good && in->left.len >= len;
    if (!in->good) return NULL;
    in->left = str_of(at + len, in->left.len - len);
    return at;
}
static inline unsigned decode_u8(struct decoder *in)
{
    const char *at = decode_bytes(in, 1);

    return at ? (unsigned char)*at : 0;
}
static inline bool decode_bool(struct decoder *in)
{
    unsigned value = decode_u8(in);

    if (value > 1) in->good = false;
    return value == 1;
}
static inline uint32_t decode_u32(struct decoder *in)
{
    const char *at = decode_bytes(in, 4);

    return at ? load_le32(at) : 0;
}
static inline uint64_t decode_u64(struct decoder *in)
{
    const char *at = decode_bytes(in, 8);

    return at ? load_le64(at) : 0;
}
static inline void decode_copy(struct decoder *in, void *to, size_t len)
{
    const char *at = decode_bytes(in, len);

    if (at) memcpy(to, at, len);
}
static inline struct str decode_text(struct decoder *in, size_t max)
{
    uint32_t len = decode_u32(in);
    const char *at;

    if (len > max) in->good = false;
    at = decode_bytes(in, len);
    return at ? str_of(at, len) : STR_EMPTY;
}
static inline bool decode_done(const struct decoder *in)
{
    return in->good && in->left.len == 0;
}
#endif
