/* SPDX-License-Identifier: Apache-2.0 */
/* A call from start to end: its options, attempts and deadline.
 *
 * Requests are framed into `output` and given to h2 as far as there is room. A retry is possible
 * while `output` contains the whole request and the caller has received no message. A stream that
 * has sent more than CALL_REPLAY_MAX is not retried. */
#include <stdlib.h>
#include <string.h>

#include "rpc/client_internal.h"
#include "rpc/headers.h"

enum {
    ATTEMPTS_MAX = 8,
    RESPONSE_MAX = 4 * 1024 * 1024,
    OWN_HEADERS = 12,
    TIMEOUT_CAP = 16,
    SPAN_LEN = 16,
    TRACEPARENT_LEN = 3 + CLIENT_TRACE_LEN + 1 + SPAN_LEN + 3,
    US_PER_MS = 1000,
};

/* -- checking and copying the options -- */

static bool is_metadata_name(struct str name)
{
    static const struct str taken[] = {
        {"host", 4},
        {"connection", 10},
        {"user-agent", 10},
        {"traceparent", 11},
        {RPC_REQUEST_ID, sizeof RPC_REQUEST_ID - 1},
    };

    if (!header_name_is_free(name)) return false;
    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (str_equal(name, taken[i])) return false;
    return true;
}

static bool is_binary(struct str name)
{
    return str_ends(name, STR("-bin"));
}

static size_t base64_len(size_t len)
{
    return (len * 4 + 2) / 3;
}

/* *ret_bytes: what a copy needs */
static enum err check_options(const struct rpc_call_options *o, size_t *ret_bytes)
{
    size_t bytes = 0;

    if (!o->path || o->path[0] != '/' || !header_value_is_printable(str_from(o->path)))
        return ERR_INVALID;
    if (o->trace.len > 0 && (o->trace.len != CLIENT_TRACE_LEN || !header_is_hex(o->trace)))
        return ERR_INVALID;
    if (!header_value_is_printable(o->request_id)) return ERR_INVALID;
    if (o->metadata_count > RPC_METADATA_MAX) return ERR_TOO_LARGE;
    for (size_t i = 0; i < o->metadata_count; i++) {
        struct h2_header m = o->metadata[i];
        if (!is_metadata_name(m.name)) return ERR_INVALID;
        if (!is_binary(m.name) && !header_value_is_printable(m.value)) return ERR_INVALID;
        if (m.value.len > RPC_METADATA_BYTES_MAX) return ERR_TOO_LARGE;
        bytes += m.name.len + (is_binary(m.name) ? base64_len(m.value.len) : m.value.len);
    }
    bytes += o->request_id.len;
    if (bytes > RPC_METADATA_BYTES_MAX) return ERR_TOO_LARGE;
    *ret_bytes = bytes + strlen(o->path);
    return ERR_OK;
}

static enum err copy_metadata(struct rpc_client_call *call, const struct rpc_call_options *o,
                              char **at)
{
    for (size_t i = 0; i < o->metadata_count; i++) {
        struct h2_header m = o->metadata[i];
        struct h2_header *copy = &call->metadata[i];
        copy->name = str_put(at, m.name);
        if (is_binary(m.name)) {
            struct buf text;
            enum err err;
            buf_init(&text, base64_len(m.value.len));
            err = grpc_bin_encode(m.value, &text);
            if (!err) copy->value = str_put(at, buf_peek(&text));
            buf_deinit(&text);
            if (err) return err;
        } else {
            copy->value = str_put(at, m.value);
        }
    }
    call->metadata_count = o->metadata_count;
    return ERR_OK;
}

static void put_hex(char *into, uint64_t number)
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 15; i >= 0; i--, number >>= 4) into[i] = digits[number & 15];
}

static void settle_trace(struct rpc_client_call *call, struct str trace)
{
    if (trace.len == CLIENT_TRACE_LEN) {
        memcpy(call->trace, trace.at, CLIENT_TRACE_LEN);
    } else {
        /* all zeros would be an invalid trace id */
        put_hex(call->trace, prng_u64(&call->channel->prng) | 1);
        put_hex(call->trace + 16, prng_u64(&call->channel->prng));
    }
}

static void on_timer(struct timer *timer);

static enum retry_repeat repeat_of(const struct rpc_call_options *o)
{
    if (o->idempotent) return RETRY_REPEAT_HARMLESS;
    return o->dedups_by_request_id && o->request_id.len > 0 ? RETRY_REPEAT_KNOWN
                                                            : RETRY_REPEAT_UNSAFE;
}

