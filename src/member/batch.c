/* SPDX-License-Identifier: Apache-2.0 */
/* Collects operations of many callers into one entry of the log. Loop's thread.
 *
 * A batch is proposed in one of three cases:
 * - it is full
 * - GATHER_MS have passed since its first operation
 * - the turn ends, and no earlier batch is pending */
#include <stdlib.h>

#include "member/service_internal.h"

enum {
    GATHER_MS = 10,
    OP_BYTES = 512,                     /* of an operation without its texts */
    ROOM = REPLICA_COMMAND_MAX / 4 * 3, /* one quarter is reserved for operations of the core */
};

struct batch {
    struct list link; /* in service.batches after the batch was proposed */
    struct member_service *service;
    struct proposal proposal;
    struct buf bytes;
    uint32_t ops, context; /* `context`: operations that open each batch, never proposed alone */
    bool broken;           /* no memory: the whole batch will be dropped */
    struct list waits;
};

static void batch_free(struct batch *batch)
{
    list_remove(&batch->link);
    buf_deinit(&batch->bytes);
    free(batch);
}

static void batch_finish(struct batch *batch, enum err err, const struct member_reply *reply)
{
    struct list *node;

    while ((node = list_pop(&batch->waits))) {
        struct operation_wait *wait = CONTAINER_OF(node, struct operation_wait, link);

        wait->done(wait, err, reply);
    }
}

static void on_proposed(struct proposal *proposal, enum err err, struct str bytes)
{
    struct batch *batch = CONTAINER_OF(proposal, struct batch, proposal);
    struct member_service *service = batch->service;
    struct member_reply reply;

    service->batches_running--;
    service->refused = err != ERR_OK;
    /* The reply is unreadable only without memory, after the entry was applied. */
    if (!err && (member_reply_parse(bytes, &reply) || reply.ops != batch->ops)) err = ERR_UNKNOWN;
    if (err && err != ERR_NOT_LEADER)
        LOG_DEBUG(&service->log, "an entry of the worker tables was not committed: retrying",
                  log_err("err", err));
    batch_finish(batch, err, err ? NULL : &reply);
    batch_free(batch);
    if (service->batch) loop_defer(service->io->loop, &service->batch_task);
}

static void drop(struct member_service *service, enum err err)
{
    struct batch *batch = service->batch;

    timer_stop(&service->batch_due);
    if (!batch) return;
    service->batch = NULL;
    batch_finish(batch, err, NULL);
    batch_free(batch);
}

void batch_drop(struct member_service *service)
{
    drop(service, ERR_NOT_LEADER);
}

void batch_flush(struct member_service *service)
{
    struct batch *batch = service->batch;

    timer_stop(&service->batch_due);
    if (!batch || batch->broken || batch->ops == batch->context) {
        drop(service, ERR_NOMEM);
        return;
    }
    assert(member_batch_ops(buf_peek(&batch->bytes)) == batch->ops); /* each op gets one result */
    service->batch = NULL;
    service->batches_running++;
    list_append(&service->batches, &batch->link);
    service->metrics.entries++;
    service->metrics.operations += batch->ops;
    batch->proposal = (struct proposal){.machine = MEMBER_MACHINE_ID,
                                        .version = MEMBER_MACHINE_VERSION,
                                        .actor = STR_EMPTY,
                                        .request_id = STR_EMPTY,
                                        .command = buf_peek(&batch->bytes),
                                        .done = on_proposed};
    replica_propose(service->leader.replica, (struct proposal *const[]){&batch->proposal}, 1);
}

void batch_now(struct task *task)
{
    struct member_service *service = CONTAINER_OF(task, struct member_service, batch_task);

    if (service->batches_running == 0) batch_flush(service);
}

void batch_overdue(struct timer *timer)
{
    batch_flush(CONTAINER_OF(timer, struct member_service, batch_due));
}

/* Every batch begins with the suspected workers, whose partitions must not move. */
static struct batch *batch_open(struct member_service *service)
{
    struct batch *batch = calloc(1, sizeof *batch);

    if (!batch) return NULL;
    batch->service = service;
    list_init(&batch->link);
    list_init(&batch->waits);
    buf_init(&batch->bytes, REPLICA_COMMAND_MAX);
    if (member_batch_begin(&batch->bytes, wall_ms(service)) ||
        member_local_context(service->local, &batch->bytes)) {
        batch_free(batch);
        return NULL;
    }
    batch->ops = batch->context = (uint32_t)member_batch_ops(buf_peek(&batch->bytes));
    service->batch = batch;
    timer_start_in(&service->batch_due, GATHER_MS);
    loop_defer(service->io->loop, &service->batch_task);
    return batch;
}

bool batch_room(struct member_service *service, size_t ops, size_t bytes)
{
    struct batch *batch = service->batch;

    bytes += ops * OP_BYTES;
    if (!service->local || ops > MEMBER_OPS_MAX / 2 || bytes > ROOM) return false;
    if (batch && (batch->ops + ops > MEMBER_OPS_MAX || batch->bytes.len + bytes > ROOM))
        batch_flush(service);
    return service->batch || batch_open(service);
}

void batch_op(struct member_service *service, const struct member_op *op)
{
    struct batch *batch = service->batch;

    if (member_batch_add(&batch->bytes, op)) batch->broken = true;
    batch->ops++;
}

void batch_wait(struct member_service *service, struct operation_wait *wait, wait_fn *done,
                uint32_t count)
{
    struct batch *batch = service->batch;

    wait->done = done;
    wait->count = count;
    wait->first = batch->ops - count;
    list_init(&wait->link);
    list_append(&batch->waits, &wait->link);
}

bool batch_one(struct member_service *service, const struct member_op *op,
               struct operation_wait *wait, wait_fn *done)
{
    if (!batch_room(service, 1, op->worker.len + op->labels.len + op->text.len + op->bytes.len))
        return false;
    batch_op(service, op);
    if (wait) batch_wait(service, wait, done, 1);
    return true;
}

struct buf *batch_bytes(struct member_service *service)
{
    if (!service->batch && !batch_open(service)) return NULL;
    return &service->batch->bytes;
}

void batch_added(struct member_service *service, size_t ops)
{
    service->batch->ops += (uint32_t)ops;
}
