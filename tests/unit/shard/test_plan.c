/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c and document*.c: what is wrong in a file is named, what is right comes back the same. */
#include <stdio.h>

#include "lib/test.h"
#include "shard/plan/plan.h"
#include "shard/plan/words.h"

#define MACHINE(fields)                                                                            \
    "{\"machines\": [{\"id\": \"a\", \"state\": \"Speculative\"}, {\"id\": \"m\", " fields "}]}"
#define NEED(fields)                                                                               \
    "{\"clusters\": [{\"cluster_id\": \"c\", \"needs\": [{\"aggregate_resources\": {\"cpu\": "     \
    "\"1\"}, " fields "}]}]}"

static const struct {
    const char *text, *why;
} bad_machines[] = {
    {"", "line 1"},
    {"[]", "field 'machines'"},
    {"{\"machines\": {}}", "expected array"},
    {"{\"machines\": [1]}", "machines[0]: must be a table"},
    {"{\"machines\": [{\"state\": \"Idle\"}]}", "machines[0]: id: is missing"},
    {MACHINE("\"state\": \"Sleeping\""), "machines[1]: state: must be Speculative, Creating"},
    {MACHINE("\"state\": 3"), "machines[1]: state: must be Speculative, Creating"},
    {MACHINE("\"state\": \"Idle\", \"colour\": \"red\""), "machines[1]: unknown key 'colour'"},
    {MACHINE("\"state\": \"Configured\""), "cluster"},
    {MACHINE("\"state\": \"Failed\""), "last_error"},
    {MACHINE("\"state\": \"Idle\", \"price_per_hour\": -1"), "price"},
    {MACHINE("\"state\": \"Idle\", \"price_per_hour\": 1e999"), "real"},
    {MACHINE("\"state\": \"Idle\", \"interruption_probability\": 1.5"), "probability"},
    {MACHINE("\"state\": \"Idle\", \"capacity_type\": \"Free\""), "capacity_type"},
    {MACHINE("\"state\": \"Idle\", \"resources\": {\"cpu\": \"-1\"}"), "resources[cpu]"},
    {MACHINE("\"state\": \"Idle\", \"resources\": {\"cpu\": \"1Zi\"}"), "resources[cpu]"},
    {MACHINE("\"state\": \"Idle\", \"resources\": {\"cpu\": 1}"), "resources: cpu: must be a text"},
    {MACHINE("\"state\": \"Idle\", \"resources\": {\"memory\": \"9e18\"}"), "resources[memory]"},
    {MACHINE("\"state\": \"Idle\", \"labels\": {\"\": \"x\"}"), "labels"},
    {MACHINE("\"state\": \"Idle\", \"labels\": []"), "labels: must be a table of texts"},
    {MACHINE("\"state\": \"Idle\", \"idle_seconds\": -1"), "idle_seconds"},
    {MACHINE("\"state\": \"Idle\", \"host\": {\"name\": \"h\"}"), "host: unknown key 'name'"},
    {MACHINE("\"state\": \"Idle\", \"shard_metadata\": {\"bigfleet.lucy.sh/assigned-priority\": "
             "\"many\"}"),
     "assigned-priority"},
    {"{\"machines\": [{\"id\": \"a\", \"state\": \"Speculative\"}, {\"id\": \"a\", \"state\": "
     "\"Speculative\"}]}",
     "machines[1]: there is one with this id already"},
    {"{\"machines\": [{\"id\": \"\", \"state\": \"Speculative\"}]}", "id"},
    {"{\"machines\": [], \"machines\": []}", "duplicate"},
    {"{\"machines\": [], \"machnies\": []}", "unknown field 'machnies'"},
    {MACHINE("\"state\": \"idle\""), "Draining, Deleting or Failed"},
    {MACHINE("\"state\": \"Idle\", \"price_per_hour\": NaN"), "line 1"},
    {MACHINE("\"state\": \"Idle\", \"labels\": {\"a\": 1}"), "labels: a: must be a text"},
    {MACHINE("\"state\": \"Idle\", \"host\": {\"ref\": 1}"),
     "machines[1]: host: ref: must be a text"},
    {MACHINE("\"state\": \"Idle\", \"shard_metadata\": {"
             "\"bigfleet.lucy.sh/assigned-reclamation-penalty-dollars\": \"NaN\"}"),
     "machines[1]: shard_metadata: bigfleet.lucy.sh/assigned-reclamation"},
    {MACHINE("\"state\": \"Idle\", \"resources\": {\"cpu\": \"1e400\"}"),
     "resources[cpu]: quantity of 2^63 or more"},
};
static const struct {
    const char *text, *why;
} bad_needs[] = {
    {"{}", "field 'clusters': missing"},
    {"{\"clusters\": [{}]}", "clusters[0]: cluster_id: is missing"},
    {"{\"clusters\": [{\"cluster_id\": \"\"}]}", "cluster_id"},
    {"{\"clusters\": [{\"cluster_id\": \"c\"}, {\"cluster_id\": \"c\"}]}",
     "clusters[1]: cluster 'c'"},
    {"{\"clusters\": [{\"cluster_id\": \"c\", \"needs\": [7]}]}", "needs: [0]: must be a table"},
    {NEED("\"priority\": 3000000000"), "needs: [0]: priority: 3000000000, between -2147483648"},
    {NEED("\"priority\": 1.5"), "priority: must be a whole number"},
    {NEED("\"interruption_penalty_bucket\": 28"), "interruption_penalty_bucket"},
    {NEED("\"interruption_penalty_bucket\": -1"), "interruption_penalty_bucket"},
    {NEED("\"reclamation_penalty_bucket\": \"3\""), "reclamation_penalty_bucket"},
    {NEED("\"requirements\": [{\"key\": \"k\", \"operator\": \"Gt\", \"values\": [\"1\"]}]"),
     "requirements: [0]: operator: must be In, NotIn, "},
    {NEED("\"requirements\": [{\"key\": \"k\", \"operator\": \"In\"}]"), "requirements[0]"},
    {NEED("\"requirements\": [{\"key\": \"\", \"operator\": \"Exists\"}]"), "requirements[0]: key"},
    {NEED("\"requirements\": [{\"key\": \"a;b\", \"operator\": \"Exists\"}]"),
     "requirements[0]: key"},
    {NEED("\"spread\": [{\"topology_key\": \"z\", \"when_unsatisfiable\": \"Never\"}]"),
     "spread: [0]: when_unsatisfiable: must be DoNotSchedule or "},
    {NEED("\"min_unit\": {\"cpu\": \"x\"}"), "min_unit[cpu]"},
    {NEED("\"wishes\": 1"), "unknown key 'wishes'"},
    {"{\"clusters\": [{\"cluster_id\": \"c\", \"needs\": [{}]}]}",
     "needs: [0]: aggregate_resources: is missing"},
    {"{\"clusters\": [{\"cluster_id\": \"c\", \"timestamp_unix_nanos\": \"now\"}]}",
     "clusters[0]: timestamp_unix_nanos: must be a whole number"},
    {"{\"clusters\": [{\"cluster_id\": \"c\", \"timestamp_unix_nanos\": -1}]}",
     "clusters[0]: timestamp_unix_nanos: -1, between 0 and "},
    {NEED("\"arrival_unix_nanos\": -1"), "needs: [0]: arrival_unix_nanos: -1, between 0 and "},
    {NEED("\"requirements\": [1]"), "requirements: [0]: must be a table"},
    {NEED("\"requirements\": [{\"key\": \"k\", \"operator\": \"In\", \"values\": [\"a\", 1]}]"),
     "requirements: [0]: values: must be a text"},
    {NEED("\"requirements\": [{\"key\": \"k\", \"operator\": \"Unspecified\"}]"),
     "requirements: [0]: operator: must be In, "},
    {NEED("\"spread\": [1]"), "spread: [0]: must be a table"},
    {NEED("\"requirements\": [{\"key\": \"k\", \"operator\": \"Exists\"}, {\"key\": \"k\", "
          "\"operator\": \"DoesNotExist\"}]"),
     "needs: [0]: requirements on k: no machine can satisfy Exists and DoesNotExist"},
    {NEED("\"requirements\": [{\"key\": \"k\", \"operator\": \"In\", \"values\": [\"a\"]}, "
          "{\"key\": \"k\", \"operator\": \"In\", \"values\": [\"b\"]}]"),
     "needs: [0]: requirements on k: no machine can satisfy In and In"},
};

