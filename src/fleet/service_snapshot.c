/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/service_snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/copy.h"
#include "fleet/format/backup.h"
#include "log/sections.h"
#include "rpc/forward.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/etcd_rpc.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum {
    WAIT_MS = 5000,
    STALL_MS = 60000,
    TURN_MS = 300000, /* a machine gives one view at a time, and the log takes snapshots too */
    TURN_EVERY_MS = 50,
    CHUNK_BYTES = 1 << 20,  /* of one frame: wire.md 4.5 */
    SLICE_BYTES = 64 << 10, /* made in one turn of the loop: a millisecond at most */
    OUT_MAX = 64 << 20,     /* a machine's largest record: more than that is no slice */
};

enum kind { SAVE, BACKUP, ETCD /* a backup in etcd's frames */, KINDS };
static const struct {
    const char *word, *label; /* in texts, of the metric */
} kinds[KINDS] = {{"snapshot save", "save"}, {"backup", "backup"}, {"etcd's Snapshot", "etcd"}};
/* SAVE measures the state before it sends it, because its meta, which comes first, has the size:
 * two views of one moment. BACKUP tells sizes at the end. */
enum stage { READING, MEASURING, HEAD, SENDING, DONE };

struct outflow {
    struct snapshot_service *service;
    struct rpc_call *call; /* NULL: none is running */
    enum kind kind;
    enum stage stage;
    struct read_ticket ticket;
    struct timer timer; /* the next slice; while blocked or reading, the end of patience */
    bool reading, blocked, queued, waited; /* queued: until a machine has a view for it */
    bool is_made;                          /* all of it is in `out`, or sent */
    mono_time turn_until;
    struct buf out; /* made, not sent */
    uint64_t sent;
    uint64_t index, term;
    /* SAVE */
    struct fleet_copy measure, copy;
    /* BACKUP */
    struct backup_writer backup;
    struct sections sections;
    struct buf slice;
};
struct snapshot_service {
    struct source { /* what the server hands to our handler */
        struct snapshot_service *service;
        enum kind kind;
    } sources[KINDS];
    struct snapshot_service_options options;
    struct log_source log;
    struct machine machines[BACKUP_SECTIONS_MAX]; /* ascending id */
    size_t machine_count;
    struct outflow stream;
    struct metric_family *streams;
    struct counter *bytes;
};

/* -- life of a stream -- */

static void count(struct snapshot_service *service, enum kind kind, const char *outcome)
{
    struct str values[] = {str_from(kinds[kind].label), str_from(outcome)};

    if (service->streams) counter_inc(metric_counter(service->streams, values));
}

static void end_views(struct outflow *stream)
{
    fleet_copy_close(&stream->measure);
    fleet_copy_close(&stream->copy);
    sections_end(&stream->sections);
}

/* Nothing is kept but the place for the next one. */
static void stream_clear(struct outflow *stream)
{
    timer_stop(&stream->timer);
    if (stream->reading) replica_read_cancel(stream->service->options.replica, &stream->ticket);
    end_views(stream);
    buf_deinit(&stream->out);
    buf_deinit(&stream->slice);
    buf_init(&stream->out, OUT_MAX);
    buf_init(&stream->slice, OUT_MAX);
    stream->call = NULL;
    stream->reading = stream->blocked = stream->queued = stream->is_made = false;
    stream->sent = 0;
}

static void fail(struct outflow *stream, enum err err, const char *what)
{
    struct snapshot_service *service = stream->service;
    struct note note;

    if (err == ERR_NOT_LEADER && stream->kind == ETCD) {
        rpc_finish(stream->call, GRPC_FAILED_PRECONDITION, STR("etcdserver: not leader"),
                   STR_EMPTY);
    } else if (err == ERR_NOT_LEADER) {
        const char *leader = service->options.leader_address
                                 ? service->options.leader_address(service->options.owner)
                                 : "";
        rpc_fail_not_leader(stream->call, leader);
    } else {
        /* wire.md 4.1: whatever fails half-way is UNAVAILABLE, and asking again is safe. */
        if (err != ERR_NOT_FOUND && err != ERR_INTERNAL) err = ERR_UNAVAILABLE;
        note_set(&note, "%s: %s", kinds[stream->kind].word, what);
        rpc_fail(stream->call, err, &note);
    }
    count(service, stream->kind, "failed");
    stream->stage = DONE;
    end_views(stream);
}

