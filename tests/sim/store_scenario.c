/* SPDX-License-Identifier: Apache-2.0 */
/* The hosts of the store scenario, and what progress means. See store_story.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_story.h"

enum {
    FAULTS_MS = 20000,
    FAULTS_MS_MIN = 4000,
    HEAL_MS = 60000,
    GOOD_IN_CALM = 10,
    UPGRADE_ONE_IN = 4,
    UPGRADE_MS_MAX = 6000,
};
const char *const store_bug_names[] = {"lose-renewals", "forget-requests", "fast-clock",
                                       "skip-an-event", NULL};
static_assert(ARRAY_LEN(store_bug_names) == STORE_BUG_COUNT, "a name for every bug");

static enum err story_open(struct scenario_world *world, void **ret_state)
{
    static const char *const host_names[STORE_HOSTS] = {"s0", "s1", "s2", "s3"};
    static const char *const client_names[STORE_CLIENTS] = {"c0", "c1", "c2"};
    static const char *const etcd_names[STORE_ETCDS] = {"e0", "e1"};
    static const char *const stream_names[STORE_STREAMS] = {"w0", "w1"};
    static const char *const locker_names[STORE_LOCKERS] = {"k0", "k1", "k2"};
    static const char *const library_names[STORE_LIBRARIES] = {"l0", "l1"};
    struct store_story *story = calloc(1, sizeof *story);
    enum err err;

    if (!story) return ERR_NOMEM;
    *ret_state = story; /* the runner closes it, also after an error */
    story->world = world;
    story->bug = (enum store_bug)scenario_bug(world);
    err = store_witness_open(&story->witness);
    story->upgrades = prng_below(scenario_prng(world), UPGRADE_ONE_IN) == 0;
    story->founders.count = STORE_FOUNDERS;
    for (size_t i = 0; i < STORE_FOUNDERS; i++) {
        struct member *member = &story->founders.at[i];
        *member = (struct member){.id = i + 1, .role = MEMBER_VOTER};
        (void)snprintf(member->address, sizeof member->address, "s%zu:7791", i);
    }
    for (size_t i = 0; !err && i < STORE_HOSTS; i++) {
        story->hosts[i] = (struct store_host){.story = story, .number = i};
        if (story->upgrades) /* one after the other, under load, in any order */
            story->hosts[i].upgrade_at.ns =
                prng_below(scenario_prng(world), UPGRADE_MS_MAX) * NS_PER_MS;
        err = scenario_add_node(world, host_names[i], &store_process_ops, &story->hosts[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE | SCENARIO_MAY_FILL,
                                &story->hosts[i].host);
    }
    for (size_t i = 0; !err && i < STORE_CLIENTS; i++) {
        story->clients[i] = (struct store_actor){.story = story, .number = i};
        err = scenario_add_node(world, client_names[i], &store_client_ops, &story->clients[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &story->clients[i].host);
    }
    for (size_t i = 0; !err && i < STORE_ETCDS; i++) {
        story->etcds[i] = (struct store_actor){.story = story, .number = i};
        err = scenario_add_node(world, etcd_names[i], &store_etcd_ops, &story->etcds[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &story->etcds[i].host);
    }
    for (size_t i = 0; !err && i < STORE_STREAMS; i++) {
        story->streams[i] = (struct store_actor){.story = story, .number = i};
        err = scenario_add_node(world, stream_names[i], &store_streams_ops, &story->streams[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &story->streams[i].host);
    }
    for (size_t i = 0; !err && i < STORE_LOCKERS; i++) {
        story->lockers[i] = (struct store_actor){.story = story, .number = i};
        err = scenario_add_node(world, locker_names[i], &store_locks_ops, &story->lockers[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &story->lockers[i].host);
    }
    for (size_t i = 0; !err && i < STORE_LIBRARIES; i++) {
        story->libraries[i] = (struct store_actor){.story = story, .number = i};
        err = scenario_add_node(world, library_names[i], &store_library_ops, &story->libraries[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &story->libraries[i].host);
    }
    return err ? err : store_steward_open(story);
}

static bool story_safe(void *state, struct note *why)
{
    const struct store_story *story = state;

    if (story->witness.wrong) *why = story->witness.why;
    return !story->witness.wrong;
}

/* All members have applied the same index and have the same state. */
static bool at_rest(struct store_story *story)
{
    uint64_t applied = 0, hash = 0;
    size_t members = 0;

    for (size_t i = 0; i < STORE_HOSTS; i++) {
        const struct store_host *host = &story->hosts[i];
        struct replica *replica = store_host_replica(host);
        if (!store_is_member(story, host)) continue;
        if (!replica || !store_host_store(host)) return false;
        if (members > 0 && replica_status(replica).applied != applied) return false;
        applied = replica_status(replica).applied;
        if (members > 0 && store_hash(store_host_store(host)) != hash) {
            store_wrong(story, "s%zu differs from the others at rest", i);
            return false;
        }
        hash = store_hash(store_host_store(host));
        members++;
    }
    return members >= STORE_FOUNDERS;
}

static bool all_got_on(const struct store_story *story)
{
    const struct store_witness *w = &story->witness;

    for (size_t i = 0; i < STORE_BELIEVERS; i++)
        if (w->done[i] < story->done_at_heal[i] + GOOD_IN_CALM) return false;
    for (size_t i = 0; i < STORE_ETCDS; i++)
        if (w->etcd_done[i] < story->etcd_at_heal[i] + GOOD_IN_CALM) return false;
    for (size_t i = 0; i < STORE_STREAMS; i++)
        if (w->etcd_beats[i] < story->beats_at_heal[i] + 2 ||
            w->etcd_watched[i] <= story->changes_at_heal)
            return false;
    for (size_t i = 0; i < STORE_LOCKERS; i++)
        if (w->locks[i] < story->locks_at_heal[i] + 2) return false;
    for (size_t i = 0; i < STORE_CLIENTS; i++)
        if (w->watched[i] <= story->changes_at_heal) return false;
    for (size_t i = 0; i < STORE_LIBRARIES; i++)
        if (w->library_events[i] == story->library_events_at_heal[i]) return false;
    return true;
}

static bool story_done(void *state)
{
    struct store_story *story = state;
    struct store_witness *w = &story->witness;

    if (!story->healed) {
        story->healed = true;
        memcpy(story->done_at_heal, w->done, sizeof w->done);
        memcpy(story->library_events_at_heal, w->library_events, sizeof w->library_events);
        memcpy(story->etcd_at_heal, w->etcd_done, sizeof w->etcd_done);
        memcpy(story->beats_at_heal, w->etcd_beats, sizeof w->etcd_beats);
        memcpy(story->locks_at_heal, w->locks, sizeof w->locks);
        story->changes_at_heal = w->change_count;
    }
    if (!story->quiet && !all_got_on(story)) return false;
    if (!story->quiet)
        sim_trace(
            scenario_sim(story->world), NULL,
            "grants %llu (%llu after waiting) renewals %llu ended %llu repeats %llu changes "
            "%zu restores %llu resyncs %llu; libmuster: %llu sessions, %llu kept, %llu lost, %llu "
            "reads, %llu unclear; %llu installs, %llu changes of members; etcd's API: %llu done, "
            "%llu refused, %llu in doubt, %llu lists, %llu events, %llu progress, %llu ends of "
            "leases, "
            "%llu watches compacted, %llu locks, %llu lost while waiting",
            (unsigned long long)w->grants, (unsigned long long)w->waited,
            (unsigned long long)w->renewals, (unsigned long long)w->expired,
            (unsigned long long)w->repeats, w->change_count, (unsigned long long)w->restores,
            (unsigned long long)w->resyncs, (unsigned long long)w->sessions,
            (unsigned long long)w->kept, (unsigned long long)w->lost, (unsigned long long)w->reads,
            (unsigned long long)w->unclear, (unsigned long long)w->installs,
            (unsigned long long)w->changes_of_members,
            (unsigned long long)(w->etcd_done[0] + w->etcd_done[1]),
            (unsigned long long)w->etcd_refused, (unsigned long long)w->etcd_doubts,
            (unsigned long long)w->etcd_lists, (unsigned long long)w->etcd_events,
            (unsigned long long)w->etcd_progress, (unsigned long long)w->etcd_ended,
            (unsigned long long)w->etcd_compacted,
            (unsigned long long)(w->locks[0] + w->locks[1] + w->locks[2]),
            (unsigned long long)w->locks_lost);
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
