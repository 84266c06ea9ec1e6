/* SPDX-License-Identifier: Apache-2.0 */
/* The methods that stream the state. bigfleet.v1alpha1.Coordinator/SnapshotSave sends the fleet
 * tables in the original's format. muster.v1.Fleet/Backup sends every state machine of the log,
 * with the bytes of a snapshot file (log/snapfile.h; fleet/archive.h).
 *
 * A stream contains every write acknowledged before the call, at one log index, while writes
 * continue. Each slice is encoded after the previous one was sent, so a slow client costs one
 * chunk. A call whose client reads nothing for stall_ms fails. One stream runs at a time, because
 * its view keeps removed rows.
 *
 *     called -> leadership confirmed (src/leader) -> opening views, after other snapshots
 *            -> measuring -> head -> sending, a slice per turn -> done */
#include <string.h>

#include "base/bytes.h"
#include "fleet/archive.h"
#include "fleet/service_internal.h"
#include "text/ndjson.h"
#include "wire/pb/etcd_rpc.pb-c.h"

enum {
    TURN_MS = 300000, /* wait for views that a snapshot of the log has open */
    TURN_EVERY_MS = 50,
    CHUNK_BYTES = 1 << 20, /* size of one frame (wire.md 4.5) */
};
/* Values of outflow.stage. */
enum { STREAM_OPENING, STREAM_MEASURING, STREAM_HEAD, STREAM_SENDING, STREAM_SENT };

static enum stream_kind kind_of(const struct fleet_service *service)
{
    return service_method_of(service->stream.request)->stream;
}

/* -- ends -- */

static void stream_count(struct fleet_service *service, const struct leader_request *request,
                         const char *outcome)
{
    struct str values[] = {str_from(service_method_of(request)->label), str_from(outcome)};

    if (service->streams) counter_inc(metric_counter(service->streams, values));
}

static void stream_close_views(struct outflow *stream)
{
    fleet_state_write_close(stream->measure);
    stream->measure = NULL;
    fleet_copy_close(&stream->copy);
    sections_end(&stream->sections);
}

static void stream_clear(struct fleet_service *service)
{
    struct outflow *stream = &service->stream;

    timer_stop(&service->stream_timer);
    stream_close_views(stream);
    buf_deinit(&stream->out);
    buf_deinit(&stream->slice);
    memset(stream, 0, sizeof *stream);
    buf_init(&stream->out, STATE_SLICE_MAX);
    buf_init(&stream->slice, STATE_SLICE_MAX);
}

void service_stream_freed(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);

    if (service->stream.request != request) return; /* a request that was refused */
    stream_count(service, request,
                 service->stream.stage == STREAM_SENT ? "done"
                 : request->call                      ? "failed"
                                                      : "broken");
    stream_clear(service);
}

/* UNAVAILABLE means that a retry is safe (wire.md 4.1). */
static void stream_fail(struct fleet_service *service, enum grpc_status status, const char *what)
{
    struct leader_request *request = service->stream.request;

    request_refuse(request, status, "%s: %s", request->method->name, what);
}

static void stream_finish(struct fleet_service *service)
{
    struct outflow *stream = &service->stream;
    struct leader_request *request = stream->request;

    rpc_finish(request->call, GRPC_OK, STR_EMPTY, STR_EMPTY);
    LOG_INFO(&service->log, "snapshot streamed to a client", log_text("as", request->method->name),
             log_text("to", rpc_call_peer(request->call)),
             log_u64("index", stream->copy.meta.index), log_u64("term", stream->copy.meta.term),
             log_u64("bytes", stream->sent));
    if (service->stream_bytes) counter_add(service->stream_bytes, stream->sent);
    request_free(request);
}

/* -- sending -- */

