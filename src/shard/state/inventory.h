/* SPDX-License-Identifier: Apache-2.0 */
/* Every machine of the shard: its record, its state, and what is planned for it. Pure. The decide
 * thread owns the inventory.
 *
 * Machines that are equal for the engine, except for the id, form a *cohort* (cohort.h). All
 * indexes are over cohorts, so the cost of a decision depends on cohorts and Needs, not on
 * machines.
 *
 * inventory_plan() moves the machine of a queued action to the cohort that the action leads to, so
 * that the next decision does not plan the machine again. inventory_unplan() moves the machine
 * back. */
#ifndef SHARD_STATE_INVENTORY_H
#define SHARD_STATE_INVENTORY_H
#include "base/arena.h"
#include "base/time.h"
#include "model/machine.h"

enum { INVENTORY_MACHINES_MOST = 16 << 20 };

struct inventory; /* opaque */
struct inventory_options {
    uint32_t machines_max; /* 1..INVENTORY_MACHINES_MOST; beyond: ERR_FULL */
    uint64_t seed;         /* hash seed: random in a shard, fixed in tests */
};

enum inventory_source {
    INVENTORY_DRIVEN,   /* an action of this shard; only transitions of machine.h are allowed */
    INVENTORY_OBSERVED, /* a provider's record of a machine without an action; always accepted */
};

/* A queued action, and the state that decisions assume meanwhile. */
enum planned_action {
    PLANNED_NOTHING,
    PLANNED_BOOTSTRAP, /* Idle -> Configuring for `cluster`, with a stamp */
    PLANNED_PROVISION, /* Speculative -> Creating for `cluster`, with a stamp */
    PLANNED_DRAIN,     /* Configured -> Draining, with the Need that gets the machine */
    PLANNED_DELETE,    /* Idle -> Deleting */
};
struct plan {
    enum planned_action action;
    struct str cluster;              /* Bootstrap, Provision: the destination */
    struct machine_stamp stamp;      /* Bootstrap, Provision: the Need */
    struct machine_promise promised; /* Drain: the Need that gets the machine, or none */
};

/* What a machine runs, as its operator reports it. Only a Configured machine has an occupancy; every
 * other state, and each change of the state, makes it unknown. */
enum occupancy {
    OCCUPANCY_UNKNOWN,
    OCCUPANCY_EMPTY,
    OCCUPANCY_EVICTABLE, /* everything may be evicted, and probably has room elsewhere */
    OCCUPANCY_HELD,      /* something may not be evicted, or has no room elsewhere */
};
/* `disruption` is the penalty bucket of an evictable machine; other machines ignore it. Does nothing
 * if the machine is not Configured. ERR_NOT_FOUND, ERR_NOMEM. */
enum err inventory_occupy(struct inventory *inventory, struct str id, enum occupancy occupancy,
                          uint8_t disruption);

struct inventory_counts {
    uint32_t machines, planned; /* planned: machines with a queued action */
    uint32_t by_state[MACHINE_STATE_COUNT][CAPACITY_TYPE_COUNT];
    uint32_t cordoned[CORDON_COUNT]; /* CORDON_NONE: all others */
};
struct inventory_stats {
    uint32_t machines, cohorts, looks, shapes, stamps, keys, clusters, words;
    uint64_t bytes;       /* heap memory, including the indexes */
    uint64_t label_bytes; /* part of `bytes`: types, zones, labels and looks */
};

/* ERR_INVALID for bad options, ERR_NOMEM. */
enum err inventory_open(const struct inventory_options *options, struct inventory **ret_inventory);
void inventory_close(struct inventory *inventory); /* NULL is allowed */

/* After an error the inventory is unchanged. A record must have passed machine_check(); its
 * invariant is checked again (ERR_INVALID, with a note). */

/* `now` is the start of an Idle machine's idle time. ERR_EXISTS, ERR_FULL, ERR_NOMEM. */
enum err inventory_insert(struct inventory *inventory, const struct machine *machine, mono_time now,
                          struct note *note);
/* Replaces the whole record. A new state ends the plan. *ret_edge (may be NULL) is the kind of
 * transition, or EDGE_REFUSED if the state is unchanged. ERR_NOT_FOUND, ERR_NOMEM, ERR_PRECONDITION
 * if `source` cannot make this transition. */
enum err inventory_apply(struct inventory *inventory, const struct machine *machine,
                         enum inventory_source source, mono_time now, enum machine_edge *ret_edge,
                         struct note *note);
enum err inventory_remove(struct inventory *inventory, struct str id); /* ERR_NOT_FOUND */

/* ERR_NOT_FOUND, ERR_NOMEM, ERR_PRECONDITION if the machine's state or plan does not allow the
 * action, ERR_INVALID if `plan` is incomplete. */
enum err inventory_plan(struct inventory *inventory, struct str id, const struct plan *plan,
                        struct note *note);
/* Removes the plan, if there is one. ERR_NOT_FOUND. ERR_NOMEM: the plan stays. */
enum err inventory_unplan(struct inventory *inventory, struct str id);

struct inventory_entry {
    struct machine machine; /* the real record; texts are borrowed until the next change */
    mono_time idle_since;   /* valid only for an Idle machine */
    enum occupancy occupancy;
    uint8_t disruption; /* of an evictable machine */
    enum planned_action planned;
    enum machine_state planned_state; /* the real state if nothing is planned */
};
/* Arrays are in `arena`. ERR_NOT_FOUND, ERR_NOMEM. */
enum err inventory_get(const struct inventory *inventory, struct str id, struct arena *arena,
                       struct inventory_entry *ret_entry);

/* -- Lists of a provider: listing.c -- */

/* Starts a List and returns its number, from 1. `full`: the List probably has the order of the last
 * full List, which saves look-ups. */
uint32_t inventory_list_begin(struct inventory *inventory, bool full);
/* If not `whole`, the order of the previous full List is kept. */
void inventory_list_end(struct inventory *inventory, bool whole);
enum listed_as {
    LISTED_NEW,     /* not in the inventory; after inserting, call inventory_list_record() again */
    LISTED_SAME,    /* all fields that the provider owns are unchanged */
    LISTED_CHANGED, /* a field that the provider owns differs */
    LISTED_AGAIN,   /* this List already contained the machine */
};
/* Call for each record of the List. Allocates nothing. */
enum listed_as inventory_list_record(struct inventory *inventory, const struct machine *machine);
/* Counts machines that the current List has not contained yet. O(1). */
uint32_t inventory_unseen_count(const struct inventory *inventory);
/* Returns the sorted ids of machines that no List since number `since` contained. The array is in
 * the arena; the ids are borrowed until the machine is removed. ERR_NOMEM. */
enum err inventory_unseen(const struct inventory *inventory, uint32_t since, struct arena *arena,
                          struct str **ret_ids, size_t *ret_count);
/* Returns the ids of all machines whose real record is bound to the cluster. Borrowed as by
 * inventory_unseen(). ERR_NOMEM. */
enum err inventory_bound(const struct inventory *inventory, struct str cluster, struct arena *arena,
                         struct str **ret_ids, size_t *ret_count);

struct inventory_counts inventory_counts(const struct inventory *inventory); /* by real state */
/* Counts a cluster's machines by planned state. */
uint32_t inventory_cluster_count(const struct inventory *inventory, struct str cluster,
                                 enum machine_state state);
struct inventory_stats inventory_stats(const struct inventory *inventory);
#endif
