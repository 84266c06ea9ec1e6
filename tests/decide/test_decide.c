/* SPDX-License-Identifier: Apache-2.0 */
/* The decision engine against the rule book (docs/decision.md): the specification's vectors, and
 * random fleets where the engine and the oracle must say the same and every promise must hold. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decide/engine.h"
#include "decide/random.h"
#include "decide/vectors.h"
#include "lib/test.h"

static size_t cases(void)
{
    const char *wanted = getenv("MUSTER_DECIDE_CASES");
    return wanted ? strtoul(wanted, NULL, 10) : 10000;
}

/* ---- the engine and the oracle agree ---- */

static bool same_sum(const struct oracle_sum *a, const struct oracle_sum *b)
{
    for (int d = 0; d < ORACLE_DIMS; d++)
        if (a->of[d] != b->of[d]) return false;
    return true;
}

static const char *row_difference(const struct oracle_row *a, const struct oracle_row *b)
{
    if (strcmp(a->cluster, b->cluster) != 0) return "cluster";
    if (strcmp(a->fingerprint, b->fingerprint) != 0) return "fingerprint";
    if (strcmp(a->group, b->group) != 0) return "group";
    if (!same_sum(&a->aggregate, &b->aggregate)) return "aggregate";
    if (!same_sum(&a->min_unit, &b->min_unit)) return "unit";
    if (a->arrival != b->arrival) return "arrival";
    if (a->gang != b->gang) return "gang";
    if (a->satisfied != b->satisfied) return "satisfied";
    if (a->claimed != b->claimed) return "claimed";
    if (a->bootstraps != b->bootstraps) return "bootstraps";
    if (a->provisions != b->provisions) return "provisions";
    if (a->has_domain != b->has_domain || strcmp(a->domain, b->domain) != 0) return "domain";
    if (a->satisfied) return NULL;
    if (a->gang && a->satisfiable != b->satisfiable) return "satisfiable";
    if (a->parked != b->parked) return "parked";
    if (!same_sum(&a->rem, &b->rem)) return "deficit";
    if (!same_sum(&a->unresolved, &b->unresolved)) return "unresolved";
    if (!same_sum(&a->freed, &b->freed)) return "freed";
    if (a->victims != b->victims) return "victims";
    if (a->idle_matching != b->idle_matching) return "idle count";
    if (a->speculative_matching != b->speculative_matching) return "speculative count";
    if (a->configured_matching != b->configured_matching) return "configured count";
    if (strcmp(a->reason, b->reason) != 0) return "reason";
    if (a->candidate_count != b->candidate_count) return "number of candidate domains";
    for (size_t i = 0; i < a->candidate_count; i++)
        if (strcmp(a->candidates[i].value, b->candidates[i].value) != 0 ||
            a->candidates[i].per_mille != b->candidates[i].per_mille)
            return "candidate domains";
    return NULL;
}

static const char *action_difference(const struct oracle_action *a, const struct oracle_action *b)
{
    if (a->kind != b->kind) return "kind";
    if (a->machine != b->machine) return "machine";
    if (strcmp(a->cluster, b->cluster) != 0) return "cluster";
    if (strcmp(a->for_whom.cluster, b->for_whom.cluster) != 0) return "for cluster";
    if (strcmp(a->for_whom.fingerprint, b->for_whom.fingerprint) != 0) return "for fingerprint";
    if (strcmp(a->for_whom.group, b->for_whom.group) != 0) return "for group";
    if (a->for_whom.priority != b->for_whom.priority) return "for priority";
    if (a->grace_ms != b->grace_ms) return "grace";
    if (a->preemptor != b->preemptor) return "preemptor";
    return strcmp(a->reason, b->reason) != 0 ? "reason" : NULL;
}

static void check_same(const struct oracle_decision *want, const struct oracle_decision *got)
{
    char why[96];
    for (size_t r = 0; r < want->row_count && r < got->row_count; r++) {
        const char *difference = row_difference(&want->rows[r], &got->rows[r]);
        snprintf(why, sizeof why, "row %zu: %s", r, difference ? difference : "");
        CHECK(why, !difference);
    }
    CHECK_SIZE("as many rows", got->row_count, want->row_count);
    for (size_t a = 0; a < want->action_count && a < got->action_count; a++) {
        const char *difference = action_difference(&want->actions[a], &got->actions[a]);
        snprintf(why, sizeof why, "action %zu: %s", a, difference ? difference : "");
        CHECK(why, !difference);
    }
    CHECK_SIZE("as many actions", got->action_count, want->action_count);
}

