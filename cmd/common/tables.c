#include "common/tables.h"

#define TABLE(name)                                                                                \
    const struct option_table name##_table = {name##_options, ARRAY_LEN(name##_options)}

/* -- muster: what every role has -- */

static const char *const log_levels[] = {"trace", "debug", "info", "warn", "error", NULL};
static const char *const log_formats[] = {"logfmt", "json", NULL};
static const char *const event_sinks[] = {"none", "stdout", "file", NULL};

#define OPTION_CONFIG                                                                              \
    {                                                                                              \
        .name = "config", .kind = OPTION_STRING, .flags = OPTION_NOT_IN_FILE,                      \
        .placeholder = "FILE", .example = "muster.toml",                                           \
        .help = "a TOML file to read options from"                                                 \
    }
#define OPTION_PRINT_CONFIG                                                                        \
    {                                                                                              \
        .name = "print-config", .kind = OPTION_BOOL, .flags = OPTION_FLAG_ONLY,                    \
        .help = "print every value as TOML with where it came from, and end"                       \
    }
#define OPTION_INSECURE                                                                            \
    {                                                                                              \
        .name = "insecure", .kind = OPTION_BOOL, .fallback = "false",                              \
        .help =                                                                                    \
            "allow addresses other than loopback without TLS; said in the log and on the status "  \
            "page"                                                                                 \
    }
#define OPTIONS_TLS                                                                                \
    {.name = "tls.cert-file",                                                                      \
     .kind = OPTION_STRING,                                                                        \
     .placeholder = "FILE",                                                                        \
     .example = "tls/server.pem",                                                                  \
     .help =                                                                                       \
         "certificate chain in PEM; with it every listener speaks TLS. A changed file is noticed " \
         "and read again; a pair that does not match leaves the old one in force"},                \
    {                                                                                              \
        .name = "tls.key-file", .kind = OPTION_STRING, .placeholder = "FILE",                      \
        .example = "tls/server.key.pem", .help = "the private key of tls.cert-file"                \
    }
#define OPTIONS_LOG                                                                                \
    {.name = "log.level",                                                                          \
     .kind = OPTION_ENUM,                                                                          \
     .choices = log_levels,                                                                        \
     .fallback = "info",                                                                           \
     .flags = OPTION_RELOAD,                                                                       \
     .help = "the least serious line that is written"},                                            \
        {.name = "log.format",                                                                     \
         .kind = OPTION_ENUM,                                                                      \
         .choices = log_formats,                                                                   \
         .fallback = "logfmt",                                                                     \
         .help = "how a line is written: key=value for people, JSON for machines"},                \
    {                                                                                              \
        .name = "log.file", .kind = OPTION_STRING, .placeholder = "FILE", .example = "muster.log", \
        .help =                                                                                    \
            "where log lines go; without it, stderr. Opened again on SIGHUP, so a file that was "  \
            "moved away is let go"                                                                 \
    }
#define OPTIONS_EVENTS(otherwise)                                                                  \
    {.name = "events.sink",                                                                        \
     .kind = OPTION_ENUM,                                                                          \
     .choices = event_sinks,                                                                       \
     .fallback = (otherwise),                                                                      \
     .help = "where events go, one JSON object a line"},                                           \
        {.name = "events.file",                                                                    \
         .kind = OPTION_STRING,                                                                    \
         .placeholder = "FILE",                                                                    \
         .fallback = "events.ndjson",                                                              \
         .help = "the file of events.sink = \"file\"; a path that does not begin with / is below " \
                 "data-dir"},                                                                      \
        {.name = "events.file-max",                                                                \
         .kind = OPTION_SIZE,                                                                      \
         .fallback = "64MiB",                                                                      \
         .min = 64 * 1024ull,                                                                      \
         .max = 1ull << 40,                                                                        \
         .help = "when the file has this size it is set aside and a new one begun"},               \
    {                                                                                              \
        .name = "events.files-kept", .kind = OPTION_U64, .fallback = "4", .min = 1, .max = 1000,   \
        .help = "how many files set aside are kept"                                                \
    }

