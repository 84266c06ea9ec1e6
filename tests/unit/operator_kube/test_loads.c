/* SPDX-License-Identifier: Apache-2.0 */
/* loads.c: which pods of a node a drain would evict, which it may not, and what is free. */
#include "operator/kube/loads.h"

#include <math.h>
#include <stdio.h>

#include "lib/dimensions_find.h"
#include "lib/fault_alloc.h"
#include "lib/test.h"

#define CONTROLLED                                                                                 \
    "\"ownerReferences\":[{\"kind\":\"ReplicaSet\",\"name\":\"rs\",\"controller\":true}],"
#define DAEMON "\"ownerReferences\":[{\"kind\":\"DaemonSet\",\"name\":\"ds\",\"controller\":true}],"
#define MIRROR "\"annotations\":{\"kubernetes.io/config.mirror\":\"x\"},"
#define LEAVES "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"," CONTROLLED
#define OWNED  "\"ownerReferences\":[{\"kind\":\"Thing\",\"name\":\"t\"}]," /* not controlled */

struct rig {
    struct loads *loads;
    struct nodes *machines;
};

static int fail_kind;    /* the kind of object during which memory runs out ... */
static uint64_t fail_at; /* ... and the allocation; 0: it does not */
static bool failed;

static void see(struct rig *r, enum load_kind kind, const char *text, bool gone)
{
    struct json *json;

    CHECK_OK("json", json_open(str_from(text), 1 << 16, &json, NULL));
    if (fail_at && fail_kind == (int)kind) fault_alloc_arm(fail_at);
    (gone ? loads_gone : loads_seen)(r->loads, kind, json);
    if (fail_at && fail_kind == (int)kind) failed = fault_alloc_fired();
    fault_alloc_arm(0);
    json_close(json);
}

/* `more`: members of metadata, each with a comma. */
static void pod(struct rig *r, const char *name, const char *more, const char *node,
                const char *phase, const char *cpu)
{
    char text[1024];

    snprintf(text, sizeof text,
             "{\"metadata\":{%s\"namespace\":\"ns\",\"name\":\"%s\",\"uid\":\"u-%s\"},"
             "\"spec\":{\"nodeName\":\"%s\",\"containers\":[{\"resources\":{\"requests\":"
             "{\"cpu\":\"%s\"}}}]},\"status\":{\"phase\":\"%s\"}}",
             more, name, name, node, cpu, phase);
    see(r, LOAD_PODS, text, false);
}

static void node(struct rig *r, const char *name, const char *provider)
{
    char text[512];

    snprintf(text, sizeof text,
             "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"providerID\":\"%s\"},\"status\":"
             "{\"allocatable\":{\"cpu\":\"4\",\"pods\":\"110\",\"memory\":\"1Gi\"}}}",
             name, provider);
    see(r, LOAD_NODES, text, false);
}

static void budget(struct rig *r, const char *namespace_, const char *selector, int allowed)
{
    char text[512];

    snprintf(text, sizeof text,
             "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"b\"},\"spec\":{%s},"
             "\"status\":{\"disruptionsAllowed\":%d}}",
             namespace_, selector, allowed);
    see(r, LOAD_BUDGETS, text, false);
}

static void machine(struct rig *r, const char *id, enum machine_state state, const char *provider)
{
    struct cluster_node given = {
        .machine_id = str_from(id), .state = state, .provider_id = str_from(provider)};

    CHECK_OK("machine", nodes_report(r->machines, &given));
}

static void rig_open(struct rig *r)
{
    CHECK_OK("loads", loads_open(1, &r->loads));
    CHECK_OK("nodes", nodes_open(1, &r->machines));
    machine(r, "m-1", MACHINE_CONFIGURED, "");
    for (enum load_kind kind = 0; kind < LOAD_KINDS; kind++) {
        CHECK_U64("not known", loads_change(r->loads), 0);
        loads_begin(r->loads, kind);
        if (kind == LOAD_NODES) node(r, "m-1", "");
        loads_end(r->loads, kind);
    }
}

static void rig_close(struct rig *r)
{
    loads_close(r->loads);
    nodes_close(r->machines);
}

static struct occupancy_row row(struct rig *r)
{
    struct occupancy_rows rows;

    CHECK("known", loads_rows(r->loads, r->machines, &rows));
    CHECK_SIZE("one machine", rows.count, 1);
    return rows.rows[0];
}

static int64_t milli(struct rig *r, const struct resources *amounts, const char *name)
{
    struct occupancy_rows rows;
    uint32_t index;

    CHECK("known", loads_rows(r->loads, r->machines, &rows));
    return dimensions_find(rows.dimensions, str_from(name), &index) ? resources_get(amounts, index)
                                                                    : -1;
}

