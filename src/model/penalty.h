/* SPDX-License-Identifier: Apache-2.0 */
/* What an interruption or a reclamation costs its workload, in buckets, and what a machine costs
 * once that is counted.
 *
 * A bucket means its upper bound: 1 is $0, 2 is $0.50, 3 to 26 are $1, $2, ... $8,388,608, and
 * 27 ("pinned") is more than any number. The numbers are the wire's. */
#ifndef MODEL_PENALTY_H
#define MODEL_PENALTY_H
#include "base/note.h"
#include "base/str.h"

enum {
    PENALTY_UNSPECIFIED = 0, /* counts as $0 */
    PENALTY_ZERO = 1,
    PENALTY_HALF_DOLLAR = 2,
    PENALTY_DOLLAR = 3,
    PENALTY_LARGEST = 26,
    PENALTY_PINNED = 27,
    PENALTY_BUCKET_COUNT = 28,
};

/* The smallest bucket that covers `dollars`: nothing and less is bucket 1, +Inf is pinned. NaN is
 * ERR_INVALID. */
enum err penalty_from_dollars(double dollars, uint8_t *ret_bucket);
double penalty_dollars(uint8_t bucket);    /* +Inf for pinned; bucket < PENALTY_BUCKET_COUNT */
const char *penalty_label(uint8_t bucket); /* "unspecified", "0", "0.5", "1" ... "pinned" */
/* A number from outside. ERR_INVALID names the field. */
enum err penalty_check(const char *field, uint32_t bucket, struct note *note);

/* price + probability x max(0, penalty), in dollars an hour. A machine that is never interrupted
 * costs its price whatever the penalty: 0 x infinity would be no number, and no order. */
static inline double effective_cost(double price, double probability, double penalty)
{
    return probability > 0 && penalty > 0 ? price + probability * penalty : price;
}
#endif
