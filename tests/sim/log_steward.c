/* SPDX-License-Identifier: Apache-2.0 */
/* Changes members, transfers leadership, wipes disks and changes versions now and then. The steward
 * wipes a disk only when everybody agrees on a configuration of at least three voters, all of them
 * alive, because Raft does not survive the loss of more. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "log_story.h"

static struct log_host *host_of(struct log_story *story, uint64_t id)
{
    for (size_t i = 0; i < LOG_HOSTS; i++)
        if (story->hosts[i].id == id) return &story->hosts[i];
    return NULL;
}

struct plan { /* a summary of the leader's configuration */
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count, voters, lost_voters, learners;
    const struct replica_member *lost, *learner, *live_voter;
};

static void look(struct log_story *story, struct log_host *leader, struct plan *plan)
{
    size_t pick;

    memset(plan, 0, sizeof *plan);
    plan->count = replica_members(log_host_replica(leader), plan->members);
    pick = prng_below(scenario_prng(story->world), plan->count ? plan->count : 1);
    for (size_t i = 0; i < plan->count; i++) {
        const struct replica_member *member = &plan->members[(i + pick) % plan->count];
        bool alive = host_of(story, member->id) != NULL;

        plan->voters += member->role == MEMBER_VOTER;
        plan->lost_voters += member->role == MEMBER_VOTER && !alive;
        plan->learners += member->role == MEMBER_LEARNER && alive;
        if (!alive)
            plan->lost = member;
        else if (member->role == MEMBER_LEARNER)
            plan->learner = member;
        else
            plan->live_voter = member;
    }
}

static bool is_member(const struct plan *plan, uint64_t id)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->members[i].id == id) return true;
    return false;
}

static struct log_host *spare_host(struct log_story *story, const struct plan *plan)
{
    size_t from = prng_below(scenario_prng(story->world), LOG_HOSTS);

    for (size_t i = 0; i < LOG_HOSTS; i++) {
        struct log_host *host = &story->hosts[(i + from) % LOG_HOSTS];
        if (host->id && log_host_replica(host) && !host->wipe && !is_member(plan, host->id))
            return host;
    }
    return NULL;
}

static void ask(struct log_story *story, struct log_host *leader, enum member_change_kind kind,
                uint64_t id, const char *address)
{
    story->steward.asked = true;
    sim_trace(scenario_sim(story->world), leader->host, "asked to change %d %" PRIx64, (int)kind,
              id);
    log_host_change(leader, kind, id, address);
}

/* The next step towards the wanted size: add, catch up, remove the lost, promote. */
static bool step_members(struct log_story *story, struct log_host *leader, struct plan *plan)
{
    size_t wanted = story->steward.voters_wanted;
    size_t alive = plan->voters - plan->lost_voters;
    bool adds = alive < wanted && !plan->learner;
    char address[40];

    /* A lost learner is removed before another joins; a lost voter after its replacement joined. */
    if (plan->lost && (plan->lost->role == MEMBER_LEARNER || !adds)) {
        ask(story, leader, CHANGE_REMOVE, plan->lost->id, NULL);
    } else if (adds) {
        struct log_host *spare = spare_host(story, plan);
        if (!spare) return false;
        if (spare->too_old) {
            spare->too_old = false;
            spare->level = 2;
            sim_host_die(spare->host, SIM_KILLED);
            return true;
        }
        log_host_address(spare, address);
        ask(story, leader, CHANGE_ADD, spare->id, address);
    } else if (alive < wanted) {
        ask(story, leader, CHANGE_PROMOTE, plan->learner->id, NULL);
    } else if (plan->learner) {
        ask(story, leader, CHANGE_REMOVE, plan->learner->id, NULL);
    } else if (alive > wanted) {
        ask(story, leader, CHANGE_REMOVE, plan->live_voter->id, NULL);
    } else {
        return false;
    }
    return true;
}

