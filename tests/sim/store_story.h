/* SPDX-License-Identifier: Apache-2.0 */
/* The store under fire: three or four replicas with the shipped log, store machine, service and
 * gRPC server; clients that claim, wait, renew, let go, compare-and-set and watch, some by hand,
 * some through libmuster, and some by etcd's KV, Watch, Lease and Lock at whichever replica; and a
 * witness.
 *
 * What must hold, whatever happens:
 *   1. an index of the log is the same command, is answered alike and leads to the same state on
 *      every replica, which is the answer and the state of the model (store_model.h);
 *   2. holders that stop at their deadline, which counts from before they asked, are never more
 *      than a group has slots, and never two in one slot; a slot's tokens grow;
 *   3. no lease ends before its TTL after the sending of its last acknowledged renewal;
 *   4. what is repeated under one sequence takes effect once, and is answered with that effect; a
 *      revision is replaced by one compare-and-set at most; what is refused is never done;
 *   5. a watch tells every change after its snapshot once and in order, and PROGRESS leaves none
 *      out; a read shows a state between what anybody was told before it and its end;
 *   6. who is told by etcd's Lock that it has the lock has it at the revision that it is told, and
 *      until it lets go or its lease ends;
 *   7. no replica finds its own disk or state damaged, or an entry that its release does not know
 *      (some worlds begin with a release that has no store, and are upgraded under load).
 * And after everything was healed: every client gets things done, every watch moves on, and when
 * they fall silent all members come to rest in one state.
 *
 * Time is the world's. Clocks may run fast or slow by 5% at most (scenario_draw.c), so a holder's
 * deadline here is 94% of its TTL; libmuster's own is 90%. */
#ifndef TESTS_SIM_STORE_STORY_H
#define TESTS_SIM_STORE_STORY_H
#include "base/map.h"
#include "log/engine.h"
#include "log/log.h"
#include "rpc/client.h"
#include "scenario.h"
#include "store/core/store.h"

enum {
    STORE_HOSTS = 4, /* three founders, and one that may come in */
    STORE_FOUNDERS = 3,
    STORE_CLIENTS = 3,
    STORE_LIBRARIES = 2, /* processes that use libmuster */
    STORE_WORKERS = 2,   /* threads of each that claim and write */
    STORE_ETCDS = 2,     /* clients of etcd's API */
    STORE_STREAMS = 2,   /* and of its streams: a watch, a lease that is kept */
    STORE_LOCKERS = 3,   /* who want one lock of its Lock service */
    STORE_BELIEVERS = STORE_CLIENTS + STORE_LIBRARIES * STORE_WORKERS,
    STORE_INDEX_MAX = 300000,
    STORE_CHANGES_MAX = 100000,
    STORE_EFFECTS_MAX = 50000,
    STORE_GROUPS = 2, /* "g0" with one slot, "g1" with two */
    STORE_SLOT_KINDS = STORE_GROUPS * 2,
    STORE_TRUST_PERCENT = 94,
};

/* Planted, one at a time; each must be caught (test_store_bugs.c), and by what clients see alone:
 * the model is not asked then. Those that it may find are planted in the code
 * (store_mutants.txt). */
enum store_bug {
    STORE_NO_BUG,
    STORE_LOSE_RENEWALS,   /* some are answered and never done, as if before their commit */
    STORE_FORGET_REQUESTS, /* a new leader does not know what the last one answered */
    STORE_FAST_CLOCK,      /* the replicated clock runs ahead of every real one */
    STORE_SKIP_AN_EVENT,   /* of a watch */
    STORE_BUG_COUNT
};
extern const char *const store_bug_names[];

