/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which replica serves a call, and runs unary methods. Loop's thread. */
#include "store/etcd/etcd.h"

#include <stdlib.h>

#include "store/etcd/feed.h"
#include "store/etcd/leader_call.h"
#include "store/etcd/listing.h"
#include "wire/field.h"

static const struct etcd_part *const parts[] = {
    &etcd_kv_part,          &etcd_lease_part,   &etcd_watch_part,       &etcd_cluster_part,
    &etcd_maintenance_part, &etcd_removal_part, &etcd_leader_call_part, &etcd_queue_wait_part,
    &etcd_election_part,    &etcd_observe_part};

#define EACH_PART(hook, ...)                                                                       \
    for (size_t part_ = 0; part_ < ARRAY_LEN(parts); part_++)                                      \
        if (parts[part_]->hook) parts[part_]->hook(__VA_ARGS__)

/* -- answers -- */

void etcd_header(const struct etcd_api *api, struct pack *pack, uint64_t revision)
{
    struct replica_status status = replica_status(api->options.replica);
    char room[4 * (1 + PACK_VARINT_MAX)];
    struct buf small = {.data = room, .cap = sizeof room, .max = sizeof room};
    struct pack header = {&small, ERR_OK};

    pack_u64(&header, 1, status.cluster_id);
    pack_u64(&header, 2, status.id);
    pack_u64(&header, 3, revision);
    pack_u64(&header, 4, status.term);
    pack_row(pack, 1, &header);
}

struct pack etcd_answer(struct etcd_api *api)
{
    struct pack pack = pack_begin(&api->answer);

    etcd_header(api, &pack, keys_revision(api_keys(api)));
    return pack;
}

void etcd_reply(struct etcd_request *request, const struct pack *pack)
{
    enum { KEPT_MAX = 1 << 20 };
    struct etcd_api *api = api_of(request);

    /* A read without a response is refused. A write was applied already, so its outcome is
     * unknown. */
    if (pack->err && request->base.step == REQUEST_WRITES)
        request_refuse_as(&request->base, LEADER_UNKNOWN);
    else if (pack->err)
        etcd_refuse(request, ETCD_TOO_MANY_REQUESTS);
    else
        request_reply(&request->base, buf_peek(&api->answer));
    if (api->answer.cap > KEPT_MAX) {
        buf_deinit(&api->answer);
        buf_init(&api->answer, ETCD_ANSWER_MAX);
    }
}

void etcd_reply_header(struct etcd_request *request)
{
    struct pack pack = etcd_answer(api_of(request));

    etcd_reply(request, &pack);
}

/* etcd calls its own Lock and Election through a client, so their errors get the code UNKNOWN. Only
 * the codes for "try again", "too many" and "denied" are kept. */
enum grpc_status etcd_inner_status(enum grpc_status status)
{
    switch (status) {
    case GRPC_INVALID_ARGUMENT:
    case GRPC_NOT_FOUND:
    case GRPC_FAILED_PRECONDITION:
    case GRPC_OUT_OF_RANGE: return GRPC_UNKNOWN;
    default: return status;
    }
}

static const struct etcd_method *etcd_method_of(const struct leader_request *request)
{
    return CONTAINER_OF(request->method, struct etcd_method, base);
}

void etcd_refuse(struct etcd_request *request, enum etcd_error error)
{
    enum grpc_status status = etcd_errors[error].status;

    if (etcd_method_of(&request->base)->inner) status = etcd_inner_status(status);
    request_refuse(&request->base, status, "%s", etcd_errors[error].text);
}

void etcd_finish(struct rpc_call *call, enum etcd_error error)
{
    rpc_finish(call, etcd_errors[error].status, str_from(etcd_errors[error].text), STR_EMPTY);
}

/* -- permissions -- */

bool etcd_may(const struct etcd_api *api, const struct rpc_call *call, struct key_range range,
              enum etcd_act act)
{
    return etcd_allows(api->options.rules, api->options.rule_count, rpc_call_identity(call), range,
                       act);
}

