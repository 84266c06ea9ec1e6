/* Renewals: those of a few milliseconds are one entry of the log.
 *
 * A batch goes when it is full, when 10 ms have passed since its first id, or at the end of the
 * turn while no other is on its way: a lone renewal waits for nothing, and under load an entry
 * carries as many as come while the last one is written. */
#include <stdlib.h>

#include "store/service_internal.h"

enum { GATHER_MS = 10 };

static void reply_renewals(struct request *request, const struct store_renewal *renewals,
                           size_t count)
{
    struct store_service *service = request->service;
    struct pack pack = {&service->answer, ERR_OK};

    buf_clear(&service->answer);
    for (size_t i = 0; i < count; i++) {
        struct pack row = {&service->row, ERR_OK};

        buf_clear(&service->row);
        pack_i64(&row, 1, renewals[i].code);
        pack_i64(&row, 2, renewals[i].reason);
        pack_i64(&row, 3, renewals[i].granted_ttl_ms);
        pack_u64(&row, 4, renewals[i].token);
        pack_bytes(&pack, 1, buf_peek(&service->row));
        if (row.err) pack.err = row.err;
    }
    store_reply_packed(request, &pack);
}

static void on_renewed(struct proposal *proposal, enum err err, struct str reply)
{
    struct renew_batch *batch = CONTAINER_OF(proposal, struct renew_batch, proposal);
    struct store_service *service = batch->service;
    struct store_renewal *renewals = NULL;
    struct list *node;

    service->batches_running--;
    if (!err) renewals = calloc(batch->count, sizeof *renewals);
    if (!err && (!renewals || store_renewals_parse(reply, renewals, batch->count) != batch->count))
        err = ERR_UNKNOWN;
    store_count(service->metrics.renewals, err ? 0 : batch->count);
    while ((node = list_pop(&batch->requests))) {
        struct request *request = CONTAINER_OF(node, struct request, link);

        if (!request->call)
            store_request_free(request);
        else if (err)
            store_log_failed(request, err);
        else
            reply_renewals(request, renewals + request->batch_at,
                           ((const Muster__V1__RenewRequest *)request->message)->n_lease_ids);
    }
    free(renewals);
    free(batch);
    if (service->batch) loop_defer(service->io->loop, &service->batch_now);
}

static void flush(struct store_service *service)
{
    struct renew_batch *batch = service->batch;
    struct store_command command = {.kind = STORE_RENEW, .prefer_slot = STORE_NO_SLOT};

    if (!batch) return;
    service->batch = NULL;
    timer_stop(&service->batch_due);
    command.renew = batch->ids;
    command.renew_count = batch->count;
    buf_clear(&service->command);
    service->batches_running++;
    store_count(service->metrics.renew_batches, 1);
    batch->proposal = (struct proposal){.machine = STORE_MACHINE_ID,
                                        .version = STORE_MACHINE_VERSION,
                                        .actor = STR_EMPTY,
                                        .request_id = STR_EMPTY,
                                        .done = on_renewed};
    if (store_command_write(&command, &service->command)) {
        on_renewed(&batch->proposal, ERR_NOMEM, STR_EMPTY);
        return;
    }
    batch->proposal.command = buf_peek(&service->command);
    replica_propose(service->replica, (struct proposal *const[]){&batch->proposal}, 1);
}

void renew_overdue(struct timer *timer)
{
    flush(CONTAINER_OF(timer, struct store_service, batch_due));
}

void renew_now(struct task *task)
{
    struct store_service *service = CONTAINER_OF(task, struct store_service, batch_now);

    if (service->batches_running == 0) flush(service);
}

/* NULL: no memory. Has room for `count` more ids. */
static struct renew_batch *batch_with_room(struct store_service *service, size_t count)
{
    if (service->batch && service->batch->count + count > STORE_RENEW_MAX) flush(service);
    if (service->batch) return service->batch;
    service->batch = calloc(1, sizeof *service->batch);
    if (!service->batch) return NULL;
    service->batch->service = service;
    list_init(&service->batch->requests);
    timer_start_in(&service->batch_due, GATHER_MS);
    loop_defer(service->io->loop, &service->batch_now);
    return service->batch;
}

void renew_add(struct store_service *service, const struct store_id *id)
{
    struct renew_batch *batch = batch_with_room(service, 1);

    if (batch) batch->ids[batch->count++] = *id;
}

void renew_begin(struct request *request)
{
    struct store_service *service = request->service;
    const Muster__V1__RenewRequest *m = (const Muster__V1__RenewRequest *)request->message;
    struct renew_batch *batch;

    if (m->n_lease_ids == 0) {
        store_reply(request, STR_EMPTY);
        return;
    }
    batch = batch_with_room(service, m->n_lease_ids);
    if (!batch) {
        store_refuse(request, GRPC_RESOURCE_EXHAUSTED, "Renew: out of memory");
        return;
    }
    request->step = REQUEST_RENEWS;
    request->batch_at = batch->count;
    for (size_t i = 0; i < m->n_lease_ids; i++)
        memcpy(batch->ids[batch->count++].b, m->lease_ids[i].data, sizeof batch->ids[0].b);
    list_remove(&request->link);
    list_append(&batch->requests, &request->link);
    if (list_empty(&service->requests)) timer_stop(&service->overdue);
}
