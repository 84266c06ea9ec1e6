/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's calls to its coordinator: heartbeats, registration, assignments, acknowledgements.
 * Only encodes and decodes messages. A heartbeat without an answer in time is lost, and the next
 * one goes to another coordinator. Runs on the event loop's thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rpc/retry.h"
#include "wire/message.h"
#include "wire/pb/rollout_transport.pb-c.h"
#include "worker/host_internal.h"

#define MEMBERSHIP      "/muster.v1.Membership/"
#define CHECKPOINT_KIND "partition-checkpoint/"

enum {
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 1000, /* a longer pause might fence the worker */
    DIAL_TIMEOUT_MS = 2000,
    PING_AFTER_MS = 10000, /* silence on the spare connection before a ping */
    PING_TIMEOUT_MS = 5000,
    HOST_CALLS_CALL_TIMEOUT_MS = 5000,
    LEAVE_TIMEOUT_MS = 1000,
    WATCH_AGAIN_FIRST_MS = 500, /* not urgent: heartbeat answers have the same data */
    WATCH_AGAIN_MAX_MS = 4000,
    SILENCE_TIMEOUTS = 2, /* heartbeat timeouts until a silent connection is closed */
    ANSWER_ARENA_MAX = 64 << 20,
    REQUEST_MAX = 64 << 20,
    RESPONSE_MAX = 32 << 20,
    NUMBER_CAP = 24,
};

/* -- heartbeats -- */

static bool beat_text(const struct rpc_client_call *call, struct str name, struct str *ret_text)
{
    return rpc_call_trailer(call, name, ret_text) || rpc_call_header(call, name, ret_text);
}

/* False: the trailers have no such number. */
static bool beat_number(const struct rpc_client_call *call, struct str name, uint64_t *ret_number)
{
    struct str text;

    *ret_number = 0;
    return beat_text(call, name, &text) && !str_to_u64(text, ret_number);
}

static const void *answer_read(struct arena *arena, const ProtobufCMessageDescriptor *descriptor,
                               struct str bytes)
{
    ProtobufCMessage *message;

    arena_init(arena, ANSWER_ARENA_MAX);
    return message_read(descriptor, bytes, NULL, arena, &message, NULL) ? NULL : message;
}

static void beat_read_control(const Rollout__Transport__V1__ControlPush *push,
                              struct beat_answer *answer)
{
    if (push->event_case == ROLLOUT__TRANSPORT__V1__CONTROL_PUSH__EVENT_DRAIN) {
        answer->drain = true;
    } else if (push->event_case == ROLLOUT__TRANSPORT__V1__CONTROL_PUSH__EVENT_SNAPSHOT) {
        struct str kind = str_from(push->snapshot->snapshot_kind);
        uint64_t round;
        if (str_starts(kind, STR(CHECKPOINT_KIND)) &&
            !str_to_u64(str_tail(kind, sizeof CHECKPOINT_KIND - 1), &round))
            answer->checkpoint_round = round;
    }
}

static void beat_read_message(struct str bytes, struct beat_answer *answer)
{
    struct arena arena;
    const Rollout__Transport__V1__BeatResponse *response =
        answer_read(&arena, &rollout__transport__v1__beat_response__descriptor, bytes);

    if (response && response->pending_control) beat_read_control(response->pending_control, answer);
    arena_deinit(&arena);
}

static void beat_on_answer(void *owner, const struct rpc_client_call *call,
                           const struct rpc_outcome *outcome, struct str bytes)
{
    struct worker_host *h = owner;
    struct beat_answer answer = {
        .err = outcome->err, .status = outcome->status, .text = outcome->text};
    struct str directive;

    h->beating = false;
    if (h->closing) return;
    /* The coordinator may be busy, stopped or cut off, so the next heartbeat uses the spare
     * connection. */
    if (!outcome->answered && outcome->status == GRPC_DEADLINE_EXCEEDED)
        rpc_channel_answer_late(h->channel, SILENCE_TIMEOUTS * h->beat_timeout_ms);
    answer.has_epoch = beat_number(call, STR("x-coord-epoch"), &answer.coord_epoch);
    (void)beat_number(call, STR("x-worker-incarnation"), &answer.incarnation);
    (void)beat_number(call, STR("x-assignment-epoch"), &answer.assignment_epoch);
    (void)beat_number(call, STR("x-next-beat-ms"), &answer.next_beat_ms);
    (void)beat_number(call, STR("x-self-fence-ms"), &answer.fence_ms);
    answer.reset =
        beat_text(call, STR("x-directive"), &directive) && str_equal(directive, STR("reset"));
    answer.in_use = outcome->answered && outcome->status == GRPC_ALREADY_EXISTS;
    if (!outcome->err) beat_read_message(bytes, &answer);
    host_beat_answered(h, &answer);
}

