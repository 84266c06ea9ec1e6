/* SPDX-License-Identifier: Apache-2.0 */
/* Lists tables that may have a million rows. A list reads some rows of a view per turn of the event
 * loop, so that the leader can do its other work.
 *
 * A list shows the moment when its view was opened, after leadership was confirmed for all its
 * callers. A call that arrives later shares the next list with all waiting calls. The callers get
 * the response one after the other, some bytes per turn. */
#include <stdlib.h>

#include "fleet/service_internal.h"

enum {
    ROWS_A_TURN = 1024,       /* about a millisecond */
    BYTES_A_TURN = 512 << 10, /* copied per turn: about the time of ROWS_A_TURN rows */
};

struct part { /* the encoded rows of one shard; allocated by map_make */
    struct list link;
    struct buf bytes;
};

/* Domains are read by key, but listed by shard, so each shard has its own part of the response. */
static enum err lister_add_part(struct service_lister *lister, struct str id)
{
    struct part *part = map_make(&lister->by_shard, id, sizeof *part);

    if (!part) return ERR_NOMEM;
    list_init(&part->link);
    buf_init(&part->bytes, SERVICE_ANSWER_MAX);
    list_append(&lister->parts, &part->link);
    return ERR_OK;
}

static enum err lister_take_row(struct service_lister *lister, const struct fleet_row *from)
{
    bool domains = lister->table == FLEET_DOMAINS;
    struct pack fields = pack_begin(&lister->service->row), row;
    struct part *part;
    size_t before;

    if (domains && from->table == FLEET_SHARDS) return lister_add_part(lister, from->shard.id);
    if (from->table != lister->table) return ERR_OK;
    part = map_get(&lister->by_shard, domains ? from->domain.shard : STR_EMPTY);
    if (!part) return ERR_INTERNAL; /* the tables contain every row's shard */
    before = part->bytes.len;
    service_pack_row(lister->service, &fields, from);
    row = (struct pack){&part->bytes, ERR_OK};
    pack_row(&row, 1, &fields);
    lister->total += part->bytes.len - before;
    return !row.err && lister->total > SERVICE_ANSWER_MAX ? ERR_FULL : row.err;
}

/* -- sending the response -- */

static void lister_drop(struct service_lister *lister)
{
    LIST_EACH_SAFE(&lister->parts, node, next)
    {
        struct part *part = CONTAINER_OF(node, struct part, link);

        list_remove(node);
        buf_deinit(&part->bytes);
        free(part);
    }
    map_deinit(&lister->by_shard);
    fleet_view_close(lister->view);
    lister->view = NULL;
    lister->total = 0;
    lister->busy = false;
}

static void lister_begin(struct service_lister *lister);

static void lister_end(struct service_lister *lister)
{
    lister_drop(lister);
    if (!list_empty(&lister->waiting)) lister_begin(lister);
}

static void lister_refuse_all(struct service_lister *lister, enum err err)
{
    while (!list_empty(&lister->running)) {
        struct leader_request *request =
            CONTAINER_OF(lister->running.next, struct leader_request, link);

        request_refuse(request, err_grpc_status(err), "%s: %s", request->method->name,
                       err_text(err));
    }
    lister_end(lister);
}

/* *ret_done after the last byte. */
static enum err lister_answer_some(struct service_lister *lister, struct leader_request *request,
                                   bool *ret_done)
{
    struct fleet_request *mine = fleet_request_of(request);
    size_t given = 0;
    enum err err = ERR_OK;

    if (!mine->answering) {
        mine->answering = true;
        lister->part = lister->parts.next;
        lister->part_at = 0;
        err = rpc_reply_begin(request->call, lister->total);
    }
    while (!err && given < BYTES_A_TURN && lister->part != &lister->parts) {
        struct buf *bytes = &CONTAINER_OF(lister->part, struct part, link)->bytes;
        size_t len = min_size(bytes->len - lister->part_at, BYTES_A_TURN - given);

        if (len > 0)
            err = rpc_reply_more(request->call, str_of(bytes->data + lister->part_at, len));
        given += len;
        lister->part_at += len;
        if (lister->part_at < bytes->len) continue;
        lister->part = lister->part->next;
        lister->part_at = 0;
    }
    *ret_done = !err && lister->part == &lister->parts;
    return err;
}

/* Callers that disconnected have left the list. */
static void lister_answer_next(struct service_lister *lister)
{
    struct leader_request *request;
    bool done = false;
    enum err err;

    if (list_empty(&lister->running)) {
        lister_end(lister);
        return;
    }
    request = CONTAINER_OF(lister->running.next, struct leader_request, link);
    if (lister->total == 0) {
        request_reply(request, STR_EMPTY);
    } else {
        err = lister_answer_some(lister, request, &done);
        if (err)
            request_refuse(request, err_grpc_status(err), "%s: the answer: %s",
                           request->method->name, err_text(err));
        else if (done)
            request_free(request);
    }
    timer_start_in(&lister->timer, 0);
}

static void lister_on_turn(struct timer *timer)
{
    struct service_lister *lister = CONTAINER_OF(timer, struct service_lister, timer);
    struct fleet_row row;
    bool more = true;
    enum err err = ERR_OK;

    if (!lister->view) {
        lister_answer_next(lister);
        return;
    }
    for (int i = 0; i < ROWS_A_TURN && more && !err; i++) {
        err = fleet_view_next(lister->view, &row, &more);
        if (!err && more) err = lister_take_row(lister, &row);
    }
    if (err) {
        lister_refuse_all(lister, err == ERR_CANCELLED ? ERR_UNAVAILABLE : err);
        return;
    }
    if (!more) {
        fleet_view_close(lister->view);
        lister->view = NULL;
    }
    timer_start_in(timer, 0);
}

static void lister_begin(struct service_lister *lister)
{
    enum err err;

    assert(!lister->busy && list_empty(&lister->running));
    lister->busy = true;
    list_splice(&lister->running, &lister->waiting);
    map_init(&lister->by_shard, FLEET_SHARDS_MAX, 0);
    err = fleet_view_open(lister->service->fleet, &lister->view);
    if (!err && lister->table != FLEET_DOMAINS) err = lister_add_part(lister, STR_EMPTY);
    if (err)
        lister_refuse_all(lister, err); /* all views are in use; the callers must retry */
    else
        timer_start_in(&lister->timer, 0);
}

/* -- life -- */

enum err service_lister_init(struct service_lister *lister, struct fleet_service *service,
                             enum fleet_table table)
{
    lister->service = service;
    lister->table = table;
    list_init(&lister->waiting);
    list_init(&lister->running);
    list_init(&lister->parts);
    return timer_init(&lister->timer, service->io->loop, lister_on_turn);
}

void service_lister_deinit(struct service_lister *lister)
{
    if (!lister->service) return;
    assert(list_empty(&lister->waiting) && list_empty(&lister->running));
    timer_deinit(&lister->timer);
    lister_drop(lister);
}

void service_list_later(struct leader_request *request, struct service_lister *lister)
{
    request_keep(request, &lister->waiting);
    if (!lister->busy) lister_begin(lister);
}
