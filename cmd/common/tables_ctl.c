/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the commands that call a coordinator. */
#include "common/tables_ctl.h"

#include "common/tables.h"

const char *const plain_outputs[] = {"table", "json", NULL};
const char *const ctl_outputs[] = {"table", "json", "yaml", "wide", "name", NULL};

/* A required text that only a flag can set. */
#define NEEDED(option_name, shown, sample, what)                                                   \
    OPTION(option_name, STRING, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED,                       \
           .placeholder = (shown), .example = (sample), .help = (what))
#define WANTED(option_name, shown, sample, what)                                                   \
    FLAG(option_name, STRING, .placeholder = (shown), .example = (sample), .help = (what))

TABLE(ctl, CTL_OPTIONS);
TABLE(list, OPTIONS_WATCH, CTL_OPTIONS);
TABLE(removal, OPTION_YES, CTL_OPTIONS);
TABLE(ctl_offline, OPTION_OUTPUT);

TABLE(list_shard_reports, WANTED("shard", "ID", "shard-0", "only this one's report"), OPTIONS_WATCH,
      CTL_OPTIONS);

#define OPTION_SHARD                                                                               \
    WANTED("shard", "NAME|ADDRESS", "shard-0.example:7780",                                        \
           "ask this shard alone: its gRPC address, which needs no coordinator, or its name; "     \
           "without it, all that the coordinators list")
TABLE(needs, OPTION_SHARD,
      FLAG("cluster", STRING, .alias = "-n", .placeholder = "ID", .example = "prod-eu-1",
           .help = "only this one's Needs"),
      FLAG_NUMBER("limit", U64, "0", 0, INT32_MAX,
                  "at most so many of a shard, the most important first; 0: all"),
      OPTIONS_WATCH, CTL_OPTIONS);

#define OPTION_MACHINE_LABELS                                                                      \
    WANTED("type", "TYPE", "m5.large", "all machines of this instance type"),                      \
        WANTED("zone", "ZONE", "eu-1a", "all machines of this zone"),                              \
        WANTED("rack", "RACK", "r-17", "all machines with this topology.kubernetes.io/rack"),      \
        WANTED("label", "KEY=VALUE", "example.com/row=7", "all machines with this label")
static const char *const machine_states[] = {"any",         "Speculative", "Creating", "Idle",
                                             "Configuring", "Configured",  "Draining", "Deleting",
                                             "Failed",      NULL};
static const char *const machine_sorts[] = {"id",   "state", "cluster", "type",
                                            "zone", "price", "age",     NULL};
TABLE(machine_list, OPTION_SHARD, OPTION_MACHINE_LABELS,
      FLAG("state", ENUM, .choices = machine_states, .fallback = "any",
           .help = "only machines in this state"),
      WANTED("cluster", "ID", "prod-eu-1", "only this one's machines"),
      FLAG_SWITCH("cordoned", "only machines that are cordoned or drained by order"),
      FLAG("sort", ENUM, .choices = machine_sorts, .fallback = "id",
           .help = "order of the rows; price and age: the largest first"),
      FLAG_NUMBER("limit", U64, "0", 0, INT32_MAX, "at most so many rows; 0: all"), OPTIONS_WATCH,
      CTL_OPTIONS);
TABLE(machine_cordons, OPTION_SHARD, OPTIONS_WATCH, CTL_OPTIONS);
#define OPTION_REASON WANTED("reason", "TEXT", "ticket 4711", "why, for people and the audit")
TABLE(machine_cordon, OPTION_SHARD, OPTION_MACHINE_LABELS, OPTION_REASON,
      CTL_CONNECTION_OPTIONS("10s"));
TABLE(machine_drain, OPTION_SHARD, OPTION_MACHINE_LABELS, OPTION_REASON, OPTION_YES,
      CTL_CONNECTION_OPTIONS("10s"));

TABLE(top,
      FLAG_SWITCH(
          "once",
          "print one picture, all of it, and end; for scripts, and where there is no terminal"),
      FLAG_NUMBER("every", DURATION, "1s", 100, HOUR_MS,
                  "how long to wait before everybody is asked again"),
      CTL_CONNECTION_OPTIONS("2s"));

TABLE(doctor,
      FLAG("data-dir", LIST, .placeholder = "DIR,...", .example = "/var/lib/muster",
           .help = "directories of this machine whose free room is looked at, too"),
      OPTION_OUTPUT, CTL_CONNECTION_OPTIONS("5s"));
TABLE(explain, OPTION_SHARD, CTL_CONNECTION_OPTIONS("10s"));
TABLE(explain_worker, CTL_CONNECTION_OPTIONS("10s"));

