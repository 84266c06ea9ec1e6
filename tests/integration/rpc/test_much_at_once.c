/* SPDX-License-Identifier: Apache-2.0 */
/* One turn may gather more bytes for a connection than its socket's bound, although no stream of it
 * is full, and the kernel may accept that bound at once. The rest must follow. */
#include <string.h>

#include "rpc/client.h"
#include "rpc/server.h"
#include "unit/io/rig.h"

/* Together 768 KiB: three times the socket's bound, below the bound of a connection's queue. */
enum { CALLS = 96, EACH = 8 << 10 };

static struct rig rig;
static struct rpc_call *calls[CALLS];
static size_t asked, heard;

static void on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str bytes)
{
    static const char text[EACH];

    (void)service, (void)message, (void)bytes;
    calls[asked++] = call;
    for (size_t i = 0; asked == CALLS && i < CALLS; i++)
        CHECK_OK("no stream is full", rpc_send_bytes(calls[i], str_of(text, sizeof text)));
}

static void on_answer(void *owner, struct rpc_client_call *call, struct str message)
{
    (void)owner, (void)call;
    heard += message.len == EACH;
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    (void)owner, (void)call, (void)outcome;
}

static void mark(void *owner)
{
    *(bool *)owner = true;
}

TEST(more_than_a_sockets_bound_at_once_leaves_nothing_behind)
{
    static const struct rpc_handler handler = {.on_message = on_message};
    static const struct rpc_call_events events = {on_answer, NULL, on_end};
    struct rpc_server *server;
    struct rpc_channel *channel;
    bool server_closed = false, channel_closed = false;

    rig_open(&rig);
    CHECK_OK("server", rpc_server_open(&(struct rpc_server_options){.io = rig.io}, &server, NULL));
    CHECK_OK("method", rpc_server_add(server,
                                      &(struct rpc_method){.path = "/t.T/Watch",
                                                           .kind = RPC_SERVER_STREAM,
                                                           .access = {ACCESS_ANYONE},
                                                           .handler = &handler},
                                      NULL));
    CHECK_OK("listen", rpc_server_listen(server, "127.0.0.1:0", NULL, NULL));
    const char *const addresses[] = {rpc_server_address(server, 0), NULL};
    CHECK_OK("channel",
             rpc_channel_open(&(struct rpc_channel_options){.io = rig.io, .addresses = addresses},
                              &channel, NULL));
    for (size_t i = 0; i < CALLS; i++) {
        struct rpc_client_call *call;

        CHECK_OK("call", rpc_call_start(channel, &(struct rpc_call_options){.path = "/t.T/Watch"},
                                        &events, NULL, &call));
        CHECK_OK("request", rpc_call_send(call, STR("all of it")));
        rpc_call_end(call);
    }
    RIG_UNTIL("all are asked", &rig, asked == CALLS);
    RIG_UNTIL("all are heard", &rig, heard == CALLS);
    rpc_channel_close(channel, mark, &channel_closed);
    RIG_UNTIL("channel gone", &rig, channel_closed);
    rpc_server_close(server, mark, &server_closed);
    RIG_UNTIL("server gone", &rig, server_closed);
    rig_close(&rig);
}
