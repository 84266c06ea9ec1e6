/* SPDX-License-Identifier: Apache-2.0 */
/* A client of etcd's streams at any replica: a watch of everything under "e/", which resumes at
 * another replica from the next revision when it breaks, and a lease that is kept alive, gets keys,
 * and is sometimes revoked.
 *
 * The watch reports every change once and in order, whole revisions at a time; after progress it
 * reports nothing up to that revision. Compaction ends a watch only when it has passed it. A lease
 * whose TTL was answered lives for that TTL from the request on. A revoked lease is never answered
 * as alive. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/client.h"
#include "store_story.h"
#include "wire/message.h"
#include "wire/pb/etcd_rpc.pb-c.h"

enum {
    ARENA_MAX = 8 << 20,
    BYTES_MAX = 1 << 20,
    BEATS_MAX = 8, /* on their way at once */
    TIMEOUT_MS = 6000,
    TTL_MIN_S = 2,
    BEAT_MS = 600,
};
enum asks { ASKS_NOTHING, ASKS_GRANT, ASKS_PUT, ASKS_REVOKE };

static const struct h2_header needs_leader[] = {{{"hasleader", 9}, {"true", 4}}};

struct streams {
    struct store_actor *actor;
    struct io *io;
    struct rpc_channel *channel;
    struct timer watch_again, lease, beat;
    struct prng prng;
    struct arena arena;
    struct buf bytes;
    bool dying;
    /* the watch */
    struct rpc_client_call *watch;
    uint64_t seen;  /* every change up to this revision was reported; 0: nothing known yet */
    uint64_t start; /* the revision that it asked for */
    size_t cursor;  /* in the witness' changes */
    /* the lease */
    struct rpc_client_call *keeper;
    enum asks asks;
    int64_t id, next_id;
    uint64_t ttl_s;
    bool revoked;  /* and answered so */
    bool doubtful; /* a revoke without an answer: the lease may end at any time */
    sim_time asked_at, believed_until;
    struct {
        int64_t id;
        sim_time sent;
        bool after_revoke;
    } beats[BEATS_MAX];
    size_t beat_first, beat_count;
};

static struct sim *world_of(const struct streams *s)
{
    return scenario_sim(s->actor->story->world);
}

static uint64_t below(struct streams *s, uint64_t n)
{
    return prng_below(&s->prng, n);
}

static struct str bytes_of(ProtobufCBinaryData bytes)
{
    return bytes.len ? str_of(bytes.data, bytes.len) : STR_EMPTY;
}

/* NULL: reported as wrong. */
static const ProtobufCMessage *read_as(struct streams *s, const ProtobufCMessageDescriptor *type,
                                       struct str message)
{
    ProtobufCMessage *read;
    struct note note = {""};

    arena_reset(&s->arena);
    if (!message_read(type, message, NULL, &s->arena, &read, &note)) return read;
    store_wrong(s->actor->story, "w%zu: an answer that cannot be read: %s", s->actor->number,
                note.text);
    return NULL;
}

static enum err send_on(struct streams *s, struct rpc_client_call *call,
                        const ProtobufCMessage *message)
{
    enum err err;

    buf_clear(&s->bytes);
    err = message_write(message, &s->bytes, NULL);
    return err ? err : rpc_call_send(call, buf_peek(&s->bytes));
}

/* -- the watch -- */

/* A change under "e/" at or behind the cursor, up to the revision, that was not reported. */
static bool is_unseen(const struct streams *s, uint64_t revision)
{
    const struct store_witness *w = &s->actor->story->witness;

    for (size_t i = s->cursor; i < w->change_count && w->changes[i].revision <= revision; i++)
        if (!w->changes[i].claim && !w->changes[i].lock) return true;
    return false;
}

static void seen_up_to(struct streams *s, uint64_t revision)
{
    struct store_story *story = s->actor->story;

    s->seen = max_u64(s->seen, revision);
    s->cursor = store_witness_after(story, s->seen);
    story->witness.etcd_watched[s->actor->number] = s->cursor;
}

