/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on their way through: each is a server's call and a client's call tied together.
 *
 * A `passing` lives from the server's first event to the later of two ends: on_done of the server's
 * call, on_end of the client's. Messages that one side does not take yet wait here, at most one in
 * each direction, and the other side is paused meanwhile. */
#include "rpc/forward.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/map.h"

enum {
    PASSING_MAX = 10000,
    /* Calls that wait at the leader (locks, watches) hold their streams; those behind them must not
     * wait. Enough for PASSING_MAX calls at the 1,000 streams our servers allow. */
    LEADER_CONNECTIONS_MAX = 12,
    LEADERS_MAX = 4, /* the one there is, and old ones that still have calls */
    MESSAGE_MAX = 1024 * 1024 * 1024,
    CALLER_MAX = 16 * 1024,
    OWN_METADATA = 2,
};

struct leader {
    struct rpc_forwarder *forwarder;
    struct rpc_channel *channel; /* NULL: this place is free */
    char address[RPC_ADDRESS_CAP];
    size_t running;
    bool old, closing;
};
struct passing {
    struct rpc_forwarder *forwarder;
    struct leader *leader;
    const struct rpc_forward_gate *gate;
    struct rpc_call *call;          /* the server's; NULL after on_done */
    struct rpc_client_call *onward; /* the client's; NULL after on_end */
    struct buf request;             /* that the leader does not take yet */
    struct buf answer;              /* that the caller does not take yet */
    enum err broken;                /* why the request cannot be passed on; ERR_OK: it can */
    bool request_waits;             /* in `request`: the server's call is paused */
    bool answer_waits;              /* in `answer`: the client's call is paused */
    bool headers_given;
    bool cut_short; /* its time is the gate's, not its caller's */
};
struct rpc_forwarder {
    struct rpc_forwarder_options options;
    char *tls_name;
    struct leader leaders[LEADERS_MAX];
    struct leader *leader; /* NULL: not known */
    struct map by_call;    /* bytes of the pointer to the server's call */
    struct buf scratch;
    size_t running;
    bool closing;
    void (*done)(void *owner);
    void *owner;
};

/* -- leaders -- */

static void forwarder_free(struct rpc_forwarder *f)
{
    map_deinit(&f->by_call);
    buf_deinit(&f->scratch);
    tls_context_unref(f->options.tls);
    free(f->tls_name);
    free(f);
}

static void end_if_empty(struct rpc_forwarder *f)
{
    void (*done)(void *) = f->done;
    void *owner = f->owner;

    for (size_t i = 0; i < LEADERS_MAX; i++)
        if (f->leaders[i].channel) return;
    if (!f->closing) return;
    forwarder_free(f);
    if (done) done(owner);
}

static void leader_gone(void *owner)
{
    struct leader *leader = owner;
    struct rpc_forwarder *f = leader->forwarder;

    *leader = (struct leader){.forwarder = f};
    end_if_empty(f);
}

static void leader_close(struct leader *leader)
{
    if (leader->closing) return;
    leader->closing = true;
    rpc_channel_close(leader->channel, leader_gone, leader);
}

static void leader_retire(struct leader *leader)
{
    leader->old = true;
    if (leader->running == 0) leader_close(leader);
}

static struct leader *free_place(struct rpc_forwarder *f)
{
    struct leader *oldest = NULL;

    for (size_t i = 0; i < LEADERS_MAX; i++) {
        if (!f->leaders[i].channel) return &f->leaders[i];
        if (f->leaders[i].old && !f->leaders[i].closing) oldest = &f->leaders[i];
    }
    if (oldest) leader_close(oldest); /* its calls end, told as what they are */
    return NULL;
}

