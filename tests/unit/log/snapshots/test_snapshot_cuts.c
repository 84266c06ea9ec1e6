/* SPDX-License-Identifier: Apache-2.0 */
/* The power fails, or the disk fails, at every disk call of taking and of installing a snapshot.
 * Afterwards the replica starts with every acknowledged write. Built with the planted bugs, of
 * which these sweeps must find two. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "mutants/mutant.h"
#include "replicas.h"

static size_t victim;

static struct replica_status status_of(size_t number)
{
    return replica_status(world.nodes[number].replica);
}

static void open_harsh(size_t count)
{
    world.count = count;
    world.seed = 23;
    world.limits = (struct replica_limits){.snapshot_every_ms = 1000000000,
                                           .snapshot_chunk_bytes = 50000,
                                           .trailing_entries = 1,
                                           .hash_every = 64,
                                           .segment_bytes = 1 << 20};
    world.disk = (struct sim_fs_options){.write_lost_per_million = 400000,
                                         .write_torn_per_million = 300000,
                                         .name_lost_per_million = 500000,
                                         .reorder_names = true};
    replicas_open();
}

static uint64_t wanted;
static bool taken(void)
{
    struct node *node = &world.nodes[victim];
    return !sim_host_running(node->host) || node->stopped ||
           (node->replica && status_of(victim).snapshot >= wanted);
}

static bool lives(size_t number)
{
    return sim_host_running(world.nodes[number].host) && !world.nodes[number].stopped;
}

static void come_back(size_t number)
{
    if (sim_host_running(world.nodes[number].host)) replicas_kill(number, SIM_POWER_CUT);
    sim_host_die_at_disk_call(world.nodes[number].host, 0, SIM_POWER_CUT);
    replicas_start(number);
}

static struct sim_fs *disk_of(size_t number)
{
    return sim_host_disk(world.nodes[number].host);
}

/* -- taking -- */

TEST(a_power_cut_at_any_disk_call_of_taking_loses_nothing)
{
    uint64_t k = 1, cuts = 0;
    bool whole = false;

    open_harsh(1);
    victim = 0;
    for (; !whole || k % 8; k++) { /* some more complete ones: a later cut loses names, too */
        replicas_fill();
        replicas_write(20);
        replicas_run(1000); /* other disk work ends */
        wanted = status_of(0).applied;
        CHECK_OK("asked", replica_snapshot(world.nodes[0].replica));
        sim_host_die_at_disk_call(world.nodes[0].host, k, SIM_POWER_CUT);
        CHECK("taken or dead", replicas_until(taken, 60000));
        if (lives(0)) replicas_run(500); /* the log drops the entries that the snapshot covers */
        whole = lives(0);
        cuts += !whole;
        come_back(0);
        replicas_wait_same();
    }
    CHECK("at many places", cuts > 8);
    replicas_close();
}

TEST(a_disk_that_fails_once_while_taking_stops_the_replica_or_only_the_snapshot)
{
    static const enum err errors[] = {ERR_IO, ERR_NO_SPACE};

    for (enum sim_fs_call call = SIM_FS_OPEN; call < SIM_FS_CALL_COUNT; call++) {
        for (size_t e = 0; e < ARRAY_LEN(errors); e++) {
            uint64_t failures = 0;
            bool whole = false;

            if (call == SIM_FS_READ || (call == SIM_FS_SYNC && errors[e] == ERR_NO_SPACE)) continue;
            open_harsh(1);
            victim = 0;
            for (uint64_t k = 1; !whole; k++) {
                replicas_write(20);
                replicas_run(1000);
                wanted = status_of(0).applied;
                CHECK_OK("asked", replica_snapshot(world.nodes[0].replica));
                uint64_t before = sim_fs_stats(disk_of(0)).failures;
                sim_fs_fail_once(disk_of(0), call, k, errors[e]);
                whole = replicas_until(taken, 5000) && lives(0);
                bool failed = sim_fs_stats(disk_of(0)).failures > before;
                sim_fs_fail_once(disk_of(0), call, 0, ERR_OK);
                failures += failed;
                whole = whole && !failed;
                if (failed && lives(0)) {
                    /* The snapshot was dropped, so the next one is taken; or another call failed.
                     * */
                    replicas_run(100);
                    replica_snapshot(world.nodes[0].replica);
                    CHECK("taken at last", replicas_until(taken, 60000) && lives(0));
                }
                come_back(0);
                replicas_wait_same();
            }
            CHECK("something failed", failures > 0);
            replicas_close();
        }
    }
}

