/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's own half of membership: heartbeats, phases, loads, suspicion, checkpoint rounds.
 * Nothing here is replicated. It is opened when a replica becomes leader and closed when it loses
 * the leadership. Pure: the times come with each call, `now_ns` of a monotonic clock and `wall_ms`
 * of the wall clock.
 *
 * This module decides and does not act: it appends operations to a batch, and the service proposes
 * the batch. While a proposal about a worker is not applied, no heartbeat of that worker may be
 * acknowledged (MEMBER_BEAT_WAIT), because the worker would trust an acknowledgement that the
 * verdict contradicts. A later scan repeats a proposal that was lost.
 *
 * Asserted (local.c): L1 After member_local_sync() the ACTIVE workers are watched. L2 A suspected
 * worker is watched and listed. L3 No heartbeat is acknowledged while the end of its worker's
 * incarnation is proposed.
 * A new leader has seen no heartbeat, so it treats every worker as if it had just sent one: no
 * worker fails earlier than takeover + lease + failure timeout, and every fence counts from the
 * takeover or later. */
#ifndef MEMBER_CORE_LOCAL_H
#define MEMBER_CORE_LOCAL_H
#include "member/core/detect.h"
#include "member/core/member.h"

enum member_phase { MEMBER_INIT = 1, MEMBER_READY, MEMBER_RUNNING, MEMBER_DRAINING };
enum member_unknown { MEMBER_UNKNOWN_REGISTER, MEMBER_UNKNOWN_IGNORE, MEMBER_UNKNOWN_REJECT };
struct member_local_options { /* member_local_defaults() fills all of it */
    struct detect_options detect;
    uint64_t self_fence_ns; /* how long a worker continues without an acknowledgement */
    uint32_t beat_budget;   /* heartbeats per second, for the advised interval */
    enum member_unknown unknown_beat;
    uint64_t checkpoint_interval_ns, checkpoint_ack_timeout_ns, checkpoint_min_pause_ns;
    uint32_t checkpoint_max_failures; /* 0: a worker is never drained for it */
    uint64_t checkpoint_flush_ns;     /* delay before references are replicated */
};
void member_local_defaults(struct member_local_options *ret_options);

struct member_local;
/* The membership must outlive it, and not be replaced (a restore): close it, open another. One at a
 * time. ERR_INVALID: options; ERR_NOMEM. */
enum err member_local_open(struct membership *membership,
                           const struct member_local_options *options, uint64_t now_ns,
                           struct member_local **ret_local);
void member_local_close(struct member_local *local); /* NULL is fine */
/* Changes what may change during a leadership: checkpoints, and the detector except its kind and
 * the times that workers were promised. Writes it over `options`. */
void member_local_options_take(struct member_local_options *options,
                               const struct member_local_options *next);
enum err member_local_reload(struct member_local *local, /* ERR_INVALID: nothing changed */
                             const struct member_local_options *next);
/* After every applied command of the log. */
void member_local_sync(struct member_local *local, uint64_t now_ns);

/* -- beats -- */
struct member_beat {
    struct str worker; /* canonical */
    enum member_phase phase;
    struct beat due;
    struct member_instance instance; /* zero: not sent */
    uint64_t incarnation;            /* as the worker believes; 0: not sent */
    bool has_load;
    double load; /* ignored and counted if not in 0..1 */
};
enum member_beat_verdict {
    MEMBER_BEAT_ACK,     /* acknowledge it after a leadership round that begins now */
    MEMBER_BEAT_PROPOSE, /* apply *ret_op first; its result decides the response */
    MEMBER_BEAT_WAIT,    /* a verdict is proposed: answer UNAVAILABLE now */
    MEMBER_BEAT_RESET,   /* its instance or incarnation is over: answer OK with the directive */
    MEMBER_BEAT_IGNORE,  /* OK, nothing stored */
    MEMBER_BEAT_UNKNOWN, /* NOT_FOUND */
    MEMBER_BEAT_IN_USE,  /* ALREADY_EXISTS: another process has this id, see `in_use` */
};
/* Another process (instance) has the worker id and may be alive: it sent a heartbeat within its
 * lease, two intervals, or this leader does not know yet. Only processes that send an instance are
 * compared. */
struct member_in_use {
    bool heard;         /* this leader heard it; false: `silent_ms` counts from the takeover */
    uint64_t silent_ms; /* since the last heartbeat of the other process */
};
struct member_heard {
    enum member_beat_verdict verdict;
    uint64_t incarnation, assignment_epoch, coord_epoch;
    /* Of the log's entry that last changed what this worker holds, or of the takeover: grants of a
     * hand-over come one by one under one assignment epoch, so who polls compares this one. */
    uint64_t assignment_version;
    bool recovered;
    struct member_in_use in_use; /* of MEMBER_BEAT_IN_USE */
};
/* ret_op: views of the beat's texts. */
struct member_heard member_local_beat(struct member_local *local, const struct member_beat *beat,
                                      uint64_t now_ns, int64_t wall_ms, struct member_op *ret_op);
