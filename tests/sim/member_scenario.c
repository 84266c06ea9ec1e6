/* SPDX-License-Identifier: Apache-2.0 */
/* The member scenario: the hosts, the checks, and what progress means. See
 * member_story.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "member_story.h"

enum {
    FAULTS_MS = 30000,
    FAULTS_MS_MIN = 8000,
    HEAL_MS = 60000,
    SETTLE_MS = 8000, /* silent workers are dead by then; later no worker may fail */
};
const char *const member_bug_names[] = {"never-fences", "keeps-revoked", NULL};
static_assert(ARRAY_LEN(member_bug_names) == MEMBER_BUG_COUNT, "a name for every bug");

void member_wrong(struct member_story *story, const char *format, ...)
{
    char text[NOTE_CAP];
    va_list args;

    if (story->wrong) return;
    story->wrong = true;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    note_set(&story->why, "%s", text);
}

/* -- reports of replicas -- */
static uint64_t settled_ms(const struct member_story *story)
{
    return story->healed
               ? (sim_now(scenario_sim(story->world)).ns - story->healed_at.ns) / NS_PER_MS
               : 0;
}

static void judge_event(struct member_story *story, const struct member_event *event)
{
    size_t worker = 0;

    while (worker < MEMBER_WORKERS &&
           !str_equal(event->worker, str_from(story->workers[worker].id)))
        worker++;
    switch (event->topic) {
    case MEMBER_EV_FAILED:
        story->failures++;
        if (worker < MEMBER_WORKERS &&
            story->failed[worker][event->incarnation % MEMBER_INCARNATIONS]++)
            member_wrong(story, "w%zu failed twice as %llu", worker,
                         (unsigned long long)event->incarnation);
        if (settled_ms(story) > SETTLE_MS)
            member_wrong(story, "w%zu failed although nothing is wrong", worker);
        return;
    case MEMBER_EV_PARTITION_GRANTED:
        story->grants++;
        if (event->epoch <= story->tokens[event->partition])
            member_wrong(story, "the token of %u does not grow", event->partition);
        story->tokens[event->partition] = event->epoch;
        return;
    case MEMBER_EV_REGISTERED: /* its tombstone is gone: numbers begin again */
        if (worker < MEMBER_WORKERS && event->incarnation == 1)
            memset(story->failed[worker], 0, sizeof story->failed[worker]);
        return;
    case MEMBER_EV_RESTARTED: story->restarts++; return;
    default: return;
    }
}

static uint64_t hash_of(const struct member_event *event)
{
    uint64_t numbers[] = {event->topic, event->index,       event->n,     event->partition,
                          event->epoch, event->incarnation, event->count, (uint64_t)event->due_ms};

    return str_hash(event->worker, str_hash(str_of(numbers, sizeof numbers), 1)) | 1;
}

/* Asked after every event of the world. An event is kept for a turn at least where its leader
 * writes it down, so none is missed. */
static void judge_replica(struct member_host *host)
{
    const struct membership *membership = member_host_membership(host);
    struct member_story *story = host->story;
    struct member_event event;

    while (membership && member_next_event(membership, &host->read, &event)) {
        uint64_t number = host->read;

        if (number >= MEMBER_EVENTS_SEEN) {
            member_wrong(story, "too many events for the judge");
            return;
        }
        if (!story->events[number]) {
            story->events[number] = hash_of(&event);
            judge_event(story, &event);
        } else if (story->events[number] != hash_of(&event)) {
            member_wrong(story, "s%zu reports another event %llu", host->number,
                         (unsigned long long)number);
        }
    }
}

/* -- beliefs of workers -- */
static void judge_owners(struct member_story *story)
{
    bool fenced[MEMBER_WORKERS];

    for (size_t i = 0; i < MEMBER_WORKERS; i++) fenced[i] = member_is_fenced(&story->workers[i]);
    for (uint32_t p = 0; p < MEMBER_PARTITIONS; p++) {
        size_t owner = MEMBER_WORKERS;

        for (size_t i = 0; i < MEMBER_WORKERS; i++) {
            if (fenced[i] || !story->workers[i].belief.tokens[p]) continue;
            if (owner < MEMBER_WORKERS)
                member_wrong(story, "partition %u: w%zu under %llu and w%zu under %llu", p, owner,
                             (unsigned long long)story->workers[owner].belief.tokens[p], i,
                             (unsigned long long)story->workers[i].belief.tokens[p]);
            owner = i;
        }
    }
}

static bool story_safe(void *state, struct note *why)
{
    struct member_story *story = state;

    for (size_t i = 0; i < MEMBER_HOSTS; i++) judge_replica(&story->hosts[i]);
    judge_owners(story);
    if (story->wrong) *why = story->why;
    return !story->wrong;
}

