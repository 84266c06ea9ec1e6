/* SPDX-License-Identifier: Apache-2.0 */
/* Decides when a change of members is safe: rules R1, R2, R2b and R3 of docs/raft-guards.md.
 * Pure. The leader checks the rules just before it writes the change. */
#ifndef LOG_MEMBERS_H
#define LOG_MEMBERS_H
#include "base/note.h"
#include "log/engine.h"

struct members_view { /* the leader's state now */
    uint64_t self;
    const struct members *members;
    uint64_t uncommitted; /* index of the entry of `members`; 0 if committed */
    bool own_term_committed;
    uint64_t commit;
    bool handing_over; /* a leadership transfer is in progress */
    /* By position in `members`. responsive: the member responded within one election time-out. */
    uint64_t match[REPLICA_MEMBERS_MAX];
    bool responsive[REPLICA_MEMBERS_MAX];
};
/* Returns the configuration to write, or an error with a note. For the step from one voter to
 * two, the new member must respond and have caught up (exception of R2b).
 * ERR_NOT_READY   the note names the unmet rule; retry later
 * ERR_NOT_LEADER  the change removes this leader: transfer leadership first
 * ERR_EXISTS, ERR_NOT_FOUND, ERR_INVALID, ERR_FULL */
enum err members_change(const struct members_view *view, enum member_change_kind kind, uint64_t id,
                        struct str address, struct members *ret_next, struct note *note);
/* The responsive voter with the highest match index, or 0. */
uint64_t members_heir(const struct members_view *view);
/* ERR_INVALID, with a note: other replicas cannot dial the address. */
enum err members_check_address(struct str address, struct note *note);
#endif
