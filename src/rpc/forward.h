/* SPDX-License-Identifier: Apache-2.0 */
/* Forwarding a call from a follower to the leader, for any service.
 *
 * A service registers its methods with `rpc_forward_handler` and a gate in place of itself. For
 * each call the gate asks whether it stays here; those that do reach the service's own handler as
 * if the gate were not there, the others go to the leader: all four kinds, messages as they are,
 * with the time that is left, metadata, trace and request id, and what the leader answers comes
 * back unchanged, trailers included. Back-pressure reaches through in both directions. A caller
 * that goes away cancels the call at the leader.
 *
 * A call whose answer is lost between us and the leader ends as UNKNOWN when the leader may have
 * applied it, else as UNAVAILABLE with "x-muster-applied: no". The forwarder never sends such a
 * call a second time: no header of the caller, x-request-id included, says that a repeat is safe.
 * The same holds for a request that breaks off here, without memory for a stream's next message:
 * UNKNOWN once a byte has left for the leader, before that the error with "x-muster-applied: no".
 *
 * Two rules that may surprise. A call is forwarded once: it carries x-muster-hops, and a replica
 * that gets such a call without being the leader answers "not leader" itself, so two replicas that
 * take each other for the leader do not send it back and forth. And the leader judges the original
 * caller, not the replica that forwards the call: x-muster-caller-bin names the caller, and is
 * believed from a replica only (muster://replica/...); anybody else who sends it is refused. */
#ifndef RPC_FORWARD_H
#define RPC_FORWARD_H
#include "rpc/call.h"
#include "rpc/client.h"

#define RPC_CALLER_HEADER "x-muster-caller-bin"
#define RPC_HOPS_HEADER   "x-muster-hops"

/* -- the way to the leader -- */
struct rpc_forwarder;
struct rpc_forwarder_options {
    struct io *io;
    struct tls_context *tls; /* NULL: plaintext */
    uint64_t ping_after_ms, ping_timeout_ms;
};
enum err rpc_forwarder_open(const struct rpc_forwarder_options *options,
                            struct rpc_forwarder **ret_forwarder);
/* After the server is closed: by then no call is left that was passed on. done() may be NULL. */
void rpc_forwarder_close(struct rpc_forwarder *forwarder, void (*done)(void *owner), void *owner);
/* Where the leader is; empty or NULL: nobody knows. Calls that run stay with the old one.
 * ERR_INVALID (no address), ERR_FULL (several old leaders still have calls: the oldest is being
 * given up, try again), ERR_NOMEM: then nobody knows. */
enum err rpc_forwarder_set_leader(struct rpc_forwarder *forwarder, const char *address);
const char *rpc_forwarder_leader(const struct rpc_forwarder *forwarder); /* "" when not known */
/* For calls of the replica itself, with RPC_HOPS_HEADER and, under TLS, RPC_CALLER_HEADER; NULL: no
 * leader is known. They end when another one is set. Only for the turn: it may be closed after. */
struct rpc_channel *rpc_forwarder_channel(const struct rpc_forwarder *forwarder);
size_t rpc_forwarder_running(const struct rpc_forwarder *forwarder);

/* What the gate itself has to say. */
enum rpc_forward_loss {
    RPC_LOST_NO_LEADER,   /* nobody knows one, or it was passed on already */
    RPC_LOST_TOO_MANY,    /* too many are passed on already */
    RPC_LOST_NOT_APPLIED, /* the leader was not reached, or has not taken it */
    RPC_LOST_UNKNOWN,     /* it may have been applied */
};

/* -- the gate in front of a method; the caller's storage, for the life of the server -- */
struct rpc_forward_gate {
    struct rpc_forwarder *forwarder;
    const struct rpc_handler *handler; /* of calls that stay */
    void *service;
    size_t response_max; /* of one message; 0: 4 MiB */
    uint64_t timeout_ms; /* a call passed on takes no longer, though its caller waits; 0: it may */
    /* We are the leader, or this one may be answered by anybody. Asked once per call. */
    bool (*stays)(void *service, struct rpc_call *call);
    /* Of a call that begins with its message, when `stays` said no: anybody may answer this one.
     * May be NULL. */
    bool (*keeps)(void *service, const ProtobufCMessage *message);
    /* What the leader answered, before the caller is given it. May be NULL. */
    void (*passed)(void *service, struct str message);
    /* Ends the call, for callers who know other words for it; or NULL. */
    void (*lost)(struct rpc_call *call, enum rpc_forward_loss loss);
};
/* rpc_method.handler = &rpc_forward_handler, rpc_method.service = &gate */
extern const struct rpc_handler rpc_forward_handler;

/* Ends the call with FAILED_PRECONDITION and the trailer that clients follow. `leader` may be
 * "". */
void rpc_fail_not_leader(struct rpc_call *call, const char *leader);

/* -- who really called -- */
/* The caller that a replica names in the header, whose decoded value is `caller`. *ret_identity lives
 * as the arena does. NULL peer (plaintext): the header is not looked at, and *ret_identity is NULL.
 * ERR_DENIED with a note: only replicas may send it; ERR_PARSE, ERR_NOMEM. */
enum err rpc_forward_identity(const struct tls_identity *peer, struct str caller,
                              struct arena *arena, const struct tls_identity **ret_identity,
                              struct note *note);
bool rpc_forward_from_replica(const struct tls_identity *peer); /* muster://replica/... */
/* The header's value for an identity; NULL gives the value for "nobody". */
enum err rpc_forward_caller_text(const struct tls_identity *identity, struct buf *into);
#endif
