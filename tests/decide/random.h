/* SPDX-License-Identifier: Apache-2.0 */
/* Fleets drawn from a seed: small, crowded and full of ties, because that is where orders
 * differ. */
#ifndef TESTS_DECIDE_RANDOM_H
#define TESTS_DECIDE_RANDOM_H
#include "base/prng.h"
#include "decide/oracle.h"

struct random_size {
    size_t machines_max, needs_max;
    bool odd;   /* machines have labels of their own, and Needs ask for sets of their own */
    bool gulfs; /* between priorities: beside them dollars are a few roundings of a score */
};
/* Allocates the fleet's tables; random_fleet_free() gives them back. */
void random_fleet(struct prng *p, struct random_size size, struct oracle_fleet *ret_fleet);
void random_fleet_free(struct oracle_fleet *fleet);
#endif
