/* SPDX-License-Identifier: Apache-2.0 */
#include "direct.h"

#include <stdlib.h>

#include "io/real.h"
#include "rpc/client.h"
#include "wire/message.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"

enum { ANSWER_MAX = 1 << 16, WATCH_MAX = 16 << 20 };

struct direct {
    struct real_io *real;
    struct rpc_channel *channel;
    bool over; /* the call has ended */
    coord_result result;
    uint64_t value;
    /* of a watch */
    struct rpc_client_call *call;
    struct timer late;
    struct direct_place *place;
    direct_event_fn *on_event;
    void *owner;
    bool enough;
};

static void wait_for(struct direct *d)
{
    while (!d->over) real_io_turn(d->real, true);
}

enum err direct_open(const char *address, struct direct **ret_direct)
{
    struct direct *d = calloc(1, sizeof *d);
    const char *const addresses[] = {address, NULL};
    enum err err = d ? real_io_open(&d->real) : ERR_NOMEM;

    if (!err)
        err = rpc_channel_open(&(struct rpc_channel_options){.io = real_io_io(d->real),
                                                             .addresses = addresses,
                                                             .backoff_first_ms = 50,
                                                             .backoff_max_ms = 100},
                               &d->channel, NULL);
    if (err) {
        if (d) real_io_close(d->real);
        free(d);
        return err;
    }
    *ret_direct = d;
    return ERR_OK;
}

static void on_closed(void *owner)
{
    ((struct direct *)owner)->over = true;
}

void direct_close(struct direct *d)
{
    d->over = false;
    rpc_channel_close(d->channel, on_closed, d);
    wait_for(d);
    real_io_close(d->real);
    free(d);
}

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str bytes)
{
    struct direct *d = owner;
    ProtobufCMessage *message;
    struct arena arena;

    (void)call;
    d->over = true;
    d->result = (coord_result){.code = COORD_UNAVAILABLE, .reason = COORD_R_CONNECTION};
    arena_init(&arena, ANSWER_MAX);
    if (!outcome->err &&
        !message_read(&muster__v1__get_response__descriptor, bytes, NULL, &arena, &message, NULL)) {
        const Muster__V1__GetResponse *answer = (const Muster__V1__GetResponse *)message;
        d->result = (coord_result){.code = answer->found ? COORD_OK : COORD_NOT_FOUND};
        if (answer->found) {
            const Muster__V1__Entry *entry = answer->entry;
            d->result.revision = entry->revision;
            (void)str_to_u64(str_of(entry->value.data, entry->value.len), &d->value);
        }
    }
    arena_deinit(&arena);
}

coord_result direct_get(struct direct *d, const char *key, uint64_t timeout_ms, uint64_t *ret_value)
{
    Muster__V1__GetRequest request = MUSTER__V1__GET_REQUEST__INIT;
    struct rpc_call_options options = {
        .path = "/muster.v1.Coordination/Get", .timeout_ms = timeout_ms, .attempts_max = 1};
    struct buf bytes;

    request.key = (ProtobufCBinaryData){strlen(key), (uint8_t *)(uintptr_t)key};
    request.serializable = true;
    d->over = false;
    d->value = 0;
    d->result = (coord_result){.code = COORD_UNAVAILABLE, .reason = COORD_R_CONNECTION};
    buf_init(&bytes, ANSWER_MAX);
    if (message_write(&request.base, &bytes, NULL) ||
        rpc_unary(d->channel, &options, buf_peek(&bytes), on_answer, d, NULL))
        d->over = true;
    wait_for(d);
    buf_deinit(&bytes);
    *ret_value = d->value;
    return d->result;
}

/* -- watches -- */

static void report(struct direct *d, const coord_event *event)
{
    if (!d->enough && d->on_event(d->owner, event)) d->enough = true;
}

static void report_entry(struct direct *d, const Muster__V1__WatchEvent *event, int type)
{
    const Muster__V1__Entry *entry = event->entry;
    coord_event one = {.type = type, .revision = entry->revision, .token = entry->token};

    one.key = (coord_str){(const char *)entry->key.data, entry->key.len};
    one.value = (coord_str){(const char *)entry->value.data, entry->value.len};
    report(d, &one);
}

