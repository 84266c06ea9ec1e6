/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl domain assign and its like: every change of the fleet's tables. One thread. */
#include "common/help.h"
#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

const struct command assign_domain_command = {
    COMMAND_ROW(HELP_MUSTERCTL_ASSIGN_DOMAIN, assign_domain),
    CTL_RPC(BIT(4) | BIT(5),
            CTL_WRITE(COORDINATOR_PATH "AssignDomain", bigfleet__v1alpha1__assign_domain,
                      "musterctl domain list"),
            CTL_FILL({"topology_key", "key"}, {"topology_value", "value"}, {"shard_id", "shard"},
                     {"force_two_owners", "force-two-owners"}),
            .done = "assigned {topology_key}={topology_value} \xe2\x86\x92 {shard_id}"),
};

const struct command unassign_domain_command = {
    COMMAND_ROW(HELP_MUSTERCTL_UNASSIGN_DOMAIN, unassign_domain),
    CTL_RPC(0,
            CTL_WRITE(COORDINATOR_PATH "UnassignDomain", bigfleet__v1alpha1__unassign_domain,
                      "musterctl domain list"),
            CTL_FILL({"topology_key", "key"}, {"topology_value", "value"}),
            .done = "unassigned {topology_key}={topology_value}"),
};

const struct command remove_shard_command = {
    COMMAND_ROW(HELP_MUSTERCTL_REMOVE_SHARD, remove_shard),
    CTL_RPC(BIT(4) | BIT(5),
            CTL_WRITE(COORDINATOR_PATH "RemoveShard", bigfleet__v1alpha1__remove_shard,
                      "musterctl shard list"),
            CTL_FILL({"shard_id", "shard"}, {"force_two_owners", "force-two-owners"}),
            .asks = "The domains and clusters of the shard lose their owner.",
            .done = "removed shard {shard_id}"),
};

const struct command add_shard_command = {
    COMMAND_ROW(HELP_MUSTERCTL_ADD_SHARD, add_shard),
    CTL_RPC(BIT(4), CTL_WRITE(FLEET_PATH "AddShard", muster__v1__add_shard, "musterctl shard list"),
            CTL_FILL({"shard_id", "shard"}, {"address", "address"}),
            .done = "added shard {shard_id} at {address}"),
};

const struct command bind_cluster_command = {
    COMMAND_ROW(HELP_MUSTERCTL_BIND_CLUSTER, bind_cluster),
    CTL_RPC(BIT(4) | BIT(5),
            CTL_WRITE(FLEET_PATH "BindCluster", muster__v1__bind_cluster, "musterctl cluster list"),
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
    COMMAND_ROW(HELP_MUSTERCTL_SET_QUOTA, set_quota),
    CTL_RPC(BIT(4) | BIT(5),
            CTL_WRITE(FLEET_PATH "SetQuota", muster__v1__set_quota, "musterctl quota list"),
            CTL_FILL({"provider", "provider"}, {"region", "region"}), .prepare = quota_read_slices,
            .done = "set quota {provider}/{region}: {per_shard} slices"),
};

const struct command upsert_provider_command = {
    COMMAND_ROW(HELP_MUSTERCTL_UPSERT_PROVIDER, upsert_provider),
    CTL_RPC(0,
            CTL_WRITE(FLEET_PATH "UpsertProvider", muster__v1__upsert_provider,
                      "musterctl provider list"),
            CTL_FILL({"provider.name", "name"}, {"provider.address", "address"},
                     {"provider.region", "region"}),
            .done = "set provider {provider.name} at {provider.address}"),
};
