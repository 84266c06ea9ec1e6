/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the option tables that are about workers, for the tables of `coordinator run` and
 * `worker run`, and for tests. What they mean together is in config.h.
 *
 * Names and defaults are those of workers.md § 16. What the coordinator has had before keeps its
 * own name and answers to the other one, too: cluster.id is id, cluster.peers join-addr, http.addr
 * http.listen, cluster.election_timeout election. cluster.leader_lease does not exist: a beat is
 * acknowledged behind a round of leadership, not behind a clock. */
#ifndef MEMBER_CONFIG_OPTIONS_H
#define MEMBER_CONFIG_OPTIONS_H
#include "conf/option.h"

extern const char *const member_choices_heartbeat[];
extern const char *const member_choices_topics[];
extern const char *const member_choices_scope[];
extern const char *const member_choices_redelivery[];
extern const char *const member_choices_sink[];
extern const char *const member_choices_detector[];
extern const char *const member_choices_source[];
extern const char *const member_choices_suspect[];
extern const char *const member_choices_unknown[];
extern const char *const member_choices_mismatch[];
extern const char *const member_choices_placement[];
extern const char *const member_choices_hash[];
extern const char *const member_choices_ring_on[];
extern const char *const member_choices_revoke[];
extern const char *const member_choices_fence[];

/* Of a coordinator: keys without a section. */
#define MEMBER_OPTIONS_TOP                                                                         \
    {.name = "run_id",                                                                             \
     .kind = OPTION_STRING,                                                                        \
     .placeholder = "ULID",                                                                        \
     .example = "01JFEAVS7C5DE5XEAEAB91EBT5",                                                      \
     .help = "the run that workers serve, a ULID; needed with a [transport] section"},             \
        {.name = "start_timeout",                                                                  \
         .kind = OPTION_DURATION,                                                                  \
         .fallback = "60s",                                                                        \
         .max = 86400000ull,                                                                       \
         .help = "with a [transport] section: how long to wait for a leader before giving up "     \
                 "with loser_exit; 0 waits for ever"},                                             \
    {                                                                                              \
        .name = "loser_exit", .kind = OPTION_U64, .fallback = "3", .max = 255,                     \
        .help = "the exit code of giving up"                                                       \
    }

/* Of a coordinator: behind the other keys of [events]. */
#define MEMBER_OPTIONS_EVENTS                                                                      \
    {.name = "events.heartbeat",                                                                   \
     .kind = OPTION_ENUM,                                                                          \
     .flags = OPTION_RELOAD,                                                                       \
     .choices = member_choices_heartbeat,                                                          \
     .fallback = "all",                                                                            \
     .also = "--heartbeat-events",                                                                 \
     .help = "which accepted beats are told as worker_heartbeat: all up to "                       \
             "heartbeat_event_limit, one in a hundred, or none"},                                  \
        {.name = "events.heartbeat_event_limit",                                                   \
         .kind = OPTION_U64,                                                                       \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "5000",                                                                       \
         .min = 1,                                                                                 \
         .max = 1000000,                                                                           \
         .help = "worker_heartbeat lines a second; beyond it one in N, marked sampled"},           \
        {.name = "events.ids",                                                                     \
         .kind = OPTION_BOOL,                                                                      \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "true",                                                                       \
         .help = "add event_id, incarnation and replayed to the attributes of workers' events"},   \
        {.name = "events.topics",                                                                  \
         .kind = OPTION_ENUM,                                                                      \
         .flags = OPTION_RELOAD,                                                                   \
         .choices = member_choices_topics,                                                         \
         .fallback = "all",                                                                        \
         .help = "rollout: only the topics and attributes that rollout's consumers know"},         \
        {.name = "events.failure_scope",                                                           \
         .kind = OPTION_ENUM,                                                                      \
                                                                                                   \
         .choices = member_choices_scope,                                                          \
         .fallback = "incarnation",                                                                \
         .help =                                                                                   \
             "one worker_failed for each incarnation, or for each worker as long as it is known"}, \
        {.name = "events.redelivery",                                                              \
         .kind = OPTION_ENUM,                                                                      \
                                                                                                   \
         .choices = member_choices_redelivery,                                                     \
         .fallback = "at_least_once",                                                              \
         .help = "what a leader that dies while it writes a line leaves: the line twice, with "    \
                 "one event_id, or not at all"},                                                   \
        {.name = "events.queue",                                                                   \
         .kind = OPTION_U64,                                                                       \
         .fallback = "100000",                                                                     \
         .min = 1,                                                                                 \
         .max = 100000,                                                                            \
         .help = "workers' events that wait while nobody reads; heartbeats are dropped first, "    \
                 "transitions never"},                                                             \
        {.name = "events.worker_sink",                                                             \
         .kind = OPTION_ENUM,                                                                      \
         .choices = member_choices_sink,                                                           \
         .fallback = "stdout",                                                                     \
         .help = "where workers' events go; the fleet's go to events.sink"},                       \
    {                                                                                              \
        .name = "events.worker_file", .file = OPTION_FILE_OUTPUT_BELOW, .kind = OPTION_STRING,     \
        .fallback = "workers.ndjson", .placeholder = "FILE",                                       \
        .help = "the file of events.worker_sink = \"file\"; a path that does not begin with / is " \
                "below data-dir. It rotates as events.file does"                                   \
    }