static void check_refused(const char *text, const char *why, bool machines)
{
    struct planner *planner;
    struct note note = {""};
    enum err err;

    CHECK_OK("open", planner_open(&planner));
    err = machines ? planner_add_machines(planner, str_from(text), PLAN_DOCUMENT, &note)
                   : planner_add_needs(planner, str_from(text), PLAN_DOCUMENT, &note);
    CHECK(text, err != ERR_OK);
    CHECK_HAS(text, note.text, why);
    planner_close(planner);
}

TEST(what_is_wrong_in_a_file_is_named)
{
    for (size_t i = 0; i < sizeof bad_machines / sizeof bad_machines[0]; i++)
        check_refused(bad_machines[i].text, bad_machines[i].why, true);
    for (size_t i = 0; i < sizeof bad_needs / sizeof bad_needs[0]; i++)
        check_refused(bad_needs[i].text, bad_needs[i].why, false);
}

TEST(ten_thousand_labels_are_refused)
{
    struct buf text;

    buf_init(&text, 1 << 20);
    CHECK_OK("text", buf_append_c(&text, "{\"machines\": [{\"id\": \"m\", \"state\": \"Idle\", "
                                         "\"labels\": {"));
    for (int i = 0; i < 10000; i++)
        CHECK_OK("text", buf_appendf(&text, "%s\"l%d\": \"v\"", i ? "," : "", i));
    CHECK_OK("text", buf_append_c(&text, "}}]}"));
    CHECK_OK("text", buf_append_byte(&text, '\0'));
    check_refused(text.data, "labels", true);
    buf_deinit(&text);
}

