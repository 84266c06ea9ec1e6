/* SPDX-License-Identifier: Apache-2.0 */
/* This replica's own membership. Executes the steps that fleet/join.h decides, after each change of
 * the replica and each response of the leader. Runs on the event loop's thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/service_internal.h"

/* -- this replica's entries in the log's configuration and the roster -- */

/* False also if an older identity has the same name, left by a leader that failed during the
 * admission. Joining again removes the older identity. */
static bool roster_is_right(const struct quorum *q)
{
    const struct roster_entry *known = roster_find(q->service->options.roster, q->self.entry.id),
                              *entries;
    size_t count = roster_entries(q->service->options.roster, &entries);
    struct roster_entry wanted;

    for (size_t i = 0; i < count; i++)
        if (entries[i].id != q->self.entry.id && strcmp(entries[i].name, q->self.entry.name) == 0)
            return false;
    wanted = roster_entry_at(&q->self.entry, replica_status(q->service->leader.replica).level);
    return known && roster_entry_equal(known, &wanted);
}

static struct join_view quorum_look(const struct quorum *q)
{
    struct replica_status status = replica_status(q->service->leader.replica);
    struct replica_member members[REPLICA_MEMBERS_MAX];
    size_t count = replica_members(q->service->leader.replica, members);
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

static void quorum_step(struct quorum *q, enum join_event event);

/* -- requests to join -- */

static void quorum_on_answered(void *owner, size_t, const struct rpc_client_call *call,
                               const struct rpc_outcome *outcome, const ProtobufCMessage *message)
{
    struct quorum *q = owner;
    const Muster__V1__JoinReplicaResponse *of = (const void *)message;
    struct str leader;

    if (of && of->voter)
        LOG_DEBUG(&q->service->log, "the leader answered that this replica is a voter");
    else if (of)
        LOG_INFO(&q->service->log, "waiting to be admitted to the cluster",
                 log_text("for", of->waiting));
    else if (outcome->status == GRPC_FAILED_PRECONDITION &&
             !rpc_call_trailer(call, STR(RPC_LEADER_TRAILER), &leader))
        /* The leader refused a replica of another cluster. A retry would fail, too. */
        LOG_ERROR(&q->service->log,
                  "the cluster rejected this replica: it serves nothing until the cause is fixed",
                  log_str("why", outcome->text));
    else
        LOG_INFO(&q->service->log, "not yet admitted to the cluster: asking again",
                 log_err("err", outcome->err), log_str("why", outcome->text));
}

/* The round is empty if no join address resolves. */
static void quorum_on_over(void *owner, size_t)
{
    quorum_step(owner, JOIN_ANSWERED);
}

static void quorum_ask(struct quorum *q)
{
    Muster__V1__JoinReplicaRequest request = MUSTER__V1__JOIN_REPLICA_REQUEST__INIT;
    enum err err;

    request.replica_id = q->self.entry.id;
    request.name = q->self.entry.name;
    request.raft_address = q->self.raft;
    request.grpc_address = q->self.entry.grpc;
    request.http_address = q->self.entry.http;
    request.etcd_address = q->self.entry.etcd;
    request.cluster_id = replica_status(q->service->leader.replica).cluster_id;
    err = survey_begin(q->survey, &request.base);
    if (!err) return;
    LOG_INFO(&q->service->log, "the request to join could not be sent", log_err("err", err));
    quorum_step(q, JOIN_ANSWERED);
}

static void quorum_on_fixed(void *owner, enum err err, const struct note *note)
{
    struct quorum *q = owner;

    if (err && !q->stopping)
        LOG_INFO(&q->service->log, "the roster entry of this replica is not updated yet",
                 log_err("err", err), log_text("why", note->text));
    if (!q->stopping) quorum_step(q, JOIN_ANSWERED);
}

static void quorum_fix(struct quorum *q)
{
    mono_time until = mono_after(loop_now(q->service->io->loop), JOIN_CALL_MS);
    struct admit_request request = q->self;
    struct admission *admission;

    request.cluster_id = replica_status(q->service->leader.replica).cluster_id;
    if (quorum_admit(q, &request, STR("muster"), until, quorum_on_fixed, q, &admission))
        quorum_step(q, JOIN_ANSWERED);
}

static void quorum_step(struct quorum *q, enum join_event event)
{
    struct join_view view = quorum_look(q);
    struct join_effects effects = join_step(&q->join, event, &view, loop_now(q->service->io->loop));

    timer_stop(&q->look_timer);
    if (effects.settled)
        LOG_INFO(&q->service->log, "joined the cluster as a voter", log_text("raft", q->self.raft));
    if (effects.removed)
        LOG_WARN(&q->service->log,
                 "removed from the cluster: this replica stays out until a restart");
    if (effects.wake_at.ms != MONO_NEVER.ms) timer_start(&q->look_timer, effects.wake_at);
    if (effects.ask) quorum_ask(q); /* last, because a failure calls quorum_step again */
    if (effects.fix) quorum_fix(q);
}

static void quorum_on_look(struct timer *timer)
{
    quorum_step(CONTAINER_OF(timer, struct quorum, look_timer), JOIN_LOOK);
}

void quorum_on_change(struct quorum *quorum, const struct replica_status *status)
{
    bool leads = status->role == REPLICA_LEADER && status->ready;

    if (!leads)
        quorum->leading_since = (mono_time){0};
    else if (quorum->leading_since.ms == 0)
        quorum->leading_since = loop_now(quorum->service->io->loop);
    if (!quorum->stopping) quorum_step(quorum, JOIN_LOOK);
}

uint64_t quorum_leading_ms(const struct quorum *quorum)
{
    if (quorum->leading_since.ms == 0) return 0;
    return mono_elapsed_ms(quorum->leading_since, loop_now(quorum->service->io->loop));
}

/* -- life -- */

enum err fleet_service_join(struct fleet_service *service, const struct fleet_join *join,
                            struct note *note)
{
    struct quorum *q = calloc(1, sizeof *q);
    struct survey_options survey = {.to = join->to,
                                    .to_leader = true,
                                    .path = "/muster.v1.Fleet/JoinReplica",
                                    .answer = &muster__v1__join_replica_response__descriptor,
                                    .timeout_ms = JOIN_CALL_MS,
                                    .answered = quorum_on_answered,
                                    .over = quorum_on_over,
                                    .owner = q};
    enum err err;

