/* SPDX-License-Identifier: Apache-2.0 */
/* Membership changes under the rules of log/members.h, leadership transfer, and the cluster
 * level. The leader checks and writes one change at a time; a change is decided when its index
 * is applied. A new leader reads the configuration from the log, and a repeated request is safe. */
#include "log/replica_internal.h"

#include <stdio.h>
#include <string.h>

enum {
    RELIEF_MS = 1000,
    RELIEF_MAX_MS = 60000
}; /* ms; between transfers by a leader whose disk is full */

static struct member_change *change_at(struct list *node)
{
    return CONTAINER_OF(node, struct member_change, link);
}

static struct transfer *transfer_at(struct list *node)
{
    return CONTAINER_OF(node, struct transfer, link);
}

/* -- the newest configuration -- */

static bool same_members(const struct members *a, const struct members *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->at[i].id != b->at[i].id || a->at[i].role != b->at[i].role ||
            strcmp(a->at[i].address, b->at[i].address) != 0)
            return false;
    return true;
}

static void refresh_members(struct replica *replica)
{
    struct replica_change_state *change = &replica->change;
    struct members now;
    uint64_t uncommitted;

    change->members_dirty = false;
    engine_members(replica->engine, &now, &uncommitted);
    if (same_members(&now, &change->newest) && uncommitted == change->uncommitted) return;
    change->newest = now;
    change->uncommitted = uncommitted;
    change->level_dirty = replica->dial.due = true;
    replica_changed(replica);
}

/* -- status -- */

static const char *met_at(const struct replica *replica, uint64_t id)
{
    if (!replica->peers) return ""; /* the replica has stopped */
    return id == replica->id ? peers_address(replica->peers) : peers_met_at(replica->peers, id);
}

/* A leader lists only committed changes, because an operator who sees 3 voters may stop one. */
static const struct members *listed(const struct replica *replica, bool leads, struct members *room)
{
    uint64_t uncommitted;

    if (!leads) return &replica->change.newest;
    engine_members(replica->engine, room, &uncommitted);
    if (uncommitted) engine_members_committed(replica->engine, room);
    return room;
}

size_t replica_members(const struct replica *replica,
                       struct replica_member members[REPLICA_MEMBERS_MAX])
{
    struct members room;
    bool leads = !replica->stopped && engine_role(replica->engine) == REPLICA_LEADER;
    const struct members *list = listed(replica, leads, &room);
    uint64_t leader = replica->stopped ? 0 : engine_leader(replica->engine);

    for (size_t i = 0; i < list->count; i++) {
        const struct member *from = &list->at[i];
        struct replica_member *to = &members[i];
        mono_time heard = leads ? engine_heard(replica->engine, from->id) : (mono_time){0};

        *to = (struct replica_member){
            .id = from->id,
            .role = from->role,
            .self = from->id == replica->id,
            .leader = from->id == leader,
            .match = leads ? engine_match(replica->engine, from->id) : 0,
            .level = replica_dial_level(replica, from->id),
        };
        if (leads && !to->self)
            to->silent_ms = heard.ms ? mono_elapsed_ms(heard, replica_now(replica)) : UINT64_MAX;
        memcpy(to->address, from->address, sizeof to->address);
        snprintf(to->met_at, sizeof to->met_at, "%s", met_at(replica, from->id));
    }
    return list->count;
}

static void make_view(const struct replica *replica, struct members *room,
                      struct members_view *view)
{
    *view = (struct members_view){
        .self = replica->id,
        .members = room,
        .own_term_committed = replica_ready(replica),
        .commit = engine_commit(replica->engine),
        .handing_over = engine_transferee(replica->engine) != 0,
    };
    engine_members(replica->engine, room, &view->uncommitted);
    for (size_t i = 0; i < room->count; i++) {
        uint64_t id = room->at[i].id;
        mono_time heard = engine_heard(replica->engine, id);

        view->match[i] =
            id == replica->id ? replica->disk.durable : engine_match(replica->engine, id);
        view->responsive[i] =
            id == replica->id ||
            (heard.ms && mono_elapsed_ms(heard, replica_now(replica)) <= replica->election_ms);
    }
}

/* -- leadership transfer -- */

static void end_transfers(struct replica *replica, enum err err, const struct note *note)
{
    struct replica_change_state *change = &replica->change;
    struct member_change *leaving = change->leaving;
    struct list ended;

    list_init(&ended);
    list_splice(&ended, &change->transfers);
    change->transferring = false;
    change->leaving = NULL;
    for (struct list *node; (node = list_pop(&ended));)
        transfer_at(node)->done(transfer_at(node), err, note);
    if (!leaving) return;
    if (err == ERR_OK || err == ERR_UNKNOWN)
        err = ERR_NOT_LEADER;
    else if (err == ERR_TIMEOUT)
        err = ERR_NOT_READY;
    leaving->done(leaving, err, note);
}

