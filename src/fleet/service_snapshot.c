/* SPDX-License-Identifier: Apache-2.0 */
/*     called -> leadership proved (src/leader) -> opening the views, until no other snapshot has them
 *            -> measuring -> head -> sending, a slice a turn -> done */
#include "fleet/service_snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fleet/archive.h"
#include "fleet/copy.h"
#include "leader/leader.h"
#include "log/sections.h"
#include "log/snapfile.h"
#include "text/ndjson.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/etcd_rpc.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum {
    STALL_MS = 60000,
    TURN_MS = 300000, /* a machine gives one view at a time, and the log takes snapshots too */
    TURN_EVERY_MS = 50,
    SERVICE_SNAPSHOT_CALLS_MAX = 64,
    CHUNK_BYTES = 1 << 20, /* of one frame: wire.md 4.5 */
    SERVICE_SNAPSHOT_SLICE_BYTES = 64
                                   << 10, /* made in one turn of the loop: a millisecond at most */
    OUT_MAX = 64 << 20, /* a machine's largest record: more than that is no slice */
};

/* SAVE measures the state before it sends it, because its meta, which comes first, has the size:
 * two views of one moment. */
enum kind { SAVE, BACKUP, ETCD /* a backup in etcd's frames */, KINDS };
enum stage { OPENING, MEASURING, SERVICE_SNAPSHOT_HEAD, SENDING, SENT };

struct stream_method {
    struct leader_method base;
    enum kind kind;
    const char *label; /* of the metric */
};
struct outflow {
    struct leader_request *request; /* NULL: none is running */
    enum stage stage;
    bool is_blocked, has_waited;
    bool is_made; /* all of it is in `out`, or sent */
    mono_time turn_until;
    uint64_t sent;
    struct buf out;         /* made, not sent */
    struct fleet_copy copy; /* SAVE; index and term of all */
    struct fleet_state_writer *measure;
    struct snap_stream frame; /* BACKUP */
    struct sections sections;
    struct buf slice;
};
struct snapshot_service {
    struct snapshot_service_options options;
    struct log_source log;
    struct leader leader;
    struct timer timer; /* the next slice or try; while blocked, the end of patience */
    struct list kept;   /* the request of the stream */
    struct outflow stream;
    struct metric_family *streams;
    struct counter *bytes;
};

static struct snapshot_service *snapshot_service_of(const struct leader_request *request)
{
    return CONTAINER_OF(request->leader, struct snapshot_service, leader);
}

static const struct stream_method *stream_method_of(const struct leader_request *request)
{
    return CONTAINER_OF(request->method, struct stream_method, base);
}

static enum kind kind_of(const struct snapshot_service *service)
{
    return stream_method_of(service->stream.request)->kind;
}

/* -- ends -- */

static void stream_count(struct snapshot_service *service, const struct leader_request *request,
                         const char *outcome)
{
    struct str values[] = {str_from(stream_method_of(request)->label), str_from(outcome)};

    if (service->streams) counter_inc(metric_counter(service->streams, values));
}

static void stream_close_views(struct outflow *stream)
{
    fleet_state_write_close(stream->measure);
    stream->measure = NULL;
    fleet_copy_close(&stream->copy);
    sections_end(&stream->sections);
}

/* Nothing is kept but the place for the next one. */
static void stream_clear(struct snapshot_service *service)
{
    struct outflow *stream = &service->stream;

    timer_stop(&service->timer);
    stream_close_views(stream);
    buf_deinit(&stream->out);
    buf_deinit(&stream->slice);
    memset(stream, 0, sizeof *stream);
    buf_init(&stream->out, OUT_MAX);
    buf_init(&stream->slice, OUT_MAX);
}

static void stream_freed(struct leader_request *request)
{
    struct snapshot_service *service = snapshot_service_of(request);

    if (service->stream.request != request) return; /* one that was refused */
    stream_count(service, request,
                 service->stream.stage == SENT ? "done"
                 : request->call               ? "failed"
                                               : "broken");
    stream_clear(service);
}

/* wire.md 4.1: whatever fails half-way is UNAVAILABLE, and asking again is safe. */
static void stream_fail(struct snapshot_service *service, enum grpc_status status, const char *what)
{
    struct leader_request *request = service->stream.request;

    request_refuse(request, status, "%s: %s", request->method->name, what);
}

