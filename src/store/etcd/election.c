/* SPDX-License-Identifier: Apache-2.0 */
/* v3electionpb.Election: Campaign (store/etcd/waits.h), Proclaim, Leader and Resign. */
#include "store/etcd/turns.h"
#include "store/etcd/txn.h"
#include "store/etcd/waits.h"
#include "store/keyvalue.h"
#include "wire/pb/etcd_election.pb-c.h"

/* -- Campaign -- */

static void pack_campaign(const struct etcd_api *api, struct pack *pack,
                          const struct wait_turn *turn)
{
    size_t size = keyvalue_text(turn->name) + keyvalue_text(turn->key) +
                  keyvalue_number(turn->create) + keyvalue_number((uint64_t)turn->lease);

    etcd_header(api, pack, turn->entered);
    pack_varint(pack, 2 << 3 | 2);
    pack_varint(pack, size);
    pack_text(pack, 1, turn->name);
    pack_text(pack, 2, turn->key);
    pack_u64(pack, 3, turn->create);
    pack_i64(pack, 4, turn->lease);
}

static const struct wait_kind campaign_kind = {
    .says = true, .lost = ETCD_ELECTION_NOT_LEADER, .pack = pack_campaign};

static void on_campaign(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                        struct str)
{
    const V3electionpb__CampaignRequest *m = (const V3electionpb__CampaignRequest *)message;

    waits_begin(service, call, &campaign_kind,
                &(struct wait_ask){
                    .name = bytes_str(m->name), .value = bytes_str(m->value), .lease = m->lease});
}

static const struct rpc_handler campaign_handler = {
    .on_message = on_campaign, .on_drain = waits_drain, .on_done = waits_gone};

static enum err add(struct etcd_api *api, struct rpc_server *server, struct note *note)
{
    return etcd_add(api, server,
                    &(struct rpc_method){.path = "/v3electionpb.Election/Campaign",
                                         .kind = RPC_UNARY,
                                         .input = &v3electionpb__campaign_request__descriptor,
                                         .output = &v3electionpb__campaign_response__descriptor,
                                         .request_max = ETCD_MESSAGE_MAX,
                                         .handler = &campaign_handler,
                                         .service = api},
                    NULL, note);
}

/* -- Proclaim, Resign: each becomes the transaction that it stands for -- */

static enum etcd_error check_proclaim(struct etcd_request *request)
{
    const V3electionpb__ProclaimRequest *m =
        (const V3electionpb__ProclaimRequest *)request->base.message;
    struct turn_txn *txn = ARENA_NEW(rpc_call_arena(request->base.call), struct turn_txn);

    if (!m->leader) return ETCD_NO_LEADER_KEY;
    if (!txn) return ETCD_TOO_MANY_REQUESTS;
    turn_says(txn, bytes_str(m->leader->key), m->leader->rev, bytes_str(m->value),
              m->leader->lease);
    request->base.message = &txn->txn.base;
    return etcd_txn_check(request);
}

static enum etcd_error check_resign(struct etcd_request *request)
{
    const V3electionpb__ResignRequest *m =
        (const V3electionpb__ResignRequest *)request->base.message;
    struct turn_txn *txn = ARENA_NEW(rpc_call_arena(request->base.call), struct turn_txn);

    if (!m->leader) return ETCD_NO_LEADER_KEY;
    if (!txn) return ETCD_TOO_MANY_REQUESTS;
    turn_resign(txn, bytes_str(m->leader->key), m->leader->rev);
    request->base.message = &txn->txn.base;
    return etcd_txn_check(request);
}

static void proclaimed(struct etcd_request *request, struct str reply)
{
    struct etcd_api *api = api_of(request);
    struct pack answer = pack_begin(&api->answer);
    struct store_txn_reply told;
    ProtobufCMessage *response;
    struct note note;

    if (!etcd_txn_done(request, reply, &told)) return;
    if (message_read(&etcdserverpb__txn_response__descriptor, told.response, NULL,
                     rpc_call_arena(request->base.call), &response, &note)) {
        request_refuse_as(&request->base, LEADER_DOUBT);
    } else if (((const Etcdserverpb__TxnResponse *)response)->succeeded) {
        etcd_header(api, &answer, told.revision);
        etcd_reply(request, &answer);
    } else {
        etcd_refuse(request, ETCD_ELECTION_NOT_LEADER);
    }
}

/* -- Leader -- */

/* "name/" as a range, in the call's arena. False: no memory. */
static bool range_of(const struct etcd_request *request, struct key_range *ret_range)
{
    const V3electionpb__LeaderRequest *m =
        (const V3electionpb__LeaderRequest *)request->base.message;
    struct str name = bytes_str(m->name);
    char *room = arena_alloc(rpc_call_arena(request->base.call), 2 * (name.len + 1));

    if (!room) return false;
    if (name.len) memcpy(room, name.at, name.len);
    room[name.len] = '/';
    *ret_range = key_range_of_prefix(str_of(room, name.len + 1), room + name.len + 1);
    return true;
}

static bool allows_leader(const struct etcd_request *request)
{
    struct key_range range;

    return range_of(request, &range) &&
           etcd_may(api_of(request), request->base.call, range, ETCD_READ);
}

static void leader(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    struct key_range range;
    struct key_value first;
    struct pack answer;
    enum err err = ERR_NOMEM;

    if (range_of(request, &range)) err = turn_first(api_keys(api), range, &first);
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

#define ELECTION(rpc, request_word, response_word)                                                 \
    .base = {.path = "/v3electionpb.Election/" rpc,                                                \
             .name = rpc,                                                                          \
             .input = &v3electionpb__##request_word##_request__descriptor,                         \
             .output = &v3electionpb__##response_word##_response__descriptor},                     \
    .inner = true
static const struct etcd_method methods[] = {
    {ELECTION("Proclaim", proclaim, proclaim), .check = check_proclaim, .allows = etcd_txn_allows,
     .command = etcd_txn_command, .written = proclaimed},
    {ELECTION("Resign", resign, resign), .check = check_resign, .allows = etcd_txn_allows,
     .command = etcd_txn_command, .written = etcd_txn_header}, /* who does not lead resigns, too */
    {ELECTION("Leader", leader, leader), .allows = allows_leader, .read = leader},
    {.base = {.path = NULL}},
};

const struct etcd_part etcd_election_part = {.methods = methods, .add = add};
