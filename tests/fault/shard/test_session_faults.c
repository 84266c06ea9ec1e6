/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails while sessions open, exchange messages, are replaced and end, on both
 * sides of the network. After any failure everything open is closed, every requested blob is
 * answered once, no byte stays charged, nothing leaks. */
#include <stdio.h>
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "rpc/client.h"
#include "shard/session_frame.h"
#include "shard/sessions.h"
#include "sim/sim.h"

enum { WAIT_MS = 120000, STATES = 300, NEEDED = 200 };

static struct {
    struct sim *sim;
    struct sim_host *host, *peer;
    struct rpc_server *server;
    struct sessions *sessions;
    struct rpc_channel *channel;
    struct rpc_client_call *call;
    struct rollup *held;
    char request_id[REQUEST_ID_LEN];
    struct session_blob requests[8];
    size_t opened, closed, asked, answered;
    bool has_request, channel_closed, server_closed;
} play;

static const struct profile profile = {.fingerprint = {"p=0", 3}};

/* -- the owner -- */

static void on_open(void *owner, struct str cluster, enum operator_link)
{
    (void)owner, (void)cluster;
    CHECK_SIZE("they take turns", play.opened++, play.closed);
}

static void on_close(void *owner, struct str cluster)
{
    (void)owner, (void)cluster;
    CHECK_SIZE("they take turns", ++play.closed, play.opened);
}

static void held_done(enum rollup_end end)
{
    struct rollup *held = play.held;

    play.held = NULL; /* the next one may come from inside */
    if (held) sessions_rollup_done(play.sessions, held, end);
}

static void on_rollup(void *owner, struct rollup *rollup)
{
    (void)owner;
    held_done(ROLLUP_ACKNOWLEDGED);
    play.held = rollup;
}

static void on_blob(void *owner, struct session_blob *request, enum blob_end end,
                    struct str content)
{
    (void)owner, (void)request, (void)end, (void)content;
    play.answered++;
}

static void on_drain_report(void *owner, const struct drain_report *report)
{
    (void)owner, (void)report;
}

static const struct sessions_events events = {on_open, on_close, on_rollup, on_blob,
                                              on_drain_report};

/* -- the operator -- */

static void on_message(void *owner, struct rpc_client_call *call, struct str bytes)
{
    (void)owner, (void)call;
    if (bytes.len < 20 || memcmp(bytes.at + 2, "\x0a\x10", 2) != 0 || bytes.at[0] != 0x12) return;
    memcpy(play.request_id, bytes.at + 4, REQUEST_ID_LEN);
    play.has_request = true;
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    (void)owner, (void)outcome;
    if (call == play.call) play.call = NULL;
}

static const struct rpc_call_events call_events = {on_message, NULL, on_end};

static void say(struct str bytes)
{
    if (play.call) (void)rpc_call_send(play.call, bytes);
    (void)sim_run_for(play.sim, 20);
}

static void connect(void)
{
    if (!play.channel) return;
    if (rpc_call_start(play.channel,
                       &(struct rpc_call_options){.path = "/bigfleet.v1alpha1.Shard/Session",
                                                  .wait_for_ready = true,
                                                  .attempts_max = 1},
                       &call_events, NULL, &play.call))
        play.call = NULL;
    say(STR("\x0a\x03\x0a\x01"
            "a"));
}

static void ask(void)
{
    struct session_blob *request = &play.requests[play.asked];

    *request = (struct session_blob){.action = play.asked + 1};
    play.has_request = false;
    if (!sessions_ask_blob(play.sessions, STR("a"), request, &profile, 1000)) play.asked++;
    (void)sim_run_for(play.sim, 20);
}

static void answer(void)
{
    char bytes[64];
    size_t len = 4 + REQUEST_ID_LEN;

    memcpy(bytes, "\x1a\x15\x0a\x10", 4);
    memcpy(bytes + 4, play.request_id, REQUEST_ID_LEN);
    memcpy(bytes + len, "\x12\x01x", 3);
    if (play.has_request) say(str_of(bytes, len + 3));
}

static void send_states(void)
{
    struct frame_writer writer;
    struct dimensions dimensions;
    struct machine machine = {.state = MACHINE_IDLE};

    frame_writer_init(&writer);
    dimensions_init(&dimensions);
    for (size_t i = 0; i < STATES; i++) {
        char id[300];
        snprintf(id, sizeof id, "%0200zu", i);
        machine.id = str_from(id);
        if (!frame_write_node_state(&writer, STR("a"), &machine, &dimensions))
            sessions_node_state(play.sessions, STR("a"), machine.id, i % 2,
                                buf_peek(&writer.frame));
    }
    frame_writer_deinit(&writer);
    dimensions_deinit(&dimensions);
}

