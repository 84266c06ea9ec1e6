/* SPDX-License-Identifier: Apache-2.0 */
/* One operator's stream: Hello, identity, replacement, frames in and out, end. Loop's thread.
 *
 * A session ends once, in session_over(). Its memory is freed later in the same turn of the loop,
 * so a function may end the session it works on. */
#include "shard/sessions_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* -- the end -- */

/* Keeps frames for the cluster's next session that no resync would send again. */
static void outbox_over(struct session *session)
{
    struct sessions *s = session->sessions;
    struct outbox *box = &session->outbox;

    LIST_EACH(&box->frames, node)
    {
        struct out_frame *frame = CONTAINER_OF(node, struct out_frame, link);
        if (frame->departed) cluster_keep_departed(s, session->cluster, frame->key, frame->bytes);
    }
    outbox_deinit(box);
}

/* Ends the session for its cluster. The RPC may still exist. */
static void session_over(struct session *session)
{
    struct sessions *s = session->sessions;
    struct session_cluster *cluster = session->cluster;

    if (session->over) return;
    session->over = true;
    timer_stop(&session->timer);
    if (cluster && cluster->session == session) { /* a new session may have replaced this one */
        cluster->session = NULL;
        s->stats.active--;
        s->stats.removed++;
    }
    lane_over(session);
    outbox_over(session);
    blobs_over(session);
    if (!session->opened) return;
    LOG_INFO(&s->log, "operator session closed", log_str("cluster", cluster->id));
    s->events->on_close(s->owner, cluster->id);
}

void session_end(struct session *session, enum grpc_status status, const char *text)
{
    if (session->over) return;
    if (session->call) rpc_finish(session->call, status, str_from(text), STR_EMPTY);
    session_over(session);
}

void session_free(struct session *session)
{
    struct sessions *s = session->sessions;

    assert(session->over && !session->call);
    list_remove(&session->link);
    timer_deinit(&session->timer);
    s->stats.streams--;
    if (session->cluster) {
        session->cluster->sessions--;
        cluster_settle(s, session->cluster);
    }
    free(session);
}

/* -- frames out -- */

static void end_unread(struct session *session)
{
    struct note note;

    note_set(&note, "the operator does not read: %zu frames (%zu bytes) wait for it",
             session->outbox.count, session->outbox.bytes);
    session->sessions->stats.unread++;
    LOG_WARN(&session->sessions->log, "closed the session of an operator that does not read",
             log_str("cluster", session->cluster->id), log_u64("frames", session->outbox.count));
    session_end(session, GRPC_RESOURCE_EXHAUSTED, note.text);
}

/* If all outboxes together exceed their bound, ends the session with the longest outbox. */
static void end_longest(struct sessions *s)
{
    struct session *longest = NULL;

    LIST_EACH(&s->all, node)
    {
        struct session *session = CONTAINER_OF(node, struct session, link);
        if (session->over) continue;
        if (!longest || session->outbox.bytes > longest->outbox.bytes) longest = session;
    }
    if (longest) end_unread(longest);
}

void session_send(struct session *session, struct str key, bool departed, struct str frame)
{
    struct sessions *s = session->sessions;
    enum err err = ERR_FULL;

    if (session->over) return;
    if (session->outbox.count == 0) err = rpc_send_bytes(session->call, frame);
    if (!err) return;
    /* ERR_CLOSED: the RPC is ending, and session_over() keeps the frames. */
    if (err == ERR_FULL || err == ERR_CLOSED)
        err = outbox_put(&session->outbox, key, frame, departed);
    if (err == ERR_FULL)
        end_unread(session);
    else if (err)
        session_end(session, GRPC_UNAVAILABLE, "no memory for the frame");
    else if (s->outboxes.bytes > s->limits.outboxes_bytes_max)
        end_longest(s);
    if (err && departed) cluster_keep_departed(s, session->cluster, key, frame);
}

void session_send_written(struct session *session, struct str key, enum err err)
{
    if (err)
        session_end(session, GRPC_UNAVAILABLE, "no memory for the frame");
    else
        session_send(session, key, false, buf_peek(&session->sessions->writer.frame));
}

static void session_pump(struct session *session)
{
    struct out_frame *frame;

    while (!session->over && (frame = outbox_first(&session->outbox))) {
        enum err err = rpc_send_bytes(session->call, frame->bytes);
        if (err == ERR_FULL || err == ERR_CLOSED) return;
        if (err) {
            session_end(session, GRPC_UNAVAILABLE, "no memory for the frame");
            return;
        }
        outbox_drop(&session->outbox, frame);
    }
}

/* -- Hello -- */

