/* SPDX-License-Identifier: Apache-2.0 */
/* The methods that write: they turn a request's arguments into a command of the fleet tables. The
 * command's texts are the request's first fields, by field number. service_follow.c instructs the
 * shards when a command is applied. */
#include "fleet/service_internal.h"
#include "model/ids.h"

typedef Bigfleet__V1alpha1__AssignDomainRequest assign_domain_message;
typedef Bigfleet__V1alpha1__RemoveShardRequest remove_shard_message;
typedef Muster__V1__SetQuotaRequest set_quota_message;
typedef Muster__V1__UpsertProviderRequest upsert_provider_message;

#define MESSAGE(request, type) ((const type *)(const void *)(request)->message)

static bool has_leaving(const struct fleet_service *service)
{
    return replica_status(service->leader.replica).level >= FLEET_LEAVING_LEVEL;
}

/* -- arguments -- */

/* NULL if the request lacks the message with the command's texts. */
static const ProtobufCMessage *texts_of(const struct leader_request *request)
{
    const upsert_provider_message *m = MESSAGE(request, upsert_provider_message);

    if (service_method_of(request)->kind != FLEET_UPSERT_PROVIDER) return request->message;
    return m->provider ? &m->provider->base : NULL;
}

static const char *text_at(const ProtobufCMessage *message, size_t n)
{
    const ProtobufCFieldDescriptor *field = &message->descriptor->fields[n];

    assert(n < message->descriptor->n_fields && field->type == PROTOBUF_C_TYPE_STRING);
    return *(char *const *)(const void *)((const char *)message + field->offset);
}

static bool slices_fit(struct leader_request *request)
{
    const set_quota_message *m = MESSAGE(request, set_quota_message);

    if (m->n_per_shard <= FLEET_SLICES_MAX) return true;
    request_refuse(request, GRPC_INVALID_ARGUMENT, "SetQuota: %zu shards in one row, at most %d",
                   m->n_per_shard, FLEET_SLICES_MAX);
    return false;
}

/* A shard could never give up a row with a text that the shard refuses. */
static bool admit_row_texts(struct leader_request *request, const ProtobufCMessage *m)
{
    static const size_t domain_max[] = {LABEL_KEY_MAX, LABEL_VALUE_MAX, SIZE_MAX}; /* and shard */
    enum fleet_kind kind = service_method_of(request)->kind;
    struct note note;

    if (kind == FLEET_UNASSIGN_DOMAIN || kind == FLEET_REMOVE_SHARD) return true;
    for (size_t i = 0; i < fleet_kind_texts(kind); i++) {
        size_t most = kind == FLEET_ASSIGN_DOMAIN ? domain_max[i] : SIZE_MAX;
        if (!text_check(m->descriptor->fields[i].name, str_from(text_at(m, i)), most, &note))
            continue;
        request_refuse(request, GRPC_INVALID_ARGUMENT, "%s: %s",
                       service_method_of(request)->base.name, note.text);
        return false;
    }
    return true;
}

/* The error names the first empty text. */
static bool admit_texts(struct leader_request *request)
{
    const struct service_method *method = service_method_of(request);
    const ProtobufCMessage *m = texts_of(request);
    size_t i = 0;

    while (m && i < method->needed && text_at(m, i)[0]) i++;
    if (m && i == method->needed)
        return admit_row_texts(request, m) &&
               (method->kind != FLEET_SET_QUOTA || slices_fit(request));
    request_refuse(request, GRPC_INVALID_ARGUMENT, "%s: %s%s required", method->base.name,
                   m == request->message ? ""
                   : m                   ? "provider."
                                         : "provider",
                   m ? m->descriptor->fields[i].name : "");
    return false;
}

static enum err read_slices(struct leader_request *request, struct fleet_quota *quota)
{
    const set_quota_message *m = MESSAGE(request, set_quota_message);
    struct fleet_slice *slices =
        arena_calloc(rpc_call_arena(request->call), m->n_per_shard, sizeof *slices);

    if (!slices) return ERR_NOMEM;
    for (size_t i = 0; i < m->n_per_shard; i++)
        slices[i] = (struct fleet_slice){str_from(m->per_shard[i]->key), m->per_shard[i]->value};
    quota->slices = slices;
    quota->slice_count = m->n_per_shard;
    return ERR_OK;
}

static enum err command_of(struct leader_request *request, struct fleet_command *ret_command)
{
    struct fleet_service *service = service_of(request);
    struct fleet_command command = {.kind = service_method_of(request)->kind};
    enum err err = ERR_OK;

    for (size_t i = 0; i < fleet_kind_texts(command.kind); i++)
        command.texts[i] = str_from(text_at(texts_of(request), i));
    if (command.kind == FLEET_ADD_SHARD)
        command.add_shard.registered_at = fleet_time_from_unix_ns(service_wall_ns(service));
    /* Below FLEET_LEAVING_LEVEL no domain is leaving, so an assignment needs no force. */
    if (command.kind == FLEET_ASSIGN_DOMAIN)
        command.force =
            MESSAGE(request, assign_domain_message)->force_two_owners && has_leaving(service);
    if (command.kind == FLEET_SET_QUOTA) err = read_slices(request, &command.set_quota);
    if (!err) *ret_command = command;
    return err;
}

/* A live shard would act on its machines after its removal. A new leader must wait for the silence
 * time to know whether the shard is alive. */
static bool is_removable(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    const remove_shard_message *m = MESSAGE(request, remove_shard_message);
    mono_time now = loop_now(service->io->loop);
    uint64_t silence = service->reports->options.silent_after_ms, quiet;
    const struct reported_shard *shard = reports_find(service->reports, str_from(m->shard_id));

    if (m->force_two_owners || !has_leaving(service) || !shard) return true;
    quiet = mono_elapsed_ms(shard->heard_at, now);
    if (quiet >= silence || (!shard->reported && shard->heard_at.ms > service->led_since.ms))
        return true;
    if (shard->reported)
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

#define WRITE(service, rpc, package, word, of, needs, ...)                                         \
    SERVICE_METHOD(service, rpc, package, word, .kind = (of), .needed = (needs),                   \
                   .admit = admit_texts, .command = command_of, __VA_ARGS__)
const struct service_method service_admin_methods[] = {
    WRITE(BIGFLEET, "AssignDomain", bigfleet__v1alpha1, assign_domain, FLEET_ASSIGN_DOMAIN, 3),
    WRITE(BIGFLEET, "UnassignDomain", bigfleet__v1alpha1, unassign_domain, FLEET_UNASSIGN_DOMAIN,
          2),
    WRITE(BIGFLEET, "RemoveShard", bigfleet__v1alpha1, remove_shard, FLEET_REMOVE_SHARD, 1,
          .judge = is_removable),
    WRITE(MUSTER, "AddShard", muster__v1, add_shard, FLEET_ADD_SHARD, 1),
    WRITE(MUSTER, "BindCluster", muster__v1, bind_cluster, FLEET_BIND_CLUSTER, 2),
    WRITE(MUSTER, "SetQuota", muster__v1, set_quota, FLEET_SET_QUOTA, 2),
    WRITE(MUSTER, "UpsertProvider", muster__v1, upsert_provider, FLEET_UPSERT_PROVIDER, 1),
    {.base = {.path = NULL}},
};