static void stream_finish(struct snapshot_service *service)
{
    struct outflow *stream = &service->stream;
    struct leader_request *request = stream->request;

    rpc_finish(request->call, GRPC_OK, STR_EMPTY, STR_EMPTY);
    LOG_INFO(&service->log, "snapshot streamed to a client", log_text("as", request->method->name),
             log_text("to", rpc_call_peer(request->call)),
             log_u64("index", stream->copy.meta.index), log_u64("term", stream->copy.meta.term),
             log_u64("bytes", stream->sent));
    if (service->bytes) counter_add(service->bytes, stream->sent);
    request_free(request);
}

/* -- sending -- */

/* The first frame says what follows: no database of etcd's, but an archive of ours. */
static enum err stream_send_etcd(struct snapshot_service *service, bool is_head,
                                 ProtobufCBinaryData frame)
{
    struct replica_status status = replica_status(service->options.replica);
    Etcdserverpb__SnapshotResponse response = ETCDSERVERPB__SNAPSHOT_RESPONSE__INIT;
    Etcdserverpb__ResponseHeader header = ETCDSERVERPB__RESPONSE_HEADER__INIT;

    header.cluster_id = status.cluster_id;
    header.member_id = status.id;
    header.raft_term = status.term;
    response.header = &header;
    if (is_head)
        response.version = (char *)"muster archive: for musterctl restore, not a database of etcd";
    else
        response.blob = frame;
    return rpc_send(service->stream.request->call, &response.base);
}

/* A chunk of a backup is on the wire what a chunk of a saved snapshot is. */
static enum err stream_send_chunk(struct snapshot_service *service, bool is_head,
                                  ProtobufCBinaryData frame)
{
    Bigfleet__V1alpha1__SnapshotSaveChunk chunk;

    bigfleet__v1alpha1__snapshot_save_chunk__init(&chunk);
    chunk.payload_case = is_head ? BIGFLEET__V1ALPHA1__SNAPSHOT_SAVE_CHUNK__PAYLOAD_META_JSON
                                 : BIGFLEET__V1ALPHA1__SNAPSHOT_SAVE_CHUNK__PAYLOAD_DATA;
    if (is_head)
        chunk.meta_json = frame;
    else
        chunk.data = frame;
    return rpc_send(service->stream.request->call, &chunk.base);
}

/* ERR_FULL: not now, and the stream is blocked. */
static enum err stream_send_frame(struct snapshot_service *service, bool is_head, struct str bytes)
{
    ProtobufCBinaryData frame = {.len = bytes.len, .data = (uint8_t *)bytes.at};
    enum err err = kind_of(service) == ETCD ? stream_send_etcd(service, is_head, frame)
                                            : stream_send_chunk(service, is_head, frame);

    service->stream.is_blocked = err == ERR_FULL;
    return err;
}

/* Sends what fills a chunk, or all of it at the end. */
static enum err stream_flush(struct snapshot_service *service)
{
    struct outflow *stream = &service->stream;
    enum err err = ERR_OK;

    while (!err && (stream->out.len >= CHUNK_BYTES || (stream->is_made && stream->out.len > 0))) {
        size_t len = min_size(stream->out.len, CHUNK_BYTES);

        err = stream_send_frame(service, false, str_of(stream->out.data, len));
        if (err) break;
        buf_consume(&stream->out, len);
        stream->sent += len;
    }
    return err;
}

/* -- making: each step begins the next stage when its own is over -- */

static enum err stream_measure(struct snapshot_service *service)
{
    struct outflow *stream = &service->stream;
    bool over = false;
    enum err err;

    buf_clear(&stream->slice);
    err = fleet_state_write_next(stream->measure, SERVICE_SNAPSHOT_SLICE_BYTES, &stream->slice,
                                 &over);
    stream->copy.meta.size += stream->slice.len;
    if (!over) return err;
    fleet_state_write_close(stream->measure);
    stream->measure = NULL;
    stream->stage = SERVICE_SNAPSHOT_HEAD;
    return err;
}

static enum err backup_describe(const struct snapshot_service *service, struct buf *into)
{
    const struct fleet_meta *meta = &service->stream.copy.meta;
    struct ndjson line;

