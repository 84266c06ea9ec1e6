/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool proc_start(struct proc *proc, const char *const *argv, const char *const *environment)
{
    int pipes[2], failure[2];
    pid_t parent = getpid();
    int child_errno = 0;

    *proc = (struct proc){.output_fd = -1};
    if (pipe2(pipes, O_CLOEXEC)) {
        perror("pipe");
        return false;
    }
    if (pipe2(failure, O_CLOEXEC)) {
        perror("pipe");
        close(pipes[0]);
        close(pipes[1]);
        return false;
    }
    proc->pid = fork();
    if (proc->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(127); /* the test died before the line above */
        dup2(pipes[1], STDOUT_FILENO);
        dup2(pipes[1], STDERR_FILENO);
        if (environment)
            execvpe(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)environment);
        else
            execvp(argv[0], (char *const *)(uintptr_t)argv);
        child_errno = errno;
        if (write(failure[1], &child_errno, sizeof child_errno) < 0) _exit(126);
        _exit(127);
    }
    close(pipes[1]);
    close(failure[1]);
    bool exec_failed = proc->pid > 0 && read(failure[0], &child_errno, sizeof child_errno) > 0;
    close(failure[0]);
    proc->output_fd = pipes[0];
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    if (proc->pid > 0 && !exec_failed) return true;
    fprintf(stderr, "cannot start %s: %s\n", argv[0], strerror(exec_failed ? child_errno : errno));
    if (proc->pid < 0) proc->pid = 0;
    proc_end(proc);
    return false;
}

/* Reads what is available; false at the end of the output. */
static bool read_some(struct proc *proc)
{
    for (;;) {
        char spill[4096];
        size_t room = sizeof proc->output - 1 - proc->output_len;
        ssize_t got = read(proc->output_fd, room ? proc->output + proc->output_len : spill,
                           room ? room : sizeof spill);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return true; /* nothing now */
        if (got == 0) return false;
        if (room) proc->output_len += (size_t)got;
        proc->output[proc->output_len] = '\0';
    }
}

static bool collect(struct proc *proc, int flags)
{
    if (proc->pid == 0) return true;
    pid_t got = waitpid(proc->pid, &proc->status, flags);
    if (got != proc->pid) return false;
    proc->pid = 0;
    return true;
}

/* Waits until the text follows `mark` (text given), or the process has ended (text
 * NULL). */
static bool wait_for(struct proc *proc, size_t mark, const char *text, int deadline_ms)
{
    int64_t deadline = now_ms() + deadline_ms;
    bool open = proc->output_fd >= 0;

    for (;;) {
        if (open) open = read_some(proc);
        if (text && strstr(proc->output + mark, text)) return true;
        if (collect(proc, WNOHANG)) {
            if (proc->output_fd >= 0) read_some(proc);
            return text ? strstr(proc->output + mark, text) != NULL : true;
        }
        int64_t left = deadline - now_ms();
        if (left <= 0) return false;
        struct pollfd wait = {.fd = open ? proc->output_fd : -1, .events = POLLIN};
        poll(&wait, 1, left < 20 ? (int)left : 20); /* short: the end of a process is no event */
    }
}

bool proc_wait_output(struct proc *proc, const char *text, int deadline_ms)
{
    return proc_wait_output_after(proc, 0, text, deadline_ms);
}

size_t proc_mark(struct proc *proc)
{
    if (proc->output_fd >= 0) read_some(proc);
    return proc->output_len;
}

bool proc_wait_output_after(struct proc *proc, size_t mark, const char *text, int deadline_ms)
{
    if (wait_for(proc, mark, text, deadline_ms)) return true;
    fprintf(stderr, "\"%s\" did not come; the output was:\n%s\n", text, proc->output + mark);
    return false;
}

bool proc_wait_end(struct proc *proc, int deadline_ms)
{
    return wait_for(proc, 0, NULL, deadline_ms);
}

bool proc_signal(struct proc *proc, int signal)
{
    return proc->pid > 0 && kill(proc->pid, signal) == 0;
}

bool proc_pause(struct proc *proc)
{
    int status;
    if (!proc_signal(proc, SIGSTOP)) return false;
    return waitpid(proc->pid, &status, WUNTRACED) == proc->pid && WIFSTOPPED(status);
}

bool proc_resume(struct proc *proc)
{
    int status;
    if (!proc_signal(proc, SIGCONT)) return false;
    return waitpid(proc->pid, &status, WCONTINUED) == proc->pid && WIFCONTINUED(status);
}

void proc_end(struct proc *proc)
{
    if (proc->pid > 0) {
        kill(proc->pid, SIGKILL);
        collect(proc, 0);
    }
    if (proc->output_fd >= 0) close(proc->output_fd);
    proc->output_fd = -1;
}

int proc_exit_code(const struct proc *proc)
{
    return proc->pid == 0 && WIFEXITED(proc->status) ? WEXITSTATUS(proc->status) : -1;
}

int proc_exit_signal(const struct proc *proc)
{
    return proc->pid == 0 && WIFSIGNALED(proc->status) ? WTERMSIG(proc->status) : 0;
}

int proc_run(struct proc *proc, const char *const *argv)
{
    int code = -1;
    if (!proc_start(proc, argv, NULL)) return -1;
    if (proc_wait_end(proc, PROC_DEADLINE_MS)) code = proc_exit_code(proc);
    proc_end(proc);
    return code;
}