/* ---- what must hold of every decision (decision.md § 14) ---- */

static enum oracle_state planned_state(const struct oracle_machine *m)
{
    static const enum oracle_state states[] = {
        0, ORACLE_CONFIGURING, ORACLE_CREATING, ORACLE_DRAINING, ORACLE_DRAINING, ORACLE_DELETING};
    return m->queued ? states[m->queued] : m->state;
}

static const char *same_key(const struct oracle_profile *profile)
{
    const char *first = NULL; /* in canonical order: by key */
    for (int i = 0; i < ORACLE_REQUIREMENTS && profile->requirements[i].key[0]; i++)
        if (profile->requirements[i].operator==
            ORACLE_SAME &&(!first || strcmp(profile->requirements[i].key, first) < 0))
            first = profile->requirements[i].key;
    return first;
}

static bool is_zero(const struct oracle_sum *sum)
{
    for (int d = 0; d < ORACLE_DIMS; d++)
        if (sum->of[d] > 0) return false;
    return true;
}

static void check_claims(const struct oracle_fleet *fleet, const struct oracle_decision *decision)
{
    size_t *counts = calloc(decision->row_count + 1, sizeof *counts);
    for (size_t m = 0; m < fleet->machine_count; m++) {
        const struct oracle_machine *machine = &fleet->machines[m];
        enum oracle_state state = planned_state(machine);
        const struct oracle_row *row;
        if (decision->claimed_by[m] < 0) continue;
        row = &decision->rows[decision->claimed_by[m]];
        counts[decision->claimed_by[m]]++;
        CHECK("a claimed machine matches", oracle_matches(&row->profile, machine));
        CHECK("a claimed machine fits", oracle_fits(machine, &row->min_unit));
        CHECK("a claimed machine can serve",
              state != ORACLE_DRAINING && state != ORACLE_DELETING && state != ORACLE_FAILED);
        if (row->gang)
            CHECK("a gang is in one domain",
                  strcmp(oracle_attribute(machine, same_key(&row->profile)), row->domain) == 0);
        if (row->parked)
            CHECK("a parked gang acquires nothing",
                  state != ORACLE_IDLE && state != ORACLE_SPECULATIVE);
    }
    for (size_t r = 0; r < decision->row_count; r++)
        CHECK_SIZE("claims are counted", counts[r], decision->rows[r].claimed);
    free(counts);
}

static const struct oracle_spread *hard_spread(const struct oracle_row *row)
{
    for (int i = 0; i < ORACLE_SPREADS && !row->gang; i++)
        if (row->profile.spreads[i].key[0] && row->profile.spreads[i].when == 1)
            return &row->profile.spreads[i];
    return NULL;
}

/* How many machines of `value` the first `count` claims gave to the row; of any value when NULL is
 * asked, the least that any value has that has one. */
static size_t held_before(const struct oracle_fleet *fleet, const struct oracle_decision *decision,
                          long row, size_t count, const char *key, const char *value)
{
    size_t held = 0, least = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct oracle_machine *m = &fleet->machines[decision->claims[i]];
        const char *here = oracle_attribute(m, key);
        if (decision->claimed_by[decision->claims[i]] != row || !here) continue;
        if (value) {
            held += strcmp(here, value) == 0;
        } else {
            size_t those = held_before(fleet, decision, row, count, key, here);
            if (those < least) least = those;
        }
    }
    return value ? held : least;
}

/* Claim by claim: nobody takes a machine when nothing is lacking, or one that has nothing of it, or
 * one more of a domain than its spread allows. */
