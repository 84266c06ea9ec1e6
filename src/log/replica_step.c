/* SPDX-License-Identifier: Apache-2.0 */
/* The gate before the engine, and the effects after a step.
 *
 * Order of the effects: term and vote are queued for the disk and close the gate; entries are
 * added to memory for the disk thread; messages are sent, or held while the gate is closed.
 * Messages may be sent before the entries are durable, because only engine_persisted
 * acknowledges entries. */
#include "log/replica_internal.h"

#include <stdlib.h>
#include <string.h>

static enum err hold(struct replica *replica, const struct raft_message *messages, size_t count)
{
    struct replica_gate *gate = &replica->gate;

    if (count > gate->held_cap) {
        struct raft_message *more = realloc(gate->held, count * sizeof *more);
        if (!more) return ERR_NOMEM;
        gate->held = more;
        gate->held_cap = count;
    }
    /* A shallow copy: entries and snapshots are added when a message is sent. */
    memcpy(gate->held, messages, count * sizeof *messages);
    gate->held_count = count;
    return ERR_OK;
}

static enum err replica_step_take_entries(struct replica *replica,
                                          const struct engine_effects *effects)
{
    enum err err = ERR_OK;

    if (effects->entry_count == 0) return ERR_OK;
    assert(effects->entries_index <= entries_last(replica->entries) + 1);
    /* Applied entries, and an entry being applied, are never replaced. */
    assert(effects->entries_index > replica->applied + (replica->apply.part != NULL));
    if (effects->entries_index <= entries_last(replica->entries))
        replica_disk_replaced(replica, effects->entries_index);
    for (size_t i = 0; !err && i < effects->entry_count; i++) {
        const struct raft_entry *raw = &effects->entries[i];
        struct entry entry = {
            .index = effects->entries_index + i,
            .term = raw->term,
            .kind = (enum entry_kind)raw->type,
            .bytes = raw->buf.len ? str_of(raw->buf.base, raw->buf.len) : STR_EMPTY,
        };
        err = entries_append(replica->entries, &entry);
    }
    return err;
}

/* Called after a step that may have changed the role. The callees only move list items. */
static void note_role(struct replica *replica)
{
    enum replica_role role = engine_role(replica->engine);
    uint64_t term = engine_term(replica->engine);
    bool led = replica->role == REPLICA_LEADER;

    replica->change.members_dirty = true;
    if (role == replica->role && term == replica->role_term) return;
    if (role == REPLICA_CANDIDATE && replica->role != role) replica_count(replica, COUNT_ELECTIONS);
    replica->role = role;
    replica->role_term = term;
    if (!led && role != REPLICA_LEADER) return;
    if (role == REPLICA_LEADER) {
        replica_count(replica, COUNT_LEADERSHIPS);
        LOG_INFO(&replica->log, "became leader", log_u64("term", term),
                 log_u64("last", entries_last(replica->entries)));
    } else {
        LOG_INFO(&replica->log, "lost leadership", log_u64("term", term));
    }
    replica_propose_role(replica);
    replica_read_role(replica);
    replica_change_role(replica);
}

void replica_effects(struct replica *replica, enum err err, const struct engine_effects *effects)
{
    struct note note = {""};

    if (!err && (effects->flags & ENGINE_ENTRIES))
        err = replica_step_take_entries(replica, effects);
    if (err) {
        note_set(&note, "the engine: %s",
                 err == ERR_CORRUPT ? "a peer's log differs from ours below what is committed"
                                    : err_text(err));
        replica_fail(replica, err, &note);
        return;
    }
    if (effects->flags & ENGINE_VOTE)
        replica_disk_vote(replica, (struct vote){effects->term, effects->vote});
    if (effects->flags & ENGINE_INSTALL) replica_install_begin(replica, &effects->install);
    if (effects->flags & ENGINE_MESSAGES) {
        if (replica->gate.vote_pending) {
            err = hold(replica, effects->messages, effects->message_count);
        } else {
            for (size_t i = 0; i < effects->message_count; i++)
                replica_send(replica, &effects->messages[i]);
        }
    }
    if (err) {
        note_set(&note, "hold messages: %s", err_text(err));
        replica_fail(replica, err, &note);
        return;
    }
    if (effects->flags & ENGINE_ROLE) note_role(replica);
    replica_wake(replica);
}

