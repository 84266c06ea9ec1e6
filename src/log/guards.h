/* SPDX-License-Identifier: Apache-2.0 */
/* The defects of libraft 0.22.1, and what keeps them from us. One guard per defect, all in
 * guards.c; the numbers are those of docs/raft-guards.md, which also names each guard's test.
 *
 * Guards change what goes into raft_step and what comes out of it, never a field of the library.
 * They keep the little state they need here. Pure. */
#ifndef LOG_GUARDS_H
#define LOG_GUARDS_H
#include <raft.h>

#include "base/time.h"
#include "log/engine.h"

struct guards {
    uint32_t election_ms, heartbeat_ms;
    bool leader_known;     /* 6, 15: an append or install of a term at least ours came, */
    mono_time leader_seen; /* last at this time */
    uint64_t leader_term;  /* and in this term */
    uint64_t own_vote, own_vote_term; /* 15: a vote given although we are no voter */
    mono_time not_before;             /* 7: when the engine wants a time-out that changes nothing */
    uint64_t heir; /* 19: TimeoutNow is owed to it as soon as it has everything; 0: nobody */
};

/* Reading the library's log of terms. */
uint64_t guards_last_index(const struct raft *raft);
uint64_t guards_term_at(const struct raft *raft, uint64_t index); /* 0: not known */
bool guards_is_voter(const struct raft *raft, uint64_t id);       /* in the newest configuration */

/* -- before a step -- */
/* 17. The term to start in; `members` is the newest configuration. Above `term`: our vote is in. */
uint64_t guards_start_term(const struct members *members, uint64_t self, uint64_t term);
/* 23. How long the library waits for a snapshot it believes to be on its way. */
uint32_t guards_install_ms(uint32_t election_ms);
/* A message of a leader: 6 and 15 note it. */
void guards_leader_heard(struct guards *guards, const struct raft *raft, uint64_t term,
                         mono_time now);
/* 2, 18. Moves the append past what we compacted; returns how many entries to leave out. */
unsigned guards_trim_append(const struct raft *raft, struct raft_append_entries *append);
/* 3. How many of the entries may go in one step. */
unsigned guards_part(const struct raft_entry *entries, unsigned count);
/* 20. True: the library's uncommitted configuration is committed, and must be reported before this
 * append goes in. */
bool guards_settles_change(const struct raft *raft, const struct raft_append_entries *append);
/* 1, 4, 6, 8, 15. False: drop the message. May change it. */
bool guards_admit(struct guards *guards, const struct raft *raft, struct raft_message *message,
                  mono_time now);
bool guards_admit_install(const struct raft *raft); /* 9 */
bool guards_admit_snapshot(uint64_t index);         /* 21: of our own */
/* 11. ERR_INVALID, ERR_BUSY. */
enum err guards_submit(const struct raft *raft, const struct entry *entries, size_t count);

/* -- after a step -- */
struct guards_step {                      /* what it was: at most one of these is set */
    const struct raft_request_vote *vote; /* as it came, before guards_admit changed it */
    uint64_t leader_term;                 /* of the append or install, else 0 */
    bool timeout, timeout_now;
};
/* 1, 5, 14, 15, 16, 19. Patches, drops and adds messages (room for one more than `*count`). True: a
 * vote of ours must become durable before they leave. */
bool guards_after(struct guards *guards, const struct raft *raft, const struct guards_step *step,
                  mono_time now, struct raft_message *messages, size_t *count);
/* 15. The vote to make durable with raft_current_term(). */
uint64_t guards_vote(const struct guards *guards, const struct raft *raft);
/* 10, 18. What may be applied, given what might be before this step. */
uint64_t guards_commit(const struct raft *raft, uint64_t before);
/* 7. */
mono_time guards_due(const struct guards *guards, mono_time library_due);
/* The leader to show to others: 0 when it has been silent for an election time-out. */
uint64_t guards_leader(const struct guards *guards, const struct raft *raft, mono_time now);
#endif