/* The first frame says that this is a backup of muster, not an etcd database. */
static enum err stream_send_etcd(struct fleet_service *service, bool is_head,
                                 ProtobufCBinaryData frame)
{
    struct replica_status status = replica_status(service->leader.replica);
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

/* Backup and SnapshotSave encode their chunks in the same way. */
static enum err stream_send_chunk(struct fleet_service *service, bool is_head,
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

/* ERR_FULL: the stream is now blocked. */
static enum err stream_send_frame(struct fleet_service *service, bool is_head, struct str bytes)
{
    ProtobufCBinaryData frame = {.len = bytes.len, .data = (uint8_t *)bytes.at};
    enum err err = kind_of(service) == STREAM_ETCD ? stream_send_etcd(service, is_head, frame)
                                                   : stream_send_chunk(service, is_head, frame);

    service->stream.is_blocked = err == ERR_FULL;
    return err;
}

/* The last chunk at the end of the stream need not be full. */
static enum err stream_flush(struct fleet_service *service)
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

/* -- encoding: the last call of each step starts the next stage -- */

static enum err stream_measure(struct fleet_service *service)
{
    struct outflow *stream = &service->stream;
    bool over = false;
    enum err err;

    buf_clear(&stream->slice);
    err = fleet_state_write_next(stream->measure, STATE_SLICE_BYTES, &stream->slice, &over);
    stream->copy.meta.size += stream->slice.len;
    if (!over) return err;
    fleet_state_write_close(stream->measure);
    stream->measure = NULL;
    stream->stage = STREAM_HEAD;
    return err;
}

static enum err backup_describe(const struct fleet_service *service, struct buf *into)
{
    const struct fleet_meta *meta = &service->stream.copy.meta;
    struct ndjson line;

    ndjson_begin(&line, into, NDJSON_LINE);
    ndjson_u64(&line, STR("index"), meta->index);
    ndjson_u64(&line, STR("term"), meta->term);
    ndjson_hex(&line, STR("cluster"), replica_status(service->leader.replica).cluster_id);
    ndjson_open_array(&line, STR("sections"));
    for (size_t i = 0; i < service->machine_count; i++)
        ndjson_c_string(&line, NDJSON_ITEM, service->machines[i].name);
    ndjson_close_array(&line);
    return ndjson_end(&line);
}

static enum err stream_send_head(struct fleet_service *service)
{
    struct buf json;
    enum err err;

    buf_init(&json, FLEET_META_BYTES_MAX);
    err = kind_of(service) == STREAM_SAVE
              ? fleet_meta_write(&service->stream.copy.meta, false, &json)
              : backup_describe(service, &json);
    if (!err) err = stream_send_frame(service, true, buf_peek(&json));
    buf_deinit(&json);
    if (!err) service->stream.stage = STREAM_SENDING;
    return err;
}

static enum err backup_slice(struct outflow *stream)
{
    struct str rest;
    size_t place = 0;
    enum err err;

    buf_clear(&stream->slice);
    err = sections_next(&stream->sections, STATE_SLICE_BYTES, &stream->slice, &place);
    for (rest = buf_peek(&stream->slice); !err && rest.len > 0;) {
        struct str chunk = str_of(rest.at, min_size(rest.len, SNAP_CHUNK_MAX));
        err = snap_stream_chunk(&stream->frame, stream->sections.machines[place].id, chunk,
                                &stream->out);
        rest = str_tail(rest, chunk.len);
    }
    stream->is_made = stream->sections.at == stream->sections.count;
    return !err && stream->is_made ? snap_stream_end(&stream->frame, &stream->out) : err;
}

static enum err stream_send_slice(struct fleet_service *service)
{
    struct outflow *stream = &service->stream;
    enum err err = ERR_OK;

    if (!stream->is_made)
        err = kind_of(service) == STREAM_SAVE
                  ? fleet_state_write_next(stream->copy.writer, STATE_SLICE_BYTES, &stream->out,
                                           &stream->is_made)
                  : backup_slice(stream);
    if (!err) err = stream_flush(service);
    if (!err && stream->is_made) stream->stage = STREAM_SENT;
    return err;
}

/* -- opening -- */

static enum err save_open_views(struct fleet_service *service)
{
    struct outflow *stream = &service->stream;
    const struct replica *replica = service->leader.replica;
    struct fleet_copy counted = {.writer = NULL};
    wall_time now = clock_wall(service->io->clock);
    enum err err;

    if (fleet_copy_is_empty(service->fleet)) return ERR_NOT_FOUND;
    err = fleet_copy_open(&counted, service->fleet, replica, service->options.roster, now);
    stream->measure = counted.writer;
    if (!err)
        err = fleet_copy_open(&stream->copy, service->fleet, replica, service->options.roster, now);
    stream->stage = STREAM_MEASURING;
    return err;
}

static enum err backup_open_views(struct fleet_service *service)
{
    struct outflow *stream = &service->stream;
    struct replica_status status = replica_status(service->leader.replica);
    wall_time now = clock_wall(service->io->clock);
    struct snap_head head = {.mark = {.index = status.applied, .term = status.term},
                             .cluster_id = status.cluster_id,
                             .level = status.level,
                             .clock_ns = status.clock_ns};
    char made[BACKUP_MADE_BYTES];
    enum err err = ERR_OK;

    stream->sections =
        (struct sections){.machines = service->machines, .count = service->machine_count};
    for (size_t i = 0; !err && i < service->machine_count; i++)
        err = sections_add(&stream->sections, i, status.applied);
    if (err) return err;
    stream->copy.meta.index = status.applied;
    stream->copy.meta.term = status.term;
    store_le64(made, now.ms);
    stream->stage = STREAM_HEAD;
    err = snap_stream_begin(&stream->frame, &head, &stream->out);
    if (!err)
        err = snap_stream_chunk(&stream->frame, BACKUP_SECTION_MADE, str_of(made, sizeof made),
                                &stream->out);
    return err;
}

/* If other snapshots use the views, a timer repeats the attempt. */
static enum err stream_open_views(struct fleet_service *service)
{
    struct outflow *stream = &service->stream;
    mono_time now = loop_now(service->io->loop);
    enum err err =
        kind_of(service) == STREAM_SAVE ? save_open_views(service) : backup_open_views(service);

    if (!err) return ERR_OK;
    stream_close_views(stream);
    stream->stage = STREAM_OPENING;
    if (err != ERR_FULL || mono_due(stream->turn_until, now)) return err;
    if (!stream->has_waited)
        LOG_INFO(&service->log, "a backup waits until another one is finished",
                 log_text("what", stream->request->method->name));
    stream->has_waited = true;
    timer_start_in(&service->stream_timer, TURN_EVERY_MS);
    return ERR_NOT_READY;
}

/* -- control -- */

static void stream_step(struct fleet_service *service)
{
    static enum err (*const steps[STREAM_SENT])(struct fleet_service *) = {
        [STREAM_OPENING] = stream_open_views,
        [STREAM_MEASURING] = stream_measure,
        [STREAM_HEAD] = stream_send_head,
        [STREAM_SENDING] = stream_send_slice};
    struct outflow *stream = &service->stream;
    enum err err = steps[stream->stage](service);

    if (stream->is_blocked)
        timer_start_in(&service->stream_timer, service->options.limits.stall_ms);
    else if (err == ERR_NOT_READY || err == ERR_CLOSED)
        return; /* a timer retries, or service_stream_freed is called later */
    else if (err == ERR_NOT_FOUND)
        stream_fail(service, GRPC_NOT_FOUND, "nothing was ever applied");
    else if (err)
        stream_fail(service, GRPC_UNAVAILABLE, err_text(err));
    else if (stream->stage == STREAM_SENT)
        stream_finish(service);
    else
        timer_start_in(&service->stream_timer,
                       0); /* in the next turn, so that other tasks can run */
}

static void stream_on_timer(struct timer *timer)
{
    struct fleet_service *service = CONTAINER_OF(timer, struct fleet_service, stream_timer);

    if (service->stream.is_blocked)
        stream_fail(service, GRPC_UNAVAILABLE, "the caller takes nothing");
    else if (service->stream.stage == STREAM_OPENING && !leader_leads(&service->leader))
        request_redirect(service->stream.request);
    else
        stream_step(service);
}

void service_stream_writable(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);

    if (service->stream.request != request || !service->stream.is_blocked) return;
    service->stream.is_blocked = false;
    timer_start_in(&service->stream_timer, 0);
}

static void stream_begin(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);

    request_keep(request, &service->kept);
    service->stream.turn_until = mono_after(loop_now(service->io->loop), TURN_MS);
    stream_step(service);
}

