/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of workers about themselves and their partitions, and calls of operators about workers.
 * Loop's thread, on the leader. */
#include "member/service_internal.h"

/* -- Register -- */

/* Encodes labels as ListWorkers returns them: field 17 of a Worker. */
static enum err pack_labels(struct member_service *service, const Muster__V1__RegisterRequest *m)
{
    struct pack pack = pack_begin(&service->answer);

    for (size_t i = 0; i < m->n_labels; i++) {
        struct pack row = pack_begin(&service->row);

        pack_text(&row, 1, str_from(m->labels[i]->key));
        pack_text(&row, 2, str_from(m->labels[i]->value));
        pack_row(&pack, 17, &row);
    }
    if (!pack.err && service->answer.len > MEMBER_LABELS_MAX) return ERR_TOO_LARGE;
    return pack.err;
}

/* A repeated registration keeps the phase, so that the worker does not count as restarted. */
static enum member_phase phase_now(const struct member_service *service, struct str worker,
                                   bool admitted)
{
    struct member_heartbeat heartbeat;

    if (admitted || !member_local_heartbeat(service->local, worker, &heartbeat)) return MEMBER_INIT;
    return heartbeat.phase;
}

static void pack_registered(const struct member_service *service,
                            const struct member_result *result, const struct member_worker *worker,
                            struct pack *answer)
{
    const struct member_local_options *local = &service->options.local;
    struct member_status_counts counts = member_counts(membership_of(service));
    uint64_t interval = local->detect.heartbeat_interval_ns / NS_PER_MS;
    const uint64_t numbers[] = {/* values of fields 1 to 12 */
                                result->incarnation,
                                counts.assignment_epoch,
                                counts.coord_epoch,
                                max_u64(counts.advised_ms, interval),
                                local->self_fence_ns / NS_PER_MS,
                                local->detect.failure_timeout_ns / NS_PER_MS,
                                local->detect.clock_skew_budget_ns / NS_PER_MS,
                                worker->lease_ms ? worker->lease_ms : 2 * interval,
                                counts.total_partitions,
                                service->options.max_keys_per_partition,
                                (uint64_t)worker->registered_ms,
                                interval};

    for (uint32_t i = 0; i < ARRAY_LEN(numbers); i++) pack_u64(answer, i + 1, numbers[i]);
}

static void reply_registered(struct leader_request *request, const struct member_reply *reply,
                             uint32_t first, uint32_t)
{
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct member_worker worker = {0};
    struct str name = request_worker(request);
    struct member_result result;

    if (!request_result(request, reply, first, &result)) return;
    if (service->local)
        member_local_admitted(service->local, name, phase_now(service, name, result.admitted),
                              now_ns(service));
    (void)member_find_worker(membership_of(service), name, &worker);
    pack_registered(service, &result, &worker, &answer);
    request_reply_packed(request, &answer);
}

static bool registration_is_fine(struct leader_request *request, struct member_op *op)
{
    const Muster__V1__RegisterRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct ulid run;
    struct note note = {""};
    bool has_instance = beat_instance_parse(str_from(m->instance), op->instance.b);

    if (ulid_parse(str_from(m->run_id), &run, &note))
        request_refuse(request, GRPC_INVALID_ARGUMENT, "run_id: %s", note.text);
    else if (ulid_compare(&run, &service->options.run) != 0)
        request_refuse(request, GRPC_FAILED_PRECONDITION, "run_id: %s, and this is run %s",
                       m->run_id, service->run);
    else if (m->instance[0] && !has_instance)
        request_refuse(request, GRPC_INVALID_ARGUMENT, "instance: 32 hex digits");
    else if (m->lease_ms > UINT32_MAX || m->weight > MEMBER_WEIGHT_MAX)
        request_refuse(request, GRPC_INVALID_ARGUMENT, "lease_ms or weight: past a limit");
    else if (pack_labels(service, m))
        request_refuse(request, GRPC_INVALID_ARGUMENT, "labels: at most %d bytes in all",
                       MEMBER_LABELS_MAX);
    else if (epoch_is_fine(request, m->coord_epoch)) {
        op->capable = m->fences_itself && has_instance;
        op->lease_ms = (uint32_t)m->lease_ms;
        op->weight = m->weight;
        op->labels = buf_peek(&service->answer);
        return true;
    }
    return false;
}

