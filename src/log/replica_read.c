/* SPDX-License-Identifier: Apache-2.0 */
/* Linearizable reads without a write: a round asks all voters whether they still accept this
 * term.
 *
 * A round serves the tickets that arrived before the round began. The commit index at that time
 * covers everything acknowledged before. A majority that accepts the term afterwards proves that
 * no other leader was elected by then. Responses contain term and round, so an old response
 * proves nothing. No clock is involved.
 *
 * The leader must first commit an entry of its own term. A new leader does not know which
 * entries its predecessor acknowledged. */
#include "log/replica_internal.h"

static struct read_ticket *ticket_at(struct list *node)
{
    return CONTAINER_OF(node, struct read_ticket, link);
}

static void replica_read_refuse(struct replica *replica, struct read_ticket *ticket, enum err err)
{
    ticket->outcome = err;
    list_append(&replica->reads.refused, &ticket->link);
    replica_wake(replica);
}

static enum err replica_read_judge(const struct replica *replica)
{
    if (replica->stopped || replica->closing) return ERR_CLOSED;
    if (engine_role(replica->engine) != REPLICA_LEADER) return ERR_NOT_LEADER;
    if (!replica_ready(replica)) return ERR_NOT_READY;
    return replica->reads.count >= REPLICA_READS_MAX ? ERR_FULL : ERR_OK;
}

void replica_read(struct replica *replica, struct read_ticket *ticket)
{
    enum err err = replica_read_judge(replica);

    list_init(&ticket->link);
    ticket->index = 0;
    replica->reads.count++;
    if (err)
        replica_read_refuse(replica, ticket, err);
    else
        list_append(&replica->reads.fresh, &ticket->link);
    replica_wake(replica);
}

void replica_read_cancel(struct replica *replica, struct read_ticket *ticket)
{
    if (ticket->link.next == &ticket->link) return; /* the ticket is already finished */
    list_remove(&ticket->link);
    assert(replica->reads.count > 0);
    replica->reads.count--;
}

/* -- rounds -- */

static bool has_majority(const struct replica *replica)
{
    const struct replica_reads *reads = &replica->reads;
    const struct members *members = &replica->change.newest;
    size_t yes = 0;

    for (size_t i = 0; i < members->count; i++) {
        const struct member *member = &members->at[i];
        bool said = member->id == replica->id;

        if (member->role != MEMBER_VOTER) continue;
        for (size_t k = 0; !said && k < reads->yes_count; k++)
            said = reads->said_yes[k] == member->id;
        if (said) yes++;
    }
    return yes >= members_voters(members) / 2 + 1;
}

static void ask(struct replica *replica)
{
    struct replica_reads *reads = &replica->reads;
    struct peer_frame frame = {.kind = FRAME_READ_ROUND};

    frame.u.read.term = reads->term;
    frame.u.read.round = reads->number;
    replica_send_all(replica, &frame, true);
    reads->resend_at = mono_after(replica_now(replica), replica->heartbeat_ms);
}

static void confirm(struct replica *replica)
{
    struct replica_reads *reads = &replica->reads;

    LIST_EACH(&reads->round, node) ticket_at(node)->index = reads->index;
    list_splice(&reads->confirmed, &reads->round);
    reads->running = false;
    replica_wake(replica);
}

static void replica_read_begin(struct replica *replica)
{
    struct replica_reads *reads = &replica->reads;

    reads->running = true;
    reads->number++;
    reads->term = engine_term(replica->engine);
    reads->index = engine_commit(replica->engine);
    reads->yes_count = 0;
    list_splice(&reads->round, &reads->fresh);
    replica_count(replica, COUNT_READ_ROUNDS);
    if (has_majority(replica))
        confirm(replica);
    else
        ask(replica);
}

/* Answers a leader's read round: does this replica accept the leader's term? */
void replica_read_asked(struct replica *replica, uint64_t from, const struct frame_read *read)
{
    struct peer_frame frame = {.kind = FRAME_READ_ANSWER, .u.read = *read};

    frame.u.read.yes = engine_term(replica->engine) == read->term;
    if (peers_send(replica->peers, from, &frame)) replica_count(replica, COUNT_MESSAGES_DROPPED);
}

void replica_read_answered(struct replica *replica, uint64_t from, const struct frame_read *read)
{
    struct replica_reads *reads = &replica->reads;

    if (!reads->running || !read->yes) return;
    if (read->term != reads->term) return;
    if (read->round != reads->number) return;
    for (size_t i = 0; i < reads->yes_count; i++)
        if (reads->said_yes[i] == from) return;
    if (reads->yes_count == REPLICA_MEMBERS_MAX) return;
    reads->said_yes[reads->yes_count++] = from;
    if (has_majority(replica)) confirm(replica);
}

void replica_read_role(struct replica *replica)
{
    struct replica_reads *reads = &replica->reads;

    /* Confirmed tickets stay valid: they only wait for apply. */
    reads->running = false;
    list_splice(&reads->round, &reads->fresh);
    for (struct list *node; (node = list_pop(&reads->round));)
        replica_read_refuse(replica, ticket_at(node), ERR_NOT_LEADER);
}

mono_time replica_read_due(const struct replica *replica)
{
    return replica->reads.running ? replica->reads.resend_at : MONO_NEVER;
}

/* -- completion -- */

static void ticket_end(struct replica *replica, struct read_ticket *ticket, enum err err)
{
    replica->reads.count--;
    replica_count(replica, COUNT_READS);
    ticket->done(ticket, err);
}

static void replica_read_notify_refused(struct replica *replica)
{
    struct list refused;

    list_init(&refused); /* a read started by a done() is refused in the next call */
    list_splice(&refused, &replica->reads.refused);
    for (struct list *node; (node = list_pop(&refused));)
        ticket_end(replica, ticket_at(node), ticket_at(node)->outcome);
}

void replica_read_pump(struct replica *replica)
{
    struct replica_reads *reads = &replica->reads;

    if (replica->stopped) return; /* even for confirmed tickets: the state cannot be trusted */
    if (replica_may_step(replica)) {
        if (!reads->running && !list_empty(&reads->fresh))
            replica_read_begin(replica);
        else if (reads->running && mono_due(reads->resend_at, replica_now(replica)))
            ask(replica);
    }
    while (!list_empty(&reads->confirmed)) { /* ordered by index */
        struct read_ticket *ticket = ticket_at(reads->confirmed.next);

        if (ticket->index > replica->applied) break;
        list_remove(&ticket->link);
        ticket_end(replica, ticket, ERR_OK);
    }
    replica_read_notify_refused(replica);
}

void replica_read_open(struct replica *replica)
{
    list_init(&replica->reads.fresh);
    list_init(&replica->reads.round);
    list_init(&replica->reads.confirmed);
    list_init(&replica->reads.refused);
}

void replica_read_close(struct replica *replica, enum err err)
{
    struct replica_reads *reads = &replica->reads;

    list_splice(&reads->round, &reads->fresh);
    list_splice(&reads->round, &reads->confirmed);
    for (struct list *node; (node = list_pop(&reads->round));)
        replica_read_refuse(replica, ticket_at(node), err);
    while (!list_empty(&reads->refused)) replica_read_notify_refused(replica);
}
