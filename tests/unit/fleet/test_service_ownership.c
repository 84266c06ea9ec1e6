/* SPDX-License-Identifier: Apache-2.0 */
/* Domains that move between two owners, and shards that own the same machines: design.md section 6.
 * */
#include "service_rig.h"

#include <stdio.h>

enum { LEVEL = 4, SILENT_MS = 5000 };
#define ACCEPTED BIGFLEET__V1ALPHA1__INSTRUCT_ACK__OUTCOME__OUTCOME_ACCEPTED
#define FAILED   BIGFLEET__V1ALPHA1__INSTRUCT_ACK__OUTCOME__OUTCOME_FAILED

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

static void change_leader(void)
{
    struct rig_node *old = rig_leader(), *to = rig_other(old);

    transferred = false;
    transfer = (struct transfer){.to = to->number + 1, .done = on_transferred};
    replica_transfer(old->replica, &transfer);
    CHECK("handed over", sim_wait(rig.sim, is_true, &transferred, RIG_WAIT_MS) == SIM_REACHED);
    while (rig_leader() == old) rig_run(10);
}

static void open_at_level(size_t nodes, uint32_t level)
{
    rig_open((struct rig_options){
        .nodes = nodes, .level = level, .limits = {.silent_after_ms = SILENT_MS}});
    while (replica_status(rig_leader()->replica).level < level) rig_run(10);
}

static double metric(const char *line)
{
    double value = -1;

    CHECK(line, rig_metric(rig_leader(), line, &value));
    return value;
}

static const Muster__V1__ListOwnershipIssuesResponse *issues(void)
{
    Muster__V1__ListOwnershipIssuesRequest m = MUSTER__V1__LIST_OWNERSHIP_ISSUES_REQUEST__INIT;

    return rig_message(rig_call((struct rig_call){0}, ".ListOwnershipIssues", &m.base),
                       &muster__v1__list_ownership_issues_response__descriptor);
}

/* The id of the UnassignDomain in the answer to a report; "" when there is none. */
static const char *instructed_to_leave(struct rig_report report)
{
    static char id[64];
    const Bigfleet__V1alpha1__ReportAck *ack = rig_report(report);

    id[0] = '\0';
    for (size_t i = 0; i < ack->n_instructions; i++)
        if (ack->instructions[i]->payload_case ==
            BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_UNASSIGN_DOMAIN)
            snprintf(id, sizeof id, "%s", ack->instructions[i]->instruction_id);
    return id;
}

static void report_ack(const char *shard, int64_t cycle, const char *id,
                       Bigfleet__V1alpha1__InstructAck__Outcome outcome)
{
    rig_report((struct rig_report){.shard = shard, .cycle = cycle, .ack = id, .outcome = outcome});
    rig_run(500);
}

static enum grpc_status force_assign(const char *key, const char *value, const char *shard)
{
    Bigfleet__V1alpha1__AssignDomainRequest m = BIGFLEET__V1ALPHA1__ASSIGN_DOMAIN_REQUEST__INIT;

    m.topology_key = (char *)(uintptr_t)key;
    m.topology_value = (char *)(uintptr_t)value;
    m.shard_id = (char *)(uintptr_t)shard;
    m.force_two_owners = true;
    return rig_call((struct rig_call){0}, "AssignDomain", &m.base)->status;
}

static struct rig_answer *try_remove(const char *shard, bool force)
{
    Bigfleet__V1alpha1__RemoveShardRequest m = BIGFLEET__V1ALPHA1__REMOVE_SHARD_REQUEST__INIT;

    m.shard_id = (char *)(uintptr_t)shard;
    m.force_two_owners = force;
    return rig_call((struct rig_call){0}, "RemoveShard", &m.base);
}

/* -- leaving domains -- */

