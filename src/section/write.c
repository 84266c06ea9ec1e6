/* SPDX-License-Identifier: Apache-2.0 */
/* Writes sections: a view writes its parts one after the other. No I/O; runs on the state's
 * thread.
 *
 * Invariant: a row has the section's stamp if and only if the open view has written or copied
 * the row, or the row is newer than the view. These rows are at the end of their list. */
#include <stdlib.h>
#include <string.h>

#include "section/section.h"

enum { PARTS_MAX = 8 };

struct kept { /* a copy of a record whose row changed */
    struct kept *next;
    size_t len, at;
    char bytes[];
};
struct rows {
    struct section_view *view;
    struct kept *first, *last; /* in the order of copying */
    unsigned kind;
};
struct section_view {
    struct section *section; /* NULL: no rows, or the state was closed */
    struct section_part parts[PARTS_MAX];
    size_t count, at;
    struct encoder encoder; /* section_view_encoder's; `into` is NULL if unused */
    struct rows rows[SECTION_KINDS_MAX];
    struct buf scratch;
    enum err failed;
};

/* -- records -- */
size_t section_record_begin(struct encoder *out, char kind)
{
    encode_u8(out, (unsigned char)kind);
    encode_u32(out, 0);
    return out->err ? 0 : out->into->len;
}

void section_record_end(struct encoder *out, size_t start)
{
    if (!out->err) store_le32(out->into->data + start - 4, (uint32_t)(out->into->len - start));
}

static enum err row_write(const struct section *section, const struct section_row *row,
                          struct buf *into)
{
    struct encoder out = {into, ERR_OK};
    size_t start = section_record_begin(&out, section->kinds[row->kind]);

    section->write(row, &out);
    section_record_end(&out, start);
    return out.err;
}

/* -- rows -- */
void section_init(struct section *section, const char *kinds, section_write_fn *write)
{
    assert(strlen(kinds) <= SECTION_KINDS_MAX);
    *section = (struct section){.kinds = kinds, .write = write};
    for (size_t i = 0; i < SECTION_KINDS_MAX; i++) list_init(&section->rows[i]);
}

void section_row_born(struct section *section, struct section_row *row, unsigned kind)
{
    row->kind = (uint8_t)kind;
    row->stamp = section->stamp;
    list_init(&row->link);
    list_append(&section->rows[kind], &row->link);
}

static void row_written(struct section *section, struct section_row *row)
{
    row->stamp = section->stamp;
    list_remove(&row->link);
    list_append(&section->rows[row->kind], &row->link);
}

static enum err row_copy(struct section_view *view, const struct section_row *row)
{
    struct rows *rows = &view->rows[row->kind];
    struct kept *kept;
    enum err err;

    buf_clear(&view->scratch);
    err = row_write(view->section, row, &view->scratch);
    if (err) return err;
    kept = malloc(sizeof *kept + view->scratch.len);
    if (!kept) return ERR_NOMEM;
    *kept = (struct kept){.len = view->scratch.len};
    memcpy(kept->bytes, view->scratch.data, kept->len);
    if (rows->last)
        rows->last->next = kept;
    else
        rows->first = kept;
    rows->last = kept;
    return ERR_OK;
}

void section_row_keep(struct section *section, struct section_row *row)
{
    struct section_view *view = section->view;

    if (!view || row->stamp == section->stamp) return;
    if (!view->failed) view->failed = row_copy(view, row);
    row_written(section, row);
}

static void kept_drop(struct rows *rows)
{
    struct kept *first = rows->first;

    rows->first = first->next;
    if (!rows->first) rows->last = NULL;
    free(first);
}

/* Writes copies last, when no more copies can be added. A slice may end inside a copy. */
static enum err rows_next(void *opaque, size_t budget, struct buf *into, bool *ret_done)
{
    struct rows *rows = opaque;
    struct section *section = rows->view->section;
    struct list *list = &section->rows[rows->kind];
    size_t end = into->len + budget;
    enum err err = ERR_OK;

