/* SPDX-License-Identifier: Apache-2.0 */
/* A nats-server with JetStream of the test's own, and direct access to its streams. */
#ifndef TESTS_COORD_NATS_SERVER_H
#define TESTS_COORD_NATS_SERVER_H
#include <nats/nats.h>

#include "lib/proc.h"

struct nats_server {
    struct proc proc;
    int port;
    char dir[256], url[64];
};
int nats_free_port(void);
/* Where the program is, or NULL: the file named by `variable`, else `path`. */
const char *nats_program(const char *variable, const char *path);
void nats_server_start(struct nats_server *server, const char *program, const char *name);
void nats_server_end(struct nats_server *server);

/* Another client. */
natsConnection *foreign_open(const struct nats_server *server);
/* The answer's text, valid until the next call. */
const char *foreign_ask(natsConnection *connection, const char *subject, const char *body);
/* With one header; the acknowledgement's text. */
const char *foreign_publish(natsConnection *connection, const char *subject, const char *name,
                            const char *value, const char *body);
#endif
