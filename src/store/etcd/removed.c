/* SPDX-License-Identifier: Apache-2.0 */
/* Asks members for the member list while no leader is known. At most one question is under way, on a
 * channel of its own; the timer runs only between questions. */
#include "store/etcd/removed.h"

#include <stdlib.h>

#include "rpc/client.h"
#include "store/etcd/internal.h"
#include "wire/message.h"

enum {
    ASK_FIRST_MS = 2000, /* without a leader: an election takes less, so few elections cause it */
    ASK_AGAIN_MS = 5000,
    ASK_CALL_MS = 5000,
    ANSWER_ARENA_MAX = 1 << 20,
    REQUEST_MAX = 16,
};

struct removal_check {
    struct etcd_api *api;
    struct timer again;
    struct rpc_channel *channel; /* of the question under way, until it is closed */
    bool channel_closing;
    bool was_member, leaderless, removed, stopping;
    void (*stopped)(void *owner);
    void *stopped_owner;
};

bool replica_is_removed(const struct removal_check *check)
{
    return check->removed;
}

static void removal_found(struct removal_check *check, const char *by)
{
    if (check->removed) return;
    check->removed = true;
    LOG_WARN(&check->api->log,
             "this replica was removed from the cluster: etcd's clients are sent away",
             log_text("by", by));
    etcd_watches_end(check->api, ETCD_REMOVED);
    etcd_queue_waits_end(check->api, ETCD_REMOVED);
    etcd_observers_end(check->api, ETCD_REMOVED, false);
}

/* -- the question -- */

static void check_later(struct removal_check *check, uint64_t in_ms)
{
    if (!check->stopping && check->leaderless && !check->channel && !timer_running(&check->again))
        timer_start_in(&check->again, in_ms);
}

static void on_closed(void *owner)
{
    struct removal_check *check = owner;

    check->channel = NULL;
    check->channel_closing = false;
    if (check->stopped)
        check->stopped(check->stopped_owner); /* and `check` may be freed */
    else
        check_later(check, ASK_AGAIN_MS);
}

static void check_close_channel(struct removal_check *check)
{
    if (!check->channel_closing) rpc_channel_close(check->channel, on_closed, check);
    check->channel_closing = true;
}

/* A list of members of our cluster, without this replica. */
static bool is_list_without_us(const struct removal_check *check, struct str bytes)
{
    struct replica_status status = replica_status(check->api->options.replica);
    const Etcdserverpb__MemberListResponse *list;
    ProtobufCMessage *message;
    struct arena arena;
    bool without = false;

    arena_init(&arena, ANSWER_ARENA_MAX);
    if (!message_read(&etcdserverpb__member_list_response__descriptor, bytes, NULL, &arena,
                      &message, NULL)) {
        list = (const Etcdserverpb__MemberListResponse *)message;
        without =
            list->header && list->header->cluster_id == status.cluster_id && list->n_members > 0;
        for (size_t i = 0; i < list->n_members; i++) without &= list->members[i]->id != status.id;
    }
    arena_deinit(&arena);
    return without;
}

static void on_answer(void *owner, const struct rpc_client_call *,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct removal_check *check = owner;

    if (!outcome->err && check->leaderless && is_list_without_us(check, message))
        removal_found(check, "the leader");
    check_close_channel(check);
}

static enum err check_ask(struct removal_check *check, const char *const *addresses)
{
    Etcdserverpb__MemberListRequest request = ETCDSERVERPB__MEMBER_LIST_REQUEST__INIT;
    struct rpc_call_options call = {
        .path = "/etcdserverpb.Cluster/MemberList", .timeout_ms = ASK_CALL_MS, .idempotent = true};
    struct note note = {""};
    struct buf bytes;
    enum err err;

    request.linearizable = true; /* the leader's own list, once its leadership is proved */
    buf_init(&bytes, REQUEST_MAX);
    err = message_write(&request.base, &bytes, NULL);
    if (!err)
        err = rpc_channel_open(&(struct rpc_channel_options){.io = check->api->options.io,
                                                             .addresses = addresses,
                                                             .tls = check->api->options.tls},
                               &check->channel, &note);
    if (!err) err = rpc_unary(check->channel, &call, buf_peek(&bytes), on_answer, check, NULL);
    buf_deinit(&bytes);
    if (err && check->channel) check_close_channel(check);
    return err;
}

static void on_again(struct timer *timer)
{
    struct removal_check *check = CONTAINER_OF(timer, struct removal_check, again);
    struct etcd_member members[REPLICA_MEMBERS_MAX];
    const char *addresses[REPLICA_MEMBERS_MAX + 1];
    size_t count = etcd_members(check->api, members), others = 0;
    uint64_t self = replica_status(check->api->options.replica).id;

    for (size_t i = 0; i < count; i++)
        if (members[i].id != self && members[i].join[0]) addresses[others++] = members[i].join;
    addresses[others] = NULL;
    if (others == 0 || check_ask(check, addresses)) check_later(check, ASK_AGAIN_MS);
}

/* -- the part -- */

static void removal_changed(struct etcd_api *api, const struct replica_status *status)
{
    struct removal_check *check = api->removal;

    check->leaderless = status->leader_id == 0;
    check->was_member |= status->member;
    if (check->leaderless)
        check_later(check, ASK_FIRST_MS);
    else
        timer_stop(&check->again);
    if (check->was_member && !status->member)
        removal_found(check, "its own log");
    else if (!check->leaderless)
        check->removed = false; /* it was added again */
}

static enum err removal_open(struct etcd_api *api)
{
    struct removal_check *check = calloc(1, sizeof *check);
    enum err err;

    if (!check) return ERR_NOMEM;
    check->api = api;
    err = timer_init(&check->again, api->options.io->loop, on_again);
    if (err) {
        free(check);
        return err;
    }
    api->removal = check;
    return ERR_OK;
}

void removal_check_stop(struct removal_check *check, void (*done)(void *owner), void *owner)
{
    if (check) {
        check->stopping = true;
        timer_stop(&check->again);
    }
    if (!check || !check->channel) {
        done(owner);
        return;
    }
    check->stopped = done;
    check->stopped_owner = owner;
    check_close_channel(check);
}

static void removal_close(struct etcd_api *api) /* after removal_check_stop's done */
{
    struct removal_check *check = api->removal;

    if (!check) return;
    assert(!check->channel);
    timer_deinit(&check->again);
    free(check);
}

const struct etcd_part etcd_removal_part = {
    .open = removal_open, .close = removal_close, .changed = removal_changed};
