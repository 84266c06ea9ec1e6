/* SPDX-License-Identifier: Apache-2.0 */
/* Three coordinators: which replica answers, what a new leader knows, and what a leader that is cut
 * off must not answer. */
#include "service_rig.h"

#include <stdio.h>

static const Bigfleet__V1alpha1__ListShardsRequest list_shards =
    BIGFLEET__V1ALPHA1__LIST_SHARDS_REQUEST__INIT;

static struct transfer transfer;
static bool transferred;

static void on_transferred(struct transfer *t, enum err err, const struct note *note)
{
    (void)t;
    CHECK_ERR(note->text, err, ERR_OK);
    transferred = true;
}

static bool is_true(void *flag)
{
    return *(bool *)flag;
}

/* Hands leadership over and waits until the next leader serves requests. */
static struct rig_node *change_leader(void)
{
    struct rig_node *old = rig_leader(), *to = rig_other(old);

    transferred = false;
    transfer = (struct transfer){.to = to->number + 1, .done = on_transferred};
    replica_transfer(old->replica, &transfer);
    CHECK("handed over", sim_wait(rig.sim, is_true, &transferred, RIG_WAIT_MS) == SIM_REACHED);
    while (rig_leader() == old) rig_run(10);
    return rig_leader();
}

static double metric(const struct rig_node *node, const char *line)
{
    double value = -1;

    CHECK(line, rig_metric(node, line, &value));
    return value;
}

TEST(a_follower_names_the_leader_whatever_is_asked)
{
    static const struct {
        const char *method;
        const ProtobufCMessageDescriptor *input;
    } methods[] = {
        {"ReportShard", &bigfleet__v1alpha1__shard_report__descriptor},
        {"AssignDomain", &bigfleet__v1alpha1__assign_domain_request__descriptor},
        {"UnassignDomain", &bigfleet__v1alpha1__unassign_domain_request__descriptor},
        {"RemoveShard", &bigfleet__v1alpha1__remove_shard_request__descriptor},
        {"ListShards", &bigfleet__v1alpha1__list_shards_request__descriptor},
        {"ListDomainAssignments", &bigfleet__v1alpha1__list_domain_assignments_request__descriptor},
        {"ListShardReports", &bigfleet__v1alpha1__list_shard_reports_request__descriptor},
        {"ListQuotas", &bigfleet__v1alpha1__list_quotas_request__descriptor},
        {"ListProviders", &bigfleet__v1alpha1__list_providers_request__descriptor},
        {".AddShard", &muster__v1__add_shard_request__descriptor},
        {".BindCluster", &muster__v1__bind_cluster_request__descriptor},
        {".SetQuota", &muster__v1__set_quota_request__descriptor},
        {".UpsertProvider", &muster__v1__upsert_provider_request__descriptor},
        {".ListClusters", &muster__v1__list_clusters_request__descriptor},
        {".QueueInstruction", &muster__v1__queue_instruction_request__descriptor},
        {".ListInstructions", &muster__v1__list_instructions_request__descriptor},
    };
    struct rig_node *leader, *follower;

    rig_open((struct rig_options){.nodes = 3});
    leader = rig_leader();
    follower = rig_other(leader);
    rig_run(1000);
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        union {
            ProtobufCMessage base;
            char room[512];
        } empty;
        struct rig_answer *answer;

        CHECK("room", methods[i].input->sizeof_message <= sizeof empty);
        methods[i].input->message_init(&empty.base);
        answer = rig_call((struct rig_call){.node = follower}, methods[i].method, &empty.base);
        CHECK_U64(methods[i].method, answer->status, GRPC_FAILED_PRECONDITION);
        CHECK_TEXT(methods[i].method, answer->leader, leader->grpc);
    }
    rig_close();
}

