/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 3: reclaims excess, and deletes Idle machines whose hold time is over. Also emits the
 * actions of Phase 1. */
#include <stdlib.h>

#include "shard/decide/decider.h"

/* --- Phase 1: acquired machines --- */

static void emit_acquired(struct decider *e, const struct want *w, enum action_kind kind)
{
    uint32_t state = kind == ACTION_BOOTSTRAP ? MACHINE_IDLE : MACHINE_SPECULATIVE;
    struct action action = {.kind = kind, .cluster = w->demand->key.cluster};

    action_for(&action, w);
    for (uint32_t i = w->rest_from; i < w->rest_to; i++) {
        const struct log_entry *entry = &e->log.at[i];
        struct supply_source *s = entry->source;
        if (s->cohort->traits.state != state) continue;
        /* In each cohort, the machines of one Need follow those of the previous Need, so each
         * cohort is read once, from the front. */
        for (uint32_t k = 0; k < entry->count; k++) {
            action.machine = row_id(source_at(s, entry->from + k));
            action_add(e, &action);
        }
    }
}

void emit_phase1(struct decider *e)
{
    for (uint32_t i = 0; i < e->restless_count; i++) {
        const struct want *w = &e->wants[e->restless[i]];
        if (w->bootstraps) emit_acquired(e, w, ACTION_BOOTSTRAP);
        if (w->provisions) emit_acquired(e, w, ACTION_PROVISION);
    }
}

/* --- reclaim --- */

struct leaving {
    const struct machine_row *row;
    const struct want *promised; /* the Need for which the machine is drained; NULL: none */
};

static int release_compare(const void *left, const void *right) /* sorts by id, descending */
{
    const struct leaving *a = left, *b = right;

    return str_compare(row_id(b->row), row_id(a->row));
}

static int tail_compare(const void *left, const void *right)
{
    const struct cohort *a = (*(struct supply_source *const *)left)->cohort;
    const struct cohort *b = (*(struct supply_source *const *)right)->cohort;

    if (a->traits.cluster != b->traits.cluster) {
        return str_compare(cluster_text(a->traits.cluster), cluster_text(b->traits.cluster));
    }
    return keep_rank_compare(cohort_keep_rank(b), cohort_keep_rank(a));
}

/* Lists the machines of one tail in descending order, with the Need that each machine is drained
 * for. `row` is NULL for a machine that Phase 2 preempts. */
static void tail_leaves(struct decider *e, const struct supply_source *tail, struct leaving *out)
{
    struct supply_source run = {
        .cohort = tail->cohort, .first = tail->first, .count = tail->count, .key = KEY_NONE};

    for (; run.taken < run.count; run.taken++) {
        out[run.count - 1 - run.taken] = (struct leaving){source_next(&run), NULL};
    }
    for (uint32_t i = tail->log; i != LOG_NONE; i = e->log.at[i].earlier) {
        const struct log_entry *entry = &e->log.at[i];
        for (uint32_t k = 0; k < entry->count; k++) {
            struct leaving *at = &out[tail->count - 1 - (entry->from - tail->first + k)];

            at->promised = &e->wants[entry->want];
            if (excess_is_preempted(at->promised, tail->cohort)) at->row = NULL;
        }
    }
}

static void release_emit(struct decider *e, struct supply_source *const *tails, uint32_t count)
{
    struct leaving *out;
    size_t machines = 0, at = 0;

    for (uint32_t i = 0; i < count; i++) machines += tails[i]->count;
    out = decider_alloc(e, machines, sizeof *out);
    if (!out) return;
    for (uint32_t i = 0; i < count; i++) {
        tail_leaves(e, tails[i], out + at);
        at += tails[i]->count;
    }
    for (size_t i = at = 0; i < machines; i++)
        if (out[i].row) out[at++] = out[i];
    machines = at;
    if (count > 1) qsort(out, machines, sizeof *out, release_compare);
    for (size_t i = 0; i < machines; i++) {
        struct action action = {.kind = ACTION_RECLAIM,
                                .machine = row_id(out[i].row),
                                .cluster = cluster_text(tails[0]->cohort->traits.cluster),
                                .grace_ms = RECLAIM_GRACE_MS};
        if (out[i].promised) action_for(&action, out[i].promised);
        action_add(e, &action);
    }
}

static void release_excess(struct decider *e)
{
    struct supply_source **order = decider_alloc(e, e->tails.count, sizeof(struct supply_source *));
    uint32_t end;

    if (!order) return;
    for (uint32_t i = 0; i < e->tails.count; i++) order[i] = &e->tails.at[i];
    if (e->tails.count) qsort(order, e->tails.count, sizeof(struct supply_source *), tail_compare);
    for (uint32_t from = 0; from < e->tails.count; from = end) {
        end = from + 1;
        while (end < e->tails.count && tail_compare(&order[from], &order[end]) == 0) end++;
        release_emit(e, &order[from], end - from);
    }
}

/* --- release --- */

static bool release_is_due(const struct decider *e, const struct machine_row *row, uint64_t hold_ms)
{
    return e->input.now.ms >= add_sat_u64(row->idle_since_ms, hold_ms);
}

static int release_row_compare(const void *left, const void *right)
{
    return str_compare(row_id(*(const struct machine_row *const *)left),
                       row_id(*(const struct machine_row *const *)right));
}

struct due { /* Idle machines to delete */
    const struct machine_row **at;
    uint32_t count, cap;
};

static void release_due(struct decider *e, const struct supply_source *s, uint64_t hold_ms,
                        struct due *due)
{
    struct supply_source run = {
        .cohort = s->cohort, .first = s->taken, .count = source_left(e, s), .key = KEY_NONE};

    for (; run.taken < run.count; run.taken++) {
        const struct machine_row *row = source_next(&run);
        if (!release_is_due(e, row, hold_ms)) continue;
        if (!decider_grow(e, &due->at, due->count, &due->cap, sizeof row)) return;
        due->at[due->count++] = row;
    }
}

static void release_cohort(struct decider *e, const struct cohort *c, struct due *due)
{
    uint64_t hold_ms = e->input.idle_hold_ms[c->traits.capacity_type];

    if (c->traits.promise) e->keys[c->traits.promise->key->slot].kept = (uint32_t)e->number;
    if (hold_ms == 0 || hold_ms == IDLE_HOLD_FOREVER) return;
    if (c->traits.promise && cohort_kept(e, c) && e->key_last[c->traits.promise->key->slot]) {
        return; /* a Need may still take the machine */
    }
    release_due(e, source_of(e, c), hold_ms, due);
}

static void release_idle(struct decider *e)
{
    struct due due = {0};

    for (uint32_t i = 0; i < e->inventory->look_slots.used; i++) {
        const struct look *look = slot_map_get(&e->inventory->look_slots, i);
        for (uint32_t k = 0; look && k < look->pools[POOL_IDLE].count; k++) {
            release_cohort(e, look->pools[POOL_IDLE].at[k].cohort, &due);
        }
    }
    if (due.count) qsort(due.at, due.count, sizeof(struct machine_row *), release_row_compare);
    for (uint32_t i = 0; i < due.count; i++) {
        action_add(e, &(struct action){.kind = ACTION_DELETE, .machine = row_id(due.at[i])});
    }
}

void release(struct decider *e)
{
    release_excess(e);
    release_idle(e);
}