static enum err start_transfer(struct replica *replica, uint64_t to, struct note *note)
{
    struct replica_change_state *change = &replica->change;
    struct engine_effects effects = {0};
    struct members_view view;
    struct members room;
    enum err err;

    if (engine_role(replica->engine) != REPLICA_LEADER) return ERR_NOT_LEADER;
    if (change->transferring)
        return note_fail(note, ERR_BUSY, "leadership is being handed over already");
    make_view(replica, &room, &view);
    if (to == 0) to = members_heir(&view);
    if (to == 0) return note_fail(note, ERR_NOT_READY, "no other voter answers");
    err = engine_transfer(replica->engine, replica_now(replica), to, &effects);
    if (err == ERR_NOT_FOUND || err == ERR_INVALID || err == ERR_BUSY || err == ERR_NOT_LEADER)
        return note_fail(note, err, "hand over to %016llx: %s", (unsigned long long)to,
                         err_text(err));
    change->transferring = true;
    change->transfer_until = mono_after(replica_now(replica), 2 * (uint64_t)replica->election_ms);
    LOG_INFO(&replica->log, "handing leadership to another replica", log_u64("to", to));
    replica_effects(replica, err, &effects);
    return ERR_OK;
}

static void watch_transfer(struct replica *replica)
{
    struct replica_change_state *change = &replica->change;
    bool leads = engine_role(replica->engine) == REPLICA_LEADER;
    uint64_t leader = engine_leader(replica->engine);
    bool late = mono_due(change->transfer_until, replica_now(replica));
    struct note note = {""};

    if (!change->transferring) return;
    if (!leads && leader != 0 && leader != replica->id) {
        end_transfers(replica, ERR_OK, &note);
    } else if (leads && (late || engine_transferee(replica->engine) == 0)) {
        note_set(&note, "the other did not take over");
        end_transfers(replica, ERR_TIMEOUT, &note);
    } else if (late) {
        note_set(&note, "no leader is known yet");
        end_transfers(replica, ERR_UNKNOWN, &note);
    }
}

void replica_transfer(struct replica *replica, struct transfer *transfer)
{
    list_init(&transfer->link);
    list_append(&replica->change.transfers_asked, &transfer->link);
    replica_wake(replica);
}

static void begin_transfers(struct replica *replica)
{
    struct replica_change_state *change = &replica->change;
    struct list asked;

    list_init(&asked);
    list_splice(&asked, &change->transfers_asked);
    for (struct list *node; (node = list_pop(&asked));) {
        struct transfer *transfer = transfer_at(node);
        struct note note = {""};
        enum err err = ERR_OK;

        if (!replica_may_step(replica)) { /* the last step's vote is not durable yet */
            list_append(&change->transfers_asked, node);
            continue;
        }
        err = start_transfer(replica, transfer->to, &note);
        if (err)
            transfer->done(transfer, err, &note);
        else
            list_append(&change->transfers, &transfer->link);
    }
}

/* A leader whose disk is full refuses every write, while another replica may have space. The
 * leader does not know the free space of other replicas, so it tries each voter in turn, with
 * growing pauses. */
static uint64_t next_voter(const struct replica *replica)
{
    struct members_view view;
    struct members room;
    uint64_t after = 0, first = 0;

    make_view(replica, &room, &view);
    for (size_t i = 0; i < room.count; i++) {
        uint64_t id = room.at[i].id;
        if (id == replica->id || room.at[i].role != MEMBER_VOTER || !view.responsive[i]) continue;
        if (first == 0 || id < first) first = id;
        if (id > replica->id && (after == 0 || id < after)) after = id;
    }
    return after ? after : first;
}

static bool wants_relief(const struct replica *replica)
{
    return replica->disk.full && !replica->change.transferring && replica_may_step(replica) &&
           engine_role(replica->engine) == REPLICA_LEADER && replica_ready(replica);
}

static void seek_relief(struct replica *replica)
{
    struct replica_change_state *change = &replica->change;
    mono_time now = replica_now(replica);
    struct note note = {""};
    uint64_t to;

    if (!replica->disk.full) change->relief_pause_ms = 0;
    if (!wants_relief(replica) || !mono_due(change->relief_at, now)) return;
    change->relief_pause_ms =
        change->relief_pause_ms ? min_u64(2 * change->relief_pause_ms, RELIEF_MAX_MS) : RELIEF_MS;
    change->relief_at = mono_after(now, change->relief_pause_ms);
    to = next_voter(replica);
    if (to == 0) return; /* no voter to hand over to */
    LOG_WARN(&replica->log, "disk is full: handing leadership to another replica");
    (void)start_transfer(replica, to, &note);
}