bool beat_send(struct worker_host *h, enum life_phase phase, uint64_t timeout_ms, double load)
{
    boot_time now = host_now(h);
    uint64_t lease_ms = life_lease_ms(&h->life);
    uint64_t due_ms = clock_wall(h->options.io->clock).ms + lease_ms;
    struct pack beat = pack_begin(&h->request), due = pack_begin(&h->row);
    char load_text[NUMBER_CAP], incarnation[NUMBER_CAP], epoch[NUMBER_CAP];
    struct h2_header metadata[] = {
        {.name = STR("x-worker-instance"), .value = str_from(h->self.instance)},
        {.name = STR("x-assignment-epoch"), .value = STR_EMPTY},
        {.name = STR("x-worker-load"), .value = STR_EMPTY},
        {.name = STR("x-worker-incarnation"), .value = STR_EMPTY},
    };
    /* One attempt, because the next heartbeat is the retry. More attempts would increase the load
     * on busy coordinators. */
    struct rpc_call_options call = {.path = "/rollout.transport.v1.Heartbeat/Beat",
                                    .timeout_ms = timeout_ms,
                                    .attempts_max = 1,
                                    .idempotent = true,
                                    .untraced = true,
                                    .metadata = metadata,
                                    .metadata_count = h->self.incarnation ? 4 : 3};

    snprintf(load_text, sizeof load_text, "%.4f", load);
    snprintf(incarnation, sizeof incarnation, "%" PRIu64, h->self.incarnation);
    snprintf(epoch, sizeof epoch, "%" PRIu64, h->self.assignment_epoch);
    metadata[1].value = str_from(epoch);
    metadata[2].value = str_from(load_text);
    metadata[3].value = str_from(incarnation);
    pack_u64(&due, 1, due_ms / MS_PER_SECOND);
    pack_u64(&due, 2, due_ms % MS_PER_SECOND * NS_PER_MS);
    pack_text(&beat, 1, str_from(h->options.worker_id));
    pack_row(&beat, 2, &due);
    pack_u64(&beat, 3, phase);
    pack_text(&beat, 4, str_from(h->options.run_id));
    if (beat.err || rpc_unary(h->channel, &call, buf_peek(&h->request), beat_on_answer, h, NULL))
        return false;
    h->beating = true;
    h->beat_phase = phase;
    h->beat_sent = now;
    h->beat_lease_ms = lease_ms;
    h->beat_timeout_ms = timeout_ms;
    return true;
}

/* -- registration, and the calls whose answer is empty -- */

static void call_read_registration(struct worker_host *h, const struct rpc_outcome *outcome,
                                   struct str bytes)
{
    struct arena arena;
    const Muster__V1__RegisterResponse *response =
        answer_read(&arena, &muster__v1__register_response__descriptor, bytes);

    host_registered(h, outcome, outcome->err ? NULL : response);
    arena_deinit(&arena);
}

static void call_on_answer(void *owner, const struct rpc_client_call *,
                           const struct rpc_outcome *outcome, struct str bytes)
{
    struct call_slot *slot = owner;
    struct worker_host *h = slot->host;
    enum host_call which = (enum host_call)(slot - h->calls);

    slot->running = false;
    if (h->closing) return;
    if (which == CALL_REGISTER)
        call_read_registration(h, outcome, bytes);
    else
        host_answered(h, which, outcome->err);
}

bool call_send(struct worker_host *h, enum host_call which, const struct pack *request)
{
    static const char *const paths[HOST_CALLS] = {
        [CALL_REGISTER] = MEMBERSHIP "Register",
        [CALL_LEAVE] = MEMBERSHIP "Leave",
        [CALL_ACK_REVOKE] = MEMBERSHIP "AckRevoke",
        [CALL_ACK_CHECKPOINT] = MEMBERSHIP "AckCheckpoint",
    };
    struct rpc_call_options call = {.path = paths[which],
                                    .timeout_ms = which == CALL_LEAVE ? LEAVE_TIMEOUT_MS
                                                                      : HOST_CALLS_CALL_TIMEOUT_MS,
                                    .idempotent = true};
    struct call_slot *slot = &h->calls[which];

    if (slot->running || h->closing || request->err) return false;
    slot->host = h;
    slot->running =
        rpc_unary(h->channel, &call, buf_peek(request->into), call_on_answer, slot, NULL) == ERR_OK;
    return slot->running;
}

void call_register(struct worker_host *h, uint64_t interval_ms)
{
    struct pack request = pack_begin(&h->request);

    if (h->calls[CALL_REGISTER].running) return;
    pack_text(&request, 1, str_from(h->options.worker_id));
    pack_text(&request, 2, str_from(h->options.run_id));
    pack_text(&request, 3, str_from(h->self.instance));
    pack_u64(&request, 4, 2 * interval_ms);
    pack_u64(&request, 7, true); /* the worker fences itself */
    pack_u64(&request, 8, h->life.coord_epoch);
    if (call_send(h, CALL_REGISTER, &request)) h->register_interval_ms = interval_ms;
}

struct pack host_call_begin(struct worker_host *h, uint64_t incarnation)
{
    struct pack request = pack_begin(&h->request);

    pack_text(&request, 1, str_from(h->options.worker_id));
    pack_u64(&request, 2, incarnation);
    return request;
}