TEST(an_unassignment_outlives_the_leader_that_took_it)
{
    char id[64];

    open_at_level(3, LEVEL);
    rig_report((struct rig_report){.shard = "a", .cycle = 1});
    rig_report((struct rig_report){.shard = "b", .cycle = 1});
    CHECK_U64("owned", rig_assign("z", "1", "a"), GRPC_OK);
    CHECK_U64("taken away", rig_unassign("z", "1"), GRPC_OK);
    for (int i = 0; i < 3; i++) { /* the shard reports to none of these leaders */
        change_leader();
        CHECK_U64("not to another", rig_assign("z", "1", "b"), GRPC_FAILED_PRECONDITION);
    }
    CHECK_SIZE("listed", issues()->n_leaving, 1);
    CHECK_TEXT("the owner", issues()->leaving[0]->shard_id, "a");
    snprintf(id, sizeof id, "%s",
             instructed_to_leave((struct rig_report){.shard = "a", .cycle = 2}));
    CHECK("instructed by a leader that did not take it", id[0]);
    CHECK_U64("not acknowledged", rig_assign("z", "1", "b"), GRPC_FAILED_PRECONDITION);
    report_ack("a", 3, id, ACCEPTED);
    CHECK_SIZE("given up", issues()->n_leaving, 0);
    CHECK_SIZE("an event", RIG_LINES(rig_leader(), "\"event\":\"domain-given-up\""), 1);
    CHECK_U64("free", rig_assign("z", "1", "b"), GRPC_OK);
    CHECK_TEXT("reported once", instructed_to_leave((struct rig_report){.shard = "a", .cycle = 4}),
               "");
    rig_close();
}

TEST(an_acknowledgement_that_does_not_accept_is_asked_for_again)
{
    char first[64], second[64];

    open_at_level(1, LEVEL);
    rig_report((struct rig_report){.shard = "a", .cycle = 1});
    rig_assign("z", "1", "a");
    rig_unassign("z", "1");
    snprintf(first, sizeof first, "%s",
             instructed_to_leave((struct rig_report){.shard = "a", .cycle = 2}));
    CHECK_TEXT("nothing is known", issues()->leaving[0]->reason, "");
    for (int64_t cycle = 3; cycle < 8; cycle++)
        rig_report((struct rig_report){.shard = "a",
                                       .cycle = cycle,
                                       .ack = first,
                                       .outcome = FAILED,
                                       .reason = cycle < 7 ? "3 machines serve" : "1 serves"});
    CHECK_SIZE("still leaving", issues()->n_leaving, 1);
    CHECK_TEXT("why, as of the last report", issues()->leaving[0]->reason, "1 serves");
    CHECK_SIZE("one event", RIG_LINES(rig_leader(), "\"event\":\"instruction-refused\""), 1);
    snprintf(second, sizeof second, "%s",
             instructed_to_leave((struct rig_report){.shard = "a", .cycle = 8}));
    CHECK_TEXT("it waits", second, first);
    report_ack("a", 9, "another", ACCEPTED);
    CHECK_SIZE("an instruction that does not wait proves nothing", issues()->n_leaving, 1);
    report_ack("a", 10, second, ACCEPTED);
    CHECK_SIZE("given up", issues()->n_leaving, 0);
    rig_close();
}

/* -- shards that own everything -- */

static const Bigfleet__V1alpha1__ShardReport__Scope everything =
    BIGFLEET__V1ALPHA1__SHARD_REPORT__SCOPE__SCOPE_EVERYTHING;
static const Bigfleet__V1alpha1__ShardReport__Scope scoped =
    BIGFLEET__V1ALPHA1__SHARD_REPORT__SCOPE__SCOPE_DOMAINS;

static bool is_instructed_to_take(const Bigfleet__V1alpha1__ReportAck *ack)
{
    for (size_t i = 0; i < ack->n_instructions; i++)
        if (ack->instructions[i]->payload_case ==
            BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_ASSIGN_DOMAIN)
            return true;
    return false;
}

