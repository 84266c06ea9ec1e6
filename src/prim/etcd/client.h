/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that talks to etcd: a loop, a channel over all endpoints, unary calls that other
 * threads wait for, and streams that come back by themselves.
 *
 * A member that is cut off, stopped or slow must not cost a caller its whole deadline: an attempt
 * gets a slice of what is left. When a slice passes in silence, or a member says that it has no
 * leader, the channel moves on to the next endpoint and the streams follow. Only the first of many
 * calls that met the same trouble moves it (`generation`), or they would chase each other past the
 * member that works.
 *
 * Every request carries `hasleader`, so that a member without the majority refuses instead of
 * letting us wait, and the token of Authenticate where the URL has a user. */
#ifndef PRIM_ETCD_CLIENT_H
#define PRIM_ETCD_CLIENT_H
#include "base/buf.h"
#include "prim/courier/op.h"
#include "prim/courier/stream.h"

struct etcd_client;

struct etcd_client_options {
    const struct courier_servers *servers; /* all of this is copied */
    const char *user, *password;           /* or NULL */
    struct prim_clock clock;
};
/* ERR_INVALID, ERR_NOMEM, ERR_IO and what reading certificates gives, with a note. */
enum err etcd_client_open(const struct etcd_client_options *options,
                          struct etcd_client **ret_client, struct note *note);
/* Every call and stream ends first (ERR_CANCELLED, ERR_UNKNOWN), then the thread. */
void etcd_client_close(struct etcd_client *client);
struct courier *etcd_client_courier(struct etcd_client *client); /* for streams */
struct loop *etcd_client_loop(struct etcd_client *client);
int64_t etcd_client_now(const struct etcd_client *client); /* the store's clock */

/* Runs fn on the loop's thread and waits for it. Not from that thread. */
void etcd_client_do(struct etcd_client *client, void (*fn)(void *owner), void *owner);
/* The server no longer takes our token: the next request fetches another. False: there is none. */
bool etcd_client_forget_token(struct etcd_client *client);

/* -- unary calls -- */
enum {
    ETCD_RESPONSE_MAX = 128 * 1024 * 1024, /* 1,024 slots of the largest value are half of it */
    ETCD_REQUEST_MAX = 4 * 1024 * 1024,
};
void etcd_op_init(struct courier_op *op, const char *path, int64_t deadline_ns);
void etcd_op_start(struct etcd_client *client,
                   struct courier_op *op); /* any thread; done() follows */
void etcd_op_run(struct etcd_client *client, struct courier_op *op); /* waits; not the loop's */

/* Somebody met trouble on the endpoint of that generation. */
void etcd_client_trouble(struct etcd_client *client, uint32_t generation);
uint32_t etcd_client_generation(const struct etcd_client *client);
#endif
