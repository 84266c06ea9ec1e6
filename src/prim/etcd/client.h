/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC thread that calls etcd.
 *
 * Each attempt gets a slice of the remaining time, so that a silent member does not use up a
 * call's deadline. After a slice without an answer, or without a leader, the channel switches to
 * the next endpoint and reopens all streams. When many calls fail at one member, only one switch
 * follows (`generation`). */
#ifndef PRIM_ETCD_CLIENT_H
#define PRIM_ETCD_CLIENT_H
#include "base/buf.h"
#include "prim/grpc_thread/op.h"
#include "prim/grpc_thread/stream.h"

struct etcd_client {
    struct grpc_thread grpc_thread;
    /* Loop's thread, for Authenticate. */
    char *user, *password; /* NULL: no authentication */
    struct buf token;
    bool tokenless; /* the server has no authentication: no token is sent */
    bool authenticating;
    struct grpc_thread_op authenticate;
    struct list waiters;
    struct h2_header fields[2];
};
struct etcd_client_options {
    const struct grpc_servers *servers; /* all options are copied */
    const char *user, *password;        /* NULL: no authentication */
    struct prim_clock clock;
};
/* ERR_INVALID, ERR_NOMEM, ERR_IO and certificate errors, with a note. */
enum err etcd_client_open(struct etcd_client *client, const struct etcd_client_options *options,
                          struct note *note);
/* Ends calls and streams with ERR_CANCELLED or ERR_UNKNOWN, then ends the thread. */
void etcd_client_close(struct etcd_client *client);
/* Discards a rejected token; the next request fetches a new one. False: there is no token. */
bool etcd_client_forget_token(struct etcd_client *client);

enum {
    ETCD_RESPONSE_MAX = 128 * 1024 * 1024, /* twice the bytes of 1,024 slots with largest values */
    ETCD_REQUEST_MAX = 4 * 1024 * 1024,
};
void etcd_op_init(struct grpc_thread_op *op, const char *path, int64_t deadline_ns);
#endif
