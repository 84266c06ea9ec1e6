/* SPDX-License-Identifier: Apache-2.0 */
/* The client against whole coordinators in a virtual world: reports, instructions, changes of the
 * leader, and a shard that only serves its view. */
#include "coordclient/coordclient.h"

#include <stdio.h>

#include "../fleet/service_rig.h"
#include "wire/pack.h"

enum { SHARD_HOST = RIG_CLIENTS - 1, INTERVAL_MS = 50 };

static struct {
    struct coordclient *client;
    bool closed;
    enum err answer; /* to assign() */
    const char *why;
    bool hold; /* do not answer yet */
    shard_domain_fn *waiting;
    void *context;
    unsigned assigned, unassigned, asked;
    unsigned depth, deepest; /* of assign() */
    char key[64], value[64];
    int64_t term;
    struct buf fields;
} shard;

static void give_report(void *s, shard_report_fn *done, void *context)
{
    struct pack row, pack;
    struct buf summary;

    (void)s;
    shard.asked++;
    buf_init(&summary, 256);
    row = pack_begin(&summary);
    pack_u64(&row, 1, 100); /* total_machines */
    pack_u64(&row, 2, 20);
    pack = pack_begin(&shard.fields);
    pack_row(&pack, 5, &row);
    buf_deinit(&summary);
    done(context, pack.err, buf_peek(&shard.fields));
}

static void assign(void *s, struct str key, struct str value, bool assigned, shard_domain_fn *done,
                   void *context)
{
    (void)s;
    if (assigned)
        shard.assigned++;
    else
        shard.unassigned++;
    snprintf(shard.key, sizeof shard.key, "%.*s", STR_ARG(key));
    snprintf(shard.value, sizeof shard.value, "%.*s", STR_ARG(value));
    shard.waiting = done;
    shard.context = context;
    if (++shard.depth > shard.deepest) shard.deepest = shard.depth;
    if (!shard.hold) done(context, shard.answer, str_from(shard.why));
    shard.depth--;
}

static void hear_term(void *s, int64_t term)
{
    (void)s;
    CHECK("a term never falls", term >= shard.term);
    shard.term = term;
}

static void on_closed(void *owner)
{
    (void)owner;
    shard.closed = true;
}

static bool is_closed(void *context)
{
    (void)context;
    return shard.closed;
}

static void open_shard_at(size_t nodes, uint32_t level)
{
    const char *addresses[RIG_NODES + 1] = {NULL};
    struct coordclient_options options = {
        .addresses = addresses,
        .shard_id = "shard-a",
        .advertise = "127.0.0.1:7780",
        .epoch = 3,
        .interval_ms = INTERVAL_MS,
        .view = {.report = give_report, .assign = assign, .term = hear_term},
    };
    struct note note = {""};

    rig_open((struct rig_options){.nodes = nodes, .level = level});
    while (level && replica_status(rig_leader()->replica).level < level) rig_run(10);
    (void)rig_leader();
    for (size_t i = 0; i < rig.nodes_count; i++) addresses[i] = rig.nodes[i].grpc;
    memset(&shard, 0, sizeof shard);
    shard.why = "";
    buf_init(&shard.fields, 4096);
    options.io = sim_host_io(rig.clients[SHARD_HOST].host);
    CHECK_OK(note.text, coordclient_open(&options, &shard.client, &note));
}

static void open_shard(size_t nodes)
{
    open_shard_at(nodes, 0);
}

static void close_shard(void)
{
    coordclient_close(shard.client, on_closed, NULL);
    CHECK_U64("closes", sim_wait(rig.sim, is_closed, NULL, 60000), SIM_REACHED);
    buf_deinit(&shard.fields);
    rig_close();
}

static bool reported(void *context)
{
    return coordclient_stats(shard.client).reports >= *(uint64_t *)context;
}

static void wait_reports(uint64_t more)
{
    uint64_t want = coordclient_stats(shard.client).reports + more;

    CHECK_U64("reports flow", sim_wait(rig.sim, reported, &want, 60000), SIM_REACHED);
}

static const Muster__V1__ListInstructionsResponse *pending(void)
{
    return rig_instructions("shard-a");
}

TEST(a_shard_registers_by_its_first_report_and_goes_on)
{
    const Bigfleet__V1alpha1__ListShardReportsResponse *got;

    open_shard(1);
    wait_reports(3);
    CHECK_SIZE("registered", rig_shards()->n_shards, 1);
    CHECK_TEXT("where", rig_shards()->shards[0]->address, "127.0.0.1:7780");
    got = rig_reports("shard-a");
    CHECK_SIZE("its report", got->n_reports, 1);
    CHECK_I64("numbers", got->reports[0]->summary->total_machines, 100);
    CHECK("counts up", got->reports[0]->cycle >= 3);
    CHECK("the term is known", shard.term > 0);
    close_shard();
}

