/* SPDX-License-Identifier: Apache-2.0 */
/* The generator's engine (load.c) and its kinds of work: one call after another of a
 * store's operation (load_store.c), or watchers beside writers (load_watch.c). */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H
#include "client_tls.h"
#include "cpu.h"
#include "io/real.h"
#include "latency.h"
#include "rpc/client.h"
#include "wire/grpc.h"

enum {
    TARGETS_MAX = 16,
    CONNECTIONS_MAX = 4096,
    STREAMS_MAX = 1 << 20,
    REQUEST_MAX = 64 << 20,
};
#define NS_PER_SECOND 1000000000ull

struct load;
struct slot;
/* Operations instead of single calls. An operation is one call or several of a slot. */
struct work {
    const char *name;
    bool bidi;    /* each slot has one long call, and a batch of messages under way on it */
    bool watched; /* a write ends when every watcher received it; events are counted */
    bool stale;   /* a read that any member may answer */
    /* Appends the slot's next request; its path. */
    const char *(*next)(struct slot *slot, struct buf *request);
    /* Number of operations that this answer completes; 0: the operation needs more calls; -1:
     * refused. */
    int (*answered)(struct slot *slot, struct str message);
};

struct plan {
    const char *targets[TARGETS_MAX + 1];
    size_t target_count, connections, streams;
    double rate, seconds, warmup_seconds;
    size_t payload;
    uint64_t vary;
    const char *path, *request_file;
    struct client_tls tls;
    uint64_t timeout_ms;
    bool bidi, raw, json, allow_errors, idempotent, trace;
    /* of a store's operations */
    const char *store, *op, *prefix;
    const struct work *work;
    uint64_t count, keys; /* count: the run ends after so many operations */
    size_t value, batch, watchers, watch_connections;
};
struct slot { /* a stream of the closed loop, or one call of the open one */
    struct load *load;
    struct rpc_channel *channel;
    struct rpc_client_call *call; /* bidi */
    uint64_t began_ns;
    size_t number;
    /* of a store's operations */
    uint64_t sequence, revision, lease;
    size_t step, outstanding;
};
struct place {
    size_t at, len;
};
struct load {
    struct plan plan;
    struct place places[8]; /* of the number that differs for each call */
    size_t place_count;
    struct real_io *real;
    struct io *io;
    struct tls_context *tls;
    struct rpc_channel **channels; /* the writers', then the watchers' */
    struct slot *slots;
    struct watches *watches;
    struct buf request;
    struct timer phase, tick;
    enum { WARMING, MEASURING, STOPPING } state;
    struct latency latency;
    uint64_t calls, errors, unknown, by_status[GRPC_UNAUTHENTICATED + 1];
    uint64_t running, missed; /* missed: the open loop could not begin in time */
    uint64_t began_ns, ended_ns, due_calls, varied, begun;
    struct cpu_meter cpu;
    size_t next_channel, channels_open;
    char first_error[256];
};

/* -- load.c -- */
uint64_t load_now_ns(const struct load *load);
void load_begin(struct slot *slot); /* its next operation, unless the run is over */
void load_stop_if_done(struct load *load);
void load_die(const char *what, struct str text) __attribute__((noreturn));

/* -- load_store.c -- */
/* NULL: there is no such store, or no such operation. */
const struct work *load_work(const char *store, const char *op);

/* -- load_watch.c -- */
/* Opens the watchers and returns when every watcher has its snapshot. */
void watches_open(struct load *load);
void watches_end(struct load *load); /* cancels them; they end while the channels close */
void watches_close(struct load *load);

/* A message's fields one by one. False: at the end, or no message. */
struct field {
    uint32_t number;
    uint64_t value;
    struct str bytes;
};
bool field_next(struct str *rest, struct field *ret_field);
#endif
