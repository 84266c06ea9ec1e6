/* SPDX-License-Identifier: Apache-2.0 */
/* Cells are kept in chunks of the arena until the widths are known. */
#include "ctl/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "conf/printable.h"
#include "text/rfc3339.h"

enum { CHUNK_CELLS = 1024, CELL_MAX = 64 * 1024, FORMAT_CAP = 1024, GAP = 2 };

struct cell {
    struct str text;
    size_t width; /* in characters */
};
struct table_chunk {
    struct table_chunk *next;
    size_t count;
    struct cell cells[CHUNK_CELLS];
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

/* Characters, when all of them may be shown; else SIZE_MAX. */
static size_t table_width_of(struct str text)
{
    size_t width = 0;

    while (text.len > 0) {
        int32_t code;
        text = str_tail(text, printable_next(text, &code));
        if (!printable_code(code)) return SIZE_MAX;
        width++;
    }
    return width;
}

static void table_add(struct text_table *t, struct cell cell)
{
    size_t column = t->cells % t->column_count;

    if (!t->last || t->last->count == CHUNK_CELLS) {
        struct table_chunk *chunk = arena_alloc(t->memory, sizeof *chunk);
        if (!chunk) {
            table_fail(t, ERR_NOMEM);
            return;
        }
        chunk->next = NULL;
        chunk->count = 0;
        if (t->last)
            t->last->next = chunk;
        else
            t->first = chunk;
        t->last = chunk;
    }
    t->last->cells[t->last->count++] = cell;
    t->cells++;
    t->width[column] = max_size(t->width[column], cell.width);
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
        table_add(t, (struct cell){str_of(copy, shown.len), table_width_of(buf_peek(&shown))});
    else
        table_fail(t, err ? err : ERR_NOMEM);
    buf_deinit(&shown);
}

void table_text(struct text_table *t, const char *text)
{
    struct cell cell = {str_from(text), table_width_of(str_from(text))};

    if (t->err) return;
    if (cell.width == SIZE_MAX)
        table_add_escaped(t, cell.text);
    else
        table_add(t, cell);
}

static void table_add_copy(struct text_table *t, const char *text)
{
    const char *copy = t->err ? NULL : arena_dup(t->memory, str_from(text));

    if (copy)
        table_text(t, copy);
    else
        table_fail(t, ERR_NOMEM);
}

void table_format(struct text_table *t, const char *format, ...)
{
    char text[FORMAT_CAP];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    table_add_copy(t, text);
}

void table_number(struct text_table *t, int64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, number);
    table_add_copy(t, text);
}

void table_hex(struct text_table *t, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof text, "%016" PRIx64, number);
    table_add_copy(t, text);
}

void table_time(struct text_table *t, int64_t unix_ns)
{
    char text[RFC3339_CAP];

    if (unix_ns <= 0) {
        table_text(t, "\xe2\x80\x94");
        return;
    }
    rfc3339_text(unix_ns / 1000000000, 0, 0, text);
    table_add_copy(t, text);
}

static enum err table_put(const struct text_table *t, size_t column, struct str text, size_t width,
                          struct buf *into)
{
    bool last = column + 1 == t->column_count;
    enum err err = buf_append(into, text);

    if (err) return err;
    if (last) return buf_append_byte(into, '\n');
    return buf_appendf(into, "%*s", (int)(t->width[column] - width + GAP), "");
}

enum err table_print(const struct text_table *t, struct buf *into)
{
    enum err err = t->err;
    size_t column = 0;

    for (size_t i = 0; i < t->column_count && !err; i++)
        err = table_put(t, i, str_from(t->columns[i]), strlen(t->columns[i]), into);
    assert(t->column_count > 0 && (t->err || t->cells % t->column_count == 0));
    for (const struct table_chunk *chunk = t->first; chunk && !err; chunk = chunk->next) {
        for (size_t i = 0; i < chunk->count && !err; i++) {
            err = table_put(t, column, chunk->cells[i].text, chunk->cells[i].width, into);
            column = (column + 1) % t->column_count;
        }
    }
    return err;
}