static void register_begin(struct leader_request *request)
{
    struct member_service *service = member_of(request);
    struct member_op op = {.kind = MEMBER_OP_REGISTER};
    struct member_in_use in_use;
    struct note why;

    if (!registration_is_fine(request, &op)) return;
    op.worker = request_worker(request);
    if (!member_local_register(service->local, &op, now_ns(service), &in_use)) {
        id_in_use(service, op.worker, &in_use, &why);
        request_refuse(request, GRPC_ALREADY_EXISTS, "%s", why.text);
        return;
    }
    request_put(request, &op);
}

/* -- Leave -- */

static void reply_plain(struct leader_request *request, const struct member_reply *reply,
                        uint32_t first, uint32_t)
{
    struct member_result result;

    if (request_result(request, reply, first, &result)) request_reply(request, STR_EMPTY);
}

static void leave_begin(struct leader_request *request)
{
    const Muster__V1__LeaveRequest *m = (const void *)request->message;
    struct str reason = str_from(m->reason);

    reason.len = min_size(reason.len, MEMBER_REASON_MAX);
    request_put(request, &(struct member_op){.kind = MEMBER_OP_LEAVE,
                                             .worker = request_worker(request),
                                             .incarnation = m->incarnation,
                                             .text = reason});
}

/* -- assignments and released partitions -- */

static void read_assignment(struct leader_request *request)
{
    const Muster__V1__AssignmentRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer);

    pack_assignment(service, &answer, request_worker(request), m->incarnation, 0);
    request_reply_packed(request, &answer);
}

static void reply_revoked(struct leader_request *request, const struct member_reply *reply,
                          uint32_t first, uint32_t count)
{
    const Muster__V1__AckRevokeRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer), row = pack_begin(&service->row);

    for (uint32_t i = 0; i < count; i++) {
        struct member_result result = member_reply_result(reply, first + i);

        if (result.status == MEMBER_S_UNKNOWN || result.status == MEMBER_S_STALE) {
            member_refuse(request, result.status);
            return;
        }
        if (member_grpc(result.status) != GRPC_OK) pack_varint(&row, m->revoked[i]->partition);
    }
    if (service->row.len) pack_row(&answer, 1, &row); /* packed encoding */
    request_reply_packed(request, &answer);
}

static void revoke_begin(struct leader_request *request)
{
    const Muster__V1__AckRevokeRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct member_op op = {.kind = MEMBER_OP_ACK_REVOKE,
                           .worker = request_worker(request),
                           .incarnation = m->incarnation,
                           .wall_ms = wall_ms(service)};

    if (!epoch_is_fine(request, m->coord_epoch)) return;
    if (m->n_revoked == 0) {
        request_reply(request, STR_EMPTY);
        return;
    }
    if (!request_room_for(request, m->n_revoked,
                          m->n_revoked * (op.worker.len + MEMBER_REFERENCE_MAX))) {
        request_refuse(request, GRPC_RESOURCE_EXHAUSTED, "AckRevoke: at most %d partitions a call",
                       MEMBER_REQUEST_OPS_MAX);
        return;
    }
    for (size_t i = 0; i < m->n_revoked; i++) {
        op.partition = m->revoked[i]->partition;
        op.epoch = m->revoked[i]->grant_epoch;
        op.text = str_from(m->revoked[i]->checkpoint);
        batch_op(service, &op);
    }
    request_put_many(request, m->n_revoked);
}

/* -- checkpoints: the leader collects references and writes them to the log later -- */

