/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl assign-domain and its like: every change of the fleet's tables. */
#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/ctl.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

static char *option(const struct ctl *ctl, const char *name)
{
    return ctl_text(conf_text(ctl->conf, name));
}

/* -- domains -- */

static enum err assign_domain(struct ctl *ctl)
{
    static const struct remote_method method = {
        "/bigfleet.v1alpha1.Coordinator/AssignDomain",
        &bigfleet__v1alpha1__assign_domain_response__descriptor, REMOTE_WRITE,
        "musterctl list-domain-assignments"};
    Bigfleet__V1alpha1__AssignDomainRequest request =
        BIGFLEET__V1ALPHA1__ASSIGN_DOMAIN_REQUEST__INIT;

    request.topology_key = option(ctl, "key");
    request.topology_value = option(ctl, "value");
    request.shard_id = option(ctl, "shard");
    request.force_two_owners = conf_bool(ctl->conf, "force-two-owners");
    return ctl_write(ctl, &method, &request.base, "assigned %s=%s \xe2\x86\x92 %s",
                     request.topology_key, request.topology_value, request.shard_id);
}

static int run_assign_domain(void *context, const struct command_call *call)
{
    return ctl_run(context, call, assign_domain);
}

static const struct command_example assign_examples[] = {
    {"musterctl assign-domain --key zone --value eu-1a --shard shard-0",
     "shard-0 owns the machines of zone eu-1a"},
    {"musterctl assign-domain --key zone --value eu-1a --shard shard-1 --force-two-owners",
     "the shard that had it is stopped for good and will never acknowledge"},
    {NULL, NULL},
};
const struct command assign_domain_command = {
    .name = "assign-domain",
    .summary = "give a topology domain to a shard",
    .about = "Gives a domain that nobody owns to a shard. Asked for again it changes nothing; one "
             "that another shard owns is a conflict: unassign it first. A domain that was taken "
             "from another shard is refused until that shard has acknowledged it (see `musterctl "
             "list-leaving-domains`). The shard is told with its next report.",
    .options = &assign_domain_table,
    .examples = assign_examples,
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    .run = run_assign_domain,
};

static enum err unassign_domain(struct ctl *ctl)
{
    static const struct remote_method method = {
        "/bigfleet.v1alpha1.Coordinator/UnassignDomain",
        &bigfleet__v1alpha1__unassign_domain_response__descriptor, REMOTE_WRITE,
        "musterctl list-domain-assignments"};
    Bigfleet__V1alpha1__UnassignDomainRequest request =
        BIGFLEET__V1ALPHA1__UNASSIGN_DOMAIN_REQUEST__INIT;

    request.topology_key = option(ctl, "key");
    request.topology_value = option(ctl, "value");
    return ctl_write(ctl, &method, &request.base, "unassigned %s=%s", request.topology_key,
                     request.topology_value);
}

static int run_unassign_domain(void *context, const struct command_call *call)
{
    return ctl_run(context, call, unassign_domain);
}

static const struct command_example unassign_examples[] = {
    {"musterctl unassign-domain --key zone --value eu-1a", "nobody owns it any more"},
    {NULL, NULL},
};
const struct command unassign_domain_command = {
    .name = "unassign-domain",
    .summary = "take a topology domain from its shard",
    .about = "Takes a domain from the shard that owns it. One that nobody owns is fine. The shard "
             "gets the instruction with each report until it acknowledges; until then the domain "
             "is leaving and no other shard can have it.",
    .options = &unassign_domain_table,
    .examples = unassign_examples,
    .exits = CTL_EXITS,
    .run = run_unassign_domain,
};

/* -- shards -- */

static enum err remove_shard(struct ctl *ctl)
{
    static const struct remote_method method = {
        "/bigfleet.v1alpha1.Coordinator/RemoveShard",
        &bigfleet__v1alpha1__remove_shard_response__descriptor, REMOTE_WRITE,
        "musterctl list-shards"};
    Bigfleet__V1alpha1__RemoveShardRequest request = BIGFLEET__V1ALPHA1__REMOVE_SHARD_REQUEST__INIT;