void replica_gate_opened(struct replica *replica)
{
    struct replica_gate *gate = &replica->gate;

    gate->vote_pending = false;
    for (size_t i = 0; i < gate->held_count; i++) replica_send(replica, &gate->held[i]);
    gate->held_count = 0;
    replica_resume(replica);
    replica_wake(replica);
}

void replica_resume(struct replica *replica)
{
    if (replica->gate.refused) peers_resume(replica->peers);
    replica->gate.refused = false;
}

/* -- frames -- */

static enum err receive_append(struct replica *replica, uint64_t from,
                               const struct peer_frame *frame, struct engine_effects *effects)
{
    struct replica_gate *gate = &replica->gate;
    struct peer_frame walk = *frame; /* a copy: a refused frame is delivered again from its start */
    size_t count = 0;

    if (frame->u.append.entry_count > gate->received_cap) {
        size_t cap = frame->u.append.entry_count;
        struct entry *more = realloc(gate->received, cap * sizeof *more);
        if (!more) return ERR_NOMEM;
        gate->received = more;
        gate->received_cap = cap;
    }
    while (count < frame->u.append.entry_count && frame_next_entry(&walk, &gate->received[count]))
        count++;
    return engine_receive_append(replica->engine, replica_now(replica), from,
                                 &(struct engine_append){
                                     .term = frame->u.append.term,
                                     .prev_index = frame->u.append.prev_index,
                                     .prev_term = frame->u.append.prev_term,
                                     .commit = frame->u.append.commit,
                                     .entries = gate->received,
                                     .entry_count = count,
                                 },
                                 effects);
}

static void step_frame(struct replica *replica, uint64_t from, const struct peer_frame *frame)
{
    struct engine_effects effects = {0};
    struct raft_message message = replica_message_of(frame, from);
    enum err err = frame->kind == FRAME_APPEND
                       ? receive_append(replica, from, frame, &effects)
                       : engine_receive(replica->engine, replica_now(replica), &message, &effects);

    if (err == ERR_INVALID) {
        LOG_WARN(&replica->log, "rejected an invalid frame from a replica", log_u64("peer", from),
                 log_text("kind", frame_kind_name(frame->kind)));
        return;
    }
    replica_effects(replica, err, &effects);
}

/* True: the queue for the disk is full, so the append and its connection must wait. */
static bool is_swamped(const struct replica *replica, const struct peer_frame *frame)
{
    return frame->kind == FRAME_APPEND && frame->u.append.entry_count > 0 &&
           replica->disk.append.busy &&
           entries_log_bytes_since(replica->entries, replica->disk.durable) >=
               replica->limits.in_flight_bytes;
}

bool replica_on_frame(void *owner, uint64_t from, struct peer_frame *frame)
{
    struct replica *replica = owner;

    if (replica->stopped || replica->closing) return true;
    if (!replica_may_step(replica) || is_swamped(replica, frame)) {
        replica->gate.refused = true;
        return false;
    }
    switch (frame->kind) {
    case FRAME_APPEND:
    case FRAME_APPEND_RESULT:
    case FRAME_VOTE:
    case FRAME_VOTE_RESULT:
    case FRAME_TIMEOUT_NOW: step_frame(replica, from, frame); break;
    case FRAME_READ_ROUND: replica_read_asked(replica, from, &frame->u.read); break;
    case FRAME_READ_ANSWER: replica_read_answered(replica, from, &frame->u.read); break;
    case FRAME_HASH: replica_apply_hash(replica, from, &frame->u.hash); break;
    default: /* the peers module checks the lane's frames */ assert(false);
    }
    replica_wake(replica);
    return true;
}

/* -- the pump -- */

void replica_step_pump(struct replica *replica)
{
    struct replica_disk *disk = &replica->disk;
    struct engine_effects effects = {0};
    enum err err;

    if (replica_may_step(replica) && disk->durable > disk->reported) {
        disk->reported = disk->durable;
        err = engine_persisted(replica->engine, replica_now(replica), disk->reported, &effects);
        replica_effects(replica, err, &effects);
    }
    if (replica_may_step(replica) && mono_due(engine_due(replica->engine), replica_now(replica))) {
        err = engine_timeout(replica->engine, replica_now(replica), &effects);
        replica_effects(replica, err, &effects);
    }
}

void replica_step_close(struct replica *replica)
{
    free(replica->gate.held);
    free(replica->gate.received);
}
