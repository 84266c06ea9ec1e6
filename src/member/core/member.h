/* SPDX-License-Identifier: Apache-2.0 */
/* The replicated part of worker membership: workers and their incarnations, partition owners, the
 * work queue. The leader's unreplicated state is in local.h.
 *
 * Every change is an entry of the log: a command of one or more operations, applied atomically and
 * in order. Only the leader knows that a worker is silent, but a replicated operation declares the
 * worker dead. Time is the log's clock T. Wall times are displayed and never compared.
 *
 * Before the operations, everything that is due at T happens. member_next_due() returns when the
 * leader must propose a tick. After the operations, partitions move as far as allowed.
 *
 * Safety: a partition gets a new owner only after the former owner released the partition, left, or
 * must have fenced itself. Each grant has a fencing token that grows.
 *
 * Invariants, asserted before and after every command (member.c):
 * I1 Every partition is in one state, and every REVOKING or FENCING partition has a deadline.
 * I2 A partition has an owner unless it is FREE, and its token is at most the assignment epoch.
 * I3 Every worker has one standing and is found by id and in order.
 * I4 Every item is in one state, and the PENDING items are the queue.
 * I5 Events are numbered without a gap, and emitted events are removed.
 * I6 Between commands no row is outside the state's hash.
 *
 * A refused operation has a result and changes nothing. An operation may arrive twice, so each
 * names its incarnation and does nothing if that incarnation is over. One thread. Texts in
 * operations are copied; texts in results are borrowed until the next change. */
#ifndef MEMBER_CORE_MEMBER_H
#define MEMBER_CORE_MEMBER_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/note.h"

enum {
    MEMBER_ID_MAX = 128, /* bytes 0x21 to 0x7E; ULIDs are in upper case */
    MEMBER_LABELS_MAX = 4096,
    MEMBER_REFERENCE_MAX = 512, /* bytes of the opaque reference to a checkpoint */
    MEMBER_REASON_MAX = 256,
    MEMBER_PAYLOAD_MAX = 1 << 20,
    MEMBER_WORK_RESULT_MAX = 64 << 10,
    MEMBER_OPS_MAX = 8192,      /* operations per command */
    MEMBER_EVENTS_MAX = 100000, /* events not emitted yet; at this number no worker is admitted */
    MEMBER_FLIPS_MAX = 3,       /* more restarts in MEMBER_FLIPS_NS: two processes share an id */
    MEMBER_PULL_MAX = 1024,     /* items per PULL or STEAL */
    MEMBER_WEIGHT_MAX = 1000000,
};
#define MEMBER_FLIPS_NS (10ull * 1000 * 1000 * 1000)

struct membership;
struct member_options {
    uint64_t quota_bytes; /* must be the same on every replica; 0: 512 MiB */
};
struct member_instance { /* random, chosen by a worker process at its start; all zero: none */
    uint8_t b[16];
};
struct member_digest { /* hash of a work item's content */
    uint8_t b[32];
};

/* -- rules, equal on all replicas, because an operation sets them (MEMBER_OP_CONFIGURE) -- */
enum member_placement { MEMBER_RING, MEMBER_RING_BOUNDED, MEMBER_RENDEZVOUS };
struct member_rules { /* member_rules_defaults() sets all fields */
    uint32_t total_partitions, virtual_nodes;
    enum member_placement placement;
    uint32_t epsilon_ppm;    /* RING_BOUNDED: allowed excess over the mean load, in millionths */
    uint32_t move_limit_ppm; /* limit of partitions in revocation, in millionths; at least 1 */
    bool ring_on_register;   /* a worker joins the ring at registration; false: at READY */
    /* also grants to workers that never registered, which may not fence themselves */
    bool grant_to_legacy;
    bool evict_on_revoke_timeout;
    bool failure_per_worker; /* one failure event per worker; false: one per incarnation */
    uint64_t rebalance_window_ms, revoke_timeout_ms, dead_retention_ms, tombstone_retention_ms;
    uint32_t work_max_attempts, work_max_steal;
    bool work_requeue_failed, work_steal_started;
};
void member_rules_defaults(struct member_rules *ret_rules);

