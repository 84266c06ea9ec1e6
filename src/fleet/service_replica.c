/* SPDX-License-Identifier: Apache-2.0 */
/* The methods about replicas: JoinReplica, ListReplicas, RemoveReplica, TransferLeadership,
 * StateHash, PromiseBootstrap and BootstrapReplica of muster.v1.Fleet, and bigfleet's
 * JoinRaftCluster.
 *
 * JoinRaftCluster names a node without the identity of a replica of muster. The request header
 * x-muster-replica has the identity (16 hexadecimal digits); without the header the roster's
 * identity counts. Every replica answers StateHash, PromiseBootstrap and BootstrapReplica about
 * itself, in `admit`. The other methods continue in `begin`, on a leader. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "fleet/bootstrap_rules.h"
#include "fleet/service_internal.h"
#include "log/datadir.h"

#define REPLICA_ID_HEADER "x-muster-replica"
enum {
    ADMIT_WITHIN_MS = ADMIT_SILENT_MS + 1000, /* then the response says what is missing */
    ANSWER_MARGIN_MS = 500,                   /* "not yet" is sent this long before the deadline */
    SERVICE_REPLICA_AGAIN_MS = 50, /* retry interval of a step that is not yet possible */
    HEX_LEN = 16,
};

/* -- keeping, answering and freeing a request -- */

/* The request had no effect, so clients may retry after any status. */
static void replica_refuse(struct leader_request *request, enum err err, const struct note *note)
{
    const char *why = note && note->text[0] ? note->text : err_text(err);

    if (err == ERR_NOT_LEADER)
        request_redirect(request);
    else if (err == ERR_UNKNOWN)
        request_fail(request, err_grpc_status(err), "%s", why);
    else
        request_refuse(request, err_grpc_status(err), "%s", why);
}

static void replica_reply(struct leader_request *request, const ProtobufCMessage *message)
{
    if (request->call) rpc_reply(request->call, message);
    request_free(request);
}

static bool replica_call_is_late(const struct leader_request *request)
{
    mono_time now = loop_now(request->leader->options.loop);

    return !request->call || mono_due(mono_after(request->since, LEADER_WAIT_MS), now) ||
           mono_due(rpc_call_deadline(request->call), now);
}

/* Keeps the request, with a timer for retries. False: the request was answered. */
static bool replica_keep(struct leader_request *request, timer_fn *again)
{
    enum err err =
        timer_init(&fleet_request_of(request)->again, request->leader->options.loop, again);

    if (err)
        replica_refuse(request, err, NULL);
    else
        request_keep(request, &service_of(request)->kept);
    return !err;
}

void service_request_gone(struct leader_request *request)
{
    struct fleet_request *r = fleet_request_of(request);

    timer_stop(&r->again);
    if (r->admission) admission_forget(r->admission);
    r->admission = NULL;
    if (!r->busy) request_free(request);
}

static void replica_audit(struct leader_request *request, const char *what)
{
    struct fleet_service *service = service_of(request);
    const struct fleet_request *r = fleet_request_of(request);
    char id[HEX_LEN + 1];
    const struct roster_entry *entry = roster_find(service->options.roster, r->id);

    snprintf(id, sizeof id, "%016" PRIx64, r->id);
    service_audit(service, what, str_from(r->actor),
                  (struct log_field[]){log_text("replica", id),
                                       log_text("name", entry ? entry->name : ""), LOG_END});
}

/* -- finding the replica that a request names -- */

/* Accepts upper and lower case, because people type ids. */
static bool replica_parse_id(struct str text, uint64_t *ret_id)
{
    uint64_t id = 0;
    size_t i = 0;

    for (; i < text.len && hex_value(text.at[i]) >= 0; i++)
        id = id << 4 | (uint64_t)hex_value(text.at[i]);
    if (text.len != HEX_LEN || i < HEX_LEN) return false;
    *ret_id = id;
    return true;
}

