/* SPDX-License-Identifier: Apache-2.0 */
/* ctl/inspect.h: which state hashes are compared, and which are not comparable. */
#include <stdio.h>

#include "canned.h"
#include "ctl/inspect.h"
#include "wire/pb/muster_v1_fleet.pb-c.h"

static const char hash_path[] = "/muster.v1.Fleet/StateHash";
static struct canned canned;
static Muster__V1__StateHashResponse said[8];
static Muster__V1__MachineHash hashes[8];
static Muster__V1__MachineHash *lists[8][1];

/* Answer number `at`: a replica with this hash at this index. */
static void answers(size_t at, uint64_t applied, uint64_t hash)
{
    static char names[8][8];

    muster__v1__state_hash_response__init(&said[at]);
    muster__v1__machine_hash__init(&hashes[at]);
    snprintf(names[at], sizeof names[at], "n%zu", at);
    hashes[at].id = 1;
    hashes[at].name = ctl_text("fleet");
    hashes[at].hash = hash;
    hashes[at].bytes = 10;
    lists[at][0] = &hashes[at];
    said[at].name = names[at];
    said[at].applied = applied;
    said[at].term = 2;
    said[at].machines = lists[at];
    said[at].n_machines = 1;
    canned_answer(hash_path, &said[at].base);
}

#define TWO CANNED_WORDS("--coordinator", "a:1,b:2")

TEST(equal_at_one_index)
{
    canned_open(&canned, TWO);
    answers(0, 7, 0xab);
    answers(1, 7, 0xab);
    CHECK_OK("equal", state_hash_act(&canned.ctl));
    CHECK_TEXT("a table and a line", canned_printed(&canned),
               "REPLICA  ADDRESS  APPLIED  TERM  MACHINE  HASH              BYTES\n"
               "n0       a:1      7        2     fleet    00000000000000ab  10\n"
               "n1       b:2      7        2     fleet    00000000000000ab  10\n"
               "2 replicas are equal at index 7\n");
    canned_close(&canned);
}

TEST(at_different_indices_they_are_asked_again_for_the_furthest)
{
    canned_open(&canned, TWO);
    answers(0, 7, 1);
    answers(1, 9, 2);
    answers(2, 9, 2);
    answers(3, 9, 2);
    CHECK_OK("equal", state_hash_act(&canned.ctl));
    CHECK_TEXT("for which", canned_asked(hash_path), "{\"at_least\":9}");
    canned_close(&canned);
}

TEST(other_hashes_at_one_index_are_a_conflict)
{
    canned_open(&canned, CANNED_WORDS("--coordinator", "a:1,b:2", "--json"));
    answers(0, 7, 1);
    answers(1, 7, 2);
    CHECK_ERR("they differ", state_hash_act(&canned.ctl), ERR_CONFLICT);
    CHECK_TEXT("where", canned.ctl.note.text, "the replicas DIFFER at index 7 in fleet");
    CHECK_HAS("for programs", canned_printed(&canned), "{\"equal\":false,\"replicas\":[{");
    canned_close(&canned);
}

TEST(other_machines_are_a_conflict)
{
    canned_open(&canned, TWO);
    answers(0, 7, 1);
    answers(1, 7, 1);
    said[1].n_machines = 0;
    CHECK_ERR("they differ", state_hash_act(&canned.ctl), ERR_CONFLICT);
    CHECK_HAS("where", canned.ctl.note.text, "in what they have");
    canned_close(&canned);
    canned_open(&canned, TWO);
    answers(0, 7, 1);
    answers(1, 7, 1);
    hashes[1].id = 2;
    CHECK_ERR("another id", state_hash_act(&canned.ctl), ERR_CONFLICT);
    canned_close(&canned);
}

TEST(a_replica_without_an_answer_leaves_the_result_open)
{
    canned_open(&canned, CANNED_WORDS("--coordinator", "a:1,b:2", "--json"));
    answers(0, 7, 1);
    canned_failure(hash_path, ERR_UNAVAILABLE, "refused");
    CHECK_ERR("open", state_hash_act(&canned.ctl), ERR_UNAVAILABLE);
    CHECK_TEXT("the replicas", canned.ctl.note.text, "1 of 2 answered; refused");
    CHECK_HAS("for programs", canned_printed(&canned), "{\"equal\":null,");
    canned_close(&canned);
}

TEST(one_address_is_enough_for_its_cluster)
{
    Muster__V1__Replica rows[2], *list[] = {&rows[0], &rows[1]};
    Muster__V1__ListReplicasResponse replicas = MUSTER__V1__LIST_REPLICAS_RESPONSE__INIT;

    for (size_t i = 0; i < 2; i++) muster__v1__replica__init(&rows[i]);
    rows[0].name = ctl_text("n0");
    rows[0].grpc_address = ctl_text("a:1");
    rows[1].name = ctl_text("n1");
    replicas.replicas = list;
    replicas.n_replicas = 2;
    canned_open(&canned, CANNED_WORDS("--coordinator", "a:1"));
    canned_answer("/muster.v1.Fleet/ListReplicas", &replicas.base);
    answers(0, 7, 1);
    CHECK_ERR("open", state_hash_act(&canned.ctl), ERR_UNAVAILABLE);
    CHECK_TEXT("the replicas", canned.ctl.note.text,
               "1 of 2 answered; n1: its gRPC address is not known");
    canned_close(&canned);
}
