/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when a change of members is safe: rules R1, R2, R2b and R3 of docs/raft-guards.md. Pure.
 *
 * The leader checks the rules just before it writes the change. ERR_NOT_READY is no failure: the
 * note names the unmet rule, and the caller may retry at any time. */
#ifndef LOG_MEMBERS_H
#define LOG_MEMBERS_H
#include "base/note.h"
#include "log/engine.h"

struct members_view { /* state of the leader at this moment */
    uint64_t self;
    const struct members *members; /* the newest configuration */
    uint64_t uncommitted;          /* index of that configuration's entry; 0 if committed */
    bool own_term_committed;
    uint64_t commit;
    bool handing_over; /* a leadership transfer is in progress */
    /* By position in `members`: the replicated index, and whether the member responded within one
     * election time-out. */
    uint64_t match[REPLICA_MEMBERS_MAX];
    bool responsive[REPLICA_MEMBERS_MAX];
};
/* Returns the configuration to write, or an error with a note.
 *
 * R2b has one exception, the step from one voter to two: no rule can make that step safe against
 * the loss of the new member, so the new member must respond and have caught up.
 *
 * ERR_NOT_READY, ERR_EXISTS, ERR_NOT_FOUND, ERR_INVALID, ERR_FULL; ERR_NOT_LEADER: the change
 * removes this leader, so transfer leadership first. */
enum err members_change(const struct members_view *view, enum member_change_kind kind, uint64_t id,
                        struct str address, struct members *ret_next, struct note *note);
/* Returns the best transfer target, the responsive voter with the highest match index, or 0. */
uint64_t members_heir(const struct members_view *view);
/* Checks that other replicas can dial the address. Returns ERR_INVALID with a note if not. */
enum err members_check_address(struct str address, struct note *note);
#endif
