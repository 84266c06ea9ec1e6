/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the roles (coordinator, shard, operator, provider, worker, dev). */
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
    OPTION("print-config", BOOL, .flags = OPTION_FLAG_ONLY,                                        \
           .help = "print every value as TOML with where it came from, and end")
#define OPTION_INSECURE                                                                            \
    SWITCH(                                                                                        \
        "insecure", "false",                                                                       \
        "allow addresses other than loopback without TLS; said in the log and on the status page")
#define OPTIONS_TLS                                                                                \
    FILE_OPTION("tls.cert-file", INPUT, "tls/server.pem",                                          \
                "certificate chain in PEM; with it every listener speaks TLS. A changed file is "  \
                "noticed and read again; a pair that does not match leaves the old one in force"), \
        FILE_OPTION("tls.key-file", INPUT, "tls/server.key.pem",                                   \
                    "the private key of tls.cert-file")
#define OPTIONS_LOG                                                                                \
    OPTION("log.level", ENUM, .flags = OPTION_RELOAD, .choices = log_levels, .fallback = "info",   \
           .help = "the least serious line that is written"),                                      \
        OPTION("log.format", ENUM, .choices = log_formats, .fallback = "logfmt",                   \
               .help = "how a line is written: key=value for people, JSON for machines"),          \
        FILE_OPTION("log.file", OUTPUT, "muster.log",                                              \
                    "where log lines go; without it, stderr. Opened again on SIGHUP, so a file "   \
                    "that was moved away is let go")
#define OPTIONS_EVENTS(otherwise)                                                                  \
    OPTION("events.sink", ENUM, .choices = event_sinks, .fallback = (otherwise),                   \
           .help = "where events go, one JSON object a line"),                                     \
        OPTION("events.file", STRING, .fallback = "events.ndjson",                                 \
               .file = OPTION_FILE_OUTPUT_BELOW, .placeholder = "FILE",                            \
               .help = "the file of events.sink = \"file\"; a path that does not begin with / is " \
                       "below data-dir"),                                                          \
        NUMBER("events.file-max", SIZE, "64MiB", 64 * 1024ull, 1ull << 40,                         \
               "when the file has this size it is set aside and a new one begun"),                 \
        NUMBER("events.files-kept", U64, "4", 1, 1000, "how many files set aside are kept")

#define OPTION_HTTP(at)                                                                            \
    OPTION("http.listen", ADDRESS, .also = "--metrics-addr", .also_key = "http.addr",              \
           .flags = OPTION_OFF | OPTION_LISTEN, .fallback = (at),                                  \
           .help = "where the status page, probes and metrics are served; port 0 takes a free "    \
                   "one, and 0 alone serves none")
#define OPTION_LIVE_EVERY                                                                          \
    OPTION("http.live-every", DURATION, .flags = OPTION_RELOAD, .fallback = "1s", .min = 100,      \
           .max = 60 * 1000ull, .help = "how often the status page gets new numbers")
/* For the replicated log. */
#define OPTIONS_TIMING                                                                             \
    OPTION(                                                                                        \
        "election", DURATION, .also_key = "cluster.election_timeout", .fallback = "250ms",         \
        .min = 10, .max = 60000,                                                                   \
        .help =                                                                                    \
            "how long a leader may be silent before it is replaced, at least; up to twice this"),  \
        NUMBER("heartbeat", DURATION, "50ms", 1, 10000, "how often a leader speaks"),              \
        NUMBER("timing-scale", U64, "100", 10, 10000,                                              \
               "multiplies every time of the log, in per cent: 300 for a slow network"),           \
        NUMBER("snapshot-entries", U64, "1024", 1, 1000000000,                                     \
               "entries since the last snapshot before the next"),                                 \
        NUMBER("snapshot-every", DURATION, "30s", 10, 0,                                           \
               "how often it is looked whether a snapshot is due"),                                \
        NUMBER("trailing-entries", U64, "4096", 1, 1000000000,                                     \
               "entries kept behind a snapshot for replicas that lag")
