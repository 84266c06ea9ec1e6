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

struct call_lane { /* a connection for calls other than List */
    struct rpc_channel *channel;
    uint32_t running;
    size_t bytes;    /* bytes of all running requests */
    mono_time alive; /* time of the connection's last response, or of its opening */
};
struct provider {
    struct provider_options options;
    int64_t sequence;
    struct call_lane lanes[LANES_MAX];
    uint32_t lane_count, lane_next; /* lane_next: index of the lane that got the last call */
    struct rpc_channel *bulk;       /* channel for List only */
    struct list waiting;            /* list of struct call, in order of arrival */
    struct timer turn; /* sends waiting calls, and ends those that have waited too long */
    uint32_t waiting_count, running;
    size_t waiting_bytes; /* bytes of all waiting requests */
    size_t kept;          /* bytes of large running requests, kept to send them again */
    uint32_t open;        /* number of channels that are not closed */
    const char *held;     /* reason why mutating calls are no longer sent, or NULL */
    bool closing;
    void (*done)(void *owner);
    void *owner;
};

/* Replaces the connection of a request that was sent at `sent` and timed out, if nothing was
 * received since. The kernel reports an unreachable peer only after a quarter of an hour. */
void provider_doubt(struct rpc_channel *channel, mono_time sent, mono_time now, mono_time *alive);
/* Maps an outcome to the end of its call. `mutates` is true if the call carried a token. */
enum provider_end provider_judge(const struct rpc_outcome *outcome, bool mutates);
#endif
