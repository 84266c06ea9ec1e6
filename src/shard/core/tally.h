/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of machines per instance type and zone, and the lowest price of an Idle machine per type.
 * The counts follow every change, so that no query walks all machines. They count real states. */
#ifndef SHARD_CORE_TALLY_H
#define SHARD_CORE_TALLY_H
#include "base/map.h"
#include "model/machine.h"
#include "model/penalty.h"
#include "shard/state/inventory.h"

struct tally_entry { /* counts of one type or zone; its name follows; freed with its last machine */
    struct str name;
    uint32_t machines, idle, speculative;
    /* The lowest price of an Idle machine, and how many Idle machines have that price. If the count
     * is 0 although machines are Idle, the price is unknown, and the next query computes it. */
    double cheapest;
    uint32_t cheapest_count;
};
struct tally {
    struct map types, zones;
    uint32_t by_bucket[MACHINE_STATE_COUNT][CAPACITY_TYPE_COUNT][PENALTY_BUCKET_COUNT];
};
void tally_init(struct tally *tally, uint64_t seed);
void tally_deinit(struct tally *tally);

/* The entries that count a machine. The struct has no text of the machine and can outlive it. */
struct tally_place {
    struct tally_entry *type, *zone; /* NULL: the machine has none */
    uint32_t *bucket;
    enum machine_state state;
    double price;
};
/* Finds or creates the entries of a machine, so that counting cannot fail. ERR_NOMEM. */
enum err tally_find(struct tally *tally, const struct machine *machine,
                    struct tally_place *ret_place);
/* Moves a machine's count from one place to another. `from` NULL: the machine is new. `to` NULL:
 * the machine is removed. */
void tally_move(struct tally *tally, const struct tally_place *from, const struct tally_place *to);
/* Releases entries from tally_find() that are not used to count the machine. */
void tally_leave(struct tally *tally, const struct tally_place *place);

/* Returns the counts of a type, or NULL if no machine has the type. */
const struct tally_entry *tally_type(const struct tally *tally, struct str type);
/* Returns the lowest price of the Idle machines of a type; 0 if none is Idle. */
double tally_cheapest(struct tally *tally, const struct inventory *inventory, struct str type);
#endif
