/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/prim/fake_backend.h"

#include <string.h>

#include "prim/answer.h"
#include "prim/names.h"

static struct fake *fake_of(struct prim_backend *backend)
{
    return CONTAINER_OF(backend, struct fake, base);
}

/* The start of every call; the answer is OK unless the test sets another. */
static coord_result called(struct prim_backend *backend, enum fault_op op,
                           const struct prim_call *call, int reason)
{
    struct fake *fake = fake_of(backend);
    coord_result result = prim_ok(reason);
    (void)pthread_mutex_lock(&fake->lock);
    fake->calls[op]++;
    fake->attempt = call->attempt;
    fake->request_id = call->request_id;
    result.revision = ++fake->revision;
    coord_result (*act)(struct fake *, enum fault_op, const struct prim_call *) = fake->act;
    (void)pthread_mutex_unlock(&fake->lock);
    if (act == NULL) { return result; }
    coord_result acted = act(fake, op, call);
    if (acted.code == COORD_OK && acted.revision == 0) { acted.revision = result.revision; }
    if (acted.code == COORD_OK && acted.reason == COORD_R_NONE) { acted.reason = reason; }
    return acted;
}

static void grant(struct fake *fake, coord_result *result, int64_t ttl_ms, const coord_id *lease_id,
                  struct prim_grant *ret_grant)
{
    if (result->code != COORD_OK || ttl_ms <= 0 || fake->grants_nothing) { return; }
    ret_grant->lease_id = *lease_id;
    ret_grant->token = ret_grant->create_revision = result->revision;
    ret_grant->granted_ttl_ms = ttl_ms;
    ret_grant->sent_ns = fake->sent_ns;
    result->token = result->revision;
}

static coord_caps fake_capabilities(struct prim_backend *backend)
{
    if (fake_of(backend)->closes > 0) { fake_of(backend)->late++; }
    return fake_of(backend)->caps;
}

static coord_result fake_create(struct prim_backend *backend, const struct prim_call *call,
                                const struct prim_create *in, struct prim_grant *ret_grant)
{
    coord_result result = called(backend, FAULT_CREATE, call, COORD_R_CREATED);
    grant(fake_of(backend), &result, in->ttl_ms, &in->lease_id, ret_grant);
    return result;
}

static coord_result fake_cas(struct prim_backend *backend, const struct prim_call *call,
                             const struct prim_cas *in, struct prim_grant *ret_grant)
{
    coord_result result = called(backend, FAULT_CAS, call, COORD_R_UPDATED);
    grant(fake_of(backend), &result, in->ttl_ms, &in->lease_id, ret_grant);
    return result;
}

static coord_result fake_remove(struct prim_backend *backend, const struct prim_call *call,
                                const struct prim_delete *in)
{
    (void)in;
    return called(backend, FAULT_DELETE, call, COORD_R_DELETED);
}

static coord_result fake_get(struct prim_backend *backend, const struct prim_call *call,
                             struct str key, int consistency, coord_entry **ret_entry)
{
    (void)consistency;
    coord_result result = called(backend, FAULT_GET, call, COORD_R_NONE);
    if (result.code == COORD_OK) {
        coord_entry like = {.revision = 7, .token = 5, .ttl_ms = 1000, .remaining_ms = -1};
        *ret_entry = prim_entry_make(&like, key, STR("value"), STR("somebody"));
    }
    return result;
}

static coord_result fake_acquire(struct prim_backend *backend, const struct prim_call *call,
                                 const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    coord_result result = called(backend, FAULT_ACQUIRE, call, COORD_R_ACQUIRED);
    ret_grant->slot = 0;
    grant(fake_of(backend), &result, in->ttl_ms, &in->lease_id, ret_grant);
    return result;
}

static coord_result fake_resize(struct prim_backend *backend, const struct prim_call *call,
                                struct str group, uint64_t expected, uint32_t slot_count)
{
    (void)group;
    (void)expected;
    (void)slot_count;
    return called(backend, FAULT_RESIZE, call, COORD_R_RESIZED);
}

static coord_result fake_holders(struct prim_backend *backend, const struct prim_call *call,
                                 struct str group, coord_holders **ret_holders)
{
    (void)group;
    coord_result result = called(backend, FAULT_HOLDERS, call, COORD_R_NONE);
    if (result.code == COORD_OK) {
        *ret_holders = prim_holders_make(1);
        (*ret_holders)->slot_count = 3;
        (*ret_holders)->revision = 9;
    }
    return result;
}

static void note_claim(struct prim_backend *backend, const struct prim_claim *claim)
{
    struct fake *fake = fake_of(backend);
    (void)pthread_mutex_lock(&fake->lock);
    fake->claim_count = claim->count;
    (void)pthread_mutex_unlock(&fake->lock);
}

