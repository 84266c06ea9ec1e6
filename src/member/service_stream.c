/* SPDX-License-Identifier: Apache-2.0 */
/* Runs all streams, and rollout's own: Control/Subscribe and Work/Stream. Loop's thread. */
#include <stdlib.h>

#include "member/service_internal.h"

/* -- all streams -- */

void call_stream_begin(struct call_stream *stream, struct member_service *service,
                       struct rpc_call *call, void (*over)(struct call_stream *stream))
{
    *stream = (struct call_stream){.service = service, .call = call, .over = over};
    list_init(&stream->link);
    list_append(&service->streams, &stream->link);
    rpc_call_set_data(call, stream);
    rpc_call_set_waiting(call);
}

static struct rpc_call *part(struct call_stream *stream)
{
    struct rpc_call *call = stream->call;

    stream->call = NULL;
    list_remove(&stream->link);
    rpc_call_set_data(call, NULL);
    stream->over(stream);
    return call;
}

void call_stream_end(struct call_stream *stream, enum grpc_status status, const char *why)
{
    if (stream->call) rpc_finish(part(stream), status, str_from(why), STR_EMPTY);
}

void call_stream_drained(void *, struct rpc_call *call)
{
    struct call_stream *stream = rpc_call_data(call);

    if (stream) call_stream_end(stream, GRPC_UNAVAILABLE, "this replica stops; ask again");
}

void call_stream_done(void *, struct rpc_call *call)
{
    struct call_stream *stream = rpc_call_data(call);

    if (stream) (void)part(stream);
}

void call_streams_end(struct member_service *service, const char *why)
{
    control_end(service, why);
    LIST_EACH_SAFE(&service->streams, node, next)
    call_stream_end(CONTAINER_OF(node, struct call_stream, link), GRPC_UNAVAILABLE, why);
}

/* -- Control -- */

static void on_subscribe(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                         struct str)
{
    struct member_service *service = owner;
    const Rollout__Transport__V1__ControlSubscribeRequest *m = (const void *)message;
    struct note note = {""};
    struct ulid worker, run;
    char name[ULID_TEXT_CAP];
    enum err err;

    rpc_call_set_data(call, NULL);
    err = ulid_parse(str_from(m->worker_id), &worker, &note);
    if (err) note_prefix(&note, "worker_id");
    if (!err && (err = ulid_parse(str_from(m->run_id), &run, &note))) note_prefix(&note, "run_id");
    if (err) {
        rpc_finish(call, GRPC_INVALID_ARGUMENT, str_from(note.text), STR_EMPTY);
        return;
    }
    ulid_text(&worker, name);
    if (!service->options.any_run && ulid_compare(&run, &service->options.run) != 0) {
        note_set(&note, "run_id: %s, and this is run %s", m->run_id, service->run);
        rpc_finish(call, GRPC_FAILED_PRECONDITION, str_from(note.text), STR_EMPTY);
    } else if (!speaks_for(service, call, str_from(name), &note)) {
        rpc_finish(call, GRPC_PERMISSION_DENIED, str_from(note.text), STR_EMPTY);
    } else if (!service->serving) {
        rpc_finish(call, GRPC_UNAVAILABLE, STR("no leader is ready"), STR_EMPTY);
    } else {
        err = control_subscribe(service, str_from(name), call);
        if (err) rpc_fail(call, err, NULL);
    }
}

const struct rpc_handler member_control_handler = {
    .on_message = on_subscribe, .on_drain = call_stream_drained, .on_done = call_stream_done};

/* -- Work: one response frame for each request frame -- */

struct working {
    struct call_stream stream;
    struct operation_wait wait;
    bool waits, ended; /* waits: an operation is proposed; ended: the peer has closed its side */
    size_t len;
    char worker[MEMBER_ID_MAX]; /* empty until the stream's worker is known */
};

/* If an operation is proposed, the operation's end frees the stream. */
static void working_over(struct call_stream *stream)
{
    struct working *working = CONTAINER_OF(stream, struct working, stream);

    if (!working->waits) free(working);
}

/* The caller reads the peer's next frame only after this answer, so at most one frame per peer
 * waits. */
static void send_down(struct working *working, uint32_t field, struct str bytes)
{
    struct member_service *service = working->stream.service;
    struct pack frame = pack_begin(&service->answer);

    pack_bytes(&frame, field, bytes);
    if (frame.err || rpc_send_bytes(working->stream.call, buf_peek(&service->answer)) == ERR_NOMEM)
        call_stream_end(&working->stream, GRPC_UNAVAILABLE, "no memory");
}