static bool is_member(const struct fleet_service *service, uint64_t id)
{
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(service->leader.replica, members);

    for (size_t i = 0; i < count; i++)
        if (members[i].id == id) return true;
    return false;
}

/* Members come first. A name of two members is refused: two members share a name while a lost disk
 * is replaced. */
static enum err find_replica(const struct fleet_service *service, struct str text, uint64_t *ret_id,
                             struct note *note)
{
    const struct roster_entry *entries;
    size_t count = roster_entries(service->options.roster, &entries);
    bool found = false, found_member = false;

    for (size_t i = 0; i < count; i++) {
        bool member = is_member(service, entries[i].id);
        if (!str_equal(str_from(entries[i].name), text)) continue;
        if (found_member && member)
            return note_fail(note, ERR_PRECONDITION,
                             "two replicas are called %s, %016" PRIx64 " and %016" PRIx64
                             ": say which by its identity",
                             entries[i].name, *ret_id, entries[i].id);
        if (!found || member) *ret_id = entries[i].id;
        found = true;
        found_member |= member;
    }
    if (found || replica_parse_id(text, ret_id)) return ERR_OK;
    return note_fail(note, ERR_NOT_FOUND,
                     "no replica %.63s; a name or an identity of 16 hexadecimal digits is needed",
                     text.at);
}

/* -- JoinReplica, JoinRaftCluster -- */

static void replica_admitted(void *owner, enum err err, const struct note *note)
{
    struct leader_request *request = owner;
    Muster__V1__JoinReplicaResponse response = MUSTER__V1__JOIN_REPLICA_RESPONSE__INIT;
    char waiting[NOTE_CAP];

    fleet_request_of(request)->admission = NULL;
    if (service_method_of(request)->is_old && !err) {
        request_reply(request, STR_EMPTY);
    } else if (!service_method_of(request)->is_old && (!err || err == ERR_NOT_READY)) {
        snprintf(waiting, sizeof waiting, "%s", err ? note->text : "");
        response.cluster_id = replica_status(service_of(request)->leader.replica).cluster_id;
        response.voter = !err;
        response.waiting = waiting;
        replica_reply(request, &response.base);
    } else {
        replica_refuse(request, err, note);
    }
}

static void replica_admit(struct leader_request *request, const struct admit_request *wish)
{
    struct fleet_service *service = service_of(request);
    struct fleet_request *r = fleet_request_of(request);
    mono_time now = loop_now(service->io->loop), deadline = rpc_call_deadline(request->call);
    mono_time until = mono_after(now, ADMIT_WITHIN_MS);
    enum err err;

    if (deadline.ms != MONO_NEVER.ms)
        until = mono_min(until, (mono_time){deadline.ms - min_u64(deadline.ms, ANSWER_MARGIN_MS)});
    request_keep(request, &service->kept);
    err = quorum_admit(service->quorum, wish, str_from(r->actor), until, replica_admitted, request,
                       &r->admission);
    if (err) replica_refuse(request, err, NULL);
}

/* False if the text is truncated: the request is refused later. */
static bool text_copy(char *to, size_t cap, const char *from)
{
    return snprintf(to, cap, "%s", from) < (int)cap;
}

static void join_replica(struct leader_request *request)
{
    const Muster__V1__JoinReplicaRequest *from = (const void *)request->message;
    struct admit_request wish = {.entry.id = from->replica_id, .cluster_id = from->cluster_id};

    if (text_copy(wish.entry.name, sizeof wish.entry.name, from->name) &&
        text_copy(wish.entry.grpc, sizeof wish.entry.grpc, from->grpc_address) &&
        text_copy(wish.entry.http, sizeof wish.entry.http, from->http_address) &&
        text_copy(wish.entry.etcd, sizeof wish.entry.etcd, from->etcd_address) &&
        text_copy(wish.raft, sizeof wish.raft, from->raft_address))
        replica_admit(request, &wish);
    else
        request_refuse(request, GRPC_INVALID_ARGUMENT,
                       "a name of at most %d bytes and addresses of at most %d", REPLICA_NAME_MAX,
                       REPLICA_ADDRESS_MAX);
}

