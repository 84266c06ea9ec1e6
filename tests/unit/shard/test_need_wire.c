/* SPDX-License-Identifier: Apache-2.0 */
/* Roll-ups as bytes to rows and what is refused of them, and the frames of the inspection: wire.md
 * § 5.2, 6 and 7, shard.md § 12 and 17. */
#include "shard/need_wire.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/dimensions_find.h"
#include "lib/fault_alloc.h"
#include "lib/need_view_make.h"
#include "lib/test.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_shardread.pb-c.h"

typedef Bigfleet__V1alpha1__CapacityNeed need_message;
typedef Bigfleet__V1alpha1__NodeSelectorRequirement requirement_message;

static struct arena arena;
static struct dimensions dimensions;
static struct rollup_rows rows;
static struct note note;

static char *text(const char *literal)
{
    return (char *)(uintptr_t)literal;
}

/* -- a row that is right, to be changed by each test -- */

static char *const one_value[] = {(char *)(uintptr_t) "m5.large"};
static requirement_message requirement;
static requirement_message *requirements[] = {&requirement};
static Bigfleet__V1alpha1__TopologySpread spread;
static Bigfleet__V1alpha1__TopologySpread *spreads[] = {&spread};
static Bigfleet__V1alpha1__CapacityNeed__AggregateResourcesEntry sum[2];
static Bigfleet__V1alpha1__CapacityNeed__AggregateResourcesEntry *sums[] = {&sum[0], &sum[1]};
static Bigfleet__V1alpha1__CapacityNeed__MinUnitEntry unit;
static Bigfleet__V1alpha1__CapacityNeed__MinUnitEntry *units[] = {&unit};
static need_message row;

static void good_row(void)
{
    bigfleet__v1alpha1__node_selector_requirement__init(&requirement);
    requirement.key = text("node.kubernetes.io/instance-type");
    requirement.operator_ = BIGFLEET__V1ALPHA1__NODE_SELECTOR_REQUIREMENT__OPERATOR__OPERATOR_IN;
    requirement.n_values = 1;
    requirement.values = (char **)(uintptr_t)one_value;
    bigfleet__v1alpha1__topology_spread__init(&spread);
    spread.topology_key = text("topology.kubernetes.io/zone");
    spread.max_skew = 1;
    spread.when_unsatisfiable = 1;
    for (size_t i = 0; i < 2; i++)
        bigfleet__v1alpha1__capacity_need__aggregate_resources_entry__init(&sum[i]);
    sum[0].key = text("cpu");
    sum[0].value = text("96");
    sum[1].key = text("memory");
    sum[1].value = text("1.5Ti");
    bigfleet__v1alpha1__capacity_need__min_unit_entry__init(&unit);
    unit.key = text("cpu");
    unit.value = text("500m");
    bigfleet__v1alpha1__capacity_need__init(&row);
    row.n_requirements = 1;
    row.requirements = requirements;
    row.n_spread = 1;
    row.spread = spreads;
    row.n_aggregate_resources = 2;
    row.aggregate_resources = sums;
    row.n_min_unit = 1;
    row.min_unit = units;
    row.priority = 1000;
    row.interruption_penalty_bucket = 6;
    row.reclamation_penalty_bucket = 27;
    row.group = (ProtobufCBinaryData){8, (uint8_t *)(uintptr_t) "rack\0g-7"};
}

static struct buf encoded;

static void begin(const char *cluster)
{
    Bigfleet__V1alpha1__ClusterCapacityNeeds head =
        BIGFLEET__V1ALPHA1__CLUSTER_CAPACITY_NEEDS__INIT;

    buf_clear(&encoded);
    head.cluster_id = text(cluster);
    head.timestamp_unix_nanos = 123456789;
    CHECK_OK("encoded", message_write(&head.base, &encoded, NULL));
}

static void add_row(void)
{
    Bigfleet__V1alpha1__ClusterCapacityNeeds one = BIGFLEET__V1ALPHA1__CLUSTER_CAPACITY_NEEDS__INIT;
    need_message *all[] = {&row};

    one.n_needs = 1;
    one.needs = all;
    CHECK_OK("encoded", message_write(&one.base, &encoded, NULL));
}

