/* SPDX-License-Identifier: Apache-2.0 */
/* Checks heartbeats, passes them to core/local.h, and answers. Loop's thread, leader only. */
#include "cert/workers.h"
#include "member/events/events.h"
#include "member/service_internal.h"

#include <stdlib.h>

#define NOT_READY "the leader is not ready yet"
#define OF_NOBODY UINT64_MAX /* an incarnation that no worker has */
enum { LEASE_INTERVALS = 2 };

struct beat_wait { /* a heartbeat that waits for a proposal */
    struct operation_wait wait;
    struct member_service *service;
    struct beat_call *beat;
};

/* -- whether a caller may act for a worker -- */

bool speaks_for(const struct member_service *service, const struct rpc_call *call,
                struct str worker, struct note *note)
{
    const struct tls_identity *peer = rpc_call_identity(call);
    struct ulid id;

    if (!service->options.bind_identity || !peer) return true;
    if (!ulid_parse(worker, &id, NULL) && cert_is_worker(peer, &id)) return true;
    note_set(note, "the certificate is not worker-%.*s's", STR_ARG(worker));
    return false;
}

bool beat_admit(struct member_service *service, struct rpc_call *call, const struct beat_said *said)
{
    struct note note;

    if (!service->options.any_run && strcmp(said->run, service->run) != 0) {
        note_set(&note, "run_id: %s, and this is run %s", said->run, service->run);
        rpc_finish(call, GRPC_FAILED_PRECONDITION, str_from(note.text), STR_EMPTY);
        return false;
    }
    if (speaks_for(service, call, str_from(said->worker), &note)) return true;
    rpc_finish(call, GRPC_PERMISSION_DENIED, str_from(note.text), STR_EMPTY);
    return false;
}

/* -- two processes with one worker id -- */

void id_in_use(const struct member_service *service, struct str worker,
               const struct member_in_use *in_use, struct note *ret_why)
{
    note_set(ret_why, "worker id %.*s is in use by another process, %s %llu ms ago",
             STR_ARG(worker),
             in_use->heard ? "heard" : "not heard yet by this leader, which took over",
             (unsigned long long)in_use->silent_ms);
    LOG_WARN(&service->log, "rejected a second process with a worker id that is in use",
             log_str("worker", worker), log_u64("heard_ms_ago", in_use->silent_ms));
}

/* -- answers -- */

static struct str service_beat_worker_of(const struct beat_call *beat)
{
    return str_of(beat->said.worker, ULID_LEN);
}

static uint64_t service_beat_lease_of(const struct member_service *service,
                                      const struct member_worker *worker)
{
    return worker->lease_ms
               ? worker->lease_ms
               : LEASE_INTERVALS * service->options.local.detect.heartbeat_interval_ns / NS_PER_MS;
}

static void ack(struct member_service *service, struct beat_call *beat,
                const struct member_worker *worker, bool reset)
{
    struct beat_ack answer = {.incarnation = worker ? worker->incarnation : 0, .reset = reset};

    if (worker && beat->said.has_due) {
        answer.has_drift = true;
        answer.drift_ms = (int64_t)(beat->at.ms + service_beat_lease_of(service, worker)) -
                          (int64_t)beat->said.due_ms;
    }
    buf_clear(&service->inner);
    answer.has_control = control_take(service, service_beat_worker_of(beat), &service->inner);
    answer.control = buf_peek(&service->inner);
    beats_ack(&service->beats, beat, &answer);
}

void beat_acknowledge(struct member_service *service, struct beat_call *beat)
{
    struct member_worker worker;

    if (!service->serving || member_local_judged(service->local, service_beat_worker_of(beat))) {
        beats_refuse(&service->beats, beat, GRPC_UNAVAILABLE, "a decision about it is on its way");
    } else if (!member_find_worker(membership_of(service), service_beat_worker_of(beat), &worker)) {
        ack(service, beat, NULL, beat->incarnation != 0);
    } else {
        /* The incarnation may have ended since the heartbeat arrived. 0: no incarnation to
         * compare. */
        bool over = beat->incarnation &&
                    (worker.incarnation != beat->incarnation || worker.standing != MEMBER_ACTIVE);
        ack(service, beat, &worker, over);
    }
}

/* -- records of the heartbeat -- */

static void note_beat(struct member_service *service, const struct beat_call *beat)
{
    ledger_beat(service, beat);
    if (service->options.events)
        member_events_heartbeat(service->options.events, service_beat_worker_of(beat));
}

/* -- heartbeats that wait for a proposal -- */

