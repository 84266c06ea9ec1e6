/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC client: a channel to one service at several addresses, and calls on the channel. Loop's
 * thread.
 *
 * A channel dials from the moment it is opened and never gives up. Names are resolved again for
 * every dial. A connection is ready when the server has sent its first bytes.
 *
 * A call is retried only if it was certainly not applied, or if a repeat is harmless. Any other
 * call that was sent and not answered ends as ERR_UNKNOWN (rpc/retry.h has the table).
 *
 * Our servers may send these trailers (headers in a trailers-only response):
 *   x-muster-leader   with FAILED_PRECONDITION: this replica is not the leader. The value is the
 *                     leader's "host:port", or empty if unknown. Not applied.
 *   x-muster-applied  "no": nothing was done, whatever the status; a retry is safe.
 * A request carries traceparent (W3C, 00-<trace>-<span>-01) unless `untraced`, x-request-id if the
 * caller gave an id, and grpc-timeout with the remaining time.
 *
 * on_end is the last event of each started call, exactly once, never from inside a function of this
 * header. */
#ifndef RPC_CLIENT_H
#define RPC_CLIENT_H
#include "base/note.h"
#include "io/io.h"
#include "io/tls.h"
#include "obs/metrics.h"
#include "wire/h2.h"

struct rpc_channel;
struct rpc_client_call;

#define RPC_LEADER_TRAILER  "x-muster-leader"
#define RPC_APPLIED_TRAILER "x-muster-applied"
#define RPC_REQUEST_ID      "x-request-id"

enum {
    RPC_ADDRESSES_MAX = 64,
    RPC_ADDRESS_CAP = 280, /* a DNS name, a port and the final NUL */
    RPC_METADATA_MAX = 64, /* metadata fields of one call */
    RPC_METADATA_BYTES_MAX = 32 * 1024,
};

/* Shared by all channels of a process. Must outlive the channels. */
struct rpc_client_metrics;
enum err rpc_client_metrics_open(struct metrics *metrics, struct rpc_client_metrics **ret_metrics,
                                 struct note *note);
void rpc_client_metrics_close(struct rpc_client_metrics *metrics); /* NULL is fine */

/* -- channels -- */
struct rpc_channel_options {
    struct io *io;
    const char *const *addresses; /* ends with NULL; dialed in order, round after round; copied */
    struct tls_context *tls;      /* must offer ALPN "h2"; kept by reference; NULL: plaintext */
    const char *tls_name;         /* host name to verify; NULL: the dialed host; copied */
    bool warm_second;             /* keeps a second connection, to another address, ready */
    bool follow_leader;           /* follows "not leader" responses, also to other addresses */
    uint64_t backoff_first_ms, backoff_max_ms; /* 0: 100 ms, and 10 s */
    uint64_t dial_timeout_ms;                  /* limit to the server's first bytes; 0: 5 s */
    /* After ping_after_ms of silence (0: never) a ping is sent, with ping_timeout_ms (0: 20 s) for
     * the reply. Only while calls run, and on the second connection. */
    uint64_t ping_after_ms, ping_timeout_ms;
    uint32_t calls_max; /* waiting and running calls (0: 10,000); beyond: ERR_FULL */
    /* Connections to the active server; 0: 1. A further connection is dialed when the server's
     * stream limit is reached. Calls beyond the maximum wait for a stream. */
    uint32_t connections_max;
    struct rpc_client_metrics *metrics;
    /* Called when the results of rpc_channel_room and similar functions may have changed. Never
     * called from inside a function of this header. May be NULL. */
    void (*on_change)(void *owner);
    /* Called when a dial for the active connection failed. May be NULL. */
    void (*on_dial_failed)(void *owner, const char *address, const struct note *why);
    void *owner;
};
/* ERR_INVALID with a note (no address, or an invalid one), ERR_NOMEM, ERR_FULL (timers). */
enum err rpc_channel_open(const struct rpc_channel_options *options,
                          struct rpc_channel **ret_channel, struct note *note);
/* Ends every call (ERR_CANCELLED, or ERR_UNKNOWN if it was sent), frees the channel, then calls
 * done(), which may be NULL. No new calls are accepted. */
void rpc_channel_close(struct rpc_channel *channel, void (*done)(void *owner), void *owner);
bool rpc_channel_ready(const struct rpc_channel *channel);
/* calls that the connection can run at a time; 0: not connected */
size_t rpc_channel_room(const struct rpc_channel *channel);
/* True if every address has failed since the last successful connection. */
bool rpc_channel_failing(const struct rpc_channel *channel);
const char *rpc_channel_peer(const struct rpc_channel *channel); /* the server's address, or "" */
/* address of the second connection, or "" */
const char *rpc_channel_warm_peer(const struct rpc_channel *channel);
/* Call if the connected server is the wrong one. New calls go to the next address. Running calls
 * are not affected. */
void rpc_channel_next_address(struct rpc_channel *channel);
/* Call if a response is late. If the second connection is ready, the two connections change places.
 * The late server is pinged, and its connection is closed if nothing arrives within
 * `silence_max_ms`. No new dial, because a slow server would only get a further handshake. */