static enum err read_all(size_t rows_max)
{
    note = (struct note){""};
    arena_reset(&arena);
    return rollup_read(buf_peek(&encoded), STR("a"), rows_max, &arena, &dimensions, &rows, &note);
}

static void open_all(void)
{
    arena_init(&arena, 512 << 20);
    dimensions_init(&dimensions);
    buf_init(&encoded, 512 << 20);
    good_row();
}

static void close_all(void)
{
    arena_deinit(&arena);
    dimensions_deinit(&dimensions);
    buf_deinit(&encoded);
}

TEST(a_rollup_becomes_rows)
{
    const struct need *need;
    uint32_t cpu, memory;

    open_all();
    begin("a");
    add_row();
    row.priority = -5;
    row.group.len = 0;
    add_row();
    CHECK_ERR(note.text, read_all(0), ERR_OK);
    CHECK_SIZE("two", rows.count, 2);
    need = &rows.rows[0];
    CHECK_STR("cluster", need->cluster, STR("a"));
    CHECK_STR("fingerprint", need->profile.fingerprint,
              STR("p=1000|ipb=6|rpb=27|reqs=node.kubernetes.io/instance-type:1:m5.large;"
                  "|spr=topology.kubernetes.io/zone:1:1;"));
    CHECK_STR("a group may hold NUL", need->group, str_of("rack\0g-7", 8));
    CHECK_I64("arrival", need->arrival_unix_ns, 123456789);
    CHECK("cpu", dimensions_find(&dimensions, STR("cpu"), &cpu));
    CHECK("memory", dimensions_find(&dimensions, STR("memory"), &memory));
    CHECK_I64("cpu", resource_sum_get(&need->aggregate, cpu), 96000);
    CHECK_I64("memory", resource_sum_get(&need->aggregate, memory) / 1000, 3ll << 39);
    CHECK_I64("unit", resources_get(&need->min_unit, cpu), 500);
    CHECK_I64("the second row", rows.rows[1].profile.priority, -5);
    begin("a");
    CHECK_OK("no rows is no demand", read_all(0));
    CHECK_SIZE("none", rows.count, 0);
    close_all();
}

TEST(the_last_of_two_entries_with_one_name_counts)
{
    uint32_t cpu;

    open_all();
    begin("a");
    sum[1].key = text("cpu");
    sum[1].value = text("3");
    add_row();
    CHECK_ERR(note.text, read_all(0), ERR_OK);
    CHECK("cpu", dimensions_find(&dimensions, STR("cpu"), &cpu));
    CHECK_I64("the last", resource_sum_get(&rows.rows[0].aggregate, cpu), 3000);
    close_all();
}

/* -- what is refused -- */

static void bad_operator(void)
{
    requirement.operator_ = 6;
}
static void negative_operator(void)
{
    requirement.operator_ = -1;
}
static void bad_interruption(void)
{
    row.interruption_penalty_bucket = 28;
}
static void wrapped_bucket(void)
{
    row.interruption_penalty_bucket = 256 + 6;
}
static void negative_bucket(void)
{
    row.reclamation_penalty_bucket = -1;
}
static void bad_spread(void)
{
    spread.when_unsatisfiable = 3;
}
static void nan_quantity(void)
{
    sum[1].value = text("NaN");
}
static void negative_quantity(void)
{
    sum[0].value = text("-1");
}
static void empty_quantity(void)
{
    unit.value = text("");
}
static void huge_quantity(void)
{
    sum[0].value = text("1e30");
}
static void large_unit(void)
{
    unit.value = text("9E");
}
static void empty_name(void)
{
    sum[0].key = text("");
}
static void empty_key(void)
{
    requirement.key = text("");
}
static void no_values(void)
{
    requirement.n_values = 0;
}
static void control_in_value(void)
{
    static char *values[] = {(char *)(uintptr_t) "a\x01"};
    requirement.values = values;
}
static char long_text[300];
static void long_key(void)
{
    memset(long_text, 'k', sizeof long_text - 1);
    sum[0].value = long_text;
}
static void long_group(void)
{
    static uint8_t group[GROUP_MAX + 1];
    row.group = (ProtobufCBinaryData){sizeof group, group};
}
static const struct {
    void (*spoil)(void);
    const char *says;
} refusals[] = {
    {bad_operator, "needs[1]: requirements[0].operator: unknown number 6"},
    {negative_operator, "needs[1]: requirements[0].operator: unknown number -1"},
    {bad_interruption, "needs[1]: interruption_penalty_bucket: "},
    {wrapped_bucket, "needs[1]: interruption_penalty_bucket: "},
    {negative_bucket, "needs[1]: reclamation_penalty_bucket: "},
    {bad_spread, "needs[1]: spread[0].when_unsatisfiable: unknown number 3"},
    {nan_quantity, "needs[1]: aggregate_resources[memory]: "},
    {negative_quantity, "needs[1]: aggregate_resources[cpu]: "},
    {empty_quantity, "needs[1]: min_unit[cpu]: "},
    {huge_quantity, "needs[1]: aggregate_resources[cpu]: "},
    {large_unit, "needs[1]: min_unit[cpu]: "},
    {empty_name, "needs[1]: aggregate_resources"},
    {empty_key, "needs[1]: requirements[0]: key: "},
    {no_values, "needs[1]: requirements[0]: "},
    {control_in_value, "needs[1]: requirements[0]: values[0]: "},
    {long_key, "needs[1]: aggregate_resources[cpu]: "},
    {long_group, "needs[1]: group: "},
};

