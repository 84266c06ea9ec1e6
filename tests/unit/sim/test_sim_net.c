/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of io/net.h on the virtual network, and every fault of a link. */
#include <stdio.h>
#include <string.h>

#include "io/tls.h"
#include "lib/test.h"
#include "net_pair.h"
#include "sim/sim_link.h"

/* Bytes whose value depends on their position. */
static char pattern[600000];
static struct str bytes_of(size_t len)
{
    if (!pattern[1]) {
        for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = (char)(i * 31 + i / 251);
    }
    return str_of(pattern, len);
}

/* -- orderly life -- */

TEST(bytes_go_both_ways_in_order)
{
    struct pair p;

    pair_open(&p, 1);
    pair_connect(&p);
    CHECK_OK("write", end_write(&p.client, STR("hello ")));
    CHECK_OK("write", end_write(&p.client, STR("there")));
    CHECK_SIZE("nothing left yet: the turn has not ended", stream_pending(p.client.stream), 11);
    CHECK("the server receives", pair_wait_bytes(&p, &p.server.ends[0], 11, 1000));
    CHECK_SIZE("all taken", stream_pending(p.client.stream), 0);
    CHECK_STR("in order", buf_peek(&p.server.ends[0].got), STR("hello there"));
    CHECK_OK("answer", end_write(&p.server.ends[0], STR("yes")));
    CHECK("the client receives", pair_wait_bytes(&p, &p.client, 3, 1000));
    CHECK_U32("opened once", p.client.opens, 1);
    CHECK_TEXT("the dialed address", stream_peer_address(p.client.stream), "b:7000");
    CHECK_HAS("the dialer's address", stream_peer_address(p.server.ends[0].stream), "10.0.0.1:");
    CHECK("plaintext proves nobody", !stream_peer_identity(p.client.stream));
    CHECK_SIZE("counted", listener_stats(p.server.listener).open, 1);
    pair_close(&p);
}

TEST(half_close_lets_the_other_side_finish)
{
    struct pair p;
    struct end *server;

    pair_open(&p, 2);
    pair_connect(&p);
    server = &p.server.ends[0];
    CHECK_OK("write", end_write(&p.client, STR("question")));
    stream_end(p.client.stream);
    CHECK_ERR("no more after the end", end_write(&p.client, STR("x")), ERR_CLOSED);
    sim_run_for(p.sim, 1000);
    CHECK("the end came after the bytes", server->ended && server->got.len == 8);
    CHECK("nobody closed", !server->closed && !p.client.closed);
    CHECK_OK("writing still works", end_write(server, STR("answer")));
    CHECK("and is received", pair_wait_bytes(&p, &p.client, 6, 1000));
    stream_end(server->stream);
    CHECK("the client is notified", pair_wait_closed(&p, &p.client, 1000));
    CHECK("the server too", pair_wait_closed(&p, server, 1000));
    CHECK_ERR("orderly", p.client.why, ERR_CLOSED);
    CHECK_ERR("orderly", server->why, ERR_CLOSED);
    CHECK_U32("each once", p.client.closes + server->closes + p.client.ends + server->ends, 4);
    pair_close(&p);
}

TEST(close_drops_what_is_pending_and_nothing_else)
{
    struct pair p;

    pair_open(&p, 3);
    pair_connect(&p);
    CHECK_OK("write", end_write(&p.client, STR("taken")));
    sim_run_for(p.sim, 0);
    CHECK_SIZE("taken by the kernel", stream_pending(p.client.stream), 0);
    CHECK_OK("write", end_write(&p.client, STR("pending")));
    stream_close(p.client.stream);
    CHECK("never from inside the call", !p.client.closed);
    CHECK("then it comes", pair_wait_closed(&p, &p.client, 1000));
    sim_run_for(p.sim, 1000);
    CHECK_STR("the peer got the accepted bytes", buf_peek(&p.server.ends[0].got), STR("taken"));
    CHECK("and the end", p.server.ends[0].ended);
    pair_close(&p);
}

TEST(writing_to_a_closed_peer_ends_in_a_reset)
{
    struct pair p;

    pair_open(&p, 4);
    pair_connect(&p);
    stream_close(p.client.stream);
    sim_run_for(p.sim, 100);
    CHECK("half closed as far as the server knows",
          p.server.ends[0].ended && !p.server.ends[0].closed);
    CHECK_OK("write", end_write(&p.server.ends[0], STR("anyone?")));
    CHECK("it is notified", pair_wait_closed(&p, &p.server.ends[0], 1000));
    CHECK_ERR("not orderly", p.server.ends[0].why, ERR_IO);
    CHECK_HAS("why", p.server.ends[0].note.text, "reset");
    pair_close(&p);
}

