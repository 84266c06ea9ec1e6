/* SPDX-License-Identifier: Apache-2.0 */
/* A command that runs only while something is safe: in a process group of its own, under a guard
 * (ctl/coord_guard.h) that ends the group when this process cannot.
 *
 * One for a process. Order of life: open, while the process has one thread; start; follow; close. */
#ifndef CTL_GUARDED_COMMAND_H
#define CTL_GUARDED_COMMAND_H
#include "ctl/coord_guard.h"

/* Exit codes as in a shell: no such command, not runnable, and 128 plus a signal's number. */
enum { GUARDED_NO_COMMAND = 127, GUARDED_NOT_RUNNABLE = 126, GUARDED_SIGNAL_BASE = 128 };
struct guarded_command {
    struct coord_guard guard;
    int signals; /* readable when a signal came that ends a program, or a child ended */
    int exit_code;
    pid_t pid;
    _Atomic int group; /* while it may get a signal */
};
/* Starts the guard and blocks the signals, so that threads that are made later inherit that. */
enum err guarded_command_open(struct guarded_command *command, struct note *note);
void guarded_command_close(struct guarded_command *command);
/* The next signal that came, but not of a child's end; 0: none. */
int guarded_command_signal(struct guarded_command *command);
/* Guarded until `safe_until_ns` (of prim_boottime_ns) before its first instruction. argv ends with
 * NULL. ERR_NOT_FOUND, ERR_DENIED, with exit_code as a shell has it; ERR_IO. */
enum err guarded_command_start(struct guarded_command *command, char **argv, int64_t safe_until_ns,
                               int64_t grace_ns, struct note *note);
/* Until the command has ended: passes signals and the terminal to it, and extends the guard every
 * `step_ms` how long it is safe. Then exit_code is the command's, and nothing of its group is left. */
void guarded_command_follow(struct guarded_command *command, int step_ms,
                            int64_t (*safe_until_ns)(void *owner), void *owner);
void guarded_command_kill(
    struct guarded_command *command); /* any thread; nothing when not started */
#endif
