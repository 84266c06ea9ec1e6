/* SPDX-License-Identifier: Apache-2.0 */
/* One coordinator over virtual I/O with a real log: the facts of coordinator.md 20.2 and 20.3 and
 * the service's rows of wire.md 4.2. */
#include "service_rig.h"

#include <stdio.h>
#include <string.h>

static Bigfleet__V1alpha1__ListDomainAssignmentsResponse domains(void)
{
    Bigfleet__V1alpha1__ListDomainAssignmentsRequest m =
        BIGFLEET__V1ALPHA1__LIST_DOMAIN_ASSIGNMENTS_REQUEST__INIT;

    return *(const Bigfleet__V1alpha1__ListDomainAssignmentsResponse *)rig_message(
        rig_call((struct rig_call){0}, "ListDomainAssignments", &m.base),
        &bigfleet__v1alpha1__list_domain_assignments_response__descriptor);
}

static double metric(const char *line)
{
    double value = -1;

    CHECK(line, rig_metric(&rig.nodes[0], line, &value));
    return value;
}

/* -- 20.2 -- */

TEST(n1_n2_n3_a_single_node_leads_writes_and_refuses)
{
    Muster__V1__BindClusterRequest bind = MUSTER__V1__BIND_CLUSTER_REQUEST__INIT;
    Muster__V1__ListClustersRequest list = MUSTER__V1__LIST_CLUSTERS_REQUEST__INIT;
    const Muster__V1__ListClustersResponse *clusters;

    rig_open((struct rig_options){0});
    CHECK("N1", rig_leader() != NULL);
    CHECK_U64("N2 AddShard", rig_add("shard-a", "host:1"), GRPC_OK);
    bind.cluster_id = (char *)(uintptr_t) "cluster-x";
    bind.shard_id = (char *)(uintptr_t) "shard-a";
    CHECK_U64("N2 BindCluster", rig_call((struct rig_call){0}, ".BindCluster", &bind.base)->status,
              GRPC_OK);
    CHECK_U64("N2 AssignDomain", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    clusters = rig_message(rig_call((struct rig_call){0}, ".ListClusters", &list.base),
                           &muster__v1__list_clusters_response__descriptor);
    CHECK_SIZE("N2 the cluster", clusters->n_clusters, 1);
    CHECK_TEXT("N2 the cluster", clusters->clusters[0]->cluster_id, "cluster-x");
    CHECK_TEXT("N2 its shard", clusters->clusters[0]->shard_id, "shard-a");
    CHECK_SIZE("N2 the domain", domains().n_assignments, 1);
    CHECK_SIZE("N2 the shard", rig_shards()->n_shards, 1);
    CHECK_U64("N3", rig_add("shard-a", "host:1"), GRPC_ALREADY_EXISTS);
    rig_close();
}

TEST(n4_a_node_that_was_never_founded_says_not_leader)
{
    struct rig_answer *answer;

    rig_open((struct rig_options){.waiting = true});
    answer = rig_try_report((struct rig_call){.node = &rig.nodes[0]},
                            (struct rig_report){.shard = "shard-a", .cycle = 1});
    CHECK_U64("N4", answer->status, GRPC_FAILED_PRECONDITION);
    CHECK_TEXT("nobody leads", answer->leader, "");
    answer = rig_try_report((struct rig_call){.node = &rig.nodes[0]},
                            (struct rig_report){.shard = "", .cycle = 1});
    CHECK_U64("before the arguments", answer->status, GRPC_FAILED_PRECONDITION);
    rig_close();
}

/* -- 20.3 -- */

TEST(r1_r2_an_instruction_is_sent_until_it_is_acked)
{
    const Bigfleet__V1alpha1__ReportAck *ack;

    rig_open((struct rig_options){0});
    CHECK_U64("registered", rig_add("shard-a", ""), GRPC_OK);
    CHECK_U64("queued", rig_queue("shard-a", "instr-1"), GRPC_OK);
    ack = rig_report((struct rig_report){.shard = "shard-a", .cycle = 1, .total = 100, .free = 20});
    CHECK("acknowledged", ack->acknowledged);
    CHECK_I64("the term", ack->coordinator_term,
              (int64_t)replica_status(rig.nodes[0].replica).term);
    CHECK_SIZE("one", ack->n_instructions, 1);
    CHECK_TEXT("that one", ack->instructions[0]->instruction_id, "instr-1");
    CHECK_I64("stamped with the term", ack->instructions[0]->coordinator_term,
              ack->coordinator_term);
    CHECK_I64("and a number", ack->instructions[0]->sequence_number, 1);
    CHECK_I64("total", rig_reports("")->reports[0]->summary->total_machines, 100);
    CHECK("pending", metric("bigfleet_coordinator_pending_instructions{shard=\"shard-a\"}") == 1);
    ack = rig_report((struct rig_report){.shard = "shard-a", .cycle = 2, .total = 100});
    CHECK_SIZE("sent again", ack->n_instructions, 1);
    CHECK_U64("deliveries", rig_instructions("")->instructions[0]->deliveries, 2);
    ack = rig_report((struct rig_report){
        .shard = "shard-a", .cycle = 3, .total = 100, .ack = "instr-1", .outcome = 1});
    CHECK_SIZE("R2: empty", ack->n_instructions, 0);
    CHECK_SIZE("R2: empty", rig_instructions("shard-a")->n_instructions, 0);
    CHECK("pending", metric("bigfleet_coordinator_pending_instructions{shard=\"shard-a\"}") == 0);
    CHECK("counted",
          metric("muster_coordinator_instruction_acks_total{outcome=\"accepted\"}") == 1);
    rig_close();
}

TEST(r3_r4_r5_an_unknown_shard_registers_itself_once)
{
    const Bigfleet__V1alpha1__ShardRegistryEntry *shard;
    const char *address = "bigfleet-shard-2.bigfleet-shard-headless:7780";
    int64_t registered, heard;

    rig_open((struct rig_options){0});
    rig_report((struct rig_report){.shard = "shard-new", .address = address, .cycle = 1});
    CHECK_SIZE("R5: exactly one", rig_shards()->n_shards, 1);
    shard = rig_shards()->shards[0];
    CHECK_TEXT("R3", shard->shard_id, "shard-new");
    CHECK_TEXT("R3", shard->address, address);
    CHECK("R3: heartbeat", shard->last_heartbeat_unix_ns != 0);
    registered = shard->registered_at_unix_ns;
    heard = shard->last_heartbeat_unix_ns;
    rig_run(10);
    rig_report((struct rig_report){.shard = "shard-new", .cycle = 2});
    shard = rig_shards()->shards[0];
    CHECK_I64("R4: registered once", shard->registered_at_unix_ns, registered);
    CHECK("R4: later contact", shard->last_heartbeat_unix_ns > heard);
    CHECK_TEXT("R4: its address stays", shard->address, address);
    CHECK_SIZE("reported once", RIG_LINES(&rig.nodes[0], "\"event\":\"shard-first-seen\""), 1);
    CHECK_SIZE("written once", RIG_LINES(&rig.nodes[0], "\"audit\":\"AddShard\""), 1);
    rig_close();
}

TEST(a_report_that_cannot_be_registered_leaves_nothing_in_the_log)
{
    struct rig_answer *answer;
    uint64_t last;

    rig_open((struct rig_options){.limits = {.shards_max = 1}});
    rig_report((struct rig_report){.shard = "shard-a", .cycle = 1});
    last = replica_status(rig.nodes[0].replica).last;
    for (int i = 0; i < 3; i++) {
        answer = rig_try_report((struct rig_call){0},
                                (struct rig_report){.shard = "shard-b", .cycle = i});
        CHECK_U64("refused", answer->status, GRPC_UNAVAILABLE);
        CHECK_HAS("saying why", answer->text, "there are 1 already");
        CHECK_TEXT("not applied", answer->applied, "no");
    }
    CHECK_U64("nothing was written", replica_status(rig.nodes[0].replica).last, last);
    CHECK("counted", metric("muster_coordinator_reports_total{result=\"refused\"}") == 3);
    rig_report((struct rig_report){.shard = "shard-a", .cycle = 2});
    CHECK_U64("room", rig_remove("shard-a"), GRPC_OK);
    rig_report((struct rig_report){.shard = "shard-b", .cycle = 9});
    rig_close();
}

TEST(r6_r7_r8_domains_are_assigned_once)
{
    struct rig_answer *answer;
    Bigfleet__V1alpha1__AssignDomainRequest m = BIGFLEET__V1ALPHA1__ASSIGN_DOMAIN_REQUEST__INIT;

    rig_open((struct rig_options){0});
    CHECK_U64("a", rig_add("shard-a", ""), GRPC_OK);
    CHECK_U64("b", rig_add("shard-b", ""), GRPC_OK);
    CHECK_U64("R6", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    CHECK_U64("R6", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    m.topology_key = (char *)(uintptr_t) "rack";
    m.topology_value = (char *)(uintptr_t) "r-1";
    m.shard_id = (char *)(uintptr_t) "shard-b";
    answer = rig_call((struct rig_call){0}, "AssignDomain", &m.base);
    CHECK_U64("R6", answer->status, GRPC_ALREADY_EXISTS);
    CHECK_HAS("names the domain", answer->text, "rack=r-1");
    CHECK_HAS("names the owner", answer->text, "shard-a");
    CHECK_HAS("names the caller", answer->text, "shard-b");
    CHECK_SIZE("R7", domains().n_assignments, 1);
    CHECK_TEXT("R7", domains().assignments[0]->topology_key, "rack");
    CHECK_TEXT("R7", domains().assignments[0]->topology_value, "r-1");
    CHECK_TEXT("R7", domains().assignments[0]->shard_id, "shard-a");
    CHECK_U64("R8", rig_unassign("zone", "absent"), GRPC_OK);
    CHECK_U64("R8", rig_unassign("rack", "r-1"), GRPC_OK);
    CHECK_SIZE("gone", domains().n_assignments, 0);
    CHECK("counted", metric("bigfleet_coordinator_apply_total{outcome=\"fsm_error\"}") == 1);
    CHECK("counted", metric("bigfleet_coordinator_apply_total{outcome=\"success\"}") == 6);
    rig_close();
}

TEST(r9_a_shard_is_removed_once)
{
    rig_open((struct rig_options){0});
    rig_report((struct rig_report){.shard = "shard-a", .cycle = 1});
    CHECK_U64("R9", rig_remove("shard-a"), GRPC_OK);
    CHECK_U64("R9", rig_remove("shard-a"), GRPC_NOT_FOUND);
    rig_report((struct rig_report){.shard = "shard-a", .cycle = 2});
    CHECK_SIZE("a live one is back with its next report", rig_shards()->n_shards, 1);
    rig_close();
}

TEST(r10_r11_a_report_is_shown_as_it_came)
{
    Bigfleet__V1alpha1__ShardReport m = BIGFLEET__V1ALPHA1__SHARD_REPORT__INIT;
    Bigfleet__V1alpha1__ShardSummary summary = BIGFLEET__V1ALPHA1__SHARD_SUMMARY__INIT;
    Bigfleet__V1alpha1__ShardSummary__PerInstanceTypeCountsEntry
        types[2] = {BIGFLEET__V1ALPHA1__SHARD_SUMMARY__PER_INSTANCE_TYPE_COUNTS_ENTRY__INIT,
                    BIGFLEET__V1ALPHA1__SHARD_SUMMARY__PER_INSTANCE_TYPE_COUNTS_ENTRY__INIT},
        *type_list[] = {&types[0], &types[1]};
    Bigfleet__V1alpha1__ShardSummary__PerZoneCountsEntry
        zone = BIGFLEET__V1ALPHA1__SHARD_SUMMARY__PER_ZONE_COUNTS_ENTRY__INIT,
        *zone_list[] = {&zone};
    Bigfleet__V1alpha1__Shortfall shortfall = BIGFLEET__V1ALPHA1__SHORTFALL__INIT,
                                  *shortfall_list[] = {&shortfall};
    Bigfleet__V1alpha1__NodeSelectorRequirement
        requirement = BIGFLEET__V1ALPHA1__NODE_SELECTOR_REQUIREMENT__INIT,
        *requirement_list[] = {&requirement};
    const Bigfleet__V1alpha1__ShardReportSnapshot *got;

    rig_open((struct rig_options){0});
    types[0].key = (char *)(uintptr_t) "m5.large";
    types[0].value = 60;
    types[1].key = (char *)(uintptr_t) "c6i.xlarge";
    types[1].value = 40;
    zone.key = (char *)(uintptr_t) "z-a";
    zone.value = 100;
    summary.total_machines = 100;
    summary.free_machines = 20;
    summary.n_per_instance_type_counts = 2;
    summary.per_instance_type_counts = type_list;
    summary.n_per_zone_counts = 1;
    summary.per_zone_counts = zone_list;
    summary.provider_address = (char *)(uintptr_t) "provider:7770";
    shortfall.priority = 1000;
    shortfall.age_cycles = 3;
    shortfall.interruption_penalty_bucket = 3;
    shortfall.n_requirements = 1;
    shortfall.requirements = requirement_list;
    m.shard_id = (char *)(uintptr_t) "shard-a";
    m.cycle = 7;
    m.summary = &summary;
    m.n_shortfalls = 1;
    m.shortfalls = shortfall_list;
    CHECK_U64("reported", rig_call((struct rig_call){0}, "ReportShard", &m.base)->status, GRPC_OK);
    CHECK_SIZE("R11: nope", rig_reports("nope")->n_reports, 0);
    CHECK_SIZE("R11: shard-a", rig_reports("shard-a")->n_reports, 1);
    got = rig_reports("")->reports[0];
    CHECK_I64("cycle", got->cycle, 7);
    CHECK("received", got->received_at_unix_ns != 0);
    CHECK_I64("total", got->summary->total_machines, 100);
    CHECK_I64("free", got->summary->free_machines, 20);
    CHECK_SIZE("types", got->summary->n_per_instance_type_counts, 2);
    CHECK_I64("of a type", got->summary->per_instance_type_counts[1]->value, 40);
    CHECK_TEXT("zone", got->summary->per_zone_counts[0]->key, "z-a");
    CHECK_TEXT("provider", got->summary->provider_address, "provider:7770");
    CHECK_SIZE("shortfall", got->n_shortfalls, 1);
    CHECK_I64("priority", got->shortfalls[0]->priority, 1000);
    CHECK_I64("age", got->shortfalls[0]->age_cycles, 3);
    CHECK_I64("bucket", got->shortfalls[0]->interruption_penalty_bucket, 3);
    CHECK_SIZE("requirements are left out", got->shortfalls[0]->n_requirements, 0);
    CHECK("a deficit is always there", got->shortfalls[0]->deficit != NULL);
    rig_close();
}

TEST(r12_two_shards_register_at_once)
{
    Bigfleet__V1alpha1__ShardReport m = BIGFLEET__V1ALPHA1__SHARD_REPORT__INIT;
    const Bigfleet__V1alpha1__ListShardsResponse *shards;
    struct rig_answer answers[4];

    rig_open((struct rig_options){0});
    for (size_t i = 0; i < 4; i++) { /* each twice: the second call finds the shard registered */
        m.shard_id = (char *)(uintptr_t)(i % 2 ? "shard-b" : "shard-a");
        m.shard_address = (char *)(uintptr_t)(i % 2 ? "b:7780" : "a:7780");
        rig_start(&answers[i], (struct rig_call){.client = i}, "ReportShard", &m.base);
    }
    for (size_t i = 0; i < 4; i++) {
        rig_wait(&answers[i]);
        CHECK_U64(answers[i].text, answers[i].status, GRPC_OK);
        rig_answer_deinit(&answers[i]);
    }
    shards = rig_shards();
    CHECK_SIZE("both", shards->n_shards, 2);
    CHECK_TEXT("ascending", shards->shards[0]->address, "a:7780");
    CHECK_TEXT("ascending", shards->shards[1]->address, "b:7780");
    rig_close();
}

TEST(assignments_are_listed_by_shard_then_key_then_value)
{
    static const char *const want[] = {"a z 1", "a z 2", "b m 9", "b y 1"};
    Bigfleet__V1alpha1__ListDomainAssignmentsResponse got;

    rig_open((struct rig_options){0});
    CHECK_U64("b", rig_add("b", ""), GRPC_OK);
    CHECK_U64("a", rig_add("a", ""), GRPC_OK);
    CHECK("registered when", rig_shards()->shards[0]->registered_at_unix_ns != 0);
    CHECK_I64("no contact", rig_shards()->shards[0]->last_heartbeat_unix_ns, 0);
    CHECK_U64("y", rig_assign("y", "1", "b"), GRPC_OK);
    CHECK_U64("z", rig_assign("z", "2", "a"), GRPC_OK);
    CHECK_U64("m", rig_assign("m", "9", "b"), GRPC_OK);
    CHECK_U64("z", rig_assign("z", "1", "a"), GRPC_OK);
    got = domains();
    CHECK_SIZE("all", got.n_assignments, ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        char text[64];

        snprintf(text, sizeof text, "%s %s %s", got.assignments[i]->shard_id,
                 got.assignments[i]->topology_key, got.assignments[i]->topology_value);
        CHECK_TEXT("in order", text, want[i]);
    }
    rig_close();
}

/* An answer over several turns equals an answer in one turn. */
TEST(long_lists_are_made_over_many_turns_and_of_one_moment)
{
    Bigfleet__V1alpha1__ListDomainAssignmentsRequest list =
        BIGFLEET__V1ALPHA1__LIST_DOMAIN_ASSIGNMENTS_REQUEST__INIT;
    Bigfleet__V1alpha1__ListDomainAssignmentsResponse got;
    Muster__V1__ListClustersRequest list_clusters = MUSTER__V1__LIST_CLUSTERS_REQUEST__INIT;
    Muster__V1__BindClusterRequest bind = MUSTER__V1__BIND_CLUSTER_REQUEST__INIT;
    const Muster__V1__ListClustersResponse *clusters;
    struct rig_answer answers[3];
    char value[16], before[64] = "";
    enum { DOMAINS = 1500 };

    rig_open((struct rig_options){.limits = {.list_rows_max = 2}});
    for (int i = 0; i < 5; i++) {
        snprintf(value, sizeof value, "shard-%d", i);
        CHECK_U64("shard", rig_add(value, ""), GRPC_OK);
    }
    for (int i = 0; i < DOMAINS; i++) {
        char shard[16];

        snprintf(value, sizeof value, "r-%04d", (i * 7) % DOMAINS);
        snprintf(shard, sizeof shard, "shard-%d", i % 5);
        CHECK_U64("domain", rig_assign(i % 3 ? "rack" : "row", value, shard), GRPC_OK);
    }
    for (size_t i = 0; i < 3; i++)
        rig_start(&answers[i], (struct rig_call){.client = i}, "ListDomainAssignments", &list.base);
    CHECK_U64("meanwhile", rig_remove("shard-4"), GRPC_OK);
    for (size_t i = 0; i < 3; i++) {
        size_t count;

        rig_wait(&answers[i]);
        got = *(const Bigfleet__V1alpha1__ListDomainAssignmentsResponse *)rig_message(
            &answers[i], &bigfleet__v1alpha1__list_domain_assignments_response__descriptor);
        count = got.n_assignments;
        CHECK("all, before or after", count == DOMAINS || count == DOMAINS / 5 * 4);
        before[0] = '\0';
        for (size_t k = 0; k < count; k++) {
            char text[64];

            snprintf(text, sizeof text, "%s %s %s", got.assignments[k]->shard_id,
                     got.assignments[k]->topology_key, got.assignments[k]->topology_value);
            CHECK("in order, none twice", strcmp(before, text) < 0);
            memcpy(before, text, sizeof before);
        }
        rig_answer_deinit(&answers[i]);
    }
    bind.shard_id = (char *)(uintptr_t) "shard-1";
    for (int i = 0; i < 4; i++) {
        snprintf(value, sizeof value, "c-%d", 9 - i);
        bind.cluster_id = value;
        CHECK_U64("bound", rig_call((struct rig_call){0}, ".BindCluster", &bind.base)->status,
                  GRPC_OK);
    }
    clusters = rig_message(rig_call((struct rig_call){0}, ".ListClusters", &list_clusters.base),
                           &muster__v1__list_clusters_response__descriptor);
    CHECK_SIZE("clusters", clusters->n_clusters, 4);
    CHECK_TEXT("ascending", clusters->clusters[0]->cluster_id, "c-6");
    CHECK_TEXT("with their shard", clusters->clusters[3]->shard_id, "shard-1");
    rig_close();
}

/* A list so long that a write fits in between; a caller that asks after the write sees the write.
 * */
TEST(callers_that_share_a_list_are_answered_one_a_turn)
{
    enum { CALLERS = 8, ROWS = 20000 };
    Bigfleet__V1alpha1__ListDomainAssignmentsRequest list =
        BIGFLEET__V1ALPHA1__LIST_DOMAIN_ASSIGNMENTS_REQUEST__INIT;
    const Bigfleet__V1alpha1__ListDomainAssignmentsResponse *got;
    struct rig_answer answers[CALLERS];
    struct fleet *fleet;
    uint64_t turns;
    char value[16];

    rig_open((struct rig_options){0});
    CHECK_U64("shard", rig_add("s", ""), GRPC_OK);
    fleet = fleet_machine_fleet(fleet_service_machine(rig.nodes[0].service));
    for (int i = 0; i < ROWS; i++) { /* past the log, as below */
        struct fleet_command command = {.kind = FLEET_ASSIGN_DOMAIN,
                                        .assign_domain = {STR("k"), STR("v"), STR("s")}};

        snprintf(value, sizeof value, "%06d", i);
        command.assign_domain.value = str_from(value);
        CHECK_U64("row", fleet_apply(fleet, &command).status, FLEET_DONE);
    }
    turns = loop_stats(rig.nodes[0].io->loop).timers_fired;
    for (size_t i = 0; i < CALLERS; i++)
        rig_start(&answers[i], (struct rig_call){0}, "ListDomainAssignments", &list.base);
    for (size_t i = 0; i < CALLERS; i++) {
        rig_wait(&answers[i]);
        got = rig_message(&answers[i],
                          &bigfleet__v1alpha1__list_domain_assignments_response__descriptor);
        CHECK_SIZE("all of it", got->n_assignments, ROWS);
        rig_answer_deinit(&answers[i]);
    }
    turns = loop_stats(rig.nodes[0].io->loop).timers_fired - turns;
    CHECK("a turn for each, besides those of the two lists", turns >= CALLERS + 2 * (ROWS / 1024));
    rig_close();
}

/* A copy of a million rows in one turn kept the leader from its heartbeats. A caller that leaves in
 * the middle of its answer does not affect the others. */
TEST(a_long_answer_is_given_some_bytes_a_turn)
{
    enum { CALLERS = 3, ROWS = 20000, SLICE = 512 << 10 };
    Bigfleet__V1alpha1__ListDomainAssignmentsRequest list =
        BIGFLEET__V1ALPHA1__LIST_DOMAIN_ASSIGNMENTS_REQUEST__INIT;
    const Bigfleet__V1alpha1__ListDomainAssignmentsResponse *got;
    struct rig_answer answers[CALLERS];
    struct fleet *fleet;
    uint64_t turns, made;
    size_t bytes = 0, hasty = 0;
    char value[FLEET_LABEL_VALUE_MAX + 1];

    rig_open((struct rig_options){0});
    CHECK_U64("shard", rig_add("s", ""), GRPC_OK);
    CHECK_U64("another", rig_add("t", ""), GRPC_OK); /* owns no row of the list */
    fleet = fleet_machine_fleet(fleet_service_machine(rig.nodes[0].service));
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    for (int i = 0; i < ROWS; i++) {
        struct fleet_command command = {.kind = FLEET_ASSIGN_DOMAIN,
                                        .assign_domain = {STR("k"), str_from(value), STR("s")}};
        char number[8];

        snprintf(number, sizeof number, "%06d", i);
        memcpy(value, number, 6);
        CHECK_U64("row", fleet_apply(fleet, &command).status, FLEET_DONE);
    }
    turns = loop_stats(rig.nodes[0].io->loop).timers_fired;
    for (size_t i = 0; i < CALLERS; i++)
        rig_start(&answers[i], (struct rig_call){.client = i}, "ListDomainAssignments", &list.base);
    for (size_t i = 0; i < CALLERS; i++) {
        rig_wait(&answers[i]);
        got = rig_message(&answers[i],
                          &bigfleet__v1alpha1__list_domain_assignments_response__descriptor);
        CHECK_SIZE("all of it", got->n_assignments, ROWS);
        CHECK_TEXT("to the last", got->assignments[ROWS - 1]->topology_value, value);
        bytes += answers[i].bytes.len;
        rig_answer_deinit(&answers[i]);
    }
    turns = loop_stats(rig.nodes[0].io->loop).timers_fired - turns;
    made = 2 * (ROWS / 1024 + 1); /* the three callers need at most two lists */
    CHECK("no more than a slice a turn", turns >= made + bytes / SLICE);
    for (uint64_t patience = 1; patience <= 128; patience *= 2) { /* ended somewhere on the way */
        rig_start(&answers[0], (struct rig_call){.client = 3, .timeout_ms = patience},
                  "ListDomainAssignments", &list.base);
        rig_start(&answers[1], (struct rig_call){0}, "ListDomainAssignments", &list.base);
        rig_wait(&answers[0]);
        rig_wait(&answers[1]);
        hasty += answers[0].status == GRPC_DEADLINE_EXCEEDED;
        got = rig_message(&answers[1],
                          &bigfleet__v1alpha1__list_domain_assignments_response__descriptor);
        CHECK_SIZE("the other has all of it", got->n_assignments, ROWS);
        rig_answer_deinit(&answers[0]);
        rig_answer_deinit(&answers[1]);
    }
    CHECK("some were too hasty", hasty > 0);
    rig_close();
}

TEST(a_running_list_is_not_shared_with_later_callers)
{
    enum { ROWS = 200000 };
    Bigfleet__V1alpha1__ListDomainAssignmentsRequest list =
        BIGFLEET__V1ALPHA1__LIST_DOMAIN_ASSIGNMENTS_REQUEST__INIT;
    const Bigfleet__V1alpha1__ListDomainAssignmentsResponse *got;
    struct rig_answer early, late;
    struct fleet *fleet;
    uint64_t turns;
    char value[16];

    rig_open((struct rig_options){0});
    fleet = fleet_machine_fleet(fleet_service_machine(rig.nodes[0].service));
    CHECK_U64("shard", rig_add("s", ""), GRPC_OK);
    for (int i = 0; i < ROWS; i++) { /* without the log, which would take this test an hour */
        struct fleet_command command = {.kind = FLEET_ASSIGN_DOMAIN,
                                        .assign_domain = {STR("k"), str_from(value), STR("s")}};

        snprintf(value, sizeof value, "%06d", i);
        command.assign_domain.value = str_from(value);
        CHECK_U64("row", fleet_apply(fleet, &command).status, FLEET_DONE);
    }
    CHECK_SIZE("connected", rig_shards()->n_shards, 1);
    turns = loop_stats(rig.nodes[0].io->loop).timers_fired;
    rig_start(&early, (struct rig_call){0}, "ListDomainAssignments", &list.base);
    CHECK_U64("written", rig_assign("z", "new", "s"), GRPC_OK);
    CHECK("the list is under way", !early.done);
    rig_start(&late, (struct rig_call){0}, "ListDomainAssignments", &list.base);
    rig_wait(&early);
    got = rig_message(&early, &bigfleet__v1alpha1__list_domain_assignments_response__descriptor);
    CHECK_SIZE("of its moment", got->n_assignments, ROWS);
    turns = loop_stats(rig.nodes[0].io->loop).timers_fired - turns;
    CHECK("some rows a turn", turns > ROWS / 1024);
    rig_wait(&late);
    got = rig_message(&late, &bigfleet__v1alpha1__list_domain_assignments_response__descriptor);
    CHECK_SIZE("with the acknowledged writes", got->n_assignments, ROWS + 1);
    CHECK_TEXT("in its place", got->assignments[ROWS]->topology_value, "new");
    rig_answer_deinit(&early);
    rig_answer_deinit(&late);
    rig_close();
}

TEST(a_caller_that_leaves_a_long_list_leaves_nothing_behind)
{
    Bigfleet__V1alpha1__ListDomainAssignmentsRequest list =
        BIGFLEET__V1ALPHA1__LIST_DOMAIN_ASSIGNMENTS_REQUEST__INIT;
    struct rig_answer answer;
    char value[16];

    rig_open((struct rig_options){.limits = {.list_rows_max = 2}});
    CHECK_U64("shard", rig_add("s", ""), GRPC_OK);
    for (int i = 0; i < 3000; i++) {
        snprintf(value, sizeof value, "r-%04d", i);
        CHECK_U64("domain", rig_assign("rack", value, "s"), GRPC_OK);
    }
    rig_start(&answer, (struct rig_call){.timeout_ms = 1}, "ListDomainAssignments", &list.base);
    rig_wait(&answer);
    rig_answer_deinit(&answer);
    CHECK_SIZE("the next is answered", domains().n_assignments, 3000);
    rig_close();
}

/* -- wire.md 4.2 -- */

static void check_refused(const char *why, const char *method, const ProtobufCMessage *m,
                          enum grpc_status status, const char *text)
{
    struct rig_answer *answer = rig_call((struct rig_call){0}, method, m);

    CHECK_U64(why, answer->status, status);
    CHECK_HAS(why, answer->text, text);
}

TEST(what_is_missing_is_named)
{
    static const struct {
        const char *key, *value, *shard, *missing;
    } assigns[] = {
        {"", "v", "s", "topology_key"},
        {"k", "", "s", "topology_value"},
        {"k", "v", "", "shard_id"},
    };
    Bigfleet__V1alpha1__AssignDomainRequest assign =
        BIGFLEET__V1ALPHA1__ASSIGN_DOMAIN_REQUEST__INIT;
    Bigfleet__V1alpha1__UnassignDomainRequest unassign =
        BIGFLEET__V1ALPHA1__UNASSIGN_DOMAIN_REQUEST__INIT;
    Bigfleet__V1alpha1__RemoveShardRequest remove = BIGFLEET__V1ALPHA1__REMOVE_SHARD_REQUEST__INIT;
    Bigfleet__V1alpha1__ShardReport report = BIGFLEET__V1ALPHA1__SHARD_REPORT__INIT;
    Muster__V1__AddShardRequest add = MUSTER__V1__ADD_SHARD_REQUEST__INIT;
    static char long_value[255];
    Muster__V1__BindClusterRequest bind = MUSTER__V1__BIND_CLUSTER_REQUEST__INIT;
    Muster__V1__SetQuotaRequest quota = MUSTER__V1__SET_QUOTA_REQUEST__INIT;
    Muster__V1__UpsertProviderRequest upsert = MUSTER__V1__UPSERT_PROVIDER_REQUEST__INIT;
    Bigfleet__V1alpha1__ProviderEntry provider = BIGFLEET__V1ALPHA1__PROVIDER_ENTRY__INIT;
    const enum grpc_status invalid = GRPC_INVALID_ARGUMENT;

    rig_open((struct rig_options){0});
    for (size_t i = 0; i < ARRAY_LEN(assigns); i++) {
        assign.topology_key = (char *)(uintptr_t)assigns[i].key;
        assign.topology_value = (char *)(uintptr_t)assigns[i].value;
        assign.shard_id = (char *)(uintptr_t)assigns[i].shard;
        check_refused("AssignDomain", "AssignDomain", &assign.base, invalid, assigns[i].missing);
    }
    assign.topology_key = (char *)(uintptr_t) "zone";
    assign.shard_id = (char *)(uintptr_t) "s";
    assign.topology_value = (char *)(uintptr_t) "eu-1a\nzone\teu-1b";
    check_refused("a second line", "AssignDomain", &assign.base, invalid,
                  "topology_value: control character 0x0a at byte 5");
    memset(long_value, 'x', sizeof long_value - 1);
    assign.topology_value = long_value;
    check_refused("longer than a shard takes", "AssignDomain", &assign.base, invalid,
                  "topology_value: 254 bytes, at most 253 are allowed");
    check_refused("UnassignDomain", "UnassignDomain", &unassign.base, invalid, "topology_key");
    unassign.topology_key = (char *)(uintptr_t) "k";
    check_refused("UnassignDomain", "UnassignDomain", &unassign.base, invalid, "topology_value");
    check_refused("RemoveShard", "RemoveShard", &remove.base, invalid, "shard_id");
    check_refused("ReportShard", "ReportShard", &report.base, invalid, "shard_id required");
    check_refused("AddShard", ".AddShard", &add.base, invalid, "shard_id");
    add.shard_id = (char *)(uintptr_t) "s\x1b[31m";
    check_refused("AddShard", ".AddShard", &add.base, invalid,
                  "shard_id: control character 0x1b at byte 1");
    check_refused("BindCluster", ".BindCluster", &bind.base, invalid, "cluster_id");
    bind.cluster_id = (char *)(uintptr_t) "c";
    check_refused("BindCluster", ".BindCluster", &bind.base, invalid, "shard_id");
    check_refused("SetQuota", ".SetQuota", &quota.base, invalid, "provider");
    quota.provider = (char *)(uintptr_t) "aws";
    check_refused("SetQuota", ".SetQuota", &quota.base, invalid, "region");
    check_refused("UpsertProvider", ".UpsertProvider", &upsert.base, invalid, "provider");
    upsert.provider = &provider;
    check_refused("UpsertProvider", ".UpsertProvider", &upsert.base, invalid, "provider.name");
    rig_close();
}

TEST(refusals_of_the_tables_have_their_status)
{
    static char long_id[FLEET_ID_MAX + 2], long_address[FLEET_ADDRESS_MAX + 2];
    Muster__V1__BindClusterRequest bind = MUSTER__V1__BIND_CLUSTER_REQUEST__INIT;
    struct rig_answer *answer;
    uint64_t last;

    memset(long_id, 'x', sizeof long_id - 1);
    memset(long_address, 'x', sizeof long_address - 1);
    rig_open((struct rig_options){0});
    CHECK_U64("AssignDomain", rig_assign("rack", "r-1", "nobody"), GRPC_NOT_FOUND);
    CHECK_U64("RemoveShard", rig_remove("nobody"), GRPC_NOT_FOUND);
    CHECK_U64("AddShard", rig_add(long_id, ""), GRPC_INVALID_ARGUMENT);
    last = replica_status(rig_leader()->replica).last;
    answer = rig_try_report((struct rig_call){0}, (struct rig_report){.shard = long_id});
    CHECK_U64("ReportShard: not to be tried again", answer->status, GRPC_INVALID_ARGUMENT);
    CHECK_HAS("the reason", answer->text, "shard_id: at most 253 bytes");
    answer = rig_try_report((struct rig_call){0},
                            (struct rig_report){.shard = "s", .address = long_address});
    CHECK_U64("so is its address", answer->status, GRPC_INVALID_ARGUMENT);
    CHECK_HAS("the reason", answer->text, "shard_address: at most 512 bytes");
    CHECK_U64("nothing in the log", replica_status(rig_leader()->replica).last, last);
    CHECK("counted", metric("muster_coordinator_reports_total{result=\"refused\"}") == 2);
    bind.cluster_id = (char *)(uintptr_t) "c";
    bind.shard_id = (char *)(uintptr_t) "nobody";
    check_refused("BindCluster", ".BindCluster", &bind.base, GRPC_NOT_FOUND, "shard not found");
    CHECK_U64("a", rig_add("a", ""), GRPC_OK);
    CHECK_U64("b", rig_add("b", ""), GRPC_OK);
    bind.shard_id = (char *)(uintptr_t) "a";
    CHECK_U64("bound", rig_call((struct rig_call){0}, ".BindCluster", &bind.base)->status, GRPC_OK);
    CHECK_U64("again", rig_call((struct rig_call){0}, ".BindCluster", &bind.base)->status, GRPC_OK);
    bind.shard_id = (char *)(uintptr_t) "b";
    check_refused("BindCluster", ".BindCluster", &bind.base, GRPC_ALREADY_EXISTS,
                  "cluster already bound");
    rig_close();
}

TEST(a_request_id_that_is_too_long_is_refused)
{
    char id[REPLICA_REQUEST_ID_MAX + 2];
    Bigfleet__V1alpha1__ListShardsRequest m = BIGFLEET__V1ALPHA1__LIST_SHARDS_REQUEST__INIT;

    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    rig_open((struct rig_options){0});
    CHECK_U64("too long",
              rig_call((struct rig_call){.request_id = id}, "ListShards", &m.base)->status,
              GRPC_INVALID_ARGUMENT);
    rig_close();
}

/* -- quotas and providers -- */

TEST(quotas_and_providers_are_written_and_listed_in_order)
{
    Muster__V1__SetQuotaRequest quota = MUSTER__V1__SET_QUOTA_REQUEST__INIT;
    Muster__V1__SetQuotaRequest__PerShardEntry slices[2] =
        {MUSTER__V1__SET_QUOTA_REQUEST__PER_SHARD_ENTRY__INIT,
         MUSTER__V1__SET_QUOTA_REQUEST__PER_SHARD_ENTRY__INIT},
                                               *slice_list[] = {&slices[0], &slices[1]};
    Muster__V1__UpsertProviderRequest upsert = MUSTER__V1__UPSERT_PROVIDER_REQUEST__INIT;
    Bigfleet__V1alpha1__ProviderEntry provider = BIGFLEET__V1ALPHA1__PROVIDER_ENTRY__INIT;
    Bigfleet__V1alpha1__ListQuotasRequest list_quotas =
        BIGFLEET__V1ALPHA1__LIST_QUOTAS_REQUEST__INIT;
    Bigfleet__V1alpha1__ListProvidersRequest list_providers =
        BIGFLEET__V1ALPHA1__LIST_PROVIDERS_REQUEST__INIT;
    const Bigfleet__V1alpha1__ListQuotasResponse *quotas;
    const Bigfleet__V1alpha1__ListProvidersResponse *providers;

    rig_open((struct rig_options){0});
    quota.provider = (char *)(uintptr_t) "aws";
    quota.region = (char *)(uintptr_t) "us-east-1";
    slices[0].key = (char *)(uintptr_t) "b";
    slices[0].value = -200;
    slices[1].key = (char *)(uintptr_t) "a";
    slices[1].value = 0;
    quota.n_per_shard = 2;
    quota.per_shard = slice_list;
    CHECK_U64("quota", rig_call((struct rig_call){0}, ".SetQuota", &quota.base)->status, GRPC_OK);
    upsert.provider = &provider;
    provider.name = (char *)(uintptr_t) "gcp-west";
    CHECK_U64("gcp", rig_call((struct rig_call){0}, ".UpsertProvider", &upsert.base)->status,
              GRPC_OK);
    provider.name = (char *)(uintptr_t) "aws-east";
    provider.address = (char *)(uintptr_t) "host:1";
    provider.region = (char *)(uintptr_t) "us-east-1";
    CHECK_U64("aws", rig_call((struct rig_call){0}, ".UpsertProvider", &upsert.base)->status,
              GRPC_OK);
    quotas = rig_message(rig_call((struct rig_call){0}, "ListQuotas", &list_quotas.base),
                         &bigfleet__v1alpha1__list_quotas_response__descriptor);
    CHECK_SIZE("one row", quotas->n_allocations, 1);
    CHECK_SIZE("whole", quotas->allocations[0]->n_per_shard, 2);
    CHECK_TEXT("shards ascending", quotas->allocations[0]->per_shard[0]->key, "a");
    CHECK_I64("zero is a slice", quotas->allocations[0]->per_shard[0]->value, 0);
    CHECK_I64("negative too", quotas->allocations[0]->per_shard[1]->value, -200);
    providers = rig_message(rig_call((struct rig_call){0}, "ListProviders", &list_providers.base),
                            &bigfleet__v1alpha1__list_providers_response__descriptor);
    CHECK_SIZE("two", providers->n_providers, 2);
    CHECK_TEXT("ascending", providers->providers[0]->name, "aws-east");
    CHECK_TEXT("address", providers->providers[0]->address, "host:1");
    CHECK_TEXT("region", providers->providers[0]->region, "us-east-1");
    rig_run(1100);
    CHECK("rows", metric("muster_coordinator_rows{table=\"providers\"}") == 2);
    rig_close();
}

/* -- instructions -- */

TEST(owners_are_sent_their_domains)
{
    const Muster__V1__ListInstructionsResponse *list;

    rig_open((struct rig_options){0});
    CHECK_U64("a", rig_add("shard-a", ""), GRPC_OK);
    CHECK_U64("b", rig_add("shard-b", ""), GRPC_OK);
    CHECK_U64("assign", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    list = rig_instructions("");
    CHECK_SIZE("the new owner", list->n_instructions, 1);
    CHECK_TEXT("it", list->instructions[0]->shard_id, "shard-a");
    CHECK_U64("is instructed", list->instructions[0]->instruction->payload_case,
              BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_ASSIGN_DOMAIN);
    CHECK_TEXT("which", list->instructions[0]->instruction->assign_domain->topology_key, "rack");
    CHECK_TEXT("which", list->instructions[0]->instruction->assign_domain->topology_value, "r-1");
    CHECK_SIZE("an id of 16 digits", strlen(list->instructions[0]->instruction->instruction_id),
               16);
    CHECK_U64("unassign", rig_unassign("rack", "r-1"), GRPC_OK);
    CHECK_U64("assign elsewhere", rig_assign("rack", "r-1", "shard-b"), GRPC_OK);
    list = rig_instructions("");
    CHECK_SIZE("the old and the new one", list->n_instructions, 2);
    CHECK_TEXT("the old one", list->instructions[0]->shard_id, "shard-a");
    CHECK_U64("only receives the newest instruction",
              list->instructions[0]->instruction->payload_case,
              BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_UNASSIGN_DOMAIN);
    CHECK_TEXT("the new one", list->instructions[1]->shard_id, "shard-b");
    CHECK("numbers grow", list->instructions[1]->instruction->sequence_number >
                              list->instructions[0]->instruction->sequence_number);
    CHECK_U64("nothing to report", rig_unassign("rack", "none"), GRPC_OK);
    CHECK_SIZE("so nobody is", rig_instructions("")->n_instructions, 2);
    rig_close();
}

TEST(a_current_assignment_is_sent_again)
{
    rig_open((struct rig_options){0});
    CHECK_U64("a", rig_add("shard-a", ""), GRPC_OK);
    CHECK_U64("assign", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    rig_report((struct rig_report){
        .shard = "shard-a",
        .cycle = 1,
        .ack = rig_instructions("")->instructions[0]->instruction->instruction_id,
        .outcome = 1});
    CHECK_SIZE("reported", rig_instructions("")->n_instructions, 0);
    CHECK_U64("again", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    CHECK_SIZE("reported again", rig_instructions("")->n_instructions, 1);
    rig_close();
}

TEST(a_restarted_shard_is_sent_its_domains_again)
{
    rig_open((struct rig_options){0});
    CHECK_U64("a", rig_add("shard-a", ""), GRPC_OK);
    CHECK_U64("assign", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    rig_report((struct rig_report){
        .shard = "shard-a",
        .epoch = 7,
        .cycle = 1,
        .ack = rig_instructions("")->instructions[0]->instruction->instruction_id,
        .outcome = 1});
    rig_report((struct rig_report){.shard = "shard-a", .epoch = 7, .cycle = 2});
    CHECK_SIZE("it knows", rig_instructions("")->n_instructions, 0);
    CHECK_SIZE(
        "sent with the answer",
        rig_report((struct rig_report){.shard = "shard-a", .epoch = 8, .cycle = 1})->n_instructions,
        1);
    rig_close();
}

TEST(every_outcome_of_an_ack_takes_the_instruction_off_and_is_counted)
{
    static const char *const names[] = {"unspecified",      "accepted", "rejected_stale",
                                        "rejected_invalid", "failed",   "other"};
    char line[128];

    rig_open((struct rig_options){0});
    CHECK_U64("a", rig_add("shard-a", ""), GRPC_OK);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        Bigfleet__V1alpha1__InstructAck__Outcome outcome =
            (Bigfleet__V1alpha1__InstructAck__Outcome)(i == 5 ? 77 : i);

        CHECK_U64("queued", rig_queue("shard-a", "it"), GRPC_OK);
        rig_report((struct rig_report){.shard = "shard-a", .ack = "it", .outcome = outcome});
        CHECK_SIZE(names[i], rig_instructions("")->n_instructions, 0);
        snprintf(line, sizeof line, "muster_coordinator_instruction_acks_total{outcome=\"%s\"}",
                 names[i]);
        CHECK(line, metric(line) == 1);
    }
    rig_report((struct rig_report){.shard = "shard-a", .ack = "it", .outcome = 1});
    CHECK("of nothing",
          metric("muster_coordinator_instruction_acks_total{outcome=\"not_waiting\"}") == 1);
    CHECK_SIZE("a failure is reported",
               RIG_LINES(&rig.nodes[0], "\"event\":\"instruction-refused\"",
                         "\"outcome\":\"failed\"", "because"),
               1);
    CHECK_SIZE("an accepted instruction is not", RIG_LINES(&rig.nodes[0], "instruction-refused"),
               5);
    rig_close();
}

TEST(a_removed_shard_loses_its_instructions_and_its_gauge)
{
    double value;

    rig_open((struct rig_options){0});
    rig_report((struct rig_report){.shard = "shard-a", .cycle = 1});
    rig_report((struct rig_report){.shard = "shard-b", .cycle = 1});
    CHECK_U64("queued", rig_queue("shard-a", "it"), GRPC_OK);
    CHECK("shown", metric("bigfleet_coordinator_pending_instructions{shard=\"shard-a\"}") == 1);
    CHECK_U64("removed", rig_remove("shard-a"), GRPC_OK);
    CHECK("not shown any more",
          !rig_metric(&rig.nodes[0], "bigfleet_coordinator_pending_instructions{shard=\"shard-a\"}",
                      &value));
    CHECK("the other is",
          metric("bigfleet_coordinator_pending_instructions{shard=\"shard-b\"}") == 0);
    CHECK("counted",
          metric("muster_coordinator_instructions_dropped_total{reason=\"shard_removed\"}") == 1);
    CHECK_SIZE("back as new",
               rig_report((struct rig_report){.shard = "shard-a", .cycle = 2})->n_instructions, 0);
    CHECK_SIZE("and its report with it", rig_reports("")->n_reports, 0);
    rig_close();
}

TEST(queueing_by_hand_is_checked)
{
    Muster__V1__QueueInstructionRequest m = MUSTER__V1__QUEUE_INSTRUCTION_REQUEST__INIT;
    Bigfleet__V1alpha1__CoordinatorInstruction it =
        BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__INIT;
    Bigfleet__V1alpha1__TransferOwnership what = BIGFLEET__V1ALPHA1__TRANSFER_OWNERSHIP__INIT;
    char *shards[] = {(char *)(uintptr_t) "shard-a", (char *)(uintptr_t) "shard-b"};
    char long_id[200];
    const Muster__V1__QueueInstructionResponse *queued;
    const Muster__V1__ListInstructionsResponse *list;
    char id[32];

    rig_open((struct rig_options){.limits = {.pending_max = 2}});
    CHECK_U64("a", rig_add("shard-a", ""), GRPC_OK);
    check_refused("shards", ".QueueInstruction", &m.base, GRPC_INVALID_ARGUMENT, "shard_ids");
    m.n_shard_ids = 2;
    m.shard_ids = shards;
    check_refused("it", ".QueueInstruction", &m.base, GRPC_INVALID_ARGUMENT, "instruction");
    m.instruction = &it;
    check_refused("payload", ".QueueInstruction", &m.base, GRPC_INVALID_ARGUMENT, "payload");
    it.payload_case = BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_TRANSFER_OWNERSHIP;
    it.transfer_ownership = &what;
    what.from_shard_id = (char *)(uintptr_t) "shard-a";
    memset(long_id, 'x', sizeof long_id - 1);
    long_id[sizeof long_id - 1] = '\0';
    it.instruction_id = long_id;
    check_refused("id", ".QueueInstruction", &m.base, GRPC_INVALID_ARGUMENT, "instruction_id");
    it.instruction_id = (char *)(uintptr_t) "";
    check_refused("b", ".QueueInstruction", &m.base, GRPC_NOT_FOUND, "shard-b");
    CHECK_SIZE("all or none", rig_instructions("")->n_instructions, 0);
    CHECK_U64("b", rig_add("shard-b", ""), GRPC_OK);
    it.coordinator_term = 99;
    it.sequence_number = 99;
    queued = rig_message(rig_call((struct rig_call){0}, ".QueueInstruction", &m.base),
                         &muster__v1__queue_instruction_response__descriptor);
    CHECK_SIZE("an id is drawn", strlen(queued->instruction_id), 16);
    snprintf(id, sizeof id, "%s", queued->instruction_id);
    list = rig_instructions("");
    CHECK_SIZE("to both", list->n_instructions, 2);
    for (size_t i = 0; i < 2; i++) {
        CHECK_TEXT("under one id", list->instructions[i]->instruction->instruction_id, id);
        CHECK_I64("the leader's term", list->instructions[i]->instruction->coordinator_term,
                  (int64_t)replica_status(rig.nodes[0].replica).term);
        CHECK_I64("the leader's number; one was used for the refused shard",
                  list->instructions[i]->instruction->sequence_number, 2);
        CHECK_TEXT("as it came",
                   list->instructions[i]->instruction->transfer_ownership->from_shard_id,
                   "shard-a");
    }
    CHECK_U64("one more", rig_queue("shard-a", "x"), GRPC_OK);
    CHECK_U64("full", rig_queue("shard-a", "y"), GRPC_RESOURCE_EXHAUSTED);
    CHECK_U64("one of them again", rig_queue("shard-a", "x"), GRPC_OK);
    CHECK_SIZE("audited",
               RIG_LINES(&rig.nodes[0], "\"audit\":\"QueueInstruction\"", "TransferOwnership",
                         "\"actor\":\"plaintext:"),
               2);
    rig_close();
}

/* A client would read a refusal as "nothing was done", although half of it was queued. */
TEST(an_instruction_without_room_for_all_is_queued_for_none)
{
    Muster__V1__QueueInstructionRequest m = MUSTER__V1__QUEUE_INSTRUCTION_REQUEST__INIT;
    Bigfleet__V1alpha1__CoordinatorInstruction it =
        BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__INIT;
    Bigfleet__V1alpha1__TransferOwnership what = BIGFLEET__V1ALPHA1__TRANSFER_OWNERSHIP__INIT;
    char *shards[] = {(char *)(uintptr_t) "shard-a", (char *)(uintptr_t) "shard-b",
                      (char *)(uintptr_t) "shard-a"};
    char text[300];
    struct rig_answer *answer;

    rig_open((struct rig_options){.limits = {.soft_bytes_max = 600}});
    CHECK_U64("a", rig_add("shard-a", ""), GRPC_OK);
    CHECK_U64("b", rig_add("shard-b", ""), GRPC_OK);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    what.from_shard_id = text;
    it.payload_case = BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_TRANSFER_OWNERSHIP;
    it.transfer_ownership = &what;
    it.instruction_id = (char *)(uintptr_t) "one";
    m.shard_ids = shards;
    m.instruction = &it;
    m.n_shard_ids = 2;
    answer = rig_call((struct rig_call){0}, ".QueueInstruction", &m.base);
    CHECK_U64("no room for both", answer->status, GRPC_RESOURCE_EXHAUSTED);
    CHECK_HAS("the second is named", answer->text, "shard-b");
    CHECK_TEXT("not applied", answer->applied, "no");
    CHECK_SIZE("nor was it", rig_instructions("")->n_instructions, 0);
    shards[1] = shards[0];
    CHECK_U64("one of them, named twice",
              rig_call((struct rig_call){0}, ".QueueInstruction", &m.base)->status, GRPC_OK);
    CHECK_U64("and again", rig_call((struct rig_call){0}, ".QueueInstruction", &m.base)->status,
              GRPC_OK);
    CHECK_SIZE("once", rig_instructions("")->n_instructions, 1);
    rig_close();
}

TEST(a_full_queue_keeps_no_domain_from_being_assigned)
{
    rig_open((struct rig_options){.limits = {.pending_max = 2}});
    CHECK_U64("a", rig_add("shard-a", ""), GRPC_OK);
    CHECK_U64("1", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    CHECK_U64("2", rig_assign("rack", "r-2", "shard-a"), GRPC_OK);
    CHECK_U64("3", rig_assign("rack", "r-3", "shard-a"), GRPC_OK);
    CHECK_SIZE("the tables hold it", domains().n_assignments, 3);
    CHECK_SIZE("the instruction is not kept", rig_instructions("")->n_instructions, 2);
    CHECK("counted", metric("muster_coordinator_instructions_dropped_total{reason=\"full\"}") == 1);
    rig_close();
}

/* -- reports: order and bounds -- */

TEST(late_reports_lose_their_data_and_nothing_else)
{
    const Bigfleet__V1alpha1__ReportAck *ack;

    rig_open((struct rig_options){0});
    rig_report((struct rig_report){.shard = "s", .epoch = 1, .cycle = 10, .total = 10});
    CHECK_U64("queued", rig_queue("s", "it"), GRPC_OK);
    ack = rig_report((struct rig_report){
        .shard = "s", .epoch = 1, .cycle = 9, .total = 9, .ack = "it", .outcome = 1});
    CHECK_SIZE("its ack counts", ack->n_instructions, 0);
    CHECK("it is acknowledged", ack->acknowledged);
    CHECK_I64("its summary does not", rig_reports("")->reports[0]->summary->total_machines, 10);
    rig_report((struct rig_report){.shard = "s", .epoch = 2, .cycle = 1, .total = 5});
    CHECK_I64("a restarted shard counts", rig_reports("")->reports[0]->summary->total_machines, 5);
    CHECK("counted", metric("muster_coordinator_reports_total{result=\"late\"}") == 1);
    CHECK("counted", metric("muster_coordinator_reports_total{result=\"taken\"}") == 2);
    rig_close();
}

TEST(shortfalls_go_when_a_summary_names_none)
{
    rig_open((struct rig_options){0});
    rig_report((struct rig_report){.shard = "s", .cycle = 1, .total = 10, .shortfalls = 3});
    CHECK_SIZE("three", rig_reports("")->reports[0]->n_shortfalls, 3);
    rig_report((struct rig_report){.shard = "s", .cycle = 2});
    CHECK_SIZE("no summary: they stay", rig_reports("")->reports[0]->n_shortfalls, 3);
    rig_report((struct rig_report){.shard = "s", .cycle = 3, .total = 10});
    CHECK_SIZE("none", rig_reports("")->reports[0]->n_shortfalls, 0);
    rig_report((struct rig_report){.shard = "s", .cycle = 4, .total = 10, .shortfalls = 250});
    CHECK_SIZE("at most 100", rig_reports("")->reports[0]->n_shortfalls, 100);
    CHECK_I64("the worst", rig_reports("")->reports[0]->shortfalls[99]->priority, 901);
    rig_close();
}

TEST(silence_is_an_event_and_so_is_its_end)
{
    rig_open((struct rig_options){.limits = {.silent_after_ms = 5000}});
    rig_report((struct rig_report){.shard = "s", .cycle = 1});
    rig_run(4000);
    CHECK_SIZE("not yet", RIG_LINES(&rig.nodes[0], "shard-silent"), 0);
    rig_run(3000);
    CHECK_SIZE("once", RIG_LINES(&rig.nodes[0], "\"event\":\"shard-silent\"", "\"shard\":\"s\""),
               1);
    CHECK("shown", metric("muster_coordinator_shards_silent") == 1);
    rig_run(30000);
    CHECK_SIZE("and once only", RIG_LINES(&rig.nodes[0], "shard-silent"), 1);
    rig_report((struct rig_report){.shard = "s", .cycle = 2});
    CHECK_SIZE("back", RIG_LINES(&rig.nodes[0], "\"event\":\"shard-back\""), 1);
    rig_run(1100);
    CHECK("shown", metric("muster_coordinator_shards_silent") == 0);
    rig_close();
}

/* -- the audit -- */

TEST(every_change_is_audited_with_its_actor)
{
    rig_open((struct rig_options){0});
    CHECK_U64("a", rig_add("shard-a", "h:1"), GRPC_OK);
    CHECK_U64("assign", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    CHECK_U64("refused", rig_assign("rack", "r-1", "nobody"), GRPC_NOT_FOUND);
    CHECK_U64("remove", rig_remove("shard-a"), GRPC_OK);
    CHECK_SIZE("added",
               RIG_LINES(&rig.nodes[0], "\"audit\":\"AddShard\"", "\"shard\":\"shard-a\"",
                         "\"address\":\"h:1\"", "\"changed\":true",
                         "\"actor\":\"plaintext:", "\"index\":"),
               1);
    CHECK_SIZE("assigned",
               RIG_LINES(&rig.nodes[0], "\"audit\":\"AssignDomain\"", "\"result\":\"done\"",
                         "\"key\":\"rack\""),
               1);
    CHECK_SIZE("refused calls, too",
               RIG_LINES(&rig.nodes[0], "\"audit\":\"AssignDomain\"",
                         "\"result\":\"shard not found\"", "\"changed\":false"),
               1);
    CHECK_SIZE("removed", RIG_LINES(&rig.nodes[0], "\"audit\":\"RemoveShard\""), 1);
    rig_close();
}

/* -- --bootstrap-state -- */

TEST(a_first_leader_proposes_the_bootstrap_state)
{
    struct fleet_seed seed = {.count = 0};
    struct note note = {""};
    Bigfleet__V1alpha1__ListProvidersRequest m = BIGFLEET__V1ALPHA1__LIST_PROVIDERS_REQUEST__INIT;
    const Bigfleet__V1alpha1__ListProvidersResponse *providers;
    struct buf text;

    buf_init(&text, 1 << 20);
    CHECK_OK("text", buf_append_c(&text, "{\"providers\":["));
    for (int i = 0; i < 150; i++) /* more than one batch */
        CHECK_OK("row", buf_appendf(&text, "%s{\"name\":\"p-%03d\"}", i ? "," : "", i));
    CHECK_OK("text",
             buf_append_c(&text, "],\"quotas\":[{\"provider\":\"aws\",\"region\":\"r\"}]}"));
    CHECK_ERR(note.text, fleet_seed_parse(buf_peek(&text), &seed, &note), ERR_OK);
    rig_open((struct rig_options){.seed = &seed});
    rig_leader();
    rig_run(5000);
    providers = rig_message(rig_call((struct rig_call){0}, "ListProviders", &m.base),
                            &bigfleet__v1alpha1__list_providers_response__descriptor);
    CHECK_SIZE("all of them", providers->n_providers, 150);
    CHECK_SIZE("the quota too",
               RIG_LINES(&rig.nodes[0], "\"audit\":\"SetQuota\"", "\"actor\":\"bootstrap-state\""),
               1);
    rig_close();
    fleet_seed_deinit(&seed);
    buf_deinit(&text);
}

/* -- snapshots -- */

static uint64_t snapshot_after(uint64_t ms)
{
    rig_run(ms);
    return replica_status(rig.nodes[0].replica).snapshot;
}

static uint64_t size_of_tables(void)
{
    struct state_machine fleet =
        fleet_machine_registration(fleet_service_machine(rig.nodes[0].service));

    return fleet.ops->size(fleet.state);
}

/* With the defaults: a check every 30 s; a snapshot needs 1,024 entries and as many bytes of log as
 * the last snapshot has. */
TEST(large_tables_are_not_written_again_for_a_few_entries)
{
    enum { LOOK_MS = 30000 };
    char name[32], address[FLEET_ADDRESS_MAX + 1], key[FLEET_LABEL_KEY_MAX + 1];
    uint64_t snapshot, tables;
    struct replica_status status;

    memset(address, 'a', sizeof address);
    address[FLEET_ADDRESS_MAX] = '\0';
    memset(key, 'k', sizeof key);
    key[FLEET_LABEL_KEY_MAX] = '\0';
    rig_open((struct rig_options){0});
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "shard-%d", i);
        CHECK_U64("added", rig_add(name, address), GRPC_OK);
    }
    CHECK_U64("too few entries", snapshot_after(3 * LOOK_MS), 0);
    for (int i = 0; i < 100; i++) CHECK_U64("one more", rig_unassign("no", "such"), GRPC_OK);
    snapshot = snapshot_after(2 * LOOK_MS);
    CHECK("enough", snapshot > 1024);
    tables = size_of_tables();
    CHECK("large tables", tables > 1000 * FLEET_ADDRESS_MAX);

    for (int i = 0; i < 1100; i++) CHECK_U64("one more", rig_unassign("no", "such"), GRPC_OK);
    CHECK_U64("enough entries, of few bytes", snapshot_after(3 * LOOK_MS), snapshot);
    CHECK_U64("the tables are as they were", size_of_tables(), tables);
    status = replica_status(rig.nodes[0].replica);
    CHECK("and there was something to write", status.applied > snapshot + 1024);
    for (int i = 0; i < 800; i++) CHECK_U64("a long one", rig_unassign(key, "such"), GRPC_OK);
    CHECK("now they outweigh it", snapshot_after(2 * LOOK_MS) > snapshot + 1024);
    CHECK_U64("though the tables are as they were", size_of_tables(), tables);
    snapshot = snapshot_after(0);
    CHECK_U64("an idle one is not written again", snapshot_after(10 * LOOK_MS), snapshot);
    rig_close();
}
