/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl list-...: the tables of the fleet, in the original's words and columns where it has
 * them. */
#include <stdlib.h>
#include <string.h>

#include "common/tables.h"
#include "musterctl/commands.h"
#include "musterctl/ctl.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

/* -- shards -- */

static void list_shards_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Bigfleet__V1alpha1__ListShardsResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_shards; i++) {
        table_text(table, list->shards[i]->shard_id);
        table_text(table, list->shards[i]->address);
        table_time(table, list->shards[i]->registered_at_unix_ns);
        table_time(table, list->shards[i]->last_heartbeat_unix_ns);
    }
}

static enum err list_shards(struct ctl *ctl)
{
    static const struct remote_method method = {
        "/bigfleet.v1alpha1.Coordinator/ListShards",
        &bigfleet__v1alpha1__list_shards_response__descriptor, REMOTE_READ, NULL};
    static const char *const columns[] = {"SHARD", "ADDRESS", "REGISTERED", "LAST_HEARTBEAT", NULL};
    Bigfleet__V1alpha1__ListShardsRequest request = BIGFLEET__V1ALPHA1__LIST_SHARDS_REQUEST__INIT;

    return ctl_list(ctl, &method, &request.base, columns, list_shards_rows);
}

static int run_list_shards(void *context, const struct command_call *call)
{
    return ctl_run(context, call, list_shards);
}

static const struct command_example list_shards_examples[] = {
    {"musterctl list-shards", "who is registered, and when each was last heard"},
    {"musterctl list-shards -o json | jq -r '.shards[].shard_id'", "their ids, for a script"},
    {"musterctl list-shards --coordinator c1:7790,c2:7790,c3:7790",
     "whichever of the three leads answers"},
    {NULL, NULL},
};
const struct command list_shards_command = {
    .name = "list-shards",
    .summary = "the shards that are registered",
    .about = "Lists the registered shards in order of their ids. A shard that has not reported to "
             "the present leader has no last heartbeat yet.",
    .options = &ctl_table,
    .examples = list_shards_examples,
    .exits = CTL_EXITS,
    .run = run_list_shards,
};

/* -- domains -- */

static void list_domain_assignments_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Bigfleet__V1alpha1__ListDomainAssignmentsResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_assignments; i++) {
        table_text(table, list->assignments[i]->topology_key);
        table_text(table, list->assignments[i]->topology_value);
        table_text(table, list->assignments[i]->shard_id);
    }
}

static enum err list_domain_assignments(struct ctl *ctl)
{
    static const struct remote_method method = {
        "/bigfleet.v1alpha1.Coordinator/ListDomainAssignments",
        &bigfleet__v1alpha1__list_domain_assignments_response__descriptor, REMOTE_READ, NULL};
    static const char *const columns[] = {"TOPOLOGY_KEY", "TOPOLOGY_VALUE", "SHARD", NULL};
    Bigfleet__V1alpha1__ListDomainAssignmentsRequest request =
        BIGFLEET__V1ALPHA1__LIST_DOMAIN_ASSIGNMENTS_REQUEST__INIT;

    return ctl_list(ctl, &method, &request.base, columns, list_domain_assignments_rows);
}

static int run_list_domain_assignments(void *context, const struct command_call *call)
{
    return ctl_run(context, call, list_domain_assignments);
}

static const struct command_example list_domains_examples[] = {
    {"musterctl list-domain-assignments", "which shard owns which topology domain"},
    {NULL, NULL},
};
const struct command list_domain_assignments_command = {
    .name = "list-domain-assignments",
    .summary = "which shard owns which topology domain",
    .about = "Lists the assigned domains in order of shard, key and value.",
    .options = &ctl_table,
    .examples = list_domains_examples,
    .exits = CTL_EXITS,
    .run = run_list_domain_assignments,
};

/* -- leaving domains -- */

static void list_leaving_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Muster__V1__ListOwnershipIssuesResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_leaving; i++) {
        table_text(table, list->leaving[i]->topology_key);
        table_text(table, list->leaving[i]->topology_value);
        table_text(table, list->leaving[i]->shard_id);
        table_text(table, list->leaving[i]->owner_id[0] ? list->leaving[i]->owner_id : "-");
        table_text(table, list->leaving[i]->reason[0] ? list->leaving[i]->reason : "-");
    }
    for (size_t i = 0; i < list->n_contested; i++) {
        table_text(table, list->contested[i]->topology_key);
        table_text(table, list->contested[i]->topology_value);
        table_text(table, list->contested[i]->shard_id);
        table_text(table, list->contested[i]->owner_id[0] ? list->contested[i]->owner_id : "-");
        table_text(table, list->contested[i]->reason[0] ? list->contested[i]->reason : "-");
    }
}

