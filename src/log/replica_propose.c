/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals: checked on arrival, gathered during a turn, submitted at its end, and decided when
 * their index is applied.
 *
 *     IDLE --> GATHERED --> SUBMITTED --its index is applied--> IDLE: done(), now
 *       |         |             | abandoned, leadership lost, skipped by a snapshot, closed
 *       +-refused-+-------------+--> DECIDED --the pump--> IDLE: done(outcome)
 *
 * A proposal is identified by (index, term). If its index is applied with its term, the proposal
 * was applied: ERR_OK. With another term it can never be applied: ERR_NOT_LEADER.
 *
 * A replaced entry of this log proves nothing, because another replica may still commit it. So
 * proposals of a lost leadership wait for two election time-outs and then get ERR_UNKNOWN. Each
 * leadership has its own list, because the next leadership may start at a lower index.
 *
 * Bytes in flight count until the entry is applied, even if the caller has gone (a placeholder
 * replaces its proposal). Otherwise the memory of a leader without a majority could grow without
 * bound. */
#include "log/replica_internal.h"

#include <stdlib.h>

enum {
    ENTRY_OVERHEAD = 128, /* memory of one entry, besides its bytes */
    BYTES_KEPT = 4 << 20, /* largest gathering buffer that is kept */
};

static struct proposal *proposal_at(struct list *node)
{
    return CONTAINER_OF(node, struct proposal, link);
}

static bool is_placeholder(const struct proposal *proposal)
{
    return !proposal->done;
}

static void release_share(struct replica *replica, const struct proposal *proposal)
{
    struct replica_propose *propose = &replica->propose;

    assert(propose->used_bytes[proposal->machine] >= proposal->bytes && propose->used_entries > 0);
    propose->used_bytes[proposal->machine] -= proposal->bytes;
    propose->used_entries--;
}

/* Removes the first proposal at `index` or below; NULL: none. A gathered proposal has index 0. */
static struct proposal *take_to(struct replica *replica, struct list *list, uint64_t index)
{
    struct proposal *first = proposal_at(list->next);

    if (list_empty(list) || first->index > index) return NULL;
    list_remove(&first->link);
    release_share(replica, first);
    return first;
}

/* The proposal must be in no list. */
static void replica_propose_finish(struct replica *replica, struct proposal *proposal, enum err err,
                                   struct str reply)
{
    if (is_placeholder(proposal)) {
        list_append(&replica->propose.placeholders, &proposal->link);
        return;
    }
    if (err != ERR_OK && err != ERR_UNKNOWN) proposal->index = proposal->term = 0;
    proposal->state = PROPOSAL_IDLE;
    replica_count_proposal(replica, err);
    proposal->done(proposal, err, reply);
}

/* The pump calls done() later. A placeholder has no done() and ends here. */
static void decide(struct replica *replica, struct proposal *proposal, enum err err)
{
    if (is_placeholder(proposal)) {
        replica_propose_finish(replica, proposal, err, STR_EMPTY);
        return;
    }
    proposal->state = PROPOSAL_DECIDED;
    proposal->outcome = err;
    list_append(&replica->propose.refused, &proposal->link);
    replica_wake(replica);
}

static void decide_to(struct replica *replica, struct list *list, uint64_t index, enum err err)
{
    for (struct proposal *next; (next = take_to(replica, list, index));) decide(replica, next, err);
}

/* -- checks -- */

static uint64_t over_share(const struct replica *replica, uint32_t machine, uint64_t used)
{
    uint64_t share = replica->machines[machine].in_flight_share;

    return used > share ? used - share : 0;
}

static bool has_room(const struct replica *replica, const struct proposal *proposal)
{
    const struct replica_propose *propose = &replica->propose;
    uint64_t shared = 0;

    if (propose->used_entries >= replica->limits.in_flight_entries) return false;
    for (uint32_t m = 1; m <= REPLICA_MACHINES_MAX; m++) {
        uint64_t used = propose->used_bytes[m];
        if (m == proposal->machine) used += proposal->bytes;
        shared += over_share(replica, m, used);
    }
    /* Alone in flight, a proposal may exceed the limit. */
    return shared <= propose->shared_bytes || propose->used_entries == 0;
}