#define OPTION_SEGMENT_SIZE                                                                        \
    NUMBER("segment-size", SIZE, "64MiB", 1048576, 1073741824,                                     \
           "size of one file of the log; three are allocated before they are needed")

TABLE(
    dev, OPTION_CONFIG, OPTION_PRINT_CONFIG,
    TEXT("data-dir", "dev-data", "DIR",
         "the directory of this process and, below it, of each replica; made when absent, and "
         "locked while it runs"),
    NUMBER("replicas", U64, "3", 0, 7, "how many coordinators; 0 for none"),
    NUMBER("shards", U64, "2", 0, 2,
           "how many shards, with the provider and the operators of three clusters; 0 for none of "
           "them"),
    NUMBER(
        "workers", U64, "20", 0, 64,
        "how many workers, which count words in DIR/input; 0 for none, and no listener for them"),
    SWITCH("free-ports", "false",
           "give them free ports, the same in every run over one data-dir, instead of 7790, 7791 "
           "and 8790, each + 10 for the next, for coordinators, 7780 and 7781 for shards, 7770 for "
           "the provider"),
    NUMBER("demand-every", DURATION, "15s", 0, DAY_MS,
           "how often the demand of one of the clusters moves, as long as nobody has edited its "
           "file; 0: it does not move"),
    SWITCH("chaos", "false",
           "kill and pause parts of the fleet, one at a time, and the next when it has healed"),
    NUMBER("chaos-every", DURATION, "10s", 100, DAY_MS,
           "with --chaos: how long all is well before something is done again"),
    OPTION_INSECURE,
    OPTION("http.listen", ADDRESS, .fallback = "127.0.0.1:8750",
           .help =
               "where its own status page, probes and metrics are served; port 0 takes a free one"),
    OPTION_LIVE_EVERY, OPTIONS_TLS, OPTIONS_LOG, OPTIONS_EVENTS("none"));

