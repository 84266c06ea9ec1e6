/* The rules a role's settings obey as a whole; `muster` and `musterctl config check` ask the
 * same. */
#include <string.h>

#include "common/tables.h"
#include "fleet/join.h"
#include "io/net.h"

/* An empty path is a mistake everywhere; without this the kernel would say so, in other words. */
static enum err check_paths(const struct conf *conf, struct note *note)
{
    static const char *const names[] = {"data-dir", "tls.cert-file", "tls.key-file", "log.file",
                                        "events.file"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *path = conf_text(conf, names[i]);
        if (!path || path[0]) continue;
        note_set(note, "%s must not be empty", names[i]);
        return ERR_INVALID;
    }
    return ERR_OK;
}

/* A listener that anybody on the network could use needs TLS, or to be asked for in so many
 * words. */
static enum err check_listener(const struct conf *conf, const char *name, const char *wanted,
                               struct note *note)
{
    const char *listen = conf_text(conf, name);

    if (conf_is_set(conf, "tls.cert-file") || address_is_loopback(listen) ||
        conf_bool(conf, "insecure"))
        return ERR_OK;
    note_set(note, "%s %s is not loopback and there is no TLS: set %s, or say --insecure", name,
             listen, wanted);
    return ERR_INVALID;
}

static enum err check_http(const struct conf *conf, const char *wanted, struct note *note)
{
    const char *listen = conf_text(conf, "http.listen");

    if (option_address_off(listen)) return ERR_OK;
    if (strncmp(listen, "unix:", 5) != 0) return check_listener(conf, "http.listen", wanted, note);
    note_set(note, "http.listen %s: HTTP needs host:port", listen);
    return ERR_INVALID;
}

static enum err check_dev(const struct conf *conf, struct note *note)
{
    const char *cert = conf_text(conf, "tls.cert-file"), *key = conf_text(conf, "tls.key-file");
    enum err err = check_paths(conf, note);

    if (err) return err;
    if (!cert != !key) {
        note_set(note, "tls.cert-file and tls.key-file belong together; one of them is missing");
        return ERR_INVALID;
    }
    return check_http(conf, "tls.cert-file and tls.key-file", note);
}

const struct role dev_role = {.name = "dev", .table = &dev_table, .check = check_dev};

/* -- coordinator -- */

/* The port of a log is part of what the others know of it, so it is never drawn. */
static enum err check_raft(const struct conf *conf, struct note *note)
{
    const char *bind = conf_text(conf, "raft-bind"), *told = conf_text(conf, "raft-advertise");
    struct address_parts parts;

    if (address_split(told ? told : bind, &parts, note)) return ERR_INVALID;
    if (parts.is_unix || parts.port == 0 || parts.host.len == 0 ||
        str_equal(parts.host, STR("0.0.0.0")) || str_equal(parts.host, STR("::"))) {
        note_set(note, "%s %s: nobody can reach it there; name a host and a port%s",
                 told ? "raft-advertise" : "raft-bind", told ? told : bind,
                 told ? "" : " in raft-advertise");
        return ERR_INVALID;
    }
    return ERR_OK;
}

static enum err check_join(const struct conf *conf, struct note *note)
{
    struct option_value list = conf_list(conf, "join-addr");
    struct str id = str_from(conf_text(conf, "id"));
    struct address_parts parts;
    uint64_t ordinal;

    for (size_t i = 0; i < list.item_count; i++) {
        if (address_split(list.items[i].at, &parts, note) == ERR_OK) continue;
        note_prefix(note, "join-addr");
        return ERR_INVALID;
    }
    return list.item_count > 0 ? join_ordinal(id, &ordinal, note) : ERR_OK;
}

static enum err check_coordinator(const struct conf *conf, struct note *note)
{
    static const char tls_files[] = "tls.cert-file, tls.key-file and tls.ca-file";
    int files = conf_is_set(conf, "tls.cert-file") + conf_is_set(conf, "tls.key-file") +
                conf_is_set(conf, "tls.ca-file");
    enum err err = check_paths(conf, note);

    if (!err && files != 0 && files != 3) {
        note_set(note, "%s belong together; one of them is missing", tls_files);
        err = ERR_INVALID;
    }
    if (!err) err = check_listener(conf, "listen", tls_files, note);
    if (!err) err = check_listener(conf, "raft-bind", tls_files, note);
    if (!err) err = check_http(conf, tls_files, note);
    if (!err) err = check_raft(conf, note);
    return err ? err : check_join(conf, note);
}

const struct role coordinator_role = {
    .name = "coordinator", .table = &coordinator_run_table, .check = check_coordinator};