static const struct {
    const char *what, *metadata, *node, *phase, *cpu;
    uint32_t evictable, held;
    int64_t used; /* milli-cpu */
} pods[] = {
    {"of a controller", CONTROLLED, "m-1", "Running", "1", 1, 0, 1000},
    {"bare", "", "m-1", "Running", "1", 0, 1, 1000},
    {"with an owner that does not control it", OWNED, "m-1", "Running", "1", 0, 1, 1000},
    {"of a DaemonSet", DAEMON, "m-1", "Running", "1", 0, 0, 1000},
    {"a mirror pod", MIRROR, "m-1", "Running", "1", 0, 0, 1000},
    {"terminating", LEAVES, "m-1", "Running", "1", 0, 0, 1000},
    {"finished", CONTROLLED, "m-1", "Succeeded", "1", 0, 0, 0},
    {"failed", "", "m-1", "Failed", "1", 0, 0, 0},
    {"not placed", CONTROLLED, "", "Pending", "1", 0, 0, 0},
    {"on another node", CONTROLLED, "m-2", "Running", "1", 0, 0, 0},
    {"with requests that cannot be read", CONTROLLED, "m-1", "Running", "much", 0, 1, 0},
};
TEST(each_kind_of_pod_counts_as_it_must)
{
    for (size_t i = 0; i < ARRAY_LEN(pods); i++) {
        struct occupancy_row found;
        struct rig r;

        rig_open(&r);
        pod(&r, "other", DAEMON, "m-1", "Running", "0");
        pod(&r, "p", pods[i].metadata, pods[i].node, pods[i].phase, pods[i].cpu);
        found = row(&r);
        CHECK_U32(pods[i].what, found.evictable, pods[i].evictable);
        CHECK_U32(pods[i].what, found.held, pods[i].held);
        CHECK_I64(pods[i].what, milli(&r, &found.free, "cpu"), 4000 - pods[i].used);
        CHECK_I64("memory that nobody requests", milli(&r, &found.free, "memory"), 0);
        rig_close(&r);
    }
}

TEST(amounts_and_cost_are_those_of_the_pods_that_would_move)
{
    static const char dear[] =
        CONTROLLED "\"annotations\":{\"bigfleet.lucy.sh/reclamation-penalty\":\"2.5\"},";
    static const char pinned[] =
        CONTROLLED "\"annotations\":{\"bigfleet.lucy.sh/reclamation-penalty\":\"pinned\"},";
    struct occupancy_row found;
    struct rig r;

    rig_open(&r);
    pod(&r, "a", CONTROLLED, "m-1", "Running", "500m");
    pod(&r, "b", dear, "m-1", "Running", "1");
    pod(&r, "c", DAEMON, "m-1", "Running", "2");
    found = row(&r);
    CHECK_I64("together", milli(&r, &found.requested, "cpu"), 1500);
    CHECK_I64("the largest", milli(&r, &found.largest, "cpu"), 1000);
    CHECK_I64("free", milli(&r, &found.free, "cpu"), 500);
    CHECK_I64("pods", milli(&r, &found.requested, "pods"), 2000);
    CHECK_I64("free pods", milli(&r, &found.free, "pods"), 107000);
    CHECK("cost", found.disruption == 4.5);
    pod(&r, "d", pinned, "m-1", "Running", "8");
    found = row(&r);
    CHECK("pinned", isinf(found.disruption));
    CHECK_I64("more than there is", milli(&r, &found.free, "cpu"), 0);
    rig_close(&r);
}

static const struct {
    const char *what, *selector, *namespace_;
    int allowed;
    bool holds;
} budgets[] = {
    {"no further disruption", "\"selector\":{\"matchLabels\":{\"app\":\"web\"}}", "ns", 0, true},
    {"one is allowed", "\"selector\":{\"matchLabels\":{\"app\":\"web\"}}", "ns", 1, false},
    {"another namespace", "\"selector\":{\"matchLabels\":{\"app\":\"web\"}}", "other", 0, false},
    {"another app", "\"selector\":{\"matchLabels\":{\"app\":\"db\"}}", "ns", 0, false},
    {"one label of two", "\"selector\":{\"matchLabels\":{\"app\":\"web\",\"tier\":\"x\"}}", "ns", 0,
     false},
    {"every pod", "\"selector\":{}", "ns", 0, true},
    {"no pod", "\"maxUnavailable\":0", "ns", 0, false},
    {"In",
     "\"selector\":{\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"In\",\"values\":"
     "[\"web\",\"api\"]}]}",
     "ns", 0, true},
    {"NotIn",
     "\"selector\":{\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"NotIn\",\"values\":"
     "[\"web\",\"api\"]}]}",
     "ns", 0, false},
    {"NotIn of an absent key",
     "\"selector\":{\"matchExpressions\":[{\"key\":\"x\",\"operator\":\"NotIn\",\"values\":"
     "[\"y\"]}]}",
     "ns", 0, true},
    {"Exists", "\"selector\":{\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"Exists\"}]}",
     "ns", 0, true},
    {"DoesNotExist",
     "\"selector\":{\"matchExpressions\":[{\"key\":\"app\",\"operator\":\"DoesNotExist\"}]}", "ns",
     0, false},
};
TEST(a_budget_holds_the_pods_that_it_selects)
{
    for (size_t i = 0; i < ARRAY_LEN(budgets); i++) {
        struct rig r;

        rig_open(&r);
        pod(&r, "p", CONTROLLED "\"labels\":{\"app\":\"web\",\"pod\":\"1\"},", "m-1", "Running",
            "1");
        budget(&r, budgets[i].namespace_, budgets[i].selector, budgets[i].allowed);
        CHECK_U32(budgets[i].what, row(&r).held, budgets[i].holds);
        CHECK_U32(budgets[i].what, row(&r).evictable, !budgets[i].holds);
        see(&r, LOAD_BUDGETS, "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"b\"}}", true);
        see(&r, LOAD_BUDGETS, "{\"metadata\":{\"namespace\":\"other\",\"name\":\"b\"}}", true);
        CHECK_U32("without the budget", row(&r).evictable, 1);
        rig_close(&r);
    }
}

