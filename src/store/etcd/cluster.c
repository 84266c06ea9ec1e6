/* etcdserverpb.Cluster: the replicas as etcd's members.
 *
 * A replica joins by itself, with an identity of its own (fleet/join.h), which etcd's MemberAdd has
 * no word for: that and MemberUpdate are left out. Removing and promoting are changes of the log's
 * configuration, for administrators only. */
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
    struct change change;
    bool busy;
};

static void alteration_free(struct alteration *alteration)
{
    if (!alteration->call && !alteration->busy) free(alteration);
}

static void altered(struct change *change, enum err err, const struct note *note)
{
    struct alteration *alteration = CONTAINER_OF(change, struct alteration, change);
    struct etcd_api *api = alteration->api;
    struct pack pack;

    alteration->busy = false;
    if (alteration->call && !err) {
        pack = pack_begin(&api->answer);
        etcd_header(api, &pack, 0);
        pack_members(api, &pack);
        rpc_reply_bytes(alteration->call, buf_peek(&api->answer));
    } else if (alteration->call && err == ERR_INVALID) {
        rpc_finish(alteration->call, GRPC_FAILED_PRECONDITION,
                   STR("etcdserver: can only promote a learner member"), STR_EMPTY);
    } else if (alteration->call) {
        LOG_INFO(&api->log, "members are as they were", log_text("why", note ? note->text : ""));
        etcd_finish(alteration->call, err == ERR_NOT_FOUND    ? ETCD_MEMBER_NOT_FOUND
                                      : err == ERR_NOT_LEADER ? ETCD_LEADER_CHANGED
                                      : err == ERR_UNKNOWN    ? ETCD_TIMEOUT
                                                              : ETCD_UNHEALTHY);
    }
    alteration_free(alteration);
}

static void alter(struct etcd_api *api, struct rpc_call *call, enum change_kind kind, uint64_t id)
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
    alteration->busy = true;
    alteration->change = (struct change){.kind = kind, .id = id, .address = "", .done = altered};
    rpc_call_set_data(call, alteration);
    LOG_INFO(&api->log, "members are to change",
             log_text("what", kind == CHANGE_REMOVE ? "remove" : "promote"), log_u64("id", id),
             log_str("actor", rpc_access_name(rpc_call_identity(call))));
    replica_change(api->options.replica, &alteration->change);
}

static void on_remove(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                      struct str bytes)
{
    (void)bytes;
    alter(owner, call, CHANGE_REMOVE, ((const Etcdserverpb__MemberRemoveRequest *)message)->id);
}

static void on_promote(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    (void)bytes;
    alter(owner, call, CHANGE_PROMOTE, ((const Etcdserverpb__MemberPromoteRequest *)message)->id);
}

static void on_alter_done(void *owner, struct rpc_call *call)
{
    struct alteration *alteration = rpc_call_data(call);

    (void)owner;
    if (!alteration) return;
    alteration->call = NULL;
    alteration_free(alteration);
}

/* -- what is left out -- */

static void on_left_out(void *owner, struct rpc_call *call, const ProtobufCMessage *message,
                        struct str bytes)
{
    (void)owner, (void)message, (void)bytes;
    rpc_finish(call, GRPC_UNIMPLEMENTED,
               STR("etcdserver: not here: a replica joins by itself, started with --join-addr, and "
                   "says by itself where it is"),
               STR_EMPTY);
}

static const struct rpc_handler remove_handler = {.on_message = on_remove,
                                                  .on_done = on_alter_done};
static const struct rpc_handler promote_handler = {.on_message = on_promote,
                                                   .on_done = on_alter_done};
static const struct rpc_handler left_out_handler = {.on_message = on_left_out};

#define CLUSTER(rpc, word, handler_)                                                               \
    {                                                                                              \
        .path = "/etcdserverpb.Cluster/" rpc, .kind = RPC_UNARY,                                   \
        .input = &etcdserverpb__##word##_request__descriptor,                                      \
        .output = &etcdserverpb__##word##_response__descriptor, .handler = &(handler_)             \
    }

static enum err add(struct etcd_api *api, struct rpc_server *server, struct note *note)
{
    static const struct rpc_method calls[] = {
        CLUSTER("MemberRemove", member_remove, remove_handler),
        CLUSTER("MemberPromote", member_promote, promote_handler),
        CLUSTER("MemberAdd", member_add, left_out_handler),
        CLUSTER("MemberUpdate", member_update, left_out_handler),
    };

    return etcd_add_all(api, server, calls, ARRAY_LEN(calls), etcd_stays, note);
}

const struct etcd_part etcd_cluster_part = {.methods = methods, .add = add};
