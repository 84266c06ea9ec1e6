/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a replica: its state, and which file owns what. Included by replica*.c only.
 *
 *     replica.c           open, close, status, events, fail-stop
 *     replica_step.c      the gate before the engine, the effects behind it, frames in
 *     replica_send.c      the engine's messages out; old entries for a follower that lags
 *     replica_disk.c      group commit, votes, seal, spares, release, free space
 *     replica_propose.c   proposals: judged, gathered, submitted, decided
 *     replica_read.c      leadership rounds and the reads that wait for them
 *     replica_change.c    members, hand-over, cluster level
 *     replica_dial.c      whom to dial and where, what each said of itself
 *     replica_apply.c     committed entries into the machines, in slices; state hashes
 *     replica_old.c       entries that left memory, read back
 *     replica_snapshot.c  taking a snapshot
 *     replica_restore.c   a snapshot into the machines; loading one at start
 *     replica_install.c   sending a snapshot, receiving and installing one
 *     replica_metrics.c   muster_log_*
 *
 * The pump. Nothing calls the engine from wherever it happens to be. What happened (a disk report,
 * a due timer, a proposal, a finished transfer) is noted in the owner's part of this struct and the
 * pump is woken; at the end of the loop's turn the pump asks every part in a fixed order to take
 * its steps. Frames are the exception: they are views, so they step as they come.
 *
 * The gate. While a term or vote is on its way to the disk no step may run and no message may
 * leave: replica_may_step() is false, frames are refused (and given again), everything else waits
 * where it was noted. When the disk has reported, held messages leave, then the pump runs. Every
 * call of an engine event goes like this:
 *
 *     if (!replica_may_step(r)) return;
 *     err = engine_x(r->engine, replica_now(r), ..., &effects);
 *     replica_effects(r, err, &effects);
 *
 * replica_effects stops the replica on any error but those the caller took out before. It never
 * calls back up: it only queues for disk, peers, apply and install.
 *
 * After replica_fail the replica is stopped: may_step is false for good, and pumps return at
 * once. Functions with `owner`, a struct replica, are events of the peers, and do nothing then. */
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
    REPLICA_TERMS_KEPT = 4,      /* leaderships whose proposals may be undecided at once */
    REPLICA_READS_MAX = 65536,   /* tickets that wait; then ERR_FULL */
    REPLICA_HASHES_KEPT = 8,     /* indexes whose state hashes are compared */
    REPLICA_APPLY_ENTRIES = 256, /* of one slice: each may answer a call */
    REPLICA_APPLY_BYTES = 1 << 20,
    REPLICA_APPLY_WORK = 1024,    /* records, as machines count them */
    REPLICA_READ_BYTES = 4 << 20, /* of one job that reads old entries */
    REPLICA_READ_ENTRIES = 4096,
    REPLICA_DISK_BYTES = 4 << 20, /* of one append job; at least one entry */
    REPLICA_DISK_ENTRIES = 16384,
    REPLICA_REPLY_MAX = 16 << 20, /* ceiling of a machine's reply */
    /* The most one entry moves the replicated clock: twice the time after which the store proposes
     * a tick when nobody else writes. */
    REPLICA_CLOCK_CAP_MS = 2000,
    REPLICA_DISK_JOBS = 64,
    REPLICA_BULK_JOBS = 64,
    REPLICA_KNOWN_MAX = 16, /* said hello: every member, and others while there is room */
};

struct replica_metrics;   /* replica_metrics.c */
struct replica_snapshots; /* replica_snapshot.c */
struct replica_installs;  /* replica_install.c */

