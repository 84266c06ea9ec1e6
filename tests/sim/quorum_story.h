/* SPDX-License-Identifier: Apache-2.0 */
/* Three coordinators that find each other: hosts that run the shipped join loop, admissions, roster
 * and log over their own gRPC servers, an actor that moves hosts and wipes disks, and a witness.
 *
 * Invariants, during faults too:
 *   1. there is one cluster: every replica that belongs to one belongs to the same;
 *   2. a term has at most one leader;
 *   3. a leader's configuration never has two voters of one name, and never a fourth voter;
 *   4. no replica finds its own disk or state damaged.
 * After the healing: three voters, each host's present identity at its present address, by its
 * name, and the same roster everywhere; then node-0 loses its disk and another host moves, and the
 * cluster reaches the same state again.
 *
 * The actor wipes a disk or moves a host only while all three are in place; also node-0's, which
 * must not bootstrap a second cluster however long it cannot reach the others. */
#ifndef TESTS_SIM_QUORUM_STORY_H
#define TESTS_SIM_QUORUM_STORY_H
#include "log/log.h"
#include "scenario.h"

enum { QUORUM_HOSTS = 3, QUORUM_TERMS_MAX = 20000 };
enum quorum_bug {
    QUORUM_NO_BUG,
    QUORUM_FOUND_ANYWAY,  /* every new replica bootstraps a cluster of its own */
    QUORUM_FORGET_MOVE,   /* a moved host gives its old address */
    QUORUM_STOP_ASKING,   /* it does not ask again after the first answer */
    QUORUM_TRUST_SILENCE, /* ordinal 0 takes silent peers for new ones */
    QUORUM_BUG_COUNT
};
struct quorum_process;
struct quorum_host {
    struct quorum_story *story;
    size_t number;
    struct sim_host *host;
    struct quorum_process *process;
    uint32_t lives, moves; /* each life is a new directory, each move a new port */
};
struct quorum_story {
    struct scenario_world *world;
    enum quorum_bug bug;
    struct quorum_host hosts[QUORUM_HOSTS];
    struct sim_event hand;
    uint64_t cluster_id; /* once one is seen */
    uint64_t leaders[QUORUM_TERMS_MAX];
    uint32_t moved, wiped;
    bool healed, shaken, wrong;
    struct note why;
};
void quorum_wrong(struct quorum_story *story, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
extern const struct sim_process_ops quorum_process_ops;
/* NULL: no replica is open on that host. */
struct replica *quorum_host_replica(const struct quorum_host *host);
const struct roster *quorum_host_roster(const struct quorum_host *host);
void quorum_host_address(const struct quorum_host *host, char address[40]); /* Raft */
extern const char *const quorum_bug_names[];
extern const struct scenario quorum_scenario;
#endif
