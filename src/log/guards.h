/* SPDX-License-Identifier: Apache-2.0 */
/* Guards against the defects of libraft 0.22.1. One guard per defect, all in guards.c. The numbers
 * are those of docs/raft-guards.md, which also names each guard's test.
 *
 * Guards change the input and the output of raft_step, never a field of the library. The guards'
 * state is in struct guards. Pure. */
#ifndef LOG_GUARDS_H
#define LOG_GUARDS_H
#include <raft.h>

#include "base/time.h"
#include "log/engine.h"

struct guards {
    uint32_t election_ms, heartbeat_ms;
    bool leader_known;     /* guards 6, 15: a leader of our or a later term sent a message */
    mono_time leader_seen; /* guards 6, 15: time of the leader's last message */
    uint64_t leader_term;  /* guards 6, 15: term of the leader's last message */
    /* Guard 15: a vote given although this replica is not a voter. */
    uint64_t own_vote, own_vote_term;
    mono_time not_before; /* guard 7: no time-out is due before this time */
    uint64_t heir;        /* guard 19: transfer target that has not got TimeoutNow yet, or 0 */
};

/* Queries of the library's table of terms. */
uint64_t guards_last_index(const struct raft *raft);
uint64_t guards_term_at(const struct raft *raft, uint64_t index); /* 0: unknown */
/* Returns whether `id` is a voter of the newest configuration. */
bool guards_is_voter(const struct raft *raft, uint64_t id);

/* -- before a step -- */
/* Guard 17. Returns the term to start in; `members` is the newest configuration. If the result is
 * above `term`, this replica votes for itself in the new term. */
uint64_t guards_start_term(const struct members *members, uint64_t self, uint64_t term);
/* Guard 23. Returns how long the library waits for a snapshot that it assumes to be in transit. */
uint32_t guards_install_ms(uint32_t election_ms);
/* Guards 6, 15. Records that a message of the leader of `term` arrived. */
void guards_leader_heard(struct guards *guards, const struct raft *raft, uint64_t term,
                         mono_time now);
/* Guards 2, 18. Moves the start of the append past compacted entries. Returns their number. */
unsigned guards_trim_append(const struct raft *raft, struct raft_append_entries *append);
/* Guard 3. Returns how many of the entries may be passed to the library in one step. */
unsigned guards_part(const struct raft_entry *entries, unsigned count);
/* Guard 20. Returns true if the append proves that the library's uncommitted configuration is
 * committed. The engine must report this to the library before the append. */
bool guards_settles_change(const struct raft *raft, const struct raft_append_entries *append);
/* Guards 1, 4, 6, 8, 15. Returns false if the message must be dropped. Can change the message. */
bool guards_admit(struct guards *guards, const struct raft *raft, struct raft_message *message,
                  mono_time now);
bool guards_admit_install(const struct raft *raft); /* guard 9 */
bool guards_admit_snapshot(uint64_t index); /* guard 21; for a snapshot that this replica took */
/* Guard 11. ERR_INVALID, ERR_BUSY. */
enum err guards_submit(const struct raft *raft, const struct entry *entries, size_t count);

/* -- after a step -- */
struct guards_step {                      /* which step ran: at most one of these fields is set */
    const struct raft_request_vote *vote; /* as received, before guards_admit changed it */
    uint64_t leader_term;                 /* term of the append or install; 0 for another step */
    bool timeout, timeout_now;
};
/* Guards 1, 5, 14, 15, 16, 19. Patches, drops and adds messages (space for *count + 1). Returns
 * true if a vote of this replica must become durable before the messages are sent. */
bool guards_after(struct guards *guards, const struct raft *raft, const struct guards_step *step,
                  mono_time now, struct raft_message *messages, size_t *count);
/* Guard 15. Returns the vote to make durable together with raft_current_term(). */
uint64_t guards_vote(const struct guards *guards, const struct raft *raft);
/* Guards 10, 18. Returns the index up to which entries may be applied, at least `before`. */
uint64_t guards_commit(const struct raft *raft, uint64_t before);
/* Guard 7. Returns when engine_timeout must be called. */
mono_time guards_due(const struct guards *guards, mono_time library_due);
/* Returns the leader to report to others, or 0 after an election time-out without contact. */
uint64_t guards_leader(const struct guards *guards, const struct raft *raft, mono_time now);
#endif
