/* SPDX-License-Identifier: Apache-2.0 */
/* The store's metrics (docs/observability.md). Values are counted on the loop's thread and
 * published once a second. */
#include "store/service_internal.h"

#define NUMBER(kind_, member, name_, help_)                                                        \
    {                                                                                              \
        .name = name_, .help = help_, .kind = METRIC_##kind_,                                      \
        METRIC_FIELD(struct store_numbers, member)                                                 \
    }
#define OUTCOME(code_, value_)                                                                     \
    {                                                                                              \
        .name = "muster_store_outcomes_total",                                                     \
        .help = "Writes answered by this replica, by result code.", .kind = METRIC_COUNTER,        \
        METRIC_FIELD(struct store_numbers, outcomes[COORD_##code_]), .label = "code",              \
        .value = value_                                                                            \
    }

static const struct metric_field number_rows[] = {
    NUMBER(GAUGE, revision, "muster_store_revision", "Last revision of the store on this replica."),
    NUMBER(GAUGE, compacted, "muster_store_compacted_revision",
           "Compaction revision. Older history is not available."),
    NUMBER(GAUGE, keys, "muster_store_keys", "Live keys."),
    NUMBER(GAUGE, bytes, "muster_store_bytes",
           "Bytes that count against the quota: keys, history and records."),
    NUMBER(GAUGE, quota, "muster_store_quota_bytes",
           "Quota in bytes. Above the quota the store refuses writes that add data."),
    NUMBER(GAUGE, leases, "muster_store_leases",
           "Leases, including those of clients that wait for a slot."),
    NUMBER(GAUGE, groups, "muster_store_groups", "Slot groups."),
    NUMBER(GAUGE, waiters, "muster_store_waiters", "Clients that wait for a slot."),
    NUMBER(GAUGE, watchers, "muster_store_watchers", "Open watches on this replica."),
    NUMBER(GAUGE, clients, "muster_store_clients",
           "Clients whose recent responses are kept for retries."),
    {.name = "muster_store_clock_seconds",
     .help = "Replicated lease clock.",
     .kind = METRIC_GAUGE,
     .per_unit = 1e9,
     METRIC_FIELD(struct store_numbers, clock_ns)},
    NUMBER(GAUGE, requests, "muster_store_requests", "Store calls in progress."),
    NUMBER(GAUGE, lock_waiters, "muster_store_lock_waiters",
           "etcd Lock and Campaign calls that wait."),
    NUMBER(COUNTER, renewals, "muster_store_renewals_total",
           "Lease renewals, refusals included, on the leader."),
    NUMBER(COUNTER, renew_batches, "muster_store_renew_entries_total",
           "Log entries that contain lease renewals."),
    NUMBER(COUNTER, expired, "muster_store_leases_expired_total", "Leases that expired."),
    NUMBER(COUNTER, ticks, "muster_store_ticks_total",
           "Log entries that only advance the lease clock, on the leader."),
    NUMBER(COUNTER, compactions, "muster_store_compactions_total",
           "Compactions proposed by this leader."),
    NUMBER(COUNTER, resyncs, "muster_store_watch_resyncs_total",
           "Watchers that restarted because they were too slow."),
    NUMBER(COUNTER, watch_events, "muster_store_watch_events_total", "Events sent to watchers."),
    NUMBER(COUNTER, lock_grants, "muster_store_lock_grants_total",
           "etcd Lock and Campaign calls that were granted."),
    OUTCOME(OK, "ok"),
    OUTCOME(EXISTS, "exists"),
    OUTCOME(CONFLICT, "conflict"),
    OUTCOME(NOT_FOUND, "not_found"),
    OUTCOME(EXPIRED, "expired"),
    OUTCOME(INVALID, "invalid"),
    OUTCOME(UNSUPPORTED, "unsupported"),
    OUTCOME(UNAVAILABLE, "unavailable"),
};

enum err store_metrics_open(struct store_service *service, struct metrics *metrics,
                            struct note *note)
{
    if (!metrics) return ERR_OK;
    return metrics_add_fields(metrics, number_rows, ARRAY_LEN(number_rows), &service->metrics,
                              note);
}

void store_numbers_take(struct store_service *service)
{
    const struct store *store = service_store(service);
    const struct keys *keys = store_keys(store);
    struct store_numbers *n = &service->numbers;
    struct store_sizes sizes = store_sizes(store);

    n->revision = keys_revision(keys);
    n->compacted = keys_compacted(keys);
    n->keys = keys_count(keys);
    n->bytes = sizes.bytes;
    n->quota = sizes.quota;
    n->leases = sizes.leases;
    n->groups = sizes.groups;
    n->waiters = sizes.waiters;
    n->watchers = service->watcher_count;
    n->clients = sizes.clients;
    n->clock_ns = store_clock_ns(store);
    n->requests = service->leader.request_count;
}
