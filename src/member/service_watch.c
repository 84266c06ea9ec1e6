/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of changes: each worker's assignment, and a notification that anything changed. */
#include <stdlib.h>

#include "member/service_internal.h"

/* -- encoding an assignment -- */

static void pack_grant(struct member_service *service, struct pack *answer,
                       const struct member_partition *partition)
{
    struct pack row = pack_begin(&service->row);
    bool revoking = partition->state == MEMBER_REVOKING;
    uint64_t clock = clock_guess(service);

    pack_u64(&row, 1, partition->number);
    pack_u64(&row, 2, partition->grant_epoch);
    if (!revoking)
        pack_text(&row, 3, partition->checkpoint);
    else if (partition->deadline_ns > clock)
        pack_u64(&row, 3, (partition->deadline_ns - clock) / NS_PER_MS);
    pack_row(answer, revoking ? 5 : 4, &row);
}

static void pack_grants(struct member_service *service, struct pack *answer,
                        const struct member_worker *worker)
{
    uint32_t *numbers = calloc(worker->partitions + 1u, sizeof *numbers);
    struct member_partition partition;
    size_t count;

    if (!numbers) {
        answer->err = ERR_NOMEM;
        return;
    }
    count = member_grants(membership_of(service), worker->id, numbers, worker->partitions);
    for (size_t i = 0; i < count; i++)
        if (member_find_partition(membership_of(service), numbers[i], &partition))
            pack_grant(service, answer, &partition);
    free(numbers);
}

void pack_assignment(struct member_service *service, struct pack *answer, struct str worker,
                     uint64_t incarnation, uint64_t round)
{
    struct member_status_counts counts = member_counts(membership_of(service));
    struct member_worker known;
    bool is_known = member_find_worker(membership_of(service), worker, &known);
    bool reset = incarnation &&
                 (!is_known || known.standing != MEMBER_ACTIVE || known.incarnation != incarnation);

    pack_u64(answer, 1, counts.assignment_epoch);
    pack_u64(answer, 2, counts.coord_epoch);
    if (is_known) pack_u64(answer, 3, known.incarnation);
    if (is_known && !reset) pack_grants(service, answer, &known);
    if (is_known && !reset) pack_u64(answer, 6, round);
    pack_u64(answer, 7, reset);
    pack_u64(answer, 8, counts.total_partitions);
}

/* -- watches of an assignment -- */

struct watch {
    struct call_stream stream;
    uint64_t incarnation;
    uint64_t round; /* checkpoint round that the worker must still answer; 0: none */
    bool full;      /* the stream is full; the assignment is sent when there is room */
    size_t len;     /* of the worker's id, which follows the struct (map_make) */
};

static struct str service_watch_worker_of(const struct watch *watch)
{
    return str_of(watch + 1, watch->len);
}

static void watch_over(struct call_stream *stream)
{
    struct watch *watch = CONTAINER_OF(stream, struct watch, stream);

    map_remove(&stream->service->watches, service_watch_worker_of(watch));
    free(watch);
}

static void watch_send(struct watch *watch)
{
    struct member_service *service = watch->stream.service;
    struct pack answer = pack_begin(&service->answer);
    enum err err;

    pack_assignment(service, &answer, service_watch_worker_of(watch), watch->incarnation,
                    watch->round);
    err = answer.err ? answer.err : rpc_send_bytes(watch->stream.call, buf_peek(&service->answer));
    watch->full = err == ERR_FULL;
    if (err && err != ERR_FULL && err != ERR_CLOSED)
        call_stream_end(&watch->stream, GRPC_UNAVAILABLE, "no memory; ask again");
}

void watch_changed(struct member_service *service, struct str worker)
{
    struct watch *watch = map_get(&service->watches, worker);

    if (watch && !watch->full) watch_send(watch);
}

bool watch_ask(struct member_service *service, struct str worker, uint64_t round)
{
    struct watch *watch = map_get(&service->watches, worker);

    if (!watch) return false;
    watch->round = round;
    if (round && !watch->full) watch_send(watch);
    return true;
}

static void watch_begin(struct member_service *service, struct rpc_call *call, struct str worker,
                        const Muster__V1__AssignmentRequest *m)
{
    struct watch *watch = map_get(&service->watches, worker);

    if (watch) call_stream_end(&watch->stream, GRPC_OK, CALL_STREAM_REPLACED);
    watch = map_make(&service->watches, worker, sizeof *watch);
    if (!watch) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    watch->incarnation = m->incarnation;
    watch->len = worker.len;
    call_stream_begin(&watch->stream, service, call, watch_over);
    if (m->known_epoch == 0 ||
        m->known_epoch != member_counts(membership_of(service)).assignment_epoch)
        watch_send(watch);
}

