/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "lib/test.h"
#include "operator/demand_file.h"

static struct arena arena;
static struct demand_file file;
static struct note note;

static enum err read_text(const char *text)
{
    arena_deinit(&arena);
    arena_init(&arena, 64 << 20);
    note.text[0] = '\0';
    return demand_file_read(str_from(text), &arena, &file, &note);
}

static void check_full_row(void)
{
    const struct demand_file_row *row = &file.rows[1];
    const struct capacity_request *r = &row->request;

    CHECK_SIZE("two rows", file.count, 2);
    CHECK_STR("a row of defaults", file.rows[0].name, STR("plain"));
    CHECK_U64("one unit", file.rows[0].request.count, 1);
    CHECK("nothing said",
          !file.rows[0].request.interruption.given && !file.rows[0].request.reclamation.given);
    CHECK_STR("name", row->name, STR("web"));
    CHECK_U64("count", r->count, 12);
    CHECK_I64("priority", r->priority, -3);
    CHECK_SIZE("resources", r->resource_count, 3);
    CHECK_STR("a number is as good as a text", r->resources[0].value, STR("4"));
    CHECK_STR("text", r->resources[1].value, STR("16Gi"));
    CHECK_STR("a real, too", r->resources[2].value, STR("0.5"));
    CHECK("dollars", r->interruption.given && r->interruption.dollars == 0.5);
    CHECK("pinned", r->reclamation.given && isinf(r->reclamation.dollars));
    CHECK_SIZE("types, zones and one more", r->requirement_count, 3);
    CHECK_STR("type", r->requirements[0].key, LABEL_INSTANCE_TYPE);
    CHECK_STR("zone", r->requirements[1].values[1], STR("b"));
    CHECK_U64("operator", r->requirements[2].op, OPERATOR_NOT_IN);
    CHECK_SIZE("spread", r->spread_count, 2);
    CHECK("as said", r->spreads[0].max_skew == 2 && r->spreads[0].when == SPREAD_SCHEDULE_ANYWAY);
    CHECK("as not said",
          r->spreads[1].max_skew == 1 && r->spreads[1].when == SPREAD_DO_NOT_SCHEDULE);
    CHECK_STR("key", r->same_key, STR("rack"));
    CHECK_STR("group", r->group, STR("rack\0g 1"));
}

TEST(toml_says_everything)
{
    CHECK_OK(
        "read",
        read_text(
            "[[requests]]\nname = 'plain'\nresources = {cpu = '1'}\n\n"
            "[[requests]]\nname = 'web'\ncount = 12\npriority = -3\n"
            "resources = {cpu = 4, memory = '16Gi', disk = 0.5}\n"
            "interruption-penalty = 0.5\nreclamation-penalty = 'pinned'\n"
            "instance-types = ['m5.large']\nzones = ['a', 'b']\n"
            "requirements = [{key = 'disk', operator = 'notin', values = ['hdd']}]\n"
            "spread = [{key = 'zone', max-skew = 2, when = 'ScheduleAnyway'}, {key = 'rack'}]\n"
            "co-locate = {key = 'rack', group = 'g 1'}\n"));
    check_full_row();
    CHECK_U64("its line", file.rows[1].line, 5);
}

#define JSON_ROWS                                                                                  \
    "[{\"name\":\"plain\",\"resources\":{\"cpu\":\"1\"}},{\"name\":\"web\",\"count\":12,"          \
    "\"priority\":-3,\"resources\":{\"cpu\":4,\"memory\":\"16Gi\",\"disk\":0.5},"                  \
    "\"interruption-penalty\":0.5,\"reclamation-penalty\":\"pinned\","                             \
    "\"instance-types\":[\"m5.large\"],\"zones\":[\"a\",\"b\"],\"requirements\":[{\"key\":"        \
    "\"disk\",\"operator\":\"NotIn\",\"values\":[\"hdd\"]}],\"spread\":[{\"key\":\"zone\","        \
    "\"max-skew\":2,\"when\":\"ScheduleAnyway\"},{\"key\":\"rack\"}],"                             \
    "\"co-locate\":{\"key\":\"rack\",\"group\":\"g 1\"}}]"

TEST(json_says_the_same)
{
    CHECK_OK("a list", read_text(" \n" JSON_ROWS));
    check_full_row();
    CHECK_OK("under its key", read_text("{\"requests\": " JSON_ROWS "}"));
    check_full_row();
}

TEST(no_demand_is_said_and_never_guessed)
{
    static const char *const none[] = {"requests = []", "[]", " [ ]\n", "{\"requests\":[]}"};
    static const char *const nothing[] = {"", "\n", "# only a remark\n", "{}"};

    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        CHECK_OK(none[i], read_text(none[i]));
        CHECK_SIZE(none[i], file.count, 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(nothing); i++) {
        CHECK_ERR(nothing[i], read_text(nothing[i]), ERR_INVALID);
        CHECK_HAS(nothing[i], note.text, "no 'requests'");
    }
}

