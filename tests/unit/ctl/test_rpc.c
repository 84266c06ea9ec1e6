/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/ctl.h: a command that is one call, from its options to its output. */
#include <inttypes.h>

#include "canned.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"
#include "wire/pb/muster_v1_member.pb-c.h"

static const char shards_path[] = "/bigfleet.v1alpha1.Coordinator/ListShards";
static const struct ctl_rpc list_shards = {
    CTL_READ("/bigfleet.v1alpha1.Coordinator/ListShards", bigfleet__v1alpha1__list_shards),
    CTL_COLUMNS(CTL_COLUMN("SHARD", "shard_id"),
                CTL_COLUMN("REGISTERED", "registered_at_unix_ns", .cell = CTL_TIME),
                CTL_COLUMN("ADDRESS", "address", .cell = CTL_OR_DASH)),
};

static Bigfleet__V1alpha1__ListShardsResponse *shards(void)
{
    static Bigfleet__V1alpha1__ShardRegistryEntry entry[2], *entries[] = {&entry[0], &entry[1]};
    static Bigfleet__V1alpha1__ListShardsResponse list;

    for (size_t i = 0; i < 2; i++) bigfleet__v1alpha1__shard_registry_entry__init(&entry[i]);
    bigfleet__v1alpha1__list_shards_response__init(&list);
    entry[0].shard_id = ctl_text("shard-0");
    entry[0].address = ctl_text("a:7780");
    entry[0].registered_at_unix_ns = 1767225600 * (int64_t)1000000000;
    entry[1].shard_id = ctl_text("s\033[2J");
    list.shards = entries;
    list.n_shards = 2;
    return &list;
}

TEST(a_list_is_a_table_and_steers_no_terminal)
{
    struct canned canned;

    canned_open(&canned, CANNED_WORDS(NULL));
    canned_answer(shards_path, &shards()->base);
    CHECK_OK("it runs", ctl_rpc_run(&canned.ctl, &list_shards));
    CHECK_TEXT("rows", canned_printed(&canned),
               "SHARD     REGISTERED            ADDRESS\n"
               "shard-0   2026-01-01T00:00:00Z  a:7780\n"
               "s\\x1B[2J  \xe2\x80\x94                     \xe2\x80\x94\n");
    canned_close(&canned);
}

TEST(for_programs_it_is_the_answer)
{
    struct canned canned;

    canned_open(&canned, CANNED_WORDS("--json"));
    canned_answer(shards_path, &shards()->base);
    CHECK_OK("it runs", ctl_rpc_run(&canned.ctl, &list_shards));
    CHECK_HAS("a document", canned_printed(&canned), "{\"shards\":[{\"shard_id\":\"shard-0\",");
    canned_close(&canned);
}

TEST(an_error_is_the_commands_with_its_note_and_nothing_is_printed)
{
    struct canned canned;

    canned_open(&canned, CANNED_WORDS(NULL));
    canned_failure(shards_path, ERR_NOT_LEADER, "no leader");
    CHECK_ERR("it", ctl_rpc_run(&canned.ctl, &list_shards), ERR_NOT_LEADER);
    CHECK_TEXT("the note", canned.ctl.note.text, "no leader");
    CHECK_SIZE("printed", canned.ctl.out.len, 0);
    canned_close(&canned);
}

/* -- fields by type -- */

static void silent_cell(struct text_table *table, const ProtobufCMessage *row)
{
    table_format(table, "%" PRId64 "ms",
                 ((const Muster__V1__Replica *)(const void *)row)->silent_ms);
}

static const struct ctl_rpc list_replicas = {
    CTL_READ("/muster.v1.Fleet/ListReplicas", muster__v1__list_replicas),
    CTL_COLUMNS(CTL_COLUMN("ID", "replica_id"), CTL_COLUMN("MATCH", "match"),
                CTL_COLUMN("LEVEL", "level"), CTL_COLUMN("SILENT", NULL, .put = silent_cell)),
};

TEST(a_cell_follows_the_fields_type)
{
    Muster__V1__Replica replica = MUSTER__V1__REPLICA__INIT, *replicas[] = {&replica};
    Muster__V1__ListReplicasResponse list = MUSTER__V1__LIST_REPLICAS_RESPONSE__INIT;
    struct canned canned;

    replica.replica_id = 0xc0ffee;
    replica.match = 17;
    replica.level = 3;
    replica.silent_ms = -1;
    list.replicas = replicas;
    list.n_replicas = 1;
    canned_open(&canned, CANNED_WORDS(NULL));
    canned_answer(list_replicas.method.path, &list.base);
    CHECK_OK("it runs", ctl_rpc_run(&canned.ctl, &list_replicas));
    CHECK_TEXT("rows", canned_printed(&canned),
               "ID                MATCH  LEVEL  SILENT\n"
               "0000000000c0ffee  17     3      -1ms\n");
    canned_close(&canned);
}

