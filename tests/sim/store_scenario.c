/* The store under fire: the hosts, and what progress means. See store_story.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_story.h"

enum { FAULTS_MS = 20000, FAULTS_MS_MIN = 4000, HEAL_MS = 60000, GOOD_IN_CALM = 10 };
const char *const store_bug_names[] = {"lose-renewals", "forget-requests", "fast-clock",
                                       "skip-an-event", NULL};
static_assert(ARRAY_LEN(store_bug_names) == STORE_BUG_COUNT, "a name for every bug");

static enum err story_open(struct scenario_world *world, void **ret_state)
{
    static const char *const host_names[STORE_HOSTS] = {"s0", "s1", "s2"};
    static const char *const client_names[STORE_CLIENTS] = {"c0", "c1", "c2", "c3"};
    struct store_story *story = calloc(1, sizeof *story);
    enum err err;

    if (!story) return ERR_NOMEM;
    *ret_state = story; /* closed by the runner, whatever happens next */
    story->world = world;
    story->bug = (enum store_bug)scenario_bug(world);
    err = store_witness_open(&story->witness);
    story->founders.count = STORE_HOSTS;
    for (size_t i = 0; i < STORE_HOSTS; i++) {
        struct member *member = &story->founders.at[i];
        *member = (struct member){.id = i + 1, .role = MEMBER_VOTER};
        (void)snprintf(member->address, sizeof member->address, "s%zu:7791", i);
    }
    for (size_t i = 0; !err && i < STORE_HOSTS; i++) {
        story->hosts[i] = (struct store_host){.story = story, .number = i};
        err = scenario_add_node(world, host_names[i], &store_process_ops, &story->hosts[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE | SCENARIO_MAY_FILL,
                                &story->hosts[i].host);
    }
    for (size_t i = 0; !err && i < STORE_CLIENTS; i++) {
        story->clients[i] = (struct store_actor){.story = story, .number = i};
        err = scenario_add_node(world, client_names[i], &store_client_ops, &story->clients[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &story->clients[i].host);
    }
    return err;
}

static bool story_safe(void *state, struct note *why)
{
    const struct store_story *story = state;

    if (story->witness.wrong) *why = story->witness.why;
    return !story->witness.wrong;
}

/* All three have applied the same, and are the same. */
static bool at_rest(struct store_story *story)
{
    uint64_t applied = 0, hash = 0;

    for (size_t i = 0; i < STORE_HOSTS; i++) {
        const struct store_host *host = &story->hosts[i];
        struct replica *replica = store_host_replica(host);
        if (!replica || !store_host_store(host)) return false;
        if (i > 0 && replica_status(replica).applied != applied) return false;
        applied = replica_status(replica).applied;
        if (i > 0 && store_hash(store_host_store(host)) != hash) {
            store_wrong(story, "s%zu differs from the others at rest", i);
            return false;
        }
        hash = store_hash(store_host_store(host));
    }
    return true;
}

static bool story_done(void *state)
{
    struct store_story *story = state;
    struct store_witness *w = &story->witness;

    if (!story->healed) {
        story->healed = true;
        memcpy(story->done_at_heal, w->done, sizeof w->done);
        story->changes_at_heal = w->change_count;
    }
    for (size_t i = 0; !story->quiet && i < STORE_CLIENTS; i++)
        if (w->done[i] < story->done_at_heal[i] + GOOD_IN_CALM ||
            w->watched[i] <= story->changes_at_heal)
            return false;
    if (!story->quiet)
        sim_trace(scenario_sim(story->world), NULL,
                  "grants %llu (%llu after waiting) renewals %llu ended %llu repeats %llu changes "
                  "%zu restores %llu resyncs %llu",
                  (unsigned long long)w->grants, (unsigned long long)w->waited,
                  (unsigned long long)w->renewals, (unsigned long long)w->expired,
                  (unsigned long long)w->repeats, w->change_count, (unsigned long long)w->restores,
                  (unsigned long long)w->resyncs);
    story->quiet = true;
    return at_rest(story);
}

static void story_close(void *state)
{
    struct store_story *story = state;

    store_witness_close(&story->witness);
    free(story);
}

const struct scenario store_scenario = {
    .name = "store",
    .about = "claims, waiters, renewals and watches over three replicas: no slot twice, no lease "
             "cut short, no change untold",
    .faults_ms = FAULTS_MS,
    .faults_ms_min = FAULTS_MS_MIN,
    .heal_ms = HEAL_MS,
    .bugs = store_bug_names,
    .open = story_open,
    .safe = story_safe,
    .done = story_done,
    .close = story_close,
};
