/* SPDX-License-Identifier: Apache-2.0 */
/* Three or four replicas with the shipped log, store machine, service and gRPC server, under
 * faults. Clients claim, wait, renew, release, compare-and-set and watch: with their own calls,
 * through libmuster, and through etcd's KV, Watch, Lease and Lock at any replica. A witness checks
 * them.
 *
 * Invariants, during faults too:
 *   1. an index of the log has the same command, answer and state on every replica, and they are
 *      the answer and the state of the model (store_model.h);
 *   2. holders stop at their deadline, which counts from before they asked. There are never more
 *      holders than slots in a group, never two in one slot, and the tokens of a slot grow;
 *   3. no lease ends before its TTL after its last acknowledged renewal was sent;
 *   4. a request that is repeated under one sequence takes effect once and returns that effect; at
 *      most one compare-and-set replaces a revision; a refused write is never done;
 *   5. a watch reports every change after its snapshot once and in order, and PROGRESS leaves none
 *      out; a read shows a state between the newest revision that any client had received before
 *      the read began, and the end of the read;
 *   6. a client that gets etcd's Lock has the lock at the revision of the response, and until it
 *      unlocks or its lease ends;
 *   7. no replica finds its own disk or state damaged, or an entry that its release does not know
 *      (some worlds begin with a release that has no store, and are upgraded under load). After the
 *      healing every client gets things done, and every watch moves on. When the clients stop, all
 *      members reach one state.
 *
 * Time is the world's. Clocks may run fast or slow by at most 5% (scenario_draw.c), so a holder's
 * deadline here is 94% of its TTL; the deadline of libmuster is 90%. */
#ifndef TESTS_SIM_STORE_STORY_H
#define TESTS_SIM_STORE_STORY_H
#include "base/map.h"
#include "log/engine.h"
#include "log/log.h"
#include "rpc/client.h"
#include "scenario.h"
#include "store/core/store.h"

enum {
    STORE_HOSTS = 4, /* three founders, and one that may join */
    STORE_FOUNDERS = 3,
    STORE_CLIENTS = 3,
    STORE_LIBRARIES = 2, /* processes that use libmuster */
    STORE_WORKERS = 2,   /* threads of each that claim and write */
    STORE_ETCDS = 2,     /* clients of etcd's API */
    STORE_STREAMS = 2,   /* clients of its streams: a watch, and a lease that is kept alive */
    STORE_LOCKERS = 3,   /* clients that want one lock of its Lock service */
    STORE_BELIEVERS = STORE_CLIENTS + STORE_LIBRARIES * STORE_WORKERS,
    STORE_INDEX_MAX = 300000,
    STORE_CHANGES_MAX = 100000,
    STORE_EFFECTS_MAX = 50000,
    STORE_GROUPS = 2, /* "g0" with one slot, "g1" with two */
    STORE_SLOT_KINDS = STORE_GROUPS * 2,
    STORE_TRUST_PERCENT = 94,
};

/* Planted bugs, one at a time. test_store_bugs.c must find each from what clients see alone: the
 * model is off then. Bugs that the model may find are in store_mutants.txt. */
enum store_bug {
    STORE_NO_BUG,
    STORE_LOSE_RENEWALS,   /* some are answered and never done, as if before their commit */
    STORE_FORGET_REQUESTS, /* a new leader does not know what the last one answered */
    STORE_FAST_CLOCK,      /* the replicated clock runs ahead of every real one */
    STORE_SKIP_AN_EVENT,   /* of a watch */
    STORE_BUG_COUNT
};
extern const char *const store_bug_names[];

/* -- history: outlives the processes, and no process reads it -- */
struct store_seen { /* hashes of an index, as its first replica applied it */
    uint64_t command, reply, state;
    uint64_t lines; /* hash of the model's state text, which every replica must have */
};
struct store_change {                      /* of a key, in the order of the log; texts as hashes */
    uint64_t revision, key, value, bucket; /* bucket 0: watches of the bucket leave it out */
    bool gone, claim, lock;                /* claim: under "muster/"; lock: under "a/" */
};
struct store_effect { /* of a request, by client and sequence */
    uint8_t id[24];   /* its key in the map */
    int code, reason; /* of the last answer that was not a repeat */
    uint64_t revision, token;
    bool may_be_again; /* it waited: its place in the queue may have been lost */
};
struct store_belief { /* a client believes that it holds a slot */
    bool on;
    size_t group;
    uint32_t slot;
    uint64_t token;
    struct clock *clock; /* NULL: `until_ns` is of the world */
    uint64_t until_ns;
};
struct store_cas { /* an acknowledged compare-and-set: `expected` of `key` was replaced */
    size_t key;
    uint64_t expected;
};
struct model;
struct store_witness {
    struct store_seen *seen; /* by index */
    uint64_t newest;
    struct model *model;       /* as of `newest` */
    struct buf shipped, plain; /* lines */
    struct store_change *changes;
    size_t change_count;
    struct store_effect *effects;
    size_t effect_count;
    struct map by_request;
    struct store_cas *cas;
    size_t cas_count;
    uint64_t *denied; /* values of refused writes: no change may have them */
    size_t denied_count;
    uint64_t acked;  /* the newest revision that any client has received */
    uint64_t values; /* drawn so far */
    struct store_belief beliefs[STORE_BELIEVERS];
    uint64_t tokens[STORE_SLOT_KINDS]; /* the largest that was believed */
    uint64_t done[STORE_BELIEVERS], library_events[STORE_LIBRARIES];
    size_t watched[STORE_CLIENTS]; /* the last change that the client's watch reported */
    uint64_t grants, waited, expired, renewals, resyncs, restores, repeats;
    uint64_t etcd_done[STORE_ETCDS], etcd_refused, etcd_doubts, etcd_lists;
    size_t etcd_watched[STORE_STREAMS]; /* the last change that its watch reported */
    uint64_t etcd_beats[STORE_STREAMS], etcd_events, etcd_progress, etcd_ended, etcd_compacted;
    uint64_t locks[STORE_LOCKERS], locks_lost; /* lock responses; responses that the key was gone */
    uint64_t kept, lost, reads, unclear, sessions, installs, changes_of_members;
    bool wrong;
    struct note why;
};

