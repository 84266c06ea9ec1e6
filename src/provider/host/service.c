/* SPDX-License-Identifier: Apache-2.0 */
/* Passes requests to the host. An answer is sent when the changes it reports are durable. A List is
 * sent in pieces, at the speed of its reader. Loop's thread. */
#include "provider/host/service.h"

#include <stdlib.h>

#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"

#define SERVICE "/bigfleet.v1alpha1.CapacityProvider/"
enum {
    HOST_SERVICE_ANSWER_MAX = 1 << 20,
    REQUEST_MAX = 64 << 10,
    CONFIGURE_MAX = 4 << 20, /* metadata above its own limit is INVALID_ARGUMENT up to here */
    PIECE = 64 << 10,
    PIECES_A_TURN = 8, /* of one List */
    SERVICE_LIST_MAX = INT32_MAX,
    ARENA_MAX = 16 << 20,
};

struct host_service {
    struct host *host;
    struct list calls; /* struct answer: calls that wait, and Lists being sent */
};
struct answer {
    struct list link;
    struct host_service *service;
    struct rpc_call *call;
    struct host_wait wait;
    struct buf bytes;
    enum grpc_status status;
    struct note note;
    /* Only for List: */
    struct book_walk *walk;
    struct timer timer;
};

/* --- answers --- */

static void on_durable(struct host_wait *wait);

static struct answer *answer_new(struct host_service *service, struct rpc_call *call)
{
    struct answer *a = calloc(1, sizeof *a);

    if (!a) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return NULL;
    }
    a->service = service;
    a->call = call;
    list_init(&a->link);
    list_append(&service->calls, &a->link);
    list_init(&a->wait.link);
    buf_init(&a->bytes, HOST_SERVICE_ANSWER_MAX);
    rpc_call_set_data(call, a);
    return a;
}

static void answer_free(struct answer *a)
{
    if (a->call) rpc_call_set_data(a->call, NULL);
    list_remove(&a->wait.link);
    timer_deinit(&a->timer);
    book_walk_close(a->walk);
    buf_deinit(&a->bytes);
    list_remove(&a->link);
    free(a);
}

static void on_call_done(void *, struct rpc_call *call)
{
    struct answer *a = rpc_call_data(call);

    if (!a) return;
    a->call = NULL;
    answer_free(a);
}

static void answer_when_durable(struct answer *a)
{
    if (!host_wait(a->service->host, &a->wait, on_durable)) on_durable(&a->wait);
}

/* --- the mutating calls --- */

/* Under TLS a shard may only use its own id, so that no client can act for another shard. */
static void call_ask(struct host_service *service, struct rpc_call *call,
                     const struct book_request *request)
{
    struct answer *a;
    struct note note;

    if (rpc_access_is(rpc_call_identity(call), STR("bigfleet://shard/"), request->shard, &note)) {
        rpc_fail(call, ERR_DENIED, &note);
        return;
    }
    a = answer_new(service, call);
    if (!a) return;
    a->status = host_ask(service->host, request, &a->bytes, &a->note).status;
    answer_when_durable(a);
}

#define REQUEST(operation, r)                                                                      \
    (struct book_request)                                                                          \
    {                                                                                              \
        .kind = (operation), .machine_id = str_from((r)->machine_id),                              \
        .shard = str_from((r)->shard_id), .epoch = (r)->shard_epoch,                               \
        .sequence = (r)->sequence_number                                                           \
    }

static void on_create(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                      struct str)
{
    const Bigfleet__V1alpha1__CreateRequest *r = (const void *)message;

    call_ask(service, call, &REQUEST(OPERATION_CREATE, r));
}

static void on_delete(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                      struct str)
{
    const Bigfleet__V1alpha1__DeleteRequest *r = (const void *)message;

    call_ask(service, call, &REQUEST(OPERATION_DELETE, r));
}

static void on_drain(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                     struct str)
{
    const Bigfleet__V1alpha1__DrainRequest *r = (const void *)message;
    struct book_request request = REQUEST(OPERATION_DRAIN, r);
    uint64_t seconds = r->grace_period_seconds > 0 ? (uint64_t)r->grace_period_seconds : 0;

    request.grace_ms = min_u64(seconds, UINT32_MAX) * MS_PER_SECOND;
    call_ask(service, call, &request);
}

