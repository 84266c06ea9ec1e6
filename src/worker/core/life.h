/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker is towards the service: its phase, when it beats next, and whether it may still
 * act. Pure: keeps no clock and sends nothing.
 *
 * An acknowledgement is a promise that nobody else is given our partitions before a certain time;
 * the service counts that time from when it received the beat, we count from when we SENT it,
 * which was earlier. So a worker that obeys life_may_act has stopped before anyone replaces it
 * (workers.md 8.2).
 *
 * Invariants, asserted with every event and every answer (life.c):
 *   I1 A worker that holds partitions is registered, and a registered one was answered.
 *   I2 A promise counts from when the beat was sent, and is never longer than the fence in force.
 *   I3 The fence in force is at most the configured one. I4 The interval is at least that.
 *   I5 The time and the epoch of the coordinators never go back.
 *
 * All times are of the boot-time clock: it goes on while a process is stopped and while the
 * machine sleeps, when no timer runs. Therefore every call takes the time and looks at the fence
 * FIRST: a process that wakes after a long pause is fenced before it looks at the event that
 * woke it, and an answer that was under way during the pause revives nothing. */
#ifndef WORKER_CORE_LIFE_H
#define WORKER_CORE_LIFE_H
#include "base/base.h"
#include "base/prng.h"

/* Since the machine started; never runs back, never stops. */
typedef struct {
    uint64_t ms;
} boot_time;

/* What a coordinator said at Register; 0: not said. */
struct life_terms {
    uint64_t fence_ms;    /* its worker_self_fence_timeout: partitions move by this one */
    uint64_t failure_ms;  /* its coordinator_failure_timeout */
    uint64_t interval_ms; /* its heartbeat_interval as configured, without any advice */
};
/* the numbers of the wire */
enum life_phase {
    LIFE_INIT = 1,
    LIFE_READY = 2,
    LIFE_RUNNING = 3,
    LIFE_DRAINING = 4,
};
struct life_options {
    uint64_t interval_ms; /* heartbeat_interval; > 0 */
    uint64_t fence_ms;    /* worker_self_fence_timeout; > interval_ms */
    uint64_t seed;        /* of the jitter */
};
struct worker_life {
    struct life_options options;
    struct prng prng;
    boot_time seen; /* of the last call */
    boot_time next_beat;
    boot_time good_until; /* the last moment at which it may act; nothing before the first answer */
    boot_time good_sent;  /* of the beat that good_until counts from, and its lease */
    uint64_t good_lease_ms;
    uint64_t fence_ms; /* in force: min(own, coordinator's) since the last registration */
    uint64_t coordinator_fence_ms; /* as the coordinators said last; 0: they have not */
    uint64_t base_ms;     /* interval that fence_ms belongs to; a longer lease extends the fence */
    uint32_t refusals;    /* in a row: another process has our id */
    uint64_t interval_ms; /* in force: what the service advised, if that is longer */
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
