/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the roles (coordinator, shard, operator, provider, worker, dev). Flags, the
 * environment and a file can set them. */
#include "common/option_texts.h"
#include "common/tables.h"
#include "member/config/options.h"

/* -- options that every role has -- */

static const char *const log_levels[] = {"trace", "debug", "info", "warn", "error", NULL};
static const char *const log_formats[] = {"logfmt", "json", NULL};
static const char *const event_sinks[] = {"none", "stdout", "file", NULL};

#define OPTION_CONFIG                                                                              \
    OPTION("config", STRING, .flags = OPTION_NOT_IN_FILE, .file = OPTION_FILE_OTHER,               \
           .placeholder = "FILE", .example = "muster.toml",                                        \
           .help = "a TOML file to read options from")
#define OPTION_PRINT_CONFIG                                                                        \
    OPTION("print-config", BOOL, .flags = OPTION_FLAG_ONLY, .help = H_PRINT_CONFIG)
#define OPTION_INSECURE SWITCH("insecure", "false", H_INSECURE)
#define OPTIONS_TLS                                                                                \
    FILE_OPTION("tls.cert-file", INPUT, "tls/server.pem", H_TLS_CERT_FILE),                        \
        FILE_OPTION("tls.key-file", INPUT, "tls/server.key.pem",                                   \
                    "the private key of tls.cert-file")
#define OPTIONS_LOG                                                                                \
    OPTION("log.level", ENUM, .flags = OPTION_RELOAD, .choices = log_levels, .fallback = "info",   \
           .help = "the least serious line that is written"),                                      \
        OPTION("log.format", ENUM, .choices = log_formats, .fallback = "logfmt",                   \
               .help = H_LOG_FORMAT),                                                              \
        FILE_OPTION("log.file", OUTPUT, "muster.log", H_LOG_FILE)
#define OPTIONS_EVENTS(otherwise)                                                                  \
    OPTION("events.sink", ENUM, .choices = event_sinks, .fallback = (otherwise),                   \
           .help = "where events go, one JSON object a line"),                                     \
        OPTION("events.file", STRING, .fallback = "events.ndjson",                                 \
               .file = OPTION_FILE_OUTPUT_BELOW, .placeholder = "FILE", .help = H_EVENTS_FILE),    \
        NUMBER("events.file-max", SIZE, "64MiB", 64 * 1024ull, 1ull << 40, H_EVENTS_FILE_MAX),     \
        NUMBER("events.files-kept", U64, "4", 1, 1000, "how many files set aside are kept")

#define OPTION_HTTP(at)                                                                            \
    OPTION("http.listen", ADDRESS, .also = "--metrics-addr", .also_key = "http.addr",              \
           .flags = OPTION_OFF | OPTION_LISTEN, .fallback = (at), .help = H_HTTP_LISTEN)
#define OPTION_LIVE_EVERY                                                                          \
    OPTION("http.live-every", DURATION, .flags = OPTION_RELOAD, .fallback = "1s", .min = 100,      \
           .max = 60 * 1000ull, .help = "how often the status page gets new numbers")
/* For the replicated log. */
#define OPTIONS_TIMING                                                                             \
    OPTION("election", DURATION, .also_key = "cluster.election_timeout", .fallback = "250ms",      \
           .min = 10, .max = 60000, .help = H_ELECTION),                                           \
        NUMBER("heartbeat", DURATION, "50ms", 1, 10000, "how often a leader speaks"),              \
        NUMBER("timing-scale", U64, "100", 10, 10000, H_TIMING_SCALE),                             \
        NUMBER("snapshot-entries", U64, "1024", 1, 1000000000, H_SNAPSHOT_ENTRIES),                \
        NUMBER("snapshot-every", DURATION, "30s", 10, 0, H_SNAPSHOT_EVERY),                        \
        NUMBER("trailing-entries", U64, "4096", 1, 1000000000, H_TRAILING_ENTRIES)
#define OPTION_SEGMENT_SIZE                                                                        \
    NUMBER("segment-size", SIZE, "64MiB", 1048576, 1073741824, H_SEGMENT_SIZE)

