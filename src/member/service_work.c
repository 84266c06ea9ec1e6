/* SPDX-License-Identifier: Apache-2.0 */
/* Work items: stored in the replicated queue, assigned to workers. */
#include "member/blake3.h"
#include "member/service_internal.h"

enum { WAIT_MAX_MS = 30000, ITEMS_BYTES = 1 << 20, PULLERS_AT_ONCE = 64 };

/* -- encoding of items -- */

static bool digest_of(ProtobufCBinaryData bytes, struct member_digest *ret_digest)
{
    if (bytes.len != sizeof ret_digest->b) return false;
    memcpy(ret_digest->b, bytes.data, sizeof ret_digest->b);
    return true;
}

/* Appends the items that operation `op` assigned, as field 1 of the answer. Returns how many. */
static uint32_t pack_items(struct member_service *service, struct pack *answer,
                           const struct member_reply *reply, uint32_t op)
{
    struct member_digest id;
    struct member_item item;
    uint32_t packed = 0;

    for (uint32_t i = 0; member_reply_item(reply, op, i, &id); i++) {
        struct pack row;

        if (!member_find_item(membership_of(service), &id, &item)) continue;
        row = pack_begin(&service->row);
        pack_bytes(&row, 1, str_of(id.b, sizeof id.b));
        pack_text(&row, 2, item.payload);
        pack_row(answer, 1, &row);
        packed++;
    }
    return packed;
}

static void refuse_many(struct leader_request *request)
{
    request_refuse(request, GRPC_INVALID_ARGUMENT,
                   "%s: 1 to %d items, known by 32 bytes each, of %d bytes in all at most",
                   request->method->name, MEMBER_REQUEST_OPS_MAX, REPLICA_COMMAND_MAX / 2);
}

/* -- Enqueue -- */

static void reply_enqueued(struct leader_request *request, const struct member_reply *reply,
                           uint32_t first, uint32_t count)
{
    static const uint32_t states[] = {[MEMBER_ITEM_PENDING] = MUSTER__V1__WORK_STATE__WORK_PENDING,
                                      [MEMBER_ITEM_RUNNING] = MUSTER__V1__WORK_STATE__WORK_RUNNING,
                                      [MEMBER_ITEM_DONE] = MUSTER__V1__WORK_STATE__WORK_DONE,
                                      [MEMBER_ITEM_FAILED] = MUSTER__V1__WORK_STATE__WORK_FAILED};
    const Muster__V1__EnqueueRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer);

    for (uint32_t i = 0; i < count; i++) {
        struct member_result result = member_reply_result(reply, first + i);
        struct pack row = pack_begin(&service->row);
        struct member_digest id;
        struct member_item item;

        blake3(bytes_str(m->payloads[i]), id.b);
        if (!member_find_item(membership_of(service), &id, &item)) {
            member_refuse(request, result.status);
            return;
        }
        pack_bytes(&row, 1, str_of(id.b, sizeof id.b));
        pack_u64(&row, 2, states[item.state]);
        pack_text(&row, item.state == MEMBER_ITEM_FAILED ? 4 : 3, item.result);
        pack_row(&answer, 1, &row);
    }
    request_reply_packed(request, &answer);
}

static void enqueue_begin(struct leader_request *request)
{
    const Muster__V1__EnqueueRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct member_op op = {.kind = MEMBER_OP_ENQUEUE, .wall_ms = wall_ms(service)};
    size_t bytes = 0;

    for (size_t i = 0; i < m->n_payloads; i++) {
        bytes += m->payloads[i].len;
        if (m->payloads[i].len > MEMBER_PAYLOAD_MAX) bytes = SIZE_MAX / 2;
    }
    if (!request_room_for(request, m->n_payloads, bytes)) {
        refuse_many(request);
        return;
    }
    for (size_t i = 0; i < m->n_payloads; i++) {
        op.bytes = bytes_str(m->payloads[i]);
        blake3(op.bytes, op.item.b);
        batch_op(service, &op);
    }
    request_put_many(request, m->n_payloads);
}

