/* SPDX-License-Identifier: Apache-2.0 */
/* etcdserverpb.Cluster: the replicas as etcd's members.
 *
 * A replica joins by itself, with an identity of its own (fleet/join.h), and goes on asking until
 * it stands in the list as it says of itself. MemberAdd has no word for that identity, and what
 * MemberUpdate wrote over a replica's own word would be written back by it: both are judged as etcd
 * judges them, do nothing, and say what does. Removing and promoting are changes of the log's
 * configuration. All four are for administrators only. */
#include <stdio.h>
#include <stdlib.h>

#include "store/etcd/internal.h"

/* -- MemberList -- */

static void pack_url(struct pack *row, uint32_t field, const char *scheme, const char *address)
{
    char url[16 + REPLICA_ADDRESS_MAX];
    int len = snprintf(url, sizeof url, "%s://%s", scheme, address);

    if (address[0] && len > 0 && len < (int)sizeof url)
        pack_text(row, field, str_of(url, (size_t)len));
}

/* Client URLs are those that every member is known to serve: clients that ask for them use nothing
 * else from then on. */
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

static void list(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    struct pack pack = pack_begin(&api->answer);

    etcd_header(api, &pack, 0);
    pack_members(api, &pack);
    etcd_reply(request, &pack);
}

static const struct etcd_method methods[] = {
    {.base = {.path = "/etcdserverpb.Cluster/MemberList",
              .name = "MemberList",
              .input = &etcdserverpb__member_list_request__descriptor,
              .output = &etcdserverpb__member_list_response__descriptor},
     .allows = etcd_may_look,
     .serializable = list_serializable,
     .read = list},
    {.base = {.path = NULL}},
};

/* -- MemberRemove, MemberPromote -- */

struct alteration { /* of the members; the log may have it longer than its caller waits */
    struct etcd_api *api;
    struct rpc_call *call; /* NULL: gone */
    struct member_change change;
};

static void reply_members(struct etcd_api *api, struct rpc_call *call)
{
    struct pack pack = pack_begin(&api->answer);

    etcd_header(api, &pack, 0);
    pack_members(api, &pack);
    rpc_reply_bytes(call, buf_peek(&api->answer));
}

static void altered(struct member_change *change, enum err err, const struct note *note)
{
    struct alteration *alteration = CONTAINER_OF(change, struct alteration, change);
    struct etcd_api *api = alteration->api;
    struct rpc_call *call = alteration->call;

    free(alteration);
    if (!call) return;
    rpc_call_set_data(call, NULL);
    if (!err) {
        reply_members(api, call);
    } else if (err == ERR_INVALID) {
        rpc_finish(call, GRPC_FAILED_PRECONDITION,
                   STR("etcdserver: can only promote a learner member"), STR_EMPTY);
    } else {
        LOG_INFO(&api->log, "members are as they were", log_text("why", note ? note->text : ""));
        etcd_finish(call, err == ERR_NOT_FOUND    ? ETCD_MEMBER_NOT_FOUND
                          : err == ERR_NOT_LEADER ? ETCD_LEADER_CHANGED
                          : err == ERR_UNKNOWN    ? ETCD_TIMEOUT
                                                  : ETCD_UNHEALTHY);
    }
}

static void alter(struct etcd_api *api, struct rpc_call *call, enum member_change_kind kind,
                  uint64_t id)
{
    struct alteration *alteration;

    if (!etcd_is_admin(call)) {
        etcd_finish(call, ETCD_DENIED);
        return;
    }
    alteration = calloc(1, sizeof *alteration);
    if (!alteration) {
        etcd_finish(call, ETCD_TOO_MANY_REQUESTS);
        return;
    }
    alteration->api = api;
    alteration->call = call;
    alteration->change =
        (struct member_change){.kind = kind, .id = id, .address = "", .done = altered};
    rpc_call_set_data(call, alteration);
    LOG_INFO(&api->log, "members are to change",
             log_text("what", kind == CHANGE_REMOVE ? "remove" : "promote"), log_u64("id", id),
             log_str("actor", rpc_access_name(rpc_call_identity(call))));
    replica_change(api->options.replica, &alteration->change);
}

static void on_remove(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                      struct str)
{
    alter(owner, call, CHANGE_REMOVE, ((const Etcdserverpb__MemberRemoveRequest *)message)->id);
}

static void on_promote(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str)
{
    alter(owner, call, CHANGE_PROMOTE, ((const Etcdserverpb__MemberPromoteRequest *)message)->id);
}

static void on_alter_done(void *, struct rpc_call *call)
{
    struct alteration *alteration = rpc_call_data(call);

    if (alteration) alteration->call = NULL;
}

/* -- MemberAdd, MemberUpdate -- */

enum { PEER_URLS_MAX = 16 };

/* "http://h:2380", or https: then the rest of it. As strict as etcd, which wants a host and a port
 * and nothing behind them. */
static bool cut_url(const char *text, struct str *ret_address)
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

