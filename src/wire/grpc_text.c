/* SPDX-License-Identifier: Apache-2.0 */
/* Text encodings of gRPC's headers: timeouts, status messages, binary metadata. */
#include <stdio.h>

#include "base/hex.h"
#include "base/time.h"
#include "text/base64.h"
#include "text/percent.h"
#include "wire/grpc.h"

/* -- grpc-timeout -- */

enum { TIMEOUT_DIGITS_MAX = 8, TIMEOUT_VALUE_MAX = 99999999 };

/* From the finest to the coarsest unit. */
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
        *ret_us = value * timeout_units[i].us; /* no overflow: 8 digits of hours fit */
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

enum err grpc_message_encode(struct str text, struct buf *into)
{
    size_t before = into->len;
    enum err err = percent_encode(text, STR(" !\"#$&'()*+,/:;<=>?@[\\]^`{|}"), into);

    if (err) into->len = before;
    return err;
}

enum err grpc_message_decode(struct str text, struct buf *into)
{
    char *out, *start;
    enum err err;

    if (text.len == 0) return ERR_OK;
    err = buf_reserve(into, text.len, &out); /* decoded text is never longer */
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

enum err grpc_bin_encode(struct str bytes, struct buf *into)
{
    struct buf padded; /* separate: the limit of `into` is for text without padding */
    enum err err;

    buf_init(&padded, SIZE_MAX);
    err = base64_encode(bytes, &padded);
    while (!err && padded.len > 0 && padded.data[padded.len - 1] == '=') padded.len--;
    if (!err) err = buf_append(into, buf_peek(&padded));
    buf_deinit(&padded);
    return err;
}

/* Padding is optional in the last group of four characters. */
static enum err decode_one(struct str text, struct buf *into)
{
    struct buf padded;
    enum err err;

    if (str_has(text, ' ') || str_has(text, '\t') || (text.len % 4 && str_has(text, '=')))
        return ERR_PARSE;
    buf_init(&padded, text.len + 3);
    err = buf_append(&padded, text);
    while (!err && padded.len % 4) err = buf_append_byte(&padded, '=');
    if (!err) err = base64_decode(buf_peek(&padded), into);
    buf_deinit(&padded);
    return err;
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