TABLE(
    coordinator_run, OPTION_CONFIG, OPTION_PRINT_CONFIG,
    OPTION("id", STRING, .alias = "--node-id", .also_key = "cluster.id", .fallback = "node-0",
           .placeholder = "NAME",
           .help = "name of this replica, the same for its whole life. With join addresses it ends "
                   "in an ordinal, as the pods of a stateful set do; ordinal 0 founds the cluster"),
    TEXT("data-dir", "coord-data", "DIR",
         "where log, snapshots and identity are kept; made when it is not there"),
    OPTION_INSECURE,
    OPTION(
        "listen", ADDRESS, .flags = OPTION_LISTEN, .fallback = "127.0.0.1:7790",
        .help = "where clients, shards and other replicas call, by gRPC; :7790 is every interface"),
    OPTION("advertise", ADDRESS, .example = "node-0.example:7790",
           .help = "how they reach it; without it, as it listens, or at the host of raft-advertise "
                   "if it listens on every interface"),
    OPTION("etcd-listen", ADDRESS, .flags = OPTION_LISTEN, .example = "127.0.0.1:2379",
           .help = "where etcd's clients call, by etcd's v3 API; it is served on `listen` too"),
    OPTION("etcd-advertise", ADDRESS, .example = "node-0.example:2379",
           .help = "how they reach it, as MemberList returns it; without it, as it listens, or at "
                   "the host of raft-advertise if it listens on every interface"),
    FILE_OPTION("etcd-ca-file", INPUT, "tls/store-ca.pem",
                "the authority that certificates of callers at etcd-listen come from; without it, "
                "tls.ca-file. It cannot name administrators, replicas or shards"),
    OPTION("etcd-access", LIST, .placeholder = "NAME=PREFIX:read|write,...",
           .example = "app-a=/app-a/:write,app-b=/app-a/:read",
           .help = "under TLS: which keys a certificate's common name or URI may read, or read and "
                   "write, by etcd's API. An administrator may all"),
    NUMBER("store-history", DURATION, "5m", 0, 365ull * DAY_MS,
           "how long the store's past can be read and watched from; 0: until the quota needs the "
           "room, or a client compacts it"),
    NUMBER("store-history-revisions", U64, "0", 0, 1ull << 40,
           "and at most so many revisions of it; 0: as many as there are"),
    NUMBER("etcd-progress", DURATION, "10m", 100, DAY_MS,
           "etcd's watches that ask for it get the revision after so long without events"),
    TEXT("etcd-version", "3.6.5", "X.Y.Z", "the release of etcd that its clients see"),
    OPTION("raft-bind", ADDRESS, .flags = OPTION_LISTEN, .fallback = "127.0.0.1:7791",
           .help = "where the other replicas' logs reach this one"),
    OPTION("raft-advertise", ADDRESS, .example = "node-0.example:7791",
           .help = "the address they use, which may be a name; without it, raft-bind"),
    SWITCH("bootstrap", "true",
           "bootstrap a cluster when the data directory is empty: at once without join addresses, "
           "with them only as ordinal 0 and only as bootstrap-expect says"),
    NUMBER("bootstrap-expect", U64, "3", 1, 7,
           "with join addresses: the number of replicas. Ordinal 0 bootstraps a cluster only when "
           "all others answered, have no log and promised. 1: for a start replica by replica; "
           "silent replicas are not waited for, and a warning is logged at every start"),
    OPTION("join-addr", LIST, .also_key = "cluster.peers", .placeholder = "ADDRESS,...",
           .example = "node-0:7790,node-1:7790,node-2:7790",
           .help = "where the replicas answer gRPC: one name that resolves to all of them, or "
                   "each. The same on every replica"),
    FILE_OPTION("bootstrap-state", INPUT, "fleet.json",
                "quotas and providers to begin with, as JSON; rows that are there already stay as "
                "they are"),
    NUMBER("shard-silent-after", DURATION, "60s", 100, 7 * DAY_MS,
           "how long a shard may send no report before it is called silent: an event, a log line "
           "and a metric, nothing else"),
    OPTIONS_TIMING, OPTION_SEGMENT_SIZE,
    OPTION("snapshot-export-dir", STRING, .placeholder = "DIR", .example = "/var/backups/muster",
           .help = "where the leader exports the fleet tables; one for each replica, and without "
                   "it nothing is exported"),
    NUMBER("snapshot-export-interval", DURATION, "5m", 0, 7 * DAY_MS,
           "how often, whether or not the tables have changed. 0: 5m"),
    NUMBER("snapshot-export-keep", U64, "48", 1, 10000,
           "exports that stay; older ones are removed"),
    MEMBER_OPTIONS_TOP,
    SWITCH("dashboard.enabled", "true",
           "serve the dashboard on the HTTP listener; without it a plain status page"),
    FILE_OPTION("dashboard.token-file", OTHER, "coord-data/dashboard-token",
                "file with the token that lets the dashboard act, one line; created with mode 0600 "
                "when it does not exist. Give every replica the same token. Default: "
                "dashboard-token in the data directory"),
    FILE_OPTION("dashboard.cert-file", INPUT, "tls/readonly.pem",
                "under TLS, what the dashboard shows to shards: a reader's certificate, as "
                "`musterctl cert issue readonly` makes it; without it, this replica's own"),
    FILE_OPTION("dashboard.key-file", INPUT, "tls/readonly.key.pem", "its private key"),
    FILE_OPTION("dashboard.notes-file", OTHER, "notes.ndjson",
                "a file of lines such as {\"at_ms\": 1790000000000, \"from\": \"deploy\", "
                "\"text\": \"release 7\"}; the dashboard shows the last of them on every view"),
    OPTIONS_ROLE_TLS(
        "replica-0",
        "certificate of this replica, as `musterctl cert issue replica` makes it; with it every "
        "listener speaks TLS and callers show who they are. A changed file is noticed",
        "the authority that callers' and replicas' certificates come from"),
    OPTION_HTTP("127.0.0.1:8790"), OPTION_LIVE_EVERY, OPTIONS_LOG,
    OPTIONS_EVENTS("file"), /* the coordinator must record events */
    MEMBER_OPTIONS_EVENTS, MEMBER_OPTIONS_SECTIONS);

