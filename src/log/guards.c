/* SPDX-License-Identifier: Apache-2.0 */
/* Each guard has a comment that names the defect of libraft 0.22.1, its smallest trigger
 * and what is done about it. docs/raft-guards.md has the long story and the tests; the mutant of
 * the same number removes the guard. */
#include "log/guards.h"

/* -- reading the library -- */

/* The trail is a ring of runs: the last index of each run of entries with one term. */
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

/* Defect 17: a lone voter becomes leader without a new term, also after a restart. Trigger: voter A
 * promotes B and its first entries reach B before A's own disk; A loses them in a crash, leads the
 * same term again and writes others under the same index and term. B's log check passes, and the
 * two logs differ for good. Guard: every start of a lone voter is a new term, with our own vote. */
uint64_t guards_start_term(const struct members *members, uint64_t self, uint64_t term)
{
    const struct member *own = members_find(members, self);
    bool lone = own && own->role == MEMBER_VOTER && members_voters(members) == 1;
    return lone ? term + 1 : term;
}

/* Defect 23: when a snapshot is lost on its way and the leader has taken a newer one since, the
 * follower's rejections name the newer and are ignored; nothing is sent for 30 s. Guard: not that
 * long. To be asked again while one is being sent does no harm. */
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

/* Defect 2: an append that begins below the first entry we still have (late, repeated, prev 0)
 * makes the library append what was compacted again and truncate applied entries. Guard: everything
 * up to our snapshot is committed, so a leader of our term has the same; begin behind it. */
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
    /* Defect 18: the commit index is set to the last index of the append even when that is less
     * than it was: a late heartbeat takes it back. Guard: say no more than the append shows. */
    append->leader_commit =
        min_u64(append->leader_commit, append->prev_log_index + append->n_entries);
    return skip;
}

/* Defect 3: a CHANGE that is not the first of the new entries is filed under the index of the
 * first: it never becomes committed, no other change is possible, a rollback can be missed. Guard:
 * cut before each CHANGE. */
unsigned guards_part(const struct raft_entry *entries, unsigned count)
{
    unsigned part = count ? 1 : 0;

    while (part < count && entries[part].type != RAFT_CHANGE) part++;
    return part;
}

/* Defect 20: a second CHANGE replaces the first as "the uncommitted one", although only the second
 * can be uncommitted. Trigger: a follower gets the second before it applied the first; the second
 * is truncated by a new leader: the follower rolls back to what was before the FIRST, and applying
 * the first later is ignored, as it no longer is the uncommitted one. Guard: a leader writes a
 * change only when the one before is committed, so accepting the second commits the first. */
bool guards_settles_change(const struct raft *raft, const struct raft_append_entries *append)
{
    uint64_t first = raft->configuration_uncommitted_index;

    return append->n_entries && append->entries[0].type == RAFT_CHANGE &&
           append->term >= raft->current_term && raft->state != RAFT_LEADER &&
           !raft->snapshot.installing && first && first <= append->prev_log_index &&
           guards_term_at(raft, append->prev_log_index) == append->prev_log_term;
}

/* Defect 4: a rejection that is older than what the follower has acknowledged since takes the next
 * index below the match index. Guard: drop it. Guard 1 answers to an older term with a rejection of
 * UINT64_MAX: news for an old leader, nothing for one that leads again. */
static bool admit_result(const struct raft *raft, uint64_t from,
                         const struct raft_append_entries_result *result)
{
    raft_index match;

    if (raft->state != RAFT_LEADER || result->term != raft->current_term) return true;
    if (raft_match_index(raft, from, &match)) return true;
    if (result->rejected == UINT64_MAX) return false;
    return result->rejected == 0 || result->rejected > match;
}