static enum err old_identity(struct fleet_service *service, struct rpc_call *call, const char *name,
                             uint64_t *ret_id, struct note *note)
{
    struct str header;
    enum err err;

    if (rpc_call_metadata(call, STR(REPLICA_ID_HEADER), &header)) {
        if (replica_parse_id(header, ret_id)) return ERR_OK;
        return note_fail(note, ERR_INVALID, REPLICA_ID_HEADER ": 16 hexadecimal digits are needed");
    }
    err = find_replica(service, str_from(name), ret_id, note);
    if (err == ERR_PRECONDITION) return err;
    if (!err && roster_find(service->options.roster, *ret_id)) return ERR_OK;
    return note_fail(note, ERR_INVALID,
                     "no replica is known by the name %.63s; a new one says its identity in the "
                     "header " REPLICA_ID_HEADER " (or calls muster.v1.Fleet/JoinReplica)",
                     name);
}

static void join_raft_cluster(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    const Bigfleet__V1alpha1__JoinRaftClusterRequest *from = (const void *)request->message;
    struct admit_request wish = {.cluster_id = 0};
    const struct roster_entry *known;
    struct note note = {""};
    enum err err = ERR_OK;

    if (!from->node_id[0] || !from->raft_address[0])
        err = note_fail(&note, ERR_INVALID, "node_id and raft_address are required");
    else if (!text_copy(wish.entry.name, sizeof wish.entry.name, from->node_id) ||
             !text_copy(wish.raft, sizeof wish.raft, from->raft_address))
        err = note_fail(&note, ERR_INVALID, "node_id or raft_address is too long");
    if (!err) err = old_identity(service, request->call, from->node_id, &wish.entry.id, &note);
    if (err) {
        replica_refuse(request, err, &note);
        return;
    }
    known = roster_find(service->options.roster, wish.entry.id);
    if (known) { /* bigfleet's request lacks these fields: keep the known addresses */
        memcpy(wish.entry.grpc, known->grpc, sizeof wish.entry.grpc);
        memcpy(wish.entry.http, known->http, sizeof wish.entry.http);
        memcpy(wish.entry.etcd, known->etcd, sizeof wish.entry.etcd);
    }
    replica_admit(request, &wish);
}

/* -- ListReplicas -- */

static int replica_by_name(const void *a, const void *b)
{
    const Muster__V1__Replica *left = a, *right = b;
    int order = strcmp(left->name, right->name);

    if (order) return order;
    return left->replica_id < right->replica_id ? -1 : 1;
}

/* The texts in `out` belong to the member and the roster. */
static void replica_describe(const struct fleet_service *service,
                             const struct replica_member *member, Muster__V1__Replica *out)
{
    static const struct roster_entry nobody;
    const struct roster_entry *entry = roster_find(service->options.roster, member->id);

    if (!entry) entry = &nobody;
    muster__v1__replica__init(out);
    out->replica_id = member->id;
    out->name = (char *)entry->name;
    out->raft_address = (char *)member->address;
    out->grpc_address = (char *)entry->grpc;
    out->http_address = (char *)entry->http;
    out->etcd_address = (char *)entry->etcd;
    out->voter = member->role == MEMBER_VOTER;
    out->leader = member->leader;
    out->match = member->match;
    out->silent_ms = member->silent_ms == UINT64_MAX ? -1 : (int64_t)member->silent_ms;
    out->level = member->level;
}

