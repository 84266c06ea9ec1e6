/* SPDX-License-Identifier: Apache-2.0 */
/* A client: one claim at a time, plain keys, and a watch of everything.
 *
 * It makes one request at a time under a sequence number of its own and repeats it under the same
 * number until it is answered, sometimes with another lease id; sometimes it gives up. Renewals run
 * in parallel. It believes to hold a slot from the answer until its deadline. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/coord.h>

#include "base/arena.h"
#include "rpc/client.h"
#include "store_story.h"
#include "wire/message.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum {
    THINK_MS_MAX = 60,
    TIMEOUT_MS = 1500,
    PLAIN_KEYS = 3,
    TTL_MS_MIN = 1000,
    TTL_MS_MAX = 2500,
    GIVE_UP_ONE_IN = 12,
    ARENA_MAX = 8 << 20,
    BYTES_MAX = 1 << 20,
    PATH_CAP = 64,
};
enum want { WANT_ACQUIRE, WANT_RELEASE, WANT_CREATE, WANT_CAS, WANT_DELETE };

struct client {
    struct store_actor *actor;
    struct io *io;
    struct rpc_channel *channel;
    struct timer think, renew, watch_again;
    struct arena arena;
    struct store_id id;
    uint64_t sequence;
    /* the request */
    bool asking, again, hasty; /* hasty: short timeouts and short pauses */
    enum want want;
    size_t key, group;
    uint64_t expected, ttl_ms, wait_ms;
    struct store_id lease;
    sim_time first_sent;
    /* the claim that it holds */
    bool has, renewing, letting_go;
    struct store_id held, renewed; /* renewed: the lease that is being renewed */
    size_t held_group;
    uint32_t held_slot;
    uint64_t held_token, held_ttl_ms;
    sim_time renew_sent;
    uint64_t revisions[PLAIN_KEYS];
    /* its watch */
    struct rpc_client_call *watch;
    size_t cursor;
    uint64_t seen_revision; /* 0: the watch begins with a snapshot */
    bool in_changes;
    bool dying;
};

static uint64_t below(struct client *c, uint64_t bound)
{
    return entropy_u64(c->io->entropy) % bound;
}

static sim_time now_of(const struct client *c)
{
    return sim_now(scenario_sim(c->actor->story->world));
}

static void draw_id(struct client *c, struct store_id *id)
{
    for (size_t i = 0; i < sizeof id->b; i++) id->b[i] = (uint8_t)below(c, 256);
    id->b[0] |= 1;
}

static struct str id_text(const struct store_id *id)
{
    return str_of(id->b, sizeof id->b);
}

/* A replica that knows no leader may have been removed: another address may know one. */
static void move_on(struct client *c, const struct rpc_outcome *outcome)
{
    if (outcome->answered && outcome->status == GRPC_UNAVAILABLE)
        rpc_channel_next_address(c->channel);
}

/* -- renewing -- */
static void start_renewing(struct client *c)
{
    timer_start_in(&c->renew, c->held_ttl_ms / 3);
}

static void lost(struct client *c)
{
    c->has = false;
    timer_stop(&c->renew);
}

static void on_renewed(void *owner, const struct rpc_client_call *call,
                       const struct rpc_outcome *outcome, struct str message)
{
    struct client *c = owner;
    struct store_story *story = c->actor->story;
    ProtobufCMessage *read;
    const Muster__V1__RenewResponse *response;
    struct note note = {""};

    (void)call;
    c->renewing = false;
    if (c->dying || !c->has || c->letting_go) return;
    if (memcmp(&c->renewed, &c->held, sizeof c->held) != 0) { /* of a lease that was released */
        timer_start_in(&c->renew, 1);
        return;
    }
    if (outcome->err || message_read(&muster__v1__renew_response__descriptor, message, NULL,
                                     &c->arena, &read, &note)) {
        move_on(c, outcome);
        timer_start_in(&c->renew, 20 + below(c, 100));
        return;
    }
    response = (const Muster__V1__RenewResponse *)read;
    if (response->n_renewals != 1) {
        store_wrong(story, "%zu answers to one renewal", response->n_renewals);
    } else if (response->renewals[0]->code == COORD_OK) {
        story->witness.renewals++;
        store_witness_holds(story, c->actor->number, c->held_group, c->held_slot, c->held_token,
                            c->renew_sent, c->held_ttl_ms);
        start_renewing(c);
    } else {
        store_witness_expired(story, c->actor->number);
        lost(c);
    }
    arena_reset(&c->arena);
}

