/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the tools, and the list of all tables. */
#include "common/tables.h"
#include "common/tables_internal.h"

/* -- musterctl: these say something about one call, so they are flags only -- */

#define OPTION_DIR                                                                                 \
    {                                                                                              \
        .name = "dir", .kind = OPTION_STRING, .flags = OPTION_FLAG_ONLY, .placeholder = "DIR",     \
        .fallback = "tls", .help = "the directory of the authority: ca.pem and ca.key.pem"         \
    }
#define OPTION_JSON                                                                                \
    {                                                                                              \
        .name = "json", .kind = OPTION_BOOL, .flags = OPTION_FLAG_ONLY,                            \
        .help = "print one JSON object a line instead of text"                                     \
    }
#define OPTION_DAYS(otherwise, most)                                                               \
    {                                                                                              \
        .name = "days", .kind = OPTION_U64, .flags = OPTION_FLAG_ONLY, .fallback = (otherwise),    \
        .min = 1, .max = (most), .help = "how long it is valid"                                    \
    }
#define OPTION_COMMON_NAME                                                                         \
    {                                                                                              \
        .name = "common-name", .kind = OPTION_STRING, .flags = OPTION_FLAG_ONLY,                   \
        .placeholder = "NAME", .fallback = "muster-dev-ca",                                        \
        .help = "how the authority calls itself"                                                   \
    }
#define OPTION_STRICT                                                                              \
    {                                                                                              \
        .name = "strict-permissions", .kind = OPTION_BOOL, .flags = OPTION_FLAG_ONLY,              \
        .help = "refuse a key that others may read, instead of warning about it"                   \
    }
#define OPTION_ROLLOUT                                                                             \
    {                                                                                              \
        .name = "rollout", .kind = OPTION_BOOL, .flags = OPTION_FLAG_ONLY,                         \
        .help =                                                                                    \
            "make the development authority that rollout workers expect: rollout-dev-ca, valid "   \
            "from 1975 to 4096; --days and --common-name do not matter then"                       \
    }
#define OPTION_FORCE(what)                                                                         \
    {                                                                                              \
        .name = "force", .kind = OPTION_BOOL, .flags = OPTION_FLAG_ONLY, .help = (what)            \
    }
#define OPTION_NEW_KEY                                                                             \
    {                                                                                              \
        .name = "new-key", .kind = OPTION_BOOL, .flags = OPTION_FLAG_ONLY,                         \
        .help = "with a renewal, make a fresh key too; otherwise the key stays"                    \
    }

static const struct option cert_ca_options[] = {
    OPTION_DIR,     OPTION_COMMON_NAME, OPTION_DAYS("3650", 36500),
    OPTION_ROLLOUT, OPTION_STRICT,      OPTION_JSON,
};
TABLE(cert_ca);

static const struct option cert_rotate_options[] = {
    OPTION_DIR,     OPTION_COMMON_NAME, OPTION_DAYS("3650", 36500),
    OPTION_ROLLOUT, OPTION_STRICT,      OPTION_JSON,
};
TABLE(cert_rotate);

static const struct option cert_retire_options[] = {
    OPTION_DIR,
    OPTION_FORCE("drop the old roots though a certificate here is still signed by one"),
    OPTION_STRICT,
    OPTION_JSON,
};
TABLE(cert_retire);

static const struct option cert_issue_options[] = {
    OPTION_DIR,
    {.name = "id",
     .kind = OPTION_STRING,
     .flags = OPTION_FLAG_ONLY,
     .placeholder = "ID",
     .example = "1",
     .help = "which one: the replica's, shard's, cluster's, provider's, worker's or "
             "store client's id"},
    {.name = "names",
     .kind = OPTION_LIST,
     .flags = OPTION_FLAG_ONLY,
     .placeholder = "NAME,...",
     .example = "node1.example,10.0.0.7",
     .help = "host names and addresses it is served under; without it localhost, 127.0.0.1 and ::1 "
             "for what is a server"},
    OPTION_DAYS("90", 36500),
    {.name = "out",
     .kind = OPTION_STRING,
     .flags = OPTION_FLAG_ONLY,
     .placeholder = "PATH",
     .example = "tls/replica-1",
     .help = "where it goes: PATH.pem and PATH.key.pem, whether or not PATH ends in .pem. Without "
             "it, DIR/KIND-ID or DIR/KIND"},
    OPTION_FORCE("renew it though it is still good"),
    OPTION_NEW_KEY,
    OPTION_JSON,
};
TABLE(cert_issue);

static const struct option cert_renew_options[] = {
    OPTION_DIR,
    OPTION_FORCE("renew it though it is still good"),
    OPTION_NEW_KEY,
    OPTION_JSON,
};
TABLE(cert_renew);

static const struct option cert_show_options[] = {OPTION_JSON};
TABLE(cert_show);

