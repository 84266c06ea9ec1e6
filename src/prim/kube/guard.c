/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/kube/guard.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"
#include "prim/answer.h"
#include "prim/kube/store.h"

struct guard {
    struct list node;
    coord_id lease_id;
    uint64_t token;
    struct prim_feed *feed;
    void *watch;
    bool there;   /* in the snapshot that is being read */
    bool dropped; /* the thread takes it away */
    bool told;
};
struct loss {
    coord_id lease_id;
    int reason;
    uint64_t token;
};
struct kube_guards {
    struct prim_backend *backend;
    struct prim_host *host;
    pthread_mutex_t lock; /* of all below */
    pthread_t thread;
    bool running, stop;
    int wake;
    size_t count;
    struct list list;
};

static void wake(struct kube_guards *guards)
{
    uint64_t one = 1;

    (void)!write(guards->wake, &one, sizeof one); /* full means that it is awake already */
}

/* What an event says about the claim; 0: nothing. */
static int reason_of(struct guard *guard, const coord_event *event)
{
    switch (event->type) {
    case COORD_SNAPSHOT_BEGIN: guard->there = false; return 0;
    case COORD_ENTRY:
    case COORD_PUT:
        guard->there = true;
        return event->token != guard->token ? COORD_R_SUPERSEDED : 0;
    case COORD_SNAPSHOT_END: return guard->there ? 0 : COORD_R_REVOKED;
    case COORD_DELETE: return COORD_R_REVOKED;
    case COORD_EXPIRE: return COORD_R_DEADLINE;
    default: return 0;
    }
}

/* Under the lock. */
static bool drain(struct guard *guard, struct loss *ret_loss)
{
    coord_event event;

    while (prim_feed_next(guard->feed, 0, &event)) {
        int reason = reason_of(guard, &event);
        if (reason == 0 || guard->told) continue;
        guard->told = true;
        *ret_loss =
            (struct loss){guard->lease_id, reason, reason == COORD_R_SUPERSEDED ? event.token : 0};
        return true;
    }
    return false;
}

static void guard_free(struct kube_guards *guards, struct guard *guard)
{
    kube_op_unwatch(guards->backend, guard->watch);
    prim_feed_close(guard->feed);
    free(guard);
}

/* Takes out what was dropped; freeing waits for a connection to end, and is done without the
 * lock. */
static void take_dropped(struct kube_guards *guards, struct list *into)
{
    LIST_EACH_SAFE(&guards->list, node, following)
    {
        struct guard *guard = CONTAINER_OF(node, struct guard, node);
        if (!guard->dropped && !guards->stop) continue;
        list_remove(&guard->node);
        list_append(into, &guard->node);
        guards->count--;
    }
}

static void *run(void *arg)
{
    struct kube_guards *guards = arg;
    bool stop = false;

    while (!stop) {
        struct pollfd fds[KUBE_GUARDS_MAX + 1] = {{.fd = guards->wake, .events = POLLIN}};
        struct loss losses[KUBE_GUARDS_MAX];
        size_t fd_count = 1, loss_count = 0;
        struct list dropped;
        uint64_t ignored;

        list_init(&dropped);
        pthread_mutex_lock(&guards->lock);
        LIST_EACH(&guards->list, node)
        {
            struct guard *guard = CONTAINER_OF(node, struct guard, node);
            fds[fd_count++] = (struct pollfd){.fd = prim_feed_fd(guard->feed), .events = POLLIN};
        }
        pthread_mutex_unlock(&guards->lock);
        (void)poll(fds, fd_count, -1);
        (void)!read(guards->wake, &ignored, sizeof ignored);
        pthread_mutex_lock(&guards->lock);
        LIST_EACH(&guards->list, node)
        {
            struct guard *guard = CONTAINER_OF(node, struct guard, node);
            if (!guard->dropped && drain(guard, &losses[loss_count])) loss_count++;
        }
        take_dropped(guards, &dropped);
        stop = guards->stop;
        pthread_mutex_unlock(&guards->lock);
        for (size_t i = 0; i < loss_count; i++)
            guards->host->lost(guards->host, &losses[i].lease_id, losses[i].reason,
                               losses[i].token);
        for (struct list *node; (node = list_pop(&dropped));)
            guard_free(guards, CONTAINER_OF(node, struct guard, node));
    }
    return NULL;
}

struct kube_guards *kube_guards_open(struct prim_backend *backend, struct prim_host *host)
{
    struct kube_guards *guards = calloc(1, sizeof *guards);

    if (!guards) return NULL;
    guards->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (guards->wake < 0) {
        free(guards);
        return NULL;
    }
    guards->backend = backend;
    guards->host = host;
    list_init(&guards->list);
    (void)pthread_mutex_init(&guards->lock, NULL);
    return guards;
}

void kube_guards_close(struct kube_guards *guards)
{
    if (!guards) return;
    pthread_mutex_lock(&guards->lock);
    guards->stop = true;
    pthread_mutex_unlock(&guards->lock);
    wake(guards);
    if (guards->running) (void)pthread_join(guards->thread, NULL);
    pthread_mutex_destroy(&guards->lock);
    (void)close(guards->wake);
    free(guards);
}

/* Under the lock. The program's signal handlers run on its own threads. */
static bool start(struct kube_guards *guards)
{
    sigset_t all, before;

    if (guards->running) return true;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    guards->running = pthread_create(&guards->thread, NULL, run, guards) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return guards->running;
}

static struct guard *guard_make(struct kube_guards *guards, const coord_id *lease_id,
                                const struct prim_held *held)
{
    struct prim_call call = {0};
    struct guard *guard = calloc(1, sizeof *guard);

    if (!guard) return NULL;
    list_init(&guard->node);
    guard->lease_id = *lease_id;
    guard->token = held->token;
    guard->feed = prim_feed_open();
    if (!guard->feed || kube_op_watch(guards->backend, &call, str_from(held->key), false,
                                      guard->feed, &guard->watch)
                                .code != COORD_OK) {
        prim_feed_close(guard->feed);
        free(guard);
        return NULL;
    }
    return guard;
}

void kube_guards_add(struct kube_guards *guards, const struct prim_claim *claim)
{
    kube_guards_drop(guards, &claim->lease_id);
    for (size_t i = 0; i < claim->count; i++) {
        struct guard *guard = NULL;
        pthread_mutex_lock(&guards->lock);
        if (guards->count < KUBE_GUARDS_MAX && start(guards))
            guard = guard_make(guards, &claim->lease_id, &claim->held[i]);
        if (guard) {
            list_append(&guards->list, &guard->node);
            guards->count++;
        }
        pthread_mutex_unlock(&guards->lock);
    }
    wake(guards);
}

void kube_guards_drop(struct kube_guards *guards, const coord_id *lease_id)
{
    pthread_mutex_lock(&guards->lock);
    LIST_EACH(&guards->list, node)
    {
        struct guard *guard = CONTAINER_OF(node, struct guard, node);
        if (prim_id_equal(&guard->lease_id, lease_id)) guard->dropped = true;
    }
    pthread_mutex_unlock(&guards->lock);
    wake(guards);
}
