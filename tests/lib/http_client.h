/* SPDX-License-Identifier: Apache-2.0 */
/* A raw HTTP client for tests: sends exactly the given bytes and shows exactly the received
 * ones. Waits are bounded by CLIENT_WAIT_MS, only so that a hang becomes a failure. */
#ifndef TESTS_LIB_HTTP_CLIENT_H
#define TESTS_LIB_HTTP_CLIENT_H
#include "base/buf.h"
#include "base/str.h"

enum { CLIENT_WAIT_MS = 20000, CLIENT_RECEIVED_MAX = 64 << 20 };

struct client {
    int fd;
    struct buf received; /* everything not yet taken */
    char *kept;          /* the last reply */
};
bool client_open(struct client *c, const char *address); /* "127.0.0.1:1234"; false: refused */
void client_close(struct client *c);                     /* fine on a zeroed one with fd -1 */
bool client_send(struct client *c, struct str bytes);    /* false: the server closed */
bool client_send_c(struct client *c, const char *text);
/* More bytes: 1 got some, 0 the server ended the connection, -1 nothing within CLIENT_WAIT_MS. */
int client_receive(struct client *c);

struct reply {
    int status;
    struct str head, body; /* a NUL follows the body; valid until the next call on the client */
};
/* One whole answer with its Content-Length or chunked body (decoded in place). `head_only` for
 * HEAD. False when the connection ended or fell silent first. */
bool client_reply(struct client *c, bool head_only, struct reply *ret_reply);
/* Waits until the received bytes contain `part` and takes everything up to its end. */
bool client_await(struct client *c, const char *part);
struct str reply_header(const struct reply *reply, const char *name); /* empty when absent */
/* Open, send, take one reply, close: status, or 0. `ret_text` may be NULL; the caller frees. */
int client_ask(const char *address, const char *request, char **ret_text);
#endif
