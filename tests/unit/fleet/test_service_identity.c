/* SPDX-License-Identifier: Apache-2.0 */
/* Access under TLS: the coordinator's part of wire.md 9.5, and all its methods against every kind
 * of certificate. */
#include "service_rig.h"

enum { SHARD_A, ADMIN, READONLY, CLUSTER, NOBODY, TWO };

#define TEXT(literal)                                                                              \
    {                                                                                              \
        "" literal, sizeof(literal) - 1                                                            \
    }
static const struct str uris[] = {TEXT("bigfleet://shard/shard-a"), TEXT("bigfleet://admin"),
                                  TEXT("bigfleet://readonly"), TEXT("bigfleet://cluster/c-1")};
static const struct str two_uris[] = {TEXT("bigfleet://admin"), TEXT("bigfleet://shard/shard-a")};
static const struct tls_identity identities[RIG_CLIENTS] = {
    {.uris = &uris[0], .uri_count = 1},
    {.uris = &uris[1], .uri_count = 1},
    {.uris = &uris[2], .uri_count = 1},
    {.uris = &uris[3], .uri_count = 1},
    {.uri_count = 0, .common_name = TEXT("nobody")},
    {.uris = two_uris, .uri_count = 2},
};

static enum grpc_status report(size_t client, const char *shard)
{
    return rig_try_report((struct rig_call){.client = client},
                          (struct rig_report){.shard = shard, .cycle = 1})
        ->status;
}

TEST(t9_a_shard_reports_for_itself_alone)
{
    struct rig_answer *answer;

    rig_open((struct rig_options){.identities = identities});
    CHECK_U64("its own", report(SHARD_A, "shard-a"), GRPC_OK);
    answer = rig_try_report((struct rig_call){.client = SHARD_A},
                            (struct rig_report){.shard = "shard-b", .cycle = 1});
    CHECK_U64("another's", answer->status, GRPC_PERMISSION_DENIED);
    CHECK_HAS("names the shown identity", answer->text, "bigfleet://shard/shard-a");
    CHECK_HAS("and the needed one", answer->text, "bigfleet://shard/shard-b");
    CHECK_U64("an administrator", report(ADMIN, "shard-a"), GRPC_PERMISSION_DENIED);
    CHECK_U64("empty comes before identity", report(SHARD_A, ""), GRPC_INVALID_ARGUMENT);
    CHECK("the refusal is logged",
          buf_append_byte(&rig.nodes[0].log, '\0') == ERR_OK &&
              strstr(rig.nodes[0].log.data, "certificate identity rejected"));
    CHECK_SIZE("and left no trace",
               rig_lines(&rig.nodes[0], (const char *const[]){"shard-b", NULL}), 0);
    rig_close();
}

TEST(a_registration_is_audited_under_the_shards_name)
{
    rig_open((struct rig_options){.identities = identities});
    CHECK_U64("reported", report(SHARD_A, "shard-a"), GRPC_OK);
    CHECK_SIZE("audited",
               RIG_LINES(&rig.nodes[0], "\"audit\":\"AddShard\"",
                         "\"actor\":\"bigfleet://shard/shard-a\""),
               1);
    rig_close();
}

/* T10, T11, T12 and more. Requests are empty, so an allowed caller gets an argument error or OK. */
enum access { SHARDS_ONLY, WRITES, READS };
static const struct {
    const char *method;
    const ProtobufCMessageDescriptor *input;
    enum access access;
    enum grpc_status allowed; /* the answer to an empty request */
} methods[] = {
    {"ReportShard", &bigfleet__v1alpha1__shard_report__descriptor, SHARDS_ONLY,
     GRPC_INVALID_ARGUMENT},
    {"AssignDomain", &bigfleet__v1alpha1__assign_domain_request__descriptor, WRITES,
     GRPC_INVALID_ARGUMENT},
    {"UnassignDomain", &bigfleet__v1alpha1__unassign_domain_request__descriptor, WRITES,
     GRPC_INVALID_ARGUMENT},
    {"RemoveShard", &bigfleet__v1alpha1__remove_shard_request__descriptor, WRITES,
     GRPC_INVALID_ARGUMENT},
    {"ListShards", &bigfleet__v1alpha1__list_shards_request__descriptor, READS, GRPC_OK},
    {"ListDomainAssignments", &bigfleet__v1alpha1__list_domain_assignments_request__descriptor,
     READS, GRPC_OK},
    {"ListShardReports", &bigfleet__v1alpha1__list_shard_reports_request__descriptor, READS,
     GRPC_OK},
    {"ListQuotas", &bigfleet__v1alpha1__list_quotas_request__descriptor, READS, GRPC_OK},
    {"ListProviders", &bigfleet__v1alpha1__list_providers_request__descriptor, READS, GRPC_OK},
    {".AddShard", &muster__v1__add_shard_request__descriptor, WRITES, GRPC_INVALID_ARGUMENT},
    {".BindCluster", &muster__v1__bind_cluster_request__descriptor, WRITES, GRPC_INVALID_ARGUMENT},
    {".SetQuota", &muster__v1__set_quota_request__descriptor, WRITES, GRPC_INVALID_ARGUMENT},
    {".UpsertProvider", &muster__v1__upsert_provider_request__descriptor, WRITES,
     GRPC_INVALID_ARGUMENT},
    {".ListClusters", &muster__v1__list_clusters_request__descriptor, READS, GRPC_OK},
    {".QueueInstruction", &muster__v1__queue_instruction_request__descriptor, WRITES,
     GRPC_INVALID_ARGUMENT},
    {".ListInstructions", &muster__v1__list_instructions_request__descriptor, READS, GRPC_OK},
};

static bool is_allowed(size_t client, enum access access)
{
    switch (access) {
    case SHARDS_ONLY: return client == SHARD_A;
    case WRITES: return client == ADMIN;
    case READS: return client == ADMIN || client == READONLY;
    }
    return false;
}

TEST(t10_t11_t12_every_method_against_every_certificate)
{
    rig_open((struct rig_options){.identities = identities});
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        for (size_t client = 0; client < RIG_CLIENTS; client++) {
            union {
                ProtobufCMessage base;
                char room[512];
            } empty;
            struct rig_answer *answer;

            CHECK("room", methods[i].input->sizeof_message <= sizeof empty);
            methods[i].input->message_init(&empty.base);
            answer = rig_call((struct rig_call){.client = client}, methods[i].method, &empty.base);
            CHECK_U64(methods[i].method, answer->status,
                      is_allowed(client, methods[i].access) ? methods[i].allowed
                                                            : GRPC_PERMISSION_DENIED);
        }
    rig_close();
}

TEST(an_administrators_change_is_audited_under_its_name)
{
    Muster__V1__AddShardRequest add = MUSTER__V1__ADD_SHARD_REQUEST__INIT;

    rig_open((struct rig_options){.identities = identities});
    add.shard_id = (char *)(uintptr_t) "s";
    CHECK_U64(
        "added",
        rig_call((struct rig_call){.client = ADMIN, .request_id = "r-1"}, ".AddShard", &add.base)
            ->status,
        GRPC_OK);
    CHECK_SIZE("audited",
               RIG_LINES(&rig.nodes[0], "\"audit\":\"AddShard\"", "\"actor\":\"bigfleet://admin\"",
                         "\"request_id\":\"r-1\""),
               1);
    rig_close();
}
