/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a replica: its state, and which file owns which part.
 *
 *     replica.c           open, close, status, events, fail-stop
 *     replica_step.c      the gate before the engine, the effects behind it, received frames
 *     replica_send.c      the engine's messages; old entries for a follower that lags
 *     replica_disk.c      group commit, votes, seal, spares, release, free space
 *     replica_propose.c   proposals: check, gather, submit, decide
 *     replica_read.c      leadership rounds and the reads that wait for them
 *     replica_change.c    member changes, leadership transfer, cluster level
 *     replica_dial.c      which peers to dial and where, what each peer announced
 *     replica_apply.c     committed entries into the machines, in slices; state hashes
 *     replica_old.c       reads entries that are no longer in memory
 *     replica_snapshot.c  taking a snapshot
 *     replica_restore.c   a snapshot into the machines; loading a snapshot at start
 *     replica_install.c   sending a snapshot, receiving and installing a snapshot
 *     replica_metrics.c   muster_log_*
 *
 * The pump. Disk reports, due timers, proposals and finished transfers are recorded in struct
 * replica, and wake the pump. At the end of the turn the pump runs every part in a fixed order.
 * Only frames step the engine on arrival, because a frame is a view of received bytes.
 *
 * The gate. While a term or vote is being written, no step may run and no message may be sent.
 * replica_may_step() is false, and frames are refused and delivered again later. When the write
 * is durable, held messages are sent and the pump runs. Every engine event is called like this:
 *
 *     if (!replica_may_step(r)) return;
 *     err = engine_x(r->engine, replica_now(r), ..., &effects);
 *     replica_effects(r, err, &effects);
 *
 * replica_effects stops the replica on an error, and only queues work for the other parts. A
 * stopped replica (replica_fail) never steps. Functions with a parameter `owner`, a struct
 * replica, are events of peers, and do nothing after replica_fail. */
#ifndef LOG_REPLICA_INTERNAL_H
#define LOG_REPLICA_INTERNAL_H
#include "base/list.h"
#include "io/io.h"
#include "log/datadir.h"
#include "log/engine.h"
#include "log/entries.h"
#include "log/envelope.h"
#include "log/log.h"
#include "log/members.h"
#include "log/meta.h"
#include "log/peers.h"
#include "log/snapfile.h"
#include "log/wal.h"

enum {
    REPLICA_TERMS_KEPT = 4,      /* leaderships whose proposals may be undecided at a time */
    REPLICA_READS_MAX = 65536,   /* waiting tickets; then ERR_FULL */
    REPLICA_HASHES_KEPT = 8,     /* indexes whose state hashes are compared */
    REPLICA_APPLY_ENTRIES = 256, /* per apply slice, because each may call a done() */
    REPLICA_APPLY_BYTES = 1 << 20,
    REPLICA_APPLY_WORK = 1024,    /* records per apply slice (machine_ops.work) */
    REPLICA_READ_BYTES = 4 << 20, /* per job that reads old entries */
    REPLICA_READ_ENTRIES = 4096,
    REPLICA_DISK_BYTES = 4 << 20, /* per append job, but at least one entry */
    REPLICA_DISK_ENTRIES = 16384,
    REPLICA_REPLY_MAX = 16 << 20, /* bytes; the largest reply of a state machine */
    /* The most that one entry advances the replicated clock: twice the tick interval of an idle
     * store. */
    REPLICA_CLOCK_CAP_MS = 2000,
    REPLICA_DISK_JOBS = 64,
    REPLICA_BULK_JOBS = 64,
    REPLICA_KNOWN_MAX = 16, /* replicas that sent a hello */
};

struct replica_metrics;   /* replica_metrics.c */
struct replica_snapshots; /* replica_snapshot.c */
struct replica_installs;  /* replica_install.c */

/* -- parts of struct replica; only the file named beside a part writes it -- */
struct replica_gate { /* replica_step.c */
    bool vote_pending;
    bool refused;              /* a frame was refused: call peers_resume when the gate opens */
    struct raft_message *held; /* messages of the step whose vote is not durable yet */
    size_t held_count, held_cap;
    struct entry *received;
    size_t received_cap;
};
/* A worker's job. While the job is busy, the worker's thread owns the job's data. */
struct replica_job { /* replica.c */
    struct replica *replica;
    struct job job;
    bool busy;
    enum err err;
    struct note note;
    enum err (*run)(struct replica_job *job); /* runs on the worker's thread */
    void (*done)(struct replica_job *job);    /* loop's thread; only if the replica still runs */
};
enum replica_upkeep { UPKEEP_RELEASE, UPKEEP_SPARE, UPKEEP_LOOK, UPKEEP_SEAL };
struct replica_disk {  /* replica_disk.c */
    uint64_t next;     /* first index not given to the disk thread */
    uint64_t durable;  /* last durable index of the current log */
    uint64_t reported; /* last index reported to the engine */
    uint64_t first;    /* first index of the append job */
    uint64_t valid_to; /* entries of the append job above this index were replaced */
    bool wants_spare, sealed, full;