enum peers { PEERS_FREE, PEERS_INVALID, PEERS_TAKEN, PEERS_ITS_OWN };

/* Whose the addresses are, for the member `id` (0: one that is none yet). */
static enum peers judge_peers(char *const *urls, size_t count, uint64_t id,
                              const struct etcd_member *members, size_t member_count)
{
    enum peers verdict = PEERS_ITS_OWN;
    struct str address;

    if (count == 0 || count > PEER_URLS_MAX) return PEERS_INVALID;
    for (size_t i = 0; i < count; i++)
        if (!cut_url(urls[i], &address)) return PEERS_INVALID;
    for (size_t i = 0; i < count; i++) {
        bool own = false;

        (void)cut_url(urls[i], &address);
        for (size_t j = 0; j < member_count; j++) {
            if (!str_equal(str_from(members[j].peer), address)) continue;
            if (members[j].id != id) return PEERS_TAKEN;
            own = true;
        }
        if (!own) verdict = PEERS_FREE;
    }
    return verdict;
}

/* Says where the others are: whoever reads it can go on from there. */
static void say_join_instead(struct rpc_call *call, const struct etcd_member *members, size_t count,
                             const char *what)
{
    char text[1024];
    int len = snprintf(text, sizeof text, "etcdserver: not supported by muster: %s", what);

    for (size_t i = 0; i < count && len > 0 && len < (int)sizeof text; i++)
        len +=
            snprintf(text + len, sizeof text - (size_t)len, "%s%s", i ? "," : " ", members[i].join);
    rpc_finish(call, GRPC_UNIMPLEMENTED, str_of(text, min_size((size_t)len, sizeof text - 1)),
               STR_EMPTY);
}

static void on_add(void *owner, struct rpc_call *call, const ProtobufCMessage *message, struct str)
{
    const Etcdserverpb__MemberAddRequest *request = (const Etcdserverpb__MemberAddRequest *)message;
    struct etcd_member members[REPLICA_MEMBERS_MAX];
    size_t count = etcd_members(owner, members);
    enum peers peers = judge_peers(request->peerurls, request->n_peerurls, 0, members, count);

    if (!etcd_is_admin(call))
        etcd_finish(call, ETCD_DENIED);
    else if (peers == PEERS_INVALID)
        etcd_finish(call, ETCD_BAD_URLS);
    else if (peers == PEERS_TAKEN)
        etcd_finish(call, ETCD_PEER_EXISTS);
    else
        say_join_instead(call, members, count,
                         "a replica joins by itself, started with --join-addr");
}

static void on_update(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                      struct str)
{
    const Etcdserverpb__MemberUpdateRequest *request =
        (const Etcdserverpb__MemberUpdateRequest *)message;
    struct etcd_api *api = owner;
    struct etcd_member members[REPLICA_MEMBERS_MAX];
    size_t count = etcd_members(api, members);
    enum peers peers =
        judge_peers(request->peerurls, request->n_peerurls, request->id, members, count);
    bool known = false;

    for (size_t i = 0; i < count; i++) known |= members[i].id == request->id;
    if (!etcd_is_admin(call)) {
        etcd_finish(call, ETCD_DENIED);
    } else if (peers == PEERS_INVALID) {
        etcd_finish(call, ETCD_BAD_URLS);
    } else if (!known) {
        etcd_finish(call, ETCD_MEMBER_NOT_FOUND);
    } else if (peers == PEERS_TAKEN) {
        etcd_finish(call, ETCD_PEER_EXISTS);
    } else if (peers == PEERS_ITS_OWN) { /* as it is: nothing is left to do */
        reply_members(api, call);
    } else {
        say_join_instead(call, members, count,
                         "a replica says by itself where it is, started with --raft-advertise and "
                         "--join-addr");
    }
}

static const struct rpc_handler remove_handler = {.on_message = on_remove,
                                                  .on_done = on_alter_done};
static const struct rpc_handler promote_handler = {.on_message = on_promote,
                                                   .on_done = on_alter_done};
static const struct rpc_handler add_handler = {.on_message = on_add};
static const struct rpc_handler update_handler = {.on_message = on_update};

#define CLUSTER(name, word, handler_)                                                              \
    {                                                                                              \
        .rpc = {.path = "/etcdserverpb.Cluster/" name,                                             \
                .kind = RPC_UNARY,                                                                 \
                .input = &etcdserverpb__##word##_request__descriptor,                              \
                .output = &etcdserverpb__##word##_response__descriptor,                            \
                .handler = &(handler_)},                                                           \
        .leader_only = true                                                                        \
    }
static const struct etcd_raw raws[] = {
    CLUSTER("MemberRemove", member_remove, remove_handler),
    CLUSTER("MemberPromote", member_promote, promote_handler),
    CLUSTER("MemberAdd", member_add, add_handler),
    CLUSTER("MemberUpdate", member_update, update_handler),
    {.rpc = {.path = NULL}},
};

const struct etcd_part etcd_cluster_part = {.methods = methods, .raws = raws};
