/* SPDX-License-Identifier: Apache-2.0 */
/* muster coordinator restore: a data directory out of a backup. */
#include "common/program.h"
#include "common/restore_archive.h"
#include "common/tables.h"
#include "common/tables_ctl.h"
#include "muster/commands.h"

static enum err restore(struct program_run *run)
{
    const struct conf *conf = run->conf;

    return restore_archive(conf, conf_text(conf, "id"), conf_bool(conf, "yes"),
                           conf_choice(conf, "output") == CTL_OUTPUT_JSON, &run->out, &run->note);
}

const struct command coordinator_restore_command = {
    .name = "restore",
    .summary = "make a data directory out of a backup, an export or a saved snapshot",
    .about =
        "Makes this node the only voter of a new cluster that holds what the archive holds: a "
        "backup of `musterctl backup`, an archive of `snapshot save` (the original's as well), or "
        "a directory of the export loop. What the data directory held is removed, once the new "
        "state is safe beside it. What was committed after the archive was made is lost; shards "
        "register again with their next report. The term and every number of the store and of "
        "workers go on far above all that the lost history can have given out: the clock of this "
        "machine must be right. The replica must not be running; all others must begin with empty "
        "data directories (or after `muster coordinator rejoin`) and join.\n"
        "Interrupted, it leaves the old data, or a directory that nothing starts from until a "
        "restore has run again.",
    .options = &coordinator_restore_table,
    COMMAND_ARGUMENTS("ARCHIVE", 1, 1),
    .examples = COMMAND_EXAMPLES(
        {"muster coordinator restore b.muster --data-dir coord-data --raft-advertise n0:7791",
         "from what `musterctl backup` saved"},
        {"muster coordinator restore e/latest --data-dir d --raft-advertise n0:7791 --yes",
         "from the newest export, over the data of the replica that is there"}),
    .exits = BIT(4) | BIT(5),
    PROGRAM_ACT(restore),
};
