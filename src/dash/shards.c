/* SPDX-License-Identifier: Apache-2.0 */
/* Queries each shard for its last cycle and its decision for each Need. If a shard does not answer,
 * its last values are shown with the reason. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dash/dash_internal.h"
#include "wire/json/message_json.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_shardread.pb-c.h"
#include "wire/pb/muster_v1_shard.pb-c.h"

enum { NEEDS_SHOWN = 500 };

struct shard_link {
    struct link base; /* query for the status */
    uint64_t configured, actions, cycles;
    double cost, cycle_ms;
    bool known; /* the values above were received */
    /* the Needs, which are streamed */
    struct buf needs_json, next_json; /* last complete response; response being received */
    char needs_why[WHY_CAP];
    bool busy, headed;
    mono_time next;
    struct ndjson writer; /* writes next_json */
    enum err err;
    uint64_t needs, unmet;
};

/* -- status -- */

static void shard_took_status(void *owner, const ProtobufCMessage *answer)
{
    const Muster__V1__ShardStatusResponse *s = (const void *)answer;
    struct shard_link *link = owner;

    link->known = s->cycle > 0 && !s->inventory_left_out;
    link->cost = 0;
    link->configured = link->actions = 0;
    link->cycle_ms = s->cycle_ms;
    link->cycles = s->cycle;
    for (size_t i = 0; i < s->n_inventory; i++) {
        const Muster__V1__Holding *h = s->inventory[i];
        /* A Speculative machine does not exist and costs nothing. */
        if (strcmp(h->state, "Speculative") != 0) link->cost += h->price_per_hour * h->count;
        if (strcmp(h->state, "Configured") == 0) link->configured += h->count;
    }
    for (size_t i = 0; i < s->n_actions; i++) link->actions += s->actions[i]->count;
}

static const struct question_kind status_question = {
    .path = "/muster.v1.ShardView/Status",
    .answer = &muster__v1__shard_status_response__descriptor,
    .topic = TOPIC_SHARDS,
    .every_ms = DASH_EVERY_MS,
    .took = shard_took_status};

/* -- Needs: a stream of one header and then rows -- */

static void needs_take_frame(struct shard_link *link,
                             const Bigfleet__V1alpha1__InspectNeedsResponse *f)
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

static void needs_on_message(void *owner, struct rpc_client_call *, struct str bytes)
{
    struct shard_link *link = owner;
    ProtobufCMessage *message;
    struct arena arena;

    if (link->err) return;
    arena_init(&arena, ANSWER_ARENA_MAX);
    link->err = message_read(&bigfleet__v1alpha1__inspect_needs_response__descriptor, bytes, NULL,
                             &arena, &message, NULL);
    if (!link->err) needs_take_frame(link, (const void *)message);
    arena_deinit(&arena);
}

static void needs_on_end(void *owner, struct rpc_client_call *, const struct rpc_outcome *outcome)
{
    struct shard_link *link = owner;
    struct dash *dash = link->base.links->dash;
    char *why = link->needs_why;
    enum err err = link->err;

    link->busy = false;
    if (link->headed) ndjson_close_array(&link->writer);
    if (!err) err = ndjson_end(&link->writer);
    if (dash->closing || link->base.closing) return;
    link->next = dash_again(dash, DASH_EVERY_MS);
    dash->dirty[TOPIC_NEEDS] = true;
    why[0] = '\0';
    if (outcome->err)
        dash_why(why, outcome);
    else if (err || !link->headed)
        snprintf(why, WHY_CAP, "the answer cannot be shown: %s", err_text(err));
    if (why[0]) return;
    buf_clear(&link->needs_json);
    if (buf_append(&link->needs_json, buf_peek(&link->next_json)))
        snprintf(why, WHY_CAP, "no memory for its answer");
}