static enum err list_leaving_domains(struct ctl *ctl)
{
    static const struct remote_method method = {
        "/muster.v1.Fleet/ListOwnershipIssues",
        &muster__v1__list_ownership_issues_response__descriptor, REMOTE_READ, NULL};
    static const char *const columns[] = {"TOPOLOGY_KEY", "TOPOLOGY_VALUE", "LEAVING",
                                          "OWNER",        "REASON",         NULL};
    Muster__V1__ListOwnershipIssuesRequest request =
        MUSTER__V1__LIST_OWNERSHIP_ISSUES_REQUEST__INIT;

    return ctl_list(ctl, &method, &request.base, columns, list_leaving_rows);
}

static int run_list_leaving_domains(void *context, const struct command_call *call)
{
    return ctl_run(context, call, list_leaving_domains);
}

static const struct command_example list_leaving_examples[] = {
    {"musterctl list-leaving-domains", "which shards have not acknowledged yet"},
    {"musterctl list-leaving-domains -o json | jq .duplicates",
     "shard ids under which two processes report"},
    {NULL, NULL},
};
const struct command list_leaving_domains_command = {
    .name = "list-leaving-domains",
    .summary = "domains that their last shard has not given up yet",
    .about = "Lists the domains that were taken from a shard which has not acknowledged it yet, at "
             "most 1,024, the shard that owns each of them by a forced assignment, and why the "
             "last shard still has it: mostly machines that serve there. Then the domains that a "
             "shard acts on although the tables give them to another shard, as after a restore. "
             "With -o json also the shard ids under which two processes report, and the shards "
             "without domains that share a provider with other shards.",
    .options = &ctl_table,
    .examples = list_leaving_examples,
    .exits = CTL_EXITS,
    .run = run_list_leaving_domains,
};

/* -- quotas -- */

static int by_shard(const void *a, const void *b)
{
    const Bigfleet__V1alpha1__QuotaAllocation__PerShardEntry *const *one = a, *const *two = b;
    return strcmp((*one)->key, (*two)->key);
}

static void list_quotas_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Bigfleet__V1alpha1__ListQuotasResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_allocations; i++) {
        const Bigfleet__V1alpha1__QuotaAllocation *row = list->allocations[i];
        /* A map has no order on the wire. */
        if (row->n_per_shard > 1) qsort(row->per_shard, row->n_per_shard, sizeof(void *), by_shard);
        for (size_t j = 0; j < row->n_per_shard; j++) {
            table_text(table, row->provider);
            table_text(table, row->region);
            table_text(table, row->per_shard[j]->key);
            table_number(table, row->per_shard[j]->value);
        }
    }
}

static enum err list_quotas(struct ctl *ctl)
{
    static const struct remote_method method = {
        "/bigfleet.v1alpha1.Coordinator/ListQuotas",
        &bigfleet__v1alpha1__list_quotas_response__descriptor, REMOTE_READ, NULL};
    static const char *const columns[] = {"PROVIDER", "REGION", "SHARD", "SLICE", NULL};
    Bigfleet__V1alpha1__ListQuotasRequest request = BIGFLEET__V1ALPHA1__LIST_QUOTAS_REQUEST__INIT;

    return ctl_list(ctl, &method, &request.base, columns, list_quotas_rows);
}

static int run_list_quotas(void *context, const struct command_call *call)
{
    return ctl_run(context, call, list_quotas);
}

static const struct command_example list_quotas_examples[] = {
    {"musterctl list-quotas", "one row for each shard's slice"},
    {NULL, NULL},
};
const struct command list_quotas_command = {
    .name = "list-quotas",
    .summary = "how many speculative machines each shard may order",
    .about = "Lists the quotas in order of provider, region and shard, one row for each shard's "
             "slice.",
    .options = &ctl_table,
    .examples = list_quotas_examples,
    .exits = CTL_EXITS,
    .run = run_list_quotas,
};

/* -- providers -- */

static void list_providers_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Bigfleet__V1alpha1__ListProvidersResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_providers; i++) {
        table_text(table, list->providers[i]->name);
        table_text(table, list->providers[i]->address);
        table_text(table, list->providers[i]->region);
    }
}

static enum err list_providers(struct ctl *ctl)
{
    static const struct remote_method method = {
        "/bigfleet.v1alpha1.Coordinator/ListProviders",
        &bigfleet__v1alpha1__list_providers_response__descriptor, REMOTE_READ, NULL};
    static const char *const columns[] = {"PROVIDER", "ADDRESS", "REGION", NULL};
    Bigfleet__V1alpha1__ListProvidersRequest request =
        BIGFLEET__V1ALPHA1__LIST_PROVIDERS_REQUEST__INIT;

