/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps leases alive (lease.h): the timer thread, the workers, and the guards of kept leases.
 *
 * Invariants: keeper_core.c decides, under store->lock. No backend is called under store->lock.
 * A lease has at most one renewal under way. on_lost runs at most once, on the timer thread. */
#include "prim/lease.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "prim/answer.h"

struct prim_keeper {
    coord_store *store;
    pthread_t timer_thread;
    pthread_t workers[KEEPER_WORKERS_MAX];
    bool timing;
    unsigned worker_count, idle;
    pthread_cond_t work; /* a job is queued, or the keeper ends */
    struct heap timers;
    struct list jobs;   /* leases to renew, by coord_lease.due */
    struct list losses; /* leases whose on_lost must be called, by coord_lease.due */
    size_t job_count;
    int timer_fd, wake_fd;
    bool stopping;
    coord_lease *reporting;
};

/* Kernel timers do not follow a test's clock, so a test's clock is polled. */
enum { STRANGE_CLOCK_LOOK_MS = 2 };

static void wake_timer(struct prim_keeper *keeper)
{
    uint64_t one = 1;
    (void)!write(keeper->wake_fd, &one, sizeof one); /* EAGAIN: the thread is already awake */
}

/* -- decisions; all under store->lock -- */

static void *run_worker(void *arg);

static void queue_job(struct prim_keeper *keeper, coord_lease *lease)
{
    assert(!lease->job_queued); /* keeper_core.c starts one renewal at a time */
    lease->job_queued = true;
    list_append(&keeper->jobs, &lease->due);
    keeper->job_count++;
    if (keeper->idle < keeper->job_count && keeper->worker_count < KEEPER_WORKERS_MAX &&
        prim_thread_start(&keeper->workers[keeper->worker_count], run_worker, keeper))
        keeper->worker_count++;
    (void)pthread_cond_signal(&keeper->work);
}

static void unqueue(struct prim_keeper *keeper, coord_lease *lease)
{
    if (lease->job_queued) {
        assert(keeper->job_count > 0);
        keeper->job_count--;
        lease->job_queued = false;
    }
    list_remove(&lease->due);
}

static void keeper_step(struct prim_keeper *keeper, coord_lease *lease, struct keeper_event event,
                        int reason, uint64_t token)
{
    int64_t now_ns = prim_clock_now(&keeper->store->clock);
    struct keeper_effects effects = keeper_core_step(&lease->core, event, now_ns);
    if (lease->over != 0 || lease->core.over) {
        if (effects.lost && prim_lease_end(lease, effects.late ? COORD_R_LOCAL : reason, token)) {
            heap_remove(&keeper->timers, &lease->timer);
            unqueue(keeper, lease);
            lease->unreported = true;
            list_append(&keeper->losses, &lease->due);
            wake_timer(keeper);
        }
        return;
    }
    if (event.kind == KEEPER_RENEWED) prim_lease_extend(lease, event.sent_ns);
    if (effects.renew) {
        lease->attempt_until_ns = effects.attempt_until_ns;
        queue_job(keeper, lease);
    }
    struct heap_node *first = heap_peek(&keeper->timers);
    bool earlier = first == NULL || (uint64_t)effects.wake_ns < first->due;
    enum err put = heap_put(&keeper->timers, &lease->timer, (uint64_t)effects.wake_ns);
    assert(put == ERR_OK); /* coord_keep reserved the room */
    if (earlier) wake_timer(keeper);
}

void prim_keeper_lost(coord_lease *lease, int reason, uint64_t token)
{
    if (!lease->kept) {
        (void)prim_lease_end(lease, reason, token);
        return;
    }
    struct keeper_event refused = {.kind = KEEPER_REFUSED};
    keeper_step(lease->store->keeper, lease, refused, reason, token);
}

void prim_keeper_hear(coord_lease *lease, struct keeper_event event)
{
    if (lease->kept && lease->over == 0) keeper_step(lease->store->keeper, lease, event, 0, 0);
}

