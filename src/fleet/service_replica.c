/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/service_replica.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "fleet/bootstrap_rules.h"
#include "log/datadir.h"
#include "rpc/forward.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum {
    ADMIT_WITHIN_MS = ADMIT_SILENT_MS + 1000, /* then the caller hears what it waits for */
    ANSWER_MARGIN_MS = 500, /* an answer "not yet" comes before the caller's deadline */
    AGAIN_MS = 50,          /* between two looks at what "not yet" was said of */
    AGAIN_WITHIN_MS = 5000,
    HEX_LEN = 16,
};

struct replica_service {
    struct io *io;
    struct log_source log;
    struct fleet_journal *journal;
    struct replica *replica;
    struct quorum *quorum;
    const struct roster *roster;
    char name[REPLICA_NAME_MAX + 1];
    char dir[FS_PATH_CAP];
    struct machine machines[REPLICA_MACHINES_MAX];
    size_t machine_count;
    bool (*cluster_known)(void *owner);
    void *owner;
};

/* One call under way. The log may hold parts of it longer than the caller waits. */
struct request {
    struct replica_service *service;
    struct rpc_call *call; /* NULL: the caller is gone */
    struct admission *admission;
    bool old_contract;
    char actor[FLEET_ACTOR_CAP];
    uint64_t id;
    mono_time until;
    uint64_t at_least;
    bool busy; /* the log has `change`, `transfer` or `proposal` */
    bool reading;
    struct timer timer;
    struct read_ticket ticket;
    struct change change;
    struct transfer transfer;
    struct proposal proposal;
    struct buf command;
};

const char *replica_service_leader(struct replica_service *service)
{
    return roster_grpc(service->roster, replica_status(service->replica).leader_id);
}

/* -- the life of a request -- */

static void request_free(struct request *r)
{
    if (r->call || r->busy || r->admission) return;
    timer_deinit(&r->timer);
    buf_deinit(&r->command);
    free(r);
}

static void on_done(void *service, struct rpc_call *call)
{
    struct request *r = rpc_call_data(call);

    (void)service;
    if (!r) return;
    r->call = NULL;
    timer_stop(&r->timer);
    if (r->admission) admission_forget(r->admission);
    r->admission = NULL;
    if (r->reading) replica_read_cancel(r->service->replica, &r->ticket);
    request_free(r);
}

/* Nothing was done, whatever the status: trying again is safe. */
static void fail_undone(struct rpc_call *call, enum err err, const struct note *note)
{
    (void)rpc_add_trailer(call, STR(RPC_APPLIED_TRAILER), STR("no"));
    rpc_fail(call, err, note);
}

/* NULL: there is no room for it, and the call is answered. */
static struct request *request_new(struct replica_service *service, struct rpc_call *call,
                                   timer_fn *again)
{
    struct request *r = calloc(1, sizeof *r);
    mono_time now = loop_now(service->io->loop);
    enum err err = r ? timer_init(&r->timer, service->io->loop, again) : ERR_NOMEM;

    if (err) {
        free(r);
        fail_undone(call, err, NULL);
        return NULL;
    }
    r->service = service;
    r->call = call;
    fleet_actor(call, r->actor);
    r->until = mono_min(mono_after(now, AGAIN_WITHIN_MS), rpc_call_deadline(call));
    buf_init(&r->command, ROSTER_COMMAND_MAX);
    rpc_call_set_data(call, r);
    return r;
}

static void fail(struct request *r, enum err err, const struct note *note)
{
    if (!r->call) return;
    if (err == ERR_NOT_LEADER)
        rpc_fail_not_leader(r->call, replica_service_leader(r->service));
    else if (err == ERR_UNKNOWN)
        rpc_fail(r->call, err, note);
    else
        fail_undone(r->call, err, note);
}

/* True: answered, we are not the one to ask. */
static bool is_not_ours(struct replica_service *service, struct rpc_call *call)
{
    if (replica_status(service->replica).role == REPLICA_LEADER) return false;
    rpc_fail_not_leader(call, replica_service_leader(service));
    return true;
}

