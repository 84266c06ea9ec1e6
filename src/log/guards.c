/* SPDX-License-Identifier: Apache-2.0 */
/* Each guard's comment has the defect of libraft 0.22.1 ("the library"), a trigger and the
 * remedy. docs/raft-guards.md has details and tests. A planted bug removes the guard of its
 * number. */
#include "log/guards.h"

/* -- queries of the library -- */

/* The trail is a ring buffer with the last index of each run of entries of one term. */
static unsigned trail_runs(const struct raft_trail *trail)
{
    if (trail->front <= trail->back) return trail->back - trail->front;
    return trail->size - trail->front + trail->back;
}

static uint64_t trail_end(const struct raft_trail *trail, unsigned run)
{
    return trail->records[(trail->front + run) % trail->size].index;
}

uint64_t guards_last_index(const struct raft *raft)
{
    unsigned runs = trail_runs(&raft->trail);
    return runs ? trail_end(&raft->trail, runs - 1) : raft->trail.snapshot.index;
}

uint64_t guards_term_at(const struct raft *raft, uint64_t index)
{
    const struct raft_trail *trail = &raft->trail;
    unsigned runs = trail_runs(trail);

    if (index > trail->offset && runs && index <= trail_end(trail, runs - 1)) {
        while (runs > 1 && index <= trail_end(trail, runs - 2)) runs--;
        return trail->records[(trail->front + runs - 1) % trail->size].term;
    }
    return index && index == trail->snapshot.index ? trail->snapshot.term : 0;
}

bool guards_is_voter(const struct raft *raft, uint64_t id)
{
    for (unsigned i = 0; i < raft->configuration.n; i++) {
        const struct raft_server *server = &raft->configuration.servers[i];
        if (server->id == id) return server->role == RAFT_VOTER;
    }
    return false;
}

static bool leader_silent(const struct guards *guards, mono_time now)
{
    return !guards->leader_known ||
           mono_elapsed_ms(guards->leader_seen, now) >= guards->election_ms;
}

/* -- before a step -- */

/* Defect 17: a single voter becomes leader without a new term, also after a restart. Trigger:
 * voter A promotes B, and A's next entries reach B before A's own disk. A loses the entries in a
 * crash, leads the same term again and writes other entries with the same index and term. B's
 * log check passes, and the two logs differ permanently.
 * Guard: a single voter starts in a new term, in which the voter has voted for itself. */
uint64_t guards_start_term(const struct members *members, uint64_t self, uint64_t term)
{
    const struct member *own = members_find(members, self);
    bool lone = own && own->role == MEMBER_VOTER && members_voters(members) == 1;
    return lone ? term + 1 : term;
}

/* Defect 23: a snapshot is lost in transit after the leader took a newer snapshot. The library
 * ignores the follower's rejections, which name the newer snapshot, and sends nothing for 30 s.
 * Guard: a shorter time-out. A repeated request during a transfer does no harm. */
uint32_t guards_install_ms(uint32_t election_ms)
{
    return 20 * election_ms;
}

void guards_leader_heard(struct guards *guards, const struct raft *raft, uint64_t term,
                         mono_time now)
{
    if (term < raft->current_term) return;
    guards->leader_known = true;
    guards->leader_seen = now;
    guards->leader_term = term;
}

/* Defect 2: an append may begin below this log's first entry, when late, repeated, or with prev
 * 0. The library then appends compacted entries again and truncates applied entries.
 * Guard: skip all entries up to the snapshot. A leader of this term has these entries, because
 * they are committed. */
static unsigned trim_compacted(const struct raft *raft, struct raft_append_entries *append)
{
    uint64_t skip;

    if (append->prev_log_index >= raft->trail.snapshot.index ||
        append->prev_log_index > raft->trail.offset)
        return 0;
    skip = raft->trail.snapshot.index - append->prev_log_index;
    append->prev_log_index = raft->trail.snapshot.index;
    append->prev_log_term = raft->trail.snapshot.term;
    return (unsigned)min_u64(skip, append->n_entries);
}