#define OPTION_LIVE_EVERY                                                                          \
    {                                                                                              \
        .name = "http.live-every", .kind = OPTION_DURATION, .fallback = "1s", .min = 100,          \
        .max = 60 * 1000ull, .flags = OPTION_RELOAD,                                               \
        .help = "how often the status page gets new numbers"                                       \
    }
/* Of the replicated log. */
#define OPTIONS_TIMING                                                                             \
    {.name = "election",                                                                           \
     .kind = OPTION_DURATION,                                                                      \
     .fallback = "250ms",                                                                          \
     .min = 10,                                                                                    \
     .max = 60000,                                                                                 \
     .help = "how long a leader may be silent before it is replaced, at least; up to twice this"}, \
        {.name = "heartbeat",                                                                      \
         .kind = OPTION_DURATION,                                                                  \
         .fallback = "50ms",                                                                       \
         .min = 1,                                                                                 \
         .max = 10000,                                                                             \
         .help = "how often a leader speaks"},                                                     \
        {.name = "timing-scale",                                                                   \
         .kind = OPTION_U64,                                                                       \
         .fallback = "100",                                                                        \
         .min = 10,                                                                                \
         .max = 10000,                                                                             \
         .help = "multiplies every time of the log, in per cent: 300 for a slow network"},         \
        {.name = "snapshot-entries",                                                               \
         .kind = OPTION_U64,                                                                       \
         .fallback = "1024",                                                                       \
         .min = 1,                                                                                 \
         .max = 1000000000,                                                                        \
         .help = "entries since the last snapshot before the next"},                               \
        {.name = "snapshot-every",                                                                 \
         .kind = OPTION_DURATION,                                                                  \
         .fallback = "30s",                                                                        \
         .min = 10,                                                                                \
         .help = "how often it is looked whether a snapshot is due"},                              \
    {                                                                                              \
        .name = "trailing-entries", .kind = OPTION_U64, .fallback = "4096", .min = 1,              \
        .max = 1000000000, .help = "entries kept behind a snapshot for replicas that lag"          \
    }

static const struct option dev_options[] = {
    OPTION_CONFIG,
    OPTION_PRINT_CONFIG,
    {.name = "data-dir",
     .kind = OPTION_STRING,
     .placeholder = "DIR",
     .fallback = "dev-data",
     .help = "the directory of this process and, below it, of each replica; made when absent, and "
             "locked while it runs"},
    {.name = "replicas",
     .kind = OPTION_U64,
     .fallback = "3",
     .max = 7,
     .help = "how many coordinators; 0 for none"},
    {.name = "free-ports",
     .kind = OPTION_BOOL,
     .fallback = "false",
     .help = "give them free ports, the same in every run over one data-dir, instead of 7790, 7791 "
             "and 8790, each + 10 for the next"},
    OPTION_INSECURE,
    {.name = "http.listen",
     .kind = OPTION_ADDRESS,
     .fallback = "127.0.0.1:8750",
     .help = "where its own status page, probes and metrics are served; port 0 takes a free one"},
    OPTION_LIVE_EVERY,
    OPTIONS_TLS,
    OPTIONS_LOG,
    OPTIONS_EVENTS("none"),
};
TABLE(dev);

