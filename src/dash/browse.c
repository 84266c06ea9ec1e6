/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/keys?prefix=P: the first keys with a prefix. Values are shown only to clients with the
 * token.
 *
 * The HTTP thread must not wait for the event loop. So the first response is 202, and a repeated
 * request gets the keys. Results are kept for two seconds. */
#include <stdio.h>
#include <stdlib.h>

#include "dash/dash_internal.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum {
    LOOKUPS = 16,
    PREFIX_MAX = 1024,
    KEYS_SHOWN = 200,
    VALUE_SHOWN = 2048, /* bytes of a value that are shown */
    FRESH_MS = 2000,
    REPLY_MAX = 2 << 20,
};

struct lookup {
    struct page_request base;
    bool values;
    size_t prefix_len;
    char prefix[PREFIX_MAX];
    mono_time at;
    int status;
    struct buf json;
};

/* -- on the loop -- */

static void lookup_write_entry(struct ndjson *json, const Muster__V1__Entry *e, bool values)
{
    struct str value = str_of(e->value.data, e->value.len);

    ndjson_open_object(json, NDJSON_ITEM);
    ndjson_string(json, STR("key"), str_of(e->key.data, e->key.len));
    ndjson_u64(json, STR("revision"), e->revision);
    ndjson_u64(json, STR("create_revision"), e->create_revision);
    if (e->token) {
        ndjson_u64(json, STR("token"), e->token);
        ndjson_c_string(json, STR("owner"), e->owner);
        ndjson_i64(json, STR("remaining_ms"), e->remaining_ms);
    }
    if (values) {
        ndjson_u64(json, STR("bytes"), value.len);
        if (value.len > VALUE_SHOWN) value.len = VALUE_SHOWN;
        ndjson_string(json, STR("value"), value);
    }
    ndjson_close_object(json);
}

static enum err lookup_write(struct lookup *q, struct str bytes)
{
    const Muster__V1__RangeResponse *range;
    ProtobufCMessage *message;
    struct arena arena;
    struct ndjson json;
    enum err err;

    arena_init(&arena, ANSWER_ARENA_MAX);
    err =
        message_read(&muster__v1__range_response__descriptor, bytes, NULL, &arena, &message, NULL);
    if (!err) {
        range = (const void *)message;
        ndjson_begin(&json, &q->json, NDJSON_LINE);
        ndjson_string(&json, STR("prefix"), str_of(q->prefix, q->prefix_len));
        ndjson_bool(&json, STR("values"), q->values);
        ndjson_u64(&json, STR("count"), range->count);
        ndjson_bool(&json, STR("more"), range->more);
        ndjson_u64(&json, STR("revision"), range->revision);
        ndjson_open_array(&json, STR("keys"));
        for (size_t i = 0; i < range->n_entries; i++)
            lookup_write_entry(&json, range->entries[i], q->values);
        ndjson_close_array(&json);
        err = ndjson_end(&json);
    }
    arena_deinit(&arena);
    return err;
}

static void lookup_end(struct lookup *q, enum err err, const char *why)
{
    struct ndjson json;

    q->status = 200;
    if (err) {
        q->status = 503;
        buf_clear(&q->json);
        ndjson_begin(&json, &q->json, NDJSON_LINE);
        ndjson_c_string(&json, STR("error"), why);
        (void)ndjson_end(&json); /* after an error the body is empty */
    }
    q->at = loop_now(q->base.all->dash->io->loop);
    page_request_done(&q->base);
}

static void lookup_on_range(void *owner, const struct rpc_client_call *,
                            const struct rpc_outcome *outcome, struct str bytes)
{
    struct lookup *q = owner;
    char why[WHY_CAP] = "the answer cannot be shown";
    enum err err = outcome->err;

    if (err) dash_why(why, outcome);
    pthread_mutex_lock(&q->base.all->lock);
    buf_clear(&q->json);
    if (!err) err = lookup_write(q, bytes);
    lookup_end(q, err, why);
    pthread_mutex_unlock(&q->base.all->lock);
}

static void lookup_fail(struct page_request *request, enum err err)
{
    lookup_end(CONTAINER_OF(request, struct lookup, base), err, err_text(err));
}

/* Writes the first key after all keys with the prefix. Returns its length; 0: no such key. */
static size_t lookup_prefix_end(const struct lookup *q, uint8_t end[PREFIX_MAX])
{
    size_t len = q->prefix_len;

    memcpy(end, q->prefix, len);
    while (len > 0 && end[len - 1] == 0xff) len--;
    if (len > 0) end[len - 1]++;
    return len;
}