/* -- operations -- */
/* The numbers are part of the log's format. */
enum member_kind {
    MEMBER_OP_TICK = 1, /* applies only changes that are due at clock T */
    /* The first operation of a new leader: `worker` is its id, `number` its term. The coordinator
     * epoch rises by one per term. */
    MEMBER_OP_LEAD,
    /* Replaces the rules. MEMBER_S_IN_USE: the new rules would invalidate existing grants. */
    MEMBER_OP_CONFIGURE,
    /* Until the end of this command `worker` is suspected: it receives no partition and loses none.
     * `all`: every worker is suspected. */
    MEMBER_OP_SUSPECT,
    /* A register call or a heartbeat (`by_beat`) registers a worker:
     * `instance`: may be zero
     * `expect`: the only incarnation that may be replaced, to which `fence_ns` belongs; 0: none
     * `fence_ns`: how long the old incarnation may still believe that it owns its partitions
     * `restart`: a heartbeat without instance shows a restart
     * lease, labels, weight, capable: only from a register call */
    MEMBER_OP_REGISTER,
    MEMBER_OP_READY, /* the worker may own partitions */
    MEMBER_OP_DRAIN, /* starts to drain the worker; `flag` false: stops */
    /* Declares a worker dead: `worker`, `incarnation`, `due_ms`, `reason`, `fence_ns` (0: the
     * deadline proves that the worker has fenced itself). */
    MEMBER_OP_DEAD,
    MEMBER_OP_LEAVE, /* the worker stopped; `flag`: only if the worker holds no partition */
    /* The worker released `partition`. `epoch` is of its grant, `text` a checkpoint reference. */
    MEMBER_OP_ACK_REVOKE,
    /* The worker wrote a checkpoint and keeps the partition. Fields of ACK_REVOKE and `wall_ms`. */
    MEMBER_OP_CHECKPOINT,
    MEMBER_OP_ROUND,   /* starts checkpoint round `number` */
    MEMBER_OP_EMITTED, /* events up to `number` have been written */
    /* Advises workers to use a heartbeat interval of `number` ms. The previous interval stays valid
     * until no worker can still use it. */
    MEMBER_OP_ADVISE,
    MEMBER_OP_ENQUEUE, /* `item`, `bytes` */
    /* Assigns `number` items of at most `limit` bytes (0: no limit) to `worker`, `incarnation`. */
    MEMBER_OP_PULL,
    MEMBER_OP_WORK_START, /* the owner of `item` started it, so it cannot be stolen */
    /* Ends `item` with the result `bytes`. `flag`: the item failed for the reason `text`. */
    MEMBER_OP_SUBMIT,
    MEMBER_OP_RELEASE, /* returns `item` to the queue */
    MEMBER_OP_STEAL,   /* `worker` is idle and takes items of another worker */
    MEMBER_OP_LAST = MEMBER_OP_STEAL
};
enum member_cause { MEMBER_FAILED, MEMBER_EVICTED, MEMBER_CONFLICT };
struct member_op { /* each kind above lists its fields; texts are borrowed */
    enum member_kind kind;
    struct str worker;
    uint64_t incarnation;
    struct member_instance instance;
    uint64_t expect, fence_ns;
    uint32_t lease_ms, weight; /* weight 0 counts as 1 */
    bool by_beat, restart, capable, flag, all;
    struct str labels, text, bytes;
    enum member_cause cause;
    int64_t due_ms;
    uint64_t epoch, number, limit;
    int64_t wall_ms;
    uint32_t partition;
    struct member_digest item;
    const struct member_rules *rules;
};

