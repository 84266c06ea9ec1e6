/* SPDX-License-Identifier: Apache-2.0 */
/* The demand of `muster dev`'s clusters: one file each that a user may edit, whose main count goes
 * up and down by itself, so that machines come and go.
 *
 * A file is moved only while it is exactly what was written here, at whatever step: the first edit
 * makes it the user's, in later runs too. An edit is reported within two seconds. Nothing is kept
 * but the files. */
#ifndef MUSTER_DEV_DEMAND_H
#define MUSTER_DEV_DEMAND_H
#include "io/io.h"
#include "muster/dev_parts.h"
#include "obs/log.h"

struct dev_demand_options {
    struct io *io;
    const struct log_source *log;
    const char *dir;
    uint64_t every_ms; /* 0: it does not move */
    /* Reports a move; `yours`: a file was edited, and moves no more. */
    void (*say)(void *owner, const char *text, bool yours);
    void *owner;
};
struct dev_demand {
    struct dev_demand_options options;
    bool yours[DEV_OPERATORS]; /* and it was said */
    size_t turn;
    struct timer timer; /* the next move */
    struct timer poll;  /* the next comparison of the files with what was written */
};
/* DIR/cluster-a.toml and its like, where there is none; then they begin to move. */
enum err dev_demand_open(struct dev_demand *demand, const struct dev_demand_options *options,
                         struct note *note);
void dev_demand_stop(struct dev_demand *demand);
void dev_demand_close(struct dev_demand *demand); /* also of one that never opened */
#endif
