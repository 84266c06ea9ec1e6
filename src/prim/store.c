/* SPDX-License-Identifier: Apache-2.0 */
/* An open store: open and close, the frame around each call, retries, capabilities, reports of the
 * backend (store.h). Any thread.
 *
 * Invariants: no backend is called under store->lock. coord_close ends the threads in the order
 * async, keeper, guards, watches, backend. No call is under way when the backend closes. */
#include "prim/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "prim/answer.h"
#include "prim/lease.h"

/* -- fork ------------------------------------------------------------------------------------- */

atomic_uint prim_fork_generation = 1;

static void in_child(void)
{
    atomic_fetch_add_explicit(&prim_fork_generation, 1, memory_order_relaxed);
}

static void store_watch_forks(void)
{
    /* Counts forks, because pids are reused. The handler is never removed: the library stays loaded
     * while a store is open, and glibc drops the handlers of an unloaded library. */
    (void)pthread_atfork(NULL, NULL, in_child);
}

coord_result prim_usable(const coord_store *store)
{
    if (store == NULL)
        return prim_answer(COORD_INVALID, COORD_R_HANDLE, "the store handle is NULL");
    if (store->generation != atomic_load_explicit(&prim_fork_generation, memory_order_relaxed)) {
        return prim_answer(COORD_INVALID, COORD_R_HANDLE,
                           "this store was opened before fork(): open one in the child");
    }
    return prim_ok(COORD_R_NONE);
}

/* -- helpers -- */

coord_store *prim_store_ref(coord_store *store)
{
    atomic_fetch_add_explicit(&store->refs, 1, memory_order_relaxed);
    return store;
}

void prim_store_unref(coord_store *store)
{
    if (atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) != 1) return;
    assert(list_empty(&store->leases) && list_empty(&store->watches));
    (void)pthread_cond_destroy(&store->changed);
    (void)pthread_mutex_destroy(&store->lock);
    free(store);
}

int64_t prim_random_below(int64_t bound)
{
    assert(bound > 0);
    return (int64_t)(prim_random() % (uint64_t)bound); /* for delays; modulo bias is harmless */
}

/* -- capabilities ----------------------------------------------------------------------------- */

static const struct {
    uint32_t bit;
    const char *name;
} cap_names[] = {
    {COORD_CAP_CREATE, "CREATE (atomic create_if_absent)"},
    {COORD_CAP_CAS, "CAS (compare_and_set)"},
    {COORD_CAP_TTL, "TTL (leases that end)"},
    {COORD_CAP_SLOTS, "SLOTS"},
    {COORD_CAP_COOLDOWN, "COOLDOWN"},
    {COORD_CAP_MULTI_KEY, "MULTI_KEY (several keys under one lease)"},
    {COORD_CAP_FORCE, "FORCE (delete another's entry)"},
};

coord_result prim_need(coord_store *store, uint32_t bits)
{
    coord_caps caps = store->backend->ops->capabilities(store->backend);
    uint32_t missing = bits & ~caps.bits;
    for (size_t i = 0; i < ARRAY_LEN(cap_names); i++) {
        if (missing & cap_names[i].bit) {
            return prim_answer(COORD_UNSUPPORTED, COORD_R_CAPABILITY,
                               "this store (%.90s) lacks COORD_CAP_%s", caps.server,
                               cap_names[i].name);
        }
    }
    assert(missing == 0);
    return prim_ok(COORD_R_NONE);
}

coord_result prim_need_grant(coord_store *store, uint32_t bits)
{
    coord_result refusal = prim_ok(COORD_R_NONE);
    (void)pthread_mutex_lock(&store->lock);
    if (store->degraded[0] != '\0') {
        refusal = prim_answer(COORD_UNSUPPORTED, COORD_R_DEGRADED,
                              "the store lost a capability while open: %s", store->degraded);
    }
    (void)pthread_mutex_unlock(&store->lock);
    return refusal.code == COORD_OK ? prim_need(store, bits) : refusal;
}