/* -- parts of struct replica, each written by its own file only -- */
struct replica_gate { /* replica_step.c */
    bool vote_pending;
    bool refused;              /* a frame: peers_resume when the gate opens */
    struct raft_message *held; /* of the step whose vote is pending */
    size_t held_count, held_cap;
    struct entry *received; /* of one append frame */
    size_t received_cap;
};
/* A job of one of the workers. While it is busy, what it works on is the other thread's. */
struct replica_job { /* replica.c */
    struct replica *replica;
    struct job job;
    bool busy;
    enum err err; /* what `run` returned */
    struct note note;
    enum err (*run)(struct replica_job *job); /* on the worker's thread */
    void (*done)(struct replica_job *job); /* on the loop's, unless the replica closes or stopped */
};
enum replica_upkeep { UPKEEP_RELEASE, UPKEEP_SPARE, UPKEEP_LOOK, UPKEEP_SEAL };
struct replica_disk {  /* replica_disk.c */
    uint64_t next;     /* first index not yet given to the disk thread */
    uint64_t durable;  /* last index durable, of the log as it is now */
    uint64_t reported; /* last index that the engine knows to be durable */
    uint64_t first;    /* of the append job */
    uint64_t valid_to; /* entries of it past this were replaced since: no report */
    bool wants_spare, sealed, full;

    struct replica_job append; /* with it: */
    bool job_wants_spare;
    struct buf bytes;
    struct entry *entries;
    struct wal_place *places;
    size_t count, cap;
    uint64_t append_ns;
    struct wal_stats job_stats;

    struct replica_job vote;
    struct vote vote_value;

    struct replica_job upkeep; /* with it: */
    enum replica_upkeep upkeep_kind;
    struct wal_stats upkeep_stats;
    uint64_t upkeep_free, upkeep_release;
    bool upkeep_wants_spare, upkeep_free_known, upkeep_full;

    struct wal_stats stats;            /* as of the last job */
    uint64_t release_wanted, released; /* segments before it */
    uint64_t free_bytes, reserve_bytes;
    struct timer timer; /* the next upkeep */
    mono_time timer_due, appended_at, looked_at;
    uint64_t sliced_at, looked_bytes; /* stats.bytes, then */
};
struct replica_pending { /* proposals of one leadership, by index */
    struct list proposals;
    uint64_t term;   /* 0: empty */
    mono_time until; /* MONO_NEVER while it leads */
};
struct replica_propose { /* replica_propose.c */
    struct list gathered, refused;
    struct list ghosts;    /* unused ones */
    struct buf bytes;      /* envelopes of the gathered */
    struct entry *entries; /* one per gathered; bytes.at is an offset until submitted */
    size_t count, cap;
    struct replica_pending pending[REPLICA_TERMS_KEPT]; /* [0]: of the newest leadership */
    uint64_t used_bytes[REPLICA_MACHINES_MAX + 1];      /* by machine, in flight */
    uint64_t used_entries;
    uint64_t shared_bytes; /* what is not reserved for one machine */
    bool clock_runs;       /* an entry of this term was proposed */
    mono_ns clock_from;
    uint64_t clock_late_ms; /* loop_late_ms() at clock_from */
};
struct replica_reads {     /* replica_read.c */
    struct list fresh;     /* came after the round began */
    struct list round;     /* wait for the round */
    struct list confirmed; /* wait for apply, by index */
    struct list refused;
    size_t count;
    bool running;
    uint64_t number, term, index;
    uint64_t said_yes[REPLICA_MEMBERS_MAX];
    size_t yes_count;
    mono_time resend_at;
};
struct replica_known { /* said hello */
    uint64_t id;
    mono_time said_at;
    uint32_t level;
    bool use_said; /* dial it where it says it is, not where the configuration says */
    char address[REPLICA_ADDRESS_MAX + 1];
};
struct replica_dial { /* replica_dial.c */
    struct replica_known known[REPLICA_KNOWN_MAX];
    size_t known_count;
    bool due;
    mono_time look_at, swept_at;
};
struct replica_old {        /* replica_old.c: a run of old entries, the bulk thread's while busy */
    struct replica_job job; /* its done(): read, or job.err */
    struct buf bytes;
    struct entry *entries; /* NULL: it has no room yet */
    struct wal_place *places;
    uint64_t first;
    size_t count; /* 0: none */
};
struct replica_lag { /* replica_send.c: what one follower is still to be sent */
    struct replica *replica;
    uint64_t id;        /* 0: free */
    bool active, waits; /* waits: for room in the peer's queue */
    uint64_t next, end, term, prev_term;
    struct replica_old old;
};
struct replica_change_state {      /* replica_change.c */
    struct list asked;             /* changes, not yet judged */
    struct member_change *running; /* written, not yet applied */
    uint64_t running_term;
    mono_time until;                        /* when a change that lost its leader is UNKNOWN */
    struct list transfers_asked, transfers; /* transfers: the one that is under way */
    mono_time transfer_until;
    bool transferring;
    mono_time relief_at; /* not before: a hand-over because our disk is full */
    uint64_t relief_pause_ms;
    struct member_change *leaving; /* removal of ourselves that waits for the hand-over */
    struct members newest;         /* as last given to peers */
    uint64_t uncommitted;          /* index of its entry if not committed, else 0; of `newest` */
    bool members_dirty, level_dirty;
    uint64_t level_index; /* of a META_LEVEL entry in flight, or 0 */
    uint32_t level_asked; /* by it */
};
struct replica_hash { /* of one index */
    uint64_t index;   /* 0: free */
    bool own_known;
    uint64_t own;
    size_t count;
    struct {
        uint64_t id, hash;
    } said[REPLICA_MEMBERS_MAX];
};
struct replica_apply_state {          /* replica_apply.c */
    bool sliced;                      /* until the next turn */
    const struct state_machine *part; /* has more to do for the entry behind the last applied one */
    uint64_t part_term;
    struct buf reply;
    struct replica_hash hashes[REPLICA_HASHES_KEPT];
    struct replica_old old;
};

