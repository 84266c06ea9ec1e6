/* SPDX-License-Identifier: Apache-2.0 */
/* Text of the request line: percent-decoding, safe paths, query values. No state, no library. */
#include "io/http_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/hex.h"

enum err http_decode(struct str text, bool plus_is_space, char *into, size_t *ret_len)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '%') {
            if (text.len - i < 3) return ERR_PARSE;
            int high = hex_value(text.at[i + 1]), low = hex_value(text.at[i + 2]);
            if (high < 0 || low < 0) return ERR_PARSE;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (c == '\0') return ERR_PARSE; /* it would end a C string early, past every check */
        into[len++] = c;
    }
    *ret_len = len;
    return ERR_OK;
}

bool http_path_is_safe(struct str path)
{
    struct str rest, segment;

    if (path.len == 0 || path.at[0] != '/' || !str_is_utf8(path)) return false;
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.at[i];
        if (c < 0x20 || c == 0x7f) return false;
    }
    rest = path;
    while (str_split(&rest, '/', &segment))
        if (str_equal(segment, STR(".")) || str_equal(segment, STR(".."))) return false;
    return true;
}

enum err http_query(struct str query, struct str key, struct buf *into)
{
    struct str rest = query, pair;
    enum err err = ERR_NOT_FOUND;
    char *scratch;

    if (query.len == 0) return ERR_NOT_FOUND;
    scratch = malloc(query.len);
    if (!scratch) return ERR_NOMEM;
    while (str_split(&rest, '&', &pair)) {
        size_t equals = str_find(pair, '='), len;
        struct str name = str_of(pair.at, equals), value = str_tail(pair, equals + 1);
        err = http_decode(name, true, scratch, &len);
        if (err) break;
        err = ERR_NOT_FOUND;
        if (!str_equal(str_of(scratch, len), key)) continue;
        err = http_decode(value, true, scratch, &len);
        if (!err) err = buf_append(into, str_of(scratch, len));
        break;
    }
    free(scratch);
    return err;
}