static void watch_events(struct streams *s, const Etcdserverpb__WatchResponse *m)
{
    struct store_story *story = s->actor->story;
    uint64_t bucket = store_hash_of_bucket(STR("e")), last = 0;

    for (size_t i = 0; i < m->n_events; i++) {
        const Mvccpb__Event *e = m->events[i];

        last = (uint64_t)e->kv->mod_revision;
        if (last < s->start)
            store_wrong(story, "w%zu: reported %" PRIu64 ", asked from %" PRIu64, s->actor->number,
                        last, s->start);
        store_witness_change(story, bucket, &s->cursor, bytes_of(e->kv->key), last,
                             e->type == MVCCPB__EVENT__EVENT_TYPE__DELETE);
        story->witness.etcd_events++;
    }
    if (is_unseen(s, last))
        store_wrong(story, "w%zu: a part of revision %" PRIu64 " only", s->actor->number, last);
    seen_up_to(s, last);
}

static void watch_response(struct streams *s, const Etcdserverpb__WatchResponse *m)
{
    struct store_story *story = s->actor->story;
    uint64_t revision = (uint64_t)m->header->revision;

    if (m->created) {
        if (!s->start) seen_up_to(s, revision);
        if (!s->start) s->start = revision + 1;
    } else if (m->canceled) {
        if ((uint64_t)m->compact_revision <= s->start && (uint64_t)m->compact_revision <= s->seen)
            store_wrong(story, "w%zu: ended by %" PRId64 ", it had come to %" PRIu64,
                        s->actor->number, m->compact_revision, s->seen);
        seen_up_to(s, (uint64_t)m->compact_revision - 1);
        story->witness.etcd_compacted++;
        rpc_call_cancel(s->watch);
    } else if (m->n_events) {
        watch_events(s, m);
    } else {
        if (is_unseen(s, revision))
            store_wrong(story, "w%zu: nothing up to %" PRIu64 " is to come, it was reported",
                        s->actor->number, revision);
        if (revision + 1 < s->start)
            store_wrong(story, "w%zu: progress %" PRIu64 " before its start %" PRIu64,
                        s->actor->number, revision, s->start);
        seen_up_to(s, revision);
        story->witness.etcd_progress++;
    }
}

static void on_watch(void *owner, struct rpc_client_call *call, struct str message)
{
    struct streams *s = owner;
    const ProtobufCMessage *m;
    Etcdserverpb__WatchRequest ask = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchProgressRequest progress = ETCDSERVERPB__WATCH_PROGRESS_REQUEST__INIT;

    if (s->dying) return;
    m = read_as(s, &etcdserverpb__watch_response__descriptor, message);
    if (m) watch_response(s, (const Etcdserverpb__WatchResponse *)m);
    if (below(s, 4)) return;
    ask.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST;
    ask.progress_request = &progress;
    (void)send_on(s, call, &ask.base);
}

static void on_watch_end(void *owner, struct rpc_client_call *call,
                         const struct rpc_outcome *outcome)
{
    struct streams *s = owner;

    (void)call;
    (void)outcome;
    s->watch = NULL;
    if (s->dying) return;
    rpc_channel_next_address(s->channel);
    timer_start_in(&s->watch_again, 10 + below(s, 100));
}

static void on_watch_again(struct timer *timer)
{
    static const struct rpc_call_events events = {on_watch, NULL, on_watch_end};
    struct streams *s = CONTAINER_OF(timer, struct streams, watch_again);
    struct rpc_call_options options = {.path = "/etcdserverpb.Watch/Watch",
                                       .wait_for_ready = true,
                                       .attempts_max = 1,
                                       .metadata =
                                           needs_leader, /* a removed member does not answer */
                                       .metadata_count = ARRAY_LEN(needs_leader)};
    Etcdserverpb__WatchRequest ask = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;

    if (below(s, 6) == 0) s->seen = 0; /* from now on */
    s->start = s->seen ? s->seen + 1 : 0;
    create.key = (ProtobufCBinaryData){2, (uint8_t *)"e/"};
    create.range_end = (ProtobufCBinaryData){2, (uint8_t *)"e0"};
    create.start_revision = (int64_t)s->start;
    create.prev_kv = true;
    ask.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    ask.create_request = &create;
    if (rpc_call_start(s->channel, &options, &events, s, &s->watch))
        timer_start_in(&s->watch_again, 100);
    else if (send_on(s, s->watch, &ask.base))
        rpc_call_cancel(s->watch);
}