/* -- installing -- */

static bool installed(void)
{
    return !lives(victim) ||
           (status_of(victim).snapshot >= wanted && !status_of(victim).installing);
}

/* Makes the victim lag so far that only a snapshot helps, and starts it. */
static void leave_behind(void)
{
    size_t leader;

    replicas_kill(victim, SIM_KILLED);
    replicas_write(10);
    replicas_fill();
    leader = replicas_leader();
    CHECK_OK("asked", replica_snapshot(world.nodes[leader].replica));
    wanted = status_of(leader).applied;
    replicas_run(2000);
    CHECK("the leader has one", status_of(leader).snapshot >= wanted);
    replicas_write(10);
    replicas_start(victim);
}

static uint64_t sweep_installs(enum sim_death death)
{
    uint64_t cuts = 0;
    bool whole = false;

    open_harsh(3);
    replicas_write(10);
    victim = (replicas_leader() + 1) % 3;
    for (uint64_t k = 1; !whole; k++) {
        victim = (replicas_leader() + 1 + k % 2) % 3;
        leave_behind();
        sim_host_die_at_disk_call(world.nodes[victim].host, k, death);
        CHECK("installed or dead", replicas_until(installed, 60000));
        whole = lives(victim);
        cuts += !whole;
        come_back(victim);
        replicas_wait_same();
    }
    replicas_close();
    return cuts;
}

TEST(a_power_cut_at_any_disk_call_of_installing_loses_nothing)
{
    CHECK("at many places", sweep_installs(SIM_POWER_CUT) > 8);
}

TEST(a_kill_at_any_disk_call_of_installing_loses_nothing)
{
    CHECK("at many places", sweep_installs(SIM_KILLED) > 8);
}

TEST(a_disk_that_fails_once_while_installing_stops_the_replica_or_only_the_transfer)
{
    static const enum err errors[] = {ERR_IO, ERR_NO_SPACE};

    for (enum sim_fs_call call = SIM_FS_OPEN; call < SIM_FS_CALL_COUNT; call++) {
        for (size_t e = 0; e < ARRAY_LEN(errors); e++) {
            uint64_t failures = 0;
            bool whole = false;

            if (errors[e] == ERR_NO_SPACE && call != SIM_FS_WRITE) continue;
            open_harsh(3);
            replicas_write(10);
            for (uint64_t k = 1; !whole; k++) {
                victim = (replicas_leader() + 1) % 3;
                leave_behind();
                uint64_t before = sim_fs_stats(disk_of(victim)).failures;
                sim_fs_fail_once(disk_of(victim), call, k, errors[e]);
                CHECK("installed in the end, or stopped", replicas_until(installed, 100000));
                bool failed = sim_fs_stats(disk_of(victim)).failures > before;
                sim_fs_fail_once(disk_of(victim), call, 0, ERR_OK);
                whole = !failed;
                failures += failed;
                if (!lives(victim)) {
                    CHECK_ERR("the reason", world.nodes[victim].stopped, errors[e]);
                    come_back(victim);
                }
                replicas_wait_same();
            }
            CHECK("something failed", failures > 0);
            replicas_close();
        }
    }
}

/* -- these sweeps find their planted bugs -- */

TEST(the_sweeps_find_the_planted_bugs)
{
    static const char taking[] = "a_power_cut_at_any_disk_call_of_taking";
    static const char installing[] = "a_power_cut_at_any_disk_call_of_installing";

    if (mutant_is_planted()) SKIP("one of them is in here");
    CHECK("no planted bug, nothing found", !mutant_fails_test(taking, MUTANT_NONE));
    CHECK("compaction before the snapshot is durable",
          mutant_fails_test(taking, MUTANT_COMPACT_BEFORE_SNAPSHOT));
    CHECK("a snapshot whose content was not synced",
          mutant_fails_test(taking, MUTANT_SNAPSHOT_NOT_SYNCED));
    CHECK("a snapshot whose name was not synced",
          mutant_fails_test(taking, MUTANT_SNAPSHOT_NAME_NOT_SYNCED));
    CHECK("an entry that is in the snapshot and applied again",
          mutant_fails_test(taking, MUTANT_APPLY_TWICE_AFTER_RESTORE));
    CHECK("an old log behind a new snapshot",
          mutant_fails_test(installing, MUTANT_INSTALL_KEEPS_OLD_LOG));
}
