/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl domain assign and its like: every change of the fleet's tables. One thread. */
#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

const struct command assign_domain_command = {
    .name = "assign-domain",
    .verb = "assign",
    .summary = "give a topology domain to a shard",
    .about = "Gives a domain that nobody owns to a shard. Asked for again it changes nothing; one "
             "that another shard owns is a conflict: unassign it first. A domain that was taken "
             "from another shard is refused until that shard has acknowledged it (see `musterctl "
             "domain leaving`). The shard is told with its next report.",
    .options = &assign_domain_table,
    .examples = COMMAND_EXAMPLES(
        {"musterctl domain assign --key zone --value eu-1a --shard shard-0",
         "shard-0 owns the machines of zone eu-1a"},
        {"musterctl domain assign --key zone --value eu-1a --shard shard-1 --force-two-owners",
         "the shard that had it is stopped for good and will never acknowledge"}),
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    CTL_RPC(CTL_WRITE(COORDINATOR_PATH "AssignDomain", bigfleet__v1alpha1__assign_domain,
                      "musterctl domain list"),
            CTL_FILL({"topology_key", "key"}, {"topology_value", "value"}, {"shard_id", "shard"},
                     {"force_two_owners", "force-two-owners"}),
            .done = "assigned {topology_key}={topology_value} \xe2\x86\x92 {shard_id}"),
};

const struct command unassign_domain_command = {
    .name = "unassign-domain",
    .verb = "unassign",
    .summary = "take a topology domain from its shard",
    .about = "Takes a domain from the shard that owns it. One that nobody owns is fine. The shard "
             "gets the instruction with each report until it acknowledges; until then the domain "
             "is leaving and no other shard can have it.",
    .options = &unassign_domain_table,
    .examples = COMMAND_EXAMPLES(
        {"musterctl domain unassign --key zone --value eu-1a", "nobody owns it any more"}),
    .exits = CTL_EXITS,
    CTL_RPC(CTL_WRITE(COORDINATOR_PATH "UnassignDomain", bigfleet__v1alpha1__unassign_domain,
                      "musterctl domain list"),
            CTL_FILL({"topology_key", "key"}, {"topology_value", "value"}),
            .done = "unassigned {topology_key}={topology_value}"),
};

const struct command remove_shard_command = {
    .name = "remove-shard",
    .verb = "remove",
    .summary = "forget a shard and all it owns",
    .about = "Removes a shard with its domains and its clusters' bindings; rows of quotas that "
             "name it stay. Stop its process first: a shard that reported within its silence time "
             "is refused. Its domains are leaving until it acknowledges that it gave them up; "
             "another shard gets them before that only with `assign-domain --force-two-owners`.",
    .options = &remove_shard_table,
    .examples =
        COMMAND_EXAMPLES({"musterctl shard remove --shard shard-0", "forget it and all it owns"}),
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    CTL_RPC(CTL_WRITE(COORDINATOR_PATH "RemoveShard", bigfleet__v1alpha1__remove_shard,
                      "musterctl shard list"),
            CTL_FILL({"shard_id", "shard"}, {"force_two_owners", "force-two-owners"}),
            .asks = "The domains and clusters of the shard lose their owner.",
            .done = "removed shard {shard_id}"),
};

const struct command add_shard_command = {
    .name = "add-shard",
    .verb = "add",
    .summary = "register a shard by hand",
    .about = "Registers a shard. A shard does this itself with its first report; by hand it can be "
             "given domains before it runs.",
    .options = &add_shard_table,
    .examples =
        COMMAND_EXAMPLES({"musterctl shard add --shard shard-0 --address shard-0.example:7780",
                          "domains can be given to it before it has started"}),
    .exits = CTL_EXITS | BIT(4),
    CTL_RPC(CTL_WRITE(FLEET_PATH "AddShard", muster__v1__add_shard, "musterctl shard list"),
            CTL_FILL({"shard_id", "shard"}, {"address", "address"}),
            .done = "added shard {shard_id} at {address}"),
};

