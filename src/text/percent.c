/* SPDX-License-Identifier: Apache-2.0 */
/* Percent-encoding of URLs. */
#include "text/percent.h"

enum err percent_encode(struct str text, struct str also, struct buf *into)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < text.len; i++) {
        char c = text.at[i];
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     str_has(STR("-._~"), c) || str_has(also, c);
        err = plain ? buf_append_byte(into, c) : buf_appendf(into, "%%%02X", (unsigned)(uint8_t)c);
    }
    return err;
}