static void list_replicas(struct leader_request *request)
{
    const struct fleet_service *service = service_of(request);
    Muster__V1__ListReplicasResponse response = MUSTER__V1__LIST_REPLICAS_RESPONSE__INIT;
    Muster__V1__Replica replicas[REPLICA_MEMBERS_MAX];
    Muster__V1__Replica *pointers[REPLICA_MEMBERS_MAX];
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(service->leader.replica, members);

    for (size_t i = 0; i < count; i++) replica_describe(service, &members[i], &replicas[i]);
    qsort(replicas, count, sizeof replicas[0], replica_by_name);
    for (size_t i = 0; i < count; i++) pointers[i] = &replicas[i];
    response.replicas = pointers;
    response.n_replicas = count;
    response.term = replica_status(service->leader.replica).term;
    response.cluster_id = replica_status(service->leader.replica).cluster_id;
    replica_reply(request, &response.base);
}

/* -- RemoveReplica -- */

/* A failed proposal is no error: the replica is removed, and its roster entry is removed when room
 * is needed. */
static void replica_forgotten(struct leader_request *request, enum err, struct str)
{
    request_reply(request, STR_EMPTY);
}

static void replica_forget(struct leader_request *request)
{
    struct fleet_request *r = fleet_request_of(request);
    struct roster_command command = {.op = ROSTER_FORGET, .entry = {.id = r->id}};
    char room[ROSTER_COMMAND_MAX];
    struct buf bytes = {.data = room, .cap = sizeof room, .max = sizeof room};

    if (!request->call || roster_encode(&command, &bytes))
        replica_forgotten(request, ERR_INVALID, STR_EMPTY);
    else
        request_propose(request, &(struct proposal){.machine = ROSTER_MACHINE_ID,
                                                    .version = roster_command_version(&command),
                                                    .flags = PROPOSE_FREES,
                                                    .actor = str_from(r->actor),
                                                    .command = buf_peek(&bytes)});
}

static void replica_removed(struct member_change *change, enum err err, const struct note *note)
{
    struct fleet_request *r = CONTAINER_OF(change, struct fleet_request, change);
    bool not_yet = err == ERR_NOT_READY || err == ERR_BUSY;

    r->busy = false;
    if (not_yet && !replica_call_is_late(&r->base)) {
        timer_start_in(&r->again, SERVICE_REPLICA_AGAIN_MS);
        return;
    }
    if (err) {
        replica_refuse(&r->base, err, note);
        return;
    }
    replica_audit(&r->base, "RemoveReplica");
    replica_forget(&r->base);
}

static void replica_remove_try(struct timer *timer)
{
    struct fleet_request *r = CONTAINER_OF(timer, struct fleet_request, again);

    r->change = (struct member_change){
        .kind = CHANGE_REMOVE, .id = r->id, .address = "", .done = replica_removed};
    r->busy = true;
    replica_change(service_of(&r->base)->leader.replica, &r->change);
}

static bool find_or_refuse(struct leader_request *request, const char *text)
{
    struct fleet_service *service = service_of(request);
    struct fleet_request *r = fleet_request_of(request);
    struct note note = {""};
    enum err err = find_replica(service, str_from(text), &r->id, &note);

    if (!err && is_member(service, r->id)) return true;
    if (!err) note_set(&note, "%.63s is not a member", text);
    if (err != ERR_PRECONDITION) err = text[0] ? ERR_NOT_FOUND : ERR_INVALID;
    replica_refuse(request, err, &note);
    return false;
}

static void remove_replica(struct leader_request *request)
{
    const Muster__V1__RemoveReplicaRequest *from = (const void *)request->message;

    if (find_or_refuse(request, from->replica) && replica_keep(request, replica_remove_try))
        replica_remove_try(&fleet_request_of(request)->again);
}

/* -- TransferLeadership -- */

static void replica_transferred(struct transfer *transfer, enum err err, const struct note *note)
{
    struct fleet_request *r = CONTAINER_OF(transfer, struct fleet_request, transfer);

    r->busy = false;
    if (err) {
        replica_refuse(&r->base, err, note);
        return;
    }
    replica_audit(&r->base, "TransferLeadership");
    request_reply(&r->base, STR_EMPTY);
}

