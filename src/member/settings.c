/* SPDX-License-Identifier: Apache-2.0 */
#include "member/settings.h"

#include <math.h>

#include "member/config/config.h"
#include "member/events/events.h"

enum { PPM = 1000000 };
/* A choice of the configuration is a value of the part it is for. */
static_assert((int)CONFIG_EVENTS_SAMPLED == (int)HEARTBEAT_EVENTS_SAMPLED &&
                  (int)CONFIG_EVENTS_NONE == (int)HEARTBEAT_EVENTS_NONE,
              "events.heartbeat");
static_assert((int)CONFIG_PLACEMENT_BOUNDED == (int)MEMBER_RING_BOUNDED &&
                  (int)CONFIG_PLACEMENT_RENDEZVOUS == (int)MEMBER_RENDEZVOUS,
              "placement.kind");
static_assert((int)CONFIG_SOURCE_WORKER == (int)DETECT_WORKER &&
                  (int)CONFIG_SOURCE_ARRIVAL == (int)DETECT_ARRIVAL,
              "detector.deadline_source");
static_assert((int)CONFIG_UNKNOWN_IGNORE == (int)MEMBER_UNKNOWN_IGNORE &&
                  (int)CONFIG_UNKNOWN_REJECT == (int)MEMBER_UNKNOWN_REJECT,
              "membership.unknown_beat");

static uint32_t ppm(double fraction)
{
    return (uint32_t)lround(fraction * PPM);
}

static struct member_rules rules_of(const struct member_config *c)
{
    struct member_rules rules;

    member_rules_defaults(&rules);
    rules.total_partitions = (uint32_t)c->placement.total_partitions;
    rules.virtual_nodes = (uint32_t)c->placement.virtual_nodes;
    rules.placement = (enum member_placement)c->placement.kind;
    rules.epsilon_ppm = ppm(c->placement.epsilon);
    rules.move_limit_ppm = ppm(c->placement.partition_move_limit);
    rules.ring_on_register = c->placement.ring_on == CONFIG_RING_ON_REGISTER;
    rules.grant_to_legacy = c->placement.grant_to_legacy;
    rules.evict_on_revoke_timeout = c->placement.on_revoke_timeout == CONFIG_REVOKE_EVICT;
    rules.failure_per_worker = c->events.failure_scope == CONFIG_SCOPE_WORKER;
    rules.rebalance_window_ms = c->placement.rebalance_window_ms;
    rules.revoke_timeout_ms = c->placement.revoke_timeout_ms;
    rules.dead_retention_ms = c->membership.dead_retention_ms;
    rules.tombstone_retention_ms = c->membership.tombstone_retention_ms;
    rules.work_max_attempts = (uint32_t)c->work.max_attempts;
    rules.work_max_steal = (uint32_t)c->work.max_steal;
    rules.work_requeue_failed = c->work.requeue_failed;
    rules.work_steal_started = c->work.steal_started;
    return rules;
}

static struct member_local_options local_of(const struct member_config *c)
{
    const struct member_transport *t = &c->transport;
    struct member_local_options local;

    member_local_defaults(&local);
    local.detect.kind =
        c->detector.kind == CONFIG_DETECTOR_SILENCE ? DETECT_SILENCE : DETECT_DEADLINE;
    local.detect.source = (enum detect_source)c->detector.deadline_source;
    local.detect.heartbeat_interval_ns = t->heartbeat_interval_ms * NS_PER_MS;
    local.detect.clock_skew_budget_ns = t->clock_skew_budget_ms * NS_PER_MS;
    local.detect.failure_timeout_ns = t->coordinator_failure_timeout_ms * NS_PER_MS;
    local.detect.heartbeat_timeout_ns = c->detector.heartbeat_timeout_ms * NS_PER_MS;
    local.detect.suspect_ratio = c->detector.suspect_ratio;
    local.detect.confirm_scans = (uint32_t)c->detector.confirm_scans;
    local.detect.max_fail_fraction = c->detector.max_fail_fraction;
    local.detect.mass_failure_hold_ns = c->detector.mass_failure_hold_ms * NS_PER_MS;
    local.detect.phi = c->detector.suspect == CONFIG_SUSPECT_PHI;
    local.detect.phi_threshold = c->detector.phi_threshold;
    local.detect.phi_samples = (uint32_t)c->detector.phi_samples;
    local.detect.phi_min_std_ns = c->detector.phi_min_std_ms * NS_PER_MS;
    local.self_fence_ns = t->worker_self_fence_timeout_ms * NS_PER_MS;
    local.beat_budget = (uint32_t)t->beat_budget;
    local.unknown_beat = (enum member_unknown)c->membership.unknown_beat;
    local.checkpoint_interval_ns = c->checkpoint.interval_ms * NS_PER_MS;
    local.checkpoint_ack_timeout_ns = c->checkpoint.ack_timeout_ms * NS_PER_MS;
    local.checkpoint_min_pause_ns = c->checkpoint.min_pause_ms * NS_PER_MS;
    local.checkpoint_max_failures = (uint32_t)c->checkpoint.max_failures;
    return local;
}

void member_config_service(const struct member_config *config,
                           struct member_service_options *service)
{
    service->enabled = config->enabled;
    member_rules_defaults(&service->rules);
    member_local_defaults(&service->local);
    if (!config->enabled) return;
    service->run = config->run_id;
    service->any_run = config->membership.run_mismatch == CONFIG_RUN_ACCEPT;
    service->bind_identity = config->transport.bind_identity;
    service->rules = rules_of(config);
    service->local = local_of(config);
    service->max_keys_per_partition = (uint32_t)config->placement.max_keys_per_partition;
    service->reply_max_ms = config->transport.beat_reply_max_ms;
    service->at_most_once = config->events.redelivery == CONFIG_AT_MOST_ONCE;
}
