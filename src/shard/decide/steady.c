/* SPDX-License-Identifier: Apache-2.0 */
/* Steady rows: in Phase 1 a steady row takes all machines of one key and then lacks nothing. In a
 * fleet at rest nearly every row is steady, and a steady row costs only a few memory reads.
 *
 * A row is steady until the rows or the machines of its key change, or until an earlier Need takes
 * one of these machines. */
#include <stdlib.h>
#include <string.h>

#include "shard/decide/decider.h"

/* --- changes --- */

static bool steady_is_on(const struct decider *e, uint32_t key)
{
    uint32_t row = e->keys[key].steady_row; /* may be outdated; verified below */

    return row < e->row_count && steady_at(e, row)->key == key;
}

static void steady_end(struct decider *e, uint32_t key)
{
    if (steady_is_on(e, key)) steady_at(e, e->keys[key].steady_row)->key = KEY_NONE;
}

/* A plain row is steady only while all its own machines have one key. */
static void steady_key_changed(struct decider *e, uint32_t slot)
{
    const struct key *key = slot_map_get(&e->inventory->key_slots, slot);

    steady_end(e, slot);
    for (uint32_t i = 0; key && i < key->family->count; i++)
        steady_end(e, key->family->keys[i]->slot);
}

static void steady_read_changes(struct decider *e)
{
    const struct inventory *inv = e->inventory;
    bool all = inv->changes - e->changes_read > CHANGES_KEPT;

    for (uint32_t i = 0; all && i < e->row_count; i++) steady_at(e, i)->key = KEY_NONE;
    if (all) replay_forget(e);
    for (uint64_t i = e->changes_read; !all && i < inv->changes; i++) {
        const struct cohort_change *change = &inv->changed[i % CHANGES_KEPT];
        if (change->key != SLOT_NONE) steady_key_changed(e, change->key);
        replay_note(e, change);
    }
    e->changes_read = inv->changes;
}

/* --- new rows --- */

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

/* A new row changes which machines the other rows of its cluster get, so their records become
 * invalid. */
static void row_new(struct decider *e, struct row_state *state, uint32_t row)
{
    const struct cohort_cluster *cluster = e->cluster_of[e->rows[row]->cluster->slot];

    if (cluster) e->clusters[cluster->slot].others = (uint32_t)e->number;
    steady_at(e, row)->key = KEY_NONE;
    state->parked = false;
    row_forget(state);
}

/* Moves a known row with its verdict to its new position. */
static void row_carry(struct decider *e, struct row_state *state, uint32_t row)
{
    uint32_t key = steady_at(e, row)->key;

    if (key != KEY_NONE) e->keys[key].steady_row = row;
    if (!state->course.has_verdict) return;
    e->verdicts_next[row] = e->verdicts[state->place];
    e->verdicts_next[row].need = e->rows[row];
}

static void row_check(const struct decider *e, struct row_state *state)
{
    uint32_t cluster = state->course.cluster;

    if (state->course.kind == COURSE_NONE || cluster == SLOT_NONE) return;
    if (e->clusters[cluster].others == (uint32_t)e->number) row_forget(state);
}

/* Rows that existed before keep their states. A cluster loses single rows only by folding, which
 * also adds a row to the cluster. */
