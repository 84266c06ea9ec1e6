/* SPDX-License-Identifier: Apache-2.0 */
/* Lists a group: its record, then one message per slot. */
#include <stdio.h>
#include <stdlib.h>

#include "prim/nats/store.h"

enum {
    RUN_MIN = 64, /* for fewer slots, one request per slot is cheaper */
    /* Servers drop all waiting requests if too many wait. */
    WINDOW = 32,
};

struct slot {
    struct buf memory;
    struct jet_state state;
    bool answered; /* a second reply is ignored */
};
struct slots {
    struct jet_store *store;
    struct str group;
    size_t count;
    struct slot at[];
};

/* Replies arrive at "<inbox>.<slot>". */
struct asking {
    struct slots *slots;
    natsInbox *inbox;
    natsSubscription *replies;
    size_t asked, answered;
};

static coord_result ask_next(struct asking *asking)
{
    struct jet_store *store = asking->slots->store;
    char key[PRIM_SLOT_KEY_CAP], reply[128];
    struct buf body;
    prim_slot_key(asking->slots->group, (uint32_t)asking->asked, key);
    (void)snprintf(reply, sizeof reply, "%s.%zu", asking->inbox, asking->asked);
    asking->asked++;
    buf_init(&body, 8192);
    enum err err = jet_get_body(store, str_from(key), &body);
    struct jet_pipe_guard guard;
    jet_pipe_guard_begin(&guard);
    natsStatus status =
        err ? NATS_NO_MEMORY
            : natsConnection_PublishRequest(store->link.connection, store->get_subject, reply,
                                            body.data, (int)body.len);
    jet_pipe_guard_end(&guard);
    buf_deinit(&body);
    return status == NATS_OK ? prim_ok(COORD_R_NONE) : jet_link_failed(&store->link, status, false);
}

static coord_result take_reply(struct asking *asking, int64_t deadline_ns)
{
    struct slots *slots = asking->slots;
    struct jet_link *link = &slots->store->link;
    int64_t wait_ms = jet_link_wait_ms(link, deadline_ns);
    natsMsg *message = NULL;
    natsStatus status =
        wait_ms < 1 ? NATS_TIMEOUT : natsSubscription_NextMsg(&message, asking->replies, wait_ms);
    if (status != NATS_OK) return jet_link_failed(link, status, false);
    coord_result result = prim_ok(COORD_R_NONE);
    struct str subject = str_from(natsMsg_GetSubject(message));
    uint64_t index;
    if (natsMsg_IsNoResponders(message)) {
        result = jet_link_failed(link, NATS_NO_RESPONDERS, false);
    } else if (str_to_u64(str_tail(subject, strlen(asking->inbox) + 1), &index) == ERR_OK &&
               index < asking->asked && !slots->at[index].answered) {
        struct slot *slot = &slots->at[index];
        slot->answered = true;
        asking->answered++;
        result = jet_message_of(slots->store, jet_link_body(message), &slot->memory, &slot->state);
    }
    natsMsg_Destroy(message);
    return result;
}

/* Reads each slot from the stream's leader, with a window of requests in flight. */
static coord_result slots_each(struct slots *slots, int64_t deadline_ns)
{
    struct jet_link *link = &slots->store->link;
    struct asking asking = {.slots = slots};
    struct jet_pipe_guard guard;
    char all[128];
    if (natsConnection_Status(link->connection) != NATS_CONN_STATUS_CONNECTED)
        return jet_link_failed(link, NATS_INSUFFICIENT_BUFFER, false);
    natsStatus status = natsInbox_Create(&asking.inbox);
    if (status != NATS_OK) return jet_link_failed(link, status, false);
    (void)snprintf(all, sizeof all, "%s.*", asking.inbox);
    jet_pipe_guard_begin(&guard);
    status = natsConnection_SubscribeSync(&asking.replies, link->connection, all);
    jet_pipe_guard_end(&guard);
    coord_result result =
        status == NATS_OK ? prim_ok(COORD_R_NONE) : jet_link_failed(link, status, false);
    while (result.code == COORD_OK && asking.answered < slots->count)
        if (asking.asked < slots->count && asking.asked - asking.answered < WINDOW)
            result = ask_next(&asking);
        else
            result = take_reply(&asking, deadline_ns);
    jet_pipe_guard_begin(&guard);
    natsSubscription_Destroy(asking.replies);
    jet_pipe_guard_end(&guard);
    natsInbox_Destroy(asking.inbox);
    return result;
}

/* Copies the envelope's strings, because the message is freed. */
static coord_result slot_keep(struct slot *slot, struct str payload)
{
    if (slot->state.seen.kind != PRIM_SEEN_LIVE) return prim_ok(COORD_R_NONE);
    if (buf_append(&slot->memory, payload) != ERR_OK) return prim_no_memory();
    enum err err = envelope_decode(buf_peek(&slot->memory), &slot->state.seen.envelope);
    assert(err == ERR_OK); /* the same bytes were decoded before */
    return prim_ok(COORD_R_NONE);
}

/* Reads a long list with one ordered consumer (a run), which is faster. The replica of the run
 * may lag: a slot wrongly seen as free costs a refused publish. */
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
            if (claim_slot_number(prim_leaf_of(str_from(got.key)), &index) &&
                index < slots->count) {
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

/* Reads each slot at a different instant. A repeated call looks for its own slot, so it needs
 * the leader's answers. */
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
    return slots_each(slots, call->deadline_ns);
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