enum err rpc_forwarder_set_leader(struct rpc_forwarder *f, const char *address)
{
    const char *addresses[] = {address, NULL};
    struct rpc_channel_options options = {
        .io = f->options.io,
        .addresses = addresses,
        .tls = f->options.tls,
        .tls_name = f->tls_name,
        .ping_after_ms = f->options.ping_after_ms,
        .ping_timeout_ms = f->options.ping_timeout_ms,
        .calls_max = f->options.calls_max,
        .connections_max = LEADER_CONNECTIONS_MAX,
        .metrics = f->options.metrics,
    };
    struct leader *place;
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
    place = free_place(f);
    if (!place) return ERR_FULL;
    err = rpc_channel_open(&options, &place->channel, NULL);
    if (err) {
        place->channel = NULL;
        return err;
    }
    memcpy(place->address, address, strlen(address) + 1);
    f->leader = place;
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
    if (!f->options.calls_max) f->options.calls_max = PASSING_MAX;
    if (f->options.tls) tls_context_ref(f->options.tls);
    map_init(&f->by_call, f->options.calls_max, entropy_u64(options->io->entropy));
    buf_init(&f->scratch, MESSAGE_MAX);
    for (size_t i = 0; i < LEADERS_MAX; i++) f->leaders[i].forwarder = f;
    if (options->tls_name) {
        f->tls_name = str_dup(str_from(options->tls_name));
        if (!f->tls_name) {
            forwarder_free(f);
            return ERR_NOMEM;
        }
    }
    *ret_forwarder = f;
    return ERR_OK;
}

void rpc_forwarder_close(struct rpc_forwarder *f, void (*done)(void *owner), void *owner)
{
    bool any = false;

    f->closing = true;
    f->done = done;
    f->owner = owner;
    f->leader = NULL;
    for (size_t i = 0; i < LEADERS_MAX; i++) {
        if (!f->leaders[i].channel) continue;
        any = true;
        leader_close(&f->leaders[i]);
    }
    if (!any) end_if_empty(f);
}

/* -- a call on its way -- */

/* The bytes of the pointer, wherever that is kept. */
static struct str key_of(struct rpc_call *const *call)
{
    return str_of(call, sizeof(void *));
}

static struct passing *find(struct rpc_forward_gate *gate, struct rpc_call *call)
{
    return map_get(&gate->forwarder->by_call, key_of(&call));
}

static void passing_free(struct passing *p)
{
    buf_deinit(&p->request);
    buf_deinit(&p->answer);
    free(p);
}

static void free_if_over(struct passing *p)
{
    if (!p->call && !p->onward) passing_free(p);
}

/* -- from the leader to the caller -- */

static void give_headers(struct passing *p)
{
    const struct h2_header *headers;
    size_t count = rpc_call_headers(p->onward, &headers);

    if (p->headers_given) return;
    p->headers_given = true;
    for (size_t i = 0; i < count; i++)
        (void)rpc_add_header(p->call, headers[i].name, headers[i].value); /* best effort */
}

/* An answer that the caller cannot be given: too large here, or no memory. It was applied. */
static void fail_answer(struct passing *p, enum err err)
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

static void onward_message(void *owner, struct rpc_client_call *onward, struct str message)
{
    struct passing *p = owner;
    enum err err;

    if (!p->call) return;
    if (p->gate->passed) p->gate->passed(p->gate->service, message);
    give_headers(p);
    err = rpc_send_bytes(p->call, message);
    if (err == ERR_FULL) {
        err = buf_append(&p->answer, message);
        p->answer_waits = !err;
        if (!err) rpc_call_pause(onward);
    }
    if (err) fail_answer(p, err);
}

static void give_waiting_answer(struct passing *p)
{
    enum err err;

    if (!p->answer_waits || !p->onward) return;
    err = rpc_send_bytes(p->call, buf_peek(&p->answer));
    if (err == ERR_FULL) return;
    p->answer_waits = false;
    buf_deinit(&p->answer);
    buf_init(&p->answer, MESSAGE_MAX);
    if (err)
        fail_answer(p, err);
    else
        rpc_call_resume(p->onward);
}

static void give_trailers(struct passing *p, const struct rpc_client_call *onward)
{
    const struct h2_header *trailers;
    size_t count = rpc_call_trailers(onward, &trailers);

    for (size_t i = 0; i < count; i++) {
        if (str_equal(trailers[i].name, STR("x-muster-trace"))) continue; /* our server says it */
        (void)rpc_add_trailer(p->call, trailers[i].name, trailers[i].value);
    }
}

/* No answer of the leader's, and certainly not applied. */
static void say_not_applied(struct passing *p, const struct rpc_outcome *outcome)
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