TEST(closing_inside_on_bytes_is_fine)
{
    struct pair p;

    pair_open(&p, 5);
    pair_connect(&p);
    p.server.ends[0].close_in_bytes = true;
    CHECK_OK("write", end_write(&p.client, bytes_of(5000)));
    CHECK("closed", pair_wait_closed(&p, &p.server.ends[0], 1000));
    CHECK_U32("once", p.server.ends[0].closes, 1);
    CHECK("the writer is notified", pair_wait_closed(&p, &p.client, 30000));
    pair_close(&p);
}

TEST(a_full_window_refuses_writes_until_on_drained)
{
    struct pair p;
    struct end *server;
    size_t written = 0;
    enum err err = ERR_OK;

    pair_open(&p, 6);
    CHECK_OK("dial", end_dial(&p.client, p.a,
                              &(struct dial_options){.address = "b:7000", .output_max = 20000}));
    sim_run_for(p.sim, 100);
    server = &p.server.ends[0];
    stream_pause(server->stream);
    CHECK_ERR("never fits", end_write(&p.client, bytes_of(20001)), ERR_TOO_LARGE);
    for (int i = 0; i < 1000 && !err; i++) {
        err = end_write(&p.client, str_of(bytes_of(600000).at + written, 1000));
        if (!err) written += 1000;
        sim_run_for(p.sim, 10);
    }
    CHECK_ERR("full is an answer", err, ERR_FULL);
    CHECK("two kernel buffers and ours", written >= 128 * 1024 && written <= 128 * 1024 + 20000);
    CHECK_SIZE("nothing delivered while paused", server->got.len, 0);
    sim_run_for(p.sim, 60000);
    CHECK("a paused reader is alive: nobody gives up", !p.client.closed);
    CHECK_U32("not drained yet", p.client.drained, 0);
    stream_resume(server->stream);
    CHECK("all of it arrives", pair_wait_bytes(&p, server, written, 60000));
    CHECK_STR("intact", buf_peek(&server->got), bytes_of(written));
    CHECK("it is notified of free space", p.client.drained >= 1);
    CHECK_SIZE("and there is", stream_pending(p.client.stream), 0);
    pair_close(&p);
}

/* -- dialing -- */

static const struct {
    const char *why, *address;
    enum err want;
    const char *text;
} dial_cases[] = {
    {"a port nobody listens on is refused at once", "b:7001", ERR_UNAVAILABLE, "refused"},
    {"a name nobody has does not resolve", "nowhere:7000", ERR_UNAVAILABLE, "no such host"},
    {"the loopback is the dialer's own", "127.0.0.1:7000", ERR_UNAVAILABLE, "refused"},
    {"a path nobody listens on", "unix:/run/none", ERR_UNAVAILABLE, "refused"},
    {"by address", "10.0.0.2:7000", ERR_OK, ""},
};
TEST(dials_that_fail_say_why_by_on_closed)
{
    for (size_t i = 0; i < ARRAY_LEN(dial_cases); i++) {
        struct pair p;
        pair_open(&p, 7);
        CHECK_OK(
            dial_cases[i].why,
            end_dial(&p.client, p.a, &(struct dial_options){.address = dial_cases[i].address}));
        CHECK("not from inside the call", !p.client.closed);
        sim_run_for(p.sim, 500);
        CHECK(dial_cases[i].why, p.client.closed == (dial_cases[i].want != ERR_OK));
        CHECK_ERR(dial_cases[i].why, p.client.why, dial_cases[i].want);
        CHECK_HAS(dial_cases[i].why, p.client.note.text, dial_cases[i].text);
        pair_close(&p);
    }
}

TEST(a_dial_into_silence_times_out)
{
    struct pair p;

    pair_open(&p, 8);
    sim_link_block(p.b, p.a, true); /* packets arrive, answers do not */
    CHECK_OK("dial", end_dial(&p.client, p.a,
                              &(struct dial_options){.address = "b:7000", .timeout_ms = 5000}));
    sim_run_for(p.sim, 4999);
    CHECK("not before its time", !p.client.closed);
    sim_run_for(p.sim, 2);
    CHECK("then", p.client.closed);
    CHECK_ERR("a timeout", p.client.why, ERR_TIMEOUT);
    CHECK_SIZE("the other side never accepted a half-open connection", p.server.accepted, 0);
    pair_close(&p);
}