static void on_renew(struct timer *timer)
{
    struct client *c = CONTAINER_OF(timer, struct client, renew);
    struct rpc_call_options options = {.path = "/muster.v1.Coordination/Renew",
                                       .timeout_ms = TIMEOUT_MS,
                                       .idempotent = true,
                                       .wait_for_ready = true};
    struct buf bytes;
    struct pack pack = {&bytes, ERR_OK};

    if (!c->has || c->letting_go || c->renewing) return;
    buf_init(&bytes, BYTES_MAX);
    pack_bytes(&pack, 1, id_text(&c->held));
    c->renew_sent = now_of(c);
    c->renewed = c->held;
    c->renewing =
        !pack.err && !rpc_unary(c->channel, &options, buf_peek(&bytes), on_renewed, c, NULL);
    if (!c->renewing) timer_start_in(&c->renew, 50);
    buf_deinit(&bytes);
}

/* -- asking -- */
static void answered(struct client *c, const Muster__V1__Outcome *outcome)
{
    struct store_story *story = c->actor->story;
    struct store_witness *w = &story->witness;
    int code = (int)outcome->code;

    store_witness_answered(story, &c->id, c->sequence, code, (int)outcome->reason,
                           outcome->revision, outcome->token);
    w->done[c->actor->number]++;
    switch (c->want) {
    case WANT_ACQUIRE:
        if (code != COORD_OK) break;
        if (outcome->lease_id.len != sizeof c->held.b) {
            store_wrong(story, "a grant without a lease");
            break;
        }
        c->has = true;
        c->letting_go = false;
        memcpy(c->held.b, outcome->lease_id.data, sizeof c->held.b);
        c->held_group = c->group;
        c->held_slot = outcome->slot;
        c->held_token = outcome->token;
        c->held_ttl_ms = c->ttl_ms;
        w->grants++;
        w->waited += c->wait_ms > 0;
        store_witness_holds(story, c->actor->number, c->group, outcome->slot, outcome->token,
                            c->first_sent, c->ttl_ms);
        /* A slow answer may be old: the client renews before it believes it. */
        timer_start_in(&c->renew, 1);
        break;
    case WANT_RELEASE: lost(c); break;
    case WANT_CREATE:
    case WANT_CAS:
        if (code == COORD_OK && c->want == WANT_CAS)
            store_witness_replaced(story, c->key, c->expected);
        c->revisions[c->key] = outcome->revision;
        if (code == COORD_CONFLICT && outcome->reason == COORD_R_ABSENT) c->revisions[c->key] = 0;
        break;
    case WANT_DELETE: c->revisions[c->key] = 0; break;
    }
}

static void next(struct client *c)
{
    c->asking = c->again = false;
    timer_start_in(&c->think, 1 + below(c, c->hasty ? 8 : THINK_MS_MAX));
}

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct client *c = owner;
    ProtobufCMessage *read;
    struct note note = {""};

    (void)call;
    if (c->dying) return;
    if (outcome->err) { /* done or not: repeat under the same sequence */
        c->again = true;
        c->asking = false;
        move_on(c, outcome);
        if (below(c, GIVE_UP_ONE_IN) == 0) {
            if (c->want == WANT_RELEASE) lost(c);
            c->again = false;
        }
        timer_start_in(&c->think, 5 + below(c, 2 * THINK_MS_MAX));
        return;
    }
    if (message_read(&muster__v1__outcome__descriptor, message, NULL, &c->arena, &read, &note))
        store_wrong(c->actor->story, "an answer that cannot be read: %s", note.text);
    else
        answered(c, (const Muster__V1__Outcome *)read);
    arena_reset(&c->arena);
    next(c);
}

static void pack_request(struct client *c, struct pack *pack)
{
    struct buf bytes;
    struct pack request = {&bytes, ERR_OK};

    buf_init(&bytes, BYTES_MAX);
    pack_text(&request, 1, id_text(&c->id));
    pack_u64(&request, 2, c->sequence);
    pack_u64(&request, 3, c->sequence); /* one request at a time */
    pack_bytes(pack, 1, buf_peek(&bytes));
    if (request.err) pack->err = request.err;
    buf_deinit(&bytes);
}

