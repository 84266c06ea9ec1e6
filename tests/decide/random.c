/* SPDX-License-Identifier: Apache-2.0 */
#include "decide/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUT(field, ...) snprintf(field, sizeof(field), __VA_ARGS__)

static const char *const clusters[] = {"a", "b", "c"};
static const char *const types[] = {"small", "large", "gpu"};
static const char *const zones[] = {"z1", "z2", "z3"};
static const char *const racks[] = {"r1", "r2", "r3", "r4"};

static const char *pick(struct prng *p, const char *const *words, size_t count)
{
    return words[prng_below(p, count)];
}
#define PICK(p, words) pick(p, words, sizeof(words) / sizeof((words)[0]))

static bool often(struct prng *p, unsigned percent)
{
    return prng_below(p, 100) < percent;
}

static void draw_requirement(struct prng *p, struct oracle_profile *profile, const char *key,
                             const char *const *values, size_t value_count, bool same)
{
    static const enum oracle_operator operators[] = {ORACLE_IN, ORACLE_IN, ORACLE_NOT_IN,
                                                     ORACLE_EXISTS, ORACLE_DOES_NOT_EXIST};
    struct oracle_requirement *r = profile->requirements;
    size_t count = prng_between(p, 1, 2);
    while (r->key[0]) r++;
    PUT(r->key, "%s", key);
    r->operator= same ? ORACLE_SAME : operators[prng_below(p, 5)];
    if (same && often(p, 70)) return;
    if (r->operator== ORACLE_EXISTS || r->operator== ORACLE_DOES_NOT_EXIST) return;
    for (size_t i = 0; i < count; i++)
        PUT(r->values[i], "%s", values[(prng_below(p, value_count - 1) + i) % value_count]);
    if (count == 2 && strcmp(r->values[0], r->values[1]) == 0) r->values[1][0] = '\0';
}

static void draw_profile(struct prng *p, struct oracle_profile *profile)
{
    static const int32_t priorities[] = {0, 10, 10, 100, 150000, 1000000, INT32_MAX, INT32_MIN};
    static const uint8_t buckets[] = {0, 1, 2, 3, 5, 13, 26, 27};
    profile->priority = priorities[prng_below(p, often(p, 80) ? 5 : 8)];
    profile->interruption_bucket = buckets[prng_below(p, 8)];
    profile->reclamation_bucket = buckets[prng_below(p, 8)];
    if (often(p, 60))
        draw_requirement(p, profile, "node.kubernetes.io/instance-type", types, 3, false);
    if (often(p, 20)) draw_requirement(p, profile, "topology.kubernetes.io/zone", zones, 3, false);
    if (often(p, 15)) draw_requirement(p, profile, "rack", racks, 4, false);
    if (often(p, 35)) {
        if (often(p, 50))
            draw_requirement(p, profile, "rack", racks, 4, true);
        else
            draw_requirement(p, profile, "topology.kubernetes.io/zone", zones, 3, true);
    }
    if (often(p, 25)) {
        PUT(profile->spreads[0].key, "%s", often(p, 50) ? "rack" : "topology.kubernetes.io/zone");
        profile->spreads[0].skew = (int32_t)prng_below(p, 4);
        profile->spreads[0].when = often(p, 75) ? 1 : 2;
    }
}

static struct oracle_amounts draw_unit(struct prng *p)
{
    struct oracle_amounts unit = {0};
    unit.of[0] = (int64_t)prng_below(p, 4) * 1000;
    unit.of[1] = (int64_t)prng_below(p, 3) * 4000;
    if (often(p, 20)) unit.of[2] = 1000;
    return unit;
}