static enum err client_call_new(struct rpc_channel *c, const struct rpc_call_options *o,
                                struct rpc_client_call **ret_call)
{
    struct rpc_client_call *call;
    size_t bytes;
    char *at;
    enum err err = check_options(o, &bytes);

    if (err) return err;
    if (c->closing) return ERR_CLOSED;
    if (c->calls_count >= c->options.calls_max) return ERR_FULL;
    call = malloc(sizeof *call + o->metadata_count * sizeof *call->metadata + bytes);
    if (!call) return ERR_NOMEM;
    *call = (struct rpc_client_call){
        .channel = c,
        .state = CALL_WAITING,
        .deadline = o->timeout_ms ? mono_after(loop_now(c->io->loop), o->timeout_ms) : MONO_NEVER,
        .resume_at = MONO_NEVER,
        .response_max = o->response_max ? o->response_max : RESPONSE_MAX,
        .attempts_max = o->attempts_max ? o->attempts_max : ATTEMPTS_MAX,
        .repeat = repeat_of(o),
        .wait_for_ready = o->wait_for_ready,
        .replayable = true,
    };
    call->metadata = (struct h2_header *)(call + 1);
    at = (char *)(call->metadata + o->metadata_count);
    list_init(&call->link);
    list_init(&call->resume_link);
    buf_init(&call->output, (size_t)CALL_MESSAGE_MAX + CALL_OUTPUT_MAX + CALL_REPLAY_MAX);
    buf_init(&call->held, CALL_HELD_MAX);
    buf_init(&call->message, call->response_max);
    arena_init(&call->answer, CALL_ANSWER_MAX);
    grpc_reader_init(&call->reader, call->response_max);
    err = timer_init(&call->timer, c->io->loop, on_timer);
    if (!err) err = copy_metadata(call, o, &at);
    if (err) {
        client_call_free(call);
        return err;
    }
    call->path = str_put(&at, str_from(o->path));
    call->request_id = str_put(&at, o->request_id);
    settle_trace(call, o->trace);
    if (o->untraced) call->trace[0] = '\0';
    if (c->options.metrics) call->started = clock_mono_ns(c->io->clock);
    if (o->timeout_ms) timer_start(&call->timer, call->deadline);
    list_append(&c->waiting, &call->link);
    c->calls_count++;
    channel_touch(c);
    *ret_call = call;
    return ERR_OK;
}

void client_call_free(struct rpc_client_call *call)
{
    assert(list_empty(&call->link));
    list_remove(&call->resume_link);
    timer_deinit(&call->timer);
    buf_deinit(&call->output);
    buf_deinit(&call->held);
    buf_deinit(&call->message);
    arena_deinit(&call->answer);
    free(call);
}

enum err rpc_call_start(struct rpc_channel *c, const struct rpc_call_options *options,
                        const struct rpc_call_events *events, void *owner,
                        struct rpc_client_call **ret_call)
{
    enum err err = client_call_new(c, options, ret_call);

    if (err) return err;
    (*ret_call)->events = *events;
    (*ret_call)->owner = owner;
    return ERR_OK;
}

/* -- the states: see struct rpc_client_call -- */

void client_call_to(struct rpc_client_call *call, enum call_state to, struct list *before)
{
    enum { RETRIED = BIT(CALL_WAITING) | BIT(CALL_DELAYED) | BIT(CALL_ENDED) };
    static const uint8_t moves[] = {
        [CALL_WAITING] = BIT(CALL_RUNNING) | BIT(CALL_ENDED),
        [CALL_DELAYED] = BIT(CALL_WAITING) | BIT(CALL_ENDED),
        [CALL_RUNNING] = BIT(CALL_ANSWERED) | RETRIED,
        [CALL_ANSWERED] = RETRIED,
        [CALL_ENDED] = 0,
    };

    assert(moves[call->state] & BIT(to));
    assert(to != CALL_ANSWERED || call->incoming == INCOMING_WHOLE);
    list_remove(&call->link);
    list_insert_before(before, &call->link);
    call->state = to;
}

/* -- attempts -- */

/* "00-<trace>-<span>-01": 55 characters, no NUL. */
static void put_traceparent(struct rpc_client_call *call, char into[TRACEPARENT_LEN])
{
    char *at = into;

    (void)str_put(&at, STR("00-"));
    (void)str_put(&at, str_of(call->trace, CLIENT_TRACE_LEN));
    (void)str_put(&at, STR("-"));
    put_hex(at, prng_u64(&call->channel->prng) | 1);
    at += SPAN_LEN;
    (void)str_put(&at, STR("-01"));
}

