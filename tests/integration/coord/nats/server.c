/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/test.h"

int nats_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK("a port", fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
                        getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

const char *nats_program(const char *variable, const char *path)
{
    const char *named = getenv(variable);
    if (named != NULL) { return named; }
    return access(path, X_OK) == 0 ? path : NULL;
}

void nats_server_start(struct nats_server *server, const char *program, const char *name)
{
    char port[16];
    server->port = nats_free_port();
    (void)snprintf(port, sizeof port, "%d", server->port);
    (void)snprintf(server->dir, sizeof server->dir, "%s/%s", test_dir(), name);
    (void)snprintf(server->url, sizeof server->url, "127.0.0.1:%d", server->port);
    const char *argv[] = {program, "-a", "127.0.0.1", "-p", port, "-js", "-sd", server->dir, NULL};
    CHECK("it starts", proc_start(&server->proc, argv, NULL));
    CHECK("it serves", proc_wait_output(&server->proc, "Server is ready", PROC_DEADLINE_MS));
}

void nats_server_end(struct nats_server *server)
{
    proc_end(&server->proc);
}

natsConnection *foreign_open(const struct nats_server *server)
{
    char url[80];
    natsConnection *connection = NULL;
    (void)snprintf(url, sizeof url, "nats://%s", server->url);
    CHECK_I64("another client connects", natsConnection_ConnectTo(&connection, url), NATS_OK);
    return connection;
}

static const char *text_of(natsMsg *reply)
{
    static char text[65536];
    (void)snprintf(text, sizeof text, "%.*s", natsMsg_GetDataLength(reply), natsMsg_GetData(reply));
    natsMsg_Destroy(reply);
    return text;
}

const char *foreign_ask(natsConnection *connection, const char *subject, const char *body)
{
    natsMsg *reply = NULL;
    CHECK_I64(subject, natsConnection_RequestString(&reply, connection, subject, body, 5000),
              NATS_OK);
    return text_of(reply);
}

const char *foreign_publish(natsConnection *connection, const char *subject, const char *name,
                            const char *value, const char *body)
{
    natsMsg *message = NULL, *reply = NULL;
    CHECK_I64("made", natsMsg_Create(&message, subject, NULL, body, (int)strlen(body)), NATS_OK);
    if (name != NULL) { CHECK_I64("set", natsMsgHeader_Set(message, name, value), NATS_OK); }
    CHECK_I64(subject, natsConnection_RequestMsg(&reply, connection, message, 5000), NATS_OK);
    natsMsg_Destroy(message);
    return text_of(reply);
}
