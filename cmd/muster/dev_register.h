/* SPDX-License-Identifier: Apache-2.0 */
/* Registers the fleet of `muster dev` at its coordinators: shards, the zones and clusters of each, the
 * provider and its quotas. Once in the life of a data directory: what a user changed later stays. */
#ifndef MUSTER_DEV_REGISTER_H
#define MUSTER_DEV_REGISTER_H
#include "muster/dev_parts.h"
#include "rpc/client.h"

struct dev_register {
    const struct dev_parts *parts;
    const struct log_source *log;
    struct rpc_channel *channel;
    size_t step;
    bool asking, known; /* known: nothing is left to register */
};
/* Does the next step, if there is one and none is under way. */
void dev_register_go(struct dev_register *r);
#endif
