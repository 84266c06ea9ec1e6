/* SPDX-License-Identifier: Apache-2.0 */
/* The replicated log: one group of replicas that agree on one order of commands, and the state
 * machines that follow it.
 *
 * It decides the order and that nothing acknowledged is lost; what a command means is the state
 * machine's. Nothing above this header sees the Raft engine, a segment or a frame.
 *
 * One thread: every call and every callback is on the loop's thread of `io`, and no callback runs
 * from inside the call that asked for it. State machines are driven by apply only; the same
 * sequence of entries gives the same state on every replica, so apply reads no clock, draws no
 * number and never fails: a command that is refused is an answer.
 *
 * Done, not done, don't know: a proposal ends with ERR_OK (committed and applied here, reply
 * given), ERR_UNKNOWN (may yet be committed), or any other error (it is not in the log and never
 * will be). The surprising rule: a replica whose disk fails, whose log is damaged below what it
 * acknowledged, or whose state differs from the majority's, stops for good (on_stopped) rather
 * than guess. The process should then end, naming the note. */
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
    REPLICA_ADDRESS_MAX = 255, /* "host:port" */
    REPLICA_NAME_MAX = 63,     /* of a node: a label, not its identity */
    REPLICA_ACTOR_MAX = 255,   /* identity that asked for a command */
    REPLICA_REQUEST_ID_MAX = 64,
    REPLICA_COMMAND_MAX = 4 << 20, /* bytes of one command */
    /* The highest cluster level this release can apply. 1: fleet tables; 2: the store; 3: the store's
     * transactions; 4: domains that wait for their last owner's acknowledgement, and native store
     * commands that are checked against the lease's token. */
    CLUSTER_LEVEL = 4,
};

/* -- state machines -- */
struct machine_entry { /* what apply is given; views valid until the entry is done */
    uint64_t index, term;
    uint64_t clock_ns; /* the replicated clock after this entry's advance; starts at 0 */
    uint32_t version;  /* of the command: at most the machine's own */
    uint32_t level;    /* of the cluster at this entry */
    struct str actor, request_id, command;
};
struct machine_recovery {
    uint64_t index, clock_ns; /* as of a machine_entry */
    uint64_t floor;           /* base/recovery.h */
    uint8_t identity[16];     /* drawn at random, once */
};
struct machine_ops {
    /* Writes its answer for the proposer into `reply` (bounded by its ceiling; a reply that does
     * not fit is cut by the machine's own rules, never by failing). ERR_VERSION with a note, and
     * nothing was done: a command that this program does not know although it knows its version.
     * The replica stops before it, naming the entry, rather than differ from replicas that know it. */
    enum err (*apply)(void *state, const struct machine_entry *entry, struct buf *reply,
                      struct note *note);
    /* After each apply, and again in later turns for as long as it says true: the entry is much
     * work, and what is left of it waits, while no other is applied and no snapshot begun. Reads
     * meanwhile are of before the entry. The reply is complete when it says false. May be NULL. */
    bool (*apply_more)(void *state, struct buf *reply);
    /* A consistent view of the state as it is now, which is after entry `index`; apply goes on
     * while it is read. The log reads one at a time; a backup may read others beside
     * it, as many as the machine allows. ERR_NOMEM, ERR_FULL. */
    enum err (*snapshot_begin)(void *state, uint64_t index, void **ret_view);
    /* Appends about `budget` bytes, at least one unless done. The cut points mean nothing. */
    enum err (*snapshot_next)(void *view, size_t budget, struct buf *into, bool *ret_done);
    void (*snapshot_end)(void *view); /* after the last, or early to give up */
    /* Forgets everything, then takes the bytes of a snapshot in order, cut anywhere, then says
     * whether they were whole. ERR_CORRUPT, ERR_VERSION, ERR_NOMEM, with a note. A machine that
     * was never in a snapshot gets begin and end without bytes: it is empty. */
    enum err (*restore_begin)(void *state, uint64_t index, struct note *note);
    enum err (*restore_next)(void *state, struct str bytes, struct note *note);
    enum err (*restore_end)(void *state, struct note *note);
    /* History behind this state was lost (restore, force-config): the state becomes another's, and
     * every number that was handed out from it rises by recovery_above(). Between two entries, the
     * same on every replica. Never fails. May be NULL. */
    void (*recover)(void *state, const struct machine_recovery *recovery);
    /* Of the whole state; cheap, so kept as it changes. Compared between replicas, which may be of
     * two releases: an empty machine compares as one that is not there. */
    uint64_t (*hash)(const void *state);
    uint64_t (*size)(const void *state); /* bytes it holds, for the quota */
    /* Grows with what applying costs, in records touched; may be NULL. Entries are applied in
     * slices, and a slice ends when this has grown by REPLICA_APPLY_WORK, too. */
    uint64_t (*work)(const void *state);
};
struct state_machine {
    uint32_t id;      /* 1..REPLICA_MACHINES_MAX; part of the format, never reused */
    const char *name; /* static text; names its snapshot section */
    uint32_t version; /* highest command version it can apply; at least 1 */
    const struct machine_ops *ops;
    void *state;
    uint64_t quota;         /* size() above this refuses proposals that grow it; 0: none */
    size_t in_flight_share; /* bytes of proposals only this machine may use; 0: none reserved */
};

