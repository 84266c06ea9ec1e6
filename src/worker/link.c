/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/link.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rpc/retry.h"
#include "wire/message.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_member.pb-c.h"
#include "wire/pb/rollout_transport.pb-c.h"

#define BEAT_PATH       "/rollout.transport.v1.Heartbeat/Beat"
#define REGISTER_PATH   "/muster.v1.Membership/Register"
#define LEAVE_PATH      "/muster.v1.Membership/Leave"
#define WATCH_PATH      "/muster.v1.Membership/WatchAssignment"
#define ACK_REVOKE_PATH "/muster.v1.Membership/AckRevoke"
#define ACK_CKPT_PATH   "/muster.v1.Membership/AckCheckpoint"
#define CHECKPOINT_KIND "partition-checkpoint/"

enum {
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 1000, /* a worker that waits longer fences itself for nothing */
    DIAL_TIMEOUT_MS = 2000,
    PING_AFTER_MS = 10000, /* of silence on the spare; the other has beats */
    PING_TIMEOUT_MS = 5000,
    CALL_TIMEOUT_MS = 5000,
    LEAVE_TIMEOUT_MS = 1000,
    WATCH_AGAIN_FIRST_MS = 500, /* the stream only tells sooner what the next beats tell too */
    WATCH_AGAIN_MAX_MS = 4000,
    SILENCE_TIMEOUTS = 2, /* of a beat, until a connection that says nothing is given up */
    ANSWER_ARENA_MAX = 64 << 20,
    REQUEST_MAX = 64 << 20,
    RESPONSE_MAX = 32 << 20,
    NUMBER_CAP = 24,
};

struct link_slot { /* one call of each kind at a time */
    struct link *link;
    bool running;
};
struct link {
    struct io *io;
    struct worker_host *host;
    char worker_id[LINK_ID_CAP], run_id[LINK_ID_CAP];
    struct rpc_channel *channel;
    struct buf request;
    /* -- the beat that is under way -- */
    bool beating;
    boot_time beat_sent;
    uint64_t beat_lease_ms, beat_timeout_ms;
    bool registering;
    uint64_t register_lease_ms;
    struct link_slot slots[LINK_CALLS];
    /* -- the stream -- */
    struct rpc_client_call *watch;
    struct link_self watch_self;
    struct timer watch_again;
    uint32_t watch_failures;
    bool watch_wanted;
    bool closing;
    void (*done)(void *owner);
    void *done_owner;
};

static void set_free(void *owner)
{
    struct link *link = owner;
    void (*done)(void *) = link->done;
    void *done_owner = link->done_owner;

    timer_deinit(&link->watch_again);
    buf_deinit(&link->request);
    free(link);
    if (done) done(done_owner);
}

/* Puts the message together and sends it. */
static enum err ask(struct link *link, struct rpc_call_options *call,
                    const ProtobufCMessage *message, rpc_unary_fn *done)
{
    enum err err;

    if (link->closing) return ERR_CLOSED;
    buf_clear(&link->request);
    err = message_write(message, &link->request, NULL);
    if (err) return err;
    return rpc_unary(link->channel, call, buf_peek(&link->request), done, link, NULL);
}

/* -- beats -- */

static uint64_t trailer_number(const struct rpc_client_call *call, struct str name, bool *ret_there)
{
    struct str text;
    uint64_t number = 0;

    *ret_there = (rpc_call_trailer(call, name, &text) || rpc_call_header(call, name, &text)) &&
                 !str_to_u64(text, &number);
    return *ret_there ? number : 0;
}

static void take_control(const Rollout__Transport__V1__ControlPush *push,
                         struct link_beat_answer *answer)
{
    if (push->event_case == ROLLOUT__TRANSPORT__V1__CONTROL_PUSH__EVENT_DRAIN) {
        const Google__Protobuf__Duration *deadline = push->drain->deadline;
        answer->drain = true;
        if (deadline && deadline->seconds > 0)
            answer->drain_deadline_ms = (uint64_t)deadline->seconds * MS_PER_SECOND;
    } else if (push->event_case == ROLLOUT__TRANSPORT__V1__CONTROL_PUSH__EVENT_SNAPSHOT) {
        struct str kind = str_from(push->snapshot->snapshot_kind);
        uint64_t round;
        if (str_starts(kind, STR(CHECKPOINT_KIND)) &&
            !str_to_u64(str_tail(kind, sizeof CHECKPOINT_KIND - 1), &round))
            answer->checkpoint_round = round;
    }
}

