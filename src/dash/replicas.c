/* SPDX-License-Identifier: Apache-2.0 */
/* What each replica says of itself: the leader, who is asked for everything else, knows how far the
 * logs of the others agree, but not what they have on their disks. One link to each at its own
 * address; who does not answer keeps its last word, with the reason beside it. */
#include <stdio.h>
#include <stdlib.h>

#include "dash/dash_internal.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum { REPLICAS_MAX = 16, EVERY_MS = 2000 };

struct replica_link {
    struct dash *dash; /* NULL: the row is free */
    uint64_t id;
    char address[RPC_ADDRESS_CAP];
    struct rpc_channel *channel;
    bool listed, closing, busy, told;
    mono_time next;
    char why[WHY_CAP];
    uint64_t snapshot, first, applied, log_bytes, disk_free;
    wall_time snapshot_at; /* since when this one is known here */
};

static void link_closed(void *owner)
{
    struct replica_link *link = owner;
    struct dash *dash = link->dash;

    *link = (struct replica_link){0};
    dash_channel_closed(dash);
}

static void hang_up(struct replica_link *link)
{
    if (!link->dash || link->closing) return;
    link->closing = true;
    rpc_channel_close(link->channel, link_closed, link);
}

static void dial(struct dash *dash, struct replica_link *link, uint64_t id, const char *address)
{
    const char *addresses[] = {address, NULL};
    struct note note = {""};

    *link = (struct replica_link){0};
    if (dash_channel_open(dash, addresses, PEER_REPLICA, &link->channel, &note)) return;
    link->dash = dash;
    link->id = id;
    link->listed = true;
    snprintf(link->address, sizeof link->address, "%s", address);
}

void replicas_begin_list(struct dash *dash)
{
    for (size_t i = 0; i < REPLICAS_MAX; i++) dash->replicas[i].listed = false;
}

void replicas_listed(struct dash *dash, uint64_t id, const char *address)
{
    struct replica_link *room = NULL;

    if (!address[0] || strlen(address) >= RPC_ADDRESS_CAP) return;
    for (size_t i = 0; i < REPLICAS_MAX; i++) {
        struct replica_link *link = &dash->replicas[i];
        if (link->dash && !link->closing && link->id == id && strcmp(link->address, address) == 0) {
            link->listed = true;
            return;
        }
        if (!link->dash && !room) room = link;
    }
    if (room) dial(dash, room, id, address);
}

void replicas_end_list(struct dash *dash)
{
    for (size_t i = 0; i < REPLICAS_MAX; i++)
        if (dash->replicas[i].dash && !dash->replicas[i].listed) hang_up(&dash->replicas[i]);
}

void replicas_hang_up(struct dash *dash)
{
    for (size_t i = 0; dash->replicas && i < REPLICAS_MAX; i++) hang_up(&dash->replicas[i]);
}

/* -- asking -- */

static void take(struct replica_link *link, const Muster__V1__StateHashResponse *said)
{
    if (!link->told || link->snapshot != said->snapshot)
        link->snapshot_at = clock_wall(link->dash->io->clock);
    link->told = true;
    link->snapshot = said->snapshot;
    link->first = said->first;
    link->applied = said->applied;
    link->log_bytes = said->log_bytes;
    link->disk_free = said->disk_free;
}

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str bytes)
{
    struct replica_link *link = owner;
    const Muster__V1__StateHashResponse *said;
    ProtobufCMessage *message;
    struct arena arena;

    (void)call;
    link->busy = false;
    if (link->dash->closing || link->closing) return;
    link->next = dash_again(link->dash, EVERY_MS);
    link->why[0] = '\0';
    if (outcome->err) {
        dash_why(link->why, outcome);
        return;
    }
    arena_init(&arena, ANSWER_ARENA_MAX);
    if (message_read(&muster__v1__state_hash_response__descriptor, bytes, NULL, &arena, &message,
                     NULL)) {
        snprintf(link->why, WHY_CAP, "the answer cannot be read");
    } else {
        said = (const void *)message;
        if (said->replica_id == link->id)
            take(link, said);
        else
            snprintf(link->why, WHY_CAP, "another replica answers at its address");
    }
    arena_deinit(&arena);
}

void replicas_ask(struct dash *dash)
{
    struct rpc_call_options call = {.path = "/muster.v1.Fleet/StateHash",
                                    .timeout_ms = CALL_TIMEOUT_MS,
                                    .idempotent = true,
                                    .attempts_max = 1,
                                    .response_max = ANSWER_MAX};

    for (size_t i = 0; i < REPLICAS_MAX; i++) {
        struct replica_link *link = &dash->replicas[i];
        if (!link->dash || link->closing || link->busy || !dash_due(dash, link->next)) continue;
        link->busy = !rpc_unary(link->channel, &call, STR_EMPTY, on_answer, link, NULL);
        if (!link->busy) link->next = dash_again(dash, EVERY_MS);
    }
}

/* -- telling, and life -- */

void replicas_write(struct dash *dash, enum topic topic, struct ndjson *json)
{
    if (topic != TOPIC_RAFT) return;
    ndjson_open_array(json, STR("disks"));
    for (size_t i = 0; i < REPLICAS_MAX; i++) {
        const struct replica_link *link = &dash->replicas[i];
        if (!link->dash || link->closing) continue;
        ndjson_open_object(json, NDJSON_ITEM);
        dash_put_id(json, "replica_id", link->id);
        ndjson_c_string(json, STR("why"), link->why[0] ? link->why : NULL);
        if (link->told) {
            ndjson_u64(json, STR("snapshot"), link->snapshot);
            ndjson_u64(json, STR("snapshot_seen_ms"), link->snapshot ? link->snapshot_at.ms : 0);
            ndjson_u64(json, STR("first"), link->first);
            ndjson_u64(json, STR("applied"), link->applied);
            ndjson_u64(json, STR("log_bytes"), link->log_bytes);
            ndjson_u64(json, STR("disk_free"), link->disk_free);
        }
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
}

enum err replicas_open(struct dash *dash)
{
    dash->replicas = calloc(REPLICAS_MAX, sizeof *dash->replicas);
    return dash->replicas ? ERR_OK : ERR_NOMEM;
}

void replicas_close(struct dash *dash)
{
    free(dash->replicas);
}
