/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/actions: the actions of an administrator. The body is one JSON object:
 *
 *     {"action": "transfer-leadership", "replica": "node-1", "confirm": true}
 *
 * A request needs the token ("Authorization: Bearer ...") or a certificate with bigfleet://admin.
 * It also needs the type application/json and no foreign Origin, because a browser adds the
 * certificate to requests of any page. The response is 202 with the action's number. The result
 * follows as the event "action" and in GET /api/actions. */
#include <stdio.h>
#include <stdlib.h>

#include "dash/dash_internal.h"
#include "io/tls.h"
#include "text/json.h"
#include "text/utf8.h"
#include "wire/message.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum {
    ACTIONS_KEPT = 32,
    ARGUMENTS_MAX = 3,
    ARGUMENT_CAP = 1025,
    NAME_LEN_MAX = 128, /* bytes of a common name; longer names are truncated */
    CERTIFICATE_CAP = NAME_LEN_MAX + 96,
    BODY_MAX = 16 << 10,
    REQUEST_MAX = 16 << 10,
    TIMEOUT_MS = 10000,
};

struct action_kind {
    const char *name, *path;
    const char *arguments[ARGUMENTS_MAX + 1]; /* HTTP body's fields, in the order of the gRPC
                                                 fields */
    uint32_t field;                           /* gRPC field of the first argument */
    uint32_t force;                           /* gRPC field that is set to true; 0: none */
    bool outcome;                             /* the gRPC response is the store's Outcome message */
};
struct action {
    struct page_request base;
    const struct action_kind *kind;
    wall_time at;
    const char *by;                    /* "token" or "certificate"; static */
    char certificate[CERTIFICATE_CAP]; /* name in the certificate; "": no certificate */
    char arguments[ARGUMENTS_MAX][ARGUMENT_CAP];
    bool ok;
    char said[WHY_CAP];
};
static const struct action_kind actions_kinds[] = {
    {"transfer-leadership", "/muster.v1.Fleet/TransferLeadership", {"replica"}, .field = 1},
    {"retire-replica", "/muster.v1.Fleet/RemoveReplica", {"replica"}, .field = 1},
    {"assign-domain",
     "/bigfleet.v1alpha1.Coordinator/AssignDomain",
     {"topology_key", "topology_value", "shard_id"},
     .field = 1},
    {"release-claim",
     "/muster.v1.Coordination/Delete",
     {"key"},
     .field = 2,
     .force = 5,
     .outcome = true},
};

/* -- publishing -- */

static void action_write(struct ndjson *json, struct str key, const struct action *a)
{
    ndjson_open_object(json, key);
    ndjson_u64(json, STR("number"), a->base.number);
    ndjson_u64(json, STR("at_ms"), a->at.ms);
    ndjson_c_string(json, STR("action"), a->kind->name);
    ndjson_c_string(json, STR("by"), a->by);
    if (a->certificate[0]) ndjson_c_string(json, STR("certificate"), a->certificate);
    for (size_t i = 0; a->kind->arguments[i]; i++)
        ndjson_c_string(json, str_from(a->kind->arguments[i]), a->arguments[i]);
    ndjson_bool(json, STR("done"), a->base.state == REQUEST_DONE);
    ndjson_bool(json, STR("ok"), a->ok);
    ndjson_c_string(json, STR("said"), a->said);
    ndjson_close_object(json);
}

static void action_end(struct action *a, bool ok, const char *said)
{
    struct dash *dash = a->base.all->dash;
    struct ndjson json;
    struct buf event;

    page_request_done(&a->base);
    a->ok = ok;
    dash->hurry = true; /* show the result soon */
    snprintf(a->said, sizeof a->said, "%s", said);
    LOG_INFO(&dash->log, "dashboard action executed", log_text("action", a->kind->name),
             log_text("on", a->arguments[0]), log_text("by", a->by),
             log_text("certificate", a->certificate), log_bool("ok", ok), log_text("said", said));
    buf_init(&event, REQUEST_MAX);
    ndjson_begin_value(&json, &event, NDJSON_LINE);
    action_write(&json, NDJSON_ITEM, a);
    if (!ndjson_end(&json)) dash_send(dash, "action", json_line(&event));
    buf_deinit(&event);
}