/* Everybody runs and knows the same configuration, and all its voters live. */
static bool all_is_well(struct log_story *story, const struct plan *plan)
{
    if (plan->voters < 3 || plan->lost) return false;
    for (size_t i = 0; i < plan->count; i++) {
        struct log_host *host = host_of(story, plan->members[i].id);
        struct replica_member members[REPLICA_MEMBERS_MAX];
        size_t count;

        if (!host || !log_host_replica(host) || sim_host_paused(host->host)) return false;
        count = replica_members(log_host_replica(host), members);
        if (count != plan->count) return false;
        for (size_t j = 0; j < count; j++)
            if (members[j].id != plan->members[j].id || members[j].role != plan->members[j].role)
                return false;
    }
    return true;
}

static void strange_addresses(struct log_story *story, struct log_host *leader, struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct log_host *host = host_of(story, plan->members[i].id);
        char address[40];

        if (!host) continue;
        log_host_address(host, address);
        if (strcmp(address, plan->members[i].address) == 0) continue;
        ask(story, leader, CHANGE_ADDRESS, host->id, address);
        return;
    }
}

static void do_something(struct log_story *story, struct log_host *leader, struct plan *plan)
{
    struct prng *prng = scenario_prng(story->world);
    struct log_host *host = &story->hosts[prng_below(prng, LOG_HOSTS)];
    bool member = is_member(plan, host->id);

    strange_addresses(story, leader, plan);
    if (story->steward.asked) return;
    switch (prng_below(prng, 6)) {
    case 0: story->steward.voters_wanted = prng_chance(prng, 500000) ? 3 : 5; break;
    case 1: /* the disk is lost, with the process and its identity */
        if (!story->settings.wipes || (member && !all_is_well(story, plan))) break;
        host->wipe = true;
        host->id = 0;
        sim_trace(scenario_sim(story->world), host->host, "loses its disk");
        sim_host_die(host->host, SIM_POWER_CUT);
        break;
    case 2: /* moves to another port */
        if (!story->settings.addresses || !log_host_replica(host)) break;
        host->port = 7791 + (uint32_t)prng_below(prng, 3);
        sim_host_die(host->host, SIM_KILLED);
        break;
    case 3: /* is upgraded */
        if (!story->settings.levels || !log_host_replica(host)) break;
        host->level = 2;
        sim_host_die(host->host, SIM_KILLED);
        break;
    case 4:
        if (!story->settings.transfers) break;
        story->steward.asked = true;
        log_host_transfer(
            leader, prng_chance(prng, 500000) || !plan->live_voter ? 0 : plan->live_voter->id);
        break;
    default: break;
    }
}

static void act(struct sim_event *event)
{
    struct log_steward *steward = CONTAINER_OF(event, struct log_steward, event);
    struct log_story *story = CONTAINER_OF(steward, struct log_story, steward);
    struct log_host *leader = log_story_leader(story);
    uint64_t pause_ms = story->healed ? 50 : steward->every_ms;
    struct plan plan;

    if (leader && !steward->asked) {
        look(story, leader, &plan);
        if (!step_members(story, leader, &plan)) {
            if (!story->healed)
                do_something(story, leader, &plan);
            else
                strange_addresses(story, leader, &plan);
        }
    }
    sim_event_in(event,
                 prng_between(scenario_prng(story->world), pause_ms / 2, pause_ms) * NS_PER_MS);
}

enum err steward_open(struct log_story *story)
{
    struct prng *prng = scenario_prng(story->world);
    enum err err = sim_event_init(&story->steward.event, scenario_sim(story->world), act);

    story->steward.voters_wanted = story->founders.count;
    story->steward.every_ms = prng_between(prng, 40, 1500);
    if (!err && story->settings.members)
        sim_event_in(&story->steward.event, prng_between(prng, 500, 2000) * NS_PER_MS);
    return err;
}

bool steward_settled(struct log_story *story)
{
    struct log_host *leader = log_story_leader(story);
    struct replica_status status;
    struct plan plan;

    if (!leader || story->steward.asked) return false;
    status = replica_status(log_host_replica(leader));
    if (!status.ready) return false;
    look(story, leader, &plan);
    if (plan.lost || plan.learner ||
        (story->settings.members && plan.voters != story->steward.voters_wanted))
        return false;
    for (size_t i = 0; i < plan.count; i++) {
        struct log_host *host = host_of(story, plan.members[i].id);
        struct replica *replica = host ? log_host_replica(host) : NULL;
        if (!replica || replica_status(replica).applied + 200 < status.applied) return false;
    }
    return true;
}
