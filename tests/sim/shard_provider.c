/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's process: gRPC in front of the book, and everything that goes wrong there. A call
 * is looked at when its time has come, also when nobody waits for it any more, and answered later;
 * what it answers is what was so when it was looked at. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/server.h"
#include "shard_story.h"
#include "wire/pack.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"

enum {
    BYTES_MAX = 4 << 20,
    LATE_MS_MAX = 20000,
    METADATA_FIELD = 15,
};
#define PATH(name)   "/bigfleet.v1alpha1.CapacityProvider/" name
#define PRIORITY_KEY "bigfleet.lucy.sh/assigned-priority"

struct verb_service {
    struct shard_provider_process *process;
    enum shard_verb verb;
};
struct shard_provider_process {
    struct shard_story *story;
    struct io *io;
    struct rpc_server *server;
    struct verb_service services[VERBS];
    struct list calls; /* struct served */
    bool dead;
};
enum fate { FATE_GOOD, FATE_REFUSED, FATE_LOST, FATE_IGNORED, FATE_UNKNOWN, FATE_GARBLED };
struct served {
    struct list link;
    struct shard_provider_process *process;
    struct rpc_call *call; /* NULL: nobody waits */
    struct timer timer;
    struct shard_request request;
    struct shard_page page;
    enum fate fate;
    bool looked_at;
    enum grpc_status status;
    struct buf answer;
};

static void served_free(struct served *s)
{
    if (s->call) rpc_call_set_data(s->call, NULL);
    list_remove(&s->link);
    timer_deinit(&s->timer);
    buf_deinit(&s->answer);
    buf_deinit(&s->request.metadata);
    free(s);
}

/* -- looking at it -- */

static enum grpc_status status_of(enum shard_take take)
{
    static const enum grpc_status statuses[] = {
        [TAKE_ACCEPTED] = GRPC_OK,
        [TAKE_REPEATED] = GRPC_OK,
        [TAKE_FENCED] = GRPC_FAILED_PRECONDITION,
        [TAKE_NOT_FOUND] = GRPC_NOT_FOUND,
        [TAKE_WRONG_STATE] = GRPC_INTERNAL,
        [TAKE_UNSUPPORTED] = GRPC_UNIMPLEMENTED,
    };

    return statuses[take];
}

static void look_at_mutation(struct served *s)
{
    struct shard_story *story = s->process->story;
    struct shard_machine *m;

    s->request.abandoned = !s->call;
    s->status = status_of(shard_book_take(story, &s->request));
    if (story->bug == SHARD_CALLS_TWICE && story->book.calls % 7 == 0)
        (void)shard_book_take(story, &s->request);
    m = shard_book_find(&story->book, s->request.machine);
    if (s->status == GRPC_OK) shard_book_pack_ack(m, s->request.verb, &s->answer);
}

/* What went wrong with a call the shard may lay at the machine's door. */
static void note_trouble(struct served *s)
{
    struct shard_story *story = s->process->story;
    struct shard_machine *m = shard_book_find(&story->book, s->request.machine);

    if (m && s->fate != FATE_GOOD) m->trouble_ms = shard_now_ms(story);
}

static void look_at(struct served *s)
{
    struct shard_book *book = &s->process->story->book;
    struct shard_machine *m;

    s->looked_at = true;
    switch (s->request.verb) {
    case VERB_LIST:
        if (!s->page.at) s->page.at = book->revision;
        sim_trace(scenario_sim(s->process->story->world), s->process->story->provider_host,
                  "List since %" PRIu64 " from %" PRIu32, s->page.since, s->page.from);
        shard_book_pack_list(s->process->story, &s->page, &s->answer);
        break;
    case VERB_GET:
        m = shard_book_find(book, s->request.machine);
        s->status = m ? GRPC_OK : GRPC_NOT_FOUND;
        if (m) shard_book_pack_machine(m, &s->answer);
        break;
    default:
        if (s->fate == FATE_REFUSED)
            s->status = GRPC_RESOURCE_EXHAUSTED;
        else if (s->fate != FATE_IGNORED)
            look_at_mutation(s);
        note_trouble(s);
        break;
    }
}

/* -- answering it -- */

static void answer(struct served *s)
{
    struct str bytes = buf_peek(&s->answer);

    if (!s->call || s->fate == FATE_LOST || s->fate == FATE_IGNORED) return;
    rpc_call_set_data(s->call, NULL);
    if (s->fate == FATE_UNKNOWN) {
        rpc_finish(s->call, GRPC_UNAVAILABLE, STR("a proxy broke"), STR_EMPTY);
    } else if (s->status != GRPC_OK) {
        rpc_finish(s->call, s->status, STR("no"), STR_EMPTY);
    } else {
        if (s->fate == FATE_GARBLED) bytes.len -= bytes.len ? 1 : 0;
        rpc_reply_bytes(s->call, bytes);
    }
    s->call = NULL;
}

