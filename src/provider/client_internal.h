/* SPDX-License-Identifier: Apache-2.0 */
/* The client from the inside; only for its own files.
 *
 *   client.c        connections, calls, where they wait
 *   client_fetch.c  List */
#ifndef PROVIDER_CLIENT_INTERNAL_H
#define PROVIDER_CLIENT_INTERNAL_H
#include "base/list.h"
#include "provider/client.h"

enum { LANES_MAX = 64 };

struct call_lane { /* one connection for calls */
    struct rpc_channel *channel;
    uint32_t running;
    size_t bytes;    /* of the requests that run */
    mono_time alive; /* its connection last answered something, or took the place of another */
};
struct provider {
    struct provider_options options;
    int64_t sequence;
    struct call_lane lanes[LANES_MAX];
    uint32_t lane_count, lane_next; /* next: where the last call went */
    struct rpc_channel *bulk;       /* List */
    struct list waiting;            /* struct call */
    struct timer turn;              /* sends what waits, and ends what has waited too long */
    uint32_t waiting_count, running;
    size_t waiting_bytes; /* of the requests that wait */
    size_t kept;          /* of the large requests that run */
    uint32_t open;        /* channels that exist */
    const char *held;     /* why no mutating call is sent any more; NULL: they are sent */
    bool closing;
    void (*done)(void *owner);
    void *owner;
};

/* The time of what was sent at `sent` is up. When nothing at all was heard since, the connection
 * may lead nowhere, and no kernel says so for a quarter of an hour: new calls get another one. */
void provider_doubt(struct rpc_channel *channel, mono_time sent, mono_time now, mono_time *alive);
/* How it ended; `mutates`: it carried a token. */
enum provider_end provider_judge(const struct rpc_outcome *outcome, bool mutates);
#endif