static void on_decided(struct operation_wait *wait, enum err err, const struct member_reply *reply)
{
    struct beat_wait *mine = CONTAINER_OF(wait, struct beat_wait, wait);
    struct member_service *service = mine->service;
    struct beat_call *beat = mine->beat;
    struct member_result result = {0};
    struct member_worker worker;

    if (!err) result = member_reply_result(reply, wait->first);
    if (err || !service->serving) {
        beats_refuse(&service->beats, beat, GRPC_UNAVAILABLE,
                     "what it changes could not be written down");
    } else if (result.status == MEMBER_S_DONE || result.status == MEMBER_S_SAME) {
        member_local_admitted(service->local, service_beat_worker_of(beat),
                              (enum member_phase)beat->said.phase, now_ns(service));
        lead_write_events(service); /* REGISTERED is written before the first heartbeat event */
        note_beat(service, beat);
        if (member_find_worker(membership_of(service), service_beat_worker_of(beat), &worker))
            ack(service, beat, &worker, result.admitted && worker.incarnation > 1);
        else
            ack(service, beat, NULL, false); /* the worker is already removed again */
    } else if (member_grpc(result.status) == GRPC_FAILED_PRECONDITION) {
        ack(service, beat, NULL, true);
    } else {
        beats_refuse(&service->beats, beat, member_grpc(result.status),
                     member_status_text(result.status));
    }
    beats_over(&service->beats, beat);
    free(mine);
}

static enum beats_way propose(struct member_service *service, struct beat_call *beat,
                              const struct member_op *op)
{
    struct beat_wait *mine = calloc(1, sizeof *mine);

    if (mine) *mine = (struct beat_wait){.service = service, .beat = beat};
    if (!mine || !batch_one(service, op, &mine->wait, on_decided)) {
        free(mine);
        beats_refuse(&service->beats, beat, GRPC_UNAVAILABLE, "too much is under way");
        return BEATS_OVER;
    }
    return BEATS_KEPT;
}

/* -- received heartbeats -- */

static struct member_beat as_the_core_sees_it(const struct beat_call *beat)
{
    const struct beat_said *said = &beat->said;
    struct member_beat heard = {
        .worker = service_beat_worker_of(beat),
        .phase = (enum member_phase)said->phase,
        .due = {.has_due = said->has_due, .due_wall_ms = (int64_t)said->due_ms},
        .incarnation = said->incarnation,
        .has_load = said->load >= 0 || said->load_unread,
        .load = said->load_unread ? -1 : (double)said->load / BEAT_LOAD_WHOLE,
    };

    if (said->has_instance) memcpy(heard.instance.b, said->instance, sizeof heard.instance.b);
    return heard;
}

enum beats_way beat_heard(struct member_service *service, struct beat_call *beat)
{
    struct member_beat core;
    struct member_heard how;
    struct member_op op;
    struct note note;

    if (!service->serving) {
        beats_refuse(&service->beats, beat, GRPC_UNAVAILABLE, NOT_READY);
        return BEATS_OVER;
    }
    core = as_the_core_sees_it(beat);
    how = member_local_beat(service->local, &core, now_ns(service), (int64_t)beat->at.ms, &op);
    if (how.recovered) {
        service->changes++;
        loop_defer(service->io->loop, &service->after);
    }
    switch (how.verdict) {
    case MEMBER_BEAT_ACK:
        beat->incarnation = how.incarnation;
        note_beat(service, beat);
        return BEATS_ROUND;
    case MEMBER_BEAT_PROPOSE: return propose(service, beat, &op);
    case MEMBER_BEAT_WAIT:
        beats_refuse(&service->beats, beat, GRPC_UNAVAILABLE, "a decision about it is on its way");
        return BEATS_OVER;
    case MEMBER_BEAT_RESET:
        /* The answer waits for a leadership round, because a deposed leader may be wrong. */
        beat->incarnation = OF_NOBODY;
        return BEATS_ROUND;
    case MEMBER_BEAT_IGNORE: beat->incarnation = 0; return BEATS_ROUND;
    case MEMBER_BEAT_UNKNOWN:
        beats_refuse(&service->beats, beat, GRPC_NOT_FOUND, "unknown worker");
        return BEATS_OVER;
    case MEMBER_BEAT_IN_USE:
        id_in_use(service, service_beat_worker_of(beat), &how.in_use, &note);
        beats_refuse(&service->beats, beat, GRPC_ALREADY_EXISTS, note.text);
        return BEATS_OVER;
    }
    assert(false);
    return BEATS_OVER;
}
