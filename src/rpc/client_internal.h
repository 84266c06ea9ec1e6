/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the client's files only.
 *
 *   channel.c             opens and closes channels; waiting calls; the task that does the work
 *   channel_roles.c       which connection gets the calls, which is the spare; dialing, following
 *   client_connection.c   one connection: bytes between a stream and an h2
 *   client_call.c         a call: start, requests, retries, end
 *   client_answer.c       responses of a call: headers, messages, status
 *   retry.c               what follows an attempt; pure
 *
 * Calls are freed only in channel.c, right after on_end. Connections are freed in their on_closed,
 * the channel by its task. No pointer therefore becomes invalid inside a callback of h2. */
#ifndef RPC_CLIENT_INTERNAL_H
#define RPC_CLIENT_INTERNAL_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/prng.h"
#include "rpc/client.h"
#include "rpc/retry.h"
#include "wire/grpc.h"
#include "wire/h2.h"

enum {
    CONNECTION_OUTPUT_MAX = 1024 * 1024,
    CONNECTION_LINGER_MS = 1000, /* for an orderly close */
    CONNECTION_STABLE_MS = 1000, /* a connection that was ready for less time counts as failed */
    CLIENT_TRACE_LEN = 32,
    CALL_OUTPUT_MAX = 256 * 1024,
    CALL_MESSAGE_MAX = 1024 * 1024 * 1024,
    CALL_REPLAY_MAX = 64 * 1024,  /* bytes of requests that a stream keeps for a retry */
    CALL_HELD_MAX = 1024 * 1024,  /* more than any flow-control window of this client */
    CALL_ANSWER_MAX = 512 * 1024, /* bytes: metadata of all attempts, and the status text */
};

/* A call has a state, and its running attempt has one state for each direction. client_call_to
 * makes every change of the call's state and asserts that the change is listed here.
 *
 *   state      the call is in                     changes
 *     WAITING    channel.waiting: no connection    -> RUNNING   client_call_begin
 *                is ready for the call             -> ENDED     client_call_stop
 *     DELAYED    channel.delayed: backs off        -> WAITING   on_timer of the call
 *                                                  -> ENDED     client_call_stop
 *     RUNNING    connection.calls: an attempt      -> ANSWERED  answer_set_aside
 *                has a stream                      -> WAITING, DELAYED, ENDED  client_call_over
 *                                                  -> ENDED     client_call_stop
 *     ANSWERED   channel.delayed: the stream is    -> as RUNNING, except ANSWERED
 *                gone, the caller still reads
 *     ENDED      channel.ended: on_end is due
 *
 *   outgoing   OPEN: the caller may send more. ENDED: the caller called rpc_call_end. HANDED: h2
 *              has the end of the request, too. A retry changes HANDED back to ENDED.
 *   incoming   NONE. BEGUN: headers have arrived. WHOLE: `attempt` is known, but held bytes must be
 *              delivered first. A retry changes the state back to NONE. */
enum call_state { CALL_WAITING, CALL_DELAYED, CALL_RUNNING, CALL_ANSWERED, CALL_ENDED };
enum outgoing_state { OUTGOING_OPEN, OUTGOING_ENDED, OUTGOING_HANDED };
enum incoming_state { INCOMING_NONE, INCOMING_BEGUN, INCOMING_WHOLE };

struct attempt {
    enum attempt_end end;
    enum grpc_status status;
    bool answered;
    struct str text, details; /* in the call's answer arena, or static */
};

struct rpc_client_call {
    struct list link;        /* in the list of the call's state, see above */
    struct list resume_link; /* in channel.resumed, or in no list */
    struct rpc_channel *channel;
    struct client_connection *connection; /* set while the call is RUNNING */
    int32_t stream;
    enum call_state state;
    enum outgoing_state outgoing;
    enum incoming_state incoming;
    struct rpc_call_events events;
    void *owner;
    rpc_unary_fn *unary_done; /* NULL if rpc_call_start started the call */
    rpc_piece_fn *on_piece;   /* NULL: messages are delivered whole */
    struct timer timer;       /* due at the deadline, or at the end of an earlier back-off */
    mono_time deadline, resume_at;
    mono_ns started;

    /* -- copies of the caller's options, stored behind this struct -- */
    struct str path, request_id;
    char trace[CLIENT_TRACE_LEN]; /* "": no traceparent header */
    struct h2_header *metadata;   /* values of -bin names are encoded */
    size_t metadata_count;
    size_t response_max;
    uint32_t attempts, attempts_max;
    uint64_t requested_flush; /* connection.flushes when h2 got the request */
    enum retry_repeat repeat;
    bool wait_for_ready;
    bool doubt;      /* an earlier attempt may have been applied */
    bool replayable; /* `output` has the whole request, and the caller got no data */

    /* -- framed requests; [0, output_at) was given to h2 in this attempt -- */
    struct buf output;
    size_t output_at;
    bool writable_due; /* a send returned ERR_FULL, so on_writable must be called */

    /* -- the response in this attempt -- */
    struct grpc_reader reader;
    struct buf held; /* received while the call was paused */
    struct arena answer;
    const struct h2_header *headers, *trailers;
    size_t headers_count, trailers_count;
    bool gzip;   /* the response uses grpc-encoding gzip */
    bool paused; /* by the caller */
    struct attempt attempt;
    struct buf message; /* the message so far; in unary calls, the whole response */
    uint32_t messages;
    struct rpc_outcome outcome; /* set in the state CALL_ENDED */
};