/* -- Pull -- */

static void on_pull_time_up(struct timer *timer)
{
    struct member_request *mine = CONTAINER_OF(timer, struct member_request, timer);

    mine->pulls = false;
    request_reply(&mine->base, STR_EMPTY);
}

/* Without an item in the queue, a Pull waits until an item arrives or the Pull times out. */
static void keep_pulling(struct leader_request *request)
{
    struct member_request *mine = member_request_of(request);
    struct member_service *service = member_of(request);

    if (mono_due(mine->until, loop_now(service->io->loop)) ||
        timer_init(&mine->timer, service->io->loop, on_pull_time_up)) {
        request_reply(request, STR_EMPTY);
        return;
    }
    timer_start(&mine->timer, mine->until);
    mine->pulls = true;
    rpc_call_set_waiting(request->call);
    request_keep(request, &service->pullers);
}

static void reply_pulled(struct leader_request *request, const struct member_reply *reply,
                         uint32_t first, uint32_t)
{
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct member_result result;

    if (!request_result(request, reply, first, &result)) return;
    if (pack_items(service, &answer, reply, first))
        request_reply_packed(request, &answer);
    else
        keep_pulling(request);
}

static void service_work_pull(struct leader_request *request)
{
    const Muster__V1__PullRequest *m = (const void *)request->message;

    request_put(request, &(struct member_op){
                             .kind = MEMBER_OP_PULL,
                             .worker = request_worker(request),
                             .incarnation = m->incarnation,
                             .number = min_u64(m->max_items ? m->max_items : 1, MEMBER_PULL_MAX),
                             .limit = min_u64(m->max_bytes ? m->max_bytes : ITEMS_BYTES,
                                              MEMBER_ANSWER_MAX / 2),
                             .wall_ms = wall_ms(member_of(request)),
                         });
}

static void pull_begin(struct leader_request *request)
{
    const Muster__V1__PullRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);

    member_request_of(request)->until =
        mono_after(loop_now(service->io->loop), min_u64(m->wait_ms, WAIT_MAX_MS));
    service_work_pull(request);
}

void pulls_again(struct member_service *service)
{
    uint64_t pending = member_counts(membership_of(service)).pending;

    for (uint32_t i = 0; i < min_u64(pending, PULLERS_AT_ONCE); i++) {
        struct list *node = list_pop(&service->pullers);
        struct member_request *mine;

        if (!node) return;
        mine = CONTAINER_OF(node, struct member_request, base.link);
        mine->pulls = false;
        timer_deinit(&mine->timer);
        service_work_pull(&mine->base);
    }
}

void pulls_end(struct member_service *service)
{
    struct list *node;

    while ((node = list_pop(&service->pullers))) {
        struct member_request *mine = CONTAINER_OF(node, struct member_request, base.link);

        mine->pulls = false;
        request_refuse(&mine->base, GRPC_UNAVAILABLE, "Pull: leadership is changing");
    }
}

/* -- Start, Submit, GiveBack: many items of one worker -- */

typedef Muster__V1__StartRequest items_message; /* GiveBack's message has the same layout */
static_assert(offsetof(Muster__V1__StartRequest, ids) ==
                      offsetof(Muster__V1__GiveBackRequest, ids) &&
                  offsetof(Muster__V1__StartRequest, incarnation) ==
                      offsetof(Muster__V1__GiveBackRequest, incarnation),
              "Start and GiveBack ask alike");

static ProtobufCBinaryData item_id(const struct leader_request *request, uint32_t place)
{
    if (member_method_of(request)->items == MEMBER_OP_SUBMIT)
        return ((const Muster__V1__SubmitRequest *)(const void *)request->message)
            ->results[place]
            ->id;
    return ((const items_message *)(const void *)request->message)->ids[place];
}

