/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes a muster:// store, makes one call, and checks once a second that the server
 * is alive and has the same store id. Callers' threads; the check runs on the loop's thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "prim/native/internal.h"
#include "prim/stores.h"
#include "prim/url.h"

enum {
    VOTERS_HA = 3,
    PULSE_MS = 1000,
    PULSE_LIMIT_MS = 5000,
    DIAL_TIMEOUT_MS = 1000,
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 1000,
    ATTEMPTS_MAX = 6,
    STREAM_MESSAGE_MAX = 8 * 1024 * 1024,
    RESPONSE_MAX = 8 * 1024 * 1024,
    STORE_ID_FIELD = 15, /* field number of `store_id` in every request */
};

/* -- capabilities -- */

coord_caps native_capabilities(struct prim_backend *base)
{
    return native_of(base)->caps;
}

static void native_backend_fill_caps(struct native_backend *b, uint32_t voters)
{
    b->caps = (coord_caps){
        .bits = COORD_CAP_CREATE | COORD_CAP_CAS | COORD_CAP_TTL | COORD_CAP_SLOTS |
                COORD_CAP_SHRINK | COORD_CAP_STORE_ORDER | COORD_CAP_LIST_ATOMIC |
                COORD_CAP_COOLDOWN | COORD_CAP_FIFO_WAIT | COORD_CAP_MULTI_KEY | COORD_CAP_DURABLE |
                COORD_CAP_DURABLE_LEASED | COORD_CAP_EXACT_OWNER | COORD_CAP_FORCE |
                COORD_CAP_STALE_READ | (voters >= VOTERS_HA ? COORD_CAP_HA : 0),
        .scope = COORD_SCOPE_CLUSTER,
        .watch = COORD_WATCH_RESUMABLE,
        .token = COORD_TOKEN_STORE,
        .replay = COORD_REPLAY_TABLE};
    (void)snprintf(b->caps.server, sizeof b->caps.server, "muster store, replicas: %u", voters);
}

/* -- one call -- */

/* All requests carry (client, sequence) or only read, so a repeat is harmless. */
void native_op_init(struct grpc_thread_op *op, const char *path, int64_t deadline_ns)
{
    grpc_op_init(op, path, deadline_ns, NATIVE_REQUEST_MAX, RESPONSE_MAX);
    op->idempotent = true;
}

enum err native_write(const struct native_backend *b, ProtobufCMessage *message, struct buf *into)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(message->descriptor, STORE_ID_FIELD);
    ProtobufCBinaryData meant = native_id_bytes(&b->base.id);

    if (field && b->bound) memcpy((char *)message + field->offset, &meant, sizeof meant);
    return message_write(message, into, NULL);
}

coord_result native_other_store(struct native_backend *b)
{
    static const char why[] = "another store answers: it was restored, or replaced";

    /* Another store does not know earlier grants, so every claim ends (R5). */
    prim_degrade(&b->base, why);
    return prim_answer(COORD_INVALID, COORD_R_OTHER_STORE, "muster: %s", why);
}

coord_result native_ask(struct native_backend *b, int64_t deadline_ns, const struct native_ask *ask,
                        struct arena *arena, ProtobufCMessage **ret_message)
{
    coord_result result = prim_ok(COORD_R_NONE);
    char client[PRIM_ID_TEXT_CAP];
    struct grpc_thread_op op;

    arena_init(arena, 1);
    if (b->base.degraded) return native_other_store(b);
    native_op_init(&op, ask->path, deadline_ns);
    op.waits = ask->waits;
    op.hurried = ask->hurried;
    if (ask->request_of) {
        prim_id_text(&ask->request_of->client, client);
        (void)snprintf(op.request_id, sizeof op.request_id, "%s-%" PRIu64, client,
                       ask->request_of->sequence);
    }
    if (native_write(b, ask->request, &op.request)) {
        grpc_op_deinit(&op);
        return prim_no_memory();
    }
    grpc_op_run(&b->grpc_thread, &op);
    if (op.err && op.answered && op.status == GRPC_NOT_FOUND) {
        result = native_other_store(b);
    } else if (op.err) {
        result = native_failure(&op, ask->request_of != NULL);
    } else if (grpc_read(buf_peek(&op.response), ask->type, arena, ret_message)) {
        result = native_corrupt("an answer that cannot be read");
        if (ask->request_of) result.flags |= COORD_F_MAYBE_APPLIED;
    } else if (op.doubt) {
        result.flags |= COORD_F_MAYBE_APPLIED;
    }
    grpc_op_deinit(&op);
    return result;
}

