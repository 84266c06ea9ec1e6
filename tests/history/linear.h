/* SPDX-License-Identifier: Apache-2.0 */
/* Is there an order of these calls, each at some instant between its call and its answer, that one
 * object could have answered so? The search of Wing and Gong with Lowe's memory of what was tried,
 * for objects that also look at the clock: leases end.
 *
 * Calls get the earliest instants that their order allows, so the clock of an order is as early as
 * it can be; an object may ask for a later one (a lease that has to be over first).
 *
 * A call without an answer may take effect at any time after it was made, or never. */
#ifndef TESTS_HISTORY_LINEAR_H
#define TESTS_HISTORY_LINEAR_H
#include "base/base.h"

enum { LINEAR_STATE_BYTES = 192 };
struct linear_call {
    int64_t called_ns, ended_ns; /* INT64_MAX: no answer */
    const void *what;
    /* Of those without an answer and with one number, from 1, at most one is done; and, where it is
     * not 0, only after one of the number `after`. */
    uint32_t twin, after;
};
struct linear_model {
    size_t state_bytes; /* at most LINEAR_STATE_BYTES; compared bytewise: no padding left unset */
    void (*begin)(void *state, void *arg);
    /* True: it can be answered so at *at_ns or later; *at_ns is moved there, the state on. For a
     * call without an answer: true when it changes anything. */
    bool (*step)(void *state, const struct linear_call *call, int64_t *at_ns, void *arg);
    void *arg;
};
enum linear_verdict { LINEAR_GOOD, LINEAR_BAD, LINEAR_GAVE_UP };
struct linear_result {
    enum linear_verdict verdict;
    uint64_t steps;
    size_t explained;  /* most calls that were put into an order */
    const void *stuck; /* BAD: `what` of the call that had to be next there and could not */
};
/* `calls` by time of call. Gives up after so many steps. */
void linear_check(const struct linear_model *model, const struct linear_call *calls, size_t count,
                  uint64_t steps_max, struct linear_result *ret_result);
#endif
