/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's duties: the lease clock T and the compaction of history. Loop's thread.
 *
 * T moves only when an entry of the log is applied. Without writes of clients the leader proposes
 * ticks: at the next deadline, and once a second while there are leases. One entry ends at most
 * STORE_EXPIRE_MAX due leases. While due leases or compacted history remain, the leader proposes a
 * tick LEFT_OVER_MS after the last entry. */
#include <stdlib.h>

#include "store/service_internal.h"

enum {
    LEFT_OVER_MS = 2,
    IDLE_MS = 1000,
    REFUSED_MS = 100, /* retry pause after a full disk, or while the cluster level is too low */
    HISTORY_MS = 300000,
    HISTORY_SHARE = 4, /* history may use 1/HISTORY_SHARE of the quota */
};

/* -- entries proposed by the service -- */

static void tick_in(struct store_service *service, uint64_t ms)
{
    service->tick_at = mono_after(loop_now(service->io->loop), ms);
    timer_start(&service->tick, service->tick_at);
}

static void on_own(struct proposal *proposal, enum err err, struct str)
{
    struct own_proposal *own = CONTAINER_OF(proposal, struct own_proposal, proposal);
    struct store_service *service = own->service;

    if (own->kind == STORE_TICK) service->tick_running = false;
    if (own->kind == STORE_COMPACT) service->compact_running = false;
    service->own_running--;
    if (err && err != ERR_NOT_LEADER)
        LOG_DEBUG(&service->log, "the store's clock entry was not committed: retrying",
                  log_err("err", err));
    /* After a refusal the tick is still due, so a retry without a pause would loop. */
    if (service->leader.ready && err && !service->tick_running)
        tick_in(service, REFUSED_MS);
    else if (service->leader.ready)
        clock_set(service);
    free(own);
}

bool own_propose(struct store_service *service, const struct store_command *command)
{
    struct own_proposal *own = calloc(1, sizeof *own);

    buf_clear(&service->command);
    if (!own || store_command_write(command, &service->command)) {
        free(own);
        return false;
    }
    own->service = service;
    own->kind = command->kind;
    own->proposal = store_proposal(service, command->kind, on_own);
    own->proposal.flags = PROPOSE_FREES;
    service->own_running++;
    replica_propose(service->leader.replica, (struct proposal *const[]){&own->proposal}, 1);
    return true;
}

/* -- ticks -- */

/* UINT64_MAX: no tick is needed */
static uint64_t next_tick_ms(const struct store_service *service)
{
    const struct store *store = service_store(service);
    struct store_id id = store_identity(store);
    uint64_t due = store_next_due(store), clock = store_clock_ns(store), ms;
    uint64_t since = mono_elapsed_ms(service->applied_at, loop_now(service->io->loop));

    if (store_id_none(&id)) return 0;
    if (due == UINT64_MAX && store_sizes(store).leases == 0) return UINT64_MAX;
    if (due <= clock) return LEFT_OVER_MS;
    ms = due == UINT64_MAX ? IDLE_MS : (due - clock + NS_PER_MS - 1) / NS_PER_MS;
    ms = min_u64(ms, IDLE_MS);
    return ms > since ? ms - since : 1;
}

void clock_set(struct store_service *service)
{
    uint64_t ms;

    if (!service->leader.ready || service->tick_running) return;
    ms = next_tick_ms(service);
    if (ms == UINT64_MAX) {
        timer_stop(&service->tick);
        return;
    }
    tick_in(service, ms);
}

void clock_tick(struct timer *timer)
{
    struct store_service *service = CONTAINER_OF(timer, struct store_service, tick);
    struct store_command command = {.kind = STORE_TICK, .prefer_slot = STORE_NO_SLOT};
    struct store_id id = store_identity(service_store(service));

    if (!service->leader.ready || service->tick_running) return;
    if (next_tick_ms(service) > LEFT_OVER_MS) { /* a client's entry has advanced the clock */
        clock_set(service);
        return;
    }
    if (store_id_none(&id))
        entropy_fill(service->io->entropy, command.lease.b, sizeof command.lease.b);
    service->tick_running = own_propose(service, &command);
    if (service->tick_running)
        service->numbers.ticks++;
    else
        tick_in(service, IDLE_MS);
}