void session_refuse(struct session *session, enum grpc_status status, const char *why)
{
    session->sessions->stats.refused++;
    LOG_WARN(&session->sessions->log, "operator stream rejected",
             log_text("peer", rpc_call_peer(session->call)), log_text("why", why));
    session_end(session, status, why);
}

static bool hello_is_allowed(struct session *session, struct str cluster)
{
    struct sessions *s = session->sessions;
    struct note note = {""};

    if (id_check("cluster_id", cluster, ID_MAX, &note)) {
        session_refuse(session, GRPC_INVALID_ARGUMENT, note.text);
        return false;
    }
    if (rpc_access_is(rpc_call_identity(session->call), STR("bigfleet://cluster/"), cluster,
                      &note)) {
        s->stats.identity_rejected++;
        LOG_ERROR(&s->log, "operator session identity rejected", log_str("cluster", cluster),
                  log_text("peer", rpc_call_peer(session->call)), log_text("why", note.text));
        session_end(session, GRPC_PERMISSION_DENIED, note.text);
        return false;
    }
    return true;
}

static void acknowledge_hello(struct session *session)
{
    struct sessions *s = session->sessions;

    session_send_written(session, STR_EMPTY,
                         frame_write_ack(&s->writer, STR("hello"), s->term, s->limits.epoch,
                                         session->reports_drains, session->reports_occupancy));
}

/* Notifies the owner of the old session's end before the new session's start. */
static void session_replace(struct sessions *s, struct session_cluster *cluster)
{
    struct session *old = cluster->session;

    cluster->session = NULL; /* otherwise session_end() counts the old session as removed */
    s->stats.active--;
    s->stats.replaced++;
    session_end(old, GRPC_ABORTED, "replaced by a new session of the cluster");
}

static void session_install(struct session *session, const struct operator_frame *hello)
{
    struct sessions *s = session->sessions;
    struct session_cluster *cluster = known_cluster(s, hello->cluster);

    if (!cluster) {
        session_end(session, GRPC_RESOURCE_EXHAUSTED, "too many clusters");
        return;
    }
    cluster->sessions++;
    session->cluster = cluster;
    timer_stop(&session->timer);
    if (cluster->session)
        session_replace(s, cluster);
    else
        s->stats.installed++;
    cluster->session = session;
    session->reports_drains = hello->reports_drains;
    session->takes_status = hello->reports_drains && hello->takes_status;
    session->reports_occupancy = hello->reports_occupancy;
    s->stats.active++;
    LOG_INFO(&s->log, "operator session opened", log_str("cluster", cluster->id),
             log_text("peer", rpc_call_peer(session->call)), log_str("version", hello->version),
             log_bool("reports_drains", hello->reports_drains),
             log_bool("reports_occupancy", hello->reports_occupancy));
    acknowledge_hello(session);
    if (session->over) return;
    session->opened = true;
    s->events->on_open(s->owner, cluster->id,
                       session->takes_status     ? OPERATOR_TAKES_STATUS
                       : session->reports_drains ? OPERATOR_REPORTS_DRAINS
                                                 : OPERATOR_CONNECTED);
}

static void on_hello(struct session *session, const struct operator_frame *frame)
{
    if (!hello_is_allowed(session, frame->cluster)) return;
    if (!session->cluster)
        session_install(session, frame);
    else if (str_equal(frame->cluster, session->cluster->id))
        acknowledge_hello(session);
    else
        session_refuse(session, GRPC_INVALID_ARGUMENT,
                       "hello names another cluster than the first one");
}

/* -- frames in -- */

struct str action_id(const struct sessions *s, uint64_t action, char id[REQUEST_ID_LEN + 1])
{
    (void)snprintf(id, REQUEST_ID_LEN + 1, "%016llx",
                   (unsigned long long)(s->first_instruction + action));
    return str_of(id, REQUEST_ID_LEN);
}

uint64_t action_of(const struct sessions *s, struct str id)
{
    uint64_t number = 0;

    if (id.len != REQUEST_ID_LEN) return 0;
    for (size_t i = 0; i < id.len; i++) {
        const char *digits = "0123456789abcdef", *digit = memchr(digits, id.at[i], 16);
        if (!digit) return 0;
        number = number << 4 | (uint64_t)(digit - digits);
    }
    return number - s->first_instruction;
}

static void session_on_drain_report(struct session *session, const struct operator_frame *frame)
{
    struct sessions *s = session->sessions;
    struct drain_report report = {
        .cluster = session->cluster->id,
        .machine = frame->machine,
        .action = action_of(s, frame->request_id),
        .drained = frame->drained,
        .left_ms = min_u64(frame->left_seconds, UINT64_MAX / MS_PER_SECOND) * MS_PER_SECOND,
        .error = frame->error,
    };

    s->stats.drain_reports++;
    if (session->reports_drains) s->events->on_drain_report(s->owner, &report);
}

