/* SPDX-License-Identifier: Apache-2.0 */
#include "member/config/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "conf/units.h"
#include "member/config/address.h"

enum { VIRTUAL_NODES_MAX = 4096, LINE_MAX_BYTES = 1024 };

/* Everything wrong is gathered; what cannot even be said is in `err`. */
struct report {
    struct buf *problems, *warnings;
    size_t count;
    enum err err;
};

__attribute__((format(printf, 3, 0))) static void put_line(struct report *r, struct buf *into,
                                                           const char *format, va_list args)
{
    char line[LINE_MAX_BYTES];

    vsnprintf(line, sizeof line, format, args);
    if (!r->err) r->err = buf_appendf(into, "%s\n", line);
}

__attribute__((format(printf, 2, 3))) static void refuse(struct report *r, const char *format, ...)
{
    va_list args;

    r->count++;
    va_start(args, format);
    put_line(r, r->problems, format, args);
    va_end(args);
}

__attribute__((format(printf, 2, 3))) static void warn(struct report *r, const char *format, ...)
{
    va_list args;

    if (!r->warnings) return;
    va_start(args, format);
    put_line(r, r->warnings, format, args);
    va_end(args);
}

/* -- one value each -- */

struct duration {
    char text[UNITS_TEXT_CAP];
};
static struct duration shown(uint64_t ms)
{
    struct duration d = {""};
    units_duration_text(ms, d.text);
    return d;
}

static void read_ulid(const struct conf *conf, const char *name, const char *shown_as,
                      struct ulid *ret_ulid, struct report *r)
{
    const char *text = conf_text(conf, name);
    struct note note = {""};

    if (text && ulid_parse(str_from(text), ret_ulid, &note) != ERR_OK)
        refuse(r, "%s '%.64s': %s", shown_as, text, note.text);
}

static void check_not_empty(const struct conf *conf, const char *name, struct report *r)
{
    const char *text = conf_text(conf, name);
    if (text && !text[0]) refuse(r, "%s must not be empty", name);
}

/* -- transport -- */

static void check_files(const struct member_transport *t, struct report *r)
{
    int files = (t->ca_file != NULL) + (t->cert_file != NULL) + (t->key_file != NULL);

    if (files == 0 || files == 3) return;
    refuse(r,
           "transport.ca_file, transport.cert_file and transport.key_file belong together; "
           "%d of 3 are set",
           files);
}

static void check_times(const struct member_transport *t, struct report *r)
{
    uint64_t beat = t->heartbeat_interval_ms, twice = 2 * beat;

    if (t->worker_self_fence_timeout_ms >= t->coordinator_failure_timeout_ms)
        refuse(r,
               "transport.worker_self_fence_timeout %s must be less than "
               "transport.coordinator_failure_timeout %s (split-brain prevention: a worker stops "
               "before another takes over)",
               shown(t->worker_self_fence_timeout_ms).text,
               shown(t->coordinator_failure_timeout_ms).text);
    if (t->clock_skew_budget_ms >= twice)
        refuse(r,
               "transport.clock_skew_budget %s must be less than twice "
               "transport.heartbeat_interval %s, which is %s",
               shown(t->clock_skew_budget_ms).text, shown(beat).text, shown(twice).text);
    if (beat >= t->coordinator_failure_timeout_ms)
        refuse(r,
               "transport.heartbeat_interval %s must be less than "
               "transport.coordinator_failure_timeout %s (the renew cadence needs slack)",
               shown(beat).text, shown(t->coordinator_failure_timeout_ms).text);
    if (t->worker_self_fence_timeout_ms <= beat)
        refuse(
            r,
            "transport.worker_self_fence_timeout %s must be longer than "
            "transport.heartbeat_interval %s: a worker would fence itself between two heartbeats",
            shown(t->worker_self_fence_timeout_ms).text, shown(beat).text);
    else if (t->worker_self_fence_timeout_ms <= twice)
        warn(r,
             "transport.worker_self_fence_timeout %s is not more than twice "
             "transport.heartbeat_interval %s: one lost beat would fence a worker",
             shown(t->worker_self_fence_timeout_ms).text, shown(beat).text);
}

