/* SPDX-License-Identifier: Apache-2.0 */
/* The sweeps find every planted bug of the storage. */
#include "disk_sweeps.h"
#include "lib/test.h"
#include "mutants/mutant.h"
#include "wal_sweeps.h"

enum { SEEDS = 40 };

static void must_find(enum mutant mutant, bool (*sweep)(uint64_t, struct note *))
{
    struct note why = {""};
    log_mutant = mutant;
    bool survived = sweep(SEEDS, &why);
    log_mutant = MUTANT_NONE;
    CHECK(mutant_name(mutant), !survived);
    print_message("%s: %s\n", mutant_name(mutant), why.text);
}

TEST(mutant_ack_before_sync)
{
    must_find(MUTANT_ACK_BEFORE_SYNC, sweep_power_cuts);
}

TEST(mutant_torn_tail_kept)
{
    must_find(MUTANT_TORN_TAIL_KEPT, sweep_power_cuts);
}

TEST(mutant_no_crc)
{
    must_find(MUTANT_NO_CRC, sweep_power_cuts);
}

TEST(mutant_truncate_forgotten)
{
    must_find(MUTANT_TRUNCATE_FORGOTTEN, sweep_power_cuts);
}

TEST(mutant_install_keeps_old_log)
{
    must_find(MUTANT_INSTALL_KEEPS_OLD_LOG, sweep_power_cuts);
}

TEST(mutant_segment_header_not_synced)
{
    must_find(MUTANT_SEGMENT_HEADER_NOT_SYNCED, sweep_power_cuts);
}

TEST(mutant_write_error_ignored)
{
    must_find(MUTANT_WRITE_ERROR_IGNORED, sweep_failures);
}

TEST(mutant_damage_cut_as_tail)
{
    must_find(MUTANT_DAMAGE_CUT_AS_TAIL, sweep_damage);
}

TEST(mutant_salt_ignored)
{
    must_find(MUTANT_SALT_IGNORED, sweep_power_cuts);
}

static void must_find_deed(enum mutant mutant, const struct deed *deed)
{
    struct note why = {""};
    log_mutant = mutant;
    bool survived = sweep_deed(deed, SEEDS, &why);
    log_mutant = MUTANT_NONE;
    CHECK(mutant_name(mutant), !survived);
    print_message("%s: %s\n", mutant_name(mutant), why.text);
}

TEST(mutant_vote_not_synced)
{
    must_find_deed(MUTANT_VOTE_NOT_SYNCED, &deed_votes);
}

TEST(mutant_snapshot_not_synced)
{
    must_find_deed(MUTANT_SNAPSHOT_NOT_SYNCED, &deed_snapshots);
    must_find_deed(MUTANT_SNAPSHOT_NOT_SYNCED, &deed_install);
}

TEST(mutant_snapshot_name_not_synced)
{
    must_find_deed(MUTANT_SNAPSHOT_NAME_NOT_SYNCED, &deed_snapshots);
    must_find_deed(MUTANT_SNAPSHOT_NAME_NOT_SYNCED, &deed_install);
}

TEST(mutant_wiped_keeps_identity)
{
    must_find_deed(MUTANT_WIPED_KEEPS_IDENTITY, &deed_rejoin);
}
