/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the server share. Nothing outside them includes this.
 *
 *   server.c      methods, listeners, the turn, draining, the end
 *   connection.c  bytes in and out over one stream and one h2, its clock
 *   teardown.c    ends the calls of connections that are over, in slices
 *   body.c        the timeout of request bodies
 *   call.c        life of a call, what a handler may ask of it
 *   call_in.c     from headers to a call, from data to messages
 *   page.c        pages of plain HTTP, and requests that are no gRPC
 *   call_out.c    messages and status on their way out
 *   limits.c      defaults, and bytes and connections per identity
 *   meter.c       counting, the slow-request log, trace ids
 *
 * Who calls whom: io events and timers enter in connection.c; h2 events enter there too and go to
 * call_in.c; handlers come back through call.c and call_out.c, which only queue. What must not
 * happen inside a handler's own call (on_done, messages after a resume) waits in server.due, and
 * runs with the output at the end of the turn. */
#ifndef RPC_SERVER_INTERNAL_H
#define RPC_SERVER_INTERNAL_H
#include "base/list.h"
#include "base/map.h"
#include "rpc/server.h"
#include "wire/grpc.h"
#include "wire/h2.h"

enum {
    CALLS_KEPT_MAX = 128,       /* ended calls kept for reuse */
    ARENA_KEPT_MAX = 16 << 10,  /* memory an ended call may keep */
    HEAD_ARENA_MAX = 256 << 10, /* metadata both ways; a request's own is bounded by h2 */
    TRACE_POOL = 64,            /* ids drawn from the kernel at a time */
    LINGER_MS = 1000,           /* for a last GOAWAY to be read before the socket closes */
    DRAIN_STEP_MS = 1000,       /* for the answer to the ping between two GOAWAYs */
    MESSAGE_MAX_DEFAULT = 4 << 20,
    ARENA_MAX_DEFAULT = 16 << 20,
    SCRATCH_KEPT_MAX = 256 << 10, /* a larger scratch buffer is given back at the end of a turn */
    TEARDOWN_PER_TURN = 128,      /* steps of teardown.c */
};

struct method {
    struct rpc_method rpc; /* limits settled */
    struct str path;
    struct str name; /* in metrics: the path without its slash, or "unknown" */
    struct counter *by_code[GRPC_STATUS_COUNT]; /* found at first use; NULL without meter */
    struct histogram *seconds;
    struct counter *bytes_in, *bytes_out;
};

/* Everybody who shows the same identity, or comes from the same address. */
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
    CONNECTION_FAILED, /* to be ended with the next flush; no input any more */
    CONNECTION_ENDED,  /* our side is ended or cut; waits for teardown.c and on_closed */
};
struct connection;
/* -- page.c: pages of plain HTTP -- */
/* The head of a request by HTTP/1.x, as far as pages need it. Pure. */
enum page_head {
    PAGE_HEAD_MORE,  /* the empty line that ends it has not come yet */
    PAGE_HEAD_ASKS,  /* *ret_path, up to its query, and whether the body is wanted */
    PAGE_HEAD_OTHER, /* a method that pages have not */
    PAGE_HEAD_BROKEN,
};
struct page_ask {
    struct str path; /* a view of `bytes`, without its query */
    bool head;       /* HEAD: the body is not wanted */
};
/* What follows the head counts for nothing, so neither does how the bytes were cut. */
enum page_head page_head_read(struct str bytes, struct page_ask *ret_ask);
bool page_answer(struct connection *c, int32_t stream, struct str path, bool head); /* HTTP/2 */
bool page_is_http1(const struct connection *c, struct str bytes);
void page_feed(struct connection *c, struct str bytes);

