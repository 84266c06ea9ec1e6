/* SPDX-License-Identifier: Apache-2.0 */
/* `muster dev --chaos`: parts of the fleet are killed and paused, one at a time.
 *
 * The rule that keeps it a demonstration: nothing is done before the fleet is whole again, the
 * last victim and every replica included. So there are never two replicas down at once by its
 * hand. It asks nobody and reads no clock: the fleet says with every look who leads, who was heard
 * when, and whether it is whole. */
#ifndef MUSTER_DEV_CHAOS_H
#define MUSTER_DEV_CHAOS_H
#include "base/prng.h"
#include "muster/dev_child.h"
#include "muster/dev_parts.h"

struct dev_chaos_options {
    uint64_t seed, every_ms; /* every_ms: from one that healed to the next */
    /* Of part P: children[first[P]] and the count[P] - 1 after it; they live longer. */
    struct dev_child *const *children;
    const size_t *first, *count;
    void (*say)(void *owner, const char *text); /* what was done, and that it healed */
    void *owner;
};
/* The result of one look. */
struct dev_sight {
    bool whole;                        /* leader, voters, reports, workers: all there */
    size_t leader;                     /* SIZE_MAX: none */
    mono_time began;                   /* the look: what it saw is not older */
    mono_time heard[DEV_REPLICAS_MAX]; /* when each replica was alive for sure; 0: never */
};

enum dev_deed { DEV_KILL, DEV_PAUSE };
struct dev_chaos {
    struct dev_chaos_options options;
    struct prng prng;
    size_t turn;              /* of the table of misfortunes */
    struct dev_child *victim; /* NULL: all is well */
    size_t replica;           /* the victim's number; SIZE_MAX: it is no replica */
    enum dev_deed deed;
    int pid;              /* of the victim when it was hit */
    mono_time hit, since; /* since: when it began to be on its way back; 0: not yet */
    mono_time next;       /* something is done; or the victim goes on */
};
void dev_chaos_init(struct dev_chaos *chaos, const struct dev_chaos_options *options,
                    mono_time now);
/* After each look at the fleet, also one that did not come to an end. */
void dev_chaos_look(struct dev_chaos *chaos, const struct dev_sight *sight, mono_time now);
#endif
