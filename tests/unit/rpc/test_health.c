/* SPDX-License-Identifier: Apache-2.0 */
/* Health: the answers of Check and Watch, also to a client that does not read. */
#include <stdio.h>

#include "lib/test.h"
#include "rig.h"

#define CHECK_PATH "/grpc.health.v1.Health/Check"
#define WATCH_PATH "/grpc.health.v1.Health/Watch"

static struct rig rig;

static struct answer *ask(struct client *c, const char *path, struct str request,
                          int32_t *ret_stream)
{
    int32_t stream = client_start(c, path, NULL, 0);

    CHECK_OK("send", client_send_bytes(c, stream, request));
    client_end(c, stream);
    rig_run(&rig, 50);
    *ret_stream = stream;
    return client_answer(c, stream);
}

TEST(check_reports_what_was_set)
{
    struct client *c;
    struct answer *a;
    int32_t stream;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    c->keep = true;
    a = ask(c, CHECK_PATH, STR(""), &stream);
    CHECK_STR("not serving at first", buf_peek(&a->body), STR("\0\0\0\0\2\x08\2"));
    CHECK_OK("set", rpc_health_set(rig.health, STR(""), RPC_SERVING));
    a = ask(c, CHECK_PATH, STR(""), &stream);
    CHECK_STR("serving", buf_peek(&a->body), STR("\0\0\0\0\2\x08\1"));
    a = ask(c, CHECK_PATH, STR("\x0a\1x"), &stream);
    CHECK_I64("one we do not have", a->grpc, GRPC_NOT_FOUND);
    rig_close(&rig);
}

TEST(watch_reports_now_and_at_every_change_and_ends_with_the_server)
{
    struct client *c;
    struct answer *a;
    int32_t stream;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    c->keep = true;
    a = ask(c, WATCH_PATH, STR("\x0a\1x"), &stream);
    CHECK_STR("unknown so far", buf_peek(&a->body), STR("\0\0\0\0\2\x08\3"));
    for (int i = 0; i < 3; i++) CHECK_OK("set", rpc_health_set(rig.health, STR("x"), RPC_SERVING));
    CHECK_OK("another's", rpc_health_set(rig.health, STR("y"), RPC_SERVING));
    rig_run(&rig, 50);
    CHECK_STR("a change, once", buf_peek(&a->body), STR("\0\0\0\0\2\x08\3\0\0\0\0\2\x08\1"));
    rig_drain(&rig, 10000);
    client_wait_closed(c, stream);
    CHECK_STR("and the end", str_tail(buf_peek(&a->body), 14), STR("\0\0\0\0\2\x08\2"));
    CHECK_I64("by the server", a->grpc, GRPC_UNAVAILABLE);
    rig_close(&rig);
}

TEST(a_watcher_that_does_not_read_costs_little_and_learns_the_last_state)
{
    struct client *c;
    struct answer *a;
    int32_t stream;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    c->keep = c->hold = true;
    a = ask(c, WATCH_PATH, STR(""), &stream);
    for (int i = 0; i < 50000; i++) {
        CHECK_OK("set", rpc_health_set(rig.health, STR(""), i % 2 ? RPC_SERVING : RPC_NOT_SERVING));
        if (i % 100 == 0) rig_run(&rig, 1);
    }
    CHECK_OK("set", rpc_health_set(rig.health, STR(""), RPC_SERVING));
    rig_run(&rig, 1000);
    CHECK("it was not reported all", a->bytes < 50000 * 7);
    c->hold = false;
    h2_consume(c->h2, stream, a->bytes);
    rig_client_flush(c);
    rig_run(&rig, 1000);
    CHECK_STR("but the last", str_tail(buf_peek(&a->body), a->body.len - 7),
              STR("\0\0\0\0\2\x08\1"));
    rig_close(&rig);
}

TEST(a_watch_that_begins_while_the_server_drains_ends_at_once)
{
    struct client *c;
    int32_t slow, stream;

    rig_open(&rig, NULL, NULL, NULL);
    c = client_connect(&rig, 0, false);
    slow = client_unary(c, "/muster.test.v1.Echo/Unary", &ECHO_REQUEST(.delay_ms = 200));
    rig_run(&rig, 10);
    rig_drain(&rig, 10000);
    /* The client does not know of the change yet. */
    stream = client_start(c, WATCH_PATH, NULL, 0);
    CHECK_OK("send", client_send_bytes(c, stream, STR("")));
    client_end(c, stream);
    client_wait_closed(c, stream);
    CHECK_I64("ended by the server", client_answer(c, stream)->grpc, GRPC_UNAVAILABLE);
    client_wait_closed(c, slow);
    rig_run(&rig, 100);
    CHECK("nothing holds it up", rig.drained);
    rig_close(&rig);
}

TEST(names_are_bounded)
{
    static const char name[RPC_HEALTH_NAME_MAX + 1];
    char text[16];

    rig_open(&rig, NULL, NULL, NULL);
    CHECK_ERR("long", rpc_health_set(rig.health, str_of(name, sizeof name), RPC_SERVING),
              ERR_TOO_LARGE);
    for (int i = 1; i < RPC_HEALTH_SERVICES_MAX; i++) {
        snprintf(text, sizeof text, "s%d", i);
        CHECK_OK("room", rpc_health_set(rig.health, str_from(text), RPC_SERVING));
    }
    CHECK_ERR("many", rpc_health_set(rig.health, STR("more"), RPC_SERVING), ERR_FULL);
    rig_close(&rig);
}
