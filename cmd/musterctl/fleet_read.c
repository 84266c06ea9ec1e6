/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl list-...: the tables of the fleet, in the original's words and columns where it has
 * them. One thread. */
#include <stdlib.h>

#include "common/help.h"
#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

const struct command list_shards_command = {
    COMMAND_ROW(HELP_MUSTERCTL_LIST_SHARDS, ctl),
    CTL_RPC(0, CTL_READ(COORDINATOR_PATH "ListShards", bigfleet__v1alpha1__list_shards),
            CTL_COLUMNS(CTL_COLUMN("SHARD", "shard_id"), CTL_COLUMN("ADDRESS", "address"),
                        CTL_COLUMN("REGISTERED", "registered_at_unix_ns", .cell = CTL_TIME),
                        CTL_COLUMN("LAST_HEARTBEAT", "last_heartbeat_unix_ns", .cell = CTL_TIME))),
};

const struct command list_domain_assignments_command = {
    COMMAND_ROW(HELP_MUSTERCTL_LIST_DOMAIN_ASSIGNMENTS, ctl),
    CTL_RPC(0,
            CTL_READ(COORDINATOR_PATH "ListDomainAssignments",
                     bigfleet__v1alpha1__list_domain_assignments),
            CTL_COLUMNS(CTL_COLUMN("TOPOLOGY_KEY", "topology_key"),
                        CTL_COLUMN("TOPOLOGY_VALUE", "topology_value"),
                        CTL_COLUMN("SHARD", "shard_id"))),
};

const struct command list_leaving_domains_command = {
    COMMAND_ROW(HELP_MUSTERCTL_LIST_LEAVING_DOMAINS, ctl),
    CTL_RPC(0, CTL_READ(FLEET_PATH "ListOwnershipIssues", muster__v1__list_ownership_issues),
            .more_rows = "contested", /* that a shard acts on against the tables */
            CTL_COLUMNS(CTL_COLUMN("TOPOLOGY_KEY", "topology_key"),
                        CTL_COLUMN("TOPOLOGY_VALUE", "topology_value"),
                        CTL_COLUMN("LEAVING", "shard_id"),
                        CTL_COLUMN("OWNER", "owner_id", .cell = CTL_OR_MINUS),
                        CTL_COLUMN("REASON", "reason", .cell = CTL_OR_MINUS))),
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
        /* A map has no order on the wire. */
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
    COMMAND_ROW(HELP_MUSTERCTL_LIST_QUOTAS, ctl),
    CTL_RPC(0, CTL_READ(COORDINATOR_PATH "ListQuotas", bigfleet__v1alpha1__list_quotas),
            .rows = quota_rows,
            CTL_COLUMNS(CTL_COLUMN("PROVIDER", NULL), CTL_COLUMN("REGION", NULL),
                        CTL_COLUMN("SHARD", NULL), CTL_COLUMN("SLICE", NULL))),
};

const struct command list_providers_command = {
    COMMAND_ROW(HELP_MUSTERCTL_LIST_PROVIDERS, ctl),
    CTL_RPC(0, CTL_READ(COORDINATOR_PATH "ListProviders", bigfleet__v1alpha1__list_providers),
            CTL_COLUMNS(CTL_COLUMN("PROVIDER", "name"), CTL_COLUMN("ADDRESS", "address"),
                        CTL_COLUMN("REGION", "region"))),
};

const struct command list_clusters_command = {
    COMMAND_ROW(HELP_MUSTERCTL_LIST_CLUSTERS, ctl),
    CTL_RPC(0, CTL_READ(FLEET_PATH "ListClusters", muster__v1__list_clusters),
            CTL_COLUMNS(CTL_COLUMN("CLUSTER", "cluster_id"), CTL_COLUMN("SHARD", "shard_id"))),
};

const struct command list_shard_reports_command = {
    COMMAND_ROW(HELP_MUSTERCTL_LIST_SHARD_REPORTS, list_shard_reports),
    CTL_RPC(0,
            CTL_READ(COORDINATOR_PATH "ListShardReports", bigfleet__v1alpha1__list_shard_reports),
            CTL_FILL({"shard_id", "shard"}),
            CTL_COLUMNS(CTL_COLUMN("SHARD", "shard_id"), CTL_COLUMN("CYCLE", "cycle"),
                        CTL_COLUMN("RECEIVED", "received_at_unix_ns", .cell = CTL_TIME),
                        CTL_COLUMN("MACHINES", "summary.total_machines"),
                        CTL_COLUMN("FREE", "summary.free_machines"),
                        CTL_COLUMN("SHORTFALLS", "shortfalls", .cell = CTL_COUNT),
                        CTL_COLUMN("PROVIDER", "summary.provider_address", .cell = CTL_OR_DASH))),
};
