/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous calls: library threads make the blocking call, and the caller's own loop
 * dispatches the results.
 *
 * Invariants: at most `max` started calls are not dispatched yet. done() runs on the thread that
 * dispatches, never on a library thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "prim/answer.h"
#include "prim/store.h"

enum {
    ASYNC_THREADS_DEFAULT = 8,
    ASYNC_DEFAULT = 4096,
};

struct async_call {
    coord_request request; /* strings point into `bytes` */
    struct list node;
    coord_done_fn done;
    void *arg;
    coord_done answer;
    char bytes[];
};

struct prim_async {
    coord_store *store;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct list waiting, finished;
    size_t waiting_count, taken; /* taken: accepted calls whose done() was not called */
    size_t max;
    pthread_t threads[PRIM_ASYNC_THREADS_MAX];
    unsigned thread_count, thread_max, idle;
    int fd;
    bool stopping;
};

coord_result prim_async_open(coord_store *store)
{
    struct prim_async *async = calloc(1, sizeof *async);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (async == NULL || fd < 0) {
        if (fd >= 0) (void)close(fd);
        free(async);
        return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "no memory or descriptor");
    }
    async->store = store;
    async->fd = fd;
    async->thread_max =
        store->options.async_threads != 0 ? store->options.async_threads : ASYNC_THREADS_DEFAULT;
    async->max = store->options.async_max != 0 ? store->options.async_max : ASYNC_DEFAULT;
    list_init(&async->waiting);
    list_init(&async->finished);
    (void)pthread_mutex_init(&async->lock, NULL);
    (void)pthread_cond_init(&async->work, NULL);
    store->async = async;
    return prim_ok(COORD_R_NONE);
}

/* -- a call ----------------------------------------------------------------------------------- */

static coord_str copy_str(char **at, coord_str from)
{
    struct str copy = str_put(at, prim_str(from));
    return (coord_str){copy.at, copy.len};
}

static const char *async_copy_text(char **at, const char *from)
{
    return from == NULL ? NULL : str_put(at, str_of(from, strlen(from) + 1)).at;
}

/* Copies only the operation's fields, because other fields may be uninitialised. */
static coord_request request_fields(const coord_request *from)
{
    int op = from->op;
    coord_request request = {.op = op, .call = from->call};
    if (op == COORD_OP_ACQUIRE) {
        request.slot = from->slot;
        return request;
    }
    if (op != COORD_OP_RENEW && op != COORD_OP_RELEASE) request.key = from->key;
    if (op == COORD_OP_CREATE || op == COORD_OP_CREATE_UNDER || op == COORD_OP_CAS)
        request.value = from->value;
    if (op == COORD_OP_CREATE || op == COORD_OP_CAS) {
        request.owner = from->owner;
        request.ttl_ms = from->ttl_ms;
    }
    if (op != COORD_OP_CREATE && op != COORD_OP_GET && op != COORD_OP_RESIZE &&
        op != COORD_OP_HOLDERS)
        request.lease = from->lease;
    request.expected = from->expected;
    request.consistency = from->consistency;
    request.slot_count = from->slot_count;
    return request;
}

static struct async_call *call_make(const coord_request *request, coord_done_fn done, void *arg)
{
    size_t owners = (request->owner != NULL ? strlen(request->owner) + 1 : 0) +
                    (request->slot.owner != NULL ? strlen(request->slot.owner) + 1 : 0);
    struct async_call *call =
        calloc(1, sizeof *call + request->key.len + request->value.len + request->slot.group.len +
                      request->slot.value.len + owners);
    if (call == NULL) return NULL;
    char *at = call->bytes;
    call->request = *request;
    call->request.key = copy_str(&at, request->key);
    call->request.value = copy_str(&at, request->value);
    call->request.slot.group = copy_str(&at, request->slot.group);
    call->request.slot.value = copy_str(&at, request->slot.value);
    call->request.owner = async_copy_text(&at, request->owner);
    call->request.slot.owner = async_copy_text(&at, request->slot.owner);
    call->done = done;
    call->arg = arg;
    if (request->lease != NULL) (void)coord_lease_ref(request->lease);
    list_init(&call->node);
    return call;
}

static void call_free(struct async_call *call)
{
    coord_lease_unref(call->request.lease);
    free(call);
}

static void call_run(coord_store *store, struct async_call *call)
{
    const coord_request *in = &call->request;
    coord_done *out = &call->answer;
    switch ((enum coord_op)in->op) {
    case COORD_OP_CREATE:
        out->result = coord_create_if_absent(store, &in->call, in->key, in->value, in->ttl_ms,
                                             in->owner, &out->lease);
        return;
    case COORD_OP_CREATE_UNDER:
        out->result = coord_create_under(in->lease, &in->call, in->key, in->value);
        return;
    case COORD_OP_CAS:
        out->result = coord_compare_and_set(store, &in->call, in->key, in->expected, in->value,
                                            in->ttl_ms, in->owner, in->lease, &out->lease);
        return;
    case COORD_OP_DELETE:
        out->result = coord_delete(store, &in->call, in->key, in->expected, in->lease);
        return;
    case COORD_OP_GET:
        out->result = coord_get(store, &in->call, in->key, in->consistency, &out->entry);
        return;
    case COORD_OP_ACQUIRE:
        out->result = coord_acquire_slot(store, &in->call, &in->slot, &out->lease);
        return;
    case COORD_OP_RESIZE:
        out->result = coord_resize_group(store, &in->call, in->key, in->expected, in->slot_count);
        return;
    case COORD_OP_HOLDERS:
        out->result = coord_list_holders(store, &in->call, in->key, &out->holders);
        return;
    case COORD_OP_RENEW: out->result = coord_renew(in->lease, &in->call); return;
    case COORD_OP_RELEASE: out->result = coord_release(in->lease, &in->call); return;
    case COORD_OP_RELEASE_KEY:
        out->result = coord_release_key(in->lease, &in->call, in->key);
        return;
    }
    assert(false); /* coord_start refuses other operations */
}

