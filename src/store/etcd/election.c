/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of v3lockpb.Lock and v3electionpb.Election that do not wait. Unlock, Proclaim and
 * Resign become transactions; Leader reads the first entry of the queue. */
#include "store/etcd/queue.h"
#include "store/etcd/txn.h"
#include "store/keyvalue.h"
#include "wire/pb/etcd_election.pb-c.h"
#include "wire/pb/etcd_lock.pb-c.h"

/* -- Unlock, Proclaim, Resign -- */

static enum etcd_error unlock_check(struct etcd_request *request)
{
    const V3lockpb__UnlockRequest *m = etcd_message(request);
    struct queue_txn *txn = ARENA_NEW(etcd_arena(request), struct queue_txn);

    if (!txn) return ETCD_TOO_MANY_REQUESTS;
    queue_delete(txn, bytes_str(m->key));
    return etcd_txn_become(request, &txn->txn);
}

static enum etcd_error proclaim_check(struct etcd_request *request)
{
    const V3electionpb__ProclaimRequest *m = etcd_message(request);
    struct queue_txn *txn = ARENA_NEW(etcd_arena(request), struct queue_txn);

    if (!m->leader) return ETCD_NO_LEADER_KEY;
    if (!txn) return ETCD_TOO_MANY_REQUESTS;
    queue_set_value(txn, bytes_str(m->leader->key), m->leader->rev, bytes_str(m->value),
                    m->leader->lease);
    return etcd_txn_become(request, &txn->txn);
}

static enum etcd_error resign_check(struct etcd_request *request)
{
    const V3electionpb__ResignRequest *m = etcd_message(request);
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

/* false: no memory */
static bool leader_range(const struct etcd_request *request, struct key_range *ret_range)
{
    const V3electionpb__LeaderRequest *m = etcd_message(request);
    char *room = arena_alloc(etcd_arena(request), 2 * (m->name.len + 1));

    if (room) *ret_range = queue_range(bytes_str(m->name), room);
    return room != NULL;
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
    {ETCD_METHOD("Unlock", v3lockpb, Lock, unlock, unlock), .inner = true, .check = unlock_check,
     .allows = etcd_txn_allows, .command = etcd_txn_command, .written = etcd_txn_header},
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

const struct etcd_part etcd_election_part = {.methods = election_methods};