TEST(listeners_refuse_a_taken_address_and_a_foreign_one)
{
    struct pair p;
    struct server other = {0};

    pair_open(&p, 9);
    CHECK_ERR("taken",
              server_listen(&other, p.b, &(struct listen_options){.address = "0.0.0.0:7000"}),
              ERR_BUSY);
    CHECK_ERR("not ours", server_listen(&other, p.b, &(struct listen_options){.address = "a:7000"}),
              ERR_UNAVAILABLE);
    CHECK_ERR("none", server_listen(&other, p.b, &(struct listen_options){.address = "7000"}),
              ERR_INVALID);
    CHECK_OK("any port", server_listen(&other, p.b, &(struct listen_options){.address = "b:0"}));
    CHECK("a real one", strcmp(listener_address(other.listener), "b:0") != 0);
    CHECK_OK("dial it",
             end_dial(&p.client, p.a,
                      &(struct dial_options){.address = listener_address(other.listener)}));
    sim_run_for(p.sim, 100);
    CHECK_SIZE("reached", other.accepted, 1);
    listener_close(other.listener);
    CHECK_OK("accepted streams live on", end_write(&p.client, STR("x")));
    CHECK("they do", pair_wait_bytes(&p, &other.ends[0], 1, 1000));
    pair_close(&p);
    for (size_t i = 0; i < ARRAY_LEN(other.ends); i++) end_deinit(&other.ends[i]);
}

TEST(a_listener_takes_no_more_than_its_bound)
{
    struct pair p;
    struct end more[3] = {0};
    struct server small = {0};
    unsigned open = 0;

    pair_open(&p, 10);
    CHECK_OK("listen",
             server_listen(&small, p.b,
                           &(struct listen_options){.address = "unix:/s", .streams_max = 2}));
    for (size_t i = 0; i < 3; i++) {
        CHECK_OK("dial", end_dial(&more[i], p.b, &(struct dial_options){.address = "unix:/s"}));
    }
    sim_run_for(p.sim, 100);
    for (size_t i = 0; i < 3; i++) open += more[i].open;
    CHECK_U32("two", open, 2);
    CHECK_U64("one refused", listener_stats(small.listener).refused_full, 1);
    CHECK_TEXT("a Unix peer", stream_peer_address(small.ends[0].stream), "unix");
    stream_close(small.ends[0].stream);
    sim_run_for(p.sim, 100);
    CHECK_SIZE("its place is free", listener_stats(small.listener).open, 1);
    pair_close(&p);
    for (size_t i = 0; i < 3; i++) end_deinit(&more[i]);
}

TEST(peers_show_their_identity_when_both_asked_for_tls)
{
    static const struct str uri = {"muster://replica/1", 18};
    const struct tls_identity identity = {.uris = &uri, .uri_count = 1};
    struct tls_context *some = (struct tls_context *)(void *)pattern; /* never looked into */
    struct pair p;
    struct sim_host *c;
    struct server secure = {0};
    struct end plain = {0};

    pair_open(&p, 11);
    CHECK_OK("a host with a name",
             sim_host_add(
                 p.sim,
                 &(struct sim_host_options){.name = "c", .identity = &identity, .alpn = "h2"}, &c));
    CHECK_OK("listen", server_listen(&secure, p.b,
                                     &(struct listen_options){.address = "b:7443", .tls = some}));
    CHECK_OK("dial",
             end_dial(&p.client, c, &(struct dial_options){.address = "b:7443", .tls = some}));
    CHECK_OK("dial", end_dial(&plain, p.a, &(struct dial_options){.address = "b:7443"}));
    sim_run_for(p.sim, 100);
    CHECK_SIZE("one came in", secure.accepted, 1);
    CHECK("the peer", stream_peer_identity(secure.ends[0].stream) == &identity);
    CHECK_TEXT("its protocol", stream_alpn(p.client.stream), "h2");
    CHECK("the plain one did not", plain.closed);
    CHECK_U64("counted", listener_stats(secure.listener).failed_handshake, 1);
    pair_close(&p);
    end_deinit(&plain);
    end_deinit(&secure.ends[0]);
}

/* -- faults -- */

/* Sends 100,000 bytes each way over links with these faults; every byte must arrive once and in
 * order. */
