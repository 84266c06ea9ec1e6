/* SPDX-License-Identifier: Apache-2.0 */
/* A scripted API server: one raw answer per request, in order, for any client. On loopback, plain
 * http. */
#ifndef TESTS_UNIT_KUBE_SERVER_H
#define TESTS_UNIT_KUBE_SERVER_H
#include "base/str.h"

enum { SERVER_ANSWERS_MAX = 32, SERVER_REQUESTS_MAX = 64 };

struct server;
struct server *server_start(void);
void server_stop(struct server *server); /* ends all connections */
const char *server_url(struct server *server);

/* Raw bytes of an answer, copied. The connection stays open afterwards... */
void server_answer(struct server *server, const char *bytes);
void server_answer_bytes(struct server *server, struct str bytes);
/* ...or is closed ("" closes without an answer). */
void server_answer_and_close(struct server *server, const char *bytes);
/* Sends these bytes, then nothing more, and keeps the connection. */
void server_answer_and_hang(struct server *server, const char *bytes);
/* "HTTP/1.1 <status>" with headers and a body. `headers` lines end with \r\n; may be "". */
void server_answer_json(struct server *server, const char *status, const char *headers,
                        const char *body);

/* Requests so far with their bodies, oldest first; "" after the last. Valid until stop. */
size_t server_requests(struct server *server);
const char *server_request(struct server *server, size_t index);
size_t server_connections(struct server *server); /* ever accepted */
/* Waits for so many requests, with a time limit after which the test fails elsewhere. */
void server_await(struct server *server, size_t requests);
#endif
