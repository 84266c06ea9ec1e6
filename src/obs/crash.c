/* SPDX-License-Identifier: Apache-2.0 */
/* The handler of fatal signals makes only async-signal-safe calls, except for the backtrace. */
#include "obs/crash.h"

#include <endian.h>
#include <errno.h>
#include <execinfo.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/hex.h"
#include "obs/line.h"
#include "obs/ring.h"

enum {
    CRASH_STACK = 64 * 1024,
    FRAMES_MAX = 64,
    LINE_CAP = 512,
    WAIT_FOR_FIRST_MS = 5000,
    READER_WAIT_MS = 200, /* longest wait for a slow reader of standard error */
    REPORT_S_MAX = 5      /* SIGALRM ends the process after this time, even if the handler hangs */
};

static char build_line[LINE_CAP];
static size_t build_len;
static int crash_fd = STDERR_FILENO;
static _Atomic(pid_t) dying;

static const struct {
    int number;
    const char *name;
} fatal[] = {{SIGSEGV, "SIGSEGV"},
             {SIGBUS, "SIGBUS"},
             {SIGFPE, "SIGFPE"},
             {SIGILL, "SIGILL"},
             {SIGABRT, "SIGABRT"}};

static bool reader_gone; /* nobody reads crash_fd; used by the printing thread */

/* Waits a limited time, because the pipe may stay full while a supervisor waits for the process to
 * end. */
static bool may_say(void)
{
    struct pollfd out = {.fd = crash_fd, .events = POLLOUT};
    int got;
    if (reader_gone) return false;
    do got = poll(&out, 1, READER_WAIT_MS);
    while (got < 0 && errno == EINTR);
    reader_gone = got != 1 || !(out.revents & POLLOUT);
    return !reader_gone;
}

/* Writes at most PIPE_BUF bytes: poll promises that a pipe accepts so many without blocking. */
static bool say_bytes(struct str text)
{
    return may_say() && write(crash_fd, text.at, text.len) == (ssize_t)text.len;
}

static void say(const char *text)
{
    (void)say_bytes(str_from(text));
}

static bool say_line(void *, struct str line)
{
    return say_bytes(line);
}

static void say_signal(int number, const siginfo_t *info)
{
    const char *name = "signal";
    char room[LINE_CAP], digits[17];
    struct log_line line;

    for (size_t i = 0; i < ARRAY_LEN(fatal); i++)
        if (fatal[i].number == number) name = fatal[i].name;
    line_init(&line, room, sizeof room);
    line_add_c(&line, "\n*** died by ");
    line_add_c(&line, name);
    if (number != SIGABRT && info->si_code > 0) { /* sent by the kernel, so the address is valid */
        uint64_t address = htobe64((uint64_t)(uintptr_t)info->si_addr);
        hex_write(&address, sizeof address, digits);
        line_add_c(&line, " at address 0x");
        line_add_c(&line, digits);
    }
    line_add_c(&line, ", process ");
    line_add_u64(&line, (uint64_t)getpid());
    line_add_c(&line, " thread ");
    line_add_u64(&line, (uint64_t)syscall(SYS_gettid));
    line_add_c(&line, "\n");
    (void)say_bytes(line_peek(&line));
    (void)say_bytes(str_of(build_line, build_len));
}

static void set_alarm(void)
{
    sigset_t only;
    signal(SIGALRM, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    alarm(REPORT_S_MAX);
}

static void report(int number, const siginfo_t *info)
{
    void *frames[FRAMES_MAX];
    int count;

    say_signal(number, info);
    say("*** backtrace\n");
    /* The two backtrace calls take the lock of the list of loaded objects. A thread that crashed
     * inside dlopen holds this lock: the alarm then ends the process. */
    count = backtrace(frames, FRAMES_MAX);
    for (int i = 0; i < count && may_say(); i++) backtrace_symbols_fd(&frames[i], 1, crash_fd);
    say("*** recent events, oldest first: seconds thread what\n");
    if (ring_dump_with(say_line, NULL) == 0) say("(none)\n");
    say("*** end\n");
}

static void on_fatal(int number, siginfo_t *info, void *)
{
    pid_t self = (pid_t)syscall(SYS_gettid), nobody = 0;

    if (atomic_compare_exchange_strong(&dying, &nobody, self)) {
        set_alarm();
        report(number, info);
        alarm(0); /* writing a large core file may take longer */
    } else if (nobody != self) {
        /* Another thread prints the report and will end the process: wait. */
        for (int i = 0; i < WAIT_FOR_FIRST_MS; i++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    } /* else this thread crashed while printing */
    signal(number, SIG_DFL);
    /* A fault happens again after the return, now with the default action and the same registers. A
     * signal that was sent must be sent again. */
    if (info->si_code <= 0 || number == SIGABRT) syscall(SYS_tgkill, getpid(), self, number);
}

static enum err stack_install(void)
{
    /* A stack overflow hits the guard page, not the memory that is reported. */
    long page = sysconf(_SC_PAGESIZE);
    size_t gap = page > 0 ? (size_t)page : 4096;
    char *at = mmap(NULL, CRASH_STACK + gap, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (at == MAP_FAILED) return ERR_NOMEM;
    if (mprotect(at, gap, PROT_NONE) != 0 ||
        sigaltstack(&(stack_t){.ss_sp = at + gap, .ss_size = CRASH_STACK}, NULL) != 0) {
        munmap(at, CRASH_STACK + gap);
        return ERR_UNAVAILABLE;
    }
    return ERR_OK; /* the stack is kept until the process ends */
}

enum err crash_install(const struct crash_options *options)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    void *frame;
    enum err err = stack_install();
    int len;

    if (err) return err;
    (void)!backtrace(&frame, 1); /* loads the library now, because the handler must not load it */
    crash_fd = options->fd ? options->fd : STDERR_FILENO;
    len = snprintf(build_line, sizeof build_line, "*** %s %s, commit %s\n",
                   options->program ? options->program : "?",
                   options->version ? options->version : "?",
                   options->commit ? options->commit : "?");
    build_len = min_size((size_t)len, sizeof build_line - 1);
    action.sa_sigaction = on_fatal;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_LEN(fatal); i++) sigdelset(&action.sa_mask, fatal[i].number);
    for (size_t i = 0; i < ARRAY_LEN(fatal); i++)
        if (sigaction(fatal[i].number, &action, NULL) != 0) return ERR_UNAVAILABLE;
    return ERR_OK;
}
