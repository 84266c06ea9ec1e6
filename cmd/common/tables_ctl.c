/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the commands that call a coordinator. */
#include "common/tables_ctl.h"

#include "common/tables.h"
#include "common/tables_internal.h"

const char *const ctl_outputs[] = {"table", "json", NULL};

/* A text that must be given, and says something about this call only. */
#define NEEDED(option_name, shown, sample, what)                                                   \
    {                                                                                              \
        .name = (option_name), .kind = OPTION_STRING, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED, \
        .placeholder = (shown), .example = (sample), .help = (what)                                \
    }
#define WANTED(option_name, shown, sample, what)                                                   \
    {                                                                                              \
        .name = (option_name), .kind = OPTION_STRING, .flags = OPTION_FLAG_ONLY,                   \
        .placeholder = (shown), .example = (sample), .help = (what)                                \
    }

static const struct option ctl_options[] = {CTL_OPTIONS};
TABLE(ctl);
static const struct option ctl_offline_options[] = {OPTION_OUTPUT};
TABLE(ctl_offline);

static const struct option list_shard_reports_options[] = {
    WANTED("shard", "ID", "shard-0", "only this one's report"),
    CTL_OPTIONS,
};
TABLE(list_shard_reports);

static const struct option needs_options[] = {
    {.name = "shard",
     .kind = OPTION_STRING,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "127.0.0.1:7780",
     .placeholder = "ADDRESS",
     .help = "gRPC address of the shard, as `musterctl list-shards` shows it"},
    WANTED("cluster", "ID", "prod-eu-1", "only this one's Needs"),
    {.name = "limit",
     .kind = OPTION_U64,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "0",
     .max = INT32_MAX,
     .help = "at most so many, the most important first; 0: all"},
    OPTION_OUTPUT,
    {.name = "timeout",
     .kind = OPTION_DURATION,
     .fallback = "10s",
     .min = 1,
     .max = 86400 * 1000ull,
     .help = "how long it may take to reach the shard"},
    OPTIONS_CTL_TLS("readonly", "the shard's"),
};
TABLE(needs);

static const struct option top_options[] = {
    {.name = "once",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "print one picture, all of it, and end; for scripts, and where there is no terminal"},
    {.name = "every",
     .kind = OPTION_DURATION,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "1s",
     .min = 100,
     .max = 3600 * 1000ull,
     .help = "how long to wait before everybody is asked again"},
    CTL_CONNECTION_OPTIONS("2s"),
};
TABLE(top);

static const struct option doctor_options[] = {
    {.name = "data-dir",
     .kind = OPTION_LIST,
     .flags = OPTION_FLAG_ONLY,
     .placeholder = "DIR,...",
     .example = "/var/lib/muster",
     .help = "directories of this machine whose free room is looked at, too"},
    OPTION_OUTPUT,
    CTL_CONNECTION_OPTIONS("5s"),
};
TABLE(doctor);
static const struct option explain_options[] = {CTL_CONNECTION_OPTIONS("10s")};
TABLE(explain);

static const struct option assign_domain_options[] = {
    NEEDED("key", "KEY", "topology.kubernetes.io/zone", "topology key of the domain"),
    NEEDED("value", "VALUE", "eu-1a", "topology value of the domain"),
    NEEDED("shard", "ID", "shard-0", "the shard that gets it"),
    {.name = "force-two-owners",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "assign it although another shard has not acknowledged that it gave the domain up; "
             "if that shard's process still runs, both act on the same machines"},
    OPTION_REQUEST_ID,
    CTL_OPTIONS,
};
TABLE(assign_domain);

static const struct option unassign_domain_options[] = {
    NEEDED("key", "KEY", "topology.kubernetes.io/zone", "topology key of the domain"),
    NEEDED("value", "VALUE", "eu-1a", "topology value of the domain"),
    OPTION_REQUEST_ID,
    CTL_OPTIONS,
};
TABLE(unassign_domain);