static void finish(struct outflow *stream)
{
    struct snapshot_service *service = stream->service;

    rpc_finish(stream->call, GRPC_OK, STR_EMPTY, STR_EMPTY);
    LOG_INFO(&service->log, "state streamed", log_text("as", kinds[stream->kind].word),
             log_text("to", rpc_call_peer(stream->call)), log_u64("index", stream->index),
             log_u64("term", stream->term), log_u64("bytes", stream->sent));
    count(service, stream->kind, "done");
    if (service->bytes) counter_add(service->bytes, stream->sent);
    stream->stage = DONE;
    end_views(stream);
}

static void on_done(void *opaque, struct rpc_call *call)
{
    struct snapshot_service *service = ((const struct source *)opaque)->service;

    if (service->stream.call != call) return; /* one that was refused */
    if (service->stream.stage != DONE) count(service, service->stream.kind, "broken");
    stream_clear(&service->stream);
}

/* -- sending -- */

/* The first frame says what follows: no database of etcd's, but an archive of ours. */
static enum err send_etcd(struct outflow *stream, bool is_head, ProtobufCBinaryData frame)
{
    struct replica_status status = replica_status(stream->service->options.replica);
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
    return rpc_send(stream->call, &response.base);
}

/* A chunk of a backup is on the wire what a chunk of a saved snapshot is. */
static enum err send_chunk(struct outflow *stream, bool is_head, ProtobufCBinaryData frame)
{
    Bigfleet__V1alpha1__SnapshotSaveChunk chunk;

    bigfleet__v1alpha1__snapshot_save_chunk__init(&chunk);
    chunk.payload_case = is_head ? BIGFLEET__V1ALPHA1__SNAPSHOT_SAVE_CHUNK__PAYLOAD_META_JSON
                                 : BIGFLEET__V1ALPHA1__SNAPSHOT_SAVE_CHUNK__PAYLOAD_DATA;
    if (is_head)
        chunk.meta_json = frame;
    else
        chunk.data = frame;
    return rpc_send(stream->call, &chunk.base);
}

/* True: it was taken. */
static bool send_frame(struct outflow *stream, bool is_head, struct str bytes)
{
    ProtobufCBinaryData frame = {.len = bytes.len, .data = (uint8_t *)bytes.at};
    enum err err = stream->kind == ETCD ? send_etcd(stream, is_head, frame)
                                        : send_chunk(stream, is_head, frame);

    if (err == ERR_FULL) {
        stream->blocked = true;
        return false;
    }
    if (err && err != ERR_CLOSED) fail(stream, err, "the answer cannot be sent");
    if (err == ERR_CLOSED) stream->stage = DONE; /* on_done follows */
    return !err;
}

/* Sends what fills a chunk, or all of it at the end. True: nothing stands in the way of more. */
static bool flush(struct outflow *stream, bool is_last)
{
    while (stream->out.len >= CHUNK_BYTES || (is_last && stream->out.len > 0)) {
        size_t len = min_size(stream->out.len, CHUNK_BYTES);
        if (!send_frame(stream, false, str_of(stream->out.data, len))) return false;
        buf_consume(&stream->out, len);
        stream->sent += len;
    }
    return true;
}

/* -- the original's format -- */

static void measure(struct outflow *stream)
{
    bool is_last = false;
    enum err err;

    buf_clear(&stream->slice);
    err = fleet_state_write_next(stream->measure.writer, SLICE_BYTES, &stream->slice, &is_last);
    stream->copy.meta.size += stream->slice.len;
    if (err) fail(stream, err, err_text(err));
    if (err || !is_last) return;
    fleet_copy_close(&stream->measure);
    stream->stage = HEAD;
}

