/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/dev_register.h"

#include <stdint.h>
#include <stdio.h>

#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum { REQUEST_MAX = 4096, TIMEOUT_MS = 5000, ZONE_QUOTA = 400 };
#define DEV_CLOUD  "cloud"
#define DEV_REGION "eu-1"

/* A request whose fields, in their order, are texts. */
static enum err texts_request(const ProtobufCMessageDescriptor *type, const char *const *texts,
                              struct buf *out)
{
    union {
        ProtobufCMessage base;
        Muster__V1__AddShardRequest shard;
        Bigfleet__V1alpha1__AssignDomainRequest domain;
        Muster__V1__BindClusterRequest cluster;
    } request;

    assert(type->sizeof_message <= sizeof request);
    protobuf_c_message_init(type, &request.base);
    for (unsigned i = 0; texts[i]; i++) {
        assert(i < type->n_fields && type->fields[i].type == PROTOBUF_C_TYPE_STRING);
        *(const char **)(void *)((char *)&request + type->fields[i].offset) = texts[i];
    }
    return message_write(&request.base, out, NULL);
}

static enum err shard_request(const struct dev_register *r, size_t n, struct buf *out)
{
    char id[32], address[32];

    snprintf(id, sizeof id, "shard-%zu", n);
    dev_address(address, r->parts->ports.shards[n].grpc);
    return texts_request(&muster__v1__add_shard_request__descriptor,
                         (const char *const[]){id, address, NULL}, out);
}

static enum err domain_request(const struct dev_register *r, size_t n, struct buf *out)
{
    char id[32];

    snprintf(id, sizeof id, "shard-%zu", dev_zone_shard(n, r->parts->shards));
    return texts_request(&bigfleet__v1alpha1__assign_domain_request__descriptor,
                         (const char *const[]){DEV_ZONE_KEY, dev_zone(n), id, NULL}, out);
}

static enum err cluster_request(const struct dev_register *r, size_t n, struct buf *out)
{
    char id[32];

    snprintf(id, sizeof id, "shard-%zu", dev_cluster_shard(n, r->parts->shards));
    return texts_request(&muster__v1__bind_cluster_request__descriptor,
                         (const char *const[]){dev_cluster(n), id, NULL}, out);
}

static enum err provider_request(const struct dev_register *r, size_t, struct buf *out)
{
    Bigfleet__V1alpha1__ProviderEntry provider = BIGFLEET__V1ALPHA1__PROVIDER_ENTRY__INIT;
    Muster__V1__UpsertProviderRequest request = MUSTER__V1__UPSERT_PROVIDER_REQUEST__INIT;
    char name[] = DEV_CLOUD, region[] = DEV_REGION, address[32];

    dev_address(address, r->parts->ports.provider_grpc);
    provider.name = name;
    provider.region = region;
    provider.address = address;
    request.provider = &provider;
    return message_write(&request.base, out, NULL);
}

/* By the zones each has. Written down for people: what there is to be had, the provider says. */
static enum err quota_request(const struct dev_register *r, size_t, struct buf *out)
{
    Muster__V1__SetQuotaRequest request = MUSTER__V1__SET_QUOTA_REQUEST__INIT;
    Muster__V1__SetQuotaRequest__PerShardEntry slices[DEV_SHARDS_MAX], *pointers[DEV_SHARDS_MAX];
    char name[] = DEV_CLOUD, region[] = DEV_REGION, ids[DEV_SHARDS_MAX][32];

    for (size_t i = 0; i < r->parts->shards; i++) {
        muster__v1__set_quota_request__per_shard_entry__init(&slices[i]);
        snprintf(ids[i], sizeof ids[i], "shard-%zu", i);
        slices[i].key = ids[i];
        for (size_t zone = 0; zone < DEV_ZONES; zone++)
            if (dev_zone_shard(zone, r->parts->shards) == i) slices[i].value += ZONE_QUOTA;
        pointers[i] = &slices[i];
    }
    request.provider = name;
    request.region = region;
    request.per_shard = pointers;
    request.n_per_shard = r->parts->shards;
    return message_write(&request.base, out, NULL);
}

/* The first asks whether all this was told before. NULL: there is no such step. */
static const char *step_request(const struct dev_register *r, struct buf *out)
{
    const struct {
        const char *path;
        size_t count;
        enum err (*make)(const struct dev_register *r, size_t n, struct buf *out);
    } steps[] = {
        {"/bigfleet.v1alpha1.Coordinator/ListDomainAssignments", 1, NULL},
        {"/muster.v1.Fleet/AddShard", r->parts->shards, shard_request},
        {"/bigfleet.v1alpha1.Coordinator/AssignDomain", DEV_ZONES, domain_request},
        {"/muster.v1.Fleet/BindCluster", DEV_OPERATORS, cluster_request},
        {"/muster.v1.Fleet/UpsertProvider", 1, provider_request},
        {"/muster.v1.Fleet/SetQuota", 1, quota_request},
    };
    size_t n = r->step;

    for (size_t i = 0; i < ARRAY_LEN(steps); n -= steps[i++].count)
        if (n < steps[i].count)
            return steps[i].make && steps[i].make(r, n, out) ? NULL : steps[i].path;
    return NULL;
}

static bool told_before(struct str bytes)
{
    ProtobufCMessage *message;
    struct arena arena;
    bool told = false;

    arena_init(&arena, DEV_ANSWER_ARENA_MAX);
    if (!message_read(&bigfleet__v1alpha1__list_domain_assignments_response__descriptor, bytes,
                      NULL, &arena, &message, NULL))
        told =
            ((const Bigfleet__V1alpha1__ListDomainAssignmentsResponse *)message)->n_assignments > 0;
    arena_deinit(&arena);
    return told;
}

static void dev_register_on_answer(void *owner, const struct rpc_client_call *,
                                   const struct rpc_outcome *outcome, struct str bytes)
{
    struct dev_register *r = owner;

    r->asking = false;
    if (outcome->err && outcome->err != ERR_EXISTS) {
        LOG_WARN(r->log, "fleet could not be registered at the coordinators: retrying",
                 log_u64("step", r->step), log_err("err", outcome->err),
                 log_str("why", outcome->text));
        return; /* again, when somebody looks again */
    }
    if (r->step == 0 && told_before(bytes)) {
        r->known = true;
        return;
    }
    r->step++;
    dev_register_go(r);
}

void dev_register_go(struct dev_register *r)
{
    struct rpc_call_options call = {.timeout_ms = TIMEOUT_MS, .idempotent = true};
    struct buf request;

    if (r->known || r->asking) return;
    buf_init(&request, REQUEST_MAX);
    call.path = step_request(r, &request);
    if (!call.path)
        r->known = true;
    else
        r->asking = rpc_unary(r->channel, &call, buf_peek(&request), dev_register_on_answer, r,
                              NULL) == ERR_OK;
    buf_deinit(&request);
}
