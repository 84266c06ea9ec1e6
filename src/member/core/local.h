/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's own, unreplicated state of membership: heartbeats, suspicion and checkpoint rounds.
 * Pure: each call gets `now_ns` of a monotonic clock and `wall_ms` of the wall clock.
 *
 * This module appends operations to a batch, and the service proposes the batch. While the end of a
 * worker's incarnation is proposed, its heartbeats are not acknowledged (MEMBER_BEAT_WAIT). A later
 * scan repeats a proposal that was lost.
 *
 * Asserted (local.c):
 * L1 After member_local_sync() the ACTIVE workers are watched.
 * L2 A suspected worker is watched and listed.
 * L3 No heartbeat is acknowledged while the end of its worker's incarnation is proposed.
 *
 * A new leader treats every worker as if it had just sent a heartbeat. */
#ifndef MEMBER_CORE_LOCAL_H
#define MEMBER_CORE_LOCAL_H
#include "member/core/detect.h"
#include "member/core/member.h"

enum member_phase { MEMBER_INIT = 1, MEMBER_READY, MEMBER_RUNNING, MEMBER_DRAINING };
enum member_unknown { MEMBER_UNKNOWN_REGISTER, MEMBER_UNKNOWN_IGNORE, MEMBER_UNKNOWN_REJECT };
struct member_local_options { /* member_local_defaults() sets all fields */
    struct detect_options detect;
    uint64_t self_fence_ns; /* how long a worker continues without an acknowledgement */
    uint32_t beat_budget;   /* heartbeats per second, for the advised interval */
    enum member_unknown unknown_beat;
    uint64_t checkpoint_interval_ns, checkpoint_ack_timeout_ns, checkpoint_min_pause_ns;
    uint32_t checkpoint_max_failures; /* missed rounds until a worker is drained; 0: never */
    uint64_t checkpoint_flush_ns;     /* delay before references are replicated */
};
void member_local_defaults(struct member_local_options *ret_options);

struct member_local;
/* Opened once at a time. `membership` must outlive the state. After a restore, close and open
 * again. ERR_INVALID (options), ERR_NOMEM. */
enum err member_local_open(struct membership *membership,
                           const struct member_local_options *options, uint64_t now_ns,
                           struct member_local **ret_local);
void member_local_close(struct member_local *local); /* NULL is allowed */
/* Copies the settings of `next` that may change during a leadership. The detector's kind, and the
 * times that workers were promised, may not. */
void member_local_options_take(struct member_local_options *options,
                               const struct member_local_options *next);
enum err member_local_reload(struct member_local *local, /* ERR_INVALID: nothing changed */
                             const struct member_local_options *next);
/* Call after every applied log entry. */
void member_local_sync(struct member_local *local, uint64_t now_ns);

/* -- heartbeats -- */
struct member_beat {
    struct str worker; /* canonical id */
    enum member_phase phase;
    struct beat due;
    struct member_instance instance; /* all zero: the worker did not send it */
    uint64_t incarnation;            /* as the worker knows it; 0: not sent */
    bool has_load;
    double load; /* ignored and counted if not in 0..1 */
};
enum member_beat_verdict {
    MEMBER_BEAT_ACK,     /* acknowledge the heartbeat after a leadership round that begins now */
    MEMBER_BEAT_PROPOSE, /* apply *ret_op first; its result decides the response */
    MEMBER_BEAT_WAIT,    /* a verdict on the worker is proposed: answer UNAVAILABLE now */
    MEMBER_BEAT_RESET,   /* the instance or incarnation ended: answer OK with the reset directive */
    MEMBER_BEAT_IGNORE,  /* answer OK; nothing was stored */
    MEMBER_BEAT_UNKNOWN, /* answer NOT_FOUND */
    MEMBER_BEAT_IN_USE,  /* answer ALREADY_EXISTS: another process has this id, see `in_use` */
};
/* Another process (instance) has the worker id and may be alive. Either its last heartbeat is
 * younger than its lease or two intervals, or this leader does not know the process long enough. */
struct member_in_use {
    /* false: `silent_ms` counts from the takeover, because this leader heard no heartbeat */
    bool heard;
    uint64_t silent_ms; /* since the last heartbeat of the other process */
};
struct member_heard {
    enum member_beat_verdict verdict;
    uint64_t incarnation, assignment_epoch, coord_epoch;
    /* Index of the log entry that last changed what this worker holds, or of the takeover. Clients
     * that poll compare this version, because one assignment epoch grants partitions one by one. */
    uint64_t assignment_version;
    bool recovered;
    struct member_in_use in_use; /* set with MEMBER_BEAT_IN_USE */
};
/* *ret_op points into the heartbeat's texts. */
struct member_heard member_local_beat(struct member_local *local, const struct member_beat *beat,
                                      uint64_t now_ns, int64_t wall_ms, struct member_op *ret_op);
