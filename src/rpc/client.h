/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC client: a channel to one service at several addresses, and calls on it.
 *
 * A channel dials from the moment it is opened and never gives up: addresses in order, names
 * resolved anew on every dial, then again after a pause that grows, with full jitter. A connection
 * counts as ready when its server has spoken; a second one to another address is kept warm when
 * asked.
 *
 * Done, not done, don't know. A call is tried again only where it is certain that it was not
 * applied (no byte left, REFUSED_STREAM, GOAWAY below its stream, an answer that says so) or where
 * a repeat does no harm (the caller gave a request id, or says it is idempotent). Whatever else was
 * sent and not answered ends as ERR_UNKNOWN, never as "no": a lost connection, a deadline, a
 * cancellation, an answer that cannot be read. So do the statuses that say nothing about what was
 * done: UNKNOWN, CANCELLED, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE, DATA_LOSS (rpc/retry.h has
 * the whole table).
 *
 * What an answer may carry in its trailers (or headers, when it is trailers-only), and our servers
 * do:
 *   x-muster-leader   beside FAILED_PRECONDITION: I am not the leader; the value is the leader's
 *                     "host:port", or empty when it is not known. It says "not applied", too.
 *   x-muster-applied  "no": whatever the status, nothing was done; trying again is safe.
 * What a request carries: traceparent (W3C, 00-<trace>-<span>-01) unless switched off, x-request-id
 * when the caller gave one, grpc-timeout with the time that is left.
 *
 * on_end comes exactly once per call that was started, never from inside a call of this header, and
 * is the last event of the call. Everything belongs to the loop's thread. */
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
    RPC_ADDRESS_CAP = 280, /* a DNS name, a port, and the closing NUL */
    RPC_METADATA_MAX = 64, /* fields of one call */
    RPC_METADATA_BYTES_MAX = 32 * 1024,
};

/* Counters of all channels of a process, shared: open one, give it to each channel. Lives as long
 * as the channels that use it. */
struct rpc_client_metrics;
enum err rpc_client_metrics_open(struct metrics *metrics, struct rpc_client_metrics **ret_metrics,
                                 struct note *note);
void rpc_client_metrics_close(struct rpc_client_metrics *metrics); /* NULL is fine */

/* -- channels -- */
struct rpc_channel_options {
    struct io *io;
    const char *const *addresses; /* ends with NULL; tried in order, then again; copied */
    struct tls_context *tls;      /* NULL: plaintext; must offer "h2". Held by reference */
    const char *tls_name;         /* NULL: the dialled host; copied */
    bool warm_second;             /* keep a ready connection to another of the addresses */
    bool follow_leader; /* go where "not leader" answers point, also to an unlisted address */
    uint64_t backoff_first_ms, backoff_max_ms; /* 0: 100 ms, 10 s */
    uint64_t dial_timeout_ms;                  /* until the server has spoken; 0: 5 s */
    /* Of silence; 0: off, 20 s. Pings are sent only while calls run, as gRPC servers expect, and on
     * the warm connection. */
    uint64_t ping_after_ms, ping_timeout_ms;
    uint32_t calls_max; /* waiting and running; 0: 10,000; more get ERR_FULL */
    /* To the server that gets the calls: when its limit on streams is reached, further connections
     * are dialed, up to so many in all. 0: 1; calls past the limit wait for a stream. */
    uint32_t connections_max;
    struct rpc_client_metrics *metrics; /* may be NULL */
    /* After a connection became ready or was lost, a round of dials failed, or a call left its
     * place: what rpc_channel_room and its like say may have changed. Never from inside a call of
     * this header. May be NULL. */
    void (*on_change)(void *owner);
    /* A dial that would have made the connection for calls failed. May be NULL. */
    void (*on_dial_failed)(void *owner, const char *address, const struct note *why);
    void *owner;
};
/* ERR_INVALID with a note (no address, or one that is none), ERR_NOMEM, ERR_FULL (timers). */
enum err rpc_channel_open(const struct rpc_channel_options *options,
                          struct rpc_channel **ret_channel, struct note *note);
/* Every call ends (ERR_CANCELLED, or ERR_UNKNOWN if it was sent); then done(), which may be NULL,
 * and nothing of the channel is left. No new call from here on. */
void rpc_channel_close(struct rpc_channel *channel, void (*done)(void *owner), void *owner);
bool rpc_channel_ready(const struct rpc_channel *channel);
/* How many calls the server lets run at once on the connection there is; 0: there is none. */
size_t rpc_channel_room(const struct rpc_channel *channel);
bool rpc_channel_failing(const struct rpc_channel *channel); /* every address failed, none since */
const char *rpc_channel_peer(const struct rpc_channel *channel);      /* connected address, or "" */
const char *rpc_channel_warm_peer(const struct rpc_channel *channel); /* the warm one's, or "" */
/* The server we are connected to is not the right one (a "not leader" without our trailers, say):
 * new calls go to the next address. Those that run are not touched. */
void rpc_channel_next_address(struct rpc_channel *channel);
/* An answer did not come in time, and the server may be busy, stopped or cut off. New calls go to
 * the warm second if it is ready, and the connection before becomes the second. It is pinged, and
 * given up when nothing comes from it within `silence_max_ms`. Dials nothing for the late answer
 * alone: a server that is only slow would get a handshake on top. */
