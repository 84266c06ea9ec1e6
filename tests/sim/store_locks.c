/* SPDX-License-Identifier: Apache-2.0 */
/* A client of etcd's Lock service: a lease, and one lock that all of them want, at any replica. The
 * client waits, hangs up, unlocks, or leaves the lock to its lease.
 *
 * The key of a Lock response must be the lock's first key in the log at the revision of the
 * response, so no two clients have the lock at one revision. That revision is never older than one
 * that any client received before the request. The key exists until the client unlocks or its lease
 * ends: no call that it gave up earlier, at any replica, deletes the key. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/client.h"
#include "store_story.h"
#include "wire/message.h"
#include "wire/pb/etcd_lock.pb-c.h"
#include "wire/pb/etcd_rpc.pb-c.h"

enum {
    THINK_MS_MAX = 60,
    HOLD_MS_MAX = 200,
    TIMEOUT_MS = 6000,
    HASTE_MS_MAX = 300, /* of a client that does not wait */
    ARENA_MAX = 1 << 20,
    KEY_MAX = 64,
    KEYS_MAX = 1024,
};
#define NAME "a" /* before "e/": the other clients of etcd's API delete ranges from "e/" on */
enum want { WANT_LEASE, WANT_LOCK, WANT_UNLOCK };

struct locker {
    struct store_actor *actor;
    struct rpc_channel *channel;
    struct timer think;
    struct prng prng;
    struct arena answer;
    struct buf bytes;
    enum want want;
    uint64_t acked;       /* newest revision that any client had received at the request */
    int64_t lease;        /* 0: none */
    sim_time sure_until;  /* the lease cannot end before, by any clock */
    bool unlock_doubtful; /* an unlock without an answer: it may still be done */
    uint64_t locked_at;   /* revision of the Lock response */
    char key[KEY_MAX];
    size_t key_len; /* 0: it has no lock */
    bool dying;
};

static void think(struct locker *l, uint64_t ms_max)
{
    timer_start_in(&l->think, 1 + prng_below(&l->prng, ms_max));
}

/* -- the owner of the lock -- */
struct key_life {
    uint64_t key, create;
};

/* The keys of the lock at a revision; returns how many. */
static size_t keys_at(const struct store_witness *w, uint64_t revision, struct key_life *keys)
{
    size_t count = 0;

    for (size_t i = 0; i < w->change_count && w->changes[i].revision <= revision; i++) {
        const struct store_change *change = &w->changes[i];
        size_t at = 0;

        if (!change->lock) continue;
        while (at < count && keys[at].key != change->key) at++;
        if (change->gone && at < count)
            keys[at] = keys[--count];
        else if (!change->gone && at == count && count < KEYS_MAX)
            keys[count++] = (struct key_life){change->key, change->revision};
    }
    return count;
}

static void judge(struct locker *l, uint64_t revision)
{
    static struct key_life keys[KEYS_MAX];
    struct store_story *story = l->actor->story;
    size_t count = keys_at(&story->witness, revision, keys), first = 0;

    for (size_t i = 1; i < count; i++)
        if (keys[i].create < keys[first].create) first = i;
    if (count == 0 || keys[first].key != str_hash(str_of(l->key, l->key_len), 1))
        store_wrong(story,
                    "k%zu: answered that %.*s has the lock at revision %" PRIu64 ": it has not",
                    l->actor->number, (int)l->key_len, l->key, revision);
    if (revision < l->acked)
        store_wrong(story, "k%zu: a lock of revision %" PRIu64 " after %" PRIu64 " was seen",
                    l->actor->number, revision, l->acked);
    story->witness.acked = max_u64(story->witness.acked, revision);
    story->witness.locks[l->actor->number]++;
}

static sim_time now(const struct locker *l)
{
    return sim_now(scenario_sim(l->actor->story->world));
}

/* Before the client unlocks, and while its lease cannot have ended. */
static void judge_held(const struct locker *l)
{
    const struct store_witness *w = &l->actor->story->witness;
    uint64_t key = str_hash(str_of(l->key, l->key_len), 1);

    if (l->unlock_doubtful || now(l).ns >= l->sure_until.ns) return;
    for (size_t i = w->change_count; i > 0 && w->changes[i - 1].revision > l->locked_at; i--)
        if (w->changes[i - 1].gone && w->changes[i - 1].key == key)
            store_wrong(l->actor->story,
                        "k%zu: its lock %.*s of revision %" PRIu64 " was taken away at %" PRIu64,
                        l->actor->number, (int)l->key_len, l->key, l->locked_at,
                        w->changes[i - 1].revision);
}

/* -- answers -- */
static ProtobufCMessage *read_as(struct locker *l, const ProtobufCMessageDescriptor *type,
                                 struct str message)
{
    ProtobufCMessage *read = NULL;
    struct note note = {""};

    arena_reset(&l->answer);
    if (message_read(type, message, NULL, &l->answer, &read, &note))
        store_wrong(l->actor->story, "k%zu: an answer that cannot be read: %s", l->actor->number,
                    note.text);
    return read;
}

