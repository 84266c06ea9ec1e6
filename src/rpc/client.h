/* A gRPC client: a channel to one service at several addresses, and calls on it.
 *
 * Names are resolved anew on every dial; attempts back off with jitter; a second connection is kept
 * warm when asked. "Not leader" answers are followed. A call is retried only where the answer says it
 * was not applied (refused before the server saw it, GOAWAY above its stream, not leader) or where the
 * caller gave a request id; everything else that was sent and not answered ends as ERR_UNKNOWN, never
 * as "no". on_end comes exactly once, never from inside the call that started it. */
#ifndef RPC_CLIENT_H
#define RPC_CLIENT_H
#include "base/note.h"
#include "io/io.h"
#include "io/tls.h"
#include "obs/metrics.h"
#include "wire/message.h"

struct rpc_channel;
struct rpc_client_call;

struct rpc_channel_options {
    struct io *io;
    const char *const *addresses;       /* ends with NULL; tried in order, then again */
    struct tls_context *tls;
    const char *tls_name;               /* NULL: the dialled host */
    bool warm_second;                   /* keep a ready connection to another address */
    bool follow_leader;                 /* go where "not leader" answers point */
    uint64_t backoff_first_ms, backoff_max_ms;  /* 0: 100 ms, 10 s; full jitter */
    uint64_t ping_after_ms, ping_timeout_ms;    /* 0: off */
    uint32_t calls_max;                 /* waiting and running; 0: 10,000; more get ERR_FULL */
    struct metrics *metrics;            /* may be NULL */
};
enum err rpc_channel_open(const struct rpc_channel_options *options, struct rpc_channel **ret_channel,
                          struct note *note);
/* Every call ends (ERR_CANCELLED, or ERR_UNKNOWN if it was sent); then done(). */
void rpc_channel_close(struct rpc_channel *channel, void (*done)(void *owner), void *owner);
bool rpc_channel_ready(const struct rpc_channel *channel);
const char *rpc_channel_peer(const struct rpc_channel *channel);        /* connected address, or "" */

struct rpc_outcome {
    enum err err;                       /* ERR_OK; ERR_UNKNOWN: may have applied; else: was not */
    enum grpc_status status;            /* what the peer said, or what stands for the failure */
    struct str text;                    /* its message, decoded */
    struct str details;                 /* grpc-status-details-bin, decoded */
    bool answered;                      /* the peer itself said it */
    uint32_t attempts;
};
struct rpc_call_events {
    void (*on_message)(void *owner, struct rpc_client_call *call, struct str message);  /* raw bytes */
    void (*on_writable)(void *owner, struct rpc_client_call *call);             /* or NULL */
    void (*on_end)(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome);
};
struct rpc_call_options {
    const char *path;
    uint64_t timeout_ms;                /* 0: none; sent as grpc-timeout and enforced here */
    struct str request_id;              /* not empty: the server knows a repeat; retry is safe */
    bool idempotent;                    /* a read: retry is safe without an id */
    bool wait_for_ready;                /* else fail fast with ERR_UNAVAILABLE while disconnected */
    const struct h2_header *metadata;   /* -bin values raw */
    size_t metadata_count;
    struct str trace;                   /* 32 hex digits; empty: a new one is drawn */
    size_t response_max;                /* 0: 4 MiB */
};
/* The call's memory is the channel's; gone when on_end returns. */
enum err rpc_call_start(struct rpc_channel *channel, const struct rpc_call_options *options,
                        const struct rpc_call_events *events, void *owner,
                        struct rpc_client_call **ret_call);
enum err rpc_call_send(struct rpc_client_call *call, struct str message);       /* ERR_FULL, ERR_CLOSED */
void rpc_call_end(struct rpc_client_call *call);        /* no more messages from us */
void rpc_call_cancel(struct rpc_client_call *call);     /* on_end follows */
void rpc_call_pause(struct rpc_client_call *call);
void rpc_call_resume(struct rpc_client_call *call);
bool rpc_call_header(const struct rpc_client_call *call, struct str name, struct str *ret_value);
bool rpc_call_trailer(const struct rpc_client_call *call, struct str name, struct str *ret_value);

/* One request, one answer; the request is kept for retries. */
typedef void rpc_unary_fn(void *owner, const struct rpc_outcome *outcome, struct str message);
enum err rpc_unary(struct rpc_channel *channel, const struct rpc_call_options *options,
                   struct str request, rpc_unary_fn *done, void *owner);
#endif
