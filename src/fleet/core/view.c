/* SPDX-License-Identifier: Apache-2.0 */
/* Views: all rows at one moment, in order, while commands are applied.
 *
 * A view walks the live tables, with two rules. A row created after the view has a higher `born`,
 * and is skipped. If a row leaves its table before the walk has reached the row, the view's set
 * `kept` gets the row, and the walk returns the row at its place.
 *
 * The walk's position is a copy of the last key, because the row itself may be gone. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fleet/core/internal.h"

struct fleet_view {
    struct fleet *fleet;
    uint32_t number;
    struct fleet_counts counts;
    uint64_t hash;
    enum err failed;
    enum fleet_table table;          /* the table that the view is reading */
    struct order kept[FLEET_TABLES]; /* per table: removed rows that must still be returned */
    void *given;                     /* row from `kept`, freed by the next call, or NULL */
    enum fleet_table given_table;
    struct order_place place; /* valid while `changes` equals fleet->changes */
    uint64_t changes;
    bool begun; /* a row of this table was returned, so `last` is set */
    size_t first_len, second_len;
    char last[LEAVING_TEXT_MAX + FLEET_ID_MAX];
};
_Static_assert((size_t)FLEET_LABEL_KEY_MAX >= FLEET_ID_MAX, "any key fits in `last`");

enum err fleet_view_open(struct fleet *fleet, struct fleet_view **ret_view)
{
    struct fleet_view *view;
    unsigned slot = 0;

    while (slot < FLEET_VIEWS_MAX && fleet->views[slot]) slot++;
    if (slot == FLEET_VIEWS_MAX) return ERR_FULL;
    view = memory_take(&fleet->bytes, sizeof *view);
    if (!view) return ERR_NOMEM;
    assert(fleet->view_number < UINT32_MAX); /* enough for one view per second for a century */
    *view = (struct fleet_view){.fleet = fleet,
                                .number = ++fleet->view_number,
                                .counts = fleet_counts(fleet),
                                .hash = fleet_hash(fleet),
                                .changes = fleet->changes,
                                .place = order_begin(&fleet->tables[0])};
    for (unsigned t = 0; t < FLEET_TABLES; t++) view->kept[t].kind = &fleet->kinds[t];
    fleet->views[slot] = view;
    *ret_view = view;
    return ERR_OK;
}

static void kept_clear(struct fleet_view *view)
{
    for (unsigned t = 0; t < FLEET_TABLES; t++) rows_drop(view->fleet, t, &view->kept[t]);
    if (view->given) row_drop(view->fleet, view->given_table, view->given);
    view->given = NULL;
}

void fleet_view_close(struct fleet_view *view)
{
    struct fleet *fleet;

    if (!view) return;
    fleet = view->fleet;
    kept_clear(view);
    for (unsigned i = 0; i < FLEET_VIEWS_MAX; i++)
        if (fleet->views[i] == view) fleet->views[i] = NULL;
    memory_give(&fleet->bytes, view, sizeof *view);
}

void views_cancel(struct fleet *fleet)
{
    for (unsigned i = 0; i < FLEET_VIEWS_MAX; i++) {
        if (!fleet->views[i]) continue;
        kept_clear(fleet->views[i]);
        fleet->views[i]->failed = ERR_CANCELLED;
    }
}

static struct order_key last_key(const struct fleet_view *view)
{
    return (struct order_key){str_of(view->last, view->first_len),
                              str_of(view->last + view->first_len, view->second_len)};
}

static bool has_yet_to_give(const struct fleet_view *view, enum fleet_table table,
                            const struct table_row *row)
{
    if (view->failed || row->born >= view->number || table < view->table) return false;
    if (table > view->table || !view->begun) return true;
    return order_key_compare(row_key(table, row), last_key(view)) > 0;
}

void views_keep(struct fleet *fleet, enum fleet_table table, struct table_row *row)
{
    for (unsigned i = 0; i < FLEET_VIEWS_MAX; i++) {
        struct fleet_view *view = fleet->views[i];
        if (!view || !has_yet_to_give(view, table, row)) continue;
        row->holders++;
        if (order_insert(&view->kept[table], row)) {
            row->holders--;
            kept_clear(view); /* the view has failed and needs no rows */
            view->failed = ERR_NOMEM;
        }
    }
}

/* Does not advance the walk. NULL at the end. */
static struct table_row *table_peek(struct fleet_view *view)
{
    struct fleet *fleet = view->fleet;
    struct order *table = &fleet->tables[view->table];
    struct order_place at;
    struct table_row *row;

    if (view->changes != fleet->changes) {
        view->place = view->begun ? order_behind(table, last_key(view)) : order_begin(table);
        view->changes = fleet->changes;
    }
    for (at = view->place; (row = order_next(&at)); view->place = at)
        if (row->born < view->number) break;
    return row;
}

static void view_remember(struct fleet_view *view, struct order_key key)
{
    view->begun = true;
    view->first_len = key.first.len;
    view->second_len = key.second.len;
    assert(view->first_len + view->second_len <= sizeof view->last);
    memcpy(view->last, key.first.at, key.first.len);
    if (key.second.len > 0) memcpy(view->last + key.first.len, key.second.at, key.second.len);
}

/* Returns the next row, from the table or from `kept`; NULL at the end. */
static void *view_give_next(struct fleet_view *view)
{
    struct order *kept = &view->kept[view->table];
    struct order_place first = order_begin(kept);
    struct table_row *aside = order_next(&first);
    struct table_row *row = table_peek(view);

    if (!aside && !row) return NULL;
    if (aside && row &&
        order_key_compare(row_key(view->table, row), row_key(view->table, aside)) < 0)
        aside = NULL;
    if (!aside) {
        order_next(&view->place);
        return row;
    }
    order_remove(kept, aside);
    view->given = aside;
    view->given_table = view->table;
    return aside;
}

enum err fleet_view_next(struct fleet_view *view, struct fleet_row *ret_row, bool *ret_more)
{
    void *row;

    if (view->given) row_drop(view->fleet, view->given_table, view->given);
    view->given = NULL;
    if (view->failed) return view->failed;
    for (; view->table < FLEET_TABLES; view->table++) {
        row = view_give_next(view);
        if (row) {
            view_remember(view, row_key(view->table, row));
            row_show(view->table, row, ret_row);
            *ret_more = true;
            return ERR_OK;
        }
        view->begun = false;
        if (view->table + 1 < FLEET_TABLES)
            view->place = order_begin(&view->fleet->tables[view->table + 1]);
    }
    *ret_more = false;
    return ERR_OK;
}

struct fleet_counts fleet_view_counts(const struct fleet_view *view)
{
    return view->counts;
}

uint64_t fleet_view_hash(const struct fleet_view *view)
{
    return view->hash;
}