unsigned guards_trim_append(const struct raft *raft, struct raft_append_entries *append)
{
    unsigned skip = trim_compacted(raft, append);

    append->n_entries -= skip;
    /* Defect 18: the library sets the commit index to the append's last index, even if lower, so
     * a late heartbeat decreases the commit index. Guard: limit leader_commit to the append's
     * last index. */
    append->leader_commit =
        min_u64(append->leader_commit, append->prev_log_index + append->n_entries);
    return skip;
}

/* Defect 3: the library records a CHANGE under the index of the append's first new entry. With a
 * wrong index the change never becomes committed, and a rollback can be missed.
 * Guard: split the append before each CHANGE. */
unsigned guards_part(const struct raft_entry *entries, unsigned count)
{
    unsigned part = count ? 1 : 0;

    while (part < count && entries[part].type != RAFT_CHANGE) part++;
    return part;
}

/* Defect 20: the library remembers one uncommitted CHANGE, so CHANGE 2 replaces CHANGE 1.
 * Trigger: a follower gets CHANGE 2 before it applied CHANGE 1, and a new leader truncates
 * CHANGE 2. The follower rolls back to the configuration before CHANGE 1.
 * Guard: a leader writes CHANGE 2 only after CHANGE 1 is committed. So an accepted CHANGE 2
 * proves that CHANGE 1 is committed. */
bool guards_settles_change(const struct raft *raft, const struct raft_append_entries *append)
{
    uint64_t first = raft->configuration_uncommitted_index;

    return append->n_entries && append->entries[0].type == RAFT_CHANGE &&
           append->term >= raft->current_term && raft->state != RAFT_LEADER &&
           !raft->snapshot.installing && first && first <= append->prev_log_index &&
           guards_term_at(raft, append->prev_log_index) == append->prev_log_term;
}

/* Defect 4: a rejection that is older than the follower's latest acknowledgement sets the next
 * index below the match index. Guard: drop the rejection. A rejection by guard 1 has index
 * UINT64_MAX and is for an old leader; a later leader ignores it. */
static bool admit_result(const struct raft *raft, uint64_t from,
                         const struct raft_append_entries_result *result)
{
    raft_index match;

    if (raft->state != RAFT_LEADER || result->term != raft->current_term) return true;
    if (raft_match_index(raft, from, &match)) return true;
    if (result->rejected == UINT64_MAX) return false;
    return result->rejected == 0 || result->rejected > match;
}

/* Defect 6: a server that is no voter in its own configuration refuses all votes while it knows a
 * leader, and it never forgets a leader. A newer configuration may have promoted the server. Guard:
 * when the leader was silent for an election time-out, set disrupt_leader, which skips this check.
 * Guard 15: this replica's own vote of a term is final, so no other candidate of the term gets a
 * vote. */
static bool admit_vote(const struct guards *guards, const struct raft *raft,
                       struct raft_request_vote *vote, mono_time now)
{
    if (!vote->pre_vote && guards->own_vote && guards->own_vote_term == vote->term &&
        guards->own_vote != vote->candidate_id)
        return false;
    if (raft->state == RAFT_FOLLOWER && leader_silent(guards, now)) vote->disrupt_leader = true;
    return true;
}

bool guards_admit(struct guards *guards, const struct raft *raft, struct raft_message *message,
                  mono_time now)
{
    switch (message->type) {
    case RAFT_APPEND_ENTRIES_RESULT:
        return admit_result(raft, message->server_id, &message->append_entries_result);
    case RAFT_REQUEST_VOTE: return admit_vote(guards, raft, &message->request_vote, now);
    case RAFT_REQUEST_VOTE_RESULT:
        /* Defect 8: the library checks a vote response against a field of the candidate's state.
         * In other states the field is another member of a union, so a late pre-vote response
         * may depose a leader. Guard: only a candidate accepts vote responses. */
        return raft->state == RAFT_CANDIDATE;
    default: return true;
    }
}

/* Defect 9: the library drops a second InstallSnapshot during an install, and leaks its memory.
 * Guard: drop the message earlier. The leader sends the message again. */
