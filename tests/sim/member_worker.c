/* SPDX-License-Identifier: Apache-2.0 */
/* A worker: beats at the interval, registers, asks for its assignment, releases what is revoked,
 * and fences itself by its own clock. After a fence or a reset it is another instance. It never
 * takes a released partition again under the same token. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "member_story.h"
#include "rpc/client.h"
#include "wire/message.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_member.pb-c.h"

enum {
    BEAT_MS = MEMBER_BEAT_MS,
    LOOK_MS = 20, /* how often it looks at the clock */
    BEAT_TIMEOUT_MS = 600,
    CALL_TIMEOUT_MS = 1000,
    LEAVE_ONE_IN = 150, /* of beats */
    ARENA_MAX = 1 << 20,
    BYTES_MAX = 1 << 16,
};
enum { PHASE_INIT = 1, PHASE_READY = 2 };

struct hand {
    struct member_actor *actor;
    struct io *io;
    struct rpc_channel *channel;
    struct timer beat, look;
    struct arena arena;
    char instance[33];
    uint64_t draws; /* instances so far: answers to earlier ones are ignored */
    bool registered, registering, asking, acking, leaving;
    uint64_t incarnation, coord_epoch;
    uint64_t released[MEMBER_PARTITIONS], revoking[MEMBER_PARTITIONS];
    bool dying;
};
struct call { /* of one instance */
    struct hand *w;
    uint64_t draw;
    uint64_t sent_ns;
};

static uint64_t now_of(const struct hand *w)
{
    return clock_mono_ns(w->io->clock).ns;
}

bool member_is_fenced(const struct member_actor *actor)
{
    const struct member_belief *belief = &actor->belief;
    uint64_t fence_ns = (uint64_t)MEMBER_FENCE_MS * NS_PER_MS * 9 / 10;

    if (!belief->clock) return true;
    if (actor->story->bug == MEMBER_NEVER_FENCES) fence_ns *= 100;
    return clock_mono_ns(belief->clock).ns - belief->last_ok_ns > fence_ns;
}

static void begin_anew(struct hand *w)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < 32; i++) w->instance[i] = digits[entropy_u64(w->io->entropy) % 16];
    w->draws++;
    w->registered = w->registering = w->asking = w->acking = w->leaving = false;
    w->incarnation = 0;
    memset(w->released, 0, sizeof w->released);
    memset(w->revoking, 0, sizeof w->revoking);
    memset(w->actor->belief.tokens, 0, sizeof w->actor->belief.tokens);
}

/* -- calls -- */
static bool hears(const struct call *call)
{
    return !call->w->dying && call->draw == call->w->draws;
}

static bool ask(struct hand *w, const char *path, const struct buf *bytes,
                const struct h2_header *metadata, size_t count, rpc_unary_fn *done)
{
    struct rpc_call_options options = {.path = path,
                                       .timeout_ms = count ? BEAT_TIMEOUT_MS : CALL_TIMEOUT_MS,
                                       .metadata = metadata,
                                       .metadata_count = count,
                                       .attempts_max = 1};
    struct call *call = calloc(1, sizeof *call);

    if (!call) return false;
    *call = (struct call){.w = w, .draw = w->draws, .sent_ns = now_of(w)};
    if (!rpc_unary(w->channel, &options, buf_peek(bytes), done, call, NULL)) return true;
    free(call);
    return false;
}

/* The answer, in the arena; NULL: none, or none that can be read. */
static const ProtobufCMessage *answer_of(struct hand *w, const struct rpc_outcome *outcome,
                                         const ProtobufCMessageDescriptor *descriptor,
                                         struct str message)
{
    ProtobufCMessage *read;

    arena_reset(&w->arena);
    if (outcome->err && outcome->answered && outcome->status == GRPC_UNAVAILABLE)
        rpc_channel_next_address(w->channel);
    if (outcome->err || message_read(descriptor, message, NULL, &w->arena, &read, NULL))
        return NULL;
    return read;
}

