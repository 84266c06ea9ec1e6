/* SPDX-License-Identifier: Apache-2.0 */
/* Who may open a session, what its first frame must be, and how one ends: wire.md § 5.1 and 9.5,
 * shard.md § 11. What flows through a session is in test_session_traffic.c. */
#include "session_rig.h"

#include <stdlib.h>

static struct session_rig rig;

#define ONE_URI(text)                                                                              \
    {                                                                                              \
        .uris = (const struct str[]){{text, sizeof(text) - 1}}, .uri_count = 1                     \
    }

/* -- Hello -- */

TEST(the_first_frame_out_is_the_acknowledgement_of_hello)
{
    struct op *o;

    session_rig_open(&rig, &(struct sessions_options){.epoch = 7}, NULL);
    sessions_set_term(rig.sessions, 3);
    o = operator_hello(&rig, 0, "cluster-a");
    CHECK_TEXT("echo, term and epoch", heard(o), "ack hello 3 7\n");
    CHECK_TEXT("the owner knows", owner_log(&rig), "open cluster-a\n");
    CHECK_U64("one is active", session_stats(&rig).active, 1);
    CHECK_U64("installed, not replaced", session_stats(&rig).installed, 1);
    CHECK("there is one", rig_has(&rig, "cluster-a"));
    CHECK("and no other", !rig_has(&rig, "cluster-b"));
    rpc_call_end(o->call);
    session_rig_run(&rig, 50);
    check_ended(o, "end of input is a good end", GRPC_OK);
    CHECK_TEXT("reported once", owner_log(&rig), "open cluster-a\nclose cluster-a\n");
    CHECK_U64("removed", session_stats(&rig).removed, 1);
    CHECK_U64("none is active", session_stats(&rig).active, 0);
    session_rig_close(&rig);
}

static const struct {
    const char *why;
    struct str bytes;
    const char *text;
} first_frames[] = {
    {"a roll-up", {"\x12\x03\x0a\x01x", 5}, "the first frame must be hello"},
    {"a blob", {"\x1a\x00", 2}, "the first frame must be hello"},
    {"no payload", {"", 0}, "the first frame must be hello"},
    {"hello without a cluster", {"\x0a\x00", 2}, "cluster_id: empty"},
    {"a cluster with a line end", {"\x0a\x04\x0a\x02x\n", 6}, "cluster_id: "},
    {"a cluster that is not UTF-8", {"\x0a\x04\x0a\x02x\xff", 6}, "unreadable frame: hello: "},
    {"cut short", {"\x0a\x05\x0a", 3}, "unreadable frame: "},
    {"a group", {"\x0b\x0c", 2}, "unreadable frame: "},
    {"a number where hello belongs", {"\x08\x01", 2}, "unreadable frame: "},
    {"two payloads", {"\x0a\x03\x0a\x01x\x1a\x00", 7}, "unreadable frame: two payloads"},
};

TEST(what_does_not_begin_with_hello_is_refused)
{
    session_rig_open(&rig, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(first_frames); i++) {
        struct op *o = operator_connect(&rig, 0);
        operator_say_bytes(o, first_frames[i].bytes);
        session_rig_run(&rig, 50);
        check_ended(o, first_frames[i].why, GRPC_INVALID_ARGUMENT);
        CHECK_HAS(first_frames[i].why, o->text, first_frames[i].text);
        CHECK_U64("counted", session_stats(&rig).refused, i + 1);
    }
    CHECK_TEXT("the owner hears nothing", owner_log(&rig), "");
    CHECK_U64("nothing is left", session_stats(&rig).streams, 0);
    session_rig_close(&rig);
}

TEST(nobody_takes_of_the_budget_before_hello)
{
    struct op *o;

    session_rig_open(&rig, NULL, NULL);
    o = operator_connect(&rig, 0);
    operator_say_rollup(o, "a", 10 << 20);
    CHECK("its head comes", sim_run_for(rig.sim, 20) == SIM_REACHED);
    CHECK_SIZE("nothing is charged", session_stats(&rig).rollup_bytes, 0);
    session_rig_run(&rig, 1000);
    check_ended(o, "it is no hello", GRPC_INVALID_ARGUMENT);
    session_rig_close(&rig);
}

TEST(a_stream_that_says_nothing_ends)
{
    struct op *silent, *ended;

    session_rig_open(&rig, &(struct sessions_options){.hello_timeout_ms = 5000}, NULL);
    silent = operator_connect(&rig, 0);
    ended = operator_connect(&rig, 1);
    session_rig_run(&rig, 1000);
    CHECK("there is time", !silent->ended);
    rpc_call_end(ended->call);
    session_rig_run(&rig, 1000);
    check_ended(ended, "the end is no hello", GRPC_INVALID_ARGUMENT);
    session_rig_run(&rig, 5000);
    check_ended(silent, "its time is up", GRPC_DEADLINE_EXCEEDED);
    session_rig_close(&rig);
}

TEST(hello_again_is_acknowledged_again_and_names_the_same_cluster)
{
    struct op *o;

    session_rig_open(&rig, NULL, NULL);
    o = operator_hello(&rig, 0, "a");
    operator_say_hello(o, "a");
    session_rig_run(&rig, 50);
    CHECK_TEXT("two acks", heard(o), "ack hello 0 0\nack hello 0 0\n");
    CHECK_TEXT("one session", owner_log(&rig), "open a\n");
    operator_say_hello(o, "b");
    session_rig_run(&rig, 50);
    check_ended(o, "another cluster", GRPC_INVALID_ARGUMENT);
    CHECK_TEXT("b was never there", owner_log(&rig), "open a\nclose a\n");
    session_rig_close(&rig);
}