    return ctl_list(ctl, &method, &request.base, columns, list_providers_rows);
}

static int run_list_providers(void *context, const struct command_call *call)
{
    return ctl_run(context, call, list_providers);
}

static const struct command_example list_providers_examples[] = {
    {"musterctl list-providers", "name, address and region of each"},
    {NULL, NULL},
};
const struct command list_providers_command = {
    .name = "list-providers",
    .summary = "the providers machines come from",
    .about = "Lists the providers in order of their names.",
    .options = &ctl_table,
    .examples = list_providers_examples,
    .exits = CTL_EXITS,
    .run = run_list_providers,
};

/* -- clusters -- */

static void list_clusters_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Muster__V1__ListClustersResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_clusters; i++) {
        table_text(table, list->clusters[i]->cluster_id);
        table_text(table, list->clusters[i]->shard_id);
    }
}

static enum err list_clusters(struct ctl *ctl)
{
    static const struct remote_method method = {"/muster.v1.Fleet/ListClusters",
                                                &muster__v1__list_clusters_response__descriptor,
                                                REMOTE_READ, NULL};
    static const char *const columns[] = {"CLUSTER", "SHARD", NULL};
    Muster__V1__ListClustersRequest request = MUSTER__V1__LIST_CLUSTERS_REQUEST__INIT;

    return ctl_list(ctl, &method, &request.base, columns, list_clusters_rows);
}

static int run_list_clusters(void *context, const struct command_call *call)
{
    return ctl_run(context, call, list_clusters);
}

static const struct command_example list_clusters_examples[] = {
    {"musterctl list-clusters", "which shard serves which cluster"},
    {NULL, NULL},
};
const struct command list_clusters_command = {
    .name = "list-clusters",
    .summary = "which shard serves which cluster",
    .about = "Lists the clusters that are bound to a shard, in order of their ids.",
    .options = &ctl_table,
    .examples = list_clusters_examples,
    .exits = CTL_EXITS,
    .run = run_list_clusters,
};

/* -- reports -- */

static void report_row(struct table *table, const Bigfleet__V1alpha1__ShardReportSnapshot *report)
{
    const Bigfleet__V1alpha1__ShardSummary *summary = report->summary;

    table_text(table, report->shard_id);
    table_number(table, report->cycle);
    table_time(table, report->received_at_unix_ns);
    table_number(table, summary ? summary->total_machines : 0);
    table_number(table, summary ? summary->free_machines : 0);
    table_number(table, (int64_t)report->n_shortfalls);
    table_text(table, summary && summary->provider_address[0] ? summary->provider_address
                                                              : "\xe2\x80\x94");
}

static void list_shard_reports_rows(struct table *table, const ProtobufCMessage *answer)
{
    const Bigfleet__V1alpha1__ListShardReportsResponse *list = (const void *)answer;

    for (size_t i = 0; i < list->n_reports; i++) report_row(table, list->reports[i]);
}

static enum err list_shard_reports(struct ctl *ctl)
{
    static const struct remote_method method = {
        "/bigfleet.v1alpha1.Coordinator/ListShardReports",
        &bigfleet__v1alpha1__list_shard_reports_response__descriptor, REMOTE_READ, NULL};
    static const char *const columns[] = {"SHARD", "CYCLE",      "RECEIVED", "MACHINES",
                                          "FREE",  "SHORTFALLS", "PROVIDER", NULL};
    Bigfleet__V1alpha1__ListShardReportsRequest request =
        BIGFLEET__V1ALPHA1__LIST_SHARD_REPORTS_REQUEST__INIT;

    request.shard_id = ctl_text(conf_text(ctl->conf, "shard"));
    return ctl_list(ctl, &method, &request.base, columns, list_shard_reports_rows);
}

static int run_list_shard_reports(void *context, const struct command_call *call)
{
    return ctl_run(context, call, list_shard_reports);
}

static const struct command_example list_reports_examples[] = {
    {"musterctl list-shard-reports", "one row for each shard that reported"},
    {"musterctl list-shard-reports --shard shard-0 -o json",
     "all of it: counts by type and zone, every shortfall"},
    {NULL, NULL},
};
const struct command list_shard_reports_command = {
    .name = "list-shard-reports",
    .summary = "what the shards last reported",
    .about = "Lists what the present leader has heard from the shards: machines, free ones, "
             "shortfalls. A new leader knows a shard again with its next report. The table is a "
             "summary; -o json has every field.",
    .options = &list_shard_reports_table,
    .examples = list_reports_examples,
    .exits = CTL_EXITS,
    .run = run_list_shard_reports,
};