TABLE(dev, OPTION_CONFIG, OPTION_PRINT_CONFIG, TEXT("data-dir", "dev-data", "DIR", H_DEV_DATA_DIR),
      NUMBER("replicas", U64, "3", 0, 7, "how many coordinators; 0 for none"),
      NUMBER("shards", U64, "2", 0, 2, H_DEV_SHARDS),
      NUMBER("workers", U64, "20", 0, 64, H_WORKERS), SWITCH("free-ports", "false", H_FREE_PORTS),
      NUMBER("demand-every", DURATION, "15s", 0, DAY_MS, H_DEMAND_EVERY),
      SWITCH("chaos", "false", H_CHAOS),
      NUMBER("chaos-every", DURATION, "10s", 100, DAY_MS, H_CHAOS_EVERY), OPTION_INSECURE,
      OPTION("http.listen", ADDRESS, .fallback = "127.0.0.1:8750", .help = H_DEV_HTTP_LISTEN),
      OPTION_LIVE_EVERY, OPTIONS_TLS, OPTIONS_LOG, OPTIONS_EVENTS("none"));

TABLE(coordinator_run, OPTION_CONFIG, OPTION_PRINT_CONFIG,
      OPTION("id", STRING, .alias = "--node-id", .also_key = "cluster.id", .fallback = "node-0",
             .placeholder = "NAME", .help = H_COORDINATOR_RUN_ID),
      TEXT("data-dir", "coord-data", "DIR", H_COORDINATOR_RUN_DATA_DIR), OPTION_INSECURE,
      OPTION("listen", ADDRESS, .flags = OPTION_LISTEN, .fallback = "127.0.0.1:7790",
             .help = H_LISTEN),
      OPTION("advertise", ADDRESS, .example = "node-0.example:7790", .help = H_ADVERTISE),
      OPTION("etcd-listen", ADDRESS, .flags = OPTION_LISTEN, .example = "127.0.0.1:2379",
             .help = H_ETCD_LISTEN),
      OPTION("etcd-advertise", ADDRESS, .example = "node-0.example:2379", .help = H_ETCD_ADVERTISE),
      FILE_OPTION("etcd-ca-file", INPUT, "tls/store-ca.pem", H_ETCD_CA_FILE),
      OPTION("etcd-access", LIST, .placeholder = "NAME=PREFIX:read|write,...",
             .example = "app-a=/app-a/:write,app-b=/app-a/:read", .help = H_ETCD_ACCESS),
      NUMBER("store-history", DURATION, "5m", 0, 365ull * DAY_MS, H_STORE_HISTORY),
      NUMBER("store-history-revisions", U64, "0", 0, 1ull << 40, H_STORE_HISTORY_REVISIONS),
      NUMBER("etcd-progress", DURATION, "10m", 100, DAY_MS, H_ETCD_PROGRESS),
      TEXT("etcd-version", "3.6.5", "X.Y.Z", "the release of etcd that its clients see"),
      OPTION("raft-bind", ADDRESS, .flags = OPTION_LISTEN, .fallback = "127.0.0.1:7791",
             .help = "where the other replicas' logs reach this one"),
      OPTION("raft-advertise", ADDRESS, .example = "node-0.example:7791", .help = H_RAFT_ADVERTISE),
      SWITCH("bootstrap", "true", H_BOOTSTRAP),
      NUMBER("bootstrap-expect", U64, "3", 1, 7, H_BOOTSTRAP_EXPECT),
      OPTION("join-addr", LIST, .also_key = "cluster.peers", .placeholder = "ADDRESS,...",
             .example = "node-0:7790,node-1:7790,node-2:7790", .help = H_JOIN_ADDR),
      FILE_OPTION("bootstrap-state", INPUT, "fleet.json", H_BOOTSTRAP_STATE),
      NUMBER("shard-silent-after", DURATION, "60s", 100, 7 * DAY_MS, H_SHARD_SILENT_AFTER),
      OPTIONS_TIMING, OPTION_SEGMENT_SIZE,
      OPTION("snapshot-export-dir", STRING, .placeholder = "DIR", .example = "/var/backups/muster",
             .help = H_SNAPSHOT_EXPORT_DIR),
      NUMBER("snapshot-export-interval", DURATION, "5m", 0, 7 * DAY_MS, H_SNAPSHOT_EXPORT_INTERVAL),
      NUMBER("snapshot-export-keep", U64, "48", 1, 10000,
             "exports that stay; older ones are removed"),
      MEMBER_OPTIONS_TOP, SWITCH("dashboard.enabled", "true", H_DASHBOARD_ENABLED),
      FILE_OPTION("dashboard.token-file", OTHER, "coord-data/dashboard-token",
                  H_DASHBOARD_TOKEN_FILE),
      FILE_OPTION("dashboard.cert-file", INPUT, "tls/readonly.pem", H_DASHBOARD_CERT_FILE),
      FILE_OPTION("dashboard.key-file", INPUT, "tls/readonly.key.pem", "its private key"),
      FILE_OPTION("dashboard.notes-file", OTHER, "notes.ndjson", H_DASHBOARD_NOTES_FILE),
      OPTIONS_ROLE_TLS("replica-0", H_COORDINATOR_RUN_TLS, H_COORDINATOR_RUN_TLS_CA),
      OPTION_HTTP("127.0.0.1:8790"), OPTION_LIVE_EVERY, OPTIONS_LOG,
      OPTIONS_EVENTS("file"), /* "file", because the coordinator must record events */
      MEMBER_OPTIONS_EVENTS, MEMBER_OPTIONS_SECTIONS);