static const char *const words[] = {"zero", "one", NULL};
static const struct ctl_rpc list_reports = {
    CTL_READ("/bigfleet.v1alpha1.Coordinator/ListShardReports",
             bigfleet__v1alpha1__list_shard_reports),
    CTL_FILL({"shard_id", NULL}),
    CTL_COLUMNS(CTL_COLUMN("SHARD", "shard_id"), CTL_COLUMN("CYCLE", "cycle", .words = words),
                CTL_COLUMN("MACHINES", "summary.total_machines"),
                CTL_COLUMN("SHORT", "shortfalls", .cell = CTL_COUNT),
                CTL_COLUMN("PROVIDER", "summary.provider_address", .cell = CTL_OR_DASH)),
};

TEST(words_counts_and_what_is_not_set)
{
    Bigfleet__V1alpha1__ShardReportSnapshot rows[2], *reports[] = {&rows[0], &rows[1]};
    Bigfleet__V1alpha1__ListShardReportsResponse list =
        BIGFLEET__V1ALPHA1__LIST_SHARD_REPORTS_RESPONSE__INIT;
    Bigfleet__V1alpha1__ShardSummary summary = BIGFLEET__V1ALPHA1__SHARD_SUMMARY__INIT;
    struct canned canned;

    for (size_t i = 0; i < 2; i++) bigfleet__v1alpha1__shard_report_snapshot__init(&rows[i]);
    rows[0].shard_id = ctl_text("s0");
    rows[0].cycle = 1;
    rows[0].summary = &summary;
    summary.total_machines = 40;
    summary.provider_address = ctl_text("p:7770");
    rows[1].shard_id = ctl_text("s1");
    rows[1].cycle = 9;
    list.reports = reports;
    list.n_reports = 2;
    canned_open(&canned, CANNED_WORDS("s0"));
    canned_answer(list_reports.method.path, &list.base);
    CHECK_OK("it runs", ctl_rpc_run(&canned.ctl, &list_reports));
    CHECK_TEXT("the argument", canned_asked(list_reports.method.path), "{\"shard_id\":\"s0\"}");
    CHECK_TEXT("rows", canned_printed(&canned),
               "SHARD  CYCLE  MACHINES  SHORT  PROVIDER\n"
               "s0     one    40        0      p:7770\n"
               "s1     ?      0         0      \xe2\x80\x94\n");
    canned_close(&canned);
}

/* -- pages -- */

static const struct ctl_rpc list_workers = {
    CTL_READ("/muster.v1.Membership/ListWorkers", muster__v1__list_workers),
    CTL_FILL({"standing", "standing"}),
    CTL_COLUMNS(CTL_COLUMN("WORKER", "worker_id")),
    .page_request = "after",
    .page_row = "worker_id",
};

TEST(all_pages_are_one_list)
{
    Muster__V1__Worker worker[3], *first[] = {&worker[0], &worker[1]}, *second[] = {&worker[2]};
    Muster__V1__ListWorkersResponse one = MUSTER__V1__LIST_WORKERS_RESPONSE__INIT, two = one;
    struct canned canned;

    for (size_t i = 0; i < 3; i++) muster__v1__worker__init(&worker[i]);
    worker[0].worker_id = ctl_text("w0");
    worker[1].worker_id = ctl_text("w1");
    worker[2].worker_id = ctl_text("w2");
    one.workers = first;
    one.n_workers = 2;
    one.more = true;
    two.workers = second;
    two.n_workers = 1;
    canned_open(&canned, CANNED_WORDS("--standing", "DEAD"));
    canned_answer(list_workers.method.path, &one.base);
    canned_answer(list_workers.method.path, &two.base);
    CHECK_OK("it runs", ctl_rpc_run(&canned.ctl, &list_workers));
    CHECK_HAS("behind the last", canned_asked(list_workers.method.path), "\"after\":\"w1\"");
    CHECK_HAS("the choice", canned_asked(list_workers.method.path), "\"STANDING_SUSPECTED\"");
    CHECK_TEXT("rows", canned_printed(&canned), "WORKER\nw0\nw1\nw2\n");
    CHECK("nothing more", !one.more);
    canned_close(&canned);
}

TEST(an_empty_page_with_a_next_token_ends_the_list)
{
    Muster__V1__ListWorkersResponse empty = MUSTER__V1__LIST_WORKERS_RESPONSE__INIT;
    struct canned canned;

    empty.more = true;
    canned_open(&canned, CANNED_WORDS(NULL));
    canned_answer(list_workers.method.path, &empty.base);
    CHECK_OK("it ends", ctl_rpc_run(&canned.ctl, &list_workers));
    CHECK_TEXT("no row", canned_printed(&canned), "WORKER\n");
    canned_close(&canned);
}

/* -- changes -- */

static const struct ctl_rpc assign = {
    CTL_WRITE("/bigfleet.v1alpha1.Coordinator/AssignDomain", bigfleet__v1alpha1__assign_domain,
              "look"),
    CTL_FILL({"topology_key", "key"}, {"shard_id", NULL}, {"force_two_owners", "force"}),
    .done = "assigned {topology_key} to {shard_id}",
};

