/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for an order of calls, each at an instant between its call and its answer, in which one
 * object could have given these answers. This is the search of Wing and Gong with Lowe's cache of
 * visited states, for objects that also depend on the time, because leases end.
 *
 * Each call gets the earliest instant that its order allows; an object may ask for a later one (a
 * lease that must have ended first).
 *
 * A call without an answer may take effect at any time after the call, or never. */
#ifndef TESTS_HISTORY_LINEAR_H
#define TESTS_HISTORY_LINEAR_H
#include "base/base.h"

enum { LINEAR_STATE_BYTES = 192 };
struct linear_call {
    int64_t called_ns, ended_ns; /* INT64_MAX: no answer */
    const void *what;
    /* Of the calls without an answer that have the same number `twin` (not 0) at most one is done;
     * when `after` is not 0, only after a call with the number `after`. */
    uint32_t twin, after;
};
struct linear_model {
    size_t state_bytes; /* at most LINEAR_STATE_BYTES; compared bytewise: no padding left unset */
    void (*begin)(void *state, void *arg);
    /* True: the object can give this answer at *at_ns or later; the function advances *at_ns and
     * the state. For a call without an answer: true when the call changes anything. */
    bool (*step)(void *state, const struct linear_call *call, int64_t *at_ns, void *arg);
    void *arg;
};
enum linear_verdict { LINEAR_GOOD, LINEAR_BAD, LINEAR_GAVE_UP };
struct linear_result {
    enum linear_verdict verdict;
    uint64_t steps;
    size_t explained;  /* the most calls that had an order */
    const void *stuck; /* BAD: `what` of the call that had to be next and could not */
};
/* `calls` are sorted by time of call. Gives up after `steps_max` steps. */
void linear_check(const struct linear_model *model, const struct linear_call *calls, size_t count,
                  uint64_t steps_max, struct linear_result *ret_result);
#endif