static struct sim_link_stats transfer(uint64_t seed, const struct sim_link_faults *faults,
                                      uint64_t *ret_ms)
{
    enum { LEN = 100000 };
    struct pair p;
    struct sim_link_stats stats;
    sim_time start;

    pair_open(&p, seed);
    pair_connect(&p);
    sim_link_set_all(p.sim, faults);
    start = sim_now(p.sim);
    CHECK_OK("write", end_write(&p.client, bytes_of(LEN)));
    CHECK_OK("write", end_write(&p.server.ends[0], bytes_of(LEN)));
    CHECK("the server has it", pair_wait_bytes(&p, &p.server.ends[0], LEN, 3600000));
    CHECK("the client has it", pair_wait_bytes(&p, &p.client, LEN, 3600000));
    *ret_ms = (sim_now(p.sim).ns - start.ns) / NS_PER_MS;
    CHECK_STR("in order, once", buf_peek(&p.server.ends[0].got), bytes_of(LEN));
    CHECK_STR("in order, once", buf_peek(&p.client.got), bytes_of(LEN));
    stats = sim_link_stats(p.a, p.b);
    pair_close(&p);
    return stats;
}

TEST(loss_costs_time_and_no_bytes)
{
    struct sim_link_faults faults = sim_link_calm;
    struct sim_link_stats stats;
    uint64_t calm_ms, lossy_ms;

    stats = transfer(20, &faults, &calm_ms);
    CHECK_U64("calm links lose nothing", stats.lost, 0);
    faults.loss_ppm = 100000;
    stats = transfer(20, &faults, &lossy_ms);
    CHECK("packets were lost", stats.lost > 5);
    CHECK("a loss costs a timeout", lossy_ms >= calm_ms + 200);
}

/* Frequent writes must not keep TCP from resending. */
TEST(loss_is_repaired_during_continuous_writes)
{
    struct pair p;

    pair_open(&p, 41);
    pair_connect(&p);
    sim_link_block(p.a, p.b, true);
    CHECK_OK("this one is lost", end_write(&p.client, STR("x")));
    sim_run_for(p.sim, 10);
    sim_link_heal_all(p.sim);
    for (int i = 0; i < 300; i++) {
        CHECK_OK("write", end_write(&p.client, STR("y")));
        sim_run_for(p.sim, 2);
    }
    CHECK("repaired meanwhile", p.server.ends[0].got.len > 200);
    pair_close(&p);
}

TEST(duplicates_are_received_once)
{
    struct sim_link_faults faults = sim_link_calm;
    uint64_t ms;

    faults.duplicate_ppm = 300000;
    faults.reorder_ppm = 300000; /* a copy arrives late */
    faults.reorder_ns_max = 5 * NS_PER_MS;
    CHECK("packets were doubled", transfer(21, &faults, &ms).duplicated > 20);
}

TEST(reordered_packets_wait_for_the_gap)
{
    struct sim_link_faults faults = sim_link_calm;
    uint64_t ms;

    faults.reorder_ppm = 300000;
    faults.reorder_ns_max = 50 * NS_PER_MS;
    CHECK("packets overtook each other", transfer(22, &faults, &ms).reordered > 20);
}

TEST(delay_is_delay)
{
    struct sim_link_faults faults = {.delay_min_ns = 50 * NS_PER_MS};
    uint64_t ms;

    transfer(23, &faults, &ms);
    CHECK("a window's worth per round trip at most", ms >= 50 && ms < 1000);
}

TEST(a_rate_spreads_a_burst)
{
    struct sim_link_faults faults = sim_link_calm;
    uint64_t ms;

    faults.bytes_per_second = 50000;
    transfer(24, &faults, &ms);
    CHECK("100,000 bytes take two seconds", ms >= 2000);
}

TEST(all_faults_together_still_keep_the_bytes)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct sim_link_faults faults = {.delay_min_ns = NS_PER_MS,
                                         .delay_spread_ns = 10 * NS_PER_MS,
                                         .loss_ppm = 50000,
                                         .duplicate_ppm = 50000,
                                         .reorder_ppm = 100000,
                                         .reorder_ns_max = 300 * NS_PER_MS};
        uint64_t ms;
        transfer(seed, &faults, &ms);
    }
}

