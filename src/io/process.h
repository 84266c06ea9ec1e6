/* Child processes: started without a shell, watched until they end, never left behind. */
#ifndef IO_PROCESS_H
#define IO_PROCESS_H
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
    size_t output_line_max;  /* longer lines are cut; 0: 64 KiB */
    bool die_with_parent;    /* SIGKILL when we die, however we die (see process.c) */
    /* A whole line without its end, from stdout (1) or stderr (2); NULL: inherit both. */
    void (*on_line)(void *owner, int fd, struct str line);
    /* Exactly once, after the last line. The process's memory is gone when it returns. */
    void (*on_exit)(void *owner, struct process_exit exit);
    void *owner;
};
/* Real loops only; ERR_UNSUPPORTED elsewhere. Standard input is empty. A process must have ended
 * (send it a signal, await on_exit) before its loop is closed. Copies what it needs of
 * `options`. ERR_NOT_FOUND (no such program), ERR_DENIED, ERR_INVALID (no program named, a name
 * too long, a directory that cannot be entered), ERR_NOMEM, ERR_FULL, ERR_IO, with a note.
 *
 * Waits until the child has become the program. A SIGCHLD that is ignored, as some launchers leave
 * it, is set to its default: the kernel would keep no exit status. */
enum err process_start(struct loop *loop, const struct process_options *options,
                       struct process **ret_process, struct note *note);
int process_pid(const struct process *process);
enum err process_signal(struct process *process, int signal); /* ERR_NOT_FOUND: ended */
#endif
