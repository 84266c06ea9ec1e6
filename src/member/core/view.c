/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot while commands go on (docs/formats/member.md).
 *
 * Rows that the view has not told yet stand first on the list of their kind; one that changes or
 * goes before its turn is written aside, as it was. So a view begins and ends at once, a slice
 * costs what it tells, and a command what it changes.
 *
 * Bytes: records of a kind byte, a length of four and the content. H (format, clock, head),
 * W workers, P partitions, I items, E events, and Z, the hash of the whole, which a restore must
 * reach again. */
#include <stdlib.h>
#include <string.h>

#include "member/core/codec.h"
#include "member/core/internal.h"

static const char kinds[] = "WPIE"; /* by enum row_kind */

struct kept {
    struct kept *next;
    size_t len, at;
    char bytes[];
};
struct member_view {
    struct membership *m;
    struct {
        struct kept *first, *last;
    } kept[ROW_KINDS];
    struct buf head; /* the record, as the moment had it */
    uint64_t hash;
    int stage; /* -1: the head; ROW_KINDS: the hash; behind it: done */
};

static void record(struct buf *into, char kind, const struct row *row)
{
    struct pen pen = {into, ERR_OK};
    size_t start = into->len;

    pen_u8(&pen, (unsigned char)kind);
    pen_u32(&pen, 0);
    row_write(&pen, row, true);
    if (pen.err) (void)member_must(NULL);
    store_le32(into->data + start + 1, (uint32_t)(into->len - start - 5));
}

static void tell(struct membership *m, struct row *row)
{
    row->stamp = m->view_stamp;
    list_remove(&row->told);
    list_append(&m->told[row->kind], &row->told);
}

void view_keep(struct membership *m, struct row *row)
{
    struct member_view *view = m->view;
    struct kept *kept;

    if (!view || row->stamp == m->view_stamp) return;
    buf_clear(&m->scratch);
    record(&m->scratch, kinds[row->kind], row);
    kept = member_must(malloc(sizeof *kept + m->scratch.len));
    *kept = (struct kept){.len = m->scratch.len};
    memcpy(kept->bytes, m->scratch.data, kept->len);
    if (view->kept[row->kind].last)
        view->kept[row->kind].last->next = kept;
    else
        view->kept[row->kind].first = kept;
    view->kept[row->kind].last = kept;
    tell(m, row);
}

static void kept_drop(struct member_view *view, int kind)
{
    struct kept *first = view->kept[kind].first;

    view->kept[kind].first = first->next;
    if (!first->next) view->kept[kind].last = NULL;
    free(first);
}

struct member_view *member_view_open(struct membership *m)
{
    struct member_view *view = m->view ? NULL : calloc(1, sizeof *view);
    struct pen pen;

    if (!view) return NULL;
    view->m = m;
    view->stage = -1;
    view->hash = member_hash(m);
    buf_init(&view->head, 8192);
    pen = (struct pen){&view->head, ERR_OK};
    pen_u8(&pen, 'H');
    pen_u32(&pen, 0);
    pen_u32(&pen, MEMBER_FORMAT);
    pen_u64(&pen, m->clock_ns);
    member_head_write(&pen, &m->head);
    if (pen.err) {
        buf_deinit(&view->head);
        free(view);
        return NULL;
    }
    store_le32(view->head.data + 1, (uint32_t)(view->head.len - 5));
    m->view_stamp++;
    m->view = view;
    return view;
}

void member_view_close(struct member_view *view)
{
    if (!view) return;
    view->m->view = NULL;
    for (int kind = 0; kind < ROW_KINDS; kind++)
        while (view->kept[kind].first) kept_drop(view, kind);
    buf_deinit(&view->head);
    free(view);
}

/* False: nothing is left of this kind. What was kept comes last, when it can no longer grow, and
 * may be cut anywhere. */
static bool write_kind(struct member_view *view, int kind, struct buf *into, size_t end)
{
    struct membership *m = view->m;

    while (into->len < end) {
        struct row *row = CONTAINER_OF(m->told[kind].next, struct row, told);
        struct kept *kept = view->kept[kind].first;
        size_t part;

        if (!list_empty(&m->told[kind]) && row->stamp != m->view_stamp) {
            record(into, kinds[kind], row);
            tell(m, row);
            continue;
        }
        if (!kept) return false;
        part = min_size(kept->len - kept->at, end - into->len);
        if (buf_append(into, str_of(kept->bytes + kept->at, part))) (void)member_must(NULL);
        kept->at += part;
        if (kept->at == kept->len) kept_drop(view, kind);
    }
    return true;
}

bool member_view_next(struct member_view *view, size_t budget, struct buf *into, enum err *ret_err)
{
    size_t end = into->len + (budget ? budget : 1);
    struct pen pen = {into, ERR_OK};

    *ret_err = ERR_OK;
    while (into->len < end && view->stage <= ROW_KINDS) {
        if (view->stage < 0) {
            pen_bytes(&pen, view->head.data, view->head.len);
        } else if (view->stage == ROW_KINDS) {
            pen_u8(&pen, 'Z');
            pen_u32(&pen, 8);
            pen_u64(&pen, view->hash);
        } else if (write_kind(view, view->stage, into, end)) {
            continue;
        }
        if (pen.err) (void)member_must(NULL);
        view->stage++;
    }
    return view->stage <= ROW_KINDS;
}