/* Under the lock. Unit: thousandths of a renewal per second. */
static int64_t renewals_expected(const coord_store *store)
{
    int64_t milli = 0;
    LIST_EACH(&store->leases, node)
    {
        const coord_lease *lease = CONTAINER_OF(node, coord_lease, node);
        if (lease->kept && lease->over == 0) { milli += INT64_C(3000000) / lease->ttl_ms; } /* T7 */
    }
    return milli;
}

/* Puts the load first, because the end of a long note is truncated. */
static void note_load(coord_caps *caps, int64_t milli, uint32_t most)
{
    char note[sizeof caps->note];
    memcpy(note, caps->note, sizeof note);
    int len =
        snprintf(caps->note, sizeof caps->note,
                 "the leases kept here make %lld renewals a second, more than %u are a burden: "
                 "longer TTLs, or another store",
                 (long long)((milli + 999) / 1000), most);
    assert(len > 0 && (size_t)len < sizeof caps->note);
    if (note[0] != '\0') {
        (void)snprintf(caps->note + len, sizeof caps->note - (size_t)len, "; %.*s",
                       (int)(sizeof caps->note - (size_t)len - 3), note);
    }
}

coord_caps coord_capabilities(coord_store *store)
{
    if (prim_usable(store).code != COORD_OK) return (coord_caps){.bits = 0};
    coord_caps caps = store->backend->ops->capabilities(store->backend);
    (void)pthread_mutex_lock(&store->lock);
    if (store->degraded[0] != '\0') caps.degraded = 1;
    uint32_t most = store->backend->ops->renewals_max;
    int64_t milli = most > 0 ? renewals_expected(store) : 0;
    (void)pthread_mutex_unlock(&store->lock);
    if (milli > (int64_t)most * 1000) note_load(&caps, milli, most);
    return caps;
}

coord_limits coord_store_limits(coord_store *store)
{
    return prim_usable(store).code == COORD_OK ? store->backend->limits
                                               : (coord_limits){.key_max = 0};
}

coord_id coord_store_id(coord_store *store)
{
    coord_id none = {{0}};
    return store == NULL ? none : store->id;
}

/* -- one call --------------------------------------------------------------------------------- */

coord_result prim_enter(coord_store *store, const coord_call *call, int64_t extra_ms,
                        struct prim_frame *ret_frame)
{
    int64_t timeout_ms =
        call == NULL || call->timeout_ms == 0 ? PRIM_TIMEOUT_DEFAULT_MS : call->timeout_ms;
    if (timeout_ms < 1 || timeout_ms > PRIM_TIMEOUT_MAX_MS) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "timeout of %" PRId64 " ms: 1-%d ms",
                           timeout_ms, PRIM_TIMEOUT_MAX_MS);
    }
    (void)pthread_mutex_lock(&store->lock);
    bool closing = store->closing;
    if (!closing) store->inside++;
    (void)pthread_mutex_unlock(&store->lock);
    if (closing) return prim_answer(COORD_UNAVAILABLE, COORD_R_CLOSED, "the store was closed");
    int64_t allowed_ns = (timeout_ms + extra_ms) * PRIM_NS_PER_MS;
    *ret_frame = (struct prim_frame){.began_ns = prim_clock_now(&store->clock)};
    ret_frame->real_deadline_ns = prim_boottime_ns(NULL) + allowed_ns;
    ret_frame->call.deadline_ns = ret_frame->began_ns + allowed_ns;
    ret_frame->own_id = call == NULL || prim_id_is_zero(&call->request_id);
    ret_frame->call.request_id = ret_frame->own_id ? prim_id_request() : call->request_id;
    return prim_ok(COORD_R_NONE);
}

void prim_leave(coord_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    assert(store->inside > 0);
    if (--store->inside == 0) (void)pthread_cond_broadcast(&store->changed);
    (void)pthread_mutex_unlock(&store->lock);
}