static enum err save_slice(struct outflow *stream)
{
    enum err err =
        fleet_state_write_next(stream->copy.writer, SLICE_BYTES, &stream->out, &stream->is_made);

    if (!err && stream->is_made) fleet_copy_close(&stream->copy);
    return err;
}

static enum err save_begin(struct outflow *stream)
{
    const struct snapshot_service_options *o = &stream->service->options;
    struct fleet *fleet = fleet_machine_fleet(o->fleet);
    wall_time now = clock_wall(o->io->clock);
    enum err err;

    if (fleet_copy_is_empty(fleet)) return ERR_NOT_FOUND;
    err = fleet_copy_open(&stream->measure, fleet, o->replica, o->roster, now);
    if (!err) err = fleet_copy_open(&stream->copy, fleet, o->replica, o->roster, now);
    stream->index = stream->copy.meta.index;
    stream->term = stream->copy.meta.term;
    stream->stage = MEASURING;
    return err;
}

/* -- every section -- */

static enum err backup_begin(struct outflow *stream)
{
    struct snapshot_service *service = stream->service;
    struct replica_status status = replica_status(service->options.replica);
    struct backup_head head = {
        .index = status.applied,
        .term = status.term, /* ready: the last entry is of our own term */
        .cluster_id = status.cluster_id,
        .replica_id = status.id,
        .clock_ns = status.clock_ns,
        .created_ms = clock_wall(service->options.io->clock).ms,
        .level = status.level,
        .section_count = service->machine_count,
    };
    enum err err = ERR_OK;

    stream->sections =
        (struct sections){.machines = service->machines, .count = service->machine_count};
    for (size_t i = 0; !err && i < service->machine_count; i++) {
        const struct machine *machine = &service->machines[i];
        struct backup_section *section = &head.sections[i];
        section->id = machine->id;
        section->version = machine->version;
        section->hash = machine->ops->hash(machine->state);
        snprintf(section->name, sizeof section->name, "%s", machine->name);
        err = sections_add(&stream->sections, i, status.applied);
    }
    stream->index = head.index;
    stream->term = head.term;
    stream->stage = HEAD;
    if (!err) err = backup_write_head(&stream->backup, &head, &stream->out);
    return err;
}

/* One slice, and the end behind the last. */
static enum err backup_slice(struct outflow *stream)
{
    struct str rest;
    size_t place = 0;
    enum err err;

    buf_clear(&stream->slice);
    err = sections_next(&stream->sections, SLICE_BYTES, &stream->slice, &place);
    for (rest = buf_peek(&stream->slice); !err && rest.len > 0;) {
        struct str piece = str_of(rest.at, min_size(rest.len, BACKUP_PIECE_MAX));
        err = backup_write_piece(&stream->backup, place, piece, &stream->out);
        rest = str_tail(rest, piece.len);
    }
    stream->is_made = stream->sections.at == stream->sections.count;
    return !err && stream->is_made ? backup_write_end(&stream->backup, &stream->out) : err;
}

/* -- driving -- */

static void on_read(struct read_ticket *ticket, enum err err);

static void send_head(struct outflow *stream)
{
    struct buf json;
    enum err err;

    buf_init(&json, FLEET_META_BYTES_MAX);
    err = stream->kind == SAVE ? fleet_meta_write(&stream->copy.meta, false, &json)
                               : backup_head_json(&stream->backup.head, &json);
    if (err)
        fail(stream, ERR_INTERNAL, "its head cannot be written");
    else if (send_frame(stream, true, buf_peek(&json)))
        stream->stage = SENDING;
    buf_deinit(&json);
}

