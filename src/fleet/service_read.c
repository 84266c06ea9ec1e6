/* SPDX-License-Identifier: Apache-2.0 */
/* The reads: table rows and the leader's soft state, packed in the contract's order.
 *
 * Each runs once leadership is proved, in one go, so an answer is of one moment. */
#include "fleet/service_internal.h"

/* Each answer is field 1, repeated. */
enum { FIELD_ROWS = 1 };

/* Too long for one turn of the loop. */
static bool is_long(const struct fleet_service *service, enum fleet_table table)
{
    return fleet_counts(service->fleet).of[table] > service->limits.list_rows_max;
}

static void list_shards(struct request *request)
{
    struct fleet_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct fleet_walk walk = {0};
    struct fleet_shard shard;

    while (!answer.err && fleet_next_shard(service->fleet, &walk, &shard)) {
        struct pack row = pack_begin(&service->row);

        pack_text(&row, 1, shard.id);
        pack_text(&row, 2, shard.address);
        pack_i64(&row, 3, fleet_time_to_unix_ns(shard.registered_at));
        pack_i64(&row, 4, fleet_time_to_unix_ns(shard.last_heartbeat)); /* 0: never heard of */
        pack_row(&answer, FIELD_ROWS, &row);
    }
    request_reply_packed(request, &answer);
}

static void list_domain_assignments(struct request *request)
{
    struct fleet_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct fleet_walk walk = {0};
    struct fleet_domain domain;

    if (is_long(service, FLEET_DOMAINS)) {
        service_list_later(request, &service->domains);
        return;
    }
    while (!answer.err && fleet_next_assignment(service->fleet, &walk, &domain)) {
        struct pack row = pack_begin(&service->row);

        pack_text(&row, 1, domain.key);
        pack_text(&row, 2, domain.value);
        pack_text(&row, 3, domain.shard);
        pack_row(&answer, FIELD_ROWS, &row);
    }
    request_reply_packed(request, &answer);
}

static void list_clusters(struct request *request)
{
    struct fleet_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct fleet_walk walk = {0};
    struct fleet_cluster cluster;

    if (is_long(service, FLEET_CLUSTERS)) {
        service_list_later(request, &service->clusters);
        return;
    }
    while (!answer.err && fleet_next_cluster(service->fleet, &walk, &cluster)) {
        struct pack row = pack_begin(&service->row);

        pack_text(&row, 1, cluster.id);
        pack_text(&row, 2, cluster.shard);
        pack_row(&answer, FIELD_ROWS, &row);
    }
    request_reply_packed(request, &answer);
}

/* A map's entry is a message of key and value; both are written although they may be empty. */
static enum err pack_slice(struct pack *row, struct fleet_slice slice)
{
    char bytes[FLEET_ID_MAX + 64];
    struct buf entry = {.data = bytes, .cap = sizeof bytes, .max = sizeof bytes};
    struct pack fields = {&entry, ERR_OK};

    pack_bytes(&fields, 1, slice.shard);
    pack_varint(&fields, 2 << 3);
    pack_varint(&fields, (uint64_t)(int64_t)slice.slice);
    if (fields.err) return fields.err;
    pack_bytes(row, 3, buf_peek(&entry));
    return row->err;
}

static void list_quotas(struct request *request)
{
    struct fleet_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct fleet_walk walk = {0};
    struct fleet_quota quota;

    while (!answer.err && fleet_next_quota(service->fleet, &walk, &quota)) {
        struct pack row = pack_begin(&service->row);

        pack_text(&row, 1, quota.provider);
        pack_text(&row, 2, quota.region);
        for (size_t i = 0; i < quota.slice_count && !row.err; i++)
            row.err = pack_slice(&row, quota.slices[i]);
        pack_row(&answer, FIELD_ROWS, &row);
    }
    request_reply_packed(request, &answer);
}

