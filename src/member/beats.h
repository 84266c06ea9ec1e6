/* SPDX-License-Identifier: Apache-2.0 */
/* Beats that wait for their answer.
 *
 * On the leader those of BEATS_GATHER_MS share one leadership round, which began after they had
 * come: a deposed leader keeps nobody alive. On a follower as many go to the leader in one call,
 * and its answers go to the callers here. Whatever happens, each beat is answered within
 * reply_max_ms: a worker that waits for ever cannot be stopped.
 *
 * Knows calls and rounds; what a beat does to a worker is service_beat.c's. All on the loop's
 * thread. */
#ifndef MEMBER_BEATS_H
#define MEMBER_BEATS_H
#include "member/beat.h"
#include "rpc/server.h"

struct beats;
struct beat_batch;
struct member_service;
enum { BEATS_GATHER_MS = 20, BEATS_PASS_MAX = 500 };

struct beat_call {    /* the module's memory; the service may keep it while it owes the answer */
    struct list link; /* where it waits; the service's own list while it is kept */
    struct list age;
    struct rpc_call *call;    /* NULL: answered, gone, or of a batch */
    struct beat_batch *batch; /* passed on to us; NULL: answered, or not */
    uint32_t place;           /* in it */
    mono_time since;
    wall_time at;
    struct beat_said said;
    uint64_t incarnation; /* the service's */
};
enum beats_way {
    BEATS_ROUND, /* it is fine; beat_acknowledge() comes behind a leadership round */
    BEATS_KEPT,  /* in a list of the service's, until it calls beats_over */
    BEATS_OVER,  /* answered already: beats_ack or beats_refuse was called */
};
/* Beats go to the leader on the way of the service's forwarder, which must outlive them. */
enum err beats_open(struct member_service *service, struct beats **ret_beats);
/* The server is closed and the replica, too: those that still wait are let go. */
void beats_stop(struct beats *beats);
void beats_close(struct beats *beats); /* the way to the leader is gone; NULL is fine */

/* What every acknowledgement says beside its own. Texts are copied. */
struct beats_facts {
    uint64_t coord_epoch, assignment_epoch;
    uint64_t next_beat_ms; /* advised; 0: as configured, and not said */
    /* The leader's worker_self_fence_timeout: a worker that registered under another one registers
     * again. 0: not known (an older leader), and not said. */
    uint64_t self_fence_ms;
    const char *leader; /* "": not said */
};
void beats_set_facts(struct beats *beats, const struct beats_facts *facts);

/* -- answers; each once. The beat is the module's again, but for one that was KEPT: then it is
 * until beats_over(). -- */
struct beat_ack {
    uint64_t incarnation; /* 0: not said */
    bool reset;
    bool has_drift;
    int64_t drift_ms;
    bool has_control;
    struct str control; /* an encoded ControlPush */
};
void beats_ack(struct beats *beats, struct beat_call *beat, const struct beat_ack *ack);
void beats_refuse(struct beats *beats, struct beat_call *beat, enum grpc_status status,
                  const char *text);
void beats_over(struct beats *beats, struct beat_call *beat); /* kept no longer, answered or not */
void beats_lost(struct beats *beats, const char *why); /* leadership: rounds end, unavailable */

/* -- methods: Heartbeat/Beat and Membership/PassBeats; their service is struct beats -- */
extern const struct rpc_handler beats_handler, beats_pass_handler;

struct beats_stats {
    uint64_t came; /* those that are passed on, too */
    uint64_t acknowledged, refused, overdue, rounds, passed, batches;
    size_t waiting;
};
struct beats_stats beats_stats(const struct beats *beats);
#endif