    struct replica_job append; /* the append job; owns the fields below */
    bool job_wants_spare;
    struct buf bytes;
    struct entry *entries; /* REPLICA_DISK_ENTRIES, as places */
    struct wal_place *places;
    size_t count;
    uint64_t append_ns;
    struct wal_stats job_stats;

    struct replica_job vote;
    struct vote vote_value;

    struct replica_job upkeep; /* the upkeep job; owns the fields below */
    enum replica_upkeep upkeep_kind;
    struct wal_stats upkeep_stats;
    uint64_t upkeep_free, upkeep_release;
    bool upkeep_wants_spare, upkeep_free_known, upkeep_full;

    struct wal_stats stats;
    /* Segments below release_wanted are to be removed; segments below `released` are removed. */
    uint64_t release_wanted, released;
    uint64_t free_bytes, reserve_bytes;
    struct timer timer;
    mono_time timer_due, appended_at, looked_at;
    /* stats.bytes when a spare was last zeroed, and when free space was last checked. */
    uint64_t sliced_at, looked_bytes;
};
struct replica_pending { /* proposals of one leadership, ordered by index */
    struct list proposals;
    uint64_t term;   /* 0: unused */
    mono_time until; /* when proposals get ERR_UNKNOWN; MONO_NEVER while leading */
};
struct replica_propose { /* replica_propose.c */
    struct list gathered, refused;
    struct list placeholders; /* placeholders of abandoned proposals, for reuse */
    struct buf bytes;
    struct entry *entries; /* one per gathered proposal; before submission bytes.at is NULL */
    size_t count, cap;
    struct replica_pending pending[REPLICA_TERMS_KEPT]; /* [0]: the newest leadership */
    /* Bytes in flight by machine. */
    uint64_t used_bytes[REPLICA_MACHINES_MAX + 1];
    uint64_t used_entries;
    /* Bytes in flight above the machines' shares. */
    uint64_t shared_bytes;
    bool clock_runs; /* an entry of this term was proposed */
    mono_ns clock_from;
    uint64_t clock_late_ms; /* loop_late_ms() at the time clock_from */
};
struct replica_reads {     /* replica_read.c */
    struct list fresh;     /* tickets that arrived after the round began */
    struct list round;     /* tickets that wait for the round */
    struct list confirmed; /* tickets that wait for apply, ordered by index */
    struct list refused;
    size_t count;
    bool running;
    uint64_t number, term, index;
    uint64_t said_yes[REPLICA_MEMBERS_MAX];
    size_t yes_count;
    mono_time resend_at;
};
struct replica_known {
    uint64_t id;
    mono_time said_at;
    uint32_t level;
    bool use_said; /* dial the announced, not the configured address */
    char address[REPLICA_ADDRESS_MAX + 1];
};
struct replica_dial { /* replica_dial.c */
    struct replica_known known[REPLICA_KNOWN_MAX];
    size_t known_count;
    bool due;
    mono_time look_at, swept_at;
};
struct replica_old {        /* replica_old.c: old entries; a busy job owns the fields */
    struct replica_job job; /* when done, entries are read or job.err is set */
    struct buf bytes;
    struct entry *entries; /* NULL: not allocated yet */
    struct wal_place *places;
    uint64_t first;
    size_t count;
};
struct replica_lag { /* replica_send.c: entries that one follower still needs */
    struct replica *replica;
    uint64_t id; /* 0: unused */
    /* waits: until the peer's queue has room. */
    bool active, waits;
    uint64_t next, end, term, prev_term;
    struct replica_old old;
};
struct replica_change_state { /* replica_change.c */
    struct list asked;
    struct member_change *running; /* written to the log, not applied */
    uint64_t running_term;
    mono_time until; /* when `running` gets ERR_UNKNOWN after a lost leadership */
    /* Transfers not checked yet; transfers that wait for the running transfer's end. */
    struct list transfers_asked, transfers;
    mono_time transfer_until;
    bool transferring;
    mono_time relief_at; /* earliest next transfer because of a full disk */
    uint64_t relief_pause_ms;
    struct member_change *leaving; /* removal of this replica; waits for a leadership transfer */
    struct members newest;         /* configuration last given to peers */
    uint64_t uncommitted;          /* index of the entry of `newest`; 0 if committed */
    bool members_dirty, level_dirty;
    uint64_t level_index; /* META_LEVEL entry in flight, or 0 */
    uint32_t level_asked; /* level in the entry at level_index */
};
struct replica_hash { /* state hashes at one index */
    uint64_t index;   /* 0: unused */
    bool own_known;
    uint64_t own;
    size_t count;
    struct {
        uint64_t id, hash;
    } said[REPLICA_MEMBERS_MAX];
};
struct replica_apply_state {          /* replica_apply.c */
    bool sliced;                      /* a slice has run in this turn */
    const struct state_machine *part; /* machine whose apply_more continues the next entry */
    uint64_t part_term;
    struct buf reply;
    struct replica_hash hashes[REPLICA_HASHES_KEPT];
    struct replica_old old;
};