static void read_checkpoint(struct leader_request *request)
{
    const Muster__V1__AckCheckpointRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer), row = pack_begin(&service->row);
    struct str worker = request_worker(request);
    enum member_status status;

    for (size_t i = 0; i < m->n_checkpoints; i++) {
        const Muster__V1__CheckpointedPartition *one = m->checkpoints[i];

        status =
            member_local_checkpoint(service->local, worker, m->incarnation, one->partition,
                                    one->grant_epoch, str_from(one->checkpoint), wall_ms(service));
        if (member_grpc(status) != GRPC_OK) pack_varint(&row, one->partition);
    }
    status = member_local_checkpoint_done(service->local, worker, m->incarnation, m->round,
                                          m->error[0] != '\0', now_ns(service));
    if (status == MEMBER_S_UNKNOWN || status == MEMBER_S_STALE) {
        member_refuse(request, status);
        return;
    }
    (void)watch_ask(service, worker, 0);
    if (m->error[0])
        LOG_WARN(&service->log, "a worker reported that it could not write a checkpoint",
                 log_str("worker", worker), log_u64("round", m->round),
                 log_text("error", m->error));
    if (service->row.len) pack_row(&answer, 1, &row);
    loop_defer(service->io->loop, &service->after);
    request_reply_packed(request, &answer);
}

/* -- calls of operators -- */

static void drain_begin(struct leader_request *request)
{
    const Muster__V1__DrainWorkerRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    char room[MEMBER_ID_MAX];
    struct str name = worker_name(m->worker_id, room);
    struct member_worker worker;
    struct pack answer = pack_begin(&service->answer);

    if (!member_find_worker(membership_of(service), name, &worker) ||
        worker.standing != MEMBER_ACTIVE) {
        member_refuse(request, MEMBER_S_UNKNOWN);
        return;
    }
    pack_u64(&answer, 1,
             control_push(service, name,
                          &(struct directive){.kind = ORDER_DRAIN, .deadline_ms = m->deadline_ms}));
    request_reply_packed(request, &answer);
}

static void reply_evicted(struct leader_request *request, const struct member_reply *reply,
                          uint32_t first, uint32_t)
{
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct member_result result;

    if (!request_result(request, reply, first, &result)) return;
    pack_u64(&answer, 1, result.incarnation);
    request_reply_packed(request, &answer);
}

static void evict_begin(struct leader_request *request)
{
    const Muster__V1__EvictRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    char room[MEMBER_ID_MAX];
    struct member_op op;

    if (!member_local_evict(service->local, worker_name(m->worker_id, room), now_ns(service), &op))
        member_refuse(request, MEMBER_S_UNKNOWN);
    else
        request_put(request, &op);
}

static void release_begin(struct leader_request *request)
{
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer);

    pack_u64(&answer, 1, member_local_holds(service->local, now_ns(service)));
    member_local_release_hold(service->local);
    request_reply_packed(request, &answer);
}

static void checkpoint_now_begin(struct leader_request *request)
{
    struct member_service *service = member_of(request);
    struct pack answer;

    member_local_checkpoint_now(service->local);
    scan_now(service);
    answer = pack_begin(&service->answer);
    pack_u64(&answer, 1, member_local_counts(service->local).round);
    request_reply_packed(request, &answer);
}

const struct member_method member_worker_methods[] = {
    MEMBER_METHOD("Register", register, 0, .begin = register_begin, .answer = reply_registered,
                  .of_worker = true),
    MEMBER_METHOD("Leave", leave, 0, .begin = leave_begin, .answer = reply_plain,
                  .of_worker = true),
    MEMBER_METHOD("GetAssignment", assignment, 0, .read = read_assignment, .of_worker = true),
    MEMBER_METHOD("AckRevoke", ack_revoke, 0, .begin = revoke_begin, .answer = reply_revoked,
                  .of_worker = true),
    MEMBER_METHOD("AckCheckpoint", ack_checkpoint, 0, .read = read_checkpoint, .of_worker = true),
    MEMBER_METHOD("Drain", drain_worker, 0, .begin = drain_begin, .tools = true),
    MEMBER_METHOD("Evict", evict, 0, .begin = evict_begin, .answer = reply_evicted, .tools = true),
    MEMBER_METHOD("ReleaseHold", release_hold, 0, .begin = release_begin, .tools = true),
    MEMBER_METHOD("CheckpointNow", checkpoint_now, 0, .begin = checkpoint_now_begin, .tools = true),
    {.base = {.path = NULL}},
};