/* -- results -- */
/* clang-format off */
#define MEMBER_STATUS_MAP(X)                                                                       \
    X(DONE,        "done",                                          OK)                            \
    X(SAME,        "it was so already",                             OK)                            \
    X(UNREADABLE,  "command cannot be read",                        PARSE)                         \
    X(INVALID,     "past a limit",                                  INVALID)                       \
    X(UNKNOWN,     "unknown worker",                                NOT_FOUND)                     \
    X(STALE,       "of an incarnation that is over",                FENCED)                        \
    X(STALE_EPOCH, "of a grant that is over",                       FENCED)                        \
    X(DEAD_NOW,    "the worker is dead or gone",                    PRECONDITION)                  \
    X(CONFLICTED,  "two processes under one name: evicted",         PRECONDITION)                  \
    X(HOLDS,       "it still holds partitions",                     PRECONDITION)                  \
    X(IN_USE,      "not while partitions are owned",                PRECONDITION)                  \
    X(NOT_OWNER,   "the item is not this worker's",                 PRECONDITION)                  \
    X(FINAL,       "the item is done or has failed",                EXISTS)                        \
    X(JOINED,      "the item is there, not done yet",               EXISTS)                        \
    X(NO_ITEM,     "unknown item",                                  NOT_FOUND)                     \
    X(FULL,        "the quota is used up",                          FULL)                          \
    X(BUSY,        "events wait to be emitted",                     FULL)
/* clang-format on */
enum member_status {
#define X(name, text, err) MEMBER_S_##name,
    MEMBER_STATUS_MAP(X)
#undef X
        MEMBER_STATUS_COUNT
};
const char *member_status_text(enum member_status status);
enum err member_status_err(enum member_status status);
struct member_result {
    enum member_status status;
    /* After the operation; 0: unknown. `admitted`: REGISTER created the incarnation. */
    uint64_t incarnation;
    bool admitted;
    uint32_t items; /* assigned by PULL and STEAL; member_assigned() returns them */
};

/* -- commands -- */
struct member_command {
    int64_t wall_ms; /* the leader's wall clock, for display */
    const struct member_op *ops;
    size_t op_count;
};
/* The buffer is a command after begin and any number of adds. After ERR_FULL (limit of the buffer,
 * or MEMBER_OPS_MAX) or ERR_NOMEM nothing was added. */
enum err member_batch_begin(struct buf *into, int64_t wall_ms);
enum err member_batch_add(struct buf *into, const struct member_op *op);
size_t member_batch_ops(struct str batch);
/* The command's texts are valid as long as `bytes` and `arena`. ERR_PARSE, ERR_NOMEM, ERR_INVALID
 * (a limit) have a note. ERR_VERSION: an unknown kind. */
enum err member_command_read(struct str bytes, struct arena *arena,
                             struct member_command *ret_command, struct note *note);

/* -- open, apply, close -- */
struct membership *member_open(const struct member_options *options); /* NULL: out of memory */
void member_close(struct membership *membership);                     /* NULL is allowed */
/* `clock_ns` must not decrease, `index` must grow. `results` has op_count elements. */
void member_apply(struct membership *membership, uint64_t index, uint64_t clock_ns,
                  const struct member_command *command, struct member_result *results);
/* Returns item `number` of all items that PULL and STEAL of the last command assigned, in the order
 * of the operations. False: there are fewer. */
struct member_item;
bool member_assigned(const struct membership *membership, size_t number, size_t *ret_op,
                     struct member_item *ret_item);
/* After a restore from an old copy, or force-config: unknown workers and grants may exist. Epochs
 * continue at recovery_above(), so later grants have higher tokens. Active workers get `instance`,
 * which no process has: each must be admitted again, and its partitions move after its fence. */
void member_recover(struct membership *membership, uint64_t index, uint64_t clock_ns,
                    uint64_t floor, const struct member_instance *instance);
/* clock T at which something is due; UINT64_MAX: never */
uint64_t member_next_due(const struct membership *membership);
uint64_t member_clock_ns(const struct membership *membership);
uint64_t member_hash(const struct membership *membership);
uint64_t member_work(const struct membership *membership);  /* cost of all commands so far */
uint64_t member_bytes(const struct membership *membership); /* bytes of the quota in use */

