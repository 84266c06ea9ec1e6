/* SPDX-License-Identifier: Apache-2.0 */
/* Detects that this replica was removed from its cluster. Loop's thread.
 *
 * The leader replicates to members only, so a removed replica may never apply its own removal. Its
 * watches and serializable reads would be stale without an error. A replica without a leader
 * therefore asks the members it knew for the leader's member list. The replica is removed if that
 * list, or its own log, says so.
 *
 * At most one query is in progress, on its own channel; the timer runs only between queries. */
#include "rpc/client.h"
#include "store/etcd/internal.h"
#include "wire/message.h"

enum {
    ASK_FIRST_MS = 2000, /* time without a leader; longer than most elections */
    ASK_AGAIN_MS = 5000,
    ASK_CALL_MS = 5000,
    ANSWER_ARENA_MAX = 1 << 20,
    REQUEST_MAX = 16,
};

static void removal_found(struct etcd_api *api, const char *by)
{
    if (api->removal.removed) return;
    api->removal.removed = true;
    LOG_WARN(&api->log, "this replica was removed from the cluster: its etcd clients get an error",
             log_text("by", by));
    etcd_watches_end(api, ETCD_REMOVED);
    etcd_queue_waits_end(api, ETCD_REMOVED);
    etcd_observers_end(api, ETCD_REMOVED, false);
}

/* -- the query -- */

static void removal_ask_later(struct etcd_removal *removal, uint64_t in_ms)
{
    if (!removal->stopping && removal->leaderless && !removal->channel &&
        !timer_running(&removal->again))
        timer_start_in(&removal->again, in_ms);
}

static void removal_on_closed(void *owner)
{
    struct etcd_api *api = owner;

    api->removal.channel = NULL;
    api->removal.channel_closing = false;
    if (api->removal.stopping)
        etcd_removal_stopped(api); /* the API may be freed after this call */
    else
        removal_ask_later(&api->removal, ASK_AGAIN_MS);
}

static void removal_close_channel(struct etcd_api *api)
{
    if (!api->removal.channel_closing)
        rpc_channel_close(api->removal.channel, removal_on_closed, api);
    api->removal.channel_closing = true;
}

/* true: the bytes are a member list of this cluster without this replica */
static bool is_list_without_us(const struct etcd_api *api, struct str bytes)
{
    struct replica_status status = replica_status(api->options.replica);
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

static void removal_on_answer(void *owner, const struct rpc_client_call *,
                              const struct rpc_outcome *outcome, struct str message)
{
    struct etcd_api *api = owner;

    if (!outcome->err && api->removal.leaderless && is_list_without_us(api, message))
        removal_found(api, "the leader");
    removal_close_channel(api);
}

static enum err removal_ask(struct etcd_api *api, const char *const *addresses)
{
    Etcdserverpb__MemberListRequest request = ETCDSERVERPB__MEMBER_LIST_REQUEST__INIT;
    struct rpc_call_options call = {
        .path = "/etcdserverpb.Cluster/MemberList", .timeout_ms = ASK_CALL_MS, .idempotent = true};
    struct note note = {""};
    struct buf bytes;
    enum err err;

    request.linearizable = true; /* the leader confirms its leadership, then sends its own list */
    buf_init(&bytes, REQUEST_MAX);
    err = message_write(&request.base, &bytes, NULL);
    if (!err)
        err = rpc_channel_open(&(struct rpc_channel_options){.io = api->options.io,
                                                             .addresses = addresses,
                                                             .tls = api->options.tls},
                               &api->removal.channel, &note);
    if (!err)
        err =
            rpc_unary(api->removal.channel, &call, buf_peek(&bytes), removal_on_answer, api, NULL);
    buf_deinit(&bytes);
    if (err && api->removal.channel) removal_close_channel(api);
    return err;
}

static void removal_on_again(struct timer *timer)
{
    struct etcd_api *api = CONTAINER_OF(timer, struct etcd_api, removal.again);
    struct etcd_member members[REPLICA_MEMBERS_MAX];
    const char *addresses[REPLICA_MEMBERS_MAX + 1];
    size_t count = etcd_members(api, members), others = 0;
    uint64_t self = replica_status(api->options.replica).id;

    for (size_t i = 0; i < count; i++)
        if (members[i].id != self && members[i].join[0]) addresses[others++] = members[i].join;
    addresses[others] = NULL;
    if (others == 0 || removal_ask(api, addresses)) removal_ask_later(&api->removal, ASK_AGAIN_MS);
}

/* -- the part -- */

static void removal_changed(struct etcd_api *api, const struct replica_status *status)
{
    struct etcd_removal *removal = &api->removal;

    removal->leaderless = status->leader_id == 0;
    removal->was_member |= status->member;
    if (removal->leaderless)
        removal_ask_later(removal, ASK_FIRST_MS);
    else
        timer_stop(&removal->again);
    if (removal->was_member && !status->member)
        removal_found(api, "its own log");
    else if (!removal->leaderless)
        removal->removed = false; /* the replica was added again */
}

static enum err removal_open(struct etcd_api *api)
{
    return timer_init(&api->removal.again, api->options.io->loop, removal_on_again);
}

void etcd_removal_stop(struct etcd_api *api)
{
    api->removal.stopping = true;
    timer_stop(&api->removal.again);
    if (api->removal.channel)
        removal_close_channel(api);
    else
        etcd_removal_stopped(api);
}

static void removal_close(struct etcd_api *api) /* call after etcd_removal_stopped() */
{
    assert(!api->removal.channel);
    timer_deinit(&api->removal.again);
}

const struct etcd_part etcd_removal_part = {
    .open = removal_open, .close = removal_close, .changed = removal_changed};