void call_pack_checkpoint(struct worker_host *h, struct pack *request, uint32_t field,
                          const struct tenure *row, const char *reference)
{
    struct pack packed = pack_begin(&h->row);

    pack_u64(&packed, 1, row->partition);
    pack_u64(&packed, 2, row->token);
    pack_text(&packed, 3, str_from(reference));
    pack_row(request, field, &packed);
}

bool call_leave(struct worker_host *h, uint64_t incarnation, const char *reason)
{
    struct pack request = host_call_begin(h, incarnation);

    pack_text(&request, 3, str_from(reason));
    return call_send(h, CALL_LEAVE, &request);
}

/* -- the stream of this worker's assignments -- */

static void watch_take(struct worker_host *h, const Muster__V1__AssignmentResponse *response)
{
    size_t count = response->n_granted + response->n_revoking;
    struct grant *grants = calloc(count + 1, sizeof *grants), *next = grants;

    if (!grants) return; /* heartbeat answers have the same assignment */
    for (size_t i = 0; i < response->n_granted; i++)
        *next++ = (struct grant){response->granted[i]->partition, response->granted[i]->grant_epoch,
                                 false};
    for (size_t i = 0; i < response->n_revoking; i++)
        *next++ = (struct grant){response->revoking[i]->partition,
                                 response->revoking[i]->grant_epoch, true};
    host_assigned(h, response, grants, count);
    free(grants);
}

static void watch_on_message(void *owner, struct rpc_client_call *call, struct str bytes)
{
    struct worker_host *h = owner;
    const Muster__V1__AssignmentResponse *response;
    struct arena arena;

    if (h->closing || call != h->watch) return; /* the message is from a closed stream */
    response = answer_read(&arena, &muster__v1__assignment_response__descriptor, bytes);
    if (response) {
        h->watch_failures = 0;
        watch_take(h, response);
    }
    arena_deinit(&arena);
}

static void watch_later(struct worker_host *h)
{
    struct backoff backoff = {WATCH_AGAIN_FIRST_MS, WATCH_AGAIN_MAX_MS};
    uint64_t bound = backoff_bound_ms(backoff, ++h->watch_failures);

    timer_start_in(&h->watch_again, bound + entropy_u64(h->options.io->entropy) % (bound / 2));
}

static void watch_on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *)
{
    struct worker_host *h = owner;

    if (call != h->watch) return; /* the stream was closed */
    h->watch = NULL;
    if (!h->closing && h->watch_wanted) watch_later(h);
}

static void watch_open(struct worker_host *h)
{
    static const struct rpc_call_events events = {.on_message = watch_on_message,
                                                  .on_end = watch_on_end};
    struct rpc_call_options call = {
        .path = MEMBERSHIP "WatchAssignment", .response_max = RESPONSE_MAX, .attempts_max = 1};
    struct pack request;
    enum err err;

    if (h->watch || h->closing || !h->watch_wanted) return;
    request = host_call_begin(h, h->self.incarnation);
    /* Field 3, known_epoch, is not set: the stream must begin with all grants, because grants may
     * change within an epoch. */
    pack_u64(&request, 4, h->life.coord_epoch);
    err = request.err;
    if (!err) err = rpc_call_start(h->channel, &call, &events, h, &h->watch);
    if (err) {
        watch_later(h);
        return;
    }
    err = rpc_call_send(h->watch, buf_peek(&h->request));
    rpc_call_end(h->watch);
    if (err) rpc_call_cancel(h->watch);
}

static void watch_on_again(struct timer *timer)
{
    watch_open(CONTAINER_OF(timer, struct worker_host, watch_again));
}

void watch_keep(struct worker_host *h)
{
    h->watch_wanted = true;
    if (!timer_running(&h->watch_again)) watch_open(h);
}

void watch_end(struct worker_host *h)
{
    struct rpc_client_call *watch = h->watch;

    h->watch_wanted = false;
    h->watch = NULL;
    timer_stop(&h->watch_again);
    if (watch) rpc_call_cancel(watch);
}

/* -- open and close -- */

enum err calls_open(struct worker_host *h, struct note *note)
{
    const struct worker_host_options *o = &h->options;
    struct rpc_channel_options channel = {.io = o->io,
                                          .addresses = o->coordinators,
                                          .tls = o->tls,
                                          .tls_name = o->tls_name,
                                          .warm_second = true,
                                          .backoff_first_ms = BACKOFF_FIRST_MS,
                                          .backoff_max_ms = BACKOFF_MAX_MS,
                                          .dial_timeout_ms = DIAL_TIMEOUT_MS,
                                          .ping_after_ms = PING_AFTER_MS,
                                          .ping_timeout_ms = PING_TIMEOUT_MS,
                                          .metrics = o->rpc_metrics};
    enum err err = timer_init(&h->watch_again, o->io->loop, watch_on_again);

    buf_init(&h->request, REQUEST_MAX);
    buf_init(&h->row, REQUEST_MAX);
    return err ? err : rpc_channel_open(&channel, &h->channel, note);
}
