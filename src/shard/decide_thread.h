/* SPDX-License-Identifier: Apache-2.0 */
/* The decide thread owns the core and runs every job that reads or changes the core.
 *
 * A job is an event with its data. The loop submits jobs and the thread runs them in order, in
 * batches. The effects of a batch are executed on the loop, in order, a slice per turn, so that
 * forty thousand calls do not block the loop. The jobs of a batch are done only after all effects
 * of the batch were executed.
 *
 * No data is shared: from decide_thread_submit() to done() the thread owns a job and its bytes. */
#ifndef SHARD_DECIDE_THREAD_H
#define SHARD_DECIDE_THREAD_H
#include "io/io.h"
#include "provider/machine_wire.h"
#include "shard/core/core.h"
#include "shard/session_frame.h"

struct decide_thread;

/* The data of the decide thread. No other thread uses the data while a job runs. */
struct decide_context {
    struct core *core;
    struct machine_reader *reader; /* decodes records and answers */
    struct arena scratch;          /* emptied before every job */
    struct frame_writer frames;    /* used by the running job or by prepare() */
    struct clock *clock;
    mono_time now; /* time when this batch began */
    wall_time wall;
    mono_time slack; /* when slack_return() last returned memory */
};
struct decide_job {
    struct list link;
    void (*run)(struct decide_job *job, struct decide_context *context, struct effects *out);
    /* Called on the loop; may be NULL. `err` is ERR_CANCELLED if the job was not run. */
    void (*done)(struct decide_job *job, enum err err);
};

struct decide_thread_options {
    struct io *io;
    struct core *core; /* the decide thread owns this core from now on, and closes it */
    /* Called on the decide thread for each effect of a batch. Adds to the effect what needs the
     * core's resource names: the frame of a NODE_STATE effect, stored in `arena`. */
    void (*prepare)(struct effect *effect, struct decide_context *context, struct arena *arena);
    /* Executes one effect. Returns false if memory or a bound prevents the execution now. The call
     * is repeated a moment later, and the effects behind this effect wait. */
    bool (*carry_out)(void *owner, const struct effect *effect);
    /* Called after each batch with the counters at the end of the batch. */
    void (*on_counts)(void *owner, const struct core_counts *counts);
    void *owner;
};
/* Returns ERR_NOMEM, or ERR_UNAVAILABLE (no thread). The caller then keeps the core. */
enum err decide_thread_open(const struct decide_thread_options *options,
                            struct decide_thread **ret_decide_thread);
/* Waits for the job that runs. All other jobs end with ERR_CANCELLED, and pending effects are
 * dropped. NULL is fine. */
void decide_thread_close(struct decide_thread *decide_thread);
void decide_thread_submit(struct decide_thread *decide_thread, struct decide_job *job);

/* Returns unused heap memory to the system. Bursts such as ten thousand calls leave holes of whole
 * pages between used blocks, but the C library returns only memory at the end of the heap. Works
 * for a few milliseconds every SLACK_EVERY_MS. `*last` is 0 at first. */
enum { SLACK_EVERY_MS = 30 * 1000 };
void slack_return(mono_time *last, mono_time now);
#endif
