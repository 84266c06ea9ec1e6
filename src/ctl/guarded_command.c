/* SPDX-License-Identifier: Apache-2.0 */
/* A command in its own process group. The group is forgotten before its leader is reaped, because
 * its id may then be reused. One thread, except guarded_command_kill. */
#include "ctl/guarded_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const int handled[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

enum err guarded_command_open(struct guarded_command *command, struct note *note)
{
    sigset_t blocked;
    enum err err;

    *command = (struct guarded_command){.signals = -1};
    /* The guard is forked first, while this process has one thread. */
    err = coord_guard_start(&command->guard, note);
    if (err) return err;
    sigemptyset(&blocked);
    for (size_t i = 0; i < ARRAY_LEN(handled); i++) sigaddset(&blocked, handled[i]);
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
    command->signals = signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK);
    if (command->signals >= 0) return ERR_OK;
    coord_guard_stop(&command->guard);
    return ERR_IO;
}

void guarded_command_close(struct guarded_command *command)
{
    (void)close(command->signals);
    coord_guard_stop(&command->guard);
}

int guarded_command_signal(struct guarded_command *command)
{
    struct signalfd_siginfo got;

    while (read(command->signals, &got, sizeof got) == (ssize_t)sizeof got)
        if (got.ssi_signo != SIGCHLD) return (int)got.ssi_signo;
    return 0;
}

void guarded_command_kill(struct guarded_command *command)
{
    int group = atomic_load(&command->group);

    if (group > 0) (void)kill(-group, SIGKILL);
}

/* -- its beginning -- */

/* Only system calls are allowed between fork and exec. The child registers itself with the guard
 * before exec. */
static _Noreturn void guarded_become(struct guarded_command *command, char **argv, pid_t parent,
                                     int report, int64_t safe_until_ns, int64_t grace_ns)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t none;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(GUARDED_NOT_RUNNABLE);
    coord_guard_watch(&command->guard, getpid(), safe_until_ns, grace_ns);
    for (size_t i = 0; i < ARRAY_LEN(handled); i++) (void)sigaction(handled[i], &by_default, NULL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execvp(argv[0], argv);
    int error = errno;
    ssize_t ignored = write(report, &error, sizeof error);
    (void)ignored;
    _exit(GUARDED_NOT_RUNNABLE);
}

enum err guarded_command_start(struct guarded_command *command, char **argv, int64_t safe_until_ns,
                               int64_t grace_ns, struct note *note)
{
    int report[2], failed = 0;
    pid_t parent = getpid();

    if (pipe2(report, O_CLOEXEC) != 0) return ERR_IO;
    command->pid = fork();
    if (command->pid == 0)
        guarded_become(command, argv, parent, report[1], safe_until_ns, grace_ns);
    (void)close(report[1]);
    if (command->pid < 0) {
        failed = errno;
    } else {
        (void)setpgid(command->pid, command->pid);
        if (read(report[0], &failed, sizeof failed) == (ssize_t)sizeof failed) {
            coord_guard_forget(&command->guard);
            (void)waitpid(command->pid, NULL, 0);
        } else {
            failed = 0;
        }
    }
    (void)close(report[0]);
    if (failed == 0) {
        atomic_store(&command->group, (int)command->pid);
        return ERR_OK;
    }
    command->exit_code = failed == ENOENT ? GUARDED_NO_COMMAND : GUARDED_NOT_RUNNABLE;
    note_set(note, "%s: %s", argv[0], strerror(failed));
    return failed == ENOENT ? ERR_NOT_FOUND : ERR_DENIED;
}

/* At a terminal the command must be in the foreground, or its first read would stop it. */
static bool guarded_give_terminal(pid_t group)
{
    bool ours = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();

    if (ours) {
        (void)tcsetpgrp(STDIN_FILENO, group);
        (void)kill(-group, SIGCONT);
    }
    return ours;
}

static void guarded_take_terminal(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;

    (void)sigaction(SIGTTOU, &ignore, &before);
    (void)tcsetpgrp(STDIN_FILENO, getpgrp());
    (void)sigaction(SIGTTOU, &before, NULL);
}

/* True when the command has ended. Forgets the group, then reaps the command. */
static bool guarded_reap(struct guarded_command *command)
{
    siginfo_t end = {0};

    if (waitid(P_PID, (id_t)command->pid, &end, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        end.si_pid == 0)
        return false;
    /* The rest of the group must end with the claim. */
    (void)kill(-command->pid, SIGKILL);
    coord_guard_forget(&command->guard);
    atomic_store(&command->group, 0);
    (void)waitid(P_PID, (id_t)command->pid, &end, WEXITED);
    command->exit_code =
        end.si_code == CLD_EXITED ? end.si_status : GUARDED_SIGNAL_BASE + end.si_status;
    return true;
}

void guarded_command_follow(struct guarded_command *command, int step_ms,
                            int64_t (*safe_until_ns)(void *owner), void *owner)
{
    struct pollfd wait = {.fd = command->signals, .events = POLLIN};
    bool terminal = guarded_give_terminal(command->pid);

    while (!guarded_reap(command)) {
        (void)poll(&wait, 1, step_ms);
        for (int signal; (signal = guarded_command_signal(command)) != 0;)
            (void)kill(-command->pid, signal);
        coord_guard_extend(&command->guard, safe_until_ns(owner));
    }
    if (terminal) guarded_take_terminal();
}
