/* SPDX-License-Identifier: Apache-2.0 */
/* etcdserverpb.Watch: receives the requests of streams, on any replica; feed.h makes the responses.
 * Loop's thread.
 *
 * A stream that the client has half-closed still gets events, as with etcd. A stream with hasleader
 * ends when no leader is known for three election timeouts. Every stream ends when this replica was
 * removed (removed.c). */
#include <stdlib.h>

#include "store/etcd/feed.h"
#include "store/etcd/internal.h"

enum { ELECTION_MS = 250, NO_LEADER_ELECTIONS = 3 };

struct watch_call {
    struct feed_stream feed;
    struct list link;
    struct etcd_api *api;
    struct rpc_call *call;
    bool needs_leader;
};

static void stream_pause_if_full(struct watch_call *stream)
{
    if (rpc_reply_waits(stream->call))
        rpc_pause(stream->call);
    else
        rpc_resume(stream->call);
}

/* -- callbacks of the feed -- */

static enum err stream_send(struct feed_stream *feed, struct str message, bool must)
{
    struct rpc_call *call = CONTAINER_OF(feed, struct watch_call, feed)->call;

    return must ? rpc_send_kept(call, message) : rpc_send_bytes(call, message);
}

static void stream_broken(struct feed_stream *feed, enum err err)
{
    if (err != ERR_CLOSED)
        etcd_finish(CONTAINER_OF(feed, struct watch_call, feed)->call, ETCD_UNHEALTHY);
}

static void stream_pack_header(void *owner, struct pack *into, uint64_t revision)
{
    etcd_header(owner, into, revision);
}

/* -- events of the call -- */

static void stream_on_start(void *service, struct rpc_call *call)
{
    struct etcd_api *api = service;
    enum etcd_error error = etcd_keep_refusal(api, call, false);
    struct watch_call *stream = error ? NULL : calloc(1, sizeof *stream);

    rpc_call_set_data(call, stream);
    if (!stream) {
        etcd_finish(call, error ? error : ETCD_UNHEALTHY);
        return;
    }
    stream->api = api;
    stream->call = call;
    stream->needs_leader = etcd_wants_leader(call);
    feed_stream_init(api->watches.feed, &stream->feed);
    list_init(&stream->link);
    list_append(&api->watches.streams, &stream->link);
}

static const char *watch_refusal(void *owner, struct key_range range)
{
    const struct watch_call *stream = owner;

    return etcd_may(stream->api, stream->call, range, ETCD_READ) ? NULL
                                                                 : etcd_errors[ETCD_DENIED].text;
}

static void stream_on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                              struct str)
{
    struct etcd_api *api = service;
    struct watch_call *stream = rpc_call_data(call);

    if (!stream) return;
    if (store_machine_restoring(api->service->machine)) {
        etcd_finish(call, ETCD_TIMEOUT_APPLIED);
        return;
    }
    feed_request(&stream->feed, (const Etcdserverpb__WatchRequest *)message, watch_refusal, stream);
    stream_pause_if_full(stream);
}

static void stream_on_writable(void *, struct rpc_call *call)
{
    struct watch_call *stream = rpc_call_data(call);

    if (!stream) return;
    watch_stream_writable(&stream->feed.base);
    stream_pause_if_full(stream);
}

static void stream_on_drain(void *, struct rpc_call *call)
{
    if (rpc_call_data(call)) etcd_finish(call, ETCD_STOPPED);
}

static void stream_free(struct feed_stream *feed)
{
    free(CONTAINER_OF(feed, struct watch_call, feed));
}

static void stream_on_done(void *, struct rpc_call *call)
{
    struct watch_call *stream = rpc_call_data(call);

    if (!stream) return;
    list_remove(&stream->link);
    stream->call = NULL;
    feed_stream_close(&stream->feed, stream_free);
}

static const struct rpc_handler etcd_watch_handler = {.on_start = stream_on_start,
                                                      .on_message = stream_on_message,
                                                      .on_writable = stream_on_writable,
                                                      .on_drain = stream_on_drain,
                                                      .on_done = stream_on_done};

/* -- the part -- */

void etcd_watches_end(struct etcd_api *api, enum etcd_error error)
{
    LIST_EACH(&api->watches.streams, node)
    etcd_finish(CONTAINER_OF(node, struct watch_call, link)->call, error);
}

static void on_no_leader(struct timer *timer)
{
    struct etcd_api *api = CONTAINER_OF(timer, struct etcd_api, watches.no_leader);

    LIST_EACH(&api->watches.streams, node)
    {
        struct watch_call *stream = CONTAINER_OF(node, struct watch_call, link);

        if (stream->needs_leader) etcd_finish(stream->call, ETCD_NO_LEADER);
    }
    etcd_observers_end(api, ETCD_NO_LEADER, true);
}

static void watches_changed(struct etcd_api *api, const struct replica_status *status)
{
    uint64_t election_ms = api->options.election_ms ? api->options.election_ms : ELECTION_MS;

    if (status->leader_id)
        timer_stop(&api->watches.no_leader);
    else if (!timer_running(&api->watches.no_leader))
        timer_start_in(&api->watches.no_leader, NO_LEADER_ELECTIONS * election_ms);
}

static enum err watches_open(struct etcd_api *api)
{
    const struct store_service_limits *limits = &api->service->limits;
    enum err err = timer_init(&api->watches.no_leader, api->options.io->loop, on_no_leader);

    if (err) return err;
    list_init(&api->watches.streams);
    return feed_open(&(struct feed_options){.io = api->options.io,
                                            .engine = api->service->watches,
                                            .watches_max = limits->watchers_max,
                                            .progress_ms = api->options.progress_ms,
                                            .send = stream_send,
                                            .broken = stream_broken,
                                            .header = stream_pack_header,
                                            .owner = api},
                     &api->watches.feed);
}

static void watches_close(struct etcd_api *api)
{
    timer_deinit(&api->watches.no_leader);
    feed_close(api->watches.feed);
}

static const struct etcd_raw watch_raws[] = {
    {ETCD_RAW("Watch", etcdserverpb, Watch, watch, watch, RPC_BIDI, etcd_watch_handler)},
    {.rpc = {.path = NULL}},
};

const struct etcd_part etcd_watch_part = {
    .open = watches_open, .close = watches_close, .raws = watch_raws, .changed = watches_changed};
