/* SPDX-License-Identifier: Apache-2.0 */
/* The replicated log: a group of replicas agrees on one order of commands. State machines apply
 * the commands in that order. Code above this header does not see the Raft engine, segments or
 * frames.
 *
 * Every call and every callback runs on the loop's thread of `io`. No callback runs inside the
 * call that caused it. Only apply changes a state machine, and the same entries must give the
 * same state everywhere. So apply reads no clock, draws no random number and never fails: a
 * refused command is a normal reply.
 *
 * A proposal ends with ERR_OK (committed and applied here), ERR_UNKNOWN (may still be
 * committed), or another error (will never be in the log). A replica stops for good (on_stopped)
 * if its disk fails, if acknowledged parts of its log are damaged, or if its state differs from
 * the majority's. The process should then exit and print the note. */
#ifndef LOG_LOG_H
#define LOG_LOG_H
#include "base/buf.h"
#include "base/list.h"
#include "base/note.h"
#include "io/io.h"
#include "obs/log.h"
#include "obs/metrics.h"

struct replica;
struct tls_context;

enum {
    REPLICA_MACHINES_MAX = 8,
    REPLICA_MEMBERS_MAX = 16, /* voters and learners together */
    REPLICA_VOTERS_MAX = 7,
    REPLICA_ADDRESS_MAX = 255,
    REPLICA_NAME_MAX = 63,   /* bytes; a label of a node, not its identity */
    REPLICA_ACTOR_MAX = 255, /* bytes; the actor is the caller who sent a command */
    REPLICA_REQUEST_ID_MAX = 64,
    REPLICA_COMMAND_MAX = 4 << 20,
    /* The highest cluster level this release can apply:
     *   1  fleet tables
     *   2  the store
     *   3  store transactions
     *   4  a domain waits for its last owner's acknowledgement; native store commands are
     *      checked against the lease's token */
    CLUSTER_LEVEL = 4,
};

/* -- state machines -- */
struct machine_entry { /* views are valid until the entry is applied */
    uint64_t index, term;
    uint64_t clock_ns; /* the replicated clock after this entry; starts at 0 */
    uint32_t version;  /* command version; at most the state machine's */
    uint32_t level;    /* cluster level at this entry */
    struct str actor, request_id, command;
};
struct machine_recovery {
    uint64_t index, clock_ns; /* as in struct machine_entry */
    uint64_t floor;           /* see base/recovery.h */
    uint8_t identity[16];     /* random, drawn once */
};
struct machine_ops {
    /* Applies the entry and writes the response to `reply`, whose size is bounded. A longer
     * response must be shortened. ERR_VERSION, with a note and no change: the program knows the
     * version but not the command. The replica then stops before the entry. */
    enum err (*apply)(void *state, const struct machine_entry *entry, struct buf *reply,
                      struct note *note);
    /* Continues an expensive entry: called after apply and once in each later turn, until it
     * returns false. Meanwhile no other entry is applied, no snapshot begins, and reads see the
     * state before the entry. The last call completes the reply. May be NULL. */
    bool (*apply_more)(void *state, struct buf *reply);
    /* Opens a view of the state after entry `index`. apply may run while the view is read.
     * Backups may open further views. ERR_NOMEM, or ERR_FULL: no further view is allowed. */
    enum err (*snapshot_begin)(void *state, uint64_t index, void **ret_view);
    /* Appends about `budget` bytes of the view: at least one byte unless done. Readers must not
     * depend on the sizes of the pieces. */
    enum err (*snapshot_next)(void *view, size_t budget, struct buf *into, bool *ret_done);
    void (*snapshot_end)(void *view); /* called at the end, or earlier to give up */
    /* Replace the state. restore_begin clears the state, restore_next gets the snapshot in order
     * in pieces of any size, restore_end checks that the snapshot was complete. ERR_CORRUPT,
     * ERR_VERSION, ERR_NOMEM, with a note. A machine without a section gets begin and end only. */
    enum err (*restore_begin)(void *state, uint64_t index, struct note *note);
    enum err (*restore_next)(void *state, struct str bytes, struct note *note);
    enum err (*restore_end)(void *state, struct note *note);
    /* Called after a restore or force-config, which lose newer history. The state gets a new
     * identity, and raises each number that it has ever issued by recovery_above(). Every replica
     * calls recover() between the same two log entries. Never fails. May be NULL. */
    void (*recover)(void *state, const struct machine_recovery *recovery);
    /* Hash of the whole state. Update the hash with each change, because the call must be cheap. */
    uint64_t (*hash)(const void *state);
    uint64_t (*size)(const void *state); /* bytes of the state, compared with the quota */
    /* Number of records that apply has touched. A slice of entries ends when this number has
     * grown by REPLICA_APPLY_WORK. May be NULL. */
    uint64_t (*work)(const void *state);
};
struct state_machine {
    uint32_t id;      /* 1..REPLICA_MACHINES_MAX; on disk, so never reused */
    const char *name; /* static text; names the snapshot section */
    uint32_t version; /* highest command version that apply() knows; at least 1 */
    const struct machine_ops *ops;
    void *state;
    uint64_t quota;         /* above this size(), proposals that grow the state are refused */
    size_t in_flight_share; /* in-flight bytes reserved for this machine; may be 0 */
};