TEST(one_bad_row_refuses_the_whole_rollup_and_is_named)
{
    open_all();
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        good_row();
        begin("a");
        add_row();
        refusals[i].spoil();
        add_row();
        rows.count = 99;
        CHECK(refusals[i].says, read_all(0) != ERR_OK);
        CHECK_HAS("row and field", note.text, refusals[i].says);
        CHECK_SIZE("nothing is handed out", rows.count, 99);
        CHECK_U32("and no name is learnt", dimensions.count, 0);
    }
    close_all();
}

static const struct {
    const char *why;
    struct str bytes;
    enum err err;
    const char *says;
} damaged[] = {
    {"cut short",
     {"\x0a\x01"
      "a\x1a\x05",
      5},
     ERR_PARSE,
     "cut short"},
    {"a number for the cluster", {"\x08\x01", 2}, ERR_PARSE, "field 1: wrong wire type"},
    {"text for the time",
     {"\x0a\x01"
      "a\x12\x01x",
      6},
     ERR_PARSE,
     "field 2: wrong wire type"},
    {"a number for a row",
     {"\x0a\x01"
      "a\x18\x01",
      5},
     ERR_PARSE,
     "field 3: wrong wire type"},
    {"a row that is garbage",
     {"\x0a\x01"
      "a\x1a\x02\xff\xff",
      7},
     ERR_PARSE,
     "needs[0]: "},
    {"another cluster",
     {"\x0a\x01"
      "b",
      3},
     ERR_INVALID,
     "cluster_id: \"b\" in a session of \"a\""},
    {"no cluster", {"", 0}, ERR_INVALID, "cluster_id: \"\""},
    {"the last cluster counts",
     {"\x0a\x01"
      "a\x0a\x01"
      "b",
      6},
     ERR_INVALID,
     "cluster_id: \"b\""},
    {"a time before 1970",
     {"\x0a\x01"
      "a\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a\x00",
      16},
     ERR_INVALID,
     "needs[0]: timestamp_unix_nanos: negative"},
};

TEST(damaged_bytes_are_refused)
{
    open_all();
    for (size_t i = 0; i < ARRAY_LEN(damaged); i++) {
        buf_clear(&encoded);
        CHECK_OK("bytes", buf_append(&encoded, damaged[i].bytes));
        CHECK_ERR(damaged[i].why, read_all(0), damaged[i].err);
        CHECK_HAS(damaged[i].why, note.text, damaged[i].says);
    }
    close_all();
}

