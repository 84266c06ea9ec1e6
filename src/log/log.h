/* SPDX-License-Identifier: Apache-2.0 */
/* The replicated log: a group of replicas agrees on one order of commands, and state machines apply
 * the commands in that order.
 *
 * The log decides the order and never loses an acknowledged command. The state machine defines what
 * a command means. Code above this header does not see the Raft engine, segments or frames.
 *
 * One thread: every call and every callback runs on the loop's thread of `io`, and no callback runs
 * inside the call that caused it. Only apply changes a state machine. The same sequence of entries
 * must give the same state on every replica, so apply reads no clock, draws no random number and
 * never fails: a refused command is a normal reply.
 *
 * A proposal ends with ERR_OK (committed and applied here, reply given), ERR_UNKNOWN (may still be
 * committed), or any other error (not in the log and never will be). The surprising rule: a replica
 * stops for good (on_stopped) if its disk fails, if its log is damaged below what it acknowledged,
 * or if its state differs from the majority's. The process should then exit and print the note. */
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
    REPLICA_ADDRESS_MAX = 255, /* bytes of an address text */
    REPLICA_NAME_MAX = 63,     /* bytes; a name is a label of a node, not its identity */
    REPLICA_ACTOR_MAX = 255,   /* bytes; the actor is the caller who sent a command */
    REPLICA_REQUEST_ID_MAX = 64,
    REPLICA_COMMAND_MAX = 4 << 20, /* bytes of one command */
    /* The highest cluster level this release can apply. Level 1: fleet tables. Level 2: the store.
     * Level 3: store transactions. Level 4: domains wait for their last owner's acknowledgement,
     * and native store commands are checked against the lease's token. */
    CLUSTER_LEVEL = 4,
};

/* -- state machines -- */
struct machine_entry { /* input of apply; views are valid until the entry is applied */
    uint64_t index, term;
    uint64_t clock_ns; /* the replicated clock after this entry's advance; starts at 0 */
    uint32_t version;  /* version of the command; at most the state machine's version */
    uint32_t level;    /* cluster level at this entry */
    struct str actor, request_id, command;
};
struct machine_recovery {
    uint64_t index, clock_ns; /* as in struct machine_entry */
    uint64_t floor;           /* see base/recovery.h */
    uint8_t identity[16];     /* random, drawn once */
};
struct machine_ops {
    /* Applies the entry and writes the response to `reply`, whose size is bounded. The machine
     * shortens a longer response and does not fail. Returns ERR_VERSION, with a note and no change,
     * if this program knows the command's version but not the command. The replica then stops
     * before the entry, because its state would differ from other replicas. */
    enum err (*apply)(void *state, const struct machine_entry *entry, struct buf *reply,
                      struct note *note);
    /* Continues an expensive entry, in calls after apply and in later turns, until the call returns
     * false. Until then no other entry is applied, no snapshot begins, and reads see the state
     * before the entry. The last of these calls completes the reply. The pointer may be NULL. */
    bool (*apply_more)(void *state, struct buf *reply);
    /* Opens a consistent view of the current state, after entry `index`. apply may run while the
     * view is read. The log opens one view at a time, and backups may open further views. Returns
     * ERR_NOMEM, or ERR_FULL if the machine allows no further view. */
    enum err (*snapshot_begin)(void *state, uint64_t index, void **ret_view);
    /* Appends about `budget` bytes of the view, and at least one byte unless done. Readers must not
     * depend on the sizes of these pieces. */
    enum err (*snapshot_next)(void *view, size_t budget, struct buf *into, bool *ret_done);
    void (*snapshot_end)(void *view); /* called after the last piece, or earlier to give up */
    /* Replace the state: restore_begin clears it, restore_next gets the snapshot in order, in
     * pieces of any size, and restore_end checks that the snapshot was complete. Errors are
     * ERR_CORRUPT, ERR_VERSION and ERR_NOMEM, with a note. A machine that the snapshot does not
     * contain gets begin and end without bytes, and is then empty. */
    enum err (*restore_begin)(void *state, uint64_t index, struct note *note);
    enum err (*restore_next)(void *state, struct str bytes, struct note *note);
    enum err (*restore_end)(void *state, struct note *note);
    /* Called after a restore or force-config has lost newer history, between the same two entries
     * on every replica. The state gets a new identity, and every number handed out from the state
     * rises by recovery_above(). Never fails. May be NULL. */
    void (*recover)(void *state, const struct machine_recovery *recovery);
    /* Returns a hash of the whole state. The hash must be cheap, so update it with each change.
     * While the machine is empty, a release without this machine has an equal hash. */
    uint64_t (*hash)(const void *state);
    uint64_t (*size)(const void *state); /* bytes of the state, compared with the quota */
    /* Returns how many records apply has touched. May be NULL. Entries are applied in slices, and a
     * slice also ends when this number has grown by REPLICA_APPLY_WORK. */
    uint64_t (*work)(const void *state);
};
struct state_machine {
    uint32_t id;      /* 1..REPLICA_MACHINES_MAX; part of the on-disk format, never reused */
    const char *name; /* static text, also the name of the snapshot section */
    uint32_t version; /* highest command version that apply() knows; at least 1 */
    const struct machine_ops *ops;
    void *state;
    uint64_t quota;         /* while size() is larger, proposals that grow the state are refused */
    size_t in_flight_share; /* in-flight bytes reserved for this state machine; may be 0 */
};