struct replica {
    /* Set by replica_open, constant afterwards. */
    struct io *io;
    struct log_source log;
    struct replica_metrics *metrics; /* never NULL */
    char *dir;
    uint64_t id;
    uint32_t speaks; /* highest cluster level the program understands */
    uint32_t election_ms, heartbeat_ms;
    struct replica_limits limits; /* defaults are filled in */
    /* By machine id. Unused: ops is NULL. */
    struct state_machine machines[REPLICA_MACHINES_MAX + 1];
    uint64_t empty_hash[REPLICA_MACHINES_MAX + 1]; /* by machine id */
    struct replica_events events;
    struct fs_lock *lock;
    struct loop_worker *disk_worker; /* for wal and vote file; one job at a time */
    struct loop_worker *bulk_worker; /* for snapshots and old entries */
    struct wal *wal;                 /* owned by the disk worker after open */
    struct vote_file *vote_file;
    struct engine *engine;
    struct entries *entries;
    struct peers *peers;

    uint64_t cluster_id; /* 0 until adopted */
    struct replica_job adopt;
    uint64_t adopt_id, adopt_unique;
    struct vote start_vote; /* used during recovery only */

    /* The pump (replica.c). */
    struct turn_hook hook;
    struct task wake_task, stop_task;
    struct timer timer; /* engine time-outs and deadlines; every pump re-arms it */
    struct timer again;
    bool closing, woken, change_due;
    enum replica_role role; /* role and term after the last step */
    uint64_t role_term;
    enum err stopped; /* ERR_OK while the replica runs */
    struct note stopped_note;
    struct replica_status reported;

    /* Changed by replica_apply.c. replica_install.c uses replica_apply_jump. */
    uint64_t applied, applied_term;
    struct meta meta;

    /* replica_snapshot.c: the durable snapshot that followers get; index 0: none. */
    struct snapshot_mark snapshot;
    uint64_t snapshot_bytes;

    struct replica_gate gate;
    struct replica_disk disk;
    struct replica_propose propose;
    struct replica_reads reads;
    struct replica_change_state change;
    struct replica_dial dial;
    struct replica_apply_state apply;
    struct replica_lag lags[REPLICA_MEMBERS_MAX];
    struct replica_snapshots *snapshots;
    struct replica_installs *installs;
};

/* -- replica.c -- */
static inline mono_time replica_now(const struct replica *replica)
{
    return loop_now(replica->io->loop);
}
static inline bool replica_may_step(const struct replica *replica)
{
    return !replica->stopped && !replica->closing && !replica->gate.vote_pending;
}
void replica_wake(struct replica *replica);  /* the pump runs later in this turn */
void replica_again(struct replica *replica); /* the pump runs in the next turn */
/* Stops the replica for good. Copies the note; only the first call counts. A task calls
 * on_stopped. */
void replica_fail(struct replica *replica, enum err why, const struct note *note);
void replica_changed(struct replica *replica); /* later checks whether on_change is due */
void replica_job_init(struct replica_job *job, struct replica *replica,
                      enum err (*run)(struct replica_job *job),
                      void (*done)(struct replica_job *job));
/* The job is busy until done(). ERR_FULL: the worker's queue is full. */
enum err replica_job_start(struct replica_job *job, struct loop_worker *worker);
bool replica_ready(const struct replica *replica);

