/* SPDX-License-Identifier: Apache-2.0 */
/* A few engines in memory: their disks, the messages between them, and one clock that moves on
 * request. No I/O. Directed tests move every message themselves; the swarm draws. Always checked:
 * one leader a term; equal logs wherever index and term are equal; the same entry applied at an
 * index everywhere; no committed entry missing in a later leader; no applied entry replaced; no
 * commit index going back. The first violation is kept as text. */
#ifndef TESTS_UNIT_LOG_ENGINE_CLUSTER_H
#define TESTS_UNIT_LOG_ENGINE_CLUSTER_H
#include "base/list.h"
#include "base/prng.h"
#include "log/engine.h"

enum {
    CLUSTER_NODES = 24,
    CLUSTER_INDEX_MAX = 8192,
    CLUSTER_ELECTION_MS = 100,
    CLUSTER_HEARTBEAT_MS = 20,
};

struct node_entry {
    uint64_t term;
    enum entry_kind kind;
    struct str bytes; /* heap */
};
struct node {
    struct cluster *cluster;
    uint64_t id;
    struct engine *engine; /* NULL: down */
    /* disk */
    bool used; /* has ever started */
    uint64_t term, vote;
    struct snapshot_mark snapshot; /* index 0: none */
    uint64_t snapshot_state;
    struct node_entry *log;
    uint64_t first;   /* index of log[0] */
    uint64_t last;    /* last entry of the log in memory; first - 1 when empty */
    uint64_t durable; /* last durable entry */
    uint64_t syncing; /* the running sync makes this entry durable; 0: none runs */
    /* Replaced durable entries remain on the disk until their replacement is durable. */
    struct node_entry *old;
    uint64_t old_first, old_count;
    /* driver */
    uint64_t reported; /* to the engine as persisted */
    uint64_t applied, state;
    uint64_t commit;
    bool was_leader;
    bool hold_sync, hold_apply, hold_install; /* by hand */
    bool installing;
    struct snapshot_mark install;
    uint64_t install_state;
    enum err stopped; /* an engine call failed */
};
struct parcel { /* a message under way */
    struct list link;
    mono_time at; /* the swarm's */
    uint64_t from, to;
    struct raft_message message;
    struct entry *entries; /* the entries of an append, on the heap with their bytes */
    struct snapshot_mark mark;
    uint64_t state; /* of a snapshot */
};
struct cluster {
    mono_time now;
    struct prng prng;
    struct node nodes[CLUSTER_NODES + 1]; /* by id, from 1 */
    struct list wire;                     /* of parcels, oldest first */
    bool cut[CLUSTER_NODES + 1][CLUSTER_NODES + 1];
    uint64_t submitted;
    /* Set by the swarm: may set parcel->at, or return false to lose the message. NULL: sent at
     * once. */
    bool (*on_post)(struct cluster *cluster, struct parcel *parcel);
    void *owner;
    char violation[256]; /* "": no violation */
    /* state of the checks */
    struct {
        uint64_t id;
    } * leaders; /* by term */
    uint64_t leader_terms;
    struct {
        uint64_t term, hash; /* the applied entry */
        uint64_t known_in;   /* term of the first replica that applied it */
        uint64_t state;      /* state after the entry */
    } applied[CLUSTER_INDEX_MAX + 1];
    struct {
        struct {
            uint64_t term, hash;
        } seen[8];
        unsigned count;
    } content[CLUSTER_INDEX_MAX + 1];
    uint64_t applied_max;
    struct {
        uint64_t commits, elections, crashes, installs, changes, transfers, truncations;
    } counts;
};

struct cluster *cluster_open(uint64_t seed);
void cluster_close(struct cluster *cluster);
/* Puts the first configuration on the disk of `id` and starts it. */
void cluster_found(struct cluster *cluster, uint64_t id, const struct members *members);
/* ids 1..voters are voters, the next `learners` are learners. */
struct members cluster_members(uint64_t voters, uint64_t learners);
/* `voters` nodes founded together, without a leader. */
struct cluster *cluster_of(uint64_t voters, uint64_t seed);
struct node *cluster_node(struct cluster *cluster, uint64_t id);

void cluster_start(struct cluster *cluster, uint64_t id); /* from its disk */
/* Loses entries that are not durable, except `spare` of them. With `spare` 0, replaced entries that
 * are not yet overwritten on disk return. */
void cluster_crash(struct cluster *cluster, uint64_t id, uint64_t spare);

/* Moves the clock at least to the deadline of `id`, and lets it time out. */
void cluster_fire(struct cluster *cluster, uint64_t id);
void cluster_timeout(struct cluster *cluster, uint64_t id); /* now */
void cluster_elapse(struct cluster *cluster, uint64_t ms);
enum err cluster_submit(struct cluster *cluster, uint64_t id, const char *command);
enum err cluster_change(struct cluster *cluster, uint64_t id, const struct members *members);
enum err cluster_transfer(struct cluster *cluster, uint64_t id, uint64_t to);
void cluster_sync(struct cluster *cluster, uint64_t id); /* everything is durable, and reported */
void cluster_sync_begin(struct cluster *cluster, uint64_t id); /* the entries present now */
void cluster_sync_end(struct cluster *cluster, uint64_t id);   /* is durable, and reported */
void cluster_apply(struct cluster *cluster, uint64_t id);
void cluster_finish_install(struct cluster *cluster, uint64_t id);
void cluster_snapshot(struct cluster *cluster, uint64_t id, uint32_t trailing); /* at applied */

/* -- the wire -- */
struct parcel *cluster_find(
    struct cluster *cluster, uint64_t from, uint64_t to,
    enum raft_message_type type); /* the oldest such message; still in flight */
struct parcel *cluster_take(struct cluster *cluster, uint64_t from, uint64_t to,
                            enum raft_message_type type); /* off the wire; NULL: none */
struct parcel *cluster_copy(const struct parcel *parcel);
void cluster_give(struct cluster *cluster, struct parcel *own_parcel); /* delivers it now */
void cluster_drop(struct parcel *own_parcel);
void cluster_drop_all(struct cluster *cluster);
bool cluster_deliver(struct cluster *cluster, uint64_t from, uint64_t to,
                     enum raft_message_type type); /* the oldest of these messages; false: none */
void cluster_deliver_all(
    struct cluster *cluster); /* until no message is in flight; cut links lose messages */
void cluster_isolate(struct cluster *cluster, uint64_t id, bool cut);
/* Lets `id` time out and delivers until it leads. False: it does not become leader. */
bool cluster_elect(struct cluster *cluster, uint64_t id);
/* Delivers messages and fires due time-outs of all nodes for `ms`. */
void cluster_run(struct cluster *cluster, uint64_t ms);
uint64_t cluster_leader(const struct cluster *cluster); /* of the highest term, or 0 */

void cluster_violate(struct cluster *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool cluster_sound(const struct cluster *cluster);
#endif