static void answer_ack(struct working *working)
{
    send_down(working, 2, STR("ack"));
}

/* The worker's id from the frame `ready` or the certificate; "": unknown. */
static struct str name_of(struct working *working, struct str said)
{
    const struct tls_identity *peer = rpc_call_identity(working->stream.call);
    struct str prefix = STR("worker-");
    struct note note;
    struct ulid ulid;
    char text[ULID_TEXT_CAP];

    if (ulid_parse(said, &ulid, NULL) && peer && str_starts(peer->common_name, prefix))
        said = str_tail(peer->common_name, prefix.len);
    if (ulid_parse(said, &ulid, NULL)) return str_of(working->worker, working->len);
    ulid_text(&ulid, text);
    if (!speaks_for(working->stream.service, working->stream.call, str_from(text), &note))
        return STR_EMPTY;
    memcpy(working->worker, text, ULID_LEN);
    working->len = ULID_LEN;
    return str_of(working->worker, working->len);
}

static void answer_item(struct working *working, const struct operation_wait *wait,
                        const struct member_reply *reply)
{
    struct member_digest id;
    struct member_item item;

    if (member_reply_item(reply, wait->first, 0, &id) &&
        member_find_item(membership_of(working->stream.service), &id, &item) && item.payload.len)
        send_down(working, 1, item.payload);
    else
        answer_ack(working);
}

static void on_item(struct operation_wait *wait, enum err err, const struct member_reply *reply)
{
    struct working *working = CONTAINER_OF(wait, struct working, wait);
    struct call_stream *stream = &working->stream;

    if (stream->call && err)
        call_stream_end(stream, GRPC_UNAVAILABLE, "what it asked for could not be written down");
    else if (stream->call)
        answer_item(working, wait, reply);
    working->waits = false;
    if (!stream->call) {
        free(working);
        return;
    }
    rpc_resume(stream->call);
    if (working->ended) call_stream_end(stream, GRPC_OK, "");
}

static bool operate(struct working *working, struct member_op *op)
{
    struct member_service *service = working->stream.service;
    struct member_worker worker;

    if (!op->worker.len || !member_find_worker(membership_of(service), op->worker, &worker))
        return false;
    op->incarnation = worker.incarnation;
    op->wall_ms = wall_ms(service);
    if (!batch_one(service, op, &working->wait, on_item)) return false;
    working->waits = true;
    rpc_pause(working->stream.call);
    return true;
}

static void on_frame(void *, struct rpc_call *call, const ProtobufCMessage *message, struct str)
{
    struct working *working = rpc_call_data(call);
    const Rollout__Transport__V1__WorkUp *m = (const void *)message;
    struct member_op op = {.kind = MEMBER_OP_PULL, .number = 1};

    if (!working) return;
    if (m->up_case == ROLLOUT__TRANSPORT__V1__WORK_UP__UP_READY) {
        op.worker = name_of(working, str_from(m->ready));
        if (operate(working, &op)) return;
    } else if (m->up_case == ROLLOUT__TRANSPORT__V1__WORK_UP__UP_RESULT &&
               m->result.len >= sizeof op.item.b) {
        op.kind = MEMBER_OP_SUBMIT;
        op.worker = name_of(working, STR_EMPTY);
        memcpy(op.item.b, m->result.data, sizeof op.item.b);
        op.bytes = str_tail(bytes_str(m->result), sizeof op.item.b);
        if (op.bytes.len <= MEMBER_WORK_RESULT_MAX && operate(working, &op)) return;
    }
    answer_ack(working);
}

static void on_work_start(void *owner, struct rpc_call *call)
{
    struct member_service *service = owner;
    struct working *working = service->serving ? calloc(1, sizeof *working) : NULL;

    rpc_call_set_data(call, NULL);
    if (!working) {
        rpc_finish(call, GRPC_UNAVAILABLE, STR("no leader is ready"), STR_EMPTY);
        return;
    }
    call_stream_begin(&working->stream, service, call, working_over);
}

static void on_work_half_closed(void *, struct rpc_call *call)
{
    struct working *working = rpc_call_data(call);

    if (!working) return;
    working->ended = true;
    if (!working->waits) call_stream_end(&working->stream, GRPC_OK, "");
}

const struct rpc_handler member_stream_handler = {.on_start = on_work_start,
                                                  .on_message = on_frame,
                                                  .on_half_closed = on_work_half_closed,
                                                  .on_drain = call_stream_drained,
                                                  .on_done = call_stream_done};
