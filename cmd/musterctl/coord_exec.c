/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl coord exec: a command that runs only while a slot is held. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "common/tables.h"
#include "ctl/coord_guard.h"
#include "musterctl/coord.h"

/* What a shell answers for a command that is not there, and for one that cannot be run. */
enum { EXIT_NO_COMMAND = 127, EXIT_NOT_RUNNABLE = 126, EXIT_SIGNAL_BASE = 128 };
static const int handled[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/* One for the process: the command's own end is its exit code, which no error code carries. */
struct run {
    struct coord_ctl *coord;
    struct coord_guard guard;
    coord_lease *lease;
    pid_t command;
    _Atomic int group; /* the command's, while it may get a signal */
    int exit_code;
    _Atomic int lost; /* the reason, once */
    coord_done claimed;
    bool claim_is_done;
};
static struct run the_run;

static void on_lost(void *arg, coord_lease *lease, int reason)
{
    struct run *run = arg;

    (void)lease;
    atomic_store(&run->lost, reason);
    /* The guard does it, too; this is for a guard that somebody killed. */
    int group = atomic_load(&run->group);
    if (group > 0) (void)kill(-group, SIGKILL);
}

static int64_t safe_until_ns(const struct run *run)
{
    return coord_guard_now_ns() + coord_safe_for_ms(run->lease) * (int64_t)NS_PER_MS;
}

static void set_number(const char *name, uint64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    (void)setenv(name, text, 1);
}

/* Between fork and exec: nothing but system calls. The command is guarded before it runs: it tells
 * the guard itself, and dies with us should we be gone before it could. */
static _Noreturn void become(struct run *run, char **argv, pid_t parent, int report,
                             int64_t safe_until, int64_t grace_ns)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigset_t none;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_NOT_RUNNABLE);
    coord_guard_watch(&run->guard, getpid(), safe_until, grace_ns);
    for (size_t i = 0; i < ARRAY_LEN(handled); i++) (void)sigaction(handled[i], &by_default, NULL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execvp(argv[0], argv);
    int error = errno;
    ssize_t ignored = write(report, &error, sizeof error);
    (void)ignored;
    _exit(EXIT_NOT_RUNNABLE);
}

static enum err spawn(struct run *run, struct ctl *ctl, int64_t grace_ns)
{
    size_t count = conf_argument_count(ctl->conf);
    char **argv = arena_calloc(&ctl->memory, count + 1, sizeof *argv);
    int report[2], failed = 0;
    pid_t parent = getpid();

    if (argv == NULL) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        argv[i] = (char *)(uintptr_t)conf_argument(ctl->conf, i); /* exec does not write them */
    if (pipe2(report, O_CLOEXEC) != 0) return ERR_IO;
    int64_t safe_until = safe_until_ns(run);
    run->command = fork();
    if (run->command == 0) become(run, argv, parent, report[1], safe_until, grace_ns);
    (void)close(report[1]);
    if (run->command < 0) {
        failed = errno;
    } else {
        (void)setpgid(run->command, run->command);
        if (read(report[0], &failed, sizeof failed) == (ssize_t)sizeof failed) {
            coord_guard_forget(&run->guard);
            (void)waitpid(run->command, NULL, 0);
        } else {
            failed = 0;
        }
    }
    (void)close(report[0]);
    if (failed == 0) return ERR_OK;
    run->command = 0;
    run->exit_code = failed == ENOENT ? EXIT_NO_COMMAND : EXIT_NOT_RUNNABLE;
    return ctl_fail(ctl, failed == ENOENT ? ERR_NOT_FOUND : ERR_DENIED, "%s: %s", argv[0],
                    strerror(failed));
}

/* At a terminal the command must be in the foreground, or its first read would stop it. */
static bool hand_terminal_over(pid_t group)
{
    bool ours = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();

    if (ours) {
        (void)tcsetpgrp(STDIN_FILENO, group);
        (void)kill(-group, SIGCONT);
    }
    return ours;
}

static void take_terminal_back(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;

    (void)sigaction(SIGTTOU, &ignore, &before);
    (void)tcsetpgrp(STDIN_FILENO, getpgrp());
    (void)sigaction(SIGTTOU, &before, NULL);
}

