/* SPDX-License-Identifier: Apache-2.0 */
/* The state behind core.h and the few moves that change it. Only files of this folder see it. */
#ifndef PRIM_MEMORY_CORE_STATE_H
#define PRIM_MEMORY_CORE_STATE_H
#include "base/map.h"
#include "prim/answer.h"
#include "prim/memory/core/core.h"

enum {
    NS_PER_MSEC = 1000000,
    PAST_MAX =
        8192, /* leases and deletions whose end is remembered; then the oldest is forgotten */
};

/* How a lease ended, or that a request deleted: what is left when the thing itself is gone. */
struct past {
    coord_id id;
    int reason;
};
struct memory_core {
    struct tree entries, deadlines, groups, leases;
    struct list events, dead; /* dead: entries that this call's events still show */
    uint64_t revision, seed, bytes, bytes_max;
    size_t count, entries_max;
    struct past past[PAST_MAX];
    size_t past_next;
    struct map past_by_id;
    int64_t seen_ns; /* time never runs back */
};

/* Ends what is due. First thing of every operation. */
void state_begin(struct memory_core *core, int64_t now_ns);

struct memory_entry *state_entry(const struct memory_core *core, struct str key);
struct memory_lease *state_lease(const struct memory_core *core, const coord_id *id);
struct memory_group *state_group(const struct memory_core *core, struct str key);

/* Not in any tree yet. NULL: no memory. */
struct memory_entry *state_entry_make(struct memory_core *core, struct str key, struct str value);
void state_entry_free(struct memory_entry *entry);
struct memory_lease *state_lease_make(struct memory_core *core, const coord_id *id,
                                      struct str owner, int64_t ttl_ms, int64_t now_ns);
/* Puts a made entry into the store with the next revision: a create. */
void state_put(struct memory_core *core, struct memory_entry *entry, struct memory_lease *lease,
               const coord_id *request_id);
void state_lease_join(struct memory_core *core, struct memory_lease *lease,
                      struct memory_entry *entry);
/* Takes the entry off its lease; a lease without entries ends, for `reason`. */
void state_lease_leave(struct memory_core *core, struct memory_entry *entry, int reason);
void state_lease_extend(struct memory_core *core, struct memory_lease *lease, int64_t now_ns);
/* An update of an entry that stays. */
void state_changed(struct memory_core *core, struct memory_entry *entry,
                   const coord_id *request_id);
/* The entry goes, with an event of `type`. `reason` is why its lease loses it; `told`: against the
 * lease's will. */
void state_drop(struct memory_core *core, struct memory_entry *entry, int type, int reason,
                bool told);

void state_remember(struct memory_core *core, const coord_id *id, int reason);
int state_recall(const struct memory_core *core, const coord_id *id); /* 0: nothing known */

/* O1: lease id and token both match what is stored. */
bool state_owns(const struct memory_entry *entry, const struct prim_claim *claim);
/* OK when every key is still the claim's own, else EXPIRED. */
coord_result state_check_claim(const struct memory_core *core, const struct prim_claim *claim);

bool state_room(const struct memory_core *core, size_t value_len, coord_result *ret_refusal);
/* With revision, token, owner and how long it has left. */
void state_tell_holder(coord_result *result, const struct memory_entry *entry, int64_t now_ns);
int64_t state_left_ms(int64_t deadline_ns, int64_t now_ns); /* rounded up */
#endif
