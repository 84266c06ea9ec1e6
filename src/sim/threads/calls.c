/* SPDX-License-Identifier: Apache-2.0 */
/* System calls of blocking code other than threads: time, randomness, event and timer descriptors,
 * and a real_io loop, which in the simulation is the loop of the process. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "io/real.h"
#include "sim/threads/internal.h"

enum { DESCRIPTOR_FIRST = 1 << 20 };

/* -- time and chance -- */
int __real_clock_gettime(clockid_t, struct timespec *);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    const struct sim_threads *p = threads_here();
    uint64_t ns;

    if (!p) return __real_clock_gettime(clock, ret_now);
    ns = clock == CLOCK_REALTIME ? clock_wall(p->io->clock).ms * NS_PER_MS : threads_now_ns(p);
    *ret_now = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    return 0;
}

int __real_nanosleep(const struct timespec *, struct timespec *);
int __wrap_nanosleep(const struct timespec *time, struct timespec *ret_left)
{
    const struct sim_threads *p = threads_here();

    if (!p) return __real_nanosleep(time, ret_left);
    (void)thread_wait(time, threads_now_ns(p) + (uint64_t)time->tv_sec * 1000000000u +
                                (uint64_t)time->tv_nsec);
    return 0;
}

ssize_t __real_getrandom(void *, size_t, unsigned);
ssize_t __wrap_getrandom(void *out, size_t len, unsigned flags)
{
    const struct sim_threads *p = threads_here();

    if (!p) return __real_getrandom(out, len, flags);
    entropy_fill(p->io->entropy, out, len);
    return (ssize_t)len;
}

/* -- descriptors -- */
struct descriptor {
    struct list link;
    struct sim_threads *process;
    int number;
    uint64_t count; /* of an event; of a timer: 1 after it fired */
    struct timer rings;
};

static struct descriptor *descriptor_of(int number)
{
    struct sim_threads *p = number >= DESCRIPTOR_FIRST ? threads_here() : NULL;

    if (!p) return NULL;
    LIST_EACH(&p->descriptors, node)
    {
        struct descriptor *d = CONTAINER_OF(node, struct descriptor, link);
        if (d->number == number) return d;
    }
    return NULL;
}

static void on_ring(struct timer *timer)
{
    struct descriptor *d = CONTAINER_OF(timer, struct descriptor, rings);

    d->count = 1;
    thread_wake(&d->process->descriptors, true);
}

static int descriptor_make(struct sim_threads *p)
{
    struct descriptor *d = calloc(1, sizeof *d);

    if (!d || timer_init(&d->rings, p->io->loop, on_ring)) abort();
    d->process = p;
    d->number = DESCRIPTOR_FIRST + p->next_descriptor++;
    list_init(&d->link);
    list_append(&p->descriptors, &d->link);
    return d->number;
}

static void descriptor_free(struct descriptor *d)
{
    list_remove(&d->link);
    timer_deinit(&d->rings);
    free(d);
}

void descriptors_free(struct sim_threads *p)
{
    LIST_EACH_SAFE(&p->descriptors, node, following)
    {
        descriptor_free(CONTAINER_OF(node, struct descriptor, link));
    }
}

int __real_eventfd(unsigned, int);
int __wrap_eventfd(unsigned first, int flags)
{
    struct sim_threads *p = threads_here();

    return p ? descriptor_make(p) : __real_eventfd(first, flags);
}

int __real_timerfd_create(int, int);
int __wrap_timerfd_create(int clock, int flags)
{
    struct sim_threads *p = threads_here();

    return p ? descriptor_make(p) : __real_timerfd_create(clock, flags);
}

int __real_timerfd_settime(int, int, const struct itimerspec *, struct itimerspec *);
int __wrap_timerfd_settime(int number, int flags, const struct itimerspec *at,
                           struct itimerspec *ret_old)
{
    struct descriptor *d = descriptor_of(number);
    uint64_t ns = (uint64_t)at->it_value.tv_sec * 1000000000u + (uint64_t)at->it_value.tv_nsec;

