/* SPDX-License-Identifier: Apache-2.0 */
/* The log over a disk that loses power or fails a call, at every call of a long life: recovery
 * finds the promised entries, and nothing else. test_log_mutants.c shows that the sweeps can fail.
 */
#include <stdlib.h>

#include "lib/test.h"
#include "wal_sweeps.h"

static uint64_t seeds(void)
{
    return getenv("MUSTER_TEST_LONG") ? 40 : 2;
}

TEST(power_cut_at_every_call)
{
    struct note why = {""};
    CHECK("holds", sweep_power_cuts(seeds(), &why) || (print_message("%s\n", why.text), false));
}

TEST(power_cut_at_every_call_of_a_recovery)
{
    struct note why = {""};
    CHECK("holds", sweep_power_cuts_recovering(seeds() / 2, &why) ||
                       (print_message("%s\n", why.text), false));
}

TEST(every_call_fails_once)
{
    struct note why = {""};
    CHECK("holds", sweep_failures(seeds(), &why) || (print_message("%s\n", why.text), false));
}

TEST(a_bit_changes_below_what_was_acknowledged)
{
    struct note why = {""};
    CHECK("holds", sweep_damage(10 * seeds(), &why) || (print_message("%s\n", why.text), false));
}