static void say_unknown(struct passing *p, const struct rpc_outcome *outcome)
{
    struct note note;

    if (p->gate->lost) {
        p->gate->lost(p->call, RPC_LOST_UNKNOWN);
        return;
    }
    if (p->broken) note_set(&note, "the request broke off: %s", err_text(p->broken));
    rpc_finish(p->call, GRPC_UNKNOWN, p->broken ? str_from(note.text) : outcome->text, STR_EMPTY);
}

static void onward_end(void *owner, struct rpc_client_call *onward,
                       const struct rpc_outcome *outcome)
{
    struct passing *p = owner;

    /* A forwarded call is repeated only after attempts that certainly were not applied, so what the
     * leader answered is about all of them. */
    assert(!outcome->doubted || outcome->err == ERR_UNKNOWN);
    if (p->call) {
        give_headers(p);
        give_trailers(p, onward);
        if (outcome->answered) {
            rpc_finish(p->call, outcome->status, outcome->text, outcome->details);
        } else if (outcome->err == ERR_UNKNOWN) {
            say_unknown(p, outcome);
        } else {
            say_not_applied(p, outcome);
        }
    }
    p->onward = NULL;
    p->forwarder->running--;
    if (--p->leader->running == 0 && p->leader->old) leader_close(p->leader);
    free_if_over(p);
}

/* -- from the caller to the leader -- */

/* A part of the request cannot be had or kept here. What went before it may have reached the
 * leader: only the client's call knows, so the answer waits for on_end. */
static void break_off(struct passing *p, enum err err)
{
    if (err == ERR_CLOSED) return; /* on_end is on its way already */
    p->broken = err;
    rpc_call_cancel(p->onward);
}

static void onward_writable(void *owner, struct rpc_client_call *onward)
{
    struct passing *p = owner;
    enum err err;

    if (!p->request_waits) return;
    err = rpc_call_send(onward, buf_peek(&p->request));
    if (err == ERR_FULL) return;
    p->request_waits = false;
    buf_deinit(&p->request);
    buf_init(&p->request, MESSAGE_MAX);
    if (err) break_off(p, err);
    if (p->call) rpc_resume(p->call);
}

static const struct rpc_call_events onward_events = {onward_message, onward_writable, onward_end};

static void pass_request(struct passing *p, const ProtobufCMessage *message, struct str bytes)
{
    struct buf *scratch = &p->forwarder->scratch;
    enum err err = ERR_OK;

    if (!p->onward) return;
    if (message) {
        buf_clear(scratch);
        err = message_write(message, scratch, NULL);
        if (err == ERR_FULL) err = ERR_TOO_LARGE; /* not the leader's: no event ends that */
        bytes = buf_peek(scratch);
    }
    if (!err) err = rpc_call_send(p->onward, bytes);
    if (err == ERR_FULL) {
        err = buf_append(&p->request, bytes);
        p->request_waits = !err;
        if (!err) rpc_pause(p->call);
    }
    if (scratch->cap > CALLER_MAX) buf_deinit(scratch), buf_init(scratch, MESSAGE_MAX);
    if (err) break_off(p, err);
}

static bool goes_along(struct str name)
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

static enum err start_onward(struct passing *p, const struct rpc_forward_gate *gate,
                             struct str caller)
{
    struct h2_header metadata[RPC_METADATA_MAX];
    struct rpc_call *call = p->call;
    struct str name, value;
    size_t count = 0, cursor = 0;
    char path[256];
    mono_time deadline = rpc_call_deadline(call);
    struct rpc_call_options options = {
        .path = path,
        .trace = rpc_call_trace(call),
        .request_id = STR_EMPTY,
        .response_max = gate->response_max,
        .metadata = metadata,
    };

    if (rpc_call_path(call).len >= sizeof path) return ERR_INVALID;
    memcpy(path, rpc_call_path(call).at, rpc_call_path(call).len);
    path[rpc_call_path(call).len] = '\0';
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
        if (!goes_along(name)) continue;
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
    struct passing *p = calloc(1, sizeof *p);
    struct buf caller;
    enum err err;

