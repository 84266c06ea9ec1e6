/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when to renew a lease and when a lease is lost. Pure: no clock, lock or I/O (T7, T8).
 *
 *   renew      ttl/3 after the newest answered renewal was sent; after a failure every
 *              max(50 ms, ttl/20), +-20 %; never at or after safe_until; one at a time
 *   lost       at safe_until, or when the store refuses a renewal; reported once and final */
#ifndef PRIM_KEEPER_CORE_H
#define PRIM_KEEPER_CORE_H
#include "base/prng.h"

/* Limit of one renewal attempt. Closing a store waits for the attempt. */
#define KEEPER_ATTEMPT_MAX_NS INT64_C(10000000000)

struct keeper_core {
    int64_t ttl_ns;
    int64_t sent_ns;       /* when the newest answered renewal was sent */
    int64_t safe_until_ns; /* of the newest answered renewal */
    int64_t renew_at_ns;
    int64_t seen_ns; /* latest time given to a step */
    bool busy;
    bool asked; /* renew again after the renewal under way */
    bool over;
    struct prng jitter;
};
enum keeper_kind {
    KEEPER_TICK,
    KEEPER_RENEWED, /* a renewal of any caller was answered; sent_ns is set */
    KEEPER_FAILED,  /* no answer to the renewal under way */
    KEEPER_REFUSED, /* the store says that the lease is over */
    KEEPER_ASK,     /* the lease may have changed: renew now */
};
struct keeper_event {
    enum keeper_kind kind;
    bool ours; /* RENEWED, REFUSED: answers the renewal under way */
    int64_t sent_ns;
};
struct keeper_effects {
    bool renew, lost, late;   /* late: lost because safe_until passed, not because of a refusal */
    int64_t attempt_until_ns; /* if `renew` is set: deadline of the renewal */
    int64_t wake_ns;          /* next step; INT64_MAX: never */
};
void keeper_core_init(struct keeper_core *core, int64_t ttl_ns, int64_t sent_ns,
                      int64_t safe_until_ns, uint64_t seed);
struct keeper_effects keeper_core_step(struct keeper_core *core, struct keeper_event event,
                                       int64_t now_ns);
#endif