/* -- opening -- */
struct replica_timing {     /* 0: the default behind it */
    uint32_t election_ms;   /* 250; drawn anew between once and twice this */
    uint32_t heartbeat_ms;  /* 50 */
    uint32_t scale_percent; /* 100; multiplies both, and every time-out derived from them */
};
struct replica_limits {            /* 0: the default behind it */
    size_t in_flight_bytes;        /* 64 MiB proposed and not yet applied; then ERR_FULL */
    uint32_t in_flight_entries;    /* 65,536 */
    size_t cache_bytes;            /* 64 MiB of recent entries kept in memory */
    uint64_t segment_bytes;        /* 64 MiB */
    uint64_t disk_reserve_bytes;   /* 256 MiB, or 5% of what is free or ours at the start, if that
                                      is less: below it proposals are refused with ERR_NO_SPACE */
    uint32_t snapshot_entries_min; /* 1,024 entries since the last snapshot, and as many bytes of
                                      log as that one has, before the next */
    uint64_t snapshot_every_ms;    /* 30,000: how often that is looked at */
    uint64_t snapshot_chunk_bytes; /* 256 KiB a turn */
    uint32_t trailing_entries;     /* 4,096 kept behind a snapshot for followers that lag */
    uint32_t hash_every;           /* 4,096: state hashes are compared at these indexes */
    size_t peer_queue_bytes;       /* 32 MiB of frames for one peer; then they are dropped */
};
enum replica_role { REPLICA_FOLLOWER, REPLICA_CANDIDATE, REPLICA_LEADER };
enum member_role { MEMBER_LEARNER, MEMBER_VOTER };
struct replica_status {
    uint64_t id, cluster_id;
    enum replica_role role;
    bool ready;                 /* leader: an entry of its own term is committed and applied */
    bool member, voter;         /* of the newest configuration this replica has */
    uint64_t term, leader_id;   /* 0: no leader is known */
    const char *leader_address; /* "" when none; valid during the call */
    uint64_t first, last, durable, commit, applied, snapshot; /* indexes */
    uint32_t level;                                           /* of the cluster */
    uint64_t log_bytes, disk_free;
    bool disk_full;  /* below the reserve */
    bool installing; /* a snapshot is being received or restored */
    uint64_t clock_ns;
};
struct replica_events {
    /* Role, leader, term, `ready`, level or configuration changed. Never from inside a call. */
    void (*on_change)(void *owner, const struct replica_status *status);
    /* Final: no callback follows but the done()s of what was pending. Close it then. */
    void (*on_stopped)(void *owner, enum err why, const struct note *note);
    /* A replica of another cluster dialed this one as the replica `to` and was refused; may be NULL.
     * Ask the replica nothing from inside. */
    void (*on_foreign)(void *owner, uint64_t cluster_id, uint64_t to);
    void *owner;
};
struct replica_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct metrics *metrics;      /* may be NULL; one replica per registry */
    const char *dir;              /* a data directory made by datadir_format (log/datadir.h) */
    const char *listen;           /* of the Raft port; port 0 for tests */
    const char *address;          /* as others reach it; NULL: the listener's own */
    const char *name;             /* node name, a label; NULL: "" */
    struct tls_context *tls_server, *tls_client; /* both or neither */
    const struct state_machine *machines;
    size_t machine_count;
    uint32_t level; /* highest cluster level this program speaks; 0: 1 */
    struct replica_timing timing;
    struct replica_limits limits;
    struct replica_events events;
};
/* Locks the directory, loads snapshot and log (blocking; the state machines are restored here),
 * listens. ERR_BUSY (another process has it), ERR_NOT_FOUND (no data directory), ERR_CORRUPT
 * naming file and offset, ERR_VERSION, ERR_INVALID and what the disk and the listener answer. */
enum err replica_open(const struct replica_options *options, struct replica **ret_replica,
                      struct note *note);
/* Pending proposals, reads and changes end with ERR_UNKNOWN, ERR_CLOSED; their done()s run before
 * this returns. Waits for the disk. NULL is fine. Not from a callback of the replica: defer it. */
void replica_close(struct replica *replica);
struct replica_status replica_status(const struct replica *replica);
const char *replica_address(const struct replica *replica); /* of the Raft listener, real port */