/* Defect 6: a server that calls itself no voter keeps its known leader for ever and refuses all votes for its
 * sake, and a promoted server may not know yet that it is a voter. Guard: a leader that was silent
 * for an election time-out is not known any more; the flag only skips that check. (The rules of
 * members.h keep the rest of this defect away.)
 * Guard 15: our own vote in this term is kept: another candidate of the same term gets nothing. */
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
        /* Defect 8: the answer to a vote is judged by a field of the candidate's state, whatever
         * the state is: it reads another member of a union, and a late pre-vote answer may raise
         * the term and unseat a leader. Guard: only a candidate takes one. */
        return raft->state == RAFT_CANDIDATE;
    default: return true;
    }
}

/* Defect 9: a second InstallSnapshot while one is being installed is forgotten with its memory.
 * Guard: drop it; the leader sends again. */
bool guards_admit_install(const struct raft *raft)
{
    return !raft->snapshot.installing;
}

/* Defect 21: whether entry 1 is still there is asked by its term, and a snapshot of index 1 has
 * that term: such a leader sends a newcomer neither entry 1 nor the snapshot, but empty appends for
 * ever. Guard: no snapshot of the first configuration alone; it would save nothing. */
bool guards_admit_snapshot(uint64_t index)
{
    return index > 1;
}

/* Defect 11: when a CHANGE is refused in the middle of a batch, the entries before it stay in the
 * library's log and are never handed out. Guard: a CHANGE goes alone and only when it will be
 * taken. */
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

/* Defect 1: an InstallSnapshot (or an append with prev 0) of an older term is answered with success
 * and an uninitialised last index; a leader that leads again counts it, and committed entries are
 * lost. Guard: such an answer is a rejection that no index matches. */
static void patch_result(const struct raft *raft, const struct guards_step *step,
                         struct raft_append_entries_result *result)
{
    if (!step->leader_term || step->leader_term >= raft->current_term) return;
    result->rejected = UINT64_MAX;
    result->last_log_index = 0;
}

/* Guard 15: a non-voter votes. In Raft a server votes whatever its own configuration says, because
 * its configuration may be older than the candidate's; the library does not (defect 6), and after
 * an ill-timed crash around a promotion nobody can win. Only when no leader is heard, only for a
 * log at least as new as ours, and once a term: the vote is kept beside the library's and made
 * durable before the answer leaves. */
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

/* Defect 5: the answer to a pre-vote of a lower term carries the request's term, so the asker never
 * learns ours. Trigger: A has the higher term and the shorter log, B the lower term and the longer
 * log; both ask for ever. Guard: say our term. */
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

/* Guard 16: a non-voter gets committed entries only. Otherwise entries that one dead leader wrote
 * are in a log that cannot campaign and is newer than all that can, and nobody wins. The library
 * takes what is cut off for lost and sends it again. */
static void cut_append(const struct raft *raft, uint64_t to, struct raft_append_entries *append)
{
    uint64_t room = raft->commit_index > append->prev_log_index
                        ? raft->commit_index - append->prev_log_index
                        : 0;

    if (guards_is_voter(raft, to)) return;
    append->n_entries = (unsigned)min_u64(append->n_entries, room);
}

/* Defect 19: TimeoutNow goes out with the first answer of the heir, not with the one that shows it
 * has everything; the heir must ignore it, it is sent once, and proposals wait an election time-out
 * for nothing. Under load that is every hand-over. Guard: hold it back until it can succeed. */
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
        /* Defect 14: a heir that loses its election stays a candidate with leave to disrupt, and
         * unseats the leader at every time-out. Guard: the leave ends with the step that gave
         * it. */
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
    /* Defect 7: for some configurations (a voter made a spare) a time-out stays due however often
     * it is taken. Guard: if it is still due after it was taken, wait half a heartbeat. */
    if (step->timeout && raft_timeout(raft) <= now.ms)
        guards->not_before = mono_after(now, max_u64(guards->heartbeat_ms / 2, 1));
    return voted;
}

uint64_t guards_vote(const struct guards *guards, const struct raft *raft)
{
    if (raft->voted_for) return raft->voted_for;
    return guards->own_vote_term == raft->current_term ? guards->own_vote : 0;
}

/* Defect 10: a heartbeat that comes while a snapshot is being installed moves the commit index over
 * entries that were never handed out. Guard: nothing more may be applied until it is installed. */
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
