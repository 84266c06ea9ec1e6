/* SPDX-License-Identifier: Apache-2.0 */
/* The decisions of the keeper (keeper_core.h). Pure: takes state, event and time, returns
 * effects.
 *
 * Invariants: time never decreases. No renewal at or after safe_until. A lost lease stays lost. */
#include "prim/keeper_core.h"

#include "prim/names.h"

static const int64_t ms = INT64_C(1000000);

void keeper_core_init(struct keeper_core *core, int64_t ttl_ns, int64_t sent_ns,
                      int64_t safe_until_ns, uint64_t seed)
{
    *core = (struct keeper_core){
        .ttl_ns = ttl_ns,
        .sent_ns = sent_ns,
        .safe_until_ns = safe_until_ns,
        .renew_at_ns = sent_ns + ttl_ns / 3,
        .seen_ns = INT64_MIN,
    };
    prng_seed(&core->jitter, seed);
}

static int64_t retry_pause(struct keeper_core *core)
{
    int64_t pause = core->ttl_ns / 20 > 50 * ms ? core->ttl_ns / 20 : 50 * ms;
    return pause - pause / 5 + (int64_t)prng_below(&core->jitter, (uint64_t)(pause * 2 / 5) + 1);
}

struct keeper_effects keeper_core_step(struct keeper_core *core, struct keeper_event event,
                                       int64_t now_ns)
{
    struct keeper_effects out = {.wake_ns = INT64_MAX};
    assert(now_ns >= core->seen_ns);
    core->seen_ns = now_ns;
    if (event.ours) core->busy = false;
    if (core->over) return out;
    /* The time is compared before the event is handled: the holder may have seen EXPIRED from
     * coord_check, so a late answer must not revive the lease. */
    out.late = now_ns >= core->safe_until_ns;
    if (out.late || event.kind == KEEPER_REFUSED) {
        out.lost = true;
        core->over = true;
        return out;
    }
    switch (event.kind) {
    case KEEPER_RENEWED:
        assert(event.sent_ns <= now_ns);
        if (event.sent_ns > core->sent_ns) {
            int64_t margin = prim_margin_ms(core->ttl_ns / ms) * ms;
            core->sent_ns = event.sent_ns;
            core->safe_until_ns = event.sent_ns + core->ttl_ns - margin;
            if (now_ns >= core->safe_until_ns) { /* the answer came after the lease's end */
                out.lost = out.late = core->over = true;
                return out;
            }
        }
        core->renew_at_ns = core->asked ? now_ns : core->sent_ns + core->ttl_ns / 3;
        core->asked = false;
        break;
    case KEEPER_FAILED: core->renew_at_ns = now_ns + retry_pause(core); break;
    case KEEPER_ASK:
        /* renew again: the renewal under way may be older than the event */
        core->asked = core->busy;
        core->renew_at_ns = now_ns;
        break;
    case KEEPER_TICK:
    case KEEPER_REFUSED: break;
    }
    if (!core->busy && now_ns >= core->renew_at_ns) {
        int64_t limit =
            core->ttl_ns / 4 < KEEPER_ATTEMPT_MAX_NS ? core->ttl_ns / 4 : KEEPER_ATTEMPT_MAX_NS;
        int64_t until = now_ns + limit;
        out.renew = core->busy = true;
        out.attempt_until_ns = until < core->safe_until_ns ? until : core->safe_until_ns;
    }
    out.wake_ns = core->busy || core->safe_until_ns < core->renew_at_ns ? core->safe_until_ns
                                                                        : core->renew_at_ns;
    assert(out.wake_ns > now_ns); /* a step never asks for another step now */
    return out;
}
