/* SPDX-License-Identifier: Apache-2.0 */
/* Repeated queries. A response becomes JSON when it arrives. If a query fails, the JSON of the last
 * response is kept. Loop's thread. */
#include "dash/questions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dash/dash_internal.h"
#include "wire/json/message_json.h"
#include "wire/message.h"

/* -- questions -- */

void question_init(struct question *q, struct dash *dash, const struct question_kind *kind,
                   void *owner)
{
    *q = (struct question){.dash = dash, .kind = kind, .owner = owner};
    buf_init(&q->json, PART_MAX);
}

/* `answer` NULL: the query failed for the reason in `why`. */
static void question_take(struct question *q, const ProtobufCMessage *answer)
{
    const struct question_kind *kind = q->kind;
    struct ndjson json;

    q->next = dash_again(q->dash, kind->every_ms);
    q->dash->dirty[kind->topic] = true;
    for (size_t i = 0; !answer && i < SERIES_COUNT; i++)
        if (kind->series & BIT(i)) q->dash->now.values[i] = NAN;
    if (!answer) return;
    buf_clear(&q->json);
    ndjson_begin(&json, &q->json, NDJSON_LINE);
    (kind->write ? kind->write : message_json_fields)(&json, answer);
    if (ndjson_end(&json)) snprintf(q->why, WHY_CAP, "too much to show here; musterctl lists it");
    if (kind->took) kind->took(q->owner, answer);
}

static void question_on_answer(void *owner, const struct rpc_client_call *,
                               const struct rpc_outcome *outcome, struct str bytes)
{
    struct question *q = owner;
    ProtobufCMessage *message = NULL;
    struct arena arena;

    q->busy = false;
    if (q->dash->closing) return;
    q->why[0] = '\0';
    arena_init(&arena, ANSWER_ARENA_MAX);
    if (outcome->err)
        dash_why(q->why, outcome);
    else if (message_read(q->kind->answer, bytes, NULL, &arena, &message, NULL))
        snprintf(q->why, WHY_CAP, "the answer cannot be read");
    question_take(q, q->why[0] ? NULL : message);
    arena_deinit(&arena);
}

void question_ask(struct question *q, struct rpc_channel *channel)
{
    struct rpc_call_options call = {.path = q->kind->path,
                                    .timeout_ms = CALL_TIMEOUT_MS,
                                    .idempotent = true,
                                    .attempts_max = q->kind->attempts_max,
                                    .response_max = ANSWER_MAX};
    struct buf request;
    enum err err = ERR_OK;

    if (q->busy || !dash_due(q->dash, q->next)) return;
    buf_init(&request, PART_MAX);
    if (q->kind->request) err = q->kind->request(q->owner, &request);
    if (!err) err = rpc_unary(channel, &call, buf_peek(&request), question_on_answer, q, NULL);
    buf_deinit(&request);
    q->busy = !err;
    if (!err) return;
    snprintf(q->why, WHY_CAP, "%s", err_text(err));
    question_take(q, NULL);
}

/* -- links -- */

static struct link *link_at(const struct links *links, size_t i)
{
    return (struct link *)(void *)((char *)links->rows + i * links->row_size);
}

static void link_free(struct link *link)
{
    const struct links *links = link->links;

    if (links->closed) links->closed(link);
    buf_deinit(&link->question.json);
    memset(link, 0, links->row_size);
}

static void link_channel_closed(void *owner)
{
    struct link *link = owner;
    struct dash *dash = link->links->dash;

    link_free(link);
    dash_channel_closed(dash);
}

static void link_hang_up(struct link *link)
{
    if (!link->links || link->closing) return;
    if (link->links->peer == PEER_COORDINATORS) {
        if (!link->question.busy) link_free(link); /* else a later list frees the row */
        return;
    }
    link->closing = true;
    rpc_channel_close(link->channel, link_channel_closed, link);
}

static void link_dial(struct links *links, struct link *link, const char *id, const char *address)
{
    const char *addresses[] = {address, NULL};
    struct note note = {""};

    if (links->peer == PEER_COORDINATORS)
        link->channel = links->dash->channel;
    else if (dash_channel_open(links->dash, addresses, links->peer, &link->channel, &note))
        return;
    link->links = links;
    link->listed = true;
    snprintf(link->id, sizeof link->id, "%s", id);
    snprintf(link->address, sizeof link->address, "%s", address);
    question_init(&link->question, links->dash, links->kind, link);
    if (links->opened) links->opened(link);
}

enum err links_open(struct links *links)
{
    links->rows = calloc(links->count, links->row_size);
    return links->rows ? ERR_OK : ERR_NOMEM;
}

void links_close(struct links *links)
{
    for (size_t i = 0; links->rows && i < links->count; i++)
        if (link_at(links, i)->links) link_free(link_at(links, i));
    free(links->rows);
}

void links_begin_list(struct links *links)
{
    for (size_t i = 0; i < links->count; i++) link_at(links, i)->listed = false;
}

void links_listed(struct links *links, const char *id, const char *address)
{
    struct link *room = NULL;

    if (strlen(id) >= LINK_ID_CAP || strlen(address) >= RPC_ADDRESS_CAP) return;
    if (!address[0] && links->peer != PEER_COORDINATORS) return;
    for (size_t i = 0; i < links->count; i++) {
        struct link *link = link_at(links, i);

        if (link->links && !link->closing && strcmp(link->id, id) == 0 &&
            strcmp(link->address, address) == 0) {
            link->listed = true;
            return;
        }
        if (!link->links && !room) room = link;
    }
    if (room) link_dial(links, room, id, address);
}

void links_end_list(struct links *links)
{
    for (size_t i = 0; i < links->count; i++)
        if (!link_at(links, i)->listed) link_hang_up(link_at(links, i));
}

void links_hang_up(struct links *links)
{
    for (size_t i = 0; links->rows && i < links->count; i++) link_hang_up(link_at(links, i));
}

void *links_next(const struct links *links, const void *row)
{
    size_t i =
        row ? (size_t)((const char *)row - (const char *)links->rows) / links->row_size + 1 : 0;

    for (; i < links->count; i++)
        if (link_at(links, i)->links && !link_at(links, i)->closing) return link_at(links, i);
    return NULL;
}

void links_ask(struct links *links)
{
    for (struct link *link = NULL; (link = links_next(links, link));)
        question_ask(&link->question, link->channel);
}