/* The proposal of a heartbeat or register call was applied: counts as a heartbeat of its worker. */
void member_local_admitted(struct member_local *local, struct str worker, enum member_phase phase,
                           uint64_t now_ns);
/* Completes a register call's operation (worker, instance, lease, labels, weight, capable): what is
 * current, and how long the old incarnation may still go on. False: the id is in use by another
 * process, do not propose it. */
bool member_local_register(struct member_local *local, struct member_op *op, uint64_t now_ns,
                           struct member_in_use *ret_in_use);
/* The operation that evicts a worker; no heartbeat of it is acknowledged from now on. False: the
 * worker is unknown, dead or gone. */
bool member_local_evict(struct member_local *local, struct str worker, uint64_t now_ns,
                        struct member_op *ret_op);

/* The end of its incarnation is proposed: no heartbeat may be acknowledged, not even an earlier
 * one. */
bool member_local_judged(const struct member_local *local, struct str worker);

/* -- proposals -- */
/* Adds the suspected workers to a batch; every batch of a leader begins with them. */
enum err member_local_context(struct member_local *local, struct buf *batch);
/* Appends the operations that follow from time and heartbeats. `clock_ns`: T of an entry proposed
 * now. *ret_ops: number added; 0: nothing to propose. *ret_more: the batch is full, propose it and
 * call again. ERR_NOMEM. */
enum err member_local_scan(struct member_local *local, uint64_t now_ns, uint64_t clock_ns,
                           int64_t wall_ms, struct buf *batch, size_t *ret_ops, bool *ret_more);
uint64_t member_local_cadence_ns(const struct member_local *local);
/* True: a scan is due before the next tick. */
bool member_local_wants(const struct member_local *local, uint64_t clock_ns);
/* By order of an administrator: held failures are declared. */
void member_local_release_hold(struct member_local *local);
bool member_local_holds(const struct member_local *local, uint64_t now_ns);

/* -- checkpoints -- */
/* One partition of an acknowledgement. MEMBER_S_DONE, MEMBER_S_STALE, MEMBER_S_STALE_EPOCH,
 * MEMBER_S_UNKNOWN, MEMBER_S_INVALID. The reference is replicated by a later scan. */
enum member_status member_local_checkpoint(struct member_local *local, struct str worker,
                                           uint64_t incarnation, uint32_t partition,
                                           uint64_t grant_epoch, struct str reference,
                                           int64_t wall_ms);
/* The worker answered for the whole `round`, or reported that it could not. */
enum member_status member_local_checkpoint_done(struct member_local *local, struct str worker,
                                                uint64_t incarnation, uint64_t round, bool failed,
                                                uint64_t now_ns);
/* Begins an additional round at the next scan. */
void member_local_checkpoint_now(struct member_local *local);
/* The next worker that the newest round asks, each once; the service sends it. False: no more. */
bool member_local_next_ask(struct member_local *local, struct str *ret_worker, uint64_t *ret_round);

/* -- changes -- */
/* The next worker whose grants or revocations changed since the last call; watchers get them.
 * False: no more. The text is valid until the next call for the membership. */
bool member_local_next_changed(struct member_local *local, struct str *ret_worker);
/* As in struct member_heard; 0: not watched. */
uint64_t member_local_version(const struct member_local *local, struct str worker);
bool member_local_next_event(struct member_local *local, struct member_event *ret_event);

/* -- reading -- */
struct member_heartbeat {
    bool suspected, held; /* held: only the mass-failure brake keeps it alive */
    enum member_phase phase;
    bool has_load;
    double load, load_mean;      /* mean: of the last 60 s */
    int64_t received_ms, due_ms; /* wall time of the last heartbeat; 0: none since the takeover */
};
/* False: not watched (dead, gone, unknown). */
bool member_local_heartbeat(const struct member_local *local, struct str worker,
                            struct member_heartbeat *ret_heartbeat);
struct member_local_counts {
    uint32_t watched, suspected, held;
    uint64_t round, beats, suspicions, recoveries, skews, bad_loads, stale_acks, missed_rounds,
        in_use;      /* heartbeats and registrations refused because another process has the id */
    uint64_t events; /* only on the leader, not yet taken */
    uint64_t scan_late_ns; /* delay of the last scan */
};
struct member_local_counts member_local_counts(const struct member_local *local);
#endif