/* ---- what was written is read as it was ---- */

static enum err collect(void *context, struct str line)
{
    return buf_append(context, line);
}

static void decide_and_print(struct planner *planner, struct buf *out)
{
    CHECK_OK("decide", planner_decide(planner));
    CHECK_OK("print", planner_transcript(planner, out));
    planner_close(planner);
}

static void check_round_trip(bool adversarial)
{
    struct generate_options options = {
        .machines = 400, .needs = 60, .clusters = 7, .seed = 5, .adversarial = adversarial};
    struct buf machines, needs, made, read;
    struct planner *planner;
    struct note note = {""};

    buf_init(&machines, 1 << 24);
    buf_init(&needs, 1 << 24);
    buf_init(&made, 1 << 24);
    buf_init(&read, 1 << 24);
    CHECK_OK("open", planner_open(&planner));
    CHECK_OK("generate", planner_generate(planner, &options, &note));
    decide_and_print(planner, &made);
    CHECK_OK("dump", planner_dump_machines(&options, collect, &machines));
    CHECK_OK("dump", planner_dump_needs(&options, collect, &needs));
    CHECK_OK("open", planner_open(&planner));
    CHECK_OK(note.text, planner_add_needs(planner, buf_peek(&needs), PLAN_LINES, &note));
    CHECK_OK(note.text, planner_add_machines(planner, buf_peek(&machines), PLAN_LINES, &note));
    decide_and_print(planner, &read);
    CHECK("it says something", made.len > 1000);
    CHECK_STR("the same decision to the byte", buf_peek(&read), buf_peek(&made));
    buf_deinit(&machines);
    buf_deinit(&needs);
    buf_deinit(&made);
    buf_deinit(&read);
}

TEST(a_dumped_fleet_is_planned_as_the_made_up_one)
{
    check_round_trip(false);
    check_round_trip(true);
}

