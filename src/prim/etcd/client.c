#include "prim/etcd/client.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire/message.h"
#include "wire/pb/etcd_rpc.pb-c.h"

enum {
    SLICE_LEAST_MS = 1000,
    SLICE_TROUBLE_MS = 250, /* a caller in more hurry than this proves nothing about the member */
    /* etcd counts pings closer than 5 s as abuse. */
    PING_AFTER_MS = 6000,
    PING_TIMEOUT_MS = 3000,
    DIAL_TIMEOUT_MS = 1000,
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 1000,
    AUTHENTICATE_MS = 3000,
    TOKEN_MAX = 16 * 1024,
    TOKEN_ARENA_MAX = 1024 * 1024,
    STREAM_STABLE_MS = 2000,
    STREAM_MESSAGE_MAX = 64 * 1024 * 1024,
};
static const char system_roots[] = "/etc/ssl/certs/ca-certificates.crt";

struct etcd_client {
    struct real_io *real;
    struct io *io;
    struct prim_clock clock;
    struct tls_context *tls;
    struct rpc_channel *channel;
    pthread_t thread;
    size_t address_count;
    char *user, *password;
    /* loop thread */
    struct buf token;
    bool tokenless; /* the server has no authentication: go without */
    bool authenticating, closing;
    struct etcd_op authenticate;
    struct list waiters; /* ops that wait for a token */
    struct list streams;
    uint32_t generation;
    struct post close_post;
    _Atomic uint64_t requests, messages, moves, stream_opens;
};

static void begin(struct etcd_op *op);

/* -- a thread that waits -- */

void etcd_wait_init(struct etcd_wait *wait)
{
    pthread_mutex_init(&wait->lock, NULL);
    pthread_cond_init(&wait->changed, NULL);
    wait->done = false;
}

void etcd_wait_for(struct etcd_wait *wait)
{
    pthread_mutex_lock(&wait->lock);
    while (!wait->done) pthread_cond_wait(&wait->changed, &wait->lock);
    pthread_mutex_unlock(&wait->lock);
    pthread_cond_destroy(&wait->changed);
    pthread_mutex_destroy(&wait->lock);
}

void etcd_wait_done(struct etcd_wait *wait)
{
    pthread_mutex_lock(&wait->lock);
    wait->done = true;
    pthread_cond_signal(&wait->changed);
    pthread_mutex_unlock(&wait->lock);
}

/* -- metadata of every request -- */

struct metadata {
    struct h2_header fields[2];
    size_t count;
};

static void metadata_fill(struct etcd_client *c, bool untokened, struct metadata *m)
{
    struct str token = buf_peek(&c->token);

    m->count = 0;
    m->fields[m->count++] = (struct h2_header){.name = STR("hasleader"), .value = STR("true")};
    if (!untokened && token.len > 0)
        m->fields[m->count++] = (struct h2_header){.name = STR("token"), .value = token};
}

/* -- trouble -- */

uint32_t etcd_client_generation(const struct etcd_client *c)
{
    return c->generation;
}

void etcd_client_trouble(struct etcd_client *c, uint32_t generation)
{
    if (c->closing || generation != c->generation) return;
    c->generation++;
    c->moves++;
    rpc_channel_move_on(c->channel);
    LIST_EACH_SAFE(&c->streams, node, following)
    {
        etcd_stream_reset(CONTAINER_OF(node, struct etcd_stream, link));
    }
}

/* -- authentication -- */

static void token_done(struct etcd_op *op)
{
    struct etcd_client *c = op->client;
    struct arena arena;
    ProtobufCMessage *message;
    struct list waiters;

    c->authenticating = false;
    arena_init(&arena, TOKEN_ARENA_MAX);
    if (!op->err)
        op->err = message_read(&etcdserverpb__authenticate_response__descriptor,
                               buf_peek(&op->response), NULL, &arena, &message, NULL);
    buf_clear(&c->token);
    if (!op->err)
        op->err = buf_append_c(&c->token, ((Etcdserverpb__AuthenticateResponse *)message)->token);
    else if (op->answered && strstr(op->text, "authentication is not enabled"))
        c->tokenless = true;
    arena_deinit(&arena);

    list_init(&waiters);
    list_splice(&waiters, &c->waiters);
    for (struct list *node = list_pop(&waiters); node; node = list_pop(&waiters)) {
        struct etcd_op *waiter = CONTAINER_OF(node, struct etcd_op, link);
        if (!op->err || c->tokenless) {
            begin(waiter);
            continue;
        }
        waiter->err = op->err;
        waiter->status = op->status;
        waiter->answered = op->answered;
        (void)snprintf(waiter->text, sizeof waiter->text, "%s", op->text);
        waiter->done(waiter);
    }
    etcd_op_deinit(op);
}