static size_t put_headers(struct rpc_client_call *call, const struct client_connection *n,
                          char timeout[TIMEOUT_CAP], char traceparent[TRACEPARENT_LEN],
                          struct h2_header *into)
{
    const struct rpc_channel *c = call->channel;
    size_t count = 0;

    into[count++] = (struct h2_header){STR(":method"), STR("POST")};
    into[count++] = (struct h2_header){STR(":scheme"), c->options.tls ? STR("https") : STR("http")};
    into[count++] = (struct h2_header){STR(":path"), call->path};
    into[count++] =
        (struct h2_header){STR(":authority"), str_from(c->tls_name ? c->tls_name : n->address)};
    into[count++] = (struct h2_header){STR("te"), STR("trailers")};
    into[count++] = (struct h2_header){STR("content-type"), STR("application/grpc")};
    into[count++] = (struct h2_header){STR("user-agent"), STR("grpc-c-muster/1")};
    into[count++] = (struct h2_header){STR("grpc-accept-encoding"),
                                       call->on_piece ? STR("identity") : STR("identity,gzip")};
    if (call->deadline.ms != MONO_NEVER.ms) {
        uint64_t left = mono_elapsed_ms(loop_now(c->io->loop), call->deadline);
        grpc_timeout_text(left > UINT64_MAX / US_PER_MS ? UINT64_MAX : left * US_PER_MS, timeout);
        into[count++] = (struct h2_header){STR("grpc-timeout"), str_from(timeout)};
    }
    if (call->trace[0]) {
        put_traceparent(call, traceparent);
        into[count++] =
            (struct h2_header){STR("traceparent"), str_of(traceparent, TRACEPARENT_LEN)};
    }
    if (call->request_id.len > 0)
        into[count++] = (struct h2_header){STR(RPC_REQUEST_ID), call->request_id};
    assert(count <= OWN_HEADERS);
    for (size_t i = 0; i < call->metadata_count; i++) into[count++] = call->metadata[i];
    return count;
}

enum err client_call_begin(struct rpc_client_call *call, struct client_connection *n)
{
    struct h2_header headers[OWN_HEADERS + RPC_METADATA_MAX];
    char timeout[TIMEOUT_CAP], traceparent[TRACEPARENT_LEN];
    size_t count;
    bool end = call->outgoing != OUTGOING_OPEN && call->output.len == 0;
    int32_t stream;
    enum err err;

    assert(call->state == CALL_WAITING && call->replayable);
    count = put_headers(call, n, timeout, traceparent, headers);
    err = h2_request(n->h2, headers, count, end, &stream);
    if (err == ERR_FULL || err == ERR_CLOSED) return err;
    if (err) {
        client_call_stop(call, err, err_grpc_status(err), err_text(err));
        return ERR_OK;
    }
    call->stream = stream;
    call->attempts++;
    call->requested_flush = n->flushes;
    call->output_at = 0;
    if (call->outgoing != OUTGOING_OPEN) call->outgoing = end ? OUTGOING_HANDED : OUTGOING_ENDED;
    client_add_call(n, call);
    client_call_to(call, CALL_RUNNING, &n->calls);
    client_call_pump(call);
    return ERR_OK;
}

/* True if a flush has run since the request was given to h2. Before that flush no byte was sent. */
bool client_call_was_sent(const struct rpc_client_call *call)
{
    return call->state == CALL_ANSWERED ||
           (call->state == CALL_RUNNING && call->connection->flushes > call->requested_flush);
}

/* -- requests out -- */

static size_t unsent(const struct rpc_client_call *call)
{
    return call->output.len - call->output_at;
}

static void trim(struct rpc_client_call *call)
{
    if (call->replayable && !call->unary_done && call->output_at > CALL_REPLAY_MAX)
        call->replayable = false;
    if (call->attempts >= call->attempts_max) call->replayable = false;
    if (call->replayable || call->output_at == 0) return;
    /* Moves unsent bytes only if they are fewer than the sent bytes, to bound the cost. */
    if (call->output_at < unsent(call)) return;
    buf_consume(&call->output, call->output_at);
    call->output_at = 0;
    /* Tens of thousands of calls may wait for responses, so a sent request is freed. */
    if (call->outgoing != OUTGOING_OPEN && call->output.len == 0) buf_deinit(&call->output);
}