static void take_beat_message(struct str bytes, struct link_beat_answer *answer)
{
    const Rollout__Transport__V1__BeatResponse *response;
    ProtobufCMessage *message;
    struct arena arena;

    arena_init(&arena, ANSWER_ARENA_MAX);
    if (!message_read(&rollout__transport__v1__beat_response__descriptor, bytes, NULL, &arena,
                      &message, NULL)) {
        response = (const Rollout__Transport__V1__BeatResponse *)message;
        if (response->pending_control) take_control(response->pending_control, answer);
    }
    arena_deinit(&arena);
}

static void on_beat_answer(void *owner, const struct rpc_client_call *call,
                           const struct rpc_outcome *outcome, struct str bytes)
{
    struct link *link = owner;
    struct link_beat_answer answer = {
        .err = outcome->err, .status = outcome->status, .text = outcome->text};
    struct str directive;
    bool there;

    link->beating = false;
    if (link->closing) return;
    /* One that says nothing may be busy, stopped or cut off: the next beat asks the warm one. (A
     * connection that broke is replaced by the channel itself.) */
    if (!outcome->answered && outcome->status == GRPC_DEADLINE_EXCEEDED)
        rpc_channel_answer_late(link->channel, SILENCE_TIMEOUTS * link->beat_timeout_ms);
    answer.coord_epoch = trailer_number(call, STR("x-coord-epoch"), &answer.has_epoch);
    answer.incarnation = trailer_number(call, STR("x-worker-incarnation"), &there);
    answer.assignment_epoch = trailer_number(call, STR("x-assignment-epoch"), &there);
    answer.next_beat_ms = trailer_number(call, STR("x-next-beat-ms"), &there);
    answer.fence_ms = trailer_number(call, STR("x-self-fence-ms"), &there);
    answer.reset = (rpc_call_trailer(call, STR("x-directive"), &directive) ||
                    rpc_call_header(call, STR("x-directive"), &directive)) &&
                   str_equal(directive, STR("reset"));
    answer.in_use = outcome->answered && outcome->status == GRPC_ALREADY_EXISTS;
    if (!outcome->err) take_beat_message(bytes, &answer);
    host_beat_answered(link->host, link->beat_sent, link->beat_lease_ms, &answer);
}

bool link_beat(struct link *link, const struct link_self *self, enum life_phase phase,
               boot_time now, uint64_t lease_ms, uint64_t timeout_ms, double load)
{
    uint64_t due_ms = clock_wall(link->io->clock).ms + lease_ms;
    Google__Protobuf__Timestamp due = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    Rollout__Transport__V1__BeatRequest beat = ROLLOUT__TRANSPORT__V1__BEAT_REQUEST__INIT;
    char load_text[NUMBER_CAP], incarnation[NUMBER_CAP], epoch[NUMBER_CAP];
    struct h2_header metadata[] = {
        {.name = STR("x-worker-instance"), .value = str_from(self->instance)},
        {.name = STR("x-assignment-epoch"), .value = STR_EMPTY},
        {.name = STR("x-worker-load"), .value = STR_EMPTY},
        {.name = STR("x-worker-incarnation"), .value = STR_EMPTY},
    };
    /* One attempt: the next beat is the repeat. More would multiply the load of a fleet in the very
     * moment in which its coordinators are too busy to answer. */
    struct rpc_call_options call = {.path = BEAT_PATH,
                                    .timeout_ms = timeout_ms,
                                    .attempts_max = 1,
                                    .idempotent = true,
                                    .untraced = true,
                                    .metadata = metadata,
                                    .metadata_count = self->incarnation ? 4 : 3};

    if (link->beating) return false;
    snprintf(load_text, sizeof load_text, "%.4f", load);
    snprintf(incarnation, sizeof incarnation, "%" PRIu64, self->incarnation);
    snprintf(epoch, sizeof epoch, "%" PRIu64, self->assignment_epoch);
    metadata[1].value = str_from(epoch);
    metadata[2].value = str_from(load_text);
    metadata[3].value = str_from(incarnation);
    due.seconds = (int64_t)(due_ms / MS_PER_SECOND);
    due.nanos = (int32_t)(due_ms % MS_PER_SECOND * NS_PER_MS);
    beat.worker_id = link->worker_id;
    beat.run_id = link->run_id;
    beat.due_at = &due;
    beat.state = (Rollout__Transport__V1__WorkerState)phase;
    if (ask(link, &call, &beat.base, on_beat_answer)) return false;
    link->beating = true;
    link->beat_sent = now;
    link->beat_lease_ms = lease_ms;
    link->beat_timeout_ms = timeout_ms;
    return true;
}

