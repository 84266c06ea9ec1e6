/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the server's files only.
 *
 *   server.c      methods, listeners, turns, draining, closing
 *   connection.c  bytes in and out over one stream and one h2, its timer
 *   teardown.c    ends the calls of closed connections, in slices
 *   body.c        the timeout of request bodies
 *   call.c        life of a call, functions for handlers
 *   call_in.c     from headers to a call, from data to messages
 *   page.c        plain HTTP pages, and requests that are not gRPC
 *   call_out.c    outgoing messages and statuses
 *   limits.c      defaults; bytes and connections per identity
 *   meter.c       metrics, the slow-request log, trace ids
 *
 * io events, timers and h2 events enter in connection.c; h2 events continue in call_in.c. Handlers
 * call back into call.c and call_out.c, which only queue. Work that must not happen inside a
 * handler's own call waits in server.due and runs at the end of the turn. */
#ifndef RPC_SERVER_INTERNAL_H
#define RPC_SERVER_INTERNAL_H
#include "base/list.h"
#include "base/map.h"
#include "rpc/server.h"
#include "wire/grpc.h"
#include "wire/h2.h"

enum {
    CALLS_KEPT_MAX = 128,       /* ended calls kept for reuse */
    ARENA_KEPT_MAX = 16 << 10,  /* an ended call keeps arenas up to this size for reuse */
    HEAD_ARENA_MAX = 256 << 10, /* metadata in both directions; h2 limits the request's */
    TRACE_POOL = 64,            /* trace ids per read from the kernel */
    LINGER_MS = 1000,           /* for the peer to read the last GOAWAY */
    DRAIN_STEP_MS = 1000,       /* limit for the reply to the ping between two GOAWAYs */
    MESSAGE_MAX_DEFAULT = 4 << 20,
    ARENA_MAX_DEFAULT = 16 << 20,
    SCRATCH_KEPT_MAX = 256 << 10, /* the end of a turn frees larger scratch buffers */
    TEARDOWN_PER_TURN = 128,
};

struct method {
    struct rpc_method rpc; /* a copy with the defaults filled in */
    struct str path;
    struct str name; /* in metrics: the path without leading slash, or "unknown" */
    struct counter *by_code[GRPC_STATUS_COUNT]; /* by gRPC status; NULL until used */
    struct histogram *seconds;
    struct counter *bytes_in, *bytes_out;
};

/* clients with the same identity, or from the same address */
struct rpc_peer {
    struct str key;
    uint32_t connections;
    size_t buffered, metadata;
};

/* -- connections -- */
struct listening {
    struct rpc_server *server;
    struct listener *listener;
    bool tls;
};
enum rpc_connection_state {
    CONNECTION_OPEN,
    CONNECTION_FAILED, /* the next flush closes the connection; input is ignored */
    CONNECTION_ENDED,  /* this side is closed; teardown.c and on_closed are due */
};
struct connection;
/* -- page.c: pages of plain HTTP -- */
/* Parses the head of an HTTP/1.x request, as far as pages need it. Pure. */
enum page_head {
    PAGE_HEAD_MORE, /* the empty line after the head has not arrived */
    PAGE_HEAD_ASKS, /* the client asks for a page, and *ret_ask is set */
    PAGE_HEAD_OTHER,
    PAGE_HEAD_BROKEN,
};
struct page_ask {
    struct str path; /* without query; points into the parsed bytes */
    bool head;       /* a HEAD request: send no body */
};
/* Bytes after the head are ignored, so the result does not depend on how the bytes were split. */
enum page_head page_head_read(struct str bytes, struct page_ask *ret_ask);
bool page_answer(struct connection *c, int32_t stream, struct str path, bool head); /* for HTTP/2 */
bool page_is_http1(const struct connection *c, struct str bytes);
void page_feed(struct connection *c, struct str bytes);

