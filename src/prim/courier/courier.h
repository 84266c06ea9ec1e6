/* SPDX-License-Identifier: Apache-2.0 */
/* What stores behind a gRPC server share: which servers a URL names, and one thread of ours inside
 * the host program with a loop and a channel to them, which other threads hand work to and wait
 * for.
 *
 * Knows no store: what is asked, what an answer means and when to move on is the store's own. */
#ifndef PRIM_COURIER_COURIER_H
#define PRIM_COURIER_COURIER_H
#include "io/real.h"
#include "prim/backend.h"
#include "prim/thread.h"
#include "prim/url.h"
#include "rpc/client.h"

/* -- which servers -- */
enum { COURIER_ADDRESS_CAP = 300 };
struct courier_servers {
    char memory[PRIM_URL_HOSTS_MAX][COURIER_ADDRESS_CAP];
    const char *addresses[PRIM_URL_HOSTS_MAX + 1]; /* ends with NULL */
    bool tls;
    const char *ca_file, *cert_file, *key_file; /* or NULL; borrowed */
};
struct courier_words {   /* of a store, for its URL and its mistakes */
    const char *name;    /* "etcd" */
    const char *port;    /* ":2379", where the URL has none */
    const char *example; /* "etcd://h1:2379,h2:2379" */
    const char *secure;  /* the scheme that means TLS, or NULL */
    const char *tls;     /* how TLS is asked for: "etcds:// or tls=1" */
};
/* Hosts, tls=, ca=, cert=, key=, and the certificates of coord_options. INVALID/url with a text. */
coord_result courier_servers_read(const struct prim_open *in, const struct courier_words *words,
                                  struct courier_servers *ret_servers);

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
struct courier;
struct courier_op;
struct courier_ways { /* of a store; all on the loop's thread */
    const char *thread_name;
    uint32_t attempts_max; /* of a call, in one slice */
    /* Adds to a call what it needs. False: that is not there yet; the store keeps the call and
     * begins it later. May be NULL. */
    bool (*prepare)(struct courier_op *op, struct rpc_call_options *options);
    /* True: the store has understood the answer, and begins the call anew. May be NULL. */
    bool (*refused)(struct courier_op *op, const struct rpc_outcome *outcome);
    struct rpc_call_options stream; /* its limits, of every stream */
    /* As `prepare`; false: the stream is opened after a pause. May be NULL. */
    bool (*prepare_stream)(struct courier *courier, struct rpc_call_options *options);
    /* Before the stream's owner hears of it. May be NULL. */
    void (*stream_ended)(struct courier *courier, const struct rpc_outcome *outcome);
    /* When the store closes, before the calls end. May be NULL. */
    void (*leave)(struct courier *courier);
};
struct courier { /* first in the store's client */
    const struct courier_ways *ways;
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
    _Atomic uint64_t requests, moves; /* for tests of restraint */
};
/* `channel` has everything but io, addresses and tls. On failure nothing is left. ERR_INVALID,
 * ERR_NOMEM, ERR_IO and what reading certificates gives, with a note. */
enum err courier_open(struct courier *courier, const struct courier_ways *ways,
                      const struct courier_servers *servers, struct prim_clock clock,
                      const struct rpc_channel_options *channel, struct note *note);
/* Runs fn on the loop's thread and waits for it. Not from that thread. */
void courier_do(struct courier *courier, void (*fn)(void *owner), void *owner);
/* Streams are left, then every call ends (ERR_CANCELLED, ERR_UNKNOWN), then the thread. */
void courier_close(struct courier *courier);

static inline struct loop *courier_loop(const struct courier *courier)
{
    return courier->io->loop;
}
static inline int64_t courier_now(const struct courier *courier) /* the store's clock */
{
    return prim_clock_now(&courier->clock);
}

/* Loop thread. Is there anything open that would hang if its server fell silent? */
static inline bool courier_listens(const struct courier *courier)
{
    return !list_empty(&courier->streams) || !list_empty(&courier->waiting);
}

/* -- trouble: loop thread -- */
/* No leader, stopping: another server may do better. */
bool courier_should_move(const struct courier *courier, const struct rpc_outcome *outcome);
/* Somebody met trouble on the server of that generation. */
void courier_trouble(struct courier *courier, uint32_t generation);
/* What answers is of no use: the next address is asked. Not from the loop's thread. */
void courier_move_on(struct courier *courier);

void courier_streams_reset(struct courier *courier); /* stream.c: they begin anew */
void courier_streams_leave(struct courier *courier);
#endif
