/* SPDX-License-Identifier: Apache-2.0 */
/* Computes what a Need lacks, and takes machines for it. */
#include <string.h>

#include "shard/decide/decider.h"

void want_start(struct decider *e, struct want *w)
{
    const struct amounts *aggregate = &w->demand->aggregate;
    uint32_t dimensions = resource_bits(aggregate->mask);

    if (w->rem) return;
    w->rem = decider_alloc(e, dimensions, sizeof *w->rem);
    if (w->rem)
        memcpy(w->rem, aggregate->milli, dimensions * sizeof *w->rem);
    else
        w->live = 0; /* the Need takes nothing */
}

void want_take(struct want *w, const struct machine_shape *shape, uint32_t count)
{
    uint64_t mask = w->demand->aggregate.mask;

    for (uint64_t left = w->live & shape->positive; left; left &= left - 1) {
        uint64_t bit = left & -left;
        int128 *rem = &w->rem[resource_bits(mask & (bit - 1))];
        *rem -= (int128)resources_get(shape->alloc, (uint32_t)__builtin_ctzll(left)) * count;
        if (*rem > 0) continue;
        *rem = 0;
        w->live &= ~bit;
    }
}

/* Returns rem / each, rounded up. 64-bit division is much faster. */
static uint64_t machines_for(int128 rem, int64_t each)
{
    int128 count;

    assert(each > 0);
    if (rem <= INT64_MAX) return ((uint64_t)rem + (uint64_t)each - 1) / (uint64_t)each;
    count = (rem + each - 1) / each;
    return count > UINT32_MAX ? UINT32_MAX : (uint64_t)count;
}

uint32_t want_needs(const struct want *w, const struct machine_shape *shape, uint32_t most)
{
    uint64_t mask = w->demand->aggregate.mask, count = 0;

    for (uint64_t left = w->live & shape->positive; left; left &= left - 1) {
        uint64_t bit = left & -left;
        count = max_u64(count,
                        machines_for(w->rem[resource_bits(mask & (bit - 1))],
                                     resources_get(shape->alloc, (uint32_t)__builtin_ctzll(left))));
    }
    return (uint32_t)min_u64(count, most);
}

struct amounts want_rest(struct decider *e, const struct want *w)
{
    const struct amounts *aggregate = &w->demand->aggregate;
    int128 *milli = decider_alloc(e, resource_bits(w->live), sizeof *milli);
    uint32_t count = 0;

    for (uint64_t left = milli ? w->live : 0; left; left &= left - 1) {
        milli[count++] = w->rem[resource_bits(aggregate->mask & ((left & -left) - 1))];
    }
    return (struct amounts){
        .mask = milli ? w->live : 0, .formats = aggregate->formats, .milli = milli};
}

struct supply_source *source_make(struct decider *e, const struct cohort *c)
{
    struct supply_source *s = &e->sources[c->slot];

    *s = (struct supply_source){
        .cohort = c, .decision = e->number, .count = c->count, .log = LOG_NONE, .key = c->own};
    return s;
}

struct machine_row *source_at(struct supply_source *s, uint32_t number)
{
    if (!s->next || s->passed > number) {
        s->place = cohort_begin(s->cohort);
        s->next = cohort_next(&s->place);
        s->passed = 0;
    }
    for (; s->passed < number; s->passed++) s->next = cohort_next(&s->place);
    assert(s->next);
    return s->next;
}

struct machine_row *source_next(struct supply_source *s)
{
    assert(s->taken < s->count);
    return source_at(s, s->first + s->taken);
}

void source_give(struct decider *e, uint32_t want, struct supply_source *s, uint32_t slot,
                 uint32_t count)
{
    struct log *log = &e->log;
    uint32_t from = s->first + s->taken;

    assert(count > 0 && count <= source_left(e, s));
    if (s->key != KEY_NONE) e->key_states[s->key] = key_state(e, false);
    s->taken += count;
    e->touched[slot / 64] |= (uint64_t)1 << slot % 64;
    if (s->taken == s->count && s == &e->sources[slot])
        e->cohorts[slot].emptied = (uint32_t)e->number;
    if (s->log != LOG_NONE && s->log == log->count - 1 && log->at[s->log].want == want) {
        log->at[s->log].count += count; /* continues the last entry */
        return;
    }
    if (!kept_room(e, &log->at, log->count + 1, &log->cap, sizeof *log->at)) return;
    log->at[log->count] = (struct log_entry){s, want, from, count, s->log};
    s->log = log->count++;
}

void source_take(struct decider *e, struct want *w, struct supply_source *s, uint32_t count)
{
    const struct traits *t = &s->cohort->traits;
    uint32_t entries = e->log.count;

    source_give(e, (uint32_t)(w - e->wants), s, s->cohort->slot, count);
    want_take(w, t->shape, count);
    if (e->log.count == entries) return; /* the last entry was extended */
    if (t->state != MACHINE_IDLE && t->state != MACHINE_SPECULATIVE) return;
    if (decider_grow(e, &e->acquired, e->acquired_count, &e->acquired_cap, sizeof *e->acquired)) {
        e->acquired[e->acquired_count++] = entries;
    }
}

void want_claim(struct decider *e, struct want *w, struct supply_source *s, uint32_t count)
{
    const struct traits *t = &s->cohort->traits;

    w->claimed += count;
    if (t->state == MACHINE_IDLE) w->bootstraps += count;
    if (t->state == MACHINE_SPECULATIVE) w->provisions += count;
    if (t->state == MACHINE_CONFIGURED) e->claimed[t->cluster->slot] += count;
    source_take(e, w, s, count);
}

/* --- the shield --- */

bool cohort_kept(const struct decider *e, const struct cohort *c)
{
    const struct traits *t = &c->traits;

    return t->state == MACHINE_IDLE && t->promise &&
           e->input.now.ms < add_sat_u64(t->promise->idle_since_ms, SHIELD_MS);
}

bool want_has_key(const struct want *w, const struct key *key)
{
    return w->gang ? w->key == key : w->family == key->family;
}

bool source_open(const struct decider *e, const struct want *w, const struct cohort *c)
{
    const struct promise *promise = c->traits.promise;

    if (!promise || !cohort_kept(e, c) || want_has_key(w, promise->key)) return true;
    if (w->demand->profile->priority > promise->priority) return true;
    return e->key_last[promise->key->slot] <= (uint32_t)(w - e->wants);
}

bool source_in_domain(const struct want *w, const struct cohort *c)
{
    return !w->has_domain || look_find(c->traits.look, w->demand->kind->same->key) == w->domain;
}
