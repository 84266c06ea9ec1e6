/* SPDX-License-Identifier: Apache-2.0 */
/* The replicated log under faults: hosts that run the shipped replica with a trial machine,
 * clients, a steward of the members, and a witness that sees everything and outlives every process.
 *
 * Invariants, during faults too (log_witness.c):
 *   1. a term has at most one leader;
 *   2. an index holds one entry: every replica, in each of its lives, applies the same bytes of the
 *      same term there and reaches the same state;
 *   3. an entry is applied once per proposal: a proposal that returned ERR_OK is at the index that
 *      was returned; one that returned neither ERR_OK nor ERR_UNKNOWN is never in the log;
 *   4. operations are in real-time order: a write is behind, and a read sees, everything that any
 *      client had received before it began; a read shows exactly the state after its index;
 *   5. the replicated clock and the cluster level never fall;
 *   6. no replica finds its own disk or state damaged.
 * After the healing (log_scenario.c): a leader, commits, all members level with it, lost identities
 * removed, one more resize, and commits again. */
#ifndef TESTS_SIM_LOG_STORY_H
#define TESTS_SIM_LOG_STORY_H
#include "base/map.h"
#include "log/datadir.h"
#include "log/log.h"
#include "scenario.h"
#include "trial/trial.h"

enum {
    LOG_HOSTS = 7,
    LOG_CLIENTS = 4,
    LOG_KEYS = 12,
    LOG_INDEX_MAX = 400000, /* entries of one story */
    LOG_ATTEMPTS_MAX = 200000,
    LOG_TERMS_MAX = 20000,
    LOG_DIR_CAP = 32,
};

/* -- history -- */
struct log_seen { /* an index, as the first replica applied it */
    uint64_t hash, state_hash, clock_ns, attempt;
    uint32_t level;
};
enum attempt_end { ATTEMPT_OPEN, ATTEMPT_OK, ATTEMPT_UNKNOWN, ATTEMPT_NO };
struct attempt_fact {
    uint64_t floor, index; /* index: where it was applied; 0: not */
    enum attempt_end end;
};
struct key_version { /* a key's value after `index` */
    uint64_t index, attempt, revision;
};
struct key_history {
    struct key_version *at;
    size_t count, cap;
};
struct log_witness {
    struct log_seen *seen; /* by index */
    uint64_t newest;       /* highest index applied anywhere */
    uint64_t *leaders;     /* by term */
    struct attempt_fact *attempts;
    uint64_t attempt_count;
    struct key_history keys[LOG_KEYS];
    uint64_t floor; /* highest index that any client has received */
    uint64_t writes_ok, reads_ok, unknown, no, snapshots_restored, changes, transfers, wipes;
    bool wrong;
    struct note why;
};
enum err log_witness_open(struct log_witness *witness);
void log_witness_close(struct log_witness *witness);
void log_witness_wrong(struct log_witness *witness, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void log_witness_leads(struct log_witness *witness, uint64_t term, uint64_t id);
void log_witness_applied(struct log_witness *witness, uint64_t replica,
                         const struct machine_entry *entry, uint64_t state_hash);
/* Returns 0 when the story is full. */
uint64_t log_witness_attempt(struct log_witness *witness);
void log_witness_wrote(struct log_witness *witness, uint64_t attempt, enum err err, uint64_t index);
/* A read of `key` that began at floor `floor` and found this state after `index`. */
void log_witness_read(struct log_witness *witness, uint64_t floor, uint64_t index, size_t key,
                      bool found, uint64_t revision, uint64_t attempt);

/* -- actors -- */
struct log_story;
struct log_process; /* log_node.c: the state that dies with the process */
struct log_host {
    struct log_story *story;
    size_t number;
    struct sim_host *host;
    struct log_process *process; /* NULL: none runs */
    uint64_t id;                 /* of the directory in use */
    uint32_t level, port, lives; /* lives: directories so far; a wiped disk is a new directory */
    bool founder, wipe;          /* wipe: at the next start */
    bool too_old;                /* the cluster refused it: start it again, upgraded */
};
struct log_client {
    size_t number, target, busy; /* target: host to ask */
    bool restless; /* always asks the present leader; others stay with a host that answered */
    sim_time rest_until;
};
struct log_steward {
    struct sim_event event;
    bool asked; /* a change is running */
    size_t voters_wanted;
    uint64_t every_ms;
};
struct log_settings { /* drawn per world */
    struct replica_limits limits;
    uint32_t heartbeat_ms, election_ms, poll_ms, busy_max, value_max, read_percent, give_up_ms;
    bool members, wipes, levels, transfers, addresses, wild_clocks;
};
struct log_story {
    struct scenario_world *world;
    struct log_settings settings;
    struct log_host hosts[LOG_HOSTS];
    struct log_client clients[LOG_CLIENTS];
    struct log_steward steward;
    struct log_witness witness;
    struct members founders;
    uint64_t cluster_id;
    /* after the healing */
    bool healed, resized;
    sim_time healed_at;
    uint64_t ok_at_heal, ok_at_resize;
};

/* -- log_node.c: a process with a replica, and the requests of clients and the steward -- */
extern const struct sim_process_ops log_process_ops;
struct replica *log_host_replica(const struct log_host *host); /* NULL: not running */
/* ERR_BUSY when a change is running here. `steward.asked` is cleared when it ends. */
void log_host_change(struct log_host *host, enum member_change_kind kind, uint64_t id,
                     const char *address);
void log_host_transfer(struct log_host *host, uint64_t to);
/* The host whose replica leads, of the highest term; NULL: none does. */
struct log_host *log_story_leader(struct log_story *story);
void log_host_address(const struct log_host *host, char address[40]);

/* -- steward.c -- */
enum err steward_open(struct log_story *story);
/* There are as many members as wanted, all alive, and level with the leader. */
bool steward_settled(struct log_story *story);

extern const struct scenario log_scenario;
#endif
