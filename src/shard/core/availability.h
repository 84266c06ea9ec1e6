/* SPDX-License-Identifier: Apache-2.0 */
/* Capacity pools whose Creates the provider refused. Pure.
 *
 *   (unknown) --no stock, or 3 refusals in a row--> SOLD OUT, pause --pause over--> due
 *       ^                                              ^                             |
 *       |                                refused: pause doubles               one Create: the probe
 *       +------------- accepted ---------------------- probe <-----------------------+
 *
 * No machine of a sold-out pool is bought, except for the probe. The pools are bounded: a new pool
 * replaces the one whose pause ends first. */
#ifndef SHARD_CORE_AVAILABILITY_H
#define SHARD_CORE_AVAILABILITY_H
#include "shard/decide/decide.h"

enum {
    POOLS_MAX = 1024,
    PROBES_MOST = 16,   /* probes at a time, so that they do not use all slots */
    POOL_REFUSALS = 3,  /* in a row, for another reason than stock */
    POOL_WHY_MAX = 120, /* bytes kept of a provider's error text */
};

struct pool_memory {
    struct capacity_pool pool; /* the texts follow the struct */
    uint32_t hash;
    uint8_t refusals; /* in a row: of probes, or before the pool is sold out, of Creates */
    bool sold_out;
    mono_time since; /* the last refusal that counted */
    mono_time until; /* end of the pause */
    uint64_t probe;  /* action number of the probe; 0: none */
    size_t size;
    uint32_t why_len;
    char why[POOL_WHY_MAX];
    char texts[];
};
struct availability {
    struct pool_memory *at[POOLS_MAX];
    uint32_t count, probes;
    uint64_t first_ms, most_ms; /* the pauses */
    uint64_t forgotten;         /* pools replaced because the table was full */
};
void availability_init(struct availability *a, uint64_t first_ms, uint64_t most_ms);
void availability_deinit(struct availability *a);

/* NULL: nothing is known about the pool, so its machines may be bought. */
struct pool_memory *availability_find(const struct availability *a,
                                      const struct capacity_pool *pool);
/* True if the pool is sold out and no probe may begin now. */
bool availability_barred(const struct availability *a, const struct pool_memory *m, mono_time now);
/* Call when a Create of a sold-out pool begins. */
void availability_probe(struct availability *a, struct pool_memory *m, uint64_t action);
/* Call when the action is over. After a probe without an answer, the next probe follows the
 * shortest pause. */
void availability_over(struct availability *a, uint64_t action, mono_time now);
enum pool_refusal { REFUSED_STOCK, REFUSED_OTHER };
/* Call when a Create was refused. Returns the pool if it is sold out from now on, or for longer;
 * NULL: no change, or out of memory. */
struct pool_memory *availability_refused(struct availability *a, const struct capacity_pool *pool,
                                         uint64_t action, enum pool_refusal why, struct str text,
                                         mono_time now);
/* Call when a Create was accepted. True: the pool was sold out and is not any more. */
bool availability_accepted(struct availability *a, const struct capacity_pool *pool,
                           uint64_t action);
/* Restores a hint of an earlier process: the pool is sold out until `until`. */
void availability_restore(struct availability *a, const struct capacity_pool *pool,
                          uint8_t refusals, mono_time until, mono_time now);
/* Forgets pools that nobody wanted for the longest pause after their own pause. */
void availability_sweep(struct availability *a, mono_time now);
#endif
