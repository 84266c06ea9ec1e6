/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes: started without a shell, watched until they end, never left running. */
#ifndef IO_PROCESS_H
#define IO_PROCESS_H
#include <signal.h>

#include "base/note.h"
#include "base/str.h"
#include "io/loop.h"

struct process;
/* Wait for output after the process ended: a descendant may hold stdout open. */
enum { PROCESS_OUTPUT_GRACE_MS = 2000 };
struct process_exit {
    bool signalled;
    int code;     /* exit status, or number of the signal */
    bool unknown; /* other code in this process collected the status */
};
struct process_options {
    const char *const *argv; /* argv[0] is looked up in PATH */
    const char *const *env;  /* NULL: this process's variables */
    const char *directory;   /* NULL: that of this process */
    struct str input;        /* content of standard input */
    /* Limit for a line of output; 0: 64 KiB. Only the first bytes of a longer line are reported. */
    size_t output_line_max;
    bool die_with_parent; /* SIGKILL when this process dies (see process.c) */
    /* Signals also reach the descendants, which are killed when the process ends. */
    bool own_group;
    /* Gets each line of stdout (fd 1) and stderr (fd 2), without line end. NULL: inherit both. */
    void (*on_line)(void *owner, int fd, struct str line);
    /* Called once, after the last line. The process is freed when on_exit returns. */
    void (*on_exit)(void *owner, struct process_exit exit);
    void *owner;
};
/* Starts a process on a real loop; copies `options`. Before the loop is closed, the process must
 * have ended (on_exit) or be abandoned. Returns after the child's exec. Resets an ignored SIGCHLD
 * to its default.
 *
 * ERR_NOT_FOUND: no such program. ERR_INVALID: no program, a name too long, a directory that cannot
 * be entered. ERR_UNSUPPORTED: no real loop.
 * ERR_DENIED, ERR_NOMEM, ERR_FULL, ERR_UNAVAILABLE, ERR_BUSY, ERR_IO. All with a note. */
enum err process_start(struct loop *loop, const struct process_options *options,
                       struct process **ret_process, struct note *note);
int process_pid(const struct process *process);
/* Signals the process, or its group if it has one. ERR_NOT_FOUND: the process ended. */
enum err process_signal(struct process *process, int signal);
/* Kills the process, or its group, and waits for the end. on_exit is not called. */
void process_abandon(struct process *process);

/* -- processes that may outlive this process -- */
struct process_detached {
    const char *const *argv, *const *env; /* as in struct process_options */
    const char *directory;
    const char *output; /* file that gets stdout and stderr, appended; NULL: none */
    /* Stores the pid before the program runs. The program runs only after ERR_OK, so that every
     * program that ever ran is recorded. */
    enum err (*record)(void *owner, int pid, struct note *note);
    void *owner;
};
/* Starts a process in a new session, without a callback for its end (see io/process_look.h). The
 * caller must wait for its child. Errors of process_start and of `record`; ERR_INVALID also for the
 * output file. */
enum err process_start_detached(const struct process_detached *options, int *ret_pid,
                                struct note *note);
#endif
