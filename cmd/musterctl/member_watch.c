/* SPDX-License-Identifier: Apache-2.0 */
/* How lists of worker membership are fetched, printed and watched. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/program.h"
#include "musterctl/member.h"
#include "wire/pb/muster_v1_member.pb-c.h"

enum { PAGES_MAX = 10000, AGAIN_AFTER_US = 200 * 1000 };

/* -- pages -- */

struct rows {
    size_t *count;
    ProtobufCMessage ***list;
    protobuf_c_boolean *more;
};

static struct rows rows_of(ProtobufCMessage *answer)
{
    const ProtobufCFieldDescriptor *rows = &answer->descriptor->fields[0];
    const ProtobufCFieldDescriptor *more =
        protobuf_c_message_descriptor_get_field_by_name(answer->descriptor, "more");
    char *base = (char *)answer;

    assert(rows->label == PROTOBUF_C_LABEL_REPEATED && more);
    return (struct rows){.count = (void *)(base + rows->quantifier_offset),
                         .list = (void *)(base + rows->offset),
                         .more = (void *)(base + more->offset)};
}

static enum err append_rows(struct arena *memory, struct rows *to, const struct rows *from)
{
    size_t count = *to->count + *from->count;
    ProtobufCMessage **all = arena_calloc(memory, count, sizeof(void *));

    if (!all) return ERR_NOMEM;
    memcpy(all, *to->list, *to->count * sizeof(void *));
    memcpy(all + *to->count, *from->list, *from->count * sizeof(void *));
    *to->list = all;
    *to->count = count;
    return ERR_OK;
}

enum err listing_fetch(struct ctl *ctl, const struct listing *listing, ProtobufCMessage *request,
                       ProtobufCMessage **ret_answer)
{
    ProtobufCMessage *first = NULL;
    struct rows all = {0};
    bool more = true;

    for (size_t page = 0; more && page < PAGES_MAX; page++) {
        ProtobufCMessage *answer;
        struct rows rows;
        enum err err = ctl_call(ctl, &listing->method, request, &answer);

        if (err) return err;
        rows = rows_of(answer);
        more = *rows.more && *rows.count > 0;
        if (more) listing->advance(request, (*rows.list)[*rows.count - 1]);
        if (first) {
            err = *rows.count ? append_rows(&ctl->memory, &all, &rows) : ERR_OK;
            if (err) return err;
        } else {
            first = answer;
            all = rows;
        }
    }
    *all.more = more;
    *ret_answer = first;
    return ERR_OK;
}

enum err listing_print(struct ctl *ctl, const struct listing *listing,
                       const ProtobufCMessage *answer)
{
    struct table table;

    if (ctl->json) return ctl_json(ctl, answer);
    table_init(&table, listing->columns, &ctl->memory);
    listing->rows(&table, answer);
    return table_print(&table, &ctl->out);
}

/* -- watching -- */

struct watching {
    struct ctl *ctl;
    ctl_fn *show;
    uint64_t left; /* 0: for ever */
    bool shown;
    bool over;
};

/* On a terminal the new picture takes the place of the old one; in a pipe a blank line parts them,
 * or the line end where each is one line. */
static enum err show_again(struct watching *w)
{
    static const char home[] = "\033[H\033[2J";
    struct ctl *ctl = w->ctl;
    bool terminal = isatty(STDOUT_FILENO);
    enum err err = ERR_OK;

    if (!ctl->json && (terminal || w->shown)) err = buf_append_c(&ctl->out, terminal ? home : "\n");
    if (!err) err = w->show(ctl);
    if (!err && program_print(buf_peek(&ctl->out)) != 0) err = ERR_CANCELLED;
    buf_clear(&ctl->out);
    arena_reset(&ctl->memory);
    w->shown = true;
    return err;
}

static enum err on_change(void *owner, const ProtobufCMessage *message __attribute__((unused)),
                          struct note *note)
{
    struct watching *w = owner;
    enum err err = show_again(w);

    if (err) {
        *note = w->ctl->note;
    } else if (w->left && --w->left == 0) {
        w->over = true;
        err = ERR_CANCELLED; /* ends the stream */
    }
    return err;
}

/* Over a connection of its own: the lists are asked for while it is being told. A stream that was
 * cut (another leader) is begun anew; one that never was is the command's end. */
static enum err watch(struct ctl *ctl, ctl_fn *show)
{
    static const struct remote_method method = {"/muster.v1.Membership/WatchChanges",
                                                &muster__v1__watch_changes_response__descriptor,
                                                REMOTE_READ, NULL};
    Muster__V1__WatchChangesRequest request = MUSTER__V1__WATCH_CHANGES_REQUEST__INIT;
    struct watching w = {.ctl = ctl, .show = show, .left = conf_number(ctl->conf, "count")};
    struct remote *remote;
    enum err err = remote_open(ctl->conf, NULL, &remote, &ctl->note);

    while (!err || err == ERR_CLOSED || err == ERR_UNAVAILABLE) {
        bool before = w.shown;
        w.shown = false;
        err = remote_stream(remote, &method, &request.base, on_change, &w, &ctl->note);
        if (w.over || (err && !w.shown)) break;
        w.shown = before || w.shown;
        (void)usleep(AGAIN_AFTER_US);
    }
    remote_close(remote);
    return w.over ? ERR_OK : err;
}

enum err member_show(struct ctl *ctl, ctl_fn *show)
{
    return conf_bool(ctl->conf, "watch") ? watch(ctl, show) : show(ctl);
}