static bool stream_admit(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    bool etcd = service_method_of(request)->stream == STREAM_ETCD;
    struct note note;

    /* a backup contains more than the etcd keys */
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

/* -- life -- */

enum err service_streams_open(struct fleet_service *service, struct note *note)
{
    struct metric_options streams = {
        .name = "muster_coordinator_state_streams_total",
        .help = "State streams by kind (save, backup, etcd) and outcome.",
        .kind = METRIC_COUNTER,
        .labels = {"kind", "outcome"},
    };
    enum err err = timer_init(&service->stream_timer, service->io->loop, stream_on_timer);

    buf_init(&service->stream.out, STATE_SLICE_MAX);
    buf_init(&service->stream.slice, STATE_SLICE_MAX);
    if (err || !service->options.metrics) return err;
    err = metrics_add(service->options.metrics, &streams, &service->streams, note);
    return err ? err
               : metrics_add_counter(
                     service->options.metrics, "muster_coordinator_state_streamed_bytes_total",
                     "Bytes of completed state streams.", &service->stream_bytes, note);
}

#define STREAM(path_of, name_of, kind_of, label_of, package, word, chunk)                          \
    {                                                                                              \
        .base = {.path = (path_of),                                                                \
                 .name = (name_of),                                                                \
                 .input = &package##__##word##_request__descriptor,                                \
                 .output = &package##__##chunk##__descriptor,                                      \
                 .kind = RPC_SERVER_STREAM},                                                       \
        .anywhere = true, .admit = stream_admit, .read = stream_begin, .stream = (kind_of),        \
        .label = (label_of),                                                                       \
    }
const struct service_method service_stream_methods[] = {
    STREAM("/bigfleet.v1alpha1.Coordinator/SnapshotSave", "snapshot save", STREAM_SAVE, "save",
           bigfleet__v1alpha1, snapshot_save, snapshot_save_chunk),
    STREAM("/muster.v1.Fleet/Backup", "backup", STREAM_BACKUP, "backup", muster__v1, backup,
           backup_chunk),
    {.base = {.path = NULL}},
};

enum err fleet_service_etcd(struct fleet_service *service, struct rpc_server *server,
                            struct note *note)
{
    static const struct service_method snapshot =
        STREAM("/etcdserverpb.Maintenance/Snapshot", "etcd's Snapshot", STREAM_ETCD, "etcd",
               etcdserverpb, snapshot, snapshot_response);

    return leader_add(&service->leader, server, &snapshot.base, note);
}
