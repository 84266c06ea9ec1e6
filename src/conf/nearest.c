/* SPDX-License-Identifier: Apache-2.0 */
/* Damerau-Levenshtein distance with three rows on the stack. Pure; any thread may call. */
#include "conf/nearest.h"

#include <string.h>

/* Three rows are enough, because a swap looks back two rows. */
size_t nearest_distance(struct str a, struct str b, size_t bound)
{
    size_t rows[3][NEAREST_NAME_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];

    if (a.len > NEAREST_NAME_MAX || b.len > NEAREST_NAME_MAX) return bound + 1;
    for (size_t j = 0; j <= b.len; j++) last[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t changed = last[j - 1] + (a.at[i - 1] == b.at[j - 1] ? 0 : 1);
            size_t best = min_size(changed, min_size(last[j], row[j - 1]) + 1);
            bool swapped =
                i > 1 && j > 1 && a.at[i - 1] == b.at[j - 2] && a.at[i - 2] == b.at[j - 1];
            row[j] = swapped ? min_size(best, before[j - 2] + 1) : best;
        }
        size_t *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return min_size(last[b.len], bound + 1);
}

/* The distance that a hinted name may have. */
static size_t nearest_bound_for(struct str wanted)
{
    return min_size(NEAREST_KEYSTROKES_MAX, max_size(1, wanted.len / 3));
}

void nearest_init(struct nearest *n, struct str wanted)
{
    *n = (struct nearest){.wanted = wanted, .distance = nearest_bound_for(wanted) + 1};
}

void nearest_offer(struct nearest *n, struct str candidate, size_t place)
{
    size_t distance = nearest_distance(n->wanted, candidate, nearest_bound_for(n->wanted));
    if (distance < n->distance) {
        n->distance = distance;
        n->place = place;
    }
}

bool nearest_found(const struct nearest *n)
{
    return n->distance <= nearest_bound_for(n->wanted);
}
