/* SPDX-License-Identifier: Apache-2.0 */
/* Guards against the defects of libraft 0.22.1, numbered as in docs/raft-guards.md, which names
 * each guard's test.
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
    bool leader_known;     /* guards 6, 15: a leader of this or a later term sent a message */
    mono_time leader_seen; /* guards 6, 15: time of the leader's last message */
    uint64_t leader_term;  /* guards 6, 15: term of the leader's last message */
    /* Guard 15: the vote of a replica that is no voter. */
    uint64_t own_vote, own_vote_term;
    mono_time not_before; /* guard 7: no time-out is due before this time */
    uint64_t heir;        /* guard 19: transfer target that still needs TimeoutNow, or 0 */
};

uint64_t guards_last_index(const struct raft *raft);
uint64_t guards_term_at(const struct raft *raft, uint64_t index); /* 0: unknown */
bool guards_is_voter(const struct raft *raft, uint64_t id);

/* -- before a step -- */
/* Guard 17. Returns the term to start in. If the result is above `term`, this replica votes for
 * itself in that term. */
uint64_t guards_start_term(const struct members *members, uint64_t self, uint64_t term);
/* Guard 23. The library's time-out for a snapshot in transit. */
uint32_t guards_install_ms(uint32_t election_ms);
/* Guards 6, 15. A message of the leader of `term` arrived. */
void guards_leader_heard(struct guards *guards, const struct raft *raft, uint64_t term,
                         mono_time now);
/* Guards 2, 18. Skips compacted entries. Returns their number. */
unsigned guards_trim_append(const struct raft *raft, struct raft_append_entries *append);
/* Guard 3. How many of the entries one step may pass to the library. */
unsigned guards_part(const struct raft_entry *entries, unsigned count);
/* Guard 20. True: the append proves that the uncommitted configuration is committed. The engine
 * must report this to the library before the append. */
bool guards_settles_change(const struct raft *raft, const struct raft_append_entries *append);
/* Guards 1, 4, 6, 8, 15. False: drop the message. Can change the message. */
bool guards_admit(struct guards *guards, const struct raft *raft, struct raft_message *message,
                  mono_time now);
bool guards_admit_install(const struct raft *raft); /* guard 9 */
bool guards_admit_snapshot(uint64_t index); /* guard 21; for a snapshot that this replica took */
/* Guard 11. ERR_INVALID, ERR_BUSY. */
enum err guards_submit(const struct raft *raft, const struct entry *entries, size_t count);

/* -- after a step -- */
struct guards_step {                      /* the step that ran: at most one field is set */
    const struct raft_request_vote *vote; /* as received, before guards_admit */
    uint64_t leader_term;                 /* term of an append or install; 0: another step */
    bool timeout, timeout_now;
};
/* Guards 1, 5, 14, 15, 16, 19. Patches, drops and adds messages (space for *count + 1). True: a
 * vote must become durable before the messages are sent. */
bool guards_after(struct guards *guards, const struct raft *raft, const struct guards_step *step,
                  mono_time now, struct raft_message *messages, size_t *count);
/* Guard 15. The vote to make durable together with raft_current_term(). */
uint64_t guards_vote(const struct guards *guards, const struct raft *raft);
/* Guards 10, 18. Last index that may be applied, at least `before`. */
uint64_t guards_commit(const struct raft *raft, uint64_t before);
/* Guard 7. When to call engine_timeout. */
mono_time guards_due(const struct guards *guards, mono_time library_due);
/* 0: unknown, or no contact for an election time-out. */
uint64_t guards_leader(const struct guards *guards, const struct raft *raft, mono_time now);
#endif