static uint64_t some_latency(struct shard_provider_process *p)
{
    struct shard_book *book = &p->story->book;

    if (prng_chance(&book->prng, book->faults.late)) return prng_below(&book->prng, LATE_MS_MAX);
    return book->latency_ms_max ? prng_below(&book->prng, book->latency_ms_max) : 0;
}

static void on_time(struct timer *timer)
{
    struct served *s = CONTAINER_OF(timer, struct served, timer);

    if (s->looked_at) {
        answer(s);
        if (!s->call) served_free(s); /* else it is never answered, and ends with its caller */
        return;
    }
    shard_book_tick(s->process->story);
    look_at(s);
    timer_start_in(&s->timer, some_latency(s->process));
}

static enum fate draw_fate(struct shard_book *book)
{
    const struct shard_provider_faults *f = &book->faults;

    if (prng_chance(&book->prng, f->refuse)) return FATE_REFUSED;
    if (prng_chance(&book->prng, f->lose)) return FATE_LOST;
    if (prng_chance(&book->prng, f->ignore)) return FATE_IGNORED;
    if (prng_chance(&book->prng, f->unknown)) return FATE_UNKNOWN;
    return prng_chance(&book->prng, f->garble) ? FATE_GARBLED : FATE_GOOD;
}

/* -- requests -- */

static void keep_metadata(struct shard_request *request,
                          const Bigfleet__V1alpha1__ConfigureRequest *from)
{
    struct pack pack = {&request->metadata, ERR_OK}, entry;
    struct buf row;

    buf_init(&row, BYTES_MAX);
    for (size_t i = 0; i < from->n_shard_metadata; i++) {
        struct str key = str_of((const char *)from->shard_metadata[i]->key.data,
                                from->shard_metadata[i]->key.len);
        struct str value = str_of((const char *)from->shard_metadata[i]->value.data,
                                  from->shard_metadata[i]->value.len);

        entry = pack_begin(&row);
        pack_text(&entry, 1, key);
        pack_text(&entry, 2, value);
        pack_row(&pack, METADATA_FIELD, &entry);
        if (str_equal(key, STR(PRIORITY_KEY))) {
            char text[16];

            (void)snprintf(text, sizeof text, "%.*s", STR_ARG(value));
            request->priority = (int32_t)strtol(text, NULL, 10);
        }
    }
    assert(!pack.err);
    buf_deinit(&row);
}

static void read_configure(struct shard_request *request,
                           const Bigfleet__V1alpha1__ConfigureRequest *from)
{
    char text[32];
    unsigned cluster, number;

    (void)snprintf(request->machine, sizeof request->machine, "%s", from->machine_id);
    (void)snprintf(request->cluster, sizeof request->cluster, "%s", from->cluster_id);
    request->epoch = from->shard_epoch;
    request->sequence = from->sequence_number;
    (void)snprintf(text, sizeof text, "%.*s", (int)from->bootstrap_blob.len,
                   (const char *)from->bootstrap_blob.data);
    if (sscanf(text, "blob c%u %u", &cluster, &number) == 2) request->blob = number + 1;
    keep_metadata(request, from);
}

#define TAKE_TOKEN(request, message)                                                               \
    do {                                                                                           \
        (void)snprintf((request)->machine, sizeof(request)->machine, "%s", (message)->machine_id); \
        (request)->epoch = (message)->shard_epoch;                                                 \
        (request)->sequence = (message)->sequence_number;                                          \
    } while (0)

static uint64_t number_in(const ProtobufCBinaryData *bytes)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%.*s", (int)bytes->len, (const char *)bytes->data);
    return strtoull(text, NULL, 10);
}

static void read_filter(struct served *s, const Bigfleet__V1alpha1__ListFilter *from)
{
    char text[64];

    s->page.since = number_in(&from->since_revision);
    if (!from->page_token.len) return;
    (void)snprintf(text, sizeof text, "%.*s", (int)from->page_token.len,
                   (const char *)from->page_token.data);
    if (sscanf(text, "%" SCNu32 " %" SCNu64 " %" SCNu64, &s->page.from, &s->page.since,
               &s->page.at) != 3)
        shard_wrong(s->process->story, "a page was asked for that does not exist: %s", text);
}

