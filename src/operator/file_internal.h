/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the file source: file.c reads demand, file_nodes.c writes nodes.json, file_drain.c
 * runs the user's command. */
#ifndef OPERATOR_FILE_INTERNAL_H
#define OPERATOR_FILE_INTERNAL_H
#include "base/list.h"
#include "base/map.h"
#include "io/process.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "operator/file.h"
#include "operator/operator.h"
#include "operator/side_file.h"

enum { HINTS_MAX = 1024 }; /* a further hint replaces the oldest one */
struct received_hint {
    struct str key;
    uint32_t count, confidence;
    double cost_per_hour;
};
struct file_source {
    struct demand_source source;
    const char *demand_path, *drain_command;
    const struct operator_around *around;
    struct io *io;
    /* demand: */
    struct side_file *watch, *last_good;
    struct counter *edit_errors;
    struct gauge *edit_bad;
    struct arena stated; /* what machines run, as the demand file states it */
    struct dimensions dimensions;
    struct occupancy_rows occupancy;
    uint64_t occupancy_change;
    struct note bad; /* why the demand file is unusable; empty: usable */
    /* machines: */
    struct side_file *nodes;
    struct timer settle;
    struct map hints; /* by key, oldest first */
    bool whole;       /* the shard has reported all machines once */
    /* drains: */
    struct list drains; /* in order of arrival */
    struct task drain_step;
    size_t running;
};

enum err file_nodes_open(struct file_source *f, struct note *note);
void file_nodes_close(struct file_source *f);
void file_taken(struct demand_source *source, uint64_t change);
void file_node_changed(struct demand_source *source, struct str machine_id);
void file_nodes_whole(struct demand_source *source);
void file_available(struct demand_source *source, const struct available *hint);

void file_drains_open(struct file_source *f);
void file_drains_close(struct file_source *f); /* kills running commands */
void file_reclaim(struct demand_source *source, const struct reclaim_order *order);
void file_reclaim_over(struct demand_source *source, struct str instruction_id);
#endif
