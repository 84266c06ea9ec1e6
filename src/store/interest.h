/* SPDX-License-Identifier: Apache-2.0 */
/* Who looks at which keys: from a key that changed to those it concerns.
 *
 * A range is looked up by the longest front that all its keys share, so a change costs one look for
 * each length that any range has, however many ranges there are. Who is found may still have to
 * compare: interest_exact says when not. */
#ifndef STORE_INTEREST_H
#define STORE_INTEREST_H
#include "base/list.h"
#include "base/map.h"
#include "store/core/keys.h"

struct interest_scope { /* those who look at the same */
    struct list lookers;
    bool key; /* one key, not a front */
    size_t len;
    char name[];
};
struct interest {
    struct map keys, fronts; /* names to scopes */
    struct interest_length {
        size_t len;
        uint32_t scopes;
    } * lengths; /* of `fronts`, ascending */
    size_t length_count, length_cap;
};

void interest_init(struct interest *interest, uint64_t seed);
void interest_deinit(struct interest *interest); /* nobody looks any more */
/* Every key that the scope holds is in the range. */
bool interest_exact(struct key_range range);
bool interest_in(struct key_range range, struct str key);
/* Appends `looker` to the scope of its range. NULL: no memory. */
struct interest_scope *interest_join(struct interest *interest, struct key_range range,
                                     struct list *looker);
void interest_leave(struct interest *interest, struct interest_scope *scope, struct list *looker);
typedef void interest_fn(void *context, struct interest_scope *scope);
/* Calls back for every scope that holds the key; nobody may join or leave meanwhile. */
void interest_each(const struct interest *interest, struct str key, interest_fn *each,
                   void *context);
/* Everything with this front, as a range; `end` has room for its bytes, and one at least. */
struct key_range interest_prefix(struct str front, char *end);
#endif