/* If a key occurs twice, the last entry counts, as in protobuf. */
static size_t call_read_metadata(const Bigfleet__V1alpha1__ConfigureRequest *r, struct label *pairs)
{
    size_t count = 0;

    for (size_t i = 0; i < r->n_shard_metadata; i++) {
        const Bigfleet__V1alpha1__ConfigureRequest__ShardMetadataEntry *entry =
            r->shard_metadata[i];
        struct label pair = {str_of(entry->key.data, entry->key.len),
                             str_of(entry->value.data, entry->value.len)};
        size_t place = 0;

        while (place < count && !str_equal(pairs[place].key, pair.key)) place++;
        if (place == BOOK_METADATA_MAX) return BOOK_METADATA_MAX + 1;
        pairs[place] = pair;
        if (place == count) count++;
    }
    return count;
}

static void on_configure(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                         struct str)
{
    const Bigfleet__V1alpha1__ConfigureRequest *r = (const void *)message;
    struct book_request request = REQUEST(OPERATION_CONFIGURE, r);
    struct label metadata[BOOK_METADATA_MAX];

    request.cluster = str_from(r->cluster_id);
    request.blob = str_of(r->bootstrap_blob.data, r->bootstrap_blob.len);
    request.metadata = metadata;
    request.metadata_count = call_read_metadata(r, metadata);
    call_ask(service, call, &request);
}

/* --- Get --- */

static void on_get(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                   struct str)
{
    const Bigfleet__V1alpha1__MachineRef *r = (const void *)message;
    struct host_service *s = service;
    struct answer *a = answer_new(s, call);
    enum err err;

    if (!a) return;
    err = book_get(host_book(s->host), str_from(r->id), &a->bytes);
    if (err) {
        a->status = err_grpc_status(err);
        note_set(&a->note, err == ERR_INVALID ? "id required" : "no machine %.200s", r->id);
    }
    answer_when_durable(a);
}

/* --- List --- */

static void list_fail(struct answer *a, enum err err)
{
    struct rpc_call *call = a->call;

    answer_free(a);
    rpc_fail(call, err, NULL);
}

/* Sends pieces as long as the reader keeps up; continues in on_writable or in the next turn. */
static void list_push(struct answer *a)
{
    for (int i = 0; i < PIECES_A_TURN; i++) {
        enum err err;

        if (rpc_reply_waits(a->call)) return;
        buf_clear(&a->bytes);
        err = book_walk_next(a->walk, PIECE, &a->bytes);
        if (!err && a->bytes.len == 0) { /* all pieces were sent, so the call ends by itself */
            answer_free(a);
            return;
        }
        if (!err) err = rpc_reply_more(a->call, buf_peek(&a->bytes));
        if (err) {
            list_fail(a, err);
            return;
        }
    }
    if (!rpc_reply_waits(a->call)) timer_start_in(&a->timer, 0);
}

static void on_list_timer(struct timer *timer)
{
    list_push(CONTAINER_OF(timer, struct answer, timer));
}

static void on_list_writable(void *, struct rpc_call *call)
{
    struct answer *a = rpc_call_data(call);

    if (a && a->walk) list_push(a);
}

static void on_durable(struct host_wait *wait)
{
    struct answer *a = CONTAINER_OF(wait, struct answer, wait);
    enum err err = a->walk ? rpc_reply_begin(a->call, book_walk_total(a->walk)) : ERR_OK;

    if (err) {
        list_fail(a, err);
    } else if (a->walk) {
        list_push(a);
    } else {
        if (a->status == GRPC_OK)
            rpc_reply_bytes(a->call, buf_peek(&a->bytes));
        else
            rpc_finish(a->call, a->status, str_from(a->note.text), STR_EMPTY);
        answer_free(a);
    }
}