struct connection {
    struct list link;  /* in server.connections */
    struct list dirty; /* in server.dirty, or in no list */
    struct list ended; /* in server.ended while teardown.c has work, or in no list */
    struct rpc_server *server;
    struct stream *stream; /* NULL after on_closed */
    struct h2 *h2;         /* NULL after teardown.c freed it */
    /* Copies, because calls outlive the stream during teardown. */
    const struct tls_identity *identity;
    struct tls_identity *own_identity;
    char *address;
    struct rpc_peer *peer;
    enum rpc_connection_state state;
    struct list calls; /* open calls; h2 also points to each call at its stream */
    uint32_t call_count;
    size_t metadata;
    bool passes_on;      /* the peer is a replica that forwards clients' calls, see limits.c */
    struct list bodies;  /* calls with an incomplete request, see body.c */
    struct list waiting; /* calls whose input is not read because `choked` is set */
    size_t held;         /* bytes in the outboxes of all calls here, see call_out.c */
    bool choked;         /* `held` is too large: requests are not read */
    bool unread;         /* input is paused until the peer reads more responses */
    bool encodings_sent;
    struct method *last;  /* method of the last call, a guess for the next call */
    struct buf page_head; /* of an HTTP/1.1 request, as far as received */
    struct timer timer;
    mono_time timer_due;
    mono_time opened, heard, idle_since, moved;
    mono_ns read_at;
    uint64_t late;           /* bytes for closed streams, see h2_data_late */
    mono_time ping_sent;     /* MONO_NEVER: no ping waits for its reply */
    mono_time stall_since;   /* when the peer's windows last allowed output */
    mono_time stall_asked;   /* when a stall caused a ping, or MONO_NEVER */
    uint64_t data_sent;      /* h2_data_sent at the last check */
    mono_time drain_step;    /* when the last GOAWAY is due; MONO_NEVER: no drain, or it is sent */
    uint64_t written, taken; /* bytes given to the stream, and bytes accepted by the kernel */
};
void connection_free(struct connection *c);
void connection_accept(void *listening, struct stream *own_stream);
void connection_end(struct connection *c); /* the stream still sends what was written */
void connection_mark_dirty(struct connection *c);
void connection_flush(struct connection *c);
void connection_drain(struct connection *c);
void connection_wake_by(struct connection *c, mono_time due);
void connection_cut(struct connection *c);      /* drops all output, then on_closed */
void connection_too_much(struct connection *c); /* metadata_per_connection_max is exceeded */
void connection_put(struct connection *c, struct rpc_call *call);
void connection_remove(struct connection *c, struct rpc_call *call);

/* -- calls -- */
struct call_metadata {
    struct str name, value;
    bool trailer; /* used for outgoing metadata only */
};
struct stage {
    const char *name;
    uint64_t ns; /* time since the call began */
};
/* A call has three sides, each with its own state. call_request_to, call_response_to and
 * call_handler_to (call.c) make every change, and assert that the change is listed here.
 *
 *   request    what the peer sends
 *     OPEN       more may arrive                            -> ENDED      call_headers, call_end
 *     ENDED      complete; a part may wait in the inbox     -> DELIVERED  request_deliver_end
 *     DELIVERED  the handler has all of it, or the call failed at its end
 *
 *   response   what is sent to the peer
 *     NONE       nothing was given to h2                    -> STARTED    response_start
 *                                                           -> DECIDED    call_decide
 *     STARTED    headers were sent, messages may follow     -> DECIDED    call_decide
 *     DECIDED    the status is known and waits until the    -> SENT       status_send, call_gone
 *                outbox is empty                            -> CANCELLED  call_abort, call_gone
 *     SENT       the status was given to h2, or dropped because the peer is gone
 *     CANCELLED  the server or the peer ended the call before it was answered
 *
 *   handler    which events the handler has had
 *     UNAWARE    none                                  -> AWARE    request_start, message_deliver
 *                                                      -> DONE     call_report_done
 *     AWARE      the call began; on_done is due        -> BLOCKED  response_send, rpc_reply_more
 *                                                      -> DONE     call_report_done
 *     BLOCKED    like AWARE, and on_writable is due    -> AWARE    connection_on_writable
 *                                                      -> DONE     call_report_done
 *     DONE       no more events follow
 *
 * Invariants: the handler is DONE only if the response is DECIDED or later. The outbox has bytes
 * only while the response is STARTED or DECIDED. */
enum request_state { REQUEST_OPEN, REQUEST_ENDED, REQUEST_DELIVERED };
enum response_state {
    RESPONSE_NONE,
    RESPONSE_STARTED,
    RESPONSE_DECIDED,
    RESPONSE_SENT,
    RESPONSE_CANCELLED
};
enum handler_state { HANDLER_UNAWARE, HANDLER_AWARE, HANDLER_BLOCKED, HANDLER_DONE };

