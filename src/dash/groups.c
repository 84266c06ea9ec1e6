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
    SLOTS_MAX = 1024, /* of a group: rows from here on are none */
};

struct group {
    struct question question; /* no dash: the row is free */
    char name[NAME_CAP];
    size_t len;
    bool listed, known;
    uint32_t slots, waiters;
    uint64_t cooldown_ms;
};

/* -- asking -- */

static enum err group_request(void *owner, struct buf *into)
{
    struct group *g = owner;
    Muster__V1__HoldersRequest ask = MUSTER__V1__HOLDERS_REQUEST__INIT;

    ask.group = (ProtobufCBinaryData){g->len, (uint8_t *)g->name};
    ask.serializable = true;
    ask.from_slot = SLOTS_MAX;
    return message_write(&ask.base, into, NULL);
}

static void group_took(void *owner, const ProtobufCMessage *message)
{
    struct group *g = owner;
    const Muster__V1__HoldersResponse *answer = (const void *)message;

    g->known = answer->found;
    g->slots = answer->slot_count;
    g->waiters = answer->waiters;
    g->cooldown_ms = answer->cooldown_ms;
}

static const struct question_kind groups_question = {.path = "/muster.v1.Coordination/Holders",
                                                     .answer =
                                                         &muster__v1__holders_response__descriptor,
                                                     .topic = TOPIC_STORE,
                                                     .every_ms = DASH_EVERY_MS,
                                                     .request = group_request,
                                                     .took = group_took};

void groups_ask(struct dash *dash)
{
    for (size_t i = 0; i < GROUPS_SHOWN; i++)
        if (dash->groups[i].question.dash) question_ask(&dash->groups[i].question, dash->channel);
}

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
        if (g->question.dash && str_equal(str_of(g->name, g->len), name)) {
            g->listed = true;
            return;
        }
        if (!g->question.dash && !room) room = g;
    }
    if (!room) return;
    *room = (struct group){.len = name.len, .listed = true};
    memcpy(room->name, name.at, name.len);
    question_init(&room->question, dash, &groups_question, room);
}

void groups_end_list(struct dash *dash)
{
    for (size_t i = 0; i < GROUPS_SHOWN; i++) {
        struct group *g = &dash->groups[i];
        if (g->listed || g->question.busy) continue; /* a busy one goes with the next list */
        question_deinit(&g->question);
        g->question.dash = NULL;
    }
}

/* -- publishing, and life -- */

void groups_write(struct dash *dash, enum topic topic, struct ndjson *json)
{
    if (topic != TOPIC_STORE) return;
    ndjson_open_array(json, STR("groups"));
    for (size_t i = 0; i < GROUPS_SHOWN; i++) {
        const struct group *g = &dash->groups[i];
        if (!g->question.dash || !g->known) continue;
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
    for (size_t i = 0; dash->groups && i < GROUPS_SHOWN; i++)
        question_deinit(&dash->groups[i].question);
    free(dash->groups);
}