struct store_story;
struct store_process;
struct store_host {
    struct store_story *story;
    size_t number;
    uint64_t id; /* of its replica */
    struct sim_host *host;
    struct store_process *process;
    sim_time upgrade_at; /* the host runs a release without a store until then; 0: never */
};
struct store_actor {
    struct store_story *story;
    size_t number;
    struct sim_host *host;
};
struct store_story {
    struct scenario_world *world;
    enum store_bug bug;
    bool upgrades; /* it begins with a release that has no store */
    struct store_host hosts[STORE_HOSTS];
    struct store_actor clients[STORE_CLIENTS], libraries[STORE_LIBRARIES], etcds[STORE_ETCDS],
        streams[STORE_STREAMS], lockers[STORE_LOCKERS];
    struct members founders;
    struct store_witness witness;
    struct sim_event steward;
    bool healed, quiet;
    sim_time healed_at;
    uint64_t done_at_heal[STORE_BELIEVERS], library_events_at_heal[STORE_LIBRARIES];
    uint64_t etcd_at_heal[STORE_ETCDS], beats_at_heal[STORE_STREAMS], locks_at_heal[STORE_LOCKERS];
    size_t changes_at_heal;
};
extern const char *const store_addresses[];
/* Options of a client's channel: all addresses, with short timeouts. */
struct rpc_channel_options store_channel(struct io *io);
extern const struct sim_process_ops store_process_ops, store_client_ops, store_library_ops,
    store_etcd_ops, store_streams_ops, store_locks_ops;
extern const struct scenario store_scenario;
/* NULL: none runs there. */
struct replica *store_host_replica(const struct store_host *host);
struct store *store_host_store(const struct store_host *host);

bool store_host_is_older(const struct store_host *host); /* of a release without a store */
/* At most one change at a time; its result shows in the configuration. */
void store_host_change(struct store_host *host, enum member_change_kind kind, uint64_t id,
                       const char *address);
/* -- members -- */
enum err store_steward_open(struct store_story *story);
bool store_is_member(struct store_story *story, const struct store_host *host);

/* -- the witness -- */
enum err store_witness_open(struct store_witness *witness);
void store_witness_close(struct store_witness *witness);
void store_wrong(struct store_story *story, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* After an entry was applied; `before`: the end of keys_changes() before it. */
void store_witness_applied(struct store_story *story, const struct machine_entry *entry,
                           const struct store_command *command, struct str reply,
                           const struct store *store, uint64_t before);
/* A snapshot up to `index` was restored. */
void store_witness_restored(struct store_story *story, uint64_t index, const struct store *store);
void store_witness_answered(struct store_story *story, const struct store_id *client,
                            uint64_t sequence, int code, int reason, uint64_t revision,
                            uint64_t token);
void store_witness_replaced(struct store_story *story, size_t key, uint64_t expected);
/* A grant or a renewal was answered: `sent` is when it was requested. */
void store_witness_holds(struct store_story *story, size_t client, size_t group, uint32_t slot,
                         uint64_t token, sim_time sent, uint64_t ttl_ms);
/* The same for a claim of libmuster, until a time of its process's clock. */
void store_witness_believes(struct store_story *story, size_t believer,
                            const struct store_belief *belief);
/* Whether a client has a reason to believe that it still holds. */
bool store_witness_believed(const struct store_story *story, size_t believer);
void store_witness_lets_go(struct store_story *story, size_t client);
/* The client received that its lease has expired. */
void store_witness_expired(struct store_story *story, size_t client);
/* The next change that a watch reports; false: it is not the next. */
bool store_witness_event(struct store_story *story, size_t *cursor, struct str key,
                         uint64_t revision);
size_t store_witness_after(const struct store_story *story, uint64_t revision);
/* A change of a claim at or behind the cursor, up to the revision, that the watch did not report.
 */
bool store_witness_unseen(const struct store_story *story, size_t cursor, uint64_t revision);

/* -- reads and writes by libmuster, each with a value of its own -- */
/* `acked`: of the witness, when the call began. A write that was done; one that was refused; a key
 * that was read, revision 0: absent. `stale`: a serializable read, of any revision. */
void store_witness_wrote(struct store_story *story, uint64_t acked, struct str key,
                         struct str value, uint64_t revision);
void store_witness_denied(struct store_story *story, struct str value);
void store_witness_read(struct store_story *story, uint64_t acked, struct str key, struct str value,
                        uint64_t revision, bool stale);
/* A snapshot of a bucket: every live key of it as of `revision`, and no other. */
struct store_seen_key {
    uint64_t key, revision;
};
void store_witness_snapshot(struct store_story *story, uint64_t bucket, uint64_t revision,
                            const struct store_seen_key *keys, size_t count);
/* A watch reported this change: it must be the bucket's next one at or behind *cursor. */
void store_witness_change(struct store_story *story, uint64_t bucket, size_t *cursor,
                          struct str key, uint64_t revision, bool gone);
uint64_t store_hash_of_key(struct str key);       /* as libmuster names it; "e/..." as it is */
uint64_t store_hash_of_bucket(struct str bucket); /* the same */
#endif
