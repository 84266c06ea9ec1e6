/* SPDX-License-Identifier: Apache-2.0 */
/* Rules between a role's settings; `muster` and `musterctl config check` apply the same rules. */
#include <inttypes.h>
#include <string.h>

#include "common/tables.h"
#include "fleet/join.h"
#include "io/net.h"
#include "member/config/config.h"
#include "model/ids.h"
#include "store/etcd/access/access.h"

/* Refuses an empty path. The kernel would refuse it too, but without naming the option. */
static enum err settings_check_paths(const struct option_table *table, const struct conf *conf,
                                     struct note *note)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct option *option = &table->options[i];
        bool is_path = option->kind == OPTION_STRING &&
                       (option->file != OPTION_FILE_NONE || strcmp(option->name, "data-dir") == 0);
        const char *path = is_path ? conf_text(conf, option->name) : NULL;
        if (!path || path[0]) continue;
        return note_fail(note, ERR_INVALID, "%s must not be empty", option->name);
    }
    return ERR_OK;
}

enum err role_problems(const struct role *role, const struct conf *conf, struct buf *problems)
{
    struct note note = {""};
    enum err err = settings_check_paths(role->table, conf, &note);
    enum err gathered = role->gather ? role->gather(conf, problems) : ERR_OK;

    if (!err) err = role->check(conf, &note);
    if (err && note.text[0] && buf_appendf(problems, "%s\n", note.text)) return ERR_NOMEM;
    return err ? err : gathered;
}

/* Requires TLS on a listener that is open to the network, unless plaintext is allowed. */
static enum err settings_check_listener(const struct conf *conf, const char *name,
                                        const char *wanted, struct note *note)
{
    const char *listen = conf_text(conf, name);

    if (conf_is_set(conf, "tls.cert-file") || address_is_loopback(listen) ||
        conf_bool(conf, "insecure"))
        return ERR_OK;
    return note_fail(note, ERR_INVALID,
                     "%s %s is not loopback and there is no TLS: set %s, or say --insecure", name,
                     listen, wanted);
}

static enum err settings_check_http(const struct conf *conf, const char *wanted, struct note *note)
{
    const char *listen = conf_text(conf, "http.listen");

    if (option_address_off(listen)) return ERR_OK;
    if (strncmp(listen, "unix:", 5) != 0)
        return settings_check_listener(conf, "http.listen", wanted, note);
    return note_fail(note, ERR_INVALID, "http.listen %s: HTTP needs host:port", listen);
}

static enum err settings_check_dev(const struct conf *conf, struct note *note)
{
    const char *cert = conf_text(conf, "tls.cert-file"), *key = conf_text(conf, "tls.key-file");

    if (!cert != !key)
        return note_fail(note, ERR_INVALID,
                         "tls.cert-file and tls.key-file belong together; one of them is missing");
    return settings_check_http(conf, "tls.cert-file and tls.key-file", note);
}

const struct role dev_role = {.name = "dev", .table = &dev_table, .check = settings_check_dev};

/* -- coordinator -- */

/* Refuses port 0 (any free port), because other replicas store the port. */
static enum err settings_check_raft(const struct conf *conf, struct note *note)
{
    const char *bind = conf_text(conf, "raft-bind"),
               *advertised = conf_text(conf, "raft-advertise");
    struct address_parts parts;

    if (address_split(advertised ? advertised : bind, &parts, note)) return ERR_INVALID;
    if (parts.is_unix || parts.port == 0 || parts.host.len == 0 ||
        str_equal(parts.host, STR("0.0.0.0")) || str_equal(parts.host, STR("::")))
        return note_fail(note, ERR_INVALID,
                         "%s %s: nobody can reach it there; name a host and a port%s",
                         advertised ? "raft-advertise" : "raft-bind",
                         advertised ? advertised : bind, advertised ? "" : " in raft-advertise");
    return ERR_OK;
}

static enum err settings_check_addresses(const struct conf *conf, const char *name,
                                         struct note *note)
{
    struct option_value list = conf_list(conf, name);
    struct address_parts parts;

    for (size_t i = 0; i < list.item_count; i++) {
        if (address_split(list.items[i].at, &parts, note) == ERR_OK) continue;
        note_prefix(note, "%s", name);
        return ERR_INVALID;
    }
    return ERR_OK;
}