struct connection {
    struct list link;  /* in server.connections */
    struct list dirty; /* in server.dirty, or alone */
    struct list ended; /* in server.ended while teardown.c has work, or alone */
    struct rpc_server *server;
    struct stream *stream; /* NULL after on_closed */
    struct h2 *h2;         /* NULL once torn down */
    /* Copies: calls outlive the stream while teardown.c works. */
    const struct tls_identity *identity;
    struct tls_identity *own_identity;
    char *address;
    struct rpc_peer *peer;
    enum rpc_connection_state state;
    struct list calls; /* each is bound to its stream in h2, too */
    uint32_t call_count;
    size_t metadata;     /* bytes of metadata its open calls keep */
    bool passes_on;      /* a replica's: its calls are those of many clients, see limits.c */
    struct list bodies;  /* calls whose request is incomplete, see body.c */
    struct list waiting; /* calls with input that is not read because `choked` is set */
    size_t held;         /* in the outboxes of its calls, see call_out.c */
    bool choked;         /* `held` is too much: requests wait unread */
    bool unread;         /* input is paused: too many bytes of answers wait for the peer to read */
    bool encodings_sent;
    struct method *last;  /* that was called; the next call is likely one of the same */
    struct buf page_head; /* of a request by HTTP/1.1, so far */
    struct timer timer;
    mono_time timer_due;
    mono_time opened, heard, idle_since, moved;
    mono_ns read_at;         /* when the bytes came that are being, or were last, read */
    uint64_t late;           /* data for streams that were gone, see h2_data_late */
    mono_time ping_sent;     /* MONO_NEVER: none is out */
    mono_time stall_since;   /* the peer's windows last let data go */
    mono_time stall_asked;   /* the ping of a stall; MONO_NEVER: none is out */
    uint64_t data_sent;      /* of h2, when last seen */
    mono_time drain_step;    /* MONO_NEVER: not draining, or the last GOAWAY is out */
    uint64_t written, taken; /* bytes given to the stream; to the kernel, when last seen */
};
void connection_free(struct connection *c);
void connection_accept(void *listening, struct stream *own_stream);
void connection_end(struct connection *c); /* what was written still leaves */
void connection_mark_dirty(struct connection *c);
void connection_flush(struct connection *c);
void connection_drain(struct connection *c);
void connection_wake_by(struct connection *c, mono_time due);
void connection_cut(struct connection *c);      /* drops everything; on_closed follows */
void connection_too_much(struct connection *c); /* metadata_per_connection_max is passed */
void connection_put(struct connection *c, struct rpc_call *call);
void connection_remove(struct connection *c, struct rpc_call *call);

/* -- calls -- */
struct call_metadata {
    struct str name, value;
    bool trailer; /* outgoing only */
};
struct stage {
    const char *name;
    uint64_t ns; /* since the call began */
};
/* A call has three sides, each with its own state. call_request_to, call_response_to and
 * call_handler_to (call.c) make every move, and stop the process at one that is not listed here.
 *
 *   request    what the peer sends
 *     OPEN       more may come                              -> ENDED      call_headers, call_end
 *     ENDED      all has come; a part may wait in the inbox -> DELIVERED  request_deliver_end
 *     DELIVERED  the handler has all of it, or the call failed at its end
 *
 *   response   what the peer is sent
 *     NONE       nothing was handed to h2                   -> STARTED    response_start
 *                                                           -> DECIDED    call_decide
 *     STARTED    headers are out, messages may follow       -> DECIDED    call_decide
 *     DECIDED    the status is known; it waits until the    -> SENT       status_send, call_gone
 *                outbox is empty                            -> CANCELLED  call_abort, call_gone
 *     SENT       the status is handed to h2, or was dropped because nobody can be answered
 *     CANCELLED  we or the peer ended the call before its answer was: nobody waits
 *
 *   handler    what the handler knows
 *     UNAWARE    nothing yet                                -> AWARE      request_start, message_deliver
 *                                                           -> DONE       call_report_done
 *     AWARE      it was given the call; on_done is due      -> BLOCKED    response_send, rpc_reply_more
 *                                                           -> DONE       call_report_done
 *     BLOCKED    as AWARE, and on_writable is due           -> AWARE      connection_on_writable
 *                                                           -> DONE       call_report_done
 *     DONE       it will not hear of the call again
 *
 * Between two moves: a handler is DONE only when the response is DECIDED or further, and the outbox
 * holds bytes only while the response is STARTED or DECIDED. */
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
    struct list link;     /* in connection.calls, or in server.kept */
    struct list due;      /* in server.due, or alone */
    struct list body;     /* in connection.bodies, or alone */
    struct list waiting;  /* in connection.waiting, or alone */
    mono_time body_check; /* when body.c looks at it next */
    size_t body_came;     /* bytes since the last look */
    struct rpc_server *server;
    struct connection *connection;
    struct method *method;
    const struct rpc_handler *events; /* of the method, or as rpc_call_redirect said */
    void *service;
    const struct tls_identity *caller; /* whom a replica names; NULL: the peer itself */
    int32_t stream;
    struct str path;
    struct arena head, arena; /* metadata, for the whole call; messages */
    const struct call_metadata *metadata;
    size_t metadata_count;
    struct call_metadata *added; /* by the handler, RPC_METADATA_OUT_MAX of them */
    size_t added_count;
    struct grpc_reader reader;
    struct buf message; /* as far as it came */
    struct buf inbox;   /* came while nobody reads; not consumed */
    struct buf outbox;  /* framed bytes the stream does not take yet */
    size_t outbox_at;
    size_t reply_left;       /* of a message that is given piece by piece */
    size_t charged;          /* against the limits on buffered bytes: inbox, reader, outbox */
    size_t metadata_charged; /* against the limits on metadata, see limits.c */
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
    enum grpc_status status;                /* once the response is DECIDED */
    struct str status_text, status_details; /* kept while the outbox goes first */
    char trace[RPC_TRACE_LEN + 1];
    const struct plain_answer *plain; /* no gRPC, see page.c; else NULL */
    bool no_body;                     /* `plain`: of a HEAD */
    bool gzip;                        /* grpc-encoding of the request */
    bool whole;  /* a unary method's message has come; the handler has not been given it */
    bool waits;  /* for others: no slow call */
    bool paused; /* by the handler */
};
static inline bool call_is_decided(const struct rpc_call *call)
{
    return call->response >= RESPONSE_DECIDED;
}
/* The handler can still answer: the status is open, and somebody is there. */
static inline bool call_takes_answer(const struct rpc_call *call)
{
    return !call_is_decided(call) && call->connection->state != CONNECTION_ENDED;
}
/* call.c */
struct rpc_call *call_new(struct connection *c, int32_t stream); /* NULL: no memory, or calls_max */
void call_free(struct rpc_call *call);                           /* kept for reuse */
void call_forget_kept(struct rpc_server *s);                     /* frees the newest of those */
void call_due(struct rpc_call *call);  /* look at it again at the end of the turn */
void call_look(struct rpc_call *call); /* ... which is now */
/* The stream is closed: ends it for the handler too, and frees it. */
void call_gone(struct rpc_call *call);
/* Calls the handler's on_drain. For a call that comes while the server drains it is called at once: the
 * peer may not have received the GOAWAY yet. */
