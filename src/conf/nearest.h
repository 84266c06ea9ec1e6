/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the name that a user probably meant.
 *
 * The distance of two names is the number of keystrokes between them: a letter added, removed or
 * changed, or two adjacent letters swapped (Damerau-Levenshtein, each pair swapped once). Only a
 * near name is offered, because a wrong hint misleads users more than no hint. */
#ifndef CONF_NEAREST_H
#define CONF_NEAREST_H
#include "base/str.h"

enum { NEAREST_NAME_MAX = 64 }; /* bytes; longer names get no hint */
enum { NEAREST_KEYSTROKES_MAX = 3 };

/* Returns the distance from `a` to `b`, or `bound` + 1 if it is larger than `bound`. */
size_t nearest_distance(struct str a, struct str b, size_t bound);

struct nearest {
    struct str wanted;
    size_t distance; /* edit distance of the best candidate; too large if none is near */
    size_t place;    /* the caller's number for the best candidate */
};
void nearest_init(struct nearest *n, struct str wanted);
/* Offers a candidate. Of two equally near candidates, the first is kept. */
void nearest_offer(struct nearest *n, struct str candidate, size_t place);
bool nearest_found(const struct nearest *n);
#endif