/* True when the command has ended; it is reaped, and its group forgotten before that. */
static bool reap(struct run *run)
{
    siginfo_t end = {0};

    if (waitid(P_PID, (id_t)run->command, &end, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        end.si_pid == 0)
        return false;
    /* What it left behind in its group ends with the claim. */
    (void)kill(-run->command, SIGKILL);
    coord_guard_forget(&run->guard);
    atomic_store(&run->group, 0);
    (void)waitid(P_PID, (id_t)run->command, &end, WEXITED);
    run->exit_code = end.si_code == CLD_EXITED ? end.si_status : EXIT_SIGNAL_BASE + end.si_status;
    return true;
}

static void forward(struct run *run, int signals)
{
    struct signalfd_siginfo got;

    while (read(signals, &got, sizeof got) == (ssize_t)sizeof got)
        if (got.ssi_signo != SIGCHLD) (void)kill(-run->command, (int)got.ssi_signo);
}

static void follow(struct run *run, int signals)
{
    /* Often enough that what the keeper renewed reaches the guard long before it would act. */
    int64_t step = coord_lease_ttl_ms(run->lease) / 20;
    struct pollfd wait = {.fd = signals, .events = POLLIN};

    while (!reap(run)) {
        (void)poll(&wait, 1, step < 10 ? 10 : (step > 500 ? 500 : (int)step));
        forward(run, signals);
        coord_guard_extend(&run->guard, safe_until_ns(run));
    }
}

static enum err hold_and_run(struct run *run, int signals)
{
    struct ctl *ctl = run->coord->ctl;
    int64_t grace = (int64_t)conf_number(ctl->conf, "grace");

    if (grace == 0) grace = coord_lease_ttl_ms(run->lease) / 3;
    enum err err = spawn(run, ctl, grace * (int64_t)NS_PER_MS);
    if (!err) {
        atomic_store(&run->group, (int)run->command);
        /* Lost before there was a command to stop. */
        if (atomic_load(&run->lost) != 0) (void)kill(-run->command, SIGKILL);
        bool terminal = hand_terminal_over(run->command);
        follow(run, signals);
        if (terminal) take_terminal_back();
    }
    return err;
}

static void on_claimed(void *arg, coord_done *done)
{
    struct run *run = arg;

    run->claimed = *done;
    run->claim_is_done = true;
}

/* Waits for the slot and for signals at once: --wait may be long, and Ctrl-C must end it. */
static enum err await_claim(struct run *run, int signals)
{
    struct pollfd wait[2] = {{.fd = coord_fd(run->coord->store), .events = POLLIN},
                             {.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo got;

    while (!run->claim_is_done) {
        (void)poll(wait, ARRAY_LEN(wait), -1);
        (void)coord_dispatch(run->coord->store);
        while (read(signals, &got, sizeof got) == (ssize_t)sizeof got) {
            if (got.ssi_signo == SIGCHLD) continue;
            run->exit_code = EXIT_SIGNAL_BASE + (int)got.ssi_signo;
            return ctl_fail(run->coord->ctl, ERR_CANCELLED, "interrupted");
        }
    }
    return coord_ctl_error(run->coord->ctl, &run->claimed.result);
}

static enum err acquire(struct run *run, int signals)
{
    struct ctl *ctl = run->coord->ctl;
    coord_request request = {
        .op = COORD_OP_ACQUIRE, .call = run->coord->call, .slot = COORD_SLOT_REQUEST_INIT};
    char memory[132];

    coord_ctl_slot(ctl, &request.slot, memory);
    coord_result started = coord_start(run->coord->store, &request, on_claimed, run);
    enum err err = coord_ctl_error(ctl, &started);
    if (!err) err = await_claim(run, signals);
    if (err) return err;
    run->lease = run->claimed.lease;
    (void)setenv("COORD_GROUP", conf_text(ctl->conf, "group"), 1);
    (void)setenv("COORD_OWNER", request.slot.owner, 1);
    set_number("COORD_SLOT", run->claimed.result.slot);
    set_number("COORD_TOKEN", run->claimed.result.token);
    return ERR_OK;
}

/* Why the claim is over. A store that was restored or replaced reports every claim as revoked; any
 * read through the same handle then gives the cause. */
static void note_lost(struct run *run, int lost)
{
    struct coord_ctl *coord = run->coord;
    coord_str key = {.at = "lost", .len = 4};
    coord_entry *entry = NULL;
    coord_result why = {.text = ""};

    if (lost == COORD_R_REVOKED && coord_capabilities(coord->store).degraded)
        why = coord_get(coord->store, &coord->call, key, COORD_STALE_OK, &entry);
    coord_entry_free(entry);
    if (why.text[0])
        note_set(&coord->ctl->note, "the claim was lost: %s (%s); the command was stopped",
                 why.text, coord_reason_name(why.reason));
    else
        note_set(&coord->ctl->note, "the claim was lost (%s); the command was stopped",
                 lost != 0 ? coord_reason_name(lost) : "it could not be renewed in time");
}

static enum err with_store(struct coord_ctl *coord)
{
    struct run *run = &the_run;
    struct ctl *ctl = coord->ctl;
    sigset_t watched;
    coord_result result;

    run->coord = coord;
    sigemptyset(&watched);
    for (size_t i = 0; i < ARRAY_LEN(handled); i++) sigaddset(&watched, handled[i]);
    int signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    enum err err = signals < 0 ? ERR_IO : acquire(run, signals);
    if (!err) {
        result = coord_keep(run->lease, on_lost, run);
        err = coord_ctl_error(ctl, &result);
        if (!err) err = hold_and_run(run, signals);
        (void)coord_release(run->lease, &coord->call);
        coord_lease_unref(run->lease);
    }
    if (signals >= 0) (void)close(signals);
    int lost = atomic_load(&run->lost);
    if (!err && (lost != 0 || coord_guard_fired(&run->guard))) {
        note_lost(run, lost);
        err = ERR_FENCED;
    }
    return err;
}

/* A claim that came while we were leaving: released with the store, only the handle is left. */
static void give_back(struct run *run)
{
    if (run->claim_is_done && run->claimed.lease != NULL && run->lease == NULL)
        coord_lease_unref(run->claimed.lease);
}

static enum err act(struct ctl *ctl)
{
    sigset_t blocked;
    uint64_t ttl = conf_number(ctl->conf, "ttl"), grace = conf_number(ctl->conf, "grace");
    enum err err;

    if (grace > ttl / 2)
        return ctl_fail(ctl, ERR_INVALID, "--grace: at most half of --ttl (%" PRIu64 " ms)",
                        ttl / 2);
    /* First the guard, which is to be a process with one thread; then the signals, which the
     * store's threads inherit as blocked, so that they reach our signalfd. */
    err = coord_guard_start(&the_run.guard, &ctl->note);
    if (err) return err;
    sigemptyset(&blocked);
    for (size_t i = 0; i < ARRAY_LEN(handled); i++) sigaddset(&blocked, handled[i]);
    (void)sigprocmask(SIG_BLOCK, &blocked, NULL);
    err = coord_ctl_while_open(ctl, with_store);
    give_back(&the_run);
    coord_guard_stop(&the_run.guard);
    return err;
}

static int run_exec(void *context, const struct command_call *call)
{
    int exit_code = ctl_run(context, call);
    /* A lost claim says so by its code, also when the command took the TERM well. */
    return exit_code == err_exit_code(ERR_FENCED) || the_run.exit_code == 0 ? exit_code
                                                                            : the_run.exit_code;
}

const struct command coord_exec_command = {
    .name = "exec",
    .summary = "run a command while holding a slot",
    .about =
        "Acquires one of --slots, runs the command, keeps the claim, gives it back at the end. The "
        "command finds COORD_SLOT, COORD_TOKEN, COORD_GROUP and COORD_OWNER in its environment. "
        "When the claim cannot be renewed it gets TERM, and KILL before another could be let in; a "
        "second process sees to that even if this one is stopped or killed.\n"
        "Ends as the command ends (128 + N after signal N, 127 when there is no such command). "
        "Exit code 4: every slot is held, or the claim was lost.",
    .options = &coord_exec_table,
    COMMAND_ARGUMENTS("-- COMMAND...", 1, CONF_ARGUMENTS_MAX),
    .examples = COMMAND_EXAMPLES(
        {"musterctl coord exec --group nightly --slots 1 -- ./backup.sh",
         "one at a time on this host; exit code 4 when another runs"},
        {"musterctl coord exec --group crawl --slots 3 --wait 10m -- sh -c 'crawl $COORD_SLOT'",
         "three at a time, each with its number; wait for a place"},
        {"musterctl coord exec --group import --store etcd://h1:2379,h2:2379 -- ./import.sh",
         "one in the whole cluster"}),
    .exits = COORD_EXITS,
    .run = run_exec,
    .data = &(const struct ctl_action){.act = act, .offline = true},
};
