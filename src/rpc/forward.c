/* SPDX-License-Identifier: Apache-2.0 */
/* Forwarded calls: each connects a server's call with a client's call. Loop's thread.
 *
 * The gate decides at the first event of a call and redirects the call to the service's own handler
 * or to passing_handler. A `passing` exists from that event until both calls have ended. At most
 * one request message waits here, until the leader accepts it; meanwhile the server's call is
 * paused. */
#include "rpc/forward.h"

#include <stdlib.h>
#include <string.h>

enum {
    PASSING_MAX = 10000, /* calls forwarded at a time; further calls get UNAVAILABLE */
    /* Calls that wait at the leader (locks, watches) occupy streams. Twelve connections suffice for
     * PASSING_MAX calls, because our servers allow 1,000 streams each. */
    LEADER_CONNECTIONS_MAX = 12,
    LEADERS_MAX = 4, /* the current leader, and former leaders that still have calls */
    MESSAGE_MAX = 1024 * 1024 * 1024,
    CALLER_MAX = 16 * 1024,
    OWN_METADATA = 2,
};

struct leader {
    struct list link; /* member of forwarder.leaders */
    struct rpc_forwarder *forwarder;
    struct rpc_channel *channel;
    char address[RPC_ADDRESS_CAP];
    size_t running;
    bool old, closing;
};
struct passing {
    struct rpc_forwarder *forwarder;
    struct leader *leader;
    const struct rpc_forward_gate *gate;
    struct rpc_call *call;          /* the call that this replica received; NULL after on_done */
    struct rpc_client_call *onward; /* the call to the leader; NULL after on_end */
    struct buf request;
    enum err broken;    /* why the request cannot be forwarded, or ERR_OK */
    bool request_waits; /* `request` has a message, and therefore `call` is paused */
    bool headers_given;
    bool cut_short; /* the gate's timeout is shorter than the caller's */
};
struct rpc_forwarder {
    struct rpc_forwarder_options options;
    struct list leaders; /* oldest first; a leader is removed when its channel is closed */
    size_t leader_count;
    struct leader *leader; /* NULL: no leader is known */
    struct buf scratch;
    size_t running;
    bool closing;
    void (*done)(void *owner);
    void *owner;
};

/* -- leaders -- */

static void forwarder_free(struct rpc_forwarder *f)
{
    buf_deinit(&f->scratch);
    tls_context_unref(f->options.tls);
    free(f);
}

static void forwarder_free_if_over(struct rpc_forwarder *f)
{
    void (*done)(void *) = f->done;
    void *owner = f->owner;

    if (!f->closing || !list_empty(&f->leaders)) return;
    forwarder_free(f);
    if (done) done(owner);
}

static void leader_on_closed(void *owner)
{
    struct leader *leader = owner;
    struct rpc_forwarder *f = leader->forwarder;

    list_remove(&leader->link);
    free(leader);
    f->leader_count--;
    forwarder_free_if_over(f);
}

static void leader_close(struct leader *leader)
{
    if (leader->closing) return;
    leader->closing = true;
    rpc_channel_close(leader->channel, leader_on_closed, leader);
}

static void leader_retire(struct leader *leader)
{
    leader->old = true;
    if (leader->running == 0) leader_close(leader);
}

enum err rpc_forwarder_set_leader(struct rpc_forwarder *f, const char *address)
{
    const char *addresses[] = {address, NULL};
    struct rpc_channel_options options = {
        .io = f->options.io,
        .addresses = addresses,
        .tls = f->options.tls,
        .ping_after_ms = f->options.ping_after_ms,
        .ping_timeout_ms = f->options.ping_timeout_ms,
        .calls_max = PASSING_MAX,
        .connections_max = LEADER_CONNECTIONS_MAX,
    };
    struct leader *leader;
    struct address_parts parts;
    enum err err;

    assert(!f->closing);
    if (f->leader && address && strcmp(f->leader->address, address) == 0) return ERR_OK;
    if (f->leader) leader_retire(f->leader);
    f->leader = NULL;
    if (!address || !address[0]) return ERR_OK;
    err = address_split(address, &parts, NULL);
    if (err) return err;
    if (strlen(address) >= RPC_ADDRESS_CAP) return ERR_INVALID;
    if (f->leader_count == LEADERS_MAX) { /* ends the calls to the oldest leader */
        leader_close(CONTAINER_OF(f->leaders.next, struct leader, link));
        return ERR_FULL;
    }
    leader = calloc(1, sizeof *leader);
    err = leader ? rpc_channel_open(&options, &leader->channel, NULL) : ERR_NOMEM;
    if (err) {
        free(leader);
        return err;
    }
    leader->forwarder = f;
    memcpy(leader->address, address, strlen(address) + 1);
    list_init(&leader->link);
    list_append(&f->leaders, &leader->link);
    f->leader_count++;
    f->leader = leader;
    return ERR_OK;
}

