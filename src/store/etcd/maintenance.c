/* SPDX-License-Identifier: Apache-2.0 */
/* etcdserverpb.Maintenance and the supported part of Auth: status, hashes, transfer of leadership.
 *
 * Defragment does nothing, because the store is in memory; a trailer of the response reports this.
 * An alarm ends when its cause ends. Snapshot is in fleet/service_snapshot.c, because a snapshot
 * contains more than the store. */
#include <stdio.h>

#include "store/etcd/listing.h"

/* -- Status -- */

static void status_read(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    struct replica_status replica = replica_status(api->options.replica);
    struct store_sizes sizes = store_sizes(api_store(api));
    struct pack pack = etcd_answer(api);

    pack_text(&pack, 2, str_from(etcd_version(api)));
    pack_u64(&pack, 3, max_u64(sizes.bytes, 1)); /* not zero: the encoding would omit zero */
    pack_u64(&pack, 4, replica.leader_id);
    pack_u64(&pack, 5, replica.commit);
    pack_u64(&pack, 6, replica.term);
    pack_u64(&pack, 7, replica.applied);
    if (!replica.leader_id) pack_text(&pack, 8, STR("etcdserver: no leader"));
    if (sizes.no_space) pack_text(&pack, 8, STR("alarm: NOSPACE"));
    pack_u64(&pack, 9, sizes.bytes);
    pack_u64(&pack, 10, !replica.voter);
    pack_text(&pack, 11, STR("3.6.0")); /* storage version that clients of 3.6 expect */
    pack_u64(&pack, 12, sizes.quota);
    etcd_reply(request, &pack);
}

/* -- Alarm -- */

static enum etcd_error alarm_check(struct etcd_request *request)
{
    const Etcdserverpb__AlarmRequest *m = etcd_message(request);

    return m->action == ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__ACTIVATE ? ETCD_LEFT_OUT
                                                                            : ETCD_OK;
}

/* All replicas have the same store, so the alarm names the leader. DEACTIVATE does not end an
 * alarm; only free space does. */
static void alarm_read(struct etcd_request *request)
{
    const Etcdserverpb__AlarmRequest *m = etcd_message(request);
    struct etcd_api *api = api_of(request);
    uint64_t leader = replica_status(api->options.replica).leader_id;
    bool about = (m->memberid == 0 || m->memberid == leader) &&
                 m->alarm != ETCDSERVERPB__ALARM_TYPE__CORRUPT &&
                 m->action == ETCDSERVERPB__ALARM_REQUEST__ALARM_ACTION__GET;
    struct pack pack = etcd_answer(api);

    if (about && store_sizes(api_store(api)).no_space) {
        char room[2 * (1 + PACK_VARINT_MAX)];
        struct buf small = {.data = room, .cap = sizeof room, .max = sizeof room};
        struct pack row = {&small, ERR_OK};

        pack_u64(&row, 1, leader);
        pack_u64(&row, 2, ETCDSERVERPB__ALARM_TYPE__NOSPACE);
        pack_row(&pack, 2, &row);
    }
    etcd_reply(request, &pack);
}

/* -- Hash, Defragment, Auth -- */

static void hash_read(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    struct pack pack = etcd_answer(api);

    pack_u64(&pack, 2, (uint32_t)keys_hash(api_keys(api)));
    etcd_reply(request, &pack);
}

static void hash_kv_read(struct etcd_request *request)
{
    int64_t wanted = ((const Etcdserverpb__HashKVRequest *)request->base.message)->revision;

    if (wanted > 0 && (uint64_t)wanted > keys_revision(api_keys(api_of(request))))
        etcd_refuse(request, ETCD_FUTURE);
    else
        listing_hash(request, wanted);
}

static void defragment(struct etcd_request *request)
{
    LOG_INFO(&api_of(request)->log, "a client asks to defragment: the store is in memory");
    (void)rpc_add_trailer(request->base.call, STR("x-muster-note"),
                          STR("nothing to defragment: the store is in memory"));
    etcd_reply_header(request);
}

static void auth_status(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    struct pack pack = etcd_answer(api);

    pack_u64(&pack, 3, 1); /* `enabled` is left out: false */
    etcd_reply(request, &pack);
}

static enum etcd_error check_authenticate(struct etcd_request *)
{
    return ETCD_AUTH_DISABLED;
}

/* -- MoveLeader: as with etcd, only the leader accepts the call; followers do not forward it -- */

