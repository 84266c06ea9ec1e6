/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl shard, domain, cluster, quota, provider: reads and changes the fleet tables. Words and
 * columns are BigFleet's where BigFleet has them. One thread. */
#include <stdlib.h>

#include "common/help.h"
#include "common/tables.h"
#include "ctl/inspect.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

const struct command list_shards_command = {
    COMMAND_ROW_WITH(HELP_MUSTERCTL_LIST_SHARDS, list, "[NAME]", 0, 1),
    CTL_RPC(0, CTL_READ(COORDINATOR_PATH "ListShards", bigfleet__v1alpha1__list_shards),
            CTL_COLUMNS(CTL_COLUMN("SHARD", "shard_id"), CTL_COLUMN("ADDRESS", "address"),
                        CTL_COLUMN("REGISTERED", "registered_at_unix_ns", .cell = CTL_TIME),
                        CTL_COLUMN("LAST_HEARTBEAT", "last_heartbeat_unix_ns", .cell = CTL_TIME))),
};

const struct command list_domain_assignments_command = {
    COMMAND_ROW_WITH(HELP_MUSTERCTL_LIST_DOMAIN_ASSIGNMENTS, list, "[NAME]", 0, 1),
    CTL_RPC(0,
            CTL_READ(COORDINATOR_PATH "ListDomainAssignments",
                     bigfleet__v1alpha1__list_domain_assignments),
            CTL_COLUMNS(CTL_COLUMN("TOPOLOGY_KEY", "topology_key"),
                        CTL_COLUMN("TOPOLOGY_VALUE", "topology_value"),
                        CTL_COLUMN("SHARD", "shard_id"))),
};

static int quota_by_shard(const void *a, const void *b)
{
    const Bigfleet__V1alpha1__QuotaAllocation__PerShardEntry *const *one = a, *const *two = b;
    return strcmp((*one)->key, (*two)->key);
}

static void quota_rows(struct text_table *table, const ProtobufCMessage *answer)
{
    const Bigfleet__V1alpha1__ListQuotasResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_allocations; i++) {
        const Bigfleet__V1alpha1__QuotaAllocation *row = list->allocations[i];
        /* A protobuf map has no order. */
        if (row->n_per_shard > 1)
            qsort(row->per_shard, row->n_per_shard, sizeof(void *), quota_by_shard);
        for (size_t j = 0; j < row->n_per_shard; j++) {
            table_text(table, row->provider);
            table_text(table, row->region);
            table_text(table, row->per_shard[j]->key);
            table_number(table, row->per_shard[j]->value);
        }
    }
}

const struct command list_quotas_command = {
    COMMAND_ROW_WITH(HELP_MUSTERCTL_LIST_QUOTAS, list, "[NAME]", 0, 1),
    CTL_RPC(0, CTL_READ(COORDINATOR_PATH "ListQuotas", bigfleet__v1alpha1__list_quotas),
            .rows = quota_rows,
            CTL_COLUMNS(CTL_COLUMN("PROVIDER", NULL), CTL_COLUMN("REGION", NULL),
                        CTL_COLUMN("SHARD", NULL), CTL_COLUMN("SLICE", NULL))),
};

const struct command assign_domain_command = {
    COMMAND_ROW_WITH(HELP_MUSTERCTL_ASSIGN_DOMAIN, assign_domain, "[KEY=VALUE]", 0, 1),
    .argument_sets = "key=value",
    CTL_RPC(BIT(4) | BIT(5),
            CTL_WRITE(COORDINATOR_PATH "AssignDomain", bigfleet__v1alpha1__assign_domain,
                      "musterctl domain list"),
            CTL_FILL({"topology_key", "key"}, {"topology_value", "value"}, {"shard_id", "shard"},
                     {"force_two_owners", "force-two-owners"}),
            .done = "assigned {topology_key}={topology_value} \xe2\x86\x92 {shard_id}"),
};

const struct command unassign_domain_command = {
    COMMAND_ROW_WITH(HELP_MUSTERCTL_UNASSIGN_DOMAIN, unassign_domain, "[KEY=VALUE]", 0, 1),
    .argument_sets = "key=value",
    CTL_RPC(0,
            CTL_WRITE(COORDINATOR_PATH "UnassignDomain", bigfleet__v1alpha1__unassign_domain,
                      "musterctl domain list"),
            CTL_FILL({"topology_key", "key"}, {"topology_value", "value"}),
            .asks = "Nobody will own {topology_key}={topology_value}.",
            .done = "unassigned {topology_key}={topology_value}"),
};

const struct command remove_shard_command = {
    COMMAND_ROW_WITH(HELP_MUSTERCTL_REMOVE_SHARD, remove_shard, "[SHARD]", 0, 1),
    .argument_sets = "shard",
    CTL_RPC(BIT(4) | BIT(5),
            CTL_WRITE(COORDINATOR_PATH "RemoveShard", bigfleet__v1alpha1__remove_shard,
                      "musterctl shard list"),
            CTL_FILL({"shard_id", "shard"}, {"force_two_owners", "force-two-owners"}),
            .asks = "The domains and clusters of shard {shard_id} lose their owner.",
            .done = "removed shard {shard_id}"),
};

/* Reads "shard-0=40". Splits at the last '=', because an id may contain one. */
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

/* -- the groups; each command also keeps its older names -- */

