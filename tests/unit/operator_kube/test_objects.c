/* SPDX-License-Identifier: Apache-2.0 */
/* operator/kube/objects.h: the requests of a pod, and the objects of machines. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "operator/kube/objects.h"

static struct json *document(const char *text)
{
    struct json *json = NULL;

    CHECK_OK(text, json_open(str_from(text), 1 << 20, &json, NULL));
    return json;
}

#define META "\"metadata\":{\"namespace\":\"n\",\"name\":\"p\",\"uid\":\"u-1\""
#define POD(meta, spec, status)                                                                    \
    "{" META meta "},\"spec\":{" spec "},\"status\":{\"phase\":\"" status "\"}}"

/* -- pods that need machines -- */

TEST(a_pod_asks_until_it_ends)
{
    static const struct {
        const char *why, *text;
        bool wants, moves, leaving;
    } rows[] = {
        {"it waits", POD("", "", "Pending"), true, true, false},
        {"it runs", POD("", "\"nodeName\":\"a\"", "Running"), true, true, false},
        {"it ends", POD(",\"deletionTimestamp\":\"x\"", "", "Running"), false, true, true},
        {"it ends, and one of the same name follows",
         POD(",\"deletionTimestamp\":\"x\",\"ownerReferences\":[{\"kind\":\"StatefulSet\"}]", "",
             "Running"),
         true, true, true},
        {"it ends, and another has followed",
         POD(",\"deletionTimestamp\":\"x\",\"ownerReferences\":[{\"kind\":\"ReplicaSet\"}]", "",
             "Running"),
         false, true, true},
        {"it is done", POD("", "", "Succeeded"), false, false, false},
        {"it has failed", POD("", "", "Failed"), false, false, false},
        {"each node has one", POD(",\"ownerReferences\":[{\"kind\":\"DaemonSet\"}]", "", "Running"),
         false, false, false},
        {"of a set", POD(",\"ownerReferences\":[{\"kind\":\"ReplicaSet\"}]", "", "Running"), true,
         true, false},
        {"the node's own", POD(",\"annotations\":{\"kubernetes.io/config.mirror\":\"h\"}", "", ""),
         false, false, false},
        {"marked not to",
         POD(",\"annotations\":{\"bigfleet.lucy.sh/ignore\":\"true\"}", "", "Running"), false, true,
         false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct json *pod = document(rows[i].text);
        struct pod_view view;
        CHECK_OK(rows[i].why, pod_read(pod, &view, NULL));
        CHECK(rows[i].why, view.wants == rows[i].wants);
        CHECK(rows[i].why, view.moves == rows[i].moves);
        CHECK(rows[i].why, view.leaving == rows[i].leaving);
        json_close(pod);
    }
}

/* -- requests of pods -- */

static struct json *asked(const char *pod_text)
{
    struct json *pod = document(pod_text), *request = NULL;
    struct note note = {""};
    struct buf out;

    buf_init(&out, KUBE_OBJECT_MAX);
    CHECK_OK("written", capacity_write(pod, STR_EMPTY, &out, &note));
    CHECK_TEXT("without a message", note.text, "");
    CHECK_OK("valid", json_open(buf_peek(&out), KUBE_OBJECT_MAX, &request, &note));
    buf_deinit(&out);
    json_close(pod);
    return request;
}

static struct str at(const struct json *json, const char *path)
{
    struct str text = STR_EMPTY;

    (void)json_get_string(json, path, &text, NULL);
    return text;
}

#define ASKS(cpu) "{\"resources\":{\"requests\":{\"cpu\":\"" cpu "\"}}}"
#define STAYS(cpu)                                                                                 \
    "{\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{\"cpu\":\"" cpu "\"}}}"

TEST(resources_are_counted_as_the_scheduler_does)
{
    static const struct {
        const char *why, *spec, *cpu;
    } rows[] = {
        {"containers run together", "\"containers\":[" ASKS("500m") "," ASKS("1") "]", "1500m"},
        {"the largest that starts them",
         "\"initContainers\":[" ASKS("3") "," ASKS("2") "],\"containers\":[" ASKS("1") "]", "3"},
        {"unless they are more",
         "\"initContainers\":[" ASKS("1") "],\"containers\":[" ASKS("1") "," ASKS("1") "]", "2"},
        {"one that stays counts beside them",
         "\"initContainers\":[" STAYS("1") "],\"containers\":[" ASKS("1") "]", "2"},
        {"and beside those that start after it",
         "\"initContainers\":[" STAYS("1") "," ASKS("4") "],\"containers\":[" ASKS("1") "]", "5"},
        {"but not those before",
         "\"initContainers\":[" ASKS("4") "," STAYS("1") "],\"containers\":[" ASKS("1") "]", "4"},
        {"what the sandbox itself takes",
         "\"containers\":[" ASKS("1") "],\"overhead\":{\"cpu\":\"250m\"}", "1250m"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[1024];
        struct json *request;
        (void)snprintf(text, sizeof text, "{" META "},\"spec\":{%s}}", rows[i].spec);
        request = asked(text);
        CHECK_STR(rows[i].why, at(request, "spec.resources.cpu"), str_from(rows[i].cpu));
        json_close(request);
    }
}

TEST(the_request_of_a_pod_reads_back_as_what_it_asked)
{
    struct json *object = asked(
        "{" META ",\"annotations\":{\"bigfleet.lucy.sh/interruption-penalty\":\"2.5\","
        "\"bigfleet.lucy.sh/reclamation-penalty\":\"pinned\"}},\"spec\":{\"priority\":-7,"
        "\"nodeSelector\":{\"disk\":\"ssd\"},\"containers\":[" ASKS(
            "2") "],"
                 "\"affinity\":{\"nodeAffinity\":{"
                 "\"requiredDuringSchedulingIgnoredDuringExecution\":{"
                 "\"nodeSelectorTerms\":[{\"matchExpressions\":[{\"key\":\"zone\",\"operator\":"
                 "\"NotIn\","
                 "\"values\":[\"a\",\"b\"]}]},{\"matchExpressions\":[{\"key\":\"x\",\"operator\":"
                 "\"Exists\"}]}]}},"
                 "\"podAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":[{"
                 "\"topologyKey\":\"rack\","
                 "\"labelSelector\":{\"matchLabels\":{\"app\":\"db\"},\"matchExpressions\":[{"
                 "\"key\":\"t\","
                 "\"operator\":\"In\",\"values\":[\"y\",\"x\"]}]}}]}},"
                 "\"topologySpreadConstraints\":[{\"topologyKey\":\"zone\",\"maxSkew\":2,"
                 "\"whenUnsatisfiable\":\"DoNotSchedule\"},{\"topologyKey\":\"host\",\"maxSkew\":1,"
                 "\"whenUnsatisfiable\":\"ScheduleAnyway\"}]}}");
    struct capacity_view view;
    struct capacity_request r;
    struct note note = {""};
    struct arena arena;

    arena_init(&arena, 1 << 20);
    CHECK_ERR("an answer of the server has a uid", capacity_view_read(object, &view, &note),
              ERR_PARSE);
    CHECK("the owner", view.managed);
    CHECK_STR("the pod", view.pod_uid, STR("u-1"));
    CHECK_STR("goes with it", at(object, "metadata.ownerReferences.0.uid"), STR("u-1"));
    CHECK_OK("read", capacity_read(object, &arena, &r, &note));
    CHECK_I64("priority", r.priority, -7);
    CHECK_U64("one", r.count, 1);
    CHECK_SIZE("selector and first term", r.requirement_count, 2);
    CHECK_STR("selector", r.requirements[0].key, STR("disk"));
    CHECK_STR("its value", r.requirements[0].values[0], STR("ssd"));
    CHECK("first term",
          r.requirements[1].op == OPERATOR_NOT_IN && r.requirements[1].value_count == 2);
    CHECK_SIZE("resources", r.resource_count, 1);
    CHECK_STR("amount", r.resources[0].value, STR("2"));
    CHECK("dollars", r.interruption.given && r.interruption.dollars == 2.5);
    CHECK("pinned", r.reclamation.given && isinf(r.reclamation.dollars));
    CHECK_SIZE("spreads", r.spread_count, 2);
    CHECK("strict", r.spreads[0].when == SPREAD_DO_NOT_SCHEDULE && r.spreads[0].max_skew == 2);
    CHECK("mild", r.spreads[1].when == SPREAD_SCHEDULE_ANYWAY);
    CHECK_STR("together", r.same_key, STR("rack"));
    CHECK("group", str_equal(r.group, STR("rack\0app=db,;t In y,x;")));
    arena_deinit(&arena);
    json_close(object);
}

TEST(a_bad_request_names_its_field)
{
    static const struct {
        const char *spec, *says;
        enum err err;
    } rows[] = {
        {"\"requirements\":[{\"key\":\"a\",\"operator\":\"Gt\",\"values\":[\"1\"]}]",
         "spec: requirements: [0]: operator: Gt: a machine has no numbers", ERR_UNSUPPORTED},
        {"\"requirements\":[{\"operator\":\"In\"}]", "spec: requirements: [0]: key: is missing",
         ERR_INVALID},
        {"\"requirements\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[1]}]",
         "values: must be a text", ERR_INVALID},
        {"\"resources\":{\"cpu\":1}", "spec: resources: cpu", ERR_INVALID},
        {"\"interruptionPenalty\":\"much\"", "spec: interruptionPenalty", ERR_INVALID},
        {"\"count\":0", "count", ERR_INVALID},
        {"\"priority\":4294967296", "priority", ERR_INVALID},
        {"\"topologySpread\":[{}]", "spec: topologySpread: [0]", ERR_INVALID},
        {"\"coLocation\":{}", "spec: coLocation", ERR_INVALID},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[512];
        struct note note = {""};
        struct capacity_request r;
        struct arena arena;
        struct json *object;
        (void)snprintf(text, sizeof text, "{" META "},\"spec\":{%s}}", rows[i].spec);
        object = document(text);
        arena_init(&arena, 1 << 20);
        CHECK_ERR(rows[i].spec, capacity_read(object, &arena, &r, &note), rows[i].err);
        CHECK_HAS(rows[i].spec, note.text, rows[i].says);
        arena_deinit(&arena);
        json_close(object);
    }
}

TEST(a_status_leaves_the_rest_as_it_was)
{
    struct json *object = document("{" META ",\"resourceVersion\":\"9\"},\"spec\":{\"x\":1},"
                                   "\"status\":{\"phase\":\"Pending\"}}");
    struct json *want = document("{" META ",\"resourceVersion\":\"9\"},\"spec\":{\"x\":1},"
                                 "\"status\":{\"phase\":\"Rejected\",\"message\":\"why\"}}");
    struct json *got = NULL;
    struct buf out;

    buf_init(&out, KUBE_OBJECT_MAX);
    CHECK_OK("written", capacity_status_write(object, "Rejected", STR("why"), SUPPLY_UNKNOWN,
                                              (wall_time){0}, &out));
    CHECK_OK("valid", json_open(buf_peek(&out), KUBE_OBJECT_MAX, &got, NULL));
    CHECK("the same but for it", json_same(got, want));
    buf_deinit(&out);
    json_close(got);
    json_close(want);
    json_close(object);
}

TEST(a_condition_replaces_only_the_one_of_its_type)
{
    static const char *const others = "{\"type\":\"Ready\",\"status\":\"True\"}";
    struct supply supply = {.reason = "NO_MATCHING_SUPPLY"};
    char text[512];
    struct json *object, *got = NULL;
    struct capacity_view view;
    struct buf out;

    buf_init(&out, KUBE_OBJECT_MAX);
    (void)snprintf(text, sizeof text,
                   "{" META "},\"status\":{\"conditions\":[{\"type\":\"Supplied\",\"reason\":"
                   "\"Supplied\"},%s]}}",
                   others);
    object = document(text);
    CHECK_OK("view", capacity_view_read(object, &view, NULL));
    CHECK_U32("as it is", view.condition, SUPPLY_MET);
    CHECK_OK("written", capacity_status_write(object, "Acknowledged", STR_EMPTY,
                                              supply_kind_of(&supply), (wall_time){1000}, &out));
    CHECK_OK("valid", json_open(buf_peek(&out), KUBE_OBJECT_MAX, &got, NULL));
    CHECK_OK("view", capacity_view_read(got, &view, NULL));
    CHECK_U32("as it was written", view.condition, SUPPLY_NO_MATCH);
    CHECK_SIZE("two", json_count(json_find(got, "status.conditions")), 2);
    CHECK_STR("another's stays", kube_text(got, "status.conditions.0.type"), STR("Ready"));
    CHECK_STR("status", kube_text(got, "status.conditions.1.status"), STR("False"));
    CHECK_STR("reason", kube_text(got, "status.conditions.1.reason"), STR("NoMatchingSupply"));
    CHECK_STR("since", kube_text(got, "status.conditions.1.lastTransitionTime"),
              STR("1970-01-01T00:00:01Z"));
    json_close(got);
    json_close(object);
    memcpy(supply.reason, "SOMETHING_NEW", sizeof "SOMETHING_NEW");
    CHECK_U32("of a newer shard", supply_kind_of(&supply), SUPPLY_OTHER);
    supply.satisfied = true;
    CHECK_U32("met", supply_kind_of(&supply), SUPPLY_MET);
    buf_deinit(&out);
}

TEST(an_event_of_a_pod_has_a_valid_name)
{
    struct pod_event event = {.namespace_ = STR("n"),
                              .name = STR("web-0"),
                              .uid = STR("u-1"),
                              .kind = SUPPLY_TOPOLOGY,
                              .at.ms = 1000};
    char longest[KUBE_NAME_CAP];
    struct json *got = NULL;
    struct buf out;

    buf_init(&out, KUBE_OBJECT_MAX);
    CHECK_OK("written", event_write(&event, &out));
    CHECK_OK("valid", json_open(buf_peek(&out), KUBE_OBJECT_MAX, &got, NULL));
    CHECK_STR("name", kube_text(got, "metadata.name"), STR("web-0.00000000000003e8"));
    CHECK_STR("of the pod", kube_text(got, "involvedObject.uid"), STR("u-1"));
    CHECK_STR("reason", kube_text(got, "reason"), STR("TopologyUnsatisfiable"));
    CHECK_STR("in its namespace", kube_text(got, "metadata.namespace"), STR("n"));
    json_close(got);
    memset(longest, 'a', sizeof longest);
    memset(longest + 200, '-', 40); /* the cut is among these */
    event.name = str_of(longest, sizeof longest - 1);
    buf_clear(&out);
    CHECK_OK("written", event_write(&event, &out));
    CHECK_OK("valid", json_open(buf_peek(&out), KUBE_OBJECT_MAX, &got, NULL));
    CHECK("a name", kube_is_name(kube_text(got, "metadata.name")));
    CHECK_SIZE("cut", kube_text(got, "metadata.name").len, 217);
    json_close(got);
    buf_deinit(&out);
}

/* -- objects of machines -- */

TEST(names_are_names)
{
    char name[KUBE_NAME_CAP], text[KUBE_NAME_CAP - 2] = "";

    upcoming_name(STR("m-1.zone"), name);
    CHECK_TEXT("a name", name, "un-m-1.zone");
    upcoming_name(STR("M/1"), name);
    CHECK_TEXT("a digest", name,
               "und-90fe417b248d44ec5a6df917c5255fd307751be1cc701ebff713ff2a736ca475");
    upcoming_name(STR("-m"), name);
    CHECK("no name", strncmp(name, "und-", 4) == 0 && strlen(name) == 68);
    CHECK("too long for its prefix", sizeof text - 1 + 3 == KUBE_NAME_CAP);
    memset(text, 'a', sizeof text - 1);
    upcoming_name(str_from(text), name);
    CHECK("a digest", strlen(name) == 68);
    CHECK("of a node", kube_is_name(STR("ip-10-0-0-1.eu-1.internal")));
    CHECK("not of one", !kube_is_name(STR("aws:///eu-1a/i-0")) && !kube_is_name(STR("..")));
    available_name(STR("available:"), name);
    CHECK_TEXT("of nothing", name,
               "ac-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(a_machine_is_shown_with_its_phase)
{
    struct label labels[] = {{STR("zone"), STR("a")}}, resources[] = {{STR("cpu"), STR("4")}};
    struct taint taints[] = {{STR("k"), STR("v"), STR("NoSchedule")}};
    struct cluster_node node = {.machine_id = STR("m-1"),
                                .phase = NODE_DRAINING,
                                .node_name = STR("n-1"),
                                .last_error = STR("oh"),
                                .labels = labels,
                                .label_count = 1,
                                .resources = resources,
                                .resource_count = 1,
                                .taints = taints,
                                .taint_count = 1};
    struct json *want = document(
        "{\"apiVersion\":\"bigfleet.lucy.sh/v1alpha1\",\"kind\":\"UpcomingNode\",\"metadata\":{"
        "\"name\":\"m-1\",\"resourceVersion\":\"5\",\"labels\":{\"app.kubernetes.io/managed-by\":"
        "\"muster-operator\"}},\"spec\":{\"machineID\":\"m-1\",\"nodeName\":\"n-1\","
        "\"labels\":{\"zone\":\"a\"},\"resources\":{\"cpu\":\"4\"},\"taints\":[{\"key\":\"k\","
        "\"value\":\"v\",\"effect\":\"NoSchedule\"}]},\"status\":{\"phase\":\"Draining\","
        "\"lastError\":\"oh\"}}");
    struct json *body = NULL, *got = NULL;
    struct buf out;

    buf_init(&out, KUBE_OBJECT_MAX);
    CHECK_OK("body", upcoming_body(&node, &out));
    CHECK_OK("valid", json_open(buf_peek(&out), KUBE_OBJECT_MAX, &body, NULL));
    buf_clear(&out);
    CHECK_OK("object", shown_write("UpcomingNode", "m-1", STR("5"), body, &out));
    CHECK_OK("valid", json_open(buf_peek(&out), KUBE_OBJECT_MAX, &got, NULL));
    CHECK("as wanted", json_same(got, want));
    buf_deinit(&out);
    json_close(body);
    json_close(got);
    json_close(want);
}

TEST(a_node_is_closed_and_else_left_alone)
{
    struct json *node = document("{" META "},\"spec\":{\"providerID\":\"p://1\"},\"status\":{}}");
    struct json *want =
        document("{" META ",\"annotations\":{\"bigfleet.lucy.sh/machine\":\"m-1\"}},"
                 "\"spec\":{\"providerID\":\"p://1\",\"unschedulable\":true},\"status\":{}}");
    struct json *got = NULL;
    struct buf out;
    bool already;

    buf_init(&out, KUBE_OBJECT_MAX);
    CHECK_OK("written", node_cordon_write(node, STR("m-1"), &already, &out));
    CHECK("was open", !already);
    CHECK_OK("valid", json_open(buf_peek(&out), KUBE_OBJECT_MAX, &got, NULL));
    CHECK("the same but for it", json_same(got, want));
    CHECK_OK("again", node_cordon_write(got, STR("m-1"), &already, &out));
    CHECK("is closed", already);
    CHECK_OK("for another", node_cordon_write(got, STR("m-2"), &already, &out));
    CHECK("is not its", !already);
    CHECK("by its note", node_is(got, STR("m-1"), STR_EMPTY));
    CHECK("which others do not have", !node_is(node, STR("m-1"), STR_EMPTY));
    CHECK("by provider", node_is(node, STR("other"), STR("p://1")));
    CHECK("and then by that alone", !node_is(got, STR("m-1"), STR("p://2")));
    CHECK("not by nothing", !node_is(node, STR_EMPTY, STR_EMPTY));
    buf_deinit(&out);
    json_close(got);
    json_close(want);
    json_close(node);
}
