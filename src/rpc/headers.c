/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of header names and values that a user may choose. Pure. They run for each header of each
 * call, so they avoid branches that are hard to predict. */
#include "rpc/headers.h"

bool header_name_is_free(struct str name)
{
    if (name.len == 0 || str_starts(name, STR("grpc-")) || str_equal(name, STR("content-type")) ||
        str_equal(name, STR("te")))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.')
            return false;
    }
    return true;
}

bool header_value_is_printable(struct str value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] < ' ' || value.at[i] > '~') return false;
    return true;
}

/* No branch per digit, because trace ids are random and would defeat branch prediction. */
bool header_is_hex(struct str s)
{
    unsigned bad = 0;

    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)(unsigned char)s.at[i] - '0';
        unsigned letter = (unsigned)(unsigned char)s.at[i] - 'a';
        bad |= (unsigned)(digit > 9) & (unsigned)(letter > 5);
    }
    return !bad;
}
