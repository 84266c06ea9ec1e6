/* SPDX-License-Identifier: Apache-2.0 */
/* Counts slots and waiters of each group. The keys of the store show only the holders of slots, so
 * each group with a holder is queried. Only the first GROUPS_SHOWN groups are queried. */
#include <stdio.h>

#include "dash/dash_internal.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum {
    GROUPS_SHOWN = 32,
    SLOTS_MAX = 1024, /* slots in a group; a query from this row on returns no rows */
};

struct group {
    struct link base; /* base.id is the name of the group */
    bool known;
    uint32_t slots, waiters;
    uint64_t cooldown_ms;
};

/* -- queries -- */

static enum err group_request(void *owner, struct buf *into)
{
    struct group *g = owner;
    Muster__V1__HoldersRequest ask = MUSTER__V1__HOLDERS_REQUEST__INIT;

    ask.group = (ProtobufCBinaryData){strlen(g->base.id), (uint8_t *)g->base.id};
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

/* -- which groups exist -- */

/* Returns the group of a slot's key: "jobs" for "jobs/slot-0003". "": another key. */
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
    char id[LINK_ID_CAP];

    if (name.len == 0 || name.len >= sizeof id || str_has(name, '\0')) return;
    snprintf(id, sizeof id, "%.*s", STR_ARG(name));
    links_listed(&dash->groups, id, "");
}

/* -- publishing, opening -- */

void groups_write(struct dash *dash, enum topic topic, struct ndjson *json)
{
    if (topic != TOPIC_STORE) return;
    ndjson_open_array(json, STR("groups"));
    for (const struct group *g = NULL; (g = links_next(&dash->groups, g));) {
        if (!g->known) continue;
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_c_string(json, STR("group"), g->base.id);
        ndjson_u64(json, STR("slots"), g->slots);
        ndjson_u64(json, STR("waiters"), g->waiters);
        ndjson_u64(json, STR("cooldown_ms"), g->cooldown_ms);
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
}

enum err groups_open(struct dash *dash)
{
    dash->groups = (struct links){.dash = dash,
                                  .kind = &groups_question,
                                  .row_size = sizeof(struct group),
                                  .count = GROUPS_SHOWN};
    return links_open(&dash->groups);
}