TEST(a_machine_is_found_by_name_or_provider_id_when_it_serves_the_cluster)
{
    struct occupancy_rows rows;
    struct rig r;

    rig_open(&r);
    node(&r, "ip-10-0-0-7", "cloud://7");
    machine(&r, "m-7", MACHINE_DRAINING, "cloud://7");
    machine(&r, "m-8", MACHINE_CONFIGURED, "cloud://8"); /* its node is not there yet */
    node(&r, "m-9", "");
    machine(&r, "m-9", MACHINE_CONFIGURING, "");
    pod(&r, "p", CONTROLLED, "ip-10-0-0-7", "Running", "1");
    CHECK("known", loads_rows(r.loads, r.machines, &rows));
    CHECK_SIZE("two of four", rows.count, 2);
    CHECK_STR("by name", rows.rows[0].machine, STR("m-1"));
    CHECK_STR("by provider id", rows.rows[1].machine, STR("m-7"));
    CHECK_U32("its pod", rows.rows[1].evictable, 1);
    rig_close(&r);
}

TEST(only_what_matters_is_a_change)
{
    struct rig r;
    uint64_t before;

    rig_open(&r);
    pod(&r, "p", CONTROLLED, "m-1", "Running", "1");
    budget(&r, "ns", "\"selector\":{}", 3);
    before = loads_change(r.loads);
    pod(&r, "p", CONTROLLED, "m-1", "Pending", "1");
    budget(&r, "ns", "\"selector\":{}", 2);
    node(&r, "m-1", "");
    CHECK_U64("nothing", loads_change(r.loads), before);
    budget(&r, "ns", "\"selector\":{}", 0);
    CHECK("a budget that now holds", loads_change(r.loads) > before);
    before = loads_change(r.loads);
    pod(&r, "p", LEAVES, "m-1", "Running", "1");
    CHECK("a pod that terminates", loads_change(r.loads) > before);
    before = loads_change(r.loads);
    pod(&r, "p", LEAVES, "m-1", "Succeeded", "1");
    CHECK("a pod that ended", loads_change(r.loads) > before);
    pod(&r, "q", CONTROLLED, "m-1", "Running", "1");
    loads_begin(r.loads, LOAD_PODS);
    pod(&r, "s", "", "m-1", "Running", "1");
    loads_end(r.loads, LOAD_PODS);
    CHECK_U32("a list removes what it lacks", row(&r).evictable, 0);
    CHECK_U32("and has what is new", row(&r).held, 1);
    rig_close(&r);
}

TEST(without_memory_nothing_is_known_until_the_next_list)
{
    enum { ROWS = LOAD_KINDS }; /* the memory runs out while rows are made */

    for (int when = 0; when <= ROWS; when++) {
        bool fired = true;
        for (uint64_t k = 1; fired; k++) {
            struct occupancy_rows rows;
            struct rig r;

            rig_open(&r);
            fail_kind = when;
            fail_at = k;
            pod(&r, "p", CONTROLLED "\"labels\":{\"app\":\"web\"},", "m-1", "Running", "1");
            budget(&r, "ns", "\"selector\":{\"matchLabels\":{\"app\":\"web\"}}", 0);
            node(&r, "m-1", "cloud://1");
            fail_at = 0;
            fired = failed;
            if (when == ROWS) {
                fault_alloc_arm(k);
                (void)loads_rows(r.loads, r.machines, &rows);
                fired = fault_alloc_fired();
                fault_alloc_arm(0);
            }
            if (loads_rows(r.loads, r.machines, &rows))
                CHECK_U32("true", rows.count == 1 && rows.rows[0].held == 1, 1);
            else
                CHECK("memory ran out", fired);
            rig_close(&r);
            CHECK("it ends", k < 200);
        }
    }
}