/* -- opening -- */
struct replica_timing {     /* 0 selects the default in the field's comment */
    uint32_t election_ms;   /* default 250; each time-out is random, 1 to 2 times this value */
    uint32_t heartbeat_ms;  /* default 50 */
    uint32_t scale_percent; /* default 100; scales both times above and all derived time-outs */
};
struct replica_limits {            /* 0 selects the default in the field's comment */
    size_t in_flight_bytes;        /* default 64 MiB of unapplied proposals; more get ERR_FULL */
    uint32_t in_flight_entries;    /* default 65,536 */
    size_t cache_bytes;            /* default 64 MiB of recent entries kept in memory */
    uint64_t segment_bytes;        /* default 64 MiB */
    uint64_t disk_reserve_bytes;   /* free space below which writes get ERR_NO_SPACE; default
                                      256 MiB, or 5% of the free and own space if less */
    uint32_t snapshot_entries_min; /* default 1,024; a snapshot needs this many new entries, and
                                      new log bytes of at least the last snapshot's size */
    uint64_t snapshot_every_ms;    /* default 30,000; time between checks if a snapshot is due */
    uint64_t snapshot_chunk_bytes; /* default 256 KiB; snapshot bytes taken per turn */
    uint32_t trailing_entries;     /* default 4,096; entries kept for followers behind a snapshot */
    uint32_t hash_every;           /* default 4,096; entries between comparisons of state hashes */
    size_t peer_queue_bytes;       /* default 32 MiB of frames for one peer; more are dropped */
};
enum replica_role { REPLICA_FOLLOWER, REPLICA_CANDIDATE, REPLICA_LEADER };
enum member_role { MEMBER_LEARNER, MEMBER_VOTER };
struct replica_status {
    uint64_t id, cluster_id;
    enum replica_role role;
    bool ready;                 /* the leader has committed and applied an entry of its own term */
    bool member, voter;         /* role in the newest configuration this replica has */
    uint64_t term, leader_id;   /* leader_id 0: unknown */
    const char *leader_address; /* "" if unknown; valid during the call */
    uint64_t first, last, durable, commit, applied, snapshot; /* log indexes */
    uint32_t level;                                           /* cluster level */
    uint64_t log_bytes, disk_free;
    bool disk_full;  /* free space is below the reserve */
    bool installing; /* a snapshot is being received or restored */
    uint64_t clock_ns;
};
struct replica_events {
    /* Role, leader, term, `ready`, level or members changed. Never called in a replica_* call. */
    void (*on_change)(void *owner, const struct replica_status *status);
    /* The replica stopped for good. No callback follows except done() of pending calls. Call
     * replica_close next. */
    void (*on_stopped)(void *owner, enum err why, const struct note *note);
    /* A replica of another cluster connected to this replica, addressed it as replica `to`, and was
     * refused. May be NULL. Must not call replica_* functions. */
    void (*on_foreign)(void *owner, uint64_t cluster_id, uint64_t to);
    void *owner;
};
struct replica_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct metrics *metrics;      /* may be NULL; a registry serves at most one replica */
    const char *dir;              /* a data directory made by datadir_format (log/datadir.h) */
    const char *listen;           /* address to listen at for Raft; tests use port 0 */
    const char *address;          /* Raft address for peers; NULL: the listener's address */
    const char *name;             /* node name (a label); NULL: "" */
    struct tls_context *tls_server, *tls_client; /* set both or neither */
    const struct state_machine *machines;
    size_t machine_count;
    uint32_t level; /* highest cluster level this program understands; 0 means 1 */
    struct replica_timing timing;
    struct replica_limits limits;
    struct replica_events events;
};
/* Locks the directory, loads snapshot and log, restores the state machines, and listens. Blocks.
 * Returns ERR_BUSY (another process uses the directory), ERR_NOT_FOUND (no such directory),
 * ERR_CORRUPT with file and offset, ERR_VERSION, ERR_INVALID, and errors of the disk and the
 * listener. */
enum err replica_open(const struct replica_options *options, struct replica **ret_replica,
                      struct note *note);
/* Ends pending proposals, reads and changes with ERR_UNKNOWN or ERR_CLOSED; their done() runs
 * before replica_close returns. Waits for the disk. Accepts NULL. A callback of the replica must
 * not call replica_close, but may defer the call. */
void replica_close(struct replica *replica);
struct replica_status replica_status(const struct replica *replica);
/* Returns the address of the Raft listener, with the real port. */
const char *replica_address(const struct replica *replica);