/* -- the lease -- */

static bool is_believed(const struct streams *s)
{
    return s->id && sim_now(world_of(s)).ns < s->believed_until.ns;
}

static void believe(struct streams *s, sim_time sent)
{
    uint64_t until = sent.ns + s->ttl_s * 1000 * STORE_TRUST_PERCENT / 100 * NS_PER_MS;

    s->believed_until.ns = max_u64(s->believed_until.ns, until);
}

static void lease_is_over(struct streams *s, const char *how)
{
    if (is_believed(s) && !s->revoked && !s->doubtful)
        store_wrong(s->actor->story, "w%zu: lease %" PRId64 " ended before its time: %s",
                    s->actor->number, s->id, how);
    s->id = 0;
    s->actor->story->witness.etcd_ended++;
}

static void lease_think(struct streams *s)
{
    timer_start_in(&s->lease, 50 + below(s, 800));
}

static void on_lease_answer(void *owner, const struct rpc_client_call *call,
                            const struct rpc_outcome *outcome, struct str message)
{
    struct streams *s = owner;
    enum asks asked = s->asks;
    bool none = outcome->answered && outcome->status == GRPC_NOT_FOUND;
    const Etcdserverpb__LeaseGrantResponse *grant;

    (void)call;
    if (s->dying) return;
    s->asks = ASKS_NOTHING;
    if (!outcome->err && asked == ASKS_GRANT) {
        grant = (const Etcdserverpb__LeaseGrantResponse *)read_as(
            s, &etcdserverpb__lease_grant_response__descriptor, message);
        if (grant && grant->id == s->next_id) {
            s->id = grant->id;
            s->ttl_s = (uint64_t)grant->ttl;
            s->revoked = s->doubtful = false;
            s->believed_until.ns = 0;
            believe(s, s->asked_at);
        }
    } else if (!outcome->err && asked == ASKS_REVOKE) {
        s->revoked = true;
    } else if (none && asked != ASKS_GRANT) {
        lease_is_over(s, "not found");
    } else if (outcome->err) {
        rpc_channel_next_address(s->channel);
    }
    lease_think(s);
}

static void ask_lease(struct streams *s, enum asks asks, const char *path,
                      const ProtobufCMessage *message)
{
    struct rpc_call_options options = {
        .path = path, .timeout_ms = TIMEOUT_MS, .wait_for_ready = true, .attempts_max = 1};

    buf_clear(&s->bytes);
    s->asked_at = sim_now(world_of(s));
    if (message_write(message, &s->bytes, NULL) ||
        rpc_unary(s->channel, &options, buf_peek(&s->bytes), on_lease_answer, s, NULL))
        lease_think(s);
    else
        s->asks = asks;
}

static void on_lease(struct timer *timer)
{
    struct streams *s = CONTAINER_OF(timer, struct streams, lease);
    Etcdserverpb__LeaseGrantRequest grant = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    Etcdserverpb__LeaseRevokeRequest revoke = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    char key[16];
    int len = snprintf(key, sizeof key, "e/l%zu%u", s->actor->number, (unsigned)below(s, 3));

    if (s->actor->story->quiet) return;
    if (!s->id) {
        /* Never a number used before: a lease of a grant without an answer must end by itself. */
        s->next_id = (int64_t)(prng_u64(&s->prng) >> 8) + 1;
        grant.id = s->next_id;
        grant.ttl = TTL_MIN_S + (int64_t)below(s, 3);
        ask_lease(s, ASKS_GRANT, "/etcdserverpb.Lease/LeaseGrant", &grant.base);
    } else if (!s->revoked && below(s, 8) == 0) {
        revoke.id = s->id;
        s->doubtful = true;
        ask_lease(s, ASKS_REVOKE, "/etcdserverpb.Lease/LeaseRevoke", &revoke.base);
    } else {
        put.key = (ProtobufCBinaryData){(size_t)len, (uint8_t *)key};
        put.lease = s->id;
        ask_lease(s, ASKS_PUT, "/etcdserverpb.KV/Put", &put.base);
    }
}

