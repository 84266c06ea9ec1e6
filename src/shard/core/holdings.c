/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that are alike to who pays for them: the cohorts, with fewer differences. */
#include <stdlib.h>

#include "shard/core/core_internal.h"
#include "shard/state/cohort.h"

static struct str posting_name(const struct inventory *inv, uint32_t slot)
{
    const struct posting *p = slot == SLOT_NONE ? NULL : rooms_held(&inv->posting_slots, slot);

    return p ? str_of(p->value, p->value_len) : STR_EMPTY;
}

static int compare_kinds(const struct holding *a, const struct holding *b)
{
    int order = a->state != b->state ? (a->state < b->state ? -1 : 1) : 0;

    if (!order) order = str_compare(a->type, b->type);
    if (!order) order = str_compare(a->zone, b->zone);
    if (!order && a->capacity_type != b->capacity_type)
        order = a->capacity_type < b->capacity_type ? -1 : 1;
    if (!order && a->price != b->price) order = a->price < b->price ? -1 : 1;
    return order;
}

static int compare(const void *left, const void *right)
{
    return compare_kinds(left, right);
}

static size_t merge(struct holding *rows, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (kept && compare_kinds(&rows[kept - 1], &rows[i]) == 0)
            rows[kept - 1].count += rows[i].count;
        else
            rows[kept++] = rows[i];
    }
    return kept;
}

enum err core_holdings(const struct core *core, size_t cohorts_max, struct arena *arena,
                       struct holding **ret_rows, size_t *ret_count)
{
    const struct inventory *inv = core->inventory;
    size_t count = 0, cohorts = inv->cohort_slots.used;
    struct holding *rows;

    if (cohorts > cohorts_max) return ERR_TOO_LARGE;
    rows = arena_calloc(arena, cohorts, sizeof *rows);
    if (!rows) return ERR_NOMEM;
    for (uint32_t slot = 0; slot < cohorts; slot++) {
        const struct cohort *c = rooms_get(&inv->cohort_slots, slot);
        const struct look_brief *look = c ? &inv->look_briefs[c->traits.look->slot] : NULL;

        if (!c || c->count == 0) continue;
        rows[count] = (struct holding){
            .state = (enum machine_state)c->traits.state,
            .capacity_type = (enum capacity_type)c->traits.capacity_type,
            .type = posting_name(inv, look->type),
            .zone = posting_name(inv, look->zone),
            .price = c->traits.price,
            .count = c->count,
        };
        count++;
    }
    if (count > 1) qsort(rows, count, sizeof *rows, compare);
    *ret_rows = rows;
    *ret_count = merge(rows, count);
    return ERR_OK;
}
