/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, calls, and the queue of waiting calls. A sent call ends once, with its answer or
 * with its connection. Runs on the loop's thread. */
#include "provider/client.h"

#include <stdlib.h>
#include <string.h>

#include "model/wire/demand_wire.h"
#include "provider/client_internal.h"

enum {
    CONNECTIONS_MAX = 16,
    CALLS_MAX = 65536,
    TIMEOUT_MS = 30 * 1000,
    WAIT_MAX_MS = 30 * 1000,
    LIST_TIMEOUT_MS = 120 * 1000,
    /* A request may be sent again, so it is kept until its answer arrives. Larger requests are kept
     * only while their total is below kept_max. */
    KEPT_MAX = 2048,
    KEPT_LARGE_MAX = 16 << 20,
    REQUEST_MAX = 64 << 20,
    LANE_BYTES_MAX = 32 << 20, /* half of what a connection buffers for a slow reader */
    ACK_MAX = 4 << 20,
};

struct call {
    struct list link; /* in provider.waiting, or in no list */
    struct provider *provider;
    struct call_lane *lane; /* NULL while the call waits */
    enum provider_verb verb;
    uint64_t timeout_ms;
    uint32_t attempts;
    bool stamped; /* the caller chose the fencing token */
    bool refused; /* refused once, perhaps by a false fence */
    mono_time asked;
    mono_time sent;
    struct buf request; /* without sequence number; empty if not kept */
    size_t bytes;       /* bytes of the request; the connection may still hold a copy */
    size_t kept;        /* part of provider.kept that this call uses */
    provider_done_fn *done;
    void *context;
};

/* Field numbers of the token: proto/bigfleet/v1alpha1/provider.proto. */
static const struct verb {
    const char *path;
    uint32_t shard_id, epoch, sequence; /* 0: the request has no token */
} verbs[] = {
    [PROVIDER_CREATE] = {"/bigfleet.v1alpha1.CapacityProvider/Create", 3, 4, 5},
    [PROVIDER_CONFIGURE] = {"/bigfleet.v1alpha1.CapacityProvider/Configure", 4, 5, 6},
    [PROVIDER_DRAIN] = {"/bigfleet.v1alpha1.CapacityProvider/Drain", 3, 4, 5},
    [PROVIDER_DELETE] = {"/bigfleet.v1alpha1.CapacityProvider/Delete", 2, 3, 4},
    [PROVIDER_GET] = {"/bigfleet.v1alpha1.CapacityProvider/Get", 0, 0, 0},
};
enum {
    REQUEST_MACHINE = 1,
    CONFIGURE_CLUSTER = 2,
    CONFIGURE_BLOB = 3,
    CONFIGURE_METADATA = 7,
    DRAIN_GRACE = 2,
};

/* --- results of calls --- */

enum provider_end provider_judge(const struct rpc_outcome *outcome, bool mutates)
{
    if (!outcome->err) return PROVIDER_DONE;
    if (!outcome->answered) {
        if (outcome->err == ERR_UNKNOWN) return PROVIDER_UNKNOWN;
        /* An HTTP proxy refused the call and did not pass it on. */
        return outcome->attempts > 0 && outcome->status != GRPC_UNAVAILABLE &&
                       outcome->err != ERR_TIMEOUT && outcome->err != ERR_CANCELLED
                   ? PROVIDER_REFUSED
                   : PROVIDER_UNSENT;
    }
    if (outcome->status == GRPC_FAILED_PRECONDITION && mutates) return PROVIDER_FENCED;
    if (outcome->status == GRPC_NOT_FOUND) return PROVIDER_NOT_FOUND;
    if (outcome->status == GRPC_UNIMPLEMENTED) return PROVIDER_NOT_SUPPORTED;
    return outcome->err == ERR_UNKNOWN && outcome->status != GRPC_INTERNAL ? PROVIDER_UNKNOWN
                                                                           : PROVIDER_REFUSED;
}

/* The epoch is only in the text: wire.md 3.2 defines no structured detail for a fence. */
bool provider_fence_epoch(struct str text, int64_t *ret_epoch)
{
    static const char phrase[] = "is not newer than (";
    const size_t len = sizeof phrase - 1;

    for (size_t at = 0; at + len <= text.len; at++) {
        struct str rest = str_tail(text, at + len), number;

        if (memcmp(text.at + at, phrase, len) != 0) continue;
        return str_split(&rest, ',', &number) && !str_to_i64(number, ret_epoch);
    }
    return false;
}

void provider_doubt(struct rpc_channel *channel, mono_time sent, mono_time now, mono_time *alive)
{
    if (alive->ms >= sent.ms) return;
    *alive = now;
    rpc_channel_next_address(channel);
}

/* --- connections --- */

static void pump(struct provider *p);

static void on_change(void *owner)
{
    pump(owner);
}