bool etcd_may_any(const struct etcd_api *api, const struct rpc_call *call)
{
    return etcd_allows_any(api->options.rules, api->options.rule_count, rpc_call_identity(call));
}

bool etcd_may_manage(const struct etcd_request *request)
{
    static const struct key_range everything = {{"\0", 1}, {"\0", 1}};

    return etcd_may(api_of(request), request->base.call, everything, ETCD_WRITE);
}

bool etcd_may_look(const struct etcd_request *request)
{
    return etcd_may_any(api_of(request), request->base.call);
}

bool etcd_may_administer(const struct etcd_request *request)
{
    struct note note;

    return !rpc_access_check((struct rpc_access){ACCESS_ADMIN},
                             rpc_call_identity(request->base.call), &note);
}

/* -- forwarding -- */

bool etcd_leader_known(const struct etcd_api *api)
{
    return replica_status(api->options.replica).leader_id != 0;
}

bool etcd_wants_leader(const struct rpc_call *call)
{
    struct str asked;

    return rpc_call_metadata(call, STR("hasleader"), &asked) && str_equal(asked, STR("true"));
}

bool etcd_lacks_leader(const struct etcd_api *api, const struct rpc_call *call)
{
    return etcd_wants_leader(call) && !etcd_leader_known(api);
}

enum etcd_error etcd_keep_refusal(const struct etcd_api *api, const struct rpc_call *call,
                                  bool full)
{
    if (full) return ETCD_TOO_MANY_REQUESTS;
    if (api->removal.removed) return ETCD_REMOVED;
    return etcd_lacks_leader(api, call) ? ETCD_NO_LEADER : ETCD_OK;
}

static void way_to_leader(struct etcd_api *api)
{
    (void)rpc_forwarder_set_leader(api->leader.forwarder,
                                   api->options.leader_address(api->options.owner));
}

struct rpc_channel *etcd_leader_channel(struct etcd_api *api)
{
    if (!api->leader.forwarder) return NULL;
    way_to_leader(api);
    return rpc_forwarder_channel(api->leader.forwarder);
}

static bool api_stays(void *service, struct rpc_call *)
{
    struct etcd_api *api = service;

    if (leader_here(&api->leader)) return true;
    way_to_leader(api);
    return false;
}

static bool binding_stays(void *service, struct rpc_call *call)
{
    const struct leader_binding *binding = service;

    return api_stays(CONTAINER_OF(binding->leader, struct etcd_api, leader), call);
}

/* True if this replica lacks a revision that the leader has already returned to a client. */
static bool lacks_forwarded(const struct etcd_api *api)
{
    return watch_engine_visible(api->service->watches) > keys_revision(api_keys(api));
}

/* Read-your-writes: a client that wrote through this follower must see its write here. Until this
 * replica has applied the write, serializable reads go to the leader, if there is one. */
static bool binding_keeps(void *service, const ProtobufCMessage *message)
{
    const struct leader_binding *binding = service;
    const struct etcd_method *method = CONTAINER_OF(binding->method, struct etcd_method, base);
    const struct etcd_api *api = CONTAINER_OF(binding->leader, struct etcd_api, leader);

    if (!method->serializable || !method->serializable(message)) return false;
    if (!method->newest) return true;
    if (lacks_forwarded(api) && rpc_forwarder_leader(api->leader.forwarder)[0]) return false;
    return method->newest(message) <= (int64_t)keys_revision(api_keys(api));
}

/* Field 1 is the header; its field 3 is the revision. */
uint64_t etcd_answer_revision(struct str answer)
{
    struct fields fields = fields_of(answer);
    struct field field;

    if (!fields_next(&fields, &field) || field.number != 1 || field.wire != WIRE_LEN) return 0;
    fields = fields_of(field.bytes);
    while (fields_next(&fields, &field))
        if (field.number == 3 && field.wire == WIRE_VARINT) return field.value;
    return 0;
}