static enum err lookup_send(struct page_request *request_row)
{
    struct lookup *q = CONTAINER_OF(request_row, struct lookup, base);
    struct rpc_call_options call = {.path = "/muster.v1.Coordination/Range",
                                    .timeout_ms = CALL_TIMEOUT_MS,
                                    .idempotent = true,
                                    .response_max = ANSWER_MAX};
    Muster__V1__RangeRequest request = MUSTER__V1__RANGE_REQUEST__INIT;
    uint8_t start[PREFIX_MAX + 1] = {0}, end[PREFIX_MAX] = {0};
    size_t end_len = lookup_prefix_end(q, end);
    struct buf bytes;
    enum err err;

    memcpy(start, q->prefix, q->prefix_len);
    /* An empty prefix selects all keys, from the smallest key on. */
    request.key = (ProtobufCBinaryData){q->prefix_len ? q->prefix_len : 1, start};
    request.range_end = (ProtobufCBinaryData){end_len ? end_len : 1, end};
    if (!end_len) end[0] = 0;
    request.limit = KEYS_SHOWN;
    request.keys_only = !q->values;
    buf_init(&bytes, PART_MAX);
    err = message_write(&request.base, &bytes, NULL);
    if (!err)
        err = rpc_unary(q->base.all->dash->channel, &call, buf_peek(&bytes), lookup_on_range, q,
                        NULL);
    buf_deinit(&bytes);
    return err;
}

/* -- called on the HTTP thread -- */

static struct lookup *lookup_find(struct page_requests *all, struct str prefix, bool values)
{
    for (size_t i = 0; i < all->count; i++) {
        struct lookup *q = page_request_at(all, i);
        if (q->base.state != REQUEST_FREE && q->values == values &&
            str_equal(str_of(q->prefix, q->prefix_len), prefix))
            return q;
    }
    return NULL;
}

static void lookup_begin(struct page_requests *all, struct lookup *q, struct str prefix,
                         bool values)
{
    q->values = values;
    q->prefix_len = prefix.len;
    if (prefix.len) memcpy(q->prefix, prefix.at, prefix.len);
    page_request_post(all, &q->base);
}

static void lookup_serve(struct dash *dash, struct str prefix, bool values,
                         struct http_response *response)
{
    struct page_requests *all = &dash->lookups;
    struct lookup *q = lookup_find(all, prefix, values);
    bool answered = q && q->base.state == REQUEST_DONE;

    if (answered && mono_elapsed_ms(q->at, clock_mono(dash->io->clock)) < FRESH_MS) {
        response->status = q->status;
        response->err = buf_append(&response->body, buf_peek(&q->json));
        return;
    }
    if (!q) q = page_requests_room(all);
    if (q && q->base.state != REQUEST_WAITING && q->base.state != REQUEST_SENT)
        lookup_begin(all, q, prefix, values);
    response->status = q ? 202 : 503;
    response->err = buf_append_c(&response->body, q ? "{\"pending\":true}\n"
                                                    : "{\"error\":\"too many questions\"}\n");
}

void browse_page(void *context, const struct http_request *request, struct http_response *response)
{
    struct dash *dash = context;
    struct buf prefix;
    enum err err;

    response->content_type = "application/json";
    buf_init(&prefix, PREFIX_MAX);
    err = http_query(request->query, STR("prefix"), &prefix);
    if (err && err != ERR_NOT_FOUND) {
        response->status = 400;
        response->err = buf_append_c(&response->body, "{\"error\":\"bad prefix\"}\n");
    } else {
        pthread_mutex_lock(&dash->lookups.lock);
        lookup_serve(dash, buf_peek(&prefix), dash_admin_by(dash, request) != NULL, response);
        pthread_mutex_unlock(&dash->lookups.lock);
    }
    buf_deinit(&prefix);
}

/* -- life -- */

enum err browse_open(struct dash *dash)
{
    struct page_requests *all = &dash->lookups;
    enum err err;

    *all = (struct page_requests){.dash = dash,
                                  .row_size = sizeof(struct lookup),
                                  .count = LOOKUPS,
                                  .send = lookup_send,
                                  .fail = lookup_fail};
    err = page_requests_open(all);
    for (size_t i = 0; !err && i < all->count; i++)
        buf_init(&((struct lookup *)page_request_at(all, i))->json, REPLY_MAX);
    return err;
}

void browse_close(struct dash *dash)
{
    struct page_requests *all = &dash->lookups;

    for (size_t i = 0; all->rows && i < all->count; i++)
        buf_deinit(&((struct lookup *)page_request_at(all, i))->json);
    page_requests_close(all);
}
