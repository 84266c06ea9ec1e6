/* SPDX-License-Identifier: Apache-2.0 */
/* When to renew a lease and when it is lost: state, event, time in; effects out. No clock, no lock,
 * no I/O (T7, T8).
 *
 *   renew      ttl/3 after the newest answered send; after a failure every max(50 ms, ttl/20),
 *              +-20 %; never at or after safe_until; one at a time
 *   lost       at safe_until, or when the store refuses; said once, and final */
#ifndef PRIM_KEEPER_CORE_H
#define PRIM_KEEPER_CORE_H
#include "base/prng.h"

/* The longest one renewal may take: closing a store waits for it. */
#define KEEPER_ATTEMPT_MAX_NS INT64_C(10000000000)

struct keeper_core {
    int64_t ttl_ns;
    int64_t sent_ns;       /* newest answered send */
    int64_t safe_until_ns; /* that one's */
    int64_t renew_at_ns;
    int64_t seen_ns; /* time never runs back */
    bool busy;       /* a renewal is under way */
    bool asked;      /* and another one is wanted after it */
    bool over;
    struct prng jitter;
};
enum keeper_kind {
    KEEPER_TICK,
    KEEPER_RENEWED, /* sent_ns: of the answered renewal, any sender's */
    KEEPER_FAILED,  /* the renewal under way has no answer */
    KEEPER_REFUSED, /* the store says that it is over */
    KEEPER_ASK,     /* something may have happened: renew as soon as possible */
};
struct keeper_event {
    enum keeper_kind kind;
    bool ours; /* RENEWED, REFUSED: ends the renewal under way */
    int64_t sent_ns;
};
struct keeper_effects {
    bool renew, lost, late;   /* late: lost because safe_until passed, not because of a refusal */
    int64_t attempt_until_ns; /* with renew */
    int64_t wake_ns;          /* INT64_MAX: never */
};
void keeper_core_init(struct keeper_core *core, int64_t ttl_ns, int64_t sent_ns,
                      int64_t safe_until_ns, uint64_t seed);
struct keeper_effects keeper_core_step(struct keeper_core *core, struct keeper_event event,
                                       int64_t now_ns);
#endif