bool guards_admit_install(const struct raft *raft)
{
    return !raft->snapshot.installing;
}

/* Defect 21: the library assumes that entry 1 exists if its term is known, but a snapshot at
 * index 1 has this term, too. The leader then sends a new member empty appends for ever. Guard:
 * no snapshot at index 1. */
bool guards_admit_snapshot(uint64_t index)
{
    return index > 1;
}

/* Defect 11: if a CHANGE is refused in the middle of a batch, the entries before the CHANGE stay
 * in the library's log and are never returned. Guard: submit a CHANGE alone, and only if the
 * library will accept it. */
enum err guards_submit(const struct raft *raft, const struct entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (entries[i].kind != ENTRY_CHANGE) continue;
        if (count > 1) return ERR_INVALID;
        if (raft->configuration_uncommitted_index) return ERR_BUSY;
    }
    return ERR_OK;
}

/* -- after a step -- */

/* Defect 1: the library answers an InstallSnapshot (or an append with prev 0) of an older term
 * with success and an uninitialised last index. A replica that leads again counts this answer,
 * and committed entries are lost. Guard: a rejection whose index matches nothing. */
static void patch_result(const struct raft *raft, const struct guards_step *step,
                         struct raft_append_entries_result *result)
{
    if (!step->leader_term || step->leader_term >= raft->current_term) return;
    result->rejected = UINT64_MAX;
    result->last_log_index = 0;
}

/* Guard 15: a non-voter votes, as in Raft, because its configuration may be older than the
 * candidate's. The library does not vote (defect 6), so after an ill-timed crash during a
 * promotion nobody can win. A non-voter votes once per term, only without a leader, and only for
 * a log at least as new as its own. The vote is durable before the response is sent. */
static bool grants(struct guards *guards, const struct raft *raft,
                   const struct raft_request_vote *vote, mono_time now, bool *ret_voted)
{
    uint64_t last = guards_last_index(raft), last_term = guards_term_at(raft, last);
    uint64_t given = guards_vote(guards, raft);

    if (guards_is_voter(raft, raft->id) || raft->snapshot.installing ||
        raft->state != RAFT_FOLLOWER || (!vote->disrupt_leader && !leader_silent(guards, now)))
        return false;
    if (vote->last_log_term < last_term ||
        (vote->last_log_term == last_term && vote->last_log_index < last))
        return false;
    if (vote->pre_vote) return vote->term >= raft->current_term;
    if (vote->term != raft->current_term || (given && given != vote->candidate_id)) return false;
    *ret_voted = given == 0;
    guards->own_vote = vote->candidate_id;
    guards->own_vote_term = vote->term;
    return true;
}

/* Defect 5: the response to a pre-vote of a lower term contains the request's term, so the
 * sender never learns the voter's term. Trigger: A has a higher term but a shorter log than B. A
 * and B request pre-votes of each other for ever. Guard: respond with the voter's term. */
static bool patch_vote_result(struct guards *guards, const struct raft *raft,
                              const struct guards_step *step, mono_time now,
                              struct raft_request_vote_result *result)
{
    bool voted = false;

    if (!step->vote) return false;
    if (!result->vote_granted && grants(guards, raft, step->vote, now, &voted))
        result->vote_granted = true;
    if (result->pre_vote && result->term < raft->current_term) result->term = raft->current_term;
    return voted;
}

/* Guard 16: a leader sends a non-voter only committed entries. Otherwise, after the leader's
 * death, only a non-voter may have the newest log. A non-voter cannot campaign and votes for no
 * older log, so nobody wins. The library sends the missing entries again. */
static void cut_append(const struct raft *raft, uint64_t to, struct raft_append_entries *append)
{
    uint64_t room = raft->commit_index > append->prev_log_index
                        ? raft->commit_index - append->prev_log_index
                        : 0;

    if (guards_is_voter(raft, to)) return;
    append->n_entries = (unsigned)min_u64(append->n_entries, room);
}

/* Defect 19: the library sends TimeoutNow after the target's first response, even if the target
 * lacks entries. The target then ignores the only TimeoutNow, and proposals wait for an election
 * time-out. Guard: send TimeoutNow only after the target has every entry. */
