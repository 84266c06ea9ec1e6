/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl config: checks and compares configuration files without starting a role. */
#include <stdio.h>

#include "common/help.h"
#include "common/program.h"
#include "common/tables.h"
#include "conf/printable.h"
#include "musterctl/commands.h"

static enum err config_read_file(struct conf *conf, const char *path, const struct role *role)
{
    struct buf problems;
    struct str rest, line;
    enum err read = program_add_file(conf, path), err = read;

    if (err != ERR_NOMEM) err = conf_finish(conf);
    if (err) return read == ERR_NOT_FOUND ? read : err;
    buf_init(&problems, PROGRAM_TEXT_MAX);
    err = role_problems(role, conf, &problems);
    rest = buf_peek(&problems);
    while (rest.len > 0 && str_split(&rest, '\n', &line))
        if (line.len > 0) (void)conf_problem(conf, "%s: %.*s", path, STR_ARG(line));
    buf_deinit(&problems);
    return err;
}

static enum err config_check_file(struct program_run *run)
{
    const struct role *role = roles[conf_choice(run->conf, "role")];
    const char *path = conf_argument(run->conf, 0);
    struct conf *conf = NULL;
    enum err err = conf_open(role->table, &conf);

    if (err) return err;
    err = config_read_file(conf, path, role);
    if (err && err != ERR_NOMEM) {
        program_say_problems(run->call, conf_problems(conf));
        run->exit_code = err_exit_code(err);
        err = ERR_OK;
    } else if (!err) {
        err = printable_append(str_from(path), &run->out);
        if (!err) err = buf_appendf(&run->out, ": good for muster %s\n", role->name);
    }
    conf_close(conf);
    return err;
}

static enum err config_print_reference(struct program_run *run)
{
    const struct role *role = roles[conf_choice(run->conf, "role")];
    char title[64];

    snprintf(title, sizeof title, "muster %s", role->name);
    return conf_print_reference(role->table, title, &run->out);
}

const struct command config_command =
    COMMAND_TREE(HELP_MUSTERCTL_CONFIG,
                 COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_CONFIG_CHECK, config_check, "FILE", 1, 1),
                         PROGRAM_ACT(BIT(5), config_check_file)),
                 COMMAND(COMMAND_ROW(HELP_MUSTERCTL_CONFIG_REFERENCE, config_reference),
                         PROGRAM_ACT(0, config_print_reference)));
