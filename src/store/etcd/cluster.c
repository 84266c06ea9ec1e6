/* SPDX-License-Identifier: Apache-2.0 */
/* etcdserverpb.Cluster: the replicas as etcd's members. For administrators only, except MemberList.
 *
 * MemberAdd and MemberUpdate check their arguments as etcd does, but change nothing. A replica
 * joins by itself (fleet/join.h), and asks to join until the member list has its own address.
 * MemberRemove and MemberPromote change the log's configuration. */
#include <stdio.h>

#include "store/etcd/internal.h"

/* -- MemberList -- */

static void pack_url(struct pack *row, uint32_t field, const char *scheme, const char *address)
{
    char url[16 + REPLICA_ADDRESS_MAX];
    int len = snprintf(url, sizeof url, "%s://%s", scheme, address);

    if (address[0] && len > 0 && len < (int)sizeof url)
        pack_text(row, field, str_of(url, (size_t)len));
}

/* Lists client URLs only if they are known for every member: a client that asks for the list then
 * uses no other URL. */
static void pack_members(struct etcd_api *api, struct pack *pack)
{
    struct etcd_member members[REPLICA_MEMBERS_MAX];
    const char *scheme = api->options.tls ? "https" : "http";
    size_t count = etcd_members(api, members);

    for (size_t i = 0; i < count; i++) {
        char room[64 + REPLICA_NAME_MAX + 2 * (32 + REPLICA_ADDRESS_MAX)];
        struct buf small = {.data = room, .cap = sizeof room, .max = sizeof room};
        struct pack row = {&small, ERR_OK};

        pack_u64(&row, 1, members[i].id);
        pack_text(&row, 2, str_from(members[i].name));
        pack_url(&row, 3, scheme, members[i].peer);
        pack_url(&row, 4, scheme, members[i].client);
        pack_u64(&row, 5, members[i].learner);
        pack_row(pack, 2, &row);
    }
}

size_t etcd_members(const struct etcd_api *api, struct etcd_member members[REPLICA_MEMBERS_MAX])
{
    return api->options.members ? api->options.members(api->options.owner, members) : 0;
}

static bool list_serializable(const ProtobufCMessage *message)
{
    return !((const Etcdserverpb__MemberListRequest *)message)->linearizable;
}

static void members_read(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    struct pack pack = pack_begin(&api->answer);

    etcd_header(api, &pack, 0);
    pack_members(api, &pack);
    etcd_reply(request, &pack);
}

/* -- MemberRemove, MemberPromote -- */

static void member_altered(struct member_change *change, enum err err, const struct note *note)
{
    struct etcd_request *request = CONTAINER_OF(change, struct etcd_request, change);

    if (!err) {
        members_read(request);
    } else if (err == ERR_INVALID) {
        request_fail(&request->base, GRPC_FAILED_PRECONDITION,
                     "etcdserver: can only promote a learner member");
    } else {
        LOG_INFO(&api_of(request)->log, "an etcd client's change of the replicas failed",
                 log_text("why", note ? note->text : ""));
        etcd_refuse(request, err == ERR_NOT_FOUND    ? ETCD_MEMBER_NOT_FOUND
                             : err == ERR_NOT_LEADER ? ETCD_LEADER_CHANGED
                             : err == ERR_UNKNOWN    ? ETCD_TIMEOUT
                                                     : ETCD_UNHEALTHY);
    }
}

static void member_alter(struct etcd_request *request, enum member_change_kind kind, uint64_t id)
{
    struct etcd_api *api = api_of(request);

    LOG_INFO(&api->log, "an etcd client changes the replicas",
             log_text("what", kind == CHANGE_REMOVE ? "remove" : "promote"), log_u64("id", id),
             log_str("actor", rpc_access_name(rpc_call_identity(request->base.call))));
    request->change =
        (struct member_change){.kind = kind, .id = id, .address = "", .done = member_altered};
    etcd_act(request);
    replica_change(api->options.replica, &request->change);
}

static void member_remove(struct etcd_request *request)
{
    member_alter(request, CHANGE_REMOVE,
                 ((const Etcdserverpb__MemberRemoveRequest *)request->base.message)->id);
}

static void member_promote(struct etcd_request *request)
{
    member_alter(request, CHANGE_PROMOTE,
                 ((const Etcdserverpb__MemberPromoteRequest *)request->base.message)->id);
}

/* -- MemberAdd, MemberUpdate -- */

enum { PEER_URLS_MAX = 16 };

