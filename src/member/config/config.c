/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings of worker membership and checks the rules between them, at start and at a
 * reload. All problems are reported together, before anything is opened. */
#include "member/config/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "conf/units.h"
#include "io/net.h"

enum { VIRTUAL_NODES_MAX = 4096 };

struct report {
    struct buf *problems, *warnings;
    size_t count;
    enum err err;
};

__attribute__((format(printf, 3, 4))) static void put_line(struct report *r, struct buf *into,
                                                           const char *format, ...)
{
    va_list args;

    r->count += into == r->problems;
    if (!into || r->err) return;
    va_start(args, format);
    r->err = buf_vappendf(into, format, args);
    va_end(args);
    if (!r->err) r->err = buf_append_byte(into, '\n');
}
#define refuse(r, ...) put_line(r, (r)->problems, __VA_ARGS__)
#define warn(r, ...)   put_line(r, (r)->warnings, __VA_ARGS__)

/* -- single values -- */

static bool is_numeric(const char *address)
{
    struct address_parts parts;
    uint8_t bytes[16];

    return !address_split(address, &parts, NULL) && !parts.is_unix &&
           address_ip(parts.host, bytes) > 0;
}

/* https://HOST:PORT, with or without a trailing '/' */
static enum err address_of_url(struct str url, char address[CONFIG_ADDRESS_CAP], struct note *note)
{
    struct str rest = url;
    struct address_parts parts;

    if (str_starts(url, STR("https://"))) rest = str_tail(url, 8);
    if (str_ends(rest, STR("/"))) rest.len--;
    if (rest.at == url.at || rest.len == 0 || rest.len >= CONFIG_ADDRESS_CAP)
        return note_fail(note, ERR_INVALID,
                         "'%.*s' is no URL of a coordinator, such as https://127.0.0.1:50051",
                         (int)min_size(url.len, 64), url.at);
    snprintf(address, CONFIG_ADDRESS_CAP, "%.*s", STR_ARG(rest));
    if (address_split(address, &parts, note)) return ERR_INVALID;
    if (!parts.is_unix && parts.host.len > 0 && parts.port != 0) return ERR_OK;
    return note_fail(note, ERR_INVALID, "'%s' names no host and port to dial", address);
}

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

/* -- settings of the transport -- */

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

/* -- settings of a coordinator -- */

static void check_coordinator(const struct conf *conf, const struct member_transport *t,
                              struct report *r)
{
    static const struct {
        const char *name, *most;
    } fractions[] = {{"detector.max_fail_fraction", "1"},
                     {"detector.suspect_ratio", "1"},
                     {"detector.phi_threshold", "100"}};
    uint64_t twice = 2 * t->heartbeat_interval_ms;
    uint64_t silence = conf_number(conf, "detector.heartbeat_timeout_sec") * MS_PER_SECOND;
    uint64_t revoke = conf_number(conf, "placement.revoke_timeout");
    uint64_t nodes = conf_number(conf, "placement.virtual_nodes");

    if (!is_numeric(t->listen_addr))
        refuse(r,
               "transport.listen_addr '%.64s': invalid socket address; it is a numeric ip:port, "
               "such as 127.0.0.1:50051",
               t->listen_addr);
    if (silence <= twice)
        refuse(r,
               "detector.heartbeat_timeout_sec %s must be more than twice "
               "transport.heartbeat_interval %s, which is %s",
               shown(silence).text, shown(t->heartbeat_interval_ms).text, shown(twice).text);
    if (revoke < twice)
        refuse(r,
               "placement.revoke_timeout %s must be at least twice transport.heartbeat_interval "
               "%s, which is %s",
               shown(revoke).text, shown(t->heartbeat_interval_ms).text, shown(twice).text);
    for (size_t i = 0; i < ARRAY_LEN(fractions); i++)
        if (conf_decimal(conf, fractions[i].name) <= 0)
            refuse(r, "%s 0 must be more than 0, and at most %s", fractions[i].name,
                   fractions[i].most);
    if (conf_number(conf, "placement.total_partitions") < 1)
        refuse(r, "placement.total_partitions 0 must be at least 1");
    if (nodes < 1 || nodes > VIRTUAL_NODES_MAX)
        refuse(r, "placement.virtual_nodes %llu must be between 1 and %d",
               (unsigned long long)nodes, VIRTUAL_NODES_MAX);
    if (conf_bool(conf, "placement.grant_to_legacy"))
        warn(r, "placement.grant_to_legacy: workers that only beat do not prove that they stop, so "
                "two of them may own one partition");
}

static void read_coordinator(const struct conf *conf, struct member_config *c)
{
    c->start_timeout_ms = conf_number(conf, "start_timeout");
    c->loser_exit = conf_number(conf, "loser_exit");
    c->storage.path = conf_text(conf, "storage.path");
    c->storage.heartbeat_flush_interval_ms = conf_number(conf, "storage.heartbeat_flush_interval");
    c->transport.max_connections = conf_number(conf, "transport.max_connections");
    c->events.heartbeat = (int)conf_choice(conf, "events.heartbeat");
    c->events.heartbeat_event_limit = conf_number(conf, "events.heartbeat_event_limit");
    c->events.queue = conf_number(conf, "events.queue");
    c->events.ids = conf_bool(conf, "events.ids");
    c->events.rollout_only = conf_choice(conf, "events.topics") == 1;
    c->events.sink = (enum config_sink)conf_choice(conf, "events.worker_sink");
    c->events.file = conf_text(conf, "events.worker_file");
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
    read_coordinator(conf, &c);
    check_not_empty(conf, "storage.path", &r);
    check_not_empty(conf, "events.worker_file", &r);
    check_coordinator(conf, &c.transport, &r);
    if (!verdict(&r)) *ret_config = c;
    return verdict(&r);
}

/* -- settings of a worker -- */

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

    /* As in rollout, storage.path has another default if the section [storage] exists. */
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