TEST(a_rollup_is_bounded_in_rows_and_in_the_size_of_one)
{
    char *huge = malloc((10 << 20) + 1);
    char *values[] = {huge};

    open_all();
    begin("a");
    for (size_t i = 0; i < 3; i++) add_row();
    CHECK_ERR("rows", read_all(2), ERR_TOO_LARGE);
    CHECK_HAS("said", note.text, "needs: more than 2 rows");
    CHECK_ERR("three", read_all(3), ERR_OK);
    memset(huge, 'x', 10 << 20);
    huge[10 << 20] = '\0';
    requirement.values = values;
    begin("a");
    add_row();
    CHECK_ERR("a label of 10 MB", read_all(0), ERR_TOO_LARGE);
    CHECK_HAS("said", note.text, "needs[0]: 104");
    huge[200 << 10] = '\0';
    begin("a");
    add_row();
    CHECK_ERR("one of 200 KiB", read_all(0), ERR_TOO_LARGE);
    CHECK_HAS("said", note.text, "needs[0]: requirements[0]: values[0]: ");
    free(huge);
    close_all();
}

static uint64_t rejected_after(struct core *core, const char *cluster)
{
    enum rollup_verdict verdict;
    struct effects out;

    effects_init(&out);
    arena_reset(&arena);
    (void)rollup_apply(core, str_from(cluster), buf_peek(&encoded), &arena, (mono_time){1},
                       &verdict, &rows, &out);
    effects_deinit(&out);
    return core_counts(core)->rollups_rejected;
}

TEST(a_rollup_that_is_refused_counts_once_whoever_refuses_it)
{
    struct core_options options = {.rows_max = 1};
    struct core *core;

    open_all();
    CHECK_OK(note.text, core_open(&options, &core));
    begin("a");
    add_row();
    CHECK_U64("taken", rejected_after(core, "a"), 0);
    CHECK_U64("cannot be read as b's", rejected_after(core, "b"), 1);
    row.priority = 7;
    add_row();
    CHECK_U64("more rows than the core has room for", rejected_after(core, "a"), 2);
    core_close(core);
    close_all();
}

typedef Bigfleet__V1alpha1__MachineOccupancy occupancy_message;

static void add_machine(occupancy_message *machine)
{
    Bigfleet__V1alpha1__ClusterCapacityNeeds one = BIGFLEET__V1ALPHA1__CLUSTER_CAPACITY_NEEDS__INIT;

    one.n_occupancy = 1;
    one.occupancy = &machine;
    CHECK_OK("encoded", message_write(&one.base, &encoded, NULL));
}

TEST(an_occupancy_that_breaks_a_rule_refuses_the_rollup)
{
    Bigfleet__V1alpha1__MachineOccupancy__FreeEntry free_ =
        BIGFLEET__V1ALPHA1__MACHINE_OCCUPANCY__FREE_ENTRY__INIT;
    Bigfleet__V1alpha1__MachineOccupancy__FreeEntry *frees[] = {&free_};
    static const struct {
        const char *id, *amount;
        double cost;
        const char *says;
    } cases[] = {
        {"m-1", "2", 1, NULL},
        {"m-1", "2", HUGE_VAL, NULL},
        {"", "2", 1, "occupancy[1]: machine_id: empty"},
        {"m-1", "-2", 1, "occupancy[1]: free[cpu]"},
        {"m-1", "2", -1, "occupancy[1]: disruption_cost: -1 is no cost"},
        {"m-1", "2", NAN, "occupancy[1]: disruption_cost: "},
    };

    open_all();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        occupancy_message machine = BIGFLEET__V1ALPHA1__MACHINE_OCCUPANCY__INIT;

        begin("a");
        machine.machine_id = text("m-0");
        add_machine(&machine);
        machine.machine_id = text(cases[i].id);
        machine.disruption_cost = cases[i].cost;
        free_.key = text("cpu");
        free_.value = text(cases[i].amount);
        machine.n_free = 1;
        machine.free = frees;
        add_machine(&machine);
        add_row();
        CHECK("as it should", (read_all(0) == ERR_OK) == !cases[i].says);
        if (cases[i].says)
            CHECK_HAS("named", note.text, cases[i].says);
        else
            CHECK_SIZE("both", rows.occupancy_count, 2);
    }
    begin("a");
    for (int i = 0; i <= ROLLUP_OCCUPANCY_MAX; i++) {
        occupancy_message machine = BIGFLEET__V1ALPHA1__MACHINE_OCCUPANCY__INIT;
        machine.machine_id = text("m");
        add_machine(&machine);
    }
    CHECK_ERR("too many", read_all(0), ERR_TOO_LARGE);
    CHECK_HAS("named", note.text, "occupancy: more than 65536 machines");
    close_all();
}