void call_drain(struct rpc_call *call);
/* Ends it from the server's side; on_done comes before this returns. */
void call_abort(struct rpc_call *call, enum grpc_status status, const char *text);
void call_decide(struct rpc_call *call, enum grpc_status status); /* counts, once */
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
/* page.c: requests that are no gRPC */
struct plain_answer {
    struct str http_status, text;
};
void stranger_begin(struct rpc_call *call, const struct plain_answer *answer, bool head);
void stranger_data(struct rpc_call *call);   /* body_came has grown */
void stranger_answer(struct rpc_call *call); /* now: its request has ended, or has taken too long */
/* teardown.c */
void teardown_begin(struct connection *c);
task_fn teardown_run; /* one slice */

/* body.c */
void body_wait(struct rpc_call *call); /* the request is incomplete from now on */
void body_over(struct rpc_call *call); /* ... and is not any more; fine when it was not */
mono_time body_due(const struct connection *c);
void body_expire(struct connection *c, mono_time now);

/* call_out.c */
/* As rpc_finish, with the state in which the response ends: SENT or CANCELLED. */
void call_finish(struct rpc_call *call, enum grpc_status status, struct str text,
                 struct str details, enum response_state end);
void call_pump(struct rpc_call *call);
void call_drop_outbox(struct rpc_call *call);

/* -- limits.c -- */
enum err limits_settle(const struct rpc_server_limits *given, struct rpc_server_limits *ret_limits);
struct h2_limits limits_for_h2(const struct rpc_server_limits *limits);
/* NULL: too many connections, or no memory. */
struct rpc_peer *limits_join(struct rpc_server *s, const struct tls_identity *identity,
                             const char *address);
void limits_leave(struct rpc_server *s, struct rpc_peer *peer);
/* ERR_FULL: the bytes must not be kept. */
enum err limits_charge(struct rpc_call *call, size_t bytes);
void limits_refund(struct rpc_call *call, size_t bytes);
/* The same for metadata that an open call keeps. ERR_TOO_LARGE: the connection's limit is passed;
 * ERR_FULL: the limit of its identity or of the server. Nothing is charged then. The calls that a
 * replica passes on are those of its clients, so its connection has no limit of its own: one client
 * could end the others' calls with it. */
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
void meter_call_ended(struct rpc_call *call); /* with the slow-request log */
void meter_refused(struct rpc_server *s, enum refused why);
void meter_late_data(struct rpc_server *s, uint64_t bytes);
void meter_connections(struct rpc_server *s, int change);
/* Takes the client's id from its metadata, or draws one. */
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
    struct method unknown; /* what calls of no method are counted under */
    rpc_page_fn *page;     /* or NULL */
    void *page_owner;
    struct listening listening[RPC_LISTENERS_MAX];
    size_t listener_count;
    struct list connections, dirty, due, ended;
    struct map peers;
    struct list kept; /* ended calls, for reuse */
    size_t kept_count;
    struct buf output, message, inflated; /* scratch: a flush, an encoded message, a request */
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
void server_connection_gone(struct rpc_server *s, struct connection *c); /* frees it */
#endif
