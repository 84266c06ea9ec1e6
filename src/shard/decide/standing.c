/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that stand: what they take in Phase 1 is all machines of one key, their own, and then they
 * lack nothing. In a fleet at rest that is nearly every row, decision after decision, so such a row
 * is decided by one look at a few numbers that stand side by side. It stands until a machine of the
 * key comes or goes (the inventory says which did) or the rows change; within a decision it steps
 * back when an earlier Need has taken of its machines. All other rows are decided in full. */
#include <stdlib.h>
#include <string.h>

#include "shard/decide/decider.h"

/* --- what changed --- */

static bool standing_is_on(const struct decider *e, uint32_t key)
{
    uint32_t row = e->keys[key].stander; /* perhaps of old: looked at, not believed */

    return row < e->row_count && e->row.standing[row].key == key;
}

static void standing_end(struct decider *e, uint32_t key)
{
    if (standing_is_on(e, key)) e->row.standing[e->keys[key].stander].key = KEY_NONE;
}

/* A plain row stands only while its family has one key, so another of the family concerns it. */
static void standing_key_changed(struct decider *e, uint32_t slot)
{
    const struct key *key = rooms_get(&e->inventory->key_slots, slot);

    standing_end(e, slot);
    for (uint32_t i = 0; key && i < key->family->count; i++)
        standing_end(e, key->family->keys[i]->slot);
}

static void standing_end_all(struct decider *e)
{
    for (uint32_t i = 0; i < e->row_count; i++) e->row.standing[i].key = KEY_NONE;
}

static void standing_read_changes(struct decider *e)
{
    const struct inventory *inv = e->inventory;
    bool all = inv->changes - e->changes_read > CHANGES_KEPT;

    if (all) standing_end_all(e);
    if (all) replay_forget(e);
    for (uint64_t i = e->changes_read; !all && i < inv->changes; i++) {
        const struct cohort_change *change = &inv->changed[i % CHANGES_KEPT];
        if (change->key != SLOT_NONE) standing_key_changed(e, change->key);
        replay_note(e, change);
    }
    e->changes_read = inv->changes;
}

/* --- rows anew --- */

enum { ROWS_MISSED_MOST = 64 };

void row_arrays_free(struct row_arrays *a)
{
    free(a->standing);
    free(a->courses);
    free(a->verdicts);
    free(a->has_verdict);
    free(a->parked);
    free(a->births);
    *a = (struct row_arrays){0};
}

/* Room for so many; what was there is gone. */
static void row_arrays_room(struct decider *e, struct row_arrays *a, uint32_t count)
{
    uint32_t cap = count + count / 4;

    if (count <= a->cap) return;
    row_arrays_free(a);
    a->cap = cap;
    a->standing = calloc(cap, sizeof *a->standing);
    a->courses = calloc(cap, sizeof *a->courses);
    a->verdicts = calloc(cap, sizeof *a->verdicts);
    a->has_verdict = calloc(cap, sizeof *a->has_verdict);
    a->parked = calloc(cap, sizeof *a->parked);
    a->births = calloc(cap, sizeof *a->births);
    if (a->standing && a->courses && a->verdicts && a->has_verdict && a->parked && a->births) {
        return;
    }
    row_arrays_free(a);
    decider_note(e, ERR_NOMEM);
}

static void rows_index(struct decider *e)
{
    e->level_count = e->gang_row_count = 0;
    for (uint32_t i = 0; i < e->row_count; i++) {
        if (e->rows[i]->gang) e->gang_rows[e->gang_row_count++] = i;
        if (i + 1 == e->row_count ||
            e->rows[i + 1]->profile->priority != e->rows[i]->profile->priority) {
            e->levels[e->level_count++] = i + 1;
        }
    }
}

/* Its cluster's rows are others than then: nothing its rows took holds. */
static void standing_cluster_changed(struct decider *e, uint32_t slot)
{
    if (slot != SLOT_NONE) e->clusters[slot].others = (uint32_t)e->number;
}