static void read_transport(const struct conf *conf, struct member_transport *t, struct report *r)
{
    static const char *const paths[] = {"transport.tls_dir", "transport.ca_file",
                                        "transport.cert_file", "transport.key_file"};

    t->listen_addr = conf_text(conf, "transport.listen_addr");
    t->tls_dir = conf_text(conf, "transport.tls_dir");
    t->heartbeat_interval_ms = conf_number(conf, "transport.heartbeat_interval");
    t->worker_self_fence_timeout_ms = conf_number(conf, "transport.worker_self_fence_timeout");
    t->coordinator_failure_timeout_ms = conf_number(conf, "transport.coordinator_failure_timeout");
    t->clock_skew_budget_ms = conf_number(conf, "transport.clock_skew_budget");
    t->ca_file = conf_text(conf, "transport.ca_file");
    t->cert_file = conf_text(conf, "transport.cert_file");
    t->key_file = conf_text(conf, "transport.key_file");
    t->strict_permissions = conf_bool(conf, "transport.strict_permissions");
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) check_not_empty(conf, paths[i], r);
    check_files(t, r);
    check_times(t, r);
}

/* -- coordinator -- */

static void check_coordinator(const struct member_config *c, struct report *r)
{
    uint64_t twice = 2 * c->transport.heartbeat_interval_ms;

    if (!address_is_numeric(c->transport.listen_addr))
        refuse(r,
               "transport.listen_addr '%.64s': invalid socket address; it is a numeric ip:port, "
               "such as 127.0.0.1:50051",
               c->transport.listen_addr);
    if (c->detector.heartbeat_timeout_ms <= twice)
        refuse(r,
               "detector.heartbeat_timeout_sec %s must be more than twice "
               "transport.heartbeat_interval %s, which is %s",
               shown(c->detector.heartbeat_timeout_ms).text,
               shown(c->transport.heartbeat_interval_ms).text, shown(twice).text);
    if (c->placement.revoke_timeout_ms < twice)
        refuse(r,
               "placement.revoke_timeout %s must be at least twice transport.heartbeat_interval "
               "%s, which is %s",
               shown(c->placement.revoke_timeout_ms).text,
               shown(c->transport.heartbeat_interval_ms).text, shown(twice).text);
    if (c->detector.max_fail_fraction <= 0)
        refuse(r, "detector.max_fail_fraction 0 must be more than 0, and at most 1");
    if (c->detector.suspect_ratio <= 0)
        refuse(r, "detector.suspect_ratio 0 must be more than 0, and at most 1");
    if (c->detector.phi_threshold <= 0)
        refuse(r, "detector.phi_threshold 0 must be more than 0, and at most 100");
    if (c->placement.total_partitions < 1)
        refuse(r, "placement.total_partitions 0 must be at least 1");
    if (c->placement.virtual_nodes < 1 || c->placement.virtual_nodes > VIRTUAL_NODES_MAX)
        refuse(r, "placement.virtual_nodes %llu must be between 1 and %d",
               (unsigned long long)c->placement.virtual_nodes, VIRTUAL_NODES_MAX);
    if (c->placement.grant_to_legacy)
        warn(r, "placement.grant_to_legacy: workers that only beat do not prove that they stop, so "
                "two of them may own one partition");
}

static void read_detector(const struct conf *conf, struct member_config *c)
{
    c->detector.kind = (enum config_detector)conf_choice(conf, "detector.kind");
    c->detector.deadline_source = (enum config_source)conf_choice(conf, "detector.deadline_source");
    c->detector.heartbeat_timeout_ms =
        conf_number(conf, "detector.heartbeat_timeout_sec") * MS_PER_SECOND;
    c->detector.confirm_scans = conf_number(conf, "detector.confirm_scans");
    c->detector.mass_failure_hold_ms = conf_number(conf, "detector.mass_failure_hold");
    c->detector.suspect_ratio = conf_decimal(conf, "detector.suspect_ratio");
    c->detector.max_fail_fraction = conf_decimal(conf, "detector.max_fail_fraction");
    c->detector.suspect = (enum config_suspect)conf_choice(conf, "detector.suspect");
    c->detector.phi_threshold = conf_decimal(conf, "detector.phi_threshold");
    c->detector.phi_samples = conf_number(conf, "detector.phi_samples");
    c->detector.phi_min_std_ms = conf_number(conf, "detector.phi_min_std");
}

