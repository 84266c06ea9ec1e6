/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a catalogue.
 *
 * Invariants: it is refused with a note, or all its content is usable: zones,
 * spans that do not end before they begin, and counts that add up. */
#include <stdlib.h>

#include "provider/host/catalogue.h"
#include "provider/host/offer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void check_pool(const struct catalogue *c, size_t place, uint64_t *sum)
{
    const struct catalogue_pool *pool = &c->pools[place];
    struct note note;

    must(pool->name.len > 0 && pool->zone_count > 0 && pool->quota <= 1000000);
    must(offer_check(&pool->offer, &note) == ERR_OK);
    for (int i = 0; i < OPERATION_KINDS; i++) {
        must(pool->behaviour.latency[i].least_ms <= pool->behaviour.latency[i].most_ms);
        must(pool->behaviour.fails[i] <= 1000000);
    }
    for (size_t i = 0; i < pool->zone_count; i++) {
        must(pool->zones[i].len > 0);
        if (pool->count == UINT64_MAX) *sum += catalogue_count(c, 1000, place, i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct catalogue *c = NULL;
    struct note note = {.text = ""};
    uint64_t sum = 0, shares = 0;
    enum err err = catalogue_open(str_of((const char *)data, size), &c, &note);

    if (err) {
        must(!c && (note.text[0] || err == ERR_NOMEM || err == ERR_TOO_LARGE));
        return 0;
    }
    for (size_t i = 0; i < c->pool_count; i++) {
        check_pool(c, i, &sum);
        if (c->pools[i].count == UINT64_MAX) shares += c->pools[i].share;
    }
    must(sum == (shares ? 1000 : 0));
    catalogue_close(c);
    return 0;
}
