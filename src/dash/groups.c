/* SPDX-License-Identifier: Apache-2.0 */
/* How many slots each group has and how many wait for one. The keys of the store show who holds a
 * slot and nothing of the group itself, so each group that has a holder is asked for: the first few,
 * one question each every few seconds, without their rows. */
#include <stdlib.h>

#include "dash/dash_internal.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum {
    GROUPS_SHOWN = 32,
    NAME_CAP = 1025,
    EVERY_MS = 2000,
    REQUEST_MAX = 2048,
    SLOTS_MAX = 1024, /* of a group: rows from here on are none */
};

struct group {
    struct dash *dash; /* NULL: the row is free */
    char name[NAME_CAP];
    size_t len;
    bool listed, busy, known;
    mono_time next;
    uint32_t slots, waiters;
    uint64_t cooldown_ms;
};

/* -- which there are -- */

void groups_begin_list(struct dash *dash)
{
    for (size_t i = 0; i < GROUPS_SHOWN; i++) dash->groups[i].listed = false;
}

/* "jobs/slot-0003": of the group "jobs"; anything else is of none. */
static struct str group_of(struct str claim)
{
    struct str slot = STR("/slot-");
    size_t digits = 0;

    while (digits < claim.len && claim.at[claim.len - digits - 1] >= '0' &&
           claim.at[claim.len - digits - 1] <= '9')
        digits++;
    if (digits == 0 || claim.len <= digits + slot.len) return STR_EMPTY;
    claim.len -= digits + slot.len;
    return str_equal(str_of(claim.at + claim.len, slot.len), slot) ? claim : STR_EMPTY;
}

void groups_listed(struct dash *dash, struct str claim)
{
    struct str name = group_of(claim);
    struct group *room = NULL;

    if (name.len == 0 || name.len >= NAME_CAP) return;
    for (size_t i = 0; i < GROUPS_SHOWN; i++) {
        struct group *g = &dash->groups[i];
        if (g->dash && str_equal(str_of(g->name, g->len), name)) {
            g->listed = true;
            return;
        }
        if (!g->dash && !room) room = g;
    }
    if (!room) return;
    *room = (struct group){.dash = dash, .len = name.len, .listed = true};
    memcpy(room->name, name.at, name.len);
}

void groups_end_list(struct dash *dash)
{
    for (size_t i = 0; i < GROUPS_SHOWN; i++) {
        struct group *g = &dash->groups[i];
        if (!g->listed && !g->busy) g->dash = NULL; /* else with the next list */
    }
}

/* -- asking -- */

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str bytes)
{
    struct group *g = owner;
    struct dash *dash = g->dash;
    const Muster__V1__HoldersResponse *answer;
    ProtobufCMessage *message;
    struct arena arena;

    (void)call;
    g->busy = false;
    if (dash->closing) return;
    g->next = dash_again(dash, EVERY_MS);
    if (outcome->err) return; /* what was known stays; the claims beside it say what is wrong */
    arena_init(&arena, ANSWER_ARENA_MAX);
    if (!message_read(&muster__v1__holders_response__descriptor, bytes, NULL, &arena, &message,
                      NULL)) {
        answer = (const void *)message;
        g->known = answer->found;
        g->slots = answer->slot_count;
        g->waiters = answer->waiters;
        g->cooldown_ms = answer->cooldown_ms;
        dash->dirty[TOPIC_STORE] = true;
    }
    arena_deinit(&arena);
}

static void ask(struct group *g)
{
    struct rpc_call_options call = {.path = "/muster.v1.Coordination/Holders",
                                    .timeout_ms = CALL_TIMEOUT_MS,
                                    .idempotent = true,
                                    .response_max = ANSWER_MAX};
    Muster__V1__HoldersRequest request = MUSTER__V1__HOLDERS_REQUEST__INIT;
    struct buf bytes;
    enum err err;

    request.group = (ProtobufCBinaryData){g->len, (uint8_t *)g->name};
    request.serializable = true;
    request.from_slot = SLOTS_MAX;
    buf_init(&bytes, REQUEST_MAX);
    err = message_write(&request.base, &bytes, NULL);
    if (!err) err = rpc_unary(g->dash->channel, &call, buf_peek(&bytes), on_answer, g, NULL);
    buf_deinit(&bytes);
    g->busy = !err;
    if (err) g->next = dash_again(g->dash, EVERY_MS);
}

void groups_ask(struct dash *dash)
{
    for (size_t i = 0; i < GROUPS_SHOWN; i++) {
        struct group *g = &dash->groups[i];
        if (g->dash && !g->busy && dash_due(dash, g->next)) ask(g);
    }
}

/* -- telling, and life -- */

void groups_write(struct dash *dash, enum topic topic, struct ndjson *json)
{
    if (topic != TOPIC_STORE) return;
    ndjson_open_array(json, STR("groups"));
    for (size_t i = 0; i < GROUPS_SHOWN; i++) {
        const struct group *g = &dash->groups[i];
        if (!g->dash || !g->known) continue;
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_string(json, STR("group"), str_of(g->name, g->len));
        ndjson_u64(json, STR("slots"), g->slots);
        ndjson_u64(json, STR("waiters"), g->waiters);
        ndjson_u64(json, STR("cooldown_ms"), g->cooldown_ms);
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
}

enum err groups_open(struct dash *dash)
{
    dash->groups = calloc(GROUPS_SHOWN, sizeof *dash->groups);
    return dash->groups ? ERR_OK : ERR_NOMEM;
}

void groups_close(struct dash *dash)
{
    free(dash->groups);
}
