/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of worker membership: rollout's keys under rollout's names, and muster's own
 * (workers.md § 16). options.h has the tables; this file interprets the values.
 *
 * A coordinator serves workers only if its file has a [transport] section or a transport flag is
 * given. Otherwise none of these settings is read, and run_id is not required. */
#ifndef MEMBER_CONFIG_CONFIG_H
#define MEMBER_CONFIG_CONFIG_H
#include "base/buf.h"
#include "base/ulid.h"
#include "conf/conf.h"

enum { CONFIG_ADDRESS_CAP = 264 };

/* Shared by coordinator and worker. The conf owns the texts. */
struct member_transport {
    const char *listen_addr, *tls_dir;
    uint64_t heartbeat_interval_ms, worker_self_fence_timeout_ms, coordinator_failure_timeout_ms;
    uint64_t clock_skew_budget_ms, max_connections;
    const char *ca_file, *cert_file, *key_file; /* NULL: the files of the development CA */
    bool strict_permissions;
};

enum config_sink { CONFIG_SINK_STDOUT, CONFIG_SINK_FILE, CONFIG_SINK_NONE };

/* Settings of resources that are opened besides the service; member/settings.h has the others. */
struct member_config {
    bool enabled; /* there is a [transport] section; if false, nothing below is set */
    struct ulid run_id;
    uint64_t start_timeout_ms, loser_exit;
    struct {
        const char *path;
        uint64_t heartbeat_flush_interval_ms;
    } storage;
    struct member_transport transport;
    struct {
        int heartbeat; /* enum member_events_heartbeat */
        uint64_t heartbeat_event_limit, queue;
        bool ids, rollout_only;
        enum config_sink sink; /* of workers' events; events.sink is for fleet events */
        const char *file;
    } events;
};

enum { MEMBER_COORDINATORS_MAX = 16 };
enum worker_fence_action { WORKER_FENCE_STOP, WORKER_FENCE_EXIT };
struct worker_config {
    struct ulid run_id;
    bool has_worker_id; /* false: the worker creates an id */
    struct ulid worker_id;
    char coordinators[MEMBER_COORDINATORS_MAX][CONFIG_ADDRESS_CAP]; /* host:port of each URL */
    size_t coordinator_count;
    const char *coordinator_domain; /* name that the coordinator's certificate must have */
    const char *storage_path;
    struct member_transport transport; /* listen_addr is not used */
    enum worker_fence_action fence_action;
    uint64_t drain_deadline_ms;
    const char *checkpoint_store; /* file:///dir or s3://bucket/prefix; NULL: none */
    struct option_value plugins;  /* manifests, in load order */
    bool hot_reload;
};

/* `conf` owns the texts of *ret_config. ERR_INVALID: `problems` has one line per problem, as in
 * conf_problems(). Also ERR_NOMEM, ERR_FULL. `warnings` (may be NULL): settings that are allowed
 * but unwise. */
enum err member_config_read(const struct conf *conf, struct member_config *ret_config,
                            struct buf *problems, struct buf *warnings);
enum err worker_config_read(const struct conf *conf, struct worker_config *ret_config,
                            struct buf *problems, struct buf *warnings);
#endif
