/* A call as a handler sees it, on the server's side.
 *
 * All four kinds are one shape: messages come in until on_half_closed, messages go out until
 * rpc_finish. A unary method is given its one message and answers with rpc_reply. The call's memory is
 * the server's; a handler that answers later keeps the pointer and forgets it in on_done, which comes
 * exactly once, also after a reset, a deadline or a lost connection. All on the loop's thread. */
#ifndef RPC_CALL_H
#define RPC_CALL_H
#include "base/arena.h"
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"
#include "base/time.h"
#include "io/tls.h"
#include "wire/message.h"

struct rpc_call;
enum rpc_kind { RPC_UNARY, RPC_CLIENT_STREAM, RPC_SERVER_STREAM, RPC_BIDI };

struct rpc_handler {
    /* The call begins. Unary and server-streaming: not called; on_message is the beginning. */
    void (*on_start)(void *service, struct rpc_call *call);
    /* One message, decoded in the call's arena (unary: for the whole call; streams: until the next).
     * Raw methods (message type NULL) get bytes instead. */
    void (*on_message)(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes);
    void (*on_half_closed)(void *service, struct rpc_call *call);       /* streams; or NULL */
    void (*on_writable)(void *service, struct rpc_call *call);          /* after ERR_FULL; or NULL */
    void (*on_done)(void *service, struct rpc_call *call);              /* always last; or NULL */
};

/* -- what is known of it -- */
struct str rpc_call_path(const struct rpc_call *call);                  /* "/pkg.Service/Method" */
const struct tls_identity *rpc_call_identity(const struct rpc_call *call);      /* NULL: plaintext */
const char *rpc_call_peer(const struct rpc_call *call);                 /* address */
mono_time rpc_call_deadline(const struct rpc_call *call);               /* MONO_NEVER when none */
bool rpc_call_cancelled(const struct rpc_call *call);
/* Metadata by lower-case name; -bin values are decoded. False when absent. Borrowed from the call. */
bool rpc_call_metadata(const struct rpc_call *call, struct str name, struct str *ret_value);
struct str rpc_call_trace(const struct rpc_call *call);                 /* 32 hex digits, never empty */
struct arena *rpc_call_arena(struct rpc_call *call);
void rpc_call_set_data(struct rpc_call *call, void *data);              /* the handler's own */
void *rpc_call_data(const struct rpc_call *call);
/* Stage marks for the slow-request log: "decoded", "proposed", "applied". At most 8; static names. */
void rpc_call_mark(struct rpc_call *call, const char *stage);

/* -- answering -- */
/* ERR_FULL: too much waits for this peer; wait for on_writable. ERR_CLOSED: nobody listens any more. */
enum err rpc_send(struct rpc_call *call, const ProtobufCMessage *message);
enum err rpc_send_bytes(struct rpc_call *call, struct str message);
/* Metadata for the headers (before the first message) or the trailers (before the end). */
enum err rpc_add_header(struct rpc_call *call, struct str name, struct str value);
enum err rpc_add_trailer(struct rpc_call *call, struct str name, struct str value);
/* Ends the call. `text` is percent-encoded; `details` (grpc-status-details-bin) may be empty. */
void rpc_finish(struct rpc_call *call, enum grpc_status status, struct str text, struct str details);
void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message); /* send, then OK */
void rpc_fail(struct rpc_call *call, enum err err, const struct note *note);    /* status from err */
/* No more messages are read until resumed: back-pressure that reaches the peer. */
void rpc_pause(struct rpc_call *call);
void rpc_resume(struct rpc_call *call);
#endif
