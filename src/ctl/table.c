/* SPDX-License-Identifier: Apache-2.0 */
/* A table for people. Cells are kept in the arena until the column widths are known. */
#include "ctl/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "conf/printable.h"
#include "text/rfc3339.h"
#include "text/utf8.h"

enum { CELL_MAX = 64 * 1024, FORMAT_CAP = 1024, GAP = 2 };

struct table_cell {
    struct table_cell *next;
    struct str text;
    size_t width; /* in characters */
};

void table_init(struct text_table *t, const char *const *columns, struct arena *memory)
{
    *t = (struct text_table){.memory = memory, .columns = columns};
    for (; columns[t->column_count]; t->column_count++) {
        assert(t->column_count < TABLE_COLUMNS_MAX);
        t->width[t->column_count] = strlen(columns[t->column_count]);
    }
    assert(t->column_count > 0);
}

static void table_fail(struct text_table *t, enum err err)
{
    if (!t->err) t->err = err;
}

/* SIZE_MAX: a character is not printable. */
static size_t table_width_of(struct str text)
{
    size_t width = 0;

    while (text.len > 0) {
        uint32_t code;
        size_t len = utf8_read(text, &code);
        if (len == 0 || utf8_is_control(code)) return SIZE_MAX;
        text = str_tail(text, len);
        width++;
    }
    return width;
}

static void table_add(struct text_table *t, struct str text, size_t width)
{
    size_t column = t->cells % t->column_count;
    struct table_cell *cell = arena_alloc(t->memory, sizeof *cell);

    if (!cell) {
        table_fail(t, ERR_NOMEM);
        return;
    }
    *cell = (struct table_cell){NULL, text, width};
    *(t->last ? &t->last->next : &t->first) = cell;
    t->last = cell;
    t->cells++;
    t->width[column] = max_size(t->width[column], width);
}

static void table_add_escaped(struct text_table *t, struct str text)
{
    struct buf shown;
    char *copy;
    enum err err;

    buf_init(&shown, CELL_MAX);
    err = printable_append(text, &shown);
    copy = err ? NULL : arena_dup(t->memory, buf_peek(&shown));
    if (copy)
        table_add(t, str_of(copy, shown.len), table_width_of(buf_peek(&shown)));
    else
        table_fail(t, err ? err : ERR_NOMEM);
    buf_deinit(&shown);
}

void table_text(struct text_table *t, const char *text)
{
    size_t width = table_width_of(str_from(text));

    if (t->err) return;
    if (width == SIZE_MAX)
        table_add_escaped(t, str_from(text));
    else
        table_add(t, str_from(text), width);
}

void table_format(struct text_table *t, const char *format, ...)
{
    char text[FORMAT_CAP];
    const char *copy;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    copy = t->err ? NULL : arena_dup(t->memory, str_from(text));
    if (copy)
        table_text(t, copy);
    else
        table_fail(t, ERR_NOMEM);
}

void table_number(struct text_table *t, int64_t number)
{
    table_format(t, "%" PRId64, number);
}

void table_hex(struct text_table *t, uint64_t number)
{
    table_format(t, "%016" PRIx64, number);
}

void table_time(struct text_table *t, int64_t unix_ns)
{
    char text[RFC3339_CAP];

    if (unix_ns <= 0) {
        table_text(t, TABLE_DASH);
        return;
    }
    rfc3339_text(unix_ns / 1000000000, 0, 0, text);
    table_format(t, "%s", text);
}

static enum err table_put(const struct text_table *t, size_t column, struct str text, size_t width,
                          bool last, struct buf *into)
{
    enum err err = buf_append(into, text);

    if (err) return err;
    if (last) return buf_append_byte(into, '\n');
    return buf_appendf(into, "%*s", (int)(t->width[column] - width + GAP), "");
}

static enum err table_put_titles(const struct text_table *t, bool bold, struct buf *into)
{
    enum err err = bold ? buf_append_c(into, "\033[1m") : ERR_OK;

    for (size_t i = 0; i < t->column_count && !err; i++) {
        bool last = i + 1 == t->column_count;
        if (last && bold)
            err = buf_appendf(into, "%s\033[0m\n", t->columns[i]);
        else
            err = table_put(t, i, str_from(t->columns[i]), strlen(t->columns[i]), last, into);
    }
    return err;
}

enum err table_print(const struct text_table *t, uint32_t flags, struct buf *into)
{
    enum err err = t->err;
    size_t column = 0;

    if (!err && !(flags & (TABLE_NO_HEADERS | TABLE_NAMES)))
        err = table_put_titles(t, flags & TABLE_BOLD, into);
    assert(t->column_count > 0 && (t->err || t->cells % t->column_count == 0));
    for (const struct table_cell *cell = t->first; cell && !err; cell = cell->next) {
        bool last = column + 1 == t->column_count || flags & TABLE_NAMES;
        if (column == 0 || !(flags & TABLE_NAMES))
            err = table_put(t, column, cell->text, cell->width, last, into);
        column = (column + 1) % t->column_count;
    }
    return err;
}
