/* SPDX-License-Identifier: Apache-2.0 */
/* Acquirable machines, grouped by the value of one label key; see chains.c. */
#ifndef SHARD_DECIDE_CHAINS_H
#define SHARD_DECIDE_CHAINS_H
#include "shard/decide/price_lists.h"

#define CHAIN_NONE UINT32_MAX /* no chain, or no entry */

struct chain {
    const struct posting *value;
    double start;  /* sort key of the first entry; chains are sorted by start, then by value */
    uint32_t head; /* first entry with machines left; CHAIN_NONE: none */
    uint32_t next; /* next chain that may have machines left; CHAIN_NONE: none */
};
struct chains {
    struct str key;
    struct chains *other; /* the chains of the same order for another key */
    struct chain *at;
    uint32_t count, cap;
    uint32_t first; /* first chain that may have machines left; CHAIN_NONE: none */
    uint32_t *next; /* indexed by entry: next entry of the same chain; CHAIN_NONE: none */
};

/* Overwrites e->bucket_of. Returns NULL if the scratch memory is full. */
struct chains *chains_of(struct decider *e, struct price_order *order, struct str key);
#endif
