/* SPDX-License-Identifier: Apache-2.0 */
/* Does a command once, or, with --watch, again with every change of worker membership.
 *
 * The changes come over a connection of their own, because the command makes calls while they
 * come. A stream that was cut (another leader) is begun again; one without any message ends the
 * command. One thread. */
#include <unistd.h>

#include "ctl/ctl.h"
#include "wire/pb/muster_v1_member.pb-c.h"

enum { AGAIN_AFTER_US = 200 * 1000 };

struct watching {
    struct ctl *ctl;
    uint64_t left; /* 0: for ever */
    bool shown;
    bool over;
};

static enum err watch_do_once(struct ctl *ctl)
{
    const struct ctl_action *action = ctl->action;

    return action->act ? action->act(ctl) : ctl_rpc_run(ctl, &action->rpc);
}

/* On a terminal the new picture takes the place of the old one; in a pipe a blank line parts them,
 * or the line end where each is one line. */
static enum err watch_show_again(struct watching *w)
{
    struct ctl *ctl = w->ctl;
    bool terminal = isatty(STDOUT_FILENO);
    enum err err;

    if (!ctl->json && (terminal || w->shown))
        ctl_append(ctl, terminal ? STR("\033[H\033[2J") : STR("\n"));
    err = watch_do_once(ctl);
    if (!err) err = ctl_flush(ctl);
    buf_clear(&ctl->out);
    arena_reset(&ctl->memory);
    w->shown = true;
    return err;
}

static enum err watch_on_change(void *owner, const ProtobufCMessage *, struct note *note)
{
    struct watching *w = owner;
    enum err err = watch_show_again(w);

    if (err) {
        *note = w->ctl->note;
    } else if (w->left && --w->left == 0) {
        w->over = true;
        err = ERR_CANCELLED; /* ends the stream */
    }
    return err;
}

static enum err watch_changes(struct ctl *ctl)
{
    struct watching w = {.ctl = ctl, .left = conf_number(ctl->conf, "count")};
    struct remote *remote = NULL;
    enum err err = remote_open(ctl->conf, NULL, &remote, &ctl->note);

    while (!err || err == ERR_CLOSED || err == ERR_UNAVAILABLE) {
        bool before = w.shown;
        w.shown = false;
        err = remote_stream(
            remote, REMOTE_READ_OF(MEMBERSHIP_PATH "WatchChanges", muster__v1__watch_changes), NULL,
            watch_on_change, &w, &ctl->note);
        if (w.over || (err && !w.shown)) break;
        w.shown = before || w.shown;
        (void)usleep(AGAIN_AFTER_US);
    }
    remote_close(remote);
    return w.over ? ERR_OK : err;
}

enum err ctl_do(struct ctl *ctl)
{
    enum err err = ctl_has_option(ctl, "watch") && conf_bool(ctl->conf, "watch")
                       ? watch_changes(ctl)
                       : watch_do_once(ctl);

    return err ? err : ctl->print_err;
}
