/* SPDX-License-Identifier: Apache-2.0 */
/* Worker membership under faults: three replicas with the shipped log, member machine, service and
 * gRPC servers, and workers that beat, fence themselves by their own clock, and release what is
 * revoked.
 *
 * Invariants, during faults too:
 *   1. no two workers may process one partition: a worker may process a partition when it has a
 *      grant and has not fenced itself by its own clock, paused or not;
 *   2. every replica reports the same events under the same numbers, an incarnation fails once, and
 *      the tokens of a partition grow;
 *   3. no replica finds its own disk or state damaged.
 * After the healing no worker fails any more, the planned owner of every partition owns it and
 * knows it, and all replicas have one state.
 *
 * Clocks may run fast or slow by 5% (scenario_draw.c), where the specification allows 200 ppm. So
 * workers here fence after nine tenths of the time that the coordinators assume. */
#ifndef TESTS_SIM_MEMBER_STORY_H
#define TESTS_SIM_MEMBER_STORY_H
#include "log/engine.h"
#include "member/core/member.h"
#include "scenario.h"

enum {
    MEMBER_HOSTS = 3,
    MEMBER_WORKERS = 5,
    MEMBER_PARTITIONS = 16,
    /* Shorter than the shipped ones, so that pauses and partitions of seconds outlast them. */
    MEMBER_BEAT_MS = 200,
    MEMBER_SKEW_MS = 150,
    MEMBER_FAILURE_MS = 1500,
    MEMBER_FENCE_MS = 1000, /* coordinators assume it; workers here fence after nine tenths */
    MEMBER_EVENTS_SEEN = 65536,
    MEMBER_INCARNATIONS = 1024,
};
#define MEMBER_RUN "01JFEAVS7C5DE5XEAEAB91EBT5"

/* Planted bugs, one at a time; test_member_bugs.c must find each. Bugs in src/member/core are in
 * member_mutants.txt. */
enum member_bug {
    MEMBER_NO_BUG,
    MEMBER_NEVER_FENCES,  /* the worker goes on without acknowledgements */
    MEMBER_KEEPS_REVOKED, /* the worker releases a partition and goes on with it */
    MEMBER_BUG_COUNT
};
extern const char *const member_bug_names[];

struct member_story;
struct member_process;
struct member_host {
    struct member_story *story;
    size_t number;
    struct sim_host *host;
    struct member_process *process;
    uint64_t read; /* number of its events that were compared */
};
/* The state of a worker's process; cleared when it dies, because then it processes nothing. */
struct member_belief {
    struct clock *clock;                /* NULL: there is no process */
    uint64_t last_ok_ns;                /* by its clock: when the last acknowledged beat was sent */
    uint64_t tokens[MEMBER_PARTITIONS]; /* 0: it does not process it */
};
struct member_actor {
    struct member_story *story;
    size_t number;
    char id[27];
    struct sim_host *host;
    struct member_belief belief;
};
struct member_story {
    struct scenario_world *world;
    enum member_bug bug;
    struct member_host hosts[MEMBER_HOSTS];
    struct member_actor workers[MEMBER_WORKERS];
    struct members founders;
    uint64_t *events; /* hashes, by number */
    uint8_t failed[MEMBER_WORKERS][MEMBER_INCARNATIONS];
    uint64_t tokens[MEMBER_PARTITIONS];
    uint64_t newest;
    bool healed, wrong, evicts; /* evicts: workers that do not release in time */
    sim_time healed_at;
    struct note why;
    uint64_t failures, restarts, grants, acks, fences;
};
extern const struct sim_process_ops member_process_ops, member_worker_ops;
extern const struct scenario member_scenario;
extern const char *const member_addresses[];

void member_wrong(struct member_story *story, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool member_is_fenced(const struct member_actor *actor);
/* NULL: none runs there. */
struct replica *member_host_replica(const struct member_host *host);
const struct membership *member_host_membership(const struct member_host *host);
#endif
