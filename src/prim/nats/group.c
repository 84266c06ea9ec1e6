/* SPDX-License-Identifier: Apache-2.0 */
/* A group as a list: its record, then one message per slot. */
#include <stdlib.h>

#include "prim/nats/run.h"

enum { RUN_MIN = 64 }; /* slots up to which asking for each is cheaper */

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
    return jet_get_body(slots->store, str_from(key), out) ? prim_no_memory()
                                                          : prim_ok(COORD_R_NONE);
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
    if (slot->state.seen.kind != PRIM_SEEN_LIVE) return prim_ok(COORD_R_NONE);
    if (buf_append(&slot->memory, payload) != ERR_OK) return prim_no_memory();
    enum err err = envelope_decode(buf_peek(&slot->memory), &slot->state.seen.envelope);
    assert(err == ERR_OK); /* the same bytes were one a moment ago */
    return prim_ok(COORD_R_NONE);
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
        int64_t wait_ms = (deadline_ns - prim_clock_now(&store->backend.clock)) / 1000000;
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

void jet_list_end(struct prim_slots *list)
{
    struct slots *slots = list->own;
    for (size_t i = 0; slots != NULL && i < slots->count; i++) buf_deinit(&slots->at[i].memory);
    free(slots);
}

/* Rows belong to different instants. A call that was made before looks for itself among them: then
 * only the leader's own answers will do. */
static coord_result slots_ask(struct slots *slots, const struct prim_call *call)
{
    struct jet_store *store = slots->store;
    if (slots->count == 1) {
        char key[PRIM_SLOT_KEY_CAP];
        prim_slot_key(slots->group, 0, key);
        return jet_read(store, call->deadline_ns, str_from(key), &slots->at[0].memory,
                        &slots->at[0].state);
    }
    if (slots->count > RUN_MIN && call->attempt == 0) return slots_run(slots, call->deadline_ns);
    return jet_link_ask_many(&store->link, call->deadline_ns, store->get_subject, slots->count,
                             slot_body, slot_take, slots);
}

coord_result jet_list(struct prim_change *c, struct str group, uint32_t wanted,
                      struct prim_slots *list)
{
    const struct prim_ways *ways = c->backend->ops->ways;
    coord_result result = ways->read(c);
    if (result.code == COORD_OK) result = prim_slots_begin(list, &c->seen);
    if (result.code != COORD_OK || list->count == 0 || (wanted > 0 && wanted != list->count))
        return result;
    struct slots *slots = calloc(1, sizeof *slots + list->count * sizeof(struct slot));
    if (slots == NULL) return prim_no_memory();
    *slots = (struct slots){.store = jet_of(c->backend), .group = group, .count = list->count};
    list->own = slots;
    for (size_t i = 0; i < slots->count; i++) buf_init(&slots->at[i].memory, JET_ANSWER_MAX);
    result = slots_ask(slots, c->call);
    for (size_t i = 0; i < slots->count; i++) list->at[i] = slots->at[i].state.seen;
    return result;
}