static bool list_read_filter(const Bigfleet__V1alpha1__ListFilter *r,
                             struct book_filter *ret_filter)
{
    *ret_filter = (struct book_filter){
        .results_max = r->max_results > 0 ? (uint64_t)r->max_results : 0,
        .page_size = r->page_size > 0 ? (uint64_t)r->page_size : 0,
        .since = str_of(r->since_revision.data, r->since_revision.len),
        .page_token = str_of(r->page_token.data, r->page_token.len),
    };
    for (size_t i = 0; i < r->n_states; i++) {
        int state = (int)r->states[i];
        if (state < 0 || state >= MACHINE_STATE_COUNT) return false;
        ret_filter->states |= BIT(state);
    }
    return true;
}

static void on_list(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                    struct str)
{
    struct host_service *s = service;
    struct book_filter filter;
    struct answer *a;
    struct note note = {.text = ""};
    enum err err;

    if (!list_read_filter((const void *)message, &filter)) {
        rpc_finish(call, GRPC_INVALID_ARGUMENT, STR("states: a number that is no state"),
                   STR_EMPTY);
        return;
    }
    a = answer_new(s, call);
    if (!a) return;
    err = timer_init(&a->timer, host_io(s->host)->loop, on_list_timer);
    if (!err) err = book_walk_open(host_book(s->host), &filter, &a->walk, &note);
    if (err == ERR_BUSY) {
        note_set(&note, "too many Lists are under way");
        err = ERR_FULL;
    }
    if (err) {
        answer_free(a);
        rpc_fail(call, err, note.text[0] ? &note : NULL);
        return;
    }
    host_listed(s->host, book_walk_total(a->walk), filter.since.len > 0);
    rpc_call_set_waiting(call);
    answer_when_durable(a);
}

/* --- registering the methods --- */

#define METHOD(name, handler_, input_, request_max_)                                               \
    {                                                                                              \
        .path = SERVICE name, .kind = RPC_UNARY,                                                   \
        .input = &bigfleet__v1alpha1__##input_##__descriptor, .request_max = (request_max_),       \
        .response_max = HOST_SERVICE_ANSWER_MAX, .arena_max = ARENA_MAX,                           \
        .handler = &(const struct rpc_handler)                                                     \
        {                                                                                          \
            .on_message = on_##handler_, .on_done = on_call_done                                   \
        }                                                                                          \
    }
/* Answers are bytes, because the book has machines in encoded form. */
static const struct rpc_method methods[] = {
    METHOD("Create", create, create_request, REQUEST_MAX),
    METHOD("Configure", configure, configure_request, CONFIGURE_MAX),
    METHOD("Drain", drain, drain_request, REQUEST_MAX),
    METHOD("Delete", delete, delete_request, REQUEST_MAX),
    METHOD("Get", get, machine_ref, REQUEST_MAX),
    {.path = SERVICE "List",
     .kind = RPC_UNARY,
     .input = &bigfleet__v1alpha1__list_filter__descriptor,
     .request_max = REQUEST_MAX,
     .response_max = SERVICE_LIST_MAX,
     .arena_max = ARENA_MAX,
     .handler = &(const struct rpc_handler){.on_message = on_list,
                                            .on_writable = on_list_writable,
                                            .on_done = on_call_done}},
};

enum err host_service_open(struct host *host, struct rpc_server *server,
                           struct host_service **ret_service, struct note *note)
{
    struct host_service *s = calloc(1, sizeof *s);
    enum err err = ERR_OK;

    if (!s) return ERR_NOMEM;
    s->host = host;
    list_init(&s->calls);
    for (size_t i = 0; !err && i < ARRAY_LEN(methods); i++) {
        struct rpc_method method = methods[i];

        method.service = s;
        err = rpc_server_add(server, &method, note);
    }
    *ret_service = s; /* also after an error, because some methods may be registered */
    return err;
}

void host_service_close(struct host_service *service)
{
    if (!service) return;
    assert(list_empty(&service->calls)); /* closing the server has ended every call */
    free(service);
}

void host_server_limits(struct rpc_server_limits *limits)
{
    limits->calls_max = 200000;
    limits->stream_output_max = 256 << 10;
    limits->output_max = 4 << 20;
    limits->socket_output_max = 1 << 20;
}
