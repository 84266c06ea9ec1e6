/* SPDX-License-Identifier: Apache-2.0 */
/* muster check DIR: is a replica's data directory whole? */
#include "common/program.h"
#include "common/tables.h"
#include "io/fs.h"
#include "log/datadir.h"
#include "muster/commands.h"

enum { REPORT_MAX = 4 << 20 };

static int run_check(void *context, const struct command_call *call)
{
    struct note note = {""};
    struct conf *conf;
    struct buf report;
    enum err err = program_load_conf(context, call, &conf);
    int exit_code;

    if (err) return err_exit_code(err);
    buf_init(&report, REPORT_MAX);
    err = datadir_check(fs_real(), conf_argument(conf, 0), &report, &note);
    exit_code = program_print(buf_peek(&report));
    if (err) exit_code = program_fail(call, err, &note);
    buf_deinit(&report);
    conf_close(conf);
    return exit_code;
}

static const struct command_example examples[] = {
    {"muster check /var/lib/muster", "before a restart after trouble, or on a backup"},
    {NULL, NULL},
};
const struct command check_command = {
    .name = "check",
    .summary = "verify a data directory",
    .about = "Reads a replica's whole data directory: its identity, term and vote, every record of "
             "the log, every chunk of the snapshot, and whether they join. Says what is wrong, "
             "naming file and offset, and changes nothing. The replica must not be running.",
    .arguments = "DIR",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(5),
    .run = run_check,
};
