/* SPDX-License-Identifier: Apache-2.0 */
/* Every machine of the shard: its record, its state, and what is planned for it.
 *
 * Pure: no clock, no I/O; the caller passes the time. One owner and one thread: the decide thread
 * owns the inventory during a cycle and reads it in place, so nothing is copied.
 *
 * Machines that are equal in everything that the engine reads, except the id, form a *cohort*
 * (cohort.h). All indexes are over cohorts and are updated with every change. A fleet bought in
 * bulk has few cohorts, so the cost of a decision depends on cohorts and Needs, not on machines.
 *
 * Decisions treat a queued action as if it had started. inventory_plan() moves the machine to the
 * cohort it will be in, so the next cycle neither plans it again nor buys a replacement.
 * inventory_unplan() moves the machine back. A change of the machine's real state ends the plan. */
#ifndef SHARD_STATE_INVENTORY_H
#define SHARD_STATE_INVENTORY_H
#include "base/arena.h"
#include "base/time.h"
#include "model/machine.h"

enum { INVENTORY_MACHINES_MOST = 16 << 20 };

struct inventory; /* opaque */
struct inventory_options {
    uint32_t machines_max; /* 1..INVENTORY_MACHINES_MOST; inserting more returns ERR_FULL */
    uint64_t seed;         /* hash seed: random in a shard, fixed in tests */
};

enum inventory_source {
    INVENTORY_DRIVEN,   /* an action of this shard; only transitions of machine.h are allowed */
    INVENTORY_OBSERVED, /* a provider's record of a machine without an action; accepted as fact */
};

/* A queued action, and the state that a machine counts as having before the action starts. */
enum planned_action {
    PLANNED_NOTHING,
    PLANNED_BOOTSTRAP, /* Idle -> Configuring for `cluster`, with a stamp */
    PLANNED_PROVISION, /* Speculative -> Creating for `cluster`, with a stamp */
    PLANNED_DRAIN,     /* Configured -> Draining, with a promise (Reclaim and Preempt) */
    PLANNED_DELETE,    /* Idle -> Deleting */
};
struct plan {
    enum planned_action action;
    struct str cluster;         /* Bootstrap, Provision: the destination */
    struct machine_stamp stamp; /* Bootstrap, Provision: the Need that the machine is bought for */
    struct machine_promise promised; /* Drain: the Need that gets the machine, or none */
};

struct inventory_counts {
    uint32_t machines, planned; /* planned: machines with a queued action */
    uint32_t by_state[MACHINE_STATE_COUNT][CAPACITY_TYPE_COUNT];
};
struct inventory_stats {
    uint32_t machines, cohorts, looks, shapes, stamps, keys, clusters, words;
    uint64_t bytes;       /* heap memory of the inventory, including the indexes */
    uint64_t label_bytes; /* part of `bytes`: types, zones, labels and looks */
};

/* Returns ERR_INVALID for bad options, or ERR_NOMEM. */
enum err inventory_open(const struct inventory_options *options, struct inventory **ret_inventory);
void inventory_close(struct inventory *inventory); /* NULL is allowed */

/* Changes are all or nothing: after an error the inventory is unchanged. A record must have passed
 * machine_check(). The record's invariant is checked again (ERR_INVALID, with a note). */

/* Adds a machine. `now` begins an Idle machine's idle time. ERR_EXISTS, ERR_FULL, ERR_NOMEM. */
enum err inventory_insert(struct inventory *inventory, const struct machine *machine, mono_time now,
                          struct note *note);
/* Replaces the whole record. Entering Idle sets idle_since, staying Idle keeps it, and leaving Idle
 * clears it. A new state ends the plan; the same state keeps the plan. *ret_edge, unless NULL, is
 * the kind of transition, or EDGE_REFUSED if the state is unchanged. Returns ERR_NOT_FOUND,
 * ERR_PRECONDITION if `source` cannot make this transition, or ERR_NOMEM. */
enum err inventory_apply(struct inventory *inventory, const struct machine *machine,
                         enum inventory_source source, mono_time now, enum machine_edge *ret_edge,
                         struct note *note);
enum err inventory_remove(struct inventory *inventory, struct str id); /* ERR_NOT_FOUND */

/* Plans an action. Returns ERR_NOT_FOUND, ERR_PRECONDITION if the machine's state or plan does not
 * allow the action, ERR_INVALID if `plan` is incomplete, or ERR_NOMEM. */
enum err inventory_plan(struct inventory *inventory, struct str id, const struct plan *plan,
                        struct note *note);
/* Removes the plan, if there is one. Returns ERR_NOT_FOUND, or ERR_NOMEM and keeps the plan. */
enum err inventory_unplan(struct inventory *inventory, struct str id);

struct inventory_entry {
    struct machine machine; /* the real record; texts are borrowed until the next change */
    mono_time idle_since;   /* valid only for an Idle machine */
    enum planned_action planned;
    enum machine_state planned_state; /* equals the real state when nothing is planned */
};
/* Reads a machine. Arrays are allocated in `arena`. Returns ERR_NOT_FOUND or ERR_NOMEM. */
enum err inventory_get(const struct inventory *inventory, struct str id, struct arena *arena,
                       struct inventory_entry *ret_entry);

/* -- Lists of a provider: listing.c -- */

/* Starts a List and returns its number, from 1. This List has named no machine yet. `full`: the
 * List names machines in nearly the same order as the last full List, so that most machines are
 * found without a look-up. */
uint32_t inventory_list_begin(struct inventory *inventory, bool full);
/* Ends the List. If it was not `whole`, the order of the previous full List is kept. */
void inventory_list_end(struct inventory *inventory, bool whole);
enum listed_as {
    LISTED_NEW,     /* not in the inventory: the caller reports it again after inserting */
    LISTED_SAME,    /* all fields that the provider owns are unchanged */
    LISTED_CHANGED, /* a field that the provider owns differs */
    LISTED_AGAIN,   /* this List has already named the machine */
};
/* Reports that the List names this machine. Allocates nothing; unchanged machines are cheap. */
enum listed_as inventory_list_record(struct inventory *inventory, const struct machine *machine);
/* Counts machines that the List under way has not named yet. O(1). */
uint32_t inventory_unseen_count(const struct inventory *inventory);
/* Returns the sorted ids of machines that no List from number `since` on has named. The array is in
 * the arena; the ids are borrowed until the machine is removed. Walks all machines. ERR_NOMEM. */
enum err inventory_unseen(const struct inventory *inventory, uint32_t since, struct arena *arena,
                          struct str **ret_ids, size_t *ret_count);
/* Returns the ids of all machines whose real record is bound to the cluster, grouped by cohort. The
 * ids are borrowed as in inventory_unseen(). Reads only these machines. ERR_NOMEM. */
enum err inventory_bound(const struct inventory *inventory, struct str cluster, struct arena *arena,
                         struct str **ret_ids, size_t *ret_count);

struct inventory_counts inventory_counts(const struct inventory *inventory); /* by real state */
/* Counts a cluster's machines whose planned state is `state`. The reclaim cap uses this count. */
uint32_t inventory_cluster_count(const struct inventory *inventory, struct str cluster,
                                 enum machine_state state);
struct inventory_stats inventory_stats(const struct inventory *inventory);
#endif
