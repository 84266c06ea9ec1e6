/* SPDX-License-Identifier: Apache-2.0 */
/* Escapes control characters, as text/utf8.h defines them, and bytes that are not UTF-8. */
#include "conf/printable.h"

#include "text/utf8.h"

static enum err printable_append_one(struct str character, uint32_t code, struct buf *into)
{
    if (!utf8_is_control(code)) return buf_append(into, character);
    if (code == '\n') return buf_append_c(into, "\\n");
    if (code == '\t') return buf_append_c(into, "\\t");
    if (code == '\r') return buf_append_c(into, "\\r");
    return buf_appendf(into, code < 0x80 ? "\\x%02X" : "\\u%04X", (unsigned)code);
}

enum err printable_append(struct str text, struct buf *into)
{
    enum err err = ERR_OK;

    while (text.len > 0 && !err) {
        uint32_t code;
        size_t len = utf8_read(text, &code);
        if (len > 0)
            err = printable_append_one(str_of(text.at, len), code, into);
        else
            err = buf_appendf(into, "\\x%02X", (unsigned char)text.at[0]);
        text = str_tail(text, max_size(len, 1));
    }
    return err;
}