static void on_frame(struct session *session, const struct operator_frame *frame)
{
    struct sessions *s = session->sessions;

    if (!session->cluster && frame->kind != FRAME_HELLO) {
        session_refuse(session, GRPC_INVALID_ARGUMENT, "the first frame must be hello");
        return;
    }
    switch (frame->kind) {
    case FRAME_HELLO: on_hello(session, frame); break;
    case FRAME_ROLLUP: lane_rollup(session, frame); return; /* keeps the reserved memory */
    case FRAME_BLOB: blobs_answer(session, frame); break;
    case FRAME_RECLAIM_ACK: s->stats.reclaim_acks++; break;
    case FRAME_DRAIN_REPORT: session_on_drain_report(session, frame); break;
    case FRAME_UNSET:
        s->stats.unset++;
        LOG_WARN(&s->log, "ignored a frame without payload from an operator",
                 log_str("cluster", session->cluster->id));
        break;
    }
}

static void session_on_message(void *, struct rpc_call *call, const ProtobufCMessage *,
                               struct str bytes)
{
    struct session *session = rpc_call_data(call);
    struct note note = {""};
    struct operator_frame frame;

    if (!session || session->over) return;
    if (frame_read(bytes, &frame, &note)) {
        note_prefix(&note, "unreadable frame");
        session_refuse(session, GRPC_INVALID_ARGUMENT, note.text);
        return;
    }
    on_frame(session, &frame);
    if (!session->over && session->lane.reserved > 0) lane_release(session);
}

/* -- the stream -- */

static void on_hello_timeout(struct timer *timer)
{
    struct session *session = CONTAINER_OF(timer, struct session, timer);

    session_refuse(session, GRPC_DEADLINE_EXCEEDED, "no hello");
}

static struct session *session_new(struct sessions *s, struct rpc_call *call)
{
    struct session *session = calloc(1, sizeof *session);

    if (!session) return NULL;
    if (timer_init(&session->timer, s->io->loop, on_hello_timeout)) {
        free(session);
        return NULL;
    }
    list_init(&session->link);
    list_init(&session->blobs);
    session->sessions = s;
    session->call = call;
    outbox_init(&session->outbox,
                (struct outbox_limits){s->limits.outbox_frames_max, s->limits.outbox_bytes_max},
                &s->outboxes, s->seed);
    lane_init(&session->lane);
    list_append(&s->all, &session->link);
    s->stats.streams++;
    return session;
}

static void on_start(void *service, struct rpc_call *call)
{
    struct sessions *s = service;
    struct session *session = NULL;

    if (s->draining) {
        rpc_finish(call, GRPC_UNAVAILABLE, STR("the shard is stopping"), STR_EMPTY);
        /* A cluster that reconnects has two streams. */
    } else if (s->stats.streams / 2 >= s->limits.sessions_max) {
        rpc_finish(call, GRPC_RESOURCE_EXHAUSTED, STR("too many sessions"), STR_EMPTY);
    } else {
        session = session_new(s, call);
        if (!session) rpc_finish(call, GRPC_UNAVAILABLE, STR("no memory"), STR_EMPTY);
    }
    rpc_call_set_data(call, session);
    if (!session) return;
    rpc_call_set_waiting(call);
    timer_start_in(&session->timer, s->limits.hello_timeout_ms);
}

static void on_announced(void *, struct rpc_call *call, size_t bytes)
{
    struct session *session = rpc_call_data(call);

    if (session && !session->over) lane_announced(session, bytes);
}

static void on_half_closed(void *, struct rpc_call *call)
{
    struct session *session = rpc_call_data(call);

    if (!session) return;
    if (session->cluster)
        session_end(session, GRPC_OK, "");
    else
        session_refuse(session, GRPC_INVALID_ARGUMENT, "the first frame must be hello");
}

static void session_on_writable(void *, struct rpc_call *call)
{
    struct session *session = rpc_call_data(call);

    if (session) session_pump(session);
}

static void session_on_drain(void *, struct rpc_call *call)
{
    struct session *session = rpc_call_data(call);

    if (session) session_end(session, GRPC_UNAVAILABLE, "the shard is stopping");
}

static void on_done(void *, struct rpc_call *call)
{
    struct session *session = rpc_call_data(call);

    if (!session) return;
    session->call = NULL;
    session_over(session);
    list_remove(&session->link);
    list_append(&session->sessions->ended, &session->link);
    loop_defer(session->sessions->io->loop, &session->sessions->free_ended);
}

const struct rpc_handler session_handler = {
    .on_start = on_start,
    .on_message = session_on_message,
    .on_announced = on_announced,
    .on_half_closed = on_half_closed,
    .on_writable = session_on_writable,
    .on_drain = session_on_drain,
    .on_done = on_done,
};
