/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"
#include "operator/core/nodes.h"

static struct nodes *nodes;

static void report(const char *machine, enum machine_state state)
{
    struct cluster_node node = {.machine_id = str_from(machine), .state = state};

    CHECK_OK("report", nodes_report(nodes, &node));
}

static enum node_phase phase_of(const char *machine)
{
    const struct cluster_node *node = nodes_find(nodes, str_from(machine));

    return node ? node->phase : NODE_PHASE_COUNT;
}

/* Phases by every state before; PHASE_COUNT: it is gone. */
TEST(phases_are_those_of_the_table)
{
    static const enum node_phase fresh[MACHINE_STATE_COUNT] = {
        [MACHINE_UNSPECIFIED] = NODE_PROVISIONING,
        [MACHINE_SPECULATIVE] = NODE_PROVISIONING,
        [MACHINE_CREATING] = NODE_PROVISIONING,
        [MACHINE_IDLE] = NODE_LAUNCHED,
        [MACHINE_CONFIGURING] = NODE_REGISTERED,
        [MACHINE_CONFIGURED] = NODE_READY,
        [MACHINE_DRAINING] = NODE_DRAINING,
        [MACHINE_DELETING] = NODE_PROVISIONING,
        [MACHINE_FAILED] = NODE_FAILED};

    for (int from = 0; from < MACHINE_STATE_COUNT; from++) {
        for (int to = 0; to < MACHINE_STATE_COUNT; to++) {
            bool drained = from == MACHINE_DRAINING && to == MACHINE_IDLE;
            CHECK_OK("open", nodes_open(1, &nodes));
            report("m", (enum machine_state)from);
            CHECK_U64("alone", phase_of("m"), fresh[from]);
            report("m", (enum machine_state)to);
            CHECK_U64("after another", phase_of("m"), drained ? NODE_PHASE_COUNT : fresh[to]);
            CHECK_SIZE("counted once", nodes_count(nodes, fresh[to]), drained ? 0 : 1);
            nodes_close(nodes);
        }
    }
}

/* The next that changed is this one; PHASE_COUNT: it is gone. */
static bool takes(const char *want, enum node_phase phase)
{
    const struct cluster_node *node;
    struct str id;

    if (!nodes_take(nodes, &id) || !str_equal(id, str_from(want))) return false;
    node = nodes_find(nodes, id);
    return phase == NODE_PHASE_COUNT ? !node : node && node->phase == phase;
}

TEST(a_drained_machine_is_reported_once_more_and_forgotten)
{
    struct str id;
    size_t cursor = 0;

    CHECK_OK("open", nodes_open(1, &nodes));
    report("m", MACHINE_DRAINING);
    CHECK("reported", takes("m", NODE_DRAINING));
    report("m", MACHINE_IDLE);
    CHECK("not to be found", !nodes_find(nodes, STR("m")) && !nodes_next(nodes, &cursor));
    CHECK("its end", takes("m", NODE_PHASE_COUNT));
    CHECK("nothing more", !nodes_take(nodes, &id));
    report("m", MACHINE_CONFIGURING);
    CHECK("it may come back", takes("m", NODE_REGISTERED));
    nodes_close(nodes);
}

/* A kept frame of a machine that left reaches a restarted operator, which never saw the machine. */
TEST(a_machine_that_left_is_gone_even_if_it_was_never_seen)
{
    struct cluster_node node = {.machine_id = STR("m"), .left = true};

    for (int known = 0; known < 2; known++)
        for (int to = 0; to < MACHINE_STATE_COUNT; to++) {
            CHECK_OK("open", nodes_open(1, &nodes));
            if (known) report("m", MACHINE_CONFIGURED);
            node.state = (enum machine_state)to;
            CHECK_OK("report", nodes_report(nodes, &node));
            CHECK("not to be found", !nodes_find(nodes, STR("m")));
            CHECK("its end", takes("m", NODE_PHASE_COUNT));
            report("m", MACHINE_CONFIGURING);
            CHECK("it may come back", takes("m", NODE_REGISTERED));
            nodes_close(nodes);
        }
}

TEST(what_changed_twice_is_taken_once_as_it_is_now)
{
    struct str id;

    CHECK_OK("open", nodes_open(1, &nodes));
    report("a", MACHINE_CREATING);
    report("b", MACHINE_CREATING);
    report("a", MACHINE_CONFIGURED);
    CHECK("a first, newest word", takes("a", NODE_READY));
    CHECK("then b", takes("b", NODE_PROVISIONING));
    CHECK("no more", !nodes_take(nodes, &id));
    report("a", MACHINE_DRAINING);
    report("a", MACHINE_IDLE);
    report("a", MACHINE_CONFIGURED); /* back before its end was taken */
    CHECK("one word", takes("a", NODE_READY));
    CHECK("no more", !nodes_take(nodes, &id));
    nodes_close(nodes);
}

