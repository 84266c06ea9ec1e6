/* SPDX-License-Identifier: Apache-2.0 */
/* The demand of `muster dev`'s clusters: one file each that a user may edit. The main count of each
 * file rises and falls by itself, so that machines are bought and released.
 *
 * A file that a user edited is never changed again, even in later runs. The edit is reported within
 * two seconds. */
#ifndef MUSTER_DEV_DEMAND_H
#define MUSTER_DEV_DEMAND_H
#include "io/io.h"
#include "muster/dev_parts.h"
#include "obs/log.h"

struct dev_demand_options {
    struct io *io;
    const struct log_source *log;
    const char *dir;
    uint64_t every_ms; /* time between two changes; 0: no changes */
    /* Reports a change of a count. `yours`: a user edited the file, so its count stays. */
    void (*say)(void *owner, const char *text, bool yours);
    void *owner;
};
struct dev_demand {
    struct dev_demand_options options;
    bool yours[DEV_OPERATORS]; /* the user's edit was reported, per operator */
    size_t turn;
    struct timer timer;
    struct timer poll;
};
/* Makes missing files (DIR/cluster-a.toml and others), and starts to change their counts. */
enum err dev_demand_open(struct dev_demand *demand, const struct dev_demand_options *options,
                         struct note *note);
void dev_demand_stop(struct dev_demand *demand);
void dev_demand_close(struct dev_demand *demand); /* accepts a demand that was never opened */
#endif