static void locked(struct locker *l, const V3lockpb__LockResponse *m)
{
    if (!m || m->key.len > KEY_MAX || !m->header) return;
    l->key_len = m->key.len;
    memcpy(l->key, m->key.data, m->key.len);
    l->locked_at = (uint64_t)m->header->revision;
    judge(l, l->locked_at);
    if (prng_below(&l->prng, 5) == 0) { /* the lock is left to its lease */
        l->lease = 0;
        l->key_len = 0;
    }
}

static void refused(struct locker *l, const struct rpc_outcome *outcome)
{
    struct store_witness *w = &l->actor->story->witness;
    bool no_lease = str_equal(outcome->text, STR("etcdserver: requested lease not found"));
    bool expired = str_equal(outcome->text, STR("mutex: session is expired"));

    if (expired) w->locks_lost++;
    if (l->want == WANT_UNLOCK) l->unlock_doubtful = true;
    if (no_lease || expired)
        l->lease = 0;
    else
        rpc_channel_next_address(l->channel);
}

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct locker *l = owner;
    const Etcdserverpb__LeaseGrantResponse *granted;

    (void)call;
    if (l->dying) return;
    if (outcome->err) {
        refused(l, outcome);
    } else if (l->want == WANT_LEASE) {
        granted = (const Etcdserverpb__LeaseGrantResponse *)read_as(
            l, &etcdserverpb__lease_grant_response__descriptor, message);
        if (granted) l->lease = granted->id;
        l->unlock_doubtful = false;
    } else if (l->want == WANT_LOCK) {
        locked(l, (const V3lockpb__LockResponse *)read_as(l, &v3lockpb__lock_response__descriptor,
                                                          message));
    } else {
        l->key_len = 0;
    }
    think(l, l->key_len ? HOLD_MS_MAX : THINK_MS_MAX);
}

static void ask(struct locker *l, enum want want, const char *path, uint64_t timeout_ms,
                const ProtobufCMessage *message)
{
    struct rpc_call_options options = {
        .path = path, .timeout_ms = timeout_ms, .wait_for_ready = true, .attempts_max = 1};

    l->want = want;
    buf_clear(&l->bytes);
    if (message_write(message, &l->bytes, NULL) ||
        rpc_unary(l->channel, &options, buf_peek(&l->bytes), on_answer, l, NULL))
        think(l, THINK_MS_MAX);
}

static void on_think(struct timer *timer)
{
    struct locker *l = CONTAINER_OF(timer, struct locker, think);
    Etcdserverpb__LeaseGrantRequest grant = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    V3lockpb__LockRequest lock = V3LOCKPB__LOCK_REQUEST__INIT;
    V3lockpb__UnlockRequest unlock = V3LOCKPB__UNLOCK_REQUEST__INIT;
    bool hasty = prng_below(&l->prng, 4) == 0;

    if (l->actor->story->quiet) return;
    l->acked = l->actor->story->witness.acked;
    if (l->key_len) {
        judge_held(l);
        unlock.key = (ProtobufCBinaryData){l->key_len, (uint8_t *)l->key};
        ask(l, WANT_UNLOCK, "/v3lockpb.Lock/Unlock", TIMEOUT_MS, &unlock.base);
    } else if (!l->lease) {
        grant.ttl = 2 + (int64_t)prng_below(&l->prng, 3);
        l->sure_until = now(l);
        l->sure_until.ns += (uint64_t)grant.ttl * 10 * STORE_TRUST_PERCENT * NS_PER_MS;
        ask(l, WANT_LEASE, "/etcdserverpb.Lease/LeaseGrant", TIMEOUT_MS, &grant.base);
    } else {
        lock.name = (ProtobufCBinaryData){strlen(NAME), (uint8_t *)(uintptr_t)NAME};
        lock.lease = l->lease;
        ask(l, WANT_LOCK, "/v3lockpb.Lock/Lock",
            hasty ? 1 + prng_below(&l->prng, HASTE_MS_MAX) : TIMEOUT_MS, &lock.base);
    }
}

/* -- life -- */
static void gone(void *owner)
{
    struct locker *l = owner;

    timer_deinit(&l->think);
    arena_deinit(&l->answer);
    buf_deinit(&l->bytes);
    free(l);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct locker *l = calloc(1, sizeof *l);
    struct rpc_channel_options options = store_channel(io);
    enum err err;

    if (!l) return ERR_NOMEM;
    l->actor = context;
    prng_seed(&l->prng, entropy_u64(io->entropy));
    arena_init(&l->answer, ARENA_MAX);
    buf_init(&l->bytes, ARENA_MAX);
    err = timer_init(&l->think, io->loop, on_think);
    if (!err) err = rpc_channel_open(&options, &l->channel, NULL);
    if (err) {
        gone(l);
        return err;
    }
    think(l, THINK_MS_MAX);
    *ret_state = l;
    return ERR_OK;
}

static void destroy(void *state)
{
    struct locker *l = state;

    l->dying = true;
    rpc_channel_close(l->channel, gone, l);
}

const struct sim_process_ops store_locks_ops = {start, NULL, destroy};