/* Of both: `gate` is OPTION_GATED where the section being there says something. */
#define OPTIONS_TRANSPORT_TIMES(gate)                                                              \
    {.name = "transport.tls_dir",                                                                  \
     .kind = OPTION_STRING,                                                                        \
     .flags = (gate),                                                                              \
     .fallback = "./data/tls",                                                                     \
     .placeholder = "DIR",                                                                         \
     .help = "the development CA, ca.pem and ca.key.pem; whoever comes first makes it"},           \
        {.name = "transport.heartbeat_interval",                                                   \
         .kind = OPTION_DURATION,                                                                  \
         .flags = (gate),                                                                          \
         .fallback = "500ms",                                                                      \
         .min = 1,                                                                                 \
         .max = 86400000ull,                                                                       \
         .help = "how often a worker beats; failures are looked for twice as often"},              \
        {.name = "transport.worker_self_fence_timeout",                                            \
         .kind = OPTION_DURATION,                                                                  \
         .flags = (gate),                                                                          \
         .fallback = "4s",                                                                         \
         .min = 1,                                                                                 \
         .max = 86400000ull,                                                                       \
         .help = "a worker that has had no answer for this long stops all it does"},               \
        {.name = "transport.coordinator_failure_timeout",                                          \
         .kind = OPTION_DURATION,                                                                  \
         .flags = (gate),                                                                          \
         .fallback = "5s",                                                                         \
         .min = 1,                                                                                 \
         .max = 86400000ull,                                                                       \
         .help = "a worker later than this, and than clock_skew_budget, has failed"},              \
    {                                                                                              \
        .name = "transport.clock_skew_budget", .kind = OPTION_DURATION, .flags = (gate),           \
        .fallback = "250ms", .max = 86400000ull,                                                   \
        .help = "how far clocks may differ; a worker later than this is suspected"                 \
    }
#define OPTIONS_TRANSPORT_FILES(gate)                                                              \
    {.name = "transport.ca_file",                                                                  \
     .file = OPTION_FILE_INPUT,                                                                    \
     .kind = OPTION_STRING,                                                                        \
     .flags = (gate),                                                                              \
     .placeholder = "FILE",                                                                        \
     .example = "tls/ca.pem",                                                                      \
     .help = "instead of the development CA: the authority the other side's certificate "          \
             "comes from"},                                                                        \
        {.name = "transport.cert_file",                                                            \
         .file = OPTION_FILE_INPUT,                                                                \
         .kind = OPTION_STRING,                                                                    \
         .flags = (gate),                                                                          \
         .placeholder = "FILE",                                                                    \
         .example = "tls/server.pem",                                                              \
         .help = "the certificate that is shown"},                                                 \
        {.name = "transport.key_file",                                                             \
         .file = OPTION_FILE_INPUT,                                                                \
         .kind = OPTION_STRING,                                                                    \
         .flags = (gate),                                                                          \
         .placeholder = "FILE",                                                                    \
         .example = "tls/server.key.pem",                                                          \
         .help = "its private key"},                                                               \
    {                                                                                              \
        .name = "transport.strict_permissions", .kind = OPTION_BOOL, .flags = (gate),              \
        .fallback = "false", .help = "refuse a CA key that others may read, rather than warn"      \
    }