static void read_membership(const struct conf *conf, struct member_config *c)
{
    c->membership.unknown_beat =
        (enum config_unknown_beat)conf_choice(conf, "membership.unknown_beat");
    c->membership.run_mismatch =
        (enum config_run_mismatch)conf_choice(conf, "membership.run_mismatch");
    c->membership.dead_retention_ms = conf_number(conf, "membership.dead_retention");
    c->membership.tombstone_retention_ms = conf_number(conf, "membership.tombstone_retention");
}

static void read_placement(const struct conf *conf, struct member_config *c)
{
    c->placement.total_partitions = conf_number(conf, "placement.total_partitions");
    c->placement.virtual_nodes = conf_number(conf, "placement.virtual_nodes");
    c->placement.max_keys_per_partition = conf_number(conf, "placement.max_keys_per_partition");
    c->placement.kind = (enum config_placement)conf_choice(conf, "placement.kind");
    c->placement.epsilon = conf_decimal(conf, "placement.epsilon");
    c->placement.partition_move_limit = conf_decimal(conf, "placement.partition_move_limit");
    c->placement.ring_hash = (enum config_ring_hash)conf_choice(conf, "placement.ring_hash");
    c->placement.ring_on = (enum config_ring_on)conf_choice(conf, "placement.ring_on");
    c->placement.rebalance_window_ms = conf_number(conf, "placement.rebalance_window");
    c->placement.revoke_timeout_ms = conf_number(conf, "placement.revoke_timeout");
    c->placement.on_revoke_timeout =
        (enum config_revoke_late)conf_choice(conf, "placement.on_revoke_timeout");
    c->placement.grant_to_legacy = conf_bool(conf, "placement.grant_to_legacy");
}

static void read_events(const struct conf *conf, struct member_config *c)
{
    c->events.heartbeat = (enum config_heartbeat_events)conf_choice(conf, "events.heartbeat");
    c->events.heartbeat_event_limit = conf_number(conf, "events.heartbeat_event_limit");
    c->events.queue = conf_number(conf, "events.queue");
    c->events.ids = conf_bool(conf, "events.ids");
    c->events.topics = (enum config_topics)conf_choice(conf, "events.topics");
    c->events.failure_scope = (enum config_failure_scope)conf_choice(conf, "events.failure_scope");
    c->events.redelivery = (enum config_redelivery)conf_choice(conf, "events.redelivery");
    c->events.sink = (enum config_sink)conf_choice(conf, "events.worker_sink");
    c->events.file = conf_text(conf, "events.worker_file");
}

static void read_rest(const struct conf *conf, struct member_config *c)
{
    c->start_timeout_ms = conf_number(conf, "start_timeout");
    c->loser_exit = conf_number(conf, "loser_exit");
    c->storage.path = conf_text(conf, "storage.path");
    c->storage.heartbeat_flush_interval_ms = conf_number(conf, "storage.heartbeat_flush_interval");
    c->transport.beat_reply_max_ms = conf_number(conf, "transport.beat_reply_max");
    c->transport.beat_budget = conf_number(conf, "transport.beat_budget");
    c->transport.max_connections = conf_number(conf, "transport.max_connections");
    c->transport.bind_identity = conf_bool(conf, "transport.bind_identity");
    c->checkpoint.interval_ms =
        conf_number(conf, "checkpoint.checkpoint_interval_sec") * MS_PER_SECOND;
    c->checkpoint.ack_timeout_ms = conf_number(conf, "checkpoint.ack_timeout");
    c->checkpoint.min_pause_ms = conf_number(conf, "checkpoint.min_pause");
    c->checkpoint.max_failures = conf_number(conf, "checkpoint.max_failures");
    c->work.max_attempts = conf_number(conf, "work.max_attempts");
    c->work.max_steal = conf_number(conf, "work.max_steal");
    c->work.requeue_failed = conf_bool(conf, "work.requeue_failed");
    c->work.steal_started = conf_bool(conf, "work.steal_started");
}