    ndjson_begin(&line, into, NDJSON_LINE);
    ndjson_u64(&line, STR("index"), meta->index);
    ndjson_u64(&line, STR("term"), meta->term);
    ndjson_hex(&line, STR("cluster"), replica_status(service->options.replica).cluster_id);
    ndjson_open_array(&line, STR("sections"));
    for (size_t i = 0; i < service->options.machine_count; i++)
        ndjson_c_string(&line, NDJSON_ITEM, service->options.machines[i].name);
    ndjson_close_array(&line);
    return ndjson_end(&line);
}

static enum err stream_send_head(struct snapshot_service *service)
{
    struct buf json;
    enum err err;

    buf_init(&json, FLEET_META_BYTES_MAX);
    err = kind_of(service) == SAVE ? fleet_meta_write(&service->stream.copy.meta, false, &json)
                                   : backup_describe(service, &json);
    if (!err) err = stream_send_frame(service, true, buf_peek(&json));
    buf_deinit(&json);
    if (!err) service->stream.stage = SENDING;
    return err;
}

/* One slice, and the end behind the last. */
static enum err backup_slice(struct outflow *stream)
{
    struct str rest;
    size_t place = 0;
    enum err err;

    buf_clear(&stream->slice);
    err = sections_next(&stream->sections, SERVICE_SNAPSHOT_SLICE_BYTES, &stream->slice, &place);
    for (rest = buf_peek(&stream->slice); !err && rest.len > 0;) {
        struct str chunk = str_of(rest.at, min_size(rest.len, SNAP_CHUNK_MAX));
        err = snap_stream_chunk(&stream->frame, stream->sections.machines[place].id, chunk,
                                &stream->out);
        rest = str_tail(rest, chunk.len);
    }
    stream->is_made = stream->sections.at == stream->sections.count;
    return !err && stream->is_made ? snap_stream_end(&stream->frame, &stream->out) : err;
}

static enum err stream_send_slice(struct snapshot_service *service)
{
    struct outflow *stream = &service->stream;
    enum err err = ERR_OK;

    if (!stream->is_made)
        err = kind_of(service) == SAVE
                  ? fleet_state_write_next(stream->copy.writer, SERVICE_SNAPSHOT_SLICE_BYTES,
                                           &stream->out, &stream->is_made)
                  : backup_slice(stream);
    if (!err) err = stream_flush(service);
    if (!err && stream->is_made) stream->stage = SENT;
    return err;
}

/* -- opening -- */

static enum err save_open_views(struct snapshot_service *service)
{
    const struct snapshot_service_options *o = &service->options;
    struct outflow *stream = &service->stream;
    struct fleet *fleet = fleet_machine_fleet(o->fleet);
    struct fleet_copy counted = {.writer = NULL};
    wall_time now = clock_wall(o->io->clock);
    enum err err;

    if (fleet_copy_is_empty(fleet)) return ERR_NOT_FOUND;
    err = fleet_copy_open(&counted, fleet, o->replica, o->roster, now);
    stream->measure = counted.writer;
    if (!err) err = fleet_copy_open(&stream->copy, fleet, o->replica, o->roster, now);
    stream->stage = MEASURING;
    return err;
}

static enum err backup_open_views(struct snapshot_service *service)
{
    struct outflow *stream = &service->stream;
    struct replica_status status = replica_status(service->options.replica);
    wall_time now = clock_wall(service->options.io->clock);
    struct snap_head head = {.mark = {.index = status.applied, .term = status.term},
                             .cluster_id = status.cluster_id,
                             .level = status.level,
                             .clock_ns = status.clock_ns};
    char made[BACKUP_MADE_BYTES];
    enum err err = ERR_OK;

    stream->sections = (struct sections){.machines = service->options.machines,
                                         .count = service->options.machine_count};
    for (size_t i = 0; !err && i < service->options.machine_count; i++)
        err = sections_add(&stream->sections, i, status.applied);
    if (err) return err;
    stream->copy.meta.index = status.applied;
    stream->copy.meta.term = status.term;
    store_le64(made, now.ms);
    stream->stage = SERVICE_SNAPSHOT_HEAD;
    err = snap_stream_begin(&stream->frame, &head, &stream->out);
    if (!err)
        err = snap_stream_chunk(&stream->frame, BACKUP_SECTION_MADE, str_of(made, sizeof made),
                                &stream->out);
    return err;
}