/* Of a coordinator: the sections that are its own. */
#define MEMBER_OPTIONS_SECTIONS                                                                    \
    {.name = "storage.path",                                                                       \
     .file = OPTION_FILE_OTHER,                                                                    \
     .kind = OPTION_STRING,                                                                        \
     .fallback = "./data/rollout.db",                                                              \
     .placeholder = "FILE",                                                                        \
     .help =                                                                                       \
         "the heartbeat ledger, for people to look at: an LMDB file; nothing is decided by it"},   \
        {.name = "storage.heartbeat_flush_interval",                                               \
         .kind = OPTION_DURATION,                                                                  \
         .fallback = "1s",                                                                         \
         .min = 10,                                                                                \
         .max = 3600000,                                                                           \
         .help = "how often its rows are written, in one synced transaction"},                     \
        {.name = "transport.listen_addr",                                                          \
         .kind = OPTION_STRING,                                                                    \
         .flags = OPTION_GATED,                                                                    \
         .fallback = "127.0.0.1:50051",                                                            \
         .placeholder = "IP:PORT",                                                                 \
         .help = "where workers call, over mutual TLS always: a numeric ip:port; port 0 takes a "  \
                 "free one"},                                                                      \
        OPTIONS_TRANSPORT_TIMES(OPTION_GATED),                                                     \
        {.name = "transport.beat_reply_max",                                                       \
         .kind = OPTION_DURATION,                                                                  \
         .flags = OPTION_GATED,                                                                    \
         .fallback = "200ms",                                                                      \
         .min = 1,                                                                                 \
         .max = 60000,                                                                             \
         .help = "every beat is answered within this, if need be with an error"},                  \
        {.name = "transport.beat_budget",                                                          \
         .kind = OPTION_U64,                                                                       \
         .flags = OPTION_GATED,                                                                    \
         .fallback = "20000",                                                                      \
         .min = 1,                                                                                 \
         .max = 10000000,                                                                          \
         .help = "beats a second; with more workers than that needs, they are told to beat less "  \
                 "often"},                                                                         \
        {.name = "transport.max_connections",                                                      \
         .kind = OPTION_U64,                                                                       \
         .flags = OPTION_GATED,                                                                    \
         .fallback = "100000",                                                                     \
         .min = 1,                                                                                 \
         .max = 1000000,                                                                           \
         .help = "connections of workers; more are refused"},                                      \
        OPTIONS_TRANSPORT_FILES(OPTION_GATED),                                                     \
        {.name = "transport.bind_identity",                                                        \
         .kind = OPTION_BOOL,                                                                      \
         .flags = OPTION_GATED,                                                                    \
         .fallback = "false",                                                                      \
         .help = "take a beat only from the certificate worker-<its worker id>"},                  \
        {.name = "detector.kind",                                                                  \
         .kind = OPTION_ENUM,                                                                      \
         .choices = member_choices_detector,                                                       \
         .fallback = "deadline",                                                                   \
         .help = "what counts: how late a beat is, or how long it has been silent"},               \
        {.name = "detector.deadline_source",                                                       \
         .kind = OPTION_ENUM,                                                                      \
         .flags = OPTION_RELOAD,                                                                   \
         .choices = member_choices_source,                                                         \
         .fallback = "auto",                                                                       \
         .help = "whose clock says when the next beat is due: the worker's while it is within "    \
                 "clock_skew_budget of ours, always the worker's, or ours"},                       \
        {.name = "detector.heartbeat_timeout_sec",                                                 \
         .kind = OPTION_U64,                                                                       \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "30",                                                                         \
         .min = 1,                                                                                 \
         .max = 86400,                                                                             \
         .help = "silence: seconds without a beat before a worker is dead"},                       \
        {.name = "detector.suspect_ratio",                                                         \
         .kind = OPTION_DECIMAL,                                                                   \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "0.5",                                                                        \
         .max = 1000000,                                                                           \
         .help = "silence: suspected after this part of it"},                                      \
        {.name = "detector.confirm_scans",                                                         \
         .kind = OPTION_U64,                                                                       \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "0",                                                                          \
         .max = 1000,                                                                              \
         .help = "silence: so many further scans must agree"},                                     \
        {.name = "detector.max_fail_fraction",                                                     \
         .kind = OPTION_DECIMAL,                                                                   \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "0.34",                                                                       \
         .max = 1000000,                                                                           \
         .help =                                                                                   \
             "more than this part of the workers dead within 10 s is held back as our own fault"}, \
        {.name = "detector.mass_failure_hold",                                                     \
         .kind = OPTION_DURATION,                                                                  \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "30s",                                                                        \
         .max = 86400000ull,                                                                       \
         .help = "for how long"},                                                                  \
        {.name = "detector.suspect",                                                               \
         .kind = OPTION_ENUM,                                                                      \
         .flags = OPTION_RELOAD,                                                                   \
         .choices = member_choices_suspect,                                                        \
         .fallback = "threshold",                                                                  \
         .help = "deadline: suspected once it is late by clock_skew_budget, or by the history of " \
                 "its arrivals; who is dead is decided as ever"},                                  \
        {.name = "detector.phi_threshold",                                                         \
         .kind = OPTION_DECIMAL,                                                                   \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "8",                                                                          \
         .max = 100000000,                                                                         \
         .help = "phi: how improbable its silence must be, as a power of ten"},                    \
        {.name = "detector.phi_samples",                                                           \
         .kind = OPTION_U64,                                                                       \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "200",                                                                        \
         .min = 2,                                                                                 \
         .max = 1000000,                                                                           \
         .help = "phi: the gaps between beats that count"},                                        \
        {.name = "detector.phi_min_std",                                                           \
         .kind = OPTION_DURATION,                                                                  \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "100ms",                                                                      \
         .max = 86400000ull,                                                                       \
         .help = "phi: the least deviation of them"},                                              \
        {.name = "membership.unknown_beat",                                                        \
         .kind = OPTION_ENUM,                                                                      \
         .choices = member_choices_unknown,                                                        \
         .fallback = "register",                                                                   \
         .help = "a beat of a worker nobody knows registers it, is ignored, or is refused"},       \
        {.name = "membership.run_mismatch",                                                        \
         .kind = OPTION_ENUM,                                                                      \
         .choices = member_choices_mismatch,                                                       \
         .fallback = "reject",                                                                     \
         .help = "a beat of another run"},                                                         \
        {.name = "membership.dead_retention",                                                      \
         .kind = OPTION_DURATION,                                                                  \
         .fallback = "10m",                                                                        \
         .max = 365 * 86400000ull,                                                                 \
         .help = "how long a dead worker is shown before only its tombstone is left"},             \
        {.name = "membership.tombstone_retention",                                                 \
         .kind = OPTION_DURATION,                                                                  \
         .fallback = "24h",                                                                        \
         .max = 365 * 86400000ull,                                                                 \
         .help = "how long a tombstone keeps the incarnations of an id growing"},                  \
        {.name = "placement.total_partitions",                                                     \
         .kind = OPTION_U64,                                                                       \
         .fallback = "128",                                                                        \
         .max = 1048576,                                                                           \
         .help = "fixed for the life of the run"},                                                 \
        {.name = "placement.virtual_nodes",                                                        \
         .kind = OPTION_U64,                                                                       \
         .fallback = "128",                                                                        \
         .max = 1000000,                                                                           \
         .help = "points of a worker on the ring"},                                                \
        {.name = "placement.max_keys_per_partition",                                               \
         .kind = OPTION_U64,                                                                       \
         .fallback = "2000",                                                                       \
         .min = 1,                                                                                 \
         .max = 1000000000,                                                                        \
         .help = "a worker that has more says so; nothing is moved"},                              \
        {.name = "placement.kind",                                                                 \
         .kind = OPTION_ENUM,                                                                      \
         .choices = member_choices_placement,                                                      \
         .fallback = "ring",                                                                       \
         .help = "the plain ring, the ring with a bound on what one worker gets, or rendezvous"},  \
        {.name = "placement.epsilon",                                                              \
         .kind = OPTION_DECIMAL,                                                                   \
         .fallback = "0.25",                                                                       \
         .max = 1000000000,                                                                        \
         .help = "ring-bounded: how far above the mean a worker may be"},                          \
        {.name = "placement.ring_hash",                                                            \
         .kind = OPTION_ENUM,                                                                      \
         .choices = member_choices_hash,                                                           \
         .fallback = "fnv1a64-mix",                                                                \
         .help = "the function of the ring"},                                                      \
        {.name = "placement.ring_on",                                                              \
         .kind = OPTION_ENUM,                                                                      \
         .choices = member_choices_ring_on,                                                        \
         .fallback = "ready",                                                                      \
         .help = "when a worker joins the ring: with its first READY beat, or as it registers"},   \
        {.name = "placement.rebalance_window",                                                     \
         .kind = OPTION_DURATION,                                                                  \
         .fallback = "500ms",                                                                      \
         .max = 3600000,                                                                           \
         .help = "changes within it count as one"},                                                \
        {.name = "placement.revoke_timeout",                                                       \
         .kind = OPTION_DURATION,                                                                  \
         .fallback = "30s",                                                                        \
         .min = 1,                                                                                 \
         .max = 86400000ull,                                                                       \
         .help = "how long a worker may take to give a partition back"},                           \
        {.name = "placement.on_revoke_timeout",                                                    \
         .kind = OPTION_ENUM,                                                                      \
         .choices = member_choices_revoke,                                                         \
         .fallback = "wait",                                                                       \
         .help = "when it takes longer: wait on, or evict it"},                                    \
        {.name = "placement.partition_move_limit",                                                 \
         .kind = OPTION_DECIMAL,                                                                   \
         .fallback = "0.1",                                                                        \
         .max = 1000000,                                                                           \
         .help = "the part of all partitions that may be on the move at once"},                    \
        {.name = "placement.grant_to_legacy",                                                      \
         .kind = OPTION_BOOL,                                                                      \
         .fallback = "false",                                                                      \
         .help = "give partitions to workers that only beat, too; two of them may then own one "   \
                 "partition"},                                                                     \
        {.name = "checkpoint.checkpoint_interval_sec",                                             \
         .kind = OPTION_U64,                                                                       \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "10",                                                                         \
         .min = 1,                                                                                 \
         .max = 86400,                                                                             \
         .help = "seconds between two rounds"},                                                    \
        {.name = "checkpoint.ack_timeout",                                                         \
         .kind = OPTION_DURATION,                                                                  \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "60s",                                                                        \
         .min = 1,                                                                                 \
         .max = 86400000ull,                                                                       \
         .help = "an answer later than this is given up, and told once"},                          \
        {.name = "checkpoint.min_pause",                                                           \
         .kind = OPTION_DURATION,                                                                  \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "0s",                                                                         \
         .max = 86400000ull,                                                                       \
         .help = "the least pause of a worker between its answer and its next request"},           \
        {.name = "checkpoint.max_failures",                                                        \
         .kind = OPTION_U64,                                                                       \
         .flags = OPTION_RELOAD,                                                                   \
         .fallback = "0",                                                                          \
         .max = 1000000,                                                                           \
         .help = "so many answers missed in a row make a worker drain; 0: never"},                 \
        {.name = "work.max_attempts",                                                              \
         .kind = OPTION_U64,                                                                       \
         .fallback = "5",                                                                          \
         .min = 1,                                                                                 \
         .max = 1000,                                                                              \
         .help = "how often an item is given out before it is given up"},                          \
        {.name = "work.requeue_failed",                                                            \
         .kind = OPTION_BOOL,                                                                      \
         .fallback = "false",                                                                      \
         .help = "an item that failed is given out again"},                                        \
        {.name = "work.steal_started",                                                             \
         .kind = OPTION_BOOL,                                                                      \
         .fallback = "false",                                                                      \
         .help = "items that run may be stolen, too"},                                             \
    {                                                                                              \
        .name = "work.max_steal", .kind = OPTION_U64, .fallback = "32", .min = 1, .max = 10000,    \
        .help = "items one steal takes at most"                                                    \
    }