TEST(a_domain_that_a_shard_was_never_sent_does_not_limit_it)
{
    struct rig_report a = {.shard = "a", .scope = everything, .cycle = 1};

    open_at_level(1, LEVEL);
    rig_report(a);
    rig_assign("z", "1", "a");
    rig_unassign("z", "1");
    a.cycle = 2;
    CHECK("not instructed to take it", !is_instructed_to_take(rig_report(a)));
    a.cycle = 3;
    a.ack = instructed_to_leave(a);
    CHECK("asked to leave it", a.ack[0]);
    a.outcome = FAILED;
    a.cycle = 4;
    rig_report(a);
    rig_run(500);
    CHECK_SIZE("it never had it", issues()->n_leaving, 0);
    CHECK_SIZE("nothing waits", rig_instructions("a")->n_instructions, 0);
    CHECK_SIZE("no news", RIG_LINES(rig_leader(), "\"event\":\"instruction-refused\""), 0);
    rig_close();
}

/* The shard may have applied the assignment and lost its disk since: another shard gets the domain
 * only when an operator forces it. */
TEST(a_domain_that_a_shard_was_sent_stays_leaving_until_it_accepts)
{
    struct rig_report a = {.shard = "a", .scope = everything, .cycle = 1};
    char id[64];

    open_at_level(1, LEVEL);
    rig_report(a);
    rig_assign("z", "1", "a");
    a.cycle = 2;
    CHECK("reported", is_instructed_to_take(rig_report(a)));
    rig_unassign("z", "1");
    a.cycle = 3;
    snprintf(id, sizeof id, "%s", instructed_to_leave(a));
    for (a.cycle = 4; a.cycle < 9; a.cycle++) {
        a.ack = id;
        a.outcome = FAILED;
        CHECK("not instructed to take it", !is_instructed_to_take(rig_report(a)));
    }
    rig_run(500);
    CHECK_SIZE("leaving", issues()->n_leaving, 1);
    CHECK_TEXT("why", issues()->leaving[0]->reason, "because");
    CHECK_SIZE("one event", RIG_LINES(rig_leader(), "\"event\":\"instruction-refused\""), 1);
    a.scope = scoped;
    a.outcome = ACCEPTED;
    rig_report(a);
    rig_run(500);
    CHECK_SIZE("given up", issues()->n_leaving, 0);
    rig_close();
}

/* -- domains of other shards -- */

/* The case after a restore of tables from before a domain moved. */
TEST(a_shard_that_acts_on_a_domain_of_another_shard_is_found_and_notified)
{
    struct rig_report a = {.shard = "a", .cycle = 1, .key = "z", .value = "1"};
    struct rig_report b = {.shard = "b", .cycle = 1, .key = "z", .value = "1"};
    char id[64];

    open_at_level(1, LEVEL);
    rig_report(a);
    rig_report(b);
    CHECK_SIZE("nobody's by the tables", issues()->n_contested, 0);
    CHECK_U64("a's", rig_assign("z", "1", "a"), GRPC_OK);
    a.cycle = b.cycle = 2;
    rig_report(a);
    CHECK_SIZE("its own", issues()->n_contested, 0);
    snprintf(id, sizeof id, "%s", instructed_to_leave(b));
    CHECK("reported", id[0]);
    rig_run(1100);
    CHECK("counted", metric("muster_coordinator_domain_conflicts") == 1);
    CHECK_SIZE("an event",
               RIG_LINES(rig_leader(), "\"event\":\"domain-conflict\"", "\"shard\":\"b\"",
                         "\"owner\":\"a\""),
               1);
    CHECK_SIZE("listed", issues()->n_contested, 1);
    CHECK_TEXT("the shard", issues()->contested[0]->shard_id, "b");
    CHECK_TEXT("the owner", issues()->contested[0]->owner_id, "a");
    CHECK_TEXT("which", issues()->contested[0]->topology_value, "1");
    b.ack = id;
    b.outcome = FAILED;
    b.key = NULL; /* the domain is gone from the shard's disk, but machines still serve there */
    for (b.cycle = 3; b.cycle < 6; b.cycle++) rig_report(b);
    CHECK_TEXT("why", issues()->contested[0]->reason, "because");
    b.outcome = ACCEPTED;
    rig_report(b);
    rig_run(1100);
    CHECK("over", metric("muster_coordinator_domain_conflicts") == 0);
    CHECK_SIZE("an event", RIG_LINES(rig_leader(), "\"event\":\"domain-conflict-over\""), 1);
    CHECK_SIZE("one of each", RIG_LINES(rig_leader(), "\"event\":\"domain-conflict\""), 1);
    rig_close();
}