static const struct option remove_shard_options[] = {
    NEEDED("shard", "ID", "shard-0", "the shard to forget"),
    {.name = "force-two-owners",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "remove it although it reported within its silence time; its process goes on acting "
             "on its machines until it is stopped"},
    OPTION_REQUEST_ID,
    CTL_OPTIONS,
};
TABLE(remove_shard);

static const struct option add_shard_options[] = {
    NEEDED("shard", "ID", "shard-0", "the new shard"),
    NEEDED("address", "ADDRESS", "shard-0.example:7780", "where operators reach it"),
    OPTION_REQUEST_ID,
    CTL_OPTIONS,
};
TABLE(add_shard);

static const struct option bind_cluster_options[] = {
    NEEDED("cluster", "ID", "prod-eu-1", "the cluster"),
    NEEDED("shard", "ID", "shard-0", "the shard that serves it"),
    OPTION_REQUEST_ID,
    CTL_OPTIONS,
};
TABLE(bind_cluster);

static const struct option set_quota_options[] = {
    NEEDED("provider", "NAME", "aws", "whose machines"),
    NEEDED("region", "NAME", "eu-west-1", "in which region"),
    {.name = "slices",
     .kind = OPTION_LIST,
     .flags = OPTION_FLAG_ONLY,
     .placeholder = "SHARD=N,...",
     .example = "shard-0=40,shard-1=20",
     .help = "how many speculative machines each shard may order; the whole row is replaced"},
    {.name = "none",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "take every slice away"},
    OPTION_REQUEST_ID,
    CTL_OPTIONS,
};
TABLE(set_quota);

static const struct option upsert_provider_options[] = {
    NEEDED("name", "NAME", "aws", "the provider"),
    NEEDED("address", "ADDRESS", "provider.example:7770", "where shards reach it"),
    WANTED("region", "NAME", "eu-west-1", "the region it serves"),
    OPTION_REQUEST_ID,
    CTL_OPTIONS,
};
TABLE(upsert_provider);

/* --id comes twice at most: a second machine is for the one rule that is about two. */
static const struct option provider_verify_options[] = {
    {.name = "id",
     .kind = OPTION_LIST,
     .flags = OPTION_FLAG_ONLY,
     .placeholder = "ID,...",
     .example = "m-7,m-8",
     .help = "work on these, one or two; without it, on the cheapest that are Speculative, else "
             "Idle"},
    WANTED("machine-type", "TYPE", "m5.large", "work on machines of this type only"),
    {.name = "cluster",
     .kind = OPTION_STRING,
     .flags = OPTION_FLAG_ONLY,
     .placeholder = "ID",
     .fallback = "muster-verify",
     .help = "the cluster a machine is configured for; a provider that waits for the node needs "
             "one that is there"},
    WANTED("blob", "FILE", "user-data", "bootstrap blob of that cluster"),
    WANTED("shard", "ID", "verify",
           "call as this shard, where the provider compares it with the certificate; never one "
           "that exists, because it would be fenced off; without it, a name nobody has"),
    {.name = "wait",
     .kind = OPTION_DURATION,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "5m",
     .min = 1000,
     .max = 86400 * 1000ull,
     .help = "how long a machine may take from one state to the next"},
    {.name = "dry-run",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "only read, and say which machines would be worked on"},
    {.name = "json",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "print one JSON document instead of a table"},
    {.name = "timeout",
     .kind = OPTION_DURATION,
     .fallback = "30s",
     .min = 1,
     .max = 86400 * 1000ull,
     .help = "how long one call may take; a List, four times as long"},
    OPTIONS_CTL_TLS("shard", "the provider's"),
};
TABLE(provider_verify);

static const char *const instruction_kinds[] = {"assign-domain",        "unassign-domain",
                                                "reassign-speculative", "cross-shard-drain",
                                                "transfer-ownership",   NULL};
static const struct option instruction_list_options[] = {
    WANTED("shard", "ID", "shard-0", "only what waits for this one"),
    CTL_OPTIONS,
};
TABLE(instruction_list);

