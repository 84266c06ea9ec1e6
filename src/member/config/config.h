/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of worker membership: rollout's keys under rollout's names, and ours beside them
 * (workers.md § 16), read out of a conf that was loaded from flags, environment and file.
 *
 * options.h has the tables' rows; this is what they mean together. Cross-field rules are checked
 * before anything is opened, all of them, and each refusal names the keys, both numbers and the
 * rule. A coordinator serves workers only when its file has a [transport] section (or a transport
 * flag is given); without one none of this is looked at and run_id is not needed. */
#ifndef MEMBER_CONFIG_CONFIG_H
#define MEMBER_CONFIG_CONFIG_H
#include "base/buf.h"
#include "base/ulid.h"
#include "conf/conf.h"
#include "member/config/address.h"

/* The transport table, which a coordinator and a worker share. Texts are borrowed from the conf. */
struct member_transport {
    const char *listen_addr, *tls_dir;
    uint64_t heartbeat_interval_ms, worker_self_fence_timeout_ms, coordinator_failure_timeout_ms;
    uint64_t clock_skew_budget_ms, beat_reply_max_ms;
    uint64_t beat_budget, max_connections;
    const char *ca_file, *cert_file, *key_file; /* NULL: the development CA */
    bool bind_identity, strict_permissions;
};

enum config_detector { CONFIG_DETECTOR_DEADLINE, CONFIG_DETECTOR_SILENCE };
enum config_source { CONFIG_SOURCE_AUTO, CONFIG_SOURCE_WORKER, CONFIG_SOURCE_ARRIVAL };
enum config_suspect { CONFIG_SUSPECT_THRESHOLD, CONFIG_SUSPECT_PHI };
enum config_unknown_beat { CONFIG_UNKNOWN_REGISTER, CONFIG_UNKNOWN_IGNORE, CONFIG_UNKNOWN_REJECT };
enum config_run_mismatch { CONFIG_RUN_REJECT, CONFIG_RUN_ACCEPT };
enum config_placement {
    CONFIG_PLACEMENT_RING,
    CONFIG_PLACEMENT_BOUNDED,
    CONFIG_PLACEMENT_RENDEZVOUS
};
enum config_ring_hash { CONFIG_HASH_FNV1A64_MIX };
enum config_ring_on { CONFIG_RING_ON_READY, CONFIG_RING_ON_REGISTER };
enum config_revoke_late { CONFIG_REVOKE_WAIT, CONFIG_REVOKE_EVICT };
enum config_heartbeat_events { CONFIG_EVENTS_ALL, CONFIG_EVENTS_SAMPLED, CONFIG_EVENTS_NONE };
enum config_topics { CONFIG_TOPICS_ALL, CONFIG_TOPICS_ROLLOUT };
enum config_failure_scope { CONFIG_SCOPE_INCARNATION, CONFIG_SCOPE_WORKER };
enum config_redelivery { CONFIG_AT_LEAST_ONCE, CONFIG_AT_MOST_ONCE };
enum config_sink { CONFIG_SINK_STDOUT, CONFIG_SINK_FILE, CONFIG_SINK_NONE };

struct member_config {
    bool enabled;       /* there is a [transport] section; else nothing below is set */
    struct ulid run_id; /* canonical: print it with ulid_text */
    uint64_t start_timeout_ms, loser_exit;
    struct {
        const char *path;
        uint64_t heartbeat_flush_interval_ms;
    } storage;
    struct member_transport transport;
    struct {
        enum config_detector kind;
        enum config_source deadline_source;
        uint64_t heartbeat_timeout_ms, confirm_scans, mass_failure_hold_ms;
        double suspect_ratio, max_fail_fraction, phi_threshold;
        enum config_suspect suspect;
        uint64_t phi_samples, phi_min_std_ms;
    } detector;
    struct {
        enum config_unknown_beat unknown_beat;
        enum config_run_mismatch run_mismatch;
        uint64_t dead_retention_ms, tombstone_retention_ms;
    } membership;
    struct {
        uint64_t total_partitions, virtual_nodes, max_keys_per_partition;
        enum config_placement kind;
        double epsilon, partition_move_limit;
        enum config_ring_hash ring_hash;
        enum config_ring_on ring_on;
        uint64_t rebalance_window_ms, revoke_timeout_ms;
        enum config_revoke_late on_revoke_timeout;
        bool grant_to_legacy;
    } placement;
    struct {
        uint64_t interval_ms, ack_timeout_ms, min_pause_ms, max_failures;
    } checkpoint;
    struct {
        enum config_heartbeat_events heartbeat;
        uint64_t heartbeat_event_limit, queue;
        bool ids;
        enum config_topics topics;
        enum config_failure_scope failure_scope;
        enum config_redelivery redelivery;
        enum config_sink sink; /* of workers' events; the fleet's have events.sink */
        const char *file;
    } events;
    struct {
        uint64_t max_attempts, max_steal;
        bool requeue_failed, steal_started;
    } work;
};

enum { MEMBER_COORDINATORS_MAX = 16 };
enum worker_fence_action { WORKER_FENCE_STOP, WORKER_FENCE_EXIT };
struct worker_config {
    struct ulid run_id;
    bool has_worker_id; /* --worker-id; without it the worker makes one */
    struct ulid worker_id;
    char coordinators[MEMBER_COORDINATORS_MAX][CONFIG_ADDRESS_CAP]; /* host:port of each URL */
    size_t coordinator_count;
    const char *coordinator_domain; /* the name the coordinator's certificate must have */
    const char *storage_path;
    struct member_transport transport; /* listen_addr is not used */
    enum worker_fence_action fence_action;
    uint64_t drain_deadline_ms;
    const char *checkpoint_store; /* file:///dir or s3://bucket/prefix; NULL: none */
    struct option_value plugins;  /* manifests, in load order */
    bool hot_reload;
};

/* `conf` is finished. Fills *ret_config, whose texts `conf` owns. Everything wrong is appended to
 * `problems`, one line each, as conf_problems has it: ERR_INVALID then; ERR_NOMEM, ERR_FULL.
 * `warnings`, which may be NULL, gets what is allowed and unwise. */
enum err member_config_read(const struct conf *conf, struct member_config *ret_config,
                            struct buf *problems, struct buf *warnings);
enum err worker_config_read(const struct conf *conf, struct worker_config *ret_config,
                            struct buf *problems, struct buf *warnings);
#endif