/* Other snapshots may have the views. */
static enum err stream_open_views(struct snapshot_service *service)
{
    struct outflow *stream = &service->stream;
    mono_time now = loop_now(service->options.io->loop);
    enum err err = kind_of(service) == SAVE ? save_open_views(service) : backup_open_views(service);

    if (!err) return ERR_OK;
    stream_close_views(stream);
    stream->stage = OPENING;
    if (err != ERR_FULL || mono_due(stream->turn_until, now)) return err;
    if (!stream->has_waited)
        LOG_INFO(&service->log, "the stream waits until another snapshot is finished",
                 log_text("what", stream->request->method->name));
    stream->has_waited = true;
    timer_start_in(&service->timer, TURN_EVERY_MS);
    return ERR_NOT_READY;
}

/* -- driving -- */

static void stream_step(struct snapshot_service *service)
{
    static enum err (*const steps[SENT])(struct snapshot_service *) = {
        [OPENING] = stream_open_views,
        [MEASURING] = stream_measure,
        [SERVICE_SNAPSHOT_HEAD] = stream_send_head,
        [SENDING] = stream_send_slice};
    struct outflow *stream = &service->stream;
    enum err err = steps[stream->stage](service);

    if (stream->is_blocked)
        timer_start_in(&service->timer, service->options.stall_ms);
    else if (err == ERR_NOT_READY || err == ERR_CLOSED)
        return; /* the timer runs; or the caller is gone, and stream_freed follows */
    else if (err == ERR_NOT_FOUND)
        stream_fail(service, GRPC_NOT_FOUND, "nothing was ever applied");
    else if (err)
        stream_fail(service, GRPC_UNAVAILABLE, err_text(err));
    else if (stream->stage == SENT)
        stream_finish(service);
    else
        timer_start_in(&service->timer, 0); /* the next turn: others have theirs in between */
}

static void stream_on_timer(struct timer *timer)
{
    struct snapshot_service *service = CONTAINER_OF(timer, struct snapshot_service, timer);

    if (service->stream.is_blocked)
        stream_fail(service, GRPC_UNAVAILABLE, "the caller takes nothing");
    else if (service->stream.stage == OPENING && !leader_leads(&service->leader))
        request_redirect(service->stream.request);
    else
        stream_step(service);
}

static void stream_writable(struct leader_request *request)
{
    struct snapshot_service *service = snapshot_service_of(request);

    if (!service->stream.is_blocked) return;
    service->stream.is_blocked = false;
    timer_start_in(&service->timer, 0);
}

static void stream_begin(struct leader_request *request)
{
    struct snapshot_service *service = snapshot_service_of(request);

    request_keep(request, &service->kept);
    service->stream.turn_until = mono_after(loop_now(service->options.io->loop), TURN_MS);
    stream_step(service);
}

static bool stream_admit(struct leader_request *request)
{
    struct snapshot_service *service = snapshot_service_of(request);
    bool etcd = stream_method_of(request)->kind == ETCD;
    struct note note;

    /* It holds everything, not the store alone. */
    if (etcd && rpc_access_check((struct rpc_access){ACCESS_ADMIN},
                                 rpc_call_identity(request->call), &note))
        request_fail(request, GRPC_PERMISSION_DENIED, "etcdserver: permission denied");
    else if (etcd && !leader_here(request->leader))
        request_fail(request, GRPC_FAILED_PRECONDITION, "etcdserver: not leader");
    else if (!leader_here(request->leader))
        request_redirect(request);
    else if (service->stream.request) {
        stream_count(service, request, "refused");
        request_refuse(request, GRPC_RESOURCE_EXHAUSTED, "%s: another one is under way",
                       request->method->name);
    } else {
        service->stream.request = request;
        return true;
    }
    return false;
}

static const struct leader_rules stream_rules = {
    .request_size = sizeof(struct leader_request),
    .full = GRPC_UNAVAILABLE,
    .doubt = GRPC_UNAVAILABLE,
    .admit = stream_admit,
    .begin = request_read,
    .read = stream_begin,
    .writable = stream_writable,
    .freed = stream_freed,
};

