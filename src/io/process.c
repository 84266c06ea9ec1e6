/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes: fork and exec, a pidfd to detect the end, and a pipe each for the lines of
 * stdout and stderr.
 *
 * uv_spawn is not used: it cannot call prctl(PR_SET_PDEATHSIG) in the child, and it needs the
 * process-wide SIGCHLD handler. With die_with_parent, the kernel kills the child when the *thread*
 * that forked ends: the loop's thread, which outlives the children. The signal does not reach
 * grandchildren, and no program that gains privileges (set-user-id, file capabilities).
 *
 * fork, not vfork: the child must not share memory with a running loop. Between fork and exec only
 * calls that are safe in a copy of a multi-threaded process are made. */
#include "io/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/real_internal.h"

enum {
    LINE_MAX_DEFAULT = 64 * 1024,
    OUTPUTS = 2,
    PROGRAM_PATH_CAP = 4096,
    CHILD_FD_FIRST = 3,
    CHILD_EXIT_NO_PARENT = 127,
};

struct output {
    struct process *process;
    int number; /* fd number: 1 or 2 */
    uv_pipe_t pipe;
    struct buf line;
    bool cut; /* the line was too long: its end is dropped */
};
struct process {
    struct real_io *real;
    void (*on_line)(void *owner, int fd, struct str line);
    void (*on_exit)(void *owner, struct process_exit exit);
    void *owner;
    pid_t pid;
    int pidfd; /* -1: not opened yet */
    uv_poll_t watch;
    struct output outputs[OUTPUTS];
    struct timer grace;
    unsigned handles;   /* open libuv handles: the watch and the pipes */
    bool ended, failed; /* failed: the process did not start, so no on_exit */
    bool own_group;
    struct process_exit exit;
};

/* -- the end of a process -- */

static void process_free(struct process *p)
{
    timer_deinit(&p->grace);
    if (p->pidfd >= 0) close(p->pidfd);
    for (int i = 0; i < OUTPUTS; i++) buf_deinit(&p->outputs[i].line);
    free(p);
}

static void process_on_handle_closed(uv_handle_t *handle)
{
    struct process *p = handle->data;

    real_enter(p->real);
    assert(p->handles > 0);
    p->handles--;
    if (p->handles > 0) return;
    assert(p->ended || p->failed);
    if (!p->failed) p->on_exit(p->owner, p->exit);
    process_free(p);
}

static void close_output(struct output *output)
{
    uv_handle_t *handle = (uv_handle_t *)&output->pipe;

    if (handle->data && !uv_is_closing(handle)) uv_close(handle, process_on_handle_closed);
}

/* Kills the group of an ended process. Must run before the ended process is reaped: afterwards the
 * group's id may be reused. */
static void kill_group(const struct process *p)
{
    siginfo_t info = {0};

    if (waitid(P_PIDFD, (id_t)p->pidfd, &info, WEXITED | WNOHANG | WNOWAIT)) return;
    if (info.si_pid != 0) kill(-p->pid, SIGKILL);
}

static void on_ended(uv_poll_t *watch, int, int)
{
    struct process *p = watch->data;
    siginfo_t info = {0};

    real_enter(p->real);
    if (p->own_group) kill_group(p);
    if (waitid(P_PIDFD, (id_t)p->pidfd, &info, WEXITED | WNOHANG)) {
        if (errno == EINTR) return; /* the pidfd stays readable, so this is called again */
        p->exit.unknown = true;     /* later calls would fail, too */
    } else if (info.si_pid == 0) {
        return;
    } else {
        p->exit.signalled = info.si_code != CLD_EXITED;
        p->exit.code = info.si_status;
    }
    p->ended = true;
    uv_close((uv_handle_t *)&p->watch, process_on_handle_closed);
    timer_start_in(&p->grace, PROCESS_OUTPUT_GRACE_MS);
}

/* -- lines -- */