static const struct option coordinator_run_options[] = {
    OPTION_CONFIG,
    OPTION_PRINT_CONFIG,
    {.name = "id",
     .kind = OPTION_STRING,
     .fallback = "node-0",
     .placeholder = "NAME",
     .help = "name of this replica, the same for its whole life. With join addresses it ends in an "
             "ordinal, as the pods of a stateful set do; ordinal 0 founds the cluster"},
    {.name = "data-dir",
     .kind = OPTION_STRING,
     .placeholder = "DIR",
     .fallback = "coord-data",
     .help = "where log, snapshots and identity are kept; made when it is not there"},
    OPTION_INSECURE,
    {.name = "listen",
     .kind = OPTION_ADDRESS,
     .flags = OPTION_LISTEN,
     .fallback = "127.0.0.1:7790",
     .help = "where clients, shards and other replicas call, by gRPC; :7790 is every interface"},
    {.name = "advertise",
     .kind = OPTION_ADDRESS,
     .example = "node-0.example:7790",
     .help = "how they reach it; without it, as it listens, or at the host of raft-advertise if it "
             "listens on every interface"},
    {.name = "raft-bind",
     .kind = OPTION_ADDRESS,
     .flags = OPTION_LISTEN,
     .fallback = "127.0.0.1:7791",
     .help = "where the other replicas' logs reach this one"},
    {.name = "raft-advertise",
     .kind = OPTION_ADDRESS,
     .example = "node-0.example:7791",
     .help = "the address told to them, which may be a name; without it, raft-bind"},
    {.name = "bootstrap",
     .kind = OPTION_BOOL,
     .fallback = "true",
     .help = "found a cluster when the data directory is empty: alone without join addresses, with "
             "them only as ordinal 0 and only if none of the others has a log"},
    {.name = "join-addr",
     .kind = OPTION_LIST,
     .placeholder = "ADDRESS,...",
     .example = "node-0:7790,node-1:7790,node-2:7790",
     .help = "where the replicas answer gRPC: one name that stands for all of them, or each. The "
             "same on every replica"},
    {.name = "bootstrap-state",
     .kind = OPTION_STRING,
     .placeholder = "FILE",
     .example = "fleet.json",
     .help = "quotas and providers to begin with, as JSON; rows that are there already stay as "
             "they are"},
    {.name = "shard-silent-after",
     .kind = OPTION_DURATION,
     .fallback = "60s",
     .min = 100,
     .max = 7 * 86400ull * 1000,
     .help = "how long a shard may send no report before it is called silent: an event, a log line "
             "and a metric, nothing else"},
    OPTIONS_TIMING,
    {.name = "snapshot-export-dir",
     .kind = OPTION_STRING,
     .placeholder = "DIR",
     .example = "/var/backups/muster",
     .help = "where the leader exports the fleet tables; one for each replica, and without it "
             "nothing is exported"},
    {.name = "snapshot-export-interval",
     .kind = OPTION_DURATION,
     .fallback = "5m",
     .max = 7 * 86400ull * 1000,
     .help = "how often; an unchanged state is not exported again. 0: 5m"},
    {.name = "snapshot-export-keep",
     .kind = OPTION_U64,
     .fallback = "48",
     .min = 1,
     .max = 10000,
     .help = "exports that stay; older ones are removed"},
    {.name = "tls.cert-file",
     .kind = OPTION_STRING,
     .placeholder = "FILE",
     .example = "tls/replica-0.pem",
     .also = "--tls-cert",
     .help = "certificate of this replica, as `musterctl cert issue replica` makes it; with it "
             "every listener speaks TLS and callers show who they are. A changed file is noticed"},
    {.name = "tls.key-file",
     .kind = OPTION_STRING,
     .placeholder = "FILE",
     .example = "tls/replica-0.key.pem",
     .also = "--tls-key",
     .help = "its private key"},
    {.name = "tls.ca-file",
     .kind = OPTION_STRING,
     .placeholder = "FILE",
     .example = "tls/ca.pem",
     .also = "--tls-ca",
     .help = "the authority that callers' and replicas' certificates come from"},
    {.name = "http.listen",
     .kind = OPTION_ADDRESS,
     .fallback = "127.0.0.1:8790",
     .flags = OPTION_OFF | OPTION_LISTEN,
     .also = "--metrics-addr",
     .help = "where the status page, probes and metrics are served; port 0 takes a free one, and 0 "
             "alone serves none"},
    OPTION_LIVE_EVERY,
    OPTIONS_LOG,
    OPTIONS_EVENTS("file"), /* who changed what is always accounted for */
};
TABLE(coordinator_run);

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

const char *const role_names[] = {"dev", "coordinator", NULL};
const struct role *const roles[] = {&dev_role, &coordinator_role, NULL};
static_assert(ARRAY_LEN(role_names) == ARRAY_LEN(roles), "a role for each name");

static const struct option config_check_options[] = {OPTION_ROLE};
TABLE(config_check);
static const struct option config_reference_options[] = {OPTION_ROLE};
TABLE(config_reference);