/* -- proposing -- */
enum propose_flags {
    PROPOSE_FREES = BIT(0), /* shrinks state: taken although the machine is over its quota */
};
enum proposal_state {
    PROPOSAL_IDLE,      /* not proposed, or its done() has begun */
    PROPOSAL_GATHERED,  /* at `place` in the batch of this turn */
    PROPOSAL_SUBMITTED, /* in the log at (index, term), not applied yet */
    PROPOSAL_DECIDED,   /* `outcome` is known; done() follows in this turn */
};
struct proposal;
typedef void proposal_fn(struct proposal *proposal, enum err err, struct str reply);
struct proposal { /* the caller's memory until done() has begun */
    uint32_t machine, version;
    uint32_t flags;
    struct str actor, request_id, command; /* copied by replica_propose */
    proposal_fn *done;
    /* filled in before done(): its place in the log; 0: none */
    uint64_t index, term;
    /* the replica's */
    struct list link;
    enum proposal_state state;
    enum err outcome;
    uint64_t bytes; /* it counts for among those in flight */
    size_t place;
};
/* Takes them all, in order, as one batch; each gets its done() exactly once. Errors that come by
 * done(): ERR_NOT_LEADER, ERR_NOT_READY (leader, own term not committed yet, or transferring),
 * ERR_FULL (in flight, or the machine's quota), ERR_NO_SPACE (disk reserve), ERR_TOO_LARGE,
 * ERR_VERSION (above the cluster's level), ERR_INVALID (no such machine), ERR_UNKNOWN. */
void replica_propose(struct replica *replica, struct proposal *const *proposals, size_t count);
/* The caller waits no longer: done(ERR_UNKNOWN) follows in this turn. Fine when already done. */
void replica_abandon(struct replica *replica, struct proposal *proposal);

/* -- reading -- */
struct read_ticket {
    void (*done)(struct read_ticket *ticket, enum err err);
    /* the replica's */
    struct list link;
    uint64_t index;   /* to be applied before it is answered */
    enum err outcome; /* of a refused one */
};
/* done(ERR_OK): the state machines here hold everything that was acknowledged to anybody before
 * this call, and this replica was the leader after it; read now, inside done(). One round trip to
 * a majority serves all waiting tickets. Leader only: ERR_NOT_LEADER, ERR_NOT_READY, ERR_FULL
 * (65,536 wait), ERR_CLOSED. Not answered while no majority answers: cancel by deadline. */
void replica_read(struct replica *replica, struct read_ticket *ticket);
void replica_read_cancel(struct replica *replica, struct read_ticket *ticket); /* no done() */

/* -- members -- */
struct replica_member {
    uint64_t id;
    char address[REPLICA_ADDRESS_MAX + 1];
    enum member_role role;
    bool self, leader;
    /* leader only, else 0: how far it is, and how long ago it answered (UINT64_MAX: never) */
    uint64_t match, silent_ms;
    uint32_t level; /* it announced; 0: not heard of yet */
    /* where we are connected to it, and where it proved its identity; empty: nowhere just now. Of
     * ourselves: where we say that we are. */
    char met_at[REPLICA_ADDRESS_MAX + 1];
};
/* On the leader the committed configuration, elsewhere the newest one here. Returns how many. */
size_t replica_members(const struct replica *replica,
                       struct replica_member members[REPLICA_MEMBERS_MAX]);
enum member_change_kind {
    CHANGE_ADD,     /* as a learner; id and address */
    CHANGE_PROMOTE, /* a learner that has caught up to voter */
    CHANGE_REMOVE,
    CHANGE_ADDRESS, /* of a member, in place */
    CHANGE_TAKE,    /* as CHANGE_ADDRESS; a member listed there gets the address it leaves */
};
struct member_change;
typedef void change_fn(struct member_change *change, enum err err, const struct note *note);
struct member_change { /* the caller's memory until done() has begun */
    enum member_change_kind kind;
    uint64_t id;
    const char *address; /* the caller's as long as this is */
    change_fn *done;
    struct list link; /* the replica's */
    uint64_t index;
};
/* One at a time, under the rules of design.md section 5 (log/members.h). done: ERR_OK committed;
 * ERR_NOT_LEADER; ERR_NOT_READY with a note saying which rule is not met yet (ask again later);
 * ERR_BUSY another change is under way; ERR_EXISTS, ERR_NOT_FOUND, ERR_INVALID, ERR_FULL;
 * ERR_VERSION a newcomer that speaks less than the cluster's level; ERR_UNKNOWN. Removing the
 * leader transfers leadership first and answers ERR_NOT_LEADER: ask the new one. */
void replica_change(struct replica *replica, struct member_change *change);
struct transfer {
    uint64_t to; /* 0: the furthest one */
    void (*done)(struct transfer *transfer, enum err err, const struct note *note);
    struct list link; /* the replica's */
};
/* ERR_OK: another leads. ERR_TIMEOUT: it did not happen, and this replica still leads. */
void replica_transfer(struct replica *replica, struct transfer *transfer);

/* A snapshot now, whatever the policy says. ERR_BUSY, ERR_NOT_READY (nothing new). */
enum err replica_snapshot(struct replica *replica);
#endif