static coord_result fake_renew(struct prim_backend *backend, const struct prim_call *call,
                               const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    note_claim(backend, claim);
    coord_result result = called(backend, FAULT_RENEW, call, COORD_R_RENEWED);
    *ret_sent_ns = fake_of(backend)->sent_ns;
    return result;
}

static coord_result fake_release(struct prim_backend *backend, const struct prim_call *call,
                                 const struct prim_claim *claim, const char *key)
{
    (void)key;
    note_claim(backend, claim);
    return called(backend, FAULT_RELEASE, call,
                  call->attempt > 0 ? COORD_R_ALREADY : COORD_R_RELEASED);
}

static coord_result fake_adopt(struct prim_backend *backend, const struct prim_call *call,
                               const struct prim_claim *claim, int64_t *ret_left_ms)
{
    note_claim(backend, claim);
    *ret_left_ms = fake_of(backend)->left_ms;
    return called(backend, FAULT_ADOPT, call, COORD_R_NONE);
}

static coord_result fake_watch(struct prim_backend *backend, const struct prim_call *call,
                               struct prim_feed *feed, void **ret_watch)
{
    struct fake *fake = fake_of(backend);
    if (prim_feed_since(feed) > 0) { /* of a guard */
        *ret_watch = fake;
        (void)pthread_mutex_lock(&fake->lock);
        fake->guarded++;
        (void)pthread_mutex_unlock(&fake->lock);
        return prim_ok(COORD_R_NONE);
    }
    coord_result result = called(backend, FAULT_WATCH, call, COORD_R_NONE);
    if (result.code == COORD_OK) {
        (void)pthread_mutex_lock(&fake->lock);
        fake->feed = feed;
        (void)pthread_mutex_unlock(&fake->lock);
        *ret_watch = feed;
        prim_feed_snapshot(feed, prim_snapshot_open(feed), 0);
    }
    return result;
}

static void fake_unwatch(struct prim_backend *backend, void *watch)
{
    struct fake *fake = fake_of(backend);
    (void)pthread_mutex_lock(&fake->lock);
    if (watch == fake) { fake->guarded--; }
    if (fake->feed == watch) { fake->feed = NULL; }
    (void)pthread_mutex_unlock(&fake->lock);
}

static void fake_close(struct prim_backend *backend)
{
    fake_of(backend)->closes++;
}

void fake_init(struct fake *fake)
{
    memset(fake, 0, sizeof *fake);
    (void)pthread_mutex_init(&fake->lock, NULL);
    fake->ops = (struct prim_backend_ops){
        .name = "fake",
        .guards_max = 1024,
        .capabilities = fake_capabilities,
        .create = fake_create,
        .cas = fake_cas,
        .remove = fake_remove,
        .get = fake_get,
        .acquire = fake_acquire,
        .resize = fake_resize,
        .holders = fake_holders,
        .renew = fake_renew,
        .release = fake_release,
        .adopt = fake_adopt,
        .watch = fake_watch,
        .unwatch = fake_unwatch,
        .close = fake_close,
    };
    fake->base.ops = &fake->ops;
    fake->caps = (coord_caps){
        .bits = UINT32_MAX & ~(COORD_CAP_FIFO_WAIT | COORD_CAP_LATE_RENEWAL),
        .scope = COORD_SCOPE_CLUSTER,
        .watch = COORD_WATCH_ORDERED,
        .server = "fake 1",
    };
    fake->base.id = prim_id_random();
    fake->base.limits = prim_limits(10, 1, PRIM_VALUE_MAX);
    fake->left_ms = -1;
}

static _Thread_local struct fake *opening;

static coord_result open_fake(const struct prim_open *in, struct prim_backend **ret_backend)
{
    opening->host = opening->base.host = in->host;
    opening->base.clock = in->clock;
    *ret_backend = &opening->base;
    return prim_ok(COORD_R_NONE);
}

coord_result fake_open(struct fake *fake, const coord_options *options, coord_store **ret_store)
{
    static const coord_options defaults;
    struct prim_url url;
    coord_result result = prim_url_parse("mem:", &url);
    if (result.code != COORD_OK) { return result; }
    opening = fake;
    result = prim_store_open(open_fake, &url, options != NULL ? options : &defaults, ret_store);
    prim_url_deinit(&url);
    return result;
}

int fake_calls(struct fake *fake, enum fault_op op)
{
    (void)pthread_mutex_lock(&fake->lock);
    int calls = fake->calls[op];
    (void)pthread_mutex_unlock(&fake->lock);
    return calls;
}

int fake_guarded(struct fake *fake)
{
    (void)pthread_mutex_lock(&fake->lock);
    int guarded = fake->guarded;
    (void)pthread_mutex_unlock(&fake->lock);
    return guarded;
}

int64_t turned_clock_now(void *arg)
{
    struct turned_clock *clock = arg;
    return atomic_load(&clock->now_ns);
}
