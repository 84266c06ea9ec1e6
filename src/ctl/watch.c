/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command once, or with --watch every second, and then prints only changed output. One
 * thread.
 *
 * After the first output, a server that stops answering does not end the command: one line on
 * stderr reports it, and the command asks again. Ctrl-C is the normal end at any time. */
#include <signal.h>
#include <unistd.h>

#include "ctl/ctl.h"

enum { WATCH_EVERY_US = 1000 * 1000 };

static void watch_on_signal(int)
{
    _exit(0);
}

void ctl_end_when_interrupted(void)
{
    struct sigaction end = {.sa_handler = watch_on_signal};

    (void)sigaction(SIGINT, &end, NULL);
    (void)sigaction(SIGTERM, &end, NULL);
}

struct watching {
    struct ctl *ctl;
    struct buf shown;
    uint64_t left; /* rounds left; 0: no limit */
    bool printed, away, over;
};

static enum err watch_do_once(struct ctl *ctl)
{
    const struct ctl_action *action = ctl->action;

    return action->act ? action->act(ctl) : ctl_rpc_run(ctl, &action->rpc);
}

/* On a terminal the new output replaces the old one. In a pipe the separators are a blank line
 * between tables, a newline between JSON documents, and "---" between YAML documents. */
static enum err watch_print(struct watching *w)
{
    struct ctl *ctl = w->ctl;
    bool terminal = isatty(STDOUT_FILENO) && !ctl->json;
    struct str between = terminal      ? STR("\033[H\033[2J")
                         : !w->printed ? STR_EMPTY
                         : ctl->yaml   ? STR("---\n")
                         : ctl->json   ? STR_EMPTY
                                       : STR("\n");
    enum err err;

    buf_clear(&w->shown);
    err = buf_append(&w->shown, buf_peek(&ctl->out));
    if (!err && between.len > 0 && ctl->print(between)) err = ERR_CANCELLED;
    if (!err) err = ctl_flush(ctl);
    w->printed = true;
    return err;
}

static bool watch_may_pass(enum err err)
{
    return err_exit_code(err) == 3 || err_exit_code(err) == 6;
}

static enum err watch_round(struct watching *w)
{
    struct ctl *ctl = w->ctl;
    enum err err = watch_do_once(ctl);
    bool same = w->printed && str_equal(buf_peek(&ctl->out), buf_peek(&w->shown));

    if (!err) err = ctl->print_err;
    if (watch_may_pass(err) && (w->printed || ctl->out.len > 0)) {
        if (!w->away) ctl->warn(ctl->call, str_from(ctl->note.text));
        w->away = true;
        err = ERR_OK;
        same = same || ctl->out.len == 0;
    } else {
        w->away = false;
    }
    if (!err && !same) err = watch_print(w);
    if (!err) buf_clear(&ctl->out);
    w->over = w->left && --w->left == 0;
    arena_reset(&ctl->memory);
    return err;
}

static enum err watch_changes(struct ctl *ctl)
{
    struct watching w = {.ctl = ctl, .left = conf_number(ctl->conf, "count")};
    enum err err;

    buf_init(&w.shown, ctl->out.max);
    ctl_end_when_interrupted();
    while (!(err = watch_round(&w)) && !w.over) (void)usleep(WATCH_EVERY_US);
    buf_deinit(&w.shown);
    return err;
}

enum err ctl_do(struct ctl *ctl)
{
    enum err err = ctl_has_option(ctl, "watch") && conf_bool(ctl->conf, "watch")
                       ? watch_changes(ctl)
                       : watch_do_once(ctl);

    return err ? err : ctl->print_err;
}
