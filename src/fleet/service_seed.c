/* SPDX-License-Identifier: Apache-2.0 */
/* The file of --bootstrap-state: a leader proposes the rows that the tables lack, in batches.
 *
 * If the leader fails, the next leader proposes the missing rows. No command removes a quota or a
 * provider, so rows that exist are left unchanged. */
#include "fleet/service_internal.h"

enum { SEED_BATCH = 64 };

static bool seed_is_there(const struct fleet *fleet, const struct fleet_command *command)
{
    enum fleet_table table = fleet_kind_table(command->kind);
    bool quota = table == FLEET_QUOTAS;
    struct fleet_row row;

    assert(quota || table == FLEET_PROVIDERS);
    return fleet_find(fleet, table, command->texts[0], quota ? command->texts[1] : STR_EMPTY, &row);
}

static void seed_propose(struct fleet_service *service);

static void seed_proposed(struct fleet_service *service, enum err err,
                          const struct fleet_result *result)
{
    if (err)
        service->seed_failed = true;
    else if (result->status != FLEET_DONE) /* continue: only this row is wrong */
        LOG_WARN(&service->log, "bootstrap state: a row was rejected",
                 log_text("why", fleet_status_text(result->status)));
    assert(service->seed_running > 0);
    if (--service->seed_running) return;
    if (service->seed_failed)
        LOG_WARN(&service->log,
                 "bootstrap state is only partly applied: the next leader continues");
    else
        seed_propose(service);
}

/* Proposes the next batch. Results arrive later, never during this call. */
static void seed_propose(struct fleet_service *service)
{
    const struct fleet_seed *seed = service->options.seed;

    while (service->seed_running < SEED_BATCH && service->seed_next < seed->count) {
        const struct fleet_command *command = &seed->commands[service->seed_next++];
        enum err err;

        if (seed_is_there(service->fleet, command)) continue;
        err = service_propose(service, command, STR("bootstrap-state"), seed_proposed);
        if (!err) {
            service->seed_running++;
            continue;
        }
        service->seed_failed = true;
        LOG_WARN(&service->log,
                 "rows of the bootstrap-state file could not be applied: the next leader retries",
                 log_text("command", fleet_kind_name(command->kind)), log_err("err", err));
    }
}

void service_seed_begin(struct fleet_service *service)
{
    if (!service->options.seed || service->seed_running) return;
    service->seed_next = 0;
    service->seed_failed = false;
    seed_propose(service);
}
