#include "prim/native/client.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SLICE_LEAST_MS = 1000,
    SLICE_TROUBLE_MS = 250, /* a caller in more hurry than this proves nothing about the replica */
    DIAL_TIMEOUT_MS = 1000,
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 1000,
    ATTEMPTS_MAX = 6,
    STREAM_STABLE_MS = 2000,
    STREAM_MESSAGE_MAX = 8 * 1024 * 1024,
};
static const char system_roots[] = "/etc/ssl/certs/ca-certificates.crt";

struct native_client {
    struct real_io *real;
    struct io *io;
    struct prim_clock clock;
    struct tls_context *tls;
    struct rpc_channel *channel;
    pthread_t thread;
    size_t address_count;
    /* loop thread */
    bool closing;
    struct list streams, waiting; /* open ones; ops that wait for a slot */
    uint32_t generation;
    struct post close_post;
    _Atomic bool stopping;
};

static void begin(struct native_op *op);

/* -- a thread that waits -- */

void native_wait_init(struct native_wait *wait)
{
    pthread_mutex_init(&wait->lock, NULL);
    pthread_cond_init(&wait->changed, NULL);
    wait->done = false;
}

void native_wait_for(struct native_wait *wait)
{
    pthread_mutex_lock(&wait->lock);
    while (!wait->done) pthread_cond_wait(&wait->changed, &wait->lock);
    pthread_mutex_unlock(&wait->lock);
    pthread_cond_destroy(&wait->changed);
    pthread_mutex_destroy(&wait->lock);
}

void native_wait_done(struct native_wait *wait)
{
    pthread_mutex_lock(&wait->lock);
    wait->done = true;
    pthread_cond_signal(&wait->changed);
    pthread_mutex_unlock(&wait->lock);
}

/* -- trouble -- */

static void trouble(struct native_client *c, uint32_t generation)
{
    if (c->closing || generation != c->generation) return;
    c->generation++;
    rpc_channel_move_on(c->channel);
    LIST_EACH_SAFE(&c->streams, node, following)
    {
        native_stream_reset(CONTAINER_OF(node, struct native_stream, link));
    }
    LIST_EACH_SAFE(&c->waiting, node, following)
    {
        struct native_op *op = CONTAINER_OF(node, struct native_op, link);
        if (!op->call) continue;
        op->again = true;
        rpc_call_cancel(op->call);
    }
}

/* -- unary calls -- */

void native_op_init(struct native_op *op, const char *path, int64_t deadline_ns)
{
    *op = (struct native_op){.path = path, .deadline_ns = deadline_ns};
    buf_init(&op->request, NATIVE_REQUEST_MAX);
    buf_init(&op->response, NATIVE_RESPONSE_MAX);
    list_init(&op->link);
}

void native_op_deinit(struct native_op *op)
{
    buf_deinit(&op->request);
    buf_deinit(&op->response);
}

int64_t native_client_now(const struct native_client *c)
{
    return prim_clock_now(&c->clock);
}

struct loop *native_client_loop(struct native_client *c)
{
    return c->io->loop;
}

bool native_client_listens(const struct native_client *c)
{
    return !list_empty(&c->streams) || !list_empty(&c->waiting);
}

static int64_t left_ms(const struct native_op *op)
{
    return (op->deadline_ns - native_client_now(op->client)) / (int64_t)NS_PER_MS;
}

static void fail(struct native_op *op, enum err err, const char *text)
{
    op->err = op->doubt ? ERR_UNKNOWN : err;
    op->status = err_grpc_status(err);
    op->answered = false;
    (void)snprintf(op->text, sizeof op->text, "%s", text);
    op->done(op);
}

/* For people, and from outside: what cannot be printed is not. */
static void copy_text(struct native_op *op, struct str text)
{
    size_t len = min_size(text.len, sizeof op->text - 1);

    for (size_t i = 0; i < len; i++) {
        op->text[i] = text.at[i];
        if (text.at[i] < ' ' || text.at[i] > '~') op->text[i] = '?';
    }
    op->text[len] = '\0';
}

