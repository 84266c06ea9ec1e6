/* SPDX-License-Identifier: Apache-2.0 */
/* operator/kube/drain.c: the report about a machine without a node. The test replaces the
 * operator's functions that a drain calls. */
#include <stdio.h>
#include <stdlib.h>

#include "io/real.h"
#include "lib/test.h"
#include "operator/kube/internal.h"
#include "unit/kube/server.h"

#define NO_NODE                                                                                    \
    "{\"kind\":\"Status\",\"code\":404,\"reason\":\"NotFound\",\"message\":\"no such node\"}"
#define NODE(name, provider)                                                                       \
    "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"7\"},\"kind\":\"Node\","           \
    "\"spec\":{\"providerID\":\"" provider "\"}}"
#define LIST(items)                                                                                \
    "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[" items "]}"

/* The linker replaces the operator's functions by these. */
void __wrap_operator_reclaim_started(struct operator_host *host, struct str id);
void __wrap_operator_reclaim_ended(struct operator_host *host, struct str id, struct str why);

static unsigned started, ended;
static char why_ended[256];

void __wrap_operator_reclaim_started(struct operator_host *host, struct str instruction_id)
{
    (void)host;
    (void)instruction_id;
    started++;
}

void __wrap_operator_reclaim_ended(struct operator_host *host, struct str instruction_id,
                                   struct str why)
{
    (void)host;
    (void)instruction_id;
    ended++;
    (void)snprintf(why_ended, sizeof why_ended, "%.*s", STR_ARG(why));
}

struct machine_of {
    const char *id, *provider_id;
    enum machine_state state;
};

/* Drains m-1 of `machines`; the server answers for its node, then with `nodes`. */
static void drain_one(const char *nodes, const struct machine_of *machines, size_t count)
{
    struct reclaim_order order = {.instruction_id = STR("r-1"), .machine_id = STR("m-1")};
    struct server *server = server_start();
    struct kube_config config = {.server = (char *)(uintptr_t)server_url(server)};
    struct nodes *table = NULL;
    struct operator_around around = {.host = NULL};
    struct kube_source source = {.around = &around};
    struct real_io *real;

    started = ended = 0;
    CHECK_OK("nodes", nodes_open(1, &table));
    for (size_t i = 0; i < count; i++)
        CHECK_OK("machine",
                 nodes_report(
                     table, &(struct cluster_node){.machine_id = str_from(machines[i].id),
                                                   .provider_id = str_from(machines[i].provider_id),
                                                   .state = machines[i].state}));
    around.nodes = table;
    server_answer_json(server, "404 Not Found", "", NO_NODE);
    server_answer_json(server, "200 OK", "", nodes);
    CHECK_OK("io", real_io_open(&real));
    CHECK_OK("kube", kube_open(&config, &source.kube, NULL));
    CHECK_OK("chores", chores_open(real_io_io(real), &source.chores));
    map_init(&source.drains, KUBE_DRAINS_MAX, 1);
    kube_drain(&source.source, &order);
    while (!ended) real_io_turn(real, true);
    CHECK_U64("the drain is over", map_count(&source.drains), 0);
    CHECK_HAS("asked by name", server_request(server, 0), "GET /api/v1/nodes/m-1 ");
    CHECK_HAS("then all", server_request(server, 1), "GET /api/v1/nodes?");
    kube_cancel(source.kube);
    chores_close(source.chores);
    map_deinit(&source.drains);
    kube_close(source.kube);
    real_io_close(real);
    server_stop(server);
    nodes_close(table);
}

/* The provider and the kubelets write ids in two forms, so "no such node" proves nothing. */
TEST(a_machine_is_not_drained_because_no_node_has_its_name)
{
    static const struct machine_of machines[] = {{"m-1", "p://m-1", MACHINE_DRAINING},
                                                 {"m-2", "p://m-2", MACHINE_CONFIGURED},
                                                 {"m-3", "", MACHINE_DRAINING}};

    drain_one(LIST(NODE("host-1", "other:///m-1") "," NODE("host-2", "other:///m-2")), machines, 3);
    CHECK_TEXT("given up", why_ended, "no node belongs to the machine, by name or provider id");
    CHECK_U32("no new work can be kept away", started, 0);
    drain_one(LIST(NODE("host-1", "")), machines, 1);
    CHECK_HAS("nor of the only machine", why_ended, "no node belongs to the machine");
}

/* Machines whose kubelets never joined: no pod runs in a cluster without nodes. */
TEST(a_machine_of_a_cluster_without_nodes_is_drained)
{
    static const struct machine_of machines[] = {{"m-1", "p://m-1", MACHINE_DRAINING},
                                                 {"m-2", "p://m-2", MACHINE_CONFIGURED}};

    drain_one(LIST(""), machines, 2);
    CHECK_TEXT("nothing runs there", why_ended, "");
    CHECK_U32("nothing new goes there", started, 1);
}

/* Another machine of the cluster has its node, so the ids match: this machine never had a node, or
 * lost it. */
TEST(a_machine_without_a_node_among_others_that_have_theirs_is_drained)
{
    static const struct machine_of machines[] = {{"m-1", "p://m-1", MACHINE_DRAINING},
                                                 {"m-2", "p://m-2", MACHINE_CONFIGURED},
                                                 {"m-3", "", MACHINE_CONFIGURED}};

    drain_one(LIST(NODE("host-2", "p://m-2")), machines, 3);
    CHECK_TEXT("by the provider's id", why_ended, "");
    CHECK_U32("nothing new goes there", started, 1);
    drain_one(LIST(NODE("m-3", "")), machines, 3);
    CHECK_TEXT("by name", why_ended, "");
}
