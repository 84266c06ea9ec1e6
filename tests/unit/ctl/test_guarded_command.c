/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/guarded_command.h: the end of a command and its exit code. */
#include "ctl/guarded_command.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/time.h"
#include "io/fs.h"
#include "lib/test.h"
#include "prim/backend.h"

static const int64_t hour_ns = (int64_t)3600 * 1000 * (int64_t)NS_PER_MS;
static struct guarded_command command;
static char mark[FS_PATH_CAP];

static int64_t always_safe(void *owner)
{
    (void)owner;
    return prim_boottime_ns(NULL) + hour_ns;
}

static int64_t never_safe(void *owner)
{
    (void)owner;
    return prim_boottime_ns(NULL);
}

/* The command reports by a file that it is ready for a signal, and gets one signal. */
static int64_t safe_and_interrupts(void *owner)
{
    bool *sent = owner;

    if (!*sent && access(mark, F_OK) == 0) {
        *sent = true;
        CHECK("sent", kill(getpid(), SIGTERM) == 0);
    }
    return always_safe(NULL);
}

static int run(const char *script, int64_t (*safe)(void *owner), void *owner)
{
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)(uintptr_t)script, NULL};
    struct note note = {""};

    CHECK_OK(note.text, guarded_command_open(&command, &note));
    CHECK_OK(note.text, guarded_command_start(&command, argv, safe(owner), 0, &note));
    guarded_command_follow(&command, 10, safe, owner);
    return command.exit_code;
}

TEST(the_exit_code_is_the_commands)
{
    CHECK_I64("well", run("exit 0", always_safe, NULL), 0);
    guarded_command_close(&command);
    CHECK_I64("badly", run("exit 3", always_safe, NULL), 3);
    guarded_command_close(&command);
    CHECK_I64("by a signal", run("kill -9 $$", always_safe, NULL), GUARDED_SIGNAL_BASE + SIGKILL);
    CHECK("which was not the guard's", !coord_guard_fired(&command.guard));
    guarded_command_close(&command);
}

TEST(a_command_that_cannot_be_run_ends_as_in_a_shell)
{
    static const struct {
        const char *name;
        enum err err;
        int exit_code;
    } cases[] = {
        {"/no/such/command", ERR_NOT_FOUND, GUARDED_NO_COMMAND},
        {"/", ERR_DENIED, GUARDED_NOT_RUNNABLE},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *argv[] = {(char *)(uintptr_t)cases[i].name, NULL};
        struct note note = {""};
        CHECK_OK(note.text, guarded_command_open(&command, &note));
        CHECK_ERR(cases[i].name, guarded_command_start(&command, argv, always_safe(NULL), 0, &note),
                  cases[i].err);
        CHECK_I64(cases[i].name, command.exit_code, cases[i].exit_code);
        CHECK_HAS("named", note.text, cases[i].name);
        guarded_command_kill(&command); /* there is nothing to kill */
        guarded_command_close(&command);
    }
}

TEST(a_signal_is_forwarded_to_the_command)
{
    char script[FS_PATH_CAP + 100];
    bool sent = false;

    snprintf(mark, sizeof mark, "%s/ready", test_dir());
    snprintf(script, sizeof script, "trap 'exit 7' TERM; : > '%s'; while :; do sleep 0.01; done",
             mark);
    CHECK_I64("its own answer", run(script, safe_and_interrupts, &sent), 7);
    CHECK_I64("no more came", guarded_command_signal(&command), 0);
    guarded_command_close(&command);
}

TEST(a_command_that_is_not_safe_any_more_is_killed)
{
    CHECK_I64("KILL", run("while :; do sleep 1; done", never_safe, NULL),
              GUARDED_SIGNAL_BASE + SIGKILL);
    CHECK("by the guard", coord_guard_fired(&command.guard));
    guarded_command_close(&command);
}

TEST(children_of_a_command_end_with_it)
{
    char script[FS_PATH_CAP + 100];
    FILE *file;
    int pid = 0;

    snprintf(mark, sizeof mark, "%s/child", test_dir());
    snprintf(script, sizeof script, "sleep 1000 & echo $! > '%s'", mark);
    CHECK_I64("ended", run(script, always_safe, NULL), 0);
    guarded_command_close(&command);
    file = fopen(mark, "r");
    CHECK("its number", file && fscanf(file, "%d", &pid) == 1 && pid > 0);
    if (file) (void)fclose(file);
    while (kill(pid, 0) == 0) usleep(1000); /* its new parent must reap it */
}