TEST(a_change_is_logged_with_its_fields)
{
    Bigfleet__V1alpha1__AssignDomainResponse done =
        BIGFLEET__V1ALPHA1__ASSIGN_DOMAIN_RESPONSE__INIT;
    struct canned canned;

    canned_open(&canned, CANNED_WORDS("--key", "z{o}ne", "s-1", "--force"));
    canned_answer(assign.method.path, &done.base);
    CHECK_OK("it runs", ctl_rpc_run(&canned.ctl, &assign));
    CHECK_HAS("the switch", canned_asked(assign.method.path), "\"force_two_owners\":true");
    CHECK_TEXT("a line", canned_printed(&canned), "assigned z{o}ne to s-1\n");
    canned_close(&canned);
}

TEST(for_programs_a_change_has_its_request_and_its_id)
{
    Bigfleet__V1alpha1__AssignDomainResponse done =
        BIGFLEET__V1ALPHA1__ASSIGN_DOMAIN_RESPONSE__INIT;
    struct canned canned;

    canned_open(&canned, CANNED_WORDS("--json", "--key", "zone", "s-1"));
    canned_answer(assign.method.path, &done.base);
    CHECK_OK("it runs", ctl_rpc_run(&canned.ctl, &assign));
    CHECK_HAS(
        "the id", canned_printed(&canned),
        "{\"result\":\"done\",\"request_id\":\"id-1\",\"request\":{\"topology_key\":\"zone\"");
    CHECK_HAS("the answer", canned.ctl.out.data, "},\"response\":{");
    canned_close(&canned);
}

static const struct ctl_rpc queue = {
    CTL_WRITE("/muster.v1.Fleet/QueueInstruction", muster__v1__queue_instruction, "look"),
    CTL_FILL({"shard_ids", "shards"},
             {"instruction.cross_shard_drain.preemptor_priority", "priority"}),
    .done = "queued {instruction_id} for {shard_ids} shards",
};

TEST(the_answers_fields_and_how_many_there_are)
{
    Muster__V1__QueueInstructionResponse done = MUSTER__V1__QUEUE_INSTRUCTION_RESPONSE__INIT;
    struct canned canned;

    done.instruction_id = ctl_text("i-7");
    canned_open(&canned, CANNED_WORDS("--shards", "a,b", "--priority", "-3"));
    canned_answer(queue.method.path, &done.base);
    CHECK_OK("it runs", ctl_rpc_run(&canned.ctl, &queue));
    CHECK_HAS("a message in a oneof is made", canned_asked(queue.method.path),
              "\"cross_shard_drain\":{\"machine_ids\":[],\"preemptor_priority\":-3}");
    CHECK_TEXT("a line", canned_printed(&canned), "queued i-7 for 2 shards\n");
    canned_close(&canned);
    canned_open(&canned, CANNED_WORDS("--shards", "a", "--priority", "3000000000"));
    CHECK_ERR("33 bits", ctl_rpc_run(&canned.ctl, &queue), ERR_INVALID);
    CHECK_TEXT("the option and the value", canned.ctl.note.text,
               "--priority: needs a whole number of 32 bits, got '3000000000'");
    CHECK_TEXT("nothing was asked", canned_asked(queue.method.path), "");
    canned_close(&canned);
}

static enum err never(struct ctl *ctl, const ProtobufCMessage *answer)
{
    (void)answer;
    return ctl_fail(ctl, ERR_CONFLICT, "it was not");
}

TEST(an_answer_that_is_a_refusal_is_an_error)
{
    struct ctl_rpc rpc = assign;
    Bigfleet__V1alpha1__AssignDomainResponse done =
        BIGFLEET__V1ALPHA1__ASSIGN_DOMAIN_RESPONSE__INIT;
    struct canned canned;

    rpc.check = never;
    canned_open(&canned, CANNED_WORDS("--key", "zone", "s-1"));
    canned_answer(rpc.method.path, &done.base);
    CHECK_ERR("refused", ctl_rpc_run(&canned.ctl, &rpc), ERR_CONFLICT);
    CHECK_SIZE("printed", canned.ctl.out.len, 0);
    canned_close(&canned);
}

/* -- printing -- */

TEST(the_first_failure_to_print_is_kept)
{
    struct canned canned;

    canned_open(&canned, CANNED_WORDS(NULL));
    buf_deinit(&canned.ctl.out);
    buf_init(&canned.ctl.out, 8);
    ctl_line(&canned.ctl, "1234567");
    CHECK_OK("it fits", canned.ctl.print_err);
    ctl_line(&canned.ctl, "8");
    ctl_append(&canned.ctl, STR_EMPTY); /* which fits */
    CHECK_ERR("it does not", canned.ctl.print_err, ERR_FULL);
    CHECK_STR("earlier output stays", buf_peek(&canned.ctl.out), STR("1234567\n"));
    canned_close(&canned);
}
