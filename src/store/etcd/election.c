/* SPDX-License-Identifier: Apache-2.0 */
/* v3electionpb.Election but Observe: Campaign waits in a queue, Proclaim and Resign become
 * transactions, Leader reads the first entry. */
#include "store/etcd/queue.h"
#include "store/etcd/queue_wait.h"
#include "store/etcd/txn.h"
#include "store/keyvalue.h"
#include "wire/pb/etcd_election.pb-c.h"

/* -- Campaign -- */

static void campaign_pack(const struct etcd_api *api, struct pack *pack,
                          const struct queue_place *place)
{
    size_t size = keyvalue_text(place->name) + keyvalue_text(place->key) +
                  keyvalue_number(place->create) + keyvalue_number((uint64_t)place->lease);

    etcd_header(api, pack, place->entered);
    pack_varint(pack, 2 << 3 | 2);
    pack_varint(pack, size);
    pack_text(pack, 1, place->name);
    pack_text(pack, 2, place->key);
    pack_u64(pack, 3, place->create);
    pack_i64(pack, 4, place->lease);
}

static const struct queue_wait_kind campaign_kind = {
    .sets = true, .lost = ETCD_ELECTION_NOT_LEADER, .pack = campaign_pack};

static void on_campaign(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                        struct str)
{
    const V3electionpb__CampaignRequest *m = (const V3electionpb__CampaignRequest *)message;

    queue_wait_begin(service, call, &campaign_kind,
                     &(struct queue_request){.name = bytes_str(m->name),
                                             .value = bytes_str(m->value),
                                             .lease = m->lease});
}

static const struct rpc_handler campaign_handler = {
    .on_message = on_campaign, .on_drain = queue_wait_drain, .on_done = queue_wait_gone};

/* -- Proclaim, Resign -- */

static enum etcd_error proclaim_check(struct etcd_request *request)
{
    const V3electionpb__ProclaimRequest *m =
        (const V3electionpb__ProclaimRequest *)request->base.message;
    struct queue_txn *txn = ARENA_NEW(etcd_arena(request), struct queue_txn);

    if (!m->leader) return ETCD_NO_LEADER_KEY;
    if (!txn) return ETCD_TOO_MANY_REQUESTS;
    queue_set_value(txn, bytes_str(m->leader->key), m->leader->rev, bytes_str(m->value),
                    m->leader->lease);
    return etcd_txn_become(request, &txn->txn);
}

static enum etcd_error resign_check(struct etcd_request *request)
{
    const V3electionpb__ResignRequest *m =
        (const V3electionpb__ResignRequest *)request->base.message;
    struct queue_txn *txn = ARENA_NEW(etcd_arena(request), struct queue_txn);

    if (!m->leader) return ETCD_NO_LEADER_KEY;
    if (!txn) return ETCD_TOO_MANY_REQUESTS;
    queue_resign(txn, bytes_str(m->leader->key), m->leader->rev);
    return etcd_txn_become(request, &txn->txn);
}

static void proclaimed(struct etcd_request *request, struct str reply)
{
    struct etcd_api *api = api_of(request);
    struct pack answer = pack_begin(&api->answer);
    struct store_txn_reply txn;
    ProtobufCMessage *response;
    struct note note;

    if (!etcd_txn_done(request, reply, &txn)) return;
    if (message_read(&etcdserverpb__txn_response__descriptor, txn.response, NULL,
                     etcd_arena(request), &response, &note)) {
        request_refuse_as(&request->base, LEADER_UNKNOWN);
    } else if (((const Etcdserverpb__TxnResponse *)response)->succeeded) {
        etcd_header(api, &answer, txn.revision);
        etcd_reply(request, &answer);
    } else {
        etcd_refuse(request, ETCD_ELECTION_NOT_LEADER);
    }
}

/* -- Leader -- */

/* "name/" as a range, in the call's arena. False: no memory. */
static bool leader_range(const struct etcd_request *request, struct key_range *ret_range)
{
    const V3electionpb__LeaderRequest *m =
        (const V3electionpb__LeaderRequest *)request->base.message;
    struct str name = bytes_str(m->name);
    char *room = arena_alloc(etcd_arena(request), 2 * (name.len + 1));

    if (!room) return false;
    if (name.len) memcpy(room, name.at, name.len);
    room[name.len] = '/';
    *ret_range = key_range_of_prefix(str_of(room, name.len + 1), room + name.len + 1);
    return true;
}

static bool leader_allows(const struct etcd_request *request)
{
    struct key_range range;

    return leader_range(request, &range) &&
           etcd_may(api_of(request), request->base.call, range, ETCD_READ);
}

static void leader_read(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    struct key_range range;
    struct key_value first;
    struct pack answer;
    enum err err = ERR_NOMEM;

    if (leader_range(request, &range)) err = queue_first(api_keys(api), range, &first);
    if (err) {
        etcd_refuse(request, err == ERR_NOT_FOUND   ? ETCD_ELECTION_NO_LEADER
                             : err == ERR_TOO_LARGE ? ETCD_TOO_LARGE
                                                    : ETCD_TOO_MANY_REQUESTS);
    } else {
        answer = etcd_answer(api);
        keyvalue_pack(&answer, 2, &first);
        etcd_reply(request, &answer);
    }
}

static const struct etcd_method election_methods[] = {
    {ETCD_METHOD("Proclaim", v3electionpb, Election, proclaim, proclaim), .inner = true,
     .check = proclaim_check, .allows = etcd_txn_allows, .command = etcd_txn_command,
     .written = proclaimed},
    {ETCD_METHOD("Resign", v3electionpb, Election, resign, resign), .inner = true,
     .check = resign_check, .allows = etcd_txn_allows, .command = etcd_txn_command,
     .written = etcd_txn_header},
    {ETCD_METHOD("Leader", v3electionpb, Election, leader, leader), .inner = true,
     .allows = leader_allows, .read = leader_read},
    {.base = {.path = NULL}},
};

static const struct etcd_raw election_raws[] = {
    {ETCD_RAW("Campaign", v3electionpb, Election, campaign, campaign, RPC_UNARY, campaign_handler)},
    {.rpc = {.path = NULL}},
};

const struct etcd_part etcd_election_part = {.methods = election_methods, .raws = election_raws};