TEST(a_new_leader_begins_with_nothing_and_so_does_an_old_one)
{
    struct rig_node *first, *second;
    double value;

    rig_open((struct rig_options){.nodes = 3});
    first = rig_leader();
    rig_report((struct rig_report){.shard = "s", .epoch = 3, .cycle = 9, .total = 10});
    CHECK_U64("queued", rig_queue("s", "it"), GRPC_OK);
    CHECK_SIZE("a report", rig_reports("")->n_reports, 1);
    second = change_leader();
    CHECK_SIZE("the table is there", rig_shards()->n_shards, 1);
    CHECK_I64("no contact with any shard yet", rig_shards()->shards[0]->last_heartbeat_unix_ns, 0);
    CHECK_SIZE("no report", rig_reports("")->n_reports, 0);
    CHECK_SIZE("no instruction", rig_instructions("")->n_instructions, 0);
    CHECK("the old one shows no queue",
          !rig_metric(first, "bigfleet_coordinator_pending_instructions{shard=\"s\"}", &value));
    CHECK("but counts the dropped ones",
          metric(first, "muster_coordinator_instructions_dropped_total{reason=\"term\"}") == 1);
    rig_report((struct rig_report){.shard = "s", .epoch = 3, .cycle = 1, .total = 4});
    CHECK_I64("the order restarts", rig_reports("")->reports[0]->summary->total_machines, 4);
    while (rig_leader() != first) change_leader();
    CHECK_SIZE("nor is anything left of its first time", rig_reports("")->n_reports, 0);
    CHECK_SIZE("of its first time", rig_instructions("")->n_instructions, 0);
    CHECK_I64("or had contact", rig_shards()->shards[0]->last_heartbeat_unix_ns, 0);
    CHECK("another one", second != first);
    rig_close();
}

TEST(the_term_is_shown_everywhere_and_the_leader_by_one)
{
    struct rig_node *leader;
    double leaders = 0;
    uint64_t term;

    rig_open((struct rig_options){.nodes = 3});
    rig_leader();
    leader = change_leader();
    rig_run(2000);
    term = replica_status(leader->replica).term;
    for (size_t i = 0; i < 3; i++) {
        CHECK("the term", metric(&rig.nodes[i], "bigfleet_coordinator_raft_term") == (double)term);
        leaders += metric(&rig.nodes[i], "muster_coordinator_is_leader");
    }
    CHECK("one", leaders == 1);
    CHECK("that one", metric(leader, "muster_coordinator_is_leader") == 1);
    rig_close();
}

TEST(leadership_and_members_are_events)
{
    struct rig_node *first, *second;

    rig_open((struct rig_options){.nodes = 3});
    first = rig_leader();
    second = change_leader();
    rig_run(1000);
    CHECK("gained", RIG_LINES(first, "\"event\":\"leadership-gained\"") >= 1);
    CHECK("lost", RIG_LINES(first, "\"event\":\"leadership-lost\"") >= 1);
    CHECK("gained", RIG_LINES(second, "\"event\":\"leadership-gained\"") >= 1);
    for (size_t i = 0; i < 3; i++) {
        CHECK("each knows both", RIG_LINES(&rig.nodes[i], "\"event\":\"leader-changed\"") >= 2);
        CHECK_SIZE("members", RIG_LINES(&rig.nodes[i], "members-changed", "\"voters\":3", "a:7791"),
                   1);
    }
    rig_close();
}

TEST(each_replica_audits_each_change)
{
    rig_open((struct rig_options){.nodes = 3});
    CHECK_U64("a", rig_add("shard-a", ""), GRPC_OK);
    rig_run(2000);
    for (size_t i = 0; i < 3; i++)
        CHECK_SIZE("each", RIG_LINES(&rig.nodes[i], "\"audit\":\"AddShard\"", "shard-a"), 1);
    CHECK_SIZE("but only the leader reports the shard",
               RIG_LINES(&rig.nodes[0], "shard-first-seen") +
                   RIG_LINES(&rig.nodes[1], "shard-first-seen") +
                   RIG_LINES(&rig.nodes[2], "shard-first-seen"),
               1);
    rig_close();
}

TEST(a_read_after_a_change_of_leaders_sees_what_was_acknowledged)
{
    rig_open((struct rig_options){.nodes = 3});
    for (int i = 0; i < 5; i++) {
        char shard[16];

        snprintf(shard, sizeof shard, "shard-%d", i);
        CHECK_U64("added", rig_add(shard, ""), GRPC_OK);
        change_leader();
        CHECK_SIZE("at once", rig_shards()->n_shards, (size_t)i + 1);
    }
    rig_close();
}

/* Cuts the leader off just after it answered each client: the clients are connected, and the leader
 * has not noticed yet. */
static struct rig_node *cut_leader(size_t clients)
{
    struct rig_node *leader = rig_leader();

