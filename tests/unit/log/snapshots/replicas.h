/* SPDX-License-Identifier: Apache-2.0 */
/* Whole replicas with a trial machine on hosts of a virtual world: killed, cut off, restarted.
 * Replica n (from 0) has identity n + 1 and the address "r<n>:7791". Acknowledged writes are
 * recorded per key, so that a check at the end finds any that is missing. */
#ifndef TESTS_UNIT_LOG_REPLICAS_H
#define TESTS_UNIT_LOG_REPLICAS_H
#include "lib/test.h"
#include "log/datadir.h"
#include "log/log.h"
#include "sim/sim.h"
#include "sim/sim_link.h"
#include "trial/trial.h"

enum { REPLICAS_MAX = 5, REPLICAS_KEYS = 512, REPLICAS_VALUE = 300, REPLICAS_FILL = 32768 };
struct replicas;
struct node {
    struct replicas *all;
    size_t number;
    struct sim_host *host;
    struct replica *replica; /* NULL: not running */
    struct trial *trial, *newer;
    enum err stopped; /* on_stopped */
    struct note stopped_note, open_note;
    struct metrics *metrics;
    struct logger *logger;
    struct log_source source;
    uint64_t began; /* log lines about a snapshot being received */
};
struct replicas {
    struct sim *sim;
    size_t count, founders;
    struct node nodes[REPLICAS_MAX];
    struct replica_limits limits;
    struct sim_fs_options disk;
    uint64_t seed;
    bool loud;        /* log lines to stderr */
    bool no_machine;  /* a started replica has no trial machine */
    bool newer;       /* a started replica has one more machine, of level 2 */
    uint32_t level;   /* the level of a started replica; 0: 1 */
    size_t fill_keys; /* 0: 8 */
    uint64_t proposed, acknowledged, unknown, refused;
    int64_t sure[REPLICAS_KEYS];  /* acknowledged sums by key */
    int64_t maybe[REPLICAS_KEYS]; /* sums that may be applied */
};
extern struct replicas world;

/* Set fields of `world` before: founders, count, limits, disk, seed. */
void replicas_open(void);
void replicas_close(void);
void replicas_start(size_t number);
enum err replicas_try_start(size_t number);
void replicas_kill(size_t number, enum sim_death death);
void replicas_run(uint64_t ms);
bool replicas_until(bool (*holds)(void), uint64_t ms);
size_t replicas_leader(void); /* the ready leader of the highest term, or SIZE_MAX */
size_t replicas_wait_leader(void);
/* Proposes `count` additions of 1 to key `n % REPLICAS_KEYS` with values at the leader; waits for
 * all. */
void replicas_write(size_t count);
void replicas_propose(size_t number, size_t count); /* does not wait */
void replicas_fill(void); /* more than a segment of log, in a few large registers */
/* Node `number` has every acknowledged write, and no write that was never proposed. */
void replicas_check(size_t number);
/* Waits until all running replicas have the same applied index and hash. */
void replicas_wait_same(void);
enum err replicas_change(enum member_change_kind kind,
                         size_t number);                   /* by the leader; waits for the result */
uint64_t replicas_metric(size_t number, const char *line); /* "muster_log_..." */
#endif
