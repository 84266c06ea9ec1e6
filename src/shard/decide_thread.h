/* SPDX-License-Identifier: Apache-2.0 */
/* The decide thread owns the core and runs every job that reads or changes it.
 *
 * A job is an event with what it needs in it. The loop submits jobs; the thread runs them in order,
 * many in a batch; the effects of a batch are carried out on the loop, in order, a slice per turn so
 * that forty thousand calls do not hold the loop. Only then the jobs of the batch are done: at done()
 * everything that the job caused is on its way.
 *
 * Nothing is shared: a job and its bytes are the thread's from decide_thread_submit() to done(). */
#ifndef SHARD_DECIDE_THREAD_H
#define SHARD_DECIDE_THREAD_H
#include "io/io.h"
#include "provider/machine_wire.h"
#include "shard/core/core.h"
#include "shard/session_frame.h"

struct decide_thread;

/* What the thread works with; nobody else sees it while a job runs. */
struct decide_context {
    struct core *core;
    struct machine_reader *reader; /* of records and acks */
    struct arena scratch;          /* emptied before every job */
    struct frame_writer frames;    /* of the job that runs, or of prepare() */
    struct clock *clock;
    mono_time now; /* when this batch began */
    wall_time wall;
    mono_time slack; /* what the allocator kept was given back then */
};
struct decide_job {
    struct list link;
    void (*run)(struct decide_job *job, struct decide_context *context, struct effects *out);
    /* ERR_CANCELLED: never run. May be NULL. */
    void (*done)(struct decide_job *job, enum err err);
};

struct decide_thread_options {
    struct io *io;
    struct core *core; /* the decide_thread's from now on; closed with it */
    /* On the decide thread, after a batch: what an effect needs of the core's resource names is
     * written into it (NODE_STATE: its frame, in the arena). */
    void (*prepare)(struct effect *effect, struct decide_context *context, struct arena *arena);
    /* Carries out one effect. False: it cannot be done now, for memory or a
     * bound; it is asked again a moment later, and what comes behind it waits. */
    bool (*carry_out)(void *owner, const struct effect *effect);
    /* After each batch, with the numbers as they were at its end. */
    void (*on_counts)(void *owner, const struct core_counts *counts);
    void *owner;
};
/* ERR_NOMEM, ERR_UNAVAILABLE (no thread). The core stays the caller's then. */
enum err decide_thread_open(const struct decide_thread_options *options,
                            struct decide_thread **ret_decide_thread);
/* Waits for the job that runs; every other one is done with ERR_CANCELLED, effects that were
 * not carried out are dropped. NULL is fine. */
void decide_thread_close(struct decide_thread *decide_thread);
void decide_thread_submit(struct decide_thread *decide_thread, struct decide_job *job);

/* What the allocator keeps though nobody uses it: all demand at once, or ten thousand calls, leave
 * holes of whole pages between the blocks that stay, and the C library gives back only what lies at
 * the end. Gives it back, a few milliseconds every SLACK_EVERY_MS; `last` is 0 at first. */
enum { SLACK_EVERY_MS = 30 * 1000 };
void slack_return(mono_time *last, mono_time now);
#endif
