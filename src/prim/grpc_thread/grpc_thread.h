/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of stores behind a gRPC server: the servers that a URL names, and one thread
 * with an event loop and a channel to the servers. Other threads submit calls to this thread and
 * wait. The store defines requests, answers, and when to switch servers. */
#ifndef PRIM_GRPC_THREAD_GRPC_THREAD_H
#define PRIM_GRPC_THREAD_GRPC_THREAD_H
#include "io/real.h"
#include "prim/backend.h"
#include "prim/thread.h"
#include "prim/url.h"
#include "rpc/client.h"

/* -- which servers -- */
enum { GRPC_ADDRESS_CAP = 300 };
struct grpc_servers {
    char memory[PRIM_URL_HOSTS_MAX][GRPC_ADDRESS_CAP];
    const char *addresses[PRIM_URL_HOSTS_MAX + 1]; /* NULL-terminated */
    bool tls;
    const char *ca_file, *cert_file, *key_file; /* or NULL; borrowed */
};
struct grpc_scheme { /* a store's URL, also for error texts */
    const char *name;
    const char *port; /* ":2379", if the URL has no port */
    const char *example;
    const char *secure; /* scheme with TLS, or NULL */
    const char *tls;    /* how a URL requests TLS: "etcds:// or tls=1" */
};
/* Reads hosts, tls=, ca=, cert=, key= and coord_options' certificates. Or INVALID/url. */
coord_result grpc_servers_read(const struct prim_open *in, const struct grpc_scheme *words,
                               struct grpc_servers *ret_servers);

/* -- latch: a thread waits until another thread opens it -- */
struct latch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
};
void latch_init(struct latch *latch);
void latch_wait(struct latch *latch); /* call once; also destroys the latch */
void latch_open(struct latch *latch);

/* -- the thread -- */
struct grpc_thread;
struct grpc_thread_op;
struct grpc_hooks { /* functions of a store, on the loop's thread */
    const char *thread_name;
    uint32_t attempts_max; /* in one slice, a part of a call's time */
    /* Adds headers to a call. False: not available yet, and the store begins the call later. May
     * be NULL. */
    bool (*prepare)(struct grpc_thread_op *op, struct rpc_call_options *options);
    /* True: the store handled the error and begins the call again. May be NULL. */
    bool (*refused)(struct grpc_thread_op *op, const struct rpc_outcome *outcome);
    struct rpc_call_options stream; /* options for every stream */
    /* Like `prepare`. False: the stream is opened after a pause. May be NULL. */
    bool (*prepare_stream)(struct grpc_thread *grpc_thread, struct rpc_call_options *options);
    /* Called before the stream's owner is notified. May be NULL. */
    void (*stream_ended)(struct grpc_thread *grpc_thread, const struct rpc_outcome *outcome);
    /* Called when the store closes, before the calls end. May be NULL. */
    void (*leave)(struct grpc_thread *grpc_thread);
};
struct grpc_thread { /* first member of the store's client */
    const struct grpc_hooks *ways;
    struct real_io *real;
    struct io *io;
    struct tls_context *tls;
    struct rpc_channel *channel;
    pthread_t thread;
    struct prim_clock clock;
    size_t address_count;
    /* Loop's thread only. */
    bool closing;
    struct list waiting;
    struct list streams;
    uint32_t generation; /* number of switches to another server */
    _Atomic bool stopping;
};
/* Starts the thread. `channel` has all options except io, addresses and tls. After an error
 * nothing stays allocated. ERR_INVALID, ERR_NOMEM, ERR_IO and certificate errors, with a note. */
enum err grpc_open(struct grpc_thread *grpc_thread, const struct grpc_hooks *ways,
                   const struct grpc_servers *servers, struct prim_clock clock,
                   const struct rpc_channel_options *channel, struct note *note);
/* Runs fn on the loop's thread and waits. Must not be called on the loop's thread. */
void grpc_loop_call(struct grpc_thread *grpc_thread, void (*fn)(void *owner), void *owner);
/* Closes the streams, ends calls with ERR_CANCELLED or ERR_UNKNOWN, then ends the thread. */
void grpc_close(struct grpc_thread *grpc_thread);

static inline struct loop *grpc_loop(const struct grpc_thread *grpc_thread)
{
    return grpc_thread->io->loop;
}
static inline int64_t grpc_now(const struct grpc_thread *grpc_thread)
{
    return prim_clock_now(&grpc_thread->clock);
}

/* -- server failures: loop's thread -- */
/* True: this server has no leader or is stopping, so another may help. */
bool grpc_should_move(const struct grpc_thread *grpc_thread, const struct rpc_outcome *outcome);
/* Call when the server in use at `generation` failed. */
void grpc_server_trouble(struct grpc_thread *grpc_thread, uint32_t generation);
/* Switches to the next address. Must not be called on the loop's thread. */
void grpc_move_on(struct grpc_thread *grpc_thread);

void grpc_streams_reset(struct grpc_thread *grpc_thread); /* stream.c: reopens all streams */
void grpc_streams_leave(struct grpc_thread *grpc_thread);
#endif
