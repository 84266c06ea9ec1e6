/* SPDX-License-Identifier: Apache-2.0 */
/* Changes members now and then: the host outside joins as a learner and becomes a voter, and one
 * of the four voters is removed and is outside then. Half of the worlds have no steward. */
#include <stdio.h>

#include "store_story.h"

static struct store_host *leader_of(struct store_story *story)
{
    for (size_t i = 0; i < STORE_HOSTS; i++) {
        struct replica *replica = store_host_replica(&story->hosts[i]);
        struct replica_status status;
        if (!replica || sim_host_paused(story->hosts[i].host)) continue;
        status = replica_status(replica);
        if (status.role == REPLICA_LEADER && status.ready) return &story->hosts[i];
    }
    return NULL;
}

bool store_is_member(struct store_story *story, const struct store_host *host)
{
    struct replica_member members[REPLICA_MEMBERS_MAX];
    struct store_host *leader = leader_of(story);
    size_t count = leader ? replica_members(store_host_replica(leader), members) : 0;

    for (size_t i = 0; i < count; i++)
        if (members[i].id == host->id) return true;
    return false;
}

/* A host outside of the configuration that may join. One of an older release would stop at the
 * first entry that its release does not know. */
static struct store_host *outside(struct store_story *story)
{
    for (size_t i = 0; i < STORE_HOSTS; i++) {
        struct store_host *host = &story->hosts[i];
        if (store_host_replica(host) && !store_host_is_older(host) && !store_is_member(story, host))
            return host;
    }
    return NULL;
}

static void step(struct store_story *story, struct store_host *leader)
{
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(store_host_replica(leader), members);
    size_t goes = prng_below(scenario_prng(story->world), count ? count : 1);
    const struct store_host *spare = outside(story);
    char address[16];

    for (size_t i = 0; i < count; i++)
        if (members[i].role == MEMBER_LEARNER) {
            store_host_change(leader, CHANGE_PROMOTE, members[i].id, NULL);
            return;
        }
    if (count == STORE_HOSTS) {
        store_host_change(leader, CHANGE_REMOVE, members[goes].id, NULL);
    } else if (spare) {
        (void)snprintf(address, sizeof address, "s%u:7791", (unsigned)spare->number);
        store_host_change(leader, CHANGE_ADD, spare->id, address);
    }
}

static void act(struct sim_event *event)
{
    struct store_story *story = CONTAINER_OF(event, struct store_story, steward);
    struct store_host *leader = leader_of(story);

    if (story->healed) return;
    if (leader) step(story, leader);
    sim_event_in(event, prng_between(scenario_prng(story->world), 100, 3000) * NS_PER_MS);
}

enum err store_steward_open(struct store_story *story)
{
    struct prng *prng = scenario_prng(story->world);
    enum err err = sim_event_init(&story->steward, scenario_sim(story->world), act);

    if (!err && prng_below(prng, 2))
        sim_event_in(&story->steward, prng_between(prng, 500, 3000) * NS_PER_MS);
    return err;
}