/* What a worker does with its partitions. */
static const char *const process_kinds[] = {"totals", "plugin", NULL};
#define OPTIONS_PROCESS                                                                            \
    OPTION("process.input", STRING, .placeholder = "DIR", .example = "/var/lib/input",             \
           .help =                                                                                 \
               "where the input of partitions is: files whose names begin with the partition's "   \
               "eight digits; without it partitions are held, and nothing is read"),               \
        OPTION("process.kind", ENUM, .choices = process_kinds, .fallback = "totals",               \
               .help = "what becomes of a record, a line of input: it is added to the totals of "  \
                       "its key, or what the first plugin makes of it is"),                        \
        NUMBER("process.rate", U64, "0", 0, 1000000000,                                            \
               "how many records a second are read at most; 0: as many as there are"),             \
        NUMBER("process.plugin_timeout", DURATION, "5s", 100, 600000,                              \
               "how long a sidecar may take until it can be called")

TABLE(
    worker_run, OPTION_CONFIG, OPTION_PRINT_CONFIG, WORKER_OPTIONS_TOP,
    TEXT("data-dir", "worker-data", "DIR",
         "where its event and log files are; made when it is not there, and locked while it runs"),
    OPTION_INSECURE, WORKER_OPTIONS_SECTIONS, OPTIONS_PROCESS, OPTION_HTTP("0"), OPTION_LIVE_EVERY,
    OPTIONS_TLS, OPTIONS_LOG, OPTIONS_EVENTS("none"));

