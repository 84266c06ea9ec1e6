/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration file of rollout, for a coordinator and for a worker: accepted input obeys every
 * rule between keys; a refusal gives its reasons, a line each. */
#include <stddef.h>
#include <stdint.h>

#include "member/config/config.h"
#include "member/config/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct option coordinator_options[] = {MEMBER_OPTIONS_TOP, MEMBER_OPTIONS_EVENTS,
                                                    MEMBER_OPTIONS_SECTIONS};
static const struct option_table coordinator = {coordinator_options,
                                                ARRAY_LEN(coordinator_options)};
static const struct option worker_options[] = {WORKER_OPTIONS_TOP, WORKER_OPTIONS_SECTIONS};
static const struct option_table worker = {worker_options, ARRAY_LEN(worker_options)};

static void check_rules(const struct member_transport *t)
{
    assert(t->worker_self_fence_timeout_ms < t->coordinator_failure_timeout_ms);
    assert(t->worker_self_fence_timeout_ms > t->heartbeat_interval_ms);
    assert(t->clock_skew_budget_ms < 2 * t->heartbeat_interval_ms);
    assert(t->heartbeat_interval_ms < t->coordinator_failure_timeout_ms);
    assert(!t->ca_file == !t->cert_file && !t->cert_file == !t->key_file);
}

static void load(const struct option_table *table, struct str file)
{
    struct member_config member;
    struct worker_config own;
    struct buf problems, warnings;
    struct conf *conf;
    enum err err = ERR_OK;

    if (conf_open(table, &conf)) return;
    buf_init(&problems, 1 << 20);
    buf_init(&warnings, 1 << 20);
    (void)conf_add_file(conf, "x.toml", file);
    if (conf_finish(conf)) {
        assert(conf_problems(conf).len > 0);
    } else if (table == &worker) {
        err = worker_config_read(conf, &own, &problems, &warnings);
        if (!err) check_rules(&own.transport);
        assert(err || own.coordinator_count > 0);
    } else {
        err = member_config_read(conf, &member, &problems, &warnings);
        if (!err && member.enabled) check_rules(&member.transport);
        assert(err || !member.enabled ||
               conf_number(conf, "placement.revoke_timeout") >=
                   2 * member.transport.heartbeat_interval_ms);
    }
    assert((err == ERR_INVALID) == (problems.len > 0) || err == ERR_NOMEM || err == ERR_FULL);
    buf_deinit(&problems);
    buf_deinit(&warnings);
    conf_close(conf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    load(&coordinator, str_of((const char *)data, size));
    load(&worker, str_of((const char *)data, size));
    return 0;
}
