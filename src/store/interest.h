/* SPDX-License-Identifier: Apache-2.0 */
/* Who is interested in which keys: an index from a changed key to the lookers it concerns.
 *
 * A range is found by the longest prefix that all of its keys share. A change therefore costs one
 * lookup for each length that such a prefix has, however many ranges there are. A looker that is
 * called back may still have to compare the key; interest_exact says when it need not. */
#ifndef STORE_INTEREST_H
#define STORE_INTEREST_H
#include "base/list.h"
#include "base/map.h"
#include "store/core/store.h"

struct looker { /* the caller's storage */
    struct list in_scope, all;
    struct interest_scope *scope; /* NULL: it looks at nothing */
    /* A key changed that it may be interested in. `change` NULL: any number of keys did. It may not
     * join or leave meanwhile. */
    void (*seen)(struct looker *looker, uint64_t number, const struct key_value *change);
};
struct interest_scope { /* those who look at the same */
    struct list lookers;
    bool name; /* one key, or one bucket; else a prefix */
    size_t len;
    char text[];
};
struct interest {
    struct map names, prefixes;          /* to scopes */
    struct list all;                     /* lookers */
    uint32_t lengths[STORE_KEY_MAX + 1]; /* prefixes of each length */
};

void interest_init(struct interest *interest, uint64_t seed);
void interest_deinit(struct interest *interest); /* nobody looks any more */

/* A change of a claim is found by its key and by its bucket, which ends in a slash. */
enum err interest_join(struct interest *interest, struct key_range range, struct looker *looker);
void interest_leave(struct interest *interest, struct looker *looker); /* fine at nothing */
void interest_changed(const struct interest *interest, uint64_t number,
                      const struct key_value *change);
void interest_changed_all(const struct interest *interest);

/* Every key that the scope of this range is found by is in the range. */
bool interest_exact(struct key_range range);
/* "muster/a/b" is of the bucket "muster/a/". Group records are of none. */
bool interest_bucket(struct str key, struct str *ret_bucket);
#endif
