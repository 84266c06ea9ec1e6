/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes: started without a shell, watched until they end, never left behind. */
#ifndef IO_PROCESS_H
#define IO_PROCESS_H
#include <signal.h>

#include "base/note.h"
#include "base/str.h"
#include "io/loop.h"

struct process;
/* A descendant that keeps stdout or stderr open after the process ended is not read for longer. */
enum { PROCESS_OUTPUT_GRACE_MS = 2000 };
struct process_exit {
    bool signalled;
    int code;     /* exit status, or the signal's number */
    bool unknown; /* it ended, but somebody else in this process took its status */
};
struct process_options {
    const char *const *argv; /* argv[0] is looked up in PATH */
    const char *const *env;  /* NULL: inherit */
    const char *directory;   /* NULL: inherit */
    struct str input;        /* what it finds on standard input */
    /* 0: 64 KiB. Of a longer line so much is reported as soon as it has come, and the rest dropped. */
    size_t output_line_max;
    bool die_with_parent; /* SIGKILL when we die, however we die (see process.c) */
    /* A process group of its own: signals reach what it started, too, and when it ends, what is
     * left of the group is killed. */
    bool own_group;
    /* A whole line without its end, from stdout (1) or stderr (2); NULL: inherit both. */
    void (*on_line)(void *owner, int fd, struct str line);
    /* Exactly once, after the last line. The process's memory is gone when it returns. */
    void (*on_exit)(void *owner, struct process_exit exit);
    void *owner;
};
/* Real loops only; ERR_UNSUPPORTED elsewhere. A process must have ended (send it a signal, await
 * on_exit; or process_abandon) before its loop is closed. Copies what it needs of
 * `options`. ERR_NOT_FOUND (no such program), ERR_DENIED, ERR_INVALID (no program named, a name
 * too long, a directory that cannot be entered), ERR_NOMEM, ERR_FULL, ERR_UNAVAILABLE, ERR_BUSY, ERR_IO,
 * with a note.
 *
 * Waits until the child has become the program. A SIGCHLD that is ignored, as some launchers leave
 * it, is set to its default: the kernel would keep no exit status. */
enum err process_start(struct loop *loop, const struct process_options *options,
                       struct process **ret_process, struct note *note);
int process_pid(const struct process *process);
/* To its whole group where it has its own. ERR_NOT_FOUND: ended. */
enum err process_signal(struct process *process, int signal);
/* Killed, with its group where it has its own, and waited for; on_exit never comes. */
void process_abandon(struct process *process);

/* -- processes that outlive us -- */
struct process_detached {
    const char *const *argv, *const *env; /* as above */
    const char *directory;
    const char *output; /* a file that both outputs are appended to; NULL: nowhere */
    /* Called with the number of a process that waits: it becomes the program when this says ERR_OK,
     * and ends when it says anything else, or when we die before. So what was written down here
     * names every program that ever ran. */
    enum err (*record)(void *owner, int pid, struct note *note);
    void *owner;
};
/* In a session of its own; its end is not reported (see io/process_look.h). The caller is its parent,
 * and has to wait for it. Errors of process_start and of `record`; ERR_INVALID also for an output
 * file that cannot be opened. */
enum err process_start_detached(const struct process_detached *options, int *ret_pid,
                                struct note *note);
#endif
