/* SPDX-License-Identifier: Apache-2.0 */
/* Real processes under test: start, read output, pause, kill, and never leave one behind.
 *
 * A child dies with the test (PDEATHSIG), and proc_end kills what still runs. Waits are bounded; a
 * deadline is only there so that a broken program fails instead of hanging. */
#ifndef TESTS_LIB_PROC_H
#define TESTS_LIB_PROC_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PROC_OUTPUT_CAP = 256 * 1024, PROC_ARGS_MAX = 32, PROC_DEADLINE_MS = 30000 };

struct proc {
    pid_t pid; /* 0: ended and collected */
    int output_fd;
    int status; /* as waitpid gives it, once collected */
    size_t output_len;
    char output
        [PROC_OUTPUT_CAP]; /* stdout and stderr together, NUL-terminated; the rest is dropped */
};

/* argv ends with NULL. `environment` NULL inherits. False (with perror) when it cannot start. */
bool proc_start(struct proc *proc, const char *const *argv, const char *const *environment);
/* Reads until the output contains `text`, the process ends, or the deadline passes. */
bool proc_wait_output(struct proc *proc, const char *text, int deadline_ms);
/* The same for output after `mark`, so that a line of an earlier round is not taken for one of
 * this round. Take the mark before the action that causes the output. */
size_t proc_mark(struct proc *proc);
bool proc_wait_output_after(struct proc *proc, size_t mark, const char *text, int deadline_ms);
/* True when it ended in time; then `status` is set and all output read. */
bool proc_wait_end(struct proc *proc, int deadline_ms);
bool proc_signal(struct proc *proc, int signal);
bool proc_pause(struct proc *proc); /* SIGSTOP, and waits until it is stopped */
bool proc_resume(struct proc *proc);
void proc_end(struct proc *proc);              /* SIGKILL if it still runs; closes everything */
int proc_exit_code(const struct proc *proc);   /* -1: killed by a signal */
int proc_exit_signal(const struct proc *proc); /* 0: it exited by itself */
/* Runs to the end within the deadline and returns the exit code; -1 otherwise. */
int proc_run(struct proc *proc, const char *const *argv);
#endif
