/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl coord exec: runs a command only while it holds a slot. */
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "common/help.h"
#include "common/tables.h"
#include "ctl/guarded_command.h"
#include "musterctl/coord.h"
#include "prim/backend.h"

/* Static, because the exit code of the command is no enum err and must reach the caller. */
struct run {
    struct coord_ctl *coord;
    struct guarded_command command;
    coord_lease *lease;
    _Atomic int lost; /* the reason, once */
    coord_done claimed;
    bool claim_is_done;
};
static struct run the_run;

static void exec_on_lost(void *arg, coord_lease *, int reason)
{
    struct run *run = arg;

    atomic_store(&run->lost, reason);
    /* Kills the command here, too, in case somebody has killed the guard. */
    guarded_command_kill(&run->command);
}

static int64_t exec_safe_until_ns(void *owner)
{
    const struct run *run = owner;

    return prim_boottime_ns(NULL) + coord_safe_for_ms(run->lease) * (int64_t)NS_PER_MS;
}

static void exec_set_number(const char *name, uint64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    (void)setenv(name, text, 1);
}

static enum err exec_hold_and_run(struct run *run)
{
    struct ctl *ctl = run->coord->ctl;
    size_t count = conf_argument_count(ctl->conf);
    char **argv = arena_calloc(&ctl->memory, count + 1, sizeof *argv);
    int64_t grace = (int64_t)conf_number(ctl->conf, "grace"), ttl = coord_lease_ttl_ms(run->lease);
    enum err err;

    if (argv == NULL) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        argv[i] = (char *)(uintptr_t)conf_argument(ctl->conf, i); /* exec does not write to argv */
    if (grace == 0) grace = ttl / 3;
    err = guarded_command_start(&run->command, argv, exec_safe_until_ns(run),
                                grace * (int64_t)NS_PER_MS, &ctl->note);
    if (err) return err;
    /* The claim may have been lost before the command started. */
    if (atomic_load(&run->lost) != 0) guarded_command_kill(&run->command);
    /* A short step, so that a renewed lease reaches the guard before the guard stops the
     * command. */
    guarded_command_follow(&run->command, (int)max_u64(10, min_u64((uint64_t)ttl / 20, 500)),
                           exec_safe_until_ns, run);
    return ERR_OK;
}

static void exec_on_claimed(void *arg, coord_done *done)
{
    struct run *run = arg;

    run->claimed = *done;
    run->claim_is_done = true;
}

/* Waits for the slot and for signals together: --wait may be long, and Ctrl-C must end the wait. */
static enum err exec_await_claim(struct run *run)
{
    struct pollfd wait[2] = {{.fd = coord_fd(run->coord->store), .events = POLLIN},
                             {.fd = run->command.signals, .events = POLLIN}};

    while (!run->claim_is_done) {
        (void)poll(wait, ARRAY_LEN(wait), -1);
        (void)coord_dispatch(run->coord->store);
        int signal = guarded_command_signal(&run->command);
        if (signal == 0) continue;
        run->command.exit_code = GUARDED_SIGNAL_BASE + signal;
        return ctl_fail(run->coord->ctl, ERR_CANCELLED, "interrupted");
    }
    return coord_ctl_error(run->coord->ctl, &run->claimed.result);
}

static enum err coord_exec_acquire(struct run *run)
{
    struct ctl *ctl = run->coord->ctl;
    coord_request request = {
        .op = COORD_OP_ACQUIRE, .call = run->coord->call, .slot = COORD_SLOT_REQUEST_INIT};
    char memory[132];

    coord_ctl_slot(ctl, &request.slot, memory);
    coord_result started = coord_start(run->coord->store, &request, exec_on_claimed, run);
    enum err err = coord_ctl_error(ctl, &started);
    if (!err) err = exec_await_claim(run);
    if (err) return err;
    run->lease = run->claimed.lease;
    (void)setenv("COORD_GROUP", conf_text(ctl->conf, "group"), 1);
    (void)setenv("COORD_OWNER", request.slot.owner, 1);
    exec_set_number("COORD_SLOT", run->claimed.result.slot);
    exec_set_number("COORD_TOKEN", run->claimed.result.token);
    return ERR_OK;
}

/* Notes why the claim was lost. A replaced store reports every claim as revoked, and a read with
 * the same handle returns the cause. */
static void exec_note_lost(struct run *run, int lost)
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

static enum err exec_with_store(struct coord_ctl *coord)
{
    struct run *run = &the_run;
    struct ctl *ctl = coord->ctl;
    coord_result result;

    run->coord = coord;
    enum err err = coord_exec_acquire(run);
    if (!err) {
        result = coord_keep(run->lease, exec_on_lost, run);
        err = coord_ctl_error(ctl, &result);
        if (!err) err = exec_hold_and_run(run);
        (void)coord_release(run->lease, &coord->call);
        coord_lease_unref(run->lease);
    }
    int lost = atomic_load(&run->lost);
    if (!err && (lost != 0 || coord_guard_fired(&run->command.guard))) {
        exec_note_lost(run, lost);
        err = ERR_FENCED;
    }
    return err;
}

/* Drops the handle of a claim that was granted during the exit. Closing the store releases the
 * claim. */
static void exec_give_back(struct run *run)
{
    if (run->claim_is_done && run->claimed.lease != NULL && run->lease == NULL)
        coord_lease_unref(run->claimed.lease);
}

static enum err exec_act(struct ctl *ctl)
{
    uint64_t ttl = conf_number(ctl->conf, "ttl"), grace = conf_number(ctl->conf, "grace");
    enum err err;

    if (grace > ttl / 2)
        return ctl_fail(ctl, ERR_INVALID, "--grace: at most half of --ttl (%" PRIu64 " ms)",
                        ttl / 2);
    /* Blocks the signals before the store's threads start, because the threads must inherit
     * this. */
    err = guarded_command_open(&the_run.command, &ctl->note);
    if (err) return err;
    err = coord_ctl_with_store(ctl, exec_with_store, false);
    exec_give_back(&the_run);
    guarded_command_close(&the_run.command);
    return err;
}

static int run_exec(void *context, const struct command_call *call)
{
    int exit_code = ctl_run(context, call);
    /* The exit code of a lost claim wins, even if the command exited with 0 after TERM. */
    return exit_code == err_exit_code(ERR_FENCED) || the_run.command.exit_code == 0
               ? exit_code
               : the_run.command.exit_code;
}

const struct command coord_exec_command = {
    COMMAND_ROW_WITH(HELP_MUSTERCTL_COORD_EXEC, coord_exec, "-- COMMAND...", 1, CONF_ARGUMENTS_MAX),
    .exits = COORD_EXITS,
    .run = run_exec,
    .data = &(const struct ctl_action){.act = exec_act, .offline = true},
};