/* True: the caller must drop the guard. A closing store ends all its guards. */
static bool take_guard(coord_lease *lease)
{
    bool guarded = lease->guarded && !lease->store->closing;
    lease->guarded = false;
    return guarded;
}

bool prim_keeper_forget(coord_lease *lease)
{
    struct prim_keeper *keeper = lease->store->keeper;
    bool unguard = take_guard(lease);
    if (lease->kept && keeper != NULL) {
        lease->core.over = true;
        heap_remove(&keeper->timers, &lease->timer);
        unqueue(keeper, lease);
    }
    return unguard;
}

void prim_keeper_quiet(coord_lease *lease)
{
    coord_store *store = lease->store;
    if (store->keeper != NULL && pthread_equal(store->keeper->timer_thread, pthread_self())) {
        /* Inside an on_lost, releasing another lease cancels that lease's on_lost. */
        if (store->keeper->reporting != lease) {
            lease->unreported = false;
            list_remove(&lease->due);
        }
        return;
    }
    while (store->keeper != NULL && lease->unreported)
        (void)pthread_cond_wait(&store->changed, &store->lock);
}

void prim_keeper_quiet_if_running(coord_lease *lease)
{
    coord_store *store = lease->store;
    while (store->keeper != NULL && store->keeper->reporting == lease &&
           !pthread_equal(store->keeper->timer_thread, pthread_self()))
        (void)pthread_cond_wait(&store->changed, &store->lock);
}

/* -- the threads ------------------------------------------------------------------------------ */

/* Called with the lock, which is free during prim_lease_free(). */
static void unpin(coord_store *store, coord_lease *lease)
{
    if (!prim_lease_unpin(lease)) return;
    (void)pthread_mutex_unlock(&store->lock);
    prim_lease_free(lease);
    (void)pthread_mutex_lock(&store->lock);
}

static void renew_one(struct prim_keeper *keeper, coord_lease *lease)
{
    coord_store *store = keeper->store;
    struct held_lease_view view;
    struct keeper_event event = {.kind = KEEPER_FAILED, .ours = true};
    coord_result result = {.code = COORD_UNAVAILABLE};
    struct prim_call call = {.deadline_ns = lease->attempt_until_ns,
                             .request_id = prim_id_request()};
    prim_lease_view_locked(lease, &view);
    (void)pthread_mutex_unlock(&store->lock);
    int64_t sent_ns = prim_clock_now(&store->clock), answered_ns = 0;
    /* The worker may have hung until safe_until, and nothing may be sent after safe_until. */
    if (sent_ns < call.deadline_ns)
        result = store->backend->ops->renew(store->backend, &call, &view.claim, &answered_ns);
    (void)pthread_mutex_lock(&store->lock);
    if (result.code == COORD_OK) {
        event.kind = KEEPER_RENEWED;
        event.sent_ns = answered_ns != 0 ? answered_ns : sent_ns;
    } else if (result.code == COORD_EXPIRED && view.changes == lease->changes) {
        event.kind = KEEPER_REFUSED;
    }
    keeper_step(keeper, lease, event, result.reason, result.token);
    prim_lease_view_done(&view);
    unpin(store, lease);
}

static void *run_worker(void *arg)
{
    struct prim_keeper *keeper = arg;
    coord_store *store = keeper->store;
    (void)pthread_mutex_lock(&store->lock);
    while (!keeper->stopping) {
        struct list *node = list_pop(&keeper->jobs);
        if (node == NULL) {
            keeper->idle++;
            (void)pthread_cond_wait(&keeper->work, &store->lock);
            keeper->idle--;
            continue;
        }
        coord_lease *lease = CONTAINER_OF(node, coord_lease, due);
        unqueue(keeper, lease);
        if (prim_lease_pin(lease)) renew_one(keeper, lease);
    }
    (void)pthread_mutex_unlock(&store->lock);
    return NULL;
}