const char *rpc_forwarder_leader(const struct rpc_forwarder *f)
{
    return f->leader ? f->leader->address : "";
}

struct rpc_channel *rpc_forwarder_channel(const struct rpc_forwarder *f)
{
    return f->leader ? f->leader->channel : NULL;
}

size_t rpc_forwarder_running(const struct rpc_forwarder *f)
{
    return f->running;
}

enum err rpc_forwarder_open(const struct rpc_forwarder_options *options,
                            struct rpc_forwarder **ret_forwarder)
{
    struct rpc_forwarder *f = calloc(1, sizeof *f);

    if (!f) return ERR_NOMEM;
    f->options = *options;
    if (f->options.tls) tls_context_ref(f->options.tls);
    buf_init(&f->scratch, MESSAGE_MAX);
    list_init(&f->leaders);
    *ret_forwarder = f;
    return ERR_OK;
}

void rpc_forwarder_close(struct rpc_forwarder *f, void (*done)(void *owner), void *owner)
{
    f->closing = true;
    f->done = done;
    f->owner = owner;
    f->leader = NULL;
    LIST_EACH(&f->leaders, node) leader_close(CONTAINER_OF(node, struct leader, link));
    forwarder_free_if_over(f);
}

/* -- forwarded calls -- */

static void passing_free(struct passing *p)
{
    buf_deinit(&p->request);
    free(p);
}

static void passing_free_if_over(struct passing *p)
{
    if (!p->call && !p->onward) passing_free(p);
}

/* -- from the leader to the caller -- */

static void passing_add_headers(struct passing *p)
{
    const struct h2_header *headers;
    size_t count = p->headers_given ? 0 : rpc_call_headers(p->onward, &headers);

    p->headers_given = true;
    for (size_t i = 0; i < count; i++)
        (void)rpc_add_header(p->call, headers[i].name, headers[i].value); /* best effort */
}

/* Ends a call that was applied, but whose response is too large to pass on or finds no memory. */
static void passing_fail_answer(struct passing *p, enum err err)
{
    struct note note;

    if (err != ERR_CLOSED && p->gate->lost) {
        p->gate->lost(p->call, RPC_LOST_UNKNOWN);
    } else if (err != ERR_CLOSED) {
        note_set(&note, "the leader's answer cannot be passed on: %s", err_text(err));
        rpc_finish(p->call, GRPC_UNKNOWN, str_from(note.text), STR_EMPTY);
    }
    rpc_call_cancel(p->onward);
}

static void onward_on_message(void *owner, struct rpc_client_call *onward, struct str message)
{
    struct passing *p = owner;
    enum err err;

    if (!p->call) return;
    if (p->gate->passed) p->gate->passed(p->gate->service, message);
    passing_add_headers(p);
    err = rpc_send_kept(p->call, message);
    if (err)
        passing_fail_answer(p, err);
    else if (rpc_reply_waits(p->call))
        rpc_call_pause(onward);
}

static void passing_add_trailers(struct passing *p, const struct rpc_client_call *onward)
{
    const struct h2_header *trailers;
    size_t count = rpc_call_trailers(onward, &trailers);

    for (size_t i = 0; i < count; i++) {
        /* this server adds its own */
        if (str_equal(trailers[i].name, STR("x-muster-trace"))) continue;
        (void)rpc_add_trailer(p->call, trailers[i].name, trailers[i].value);
    }
}

/* Ends a call that the leader did not answer and that was certainly not applied. */
static void passing_end_not_applied(struct passing *p, const struct rpc_outcome *outcome)
{
    (void)rpc_add_trailer(p->call, STR(RPC_APPLIED_TRAILER), STR("no"));
    if (p->gate->lost && !p->broken && (outcome->err != ERR_TIMEOUT || p->cut_short))
        p->gate->lost(p->call, RPC_LOST_NOT_APPLIED);
    else if (p->broken)
        rpc_fail(p->call, p->broken, NULL);
    else
        rpc_finish(p->call, outcome->err == ERR_TIMEOUT ? GRPC_DEADLINE_EXCEEDED : GRPC_UNAVAILABLE,
                   outcome->text, STR_EMPTY);
}

static void passing_end_unknown(struct passing *p, const struct rpc_outcome *outcome)
{
    struct note note;

    if (p->gate->lost) {
        p->gate->lost(p->call, RPC_LOST_UNKNOWN);
        return;
    }
    if (p->broken) note_set(&note, "the request broke off: %s", err_text(p->broken));
    rpc_finish(p->call, GRPC_UNKNOWN, p->broken ? str_from(note.text) : outcome->text, STR_EMPTY);
}

