/* SPDX-License-Identifier: Apache-2.0 */
/* How many provider calls may run at a time. Pure.
 *
 * The limit starts small and grows by one with each answer within an eighth of the timeout, so it
 * doubles in the time of a call. The calls of a provider may always take longer: four answers that
 * take an eighth longer than the shortest of their kind, or less, also add one.
 *
 * The limit is halved when the provider is overloaded: no answer in time, no connection, calls
 * throttled, or answers that take half of the timeout, and half as long again as the shortest.
 * Calls that began before a halving do not halve the limit again. */
#ifndef SHARD_CORE_CONCURRENCY_H
#define SHARD_CORE_CONCURRENCY_H
#include <stdbool.h>

#include "base/time.h"

enum { CONCURRENCY_VERBS = 8 };
struct concurrency {
    uint32_t limit, first, most;
    uint64_t timeout_ms;
    uint64_t shortest_ms[CONCURRENCY_VERBS]; /* by kind of call; 0: none was answered */
    uint32_t quarters;                       /* of the next growth by one */
    mono_time halved;
    uint64_t halvings;
};
void concurrency_init(struct concurrency *c, uint32_t first, uint32_t most, uint64_t timeout_ms);
/* `overloaded`: the call was not answered in time, could not be sent, or was throttled. `full`:
 * the limit was reached, so that a larger one would be used. */
void concurrency_answered(struct concurrency *c, unsigned verb, mono_time sent, bool overloaded,
                          bool full, mono_time now);
#endif
