/* SPDX-License-Identifier: Apache-2.0 */
#include "decide/oracle.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHIELD_MS = 60 * 1000,
    ON_DEMAND_HOLD_MS = 10 * 60 * 1000,
    SPOT_HOLD_MS = 60 * 1000,
    GRACE_LONG_MS = 10 * 60 * 1000,
};

/* ---- helpers ---- */

static void *must_alloc(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) abort();
    return memory;
}

static bool same_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static struct oracle_sum sum_of(const struct oracle_amounts *amounts)
{
    struct oracle_sum sum;
    for (int d = 0; d < ORACLE_DIMS; d++) sum.of[d] = amounts->of[d];
    return sum;
}

static void sum_add(struct oracle_sum *sum, const struct oracle_sum *more)
{
    for (int d = 0; d < ORACLE_DIMS; d++) sum->of[d] += more->of[d];
}

static void sum_take(struct oracle_sum *rem, const struct oracle_amounts *alloc)
{
    for (int d = 0; d < ORACLE_DIMS; d++) {
        rem->of[d] -= alloc->of[d];
        if (rem->of[d] < 0) rem->of[d] = 0;
    }
}

static bool sum_is_zero(const struct oracle_sum *sum)
{
    for (int d = 0; d < ORACLE_DIMS; d++)
        if (sum->of[d] > 0) return false;
    return true;
}

static bool sum_covers(const struct oracle_sum *have, const struct oracle_sum *want)
{
    for (int d = 0; d < ORACLE_DIMS; d++)
        if (want->of[d] > 0 && have->of[d] < want->of[d]) return false;
    return true;
}

static bool helps(const struct oracle_machine *machine, const struct oracle_sum *rem)
{
    for (int d = 0; d < ORACLE_DIMS; d++)
        if (rem->of[d] > 0 && machine->alloc.of[d] > 0) return true;
    return false;
}

/* Decimal text of a 128-bit amount. */
static size_t print_amount(oracle_wide amount, char *out, size_t cap)
{
    char digits[48];
    size_t count = 0, length = 0;
    assert(amount >= 0);
    do digits[count++] = (char)('0' + (int)(amount % 10));
    while ((amount /= 10) > 0);
    while (count > 0 && length + 1 < cap) out[length++] = digits[--count];
    out[length] = '\0';
    return length;
}

static void sum_text(const struct oracle_fleet *fleet, const struct oracle_sum *sum,
                     char out[ORACLE_FINGERPRINT])
{
    size_t length = 0;
    out[0] = '\0';
    for (int d = 0; d < ORACLE_DIMS && fleet->dimensions[d]; d++) {
        if (sum->of[d] <= 0) continue;
        length += (size_t)snprintf(out + length, ORACLE_FINGERPRINT - length,
                                   "%s%s=", length ? "," : "", fleet->dimensions[d]);
        length += print_amount(sum->of[d], out + length, ORACLE_FINGERPRINT - length);
    }
}

const char *oracle_attribute(const struct oracle_machine *machine, const char *key)
{
    if (same_text(key, "node.kubernetes.io/instance-type") && machine->type[0])
        return machine->type;
    if (same_text(key, "topology.kubernetes.io/zone") && machine->zone[0]) return machine->zone;
    for (int i = 0; i < ORACLE_LABELS && machine->labels[i].key[0]; i++)
        if (same_text(machine->labels[i].key, key)) return machine->labels[i].value;
    return NULL;
}

static bool listed(const struct oracle_requirement *requirement, const char *value)
{
    for (int i = 0; i < ORACLE_VALUES && requirement->values[i][0]; i++)
        if (same_text(requirement->values[i], value)) return true;
    return false;
}

static bool holds(const struct oracle_requirement *requirement,
                  const struct oracle_machine *machine)
{
    const char *value = oracle_attribute(machine, requirement->key);
    switch (requirement->operator) {
    case ORACLE_IN: return value && listed(requirement, value);
    case ORACLE_NOT_IN: return !value || !listed(requirement, value);
    case ORACLE_EXISTS: return value != NULL;
    case ORACLE_DOES_NOT_EXIST: return value == NULL;
    case ORACLE_SAME: return value && (!requirement->values[0][0] || listed(requirement, value));
    }
    return false;
}

bool oracle_matches(const struct oracle_profile *profile, const struct oracle_machine *machine)
{
    for (int i = 0; i < ORACLE_REQUIREMENTS && profile->requirements[i].key[0]; i++)
        if (!holds(&profile->requirements[i], machine)) return false;
    return true;
}

bool oracle_fits(const struct oracle_machine *machine, const struct oracle_sum *min_unit)
{
    struct oracle_sum alloc = sum_of(&machine->alloc);
    return sum_covers(&alloc, min_unit);
}

/* ---- profiles ---- */

static int compare_requirements(const void *a, const void *b)
{
    const struct oracle_requirement *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (int)x->operator-(int) y->operator;
}

static int compare_values(const void *a, const void *b)
{
    return strcmp(a, b);
}

static int compare_spreads(const void *a, const void *b)
{
    return strcmp(((const struct oracle_spread *)a)->key, ((const struct oracle_spread *)b)->key);
}

static struct oracle_profile canonical(const struct oracle_profile *profile)
{
    struct oracle_profile p = *profile;
    size_t requirements = 0, spreads = 0;
    while (requirements < ORACLE_REQUIREMENTS && p.requirements[requirements].key[0]) {
        struct oracle_requirement *r = &p.requirements[requirements++];
        size_t values = 0;
        while (values < ORACLE_VALUES && r->values[values][0]) values++;
        qsort(r->values, values, sizeof r->values[0], compare_values);
    }
    while (spreads < ORACLE_SPREADS && p.spreads[spreads].key[0]) spreads++;
    qsort(p.requirements, requirements, sizeof p.requirements[0], compare_requirements);
    qsort(p.spreads, spreads, sizeof p.spreads[0], compare_spreads);
    return p;
}

