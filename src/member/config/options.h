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

/* Choices in the order of their enum (in core/, events/ or config.h). File scope only. */
#define MEMBER_CHOICES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* coordinator: keys without a section */
#define MEMBER_OPTIONS_TOP                                                                         \
    OPTION("run_id", STRING, .placeholder = "ULID", .example = "01JFEAVS7C5DE5XEAEAB91EBT5",       \
           .help = "the run that workers serve, a ULID; needed with a [transport] section"),       \
        OPTION("start_timeout", DURATION, .fallback = "60s", .max = 86400000ull,                   \
               .help = "with a [transport] section: how long to wait for a leader before giving "  \
                       "up with loser_exit; 0 waits for ever"),                                    \
        OPTION("loser_exit", U64, .fallback = "3", .max = 255,                                     \
               .help = "the exit code of giving up")

/* coordinator: additional keys of [events] */
#define MEMBER_OPTIONS_EVENTS                                                                      \
    OPTION("events.heartbeat", ENUM, .also = "--heartbeat-events", .flags = OPTION_RELOAD,         \
           .choices = MEMBER_CHOICES("all", "sampled", "none"), .fallback = "all",                 \
           .help = "which accepted beats are written as worker_heartbeat: all up to "              \
                   "heartbeat_event_limit, one in a hundred, or none"),                            \
        OPTION("events.heartbeat_event_limit", U64, .flags = OPTION_RELOAD, .fallback = "5000",    \
               .min = 1, .max = 1000000,                                                           \
               .help = "worker_heartbeat lines a second; beyond it one in N, marked sampled"),     \
        OPTION("events.ids", BOOL, .flags = OPTION_RELOAD, .fallback = "true",                     \
               .help =                                                                             \
                   "add event_id, incarnation and replayed to the attributes of workers' events"), \
        OPTION("events.topics", ENUM, .flags = OPTION_RELOAD,                                      \
               .choices = MEMBER_CHOICES("all", "rollout"), .fallback = "all",                     \
               .help = "rollout: only the topics and attributes that rollout's consumers know"),   \
        OPTION("events.failure_scope", ENUM, .choices = MEMBER_CHOICES("incarnation", "worker"),   \
               .fallback = "incarnation",                                                          \
               .help = "one worker_failed for each incarnation, or for each worker as long as it " \
                       "is known"),                                                                \
        OPTION("events.redelivery", ENUM,                                                          \
               .choices = MEMBER_CHOICES("at_least_once", "at_most_once"),                         \
               .fallback = "at_least_once",                                                        \
               .help = "what a leader that dies while it writes a line leaves: the line twice, "   \
                       "with one event_id, or not at all"),                                        \
        OPTION("events.queue", U64, .fallback = "100000", .min = 1, .max = 100000,                 \
               .help = "workers' events that wait while nobody reads; heartbeats are dropped "     \
                       "first, transitions never"),                                                \
        OPTION("events.worker_sink", ENUM, .choices = MEMBER_CHOICES("stdout", "file", "none"),    \
               .fallback = "stdout",                                                               \
               .help = "where workers' events go; the fleet's go to events.sink"),                 \
        OPTION("events.worker_file", STRING, .fallback = "workers.ndjson",                         \
               .file = OPTION_FILE_OUTPUT_BELOW, .placeholder = "FILE",                            \
               .help = "the file of events.worker_sink = \"file\"; a path that does not begin "    \
                       "with / is below data-dir. It rotates as events.file does")

/* Shared by coordinator and worker. `gate`: OPTION_GATED if the section's presence has meaning. */
#define OPTIONS_TRANSPORT_TIMES(gate)                                                              \
    OPTION("transport.tls_dir", STRING, .flags = (gate), .fallback = "./data/tls",                 \
           .placeholder = "DIR",                                                                   \
           .help = "the development CA, ca.pem and ca.key.pem; the first process makes it"),       \
        OPTION("transport.heartbeat_interval", DURATION, .flags = (gate), .fallback = "500ms",     \
               .min = 1, .max = 86400000ull,                                                       \
               .help = "how often a worker beats; failures are looked for twice as often"),        \
        OPTION("transport.worker_self_fence_timeout", DURATION, .flags = (gate), .fallback = "4s", \
               .min = 1, .max = 86400000ull,                                                       \
               .help = "a worker that has had no answer for this long stops all it does"),         \
        OPTION("transport.coordinator_failure_timeout", DURATION, .flags = (gate),                 \
               .fallback = "5s", .min = 1, .max = 86400000ull,                                     \
               .help = "a worker later than this, and than clock_skew_budget, has failed"),        \
        OPTION("transport.clock_skew_budget", DURATION, .flags = (gate), .fallback = "250ms",      \
               .max = 86400000ull,                                                                 \
               .help = "how far clocks may differ; a worker later than this is suspected")