static void client_on_turn(struct timer *timer)
{
    pump(CONTAINER_OF(timer, struct provider, turn));
}

static enum err channel_open(struct provider *p, struct rpc_channel **ret_channel,
                             struct note *note)
{
    const char *addresses[] = {p->options.address, NULL};
    const struct rpc_channel_options options = {
        .io = p->options.io,
        .addresses = addresses,
        .tls = p->options.tls,
        .tls_name = p->options.tls_name,
        .backoff_first_ms = p->options.backoff_first_ms,
        .backoff_max_ms = p->options.backoff_max_ms,
        .dial_timeout_ms = p->options.dial_timeout_ms,
        .calls_max = p->options.calls_max,
        .metrics = p->options.metrics,
        .on_change = on_change,
        .owner = p,
    };
    enum err err = rpc_channel_open(&options, ret_channel, note);

    if (!err) p->open++;
    return err;
}

static enum err lane_open(struct provider *p, struct note *note)
{
    struct call_lane *lane = &p->lanes[p->lane_count];
    enum err err;

    assert(p->lane_count < p->options.connections_max);
    *lane = (struct call_lane){0};
    err = channel_open(p, &lane->channel, note);
    if (!err) p->lane_count++;
    return err;
}

/* --- running a call --- */

static void call_waits(struct call *call)
{
    call->provider->waiting_count++;
    call->provider->waiting_bytes += call->bytes;
}

static void call_stops_waiting(struct call *call)
{
    struct provider *p = call->provider;

    assert(p->waiting_count > 0 && p->waiting_bytes >= call->bytes);
    list_remove(&call->link);
    p->waiting_count--;
    p->waiting_bytes -= call->bytes;
}

static void call_free(struct call *call)
{
    buf_deinit(&call->request);
    free(call);
}

static void call_end(struct call *call, const struct provider_answer *answer)
{
    struct provider_answer ended = *answer;

    /* A copy of the refused attempt may have been applied. */
    if (call->refused && ended.end != PROVIDER_DONE && ended.end != PROVIDER_FENCED)
        ended.end = PROVIDER_UNKNOWN;
    call->done(call->context, &ended);
    call_free(call);
}

static void call_end_unsent(struct call *call, const char *why)
{
    call_end(call, &(struct provider_answer){
                       .end = PROVIDER_UNSENT, .status = GRPC_UNAVAILABLE, .text = str_from(why)});
}

static void call_again(struct call *call)
{
    list_prepend(&call->provider->waiting, &call->link);
    call_waits(call);
    timer_start_in(&call->provider->turn, 0);
}

/* True if the fence may be false: a proxy that sends a call twice gets the second copy refused. */
static bool is_doubtful(const struct call *call, const struct provider_answer *answer)
{
    int64_t epoch;

    if (answer->end != PROVIDER_FENCED || call->stamped || call->refused) return false;
    return !provider_fence_epoch(answer->text, &epoch) || epoch <= call->provider->options.epoch;
}

static void on_answer(void *owner, const struct rpc_client_call *,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct call *call = owner;
    struct provider *p = call->provider;
    struct provider_answer answer = {.end = provider_judge(outcome, call->verb != PROVIDER_GET),
                                     .status = outcome->status,
                                     .text = outcome->text,
                                     .bytes = message};

    if (outcome->answered)
        call->lane->alive = loop_now(p->options.io->loop);
    else if (outcome->status == GRPC_DEADLINE_EXCEEDED && !p->closing)
        provider_doubt(call->lane->channel, call->sent, loop_now(p->options.io->loop),
                       &call->lane->alive);
    call->lane->running--;
    call->lane->bytes -= call->bytes;
    p->running--;
    p->kept -= call->kept;
    call->kept = 0;
    call->lane = NULL;
    if (answer.end == PROVIDER_UNSENT && outcome->attempts > 0 && call->request.len > 0 &&
        call->attempts < PROVIDER_ATTEMPTS_MAX && !p->closing) {
        call_again(call);
        return;
    }
    if (is_doubtful(call, &answer)) {
        if (call->request.len > 0 && !p->closing && !p->held) {
            call->refused = true;
            call_again(call);
            return;
        }
        /* the request was not kept; the caller must use Get */
        answer.end = PROVIDER_UNKNOWN;
    }
    call_end(call, &answer);
}

static enum err call_send(struct call *call, struct call_lane *lane)
{
    const struct rpc_call_options options = {
        .path = verbs[call->verb].path,
        .timeout_ms = call->timeout_ms,
        .idempotent = call->verb == PROVIDER_GET,
        .untraced = true,
        .response_max = ACK_MAX,
        /* a new attempt needs a new sequence number */
        .attempts_max = call->verb == PROVIDER_GET ? PROVIDER_ATTEMPTS_MAX : 1,
    };
    size_t unstamped = call->request.len;
    struct pack pack = {&call->request, ERR_OK};
    enum err err;

