/* SPDX-License-Identifier: Apache-2.0 */
/* An index from a changed key to the callbacks (`struct looker`) for that key, such as watches.
 *
 * A range is stored under the longest prefix that all of its keys share. A changed key therefore
 * costs one lookup for each prefix length that exists. A looker's callback must compare the key
 * with the range unless interest_exact() is true. */
#ifndef STORE_INTEREST_H
#define STORE_INTEREST_H
#include "base/list.h"
#include "base/map.h"
#include "store/core/store.h"

struct looker { /* the caller provides the memory */
    struct list in_scope, all;
    struct interest_scope *scope; /* NULL: the looker watches nothing */
    /* A key changed that the looker may watch. `change` NULL: many keys may have changed. The
     * callback must not join or leave the index. */
    void (*seen)(struct looker *looker, uint64_t number, const struct key_value *change);
};
struct interest_scope { /* all lookers that watch the same range */
    struct list lookers;
    bool name; /* true: `text` is a key or a bucket; false: `text` is a prefix of keys */
    size_t len;
    char text[];
};
struct interest {
    struct map names, prefixes;          /* from the text of a scope to the scope */
    struct list all;                     /* all lookers */
    uint32_t lengths[STORE_KEY_MAX + 1]; /* by length: number of scopes in `prefixes` */
};

void interest_init(struct interest *interest, uint64_t seed);
void interest_deinit(struct interest *interest); /* after every looker has left */

/* A changed claim matches its key and its bucket, a name that ends in a slash. */
enum err interest_join(struct interest *interest, struct key_range range, struct looker *looker);
/* does nothing if the looker has not joined */
void interest_leave(struct interest *interest, struct looker *looker);
void interest_changed(const struct interest *interest, uint64_t number,
                      const struct key_value *change);
void interest_changed_all(const struct interest *interest);

/* True: every key that the index reports for this range is in the range. */
bool interest_exact(struct key_range range);
/* The bucket of the claim "muster/a/b" is "muster/a/". False: a group. */
bool interest_bucket(struct str key, struct str *ret_bucket);
#endif