/* A domain that moves is no conflict: its last shard may keep it until it acknowledges. */
TEST(a_leaving_domain_is_sent_once)
{
    struct rig_report a = {.shard = "a", .cycle = 1, .key = "z", .value = "1"};

    open_at_level(1, LEVEL);
    rig_report(a);
    rig_report((struct rig_report){.shard = "b", .cycle = 1});
    rig_assign("z", "1", "a");
    rig_unassign("z", "1");
    CHECK_U64("forced", force_assign("z", "1", "b"), GRPC_OK);
    a.cycle = 2;
    rig_report(a);
    CHECK_SIZE("one instruction", rig_instructions("a")->n_instructions, 1);
    CHECK_SIZE("leaving", issues()->n_leaving, 1);
    CHECK_SIZE("not listed twice", issues()->n_contested, 0);
    rig_close();
}

/* The acknowledgement of the first unassignment must not end the second. */
TEST(a_domain_that_was_returned_is_acknowledged_again)
{
    char first[64];

    open_at_level(1, LEVEL);
    rig_report((struct rig_report){.shard = "a", .cycle = 1});
    rig_assign("z", "1", "a");
    rig_unassign("z", "1");
    snprintf(first, sizeof first, "%s",
             instructed_to_leave((struct rig_report){.shard = "a", .cycle = 2}));
    CHECK_U64("given back", rig_assign("z", "1", "a"), GRPC_OK);
    CHECK_SIZE("not leaving", issues()->n_leaving, 0);
    CHECK_U64("taken away again", rig_unassign("z", "1"), GRPC_OK);
    report_ack("a", 3, first, ACCEPTED);
    CHECK_SIZE("still leaving", issues()->n_leaving, 1);
    report_ack("a", 5, instructed_to_leave((struct rig_report){.shard = "a", .cycle = 4}),
               ACCEPTED);
    CHECK_SIZE("given up", issues()->n_leaving, 0);
    rig_close();
}

TEST(a_forced_assignment_leaves_the_mark_until_the_last_owner_acknowledged)
{
    open_at_level(1, LEVEL);
    rig_report((struct rig_report){.shard = "a", .cycle = 1});
    rig_report((struct rig_report){.shard = "b", .cycle = 1});
    rig_assign("z", "1", "a");
    rig_unassign("z", "1");
    CHECK_U64("forced", force_assign("z", "1", "b"), GRPC_OK);
    CHECK_SIZE("audited", RIG_LINES(rig_leader(), "\"audit\":\"AssignDomain\"", "\"force\":true"),
               1);
    CHECK_TEXT("both are shown", issues()->leaving[0]->owner_id, "b");
    report_ack("a", 3, instructed_to_leave((struct rig_report){.shard = "a", .cycle = 2}),
               ACCEPTED);
    CHECK_SIZE("given up", issues()->n_leaving, 0);
    rig_close();
}