bool prim_pause_ms(coord_store *store, int64_t ms)
{
    struct timespec until = prim_until_ms(ms);
    int waited = 0;
    (void)pthread_mutex_lock(&store->lock);
    while (!store->closing && waited == 0)
        waited = pthread_cond_timedwait(&store->changed, &store->lock, &until);
    bool open = !store->closing;
    (void)pthread_mutex_unlock(&store->lock);
    return open;
}

static bool worth_a_retry(const coord_result *result)
{
    return result->code == COORD_UNAVAILABLE &&
           ((result->flags & COORD_F_MAYBE_APPLIED) || result->reason == COORD_R_CONNECTION ||
            result->reason == COORD_R_NO_LEADER);
}

static coord_result try_once(struct prim_backend *backend, const struct prim_call *call,
                             struct prim_try *try)
{
    const struct prim_backend_ops *ops = backend->ops;
    switch (try->op) {
    case COORD_OP_CREATE: return ops->create(backend, call, &try->in.create, &try->grant);
    case COORD_OP_CAS: return ops->cas(backend, call, &try->in.cas, &try->grant);
    case COORD_OP_DELETE: return ops->remove(backend, call, &try->in.remove);
    case COORD_OP_GET:
        return ops->get(backend, call, try->in.get.key, try->in.get.consistency, &try->entry);
    case COORD_OP_ACQUIRE: return ops->acquire(backend, call, &try->in.acquire, &try->grant);
    case COORD_OP_RESIZE:
        return ops->resize(backend, call, try->in.group.key, try->in.group.expected,
                           try->in.group.slot_count);
    case COORD_OP_HOLDERS: return ops->holders(backend, call, try->in.group.key, &try->holders);
    case COORD_OP_RENEW: return ops->renew(backend, call, try->in.lease.claim, &try->sent_ns);
    case COORD_OP_RELEASE:
        return ops->release(backend, call, try->in.lease.claim, try->in.lease.key);
    case PRIM_OP_ADOPT: return ops->adopt(backend, call, try->in.lease.claim, &try->left_ms);
    case PRIM_OP_WATCH: return ops->watch(backend, call, try->in.feed, &try->watch);
    }
    abort(); /* nothing else can be done */
}

coord_result prim_attempts(coord_store *store, struct prim_frame *frame, struct prim_try *try)
{
    int64_t pause_ms = PRIM_RETRY_FIRST_MS;
    bool unclear = false;
    for (;;) { /* ends by the deadline: each round waits at least 40 ms */
        try->grant = (struct prim_grant){.slot = COORD_NO_SLOT};
        try->sent_ns = 0;
        try->left_ms = -1;
        coord_result result = try_once(store->backend, &frame->call, try);
        unclear |= (result.flags & COORD_F_MAYBE_APPLIED) != 0;
        /* If a repeat did not reach the server, the earlier attempt may still have been applied. */
        if (result.code == COORD_UNAVAILABLE && unclear) result.flags |= COORD_F_MAYBE_APPLIED;
        if (!worth_a_retry(&result)) return result;
        int64_t wait_ms = pause_ms - pause_ms / 5 + prim_random_below(pause_ms * 2 / 5 + 1);
        int64_t left_ns = frame->call.deadline_ns - prim_clock_now(&store->clock);
        int64_t real_left_ns = frame->real_deadline_ns - prim_boottime_ns(NULL);
        if (real_left_ns < left_ns) left_ns = real_left_ns;
        if (left_ns <= wait_ms * PRIM_NS_PER_MS) return result;
        if (!prim_pause_ms(store, wait_ms)) {
            result.reason = COORD_R_CLOSED;
            return result;
        }
        frame->call.attempt++;
        pause_ms = pause_ms * 2 < PRIM_RETRY_MAX_MS ? pause_ms * 2 : PRIM_RETRY_MAX_MS;
    }
}

/* -- reports of a backend --------------------------------------------------------------------- */

