/* SPDX-License-Identifier: Apache-2.0 */
/* Watch fan-out: many watchers of one key and writers of that key, for both stores. A writer's next
 * write begins when every watcher received the last one, so no watcher falls behind. The figure is
 * an event at a watcher, from the begin of its write.
 *
 * muster: a stream for each watcher. etcd: a stream for each connection with its watchers on it, as
 * its own client does. */
#include <stdlib.h>
#include <string.h>

#include "load.h"
#include "wire/message.h"
#include "wire/pb/etcd_rpc.pb-c.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

struct watch_stream {
    struct load *load;
    struct rpc_client_call *call; /* NULL: over */
};
struct watches {
    bool etcd;
    size_t stream_count, ready;
    struct watch_stream streams[];
};

static void event(struct load *l, struct str value)
{
    uint64_t number, began_ns, now = load_now_ns(l);
    struct slot *slot;

    if (value.len < 16) return; /* a value of an earlier run */
    memcpy(&number, value.at, 8);
    memcpy(&began_ns, value.at + 8, 8);
    if (number >= l->plan.streams) return;
    slot = &l->slots[number];
    if (l->state == MEASURING && began_ns >= l->began_ns) {
        l->calls++;
        latency_add(&l->latency, now - began_ns);
    }
    if (slot->began_ns != began_ns || slot->outstanding == 0) return;
    if (--slot->outstanding == 0 && slot->step == 0) load_begin(slot);
}

static void muster_message(struct load *l, struct str message)
{
    struct field field, in_event, in_entry;
    uint64_t kind = MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES;
    bool more = false;

    for (struct str rest = message; field_next(&rest, &field);) {
        if (field.number == 1) kind = field.value;
        if (field.number == 4) more = field.value != 0;
        if (field.number != 3 || kind != MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES) continue;
        for (struct str events = field.bytes; field_next(&events, &in_event);)
            for (struct str entry = in_event.bytes;
                 in_event.number == 2 && field_next(&entry, &in_entry);)
                if (in_entry.number == 2) event(l, in_entry.bytes);
    }
    if (kind == MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT && !more) l->watches->ready++;
    if (kind == MUSTER__V1__WATCH_RESPONSE__KIND__RESYNC)
        load_die("watch", STR("events were lost"));
}

static void etcd_message(struct load *l, struct str message)
{
    struct field field, in_event, in_entry;

    for (struct str rest = message; field_next(&rest, &field);) {
        if (field.number == 3) l->watches->ready++;
        if (field.number == 4) load_die("watch", STR("cancelled"));
        if (field.number != 11) continue;
        for (struct str events = field.bytes; field_next(&events, &in_event);)
            for (struct str entry = in_event.bytes;
                 in_event.number == 2 && field_next(&entry, &in_entry);)
                if (in_entry.number == 5) event(l, in_entry.bytes);
    }
}

static void on_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct load *l = ((struct watch_stream *)owner)->load;

    (void)call;
    if (l->watches->etcd)
        etcd_message(l, message);
    else
        muster_message(l, message);
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct watch_stream *stream = owner;

    (void)call;
    stream->call = NULL;
    if (stream->load->state != STOPPING) load_die("a watch ended", outcome->text);
}

static void ask(struct load *l, struct rpc_client_call *call)
{
    ProtobufCBinaryData key = {strlen(l->plan.prefix), (uint8_t *)l->plan.prefix};
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    Etcdserverpb__WatchRequest theirs = ETCDSERVERPB__WATCH_REQUEST__INIT;
    Muster__V1__WatchRequest ours = MUSTER__V1__WATCH_REQUEST__INIT;
    enum err err;

    create.key = ours.scope = key;
    theirs.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    theirs.create_request = &create;
    ours.raw = true;
    buf_clear(&l->request);
    err = message_write(l->watches->etcd ? &theirs.base : &ours.base, &l->request, NULL);
    if (!err) err = rpc_call_send(call, buf_peek(&l->request));
    if (err) load_die("watch", str_from(err_text(err)));
}

void watches_open(struct load *l)
{
    static const struct rpc_call_events events = {on_message, NULL, on_end};
    bool etcd = strcmp(l->plan.store, "etcd") == 0;
    size_t streams = etcd ? l->plan.watch_connections : l->plan.watchers;
    struct rpc_call_options options = {.path = etcd ? "/etcdserverpb.Watch/Watch"
                                                    : "/muster.v1.Coordination/Watch",
                                       .wait_for_ready = true,
                                       .untraced = true,
                                       .response_max = REQUEST_MAX};

    l->watches = calloc(1, sizeof *l->watches + streams * sizeof l->watches->streams[0]);
    if (!l->watches) load_die("watch", STR("no memory"));
    l->watches->etcd = etcd;
    l->watches->stream_count = streams;
    for (size_t i = 0; i < streams; i++) {
        struct watch_stream *stream = &l->watches->streams[i];
        enum err err;

        stream->load = l;
        err = rpc_call_start(l->channels[l->plan.connections + i % l->plan.watch_connections],
                             &options, &events, stream, &stream->call);
        if (err) load_die("watch", str_from(err_text(err)));
        for (size_t w = i; etcd && w < l->plan.watchers; w += streams) ask(l, stream->call);
        if (!etcd) {
            ask(l, stream->call);
            rpc_call_end(stream->call);
        }
    }
    while (l->watches->ready < l->plan.watchers) real_io_turn(l->real, true);
}

void watches_end(struct load *l)
{
    for (size_t i = 0; l->watches && i < l->watches->stream_count; i++)
        if (l->watches->streams[i].call) rpc_call_cancel(l->watches->streams[i].call);
}

void watches_close(struct load *l)
{
    free(l->watches);
}
