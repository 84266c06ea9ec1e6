/* SPDX-License-Identifier: Apache-2.0 */
/* The state of `muster dev`: coordinators, the provider, shards, operators and workers. Each is a
 * real `muster ... run` process that is started, watched, restarted when it dies, and stopped.
 * dev_fleet.c manages the processes; dev.c prints. */
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
    struct dev_parts parts; /* parts.replicas 0: no fleet */
    struct dev_child *children[DEV_CHILDREN_MAX];
    size_t child_count, first[DEV_PARTS], count[DEV_PARTS]; /* of each part */
    struct rpc_channel *channel;
    struct dev_register reg;
    struct health_check *check;
    char token[DASH_TOKEN_MAX + 1]; /* of the dashboards */
    size_t leader;                  /* SIZE_MAX: none */
    struct timer look, kill, end_report;
    struct dev_sight sight; /* what the current check has found so far */
    size_t asked;
    bool ready, stopping;
    bool announced;
    char last[64];
    mono_time again; /* when to print `last` again */
    bool with_chaos;
    struct dev_chaos chaos;
    struct dev_demand demand;
    struct dev_notes notes;
};

chassis_step_fn dev_fleet_open;
void dev_fleet_stop(struct dev *dev);
void dev_fleet_close(void *dev); /* accepts a half-built state; turns the loop */

/* Call when the fleet became complete or incomplete. Complete: the coordinators have a leader,
 * every shard reports and every worker sends heartbeats. `reason` names what is missing. */
void dev_on_ready(struct dev *dev, bool ready, const char *reason);
void dev_say(struct dev *dev, const char *about, const char *text);
#endif
