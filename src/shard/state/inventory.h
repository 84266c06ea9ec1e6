/* SPDX-License-Identifier: Apache-2.0 */
/* Every machine of the shard: what it is, what state it is in, and what is planned for it.
 *
 * Pure: no clock, no I/O; the time is passed in. One owner, one thread: while a cycle decides, the
 * inventory is the decide thread's, so the cycle reads it in place and nothing is copied.
 *
 * Machines that are equal in everything the engine looks at but the id form a *cohort*
 * (cohort.h). All indexes are over cohorts and are kept with every change; a fleet bought in bulk
 * has few of them, so a decision costs in proportion to cohorts and Needs, not to machines.
 *
 * The surprising rule: a queued action is planned on as if it had begun. inventory_plan() moves
 * the machine to the cohort it will be in, so the next cycle neither plans it twice nor buys again;
 * inventory_unplan() moves it back; a change of its real state ends the plan by itself. */
#ifndef SHARD_STATE_INVENTORY_H
#define SHARD_STATE_INVENTORY_H
#include "base/arena.h"
#include "base/time.h"
#include "model/machine.h"

enum { INVENTORY_MACHINES_MOST = 16 << 20 };

struct inventory; /* opaque */
struct inventory_options {
    uint32_t machines_max; /* 1..INVENTORY_MACHINES_MOST; one more is ERR_FULL */
    uint64_t seed;         /* of the hash tables: random in a shard, fixed in a test */
};

/* The source of a machine's change. */
enum inventory_source {
    INVENTORY_DRIVEN,   /* our own executor: only the moves of machine.h's diagram */
    INVENTORY_OBSERVED, /* the provider, of a machine without an action in flight: it is believed */
};

/* what a queued action makes of a machine before it begins */
enum planned_action {
    PLANNED_NOTHING,
    PLANNED_BOOTSTRAP, /* Idle -> Configuring for `cluster`, stamped */
    PLANNED_PROVISION, /* Speculative -> Creating for `cluster`, stamped */
    PLANNED_DRAIN,     /* Configured -> Draining, promised (Reclaim and Preempt) */
    PLANNED_DELETE,    /* Idle -> Deleting */
};
struct plan {
    enum planned_action action;
    struct str cluster;              /* Bootstrap, Provision: the destination */
    struct machine_stamp stamp;      /* Bootstrap, Provision: of the Need it is bought for */
    struct machine_promise promised; /* Drain: the Need it is for; cluster empty: none */
};

struct inventory_counts {
    uint32_t machines, planned; /* planned: with an action queued */
    uint32_t by_state[MACHINE_STATE_COUNT][CAPACITY_TYPE_COUNT];
};
struct inventory_stats {
    uint32_t machines, cohorts, looks, shapes, stamps, keys, clusters, words;
    uint64_t bytes;       /* on the heap, all of the above and the indexes included */
    uint64_t label_bytes; /* of those: types, zones and labels, and the looks that carry them */
};

/* ERR_INVALID for the options, ERR_NOMEM. */
enum err inventory_open(const struct inventory_options *options, struct inventory **ret_inventory);
void inventory_close(struct inventory *inventory); /* NULL is fine */

/* All changes are all or nothing: after an error the inventory is what it was. The record must have
 * passed machine_check(); its invariant is checked again here (ERR_INVALID, named in the note). */

/* ERR_EXISTS, ERR_FULL, ERR_NOMEM. An Idle machine is Idle since `now`. */
enum err inventory_insert(struct inventory *inventory, const struct machine *machine, mono_time now,
                          struct note *note);
/* Replaces the whole record. Entering Idle stamps "idle since"; staying Idle keeps the stamp;
 * leaving Idle drops it. A new state ends the plan; the same state keeps it. ERR_NOT_FOUND;
 * ERR_PRECONDITION when the source may not make that move; ERR_NOMEM. *ret_edge (may be NULL) is
 * the kind of move, EDGE_REFUSED when the state stayed. */
enum err inventory_apply(struct inventory *inventory, const struct machine *machine,
                         enum inventory_source source, mono_time now, enum machine_edge *ret_edge,
                         struct note *note);
enum err inventory_remove(struct inventory *inventory, struct str id); /* ERR_NOT_FOUND */

/* ERR_NOT_FOUND; ERR_PRECONDITION when the state is not the one the action begins in, or something
 * is planned already; ERR_INVALID for a plan without what it needs; ERR_NOMEM. */
enum err inventory_plan(struct inventory *inventory, struct str id, const struct plan *plan,
                        struct note *note);
/* ERR_NOT_FOUND; nothing planned is fine. ERR_NOMEM: still planned. */
enum err inventory_unplan(struct inventory *inventory, struct str id);

struct inventory_entry {
    struct machine machine; /* as it really is; texts are borrowed until the next change */
    mono_time idle_since;   /* when Idle */
    enum planned_action planned;
    enum machine_state planned_state; /* the real one when nothing is planned */
};
/* Arrays are in the arena. ERR_NOT_FOUND, ERR_NOMEM. */
enum err inventory_get(const struct inventory *inventory, struct str id, struct arena *arena,
                       struct inventory_entry *ret_entry);

/* -- what a provider's List names: listing.c -- */

/* A List begins; its number, from 1. What was inserted or seen before it has not been named.
 * `full`: it names machines in much the order of the last full one, as providers do, which makes
 * them quick to find. */
uint32_t inventory_list_begin(struct inventory *inventory, bool full);
/* It ended. Not `whole`: the order of the one before is kept. */
void inventory_list_end(struct inventory *inventory, bool whole);
enum listed_as {
    LISTED_NEW,     /* no such machine; when it is inserted, see it again */
    LISTED_SAME,    /* all that a provider owns of it is as we have it */
    LISTED_CHANGED, /* something is not */
    LISTED_AGAIN,   /* this List named it before */
};
/* The List names this machine. Costs no memory and, for one that is the same, one look. */
enum listed_as inventory_list_record(struct inventory *inventory, const struct machine *machine);
/* Machines that the List under way has not named; O(1). */
uint32_t inventory_unseen_count(const struct inventory *inventory);
/* The ids of machines that neither List `since` nor a later one named, sorted, in the arena; they
 * are borrowed until the machine goes. Walks all machines. ERR_NOMEM. */
enum err inventory_unseen(const struct inventory *inventory, uint32_t since, struct arena *arena,
                          struct str **ret_ids, size_t *ret_count);
/* The ids of all machines that are really bound to the cluster, in the arena, likewise borrowed;
 * cohort by cohort. Walks no others. ERR_NOMEM. */
enum err inventory_bound(const struct inventory *inventory, struct str cluster, struct arena *arena,
                         struct str **ret_ids, size_t *ret_count);

struct inventory_counts inventory_counts(const struct inventory *inventory); /* real states */
/* Machines of one cluster by planned state: what a reclaim cap is a fraction of. */
uint32_t inventory_cluster_count(const struct inventory *inventory, struct str cluster,
                                 enum machine_state state);
struct inventory_stats inventory_stats(const struct inventory *inventory);
#endif
