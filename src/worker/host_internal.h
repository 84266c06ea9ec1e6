/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the worker's host share.
 *
 *   host.c         beats, registration, the fence, draining, life
 *   host_parts.c   partitions: claiming, working, writing, giving back; the one job
 *   host_rounds.c  what the service is told of checkpoints and revocations */
#ifndef WORKER_HOST_INTERNAL_H
#define WORKER_HOST_INTERNAL_H
#include "worker/core/life.h"
#include "worker/core/tenure.h"
#include "worker/host.h"
#include "worker/intake.h"
#include "worker/link.h"

enum { ACKS_MAX = 65536 };

/* A partition in our hands; while `busy`, the processing thread's. */
struct held_partition {
    uint32_t partition;
    uint64_t token;
    struct tally *tally;
    struct checkpoint checkpoint;
    bool dirty;   /* the tally is ahead of the checkpoint */
    bool busy;    /* a job has it */
    bool dropped; /* meanwhile: whoever has it frees it */
    uint32_t failures;
    mono_time again; /* not before this */
};

enum job_kind { JOB_CLAIM, JOB_WORK, JOB_LEAVE };
struct part_job {
    struct job job;
    struct worker_host *host;
    struct held_partition *part;
    enum job_kind kind;
    boot_time good_until; /* as it was when the job was made: never later than it is now */
    size_t records_max;   /* 0: read nothing */
    bool write;
    /* -- what came of it -- */
    enum err err;
    struct note note;
    size_t lines;
    bool wrote;
    bool late; /* its own time was up */
};

struct host_counts { /* as metrics, from tick to tick */
    uint64_t records, checkpoints, checkpoints_failed, fences, beats, beats_failed, claims;
    uint64_t partitions; /* held */
};

enum drain { DRAIN_NO, DRAIN_WORK, DRAIN_ACK, DRAIN_LEAVE, DRAIN_DONE };

struct worker_host {
    struct worker_host_options options;
    struct host_counts counts;
    struct metric_fields *metrics; /* NULL without a registry */
    struct worker_life life;
    struct tenures tenures;
    struct link *link;
    struct link_self self;
    struct timer tick; /* beats and the fence */
    struct timer idle; /* input is looked at again */
    struct task pump;
    struct loop_worker *thread;
    struct part_job job;
    bool job_runs;
    mono_time job_began, load_since;
    uint64_t busy_ms; /* of the thread, since load_since */
    mono_time rate_next;
    /* -- told to the service -- */
    struct link_checkpoint *acks; /* until they are answered */
    size_t ack_count, ack_cap, acks_sent;
    uint64_t round, round_acked;
    uint64_t round_told; /* whose acknowledgement is under way; 0: none */
    char round_error[NOTE_CAP];
    /* -- draining -- */
    enum drain drain;
    struct timer drain_timer;
    bool drain_beat_sent; /* DRAINING was said */
    bool drain_beat_over, drain_beat_ok;
    enum life_phase beat_phase; /* of the beat that is under way */
    uint32_t beats_behind;      /* in a row that told of a newer assignment than we have */
    bool legacy;                /* a coordinator without our interface: beats only */
    bool closing;
    void (*done)(void *owner);
    void *done_owner;
};

boot_time host_now(const struct worker_host *host);
/* Looks at the fence; to be called first in every event. False: it fell now. */
bool host_look(struct worker_host *host);
void host_pump_soon(struct worker_host *host);
void host_drain_on(struct worker_host *host); /* the next step, if it is time for it */

/* -- host_parts.c -- */
void parts_drop_all(struct worker_host *host);
void parts_assign(struct worker_host *host, const struct link_assignment *assignment);
void parts_pump(struct task *task);
void parts_idle_over(struct timer *timer);
void part_reference(const struct worker_host *host, const struct held_partition *part,
                    char text[CHECKPOINT_REFERENCE_CAP]);

/* -- host_rounds.c -- */
void rounds_begin(struct worker_host *host, uint64_t round);
void rounds_failed(struct worker_host *host, const struct note *note);
void rounds_look(struct worker_host *host); /* is the round finished? */
void rounds_acked(struct worker_host *host, enum err err);
void acks_add(struct worker_host *host, const struct held_partition *part, uint32_t partition,
              uint64_t token);
void acks_send(struct worker_host *host);
void acks_answered(struct worker_host *host, enum err err);
void acks_forget(struct worker_host *host);
#endif
