/* SPDX-License-Identifier: Apache-2.0 */
/* Forwards calls from a follower to the leader, for any service and all four kinds of calls.
 *
 * A service registers its methods with `rpc_forward_handler` and a gate. For each call the gate
 * asks the service whether the call stays on this replica. Messages, metadata, trailers and the
 * remaining time are passed unchanged. A caller that disconnects cancels the call at the leader.
 *
 * If the leader's response is lost, the call ends as UNKNOWN if the leader may have applied it;
 * otherwise as UNAVAILABLE with "x-muster-applied: no". Such a call is never retried here.
 *
 * A call is forwarded only once: it carries x-muster-hops, and a replica that gets such a call
 * without being the leader answers "not leader". The leader authorises the original caller, whom
 * x-muster-caller-bin names. Only a replica (muster://replica/...) may send this header. */
#ifndef RPC_FORWARD_H
#define RPC_FORWARD_H
#include "rpc/call.h"
#include "rpc/client.h"

#define RPC_CALLER_HEADER "x-muster-caller-bin"
#define RPC_HOPS_HEADER   "x-muster-hops"

/* -- the connection to the leader -- */
struct rpc_forwarder;
struct rpc_forwarder_options {
    struct io *io;
    struct tls_context *tls; /* NULL: plaintext */
    uint64_t ping_after_ms, ping_timeout_ms;
};
enum err rpc_forwarder_open(const struct rpc_forwarder_options *options,
                            struct rpc_forwarder **ret_forwarder);
/* Call after the server is closed, when no forwarded call is left. done() may be NULL. */
void rpc_forwarder_close(struct rpc_forwarder *forwarder, void (*done)(void *owner), void *owner);
/* `address` "" or NULL: unknown. Running calls stay with the former leader. After an error the
 * leader is unknown: ERR_INVALID (not an address), ERR_FULL (several former leaders still have
 * calls: try again), ERR_NOMEM. */
enum err rpc_forwarder_set_leader(struct rpc_forwarder *forwarder, const char *address);
const char *rpc_forwarder_leader(const struct rpc_forwarder *forwarder); /* "" without leader */
/* The channel for the replica's own calls, valid this turn; NULL: no known leader. Calls need
 * RPC_HOPS_HEADER and, under TLS, RPC_CALLER_HEADER. A new leader ends the calls. */
struct rpc_channel *rpc_forwarder_channel(const struct rpc_forwarder *forwarder);
size_t rpc_forwarder_running(const struct rpc_forwarder *forwarder);

/* reported by a gate's `lost` function */
enum rpc_forward_loss {
    RPC_LOST_NO_LEADER, /* no leader is known, or another replica forwarded the call already */
    RPC_LOST_TOO_MANY,
    RPC_LOST_NOT_APPLIED, /* the leader was not reached, or did not accept the call */
    RPC_LOST_UNKNOWN,
};

/* -- the gate in front of a method; the caller stores it for the life of the server -- */
struct rpc_forward_gate {
    struct rpc_forwarder *forwarder;
    const struct rpc_handler *handler;
    void *service;
    size_t response_max; /* limit of one message; 0: 4 MiB */
    uint64_t timeout_ms; /* limit of a forwarded call; 0: only the caller's limit */
    /* True if this replica leads, or if any replica may answer the call. Called once per call. */
    bool (*stays)(void *service, struct rpc_call *call);
    /* For a unary or server-streaming call, after `stays` returned false. True if any replica may
     * answer the message. May be NULL. */
    bool (*keeps)(void *service, const ProtobufCMessage *message);
    /* Gets the leader's response before the caller does. May be NULL. */
    void (*passed)(void *service, struct str message);
    /* Ends the call with the error texts of another protocol; may be NULL. */
    void (*lost)(struct rpc_call *call, enum rpc_forward_loss loss);
};
/* A method with a gate has handler = &rpc_forward_handler and service = &gate. */
extern const struct rpc_handler rpc_forward_handler;

/* Ends the call with FAILED_PRECONDITION and the trailer x-muster-leader. `leader` may be "". */
void rpc_fail_not_leader(struct rpc_call *call, const char *leader);

/* -- the original caller -- */
/* Decodes the header in which a forwarding replica names the original caller. *ret_identity is
 * valid as long as the arena. `peer` NULL (plaintext): the header is ignored, *ret_identity is
 * NULL. ERR_DENIED: the peer is not a replica. ERR_PARSE, ERR_NOMEM. */
enum err rpc_forward_identity(const struct tls_identity *peer, struct str caller,
                              struct arena *arena, const struct tls_identity **ret_identity,
                              struct note *note);
bool rpc_forward_from_replica(const struct tls_identity *peer); /* true for muster://replica/... */
/* Encodes the header's value. `identity` NULL: the value for "no identity". */
enum err rpc_forward_caller_text(const struct tls_identity *identity, struct buf *into);
#endif
