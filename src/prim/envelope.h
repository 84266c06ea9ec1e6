/* SPDX-License-Identifier: Apache-2.0 */
/* The stored form of an entry in etcd, Kubernetes and NATS: the caller's value with owner,
 * lease, request id and revision in one value, so that a check needs no second key. Layout:
 * docs/formats/envelope.md. */
#ifndef PRIM_ENVELOPE_H
#define PRIM_ENVELOPE_H
#include <muster/coord.h>

#include "base/buf.h"
#include "base/str.h"

enum {
    ENVELOPE_LEASED = 1,
    ENVELOPE_TOMBSTONE = 2,
    ENVELOPE_SLOT = 4,
    ENVELOPE_GROUP = 8, /* the value is slot count (4 bytes) and cooldown_ms (8 bytes) */
    ENVELOPE_HEADER = 80,
    ENVELOPE_GROUP_VALUE = 12,
};
struct claim_envelope {
    uint32_t flags;
    coord_id lease_id, request_id;
    uint64_t revision; /* 0: the revision that the store gives this write */
    uint64_t token;    /* 0: the revision of this write */
    int64_t ttl_ms;
    uint64_t wall_ms;        /* for people only */
    struct str owner, value; /* borrowed */
};
enum err envelope_encode(const struct claim_envelope *envelope,
                         struct buf *out); /* appends to `out`; ERR_NOMEM */
/* ERR_CORRUPT: damaged, or no envelope. The strings point into `bytes`. */
enum err envelope_decode(struct str bytes, struct claim_envelope *ret_envelope);
struct envelope_group {
    uint32_t slot_count;
    int64_t cooldown_ms;
};
void envelope_group_value(const struct envelope_group *group, char value[ENVELOPE_GROUP_VALUE]);
/* ERR_CORRUPT: no group record. */
enum err envelope_group_read(const struct claim_envelope *envelope,
                             struct envelope_group *ret_group);
#endif