TABLE(
    shard_run, OPTION_CONFIG, OPTION_PRINT_CONFIG,
    OPTION("id", STRING, .alias = "--shard-id", .fallback = "shard-0", .placeholder = "NAME",
           .help =
               "name of this shard, the same for its whole life; under TLS its certificate is for "
               "bigfleet://shard/NAME"),
    TEXT("data-dir", "shard-data", "DIR",
         "where its epoch and its domains are kept; made when it is not there. Machines and demand "
         "are not: they are asked for again"),
    OPTION_INSECURE,
    OPTION("listen", ADDRESS, .flags = OPTION_LISTEN, .fallback = "127.0.0.1:7780",
           .help = "where operators call, by gRPC; :7780 is every interface"),
    OPTION("advertise-addr", ADDRESS, .example = "shard-0.example:7780",
           .help = "how they reach it, for the coordinator's table; without it, as it listens"),
    OPTION("provider-addr", ADDRESS, .flags = OPTION_REQUIRED, .example = "127.0.0.1:7770",
           .help = "where the capacity provider answers gRPC. A shard without one has no machines, "
                   "so there is no default; to try things out, start one that simulates"),
    OPTION("domains", LIST, .placeholder = "KEY=VALUE,...",
           .example = "topology.kubernetes.io/zone=eu-1a",
           .help = "which machines are its own before anybody said so, by a label; without it all "
                   "of them are. Domains that a coordinator gave or took, ever, count instead"),
    OPTION("coordinator-addr", LIST, .placeholder = "ADDRESS,...",
           .example = "node-0:7790,node-1:7790,node-2:7790",
           .help = "whom to report to. The shard works without any"),
    NUMBER("coordinator-heartbeat-interval", DURATION, "10s", 10, HOUR_MS, "how often it reports"),
    NUMBER("cycle-interval", DURATION, "10s", 10, HOUR_MS,
           "how often machines are listed and decided about; new demand is decided about soon "
           "after it came, whatever this is"),
    SWITCH("incremental-reconcile", "false",
           "ask the provider only for what changed. Used when it also reports what it removed, "
           "else every list is whole"),
    NUMBER("list-timeout", DURATION, "1m", 10, HOUR_MS, "how long one list may take"),
    NUMBER("execute-timeout", DURATION, "30s", 10, HOUR_MS,
           "how long one call to the provider may take; one without an answer is not taken for "
           "failed, the machine is asked for again"),
    NUMBER("bootstrap-timeout", DURATION, "30s", 10, HOUR_MS,
           "how long an operator may take to give a bootstrap blob"),
    NUMBER("operator-return-timeout", DURATION, "2m", 10, HOUR_MS,
           "how long the drain of a machine waits for an operator that reports its drains and is "
           "away; never beyond the grace of the drain"),
    NUMBER("stuck-after", DURATION, "10m", 1000, 7 * DAY_MS,
           "how long a machine may be created, configured or deleted (and drained, beyond its "
           "grace) before the provider is asked and the call made again"),
    NUMBER("rest-first", DURATION, "30s", 10, HOUR_MS,
           "how long a machine is left alone after the provider refused to do something with it; "
           "doubles with every refusal"),
    NUMBER("rest-most", DURATION, "1h", 10, 7 * DAY_MS, "and at most"),
    NUMBER("execute-concurrency", U64, "4096", 1, 1000000,
           "at most so many calls that change a machine run at the provider at once, about 2 KiB "
           "of memory each. The shard starts with execute-concurrency-start, runs more while "
           "answers come in time, and half as many when the provider is overloaded"),
    NUMBER("execute-concurrency-start", U64, "8", 1, 1000000, "how many of them run at first"),
    NUMBER("blob-budget", SIZE, "256MiB", 1, 1ull << 40,
           "bootstrap blobs of all operators that wait for their machine's Configure; past it one "
           "is not taken, and its action is decided again"),
    NUMBER("action-queue", U64, "65536", 1, 16000000,
           "actions that may wait for their turn; what finds no place is decided again"),
    NUMBER("max-actions-per-cycle", U64, "0", 0, 0,
           "of one decision, at most so many are begun and the rest decided again; 0: all"),
    NUMBER("reclaim-cap-fraction", DECIMAL, "0.05", 0, 1000000,
           "of a cluster's configured machines, at most this share is reclaimed in one cycle, and "
           "at least one; 0: no cap"),
    NUMBER("removal-fraction", DECIMAL, "0.1", 1, 1000000,
           "a list that leaves out more than this share of the machines is believed only when it "
           "was said three times in a row"),
    SWITCH("empty-rollup-guard", "true",
           "demand that falls below a tenth at once counts only when it was said three times in a "
           "row"),
    OPTION("actuation-paused", BOOL, .flags = OPTION_RELOAD_ON, .fallback = "false",
           .help =
               "the kill switch: everything is decided, counted and written down, nothing is done"),
    SWITCH("dry-run", "false",
           "shadow mode, for the first days: the same, and every action is logged"),
    FILE_OPTION("audit-log", OUTPUT_BELOW, "audit.ndjson",
                "every action and how it ended, one JSON object a line; a path that does not begin "
                "with / is below data-dir"),
    NUMBER("available-capacity-interval", DURATION, "5s", 10, HOUR_MS,
           "how often, at most, an operator hears how much more of one profile could be had"),
    NUMBER("metrics-warmup-cycles", U64, "0", 0, 1000000,
           "durations of the first cycles that are not observed"),
    SWITCH("phase-attribution-log", "false",
           "every twentieth cycle, say in the log who got what and why the rest did not"),
    NUMBER("idle-hold.on-demand", DURATION, "10m", 0, 0,
           "how long an idle machine is kept before it is given back; 0: for ever"),
    NUMBER("idle-hold.spot", DURATION, "1m", 0, 0, "the same of a spot machine"),
    NUMBER("idle-hold.reserved", DURATION, "0", 0, 0,
           "the same of a reserved one, which is paid for anyway"),
    NUMBER("idle-hold.bare-metal", DURATION, "0", 0, 0, "the same of bare metal"),
    NUMBER("victim.priority-weight", DECIMAL, "1", 0, 1000000000,
           "who gives way first: how much the gap of priorities counts"),
    NUMBER("victim.drain-weight", DECIMAL, "0.1", 0, 1000000000,
           "how much the time of a drain counts"),
    NUMBER("victim.interruption-weight", DECIMAL, "0.1", 0, 1000000000,
           "how much the victim's interruption penalty counts"),
    NUMBER("victim.reclamation-weight", DECIMAL, "0.1", 0, 1000000000,
           "how much its reclamation penalty counts"),
    NUMBER("victim.drain-estimate", DURATION, "30s", 0, DAY_MS,
           "how long a drain is expected to take"),
    OPTIONS_ROLE_TLS(
        "shard-shard-0",
        "certificate of this shard, as `musterctl cert issue shard` makes it; with it every "
        "connection is TLS and callers show who they are. A changed file is noticed",
        "the authority that all certificates come from"),
    OPTION_HTTP("127.0.0.1:8780"), OPTION_LIVE_EVERY, OPTIONS_LOG, OPTIONS_EVENTS("none"));

