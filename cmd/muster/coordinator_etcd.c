/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/coordinator_etcd.h"

#include <stdlib.h>

struct coordinator_etcd {
    struct etcd_api *api;
    struct role_listener listener; /* none: the gRPC port alone */
    struct tls_context *tls;       /* the listener's; NULL: plaintext */
    bool outsiders;                /* its authority is its own */
    struct etcd_rule rules[ETCD_RULES_MAX];
    void (*done)(void *owner);
    void *owner;
};

static enum err open_listener(struct coordinator_etcd *etcd,
                              const struct coordinator_etcd_options *options, const char *address,
                              struct note *note)
{
    struct role_listener *l = &etcd->listener;
    enum err err = role_listener_open(l,
                                      &(struct rpc_server_options){.io = options->api.io,
                                                                   .log = options->api.log,
                                                                   .meter = options->meter,
                                                                   .outsiders = etcd->outsiders,
                                                                   .limits = etcd_server_limits()},
                                      note);

    if (!err) err = etcd_methods(etcd->api, l->server, note);
    if (!err) err = snapshot_service_etcd(options->snapshots, l->server, note);
    if (!err) rpc_server_pages(l->server, etcd_page, etcd->api);
    return err ? err : role_listener_listen(l, "etcd-listen", address, etcd->tls, note);
}

/* Clients of other makers: TLS 1.2, too, and an authority that may be theirs alone. */
static enum err open_tls(struct coordinator_etcd *etcd,
                         const struct coordinator_etcd_options *options, struct note *note)
{
    const char *authority = conf_text(options->conf, "etcd-ca-file");
    const char *fleet = conf_text(options->conf, "tls.ca-file");
    struct tls_options tls = {
        .side = TLS_SERVER,
        .version_min = TLS_V1_2,
        .cert_file = conf_text(options->conf, "tls.cert-file"),
        .key_file = conf_text(options->conf, "tls.key-file"),
        .ca_files = {authority ? authority : fleet},
        .alpn = {"h2"},
    };

    etcd->outsiders = authority != NULL;
    if (!tls.cert_file) return ERR_OK;
    return tls_context_open(options->api.io->fs, &tls, &etcd->tls, note);
}

enum err coordinator_etcd_open(const struct coordinator_etcd_options *options,
                               struct coordinator_etcd **ret_etcd, struct note *note)
{
    struct coordinator_etcd *etcd = calloc(1, sizeof *etcd);
    const char *address = conf_text(options->conf, "etcd-listen");
    struct option_value access = conf_list(options->conf, "etcd-access");
    struct etcd_options api = options->api;
    enum err err = ERR_OK;

    if (!etcd) return ERR_NOMEM;
    *ret_etcd = etcd; /* a half-built one is closed by its owner */
    static_assert((int)ETCD_RULES_MAX >= (int)OPTION_LIST_MAX, "every item of the list fits");
    for (size_t i = 0; !err && i < access.item_count; i++)
        err = etcd_rule_parse(access.items[i], &etcd->rules[i], note);
    api.rules = etcd->rules;
    api.rule_count = access.item_count;
    if (!err) err = open_tls(etcd, options, note);
    if (!err) err = etcd_open(&api, &etcd->api);
    if (!err) err = etcd_methods(etcd->api, options->server, note);
    if (!err) err = snapshot_service_etcd(options->snapshots, options->server, note);
    if (!err) rpc_server_pages(options->server, etcd_page, etcd->api);
    if (!err && address) err = open_listener(etcd, options, address, note);
    return err;
}

void coordinator_etcd_on_change(struct coordinator_etcd *etcd, const struct replica_status *status)
{
    if (etcd && etcd->api) etcd_on_change(etcd->api, status);
}

struct role_listener *coordinator_etcd_listener(struct coordinator_etcd *etcd)
{
    return etcd ? &etcd->listener : NULL;
}

static void on_server_closed(void *owner)
{
    struct coordinator_etcd *etcd = owner;

    if (etcd->api)
        etcd_stop(etcd->api, etcd->done, etcd->owner);
    else
        etcd->done(etcd->owner);
}

void coordinator_etcd_stop(struct coordinator_etcd *etcd, void (*done)(void *owner), void *owner)
{
    if (!etcd) {
        done(owner);
        return;
    }
    etcd->done = done;
    etcd->owner = owner;
    rpc_server_close(etcd->listener.server, on_server_closed, etcd);
}

void coordinator_etcd_close(struct coordinator_etcd *etcd)
{
    if (!etcd) return;
    rpc_health_close(etcd->listener.health);
    etcd_close(etcd->api);
    tls_context_unref(etcd->tls);
    free(etcd);
}
