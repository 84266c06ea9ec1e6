/* SPDX-License-Identifier: Apache-2.0 */
/* Registers the fleet of `muster dev`: shards with their zones and clusters, the provider and its
 * quotas. Only once for a data directory, so that later changes by a user stay. */
#ifndef MUSTER_DEV_REGISTER_H
#define MUSTER_DEV_REGISTER_H
#include "muster/dev_parts.h"
#include "rpc/client.h"

struct dev_register {
    const struct dev_parts *parts;
    const struct log_source *log;
    struct rpc_channel *channel;
    size_t step;
    bool asking, known; /* known: the fleet is registered */
};
/* No effect when all requests were sent or one is in flight. */
void dev_register_go(struct dev_register *r);
#endif
