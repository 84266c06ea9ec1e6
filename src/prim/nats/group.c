/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of slots: one key per slot and one record for the count. A slot is won by the one atomic
 * publish to its key; what was listed before only says where to try. */
#include <inttypes.h>
#include <stdlib.h>

#include "prim/group.h"
#include "prim/nats/run.h"

enum { RUN_MIN = 64 }; /* slots up to which asking for each is cheaper */

static coord_result no_memory(void)
{
    return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "nats: no memory");
}

/* -- the record ------------------------------------------------------------------------------- */

struct group {
    const struct prim_acquire *in; /* NULL: only looked at or resized */
    uint64_t expected;             /* resize */
    uint32_t slot_count;           /* wanted, then as it is */
    uint64_t revision;
    char value[ENVELOPE_GROUP_VALUE];
};

static struct envelope group_envelope(const struct jet_change *change, struct group *group)
{
    envelope_group_value(group->slot_count, group->value);
    return (struct envelope){.flags = ENVELOPE_GROUP,
                             .request_id = change->call->request_id,
                             .wall_ms = prim_wall_ms(),
                             .value = str_of(group->value, sizeof group->value)};
}

/* A record that is there, as it is. False: not one of a group. */
static bool group_take(struct group *group, const struct jet_state *state)
{
    const struct envelope *envelope = &state->envelope;
    if (state->kind != JET_LIVE) return false;
    group->revision = state->revision;
    return envelope_group_read(envelope->flags, envelope->value, &group->slot_count) == ERR_OK;
}

static void decide_group(struct jet_change *change, const struct jet_state *state,
                         struct jet_plan *plan)
{
    struct group *group = change->out;
    uint32_t wanted = group->slot_count;
    if (state->kind == JET_LIVE && !group_take(group, state)) {
        plan->result = jet_corrupt(change->key);
    } else if (state->kind == JET_LIVE && wanted != group->slot_count) {
        plan->result = prim_answer(COORD_CONFLICT, COORD_R_SLOT_COUNT,
                                   "the group has %" PRIu32 " slots", group->slot_count);
        plan->result.slot_count = group->slot_count;
        plan->result.revision = group->revision;
    } else if (state->kind == JET_LIVE) {
        plan->result = prim_ok(COORD_R_NONE);
    } else if (group->in->flags & COORD_NO_CREATE) {
        plan->result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
    } else {
        plan->write = true;
        plan->envelope = group_envelope(change, group);
        plan->result = prim_ok(COORD_R_CREATED);
    }
}

static void decide_resize(struct jet_change *change, const struct jet_state *state,
                          struct jet_plan *plan)
{
    struct group *group = change->out;
    uint32_t wanted = group->slot_count;
    struct group now = {.slot_count = 0};
    if (state->kind != JET_LIVE) {
        plan->result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
    } else if (!group_take(&now, state)) {
        plan->result = jet_corrupt(change->key);
    } else if (prim_id_equal(&state->envelope.request_id, &change->call->request_id) &&
               now.slot_count == wanted) {
        plan->result = prim_ok(change->sent ? COORD_R_RESIZED : COORD_R_REPLAYED);
    } else if (now.revision != group->expected) {
        plan->result =
            prim_answer(COORD_CONFLICT, COORD_R_REVISION, "the group has another revision");
        plan->result.revision = now.revision;
    } else if (wanted < now.slot_count) {
        /* Nothing makes the record and a slot change in one step here. */
        plan->result =
            prim_answer(COORD_UNSUPPORTED, COORD_R_CAPABILITY,
                        "nats: a group cannot shrink (it has %" PRIu32 " slots)", now.slot_count);
    } else {
        plan->write = true;
        plan->envelope = group_envelope(change, group);
        plan->result = prim_ok(COORD_R_RESIZED);
    }
    plan->result.slot_count = plan->write ? wanted : now.slot_count;
}

coord_result jet_resize(struct prim_backend *backend, const struct prim_call *call, struct str name,
                        uint64_t expected, uint32_t slot_count)
{
    char key[PRIM_SLOT_KEY_CAP];
    struct group group = {.expected = expected, .slot_count = slot_count};
    prim_group_key(name, key);
    struct jet_change change = {
        .call = call, .key = str_from(key), .decide = decide_resize, .out = &group};
    return jet_change_run(jet_of(backend), &change);
}

/* -- the slots -------------------------------------------------------------------------------- */

struct slot {
    struct buf memory;
    struct jet_state state;
};
struct slots {
    struct jet_store *store;
    struct str group;
    size_t count;
    struct slot at[];
};

static coord_result slot_body(void *arg, size_t index, struct buf *out)
{
    struct slots *slots = arg;
    char key[PRIM_SLOT_KEY_CAP];
    prim_slot_key(slots->group, (uint32_t)index, key);
    return jet_get_body(slots->store, str_from(key), out) ? no_memory() : prim_ok(COORD_R_NONE);
}

static coord_result slot_take(void *arg, size_t index, struct str body)
{
    struct slots *slots = arg;
    struct slot *slot = &slots->at[index];
    return jet_message_of(slots->store, body, &slot->memory, &slot->state);
}

