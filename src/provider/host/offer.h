/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine is, as bytes of the wire: made and checked once, copied into every answer.
 *
 * The bytes are the fields of a Machine that do not change with its state: instance_type (4), zone
 * (5), capacity_type (6), price_per_hour (7), interruption_probability (8), resources (9), labels
 * (10), allocatable (13). A book keeps them and never looks inside. Pure. */
#ifndef PROVIDER_HOST_OFFER_H
#define PROVIDER_HOST_OFFER_H
#include "base/arena.h"
#include "base/buf.h"
#include "provider/host/backend.h"

enum {
    OFFER_BYTES_MAX = 256 << 10,
    OFFER_ARENA_MAX = 1 << 20, /* one that was read, taken apart */
};

/* Whether a shard would take such a machine: texts, quantities, no key twice, price, probability.
 * Labels and resources in any order. ERR_INVALID, ERR_TOO_LARGE, the field named. */
enum err offer_check(const struct offer *offer, struct note *note);
/* Appends the bytes of an offer that was checked. ERR_FULL, ERR_NOMEM. */
enum err offer_write(const struct offer *offer, struct buf *into);
/* Back, as views of `bytes`; arrays are in the arena. ERR_PARSE (not made by offer_write),
 * ERR_NOMEM. */
enum err offer_read(struct str bytes, struct arena *arena, struct offer *ret_offer);
/* The entries of a map field in order, "1: key, 2: value" each; for metadata too. ERR_FULL past
 * `max`. */
enum err pairs_read(struct str bytes, uint32_t number, size_t max, struct arena *arena,
                    const struct label **ret_pairs, size_t *ret_count);
#endif
