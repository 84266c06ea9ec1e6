/* SPDX-License-Identifier: Apache-2.0 */
/* `muster dev --chaos`: kills and pauses parts of the fleet, one at a time.
 *
 * Chaos does nothing until the fleet is complete again, with its last victim and every replica, so
 * two replicas are never down together. Chaos sends no request and reads no clock: each check of
 * the fleet passes the facts to chaos. */
#ifndef MUSTER_DEV_CHAOS_H
#define MUSTER_DEV_CHAOS_H
#include "base/prng.h"
#include "muster/dev_child.h"
#include "muster/dev_parts.h"

struct dev_chaos_options {
    uint64_t seed, every_ms; /* every_ms: pause between a recovery and the next victim */
    /* Part P is children[first[P]] and the count[P] - 1 after it. The caller keeps them alive. */
    struct dev_child *const *children;
    const size_t *first, *count;
    void (*say)(void *owner, const char *text);
    void *owner;
};
/* The result of one check of the fleet. */
struct dev_sight {
    bool whole;    /* leader, voters, reports and workers are there */
    size_t leader; /* SIZE_MAX: none */
    mono_time began;
    mono_time heard[DEV_REPLICAS_MAX]; /* when each replica was last known alive; 0: never */
};

enum dev_deed { DEV_KILL, DEV_PAUSE };
struct dev_chaos {
    struct dev_chaos_options options;
    struct prng prng;
    size_t turn;
    struct dev_child *victim; /* NULL: no process is struck */
    size_t replica;           /* number of a struck replica, or SIZE_MAX */
    enum dev_deed deed;
    int pid;              /* process id at the time of the strike */
    mono_time hit, since; /* since: start of the victim's return, or 0 */
    mono_time next;       /* the next strike, or the end of a pause */
};
void dev_chaos_init(struct dev_chaos *chaos, const struct dev_chaos_options *options,
                    mono_time now);
/* Call after each check of the fleet, even an incomplete one. */
void dev_chaos_look(struct dev_chaos *chaos, const struct dev_sight *sight, mono_time now);
#endif