    if (verbs[call->verb].sequence && !call->stamped) {
        pack_i64(&pack, verbs[call->verb].sequence, call->provider->sequence + 1);
        if (!pack.err) call->provider->sequence++;
    }
    err = pack.err;
    if (!err)
        err = rpc_unary(lane->channel, &options, buf_peek(&call->request), on_answer, call, NULL);
    call->request.len = unstamped;
    if (err) return err;
    call->attempts++;
    call->sent = loop_now(call->provider->options.io->loop);
    call->lane = lane;
    lane->running++;
    lane->bytes += call->bytes;
    call->provider->running++;
    if (call->request.cap <= KEPT_MAX) return ERR_OK;
    if (call->request.cap > call->provider->options.kept_max - call->provider->kept) {
        buf_deinit(&call->request);
        return ERR_OK;
    }
    call->kept = call->request.cap;
    call->provider->kept += call->kept;
    return ERR_OK;
}

/* --- the waiting queue --- */

/* Chooses the connection (lane) for the next call: if possible the last call's lane, so that few
 * lanes are used. NULL: no lane is free, and on_change is called later. */
static struct call_lane *choose(struct provider *p)
{
    uint32_t ready = 0;

    for (uint32_t i = 0; i < p->lane_count; i++) {
        uint32_t at = (p->lane_next + i) % p->lane_count;
        struct call_lane *lane = &p->lanes[at];
        size_t room = min_size(rpc_channel_room(lane->channel), PROVIDER_CALLS_PER_CONNECTION);

        ready += rpc_channel_ready(lane->channel);
        if (lane->running >= room || lane->bytes >= LANE_BYTES_MAX) continue;
        p->lane_next = at;
        return lane;
    }
    /* Without any connection, the call fails on the first lane, which gives the reason. */
    if (ready == 0 && rpc_channel_failing(p->lanes[0].channel)) return &p->lanes[0];
    if (ready == p->lane_count && ready < p->options.connections_max) (void)lane_open(p, NULL);
    return NULL;
}

/* The reason why a waiting call must end unsent; NULL: it continues to wait. */
static const char *call_given_up(const struct call *call)
{
    const struct provider *p = call->provider;

    if (p->held && call->verb != PROVIDER_GET) return p->held;
    return mono_due(mono_after(call->asked, WAIT_MAX_MS), loop_now(p->options.io->loop))
               ? "waited too long for its turn"
               : NULL;
}

static void end_given_up(struct provider *p)
{
    LIST_EACH_SAFE(&p->waiting, node, next)
    {
        struct call *call = CONTAINER_OF(node, struct call, link);
        const char *why = call_given_up(call);

        if (!why && !p->held) return; /* all following calls have waited for less time */
        if (!why) continue;
        call_stops_waiting(call);
        call_end_unsent(call, why);
    }
}

static void pump(struct provider *p)
{
    struct call_lane *lane;

    if (p->closing) return;
    end_given_up(p);
    while (!p->closing && !list_empty(&p->waiting) && (lane = choose(p)) != NULL) {
        struct call *call = CONTAINER_OF(p->waiting.next, struct call, link);
        enum err err = call_send(call, lane);
        if (err == ERR_FULL) break; /* no timer is free; a call that ends frees one */
        call_stops_waiting(call);
        if (err) call_end_unsent(call, "out of memory");
    }
    if (!list_empty(&p->waiting) && !timer_running(&p->turn)) timer_start_in(&p->turn, WAIT_MAX_MS);
}

static enum err put_request(const struct provider *p, const struct provider_request *request,
                            struct buf *into)
{
    const struct verb *verb = &verbs[request->verb];
    struct pack pack = {into, ERR_OK};
    struct buf scratch;

    buf_init(&scratch, REQUEST_MAX);
    pack_text(&pack, REQUEST_MACHINE, request->machine);
    if (request->verb == PROVIDER_CONFIGURE) {
        pack_text(&pack, CONFIGURE_CLUSTER, request->cluster);
        pack_text(&pack, CONFIGURE_BLOB, request->blob);
        for (size_t i = 0; i < request->metadata_count; i++)
            pack_pair(&pack, CONFIGURE_METADATA, request->metadata[i].key,
                      request->metadata[i].value, &scratch);
    }
    if (request->verb == PROVIDER_DRAIN) pack_u64(&pack, DRAIN_GRACE, request->grace_seconds);
    if (verb->shard_id && request->token) {
        pack_text(&pack, verb->shard_id, request->token->shard);
        pack_i64(&pack, verb->epoch, request->token->epoch);
        pack_i64(&pack, verb->sequence, request->token->sequence);
    } else if (verb->shard_id) {
        pack_text(&pack, verb->shard_id, str_from(p->options.shard_id));
        pack_i64(&pack, verb->epoch, p->options.epoch);
    }
    buf_deinit(&scratch);
    return pack.err;
}

