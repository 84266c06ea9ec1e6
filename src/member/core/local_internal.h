/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the leader's state. local.c has heartbeats and verdicts, rounds.c checkpoints. */
#ifndef MEMBER_CORE_LOCAL_INTERNAL_H
#define MEMBER_CORE_LOCAL_INTERNAL_H
#include "member/core/internal.h"
#include "member/core/local.h"

enum sentence { NO_SENTENCE, SENTENCE_DEAD, SENTENCE_EVICT, SENTENCE_LEFT, SENTENCE_RESTART };

struct local_worker {
    struct watched watched;
    struct member_local *local;
    struct worker *worker;
    uint64_t incarnation; /* incarnation that this struct describes */
    uint64_t version;     /* index of the log entry that last changed the worker's grants */
    enum member_phase phase;
    bool has_load, heard;
    bool admitted; /* this leader admitted or registered the worker */
    double load, load_mean;
    uint64_t load_ns, heard_ns; /* heard_ns: time of the last heartbeat that may be acknowledged */
    int64_t received_ms, due_ms;
    struct list suspected, changed, ready; /* ready: with an operation to propose */
    /* While the end of the incarnation is proposed but not applied, no heartbeat is
     * acknowledged. */
    struct list sentenced;
    enum sentence sentence;
    uint64_t sentence_ns;
    int64_t sentence_due_ms;
    struct member_instance next_instance; /* the new instance, with SENTENCE_RESTART */
    /* checkpoints: */
    struct list ask;
    uint64_t asked, answered; /* newest round that was asked, and that was answered */
    uint64_t asked_ns, answered_ns;
    uint32_t misses;
    bool timeout_reported;
};

/* A checkpoint reference that is not in the log yet. */
struct fresh {
    struct list link;
    uint32_t partition;
    uint64_t epoch, incarnation;
    int64_t wall_ms;
    struct str reference, worker;
    char texts[];
};

struct local_event {
    struct list link;
    struct member_event event;
    char worker[]; /* text of event.worker */
};

struct member_local {
    struct membership *m;
    struct member_local_options options;
    struct detect *detect;
    uint64_t scanned_ns, proposed_ns;
    uint64_t fair_ns; /* since this time no scan of the leader was late */
    struct list suspected, changed, ready, sentenced, asks;
    struct list fresh;
    struct fresh **fresh_of; /* index: partition number */
    uint32_t fresh_total;
    uint64_t round_ns, flushed_ns, timed_ns; /* of the last round, flush and timeout check */
    bool round_now, lifted;                  /* lifted: a suspicion ended after the last proposal */
    struct list events;                      /* not read yet */
    struct local_event *taken;               /* the event that was read last */
    struct member_local_counts counts;
};

/* With ERR_FULL the batch must be proposed first. */
struct batch {
    struct buf *into;
    size_t count;
    bool full;
    enum err err;
};
bool batch_put(struct batch *batch, const struct member_op *op);

void local_report(struct member_local *local, enum member_topic topic, const struct worker *worker,
                  int64_t wall_ms, const struct member_event *with);
struct local_worker *local_find(const struct member_local *local, struct str worker);

/* -- rounds.c -- */
void rounds_scan(struct member_local *local, uint64_t now_ns, int64_t wall_ms, struct batch *batch);
void rounds_close(struct member_local *local);
#endif