/* What a worker does with its partitions. */
static const char *const process_kinds[] = {"totals", "plugin", NULL};
#define OPTIONS_PROCESS                                                                            \
    OPTION("process.input", STRING, .placeholder = "DIR", .example = "/var/lib/input",             \
           .help = H_PROCESS_INPUT),                                                               \
        OPTION("process.kind", ENUM, .choices = process_kinds, .fallback = "totals",               \
               .help = H_PROCESS_KIND),                                                            \
        NUMBER("process.rate", U64, "0", 0, 1000000000, H_PROCESS_RATE),                           \
        NUMBER("process.plugin_timeout", DURATION, "5s", 100, 600000, H_PROCESS_PLUGIN_TIMEOUT)

TABLE(worker_run, OPTION_CONFIG, OPTION_PRINT_CONFIG, WORKER_OPTIONS_TOP,
      TEXT("data-dir", "worker-data", "DIR", H_WORKER_RUN_DATA_DIR), OPTION_INSECURE,
      WORKER_OPTIONS_SECTIONS, OPTIONS_PROCESS, OPTION_HTTP("0"), OPTION_LIVE_EVERY, OPTIONS_TLS,
      OPTIONS_LOG, OPTIONS_EVENTS("none"));

TABLE(shard_run, OPTION_CONFIG, OPTION_PRINT_CONFIG,
      OPTION("id", STRING, .alias = "--shard-id", .fallback = "shard-0", .placeholder = "NAME",
             .help = H_SHARD_RUN_ID),
      TEXT("data-dir", "shard-data", "DIR", H_SHARD_RUN_DATA_DIR), OPTION_INSECURE,
      OPTION("listen", ADDRESS, .flags = OPTION_LISTEN, .fallback = "127.0.0.1:7780",
             .help = H_SHARD_RUN_LISTEN),
      OPTION("advertise-addr", ADDRESS, .example = "shard-0.example:7780",
             .help = H_ADVERTISE_ADDR),
      OPTION("provider-addr", ADDRESS, .flags = OPTION_REQUIRED, .example = "127.0.0.1:7770",
             .help = H_PROVIDER_ADDR),
      OPTION("domains", LIST, .placeholder = "KEY=VALUE,...",
             .example = "topology.kubernetes.io/zone=eu-1a", .help = H_DOMAINS),
      OPTION("coordinator-addr", LIST, .placeholder = "ADDRESS,...",
             .example = "node-0:7790,node-1:7790,node-2:7790", .help = H_COORDINATOR_ADDR),
      NUMBER("coordinator-heartbeat-interval", DURATION, "10s", 10, HOUR_MS,
             "how often it reports"),
      NUMBER("cycle-interval", DURATION, "10s", 10, HOUR_MS, H_CYCLE_INTERVAL),
      SWITCH("incremental-reconcile", "false", H_INCREMENTAL_RECONCILE),
      NUMBER("list-timeout", DURATION, "1m", 10, HOUR_MS, "how long one list may take"),
      NUMBER("execute-timeout", DURATION, "30s", 10, HOUR_MS, H_EXECUTE_TIMEOUT),
      NUMBER("bootstrap-timeout", DURATION, "30s", 10, HOUR_MS, H_BOOTSTRAP_TIMEOUT),
      NUMBER("operator-return-timeout", DURATION, "2m", 10, HOUR_MS, H_OPERATOR_RETURN_TIMEOUT),
      NUMBER("stuck-after", DURATION, "10m", 1000, 7 * DAY_MS, H_STUCK_AFTER),
      NUMBER("rest-first", DURATION, "30s", 10, HOUR_MS, H_REST_FIRST),
      NUMBER("rest-most", DURATION, "1h", 10, 7 * DAY_MS, "and at most"),
      NUMBER("execute-concurrency", U64, "4096", 1, 1000000, H_EXECUTE_CONCURRENCY),
      NUMBER("execute-concurrency-start", U64, "8", 1, 1000000, "how many of them run at first"),
      NUMBER("blob-budget", SIZE, "256MiB", 1, 1ull << 40, H_BLOB_BUDGET),
      NUMBER("action-queue", U64, "65536", 1, 16000000, H_ACTION_QUEUE),
      NUMBER("max-actions-per-cycle", U64, "0", 0, 0, H_MAX_ACTIONS_PER_CYCLE),
      NUMBER("reclaim-cap-fraction", DECIMAL, "0.05", 0, 1000000, H_RECLAIM_CAP_FRACTION),
      NUMBER("removal-fraction", DECIMAL, "0.1", 1, 1000000, H_REMOVAL_FRACTION),
      SWITCH("empty-rollup-guard", "true", H_EMPTY_ROLLUP_GUARD),
      OPTION("actuation-paused", BOOL, .flags = OPTION_RELOAD_ON, .fallback = "false",
             .help = H_ACTUATION_PAUSED),
      SWITCH("dry-run", "false", H_SHARD_RUN_DRY_RUN),
      FILE_OPTION("audit-log", OUTPUT_BELOW, "audit.ndjson", H_AUDIT_LOG),
      NUMBER("available-capacity-interval", DURATION, "5s", 10, HOUR_MS,
             H_AVAILABLE_CAPACITY_INTERVAL),
      NUMBER("metrics-warmup-cycles", U64, "0", 0, 1000000, H_METRICS_WARMUP_CYCLES),
      SWITCH("phase-attribution-log", "false", H_PHASE_ATTRIBUTION_LOG),
      NUMBER("idle-hold.on-demand", DURATION, "10m", 0, 0, H_IDLE_HOLD_ON_DEMAND),
      NUMBER("idle-hold.spot", DURATION, "1m", 0, 0, "the same of a spot machine"),
      NUMBER("idle-hold.reserved", DURATION, "0", 0, 0, H_IDLE_HOLD_RESERVED),
      NUMBER("idle-hold.bare-metal", DURATION, "0", 0, 0, "the same of bare metal"),
      NUMBER("victim.priority-weight", DECIMAL, "1", 0, 1000000000, H_VICTIM_PRIORITY_WEIGHT),
      NUMBER("victim.drain-weight", DECIMAL, "0.1", 0, 1000000000,
             "how much the time of a drain counts"),
      NUMBER("victim.interruption-weight", DECIMAL, "0.1", 0, 1000000000,
             H_VICTIM_INTERRUPTION_WEIGHT),
      NUMBER("victim.reclamation-weight", DECIMAL, "0.1", 0, 1000000000,
             "how much its reclamation penalty counts"),
      NUMBER("victim.drain-estimate", DURATION, "30s", 0, DAY_MS,
             "how long a drain is expected to take"),
      OPTIONS_ROLE_TLS("shard-shard-0", H_SHARD_RUN_TLS,
                       "the authority that all certificates come from"),
      OPTION_HTTP("127.0.0.1:8780"), OPTION_LIVE_EVERY, OPTIONS_LOG, OPTIONS_EVENTS("none"));