static void report_writable(struct rpc_client_call *call)
{
    if (!call->writable_due || unsent(call) > CALL_OUTPUT_MAX / 2) return;
    call->writable_due = false;
    if (call->events.on_writable) call->events.on_writable(call->owner, call);
}

void client_call_pump(struct rpc_client_call *call)
{
    struct h2 *h2 = call->connection->h2;
    enum err err = ERR_OK;

    while (!err && unsent(call) > 0) {
        /* Offering one byte more than there is room for makes h2 call on_writable. */
        size_t n = max_size(1, min_size(h2_send_room(h2, call->stream), unsent(call)));
        struct str part = str_of(call->output.data + call->output_at, n);
        err = h2_send(h2, call->stream, &part, 1);
        if (!err) call->output_at += n;
    }
    if (!err && call->outgoing == OUTGOING_ENDED) {
        call->outgoing = OUTGOING_HANDED;
        err = h2_send_end(h2, call->stream);
    }
    if (err == ERR_NOMEM || err == ERR_INVALID) {
        client_call_stop(call, ERR_NOMEM, GRPC_RESOURCE_EXHAUSTED, err_text(ERR_NOMEM));
        return;
    }
    trim(call); /* ERR_FULL or ERR_CLOSED: an event of h2 will continue the call */
    report_writable(call);
}

enum err rpc_call_send(struct rpc_client_call *call, struct str message)
{
    char *room;
    enum err err;

    if (call->state == CALL_ENDED || call->outgoing != OUTGOING_OPEN ||
        call->incoming == INCOMING_WHOLE)
        return ERR_CLOSED;
    if (message.len > CALL_MESSAGE_MAX) return ERR_TOO_LARGE;
    if (unsent(call) > 0 && unsent(call) + GRPC_FRAME_BYTES + message.len > CALL_OUTPUT_MAX) {
        call->writable_due = true;
        return ERR_FULL;
    }
    err = buf_reserve(&call->output, GRPC_FRAME_BYTES + message.len, &room);
    if (err) return err == ERR_FULL ? ERR_TOO_LARGE : err;
    grpc_frame_write((uint32_t)message.len, false, room);
    if (message.len > 0) memcpy(room + GRPC_FRAME_BYTES, message.at, message.len);
    buf_commit(&call->output, GRPC_FRAME_BYTES + message.len);
    if (call->state == CALL_RUNNING) client_call_pump(call);
    channel_touch(call->channel);
    return ERR_OK;
}

void rpc_call_end(struct rpc_client_call *call)
{
    if (call->state == CALL_ENDED || call->outgoing != OUTGOING_OPEN) return;
    call->outgoing = OUTGOING_ENDED;
    if (call->state == CALL_RUNNING) client_call_pump(call);
    channel_touch(call->channel);
}

/* -- the end of an attempt -- */

static void leave_stream(struct rpc_client_call *call)
{
    struct client_connection *n = call->connection;
    int32_t stream = call->stream;

    if (!n) return;
    client_remove_call(n, call);
    if (n->state == CLIENT_CLOSING) return;
    if (call->incoming != INCOMING_WHOLE || call->outgoing != OUTGOING_HANDED ||
        h2_stream_pending(n->h2, stream) > 0)
        h2_reset(n->h2, stream, H2_CANCEL);
    channel_touch(call->channel);
}

static void finish(struct rpc_client_call *call, enum err err, const struct attempt *attempt)
{
    struct rpc_channel *c = call->channel;

    leave_stream(call);
    timer_stop(&call->timer);
    list_remove(&call->resume_link);
    call->outcome = (struct rpc_outcome){
        .err = err,
        .status = attempt->status,
        .text = attempt->text,
        .details = attempt->details,
        .answered = attempt->answered,
        .attempts = call->attempts,
        .doubted = call->doubt,
    };
    client_call_to(call, CALL_ENDED, &c->ended);
    channel_touch(c);
}

static void try_again(struct rpc_client_call *call, bool at_once)
{
    struct rpc_channel *c = call->channel;
    const struct backoff backoff = {c->options.backoff_first_ms, c->options.backoff_max_ms};

    leave_stream(call);
    answer_forget(call);
    CHANNEL_COUNT(c, retries);
    if (at_once) {
        /* A call that is retried without a pause goes to the front of the queue. */
        client_call_to(call, CALL_WAITING, c->waiting.next);
        channel_touch(c);
        return;
    }
    client_call_to(call, CALL_DELAYED, &c->delayed);
    call->resume_at =
        mono_after(loop_now(c->io->loop), backoff_ms(backoff, call->attempts, prng_u64(&c->prng)));
    timer_start(&call->timer, mono_min(call->resume_at, call->deadline));
}

