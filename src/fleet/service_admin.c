/* SPDX-License-Identifier: Apache-2.0 */
/* The writes: arguments to a command of the tables. Who is told of it is service_follow.c's, when
 * the command is applied. */
#include "fleet/service_internal.h"

typedef Bigfleet__V1alpha1__AssignDomainRequest assign_domain_message;
typedef Bigfleet__V1alpha1__UnassignDomainRequest unassign_domain_message;
typedef Bigfleet__V1alpha1__RemoveShardRequest remove_shard_message;
typedef Muster__V1__AddShardRequest add_shard_message;
typedef Muster__V1__BindClusterRequest bind_cluster_message;
typedef Muster__V1__SetQuotaRequest set_quota_message;
typedef Muster__V1__UpsertProviderRequest upsert_provider_message;

#define MESSAGE(request, type) ((const type *)(const void *)(request)->message)

/* Names and texts in turn, ended by a NULL name; the first that is empty is the answer. */
struct needed {
    const char *name, *text;
};
static bool all_there(struct request *request, const struct needed *fields)
{
    for (; fields->name; fields++) {
        if (fields->text[0]) continue;
        request_refuse(request, GRPC_INVALID_ARGUMENT, "%s: %s required", request->method->name,
                       fields->name);
        return false;
    }
    return true;
}
#define ALL_THERE(request, ...)                                                                    \
    all_there(request, (const struct needed[]){__VA_ARGS__, {NULL, NULL}})

static bool has_leaving(const struct fleet_service *service)
{
    return replica_status(service->leader.replica).level >= FLEET_LEAVING_LEVEL;
}

/* -- bigfleet.v1alpha1.Coordinator -- */

static bool admit_assign_domain(struct request *request)
{
    const assign_domain_message *m = MESSAGE(request, assign_domain_message);

    return ALL_THERE(request, {"topology_key", m->topology_key},
                     {"topology_value", m->topology_value}, {"shard_id", m->shard_id});
}

static enum err assign_domain(struct request *request, struct fleet_command *ret_command)
{
    const assign_domain_message *m = MESSAGE(request, assign_domain_message);

    *ret_command = (struct fleet_command){.kind = FLEET_ASSIGN_DOMAIN,
                                          .assign_domain = {str_from(m->topology_key),
                                                            str_from(m->topology_value),
                                                            str_from(m->shard_id)}};
    /* Below that level no domain is leaving, and there is nothing to force. */
    ret_command->force = m->force_two_owners && has_leaving(service_of(request));
    return ERR_OK;
}

static bool admit_unassign_domain(struct request *request)
{
    const unassign_domain_message *m = MESSAGE(request, unassign_domain_message);

    return ALL_THERE(request, {"topology_key", m->topology_key},
                     {"topology_value", m->topology_value});
}

static enum err unassign_domain(struct request *request, struct fleet_command *ret_command)
{
    const unassign_domain_message *m = MESSAGE(request, unassign_domain_message);

    *ret_command =
        (struct fleet_command){.kind = FLEET_UNASSIGN_DOMAIN,
                               .unassign_domain = {.key = str_from(m->topology_key),
                                                   .value = str_from(m->topology_value)}};
    return ERR_OK;
}

static bool admit_remove_shard(struct request *request)
{
    return ALL_THERE(request, {"shard_id", MESSAGE(request, remove_shard_message)->shard_id});
}

/* A shard that lives acts on its machines after it was removed. A leader that has not heard of it
 * yet cannot know whether it lives, until its silence time has passed. */
static bool is_removable(struct request *request)
{
    struct fleet_service *service = service_of(request);
    const remove_shard_message *m = MESSAGE(request, remove_shard_message);
    mono_time now = loop_now(service->io->loop);
    uint64_t silence = desk_silent_after_ms(service->desk), quiet;
    struct desk_shard kept;

    if (m->force_two_owners || !has_leaving(service) ||
        !desk_find(service->desk, str_from(m->shard_id), &kept))
        return true;
    quiet = mono_elapsed_ms(kept.heard_at, now);
    if (quiet >= silence || (!kept.reported && kept.heard_at.ms > service->led_since.ms))
        return true;
    if (kept.reported)
        request_refuse(request, GRPC_FAILED_PRECONDITION,
                       "RemoveShard: %s reported %llu s ago and still acts on its machines; stop "
                       "its process and wait until it has been silent for %llu s, or set "
                       "force_two_owners (musterctl: --force-two-owners)",
                       m->shard_id, (unsigned long long)(quiet / 1000),
                       (unsigned long long)(silence / 1000));
    else
        request_refuse(request, GRPC_FAILED_PRECONDITION,
                       "RemoveShard: this leader has led for %llu s and does not know yet whether "
                       "%s lives; ask again in %llu s, or set force_two_owners (musterctl: "
                       "--force-two-owners)",
                       (unsigned long long)(quiet / 1000), m->shard_id,
                       (unsigned long long)((silence - quiet + 999) / 1000));
    return false;
}

