/* SPDX-License-Identifier: Apache-2.0 */
/* The common part of stores behind a gRPC server: which servers a URL names, and one thread of ours
 * inside the host program with a loop and a channel to them, which other threads hand work to and wait
 * for.
 *
 * Knows no store: what is asked, what an answer means and when to move on is the store's own. */
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
    const char *addresses[PRIM_URL_HOSTS_MAX + 1]; /* ends with NULL */
    bool tls;
    const char *ca_file, *cert_file, *key_file; /* or NULL; borrowed */
};
struct grpc_scheme {     /* of a store, for its URL and its mistakes */
    const char *name;    /* "etcd" */
    const char *port;    /* ":2379", where the URL has none */
    const char *example; /* "etcd://h1:2379,h2:2379" */
    const char *secure;  /* the scheme that means TLS, or NULL */
    const char *tls;     /* how TLS is asked for: "etcds:// or tls=1" */
};
/* Hosts, tls=, ca=, cert=, key=, and the certificates of coord_options. INVALID/url with a text. */
coord_result grpc_servers_read(const struct prim_open *in, const struct grpc_scheme *words,
                               struct grpc_servers *ret_servers);

/* -- a thread waits until another has opened the latch -- */
struct latch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
};
void latch_init(struct latch *latch);
void latch_wait(struct latch *latch); /* once; the latch is gone then */
void latch_open(struct latch *latch);

/* -- the thread -- */
struct grpc_thread;
struct grpc_thread_op;
struct grpc_hooks { /* of a store; all on the loop's thread */
    const char *thread_name;
    uint32_t attempts_max; /* of a call, in one slice */
    /* Adds to a call what it needs. False: that is not there yet; the store keeps the call and
     * begins it later. May be NULL. */
    bool (*prepare)(struct grpc_thread_op *op, struct rpc_call_options *options);
    /* True: the store has understood the answer, and begins the call anew. May be NULL. */
    bool (*refused)(struct grpc_thread_op *op, const struct rpc_outcome *outcome);
    struct rpc_call_options stream; /* its limits, of every stream */
    /* As `prepare`; false: the stream is opened after a pause. May be NULL. */
    bool (*prepare_stream)(struct grpc_thread *grpc_thread, struct rpc_call_options *options);
    /* Before the stream's owner hears of it. May be NULL. */
    void (*stream_ended)(struct grpc_thread *grpc_thread, const struct rpc_outcome *outcome);
    /* When the store closes, before the calls end. May be NULL. */
    void (*leave)(struct grpc_thread *grpc_thread);
};
struct grpc_thread { /* first in the store's client */
    const struct grpc_hooks *ways;
    struct real_io *real;
    struct io *io;
    struct tls_context *tls;
    struct rpc_channel *channel;
    pthread_t thread;
    struct prim_clock clock;
    size_t address_count;
    /* loop thread */
    bool closing;
    struct list waiting; /* ops that wait at the server */
    struct list streams; /* open ones */
    uint32_t generation; /* how often we moved on */
    _Atomic bool stopping;
};
/* `channel` has everything but io, addresses and tls. On failure nothing is left. ERR_INVALID,
 * ERR_NOMEM, ERR_IO and what reading certificates gives, with a note. */
enum err grpc_open(struct grpc_thread *grpc_thread, const struct grpc_hooks *ways,
                   const struct grpc_servers *servers, struct prim_clock clock,
                   const struct rpc_channel_options *channel, struct note *note);
/* Runs fn on the loop's thread and waits for it. Not from that thread. */
void grpc_loop_call(struct grpc_thread *grpc_thread, void (*fn)(void *owner), void *owner);
/* Streams are left, then every call ends (ERR_CANCELLED, ERR_UNKNOWN), then the thread. */
void grpc_close(struct grpc_thread *grpc_thread);

static inline struct loop *grpc_loop(const struct grpc_thread *grpc_thread)
{
    return grpc_thread->io->loop;
}
static inline int64_t grpc_now(const struct grpc_thread *grpc_thread) /* the store's clock */
{
    return prim_clock_now(&grpc_thread->clock);
}

/* -- trouble: loop thread -- */
/* No leader, stopping: another server may do better. */
bool grpc_should_move(const struct grpc_thread *grpc_thread, const struct rpc_outcome *outcome);
/* Somebody met trouble on the server of that generation. */
void grpc_server_trouble(struct grpc_thread *grpc_thread, uint32_t generation);
/* The server that answers is of no use: the next address is asked. Not from the loop's thread. */
void grpc_move_on(struct grpc_thread *grpc_thread);

void grpc_streams_reset(struct grpc_thread *grpc_thread); /* stream.c: they begin anew */
void grpc_streams_leave(struct grpc_thread *grpc_thread);
#endif
