/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's relation to the coordinators: its phase, the time of its next heartbeat, and whether
 * it may still act. Pure.
 *
 * An acknowledged heartbeat is a promise: for some time the coordinators give this worker's
 * partitions to nobody else. They count from receiving the heartbeat, and the worker counts from
 * sending it, which is earlier. So a worker that obeys life_may_act stops before it is replaced
 * (workers.md 8.2).
 *
 * Invariants, asserted with every event and every answer (life.c):
 *   I1 A worker that holds partitions is registered. A registered worker has got an answer.
 *   I2 A promise starts when the beat was sent, and is never longer than the fence in force.
 *   I3 The fence in force is not longer than the configured fence.
 *   I4 The interval in force is not shorter than the configured interval.
 *   I5 The time and the epoch of the coordinators never go back.
 *
 * Times are of the boot-time clock, which continues while the process is stopped or the machine
 * sleeps. Timers stop then, so every event first checks the fence. An answer that arrived during a
 * long pause does not lift the fence. */
#ifndef WORKER_CORE_LIFE_H
#define WORKER_CORE_LIFE_H
#include "base/base.h"
#include "base/prng.h"

/* Milliseconds since the machine booted, sleep included. */
typedef struct {
    uint64_t ms;
} boot_time;

/* A coordinator's answer to Register; 0: not sent. */
struct life_terms {
    uint64_t fence_ms;    /* worker_self_fence_timeout: determines when partitions move */
    uint64_t failure_ms;  /* the coordinator's coordinator_failure_timeout */
    uint64_t interval_ms; /* the coordinator's configured heartbeat_interval */
};
/* numbers as on the wire */
enum life_phase {
    LIFE_INIT = 1,
    LIFE_READY = 2,
    LIFE_RUNNING = 3,
    LIFE_DRAINING = 4,
};
struct life_options {
    uint64_t interval_ms; /* heartbeat_interval; > 0 */
    uint64_t fence_ms;    /* worker_self_fence_timeout; > interval_ms */
    uint64_t seed;
};
struct worker_life {
    struct life_options options;
    struct prng prng;
    boot_time seen;
    boot_time next_beat;
    boot_time good_until;          /* the worker may act until then; 0: no answer yet */
    boot_time good_sent;           /* when the heartbeat for good_until was sent */
    uint64_t good_lease_ms;        /* lease in the heartbeat for good_until */
    uint64_t fence_ms;             /* the worker's or the coordinator's, whichever is shorter */
    uint64_t coordinator_fence_ms; /* fence time that a coordinator sent last; 0: none */
    uint64_t base_ms;              /* half of the usual lease; a longer lease lengthens the fence */
    uint32_t refusals;             /* in a row, because another process has this worker id */
    uint64_t interval_ms;          /* heartbeat interval: configured or advised, the longer */
    uint64_t coord_epoch;          /* highest coordinator epoch seen */
    bool answered;                 /* a valid answer arrived since the last fence */
    bool registered, holding, draining;
};

void life_init(struct worker_life *life, const struct life_options *options, boot_time now);
enum life_phase life_phase(const struct worker_life *life);

/* Must be the first call in every event. True, once for each fence: the worker must drop every
 * grant. */
bool life_fence_falls(struct worker_life *life, boot_time now);
/* True if the worker may act on its grants in ways that others can see. */
bool life_may_act(const struct worker_life *life, boot_time now);
boot_time life_good_until(const struct worker_life *life); /* 0 if the worker may not act */

/* -- heartbeats -- */
/* Schedules the next heartbeat, with jitter. Missed heartbeats are skipped. */
void life_beat_sent(struct worker_life *life, boot_time now);
void life_beat_now(struct worker_life *life);
/* The lease to send with a heartbeat: the next heartbeat follows within this time. */
uint64_t life_lease_ms(const struct worker_life *life);
enum life_answer {
    LIFE_STALE, /* from an older epoch: treated as no answer */
    LIFE_KEPT,
    LIFE_REGISTER, /* acknowledged, but the worker must register */
};
enum life_answer life_answered(struct worker_life *life, boot_time sent, uint64_t lease_ms,
                               uint64_t coord_epoch, boot_time now);
/* The coordinator asks for heartbeats at this interval. True: the worker must register again,
 * because the interval is longer than the registered one. */
bool life_advised(struct worker_life *life, uint64_t interval_ms);
/* Handles the fence time in a heartbeat's answer. A shorter time takes effect immediately. True:
 * the time changed, so the worker must register again. */
bool life_fence_changed(struct worker_life *life, uint64_t fence_ms);

/* Another process has this worker id: delays the next heartbeat. Returns the pause, which grows. */
uint64_t life_refused(struct worker_life *life);

/* -- registration -- */
/* The shorter fence time: the worker's or the coordinator's. */
uint64_t life_fence_ms(const struct worker_life *life, const struct life_terms *terms);
/* True if the worker can send heartbeats in time, and stops before it counts as dead. */
bool life_terms_fit(const struct worker_life *life, const struct life_terms *terms);
/* Call when the worker is registered with `interval_ms`, under terms that fit. A shorter fence also
 * shortens good_until. */
void life_registered(struct worker_life *life, uint64_t interval_ms,
                     const struct life_terms *terms);
void life_reset(struct worker_life *life); /* drops all grants; the worker registers again */
void life_set_holding(struct worker_life *life, bool holding); /* holding: RUNNING, else READY */
void life_drain(struct worker_life *life);                     /* a drain cannot be undone */
#endif