static void reply_items(struct leader_request *request, const struct member_reply *reply,
                        uint32_t first, uint32_t count)
{
    struct pack answer = pack_begin(&member_of(request)->answer);

    for (uint32_t i = 0; i < count; i++) {
        struct member_result result = member_reply_result(reply, first + i);

        if (result.status == MEMBER_S_UNKNOWN || result.status == MEMBER_S_STALE) {
            member_refuse(request, result.status);
            return;
        }
        if (member_grpc(result.status) != GRPC_OK)
            pack_bytes(&answer, 1, bytes_str(item_id(request, i)));
    }
    request_reply_packed(request, &answer);
}

static void items_begin(struct leader_request *request)
{
    const items_message *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct member_op op = {.kind = member_method_of(request)->items,
                           .worker = request_worker(request),
                           .incarnation = m->incarnation,
                           .wall_ms = wall_ms(service)};

    if (!request_room_for(request, m->n_ids, m->n_ids * op.worker.len)) {
        refuse_many(request);
        return;
    }
    for (size_t i = 0; i < m->n_ids; i++) {
        if (!digest_of(m->ids[i], &op.item)) memset(&op.item, 0, sizeof op.item);
        batch_op(service, &op);
    }
    request_put_many(request, m->n_ids);
}

static void submit_begin(struct leader_request *request)
{
    const Muster__V1__SubmitRequest *m = (const void *)request->message;
    struct member_service *service = member_of(request);
    struct member_op op = {.kind = MEMBER_OP_SUBMIT,
                           .worker = request_worker(request),
                           .incarnation = m->incarnation,
                           .wall_ms = wall_ms(service)};
    size_t bytes = 0;

    for (size_t i = 0; i < m->n_results; i++)
        bytes += op.worker.len + m->results[i]->result_id.len + MEMBER_REASON_MAX;
    if (!request_room_for(request, m->n_results, bytes)) {
        refuse_many(request);
        return;
    }
    for (size_t i = 0; i < m->n_results; i++) {
        const Muster__V1__WorkResult *one = m->results[i];

        if (!digest_of(one->id, &op.item)) memset(&op.item, 0, sizeof op.item);
        op.bytes = bytes_str(one->result_id);
        op.flag = one->failed[0] != '\0';
        op.text = str_from(one->failed);
        op.text.len = min_size(op.text.len, MEMBER_REASON_MAX);
        batch_op(service, &op);
    }
    request_put_many(request, m->n_results);
}

/* -- Steal -- */

static void reply_stolen(struct leader_request *request, const struct member_reply *reply,
                         uint32_t first, uint32_t)
{
    struct member_service *service = member_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct member_result result;

    if (!request_result(request, reply, first, &result)) return;
    (void)pack_items(service, &answer, reply, first);
    request_reply_packed(request, &answer);
}

static void steal_begin(struct leader_request *request)
{
    const Muster__V1__StealRequest *m = (const void *)request->message;

    request_put(request, &(struct member_op){.kind = MEMBER_OP_STEAL,
                                             .worker = request_worker(request),
                                             .incarnation = m->incarnation,
                                             .wall_ms = wall_ms(member_of(request))});
}

const struct member_method member_work_methods[] = {
    MEMBER_METHOD("Enqueue", enqueue, 0, .begin = enqueue_begin, .answer = reply_enqueued,
                  .tools = true),
    MEMBER_METHOD("Pull", pull, 0, .begin = pull_begin, .answer = reply_pulled, .of_worker = true),
    MEMBER_METHOD("Start", start, 0, .begin = items_begin, .answer = reply_items, .of_worker = true,
                  .items = MEMBER_OP_WORK_START),
    MEMBER_METHOD("Submit", submit, 0, .begin = submit_begin, .answer = reply_items,
                  .of_worker = true, .items = MEMBER_OP_SUBMIT),
    MEMBER_METHOD("Steal", steal, 0, .begin = steal_begin, .answer = reply_stolen,
                  .of_worker = true),
    MEMBER_METHOD("GiveBack", give_back, 0, .begin = items_begin, .answer = reply_items,
                  .of_worker = true, .items = MEMBER_OP_RELEASE),
    {.base = {.path = NULL}},
};