static void rows_read(struct decider *e)
{
    const struct kept_array arrays[] = {
        {&e->wants, e->row_count, &e->want_cap, sizeof *e->wants},
        {&e->levels, e->row_count, &e->level_cap, sizeof *e->levels},
        {&e->gang_rows, e->row_count, &e->gang_row_cap, sizeof *e->gang_rows},
        {&e->slots, e->row_count, &e->slot_cap, sizeof *e->slots},
        {&e->verdicts_next, e->row_count, &e->verdict_next_cap, sizeof *e->verdicts},
    };
    struct need_verdict *verdicts = e->verdicts;
    uint32_t cap = e->verdict_cap;
    bool known = false;

    if (!kept_arrays_reserve(e, arrays, ARRAY_LEN(arrays))) return;
    rows_index(e);
    for (uint32_t i = 0; i < e->row_count; i++) {
        struct row_state *state = row_state_of(e, e->rows[i]);
        if (!state) return;
        e->slots[i] = e->rows[i]->memory;
        if (state->made == e->rows_read) {
            known = true;
            row_carry(e, state, i);
        } else {
            row_new(e, state, i);
        }
        state->place = i;
        state->made = e->rows_made;
    }
    for (uint32_t i = 0; i < e->row_count; i++) row_check(e, row_at(e, i));
    e->verdicts = e->verdicts_next;
    e->verdict_cap = e->verdict_next_cap;
    e->verdicts_next = verdicts;
    e->verdict_next_cap = cap;
    if (!known) e->changes_read = e->inventory->changes;
    e->rows_read = e->rows_made;
}

/* --- parked gangs --- */

/* Sorts the parked keys for binary search. */
static void steady_read_parked(struct decider *e)
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
        if (parked == row_at(e, row)->parked) continue;
        row_at(e, row)->parked = e->verdicts[row].parked = parked;
    }
    e->any_parked = count > 0;
}

/* --- per decision --- */

/* The last row of a key ends the time for which machines are kept for that key. */
static void steady_keys_last(struct decider *e, uint32_t row)
{
    const struct row_memory *m = &e->memories[e->slots[row]];
    const struct family *family;

    if (m->birth && e->rows[row]->gang) e->key_last[m->slot] = row + 1;
    if (!m->birth || e->rows[row]->gang) return;
    family = slot_map_held(&e->inventory->family_slots, m->slot);
    for (uint32_t i = 0; i < family->count; i++) e->key_last[family->keys[i]->slot] = row + 1;
}

/* If two rows belong to one family, only one of them becomes steady. */
void steady_begin(struct decider *e, uint32_t row)
{
    struct demand *demand = e->rows[row];
    struct steady *s = steady_at(e, row);
    const struct cohort_cluster *cluster = e->cluster_of[demand->cluster->slot];
    const struct row_memory *m;

    demand->memory = e->slots[row]; /* another engine may have overwritten the index */
    m = memory_of(e, demand);
    if (!m) return;
    if (m->key == KEY_NONE || !m->takes_all || steady_is_on(e, m->key)) return;
    s->key = m->key;
    s->cluster = cluster ? cluster->slot : SLOT_NONE;
    s->machines = m->machines;
    s->configured = m->configured;
    e->keys[m->key].steady_row = row;
}

void want_begin(struct decider *e, uint32_t row)
{
    struct demand *demand = e->rows[row];

    demand->memory = e->slots[row];
    want_find(e, &e->wants[row], demand);
    e->wants[row].parked = row_at(e, row)->parked;
    row_at(e, row)->course.has_verdict = false;
}

void steady_refresh(struct decider *e)
{
    if (e->rows_read != e->rows_made) rows_read(e);
    if (e->err) return;
    replay_start(e);
    steady_read_changes(e);
    steady_read_parked(e);
    for (uint32_t i = 0; i < e->row_count; i++) {
        const struct steady *s = steady_at(e, i);
        const struct course *c = &row_at(e, i)->course;
        bool again = s->key == KEY_NONE && replay_expects(e, c);
        uint32_t key = again ? c->key : s->key;
        if (key == KEY_NONE && !again) {
            steady_begin(e, i);
            key = s->key;
        }
        if (e->err) return;
        if (key != KEY_NONE)
            e->key_last[key] = i + 1;
        else
            steady_keys_last(e, i);
    }
}

bool steady_takes(struct decider *e, uint32_t row, const struct row_state *state)
{
    const struct steady *s = steady_at(e, row);

    if (s->key == KEY_NONE || key_touched(e, s->key)) return false;
    e->key_states[s->key] = key_state(e, true);
    if (s->configured) e->claimed[s->cluster] += s->configured;
    e->decision.claimed += s->machines;
    if (!state->course.has_verdict) verdict_steady(e, row);
    return true;
}