static void begin_anew(struct direct *d)
{
    if (d->place->begun) report(d, &(coord_event){.type = COORD_RESYNC});
    d->place->begun = d->place->in_snapshot = false;
    d->place->next = 0;
}

static void take_snapshot(struct direct *d, const Muster__V1__WatchResponse *m)
{
    if (!d->place->in_snapshot) report(d, &(coord_event){.type = COORD_SNAPSHOT_BEGIN});
    d->place->begun = d->place->in_snapshot = true;
    for (size_t i = 0; i < m->n_events; i++) report_entry(d, m->events[i], COORD_ENTRY);
    if (m->more) return;
    report(d, &(coord_event){.type = COORD_SNAPSHOT_END, .revision = m->revision});
    d->place->in_snapshot = false;
    d->place->next = m->revision + 1;
}

static void on_message(void *owner, struct rpc_client_call *call, struct str bytes)
{
    static const int types[] = {COORD_PUT, COORD_DELETE, COORD_EXPIRE};
    struct direct *d = owner;
    ProtobufCMessage *message;
    const Muster__V1__WatchResponse *m;
    struct arena arena;

    (void)call;
    arena_init(&arena, WATCH_MAX);
    if (message_read(&muster__v1__watch_response__descriptor, bytes, NULL, &arena, &message, NULL))
        abort();
    m = (const Muster__V1__WatchResponse *)message;
    switch (m->kind) {
    case MUSTER__V1__WATCH_RESPONSE__KIND__CHANGES:
        for (size_t i = 0; i < m->n_events; i++)
            report_entry(d, m->events[i], types[(unsigned)m->events[i]->type % ARRAY_LEN(types)]);
        d->place->next = m->more ? m->revision : m->revision + 1;
        break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__SNAPSHOT: take_snapshot(d, m); break;
    case MUSTER__V1__WATCH_RESPONSE__KIND__PROGRESS:
        report(d, &(coord_event){.type = COORD_PROGRESS, .revision = m->revision});
        if (m->revision >= d->place->next) d->place->next = m->revision + 1;
        break;
    default: begin_anew(d); break;
    }
    arena_deinit(&arena);
    if (d->enough) rpc_call_cancel(d->call);
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    (void)call;
    (void)outcome;
    ((struct direct *)owner)->over = true;
}

static void on_late(struct timer *timer)
{
    rpc_call_cancel(CONTAINER_OF(timer, struct direct, late)->call);
}

bool direct_watch(struct direct *d, const char *bucket, uint64_t for_ms, struct direct_place *place,
                  direct_event_fn *on_event, void *owner)
{
    static const struct rpc_call_events events = {.on_message = on_message, .on_end = on_end};
    Muster__V1__WatchRequest request = MUSTER__V1__WATCH_REQUEST__INIT;
    struct rpc_call_options options = {
        .path = "/muster.v1.Coordination/Watch", .response_max = WATCH_MAX / 2, .attempts_max = 1};
    struct buf bytes;

    d->place = place;
    d->on_event = on_event;
    d->owner = owner;
    d->over = d->enough = false;
    if (place->in_snapshot) begin_anew(d);
    request.scope = (ProtobufCBinaryData){strlen(bucket), (uint8_t *)(uintptr_t)bucket};
    request.bucket = request.serializable = true;
    request.start_revision = place->next;
    buf_init(&bytes, ANSWER_MAX);
    if (message_write(&request.base, &bytes, NULL) ||
        timer_init(&d->late, real_io_io(d->real)->loop, on_late) ||
        rpc_call_start(d->channel, &options, &events, d, &d->call))
        abort();
    (void)rpc_call_send(d->call, buf_peek(&bytes)); /* where it cannot, its end is on its way */
    rpc_call_end(d->call);
    timer_start_in(&d->late, for_ms);
    wait_for(d);
    timer_deinit(&d->late);
    buf_deinit(&bytes);
    return d->enough;
}
