/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers, and the pthread_* functions for them.
 *
 * The memory of a mutex stores its owner, and the memory of a condition stores the clock of its
 * deadlines. Zeroed memory is a new object, as with PTHREAD_*_INITIALIZER. A pthread_t is a number.
 * Waiting fibers are found by the address that they wait for, in the order of arrival. */
#include "sim/threads/threads.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "sim/sim.h"
#include "sim/threads/internal.h"

/* The address sanitizer must know each stack. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define LEAVE_STACK(save, to, size) __sanitizer_start_switch_fiber(save, to, size)
#define ON_STACK(saved, from, size) __sanitizer_finish_switch_fiber(saved, from, size)
#define FORGET_STACK(stack, size)   __asan_unpoison_memory_region(stack, size)
#else
#define LEAVE_STACK(save, to, size) ((void)(save), (void)(to), (void)(size))
#define ON_STACK(saved, from, size) ((void)(saved), (void)(from), (void)(size))
#define FORGET_STACK(stack, size)   ((void)(stack), (void)(size))
#endif

enum { STACK_BYTES = 512 * 1024, STAND_BACK_ONE_IN = 16, STACKS_KEPT = 64 };

struct thread {
    /* in process->threads; in process->ready or `waiters` */
    struct list of_process, waiting;
    struct sim_threads *process;
    uint64_t number; /* the thread's pthread_t */
    ucontext_t context;
    void *stack, *fake_stack;
    void *(*run)(void *arg);
    void *arg, *result;
    const void *waits_for;
    struct timer alarm;
    bool late, over, detached;
};
struct lock { /* stored in a pthread_mutex_t */
    const void *owner;
};
struct condition { /* stored in a pthread_cond_t */
    clockid_t clock;
};
static_assert(sizeof(struct lock) <= sizeof(pthread_mutex_t), "a lock fits");
static_assert(sizeof(struct condition) <= sizeof(pthread_cond_t), "a condition fits");

/* One simulation runs at a time, in one thread. */
static struct list processes = {&processes, &processes}, waiters = {&waiters, &waiters};
static struct thread *current;
static ucontext_t scheduler;
static const void *scheduler_stack;
static size_t scheduler_stack_size;
static void *stacks[STACKS_KEPT];
static size_t stack_count;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "sim/threads: %s\n", what);
    abort();
}

static void must(bool good, const char *what)
{
    if (!good) die(what);
}

struct sim_threads *threads_here(void)
{
    const struct io *io = sim_io_of_turn();

    LIST_EACH(&processes, node)
    {
        struct sim_threads *p = CONTAINER_OF(node, struct sim_threads, link);
        if (p->io == io) return p;
    }
    return NULL;
}

uint64_t threads_now_ns(const struct sim_threads *p)
{
    return clock_mono_ns(p->io->clock).ns;
}

/* -- stacks and switching -- */
static void *stack_take(void)
{
    void *stack;

    if (stack_count > 0) return stacks[--stack_count];
    stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(stack != MAP_FAILED, "no memory for a stack");
    return stack;
}

static void stack_give_back(void *stack)
{
    FORGET_STACK(stack, STACK_BYTES); /* the frames of the stack never returned */
    if (stack_count < STACKS_KEPT)
        stacks[stack_count++] = stack;
    else
        (void)munmap(stack, STACK_BYTES);
}

static void switch_to_scheduler(struct thread *from)
{
    LEAVE_STACK(from->over ? NULL : &from->fake_stack, scheduler_stack, scheduler_stack_size);
    must(swapcontext(&from->context, &scheduler) == 0, "cannot switch");
    ON_STACK(from->fake_stack, NULL, NULL);
}

static void switch_to(struct thread *to)
{
    void *fake_stack = NULL;

    assert(!current);
    current = to;
    LEAVE_STACK(&fake_stack, to->stack, STACK_BYTES);
    must(swapcontext(&scheduler, &to->context) == 0, "cannot switch");
    ON_STACK(fake_stack, NULL, NULL);
    current = NULL;
}

static void thread_free(struct thread *t)
{
    list_remove(&t->of_process);
    timer_deinit(&t->alarm);
    if (t->stack) stack_give_back(t->stack);
    free(t);
}

static void enter(void)
{
    struct thread *t = current;

    ON_STACK(NULL, &scheduler_stack, &scheduler_stack_size);
    t->result = t->run(t->arg);
    t->over = true;
    switch_to_scheduler(t);
}

