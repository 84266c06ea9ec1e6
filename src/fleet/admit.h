/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what the leader does next for a replica that asks to join. Pure: each call returns one
 * step from the configuration, the roster and the request, until ADMIT_DONE.
 *
 *   unknown        enter the replica in the roster -> add it as a learner
 *   learner        wait until it has caught up -> remove a dead older identity of its name ->
 *                  promote it
 *   moved          change its address; if another replica is listed at the new address and the
 *                  leader has reached the moved replica there, the two swap addresses
 *   voter in place remove older identities -> done
 *
 * An older identity with the same name means a lost disk. This identity is removed only after a
 * silence, because otherwise two processes with one name would remove each other. Before the
 * removal the new replica catches up, unless both identities have the same address, which two
 * members never share.
 *
 * The Raft log (log/members.h) decides whether a change of members is safe now. */
#ifndef FLEET_ADMIT_H
#define FLEET_ADMIT_H
#include "base/note.h"
#include "fleet/roster.h"

enum {
    ADMIT_SILENT_MS = 3000,   /* silence after which an older identity counts as dead */
    ADMIT_CATCH_UP_MAX = 1024 /* log entries that a learner may lack */
};
struct admit_request {
    struct roster_entry entry;
    uint64_t cluster_id; /* 0: no cluster yet */
    char raft[REPLICA_ADDRESS_MAX + 1];
};
struct admit_view { /* what the leader currently knows */
    uint64_t cluster_id, commit;
    uint64_t leading_ms; /* time since this leader's election */
    const struct replica_member *members;
    size_t member_count;
    const struct roster *roster;
};
enum admit_kind {
    ADMIT_DONE,   /* the replica is a voter at its address, and in the roster */
    ADMIT_ENTER,  /* propose ROSTER_PUT with the request's entry */
    ADMIT_FORGET, /* propose ROSTER_FORGET of `id` */
    ADMIT_CHANGE, /* call replica_change with `change`, `id` and the Raft address */
    ADMIT_WAIT,   /* call admit_next again later; `note` has the reason */
    ADMIT_REFUSE, /* refuse for good; `err` and `note` have the reason */
};
struct admit_step {
    enum admit_kind kind;
    enum member_change_kind change;
    uint64_t id;
    enum err err;
    struct note note;
};
struct admit_step admit_next(const struct admit_view *view, const struct admit_request *request);
#endif