/* No majority, stopping: another replica may lead. */
static bool should_move(const struct native_client *c, const struct rpc_outcome *outcome)
{
    return c->address_count > 1 && outcome->answered && outcome->status == GRPC_UNAVAILABLE;
}

static void answered(void *owner, const struct rpc_client_call *call,
                     const struct rpc_outcome *outcome, struct str message)
{
    struct native_op *op = owner;
    struct native_client *c = op->client;
    bool silent = !outcome->answered && outcome->status == GRPC_DEADLINE_EXCEEDED &&
                  outcome->attempts > 0 && !op->waits && op->slice_ms >= SLICE_TROUBLE_MS;
    bool again = silent || op->again;

    (void)call;
    op->call = NULL;
    op->again = false;
    list_remove(&op->link);
    if (silent || should_move(c, outcome)) trouble(c, op->generation);
    if (outcome->err == ERR_UNKNOWN) op->doubt = true;
    if (outcome->err && again && !op->stopped && left_ms(op) > 0 && !c->closing) {
        begin(op);
        return;
    }
    op->err = outcome->err;
    /* An earlier slice may have been heard, whatever this one says of itself. */
    if (op->err && op->doubt) op->err = ERR_UNKNOWN;
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

static uint64_t slice_ms(const struct native_op *op, int64_t left)
{
    int64_t least = op->client->address_count > 1 ? SLICE_LEAST_MS : 2 * SLICE_LEAST_MS;
    int64_t slice = op->client->address_count > 1 ? left / 3 : left / 2;

    if (op->waits) return (uint64_t)left;
    if (slice < least) slice = least;
    return (uint64_t)(slice < left ? slice : left);
}

static void begin(struct native_op *op)
{
    struct native_client *c = op->client;
    int64_t left = left_ms(op);
    enum err err;

    if (left <= 0) {
        fail(op, ERR_TIMEOUT, "no time left");
        return;
    }
    op->generation = c->generation;
    op->slice_ms = slice_ms(op, left);
    err = rpc_unary(c->channel,
                    &(struct rpc_call_options){.path = op->path,
                                               .timeout_ms = op->slice_ms,
                                               .idempotent = true,
                                               .wait_for_ready = !op->hurried,
                                               .response_max = NATIVE_RESPONSE_MAX,
                                               .attempts_max = ATTEMPTS_MAX},
                    buf_peek(&op->request), answered, op, &op->call);
    if (err) {
        op->call = NULL;
        fail(op, err, err_text(err));
        return;
    }
    if (op->waits) list_append(&c->waiting, &op->link);
}

static void on_start(struct post *post)
{
    struct native_op *op = CONTAINER_OF(post, struct native_op, post);

    op->stopped = op->waits && op->client->stopping;
    if (op->client->closing || op->stopped)
        fail(op, ERR_CANCELLED, "the store is closed");
    else
        begin(op);
}

void native_op_start(struct native_client *c, struct native_op *op)
{
    op->client = c;
    post_init(&op->post, on_start);
    loop_post(c->io->loop, &op->post);
}

static void wake(struct native_op *op)
{
    native_wait_done(&op->wait);
}

void native_op_run(struct native_client *c, struct native_op *op)
{
    native_wait_init(&op->wait);
    op->done = wake;
    native_op_start(c, op);
    native_wait_for(&op->wait);
}

struct errand {
    void (*fn)(void *owner);
    void *owner;
    struct post post;
    struct native_wait wait;
};

static void on_errand(struct post *post)
{
    struct errand *errand = CONTAINER_OF(post, struct errand, post);

    errand->fn(errand->owner);
    native_wait_done(&errand->wait);
}

void native_client_do(struct native_client *c, void (*fn)(void *owner), void *owner)
{
    struct errand errand = {.fn = fn, .owner = owner};

    native_wait_init(&errand.wait);
    post_init(&errand.post, on_errand);
    loop_post(c->io->loop, &errand.post);
    native_wait_for(&errand.wait);
}

static void stop_waiting(void *owner)
{
    struct native_client *c = owner;

    LIST_EACH_SAFE(&c->waiting, node, following)
    {
        struct native_op *op = CONTAINER_OF(node, struct native_op, link);
        op->stopped = true;
        if (op->call) rpc_call_cancel(op->call);
    }
}

void native_client_stop_waiting(struct native_client *c)
{
    c->stopping = true;
    native_client_do(c, stop_waiting, c);
}

/* -- streams -- */

static void stream_open(struct native_stream *s);

static void on_again(struct timer *timer)
{
    stream_open(CONTAINER_OF(timer, struct native_stream, again));
}

enum err native_stream_init(struct native_stream *s, struct native_client *c, const char *path)
{
    s->path = path;
    s->client = c;
    s->call = NULL;
    s->failures = 0;
    s->wanted = false;
    list_init(&s->link);
    return timer_init(&s->again, c->io->loop, on_again);
}

static void pause_stream(struct native_stream *s)
{
    uint64_t bound = BACKOFF_FIRST_MS;
    uint64_t random = entropy_u64(s->client->io->entropy);

    for (uint32_t i = 0; i < s->failures && bound < BACKOFF_MAX_MS; i++) bound *= 2;
    if (bound > BACKOFF_MAX_MS) bound = BACKOFF_MAX_MS;
    /* What opens, says a word and ends again is failing, too. */
    if (mono_elapsed_ms(s->opened, loop_now(s->client->io->loop)) >= STREAM_STABLE_MS)
        s->failures = 0;
    else if (s->failures < 16)
        s->failures++;
    timer_start_in(&s->again, bound / 2 + random % (bound / 2));
}

/* The life of one call, which may be longer than its stream's: cancelled is not yet ended. */
struct native_call {
    struct native_stream *stream; /* NULL: left behind */
    struct rpc_client_call *rpc;
};

static void stream_message(void *owner, struct rpc_client_call *rpc, struct str message)
{
    struct native_call *call = owner;

    (void)rpc;
    if (call->stream) call->stream->on_message(call->stream, message);
}

/* Whoever is told may leave the stream, and its memory may be gone then. */
static void stream_lost(struct native_stream *s, enum grpc_status status, struct str text)
{
    s->call = NULL;
    list_remove(&s->link);
    if (s->wanted && !s->client->closing) pause_stream(s);
    s->on_broken(s, status, text);
}

static void stream_ended(void *owner, struct rpc_client_call *rpc,
                         const struct rpc_outcome *outcome)
{
    struct native_call *call = owner;
    struct native_stream *s = call->stream;
    struct native_client *c;
    uint32_t generation;

    (void)rpc;
    free(call);
    if (!s) return;
    c = s->client;
    generation = c->generation;
    stream_lost(s, outcome->answered ? outcome->status : GRPC_UNAVAILABLE, outcome->text);
    if (should_move(c, outcome)) trouble(c, generation);
}

static enum err stream_call(struct native_stream *s, struct str request)
{
    static const struct rpc_call_events events = {stream_message, NULL, stream_ended};
    struct native_call *call = calloc(1, sizeof *call);
    enum err err;

    if (!call) return ERR_NOMEM;
    call->stream = s;
    err = rpc_call_start(s->client->channel,
                         &(struct rpc_call_options){.path = s->path,
                                                    .idempotent = true,
                                                    .wait_for_ready = true,
                                                    .response_max = STREAM_MESSAGE_MAX,
                                                    .attempts_max = ATTEMPTS_MAX},
                         &events, call, &call->rpc);
    if (err) {
        free(call);
        return err;
    }
    s->call = call;
    list_append(&s->client->streams, &s->link);
    (void)rpc_call_send(call->rpc, request); /* if it cannot, it ends, and comes again */
    rpc_call_end(call->rpc);
    return ERR_OK;
}

static void stream_open(struct native_stream *s)
{
    struct buf request;
    enum err err;

    if (!s->wanted || s->call || s->client->closing) return;
    s->opened = loop_now(s->client->io->loop);
    buf_init(&request, NATIVE_REQUEST_MAX);
    err = s->on_ask(s, &request);
    if (!err) err = stream_call(s, buf_peek(&request));
    if (err) pause_stream(s);
    buf_deinit(&request);
}

void native_stream_want(struct native_stream *s)
{
    s->wanted = true;
    if (!s->call && !timer_running(&s->again)) stream_open(s);
}

static void stream_abandon(struct native_stream *s)
{
    struct native_call *call = s->call;

    s->call = NULL;
    list_remove(&s->link);
    if (!call) return;
    call->stream = NULL;
    rpc_call_cancel(call->rpc);
}

void native_stream_leave(struct native_stream *s)
{
    s->wanted = false;
    timer_stop(&s->again);
    stream_abandon(s);
}

void native_stream_deinit(struct native_stream *s)
{
    native_stream_leave(s);
    timer_deinit(&s->again);
}

void native_stream_reset(struct native_stream *s)
{
    if (!s->call) return;
    stream_abandon(s);
    stream_lost(s, GRPC_UNAVAILABLE, STR("the stream was given up"));
}

/* -- life -- */

static void *run(void *owner)
{
    struct native_client *c = owner;

    real_io_run(c->real);
    return NULL;
}

static enum err start_thread(struct native_client *c)
{
    sigset_t all, before;
    int failed;

    /* Signals are the program's; with SIGPIPE blocked a peer that hung up is an error. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&c->thread, NULL, run, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) return ERR_NOMEM;
    pthread_setname_np(c->thread, "muster-native");
    return ERR_OK;
}

static enum err open_tls(struct native_client *c, const struct native_client_options *o,
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

enum err native_client_open(const struct native_client_options *o,
                            struct native_client **ret_client, struct note *note)
{
    struct native_client *c = calloc(1, sizeof *c);
    enum err err;

    if (!c) return ERR_NOMEM;
    c->clock = o->clock;
    list_init(&c->streams);
    list_init(&c->waiting);
    while (o->addresses[c->address_count]) c->address_count++;
    err = real_io_open_within(&c->real);
    if (!err) {
        c->io = real_io_io(c->real);
        if (o->tls) err = open_tls(c, o, note);
    }
    if (!err)
        err = rpc_channel_open(&(struct rpc_channel_options){.io = c->io,
                                                             .addresses = o->addresses,
                                                             .tls = c->tls,
                                                             .follow_leader = true,
                                                             .backoff_first_ms = BACKOFF_FIRST_MS,
                                                             .backoff_max_ms = BACKOFF_MAX_MS,
                                                             .dial_timeout_ms = DIAL_TIMEOUT_MS},
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
    free(c);
    return err;
}

static void on_channel_closed(void *owner)
{
    real_io_stop(((struct native_client *)owner)->real);
}

static void on_close(struct post *post)
{
    struct native_client *c = CONTAINER_OF(post, struct native_client, close_post);

    c->closing = true;
    while (!list_empty(&c->streams))
        native_stream_leave(CONTAINER_OF(c->streams.next, struct native_stream, link));
    rpc_channel_close(c->channel, on_channel_closed, c);
}

void native_client_close(struct native_client *c)
{
    if (!c) return;
    post_init(&c->close_post, on_close);
    loop_post(c->io->loop, &c->close_post);
    pthread_join(c->thread, NULL);
    tls_context_unref(c->tls);
    real_io_close(c->real);
    free(c);
}