static void draw_need(struct prng *p, struct oracle_need *need)
{
    size_t units = prng_between(p, 0, 6);
    memset(need, 0, sizeof *need);
    PUT(need->cluster, "%s", PICK(p, clusters));
    draw_profile(p, &need->profile);
    need->min_unit = draw_unit(p);
    for (int d = 0; d < ORACLE_DIMS; d++)
        need->aggregate.of[d] = (int64_t)units * need->min_unit.of[d];
    if (often(p, 10)) need->aggregate.of[0] += 500;
    if (often(p, 5)) need->min_unit = (struct oracle_amounts){0};
    if (often(p, 50)) PUT(need->group, "g%d", (int)prng_below(p, 3));
    need->arrival = prng_below(p, 4);
    need->parked = often(p, 10);
}

/* The needs table gives rows of one key one arrival and the shard parks by key. */
static void agree(struct oracle_need *needs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            struct oracle_stamp a = oracle_stamp_of(&needs[i]), b = oracle_stamp_of(&needs[k]);
            if (strcmp(a.cluster, b.cluster) != 0 || strcmp(a.group, b.group) != 0) continue;
            if (strcmp(a.fingerprint, b.fingerprint) != 0) continue;
            if (needs[k].arrival && (!needs[i].arrival || needs[k].arrival < needs[i].arrival))
                needs[i].arrival = needs[k].arrival;
            if (needs[k].parked) needs[i].parked = true;
        }
}

static enum oracle_state draw_state(struct prng *p)
{
    static const enum oracle_state states[] = {
        ORACLE_SPECULATIVE, ORACLE_SPECULATIVE, ORACLE_CREATING,   ORACLE_IDLE,
        ORACLE_IDLE,        ORACLE_CONFIGURING, ORACLE_CONFIGURED, ORACLE_CONFIGURED,
        ORACLE_CONFIGURED,  ORACLE_DRAINING,    ORACLE_DELETING,   ORACLE_FAILED};
    return states[prng_below(p, 12)];
}

/* A stamp of a need in the fleet, or of one that nobody has any more. */
static struct oracle_stamp draw_stamp(struct prng *p, const struct oracle_fleet *fleet)
{
    struct oracle_need gone;
    if (fleet->need_count && often(p, 75))
        return oracle_stamp_of(&fleet->needs[prng_below(p, fleet->need_count)]);
    draw_need(p, &gone);
    return oracle_stamp_of(&gone);
}

static void draw_queued(struct prng *p, const struct oracle_fleet *fleet, struct oracle_machine *m)
{
    switch (m->state) {
    case ORACLE_IDLE: m->queued = often(p, 60) ? ORACLE_BOOTSTRAP : ORACLE_DELETE; break;
    case ORACLE_SPECULATIVE: m->queued = ORACLE_PROVISION; break;
    case ORACLE_CONFIGURED: m->queued = often(p, 50) ? ORACLE_PREEMPT : ORACLE_RECLAIM; break;
    default: return;
    }
    if (m->queued != ORACLE_DELETE && (m->queued != ORACLE_RECLAIM || often(p, 50)))
        m->queued_stamp = draw_stamp(p, fleet);
}