static enum err replica_propose_judge(const struct replica *replica,
                                      const struct proposal *proposal)
{
    const struct state_machine *machine;

    if (replica->stopped || replica->closing) return ERR_CLOSED;
    if (proposal->machine < 1 || proposal->machine > REPLICA_MACHINES_MAX) return ERR_INVALID;
    machine = &replica->machines[proposal->machine];
    if (!machine->ops || proposal->version < 1) return ERR_INVALID;
    if (proposal->command.len > REPLICA_COMMAND_MAX || proposal->actor.len > REPLICA_ACTOR_MAX ||
        proposal->request_id.len > REPLICA_REQUEST_ID_MAX)
        return ERR_TOO_LARGE;
    if (engine_role(replica->engine) != REPLICA_LEADER) return ERR_NOT_LEADER;
    if (!replica_ready(replica) || engine_transferee(replica->engine)) return ERR_NOT_READY;
    if (proposal->version > replica->meta.level || proposal->version > machine->version)
        return ERR_VERSION;
    if (replica->disk.full) return ERR_NO_SPACE;
    if (machine->quota && !(proposal->flags & PROPOSE_FREES) &&
        machine->ops->size(machine->state) >= machine->quota)
        return ERR_FULL;
    return has_room(replica, proposal) ? ERR_OK : ERR_FULL;
}

/* The leader's time since its previous entry of this term; 0 for the first. Time in which the
 * loop did not run does not count, because no lease could be renewed then. The replicated clock
 * can be slow, but never fast. */
uint64_t replica_propose_advance(struct replica *replica)
{
    struct replica_propose *propose = &replica->propose;
    mono_ns now = clock_mono_ns(replica->io->clock);
    uint64_t elapsed = propose->clock_runs ? now.ns - propose->clock_from.ns : 0;
    uint64_t late_ms = loop_late_ms(replica->io->loop);
    uint64_t paused = (late_ms - propose->clock_late_ms) * NS_PER_MS;

    propose->clock_runs = true;
    propose->clock_from = now;
    propose->clock_late_ms = late_ms;
    return min_u64(elapsed - min_u64(elapsed, paused), REPLICA_CLOCK_CAP_MS * NS_PER_MS);
}

static enum err replica_propose_gather(struct replica *replica, struct proposal *proposal)
{
    struct replica_propose *propose = &replica->propose;
    struct log_envelope envelope = {
        .machine = proposal->machine,
        .version = proposal->version,
        .level = replica->meta.level,
        .actor = proposal->actor,
        .request_id = proposal->request_id,
        .command = proposal->command,
    };
    size_t start = propose->bytes.len;
    enum err err;

    if (propose->count == propose->cap) {
        size_t cap = propose->cap ? 2 * propose->cap : 64;
        struct entry *more = realloc(propose->entries, cap * sizeof *more);
        if (!more) return ERR_NOMEM;
        propose->entries = more;
        propose->cap = cap;
    }
    if (!propose->bytes.data)
        buf_init(&propose->bytes, replica->limits.in_flight_bytes + ENTRY_BYTES_MAX);
    envelope.advance_ns = replica_propose_advance(replica);
    err = envelope_append(&envelope, &propose->bytes);
    if (err) return err;
    /* The buffer can move: store the address at submission. */
    proposal->place = propose->count;
    propose->entries[propose->count++] = (struct entry){
        .kind = ENTRY_COMMAND,
        .bytes = {NULL, propose->bytes.len - start},
    };
    return ERR_OK;
}

