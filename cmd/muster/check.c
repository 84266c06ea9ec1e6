/* SPDX-License-Identifier: Apache-2.0 */
/* muster check DIR: is a replica's data directory whole? */
#include "common/help.h"
#include "common/program.h"
#include "common/tables.h"
#include "io/fs.h"
#include "log/datadir.h"
#include "muster/commands.h"

static enum err check(struct program_run *run)
{
    return datadir_check(fs_real(), conf_argument(run->conf, 0), &run->out, &run->note);
}

const struct command check_command = {
    HELP_MUSTER_CHECK,
    COMMAND_ARGUMENTS("DIR", 1, 1),
    .exits = BIT(4) | BIT(5),
    PROGRAM_ACT(check),
};
