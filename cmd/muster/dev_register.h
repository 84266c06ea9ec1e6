/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the coordinators of `muster dev` what there is: shards, whose which zone is, whose which
 * cluster, the provider and its quotas. Once in the life of a data directory: what a user changed later stays. */
#ifndef MUSTER_DEV_REGISTER_H
#define MUSTER_DEV_REGISTER_H
#include "muster/dev_parts.h"
#include "rpc/client.h"

enum { DEV_ANSWER_ARENA_MAX = 1 << 20 }; /* of one answer of a coordinator */
struct dev_register {
    const struct dev_parts *parts;
    const struct log_source *log;
    struct rpc_channel *channel;
    size_t step;
    bool asking, known; /* known: all of it is told */
};
/* Does the next step, if there is one and none is under way. */
void dev_register_go(struct dev_register *r);
#endif