static void check_claim_order(const struct oracle_fleet *fleet,
                              const struct oracle_decision *decision)
{
    struct oracle_sum *rem = calloc(decision->row_count + 1, sizeof *rem);
    for (size_t r = 0; r < decision->row_count; r++) rem[r] = decision->rows[r].aggregate;
    for (size_t i = 0; i < decision->claim_count; i++) {
        const struct oracle_machine *m = &fleet->machines[decision->claims[i]];
        long r = decision->claimed_by[decision->claims[i]];
        const struct oracle_spread *spread = hard_spread(&decision->rows[r]);
        enum oracle_state state = planned_state(m);
        bool useful = false;
        if (spread && (state == ORACLE_IDLE || state == ORACLE_SPECULATIVE)) {
            const char *value = oracle_attribute(m, spread->key);
            size_t skew = spread->skew < 1 ? 1 : (size_t)spread->skew, least;
            CHECK("a spread takes only what can be counted", value != NULL);
            least = held_before(fleet, decision, r, i, spread->key, NULL);
            if (least != SIZE_MAX)
                CHECK("no domain runs ahead",
                      held_before(fleet, decision, r, i, spread->key, value) <= least + skew - 1);
        }
        for (int d = 0; d < ORACLE_DIMS; d++) {
            if (rem[r].of[d] > 0 && m->alloc.of[d] > 0) useful = true;
            rem[r].of[d] -= m->alloc.of[d];
            if (rem[r].of[d] < 0) rem[r].of[d] = 0;
        }
        CHECK("a claim serves what is lacking", useful);
    }
    for (size_t r = 0; r < decision->row_count; r++)
        CHECK("what is lacking is reported", same_sum(&rem[r], &decision->rows[r].rem));
    free(rem);
}

/* Some row of the key that a victim is drained for could use it: match, unit, domain. */
static bool serves_somebody(const struct oracle_decision *decision,
                            const struct oracle_action *action, const struct oracle_machine *m)
{
    for (size_t r = 0; r < decision->row_count; r++) {
        const struct oracle_row *row = &decision->rows[r];
        const char *value = row->gang ? oracle_attribute(m, same_key(&row->profile)) : NULL;
        if (strcmp(row->cluster, action->for_whom.cluster) != 0 ||
            strcmp(row->fingerprint, action->for_whom.fingerprint) != 0 ||
            (row->gang && strcmp(row->group, action->for_whom.group) != 0))
            continue;
        if (row->satisfied || !oracle_matches(&row->profile, m) || !oracle_fits(m, &row->min_unit))
            continue;
        if (!row->gang || (row->has_domain && value && strcmp(value, row->domain) == 0))
            return true;
    }
    return false;
}

static void check_excess(const struct oracle_fleet *fleet, const struct oracle_decision *decision)
{
    char *touched = calloc(fleet->machine_count + 1, 1);
    for (size_t a = 0; a < decision->action_count; a++) {
        const struct oracle_action *action = &decision->actions[a];
        long claimer = decision->claimed_by[action->machine];
        CHECK("one action a machine", !touched[action->machine]);
        touched[action->machine] = 1;
        CHECK("nothing is planned on a queued machine", !fleet->machines[action->machine].queued);
        if (action->kind == ORACLE_RECLAIM || action->kind == ORACLE_DELETE)
            CHECK("what is let go nobody claimed", claimer < 0);
        if (action->kind == ORACLE_RECLAIM)
            CHECK("a held machine stays",
                  fleet->machines[action->machine].occupancy != ORACLE_HELD);
        if (action->kind == ORACLE_DELETE)
            CHECK("a delete has no cluster and no grace",
                  !action->cluster[0] && !action->grace_ms && !action->for_whom.cluster[0]);
        if (action->kind == ORACLE_PREEMPT)
            CHECK("a victim would serve the one it gives way to",
                  serves_somebody(decision, action, &fleet->machines[action->machine]));
        if (action->kind == ORACLE_PREEMPT) {
            CHECK("a victim is less important by its stamp",
                  fleet->machines[action->machine].stamp.priority < action->preemptor);
            if (claimer >= 0)
                CHECK("a victim is less important by its claimer",
                      decision->rows[claimer].profile.priority < action->preemptor);
        }
    }
    for (size_t m = 0; m < fleet->machine_count && !fleet->ready; m++)
        if (planned_state(&fleet->machines[m]) == ORACLE_CONFIGURED)
            CHECK("configured is claimed, let go or held",
                  decision->claimed_by[m] >= 0 || touched[m] ||
                      fleet->machines[m].occupancy == ORACLE_HELD);
    free(touched);
}