/* The message goes; what its envelope borrows moves into the slot's own memory. */
static coord_result slot_keep(struct slot *slot, struct str payload)
{
    if (slot->state.kind != JET_LIVE) return prim_ok(COORD_R_NONE);
    if (buf_append(&slot->memory, payload) != ERR_OK) return no_memory();
    enum err err = envelope_decode(buf_peek(&slot->memory), &slot->state.envelope);
    assert(err == ERR_OK); /* the same bytes were one a moment ago */
    return prim_ok(COORD_R_NONE);
}

static void slots_close(struct slots *slots)
{
    if (slots == NULL) return;
    for (size_t i = 0; i < slots->count; i++) buf_deinit(&slots->at[i].memory);
    free(slots);
}

/* A long list comes as a run, much faster than one by one. It may be told by a replica that lags a
 * little: a slot that looks free and is not costs a refused publish. */
static coord_result slots_run(struct slots *slots, int64_t deadline_ns)
{
    struct jet_store *store = slots->store;
    struct jet_run run = {NULL};
    struct jet_message got;
    char filter[JET_SUBJECT_CAP];
    jet_subject_below(str_from(store->bucket), slots->group, filter);
    coord_result result = jet_run_open(store, deadline_ns, filter, &run);
    bool more = result.code == COORD_OK && run.pending > 0;
    while (more && result.code == COORD_OK) {
        int64_t wait_ms = (deadline_ns - prim_clock_now(&store->clock)) / 1000000;
        enum jet_step step =
            wait_ms < 1 ? JET_STEP_SILENT : jet_run_next(store, &run, wait_ms, &got);
        if (step == JET_STEP_MESSAGE) {
            uint32_t index;
            if (prim_slot_number(prim_leaf_of(str_from(got.key)), &index) && index < slots->count) {
                struct slot *slot = &slots->at[index];
                buf_clear(&slot->memory);
                slot->state = got.state;
                result = slot_keep(slot, jet_link_body(got.message));
            }
            more = got.pending > 0;
            natsMsg_Destroy(got.message);
        } else if (step == JET_STEP_IDLE) {
            more = false;
        } else {
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT, "nats: the list broke off");
        }
    }
    jet_run_close(store, &run);
    return result;
}

/* Rows belong to different instants. A call that was made before looks for itself among them: then
 * only the leader's own answers will do. */
static coord_result slots_open(struct jet_store *store, const struct prim_call *call,
                               struct str group, uint32_t count, struct slots **ret_slots)
{
    struct slots *slots = calloc(1, sizeof *slots + count * sizeof(struct slot));
    if (slots == NULL) return no_memory();
    slots->store = store;
    slots->group = group;
    slots->count = count;
    for (size_t i = 0; i < count; i++) buf_init(&slots->at[i].memory, JET_ANSWER_MAX);
    coord_result result;
    if (count == 1) {
        char key[PRIM_SLOT_KEY_CAP];
        prim_slot_key(group, 0, key);
        result = jet_read(store, call->deadline_ns, str_from(key), &slots->at[0].memory,
                          &slots->at[0].state);
    } else if (count > RUN_MIN && call->attempt == 0) {
        result = slots_run(slots, call->deadline_ns);
    } else {
        result = jet_link_ask_many(&store->link, call->deadline_ns, store->get_subject, count,
                                   slot_body, slot_take, slots);
    }
    for (size_t i = 0; i < count && result.code == COORD_OK; i++)
        if (slots->at[i].state.kind == JET_FOREIGN) result = jet_corrupt(group);
    if (result.code != COORD_OK) {
        slots_close(slots);
        return result;
    }
    *ret_slots = slots;
    return result;
}

/* -- acquire ---------------------------------------------------------------------------------- */

struct taking {
    const struct prim_acquire *in;
    bool over; /* the slot of the same owner, whoever's lease it is now */
};

static void decide_take(struct jet_change *change, const struct jet_state *state,
                        struct jet_plan *plan)
{
    const struct taking *taking = change->in;
    const struct prim_acquire *in = taking->in;
    bool live = state->kind == JET_LIVE;
    bool same = live && str_equal(state->envelope.owner, in->owner);
    if (live && jet_is_replay(change, state)) {
        jet_replay(change, state, COORD_R_ACQUIRED, plan);
    } else if (live && !(taking->over && same)) {
        plan->result = jet_exists(same ? COORD_R_ALREADY_HOLDER : COORD_R_HELD, state);
    } else {
        plan->write = true;
        plan->result = prim_ok(COORD_R_ACQUIRED);
        plan->envelope = jet_new(change->call, in->value, in->owner, in->ttl_ms, &in->lease_id);
        plan->envelope.flags |= ENVELOPE_SLOT;
    }
}

static coord_result take(struct slots *slots, const struct prim_call *call,
                         const struct taking *taking, size_t index, struct prim_grant *ret_grant)
{
    char key[PRIM_SLOT_KEY_CAP];
    prim_slot_key(slots->group, (uint32_t)index, key);
    struct jet_change change = {.call = call,
                                .key = str_from(key),
                                .decide = decide_take,
                                .in = taking,
                                .known = &slots->at[index].state};
    coord_result result = jet_change_run(slots->store, &change);
    if (result.code == COORD_OK) {
        *ret_grant = change.grant;
        ret_grant->slot = (uint32_t)index;
    }
    result.slot = (uint32_t)index;
    result.slot_count = (uint32_t)slots->count;
    return result;
}