static void leader_moved(struct transfer *transfer, enum err err, const struct note *)
{
    struct etcd_request *request = CONTAINER_OF(transfer, struct etcd_request, transfer);

    if (!err)
        etcd_reply_header(request);
    else
        etcd_refuse(request, err == ERR_NOT_LEADER  ? ETCD_NOT_LEADER
                             : err == ERR_NOT_FOUND ? ETCD_BAD_TRANSFEREE
                                                    : ETCD_TIMEOUT);
}

static bool is_voter(const struct etcd_api *api, uint64_t id)
{
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(api->options.replica, members);

    for (size_t i = 0; i < count; i++)
        if (members[i].id == id) return members[i].role == MEMBER_VOTER;
    return false;
}

static void move_leader(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    uint64_t target = ((const Etcdserverpb__MoveLeaderRequest *)request->base.message)->targetid;

    if (!leader_here(&api->leader)) {
        etcd_refuse(request, ETCD_NOT_LEADER);
    } else if (!is_voter(api, target)) {
        etcd_refuse(request, ETCD_BAD_TRANSFEREE);
    } else if (target == replica_status(api->options.replica).id) { /* the target leads already */
        etcd_reply_header(request);
    } else {
        LOG_INFO(&api->log, "an etcd client moves leadership to another replica",
                 log_u64("id", target),
                 log_str("actor", rpc_access_name(rpc_call_identity(request->base.call))));
        request->transfer = (struct transfer){.to = target, .done = leader_moved};
        etcd_act(request);
        replica_transfer(api->options.replica, &request->transfer);
    }
}

/* -- /health and /version by plain HTTP, with etcd's responses, for probes -- */

const char *etcd_version(const struct etcd_api *api)
{
    return api->options.version ? api->options.version : ETCD_VERSION;
}

bool etcd_page(void *owner, struct str path, struct rpc_page *page)
{
    const struct etcd_api *api = owner;
    struct str version = str_from(etcd_version(api)), rest = version, major, minor;
    bool healthy = etcd_leader_known(api) && !store_sizes(api_store(api)).no_space;
    int len;

    page->type = "application/json";
    if (str_equal(path, STR("/health"))) {
        page->status = healthy ? 200 : 503;
        len = snprintf(page->body, sizeof page->body, "{\"health\":\"%s\",\"reason\":\"%s\"}",
                       healthy ? "true" : "false",
                       healthy                  ? ""
                       : etcd_leader_known(api) ? "ALARM NOSPACE"
                                                : "RAFT NO LEADER");
    } else if (str_equal(path, STR("/version")) && str_split(&rest, '.', &major) &&
               str_split(&rest, '.', &minor)) {
        len = snprintf(page->body, sizeof page->body,
                       "{\"etcdserver\":\"%.*s\",\"etcdcluster\":\"%.*s.%.*s.0\"}",
                       STR_ARG(version), STR_ARG(major), STR_ARG(minor));
    } else {
        return false;
    }
    page->len = (size_t)len;
    return true;
}

static const struct etcd_method maintenance_methods[] = {
    {ETCD_METHOD("Status", etcdserverpb, Maintenance, status, status), .allows = etcd_may_look,
     .serializable = store_always, .read = status_read},
    {ETCD_METHOD("Alarm", etcdserverpb, Maintenance, alarm, alarm), .check = alarm_check,
     .allows = etcd_may_look, .read = alarm_read},
    {ETCD_METHOD("Hash", etcdserverpb, Maintenance, hash, hash), .allows = etcd_may_look,
     .serializable = store_always, .read = hash_read},
    {LEADER_METHOD("etcdserverpb.Maintenance", "HashKV", etcdserverpb__hash_kvrequest,
                   etcdserverpb__hash_kvresponse),
     .allows = etcd_may_look, .serializable = store_always, .read = hash_kv_read},
    {ETCD_METHOD("Defragment", etcdserverpb, Maintenance, defragment, defragment),
     .allows = etcd_may_look, .serializable = store_always, .read = defragment},
    {ETCD_METHOD("AuthStatus", etcdserverpb, Auth, auth_status, auth_status),
     .serializable = store_always, .read = auth_status},
    {ETCD_METHOD("Authenticate", etcdserverpb, Auth, authenticate, authenticate),
     .check = check_authenticate, .serializable = store_always, .read = auth_status},
    {ETCD_METHOD("MoveLeader", etcdserverpb, Maintenance, move_leader, move_leader),
     .allows = etcd_may_administer, .serializable = store_always, .read = move_leader},
    {.base = {.path = NULL}},
};

const struct etcd_part etcd_maintenance_part = {.methods = maintenance_methods};