static void authenticate(struct etcd_client *c)
{
    Etcdserverpb__AuthenticateRequest request = ETCDSERVERPB__AUTHENTICATE_REQUEST__INIT;
    struct etcd_op *op = &c->authenticate;

    if (c->authenticating) return;
    c->authenticating = true;
    buf_clear(&c->token);
    etcd_op_init(op, "/etcdserverpb.Auth/Authenticate",
                 etcd_client_now(c) + AUTHENTICATE_MS * (int64_t)NS_PER_MS);
    request.name = c->user;
    request.password = c->password;
    (void)message_write(&request.base, &op->request, NULL); /* fails as an empty name would */
    op->untokened = op->idempotent = true;
    op->done = token_done;
    op->client = c;
    begin(op);
}

static bool lacks_token(const struct etcd_client *c)
{
    return c->user && !c->tokenless && buf_peek(&c->token).len == 0;
}

/* -- unary calls -- */

void etcd_op_init(struct etcd_op *op, const char *path, int64_t deadline_ns)
{
    *op = (struct etcd_op){.path = path, .deadline_ns = deadline_ns};
    buf_init(&op->request, ETCD_REQUEST_MAX);
    buf_init(&op->response, ETCD_RESPONSE_MAX);
    list_init(&op->link);
}

void etcd_op_deinit(struct etcd_op *op)
{
    buf_deinit(&op->request);
    buf_deinit(&op->response);
}

int64_t etcd_client_now(const struct etcd_client *c)
{
    return prim_clock_now(&c->clock);
}

struct loop *etcd_client_loop(struct etcd_client *c)
{
    return c->io->loop;
}

static int64_t left_ms(const struct etcd_op *op)
{
    return (op->deadline_ns - etcd_client_now(op->client)) / (int64_t)NS_PER_MS;
}

static void fail(struct etcd_op *op, enum err err, const char *text)
{
    op->err = op->doubt ? ERR_UNKNOWN : err;
    op->status = err_grpc_status(err);
    op->answered = false;
    (void)snprintf(op->text, sizeof op->text, "%s", text);
    op->done(op);
}

/* For people, and from outside: what cannot be printed is not. */
static void copy_text(struct etcd_op *op, struct str text)
{
    size_t len = min_size(text.len, sizeof op->text - 1);

    for (size_t i = 0; i < len; i++) {
        op->text[i] = text.at[i];
        if (text.at[i] < ' ' || text.at[i] > '~') op->text[i] = '?';
    }
    op->text[len] = '\0';
}

/* No leader, leader changed, stopping: another member may do better. */
static bool should_move(const struct etcd_client *c, const struct rpc_outcome *outcome)
{
    return c->address_count > 1 && outcome->answered && outcome->status == GRPC_UNAVAILABLE;
}

/* The server has forgotten it, or users were changed since it was given. Nothing was done then. */
static bool token_is_stale(const struct rpc_outcome *outcome)
{
    char text[128];

    if (!outcome->answered || outcome->status == GRPC_OK) return false;
    if (outcome->status == GRPC_UNAUTHENTICATED) return true;
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(outcome->text));
    return strstr(text, "auth") && (strstr(text, "revision") || strstr(text, "token"));
}

