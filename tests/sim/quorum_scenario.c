/* SPDX-License-Identifier: Apache-2.0 */
/* The quorum scenario: the actor, the witness, and what progress means. See quorum_story.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/roster.h"
#include "quorum_story.h"

enum {
    FAULTS_MS = 20000,
    FAULTS_MS_MIN = 2000,
    HEAL_MS = 120000,
    HAND_MS_MIN = 200,
    HAND_MS_MAX = 4000,
};
const char *const quorum_bug_names[] = {"found-anyway", "forget-a-move", "stop-asking",
                                        "trust-silence", NULL};
static_assert(ARRAY_LEN(quorum_bug_names) == QUORUM_BUG_COUNT, "a name for every bug");

void quorum_wrong(struct quorum_story *story, const char *format, ...)
{
    char text[NOTE_CAP];
    va_list args;

    if (story->wrong) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    story->wrong = true;
    note_set(&story->why, "%s", text);
}

/* -- the witness -- */

static struct quorum_host *find_leader(struct quorum_story *story)
{
    struct quorum_host *leader = NULL;
    uint64_t term = 0;

    for (size_t i = 0; i < QUORUM_HOSTS; i++) {
        struct replica *replica = quorum_host_replica(&story->hosts[i]);
        struct replica_status status;

        if (!replica) continue;
        status = replica_status(replica);
        if (status.role != REPLICA_LEADER || !status.ready || status.term <= term) continue;
        term = status.term;
        leader = &story->hosts[i];
    }
    return leader;
}

static const char *name_of(const struct roster *roster, uint64_t id)
{
    const struct roster_entry *entry = roster_find(roster, id);
    return entry ? entry->name : "";
}

static void look_at_members(struct quorum_story *story, const struct quorum_host *host)
{
    const struct roster *roster = quorum_host_roster(host);
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(quorum_host_replica(host), members), voters = 0;

    for (size_t i = 0; i < count; i++) {
        if (members[i].role != MEMBER_VOTER) continue;
        voters++;
        for (size_t j = 0; j < i; j++)
            if (members[j].role == MEMBER_VOTER && name_of(roster, members[i].id)[0] &&
                strcmp(name_of(roster, members[i].id), name_of(roster, members[j].id)) == 0)
                quorum_wrong(story, "two voters are %s", name_of(roster, members[i].id));
    }
    if (voters > QUORUM_HOSTS) quorum_wrong(story, "%zu voters", voters);
}

static bool story_safe(void *state, struct note *why)
{
    struct quorum_story *story = state;

    for (size_t i = 0; i < QUORUM_HOSTS; i++) {
        struct replica *replica = quorum_host_replica(&story->hosts[i]);
        struct replica_status status;

        if (!replica) continue;
        status = replica_status(replica);
        if (status.role == REPLICA_LEADER && status.ready) look_at_members(story, &story->hosts[i]);
        if (status.cluster_id == 0) continue;
        if (story->cluster_id == 0) story->cluster_id = status.cluster_id;
        if (story->cluster_id != status.cluster_id)
            quorum_wrong(story, "q%zu is in a cluster of its own", i);
    }
    if (story->wrong) *why = story->why;
    return !story->wrong;
}

/* Every host's present identity is a voter at its present address, by its name, and all know it. A
 * change that is not on every disk does not count, or the faults would hit a majority. */
static bool all_in_place(struct quorum_story *story)
{
    struct quorum_host *leader = find_leader(story);
    struct replica_member members[REPLICA_MEMBERS_MAX];
    const struct roster_entry *entries;
    uint64_t last;
    size_t count = leader ? replica_members(quorum_host_replica(leader), members) : 0, placed = 0;

    if (count != QUORUM_HOSTS) return false;
    last = replica_status(quorum_host_replica(leader)).last;
    for (size_t i = 0; i < QUORUM_HOSTS; i++) {
        const struct quorum_host *host = &story->hosts[i];
        struct replica *replica = quorum_host_replica(host);
        const struct roster *roster = quorum_host_roster(host);
        char address[40], name[16];
        uint64_t id;

        if (!replica || replica_status(replica).leader_id == 0) return false;
        if (!replica_status(replica).voter || replica_status(replica).applied != last ||
            replica_status(replica).durable != last)
            return false;
        if (roster_entries(roster, &entries) != QUORUM_HOSTS) return false;
        id = replica_status(replica).id;
        quorum_host_address(host, address);
        snprintf(name, sizeof name, "node-%zu", i);
        if (strcmp(name_of(quorum_host_roster(leader), id), name) != 0) return false;
        for (size_t j = 0; j < count; j++)
            if (members[j].id == id && members[j].role == MEMBER_VOTER &&
                strcmp(members[j].address, address) == 0)
                placed++;
    }
    return placed == QUORUM_HOSTS;
}

/* -- the hand -- */

static void take_disk(struct quorum_host *host)
{
    sim_trace(scenario_sim(host->story->world), host->host, "loses its disk");
    host->lives++;
    host->story->wiped++;
    sim_host_die(host->host, SIM_KILLED);
}

static void move(struct quorum_host *host)
{
    sim_trace(scenario_sim(host->story->world), host->host, "moves");
    host->moves++;
    host->story->moved++;
    sim_host_die(host->host, SIM_KILLED);
}

static void on_hand(struct sim_event *event)
{
    struct quorum_story *story = CONTAINER_OF(event, struct quorum_story, hand);
    struct prng *prng = scenario_prng(story->world);
    struct quorum_host *host = &story->hosts[prng_below(prng, QUORUM_HOSTS)];

    if (!story->healed && all_in_place(story)) {
        if (prng_below(prng, 2))
            take_disk(host);
        else
            move(host);
    }
    sim_event_in(event, prng_between(prng, HAND_MS_MIN, HAND_MS_MAX) * NS_PER_MS);
}

/* -- the story -- */

static enum err story_open(struct scenario_world *world, void **ret_state)
{
    static const char *const names[QUORUM_HOSTS] = {"q0", "q1", "q2"};
    struct quorum_story *story = calloc(1, sizeof *story);
    enum err err;

    if (!story) return ERR_NOMEM;
    *ret_state = story; /* the runner closes it, also after an error */
    story->world = world;
    story->bug = (enum quorum_bug)scenario_bug(world);
    err = sim_event_init(&story->hand, scenario_sim(world), on_hand);
    for (size_t i = 0; !err && i < QUORUM_HOSTS; i++) {
        story->hosts[i] = (struct quorum_host){.story = story, .number = i};
        err = scenario_add_node(world, names[i], &quorum_process_ops, &story->hosts[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE | SCENARIO_MAY_FILL,
                                &story->hosts[i].host);
    }
    if (!err) sim_event_in(&story->hand, HAND_MS_MIN * NS_PER_MS);
    return err;
}

static bool story_done(void *state)
{
    struct quorum_story *story = state;

    story->healed = true;
    if (!all_in_place(story)) return false;
    if (story->shaken) return true;
    story->shaken = true;
    take_disk(&story->hosts[0]);
    move(&story->hosts[1]);
    return false;
}

static void story_close(void *state)
{
    free(state);
}

const struct scenario quorum_scenario = {
    .name = "quorum",
    .about =
        "three coordinators form one quorum from nothing, move, lose disks, and are three again",
    .faults_ms = FAULTS_MS,
    .faults_ms_min = FAULTS_MS_MIN,
    .heal_ms = HEAL_MS,
    .bugs = quorum_bug_names,
    .open = story_open,
    .safe = story_safe,
    .done = story_done,
    .close = story_close,
};