struct rpc_call {
    struct list link;     /* in connection.calls or server.kept */
    struct list due;      /* in server.due, or in no list */
    struct list body;     /* in connection.bodies, or in no list */
    struct list waiting;  /* in connection.waiting, or in no list */
    mono_time body_check; /* next check by body.c */
    size_t body_came;
    struct rpc_server *server;
    struct connection *connection;
    struct method *method;
    const struct rpc_handler *events; /* of the method, or of rpc_call_redirect */
    void *service;
    const struct tls_identity *caller; /* set if a replica forwards; NULL: the peer itself calls */
    int32_t stream;
    struct str path;
    struct arena head, arena; /* head: metadata until the call ends; arena: the current message */
    const struct call_metadata *metadata;
    size_t metadata_count;
    struct call_metadata *added; /* by the handler; room for RPC_METADATA_OUT_MAX */
    size_t added_count;
    struct grpc_reader reader;
    struct buf message; /* the part received of an incomplete message */
    struct buf inbox;   /* received but not read, and not yet passed to h2_consume */
    struct buf outbox;  /* frames that the stream has not accepted yet */
    size_t outbox_at;
    size_t reply_left;       /* bytes still missing of a message that the handler sends in pieces */
    size_t charged;          /* bytes of inbox, reader and outbox, as counted by limits_charge */
    size_t metadata_charged; /* as counted by limits_charge_metadata */
    struct timer timer;
    mono_time deadline;
    mono_ns began;
    struct stage stages[RPC_STAGES_MAX];
    size_t stage_count;
    uint64_t bytes_in, bytes_out;
    void *data;
    enum request_state request;
    enum response_state response;
    enum handler_state handler;
    enum grpc_status status;                /* set when the response becomes DECIDED */
    struct str status_text, status_details; /* sent when the outbox is empty */
    char trace[RPC_TRACE_LEN + 1];
    const struct plain_answer *plain; /* NULL unless the request is not gRPC, see page.c */
    bool no_body;                     /* a HEAD request: `plain` is sent without body */
    bool gzip;                        /* the request uses grpc-encoding gzip */
    bool whole;                       /* a unary request is complete, but not delivered */
    bool waits;                       /* set by rpc_call_set_waiting */
    bool paused;
};
static inline bool call_is_decided(const struct rpc_call *call)
{
    return call->response >= RESPONSE_DECIDED;
}
static inline bool call_takes_answer(const struct rpc_call *call)
{
    return !call_is_decided(call) && call->connection->state != CONNECTION_ENDED;
}
/* call.c */
struct rpc_call *call_new(struct connection *c, int32_t stream); /* NULL: no memory, or calls_max */
void call_free(struct rpc_call *call);                           /* keeps memory for reuse */
/* Frees the newest of the ended calls that are kept for reuse. */
void call_forget_kept(struct rpc_server *s);
void call_due(struct rpc_call *call);  /* schedules call_look() for the end of the turn */
void call_look(struct rpc_call *call); /* work that call_due() defers */
/* Call when the stream is closed. Ends the call for the handler, too, and frees the call. */
void call_gone(struct rpc_call *call);
/* A call that arrives while the server drains gets on_drain immediately, because the peer may not
 * have received the GOAWAY yet. */
void call_drain(struct rpc_call *call);
/* on_done is called before call_abort returns */
void call_abort(struct rpc_call *call, enum grpc_status status, const char *text);
void call_decide(struct rpc_call *call, enum grpc_status status);
void call_request_to(struct rpc_call *call, enum request_state to);
void call_response_to(struct rpc_call *call, enum response_state to);
void call_handler_to(struct rpc_call *call, enum handler_state to);
void call_mark_at(struct rpc_call *call, const char *stage, mono_ns at);
/* call_in.c */
void call_headers(struct connection *c, int32_t stream, const struct h2_header *headers,
                  size_t count, bool end);