static void keep_part(struct output *output, struct str part)
{
    struct process *p = output->process;
    size_t room = output->line.max - output->line.len;

    if (output->cut) return;
    if (part.len > room) {
        output->cut = true;
        part.len = room;
    }
    /* If memory runs out, the kept part of the line is reported. */
    if (buf_append(&output->line, part)) output->cut = true;
    if (!output->cut) return;
    p->on_line(p->owner, output->number, buf_peek(&output->line));
    buf_clear(&output->line);
}

static void end_line(struct output *output, struct str last_part)
{
    struct process *p = output->process;

    if (output->line.len == 0 && !output->cut && last_part.len <= output->line.max) {
        p->on_line(p->owner, output->number, last_part); /* a whole line, not copied */
        return;
    }
    keep_part(output, last_part);
    if (!output->cut) p->on_line(p->owner, output->number, buf_peek(&output->line));
    buf_clear(&output->line);
    output->cut = false;
}

static void take_bytes(struct output *output, struct str bytes)
{
    while (bytes.len > 0) {
        size_t end = str_find(bytes, '\n');
        if (end == bytes.len) {
            keep_part(output, bytes);
            return;
        }
        end_line(output, str_of(bytes.at, end));
        bytes = str_tail(bytes, end + 1);
    }
}

static void end_output(struct output *output)
{
    if (uv_is_closing((uv_handle_t *)&output->pipe)) return;
    if (output->line.len > 0) end_line(output, STR_EMPTY);
    close_output(output);
}

/* Ends the wait for a grandchild that kept the pipes open. */
static void on_grace_over(struct timer *timer)
{
    struct process *p = CONTAINER_OF(timer, struct process, grace);

    for (int i = 0; i < OUTPUTS && p->on_line; i++) end_output(&p->outputs[i]);
}

static void on_output_room(uv_handle_t *handle, size_t, uv_buf_t *ret_room)
{
    struct process *p = handle->data;
    struct real_io *real = p->real;

    real_enter(real);
    *ret_room = uv_buf_init(real->read_room, sizeof real->read_room);
}

static void on_output(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
    struct output *output = CONTAINER_OF((uv_pipe_t *)stream, struct output, pipe);

    real_enter(output->process->real);
    if (got > 0) {
        take_bytes(output, str_of(room->base, (size_t)got));
    } else if (got < 0) { /* the end, or an error */
        end_output(output);
    }
}

/* -- starting a process -- */

/* Descriptors of a launch. The read end of each pipe precedes its write end. */
enum {
    FD_INPUT,
    FD_FILE,       /* for both outputs of a detached process */
    FD_STATUS,     /* a pipe: why exec failed */
    FD_GATE = 4,   /* a pipe: the pid of a detached child was recorded */
    FD_OUTPUT = 6, /* the first of OUTPUTS pipes */
    FD_COUNT = FD_OUTPUT + 2 * OUTPUTS,
};
/* Data for the child, prepared before the fork. */
struct launch {
    const struct process_options *options;
    char path[PROGRAM_PATH_CAP];
    int fds[FD_COUNT]; /* -1 if not open */
    pid_t parent;
    const struct process_detached *detached; /* may be NULL */
    enum err record_err;
    struct note *note;
    bool directory_failed; /* the error concerns options->directory */
};
struct child_failure {
    int error;
    bool at_directory;
};