    if (!p) return ERR_NOMEM;
    p->forwarder = f;
    p->leader = f->leader;
    p->gate = gate;
    p->call = call;
    buf_init(&p->request, MESSAGE_MAX);
    buf_init(&p->answer, MESSAGE_MAX);
    buf_init(&caller, CALLER_MAX);
    err = rpc_forward_caller_text(rpc_call_identity(call), &caller);
    if (!err) err = map_put(&f->by_call, key_of(&p->call), p);
    if (!err) {
        err = start_onward(p, gate, buf_peek(&caller));
        if (err) map_remove(&f->by_call, key_of(&call));
    }
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

/* The data of a call that was answered at the gate: its handler has never heard of it. */
static char answered_here;

static bool is_answered_here(const struct rpc_call *call)
{
    return rpc_call_data(call) == &answered_here;
}

/* NULL: it was answered here. */
static struct passing *pass_on(struct rpc_forward_gate *gate, struct rpc_call *call)
{
    struct passing *p;
    struct str hops;
    enum err err;

    if (!gate->forwarder->leader || rpc_call_metadata(call, STR(RPC_HOPS_HEADER), &hops)) {
        rpc_call_set_data(call, &answered_here);
        if (gate->lost)
            gate->lost(call, RPC_LOST_NO_LEADER);
        else
            rpc_fail_not_leader(call, rpc_forwarder_leader(gate->forwarder));
        return NULL;
    }
    err = passing_new(gate, call, &p);
    if (!err) return p;
    rpc_call_set_data(call, &answered_here);
    (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
    if (gate->lost)
        gate->lost(call, err == ERR_FULL ? RPC_LOST_CROWDED : RPC_LOST_NOT_APPLIED);
    else
        rpc_fail(call, err, NULL);
    return NULL;
}

/* -- the gate: events of the server -- */

static bool begins_with_a_message(const struct rpc_forward_gate *gate)
{
    return gate->kind == RPC_UNARY || gate->kind == RPC_SERVER_STREAM;
}

static void on_start(void *service, struct rpc_call *call)
{
    struct rpc_forward_gate *gate = service;

    if (begins_with_a_message(gate)) return;
    if (!gate->stays(gate->service, call))
        (void)pass_on(gate, call);
    else if (gate->handler->on_start)
        gate->handler->on_start(gate->service, call);
}

static void on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    struct rpc_forward_gate *gate = service;
    struct passing *p = find(gate, call);

    if (is_answered_here(call)) return;
    if (begins_with_a_message(gate) && !gate->stays(gate->service, call) &&
        !(gate->keeps && gate->keeps(gate->service, message))) {
        p = pass_on(gate, call);
        if (!p) return;
        pass_request(p, message, bytes);
        if (p->onward) rpc_call_end(p->onward);
    } else if (p) {
        pass_request(p, message, bytes);
    } else {
        gate->handler->on_message(gate->service, call, message, bytes);
    }
}

static void on_half_closed(void *service, struct rpc_call *call)
{
    struct rpc_forward_gate *gate = service;
    struct passing *p = find(gate, call);

    if (p) {
        assert(!p->request_waits); /* a paused call is told nothing */
        if (p->onward) rpc_call_end(p->onward);
    } else if (gate->handler->on_half_closed && !is_answered_here(call)) {
        gate->handler->on_half_closed(gate->service, call);
    }
}

static void on_writable(void *service, struct rpc_call *call)
{
    struct rpc_forward_gate *gate = service;
    struct passing *p = find(gate, call);

    if (p)
        give_waiting_answer(p);
    else if (gate->handler->on_writable && !is_answered_here(call))
        gate->handler->on_writable(gate->service, call);
}

static void on_drain(void *service, struct rpc_call *call)
{
    struct rpc_forward_gate *gate = service;

    if (!find(gate, call) && gate->handler->on_drain && !is_answered_here(call))
        gate->handler->on_drain(gate->service, call);
}

static void on_done(void *service, struct rpc_call *call)
{
    struct rpc_forward_gate *gate = service;
    struct passing *p = map_remove(&gate->forwarder->by_call, key_of(&call));

    if (!p) {
        if (gate->handler->on_done && !is_answered_here(call))
            gate->handler->on_done(gate->service, call);
        return;
    }
    p->call = NULL;
    if (p->onward) rpc_call_cancel(p->onward); /* nobody waits for it any more */
    free_if_over(p);
}

const struct rpc_handler rpc_forward_handler = {
    .on_start = on_start,
    .on_message = on_message,
    .on_half_closed = on_half_closed,
    .on_writable = on_writable,
    .on_drain = on_drain,
    .on_done = on_done,
};
