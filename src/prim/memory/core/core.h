/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of <muster/coord.h> as a function: state, request and time in; answer and events
 * out. The memory store is this behind a mutex, and every other store is compared with it.
 *
 * Pure: reads no clock, draws no number, calls nobody. Each call first ends what is due, in the
 * order (deadline, key), each ending with a revision and an event of its own; then it does what was
 * asked. So no call ever meets an entry whose lease is over.
 *
 * One counter numbers every change of the store: revisions of different keys compare, and none is
 * used twice although nothing is remembered of a key that is gone.
 *
 * No memory is an answer (UNAVAILABLE/memory) and changes nothing; ending a lease takes none. */
#ifndef PRIM_MEMORY_CORE_CORE_H
#define PRIM_MEMORY_CORE_CORE_H
#include <muster/coord.h>

#include "base/list.h"
#include "prim/backend.h"
#include "prim/memory/core/tree.h"

struct memory_core;

struct memory_core_options {
    uint64_t revision_start; /* the first change gets one more */
    uint64_t seed;           /* of the tree's shape; nothing that can be seen depends on it */
    size_t entries_max;      /* entries and groups; past it UNAVAILABLE/quota */
    uint64_t bytes_max;      /* of their values */
};
struct memory_core *memory_core_open(const struct memory_core_options *options); /* NULL: memory */
void memory_core_close(struct memory_core *core);                                /* NULL is fine */

/* What a call changed, in order. Valid until the next call. */
struct memory_event {
    struct list link; /* in memory_core_events() */
    int type;         /* COORD_PUT, COORD_DELETE, COORD_EXPIRE */
    int lost_reason;  /* not 0: `lost_lease` lost this key against its will */
    uint64_t revision, token;
    coord_id lost_lease;
    struct str key, value, owner; /* owner: of a PUT under a lease */
};
const struct list *memory_core_events(const struct memory_core *core);

/* Who holds what. To be read only, and only until the next call. */
struct memory_lease {
    coord_id id;
    struct tree_node by_id;
    struct str owner;
    int64_t ttl_ms, deadline_ns;
    struct list entries; /* in the order they were granted */
    size_t count;
    char owner_bytes[];
};
struct memory_entry {
    struct tree_node by_key, by_deadline; /* by_deadline: only with a lease */
    struct memory_event event;
    struct str key, value;
    char *value_bytes;
    uint64_t revision, create_revision, token;
    coord_id request_id;        /* that made the present revision */
    struct memory_lease *lease; /* NULL: permanent */
    struct list in_lease;       /* in its entries; when gone, among the dead */
    struct memory_group *group; /* of a slot; else NULL */
    uint32_t slot;
    char key_bytes[];
};
struct memory_slot {
    struct memory_entry *entry; /* NULL: free */
    int64_t closed_until_ns;    /* the cooldown after an expiry */
};
struct memory_group {
    struct tree_node by_key;
    struct str key;
    uint64_t revision;
    coord_id request_id; /* of the last resize */
    int64_t cooldown_ms;
    uint32_t slot_count, room; /* room: of `slots`; larger than slot_count after a shrink */
    struct memory_slot *slots;
    char key_bytes[];
};

/* The next moment at which something ends; INT64_MAX: never. */
int64_t memory_core_next_deadline(const struct memory_core *core);
uint64_t memory_core_revision(const struct memory_core *core); /* of the last change */

/* -- one per operation; what they answer stands in <muster/coord.h> -- */
void memory_core_expire(struct memory_core *core, int64_t now_ns);
coord_result memory_core_create(struct memory_core *core, int64_t now_ns,
                                const struct prim_call *call, const struct prim_create *in,
                                struct prim_grant *ret_grant);
coord_result memory_core_cas(struct memory_core *core, int64_t now_ns, const struct prim_call *call,
                             const struct prim_cas *in, struct prim_grant *ret_grant);
coord_result memory_core_remove(struct memory_core *core, int64_t now_ns,
                                const struct prim_call *call, const struct prim_delete *in);
coord_result memory_core_get(struct memory_core *core, int64_t now_ns, struct str key,
                             const struct memory_entry **ret_entry);
coord_result memory_core_acquire(struct memory_core *core, int64_t now_ns,
                                 const struct prim_call *call, const struct prim_acquire *in,
                                 struct prim_grant *ret_grant);
coord_result memory_core_resize(struct memory_core *core, int64_t now_ns,
                                const struct prim_call *call, struct str group, uint64_t expected,
                                uint32_t slot_count);
coord_result memory_core_group(struct memory_core *core, int64_t now_ns, struct str group,
                               const struct memory_group **ret_group);
coord_result memory_core_renew(struct memory_core *core, int64_t now_ns,
                               const struct prim_claim *claim);
coord_result memory_core_release(struct memory_core *core, int64_t now_ns,
                                 const struct prim_call *call, const struct prim_claim *claim,
                                 const char *key);
coord_result memory_core_adopt(struct memory_core *core, int64_t now_ns,
                               const struct prim_claim *claim, int64_t *ret_left_ms);

/* For snapshots: the first entry at or after `key` (with `past`: after it), by bytes; or NULL. */
const struct memory_entry *memory_core_from(const struct memory_core *core, struct str key,
                                            bool past);
#endif
