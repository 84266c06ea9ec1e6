/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the client share. Nothing outside them includes this.
 *
 *   channel.c             open and close, waiting calls, the one task that does the work
 *   channel_roles.c       which connection gets the calls, which is the spare; dialing, following
 *   client_connection.c   one connection: bytes between a stream and an h2
 *   client_call.c         a call: start, requests out, retries, the end
 *   client_answer.c       what comes back for a call: headers, messages, status
 *   retry.c               what to do when an attempt is over; pure
 *
 * A call is freed in one place, channel.c, right after on_end. Connections are freed in their
 * on_closed, the channel by its task; so no pointer goes stale inside a callback of h2. */
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
    CONNECTION_LINGER_MS = 1000, /* an orderly end may take so long */
    CONNECTION_STABLE_MS = 1000, /* one that lived less counts as a failed dial */
    CLIENT_TRACE_LEN = 32,
    CALL_OUTPUT_MAX = 256 * 1024,
    CALL_MESSAGE_MAX = 1024 * 1024 * 1024,
    CALL_REPLAY_MAX = 64 * 1024,  /* of a stream's requests kept for another attempt */
    CALL_HELD_MAX = 1024 * 1024,  /* above any window we announce */
    CALL_ANSWER_MAX = 512 * 1024, /* metadata of all attempts, and the status text */
};

/* A call has a state, and one for each direction of its running attempt. client_call_to makes every
 * move of the first, and stops the process at one that is not listed here.
 *
 *   state      the call is in                     what follows
 *     WAITING    channel.waiting: for a           -> RUNNING   client_call_begin
 *                connection                       -> ENDED     client_call_stop
 *     DELAYED    channel.delayed: for its pause   -> WAITING   on_timer of the call
 *                to pass                          -> ENDED     client_call_stop
 *     RUNNING    connection.calls: an attempt     -> ANSWERED  answer_set_aside
 *                has a stream                     -> WAITING, DELAYED, ENDED  client_call_over
 *                                                 -> ENDED     client_call_stop
 *     ANSWERED   channel.delayed: its stream is   -> as RUNNING, but for ANSWERED
 *                gone, the caller still reads
 *     ENDED      channel.ended: on_end is due
 *
 *   outgoing   OPEN: the caller may send more; ENDED: it has sent all (rpc_call_end); HANDED: h2 has
 *              the end, too, in this attempt. Another attempt goes from HANDED back to ENDED.
 *   incoming   NONE; BEGUN: headers came; WHOLE: `attempt` is known, and the end waits for held
 *              bytes. Another attempt goes back to NONE. */
enum call_state { CALL_WAITING, CALL_DELAYED, CALL_RUNNING, CALL_ANSWERED, CALL_ENDED };
enum outgoing_state { OUTGOING_OPEN, OUTGOING_ENDED, OUTGOING_HANDED };
enum incoming_state { INCOMING_NONE, INCOMING_BEGUN, INCOMING_WHOLE };

/* How an attempt ended, as far as it is known. */
struct attempt {
    enum attempt_end end;
    enum grpc_status status;
    bool answered;
    struct str text, details; /* in the call's answer arena, or static */
};

struct rpc_client_call {
    struct list link;        /* see the top */
    struct list resume_link; /* in channel.resumed, or alone */
    struct rpc_channel *channel;
    struct client_connection *connection; /* while RUNNING; else NULL */
    int32_t stream;
    enum call_state state;
    enum outgoing_state outgoing;
    enum incoming_state incoming;
    struct rpc_call_events events;
    void *owner;
    rpc_unary_fn *unary_done; /* NULL: a call of rpc_call_start */
    rpc_piece_fn *on_piece;   /* NULL: messages are gathered whole */
    struct timer timer;       /* the deadline, or the end of a pause if that is earlier */
    mono_time deadline, resume_at;
    mono_ns started;

    /* -- what was asked; in this block of memory -- */
    struct str path, request_id;
    char trace[CLIENT_TRACE_LEN]; /* begins with NUL: no traceparent */
    struct h2_header *metadata;   /* -bin encoded */
    size_t metadata_count;
    size_t response_max;
    uint32_t attempts, attempts_max;
    uint64_t requested_flush; /* connection.flushes when the request was handed over */
    enum retry_repeat repeat;
    bool wait_for_ready;
    bool doubt;      /* an earlier attempt may have been applied */
    bool replayable; /* `output` still begins at the first byte, nothing was delivered */

    /* -- requests: framed; [0, output_at) was handed to h2 in this attempt -- */
    struct buf output;
    size_t output_at;
    bool writable_due; /* the caller met ERR_FULL */

    /* -- the answer of this attempt -- */
    struct grpc_reader reader;
    struct buf held; /* came while paused */
    struct arena answer;
    const struct h2_header *headers, *trailers;
    size_t headers_count, trailers_count;
    bool gzip;   /* grpc-encoding of this answer */
    bool paused; /* by the caller */
    struct attempt attempt;
    struct buf message; /* as far as it came; unary: the one that came */
    uint32_t messages;
    struct rpc_outcome outcome; /* once CALL_ENDED */
};