TABLE(assign_domain,
      NEEDED("key", "KEY", "topology.kubernetes.io/zone", "topology key of the domain"),
      NEEDED("value", "VALUE", "eu-1a", "topology value of the domain"),
      NEEDED("shard", "ID", "shard-0", "the shard that gets it"),
      FLAG_SWITCH("force-two-owners",
                  "assign it although another shard has not acknowledged that it gave the domain "
                  "up; if that shard's process still runs, both act on the same machines"),
      OPTION_REQUEST_ID, CTL_OPTIONS);

TABLE(unassign_domain,
      NEEDED("key", "KEY", "topology.kubernetes.io/zone", "topology key of the domain"),
      NEEDED("value", "VALUE", "eu-1a", "topology value of the domain"), OPTION_REQUEST_ID,
      CTL_OPTIONS);

TABLE(remove_shard, NEEDED("shard", "ID", "shard-0", "the shard to forget"),
      FLAG_SWITCH("force-two-owners", "remove it although it reported within its silence time; its "
                                      "process goes on acting on its machines until it is stopped"),
      OPTION_YES, OPTION_REQUEST_ID, CTL_OPTIONS);

TABLE(add_shard, NEEDED("shard", "ID", "shard-0", "the new shard"),
      NEEDED("address", "ADDRESS", "shard-0.example:7780", "where operators reach it"),
      OPTION_REQUEST_ID, CTL_OPTIONS);

TABLE(bind_cluster, NEEDED("cluster", "ID", "prod-eu-1", "the cluster"),
      NEEDED("shard", "ID", "shard-0", "the shard that serves it"), OPTION_REQUEST_ID, CTL_OPTIONS);

TABLE(set_quota, NEEDED("provider", "NAME", "aws", "whose machines"),
      NEEDED("region", "NAME", "eu-west-1", "in which region"),
      FLAG("slices", LIST, .placeholder = "SHARD=N,...", .example = "shard-0=40,shard-1=20",
           .help = "machines each shard is meant to order; shards do not enforce it; replaces the "
                   "whole row"),
      FLAG_SWITCH("none", "take every slice away"), OPTION_REQUEST_ID, CTL_OPTIONS);

TABLE(upsert_provider, NEEDED("name", "NAME", "aws", "the provider"),
      NEEDED("address", "ADDRESS", "provider.example:7770", "where shards reach it"),
      WANTED("region", "NAME", "eu-west-1", "the region it serves"), OPTION_REQUEST_ID,
      CTL_OPTIONS);

/* One rule needs a second machine, so --id takes at most two. */
TABLE(provider_verify,
      FLAG("id", LIST, .placeholder = "ID,...", .example = "m-7,m-8",
           .help = "work on these, one or two; without it, on the cheapest that are Speculative, "
                   "else Idle"),
      WANTED("machine-type", "TYPE", "m5.large", "work on machines of this type only"),
      FLAG_TEXT("cluster", "muster-verify", "ID",
                "the cluster a machine is configured for; a provider that waits for the node needs "
                "one that is there"),
      WANTED("blob", "FILE", "user-data", "bootstrap blob of that cluster"),
      WANTED("shard", "ID", "verify",
             "call as this shard, where the provider compares it with the certificate; never one "
             "that exists, because it would be fenced off; without it, a name nobody has"),
      FLAG_NUMBER("wait", DURATION, "5m", 1000, DAY_MS,
                  "how long a machine may take from one state to the next"),
      FLAG_SWITCH("dry-run", "only read, and say which machines would be worked on"),
      FLAG_SWITCH("json", "print one JSON document instead of a table"),
      NUMBER("timeout", DURATION, "30s", 1, DAY_MS,
             "how long one call may take; a List, four times as long"),
      OPTIONS_CTL_TLS("shard", "the provider's"));

static const char *const instruction_kinds[] = {"assign-domain",        "unassign-domain",
                                                "reassign-speculative", "cross-shard-drain",
                                                "transfer-ownership",   NULL};
TABLE(instruction_list, WANTED("shard", "ID", "shard-0", "only what waits for this one"),
      OPTIONS_WATCH, CTL_OPTIONS);

TABLE(instruction_queue,
      OPTION("shards", LIST, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED, .placeholder = "ID,...",
             .example = "shard-0,shard-1",
             .help = "who gets it; each under the same instruction id"),
      OPTION("kind", ENUM, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED,
             .choices = instruction_kinds, .help = "what to do"),
      WANTED("key", "KEY", "topology.kubernetes.io/zone", "of assign-domain and unassign-domain"),
      WANTED("value", "VALUE", "eu-1a", "of assign-domain and unassign-domain"),
      FLAG("machines", LIST, .placeholder = "ID,...", .example = "m-1,m-2",
           .help = "of the other three: which machines"),
      WANTED("priority", "NUMBER", "1000", "of cross-shard-drain: the priority of who needs them"),
      WANTED("from", "ID", "shard-0", "of transfer-ownership: the shard that has them"),
      WANTED("to", "ID", "shard-1", "of transfer-ownership: the shard that gets them"),
      WANTED("id", "ID", NULL, "instruction id; without it, the request id"), OPTION_REQUEST_ID,
      CTL_OPTIONS);

