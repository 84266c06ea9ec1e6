/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's own half of membership: beats, phases, loads, suspicion, checkpoint rounds. Nothing
 * here is replicated; it is opened when a replica begins to lead and closed when it ends. Pure: the
 * times come with each call (`now_ns` of a monotonic clock, `wall_ms` of the wall's).
 *
 * What it concludes it does not do: it appends operations to a batch, and the service proposes the
 * batch. Until what was proposed about a worker is applied, no beat of that worker may be
 * acknowledged (MEMBER_BEAT_WAIT): an acknowledgement after a verdict would be a promise that
 * nobody keeps. What is lost on the way is proposed again by a later scan.
 *
 * A new leader knows nothing of beats, so everybody has just beaten: nobody is failed earlier than
 * takeover + lease + the failure timeout, and every fence counts from the takeover at least. */
#ifndef MEMBER_CORE_LOCAL_H
#define MEMBER_CORE_LOCAL_H
#include "member/core/detect.h"
#include "member/core/member.h"

enum member_phase { MEMBER_INIT = 1, MEMBER_READY, MEMBER_RUNNING, MEMBER_DRAINING };
enum member_unknown { MEMBER_UNKNOWN_REGISTER, MEMBER_UNKNOWN_IGNORE, MEMBER_UNKNOWN_REJECT };
struct member_local_options { /* member_local_defaults() fills all of it */
    struct detect_options detect;
    uint64_t self_fence_ns; /* how long a worker goes on without an acknowledgement */
    uint32_t beat_budget;   /* beats a second, for the advised interval */
    enum member_unknown unknown_beat;
    uint64_t checkpoint_interval_ns, checkpoint_ack_timeout_ns, checkpoint_min_pause_ns;
    uint32_t checkpoint_max_failures; /* 0: never drained for it */
    uint64_t checkpoint_flush_ns;     /* how lazily references are replicated */
};
void member_local_defaults(struct member_local_options *ret_options);

struct member_local;
/* The membership must outlive it, and not be replaced (a restore): close it, open another. One at a
 * time. ERR_INVALID: options; ERR_NOMEM. */
enum err member_local_open(struct membership *membership,
                           const struct member_local_options *options, uint64_t now_ns,
                           struct member_local **ret_local);
void member_local_close(struct member_local *local); /* NULL is fine */
/* What may change while it leads: checkpoints, and the detector but for its kind and the times that
 * workers were promised. Writes it over `options`. */
void member_local_options_take(struct member_local_options *options,
                               const struct member_local_options *next);
enum err member_local_reload(struct member_local *local, /* ERR_INVALID: it keeps its own */
                             const struct member_local_options *next);
/* After every applied command of the log. */
void member_local_sync(struct member_local *local, uint64_t now_ns);

/* -- beats -- */
struct member_beat {
    struct str worker; /* canonical */
    enum member_phase phase;
    struct beat due;
    struct member_instance instance; /* zero: not told */
    uint64_t incarnation;            /* it believes to have; 0: not told */
    bool has_load;
    double load; /* out of 0..1 is not taken, and counted */
};
enum member_beat_verdict {
    MEMBER_BEAT_ACK,     /* acknowledge it, once a leadership round that begins now is confirmed */
    MEMBER_BEAT_PROPOSE, /* *ret_op is to be applied first; its result says what to answer */
    MEMBER_BEAT_WAIT,    /* a verdict is on its way: UNAVAILABLE, now */
    MEMBER_BEAT_RESET,   /* of an instance or incarnation that is over: OK, with the directive */
    MEMBER_BEAT_IGNORE,  /* OK, nothing stored */
    MEMBER_BEAT_UNKNOWN, /* NOT_FOUND */
    MEMBER_BEAT_IN_USE,  /* ALREADY_EXISTS: another process has this id, see `in_use` */
};
/* Another process (instance) has the worker id and may be alive: it beat within its lease, two
 * intervals, or this leader does not know yet. Only processes that send an instance are compared. */
struct member_in_use {
    bool heard;         /* by this leader; false: `silent_ms` counts from its takeover */
    uint64_t silent_ms; /* since the last beat of the other process */
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
/* After the proposal of a beat or a register call was applied: its worker has beaten. */
void member_local_admitted(struct member_local *local, struct str worker, enum member_phase phase,
                           uint64_t now_ns);
/* Completes a register call's operation (worker, instance, lease, labels, weight, capable): what is
 * current, and how long the old incarnation may still go on. False: the id is in use by another
 * process, do not propose it. */
bool member_local_register(struct member_local *local, struct member_op *op, uint64_t now_ns,
                           struct member_in_use *ret_in_use);
/* The operation by which an operator evicts a worker; no beat of it is acknowledged from now on.
 * False: unknown, dead or gone. */
bool member_local_evict(struct member_local *local, struct str worker, uint64_t now_ns,
                        struct member_op *ret_op);

/* Something that ends its incarnation is proposed: no beat of it may be acknowledged, also of those
 * that came before. */
bool member_local_judged(const struct member_local *local, struct str worker);

/* -- what is to be proposed -- */
/* Adds who is suspected to a batch: every batch of a leader begins with it. */
enum err member_local_context(struct member_local *local, struct buf *batch);
/* Appends what follows from time and beats. `clock_ns`: T as an entry proposed now would have it.
 * *ret_ops: how many were added; 0: nothing to propose. *ret_more: the batch is full, propose it
 * and call again. ERR_NOMEM. */
enum err member_local_scan(struct member_local *local, uint64_t now_ns, uint64_t clock_ns,
                           int64_t wall_ms, struct buf *batch, size_t *ret_ops, bool *ret_more);
uint64_t member_local_cadence_ns(const struct member_local *local);
/* There is something to propose before the next tick of the cadence. */
bool member_local_wants(const struct member_local *local, uint64_t clock_ns);
/* An operator knows better: held failures are declared. */
void member_local_release_hold(struct member_local *local);
bool member_local_holds(const struct member_local *local, uint64_t now_ns);

/* -- checkpoints -- */
/* One partition of an acknowledgement. MEMBER_S_DONE, MEMBER_S_STALE, MEMBER_S_STALE_EPOCH,
 * MEMBER_S_UNKNOWN, MEMBER_S_INVALID. The reference is replicated by a later scan. */
enum member_status member_local_checkpoint(struct member_local *local, struct str worker,
                                           uint64_t incarnation, uint32_t partition,
                                           uint64_t grant_epoch, struct str reference,
                                           int64_t wall_ms);
/* The whole of it: the worker has answered for `round`, or said that it could not. */
enum member_status member_local_checkpoint_done(struct member_local *local, struct str worker,
                                                uint64_t incarnation, uint64_t round, bool failed,
                                                uint64_t now_ns);
/* An extra round, at the next scan. */
void member_local_checkpoint_now(struct member_local *local);
/* Whom the newest round asks, each once; the service pushes it. False: no more. */
bool member_local_next_ask(struct member_local *local, struct str *ret_worker, uint64_t *ret_round);

/* -- what changed for whom, and what happened here -- */
/* Workers whose grants or revocations changed since they were last asked for: who watches is told.
 * False: no more. The text is valid until the next call for the membership. */
bool member_local_next_changed(struct member_local *local, struct str *ret_worker);
/* As in struct member_heard; 0: not watched. */
uint64_t member_local_version(const struct member_local *local, struct str worker);
bool member_local_next_event(struct member_local *local, struct member_event *ret_event);

/* -- reading -- */
struct member_heartbeat {
    bool suspected, held; /* held: would be dead but for the brake */
    enum member_phase phase;
    bool has_load;
    double load, load_mean;      /* mean: of the last 60 s */
    int64_t received_ms, due_ms; /* wall, of the last beat; 0: none since the takeover */
};
/* False: not watched (dead, gone, unknown). */
bool member_local_heartbeat(const struct member_local *local, struct str worker,
                            struct member_heartbeat *ret_heartbeat);
struct member_local_counts {
    uint32_t watched, suspected, held;
    uint64_t round, beats, suspicions, recoveries, skews, bad_loads, stale_acks, missed_rounds,
        in_use;            /* beats and registrations refused because another process has the id */
    uint64_t events;       /* of the leader alone, not yet taken */
    uint64_t scan_late_ns; /* of the last scan, behind its cadence */
};
struct member_local_counts member_local_counts(const struct member_local *local);
#endif
