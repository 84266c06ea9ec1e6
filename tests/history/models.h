/* SPDX-License-Identifier: Apache-2.0 */
/* The objects that linear.h searches an order for: a key with revisions and perhaps a lease, and a
 * group of slots. Both say exactly what include/muster/coord.h promises, and no more: a lease may
 * live longer than its TTL, never shorter, counted from before the last renewal that was answered.
 */
#ifndef TESTS_HISTORY_MODELS_H
#define TESTS_HISTORY_MODELS_H
#include "history.h"
#include "linear.h"

struct model_call {
    const struct hist_call *call;
    uint32_t slot; /* an acquire in doubt: the slot that it may have been given */
    bool doubt;    /* it is about that, not about its answer */
};
extern const struct linear_model key_model, group_model;
/* Whether the model has anything to say about it. */
bool key_model_knows(const struct hist_call *call);
bool group_model_knows(const struct hist_call *call);
#endif
