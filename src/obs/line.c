/* SPDX-License-Identifier: Apache-2.0 */
/* Appends to a line of fixed size without allocating. All functions but those for quoted text and
 * doubles are async-signal-safe. */
#include "obs/line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/utf8.h"

void line_init(struct log_line *line, char *room, size_t cap)
{
    *line = (struct log_line){.at = room, .cap = cap};
}

struct str line_peek(const struct log_line *line)
{
    return str_of(line->at, line->len);
}

void line_add(struct log_line *line, struct str text)
{
    if (text.len > line->cap - line->len) {
        line->cut = true;
        return;
    }
    if (text.len > 0) memcpy(line->at + line->len, text.at, text.len);
    line->len += text.len;
}

void line_add_c(struct log_line *line, const char *text)
{
    line_add(line, str_from(text));
}

/* Most lines contain numbers, and printf would take half of their time. */
void line_add_u64(struct log_line *line, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    line_add(line, str_of(digits + at, sizeof digits - at));
}

void line_add_i64(struct log_line *line, int64_t value)
{
    if (value < 0) line_add(line, STR("-"));
    line_add_u64(line, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static void add_escaped(struct log_line *line, uint32_t code)
{
    char text[sizeof "\\uffff"]; /* no control character needs more */

    switch (code) {
    case '\n': line_add(line, STR("\\n")); break;
    case '\r': line_add(line, STR("\\r")); break;
    case '\t': line_add(line, STR("\\t")); break;
    default: snprintf(text, sizeof text, "\\u%04x", code & 0xffff); line_add_c(line, text);
    }
}

void line_add_quoted(struct log_line *line, struct str text, size_t max)
{
    size_t i = 0, plain = 0; /* text[plain..i) is not copied yet and needs no escape */
    bool too_long = text.len > max;

    line_add(line, STR("\""));
    while (i < text.len && i < max) {
        unsigned char c = (unsigned char)text.at[i];
        uint32_t code = 0;
        size_t len = 1;
        if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\') {
            i++;
            continue;
        }
        if (c >= 0x80) {
            len = utf8_read(str_tail(text, i), &code);
            if (len > 0 && i + len > max) break; /* never split a character */
            if (len > 0 && !utf8_is_control(code)) {
                i += len;
                continue;
            }
        } else {
            code = c;
        }
        line_add(line, str_of(text.at + plain, i - plain));
        if (len == 0) {
            line_add(line, STR("\xef\xbf\xbd"));
            len = 1;
        } else if (c == '"' || c == '\\') {
            line_add(line, str_of((const char[]){'\\', (char)c}, 2));
        } else {
            add_escaped(line, code);
        }
        i += len;
        plain = i;
    }
    line_add(line, str_of(text.at + plain, i - plain));
    line_add_c(line, too_long ? "...\"" : "\"");
}

void line_add_word(struct log_line *line, struct str text, size_t max)
{
    bool plain = text.len > 0 && text.len <= max;
    for (size_t i = 0; plain && i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        plain = c > 0x20 && c < 0x7f && c != '"' && c != '=' && c != '\\';
    }
    if (plain)
        line_add(line, text);
    else
        line_add_quoted(line, text, max);
}

void line_add_double(struct log_line *line, double value)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    line_add_c(line, text);
}
