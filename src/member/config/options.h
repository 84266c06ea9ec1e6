/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option tables about workers, for `coordinator run`, `worker run` and tests. Names and
 * defaults are those of workers.md § 16.
 *
 * Settings that the coordinator already had also accept rollout's name: id (cluster.id), join-addr
 * (cluster.peers), http.listen (http.addr), election (cluster.election_timeout).
 * cluster.leader_lease does not exist: heartbeats are acknowledged after a leadership round, not by
 * a clock. */
#ifndef MEMBER_CONFIG_OPTIONS_H
#define MEMBER_CONFIG_OPTIONS_H
#include "conf/option.h"
#include "member/config/option_texts.h"

/* Choices in the order of their enum (in core/, events/ or config.h). File scope only. */
#define MEMBER_CHOICES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* coordinator: keys without a section */
#define MEMBER_OPTIONS_TOP                                                                         \
    OPTION("run_id", STRING, .placeholder = "ULID", .example = "01JFEAVS7C5DE5XEAEAB91EBT5",       \
           .help = H_MEMBER_RUN_ID),                                                               \
        OPTION("start_timeout", DURATION, .fallback = "60s", .max = 86400000ull,                   \
               .help = H_MEMBER_START_TIMEOUT),                                                    \
        OPTION("loser_exit", U64, .fallback = "3", .max = 255,                                     \
               .help = "the exit code of giving up")

/* coordinator: additional keys of [events] */
#define MEMBER_OPTIONS_EVENTS                                                                      \
    OPTION("events.heartbeat", ENUM, .also = "--heartbeat-events", .flags = OPTION_RELOAD,         \
           .choices = MEMBER_CHOICES("all", "sampled", "none"), .fallback = "all",                 \
           .help = H_MEMBER_EVENTS_HEARTBEAT),                                                     \
        OPTION("events.heartbeat_event_limit", U64, .flags = OPTION_RELOAD, .fallback = "5000",    \
               .min = 1, .max = 1000000, .help = H_MEMBER_EVENTS_HEARTBEAT_EVENT_LIMIT),           \
        OPTION("events.ids", BOOL, .flags = OPTION_RELOAD, .fallback = "true",                     \
               .help = H_MEMBER_EVENTS_IDS),                                                       \
        OPTION("events.topics", ENUM, .flags = OPTION_RELOAD,                                      \
               .choices = MEMBER_CHOICES("all", "rollout"), .fallback = "all",                     \
               .help = H_MEMBER_EVENTS_TOPICS),                                                    \
        OPTION("events.failure_scope", ENUM, .choices = MEMBER_CHOICES("incarnation", "worker"),   \
               .fallback = "incarnation", .help = H_MEMBER_EVENTS_FAILURE_SCOPE),                  \
        OPTION("events.redelivery", ENUM,                                                          \
               .choices = MEMBER_CHOICES("at_least_once", "at_most_once"),                         \
               .fallback = "at_least_once", .help = H_MEMBER_EVENTS_REDELIVERY),                   \
        OPTION("events.queue", U64, .fallback = "100000", .min = 1, .max = 100000,                 \
               .help = H_MEMBER_EVENTS_QUEUE),                                                     \
        OPTION("events.worker_sink", ENUM, .choices = MEMBER_CHOICES("stdout", "file", "none"),    \
               .fallback = "stdout", .help = H_MEMBER_EVENTS_WORKER_SINK),                         \
        OPTION("events.worker_file", STRING, .fallback = "workers.ndjson",                         \
               .file = OPTION_FILE_OUTPUT_BELOW, .placeholder = "FILE",                            \
               .help = H_MEMBER_EVENTS_WORKER_FILE)

/* Shared by coordinator and worker. `gate`: OPTION_GATED if the section's presence has meaning. */
#define OPTIONS_TRANSPORT_TIMES(gate)                                                              \
    OPTION("transport.tls_dir", STRING, .flags = (gate), .fallback = "./data/tls",                 \
           .placeholder = "DIR", .help = H_MEMBER_TRANSPORT_TLS_DIR),                              \
        OPTION("transport.heartbeat_interval", DURATION, .flags = (gate), .fallback = "500ms",     \
               .min = 1, .max = 86400000ull, .help = H_MEMBER_TRANSPORT_HEARTBEAT_INTERVAL),       \
        OPTION("transport.worker_self_fence_timeout", DURATION, .flags = (gate), .fallback = "4s", \
               .min = 1, .max = 86400000ull,                                                       \
               .help = H_MEMBER_TRANSPORT_WORKER_SELF_FENCE_TIMEOUT),                              \
        OPTION("transport.coordinator_failure_timeout", DURATION, .flags = (gate),                 \
               .fallback = "5s", .min = 1, .max = 86400000ull,                                     \
               .help = H_MEMBER_TRANSPORT_COORDINATOR_FAILURE_TIMEOUT),                            \
        OPTION("transport.clock_skew_budget", DURATION, .flags = (gate), .fallback = "250ms",      \
               .max = 86400000ull, .help = H_MEMBER_TRANSPORT_CLOCK_SKEW_BUDGET)