static coord_result full(const struct slots *slots, int64_t next_ms)
{
    coord_result result =
        prim_answer(COORD_EXISTS, COORD_R_FULL, "all %zu slots are held", slots->count);
    result.hint_ms = next_ms;
    result.live = (uint32_t)slots->count;
    result.slot_count = (uint32_t)slots->count;
    return result;
}

/* `conflict`: the answer when the group has another number of slots and none is this request's. */
static coord_result acquire_among(struct slots *slots, const struct prim_call *call,
                                  const struct prim_acquire *in, coord_result conflict,
                                  struct prim_grant *ret_grant)
{
    struct taking taking = {.in = in, .over = (in->flags & COORD_TAKEOVER_SAME_OWNER) != 0};
    struct prim_group group;
    uint32_t slot;
    prim_group_begin(&group, call, in, (uint32_t)slots->count);
    for (uint32_t i = 0; i < slots->count; i++) {
        const struct jet_state *state = &slots->at[i].state;
        if (state->kind == JET_LIVE)
            prim_group_held(&group, i, &state->envelope.request_id, state->envelope.owner,
                            jet_remaining_ms(state));
    }
    for (;;) { /* a slot that was tried is taken: slot_count + 1 rounds at most */
        enum prim_group_choice choice = prim_group_choose(&group, 0, &slot);
        if (choice == PRIM_GROUP_CONFLICT) return conflict;
        if (choice == PRIM_GROUP_FULL) return full(slots, group.next_ms);
        coord_result result = take(slots, call, &taking, slot, ret_grant);
        if (choice != PRIM_GROUP_TAKE || result.code != COORD_EXISTS ||
            result.reason != COORD_R_HELD)
            return result;
        prim_group_taken(&group, slot, -1); /* another was faster */
    }
}

coord_result jet_acquire(struct prim_backend *backend, const struct prim_call *call,
                         const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    struct jet_store *store = jet_of(backend);
    char key[PRIM_SLOT_KEY_CAP];
    struct group group = {.in = in, .slot_count = in->slot_count};
    struct slots *slots = NULL;
    prim_group_key(in->group, key);
    struct jet_change change = {
        .call = call, .key = str_from(key), .decide = decide_group, .out = &group};
    coord_result made = jet_change_run(store, &change);
    /* After a resize: an earlier attempt may have a slot nevertheless. */
    bool conflict = made.reason == COORD_R_SLOT_COUNT && call->attempt > 0;
    if (made.code != COORD_OK && !conflict) return made;
    coord_result result = slots_open(store, call, in->group, group.slot_count, &slots);
    if (result.code != COORD_OK) return result;
    assert(slots != NULL);
    result = acquire_among(slots, call, in, made, ret_grant);
    slots_close(slots);
    return result;
}

/* -- holders ---------------------------------------------------------------------------------- */

static bool add_row(coord_holders *holders, size_t index, const struct jet_state *state)
{
    coord_holder row = {.slot = (uint32_t)index,
                        .token = state->token,
                        .revision = state->revision,
                        .remaining_ms = jet_remaining_ms(state)};
    memcpy(row.lease_id_prefix, state->envelope.lease_id.b, sizeof row.lease_id_prefix);
    return prim_holders_add(holders, &row, state->envelope.owner, state->envelope.value);
}

coord_result jet_holders(struct prim_backend *backend, const struct prim_call *call,
                         struct str name, coord_holders **ret_holders)
{
    struct jet_store *store = jet_of(backend);
    char key[PRIM_SLOT_KEY_CAP];
    struct group group = {0};
    struct jet_state state = {.kind = JET_NOTHING};
    struct slots *slots = NULL;
    struct buf memory;
    prim_group_key(name, key);
    buf_init(&memory, JET_ANSWER_MAX);
    coord_result result = jet_read(store, call->deadline_ns, str_from(key), &memory, &state);
    if (result.code == COORD_OK && state.kind != JET_LIVE && state.kind != JET_FOREIGN)
        result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
    else if (result.code == COORD_OK && !group_take(&group, &state))
        result = jet_corrupt(str_from(key));
    buf_deinit(&memory);
    if (result.code != COORD_OK) return result;
    result = slots_open(store, call, name, group.slot_count, &slots);
    if (result.code != COORD_OK) return result;
    assert(slots != NULL);
    coord_holders *holders = prim_holders_make(group.slot_count);
    bool fits = holders != NULL;
    for (size_t i = 0; fits && i < slots->count; i++)
        if (slots->at[i].state.kind == JET_LIVE) fits = add_row(holders, i, &slots->at[i].state);
    slots_close(slots);
    if (!fits) {
        coord_holders_free(holders);
        return no_memory();
    }
    holders->slot_count = group.slot_count;
    holders->revision = group.revision;
    *ret_holders = holders;
    return result;
}
