/* SPDX-License-Identifier: Apache-2.0 */
/* Whole replicas with a small state machine, over virtual time or over real sockets and files, and
 * clients that record every answer. */
#ifndef TESTS_UNIT_LOG_REPLICA_RIG_H
#define TESTS_UNIT_LOG_REPLICA_RIG_H
#include "io/real.h"
#include "lib/test.h"
#include "log/datadir.h"
#include "log/log.h"
#include "mutants/mutant.h"
#include "sim/sim.h"
#include "sim/sim_link.h"
#include "trial/trial.h"

enum {
    RIG_NODES = 5,
    RIG_CLUSTER = 0xc1,
    RIG_WAIT_MS = 60000, /* only against a hang; the test measures nothing */
    RIG_CALLS = 4096,
};
struct node {
    size_t number;
    struct io *io;
    struct sim_host *host; /* NULL over real sockets */
    char dir[256], address[64];
    const char *says; /* NULL: its address */
    uint64_t id;      /* number + 1 */
    struct replica *replica;
    struct trial *trial, *second; /* machine 1 and, if requested, machine 2 */
    bool wants_second;
    struct metrics *metrics;
    struct logger *logger;
    struct log_source log_source;
    struct buf log;
    uint32_t level, version;       /* 0: 1 */
    const struct machine_ops *ops; /* of machine 1; NULL: trial's */
    struct replica_limits limits;
    uint64_t quota;
    size_t share;
    /* its callbacks */
    uint64_t changes;
    struct replica_status reported;
    enum err stopped;
    struct note why;
    enum err open_err;
    struct note open_note;
};
/* One proposal, read or member change, and its result. */
struct call {
    struct proposal proposal;
    struct read_ticket ticket;
    struct member_change change;
    struct transfer transfer;
    bool done;
    enum err err;
    struct trial_reply reply;
    struct note note;
    struct buf command;
    bool again; /* proposes again from its done() */
    uint64_t rounds;
    struct node *node;
};
struct rig {
    bool real;
    struct real_io *real_io;
    struct timer deadline;
    bool late;
    struct sim *sim;
    uint64_t seed;
    struct replica_timing timing;
    size_t founders;
    struct node nodes[RIG_NODES];
    struct call calls[RIG_CALLS];
};
extern struct rig rig;

/* Formats and starts nodes 0..founders-1 as voters. Set fields of `rig` before; rig_close resets
 * it. */
void rig_open(size_t founders);
void rig_close(void);
void rig_format(size_t i, bool founder);
enum err rig_start(size_t i);
void rig_start_ok(size_t i);
void rig_stop(size_t i);          /* orderly */
void rig_kill(size_t i);          /* virtual: the process is killed; real: the same as stop */
void rig_cut(size_t i, bool cut); /* virtual: the node sends and receives nothing */
bool rig_turn(void);
void rig_run(uint64_t ms);
struct node *rig_leader(void); /* the ready leader of the highest term, or NULL */
bool rig_has_new_leader(const struct node *old);
bool rig_settled(void); /* all running nodes have applied the same */
uint64_t rig_counter(struct node *node,
                     const char *line); /* from the metrics' text; 0: not found */

struct call *rig_set(struct node *node, size_t call, const char *key, const char *value);
struct call *rig_add(struct node *node, size_t call, const char *key, int64_t by);
struct call *rig_read(struct node *node, size_t call);
struct call *rig_change(struct node *node, size_t call, enum member_change_kind kind,
                        struct node *which);
struct call *rig_transfer(struct node *node, size_t call, uint64_t to);
int64_t rig_number(struct node *node, const char *key); /* -1: no such register */

#define CHECK_FOUND(test, mutant)                                                                  \
    CHECK("found by " test ": " #mutant, mutant_fails_test(test, MUTANT_##mutant))

#define RIG_UNTIL(why, condition)                                                                  \
    do {                                                                                           \
        rig.late = false;                                                                          \
        while (!(condition) && rig_turn()) continue;                                               \
        timer_stop(&rig.deadline);                                                                 \
        CHECK(why, condition);                                                                     \
    } while (0)
/* Runs the test in virtual time and over the kernel's sockets and files. */
#define TEST_BOTH(name)                                                                            \
    static void name(void);                                                                        \
    TEST(name##_in_virtual_time)                                                                   \
    {                                                                                              \
        rig.real = false;                                                                          \
        name();                                                                                    \
    }                                                                                              \
    TEST(name##_over_sockets)                                                                      \
    {                                                                                              \
        rig.real = true;                                                                           \
        name();                                                                                    \
    }                                                                                              \
    static void name(void)
#endif