/* -- opening -- */
struct replica_timing {     /* 0: the default in the field's comment */
    uint32_t election_ms;   /* default 250; each time-out is random, 1 to 2 times this value */
    uint32_t heartbeat_ms;  /* default 50 */
    uint32_t scale_percent; /* default 100; scales all times of this struct and derived time-outs */
};
struct replica_limits {     /* 0: the default in the field's comment */
    size_t in_flight_bytes; /* default 64 MiB of unapplied proposals; then ERR_FULL */
    uint32_t in_flight_entries;
    size_t cache_bytes;     /* default 64 MiB of recent entries in memory */
    uint64_t segment_bytes; /* default 64 MiB */
    /* free space below which writes get ERR_NO_SPACE; default 256 MiB, or 5 % of the space at
     * start if less */
    uint64_t disk_reserve_bytes;
    /* default 1,024; new entries since the last snapshot. Also needed: new log bytes of at least
     * the last snapshot's size */
    uint32_t snapshot_entries_min;
    uint64_t snapshot_every_ms;    /* default 30,000; checks whether a snapshot is due */
    uint64_t snapshot_chunk_bytes; /* default 256 KiB; snapshot bytes taken per turn */
    uint32_t trailing_entries;     /* default 4,096; entries kept behind a snapshot for followers */
    uint32_t hash_every;           /* default 4,096; entries between comparisons of state hashes */
    size_t peer_queue_bytes;       /* default 32 MiB of frames per peer; then frames are dropped */
};
enum replica_role { REPLICA_FOLLOWER, REPLICA_CANDIDATE, REPLICA_LEADER };
enum member_role { MEMBER_LEARNER, MEMBER_VOTER };
struct replica_status {
    uint64_t id, cluster_id;
    enum replica_role role;
    bool ready;                 /* leader that has applied an entry of its own term */
    bool member, voter;         /* role in this replica's newest configuration */
    uint64_t term, leader_id;   /* leader_id 0: unknown */
    const char *leader_address; /* "" if unknown; valid during the call */
    uint64_t first, last, durable, commit, applied, snapshot; /* log indexes */
    uint32_t level;
    uint64_t log_bytes, disk_free;
    bool disk_full;  /* free space is below the reserve */
    bool installing; /* receiving or restoring a snapshot */
    uint64_t clock_ns;
};
struct replica_events {
    /* Role, leader, term, `ready`, level or members changed. Never called inside a replica_*
     * call. */
    void (*on_change)(void *owner, const struct replica_status *status);
    /* The replica stopped for good: call replica_close. Until then only done() of pending calls
     * follows. */
    void (*on_stopped)(void *owner, enum err why, const struct note *note);
    /* A replica of another cluster addressed this replica as replica `to` and was refused. May
     * be NULL. Must not call replica_* functions. */
    void (*on_foreign)(void *owner, uint64_t cluster_id, uint64_t to);
    void *owner;
};
struct replica_options {
    struct io *io;
    const struct log_source *log;                /* may be NULL; copied */
    struct metrics *metrics;                     /* may be NULL; a registry serves one replica */
    const char *dir;                             /* made by datadir_format (log/datadir.h) */
    const char *listen;                          /* Raft listener; tests use port 0 */
    const char *address;                         /* Raft address for peers; NULL: the listener's */
    const char *name;                            /* node name, a label; NULL: "" */
    struct tls_context *tls_server, *tls_client; /* set both or neither */
    const struct state_machine *machines;
    size_t machine_count;
    uint32_t level; /* highest cluster level the program understands; 0 means 1 */
    struct replica_timing timing;
    struct replica_limits limits;
    struct replica_events events;
};
/* Locks the directory, loads snapshot and log, restores the state machines, and listens. Blocks.
 * ERR_BUSY: another process uses the directory. ERR_NOT_FOUND: no such directory. ERR_CORRUPT,
 * with file and offset. ERR_VERSION, ERR_INVALID, and errors of the disk and the listener. */
enum err replica_open(const struct replica_options *options, struct replica **ret_replica,
                      struct note *note);
/* Ends pending proposals, reads and changes with ERR_UNKNOWN or ERR_CLOSED, and calls their
 * done(), before it returns. Waits for the disk. Accepts NULL. Must not be called in a callback. */
void replica_close(struct replica *replica);
struct replica_status replica_status(const struct replica *replica);
/* The Raft listener's address, with the real port. */
const char *replica_address(const struct replica *replica);