static bool standing_cluster_has_changed(const struct decider *e, uint32_t slot)
{
    return slot != SLOT_NONE && e->clusters[slot].others == (uint32_t)e->number;
}

/* Where the row was then, from `from` on; the count: nowhere. Rows of both times are in the same
 * order. Folded ones are new: what folds into them may be more or less. */
static uint32_t row_then(const struct decider *e, uint32_t from, const struct demand *d)
{
    const struct row_arrays *then = &e->row_then;

    if (d->birth > e->births_last || d->memory == UINT32_MAX) return then->count;
    while (from < then->count && then->births[from] != d->birth) from++;
    return from;
}

static void row_carry(struct decider *e, uint32_t row, uint32_t at)
{
    const struct row_arrays *then = &e->row_then;

    e->row.standing[row] = then->standing[at];
    e->row.courses[row] = then->courses[at];
    e->row.verdicts[row] = then->verdicts[at];
    e->row.verdicts[row].need = e->rows[row];
    e->row.has_verdict[row] = then->has_verdict[at];
    e->row.parked[row] = then->parked[at];
    if (e->row.standing[row].key != KEY_NONE) e->keys[e->row.standing[row].key].stander = row;
}

static void row_new(struct decider *e, uint32_t row)
{
    e->row.standing[row] = (struct standing){.key = KEY_NONE, .memory = MEMORY_NONE};
    e->row.courses[row].kind = COURSE_NONE;
    e->row.has_verdict[row] = e->row.parked[row] = false;
}

/* What is known of the rows that were there goes with them. False: of too few. */
static bool rows_carry(struct decider *e)
{
    const struct row_arrays *then = &e->row_then;
    uint32_t missed = 0, next = 0; /* next: those before it are found, or gone */

    for (uint32_t i = 0; i < e->row_count; i++) {
        const struct demand *d = e->rows[i];
        const struct cohort_cluster *cluster = e->cluster_of[d->cluster->slot];
        uint32_t at = row_then(e, next, d);
        if (at == then->count) {
            row_new(e, i);
            standing_cluster_changed(e, cluster ? cluster->slot : SLOT_NONE);
            if (d->birth <= e->births_last && ++missed > ROWS_MISSED_MOST) return false;
            continue;
        }
        for (; next < at; next++) standing_cluster_changed(e, then->courses[next].cluster);
        next = at + 1;
        row_carry(e, i, at);
    }
    for (; next < then->count; next++) standing_cluster_changed(e, then->courses[next].cluster);
    for (uint32_t i = 0; i < e->row_count; i++) {
        if (e->row.courses[i].kind == COURSE_NONE) continue;
        if (!standing_cluster_has_changed(e, e->row.courses[i].cluster)) continue;
        e->row.courses[i].kind = COURSE_NONE;
        e->row.has_verdict[i] = false;
    }
    return true;
}

/* False: nothing of the rows of before goes with them. */
static bool rows_read(struct decider *e)
{
    const struct kept_array arrays[] = {
        {&e->wants, e->row_count, &e->want_cap, sizeof *e->wants},
        {&e->levels, e->row_count, &e->level_cap, sizeof *e->levels},
        {&e->gang_rows, e->row_count, &e->gang_row_cap, sizeof *e->gang_rows},
    };
    struct row_arrays swap;
    bool carried = e->courses_of + 1 == e->number && !e->options.forget && e->swept != e->number;

    row_arrays_room(e, &e->row_then, e->row_count);
    if (!kept_rooms(e, arrays, ARRAY_LEN(arrays)) || e->err) return false;
    swap = e->row_then;
    e->row_then = e->row;
    e->row = swap;
    e->row.count = e->row_count;
    rows_index(e);
    if (carried) carried = rows_carry(e);
    for (uint32_t i = 0; i < e->row_count; i++) {
        if (!carried) row_new(e, i);
        e->row.births[i] = e->rows[i]->birth;
    }
    if (!carried) e->any_parked = false;
    if (!carried) e->changes_read = e->inventory->changes;
    e->births_last = e->needs->births;
    e->rows_read = e->rows_made;
    return carried;
}

