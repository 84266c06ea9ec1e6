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

static bool is_stood_on(const struct decider *e, uint32_t key)
{
    uint32_t row = e->keys[key].stander; /* perhaps of old: looked at, not believed */

    return row < e->row_count && e->standing[row].key == key;
}

static void rise(struct decider *e, uint32_t key)
{
    if (is_stood_on(e, key)) e->standing[e->keys[key].stander].key = KEY_NONE;
}

/* A plain row stands only while its family has one key, so another of the family concerns it. */
static void key_read(struct decider *e, uint32_t slot)
{
    const struct key *key = rooms_get(&e->inventory->key_slots, slot);

    rise(e, slot);
    for (uint32_t i = 0; key && i < key->family->count; i++) rise(e, key->family->keys[i]->slot);
}

static void all_rise(struct decider *e)
{
    for (uint32_t i = 0; i < e->row_count; i++) e->standing[i].key = KEY_NONE;
}

static enum err changes_read(struct decider *e)
{
    const struct inventory *inv = e->inventory;
    bool all = inv->changes - e->changes_read > CHANGES_KEPT;
    enum err err = ERR_OK;

    if (all) all_rise(e);
    if (all) replay_forget(e);
    for (uint64_t i = e->changes_read; !err && !all && i < inv->changes; i++) {
        const struct cohort_change *change = &inv->changed[i % CHANGES_KEPT];
        if (change->key != SLOT_NONE) key_read(e, change->key);
        err = replay_note(e, change);
    }
    e->changes_read = inv->changes;
    return err;
}

/* --- rows anew --- */

static enum err levels_make(struct decider *e)
{
    e->level_count = 0;
    for (uint32_t i = 0; i < e->row_count; i++) {
        bool last = i + 1 == e->row_count ||
                    e->rows[i + 1]->profile->priority != e->rows[i]->profile->priority;
        enum err err;
        if (!last) continue;
        err = kept_room(&e->levels, e->level_count + 1, &e->level_cap, sizeof *e->levels);
        if (err) return err;
        e->levels[e->level_count++] = i + 1;
    }
    return ERR_OK;
}

static enum err gang_rows_make(struct decider *e)
{
    e->gang_row_count = 0;
    for (uint32_t i = 0; i < e->row_count; i++) {
        enum err err;
        if (!e->rows[i]->gang) continue;
        err =
            kept_room(&e->gang_rows, e->gang_row_count + 1, &e->gang_row_cap, sizeof *e->gang_rows);
        if (err) return err;
        e->gang_rows[e->gang_row_count++] = i;
    }
    return ERR_OK;
}

static enum err rows_room(struct decider *e)
{
    const struct kept_array arrays[] = {
        {&e->wants, e->row_count, &e->want_cap, sizeof *e->wants},
        {&e->standing, e->row_count, &e->standing_cap, sizeof *e->standing},
        {&e->courses, e->row_count, &e->course_cap, sizeof *e->courses},
        {&e->verdicts, e->row_count, &e->verdict_cap, sizeof *e->verdicts},
        {&e->told, e->row_count, &e->told_cap, sizeof *e->told},
        {&e->parked, e->row_count, &e->parked_cap, sizeof *e->parked},
        {&e->births, e->row_count, &e->birth_cap, sizeof *e->births},
    };
    enum err err = kept_rooms(arrays, ARRAY_LEN(arrays));

    if (!err) err = levels_make(e);
    return err ? err : gang_rows_make(e);
}

struct rows_then { /* what was known of each, by its place then */
    const struct standing *standing;
    const struct course *courses;
    const struct need_verdict *verdicts;
    const bool *told, *parked;
    const uint64_t *births;
    uint32_t count, at; /* at: those before it are found, or gone */
};
enum { ROWS_MISSED_MOST = 64 };

static const void *copy_of(struct decider *e, const void *items, uint32_t count, size_t size)
{
    void *copy = decider_alloc(e, count, size);

    if (copy && count) memcpy(copy, items, count * size);
    return copy;
}