TEST(a_one_way_partition_delivers_but_never_acknowledges)
{
    struct pair p;
    struct end *server;
    size_t written = 0;

    pair_open(&p, 25);
    CHECK_OK("dial", end_dial(&p.client, p.a,
                              &(struct dial_options){.address = "b:7000", .output_max = 20000}));
    sim_run_for(p.sim, 100);
    server = &p.server.ends[0];
    sim_link_block(p.b, p.a, true);
    while (!end_write(&p.client, str_of(bytes_of(600000).at + written, 1000))) {
        written += 1000;
        sim_run_for(p.sim, 10);
    }
    CHECK("the bytes within the window arrived", server->got.len == 64 * 1024);
    CHECK("and no more was taken: no acknowledgement came back", written <= 64 * 1024 + 20000);
    CHECK("the writer gives up in the end", pair_wait_closed(&p, &p.client, 60000));
    CHECK_ERR("not orderly", p.client.why, ERR_IO);
    CHECK("the reader is not notified", !server->closed && !server->ended);
    sim_link_block(p.b, p.a, false);
    sim_run_for(p.sim, 60000);
    CHECK("not even later: it is half open", !server->closed);
    CHECK_OK("until it writes", end_write(server, STR("hello?")));
    CHECK("and gets a reset", pair_wait_closed(&p, server, 10000));
    CHECK_ERR("which is", server->why, ERR_IO);
    pair_close(&p);
}

TEST(a_partition_that_ends_in_time_costs_only_delay)
{
    struct pair p;

    pair_open(&p, 26);
    pair_connect(&p);
    sim_link_block(p.a, p.b, true);
    sim_link_block(p.b, p.a, true);
    CHECK_OK("write", end_write(&p.client, STR("late")));
    sim_run_for(p.sim, 5000);
    CHECK_SIZE("nothing gets through", p.server.ends[0].got.len, 0);
    sim_link_heal_all(p.sim);
    CHECK("then it does", pair_wait_bytes(&p, &p.server.ends[0], 4, 10000));
    pair_close(&p);
}

TEST(a_clog_holds_everything_then_bursts)
{
    struct pair p;
    struct end *server;

    pair_open(&p, 27);
    pair_connect(&p);
    server = &p.server.ends[0];
    CHECK_OK("write", end_write(&p.client, STR("on its way,")));
    sim_run_for(p.sim, 0);
    sim_link_clog(p.a, p.b, 150);
    CHECK_OK("write", end_write(&p.client, STR("after it")));
    sim_run_for(p.sim, 149);
    CHECK_SIZE("held, including packets in flight", server->got.len, 0);
    sim_run_for(p.sim, 2);
    CHECK_STR("a burst", buf_peek(&server->got), STR("on its way,after it"));
    CHECK("counted", sim_link_stats(p.a, p.b).clogged >= 2);
    sim_link_clog(p.a, p.b, 100000);
    CHECK_OK("write", end_write(&p.client, STR("!")));
    sim_run_for(p.sim, 100);
    sim_link_heal_all(p.sim);
    CHECK("healing lets it go", pair_wait_bytes(&p, server, 20, 10));
    pair_close(&p);
}

TEST(a_doubled_opening_yields_one_connection)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct sim_link_faults faults = sim_link_calm;
        struct pair p;
        pair_open(&p, seed);
        faults.duplicate_ppm = 1000000;
        faults.reorder_ppm = 500000;
        faults.reorder_ns_max = 3000 * NS_PER_MS; /* copies of the SYN outlive the connection */
        sim_link_set_all(p.sim, &faults);
        pair_connect(&p);
        stream_close(p.client.stream);
        p.server.ends[0].answer_end = true;
        sim_run_for(p.sim, 60000);
        CHECK_SIZE("one connection", p.server.accepted, 1);
        CHECK("closed", p.client.closed);
        pair_close(&p);
    }
}

TEST(a_healed_world_forgets_half_open_connections)
{
    struct pair p;

    pair_open(&p, 28);
    sim_link_block(p.b, p.a, true); /* the SYN arrives, its answer does not */
    CHECK_OK("dial", end_dial(&p.client, p.a,
                              &(struct dial_options){.address = "b:7000", .timeout_ms = 500}));
    sim_run_for(p.sim, 600);
    CHECK("gave up", p.client.closed);
    sim_link_heal_all(p.sim);
    sim_run_for(p.sim, 30000);
    CHECK_SIZE("never accepted", p.server.accepted, 0);
    pair_connect(&p);
    CHECK_SIZE("the next one is", p.server.accepted, 1);
    pair_close(&p);
}