#define OPTIONS_TRANSPORT_FILES(gate)                                                              \
    OPTION("transport.ca_file", STRING, .flags = (gate), .file = OPTION_FILE_INPUT,                \
           .placeholder = "FILE", .example = "tls/ca.pem",                                         \
           .help = "instead of the development CA: the authority the other side's certificate "    \
                   "comes from"),                                                                  \
        OPTION("transport.cert_file", STRING, .flags = (gate), .file = OPTION_FILE_INPUT,          \
               .placeholder = "FILE", .example = "tls/server.pem",                                 \
               .help = "the certificate that is shown"),                                           \
        OPTION("transport.key_file", STRING, .flags = (gate), .file = OPTION_FILE_INPUT,           \
               .placeholder = "FILE", .example = "tls/server.key.pem", .help = "its private key"), \
        OPTION("transport.strict_permissions", BOOL, .flags = (gate), .fallback = "false",         \
               .help = "refuse a CA key that others may read, rather than warn")

/* coordinator: sections that a worker does not have */
#define MEMBER_OPTIONS_SECTIONS                                                                    \
    OPTION("storage.path", STRING, .fallback = "./data/rollout.db", .file = OPTION_FILE_OTHER,     \
           .placeholder = "FILE",                                                                  \
           .help = "the heartbeat ledger, for people to look at; nothing is decided by it"),       \
        OPTION("storage.heartbeat_flush_interval", DURATION, .fallback = "1s", .min = 10,          \
               .max = 3600000, .help = "how often it is written, if anything changed"),            \
        OPTION("transport.listen_addr", STRING, .flags = OPTION_GATED,                             \
               .fallback = "127.0.0.1:50051", .placeholder = "IP:PORT",                            \
               .help = "where workers call, over mutual TLS always: a numeric ip:port; port 0 "    \
                       "takes a free one"),                                                        \
        OPTIONS_TRANSPORT_TIMES(OPTION_GATED),                                                     \
        OPTION("transport.beat_reply_max", DURATION, .flags = OPTION_GATED, .fallback = "200ms",   \
               .min = 1, .max = 60000,                                                             \
               .help = "every beat is answered within this, if need be with an error"),            \
        OPTION("transport.beat_budget", U64, .flags = OPTION_GATED, .fallback = "20000", .min = 1, \
               .max = 10000000,                                                                    \
               .help = "beats a second; with more workers than that needs, they are asked to "     \
                       "beat less often"),                                                         \
        OPTION("transport.max_connections", U64, .flags = OPTION_GATED, .fallback = "100000",      \
               .min = 1, .max = 1000000, .help = "connections of workers; more are refused"),      \
        OPTIONS_TRANSPORT_FILES(OPTION_GATED),                                                     \
        OPTION("transport.bind_identity", BOOL, .flags = OPTION_GATED, .fallback = "false",        \
               .help = "take a beat only from the certificate worker-<its worker id>"),            \
        OPTION("detector.kind", ENUM, .choices = MEMBER_CHOICES("deadline", "silence"),            \
               .fallback = "deadline",                                                             \
               .help = "what counts: how late a beat is, or how long it has been silent"),         \
        OPTION("detector.deadline_source", ENUM, .flags = OPTION_RELOAD,                           \
               .choices = MEMBER_CHOICES("auto", "worker", "arrival"), .fallback = "auto",         \
               .help = "whose clock says when the next beat is due: the worker's while it is "     \
                       "within clock_skew_budget of ours, always the worker's, or ours"),          \
        OPTION("detector.heartbeat_timeout_sec", U64, .flags = OPTION_RELOAD, .fallback = "30",    \
               .min = 1, .max = 86400,                                                             \
               .help = "silence: seconds without a beat before a worker is dead"),                 \
        OPTION("detector.suspect_ratio", DECIMAL, .flags = OPTION_RELOAD, .fallback = "0.5",       \
               .max = 1000000, .help = "silence: suspected after this part of it"),                \
        OPTION("detector.confirm_scans", U64, .flags = OPTION_RELOAD, .fallback = "0",             \
               .max = 1000, .help = "silence: so many further scans must agree"),                  \
        OPTION("detector.max_fail_fraction", DECIMAL, .flags = OPTION_RELOAD, .fallback = "0.34",  \
               .max = 1000000,                                                                     \
               .help = "more than this part of the workers dead within 10 s is held back as our "  \
                       "own fault"),                                                               \
        OPTION("detector.mass_failure_hold", DURATION, .flags = OPTION_RELOAD, .fallback = "30s",  \
               .max = 86400000ull, .help = "for how long"),                                        \
        OPTION("detector.suspect", ENUM, .flags = OPTION_RELOAD,                                   \
               .choices = MEMBER_CHOICES("threshold", "phi"), .fallback = "threshold",             \
               .help = "deadline: suspected once it is late by clock_skew_budget, or by the "      \
                       "history of its arrivals; who is dead is decided as ever"),                 \
        OPTION("detector.phi_threshold", DECIMAL, .flags = OPTION_RELOAD, .fallback = "8",         \
               .max = 100000000,                                                                   \
               .help = "phi: how improbable its silence must be, as a power of ten"),              \
        OPTION("detector.phi_samples", U64, .flags = OPTION_RELOAD, .fallback = "200", .min = 2,   \
               .max = 1000000, .help = "phi: the gaps between beats that count"),                  \
        OPTION("detector.phi_min_std", DURATION, .flags = OPTION_RELOAD, .fallback = "100ms",      \
               .max = 86400000ull, .help = "phi: the least deviation of them"),                    \
        OPTION("membership.unknown_beat", ENUM,                                                    \
               .choices = MEMBER_CHOICES("register", "ignore", "reject"), .fallback = "register",  \
               .help = "a beat of a worker nobody knows registers it, is ignored, or is refused"), \
        OPTION("membership.run_mismatch", ENUM, .choices = MEMBER_CHOICES("reject", "accept"),     \
               .fallback = "reject", .help = "a beat of another run"),                             \
        OPTION("membership.dead_retention", DURATION, .fallback = "10m", .max = 365 * 86400000ull, \
               .help = "how long a dead worker is shown before only its tombstone is left"),       \
        OPTION("membership.tombstone_retention", DURATION, .fallback = "24h",                      \
               .max = 365 * 86400000ull,                                                           \
               .help = "how long a tombstone keeps the incarnations of an id growing"),            \
        OPTION("placement.total_partitions", U64, .fallback = "128", .max = 1048576,               \
               .help = "fixed for the life of the run"),                                           \
        OPTION("placement.virtual_nodes", U64, .fallback = "128", .max = 1000000,                  \
               .help = "points of a worker on the ring"),                                          \
        OPTION("placement.max_keys_per_partition", U64, .fallback = "2000", .min = 1,              \
               .max = 1000000000, .help = "a worker that has more says so; nothing is moved"),     \
        OPTION(                                                                                    \
            "placement.kind", ENUM,                                                                \
            .choices = MEMBER_CHOICES("ring", "ring-bounded", "rendezvous"), .fallback = "ring",   \
            .help =                                                                                \
                "the plain ring, the ring with a bound on what one worker gets, or rendezvous"),   \
        OPTION("placement.epsilon", DECIMAL, .fallback = "0.25", .max = 1000000000,                \
               .help = "ring-bounded: how far above the mean a worker may be"),                    \
        OPTION("placement.ring_hash", ENUM, .choices = MEMBER_CHOICES("fnv1a64-mix"),              \
               .fallback = "fnv1a64-mix", .help = "the function of the ring"),                     \
        OPTION("placement.ring_on", ENUM, .choices = MEMBER_CHOICES("ready", "register"),          \
               .fallback = "ready",                                                                \
               .help =                                                                             \
                   "when a worker joins the ring: with its first READY beat, or as it registers"), \
        OPTION("placement.rebalance_window", DURATION, .fallback = "500ms", .max = 3600000,        \
               .help = "changes within it count as one"),                                          \
        OPTION("placement.revoke_timeout", DURATION, .fallback = "30s", .min = 1,                  \
               .max = 86400000ull, .help = "how long a worker may take to give a partition back"), \
        OPTION("placement.on_revoke_timeout", ENUM, .choices = MEMBER_CHOICES("wait", "evict"),    \
               .fallback = "wait", .help = "when it takes longer: wait on, or evict it"),          \
        OPTION("placement.partition_move_limit", DECIMAL, .fallback = "0.1", .max = 1000000,       \
               .help = "the part of all partitions that may be on the move at once"),              \
        OPTION("placement.grant_to_legacy", BOOL, .fallback = "false",                             \
               .help = "give partitions to workers that only beat, too; two of them may then own " \
                       "one partition"),                                                           \
        OPTION("checkpoint.checkpoint_interval_sec", U64, .flags = OPTION_RELOAD,                  \
               .fallback = "10", .min = 1, .max = 86400, .help = "seconds between two rounds"),    \
        OPTION("checkpoint.ack_timeout", DURATION, .flags = OPTION_RELOAD, .fallback = "60s",      \
               .min = 1, .max = 86400000ull,                                                       \
               .help = "an answer later than this is given up, and reported once"),                \
        OPTION("checkpoint.min_pause", DURATION, .flags = OPTION_RELOAD, .fallback = "0s",         \
               .max = 86400000ull,                                                                 \
               .help = "the least pause of a worker between its answer and its next request"),     \
        OPTION("checkpoint.max_failures", U64, .flags = OPTION_RELOAD, .fallback = "0",            \
               .max = 1000000,                                                                     \
               .help = "so many answers missed in a row make a worker drain; 0: never"),           \
        OPTION("work.max_attempts", U64, .fallback = "5", .min = 1, .max = 1000,                   \
               .help = "how often an item is given out before it is given up"),                    \
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
               .help = "where coordinators answer workers: one URL, or a list of all of them; "    \
                       "with several a second connection is kept warm"),                           \
        OPTION("coordinator_domain", STRING, .fallback = "localhost", .placeholder = "NAME",       \
               .help = "the name in the coordinators' certificate"),                               \
        OPTION("worker-id", STRING, .flags = OPTION_FLAG_ONLY, .placeholder = "ULID",              \
               .help = "who it is, a ULID; without it a new one is made and said"),                \
        OPTION("plugin", LIST, .flags = OPTION_FLAG_ONLY, .file = OPTION_FILE_INPUT,               \
               .placeholder = "MANIFEST,...",                                                      \
               .help = "the manifest of a plugin; again for another, loaded in this order"),       \
        OPTION("hot-reload", BOOL, .flags = OPTION_FLAG_ONLY, .fallback = "false",                 \
               .help = "watch the plugins and load them anew when they change")