bool link_beating(const struct link *link)
{
    return link->beating;
}

/* -- registration -- */

static void on_register_answer(void *owner, const struct rpc_client_call *,
                               const struct rpc_outcome *outcome, struct str bytes)
{
    struct link *link = owner;
    struct link_registration answer = {
        .err = outcome->err, .status = outcome->status, .text = outcome->text};
    ProtobufCMessage *message;
    struct arena arena;

    link->registering = false;
    if (link->closing) return;
    arena_init(&arena, ANSWER_ARENA_MAX);
    if (!answer.err)
        answer.err = message_read(&muster__v1__register_response__descriptor, bytes, NULL, &arena,
                                  &message, NULL);
    if (!answer.err) {
        const Muster__V1__RegisterResponse *response =
            (const Muster__V1__RegisterResponse *)message;
        answer.incarnation = response->incarnation;
        answer.assignment_epoch = response->assignment_epoch;
        answer.coord_epoch = response->coord_epoch;
        answer.terms = (struct life_terms){.fence_ms = response->self_fence_timeout_ms,
                                           .failure_ms = response->failure_timeout_ms,
                                           .interval_ms = response->base_interval_ms};
    }
    arena_deinit(&arena);
    host_registered(link->host, link->register_lease_ms, &answer);
}

bool link_register(struct link *link, const struct link_self *self, uint64_t lease_ms)
{
    Muster__V1__RegisterRequest request = MUSTER__V1__REGISTER_REQUEST__INIT;
    struct link_self copy = *self;
    struct rpc_call_options call = {
        .path = REGISTER_PATH, .timeout_ms = CALL_TIMEOUT_MS, .idempotent = true};

    if (link->registering) return false;
    request.worker_id = link->worker_id;
    request.run_id = link->run_id;
    request.instance = copy.instance;
    request.lease_ms = lease_ms;
    request.fences_itself = 1;
    request.coord_epoch = self->coord_epoch;
    if (ask(link, &call, &request.base, on_register_answer)) return false;
    link->registering = true;
    link->register_lease_ms = lease_ms;
    return true;
}

/* -- assignments -- */

static void hand_over(struct link *link, const Muster__V1__AssignmentResponse *response,
                      struct grant *grants)
{
    struct link_assignment assignment = {.assignment_epoch = response->assignment_epoch,
                                         .coord_epoch = response->coord_epoch,
                                         .incarnation = response->incarnation,
                                         .checkpoint_round = response->checkpoint_round,
                                         .reset = response->reset,
                                         .grants = grants,
                                         .grant_count = response->n_granted + response->n_revoking};

    for (size_t i = 0; i < response->n_granted; i++, grants++)
        *grants = (struct grant){response->granted[i]->partition, response->granted[i]->grant_epoch,
                                 false};
    for (size_t i = 0; i < response->n_revoking; i++, grants++)
        *grants = (struct grant){response->revoking[i]->partition,
                                 response->revoking[i]->grant_epoch, true};
    host_assigned(link->host, &assignment);
}