/* Call when the operation of a heartbeat or register call was applied. Counts as a heartbeat. */
void member_local_admitted(struct member_local *local, struct str worker, enum member_phase phase,
                           uint64_t now_ns);
/* Completes the operation of a register call with the current incarnation, and the time that the
 * old incarnation may continue. False: another process uses the id; do not propose the
 * operation. */
bool member_local_register(struct member_local *local, struct member_op *op, uint64_t now_ns,
                           struct member_in_use *ret_in_use);
/* From now on no heartbeat of the worker is acknowledged. False: the worker is unknown, dead or
 * gone. */
bool member_local_evict(struct member_local *local, struct str worker, uint64_t now_ns,
                        struct member_op *ret_op);

/* True if the end of the worker's incarnation is proposed. Then no heartbeat of the worker may be
 * acknowledged, not even an earlier heartbeat. */
bool member_local_judged(const struct member_local *local, struct str worker);

/* -- proposals -- */
/* Appends the suspected workers. Every batch of a leader must begin with them. */
enum err member_local_context(struct member_local *local, struct buf *batch);
/* Appends the operations that are due. `clock_ns`: the cluster time that an entry would get now.
 * *ret_more: the batch is full, propose it and call again. ERR_NOMEM. */
enum err member_local_scan(struct member_local *local, uint64_t now_ns, uint64_t clock_ns,
                           int64_t wall_ms, struct buf *batch, size_t *ret_ops, bool *ret_more);
uint64_t member_local_cadence_ns(const struct member_local *local);
/* true if a scan is due before the next tick */
bool member_local_wants(const struct member_local *local, uint64_t clock_ns);
/* Lets the held failures happen, on an administrator's request. */
void member_local_release_hold(struct member_local *local);
bool member_local_holds(const struct member_local *local, uint64_t now_ns);

/* -- checkpoints -- */
/* Acknowledges a checkpoint of one partition: MEMBER_S_DONE, STALE, STALE_EPOCH, UNKNOWN or
 * INVALID. A later scan replicates the reference. */
enum member_status member_local_checkpoint(struct member_local *local, struct str worker,
                                           uint64_t incarnation, uint32_t partition,
                                           uint64_t grant_epoch, struct str reference,
                                           int64_t wall_ms);
/* The worker completed the whole `round`; `failed`: the worker failed to. */
enum member_status member_local_checkpoint_done(struct member_local *local, struct str worker,
                                                uint64_t incarnation, uint64_t round, bool failed,
                                                uint64_t now_ns);
/* at the next scan */
void member_local_checkpoint_now(struct member_local *local);
/* Returns each worker to ask in the newest round once; the service sends the request. False: no
 * worker is left. */
bool member_local_next_ask(struct member_local *local, struct str *ret_worker, uint64_t *ret_round);

/* -- changed workers and events -- */
/* The next worker whose grants or revocations changed; false: none. *ret_worker is valid until the
 * next call for the membership. */
bool member_local_next_changed(struct member_local *local, struct str *ret_worker);
/* 0: the worker is not watched */
uint64_t member_local_version(const struct member_local *local, struct str worker);
bool member_local_next_event(struct member_local *local, struct member_event *ret_event);

/* -- queries -- */
struct member_heartbeat {
    bool suspected, held; /* held: the mass-failure brake delays the failure */
    enum member_phase phase;
    bool has_load;
    double load, load_mean;      /* load_mean: of the last 60 s */
    int64_t received_ms, due_ms; /* wall times; 0: no heartbeat since the takeover */
};
/* false: the worker is dead, gone or unknown */
bool member_local_heartbeat(const struct member_local *local, struct str worker,
                            struct member_heartbeat *ret_heartbeat);
struct member_local_counts {
    uint32_t watched, suspected, held;
    uint64_t round, beats, suspicions, recoveries, skews, bad_loads, stale_acks, missed_rounds,
        in_use;      /* heartbeats and registrations refused because another process has the id */
    uint64_t events; /* leader-only events that were not read yet */
    uint64_t scan_late_ns; /* delay of the last scan */
};
struct member_local_counts member_local_counts(const struct member_local *local);
#endif
