/* SPDX-License-Identifier: Apache-2.0 */
/* A replica's own part in forming the quorum, as pure decisions: its ordinal, and when to ask for
 * its place. coordinator.md 13 with its Decision. Who bootstraps a cluster: bootstrap_rules.h.
 *
 * Joining. Until a leader is known and the replica is a voter at exactly its own addresses, ask:
 * the leader of itself, everybody else at the join addresses; then wait 1, 2, 4, 8, 15, 15 ... s,
 * whatever the answer was. A replica that becomes the leader looks at its own entry at once. The
 * surprising rule: a replica that had its place and lost it does not ask again unless it is still
 * a member, so that one that was removed on purpose stays out until it is started anew. */
#ifndef FLEET_JOIN_H
#define FLEET_JOIN_H
#include "base/note.h"
#include "base/str.h"
#include "base/time.h"

enum {
    JOIN_WAIT_FIRST_MS = 1000,
    JOIN_WAIT_MAX_MS = 15000,
    JOIN_CALL_MS = 10000, /* one request for a place */
    JOIN_NAME_MAX = 63,
};

/* The decimal number after the last '-'. ERR_INVALID with a note. */
enum err join_ordinal(struct str id, uint64_t *ret_ordinal, struct note *note);

/* 1 to 63 visible ASCII characters. ERR_INVALID with a note. */
enum err join_name(struct str id, struct note *note);

/* -- joining -- */
struct join_view { /* what this replica knows of itself now */
    bool leader_known, leads, ready;
    bool member, voter;
    bool in_place; /* its address in the configuration and its entry in the roster are right */
};
struct join { /* zeroed: the beginning */
    uint64_t wait_ms;
    mono_time ask_at;
    bool asking, settled, had_place, removed, led;
};
enum join_event { JOIN_LOOK, JOIN_ANSWERED };
struct join_effects {
    bool ask;          /* for our place, at the join addresses; JOIN_ANSWERED follows */
    bool fix;          /* we lead: bring our own entry in order; JOIN_ANSWERED follows */
    bool settled;      /* just now: a voter in place */
    bool removed;      /* just now: no member any more */
    mono_time wake_at; /* JOIN_LOOK then, and whenever the view changes */
};
struct join_effects join_step(struct join *join, enum join_event event,
                              const struct join_view *view, mono_time now);
#endif