/* -- on the loop -- */

/* An undecodable response has an unknown outcome. */
static bool action_outcome_ok(struct str bytes, char said[WHY_CAP])
{
    const Muster__V1__Outcome *outcome;
    ProtobufCMessage *message;
    struct arena arena;
    bool ok = false;

    arena_init(&arena, ANSWER_ARENA_MAX);
    if (message_read(&muster__v1__outcome__descriptor, bytes, NULL, &arena, &message, NULL)) {
        snprintf(said, WHY_CAP, "it may have been done: the answer cannot be read");
    } else {
        outcome = (const void *)message;
        ok = outcome->code == 0;
        if (!ok) snprintf(said, WHY_CAP, "%s", outcome->text[0] ? outcome->text : "not done");
    }
    arena_deinit(&arena);
    return ok;
}

static void action_on_answer(void *owner, const struct rpc_client_call *,
                             const struct rpc_outcome *outcome, struct str bytes)
{
    struct action *a = owner;
    char said[WHY_CAP] = "done";
    bool ok = !outcome->err;

    if (!ok) dash_why(said, outcome);
    if (ok && a->kind->outcome) ok = action_outcome_ok(bytes, said);
    pthread_mutex_lock(&a->base.all->lock);
    action_end(a, ok, said);
    pthread_mutex_unlock(&a->base.all->lock);
}

static enum err action_send(struct page_request *row)
{
    struct action *a = CONTAINER_OF(row, struct action, base);
    struct rpc_call_options call = {.path = a->kind->path, .timeout_ms = TIMEOUT_MS};
    struct buf request;
    struct pack pack;
    enum err err;

    buf_init(&request, REQUEST_MAX);
    pack = pack_begin(&request);
    for (uint32_t i = 0; a->kind->arguments[i]; i++)
        pack_text(&pack, a->kind->field + i, str_from(a->arguments[i]));
    if (a->kind->force) pack_u64(&pack, a->kind->force, 1);
    err = pack.err;
    if (!err)
        err = rpc_unary(row->all->dash->channel, &call, buf_peek(&request), action_on_answer, a,
                        NULL);
    buf_deinit(&request);
    return err;
}

static void action_fail(struct page_request *row, enum err err)
{
    action_end(CONTAINER_OF(row, struct action, base), false, err_text(err));
}

/* -- called on the HTTP thread -- */

static void action_refuse(struct http_response *response, int status, const char *why)
{
    struct ndjson json;

    response->status = status;
    buf_clear(&response->body);
    ndjson_begin(&json, &response->body, NDJSON_LINE);
    ndjson_c_string(&json, STR("error"), why);
    response->err = ndjson_end(&json);
}

/* True for the Origin of the dashboard itself: "https://host:port", as in the Host header. */
static bool action_own_origin(const struct http_request *request)
{
    struct str origin = request->origin, slashes = STR("://");
    size_t at;

    if (origin.len == 0) return true; /* only browsers send an Origin */
    at = str_find(origin, ':');
    origin = str_tail(origin, at);
    return str_starts(origin, slashes) &&
           str_equal_nocase(str_tail(origin, slashes.len), request->host);
}

/* NULL: the request was refused. */
static const struct action_kind *action_read_body(const struct json *body,
                                                  char arguments[ARGUMENTS_MAX][ARGUMENT_CAP],
                                                  struct note *note)
{
    const struct action_kind *kind = NULL;
    struct str name, text;
    bool confirmed = false;

    if (json_get_string(body, "action", &name, note)) return NULL;
    for (size_t i = 0; i < ARRAY_LEN(actions_kinds); i++)
        if (str_equal(name, str_from(actions_kinds[i].name))) kind = &actions_kinds[i];
    if (!kind) return note_fail(note, NULL, "field 'action': no such action");
    if (json_get_bool(body, "confirm", &confirmed, note) || !confirmed)
        return note_fail(note, NULL, "field 'confirm': expected true");
    for (size_t i = 0; kind->arguments[i]; i++) {
        if (json_get_string(body, kind->arguments[i], &text, note)) return NULL;
        if (text.len == 0 || text.len >= ARGUMENT_CAP)
            return note_fail(note, NULL, "field '%s': 1 to %d bytes", kind->arguments[i],
                             ARGUMENT_CAP - 1);
        memcpy(arguments[i], text.at, text.len);
        arguments[i][text.len] = '\0';
    }
    return kind;
}