static const struct option instruction_queue_options[] = {
    {.name = "shards",
     .kind = OPTION_LIST,
     .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED,
     .placeholder = "ID,...",
     .example = "shard-0,shard-1",
     .help = "who gets it; each under the same instruction id"},
    {.name = "kind",
     .kind = OPTION_ENUM,
     .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED,
     .choices = instruction_kinds,
     .help = "what to do"},
    WANTED("key", "KEY", "topology.kubernetes.io/zone", "of assign-domain and unassign-domain"),
    WANTED("value", "VALUE", "eu-1a", "of assign-domain and unassign-domain"),
    {.name = "machines",
     .kind = OPTION_LIST,
     .flags = OPTION_FLAG_ONLY,
     .placeholder = "ID,...",
     .example = "m-1,m-2",
     .help = "of the other three: which machines"},
    WANTED("priority", "NUMBER", "1000", "of cross-shard-drain: the priority of who needs them"),
    WANTED("from", "ID", "shard-0", "of transfer-ownership: the shard that has them"),
    WANTED("to", "ID", "shard-1", "of transfer-ownership: the shard that gets them"),
    WANTED("id", "ID", NULL, "instruction id; without it, the request id"),
    OPTION_REQUEST_ID,
    CTL_OPTIONS,
};
TABLE(instruction_queue);

static const struct option store_get_options[] = {
    {.name = "revision",
     .kind = OPTION_U64,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "0",
     .max = INT64_MAX,
     .placeholder = "N",
     .help = "as of this revision; 0: as of now"},
    CTL_OPTIONS,
};
TABLE(store_get);

static const struct option store_write_options[] = {OPTION_REQUEST_ID, CTL_OPTIONS};
TABLE(store_write);

static const struct option store_del_options[] = {
    {.name = "prefix",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "every key that begins with KEY"},
    OPTION_REQUEST_ID,
    CTL_OPTIONS,
};
TABLE(store_del);

#define STORE_COPY_OPTIONS                                                                         \
    WANTED("prefix", "PREFIX", "app/", "only keys that begin with it; without it, every key"),     \
        {.name = "leased",                                                                         \
         .kind = OPTION_BOOL,                                                                      \
         .flags = OPTION_FLAG_ONLY,                                                                \
         .help = "also keys that hang on a lease: they stay until somebody deletes them"},         \
        {.name = "replace",                                                                        \
         .kind = OPTION_BOOL,                                                                      \
         .flags = OPTION_FLAG_ONLY,                                                                \
         .help = "remove what the target has of these keys and the source has not"},               \
        CTL_OPTIONS
static const struct option store_import_options[] = {
    NEEDED("from", "URL", "etcd://old:2379",
           "the etcd to read: etcd://[user:password@]host,..., "
           "or etcds:// with ?ca=FILE&cert=FILE&key=FILE"),
    STORE_COPY_OPTIONS,
};
TABLE(store_import);

static const struct option store_export_options[] = {
    NEEDED("to", "URL", "etcd://new:2379",
           "the etcd to write: etcd://[user:password@]host,..., "
           "or etcds:// with ?ca=FILE&cert=FILE&key=FILE"),
    STORE_COPY_OPTIONS,
};
TABLE(store_export);

#define OPTION_RESTORE_ADDRESS                                                                     \
    {                                                                                              \
        .name = "raft-advertise", .kind = OPTION_ADDRESS,                                          \
        .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED, .example = "node-0.example:7791",             \
        .help = "how other replicas reach its Raft port"                                           \
    }
static const struct option snapshot_restore_options[] = {
    NEEDED("data-dir", "DIR", "coord-data", "the data directory to make; what it holds goes"),
    NEEDED("node-id", "NAME", "node-0", "name of the node, as it is started with --id"),
    OPTION_RESTORE_ADDRESS,
    CTL_OPTIONS, /* the original takes them before every command, and this one calls nobody */
};
TABLE(snapshot_restore);

