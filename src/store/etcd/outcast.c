/* SPDX-License-Identifier: Apache-2.0 */
#include "store/etcd/outcast.h"

#include <stdlib.h>

#include "rpc/client.h"
#include "store/etcd/internal.h"
#include "wire/message.h"

enum {
    ASK_FIRST_MS = 2000, /* without a leader: an election takes less, so most are not asked about */
    ASK_AGAIN_MS = 5000,
    ASK_CALL_MS = 5000,
    ANSWER_ARENA_MAX = 1 << 20,
    REQUEST_MAX = 16,
};

struct outcast {
    struct etcd_api *api;
    struct timer again;          /* runs while nobody leads and nothing is asked */
    struct rpc_channel *channel; /* of a question that is under way, until it is closed */
    bool channel_closing;
    bool was_member, leaderless, out, stopping;
    void (*stopped)(void *owner);
    void *stopped_owner;
};

bool outcast_known(const struct outcast *outcast)
{
    return outcast->out;
}

static void set_out(struct outcast *o, const char *by)
{
    if (o->out) return;
    o->out = true;
    LOG_WARN(&o->api->log, "no member of the cluster: etcd's clients are sent away",
             log_text("by", by));
    etcd_watches_end(o->api, ETCD_REMOVED);
    etcd_waits_end(o->api, ETCD_REMOVED);
    etcd_observers_end(o->api, ETCD_REMOVED, false);
}

/* -- the question -- */

static void ask_later(struct outcast *o, uint64_t in_ms)
{
    if (!o->stopping && o->leaderless && !o->channel && !timer_running(&o->again))
        timer_start_in(&o->again, in_ms);
}

static void on_closed(void *owner)
{
    struct outcast *o = owner;

    o->channel = NULL;
    o->channel_closing = false;
    if (o->stopped)
        o->stopped(o->stopped_owner); /* and we may be gone */
    else
        ask_later(o, ASK_AGAIN_MS);
}

static void close_channel(struct outcast *o)
{
    if (!o->channel_closing) rpc_channel_close(o->channel, on_closed, o);
    o->channel_closing = true;
}

/* True: members of our cluster are told, and we are none of them. */
static bool leaves_us_out(const struct outcast *o, struct str bytes)
{
    struct replica_status status = replica_status(o->api->options.replica);
    const Etcdserverpb__MemberListResponse *list;
    ProtobufCMessage *message;
    struct arena arena;
    bool out = false;

    arena_init(&arena, ANSWER_ARENA_MAX);
    if (!message_read(&etcdserverpb__member_list_response__descriptor, bytes, NULL, &arena,
                      &message, NULL)) {
        list = (const Etcdserverpb__MemberListResponse *)message;
        out = list->header && list->header->cluster_id == status.cluster_id && list->n_members > 0;
        for (size_t i = 0; i < list->n_members; i++) out &= list->members[i]->id != status.id;
    }
    arena_deinit(&arena);
    return out;
}

static void on_answer(void *owner, const struct rpc_client_call *,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct outcast *o = owner;

    if (!outcome->err && o->leaderless && leaves_us_out(o, message)) set_out(o, "the leader");
    close_channel(o);
}

static enum err ask(struct outcast *o, const char *const *addresses)
{
    Etcdserverpb__MemberListRequest request = ETCDSERVERPB__MEMBER_LIST_REQUEST__INIT;
    struct rpc_call_options call = {
        .path = "/etcdserverpb.Cluster/MemberList", .timeout_ms = ASK_CALL_MS, .idempotent = true};
    struct note note = {""};
    struct buf bytes;
    enum err err;

    request.linearizable = true; /* the leader's own word, once it is proved */
    buf_init(&bytes, REQUEST_MAX);
    err = message_write(&request.base, &bytes, NULL);
    if (!err)
        err = rpc_channel_open(&(struct rpc_channel_options){.io = o->api->options.io,
                                                             .addresses = addresses,
                                                             .tls = o->api->options.tls},
                               &o->channel, &note);
    if (!err) err = rpc_unary(o->channel, &call, buf_peek(&bytes), on_answer, o, NULL);
    buf_deinit(&bytes);
    if (err && o->channel) close_channel(o);
    return err;
}

static void on_again(struct timer *timer)
{
    struct outcast *o = CONTAINER_OF(timer, struct outcast, again);
    struct etcd_member members[REPLICA_MEMBERS_MAX];
    const char *addresses[REPLICA_MEMBERS_MAX + 1];
    size_t count = etcd_members(o->api, members), others = 0;
    uint64_t self = replica_status(o->api->options.replica).id;

    for (size_t i = 0; i < count; i++)
        if (members[i].id != self && members[i].join[0]) addresses[others++] = members[i].join;
    addresses[others] = NULL;
    if (others == 0 || ask(o, addresses)) ask_later(o, ASK_AGAIN_MS);
}

/* -- the part -- */

static void changed(struct etcd_api *api, const struct replica_status *status)
{
    struct outcast *o = api->outcast;

    o->leaderless = status->leader_id == 0;
    o->was_member |= status->member;
    if (o->leaderless)
        ask_later(o, ASK_FIRST_MS);
    else
        timer_stop(&o->again);
    if (o->was_member && !status->member)
        set_out(o, "its own log");
    else if (!o->leaderless)
        o->out = false; /* it was taken in again */
}

static enum err open_part(struct etcd_api *api)
{
    struct outcast *o = calloc(1, sizeof *o);
    enum err err;

    if (!o) return ERR_NOMEM;
    o->api = api;
    err = timer_init(&o->again, api->options.io->loop, on_again);
    if (err) {
        free(o);
        return err;
    }
    api->outcast = o;
    return ERR_OK;
}

void outcast_stop(struct outcast *outcast, void (*done)(void *owner), void *owner)
{
    if (outcast) {
        outcast->stopping = true;
        timer_stop(&outcast->again);
    }
    if (!outcast || !outcast->channel) {
        done(owner);
        return;
    }
    outcast->stopped = done;
    outcast->stopped_owner = owner;
    close_channel(outcast);
}

static void close_part(struct etcd_api *api) /* after outcast_stop's done */
{
    struct outcast *outcast = api->outcast;

    if (!outcast) return;
    assert(!outcast->channel);
    timer_deinit(&outcast->again);
    free(outcast);
}

const struct etcd_part etcd_outcast_part = {
    .open = open_part, .close = close_part, .changed = changed};