static enum err remove_shard(struct request *request, struct fleet_command *ret_command)
{
    *ret_command = (struct fleet_command){
        .kind = FLEET_REMOVE_SHARD,
        .remove_shard = str_from(MESSAGE(request, remove_shard_message)->shard_id)};
    return ERR_OK;
}

/* -- muster.v1.Fleet -- */

static bool admit_add_shard(struct request *request)
{
    return ALL_THERE(request, {"shard_id", MESSAGE(request, add_shard_message)->shard_id});
}

static enum err add_shard(struct request *request, struct fleet_command *ret_command)
{
    const add_shard_message *m = MESSAGE(request, add_shard_message);

    *ret_command = (struct fleet_command){.kind = FLEET_ADD_SHARD,
                                          .add_shard = {.id = str_from(m->shard_id),
                                                        .address = str_from(m->address),
                                                        .registered_at = fleet_time_from_unix_ns(
                                                            service_wall_ns(service_of(request)))}};
    return ERR_OK;
}

static bool admit_bind_cluster(struct request *request)
{
    const bind_cluster_message *m = MESSAGE(request, bind_cluster_message);

    return ALL_THERE(request, {"cluster_id", m->cluster_id}, {"shard_id", m->shard_id});
}

static enum err bind_cluster(struct request *request, struct fleet_command *ret_command)
{
    const bind_cluster_message *m = MESSAGE(request, bind_cluster_message);

    *ret_command =
        (struct fleet_command){.kind = FLEET_BIND_CLUSTER,
                               .bind_cluster = {str_from(m->cluster_id), str_from(m->shard_id)}};
    return ERR_OK;
}

static bool admit_set_quota(struct request *request)
{
    const set_quota_message *m = MESSAGE(request, set_quota_message);

    if (!ALL_THERE(request, {"provider", m->provider}, {"region", m->region})) return false;
    if (m->n_per_shard <= FLEET_SLICES_MAX) return true;
    request_refuse(request, GRPC_INVALID_ARGUMENT, "SetQuota: %zu shards in one row, at most %d",
                   m->n_per_shard, FLEET_SLICES_MAX);
    return false;
}

static enum err set_quota(struct request *request, struct fleet_command *ret_command)
{
    const set_quota_message *m = MESSAGE(request, set_quota_message);
    struct fleet_slice *slices =
        arena_calloc(rpc_call_arena(request->call), m->n_per_shard, sizeof *slices);

    if (!slices) return ERR_NOMEM;
    for (size_t i = 0; i < m->n_per_shard; i++)
        slices[i] = (struct fleet_slice){str_from(m->per_shard[i]->key), m->per_shard[i]->value};
    *ret_command = (struct fleet_command){.kind = FLEET_SET_QUOTA,
                                          .set_quota = {.provider = str_from(m->provider),
                                                        .region = str_from(m->region),
                                                        .slices = slices,
                                                        .slice_count = m->n_per_shard}};
    return ERR_OK;
}

static bool admit_upsert_provider(struct request *request)
{
    const upsert_provider_message *m = MESSAGE(request, upsert_provider_message);

    return ALL_THERE(request, {"provider", m->provider ? "there" : ""},
                     {"provider.name", m->provider ? m->provider->name : ""});
}

static enum err upsert_provider(struct request *request, struct fleet_command *ret_command)
{
    const upsert_provider_message *m = MESSAGE(request, upsert_provider_message);

    *ret_command = (struct fleet_command){.kind = FLEET_UPSERT_PROVIDER,
                                          .upsert_provider = {str_from(m->provider->name),
                                                              str_from(m->provider->address),
                                                              str_from(m->provider->region)}};
    return ERR_OK;
}

#define WRITE(service, rpc, package, word)                                                         \
    {                                                                                              \
        .base = {.path = "/" service "/" rpc,                                                      \
                 .name = rpc,                                                                      \
                 .input = &package##__##word##_request__descriptor,                                \
                 .output = &package##__##word##_response__descriptor},                             \
        .admit = admit_##word, .command = word,                                                    \
    }
#define BIGFLEET "bigfleet.v1alpha1.Coordinator"
#define MUSTER   "muster.v1.Fleet"
const struct service_method service_admin_methods[] = {
    WRITE(BIGFLEET, "AssignDomain", bigfleet__v1alpha1, assign_domain),
    WRITE(BIGFLEET, "UnassignDomain", bigfleet__v1alpha1, unassign_domain),
    {.base = {.path = "/" BIGFLEET "/RemoveShard",
              .name = "RemoveShard",
              .input = &bigfleet__v1alpha1__remove_shard_request__descriptor,
              .output = &bigfleet__v1alpha1__remove_shard_response__descriptor},
     .admit = admit_remove_shard,
     .judge = is_removable,
     .command = remove_shard},
    WRITE(MUSTER, "AddShard", muster__v1, add_shard),
    WRITE(MUSTER, "BindCluster", muster__v1, bind_cluster),
    WRITE(MUSTER, "SetQuota", muster__v1, set_quota),
    WRITE(MUSTER, "UpsertProvider", muster__v1, upsert_provider),
    {.base = {.path = NULL}},
};
