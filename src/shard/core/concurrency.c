/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of provider calls that run at a time. Answers in time raise the limit, and overload
 * halves the limit. Decide thread. */
#include "shard/core/concurrency.h"

#include <assert.h>

#include "base/base.h"

void concurrency_init(struct concurrency *c, uint32_t first, uint32_t most, uint64_t timeout_ms)
{
    *c = (struct concurrency){.first = first, .most = most, .timeout_ms = timeout_ms};
    c->limit = first < most ? first : most;
    assert(c->limit > 0);
}

static void concurrency_halve(struct concurrency *c, mono_time sent, mono_time now)
{
    if (c->limit == 1 || (c->halvings && sent.ms <= c->halved.ms)) return;
    c->halved = now;
    c->halvings++;
    c->limit /= 2;
}

void concurrency_answered(struct concurrency *c, unsigned verb, mono_time sent, bool overloaded,
                          bool full, mono_time now)
{
    uint64_t ms = max_u64(mono_elapsed_ms(sent, now), 1), *shortest = &c->shortest_ms[verb];
    bool fast = ms <= c->timeout_ms / 8;

    if (overloaded) {
        concurrency_halve(c, sent, now);
        return;
    }
    if (!*shortest || ms < *shortest) *shortest = ms;
    if (ms >= c->timeout_ms / 2 && ms > *shortest + *shortest / 2) {
        concurrency_halve(c, sent, now);
    } else if (full && c->limit < c->most && (fast || ms <= *shortest + *shortest / 8)) {
        c->quarters += fast ? 4 : 1;
        if (c->quarters < 4) return;
        c->quarters = 0;
        c->limit++;
    }
}
