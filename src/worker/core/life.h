/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's relation to the service: its phase, the time of its next heartbeat, and whether it may
 * still act. Has no clock and sends nothing.
 *
 * An acknowledged heartbeat is a promise: until a certain time the service gives our partitions to
 * no other worker. The service counts that time from receiving the heartbeat; we count from SENDING
 * it, which was earlier. So a worker that obeys life_may_act stops before it is replaced
 * (workers.md 8.2).
 *
 * Invariants, asserted with every event and every answer (life.c):
 *   I1 A worker that holds partitions is registered, and a registered one was answered.
 *   I2 A promise counts from when the beat was sent, and is never longer than the fence in force.
 *   I3 The fence in force is at most the configured one. I4 The interval in force is
 *      at least the configured one.
 *   I5 The time and the epoch of the coordinators never go back.
 *
 * All times are of the boot-time clock, which continues while the process is stopped and while the
 * machine sleeps; timers do not run then. Therefore every call passes the time and the fence is
 * checked FIRST. A process that resumes after a long pause is fenced before it handles the event
 * that woke it, and an answer that was under way during the pause does not lift the fence. */
#ifndef WORKER_CORE_LIFE_H
#define WORKER_CORE_LIFE_H
#include "base/base.h"
#include "base/prng.h"

/* Time since the machine started; never runs backwards, never stops. */
typedef struct {
    uint64_t ms;
} boot_time;

/* Values that a coordinator sent at Register; 0: not sent. */
struct life_terms {
    uint64_t fence_ms;    /* its worker_self_fence_timeout, which determines when partitions move */
    uint64_t failure_ms;  /* its coordinator_failure_timeout */
    uint64_t interval_ms; /* its configured heartbeat_interval, without advice */
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
    uint64_t seed;        /* seed of the jitter */
};
struct worker_life {
    struct life_options options;
    struct prng prng;
    boot_time seen; /* time of the last call */
    boot_time next_beat;
    boot_time good_until; /* last moment at which the worker may act; 0 before the first answer */
    boot_time good_sent;  /* when the heartbeat of good_until was sent, and its lease */
    uint64_t good_lease_ms;
    uint64_t fence_ms; /* in force: minimum of ours and the coordinator's, since registration */
    uint64_t coordinator_fence_ms; /* last value from the coordinators; 0: never sent */
    uint64_t base_ms;     /* interval that fence_ms belongs to; a longer lease extends the fence */
    uint32_t refusals;    /* refusals in a row, because another process has our id */
    uint64_t interval_ms; /* in force: the interval advised by the service, if longer */
    uint64_t coord_epoch; /* highest epoch seen */
    bool answered;        /* a coordinator with an acceptable epoch answered since the last fence */
    bool registered, holding, draining;
};

void life_init(struct worker_life *life, const struct life_options *options, boot_time now);
enum life_phase life_phase(const struct worker_life *life);

/* True once each time the worker is fenced: the caller must then drop every grant. Call with every
 * event, before handling the event; the functions below assert that. */
bool life_fence_falls(struct worker_life *life, boot_time now);
/* True if the worker may perform actions that others can see, under the grants it holds. */
bool life_may_act(const struct worker_life *life, boot_time now);
boot_time life_good_until(const struct worker_life *life); /* 0 if the worker may not act at all */

/* -- heartbeats -- */
/* A heartbeat was sent; the next follows after a jittered interval. Missed ones are skipped. */
void life_beat_sent(struct worker_life *life, boot_time now);
void life_beat_now(struct worker_life *life); /* makes the next heartbeat due at once */
/* The lease that the sender promises: the next heartbeat follows within this time. */
uint64_t life_lease_ms(const struct worker_life *life);
enum life_answer {
    LIFE_STALE,    /* the epoch is lower than one already seen: treated like no answer */
    LIFE_KEPT,     /* acknowledged */
    LIFE_REGISTER, /* acknowledged, and the worker must register (again) */
};
/* `sent` and `lease_ms` must be those of the acknowledged heartbeat. */
enum life_answer life_answered(struct worker_life *life, boot_time sent, uint64_t lease_ms,
                               uint64_t coord_epoch, boot_time now);
/* The service asks for heartbeats at this interval. A longer interval than the registered one takes
 * effect only after registering again. True: the worker must register again with the interval. */
bool life_advised(struct worker_life *life, uint64_t interval_ms);
/* The fence time that the coordinators use now, from the answer to a heartbeat. A shorter fence
 * takes effect at once. True: it differs from that at registration; the worker must re-register. */
bool life_fence_changed(struct worker_life *life, uint64_t fence_ms);

/* Delays the next heartbeat by a growing pause (returned): another process has our worker id. */
uint64_t life_refused(struct worker_life *life);

/* -- registration -- */
/* The fence that results from these terms: the minimum of both sides. */
uint64_t life_fence_ms(const struct worker_life *life, const struct life_terms *terms);
/* True if the worker can keep the terms: send heartbeats, and stop, before it is declared dead. */
bool life_terms_fit(const struct worker_life *life, const struct life_terms *terms);
/* `interval_ms` is the interval sent with the registration; the terms must fit. A shorter fence
 * also shortens the time granted by earlier answers. */
void life_registered(struct worker_life *life, uint64_t interval_ms,
                     const struct life_terms *terms);
void life_reset(struct worker_life *life); /* drop all grants and register again */
void life_set_holding(struct worker_life *life, bool holding); /* holding: RUNNING, else READY */
void life_drain(struct worker_life *life);                     /* cannot be undone */
#endif
