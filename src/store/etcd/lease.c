/* SPDX-License-Identifier: Apache-2.0 */
/* etcdserverpb.Lease: plain leases of the store (store/core/store.h) by number.
 *
 * Leases use the replicated clock, so a change of leaders does not change their remaining time.
 * Keep-alives of all streams share log entries with the renewals of muster.v1 (service_renew.c).
 * The TTL begins when the entry is applied; the response is sent then. */
#include <muster/coord.h>
#include <stdlib.h>

#include "store/etcd/internal.h"
#include "store/keyvalue.h"

enum {
    PENDING_MAX = 4096, /* a stream with more pending renewals is not read */
    PENDING_LOW = 1024,
    KEYS_SLICE = 256,     /* keys of a lease read at a time */
    LISTED_MAX = 1 << 16, /* keys of a lease in one response */
    TTL_MIN_S = 2,
};

/* -- LeaseGrant -- */

static int64_t granted_ttl(const Etcdserverpb__LeaseGrantRequest *m)
{
    return m->ttl < TTL_MIN_S ? TTL_MIN_S : m->ttl;
}

enum etcd_error etcd_grant_command(const Etcdserverpb__LeaseGrantRequest *m, int64_t drawn,
                                   struct store_command *ret_command)
{
    *ret_command = (struct store_command){.kind = STORE_LEASE_GRANT,
                                          .prefer_slot = STORE_NO_SLOT,
                                          .lease = store_plain_lease(m->id ? m->id : drawn),
                                          .ttl_ms = granted_ttl(m) * 1000};
    return m->ttl > STORE_PLAIN_TTL_MAX_MS / 1000 ? ETCD_LEASE_TTL : ETCD_OK;
}

static enum etcd_error grant_check(struct etcd_request *request)
{
    struct store_command command;

    return etcd_grant_command(etcd_message(request), 1, &command);
}

static enum err grant_write(struct etcd_request *request, struct buf *into,
                            enum store_kind *ret_kind)
{
    struct store_command command;
    int64_t drawn = 0;

    while (drawn == 0) /* ends: zero is one of 2^63 possible numbers */
        drawn = (int64_t)(entropy_u64(api_of(request)->options.io->entropy) & INT64_MAX);
    (void)etcd_grant_command(etcd_message(request), drawn, &command);
    *ret_kind = command.kind;
    return store_command_write(&command, into);
}

static void grant_reply(struct etcd_request *request, struct str reply)
{
    struct store_reply answer;
    struct pack pack;

    if (store_reply_parse(reply, &answer)) {
        request_refuse_as(&request->base, LEADER_UNKNOWN);
    } else if (answer.code != COORD_OK) {
        etcd_refuse(request, answer.code == COORD_EXISTS ? ETCD_LEASE_EXISTS : ETCD_NO_SPACE);
    } else {
        pack = etcd_answer(api_of(request));
        pack_u64(&pack, 2, store_lease_number(&answer.lease));
        pack_i64(&pack, 3, granted_ttl(etcd_message(request)));
        etcd_reply(request, &pack);
    }
}

/* -- LeaseRevoke -- */

/* True if the client may read, or write, every key of the lease. Checks all keys in one turn. */
static bool lease_keys_allowed(const struct etcd_request *request, int64_t number,
                               enum etcd_act act)
{
    static const struct key_range everything = {{"\0", 1}, {"\0", 1}};
    const struct etcd_api *api = api_of(request);
    const struct rpc_call *call = request->base.call;
    struct store_lease_walk walk = {0};
    struct str names[KEYS_SLICE];
    bool may = etcd_may_look(request);
    size_t count;

    if (!may || etcd_may(api, call, everything, act)) return may;
    while (may && (count = store_lease_keys_next(api_store(api), number, &walk, names, KEYS_SLICE)))
        for (size_t i = 0; may && i < count; i++)
            may = etcd_may(api, call, (struct key_range){names[i], STR_EMPTY}, act);
    return may;
}

static bool revoke_allows(const struct etcd_request *request)
{
    return lease_keys_allowed(
        request, ((const Etcdserverpb__LeaseRevokeRequest *)etcd_message(request))->id, ETCD_WRITE);
}

enum etcd_error etcd_revoke_command(const Etcdserverpb__LeaseRevokeRequest *m,
                                    struct store_command *ret_command)
{
    *ret_command = (struct store_command){.kind = STORE_LEASE_REVOKE,
                                          .prefer_slot = STORE_NO_SLOT,
                                          .lease = store_plain_lease(m->id)};
    return m->id == 0 ? ETCD_LEASE_NOT_FOUND : ETCD_OK;
}

static enum etcd_error revoke_check(struct etcd_request *request)
{
    struct store_command command;

    return etcd_revoke_command(etcd_message(request), &command);
}

static enum err revoke_write(struct etcd_request *request, struct buf *into,
                             enum store_kind *ret_kind)
{
    struct store_command command;

    (void)etcd_revoke_command(etcd_message(request), &command);
    *ret_kind = command.kind;
    return store_command_write(&command, into);
}