TABLE(operator_run, OPTION_CONFIG, OPTION_PRINT_CONFIG,
      OPTION("cluster-id", STRING, .flags = OPTION_REQUIRED, .placeholder = "NAME",
             .example = "cluster-a", .help = H_CLUSTER_ID),
      OPTION("data-dir", STRING, .also = "--state-dir", .fallback = "operator-data",
             .placeholder = "DIR", .help = H_OPERATOR_RUN_DATA_DIR),
      OPTION_INSECURE,
      OPTION("shard-addr", LIST, .flags = OPTION_REQUIRED, .placeholder = "ADDRESS,...",
             .example = "127.0.0.1:7780", .help = H_SHARD_ADDR),
      FILE_OPTION("demand", OTHER, "demand.toml", H_DEMAND),
      SWITCH("kubernetes", "false", H_KUBERNETES),
      FILE_OPTION("kubeconfig", INPUT, "/etc/muster/kubeconfig", H_KUBECONFIG),
      OPTION("kube-namespace", STRING, .placeholder = "NAME", .help = H_KUBE_NAMESPACE),
      SWITCH("kube-no-pods", "false", H_KUBE_NO_PODS),
      OPTION("drain-command", STRING, .placeholder = "PROGRAM", .example = "/usr/local/bin/drain",
             .help = H_DRAIN_COMMAND),
      FILE_OPTION("bootstrap-template", INPUT, "user-data.tmpl", H_BOOTSTRAP_TEMPLATE),
      NUMBER("rollup-interval", DURATION, "10s", 10, HOUR_MS, H_ROLLUP_INTERVAL),
      NUMBER("stale-after", DURATION, "1m", 10, DAY_MS, H_STALE_AFTER),
      OPTIONS_ROLE_TLS("cluster-cluster-a", H_OPERATOR_RUN_TLS,
                       "the authority that all certificates come from"),
      OPTION_HTTP("127.0.0.1:8770"), OPTION_LIVE_EVERY, OPTIONS_LOG, OPTIONS_EVENTS("none"));

