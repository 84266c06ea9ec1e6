/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the client; only for its own files.
 *
 *   client.c        connections, calls, the waiting queue
 *   client_fetch.c  List */
#ifndef PROVIDER_CLIENT_INTERNAL_H
#define PROVIDER_CLIENT_INTERNAL_H
#include "base/list.h"
#include "provider/client.h"

enum { LANES_MAX = 64 };

struct call_lane {
    struct rpc_channel *channel;
    uint32_t running;
    size_t bytes;
    mono_time alive; /* time of the last data, or of the opening */
};
struct provider {
    struct provider_options options;
    int64_t sequence;
    struct call_lane lanes[LANES_MAX];
    uint32_t lane_count, lane_next; /* lane_next: the last call's lane */
    struct rpc_channel *bulk;
    struct list waiting; /* in order of arrival */
    struct timer turn;   /* sends waiting calls, and ends those that waited too long */
    uint32_t waiting_count, running;
    size_t waiting_bytes;
    size_t kept; /* bytes of large running requests, see kept_max */
    uint32_t open;
    const char *held; /* why mutating calls are not sent; NULL: they are sent */
    bool closing;
    void (*done)(void *owner);
    void *owner;
};

/* Replaces a connection that received nothing since `sent`, when a request timed out. The kernel
 * reports an unreachable peer only after 15 minutes. */
void provider_doubt(struct rpc_channel *channel, mono_time sent, mono_time now, mono_time *alive);
/* `mutates`: the call carried a token. */
enum provider_end provider_judge(const struct rpc_outcome *outcome, bool mutates);
#endif
