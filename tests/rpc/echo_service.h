/* SPDX-License-Identifier: Apache-2.0 */
/* The service of tests and benches, muster.test.v1.Echo, on our server: does what a request asks
 * for. See proto/muster/test/v1/echo.proto. */
#ifndef TESTS_RPC_ECHO_SERVICE_H
#define TESTS_RPC_ECHO_SERVICE_H
#include "rpc/server.h"

struct echo;
struct echo_options {
    struct io *io;
    enum rpc_access_kind access; /* 0: anyone */
    size_t request_max, response_max;
};
struct echo_stats {
    uint64_t begun, done; /* calls that reached their handler */
    uint64_t answers;     /* messages handed to the server */
    uint64_t full;        /* times the server said ERR_FULL */
    uint32_t open;        /* begun and not done */
};
enum { ECHO_RESPONSE_MAX = 8 << 20 }; /* bytes a response_bytes may ask for */

enum err echo_open(struct rpc_server *server, const struct echo_options *options,
                   struct echo **ret_echo, struct note *note);
void echo_close(struct echo *echo); /* after the server is gone; NULL is fine */
struct echo_stats echo_stats(const struct echo *echo);
#endif