TEST(everything_reported_is_kept_and_replaced_whole)
{
    const struct label labels[] = {{STR("a"), STR("1")}, {STR("b"), STR("2")}};
    const struct label resources[] = {{STR("cpu"), STR("16")}};
    const struct taint taints[] = {{STR("t"), STR("v"), STR("NoSchedule")}};
    struct cluster_node reported = {.machine_id = STR("m"),
                                    .state = MACHINE_FAILED,
                                    .node_name = STR("n"),
                                    .provider_id = STR("p"),
                                    .last_error = STR("broken"),
                                    .labels = labels,
                                    .label_count = 2,
                                    .resources = resources,
                                    .resource_count = 1,
                                    .taints = taints,
                                    .taint_count = 1};
    const struct cluster_node *node;

    CHECK_OK("open", nodes_open(1, &nodes));
    CHECK_OK("report", nodes_report(nodes, &reported));
    node = nodes_find(nodes, STR("m"));
    CHECK_STR("name", node->node_name, STR("n"));
    CHECK_STR("provider", node->provider_id, STR("p"));
    CHECK_STR("error", node->last_error, STR("broken"));
    CHECK_STR("label", node->labels[1].value, STR("2"));
    CHECK_STR("resource", node->resources[0].value, STR("16"));
    CHECK_STR("taint", node->taints[0].effect, STR("NoSchedule"));
    CHECK("copied", node->labels != labels && node->node_name.at != reported.node_name.at);
    report("m", MACHINE_CONFIGURED);
    node = nodes_find(nodes, STR("m"));
    CHECK_SIZE("nothing of before", node->label_count + node->taint_count + node->last_error.len,
               0);
    nodes_close(nodes);
}

TEST(what_is_not_reported_again_in_a_session_has_left)
{
    struct str id;
    int gone = 0, all = 0;

    CHECK_OK("open", nodes_open(1, &nodes));
    nodes_session(nodes);
    report("stays", MACHINE_CONFIGURED);
    report("leaves", MACHINE_CONFIGURED);
    CHECK_SIZE("all were reported", nodes_sweep(nodes), 0);
    while (nodes_take(nodes, &id)) continue;
    nodes_session(nodes);
    report("stays", MACHINE_CONFIGURED);
    report("new", MACHINE_CONFIGURING);
    CHECK_SIZE("one left", nodes_sweep(nodes), 1);
    CHECK_SIZE("and is not counted", nodes_count(nodes, NODE_READY), 1);
    while (nodes_take(nodes, &id)) {
        all++;
        gone += !nodes_find(nodes, id) && str_equal(id, STR("leaves"));
    }
    CHECK_I64("three changes", all, 3);
    CHECK_I64("one of them an end", gone, 1);
    nodes_close(nodes);
}

TEST(a_reclaim_shows_before_the_shard_says_so)
{
    CHECK_OK("open", nodes_open(1, &nodes));
    nodes_reclaim(nodes, STR("m"), NODE_DRAINING);
    CHECK("not made known by it", !nodes_find(nodes, STR("m")));
    report("m", MACHINE_CONFIGURED);
    nodes_reclaim(nodes, STR("m"), NODE_DRAINING);
    CHECK_U64("draining", phase_of("m"), NODE_DRAINING);
    nodes_reclaim(nodes, STR("m"), NODE_DRAINED);
    CHECK_U64("drained, and still there", phase_of("m"), NODE_DRAINED);
    report("m", MACHINE_IDLE);
    CHECK("then gone", !nodes_find(nodes, STR("m")));
    nodes_close(nodes);
}

/* The grace period ended: the operator says Failed, then the provider drains the machine. */
TEST(a_machine_whose_grace_period_ended_leaves_too)
{
    CHECK_OK("open", nodes_open(1, &nodes));
    report("m", MACHINE_DRAINING);
    nodes_reclaim(nodes, STR("m"), NODE_FAILED);
    CHECK("not empty in time", takes("m", NODE_FAILED));
    report("m", MACHINE_IDLE);
    CHECK("its end", takes("m", NODE_PHASE_COUNT));
    report("m", MACHINE_FAILED);
    report("m", MACHINE_IDLE);
    CHECK("a repaired machine has not left", takes("m", NODE_LAUNCHED));
    nodes_close(nodes);
}
