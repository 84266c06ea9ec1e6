/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/keys?prefix=P: the first keys below a prefix. The HTTP thread may not wait for the loop,
 * so the first answer is 202, and the one after it, a moment later, has the keys. A few questions
 * are kept; who asks the same within two seconds gets the same answer.
 *
 * Values are shown to who has the token only. */
#include <stdio.h>
#include <stdlib.h>

#include "dash/dash_internal.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum {
    QUESTIONS = 16,
    PREFIX_MAX = 1024,
    KEYS_SHOWN = 200,
    VALUE_SHOWN = 2048, /* bytes; `bytes` says how many there are */
    FRESH_MS = 2000,
    REPLY_MAX = 2 << 20,
};

enum lookup_state { LOOKUP_FREE, LOOKUP_ASKED, LOOKUP_SENT, LOOKUP_ANSWERED };
struct lookup {
    struct dash *dash;
    enum lookup_state state;
    bool values;
    size_t prefix_len;
    char prefix[PREFIX_MAX];
    mono_time at;
    int status;
    struct buf json;
};
struct browse {
    pthread_mutex_t lock; /* of everything here */
    struct post post;
    bool posted;
    size_t sent;
    struct lookup questions[QUESTIONS];
};

/* -- the loop's side -- */

static void write_entry(struct ndjson *json, const Muster__V1__Entry *e, bool values)
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

static enum err write_answer(struct lookup *q, struct str bytes)
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
            write_entry(&json, range->entries[i], q->values);
        ndjson_close_array(&json);
        err = ndjson_end(&json);
    }
    arena_deinit(&arena);
    return err;
}

static void answer(struct lookup *q, enum err err, const char *why)
{
    struct ndjson json;

    q->status = 200;
    if (err) {
        q->status = 503;
        buf_clear(&q->json);
        ndjson_begin(&json, &q->json, NDJSON_LINE);
        ndjson_c_string(&json, STR("error"), why);
        (void)ndjson_end(&json); /* empty then, and the status says enough */
    }
    q->at = loop_now(q->dash->io->loop);
    q->state = LOOKUP_ANSWERED;
}

static void on_range(void *owner, const struct rpc_client_call *, const struct rpc_outcome *outcome,
                     struct str bytes)
{
    struct lookup *q = owner;
    struct dash *dash = q->dash;
    char why[WHY_CAP] = "the answer cannot be shown";
    enum err err = outcome->err;

    if (err) dash_why(why, outcome);
    pthread_mutex_lock(&dash->browse->lock);
    buf_clear(&q->json);
    if (!err) err = write_answer(q, bytes);
    answer(q, err, why);
    dash->browse->sent--;
    pthread_mutex_unlock(&dash->browse->lock);
}

/* The first key behind all that begin with this; 0 bytes of it: there is none. */
static size_t prefix_end(const struct lookup *q, uint8_t end[PREFIX_MAX])
{
    size_t len = q->prefix_len;

    memcpy(end, q->prefix, len);
    while (len > 0 && end[len - 1] == 0xff) len--;
    if (len > 0) end[len - 1]++;
    return len;
}

static enum err ask(struct lookup *q)
{
    struct rpc_call_options call = {.path = "/muster.v1.Coordination/Range",
                                    .timeout_ms = CALL_TIMEOUT_MS,
                                    .idempotent = true,
                                    .response_max = ANSWER_MAX};
    Muster__V1__RangeRequest request = MUSTER__V1__RANGE_REQUEST__INIT;
    uint8_t start[PREFIX_MAX + 1] = {0}, end[PREFIX_MAX] = {0};
    size_t end_len = prefix_end(q, end);
    struct buf bytes;
    enum err err;

    memcpy(start, q->prefix, q->prefix_len);
    /* every key there is: from the first possible one to the end of all */
    request.key = (ProtobufCBinaryData){q->prefix_len ? q->prefix_len : 1, start};
    request.range_end = (ProtobufCBinaryData){end_len ? end_len : 1, end};
    if (!end_len) end[0] = 0;
    request.limit = KEYS_SHOWN;
    request.keys_only = !q->values;
    buf_init(&bytes, PART_MAX);
    err = message_write(&request.base, &bytes, NULL);
    if (!err) err = rpc_unary(q->dash->channel, &call, buf_peek(&bytes), on_range, q, NULL);
    buf_deinit(&bytes);
    return err;
}

