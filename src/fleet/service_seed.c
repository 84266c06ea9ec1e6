/* SPDX-License-Identifier: Apache-2.0 */
/* --bootstrap-state: a leader proposes the rows that are not in the tables yet, a batch at a time.
 *
 * Row by row and not "only when all is empty", so that a leader that dies half-way leaves nothing
 * out: its successor goes on with what is missing. No command removes a quota or a provider, so a
 * row that was ever there is there, and is left as it is. */
#include "fleet/format/command.h"
#include "fleet/service_internal.h"

static bool is_there(const struct fleet *fleet, const struct fleet_command *command)
{
    enum fleet_table table = fleet_kind_table(command->kind);
    bool quota = table == FLEET_QUOTAS;
    struct fleet_row row;

    assert(quota || table == FLEET_PROVIDERS);
    return fleet_find(fleet, table, command->texts[0], quota ? command->texts[1] : STR_EMPTY, &row);
}

static void propose_batch(struct fleet_service *service);

static void failed(struct fleet_service *service, const struct fleet_command *command,
                   const char *why)
{
    service->seed_failed = true;
    LOG_WARN(&service->log, "bootstrap state not applied; the next leader tries again",
             log_text("command", fleet_kind_name(command->kind)), log_text("why", why));
}

static void on_proposed(struct proposal *proposal, enum err err, struct str reply)
{
    struct seed_proposal *mine = CONTAINER_OF(proposal, struct seed_proposal, proposal);
    struct fleet_service *service = mine->service;
    struct fleet_result result = {.status = FLEET_UNREADABLE};

    err = service_proposed(service, err, reply, &result);
    if (err)
        service->seed_failed = true;
    else if (result.status != FLEET_DONE) /* the row itself is wrong: the others are not */
        LOG_WARN(&service->log, "bootstrap state: a row was refused",
                 log_text("why", fleet_status_text(result.status)));
    assert(service->seed_running > 0);
    if (--service->seed_running) return;
    if (service->seed_failed) {
        LOG_WARN(&service->log, "bootstrap state not applied whole; the next leader goes on");
        return;
    }
    propose_batch(service);
}

static void propose_batch(struct fleet_service *service)
{
    const struct fleet_seed *seed = service->seed;
    struct proposal *batch[SEED_BATCH];
    struct buf texts[SEED_BATCH];
    size_t count = 0;

    while (count < SEED_BATCH && service->seed_next < seed->count) {
        const struct fleet_command *command = &seed->commands[service->seed_next++];
        struct seed_proposal *mine = &service->seed_proposals[count];

        if (is_there(service->fleet, command)) continue;
        buf_init(&texts[count], REPLICA_COMMAND_MAX);
        if (fleet_command_encode(command, &texts[count])) {
            buf_deinit(&texts[count]);
            failed(service, command, "it cannot be encoded");
            continue;
        }
        mine->service = service;
        mine->proposal = (struct proposal){.machine = FLEET_MACHINE_ID,
                                           .version = FLEET_FIRST_VERSION,
                                           .actor = STR("bootstrap-state"),
                                           .command = buf_peek(&texts[count]),
                                           .done = on_proposed};
        batch[count++] = &mine->proposal;
    }
    service->seed_running = count;
    if (count) replica_propose(service->leader.replica, batch, count);
    for (size_t i = 0; i < count; i++) buf_deinit(&texts[i]);
}

void service_seed_begin(struct fleet_service *service)
{
    if (!service->seed || service->seed_running) return;
    service->seed_next = 0;
    service->seed_failed = false;
    propose_batch(service);
}