/* Checks the scaled times, with the arithmetic of replica_open. */
static enum err settings_check_timing(const struct conf *conf, struct note *note)
{
    uint64_t scale = conf_number(conf, "timing-scale");
    uint64_t election = max_u64(conf_number(conf, "election") * scale / 100, 2);
    uint64_t heartbeat = max_u64(conf_number(conf, "heartbeat") * scale / 100, 1);

    if (heartbeat < election) return ERR_OK;
    return note_fail(note, ERR_INVALID,
                     "election (%" PRIu64 "ms) must be longer than heartbeat (%" PRIu64
                     "ms); five times as long is usual",
                     conf_number(conf, "election"), conf_number(conf, "heartbeat"));
}

static enum err settings_check_join(const struct conf *conf, struct note *note)
{
    struct str id = str_from(conf_text(conf, "id"));
    enum err err = settings_check_addresses(conf, "join-addr", note);
    uint64_t ordinal;

    if (err || conf_list(conf, "join-addr").item_count == 0) return err;
    return join_ordinal(id, &ordinal, note);
}

static const char tls_files[] = "tls.cert-file, tls.key-file and tls.ca-file";

static enum err settings_check_tls(const struct conf *conf, struct note *note)
{
    int files = conf_is_set(conf, "tls.cert-file") + conf_is_set(conf, "tls.key-file") +
                conf_is_set(conf, "tls.ca-file");

    if (files == 0 || files == 3) return ERR_OK;
    return note_fail(note, ERR_INVALID, "%s belong together; one of them is missing", tls_files);
}

/* Checks the certificate that the dashboard sends to shards. */
static enum err settings_check_dashboard(const struct conf *conf, struct note *note)
{
    bool cert = conf_is_set(conf, "dashboard.cert-file");
    bool key = conf_is_set(conf, "dashboard.key-file");

    if (cert == key && (!cert || conf_is_set(conf, "tls.ca-file"))) return ERR_OK;
    return note_fail(note, ERR_INVALID,
                     "dashboard.cert-file and dashboard.key-file belong together, beside %s",
                     tls_files);
}

static bool settings_is_version(struct str text)
{
    struct str part;
    uint64_t number;
    int parts = 0;

    while (str_split(&text, '.', &part))
        if (str_to_u64(part, &number) || ++parts > 3) return false;
    return parts == 3;
}

static enum err settings_check_etcd(const struct conf *conf, struct note *note)
{
    struct option_value access = conf_list(conf, "etcd-access");
    struct etcd_rule rule;
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < access.item_count; i++)
        err = etcd_rule_parse(access.items[i], &rule, note);
    if (err) {
        note_prefix(note, "etcd-access");
        return err;
    }
    if (!settings_is_version(str_from(conf_text(conf, "etcd-version"))))
        return note_fail(note, ERR_INVALID, "etcd-version: three numbers are needed, as 3.6.5");
    if (access.item_count > 0 && !conf_is_set(conf, "tls.cert-file"))
        return note_fail(note, ERR_INVALID,
                         "etcd-access needs tls.cert-file: without TLS no client has a name");
    if (!conf_is_set(conf, "etcd-ca-file") ||
        (conf_is_set(conf, "tls.cert-file") && conf_text(conf, "etcd-listen")))
        return ERR_OK;
    return note_fail(note, ERR_INVALID,
                     "etcd-ca-file is for etcd-listen under TLS: it needs both, and tls.cert-file");
}

static enum err settings_check_coordinator(const struct conf *conf, struct note *note)
{
    enum err err = join_name(str_from(conf_text(conf, "id")), note);

    if (!err) err = settings_check_timing(conf, note);
    if (!err) err = settings_check_tls(conf, note);
    if (!err) err = settings_check_listener(conf, "listen", tls_files, note);
    if (!err) err = settings_check_listener(conf, "raft-bind", tls_files, note);
    if (!err && conf_text(conf, "etcd-listen"))
        err = settings_check_listener(conf, "etcd-listen", tls_files, note);
    if (!err) err = settings_check_etcd(conf, note);
    if (!err) err = settings_check_dashboard(conf, note);
    if (!err) err = settings_check_http(conf, tls_files, note);
    if (!err) err = settings_check_raft(conf, note);
    return err ? err : settings_check_join(conf, note);
}