/* -- replica_step.c -- */
void replica_effects(struct replica *replica, enum err err, const struct engine_effects *effects);
bool replica_on_frame(void *owner, uint64_t from, struct peer_frame *frame);
void replica_gate_opened(struct replica *replica); /* call when the vote is durable */
void replica_resume(struct replica *replica);
void replica_step_pump(struct replica *replica);
void replica_step_close(struct replica *replica);

/* -- replica_send.c -- */
void replica_send(struct replica *replica, const struct raft_message *message);
/* For any frame but an append. */
struct raft_message replica_message_of(const struct peer_frame *frame, uint64_t from);
void replica_send_all(struct replica *replica, const struct peer_frame *frame, bool voters_only);
void replica_send_pump(struct replica *replica);
void replica_send_close(struct replica *replica);

/* -- replica_disk.c -- */
enum err replica_disk_open(struct replica *replica);
void replica_disk_close(struct replica *replica); /* call after the workers are closed */
void replica_disk_pump(struct replica *replica);
/* Closes the gate until the vote is durable. */
void replica_disk_vote(struct replica *replica, struct vote vote);
/* Call when all entries from index `from` on were replaced. */
void replica_disk_replaced(struct replica *replica, uint64_t from);
/* Empties the log in memory, which continues after `index`. The caller then sends wal_reset to
 * the disk worker. No entry follows before engine_installed, so wal_reset is first. */
void replica_disk_reset(struct replica *replica, uint64_t index);
/* Frees segments without live entries. Call after entries_forget_to. */
void replica_disk_release(struct replica *replica);

/* -- replica_propose.c -- */
void replica_propose_open(struct replica *replica);
void replica_propose_close(struct replica *replica); /* ends all proposals with ERR_UNKNOWN */
void replica_propose_pump(struct replica *replica);
void replica_propose_role(struct replica *replica); /* call when leadership began or ended */
void replica_propose_applied(struct replica *replica, uint64_t index, uint64_t term,
                             struct str reply);
/* A snapshot replaced the entries up to `index`: their proposals get ERR_UNKNOWN. */
void replica_propose_skipped(struct replica *replica, uint64_t index);
mono_time replica_propose_due(const struct replica *replica);
/* Clock advance of an entry created now, in ns. */
uint64_t replica_propose_advance(struct replica *replica);

/* -- replica_read.c -- */
void replica_read_open(struct replica *replica);
void replica_read_close(struct replica *replica, enum err err);
void replica_read_pump(struct replica *replica);
void replica_read_role(struct replica *replica);
void replica_read_asked(struct replica *replica, uint64_t from, const struct frame_read *read);
void replica_read_answered(struct replica *replica, uint64_t from, const struct frame_read *read);
mono_time replica_read_due(const struct replica *replica);

/* -- replica_change.c -- */
void replica_change_open(struct replica *replica);
void replica_change_close(struct replica *replica);
void replica_change_pump(struct replica *replica);
void replica_change_role(struct replica *replica);
void replica_change_applied(struct replica *replica, uint64_t index, uint64_t term);
void replica_change_skipped(struct replica *replica, uint64_t index);
mono_time replica_change_due(const struct replica *replica);

/* -- replica_dial.c -- */
void replica_dial_open(struct replica *replica);
void replica_dial_pump(struct replica *replica);
mono_time replica_dial_due(const struct replica *replica);
void replica_dial_hello(void *owner, uint64_t from, uint32_t level, struct str address);
uint32_t replica_dial_level(const struct replica *replica, uint64_t id);      /* 0: not announced */
const char *replica_dial_address(const struct replica *replica, uint64_t id); /* "": unknown */

/* -- replica_apply.c -- */
enum err replica_apply_open(struct replica *replica);
void replica_apply_close(struct replica *replica);
void replica_apply_pump(struct replica *replica);
/* Call when a snapshot was restored: the machines and meta have the state after `index`. Ends
 * proposals, changes and reads that waited for a lower index. */
void replica_apply_jump(struct replica *replica, uint64_t index, uint64_t term);
void replica_apply_hash(struct replica *replica, uint64_t from, const struct frame_hash *hash);

/* -- replica_old.c -- */
/* ERR_NOMEM: no buffer is allocated. */
enum err replica_old_open(struct replica_old *old, struct replica *replica,
                          void (*done)(struct replica_job *job));
