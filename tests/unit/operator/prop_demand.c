/* SPDX-License-Identifier: Apache-2.0 */
/* Roll-ups against a slow model: requests are kept in a list, and every row is added up anew, in
 * whole milli-units, from that list. 10,000 worlds of up to 40 steps; MUSTER_WORLDS: more. */
#include <stdio.h>
#include <stdlib.h>

#include "base/prng.h"
#include "lib/dimensions_find.h"
#include "lib/test.h"
#include "operator/core/demand.h"

enum { WORLDS = 10000, STEPS_MAX = 40, IDS = 12, NAMES = 5, KEY_CAP = 512 };

static const char *const names[NAMES] = {"cpu", "memory", "nvidia.com/gpu", "pods", "disk"};
static const char *const zones[] = {"a", "b", "c"};

struct modelled { /* one request, as the model has it */
    bool there, seen;
    char key[KEY_CAP]; /* of its row */
    bool named[NAMES];
    int128 milli[NAMES]; /* of one unit */
    uint32_t count;
};
struct world {
    struct prng prng;
    struct demand *demand;
    struct modelled requests[IDS];
    bool reported, listing;
};
/* What a request is made of; texts live as long as it. */
struct drawn {
    struct capacity_request request;
    struct requirement requirements[2];
    struct str values[3];
    struct spread spreads[2];
    struct label resources[NAMES];
    char texts[NAMES][32];
    char group[32];
};

static uint64_t below(struct world *w, uint64_t bound)
{
    return prng_below(&w->prng, bound);
}

/* The same amount may be written in several ways. */
static void draw_amount(struct world *w, char text[32], int128 *ret_milli)
{
    unsigned n = (unsigned)below(w, 5);

    switch (below(w, 5)) {
    case 0: snprintf(text, 32, "%u", n), *ret_milli = (int128)n * 1000; break;
    case 1: snprintf(text, 32, "%um", 500 * n), *ret_milli = (int128)n * 500; break;
    case 2: snprintf(text, 32, "%uGi", n), *ret_milli = ((int128)n << 30) * 1000; break;
    case 3: snprintf(text, 32, "%uTi", n * 4), *ret_milli = ((int128)n << 42) * 1000; break;
    default: snprintf(text, 32, "%ue3", n), *ret_milli = (int128)n * 1000000; break;
    }
}

static void draw_resources(struct world *w, struct drawn *d, struct modelled *m)
{
    d->request.resources = d->resources;
    for (size_t i = 0; i < NAMES; i++) {
        m->named[i] = i == 0 || below(w, 3) == 0;
        m->milli[i] = 0;
        if (!m->named[i]) continue;
        draw_amount(w, d->texts[i], &m->milli[i]);
        d->resources[d->request.resource_count++] =
            (struct label){str_from(names[i]), str_from(d->texts[i])};
    }
}

/* Zones in any order, the requirements too; the key of the model has them sorted. */
static void draw_requirements(struct world *w, struct drawn *d, char *key, size_t cap)
{
    unsigned first = (unsigned)below(w, 3), last = first + (unsigned)below(w, 3 - first);
    bool turned = below(w, 2), disk = below(w, 3) == 0, swapped = below(w, 2);
    size_t count = last - first + 1, len = 0;

    d->request.requirements = d->requirements;
    for (size_t i = 0; i < count; i++)
        d->values[i] = str_from(zones[turned ? last - i : first + i]);
    d->requirements[0] = (struct requirement){STR("zone"), OPERATOR_IN, d->values, count};
    d->requirements[1] = (struct requirement){STR("disk"), OPERATOR_EXISTS, NULL, 0};
    d->request.requirement_count = disk ? 2 : 1;
    if (disk && swapped) {
        struct requirement other = d->requirements[0];
        d->requirements[0] = d->requirements[1];
        d->requirements[1] = other;
    }
    len += (size_t)snprintf(key, cap, "zone %u..%u %s", first, last, disk ? "disk" : "");
}

