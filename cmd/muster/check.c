/* SPDX-License-Identifier: Apache-2.0 */
/* muster check DIR: is a replica's data directory whole? */
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
    .name = "check",
    .summary = "verify a data directory",
    .about = "Reads a replica's whole data directory: its identity, term and vote, every record of "
             "the log, every chunk of the snapshot, and whether they join. Says what is wrong, "
             "naming file and offset, and changes nothing. The replica must not be running.",
    COMMAND_ARGUMENTS("DIR", 1, 1),
    .examples = COMMAND_EXAMPLES(
        {"muster check /var/lib/muster", "before a restart after trouble, or on a backup"}),
    .exits = BIT(4) | BIT(5),
    PROGRAM_ACT(check),
};
