/* SPDX-License-Identifier: Apache-2.0 */
/* Renewals: the ids of several calls share one entry of the log. Loop's thread.
 *
 * A batch is proposed in one of three cases:
 * - it is full
 * - 10 ms have passed since its first id
 * - the turn ends, and no other batch is in flight */
#include <stdlib.h>

#include "store/service_internal.h"

enum { GATHER_MS = 10 };
struct renew_batch {
    struct store_service *service;
    struct proposal proposal;
    struct list askers; /* in order of arrival */
    uint32_t count;
    bool has_tokens;
    struct store_id ids[STORE_RENEW_MAX];
    uint64_t tokens[STORE_RENEW_MAX]; /* by index in `ids`; 0: the client gave no token */
};

/* `renewals` is NULL if `err` is set. Frees the batch. */
static void batch_finish(struct renew_batch *own_batch, enum err err,
                         const struct store_renewal *renewals)
{
    struct list *node;

    while ((node = list_pop(&own_batch->askers))) {
        struct renew_asker *asker = CONTAINER_OF(node, struct renew_asker, link);

        asker->done(asker, err, err ? NULL : &renewals[asker->at]);
    }
    free(own_batch);
}

static void on_renewed(struct proposal *proposal, enum err err, struct str reply)
{
    struct renew_batch *batch = CONTAINER_OF(proposal, struct renew_batch, proposal);
    struct store_service *service = batch->service;
    struct store_renewal *renewals = NULL;

    service->batches_running--;
    if (!err) renewals = calloc(batch->count, sizeof *renewals);
    if (!err && (!renewals || store_renewals_parse(reply, renewals, batch->count) != batch->count))
        err = ERR_UNKNOWN;
    service->numbers.renewals += err ? 0 : batch->count;
    batch_finish(batch, err, renewals);
    free(renewals);
    if (service->batch) loop_defer(service->io->loop, &service->batch_now);
}

static void batch_propose(struct store_service *service)
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
    service->numbers.renew_batches++;
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
    batch_propose(CONTAINER_OF(timer, struct store_service, batch_due));
}

void renew_now(struct task *task)
{
    struct store_service *service = CONTAINER_OF(task, struct store_service, batch_now);

    if (service->batches_running == 0) batch_propose(service);
}

static struct renew_batch *batch_with_room(struct store_service *service, size_t count)
{
    if (service->batch && service->batch->count + count > STORE_RENEW_MAX) batch_propose(service);
    if (service->batch) return service->batch;
    service->batch = calloc(1, sizeof *service->batch);
    if (!service->batch) return NULL;
    service->batch->service = service;
    list_init(&service->batch->askers);
    timer_start_in(&service->batch_due, GATHER_MS);
    loop_defer(service->io->loop, &service->batch_now);
    return service->batch;
}

bool renew_add(struct store_service *service, const struct store_id *ids, size_t count,
               struct renew_asker *asker)
{
    struct renew_batch *batch = batch_with_room(service, count);

    if (!batch) return false;
    if (asker) {
        asker->at = batch->count;
        list_init(&asker->link);
        list_append(&batch->askers, &asker->link);
    }
    memcpy(batch->ids + batch->count, ids, count * sizeof *ids);
    batch->count += (uint32_t)count;
    return true;
}

void renew_drop(struct renew_batch *own_batch)
{
    if (own_batch) batch_finish(own_batch, ERR_NOT_LEADER, NULL);
}

/* -- Renew -- */

static void renew_reply(struct renew_asker *asker, enum err err,
                        const struct store_renewal *renewals)
{
    struct leader_request *request = &CONTAINER_OF(asker, struct store_request, asker)->base;
    struct store_service *service = service_of(request);
    struct pack pack = pack_begin(&service->answer);

    if (!request->call) {
        request_free(request);
        return;
    }
    if (err) {
        request_log_failed(request, err);
        return;
    }
    for (size_t i = 0; i < ((const Muster__V1__RenewRequest *)request->message)->n_lease_ids; i++) {
        struct pack row = pack_begin(&service->row);

        pack_i64(&row, 1, renewals[i].code);
        pack_i64(&row, 2, renewals[i].reason);
        pack_i64(&row, 3, renewals[i].granted_ttl_ms);
        pack_u64(&row, 4, renewals[i].token);
        pack_row(&pack, 1, &row);
    }
    request_reply_packed(request, &pack);
}

void renew_begin(struct leader_request *request)
{
    struct store_service *service = service_of(request);
    const Muster__V1__RenewRequest *m = (const Muster__V1__RenewRequest *)request->message;
    struct store_request *mine = store_request_of(request);
    struct store_id ids[STORE_RENEW_MAX];
    struct renew_batch *batch;

    if (m->n_lease_ids == 0) {
        request_reply(request, STR_EMPTY);
        return;
    }
    for (size_t i = 0; i < m->n_lease_ids; i++)
        memcpy(ids[i].b, m->lease_ids[i].data, sizeof ids[i].b);
    mine->asker.done = renew_reply;
    if (!renew_add(service, ids, m->n_lease_ids, &mine->asker)) {
        request_refuse(request, GRPC_RESOURCE_EXHAUSTED, "Renew: out of memory");
        return;
    }
    batch = service->batch;
    batch->has_tokens |= m->n_tokens > 0;
    if (m->n_tokens)
        memcpy(batch->tokens + mine->asker.at, m->tokens, m->n_tokens * sizeof *m->tokens);
    mine->kept = KEPT_RENEWS;
    request_keep(request, &service->kept);
}