    request.shard_id = option(ctl, "shard");
    request.force_two_owners = conf_bool(ctl->conf, "force-two-owners");
    return ctl_write(ctl, &method, &request.base, "removed shard %s", request.shard_id);
}

static int run_remove_shard(void *context, const struct command_call *call)
{
    return ctl_run(context, call, remove_shard);
}

static const struct command_example remove_examples[] = {
    {"musterctl remove-shard --shard shard-0", "forget it and all it owns"},
    {NULL, NULL},
};
const struct command remove_shard_command = {
    .name = "remove-shard",
    .summary = "forget a shard and all it owns",
    .about =
        "Removes a shard with its domains and its clusters' bindings; rows of quotas that name "
        "it stay. Stop its process first: a shard that reported within its silence time is "
        "refused. Its domains are leaving until it acknowledges that it gave them up; another "
        "shard gets them before that only with `assign-domain --force-two-owners`.",
    .options = &remove_shard_table,
    .examples = remove_examples,
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    .run = run_remove_shard,
};

static enum err add_shard(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Fleet/AddShard",
                                                &muster__v1__add_shard_response__descriptor,
                                                REMOTE_WRITE, "musterctl list-shards"};
    Muster__V1__AddShardRequest request = MUSTER__V1__ADD_SHARD_REQUEST__INIT;

    request.shard_id = option(ctl, "shard");
    request.address = option(ctl, "address");
    return ctl_write(ctl, &method, &request.base, "added shard %s at %s", request.shard_id,
                     request.address);
}

static int run_add_shard(void *context, const struct command_call *call)
{
    return ctl_run(context, call, add_shard);
}

static const struct command_example add_examples[] = {
    {"musterctl add-shard --shard shard-0 --address shard-0.example:7780",
     "domains can be given to it before it has started"},
    {NULL, NULL},
};
const struct command add_shard_command = {
    .name = "add-shard",
    .summary = "register a shard by hand",
    .about = "Registers a shard. A shard does this itself with its first report; by hand it can be "
             "given domains before it runs.",
    .options = &add_shard_table,
    .examples = add_examples,
    .exits = CTL_EXITS | BIT(4),
    .run = run_add_shard,
};

/* -- clusters -- */

static enum err bind_cluster(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Fleet/BindCluster",
                                                &muster__v1__bind_cluster_response__descriptor,
                                                REMOTE_WRITE, "musterctl list-clusters"};
    Muster__V1__BindClusterRequest request = MUSTER__V1__BIND_CLUSTER_REQUEST__INIT;

    request.cluster_id = option(ctl, "cluster");
    request.shard_id = option(ctl, "shard");
    return ctl_write(ctl, &method, &request.base, "bound cluster %s \xe2\x86\x92 %s",
                     request.cluster_id, request.shard_id);
}

static int run_bind_cluster(void *context, const struct command_call *call)
{
    return ctl_run(context, call, bind_cluster);
}

static const struct command_example bind_examples[] = {
    {"musterctl bind-cluster --cluster prod-eu-1 --shard shard-0", "shard-0 serves prod-eu-1"},
    {NULL, NULL},
};
const struct command bind_cluster_command = {
    .name = "bind-cluster",
    .summary = "say which shard serves a cluster",
    .about = "Binds a cluster to a shard. The first binding wins: a cluster of another shard is a "
             "conflict.",
    .options = &bind_cluster_table,
    .examples = bind_examples,
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    .run = run_bind_cluster,
};

/* -- quotas -- */

/* "shard-0=40": the last '=' parts them, for an id may have one. */
static enum err read_slice(struct ctl *ctl, struct str item,
                           Muster__V1__SetQuotaRequest__PerShardEntry *slice)
{
    size_t at = item.len;
    int64_t number;

    while (at > 0 && item.at[at - 1] != '=') at--;
    if (at < 2 || str_to_i64(str_tail(item, at), &number) || number < 0 || number > INT32_MAX) {
        note_set(&ctl->note, "--slices: needs SHARD=N, as in shard-0=40, got '%.*s'",
                 (int)min_size(item.len, 100), item.at);
        return ERR_INVALID;
    }
    slice->key = arena_dup(&ctl->memory, str_of(item.at, at - 1));
    slice->value = (int32_t)number;
    return slice->key ? ERR_OK : ERR_NOMEM;
}

