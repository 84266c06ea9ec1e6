/* SPDX-License-Identifier: Apache-2.0 */
/* What a leader does next for a replica that asks for its place. Pure: one step at a time, from the
 * configuration, the roster and the request; asking again after each step leads to ADMIT_DONE.
 *
 *   unknown        enter it in the roster -> add it as a learner
 *   learner        wait until it has caught up -> remove a dead older identity of its name ->
 *                  promote it
 *   moved          rewrite its address in place; if another is listed there, once we have met
 *                  the mover there, and the other gets its old one until it asks for its own
 *   voter in place remove what is left of older identities -> done
 *
 * An older identity of the same name is a lost disk: a voter that forgot its votes never votes
 * again. It is removed only once it has been silent, else two processes of one name would throw
 * each other out. It is removed before the newcomer is added only when it has the newcomer's
 * address, for two members never share one; otherwise the newcomer catches up first.
 *
 * Whether a change of members is safe at this moment is not judged here but by the log
 * (log/members.h), which may answer "not yet". */
#ifndef FLEET_ADMIT_H
#define FLEET_ADMIT_H
#include "base/note.h"
#include "fleet/roster.h"

enum {
    ADMIT_SILENT_MS = 3000,   /* an older identity counts as dead after this */
    ADMIT_CATCH_UP_MAX = 1024 /* entries a learner may lack to count as caught up */
};
struct admit_request {
    struct roster_entry entry;
    uint64_t cluster_id; /* 0: its directory belongs to no cluster yet */
    char raft[REPLICA_ADDRESS_MAX + 1];
};
struct admit_view { /* the leader's, at this moment */
    uint64_t cluster_id, commit;
    uint64_t leading_ms; /* since when it leads: it cannot have heard anybody before */
    const struct replica_member *members;
    size_t member_count;
    const struct roster *roster;
};
enum admit_kind {
    ADMIT_DONE,   /* a voter at its address, and the roster says so */
    ADMIT_ENTER,  /* propose ROSTER_PUT with the request's entry */
    ADMIT_FORGET, /* propose ROSTER_FORGET of `id` */
    ADMIT_CHANGE, /* replica_change: `change`, `id`, the request's Raft address */
    ADMIT_WAIT,   /* ask again later; `note` says for what */
    ADMIT_REFUSE, /* it will never be: `err` and `note` */
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