static bool is_file(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static int find_program(const char *name, char path[PROGRAM_PATH_CAP])
{
    struct str rest = str_from(getenv("PATH")), part;
    int error = ENOENT;

    if (strchr(name, '/')) {
        int len = snprintf(path, PROGRAM_PATH_CAP, "%s", name);
        return len < PROGRAM_PATH_CAP ? 0 : ENAMETOOLONG; /* exec reports other errors */
    }
    if (rest.len == 0) rest = STR("/usr/local/bin:/usr/bin:/bin");
    while (name[0] && str_split(&rest, ':', &part)) {
        if (part.len == 0) part = STR(".");
        int len = snprintf(path, PROGRAM_PATH_CAP, "%.*s/%s", STR_ARG(part), name);
        if (len >= PROGRAM_PATH_CAP) continue;
        if (access(path, X_OK) == 0) {
            if (is_file(path)) return 0;
            errno = EACCES; /* a directory, for example: try the next PATH entry */
        }
        if (errno == EACCES) error = EACCES; /* the program may not be executed */
    }
    return error;
}

static void child_fail(int status_fd, bool at_directory)
{
    struct child_failure failure = {.error = errno, .at_directory = at_directory};
    ssize_t wrote = write(status_fd, &failure, sizeof failure);

    (void)wrote;
    _exit(CHILD_EXIT_NO_PARENT);
}

/* Waits until the parent has recorded the child's pid. */
static void child_wait(const struct launch *launch)
{
    char go;
    ssize_t got;

    setsid();
    close(launch->fds[FD_GATE + 1]); /* otherwise the child would not notice the parent's death */
    do got = read(launch->fds[FD_GATE], &go, 1);
    while (got < 0 && errno == EINTR);
    if (got != 1) _exit(CHILD_EXIT_NO_PARENT);
}

static void child_main(const struct launch *launch)
{
    const struct process_options *options = launch->options;
    char *const *env = options->env ? (char *const *)options->env : environ;
    sigset_t none;
    /* Moves the descriptor away from 0, 1 and 2, which the child replaces. */
    int status_fd = fcntl(launch->fds[FD_STATUS + 1], F_DUPFD_CLOEXEC, CHILD_FD_FIRST);
    int fds[1 + OUTPUTS] = {fcntl(launch->fds[FD_INPUT], F_DUPFD_CLOEXEC, CHILD_FD_FIRST), -1, -1};

    for (int i = 0; i < OUTPUTS && (options->on_line || launch->detached); i++)
        fds[1 + i] = fcntl(launch->fds[launch->detached ? FD_FILE : FD_OUTPUT + 2 * i + 1],
                           F_DUPFD_CLOEXEC, CHILD_FD_FIRST);
    if (launch->detached) child_wait(launch);
    if (options->die_with_parent) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL)) child_fail(status_fd, false);
        /* The parent may have died before prctl. getppid() is 0 outside our pid namespace. */
        if (getppid() != launch->parent && getppid() != 0) _exit(CHILD_EXIT_NO_PARENT);
    }
    if (options->own_group) setpgid(0, 0);
    for (int signal_number = 1; signal_number < NSIG; signal_number++)
        signal(signal_number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int target = 0; target <= OUTPUTS; target++) {
        if (fds[target] < 0) break;
        if (dup2(fds[target], target) < 0) child_fail(status_fd, false);
    }
    /* Closes descriptors that a library opened without close-on-exec. */
    close_range(CHILD_FD_FIRST, ~0u, CLOSE_RANGE_CLOEXEC);
    if (options->directory && chdir(options->directory)) child_fail(status_fd, true);
    execve(launch->path, (char *const *)options->argv, env);
    child_fail(status_fd, false);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Passes the input in an unnamed file: a program that does not read its input blocks nothing. */
static int open_input(struct launch *launch)
{
    struct str left = launch->options->input;
    int fd =
        left.len > 0 ? memfd_create("input", MFD_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC);

    launch->fds[FD_INPUT] = fd;
    if (fd < 0) return errno;
    if (left.len == 0) return 0;
    while (left.len > 0) {
        ssize_t wrote = write(fd, left.at, left.len);
        if (wrote < 0 && errno != EINTR) return errno;
        if (wrote > 0) left = str_tail(left, (size_t)wrote);
    }
    return lseek(fd, 0, SEEK_SET) < 0 ? errno : 0;
}

