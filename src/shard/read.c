/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that the decide thread answers. An inspection is freed after its job and its RPC end. */
#include "shard/read.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "shard/need_wire.h"
#include "wire/pb/bigfleet_v1alpha1_shardread.pb-c.h"

enum { LENGTH_BYTES = 4 }; /* each frame begins with its length */

struct inspections {
    struct io *io;
    struct inspections_options options; /* with defaults applied */
    uint32_t readers;
};

struct reader {
    struct inspection inspection;
    struct inspections *inspections;
    struct timer timer; /* read timeout */
    size_t at;
    bool answered; /* the decide thread is done, and the loop owns the inspection */
    char text[];
};

static void reader_free(struct reader *r)
{
    r->inspections->readers--;
    timer_deinit(&r->timer);
    buf_deinit(&r->inspection.answer);
    free(r);
}

/* -- on the decide thread -- */

enum err inspection_frame(struct inspection *inspection, struct str frame)
{
    char length[LENGTH_BYTES];
    enum err err;

    store_le32(length, (uint32_t)frame.len);
    err = buf_append(&inspection->answer, str_of(length, sizeof length));
    return err ? err : buf_append(&inspection->answer, frame);
}

void inspection_write(struct inspection *inspection, enum err err, const struct needs_view *view,
                      const struct dimensions *dimensions)
{
    struct frame_writer writer;

    frame_writer_init(&writer);
    if (!err) err = need_write_header(&writer, view);
    if (!err) err = inspection_frame(inspection, buf_peek(&writer.frame));
    for (size_t i = 0; !err && i < view->count; i++) {
        err = need_write_view(&writer, &view->needs[i], dimensions);
        if (!err) err = inspection_frame(inspection, buf_peek(&writer.frame));
    }
    frame_writer_deinit(&writer);
    inspection->err = err;
}

/* -- on the loop -- */

static void reader_fail(struct inspection *i)
{
    if (i->err == ERR_FULL)
        rpc_finish(i->call, GRPC_RESOURCE_EXHAUSTED,
                   STR("the answer is too large: ask for one cluster, or set a limit"), STR_EMPTY);
    else if (i->err == ERR_NOT_FOUND)
        rpc_finish(i->call, GRPC_NOT_FOUND, STR("the shard knows no such machine"), STR_EMPTY);
    else
        rpc_fail(i->call, i->err, NULL);
}

static void reader_pump(struct reader *r)
{
    struct inspection *i = &r->inspection;

    while (r->at < i->answer.len) {
        size_t length = load_le32(i->answer.data + r->at);
        enum err err =
            rpc_send_bytes(i->call, str_of(i->answer.data + r->at + LENGTH_BYTES, length));
        if (err == ERR_FULL) {
            timer_start_in(&r->timer, r->inspections->options.read_timeout_ms);
            return;
        }
        if (err) {
            rpc_fail(i->call, err, NULL);
            return;
        }
        r->at += LENGTH_BYTES + length;
    }
    timer_stop(&r->timer);
    rpc_finish(i->call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}

void inspection_done(struct inspection *inspection)
{
    struct reader *r = CONTAINER_OF(inspection, struct reader, inspection);

    r->answered = true;
    if (!inspection->call)
        reader_free(r);
    else if (inspection->err)
        reader_fail(inspection);
    else if (inspection->unary)
        rpc_reply_bytes(inspection->call, buf_peek(&inspection->answer));
    else
        reader_pump(r);
}

static void on_unread(struct timer *timer)
{
    struct reader *r = CONTAINER_OF(timer, struct reader, timer);

    rpc_finish(r->inspection.call, GRPC_DEADLINE_EXCEEDED, STR("the answer is not read"),
               STR_EMPTY);
}

struct inspection *inspection_new(struct inspections *inspections, struct rpc_call *call,
                                  struct str text, size_t bytes_max)
{
    struct reader *r = calloc(1, sizeof *r + text.len);

    if (r && timer_init(&r->timer, inspections->io->loop, on_unread)) {
        free(r);
        r = NULL;
    }
    rpc_call_set_data(call, r);
    if (!r) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return NULL;
    }
    if (text.len > 0) memcpy(r->text, text.at, text.len);
    r->inspection.text = str_of(r->text, text.len);
    r->inspection.call = call;
    r->inspection.owner = inspections->options.owner;
    r->inspections = inspections;
    buf_init(&r->inspection.answer, bytes_max);
    inspections->readers++;
    rpc_call_set_waiting(call);
    return &r->inspection;
}

struct inspection *inspection_begin(struct inspections *inspections, struct rpc_call *call,
                                    struct str text)
{
    if (inspections->readers < inspections->options.readers_max)
        return inspection_new(inspections, call, text, inspections->options.bytes_max);
    rpc_finish(call, GRPC_RESOURCE_EXHAUSTED, STR("too many inspections"), STR_EMPTY);
    return NULL;
}

void inspection_call_done(void *, struct rpc_call *call)
{
    struct reader *r = rpc_call_data(call);

    if (!r) return;
    r->inspection.call = NULL;
    timer_stop(&r->timer);
    if (r->answered) reader_free(r);
}

/* -- InspectNeeds -- */

static void read_on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                            struct str)
{
    const Bigfleet__V1alpha1__InspectNeedsRequest *request = (const void *)message;
    struct inspections *inspections = service;
    const struct inspections_options *o = &inspections->options;
    struct inspection *inspection;

    inspection = inspection_begin(inspections, call, str_from(request->cluster_id));
    if (!inspection) return;
    if (request->limit > 0) inspection->limit = (uint32_t)request->limit;
    o->inspect(o->owner, inspection);
}

void inspection_on_writable(void *, struct rpc_call *call)
{
    struct reader *r = rpc_call_data(call);

    if (r && r->answered) reader_pump(r);
}

void inspection_on_drain(void *, struct rpc_call *call)
{
    rpc_finish(call, GRPC_UNAVAILABLE, STR("the shard is stopping"), STR_EMPTY);
}

static const struct rpc_handler handler = {
    .on_message = read_on_message,
    .on_writable = inspection_on_writable,
    .on_drain = inspection_on_drain,
    .on_done = inspection_call_done,
};

enum err inspections_open(const struct inspections_options *options,
                          struct inspections **ret_inspections)
{
    struct inspections *inspections = calloc(1, sizeof *inspections);

    if (!inspections) return ERR_NOMEM;
    inspections->io = options->io;
    inspections->options = *options;
    if (!options->readers_max) inspections->options.readers_max = 16;
    if (!options->bytes_max) inspections->options.bytes_max = (size_t)256 << 20;
    if (!options->read_timeout_ms) inspections->options.read_timeout_ms = 60 * MS_PER_SECOND;
    *ret_inspections = inspections;
    return ERR_OK;
}

void inspections_close(struct inspections *inspections)
{
    if (!inspections) return;
    assert(inspections->readers == 0);
    free(inspections);
}

enum err inspections_serve(struct inspections *inspections, struct rpc_server *server,
                           struct note *note)
{
    return rpc_server_add(
        server,
        &(struct rpc_method){.path = "/bigfleet.v1alpha1.ShardRead/InspectNeeds",
                             .kind = RPC_SERVER_STREAM,
                             .input = &bigfleet__v1alpha1__inspect_needs_request__descriptor,
                             .response_max = 16 << 20,
                             .handler = &handler,
                             .service = inspections},
        note);
}
