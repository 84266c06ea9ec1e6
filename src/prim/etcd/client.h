/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC thread that calls etcd.
 *
 * A member that is cut off, stopped or slow must not use up a call's whole deadline, so each
 * attempt gets a slice of the remaining time. If a slice passes without an answer, or a member has
 * no leader, the channel switches to the next endpoint and all streams are reopened there. When
 * many calls fail at the same member, only the first one switches the channel (`generation`).
 * Otherwise the calls would switch past the working member. */
#ifndef PRIM_ETCD_CLIENT_H
#define PRIM_ETCD_CLIENT_H
#include "base/buf.h"
#include "prim/grpc_thread/op.h"
#include "prim/grpc_thread/stream.h"

struct etcd_client {
    struct grpc_thread grpc_thread;
    /* Used on the loop thread, for Authenticate. */
    char *user, *password; /* NULL: no authentication */
    struct buf token;
    bool tokenless; /* the server has no authentication: calls carry no token */
    bool authenticating;
    struct grpc_thread_op authenticate;
    struct list waiters;        /* calls that wait for a token */
    struct h2_header fields[2]; /* headers of the call that is being started */
};
struct etcd_client_options {
    const struct grpc_servers *servers; /* all options are copied */
    const char *user, *password;        /* NULL: no authentication */
    struct prim_clock clock;
};
/* Opens the client. ERR_INVALID, ERR_NOMEM, ERR_IO and certificate errors, with a note. */
enum err etcd_client_open(struct etcd_client *client, const struct etcd_client_options *options,
                          struct note *note);
/* Ends every call and stream with ERR_CANCELLED or ERR_UNKNOWN, then ends the thread. */
void etcd_client_close(struct etcd_client *client);
/* Discards the token after the server rejected it; the next request fetches a new token. Returns
 * false if there is no token. */
bool etcd_client_forget_token(struct etcd_client *client);

enum {
    ETCD_RESPONSE_MAX = 128 * 1024 * 1024, /* twice the bytes of 1,024 slots with largest values */
    ETCD_REQUEST_MAX = 4 * 1024 * 1024,
};
void etcd_op_init(struct grpc_thread_op *op, const char *path, int64_t deadline_ns);
#endif