    if (!d) return __real_timerfd_settime(number, flags, at, ret_old);
    if (!(flags & TFD_TIMER_ABSTIME)) abort(); /* all callers use absolute times */
    d->count = 0;
    timer_stop(&d->rings);
    if (ns) timer_start(&d->rings, (mono_time){(ns + NS_PER_MS - 1) / NS_PER_MS});
    return 0;
}

static int ready_count(struct pollfd *fds, nfds_t count)
{
    int found = 0;

    for (nfds_t i = 0; i < count; i++) {
        const struct descriptor *d = descriptor_of(fds[i].fd);
        fds[i].revents = d && d->count > 0 ? POLLIN : 0;
        found += fds[i].revents != 0;
    }
    return found;
}

int __real_poll(struct pollfd *, nfds_t, int);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    struct sim_threads *p = threads_here();
    uint64_t until = SIM_THREADS_FOREVER;
    int found;

    if (!p) return __real_poll(fds, count, timeout_ms);
    if (timeout_ms >= 0) until = threads_now_ns(p) + (unsigned)timeout_ms * NS_PER_MS;
    while ((found = ready_count(fds, count)) == 0)
        if (!thread_wait(&p->descriptors, until)) break;
    return found;
}

ssize_t __real_read(int, void *, size_t);
ssize_t __wrap_read(int number, void *into, size_t len)
{
    struct descriptor *d = descriptor_of(number);

    if (!d) return __real_read(number, into, len);
    if (d->count == 0) {
        errno = EAGAIN;
        return -1;
    }
    *(uint64_t *)into = d->count;
    d->count = 0;
    return sizeof(uint64_t);
}

ssize_t __real_write(int, const void *, size_t);
ssize_t __wrap_write(int number, const void *from, size_t len)
{
    struct descriptor *d = descriptor_of(number);

    if (!d) return __real_write(number, from, len);
    d->count += *(const uint64_t *)from;
    thread_wake(&d->process->descriptors, true);
    return sizeof(uint64_t);
}

int __real_close(int);
int __wrap_close(int number)
{
    struct descriptor *d = descriptor_of(number);

    if (!d) return __real_close(number);
    descriptor_free(d);
    return 0;
}

/* -- a real_io loop -- */
struct loop_here {
    struct sim_threads *process;
    bool stopped;
};

enum err __real_real_io_open_within(struct real_io **);
enum err __wrap_real_io_open_within(struct real_io **ret_real)
{
    struct sim_threads *p = threads_here();
    struct loop_here *own;

    if (!p) return __real_real_io_open_within(ret_real);
    own = calloc(1, sizeof *own);
    if (!own) return ERR_NOMEM;
    own->process = p;
    *ret_real = (struct real_io *)own;
    return ERR_OK;
}

struct io *__real_real_io_io(struct real_io *);
struct io *__wrap_real_io_io(struct real_io *real)
{
    return threads_here() ? ((struct loop_here *)real)->process->io : __real_real_io_io(real);
}

/* The simulation runs the loop; the loop's thread only waits for the end. */
void __real_real_io_run(struct real_io *);
void __wrap_real_io_run(struct real_io *real)
{
    struct loop_here *own = (struct loop_here *)real;

    if (!threads_here()) {
        __real_real_io_run(real);
        return;
    }
    own->process->loop_thread = thread_self();
    while (!own->stopped) (void)thread_wait(own, SIM_THREADS_FOREVER);
    own->process->loop_thread = NULL;
}

void __real_real_io_stop(struct real_io *);
void __wrap_real_io_stop(struct real_io *real)
{
    if (!threads_here()) {
        __real_real_io_stop(real);
        return;
    }
    ((struct loop_here *)real)->stopped = true;
    thread_wake(real, true);
}

void __real_real_io_turn(struct real_io *, bool);
void __wrap_real_io_turn(struct real_io *real, bool wait)
{
    if (threads_here())
        threads_loop_passes(); /* waits until the simulated loop has run */
    else
        __real_real_io_turn(real, wait);
}

void __real_real_io_close(struct real_io *);
void __wrap_real_io_close(struct real_io *real)
{
    if (!threads_here()) {
        __real_real_io_close(real);
        return;
    }
    /* Runs everything posted and deferred so far, as the real function does. */
    for (int i = 0; real && i < 2; i++) threads_loop_passes();
    free(real);
}
