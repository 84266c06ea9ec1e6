/* SPDX-License-Identifier: Apache-2.0 */
/* The store's numbers; docs/observability.md has them all. */
#include "store/service_internal.h"

void store_count(struct counter *counter, uint64_t n)
{
    if (counter && n) counter_add(counter, n);
}

static enum err add_gauges(struct store_metrics *m, struct metrics *metrics, struct note *note)
{
    const struct {
        const char *name, *help;
        struct gauge **gauge;
    } gauges[] = {
        {"muster_store_revision", "Last revision of the store on this replica.", &m->revision},
        {"muster_store_compacted_revision", "History before it is gone.", &m->compacted},
        {"muster_store_keys", "Live keys.", &m->keys},
        {"muster_store_bytes", "What keys, history and records count against the quota.",
         &m->bytes},
        {"muster_store_quota_bytes", "Where the store refuses writes that add.", &m->quota},
        {"muster_store_leases", "Leases, those that wait for a slot among them.", &m->leases},
        {"muster_store_groups", "Groups of slots.", &m->groups},
        {"muster_store_waiters", "Who waits for a slot.", &m->waiters},
        {"muster_store_watchers", "Open watches on this replica.", &m->watchers},
        {"muster_store_clients", "Clients whose recent answers are kept.", &m->clients},
        {"muster_store_clock_seconds", "The replicated lease clock.", &m->clock},
        {"muster_store_requests", "Calls of the store under way.", &m->requests},
        {"muster_store_lock_waiters", "Calls of etcd's Lock and Campaign without their turn yet.",
         &m->lock_waiters},
    };
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(gauges); i++)
        err = metrics_add_gauge(metrics, gauges[i].name, gauges[i].help, gauges[i].gauge, note);
    return err;
}

static enum err add_counters(struct store_metrics *m, struct metrics *metrics, struct note *note)
{
    const struct {
        const char *name, *help;
        struct counter **counter;
    } counters[] = {
        {"muster_store_renewals_total", "Leases renewed or refused, on the leader.", &m->renewals},
        {"muster_store_renew_entries_total", "Entries of the log that carried them.",
         &m->renew_batches},
        {"muster_store_leases_expired_total", "Leases that ended by their deadline.", &m->expired},
        {"muster_store_ticks_total", "Entries that only moved the lease clock, on the leader.",
         &m->ticks},
        {"muster_store_compactions_total", "Compactions proposed by this leader.", &m->compactions},
        {"muster_store_watch_resyncs_total", "Watchers that were too slow and began anew.",
         &m->resyncs},
        {"muster_store_watch_events_total", "Events sent to watchers.", &m->watch_events},
        {"muster_store_lock_grants_total", "Calls of etcd's Lock and Campaign that got their turn.",
         &m->lock_grants},
    };
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(counters); i++)
        err = metrics_add_counter(metrics, counters[i].name, counters[i].help, counters[i].counter,
                                  note);
    return err;
}

static enum err add_outcomes(struct store_metrics *m, struct metrics *metrics, struct note *note)
{
    static const char *const codes[] = {"ok",      "exists",  "conflict",    "not_found",
                                        "expired", "invalid", "unsupported", "unavailable"};
    struct metric_options options = {.name = "muster_store_outcomes_total",
                                     .help = "Writes answered here, by their code.",
                                     .kind = METRIC_COUNTER,
                                     .labels = {"code"}};
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);

    static_assert(ARRAY_LEN(codes) == STORE_CODES, "a name per code");
    for (size_t i = 0; !err && i < STORE_CODES; i++)
        m->outcomes[i] = metric_counter(family, (const struct str[]){str_from(codes[i])});
    return err;
}

enum err store_metrics_open(struct store_metrics *m, struct metrics *metrics, struct note *note)
{
    enum err err;

    *m = (struct store_metrics){0};
    if (!metrics) return ERR_OK;
    err = add_gauges(m, metrics, note);
    if (!err) err = add_counters(m, metrics, note);
    return err ? err : add_outcomes(m, metrics, note);
}

void store_gauges(struct store_service *service)
{
    const struct store *store = service_store(service);
    const struct keys *keys = store_keys(store);
    struct store_metrics *m = &service->metrics;
    struct store_sizes sizes;

    if (!m->revision) return;
    sizes = store_sizes(store);
    gauge_set(m->revision, (double)keys_revision(keys));
    gauge_set(m->compacted, (double)keys_compacted(keys));
    gauge_set(m->keys, (double)keys_count(keys));
    gauge_set(m->bytes, (double)sizes.bytes);
    gauge_set(m->quota, (double)sizes.quota);
    gauge_set(m->leases, (double)sizes.leases);
    gauge_set(m->groups, (double)sizes.groups);
    gauge_set(m->waiters, (double)sizes.waiters);
    gauge_set(m->watchers, (double)service->watcher_count);
    gauge_set(m->clients, (double)sizes.clients);
    gauge_set(m->clock, (double)store_clock_ns(store) / 1e9);
    gauge_set(m->requests, service->leader.request_count);
}
