/* SPDX-License-Identifier: Apache-2.0 */
/* Base64 encoding and decoding. */
#include "text/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

enum err base64_encode(struct str bytes, struct buf *out)
{
    char *room;
    size_t len, at = 0;
    enum err err;

    if (bytes.len > SIZE_MAX / 2) return ERR_TOO_LARGE;
    len = (bytes.len + 2) / 3 * 4;
    err = buf_reserve(out, len, &room);
    if (err) return err;
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        uint32_t group = (uint32_t)(uint8_t)bytes.at[i] << 16;
        if (left > 1) group |= (uint32_t)(uint8_t)bytes.at[i + 1] << 8;
        if (left > 2) group |= (uint8_t)bytes.at[i + 2];
        room[at++] = alphabet[group >> 18];
        room[at++] = alphabet[group >> 12 & 63];
        room[at++] = left > 1 ? alphabet[group >> 6 & 63] : '=';
        room[at++] = left > 2 ? alphabet[group & 63] : '=';
    }
    buf_commit(out, at);
    return ERR_OK;
}

static int digit(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    if (c == '/') return 63;
    return -1;
}

enum err base64_decode(struct str text, struct buf *out)
{
    char *room;
    size_t written = 0, in_group = 0, padding = 0;
    uint32_t group = 0;
    enum err err = buf_reserve(out, text.len / 4 * 3 + 3, &room);

    if (err == ERR_FULL) err = buf_reserve(out, out->max - out->len, &room);
    if (err) return err;
    size_t limit = out->max - out->len;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '\n' || c == '\r' || c == ' ' || c == '\t') continue;
        if (c == '=') {
            if (in_group < 2 || ++padding + in_group > 4) return ERR_PARSE;
            continue;
        }
        int value = digit(c);
        if (value < 0 || padding) return ERR_PARSE;
        group = group << 6 | (uint32_t)value;
        if (++in_group < 4) continue;
        if (limit - written < 3) return ERR_FULL;
        room[written++] = (char)(group >> 16);
        room[written++] = (char)(group >> 8);
        room[written++] = (char)group;
        in_group = 0;
        group = 0;
    }
    if (in_group) {
        if (in_group + padding != 4) return ERR_PARSE;
        group <<= 6 * padding;
        if (group & (padding == 1 ? 0xffu : 0xffffu)) return ERR_PARSE;
        if (limit - written < 3 - padding) return ERR_FULL;
        room[written++] = (char)(group >> 16);
        if (padding == 1) room[written++] = (char)(group >> 8);
    }
    buf_commit(out, written);
    return ERR_OK;
}