void oracle_fingerprint(const struct oracle_profile *profile, char out[ORACLE_FINGERPRINT])
{
    struct oracle_profile p = canonical(profile);
    int n = snprintf(out, ORACLE_FINGERPRINT, "p=%d|ipb=%d|rpb=%d|reqs=", p.priority,
                     p.interruption_bucket, p.reclamation_bucket);
    for (int i = 0; i < ORACLE_REQUIREMENTS && p.requirements[i].key[0]; i++) {
        const struct oracle_requirement *r = &p.requirements[i];
        n += snprintf(out + n, ORACLE_FINGERPRINT - (size_t)n, "%s:%d:", r->key, (int)r->operator);
        for (int v = 0; v < ORACLE_VALUES && r->values[v][0]; v++)
            n += snprintf(out + n, ORACLE_FINGERPRINT - (size_t)n, v ? ",%s" : "%s", r->values[v]);
        n += snprintf(out + n, ORACLE_FINGERPRINT - (size_t)n, ";");
    }
    n += snprintf(out + n, ORACLE_FINGERPRINT - (size_t)n, "|spr=");
    for (int i = 0; i < ORACLE_SPREADS && p.spreads[i].key[0]; i++)
        n += snprintf(out + n, ORACLE_FINGERPRINT - (size_t)n, "%s:%d:%d;", p.spreads[i].key,
                      p.spreads[i].skew, p.spreads[i].when);
    assert(n < ORACLE_FINGERPRINT);
}

static const struct oracle_requirement *first_same(const struct oracle_profile *canonical_profile)
{
    for (int i = 0; i < ORACLE_REQUIREMENTS && canonical_profile->requirements[i].key[0]; i++)
        if (canonical_profile->requirements[i].operator== ORACLE_SAME)
            return &canonical_profile->requirements[i];
    return NULL;
}

static const struct oracle_spread *strict_spread(const struct oracle_profile *canonical_profile)
{
    for (int i = 0; i < ORACLE_SPREADS && canonical_profile->spreads[i].key[0]; i++)
        if (canonical_profile->spreads[i].when == 1) return &canonical_profile->spreads[i];
    return NULL;
}

static struct oracle_profile without_same(const struct oracle_profile *profile)
{
    struct oracle_profile p = *profile;
    int kept = 0;
    memset(p.requirements, 0, sizeof p.requirements);
    for (int i = 0; i < ORACLE_REQUIREMENTS && profile->requirements[i].key[0]; i++)
        if (profile->requirements[i].operator!= ORACLE_SAME)
            p.requirements[kept++] = profile->requirements[i];
    return p;
}

static double bucket_dollars(uint8_t bucket)
{
    if (bucket <= 1) return 0;
    if (bucket == 2) return 0.5;
    if (bucket >= 27) return INFINITY;
    return ldexp(1, bucket - 3);
}

static double effective_cost(const struct oracle_machine *machine, uint8_t bucket)
{
    if (machine->probability == 0) return machine->price;
    return machine->price + machine->probability * fmax(0, bucket_dollars(bucket));
}

static struct oracle_stamp stamp(const char *cluster, const char *group,
                                 const struct oracle_profile *profile)
{
    struct oracle_stamp out = {.priority = profile->priority};
    snprintf(out.cluster, sizeof out.cluster, "%s", cluster);
    snprintf(out.group, sizeof out.group, "%s", group);
    oracle_fingerprint(profile, out.fingerprint);
    out.interruption_dollars = bucket_dollars(profile->interruption_bucket);
    out.reclamation_dollars = bucket_dollars(profile->reclamation_bucket);
    return out;
}

struct oracle_stamp oracle_stamp_of(const struct oracle_need *need)
{
    return stamp(need->cluster, need->group, &need->profile);
}

/* ---- one decision at work ---- */

/* Domains of a strict spread and how many machines a row has in each. */
struct place {
    char value[ORACLE_TEXT];
    size_t held;
    size_t
        coming; /* Phase 2: machines that come back count where they will be, not for the least */
};
struct places {
    struct place *of; /* room for one a machine; NULL: the row has no strict spread at work */
    size_t count;
};

struct work {
    const struct oracle_fleet *fleet;
    struct oracle_machine *machines; /* a copy, with what is queued taken as begun */
    size_t machine_count;
    struct oracle_row *rows;
    size_t row_count;
    long *claimed_by;
    size_t *claims; /* in the order they were made: pairs (row, machine) */
    size_t claim_count;
    struct oracle_action *actions;
    size_t action_count;
    struct places *places; /* per row: a strict spread's domains, from its turn on */
    bool *used;            /* Phase 2: each machine once */
    long *reclaim; /* excess: the row it is drained for, -1 nobody, -2 no excess, -3 preempted */
};

static void begin_queued(struct oracle_machine *m)
{
    switch (m->queued) {
    case ORACLE_NOTHING: return;
    case ORACLE_BOOTSTRAP:
        m->state = ORACLE_CONFIGURING;
        m->stamp = m->queued_stamp;
        snprintf(m->cluster, sizeof m->cluster, "%s", m->queued_stamp.cluster);
        break;
    case ORACLE_PROVISION:
        m->state = ORACLE_CREATING;
        m->stamp = m->queued_stamp;
        break;
    case ORACLE_PREEMPT:
    case ORACLE_RECLAIM:
        m->state = ORACLE_DRAINING;
        m->drained_for = m->queued_stamp;
        break;
    case ORACLE_DELETE: m->state = ORACLE_DELETING; break;
    }
}

static bool is_key_of(const struct oracle_stamp *s, const struct oracle_row *row)
{
    return s->cluster[0] && same_text(s->cluster, row->cluster) &&
           same_text(s->fingerprint, row->fingerprint) &&
           (!row->gang || same_text(s->group, row->group));
}

static struct oracle_stamp row_stamp(const struct oracle_row *row)
{
    return stamp(row->cluster, row->group, &row->profile);
}

static int compare_keep(const struct oracle_machine *a, const struct oracle_machine *b)
{
    if (a->price != b->price) return a->price < b->price ? -1 : 1;
    if (a->stamp.reclamation_dollars != b->stamp.reclamation_dollars)
        return a->stamp.reclamation_dollars > b->stamp.reclamation_dollars ? -1 : 1;
    return strcmp(a->id, b->id);
}

static int compare_ids(const struct oracle_machine *a, const struct oracle_machine *b)
{
    return strcmp(a->id, b->id);
}

static int compare_price(const struct oracle_machine *a, const struct oracle_machine *b)
{
    if (a->price != b->price) return a->price < b->price ? -1 : 1;
    return strcmp(a->id, b->id);
}