/* -- pulse: is the server alive, and still the same store? -- */

static void on_pulse_answer(struct grpc_thread_op *op)
{
    struct native_backend *b = CONTAINER_OF(op, struct native_backend, pulse_op);
    ProtobufCMessage *message;
    struct arena arena;
    coord_id id;

    b->pulsing = false;
    arena_init(&arena, 1);
    if (!op->err && !grpc_read(buf_peek(&op->response), &muster__v1__status_response__descriptor,
                               &arena, &message)) {
        id = native_id(((const Muster__V1__StatusResponse *)message)->store_id);
        if (!prim_id_is_zero(&id) && !prim_id_equal(&id, &b->base.id)) (void)native_other_store(b);
    }
    arena_deinit(&arena);
    grpc_op_deinit(op);
    if (!b->grpc_thread.closing) timer_start_in(&b->pulse, PULSE_MS);
}

/* Streams and waiting calls are silent for a long time, so they do not detect a stopped replica.
 * Without an answer the channel switches to the next server. */
static void on_pulse(struct timer *timer)
{
    struct native_backend *b = CONTAINER_OF(timer, struct native_backend, pulse);
    Muster__V1__StatusRequest request = MUSTER__V1__STATUS_REQUEST__INIT;
    struct grpc_thread_op *op = &b->pulse_op;

    if (list_empty(&b->grpc_thread.streams) && list_empty(&b->grpc_thread.waiting)) {
        timer_start_in(&b->pulse, PULSE_MS);
        return;
    }
    native_op_init(op, NATIVE_PATH("Status"),
                   grpc_now(&b->grpc_thread) + PULSE_LIMIT_MS * (int64_t)NS_PER_MS);
    op->done = on_pulse_answer;
    (void)message_write(&request.base, &op->request, NULL); /* the message is empty */
    b->pulsing = true;
    grpc_op_start(&b->grpc_thread, op);
}

/* -- opening -- */

static coord_result native_backend_probe_status(struct native_backend *b, int64_t deadline_ns,
                                                uint32_t *ret_voters)
{
    Muster__V1__StatusRequest request = MUSTER__V1__STATUS_REQUEST__INIT;
    const Muster__V1__StatusResponse *status;
    ProtobufCMessage *message = NULL;
    struct arena arena;
    coord_result result =
        native_ask(b, deadline_ns,
                   &(struct native_ask){.path = NATIVE_PATH("Status"),
                                        .request = &request.base,
                                        .type = &muster__v1__status_response__descriptor,
                                        .hurried = true},
                   &arena, &message);

    if (result.code == COORD_OK && message) {
        status = (const Muster__V1__StatusResponse *)message;
        b->base.id = native_id(status->store_id);
        *ret_voters = status->voters;
        /* The first leader of a new store sets its id. A replica that is no member never learns
         * the id, so other replicas are asked, too. */
        if (prim_id_is_zero(&b->base.id)) {
            grpc_move_on(&b->grpc_thread);
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_NO_LEADER,
                                 "muster: the store has no identity yet (no leader, or replicas "
                                 "of a release without a store)");
        }
    }
    arena_deinit(&arena);
    return result;
}

/* Reads the store's identity, after a read that needs a leader and the client's permissions. */
static coord_result native_backend_probe(struct native_backend *b, int64_t deadline_ns)
{
    const struct prim_call call = {.deadline_ns = deadline_ns};
    struct native_entry entry;
    uint32_t voters = 0;
    struct arena arena;
    coord_result result;
    int found;

    do {
        result = native_backend_probe_status(b, deadline_ns, &voters);
        if (result.code == COORD_OK) {
            result = native_look(b, &call, STR("open"), false, &arena, &found, &entry);
            arena_deinit(&arena);
        }
    } while (grpc_now(&b->grpc_thread) < deadline_ns && grpc_worth_another_probe(&result));
    if (result.code == COORD_OK) {
        native_backend_fill_caps(b, voters);
        b->bound = true;
    }
    return result;
}