static enum err verdict(const struct report *r)
{
    if (r->err) return r->err;
    return r->count ? ERR_INVALID : ERR_OK;
}

enum err member_config_read(const struct conf *conf, struct member_config *ret_config,
                            struct buf *problems, struct buf *warnings)
{
    struct report r = {.problems = problems, .warnings = warnings};
    struct member_config c = {.enabled = conf_has_section(conf, "transport")};

    if (!c.enabled) {
        *ret_config = c;
        return ERR_OK;
    }
    if (!conf_is_set(conf, "run_id"))
        refuse(&r,
               "run_id is missing: with a [transport] section the run must be named, by a ULID");
    read_ulid(conf, "run_id", "run_id", &c.run_id, &r);
    read_transport(conf, &c.transport, &r);
    read_detector(conf, &c);
    read_membership(conf, &c);
    read_placement(conf, &c);
    read_events(conf, &c);
    read_rest(conf, &c);
    check_not_empty(conf, "storage.path", &r);
    check_not_empty(conf, "events.worker_file", &r);
    check_coordinator(&c, &r);
    if (!verdict(&r)) *ret_config = c;
    return verdict(&r);
}

/* -- worker -- */

static void read_coordinators(const struct conf *conf, struct worker_config *c, struct report *r)
{
    struct option_value list = conf_list(conf, "coordinator_addr");
    struct note note = {""};

    if (list.item_count > MEMBER_COORDINATORS_MAX)
        refuse(r, "coordinator_addr has %zu addresses, and at most %d are used", list.item_count,
               MEMBER_COORDINATORS_MAX);
    for (size_t i = 0; i < min_size(list.item_count, MEMBER_COORDINATORS_MAX); i++) {
        if (address_of_url(list.items[i], c->coordinators[i], &note))
            refuse(r, "coordinator_addr: %s", note.text);
    }
    c->coordinator_count = min_size(list.item_count, MEMBER_COORDINATORS_MAX);
}

static void check_store(const char *store, struct report *r)
{
    if (!store || (strncmp(store, "file:///", 8) == 0 && store[8]) ||
        (strncmp(store, "s3://", 5) == 0 && store[5] && store[5] != '/'))
        return;
    refuse(r, "checkpoint.store '%.64s': wanted is file:///directory or s3://bucket/prefix", store);
}

enum err worker_config_read(const struct conf *conf, struct worker_config *ret_config,
                            struct buf *problems, struct buf *warnings)
{
    struct report r = {.problems = problems, .warnings = warnings};
    struct worker_config c = {
        .coordinator_domain = conf_text(conf, "coordinator_domain"),
        .storage_path = conf_text(conf, "storage.path"),
        .has_worker_id = conf_is_set(conf, "worker-id"),
        .fence_action = (enum worker_fence_action)conf_choice(conf, "worker.fence_action"),
        .drain_deadline_ms = conf_number(conf, "worker.drain_deadline"),
        .checkpoint_store = conf_text(conf, "checkpoint.store"),
        .plugins = conf_list(conf, "plugin"),
        .hot_reload = conf_bool(conf, "hot-reload"),
    };

    /* rollout's quirk, kept: the whole table had one default and its key another. */
    if (conf_source(conf, "storage.path") == CONF_DEFAULT && conf_has_section(conf, "storage"))
        c.storage_path = "./data/rollout.db";
    read_ulid(conf, "run_id", "run_id", &c.run_id, &r);
    read_ulid(conf, "worker-id", "--worker-id", &c.worker_id, &r);
    read_coordinators(conf, &c, &r);
    read_transport(conf, &c.transport, &r);
    check_not_empty(conf, "coordinator_domain", &r);
    check_not_empty(conf, "storage.path", &r);
    check_store(c.checkpoint_store, &r);
    if (!verdict(&r)) *ret_config = c;
    return verdict(&r);
}