static enum err read_slices(struct ctl *ctl, Muster__V1__SetQuotaRequest *request)
{
    struct option_value list = conf_list(ctl->conf, "slices");
    bool none = conf_bool(ctl->conf, "none");
    enum err err = ERR_OK;

    if (none == (list.item_count > 0)) {
        note_set(&ctl->note, "give --slices SHARD=N,..., or --none to take every slice away");
        return ERR_INVALID;
    }
    request->per_shard = arena_calloc(&ctl->memory, list.item_count, sizeof(void *));
    if (!request->per_shard) return ERR_NOMEM;
    for (size_t i = 0; i < list.item_count && !err; i++) {
        Muster__V1__SetQuotaRequest__PerShardEntry *slice =
            arena_alloc(&ctl->memory, sizeof *slice);
        if (!slice) return ERR_NOMEM;
        muster__v1__set_quota_request__per_shard_entry__init(slice);
        err = read_slice(ctl, list.items[i], slice);
        for (size_t j = 0; j < i && !err; j++) {
            if (strcmp(request->per_shard[j]->key, slice->key) != 0) continue;
            note_set(&ctl->note, "--slices: %s is there twice", slice->key);
            err = ERR_INVALID;
        }
        request->per_shard[request->n_per_shard++] = slice;
    }
    return err;
}

static enum err set_quota(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Fleet/SetQuota",
                                                &muster__v1__set_quota_response__descriptor,
                                                REMOTE_WRITE, "musterctl list-quotas"};
    Muster__V1__SetQuotaRequest request = MUSTER__V1__SET_QUOTA_REQUEST__INIT;
    enum err err;

    request.provider = option(ctl, "provider");
    request.region = option(ctl, "region");
    err = read_slices(ctl, &request);
    if (err) return err;
    return ctl_write(ctl, &method, &request.base, "set quota %s/%s: %zu slices", request.provider,
                     request.region, request.n_per_shard);
}

static int run_set_quota(void *context, const struct command_call *call)
{
    return ctl_run(context, call, set_quota);
}

static const struct command_example quota_examples[] = {
    {"musterctl set-quota --provider aws --region eu-west-1 --slices shard-0=40,shard-1=20",
     "the row is these two slices from now on"},
    {"musterctl set-quota --provider aws --region eu-west-1 --none", "no shard has a slice of it"},
    {NULL, NULL},
};
const struct command set_quota_command = {
    .name = "set-quota",
    .summary = "divide a provider's quota of a region among shards",
    .about = "Replaces the slices of one provider and region: a shard that is not named has none.",
    .options = &set_quota_table,
    .examples = quota_examples,
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    .run = run_set_quota,
};

/* -- providers -- */

static enum err upsert_provider(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Fleet/UpsertProvider",
                                                &muster__v1__upsert_provider_response__descriptor,
                                                REMOTE_WRITE, "musterctl list-providers"};
    Bigfleet__V1alpha1__ProviderEntry provider = BIGFLEET__V1ALPHA1__PROVIDER_ENTRY__INIT;
    Muster__V1__UpsertProviderRequest request = MUSTER__V1__UPSERT_PROVIDER_REQUEST__INIT;

    provider.name = option(ctl, "name");
    provider.address = option(ctl, "address");
    provider.region = option(ctl, "region");
    request.provider = &provider;
    return ctl_write(ctl, &method, &request.base, "set provider %s at %s", provider.name,
                     provider.address);
}

static int run_upsert_provider(void *context, const struct command_call *call)
{
    return ctl_run(context, call, upsert_provider);
}

static const struct command_example provider_examples[] = {
    {"musterctl upsert-provider --name aws --address provider.example:7770 --region eu-west-1",
     "a new one, or a new address for it"},
    {NULL, NULL},
};
const struct command upsert_provider_command = {
    .name = "upsert-provider",
    .summary = "add a provider, or change its address and region",
    .about = "Writes one provider, whether it is there or not.",
    .options = &upsert_provider_table,
    .examples = provider_examples,
    .exits = CTL_EXITS,
    .run = run_upsert_provider,
};
