/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl coord watch: prints the current entries, then every change until Ctrl-C. */
#include <inttypes.h>

#include "common/help.h"
#include "common/tables.h"
#include "musterctl/coord.h"

static const char *const names[] = {"?",      "snapshot", "entry",  "end",      "put",
                                    "delete", "expired",  "resync", "progress", "closed"};

static const char *watch_event_name(int type)
{
    return type > 0 && type < (int)ARRAY_LEN(names) ? names[type] : "?";
}

static void watch_print_event(struct ctl *ctl, const coord_event *event)
{
    if (!ctl->json) {
        if (event->type == COORD_SNAPSHOT_BEGIN || event->type == COORD_PROGRESS) return;
        if (event->key.len == 0)
            ctl_line(ctl, "%s", watch_event_name(event->type));
        else
            ctl_line(ctl, "%s %.*s %" PRIu64 "%s%s%s%.*s", watch_event_name(event->type),
                     STR_ARG(event->key), event->revision, event->owner[0] ? " " : "", event->owner,
                     event->value.len > 0 ? " " : "", STR_ARG(event->value));
        return;
    }
    struct ndjson *json = ctl_json_begin(ctl);
    ndjson_c_string(json, STR("event"), watch_event_name(event->type));
    ndjson_string(json, STR("key"), str_of(event->key.at, event->key.len));
    ndjson_u64(json, STR("revision"), event->revision);
    ndjson_u64(json, STR("token"), event->token);
    ndjson_c_string(json, STR("owner"), event->owner[0] ? event->owner : NULL);
    ndjson_string(json, STR("value"), str_of(event->value.at, event->value.len));
    if (event->type == COORD_CLOSED)
        ndjson_c_string(json, STR("reason"), coord_reason_name(event->reason));
    ctl_json_end(ctl);
}

/* Prints each change as soon as it arrives, because a program may read the output through a
 * pipe. */
static enum err watch_follow(struct ctl *ctl, coord_watch *watch)
{
    uint64_t left = conf_number(ctl->conf, "count");
    bool counted = left > 0;
    coord_event event;

    while (coord_watch_next(watch, -1, &event)) {
        bool change =
            event.type == COORD_PUT || event.type == COORD_DELETE || event.type == COORD_EXPIRE;
        enum err err;

        watch_print_event(ctl, &event);
        err = ctl_flush(ctl);
        if (err) return err;
        if (event.type == COORD_CLOSED)
            return ctl_fail(ctl, ERR_CLOSED, "the watch ended: %s",
                            coord_reason_name(event.reason));
        if (counted && change && --left == 0) break;
    }
    return ERR_OK;
}

static enum err watch_scope(struct coord_ctl *coord)
{
    struct ctl *ctl = coord->ctl;
    coord_watch *watch;
    coord_result opened =
        coord_watch_open(coord->store, &coord->call, coord_ctl_argument(ctl, 0),
                         conf_bool(ctl->conf, "key") ? 0 : COORD_WATCH_BUCKET, &watch);
    enum err err = coord_ctl_error(ctl, &opened);

    if (err) return err;
    ctl_end_when_interrupted();
    err = watch_follow(ctl, watch);
    coord_watch_close(watch);
    return err;
}

const struct command coord_watch_command = {
    COMMAND_ROW_WITH(HELP_MUSTERCTL_COORD_WATCH, coord_watch, "SCOPE", 1, 1),
    COORD_ACT(0, watch_scope),
};