#define OPTIONS_TRANSPORT_FILES(gate)                                                              \
    OPTION("transport.ca_file", STRING, .flags = (gate), .file = OPTION_FILE_INPUT,                \
           .placeholder = "FILE", .example = "tls/ca.pem", .help = H_MEMBER_TRANSPORT_CA_FILE),    \
        OPTION("transport.cert_file", STRING, .flags = (gate), .file = OPTION_FILE_INPUT,          \
               .placeholder = "FILE", .example = "tls/server.pem",                                 \
               .help = "the certificate that is shown"),                                           \
        OPTION("transport.key_file", STRING, .flags = (gate), .file = OPTION_FILE_INPUT,           \
               .placeholder = "FILE", .example = "tls/server.key.pem", .help = "its private key"), \
        OPTION("transport.strict_permissions", BOOL, .flags = (gate), .fallback = "false",         \
               .help = H_MEMBER_TRANSPORT_STRICT_PERMISSIONS)

/* coordinator: sections that a worker does not have */
#define MEMBER_OPTIONS_SECTIONS                                                                    \
    OPTION("storage.path", STRING, .fallback = "./data/rollout.db", .file = OPTION_FILE_OTHER,     \
           .placeholder = "FILE", .help = H_MEMBER_STORAGE_PATH),                                  \
        OPTION("storage.heartbeat_flush_interval", DURATION, .fallback = "1s", .min = 10,          \
               .max = 3600000, .help = "how often it is written, if anything changed"),            \
        OPTION("transport.listen_addr", STRING, .flags = OPTION_GATED,                             \
               .fallback = "127.0.0.1:50051", .placeholder = "IP:PORT",                            \
               .help = H_MEMBER_TRANSPORT_LISTEN_ADDR),                                            \
        OPTIONS_TRANSPORT_TIMES(OPTION_GATED),                                                     \
        OPTION("transport.beat_reply_max", DURATION, .flags = OPTION_GATED, .fallback = "200ms",   \
               .min = 1, .max = 60000, .help = H_MEMBER_TRANSPORT_BEAT_REPLY_MAX),                 \
        OPTION("transport.beat_budget", U64, .flags = OPTION_GATED, .fallback = "20000", .min = 1, \
               .max = 10000000, .help = H_MEMBER_TRANSPORT_BEAT_BUDGET),                           \
        OPTION("transport.max_connections", U64, .flags = OPTION_GATED, .fallback = "100000",      \
               .min = 1, .max = 1000000, .help = "connections of workers; more are refused"),      \
        OPTIONS_TRANSPORT_FILES(OPTION_GATED),                                                     \
        OPTION("transport.bind_identity", BOOL, .flags = OPTION_GATED, .fallback = "false",        \
               .help = H_MEMBER_TRANSPORT_BIND_IDENTITY),                                          \
        OPTION("detector.kind", ENUM, .choices = MEMBER_CHOICES("deadline", "silence"),            \
               .fallback = "deadline", .help = H_MEMBER_DETECTOR_KIND),                            \
        OPTION("detector.deadline_source", ENUM, .flags = OPTION_RELOAD,                           \
               .choices = MEMBER_CHOICES("auto", "worker", "arrival"), .fallback = "auto",         \
               .help = H_MEMBER_DETECTOR_DEADLINE_SOURCE),                                         \
        OPTION("detector.heartbeat_timeout_sec", U64, .flags = OPTION_RELOAD, .fallback = "30",    \
               .min = 1, .max = 86400, .help = H_MEMBER_DETECTOR_HEARTBEAT_TIMEOUT_SEC),           \
        OPTION("detector.suspect_ratio", DECIMAL, .flags = OPTION_RELOAD, .fallback = "0.5",       \
               .max = 1000000, .help = "silence: suspected after this part of it"),                \
        OPTION("detector.confirm_scans", U64, .flags = OPTION_RELOAD, .fallback = "0",             \
               .max = 1000, .help = "silence: so many further scans must agree"),                  \
        OPTION("detector.max_fail_fraction", DECIMAL, .flags = OPTION_RELOAD, .fallback = "0.34",  \
               .max = 1000000, .help = H_MEMBER_DETECTOR_MAX_FAIL_FRACTION),                       \
        OPTION("detector.mass_failure_hold", DURATION, .flags = OPTION_RELOAD, .fallback = "30s",  \
               .max = 86400000ull, .help = "for how long"),                                        \
        OPTION("detector.suspect", ENUM, .flags = OPTION_RELOAD,                                   \
               .choices = MEMBER_CHOICES("threshold", "phi"), .fallback = "threshold",             \
               .help = H_MEMBER_DETECTOR_SUSPECT),                                                 \
        OPTION("detector.phi_threshold", DECIMAL, .flags = OPTION_RELOAD, .fallback = "8",         \
               .max = 100000000, .help = H_MEMBER_DETECTOR_PHI_THRESHOLD),                         \
        OPTION("detector.phi_samples", U64, .flags = OPTION_RELOAD, .fallback = "200", .min = 2,   \
               .max = 1000000, .help = "phi: the gaps between beats that count"),                  \
        OPTION("detector.phi_min_std", DURATION, .flags = OPTION_RELOAD, .fallback = "100ms",      \
               .max = 86400000ull, .help = "phi: the least deviation of them"),                    \
        OPTION("membership.unknown_beat", ENUM,                                                    \
               .choices = MEMBER_CHOICES("register", "ignore", "reject"), .fallback = "register",  \
               .help = H_MEMBER_MEMBERSHIP_UNKNOWN_BEAT),                                          \
        OPTION("membership.run_mismatch", ENUM, .choices = MEMBER_CHOICES("reject", "accept"),     \
               .fallback = "reject", .help = "a beat of another run"),                             \
        OPTION("membership.dead_retention", DURATION, .fallback = "10m", .max = 365 * 86400000ull, \
               .help = H_MEMBER_MEMBERSHIP_DEAD_RETENTION),                                        \
        OPTION("membership.tombstone_retention", DURATION, .fallback = "24h",                      \
               .max = 365 * 86400000ull, .help = H_MEMBER_MEMBERSHIP_TOMBSTONE_RETENTION),         \
        OPTION("placement.total_partitions", U64, .fallback = "128", .max = 1048576,               \
               .help = "fixed for the life of the run"),                                           \
        OPTION("placement.virtual_nodes", U64, .fallback = "128", .max = 1000000,                  \
               .help = "points of a worker on the ring"),                                          \
        OPTION("placement.max_keys_per_partition", U64, .fallback = "2000", .min = 1,              \
               .max = 1000000000, .help = H_MEMBER_PLACEMENT_MAX_KEYS_PER_PARTITION),              \
        OPTION("placement.kind", ENUM,                                                             \
               .choices = MEMBER_CHOICES("ring", "ring-bounded", "rendezvous"),                    \
               .fallback = "ring", .help = H_MEMBER_PLACEMENT_KIND),                               \
        OPTION("placement.epsilon", DECIMAL, .fallback = "0.25", .max = 1000000000,                \
               .help = H_MEMBER_PLACEMENT_EPSILON),                                                \
        OPTION("placement.ring_hash", ENUM, .choices = MEMBER_CHOICES("fnv1a64-mix"),              \
               .fallback = "fnv1a64-mix", .help = "the function of the ring"),                     \
        OPTION("placement.ring_on", ENUM, .choices = MEMBER_CHOICES("ready", "register"),          \
               .fallback = "ready", .help = H_MEMBER_PLACEMENT_RING_ON),                           \
        OPTION("placement.rebalance_window", DURATION, .fallback = "500ms", .max = 3600000,        \
               .help = "changes within it count as one"),                                          \
        OPTION("placement.revoke_timeout", DURATION, .fallback = "30s", .min = 1,                  \
               .max = 86400000ull, .help = H_MEMBER_PLACEMENT_REVOKE_TIMEOUT),                     \
        OPTION("placement.on_revoke_timeout", ENUM, .choices = MEMBER_CHOICES("wait", "evict"),    \
               .fallback = "wait", .help = "when it takes longer: wait on, or evict it"),          \
        OPTION("placement.partition_move_limit", DECIMAL, .fallback = "0.1", .max = 1000000,       \
               .help = H_MEMBER_PLACEMENT_PARTITION_MOVE_LIMIT),                                   \
        OPTION("placement.grant_to_legacy", BOOL, .fallback = "false",                             \
               .help = H_MEMBER_PLACEMENT_GRANT_TO_LEGACY),                                        \
        OPTION("checkpoint.checkpoint_interval_sec", U64, .flags = OPTION_RELOAD,                  \
               .fallback = "10", .min = 1, .max = 86400, .help = "seconds between two rounds"),    \
        OPTION("checkpoint.ack_timeout", DURATION, .flags = OPTION_RELOAD, .fallback = "60s",      \
               .min = 1, .max = 86400000ull, .help = H_MEMBER_CHECKPOINT_ACK_TIMEOUT),             \
        OPTION("checkpoint.min_pause", DURATION, .flags = OPTION_RELOAD, .fallback = "0s",         \
               .max = 86400000ull, .help = H_MEMBER_CHECKPOINT_MIN_PAUSE),                         \
        OPTION("checkpoint.max_failures", U64, .flags = OPTION_RELOAD, .fallback = "0",            \
               .max = 1000000, .help = H_MEMBER_CHECKPOINT_MAX_FAILURES),                          \
        OPTION("work.max_attempts", U64, .fallback = "5", .min = 1, .max = 1000,                   \
               .help = H_MEMBER_WORK_MAX_ATTEMPTS),                                                \
        OPTION("work.requeue_failed", BOOL, .fallback = "false",                                   \
               .help = "an item that failed is given out again"),                                  \
        OPTION("work.steal_started", BOOL, .fallback = "false",                                    \
               .help = "items that run may be stolen, too"),                                       \
        OPTION("work.max_steal", U64, .fallback = "32", .min = 1, .max = 10000,                    \
               .help = "items one steal takes at most")