/* --- parked gangs --- */

/* The parked keys in an order, so that each gang finds its own without a walk over all. */
static void standing_read_parked(struct decider *e)
{
    size_t count = e->input.parked_count;
    struct need_key *keys;

    if (!count && !e->any_parked) return;
    keys = decider_alloc(e, count, sizeof *keys);
    if (!keys) return;
    if (count) {
        memcpy(keys, e->input.parked, count * sizeof *keys);
        qsort(keys, count, sizeof *keys, need_key_compare);
    }
    for (uint32_t i = 0; i < e->gang_row_count; i++) {
        uint32_t row = e->gang_rows[i];
        bool parked = bsearch(&e->rows[row]->key, keys, count, sizeof *keys, need_key_compare);
        if (parked == e->row.parked[row]) continue;
        e->row.parked[row] = e->row.verdicts[row].parked = parked;
    }
    e->any_parked = count > 0;
}

/* --- every decision --- */

/* Is in the demand: the last row of each key is what ends a shield. */
static void standing_keys_last(struct decider *e, uint32_t row)
{
    const struct row_memory *m = &e->memory[e->row.standing[row].memory];
    const struct family *family;

    if (m->birth && e->rows[row]->gang) e->key_last[m->slot] = row + 1;
    if (!m->birth || e->rows[row]->gang) return;
    family = rooms_held(&e->inventory->family_slots, m->slot);
    for (uint32_t i = 0; i < family->count; i++) e->key_last[family->keys[i]->slot] = row + 1;
}

/* Two rows may be of one family and each have had its turn first; then one of them stands. */
void standing_begin(struct decider *e, uint32_t row)
{
    struct demand *demand = e->rows[row];
    struct standing *s = &e->row.standing[row];
    const struct cohort_cluster *cluster = e->cluster_of[demand->cluster->slot];
    const struct row_memory *m;

    /* Another engine on the same table leaves its own note there. */
    if (s->memory != MEMORY_NONE) demand->memory = s->memory;
    m = memory_of(e, demand);
    if (!m) return;
    s->memory = demand->memory;
    if (m->key == KEY_NONE || !m->takes_all || standing_is_on(e, m->key)) return;
    s->key = m->key;
    s->cluster = cluster ? cluster->slot : SLOT_NONE;
    s->machines = m->machines;
    s->configured = m->configured;
    e->keys[m->key].stander = row;
}

void want_begin(struct decider *e, uint32_t row)
{
    struct demand *demand = e->rows[row];

    demand->memory = e->row.standing[row].memory;
    want_find(e, &e->wants[row], demand);
    e->wants[row].parked = e->row.parked[row];
    e->row.has_verdict[row] = false;
}

void standing_refresh(struct decider *e)
{
    bool carried = e->rows_read == e->rows_made || rows_read(e);

    if (e->err) return;
    replay_start(e);
    if (!carried) replay_forget(e);
    if (carried) standing_read_changes(e);
    standing_read_parked(e);
    for (uint32_t i = 0; i < e->row_count; i++) {
        const struct standing *s = &e->row.standing[i];
        bool again = s->key == KEY_NONE && replay_expects(e, i);
        uint32_t key = again ? e->row.courses[i].key : s->key;
        if (key == KEY_NONE && !again) {
            standing_begin(e, i);
            key = s->key;
        }
        if (e->err) return;
        if (key != KEY_NONE)
            e->key_last[key] = i + 1;
        else
            standing_keys_last(e, i);
    }
}

bool standing_takes(struct decider *e, uint32_t row)
{
    const struct standing *s = &e->row.standing[row];

    if (s->key == KEY_NONE || key_touched(e, s->key)) return false;
    e->keys[s->key].state = key_state(e, true);
    if (s->configured) e->claimed[s->cluster] += s->configured;
    e->decision.claimed += s->machines;
    if (!e->row.has_verdict[row]) verdict_stands(e, row);
    return true;
}
