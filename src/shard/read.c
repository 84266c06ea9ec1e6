/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/read.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "shard/need_wire.h"
#include "wire/pb/bigfleet_v1alpha1_shardread.pb-c.h"

enum { LENGTH_BYTES = 4 }; /* before each frame in `frames` */

struct inspections {
    struct io *io;
    struct inspections_options options; /* settled */
    uint32_t readers;
};

struct reader {
    struct inspection inspection;
    struct inspections *inspections;
    struct rpc_call *call; /* NULL: nobody reads any more */
    struct timer timer;    /* while it must read */
    struct buf frames;
    size_t at;
    enum err err;
    bool answered; /* it is ours again */
    char cluster[];
};

static void reader_free(struct reader *r)
{
    r->inspections->readers--;
    timer_deinit(&r->timer);
    buf_deinit(&r->frames);
    free(r);
}

/* -- on the deciding thread -- */

static enum err keep(struct reader *r, struct str frame)
{
    char length[LENGTH_BYTES];
    enum err err;

    store_le32(length, (uint32_t)frame.len);
    err = buf_append(&r->frames, str_of(length, sizeof length));
    return err ? err : buf_append(&r->frames, frame);
}

void inspection_write(struct inspection *inspection, enum err err, const struct needs_view *view,
                      const struct dimensions *dimensions)
{
    struct reader *r = CONTAINER_OF(inspection, struct reader, inspection);
    struct frame_writer writer;

    frame_writer_init(&writer);
    if (!err) err = need_write_header(&writer, view);
    if (!err) err = keep(r, buf_peek(&writer.frame));
    for (size_t i = 0; !err && i < view->count; i++) {
        err = need_write_view(&writer, &view->needs[i], dimensions);
        if (!err) err = keep(r, buf_peek(&writer.frame));
    }
    frame_writer_deinit(&writer);
    r->err = err;
}

/* -- on the loop -- */

static void fail(struct reader *r)
{
    if (r->err == ERR_FULL)
        rpc_finish(r->call, GRPC_RESOURCE_EXHAUSTED,
                   STR("the answer is too large: ask for one cluster, or set a limit"), STR_EMPTY);
    else
        rpc_fail(r->call, r->err, NULL);
}

static void pump(struct reader *r)
{
    while (r->at < r->frames.len) {
        size_t length = load_le32(r->frames.data + r->at);
        enum err err =
            rpc_send_bytes(r->call, str_of(r->frames.data + r->at + LENGTH_BYTES, length));
        if (err == ERR_FULL) {
            timer_start_in(&r->timer, r->inspections->options.read_timeout_ms);
            return;
        }
        if (err) {
            rpc_fail(r->call, err, NULL);
            return;
        }
        r->at += LENGTH_BYTES + length;
    }
    timer_stop(&r->timer);
    rpc_finish(r->call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}

void inspection_done(struct inspection *inspection)
{
    struct reader *r = CONTAINER_OF(inspection, struct reader, inspection);

    r->answered = true;
    if (!r->call)
        reader_free(r);
    else if (r->err)
        fail(r);
    else
        pump(r);
}

static void on_unread(struct timer *timer)
{
    struct reader *r = CONTAINER_OF(timer, struct reader, timer);

    rpc_finish(r->call, GRPC_DEADLINE_EXCEEDED, STR("the answer is not read"), STR_EMPTY);
}

static struct reader *reader_new(struct inspections *inspections, struct rpc_call *call,
                                 struct str cluster)
{
    struct reader *r = calloc(1, sizeof *r + cluster.len);

    if (!r) return NULL;
    if (timer_init(&r->timer, inspections->io->loop, on_unread)) {
        free(r);
        return NULL;
    }
    if (cluster.len > 0) memcpy(r->cluster, cluster.at, cluster.len);
    r->inspection.cluster = str_of(r->cluster, cluster.len);
    r->inspections = inspections;
    r->call = call;
    buf_init(&r->frames, inspections->options.bytes_max);
    inspections->readers++;
    return r;
}

static void on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str)
{
    const Bigfleet__V1alpha1__InspectNeedsRequest *request = (const void *)message;
    struct inspections *inspections = service;
    struct reader *r = NULL;

    if (inspections->readers >= inspections->options.readers_max)
        rpc_finish(call, GRPC_RESOURCE_EXHAUSTED, STR("too many inspections"), STR_EMPTY);
    else if (!(r = reader_new(inspections, call, str_from(request->cluster_id))))
        rpc_fail(call, ERR_NOMEM, NULL);
    rpc_call_set_data(call, r);
    if (!r) return;
    if (request->limit > 0) r->inspection.limit = (uint32_t)request->limit;
    rpc_call_waits(call);
    inspections->options.inspect(inspections->options.owner, &r->inspection);
}

static void on_writable(void *, struct rpc_call *call)
{
    struct reader *r = rpc_call_data(call);

    if (r && r->answered) pump(r);
}

static void on_drain(void *, struct rpc_call *call)
{
    rpc_finish(call, GRPC_UNAVAILABLE, STR("the shard is stopping"), STR_EMPTY);
}

static void on_done(void *, struct rpc_call *call)
{
    struct reader *r = rpc_call_data(call);

    if (!r) return;
    r->call = NULL;
    timer_stop(&r->timer);
    if (r->answered) reader_free(r);
}

static const struct rpc_handler handler = {
    .on_message = on_message,
    .on_writable = on_writable,
    .on_drain = on_drain,
    .on_done = on_done,
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
