/* SPDX-License-Identifier: Apache-2.0 */
/* Children that crash, and their last output. */
#include "obs/crash.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/clock.h"
#include "io/http.h"
#include "io/io.h"
#include "io/real.h"
#include "io/worker.h"
#include "lib/http_client.h"
#include "lib/test.h"
#include "obs/ring.h"

static void die_by_assert(void)
{
    volatile int two = 2;
    assert(two == 3);
}

static void die_by_segv(void)
{
    volatile uintptr_t nowhere = 8;
    *(volatile int *)nowhere = 1;
}

static void die_by_abort(void)
{
    abort();
}

static void die_by_fpe(void)
{
    raise(SIGFPE);
}

static void die_by_kill(void)
{
    kill(getpid(), SIGSEGV);
    pause();
}

static void *segv_thread(void *argument)
{
    (void)argument;
    die_by_segv();
    return NULL;
}

static void die_in_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, segv_thread, NULL);
    pthread_join(thread, NULL);
}

static void run_and_die(struct job *job)
{
    (void)job;
    die_by_segv();
}

static void never_done(struct job *job, enum err err)
{
    (void)job, (void)err;
}

/* Starts a thread as muster does, with all signals blocked except those of faults. */
static void die_in_worker(void)
{
    struct real_io *real;
    struct loop_worker *worker;
    struct job job;

    if (real_io_open(&real)) return;
    if (worker_open(real_io_io(real)->loop, &(struct worker_options){"doomed", 1}, &worker)) return;
    job_init(&job, run_and_die, never_done);
    if (worker_submit(worker, &job)) return;
    real_io_run(real);
}

static void segv_handler(void *context, const struct http_request *request,
                         struct http_response *response)
{
    (void)context, (void)request, (void)response;
    die_by_segv();
}

static void die_in_http_handler(void)
{
    struct http_server *server;
    struct note note;
    if (http_open(&(struct http_options){.address = "127.0.0.1:0"}, &server, &note) != ERR_OK ||
        http_route(server, "/die", HTTP_GET, segv_handler, NULL) != ERR_OK)
        _exit(97);
    client_ask(http_address(server), "GET /die HTTP/1.1\r\nHost: x\r\n\r\n", NULL);
}

/* Returns the child's standard error, and its exit status. */
static char *last_words(void (*die)(void), int *ret_status)
{
    int ends[2];
    struct buf text;
    char room[4096], *all;
    pid_t child;

    CHECK("pipe", pipe(ends) == 0);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        ring_use_clock(clock_real());
        if (crash_install(&(struct crash_options){
                .program = "test", .version = "1.2.3", .commit = "abcdef"}) != ERR_OK)
            _exit(99);
        ring_put("about to die", 4, 2);
        die();
        _exit(98);
    }
    CHECK("fork", child > 0);
    close(ends[1]);
    buf_init(&text, 1 << 20);
    for (ssize_t got; (got = read(ends[0], room, sizeof room)) > 0;)
        buf_append(&text, str_of(room, (size_t)got));
    close(ends[0]);
    CHECK("wait", waitpid(child, ret_status, 0) == child);
    if (buf_detach(&text, &all) != ERR_OK) abort();
    return all;
}

static const struct {
    const char *why;
    void (*die)(void);
    int signal;
    const char *head;
    bool frames; /* the test's function is in the backtrace */
} cases[] = {
    {"a failed assertion", die_by_assert, SIGABRT, "*** died by SIGABRT", true},
    {"an invalid address", die_by_segv, SIGSEGV,
     "*** died by SIGSEGV at address 0x0000000000000008", true},
    {"abort", die_by_abort, SIGABRT, "*** died by SIGABRT", true},
    {"raised by itself", die_by_fpe, SIGFPE, "*** died by SIGFPE, process", true},
    {"sent from outside", die_by_kill, SIGSEGV, "*** died by SIGSEGV, process", true},
    {"on another thread", die_in_thread, SIGSEGV, "*** died by SIGSEGV at address", true},
    {"on the HTTP server's thread", die_in_http_handler, SIGSEGV, "*** died by SIGSEGV at address",
     true},
    {"on a worker", die_in_worker, SIGSEGV, "*** died by SIGSEGV at address", true},
};

TEST(a_dying_process_says_where_and_what_and_dies_by_its_signal)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int status = 0;
        char *said = last_words(cases[i].die, &status);
        if (!WIFSIGNALED(status)) print_error("%s\n", said);
        CHECK(cases[i].why, WIFSIGNALED(status));
        CHECK_I64(cases[i].why, WTERMSIG(status), cases[i].signal);
        CHECK_HAS(cases[i].why, said, cases[i].head);
        CHECK_HAS(cases[i].why, said, "*** test 1.2.3, commit abcdef\n");
        CHECK_HAS(cases[i].why, said, " about to die 4 2\n*** end\n");
        CHECK("a backtrace with our program in it",
              strstr(strstr(said, "*** backtrace\n"), "test_obs_crash(") != NULL);
        CHECK("reported once", !strstr(strstr(said, "*** end\n") + 1, "*** end\n"));
        if (cases[i].die == die_by_assert) CHECK_HAS("the assertion itself", said, "two == 3");
        free(said);
    }
}

static int sink;
static __attribute__((noinline)) int overflow(int depth)
{
    volatile char room[4096];
    room[0] = (char)depth;
    sink += room[0];
    return depth == 1 << 30 ? 0 : overflow(depth + 1) + room[0];
}

static void die_by_overflow(void)
{
    exit(overflow(0));
}

TEST(an_overflowed_stack_still_has_last_words)
{
    int status = 0;
    char *said = last_words(die_by_overflow, &status);
    CHECK("by signal", WIFSIGNALED(status));
    CHECK_I64("the right one", WTERMSIG(status), SIGSEGV);
    CHECK_HAS("the ring", said, " about to die 4 2\n");
    free(said);
}

/* Bounded, so that a hang becomes a failed test. */
static bool ends_in_time(pid_t child, int *ret_status)
{
    for (int i = 0; i < 3000; i++) {
        if (waitpid(child, ret_status, WNOHANG) == child) return true;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    kill(child, SIGKILL);
    waitpid(child, ret_status, 0);
    return false;
}

TEST(a_full_standard_error_does_not_keep_a_dead_process)
{
    int ends[2], status = 0;
    pid_t child;

    CHECK("pipe", pipe(ends) == 0);
    CHECK("does not wait", fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
    while (write(ends[1], "x", 1) == 1) { /* ends: there is no reader */
    }
    CHECK("waits, as standard error does", fcntl(ends[1], F_SETFL, 0) == 0);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        if (crash_install(&(struct crash_options){.program = "test", .fd = ends[1]}) != ERR_OK)
            _exit(99);
        ring_put("nobody will read this", 4, 2);
        die_by_segv();
        _exit(98);
    }
    CHECK("fork", child > 0);
    CHECK("it ends", ends_in_time(child, &status));
    CHECK("by its signal", WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    close(ends[0]);
    close(ends[1]);
}
