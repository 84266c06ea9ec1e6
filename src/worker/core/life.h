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
    boot_time good_until; /* the last moment at which the worker may act; 0 before the first
                           * answer */
    boot_time good_sent;  /* good_sent: when the beat of good_until was sent; good_lease_ms: that
                           * beat's lease */
    uint64_t good_lease_ms;
    uint64_t fence_ms; /* in force: the minimum of our own and the coordinator's, since the last
                        * registration */
    uint64_t coordinator_fence_ms; /* last value from the coordinators; 0: never sent */
    uint64_t base_ms;     /* interval that fence_ms belongs to; a longer lease extends the fence */
    uint32_t refusals;    /* refusals in a row, because another process has our id */
    uint64_t interval_ms; /* in force: the interval advised by the service, if longer */
    uint64_t coord_epoch; /* the highest seen */
    bool answered;        /* by somebody whose epoch was acceptable, since the last fence */
    bool registered, holding, draining;
};

void life_init(struct worker_life *life, const struct life_options *options, boot_time now);
enum life_phase life_phase(const struct worker_life *life);

/* True once for each time the fence falls: drop every grant now. To be called with every event,
 * before anything else is made of it; the calls below assert that it was. */
bool life_fence_falls(struct worker_life *life, boot_time now);
/* May something be done that others can see, under grants that are held? */
bool life_may_act(const struct worker_life *life, boot_time now);
boot_time life_good_until(const struct worker_life *life); /* 0 while it may not act at all */

/* -- beats -- */
/* One is on its way; the next is due a jittered interval later, without catching up. */
void life_beat_sent(struct worker_life *life, boot_time now);
void life_beat_now(struct worker_life *life); /* a phase changed: do not wait for the interval */
/* What the sender promises: the next one comes before this much time has passed. */
uint64_t life_lease_ms(const struct worker_life *life);
enum life_answer {
    LIFE_STALE,    /* a lower epoch than one we saw: as good as no answer */
    LIFE_KEPT,     /* acknowledged */
    LIFE_REGISTER, /* acknowledged, and it is time to register (again) */
};
/* `sent` and `lease_ms` are those of the beat that is acknowledged. */
enum life_answer life_answered(struct worker_life *life, boot_time sent, uint64_t lease_ms,
                               uint64_t coord_epoch, boot_time now);
/* The service asks for beats every so often. Longer than what we registered for: LIFE_REGISTER
 * follows, and only then it is in force. */
bool life_advised(struct worker_life *life, uint64_t interval_ms); /* true: register anew with it */
/* The fence time that the coordinators use now, in an answer to a beat. A shorter one holds at once.
 * True: it differs from the one at registration, so register again. */
bool life_fence_changed(struct worker_life *life, uint64_t fence_ms);

/* Another process has our worker id: beat again after a growing pause. Returns the pause. */
uint64_t life_refused(struct worker_life *life);

/* -- standing with the service -- */
/* The fence that these terms lead to: the shorter one. */
uint64_t life_fence_ms(const struct worker_life *life, const struct life_terms *terms);
/* Can the worker keep the terms? It must beat, and stop, before the service gives up on it. */
bool life_terms_fit(const struct worker_life *life, const struct life_terms *terms);
/* With the interval that the registration was sent with, and terms that fit. A shorter fence also
 * shortens the time that earlier answers gave. */
void life_registered(struct worker_life *life, uint64_t interval_ms,
                     const struct life_terms *terms);
void life_reset(struct worker_life *life); /* the service says: drop all, register again */
void life_set_holding(struct worker_life *life, bool holding); /* READY or RUNNING */
void life_drain(struct worker_life *life);                     /* for good */
#endif
