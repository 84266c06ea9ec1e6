/* SPDX-License-Identifier: Apache-2.0 */
/* member/settings.h: every setting reaches its place in the service, in the unit of that place. */
#include "member/settings.h"

#include "lib/test.h"
#include "member/config/options.h"

static const struct option options[] = {MEMBER_OPTIONS_TOP, MEMBER_OPTIONS_EVENTS,
                                        MEMBER_OPTIONS_SECTIONS};
static const struct option_table table = {options, ARRAY_LEN(options)};

static struct member_service_options read_file(const char *file)
{
    struct member_service_options got = {.name = "n0"};
    struct conf *conf = NULL;

    CHECK_OK("open", conf_open(&table, &conf));
    (void)conf_add_file(conf, "c.toml", str_from(file));
    CHECK_OK("well-formed", conf_finish(conf));
    member_settings_read(conf, &got);
    conf_close(conf);
    return got;
}

TEST(without_a_transport_section_the_defaults_hold)
{
    struct member_service_options got = read_file("[placement]\ntotal_partitions = 7\n");
    struct member_local_options local;
    struct member_rules rules;

    member_rules_defaults(&rules);
    member_local_defaults(&local);
    CHECK("off", !got.enabled);
    CHECK_U64("partitions", got.rules.total_partitions, rules.total_partitions);
    CHECK_U64("fence", got.local.self_fence_ns, local.self_fence_ns);
    CHECK_U64("nothing else", got.reply_max_ms, 0);
    CHECK_TEXT("the caller's", got.name, "n0");
}

/* workers.md 24.12, case 177. test_config.c tests the settings of the other parts. */
TEST(the_defaults_are_the_specifications)
{
    struct member_service_options got = read_file("[transport]\n");
    const struct member_rules *rules = &got.rules;
    const struct member_local_options *local = &got.local;
    const struct detect_options *detect = &local->detect;
    struct member_local_options core;
    struct member_rules core_rules;

    member_rules_defaults(&core_rules);
    member_local_defaults(&core);
    CHECK_U64("the core's rules", member_rules_fingerprint(rules),
              member_rules_fingerprint(&core_rules));
    CHECK("on", got.enabled && !got.any_run && !got.bind_identity && !got.at_most_once);
    CHECK_U64("reply", got.reply_max_ms, 200);
    CHECK_U64("keys", got.max_keys_per_partition, 2000);
    CHECK_U64("interval", detect->heartbeat_interval_ns, core.detect.heartbeat_interval_ns);
    CHECK_U64("skew", detect->clock_skew_budget_ns, core.detect.clock_skew_budget_ns);
    CHECK_U64("failure", detect->failure_timeout_ns, core.detect.failure_timeout_ns);
    CHECK_U64("fence", local->self_fence_ns, core.self_fence_ns);
    CHECK_U64("budget", local->beat_budget, core.beat_budget);
    CHECK("kinds", detect->kind == DETECT_DEADLINE && detect->source == DETECT_AUTO);
    CHECK_U64("silence", detect->heartbeat_timeout_ns, core.detect.heartbeat_timeout_ns);
    CHECK("fractions", detect->suspect_ratio == 0.5 && detect->max_fail_fraction == 0.34);
    CHECK_U64("hold", detect->mass_failure_hold_ns, core.detect.mass_failure_hold_ns);
    CHECK("phi", !detect->phi && detect->phi_threshold == 8 && detect->phi_samples == 200 &&
                     detect->phi_min_std_ns == core.detect.phi_min_std_ns);
    CHECK("unknown", local->unknown_beat == MEMBER_UNKNOWN_REGISTER);
    CHECK_U64("checkpoints", local->checkpoint_interval_ns, core.checkpoint_interval_ns);
    CHECK_U64("their answers", local->checkpoint_ack_timeout_ns, core.checkpoint_ack_timeout_ns);
}