void rpc_channel_answer_late(struct rpc_channel *channel, uint64_t silence_max_ms);

/* -- calls -- */
struct rpc_outcome {
    enum err err;            /* ERR_OK; ERR_UNKNOWN: may have been applied; else: was not */
    enum grpc_status status; /* the peer's, or one for the failure */
    struct str text;         /* its message, decoded; or ours */
    struct str details;      /* grpc-status-details-bin, decoded */
    bool answered;           /* the peer itself said `status` */
    uint32_t attempts;       /* that reached a connection */
    bool doubted;            /* an earlier attempt was sent, and not heard of again */
};
struct rpc_call_events {
    /* Raw bytes, valid during the call. */
    void (*on_message)(void *owner, struct rpc_client_call *call, struct str message);
    /* After ERR_FULL from rpc_call_send: there is room again. Or NULL. */
    void (*on_writable)(void *owner, struct rpc_client_call *call);
    void (*on_end)(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome);
};
struct rpc_call_options {  /* everything is copied */
    const char *path;      /* "/package.Service/Method" */
    uint64_t timeout_ms;   /* 0: none; the time that is left is sent, and enforced here */
    struct str request_id; /* sent as x-request-id; by itself it never allows a retry */
    /* The method's state machine answers a repeat under request_id as it answered the first: retry
     * is safe. A property of the method, never of a header that somebody else sent. */
    bool dedups_by_request_id;
    bool idempotent; /* a read, or a write that may come twice: retry is safe without an id */
    /* Wait for a connection as long as it takes. Else: wait for a dial that is under way, but fail
     * with ERR_UNAVAILABLE as soon as every address has failed, and while the channel pauses after
     * that. */
    bool wait_for_ready;
    const struct h2_header *metadata; /* names in lower case; -bin values raw */
    size_t metadata_count;
    struct str trace;      /* 32 hex digits; empty: a new one is drawn */
    bool untraced;         /* no traceparent, as stock clients: the server draws the id */
    size_t response_max;   /* of one message, checked before it is kept; 0: 4 MiB */
    uint32_t attempts_max; /* 0: 8; 1: never again */
};
/* ERR_INVALID (path, metadata, trace), ERR_TOO_LARGE (metadata), ERR_FULL (calls_max, timers),
 * ERR_CLOSED (the channel closes), ERR_NOMEM. The call's memory is the channel's; gone when on_end
 * returns. It goes out when the caller's turn is over. */
enum err rpc_call_start(struct rpc_channel *channel, const struct rpc_call_options *options,
                        const struct rpc_call_events *events, void *owner,
                        struct rpc_client_call **ret_call);
/* Instead of on_message: each message as it arrives, for those too long to be held. To be asked for
 * in the turn that started the call. Pieces may be empty; `last` ends a message. After the first
 * one there is no other attempt, and what came is worth nothing unless the outcome is ERR_OK.
 * response_max is of the message, not of the piece, and gzip is not offered. */
typedef void rpc_piece_fn(void *owner, struct rpc_client_call *call, struct str piece, bool last);
void rpc_call_in_pieces(struct rpc_client_call *call, rpc_piece_fn *on_piece);
/* Copies. ERR_FULL: 256 KiB wait to go out; on_writable follows. A larger message is taken whole
 * when nothing waits. ERR_CLOSED: after rpc_call_end, or the call is over and on_end is on its way.
 * ERR_TOO_LARGE (1 GiB), ERR_NOMEM. */
enum err rpc_call_send(struct rpc_client_call *call, struct str message);
void rpc_call_end(struct rpc_client_call *call);    /* no more messages from us */
void rpc_call_cancel(struct rpc_client_call *call); /* on_end follows, unless it is on its way */
/* No on_message until resumed; what comes meanwhile fills the peer's window and then holds the
 * peer. */
void rpc_call_pause(struct rpc_client_call *call);
void rpc_call_resume(struct rpc_client_call *call);
/* What the peer sent beside the messages, -bin decoded; names of the protocol itself are left out.
 * Headers are there with the first message, trailers in on_end; a trailers-only answer has trailers
 * only. Borrowed until on_end returns. */
bool rpc_call_header(const struct rpc_client_call *call, struct str name, struct str *ret_value);
bool rpc_call_trailer(const struct rpc_client_call *call, struct str name, struct str *ret_value);
size_t rpc_call_headers(const struct rpc_client_call *call, const struct h2_header **ret_headers);
size_t rpc_call_trailers(const struct rpc_client_call *call, const struct h2_header **ret_trailers);

/* One request, one answer; the request is kept for retries. `message` is empty unless the outcome
 * is ERR_OK. An OK without exactly one message is ERR_UNKNOWN: it was done, but we cannot say what.
 * Errors as rpc_call_start and rpc_call_send; then done() never comes. `call` is for
 * rpc_call_trailer and its like, during done(). ret_call may be NULL; it is for rpc_call_cancel. */
typedef void rpc_unary_fn(void *owner, const struct rpc_client_call *call,
                          const struct rpc_outcome *outcome, struct str message);
enum err rpc_unary(struct rpc_channel *channel, const struct rpc_call_options *options,
                   struct str request, rpc_unary_fn *done, void *owner,
                   struct rpc_client_call **ret_call);
#endif
