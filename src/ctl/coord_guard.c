/* SPDX-License-Identifier: Apache-2.0 */
/* The guard is a process with one thread. It shares one page of atomics with its parent. It makes
 * no call that may allocate or wait for the parent. */
#include "ctl/coord_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "prim/backend.h"

struct coord_guard_shared {
    _Atomic int group;
    _Atomic int64_t safe_until_ns, grace_ns;
    _Atomic bool fired;
};

static void guard_print(const char *text)
{
    ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored; /* nobody is left to report a failure to */
}

static void guard_strike(struct coord_guard_shared *shared, int signal)
{
    int group = atomic_load(&shared->group);

    if (group <= 0) return;
    atomic_store(&shared->fired, true);
    (void)kill(-group, signal);
    /* a stopped process acts on TERM only after CONT */
    if (signal != SIGKILL) (void)kill(-group, SIGCONT);
}

/* True when the parent's end closed. Wakes every 100 ms, because a new deadline sends no signal. */
static bool guard_parent_is_gone(int life, int64_t wait_ns)
{
    struct pollfd end = {.fd = life, .events = POLLIN};
    int64_t wait_ms = wait_ns / (int64_t)NS_PER_MS + 1;

    return poll(&end, 1, wait_ms < 1 ? 1 : (wait_ms > 100 ? 100 : (int)wait_ms)) > 0;
}

static void guard_loop(struct coord_guard_shared *shared, int life)
{
    int warned = 0; /* the process group that has received TERM, or 0 */

    for (;;) {
        int64_t now = prim_boottime_ns(NULL);
        int64_t kill_at = atomic_load(&shared->safe_until_ns);
        int64_t term_at = kill_at - atomic_load(&shared->grace_ns);
        int group = atomic_load(&shared->group);
        if (group != 0 && now >= kill_at) {
            guard_strike(shared, SIGKILL);
        } else if (group != 0 && now >= term_at && warned != group) {
            guard_print(
                "musterctl coord exec: the claim cannot be renewed; stopping the command\n");
            guard_strike(shared, SIGTERM);
            warned = group;
        }
        if (guard_parent_is_gone(life, group == 0 ? 100 * (int64_t)NS_PER_MS
                                                  : (now < term_at ? term_at : kill_at) - now))
            break;
    }
    guard_strike(shared, SIGKILL);
}

enum err coord_guard_start(struct coord_guard *guard, struct note *note)
{
    int ends[2] = {-1, -1};
    pid_t pid = -1;
    struct coord_guard_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared != MAP_FAILED && pipe2(ends, O_CLOEXEC) == 0) pid = fork();
    if (pid < 0) {
        note_set(note, "guard: %s", strerror(errno));
        if (ends[0] >= 0) (void)close(ends[0]);
        if (ends[1] >= 0) (void)close(ends[1]);
        if (shared != MAP_FAILED) (void)munmap(shared, sizeof *shared);
        return ERR_IO;
    }
    if (pid == 0) {
        (void)close(ends[1]);
        /* A session of its own: a Ctrl-C for the parent must not end the guard first. */
        (void)setsid();
        (void)prctl(PR_SET_NAME, "musterctl-guard");
        guard_loop(shared, ends[0]);
        _exit(0);
    }
    (void)close(ends[0]);
    *guard = (struct coord_guard){.shared = shared, .life = ends[1], .pid = pid};
    return ERR_OK;
}

void coord_guard_watch(struct coord_guard *guard, pid_t group, int64_t safe_until_ns,
                       int64_t grace_ns)
{
    atomic_store(&guard->shared->grace_ns, grace_ns);
    atomic_store(&guard->shared->safe_until_ns, safe_until_ns);
    atomic_store(&guard->shared->group, (int)group);
}

void coord_guard_extend(struct coord_guard *guard, int64_t safe_until_ns)
{
    atomic_store(&guard->shared->safe_until_ns, safe_until_ns);
}

bool coord_guard_fired(const struct coord_guard *guard)
{
    return atomic_load(&guard->shared->fired);
}

void coord_guard_forget(struct coord_guard *guard)
{
    atomic_store(&guard->shared->group, 0);
}

void coord_guard_stop(struct coord_guard *guard)
{
    (void)close(guard->life);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR) {}
    (void)munmap(guard->shared, sizeof *guard->shared);
}
