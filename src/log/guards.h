/* SPDX-License-Identifier: Apache-2.0 */
/* Guards against the defects of libraft 0.22.1. One guard per defect, all in guards.c. The numbers
 * are those of docs/raft-guards.md, which also names each guard's test.
 *
 * Guards change the input and the output of raft_step, never a field of the library. Their state is
 * in struct guards. Pure. */
#ifndef LOG_GUARDS_H
#define LOG_GUARDS_H
#include <raft.h>

#include "base/time.h"
#include "log/engine.h"

struct guards {
    uint32_t election_ms, heartbeat_ms;
    bool leader_known;     /* guards 6, 15: an append or install in our term or a later one came, */
    mono_time leader_seen; /* most recently at this time, */
    uint64_t leader_term;  /* the term of that append or install */
    uint64_t own_vote,
        own_vote_term;    /* guard 15: a vote given although this replica is not a voter */
    mono_time not_before; /* guard 7: when the engine requests a time-out without effect */
    uint64_t heir; /* guard 19: replica that gets TimeoutNow once it has every entry; 0: none */
};

/* Queries of the library's table of terms. */
uint64_t guards_last_index(const struct raft *raft);
uint64_t guards_term_at(const struct raft *raft, uint64_t index); /* 0: unknown */
/* A voter of the newest configuration. */
bool guards_is_voter(const struct raft *raft, uint64_t id);

/* -- before a step -- */
/* Guard 17. The term to start in; `members` is the newest configuration. A result above `term`
 * means that this replica votes for itself in the new term. */
uint64_t guards_start_term(const struct members *members, uint64_t self, uint64_t term);
/* Guard 23. How long the library waits for a snapshot that it assumes to be in transit. */
uint32_t guards_install_ms(uint32_t election_ms);
/* Guards 6, 15. Records that a message of a leader came. */
void guards_leader_heard(struct guards *guards, const struct raft *raft, uint64_t term,
                         mono_time now);
/* Guards 2, 18. Moves the start of the append past compacted entries. Returns how many to skip. */
unsigned guards_trim_append(const struct raft *raft, struct raft_append_entries *append);
/* Guard 3. How many of the entries may be passed in one step. */
unsigned guards_part(const struct raft_entry *entries, unsigned count);
/* Guard 20. True: the library's uncommitted configuration is committed, and must be reported before
 * this append is passed in. */
bool guards_settles_change(const struct raft *raft, const struct raft_append_entries *append);
/* Guards 1, 4, 6, 8, 15. False: drop the message. May change the message. */
bool guards_admit(struct guards *guards, const struct raft *raft, struct raft_message *message,
                  mono_time now);
bool guards_admit_install(const struct raft *raft); /* guard 9 */
bool guards_admit_snapshot(uint64_t index); /* guard 21: a snapshot that this replica took */
/* Guard 11. ERR_INVALID, ERR_BUSY. */
enum err guards_submit(const struct raft *raft, const struct entry *entries, size_t count);

/* -- after a step -- */
struct guards_step {                      /* which step ran: at most one of these fields is set */
    const struct raft_request_vote *vote; /* as received, before guards_admit changed it */
    uint64_t leader_term;                 /* term of the append or install; 0 for another step */
    bool timeout, timeout_now;
};
/* Guards 1, 5, 14, 15, 16, 19. Patches, drops and adds messages (space for one more than `*count`).
 * True: a vote of this replica must become durable before the messages are sent. */
bool guards_after(struct guards *guards, const struct raft *raft, const struct guards_step *step,
                  mono_time now, struct raft_message *messages, size_t *count);
/* Guard 15. The vote to make durable together with raft_current_term(). */
uint64_t guards_vote(const struct guards *guards, const struct raft *raft);
/* Guards 10, 18. The index up to which entries may be applied. `before`: the previous result. */
uint64_t guards_commit(const struct raft *raft, uint64_t before);
/* Guard 7. When engine_timeout must be called. */
mono_time guards_due(const struct guards *guards, mono_time library_due);
/* The leader to report to others: 0 after an election time-out without contact. */
uint64_t guards_leader(const struct guards *guards, const struct raft *raft, mono_time now);
#endif