/* Insertion sort of machine numbers: slow, stable, and nothing to get wrong. */
static void sort_machines(const struct work *w, size_t *list, size_t count,
                          int (*compare)(const struct oracle_machine *,
                                         const struct oracle_machine *))
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0; j--) {
            size_t swap = list[j];
            if (compare(&w->machines[list[j - 1]], &w->machines[swap]) <= 0) break;
            list[j] = list[j - 1];
            list[j - 1] = swap;
        }
}

static void sort_by_cost(const struct work *w, size_t *list, size_t count, uint8_t bucket)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0; j--) {
            const struct oracle_machine *a = &w->machines[list[j - 1]], *b = &w->machines[list[j]];
            double x = effective_cost(a, bucket), y = effective_cost(b, bucket);
            size_t swap = list[j];
            if (x < y || (x == y && strcmp(a->id, b->id) <= 0)) break;
            list[j] = list[j - 1];
            list[j - 1] = swap;
        }
}

static bool usable(const struct work *w, const struct oracle_row *row, size_t m)
{
    return w->claimed_by[m] < 0 && oracle_matches(&row->profile, &w->machines[m]) &&
           oracle_fits(&w->machines[m], &row->min_unit);
}

static bool in_domain(const struct work *w, const struct oracle_row *row, size_t m)
{
    const char *value;
    if (!row->gang) return true;
    value = oracle_attribute(&w->machines[m], first_same(&row->profile)->key);
    return row->has_domain && value && same_text(value, row->domain);
}

/* Idle, drained for somebody, and not for long. */
static bool is_kept(const struct work *w, const struct oracle_machine *machine)
{
    return machine->state == ORACLE_IDLE && machine->drained_for.cluster[0] &&
           w->fleet->now_ms < machine->idle_since_ms + SHIELD_MS;
}

/* The shield: is this Idle machine kept for somebody whose turn is still to come? */
static bool open_to(const struct work *w, const struct oracle_row *row, size_t m)
{
    const struct oracle_machine *machine = &w->machines[m];
    const struct oracle_stamp *kept_for = &machine->drained_for;
    bool wanted = false;
    if (!is_kept(w, machine)) return true;
    if (is_key_of(kept_for, row)) return true;
    if (row->profile.priority > kept_for->priority) return true;
    for (size_t r = (size_t)(row - w->rows); r < w->row_count; r++)
        if (is_key_of(kept_for, &w->rows[r])) wanted = true;
    return !wanted;
}

static void claim(struct work *w, struct oracle_row *row, size_t m)
{
    assert(w->claimed_by[m] < 0);
    w->claimed_by[m] = row - w->rows;
    w->claims[w->claim_count++] = m;
    sum_take(&row->rem, &w->machines[m].alloc);
    row->claimed++;
    if (w->machines[m].state == ORACLE_IDLE) row->bootstraps++;
    if (w->machines[m].state == ORACLE_SPECULATIVE) row->provisions++;
}

static void claim_list(struct work *w, struct oracle_row *row, const size_t *list, size_t count)
{
    for (size_t i = 0; i < count && !sum_is_zero(&row->rem); i++)
        if (helps(&w->machines[list[i]], &row->rem)) claim(w, row, list[i]);
}

/* What the cluster has in one state that the row could be credited with; own: 1 only its own, 0
 * only others, -1 both. */
static size_t credit_list(const struct work *w, const struct oracle_row *row,
                          enum oracle_state state, int own, size_t *list)
{
    size_t count = 0;
    for (size_t m = 0; m < w->machine_count; m++) {
        bool mine = is_key_of(&w->machines[m].stamp, row);
        if (w->machines[m].state != state || !usable(w, row, m)) continue;
        if (state != ORACLE_CREATING && !same_text(w->machines[m].cluster, row->cluster)) continue;
        if (state == ORACLE_CREATING && !mine && w->machines[m].stamp.cluster[0]) continue;
        if (own >= 0 && mine != (own == 1)) continue;
        list[count++] = m;
    }
    sort_machines(w, list, count, state == ORACLE_CREATING ? compare_ids : compare_keep);
    return count;
}

static size_t credit_all(const struct work *w, const struct oracle_row *row, int own, size_t *list)
{
    size_t count = credit_list(w, row, ORACLE_CONFIGURED, own, list);
    count += credit_list(w, row, ORACLE_CONFIGURING, own, list + count);
    count += credit_list(w, row, ORACLE_CREATING, own, list + count);
    return count;
}

static size_t pool_list(const struct work *w, const struct oracle_row *row, enum oracle_state state,
                        size_t *list)
{
    size_t count = 0;
    for (size_t m = 0; m < w->machine_count; m++)
        if (w->machines[m].state == state && usable(w, row, m) && open_to(w, row, m))
            list[count++] = m;
    if (state == ORACLE_IDLE)
        sort_machines(w, list, count, compare_price);
    else
        sort_by_cost(w, list, count, row->profile.interruption_bucket);
    return count;
}

static size_t keep_domain(const struct work *w, const struct oracle_row *row, size_t *list,
                          size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (in_domain(w, row, list[i])) list[kept++] = list[i];
    return kept;
}

/* ---- domains of a gang ---- */

struct bucket {
    char value[ORACLE_TEXT];
    size_t count;
    struct oracle_sum total, credit, own;
};

static double score(const struct oracle_sum *have, const struct oracle_sum *want, bool capped)
{
    double sum = 0;
    for (int d = 0; d < ORACLE_DIMS; d++) {
        double ratio;
        if (want->of[d] <= 0) continue;
        ratio = (double)have->of[d] / (double)want->of[d];
        if (capped && ratio > 1) ratio = 1;
        sum += ratio;
    }
    return sum;
}

static int per_mille(const struct oracle_sum *have, const struct oracle_sum *want)
{
    oracle_wide least = 1000;
    for (int d = 0; d < ORACLE_DIMS; d++) {
        oracle_wide has = have->of[d] < want->of[d] ? have->of[d] : want->of[d];
        if (want->of[d] <= 0) continue;
        if (has * 1000 / want->of[d] < least) least = has * 1000 / want->of[d];
    }
    return (int)least;
}

