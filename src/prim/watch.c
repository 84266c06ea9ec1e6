/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of a store. Each watch has one queue (prim/feed.h) that the backend fills from its own
 * threads. The reader may close its watch at any time, also while the store is closing. */
#include <stdlib.h>

#include "prim/answer.h"
#include "prim/names.h"
#include "prim/store.h"

struct coord_watch {
    coord_store *store; /* referenced */
    struct prim_feed *feed;
    struct list node;
    void *backend_watch;
    bool open; /* the backend may fill the queue; guarded by store->lock */
};

coord_result coord_watch_open(coord_store *store, const coord_call *call, coord_str scope,
                              uint32_t flags, coord_watch **ret_watch)
{
    struct prim_frame frame;
    coord_result result = prim_usable(store);
    if (result.code != COORD_OK) return result;
    bool bucket = (flags & COORD_WATCH_BUCKET) != 0;
    result = bucket ? prim_check_group(prim_str(scope)) : prim_check_key(prim_str(scope));
    if (result.code != COORD_OK) return result;
    if (ret_watch == NULL || (flags & ~COORD_WATCH_BUCKET)) {
        return prim_answer(COORD_INVALID, COORD_R_ARGUMENT,
                           "ret_watch is needed; flags: 0 or COORD_WATCH_BUCKET");
    }
    if (store->backend->ops->capabilities(store->backend).watch == COORD_WATCH_NONE)
        return prim_answer(COORD_UNSUPPORTED, COORD_R_CAPABILITY, "this store cannot watch");
    result = prim_enter(store, call, 0, &frame);
    if (result.code != COORD_OK) return result;
    coord_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL ||
        (watch->feed = prim_feed_open((struct prim_scope){prim_str(scope), bucket})) == NULL) {
        free(watch);
        prim_leave(store);
        return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY,
                           "no memory or descriptor for a watch");
    }
    struct prim_try try = {.op = PRIM_OP_WATCH, .in.feed = watch->feed};
    result = prim_attempts(store, &frame, &try);
    if (result.code == COORD_OK) {
        watch->backend_watch = try.watch;
        watch->store = prim_store_ref(store);
        watch->open = true;
        list_init(&watch->node);
        (void)pthread_mutex_lock(&store->lock);
        list_append(&store->watches, &watch->node);
        (void)pthread_mutex_unlock(&store->lock);
        *ret_watch = watch;
    } else {
        prim_feed_close(watch->feed);
        free(watch);
    }
    prim_leave(store);
    return result;
}

int coord_watch_next(coord_watch *watch, int64_t wait_ms, coord_event *ret_event)
{
    return prim_usable(watch->store).code == COORD_OK
               ? prim_feed_next(watch->feed, wait_ms, ret_event)
               : 0;
}

int coord_watch_fd(coord_watch *watch)
{
    return prim_feed_fd(watch->feed);
}

/* First removes on_room, because the reader may be inside on_room and use the backend. */
static void watch_end(coord_watch *watch)
{
    struct prim_backend *backend = watch->store->backend;
    prim_feed_on_room(watch->feed, NULL, NULL);
    backend->ops->unwatch(backend, watch->backend_watch);
}

void prim_watch_end_all(coord_store *store)
{
    struct list *node;
    (void)pthread_mutex_lock(&store->lock);
    while ((node = list_pop(&store->watches)) != NULL) {
        coord_watch *watch = CONTAINER_OF(node, coord_watch, node);
        bool open = watch->open;
        watch->open = false;
        store->ending++; /* the reader waits for 0 before it frees the watch */
        (void)pthread_mutex_unlock(&store->lock);
        if (open) watch_end(watch);
        prim_feed_end(watch->feed, COORD_R_CLOSED);
        (void)pthread_mutex_lock(&store->lock);
        store->ending--;
        (void)pthread_cond_broadcast(&store->changed);
    }
    /* A reader may be ending its own watch. The backend is closed afterwards. */
    while (store->inside > 0) (void)pthread_cond_wait(&store->changed, &store->lock);
    (void)pthread_mutex_unlock(&store->lock);
}

void coord_watch_close(coord_watch *watch)
{
    if (watch == NULL) return;
    coord_store *store = watch->store;
    if (prim_usable(store).code != COORD_OK) { return; } /* a forked child's copy is left alone */
    (void)pthread_mutex_lock(&store->lock);
    while (store->ending > 0) (void)pthread_cond_wait(&store->changed, &store->lock);
    bool open = watch->open;
    watch->open = false;
    if (open) store->inside++;
    list_remove(&watch->node);
    (void)pthread_mutex_unlock(&store->lock);
    if (open) {
        watch_end(watch);
        prim_leave(store);
    }
    prim_feed_close(watch->feed);
    free(watch);
    prim_store_unref(store);
}