#define OPTION_ROLE                                                                                \
    {                                                                                              \
        .name = "role", .kind = OPTION_ENUM, .choices = role_names, .flags = OPTION_FLAG_ONLY,     \
        .fallback = "dev", .help = "the command of muster the file is for"                         \
    }

const char *const role_names[] = {"dev",      "coordinator", "shard", "operator",
                                  "provider", "worker",      NULL};
const struct role *const roles[] = {&dev_role,      &coordinator_role, &shard_role, &operator_role,
                                    &provider_role, &worker_role,      NULL};
static_assert(ARRAY_LEN(role_names) == ARRAY_LEN(roles), "a role for each name");

static const struct option config_check_options[] = {OPTION_ROLE};
TABLE(config_check);
static const struct option config_reference_options[] = {OPTION_ROLE};
TABLE(config_reference);

#define OPTION_YES                                                                                 \
    {                                                                                              \
        .name = "yes", .kind = OPTION_BOOL, .flags = OPTION_FLAG_ONLY,                             \
        .help = "do it; without this it is only said what would be done"                           \
    }
static const struct option force_config_options[] = {
    OPTION_YES,
    {.name = "address",
     .kind = OPTION_ADDRESS,
     .flags = OPTION_FLAG_ONLY,
     .help = "its address in the new configuration; without it, as it was"},
};
TABLE(force_config);
static const struct option rejoin_options[] = {OPTION_YES};
TABLE(rejoin);
static const struct option set_epoch_options[] = {
    {.name = "data-dir",
     .kind = OPTION_STRING,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "shard-data",
     .placeholder = "DIR",
     .help = "the shard's directory, which must be there"},
};
TABLE(set_epoch);

static const struct option plan_options[] = {
    {.name = "inventory",
     .kind = OPTION_STRING,
     .flags = OPTION_FLAG_ONLY,
     .help = "the machines: a file of JSON, or of one machine a line (*.ndjson)"},
    {.name = "needs",
     .kind = OPTION_STRING,
     .flags = OPTION_FLAG_ONLY,
     .help = "the demand: a file as above; with --generate, how many rows (a tenth of the "
             "machines)"},
    {.name = "generate",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "make a fleet up instead"},
    {.name = "machines",
     .kind = OPTION_U64,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "1000",
     .max = 8 << 20,
     .help = "of a generated fleet"},
    {.name = "clusters",
     .kind = OPTION_U64,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "10",
     .min = 1,
     .max = 100000,
     .help = "of a generated fleet"},
    {.name = "seed",
     .kind = OPTION_U64,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "1",
     .help = "the same seed makes the same fleet"},
    {.name = "adversarial",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "no two generated machines alike"},
    {.name = "dump",
     .kind = OPTION_STRING,
     .flags = OPTION_FLAG_ONLY,
     .help = "write what was generated to DUMP-inventory.ndjson and DUMP-needs.ndjson"},
    {.name = "limit",
     .kind = OPTION_U64,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "40",
     .help = "lines of each list; 0 for all"},
    {.name = "all",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "tell of every need, not only of those that lack something"},
    {.name = "transcript",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "every field of the decision, one line each, for comparing"},
};
TABLE(plan);

const struct option_table *const all_tables[] = {
    &dev_table,
    &coordinator_run_table,
    &shard_run_table,
    &operator_run_table,
    &provider_run_table,
    &worker_run_table,
    &force_config_table,
    &rejoin_table,
    &set_epoch_table,
    &plan_table,
    &cert_ca_table,
    &cert_rotate_table,
    &cert_retire_table,
    &cert_issue_table,
    &cert_renew_table,
    &cert_show_table,
    &config_check_table,
    &config_reference_table,
    &ctl_table,
    &ctl_offline_table,
    &list_shard_reports_table,
    &needs_table,
    &top_table,
    &doctor_table,
    &explain_table,
    &assign_domain_table,
    &unassign_domain_table,
    &remove_shard_table,
    &add_shard_table,
    &bind_cluster_table,
    &set_quota_table,
    &upsert_provider_table,
    &provider_verify_table,
    &member_list_table,
    &status_table,
    &workers_table,
    &partitions_table,
    &work_table,
    &drain_table,
    &test_fence_table,
    &mock_run_table,
    &coordinator_ledger_table,
    &instruction_list_table,
    &instruction_queue_table,
    &replica_add_table,
    &coordinator_restore_table,
    &snapshot_restore_table,
    &coord_table,
    &coord_create_table,
    &coord_cas_table,
    &coord_get_table,
    &coord_delete_table,
    &coord_acquire_table,
    &coord_lease_table,
    &coord_release_table,
    &coord_resize_table,
    &coord_watch_table,
    &coord_exec_table,
    &store_get_table,
    &store_write_table,
    &store_del_table,
    &store_import_table,
    &store_export_table,
    NULL,
};