static bool better(const struct bucket *b, const struct bucket *c, const struct oracle_sum *want)
{
    bool b_sat = sum_covers(&b->total, want), c_sat = sum_covers(&c->total, want);
    double x, y;
    if (b_sat != c_sat) return b_sat;
    x = score(&b->credit, want, true);
    y = score(&c->credit, want, true);
    if (b_sat) {
        if (x != y) return x > y;
        x = score(&b->own, want, true);
        y = score(&c->own, want, true);
        if (x != y) return x > y;
        x = score(&b->total, want, false);
        y = score(&c->total, want, false);
        if (x != y) return x < y;
    } else {
        double b_total = score(&b->total, want, true), c_total = score(&c->total, want, true);
        if (b_total != c_total) return b_total > c_total;
        if (x != y) return x > y;
    }
    if (b->count != c->count) return b->count > c->count;
    return strcmp(b->value, c->value) < 0;
}

static struct bucket *bucket_of(const struct work *w, const struct oracle_row *row, size_t m,
                                struct bucket *buckets, size_t *count)
{
    const char *value = oracle_attribute(&w->machines[m], first_same(&row->profile)->key);
    assert(value); /* Same holds only where the label is */
    for (size_t b = 0; b < *count; b++)
        if (same_text(buckets[b].value, value)) return &buckets[b];
    snprintf(buckets[*count].value, ORACLE_TEXT, "%s", value);
    return &buckets[(*count)++];
}

static void note_candidates(struct oracle_row *row, struct bucket *buckets, size_t count)
{
    bool *listed = must_alloc(count, sizeof *listed);
    while (row->candidate_count < ORACLE_CANDIDATES && row->candidate_count < count) {
        size_t best = count;
        struct oracle_candidate *out = &row->candidates[row->candidate_count];
        for (size_t b = 0; b < count; b++) {
            int here = per_mille(&buckets[b].total, &row->aggregate), there;
            if (listed[b]) continue;
            there = best < count ? per_mille(&buckets[best].total, &row->aggregate) : -1;
            if (here > there ||
                (here == there && strcmp(buckets[b].value, buckets[best].value) < 0))
                best = b;
        }
        listed[best] = true;
        snprintf(out->value, ORACLE_TEXT, "%s", buckets[best].value);
        out->per_mille = per_mille(&buckets[best].total, &row->aggregate);
        out->satisfiable = sum_covers(&buckets[best].total, &row->aggregate);
        row->candidate_count++;
    }
    free(listed);
}

static void set_domain(struct oracle_row *row, const char *value, bool satisfiable)
{
    row->has_domain = true;
    row->satisfiable = satisfiable;
    snprintf(row->domain, ORACLE_TEXT, "%s", value);
}

/* Step A for a gang: it stays where its own machines alone serve it. */
static void keep_served_gang(struct work *w, struct oracle_row *row, size_t *list)
{
    struct bucket *buckets = must_alloc(w->machine_count, sizeof *buckets), *best = NULL;
    size_t count = credit_all(w, row, 1, list), bucket_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct bucket *b = bucket_of(w, row, list[i], buckets, &bucket_count);
        struct oracle_sum alloc = sum_of(&w->machines[list[i]].alloc);
        sum_add(&b->total, &alloc);
    }
    for (size_t b = 0; b < bucket_count; b++) {
        double here, there;
        if (!sum_covers(&buckets[b].total, &row->aggregate)) continue;
        here = score(&buckets[b].total, &row->aggregate, false);
        there = best ? score(&best->total, &row->aggregate, false) : 0;
        if (!best || here < there || (here == there && strcmp(buckets[b].value, best->value) < 0))
            best = &buckets[b];
    }
    if (best) {
        set_domain(row, best->value, true);
        claim_list(w, row, list, keep_domain(w, row, list, count));
    }
    free(buckets);
}

static void serve_gang(struct work *w, struct oracle_row *row, size_t *list)
{
    struct bucket *buckets = must_alloc(w->machine_count, sizeof *buckets), *best = NULL;
    size_t bucket_count = 0, count = credit_all(w, row, -1, list);
    for (size_t i = 0; i < count; i++) {
        struct bucket *b = bucket_of(w, row, list[i], buckets, &bucket_count);
        struct oracle_sum alloc = sum_of(&w->machines[list[i]].alloc);
        b->count++;
        sum_add(&b->total, &alloc);
        sum_add(&b->credit, &alloc);
        if (is_key_of(&w->machines[list[i]].stamp, row)) sum_add(&b->own, &alloc);
    }
    for (int state = 0; state < 2 && !row->parked; state++) {
        count = pool_list(w, row, state ? ORACLE_SPECULATIVE : ORACLE_IDLE, list);
        for (size_t i = 0; i < count; i++) {
            struct bucket *b = bucket_of(w, row, list[i], buckets, &bucket_count);
            struct oracle_sum alloc = sum_of(&w->machines[list[i]].alloc);
            b->count++;
            sum_add(&b->total, &alloc);
            if (!is_kept(w, &w->machines[list[i]])) continue;
            if (!is_key_of(&w->machines[list[i]].drained_for, row)) continue;
            sum_add(&b->credit, &alloc);
            sum_add(&b->own, &alloc);
        }
    }
    for (size_t b = 0; b < bucket_count; b++)
        if (!best || better(&buckets[b], best, &row->aggregate)) best = &buckets[b];
    note_candidates(row, buckets, bucket_count);
    if (best) {
        set_domain(row, best->value, sum_covers(&best->total, &row->aggregate));
        for (int own = 1; own >= 0; own--) {
            count = keep_domain(w, row, list, credit_all(w, row, own, list));
            claim_list(w, row, list, count);
        }
        for (int state = 0; state < 2 && !row->parked; state++) {
            count = pool_list(w, row, state ? ORACLE_SPECULATIVE : ORACLE_IDLE, list);
            claim_list(w, row, list, keep_domain(w, row, list, count));
        }
    }
    free(buckets);
}

/* ---- strict spread ---- */

static struct place *place_of(struct places *places, const char *value)
{
    for (size_t p = 0; p < places->count; p++)
        if (same_text(places->of[p].value, value)) return &places->of[p];
    snprintf(places->of[places->count].value, ORACLE_TEXT, "%s", value);
    return &places->of[places->count++];
}