void etcd_passed(struct etcd_api *api, struct str answer)
{
    uint64_t *forwarded = &api->service->watches->forwarded;

    *forwarded = max_u64(*forwarded, etcd_answer_revision(answer));
}

static void binding_passed(void *service, struct str answer)
{
    const struct leader_binding *binding = service;

    etcd_passed(CONTAINER_OF(binding->leader, struct etcd_api, leader), answer);
}

static void etcd_on_lost(struct rpc_call *call, enum rpc_forward_loss loss)
{
    etcd_finish(call, loss == RPC_LOST_NO_LEADER     ? ETCD_NO_LEADER
                      : loss == RPC_LOST_TOO_MANY    ? ETCD_TOO_MANY_REQUESTS
                      : loss == RPC_LOST_NOT_APPLIED ? ETCD_LEADER_CHANGED
                                                     : ETCD_TIMEOUT_CONNECTION);
}

/* -- requests -- */

static const struct leader_text words[LEADER_REFUSALS] = {
    [LEADER_NOT_LEADER] = {GRPC_UNAVAILABLE, "etcdserver: leader changed"},
    [LEADER_TOO_MANY] = {GRPC_RESOURCE_EXHAUSTED, "etcdserver: too many requests"},
    [LEADER_NOT_READY] = {GRPC_UNAVAILABLE, "etcdserver: request timed out"},
    [LEADER_NO_MAJORITY] = {GRPC_UNAVAILABLE, "etcdserver: request timed out"},
    [LEADER_UNKNOWN] = {GRPC_UNAVAILABLE, "etcdserver: request timed out"},
    [LEADER_LOG_FULL] = {GRPC_RESOURCE_EXHAUSTED, "etcdserver: too many requests"},
    [LEADER_DISK_FULL] = {GRPC_RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"},
    [LEADER_OLD_LEVEL] = {GRPC_UNAVAILABLE, "etcdserver: unhealthy cluster"},
    [LEADER_FAILED] = {GRPC_UNAVAILABLE, "etcdserver: unhealthy cluster"},
};

static void etcd_read_now(struct leader_request *request)
{
    struct etcd_request *mine = etcd_request_of(request);

    if (store_machine_restoring(api_of(mine)->service->machine))
        etcd_refuse(mine, ETCD_TIMEOUT_APPLIED);
    else
        etcd_method_of(request)->read(mine);
}

/* True if this leader may not have applied every revision that earlier leaders returned to clients.
 * A forwarded serializable read is then handled as linearizable. */
static bool may_lack_forwarded(const struct leader_request *request)
{
    const struct etcd_api *api = CONTAINER_OF(request->leader, struct etcd_api, leader);
    struct str hops;

    return leader_here(request->leader) && etcd_method_of(request)->newest &&
           (lacks_forwarded(api) || rpc_call_metadata(request->call, STR(RPC_HOPS_HEADER), &hops));
}

static bool etcd_admit(struct leader_request *request)
{
    struct etcd_request *mine = etcd_request_of(request);
    const struct etcd_method *method = etcd_method_of(request);
    enum etcd_error error = method->check ? method->check(mine) : ETCD_OK;

    if (error)
        etcd_refuse(mine, error);
    else if (request->call && method->allows && !method->allows(mine))
        etcd_refuse(mine, ETCD_DENIED);
    else if (request->call && etcd_lacks_leader(api_of(mine), request->call))
        etcd_refuse(mine, ETCD_NO_LEADER);
    else if (api_of(mine)->removal.removed)
        etcd_refuse(mine, ETCD_REMOVED);
    else if (method->serializable && method->serializable(request->message) &&
             !may_lack_forwarded(request))
        etcd_read_now(request);
    else if (!leader_here(request->leader))
        request_redirect(request);
    else
        return true;
    return false;
}

static void etcd_propose(struct etcd_request *request)
{
    struct etcd_api *api = api_of(request);
    struct proposal proposal;
    enum err err;

    buf_clear(&api->command);
    err = etcd_method_of(&request->base)->command(request, &api->command, &request->kind);
    if (err) {
        etcd_refuse(request, err == ERR_NOMEM ? ETCD_TOO_MANY_REQUESTS : ETCD_TOO_LARGE);
        return;
    }
    proposal = store_proposal(api->service, request->kind, NULL);
    proposal.command = buf_peek(&api->command);
    proposal.actor = request->base.caller ? request->base.caller->actor
                                          : rpc_access_name(rpc_call_identity(request->base.call));
    proposal.actor.len = min_size(proposal.actor.len, REPLICA_ACTOR_MAX);
    request_propose(&request->base, &proposal);
}

static void etcd_begin(struct leader_request *request)
{
    const struct etcd_method *method = etcd_method_of(request);

    if (method->act)
        method->act(etcd_request_of(request));
    else if (!method->command || (method->reads && method->reads(etcd_request_of(request))))
        request_read(request);
    else
        etcd_propose(etcd_request_of(request));
}

static void etcd_written(struct leader_request *request, enum err err, struct str reply)
{
    if (!request_is_awaited(request))
        request_free(request);
    else if (err)
        request_log_failed(request, err);
    else
        etcd_method_of(request)->written(etcd_request_of(request), reply);
}

void etcd_act(struct etcd_request *request)
{
    request->acts = true;
    request_keep(&request->base, &api_of(request)->acting);
}

static void etcd_gone(struct leader_request *request)
{
    if (!etcd_request_of(request)->acts) request_free(request);
}

/* Kept requests are refused, because the replica stops before they could be answered. */
static void etcd_drain(struct leader_request *request)
{
    if (etcd_request_of(request)->acts) return;
    request_fail(request, etcd_errors[ETCD_STOPPED].status, "%s", etcd_errors[ETCD_STOPPED].text);
}

static void etcd_writable(struct leader_request *request)
{
    listing_writable(etcd_request_of(request));
}

static void etcd_freed(struct leader_request *request)
{
    listing_freed(etcd_request_of(request));
}

static const struct leader_rules rules = {
    .request_size = sizeof(struct etcd_request),
    .words = words,
    .full = GRPC_RESOURCE_EXHAUSTED,
    .doubt = GRPC_UNAVAILABLE,
    .admit = etcd_admit,
    .begin = etcd_begin,
    .read = etcd_read_now,
    .written = etcd_written,
    .gone = etcd_gone,
    .drain = etcd_drain,
    .writable = etcd_writable,
    .freed = etcd_freed,
};

/* -- methods -- */

const struct leader_method *etcd_method_at(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        for (const struct etcd_method *m = parts[i]->methods; m && m->base.path; m++)
            if (strcmp(m->base.path, path) == 0) return &m->base;
    assert(false);
    return NULL;
}

static enum err add_raw(struct etcd_api *api, struct rpc_server *server, const struct etcd_raw *raw,
                        struct note *note)
{
    static const struct rpc_forward_gate gate = {.stays = api_stays, .lost = etcd_on_lost};
    struct rpc_method method = raw->rpc;

    method.service = api;
    return raw->leader_only ? leader_add_gated(&api->leader, server, &method, &gate, note)
                            : rpc_server_add(server, &method, note);
}

enum err etcd_methods(struct etcd_api *api, struct rpc_server *server, struct note *note)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(parts); i++) {
        for (const struct etcd_method *m = parts[i]->methods; !err && m && m->base.path; m++)
            err = leader_add(&api->leader, server, &m->base, note);
        for (const struct etcd_raw *r = parts[i]->raws; !err && r && r->rpc.path; r++)
            err = add_raw(api, server, r, note);
    }
    return err;
}