static void move_on(struct hand *w, const struct rpc_outcome *outcome)
{
    if (outcome->answered && outcome->status == GRPC_UNAVAILABLE)
        rpc_channel_next_address(w->channel);
}

/* -- registering -- */
static void on_registered(void *owner, const struct rpc_client_call *rpc,
                          const struct rpc_outcome *outcome, struct str message)
{
    struct call *call = owner;
    struct hand *w = call->w;
    const Muster__V1__RegisterResponse *response = NULL;

    (void)rpc;
    if (hears(call)) {
        w->registering = false;
        response = (const Muster__V1__RegisterResponse *)answer_of(
            w, outcome, &muster__v1__register_response__descriptor, message);
    }
    if (response && response->coord_epoch >= w->coord_epoch) {
        w->coord_epoch = response->coord_epoch;
        w->registered = true;
        w->incarnation = response->incarnation;
    }
    free(call);
}

static void do_register(struct hand *w)
{
    struct buf bytes;
    struct pack pack = {&bytes, ERR_OK};

    if (w->registering || w->registered) return;
    buf_init(&bytes, BYTES_MAX);
    pack_text(&pack, 1, str_from(w->actor->id));
    pack_text(&pack, 2, STR(MEMBER_RUN));
    pack_text(&pack, 3, str_of(w->instance, 32));
    pack_u64(&pack, 4, 2 * BEAT_MS);
    pack_u64(&pack, 7, 1);
    w->registering =
        !pack.err && ask(w, "/muster.v1.Membership/Register", &bytes, NULL, 0, on_registered);
    buf_deinit(&bytes);
}

/* -- the partitions that it may process -- */
static void take(struct hand *w, const Muster__V1__AssignmentResponse *a)
{
    bool keeps = w->actor->story->bug == MEMBER_KEEPS_REVOKED;
    uint64_t *tokens = w->actor->belief.tokens, before[MEMBER_PARTITIONS];

    memcpy(before, tokens, sizeof before);
    memset(tokens, 0, sizeof before);
    memset(w->revoking, 0, sizeof w->revoking);
    for (size_t i = 0; i < a->n_granted; i++) {
        uint32_t p = a->granted[i]->partition;

        if (p >= MEMBER_PARTITIONS) continue;
        if (a->granted[i]->grant_epoch > w->released[p]) tokens[p] = a->granted[i]->grant_epoch;
    }
    for (size_t i = 0; i < a->n_revoking; i++) {
        uint32_t p = a->revoking[i]->partition;

        if (p >= MEMBER_PARTITIONS) continue;
        w->revoking[p] = a->revoking[i]->grant_epoch;
        w->released[p] = max_u64(w->released[p], w->revoking[p]);
        if (keeps) tokens[p] = before[p];
    }
    if (keeps)
        for (uint32_t p = 0; p < MEMBER_PARTITIONS; p++)
            if (before[p] && !tokens[p]) tokens[p] = before[p];
}

static void on_assignment(void *owner, const struct rpc_client_call *rpc,
                          const struct rpc_outcome *outcome, struct str message)
{
    struct call *call = owner;
    struct hand *w = call->w;
    const Muster__V1__AssignmentResponse *a = NULL;

    (void)rpc;
    if (hears(call)) {
        w->asking = false;
        a = (const Muster__V1__AssignmentResponse *)answer_of(
            w, outcome, &muster__v1__assignment_response__descriptor, message);
    }
    if (a && a->coord_epoch >= w->coord_epoch) {
        w->coord_epoch = a->coord_epoch;
        if (a->reset)
            begin_anew(w);
        else if (a->incarnation == w->incarnation && !w->leaving)
            take(w, a);
    }
    free(call);
}