static void audit(const struct request *r, const char *what)
{
    char id[HEX_LEN + 1];
    const struct roster_entry *entry = roster_find(r->service->roster, r->id);

    snprintf(id, sizeof id, "%016" PRIx64, r->id);
    fleet_journal_audit(r->service->journal, what, str_from(r->actor),
                        (struct log_field[]){log_text("replica", id),
                                             log_text("name", entry ? entry->name : ""), LOG_END});
}

/* -- who is meant -- */

/* Of either case: people write it. */
static bool parse_id(struct str text, uint64_t *ret_id)
{
    uint64_t id = 0;

    if (text.len != HEX_LEN) return false;
    for (size_t i = 0; i < text.len; i++) {
        int digit = hex_value(text.at[i]);
        if (digit < 0) return false;
        id = id << 4 | (uint64_t)digit;
    }
    *ret_id = id;
    return true;
}

static bool is_member(const struct replica_service *service, uint64_t id)
{
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(service->replica, members);

    for (size_t i = 0; i < count; i++)
        if (members[i].id == id) return true;
    return false;
}

/* By name, a member before one that is none, or by identity. While a lost disk is being replaced
 * two members may bear one name: which of them is meant is not for us to guess. */
static enum err find_replica(const struct replica_service *service, struct str text,
                             uint64_t *ret_id, struct note *note)
{
    const struct roster_entry *entries;
    size_t count = roster_entries(service->roster, &entries);
    bool found = false, found_member = false;

    for (size_t i = 0; i < count; i++) {
        bool member = is_member(service, entries[i].id);
        if (!str_equal(str_from(entries[i].name), text)) continue;
        if (found_member && member) {
            note_set(note,
                     "two replicas are called %s, %016" PRIx64 " and %016" PRIx64
                     ": say which by its identity",
                     entries[i].name, *ret_id, entries[i].id);
            return ERR_PRECONDITION;
        }
        if (!found || member) *ret_id = entries[i].id;
        found = true;
        found_member |= member;
    }
    if (found || parse_id(text, ret_id)) return ERR_OK;
    note_set(note, "no replica %.63s; a name or an identity of 16 hexadecimal digits is needed",
             text.at);
    return ERR_NOT_FOUND;
}

/* -- JoinReplica, JoinRaftCluster -- */

static void admitted(void *owner, enum err err, const struct note *note)
{
    struct request *r = owner;
    Muster__V1__JoinReplicaResponse response = MUSTER__V1__JOIN_REPLICA_RESPONSE__INIT;
    Bigfleet__V1alpha1__JoinRaftClusterResponse old =
        BIGFLEET__V1ALPHA1__JOIN_RAFT_CLUSTER_RESPONSE__INIT;
    char waiting[NOTE_CAP];

    r->admission = NULL;
    if (r->call && r->old_contract && !err) {
        rpc_reply(r->call, &old.base);
    } else if (r->call && !r->old_contract && (!err || err == ERR_NOT_READY)) {
        snprintf(waiting, sizeof waiting, "%s", err ? note->text : "");
        response.cluster_id = replica_status(r->service->replica).cluster_id;
        response.voter = !err;
        response.waiting = waiting;
        rpc_reply(r->call, &response.base);
    } else {
        fail(r, err, note);
    }
    request_free(r);
}

static void admit(struct replica_service *service, struct rpc_call *call,
                  const struct admit_request *wish, bool old_contract)
{
    mono_time now = loop_now(service->io->loop), deadline = rpc_call_deadline(call);
    mono_time until = mono_after(now, ADMIT_WITHIN_MS);
    struct request *r;
    enum err err;

    if (deadline.ms != MONO_NEVER.ms)
        until = mono_min(until, (mono_time){deadline.ms - min_u64(deadline.ms, ANSWER_MARGIN_MS)});
    r = request_new(service, call, NULL);
    if (!r) return;
    r->old_contract = old_contract;
    err =
        quorum_admit(service->quorum, wish, str_from(r->actor), until, admitted, r, &r->admission);
    if (err) fail_undone(call, err, NULL);
}