static struct retry_facts facts_of(const struct rpc_client_call *call,
                                   const struct attempt *attempt)
{
    return (struct retry_facts){
        .end = attempt->end,
        .status = attempt->status,
        .doubt = call->doubt,
        .repeat = call->repeat,
        .replayable = call->replayable,
        .follows = call->channel->options.follow_leader,
        .attempts = call->attempts,
        .attempts_max = call->attempts_max,
    };
}

void client_call_over(struct rpc_client_call *call, const struct attempt *attempt)
{
    struct retry_facts facts = facts_of(call, attempt);
    struct retry_verdict verdict;
    struct str leader = STR_EMPTY;

    assert(call->state == CALL_RUNNING || call->state == CALL_ANSWERED);
    verdict = retry_decide(&facts);
    if (attempt->end == ATTEMPT_NOT_LEADER && facts.follows) {
        rpc_call_trailer(call, STR(RPC_LEADER_TRAILER), &leader);
        /* Without a known leader, an election is in progress, so the call backs off first. */
        if (leader.len == 0) verdict.at_once = false;
        roles_follow(call->channel, call->connection, leader);
    }
    call->doubt |= verdict.doubt;
    if (verdict.again && !call->channel->closing)
        try_again(call, verdict.at_once);
    else
        finish(call, verdict.again ? ERR_CANCELLED : verdict.err, attempt);
}

void client_call_stop(struct rpc_client_call *call, enum err err, enum grpc_status status,
                      const char *text)
{
    struct attempt attempt = {
        .end = client_call_was_sent(call) ? ATTEMPT_LOST : ATTEMPT_UNSENT,
        .status = status,
        .text = str_from(arena_dup(&call->answer, str_from(text))),
    };
    struct retry_facts facts = facts_of(call, &attempt);

    facts.stopped = true;
    finish(call, retry_decide(&facts).doubt ? ERR_UNKNOWN : err, &attempt);
}

void rpc_call_cancel(struct rpc_client_call *call)
{
    if (call->state == CALL_ENDED) return;
    client_call_stop(call, ERR_CANCELLED, GRPC_CANCELLED, "cancelled by the caller");
}

static void on_timer(struct timer *timer)
{
    struct rpc_client_call *call = CONTAINER_OF(timer, struct rpc_client_call, timer);
    mono_time now = loop_now(call->channel->io->loop);

    if (mono_due(call->deadline, now)) {
        client_call_stop(call, ERR_TIMEOUT, GRPC_DEADLINE_EXCEEDED, "deadline exceeded");
        return;
    }
    if (call->deadline.ms != MONO_NEVER.ms) timer_start(timer, call->deadline);
    if (call->state != CALL_DELAYED) return;
    client_call_to(call, CALL_WAITING, &call->channel->waiting);
    channel_touch(call->channel);
}

/* -- one request, one answer -- */

static void unary_on_end(void *owner, struct rpc_client_call *call,
                         const struct rpc_outcome *outcome)
{
    struct rpc_outcome judged = *outcome;

    if (!judged.err && call->messages != 1) {
        judged.err = ERR_UNKNOWN;
        judged.status = GRPC_INTERNAL;
        judged.answered = false; /* the status was OK, and this client reports the error */
        judged.text = call->messages == 0 ? STR("answered OK, but without a message")
                                          : STR("answered OK, but with more than one message");
    }
    call->unary_done(owner, call, &judged, judged.err ? STR_EMPTY : buf_peek(&call->message));
}

static const struct rpc_call_events unary_events = {.on_end = unary_on_end};

enum err rpc_unary(struct rpc_channel *channel, const struct rpc_call_options *options,
                   struct str request, rpc_unary_fn *done, void *owner,
                   struct rpc_client_call **ret_call)
{
    struct rpc_client_call *call;
    enum err err = client_call_new(channel, options, &call);

    if (err) return err;
    call->events = unary_events;
    call->owner = owner;
    call->unary_done = done;
    err = rpc_call_send(call, request);
    if (err) {
        list_remove(&call->link); /* the caller has no pointer to the call */
        channel->calls_count--;
        client_call_free(call);
        return err;
    }
    rpc_call_end(call);
    if (ret_call) *ret_call = call;
    return ERR_OK;
}