/* A Need that lacks something leaves nothing free that it could have used. */
static void check_priority(const struct oracle_fleet *fleet, const struct oracle_decision *decision)
{
    for (size_t r = 0; r < decision->row_count; r++) {
        const struct oracle_row *row = &decision->rows[r];
        bool spread = false;
        for (int i = 0; i < ORACLE_SPREADS; i++)
            if (row->profile.spreads[i].key[0] && row->profile.spreads[i].when == 1) spread = true;
        if (row->satisfied || row->parked || (row->gang && !row->has_domain)) continue;
        if (spread && !row->gang) continue;
        for (size_t m = 0; m < fleet->machine_count; m++) {
            const struct oracle_machine *machine = &fleet->machines[m];
            enum oracle_state state = planned_state(machine);
            bool useful = false;
            long claimer = decision->claimed_by[m];
            if (state != ORACLE_IDLE && state != ORACLE_SPECULATIVE) continue;
            if (machine->drained_for.cluster[0]) continue; /* perhaps shielded */
            for (int d = 0; d < ORACLE_DIMS; d++)
                if (row->rem.of[d] > 0 && machine->alloc.of[d] > 0) useful = true;
            if (!useful || !oracle_matches(&row->profile, machine)) continue;
            if (!oracle_fits(machine, &row->min_unit)) continue;
            if (row->gang &&
                strcmp(oracle_attribute(machine, same_key(&row->profile)), row->domain) != 0)
                continue;
            CHECK("what it could use a row before it has", claimer >= 0 && claimer <= (long)r);
        }
    }
}

/* The fingerprint without Same requirements: what a row and the gangs folded into it share. */
static void stripped(const struct oracle_profile *profile, char out[ORACLE_FINGERPRINT])
{
    struct oracle_profile plain = *profile;
    int kept = 0;
    memset(plain.requirements, 0, sizeof plain.requirements);
    for (int i = 0; i < ORACLE_REQUIREMENTS && profile->requirements[i].key[0]; i++)
        if (profile->requirements[i].operator!= ORACLE_SAME)
            plain.requirements[kept++] = profile->requirements[i];
    oracle_fingerprint(&plain, out);
}

static void check_demand(const struct oracle_fleet *fleet, const struct oracle_decision *decision)
{
    char *wanted = calloc(fleet->need_count + 1, ORACLE_FINGERPRINT);
    char *got = calloc(decision->row_count + 1, ORACLE_FINGERPRINT);
    for (size_t i = 0; i < fleet->need_count; i++)
        stripped(&fleet->needs[i].profile, wanted + i * ORACLE_FINGERPRINT);
    for (size_t r = 0; r < decision->row_count; r++)
        stripped(&decision->rows[r].profile, got + r * ORACLE_FINGERPRINT);
    for (size_t n = 0; n < fleet->need_count; n++) { /* by cluster and stripped profile */
        const char *cluster = fleet->needs[n].cluster, *like = wanted + n * ORACLE_FINGERPRINT;
        struct oracle_sum asked = {0}, reported = {0};
        for (size_t i = 0; i < fleet->need_count; i++)
            for (int d = 0; d < ORACLE_DIMS; d++)
                if (strcmp(fleet->needs[i].cluster, cluster) == 0 &&
                    strcmp(wanted + i * ORACLE_FINGERPRINT, like) == 0)
                    asked.of[d] += fleet->needs[i].aggregate.of[d];
        for (size_t r = 0; r < decision->row_count; r++)
            for (int d = 0; d < ORACLE_DIMS; d++)
                if (strcmp(decision->rows[r].cluster, cluster) == 0 &&
                    strcmp(got + r * ORACLE_FINGERPRINT, like) == 0)
                    reported.of[d] += decision->rows[r].aggregate.of[d];
        CHECK("normalising loses no demand and makes none", same_sum(&asked, &reported));
    }
    for (size_t r = 0; r < decision->row_count; r++)
        CHECK("satisfied means nothing is lacking",
              decision->rows[r].satisfied == is_zero(&decision->rows[r].rem));
    free(wanted);
    free(got);
}

