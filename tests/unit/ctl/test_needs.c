/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/inspect.h: a stream of Needs as a table and as one JSON document. */
#include "canned.h"
#include "ctl/inspect.h"
#include "wire/pb/bigfleet_v1alpha1_shardread.pb-c.h"

static const char path[] = "/bigfleet.v1alpha1.ShardRead/InspectNeeds";
static struct canned canned;
static Bigfleet__V1alpha1__InspectNeedsResponse head, frame;
static Bigfleet__V1alpha1__InspectNeedsHeader header;
static Bigfleet__V1alpha1__NeedView view;
static Bigfleet__V1alpha1__CapacityNeed need;

static void some_need(const char *const *words)
{
    canned_open(&canned, words);
    bigfleet__v1alpha1__inspect_needs_response__init(&head);
    bigfleet__v1alpha1__inspect_needs_response__init(&frame);
    bigfleet__v1alpha1__inspect_needs_header__init(&header);
    bigfleet__v1alpha1__need_view__init(&view);
    bigfleet__v1alpha1__capacity_need__init(&need);
    header.cycle = 7;
    header.total_needs = 1;
    header.computed_at_unix_nanos = 1767225600 * (int64_t)1000000000;
    head.frame_case = BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_HEADER;
    head.header = &header;
    frame.frame_case = BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_NEED;
    frame.need = &view;
    need.priority = 900;
    view.need = &need;
    view.cluster_id = ctl_text("c");
}

TEST(a_need_is_a_row)
{
    Bigfleet__V1alpha1__CapacityNeed__AggregateResourcesEntry amount[2],
        *amounts[] = {&amount[0], &amount[1]};
    Bigfleet__V1alpha1__NodeSelectorRequirement
        zone = BIGFLEET__V1ALPHA1__NODE_SELECTOR_REQUIREMENT__INIT,
        *requirements[] = {&zone};
    Bigfleet__V1alpha1__MatchingSupply supply = BIGFLEET__V1ALPHA1__MATCHING_SUPPLY__INIT;
    char *zones[] = {ctl_text("a"), ctl_text("b")};

    some_need(CANNED_WORDS("--shard", "s:7780"));
    for (size_t i = 0; i < 2; i++)
        bigfleet__v1alpha1__capacity_need__aggregate_resources_entry__init(&amount[i]);
    amount[0].key = ctl_text("memory");
    amount[0].value = ctl_text("4Gi");
    amount[1].key = ctl_text("cpu");
    amount[1].value = ctl_text("8");
    zone.key = ctl_text("topology.kubernetes.io/zone");
    zone.operator_ = 1;
    zone.values = zones;
    zone.n_values = 2;
    need.aggregate_resources = amounts;
    need.n_aggregate_resources = 2;
    need.requirements = requirements;
    need.n_requirements = 1;
    view.claimed_machine_count = 3;
    view.bootstrap_count = 1;
    view.provision_count = 2;
    view.unmet_reason = 1;
    view.acquisition_parked = true;
    view.parked_age_cycles = 5;
    supply.idle = 1;
    supply.capped = true;
    view.matching_supply = &supply;
    canned_answer(path, &head.base);
    canned_answer(path, &frame.base);
    CHECK_OK("it runs", needs_act(&canned.ctl));
    CHECK_TEXT(
        "a table", canned_printed(&canned),
        "cycle 7 at 2026-01-01T00:00:00.000Z: 1 needs\n"
        "CLUSTER  PRIORITY  MACHINES_THAT  WANTS             HAS  COMING  LACKS  CYCLES_UNMET  "
        "WHY                             SUPPLY\n"
        "c        900       zone in a,b    cpu=8 memory=4Gi  3    3       -      0             "
        "priority-starved, parked for 5  1/0/0+\n");
    canned_close(&canned);
}

TEST(unknown_values_are_a_dash_and_no_requirement_is_any_machine)
{
    some_need(CANNED_WORDS("--shard", "s:7780"));
    view.need = NULL;
    view.unmet_reason = (Bigfleet__V1alpha1__UnmetReason)42;
    header.cycle = 0;
    canned_answer(path, &head.base);
    canned_answer(path, &frame.base);
    CHECK_OK("it runs", needs_act(&canned.ctl));
    CHECK_HAS("no cycle", canned_printed(&canned), "no cycle was decided yet: /readyz says why\n");
    CHECK_HAS("a row", canned.ctl.out.data,
              "c        0         any machine    -      0    0       -      "
              "0             of a newer shard  -\n");
    canned_close(&canned);
}

TEST(for_programs_it_is_one_document)
{
    some_need(CANNED_WORDS("--json", "--shard", "s:7780"));
    canned_answer(path, &head.base);
    canned_answer(path, &frame.base);
    CHECK_OK("it runs", needs_act(&canned.ctl));
    CHECK_HAS("the header first", canned_printed(&canned), "\"cycle\":7,");
    CHECK_HAS("then the Needs", canned.ctl.out.data, "\"needs\":[{\"need\":{");
    canned_close(&canned);
}

TEST(a_name_is_what_explain_need_accepts)
{
    some_need(CANNED_WORDS("--shard", "s:7780"));
    canned.ctl.table_flags = TABLE_NAMES;
    canned_answer(path, &head.base);
    canned_answer(path, &frame.base);
    CHECK_OK("it runs", needs_act(&canned.ctl));
    CHECK_STR("only names", buf_peek(&canned.ctl.out), STR("c/900\n"));
    canned_close(&canned);
}

TEST(half_an_answer_is_none)
{
    some_need(CANNED_WORDS("--shard", "s:7780"));
    CHECK_ERR("no header", needs_act(&canned.ctl), ERR_PARSE);
    CHECK_TEXT("why", canned.ctl.note.text, "the shard ended its answer before it began");
    canned_close(&canned);
    some_need(CANNED_WORDS("--shard", "s:7780"));
    canned_answer(path, &head.base);
    canned_answer(path, &head.base);
    CHECK_ERR("two headers", needs_act(&canned.ctl), ERR_PARSE);
    CHECK_SIZE("nothing is printed", canned.ctl.out.len, 0);
    canned_close(&canned);
    some_need(CANNED_WORDS("--shard", "s:7780"));
    canned_answer(path, &frame.base);
    canned_answer(path, &head.base);
    CHECK_ERR("a row first", needs_act(&canned.ctl), ERR_PARSE);
    canned_close(&canned);
}