static void answered(void *owner, const struct rpc_client_call *call,
                     const struct rpc_outcome *outcome, struct str message)
{
    struct etcd_op *op = owner;
    struct etcd_client *c = op->client;
    bool silent = !outcome->answered && outcome->status == GRPC_DEADLINE_EXCEEDED &&
                  outcome->attempts > 0 && op->slice_ms >= SLICE_TROUBLE_MS;

    (void)call;
    if (token_is_stale(outcome) && c->user && !op->untokened && !op->authenticated_anew &&
        !c->closing) {
        op->authenticated_anew = true;
        buf_clear(&c->token);
        list_append(&c->waiters, &op->link);
        authenticate(c);
        return;
    }
    if (silent || should_move(c, outcome)) etcd_client_trouble(c, op->generation);
    if (outcome->err == ERR_UNKNOWN) op->doubt = true;
    if (silent && op->idempotent && left_ms(op) > 0 && !c->closing) {
        begin(op);
        return;
    }
    op->err = outcome->err;
    op->status = outcome->status;
    op->answered = outcome->answered;
    copy_text(op, outcome->text);
    if (!op->err && buf_append(&op->response, message)) {
        op->err = ERR_UNKNOWN; /* it was done, but we cannot say what */
        op->answered = false;
        (void)snprintf(op->text, sizeof op->text, "no memory for the answer");
    }
    op->done(op);
}

static uint64_t slice_ms(const struct etcd_op *op, int64_t left)
{
    int64_t least = op->client->address_count > 1 ? SLICE_LEAST_MS : 2 * SLICE_LEAST_MS;
    int64_t slice = op->client->address_count > 1 ? left / 3 : left / 2;

    if (slice < least) slice = least;
    return (uint64_t)(slice < left ? slice : left);
}

static void begin(struct etcd_op *op)
{
    struct etcd_client *c = op->client;
    int64_t left = left_ms(op);
    struct metadata metadata;
    enum err err;

    if (left <= 0) {
        fail(op, ERR_TIMEOUT, "no time left");
        return;
    }
    if (!op->untokened && lacks_token(c)) {
        list_append(&c->waiters, &op->link);
        authenticate(c);
        return;
    }
    metadata_fill(c, op->untokened, &metadata);
    op->generation = c->generation;
    op->slice_ms = slice_ms(op, left);
    c->requests++;
    err = rpc_unary(c->channel,
                    &(struct rpc_call_options){.path = op->path,
                                               .timeout_ms = op->slice_ms,
                                               .idempotent = op->idempotent,
                                               .wait_for_ready = !op->hurried,
                                               .metadata = metadata.fields,
                                               .metadata_count = metadata.count,
                                               .untraced = true,
                                               .response_max = ETCD_RESPONSE_MAX,
                                               .attempts_max = 4},
                    buf_peek(&op->request), answered, op, NULL);
    if (err) fail(op, err, err_text(err));
}

static void on_start(struct post *post)
{
    struct etcd_op *op = CONTAINER_OF(post, struct etcd_op, post);

    if (op->client->closing)
        fail(op, ERR_CANCELLED, "the store is closed");
    else
        begin(op);
}

void etcd_op_start(struct etcd_client *c, struct etcd_op *op)
{
    op->client = c;
    post_init(&op->post, on_start);
    loop_post(c->io->loop, &op->post);
}

static void wake(struct etcd_op *op)
{
    etcd_wait_done(&op->wait);
}

void etcd_op_run(struct etcd_client *c, struct etcd_op *op)
{
    etcd_wait_init(&op->wait);
    op->done = wake;
    etcd_op_start(c, op);
    etcd_wait_for(&op->wait);
}

struct errand {
    void (*fn)(void *owner);
    void *owner;
    struct post post;
    struct etcd_wait wait;
};

static void on_errand(struct post *post)
{
    struct errand *errand = CONTAINER_OF(post, struct errand, post);

    errand->fn(errand->owner);
    etcd_wait_done(&errand->wait);
}

void etcd_client_do(struct etcd_client *c, void (*fn)(void *owner), void *owner)
{
    struct errand errand = {.fn = fn, .owner = owner};

    etcd_wait_init(&errand.wait);
    post_init(&errand.post, on_errand);
    loop_post(c->io->loop, &errand.post);
    etcd_wait_for(&errand.wait);
}

bool etcd_client_forget_token(struct etcd_client *c)
{
    buf_clear(&c->token);
    return c->user && !c->tokenless;
}

/* -- streams -- */

static void stream_open(struct etcd_stream *s);

static void on_again(struct timer *timer)
{
    stream_open(CONTAINER_OF(timer, struct etcd_stream, again));
}