enum err provider_call(struct provider *p, const struct provider_request *request,
                       provider_done_fn *done, void *context)
{
    struct call *call;
    enum err err;

    if (request->machine.len == 0 && !request->token) return ERR_INVALID;
    if (p->closing) return ERR_CLOSED;
    if (p->waiting_count + p->running >= p->options.calls_max) return ERR_FULL;
    call = calloc(1, sizeof *call);
    if (!call) return ERR_NOMEM;
    call->provider = p;
    call->verb = request->verb;
    call->stamped = request->token != NULL;
    call->timeout_ms = request->timeout_ms ? request->timeout_ms : p->options.timeout_ms;
    call->done = done;
    call->context = context;
    call->asked = loop_now(p->options.io->loop);
    list_init(&call->link);
    buf_init(&call->request, REQUEST_MAX);
    err = put_request(p, request, &call->request);
    if (err) {
        call_free(call);
        return err;
    }
    call->bytes = call->request.len;
    list_append(&p->waiting, &call->link);
    call_waits(call);
    timer_start_in(&p->turn, 0); /* a timer, because pump() may end calls */
    return ERR_OK;
}

void provider_stop_mutating(struct provider *p, const char *why)
{
    if (p->held || p->closing) return;
    p->held = why;
    timer_start_in(&p->turn, 0);
}

/* --- open and close --- */

static void provider_free(struct provider *p)
{
    timer_deinit(&p->turn);
    tls_context_unref(p->options.tls);
    free(p);
}

static void on_channel_closed(void *owner)
{
    struct provider *p = owner;
    void (*done)(void *) = p->done;
    void *done_owner = p->owner;
    struct list *node;

    assert(p->open > 0);
    if (--p->open > 0) return;
    while ((node = list_pop(&p->waiting)) != NULL)
        call_end_unsent(CONTAINER_OF(node, struct call, link), "the shard is closing");
    provider_free(p);
    if (done) done(done_owner);
}

void provider_close(struct provider *p, void (*done)(void *owner), void *owner)
{
    assert(!p->closing);
    p->closing = true;
    p->done = done;
    p->owner = owner;
    for (uint32_t i = 0; i < p->lane_count; i++)
        rpc_channel_close(p->lanes[i].channel, on_channel_closed, p);
    rpc_channel_close(p->bulk, on_channel_closed, p);
}

static enum err check_options(const struct provider_options *o, struct note *note)
{
    const char *wrong = NULL;

    if (!o->address || !o->address[0]) wrong = "provider address: empty";
    if (!wrong && (!o->shard_id || !o->shard_id[0])) wrong = "shard id: empty";
    if (!wrong && o->epoch <= 0) wrong = "epoch: missing";
    if (!wrong && o->connections_max > LANES_MAX) wrong = "too many connections to the provider";
    if (!wrong) return ERR_OK;
    return note_fail(note, ERR_INVALID, "%s", wrong);
}

static void settle_options(struct provider *p, const struct provider_options *given)
{
    struct provider_options *o = &p->options;

    *o = *given;
    if (!o->connections_max) o->connections_max = CONNECTIONS_MAX;
    if (!o->calls_max) o->calls_max = CALLS_MAX;
    if (!o->timeout_ms) o->timeout_ms = TIMEOUT_MS;
    if (!o->list_timeout_ms) o->list_timeout_ms = LIST_TIMEOUT_MS;
    if (!o->list_max) o->list_max = INT32_MAX;
    if (!o->kept_max) o->kept_max = KEPT_LARGE_MAX;
    if (o->tls) tls_context_ref(o->tls);
}

enum err provider_open(const struct provider_options *options, struct provider **ret_provider,
                       struct note *note)
{
    enum err err = check_options(options, note);
    struct provider *p;

    if (err) return err;
    p = calloc(1, sizeof *p);
    if (!p) return ERR_NOMEM;
    settle_options(p, options);
    list_init(&p->waiting);
    err = timer_init(&p->turn, p->options.io->loop, client_on_turn);
    if (!err) err = channel_open(p, &p->bulk, note);
    if (err) {
        provider_free(p);
        return err;
    }
    err = lane_open(p, note);
    if (err) { /* the loop frees `p` when the channel is closed */
        p->closing = true;
        rpc_channel_close(p->bulk, on_channel_closed, p);
        return err;
    }
    *ret_provider = p;
    return ERR_OK;
}

struct provider_stats provider_stats(const struct provider *p)
{
    return (struct provider_stats){.running = p->running,
                                   .waiting = p->waiting_count,
                                   .waiting_bytes = p->waiting_bytes,
                                   .connections = p->lane_count,
                                   .sequence = p->sequence};
}
