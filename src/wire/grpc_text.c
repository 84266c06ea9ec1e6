/* SPDX-License-Identifier: Apache-2.0 */
/* The small texts of gRPC's headers: timeouts, status messages, binary metadata. */
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/time.h"
#include "wire/grpc.h"

/* -- grpc-timeout -- */

enum { TIMEOUT_DIGITS_MAX = 8, TIMEOUT_VALUE_MAX = 99999999 };

/* From the finest that can be written down exactly to the coarsest. */
static const struct {
    char unit;
    uint64_t us;
} timeout_units[] = {
    {'u', 1}, {'m', 1000}, {'S', 1000000}, {'M', 60000000}, {'H', 3600000000},
};

enum err grpc_timeout_parse(struct str text, uint64_t *ret_us)
{
    uint64_t value;
    char unit;

    if (text.len < 2 || text.len > TIMEOUT_DIGITS_MAX + 1) return ERR_PARSE;
    unit = text.at[text.len - 1];
    if (str_to_u64(str_of(text.at, text.len - 1), &value)) return ERR_PARSE;
    if (unit == 'n') {
        *ret_us = (value + NS_PER_US - 1) / NS_PER_US;
        return ERR_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(timeout_units); i++) {
        if (timeout_units[i].unit != unit) continue;
        *ret_us = value * timeout_units[i].us; /* 8 digits of hours fit 64 bits of microseconds */
        return ERR_OK;
    }
    return ERR_PARSE;
}

void grpc_timeout_text(uint64_t us, char out[16])
{
    for (size_t i = 0; i < ARRAY_LEN(timeout_units); i++) {
        uint64_t unit = timeout_units[i].us, value = us / unit + (us % unit > 0);
        if (value > TIMEOUT_VALUE_MAX) continue;
        snprintf(out, 16, "%u%c", (unsigned)value, timeout_units[i].unit);
        return;
    }
    snprintf(out, 16, "%uH", (unsigned)TIMEOUT_VALUE_MAX);
}

/* -- grpc-message -- */

static bool stands_for_itself(char c)
{
    return c >= 0x20 && c <= 0x7e && c != '%';
}

enum err grpc_message_encode(struct str text, struct buf *into)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t need = 0;
    char *out;
    enum err err;

    for (size_t i = 0; i < text.len; i++) need += stands_for_itself(text.at[i]) ? 1 : 3;
    if (need == 0) return ERR_OK;
    err = buf_reserve(into, need, &out);
    if (err) return err;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (stands_for_itself(text.at[i])) {
            *out++ = text.at[i];
            continue;
        }
        *out++ = '%';
        *out++ = hex[c >> 4];
        *out++ = hex[c & 15];
    }
    buf_commit(into, need);
    return ERR_OK;
}

enum err grpc_message_decode(struct str text, struct buf *into)
{
    char *out, *start;
    enum err err;

    if (text.len == 0) return ERR_OK;
    err = buf_reserve(into, text.len, &out); /* it never gets longer */
    if (err) return err;
    start = out;
    for (size_t i = 0; i < text.len; i++) {
        int high = -1, low = -1;
        if (text.at[i] == '%' && text.len - i > 2) {
            high = hex_value(text.at[i + 1]);
            low = hex_value(text.at[i + 2]);
        }
        if (high < 0 || low < 0) {
            *out++ = text.at[i];
            continue;
        }
        *out++ = (char)(high << 4 | low);
        i += 2;
    }
    buf_commit(into, (size_t)(out - start));
    return ERR_OK;
}

/* -- binary metadata -- */

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

enum err grpc_bin_encode(struct str bytes, struct buf *into)
{
    size_t need = bytes.len / 3 * 4 + (bytes.len % 3 > 0 ? bytes.len % 3 + 1 : 0);
    char *out;
    enum err err;

    if (bytes.len == 0) return ERR_OK;
    if (bytes.len > SIZE_MAX / 4) return ERR_TOO_LARGE;
    err = buf_reserve(into, need, &out);
    if (err) return err;
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t n = min_size(bytes.len - i, 3);
        uint32_t word = 0;
        for (size_t j = 0; j < 3; j++)
            word = word << 8 | (j < n ? (unsigned char)bytes.at[i + j] : 0);
        for (size_t j = 0; j <= n; j++) *out++ = base64[word >> (18 - 6 * j) & 63];
    }
    buf_commit(into, need);
    return ERR_OK;
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

/* Padding, where there is any, completes the last four. */
static enum err without_padding(struct str *text)
{
    size_t padded = text->len;

    while (text->len > 0 && padded - text->len < 2 && text->at[text->len - 1] == '=') text->len--;
    if (padded != text->len && padded % 4 != 0) return ERR_PARSE;
    return text->len % 4 == 1 ? ERR_PARSE : ERR_OK;
}

static enum err decode_one(struct str text, struct buf *into)
{
    uint32_t word = 0;
    unsigned bits = 0;
    size_t made = 0;
    char *out;
    enum err err = without_padding(&text);

    if (err || text.len == 0) return err;
    err = buf_reserve(into, text.len / 4 * 3 + text.len % 4, &out);
    if (err) return err;
    for (size_t i = 0; i < text.len; i++) {
        int value = base64_value(text.at[i]);
        if (value < 0) return ERR_PARSE;
        word = word << 6 | (uint32_t)value;
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        out[made++] = (char)(word >> bits);
    }
    buf_commit(into, made);
    return ERR_OK;
}

enum err grpc_bin_decode(struct str text, struct buf *into)
{
    struct str rest = text, part;
    size_t before = into->len;
    bool first = true;
    enum err err = ERR_OK;

    if (text.len == 0) return ERR_OK;
    while (!err && str_split(&rest, ',', &part)) {
        if (!first) err = buf_append_byte(into, ',');
        if (!err) err = decode_one(part, into);
        first = false;
    }
    if (err) into->len = before;
    return err;
}