static bool heir_ready(const struct raft *raft, uint64_t heir)
{
    raft_index match;
    return !raft_match_index(raft, heir, &match) && match == guards_last_index(raft);
}

static bool patch_message(struct guards *guards, const struct raft *raft,
                          const struct guards_step *step, mono_time now,
                          struct raft_message *message, bool *ret_keep)
{
    *ret_keep = true;
    switch (message->type) {
    case RAFT_APPEND_ENTRIES_RESULT:
        patch_result(raft, step, &message->append_entries_result);
        return false;
    case RAFT_REQUEST_VOTE_RESULT:
        return patch_vote_result(guards, raft, step, now, &message->request_vote_result);
    case RAFT_APPEND_ENTRIES:
        cut_append(raft, message->server_id, &message->append_entries);
        return false;
    case RAFT_REQUEST_VOTE:
        /* Defect 14: a transfer target that loses its election stays a candidate that may
         * disrupt a leader, and unseats the leader at every time-out. Guard: only requests of
         * the step that handled TimeoutNow may disrupt a leader. */
        if (!step->timeout_now) message->request_vote.disrupt_leader = false;
        return false;
    case RAFT_TIMEOUT_NOW:
        if (heir_ready(raft, message->server_id)) return false;
        guards->heir = message->server_id;
        *ret_keep = false;
        return false;
    default: return false;
    }
}

static bool owes_timeout_now(struct guards *guards, const struct raft *raft,
                             struct raft_message *ret_message)
{
    uint64_t last = guards_last_index(raft);

    if (!guards->heir) return false;
    if (raft_transferee(raft) != guards->heir) guards->heir = 0;
    if (!guards->heir || !heir_ready(raft, guards->heir)) return false;
    *ret_message = (struct raft_message){
        .type = RAFT_TIMEOUT_NOW,
        .server_id = guards->heir,
        .server_address = "",
        .timeout_now = {.term = raft->current_term,
                        .last_log_index = last,
                        .last_log_term = guards_term_at(raft, last)},
    };
    guards->heir = 0;
    return true;
}

bool guards_after(struct guards *guards, const struct raft *raft, const struct guards_step *step,
                  mono_time now, struct raft_message *messages, size_t *count)
{
    bool voted = false;
    size_t kept = 0;

    for (size_t i = 0; i < *count; i++) {
        struct raft_message message = messages[i];
        bool keep;
        if (patch_message(guards, raft, step, now, &message, &keep)) voted = true;
        if (keep) messages[kept++] = message;
    }
    if (owes_timeout_now(guards, raft, &messages[kept])) kept++;
    *count = kept;
    /* Defect 7: in some configurations, such as a voter demoted to spare, a time-out stays due
     * after it was handled. Guard: if the time-out is still due, wait half a heartbeat. */
    if (step->timeout && raft_timeout(raft) <= now.ms)
        guards->not_before = mono_after(now, max_u64(guards->heartbeat_ms / 2, 1));
    return voted;
}

uint64_t guards_vote(const struct guards *guards, const struct raft *raft)
{
    if (raft->voted_for) return raft->voted_for;
    return guards->own_vote_term == raft->current_term ? guards->own_vote : 0;
}

/* Defect 10: during the install of a snapshot, a heartbeat moves the commit index past entries
 * that the library never returned. Guard: apply nothing until the snapshot is installed. */
uint64_t guards_commit(const struct raft *raft, uint64_t before)
{
    if (raft->snapshot.installing) return before;
    return max_u64(raft->commit_index, before);
}

mono_time guards_due(const struct guards *guards, mono_time library_due)
{
    return (mono_time){max_u64(library_due.ms, guards->not_before.ms)};
}

uint64_t guards_leader(const struct guards *guards, const struct raft *raft, mono_time now)
{
    if (raft->state == RAFT_LEADER) return raft->id;
    if (raft->state != RAFT_FOLLOWER || leader_silent(guards, now) ||
        guards->leader_term != raft->current_term)
        return 0;
    return raft->follower_state.current_leader.id;
}
