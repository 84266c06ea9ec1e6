/* SPDX-License-Identifier: Apache-2.0 */
/* The leader's half, inside. local.c has beats and verdicts, rounds.c the checkpoints. */
#ifndef MEMBER_CORE_LOCAL_INTERNAL_H
#define MEMBER_CORE_LOCAL_INTERNAL_H
#include "member/core/internal.h"
#include "member/core/local.h"

enum sentence { NO_SENTENCE, SENTENCE_DEAD, SENTENCE_EVICT, SENTENCE_LEFT, SENTENCE_RESTART };

struct local_worker {
    struct watched watched;
    struct member_local *local;
    struct worker *worker;
    uint64_t incarnation; /* that all of this is about */
    uint64_t version;     /* of the entry that last touched it */
    enum member_phase phase;
    bool has_load, heard;
    bool admitted; /* or registered, by this leader */
    double load, load_mean;
    uint64_t load_ns, heard_ns; /* heard: the last beat that may be acknowledged */
    int64_t received_ms, due_ms;
    struct list suspected, changed, ready; /* ready: to be proposed */
    /* what was proposed about it, until it is so; then no beat is acknowledged */
    struct list sentenced;
    enum sentence sentence;
    uint64_t sentence_ns;
    int64_t sentence_due_ms;
    struct member_instance next_instance; /* RESTART */
    /* checkpoints */
    struct list ask;          /* to be pushed */
    uint64_t asked, answered; /* rounds */
    uint64_t asked_ns, answered_ns;
    uint32_t misses;
    bool timeout_reported;
};

/* A reference that the log does not have yet. */
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
    char worker[]; /* its text */
};

struct member_local {
    struct membership *m;
    struct member_local_options options;
    struct detect *detect;
    uint64_t scanned_ns, proposed_ns;
    uint64_t fair_ns; /* since when it has not been slow */
    struct list suspected, changed, ready, sentenced, asks;
    struct list fresh;
    struct fresh **fresh_of; /* by partition */
    uint32_t fresh_total;
    uint64_t round_ns, flushed_ns, timed_ns; /* when they last were */
    bool round_now, lifted;    /* lifted: a suspicion, since something was last proposed */
    struct list events;        /* that were not asked for yet */
    struct local_event *taken; /* the last that was */
    struct member_local_counts counts;
};

/* An operation into the batch; ERR_FULL: propose first. */
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