    for (size_t i = 0; i < clients; i++)
        CHECK_U64("connected",
                  rig_call((struct rig_call){.node = leader, .client = i}, "ListShards",
                           &list_shards.base)
                      ->status,
                  GRPC_OK);
    rig_cut(leader, true);
    return leader;
}

/* The old leader is cut off, still claims to lead, and a client asks it. */
TEST(a_cut_leader_answers_nothing)
{
    struct rig_answer read, report, write;
    Bigfleet__V1alpha1__ShardReport m = BIGFLEET__V1ALPHA1__SHARD_REPORT__INIT;
    Muster__V1__AddShardRequest add = MUSTER__V1__ADD_SHARD_REQUEST__INIT;
    struct rig_node *old;

    rig_open((struct rig_options){.nodes = 3});
    rig_report((struct rig_report){.shard = "s", .cycle = 1, .total = 1});
    CHECK_U64("queued", rig_queue("s", "it"), GRPC_OK);
    old = cut_leader(1);
    m.shard_id = (char *)(uintptr_t) "s";
    m.cycle = 2;
    add.shard_id = (char *)(uintptr_t) "late";
    rig_start(&read, (struct rig_call){.node = old}, "ListShards", &list_shards.base);
    rig_start(&report, (struct rig_call){.node = old}, "ReportShard", &m.base);
    rig_start(&write, (struct rig_call){.node = old}, ".AddShard", &add.base);
    rig_run(20);
    CHECK("it leads, it thinks", replica_status(old->replica).role == REPLICA_LEADER);
    CHECK("no answer without a majority", !read.done && !report.done && !write.done);
    while (rig_leader() == old) rig_run(10);
    CHECK_U64("the next one goes on", rig_add("next", ""), GRPC_OK);
    rig_wait(&read);
    rig_wait(&report);
    rig_wait(&write);
    CHECK("no read", read.status != GRPC_OK);
    CHECK("no report", report.status != GRPC_OK);
    CHECK_ERR("the write is a don't know", write.err, ERR_UNKNOWN);
    CHECK_U64("the original's text", write.status, GRPC_UNAVAILABLE);
    CHECK_TEXT("and never a no", write.applied, "(none)");
    rig_cut(old, false);
    rig_run(3000);
    CHECK_SIZE("nothing of it is left", rig_shards()->n_shards, 2);
    rig_answer_deinit(&read);
    rig_answer_deinit(&report);
    rig_answer_deinit(&write);
    rig_close();
}

/* A leader that cannot confirm its leadership gives up after wait_ms and answers that nothing was
 * done. */
TEST(a_read_without_a_majority_ends_in_time)
{
    struct rig_answer *answer;
    struct rig_node *old;

    rig_open((struct rig_options){.nodes = 3, .limits = {.wait_ms = 50}});
    old = cut_leader(1);
    answer = rig_call((struct rig_call){.node = old}, "ListShards", &list_shards.base);
    CHECK_U64("unavailable", answer->status, GRPC_UNAVAILABLE);
    CHECK_HAS("why", answer->text, "no majority answered within 50 ms");
    CHECK_TEXT("nothing was done", answer->applied, "no");
    rig_close();
}

TEST(a_write_without_a_majority_ends_in_time)
{
    Muster__V1__AddShardRequest add = MUSTER__V1__ADD_SHARD_REQUEST__INIT;
    struct rig_answer *answer;
    struct rig_node *old;
    double value = 0;

    rig_open((struct rig_options){.nodes = 3, .limits = {.wait_ms = 50}});
    old = cut_leader(1);
    add.shard_id = (char *)(uintptr_t) "late";
    answer = rig_call((struct rig_call){.node = old}, ".AddShard", &add.base);
    CHECK_U64("unavailable", answer->status, GRPC_UNAVAILABLE);
    CHECK_HAS("why", answer->text, "AddShard: no majority confirmed it");
    CHECK("while it still leads, it thinks", replica_status(old->replica).role == REPLICA_LEADER);
    CHECK_TEXT("perhaps it was done", answer->applied, "(none)");
    CHECK("counted",
          rig_metric(old, "bigfleet_coordinator_apply_total{outcome=\"error\"}", &value) &&
              value == 1);
    rig_close();
}