static int open_fds(struct launch *launch)
{
    int error = open_input(launch);

    if (error) return error;
    if (pipe2(&launch->fds[FD_STATUS], O_CLOEXEC)) return errno;
    for (int i = 0; i < OUTPUTS && launch->options->on_line; i++)
        if (pipe2(&launch->fds[FD_OUTPUT + 2 * i], O_CLOEXEC)) return errno;
    return 0;
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

static int await_exec(struct launch *launch, pid_t pid)
{
    struct child_failure failure = {0};
    ssize_t got;

    do got = read(launch->fds[FD_STATUS], &failure, sizeof failure);
    while (got < 0 && errno == EINTR);
    if (got == 0) return 0;
    reap(pid);
    if (got != sizeof failure) return EIO;
    launch->directory_failed = failure.at_directory;
    return failure.error;
}

/* An ignored SIGCHLD survives exec, and makes the kernel reap our children without their exit
 * status. */
static void keep_exit_statuses(void)
{
    struct sigaction now;

    if (sigaction(SIGCHLD, NULL, &now)) return;
    if (now.sa_handler != SIG_IGN && !(now.sa_flags & SA_NOCLDWAIT)) return;
    if (now.sa_handler == SIG_IGN) now.sa_handler = SIG_DFL;
    now.sa_flags &= ~SA_NOCLDWAIT;
    sigaction(SIGCHLD, &now, NULL);
}

/* The child exits if recording its pid fails. */
static enum err let_go(struct launch *launch, pid_t pid)
{
    const struct process_detached *detached = launch->detached;
    enum err err = detached->record(detached->owner, (int)pid, launch->note);

    if (!err && write(launch->fds[FD_GATE + 1], "", 1) != 1) err = ERR_IO;
    close_fd(&launch->fds[FD_GATE + 1]);
    if (err) reap(pid);
    return err;
}

static int fork_and_exec(struct launch *launch, pid_t *ret_pid)
{
    sigset_t all, before;
    pid_t pid;
    int error;

    keep_exit_statuses();
    launch->parent = getpid();
    sigfillset(&all); /* none of our handlers may run in the child */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0) child_main(launch);
    error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) return error;
    close_fd(&launch->fds[FD_STATUS + 1]);
    if (launch->detached) launch->record_err = let_go(launch, pid);
    error = await_exec(launch, pid);
    if (!error) *ret_pid = pid;
    return error;
}

/* After an error the launch's cleanup closes the read ends. */
static int watch_outputs(struct process *p, struct launch *launch)
{
    for (int i = 0; i < OUTPUTS && p->on_line; i++) {
        struct output *output = &p->outputs[i];
        int failed = uv_pipe_init(&p->real->uv, &output->pipe, 0);

        if (failed) return failed;
        output->pipe.data = p;
        p->handles++;
        failed = uv_pipe_open(&output->pipe, launch->fds[FD_OUTPUT + 2 * i]);
        if (failed) return failed;
        launch->fds[FD_OUTPUT + 2 * i] = -1;
        failed = uv_read_start((uv_stream_t *)&output->pipe, on_output_room, on_output);
        if (failed) return failed;
    }
    return 0;
}

static int watch_end(struct process *p)
{
    int failed;

    p->pidfd = pidfd_open(p->pid, 0); /* not reaped yet, so the pid is the child's */
    if (p->pidfd < 0) return -errno;
    failed = uv_poll_init(&p->real->uv, &p->watch, p->pidfd);
    if (failed) return failed;
    p->watch.data = p;
    p->handles++;
    return uv_poll_start(&p->watch, UV_READABLE, on_ended);
}

/* Kills a child that cannot be watched. */
static void abandon(struct process *p)
{
    kill(p->own_group ? -p->pid : p->pid, SIGKILL);
    reap(p->pid);
}

static void process_drop(struct process *p)
{
    p->failed = true;
    if (p->watch.data) uv_close((uv_handle_t *)&p->watch, process_on_handle_closed);
    for (int i = 0; i < OUTPUTS; i++) close_output(&p->outputs[i]);
    if (p->handles == 0) process_free(p);
}

static int launch_process(struct process *p, struct launch *launch)
{
    int error = find_program(launch->options->argv[0], launch->path);

    if (!error) error = open_fds(launch);
    if (!error) error = -watch_outputs(p, launch);
    if (!error) error = fork_and_exec(launch, &p->pid);
    if (error) return error;
    error = -watch_end(p);
    if (error) abandon(p);
    return error;
}

static enum err process_new(struct real_io *real, const struct process_options *options,
                            struct process **ret_process)
{
    struct process *p = calloc(1, sizeof *p);
    size_t line_max = options->output_line_max ? options->output_line_max : LINE_MAX_DEFAULT;
    enum err err;

