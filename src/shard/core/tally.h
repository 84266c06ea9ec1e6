/* SPDX-License-Identifier: Apache-2.0 */
/* How many machines there are of each instance type and in each zone, and what the cheapest Idle
 * one of a type costs; counted as machines change, so that nobody walks them to answer. Real
 * states. */
#ifndef SHARD_CORE_TALLY_H
#define SHARD_CORE_TALLY_H
#include "base/map.h"
#include "model/machine.h"
#include "model/penalty.h"
#include "shard/state/inventory.h"

struct tally_entry { /* of one type or zone, its name behind it; gone with its last machine */
    struct str name;
    uint32_t machines, idle, speculative;
    /* The lowest price of an Idle one and how many have it; 0 of them while some are Idle: it is
     * not known, and looked for when somebody asks. */
    double cheapest;
    uint32_t cheapest_count;
};
struct tally {
    struct map types, zones;
    uint32_t by_bucket[MACHINE_STATE_COUNT][CAPACITY_TYPE_COUNT][PENALTY_BUCKET_COUNT];
};
void tally_init(struct tally *tally, uint64_t seed);
void tally_deinit(struct tally *tally);

/* Where a machine is counted. Holds no text of it, so it outlives the record. */
struct tally_place {
    struct tally_entry *type, *zone; /* NULL: it has none */
    uint32_t *bucket;
    enum machine_state state;
    double price;
};
/* Makes room for the machine where there is none, so that counting cannot fail. ERR_NOMEM. */
enum err tally_find(struct tally *tally, const struct machine *machine,
                    struct tally_place *ret_place);
/* Counts it here instead of there; NULL: it appears, it goes. */
void tally_move(struct tally *tally, const struct tally_place *from, const struct tally_place *to);
/* It was looked for and is not counted here after all. */
void tally_leave(struct tally *tally, const struct tally_place *place);

/* NULL: no machine of that type. */
const struct tally_entry *tally_type(const struct tally *tally, struct str type);
/* Of the Idle machines of a type; 0 when there is none. */
double tally_cheapest(struct tally *tally, const struct inventory *inventory, struct str type);
#endif
