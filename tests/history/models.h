/* SPDX-License-Identifier: Apache-2.0 */
/* The objects for linear.h: a key with revisions and perhaps a lease, and a group of slots. They
 * allow exactly what include/muster/coord.h promises: a lease may live longer than its TTL, never
 * shorter, counted from before the last answered renewal. */
#ifndef TESTS_HISTORY_MODELS_H
#define TESTS_HISTORY_MODELS_H
#include "history.h"
#include "linear.h"

struct model_call {
    const struct hist_call *call;
    uint32_t slot; /* an acquire in doubt: the slot that it may have got */
    bool doubt;    /* the entry is about that grant, not about the answer */
};
extern const struct linear_model key_model, group_model;
/* Whether the call concerns the model. */
bool key_model_knows(const struct hist_call *call);
bool group_model_knows(const struct hist_call *call);
#endif