/* -- waking -- */
static void ready(struct thread *t)
{
    struct sim_threads *p = t->process;

    t->waits_for = NULL;
    list_remove(&t->waiting);
    list_append(&p->ready, &t->waiting);
    if (p->posted) return;
    p->posted = true;
    loop_post(p->io->loop, &p->post);
}

static struct thread *draw_ready(struct list *from, struct sim_threads *p)
{
    size_t count = 0, chosen;

    LIST_EACH(from, node)
    {
        count++;
    }
    if (count == 0) return NULL;
    chosen = count == 1 ? 0 : entropy_u64(p->io->entropy) % count;
    LIST_EACH(from, node)
    {
        if (chosen-- > 0) continue;
        list_remove(node);
        return CONTAINER_OF(node, struct thread, waiting);
    }
    return NULL;
}

static void threads_run_one(struct thread *t)
{
    switch_to(t);
    if (!t->over) return;
    stack_give_back(t->stack);
    t->stack = NULL;
    thread_wake(t, true); /* wakes threads that join this one */
}

static void threads_run_ready(struct post *post)
{
    struct sim_threads *p = CONTAINER_OF(post, struct sim_threads, post);
    struct list batch;
    bool any = false;

    p->posted = false;
    list_init(&batch);
    list_splice(&batch, &p->ready); /* threads that become ready now run in the next pass */
    for (struct thread *t; (t = draw_ready(&batch, p));) threads_run_one(t);
    LIST_EACH_SAFE(&p->threads, node, following)
    {
        struct thread *t = CONTAINER_OF(node, struct thread, of_process);
        if (t->over && t->detached)
            thread_free(t);
        else
            any = true;
    }
    if (!any) p->ended(p->owner);
}

static void on_alarm(struct timer *timer)
{
    struct thread *t = CONTAINER_OF(timer, struct thread, alarm);

    t->late = true;
    ready(t);
}

struct thread *thread_self(void)
{
    return current;
}

struct passing {
    struct post post;
    bool over;
};

static void on_passed(struct post *post)
{
    struct passing *passing = CONTAINER_OF(post, struct passing, post);

    passing->over = true;
    thread_wake(passing, true);
}

void threads_loop_passes(void)
{
    struct passing passing = {.over = false};

    post_init(&passing.post, on_passed);
    loop_post(current->process->io->loop, &passing.post);
    while (!passing.over) (void)thread_wait(&passing, SIM_THREADS_FOREVER);
}

static void stand_back(void)
{
    struct thread *t = current;

    ready(t);
    switch_to_scheduler(t);
}

bool thread_wait(const void *what, uint64_t until_ns)
{
    struct thread *t = current;

    must(t != NULL, "the loop itself waits for something that no thread is about to do");
    t->waits_for = what;
    t->late = false;
    list_append(&waiters, &t->waiting);
    if (until_ns != SIM_THREADS_FOREVER)
        timer_start(&t->alarm, (mono_time){(until_ns + NS_PER_MS - 1) / NS_PER_MS});
    switch_to_scheduler(t);
    timer_stop(&t->alarm);
    return !t->late;
}

void thread_wake(const void *what, bool all)
{
    LIST_EACH_SAFE(&waiters, node, following)
    {
        struct thread *t = CONTAINER_OF(node, struct thread, waiting);
        if (t->waits_for != what) continue;
        timer_stop(&t->alarm);
        ready(t);
        if (!all) return;
    }
}

/* -- threads of a process -- */
static void make(struct sim_threads *p, bool detached, void *(*run)(void *), void *arg)
{
    struct thread *t = calloc(1, sizeof *t);

    must(t != NULL, "no memory");
    t->process = p;
    t->number = ++p->threads_made;
    t->detached = detached;
    t->run = run;
    t->arg = arg;
    t->stack = stack_take();
    list_init(&t->of_process);
    list_init(&t->waiting);
    must(timer_init(&t->alarm, p->io->loop, on_alarm) == ERR_OK, "no memory");
    must(getcontext(&t->context) == 0, "no context");
    t->context.uc_stack.ss_sp = t->stack;
    t->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&t->context, enter, 0);
    ready(t);
    list_append(&p->threads, &t->of_process);
}

void sim_threads_start(struct sim_threads *p, void *(*run)(void *arg), void *arg)
{
    make(p, true, run, arg);
}

void sim_thread_sleep(const void *what, uint64_t ms)
{
    (void)thread_wait(what, threads_now_ns(current->process) + ms * NS_PER_MS);
}

void sim_thread_wake(const void *what)
{
    thread_wake(what, true);
}

struct sim_threads *sim_threads_open(struct io *io, void (*ended)(void *owner), void *owner)
{
    struct sim_threads *p = calloc(1, sizeof *p);

