/* SPDX-License-Identifier: Apache-2.0 */
/* The offer of a machine in wire encoding: checked and encoded once, copied into every answer.
 * Pure.
 *
 * The bytes are the fields of a Machine that do not change with its state: instance_type (4), zone
 * (5), capacity_type (6), price_per_hour (7), interruption_probability (8), resources (9), labels
 * (10), allocatable (13). */
#ifndef PROVIDER_HOST_OFFER_H
#define PROVIDER_HOST_OFFER_H
#include "base/arena.h"
#include "base/buf.h"
#include "provider/host/backend.h"

enum {
    OFFER_BYTES_MAX = 256 << 10,
    OFFER_ARENA_MAX = 8 << 20, /* bytes of a decoded offer and binding */
};

/* Checks whether a shard would accept such a machine. ERR_INVALID, ERR_TOO_LARGE; the note names
 * the field. */
enum err offer_check(const struct offer *offer, struct note *note);
/* offer_check() must have accepted the offer. ERR_FULL, ERR_NOMEM. */
enum err offer_write(const struct offer *offer, struct buf *into);
/* Decodes the machine's offer, and cluster and metadata of its binding, into the arena. ERR_PARSE
 * (not written by offer_write), ERR_NOMEM. */
enum err offer_read(struct str offer, struct str binding, struct arena *arena,
                    struct backend_operation *operation);
#endif