/* -- what happened: outlives the processes, and no process looks at it -- */
struct store_seen { /* an index, as its first replica applied it; hashes */
    uint64_t command, reply, state;
    uint64_t told; /* of the model's lines, which are those of every replica */
};
struct store_change { /* of a key, in the order of the log; texts by their hash */
    uint64_t revision, key, value, bucket; /* bucket 0: of a record that watches of it leave out */
    bool gone, claim, lock;                /* claim: under "muster/"; lock: under "a/" */
};
struct store_effect { /* of a request, by client and sequence */
    uint8_t id[24];   /* its key in the map */
    int code, reason; /* of the last that was not a repeat */
    uint64_t revision, token;
    bool may_be_again; /* it waited: its place may have been lost */
};
struct store_belief { /* a client thinks it holds a slot */
    bool on;
    size_t group;
    uint32_t slot;
    uint64_t token;
    struct clock *clock; /* NULL: `until_ns` is of the world */
    uint64_t until_ns;
};
struct store_cas { /* acknowledged: `expected` of `key` was replaced */
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
    uint64_t *denied; /* values that no change may have */
    size_t denied_count;
    uint64_t acked;  /* the newest revision that any client was told of */
    uint64_t values; /* drawn so far */
    struct store_belief beliefs[STORE_BELIEVERS];
    uint64_t tokens[STORE_SLOT_KINDS]; /* the largest that was believed */
    uint64_t done[STORE_BELIEVERS], told[STORE_LIBRARIES];
    size_t watched[STORE_CLIENTS]; /* change up to which a client's watch has come */
    uint64_t grants, waited, expired, renewals, resyncs, restores, repeats;
    uint64_t etcd_done[STORE_ETCDS], etcd_refused, etcd_doubts, etcd_lists;
    size_t etcd_watched[STORE_STREAMS]; /* change up to which its watch has come */
    uint64_t etcd_beats[STORE_STREAMS], etcd_events, etcd_progress, etcd_ended, etcd_compacted;
    uint64_t locks[STORE_LOCKERS], locks_lost; /* told that it had it; that its key was gone */
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
    sim_time upgrade_at; /* until then it is of a release without a store; 0: never */
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
    uint64_t done_at_heal[STORE_BELIEVERS], told_at_heal[STORE_LIBRARIES];
    uint64_t etcd_at_heal[STORE_ETCDS], beats_at_heal[STORE_STREAMS], locks_at_heal[STORE_LOCKERS];
    size_t changes_at_heal;
};
extern const char *const store_addresses[];
/* Of a client: all of them, given up soon. */
struct rpc_channel_options store_channel(struct io *io);
extern const struct sim_process_ops store_process_ops, store_client_ops, store_library_ops,
    store_etcd_ops, store_streams_ops, store_locks_ops;
extern const struct scenario store_scenario;
/* NULL: none runs there. */
struct replica *store_host_replica(const struct store_host *host);
struct store *store_host_store(const struct store_host *host);

bool store_host_is_older(const struct store_host *host); /* of a release without a store */
/* At most one at a time; what becomes of it is seen in the configuration. */
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
/* A grant or a renewal came: `sent` is when it was asked for. */
void store_witness_holds(struct store_story *story, size_t client, size_t group, uint32_t slot,
                         uint64_t token, sim_time sent, uint64_t ttl_ms);
/* The same of a claim that libmuster has, until that moment of the clock of its process. */
void store_witness_believes(struct store_story *story, size_t believer,
                            const struct store_belief *belief);
/* Has somebody a reason to think that it still holds? */
bool store_witness_believed(const struct store_story *story, size_t believer);
void store_witness_lets_go(struct store_story *story, size_t client);
/* It was told that its lease is over by its deadline. */
void store_witness_expired(struct store_story *story, size_t client);
/* The next change that a watch tells; false: it is not the next. */
bool store_witness_event(struct store_story *story, size_t *cursor, struct str key,
                         uint64_t revision);
size_t store_witness_after(const struct store_story *story, uint64_t revision);
/* A change of a claim at or behind the cursor, up to the revision. */
bool store_witness_untold(const struct store_story *story, size_t cursor, uint64_t revision);

/* -- reads and writes by libmuster, each with a value of its own -- */
/* `acked`: of the witness, when the call began. A write that was done; that was not and never will
 * be; a key that was read, revision 0: absent. `stale`: as of whenever. */
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
/* The next change of a bucket at or behind *cursor is this one. */
void store_witness_told(struct store_story *story, uint64_t bucket, size_t *cursor, struct str key,
                        uint64_t revision, bool gone);
uint64_t store_hash_of_key(struct str key);       /* as libmuster names it; "e/..." as it is */
uint64_t store_hash_of_bucket(struct str bucket); /* the same */
#endif