/* Of a worker: keys without a section. */
#define WORKER_OPTIONS_TOP                                                                         \
    {.name = "run_id",                                                                             \
     .kind = OPTION_STRING,                                                                        \
     .flags = OPTION_REQUIRED,                                                                     \
     .placeholder = "ULID",                                                                        \
     .example = "01JFEAVS7C5DE5XEAEAB91EBT5",                                                      \
     .help = "the run it serves, a ULID"},                                                         \
        {.name = "coordinator_addr",                                                               \
         .kind = OPTION_LIST,                                                                      \
         .flags = OPTION_REQUIRED | OPTION_ONE_OR_LIST,                                            \
         .placeholder = "URL,...",                                                                 \
         .example = "https://127.0.0.1:50051",                                                     \
         .help = "where coordinators answer workers: one URL, or a list of all of them; with "     \
                 "several a second connection is kept warm"},                                      \
        {.name = "coordinator_domain",                                                             \
         .kind = OPTION_STRING,                                                                    \
         .fallback = "localhost",                                                                  \
         .placeholder = "NAME",                                                                    \
         .help = "the name in the coordinators' certificate"},                                     \
        {.name = "worker-id",                                                                      \
         .kind = OPTION_STRING,                                                                    \
         .flags = OPTION_FLAG_ONLY,                                                                \
         .placeholder = "ULID",                                                                    \
         .help = "who it is, a ULID; without it a new one is made and said"},                      \
        {.name = "plugin",                                                                         \
         .file = OPTION_FILE_INPUT,                                                                \
         .kind = OPTION_LIST,                                                                      \
         .flags = OPTION_FLAG_ONLY,                                                                \
         .placeholder = "MANIFEST,...",                                                            \
         .help = "the manifest of a plugin; again for another, loaded in this order"},             \
    {                                                                                              \
        .name = "hot-reload", .kind = OPTION_BOOL, .flags = OPTION_FLAG_ONLY, .fallback = "false", \
        .help = "watch the plugins and load them anew when they change"                            \
    }