/* -- proposing -- */
enum propose_flags {
    PROPOSE_FREES = BIT(0), /* the command shrinks the state: no quota */
};
enum proposal_state {
    PROPOSAL_IDLE,      /* not proposed, or done() has begun */
    PROPOSAL_GATHERED,  /* at `place` in this turn's batch */
    PROPOSAL_SUBMITTED, /* in the log at (index, term), not applied */
    PROPOSAL_DECIDED,   /* `outcome` is set; done() follows in this turn */
};
struct proposal;
typedef void proposal_fn(struct proposal *proposal, enum err err, struct str reply);
struct proposal { /* belongs to the replica until done() begins */
    uint32_t machine, version;
    uint32_t flags;
    struct str actor, request_id, command; /* copied by replica_propose */
    proposal_fn *done;
    /* position in the log, set before done(); 0: none */
    uint64_t index, term;
    /* used by the replica */
    struct list link;
    enum proposal_state state;
    enum err outcome;
    uint64_t bytes; /* bytes in flight */
    size_t place;
};
/* Proposes all commands, in order, as one batch. Each proposal gets one done(). Errors in
 * done():
 * ERR_NOT_LEADER
 * ERR_NOT_READY   the leader's term has no committed entry, or a leadership transfer is running
 * ERR_FULL        limit in flight, or the machine's quota
 * ERR_NO_SPACE    disk reserve
 * ERR_TOO_LARGE
 * ERR_VERSION     above the cluster level
 * ERR_INVALID     no such machine
 * ERR_UNKNOWN */
void replica_propose(struct replica *replica, struct proposal *const *proposals, size_t count);
/* Stops waiting: done(ERR_UNKNOWN) follows in this turn, unless the proposal has ended. */
void replica_abandon(struct replica *replica, struct proposal *proposal);

/* -- reading -- */
struct read_ticket {
    void (*done)(struct read_ticket *ticket, enum err err);
    /* used by the replica */
    struct list link;
    uint64_t index;   /* done() follows when this index is applied */
    enum err outcome; /* error of a refused ticket */
};
/* Starts a linearizable read on the leader. In done(ERR_OK) the state machines contain
 * everything that was acknowledged to any client before this call. ERR_NOT_LEADER,
 * ERR_NOT_READY, ERR_FULL (65,536 tickets wait), ERR_CLOSED. Without a majority a ticket waits
 * for ever, so cancel the ticket at a deadline. */
void replica_read(struct replica *replica, struct read_ticket *ticket);
void replica_read_cancel(struct replica *replica, struct read_ticket *ticket);

/* -- members -- */
struct replica_member {
    uint64_t id;
    char address[REPLICA_ADDRESS_MAX + 1];
    enum member_role role;
    bool self, leader;
    /* On a leader: match index and time since the last response (UINT64_MAX: never). Else 0. */
    uint64_t match, silent_ms;
    uint32_t level; /* highest cluster level the member announced; 0: not announced */
    /* Address of the connection to the member; empty: not connected. For this replica: the
     * address that the replica announces. */
    char met_at[REPLICA_ADDRESS_MAX + 1];
};
/* Lists the committed configuration on a leader, else this replica's newest configuration.
 * Returns the number of members. */
size_t replica_members(const struct replica *replica,
                       struct replica_member members[REPLICA_MEMBERS_MAX]);
enum member_change_kind {
    CHANGE_ADD,
    CHANGE_PROMOTE, /* turns a learner that has caught up into a voter */
    CHANGE_REMOVE,
    CHANGE_ADDRESS, /* id and role stay */
    /* like CHANGE_ADDRESS, but swaps addresses with a member that has the new address */
    CHANGE_TAKE,
};
struct member_change;
typedef void change_fn(struct member_change *change, enum err err, const struct note *note);
struct member_change { /* belongs to the replica until done() begins */
    enum member_change_kind kind;
    uint64_t id;
    const char *address; /* must stay valid until done() begins */
    change_fn *done;
    struct list link; /* used by the replica */
    uint64_t index;
};
/* Changes one member under the rules of design.md section 5 (log/members.h). Removing this leader
 * transfers leadership and ends with ERR_NOT_LEADER: ask the new leader. Errors in done():
 * ERR_NOT_LEADER, ERR_EXISTS, ERR_NOT_FOUND, ERR_INVALID, ERR_FULL, ERR_UNKNOWN ERR_NOT_READY   the
 * note names the unmet rule; retry later ERR_BUSY        another change runs ERR_VERSION     the
 * new member lacks the cluster level */
void replica_change(struct replica *replica, struct member_change *change);
struct transfer {
    uint64_t to; /* 0: the responsive voter with the highest match index */
    void (*done)(struct transfer *transfer, enum err err, const struct note *note);
    struct list link; /* used by the replica */
};
/* Transfers leadership. done() gets ERR_OK when another replica leads, or ERR_TIMEOUT if this
 * replica still leads. */
void replica_transfer(struct replica *replica, struct transfer *transfer);

/* Takes a snapshot even if none is due. ERR_BUSY, or ERR_NOT_READY: nothing new. */
enum err replica_snapshot(struct replica *replica);
#endif
