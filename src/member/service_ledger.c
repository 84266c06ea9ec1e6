/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the rows of the heartbeat ledger. Loop's thread. */
#include "member/ledger/ledger.h"
#include "member/service_internal.h"

void ledger_beat(struct member_service *service, const struct beat_call *beat)
{
    const struct beat_said *said = &beat->said;

    member_ledger_beat(service->options.ledger,
                       &(struct heartbeat_row){
                           .worker_id = str_of(said->worker, ULID_LEN),
                           .run_id = str_of(said->run, ULID_LEN),
                           .phase = said->phase,
                           .due_at_ms = said->has_due ? said->due_ms : beat->at.ms,
                           .received_at_ms = beat->at.ms,
                           .has_load = said->load >= 0,
                           .load = said->load >= 0 ? (double)said->load / BEAT_LOAD_WHOLE : 0,
                       });
}

void ledger_worker(struct member_service *service, struct str id)
{
    struct member_worker worker;
    char instance[2 * BEAT_INSTANCE_LEN + 1] = "";

    if (!service->options.ledger || id.len == 0) return;
    if (!member_find_worker(membership_of(service), id, &worker) ||
        worker.standing == MEMBER_REMOVED) {
        member_ledger_forget(service->options.ledger, id);
        return;
    }
    if (worker.has_instance) hex_write(worker.instance.b, sizeof worker.instance.b, instance);
    member_ledger_worker(service->options.ledger,
                         &(struct worker_row){
                             .worker_id = id,
                             .run_id = str_from(service->run),
                             .registered_at_ms = (uint64_t)worker.registered_ms,
                             .incarnation = worker.incarnation,
                             .standing = worker.standing == MEMBER_DEAD ? 2 : 0,
                             .draining = worker.draining,
                             .instance = str_from(instance),
                         });
}