static void on_kept(void *owner, struct rpc_client_call *call, struct str message)
{
    struct streams *s = owner;
    const Etcdserverpb__LeaseKeepAliveResponse *m;
    size_t first = s->beat_first;

    (void)call;
    if (s->dying) return;
    m = (const Etcdserverpb__LeaseKeepAliveResponse *)read_as(
        s, &etcdserverpb__lease_keep_alive_response__descriptor, message);
    if (!m) return;
    if (!s->beat_count || s->beats[first].id != m->id) {
        store_wrong(s->actor->story, "w%zu: an answer that is not the next", s->actor->number);
        return;
    }
    s->beat_first = (first + 1) % BEATS_MAX;
    s->beat_count--;
    s->actor->story->witness.etcd_beats[s->actor->number]++;
    if (m->id != s->id) return; /* of one that is over */
    if (m->ttl > 0 && s->beats[first].after_revoke)
        store_wrong(s->actor->story, "w%zu: lease %" PRId64 " is kept though it was revoked",
                    s->actor->number, m->id);
    if (m->ttl > 0 && !s->revoked)
        believe(s, s->beats[first].sent);
    else if (m->ttl == 0)
        lease_is_over(s, "a keep-alive");
}

static void on_keeper_end(void *owner, struct rpc_client_call *call,
                          const struct rpc_outcome *outcome)
{
    struct streams *s = owner;

    (void)call;
    (void)outcome;
    s->keeper = NULL;
    s->beat_count = 0;
    if (!s->dying) rpc_channel_next_address(s->channel);
}

static void on_beat(struct timer *timer)
{
    static const struct rpc_call_events events = {on_kept, NULL, on_keeper_end};
    struct streams *s = CONTAINER_OF(timer, struct streams, beat);
    struct rpc_call_options options = {.path = "/etcdserverpb.Lease/LeaseKeepAlive",
                                       .wait_for_ready = true,
                                       .attempts_max = 1,
                                       .metadata = needs_leader,
                                       .metadata_count = ARRAY_LEN(needs_leader)};
    Etcdserverpb__LeaseKeepAliveRequest ask = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;
    size_t last = (s->beat_first + s->beat_count) % BEATS_MAX;

    timer_start_in(timer, BEAT_MS / 2 + below(s, BEAT_MS));
    if (s->actor->story->quiet || !s->id || s->beat_count == BEATS_MAX) return;
    if (!s->keeper && rpc_call_start(s->channel, &options, &events, s, &s->keeper)) return;
    ask.id = s->id;
    if (send_on(s, s->keeper, &ask.base)) {
        rpc_call_cancel(s->keeper);
        return;
    }
    s->beats[last].id = s->id;
    s->beats[last].sent = sim_now(world_of(s));
    s->beats[last].after_revoke = s->revoked;
    s->beat_count++;
}

/* -- life -- */

static void gone(void *owner)
{
    struct streams *s = owner;

    timer_deinit(&s->watch_again);
    timer_deinit(&s->lease);
    timer_deinit(&s->beat);
    arena_deinit(&s->arena);
    buf_deinit(&s->bytes);
    free(s);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct streams *s = calloc(1, sizeof *s);
    struct rpc_channel_options options = store_channel(io);
    enum err err;

    if (!s) return ERR_NOMEM;
    s->actor = context;
    s->io = io;
    prng_seed(&s->prng, entropy_u64(io->entropy));
    arena_init(&s->arena, ARENA_MAX);
    buf_init(&s->bytes, BYTES_MAX);
    err = timer_init(&s->watch_again, io->loop, on_watch_again);
    if (!err) err = timer_init(&s->lease, io->loop, on_lease);
    if (!err) err = timer_init(&s->beat, io->loop, on_beat);
    if (!err) err = rpc_channel_open(&options, &s->channel, NULL);
    if (err) {
        gone(s);
        return err;
    }
    timer_start_in(&s->watch_again, 1 + below(s, 100));
    timer_start_in(&s->beat, 1 + below(s, BEAT_MS));
    lease_think(s);
    *ret_state = s;
    return ERR_OK;
}

static void destroy(void *state)
{
    struct streams *s = state;

    s->dying = true;
    rpc_channel_close(s->channel, gone, s);
}

const struct sim_process_ops store_streams_ops = {start, NULL, destroy};
