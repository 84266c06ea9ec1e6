/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of whole replicas in virtual time, and over real sockets, files and threads. */
#include "replica_rig.h"

#include <stdio.h>
#include <string.h>

static char large[20000];

static void few_trailing(void)
{
    memset(large, 'v', sizeof large - 1);
    for (size_t i = 0; i < RIG_NODES; i++)
        rig.nodes[i].limits = (struct replica_limits){.snapshot_every_ms = 1000000000,
                                                      .snapshot_chunk_bytes = 30000,
                                                      .trailing_entries = 5,
                                                      .hash_every = 50};
}

/* 300 additions and 20 large values. */
static void fill(struct node *node)
{
    for (size_t i = 0; i < 300; i++) rig_add(node, i, "n", 1);
    for (size_t i = 0; i < 20; i++) {
        char key[20];
        snprintf(key, sizeof key, "large-%zu", i);
        rig_set(node, 300 + i, key, large);
    }
    RIG_UNTIL("all are answered", rig.calls[319].done);
    for (size_t i = 0; i < 320; i++) CHECK_OK("taken", rig.calls[i].err);
}

static struct replica_status status_of(const struct node *node)
{
    return replica_status(node->replica);
}

TEST_BOTH(a_snapshot_is_taken_while_writes_go_on_and_replaces_the_log)
{
    struct node *node = &rig.nodes[0];
    size_t call = 1000;

    few_trailing();
    rig_open(1);
    RIG_UNTIL("it leads", rig_leader() == node);
    fill(node);
    CHECK_OK("asked", replica_snapshot(node->replica));
    while (status_of(node).snapshot == 0 && call < RIG_CALLS) {
        rig_add(node, call, "n", 1);
        RIG_UNTIL("answered meanwhile", rig.calls[call].done);
        call++;
    }
    CHECK("taken", status_of(node).snapshot > 0);
    CHECK("the log before it is gone", status_of(node).first + 5 > status_of(node).snapshot);
    uint64_t hash = trial_hash(node->trial);
    int64_t number = rig_number(node, "n");
    CHECK_I64("none was lost", number, 300 + (int64_t)(call - 1000));

    rig_stop(0);
    rig_start_ok(0);
    RIG_UNTIL("it leads again", rig_leader() == node);
    RIG_UNTIL("with the log behind the snapshot", rig_number(node, "n") == number);
    CHECK_U64("the same state", trial_hash(node->trial), hash);
    rig_close();
}

TEST_BOTH(a_replica_that_was_away_too_long_gets_a_snapshot)
{
    struct node *leader, *away;

    few_trailing();
    rig_open(3);
    RIG_UNTIL("one leads", rig_leader());
    leader = rig_leader();
    away = &rig.nodes[(leader->number + 1) % 3];
    rig_kill(away->number);
    fill(leader);
    CHECK_OK("asked", replica_snapshot(leader->replica));
    RIG_UNTIL("taken", status_of(leader).snapshot > 0);
    fill(leader);
    rig_start_ok(away->number);
    RIG_UNTIL("it has everything", rig_settled() && rig_number(away, "n") == 600);
    CHECK("by a snapshot", status_of(away).snapshot == status_of(leader).snapshot);
    CHECK_U64("the same state", trial_hash(away->trial), trial_hash(leader->trial));
    CHECK_U64("installed", rig_counter(away, "muster_log_snapshots_installed_total "), 1);
    fill(leader);
    RIG_UNTIL("and goes on", rig_settled() && rig_number(away, "n") == 900);
    rig_kill(away->number);
    rig_start_ok(away->number);
    RIG_UNTIL("after a restart, too", rig_settled() && rig_number(away, "n") == 900);
    for (size_t i = 0; i < 3; i++) CHECK_OK("nobody stopped", rig.nodes[i].stopped);
    rig_close();
}