static void talk(void)
{
    connect();
    for (size_t i = 0; i < 3; i++)
        say(STR("\x12\x05\x0a\x01"
                "a"
                "\x1a\x00"));
    held_done(ROLLUP_REFUSED);
    ask();
    answer();
    ask();
    if (play.call) rpc_call_pause(play.call);
    send_states();
    (void)sessions_reclaim(play.sessions, STR("a"), 1, STR("m"), 1000, 0);
    sessions_capacity(play.sessions, STR("a"),
                      &(struct capacity_offer){&profile, 1, CONFIDENCE_HIGH, 1});
    (void)sim_run_for(play.sim, 50);
    connect(); /* replaces */
    sessions_resynced(play.sessions, STR("a"));
    (void)sim_run_for(play.sim, 50);
    ask(); /* ends by time */
    (void)sim_run_for(play.sim, 2000);
    if (play.call) rpc_call_cancel(play.call);
    (void)sim_run_for(play.sim, 50);
    send_states(); /* the operator is not connected */
    connect();
}

/* -- the world -- */

static void set_true(void *flag)
{
    *(bool *)flag = true;
}

static bool is_true(void *flag)
{
    return *(bool *)flag;
}

static enum err open_all(void)
{
    struct io *io = sim_host_io(play.host);
    struct note note;
    enum err err = sessions_open(
        &(struct sessions_options){.io = io, .events = &events, .outbox_frames_max = 200},
        &play.sessions);

    if (!err) err = rpc_server_open(&(struct rpc_server_options){.io = io}, &play.server, &note);
    if (!err) err = sessions_serve(play.sessions, play.server, &note);
    if (!err) err = rpc_server_listen(play.server, "shard:7780", NULL, &note);
    if (!err)
        err = rpc_channel_open(
            &(struct rpc_channel_options){.io = sim_host_io(play.peer),
                                          .addresses = (const char *[]){"shard:7780", NULL}},
            &play.channel, &note);
    return err;
}

static void close_all(void)
{
    if (play.channel) {
        rpc_channel_close(play.channel, set_true, &play.channel_closed);
        CHECK("closes", sim_wait(play.sim, is_true, &play.channel_closed, WAIT_MS) == SIM_REACHED);
    }
    if (play.server) {
        rpc_server_close(play.server, set_true, &play.server_closed);
        CHECK("closes", sim_wait(play.sim, is_true, &play.server_closed, WAIT_MS) == SIM_REACHED);
    }
    (void)sim_run_for(play.sim, 100);
    held_done(ROLLUP_ACKNOWLEDGED);
    CHECK_SIZE("every opened session is closed", play.closed, play.opened);
    CHECK_SIZE("each blob is answered once", play.answered, play.asked);
    if (play.sessions) {
        CHECK_SIZE("nothing is charged", sessions_stats(play.sessions).rollup_bytes, 0);
        CHECK_SIZE("nothing waits", sessions_stats(play.sessions).outbox_bytes, 0);
        CHECK_U64("no stream is left", sessions_stats(play.sessions).streams, 0);
    }
    sessions_close(play.sessions);
    sim_close(play.sim);
}

/* True when an allocation failed. */
static bool run(uint64_t nth)
{
    bool fired;

    memset(&play, 0, sizeof play);
    CHECK_OK("a world",
             sim_open(&(struct sim_options){.seed = 9, .events_max = 5000000}, &play.sim));
    CHECK_OK("a host",
             sim_host_add(play.sim, &(struct sim_host_options){.name = "shard"}, &play.host));
    CHECK_OK("a host",
             sim_host_add(play.sim, &(struct sim_host_options){.name = "op"}, &play.peer));
    fault_alloc_arm(nth);
    if (!open_all()) talk();
    fired = fault_alloc_fired();
    fault_alloc_arm(0);
    close_all();
    return fired;
}

TEST(whatever_fails_sessions_end_and_give_everything_back)
{
    uint64_t nth = 1;

    while (run(nth) && nth < FAULT_SWEEP_MAX) nth++;
    CHECK("it went far enough, and to the end", nth > NEEDED && nth < FAULT_SWEEP_MAX);
}