/* worker: keys without a section */
#define WORKER_OPTIONS_TOP                                                                         \
    OPTION("run_id", STRING, .flags = OPTION_REQUIRED, .placeholder = "ULID",                      \
           .example = "01JFEAVS7C5DE5XEAEAB91EBT5", .help = "the run it serves, a ULID"),          \
        OPTION("coordinator_addr", LIST, .flags = OPTION_REQUIRED | OPTION_ONE_OR_LIST,            \
               .placeholder = "URL,...", .example = "https://127.0.0.1:50051",                     \
               .help = H_MEMBER_COORDINATOR_ADDR),                                                 \
        OPTION("coordinator_domain", STRING, .fallback = "localhost", .placeholder = "NAME",       \
               .help = "the name in the coordinators' certificate"),                               \
        OPTION("worker-id", STRING, .flags = OPTION_FLAG_ONLY, .placeholder = "ULID",              \
               .help = H_MEMBER_WORKER_ID),                                                        \
        OPTION("plugin", LIST, .flags = OPTION_FLAG_ONLY, .file = OPTION_FILE_INPUT,               \
               .placeholder = "MANIFEST,...", .help = H_MEMBER_PLUGIN),                            \
        OPTION("hot-reload", BOOL, .flags = OPTION_FLAG_ONLY, .fallback = "false",                 \
               .help = H_MEMBER_HOT_RELOAD)