/* Frees the buffers. Accepts a zeroed struct; must not be called while the job is busy. */
void replica_old_close(struct replica_old *old);
/* Reads old entries from `first` to `last`, at most a few MiB, then calls done(). False: no such
 * entries, or the bulk thread's queue is full. */
bool replica_old_read(struct replica_old *old, uint64_t first, uint64_t last);
const struct entry *replica_old_entry(const struct replica_old *old, uint64_t index); /* or NULL */

/* -- replica_restore.c -- */
/* Restores the machines and meta from the newest snapshot, or makes them empty, and removes
 * temporary files. *ret_head: mark.index is 0 without a snapshot. Blocks; for the start only.
 * ERR_CORRUPT, ERR_VERSION and errors of the disk. */
enum err replica_snapshot_load(struct replica *replica, struct snap_head *ret_head,
                               struct note *note);
/* Restores a snapshot piece by piece. The machines must not be used between begin and end. An
 * error is final, because the machines hold half a state. */
enum err replica_restore_begin(struct replica *replica, const struct snap_head *head,
                               struct note *note);
enum err replica_restore_chunk(struct replica *replica, uint32_t section, struct str bytes,
                               struct note *note);
enum err replica_restore_end(struct replica *replica, const struct snap_head *head,
                             struct note *note);
enum err replica_snapshot_path(const struct replica *replica, const struct snapshot_mark *mark,
                               char path[FS_PATH_CAP], struct note *note); /* ERR_INVALID */

/* -- replica_snapshot.c -- */
enum err replica_snapshot_open(struct replica *replica);
/* No slice runs after this. */
void replica_snapshot_stop(struct replica *replica);
void replica_snapshot_close(struct replica *replica); /* call after the workers are closed */
/* Called every turn. Takes a slice of the snapshot; compacts the log when the file is durable. A
 * snapshot begins only if applied <= disk.durable and no install runs. */
void replica_snapshot_pump(struct replica *replica);
/* Cancels the snapshot and closes its views. Takes no engine step. */
void replica_snapshot_give_up(struct replica *replica);
/* True for an error that a retry can cure. Disk errors are final. */
bool replica_snapshot_is_passing(enum err err);
/* Followers now get this durable snapshot. Older snapshots are removed when no transfer uses
 * them. */
void replica_snapshot_took_over(struct replica *replica, const struct snapshot_mark *mark,
                                uint64_t bytes);

/* -- replica_install.c -- */
enum err replica_install_open(struct replica *replica);
void replica_install_stop(struct replica *replica);
void replica_install_close(struct replica *replica); /* call after the workers are closed */
void replica_install_pump(struct replica *replica);
void replica_install_send(struct replica *replica, const struct raft_message *message);
/* The engine wants the offered snapshot (ENGINE_INSTALL). Takes no step, because replica_effects
 * is the caller. */
void replica_install_begin(struct replica *replica, const struct snapshot_mark *mark);
bool replica_install_on_snap(void *owner, uint64_t from, struct peer_frame *frame);
void replica_install_on_lost(void *owner, uint64_t from);
void replica_install_on_sent(void *owner, uint64_t to, uint64_t id, enum err err);
bool replica_install_busy(const struct replica *replica);
/* True: a snapshot older than `index` is being sent. `stop` ends its transfer. */
bool replica_install_sends_older(struct replica *replica, uint64_t index, bool stop);

/* -- replica_metrics.c -- */
enum replica_counter {
    COUNT_ELECTIONS,
    COUNT_LEADERSHIPS,
    COUNT_READ_ROUNDS,
    COUNT_READS,
    COUNT_SYNCS,
    COUNT_SNAPSHOTS_TAKEN,
    COUNT_SNAPSHOTS_SENT,
    COUNT_SNAPSHOTS_INSTALLED,
    COUNT_SNAPSHOTS_FAILED,
    COUNT_OLD_READS, /* jobs that read old entries */
    COUNT_MESSAGES_DROPPED,
    REPLICA_COUNTERS
};
enum err replica_metrics_open(struct metrics *metrics, struct replica_metrics **ret_metrics,
                              struct note *note); /* `metrics` may be NULL */
void replica_metrics_close(struct replica_metrics *metrics);
void replica_count(struct replica *replica, enum replica_counter counter);
void replica_count_proposal(struct replica *replica, enum err err);
void replica_observe_sync(struct replica *replica, uint64_t ns, size_t batch);
void replica_metrics_pump(struct replica *replica);
#endif
