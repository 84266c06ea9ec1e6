/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the name that a user probably meant.
 *
 * The distance of two names is the number of keystrokes between them: a letter added, removed or
 * changed, or two adjacent letters swapped (Damerau-Levenshtein). Only a near name is offered,
 * because a wrong hint misleads. */
#ifndef CONF_NEAREST_H
#define CONF_NEAREST_H
#include "base/str.h"

enum { NEAREST_NAME_MAX = 64 }; /* bytes; longer names get no hint */
enum { NEAREST_KEYSTROKES_MAX = 3 };

/* Returns `bound` + 1 if the distance is larger than `bound`. */
size_t nearest_distance(struct str a, struct str b, size_t bound);

struct nearest {
    struct str wanted;
    size_t distance; /* best distance so far; too large: no candidate is near */
    size_t place;    /* number of the best candidate, as the caller gave it */
};
void nearest_init(struct nearest *n, struct str wanted);
/* The first of two equally near candidates is kept. */
void nearest_offer(struct nearest *n, struct str candidate, size_t place);
bool nearest_found(const struct nearest *n);
#endif