void rpc_channel_answer_late(struct rpc_channel *channel, uint64_t silence_max_ms);

/* -- calls -- */
struct rpc_outcome {
    enum err err;            /* ERR_UNKNOWN: the call may be applied; other errors: not applied */
    enum grpc_status status; /* the server's status, or one that matches this client's error */
    struct str text;         /* the server's status message, decoded, or this client's own text */
    struct str details;      /* content of grpc-status-details-bin, decoded */
    bool answered;           /* the server sent `status` */
    uint32_t attempts;       /* attempts that reached a connection */
    bool doubted;            /* an earlier attempt was sent, and may be applied */
};
struct rpc_call_events {
    /* `message` is valid during the callback. */
    void (*on_message)(void *owner, struct rpc_client_call *call, struct str message);
    /* Called when rpc_call_send has room again after ERR_FULL. May be NULL. */
    void (*on_writable)(void *owner, struct rpc_client_call *call);
    void (*on_end)(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome);
};
struct rpc_call_options {  /* all values are copied */
    const char *path;      /* such as "/package.Service/Method" */
    uint64_t timeout_ms;   /* 0: no limit; the server and this client enforce it */
    struct str request_id; /* sent as x-request-id; does not by itself allow a retry */
    /* The method recognises a repeat by request_id and returns the first response again, so a retry
     * is safe. Never set it because of a client's header. */
    bool dedups_by_request_id;
    bool idempotent; /* a read, or a write that may be repeated without a request id */
    /* True: waits for a connection without a limit. False: waits only for a dial in progress, and
     * fails with ERR_UNAVAILABLE in a back-off or if every address failed. */
    bool wait_for_ready;
    const struct h2_header *metadata; /* names in lower case; values of -bin names are raw */
    size_t metadata_count;
    struct str trace;      /* 32 hex digits; "": this client draws a random id */
    bool untraced;         /* sends no traceparent header: the server draws the trace id */
    size_t response_max;   /* bytes of a message, checked in its head; 0: 4 MiB */
    uint32_t attempts_max; /* 0: 8; 1: no retry */
};
/* ERR_INVALID (path, metadata, trace), ERR_TOO_LARGE (metadata), ERR_FULL (calls_max, timers),
 * ERR_CLOSED (the channel is closing), ERR_NOMEM. The channel frees the call when on_end returns.
 * The request is sent at the end of the turn. */
enum err rpc_call_start(struct rpc_channel *channel, const struct rpc_call_options *options,
                        const struct rpc_call_events *events, void *owner,
                        struct rpc_client_call **ret_call);
/* Replaces on_message, for messages too long to keep. Call in the turn that started the call.
 * `last` marks the end of a message. After the first piece the call is not retried. Pieces count
 * only if the outcome is ERR_OK. */
typedef void rpc_piece_fn(void *owner, struct rpc_client_call *call, struct str piece, bool last);
void rpc_call_in_pieces(struct rpc_client_call *call, rpc_piece_fn *on_piece);
/* Queues a copy. ERR_FULL: 256 KiB are queued; on_writable follows. A longer message is accepted if
 * nothing is queued. ERR_CLOSED: after rpc_call_end, or on_end is due. ERR_TOO_LARGE (1 GiB),
 * ERR_NOMEM. */
enum err rpc_call_send(struct rpc_client_call *call, struct str message);
void rpc_call_end(struct rpc_client_call *call);    /* half-closes: no more messages are sent */
void rpc_call_cancel(struct rpc_client_call *call); /* no effect if on_end is already due */
/* Stops on_message until rpc_call_resume. The peer can then send only until its window is full. */
void rpc_call_pause(struct rpc_client_call *call);
void rpc_call_resume(struct rpc_client_call *call);
/* The peer's metadata: -bin values decoded, without the protocol's own names. Headers are available
 * with the first message, trailers in on_end; a trailers-only response has only trailers. Valid
 * until on_end returns. */
bool rpc_call_header(const struct rpc_client_call *call, struct str name, struct str *ret_value);
bool rpc_call_trailer(const struct rpc_client_call *call, struct str name, struct str *ret_value);
size_t rpc_call_headers(const struct rpc_client_call *call, const struct h2_header **ret_headers);
size_t rpc_call_trailers(const struct rpc_client_call *call, const struct h2_header **ret_trailers);

/* Sends one request and expects one response; the request is kept for retries. `message` is
 * empty unless the outcome is ERR_OK. An OK without exactly one message becomes ERR_UNKNOWN.
 * Errors are those of rpc_call_start and rpc_call_send; after an error done() is not called.
 * During done() `call` may be used, for example for rpc_call_trailer. ret_call, for
 * rpc_call_cancel, may be NULL. */
typedef void rpc_unary_fn(void *owner, const struct rpc_client_call *call,
                          const struct rpc_outcome *outcome, struct str message);
enum err rpc_unary(struct rpc_channel *channel, const struct rpc_call_options *options,
                   struct str request, rpc_unary_fn *done, void *owner,
                   struct rpc_client_call **ret_call);
#endif