TEST(every_setting_reaches_its_place)
{
    struct member_service_options got =
        read_file("[transport]\nheartbeat_interval = '1ms'\nclock_skew_budget = '2ms'\n"
                  "coordinator_failure_timeout = '3ms'\nworker_self_fence_timeout = '4ms'\n"
                  "beat_budget = 5\nbeat_reply_max = '6ms'\nbind_identity = true\n"
                  "[detector]\nkind = 'silence'\ndeadline_source = 'arrival'\n"
                  "heartbeat_timeout_sec = 7\nconfirm_scans = 8\nmass_failure_hold = '9ms'\n"
                  "suspect_ratio = 0.25\nmax_fail_fraction = 0.75\nphi_threshold = 10\n"
                  "suspect = 'phi'\nphi_samples = 11\nphi_min_std = '12ms'\n"
                  "[membership]\nunknown_beat = 'reject'\nrun_mismatch = 'accept'\n"
                  "dead_retention = '13ms'\ntombstone_retention = '14ms'\n"
                  "[placement]\ntotal_partitions = 15\nvirtual_nodes = 16\n"
                  "max_keys_per_partition = 17\nkind = 'rendezvous'\nepsilon = 0.125\n"
                  "partition_move_limit = 0.000002\nring_on = 'register'\n"
                  "rebalance_window = '18ms'\nrevoke_timeout = '19ms'\n"
                  "on_revoke_timeout = 'evict'\ngrant_to_legacy = true\n"
                  "[checkpoint]\ncheckpoint_interval_sec = 20\nack_timeout = '21ms'\n"
                  "min_pause = '22ms'\nmax_failures = 23\n"
                  "[events]\nfailure_scope = 'worker'\nredelivery = 'at_most_once'\n"
                  "[work]\nmax_attempts = 24\nmax_steal = 25\nrequeue_failed = true\n"
                  "steal_started = true\n");
    const struct member_rules *rules = &got.rules;
    const struct member_local_options *local = &got.local;
    const struct detect_options *detect = &local->detect;

    CHECK("the service", got.enabled && got.any_run && got.bind_identity && got.at_most_once);
    CHECK_U64("reply", got.reply_max_ms, 6);
    CHECK_U64("keys", got.max_keys_per_partition, 17);

    CHECK_U64("interval", detect->heartbeat_interval_ns, 1 * NS_PER_MS);
    CHECK_U64("skew", detect->clock_skew_budget_ns, 2 * NS_PER_MS);
    CHECK_U64("failure", detect->failure_timeout_ns, 3 * NS_PER_MS);
    CHECK_U64("fence", local->self_fence_ns, 4 * NS_PER_MS);
    CHECK_U64("budget", local->beat_budget, 5);
    CHECK_U64("silence", detect->heartbeat_timeout_ns, 7 * MS_PER_SECOND * NS_PER_MS);
    CHECK_U64("scans", detect->confirm_scans, 8);
    CHECK_U64("hold", detect->mass_failure_hold_ns, 9 * NS_PER_MS);
    CHECK("kinds", detect->kind == DETECT_SILENCE && detect->source == DETECT_ARRIVAL);
    CHECK("fractions", detect->suspect_ratio == 0.25 && detect->max_fail_fraction == 0.75);
    CHECK("phi", detect->phi && detect->phi_threshold == 10);
    CHECK_U64("samples", detect->phi_samples, 11);
    CHECK_U64("deviation", detect->phi_min_std_ns, 12 * NS_PER_MS);
    CHECK("unknown", local->unknown_beat == MEMBER_UNKNOWN_REJECT);
    CHECK_U64("checkpoints", local->checkpoint_interval_ns, 20 * MS_PER_SECOND * NS_PER_MS);
    CHECK_U64("their answers", local->checkpoint_ack_timeout_ns, 21 * NS_PER_MS);
    CHECK_U64("their pauses", local->checkpoint_min_pause_ns, 22 * NS_PER_MS);
    CHECK_U64("their failures", local->checkpoint_max_failures, 23);

    CHECK_U64("dead", rules->dead_retention_ms, 13);
    CHECK_U64("tombstones", rules->tombstone_retention_ms, 14);
    CHECK_U64("partitions", rules->total_partitions, 15);
    CHECK_U64("nodes", rules->virtual_nodes, 16);
    CHECK("placement", rules->placement == MEMBER_RENDEZVOUS);
    CHECK_U64("epsilon", rules->epsilon_ppm, 125000);
    CHECK_U64("a fraction", rules->move_limit_ppm, 2);
    CHECK_U64("window", rules->rebalance_window_ms, 18);
    CHECK_U64("revoke", rules->revoke_timeout_ms, 19);
    CHECK_U64("attempts", rules->work_max_attempts, 24);
    CHECK_U64("steals", rules->work_max_steal, 25);
    CHECK("switches", rules->ring_on_register && rules->grant_to_legacy &&
                          rules->evict_on_revoke_timeout && rules->failure_per_worker &&
                          rules->work_requeue_failed && rules->work_steal_started);
}