static void send_slice(struct outflow *stream)
{
    enum err err = ERR_OK;

    if (!stream->is_made) err = stream->kind == SAVE ? save_slice(stream) : backup_slice(stream);
    if (err)
        fail(stream, err, err_text(err));
    else if (flush(stream, stream->is_made) && stream->is_made)
        finish(stream);
}

static void step(struct outflow *stream)
{
    const struct snapshot_service_options *o = &stream->service->options;

    if (stream->stage == MEASURING)
        measure(stream);
    else if (stream->stage == HEAD)
        send_head(stream);
    else
        send_slice(stream);
    if (stream->stage == DONE) return;
    if (stream->blocked)
        timer_start_in(&stream->timer, o->stall_ms);
    else
        timer_start_in(&stream->timer, 0); /* the next turn: others have theirs in between */
}

/* A leadership round, so that what is begun after it holds everything acknowledged before. */
static void ask(struct outflow *stream)
{
    struct snapshot_service *service = stream->service;

    stream->stage = READING;
    stream->reading = true;
    stream->queued = false;
    stream->ticket = (struct read_ticket){.done = on_read};
    timer_start_in(&stream->timer, service->options.wait_ms);
    replica_read(service->options.replica, &stream->ticket);
}

/* True: it is asked for again in a moment. */
static bool wait_for_turn(struct outflow *stream, enum err err)
{
    struct snapshot_service *service = stream->service;
    mono_time now = loop_now(service->options.io->loop);

    if (err != ERR_FULL || mono_due(stream->turn_until, now)) return false;
    end_views(stream);
    if (!stream->waited)
        LOG_INFO(&service->log, "waits until a snapshot is taken",
                 log_text("what", kinds[stream->kind].word));
    stream->queued = stream->waited = true;
    timer_start_in(&stream->timer, TURN_EVERY_MS);
    return true;
}

static void on_timer(struct timer *timer)
{
    struct outflow *stream = CONTAINER_OF(timer, struct outflow, timer);

    if (!stream->call || stream->stage == DONE) return;
    if (stream->queued) {
        ask(stream);
    } else if (stream->reading) {
        replica_read_cancel(stream->service->options.replica, &stream->ticket);
        stream->reading = false;
        fail(stream, ERR_UNAVAILABLE, "no majority answered in time");
    } else if (stream->blocked) {
        fail(stream, ERR_UNAVAILABLE, "the caller takes nothing");
    } else {
        step(stream);
    }
}

static void on_writable(void *opaque, struct rpc_call *call)
{
    struct outflow *stream = &((const struct source *)opaque)->service->stream;

    if (stream->call != call || stream->stage == DONE || !stream->blocked) return;
    stream->blocked = false;
    timer_start_in(&stream->timer, 0);
}

static void on_read(struct read_ticket *ticket, enum err err)
{
    struct outflow *stream = CONTAINER_OF(ticket, struct outflow, ticket);

    stream->reading = false;
    timer_stop(&stream->timer);
    if (!err) err = stream->kind == SAVE ? save_begin(stream) : backup_begin(stream);
    if (wait_for_turn(stream, err)) return;
    if (err == ERR_NOT_FOUND)
        fail(stream, err, "nothing was ever applied");
    else if (err)
        fail(stream, err, err_text(err));
    else
        step(stream);
}

static void begin(struct snapshot_service *service, struct rpc_call *call, enum kind kind)
{
    struct outflow *stream = &service->stream;
    struct outflow asked = {.service = service, .call = call, .kind = kind};
    struct note note;

    if (replica_status(service->options.replica).role != REPLICA_LEADER) {
        fail(&asked, ERR_NOT_LEADER, "");
        return;
    }
    /* One that has ended makes room at once, though its call lives until it is sent. */
    if (stream->call && stream->stage == DONE) stream_clear(stream);
    if (stream->call) {
        note_set(&note, "%s: another one is under way", kinds[kind].word);
        rpc_fail(call, ERR_FULL, &note);
        count(service, kind, "refused");
        return;
    }
    stream->call = call;
    stream->kind = kind;
    stream->waited = false;
    stream->turn_until = mono_after(loop_now(service->options.io->loop), TURN_MS);
    ask(stream);
}

