/* SPDX-License-Identifier: Apache-2.0 */
/* The read methods: table rows and the leader's soft state, in the contract's encoding. Each method
 * runs in one turn after leadership was confirmed, so its response shows one moment. */
#include "fleet/service_internal.h"

/* The same in all responses. */
enum { FIELD_ROWS = 1 };

void service_pack_row(struct fleet_service *service, struct pack *pack, const struct fleet_row *row)
{
    const struct fleet_quota *quota = &row->quota;

    for (size_t i = 0; i < fleet_row_texts[row->table]; i++)
        pack_text(pack, (uint32_t)i + 1, row->texts[i]);
    if (row->table == FLEET_SHARDS) {
        pack_i64(pack, 3, fleet_time_to_unix_ns(row->shard.registered_at));
        pack_i64(pack, 4, fleet_time_to_unix_ns(row->shard.last_heartbeat)); /* 0: no heartbeat */
    }
    /* A map entry is a message of key and value. Both fields are written even if empty. */
    for (size_t i = 0; row->table == FLEET_QUOTAS && i < quota->slice_count && !pack->err; i++) {
        struct pack entry = pack_begin(&service->command);

        pack_bytes(&entry, 1, quota->slices[i].shard);
        pack_varint(&entry, 2 << 3);
        pack_varint(&entry, (uint64_t)(int64_t)quota->slices[i].slice);
        pack_row(pack, 3, &entry);
    }
}

static void list_table(struct leader_request *request)
{
    enum fleet_table table = service_method_of(request)->table;
    struct fleet_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct fleet_walk walk = {0};
    struct fleet_row row;

    /* A longer list would take too long for one turn of the event loop. */
    if ((table == FLEET_DOMAINS || table == FLEET_CLUSTERS) &&
        fleet_counts(service->fleet).of[table] > service->options.limits.list_rows_max) {
        service_list_later(request, &service->listers[table == FLEET_CLUSTERS]);
        return;
    }
    while (!answer.err &&
           (table == FLEET_DOMAINS ? fleet_next_assignment(service->fleet, &walk, &row)
                                   : fleet_next(service->fleet, table, &walk, &row))) {
        struct pack packed = pack_begin(&service->row);

        service_pack_row(service, &packed, &row);
        pack_row(&answer, FIELD_ROWS, &packed);
    }
    request_reply_packed(request, &answer);
}

/* -- soft state -- */

const struct reported_shard *service_next_reported(const struct fleet_service *service,
                                                   struct fleet_walk *walk)
{
    const struct reported_shard *shard = NULL;
    struct fleet_row next;

    while (!shard && fleet_next(service->fleet, FLEET_SHARDS, walk, &next))
        shard = reports_find(service->reports, next.shard.id);
    return shard;
}

static bool wanted(struct str filter, struct str shard)
{
    return !filter.len || str_equal(filter, shard);
}

static void list_shard_reports(struct leader_request *request)
{
    const Bigfleet__V1alpha1__ListShardReportsRequest *m = (const void *)request->message;
    struct fleet_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct fleet_walk walk = {0};
    const struct reported_shard *shard;

    while (!answer.err && (shard = service_next_reported(service, &walk))) {
        struct pack row = pack_begin(&service->row);

        if (!wanted(str_from(m->shard_id), shard->id)) continue;
        if (!shard->has_summary && !shard->shortfall_count) continue;
        pack_text(&row, 1, shard->id);
        pack_i64(&row, 2, shard->summary_cycle);
        pack_i64(&row, 3, shard->received_at_ns);
        if (shard->has_summary) pack_bytes(&row, 4, shard->summary);
        /* already encoded as field 5 */
        if (!row.err) row.err = buf_append(row.into, shard->shortfalls);
        pack_row(&answer, FIELD_ROWS, &row);
    }
    request_reply_packed(request, &answer);
}

static void list_instructions(struct leader_request *request)
{
    const Muster__V1__ListInstructionsRequest *m = (const void *)request->message;
    struct fleet_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct fleet_walk walk = {0};
    const struct reported_shard *shard;

    while (!answer.err && (shard = service_next_reported(service, &walk))) {
        if (!wanted(str_from(m->shard_id), shard->id)) continue;
        LIST_EACH(&shard->queue, node)
        {
            const struct instruction *it = CONTAINER_OF(node, struct instruction, link);
            struct pack row = pack_begin(&service->row);

            pack_text(&row, 1, shard->id);
            pack_bytes(&row, 2, it->bytes);
            pack_u64(&row, 3, it->deliveries);
            pack_row(&answer, FIELD_ROWS, &row);
        }
    }
    request_reply_packed(request, &answer);
}

#define TABLE(service, rpc, package, word, of)                                                     \
    SERVICE_METHOD(service, rpc, package, word, .read = list_table, .table = (of))
const struct service_method service_read_methods[] = {
    TABLE(BIGFLEET, "ListShards", bigfleet__v1alpha1, list_shards, FLEET_SHARDS),
    TABLE(BIGFLEET, "ListDomainAssignments", bigfleet__v1alpha1, list_domain_assignments,
          FLEET_DOMAINS),
    TABLE(BIGFLEET, "ListQuotas", bigfleet__v1alpha1, list_quotas, FLEET_QUOTAS),
    TABLE(BIGFLEET, "ListProviders", bigfleet__v1alpha1, list_providers, FLEET_PROVIDERS),
    TABLE(MUSTER, "ListClusters", muster__v1, list_clusters, FLEET_CLUSTERS),
    SERVICE_METHOD(BIGFLEET, "ListShardReports", bigfleet__v1alpha1, list_shard_reports,
                   .read = list_shard_reports),
    SERVICE_METHOD(MUSTER, "ListInstructions", muster__v1, list_instructions,
                   .read = list_instructions),
    {.base = {.path = NULL}},
};
