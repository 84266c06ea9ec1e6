/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when a replica asks to join the cluster (coordinator.md 13), and parses its ordinal.
 * Pure. bootstrap_rules.h decides which replica bootstraps a cluster.
 *
 * A replica asks until a leader is known and the replica is a voter at its own addresses. A leader
 * asks itself; other replicas ask at the join addresses, after 1, 2, 4, 8 and then always 15
 * seconds. A new leader checks its own entry immediately. A replica that was removed on purpose
 * stays out until its restart. */
#ifndef FLEET_JOIN_H
#define FLEET_JOIN_H
#include "base/note.h"
#include "base/str.h"
#include "base/time.h"

enum {
    JOIN_WAIT_FIRST_MS = 1000,
    JOIN_WAIT_MAX_MS = 15000,
    JOIN_CALL_MS = 10000, /* timeout of a request to join */
    JOIN_NAME_MAX = 63,
};

/* Parses the decimal number after the last '-' of the id. ERR_INVALID with a note. */
enum err join_ordinal(struct str id, uint64_t *ret_ordinal, struct note *note);

/* Checks that a name has 1 to 63 visible ASCII characters. ERR_INVALID with a note. */
enum err join_name(struct str id, struct note *note);

/* -- joining -- */
struct join_view { /* what the replica knows about its membership */
    bool leader_known, leads, ready;
    bool member, voter;
    bool in_place; /* at the replica's current addresses */
};
struct join { /* zeroed at the start */
    uint64_t wait_ms;
    mono_time ask_at;
    bool asking, settled, had_place, removed, led;
};
enum join_event { JOIN_LOOK, JOIN_ANSWERED };
struct join_effects {
    bool ask;          /* ask at the join addresses; JOIN_ANSWERED follows */
    bool fix;          /* this leader corrects its own roster entry; JOIN_ANSWERED follows */
    bool settled;      /* the replica became a voter at its addresses */
    bool removed;      /* the replica ceased to be a member */
    mono_time wake_at; /* call join_step with JOIN_LOOK then */
};
struct join_effects join_step(struct join *join, enum join_event event,
                              const struct join_view *view, mono_time now);
#endif