static bool spread_allows(const struct places *places, const struct oracle_spread *spread,
                          const char *value)
{
    size_t least = SIZE_MAX, here = 0;
    bool known = false;
    if (!value) return false;
    for (size_t p = 0; p < places->count; p++) {
        if (places->of[p].held < least) least = places->of[p].held;
        if (!same_text(places->of[p].value, value)) continue;
        here = places->of[p].held + places->of[p].coming;
        known = true;
    }
    if (!known) least = 0;
    return here <= least + (size_t)(spread->skew < 1 ? 1 : spread->skew) - 1;
}

static bool better_head(const struct work *w, const struct oracle_row *row, size_t a, size_t b,
                        const char *key)
{
    const struct oracle_machine *x = &w->machines[a], *y = &w->machines[b];
    uint8_t bucket = row->profile.interruption_bucket;
    double p = x->state == ORACLE_IDLE ? x->price : effective_cost(x, bucket);
    double q = y->state == ORACLE_IDLE ? y->price : effective_cost(y, bucket);
    int order;
    if (x->state != y->state) return x->state == ORACLE_IDLE;
    if (p != q) return p < q;
    order = strcmp(oracle_attribute(x, key), oracle_attribute(y, key));
    if (order) return order < 0;
    return strcmp(x->id, y->id) < 0;
}

static void acquire_spread(struct work *w, struct oracle_row *row,
                           const struct oracle_spread *spread, size_t *list)
{
    struct places *places = &w->places[row - w->rows];
    size_t count;
    places->of = must_alloc(w->machine_count, sizeof *places->of);
    for (size_t m = 0; m < w->machine_count; m++) {
        const char *value = oracle_attribute(&w->machines[m], spread->key);
        if (w->claimed_by[m] == row - w->rows && value) place_of(places, value)->held++;
    }
    count = pool_list(w, row, ORACLE_IDLE, list);
    count += pool_list(w, row, ORACLE_SPECULATIVE, list + count);
    for (size_t i = 0; i < count; i++) {
        const char *value = oracle_attribute(&w->machines[list[i]], spread->key);
        if (value) place_of(places, value);
    }
    while (!sum_is_zero(&row->rem)) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < count; i++) {
            const char *value = oracle_attribute(&w->machines[list[i]], spread->key);
            if (w->claimed_by[list[i]] >= 0 || !spread_allows(places, spread, value)) continue;
            if (!helps(&w->machines[list[i]], &row->rem)) continue;
            if (best == SIZE_MAX || better_head(w, row, list[i], best, spread->key)) best = list[i];
        }
        if (best == SIZE_MAX) break;
        place_of(places, oracle_attribute(&w->machines[best], spread->key))->held++;
        claim(w, row, best);
    }
}

/* ---- Phase 1 ---- */

static void own_first(struct work *w, struct oracle_row *row, size_t *list)
{
    if (sum_is_zero(&row->rem)) return;
    if (row->gang)
        keep_served_gang(w, row, list);
    else
        claim_list(w, row, list, credit_all(w, row, 1, list));
}

static void serve_rest(struct work *w, struct oracle_row *row, size_t *list)
{
    const struct oracle_spread *spread = strict_spread(&row->profile);
    if (sum_is_zero(&row->rem)) return;
    if (row->gang) {
        serve_gang(w, row, list);
        return;
    }
    claim_list(w, row, list, credit_all(w, row, 0, list));
    if (spread) {
        acquire_spread(w, row, spread, list);
        return;
    }
    claim_list(w, row, list, pool_list(w, row, ORACLE_IDLE, list));
    claim_list(w, row, list, pool_list(w, row, ORACLE_SPECULATIVE, list));
}

static struct oracle_action *act(struct work *w, enum oracle_kind kind, size_t m,
                                 const char *cluster, const char *reason)
{
    struct oracle_action *action = &w->actions[w->action_count++];
    *action = (struct oracle_action){.kind = kind, .machine = m, .reason = reason};
    snprintf(action->cluster, sizeof action->cluster, "%s", cluster);
    return action;
}

static void phase1(struct work *w)
{
    size_t *list = must_alloc(2 * w->machine_count, sizeof *list);
    for (size_t first = 0, end; first < w->row_count; first = end) {
        end = first;
        while (end < w->row_count &&
               w->rows[end].profile.priority == w->rows[first].profile.priority)
            end++;
        for (size_t r = first; r < end; r++) own_first(w, &w->rows[r], list);
        for (size_t r = first; r < end; r++) serve_rest(w, &w->rows[r], list);
    }
    for (size_t r = 0; r < w->row_count; r++)
        for (int state = 0; state < 2; state++)
            for (size_t i = 0; i < w->claim_count; i++) {
                size_t m = w->claims[i];
                if (w->claimed_by[m] != (long)r) continue;
                if (w->machines[m].state != (state ? ORACLE_SPECULATIVE : ORACLE_IDLE)) continue;
                act(w, state ? ORACLE_PROVISION : ORACLE_BOOTSTRAP, m, w->rows[r].cluster,
                    state ? "phase1.speculative" : "phase1.idle")
                    ->for_whom = row_stamp(&w->rows[r]);
            }
    free(list);
}

/* ---- Phase 2 ---- */

static bool is_ready(const struct work *w, const char *cluster)
{
    if (!w->fleet->ready) return true;
    for (size_t i = 0; i < w->fleet->ready_count; i++)
        if (same_text(w->fleet->ready[i], cluster)) return true;
    return false;
}

static int64_t victim_priority(const struct work *w, size_t m)
{
    int64_t stamped = w->machines[m].stamp.priority;
    int64_t claimer =
        w->claimed_by[m] >= 0 ? w->rows[w->claimed_by[m]].profile.priority : INT32_MIN;
    return claimer > stamped ? claimer : stamped;
}

static double victim_score(const struct work *w, const struct oracle_row *row, size_t m)
{
    const struct oracle_stamp *bought = &w->machines[m].stamp;
    static const struct oracle_weights usual = {1.0, 0.1, 0.1, 0.1, 30};
    const struct oracle_weights *weights = w->fleet->weights ? w->fleet->weights : &usual;
    int64_t gap = row->profile.priority - victim_priority(w, m);
    return (gap > 0 ? (double)gap : 0.0) * weights->priority +
           weights->drain / fmax(1.0, weights->drain_seconds) +
           weights->interruption / fmax(0.01, bought->interruption_dollars) +
           weights->reclamation / fmax(0.01, bought->reclamation_dollars);
}