static void on_post(struct post *post)
{
    struct browse *browse = CONTAINER_OF(post, struct browse, post);
    struct dash *dash = browse->questions[0].dash;

    pthread_mutex_lock(&browse->lock);
    browse->posted = false;
    for (size_t i = 0; i < QUESTIONS && !dash->closing; i++) {
        struct lookup *q = &browse->questions[i];
        enum err err;
        if (q->state != LOOKUP_ASKED) continue;
        err = ask(q);
        if (err) {
            answer(q, err, err_text(err));
        } else {
            q->state = LOOKUP_SENT;
            browse->sent++;
        }
    }
    pthread_mutex_unlock(&browse->lock);
    dash_maybe_closed(dash);
}

/* -- the HTTP thread's side -- */

static struct lookup *find(struct browse *browse, struct str prefix, bool values)
{
    for (size_t i = 0; i < QUESTIONS; i++) {
        struct lookup *q = &browse->questions[i];
        if (q->state != LOOKUP_FREE && q->values == values &&
            str_equal(str_of(q->prefix, q->prefix_len), prefix))
            return q;
    }
    return NULL;
}

/* A free row, else the oldest answer; NULL: all are being asked. */
static struct lookup *room(struct browse *browse)
{
    struct lookup *oldest = NULL;

    for (size_t i = 0; i < QUESTIONS; i++) {
        struct lookup *q = &browse->questions[i];
        if (q->state == LOOKUP_FREE) return q;
        if (q->state == LOOKUP_ANSWERED && (!oldest || q->at.ms < oldest->at.ms)) oldest = q;
    }
    return oldest;
}

static void begin(struct dash *dash, struct lookup *q, struct str prefix, bool values)
{
    struct browse *browse = dash->browse;

    q->state = LOOKUP_ASKED;
    q->values = values;
    q->prefix_len = prefix.len;
    if (prefix.len) memcpy(q->prefix, prefix.at, prefix.len);
    if (!browse->posted) {
        browse->posted = true;
        loop_post(dash->io->loop, &browse->post);
    }
}

static void serve(struct dash *dash, struct str prefix, bool values, struct http_response *response)
{
    mono_time now = clock_mono(dash->io->clock);
    struct lookup *q = find(dash->browse, prefix, values);

    if (q && q->state == LOOKUP_ANSWERED) {
        bool fresh = mono_elapsed_ms(q->at, now) < FRESH_MS;
        if (fresh) {
            response->status = q->status;
            response->err = buf_append(&response->body, buf_peek(&q->json));
            return;
        }
    }
    if (!q || q->state == LOOKUP_ANSWERED) {
        if (!q) q = room(dash->browse);
        if (q) begin(dash, q, prefix, values);
    }
    response->status = q ? 202 : 503;
    response->err = buf_append_c(&response->body, q ? "{\"pending\":true}\n"
                                                    : "{\"error\":\"too many questions\"}\n");
}

static void page_keys(void *context, const struct http_request *request,
                      struct http_response *response)
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
        pthread_mutex_lock(&dash->browse->lock);
        serve(dash, buf_peek(&prefix), dash_admin_by(dash, request) != NULL, response);
        pthread_mutex_unlock(&dash->browse->lock);
    }
    buf_deinit(&prefix);
}

/* -- life -- */

enum err browse_open(struct dash *dash)
{
    struct browse *browse = dash->browse = calloc(1, sizeof *browse);

    if (!browse) return ERR_NOMEM;
    pthread_mutex_init(&browse->lock, NULL);
    post_init(&browse->post, on_post);
    for (size_t i = 0; i < QUESTIONS; i++) {
        browse->questions[i].dash = dash;
        buf_init(&browse->questions[i].json, REPLY_MAX);
    }
    return http_route(dash->http, "/api/keys", HTTP_GET, page_keys, dash);
}

void browse_stop(struct dash *dash)
{
    (void)http_unroute(dash->http, "/api/keys"); /* never was, when opening failed */
}

bool browse_idle(const struct dash *dash)
{
    return !dash->browse || (!dash->browse->posted && dash->browse->sent == 0);
}

void browse_close(struct dash *dash)
{
    if (!dash->browse) return;
    for (size_t i = 0; i < QUESTIONS; i++) buf_deinit(&dash->browse->questions[i].json);
    pthread_mutex_destroy(&dash->browse->lock);
    free(dash->browse);
}
