/* SPDX-License-Identifier: Apache-2.0 */
/* Renewals: those of a few milliseconds are one entry of the log.
 *
 * A batch goes when it is full, when 10 ms have passed since its first id, or at the end of the
 * turn while no other is on its way: a lone renewal waits for nothing, and under load an entry
 * carries as many as come while the last one is written. */
#include <stdlib.h>

#include "store/service_internal.h"

enum { GATHER_MS = 10 };

static void reply_renewals(struct leader_request *request, const struct store_renewal *renewals,
                           size_t count)
{
    struct store_service *service = service_of(request);
    struct pack pack = pack_begin(&service->answer);

    for (size_t i = 0; i < count; i++) {
        struct pack row = pack_begin(&service->row);

        pack_i64(&row, 1, renewals[i].code);
        pack_i64(&row, 2, renewals[i].reason);
        pack_i64(&row, 3, renewals[i].granted_ttl_ms);
        pack_u64(&row, 4, renewals[i].token);
        pack_row(&pack, 1, &row);
    }
    request_reply_packed(request, &pack);
}

static void tell_askers(struct renew_batch *batch, enum err err,
                        const struct store_renewal *renewals)
{
    struct list *node;

    while ((node = list_pop(&batch->askers))) {
        struct renew_asker *asker = CONTAINER_OF(node, struct renew_asker, link);

        asker->done(asker, err, err ? NULL : &renewals[asker->at]);
    }
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
    tell_askers(batch, err, renewals);
    while ((node = list_pop(&batch->requests))) {
        struct leader_request *request = CONTAINER_OF(node, struct leader_request, link);

        if (!request->call)
            request_free(request);
        else if (err)
            request_log_failed(request, err);
        else
            reply_renewals(request, renewals + store_request_of(request)->batch_at,
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
    if (batch->has_tokens && store_checks_tokens(service)) command.renew_tokens = batch->tokens;
    buf_clear(&service->command);
    service->batches_running++;
    store_count(service->metrics.renew_batches, 1);
    if (store_command_write(&command, &service->command)) {
        on_renewed(&batch->proposal, ERR_NOMEM, STR_EMPTY);
        return;
    }
    batch->proposal = store_proposal(service, STORE_RENEW, on_renewed);
    batch->proposal.version = store_command_version(&command);
    replica_propose(service->leader.replica, (struct proposal *const[]){&batch->proposal}, 1);
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
    list_init(&service->batch->askers);
    timer_start_in(&service->batch_due, GATHER_MS);
    loop_defer(service->io->loop, &service->batch_now);
    return service->batch;
}

void renew_add(struct store_service *service, const struct store_id *id)
{
    struct renew_batch *batch = batch_with_room(service, 1);

    if (batch) batch->ids[batch->count++] = *id;
}

bool renew_one(struct store_service *service, const struct store_id *id, struct renew_asker *asker)
{
    struct renew_batch *batch = batch_with_room(service, 1);

    if (!batch) return false;
    list_init(&asker->link);
    list_append(&batch->askers, &asker->link);
    asker->at = batch->count;
    batch->ids[batch->count++] = *id;
    return true;
}

void renew_drop(struct renew_batch *batch)
{
    struct list *node;

    if (!batch) return;
    tell_askers(batch, ERR_NOT_LEADER, NULL);
    while ((node = list_pop(&batch->requests)))
        request_free(CONTAINER_OF(node, struct leader_request, link));
    free(batch);
}

void renew_begin(struct leader_request *request)
{
    struct store_service *service = service_of(request);
    const Muster__V1__RenewRequest *m = (const Muster__V1__RenewRequest *)request->message;
    struct store_request *mine = store_request_of(request);
    struct renew_batch *batch;

    if (m->n_lease_ids == 0) {
        request_reply(request, STR_EMPTY);
        return;
    }
    batch = batch_with_room(service, m->n_lease_ids);
    if (!batch) {
        request_refuse(request, GRPC_RESOURCE_EXHAUSTED, "Renew: out of memory");
        return;
    }
    mine->kept = KEPT_RENEWS;
    mine->batch_at = batch->count;
    for (size_t i = 0; i < m->n_lease_ids; i++) {
        if (m->n_tokens) batch->tokens[batch->count] = m->tokens[i];
        memcpy(batch->ids[batch->count++].b, m->lease_ids[i].data, sizeof batch->ids[0].b);
    }
    batch->has_tokens |= m->n_tokens > 0;
    request_keep(request, &batch->requests);
}