static const struct option coordinator_restore_options[] = {
    NEEDED("data-dir", "DIR", "coord-data", "the data directory to make"),
    OPTION_RESTORE_ADDRESS,
    {.name = "id",
     .kind = OPTION_STRING,
     .flags = OPTION_FLAG_ONLY,
     .placeholder = "NAME",
     .fallback = "node-0",
     .help = "name of the node, as it is started with --id"},
    {.name = "yes",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "replace the data that is there"},
    OPTION_OUTPUT,
};
TABLE(coordinator_restore);

static const struct option replica_add_options[] = {
    NEEDED("id", "HEX", "00c0ffee00c0ffee", "identity of its data directory, 16 digits"),
    NEEDED("name", "NAME", "node-4", "name of the node"),
    {.name = "raft-address",
     .kind = OPTION_ADDRESS,
     .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED,
     .example = "node4.example:7791",
     .help = "its Raft port, as the other replicas reach it"},
    {.name = "grpc-address",
     .kind = OPTION_ADDRESS,
     .flags = OPTION_FLAG_ONLY,
     .example = "node4.example:7790",
     .help = "its gRPC port, as clients reach it"},
    {.name = "http-address",
     .kind = OPTION_ADDRESS,
     .flags = OPTION_FLAG_ONLY,
     .example = "node4.example:8790",
     .help = "its HTTP port"},
    CTL_OPTIONS,
};
TABLE(replica_add);

/* -- workers -- */

#define OPTIONS_WATCH                                                                              \
    {.name = "watch",                                                                              \
     .kind = OPTION_BOOL,                                                                          \
     .flags = OPTION_FLAG_ONLY,                                                                    \
     .help = "again with every change, until it is interrupted"},                                  \
    {                                                                                              \
        .name = "count", .kind = OPTION_U64, .flags = OPTION_FLAG_ONLY, .fallback = "0",           \
        .help = "with --watch: end after so many times; 0: never"                                  \
    }
static const struct option member_list_options[] = {OPTIONS_WATCH, CTL_OPTIONS};
TABLE(member_list);
static const struct option status_options[] = {
    {.name = "json",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "the same as --output json"},
    OPTIONS_WATCH,
    CTL_OPTIONS,
};
TABLE(status);
static const char *const standings[] = {"all", "active", "suspected", "dead", "removed", NULL};
static const struct option workers_options[] = {
    {.name = "standing",
     .kind = OPTION_ENUM,
     .choices = standings,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "all",
     .help = "only those that stand so; all: all but removed ones"},
    OPTIONS_WATCH,
    CTL_OPTIONS,
};
TABLE(workers);
static const struct option partitions_options[] = {
    WANTED("worker", "ID", "01JFEAVS7C5DE5XEAEAB91EBT6", "only this one's"),
    OPTIONS_WATCH,
    CTL_OPTIONS,
};
TABLE(partitions);
static const struct option work_options[] = {
    {.name = "unfinished",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "only what waits or runs"},
    OPTIONS_WATCH,
    CTL_OPTIONS,
};
TABLE(work);
static const struct option drain_options[] = {
    {.name = "deadline",
     .kind = OPTION_DURATION,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "60s",
     .max = 86400 * 1000ull,
     .help = "how long it may take"},
    CTL_OPTIONS,
};
TABLE(drain);

/* -- rollout's hidden commands -- */

const struct option_table test_fence_table = {NULL, 0}, coordinator_ledger_table = {NULL, 0};
static const struct option mock_run_options[] = {
    NEEDED("storage", "FILE", "run.db", "an LMDB file for the rows of the items; made when absent"),
    NEEDED("run-id", "ULID", "01JFEAVS7C5DE5XEAEAB91EBT5", "the run the items belong to"),
    {.name = "items",
     .kind = OPTION_U64,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "8",
     .min = 1,
     .max = 1000,
     .help = "how many"},
    {.name = "workers",
     .kind = OPTION_U64,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "3",
     .min = 1,
     .max = 64,
     .help = "who share them; the last begins with none"},
};
TABLE(mock_run);
