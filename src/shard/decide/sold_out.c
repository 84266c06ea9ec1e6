/* SPDX-License-Identifier: Apache-2.0 */
/* Sold-out pools: their Speculative machines do not exist for a decision. Price lists, the domains
 * of gangs and what a replay compares leave them out. */
#include <stdlib.h>
#include <string.h>

#include "shard/decide/decider.h"

static int sold_out_compare(const void *left, const void *right)
{
    const struct sold_out *a = left, *b = right;

    if (a->type != b->type) return a->type < b->type ? -1 : 1;
    if (a->zone != b->zone) return a->zone < b->zone ? -1 : 1;
    return a->capacity_type < b->capacity_type ? -1 : a->capacity_type > b->capacity_type;
}

/* False: no machine has the value. */
static bool sold_out_slot(const struct decider *e, struct str key, struct str value,
                          uint32_t *ret_slot)
{
    const struct posting *p = value.len ? inventory_posting(e->inventory, key, value) : NULL;

    *ret_slot = p ? p->slot : SLOT_NONE;
    return p || !value.len;
}

void sold_out_read(struct decider *e)
{
    if (!e->input.sold_out_count) return;
    e->sold_out = decider_alloc(e, e->input.sold_out_count, sizeof *e->sold_out);
    for (size_t i = 0; e->sold_out && i < e->input.sold_out_count; i++) {
        const struct capacity_pool *pool = &e->input.sold_out[i];
        struct sold_out *s = &e->sold_out[e->sold_out_count];
        s->capacity_type = (uint32_t)pool->capacity_type;
        if (!sold_out_slot(e, LABEL_INSTANCE_TYPE, pool->instance_type, &s->type) ||
            !sold_out_slot(e, LABEL_ZONE, pool->zone, &s->zone))
            continue;
        e->sold_out_types |= (uint64_t)1 << s->type % 64;
        e->sold_out_count++;
    }
    if (e->sold_out_count)
        qsort(e->sold_out, e->sold_out_count, sizeof *e->sold_out, sold_out_compare);
}

static uint32_t sold_out_posting(const struct look *look, uint32_t attribute)
{
    return look->postings[attribute] ? look->postings[attribute]->slot : SLOT_NONE;
}

bool cohort_sold_out(const struct decider *e, const struct cohort *c)
{
    const struct traits *t = &c->traits;
    struct sold_out s = {.capacity_type = t->capacity_type};

    if (!e->sold_out_count || t->state != MACHINE_SPECULATIVE) return false;
    s.type = sold_out_posting(t->look, LOOK_TYPE);
    if (!(e->sold_out_types >> s.type % 64 & 1)) return false;
    s.zone = sold_out_posting(t->look, LOOK_ZONE);
    return bsearch(&s, e->sold_out, e->sold_out_count, sizeof s, sold_out_compare) != NULL;
}