void clock_applied(struct store_service *service)
{
    uint64_t ms;

    service->applied_at = loop_now(service->io->loop);
    if (!service->leader.ready || service->tick_running) return;
    /* The timer checks for later ticks when it fires, so only an earlier tick needs a new timer. */
    ms = timer_running(&service->tick) ? next_tick_ms(service) : 0;
    if (!timer_running(&service->tick) ||
        mono_after(service->applied_at, ms).ms < service->tick_at.ms)
        clock_set(service);
}

/* -- history -- */

void clock_forget(struct store_service *service)
{
    timer_stop(&service->tick);
    service->mark_count = 0;
}

static uint64_t middle_revision(const struct keys *keys)
{
    struct key_changes changes = keys_changes(keys);
    struct key_value change, before;

    if (changes.end - changes.first < 2) return keys_revision(keys);
    keys_change_at(keys, changes.first + (changes.end - changes.first) / 2, &change, &before);
    return change.mod;
}

static void mark(struct store_service *service, mono_time now, uint64_t history_ms)
{
    size_t *count = &service->mark_count;

    if (*count &&
        mono_elapsed_ms(service->marks[*count - 1].at, now) < history_ms / (HISTORY_MARKS - 1))
        return;
    if (*count == HISTORY_MARKS) {
        memmove(service->marks, service->marks + 1, (*count - 1) * sizeof service->marks[0]);
        --*count;
    }
    service->marks[*count].at = now;
    service->marks[(*count)++].revision = keys_revision(store_keys(service_store(service)));
}

/* newest recorded revision older than history_ms, or 0 */
static uint64_t old_revision(const struct store_service *service, mono_time now,
                             uint64_t history_ms)
{
    uint64_t revision = 0;

    for (size_t i = 0; i < service->mark_count; i++)
        if (mono_elapsed_ms(service->marks[i].at, now) >= history_ms)
            revision = service->marks[i].revision;
    return revision;
}

/* 0: too little would be freed for a compaction entry */
static uint64_t old_by_count(const struct store_service *service)
{
    const struct keys *keys = store_keys(service_store(service));
    uint64_t kept = service->limits.history_revisions, newest = keys_revision(keys);

    if (!kept || newest < keys_compacted(keys) + kept + 1 + kept / 16) return 0;
    return newest - kept;
}

/* True if everything is compacted, but the version before the newest change uses too much space. A
 * normal compaction keeps that version, and a full store accepts no write that would replace it. */
static bool is_stuck(const struct store *store)
{
    const struct keys *keys = store_keys(store);

    return keys_compacted(keys) == keys_revision(keys) && !keys_prune_left(keys) &&
           keys_history_bytes(keys) > store_sizes(store).quota / HISTORY_SHARE;
}

void clock_second(struct store_service *service)
{
    const struct store *store = service_store(service);
    const struct keys *keys = store_keys(store);
    uint64_t history_ms = service->limits.history_ms ? service->limits.history_ms : HISTORY_MS;
    struct store_command command = {.kind = STORE_COMPACT, .prefer_slot = STORE_NO_SLOT};
    mono_time now = loop_now(service->io->loop);

    if (!service->leader.ready || service->compact_running) return;
    mark(service, now, history_ms);
    command.expected = max_u64(old_revision(service, now, history_ms), old_by_count(service));
    if (keys_history_bytes(keys) > store_sizes(store).quota / HISTORY_SHARE)
        command.expected = max_u64(command.expected, middle_revision(keys));
    if (is_stuck(store)) {
        command.expected = keys_revision(keys);
        command.flags = STORE_COMPACT_ALL;
    } else if (command.expected <= keys_compacted(keys)) {
        return;
    }
    service->compact_running = own_propose(service, &command);
    service->numbers.compactions += service->compact_running;
    clock_set(service);
}