/* Texts longer than a field are refused by what follows: they are copied cut, and marked so. */
static bool copy(char *to, size_t cap, const char *from)
{
    return snprintf(to, cap, "%s", from) < (int)cap;
}

static void join_replica(void *opaque, struct rpc_call *call, const ProtobufCMessage *message,
                         struct str bytes)
{
    struct replica_service *service = opaque;
    const Muster__V1__JoinReplicaRequest *from = (const Muster__V1__JoinReplicaRequest *)message;
    struct admit_request wish = {.entry.id = from->replica_id, .cluster_id = from->cluster_id};
    struct note note = {""};

    (void)bytes;
    if (is_not_ours(service, call)) return;
    if (copy(wish.entry.name, sizeof wish.entry.name, from->name) &&
        copy(wish.entry.grpc, sizeof wish.entry.grpc, from->grpc_address) &&
        copy(wish.entry.http, sizeof wish.entry.http, from->http_address) &&
        copy(wish.entry.etcd, sizeof wish.entry.etcd, from->etcd_address) &&
        copy(wish.raft, sizeof wish.raft, from->raft_address)) {
        admit(service, call, &wish, false);
        return;
    }
    note_set(&note, "a name of at most %d bytes and addresses of at most %d", REPLICA_NAME_MAX,
             REPLICA_ADDRESS_MAX);
    fail_undone(call, ERR_INVALID, &note);
}

static enum err old_identity(struct replica_service *service, struct rpc_call *call,
                             const char *name, uint64_t *ret_id, struct note *note)
{
    struct str header;
    enum err err;

    if (rpc_call_metadata(call, STR(REPLICA_ID_HEADER), &header)) {
        if (parse_id(header, ret_id)) return ERR_OK;
        note_set(note, REPLICA_ID_HEADER ": 16 hexadecimal digits are needed");
        return ERR_INVALID;
    }
    err = find_replica(service, str_from(name), ret_id, note);
    if (err == ERR_PRECONDITION) return err;
    if (!err && roster_find(service->roster, *ret_id)) return ERR_OK;
    note_set(note,
             "no replica is known by the name %.63s; a new one says its identity in the "
             "header " REPLICA_ID_HEADER " (or calls muster.v1.Fleet/JoinReplica)",
             name);
    return ERR_INVALID;
}

static void join_raft_cluster(void *opaque, struct rpc_call *call, const ProtobufCMessage *message,
                              struct str bytes)
{
    struct replica_service *service = opaque;
    const Bigfleet__V1alpha1__JoinRaftClusterRequest *from =
        (const Bigfleet__V1alpha1__JoinRaftClusterRequest *)message;
    struct admit_request wish = {.cluster_id = 0};
    const struct roster_entry *known;
    struct note note = {""};
    enum err err = ERR_OK;

    (void)bytes;
    if (is_not_ours(service, call)) return;
    if (!from->node_id[0] || !from->raft_address[0]) {
        note_set(&note, "node_id and raft_address are required");
        err = ERR_INVALID;
    } else if (!copy(wish.entry.name, sizeof wish.entry.name, from->node_id) ||
               !copy(wish.raft, sizeof wish.raft, from->raft_address)) {
        note_set(&note, "node_id or raft_address is too long");
        err = ERR_INVALID;
    }
    if (!err) err = old_identity(service, call, from->node_id, &wish.entry.id, &note);
    if (err) {
        fail_undone(call, err, &note);
        return;
    }
    known = roster_find(service->roster, wish.entry.id);
    if (known) { /* the old contract knows none of them: they stay */
        memcpy(wish.entry.grpc, known->grpc, sizeof wish.entry.grpc);
        memcpy(wish.entry.http, known->http, sizeof wish.entry.http);
        memcpy(wish.entry.etcd, known->etcd, sizeof wish.entry.etcd);
    }
    admit(service, call, &wish, true);
}

/* -- ListReplicas -- */

static int by_name(const void *a, const void *b)
{
    const Muster__V1__Replica *left = a, *right = b;
    int order = strcmp(left->name, right->name);

    if (order) return order;
    return left->replica_id < right->replica_id ? -1 : 1;
}

