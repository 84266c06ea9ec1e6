/* SPDX-License-Identifier: Apache-2.0 */
/* One link to each shard of the table: its last cycle, and what that decided for each Need. A shard
 * that does not answer keeps its last picture, with the reason beside it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dash/dash_internal.h"
#include "wire/json/message_json.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_shardread.pb-c.h"
#include "wire/pb/muster_v1_shard.pb-c.h"

enum { NEEDS_SHOWN = 500, NEEDS_EVERY_MS = 2000, STATUS_EVERY_MS = 2000 };

/* -- links -- */

static void link_free(struct shard_link *link)
{
    for (size_t i = 0; i < SHARD_ASKS; i++) buf_deinit(&link->json[i]);
    buf_deinit(&link->next_json);
    *link = (struct shard_link){0};
}

static void link_closed(void *owner)
{
    struct shard_link *link = owner;
    struct dash *dash = link->dash;

    link_free(link);
    dash_channel_closed(dash);
}

static void hang_up(struct shard_link *link)
{
    if (!link->dash || link->closing) return;
    link->closing = true;
    rpc_channel_close(link->channel, link_closed, link);
}

static void dial(struct dash *dash, struct shard_link *link, const char *id, const char *address)
{
    const char *addresses[] = {address, NULL};
    struct note note = {""};

    *link = (struct shard_link){0};
    if (dash_channel_open(dash, addresses, PEER_SHARD, &link->channel, &note)) return;
    link->dash = dash;
    snprintf(link->id, sizeof link->id, "%s", id);
    snprintf(link->address, sizeof link->address, "%s", address);
    for (size_t i = 0; i < SHARD_ASKS; i++) buf_init(&link->json[i], PART_MAX);
    buf_init(&link->next_json, PART_MAX);
    link->listed = true;
}

static struct shard_link *find(struct dash *dash, const char *id, const char *address)
{
    for (size_t i = 0; i < SHARDS_MAX; i++) {
        struct shard_link *link = &dash->shards[i];
        if (link->dash && !link->closing && strcmp(link->id, id) == 0 &&
            strcmp(link->address, address) == 0)
            return link;
    }
    return NULL;
}

void shards_begin_list(struct dash *dash)
{
    dash->shards_listed = 0;
    for (size_t i = 0; i < SHARDS_MAX; i++) dash->shards[i].listed = false;
}

void shards_listed(struct dash *dash, const char *id, const char *address)
{
    struct shard_link *link = find(dash, id, address);

    dash->shards_listed++;
    if (link) {
        link->listed = true;
        return;
    }
    if (!address[0] || strlen(id) >= SHARD_ID_CAP || strlen(address) >= RPC_ADDRESS_CAP) return;
    for (size_t i = 0; i < SHARDS_MAX; i++) {
        if (dash->shards[i].dash) continue;
        dial(dash, &dash->shards[i], id, address);
        return;
    }
}

void shards_end_list(struct dash *dash)
{
    for (size_t i = 0; i < SHARDS_MAX; i++)
        if (dash->shards[i].dash && !dash->shards[i].listed) hang_up(&dash->shards[i]);
}

void shards_hang_up(struct dash *dash)
{
    if (!dash->shards) return;
    for (size_t i = 0; i < SHARDS_MAX; i++) hang_up(&dash->shards[i]);
}

/* -- status -- */

/* A machine that is not there yet, or not any more, is not paid for. */
static bool is_paid(const char *state)
{
    return strcmp(state, "Speculative") != 0;
}

static void take_numbers(struct shard_link *link, const Muster__V1__ShardStatusResponse *s)
{
    link->told = s->cycle > 0 && !s->inventory_left_out;
    link->cost = 0;
    link->configured = link->actions = 0;
    link->cycle_ms = s->cycle_ms;
    link->cycles = s->cycle;
    for (size_t i = 0; i < s->n_inventory; i++) {
        const Muster__V1__Holding *h = s->inventory[i];
        if (is_paid(h->state)) link->cost += h->price_per_hour * h->count;
        if (strcmp(h->state, "Configured") == 0) link->configured += h->count;
    }
    for (size_t i = 0; i < s->n_actions; i++) link->actions += s->actions[i]->count;
}

