/* SPDX-License-Identifier: Apache-2.0 */
/* What an interruption or a reclamation costs a workload, in buckets, and the effective cost of a
 * machine.
 *
 * A bucket is its upper bound: 1 is $0, 2 is $0.50, 3 to 26 are $1, $2, ... $8,388,608, and 27
 * ("pinned") is infinite. The numbers are those of the wire format. */
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

/* The smallest bucket that covers `dollars`: 1 for zero and less, pinned for +Inf. ERR_INVALID for
 * NaN. */
enum err penalty_from_dollars(double dollars, uint8_t *ret_bucket);
double penalty_dollars(uint8_t bucket);    /* +Inf for pinned; bucket < PENALTY_BUCKET_COUNT */
const char *penalty_label(uint8_t bucket); /* "unspecified", "0", "0.5", "1" ... "pinned" */
/* Checks a bucket from outside. ERR_INVALID with the field in the note. */
enum err penalty_check(const char *field, uint32_t bucket, struct note *note);

/* Price + probability x penalty, per hour. A machine that is never interrupted costs its price,
 * because 0 x infinity is NaN. */
static inline double effective_cost(double price, double probability, double penalty)
{
    return probability > 0 && penalty > 0 ? price + probability * penalty : price;
}
#endif
