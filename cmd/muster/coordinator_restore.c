/* SPDX-License-Identifier: Apache-2.0 */
/* muster coordinator restore: a data directory out of a backup. */
#include "common/program.h"
#include "common/restore_archive.h"
#include "common/tables_ctl.h"
#include "muster/commands.h"

enum err coordinator_restore_act(struct program_run *run)
{
    const struct conf *conf = run->conf;

    return restore_archive(conf, conf_text(conf, "id"), conf_bool(conf, "yes"),
                           conf_choice(conf, "output") == CTL_OUTPUT_JSON, &run->out, &run->note);
}