static void transfer_leadership(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    const Muster__V1__TransferLeadershipRequest *from = (const void *)request->message;
    struct fleet_request *r = fleet_request_of(request);

    if (from->replica[0] && !find_or_refuse(request, from->replica)) return;
    if (r->id == replica_status(service->leader.replica).id) { /* the target is the leader */
        request_reply(request, STR_EMPTY);
        return;
    }
    request_keep(request, &service->kept);
    r->busy = true;
    r->transfer = (struct transfer){.to = r->id, .done = replica_transferred};
    replica_transfer(service->leader.replica, &r->transfer);
}

/* -- StateHash -- */

static void replica_reply_hash(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    Muster__V1__StateHashResponse response = MUSTER__V1__STATE_HASH_RESPONSE__INIT;
    Muster__V1__MachineHash hashes[REPLICA_MACHINES_MAX], *pointers[REPLICA_MACHINES_MAX];
    struct replica_status status = replica_status(service->leader.replica);

    for (size_t i = 0; i < service->machine_count; i++) {
        const struct state_machine *machine = &service->machines[i];
        muster__v1__machine_hash__init(&hashes[i]);
        hashes[i].id = machine->id;
        hashes[i].name = (char *)machine->name;
        hashes[i].hash = machine->ops->hash(machine->state);
        hashes[i].bytes = machine->ops->size(machine->state);
        pointers[i] = &hashes[i];
    }
    response.replica_id = status.id;
    response.name = (char *)service->options.name;
    response.applied = status.applied;
    response.term = status.term;
    response.machines = pointers;
    response.n_machines = service->machine_count;
    response.snapshot = status.snapshot;
    response.first = status.first;
    response.log_bytes = status.log_bytes;
    response.disk_free = status.disk_free;
    replica_reply(request, &response.base);
}

static void replica_hash_try(struct timer *timer)
{
    struct fleet_request *r = CONTAINER_OF(timer, struct fleet_request, again);
    const Muster__V1__StateHashRequest *from = (const void *)r->base.message;
    uint64_t applied = replica_status(service_of(&r->base)->leader.replica).applied;

    if (applied >= from->at_least)
        replica_reply_hash(&r->base);
    else if (!replica_call_is_late(&r->base))
        timer_start_in(timer, SERVICE_REPLICA_AGAIN_MS);
    else
        request_refuse(&r->base, err_grpc_status(ERR_NOT_READY),
                       "applied is %" PRIu64 ", not yet %" PRIu64, applied, from->at_least);
}

static bool replica_state_hash(struct leader_request *request)
{
    if (replica_keep(request, replica_hash_try))
        replica_hash_try(&fleet_request_of(request)->again);
    return false;
}

/* -- PromiseBootstrap, BootstrapReplica -- */

static bool replica_has_log(const struct replica_status *status)
{
    return status->cluster_id != 0 || status->term > 0 || status->last > 0 || status->snapshot > 0;
}

static enum err read_promise(const struct fleet_service *service,
                             struct bootstrap_identity *ret_stored, struct note *note)
{
    struct datadir mark = {.replica_id = 0};
    enum err err =
        datadir_mark_read(service->io->fs, service->options.dir, DATADIR_PROMISE, &mark, note);

    *ret_stored = (struct bootstrap_identity){mark.cluster_id, mark.replica_id};
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err store_promise(const struct fleet_service *service,
                              const struct bootstrap_identity *asked, const char *name,
                              struct note *note)
{
    struct datadir mark = {.replica_id = asked->replica_id, .cluster_id = asked->cluster_id};
    char cluster[HEX_LEN + 1];
    enum err err = datadir_mark_write(service->io->fs, service->options.dir, DATADIR_PROMISE, &mark,
                                      entropy_u64(service->io->entropy), note);