static void on_watch_message(void *owner, struct rpc_client_call *call, struct str bytes)
{
    struct link *link = owner;
    const Muster__V1__AssignmentResponse *response;
    ProtobufCMessage *message;
    struct arena arena;
    struct grant *grants = NULL;

    if (link->closing || call != link->watch) return; /* of one that was given up */
    arena_init(&arena, ANSWER_ARENA_MAX);
    if (!message_read(&muster__v1__assignment_response__descriptor, bytes, NULL, &arena, &message,
                      NULL)) {
        response = (const Muster__V1__AssignmentResponse *)message;
        grants = calloc(response->n_granted + response->n_revoking + 1, sizeof *grants);
        link->watch_failures = 0;
        if (grants) hand_over(link, response, grants);
    }
    free(grants);
    arena_deinit(&arena);
}

static void watch_later(struct link *link)
{
    struct backoff backoff = {WATCH_AGAIN_FIRST_MS, WATCH_AGAIN_MAX_MS};

    uint64_t bound;

    link->watch_failures++;
    bound = backoff_bound_ms(backoff, link->watch_failures);
    timer_start_in(&link->watch_again, bound + entropy_u64(link->io->entropy) % (bound / 2));
}

static void on_watch_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *)
{
    struct link *link = owner;

    if (call != link->watch) return; /* one that was given up */
    link->watch = NULL;
    if (!link->closing && link->watch_wanted) watch_later(link);
}

static void open_watch(struct link *link)
{
    static const struct rpc_call_events events = {.on_message = on_watch_message,
                                                  .on_end = on_watch_end};
    struct rpc_call_options call = {
        .path = WATCH_PATH, .response_max = RESPONSE_MAX, .attempts_max = 1};
    Muster__V1__AssignmentRequest request = MUSTER__V1__ASSIGNMENT_REQUEST__INIT;
    enum err err;

    if (link->watch || link->closing || !link->watch_wanted) return;
    request.worker_id = link->worker_id;
    request.incarnation = link->watch_self.incarnation;
    request.known_epoch = 0; /* grants may change within one epoch: begin with all of them */
    request.coord_epoch = link->watch_self.coord_epoch;
    buf_clear(&link->request);
    err = message_write(&request.base, &link->request, NULL);
    if (!err) err = rpc_call_start(link->channel, &call, &events, link, &link->watch);
    if (!err) {
        err = rpc_call_send(link->watch, buf_peek(&link->request));
        rpc_call_end(link->watch);
        if (err) rpc_call_cancel(link->watch);
    } else {
        watch_later(link);
    }
}

static void on_watch_again(struct timer *timer)
{
    open_watch(CONTAINER_OF(timer, struct link, watch_again));
}

void link_watch(struct link *link, const struct link_self *self)
{
    link->watch_self = *self;
    link->watch_wanted = true;
    if (!timer_running(&link->watch_again)) open_watch(link);
}

void link_unwatch(struct link *link)
{
    struct rpc_client_call *watch = link->watch;

    link->watch_wanted = false;
    link->watch = NULL;
    timer_stop(&link->watch_again);
    if (watch) rpc_call_cancel(watch);
}

/* -- calls whose answer says only that they were taken -- */

static void on_answer(void *owner, const struct rpc_client_call *,
                      const struct rpc_outcome *outcome, struct str)
{
    struct link_slot *slot = owner;
    struct link *link = slot->link;

    slot->running = false;
    if (link->closing) return;
    host_answered(link->host, (enum link_call)(slot - link->slots), outcome->err);
}

static bool link_send(struct link *link, enum link_call which, const struct pack *request)
{
    static const struct rpc_call_options calls[LINK_CALLS] = {
        [LINK_LEAVE] = {.path = LEAVE_PATH, .timeout_ms = LEAVE_TIMEOUT_MS, .idempotent = true},
        [LINK_ACK_REVOKE] = {.path = ACK_REVOKE_PATH,
                             .timeout_ms = CALL_TIMEOUT_MS,
                             .idempotent = true},
        [LINK_ACK_CHECKPOINT] = {.path = ACK_CKPT_PATH,
                                 .timeout_ms = CALL_TIMEOUT_MS,
                                 .idempotent = true},
    };
    struct link_slot *slot = &link->slots[which];

    if (slot->running || link->closing || request->err) return false;
    slot->link = link;
    slot->running = rpc_unary(link->channel, &calls[which], buf_peek(request->into), on_answer,
                              slot, NULL) == ERR_OK;
    return slot->running;
}