TEST(what_is_wrong_is_named)
{
#define T(more) "[[requests]]\nname = 'x'\nresources = {cpu = 1}\n" more "\n"
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"[[requests]]\nresources = {cpu = 1}", "name: empty"},
        {T("kount = 3"), "line 1: \"x\": unknown key 'kount'"},
        {T("count = -1"), "count: -1, between 0 and 1000000 is allowed"},
        {T("count = 1.5"), "count: must be a whole number"},
        {T("priority = 4000000000"), "priority"},
        {T("zones = 'a'"), "zones: must be a list of texts"},
        {T("zones = [1]"), "zones: must be a text"},
        {T("interruption-penalty = -1"), "interruption-penalty: must be dollars"},
        {T("interruption-penalty = 'much'"), "or \"pinned\""},
        {T("interruption-penalty = inf"), "not a finite number"},
        {T("reclamation-penalty = 1979-05-27"), "line 4: a local date has no place here"},
        {T("requirements = [{key = 'a', operator = 'Gt', values = ['1']}]"),
         "operator: must be In, NotIn, Exists or DoesNotExist"},
        {T("requirements = [{key = 'a', operator = 'Same'}]"),
         "operator: must be In, NotIn, Exists or DoesNotExist"},
        {T("requirements = [{kee = 'a'}]"), "requirements: [0]: unknown key 'kee'"},
        {T("requirements = {key = 'a'}"), "requirements: must be a list"},
        {T("spread = [{key = 'a', when = 'Maybe'}]"),
         "spread: [0]: when: must be DoNotSchedule or ScheduleAnyway"},
        {T("spread = [{key = 'a', max-skew = 0}]"), "spread: [0]: max-skew: 0, between 1"},
        {T("co-locate = {group = 'g'}"), "co-locate: key: is missing"},
        {T("co-locate = {key = 'g'}"), "co-locate: group: is missing"},
        {T("[[requests]]\nname = 'x'\nresources = {cpu = 1}"), "line 4: \"x\": name: given twice"},
        {"[[requests]]\nname = 'x'\nresources = {cpu = true}", "resources: cpu: must be a number"},
        {"[[requests]]\nname = 'x'\nresources = 4", "resources: must be a table"},
        {"[requests]\nname = 'x'", "requests: must be a list"},
        {"demand = []", "unknown key 'demand'"},
        {"requests = []\nmachines = 3", "machines: must be a list of at most 65536 machines"},
        {"requests = []\n[[machines]]\nheld = 1", "machines[0]: machine: is missing"},
        {"requests = []\n[[machines]]\nmachine = ''", "machines[0]: machine: empty"},
        {"requests = []\n[[machines]]\nmachine = 'm'\nheld = -1", "machines[0]: held: -1, between"},
        {"requests = []\n[[machines]]\nmachine = 'm'\nbusy = true", "unknown key 'busy'"},
        {"machines = []", "no 'requests'"},
        {"requests = [1]", "must be a table"},
        {"requests = [", "line 1"},
        {"{\"requests\": [}", "line 1"},
        {"[{\"name\": \"a\"}, {\"name\": 7}]", "requests[1] \"\": name: must be a text"},
        {"{\"requests\": [], \"requests\": []}", "duplicate"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK(cases[i].text, read_text(cases[i].text) != ERR_OK);
        CHECK_HAS(cases[i].text, note.text, cases[i].says);
    }
}

TEST(what_machines_run_may_be_stated)
{
    CHECK_OK("read", read_text("requests = []\n[[machines]]\nmachine = 'm-1'\n"
                               "[[machines]]\nmachine = 'm-2'\nevictable = 3\nheld = 1\n"
                               "free = {cpu = 2}\nrequested = {cpu = '3'}\nlargest = {cpu = 1}\n"
                               "[[machines]]\nmachine = 'm-3'\ndisruption-cost = 'pinned'\n"));
    CHECK_SIZE("three", file.machine_count, 3);
    CHECK("empty", !file.machines[0].evictable && !file.machines[0].held);
    CHECK_STR("name", file.machines[1].name, STR("m-2"));
    CHECK_U32("evictable", file.machines[1].evictable, 3);
    CHECK_U32("held", file.machines[1].held, 1);
    CHECK("one each unless stated", file.machines[1].disruption.dollars == 3);
    CHECK_STR("free", file.machines[1].free.pairs[0].value, STR("2"));
    CHECK_STR("requested", file.machines[1].requested.pairs[0].value, STR("3"));
    CHECK_STR("largest", file.machines[1].largest.pairs[0].value, STR("1"));
    CHECK("pinned", isinf(file.machines[2].disruption.dollars));
    CHECK_OK("json", read_text("{\"machines\":[{\"machine\":\"m\"}],\"requests\":[]}"));
    CHECK_SIZE("one", file.machine_count, 1);
    CHECK_OK("none", read_text("[]"));
    CHECK_SIZE("none", file.machine_count, 0);
}

TEST(json_and_toml_are_known_apart)
{
    static const struct {
        const char *text;
        bool json;
    } cases[] = {{"{", true},        {" [ {", true},          {"[]", true}, {"[[requests]]", false},
                 {"[table]", false}, {"requests = 1", false}, {"", false},  {"# x", false}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK(cases[i].text, demand_file_is_json(str_from(cases[i].text)) == cases[i].json);
    arena_deinit(&arena);
}