static void report_one(struct prim_keeper *keeper, coord_lease *lease)
{
    coord_store *store = keeper->store;
    if (!prim_lease_pin(lease)) return;
    coord_lost_fn on_lost = lease->on_lost;
    void *on_lost_arg = lease->on_lost_arg;
    int reason = lease->over;
    keeper->reporting = lease;
    (void)pthread_mutex_unlock(&store->lock);
    if (on_lost != NULL) on_lost(on_lost_arg, lease, reason);
    (void)pthread_mutex_lock(&store->lock);
    keeper->reporting = NULL;
    lease->unreported = false;
    (void)pthread_cond_broadcast(&store->changed);
    unpin(store, lease);
}

/* Sleeps until the first timer, or without limit. CLOCK_BOOTTIME also counts suspended time. */
static void sleep_until(struct prim_keeper *keeper, const struct heap_node *first)
{
    struct itimerspec at = {.it_value = {0, 0}};
    bool strange = keeper->store->clock.now != prim_boottime_ns;
    if (first != NULL && !strange) {
        at.it_value.tv_sec = (time_t)(first->due / 1000000000u);
        at.it_value.tv_nsec = (long)(first->due % 1000000000u);
    }
    (void)timerfd_settime(keeper->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    (void)pthread_mutex_unlock(&keeper->store->lock);
    struct pollfd ready[] = {{.fd = keeper->timer_fd, .events = POLLIN},
                             {.fd = keeper->wake_fd, .events = POLLIN}};
    (void)poll(ready, ARRAY_LEN(ready), strange && first != NULL ? STRANGE_CLOCK_LOOK_MS : -1);
    uint64_t count;
    (void)!read(keeper->wake_fd, &count, sizeof count); /* nonblocking */
    (void)pthread_mutex_lock(&keeper->store->lock);
}

static void *run_timer(void *arg)
{
    struct prim_keeper *keeper = arg;
    coord_store *store = keeper->store;
    struct list *loss;
    (void)pthread_mutex_lock(&store->lock);
    for (;;) { /* ends when the store closes and every loss was reported */
        while ((loss = list_pop(&keeper->losses)) != NULL)
            report_one(keeper, CONTAINER_OF(loss, coord_lease, due));
        if (keeper->stopping) break;
        struct heap_node *due =
            heap_pop_due(&keeper->timers, (uint64_t)prim_clock_now(&keeper->store->clock));
        if (due != NULL) {
            keeper_step(keeper, CONTAINER_OF(due, coord_lease, timer),
                        (struct keeper_event){.kind = KEEPER_TICK}, COORD_R_LOCAL, 0);
            continue;
        }
        sleep_until(keeper, heap_peek(&keeper->timers));
    }
    (void)pthread_mutex_unlock(&store->lock);
    return NULL;
}

/* -- starting and stopping -------------------------------------------------------------------- */

static void keeper_free(struct prim_keeper *keeper)
{
    if (keeper->timer_fd >= 0) (void)close(keeper->timer_fd);
    if (keeper->wake_fd >= 0) (void)close(keeper->wake_fd);
    heap_deinit(&keeper->timers);
    (void)pthread_cond_destroy(&keeper->work);
    free(keeper);
}

/* Under store->lock. Starts one worker now, because a later start might fail. */
static bool keeper_start(coord_store *store)
{
    struct prim_keeper *keeper = store->keeper;
    if (keeper == NULL) {
        keeper = calloc(1, sizeof *keeper);
        if (keeper == NULL) return false;
        keeper->store = store;
        heap_init(&keeper->timers, PRIM_LEASES_MAX);
        list_init(&keeper->jobs);
        list_init(&keeper->losses);
        (void)pthread_cond_init(&keeper->work, NULL);
        keeper->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        keeper->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (keeper->timer_fd < 0 || keeper->wake_fd < 0) {
            keeper_free(keeper);
            return false;
        }
        store->keeper = keeper;
    }
    if (keeper->worker_count == 0)
        keeper->worker_count = prim_thread_start(&keeper->workers[0], run_worker, keeper);
    if (keeper->worker_count > 0 && !keeper->timing)
        keeper->timing = prim_thread_start(&keeper->timer_thread, run_timer, keeper);
    return keeper->timing;
}

void prim_keeper_stop(coord_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    struct prim_keeper *keeper = store->keeper;
    if (keeper != NULL) {
        keeper->stopping = true;
        (void)pthread_cond_broadcast(&keeper->work);
        wake_timer(keeper);
    }
    (void)pthread_mutex_unlock(&store->lock);
    if (keeper == NULL) return;
    if (keeper->timing) (void)pthread_join(keeper->timer_thread, NULL);
    for (unsigned i = 0; i < keeper->worker_count; i++)
        (void)pthread_join(keeper->workers[i], NULL);
    (void)pthread_mutex_lock(&store->lock);
    LIST_EACH(&store->leases, node)
    {
        coord_lease *lease = CONTAINER_OF(node, coord_lease, node);
        heap_remove(&keeper->timers, &lease->timer);
        list_remove(&lease->due);
        lease->kept = false;
    }
    store->keeper = NULL;
    /* No loss is reported after the timer thread has ended. Wakes the callers that wait for an
     * on_lost. */
    (void)pthread_cond_broadcast(&store->changed);
    (void)pthread_mutex_unlock(&store->lock);
    keeper_free(keeper);
}

/* -- keeping ---------------------------------------------------------------------------------- */

static coord_result begin_keeping(coord_lease *lease, coord_lost_fn on_lost, void *arg)
{
    coord_store *store = lease->store;
    int64_t now_ns = prim_clock_now(&store->clock);
    if (store->closing)
        return prim_answer(COORD_UNAVAILABLE, COORD_R_CLOSED, "the store was closed");
    if (now_ns >= atomic_load_explicit(&lease->safe_until_ns, memory_order_acquire))
        (void)prim_lease_end(lease, COORD_R_LOCAL, 0);
    if (lease->over != 0) return prim_lease_expired(lease->over, lease->over_token);
    if (lease->kept)
        return prim_answer(COORD_INVALID, COORD_R_HANDLE, "this lease is kept already");
    if (!keeper_start(store) ||
        heap_reserve(&store->keeper->timers, store->lease_count) != ERR_OK) {
        return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY,
                           "the keeper cannot have its threads, descriptors or memory");
    }
    lease->kept = true;
    lease->on_lost = on_lost;
    lease->on_lost_arg = arg;
    keeper_core_init(&lease->core, lease->ttl_ms * PRIM_NS_PER_MS, lease->sent_ns,
                     atomic_load_explicit(&lease->safe_until_ns, memory_order_acquire),
                     (uint64_t)prim_random_below(INT64_MAX));
    keeper_step(store->keeper, lease, (struct keeper_event){.kind = KEEPER_TICK}, COORD_R_LOCAL, 0);
    return prim_ok(COORD_R_NONE);
}

