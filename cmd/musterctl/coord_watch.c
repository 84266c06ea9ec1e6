/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl coord watch: what is there, then every change, until somebody interrupts it. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/program.h"
#include "common/tables.h"
#include "musterctl/coord.h"

static const char *const names[] = {"?",      "snapshot", "entry",  "end",      "put",
                                    "delete", "expired",  "resync", "progress", "closed"};

static const char *name_of(int type)
{
    return type > 0 && type < (int)ARRAY_LEN(names) ? names[type] : "?";
}

static enum err print_event(struct ctl *ctl, const coord_event *event)
{
    struct ndjson json;

    if (!ctl->json) {
        if (event->type == COORD_SNAPSHOT_BEGIN || event->type == COORD_PROGRESS) return ERR_OK;
        if (event->key.len == 0) return ctl_line(ctl, "%s", name_of(event->type));
        return ctl_line(ctl, "%s %.*s %" PRIu64 "%s%s%s%.*s", name_of(event->type),
                        (int)event->key.len, event->key.at, event->revision,
                        event->owner[0] ? " " : "", event->owner, event->value.len > 0 ? " " : "",
                        (int)event->value.len, event->value.at);
    }
    ndjson_begin(&json, &ctl->out, NDJSON_LINE);
    ndjson_c_string(&json, STR("event"), name_of(event->type));
    ndjson_string(&json, STR("key"), str_of(event->key.at, event->key.len));
    ndjson_u64(&json, STR("revision"), event->revision);
    ndjson_u64(&json, STR("token"), event->token);
    ndjson_c_string(&json, STR("owner"), event->owner[0] ? event->owner : NULL);
    ndjson_string(&json, STR("value"), str_of(event->value.at, event->value.len));
    if (event->type == COORD_CLOSED)
        ndjson_c_string(&json, STR("reason"), coord_reason_name(event->reason));
    return ndjson_end(&json);
}

static bool is_change(int type)
{
    return type == COORD_PUT || type == COORD_DELETE || type == COORD_EXPIRE;
}

/* Line by line as they come: a reader in a pipe waits for each. */
static enum err flush(struct ctl *ctl)
{
    int failed = ctl->out.len > 0 ? program_print(buf_peek(&ctl->out)) : 0;

    buf_clear(&ctl->out);
    return failed ? ERR_CANCELLED : ERR_OK;
}

static enum err follow(struct ctl *ctl, coord_watch *watch, int signals)
{
    struct pollfd wait[2] = {{.fd = coord_watch_fd(watch), .events = POLLIN},
                             {.fd = signals, .events = POLLIN}};
    uint64_t left = conf_number(ctl->conf, "count");
    bool counted = left > 0;
    coord_event event;
    enum err err = ERR_OK;

    for (;;) {
        while (coord_watch_next(watch, 0, &event)) {
            err = print_event(ctl, &event);
            if (!err) err = flush(ctl);
            if (err) return err;
            if (event.type == COORD_CLOSED) {
                note_set(&ctl->note, "the watch ended: %s", coord_reason_name(event.reason));
                return ERR_CLOSED;
            }
            if (counted && is_change(event.type) && --left == 0) return ERR_OK;
        }
        if (poll(wait, ARRAY_LEN(wait), -1) < 0 && errno != EINTR) return ERR_IO;
        if (wait[1].revents != 0) return ERR_OK;
    }
}

static enum err watch_scope(struct coord_ctl *coord)
{
    struct ctl *ctl = coord->ctl;
    coord_watch *watch;
    sigset_t stop;
    coord_result opened =
        coord_watch_open(coord->store, &coord->call, coord_ctl_argument(ctl, 0),
                         conf_bool(ctl->conf, "key") ? 0 : COORD_WATCH_BUCKET, &watch);
    enum err err = coord_ctl_error(ctl, &opened);

    if (err) return err;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    int signals = signalfd(-1, &stop, SFD_CLOEXEC);
    err = signals < 0 ? ERR_IO : follow(ctl, watch, signals);
    if (signals >= 0) (void)close(signals);
    coord_watch_close(watch);
    return err;
}

static int run(void *context, const struct command_call *call)
{
    sigset_t stop;

    /* Before the store's threads are made, so that they inherit it: else one of them would take
     * the signal and end us. */
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    return coord_ctl_run(context, call, watch_scope);
}

static const struct command_example examples[] = {
    {"musterctl coord watch workers -o json", "who comes and goes, for a program"},
    {"musterctl coord watch --key config/flags --count 1", "wait for the next change"},
    {NULL, NULL},
};
const struct command coord_watch_command = {
    .name = "watch",
    .summary = "what is there, then every change",
    .about = "First a line `entry` for each key and `end`, then `put`, `delete` and `expired` as "
             "they come; no gap, nothing twice. After `resync` a new list follows, and what it "
             "lacks is gone. Ends with Ctrl-C.",
    .options = &coord_watch_table,
    .arguments = "SCOPE",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = examples,
    .exits = COORD_EXITS,
    .run = run,
};