static void on_backend_lost(struct prim_host *host, const coord_id *lease_id, int reason,
                            uint64_t token)
{
    coord_store *store = CONTAINER_OF(host, coord_store, host);
    (void)pthread_mutex_lock(&store->lock);
    LIST_EACH(&store->leases, node)
    {
        coord_lease *lease = CONTAINER_OF(node, coord_lease, node);
        if (!prim_id_equal(&lease->id, lease_id)) continue;
        /* This handle may have dropped the event's key, so ask the store about the remaining
         * keys. */
        if (lease->changes > 0 && lease->kept)
            prim_keeper_hear(lease, (struct keeper_event){.kind = KEEPER_ASK});
        else if (lease->changes == 0)
            prim_keeper_lost(lease, reason, token);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

static void on_backend_degraded(struct prim_host *host, const char *why)
{
    coord_store *store = CONTAINER_OF(host, coord_store, host);
    (void)pthread_mutex_lock(&store->lock);
    if (store->degraded[0] == '\0') {
        (void)snprintf(store->degraded, sizeof store->degraded, "%s",
                       why[0] != '\0' ? why : "no reason given");
    }
    LIST_EACH(&store->leases, node)
    {
        prim_keeper_lost(CONTAINER_OF(node, coord_lease, node), COORD_R_REVOKED, 0);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

/* -- open and close --------------------------------------------------------------------------- */

static coord_store *store_make(const coord_options *options)
{
    coord_store *store = calloc(1, sizeof *store);
    if (store == NULL) return NULL;
    store->host = (struct prim_host){on_backend_lost, on_backend_degraded};
    store->options = *options;
    store->options.tls_ca_file = store->options.tls_cert_file = store->options.tls_key_file = NULL;
    store->clock = options->now == NULL ? (struct prim_clock){prim_boottime_ns, NULL}
                                        : (struct prim_clock){options->now, options->now_arg};
    store->generation = atomic_load_explicit(&prim_fork_generation, memory_order_relaxed);
    atomic_init(&store->refs, 1);
    (void)pthread_mutex_init(&store->lock, NULL);
    prim_cond_init(&store->changed);
    list_init(&store->leases);
    list_init(&store->watches);
    return store;
}

static const char *const scope_names[] = {"any", "process", "mount", "host", "cluster"};

static coord_result check_scope(coord_store *store, int required)
{
    coord_caps caps = store->backend->ops->capabilities(store->backend);
    if (caps.scope >= required) return prim_ok(COORD_R_NONE);
    return prim_answer(
        COORD_UNSUPPORTED, COORD_R_SCOPE,
        "this store's promise reaches as far as the %s; %s was required",
        caps.scope >= 0 && caps.scope < (int)ARRAY_LEN(scope_names) ? scope_names[caps.scope] : "?",
        scope_names[required]);
}

static coord_result check_options(const coord_options *options)
{
    if (options->require_scope < 0 || options->require_scope > COORD_SCOPE_CLUSTER) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT, "require_scope %d: 0-%d",
                           options->require_scope, COORD_SCOPE_CLUSTER);
    }
    if (options->open_timeout_ms < 0 || options->open_timeout_ms > PRIM_TIMEOUT_MAX_MS) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                           "open_timeout of %" PRId64 " ms: 0 (10,000) or 1-%d ms",
                           options->open_timeout_ms, PRIM_TIMEOUT_MAX_MS);
    }
    if (options->async_threads > PRIM_ASYNC_THREADS_MAX || options->async_max > PRIM_ASYNC_MAX)
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                           "async_threads: at most %d; async_max: at most %d",
                           PRIM_ASYNC_THREADS_MAX, PRIM_ASYNC_MAX);
    return prim_ok(COORD_R_NONE);
}

/* Without guards, only renewals detect the loss of a key. */
static coord_result open_guards(coord_store *store)
{
    const struct prim_backend_ops *ops = store->backend->ops;
    if (ops->guards_max == 0 || ops->capabilities(store->backend).watch == COORD_WATCH_NONE)
        return prim_ok(COORD_R_NONE);
    store->guards = prim_guards_open(store->backend);
    return store->guards != NULL ? prim_ok(COORD_R_NONE) : prim_no_memory();
}

