/* SPDX-License-Identifier: Apache-2.0 */
/* When a change of members is safe: rules R1, R2, R2b and R3 of docs/raft-guards.md. Pure.
 *
 * The rules are asked by the leader just before it writes the change. "Not yet" is an answer, not a
 * failure: the note says which rule is not met, and asking again later is safe. */
#ifndef LOG_MEMBERS_H
#define LOG_MEMBERS_H
#include "base/note.h"
#include "log/engine.h"

struct members_view { /* the leader's, at this moment */
    uint64_t self;
    const struct members *members; /* the newest configuration */
    uint64_t uncommitted;          /* index of its entry if not committed, else 0 */
    bool own_term_committed;
    uint64_t commit;
    bool handing_over; /* a transfer is under way */
    /* by position in members: how far, and whether it answered within one election time-out */
    uint64_t match[REPLICA_MEMBERS_MAX];
    bool responsive[REPLICA_MEMBERS_MAX];
};
/* The one exception to R2b is the step from one voter to two, which no rule can make safe against
 * the loss of the newcomer: it must answer and have caught up.
 *
 * ERR_OK and the configuration to write; ERR_NOT_READY, ERR_EXISTS, ERR_NOT_FOUND, ERR_INVALID,
 * ERR_FULL with a note; ERR_NOT_LEADER: hand over first (removing the leader itself). */
enum err members_change(const struct members_view *view, enum member_change_kind kind, uint64_t id,
                        struct str address, struct members *ret_next, struct note *note);
/* Whom to hand leadership to: a responsive voter, the furthest. 0: nobody. */
uint64_t members_heir(const struct members_view *view);
/* Whether somebody can be reached there. ERR_INVALID with a note. */
enum err members_check_address(struct str address, struct note *note);
#endif