enum err etcd_stream_init(struct etcd_stream *s, struct etcd_client *c, const char *path)
{
    s->path = path;
    s->client = c;
    s->call = NULL;
    s->failures = 0;
    s->wanted = false;
    list_init(&s->link);
    return timer_init(&s->again, c->io->loop, on_again);
}

static void pause_stream(struct etcd_stream *s)
{
    uint64_t bound = BACKOFF_FIRST_MS;
    uint64_t random;

    for (uint32_t i = 0; i < s->failures && bound < BACKOFF_MAX_MS; i++) bound *= 2;
    if (bound > BACKOFF_MAX_MS) bound = BACKOFF_MAX_MS;
    random = entropy_u64(s->client->io->entropy);
    /* What opens, says a word and ends again is failing, too. */
    if (mono_elapsed_ms(s->opened, loop_now(s->client->io->loop)) >= STREAM_STABLE_MS)
        s->failures = 0;
    else if (s->failures < 16)
        s->failures++;
    timer_start_in(&s->again, bound / 2 + random % (bound / 2));
}

static void stream_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct etcd_stream *s = owner;

    if (s->call != call) return; /* one that was left behind */
    s->on_message(s, message);
}

static void stream_writable(void *owner, struct rpc_client_call *call)
{
    struct etcd_stream *s = owner;

    if (s->call == call && s->on_writable) s->on_writable(s);
}

static void stream_lost(struct etcd_stream *s)
{
    s->call = NULL;
    list_remove(&s->link);
    s->on_broken(s);
    if (s->wanted && !s->call && !s->client->closing) pause_stream(s);
}

static void stream_ended(void *owner, struct rpc_client_call *call,
                         const struct rpc_outcome *outcome)
{
    struct etcd_stream *s = owner;
    struct etcd_client *c;

    if (s->call != call) return;
    c = s->client;
    if (token_is_stale(outcome)) buf_clear(&c->token);
    if (should_move(c, outcome)) {
        uint32_t generation = c->generation;
        stream_lost(s);
        etcd_client_trouble(c, generation);
        return;
    }
    stream_lost(s);
}

static void stream_open(struct etcd_stream *s)
{
    static const struct rpc_call_events events = {stream_message, stream_writable, stream_ended};
    struct etcd_client *c = s->client;
    struct metadata metadata;
    enum err err;

    if (!s->wanted || s->call || c->closing) return;
    if (lacks_token(c)) {
        authenticate(c);
        pause_stream(s);
        return;
    }
    metadata_fill(c, false, &metadata);
    c->stream_opens++;
    err = rpc_call_start(c->channel,
                         &(struct rpc_call_options){.path = s->path,
                                                    .wait_for_ready = true,
                                                    .metadata = metadata.fields,
                                                    .metadata_count = metadata.count,
                                                    .untraced = true,
                                                    .response_max = STREAM_MESSAGE_MAX,
                                                    .attempts_max = 1},
                         &events, s, &s->call);
    if (err) {
        s->call = NULL;
        pause_stream(s);
        return;
    }
    s->opened = loop_now(c->io->loop);
    list_append(&c->streams, &s->link);
    s->on_open(s);
}

void etcd_stream_want(struct etcd_stream *s)
{
    s->wanted = true;
    if (!s->call && !timer_running(&s->again)) stream_open(s);
}

/* The call goes on to its end without us; its late events find another call in its place. */
static void stream_abandon(struct etcd_stream *s)
{
    struct rpc_client_call *call = s->call;

    s->call = NULL;
    list_remove(&s->link);
    if (call) rpc_call_cancel(call);
}

void etcd_stream_leave(struct etcd_stream *s)
{
    s->wanted = false;
    timer_stop(&s->again);
    stream_abandon(s);
}

void etcd_stream_reset(struct etcd_stream *s)
{
    if (!s->call) return;
    stream_abandon(s);
    s->on_broken(s);
    if (s->wanted && !s->call && !s->client->closing) pause_stream(s);
}

enum err etcd_stream_send(struct etcd_stream *s, struct str message)
{
    enum err err;

    if (!s->call) return ERR_CLOSED;
    err = rpc_call_send(s->call, message);
    if (!err) s->client->messages++;
    return err;
}

/* -- life -- */

