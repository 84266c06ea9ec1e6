/* SPDX-License-Identifier: Apache-2.0 */
/* A TOML document as one line of text, for tables of cases: `a = 1` is {a=int:1}, `[b.c]` is
 * {b={c={}}}. Static, so that each test program has its own. */
#ifndef TESTS_UNIT_TEXT_DUMP_TOML_H
#define TESTS_UNIT_TEXT_DUMP_TOML_H
#include <inttypes.h>
#include <math.h>

#include "base/buf.h"
#include "text/toml.h"

static inline void dump_time(const struct toml_value *value, struct buf *out)
{
    static const char *const tags[] = {"offset", "local", "date", "time"};
    struct rfc3339_fields t;
    enum toml_type type = toml_type(value);

    CHECK_OK("a date is read as one", toml_datetime(value, &t, NULL));
    buf_appendf(out, "%s:", tags[type - TOML_OFFSET_DATETIME]);
    if (type != TOML_LOCAL_TIME) buf_appendf(out, "%04u-%02u-%02u", t.year, t.month, t.day);
    if (type == TOML_LOCAL_DATE) return;
    buf_appendf(out, "T%02u:%02u:%02u.%09u", t.hour, t.minute, t.second, t.nanosecond);
    if (type == TOML_OFFSET_DATETIME) buf_appendf(out, "%+d", t.offset_minutes);
}

static inline void dump_value(const struct toml_value *value, struct buf *out)
{
    enum toml_type type = toml_type(value);
    bool table = type == TOML_TABLE;
    struct str text;
    int64_t integer;
    double real;
    bool truth;

    if (table || type == TOML_ARRAY) {
        buf_append_byte(out, table ? '{' : '[');
        for (const struct toml_value *v = toml_first(value); v; v = toml_next(v)) {
            if (v != toml_first(value)) buf_append_byte(out, ' ');
            if (table) buf_appendf(out, "%.*s=", STR_ARG(toml_key(v)));
            dump_value(v, out);
        }
        buf_append_byte(out, table ? '}' : ']');
    } else if (!toml_string(value, &text, NULL)) {
        buf_append_byte(out, '"');
        for (size_t i = 0; i < text.len; i++)
            if (text.at[i] >= 0 && text.at[i] < 0x20)
                buf_appendf(out, "<%02x>", text.at[i]);
            else
                buf_append_byte(out, text.at[i]);
        buf_append_byte(out, '"');
    } else if (!toml_i64(value, &integer, NULL)) {
        buf_appendf(out, "int:%" PRId64, integer);
    } else if (!toml_bool(value, &truth, NULL)) {
        buf_append_c(out, truth ? "true" : "false");
    } else if (!toml_double(value, &real, NULL)) {
        if (isnan(real))
            buf_append_c(out, "float:nan");
        else
            buf_appendf(out, "float:%.17g", real);
    } else {
        dump_time(value, out);
    }
}
#endif
