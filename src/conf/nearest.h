/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the name somebody probably meant.
 *
 * Counts the single keystrokes between two names: a letter added, lost, changed, or two
 * neighbours swapped (Damerau-Levenshtein with each pair swapped once). Only a near name is
 * offered: a hint that is far off sends the reader the wrong way, so no hint is better. */
#ifndef CONF_NEAREST_H
#define CONF_NEAREST_H
#include "base/str.h"

enum { NEAREST_NAME_MAX = 64 }; /* longer names are near to nothing */
enum { NEAREST_KEYSTROKES_MAX = 3 };

/* Keystrokes from `a` to `b`, or `bound` + 1 when it takes more than `bound`. */
size_t nearest_distance(struct str a, struct str b, size_t bound);

struct nearest {
    struct str wanted;
    size_t distance; /* of the best so far; past the bound while there is none */
    size_t place;    /* which candidate, as the caller numbered it */
};
void nearest_init(struct nearest *n, struct str wanted);
/* Considers one candidate; of two that are equally near the first stays. */
void nearest_offer(struct nearest *n, struct str candidate, size_t place);
bool nearest_found(const struct nearest *n);
#endif
