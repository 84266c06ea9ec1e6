/* SPDX-License-Identifier: Apache-2.0 */
/* `muster dev --chaos`: kills and pauses parts of the fleet, one at a time.
 *
 * Chaos does nothing until the fleet is complete again, with its last victim and every replica. So
 * chaos never causes two replicas to be down at once. It sends no request and reads no clock: each
 * check of the fleet passes in the leader, when each replica was heard, and the fleet's state. */
#ifndef MUSTER_DEV_CHAOS_H
#define MUSTER_DEV_CHAOS_H
#include "base/prng.h"
#include "muster/dev_child.h"
#include "muster/dev_parts.h"

struct dev_chaos_options {
    uint64_t seed, every_ms; /* every_ms is the pause between a recovery and the next victim */
    /* Part P is children[first[P]] and the count[P] - 1 after it. The caller keeps them alive. */
    struct dev_child *const *children;
    const size_t *first, *count;
    void (*say)(void *owner, const char *text); /* reports strikes and recoveries */
    void *owner;
};
/* The result of one look. */
struct dev_sight {
    bool whole;                        /* whole: leader, voters, reports, workers are present */
    size_t leader;                     /* SIZE_MAX: none */
    mono_time began;                   /* began: start of this check of the fleet */
    mono_time heard[DEV_REPLICAS_MAX]; /* heard: when replicas were last known alive; or 0 */
};

enum dev_deed { DEV_KILL, DEV_PAUSE };
struct dev_chaos {
    struct dev_chaos_options options;
    struct prng prng;
    size_t turn;              /* index into the table of misfortunes */
    struct dev_child *victim; /* NULL: no process is struck */
    size_t replica;           /* replica: the victim's replica number, or SIZE_MAX */
    enum dev_deed deed;
    int pid;              /* pid: the victim's process id when the victim was hit */
    mono_time hit, since; /* since: when the victim's return began, or 0 */
    mono_time next;       /* next: time of the next strike, or of the victim's resume */
};
void dev_chaos_init(struct dev_chaos *chaos, const struct dev_chaos_options *options,
                    mono_time now);
/* Call after each check of the fleet, even an incomplete one. */
void dev_chaos_look(struct dev_chaos *chaos, const struct dev_sight *sight, mono_time now);
#endif
