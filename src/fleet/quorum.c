/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/quorum_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/message.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

enum {
    ANSWER_ARENA_MAX = 1 << 20,
    REQUEST_MAX = 4096,
    ASK_AGAIN_MAX_MS = 500, /* within one request, while nobody leads */
};

/* -- what we know of ourselves -- */

/* Our entry is as it should be, and the only one of our name: what is left of an older identity
 * goes when we ask, should the leader that admitted us have died before it was done. */
static bool roster_is_right(const struct quorum *q)
{
    const struct roster_entry *known = roster_find(q->roster, q->self.entry.id), *entries;
    size_t count = roster_entries(q->roster, &entries);
    struct roster_entry wanted;

    for (size_t i = 0; i < count; i++)
        if (entries[i].id != q->self.entry.id && strcmp(entries[i].name, q->self.entry.name) == 0)
            return false;
    wanted = roster_entry_at(&q->self.entry, replica_status(q->replica).level);
    return known && roster_entry_equal(known, &wanted);
}

static struct join_view look(const struct quorum *q)
{
    struct replica_status status = replica_status(q->replica);
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(q->replica, members);
    struct join_view view = {
        .leader_known = status.leader_id != 0,
        .leads = status.role == REPLICA_LEADER,
        .ready = status.ready,
        .member = status.member,
        .voter = status.voter,
    };
    for (size_t i = 0; i < count; i++)
        if (members[i].self && strcmp(members[i].address, q->self.raft) == 0)
            view.in_place = roster_is_right(q);
    return view;
}

static void step(struct quorum *q, enum join_event event);

/* -- asking for our place -- */

static void on_answered(struct task *task)
{
    step(CONTAINER_OF(task, struct quorum, answered), JOIN_ANSWERED);
}

static void stop_on(struct quorum *q)
{
    if (q->stopping && !q->channel) loop_defer(q->io->loop, &q->stop_task);
}

static void channel_closed(void *owner)
{
    struct quorum *q = owner;

    q->channel = NULL;
    q->channel_closing = false;
    if (q->stopping)
        stop_on(q);
    else
        step(q, JOIN_ANSWERED);
}

static void close_channel(struct quorum *q)
{
    if (!q->channel || q->channel_closing) return;
    q->channel_closing = true;
    rpc_channel_close(q->channel, channel_closed, q);
}

static void say_answer(struct quorum *q, struct str bytes)
{
    ProtobufCMessage *message;
    struct arena arena;

    arena_init(&arena, ANSWER_ARENA_MAX);
    if (!message_read(&muster__v1__join_replica_response__descriptor, bytes, NULL, &arena, &message,
                      NULL)) {
        const Muster__V1__JoinReplicaResponse *of =
            (const Muster__V1__JoinReplicaResponse *)message;
        if (of->voter)
            LOG_DEBUG(&q->log, "the leader says we are a voter");
        else
            LOG_INFO(&q->log, "waiting for our place", log_text("for", of->waiting));
    }
    arena_deinit(&arena);
}

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct quorum *q = owner;
    struct str leader;

    if (!outcome->err)
        say_answer(q, message);
    else if (!q->stopping && outcome->status == GRPC_FAILED_PRECONDITION &&
             !rpc_call_trailer(call, STR(RPC_LEADER_TRAILER), &leader))
        /* The leader's own refusal: another cluster. Asking again does not help. */
        LOG_ERROR(&q->log,
                  "the cluster refuses this replica; this replica serves nothing until the cause "
                  "is fixed",
                  log_str("why", outcome->text));
    else if (!q->stopping)
        LOG_INFO(&q->log, "not joined yet", log_err("err", outcome->err),
                 log_str("why", outcome->text));
    close_channel(q);
}

static enum err encode_request(struct quorum *q, struct buf *into)
{
    Muster__V1__JoinReplicaRequest request = MUSTER__V1__JOIN_REPLICA_REQUEST__INIT;

    request.replica_id = q->self.entry.id;
    request.name = q->self.entry.name;
    request.raft_address = q->self.raft;
    request.grpc_address = q->self.entry.grpc;
    request.http_address = q->self.entry.http;
    request.etcd_address = q->self.entry.etcd;
    request.cluster_id = replica_status(q->replica).cluster_id;
    return message_write(&request.base, into, NULL);
}

static void on_targets(void *owner, const char *const *list, const char *tls_name)
{
    struct quorum *q = owner;
    struct rpc_channel_options options = {
        .io = q->io, .addresses = list, .tls = q->tls, .tls_name = tls_name, .follow_leader = true};
    struct rpc_call_options call = {
        .path = "/muster.v1.Fleet/JoinReplica", .timeout_ms = JOIN_CALL_MS, .idempotent = true};
    struct note note = {""};
    struct buf bytes;
    enum err err;

    q->finding = false;
    buf_init(&bytes, REQUEST_MAX);
    err = list[0] ? encode_request(q, &bytes) : ERR_NOT_FOUND;
    if (!err) err = rpc_channel_open(&options, &q->channel, &note);
    if (!err) err = rpc_unary(q->channel, &call, buf_peek(&bytes), on_answer, q, NULL);
    buf_deinit(&bytes);
    if (!err) return;
    LOG_INFO(&q->log, "could not ask for our place", log_err("err", err),
             log_text("why", note.text));
    if (q->channel)
        close_channel(q);
    else
        loop_defer(q->io->loop, &q->answered);
}

