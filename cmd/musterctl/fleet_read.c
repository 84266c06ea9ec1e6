/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl list-...: the tables of the fleet, in the original's words and columns where it has
 * them. One thread. */
#include <stdlib.h>

#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

const struct command list_shards_command = {
    .name = "list-shards",
    .verb = "list",
    .summary = "the shards that are registered",
    .about = "Lists the registered shards in order of their ids. A shard that has not reported to "
             "the present leader has no last heartbeat yet.",
    .options = &ctl_table,
    .examples = COMMAND_EXAMPLES(
        {"musterctl shard list", "who is registered, and when each was last heard"},
        {"musterctl shard list -o json | jq -r '.shards[].shard_id'", "their ids, for a script"},
        {"musterctl shard list --coordinator c1:7790,c2:7790,c3:7790",
         "whichever of the three leads answers"}),
    .exits = CTL_EXITS,
    CTL_RPC(CTL_READ(COORDINATOR_PATH "ListShards", bigfleet__v1alpha1__list_shards),
            CTL_COLUMNS(CTL_COLUMN("SHARD", "shard_id"), CTL_COLUMN("ADDRESS", "address"),
                        CTL_COLUMN("REGISTERED", "registered_at_unix_ns", .cell = CTL_TIME),
                        CTL_COLUMN("LAST_HEARTBEAT", "last_heartbeat_unix_ns", .cell = CTL_TIME))),
};

const struct command list_domain_assignments_command = {
    .name = "list-domain-assignments",
    .verb = "list",
    .summary = "which shard owns which topology domain",
    .about = "Lists the assigned domains in order of shard, key and value.",
    .options = &ctl_table,
    .examples =
        COMMAND_EXAMPLES({"musterctl domain list", "which shard owns which topology domain"}),
    .exits = CTL_EXITS,
    CTL_RPC(CTL_READ(COORDINATOR_PATH "ListDomainAssignments",
                     bigfleet__v1alpha1__list_domain_assignments),
            CTL_COLUMNS(CTL_COLUMN("TOPOLOGY_KEY", "topology_key"),
                        CTL_COLUMN("TOPOLOGY_VALUE", "topology_value"),
                        CTL_COLUMN("SHARD", "shard_id"))),
};

const struct command list_leaving_domains_command = {
    .name = "list-leaving-domains",
    .verb = "leaving",
    .summary = "domains that their last shard has not given up yet",
    .about = "Lists the domains that were taken from a shard which has not acknowledged it yet, at "
             "most 1,024, the shard that owns each of them by a forced assignment, and why the "
             "last shard still has it: mostly machines that serve there. Then the domains that a "
             "shard acts on although the tables give them to another shard, as after a restore. "
             "With -o json also the shard ids under which two processes report, and the shards "
             "without domains that share a provider with other shards.",
    .options = &ctl_table,
    .examples =
        COMMAND_EXAMPLES({"musterctl domain leaving", "which shards have not acknowledged yet"},
                         {"musterctl domain leaving -o json | jq .duplicates",
                          "shard ids under which two processes report"}),
    .exits = CTL_EXITS,
    CTL_RPC(CTL_READ(FLEET_PATH "ListOwnershipIssues", muster__v1__list_ownership_issues),
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
    .name = "list-quotas",
    .verb = "list",
    .summary = "how many speculative machines each shard may order",
    .about =
        "Lists the quotas in order of provider, region and shard, one row for each shard's slice.",
    .options = &ctl_table,
    .examples = COMMAND_EXAMPLES({"musterctl quota list", "one row for each shard's slice"}),
    .exits = CTL_EXITS,
    CTL_RPC(CTL_READ(COORDINATOR_PATH "ListQuotas", bigfleet__v1alpha1__list_quotas),
            .rows = quota_rows,
            CTL_COLUMNS(CTL_COLUMN("PROVIDER", NULL), CTL_COLUMN("REGION", NULL),
                        CTL_COLUMN("SHARD", NULL), CTL_COLUMN("SLICE", NULL))),
};

const struct command list_providers_command = {
    .name = "list-providers",
    .verb = "list",
    .summary = "the providers machines come from",
    .about = "Lists the providers in order of their names.",
    .options = &ctl_table,
    .examples = COMMAND_EXAMPLES({"musterctl provider list", "name, address and region of each"}),
    .exits = CTL_EXITS,
    CTL_RPC(CTL_READ(COORDINATOR_PATH "ListProviders", bigfleet__v1alpha1__list_providers),
            CTL_COLUMNS(CTL_COLUMN("PROVIDER", "name"), CTL_COLUMN("ADDRESS", "address"),
                        CTL_COLUMN("REGION", "region"))),
};

const struct command list_clusters_command = {
    .name = "list-clusters",
    .verb = "list",
    .summary = "which shard serves which cluster",
    .about = "Lists the clusters that are bound to a shard, in order of their ids.",
    .options = &ctl_table,
    .examples = COMMAND_EXAMPLES({"musterctl cluster list", "which shard serves which cluster"}),
    .exits = CTL_EXITS,
    CTL_RPC(CTL_READ(FLEET_PATH "ListClusters", muster__v1__list_clusters),
            CTL_COLUMNS(CTL_COLUMN("CLUSTER", "cluster_id"), CTL_COLUMN("SHARD", "shard_id"))),
};

const struct command list_shard_reports_command = {
    .name = "list-shard-reports",
    .verb = "reports",
    .summary = "what the shards last reported",
    .about = "Lists what the present leader has heard from the shards: machines, free ones, "
             "shortfalls. A new leader knows a shard again with its next report. The table is a "
             "summary; -o json has every field.",
    .options = &list_shard_reports_table,
    .examples =
        COMMAND_EXAMPLES({"musterctl shard reports", "one row for each shard that reported"},
                         {"musterctl shard reports --shard shard-0 -o json",
                          "all of it: counts by type and zone, every shortfall"}),
    .exits = CTL_EXITS,
    CTL_RPC(CTL_READ(COORDINATOR_PATH "ListShardReports", bigfleet__v1alpha1__list_shard_reports),
            CTL_FILL({"shard_id", "shard"}),
            CTL_COLUMNS(CTL_COLUMN("SHARD", "shard_id"), CTL_COLUMN("CYCLE", "cycle"),
                        CTL_COLUMN("RECEIVED", "received_at_unix_ns", .cell = CTL_TIME),
                        CTL_COLUMN("MACHINES", "summary.total_machines"),
                        CTL_COLUMN("FREE", "summary.free_machines"),
                        CTL_COLUMN("SHORTFALLS", "shortfalls", .cell = CTL_COUNT),
                        CTL_COLUMN("PROVIDER", "summary.provider_address", .cell = CTL_OR_DASH))),
};
