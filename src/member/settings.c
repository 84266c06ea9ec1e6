/* SPDX-License-Identifier: Apache-2.0 */
/* Turns checked settings into the options of the service. Stateless. */
#include "member/settings.h"

#include <math.h>

enum { PPM = 1000000 };

static uint32_t u32_of(const struct conf *conf, const char *name)
{
    return (uint32_t)conf_number(conf, name);
}

static uint64_t ns_of(const struct conf *conf, const char *name) /* value of a duration */
{
    return conf_number(conf, name) * NS_PER_MS;
}

static uint32_t ppm_of(const struct conf *conf, const char *name)
{
    return (uint32_t)lround(conf_decimal(conf, name) * PPM);
}

/* True if a setting with two choices has the second, unusual choice. */
static bool is_second(const struct conf *conf, const char *name)
{
    return conf_choice(conf, name) == 1;
}

static void read_rules(const struct conf *conf, struct member_rules *rules)
{
    rules->total_partitions = u32_of(conf, "placement.total_partitions");
    rules->virtual_nodes = u32_of(conf, "placement.virtual_nodes");
    rules->placement = (enum member_placement)conf_choice(conf, "placement.kind");
    rules->epsilon_ppm = ppm_of(conf, "placement.epsilon");
    rules->move_limit_ppm = ppm_of(conf, "placement.partition_move_limit");
    rules->ring_on_register = is_second(conf, "placement.ring_on");
    rules->grant_to_legacy = conf_bool(conf, "placement.grant_to_legacy");
    rules->evict_on_revoke_timeout = is_second(conf, "placement.on_revoke_timeout");
    rules->failure_per_worker = is_second(conf, "events.failure_scope");
    rules->rebalance_window_ms = conf_number(conf, "placement.rebalance_window");
    rules->revoke_timeout_ms = conf_number(conf, "placement.revoke_timeout");
    rules->dead_retention_ms = conf_number(conf, "membership.dead_retention");
    rules->tombstone_retention_ms = conf_number(conf, "membership.tombstone_retention");
    rules->work_max_attempts = u32_of(conf, "work.max_attempts");
    rules->work_max_steal = u32_of(conf, "work.max_steal");
    rules->work_requeue_failed = conf_bool(conf, "work.requeue_failed");
    rules->work_steal_started = conf_bool(conf, "work.steal_started");
}

static void read_detect(const struct conf *conf, struct detect_options *detect)
{
    detect->kind = (enum detect_kind)conf_choice(conf, "detector.kind");
    detect->source = (enum detect_source)conf_choice(conf, "detector.deadline_source");
    detect->heartbeat_interval_ns = ns_of(conf, "transport.heartbeat_interval");
    detect->clock_skew_budget_ns = ns_of(conf, "transport.clock_skew_budget");
    detect->failure_timeout_ns = ns_of(conf, "transport.coordinator_failure_timeout");
    detect->heartbeat_timeout_ns = ns_of(conf, "detector.heartbeat_timeout_sec") * MS_PER_SECOND;
    detect->suspect_ratio = conf_decimal(conf, "detector.suspect_ratio");
    detect->confirm_scans = u32_of(conf, "detector.confirm_scans");
    detect->max_fail_fraction = conf_decimal(conf, "detector.max_fail_fraction");
    detect->mass_failure_hold_ns = ns_of(conf, "detector.mass_failure_hold");
    detect->phi = is_second(conf, "detector.suspect");
    detect->phi_threshold = conf_decimal(conf, "detector.phi_threshold");
    detect->phi_samples = u32_of(conf, "detector.phi_samples");
    detect->phi_min_std_ns = ns_of(conf, "detector.phi_min_std");
}

static void read_local(const struct conf *conf, struct member_local_options *local)
{
    read_detect(conf, &local->detect);
    local->self_fence_ns = ns_of(conf, "transport.worker_self_fence_timeout");
    local->beat_budget = u32_of(conf, "transport.beat_budget");
    local->unknown_beat = (enum member_unknown)conf_choice(conf, "membership.unknown_beat");
    local->checkpoint_interval_ns =
        ns_of(conf, "checkpoint.checkpoint_interval_sec") * MS_PER_SECOND;
    local->checkpoint_ack_timeout_ns = ns_of(conf, "checkpoint.ack_timeout");
    local->checkpoint_min_pause_ns = ns_of(conf, "checkpoint.min_pause");
    local->checkpoint_max_failures = u32_of(conf, "checkpoint.max_failures");
}

void member_settings_read(const struct conf *conf, struct member_service_options *service)
{
    service->enabled = conf_has_section(conf, "transport");
    member_rules_defaults(&service->rules);
    member_local_defaults(&service->local);
    if (!service->enabled) return;
    service->any_run = is_second(conf, "membership.run_mismatch");
    service->bind_identity = conf_bool(conf, "transport.bind_identity");
    read_rules(conf, &service->rules);
    read_local(conf, &service->local);
    service->max_keys_per_partition = u32_of(conf, "placement.max_keys_per_partition");
    service->reply_max_ms = conf_number(conf, "transport.beat_reply_max");
    service->at_most_once = is_second(conf, "events.redelivery");
}