static const char *pack_want(struct client *c, struct pack *pack)
{
    char key[16], value[24];

    (void)snprintf(key, sizeof key, "k/p%zu", c->key);
    (void)snprintf(value, sizeof value, "%" PRIu64, c->sequence);
    pack_request(c, pack);
    switch (c->want) {
    case WANT_ACQUIRE:
        (void)snprintf(key, sizeof key, "g%zu", c->group);
        pack_text(pack, 2, str_from(key));
        pack_u64(pack, 3, c->group + 1);
        pack_i64(pack, 5, -1);
        (void)snprintf(key, sizeof key, "c%zu", c->actor->number);
        pack_text(pack, 6, str_from(key));
        pack_u64(pack, 7, c->ttl_ms);
        pack_u64(pack, 8, c->wait_ms);
        pack_text(pack, 11, id_text(&c->lease));
        return "/muster.v1.Coordination/Acquire";
    case WANT_RELEASE:
        pack_text(pack, 2, id_text(&c->held));
        return "/muster.v1.Coordination/Release";
    case WANT_CREATE:
        pack_text(pack, 2, str_from(key));
        pack_text(pack, 3, str_from(value));
        return "/muster.v1.Coordination/Create";
    case WANT_CAS:
        pack_text(pack, 2, str_from(key));
        pack_u64(pack, 3, c->expected);
        pack_text(pack, 4, str_from(value));
        if (c->expected) pack_i64(pack, 5, -1);
        return "/muster.v1.Coordination/CompareAndSet";
    case WANT_DELETE:
        pack_text(pack, 2, str_from(key));
        pack_u64(pack, 4, 1);
        return "/muster.v1.Coordination/Delete";
    }
    return "";
}

static void ask(struct client *c)
{
    struct rpc_call_options options = {.timeout_ms = TIMEOUT_MS + c->wait_ms,
                                       .wait_for_ready = true,
                                       .attempts_max = 1 + (uint32_t)below(c, 4)};
    char id[48];
    struct buf bytes;
    struct pack pack = {&bytes, ERR_OK};

    buf_init(&bytes, BYTES_MAX);
    options.path = pack_want(c, &pack);
    (void)snprintf(id, sizeof id, "%zu-%" PRIu64, c->actor->number, c->sequence);
    options.request_id = str_from(id);
    if (c->hasty) options.timeout_ms = 200 + below(c, 300);
    c->asking = true;
    c->again = false;
    if (pack.err || rpc_unary(c->channel, &options, buf_peek(&bytes), on_answer, c, NULL)) {
        c->asking = false;
        c->again = true;
        timer_start_in(&c->think, THINK_MS_MAX);
    }
    buf_deinit(&bytes);
}

static void choose(struct client *c)
{
    uint64_t die = below(c, 10);

    c->sequence++;
    c->wait_ms = 0;
    c->key = below(c, PLAIN_KEYS);
    c->expected = c->revisions[c->key];
    c->first_sent = now_of(c);
    if (c->has && die < 3) {
        c->want = WANT_RELEASE;
        c->letting_go = true;
        store_witness_lets_go(c->actor->story, c->actor->number);
    } else if (!c->has && die < 6) {
        c->want = WANT_ACQUIRE;
        c->group = below(c, STORE_GROUPS);
        c->ttl_ms = TTL_MS_MIN + below(c, TTL_MS_MAX - TTL_MS_MIN);
        c->wait_ms = below(c, 2) ? 200 + below(c, 3000) : 0;
        draw_id(c, &c->lease);
    } else if (die < 7) {
        c->want = WANT_CREATE;
    } else if (die < 9) {
        c->want = WANT_CAS;
    } else {
        c->want = WANT_DELETE;
    }
}

static void on_think(struct timer *timer)
{
    struct client *c = CONTAINER_OF(timer, struct client, think);

    if (c->asking) return;
    if (!c->again) {
        if (c->actor->story->quiet) return;
        choose(c);
    } else if (c->want == WANT_ACQUIRE && (c->hasty || below(c, 4) == 0)) {
        draw_id(c, &c->lease); /* a repeat may draw another */
    }
    ask(c);
}

/* -- watching -- */
static void watch_changes(struct client *c, const Muster__V1__WatchResponse *m)
{
    struct store_story *story = c->actor->story;

    switch (m->kind) {
    case MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT:
        c->in_changes = !m->more;
        if (m->more) break;
        c->seen_revision = m->revision;
        c->cursor = store_witness_after(story, m->revision);
        break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES:
        if (!c->in_changes) store_wrong(story, "c%zu: changes before a snapshot", c->actor->number);
        for (size_t i = 0; i < m->n_events; i++) {
            const Muster__V1__Entry *entry = m->events[i]->entry;
            if (story->bug == STORE_SKIP_AN_EVENT && below(c, 50) == 0) continue;
            if (!entry ||
                !store_witness_event(story, &c->cursor, str_of(entry->key.data, entry->key.len),
                                     entry->revision)) {
                store_wrong(story, "c%zu received revision %" PRIu64 ", not of %" PRIu64,
                            c->actor->number, entry ? entry->revision : 0,
                            c->cursor < story->witness.change_count
                                ? story->witness.changes[c->cursor].revision
                                : 0);
                break;
            }
        }
        if (!m->more) c->seen_revision = m->revision;
        break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC:
        story->witness.resyncs++;
        c->in_changes = false;
        break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__PROGRESS:
        if (c->in_changes && store_witness_unseen(story, c->cursor, m->revision))
            store_wrong(story, "c%zu: nothing up to %" PRIu64 " is to come, was reported",
                        c->actor->number, m->revision);
        break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__COMPACTED: c->seen_revision = 0; break;
    default: store_wrong(story, "a watch answer of kind %d", (int)m->kind);
    }
    story->witness.watched[c->actor->number] = c->cursor;
}

