/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC thread to etcd.
 *
 * A member that is cut off, stopped or slow must not cost a caller its whole deadline: an attempt
 * gets a slice of what is left. When a slice passes in silence, or a member says that it has no
 * leader, the channel moves on to the next endpoint and the streams follow. Only the first of many
 * calls that met the same trouble moves it (`generation`), or they would chase each other past the
 * member that works. */
#ifndef PRIM_ETCD_CLIENT_H
#define PRIM_ETCD_CLIENT_H
#include "base/buf.h"
#include "prim/grpc_thread/op.h"
#include "prim/grpc_thread/stream.h"

struct etcd_client {
    struct grpc_thread grpc_thread;
    /* loop thread: Authenticate */
    char *user, *password; /* or NULL */
    struct buf token;
    bool tokenless; /* the server has no authentication: go without */
    bool authenticating;
    struct grpc_thread_op authenticate;
    struct list waiters;        /* ops that wait for a token */
    struct h2_header fields[2]; /* of the call that is being begun */
};
struct etcd_client_options {
    const struct grpc_servers *servers; /* all of this is copied */
    const char *user, *password;        /* or NULL */
    struct prim_clock clock;
};
/* ERR_INVALID, ERR_NOMEM, ERR_IO and what reading certificates gives, with a note. */
enum err etcd_client_open(struct etcd_client *client, const struct etcd_client_options *options,
                          struct note *note);
/* Every call and stream ends first (ERR_CANCELLED, ERR_UNKNOWN), then the thread. */
void etcd_client_close(struct etcd_client *client);
/* The server no longer takes our token: the next request fetches another. False: there is none. */
bool etcd_client_forget_token(struct etcd_client *client);

enum {
    ETCD_RESPONSE_MAX = 128 * 1024 * 1024, /* 1,024 slots of the largest value are half of it */
    ETCD_REQUEST_MAX = 4 * 1024 * 1024,
};
void etcd_op_init(struct grpc_thread_op *op, const char *path, int64_t deadline_ns);
#endif
