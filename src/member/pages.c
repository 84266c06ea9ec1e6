/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the status pages of workers.md 14 as JSON. Keys have a fixed order. */
#include <inttypes.h>

#include "member/service_internal.h"
#include "text/ndjson.h"

enum {
    FREE_TOO_LONG_MS = 10000,
    ROWS_MAX = 5000, /* rows per page; a page is written in one turn of the loop */
};

/* The last line of a truncated page; ListWorkers and ListPartitions return everything. */
#define MORE "{\"more\":true}\n"

static bool is_degraded(const struct member_service *service, const struct cluster_numbers *n)
{
    uint64_t cadence = member_local_cadence_ns(service->local);
    uint64_t clock = service->clock_ns, since = n->counts.oldest_free_ns;

    if (n->hold || member_local_counts(service->local).scan_late_ns > cadence) return true;
    if (n->counts.events > MEMBER_EVENTS_MAX / 2) return true;
    /* A partition has been free for long although there are active workers. */
    return n->active > 0 && since < clock && clock - since > FREE_TOO_LONG_MS * NS_PER_MS;
}

static enum member_health health_of(const struct member_service *service,
                                    const struct cluster_numbers *n)
{
    const char *leader;

    if (service->serving)
        return is_degraded(service, n) ? MEMBER_HEALTH_DEGRADED : MEMBER_HEALTH_OK;
    leader = service->options.leader_address
                 ? service->options.leader_address(service->options.owner)
                 : "";
    return !service->leader.led && leader[0] ? MEMBER_HEALTH_OK : MEMBER_HEALTH_UNAVAILABLE;
}

enum err member_health_write(const struct member_service *service, const char *version,
                             struct buf *into, enum member_health *ret_health)
{
    static const char *const words[] = {"ok", "degraded", "unavailable"};
    struct cluster_numbers n = cluster_numbers(service);
    const uint32_t *of = n.counts.of_state;
    mono_time now = loop_now(service->io->loop);
    uint64_t lag_ms =
        service->local ? member_local_counts(service->local).scan_late_ns / NS_PER_MS : 0;
    uint64_t uptime_s = mono_elapsed_ms(service->opened_at, now) / MS_PER_SECOND;

    *ret_health = health_of(service, &n);
    return buf_appendf(
        into,
        "{\"status\":\"%s\",\"role\":\"%s\",\"leader\":\"%.*s\",\"coord_epoch\":%" PRIu64
        ",\"assignment_epoch\":%" PRIu64 ",\"workers\":{\"active\":%" PRIu64
        ",\"suspected\":%" PRIu64 ",\"dead\":%" PRIu64 ",\"known\":%" PRIu64
        ",\"draining\":%" PRIu64 "},\"partitions\":{\"total\":%u,\"owned\":%u,\"revoking\":%u"
        ",\"fencing\":%u,\"free\":%u},\"last_scan_ms\":%" PRIu64 ",\"scan_lag_ms\":%" PRIu64
        ",\"checkpoint_round\":%" PRIu64 ",\"uptime_s\":%" PRIu64 ",\"version\":\"%s\"}",
        words[*ret_health], service->leader.led ? "leader" : "follower", STR_ARG(n.counts.leader),
        n.counts.coord_epoch, n.counts.assignment_epoch, n.active, n.suspected, n.dead, n.known,
        n.draining, n.counts.total_partitions, of[MEMBER_OWNED], of[MEMBER_REVOKING],
        of[MEMBER_FENCING], of[MEMBER_FREE],
        service->serving ? mono_elapsed_ms(service->scanned_at, now) : 0, lag_ms, n.round, uptime_s,
        version);
}

enum err member_status_write(const struct member_service *service, struct buf *into)
{
    struct cluster_numbers n = cluster_numbers(service);

    return buf_appendf(into,
                       "{\"active\":%" PRIu64 ",\"known\":%" PRIu64
                       ",\"total_partitions\":%u,\"assignment_epoch\":%" PRIu64 "}",
                       n.active, n.known, n.counts.total_partitions, n.counts.assignment_epoch);
}

enum err member_workers_write(const struct member_service *service, struct buf *into)
{
    static const char *const words[] = {"active", "suspected", "dead", "removed"};
    struct member_worker worker;
    struct str after = STR_EMPTY;
    struct ndjson line;
    enum err err = ERR_OK;
    size_t rows = 0;

    while (!err && member_next_worker(membership_of(service), after, &worker)) {
        after = worker.id;
        if (worker.standing == MEMBER_REMOVED) continue;
        if (rows++ == ROWS_MAX) return buf_append_c(into, MORE);
        ndjson_begin(&line, into, NDJSON_LINE);
        ndjson_string(&line, STR("worker_id"), worker.id);
        ndjson_u64(&line, STR("incarnation"), worker.incarnation);
        ndjson_c_string(&line, STR("standing"), words[worker_shown(service, &worker)]);
        ndjson_bool(&line, STR("draining"), worker.draining);
        ndjson_u64(&line, STR("partitions"), worker.partitions);
        err = ndjson_end(&line);
    }
    return err;
}

enum err member_partitions_write(const struct member_service *service, struct buf *into)
{
    static const char *const words[] = {"free", "owned", "revoking", "fencing"};
    struct member_partition partition;
    struct ndjson line;
    enum err err = ERR_OK;

    for (uint32_t i = 0; !err && member_find_partition(membership_of(service), i, &partition);
         i++) {
        if (i == ROWS_MAX) return buf_append_c(into, MORE);
        ndjson_begin(&line, into, NDJSON_LINE);
        ndjson_u64(&line, STR("partition"), i);
        ndjson_c_string(&line, STR("state"), words[partition.state]);
        ndjson_string(&line, STR("owner"), partition.owner);
        ndjson_u64(&line, STR("grant_epoch"), partition.grant_epoch);
        err = ndjson_end(&line);
    }
    return err;
}