static void ask(struct quorum *q)
{
    if (targets_count(q->targets) == 0) { /* waits to be added by somebody, or for its own vote */
        loop_defer(q->io->loop, &q->answered);
        return;
    }
    q->finding = true;
    targets_find(q->targets, on_targets, q);
}

static void on_fixed(void *owner, enum err err, const struct note *note)
{
    struct quorum *q = owner;

    if (err && !q->stopping)
        LOG_INFO(&q->log, "our own entry is not in order yet", log_err("err", err),
                 log_text("why", note->text));
    if (!q->stopping) step(q, JOIN_ANSWERED);
}

static void fix(struct quorum *q)
{
    mono_time until = mono_after(loop_now(q->io->loop), JOIN_CALL_MS);
    struct admit_request request = q->self;
    struct admission *admission;

    request.cluster_id = replica_status(q->replica).cluster_id;
    if (quorum_admit(q, &request, STR("muster"), until, on_fixed, q, &admission))
        loop_defer(q->io->loop, &q->answered);
}

static void step(struct quorum *q, enum join_event event)
{
    struct join_view view = look(q);
    struct join_effects effects = join_step(&q->join, event, &view, loop_now(q->io->loop));

    timer_stop(&q->look_timer);
    if (effects.settled) LOG_INFO(&q->log, "a voter in its place", log_text("raft", q->self.raft));
    if (effects.removed)
        LOG_WARN(&q->log, "removed from the cluster; it stays out until it is started anew");
    if (effects.ask) ask(q);
    if (effects.fix) fix(q);
    if (effects.wake_at.ms != MONO_NEVER.ms) timer_start(&q->look_timer, effects.wake_at);
}

static void on_look(struct timer *timer)
{
    step(CONTAINER_OF(timer, struct quorum, look_timer), JOIN_LOOK);
}

void quorum_on_change(struct quorum *quorum, const struct replica_status *status)
{
    bool leads = status->role == REPLICA_LEADER && status->ready;

    if (!leads)
        quorum->leading_since = (mono_time){0};
    else if (quorum->leading_since.ms == 0)
        quorum->leading_since = loop_now(quorum->io->loop);
    if (!quorum->stopping) step(quorum, JOIN_LOOK);
}

uint64_t quorum_leading_ms(const struct quorum *quorum)
{
    if (quorum->leading_since.ms == 0) return 0;
    return mono_elapsed_ms(quorum->leading_since, loop_now(quorum->io->loop));
}

/* -- life -- */

static void on_stop_task(struct task *task)
{
    struct quorum *q = CONTAINER_OF(task, struct quorum, stop_task);
    q->stopped(q->stopped_owner);
}

enum err quorum_open(const struct quorum_options *options, struct quorum **ret_quorum,
                     struct note *note)
{
    struct targets_options targets = {.io = options->io,
                                      .addresses = options->join_addresses,
                                      .self = options->self.grpc,
                                      .look_up = options->look_up};
    struct quorum *q = calloc(1, sizeof *q);
    enum err err;

    if (!q) return ERR_NOMEM;
    q->io = options->io;
    if (options->log) q->log = *options->log;
    q->replica = options->replica;
    q->roster = options->roster;
    q->tls = options->tls;
    q->self.entry = options->self;
    q->self.entry.id = replica_status(q->replica).id;
    snprintf(q->self.raft, sizeof q->self.raft, "%s", options->raft);
    list_init(&q->admissions);
    task_init(&q->answered, on_answered);
    task_init(&q->stop_task, on_stop_task);
    err = roster_entry_valid(&q->self.entry) && strlen(options->raft) <= REPLICA_ADDRESS_MAX
              ? ERR_OK
              : ERR_INVALID;
    if (err) note_set(note, "id and addresses are visible characters, at most 63 and 255");
    if (!err) err = targets_open(&targets, &q->targets, note);
    if (!err) err = timer_init(&q->look_timer, q->io->loop, on_look);
    if (err) {
        quorum_close(q);
        return err;
    }
    timer_start_in(&q->look_timer, 0);
    *ret_quorum = q;
    return ERR_OK;
}

void quorum_stop(struct quorum *quorum, void (*done)(void *owner), void *owner)
{
    quorum->stopping = true;
    quorum->stopped = done;
    quorum->stopped_owner = owner;
    timer_stop(&quorum->look_timer);
    task_cancel(&quorum->answered);
    targets_close(quorum->targets);
    quorum->targets = NULL;
    admissions_stop(quorum);
    close_channel(quorum);
    stop_on(quorum);
}

void quorum_close(struct quorum *quorum)
{
    if (!quorum) return;
    assert(list_empty(&quorum->admissions)); /* the replica is closed: it has ended them */
    assert(!quorum->channel);
    task_cancel(&quorum->answered);
    task_cancel(&quorum->stop_task);
    timer_deinit(&quorum->look_timer);
    targets_close(quorum->targets);
    free(quorum);
}