/* -- changes -- */

void replica_change(struct replica *replica, struct member_change *change)
{
    list_init(&change->link);
    change->index = 0;
    list_append(&replica->change.asked, &change->link);
    replica_wake(replica);
}

/* A member that does not understand the cluster level would stop at an entry of that level. The
 * level of a new member is unknown before its hello. A member must announce its level to become
 * a voter. */
static enum err judge_level(const struct replica *replica, const struct member_change *asked,
                            struct note *note)
{
    const struct replica_change_state *change = &replica->change;
    uint32_t speaks = replica_dial_level(replica, asked->id);
    uint32_t level = replica->meta.level;

    if (change->level_index && change->level_asked > level) level = change->level_asked;
    if (speaks >= level) return ERR_OK;
    if (asked->kind != CHANGE_ADD && asked->kind != CHANGE_PROMOTE) return ERR_OK;
    if ((asked->kind == CHANGE_ADD) == (members_find(&change->newest, asked->id) != NULL))
        return ERR_OK; /* members_change reports the error */
    if (speaks == 0 && asked->kind == CHANGE_ADD) return ERR_OK;
    note_set(note, "%016llx speaks level %u, the cluster is at %u", (unsigned long long)asked->id,
             speaks, level);
    return asked->kind == CHANGE_ADD ? ERR_VERSION : ERR_NOT_READY;
}

static enum err replica_change_judge(struct replica *replica, const struct member_change *asked,
                                     struct members *ret_next, struct note *note)
{
    struct replica_change_state *change = &replica->change;
    struct members_view view;
    struct members room;
    enum err err;

    if (engine_role(replica->engine) != REPLICA_LEADER) return ERR_NOT_LEADER;
    if (change->running || change->leaving)
        return note_fail(note, ERR_BUSY, "another change is under way");
    err = judge_level(replica, asked, note);
    if (err) return err;
    make_view(replica, &room, &view);
    return members_change(&view, asked->kind, asked->id, str_from(asked->address), ret_next, note);
}

static enum err write_change(struct replica *replica, struct member_change *asked,
                             const struct members *next, struct note *note)
{
    struct engine_effects effects = {0};
    struct entry entry = {.kind = ENTRY_CHANGE};
    struct buf bytes;
    enum err err;

    buf_init(&bytes, ENTRY_BYTES_MAX);
    err = members_encode(next, &bytes);
    if (err) goto out;
    entry.bytes = buf_peek(&bytes);
    err = engine_submit(replica->engine, replica_now(replica), &entry, 1, &asked->index, &effects);
    if (err == ERR_NOT_LEADER || err == ERR_NOT_READY || err == ERR_BUSY || err == ERR_INVALID) {
        note_set(note, "the engine refuses: %s", err_text(err));
        goto out;
    }
    replica->change.running = asked;
    replica->change.running_term = engine_term(replica->engine);
    replica->change.until = MONO_NEVER;
    replica_effects(replica, err, &effects);
    refresh_members(replica);
    err = ERR_OK;
out:
    buf_deinit(&bytes);
    return err;
}

static void begin_change(struct replica *replica, struct member_change *asked)
{
    struct members next;
    struct note note = {""};
    enum err err = replica_change_judge(replica, asked, &next, &note);

    if (!err) {
        err = write_change(replica, asked, &next, &note);
        if (!err) return;
    } else if (err == ERR_NOT_LEADER && engine_role(replica->engine) == REPLICA_LEADER) {
        /* Removing this leader needs a transfer. The caller asks the new leader again. */
        err = start_transfer(replica, 0, &note);
        if (!err) {
            replica->change.leaving = asked;
            return;
        }
    }
    asked->done(asked, err, &note);
}

static void end_running(struct replica *replica, enum err err, const char *why)
{
    struct member_change *running = replica->change.running;
    struct note note = {""};

    replica->change.running = NULL;
    replica->change.until = MONO_NEVER;
    note_set(&note, "%s", why);
    running->done(running, err, &note);
}

void replica_change_applied(struct replica *replica, uint64_t index, uint64_t term)
{
    struct replica_change_state *change = &replica->change;

    change->members_dirty = change->level_dirty = true;
    replica_wake(replica);
    if (!change->running || change->running->index != index) return;
    if (change->running_term == term)
        end_running(replica, ERR_OK, "");
    else
        end_running(replica, ERR_NOT_LEADER, "another entry is in its place");
}

void replica_change_skipped(struct replica *replica, uint64_t index)
{
    struct replica_change_state *change = &replica->change;

    change->members_dirty = change->level_dirty = true;
    /* The pump reports the change. */
    if (change->running && change->running->index <= index) change->until = replica_now(replica);
    replica_wake(replica);
}