TEST(calls_past_the_limit_get_its_error)
{
    struct rig_answer answers[3];
    struct rig_node *old;
    size_t full = 0;

    rig_open((struct rig_options){.nodes = 3, .limits = {.requests_max = 2}});
    old = cut_leader(3);
    for (size_t i = 0; i < 3; i++)
        rig_start(&answers[i], (struct rig_call){.node = old, .client = i}, "ListShards",
                  &list_shards.base);
    rig_run(30);
    for (size_t i = 0; i < 3; i++) { /* in any order */
        if (!answers[i].done) continue;
        full++;
        CHECK_U64("full", answers[i].status, GRPC_RESOURCE_EXHAUSTED);
        CHECK_HAS("named", answers[i].text, "2 calls are under way");
        CHECK_TEXT("nothing was done", answers[i].applied, "no");
    }
    CHECK_SIZE("one of the three", full, 1);
    for (size_t i = 0; i < 3; i++) {
        rig_wait(&answers[i]);
        rig_answer_deinit(&answers[i]);
    }
    rig_close();
}

TEST(a_caller_that_goes_away_leaves_nothing_behind)
{
    Muster__V1__AddShardRequest add = MUSTER__V1__ADD_SHARD_REQUEST__INIT;
    struct rig_answer read, write;
    struct rig_node *old;

    rig_open((struct rig_options){.nodes = 3});
    old = cut_leader(1);
    add.shard_id = (char *)(uintptr_t) "late";
    rig_start(&read, (struct rig_call){.node = old, .timeout_ms = 30}, "ListShards",
              &list_shards.base);
    rig_start(&write, (struct rig_call){.node = old, .timeout_ms = 30}, ".AddShard", &add.base);
    rig_wait(&read);
    rig_wait(&write);
    CHECK_ERR("a don't know", write.err, ERR_UNKNOWN);
    rig_cut(old, false);
    rig_run(10000);
    CHECK("the service goes on", rig_shards()->n_shards <= 1);
    rig_answer_deinit(&read);
    rig_answer_deinit(&write);
    rig_close();
}

static struct rig_node *unready;

static bool somebody_leads_unready(void *context)
{
    (void)context;
    for (size_t i = 0; i < rig.nodes_count; i++) {
        struct replica_status status = replica_status(rig.nodes[i].replica);

        if (status.role == REPLICA_LEADER && !status.ready) {
            unready = &rig.nodes[i];
            return true;
        }
    }
    return false;
}

/* Finds a leader whose first own entry is not committed yet, and cuts it off before the commit. */
static void find_unready(void)
{
    CHECK("elected", sim_wait(rig.sim, somebody_leads_unready, NULL, RIG_WAIT_MS) == SIM_REACHED);
    rig_cut(unready, true);
}

TEST(calls_wait_for_a_leader_that_is_not_ready)
{
    Muster__V1__AddShardRequest add = MUSTER__V1__ADD_SHARD_REQUEST__INIT;
    struct rig_answer read, write;

    rig_open((struct rig_options){.nodes = 3});
    find_unready();
    add.shard_id = (char *)(uintptr_t) "early";
    rig_start(&write, (struct rig_call){.node = unready}, ".AddShard", &add.base);
    rig_start(&read, (struct rig_call){.node = unready}, "ListShards", &list_shards.base);
    rig_run(30);
    CHECK("they wait", !read.done && !write.done);
    CHECK("it is not ready", !replica_status(unready->replica).ready);
    CHECK("but leads", replica_status(unready->replica).role == REPLICA_LEADER);
    rig_cut(unready, false);
    rig_wait(&write);
    rig_wait(&read);
    CHECK_U64(write.text, write.status, GRPC_OK);
    CHECK_U64(read.text, read.status, GRPC_OK);
    rig_answer_deinit(&read);
    rig_answer_deinit(&write);
    rig_close();
}

TEST(calls_that_waited_for_nothing_are_sent_on)
{
    struct rig_answer read;

    rig_open((struct rig_options){.nodes = 3});
    find_unready();
    rig_start(&read, (struct rig_call){.node = unready}, "ListShards", &list_shards.base);
    rig_wait(&read); /* it steps down, because no replica answers it */
    CHECK_U64("not the leader", read.status, GRPC_FAILED_PRECONDITION);
    rig_answer_deinit(&read);
    rig_close();
}