static void on_watch(void *owner, struct rpc_client_call *call, struct str message)
{
    struct client *c = owner;
    ProtobufCMessage *read;
    struct note note = {""};

    (void)call;
    if (c->dying) return;
    if (message_read(&muster__v1__watch_response__descriptor, message, NULL, &c->arena, &read,
                     &note))
        store_wrong(c->actor->story, "a watch answer that cannot be read: %s", note.text);
    else
        watch_changes(c, (const Muster__V1__WatchResponse *)read);
    arena_reset(&c->arena);
}

static void on_watch_end(void *owner, struct rpc_client_call *call,
                         const struct rpc_outcome *outcome)
{
    struct client *c = owner;

    (void)call;
    c->watch = NULL;
    if (!c->dying) move_on(c, outcome);
    if (!c->dying) timer_start_in(&c->watch_again, 10 + below(c, 100));
}

static void on_watch_again(struct timer *timer)
{
    static const struct rpc_call_events events = {on_watch, NULL, on_watch_end};
    struct client *c = CONTAINER_OF(timer, struct client, watch_again);
    struct rpc_call_options options = {.path = "/muster.v1.Coordination/Watch",
                                       .idempotent = true,
                                       .wait_for_ready = true,
                                       .attempts_max = 1};
    struct buf bytes;
    struct pack pack = {&bytes, ERR_OK};

    buf_init(&bytes, BYTES_MAX);
    if (below(c, 4) == 0) c->seen_revision = 0;
    c->in_changes = c->seen_revision != 0;
    if (c->in_changes) c->cursor = store_witness_after(c->actor->story, c->seen_revision);
    pack_text(&pack, 1, STR("muster/"));
    pack_u64(&pack, 3, 1);
    if (c->in_changes) pack_u64(&pack, 4, c->seen_revision + 1);
    pack_u64(&pack, 5, below(c, 2));
    if (rpc_call_start(c->channel, &options, &events, c, &c->watch)) {
        timer_start_in(&c->watch_again, 100);
    } else {
        if (pack.err || rpc_call_send(c->watch, buf_peek(&bytes))) rpc_call_cancel(c->watch);
        rpc_call_end(c->watch);
    }
    buf_deinit(&bytes);
}

/* -- life -- */
static void gone(void *owner)
{
    struct client *c = owner;

    timer_deinit(&c->think);
    timer_deinit(&c->renew);
    timer_deinit(&c->watch_again);
    arena_deinit(&c->arena);
    free(c);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct store_actor *actor = context;
    struct client *c = calloc(1, sizeof *c);
    struct rpc_channel_options options = store_channel(io);
    enum err err;

    if (!c) return ERR_NOMEM;
    options.follow_leader = true;
    c->actor = actor;
    c->io = io;
    arena_init(&c->arena, ARENA_MAX);
    draw_id(c, &c->id);
    c->hasty = below(c, 2);
    err = timer_init(&c->think, io->loop, on_think);
    if (!err) err = timer_init(&c->renew, io->loop, on_renew);
    if (!err) err = timer_init(&c->watch_again, io->loop, on_watch_again);
    if (!err) err = rpc_channel_open(&options, &c->channel, NULL);
    if (err) {
        gone(c);
        return err;
    }
    timer_start_in(&c->think, 1 + below(c, THINK_MS_MAX));
    timer_start_in(&c->watch_again, 1 + below(c, 500));
    *ret_state = c;
    return ERR_OK;
}

/* The process is dead: it holds nothing, and nobody receives its answers. */
static void destroy(void *state)
{
    struct client *c = state;

    c->dying = true;
    store_witness_lets_go(c->actor->story, c->actor->number);
    rpc_channel_close(c->channel, gone, c);
}

const struct sim_process_ops store_client_ops = {start, NULL, destroy};