static enum err rows_then(struct decider *e, struct rows_then *t)
{
    t->count = e->birth_count;
    t->at = 0;
    t->standing = copy_of(e, e->standing, t->count, sizeof *t->standing);
    t->courses = copy_of(e, e->courses, t->count, sizeof *t->courses);
    t->verdicts = copy_of(e, e->verdicts, t->count, sizeof *t->verdicts);
    t->told = copy_of(e, e->told, t->count, sizeof *t->told);
    t->parked = copy_of(e, e->parked, t->count, sizeof *t->parked);
    t->births = copy_of(e, e->births, t->count, sizeof *t->births);
    if (!t->standing || !t->courses || !t->verdicts) return ERR_FULL;
    return t->told && t->parked && t->births ? ERR_OK : ERR_FULL;
}

/* Its cluster's rows are others than then: nothing its rows took holds. */
static void cluster_others(struct decider *e, uint32_t slot)
{
    if (slot != SLOT_NONE) e->clusters[slot].others = (uint32_t)e->number;
}

static bool cluster_is_other(const struct decider *e, uint32_t slot)
{
    return slot != SLOT_NONE && e->clusters[slot].others == (uint32_t)e->number;
}

/* Where the row stood then; t->count: nowhere. Rows of both times are in the same order. Folded
 * ones are new: what folds into them may be more or less. */
static uint32_t row_then(const struct decider *e, const struct rows_then *t, const struct demand *d)
{
    uint32_t at = t->at;

    if (d->birth > e->births_last || d->memory == UINT32_MAX) return t->count;
    while (at < t->count && t->births[at] != d->birth) at++;
    return at;
}

static void row_carry(struct decider *e, const struct rows_then *t, uint32_t row, uint32_t then)
{
    e->standing[row] = t->standing[then];
    e->courses[row] = t->courses[then];
    e->verdicts[row] = t->verdicts[then];
    e->verdicts[row].need = e->rows[row];
    e->told[row] = t->told[then];
    e->parked[row] = t->parked[then];
    if (e->standing[row].key != KEY_NONE) e->keys[e->standing[row].key].stander = row;
}

static void row_new(struct decider *e, uint32_t row)
{
    e->standing[row] = (struct standing){.key = KEY_NONE, .memory = MEMORY_NONE};
    e->courses[row].kind = COURSE_NONE;
    e->told[row] = e->parked[row] = false;
}

/* What is known of the rows that were there goes with them. False: of too few. */
static bool rows_carry(struct decider *e, struct rows_then *t)
{
    uint32_t missed = 0;

    for (uint32_t i = 0; i < e->row_count; i++) {
        const struct demand *d = e->rows[i];
        const struct cohort_cluster *cluster = e->cluster_of[d->cluster->slot];
        uint32_t then = row_then(e, t, d);
        if (then == t->count) {
            row_new(e, i);
            cluster_others(e, cluster ? cluster->slot : SLOT_NONE);
            if (d->birth <= e->births_last && ++missed > ROWS_MISSED_MOST) return false;
            continue;
        }
        for (; t->at < then; t->at++) cluster_others(e, t->courses[t->at].cluster);
        t->at = then + 1;
        row_carry(e, t, i, then);
    }
    for (; t->at < t->count; t->at++) cluster_others(e, t->courses[t->at].cluster);
    for (uint32_t i = 0; i < e->row_count; i++) {
        if (e->courses[i].kind == COURSE_NONE) continue;
        if (!cluster_is_other(e, e->courses[i].cluster)) continue;
        e->courses[i].kind = COURSE_NONE;
        e->told[i] = false;
    }
    return true;
}

static enum err rows_read(struct decider *e, bool *ret_carried)
{
    struct rows_then t = {0};
    enum err err = rows_room(e);

    *ret_carried = e->courses_of + 1 == e->number && !e->options.forget && e->swept != e->number;
    if (!err && *ret_carried) err = rows_then(e, &t);
    if (err) return err;
    if (*ret_carried) *ret_carried = rows_carry(e, &t);
    for (uint32_t i = 0; i < e->row_count; i++) {
        if (!*ret_carried) row_new(e, i);
        e->births[i] = e->rows[i]->birth;
    }
    if (!*ret_carried) e->any_parked = false;
    if (!*ret_carried) e->changes_read = e->inventory->changes;
    e->birth_count = e->row_count;
    e->births_last = e->needs->births;
    e->rows_read = e->rows_made;
    return ERR_OK;
}