struct replica {
    /* fixed by replica_open */
    struct io *io;
    struct log_source log;
    struct replica_metrics *metrics; /* never NULL */
    char *dir;
    uint64_t id;
    uint32_t speaks; /* highest cluster level */
    uint32_t election_ms, heartbeat_ms;
    struct replica_limits limits;                            /* no zeros left */
    struct state_machine machines[REPLICA_MACHINES_MAX + 1]; /* by id; ops NULL: none */
    uint64_t empty_hash[REPLICA_MACHINES_MAX + 1];           /* of each, holding nothing */
    struct replica_events events;
    struct fs_lock *lock;
    struct loop_worker *disk_worker; /* wal and vote file, one job after the other */
    struct loop_worker *bulk_worker; /* snapshots, old entries */
    struct wal *wal;                 /* the disk worker's after open */
    struct vote_file *vote_file;
    struct engine *engine;
    struct entries *entries;
    struct peers *peers;

    uint64_t cluster_id; /* 0 until adopted */
    struct replica_job adopt;
    uint64_t adopt_id, adopt_unique;
    struct vote start_vote; /* recovery only */

    /* the pump (replica.c) */
    struct turn_hook hook;
    struct task wake_task, stop_task;
    struct timer timer; /* engine, give-ups; re-armed by every pump */
    struct timer again; /* the next turn */
    bool closing, woken, change_due;
    enum replica_role role; /* as of the last step, with its term */
    uint64_t role_term;
    enum err stopped; /* ERR_OK: runs */
    struct note stopped_note;
    struct replica_status reported; /* by on_change */

    /* replica_apply.c; moved by replica_install.c through replica_apply_jump */
    uint64_t applied, applied_term;
    struct meta meta;

