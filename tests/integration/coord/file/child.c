/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/test.h"

static struct {
    enum file_step step;
    int what, nth;
    atomic_int seen;
    atomic_bool reached;
} armed;

static int at_step(void *arg, enum file_step step)
{
    (void)arg;
    if (step != armed.step || atomic_fetch_add(&armed.seen, 1) + 1 != armed.nth) { return 0; }
    atomic_store(&armed.reached, true);
    if (armed.what == AT_KILL) {
        (void)kill(getpid(), SIGKILL);
        for (;;) { (void)pause(); }
    }
    if (armed.what == AT_STOP) {
        (void)kill(getpid(), SIGSTOP);
        return 0;
    }
    return armed.what;
}

void step_arm_nth(enum file_step step, int what, int nth)
{
    armed.step = step;
    armed.what = what;
    armed.nth = nth;
    atomic_store(&armed.seen, 0);
    atomic_store(&armed.reached, false);
    file_hooks.step = at_step;
}

void step_arm(enum file_step step, int what)
{
    step_arm_nth(step, what, 1);
}

void step_disarm(void)
{
    file_hooks.step = NULL;
}

bool step_reached(void)
{
    return atomic_load(&armed.reached);
}

pid_t child_start(child_fn *run, void *arg)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    CHECK("a child", pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(arg);
        _exit(0);
    }
    return pid;
}

int child_wait(pid_t pid)
{
    int status = 0;
    CHECK("it ended", waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void child_wrong(const char *what)
{
    (void)fprintf(stderr, "# child %d: %s\n", (int)getpid(), what);
    _exit(CHILD_WRONG);
}

void child_await_stop(pid_t pid)
{
    int status = 0;
    CHECK("it changed", waitpid(pid, &status, WUNTRACED) == pid);
    CHECK("it stopped", WIFSTOPPED(status));
}

int rounds(int usual)
{
    const char *given = getenv("FILE_ROUNDS");
    int value = given != NULL ? atoi(given) : 0;
    return value > 0 ? value : usual;
}