/* -- progress -- */
static bool all_owned(const struct member_story *story, const struct membership *m)
{
    for (uint32_t i = 0; i < MEMBER_PARTITIONS; i++) {
        struct member_partition p;
        bool known = false;

        if (!member_find_partition(m, i, &p) || p.state != MEMBER_OWNED ||
            !str_equal(p.owner, p.target))
            return false;
        for (size_t j = 0; j < MEMBER_WORKERS; j++)
            known = known || (str_equal(p.owner, str_from(story->workers[j].id)) &&
                              story->workers[j].belief.tokens[i] == p.grant_epoch &&
                              !member_is_fenced(&story->workers[j]));
        if (!known) return false;
    }
    return member_counts(m).active == MEMBER_WORKERS;
}

static bool story_done(void *state)
{
    struct member_story *story = state;
    uint64_t applied = 0, hash = 0;

    if (!story->healed) {
        story->healed = true;
        story->healed_at = sim_now(scenario_sim(story->world));
    }
    if (settled_ms(story) < 2 * SETTLE_MS) return false;
    for (size_t i = 0; i < MEMBER_HOSTS; i++) {
        const struct membership *m = member_host_membership(&story->hosts[i]);
        struct replica *replica = member_host_replica(&story->hosts[i]);

        if (!m || !replica || !all_owned(story, m)) return false;
        if (i && replica_status(replica).applied != applied) return false;
        if (i && member_hash(m) != hash) {
            member_wrong(story, "s%zu differs from the others at rest", i);
            return false;
        }
        applied = replica_status(replica).applied;
        hash = member_hash(m);
    }
    sim_trace(scenario_sim(story->world), NULL,
              "failures %llu restarts %llu grants %llu acks %llu fences %llu entries %llu",
              (unsigned long long)story->failures, (unsigned long long)story->restarts,
              (unsigned long long)story->grants, (unsigned long long)story->acks,
              (unsigned long long)story->fences, (unsigned long long)applied);
    return true;
}

/* -- the world -- */
static enum err story_open(struct scenario_world *world, void **ret_state)
{
    static const char *const host_names[MEMBER_HOSTS] = {"s0", "s1", "s2"};
    static const char *const worker_names[MEMBER_WORKERS] = {"w0", "w1", "w2", "w3", "w4"};
    struct member_story *story = calloc(1, sizeof *story);
    enum err err = ERR_OK;

    if (!story) return ERR_NOMEM;
    *ret_state = story; /* the runner closes it, also after an error */
    story->world = world;
    story->bug = (enum member_bug)scenario_bug(world);
    story->evicts = prng_below(scenario_prng(world), 2);
    story->events = calloc(MEMBER_EVENTS_SEEN, sizeof *story->events);
    if (!story->events) return ERR_NOMEM;
    story->founders.count = MEMBER_HOSTS;
    for (size_t i = 0; i < MEMBER_HOSTS; i++) {
        struct member *member = &story->founders.at[i];

        *member = (struct member){.id = i + 1, .role = MEMBER_VOTER};
        (void)snprintf(member->address, sizeof member->address, "s%zu:7791", i);
    }
    for (size_t i = 0; !err && i < MEMBER_HOSTS; i++) {
        story->hosts[i] = (struct member_host){.story = story, .number = i};
        err = scenario_add_node(world, host_names[i], &member_process_ops, &story->hosts[i],
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE | SCENARIO_MAY_FILL,
                                &story->hosts[i].host);
    }
    for (size_t i = 0; !err && i < MEMBER_WORKERS; i++) {
        struct member_actor *worker = &story->workers[i];

        *worker = (struct member_actor){.story = story, .number = i};
        (void)snprintf(worker->id, sizeof worker->id, "01JFEAVS7C5DE5XEAEAB91EBT%c",
                       (char)('0' + i));
        err = scenario_add_node(world, worker_names[i], &member_worker_ops, worker,
                                SCENARIO_MAY_DIE | SCENARIO_MAY_PAUSE, &worker->host);
    }
    return err;
}

static void story_close(void *state)
{
    struct member_story *story = state;

    free(story->events);
    free(story);
}

const struct scenario member_scenario = {
    .name = "member",
    .about = "workers that beat, fence and hand over at three replicas: no partition with two, no "
             "failure twice, all owned in the end",
    .faults_ms = FAULTS_MS,
    .faults_ms_min = FAULTS_MS_MIN,
    .heal_ms = HEAL_MS,
    .bugs = member_bug_names,
    .open = story_open,
    .safe = story_safe,
    .done = story_done,
    .close = story_close,
};
