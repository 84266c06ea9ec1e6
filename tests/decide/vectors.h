/* SPDX-License-Identifier: Apache-2.0 */
/* The specification's vectors for the decision, as data. */
#ifndef TESTS_DECIDE_VECTORS_H
#define TESTS_DECIDE_VECTORS_H
#include "decide/fleet.h"
const struct fleet_text *decide_vectors(size_t *ret_count);
#endif