TABLE(operator_run, OPTION_CONFIG, OPTION_PRINT_CONFIG,
      OPTION("cluster-id", STRING, .flags = OPTION_REQUIRED, .placeholder = "NAME",
             .example = "cluster-a",
             .help = "the cluster it speaks for, the same for the cluster's whole life; under TLS "
                     "its certificate is for bigfleet://cluster/NAME"),
      OPTION("data-dir", STRING, .also = "--state-dir", .fallback = "operator-data",
             .placeholder = "DIR",
             .help = "where it keeps the reclaims that were begun and the last good demand, and "
                     "writes nodes.json; made when it is not there, and locked while it runs"),
      OPTION_INSECURE,
      OPTION("shard-addr", LIST, .flags = OPTION_REQUIRED, .placeholder = "ADDRESS,...",
             .example = "127.0.0.1:7780",
             .help = "where the shard of this cluster answers gRPC; of several addresses the first "
                     "that answers is used"),
      FILE_OPTION("demand", OTHER, "demand.toml",
                  "what the cluster wants, as TOML or JSON; looked at every second. A bad edit "
                  "changes nothing: the last good demand stays"),
      SWITCH("kubernetes", "false",
             "take demand from a Kubernetes cluster instead of a file: every pod asks for its "
             "room, machines are shown as UpcomingNodes, nodes that are taken back are emptied. "
             "The API server is found as kubectl finds it, or by a pod's own account"),
      FILE_OPTION("kubeconfig", INPUT, "/etc/muster/kubeconfig",
                  "with --kubernetes, which it implies: where the API server is and who we are"),
      OPTION("kube-namespace", STRING, .placeholder = "NAME",
             .help = "with --kubernetes: only pods and requests of this namespace count"),
      SWITCH("kube-no-pods", "false",
             "with --kubernetes: make no requests for pods; others write CapacityRequests"),
      OPTION("drain-command", STRING, .placeholder = "PROGRAM", .example = "/usr/local/bin/drain",
             .help = "run as PROGRAM MACHINE GRACE_SECONDS when the shard takes a machine back; "
                     "status 0 says it is empty, and when the grace is over it is killed with all "
                     "it started. Without it a machine is given up at once"),
      FILE_OPTION("bootstrap-template", INPUT, "user-data.tmpl",
                  "what a new machine is started with; {{cluster_id}} and its like are filled in. "
                  "A changed file is noticed. Without it machines get nothing"),
      NUMBER("rollup-interval", DURATION, "10s", 10, HOUR_MS,
             "how often all demand is sent to the shard, whether or not it changed; a change is "
             "sent at once"),
      NUMBER("stale-after", DURATION, "1m", 10, DAY_MS,
             "how long after a new connection a machine is still shown that the shard has not "
             "reported again"),
      OPTIONS_ROLE_TLS("cluster-cluster-a",
                       "certificate of this cluster, as `musterctl cert issue cluster` makes it; "
                       "with it every connection is TLS. A changed file is noticed",
                       "the authority that all certificates come from"),
      OPTION_HTTP("127.0.0.1:8770"), OPTION_LIVE_EVERY, OPTIONS_LOG, OPTIONS_EVENTS("none"));