static void backend_leave(struct grpc_thread *grpc_thread)
{
    timer_deinit(&CONTAINER_OF(grpc_thread, struct native_backend, grpc_thread)->pulse);
}

static coord_result open_grpc_thread(const struct prim_open *in, struct native_backend *b)
{
    static const struct grpc_hooks ways = {.thread_name = "muster-native",
                                           .attempts_max = ATTEMPTS_MAX,
                                           .leave = backend_leave,
                                           .stream = {.idempotent = true,
                                                      .response_max = STREAM_MESSAGE_MAX,
                                                      .attempts_max = ATTEMPTS_MAX}};
    static const struct grpc_scheme words = {
        .name = "muster", .port = ":7790", .example = "muster://h1:7790,h2:7790", .tls = "tls=1"};
    const struct prim_url *url = in->url;
    struct grpc_servers servers;
    struct note note = {""};
    coord_result result;
    enum err err;

    if (url->host_count > 0 && url->path[0] && strcmp(url->path, "/") != 0)
        return prim_answer(COORD_INVALID, COORD_R_URL, "muster: it takes no path");
    if (url->host_count > 0 && url->user)
        return prim_answer(COORD_INVALID, COORD_R_URL,
                           "muster: it takes no user: use certificates");
    result = grpc_servers_read(in, &words, &servers);
    if (result.code != COORD_OK) return result;
    err = grpc_open(&b->grpc_thread, &ways, &servers, in->clock,
                    &(struct rpc_channel_options){.follow_leader = true,
                                                  .backoff_first_ms = BACKOFF_FIRST_MS,
                                                  .backoff_max_ms = BACKOFF_MAX_MS,
                                                  .dial_timeout_ms = DIAL_TIMEOUT_MS},
                    &note);
    if (err == ERR_NOMEM) return prim_no_memory();
    if (err)
        return prim_answer(COORD_INVALID, COORD_R_URL, "muster: %s",
                           note.text[0] ? note.text : err_text(err));
    return result;
}

/* -- open and close -- */

static void start_pulse(void *owner)
{
    struct native_backend *b = owner;

    b->pulses = !timer_init(&b->pulse, grpc_loop(&b->grpc_thread), on_pulse);
    if (b->pulses) timer_start_in(&b->pulse, PULSE_MS);
}

void native_wake(struct prim_backend *base)
{
    grpc_stop_waiting(&native_of(base)->grpc_thread);
}

void native_close(struct prim_backend *base)
{
    struct native_backend *b = native_of(base);

    grpc_close(&b->grpc_thread);
    assert(!b->pulsing);
    pthread_mutex_destroy(&b->requests.lock);
    free(b);
}

coord_result prim_native_open(const struct prim_open *in, struct prim_backend **ret_backend)
{
    struct native_backend *b = calloc(1, sizeof *b);
    coord_result result;

    if (!b) return prim_no_memory();
    prim_backend_init(&b->base, &native_ops, in,
                      prim_limits(NATIVE_TTL_MIN_MS, NATIVE_TTL_STEP_MS, PRIM_VALUE_LARGE_MAX));
    result = open_grpc_thread(in, b);
    if (result.code != COORD_OK) {
        free(b);
        return result;
    }
    b->requests = (struct native_requests){.client = prim_id_random(), .next = 1, .acked = 1};
    pthread_mutex_init(&b->requests.lock, NULL);
    result = native_backend_probe(b, in->deadline_ns);
    if (result.code == COORD_OK) {
        grpc_loop_call(&b->grpc_thread, start_pulse, b);
        if (!b->pulses) result = prim_no_memory();
    }
    if (result.code != COORD_OK) {
        native_close(&b->base);
        return result;
    }
    *ret_backend = &b->base;
    return result;
}