static uint64_t grace_of(int64_t gap)
{
    if (gap > 900000) return 10 * 1000;
    if (gap > 500000) return 30 * 1000;
    if (gap > 100000) return 2 * 60 * 1000;
    return GRACE_LONG_MS;
}

static bool phase2_usable(const struct work *w, const struct oracle_row *row, size_t m)
{
    const struct places *places = &w->places[row - w->rows];
    const struct oracle_spread *spread = strict_spread(&row->profile);
    if (w->used[m] || !in_domain(w, row, m)) return false;
    if (places->of &&
        !spread_allows(places, spread, oracle_attribute(&w->machines[m], spread->key)))
        return false;
    return oracle_matches(&row->profile, &w->machines[m]) &&
           oracle_fits(&w->machines[m], &row->min_unit) && helps(&w->machines[m], &row->unresolved);
}

static void use(struct work *w, struct oracle_row *row, size_t m)
{
    struct places *places = &w->places[row - w->rows];
    w->used[m] = true;
    sum_take(&row->unresolved, &w->machines[m].alloc);
    if (places->of)
        place_of(places, oracle_attribute(&w->machines[m], strict_spread(&row->profile)->key))
            ->held++;
}

/* The first of the list that the row may use now; a spread may allow later what it forbids now. */
static size_t next_usable(const struct work *w, const struct oracle_row *row, const size_t *list,
                          size_t count)
{
    if (sum_is_zero(&row->unresolved)) return SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        if (phase2_usable(w, row, list[i])) return list[i];
    return SIZE_MAX;
}

static void sort_victims(const struct work *w, const struct oracle_row *row, size_t *list,
                         size_t count)
{
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0; j--) {
            double x = victim_score(w, row, list[j - 1]), y = victim_score(w, row, list[j]);
            size_t swap = list[j];
            if (x > y || (x == y && strcmp(w->machines[list[j - 1]].id, w->machines[swap].id) < 0))
                break;
            list[j] = list[j - 1];
            list[j - 1] = swap;
        }
}

static void preempt(struct work *w, const struct oracle_row *row, size_t m, int64_t priority)
{
    struct oracle_action *action =
        act(w, ORACLE_PREEMPT, m, w->machines[m].cluster, "phase2.inversion");

    action->for_whom = row_stamp(row);
    action->preemptor = row->profile.priority;
    action->grace_ms = grace_of(row->profile.priority - priority);
}

static void make_room(struct work *w, struct oracle_row *row, size_t *list)
{
    struct places *places = &w->places[row - w->rows];
    size_t *before = must_alloc(w->machine_count, sizeof *before); /* a new domain: 0 */
    size_t count = 0, m;
    for (size_t p = 0; p < places->count; p++) before[p] = places->of[p].held;
    for (int nobodys = 0; nobodys < 2; nobodys++) {
        count = 0;
        for (m = 0; m < w->machine_count; m++) {
            const struct oracle_stamp *drained_for = &w->machines[m].drained_for;
            if (w->machines[m].state != ORACLE_DRAINING) continue;
            if (nobodys ? !drained_for->cluster[0] : is_key_of(drained_for, row)) list[count++] = m;
        }
        sort_machines(w, list, count, compare_ids);
        while ((m = next_usable(w, row, list, count)) != SIZE_MAX) use(w, row, m);
    }
    for (size_t p = 0; p < places->count; p++) {
        places->of[p].coming = places->of[p].held - before[p];
        places->of[p].held = before[p];
    }
    free(before);

    count = 0;
    for (m = 0; m < w->machine_count; m++)
        if (w->reclaim[m] == -1 && !w->machines[m].cordon) list[count++] = m;
    sort_machines(w, list, count, compare_price);
    while ((m = next_usable(w, row, list, count)) != SIZE_MAX) {
        use(w, row, m);
        w->reclaim[m] = row - w->rows;
        if (w->machines[m].stamp.priority < row->profile.priority) {
            preempt(w, row, m, w->machines[m].stamp.priority);
            w->reclaim[m] = -3;
        }
    }

    count = 0;
    for (m = 0; m < w->machine_count; m++)
        if (w->machines[m].state == ORACLE_CONFIGURED && w->reclaim[m] == -2 &&
            !w->machines[m].cordon && victim_priority(w, m) < row->profile.priority)
            list[count++] = m;
    sort_victims(w, row, list, count);
    while ((m = next_usable(w, row, list, count)) != SIZE_MAX) {
        struct oracle_sum alloc = sum_of(&w->machines[m].alloc);
        preempt(w, row, m, victim_priority(w, m));
        use(w, row, m);
        sum_add(&row->freed, &alloc);
        row->victims++;
    }
}

static void phase2(struct work *w)
{
    size_t *list = must_alloc(w->machine_count, sizeof *list);
    for (size_t m = 0; m < w->machine_count; m++)
        w->reclaim[m] = w->machines[m].state == ORACLE_CONFIGURED && w->claimed_by[m] < 0 &&
                                is_ready(w, w->machines[m].cluster)
                            ? -1
                            : -2;
    for (size_t r = 0; r < w->row_count; r++) {
        struct oracle_row *row = &w->rows[r];
        row->unresolved = row->rem;
        row->satisfied = sum_is_zero(&row->rem);
        if (row->satisfied || row->parked || (row->gang && !row->has_domain)) continue;
        make_room(w, row, list);
    }
    for (size_t r = 0; r < w->row_count; r++)
        w->rows[r].resolved = sum_is_zero(&w->rows[r].unresolved);
    free(list);
}

/* ---- Phase 3 ---- */

static int compare_release(const struct oracle_machine *a, const struct oracle_machine *b)
{
    int order = strcmp(a->cluster, b->cluster);
    return order ? order : compare_keep(b, a);
}

static bool is_shielded(const struct work *w, size_t m)
{
    const struct oracle_machine *machine = &w->machines[m];
    if (!is_kept(w, machine)) return false;
    for (size_t r = 0; r < w->row_count; r++)
        if (is_key_of(&machine->drained_for, &w->rows[r])) return true;
    return false;
}

