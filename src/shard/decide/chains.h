/* SPDX-License-Identifier: Apache-2.0 */
/* What can be acquired, by value of a key; see chains.c. */
#ifndef SHARD_DECIDE_CHAINS_H
#define SHARD_DECIDE_CHAINS_H
#include "shard/decide/price_lists.h"

#define CHAIN_NONE UINT32_MAX /* no chain, no entry */

struct chain {
    const struct posting *value;
    double start;  /* of its first entry. Chains are sorted by that, then by value */
    uint32_t head; /* entry: the first of which something is left; CHAIN_NONE: nothing is */
    uint32_t next; /* chain of which something may be left; CHAIN_NONE */
};
struct chains { /* of one order, by the value of one key */
    struct str key;
    struct chains *other; /* of another key */
    struct chain *at;
    uint32_t count, cap;
    uint32_t first; /* chain of which something may be left; CHAIN_NONE */
    uint32_t *next; /* by entry: the next of its chain; CHAIN_NONE */
};

/* Made once per decision. Uses e->bucket_of. NULL: full. */
struct chains *chains_of(struct decider *e, struct price_order *order, struct str key);
#endif