TEST(k1_a_domain_reaches_the_shard_and_is_acked)
{
    open_shard(1);
    wait_reports(1);
    CHECK_U64("assign", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    wait_reports(3);
    CHECK_U64("reported once", shard.assigned, 1);
    CHECK_TEXT("key", shard.key, "rack");
    CHECK_TEXT("value", shard.value, "r-1");
    CHECK_SIZE("acked", pending()->n_instructions, 0);
    CHECK_U64("unassign", rig_unassign("rack", "r-1"), GRPC_OK);
    wait_reports(3);
    CHECK_U64("reported", shard.unassigned, 1);
    CHECK_SIZE("acked", pending()->n_instructions, 0);
    close_shard();
}

TEST(an_instruction_that_the_shard_cannot_execute_is_acked_as_failed)
{
    struct rig_node *leader;
    double value = 0;

    open_shard(1);
    shard.answer = ERR_NO_SPACE;
    wait_reports(1);
    CHECK_U64("assign", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    wait_reports(3);
    CHECK_SIZE("acked", pending()->n_instructions, 0);
    leader = rig_leader();
    CHECK("as failed",
          rig_metric(leader, "muster_coordinator_instruction_acks_total{outcome=\"failed\"}",
                     &value) &&
              value == 1);
    close_shard();
}

TEST(a_domain_where_machines_serve_is_asked_for_again)
{
    double value = 0;

    open_shard_at(1, 4);
    wait_reports(1);
    CHECK_U64("assign", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    wait_reports(3);
    shard.answer = ERR_BUSY;
    shard.why = "3 machines of rack=r-1 still serve";
    CHECK_U64("unassign", rig_unassign("rack", "r-1"), GRPC_OK);
    wait_reports(6);
    CHECK("reported with each report", shard.unassigned >= 4);
    CHECK_SIZE("it waits on", pending()->n_instructions, 1);
    CHECK_SIZE("one event", RIG_LINES(rig_leader(), "instruction-refused", shard.why), 1);
    CHECK("counted",
          rig_metric(rig_leader(), "muster_coordinator_instruction_acks_total{outcome=\"failed\"}",
                     &value) &&
              value >= 3);
    shard.answer = ERR_OK;
    shard.why = "";
    wait_reports(3);
    CHECK_SIZE("given up", pending()->n_instructions, 0);
    close_shard();
}

TEST(instructions_of_one_answer_do_not_nest)
{
    open_shard(1);
    wait_reports(1);
    shard.hold = true;
    CHECK_U64("one", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    rig_run(1000);
    CHECK("the shard thinks about it", shard.waiting != NULL);
    CHECK_U64("two more", rig_assign("rack", "r-2", "shard-a"), GRPC_OK);
    CHECK_U64("two more", rig_assign("rack", "r-3", "shard-a"), GRPC_OK);
    shard.hold = false;
    shard.answer = ERR_NO_SPACE;
    shard.waiting(shard.context, ERR_OK, STR_EMPTY);
    wait_reports(4);
    CHECK_U64("all were reported", shard.assigned, 3);
    CHECK_U64("one after the other", shard.deepest, 1);
    CHECK_SIZE("acked", pending()->n_instructions, 0);
    close_shard();
}

TEST(an_instruction_that_is_not_supported_is_refused_by_name)
{
    double value = 0;

    open_shard(1);
    wait_reports(1);
    CHECK_U64("queued", rig_queue("shard-a", "by-hand"), GRPC_OK);
    wait_reports(3);
    CHECK_SIZE("acked", pending()->n_instructions, 0);
    CHECK_U64("and nothing was done", shard.assigned + shard.unassigned, 0);
    CHECK("as invalid", rig_metric(rig_leader(),
                                   "muster_coordinator_instruction_acks_total{outcome="
                                   "\"rejected_invalid\"}",
                                   &value) &&
                            value == 1);
    close_shard();
}

TEST(a_new_leader_is_followed)
{
    struct rig_node *first;

    open_shard(3);
    wait_reports(2);
    first = rig_leader();
    rig_cut(first, true);
    rig_run(5000);
    CHECK("another leads", rig_leader() != first);
    wait_reports(3);
    CHECK_SIZE("which knows it", rig_reports("shard-a")->n_reports, 1);
    rig_cut(first, false);
    close_shard();
}

TEST(a_round_that_waits_for_the_shard_closes_in_order)
{
    open_shard(1);
    wait_reports(1);
    shard.hold = true;
    CHECK_U64("assign", rig_assign("rack", "r-1", "shard-a"), GRPC_OK);
    rig_run(1000);
    CHECK("the shard has not answered", shard.waiting != NULL);
    coordclient_close(shard.client, on_closed, NULL);
    rig_run(1000);
    CHECK("so it waits", !shard.closed);
    shard.waiting(shard.context, ERR_CANCELLED, STR_EMPTY);
    CHECK_U64("then it is gone", sim_wait(rig.sim, is_closed, NULL, 60000), SIM_REACHED);
    buf_deinit(&shard.fields);
    rig_close();
}