/* -- life -- */

static enum err stream_add_metrics(struct snapshot_service *service, struct metrics *metrics,
                                   struct note *note)
{
    struct metric_options streams = {
        .name = "muster_coordinator_state_streams_total",
        .help = "Streams of the whole state by kind (save, backup, etcd) and outcome.",
        .kind = METRIC_COUNTER,
        .labels = {"kind", "outcome"},
    };
    enum err err = metrics_add(metrics, &streams, &service->streams, note);

    if (!err)
        err = metrics_add_counter(metrics, "muster_coordinator_state_streamed_bytes_total",
                                  "Bytes of state in streams that ended well.", &service->bytes,
                                  note);
    return err;
}

enum err snapshot_service_open(const struct snapshot_service_options *options,
                               struct snapshot_service **ret_service, struct note *note)
{
    struct snapshot_service *service = calloc(1, sizeof *service);
    struct leader_options leader = {.rules = &stream_rules,
                                    .loop = options->io->loop,
                                    .address = options->leader_address,
                                    .owner = options->owner,
                                    .wait_ms = LEADER_WAIT_MS,
                                    .requests_max = SERVICE_SNAPSHOT_CALLS_MAX};
    struct replica_status status;
    enum err err;

    if (!service) return ERR_NOMEM;
    service->options = *options;
    if (options->log) service->log = *options->log;
    if (!service->options.stall_ms) service->options.stall_ms = STALL_MS;
    list_init(&service->kept);
    buf_init(&service->stream.out, OUT_MAX);
    buf_init(&service->stream.slice, OUT_MAX);
    err = leader_open(&service->leader, &leader);
    if (!err) err = timer_init(&service->timer, options->io->loop, stream_on_timer);
    if (!err && options->metrics) err = stream_add_metrics(service, options->metrics, note);
    if (err) {
        snapshot_service_close(service);
        return err;
    }
    service->leader.replica = options->replica;
    status = replica_status(options->replica);
    snapshot_service_on_change(service, &status);
    *ret_service = service;
    return ERR_OK;
}

void snapshot_service_on_change(struct snapshot_service *service,
                                const struct replica_status *status)
{
    if (service) leader_follow(&service->leader, status);
}

void snapshot_service_close(struct snapshot_service *service)
{
    if (!service) return;
    assert(!service->stream.request);
    leader_close(&service->leader);
    timer_deinit(&service->timer);
    free(service);
}

#define STREAM(path_of, name_of, kind_of, label_of, package, word, chunk)                          \
    {                                                                                              \
        .base = {.path = (path_of),                                                                \
                 .name = (name_of),                                                                \
                 .input = &package##__##word##_request__descriptor,                                \
                 .output = &package##__##chunk##__descriptor,                                      \
                 .kind = RPC_SERVER_STREAM},                                                       \
        .kind = (kind_of), .label = (label_of),                                                    \
    }
static const struct stream_method service_snapshot_methods[KINDS] = {
    [SAVE] = STREAM("/bigfleet.v1alpha1.Coordinator/SnapshotSave", "snapshot save", SAVE, "save",
                    bigfleet__v1alpha1, snapshot_save, snapshot_save_chunk),
    [BACKUP] = STREAM("/muster.v1.Fleet/Backup", "backup", BACKUP, "backup", muster__v1, backup,
                      backup_chunk),
    [ETCD] = STREAM("/etcdserverpb.Maintenance/Snapshot", "etcd's Snapshot", ETCD, "etcd",
                    etcdserverpb, snapshot, snapshot_response),
};

enum err snapshot_service_etcd(struct snapshot_service *service, struct rpc_server *server,
                               struct note *note)
{
    return leader_add(&service->leader, server, &service_snapshot_methods[ETCD].base, note);
}

enum err snapshot_service_methods(struct snapshot_service *service, struct rpc_server *server,
                                  struct note *note)
{
    enum err err = leader_add(&service->leader, server, &service_snapshot_methods[SAVE].base, note);

    return err ? err
               : leader_add(&service->leader, server, &service_snapshot_methods[BACKUP].base, note);
}