/* Writes the common name, which identifies the person, and the serial number. */
static void action_name_certificate(const struct tls_identity *identity, char into[CERTIFICATE_CAP])
{
    struct str name;

    into[0] = '\0';
    if (!identity) return;
    name = utf8_clip(identity->common_name, NAME_LEN_MAX);
    snprintf(into, CERTIFICATE_CAP, "%.*s%s (serial %.*s)", STR_ARG(name),
             name.len < identity->common_name.len ? "..." : "", STR_ARG(identity->serial_hex));
}

static void action_take(struct dash *dash, const struct action_kind *kind, const char *by,
                        const struct tls_identity *identity,
                        char arguments[ARGUMENTS_MAX][ARGUMENT_CAP], struct http_response *response)
{
    struct page_requests *all = &dash->actions;
    struct action *a;

    pthread_mutex_lock(&all->lock);
    a = page_requests_room(all);
    if (a) {
        *a = (struct action){.kind = kind, .by = by, .at = clock_wall(dash->io->clock)};
        action_name_certificate(identity, a->certificate);
        memcpy(a->arguments, arguments, sizeof a->arguments);
        page_request_post(all, &a->base);
        response->status = 202;
        response->err =
            buf_appendf(&response->body, "{\"number\":%llu}\n", (unsigned long long)a->base.number);
    } else {
        action_refuse(response, 503, "too many actions at once");
    }
    pthread_mutex_unlock(&all->lock);
}

static void actions_do(struct dash *dash, const struct http_request *request,
                       struct http_response *response)
{
    char arguments[ARGUMENTS_MAX][ARGUMENT_CAP] = {{0}};
    const char *by = dash_admin_by(dash, request);
    const struct action_kind *kind;
    struct json *body = NULL;
    struct note note = {""};

    if (!dash->token[0]) {
        action_refuse(response, 403, dash->read_only);
    } else if (!action_own_origin(request)) {
        action_refuse(response, 403, "asked for by another site");
    } else if (!by) {
        action_refuse(
            response, 401,
            "the admin token is needed (Authorization: Bearer TOKEN), or an admin certificate");
    } else if (!str_equal(request->content_type, STR("application/json"))) {
        action_refuse(response, 415, "expected application/json");
    } else if (json_open(request->body, BODY_MAX, &body, &note) ||
               !(kind = action_read_body(body, arguments, &note))) {
        action_refuse(response, 400, note.text);
    } else {
        action_take(dash, kind, by, request->identity, arguments, response);
    }
    json_close(body);
}

static void actions_list(struct dash *dash, struct http_response *response)
{
    struct page_requests *all = &dash->actions;
    struct ndjson json;

    pthread_mutex_lock(&all->lock);
    ndjson_begin(&json, &response->body, NDJSON_LINE);
    ndjson_open_array(&json, STR("actions"));
    for (uint64_t n = all->numbers; n > 0 && all->numbers - n < all->count; n--)
        for (size_t i = 0; i < all->count; i++) {
            const struct action *a = page_request_at(all, i);
            if (a->base.state != REQUEST_FREE && a->base.number == n)
                action_write(&json, NDJSON_ITEM, a);
        }
    ndjson_close_array(&json);
    response->err = ndjson_end(&json);
    pthread_mutex_unlock(&all->lock);
}

void actions_page(void *context, const struct http_request *request, struct http_response *response)
{
    response->content_type = "application/json";
    if (request->method == HTTP_POST)
        actions_do(context, request, response);
    else
        actions_list(context, response);
}

enum err actions_open(struct dash *dash)
{
    dash->actions = (struct page_requests){.dash = dash,
                                           .row_size = sizeof(struct action),
                                           .count = ACTIONS_KEPT,
                                           .send = action_send,
                                           .fail = action_fail};
    return page_requests_open(&dash->actions);
}