static const struct option log_node_options[] = {
    {.name = "data-dir",
     .kind = OPTION_STRING,
     .fallback = "muster-log",
     .placeholder = "DIR",
     .help = "where log, snapshots and identity are kept; made when it is not there"},
    {.name = "listen",
     .kind = OPTION_ADDRESS,
     .fallback = "127.0.0.1:7791",
     .help = "the Raft port, for the other replicas"},
    {.name = "address",
     .kind = OPTION_ADDRESS,
     .example = "node1.example:7791",
     .help = "how the others reach it; without it, as it listens"},
    {.name = "client-listen",
     .kind = OPTION_ADDRESS,
     .fallback = "127.0.0.1:7792",
     .help = "where requests in text are answered; loopback, for there is no identity here"},
    {.name = "name",
     .kind = OPTION_STRING,
     .fallback = "",
     .placeholder = "NAME",
     .help = "the node's name, a label; under TLS the one its certificate is for"},
    {.name = "join",
     .kind = OPTION_BOOL,
     .flags = OPTION_FLAG_ONLY,
     .help = "make a new data directory for a replica that waits to be added to a cluster"},
    {.name = "founders",
     .kind = OPTION_LIST,
     .placeholder = "ID=ADDRESS,...",
     .example = "1=127.0.0.1:7791,2=127.0.0.1:7801,3=127.0.0.1:7811",
     .help = "make a new data directory of a cluster these found together; the same list, and the "
             "same --cluster, on each"},
    {.name = "id",
     .kind = OPTION_STRING,
     .placeholder = "HEX",
     .help = "identity of a new data directory; without it, drawn"},
    {.name = "cluster",
     .kind = OPTION_STRING,
     .placeholder = "HEX",
     .help = "cluster of a new data directory; needed with several founders"},
    OPTIONS_TIMING,
    {.name = "segment-size",
     .kind = OPTION_SIZE,
     .fallback = "64MiB",
     .min = 1048576,
     .max = 1073741824,
     .help = "size of one file of the log"},
    {.name = "disk-reserve",
     .kind = OPTION_SIZE,
     .fallback = "0",
     .help = "free space below which proposals are refused; 0: 256 MiB or a twentieth of the disk"},
    {.name = "tls.cert-file",
     .kind = OPTION_STRING,
     .placeholder = "FILE",
     .help = "certificate of this replica, as `musterctl cert issue replica` makes it; with it, "
             "replicas speak TLS and show each other who they are"},
    {.name = "tls.key-file", .kind = OPTION_STRING, .placeholder = "FILE", .help = "its key"},
    {.name = "tls.ca-file",
     .kind = OPTION_STRING,
     .placeholder = "FILE",
     .help = "the authority the other replicas' certificates come from"},
};
TABLE(log_node);

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

/* As in sim/scenario.h, and then both. */
static const char *const sim_profiles[] = {"mild", "harsh", "both", NULL};
static const struct option sim_log_options[] = {
    {.name = "seed",
     .kind = OPTION_U64,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "1",
     .help = "the first seed"},
    {.name = "count",
     .kind = OPTION_U64,
     .flags = OPTION_FLAG_ONLY,
     .fallback = "1",
     .min = 1,
     .help = "how many seeds, one after the other"},
    {.name = "profile",
     .kind = OPTION_ENUM,
     .flags = OPTION_FLAG_ONLY,
     .choices = sim_profiles,
     .fallback = "both",
     .help = "how hard the faults are"},
    {.name = "trace", .kind = OPTION_BOOL, .flags = OPTION_FLAG_ONLY, .help = "tell every event"},
};
TABLE(sim_log);

const struct option_table *const all_tables[] = {
    &dev_table,
    &coordinator_run_table,
    &log_node_table,
    &force_config_table,
    &rejoin_table,
    &sim_log_table,
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
    &assign_domain_table,
    &unassign_domain_table,
    &remove_shard_table,
    &add_shard_table,
    &bind_cluster_table,
    &set_quota_table,
    &upsert_provider_table,
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
    NULL,
};