static void revoke_reply(struct etcd_request *request, struct str reply)
{
    struct store_reply answer;

    if (store_reply_parse(reply, &answer))
        request_refuse_as(&request->base, LEADER_UNKNOWN);
    else if (answer.code != COORD_OK)
        etcd_refuse(request, ETCD_LEASE_NOT_FOUND);
    else
        etcd_reply_header(request);
}

/* -- LeaseTimeToLive, LeaseLeases -- */

/* The lease clock moves only with log entries: add the time since the last entry. */
static uint64_t clock_now(const struct etcd_api *api)
{
    uint64_t since_ms = mono_elapsed_ms(api->service->applied_at, loop_now(api->options.io->loop));

    return store_clock_ns(api_store(api)) + since_ms * NS_PER_MS;
}

static void lease_pack_keys(struct etcd_api *api, int64_t number, struct pack *pack)
{
    struct store_lease_walk walk = {0};
    struct str names[KEYS_SLICE];
    size_t count;

    while ((count = store_lease_keys_next(api_store(api), number, &walk, names, KEYS_SLICE)))
        for (size_t i = 0; i < count; i++) pack_bytes(pack, 5, names[i]);
}

static bool ttl_allows(const struct etcd_request *request)
{
    const Etcdserverpb__LeaseTimeToLiveRequest *m = etcd_message(request);

    return m->keys ? lease_keys_allowed(request, m->id, ETCD_READ) : etcd_may_look(request);
}

static void ttl_read(struct etcd_request *request)
{
    const Etcdserverpb__LeaseTimeToLiveRequest *m = etcd_message(request);
    struct etcd_api *api = api_of(request);
    struct pack pack = etcd_answer(api);
    struct store_lease lease;

    if (m->keys && store_lease_key_count(api_store(api), m->id) > LISTED_MAX) {
        etcd_refuse(request, ETCD_TOO_LARGE);
        return;
    }
    pack_i64(&pack, 2, m->id);
    if (!store_lease_of(api_store(api), m->id, clock_now(api), &lease) || !lease.remaining_ms) {
        pack_i64(&pack, 3, -1);
    } else {
        pack_i64(&pack, 3, lease.remaining_ms / 1000);
        pack_i64(&pack, 4, lease.ttl_ms / 1000);
        if (m->keys) lease_pack_keys(api, m->id, &pack);
    }
    etcd_reply(request, &pack);
}

/* Expired leases exist until their end is applied, but cannot be revoked: leave them out. */
static void leases_read(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    struct order_place place = store_leases(api_store(api));
    struct pack pack = etcd_answer(api);
    uint64_t clock_ns = clock_now(api);
    struct store_lease lease;

    while (!pack.err && store_lease_next(api_store(api), &place, clock_ns, &lease)) {
        if (!lease.remaining_ms) continue;
        pack_varint(&pack, 2 << 3 | 2);
        pack_varint(&pack, 1 + keyvalue_varint((uint64_t)lease.number));
        pack_i64(&pack, 1, lease.number);
    }
    etcd_reply(request, &pack);
}

/* -- LeaseKeepAlive -- */

struct keeper { /* a stream; freed when closed and without pending renewals */
    struct list link;
    struct etcd_api *api;
    struct rpc_call *call; /* NULL: the call is over */
    uint32_t pending;      /* renewals in the log */
    bool half_closed;
};
struct beat {
    struct renew_asker asker;
    struct keeper *keeper;
    int64_t id;
    /* Revision when the request arrived. A response that renews a lease must not name a revision at
     * which the lease had ended. */
    uint64_t revision;
};

static void keeper_free_if_done(struct keeper *keeper)
{
    if (!keeper->call && !keeper->pending) free(keeper);
}

static void keeper_end(struct keeper *keeper, enum etcd_error error)
{
    if (keeper->call) etcd_finish(keeper->call, error);
}

static enum err beat_send(const struct beat *beat, const struct store_renewal *renewal)
{
    const struct keeper *keeper = beat->keeper;
    struct pack pack = pack_begin(&keeper->api->answer);

    etcd_header(keeper->api, &pack, beat->revision);
    pack_i64(&pack, 2, beat->id);
    if (renewal->code == COORD_OK) pack_i64(&pack, 3, renewal->granted_ttl_ms / 1000);
    return pack.err ? pack.err : rpc_send_kept(keeper->call, buf_peek(pack.into));
}

/* reads further requests when there is room, or ends the stream */
static void keeper_continue(struct keeper *keeper)
{
    if (!keeper->call) return;
    if (keeper->pending >= PENDING_MAX || rpc_reply_waits(keeper->call))
        rpc_pause(keeper->call);
    else if (keeper->pending <= PENDING_LOW)
        rpc_resume(keeper->call);
    if (keeper->half_closed && !keeper->pending)
        rpc_finish(keeper->call, GRPC_OK, STR_EMPTY, STR_EMPTY);
}