/* The fields that all three begin with. */
static struct pack request_begin(struct link *link, const struct link_self *self)
{
    struct pack request = pack_begin(&link->request);

    pack_text(&request, 1, str_from(link->worker_id));
    pack_u64(&request, 2, self->incarnation);
    return request;
}

/* As RevokedPartition and as CheckpointedPartition. */
static void pack_checkpoints(struct pack *request, uint32_t field,
                             const struct link_checkpoint *list, size_t count)
{
    struct buf scratch;

    buf_init(&scratch, REQUEST_MAX);
    for (size_t i = 0; i < count; i++) {
        struct pack row = pack_begin(&scratch);
        pack_u64(&row, 1, list[i].partition);
        pack_u64(&row, 2, list[i].token);
        pack_text(&row, 3, str_from(list[i].reference));
        pack_row(request, field, &row);
    }
    buf_deinit(&scratch);
}

bool link_leave(struct link *link, const struct link_self *self, const char *reason)
{
    struct pack request = request_begin(link, self);

    pack_text(&request, 3, str_from(reason));
    return link_send(link, LINK_LEAVE, &request);
}

bool link_ack_revoke(struct link *link, const struct link_self *self,
                     const struct link_checkpoint *list, size_t count)
{
    struct pack request = request_begin(link, self);

    pack_checkpoints(&request, 3, list, count);
    pack_u64(&request, 4, self->coord_epoch);
    return link_send(link, LINK_ACK_REVOKE, &request);
}

bool link_ack_checkpoint(struct link *link, const struct link_self *self, uint64_t round,
                         const struct link_checkpoint *list, size_t count, const char *error)
{
    struct pack request = request_begin(link, self);

    pack_u64(&request, 3, round);
    pack_checkpoints(&request, 4, list, count);
    pack_text(&request, 5, str_from(error));
    pack_u64(&request, 6, self->coord_epoch);
    return link_send(link, LINK_ACK_CHECKPOINT, &request);
}

/* -- life -- */

enum err link_open(const struct link_options *options, struct link **ret_link, struct note *note)
{
    struct link *link = calloc(1, sizeof *link);
    struct rpc_channel_options channel = {.io = options->io,
                                          .addresses = options->addresses,
                                          .tls = options->tls,
                                          .tls_name = options->tls_name,
                                          .warm_second = true,
                                          .backoff_first_ms = BACKOFF_FIRST_MS,
                                          .backoff_max_ms = BACKOFF_MAX_MS,
                                          .dial_timeout_ms = DIAL_TIMEOUT_MS,
                                          .ping_after_ms = PING_AFTER_MS,
                                          .ping_timeout_ms = PING_TIMEOUT_MS,
                                          .metrics = options->metrics};
    enum err err;

    if (!link) return ERR_NOMEM;
    link->io = options->io;
    link->host = options->host;
    snprintf(link->worker_id, sizeof link->worker_id, "%s", options->worker_id);
    snprintf(link->run_id, sizeof link->run_id, "%s", options->run_id);
    buf_init(&link->request, REQUEST_MAX);
    err = timer_init(&link->watch_again, options->io->loop, on_watch_again);
    if (!err) err = rpc_channel_open(&channel, &link->channel, note);
    if (err) {
        set_free(link);
        return err;
    }
    *ret_link = link;
    return ERR_OK;
}

void link_close(struct link *link, void (*done)(void *owner), void *owner)
{
    if (!link) {
        if (done) done(owner);
        return;
    }
    link->closing = true;
    link->done = done;
    link->done_owner = owner;
    timer_stop(&link->watch_again);
    rpc_channel_close(link->channel, set_free, link);
}

const char *link_peer(const struct link *link)
{
    return rpc_channel_peer(link->channel);
}