static uint32_t slow_bucket(bool given, double dollars)
{
    uint32_t bucket = 3;

    if (!given) return 0;
    if (dollars <= 0) return 1;
    if (dollars <= 0.5) return 2;
    for (double bound = 1; dollars > bound && bucket < 27; bound *= 2) bucket++;
    return bucket;
}

static void draw(struct world *w, struct drawn *d, struct modelled *m)
{
    static const double dollars[] = {0, 0.5, 0.6, 1, 1.01, 2, 100, 8388608, 8388609};
    char where[64];
    bool anyway, strict;

    *d = (struct drawn){0};
    *m = (struct modelled){.there = true};
    d->request.count = m->count = (uint32_t)(1 + below(w, below(w, 20) ? 4 : REQUEST_COUNT_MAX));
    d->request.priority = (int32_t)below(w, 3) - 1;
    d->request.interruption.given = below(w, 2);
    d->request.interruption.dollars = dollars[below(w, ARRAY_LEN(dollars))];
    draw_resources(w, d, m);
    draw_requirements(w, d, where, sizeof where);
    anyway = below(w, 3) == 0;
    strict = below(w, 4) == 0;
    d->request.spreads = d->spreads;
    if (anyway)
        d->spreads[d->request.spread_count++] =
            (struct spread){STR("rack"), 2, SPREAD_SCHEDULE_ANYWAY};
    if (strict)
        d->spreads[d->request.spread_count++] =
            (struct spread){STR("zone"), 1, SPREAD_DO_NOT_SCHEDULE};
    if (below(w, 4) == 0) {
        snprintf(d->group, sizeof d->group, "rack-g%u", (unsigned)below(w, 2));
        d->request.same_key = STR("rack");
        d->request.group = str_from(d->group);
    }
    snprintf(m->key, sizeof m->key, "p=%d b=%u %s strict=%d group=%s", d->request.priority,
             slow_bucket(d->request.interruption.given, d->request.interruption.dollars), where,
             strict, d->group);
}

/* What the model calls the row of a profile. */
static void key_of(const struct rollup_row *row, char key[KEY_CAP])
{
    unsigned first = 0, last = 0;
    bool disk = false, strict = false;

    for (size_t i = 0; i < row->profile.requirement_count; i++) {
        const struct requirement *r = &row->profile.requirements[i];
        disk |= str_equal(r->key, STR("disk"));
        if (!str_equal(r->key, STR("zone"))) continue;
        first = (unsigned)(r->values[0].at[0] - 'a');
        last = (unsigned)(r->values[r->value_count - 1].at[0] - 'a');
    }
    for (size_t i = 0; i < row->profile.spread_count; i++) {
        CHECK("no ScheduleAnyway", row->profile.spreads[i].when == SPREAD_DO_NOT_SCHEDULE);
        strict = true;
    }
    CHECK("Same exactly with a group",
          (profile_same(&row->profile) != NULL) == (row->group.len > 0));
    snprintf(key, KEY_CAP, "p=%d b=%u zone %u..%u %s strict=%d group=%.*s", row->profile.priority,
             row->profile.interruption_bucket, first, last, disk ? "disk" : "", strict,
             STR_ARG(row->group));
}

static void check_row(struct world *w, const struct rollup_row *row)
{
    const struct dimensions *dimensions = demand_dimensions(w->demand);
    int128 sum[NAMES] = {0}, most[NAMES] = {0};
    bool named[NAMES] = {false};
    char key[KEY_CAP];
    size_t requests = 0;

    key_of(row, key);
    for (size_t i = 0; i < IDS; i++) {
        const struct modelled *m = &w->requests[i];
        if (!m->there || strcmp(m->key, key) != 0) continue;
        requests++;
        for (size_t n = 0; n < NAMES; n++) {
            named[n] |= m->named[n];
            sum[n] += m->milli[n] * m->count;
            if (m->milli[n] > most[n]) most[n] = m->milli[n];
        }
    }
    CHECK_SIZE("as many requests", row->requests, requests);
    CHECK("at least one", requests > 0);
    for (size_t n = 0; n < NAMES; n++) {
        uint32_t d;
        bool known = dimensions_find(dimensions, str_from(names[n]), &d);
        CHECK("named by some", (known && row->aggregate.mask >> d & 1) == named[n]);
        CHECK("the exact sum", !known || resource_sum_get(&row->aggregate, d) == sum[n]);
        CHECK("the largest unit", !known || resources_get(&row->min_unit, d) == most[n]);
    }
}

