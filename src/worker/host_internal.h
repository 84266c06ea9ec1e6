/* SPDX-License-Identifier: Apache-2.0 */
/* Internals that the files of the worker's host share.
 *
 *   host.c         heartbeats, registration, the fence, draining, open and close
 *   host_calls.c   the calls to the coordinator, as messages
 *   host_parts.c   partitions: claim, work, write, return; the job; acknowledgements */
#ifndef WORKER_HOST_INTERNAL_H
#define WORKER_HOST_INTERNAL_H
#include "wire/pack.h"
#include "wire/pb/muster_v1_member.pb-c.h"
#include "worker/core/life.h"
#include "worker/core/tenure.h"
#include "worker/host.h"
#include "worker/intake.h"

/* A partition that this worker holds. While `busy`, only the processing thread may use it. */
struct held_partition {
    uint32_t partition;
    uint64_t token;
    struct partition_tally *tally;
    struct checkpoint checkpoint;
    bool dirty;
    bool busy;
    bool dropped; /* freed when the job ends */
    uint32_t failures;
    mono_time again;
};

struct part_job {
    struct job job;
    struct worker_host *host;
    struct held_partition *part;
    enum tenure_state state; /* CLAIM, WORK or LEAVE */
    boot_time good_until;    /* value at the job's creation; the present value is not lower */
    size_t records_max;      /* 0: read nothing */
    bool write;
    /* -- results of the processing thread -- */
    enum err err;
    struct note note;
    size_t lines;
    bool wrote;
    bool late; /* good_until passed before the job could write */
};

struct host_counts {
    uint64_t records, checkpoints, checkpoints_failed, fences, beats, beats_failed, claims;
    uint64_t partitions;
};

struct beat_answer {
    enum err err; /* ERR_OK: the coordinator acknowledged the heartbeat */
    enum grpc_status status;
    struct str text;
    bool has_epoch; /* false: the coordinator is the original program */
    uint64_t coord_epoch, incarnation, assignment_epoch, next_beat_ms;
    uint64_t fence_ms; /* worker_self_fence_timeout of the leader; 0: none sent */
    bool reset;
    bool in_use; /* refused: another process has this worker id */
    /* Fields of pending_control. */
    bool drain;
    uint64_t checkpoint_round; /* 0: no round was ordered */
};
enum host_call { CALL_REGISTER, CALL_LEAVE, CALL_ACK_REVOKE, CALL_ACK_CHECKPOINT, HOST_CALLS };

enum { INSTANCE_CAP = 33 };
enum drain { DRAIN_NO, DRAIN_WORK, DRAIN_ACK, DRAIN_LEAVE, DRAIN_DONE };

struct worker_host {
    struct worker_host_options options;
    struct host_counts counts;
    struct metric_fields *metrics; /* NULL: no metrics */
    struct worker_life life;
    struct tenures tenures;
    struct host_self {
        char instance[INSTANCE_CAP]; /* random id, 32 hex digits */
        uint64_t incarnation;        /* 0: not known yet */
        uint64_t assignment_epoch;
    } self;
    struct timer tick;
    struct timer idle; /* to read the input again */
    struct task pump;
    struct loop_worker *thread;
    struct part_job job;
    bool job_runs;
    mono_time job_began, load_since;
    uint64_t busy_ms; /* the thread's busy time since load_since */
    mono_time rate_next;
    /* -- calls to the coordinator service -- */
    struct rpc_channel *channel;
    struct buf request, row;
    bool beating;
    boot_time beat_sent; /* beat_*: of the heartbeat that has no answer yet */
    uint64_t beat_lease_ms, beat_timeout_ms;
    enum life_phase beat_phase;
    struct call_slot { /* at most one call of each kind runs */
        struct worker_host *host;
        bool running;
    } calls[HOST_CALLS];
    uint64_t register_interval_ms;
    struct rpc_client_call *watch;
    struct timer watch_again;
    uint32_t watch_failures;
    bool watch_wanted;
    /* -- checkpoint rounds -- */
    uint64_t round, round_acked;
    uint64_t round_sent; /* 0: no acknowledgement is running */
    char round_error[NOTE_CAP];
    /* -- draining -- */
    enum drain drain;
    struct timer drain_timer;
    bool drain_beat_over, drain_beat_ok;
    uint32_t beats_behind; /* answers in a row with a newer assignment than the worker's */
    bool legacy;           /* the coordinator is the original program: send only heartbeats */
    bool closing;
    void (*done)(void *owner);
    void *done_owner;
};

boot_time host_now(const struct worker_host *host);
/* Must be the first call in every event. False: this call fenced the worker. */
bool host_check_fence(struct worker_host *host);
void host_pump_soon(struct worker_host *host);
void host_drain_step(struct worker_host *host);
/* Called in a later turn of the loop than the call. */
void host_beat_answered(struct worker_host *host, const struct beat_answer *answer);
/* `response` NULL: `outcome` has the reason. */
void host_registered(struct worker_host *host, const struct rpc_outcome *outcome,
                     const Muster__V1__RegisterResponse *response);
void host_assigned(struct worker_host *host, const Muster__V1__AssignmentResponse *response,
                   struct grant *grants, size_t count);
void host_answered(struct worker_host *host, enum host_call call, enum err err);

/* -- host_calls.c -- */
enum err calls_open(struct worker_host *host, struct note *note); /* errors of rpc_channel_open */
/* Sends a heartbeat. False: nothing was sent, because an earlier heartbeat has no answer yet, or
 * after an error. */
bool beat_send(struct worker_host *host, enum life_phase phase, uint64_t timeout_ms, double load);
void call_register(struct worker_host *host, uint64_t interval_ms);
bool call_leave(struct worker_host *host, uint64_t incarnation, const char *reason);
/* Starts a request in host->request, with the fields that identify a registration. */
struct pack host_call_begin(struct worker_host *host, uint64_t incarnation);
/* Packs a RevokedPartition or CheckpointedPartition. `reference` may be empty. */
void call_pack_checkpoint(struct worker_host *host, struct pack *request, uint32_t field,
                          const struct tenure *row, const char *reference);
/* False: a call of this kind is running, or packing failed. */
bool call_send(struct worker_host *host, enum host_call which, const struct pack *request);
/* Opens the stream of assignments, and opens it again when it ends. A stream begins with the
 * current assignment. */
void watch_keep(struct worker_host *host);
void watch_end(struct worker_host *host);

/* -- host_parts.c -- */
void parts_drop_all(struct worker_host *host);
void parts_assign(struct worker_host *host, uint64_t assignment_epoch, struct grant *grants,
                  size_t count);
void parts_pump(struct task *task);
void parts_idle_over(struct timer *timer);
void rounds_begin(struct worker_host *host, uint64_t round);
void rounds_check(struct worker_host *host);
void rounds_acked(struct worker_host *host, enum err err);
void acks_send(struct worker_host *host);
#endif