static void get_assignment(struct hand *w)
{
    struct buf bytes;
    struct pack pack = {&bytes, ERR_OK};

    if (!w->registered || w->leaving || w->asking) return;
    buf_init(&bytes, BYTES_MAX);
    pack_text(&pack, 1, str_from(w->actor->id));
    pack_u64(&pack, 2, w->incarnation);
    w->asking =
        !pack.err && ask(w, "/muster.v1.Membership/GetAssignment", &bytes, NULL, 0, on_assignment);
    buf_deinit(&bytes);
}

static void on_acked(void *owner, const struct rpc_client_call *rpc,
                     const struct rpc_outcome *outcome, struct str message)
{
    struct call *call = owner;
    struct hand *w = call->w;

    (void)rpc;
    (void)message;
    if (hears(call)) {
        w->acking = false;
        move_on(w, outcome);
        w->actor->story->acks += !outcome->err;
        get_assignment(w);
    }
    free(call);
}

static void give_back(struct hand *w)
{
    struct buf bytes, row;
    struct pack pack = {&bytes, ERR_OK};
    bool any = false;

    if (w->acking || !w->registered) return;
    buf_init(&bytes, BYTES_MAX);
    buf_init(&row, BYTES_MAX);
    pack_text(&pack, 1, str_from(w->actor->id));
    pack_u64(&pack, 2, w->incarnation);
    for (uint32_t p = 0; p < MEMBER_PARTITIONS; p++) {
        struct pack revoked = pack_begin(&row);

        if (!w->revoking[p]) continue;
        pack_u64(&revoked, 1, p);
        pack_u64(&revoked, 2, w->revoking[p]);
        pack_text(&revoked, 3, STR("file:///ckpt"));
        pack_row(&pack, 3, &revoked);
        any = true;
    }
    w->acking =
        any && !pack.err && ask(w, "/muster.v1.Membership/AckRevoke", &bytes, NULL, 0, on_acked);
    buf_deinit(&row);
    buf_deinit(&bytes);
}

/* -- leaving, and coming back as another instance -- */
static void on_left(void *owner, const struct rpc_client_call *rpc,
                    const struct rpc_outcome *outcome, struct str message)
{
    struct call *call = owner;

    (void)rpc;
    (void)outcome;
    (void)message;
    if (hears(call)) begin_anew(call->w);
    free(call);
}

static void leave(struct hand *w)
{
    struct buf bytes;
    struct pack pack = {&bytes, ERR_OK};

    buf_init(&bytes, BYTES_MAX);
    memset(w->actor->belief.tokens, 0, sizeof w->actor->belief.tokens); /* it has stopped */
    pack_text(&pack, 1, str_from(w->actor->id));
    pack_u64(&pack, 2, w->incarnation);
    w->leaving = true;
    if (pack.err || !ask(w, "/muster.v1.Membership/Leave", &bytes, NULL, 0, on_left)) begin_anew(w);
    buf_deinit(&bytes);
}

/* -- beats -- */
static uint64_t trailer(const struct rpc_client_call *rpc, struct str name)
{
    struct str text;
    uint64_t value = 0;

    if (!rpc_call_trailer(rpc, name, &text) || str_to_u64(text, &value)) return 0;
    return value;
}

static void on_beaten(void *owner, const struct rpc_client_call *rpc,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct call *call = owner;
    struct hand *w = call->w;
    struct str directive;

    (void)message;
    if (!hears(call)) {
        free(call);
        return;
    }
    if (outcome->err) {
        move_on(w, outcome);
    } else if (trailer(rpc, STR("x-coord-epoch")) >= w->coord_epoch) {
        uint64_t incarnation = trailer(rpc, STR("x-worker-incarnation"));

        w->coord_epoch = trailer(rpc, STR("x-coord-epoch"));
        if (rpc_call_trailer(rpc, STR("x-directive"), &directive) && w->registered) {
            begin_anew(w);
        } else if (w->registered && incarnation && incarnation != w->incarnation) {
            begin_anew(w);
        } else {
            w->actor->belief.last_ok_ns = max_u64(w->actor->belief.last_ok_ns, call->sent_ns);
            do_register(w);
            get_assignment(w);
        }
    }
    free(call);
}

