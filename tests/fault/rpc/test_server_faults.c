/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails while a server opens, serves calls of every kind, refuses some,
 * drains and closes. After any failure every call that began is done once, nothing leaks or stays
 * charged, and the server closes. */
#include <string.h>

#include "../../unit/wire/h2_pair.h"
#include "echo_service.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "rpc/health.h"
#include "rpc/reflection.h"
#include "sim/sim.h"
#include "wire/descriptors.h"
#include "wire/grpc.h"

enum { RUN_MS = 3000, DRAIN_MS = 500, SCRIPT_MAX = 1 << 20 };

struct play {
    struct sim *sim;
    struct metrics *metrics;
    struct rpc_meter *meter;
    struct rpc_server *server;
    struct echo *echo;
    struct rpc_health *health;
    struct rpc_reflection *reflection;
    struct stream *client;
    size_t heard;
    bool drained, closed;
};

/* -- the client's bytes: written once, before anything fails -- */

static struct buf script;

static void request(int32_t stream, const char *path, const char *name, const char *value, bool end)
{
    struct buf block;

    buf_init(&block, 1 << 16);
    raw_field(&block, STR(":method"), STR("POST"));
    raw_field(&block, STR(":scheme"), STR("http"));
    raw_field(&block, STR(":path"), str_from(path));
    raw_field(&block, STR(":authority"), STR("x"));
    raw_field(&block, STR("content-type"), STR("application/grpc"));
    if (name) raw_field(&block, str_from(name), str_from(value));
    raw_frame(&script, 1, end ? 5 : 4, stream, buf_peek(&block));
    buf_deinit(&block);
}

static void message(int32_t stream, struct str body, bool end)
{
    struct buf framed;
    char head[GRPC_FRAME_BYTES];

    buf_init(&framed, 1 << 16);
    grpc_frame_write((uint32_t)body.len, false, head);
    buf_append(&framed, str_of(head, sizeof head));
    buf_append(&framed, body);
    raw_frame(&script, 0, end ? 1 : 0, stream, buf_peek(&framed));
    buf_deinit(&framed);
}

static void write_script(void)
{
    const struct str hello = STR("\x0a\5hello");
    const struct str stream_of_large =
        STR("\x18\xa0\x9c\1\x28\2");                /* two answers of 20,000 bytes */
    const struct str large = STR("\x18\xa0\x8d\6"); /* one of 100,000 */

    buf_init(&script, SCRIPT_MAX);
    raw_preface(&script);
    request(1, "/muster.test.v1.Echo/Unary", "x-a-bin", "AAEC", false);
    message(1, hello, true);
    request(3, "/muster.test.v1.Echo/Bidi", NULL, NULL, false);
    for (int i = 0; i < 3; i++) message(3, hello, i == 2);
    request(5, "/muster.test.v1.Echo/ServerStream", NULL, NULL, false);
    message(5, stream_of_large, true);
    request(7, "/muster.test.v1.Echo/ClientStream", NULL, NULL, false);
    for (int i = 0; i < 3; i++) message(7, hello, i == 2);
    request(9, "/muster.test.v1.Echo/Unary", "grpc-timeout", "50m", false);
    message(9, STR("\x20\xe8\7"), true); /* a delay of 1 s: the deadline is first */
    request(11, "/no/Such", NULL, NULL, true);
    request(13, "/muster.test.v1.Echo/Bidi", NULL, NULL, false);
    message(13, STR("\x20\xe8\7"), false);
    raw_frame(&script, 3, 0, 13, str_of("\0\0\0\10", 4));
    request(15, "/grpc.health.v1.Health/Watch", NULL, NULL, false);
    message(15, STR(""), true);
    request(17, "/muster.test.v1.Echo/Unary", NULL, NULL, false);
    message(17, large, true);
    request(19, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", NULL, NULL, false);
    message(19, STR("\x3a\0"), false);
    message(19, STR("\x22\x13muster.test.v1.Echo"), true);
    raw_frame(&script, 8, 0, 0, str_of("\0\x0f\0\0", 4));
}

/* -- the play -- */

static void on_bytes(void *owner, struct str bytes)
{
    ((struct play *)owner)->heard += bytes.len;
}
static void on_closed(void *owner, enum err why, const struct note *note)
{
    (void)why, (void)note;
    ((struct play *)owner)->client = NULL;
}
static const struct stream_events events = {.on_bytes = on_bytes, .on_closed = on_closed};

static void set_true(void *owner)
{
    bool *flag = owner;

    CHECK("reported once", !*flag);
    *flag = true;
}

static enum err open_server(struct play *p, struct io *io)
{
    enum err err = metrics_open(&p->metrics);

    if (!err) err = rpc_meter_open(p->metrics, &p->meter, NULL);
    if (!err)
        err = rpc_server_open(&(struct rpc_server_options){.io = io, .meter = p->meter}, &p->server,
                              NULL);
    if (!err) err = echo_open(p->server, &(struct echo_options){.io = io}, &p->echo, NULL);
    if (!err) err = rpc_health_open(p->server, &p->health, NULL);
    if (!err) err = rpc_reflection_open(p->server, descriptors_product(), &p->reflection, NULL);
    if (!err) err = rpc_server_listen(p->server, "server:7000", NULL, NULL);
    return err;
}

static void talk(struct play *p, struct sim_host *from)
{
    struct str bytes = buf_peek(&script);

    if (net_dial(sim_host_io(from)->net, &(struct dial_options){.address = "server:7000"}, &events,
                 p, &p->client, NULL))
        return;
    (void)stream_write(p->client, &bytes, 1);
    sim_run_for(p->sim, RUN_MS);
    (void)rpc_health_set(p->health, STR(""), RPC_SERVING);
    sim_run_for(p->sim, 10);
    rpc_server_drain(p->server, DRAIN_MS, set_true, &p->drained);
    sim_run_for(p->sim, 2 * DRAIN_MS);
    CHECK("drained, one way or the other", p->drained);
}

static void close_all(struct play *p)
{
    if (p->server) {
        rpc_server_close(p->server, set_true, &p->closed);
        sim_run_for(p->sim, 1000);
        CHECK("the server is gone", p->closed);
    }
    if (p->echo) {
        CHECK_U64("every call that began is done", echo_stats(p->echo).done,
                  echo_stats(p->echo).begun);
        echo_close(p->echo);
    }
    rpc_health_close(p->health);
    rpc_reflection_close(p->reflection);
    rpc_meter_close(p->meter);
    metrics_close(p->metrics);
    if (p->client) stream_close(p->client);
    sim_run_for(p->sim, 100);
    sim_close(p->sim);
}

static void run(struct play *p)
{
    struct sim_host *server, *client;

    if (sim_open(&(struct sim_options){.seed = 7}, &p->sim)) return;
    if (sim_host_add(p->sim, &(struct sim_host_options){.name = "server"}, &server) ||
        sim_host_add(p->sim, &(struct sim_host_options){.name = "client"}, &client)) {
        sim_close(p->sim);
        return;
    }
    if (!open_server(p, sim_host_io(server))) talk(p, client);
    close_all(p);
}

TEST(without_a_failure_everything_is_served)
{
    struct play p = {0};

    write_script();
    run(&p);
    CHECK("answers came", p.heard > 100000);
    buf_deinit(&script);
}

TEST(whatever_allocation_fails_the_server_stays_whole)
{
    unsigned runs = 0;

    write_script();
    FAULT_SWEEP_ALLOC(k)
    {
        struct play p = {0};
        run(&p);
        runs++;
    }
    CHECK("it was a sweep", runs > 300);
    buf_deinit(&script);
}