static void take_status(struct shard_link *link, const ProtobufCMessage *message)
{
    struct buf *into = &link->json[ASK_STATUS];
    struct ndjson json;

    buf_clear(into);
    ndjson_begin(&json, into, NDJSON_LINE);
    message_json_fields(&json, message);
    if (ndjson_end(&json)) snprintf(link->why[ASK_STATUS], WHY_CAP, "too much to show");
    take_numbers(link, (const void *)message);
}

static void on_status(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str bytes)
{
    struct shard_link *link = owner;
    char *why = link->why[ASK_STATUS];
    ProtobufCMessage *message;
    struct arena arena;

    (void)call;
    link->busy[ASK_STATUS] = false;
    if (link->dash->closing || link->closing) return;
    link->next[ASK_STATUS] = dash_again(link->dash, STATUS_EVERY_MS);
    link->dash->dirty[TOPIC_SHARDS] = true;
    why[0] = '\0';
    if (outcome->err) {
        dash_why(why, outcome);
        return;
    }
    arena_init(&arena, ANSWER_ARENA_MAX);
    if (message_read(&muster__v1__shard_status_response__descriptor, bytes, NULL, &arena, &message,
                     NULL))
        snprintf(why, WHY_CAP, "the answer cannot be read");
    else
        take_status(link, message);
    arena_deinit(&arena);
}

static void ask_status(struct shard_link *link)
{
    struct rpc_call_options call = {.path = "/muster.v1.ShardView/Status",
                                    .timeout_ms = CALL_TIMEOUT_MS,
                                    .idempotent = true,
                                    .response_max = ANSWER_MAX};
    enum err err = rpc_unary(link->channel, &call, STR_EMPTY, on_status, link, NULL);

    link->busy[ASK_STATUS] = !err;
    if (err) link->next[ASK_STATUS] = dash_again(link->dash, STATUS_EVERY_MS);
}

/* -- needs: a header, then rows -- */

static void take_frame(struct shard_link *link, const Bigfleet__V1alpha1__InspectNeedsResponse *f)
{
    if (f->frame_case == BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_HEADER &&
        !link->headed) {
        link->headed = true;
        message_json_fields(&link->writer, &f->header->base);
        ndjson_open_array(&link->writer, STR("needs"));
        link->needs = (uint64_t)f->header->total_needs;
        link->unmet = 0;
    } else if (f->frame_case == BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_NEED &&
               link->headed) {
        message_json(&link->writer, NDJSON_ITEM, &f->need->base);
        if (!f->need->satisfied) link->unmet++;
    }
}

static void on_need(void *owner, struct rpc_client_call *call, struct str bytes)
{
    struct shard_link *link = owner;
    ProtobufCMessage *message;
    struct arena arena;

    (void)call;
    if (link->err) return;
    arena_init(&arena, ANSWER_ARENA_MAX);
    link->err = message_read(&bigfleet__v1alpha1__inspect_needs_response__descriptor, bytes, NULL,
                             &arena, &message, NULL);
    if (!link->err) take_frame(link, (const void *)message);
    arena_deinit(&arena);
}

static void on_needs_end(void *owner, struct rpc_client_call *call,
                         const struct rpc_outcome *outcome)
{
    struct shard_link *link = owner;
    char *why = link->why[ASK_NEEDS];
    enum err err = link->err;

    (void)call;
    link->busy[ASK_NEEDS] = false;
    if (link->headed) ndjson_close_array(&link->writer);
    if (!err) err = ndjson_end(&link->writer);
    if (link->dash->closing || link->closing) return;
    link->next[ASK_NEEDS] = dash_again(link->dash, NEEDS_EVERY_MS);
    link->dash->dirty[TOPIC_NEEDS] = true;
    why[0] = '\0';
    if (outcome->err)
        dash_why(why, outcome);
    else if (err || !link->headed)
        snprintf(why, WHY_CAP, "the answer cannot be shown: %s", err_text(err));
    if (why[0]) return;
    buf_clear(&link->json[ASK_NEEDS]);
    if (buf_append(&link->json[ASK_NEEDS], buf_peek(&link->next_json)))
        snprintf(why, WHY_CAP, "no memory for its answer");
}