TEST(vectors_hold_for_the_oracle)
{
    size_t count;
    const struct fleet_text *vectors = decide_vectors(&count);
    for (size_t i = 0; i < count; i++) fleet_check(&vectors[i], oracle_decide);
}

TEST(vectors_hold_for_the_engine)
{
    size_t count;
    const struct fleet_text *vectors = decide_vectors(&count);
    for (size_t i = 0; i < count; i++) fleet_check(&vectors[i], engine_decide);
}

static struct oracle_weights draw_weights(struct prng *p)
{
    static const double some[] = {0, 0.1, 1, 50, 1000000};
    return (struct oracle_weights){.priority = some[prng_below(p, 5)],
                                   .drain = some[prng_below(p, 5)],
                                   .interruption = some[prng_below(p, 5)],
                                   .reclamation = some[prng_below(p, 5)],
                                   .drain_seconds = (double)prng_below(p, 100)};
}

static void try_fleet(uint64_t seed, struct random_size size)
{
    struct prng p;
    struct oracle_weights weights;
    struct oracle_fleet fleet;
    struct oracle_decision want, got;
    prng_seed(&p, seed);
    random_fleet(&p, size, &fleet);
    if (size.gulfs)
        weights = (struct oracle_weights){1000000, 0.1, 700000, 1200000, 30};
    else if (seed % 4 == 0)
        weights = draw_weights(&p);
    if (size.gulfs || seed % 4 == 0) fleet.weights = &weights;
    oracle_decide(&fleet, &want);
    check_claims(&fleet, &want);
    check_claim_order(&fleet, &want);
    check_excess(&fleet, &want);
    check_priority(&fleet, &want);
    check_demand(&fleet, &want);
    engine_decide(&fleet, &got);
    check_same(&want, &got);
    oracle_decision_free(&want);
    oracle_decision_free(&got);
    random_fleet_free(&fleet);
}