static void needs_ask(struct shard_link *link)
{
    static const struct rpc_call_events events = {.on_message = needs_on_message,
                                                  .on_end = needs_on_end};
    Bigfleet__V1alpha1__InspectNeedsRequest request =
        BIGFLEET__V1ALPHA1__INSPECT_NEEDS_REQUEST__INIT;
    struct rpc_call_options options = {.path = "/bigfleet.v1alpha1.ShardRead/InspectNeeds",
                                       .timeout_ms = CALL_TIMEOUT_MS,
                                       .idempotent = true,
                                       .attempts_max = 1,
                                       .response_max = ANSWER_MAX};
    struct dash *dash = link->base.links->dash;
    struct rpc_client_call *call = NULL;
    struct buf bytes;
    enum err err;

    if (link->busy || !dash_due(dash, link->next)) return;
    request.limit = NEEDS_SHOWN;
    buf_init(&bytes, PART_MAX);
    err = message_write(&request.base, &bytes, NULL);
    if (!err) err = rpc_call_start(link->base.channel, &options, &events, link, &call);
    if (!err) {
        link->busy = true;
        link->headed = false;
        link->err = ERR_OK;
        buf_clear(&link->next_json);
        ndjson_begin(&link->writer, &link->next_json, NDJSON_LINE);
        (void)rpc_call_send(call, buf_peek(&bytes)); /* needs_on_end reports an error */
        rpc_call_end(call);
    }
    buf_deinit(&bytes);
    if (err) link->next = dash_again(dash, DASH_EVERY_MS);
}

void shards_ask(struct dash *dash)
{
    links_ask(&dash->shards);
    for (struct shard_link *link = NULL; (link = links_next(&dash->shards, link));) needs_ask(link);
}

/* -- publishing -- */

void shards_write(struct dash *dash, enum topic topic, struct ndjson *json)
{
    bool needs = topic == TOPIC_NEEDS;

    if (!needs && topic != TOPIC_SHARDS) return;
    ndjson_u64(json, STR("listed"), dash->shards_listed);
    ndjson_open_array(json, STR("shards"));
    for (const struct shard_link *link = NULL; (link = links_next(&dash->shards, link));) {
        const struct buf *said = needs ? &link->needs_json : &link->base.question.json;
        const char *why = needs ? link->needs_why : link->base.question.why;

        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_c_string(json, STR("shard_id"), link->base.id);
        ndjson_c_string(json, STR("address"), link->base.address);
        ndjson_c_string(json, STR("why"), why[0] ? why : NULL);
        if (said->len > 0) ndjson_raw(json, STR("said"), json_line(said));
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
}

static void shards_add(struct sample *sample, enum series series, double value)
{
    double *sum = &sample->values[series];

    *sum = isnan(*sum) ? value : *sum + value;
}

/* Adds up all shards that answer. Without any answer the values are unknown. */
void shards_sample(struct dash *dash, struct sample *sample)
{
    static const enum series ours[] = {SERIES_NEEDS,   SERIES_UNMET,   SERIES_CONFIGURED,
                                       SERIES_COST,    SERIES_ACTIONS, SERIES_CYCLES,
                                       SERIES_CYCLE_MS};

    for (size_t i = 0; i < ARRAY_LEN(ours); i++) sample->values[ours[i]] = NAN;
    for (const struct shard_link *link = NULL; (link = links_next(&dash->shards, link));) {
        if (!link->needs_why[0] && link->needs_json.len > 0) {
            shards_add(sample, SERIES_NEEDS, (double)link->needs);
            shards_add(sample, SERIES_UNMET, (double)link->unmet);
        }
        if (link->base.question.why[0] || link->base.question.json.len == 0) continue;
        shards_add(sample, SERIES_ACTIONS, (double)link->actions);
        shards_add(sample, SERIES_CYCLES, (double)link->cycles);
        sample->values[SERIES_CYCLE_MS] = fmax(sample->values[SERIES_CYCLE_MS], link->cycle_ms);
        if (!link->known) continue;
        shards_add(sample, SERIES_CONFIGURED, (double)link->configured);
        shards_add(sample, SERIES_COST, link->cost);
    }
}

/* -- life -- */

static void shard_opened(void *row)
{
    struct shard_link *link = row;

    buf_init(&link->needs_json, PART_MAX);
    buf_init(&link->next_json, PART_MAX);
}

static void shard_closed(void *row)
{
    struct shard_link *link = row;

    buf_deinit(&link->needs_json);
    buf_deinit(&link->next_json);
}

enum err shards_open(struct dash *dash)
{
    dash->shards = (struct links){.dash = dash,
                                  .kind = &status_question,
                                  .row_size = sizeof(struct shard_link),
                                  .count = SHARDS_MAX,
                                  .peer = PEER_SHARD,
                                  .opened = shard_opened,
                                  .closed = shard_closed};
    return links_open(&dash->shards);
}