/* -- events, in order, kept until MEMBER_OP_EMITTED -- */
enum member_topic {
    MEMBER_EV_REGISTERED = 1,
    MEMBER_EV_DEREGISTERED,
    MEMBER_EV_FAILED,
    MEMBER_EV_RESTARTED,
    MEMBER_EV_IDENTITY_CONFLICT,
    MEMBER_EV_ASSIGNMENT_CHANGED,
    MEMBER_EV_PARTITION_REVOKING,
    MEMBER_EV_PARTITION_GRANTED,
    MEMBER_EV_REVOKE_TIMEOUT,
    MEMBER_EV_LEADER_CHANGED,
    MEMBER_EV_WORK_DISPATCHED,
    MEMBER_EV_WORK_COMPLETED,
    MEMBER_EV_WORK_FAILED,
    MEMBER_EV_WORK_STOLEN,
    /* Only on the leader (local.h), never replicated: */
    MEMBER_EV_SUSPECTED,
    MEMBER_EV_RECOVERED,
    MEMBER_EV_CLOCK_SKEW,
    MEMBER_EV_MASS_FAILURE_HOLD,
    MEMBER_EV_CHECKPOINT_TRIGGERED,
    MEMBER_EV_CHECKPOINT_TIMEOUT,
    MEMBER_EV_LAST = MEMBER_EV_CHECKPOINT_TIMEOUT
};
struct member_event {
    enum member_topic topic;
    uint64_t number; /* consecutive; 0: the event exists only on the leader */
    uint64_t index;  /* of the log entry; the event's id is "<index>.<n>" */
    uint32_t n;
    int64_t wall_ms;   /* of the command that caused the event */
    struct str worker; /* id of the worker or leader; empty: none */
    uint64_t incarnation;
    /* By topic:
     * REGISTERED: "dead" when a dead worker is admitted again
     * FAILED: "evicted", "identity_conflict" or ""
     * ASSIGNMENT_CHANGED: cause
     * WORK_FAILED: reason */
    struct str text;
    int64_t due_ms; /* FAILED: due time; SUSPECTED, RECOVERED: lateness; CLOCK_SKEW: skew */
    uint64_t epoch; /* of the assignment, the grant or the coordinator */
    uint32_t partition;
    /* By topic:
     * ASSIGNMENT_CHANGED: moved partitions
     * CHECKPOINT_*: round
     * MASS_FAILURE_HOLD: workers that would fail */
    uint64_t count;
    /* By topic:
     * REVOKE_TIMEOUT, CHECKPOINT_TIMEOUT: ms waited
     * CHECKPOINT_TRIGGERED: workers asked
     * MASS_FAILURE_HOLD: active workers */
    uint64_t extra;
    struct member_digest item;
};
/* The first event with a number above *number, which is updated. False: none. */
bool member_next_event(const struct membership *membership, uint64_t *number,
                       struct member_event *ret_event);
uint64_t member_emitted(const struct membership *membership);

/* -- queries -- */
enum member_standing { MEMBER_ACTIVE = 1, MEMBER_DEAD, MEMBER_REMOVED };
enum member_removal {
    MEMBER_NOT_REMOVED,
    MEMBER_LEFT,
    MEMBER_REMOVED_DEAD,
    MEMBER_REMOVED_EVICTED
};
struct member_worker {
    struct str id, labels;
    enum member_standing standing; /* SUSPECTED exists only on the leader, see local.h */
    enum member_removal removal;
    enum member_cause cause; /* DEAD: why */
    uint64_t incarnation;
    struct member_instance instance;
    bool has_instance, capable, ready, draining, on_ring;
    uint32_t lease_ms, weight;
    int64_t registered_ms, ended_ms; /* wall times; ended: when the worker became dead or removed */
    uint32_t partitions, items;      /* held by the worker */
};
bool member_find_worker(const struct membership *membership, struct str id,
                        struct member_worker *ret_worker);
