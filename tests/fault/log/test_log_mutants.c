/* Every planted bug of the storage is found by the sweeps that the shipped library passes. */
#include "lib/test.h"
#include "log/mutant.h"
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

TEST(mutant_salt_ignored)
{
    must_find(MUTANT_SALT_IGNORED, sweep_power_cuts);
}