    snprintf(cluster, sizeof cluster, "%016" PRIx64, asked->cluster_id);
    if (!err)
        LOG_INFO(&service->log, "promised another replica not to bootstrap",
                 log_text("founder", name), log_text("cluster", cluster));
    return err;
}

/* Writes a file on the loop's thread, because no client is served yet. */
static bool replica_promise_bootstrap(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    const Muster__V1__PromiseBootstrapRequest *from = (const void *)request->message;
    Muster__V1__PromiseBootstrapResponse response = MUSTER__V1__PROMISE_BOOTSTRAP_RESPONSE__INIT;
    struct replica_status status = replica_status(service->leader.replica);
    struct promise_facts facts = {.replica_id = status.id,
                                  .has_log = replica_has_log(&status),
                                  .asked = {from->cluster_id, from->replica_id},
                                  .replace = from->replace};
    struct note note = {""};
    enum err err = ERR_OK;

    response.replica_id = status.id;
    response.name = (char *)service->options.name;
    if (!facts.has_log) err = read_promise(service, &facts.stored, &note);
    switch (err ? PROMISE_TAKEN : promise_decide(&facts)) {
    case PROMISE_INVALID:
        err = note_fail(&note, ERR_INVALID, "cluster_id and replica_id are required");
        break;
    case PROMISE_HAS_LOG: response.has_log = true; break;
    case PROMISE_STORE:
        if (!from->replace && service->options.cluster_known &&
            service->options.cluster_known(service->options.owner)) {
            response.reason = "it has heard of a cluster: join that one, or stop its replicas";
            break;
        }
        err = store_promise(service, &facts.asked, from->name, &note);
        response.promised = !err;
        break;
    case PROMISE_KEEP: response.promised = true; break;
    case PROMISE_TAKEN:
        if (err) break;
        note_set(&note,
                 "it promised replica %016" PRIx64
                 "; is that gone for good? musterctl replica bootstrap",
                 facts.stored.replica_id);
        response.reason = note.text;
        break;
    case PROMISE_SELF:
    case PROMISE_RIVAL: response.reason = "it has the same identity"; break;
    }
    if (err)
        replica_refuse(request, err, &note);
    else
        replica_reply(request, &response.base);
    return false;
}

static bool replica_refuse_bootstrap(struct leader_request *request)
{
    struct fleet_service *service = service_of(request);
    struct replica_status status = replica_status(service->leader.replica);
    struct note note = {""};

    if (status.cluster_id)
        note_set(&note, "%s does not wait to bootstrap: it belongs to cluster %016" PRIx64,
                 service->options.name, status.cluster_id);
    else
        note_set(&note,
                 "%s does not wait to bootstrap: only a replica with ordinal 0, an empty data "
                 "directory and --bootstrap does",
                 service->options.name);
    replica_refuse(request, ERR_PRECONDITION, &note);
    return false;
}

/* -- the methods -- */

const struct service_method service_replica_methods[] = {
    SERVICE_METHOD(BIGFLEET, "JoinRaftCluster", bigfleet__v1alpha1, join_raft_cluster,
                   .begin = join_raft_cluster, .is_old = true),
    SERVICE_METHOD(MUSTER, "JoinReplica", muster__v1, join_replica, .begin = join_replica),
    SERVICE_METHOD(MUSTER, "ListReplicas", muster__v1, list_replicas, .read = list_replicas),
    SERVICE_METHOD(MUSTER, "RemoveReplica", muster__v1, remove_replica, .begin = remove_replica,
                   .written = replica_forgotten),
    SERVICE_METHOD(MUSTER, "TransferLeadership", muster__v1, transfer_leadership,
                   .begin = transfer_leadership),
    SERVICE_METHOD(MUSTER, "StateHash", muster__v1, state_hash, .anywhere = true,
                   .admit = replica_state_hash),
    SERVICE_METHOD(MUSTER, "PromiseBootstrap", muster__v1, promise_bootstrap, .anywhere = true,
                   .admit = replica_promise_bootstrap),
    SERVICE_METHOD(MUSTER, "BootstrapReplica", muster__v1, bootstrap_replica, .anywhere = true,
                   .admit = replica_refuse_bootstrap),
    {.base = {.path = NULL}},
};