/* Finds the first worker after `after` by id, tombstones included. `after` empty: the first of
 * all. */
bool member_next_worker(const struct membership *membership, struct str after,
                        struct member_worker *ret_worker);

enum member_partition_state { MEMBER_FREE, MEMBER_OWNED, MEMBER_REVOKING, MEMBER_FENCING };
struct member_partition {
    uint32_t number;
    enum member_partition_state state;
    struct str owner; /* empty if FREE; the former owner if FENCING */
    uint64_t owner_incarnation;
    uint64_t grant_epoch; /* fencing token of the last grant */
    struct str target;    /* next owner; empty: none */
    uint64_t deadline_ns; /* clock T: deadline of REVOKING and FENCING, or start of FREE */
    struct str checkpoint;
    uint64_t checkpoint_epoch; /* epoch of the grant under which the checkpoint was written */
    int64_t checkpoint_ms;
};
bool member_find_partition(const struct membership *membership, uint32_t number,
                           struct member_partition *ret_partition);
/* Writes the partitions that the worker's incarnation holds (OWNED and REVOKING), ascending, at
 * most `room`. Returns how many the worker holds. */
size_t member_grants(const struct membership *membership, struct str worker, uint32_t *ret_numbers,
                     size_t room);

enum member_item_state {
    MEMBER_ITEM_PENDING = 1,
    MEMBER_ITEM_RUNNING,
    MEMBER_ITEM_DONE,
    MEMBER_ITEM_FAILED
};
struct member_item {
    struct member_digest id;
    enum member_item_state state;
    uint64_t place; /* position in the queue, by arrival */
    struct str worker;
    uint64_t incarnation;
    bool started;
    uint32_t attempts; /* workers that died while they held the item */
    int64_t enqueued_ms, changed_ms;
    struct str payload; /* kept until the item is DONE or FAILED */
    struct str result;  /* DONE: the submitted result; FAILED: the reason */
};
bool member_find_item(const struct membership *membership, const struct member_digest *id,
                      struct member_item *ret_item);
/* The first item after `after` by id. `after` NULL: the first of all. */
bool member_next_item(const struct membership *membership, const struct member_digest *after,
                      struct member_item *ret_item);

struct member_status_counts {
    uint64_t coord_epoch, assignment_epoch, checkpoint_round, term;
    struct str leader;
    uint64_t advised_ms; /* heartbeat interval sent to workers; 0: none */
    uint32_t active, draining, dead, tombstones;
    uint32_t total_partitions, of_state[4]; /* of_state: by enum member_partition_state */
    uint64_t oldest_free_ns; /* T when the oldest free partition became free; UINT64_MAX: none */
    uint64_t pending, running, done, failed;
    uint64_t bytes, quota, events;
    bool configured;
};
struct member_status_counts member_counts(const struct membership *membership);
const struct member_rules *member_rules(const struct membership *membership);
/* A configuration whose hash differs from the cluster's is refused. */
uint64_t member_rules_fingerprint(const struct member_rules *rules);

/* -- snapshots: a view of one moment (section/section.h), and restoring it -- */
/* Returns a struct section_view for section_view_next() and section_view_close(). ERR_FULL: another
 * view is open. ERR_NOMEM. */
enum err member_view_open(struct membership *membership, void **ret_view);
struct member_restore;
struct member_restore *member_restore_open(const struct member_options *options);
/* Restores from bytes in portions of any size; no bytes at all give an empty membership. Notes of
 * ERR_CORRUPT and ERR_VERSION have the offset of the wrong byte. */
enum err member_restore_feed(struct member_restore *restore, struct str bytes, struct note *note);
enum err member_restore_done(struct member_restore *restore, struct membership **ret_membership,
                             struct note *note);
void member_restore_close(struct member_restore *restore);
#endif