void replica_propose(struct replica *replica, struct proposal *const *proposals, size_t count)
{
    struct replica_propose *propose = &replica->propose;

    for (size_t i = 0; i < count; i++) {
        struct proposal *proposal = proposals[i];
        enum err err;

        assert(proposal->done && proposal->state == PROPOSAL_IDLE);
        list_init(&proposal->link);
        proposal->index = proposal->term = 0;
        proposal->bytes = ENTRY_OVERHEAD + ENVELOPE_HEAD + proposal->actor.len +
                          proposal->request_id.len + proposal->command.len;
        err = replica_propose_judge(replica, proposal);
        if (!err) err = replica_propose_gather(replica, proposal);
        if (err) {
            decide(replica, proposal, err);
            continue;
        }
        propose->used_bytes[proposal->machine] += proposal->bytes;
        propose->used_entries++;
        proposal->state = PROPOSAL_GATHERED;
        list_append(&propose->gathered, &proposal->link);
    }
    replica_wake(replica);
}

/* An abandoned proposal leaves a placeholder in the list, which counts its bytes as in flight until
 * the entry is applied. Without memory for a placeholder the bytes stop counting now. */
static void leave_placeholder(struct replica *replica, const struct proposal *proposal,
                              struct list *position)
{
    struct list *unused = list_pop(&replica->propose.placeholders);
    struct proposal *placeholder = unused ? proposal_at(unused) : malloc(sizeof *placeholder);

    if (!placeholder) {
        release_share(replica, proposal);
        return;
    }
    *placeholder = *proposal;
    placeholder->done = NULL;
    list_init(&placeholder->link);
    list_insert_before(position, &placeholder->link);
}

void replica_abandon(struct replica *replica, struct proposal *proposal)
{
    struct list *position = proposal->link.next;

    if (proposal->state == PROPOSAL_IDLE || proposal->state == PROPOSAL_DECIDED) return;
    list_remove(&proposal->link);
    leave_placeholder(replica, proposal, position);
    decide(replica, proposal, ERR_UNKNOWN);
}

/* -- submitting -- */

static void refuse_gathered(struct replica *replica, enum err err)
{
    struct replica_propose *propose = &replica->propose;

    decide_to(replica, &propose->gathered, 0, err);
    propose->count = 0;
    buf_clear(&propose->bytes);
}

static void place_gathered(struct replica *replica, uint64_t first)
{
    struct replica_propose *propose = &replica->propose;
    struct replica_pending *pending = &propose->pending[0];
    uint64_t term = engine_term(replica->engine);

    assert(pending->term == term);
    LIST_EACH(&propose->gathered, node)
    {
        struct proposal *proposal = proposal_at(node);

        proposal->index = first + proposal->place;
        proposal->term = term;
        proposal->state = PROPOSAL_SUBMITTED;
    }
    list_splice(&pending->proposals, &propose->gathered);
}

static void replica_propose_submit(struct replica *replica)
{
    struct replica_propose *propose = &replica->propose;
    struct engine_effects effects = {0};
    uint64_t first = 0;
    size_t at = 0;
    enum err err;

    for (size_t i = 0; i < propose->count; i++) {
        propose->entries[i].bytes.at = propose->bytes.data + at;
        at += propose->entries[i].bytes.len;
    }
    assert(at == propose->bytes.len);
    err = engine_submit(replica->engine, replica_now(replica), propose->entries, propose->count,
                        &first, &effects);
    if (err == ERR_NOT_LEADER || err == ERR_NOT_READY || err == ERR_BUSY) {
        refuse_gathered(replica, err == ERR_NOT_LEADER ? err : ERR_NOT_READY);
        return;
    }
    if (err == ERR_OK) {
        place_gathered(replica, first);
        propose->count = 0;
    }
    replica_effects(replica, err, &effects);
    if (propose->bytes.cap > BYTES_KEPT)
        buf_deinit(&propose->bytes);
    else
        buf_clear(&propose->bytes);
}

static void replica_propose_notify_refused(struct replica *replica)
{
    struct list refused;

    /* A done() may propose again. The next call of this function handles a new refusal. */
    list_init(&refused);
    list_splice(&refused, &replica->propose.refused);
    for (struct list *node; (node = list_pop(&refused));) {
        struct proposal *proposal = proposal_at(node);
        replica_propose_finish(replica, proposal, proposal->outcome, STR_EMPTY);
    }
}