static void on_message(void *opaque, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    const struct source *source = opaque;
    struct note note;

    (void)message;
    (void)bytes;
    /* It holds everything, not the store alone. */
    if (source->kind == ETCD &&
        rpc_access_check((struct rpc_access){ACCESS_ADMIN}, rpc_call_identity(call), &note))
        rpc_finish(call, GRPC_PERMISSION_DENIED, STR("etcdserver: permission denied"), STR_EMPTY);
    else
        begin(source->service, call, source->kind);
}

/* -- the face -- */

static enum err add_metrics(struct snapshot_service *service, struct metrics *metrics,
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

static int by_id(const void *a, const void *b)
{
    const struct machine *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

enum err snapshot_service_open(const struct snapshot_service_options *options,
                               struct snapshot_service **ret_service, struct note *note)
{
    struct snapshot_service *service = calloc(1, sizeof *service);
    enum err err;

    static_assert((int)REPLICA_MACHINES_MAX <= (int)BACKUP_SECTIONS_MAX, "a section for each");
    if (!service) return ERR_NOMEM;
    service->options = *options;
    if (options->log) service->log = *options->log;
    if (!service->options.wait_ms) service->options.wait_ms = WAIT_MS;
    if (!service->options.stall_ms) service->options.stall_ms = STALL_MS;
    service->machine_count = options->machine_count;
    memcpy(service->machines, options->machines,
           options->machine_count * sizeof *options->machines);
    qsort(service->machines, service->machine_count, sizeof *service->machines, by_id);
    service->stream.service = service;
    buf_init(&service->stream.out, OUT_MAX);
    buf_init(&service->stream.slice, OUT_MAX);
    err = timer_init(&service->stream.timer, options->io->loop, on_timer);
    if (!err && options->metrics) err = add_metrics(service, options->metrics, note);
    if (err) {
        timer_deinit(&service->stream.timer);
        free(service);
        return err;
    }
    *ret_service = service;
    return ERR_OK;
}

void snapshot_service_close(struct snapshot_service *service)
{
    if (!service) return;
    stream_clear(&service->stream);
    timer_deinit(&service->stream.timer);
    free(service);
}

static enum err add_method(struct snapshot_service *service, struct rpc_server *server,
                           enum kind kind, struct rpc_method method, struct note *note)
{
    static const struct rpc_handler handler = {
        .on_message = on_message, .on_writable = on_writable, .on_done = on_done};

    service->sources[kind] = (struct source){service, kind};
    method.kind = RPC_SERVER_STREAM;
    method.handler = &handler;
    method.service = &service->sources[kind];
    return rpc_server_add(server, &method, note);
}

enum err snapshot_service_etcd(struct snapshot_service *service, struct rpc_server *server,
                               struct note *note)
{
    return add_method(service, server, ETCD,
                      (struct rpc_method){.path = "/etcdserverpb.Maintenance/Snapshot",
                                          .input = &etcdserverpb__snapshot_request__descriptor,
                                          .output = &etcdserverpb__snapshot_response__descriptor},
                      note);
}

enum err snapshot_service_methods(struct snapshot_service *service, struct rpc_server *server,
                                  struct note *note)
{
    enum err err = add_method(
        service, server, SAVE,
        (struct rpc_method){.path = "/bigfleet.v1alpha1.Coordinator/SnapshotSave",
                            .input = &bigfleet__v1alpha1__snapshot_save_request__descriptor,
                            .output = &bigfleet__v1alpha1__snapshot_save_chunk__descriptor},
        note);

    return err ? err
               : add_method(service, server, BACKUP,
                            (struct rpc_method){.path = "/muster.v1.Fleet/Backup",
                                                .input = &muster__v1__backup_request__descriptor,
                                                .output = &muster__v1__backup_chunk__descriptor},
                            note);
}