struct etcd_client_stats etcd_client_stats(struct etcd_client *c)
{
    return (struct etcd_client_stats){c->requests, c->messages, c->moves, c->stream_opens};
}

static void *run(void *owner)
{
    struct etcd_client *c = owner;

    real_io_run(c->real);
    return NULL;
}

static enum err start_thread(struct etcd_client *c)
{
    sigset_t all, before;
    int failed;

    /* Signals are the program's; with SIGPIPE blocked a peer that hung up is an error. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&c->thread, NULL, run, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) return ERR_NOMEM;
    pthread_setname_np(c->thread, "muster-etcd");
    return ERR_OK;
}

static enum err open_tls(struct etcd_client *c, const struct etcd_client_options *o,
                         struct note *note)
{
    return tls_context_open(c->io->fs,
                            &(struct tls_options){
                                .side = TLS_CLIENT,
                                .version_min = TLS_V1_2,
                                .cert_file = o->cert_file,
                                .key_file = o->key_file,
                                .ca_files = {o->ca_file ? o->ca_file : system_roots},
                                .alpn = {"h2"},
                            },
                            &c->tls, note);
}

enum err etcd_client_open(const struct etcd_client_options *o, struct etcd_client **ret_client,
                          struct note *note)
{
    struct etcd_client *c = calloc(1, sizeof *c);
    enum err err;

    if (!c) return ERR_NOMEM;
    c->clock = o->clock;
    buf_init(&c->token, TOKEN_MAX);
    list_init(&c->waiters);
    list_init(&c->streams);
    while (o->addresses[c->address_count]) c->address_count++;
    if (o->user) {
        c->user = str_dup(str_from(o->user));
        c->password = str_dup(str_from(o->password ? o->password : ""));
    }
    err = o->user && (!c->user || !c->password) ? ERR_NOMEM : ERR_OK;
    if (!err) err = real_io_open_within(&c->real);
    if (!err) {
        c->io = real_io_io(c->real);
        if (o->tls) err = open_tls(c, o, note);
    }
    if (!err)
        err = rpc_channel_open(&(struct rpc_channel_options){.io = c->io,
                                                             .addresses = o->addresses,
                                                             .tls = c->tls,
                                                             .backoff_first_ms = BACKOFF_FIRST_MS,
                                                             .backoff_max_ms = BACKOFF_MAX_MS,
                                                             .dial_timeout_ms = DIAL_TIMEOUT_MS,
                                                             .ping_after_ms = PING_AFTER_MS,
                                                             .ping_timeout_ms = PING_TIMEOUT_MS},
                               &c->channel, note);
    if (!err && (err = start_thread(c)) != ERR_OK) {
        rpc_channel_close(c->channel, NULL, NULL);
        for (int i = 0; i < 4; i++) real_io_turn(c->real, false);
    }
    if (!err) {
        *ret_client = c;
        return ERR_OK;
    }
    tls_context_unref(c->tls);
    real_io_close(c->real);
    free(c->user);
    free(c->password);
    free(c);
    return err;
}

static void on_channel_closed(void *owner)
{
    real_io_stop(((struct etcd_client *)owner)->real);
}

static void on_close(struct post *post)
{
    struct etcd_client *c = CONTAINER_OF(post, struct etcd_client, close_post);
    struct list waiters;

    c->closing = true;
    while (!list_empty(&c->streams))
        etcd_stream_leave(CONTAINER_OF(c->streams.next, struct etcd_stream, link));
    list_init(&waiters);
    list_splice(&waiters, &c->waiters);
    for (struct list *node = list_pop(&waiters); node; node = list_pop(&waiters))
        fail(CONTAINER_OF(node, struct etcd_op, link), ERR_CANCELLED, "the store is closed");
    rpc_channel_close(c->channel, on_channel_closed, c);
}

void etcd_client_close(struct etcd_client *c)
{
    if (!c) return;
    post_init(&c->close_post, on_close);
    loop_post(c->io->loop, &c->close_post);
    pthread_join(c->thread, NULL);
    tls_context_unref(c->tls);
    real_io_close(c->real);
    buf_deinit(&c->token);
    free(c->user);
    if (c->password) explicit_bzero(c->password, strlen(c->password));
    free(c->password);
    free(c);
}
