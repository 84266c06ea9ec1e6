/* SPDX-License-Identifier: Apache-2.0 */
/* The queries to the coordinators, one table row each. Responses become JSON by their descriptors,
 * so new fields need no code. The store's claims are encoded by hand, because only the holder of a
 * lease may see its id. */
#include <math.h>
#include <stdlib.h>

#include "dash/dash_internal.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_coordination.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"
#include "wire/pb/muster_v1_member.pb-c.h"

#define FLEET       "/muster.v1.Fleet/"
#define COORDINATOR "/bigfleet.v1alpha1.Coordinator/"
#define STORE       "/muster.v1.Coordination/"
#define MEMBERS     "/muster.v1.Membership/"

enum { CLAIMS_SHOWN = 1000 };
#define CLAIMS_PREFIX "muster/"
#define CLAIMS_END    "muster0" /* end of the keys with the prefix: '0' follows '/' */

/* -- copying values from responses into the dashboard -- */

static void parts_took_replicas(void *owner, const ProtobufCMessage *answer)
{
    struct dash *dash = owner;
    const Muster__V1__ListReplicasResponse *list = (const void *)answer;
    uint64_t most = 0, least = UINT64_MAX;

    for (size_t i = 0; i < list->n_replicas; i++) {
        if (!list->replicas[i]->voter) continue;
        most = max_u64(most, list->replicas[i]->match);
        least = min_u64(least, list->replicas[i]->match);
    }
    links_begin_list(&dash->replicas);
    for (size_t i = 0; i < list->n_replicas; i++)
        replicas_listed(dash, list->replicas[i]->replica_id, list->replicas[i]->grpc_address);
    links_end_list(&dash->replicas);
    dash->now.values[SERIES_LAG] = most >= least ? (double)(most - least) : NAN;
}

static void parts_took_shards(void *owner, const ProtobufCMessage *answer)
{
    struct dash *dash = owner;
    const Bigfleet__V1alpha1__ListShardsResponse *list = (const void *)answer;

    links_begin_list(&dash->shards);
    for (size_t i = 0; i < list->n_shards; i++)
        links_listed(&dash->shards, list->shards[i]->shard_id, list->shards[i]->address);
    links_end_list(&dash->shards);
    dash->shards_listed = list->n_shards;
    dash->dirty[TOPIC_SHARDS] = dash->dirty[TOPIC_NEEDS] = true;
}

static void parts_took_reports(void *owner, const ProtobufCMessage *answer)
{
    struct dash *dash = owner;
    const Bigfleet__V1alpha1__ListShardReportsResponse *list = (const void *)answer;
    double machines = 0, shortfalls = 0;

    for (size_t i = 0; i < list->n_reports; i++) {
        const Bigfleet__V1alpha1__ShardReportSnapshot *report = list->reports[i];
        if (report->summary) machines += report->summary->total_machines;
        shortfalls += (double)report->n_shortfalls;
    }
    dash->now.values[SERIES_MACHINES] = machines;
    dash->now.values[SERIES_SHORTFALLS] = shortfalls;
}

static void parts_took_claims(void *owner, const ProtobufCMessage *answer)
{
    struct dash *dash = owner;
    const Muster__V1__RangeResponse *range = (const void *)answer;

    links_begin_list(&dash->groups);
    for (size_t i = 0; i < range->n_entries; i++) {
        const Muster__V1__Entry *e = range->entries[i];
        struct str key = str_of(e->key.data, e->key.len);
        if (e->token) groups_listed(dash, str_tail(key, sizeof CLAIMS_PREFIX - 1));
    }
    links_end_list(&dash->groups);
}

static void parts_took_store(void *owner, const ProtobufCMessage *answer)
{
    struct dash *dash = owner;
    const Muster__V1__StatusResponse *status = (const void *)answer;

    dash->now.values[SERIES_REVISION] = (double)status->revision;
    dash->now.values[SERIES_KEYS] = (double)status->keys;
    dash->now.values[SERIES_LEASES] = (double)status->leases;
}

static void parts_took_workers(void *owner, const ProtobufCMessage *answer)
{
    struct dash *dash = owner;
    const Muster__V1__ClusterStatusResponse *status = (const void *)answer;

    dash->now.values[SERIES_WORKERS] = (double)status->active;
}

/* -- requests and responses that need code of their own -- */

static enum err parts_claims_request(void *, struct buf *into)
{
    Muster__V1__RangeRequest request = MUSTER__V1__RANGE_REQUEST__INIT;
    uint8_t from[] = CLAIMS_PREFIX, end[] = CLAIMS_END;

    request.key = (ProtobufCBinaryData){sizeof from - 1, from};
    request.range_end = (ProtobufCBinaryData){sizeof end - 1, end};
    request.limit = CLAIMS_SHOWN;
    request.keys_only = true;
    return message_write(&request.base, into, NULL);
}