TEST(below_level_4_domains_and_shards_go_as_before)
{
    open_at_level(1, LEVEL - 1);
    rig_report((struct rig_report){.shard = "a", .cycle = 1});
    rig_report((struct rig_report){.shard = "b", .cycle = 1});
    CHECK_U64("force is nothing there", force_assign("z", "1", "a"), GRPC_OK);
    CHECK_U64("taken away", rig_unassign("z", "1"), GRPC_OK);
    CHECK_U64("to another at once", rig_assign("z", "1", "b"), GRPC_OK);
    CHECK_U64("a shard that reports", rig_remove("b"), GRPC_OK);
    CHECK_U64("to another at once", rig_assign("z", "1", "a"), GRPC_OK);
    CHECK_SIZE("nothing is leaving", issues()->n_leaving, 0);
    rig_close();
}

/* -- RemoveShard -- */

TEST(a_shard_is_removed_only_when_it_is_silent_or_by_force)
{
    struct rig_answer *answer;

    open_at_level(3, LEVEL);
    rig_report((struct rig_report){.shard = "a", .cycle = 1});
    answer = try_remove("a", false);
    CHECK_U64("it reports", answer->status, GRPC_FAILED_PRECONDITION);
    CHECK_HAS("why", answer->text, "still acts on its machines");
    CHECK_TEXT("not a matter of the leader", answer->leader, "(none)");
    CHECK_U64("unknown as before", try_remove("nobody", false)->status, GRPC_NOT_FOUND);
    CHECK_U64("added by hand", rig_add("typo", "h:1"), GRPC_OK);
    rig_run(10);
    CHECK_U64("it never reported", try_remove("typo", false)->status, GRPC_OK);
    change_leader();
    answer = try_remove("a", false);
    CHECK_U64("a new leader does not know", answer->status, GRPC_FAILED_PRECONDITION);
    CHECK_HAS("why", answer->text, "does not know yet whether a lives");
    rig_run(SILENT_MS);
    CHECK_U64("silent", try_remove("a", false)->status, GRPC_OK);
    rig_report((struct rig_report){.shard = "b", .cycle = 1});
    CHECK_U64("forced", try_remove("b", true)->status, GRPC_OK);
    rig_close();
}

TEST(a_removed_shard_that_reports_again_gives_its_domains_up)
{
    char id[64];

    open_at_level(1, LEVEL);
    rig_report((struct rig_report){.shard = "a", .cycle = 1});
    rig_report((struct rig_report){.shard = "b", .cycle = 1});
    rig_assign("z", "1", "a");
    rig_assign("z", "2", "a");
    CHECK_U64("forced", try_remove("a", true)->status, GRPC_OK);
    CHECK_SIZE("both", issues()->n_leaving, 2);
    CHECK_U64("not to another", rig_assign("z", "1", "b"), GRPC_FAILED_PRECONDITION);
    snprintf(id, sizeof id, "%s",
             instructed_to_leave((struct rig_report){.shard = "a", .cycle = 2}));
    CHECK("instructed with the report that registers it", id[0]);
    CHECK_SIZE("of both", rig_instructions("a")->n_instructions, 2);
    report_ack("a", 3, id, ACCEPTED);
    CHECK_SIZE("one is left", issues()->n_leaving, 1);
    report_ack("a", 5, instructed_to_leave((struct rig_report){.shard = "a", .cycle = 4}),
               ACCEPTED);
    CHECK_SIZE("none", issues()->n_leaving, 0);
    CHECK_U64("free", rig_assign("z", "1", "b"), GRPC_OK);
    CHECK_U64("free", rig_assign("z", "2", "b"), GRPC_OK);
    rig_close();
}

/* -- two processes -- */