TEST(weights_say_who_gives_way_first)
{
    static const struct fleet_text text = {
        "two victims",
        "alow gpu configured cluster=b prio=100 ip=64 rp=64; high gpu configured cluster=b "
        "prio=900 "
        "ip=1 "
        "rp=1; dear gpu configured cluster=b prio=900 ip=1 rp=64",
        "1 a gpu p=1000", ""};
    static const struct {
        const char *why, *victim;
        struct oracle_weights weights;
    } cases[] = {
        {"the usual ones: the gap", "alow", {1.0, 0.1, 0.1, 0.1, 30}},
        {"only interruption counts, then the id", "dear", {0, 0, 1, 0, 30}},
        {"only reclamation counts", "high", {0, 0, 0, 1, 30}},
        {"nothing counts: the id", "alow", {0, 0, 0, 0, 30}},
        {"drain is the same for all", "alow", {1, 1000, 0, 0, 30}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        decider *const deciders[] = {oracle_decide, engine_decide};
        for (int d = 0; d < 2; d++) {
            struct oracle_decision decision;
            struct oracle_fleet fleet;
            char victim[ORACLE_TEXT] = "";
            static const char *const ready[] = {"a"};
            fleet_parse(&text, &fleet);
            fleet.ready = ready;
            fleet.ready_count = 1;
            fleet.weights = &cases[i].weights;
            deciders[d](&fleet, &decision);
            for (size_t k = 0; k < decision.action_count; k++)
                if (strcmp(decision.actions[k].reason, "phase2.inversion") == 0)
                    snprintf(victim, sizeof victim, "%s",
                             fleet.machines[decision.actions[k].machine].id);
            CHECK_TEXT(cases[i].why, victim, cases[i].victim);
            oracle_decision_free(&decision);
            fleet_free(&fleet);
        }
    }
}

TEST(engine_and_oracle_agree_on_random_fleets)
{
    uint64_t seed = test_seed();
    for (size_t i = 0; i < cases(); i++) {
        struct random_size size = {.machines_max = i % 50 == 0 ? 120 : 4 + i % 24,
                                   .needs_max = i % 50 == 0 ? 40 : 1 + i % 9};
        fprintf(stderr, "\rcase %zu seed %llu", i, (unsigned long long)(seed + i));
        try_fleet(seed + i, size);
    }
    fputc('\n', stderr);
}

/* Machines that differ in a label and not in their price, as on bare metal: ids alone decide, among
 * cohorts of one and of a few. */
static void same_price(struct prng *p, struct oracle_fleet *fleet)
{
    for (size_t i = 0; i < fleet->machine_count; i++) {
        struct oracle_machine *m = &fleet->machines[i];
        m->price = 1;
        m->probability = 0;
        if (prng_below(p, 2)) {
            m->state = prng_below(p, 3) ? ORACLE_IDLE : ORACLE_SPECULATIVE;
            m->queued = ORACLE_NOTHING;
            m->cluster[0] = '\0';
        }
        snprintf(m->labels[1].key, sizeof m->labels[1].key, "serial");
        snprintf(m->labels[1].value, sizeof m->labels[1].value, "s%d", (int)prng_below(p, 60));
        if (m->labels[0].key[0]) continue;
        m->labels[0] = m->labels[1];
        m->labels[1].key[0] = '\0';
    }
}

TEST(they_agree_where_only_ids_decide)
{
    uint64_t seed = test_seed();
    for (size_t i = 0; i < cases() / 40; i++) {
        struct prng p;
        struct oracle_fleet fleet;
        struct oracle_decision want, got;
        fprintf(stderr, "\rcase %zu seed %llu", i, (unsigned long long)(seed + i));
        prng_seed(&p, seed + i);
        random_fleet(&p, (struct random_size){.machines_max = 160, .needs_max = 16}, &fleet);
        same_price(&p, &fleet);
        oracle_decide(&fleet, &want);
        engine_decide(&fleet, &got);
        check_same(&want, &got);
        oracle_decision_free(&want);
        oracle_decision_free(&got);
        random_fleet_free(&fleet);
    }
    fputc('\n', stderr);
}

TEST(they_agree_where_every_machine_has_labels_of_its_own)
{
    uint64_t seed = test_seed();
    for (size_t i = 0; i < cases() / 10; i++) {
        struct random_size size = {.machines_max = i % 10 == 0 ? 160 : 50,
                                   .needs_max = i % 10 == 0 ? 40 : 15,
                                   .odd = true,
                                   .gulfs = i % 5 == 1};
        fprintf(stderr, "\rcase %zu seed %llu", i, (unsigned long long)(seed + i));
        try_fleet(seed + i, size);
    }
    fputc('\n', stderr);
}

/* The same machines and rows in another order of arrival. */
static void shuffle(struct prng *p, struct oracle_fleet *fleet)
{
    for (size_t i = fleet->machine_count; i > 1; i--) {
        size_t k = prng_below(p, i);
        struct oracle_machine swap = fleet->machines[i - 1];
        fleet->machines[i - 1] = fleet->machines[k];
        fleet->machines[k] = swap;
    }
    for (size_t i = fleet->need_count; i > 1; i--) {
        size_t k = prng_below(p, i);
        struct oracle_need swap = fleet->needs[i - 1];
        fleet->needs[i - 1] = fleet->needs[k];
        fleet->needs[k] = swap;
    }
}

/* Actions name machines by their place in the fleet: after a shuffle, by id again. */
static void rename_machines(const struct oracle_fleet *from, const struct oracle_fleet *to,
                            struct oracle_decision *decision)
{
    for (size_t a = 0; a < decision->action_count; a++) {
        const char *id = from->machines[decision->actions[a].machine].id;
        size_t place = 0;
        while (strcmp(to->machines[place].id, id) != 0) place++;
        decision->actions[a].machine = place;
    }
}

TEST(the_order_of_arrival_decides_nothing)
{
    uint64_t seed = test_seed();
    for (size_t i = 0; i < cases() / 5; i++) {
        struct prng p;
        struct oracle_fleet fleet, other;
        struct oracle_decision want, got;
        prng_seed(&p, seed + i);
        random_fleet(&p, (struct random_size){.machines_max = 24, .needs_max = 8}, &fleet);
        other = fleet;
        other.machines = calloc(fleet.machine_count + 1, sizeof *other.machines);
        other.needs = calloc(fleet.need_count + 1, sizeof *other.needs);
        memcpy(other.machines, fleet.machines, fleet.machine_count * sizeof *other.machines);
        memcpy(other.needs, fleet.needs, fleet.need_count * sizeof *other.needs);
        shuffle(&p, &other);
        engine_decide(&fleet, &want);
        engine_decide(&other, &got);
        rename_machines(&other, &fleet, &got);
        check_same(&want, &got);
        oracle_decision_free(&want);
        oracle_decision_free(&got);
        random_fleet_free(&other);
        random_fleet_free(&fleet);
    }
}

/* With every action done at once and the demand fixed, quiet comes soon and stays. */
static void check_rest(uint64_t seed)
{
    struct prng p;
    struct oracle_fleet fleet;
    struct oracle_decision decision;
    size_t cycle = 0;
    prng_seed(&p, seed);
    random_fleet(&p, (struct random_size){.machines_max = 24, .needs_max = 8}, &fleet);
    for (size_t m = 0; m < fleet.machine_count; m++) fleet.machines[m].queued = ORACLE_NOTHING;
    for (; cycle < 12; cycle++, fleet.now_ms += 10000) {
        size_t actions;
        engine_decide(&fleet, &decision);
        actions = decision.action_count;
        fleet_apply(&fleet, &decision);
        oracle_decision_free(&decision);
        if (actions == 0) break;
    }
    fprintf(stderr, "\rseed %llu quiet after %zu", (unsigned long long)seed, cycle);
    random_fleet_free(&fleet);
    CHECK("quiet within a dozen cycles", cycle < 12);
}

TEST(instant_fleets_come_to_rest)
{
    uint64_t seed = test_seed();
    for (size_t i = 0; i < cases() / 10; i++) check_rest(seed + i);
}

/* A machine that comes back to one zone let a Need preempt in another, every second cycle. */
TEST(nobody_gives_way_for_a_place_that_opens_later)
{
    check_rest(1795106211754446646ull);
}

/* 13.3: a hundred machines at prices 1 to 100, a hundred rows of priorities 100 to 199. */
TEST(a_hundred_rows_get_a_machine_each)
{
    static char machines[8192], needs[8192];
    struct fleet_text text = {"a hundred rows", machines, needs, "B=100 U=0 rows=100 then quiet"};
    size_t m = 0, n = 0;
    for (int i = 0; i < 100; i++) {
        m += (size_t)snprintf(machines + m, sizeof machines - m, "%sm%d cpu idle price=%d",
                              i ? "; " : "", i, i + 1);
        n += (size_t)snprintf(needs + n, sizeof needs - n, "%s1 c%d cpu p=%d", i ? "; " : "", i % 7,
                              100 + i);
    }
    fleet_check(&text, oracle_decide);
    fleet_check(&text, engine_decide);
}

/* 13.9: a thousand hours later only on-demand and spot have gone. */
TEST(what_is_held_for_ever_is_held_for_a_thousand_hours)
{
    static const struct fleet_text text = {"a thousand hours",
                                           "bm gpu idle capacity=1 idle=1; rs gpu idle capacity=2 "
                                           "idle=1; od gpu idle capacity=3 idle=1;"
                                           "sp gpu idle capacity=4 idle=1; un gpu idle capacity=0 "
                                           "idle=1; cl gpu idle capacity=3 type=x idle=1",
                                           "1 a gpu type=x p=1", ""};
    decider *const deciders[] = {oracle_decide, engine_decide};
    for (int i = 0; i < 2; i++) {
        struct oracle_fleet fleet;
        struct oracle_decision decision;
        size_t deletes = 0;
        fleet_parse(&text, &fleet);
        fleet.now_ms = 1000ULL * 3600 * 1000;
        deciders[i](&fleet, &decision);
        for (size_t a = 0; a < decision.action_count; a++) {
            const char *id = fleet.machines[decision.actions[a].machine].id;
            if (decision.actions[a].kind != ORACLE_DELETE) continue;
            CHECK("on-demand and spot", strcmp(id, "od") == 0 || strcmp(id, "sp") == 0);
            deletes++;
        }
        CHECK_SIZE("both", deletes, 2);
        oracle_decision_free(&decision);
        fleet_free(&fleet);
    }
}