static void ask_needs(struct shard_link *link)
{
    static const struct rpc_call_events events = {.on_message = on_need, .on_end = on_needs_end};
    Bigfleet__V1alpha1__InspectNeedsRequest request =
        BIGFLEET__V1ALPHA1__INSPECT_NEEDS_REQUEST__INIT;
    struct rpc_call_options options = {.path = "/bigfleet.v1alpha1.ShardRead/InspectNeeds",
                                       .timeout_ms = CALL_TIMEOUT_MS,
                                       .idempotent = true,
                                       .attempts_max = 1,
                                       .response_max = ANSWER_MAX};
    struct rpc_client_call *call = NULL;
    struct buf bytes;
    enum err err;

    request.limit = NEEDS_SHOWN;
    buf_init(&bytes, PART_MAX);
    err = message_write(&request.base, &bytes, NULL);
    if (!err) err = rpc_call_start(link->channel, &options, &events, link, &call);
    if (!err) {
        link->busy[ASK_NEEDS] = true;
        link->headed = false;
        link->err = ERR_OK;
        buf_clear(&link->next_json);
        ndjson_begin(&link->writer, &link->next_json, NDJSON_LINE);
        (void)rpc_call_send(call, buf_peek(&bytes)); /* on_end tells */
        rpc_call_end(call);
    }
    buf_deinit(&bytes);
    if (err) link->next[ASK_NEEDS] = dash_again(link->dash, NEEDS_EVERY_MS);
}

void shards_ask(struct dash *dash)
{
    for (size_t i = 0; i < SHARDS_MAX; i++) {
        struct shard_link *link = &dash->shards[i];
        if (!link->dash || link->closing) continue;
        if (!link->busy[ASK_STATUS] && dash_due(dash, link->next[ASK_STATUS])) ask_status(link);
        if (!link->busy[ASK_NEEDS] && dash_due(dash, link->next[ASK_NEEDS])) ask_needs(link);
    }
}

/* -- telling -- */

void shards_write(struct dash *dash, enum topic topic, struct ndjson *json)
{
    enum shard_ask ask = topic == TOPIC_NEEDS ? ASK_NEEDS : ASK_STATUS;

    if (topic != TOPIC_NEEDS && topic != TOPIC_SHARDS) return;
    ndjson_u64(json, STR("listed"), dash->shards_listed);
    ndjson_open_array(json, STR("shards"));
    for (size_t i = 0; i < SHARDS_MAX; i++) {
        const struct shard_link *link = &dash->shards[i];
        if (!link->dash || link->closing) continue;
        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_c_string(json, STR("shard_id"), link->id);
        ndjson_c_string(json, STR("address"), link->address);
        ndjson_c_string(json, STR("why"), link->why[ask][0] ? link->why[ask] : NULL);
        if (link->json[ask].len > 0) ndjson_raw(json, STR("said"), json_line(&link->json[ask]));
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
}

static bool answers(const struct shard_link *link, enum shard_ask ask)
{
    return link->dash && !link->closing && !link->why[ask][0] && link->json[ask].len > 0;
}

static void add(struct sample *sample, enum series series, double value)
{
    double *sum = &sample->values[series];

    *sum = isnan(*sum) ? value : *sum + value;
}

/* Sums over the shards that answer; of none: not known. */
void shards_sample(struct dash *dash, struct sample *sample)
{
    static const enum series ours[] = {SERIES_NEEDS,   SERIES_UNMET,   SERIES_CONFIGURED,
                                       SERIES_COST,    SERIES_ACTIONS, SERIES_CYCLES,
                                       SERIES_CYCLE_MS};

    for (size_t i = 0; i < ARRAY_LEN(ours); i++) sample->values[ours[i]] = NAN;
    for (size_t i = 0; i < SHARDS_MAX; i++) {
        const struct shard_link *link = &dash->shards[i];
        if (answers(link, ASK_NEEDS)) {
            add(sample, SERIES_NEEDS, (double)link->needs);
            add(sample, SERIES_UNMET, (double)link->unmet);
        }
        if (!answers(link, ASK_STATUS)) continue;
        add(sample, SERIES_ACTIONS, (double)link->actions);
        add(sample, SERIES_CYCLES, (double)link->cycles);
        sample->values[SERIES_CYCLE_MS] = fmax(sample->values[SERIES_CYCLE_MS], link->cycle_ms);
        if (!link->told) continue;
        add(sample, SERIES_CONFIGURED, (double)link->configured);
        add(sample, SERIES_COST, link->cost);
    }
}

enum err shards_open(struct dash *dash)
{
    dash->shards = calloc(SHARDS_MAX, sizeof *dash->shards);
    return dash->shards ? ERR_OK : ERR_NOMEM;
}

void shards_close(struct dash *dash)
{
    free(dash->shards);
}