const struct command shard_command = COMMAND_GROUP(
    HELP_MUSTERCTL_SHARD, &list_shards_command,
    COMMAND(
        COMMAND_ROW_WITH(HELP_MUSTERCTL_LIST_SHARD_REPORTS, list_shard_reports, "[SHARD]", 0, 1),
        .argument_sets = "shard",
        CTL_RPC(
            0,
            CTL_READ(COORDINATOR_PATH "ListShardReports", bigfleet__v1alpha1__list_shard_reports),
            CTL_FILL({"shard_id", "shard"}),
            CTL_COLUMNS(CTL_COLUMN("SHARD", "shard_id"), CTL_COLUMN("CYCLE", "cycle"),
                        CTL_COLUMN("RECEIVED", "received_at_unix_ns", .cell = CTL_TIME),
                        CTL_COLUMN("MACHINES", "summary.total_machines"),
                        CTL_COLUMN("FREE", "summary.free_machines"),
                        CTL_COLUMN("SHORTFALLS", "shortfalls", .cell = CTL_COUNT),
                        CTL_COLUMN("PROVIDER", "summary.provider_address", .cell = CTL_OR_DASH)))),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_ADD_SHARD, add_shard, "[SHARD]", 0, 1),
            .argument_sets = "shard",
            CTL_RPC(BIT(4),
                    CTL_WRITE(FLEET_PATH "AddShard", muster__v1__add_shard, "musterctl shard list"),
                    CTL_FILL({"shard_id", "shard"}, {"address", "address"}),
                    .done = "added shard {shard_id} at {address}")),
    &remove_shard_command);

const struct command domain_command = COMMAND_GROUP(
    HELP_MUSTERCTL_DOMAIN, &list_domain_assignments_command,
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_LIST_LEAVING_DOMAINS, list),
            CTL_RPC(0,
                    CTL_READ(FLEET_PATH "ListOwnershipIssues", muster__v1__list_ownership_issues),
                    .more_rows = "contested", /* domains that shards use without owning them */
                    CTL_COLUMNS(CTL_COLUMN("TOPOLOGY_KEY", "topology_key"),
                                CTL_COLUMN("TOPOLOGY_VALUE", "topology_value"),
                                CTL_COLUMN("LEAVING", "shard_id"),
                                CTL_COLUMN("OWNER", "owner_id", .cell = CTL_OR_MINUS),
                                CTL_COLUMN("REASON", "reason", .cell = CTL_OR_MINUS)))),
    &assign_domain_command, &unassign_domain_command);

const struct command cluster_command = COMMAND_GROUP(
    HELP_MUSTERCTL_CLUSTER,
    COMMAND(
        COMMAND_ROW_WITH(HELP_MUSTERCTL_LIST_CLUSTERS, list, "[NAME]", 0, 1),
        CTL_RPC(0, CTL_READ(FLEET_PATH "ListClusters", muster__v1__list_clusters),
                CTL_COLUMNS(CTL_COLUMN("CLUSTER", "cluster_id"), CTL_COLUMN("SHARD", "shard_id")))),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_BIND_CLUSTER, bind_cluster, "[CLUSTER]", 0, 1),
            .argument_sets = "cluster",
            CTL_RPC(BIT(4) | BIT(5),
                    CTL_WRITE(FLEET_PATH "BindCluster", muster__v1__bind_cluster,
                              "musterctl cluster list"),
                    CTL_FILL({"cluster_id", "cluster"}, {"shard_id", "shard"}),
                    .done = "bound cluster {cluster_id} \xe2\x86\x92 {shard_id}")));

const struct command quota_command = COMMAND_GROUP(
    HELP_MUSTERCTL_QUOTA, &list_quotas_command,
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_SET_QUOTA, set_quota, "[PROVIDER]", 0, 1),
            .argument_sets = "provider",
            CTL_RPC(BIT(4) | BIT(5),
                    CTL_WRITE(FLEET_PATH "SetQuota", muster__v1__set_quota, "musterctl quota list"),
                    CTL_FILL({"provider", "provider"}, {"region", "region"}),
                    .prepare = quota_read_slices,
                    .done = "set quota {provider}/{region}: {per_shard} slices")));

const struct command provider_command = COMMAND_GROUP(
    HELP_MUSTERCTL_PROVIDER,
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_LIST_PROVIDERS, list, "[NAME]", 0, 1),
            CTL_RPC(0,
                    CTL_READ(COORDINATOR_PATH "ListProviders", bigfleet__v1alpha1__list_providers),
                    CTL_COLUMNS(CTL_COLUMN("PROVIDER", "name"), CTL_COLUMN("ADDRESS", "address"),
                                CTL_COLUMN("REGION", "region")))),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_UPSERT_PROVIDER, upsert_provider, "[NAME]", 0, 1),
            .argument_sets = "name",
            CTL_RPC(0,
                    CTL_WRITE(FLEET_PATH "UpsertProvider", muster__v1__upsert_provider,
                              "musterctl provider list"),
                    CTL_FILL({"provider.name", "name"}, {"provider.address", "address"},
                             {"provider.region", "region"}),
                    .done = "set provider {provider.name} at {provider.address}")),
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_PROVIDER_VERIFY, provider_verify, "ADDRESS", 1, 1),
            CTL_OFFLINE(BIT(4) | BIT(5) | BIT(6), provider_verify)));
