/* SPDX-License-Identifier: Apache-2.0 */
/* A call on the server's side, as a handler sees it. Loop's thread.
 *
 * Messages arrive until on_half_closed, and messages are sent until rpc_finish. A unary method gets
 * one message and answers with rpc_reply. The server owns the call's memory: a handler may keep the
 * pointer until on_done.
 *
 * on_done is the last event of each call that was begun, exactly once, also after a reset, a
 * deadline or a lost connection. on_done is never called from inside a function of this header. */
#ifndef RPC_CALL_H
#define RPC_CALL_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"
#include "base/time.h"
#include "io/tls.h"
#include "wire/message.h"

struct rpc_call;
enum rpc_kind { RPC_UNARY, RPC_CLIENT_STREAM, RPC_SERVER_STREAM, RPC_BIDI };

struct rpc_handler {
    /* Unary and server-streaming methods begin with on_message instead. May be NULL. */
    void (*on_start)(void *service, struct rpc_call *call);
    /* `message` is in the call's arena: for a unary method valid during the whole call, for a
     * stream until the next message. A raw method (message type NULL) gets `bytes`, valid during
     * the callback. */
    void (*on_message)(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes);
    /* Called before a stream's next message is read. `bytes`: the most that the message can inflate
     * to. After rpc_pause the message waits at the peer until rpc_resume, and is not announced
     * again. Not for empty messages. May be NULL. */
    void (*on_announced)(void *service, struct rpc_call *call, size_t bytes);
    void (*on_half_closed)(void *service, struct rpc_call *call); /* for streams; may be NULL */
    void (*on_writable)(void *service, struct rpc_call *call);    /* after ERR_FULL; may be NULL */
    /* The server is draining: a stream that would not end by itself must end. May be NULL. */
    void (*on_drain)(void *service, struct rpc_call *call);
    void (*on_done)(void *service, struct rpc_call *call); /* always the last event; may be NULL */
};

enum {
    RPC_STAGES_MAX = 8,
    RPC_METADATA_OUT_MAX = 64,     /* fields a handler may add to headers and trailers */
    RPC_STATUS_TEXT_MAX = 4 << 10, /* longer status messages are cut */
    RPC_TRACE_LEN = 32,
};

/* -- properties of a call -- */
struct str rpc_call_path(const struct rpc_call *call); /* such as "/pkg.Service/Method" */
/* The peer or, if forwarded, the original caller. NULL on plaintext. */
const struct tls_identity *rpc_call_identity(const struct rpc_call *call);
const char *rpc_call_peer(const struct rpc_call *call);
mono_time rpc_call_deadline(const struct rpc_call *call); /* MONO_NEVER: no deadline */
/* Finds the first value of a lower-case name; values of -bin names are decoded. The call owns the
 * value. False: none. */
bool rpc_call_metadata(const struct rpc_call *call, struct str name, struct str *ret_value);
/* Iterates over the metadata except reserved names. Start with *cursor 0. */
bool rpc_call_metadata_next(const struct rpc_call *call, size_t *cursor, struct str *ret_name,
                            struct str *ret_value);
struct str rpc_call_trace(const struct rpc_call *call); /* 32 hex digits, never empty */
/* Gives the memory of a raw method's message to the caller, who must call buf_deinit. At most once
 * per on_message. For messages that are too large to copy. */
struct buf rpc_take_message(struct rpc_call *call);
/* An arena that lives as long as the message; suitable for the response. */
struct arena *rpc_call_arena(struct rpc_call *call);
void rpc_call_set_data(struct rpc_call *call, void *data);
void *rpc_call_data(const struct rpc_call *call);
/* Marks a stage for the slow-request log, such as "proposed" or "applied". At most RPC_STAGES_MAX
 * are kept. Names must be static. */
void rpc_call_mark(struct rpc_call *call, const char *stage);
/* Call inside an event: later events of the call go to this handler instead of the method's. */
void rpc_call_redirect(struct rpc_call *call, const struct rpc_handler *handler, void *service);
/* The slow-request log ignores a call that waits on purpose. */
void rpc_call_set_waiting(struct rpc_call *call);

/* -- responses: after the end of the call these functions do nothing, or return ERR_CLOSED -- */
/* ERR_FULL: too many bytes are queued for this peer; wait for on_writable. ERR_CLOSED: the call is
 * over. ERR_TOO_LARGE: more than response_max. ERR_NOMEM. */
enum err rpc_send(struct rpc_call *call, const ProtobufCMessage *message);
enum err rpc_send_bytes(struct rpc_call *call, struct str message);
/* Sends a message even if others are queued, and never returns ERR_FULL. While rpc_reply_waits() is
 * true the caller must not send more; on_writable follows. ERR_NOMEM also beyond the limits on
 * buffered bytes. */
enum err rpc_send_kept(struct rpc_call *call, struct str message);
/* Add headers before the first message, trailers before the end. Values of -bin names are given
 * raw. ERR_INVALID: the name is not lower case or is reserved by gRPC, or HTTP/2 cannot carry the
 * value. ERR_FULL, ERR_CLOSED, ERR_NOMEM. */
enum err rpc_add_header(struct rpc_call *call, struct str name, struct str value);
enum err rpc_add_trailer(struct rpc_call *call, struct str name, struct str value);
/* `text` is percent-encoded. `details` (grpc-status-details-bin) may be "". */
void rpc_finish(struct rpc_call *call, enum grpc_status status, struct str text,
                struct str details);
/* Sends the response and ends the call with OK, even if bytes are queued. If the response cannot be
 * sent, the call ends with INTERNAL: the client must not conclude that the request was not
 * executed. */
void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message);
void rpc_reply_bytes(struct rpc_call *call, struct str message);
/* Like rpc_reply for a long message in pieces, over any number of turns. The last of `total` bytes
 * ends the call with OK. After an error the handler must end the call: ERR_CLOSED, ERR_TOO_LARGE
 * (more than response_max), ERR_FULL (the limits), ERR_NOMEM. */
enum err rpc_reply_begin(struct rpc_call *call, size_t total);
enum err rpc_reply_more(struct rpc_call *call, struct str piece);
/* True while the peer has not read all bytes sent so far. on_writable is called when all are
 * read. */
bool rpc_reply_waits(const struct rpc_call *call);
/* derives the status from err */
void rpc_fail(struct rpc_call *call, enum err err, const struct note *note);
/* Stops reading messages until rpc_resume. The back-pressure reaches the peer. */
void rpc_pause(struct rpc_call *call);
void rpc_resume(struct rpc_call *call);
#endif