/* `reports`: how many of a hundred Configured machines have a report of what they run */
static void draw_machine(struct prng *p, const struct oracle_fleet *fleet, size_t number,
                         unsigned reports, struct oracle_machine *m)
{
    static const double prices[] = {0, 1, 1, 2, 2.5};
    static const double probabilities[] = {0, 0, 0.05, 0.5};
    memset(m, 0, sizeof *m);
    PUT(m->id, "m%03zu", (number * 7919 + 13) % 1000);
    m->state = draw_state(p);
    m->capacity = (enum oracle_capacity)prng_between(p, 0, 4);
    if (often(p, 95)) PUT(m->type, "%s", PICK(p, types));
    if (often(p, 95)) PUT(m->zone, "%s", PICK(p, zones));
    if (often(p, 80)) {
        PUT(m->labels[0].key, "rack");
        PUT(m->labels[0].value, "%s", PICK(p, racks));
    }
    if (often(p, 10)) { /* hidden by the zone, and in its place where there is none */
        struct oracle_label *label = &m->labels[m->labels[0].key[0] ? 1 : 0];
        PUT(label->key, "topology.kubernetes.io/zone");
        PUT(label->value, "%s", PICK(p, zones));
    }
    m->alloc.of[0] = (int64_t)prng_below(p, 5) * 2000;
    m->alloc.of[1] = (int64_t)prng_below(p, 5) * 4000;
    if (strcmp(m->type, "gpu") == 0) m->alloc.of[2] = 1000 * (int64_t)prng_below(p, 3);
    m->price = prices[prng_below(p, 5)];
    m->probability = probabilities[prng_below(p, 4)];
    m->idle_since_ms = 3600000 - prng_below(p, 20) * 60000 / (often(p, 50) ? 1 : 20);
    if (m->state == ORACLE_CONFIGURING || m->state == ORACLE_CONFIGURED ||
        m->state == ORACLE_DRAINING) {
        if (often(p, 70)) m->stamp = draw_stamp(p, fleet);
        if (m->stamp.cluster[0])
            PUT(m->cluster, "%s", m->stamp.cluster);
        else
            PUT(m->cluster, "%s", PICK(p, clusters));
        PUT(m->stamp.cluster, "%s", m->cluster);
    }
    if (m->state == ORACLE_CONFIGURED && often(p, reports)) {
        m->occupancy = (enum oracle_occupancy)prng_below(p, 4);
        m->disruption = (uint8_t)prng_between(p, 1, 27);
    }
    if (m->state == ORACLE_CREATING && often(p, 90)) m->stamp = draw_stamp(p, fleet);
    if ((m->state == ORACLE_DRAINING || m->state == ORACLE_IDLE) && often(p, 40))
        m->drained_for = draw_stamp(p, fleet);
    if (often(p, 10)) draw_queued(p, fleet, m);
    if (often(p, 8)) m->cordon = often(p, 60) ? 1 : 2;
}

static const char *const odds[] = {"o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7"};

/* Gangs that ask the same of a machine and differ in what they share: a rack in some zone, or a
 * zone with some rack. */
static void same_or_any(struct prng *p, struct oracle_need *need)
{
    struct oracle_requirement *r = need->profile.requirements;
    bool rack = often(p, 50);
    memset(r, 0, sizeof need->profile.requirements);
    PUT(r[0].key, "rack");
    r[0].operator= rack ? ORACLE_SAME : ORACLE_EXISTS;
    PUT(r[1].key, "topology.kubernetes.io/zone");
    r[1].operator= rack ? ORACLE_EXISTS : ORACLE_SAME;
    need->min_unit = (struct oracle_amounts){{2000, 4000}};
    need->aggregate = (struct oracle_amounts){{20000, 40000}};
}

/* Most machines satisfy it, or few do; what it asks besides it shares with others. */
static void odd_need(struct prng *p, struct oracle_need *need)
{
    struct oracle_requirement *r = need->profile.requirements;
    if (often(p, 10)) same_or_any(p, need);
    if (often(p, 15)) return;
    while (r->key[0]) r++;
    PUT(r->key, "odd");
    r->operator= often(p, 80) ? ORACLE_NOT_IN : ORACLE_IN;
    for (size_t i = 0; i < prng_between(p, 1, 2); i++)
        PUT(r->values[i], "%s", odds[prng_below(p, 4) * 2 + i]);
    if (need->profile.spreads[0].key[0] && often(p, 30)) PUT(need->profile.spreads[0].key, "host");
}

static void odd_machine(struct prng *p, struct oracle_machine *m)
{
    struct oracle_label *label = m->labels;
    while (label->key[0]) label++;
    if (often(p, 90)) {
        PUT(label->key, "odd");
        PUT(label++->value, "%s", PICK(p, odds));
    }
    PUT(label->key, "host");
    PUT(label->value, "h%d", (int)prng_below(p, 40));
    if (often(p, 50)) m->price += 0.25 * (double)prng_below(p, 8);
    if (often(p, 25)) m->probability = 0.01 * (double)prng_below(p, 30);
    if (often(p, 70)) m->alloc = (struct oracle_amounts){{8000, 16000}}; /* price lists are long */
}

