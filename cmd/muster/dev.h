/* SPDX-License-Identifier: Apache-2.0 */
/* The state of `muster dev`: coordinators, the provider, shards, operators, workers; each a real
 * `muster ... run`, started, watched, started again when one dies, and ended together.
 *
 * dev_fleet.c has the processes and whether the fleet is whole; dev.c has the role and what it
 * prints. */
#ifndef MUSTER_DEV_H
#define MUSTER_DEV_H
#include "common/chassis.h"
#include "dash/token.h"
#include "muster/dev_chaos.h"
#include "muster/dev_demand.h"
#include "muster/dev_notes.h"
#include "muster/dev_register.h"

enum { DEV_CHILDREN_MAX = DEV_REPLICAS_MAX + 1 + DEV_SHARDS_MAX + DEV_OPERATORS + DEV_WORKERS_MAX };

struct dev {
    struct role_base role;
    const struct log_source *log;
    struct dev_parts parts; /* replicas 0: there is no fleet */
    struct dev_child *children[DEV_CHILDREN_MAX];
    size_t child_count, first[DEV_PARTS], count[DEV_PARTS]; /* of each part */
    struct rpc_channel *channel;
    struct dev_register reg;
    struct health_check *check;
    char token[DASH_TOKEN_MAX + 1]; /* of the dashboards */
    size_t leader;                  /* SIZE_MAX: none */
    struct timer look, kill, end_report;
    struct dev_sight sight; /* of the look under way */
    size_t asked;           /* the question under way */
    bool ready, stopping;
    bool announced;  /* the table was printed */
    char last[64];   /* the last line about its progress, */
    mono_time again; /* and when it is said again */
    bool with_chaos;
    struct dev_chaos chaos;
    struct dev_demand demand;
    struct dev_notes notes;
};

chassis_step_fn dev_fleet_open;
void dev_fleet_stop(struct dev *dev); /* the process ends once the last of the fleet has ended */
void dev_fleet_close(void *dev);      /* from any half-built state; turns the loop */

/* The coordinators have a leader, every shard reports and every worker beats, or not any more;
 * `reason` says what is missing. */
void dev_on_ready(struct dev *dev, bool ready, const char *reason);
/* A line on the terminal, about chaos or about how far the end is. */
void dev_say(struct dev *dev, const char *about, const char *text);
#endif
