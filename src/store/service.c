/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the store's service. Passes applied entries to its parts. Loop's thread. */
#include "store/service.h"

#include <stdlib.h>

#include "store/service_internal.h"
#include "store/watch_engine.h"

enum { SECOND_MS = 1000 };

/* -- the log -- */

static void service_on_event(void *owner, const struct store_event *event)
{
    wait_event(owner, event);
}

static void service_on_applied(void *owner, struct key_changes changes)
{
    struct store_service *service = owner;

    watch_engine_applied(service->watches, changes);
    clock_applied(service);
    if (service->follower.applied) service->follower.applied(service->follower.owner);
}

static void service_on_restored(void *owner)
{
    struct store_service *service = owner;

    watch_engine_restored(service->watches);
    clock_forget(service);
    if (service->follower.restored) service->follower.restored(service->follower.owner);
}

void store_service_on_change(struct store_service *service, const struct replica_status *status)
{
    struct leader *leader = &service->leader;

    if (leader_term_ended(leader, status)) {
        clock_forget(service);
        waits_end(service);
        watchers_leadership_lost(service);
    }
    (void)leader_term_began(leader, status);
    if (leader_ready(leader, status)) service->applied_at = loop_now(service->io->loop);
    if (leader->ready) clock_set(service); /* a higher cluster level may now allow ticks */
    leader_resume(leader);
}

static void service_on_second(struct timer *timer)
{
    struct store_service *service = CONTAINER_OF(timer, struct store_service, second);

    clock_second(service);
    watchers_second(service);
    store_numbers_take(service);
    if (service->follower.second) service->follower.second(service->follower.owner);
    metrics_set_fields(service->metrics, &service->numbers);
    timer_start_in(timer, SECOND_MS);
}

/* -- life -- */

static enum err service_open_parts(struct store_service *service,
                                   const struct store_service_options *options, struct note *note)
{
    struct store_machine_options machine = {
        .store = {.quota_bytes = options->limits.quota_bytes},
        .event = service_on_event,
        .applied = service_on_applied,
        .restored = service_on_restored,
        .owner = service,
    };
    struct loop *loop = options->io->loop;
    enum err err = leader_open(
        &service->leader, &(struct leader_options){.rules = &store_rules,
                                                   .loop = loop,
                                                   .address = options->leader_address,
                                                   .owner = options->owner,
                                                   .wait_ms = service->limits.wait_ms,
                                                   .requests_max = service->limits.requests_max});

    if (!err) err = timer_init(&service->second, loop, service_on_second);
    if (!err) err = timer_init(&service->tick, loop, clock_tick);
    if (!err) err = timer_init(&service->batch_due, loop, renew_overdue);
    if (!err) err = store_machine_open(&machine, &service->machine);
    if (!err) err = store_metrics_open(service, options->metrics, note);
    if (!err)
        err = watch_engine_open(
            &(struct watch_engine_options){.io = options->io,
                                           .machine = service->machine,
                                           .events_max = service->limits.watch_events_max,
                                           .bytes_max = service->limits.watch_bytes_max,
                                           .events = &service->numbers.watch_events},
            &service->watches);
    return err;
}

enum err store_service_open(const struct store_service_options *options,
                            struct store_service **ret_service, struct note *note)
{
    struct store_service *service = calloc(1, sizeof *service);
    enum err err;

    if (!service) return ERR_NOMEM;
    service->io = options->io;
    if (options->log)
        service->log = *options->log;
    else
        log_source_init(&service->log, NULL, "store", NULL);
    service->limits = options->limits;
    if (!service->limits.wait_ms) service->limits.wait_ms = LEADER_WAIT_MS;
    if (!service->limits.requests_max) service->limits.requests_max = 65536;
    if (!service->limits.watchers_max) service->limits.watchers_max = 65536;
    if (!service->limits.watch_events_max) service->limits.watch_events_max = 16384;
    if (!service->limits.watch_bytes_max) service->limits.watch_bytes_max = 64 << 20;
    list_init(&service->kept);
    list_init(&service->watchers);
    map_init(&service->waits, MAP_MOST, entropy_u64(options->io->entropy));
    map_init(&service->attempts, MAP_MOST, entropy_u64(options->io->entropy));
    task_init(&service->batch_now, renew_now);
    buf_init(&service->answer, STORE_ANSWER_MAX);
    buf_init(&service->row, STORE_ANSWER_MAX);
    buf_init(&service->command, REPLICA_COMMAND_MAX);
    err = service_open_parts(service, options, note);
    if (err) {
        store_service_close(service);
        return err;
    }
    timer_start_in(&service->second, SECOND_MS);
    *ret_service = service;
    return ERR_OK;
}

void store_service_close(struct store_service *service)
{
    if (!service) return;
    renew_drop(service->batch); /* the batch was never proposed, and its clients are gone */
    service->batch = NULL;
    assert(service->own_running == 0 && service->batches_running == 0);
    task_cancel(&service->batch_now);
    leader_close(&service->leader);
    timer_deinit(&service->second);
    timer_deinit(&service->tick);
    timer_deinit(&service->batch_due);
    watch_engine_close(service->watches);
    store_machine_close(service->machine);
    map_deinit(&service->waits);
    map_deinit(&service->attempts);
    buf_deinit(&service->answer);
    buf_deinit(&service->row);
    buf_deinit(&service->command);
    free(service);
}

struct store_machine *store_service_machine(struct store_service *service)
{
    return service->machine;
}

void store_service_follow(struct store_service *service, const struct store_follower *follower)
{
    service->follower = *follower;
}

void store_service_attach(struct store_service *service, struct replica *replica)
{
    struct replica_status status = replica_status(replica);

    assert(!service->leader.replica);
    service->leader.replica = replica;
    store_service_on_change(service, &status);
}

enum err store_service_methods(struct store_service *service, struct rpc_server *server,
                               struct note *note)
{
    const struct store_method *const tables[] = {store_write_methods, store_read_methods};
    enum err err = ERR_OK;

    for (size_t i = 0; i < ARRAY_LEN(tables); i++)
        for (const struct store_method *m = tables[i]; !err && m->base.path; m++)
            err = leader_add(&service->leader, server, &m->base, note);
    return err;
}