/* Its texts are those of the member and of the roster. */
static void describe(const struct replica_service *service, const struct replica_member *member,
                     Muster__V1__Replica *out)
{
    static const struct roster_entry nobody;
    const struct roster_entry *entry = roster_find(service->roster, member->id);

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

static void reply_list(struct request *r)
{
    Muster__V1__ListReplicasResponse response = MUSTER__V1__LIST_REPLICAS_RESPONSE__INIT;
    Muster__V1__Replica replicas[REPLICA_MEMBERS_MAX];
    Muster__V1__Replica *pointers[REPLICA_MEMBERS_MAX];
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(r->service->replica, members);

    for (size_t i = 0; i < count; i++) describe(r->service, &members[i], &replicas[i]);
    qsort(replicas, count, sizeof replicas[0], by_name);
    for (size_t i = 0; i < count; i++) pointers[i] = &replicas[i];
    response.replicas = pointers;
    response.n_replicas = count;
    response.term = replica_status(r->service->replica).term;
    response.cluster_id = replica_status(r->service->replica).cluster_id;
    rpc_reply(r->call, &response.base);
}

static void on_read(struct read_ticket *ticket, enum err err)
{
    struct request *r = CONTAINER_OF(ticket, struct request, ticket);
    mono_time now = loop_now(r->service->io->loop);

    r->reading = false;
    if (!err)
        reply_list(r);
    else if (err == ERR_NOT_READY && !mono_due(r->until, now)) /* elected a moment ago */
        timer_start_in(&r->timer, AGAIN_MS);
    else
        fail(r, err, NULL);
}

static void read_again(struct timer *timer)
{
    struct request *r = CONTAINER_OF(timer, struct request, timer);

    r->ticket.done = on_read;
    r->reading = true;
    replica_read(r->service->replica, &r->ticket);
}

static void list_replicas(void *opaque, struct rpc_call *call, const ProtobufCMessage *message,
                          struct str bytes)
{
    struct replica_service *service = opaque;
    struct request *r;

    (void)message;
    (void)bytes;
    if (is_not_ours(service, call)) return;
    r = request_new(service, call, read_again);
    if (r) read_again(&r->timer);
}

/* -- RemoveReplica -- */

static void forgotten(struct proposal *proposal, enum err err, struct str reply)
{
    struct request *r = CONTAINER_OF(proposal, struct request, proposal);
    Muster__V1__RemoveReplicaResponse response = MUSTER__V1__REMOVE_REPLICA_RESPONSE__INIT;

    /* It is no member any more, which is what was asked for; an entry that stays in the roster is
     * forgotten when room is needed. */
    (void)err;
    (void)reply;
    r->busy = false;
    if (r->call) rpc_reply(r->call, &response.base);
    request_free(r);
}

static void forget(struct request *r)
{
    struct roster_command command = {.op = ROSTER_FORGET, .entry = {.id = r->id}};
    struct proposal *const one = &r->proposal;

    if (roster_encode(&command, &r->command)) {
        forgotten(&r->proposal, ERR_INVALID, STR_EMPTY);
        return;
    }
    r->proposal = (struct proposal){.machine = ROSTER_MACHINE_ID,
                                    .version = roster_command_version(&command),
                                    .flags = PROPOSE_FREES,
                                    .actor = str_from(r->actor),
                                    .command = buf_peek(&r->command),
                                    .done = forgotten};
    r->busy = true;
    replica_propose(r->service->replica, &one, 1);
}

static void removed(struct change *change, enum err err, const struct note *note)
{
    struct request *r = CONTAINER_OF(change, struct request, change);
    bool not_yet = err == ERR_NOT_READY || err == ERR_BUSY;

    r->busy = false;
    if (not_yet && r->call && !mono_due(r->until, loop_now(r->service->io->loop))) {
        timer_start_in(&r->timer, AGAIN_MS);
        return;
    }
    if (!err) {
        audit(r, "RemoveReplica");
        forget(r);
        return;
    }
    fail(r, err, note);
    request_free(r);
}

static void remove_again(struct timer *timer)
{
    struct request *r = CONTAINER_OF(timer, struct request, timer);

    r->change = (struct change){.kind = CHANGE_REMOVE, .id = r->id, .address = "", .done = removed};
    r->busy = true;
    replica_change(r->service->replica, &r->change);
}

static bool find_or_fail(struct replica_service *service, struct rpc_call *call, const char *text,
                         uint64_t *ret_id)
{
    struct note note = {""};
    enum err err = find_replica(service, str_from(text), ret_id, &note);

    if (!err && is_member(service, *ret_id)) return true;
    if (!err) note_set(&note, "%.63s is not a member", text);
    if (err != ERR_PRECONDITION) err = text[0] ? ERR_NOT_FOUND : ERR_INVALID;
    fail_undone(call, err, &note);
    return false;
}

static void remove_replica(void *opaque, struct rpc_call *call, const ProtobufCMessage *message,
                           struct str bytes)
{
    struct replica_service *service = opaque;
    const Muster__V1__RemoveReplicaRequest *from =
        (const Muster__V1__RemoveReplicaRequest *)message;
    struct request *r;
    uint64_t id;

    (void)bytes;
    if (is_not_ours(service, call)) return;
    if (!find_or_fail(service, call, from->replica, &id)) return;
    r = request_new(service, call, remove_again);
    if (!r) return;
    r->id = id;
    remove_again(&r->timer);
}

/* -- TransferLeadership -- */

static void transferred(struct transfer *transfer, enum err err, const struct note *note)
{
    struct request *r = CONTAINER_OF(transfer, struct request, transfer);
    Muster__V1__TransferLeadershipResponse response =
        MUSTER__V1__TRANSFER_LEADERSHIP_RESPONSE__INIT;

    r->busy = false;
    if (!err) audit(r, "TransferLeadership");
    if (r->call && !err)
        rpc_reply(r->call, &response.base);
    else
        fail(r, err, note);
    request_free(r);
}

static void transfer_leadership(void *opaque, struct rpc_call *call,
                                const ProtobufCMessage *message, struct str bytes)
{
    struct replica_service *service = opaque;
    const Muster__V1__TransferLeadershipRequest *from =
        (const Muster__V1__TransferLeadershipRequest *)message;
    Muster__V1__TransferLeadershipResponse response =
        MUSTER__V1__TRANSFER_LEADERSHIP_RESPONSE__INIT;
    struct request *r;
    uint64_t id = 0;

    (void)bytes;
    if (is_not_ours(service, call)) return;
    if (from->replica[0] && !find_or_fail(service, call, from->replica, &id)) return;
    if (id == replica_status(service->replica).id) { /* it leads already */
        rpc_reply(call, &response.base);
        return;
    }
    r = request_new(service, call, NULL);
    if (!r) return;
    r->busy = true;
    r->id = id;
    r->transfer = (struct transfer){.to = id, .done = transferred};
    replica_transfer(service->replica, &r->transfer);
}

/* -- StateHash -- */

static void reply_hash(struct replica_service *service, struct rpc_call *call)
{
    Muster__V1__StateHashResponse response = MUSTER__V1__STATE_HASH_RESPONSE__INIT;
    Muster__V1__MachineHash hashes[REPLICA_MACHINES_MAX], *pointers[REPLICA_MACHINES_MAX];
    struct replica_status status = replica_status(service->replica);

    for (size_t i = 0; i < service->machine_count; i++) {
        const struct machine *machine = &service->machines[i];
        muster__v1__machine_hash__init(&hashes[i]);
        hashes[i].id = machine->id;
        hashes[i].name = (char *)machine->name;
        hashes[i].hash = machine->ops->hash(machine->state);
        hashes[i].bytes = machine->ops->size(machine->state);
        pointers[i] = &hashes[i];
    }
    response.replica_id = status.id;
    response.name = service->name;
    response.applied = status.applied;
    response.term = status.term;
    response.machines = pointers;
    response.n_machines = service->machine_count;
    response.snapshot = status.snapshot;
    response.first = status.first;
    response.log_bytes = status.log_bytes;
    response.disk_free = status.disk_free;
    rpc_reply(call, &response.base);
}

static void hash_again(struct timer *timer)
{
    struct request *r = CONTAINER_OF(timer, struct request, timer);
    uint64_t applied = replica_status(r->service->replica).applied;
    struct note note = {""};

    if (applied >= r->at_least) {
        reply_hash(r->service, r->call);
    } else if (!mono_due(r->until, loop_now(r->service->io->loop))) {
        timer_start_in(timer, AGAIN_MS);
    } else {
        note_set(&note, "applied is %" PRIu64 ", not yet %" PRIu64, applied, r->at_least);
        fail(r, ERR_NOT_READY, &note);
    }
}

static void state_hash(void *opaque, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    struct replica_service *service = opaque;
    const Muster__V1__StateHashRequest *from = (const Muster__V1__StateHashRequest *)message;
    struct request *r;

    (void)bytes;
    if (replica_status(service->replica).applied >= from->at_least) {
        reply_hash(service, call);
        return;
    }
    r = request_new(service, call, hash_again);
    if (!r) return;
    r->at_least = from->at_least;
    timer_start_in(&r->timer, AGAIN_MS);
}

/* -- PromiseBootstrap, BootstrapReplica -- */

/* An empty log that belongs to no cluster, also while it is being told its cluster. */
static bool has_log(const struct replica_status *status)
{
    return status->cluster_id != 0 || status->term > 0 || status->last > 0 || status->snapshot > 0;
}

static enum err read_promise(const struct replica_service *service,
                             struct bootstrap_identity *ret_stored, struct note *note)
{
    struct datadir mark = {.replica_id = 0};
    enum err err = datadir_mark_read(service->io->fs, service->dir, DATADIR_PROMISE, &mark, note);

    *ret_stored = (struct bootstrap_identity){mark.cluster_id, mark.replica_id};
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err store_promise(const struct replica_service *service,
                              const struct bootstrap_identity *asked, const char *name,
                              struct note *note)
{
    struct datadir mark = {.replica_id = asked->replica_id, .cluster_id = asked->cluster_id};
    char cluster[HEX_LEN + 1];
    enum err err = datadir_mark_write(service->io->fs, service->io->entropy, service->dir,
                                      DATADIR_PROMISE, &mark, note);

    snprintf(cluster, sizeof cluster, "%016" PRIx64, asked->cluster_id);
    if (!err)
        LOG_INFO(&service->log, "promised to stay out of another replica's bootstrap",
                 log_text("founder", name), log_text("cluster", cluster));
    return err;
}

/* A small file, written on the loop's thread: this replica serves nobody yet. */
static void promise_bootstrap(void *opaque, struct rpc_call *call, const ProtobufCMessage *message,
                              struct str bytes)
{
    struct replica_service *service = opaque;
    const Muster__V1__PromiseBootstrapRequest *from =
        (const Muster__V1__PromiseBootstrapRequest *)message;
    Muster__V1__PromiseBootstrapResponse response = MUSTER__V1__PROMISE_BOOTSTRAP_RESPONSE__INIT;
    struct replica_status status = replica_status(service->replica);
    struct promise_facts facts = {.replica_id = status.id,
                                  .has_log = has_log(&status),
                                  .asked = {from->cluster_id, from->replica_id},
                                  .replace = from->replace};
    struct note note = {""};
    enum err err = ERR_OK;

    (void)bytes;
    response.replica_id = status.id;
    response.name = service->name;
    if (!facts.has_log) err = read_promise(service, &facts.stored, &note);
    switch (err ? PROMISE_TAKEN : promise_decide(&facts)) {
    case PROMISE_INVALID:
        note_set(&note, "cluster_id and replica_id are required");
        err = ERR_INVALID;
        break;
    case PROMISE_HAS_LOG: response.has_log = true; break;
    case PROMISE_STORE:
        if (!from->replace && service->cluster_known && service->cluster_known(service->owner)) {
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
        fail_undone(call, err, &note);
    else
        rpc_reply(call, &response.base);
}

static void bootstrap_replica(void *opaque, struct rpc_call *call, const ProtobufCMessage *message,
                              struct str bytes)
{
    struct replica_service *service = opaque;
    struct replica_status status = replica_status(service->replica);
    struct note note = {""};

    (void)message;
    (void)bytes;
    if (status.cluster_id)
        note_set(&note, "%s does not wait to bootstrap: it belongs to cluster %016" PRIx64,
                 service->name, status.cluster_id);
    else
        note_set(&note,
                 "%s does not wait to bootstrap: only a replica with ordinal 0, an empty data "
                 "directory and --bootstrap does",
                 service->name);
    fail_undone(call, ERR_PRECONDITION, &note);
}

/* -- life -- */

#define METHOD(path_of, fn, in, out)                                                               \
    {                                                                                              \
        {.on_message = (fn), .on_done = on_done},                                                  \
        {                                                                                          \
            .path = (path_of), .kind = RPC_UNARY, .input = &(in), .output = &(out)                 \
        }                                                                                          \
    }
static const struct {
    struct rpc_handler handler;
    struct rpc_method method;
} methods[] = {
    METHOD("/bigfleet.v1alpha1.Coordinator/JoinRaftCluster", join_raft_cluster,
           bigfleet__v1alpha1__join_raft_cluster_request__descriptor,
           bigfleet__v1alpha1__join_raft_cluster_response__descriptor),
    METHOD("/muster.v1.Fleet/JoinReplica", join_replica,
           muster__v1__join_replica_request__descriptor,
           muster__v1__join_replica_response__descriptor),
    METHOD("/muster.v1.Fleet/ListReplicas", list_replicas,
           muster__v1__list_replicas_request__descriptor,
           muster__v1__list_replicas_response__descriptor),
    METHOD("/muster.v1.Fleet/RemoveReplica", remove_replica,
           muster__v1__remove_replica_request__descriptor,
           muster__v1__remove_replica_response__descriptor),
    METHOD("/muster.v1.Fleet/TransferLeadership", transfer_leadership,
           muster__v1__transfer_leadership_request__descriptor,
           muster__v1__transfer_leadership_response__descriptor),
    METHOD("/muster.v1.Fleet/StateHash", state_hash, muster__v1__state_hash_request__descriptor,
           muster__v1__state_hash_response__descriptor),
    METHOD("/muster.v1.Fleet/PromiseBootstrap", promise_bootstrap,
           muster__v1__promise_bootstrap_request__descriptor,
           muster__v1__promise_bootstrap_response__descriptor),
    METHOD("/muster.v1.Fleet/BootstrapReplica", bootstrap_replica,
           muster__v1__bootstrap_replica_request__descriptor,
           muster__v1__bootstrap_replica_response__descriptor),
};

enum err replica_service_methods(struct replica_service *service, struct rpc_server *server,
                                 struct note *note)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(methods); i++) {
        struct rpc_method method = methods[i].method;
        method.handler = &methods[i].handler;
        method.service = service;
        err = rpc_server_add(server, &method, note);
    }
    return err;
}

enum err replica_service_open(const struct replica_service_options *options,
                              struct replica_service **ret_service)
{
    struct replica_service *service = calloc(1, sizeof *service);

    if (!service) return ERR_NOMEM;
    assert(options->machine_count <= REPLICA_MACHINES_MAX);
    service->io = options->io;
    if (options->log) service->log = *options->log;
    service->journal = options->journal;
    service->replica = options->replica;
    service->roster = options->roster;
    snprintf(service->name, sizeof service->name, "%s", options->name);
    snprintf(service->dir, sizeof service->dir, "%s", options->dir);
    memcpy(service->machines, options->machines,
           options->machine_count * sizeof service->machines[0]);
    service->machine_count = options->machine_count;
    service->cluster_known = options->cluster_known;
    service->owner = options->owner;
    *ret_service = service;
    return ERR_OK;
}

void replica_service_attach(struct replica_service *service, struct quorum *quorum)
{
    service->quorum = quorum;
}

void replica_service_close(struct replica_service *service)
{
    free(service);
}
