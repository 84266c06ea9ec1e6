/* SPDX-License-Identifier: Apache-2.0 */
/* The rest of libmuster's contract, used at random by one thread of a process: leased keys, several
 * under one lease, takeovers, cooldowns, groups that are resized, entries deleted by force, handles
 * that are passed on. The model (store_model.h) judges the result entry by entry. */
#ifndef TESTS_SIM_STORE_ODDS_H
#define TESTS_SIM_STORE_ODDS_H
#include <muster/coord.h>

#include "store_story.h"

struct odds_counts { /* of asynchronous calls; equal when the store is closed */
    uint64_t started, done;
};
struct odds {
    struct store_story *story;
    struct io *io;
    const char *owner;
    coord_lease *lease; /* the last one granted, or NULL */
    uint32_t slot_count;
    struct odds_counts *counts;
};
/* One call, or two. Results do not count when the process is dead: *dead. */
void odds_step(struct odds *odds, coord_store *store, const bool *dead);
void odds_end(struct odds *odds); /* before the store is closed */
#endif
