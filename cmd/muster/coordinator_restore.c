/* SPDX-License-Identifier: Apache-2.0 */
/* muster coordinator restore: a data directory out of a backup. */
#include "common/help.h"
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
    COMMAND_ROW_WITH(HELP_MUSTER_COORDINATOR_RESTORE, coordinator_restore, "ARCHIVE", 1, 1),
    PROGRAM_ACT(BIT(4) | BIT(5), restore),
};