/* -- proposing -- */
enum propose_flags {
    PROPOSE_FREES = BIT(0), /* the command shrinks the state, so the quota does not apply */
};
enum proposal_state {
    PROPOSAL_IDLE,      /* not proposed, or done() has begun */
    PROPOSAL_GATHERED,  /* stored at `place` in this turn's batch */
    PROPOSAL_SUBMITTED, /* written to the log at (index, term), not applied yet */
    PROPOSAL_DECIDED,   /* `outcome` is set; done() follows in this turn */
};
struct proposal;
typedef void proposal_fn(struct proposal *proposal, enum err err, struct str reply);
struct proposal { /* belongs to the replica until done() begins */
    uint32_t machine, version;
    uint32_t flags;
    struct str actor, request_id, command; /* copied by replica_propose */
    proposal_fn *done;
    /* position in the log, set before done(); 0 if there is none */
    uint64_t index, term;
    /* used by the replica */
    struct list link;
    enum proposal_state state;
    enum err outcome;
    uint64_t bytes; /* bytes that count against the in-flight limit */
    size_t place;
};
/* Proposes all commands, in order, as one batch. Each proposal gets its done() exactly once. Errors
 * arrive in done(): ERR_NOT_LEADER, ERR_NOT_READY (leader without a committed entry of its own
 * term, or leadership transfer in progress), ERR_FULL (limit in flight, or the machine's quota),
 * ERR_NO_SPACE (disk reserve), ERR_TOO_LARGE, ERR_VERSION (above the cluster level), ERR_INVALID
 * (no such machine), ERR_UNKNOWN. */
void replica_propose(struct replica *replica, struct proposal *const *proposals, size_t count);
/* Stops waiting for a proposal: done(ERR_UNKNOWN) follows in this turn, unless already finished. */
void replica_abandon(struct replica *replica, struct proposal *proposal);

/* -- reading -- */
struct read_ticket {
    void (*done)(struct read_ticket *ticket, enum err err);
    /* used by the replica */
    struct list link;
    uint64_t index;   /* the read completes when this index is applied */
    enum err outcome; /* the error of a refused ticket */
};
/* Starts a linearizable read on the leader. In done(ERR_OK) the caller reads the state machines.
 * They contain everything acknowledged to any client before this call, because a majority confirmed
 * this leader after the call. One round trip serves all waiting tickets. Errors: ERR_NOT_LEADER,
 * ERR_NOT_READY, ERR_FULL (65,536 tickets wait), ERR_CLOSED. Without a majority a ticket waits for
 * ever, so cancel it at a deadline. */
void replica_read(struct replica *replica, struct read_ticket *ticket);
/* Drops a waiting ticket, without a call of done(). */
void replica_read_cancel(struct replica *replica, struct read_ticket *ticket);

/* -- members -- */
struct replica_member {
    uint64_t id;
    char address[REPLICA_ADDRESS_MAX + 1];
    enum member_role role;
    bool self, leader;
    /* On a leader: match index and time since the last response (UINT64_MAX: never). Else 0. */
    uint64_t match, silent_ms;
    uint32_t level; /* highest cluster level the member announced; 0: not announced yet */
    /* The address at which this replica is connected to the member, whose identity is proven; empty
     * if not connected. For this replica: the address that it announces. */
    char met_at[REPLICA_ADDRESS_MAX + 1];
};
/* Lists the committed configuration on a leader, else the newest configuration of this replica.
 * Returns the number of members. */
size_t replica_members(const struct replica *replica,
                       struct replica_member members[REPLICA_MEMBERS_MAX]);
enum member_change_kind {
    CHANGE_ADD,     /* adds a learner with this id and address */
    CHANGE_PROMOTE, /* a learner that has caught up becomes a voter */
    CHANGE_REMOVE,
    CHANGE_ADDRESS, /* changes the address of a member; id and role stay */
    CHANGE_TAKE,    /* like CHANGE_ADDRESS; a member that already has the new address gets the old
                       address */
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
/* Changes one member. Only one change runs at a time, under the rules of design.md section 5
 * (log/members.h). done() gets ERR_OK (committed); ERR_NOT_LEADER; ERR_NOT_READY (the note names
 * the unmet rule; retry later); ERR_BUSY (another change runs); ERR_EXISTS, ERR_NOT_FOUND,
 * ERR_INVALID, ERR_FULL; ERR_VERSION (the new member lacks the cluster level); ERR_UNKNOWN. To
 * remove the leader transfers leadership and ends with ERR_NOT_LEADER: ask the new leader. */
void replica_change(struct replica *replica, struct member_change *change);
struct transfer {
    uint64_t to; /* 0 selects the responsive voter with the highest match index */
    void (*done)(struct transfer *transfer, enum err err, const struct note *note);
    struct list link; /* used by the replica */
};
/* Transfers leadership. done() gets ERR_OK if another replica leads, or ERR_TIMEOUT if the transfer
 * failed and this replica still leads. */
void replica_transfer(struct replica *replica, struct transfer *transfer);

/* Takes a snapshot now, even if none is due. Returns ERR_BUSY, or ERR_NOT_READY (nothing new). */
enum err replica_snapshot(struct replica *replica);
#endif