/* -- the threads ------------------------------------------------------------------------------ */

/* Under async->lock. */
static void call_finish(struct prim_async *async, struct async_call *call)
{
    uint64_t one = 1;
    list_append(&async->finished, &call->node);
    (void)!write(async->fd, &one, sizeof one); /* on EAGAIN the descriptor is readable already */
}

static void *async_thread(void *arg)
{
    struct prim_async *async = arg;
    (void)pthread_mutex_lock(&async->lock);
    while (!async->stopping) {
        struct list *node = list_pop(&async->waiting);
        if (node == NULL) {
            async->idle++;
            (void)pthread_cond_wait(&async->work, &async->lock);
            async->idle--;
            continue;
        }
        async->waiting_count--;
        (void)pthread_mutex_unlock(&async->lock);
        struct async_call *call = CONTAINER_OF(node, struct async_call, node);
        call_run(async->store, call);
        (void)pthread_mutex_lock(&async->lock);
        call_finish(async, call);
    }
    (void)pthread_mutex_unlock(&async->lock);
    return NULL;
}

/* Under async->lock. True: a thread will run the waiting calls. */
static bool async_has_thread(struct prim_async *async)
{
    if (async->idle < async->waiting_count && async->thread_count < async->thread_max &&
        prim_thread_start(&async->threads[async->thread_count], async_thread, async))
        async->thread_count++;
    return async->thread_count > 0;
}

/* After an error the call is freed. */
static coord_result async_take(struct prim_async *async, struct async_call *own_call)
{
    coord_result result = prim_ok(COORD_R_NONE);
    (void)pthread_mutex_lock(&async->lock);
    async->waiting_count++; /* first, so that a thread is started for this call too */
    if (async->stopping) {
        result = prim_answer(COORD_UNAVAILABLE, COORD_R_CLOSED, "the store was closed");
    } else if (async->taken >= async->max) {
        result = prim_answer(COORD_UNAVAILABLE, COORD_R_OVERLOADED,
                             "%zu calls are started and not dispatched: the limit (async_max)",
                             async->max);
    } else if (!async_has_thread(async)) {
        result = prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "no thread can be started");
    }
    if (result.code == COORD_OK) {
        list_append(&async->waiting, &own_call->node);
        async->taken++;
        (void)pthread_cond_signal(&async->work);
        (void)pthread_mutex_unlock(&async->lock);
        return result;
    }
    async->waiting_count--;
    (void)pthread_mutex_unlock(&async->lock);
    call_free(own_call);
    return result;
}

coord_result coord_start(coord_store *store, const coord_request *request, coord_done_fn done,
                         void *arg)
{
    coord_result result = prim_usable(store);
    if (result.code != COORD_OK) return result;
    if (request == NULL || done == NULL || request->op < COORD_OP_CREATE ||
        request->op > COORD_OP_RELEASE_KEY) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                           "a request with one of enum coord_op, and done, are needed");
    }
    coord_request read = request_fields(request);
    struct async_call *call = call_make(&read, done, arg);
    if (call == NULL) return prim_no_memory();
    return async_take(store->async, call);
}

int coord_fd(coord_store *store)
{
    return store->async->fd;
}

static size_t async_dispatch(struct prim_async *async)
{
    struct list ready;
    struct list *node;
    uint64_t count;
    size_t ran = 0;
    list_init(&ready);
    (void)pthread_mutex_lock(&async->lock);
    (void)!read(async->fd, &count, sizeof count); /* EAGAIN: another thread dispatched */
    list_splice(&ready, &async->finished);
    (void)pthread_mutex_unlock(&async->lock);
    while ((node = list_pop(&ready)) != NULL) {
        struct async_call *call = CONTAINER_OF(node, struct async_call, node);
        (void)pthread_mutex_lock(&async->lock);
        async->taken--; /* before done(), which may start the next call */
        (void)pthread_mutex_unlock(&async->lock);
        call->done(call->arg, &call->answer);
        call_free(call);
        ran++;
    }
    return ran;
}

size_t coord_dispatch(coord_store *store)
{
    return prim_usable(store).code == COORD_OK ? async_dispatch(store->async) : 0;
}

void prim_async_stop(coord_store *store)
{
    struct prim_async *async = store->async;
    struct list *node;
    (void)pthread_mutex_lock(&async->lock);
    async->stopping = true;
    while ((node = list_pop(&async->waiting)) != NULL) {
        struct async_call *call = CONTAINER_OF(node, struct async_call, node);
        call->answer.result =
            prim_answer(COORD_UNAVAILABLE, COORD_R_CLOSED, "the store was closed");
        call_finish(async, call);
    }
    async->waiting_count = 0;
    (void)pthread_cond_broadcast(&async->work);
    (void)pthread_mutex_unlock(&async->lock);
    for (unsigned i = 0; i < async->thread_count; i++) (void)pthread_join(async->threads[i], NULL);
}

void prim_async_close(coord_store *store)
{
    struct prim_async *async = store->async;
    if (async == NULL) return;
    (void)async_dispatch(async);
    assert(async->taken == 0);
    (void)close(async->fd);
    (void)pthread_cond_destroy(&async->work);
    (void)pthread_mutex_destroy(&async->lock);
    store->async = NULL;
    free(async);
}