static uint64_t hold_of(enum oracle_capacity capacity)
{
    if (capacity == ORACLE_ON_DEMAND) return ON_DEMAND_HOLD_MS;
    if (capacity == ORACLE_SPOT) return SPOT_HOLD_MS;
    return 0;
}

static void phase3(struct work *w)
{
    size_t *list = must_alloc(w->machine_count, sizeof *list), count = 0;
    for (size_t m = 0; m < w->machine_count; m++)
        if (w->reclaim[m] >= -1) list[count++] = m;
    sort_machines(w, list, count, compare_release);
    for (size_t i = 0; i < count; i++) {
        struct oracle_action *action =
            act(w, ORACLE_RECLAIM, list[i], w->machines[list[i]].cluster, "phase3.excess");
        action->grace_ms = GRACE_LONG_MS;
        if (w->reclaim[list[i]] >= 0) action->for_whom = row_stamp(&w->rows[w->reclaim[list[i]]]);
    }
    count = 0;
    for (size_t m = 0; m < w->machine_count; m++)
        if (w->machines[m].state == ORACLE_IDLE && w->claimed_by[m] < 0) list[count++] = m;
    sort_machines(w, list, count, compare_ids);
    for (size_t i = 0; i < count; i++) {
        const struct oracle_machine *machine = &w->machines[list[i]];
        uint64_t hold = hold_of(machine->capacity);
        if (hold == 0 || is_shielded(w, list[i])) continue;
        if (w->fleet->now_ms < machine->idle_since_ms + hold) continue;
        act(w, ORACLE_DELETE, list[i], "", "phase3.release");
    }
    free(list);
}

/* ---- the demand ---- */

/* Served as a gang already: its own machines of one domain cover it. */
static bool is_served(const struct work *w, const struct oracle_row *row)
{
    const char *key = first_same(&row->profile)->key;
    for (size_t m = 0; m < w->machine_count; m++) {
        const char *domain = oracle_attribute(&w->machines[m], key);
        struct oracle_sum total = {0};
        for (size_t k = 0; k < w->machine_count && domain; k++) {
            const struct oracle_machine *machine = &w->machines[k];
            const char *value = oracle_attribute(machine, key);
            struct oracle_sum alloc = sum_of(&machine->alloc);
            bool here =
                machine->state == ORACLE_CREATING ||
                ((machine->state == ORACLE_CONFIGURED || machine->state == ORACLE_CONFIGURING) &&
                 same_text(machine->cluster, row->cluster));
            if (here && is_key_of(&machine->stamp, row) && value && same_text(value, domain) &&
                oracle_matches(&row->profile, machine) && oracle_fits(machine, &row->min_unit))
                sum_add(&total, &alloc);
        }
        if (domain && sum_covers(&total, &row->aggregate)) return true;
    }
    return false;
}

static bool is_foldable(const struct work *w, const struct oracle_row *row)
{
    for (size_t m = 0; m < w->machine_count; m++) {
        const struct oracle_machine *machine = &w->machines[m];
        bool looked_at = machine->state == ORACLE_IDLE || machine->state == ORACLE_SPECULATIVE;
        if (machine->state == ORACLE_CONFIGURED || machine->state == ORACLE_CONFIGURING)
            looked_at = same_text(machine->cluster, row->cluster);
        if (is_kept(w, machine)) looked_at = false;
        if (looked_at && oracle_matches(&row->profile, machine) &&
            oracle_fits(machine, &row->aggregate))
            return true;
    }
    return false;
}

static void earlier(struct oracle_row *row, uint64_t arrival)
{
    if (arrival && (!row->arrival || arrival < row->arrival)) row->arrival = arrival;
}

static struct oracle_row row_of(const struct oracle_need *need)
{
    struct oracle_row row = {.arrival = need->arrival, .parked = need->parked};
    row.profile = canonical(&need->profile);
    row.gang = first_same(&row.profile) != NULL;
    row.aggregate = sum_of(&need->aggregate);
    row.min_unit = sum_of(&need->min_unit);
    snprintf(row.cluster, sizeof row.cluster, "%s", need->cluster);
    snprintf(row.group, sizeof row.group, "%s", row.gang ? need->group : "");
    if (!row.gang) row.parked = false;
    oracle_fingerprint(&row.profile, row.fingerprint);
    return row;
}

/* Finds the plain row that `row` belongs to and adds it there, or appends it. */
static void put_row(struct work *w, const struct oracle_row *row)
{
    char unit[ORACLE_FINGERPRINT], other[ORACLE_FINGERPRINT];
    sum_text(w->fleet, &row->min_unit, unit);
    for (size_t r = 0; r < w->row_count && !row->gang; r++) {
        struct oracle_row *old = &w->rows[r];
        if (old->gang || !same_text(old->cluster, row->cluster)) continue;
        if (!same_text(old->fingerprint, row->fingerprint)) continue;
        sum_text(w->fleet, &old->min_unit, other);
        if (!same_text(unit, other)) continue;
        sum_add(&old->aggregate, &row->aggregate);
        earlier(old, row->arrival);
        return;
    }
    w->rows[w->row_count++] = *row;
}

static int compare_folds(const struct work *w, const struct oracle_row *a,
                         const struct oracle_row *b)
{
    char x[ORACLE_FINGERPRINT], y[ORACLE_FINGERPRINT];
    int order = strcmp(a->cluster, b->cluster);
    if (!order) order = strcmp(a->fingerprint, b->fingerprint);
    if (order) return order;
    sum_text(w->fleet, &a->min_unit, x); /* of one gang */
    sum_text(w->fleet, &b->min_unit, y);
    return strcmp(x, y);
}