TEST(a_call_waits_no_longer_than_it_should)
{
    struct rig_answer read;

    rig_open((struct rig_options){.nodes = 3, .limits = {.wait_ms = 20}});
    find_unready();
    rig_start(&read, (struct rig_call){.node = unready}, "ListShards", &list_shards.base);
    rig_wait(&read);
    CHECK_U64("unavailable", read.status, GRPC_UNAVAILABLE);
    CHECK_HAS("why", read.text, "the leader is not ready yet");
    CHECK_TEXT("nothing was done", read.applied, "no");
    rig_answer_deinit(&read);
    rig_close();
}

TEST(shards_silent_under_the_last_leader_are_counted_again)
{
    struct rig_node *next;

    rig_open((struct rig_options){.nodes = 3, .limits = {.silent_after_ms = 5000}});
    rig_report((struct rig_report){.shard = "s", .cycle = 1});
    rig_run(1000); /* the others have applied it */
    next = change_leader();
    rig_run(3000);
    CHECK_SIZE("not yet", RIG_LINES(next, "shard-silent"), 0);
    rig_run(4000);
    CHECK_SIZE("it never reported here", RIG_LINES(next, "shard-silent", "\"reported\":false"), 1);
    rig_close();
}

/* A client whose answer was lost asks the next leader with the same id. */
TEST(a_repeat_under_the_same_id_is_applied_once_under_any_leader)
{
    Muster__V1__AddShardRequest add = MUSTER__V1__ADD_SHARD_REQUEST__INIT;
    Bigfleet__V1alpha1__RemoveShardRequest remove = BIGFLEET__V1ALPHA1__REMOVE_SHARD_REQUEST__INIT;
    struct rig_call added = {.request_id = "add-1"}, removed = {.request_id = "remove-1"};

    add.shard_id = (char *)(uintptr_t) "s";
    remove.shard_id = (char *)(uintptr_t) "s";
    rig_open((struct rig_options){.nodes = 3});
    CHECK_U64("added", rig_call(added, ".AddShard", &add.base)->status, GRPC_OK);
    change_leader();
    CHECK_U64("again", rig_call(added, ".AddShard", &add.base)->status, GRPC_OK);
    CHECK_U64("another request", rig_add("s", ""), GRPC_ALREADY_EXISTS);
    CHECK_U64("removed", rig_call(removed, "RemoveShard", &remove.base)->status, GRPC_OK);
    change_leader();
    CHECK_U64("again", rig_call(removed, "RemoveShard", &remove.base)->status, GRPC_OK);
    CHECK_U64("late", rig_call(added, ".AddShard", &add.base)->status, GRPC_OK);
    CHECK_SIZE("and nothing comes back", rig_shards()->n_shards, 0);
    CHECK_SIZE("audited once", RIG_LINES(rig_leader(), "\"audit\":\"RemoveShard\""), 1);
    rig_close();
}

/* Proxies pass one id to all calls of a trace, and scripts use one id for several commands: a new
 * request under a known id is no repeat. */
TEST(another_request_under_the_same_id_is_applied)
{
    static const char *const values[] = {"r-1", "r-2", "r-1"};
    Bigfleet__V1alpha1__AssignDomainRequest assign =
        BIGFLEET__V1ALPHA1__ASSIGN_DOMAIN_REQUEST__INIT;
    struct rig_call call = {.request_id = "trace"};
    Muster__V1__AddShardRequest add = MUSTER__V1__ADD_SHARD_REQUEST__INIT;

    rig_open((struct rig_options){.nodes = 1});
    for (size_t i = 0; i < 2; i++) {
        add.shard_id = (char *)(uintptr_t)(i ? "b" : "a");
        CHECK_U64("added", rig_call(call, ".AddShard", &add.base)->status, GRPC_OK);
    }
    CHECK_SIZE("both", rig_shards()->n_shards, 2);
    assign.topology_key = (char *)(uintptr_t) "rack";
    assign.shard_id = (char *)(uintptr_t) "a";
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        assign.topology_value = (char *)(uintptr_t)values[i];
        CHECK_U64(values[i], rig_call(call, "AssignDomain", &assign.base)->status, GRPC_OK);
    }
    CHECK_U64("r-1 is taken", rig_assign("rack", "r-1", "b"), GRPC_ALREADY_EXISTS);
    CHECK_U64("r-2 is taken", rig_assign("rack", "r-2", "b"), GRPC_ALREADY_EXISTS);
    CHECK_SIZE("the third was a repeat",
               RIG_LINES(rig_leader(), "\"audit\":\"AssignDomain\"", "\"changed\":true"), 2);
    rig_close();
}