const struct command bind_cluster_command = {
    .name = "bind-cluster",
    .verb = "bind",
    .summary = "say which shard serves a cluster",
    .about = "Binds a cluster to a shard. The first binding wins: a cluster of another shard is a "
             "conflict.",
    .options = &bind_cluster_table,
    .examples = COMMAND_EXAMPLES(
        {"musterctl cluster bind --cluster prod-eu-1 --shard shard-0", "shard-0 serves prod-eu-1"}),
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    CTL_RPC(CTL_WRITE(FLEET_PATH "BindCluster", muster__v1__bind_cluster, "musterctl cluster list"),
            CTL_FILL({"cluster_id", "cluster"}, {"shard_id", "shard"}),
            .done = "bound cluster {cluster_id} \xe2\x86\x92 {shard_id}"),
};

/* "shard-0=40": the last '=' parts them, for an id may have one. */
static enum err quota_read_slice(struct ctl *ctl, struct str item,
                                 Muster__V1__SetQuotaRequest__PerShardEntry *slice)
{
    size_t at = item.len;
    int64_t number;

    while (at > 0 && item.at[at - 1] != '=') at--;
    if (at < 2 || str_to_i64(str_tail(item, at), &number) || number < 0 || number > INT32_MAX)
        return ctl_fail(ctl, ERR_INVALID, "--slices: needs SHARD=N, as in shard-0=40, got '%.*s'",
                        (int)min_size(item.len, 100), item.at);
    slice->key = arena_dup(&ctl->memory, str_of(item.at, at - 1));
    slice->value = (int32_t)number;
    return slice->key ? ERR_OK : ERR_NOMEM;
}

static enum err quota_read_slices(struct ctl *ctl, ProtobufCMessage *message)
{
    Muster__V1__SetQuotaRequest *request = (void *)message;
    struct option_value list = conf_list(ctl->conf, "slices");
    bool none = conf_bool(ctl->conf, "none");
    enum err err = ERR_OK;

    if (none == (list.item_count > 0))
        return ctl_fail(ctl, ERR_INVALID,
                        "give --slices SHARD=N,..., or --none to take every slice away");
    request->per_shard = arena_calloc(&ctl->memory, list.item_count, sizeof(void *));
    if (!request->per_shard) return ERR_NOMEM;
    for (size_t i = 0; i < list.item_count && !err; i++) {
        Muster__V1__SetQuotaRequest__PerShardEntry *slice =
            arena_alloc(&ctl->memory, sizeof *slice);
        if (!slice) return ERR_NOMEM;
        muster__v1__set_quota_request__per_shard_entry__init(slice);
        err = quota_read_slice(ctl, list.items[i], slice);
        for (size_t j = 0; j < i && !err; j++) {
            if (strcmp(request->per_shard[j]->key, slice->key) == 0)
                err = ctl_fail(ctl, ERR_INVALID, "--slices: %s is there twice", slice->key);
        }
        request->per_shard[request->n_per_shard++] = slice;
    }
    return err;
}

const struct command set_quota_command = {
    .name = "set-quota",
    .verb = "set",
    .summary = "divide a provider's quota of a region among shards",
    .about = "Replaces the slices of one provider and region: a shard that is not named has none.",
    .options = &set_quota_table,
    .examples = COMMAND_EXAMPLES(
        {"musterctl quota set --provider aws --region eu-west-1 --slices shard-0=40,shard-1=20",
         "the row is these two slices from now on"},
        {"musterctl quota set --provider aws --region eu-west-1 --none",
         "no shard has a slice of it"}),
    .exits = CTL_EXITS | BIT(4) | BIT(5),
    CTL_RPC(CTL_WRITE(FLEET_PATH "SetQuota", muster__v1__set_quota, "musterctl quota list"),
            CTL_FILL({"provider", "provider"}, {"region", "region"}), .prepare = quota_read_slices,
            .done = "set quota {provider}/{region}: {per_shard} slices"),
};

const struct command upsert_provider_command = {
    .name = "upsert-provider",
    .verb = "set",
    .summary = "add a provider, or change its address and region",
    .about = "Writes one provider, whether it is there or not.",
    .options = &upsert_provider_table,
    .examples = COMMAND_EXAMPLES(
        {"musterctl provider set --name aws --address provider.example:7770 --region eu-west-1",
         "a new one, or a new address for it"}),
    .exits = CTL_EXITS,
    CTL_RPC(CTL_WRITE(FLEET_PATH "UpsertProvider", muster__v1__upsert_provider,
                      "musterctl provider list"),
            CTL_FILL({"provider.name", "name"}, {"provider.address", "address"},
                     {"provider.region", "region"}),
            .done = "set provider {provider.name} at {provider.address}"),
};