/* -- deciding -- */

static void end_pending(struct replica *replica, struct replica_pending *pending, enum err err)
{
    decide_to(replica, &pending->proposals, UINT64_MAX, err);
    pending->term = 0;
    pending->until = MONO_NEVER;
}

void replica_propose_role(struct replica *replica)
{
    struct replica_propose *propose = &replica->propose;
    struct replica_pending *newest = &propose->pending[0];
    bool leads = engine_role(replica->engine) == REPLICA_LEADER;

    if (newest->term && newest->until.ms == MONO_NEVER.ms) {
        newest->until = mono_after(replica_now(replica), 2 * (uint64_t)replica->election_ms);
    }
    if (!leads) {
        refuse_gathered(replica, ERR_NOT_LEADER);
        return;
    }
    propose->clock_runs = false;
    end_pending(replica, &propose->pending[REPLICA_TERMS_KEPT - 1], ERR_UNKNOWN);
    for (size_t i = REPLICA_TERMS_KEPT - 1; i > 0; i--) {
        list_splice(&propose->pending[i].proposals, &propose->pending[i - 1].proposals);
        propose->pending[i].term = propose->pending[i - 1].term;
        propose->pending[i].until = propose->pending[i - 1].until;
    }
    newest->term = engine_term(replica->engine);
    newest->until = MONO_NEVER;
}

void replica_propose_applied(struct replica *replica, uint64_t index, uint64_t term,
                             struct str reply)
{
    for (size_t i = 0; i < REPLICA_TERMS_KEPT; i++) {
        struct list *list = &replica->propose.pending[i].proposals;

        for (struct proposal *next; (next = take_to(replica, list, index));) {
            assert(next->index == index); /* skipped proposals have ended already */
            replica_propose_finish(replica, next, next->term == term ? ERR_OK : ERR_NOT_LEADER,
                                   next->term == term ? reply : STR_EMPTY);
        }
    }
}

void replica_propose_skipped(struct replica *replica, uint64_t index)
{
    for (size_t i = 0; i < REPLICA_TERMS_KEPT; i++)
        decide_to(replica, &replica->propose.pending[i].proposals, index, ERR_UNKNOWN);
}

mono_time replica_propose_due(const struct replica *replica)
{
    mono_time due = MONO_NEVER;

    for (size_t i = 0; i < REPLICA_TERMS_KEPT; i++)
        due = mono_min(due, replica->propose.pending[i].until);
    return due;
}

void replica_propose_pump(struct replica *replica)
{
    struct replica_propose *propose = &replica->propose;

    for (size_t i = 0; i < REPLICA_TERMS_KEPT; i++)
        if (mono_due(propose->pending[i].until, replica_now(replica)))
            end_pending(replica, &propose->pending[i], ERR_UNKNOWN);
    if (propose->count > 0 && replica_may_step(replica)) replica_propose_submit(replica);
    replica_propose_notify_refused(replica);
}

/* -- life cycle -- */

void replica_propose_open(struct replica *replica)
{
    struct replica_propose *propose = &replica->propose;

    list_init(&propose->gathered);
    list_init(&propose->refused);
    list_init(&propose->placeholders);
    for (size_t i = 0; i < REPLICA_TERMS_KEPT; i++) {
        list_init(&propose->pending[i].proposals);
        propose->pending[i].until = MONO_NEVER;
    }
}

void replica_propose_close(struct replica *replica)
{
    struct replica_propose *propose = &replica->propose;

    refuse_gathered(replica, ERR_CLOSED); /* never submitted, so certainly not in the log */
    for (size_t i = 0; i < REPLICA_TERMS_KEPT; i++)
        end_pending(replica, &propose->pending[i], ERR_UNKNOWN);
    while (!list_empty(&propose->refused)) replica_propose_notify_refused(replica);
    for (struct list *node; (node = list_pop(&propose->placeholders));) free(proposal_at(node));
    buf_deinit(&propose->bytes);
    free(propose->entries);
    propose->entries = NULL;
    propose->count = propose->cap = 0;
}