static const char *const provider_backends[] = {"catalogue", "process", "command", NULL};
TABLE(
    provider_run, OPTION_CONFIG, OPTION_PRINT_CONFIG,
    TEXT("name", "muster", "NAME",
         "how hosts call their provider: the first half of a machine's host"),
    TEXT("data-dir", "provider-data", "DIR",
         "where it keeps its state, unless --state says where; made when it is not there. Two "
         "providers need two of them"),
    FILE_OPTION(
        "state", OTHER, "provider-data/state",
        "the file with every machine, operation and fencing mark; made when it is not there. What "
        "was answered is in it, whenever the provider dies. Default: state, below data-dir"),
    NUMBER("state-rewrite", SIZE, "64MiB", 4096, 0,
           "a state file smaller than this only grows; a larger one is written anew beside when it "
           "is four times what it says"),
    OPTION_INSECURE,
    OPTION("listen", ADDRESS, .also = "--addr", .flags = OPTION_LISTEN,
           .fallback = "127.0.0.1:7770",
           .help = "where shards call, by gRPC; :7770 is every interface"),
    OPTION("backend", ENUM, .choices = provider_backends, .fallback = "catalogue",
           .help = "what the machines are: a simulated cloud, processes on this host, or a script "
                   "of yours"),
    FILE_OPTION("catalogue", INPUT, "examples/catalogue.toml",
                "what the simulated cloud sells and how it behaves, as TOML; read again when it "
                "changes. Without it a small lively cloud, the one of the example"),
    OPTION("seed-count", U64, .fallback = "1000", .max = 4 << 20, .placeholder = "MACHINES",
           .help = "how many machines there could be: quota slots, Speculative at first, shared "
                   "out over the pools of the catalogue, or local-1 and so on; a script says "
                   "itself which there are"),
    OPTION("process.directory", STRING, .placeholder = "DIR", .example = "provider-data/machines",
           .help = "one directory below it for each machine; default: machines, below data-dir"),
    TEXT("process.host", "exec sleep infinity", "COMMAND",
         "what runs from Create to Delete, by sh"),
    TEXT("process.node", "exec sleep infinity", "COMMAND",
         "what runs from Configure to Drain, by sh; it finds MUSTER_CLUSTER and MUSTER_BLOB_FILE"),
    OPTION("process.ready-file", STRING, .placeholder = "NAME", .example = "ready",
           .help = "Configured only when the node has made this file in its directory; without it, "
                   "as soon as it runs"),
    NUMBER("process.ready-within", DURATION, "5m", 1, DAY_MS,
           "how long it may take for that; then the machine is Failed"),
    TEXT("process.type", "local", "TYPE", "instance type of these machines"),
    OPTION("process.resources", LIST, .fallback = "cpu=1,memory=1Gi",
           .placeholder = "NAME=AMOUNT,...", .help = "what each of them has"),
    SWITCH("process.cgroups", "true",
           "a cgroup for each process where they can be made, so that nothing it starts is left "
           "behind"),
    OPTION("command.script", STRING, .placeholder = "PROGRAM",
           .example = "examples/command-provider.sh",
           .help = "what runs for each operation: docs/providers.md says what it reads and prints"),
    OPTION("command.running-max", U64, .fallback = "16", .min = 1, .max = 1024, .placeholder = "N",
           .help = "so many at once; the rest waits"),
    NUMBER(
        "command.timeout", DURATION, "10m", 1, 7 * DAY_MS,
        "how long one may take, a drain beside its grace; then it is killed with all it started"),
    NUMBER("command.list-every", DURATION, "30s", 10, DAY_MS,
           "how often it is asked which machines there are"),
    OPTIONS_ROLE_TLS("provider-p0",
                     "certificate of this provider, as `musterctl cert issue provider` makes it; "
                     "with it every connection is TLS, and a shard may only speak for itself",
                     "the authority that all certificates come from"),
    OPTION_HTTP("127.0.0.1:8771"), OPTION_LIVE_EVERY, OPTIONS_LOG, OPTIONS_EVENTS("none"));
