/* SPDX-License-Identifier: Apache-2.0 */
/* Votes, snapshots and the data directory over a disk that loses power or fails a call, at every
 * call: promised state is there, and an interrupted operation can be repeated. */
#include <stdlib.h>

#include "disk_sweeps.h"
#include "lib/test.h"

static void sweep(const struct deed *deed)
{
    struct note why = {""};
    uint64_t seeds = getenv("MUSTER_TEST_LONG") ? 100 : 5;
    CHECK("holds", sweep_deed(deed, seeds, &why) || (print_message("%s\n", why.text), false));
}

TEST(votes)
{
    sweep(&deed_votes);
}

TEST(snapshots)
{
    sweep(&deed_snapshots);
}

TEST(a_snapshot_that_arrives)
{
    sweep(&deed_install);
}

TEST(making_a_directory)
{
    sweep(&deed_format);
}

TEST(adopting_a_cluster)
{
    sweep(&deed_adopt);
}

TEST(forcing_a_configuration)
{
    sweep(&deed_force);
}

TEST(beginning_anew)
{
    sweep(&deed_rejoin);
}

TEST(restoring_over_a_replica)
{
    sweep(&deed_restore);
}

TEST(restoring_into_nothing)
{
    sweep(&deed_restore_new);
}