struct rpc_server_limits etcd_server_limits(void)
{
    return (struct rpc_server_limits){
        .ping_min_interval_ms = 5000,
    };
}

/* -- life -- */

static void etcd_on_applied(void *owner)
{
    EACH_PART(applied, owner);
}

static void etcd_on_restored(void *owner)
{
    EACH_PART(restored, owner);
}

/* counts watches of both APIs, and observers of elections */
static void etcd_on_second(void *owner)
{
    const struct etcd_api *api = owner;

    api->service->numbers.watchers += feed_count(api->watches.feed) + api->observers.count;
    api->service->numbers.lock_waiters = api->queue_waits.count;
}

void etcd_on_change(struct etcd_api *api, const struct replica_status *status)
{
    struct leader *leader = &api->leader;

    (void)leader_term_ended(leader, status);
    (void)leader_term_began(leader, status);
    (void)leader_ready(leader, status);
    EACH_PART(changed, api, status);
    leader_resume(leader);
}

enum err etcd_open(const struct etcd_options *options, struct etcd_api **ret_api)
{
    struct etcd_api *api = calloc(1, sizeof *api);
    struct store_service_limits limits;
    struct replica_status status;
    enum err err;

    if (!api) return ERR_NOMEM;
    api->options = *options;
    api->service = options->store;
    limits = api->service->limits;
    if (options->log)
        api->log = *options->log;
    else
        log_source_init(&api->log, NULL, "etcd", NULL);
    list_init(&api->pruning);
    list_init(&api->acting);
    buf_init(&api->answer, ETCD_ANSWER_MAX);
    buf_init(&api->command, REPLICA_COMMAND_MAX);
    err = leader_open(&api->leader, &(struct leader_options){
                                        .rules = &rules,
                                        .loop = options->io->loop,
                                        .address = options->leader_address,
                                        .owner = options->owner,
                                        .wait_ms = limits.wait_ms,
                                        .requests_max = limits.requests_max,
                                        .request_max = ETCD_MESSAGE_MAX,
                                        .response_max = ETCD_ANSWER_MAX,
                                        .arena_max = (size_t)64 << 20,
                                        .gate = {.timeout_ms = limits.wait_ms + ETCD_FORWARD_MS,
                                                 .stays = binding_stays,
                                                 .keeps = binding_keeps,
                                                 .passed = binding_passed,
                                                 .lost = etcd_on_lost}});
    if (!err)
        err = rpc_forwarder_open(
            &(struct rpc_forwarder_options){.io = options->io, .tls = options->tls},
            &api->leader.forwarder);
    for (size_t i = 0; !err && i < ARRAY_LEN(parts); i++)
        if (parts[i]->open) err = parts[i]->open(api);
    if (err) {
        etcd_stop(api, NULL, NULL);
        etcd_close(api);
        return err;
    }
    api->leader.replica = options->replica;
    store_service_follow(api->service, &(struct store_follower){etcd_on_applied, etcd_on_restored,
                                                                etcd_on_second, api});
    status = replica_status(options->replica);
    etcd_on_change(api, &status);
    *ret_api = api;
    return ERR_OK;
}

void etcd_removal_stopped(struct etcd_api *api)
{
    struct rpc_forwarder *forwarder = api->leader.forwarder;

    leader_calls_stop(api);
    api->leader.forwarder = NULL;
    if (forwarder)
        rpc_forwarder_close(forwarder, api->stopped, api->stopped_owner);
    else if (api->stopped)
        api->stopped(api->stopped_owner);
}

void etcd_stop(struct etcd_api *api, void (*done)(void *owner), void *owner)
{
    api->stopped = done;
    api->stopped_owner = owner;
    etcd_removal_stop(api);
}

void etcd_close(struct etcd_api *api)
{
    if (!api) return;
    store_service_follow(api->service, &(struct store_follower){NULL, NULL, NULL, NULL});
    EACH_PART(close, api);
    leader_close(&api->leader);
    buf_deinit(&api->answer);
    buf_deinit(&api->command);
    free(api);
}