static void read_request(struct served *s, const ProtobufCMessage *message)
{
    struct shard_request *r = &s->request;

    switch (r->verb) {
    case VERB_CREATE: TAKE_TOKEN(r, (const Bigfleet__V1alpha1__CreateRequest *)message); break;
    case VERB_CONFIGURE:
        read_configure(r, (const Bigfleet__V1alpha1__ConfigureRequest *)message);
        break;
    case VERB_DRAIN: TAKE_TOKEN(r, (const Bigfleet__V1alpha1__DrainRequest *)message); break;
    case VERB_DELETE: TAKE_TOKEN(r, (const Bigfleet__V1alpha1__DeleteRequest *)message); break;
    case VERB_GET:
        (void)snprintf(r->machine, sizeof r->machine, "%s",
                       ((const Bigfleet__V1alpha1__MachineRef *)message)->id);
        break;
    default: read_filter(s, (const Bigfleet__V1alpha1__ListFilter *)message); break;
    }
}

static void on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    struct verb_service *verb = service;
    struct shard_provider_process *p = verb->process;
    struct served *s = calloc(1, sizeof *s);

    (void)bytes;
    if (!s || timer_init(&s->timer, p->io->loop, on_time)) {
        free(s);
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    s->process = p;
    s->call = call;
    s->request.verb = verb->verb;
    s->request.priority = -1;
    s->status = GRPC_OK;
    buf_init(&s->answer, BYTES_MAX);
    buf_init(&s->request.metadata, BYTES_MAX);
    list_init(&s->link);
    list_append(&p->calls, &s->link);
    read_request(s, message);
    s->fate = draw_fate(&p->story->book);
    rpc_call_set_data(call, s);
    timer_start_in(&s->timer, some_latency(p));
}

/* A caller that is gone does not undo what it asked for. */
static void on_done(void *service, struct rpc_call *call)
{
    struct served *s = rpc_call_data(call);

    (void)service;
    if (!s) return;
    s->call = NULL;
    if (s->looked_at && !timer_running(&s->timer)) served_free(s);
}

/* -- life -- */

static void finish(void *owner)
{
    struct shard_provider_process *p = owner;

    LIST_EACH_SAFE(&p->calls, node, next)
    {
        served_free(CONTAINER_OF(node, struct served, link));
    }
    free(p);
}

static void destroy(void *state)
{
    struct shard_provider_process *p = state;

    p->dead = true;
    rpc_server_close(p->server, finish, p);
}

static enum err add_methods(struct shard_provider_process *p)
{
    static const struct rpc_handler handler = {.on_message = on_message, .on_done = on_done};
    static const struct {
        const char *path;
        const ProtobufCMessageDescriptor *input;
    } methods[VERBS] = {
        [VERB_CREATE] = {PATH("Create"), &bigfleet__v1alpha1__create_request__descriptor},
        [VERB_CONFIGURE] = {PATH("Configure"), &bigfleet__v1alpha1__configure_request__descriptor},
        [VERB_DRAIN] = {PATH("Drain"), &bigfleet__v1alpha1__drain_request__descriptor},
        [VERB_DELETE] = {PATH("Delete"), &bigfleet__v1alpha1__delete_request__descriptor},
        [VERB_GET] = {PATH("Get"), &bigfleet__v1alpha1__machine_ref__descriptor},
        [VERB_LIST] = {PATH("List"), &bigfleet__v1alpha1__list_filter__descriptor},
    };
    enum err err = ERR_OK;

    for (enum shard_verb v = VERB_CREATE; !err && v < VERBS; v++) {
        p->services[v] = (struct verb_service){p, v};
        err = rpc_server_add(p->server,
                             &(struct rpc_method){.path = methods[v].path,
                                                  .input = methods[v].input,
                                                  .handler = &handler,
                                                  .service = &p->services[v]},
                             NULL);
    }
    return err;
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct shard_provider_process *p = calloc(1, sizeof *p);
    struct shard_story *story = context;
    enum err err;

    if (!p) return ERR_NOMEM;
    p->story = story;
    p->io = io;
    list_init(&p->calls);
    err = rpc_server_open(
        &(struct rpc_server_options){
            .io = io, .limits = {.streams_per_connection_max = story->book.streams_max}},
        &p->server, NULL);
    if (!err) err = add_methods(p);
    if (!err) err = rpc_server_listen(p->server, "0.0.0.0:7770", NULL, NULL);
    if (err) {
        rpc_server_close(p->server, finish, p);
        return err;
    }
    *ret_state = p;
    return ERR_OK;
}

const struct sim_process_ops shard_provider_ops = {start, NULL, destroy};