static void normalise(struct work *w)
{
    struct oracle_row *folds = must_alloc(w->fleet->need_count, sizeof *folds);
    size_t fold_count = 0;
    for (size_t i = 0; i < w->fleet->need_count; i++) {
        struct oracle_row row = row_of(&w->fleet->needs[i]), fold;
        size_t f = 0;
        if (!row.gang || sum_is_zero(&row.aggregate) || is_served(w, &row) ||
            !is_foldable(w, &row)) {
            put_row(w, &row);
            continue;
        }
        fold = row;
        fold.profile = without_same(&row.profile);
        fold.gang = fold.parked = false;
        fold.group[0] = '\0';
        fold.min_unit = row.aggregate;
        oracle_fingerprint(&fold.profile, fold.fingerprint);
        while (f < fold_count && compare_folds(w, &folds[f], &fold) != 0) f++;
        if (f < fold_count) {
            sum_add(&folds[f].aggregate, &fold.aggregate);
            earlier(&folds[f], fold.arrival);
        } else {
            folds[fold_count++] = fold;
        }
    }
    for (size_t i = 1; i < fold_count; i++)
        for (size_t j = i; j > 0 && compare_folds(w, &folds[j - 1], &folds[j]) > 0; j--) {
            struct oracle_row swap = folds[j];
            folds[j] = folds[j - 1];
            folds[j - 1] = swap;
        }
    for (size_t f = 0; f < fold_count; f++) put_row(w, &folds[f]);
    for (size_t r = 0; r < w->row_count; r++) w->rows[r].place = r;
    free(folds);
}

static int compare_rows(const struct work *w, const struct oracle_row *a,
                        const struct oracle_row *b)
{
    char x[ORACLE_FINGERPRINT], y[ORACLE_FINGERPRINT];
    const struct oracle_profile *p = &a->profile, *q = &b->profile;
    int order;
    if (p->priority != q->priority) return p->priority > q->priority ? -1 : 1;
    if (p->interruption_bucket != q->interruption_bucket)
        return p->interruption_bucket > q->interruption_bucket ? -1 : 1;
    if (p->reclamation_bucket != q->reclamation_bucket)
        return p->reclamation_bucket > q->reclamation_bucket ? -1 : 1;
    if (a->arrival != b->arrival) return a->arrival < b->arrival ? -1 : 1;
    order = strcmp(a->cluster, b->cluster);
    if (!order) order = strcmp(a->group, b->group);
    if (!order) order = strcmp(a->fingerprint, b->fingerprint);
    if (order) return order;
    sum_text(w->fleet, &a->min_unit, x);
    sum_text(w->fleet, &b->min_unit, y);
    order = strcmp(x, y);
    if (order) return order;
    sum_text(w->fleet, &a->aggregate, x);
    sum_text(w->fleet, &b->aggregate, y);
    order = strcmp(x, y);
    if (order) return order;
    return a->place < b->place ? -1 : 1;
}

static void put_in_order(struct work *w)
{
    for (size_t i = 1; i < w->row_count; i++)
        for (size_t j = i; j > 0 && compare_rows(w, &w->rows[j - 1], &w->rows[j]) > 0; j--) {
            struct oracle_row swap = w->rows[j];
            w->rows[j] = w->rows[j - 1];
            w->rows[j - 1] = swap;
        }
    for (size_t r = 0; r < w->row_count; r++) w->rows[r].rem = w->rows[r].aggregate;
}

/* ---- verdicts ---- */

static void explain(const struct work *w, struct oracle_row *row)
{
    row->reason = "";
    if (row->satisfied) {
        row->candidate_count = 0;
        return;
    }
    for (size_t m = 0; m < w->machine_count; m++) {
        int *count = NULL;
        if (w->machines[m].state == ORACLE_IDLE) count = &row->idle_matching;
        if (w->machines[m].state == ORACLE_SPECULATIVE) count = &row->speculative_matching;
        if (w->machines[m].state == ORACLE_CONFIGURED) count = &row->configured_matching;
        if (count && *count < ORACLE_COUNT_MAX && oracle_matches(&row->profile, &w->machines[m]) &&
            oracle_fits(&w->machines[m], &row->min_unit))
            ++*count;
    }
    if (row->gang && (row->parked || !row->has_domain || !row->satisfiable))
        row->reason = "TOPOLOGY_UNSATISFIABLE";
    else if (!row->claimed && !row->idle_matching && !row->speculative_matching &&
             !row->configured_matching)
        row->reason = "NO_MATCHING_SUPPLY";
    else if (!row->resolved && row->victims)
        row->reason = "PREEMPTION_EXHAUSTED";
    else
        row->reason = "PRIORITY_STARVED";
}

/* A machine that takes no part counts as one that nobody can use. */
static void set_aside(struct oracle_machine *m)
{
    bool serves = m->state == ORACLE_CONFIGURED || m->state == ORACLE_CONFIGURING;
    if (m->cordon == 2 || (m->cordon && !serves)) m->state = ORACLE_FAILED;
}

void oracle_decide(const struct oracle_fleet *fleet, struct oracle_decision *ret_decision)
{
    struct work w = {.fleet = fleet, .machine_count = fleet->machine_count};
    w.machines = must_alloc(fleet->machine_count, sizeof *w.machines);
    w.rows = must_alloc(fleet->need_count, sizeof *w.rows);
    w.claimed_by = must_alloc(fleet->machine_count, sizeof *w.claimed_by);
    w.claims = must_alloc(fleet->machine_count, sizeof *w.claims);
    w.actions = must_alloc(fleet->machine_count, sizeof *w.actions);
    w.places = must_alloc(fleet->need_count, sizeof *w.places);
    w.used = must_alloc(fleet->machine_count, sizeof *w.used);
    w.reclaim = must_alloc(fleet->machine_count, sizeof *w.reclaim);
    for (size_t m = 0; m < fleet->machine_count; m++) {
        w.machines[m] = fleet->machines[m];
        begin_queued(&w.machines[m]);
        set_aside(&w.machines[m]);
        w.claimed_by[m] = -1;
    }
    normalise(&w);
    put_in_order(&w);
    phase1(&w);
    phase2(&w);
    phase3(&w);
    for (size_t r = 0; r < w.row_count; r++) explain(&w, &w.rows[r]);
    *ret_decision = (struct oracle_decision){
        .rows = w.rows,
        .row_count = w.row_count,
        .actions = w.actions,
        .action_count = w.action_count,
        .claimed_by = w.claimed_by,
        .claims = w.claims,
        .claim_count = w.claim_count,
    };
    for (size_t r = 0; r < w.row_count; r++) free(w.places[r].of);
    free(w.places);
    free(w.machines);
    free(w.used);
    free(w.reclaim);
}

void oracle_decision_free(struct oracle_decision *decision)
{
    free(decision->rows);
    free(decision->actions);
    free(decision->claimed_by);
    free(decision->claims);
    *decision = (struct oracle_decision){0};
}
