/* SPDX-License-Identifier: Apache-2.0 */
/* The etcd API of a coordinator: always on the gRPC port, and on a listener of its own if
 * --etcd-listen is given. Runs on the loop's thread. */
#include "muster/coordinator.h"

static enum err etcd_open_listener(struct coordinator *c, const char *address, struct note *note)
{
    struct role_listener *l = &c->etcd.listener;
    struct rpc_server_options options = {.io = c->role.io,
                                         .log = c->log,
                                         .meter = c->role.meter,
                                         .outsiders = conf_is_set(c->role.conf, "etcd-ca-file"),
                                         .limits = etcd_server_limits()};
    enum err err = role_listener_open(l, &options, note);

    if (!err) err = etcd_methods(c->etcd.api, l->server, note);
    if (!err) err = fleet_service_etcd(c->fleet, l->server, note);
    if (!err) rpc_server_pages(l->server, etcd_page, c->etcd.api);
    return err ? err : role_listener_listen(l, "etcd-listen", address, c->etcd.tls, note);
}

/* Opens TLS for etcd clients of other makers: allows TLS 1.2, and verifies clients against
 * etcd-ca-file if it is set. */
static enum err etcd_open_tls(struct coordinator *c, struct note *note)
{
    const char *authority = conf_text(c->role.conf, "etcd-ca-file");
    struct tls_options tls = {
        .side = TLS_SERVER,
        .version_min = TLS_V1_2,
        .cert_file = conf_text(c->role.conf, "tls.cert-file"),
        .key_file = conf_text(c->role.conf, "tls.key-file"),
        .ca_files = {authority ? authority : conf_text(c->role.conf, "tls.ca-file")},
        .alpn = {"h2"},
    };

    if (!tls.cert_file) return ERR_OK;
    return tls_context_open(c->role.io->fs, &tls, &c->etcd.tls, note);
}

static size_t etcd_list_members(void *owner, struct etcd_member members[REPLICA_MEMBERS_MAX])
{
    static const struct roster_entry nobody;
    static struct replica_member known[REPLICA_MEMBERS_MAX]; /* the caller reads the names */
    struct coordinator *c = owner;
    size_t count = replica_members(c->replica, known);

    for (size_t i = 0; i < count; i++) {
        const struct roster_entry *entry = roster_find(c->roster, known[i].id);

        if (!entry) entry = &nobody;
        members[i] = (struct etcd_member){.id = known[i].id,
                                          .name = entry->name,
                                          .peer = known[i].address,
                                          .client = entry->etcd[0] ? entry->etcd : entry->grpc,
                                          .join = entry->grpc,
                                          .learner = known[i].role != MEMBER_VOTER};
    }
    return count;
}

enum err coordinator_etcd_open(struct coordinator *c, struct note *note)
{
    const struct conf *conf = c->role.conf;
    const char *address = conf_text(conf, "etcd-listen");
    struct option_value access = conf_list(conf, "etcd-access");
    struct etcd_options options = {
        .io = c->role.io,
        .log = c->log,
        .store = c->store,
        .replica = c->replica,
        .leader_address = coordinator_leader_address,
        .owner = c,
        .members = etcd_list_members,
        .version = conf_text(conf, "etcd-version"),
        .tls = c->role.client_tls,
        .election_ms = (uint32_t)conf_number(conf, "election"),
        .progress_ms = conf_number(conf, "etcd-progress"),
        .rules = c->etcd.rules,
        .rule_count = access.item_count,
    };
    enum err err = ERR_OK;

    static_assert((int)ETCD_RULES_MAX >= (int)OPTION_LIST_MAX, "every item of the list fits");
    for (size_t i = 0; !err && i < access.item_count; i++)
        err = etcd_rule_parse(access.items[i], &c->etcd.rules[i], note);
    if (!err) err = etcd_open_tls(c, note);
    if (!err) err = etcd_open(&options, &c->etcd.api);
    if (!err) err = etcd_methods(c->etcd.api, c->role.server, note);
    if (!err) err = fleet_service_etcd(c->fleet, c->role.server, note);
    if (!err) rpc_server_pages(c->role.server, etcd_page, c->etcd.api);
    return err || !address ? err : etcd_open_listener(c, address, note);
}