/* DIALING    the server has sent nothing; h2 exists    -> READY     client_spoke
 *              once the stream is open                   -> RETIRING  client_retire
 *   READY      accepts calls                             -> RETIRING  client_retire
 *   RETIRING   no new calls; closes after the last call  -> CLOSING   client_flush
 *   CLOSING    the stream is closed or closing; on_closed frees the connection
 * Every state changes to CLOSING by client_cut and on_closed. */
enum client_state { CLIENT_DIALING, CLIENT_READY, CLIENT_RETIRING, CLIENT_CLOSING };
struct client_connection {
    struct list link; /* in channel.connections */
    struct rpc_channel *channel;
    char address[RPC_ADDRESS_CAP];
    struct stream *stream;
    struct h2 *h2; /* NULL until the stream is open */
    enum client_state state;
    bool extra;  /* additional connection to the active server */
    bool goaway; /* the server sent GOAWAY */
    bool ping_waits;
    uint64_t flushes;
    uint64_t ping_after_ms;
    mono_time heard;
    mono_time ready_since; /* when the server's first bytes arrived, or MONO_NEVER */
    struct timer timer;    /* in turn: dial timeout, ping interval, limit for an orderly close */
    struct list calls;     /* running calls; h2 has a pointer to each call at its stream */
    size_t calls_count;
    struct buf output;
    struct note why;
};

struct rpc_channel {
    struct io *io;
    struct rpc_channel_options options; /* without addresses and tls_name, which are stored below */
    char *addresses[RPC_ADDRESSES_MAX];
    size_t address_count;
    char *tls_name;
    struct prng prng;
    struct task work;
    struct turn_hook hook;
    bool closing;
    void (*done)(void *owner);
    void *done_owner;

    struct list waiting, delayed, ended, resumed;
    uint32_t calls_count;
    bool changed; /* on_change must be called */

    /* -- roles: see channel_roles.c -- */
    struct list connections;
    struct client_connection *active; /* ready; gets new calls */
    struct client_connection *next;   /* being dialed to become the active connection */
    struct client_connection *spare;  /* to another address; dialing or ready */
    uint32_t extra_count;             /* connections with `extra` set */
    uint32_t extra_failures;          /* consecutive failed dials of extra connections */
    struct role_timer {
        struct timer timer;
        struct rpc_channel *channel;
    } dial, spare_pause, extra_pause;
    size_t next_address, spare_address;
    uint32_t tried;
    uint32_t failures, spare_failures; /* consecutive rounds in which every address failed */
    bool failing;                      /* every address has failed since the last success */
    bool following;                    /* `next` is a dial to the leader that a response named */
    struct note last_failure;
};

/* -- channel.c -- */
void channel_touch(struct rpc_channel *channel);   /* schedules the channel's task */
void channel_changed(struct rpc_channel *channel); /* channel_touch, then calls on_change */
struct rpc_client_metrics {
    struct counter *calls[GRPC_STATUS_COUNT], *unknown, *retries, *dials, *dials_failed;
    struct histogram *seconds;
};
#define CHANNEL_COUNT(channel, which)                                                              \
    do {                                                                                           \
        if ((channel)->options.metrics) counter_inc((channel)->options.metrics->which);            \
    } while (0)

/* -- channel_roles.c -- */
void roles_settle(struct rpc_channel *channel);
/* A connection with a free stream for the next call. NULL: none; another connection is then dialed
 * if the options allow it. */
struct client_connection *roles_with_room(struct rpc_channel *channel);
void roles_ready(struct client_connection *connection);
void roles_drop(struct client_connection *connection);
void roles_lost(struct client_connection *connection, const struct note *why); /* after on_closed */
void roles_follow(struct rpc_channel *channel, const struct client_connection *from,
                  struct str leader);
void roles_timer(struct timer *timer);

/* -- client_connection.c -- */
enum err client_dial(struct rpc_channel *channel, const char *address,
                     struct client_connection **ret_connection, struct note *note);
bool client_has_spoken(const struct client_connection *connection);
void client_retire(struct client_connection *connection); /* closes after the last call */
void client_cut(struct client_connection *connection); /* closes without a drain, then on_closed */
void client_probe(struct client_connection *connection, uint64_t timeout_ms);
void client_flush(struct client_connection *connection);
void client_add_call(struct client_connection *connection, struct rpc_client_call *call);
void client_remove_call(struct client_connection *connection, struct rpc_client_call *call);

/* -- client_call.c -- */
/* Inserts the call before node `before`; a list's head means at its end. */
void client_call_to(struct rpc_client_call *call, enum call_state to, struct list *before);
/* ERR_OK: the call runs or has ended. ERR_FULL, ERR_CLOSED: no room for the call now. */
enum err client_call_begin(struct rpc_client_call *call, struct client_connection *connection);
void client_call_pump(struct rpc_client_call *call); /* gives queued requests to h2 */
void client_call_over(struct rpc_client_call *call, const struct attempt *attempt);
void client_call_stop(struct rpc_client_call *call, enum err err, enum grpc_status status,
                      const char *text);
bool client_call_was_sent(const struct rpc_client_call *call);
void client_call_free(struct rpc_client_call *call);

/* -- client_answer.c: events of h2 for one call -- */
void answer_headers(struct rpc_client_call *call, const struct h2_header *headers, size_t count,
                    bool trailers, bool end);
void answer_data(struct rpc_client_call *call, struct str bytes);
void answer_ended(struct rpc_client_call *call);
void answer_closed(struct rpc_client_call *call, uint32_t code);
/* Detaches an answered call from its stream while the caller still reads. */
void answer_set_aside(struct rpc_client_call *call);
void answer_continue(struct rpc_client_call *call); /* call after a pause ends */
void answer_forget(struct rpc_client_call *call);   /* call before a retry */
#endif