void call_data(struct rpc_call *call, struct str bytes);
void call_end(struct rpc_call *call);
void call_advance(struct rpc_call *call, struct str fresh);
/* page.c: requests that are not gRPC */
struct plain_answer {
    struct str http_status, text;
};
void stranger_begin(struct rpc_call *call, const struct plain_answer *answer, bool head);
void stranger_data(struct rpc_call *call);   /* call when body_came has grown */
void stranger_answer(struct rpc_call *call); /* call when the request is complete or late */
/* teardown.c */
void teardown_begin(struct connection *c);
task_fn teardown_run;

/* body.c */
void body_wait(struct rpc_call *call); /* starts the body timeout */
void body_over(struct rpc_call *call); /* stops the body timeout; may be called twice */
mono_time body_due(const struct connection *c);
void body_expire(struct connection *c, mono_time now);

/* call_out.c */
/* Like rpc_finish, with the response's final state: SENT or CANCELLED. */
void call_finish(struct rpc_call *call, enum grpc_status status, struct str text,
                 struct str details, enum response_state end);
void call_pump(struct rpc_call *call);
void call_drop_outbox(struct rpc_call *call);

/* -- limits.c -- */
enum err limits_settle(const struct rpc_server_limits *given, struct rpc_server_limits *ret_limits);
struct h2_limits limits_for_h2(const struct rpc_server_limits *limits);
/* NULL: the peer has too many connections, or no memory */
struct rpc_peer *limits_join(struct rpc_server *s, const struct tls_identity *identity,
                             const char *address);
void limits_leave(struct rpc_server *s, struct rpc_peer *peer);
/* Charges bytes that a call keeps. After ERR_FULL (a limit) the bytes must not be kept. */
enum err limits_charge(struct rpc_call *call, size_t bytes);
void limits_refund(struct rpc_call *call, size_t bytes);
/* Charges metadata that an open call keeps. After an error nothing is charged:
 * - ERR_TOO_LARGE: the connection's limit is exceeded
 * - ERR_FULL: the limit of the identity or the server is exceeded
 * A forwarding replica's connection has no limit of its own, because one client could otherwise end
 * the calls of others. */
enum err limits_charge_metadata(struct rpc_call *call, size_t bytes);
void limits_refund_metadata(struct rpc_call *call);

/* -- meter.c -- */
enum refused {
    REFUSED_CONNECTIONS,
    REFUSED_IDENTITY,
    REFUSED_CALLS,
    REFUSED_ABUSE,
    REFUSED_MEMORY,
    REFUSED_BODY,
    REFUSED_COUNT
};
struct rpc_meter {
    struct metric_family *calls, *seconds, *bytes;
    struct gauge *running, *connections;
    struct counter *refused[REFUSED_COUNT], *late;
};
void meter_method(struct rpc_meter *meter, struct method *m);
void meter_call_began(struct rpc_server *s);
void meter_call_ended(struct rpc_call *call); /* also logs a slow request */
void meter_refused(struct rpc_server *s, enum refused why);
void meter_late_data(struct rpc_server *s, uint64_t bytes);
void meter_connections(struct rpc_server *s, int change);
void trace_take(struct rpc_call *call);

/* -- the server -- */
struct rpc_server {
    struct io *io;
    struct log_source log;
    struct rpc_meter *meter;
    bool outsiders;
    struct rpc_server_limits limits;
    struct method *methods[RPC_METHODS_MAX];
    size_t method_count;
    struct map by_path;
    struct method unknown; /* counts calls of paths that no method has */
    rpc_page_fn *page;     /* may be NULL */
    void *page_owner;
    struct listening listening[RPC_LISTENERS_MAX];
    size_t listener_count;
    struct list connections, dirty, due, ended;
    struct map peers;
    struct list kept; /* ended calls kept for reuse */
    size_t kept_count;
    struct buf output, message, inflated; /* scratch: output, encoded message, inflated request */
    struct turn_hook hook;
    struct task wake, end, teardown;
    struct timer drain_timer;
    struct rpc_server_stats stats;
    uint8_t traces[TRACE_POOL][RPC_TRACE_LEN / 2];
    size_t traces_left;
    bool flushing, draining, closing;
    void (*drained)(void *owner);
    void *drained_owner;
    void (*closed)(void *owner);
    void *closed_owner;
};
void server_wake(struct rpc_server *s);
void server_connection_gone(struct rpc_server *s, struct connection *c); /* frees `c` */
#endif
