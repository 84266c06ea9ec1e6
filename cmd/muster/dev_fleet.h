/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of `muster dev`: coordinators, the provider, shards, operators, workers; each a
 * real `muster ... run`, started, watched, started again when one dies, and ended together. */
#ifndef MUSTER_DEV_FLEET_H
#define MUSTER_DEV_FLEET_H
#include <stdio.h>

#include "io/io.h"
#include "muster/dev_ports.h"
#include "obs/log.h"

struct dev_fleet;
struct dev_fleet_options {
    struct io *io;
    const struct log_source *log;
    const char *dir;       /* of it all; each process has DIR/NAME and DIR/NAME.log */
    const char *log_level; /* of the processes */
    size_t replicas;
    size_t shards;  /* 0: none, and no provider and no operators */
    size_t workers; /* 0: none, and no listener for them */
    struct dev_ports ports;
    bool chaos;               /* parts are killed and paused, one at a time */
    uint64_t chaos_every_ms;  /* from one that healed to the next */
    uint64_t demand_every_ms; /* how often a cluster's demand moves; 0: it stands still */
    /* The coordinators have a leader, every shard reports and every worker beats, or not any more;
     * `reason` says what is missing. */
    void (*on_ready)(void *owner, bool ready, const char *reason);
    /* It cannot be: a wrong setting, a port or directory that is taken. */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    /* A line for who looks at the terminal: what chaos did, how far the end is. */
    void (*on_word)(void *owner, const char *about, const char *text);
    void (*on_stopped)(void *owner);
    void *owner;
};
enum err dev_fleet_open(const struct dev_fleet_options *options, struct dev_fleet **ret_fleet,
                        struct note *note);
void dev_fleet_dashboard(const struct dev_fleet *fleet, FILE *out); /* its address and token */
void dev_fleet_logs(const struct dev_fleet *fleet, FILE *out);      /* the log files of each role */
void dev_fleet_table(const struct dev_fleet *fleet, FILE *out);     /* who is where */
/* Six things to try. */
void dev_fleet_tour(const struct dev_fleet *fleet, FILE *out);
void dev_fleet_stop(struct dev_fleet *fleet);          /* on_stopped once the last has ended */
bool dev_fleet_running(const struct dev_fleet *fleet); /* a process or a call is left */
void dev_fleet_close(struct dev_fleet *fleet);         /* when nothing runs; NULL is fine */
#endif