/* Of a worker: its sections. */
#define WORKER_OPTIONS_SECTIONS                                                                    \
    {.name = "storage.path",                                                                       \
     .file = OPTION_FILE_OTHER,                                                                    \
     .kind = OPTION_STRING,                                                                        \
     .fallback = "./data/worker.db",                                                               \
     .placeholder = "FILE",                                                                        \
     .help = "its own database, an LMDB file. A [storage] section without it means "               \
             "./data/rollout.db, as it did with rollout"},                                         \
        {.name = "transport.listen_addr",                                                          \
         .kind = OPTION_STRING,                                                                    \
         .fallback = "127.0.0.1:50051",                                                            \
         .placeholder = "IP:PORT",                                                                 \
         .help = "taken so that both sides may share a file; a worker listens nowhere"},           \
        OPTIONS_TRANSPORT_TIMES(0), OPTIONS_TRANSPORT_FILES(0),                                    \
        {.name = "worker.fence_action",                                                            \
         .kind = OPTION_ENUM,                                                                      \
         .choices = member_choices_fence,                                                          \
         .fallback = "stop",                                                                       \
         .help = "what a worker does that fences itself: stop its work and go on beating, or end " \
                 "with exit code 75"},                                                             \
        {.name = "worker.drain_deadline",                                                          \
         .kind = OPTION_DURATION,                                                                  \
         .fallback = "60s",                                                                        \
         .max = 86400000ull,                                                                       \
         .help = "how long giving everything back may take after SIGTERM"},                        \
    {                                                                                              \
        .name = "checkpoint.store", .kind = OPTION_STRING, .placeholder = "URL",                   \
        .example = "file:///var/lib/muster/checkpoints",                                           \
        .help = "where checkpoints live: file:///directory or s3://bucket/prefix; without it "     \
                "partitions begin at their start"                                                  \
    }

#endif