    /* replica_snapshot.c: the snapshot on disk, index 0: none. It is the one to send;
     * replaced only after the next is durable. */
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
/* Fail-stop. The note is copied; the first one wins. on_stopped follows from a task. */
void replica_fail(struct replica *replica, enum err why, const struct note *note);
void replica_changed(struct replica *replica); /* on_change may be due */
void replica_job_init(struct replica_job *job, struct replica *replica,
                      enum err (*run)(struct replica_job *job),
                      void (*done)(struct replica_job *job));
/* Busy from then on. ERR_FULL: the worker has no room. */
enum err replica_job_start(struct replica_job *job, struct loop_worker *worker);
bool replica_ready(const struct replica *replica);

/* -- replica_step.c -- */
void replica_effects(struct replica *replica, enum err err, const struct engine_effects *effects);
bool replica_on_frame(void *owner, uint64_t from, struct peer_frame *frame);
void replica_gate_opened(struct replica *replica); /* the vote is durable */
void replica_resume(struct replica *replica);      /* frames that were refused are given again */
void replica_step_pump(struct replica *replica);   /* persisted, timeout */
void replica_step_close(struct replica *replica);

/* -- replica_send.c -- */
void replica_send(struct replica *replica, const struct raft_message *message);
/* Of any frame but an append. */
struct raft_message replica_message_of(const struct peer_frame *frame, uint64_t from);
void replica_send_all(struct replica *replica, const struct peer_frame *frame, bool voters_only);
void replica_send_pump(struct replica *replica);
void replica_send_close(struct replica *replica);

/* -- replica_disk.c -- */
enum err replica_disk_open(struct replica *replica);
void replica_disk_close(struct replica *replica); /* after the workers are closed */
void replica_disk_pump(struct replica *replica);
void replica_disk_vote(struct replica *replica, struct vote vote);  /* closes the gate until done */
void replica_disk_replaced(struct replica *replica, uint64_t from); /* entries from there on */
/* The log in memory is empty and goes on after `index`: calls entries_reset and forgets what is on
 * its way to disk. The caller then sends wal_reset to the disk worker (jobs run in order) and lets
 * no entry in before it is done, which the engine sees to until engine_installed. */
void replica_disk_reset(struct replica *replica, uint64_t index);
/* After a compaction (entries_forget_to was called): frees segments that hold nothing live. */
void replica_disk_release(struct replica *replica);

/* -- replica_propose.c -- */
void replica_propose_open(struct replica *replica);
void replica_propose_close(struct replica *replica); /* ends all with ERR_UNKNOWN */
void replica_propose_pump(struct replica *replica);
void replica_propose_role(struct replica *replica); /* leadership began or ended */
/* The entry at `index` was applied; decides proposals of that index. */
void replica_propose_applied(struct replica *replica, uint64_t index, uint64_t term,
                             struct str reply);
/* A snapshot skipped everything up to `index`: proposals there are ERR_UNKNOWN. */
void replica_propose_skipped(struct replica *replica, uint64_t index);
mono_time replica_propose_due(const struct replica *replica);
uint64_t replica_propose_advance(struct replica *replica); /* ns, for the entry made now */

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
uint32_t replica_dial_level(const struct replica *replica, uint64_t id);      /* 0: not heard of */
const char *replica_dial_address(const struct replica *replica, uint64_t id); /* "": unknown */

/* -- replica_apply.c -- */
enum err replica_apply_open(struct replica *replica);
void replica_apply_close(struct replica *replica);
void replica_apply_pump(struct replica *replica);
/* The machines and meta hold the state after `index` (a snapshot was restored): proposals, changes
 * and reads that waited for less end, hashes start anew. */
void replica_apply_jump(struct replica *replica, uint64_t index, uint64_t term);
void replica_apply_hash(struct replica *replica, uint64_t from, const struct frame_hash *hash);

/* -- replica_old.c -- */
/* All of its room, or ERR_NOMEM and nothing: half of it would be lost with the next try, or never
 * be asked for again. */
enum err replica_old_open(struct replica_old *old, struct replica *replica,
                          void (*done)(struct replica_job *job));
void replica_old_close(struct replica_old *old); /* fine on a zeroed one; not while busy */
/* From `first` on what is not in memory, up to `last` and a few MiB: done() follows. False: there is
 * none, or the bulk thread has no room. */
bool replica_old_read(struct replica_old *old, uint64_t first, uint64_t last);
const struct entry *replica_old_entry(const struct replica_old *old, uint64_t index); /* or NULL */

/* -- replica_restore.c -- */
/* Blocking, before anything runs: restores the machines and meta from the newest snapshot, or as
 * empty; sets snapshot, snapshot_bytes, applied, applied_term and *ret_head (mark.index 0: none).
 * Sweeps temporaries. ERR_CORRUPT, ERR_VERSION, ... */
enum err replica_snapshot_load(struct replica *replica, struct snap_head *ret_head,
                               struct note *note);
/* A snapshot piece by piece. From begin to end the machines are of no use; end moves meta. An error
 * is final: the machines hold half a state. */
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
void replica_snapshot_stop(struct replica *replica);  /* no timer, no slice after this */
void replica_snapshot_close(struct replica *replica); /* after the workers are closed; frees */
/* Every turn: takes a slice if one is under way, and engine_compacted, entries_forget_to,
 * replica_disk_release when the file is durable. Begins only at applied <= disk.durable and never
 * while installing; an install that begins meanwhile gives it up. */
void replica_snapshot_pump(struct replica *replica);
/* The one being taken, if any, is not wanted any more: no view is open after this. No step. */
void replica_snapshot_give_up(struct replica *replica);
/* What passes by itself is tried again later; an error of the disk does not pass. */
bool replica_snapshot_is_passing(enum err err);
/* A newer one is durable: it is the one to send from now on, and older ones are removed when
 * nobody is being sent one. */
void replica_snapshot_took_over(struct replica *replica, const struct snapshot_mark *mark,
                                uint64_t bytes);

/* -- replica_install.c -- */
enum err replica_install_open(struct replica *replica);
void replica_install_stop(struct replica *replica);
void replica_install_close(struct replica *replica); /* after the workers are closed; frees */
void replica_install_pump(struct replica *replica);  /* engine_offer, restore, engine_installed */
/* The engine wants `message->server_id` to get a snapshot: replica->snapshot is sent. */
void replica_install_send(struct replica *replica, const struct raft_message *message);
/* ENGINE_INSTALL: what was offered is wanted. From inside replica_effects: note it, no step. */
void replica_install_begin(struct replica *replica, const struct snapshot_mark *mark);
bool replica_install_on_snap(void *owner, uint64_t from, struct peer_frame *frame);
void replica_install_on_lost(void *owner, uint64_t from);
void replica_install_on_sent(void *owner, uint64_t to, uint64_t id, enum err err);
bool replica_install_busy(const struct replica *replica); /* receiving or restoring */
/* Whether a snapshot older than `index` is on its way to a replica; with `stop` it is ended. */
bool replica_install_sends_older(struct replica *replica, uint64_t index, bool stop);

/* -- replica_metrics.c -- */
enum replica_counter {
    COUNT_ELECTIONS, /* candidacies of this replica */
    COUNT_LEADERSHIPS,
    COUNT_READ_ROUNDS,
    COUNT_READS,
    COUNT_SYNCS,
    COUNT_SNAPSHOTS_TAKEN,
    COUNT_SNAPSHOTS_SENT,
    COUNT_SNAPSHOTS_INSTALLED,
    COUNT_SNAPSHOTS_FAILED,
    COUNT_OLD_READS, /* jobs that read entries back from disk */
    COUNT_MESSAGES_DROPPED,
    REPLICA_COUNTERS
};
enum err replica_metrics_open(struct metrics *metrics, struct replica_metrics **ret_metrics,
                              struct note *note); /* `metrics` may be NULL */
void replica_metrics_close(struct replica_metrics *metrics);
void replica_count(struct replica *replica, enum replica_counter counter);
void replica_count_proposal(struct replica *replica, enum err err);
void replica_observe_sync(struct replica *replica, uint64_t ns, size_t batch);
void replica_metrics_pump(struct replica *replica); /* gauges; cheap */
#endif