/* worker: keys in sections */
#define WORKER_OPTIONS_SECTIONS                                                                    \
    OPTION("storage.path", STRING, .fallback = "./data/worker.db", .file = OPTION_FILE_OTHER,      \
           .placeholder = "FILE", .help = H_MEMBER_WORKER_OPTIONS_SECTIONS_STORAGE_PATH),          \
        OPTION("transport.listen_addr", STRING, .fallback = "127.0.0.1:50051",                     \
               .placeholder = "IP:PORT",                                                           \
               .help = H_MEMBER_WORKER_OPTIONS_SECTIONS_TRANSPORT_LISTEN_ADDR),                    \
        OPTIONS_TRANSPORT_TIMES(0), OPTIONS_TRANSPORT_FILES(0),                                    \
        OPTION("worker.fence_action", ENUM, .choices = MEMBER_CHOICES("stop", "exit"),             \
               .fallback = "stop", .help = H_MEMBER_WORKER_FENCE_ACTION),                          \
        OPTION("worker.drain_deadline", DURATION, .fallback = "60s", .max = 86400000ull,           \
               .help = H_MEMBER_WORKER_DRAIN_DEADLINE),                                            \
        OPTION("checkpoint.store", STRING, .placeholder = "URL",                                   \
               .example = "file:///var/lib/muster/checkpoints", .help = H_MEMBER_CHECKPOINT_STORE)

#endif