    if (!q) return ERR_NOMEM;
    survey.to.self = join->self.grpc;
    q->service = service;
    q->self.entry = join->self;
    q->self.entry.id = replica_status(service->leader.replica).id;
    snprintf(q->self.raft, sizeof q->self.raft, "%s", join->raft);
    list_init(&q->admissions);
    err = roster_entry_valid(&q->self.entry) && strlen(join->raft) <= REPLICA_ADDRESS_MAX
              ? ERR_OK
              : ERR_INVALID;
    if (err) note_set(note, "id and addresses are visible characters, at most 63 and 255");
    if (!err) err = survey_open(&survey, &q->survey, note);
    if (!err) err = rival_open(q, &survey.to, note);
    if (!err) err = timer_init(&q->look_timer, service->io->loop, quorum_on_look);
    if (err) {
        survey_close(q->survey, NULL, NULL);
        survey_close(q->rival.survey, NULL, NULL);
        quorum_close(q);
        return err;
    }
    timer_start_in(&q->look_timer, 0);
    service->quorum = q;
    return ERR_OK;
}

static void quorum_on_closed(void *owner)
{
    struct quorum *q = owner;

    if (--q->closing == 0 && q->stopped) q->stopped(q->stopped_owner);
}

void quorum_stop(struct quorum *quorum, void (*done)(void *owner), void *owner)
{
    if (!quorum || (quorum->stopping && quorum->closing == 0)) {
        if (done) done(owner);
        return;
    }
    quorum->stopped = done;
    quorum->stopped_owner = owner;
    if (quorum->stopping) return;
    quorum->stopping = true;
    quorum->closing = 2;
    timer_stop(&quorum->look_timer);
    task_cancel(&quorum->rival.ask);
    admissions_stop(quorum);
    survey_close(quorum->survey, quorum_on_closed, quorum);
    survey_close(quorum->rival.survey, quorum_on_closed, quorum);
}

void quorum_close(struct quorum *quorum)
{
    if (!quorum) return;
    assert(quorum->closing == 0);
    assert(list_empty(&quorum->admissions)); /* closing the replica has ended all admissions */
    timer_deinit(&quorum->look_timer);
    free(quorum);
}