    if (!p) abort();
    p->io = io;
    p->ended = ended;
    p->owner = owner;
    list_init(&p->link);
    list_init(&p->threads);
    list_init(&p->ready);
    list_init(&p->descriptors);
    post_init(&p->post, threads_run_ready);
    list_append(&processes, &p->link);
    sim_process_drains(io);
    return p;
}

void sim_threads_free(struct sim_threads *p)
{
    assert(list_empty(&p->threads) && !p->posted);
    descriptors_free(p);
    list_remove(&p->link);
    free(p);
}

/* -- pthread_*: the linker defines these names (--wrap) -- */

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
    struct sim_threads *p = threads_here();

    if (!p) return __real_pthread_create(ret, a, run, arg);
    *ret = (pthread_t)(p->threads_made + 1);
    make(p, false, run, arg);
    return 0;
}

static struct thread *threads_find(struct sim_threads *p, uint64_t number)
{
    LIST_EACH(&p->threads, node)
    {
        struct thread *t = CONTAINER_OF(node, struct thread, of_process);
        if (t->number == number) return t;
    }
    die("no such thread");
}

int __real_pthread_join(pthread_t, void **);
int __wrap_pthread_join(pthread_t id, void **ret_result)
{
    struct sim_threads *p = threads_here();
    struct thread *t;

    if (!p) return __real_pthread_join(id, ret_result);
    t = threads_find(p, (uint64_t)id);
    while (!t->over) (void)thread_wait(t, SIM_THREADS_FOREVER);
    if (ret_result) *ret_result = t->result;
    thread_free(t);
    return 0;
}

pthread_t __real_pthread_self(void);
pthread_t __wrap_pthread_self(void)
{
    const struct sim_threads *p = threads_here();

    if (current) return (pthread_t)current->number;
    if (!p) return __real_pthread_self();
    return (pthread_t)(p->loop_thread ? p->loop_thread->number : 0);
}

int __real_pthread_setname_np(pthread_t, const char *);
int __wrap_pthread_setname_np(pthread_t id, const char *name)
{
    return threads_here() ? 0 : __real_pthread_setname_np(id, name);
}

/* -- locks -- */
static const void *who(void)
{
    static const char the_loop = 0;

    return current ? (const void *)current : &the_loop;
}

/* In the loop's turn waiting means running other threads. One must be ready. */
static void let_others_run(void)
{
    struct sim_threads *p = threads_here();
    struct thread *t = p ? draw_ready(&p->ready, p) : NULL;

    if (!t) die("the loop waits for a lock that a waiting thread has");
    threads_run_one(t);
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *)
{
    ((struct lock *)mutex)->owner = NULL;
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    must(!((struct lock *)mutex)->owner, "a lock that is held is destroyed");
    return 0;
}

static void lock(pthread_mutex_t *mutex)
{
    struct lock *own = (struct lock *)mutex;

    must(own->owner != who(), "a lock is taken twice");
    while (own->owner) {
        if (current)
            (void)thread_wait(mutex, SIM_THREADS_FOREVER);
        else
            let_others_run();
    }
    own->owner = who();
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (current && entropy_u64(current->process->io->entropy) % STAND_BACK_ONE_IN == 0)
        stand_back();
    lock(mutex);
    return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct lock *own = (struct lock *)mutex;

    must(own->owner == who(), "a lock is given back by who has it not");
    own->owner = NULL;
    thread_wake(mutex, false);
    return 0;
}

/* -- conditions -- */
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
    struct condition *own = (struct condition *)cond;

    own->clock = CLOCK_REALTIME;
    if (attributes) (void)pthread_condattr_getclock(attributes, &own->clock);
    return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
    LIST_EACH(&waiters, node)
    {
        must(CONTAINER_OF(node, struct thread, waiting)->waits_for != cond,
             "a condition is destroyed that somebody waits for");
    }
    return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    thread_wake(cond, false);
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    thread_wake(cond, true);
    return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    (void)__wrap_pthread_mutex_unlock(mutex);
    (void)thread_wait(cond, SIM_THREADS_FOREVER);
    lock(mutex);
    return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    const struct condition *own = (const struct condition *)cond;
    uint64_t ns = (uint64_t)until->tv_sec * 1000000000u + (uint64_t)until->tv_nsec;
    bool woken;

    must(own->clock == CLOCK_MONOTONIC, "deadlines on a clock that steps are not modelled");
    (void)__wrap_pthread_mutex_unlock(mutex);
    woken = thread_wait(cond, ns);
    lock(mutex);
    return woken ? 0 : ETIMEDOUT;
}
