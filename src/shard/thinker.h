/* SPDX-License-Identifier: Apache-2.0 */
/* The decide thread: everything that touches the core happens there, one thought after the other.
 *
 * A thought is an event with what it needs in it. The loop hands thoughts over; the thread feeds
 * them to the core in order, many in one go; what the core then wants comes back to the loop, is
 * carried out in the same order, a slice per turn so that forty thousand calls do not hold the
 * loop, and only then the thoughts are done. So whoever waits for done() knows that everything the
 * thought caused is on its way.
 *
 * Nothing is shared: a thought and its bytes are the thread's from thinker_submit() to done(). */
#ifndef SHARD_THINKER_H
#define SHARD_THINKER_H
#include "io/io.h"
#include "provider/machine_wire.h"
#include "shard/core/core.h"
#include "shard/session_frame.h"

struct thinker;

/* What the thread works with; nobody else sees it while a thought runs. */
struct mind {
    struct core *core;
    struct machine_reader *reader; /* of records and acks */
    struct arena scratch;          /* emptied before every thought */
    struct frame_writer frames;    /* of prepare() */
    struct clock *clock;
    mono_time now; /* when this batch began */
    wall_time wall;
    mono_time slack; /* what the allocator kept was given back then */
};
struct thought {
    struct list link;
    void (*think)(struct thought *thought, struct mind *mind, struct effects *out);
    void (*done)(struct thought *thought, enum err err); /* ERR_CANCELLED: never thought */
};

struct thinker_options {
    struct io *io;
    struct core *core; /* the thinker's from now on; closed with it */
    /* On the decide thread, after a batch: what an effect needs of the core's resource names is
     * written down (NODE_STATE: its frame). In the arena; NULL: nothing. */
    const struct str *(*prepare)(const struct effect *effect, struct mind *mind,
                                 struct arena *arena);
    /* Carries out one effect; `prepared` as above. False: it cannot be done now, for memory or a
     * bound; it is asked again a moment later, and what comes behind it waits. */
    bool (*carry_out)(void *owner, const struct effect *effect, const struct str *prepared);
    /* After each batch, with the numbers as they were at its end. */
    void (*on_counts)(void *owner, const struct core_counts *counts);
    void *owner;
};
/* ERR_NOMEM, ERR_UNAVAILABLE (no thread). The core stays the caller's then. */
enum err thinker_open(const struct thinker_options *options, struct thinker **ret_thinker);
/* Waits for the thought that runs; every other one is done with ERR_CANCELLED, effects that were
 * not carried out are dropped. NULL is fine. */
void thinker_close(struct thinker *thinker);
void thinker_submit(struct thinker *thinker, struct thought *thought);
#endif