static void onward_on_end(void *owner, struct rpc_client_call *onward,
                          const struct rpc_outcome *outcome)
{
    struct passing *p = owner;

    /* A forwarded call is retried only after attempts that were certainly not applied, so the
     * leader's response covers all attempts. */
    assert(!outcome->doubted || outcome->err == ERR_UNKNOWN);
    if (p->call) {
        passing_add_headers(p);
        passing_add_trailers(p, onward);
        if (outcome->answered) {
            rpc_finish(p->call, outcome->status, outcome->text, outcome->details);
        } else if (outcome->err == ERR_UNKNOWN) {
            passing_end_unknown(p, outcome);
        } else {
            passing_end_not_applied(p, outcome);
        }
    }
    p->onward = NULL;
    p->forwarder->running--;
    if (--p->leader->running == 0 && p->leader->old) leader_close(p->leader);
    passing_free_if_over(p);
}

/* -- from the caller to the leader -- */

/* A part of the request cannot be read or kept here. Earlier parts may have reached the leader, so
 * the caller's response waits for on_end of the call to the leader. */
static void passing_break_off(struct passing *p, enum err err)
{
    if (err == ERR_CLOSED) return; /* on_end will follow */
    p->broken = err;
    rpc_call_cancel(p->onward);
}

static void onward_on_writable(void *owner, struct rpc_client_call *onward)
{
    struct passing *p = owner;
    enum err err;

    if (!p->request_waits) return;
    err = rpc_call_send(onward, buf_peek(&p->request));
    if (err == ERR_FULL) return;
    p->request_waits = false;
    buf_deinit(&p->request);
    if (err) passing_break_off(p, err);
    if (p->call) rpc_resume(p->call);
}

static const struct rpc_call_events onward_events = {onward_on_message, onward_on_writable,
                                                     onward_on_end};

static void passing_send_request(struct passing *p, const ProtobufCMessage *message,
                                 struct str bytes)
{
    struct buf *scratch = &p->forwarder->scratch;
    enum err err = ERR_OK;

    if (!p->onward) return;
    if (message) {
        buf_clear(scratch);
        err = message_write(message, scratch, NULL);
        /* Here ERR_FULL means a full buffer, after which no event follows. */
        if (err == ERR_FULL) err = ERR_TOO_LARGE;
        bytes = buf_peek(scratch);
    }
    if (!err) err = rpc_call_send(p->onward, bytes);
    if (err == ERR_FULL) {
        err = buf_append(&p->request, bytes);
        p->request_waits = !err;
        if (!err) rpc_pause(p->call);
    }
    if (scratch->cap > CALLER_MAX) buf_deinit(scratch);
    if (err) passing_break_off(p, err);
}

static bool metadata_is_forwarded(struct str name)
{
    static const struct str ours[] = {
        {"traceparent", 11},
        {"x-muster-trace", 14},
        {"user-agent", 10},
        {"host", 4},
        {"connection", 10},
        {RPC_REQUEST_ID, sizeof RPC_REQUEST_ID - 1},
        {RPC_CALLER_HEADER, sizeof RPC_CALLER_HEADER - 1},
        {RPC_HOPS_HEADER, sizeof RPC_HOPS_HEADER - 1},
    };

    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (str_equal(name, ours[i])) return false;
    return !str_starts(name, STR("grpc-"));
}

static enum err passing_start(struct passing *p, const struct rpc_forward_gate *gate,
                              struct str caller)
{
    struct h2_header metadata[RPC_METADATA_MAX];
    struct rpc_call *call = p->call;
    struct str name, value;
    size_t count = 0, cursor = 0;
    mono_time deadline = rpc_call_deadline(call);
    struct rpc_call_options options = {
        .path = rpc_call_path(call).at, /* a method's path ends with NUL */
        .trace = rpc_call_trace(call),
        .request_id = STR_EMPTY,
        .response_max = gate->response_max,
        .metadata = metadata,
    };

    if (deadline.ms != MONO_NEVER.ms)
        options.timeout_ms =
            max_u64(1, mono_elapsed_ms(loop_now(p->forwarder->options.io->loop), deadline));
    p->cut_short =
        gate->timeout_ms && (!options.timeout_ms || gate->timeout_ms < options.timeout_ms);
    if (p->cut_short) options.timeout_ms = gate->timeout_ms;
    (void)rpc_call_metadata(call, STR(RPC_REQUEST_ID), &options.request_id);
    metadata[count++] = (struct h2_header){STR(RPC_HOPS_HEADER), STR("1")};
    if (p->forwarder->options.tls)
        metadata[count++] = (struct h2_header){STR(RPC_CALLER_HEADER), caller};
    assert(count <= OWN_METADATA);
    while (rpc_call_metadata_next(call, &cursor, &name, &value)) {
        if (!metadata_is_forwarded(name)) continue;
        if (count == ARRAY_LEN(metadata)) return ERR_TOO_LARGE;
        metadata[count++] = (struct h2_header){name, value};
    }
    options.metadata_count = count;
    return rpc_call_start(p->leader->channel, &options, &onward_events, p, &p->onward);
}