/*   DIALING    the server has not spoken; h2 is there    -> READY     client_spoke
 *              once the stream is open                   -> RETIRING  client_retire
 *   READY      it takes calls                            -> RETIRING  client_retire
 *   RETIRING   no new calls; ends with the last one      -> CLOSING   client_flush
 *   CLOSING    the stream is closed, or ends in order; on_closed frees the connection
 * Every state goes to CLOSING by client_cut and on_closed. */
enum client_state { CLIENT_DIALING, CLIENT_READY, CLIENT_RETIRING, CLIENT_CLOSING };
struct client_connection {
    struct list link; /* in channel.connections */
    struct rpc_channel *channel;
    char address[RPC_ADDRESS_CAP];
    struct stream *stream;
    struct h2 *h2; /* once the stream is open */
    enum client_state state;
    bool extra;  /* beside the active one, to the same server; see channel_roles.c */
    bool goaway; /* the server's wish */
    bool ping_waits;
    uint64_t flushes; /* how often output was taken */
    uint64_t ping_after_ms;
    mono_time heard;
    mono_time ready_since; /* the server's first word; MONO_NEVER: it has not spoken */
    struct timer timer;    /* dial time-out, then pings, then linger */
    struct list calls;     /* each is bound to its stream in h2, too */
    size_t calls_count;
    struct buf output;
    struct note why; /* set by us before stream_close */
};

struct rpc_channel {
    struct io *io;
    struct rpc_channel_options options; /* addresses and tls_name are not used: see below */
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
    bool changed; /* on_change is due */

    /* -- roles: see channel_roles.c -- */
    struct list connections;
    struct client_connection *active; /* ready; new calls go here */
    struct client_connection *next;   /* dialing, to become the active one */
    struct client_connection *spare;  /* dialing or ready */
    uint32_t extra_count;             /* connections with `extra` set */
    uint32_t extra_failures;          /* dials in a row */
    struct role_timer {
        struct timer timer;
        struct rpc_channel *channel;
    } dial, spare_pause, extra_pause;
    size_t next_address, spare_address;
    uint32_t tried;                    /* addresses that failed in this round */
    uint32_t failures, spare_failures; /* rounds in a row */
    bool failing;                      /* all addresses have failed since the last success */
    bool following;                    /* `next` goes to the leader that was named */
    struct note last_failure;
};

/* -- channel.c -- */
void channel_touch(struct rpc_channel *channel);   /* its task runs soon */
void channel_changed(struct rpc_channel *channel); /* ... and calls on_change */
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
/* A connection that has a free stream for the next call; NULL: there is none now, and a further
 * one is dialed if the options allow it. */
struct client_connection *roles_with_room(struct rpc_channel *channel);
void roles_ready(struct client_connection *connection);
/* It gets no more calls: lost, going away or given up. */
void roles_drop(struct client_connection *connection);
void roles_lost(struct client_connection *connection, const struct note *why); /* on_closed came */
void roles_follow(struct rpc_channel *channel, const struct client_connection *from,
                  struct str leader);
void roles_timer(struct timer *timer); /* of each of the three */

/* -- client_connection.c -- */
enum err client_dial(struct rpc_channel *channel, const char *address,
                     struct client_connection **ret_connection, struct note *note);
bool client_has_spoken(const struct client_connection *connection);
void client_retire(struct client_connection *connection); /* ends when its last call has */
void client_cut(struct client_connection *connection);    /* at once; on_closed follows */
/* Pings it now; it is cut unless something comes from the server within `timeout_ms`. */
void client_probe(struct client_connection *connection, uint64_t timeout_ms);
void client_flush(struct client_connection *connection);
void client_add_call(struct client_connection *connection, struct rpc_client_call *call);
void client_remove_call(struct client_connection *connection, struct rpc_client_call *call);

/* -- client_call.c -- */
/* Makes the move, and puts the call before that node of a list: before the head is the end. */
void client_call_to(struct rpc_client_call *call, enum call_state to, struct list *before);
/* ERR_OK, or it was ended; ERR_FULL and ERR_CLOSED: this connection takes no call now. */
enum err client_call_begin(struct rpc_client_call *call, struct client_connection *connection);
void client_call_pump(struct rpc_client_call *call); /* requests to h2 */
/* The attempt is over; decides what comes next. */
void client_call_over(struct rpc_client_call *call, const struct attempt *attempt);
/* The call is over for a reason of our own. */
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
/* Answered, and the caller is still reading: it needs its stream no more. */
void answer_set_aside(struct rpc_client_call *call);
void answer_continue(struct rpc_client_call *call); /* after a pause */
void answer_forget(struct rpc_client_call *call);   /* before another attempt */
#endif