/* false: the call is answered */
static bool stream_may(struct member_service *service, struct rpc_call *call, const char *text,
                       char room[MEMBER_ID_MAX], struct str *ret_worker)
{
    struct note note;

    rpc_call_set_data(call, NULL);
    *ret_worker = worker_name(text, room);
    if (ret_worker->len == 0)
        rpc_finish(call, GRPC_INVALID_ARGUMENT,
                   STR("worker_id: a ULID, or 1 to 128 bytes of visible ASCII"), STR_EMPTY);
    else if (!speaks_for(service, call, *ret_worker, &note))
        rpc_finish(call, GRPC_PERMISSION_DENIED, str_from(note.text), STR_EMPTY);
    else if (!service->serving)
        rpc_finish(call, GRPC_UNAVAILABLE, STR("no leader is ready"), STR_EMPTY);
    else
        return true;
    return false;
}

static void on_watch(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                     struct str)
{
    struct member_service *service = owner;
    const Muster__V1__AssignmentRequest *m = (const void *)message;
    char room[MEMBER_ID_MAX];
    struct str worker;

    if (stream_may(service, call, m->worker_id, room, &worker))
        watch_begin(service, call, worker, m);
}

static void on_watch_writable(void *, struct rpc_call *call)
{
    struct watch *watch = rpc_call_data(call); /* the stream is the struct's first member */

    if (watch && watch->full) watch_send(watch);
}

const struct rpc_handler member_watch_handler = {.on_message = on_watch,
                                                 .on_writable = on_watch_writable,
                                                 .on_drain = call_stream_drained,
                                                 .on_done = call_stream_done};

/* -- WatchChanges: reports that a change happened, without its content -- */

enum { LOOK_MS = 200, LOOK_LEAST_MS = 50 };

struct looker {
    struct call_stream stream;
    struct list link;
    struct timer timer;
    uint64_t interval_ms, seen;
    bool full;
};

static void looker_over(struct call_stream *stream)
{
    struct looker *looker = CONTAINER_OF(stream, struct looker, stream);

    list_remove(&looker->link);
    timer_deinit(&looker->timer);
    free(looker);
}

static void look(struct looker *looker)
{
    struct member_service *service = looker->stream.service;
    struct pack answer;

    if (looker->full || timer_running(&looker->timer) || looker->seen == service->changes) return;
    answer = pack_begin(&service->answer);
    pack_u64(&answer, 1, service->changes);
    pack_u64(&answer, 2, member_counts(membership_of(service)).assignment_epoch);
    looker->seen = service->changes;
    looker->full = rpc_send_bytes(looker->stream.call, buf_peek(&service->answer)) == ERR_FULL;
    timer_start_in(&looker->timer, looker->interval_ms);
}

static void on_look_again(struct timer *timer)
{
    look(CONTAINER_OF(timer, struct looker, timer));
}

void lookers_notify(struct member_service *service)
{
    LIST_EACH_SAFE(&service->lookers, node, next)
    look(CONTAINER_OF(node, struct looker, link));
}

static void on_look(void *owner, struct rpc_call *call, const ProtobufCMessage *message, struct str)
{
    struct member_service *service = owner;
    const Muster__V1__WatchChangesRequest *m = (const void *)message;
    struct looker *looker = service->serving ? calloc(1, sizeof *looker) : NULL;

    rpc_call_set_data(call, NULL);
    if (!looker || timer_init(&looker->timer, service->io->loop, on_look_again)) {
        free(looker);
        rpc_finish(call, GRPC_UNAVAILABLE, STR("no leader is ready"), STR_EMPTY);
        return;
    }
    looker->interval_ms = max_u64(m->interval_ms ? m->interval_ms : LOOK_MS, LOOK_LEAST_MS);
    looker->seen = service->changes - 1;
    list_init(&looker->link);
    list_append(&service->lookers, &looker->link);
    call_stream_begin(&looker->stream, service, call, looker_over);
    look(looker);
}

static void on_look_writable(void *, struct rpc_call *call)
{
    struct looker *looker = rpc_call_data(call); /* the stream is the struct's first member */

    if (!looker) return;
    looker->full = false;
    look(looker);
}

const struct rpc_handler member_look_handler = {.on_message = on_look,
                                                .on_writable = on_look_writable,
                                                .on_drain = call_stream_drained,
                                                .on_done = call_stream_done};
