/* SPDX-License-Identifier: Apache-2.0 */
/* A call as a handler sees it, on the server's side.
 *
 * All four kinds are one shape: messages come in until on_half_closed, messages go out until
 * rpc_finish. A unary method is given its one message and answers with rpc_reply. The call's
 * memory is the server's; a handler that answers later keeps the pointer and forgets it in
 * on_done, which comes exactly once to a call that was begun, also after a reset, a deadline or a
 * lost connection. It never comes from inside a function of this page, and nothing comes after
 * it. All on the loop's thread. */
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
    /* The call begins. Unary and server-streaming: not called; on_message is the beginning, and it
     * comes when the request is whole. */
    void (*on_start)(void *service, struct rpc_call *call); /* or NULL */
    /* One message, decoded in the call's arena (unary: for the whole call; streams: until the
     * next). Raw methods (message type NULL) get bytes instead, which are valid during the call
     * only. */
    void (*on_message)(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes);
    /* Streams: a message of `bytes` is about to be read (one that is compressed counts with the
     * most it can become). A handler that has no room for it pauses here, and the message waits at
     * the peer until the resume; it is not announced again. Not of an empty message. Or NULL. */
    void (*on_announced)(void *service, struct rpc_call *call, size_t bytes);
    void (*on_half_closed)(void *service, struct rpc_call *call); /* streams; or NULL */
    void (*on_writable)(void *service, struct rpc_call *call);    /* after ERR_FULL; or NULL */
    /* The server wants to stop: a stream without an end of its own ends soon. Or NULL. */
    void (*on_drain)(void *service, struct rpc_call *call);
    void (*on_done)(void *service, struct rpc_call *call); /* always last; or NULL */
};

enum {
    RPC_STAGES_MAX = 8,
    RPC_METADATA_OUT_MAX = 64,     /* names a handler may add, headers and trailers together */
    RPC_STATUS_TEXT_MAX = 4 << 10, /* bytes of a status message; more is cut */
    RPC_TRACE_LEN = 32,
};

/* -- what is known of it -- */
struct str rpc_call_path(const struct rpc_call *call); /* "/pkg.Service/Method" */
/* Who asks: the peer, or the caller of a call that a replica passes on. NULL: plaintext. */
const struct tls_identity *rpc_call_identity(const struct rpc_call *call);
const char *rpc_call_peer(const struct rpc_call *call);   /* address */
mono_time rpc_call_deadline(const struct rpc_call *call); /* MONO_NEVER when none */
/* Metadata by lower-case name; -bin values are decoded. False when absent; the first of several.
 * Borrowed from the call. */
bool rpc_call_metadata(const struct rpc_call *call, struct str name, struct str *ret_value);
/* All of it, without what HTTP/2 and gRPC use themselves: start with *cursor 0. */
bool rpc_call_metadata_next(const struct rpc_call *call, size_t *cursor, struct str *ret_name,
                            struct str *ret_value);
struct str rpc_call_trace(const struct rpc_call *call); /* 32 hex digits, never empty */
/* In on_message of a raw method, once: the memory of the message becomes the caller's, who gives it
 * back by buf_deinit. For messages that are too large to be copied. */
struct buf rpc_take_message(struct rpc_call *call);
/* Lives as the message does; a good place for the answer. */
struct arena *rpc_call_arena(struct rpc_call *call);
void rpc_call_set_data(struct rpc_call *call, void *data); /* the handler's own */
void *rpc_call_data(const struct rpc_call *call);
/* Stage marks for the slow-request log: "proposed", "applied". At most RPC_STAGES_MAX, the server's
 * own two ("received", "decoded") among them; further ones are left out. Static names. */
void rpc_call_mark(struct rpc_call *call, const char *stage);
/* Inside an event: the call's further events go to this handler and not to the method's. */
void rpc_call_redirect(struct rpc_call *call, const struct rpc_handler *handler, void *service);
/* It waits for others from now on, for as long as it was asked to: the slow-request log is not for
 * it. */
void rpc_call_set_waiting(struct rpc_call *call);

/* -- answering: after the end of the call each of these does nothing, or says ERR_CLOSED -- */
/* ERR_FULL: too much waits for this peer; wait for on_writable. ERR_CLOSED: nobody listens any
 * more. ERR_TOO_LARGE: past response_max. ERR_NOMEM. */
enum err rpc_send(struct rpc_call *call, const ProtobufCMessage *message);
enum err rpc_send_bytes(struct rpc_call *call, struct str message);
/* Takes the message whatever waits already: never ERR_FULL. While rpc_reply_waits() is true the
 * caller must send no more; on_writable follows. ERR_NOMEM: also past the limits on what is buffered. */
enum err rpc_send_kept(struct rpc_call *call, struct str message);
/* Metadata for the headers (before the first message) or the trailers (before the end); -bin values
 * are given raw. ERR_INVALID (a name that is not lower case or is gRPC's own, a value HTTP/2 cannot
 * carry), ERR_FULL, ERR_CLOSED, ERR_NOMEM. */
enum err rpc_add_header(struct rpc_call *call, struct str name, struct str value);
enum err rpc_add_trailer(struct rpc_call *call, struct str name, struct str value);
/* Ends the call. `text` is percent-encoded; `details` (grpc-status-details-bin) may be empty. */
void rpc_finish(struct rpc_call *call, enum grpc_status status, struct str text,
                struct str details);
/* Sends, then ends with OK. Takes the answer whatever waits already. One that cannot be sent (past
 * response_max or the limits on what is buffered, no memory) ends the call with INTERNAL instead:
 * what was asked for has been done, and the caller must not hear that it was not. */
void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message);
void rpc_reply_bytes(struct rpc_call *call, struct str message);
/* The same of a long message that is given piece by piece, in as many turns as one likes: `total`
 * bytes in all, the last of which end the call with OK. After an error, ERR_CLOSED (nobody waits),
 * ERR_TOO_LARGE (past response_max), ERR_FULL (the limits), ERR_NOMEM, it is to be finished by its
 * status; a caller that got a part of a message and then a status throws the part away. */
enum err rpc_reply_begin(struct rpc_call *call, size_t total);
enum err rpc_reply_more(struct rpc_call *call, struct str piece);
/* Some of the pieces or messages so far wait for the peer to read; on_writable comes when they are
 * gone. A handler that sends nothing while this is true holds next to nothing in memory. */
bool rpc_reply_waits(const struct rpc_call *call);
void rpc_fail(struct rpc_call *call, enum err err, const struct note *note); /* status from err */
/* No more messages are read until resumed: back-pressure that reaches the peer. */
void rpc_pause(struct rpc_call *call);
void rpc_resume(struct rpc_call *call);
#endif