    while (!err && into->len < end) {
        struct section_row *row = CONTAINER_OF(list->next, struct section_row, link);
        struct kept *kept = rows->first;

        if (!list_empty(list) && row->stamp != section->stamp) {
            err = row_write(section, row, into);
            row_written(section, row);
        } else if (kept) {
            size_t part = min_size(kept->len - kept->at, end - into->len);

            err = buf_append(into, str_of(kept->bytes + kept->at, part));
            kept->at += part;
            if (kept->at == kept->len) kept_drop(rows);
        } else {
            *ret_done = true;
            break;
        }
    }
    return err;
}

static void rows_end(void *opaque)
{
    struct rows *rows = opaque;

    while (rows->first) kept_drop(rows);
}

/* -- bytes encoded when the view was opened -- */
static enum err bytes_next(void *opaque, size_t budget, struct buf *into, bool *ret_done)
{
    struct buf *bytes = opaque;
    size_t part = min_size(budget, bytes->len);
    enum err err = buf_append(into, str_of(bytes->data, part));

    if (!err) buf_consume(bytes, part);
    *ret_done = bytes->len == 0;
    return err;
}

static void bytes_end(void *opaque)
{
    struct buf *bytes = opaque;

    buf_deinit(bytes);
    free(bytes);
}

/* -- a view -- */
enum err section_view_open(struct section *section, struct section_view **ret_view)
{
    struct section_view *view;

    if (section && section->view) return ERR_FULL;
    view = calloc(1, sizeof *view);
    if (!view) return ERR_NOMEM;
    view->section = section;
    buf_init(&view->scratch, SIZE_MAX / 4);
    for (unsigned kind = 0; kind < SECTION_KINDS_MAX; kind++)
        view->rows[kind] = (struct rows){.view = view, .kind = kind};
    if (section) {
        section->stamp++;
        section->view = view;
    }
    *ret_view = view;
    return ERR_OK;
}

void section_view_add(struct section_view *view, struct section_part part)
{
    assert(view->count < PARTS_MAX);
    view->parts[view->count++] = part;
    if (!view->failed) view->failed = view->encoder.err;
    view->encoder = (struct encoder){NULL, view->failed};
}

struct encoder *section_view_encoder(struct section_view *view)
{
    struct buf *bytes;

    if (view->encoder.into || view->failed) return &view->encoder;
    bytes = malloc(sizeof *bytes);
    if (!bytes) {
        view->encoder.err = view->failed = ERR_NOMEM;
        return &view->encoder;
    }
    buf_init(bytes, SIZE_MAX / 4);
    section_view_add(view, (struct section_part){bytes_next, bytes_end, bytes});
    view->encoder.into = bytes;
    return &view->encoder;
}

void section_view_rows(struct section_view *view)
{
    for (unsigned kind = 0; view->section->kinds[kind]; kind++)
        section_view_add(view, (struct section_part){rows_next, rows_end, &view->rows[kind]});
}

void section_view_hash(struct section_view *view, char kind, uint64_t hash)
{
    struct encoder *out = section_view_encoder(view);
    size_t start = section_record_begin(out, kind);

    encode_u64(out, hash);
    section_record_end(out, start);
}

enum err section_view_ready(struct section_view *view, enum err err, void **ret_view)
{
    if (!err) err = view->failed ? view->failed : view->encoder.err;
    if (err)
        section_view_close(view);
    else
        *ret_view = view;
    return err;
}

enum err section_view_next(void *opaque, size_t budget, struct buf *into, bool *ret_done)
{
    struct section_view *view = opaque;
    size_t end = into->len + max_size(budget, 1);

    while (!view->failed && view->at < view->count && into->len < end) {
        struct section_part *part = &view->parts[view->at];
        bool done = false;

        view->failed = part->next(part->opaque, end - into->len, into, &done);
        if (!view->failed) view->at += done;
    }
    if (!view->failed) *ret_done = view->at == view->count;
    return view->failed;
}

static void view_detach(struct section_view *view)
{
    if (view->section) view->section->view = NULL;
    view->section = NULL;
    for (size_t i = 0; i < view->count; i++)
        if (view->parts[i].end) view->parts[i].end(view->parts[i].opaque);
    view->count = 0;
    view->failed = ERR_CLOSED;
}

void section_close(struct section *section)
{
    if (section->view) view_detach(section->view);
}

void section_view_close(void *opaque)
{
    struct section_view *view = opaque;

    if (!view) return;
    view_detach(view);
    buf_deinit(&view->scratch);
    free(view);
}
