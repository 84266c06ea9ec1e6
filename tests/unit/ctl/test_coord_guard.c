/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/coord_guard.h: the guard process ends a command; the signal shows how. */
#include "ctl/coord_guard.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "lib/test.h"
#include "prim/backend.h"

static const int64_t hour_ns = (int64_t)3600 * 1000 * (int64_t)NS_PER_MS;
static struct coord_guard guard;

/* Starts a process group that sleeps until a signal ends it. */
static pid_t start_command(void)
{
    pid_t command = fork();

    if (command == 0) {
        for (;;) (void)pause();
    }
    CHECK("a command", command > 0);
    CHECK("its group", setpgid(command, command) == 0);
    return command;
}

static int ended_by(pid_t command)
{
    int status = 0;

    CHECK("it ended", waitpid(command, &status, 0) == command);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void start_guard(void)
{
    struct note note = {""};
    CHECK_OK("a guard", coord_guard_start(&guard, &note));
}

TEST(a_command_past_its_time_is_killed)
{
    pid_t command = start_command();

    start_guard();
    coord_guard_watch(&guard, command, prim_boottime_ns(NULL), 0);
    CHECK("KILL", ended_by(command) == SIGKILL);
    CHECK("the note", coord_guard_fired(&guard));
    coord_guard_forget(&guard);
    coord_guard_stop(&guard);
}

TEST(within_the_grace_it_is_asked_to_end_first)
{
    pid_t command = start_command();

    start_guard();
    coord_guard_watch(&guard, command, prim_boottime_ns(NULL) + hour_ns, 2 * hour_ns);
    CHECK("TERM", ended_by(command) == SIGTERM);
    coord_guard_forget(&guard);
    coord_guard_stop(&guard);
}

TEST(a_command_does_not_outlive_the_holder_of_the_claim)
{
    pid_t command = start_command();

    start_guard();
    coord_guard_watch(&guard, command, prim_boottime_ns(NULL) + hour_ns, 0);
    coord_guard_stop(&guard); /* as the end of the process does */
    CHECK("KILL", ended_by(command) == SIGKILL);
}

TEST(a_command_that_is_released_or_has_time_is_left_alone)
{
    pid_t command = start_command();

    start_guard();
    coord_guard_watch(&guard, command, prim_boottime_ns(NULL) + hour_ns, 0);
    coord_guard_extend(&guard, prim_boottime_ns(NULL) + 2 * hour_ns);
    CHECK("nothing was sent", !coord_guard_fired(&guard));
    coord_guard_forget(&guard);
    coord_guard_stop(&guard);
    CHECK("it runs", kill(command, 0) == 0);
    CHECK("ours again", kill(command, SIGUSR1) == 0);
    CHECK("by us", ended_by(command) == SIGUSR1);
}