static enum err passing_new(struct rpc_forward_gate *gate, struct rpc_call *call,
                            struct passing **ret_passing)
{
    struct rpc_forwarder *f = gate->forwarder;
    struct passing *p;
    struct buf caller;
    enum err err;

    if (f->running >= PASSING_MAX) return ERR_FULL;
    p = calloc(1, sizeof *p);
    if (!p) return ERR_NOMEM;
    p->forwarder = f;
    p->leader = f->leader;
    p->gate = gate;
    p->call = call;
    buf_init(&p->request, MESSAGE_MAX);
    buf_init(&caller, CALLER_MAX);
    err = rpc_forward_caller_text(rpc_call_identity(call), &caller);
    if (!err) err = passing_start(p, gate, buf_peek(&caller));
    buf_deinit(&caller);
    if (err) {
        passing_free(p);
        return err;
    }
    f->running++;
    p->leader->running++;
    *ret_passing = p;
    return ERR_OK;
}

void rpc_fail_not_leader(struct rpc_call *call, const char *leader)
{
    (void)rpc_add_trailer(call, STR(RPC_LEADER_TRAILER), str_from(leader));
    rpc_finish(call, GRPC_FAILED_PRECONDITION, STR("not the leader"), STR_EMPTY);
}

/* -- events of a forwarded server's call -- */

static void passing_on_message(void *service, struct rpc_call *, const ProtobufCMessage *message,
                               struct str bytes)
{
    passing_send_request(service, message, bytes);
}

static void passing_on_half_closed(void *service, struct rpc_call *)
{
    struct passing *p = service;

    assert(!p->request_waits); /* a paused call has no events */
    if (p->onward) rpc_call_end(p->onward);
}

static void passing_on_writable(void *service, struct rpc_call *)
{
    struct passing *p = service;

    if (p->onward) rpc_call_resume(p->onward);
}

static void passing_on_done(void *service, struct rpc_call *)
{
    struct passing *p = service;

    p->call = NULL;
    if (p->onward) rpc_call_cancel(p->onward); /* the caller is gone */
    passing_free_if_over(p);
}

static const struct rpc_handler passing_handler = {
    .on_message = passing_on_message,
    .on_half_closed = passing_on_half_closed,
    .on_writable = passing_on_writable,
    .on_done = passing_on_done,
};

/* -- the gate: the first event of each call -- */

/* For calls that the gate has answered; ignores all events. */
static const struct rpc_handler gate_answered;

/* NULL: the gate has answered the call itself */
static struct passing *gate_pass_on(struct rpc_forward_gate *gate, struct rpc_call *call)
{
    struct passing *p;
    struct str hops;
    enum err err;

    rpc_call_redirect(call, &gate_answered, NULL);
    if (!gate->forwarder->leader || rpc_call_metadata(call, STR(RPC_HOPS_HEADER), &hops)) {
        if (gate->lost)
            gate->lost(call, RPC_LOST_NO_LEADER);
        else
            rpc_fail_not_leader(call, rpc_forwarder_leader(gate->forwarder));
        return NULL;
    }
    err = passing_new(gate, call, &p);
    if (!err) {
        rpc_call_redirect(call, &passing_handler, p);
        return p;
    }
    (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
    if (gate->lost)
        gate->lost(call, err == ERR_FULL ? RPC_LOST_TOO_MANY : RPC_LOST_NOT_APPLIED);
    else
        rpc_fail(call, err, NULL);
    return NULL;
}

static void gate_on_start(void *service, struct rpc_call *call)
{
    struct rpc_forward_gate *gate = service;

    if (!gate->stays(gate->service, call)) {
        (void)gate_pass_on(gate, call);
        return;
    }
    rpc_call_redirect(call, gate->handler, gate->service);
    if (gate->handler->on_start) gate->handler->on_start(gate->service, call);
}

/* Streams were redirected in on_start; this is the first event of other calls. */
static void gate_on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                            struct str bytes)
{
    struct rpc_forward_gate *gate = service;
    struct passing *p;

    if (gate->stays(gate->service, call) || (gate->keeps && gate->keeps(gate->service, message))) {
        rpc_call_redirect(call, gate->handler, gate->service);
        gate->handler->on_message(gate->service, call, message, bytes);
        return;
    }
    p = gate_pass_on(gate, call);
    if (!p) return;
    passing_send_request(p, message, bytes);
    if (p->onward) rpc_call_end(p->onward);
}

const struct rpc_handler rpc_forward_handler = {
    .on_start = gate_on_start,
    .on_message = gate_on_message,
};