/* Requires "http(s)://host:port", as etcd does. *ret_address: the part after the scheme. */
static bool url_cut(const char *text, struct str *ret_address)
{
    struct str url = str_from(text), scheme, port;
    uint64_t number;
    size_t host;

    if (!str_split(&url, ':', &scheme) || url.len < 2 || url.at[0] != '/' || url.at[1] != '/' ||
        !(str_equal(scheme, STR("http")) || str_equal(scheme, STR("https"))))
        return false;
    *ret_address = str_tail(url, 2);
    for (host = ret_address->len; host > 0 && ret_address->at[host - 1] != ':'; host--) {}
    port = str_tail(*ret_address, host);
    return host > 1 && !str_to_u64(port, &number) && number > 0 && number <= UINT16_MAX;
}

/* `id` 0: a new member. *ret_own: the member has these addresses already. */
static enum etcd_error peers_check(char *const *urls, size_t count, uint64_t id,
                                   const struct etcd_member *members, size_t member_count,
                                   bool *ret_own)
{
    struct str address;

    *ret_own = true;
    if (count == 0 || count > PEER_URLS_MAX) return ETCD_BAD_URLS;
    for (size_t i = 0; i < count; i++)
        if (!url_cut(urls[i], &address)) return ETCD_BAD_URLS;
    for (size_t i = 0; i < count; i++) {
        bool own = false;

        (void)url_cut(urls[i], &address);
        for (size_t j = 0; j < member_count; j++) {
            if (!str_equal(str_from(members[j].peer), address)) continue;
            if (members[j].id != id) return ETCD_PEER_EXISTS;
            own = true;
        }
        *ret_own &= own;
    }
    return ETCD_OK;
}

/* The error text names the members' join addresses. */
static void refuse_to_join(struct etcd_request *request, const struct etcd_member *members,
                           size_t count, const char *what)
{
    char text[1024];
    int len = snprintf(text, sizeof text, "etcdserver: not supported by muster: %s", what);

    for (size_t i = 0; i < count && len > 0 && len < (int)sizeof text; i++)
        len +=
            snprintf(text + len, sizeof text - (size_t)len, "%s%s", i ? "," : " ", members[i].join);
    request_fail(&request->base, GRPC_UNIMPLEMENTED, "%s", text);
}

static void member_add(struct etcd_request *request)
{
    const Etcdserverpb__MemberAddRequest *m = etcd_message(request);
    struct etcd_member members[REPLICA_MEMBERS_MAX];
    size_t count = etcd_members(api_of(request), members);
    bool own;
    enum etcd_error error = peers_check(m->peerurls, m->n_peerurls, 0, members, count, &own);

    if (error)
        etcd_refuse(request, error);
    else
        refuse_to_join(request, members, count,
                       "a replica joins by itself, started with --join-addr");
}

static void member_update(struct etcd_request *request)
{
    const Etcdserverpb__MemberUpdateRequest *m = etcd_message(request);
    struct etcd_member members[REPLICA_MEMBERS_MAX];
    size_t count = etcd_members(api_of(request), members);
    bool known = false, own;
    enum etcd_error error = peers_check(m->peerurls, m->n_peerurls, m->id, members, count, &own);

    for (size_t i = 0; i < count; i++) known |= members[i].id == m->id;
    if (!known && error != ETCD_BAD_URLS) error = ETCD_MEMBER_NOT_FOUND;
    if (error)
        etcd_refuse(request, error);
    else if (own) /* unchanged addresses need no action */
        members_read(request);
    else
        refuse_to_join(request, members, count,
                       "a replica says by itself where it is, started with --raft-advertise and "
                       "--join-addr");
}

static const struct etcd_method cluster_methods[] = {
    {ETCD_METHOD("MemberList", etcdserverpb, Cluster, member_list, member_list),
     .allows = etcd_may_look, .serializable = list_serializable, .read = members_read},
    {ETCD_METHOD("MemberRemove", etcdserverpb, Cluster, member_remove, member_remove),
     .allows = etcd_may_administer, .act = member_remove},
    {ETCD_METHOD("MemberPromote", etcdserverpb, Cluster, member_promote, member_promote),
     .allows = etcd_may_administer, .act = member_promote},
    {ETCD_METHOD("MemberAdd", etcdserverpb, Cluster, member_add, member_add),
     .allows = etcd_may_administer, .act = member_add},
    {ETCD_METHOD("MemberUpdate", etcdserverpb, Cluster, member_update, member_update),
     .allows = etcd_may_administer, .act = member_update},
    {.base = {.path = NULL}},
};

const struct etcd_part etcd_cluster_part = {.methods = cluster_methods};