static void parts_write_claims(struct ndjson *json, const ProtobufCMessage *answer)
{
    const Muster__V1__RangeResponse *range = (const void *)answer;

    ndjson_bool(json, STR("more"), range->more);
    ndjson_u64(json, STR("revision"), range->revision);
    ndjson_open_array(json, STR("claims"));
    for (size_t i = 0; i < range->n_entries; i++) {
        const Muster__V1__Entry *e = range->entries[i];
        struct str key = str_of(e->key.data, e->key.len);

        ndjson_open_object(json, NDJSON_ITEM);
        ndjson_string(json, STR("key"), str_tail(key, sizeof CLAIMS_PREFIX - 1));
        ndjson_c_string(json, STR("owner"), e->owner);
        ndjson_u64(json, STR("token"), e->token);
        ndjson_u64(json, STR("revision"), e->revision);
        ndjson_i64(json, STR("ttl_ms"), e->ttl_ms);
        ndjson_i64(json, STR("remaining_ms"), e->remaining_ms);
        ndjson_close_object(json);
    }
    ndjson_close_array(json);
}

/* -- the table -- */

#define PART(in_topic, its_name, its_path, every, package, message, ...)                           \
    {                                                                                              \
        .topic = TOPIC_##in_topic, .name = its_name, .path = its_path, .every_ms = every,          \
        .answer = &package##__##message##__descriptor, __VA_ARGS__                                 \
    }
static const struct question_kind parts_kinds[] = {
    PART(RAFT, "replicas", FLEET "ListReplicas", 1000, muster__v1, list_replicas_response,
         .took = parts_took_replicas, .series = BIT(SERIES_LAG)),
    PART(TOPOLOGY, "shards", COORDINATOR "ListShards", 2000, bigfleet__v1alpha1,
         list_shards_response, .took = parts_took_shards),
    PART(TOPOLOGY, "domains", COORDINATOR "ListDomainAssignments", 3000, bigfleet__v1alpha1,
         list_domain_assignments_response),
    PART(TOPOLOGY, "clusters", FLEET "ListClusters", 3000, muster__v1, list_clusters_response),
    PART(TOPOLOGY, "quotas", COORDINATOR "ListQuotas", 5000, bigfleet__v1alpha1,
         list_quotas_response),
    PART(TOPOLOGY, "providers", COORDINATOR "ListProviders", 5000, bigfleet__v1alpha1,
         list_providers_response),
    PART(TOPOLOGY, "instructions", FLEET "ListInstructions", 2000, muster__v1,
         list_instructions_response),
    PART(FLEET, "reports", COORDINATOR "ListShardReports", 2000, bigfleet__v1alpha1,
         list_shard_reports_response, .took = parts_took_reports,
         .series = BIT(SERIES_MACHINES) | BIT(SERIES_SHORTFALLS)),
    PART(STORE, "status", STORE "Status", 1000, muster__v1, status_response,
         .took = parts_took_store,
         .series = BIT(SERIES_REVISION) | BIT(SERIES_KEYS) | BIT(SERIES_LEASES)),
    PART(STORE, "claims", STORE "Range", 2000, muster__v1, range_response,
         .write = parts_write_claims, .took = parts_took_claims, .request = parts_claims_request),
    PART(WORKERS, "status", MEMBERS "ClusterStatus", 1000, muster__v1, cluster_status_response,
         .took = parts_took_workers, .series = BIT(SERIES_WORKERS)),
    PART(WORKERS, "workers", MEMBERS "ListWorkers", 2000, muster__v1, list_workers_response),
    PART(WORKERS, "partitions", MEMBERS "ListPartitions", 2000, muster__v1,
         list_partitions_response),
    PART(WORKERS, "checkpoints", MEMBERS "ListCheckpoints", 3000, muster__v1,
         list_checkpoints_response),
};

/* -- querying and publishing -- */

void parts_ask(struct dash *dash)
{
    for (size_t i = 0; i < ARRAY_LEN(parts_kinds); i++)
        question_ask(&dash->parts[i], dash->channel);
}

void parts_write(struct dash *dash, enum topic topic, struct ndjson *json)
{
    for (size_t i = 0; i < ARRAY_LEN(parts_kinds); i++)
        if (parts_kinds[i].topic == topic && dash->parts[i].json.len > 0)
            ndjson_raw(json, str_from(parts_kinds[i].name), json_line(&dash->parts[i].json));
    ndjson_open_object(json, STR("errors"));
    for (size_t i = 0; i < ARRAY_LEN(parts_kinds); i++)
        if (parts_kinds[i].topic == topic && dash->parts[i].why[0])
            ndjson_c_string(json, str_from(parts_kinds[i].name), dash->parts[i].why);
    ndjson_close_object(json);
}

enum err parts_open(struct dash *dash)
{
    dash->parts = calloc(ARRAY_LEN(parts_kinds), sizeof *dash->parts);
    for (size_t i = 0; dash->parts && i < ARRAY_LEN(parts_kinds); i++)
        question_init(&dash->parts[i], dash, &parts_kinds[i], dash);
    return dash->parts ? ERR_OK : ERR_NOMEM;
}

void parts_close(struct dash *dash)
{
    for (size_t i = 0; dash->parts && i < ARRAY_LEN(parts_kinds); i++)
        buf_deinit(&dash->parts[i].json);
    free(dash->parts);
}
