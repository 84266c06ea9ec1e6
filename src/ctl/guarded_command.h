/* SPDX-License-Identifier: Apache-2.0 */
/* A command that runs only while a claim is safe. It has its own process group. A guard
 * (ctl/coord_guard.h) ends the group if this process cannot.
 *
 * One per process. Call open while the process has one thread, then start, follow, close. */
#ifndef CTL_GUARDED_COMMAND_H
#define CTL_GUARDED_COMMAND_H
#include "ctl/coord_guard.h"

/* Exit codes as in a shell: not found, not executable, or 128 plus a signal's number. */
enum { GUARDED_NO_COMMAND = 127, GUARDED_NOT_RUNNABLE = 126, GUARDED_SIGNAL_BASE = 128 };
struct guarded_command {
    struct coord_guard guard;
    int signals; /* a signalfd for SIGCHLD and signals that end a program */
    int exit_code;
    pid_t pid;
    _Atomic int group; /* process group to signal; 0: no signal is sent */
};
/* Starts the guard, and blocks signals before later threads start. */
enum err guarded_command_open(struct guarded_command *command, struct note *note);
void guarded_command_close(struct guarded_command *command);
/* Except SIGCHLD; 0: no signal. */
int guarded_command_signal(struct guarded_command *command);
/* Starts argv (ends with NULL). The guard gets `safe_until_ns` (of prim_boottime_ns) before exec.
 * ERR_NOT_FOUND and ERR_DENIED with a shell's exit_code; ERR_IO. */
enum err guarded_command_start(struct guarded_command *command, char **argv, int64_t safe_until_ns,
                               int64_t grace_ns, struct note *note);
/* Waits for the end of the command, and passes signals and the terminal to it. Every `step_ms` the
 * guard gets a new safe_until_ns(). At the end exit_code is set and the whole group is gone. */
void guarded_command_follow(struct guarded_command *command, int step_ms,
                            int64_t (*safe_until_ns)(void *owner), void *owner);
void guarded_command_kill(struct guarded_command *command); /* any thread; before start: nothing */
#endif