/* The many hold what few lack. */
static void gulf_need(struct prng *p, struct oracle_need *need)
{
    bool high = often(p, 12);
    need->profile.priority = high ? INT32_MAX : (int32_t)prng_below(p, 2);
    need->profile.interruption_bucket = (uint8_t)prng_between(p, 23, 27);
    need->profile.reclamation_bucket = (uint8_t)prng_between(p, 23, 27);
    if (often(p, 70)) memset(need->profile.requirements, 0, sizeof need->profile.requirements);
    need->min_unit = (struct oracle_amounts){{2000, 4000}};
    need->aggregate = (struct oracle_amounts){{high ? 160000 : 60000, high ? 320000 : 120000}};
}

static void gulf_machine(struct prng *p, const struct oracle_fleet *fleet, struct oracle_machine *m)
{
    if (!fleet->need_count || often(p, 20)) return;
    m->state = ORACLE_CONFIGURED;
    m->queued = ORACLE_NOTHING;
    memset(&m->drained_for, 0, sizeof m->drained_for);
    m->stamp = oracle_stamp_of(&fleet->needs[prng_below(p, fleet->need_count)]);
    PUT(m->cluster, "%s", m->stamp.cluster);
}

void random_fleet(struct prng *p, struct random_size size, struct oracle_fleet *ret_fleet)
{
    static const char *const all[] = {"a", "b", "c"};
    struct oracle_fleet fleet = {.dimensions = {"cpu", "memory", "nvidia.com/gpu"},
                                 .now_ms = 3600000};
    unsigned reports;

    fleet.machine_count = prng_between(p, 0, size.machines_max);
    fleet.need_count = prng_between(p, 0, size.needs_max);
    fleet.machines = calloc(fleet.machine_count + 1, sizeof *fleet.machines);
    fleet.needs = calloc(fleet.need_count + 1, sizeof *fleet.needs);
    for (size_t i = 0; i < fleet.need_count; i++) {
        draw_need(p, &fleet.needs[i]);
        if (i > 0 && often(p, 25)) /* the same profile again: rows that merge, gangs alike */
            fleet.needs[i].profile = fleet.needs[prng_below(p, i)].profile;
        else if (size.odd)
            odd_need(p, &fleet.needs[i]);
        if (size.gulfs) gulf_need(p, &fleet.needs[i]);
    }
    agree(fleet.needs, fleet.need_count);
    reports = often(p, 50) ? 80 : 0;
    for (size_t i = 0; i < fleet.machine_count; i++) {
        draw_machine(p, &fleet, i, reports, &fleet.machines[i]);
        if (size.odd) odd_machine(p, &fleet.machines[i]);
        if (size.gulfs) gulf_machine(p, &fleet, &fleet.machines[i]);
        if (i > 0 && often(p, 30)) { /* a machine like another: cohorts */
            char id[ORACLE_TEXT];
            memcpy(id, fleet.machines[i].id, sizeof id);
            fleet.machines[i] = fleet.machines[prng_below(p, i)];
            memcpy(fleet.machines[i].id, id, sizeof id);
        }
    }
    for (size_t i = 0; fleet.machine_count && often(p, 50) && i < ORACLE_POOLS; i++) {
        const struct oracle_machine *m = &fleet.machines[prng_below(p, fleet.machine_count)];
        struct oracle_pool *pool = &fleet.sold_out[fleet.sold_out_count++];
        PUT(pool->type, "%s", often(p, 97) ? m->type : "none");
        PUT(pool->zone, "%s", m->zone);
        pool->capacity = m->capacity;
    }
    if (fleet.need_count == 0 && often(p, 50)) { /* nobody has said anything yet */
        fleet.ready = all;
        fleet.ready_count = 0;
    }
    *ret_fleet = fleet;
}

void random_fleet_free(struct oracle_fleet *fleet)
{
    free(fleet->machines);
    free(fleet->needs);
}
