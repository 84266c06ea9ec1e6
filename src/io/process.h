/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes: started without a shell, watched until they end, never left running. */
#ifndef IO_PROCESS_H
#define IO_PROCESS_H
#include <signal.h>

#include "base/note.h"
#include "base/str.h"
#include "io/loop.h"

struct process;
/* Reads at most this long after the process ended: a descendant may hold stdout or stderr open. */
enum { PROCESS_OUTPUT_GRACE_MS = 2000 };
struct process_exit {
    bool signalled;
    int code;     /* exit status, or the signal number */
    bool unknown; /* the status is unknown, because other code in this process collected it */
};
struct process_options {
    const char *const *argv; /* argv[0] is looked up in PATH */
    const char *const *env;  /* NULL: inherit */
    const char *directory;   /* NULL: inherit */
    struct str input;        /* content of standard input */
    /* 0: 64 KiB. The first bytes of a longer line are reported as soon as the limit is reached, and
     * the rest is dropped. */
    size_t output_line_max;
    bool die_with_parent; /* the child gets SIGKILL when this process dies (see process.c) */
    /* Makes a process group: signals also reach descendants, and when the process ends, the rest of
     * the group is killed. */
    bool own_group;
    /* A complete line without its end, from stdout (fd 1) or stderr (fd 2). NULL: inherit both. */
    void (*on_line)(void *owner, int fd, struct str line);
    /* Called exactly once, after the last line. The process's memory is freed when it returns. */
    void (*on_exit)(void *owner, struct process_exit exit);
    void *owner;
};
/* Starts a process. Copies what it needs of `options`. Real loops only; ERR_UNSUPPORTED elsewhere.
 * Before its loop is closed, a process must have ended (signal it and wait for on_exit) or be
 * abandoned (process_abandon). ERR_NOT_FOUND (no such program), ERR_DENIED, ERR_INVALID (no
 * program, a name too long, a directory that cannot be entered), ERR_NOMEM, ERR_FULL,
 * ERR_UNAVAILABLE, ERR_BUSY, ERR_IO, with a note.
 *
 * Returns after the child's exec. An ignored SIGCHLD, as some launchers leave it, is reset to its
 * default, because the kernel would keep no exit status. */
enum err process_start(struct loop *loop, const struct process_options *options,
                       struct process **ret_process, struct note *note);
int process_pid(const struct process *process);
/* Signals the process, or its group if it has one. ERR_NOT_FOUND: the process ended. */
enum err process_signal(struct process *process, int signal);
/* Kills the process, or its group if it has one, and waits for its end. on_exit is not called. */
void process_abandon(struct process *process);

/* -- processes that may outlive this process -- */
struct process_detached {
    const char *const *argv, *const *env; /* as in process_options */
    const char *directory;
    const char *output; /* a file to which stdout and stderr are appended; NULL: discarded */
    /* Stores the pid of the new process before the program runs. After ERR_OK the process executes
     * the program. After any other result, or if the caller dies first, the process exits. So every
     * program that ever ran is recorded. */
    enum err (*record)(void *owner, int pid, struct note *note);
    void *owner;
};
/* Starts a process in a new session. Its end is not reported (see io/process_look.h). The caller is
 * the parent and must wait for the process. Errors of process_start and of `record`; ERR_INVALID
 * also if the output file cannot be opened. */
enum err process_start_detached(const struct process_detached *options, int *ret_pid,
                                struct note *note);
#endif