/* -- identity: T13, T14 -- */

TEST(the_certificate_names_the_cluster_of_hello)
{
    const struct tls_identity a = ONE_URI("bigfleet://cluster/cluster-a");
    const struct tls_identity none = {.common_name = {"op", 2}};
    const struct tls_identity admin = ONE_URI("bigfleet://admin");
    const struct tls_identity two = {.uris =
                                         (const struct str[]){{"bigfleet://cluster/cluster-a", 28},
                                                              {"bigfleet://cluster/cluster-b", 28}},
                                     .uri_count = 2};
    const struct tls_identity *shown[RIG_OPERATORS] = {&a, &none, &admin, &two};
    struct op *o;

    session_rig_open(&rig, NULL, shown);
    o = operator_hello(&rig, 0, "cluster-a");
    CHECK_TEXT("T13", heard(o), "ack hello 0 0\n");
    operator_say_hello(o, "cluster-b");
    session_rig_run(&rig, 50);
    check_ended(o, "a second hello is checked, too", GRPC_PERMISSION_DENIED);
    CHECK_U64("and counted", session_stats(&rig).identity_rejected, 1);
    o = operator_hello(&rig, 0, "cluster-b");
    check_ended(o, "T14: another's", GRPC_PERMISSION_DENIED);
    CHECK_U64("T14: counted", session_stats(&rig).identity_rejected, 2);
    CHECK_HAS("T14: logged", logged(&rig), "operator session identity rejected");
    o = operator_hello(&rig, 0, "cluster-a/../cluster-b");
    check_ended(o, "exactly the id, nothing like a path", GRPC_PERMISSION_DENIED);
    for (size_t i = 1; i < RIG_OPERATORS; i++) {
        o = operator_hello(&rig, i, "cluster-a");
        check_ended(o, "T14: no cluster's identity", GRPC_PERMISSION_DENIED);
    }
    CHECK_TEXT("only the right one was let in", owner_log(&rig),
               "open cluster-a\nclose cluster-a\n");
    session_rig_close(&rig);
}

/* -- one per cluster -- */

TEST(a_new_session_replaces_and_closes_the_old_one)
{
    struct op *old, *new;

    session_rig_open(&rig, NULL, NULL);
    old = operator_hello(&rig, 0, "a");
    CHECK_OK("asked", rig_ask(&rig, "a", 11, 30000));
    session_rig_run(&rig, 50);
    forget(&rig);
    new = operator_hello(&rig, 1, "a");
    CHECK_TEXT("Q23: its blobs fail at once, its end comes before the beginning", owner_log(&rig),
               "blob 11 no session \nclose a\nopen a\n");
    check_ended(old, "the old stream is closed", GRPC_ABORTED);
    CHECK_HAS("and heard why", old->text, "replaced");
    CHECK_U64("replaced", session_stats(&rig).replaced, 1);
    CHECK_U64("not removed", session_stats(&rig).removed, 0);
    CHECK_U64("one is active", session_stats(&rig).active, 1);
    session_rig_run(&rig, 1000);
    CHECK("the clean-up of the old one did not evict it", rig_has(&rig, "a"));
    node_state(&rig, "a", "m1", MACHINE_CONFIGURED);
    session_rig_run(&rig, 50);
    CHECK_TEXT("frames go to the new one", heard(new), "ack hello 0 0\nnode m1 a 5\n");
    CHECK("not to the old one", !strstr(heard(old), "node"));
    session_rig_close(&rig);
}

TEST(a_lost_connection_ends_its_session_and_no_other)
{
    struct op *a, *b;

    session_rig_open(&rig, NULL, NULL);
    a = operator_hello(&rig, 0, "a");
    b = operator_hello(&rig, 1, "b");
    forget(&rig);
    operator_hang_up(a);
    session_rig_run(&rig, 50);
    CHECK_TEXT("a is gone", owner_log(&rig), "close a\n");
    operator_say_rollup(b, "b", 10);
    session_rig_run(&rig, 50);
    CHECK_TEXT("b goes on", heard(b), "ack rollup 0 0\n");
    session_rig_close(&rig);
}

TEST(sessions_are_bounded_and_a_reconnect_is_not_locked_out)
{
    struct op *o;

    session_rig_open(&rig, &(struct sessions_options){.sessions_max = 1}, NULL);
    operator_hello(&rig, 0, "a");
    o = operator_hello(&rig, 1, "a");
    CHECK("the same cluster again", !o->ended);
    session_rig_run(&rig, 50);
    operator_connect(&rig, 2);
    session_rig_run(&rig, 50);
    o = operator_connect(&rig, 3);
    session_rig_run(&rig, 50);
    check_ended(o, "two streams for each session at most", GRPC_RESOURCE_EXHAUSTED);
    session_rig_close(&rig);
}

TEST(draining_ends_every_session_and_takes_no_more)
{
    struct op *a, *b;

    session_rig_open(&rig, NULL, NULL);
    a = operator_hello(&rig, 0, "a");
    sessions_drain(rig.sessions);
    session_rig_run(&rig, 50);
    check_ended(a, "ended", GRPC_UNAVAILABLE);
    CHECK_TEXT("reported", owner_log(&rig), "open a\nclose a\n");
    b = operator_hello(&rig, 1, "b");
    check_ended(b, "no more", GRPC_UNAVAILABLE);
    session_rig_close(&rig);
}