    if (!p) return ERR_NOMEM;
    p->real = real;
    p->on_line = options->on_line;
    p->on_exit = options->on_exit;
    p->owner = options->owner;
    p->own_group = options->own_group;
    p->pidfd = -1;
    for (int i = 0; i < OUTPUTS; i++) {
        p->outputs[i].process = p;
        p->outputs[i].number = i + 1;
        buf_init(&p->outputs[i].line, line_max);
    }
    err = timer_init(&p->grace, &real->loop, on_grace_over);
    if (err)
        process_free(p);
    else
        *ret_process = p;
    return err;
}

static enum err refuse_start(const struct launch *launch, int error, struct note *note)
{
    const struct process_options *options = launch->options;
    char reason[96];

    uv_strerror_r(-error, reason, sizeof reason);
    if (launch->directory_failed) {
        note_set(note, "start %s: directory %s: %s", options->argv[0], options->directory, reason);
        return ERR_INVALID;
    }
    return note_fail(note, real_err(-error), "start %s: %s", options->argv[0], reason);
}

static void launch_init(struct launch *launch, const struct process_options *options,
                        struct note *note)
{
    *launch = (struct launch){.options = options, .note = note};
    for (int i = 0; i < FD_COUNT; i++) launch->fds[i] = -1;
}

static void launch_deinit(struct launch *launch)
{
    for (int i = 0; i < FD_COUNT; i++) close_fd(&launch->fds[i]);
}

enum err process_start(struct loop *loop, const struct process_options *options,
                       struct process **ret_process, struct note *note)
{
    struct launch launch;
    struct real_io *real = real_from_loop(loop);
    struct process *p;
    enum err err;
    int error;

    if (!real) return ERR_UNSUPPORTED;
    if (!options->argv || !options->argv[0] || !options->on_exit) return ERR_INVALID;
    err = process_new(real, options, &p);
    if (err) return err;
    launch_init(&launch, options, note);
    error = launch_process(p, &launch);
    launch_deinit(&launch);
    if (!error) {
        *ret_process = p;
        return ERR_OK;
    }
    process_drop(p);
    return refuse_start(&launch, error, note);
}

int process_pid(const struct process *process)
{
    return process->pid;
}

enum err process_signal(struct process *process, int signal)
{
    if (process->ended) return ERR_NOT_FOUND;
    if (process->own_group && kill(-process->pid, signal) == 0) return ERR_OK;
    if (pidfd_send_signal(process->pidfd, signal, NULL, 0) == 0) return ERR_OK;
    return errno == ESRCH ? ERR_NOT_FOUND : real_err(-errno);
}

void process_abandon(struct process *process)
{
    if (!process->ended) abandon(process);
    process_drop(process);
}

/* -- detached -- */

static int open_detached(struct launch *launch)
{
    const char *output = launch->detached->output;
    int error = open_fds(launch);

    if (error) return error;
    if (pipe2(&launch->fds[FD_GATE], O_CLOEXEC)) return errno;
    launch->fds[FD_FILE] = open(output ? output : "/dev/null",
                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (launch->fds[FD_FILE] >= 0) return 0;
    note_set(launch->note, "output %s", output ? output : "/dev/null");
    return errno;
}

enum err process_start_detached(const struct process_detached *options, int *ret_pid,
                                struct note *note)
{
    const struct process_options usual = {
        .argv = options->argv, .env = options->env, .directory = options->directory};
    struct launch launch;
    pid_t pid = 0;
    int error;

    if (!options->argv || !options->argv[0]) return ERR_INVALID;
    launch_init(&launch, &usual, note);
    launch.detached = options;
    error = find_program(options->argv[0], launch.path);
    if (!error) error = open_detached(&launch);
    if (!error) error = fork_and_exec(&launch, &pid);
    launch_deinit(&launch);
    if (launch.record_err) return launch.record_err;
    if (error) return refuse_start(&launch, error, note);
    *ret_pid = (int)pid;
    return ERR_OK;
}