static void check_rows(struct world *w)
{
    const struct rollup_row *row;
    size_t cursor = 0, requests = 0, rows = 0, there = 0;

    while ((row = demand_next(w->demand, &cursor))) {
        check_row(w, row);
        requests += row->requests;
        rows++;
    }
    for (size_t i = 0; i < IDS; i++) there += w->requests[i].there;
    CHECK_SIZE("every request is in one row", requests, there);
    CHECK_SIZE("as many as it says", demand_requests(w->demand), there);
    CHECK_SIZE("rows", demand_rows(w->demand), rows);
    CHECK("whole", demand_whole(w->demand) == (w->reported && !w->listing));
}

static void step(struct world *w)
{
    size_t at = below(w, IDS);
    char id[16];
    struct drawn drawn;
    struct note note = {""};
    uint64_t before = demand_change(w->demand), change = 0;

    snprintf(id, sizeof id, "id-%zu", at);
    switch (below(w, 12)) {
    case 0:
    case 1:
    case 2:
        demand_remove(w->demand, str_from(id));
        CHECK("a change, if it was there",
              (demand_change(w->demand) != before) == w->requests[at].there);
        w->requests[at].there = false;
        break;
    case 3:
        demand_list_begin(w->demand);
        w->listing = true;
        for (size_t i = 0; i < IDS; i++) w->requests[i].seen = false;
        break;
    case 4:
        if (!w->listing) break;
        demand_list_end(w->demand);
        for (size_t i = 0; i < IDS; i++) w->requests[i].there &= w->requests[i].seen;
        w->listing = false;
        w->reported = true;
        break;
    case 5:
        demand_list_give_up(w->demand);
        w->listing = false;
        break;
    case 6: /* one that is refused leaves what was there */
        draw(w, &drawn, &(struct modelled){0});
        drawn.resources[0].value = STR("lots");
        CHECK_ERR("refused", demand_put(w->demand, str_from(id), &drawn.request, &change, &note),
                  ERR_PARSE);
        CHECK_U64("no change", demand_change(w->demand), before);
        break;
    default:
        draw(w, &drawn, &w->requests[at]);
        CHECK_OK("put", demand_put(w->demand, str_from(id), &drawn.request, &change, &note));
        CHECK_U64("the change it is in", change, demand_change(w->demand));
        w->requests[at].seen = true;
        CHECK_OK("again", demand_put(w->demand, str_from(id), &drawn.request, NULL, &note));
        CHECK_U64("is none", demand_change(w->demand), change);
    }
}

TEST(rows_are_the_exact_sum_of_the_requests)
{
    const char *asked = getenv("MUSTER_WORLDS");
    uint64_t worlds = asked ? strtoull(asked, NULL, 10) : WORLDS;
    struct world w = {0};
    struct prng all;

    prng_seed(&all, test_seed());
    for (uint64_t n = 0; n < worlds; n++) {
        size_t steps;
        prng_fork(&all, &w.prng);
        w.reported = w.listing = false;
        memset(w.requests, 0, sizeof w.requests);
        CHECK_OK("open", demand_open(n, &w.demand));
        steps = 1 + below(&w, STEPS_MAX);
        for (size_t i = 0; i < steps; i++) {
            step(&w);
            if (below(&w, 4) == 0) check_rows(&w);
        }
        check_rows(&w);
        demand_close(w.demand);
    }
}