TEST(rows_that_contradict_themselves_are_left_out)
{
    requirement_message other = BIGFLEET__V1ALPHA1__NODE_SELECTOR_REQUIREMENT__INIT;
    requirement_message *both[] = {&requirement, &other};

    open_all();
    begin("a");
    add_row();
    other.key = requirement.key;
    other.operator_ =
        BIGFLEET__V1ALPHA1__NODE_SELECTOR_REQUIREMENT__OPERATOR__OPERATOR_DOES_NOT_EXIST;
    row.n_requirements = 2;
    row.requirements = both;
    add_row();
    good_row();
    add_row();
    CHECK_ERR(note.text, read_all(0), ERR_OK);
    CHECK_SIZE("the others stay", rows.count, 2);
    CHECK_SIZE("counted", rows.contradictions, 1);
    CHECK_HAS("the first is named", rows.contradiction.text, "needs[1]: ");
    close_all();
}

TEST(invented_resource_names_do_not_use_up_the_table)
{
    open_all();
    for (size_t i = 0; i < 60; i++) {
        char name[32];
        snprintf(name, sizeof name, "example.com/r%zu", i);
        begin("a");
        unit.key = name;
        unit.value = text("1");
        add_row();
        if (i < DIMENSIONS_MAX - ROLLUP_DIMENSIONS_SPARED - 2)
            CHECK_ERR(note.text, read_all(0), ERR_OK);
        else
            CHECK_ERR("spared for machines", read_all(0), ERR_FULL);
    }
    CHECK_HAS("said", note.text, "demand may add no more");
    CHECK_U32("some are left", dimensions.count, DIMENSIONS_MAX - ROLLUP_DIMENSIONS_SPARED);
    good_row();
    begin("a");
    add_row();
    CHECK_ERR("known names go on", read_all(0), ERR_OK);
    close_all();
}

TEST(without_memory_a_rollup_is_refused_and_nothing_leaks)
{
    uint64_t turns = 0;

    open_all();
    begin("a");
    add_row();
    FAULT_SWEEP_ALLOC(k)
    {
        struct arena own;
        struct dimensions names;
        enum err err;

        arena_init(&own, 64 << 20);
        dimensions_init(&names);
        err = rollup_read(buf_peek(&encoded), STR("a"), 0, &own, &names, &rows, &note);
        CHECK("refused only when it failed", err == ERR_OK || fault_alloc_fired());
        CHECK("and then by name", err == ERR_OK || err == ERR_NOMEM);
        turns = k;
        arena_deinit(&own);
        dimensions_deinit(&names);
    }
    CHECK("it went far enough", turns > 3);
    close_all();
}

/* -- the inspection -- */

static const Bigfleet__V1alpha1__InspectNeedsResponse *decoded(const struct frame_writer *writer)
{
    ProtobufCMessage *message;

    CHECK_ERR(note.text,
              message_read(&bigfleet__v1alpha1__inspect_needs_response__descriptor,
                           buf_peek(&writer->frame), NULL, &arena, &message, &note),
              ERR_OK);
    return (const Bigfleet__V1alpha1__InspectNeedsResponse *)message;
}

TEST(a_header_counts_before_the_limit)
{
    const Bigfleet__V1alpha1__InspectNeedsHeader *header;
    struct frame_writer writer;

    open_all();
    frame_writer_init(&writer);
    CHECK_OK("written", need_write_header(&writer, &(struct needs_view){.at = {5}}));
    header = decoded(&writer)->header;
    CHECK_I64("nothing computed yet", header->cycle, 0);
    CHECK_I64("so no time", header->computed_at_unix_nanos, 0);
    CHECK_OK("written",
             need_write_header(
                 &writer, &(struct needs_view){.cycle = 7, .at = {1700000000123}, .total = 50000}));
    header = decoded(&writer)->header;
    CHECK_I64("cycle", header->cycle, 7);
    CHECK_I64("time", header->computed_at_unix_nanos, 1700000000123000000);
    CHECK_I64("total", header->total_needs, 50000);
    frame_writer_deinit(&writer);
    close_all();
}

