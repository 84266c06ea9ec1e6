/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of machines per instance type and zone, and the lowest price of an Idle machine per type.
 * The counts follow every change of a real state, so that no query walks all machines. */
#ifndef SHARD_CORE_TALLY_H
#define SHARD_CORE_TALLY_H
#include "base/map.h"
#include "model/machine.h"
#include "model/penalty.h"
#include "shard/state/inventory.h"

struct tally_entry { /* counts of one type or zone; its name follows; freed with the last machine */
    struct str name;
    uint32_t machines, idle, speculative;
    /* The lowest price of an Idle machine, and the number of Idle machines at that price. Number 0
     * while machines are Idle: the next query searches the price. */
    double cheapest;
    uint32_t cheapest_count;
};
struct tally {
    struct map types, zones;
    uint32_t by_bucket[MACHINE_STATE_COUNT][CAPACITY_TYPE_COUNT][PENALTY_BUCKET_COUNT];
};
void tally_init(struct tally *tally, uint64_t seed);
void tally_deinit(struct tally *tally);

/* The entries that count a machine. May outlive the machine. */
struct tally_place {
    struct tally_entry *type, *zone;
    uint32_t *bucket;
    enum machine_state state;
    double price;
};
/* Finds or creates the entries, so that counting cannot fail. ERR_NOMEM. */
enum err tally_find(struct tally *tally, const struct machine *machine,
                    struct tally_place *ret_place);
/* `from` NULL: a new machine. `to` NULL: a removed machine. */
void tally_move(struct tally *tally, const struct tally_place *from, const struct tally_place *to);
/* Releases entries from tally_find() that were not used. */
void tally_leave(struct tally *tally, const struct tally_place *place);

/* NULL: no machine has the type. */
const struct tally_entry *tally_type(const struct tally *tally, struct str type);
/* 0: no machine of the type is Idle. */
double tally_cheapest(struct tally *tally, const struct inventory *inventory, struct str type);
#endif