static void list_providers(struct request *request)
{
    struct fleet_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct fleet_walk walk = {0};
    struct fleet_provider provider;

    while (!answer.err && fleet_next_provider(service->fleet, &walk, &provider)) {
        struct pack row = pack_begin(&service->row);

        pack_text(&row, 1, provider.name);
        pack_text(&row, 2, provider.address);
        pack_text(&row, 3, provider.region);
        pack_row(&answer, FIELD_ROWS, &row);
    }
    request_reply_packed(request, &answer);
}

/* -- soft state: shards in the tables' order -- */

static bool wanted(struct str filter, struct str shard)
{
    return !filter.len || str_equal(filter, shard);
}

static void list_shard_reports(struct request *request)
{
    const Bigfleet__V1alpha1__ListShardReportsRequest *m =
        (const Bigfleet__V1alpha1__ListShardReportsRequest *)request->message;
    struct fleet_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct fleet_walk walk = {0};
    struct fleet_shard shard;
    struct desk_shard kept;

    while (!answer.err && fleet_next_shard(service->fleet, &walk, &shard)) {
        struct pack row = pack_begin(&service->row);

        if (!wanted(str_from(m->shard_id), shard.id)) continue;
        if (!desk_find(service->desk, shard.id, &kept)) continue;
        if (!kept.has_summary && !kept.has_shortfalls) continue;
        pack_text(&row, 1, kept.id);
        pack_i64(&row, 2, kept.cycle);
        pack_i64(&row, 3, kept.received_at_ns);
        if (kept.has_summary) pack_bytes(&row, 4, kept.summary);
        if (!row.err) row.err = buf_append(row.into, kept.shortfalls); /* fields 5 already */
        pack_row(&answer, FIELD_ROWS, &row);
    }
    request_reply_packed(request, &answer);
}

static void list_instructions(struct request *request)
{
    const Muster__V1__ListInstructionsRequest *m =
        (const Muster__V1__ListInstructionsRequest *)request->message;
    struct fleet_service *service = service_of(request);
    struct pack answer = pack_begin(&service->answer);
    struct fleet_walk walk = {0};
    struct fleet_shard shard;
    struct desk_instruction it;

    while (!answer.err && fleet_next_shard(service->fleet, &walk, &shard)) {
        const void *cursor = NULL;

        if (!wanted(str_from(m->shard_id), shard.id)) continue;
        while (desk_next_instruction(service->desk, shard.id, false, &cursor, &it)) {
            struct pack row = pack_begin(&service->row);

            pack_text(&row, 1, shard.id);
            pack_bytes(&row, 2, it.bytes);
            pack_u64(&row, 3, it.deliveries);
            pack_row(&answer, FIELD_ROWS, &row);
        }
    }
    request_reply_packed(request, &answer);
}

#define READ(service, rpc, package, word)                                                          \
    {                                                                                              \
        .base = {.path = "/" service "/" rpc,                                                      \
                 .name = rpc,                                                                      \
                 .input = &package##__##word##_request__descriptor,                                \
                 .output = &package##__##word##_response__descriptor,                              \
                 .response_max = SERVICE_ANSWER_MAX},                                              \
        .read = word,                                                                              \
    }
#define BIGFLEET "bigfleet.v1alpha1.Coordinator"
#define MUSTER   "muster.v1.Fleet"
const struct service_method service_read_methods[] = {
    READ(BIGFLEET, "ListShards", bigfleet__v1alpha1, list_shards),
    READ(BIGFLEET, "ListDomainAssignments", bigfleet__v1alpha1, list_domain_assignments),
    READ(BIGFLEET, "ListShardReports", bigfleet__v1alpha1, list_shard_reports),
    READ(BIGFLEET, "ListQuotas", bigfleet__v1alpha1, list_quotas),
    READ(BIGFLEET, "ListProviders", bigfleet__v1alpha1, list_providers),
    READ(MUSTER, "ListClusters", muster__v1, list_clusters),
    READ(MUSTER, "ListInstructions", muster__v1, list_instructions),
    {.base = {.path = NULL}},
};