TEST(a_view_shows_what_applies_and_nothing_else)
{
    const Bigfleet__V1alpha1__NeedView *seen;
    const struct domain_coverage domains[] = {{STR("rack-1"), 1000}, {STR("rack-2"), 250}};
    struct resource_sum none;
    struct view_made made;
    struct frame_writer writer;
    struct need_view view;

    open_all();
    begin("a");
    add_row();
    CHECK_ERR(note.text, read_all(0), ERR_OK);
    view = need_view_make(&made, &rows.rows[0]);
    made.demand.arrival_unix_ns = 5;
    made.row.satisfied = made.row.satisfiable = true;
    made.row.claimed = 3;
    made.row.bootstraps = 2;
    made.row.provisions = 1;
    frame_writer_init(&writer);
    CHECK_OK("written", need_write_view(&writer, &view, &dimensions));
    seen = decoded(&writer)->need;
    CHECK_TEXT("cluster", seen->cluster_id, "a");
    CHECK_STR("fingerprint", str_from(seen->profile_fingerprint), made.demand.profile->fingerprint);
    CHECK("satisfied", seen->satisfied);
    CHECK("no deficit", !seen->residual_deficit);
    CHECK("no supply", !seen->matching_supply);
    CHECK("no preemption", !seen->preemption);
    CHECK_I64("no reason", seen->unmet_reason, 0);
    CHECK_I64("claimed", seen->claimed_machine_count, 3);
    CHECK_SIZE("the need is whole", seen->need->n_aggregate_resources, 2);
    CHECK_TEXT("as it came", seen->need->aggregate_resources[1]->value, "1536Gi");
    CHECK_TEXT("unit", seen->need->min_unit[0]->value, "500m");
    CHECK_TEXT("requirement", seen->need->requirements[0]->values[0], "m5.large");
    CHECK_I64("spread", seen->need->spread[0]->max_skew, 1);
    CHECK_I64("bucket", seen->need->reclamation_penalty_bucket, 27);
    CHECK_SIZE("group", seen->need->group.len, 8);

    resource_sum_clear(&none);
    amounts_pack(&none, made.milli[1], &made.shortage.deficit);
    made.row.satisfied = false;
    made.row.domain = STR("rack-1");
    made.row.shortage = &made.shortage;
    made.shortage.reason = REASON_NO_MATCHING_SUPPLY;
    memcpy(made.shortage.domains, domains, sizeof domains);
    made.shortage.domain_count = 2;
    CHECK_OK("written", need_write_view(&writer, &view, &dimensions));
    seen = decoded(&writer)->need;
    CHECK("an empty deficit is left out", !seen->residual_deficit);
    CHECK("supply always, also of nothing", seen->matching_supply != NULL);
    CHECK("not capped", !seen->matching_supply->capped);
    CHECK_I64("reason", seen->unmet_reason, 2);
    CHECK("nobody was found", !seen->preemption);
    CHECK_SIZE("candidates", seen->n_same_candidates, 2);
    CHECK("the first would do", seen->same_candidates[0]->satisfiable);
    CHECK("the second not", !seen->same_candidates[1]->satisfiable);

    made.shortage.deficit = made.shortage.freed = made.demand.aggregate;
    made.shortage.victims = 2;
    made.shortage.idle_count = VERDICT_COUNT_MOST;
    made.shortage.reason = REASON_PREEMPTION_EXHAUSTED;
    CHECK_OK("written", need_write_view(&writer, &view, &dimensions));
    seen = decoded(&writer)->need;
    CHECK_SIZE("deficit", seen->residual_deficit->n_resources, 2);
    CHECK_TEXT("by name", seen->residual_deficit->resources[0]->key, "cpu");
    CHECK("capped", seen->matching_supply->capped);
    CHECK_I64("victims", seen->preemption->victims_found, 2);
    CHECK_SIZE("freed", seen->preemption->capacity_freed->n_resources, 2);
    CHECK_I64("reason", seen->unmet_reason, 4);
    frame_writer_deinit(&writer);
    close_all();
}