void prim_keeper_reguard(coord_lease *lease)
{
    coord_store *store = lease->store;
    struct held_lease_view view;
    if (store->guards == NULL) return;
    (void)pthread_mutex_lock(&store->lock);
    bool wanted = lease->kept && lease->over == 0;
    if (wanted) prim_lease_view_locked(lease, &view);
    (void)pthread_mutex_unlock(&store->lock);
    if (!wanted) return;
    prim_guards_add(store->guards, &lease->guard, &view.claim);
    prim_lease_view_done(&view);
    (void)pthread_mutex_lock(&store->lock);
    lease->guarded = true;
    /* The lease was released meanwhile, so the guard must be dropped here. */
    bool undo = lease->over != 0 && take_guard(lease);
    (void)pthread_mutex_unlock(&store->lock);
    if (undo) prim_guards_drop(store->guards, &lease->guard);
}

coord_result coord_keep(coord_lease *lease, coord_lost_fn on_lost, void *arg)
{
    struct prim_frame frame;
    coord_result result = prim_lease_check_use(NULL, lease);
    if (result.code != COORD_OK) return result;
    coord_store *store = lease->store;
    result = prim_enter(store, NULL, 0, &frame);
    if (result.code != COORD_OK) return result;
    (void)pthread_mutex_lock(&store->lock);
    result = begin_keeping(lease, on_lost, arg);
    (void)pthread_mutex_unlock(&store->lock);
    if (result.code == COORD_OK) prim_keeper_reguard(lease);
    prim_leave(store);
    return result;
}