coord_result prim_store_open(prim_open_fn *open, struct prim_url *url, const coord_options *options,
                             coord_store **ret_store)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, store_watch_forks);
    coord_result result = check_options(options);
    if (result.code != COORD_OK) return result;
    coord_store *store = store_make(options);
    if (store == NULL) return prim_no_memory();
    int64_t allowed_ms =
        options->open_timeout_ms == 0 ? PRIM_OPEN_TIMEOUT_MS : options->open_timeout_ms;
    struct prim_open in = {
        .url = url,
        .options = options,
        .clock = store->clock,
        .host = &store->host,
        .deadline_ns = prim_clock_now(&store->clock) + allowed_ms * PRIM_NS_PER_MS,
    };
    result = open(&in, &store->backend);
    if (result.code == COORD_OK) {
        result = prim_url_done(url);
        if (result.code == COORD_OK) result = check_scope(store, options->require_scope);
        if (result.code == COORD_OK) result = open_guards(store);
        if (result.code == COORD_OK) result = prim_async_open(store);
        if (result.code == COORD_OK) {
            store->id = store->backend->id;
            *ret_store = store;
            return prim_ok(COORD_R_NONE);
        }
        prim_guards_close(store->guards);
        store->backend->ops->close(store->backend);
    }
    prim_store_unref(store);
    return result;
}

/* Releases leases one by one within one time limit. Leases not released in time expire. */
static void release_all(coord_store *store)
{
    int64_t until_ns = prim_boottime_ns(NULL) + PRIM_CLOSE_RELEASE_MS * PRIM_NS_PER_MS;
    for (;;) {
        coord_lease *lease = NULL;
        (void)pthread_mutex_lock(&store->lock);
        LIST_EACH(&store->leases, node)
        {
            coord_lease *candidate = CONTAINER_OF(node, coord_lease, node);
            if (candidate->over == 0) {
                lease = candidate;
                break;
            }
        }
        if (lease == NULL) {
            (void)pthread_mutex_unlock(&store->lock);
            return;
        }
        (void)prim_lease_end(lease, COORD_R_RELEASED, 0);
        struct held_lease_view view;
        prim_lease_view_locked(lease, &view);
        char owner[sizeof lease->owner]; /* a copy, because the handle may be freed meanwhile */
        memcpy(owner, lease->owner, sizeof owner);
        view.claim.owner = owner;
        lease->release_done = true;
        (void)pthread_mutex_unlock(&store->lock);
        int64_t left_ns = until_ns - prim_boottime_ns(NULL);
        if (left_ns > 0) {
            struct prim_call call = {.deadline_ns = prim_clock_now(&store->clock) + left_ns,
                                     .request_id = prim_id_request()};
            (void)store->backend->ops->release(store->backend, &call, &view.claim, NULL);
        }
        prim_lease_view_done(&view);
    }
}

void coord_close(coord_store *store)
{
    /* A forked child has no threads, and its locks may never be released. So its copy of the store
     * stays open. */
    if (prim_usable(store).code != COORD_OK) return;
    (void)pthread_mutex_lock(&store->lock);
    assert(!store->closing);
    store->closing = true;
    (void)pthread_cond_broadcast(&store->changed);
    (void)pthread_mutex_unlock(&store->lock);
    if (store->backend->ops->wake != NULL) store->backend->ops->wake(store->backend);
    prim_async_stop(store);
    prim_keeper_stop(store);
    (void)pthread_mutex_lock(&store->lock);
    while (store->inside > 0) (void)pthread_cond_wait(&store->changed, &store->lock);
    (void)pthread_mutex_unlock(&store->lock);
    prim_guards_close(store->guards);
    if (!store->options.keep_on_close) release_all(store);
    prim_watch_end_all(store);
    store->backend->ops->close(store->backend);
    prim_async_close(store); /* last, because done() may take any time */
    prim_store_unref(store);
}
