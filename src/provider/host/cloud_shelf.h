/* SPDX-License-Identifier: Apache-2.0 */
/* What a cloud keeps of the machines of one pool in one zone: who has a host, and what is to happen
 * to each. */
#ifndef PROVIDER_HOST_CLOUD_SHELF_H
#define PROVIDER_HOST_CLOUD_SHELF_H
#include "base/heap.h"
#include "provider/host/catalogue.h"

struct cloud_pool;
struct
    cloud_event { /* something that happens later: an operation ends, a failed machine is repaired */
    struct heap_node node;
    struct cloud_pool *shelf;
    uint32_t unit;
    struct operation_ticket operation; /* none: a repair */
    enum operation_kind kind;
};
struct cloud_unit {             /* one machine, and a place in the list of those that have a host */
    struct cloud_event *errand; /* NULL: none */
    uint32_t place;             /* where it is listed, from 1; 0: it has no host */
    uint32_t listed;            /* who is listed here; below shelf->host_count, in no order */
    bool known;                 /* it was offered, and not removed */
    bool failed;
};
struct cloud_pool {                    /* a pool in a zone */
    char *key;                         /* "<pool>-<zone>" */
    const struct catalogue_pool *pool; /* NULL: no longer sold */
    struct str zone;
    struct cloud_unit *units;
    uint32_t unit_count, unit_cap, host_count, creating;
    uint32_t wanted; /* units below it are sold */
};

/* Units up to `count`, those that are new without anything. ERR_NOMEM. */
enum err shelf_grow(struct cloud_pool *shelf, uint32_t count);
void shelf_add_host(struct cloud_pool *shelf, uint32_t unit);  /* fine when it has one */
void shelf_drop_host(struct cloud_pool *shelf, uint32_t unit); /* fine when it has none */
#endif