static void on_beat(struct renew_asker *asker, enum err err, const struct store_renewal *renewal)
{
    struct beat *beat = CONTAINER_OF(asker, struct beat, asker);
    struct keeper *keeper = beat->keeper;

    keeper->pending--;
    if (keeper->call && !err) err = beat_send(beat, renewal);
    free(beat);
    if (err && err != ERR_CLOSED)
        keeper_end(keeper, err == ERR_UNKNOWN ? ETCD_TIMEOUT : ETCD_LEADER_CHANGED);
    keeper_continue(keeper);
    keeper_free_if_done(keeper);
}

static void keeper_on_start(void *service, struct rpc_call *call)
{
    struct etcd_api *api = service;
    struct keeper *keeper = NULL;

    if (!etcd_may_any(api, call))
        etcd_finish(call, ETCD_DENIED);
    else if (etcd_lacks_leader(api, call))
        etcd_finish(call, ETCD_NO_LEADER);
    else if (!leader_here(&api->leader))
        etcd_finish(call, ETCD_LEADER_CHANGED);
    else if (!(keeper = calloc(1, sizeof *keeper)))
        etcd_finish(call, ETCD_TOO_MANY_REQUESTS);
    rpc_call_set_data(call, keeper);
    if (!keeper) return;
    keeper->api = api;
    keeper->call = call;
    list_init(&keeper->link);
    list_append(&api->keepers, &keeper->link);
}

static void keeper_on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                              struct str)
{
    struct etcd_api *api = service;
    struct keeper *keeper = rpc_call_data(call);
    struct beat *beat;
    struct store_id id;

    if (!keeper) return;
    beat = calloc(1, sizeof *beat);
    if (!beat) {
        keeper_end(keeper, ETCD_TOO_MANY_REQUESTS);
        return;
    }
    beat->keeper = keeper;
    beat->id = ((const Etcdserverpb__LeaseKeepAliveRequest *)message)->id;
    beat->revision = keys_revision(api_keys(api));
    beat->asker.done = on_beat;
    id = store_plain_lease(beat->id);
    keeper->pending++;
    if (!renew_add(api->service, &id, 1, &beat->asker)) {
        keeper->pending--;
        free(beat);
        keeper_end(keeper, ETCD_TOO_MANY_REQUESTS);
    }
    keeper_continue(keeper);
}

static void keeper_on_half_closed(void *, struct rpc_call *call)
{
    struct keeper *keeper = rpc_call_data(call);

    if (!keeper) return;
    keeper->half_closed = true;
    keeper_continue(keeper);
}

static void keeper_on_writable(void *, struct rpc_call *call)
{
    struct keeper *keeper = rpc_call_data(call);

    if (keeper) keeper_continue(keeper);
}

static void keeper_on_drain(void *, struct rpc_call *call)
{
    if (rpc_call_data(call)) etcd_finish(call, ETCD_STOPPED);
}

static void keeper_on_done(void *, struct rpc_call *call)
{
    struct keeper *keeper = rpc_call_data(call);

    if (!keeper) return;
    list_remove(&keeper->link);
    keeper->call = NULL;
    keeper_free_if_done(keeper);
}

static const struct rpc_handler keep_alive_handler = {.on_start = keeper_on_start,
                                                      .on_message = keeper_on_message,
                                                      .on_half_closed = keeper_on_half_closed,
                                                      .on_writable = keeper_on_writable,
                                                      .on_drain = keeper_on_drain,
                                                      .on_done = keeper_on_done};

/* Ends the streams; clients continue at the new leader. */
static void keepers_changed(struct etcd_api *api, const struct replica_status *)
{
    if (leader_here(&api->leader)) return;
    LIST_EACH(&api->keepers, node)
    keeper_end(CONTAINER_OF(node, struct keeper, link), ETCD_LEADER_CHANGED);
}

static enum err keepers_open(struct etcd_api *api)
{
    list_init(&api->keepers);
    return ERR_OK;
}

static const struct etcd_raw lease_raws[] = {
    {ETCD_RAW("LeaseKeepAlive", etcdserverpb, Lease, lease_keep_alive, lease_keep_alive, RPC_BIDI,
              keep_alive_handler),
     .leader_only = true},
    {.rpc = {.path = NULL}},
};

static const struct etcd_method lease_methods[] = {
    {ETCD_METHOD("LeaseGrant", etcdserverpb, Lease, lease_grant, lease_grant), .check = grant_check,
     .allows = etcd_may_look, .command = grant_write, .written = grant_reply},
    {ETCD_METHOD("LeaseRevoke", etcdserverpb, Lease, lease_revoke, lease_revoke),
     .check = revoke_check, .allows = revoke_allows, .command = revoke_write,
     .written = revoke_reply},
    {ETCD_METHOD("LeaseTimeToLive", etcdserverpb, Lease, lease_time_to_live, lease_time_to_live),
     .allows = ttl_allows, .read = ttl_read},
    {ETCD_METHOD("LeaseLeases", etcdserverpb, Lease, lease_leases, lease_leases),
     .allows = etcd_may_look, .read = leases_read},
    {.base = {.path = NULL}},
};

const struct etcd_part etcd_lease_part = {
    .methods = lease_methods, .open = keepers_open, .raws = lease_raws, .changed = keepers_changed};
