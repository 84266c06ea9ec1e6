/* SPDX-License-Identifier: Apache-2.0 */
/* The channel: dialing, back-off, a warm second connection, leaders, keep-alive, closing. */
#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "rpc/client_internal.h"
#include "scripted.h"

static struct world world;
static struct heard heard;

static void open_world(void)
{
    world_open(&world, 21);
    for (size_t i = 0; i < WORLD_SERVERS; i++) world.servers[i].on_request = scripted_say_name;
}

static void close_all(void)
{
    heard_deinit(&heard);
    world_close(&world);
}

static const char *who_answers(void)
{
    static char name[16];

    heard_deinit(&heard);
    ask(&world, &heard, (struct rpc_call_options){.wait_for_ready = true, .timeout_ms = 60000},
        STR("who"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("answered", heard.err);
    snprintf(name, sizeof name, "%.*s", STR_ARG(buf_peek(&heard.bytes)));
    return name;
}

TEST(addresses_must_be_given_and_be_addresses)
{
    static const char *const none[] = {NULL}, *const bad[] = {"no-port", NULL};
    struct rpc_channel *channel = NULL;
    struct note note = {0};

    world_open(&world, 1);
    CHECK_ERR("none",
              rpc_channel_open(
                  &(struct rpc_channel_options){.io = sim_host_io(world.client), .addresses = none},
                  &channel, &note),
              ERR_INVALID);
    CHECK_ERR("bad",
              rpc_channel_open(
                  &(struct rpc_channel_options){.io = sim_host_io(world.client), .addresses = bad},
                  &channel, &note),
              ERR_INVALID);
    CHECK("untouched", channel == NULL);
    CHECK_HAS("names it", note.text, "no-port");
    heard = (struct heard){0};
    close_all();
}

TEST(the_first_address_that_answers_is_used)
{
    open_world();
    world_channel(&world, (struct rpc_channel_options){.addresses = world_addresses});
    CHECK_TEXT("the first", who_answers(), "s0");
    CHECK_TEXT("and the message", rpc_channel_peer(world.channel), "s0:7000");
    close_all();
    open_world();
    scripted_close(&world.servers[0]);           /* refuses */
    sim_host_die(world.hosts[1], SIM_POWER_CUT); /* silent */
    world_channel(&world, (struct rpc_channel_options){.addresses = world_addresses,
                                                       .dial_timeout_ms = 2000});
    CHECK_TEXT("the one that is there", who_answers(), "s2");
    close_all();
}

TEST(a_server_that_accepts_and_is_silent_is_not_ready)
{
    open_world();
    world.servers[0].mute = true;
    world_channel(&world, (struct rpc_channel_options){.addresses = world_addresses,
                                                       .dial_timeout_ms = 1500});
    CHECK_TEXT("passed over", who_answers(), "s1");
    close_all();
}

TEST(calls_move_to_another_address_when_a_connection_is_lost)
{
    open_world();
    world_channel(&world, (struct rpc_channel_options){.addresses = world_addresses});
    CHECK_TEXT("the first", who_answers(), "s0");
    world_run(&world, 2000);
    sim_host_die(world.hosts[0], SIM_KILLED);
    world_run(&world, 1000);
    CHECK_TEXT("the next", who_answers(), "s1");
    close_all();
}

TEST(impatient_calls_fail_when_every_address_has_failed_and_patient_ones_wait)
{
    struct heard patient;

    open_world();
    for (size_t i = 0; i < WORLD_SERVERS; i++) scripted_close(&world.servers[i]);
    world_channel(&world, (struct rpc_channel_options){.addresses = world_addresses});
    ask(&world, &patient, (struct rpc_call_options){.wait_for_ready = true}, STR("x"));
    ask(&world, &heard, (struct rpc_call_options){0}, STR("x"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("was not done", heard.err, ERR_UNAVAILABLE);
    CHECK_U64("never left", heard.attempts, 0);
    CHECK("the reason", heard.text[0] != '\0');
    heard_deinit(&heard);
    ask(&world, &heard, (struct rpc_call_options){0}, STR("x"));
    CHECK("the next one fails fast too", wait_end(&world, &heard) && heard.err == ERR_UNAVAILABLE);
    CHECK_U64("the patient one waits", patient.ends, 0);
    scripted_open(&world.servers[1], sim_host_io(world.hosts[1]), world_addresses[1]);
    CHECK("until a server is there", wait_end(&world, &patient));
    CHECK_OK("then it is done", patient.err);
    heard_deinit(&patient);
    close_all();
}

static void restart_at_end(void *owner, const struct rpc_client_call *call,
                           const struct rpc_outcome *outcome, struct str message)
{
    unsigned *count = owner;
    struct rpc_call_options options = {.path = "/a/b"};

    (void)call, (void)message;
    CHECK_ERR("fails", outcome->err, ERR_UNAVAILABLE);
    if (++*count < 1000)
        CHECK_OK("again",
                 rpc_unary(world.channel, &options, STR("x"), restart_at_end, count, NULL));
}

TEST(a_caller_that_retries_at_each_failure_does_not_block_the_loop)
{
    unsigned count = 0;
    uint64_t turns;

    open_world();
    scripted_close(&world.servers[0]);
    world_channel(&world, (struct rpc_channel_options){.backoff_first_ms = 50});
    turns = loop_stats(sim_host_io(world.client)->loop).turns;
    heard = (struct heard){0};
    CHECK_OK("a call", rpc_unary(world.channel, &(struct rpc_call_options){.path = "/a/b"},
                                 STR("x"), restart_at_end, &count, NULL));
    for (int i = 0; i < 2000 && count < 1000; i++) world_run(&world, 10);
    CHECK_U64("all of them", count, 1000);
    /* One turn runs a task that defers itself up to 16 times (io/loop.h). */
    CHECK("turn by turn", loop_stats(sim_host_io(world.client)->loop).turns - turns >= 1000 / 16);
    close_all();
}

TEST(attempts_to_connect_back_off_within_their_bounds)
{
    size_t before;

    open_world();
    world.servers[0].refuse = true; /* accepts, then closes: each dial is counted */
    world_channel(&world,
                  (struct rpc_channel_options){.backoff_first_ms = 1000, .backoff_max_ms = 8000});
    world_run(&world, 900);
    before = world.servers[0].accepted;
    CHECK("the first at once, then a pause of up to a second", before >= 1 && before <= 4);
    world_run(&world, 60000);
    /* Pauses are drawn from 0..8 s: about fifteen in a minute. */
    CHECK("it goes on", world.servers[0].accepted > before + 3);
    heard = (struct heard){0};
    close_all();
}

TEST(a_server_that_closes_at_once_is_not_dialed_in_a_storm)
{
    size_t dials = 0;

    open_world();
    world_channel(&world,
                  (struct rpc_channel_options){.backoff_first_ms = 500, .backoff_max_ms = 5000});
    for (int i = 0; i < 1000; i++) { /* ten seconds; each connection ends as soon as it is ready */
        world_run(&world, 10);
        if (rpc_channel_ready(world.channel) && world.servers[0].accepted > dials) {
            dials = world.servers[0].accepted;
            if (dials < SCRIPTED_CONNECTIONS)
                stream_close(world.servers[0].peers[dials - 1].stream);
        }
    }
    CHECK("a few, not thousands", dials >= 3 && dials < SCRIPTED_CONNECTIONS);
    heard = (struct heard){0};
    close_all();
}

static bool spare_is_ready(void *context)
{
    return rpc_channel_warm_peer(((struct world *)context)->channel)[0] != '\0';
}

TEST(a_warm_second_connection_takes_over_at_once)
{
    uint64_t before, took;

    open_world();
    world_channel(&world, (struct rpc_channel_options){.addresses = world_addresses,
                                                       .warm_second = true,
                                                       .backoff_first_ms = 5000,
                                                       .backoff_max_ms = 5000});
    CHECK("a second one", world_wait(&world, spare_is_ready, &world));
    CHECK_TEXT("calls go to the first", who_answers(), "s0");
    CHECK_TEXT("the second is another", rpc_channel_warm_peer(world.channel), "s1:7000");
    sim_host_die(world.hosts[0], SIM_KILLED);
    world_run(&world, 50); /* the kernel reports the end */
    before = sim_now(world.sim).ns;
    CHECK_TEXT("the second takes over", who_answers(), "s1");
    took = sim_now(world.sim).ns - before;
    CHECK("without a dial", took < 100 * NS_PER_MS && world.servers[1].accepted == 1);
    CHECK("and another is made warm", world_wait(&world, spare_is_ready, &world));
    CHECK("elsewhere", strcmp(rpc_channel_warm_peer(world.channel), "s1:7000") != 0);
    close_all();
}

/* -- a fleet of clients with two connections each -- */

enum { FLEET = 12, FLEET_SEEDS = 25, REDIAL_SECONDS = 31 };
static struct rpc_channel *fleet[FLEET];
static struct metrics *fleet_metrics;
static struct rpc_client_metrics *fleet_counts;

/* Client i lists the servers from i on, so each server is active for a third of the clients and
 * spare for another third. */
static void open_fleet(uint64_t seed)
{
    world_open(&world, seed);
    CHECK_OK("metrics", metrics_open(&fleet_metrics));
    CHECK_OK("counts", rpc_client_metrics_open(fleet_metrics, &fleet_counts, NULL));
    for (size_t i = 0; i < WORLD_SERVERS; i++) world.servers[i].on_request = scripted_say_name;
    for (size_t i = 0; i < FLEET; i++) {
        const char *const addresses[] = {world_addresses[i % 3], world_addresses[(i + 1) % 3],
                                         world_addresses[(i + 2) % 3], NULL};
        struct rpc_channel_options options = {.io = sim_host_io(world.client),
                                              .addresses = addresses,
                                              .warm_second = true,
                                              .backoff_first_ms = 50,
                                              .backoff_max_ms = 1000,
                                              .metrics = fleet_counts};

        CHECK_OK("open", rpc_channel_open(&options, &fleet[i], NULL));
    }
}

static void close_fleet(void)
{
    for (size_t i = 0; i < FLEET; i++) rpc_channel_close(fleet[i], NULL, NULL);
    world_run(&world, 5000);
    heard = (struct heard){0};
    close_all();
    rpc_client_metrics_close(fleet_counts);
    metrics_close(fleet_metrics);
}

static bool fleet_is_warm(void *context)
{
    (void)context;
    for (size_t i = 0; i < FLEET; i++)
        if (!rpc_channel_warm_peer(fleet[i])[0]) return false;
    return true;
}

static uint64_t fleet_dials(void)
{
    return counter_value(fleet_counts->dials);
}

/* Thousands of handshakes at one moment take the cores that the other servers need to elect a
 * leader. A channel with a live connection can wait. */
TEST(after_a_crash_no_client_with_a_live_connection_dials_at_once)
{
    uint64_t in_second[REDIAL_SECONDS + 2] = {0}, all = 0;

    for (uint64_t seed = 1; seed <= FLEET_SEEDS; seed++) {
        uint64_t before;

        open_fleet(seed);
        CHECK("two connections each", world_wait(&world, fleet_is_warm, NULL));
        world_run(&world, 2000);
        before = fleet_dials();
        CHECK_U64("as many as that took", before, 2 * FLEET);
        sim_host_die(world.hosts[0], SIM_KILLED);
        for (size_t second = 0; second < ARRAY_LEN(in_second); second++) {
            world_run(&world, second == 0 ? 990 : 1000);
            in_second[second] += fleet_dials() - before;
            all += fleet_dials() - before;
            before = fleet_dials();
        }
        CHECK("all have two again", fleet_is_warm(NULL));
        for (size_t i = 0; i < FLEET; i++)
            CHECK("none at the dead one", strcmp(rpc_channel_peer(fleet[i]), "s0:7000") != 0);
        close_fleet();
    }
    CHECK_U64("none in the first second", in_second[0], 0);
    CHECK("two thirds had a connection there", all >= FLEET_SEEDS * FLEET * 2 / 3);
    for (size_t second = 0; second < ARRAY_LEN(in_second); second++)
        CHECK("and then not together", in_second[second] < all / 5);
}

TEST(a_server_that_goes_away_gets_no_more_calls)
{
    struct heard running;

    open_world();
    world.servers[0].on_request = NULL; /* its one open call keeps the connection open */
    world_channel(&world,
                  (struct rpc_channel_options){.addresses = world_addresses, .warm_second = true});
    CHECK("a second one", world_wait(&world, spare_is_ready, &world));
    ask(&world, &running, (struct rpc_call_options){0}, STR("x"));
    world_run(&world, 100);
    heard = (struct heard){0};
    h2_go_away(world.servers[0].peers[0].h2, H2_NO_ERROR);
    scripted_flush(&world.servers[0].peers[0]);
    world_run(&world, 100);
    CHECK_TEXT("moved before any call was made", rpc_channel_peer(world.channel), "s1:7000");
    CHECK_TEXT("to the other", who_answers(), "s1");
    CHECK_U64("running calls continue", running.ends, 0);
    world_close_channel(&world);
    CHECK_U64("until the end", running.ends, 1);
    heard_deinit(&running);
    close_all();
}

/* -- leaders -- */

static const char *leader_name;

static void name_the_leader(struct scripted *s, struct scripted_request *r)
{
    const struct h2_header headers[] = {{STR(":status"), STR("200")},
                                        {STR("content-type"), STR("application/grpc")},
                                        {STR("grpc-status"), STR("9")},
                                        {STR(RPC_LEADER_TRAILER), str_from(leader_name)}};

    if (strncmp(leader_name, s->name, 2) == 0)
        scripted_say_name(s, r);
    else
        scripted_respond_with(r, headers, 4, true);
}

static void open_led(struct rpc_channel_options options, const char *leader)
{
    world_open(&world, 5);
    leader_name = leader;
    for (size_t i = 0; i < WORLD_SERVERS; i++) world.servers[i].on_request = name_the_leader;
    options.follow_leader = true;
    world_channel(&world, options);
}

TEST(not_leader_answers_are_followed)
{
    open_led((struct rpc_channel_options){0}, "s2:7000"); /* only s0 is listed */
    CHECK_TEXT("to the leader", who_answers(), "s2");
    CHECK_U64("at the second attempt", heard.attempts, 2);
    CHECK_TEXT("the next goes there straight", who_answers(), "s2");
    CHECK_U64("at the first", heard.attempts, 1);
    leader_name = "s1:7000";
    CHECK_TEXT("and moves with the leader", who_answers(), "s1");
    world_run(&world, 5000);
    CHECK("connections that are not needed are closed in order",
          !world.servers[0].peers[0].stream && world.servers[0].peers[0].goaway_seen);
    close_all();
}

static bool slow_leader_answers(void *context)
{
    (void)context;
    return world.servers[2].count > 0;
}

TEST(while_the_leader_is_dialed_nobody_else_is_asked_again)
{
    open_led((struct rpc_channel_options){.addresses = world_addresses, .warm_second = true},
             "s2:7000");
    CHECK("a second one", world_wait(&world, spare_is_ready, &world));
    sim_link_clog(world.client, world.hosts[2], 1500); /* the dial is slow */
    ask(&world, &heard, (struct rpc_call_options){.wait_for_ready = true}, STR("x"));
    CHECK("the leader is asked in the end", world_wait(&world, slow_leader_answers, NULL));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    CHECK_U64("one follower was asked, once", world.servers[0].count + world.servers[1].count, 1);
    CHECK_U64("two attempts in all", heard.attempts, 2);
    close_all();
}

TEST(many_calls_follow_together)
{
    enum { CALLS = 20 };
    static struct heard many[CALLS];

    open_led((struct rpc_channel_options){.addresses = world_addresses}, "s2:7000");
    for (size_t i = 0; i < CALLS; i++)
        ask(&world, &many[i], (struct rpc_call_options){.wait_for_ready = true}, STR("x"));
    for (size_t i = 0; i < CALLS; i++) {
        CHECK("ends", wait_end(&world, &many[i]));
        CHECK_OK("done", many[i].err);
        CHECK_U64("two attempts", many[i].attempts, 2);
        heard_deinit(&many[i]);
    }
    CHECK_U64("one connection to the leader", world.servers[2].accepted, 1);
    heard = (struct heard){0};
    close_all();
}

TEST(with_a_warm_second_the_old_one_is_kept_and_the_leader_may_be_it)
{
    open_led((struct rpc_channel_options){.addresses = world_addresses, .warm_second = true},
             "s1:7000");
    CHECK("a second one", world_wait(&world, spare_is_ready, &world));
    CHECK_TEXT("the warm one is the leader", who_answers(), "s1");
    CHECK_U64("no further connection", world.servers[1].accepted, 1);
    CHECK_TEXT("the other is warm now", rpc_channel_warm_peer(world.channel), "s0:7000");
    close_all();
}

TEST(while_there_is_no_leader_calls_pause_and_go_round)
{
    open_led((struct rpc_channel_options){.addresses = world_addresses, .backoff_first_ms = 100},
             "");
    ask(&world, &heard, (struct rpc_call_options){.wait_for_ready = true, .attempts_max = 100},
        STR("x"));
    world_run(&world, 1000);
    CHECK_U64("it does not give up", heard.ends, 0);
    CHECK("it asked several", (world.servers[0].count > 0) + (world.servers[1].count > 0) +
                                      (world.servers[2].count > 0) >
                                  1);
    CHECK("without a storm",
          world.servers[0].count + world.servers[1].count + world.servers[2].count < 30);
    leader_name = "s1:7000";
    CHECK("ends", wait_end(&world, &heard));
    CHECK_OK("done", heard.err);
    close_all();
}

TEST(leaders_that_name_each_other_do_not_make_a_loop)
{
    open_led((struct rpc_channel_options){.addresses = world_addresses}, "xx:1");
    ask(&world, &heard, (struct rpc_call_options){.wait_for_ready = true}, STR("x"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("was not done", heard.err, ERR_NOT_LEADER);
    CHECK_U64("after a bounded number of attempts", heard.attempts, 8);
    close_all();
    open_led((struct rpc_channel_options){.addresses = world_addresses}, "not an address");
    ask(&world, &heard, (struct rpc_call_options){.wait_for_ready = true}, STR("x"));
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("was not done", heard.err, ERR_NOT_LEADER);
    close_all();
}

TEST(the_caller_may_send_the_channel_on)
{
    open_world();
    world_channel(&world, (struct rpc_channel_options){.addresses = world_addresses});
    CHECK_TEXT("first", who_answers(), "s0");
    rpc_channel_next_address(world.channel);
    CHECK_TEXT("then the next", who_answers(), "s1");
    close_all();
}

/* -- late answers -- */

TEST(a_late_answer_moves_to_the_warm_second_and_keeps_both)
{
    open_world();
    world_channel(&world,
                  (struct rpc_channel_options){.addresses = world_addresses, .warm_second = true});
    CHECK("a second one", world_wait(&world, spare_is_ready, &world));
    rpc_channel_answer_late(world.channel, 2000);
    CHECK_TEXT("to the second", who_answers(), "s1");
    CHECK_TEXT("the first is warm", rpc_channel_warm_peer(world.channel), "s0:7000");
    world_run(&world, 10000);
    rpc_channel_answer_late(world.channel, 2000);
    CHECK_TEXT("and back", who_answers(), "s0");
    CHECK_U64("nothing was dialed",
              world.servers[0].accepted + world.servers[1].accepted + world.servers[2].accepted, 2);
    close_all();
}

TEST(a_late_answer_dials_nothing_while_the_server_lives)
{
    open_world();
    world_channel(&world, (struct rpc_channel_options){.addresses = world_addresses});
    CHECK_TEXT("first", who_answers(), "s0");
    for (int i = 0; i < 20; i++) {
        rpc_channel_answer_late(world.channel, 2000);
        world_run(&world, 1000);
    }
    CHECK_TEXT("still the first", who_answers(), "s0");
    CHECK_U64("one connection", world.servers[0].accepted, 1);
    CHECK_U64("and no other", world.servers[1].accepted, 0);
    sim_link_block(world.hosts[0], world.client, true);
    rpc_channel_answer_late(world.channel, 2000);
    world_run(&world, 1900);
    CHECK_TEXT("silence is not believed at once", rpc_channel_peer(world.channel), "s0:7000");
    world_run(&world, 200);
    CHECK_TEXT("a silent connection is dropped", who_answers(), "s1");
    close_all();
}

/* -- keep-alive -- */

TEST(silence_is_broken_by_pings_and_a_dead_peer_is_found)
{
    open_world();
    world.servers[0].on_request = NULL; /* never answers, but its HTTP/2 layer does */
    world_channel(&world,
                  (struct rpc_channel_options){.ping_after_ms = 1000, .ping_timeout_ms = 500});
    ask(&world, &heard, (struct rpc_call_options){.wait_for_ready = true}, STR("x"));
    world_run(&world, 20000);
    CHECK_U64("pings are answered: it waits", heard.ends, 0);
    sim_link_block(world.hosts[0], world.client, true);
    CHECK("ends", wait_end(&world, &heard));
    CHECK_ERR("it was sent", heard.err, ERR_UNKNOWN);
    CHECK_HAS("and the reason", heard.text, "ping");
    close_all();
}

/* Otherwise a server could disable keep-alive pings, for itself and for the channel's other
 * servers. */
TEST(repeated_too_many_pings_halve_the_pings_only_once)
{
    static const char calm[] = "\0\0\x08\x07\0\0\0\0\0" /* GOAWAY */
                               "\x7f\xff\xff\xff\0\0\0\x0b";
    struct str goaway = str_of(calm, sizeof calm - 1);

    open_world();
    world.servers[0].on_request = NULL;
    world_channel(&world,
                  (struct rpc_channel_options){.ping_after_ms = 1000, .ping_timeout_ms = 500});
    CHECK("ready", world_wait_ready(&world));
    for (int i = 0; i < 10; i++)
        CHECK_OK("goaway", stream_write(world.servers[0].peers[0].stream, &goaway, 1));
    world_run(&world, 10);
    CHECK("dialed again", world_wait_ready(&world));
    CHECK_SIZE("once", world.servers[0].accepted, 2);
    ask(&world, &heard, (struct rpc_call_options){0}, STR("hi"));
    world_run(&world, 100);
    sim_host_die(world.hosts[0], SIM_POWER_CUT);
    world_run(&world, 1700);
    CHECK_U64("twice as patient", heard.ends, 0);
    world_run(&world, 1000);
    CHECK_U64("and no more than that", heard.ends, 1);
    CHECK_HAS("by a ping", heard.text, "ping");
    close_all();
}

TEST(a_warm_connection_is_known_to_be_alive)
{
    open_world();
    world_channel(&world, (struct rpc_channel_options){.addresses = world_addresses,
                                                       .warm_second = true,
                                                       .ping_after_ms = 1000,
                                                       .ping_timeout_ms = 500});
    CHECK("a second one", world_wait(&world, spare_is_ready, &world));
    CHECK_TEXT("calls go to the first", who_answers(), "s0");
    CHECK_TEXT("the second", rpc_channel_warm_peer(world.channel), "s1:7000");
    sim_host_die(world.hosts[1], SIM_POWER_CUT); /* without a TCP end, and no call would notice */
    world_run(&world, 5000);
    CHECK("it is found dead, and replaced",
          strcmp(rpc_channel_warm_peer(world.channel), "s1:7000") != 0);
    close_all();
}

/* -- closing -- */

TEST(closing_ends_every_call_and_reports_sent_from_unsent)
{
    struct heard sent, waiting, streaming;

    open_world();
    world.servers[0].on_request = NULL;
    world.servers[0].streams_max = 2;
    world_channel(&world, (struct rpc_channel_options){0});
    CHECK("ready", world_wait_ready(&world));
    ask(&world, &sent, (struct rpc_call_options){0}, STR("x"));
    ask(&world, &streaming, (struct rpc_call_options){.idempotent = true}, STR("x"));
    world_run(&world, 500);
    ask(&world, &waiting, (struct rpc_call_options){.wait_for_ready = true}, STR("x"));
    world_run(&world, 500);
    world_close_channel(&world);
    CHECK_U64("once", sent.ends, 1);
    CHECK_U64("once", streaming.ends, 1);
    CHECK_U64("once", waiting.ends, 1);
    CHECK_ERR("was sent", sent.err, ERR_UNKNOWN);
    CHECK_ERR("was sent", streaming.err, ERR_UNKNOWN);
    CHECK_ERR("was not", waiting.err, ERR_CANCELLED);
    heard_deinit(&sent);
    heard_deinit(&streaming);
    heard_deinit(&waiting);
    heard = (struct heard){0};
    close_all();
}

static void start_another(void *owner, const struct rpc_client_call *call,
                          const struct rpc_outcome *outcome, struct str message)
{
    enum err *err = owner;

    (void)call, (void)outcome, (void)message;
    *err = rpc_unary(world.channel, &(struct rpc_call_options){.path = "/a/b"}, STR(""), NULL, NULL,
                     NULL);
}

static void note_closed(void *owner)
{
    *(bool *)owner = true;
}

TEST(no_call_starts_on_a_channel_that_closes)
{
    enum err err = ERR_OK;
    bool closed = false;

    open_world();
    scripted_close(&world.servers[0]);
    world_channel(&world, (struct rpc_channel_options){0});
    CHECK_OK("a call", rpc_unary(world.channel,
                                 &(struct rpc_call_options){.path = "/a/b", .wait_for_ready = true},
                                 STR(""), start_another, &err, NULL));
    rpc_channel_close(world.channel, note_closed, &closed);
    CHECK("never from inside", !closed);
    for (int i = 0; i < 100 && !closed; i++) world_run(&world, 10);
    CHECK("closed", closed);
    CHECK_ERR("refused", err, ERR_CLOSED);
    world.channel = NULL;
    heard = (struct heard){0};
    close_all();
}
