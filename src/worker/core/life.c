/* SPDX-License-Identifier: Apache-2.0 */
/* The times of a worker: its next heartbeat, the validity of the last answer, and the fence. No
 * I/O. */
#include "worker/core/life.h"

enum {
    JITTER_PARTS = 1000,
    JITTER_SPREAD = 100, /* jitter: the interval times 0.9 to 1.0 */
    REFUSED_MAX_MS = 10000,
    REFUSED_DOUBLINGS = 16,
};

/* A lease longer than usual delays the verdict that the worker is dead, and so also the fence. */
static uint64_t good_until_ms(const struct worker_life *life, boot_time sent, uint64_t lease_ms)
{
    uint64_t usual = 2 * life->base_ms;

    return sent.ms + life->fence_ms + (lease_ms > usual ? lease_ms - usual : 0);
}

static void life_check(const struct worker_life *life)
{
    uint64_t promised = good_until_ms(life, life->good_sent, life->good_lease_ms);

    assert(!life->holding || life->registered);                 /* invariant I1 of life.h */
    assert(!life->registered || life->answered);                /* invariant I1 */
    assert(!life->answered || life->good_until.ms <= promised); /* invariant I2 */
    assert(life->fence_ms <= life->options.fence_ms);           /* invariant I3 */
    assert(life->interval_ms >= life->options.interval_ms);     /* invariant I4 */
}

void life_init(struct worker_life *life, const struct life_options *options, boot_time now)
{
    assert(options->interval_ms > 0);
    assert(options->fence_ms > options->interval_ms);
    *life = (struct worker_life){.options = *options,
                                 .seen = now,
                                 .next_beat = now,
                                 .interval_ms = options->interval_ms,
                                 .fence_ms = options->fence_ms,
                                 .base_ms = options->interval_ms};
    prng_seed(&life->prng, options->seed);
}

enum life_phase life_phase(const struct worker_life *life)
{
    if (life->draining) return LIFE_DRAINING;
    if (!life->registered) return LIFE_INIT;
    return life->holding ? LIFE_RUNNING : LIFE_READY;
}

bool life_fence_falls(struct worker_life *life, boot_time now)
{
    assert(now.ms >= life->seen.ms); /* invariant I5 */
    life_check(life);
    life->seen = now;
    if (!life->answered || now.ms <= life->good_until.ms) return false;
    life->answered = life->registered = life->holding = false;
    return true;
}

bool life_may_act(const struct worker_life *life, boot_time now)
{
    return life->answered && life->registered && now.ms <= life->good_until.ms;
}

boot_time life_good_until(const struct worker_life *life)
{
    return life->answered && life->registered ? life->good_until : (boot_time){0};
}

/* -- heartbeats -- */

void life_beat_sent(struct worker_life *life, boot_time now)
{
    uint64_t parts = JITTER_PARTS - prng_below(&life->prng, JITTER_SPREAD + 1);
    uint64_t pause = life->interval_ms * parts / JITTER_PARTS;

    assert(now.ms >= life->seen.ms);
    life->next_beat.ms = now.ms + (pause ? pause : 1);
}

void life_beat_now(struct worker_life *life)
{
    life->next_beat = life->seen;
}

uint64_t life_lease_ms(const struct worker_life *life)
{
    return 2 * life->interval_ms;
}

enum life_answer life_answered(struct worker_life *life, boot_time sent, uint64_t lease_ms,
                               uint64_t coord_epoch, boot_time now)
{
    uint64_t good_until = good_until_ms(life, sent, lease_ms);

    assert(now.ms == life->seen.ms); /* the fence was checked with this time */
    assert(sent.ms <= now.ms);
    if (coord_epoch < life->coord_epoch) return LIFE_STALE; /* invariant I5 */
    life->coord_epoch = coord_epoch;
    if (now.ms > good_until) return LIFE_STALE; /* the lease of the answer has already ended */
    if (!life->answered || good_until > life->good_until.ms) {
        life->good_until.ms = good_until;
        life->good_sent = sent;
        life->good_lease_ms = lease_ms;
    }
    life->answered = true;
    life->refusals = 0;
    life_check(life);
    return life->registered || life->draining ? LIFE_KEPT : LIFE_REGISTER;
}

bool life_advised(struct worker_life *life, uint64_t interval_ms)
{
    uint64_t wanted = max_u64(interval_ms, life->options.interval_ms);

    if (wanted < life->interval_ms) life->interval_ms = wanted; /* shorter is always safe */
    return wanted > life->interval_ms && life->registered;
}

bool life_fence_changed(struct worker_life *life, uint64_t fence_ms)
{
    if (fence_ms == life->coordinator_fence_ms || !life->registered) return false;
    life->coordinator_fence_ms = fence_ms;
    if (fence_ms < life->fence_ms) {
        life->fence_ms = fence_ms;
        life->good_until.ms =
            min_u64(life->good_until.ms, good_until_ms(life, life->good_sent, life->good_lease_ms));
    }
    return true;
}

uint64_t life_refused(struct worker_life *life)
{
    uint64_t pause = life->interval_ms;

    for (uint32_t i = 0; i < life->refusals && pause < REFUSED_MAX_MS; i++) pause *= 2;
    if (life->refusals < REFUSED_DOUBLINGS) life->refusals++;
    pause = min_u64(pause, max_u64(REFUSED_MAX_MS, life->interval_ms));
    life->next_beat.ms = max_u64(life->next_beat.ms, life->seen.ms + pause);
    return pause;
}

/* -- registration -- */

uint64_t life_fence_ms(const struct worker_life *life, const struct life_terms *terms)
{
    return terms->fence_ms ? min_u64(life->options.fence_ms, terms->fence_ms)
                           : life->options.fence_ms;
}

bool life_terms_fit(const struct worker_life *life, const struct life_terms *terms)
{
    uint64_t fence = life_fence_ms(life, terms);

    return fence > life->options.interval_ms && (!terms->failure_ms || fence < terms->failure_ms);
}

void life_registered(struct worker_life *life, uint64_t interval_ms, const struct life_terms *terms)
{
    assert(life_terms_fit(life, terms));
    life->interval_ms = max_u64(interval_ms, life->options.interval_ms);
    life->fence_ms = life_fence_ms(life, terms);
    life->coordinator_fence_ms = terms->fence_ms;
    life->base_ms = max_u64(life->options.interval_ms, terms->interval_ms);
    if (!life->answered) return; /* fenced: the next answer makes the worker register */
    life->good_until.ms =
        min_u64(life->good_until.ms, good_until_ms(life, life->good_sent, life->good_lease_ms));
    life->registered = true;
    life_check(life);
    life_beat_now(life); /* reports the phase READY without waiting for the interval */
}

void life_reset(struct worker_life *life)
{
    life->registered = life->holding = false;
}

void life_set_holding(struct worker_life *life, bool holding)
{
    life->holding = holding && life->registered;
}

void life_drain(struct worker_life *life)
{
    life->draining = true;
    life_beat_now(life);
}