TEST(it_answers_in_sentences)
{
    struct planner *planner;
    struct note note = {""};
    struct buf out;
    size_t count;

    buf_init(&out, 1 << 20);
    CHECK_OK("open", planner_open(&planner));
    CHECK_OK(note.text,
             planner_add_needs(planner,
                               STR("{\"clusters\": [{\"cluster_id\": \"web\", \"needs\": "
                                   "[{\"priority\": 5, \"aggregate_resources\": {\"cpu\": \"8\"}, "
                                   "\"min_unit\": {\"cpu\": \"4\"}}]}, "
                                   "{\"cluster_id\": \"old\", \"needs\": []}]}"),
                               PLAN_DOCUMENT, &note));
    CHECK_OK(note.text,
             planner_add_machines(
                 planner,
                 STR("{\"machines\": [{\"id\": \"i\", \"state\": \"Idle\", \"resources\": "
                     "{\"cpu\": \"4\"}}, {\"id\": \"x\", \"state\": \"Configured\", \"cluster\": "
                     "\"old\", \"resources\": {\"memory\": \"4Gi\"}}]}"),
                 PLAN_DOCUMENT, &note));
    CHECK_OK("decide", planner_decide(planner));
    CHECK_OK("actions", planner_print_actions(planner, 0, 10, &out, &count));
    CHECK_SIZE("two", count, 2);
    CHECK_OK("needs", planner_print_needs(planner, false, 0, 10, &out, &count));
    CHECK_OK("end", buf_append_byte(&out, '\0'));
    CHECK_HAS("bootstrap", out.data, "bootstrap i: idle, for web (priority 5)");
    CHECK_HAS("reclaim", out.data, "reclaim   x: old does not ask for it any more, 10 min");
    CHECK_HAS("need", out.data, "wants cpu=8; lacks cpu=4 (PRIORITY_STARVED)");
    CHECK_HAS("why", out.data, "0 configured match, its own included; it has them all, there are");
    planner_close(planner);
    buf_deinit(&out);
}

TEST(a_need_is_named_in_words_that_no_terminal_obeys)
{
    const struct {
        struct need_key key;
        const char *words;
    } named_needs[] = {
        {{STR("web"), STR("p=-5|ipb=1|rpb=0|reqs=|spr="), STR("")}, "for web (priority -5)"},
        {{STR("web"),
          STR("p=7|ipb=16|rpb=27|reqs=a:2:x;b:3:;c:4:;node.kubernetes.io/instance-type:1:m,n;"
              "rack:5:;topology.kubernetes.io/zone:5:1:2;|spr=host:2:2;rack:1:1;"),
          STR("")},
         "for web (priority 7; not a x; any b; no c; instance-type m,n; same rack; same zone 1:2; "
         "spread over host, skew 2 if possible; spread over rack, skew 1; interruption $8192; "
         "reclamation pinned)"},
        {{STR("web"), STR("p=0|ipb=0|rpb=0|reqs=|spr="), STR("ns\0job\x1b[2J")},
         "for web (gang ns\\x00job\\x1b[2J, priority 0)"},
        {{STR("web"), STR("somebody else's"), STR("")}, "for web (somebody else's)"},
        {{STR("web"), STR("p=5|ipb=0|rpb=0|reqs=k:9:;|spr="), STR("")},
         "for web (p=5|ipb=0|rpb=0|reqs=k:9:;|spr=)"},
    };

    for (size_t i = 0; i < sizeof named_needs / sizeof named_needs[0]; i++) {
        struct action action = {
            .kind = ACTION_BOOTSTRAP, .machine = STR("i"), .key = named_needs[i].key};
        struct buf out;

        buf_init(&out, 1 << 12);
        CHECK_OK("words", words_action(&action, &out));
        CHECK_OK("end", buf_append_byte(&out, '\0'));
        CHECK_HAS("words", out.data, named_needs[i].words);
        buf_deinit(&out);
    }
}

TEST(a_roll_up_says_when_for_rows_that_do_not)
{
    static const char text[] =
        "{\"clusters\": [{\"cluster_id\": \"c\", \"timestamp_unix_nanos\": 70, \"needs\": "
        "[{\"priority\": 2, \"aggregate_resources\": {}}, "
        "{\"priority\": 1, \"arrival_unix_nanos\": 5, \"aggregate_resources\": {}}]}]}";
    struct planner *planner;
    struct note note = {""};
    struct buf out;

    buf_init(&out, 1 << 16);
    CHECK_OK("open", planner_open(&planner));
    CHECK_OK(note.text, planner_add_needs(planner, str_from(text), PLAN_DOCUMENT, &note));
    decide_and_print(planner, &out);
    CHECK_OK("end", buf_append_byte(&out, '\0'));
    CHECK_HAS("the roll-up's", out.data, "arrival=70 ");
    CHECK_HAS("its own", out.data, "arrival=5 ");
    buf_deinit(&out);
}