TEST(two_processes_under_one_shard_id_are_found_and_so_is_their_end)
{
    char id[64];

    open_at_level(1, LEVEL);
    rig_report((struct rig_report){.shard = "s", .address = "h:1", .epoch = 1, .cycle = 1});
    rig_assign("z", "1", "s");
    rig_unassign("z", "1");
    for (int64_t cycle = 2; cycle < 6; cycle++) {
        rig_report((struct rig_report){.shard = "s", .address = "h:1", .epoch = 1, .cycle = cycle});
        rig_report((struct rig_report){.shard = "s", .address = "h:2", .epoch = 1, .cycle = cycle});
        rig_run(100);
    }
    rig_run(1100);
    CHECK("counted", metric("muster_coordinator_shard_id_conflicts") == 1);
    CHECK_SIZE("an event", RIG_LINES(rig_leader(), "\"event\":\"shard-id-conflict\"", "h:1", "h:2"),
               1);
    CHECK_SIZE("listed", issues()->n_duplicates, 1);
    CHECK_SIZE("both", issues()->duplicates[0]->n_processes, 2);
    snprintf(id, sizeof id, "%s",
             instructed_to_leave(
                 (struct rig_report){.shard = "s", .address = "h:1", .epoch = 1, .cycle = 6}));
    rig_report((struct rig_report){
        .shard = "s", .address = "h:1", .epoch = 1, .cycle = 7, .ack = id, .outcome = ACCEPTED});
    rig_run(500);
    CHECK_SIZE("one report does not count for the other shard", issues()->n_leaving, 1);
    for (int64_t cycle = 8; cycle < 18; cycle++) {
        rig_report((struct rig_report){.shard = "s", .address = "h:1", .epoch = 1, .cycle = cycle});
        rig_run(SILENT_MS / 5);
    }
    CHECK("over", metric("muster_coordinator_shard_id_conflicts") == 0);
    CHECK_SIZE("an event", RIG_LINES(rig_leader(), "\"event\":\"shard-id-conflict-over\""), 1);
    rig_close();
}

/* -- shards without domains -- */

TEST(shards_without_domains_on_one_provider_are_found)
{
    struct rig_report a = {
        .shard = "a", .cycle = 1, .total = 1, .provider = "p", .scope = everything};
    struct rig_report b = {.shard = "b", .cycle = 1, .total = 1, .provider = "p"};
    struct rig_report c = {.shard = "c", .cycle = 1, .total = 1, .provider = "q"};
    struct rig_report d = {.shard = "d", .cycle = 1, .total = 1, .provider = "p", .scope = scoped};
    struct rig_report e = {.shard = "e", .cycle = 1, .total = 1};

    rig_open((struct rig_options){.level = LEVEL});
    rig_report(a);
    rig_report(c);
    rig_report(d);
    rig_report(e);
    rig_run(7000);
    CHECK("another provider, or no domain left", metric("muster_coordinator_shards_unscoped") == 0);
    rig_report(b); /* an original shard reports no scope: the tables decide */
    rig_run(7000);
    CHECK("two", metric("muster_coordinator_shards_unscoped") == 2);
    CHECK_SIZE("an event",
               RIG_LINES(rig_leader(), "\"event\":\"shards-without-domains\"", "\"shards\":2"), 1);
    CHECK_SIZE("one provider", issues()->n_unscoped, 1);
    CHECK_TEXT("which", issues()->unscoped[0]->provider_address, "p");
    CHECK_SIZE("two shards", issues()->unscoped[0]->n_shard_ids, 2);
    CHECK_U64("a domain", rig_assign("z", "1", "b"), GRPC_OK);
    CHECK_SIZE("the other one owns it too", issues()->n_unscoped, 1);
    CHECK_SIZE("one shard", issues()->unscoped[0]->n_shard_ids, 1);
    CHECK_TEXT("without domains", issues()->unscoped[0]->shard_ids[0], "a");
    CHECK_SIZE("one shard", issues()->unscoped[0]->n_other_ids, 1);
    CHECK_TEXT("with domains", issues()->unscoped[0]->other_ids[0], "b");
    rig_run(7000);
    CHECK("one", metric("muster_coordinator_shards_unscoped") == 1);
    CHECK_U64("a domain", rig_assign("z", "2", "a"), GRPC_OK);
    CHECK_SIZE("at once", issues()->n_unscoped, 0);
    rig_run(7000);
    CHECK("none", metric("muster_coordinator_shards_unscoped") == 0);
    rig_close();
}