/* --- parked gangs --- */

/* The parked keys in an order, so that each gang finds its own without a walk over all. */
static enum err parked_read(struct decider *e)
{
    size_t count = e->input.parked_count;
    struct need_key *keys;

    if (!count && !e->any_parked) return ERR_OK;
    keys = decider_alloc(e, count, sizeof *keys);
    if (!keys) return ERR_FULL;
    if (count) {
        memcpy(keys, e->input.parked, count * sizeof *keys);
        qsort(keys, count, sizeof *keys, need_key_compare);
    }
    for (uint32_t i = 0; i < e->gang_row_count; i++) {
        uint32_t row = e->gang_rows[i];
        bool parked = bsearch(&e->rows[row]->key, keys, count, sizeof *keys, need_key_compare);
        if (parked == e->parked[row]) continue;
        e->parked[row] = e->verdicts[row].parked = parked;
    }
    e->any_parked = count > 0;
    return ERR_OK;
}

/* --- every decision --- */

/* Is in the demand: the last row of each key is what ends a shield. */
static void keys_last(struct decider *e, uint32_t row)
{
    const struct row_memory *m = &e->memory[e->standing[row].memory];
    const struct family *family;

    if (m->birth && e->rows[row]->gang) e->key_last[m->slot] = row + 1;
    if (!m->birth || e->rows[row]->gang) return;
    family = rooms_held(&e->inventory->family_slots, m->slot);
    for (uint32_t i = 0; i < family->count; i++) e->key_last[family->keys[i]->slot] = row + 1;
}

/* Two rows may be of one family and each have had its turn first; then one of them stands. */
static enum err stand(struct decider *e, uint32_t row)
{
    struct demand *demand = e->rows[row];
    struct standing *s = &e->standing[row];
    const struct cohort_cluster *cluster = e->cluster_of[demand->cluster->slot];
    struct row_memory *m;
    enum err err;

    /* Another engine on the same table leaves its own note there. */
    if (s->memory != MEMORY_NONE) demand->memory = s->memory;
    err = memory_of(e, demand, &m);
    if (err) return err;
    s->memory = demand->memory;
    if (m->key == KEY_NONE || !m->takes_all || is_stood_on(e, m->key)) return ERR_OK;
    s->key = m->key;
    s->cluster = cluster ? cluster->slot : SLOT_NONE;
    s->machines = m->machines;
    s->configured = m->configured;
    e->keys[m->key].stander = row;
    return ERR_OK;
}

enum err want_begin(struct decider *e, uint32_t row)
{
    struct demand *demand = e->rows[row];
    enum err err;

    demand->memory = e->standing[row].memory;
    err = want_find(e, &e->wants[row], demand);
    e->wants[row].parked = e->parked[row];
    e->told[row] = false;
    return err;
}

enum err standing_refresh(struct decider *e)
{
    bool anew = e->rows_read != e->rows_made, carried = true;
    enum err err = anew ? rows_read(e, &carried) : ERR_OK;

    if (!err) err = replay_start(e);
    if (!err && !carried) replay_forget(e);
    if (!err && carried) err = changes_read(e);
    if (!err) err = parked_read(e);
    for (uint32_t i = 0; !err && i < e->row_count; i++) {
        const struct standing *s = &e->standing[i];
        bool again = s->key == KEY_NONE && replay_expects(e, i);
        uint32_t key = again ? e->courses[i].key : s->key;
        if (key == KEY_NONE && !again) {
            err = stand(e, i);
            key = s->key;
        }
        if (err) return err;
        if (key != KEY_NONE)
            e->key_last[key] = i + 1;
        else
            keys_last(e, i);
    }
    return err;
}

enum err standing_begin(struct decider *e, uint32_t row)
{
    return e->standing[row].key == KEY_NONE ? stand(e, row) : ERR_OK;
}

bool standing_takes(struct decider *e, uint32_t row)
{
    const struct standing *s = &e->standing[row];

    if (s->key == KEY_NONE || key_touched(e, s->key)) return false;
    e->keys[s->key].state = key_state(e, true);
    if (s->configured) e->claimed[s->cluster] += s->configured;
    e->decision.claimed += s->machines;
    if (!e->told[row]) verdict_stands(e, row);
    return true;
}