/* worker: keys in sections */
#define WORKER_OPTIONS_SECTIONS                                                                    \
    OPTION("storage.path", STRING, .fallback = "./data/worker.db", .file = OPTION_FILE_OTHER,      \
           .placeholder = "FILE",                                                                  \
           .help = "its own database. A [storage] section without it means "                       \
                   "./data/rollout.db, as it did with rollout"),                                   \
        OPTION("transport.listen_addr", STRING, .fallback = "127.0.0.1:50051",                     \
               .placeholder = "IP:PORT",                                                           \
               .help = "taken so that both sides may share a file; a worker listens nowhere"),     \
        OPTIONS_TRANSPORT_TIMES(0), OPTIONS_TRANSPORT_FILES(0),                                    \
        OPTION("worker.fence_action", ENUM, .choices = MEMBER_CHOICES("stop", "exit"),             \
               .fallback = "stop",                                                                 \
               .help = "what a worker does that fences itself: stop its work and go on beating, "  \
                       "or end with exit code 75"),                                                \
        OPTION("worker.drain_deadline", DURATION, .fallback = "60s", .max = 86400000ull,           \
               .help = "how long giving everything back may take after SIGTERM"),                  \
        OPTION("checkpoint.store", STRING, .placeholder = "URL",                                   \
               .example = "file:///var/lib/muster/checkpoints",                                    \
               .help = "where checkpoints live: file:///directory or s3://bucket/prefix; without " \
                       "it partitions begin at their start")

#endif