static const char *const provider_backends[] = {"catalogue", "process", "command", NULL};
TABLE(provider_run, OPTION_CONFIG, OPTION_PRINT_CONFIG, TEXT("name", "muster", "NAME", H_NAME),
      TEXT("data-dir", "provider-data", "DIR", H_PROVIDER_RUN_DATA_DIR),
      FILE_OPTION("state", OTHER, "provider-data/state", H_STATE),
      NUMBER("state-rewrite", SIZE, "64MiB", 4096, 0, H_STATE_REWRITE), OPTION_INSECURE,
      OPTION("listen", ADDRESS, .also = "--addr", .flags = OPTION_LISTEN,
             .fallback = "127.0.0.1:7770", .help = H_PROVIDER_RUN_LISTEN),
      OPTION("backend", ENUM, .choices = provider_backends, .fallback = "catalogue",
             .help = H_BACKEND),
      FILE_OPTION("catalogue", INPUT, "examples/catalogue.toml", H_CATALOGUE),
      OPTION("seed-count", U64, .fallback = "1000", .max = 4 << 20, .placeholder = "MACHINES",
             .help = H_SEED_COUNT),
      OPTION("process.directory", STRING, .placeholder = "DIR", .example = "provider-data/machines",
             .help = H_PROCESS_DIRECTORY),
      TEXT("process.host", "exec sleep infinity", "COMMAND",
           "what runs from Create to Delete, by sh"),
      TEXT("process.node", "exec sleep infinity", "COMMAND", H_PROCESS_NODE),
      OPTION("process.ready-file", STRING, .placeholder = "NAME", .example = "ready",
             .help = H_PROCESS_READY_FILE),
      NUMBER("process.ready-within", DURATION, "5m", 1, DAY_MS, H_PROCESS_READY_WITHIN),
      TEXT("process.type", "local", "TYPE", "instance type of these machines"),
      OPTION("process.resources", LIST, .fallback = "cpu=1,memory=1Gi",
             .placeholder = "NAME=AMOUNT,...", .help = "what each of them has"),
      SWITCH("process.cgroups", "true", H_PROCESS_CGROUPS),
      OPTION("command.script", STRING, .placeholder = "PROGRAM",
             .example = "examples/command-provider.sh", .help = H_COMMAND_SCRIPT),
      OPTION("command.running-max", U64, .fallback = "16", .min = 1, .max = 1024,
             .placeholder = "N", .help = "so many at once; the rest waits"),
      NUMBER("command.timeout", DURATION, "10m", 1, 7 * DAY_MS, H_COMMAND_TIMEOUT),
      NUMBER("command.list-every", DURATION, "30s", 10, DAY_MS, H_COMMAND_LIST_EVERY),
      OPTIONS_ROLE_TLS("provider-p0", H_PROVIDER_RUN_TLS,
                       "the authority that all certificates come from"),
      OPTION_HTTP("127.0.0.1:8771"), OPTION_LIVE_EVERY, OPTIONS_LOG, OPTIONS_EVENTS("none"));