#define OPTION_REVISION                                                                            \
    FLAG("revision", U64, .fallback = "0", .max = INT64_MAX, .placeholder = "N",                   \
         .help = "as of this revision; 0: as of now")
TABLE(store_get, OPTION_REVISION, CTL_OPTIONS);
TABLE(store_ls, OPTION_REVISION, OPTIONS_WATCH, CTL_OPTIONS);

TABLE(store_write, OPTION_REQUEST_ID, CTL_OPTIONS);

TABLE(store_del, FLAG_SWITCH("prefix", "every key that begins with KEY"), OPTION_REQUEST_ID,
      CTL_OPTIONS);

#define STORE_COPY_OPTIONS                                                                         \
    WANTED("prefix", "PREFIX", "app/", "only keys that begin with it; without it, every key"),     \
        FLAG_SWITCH("leased",                                                                      \
                    "also keys that hang on a lease: they stay until somebody deletes them"),      \
        FLAG_SWITCH("replace", "remove what the target has of these keys and the source has not"), \
        CTL_OPTIONS
TABLE(store_import,
      NEEDED("from", "URL", "etcd://old:2379",
             "the etcd to read: etcd://[user:password@]host,..., or etcds:// with "
             "?ca=FILE&cert=FILE&key=FILE"),
      STORE_COPY_OPTIONS);

TABLE(store_export,
      NEEDED("to", "URL", "etcd://new:2379",
             "the etcd to write: etcd://[user:password@]host,..., or etcds:// with "
             "?ca=FILE&cert=FILE&key=FILE"),
      STORE_COPY_OPTIONS);

#define OPTION_RESTORE_ADDRESS                                                                     \
    OPTION("raft-advertise", ADDRESS, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED,                 \
           .example = "node-0.example:7791", .help = "how other replicas reach its Raft port")
TABLE(snapshot_restore,
      NEEDED("data-dir", "DIR", "coord-data", "the data directory to make; what it holds goes"),
      NEEDED("node-id", "NAME", "node-0", "name of the node, as it is started with --id"),
      OPTION_RESTORE_ADDRESS, CTL_OPTIONS,
      /* CTL_OPTIONS are ignored: BigFleet's command lines may have them */);

TABLE(coordinator_restore, NEEDED("data-dir", "DIR", "coord-data", "the data directory to make"),
      OPTION_RESTORE_ADDRESS,
      FLAG_TEXT("id", "node-0", "NAME", "name of the node, as it is started with --id"),
      FLAG_SWITCH("yes", "replace the data that is there"), OPTION_OUTPUT);

TABLE(replica_add,
      NEEDED("id", "HEX", "00c0ffee00c0ffee", "identity of its data directory, 16 digits"),
      NEEDED("name", "NAME", "node-4", "name of the node"),
      OPTION("raft-address", ADDRESS, .flags = OPTION_FLAG_ONLY | OPTION_REQUIRED,
             .example = "node4.example:7791",
             .help = "its Raft port, as the other replicas reach it"),
      FLAG("grpc-address", ADDRESS, .example = "node4.example:7790",
           .help = "its gRPC port, as clients reach it"),
      FLAG("http-address", ADDRESS, .example = "node4.example:8790", .help = "its HTTP port"),
      CTL_OPTIONS);

/* -- workers -- */

TABLE(status, FLAG_SWITCH("json", "the same as --output json"), OPTIONS_WATCH, CTL_OPTIONS);
static const char *const standings[] = {"all", "active", "suspected", "dead", "removed", NULL};
TABLE(workers,
      FLAG("standing", ENUM, .choices = standings, .fallback = "all",
           .help = "only workers of this standing; all: all but removed ones"),
      OPTIONS_WATCH, CTL_OPTIONS);
TABLE(partitions, WANTED("worker", "ID", "01JFEAVS7C5DE5XEAEAB91EBT6", "only this one's"),
      OPTIONS_WATCH, CTL_OPTIONS);
TABLE(work, FLAG_SWITCH("unfinished", "only what waits or runs"), OPTIONS_WATCH, CTL_OPTIONS);
TABLE(drain, FLAG_NUMBER("deadline", DURATION, "60s", 0, DAY_MS, "how long it may take"),
      CTL_OPTIONS);

/* -- rollout's hidden commands -- */

const struct option_table test_fence_table = {NULL, 0}, coordinator_ledger_table = {NULL, 0};
TABLE(mock_run,
      NEEDED("storage", "FILE", "run.db", "a file for the rows of the items; made when absent"),
      NEEDED("run-id", "ULID", "01JFEAVS7C5DE5XEAEAB91EBT5", "the run the items belong to"),
      FLAG_NUMBER("items", U64, "8", 1, 1000, "how many"),
      FLAG_NUMBER("workers", U64, "3", 1, 64, "who share them; the last begins with none"));