void replica_change_role(struct replica *replica)
{
    struct replica_change_state *change = &replica->change;

    change->level_index = 0;
    change->level_dirty = true;
    if (change->running && change->until.ms == MONO_NEVER.ms)
        change->until = mono_after(replica_now(replica), 2 * (uint64_t)replica->election_ms);
}

mono_time replica_change_due(const struct replica *replica)
{
    const struct replica_change_state *change = &replica->change;
    mono_time due = change->running ? change->until : MONO_NEVER;

    if (wants_relief(replica)) due = mono_min(due, change->relief_at);
    return change->transferring ? mono_min(due, change->transfer_until) : due;
}

/* -- cluster level -- */

/* Lowest level of all members; 0: a member was not heard since the start. */
static uint32_t common_level(const struct replica *replica)
{
    const struct members *members = &replica->change.newest;
    uint32_t lowest = replica->speaks;

    for (size_t i = 0; i < members->count; i++) {
        uint32_t level = replica_dial_level(replica, members->at[i].id);
        if (level < lowest) lowest = level;
    }
    return lowest;
}

static void raise_level(struct replica *replica)
{
    struct replica_change_state *change = &replica->change;
    struct log_envelope envelope = {.machine = ENVELOPE_MACHINE_META, .version = 1};
    struct entry entry = {.kind = ENTRY_COMMAND};
    struct engine_effects effects = {0};
    struct buf command, bytes;
    uint32_t level = common_level(replica);
    uint64_t index = 0;
    enum err err;

    change->level_dirty = false;
    if (level <= replica->meta.level) return;
    buf_init(&command, 64);
    buf_init(&bytes, ENVELOPE_HEAD + 128);
    err = meta_level_command(level, &command);
    envelope.level = replica->meta.level;
    envelope.advance_ns = replica_propose_advance(replica);
    envelope.command = buf_peek(&command);
    envelope.actor = envelope.request_id = STR_EMPTY;
    if (!err) err = envelope_append(&envelope, &bytes);
    if (!err) {
        entry.bytes = buf_peek(&bytes);
        err = engine_submit(replica->engine, replica_now(replica), &entry, 1, &index, &effects);
        if (err == ERR_OK) {
            change->level_index = index;
            change->level_asked = level;
        }
        if (err == ERR_NOT_LEADER || err == ERR_NOT_READY || err == ERR_BUSY)
            change->level_dirty = true; /* retried at the next wake */
        else
            replica_effects(replica, err, &effects);
    } else {
        change->level_dirty = true; /* out of memory: retried later */
    }
    buf_deinit(&bytes);
    buf_deinit(&command);
}

/* -- the pump -- */

static void begin_changes(struct replica *replica)
{
    struct replica_change_state *change = &replica->change;
    struct list asked;

    list_init(&asked);
    list_splice(&asked, &change->asked);
    for (struct list *node; (node = list_pop(&asked));) {
        if (replica_may_step(replica))
            begin_change(replica, change_at(node));
        else
            list_append(&change->asked, node);
    }
}

void replica_change_pump(struct replica *replica)
{
    struct replica_change_state *change = &replica->change;

    if (replica->stopped) return;
    if (change->members_dirty) refresh_members(replica);
    replica_dial_pump(replica);
    watch_transfer(replica);
    if (change->running && mono_due(change->until, replica_now(replica)))
        end_running(replica, ERR_UNKNOWN, "leadership was lost");
    if (!replica_may_step(replica)) return;
    if (!list_empty(&change->transfers_asked)) begin_transfers(replica);
    seek_relief(replica);
    if (!list_empty(&change->asked)) begin_changes(replica);
    if (change->level_index && replica->applied >= change->level_index) {
        change->level_index = 0;
        change->level_dirty = true;
    }
    if (replica_may_step(replica) && change->level_dirty && !change->level_index &&
        replica_ready(replica) && !engine_transferee(replica->engine))
        raise_level(replica);
}

void replica_change_open(struct replica *replica)
{
    struct replica_change_state *change = &replica->change;

    list_init(&change->asked);
    list_init(&change->transfers);
    list_init(&change->transfers_asked);
    change->until = MONO_NEVER;
    change->members_dirty = true;
}

void replica_change_close(struct replica *replica)
{
    struct replica_change_state *change = &replica->change;
    struct note note = {"the replica was closed"};

    if (change->running) end_running(replica, ERR_UNKNOWN, note.text);
    end_transfers(replica, ERR_UNKNOWN, &note);
    for (struct list *node; (node = list_pop(&change->transfers_asked));)
        transfer_at(node)->done(transfer_at(node), ERR_CLOSED, &note);
    for (struct list *node; (node = list_pop(&change->asked));)
        change_at(node)->done(change_at(node), ERR_CLOSED, &note);
}
