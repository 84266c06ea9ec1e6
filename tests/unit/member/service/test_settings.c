/* SPDX-License-Identifier: Apache-2.0 */
/* member/settings.h: every setting reaches its place in the service, in the unit of that place. */
#include "member/settings.h"

#include "lib/test.h"
#include "member/config/config.h"

TEST(without_a_transport_section_the_defaults_stand)
{
    struct member_config config = {.enabled = false, .transport = {.beat_reply_max_ms = 7}};
    struct member_service_options got = {.name = "n0"};
    struct member_local_options local;
    struct member_rules rules;

    member_rules_defaults(&rules);
    member_local_defaults(&local);
    member_config_service(&config, &got);
    CHECK("off", !got.enabled);
    CHECK_U64("partitions", got.rules.total_partitions, rules.total_partitions);
    CHECK_U64("fence", got.local.self_fence_ns, local.self_fence_ns);
    CHECK_U64("nothing else", got.reply_max_ms, 0);
    CHECK_TEXT("the caller's", got.name, "n0");
}

TEST(every_setting_reaches_its_place)
{
    const struct member_config config = {
        .enabled = true,
        .transport = {.heartbeat_interval_ms = 1,
                      .clock_skew_budget_ms = 2,
                      .coordinator_failure_timeout_ms = 3,
                      .worker_self_fence_timeout_ms = 4,
                      .beat_budget = 5,
                      .beat_reply_max_ms = 6,
                      .bind_identity = true},
        .detector = {.kind = CONFIG_DETECTOR_SILENCE,
                     .deadline_source = CONFIG_SOURCE_ARRIVAL,
                     .heartbeat_timeout_ms = 7,
                     .confirm_scans = 8,
                     .mass_failure_hold_ms = 9,
                     .suspect_ratio = 0.25,
                     .max_fail_fraction = 0.75,
                     .phi_threshold = 10,
                     .suspect = CONFIG_SUSPECT_PHI,
                     .phi_samples = 11,
                     .phi_min_std_ms = 12},
        .membership = {.unknown_beat = CONFIG_UNKNOWN_REJECT,
                       .run_mismatch = CONFIG_RUN_ACCEPT,
                       .dead_retention_ms = 13,
                       .tombstone_retention_ms = 14},
        .placement = {.total_partitions = 15,
                      .virtual_nodes = 16,
                      .max_keys_per_partition = 17,
                      .kind = CONFIG_PLACEMENT_RENDEZVOUS,
                      .epsilon = 0.125,
                      .partition_move_limit = 0.0000016,
                      .ring_on = CONFIG_RING_ON_REGISTER,
                      .rebalance_window_ms = 18,
                      .revoke_timeout_ms = 19,
                      .on_revoke_timeout = CONFIG_REVOKE_EVICT,
                      .grant_to_legacy = true},
        .checkpoint = {.interval_ms = 20,
                       .ack_timeout_ms = 21,
                       .min_pause_ms = 22,
                       .max_failures = 23},
        .events = {.failure_scope = CONFIG_SCOPE_WORKER, .redelivery = CONFIG_AT_MOST_ONCE},
        .work = {.max_attempts = 24,
                 .max_steal = 25,
                 .requeue_failed = true,
                 .steal_started = true},
    };
    struct member_service_options got = {.name = "n0"};
    const struct member_rules *rules = &got.rules;
    const struct member_local_options *local = &got.local;
    const struct detect_options *detect = &local->detect;

    member_config_service(&config, &got);
    CHECK("the service", got.enabled && got.any_run && got.bind_identity && got.at_most_once);
    CHECK_U64("reply", got.reply_max_ms, 6);
    CHECK_U64("keys", got.max_keys_per_partition, 17);

    CHECK_U64("interval", detect->heartbeat_interval_ns, 1 * NS_PER_MS);
    CHECK_U64("skew", detect->clock_skew_budget_ns, 2 * NS_PER_MS);
    CHECK_U64("failure", detect->failure_timeout_ns, 3 * NS_PER_MS);
    CHECK_U64("fence", local->self_fence_ns, 4 * NS_PER_MS);
    CHECK_U64("budget", local->beat_budget, 5);
    CHECK_U64("silence", detect->heartbeat_timeout_ns, 7 * NS_PER_MS);
    CHECK_U64("scans", detect->confirm_scans, 8);
    CHECK_U64("hold", detect->mass_failure_hold_ns, 9 * NS_PER_MS);
    CHECK("kinds", detect->kind == DETECT_SILENCE && detect->source == DETECT_ARRIVAL);
    CHECK("fractions", detect->suspect_ratio == 0.25 && detect->max_fail_fraction == 0.75);
    CHECK("phi", detect->phi && detect->phi_threshold == 10);
    CHECK_U64("samples", detect->phi_samples, 11);
    CHECK_U64("deviation", detect->phi_min_std_ns, 12 * NS_PER_MS);
    CHECK("unknown", local->unknown_beat == MEMBER_UNKNOWN_REJECT);
    CHECK_U64("checkpoints", local->checkpoint_interval_ns, 20 * NS_PER_MS);
    CHECK_U64("their answers", local->checkpoint_ack_timeout_ns, 21 * NS_PER_MS);
    CHECK_U64("their pauses", local->checkpoint_min_pause_ns, 22 * NS_PER_MS);
    CHECK_U64("their failures", local->checkpoint_max_failures, 23);

    CHECK_U64("dead", rules->dead_retention_ms, 13);
    CHECK_U64("tombstones", rules->tombstone_retention_ms, 14);
    CHECK_U64("partitions", rules->total_partitions, 15);
    CHECK_U64("nodes", rules->virtual_nodes, 16);
    CHECK("placement", rules->placement == MEMBER_RENDEZVOUS);
    CHECK_U64("epsilon", rules->epsilon_ppm, 125000);
    CHECK_U64("a fraction is rounded", rules->move_limit_ppm, 2);
    CHECK_U64("window", rules->rebalance_window_ms, 18);
    CHECK_U64("revoke", rules->revoke_timeout_ms, 19);
    CHECK_U64("attempts", rules->work_max_attempts, 24);
    CHECK_U64("steals", rules->work_max_steal, 25);
    CHECK("switches", rules->ring_on_register && rules->grant_to_legacy &&
                          rules->evict_on_revoke_timeout && rules->failure_per_worker &&
                          rules->work_requeue_failed && rules->work_steal_started);
}