static enum err settings_gather_coordinator(const struct conf *conf, struct buf *problems)
{
    struct member_config config;
    return member_config_read(conf, &config, problems, NULL);
}

const struct role coordinator_role = {.name = "coordinator",
                                      .table = &coordinator_run_table,
                                      .check = settings_check_coordinator,
                                      .gather = settings_gather_coordinator};

/* -- worker -- */

static enum err settings_gather_worker(const struct conf *conf, struct buf *problems)
{
    struct worker_config config;
    return worker_config_read(conf, &config, problems, NULL);
}

const struct role worker_role = {.name = "worker",
                                 .table = &worker_run_table,
                                 .check = settings_check_dev,
                                 .gather = settings_gather_worker};

/* -- shard -- */

static enum err settings_check_domains(const struct conf *conf, struct note *note)
{
    struct option_value list = conf_list(conf, "domains");

    for (size_t i = 0; i < list.item_count; i++) {
        struct str item = list.items[i];
        size_t equals = str_find(item, '=');
        if (equals < item.len && !id_check("key", str_of(item.at, equals), LABEL_KEY_MAX, note) &&
            !id_check("value", str_tail(item, equals + 1), LABEL_VALUE_MAX, note))
            continue;
        if (equals == item.len)
            note_set(note, "domains: %.*s: expected KEY=VALUE", STR_ARG(item));
        else
            note_prefix(note, "domains: %.*s", STR_ARG(item));
        return ERR_INVALID;
    }
    return ERR_OK;
}

static enum err settings_check_shard(const struct conf *conf, struct note *note)
{
    enum err err = id_check("id", str_from(conf_text(conf, "id")), ID_MAX, note);

    if (!err) err = settings_check_tls(conf, note);
    if (!err) err = settings_check_listener(conf, "listen", tls_files, note);
    if (!err) err = settings_check_http(conf, tls_files, note);
    if (!err) err = settings_check_addresses(conf, "coordinator-addr", note);
    if (!err) err = settings_check_domains(conf, note);
    if (!err && conf_number(conf, "rest-most") < conf_number(conf, "rest-first")) {
        note_set(note, "rest-most must not be less than rest-first");
        err = ERR_INVALID;
    }
    return err;
}

const struct role shard_role = {
    .name = "shard", .table = &shard_run_table, .check = settings_check_shard};

/* -- operator -- */

/* Demand must come from one source. */
static enum err settings_check_source(const struct conf *conf, struct note *note)
{
    bool kube = conf_bool(conf, "kubernetes") || conf_is_set(conf, "kubeconfig");

    if (kube != conf_is_set(conf, "demand")) return ERR_OK;
    return note_fail(note, ERR_INVALID,
                     kube ? "--demand and --kubernetes: demand comes from one of them"
                          : "where does demand come from? --demand FILE, or --kubernetes");
}

static enum err settings_check_operator(const struct conf *conf, struct note *note)
{
    enum err err = id_check("cluster-id", str_from(conf_text(conf, "cluster-id")), ID_MAX, note);

    if (!err) err = settings_check_source(conf, note);
    if (!err) err = settings_check_tls(conf, note);
    if (!err) err = settings_check_http(conf, tls_files, note);
    return err ? err : settings_check_addresses(conf, "shard-addr", note);
}
const struct role operator_role = {
    .name = "operator", .table = &operator_run_table, .check = settings_check_operator};

/* -- provider -- */

static enum err settings_check_provider(const struct conf *conf, struct note *note)
{
    enum err err = id_check("name", str_from(conf_text(conf, "name")), ID_MAX, note);

    if (!err && conf_choice(conf, "backend") == BACKEND_COMMAND &&
        !conf_is_set(conf, "command.script")) {
        note_set(note, "--backend command needs --command-script");
        err = ERR_INVALID;
    }
    if (!err) err = settings_check_tls(conf, note);
    if (!err) err = settings_check_listener(conf, "listen", tls_files, note);
    return err ? err : settings_check_http(conf, tls_files, note);
}

const struct role provider_role = {
    .name = "provider", .table = &provider_run_table, .check = settings_check_provider};