static void pack_beat(struct hand *w, struct pack *pack)
{
    uint64_t due = clock_wall(w->io->clock).ms + 2 * BEAT_MS;
    struct buf bytes;
    struct pack at = {&bytes, ERR_OK};

    buf_init(&bytes, 64);
    pack_u64(&at, 1, due / 1000);
    pack_u64(&at, 2, due % 1000 * 1000000);
    pack_text(pack, 1, str_from(w->actor->id));
    pack_row(pack, 2, &at);
    pack_u64(pack, 3, w->registered ? PHASE_READY : PHASE_INIT);
    pack_text(pack, 4, STR(MEMBER_RUN));
    buf_deinit(&bytes);
}

static void on_beat(struct timer *timer)
{
    struct hand *w = CONTAINER_OF(timer, struct hand, beat);
    char incarnation[24];
    struct h2_header metadata[] = {
        {.name = STR("x-worker-instance"), .value = str_of(w->instance, 32)},
        {.name = STR("x-worker-incarnation"), .value = STR_EMPTY},
    };
    struct buf bytes;
    struct pack pack = {&bytes, ERR_OK};

    timer_start_in(&w->beat, BEAT_MS - entropy_u64(w->io->entropy) % (BEAT_MS / 10));
    (void)snprintf(incarnation, sizeof incarnation, "%" PRIu64, w->incarnation);
    metadata[1].value = str_from(incarnation);
    buf_init(&bytes, BYTES_MAX);
    pack_beat(w, &pack);
    if (!pack.err)
        (void)ask(w, "/rollout.transport.v1.Heartbeat/Beat", &bytes, metadata,
                  w->incarnation ? 2 : 1, on_beaten);
    buf_deinit(&bytes);
    if (w->registered && !w->leaving && !w->actor->story->healed &&
        entropy_u64(w->io->entropy) % LEAVE_ONE_IN == 0)
        leave(w);
}

static void on_look(struct timer *timer)
{
    struct hand *w = CONTAINER_OF(timer, struct hand, look);

    timer_start_in(&w->look, LOOK_MS);
    if (member_is_fenced(w->actor)) {
        w->actor->story->fences++;
        begin_anew(w);
        w->actor->belief.last_ok_ns = now_of(w); /* it holds nothing */
    }
    give_back(w);
}

/* -- life -- */
static void gone(void *owner)
{
    struct hand *w = owner;

    timer_deinit(&w->beat);
    timer_deinit(&w->look);
    arena_deinit(&w->arena);
    free(w);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct member_actor *actor = context;
    struct hand *w = calloc(1, sizeof *w);
    struct rpc_channel_options options = {.io = io,
                                          .addresses = member_addresses,
                                          .warm_second = true,
                                          .backoff_max_ms = 500,
                                          .dial_timeout_ms = 800,
                                          .ping_after_ms = 500,
                                          .ping_timeout_ms = 700};
    enum err err;

    if (!w) return ERR_NOMEM;
    w->actor = actor;
    w->io = io;
    arena_init(&w->arena, ARENA_MAX);
    begin_anew(w);
    actor->belief.clock = io->clock;
    actor->belief.last_ok_ns = now_of(w);
    err = timer_init(&w->beat, io->loop, on_beat);
    if (!err) err = timer_init(&w->look, io->loop, on_look);
    if (!err) err = rpc_channel_open(&options, &w->channel, NULL);
    if (err) {
        actor->belief.clock = NULL;
        gone(w);
        return err;
    }
    timer_start_in(&w->beat, 1);
    timer_start_in(&w->look, LOOK_MS);
    *ret_state = w;
    return ERR_OK;
}

/* The process is dead: it processes nothing. */
static void destroy(void *state)
{
    struct hand *w = state;

    w->dying = true;
    memset(&w->actor->belief, 0, sizeof w->actor->belief);
    rpc_channel_close(w->channel, gone, w);
}

const struct sim_process_ops member_worker_ops = {start, NULL, destroy};
