/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl config: looks at configuration files without starting anything. */
#include <stdio.h>

#include "common/program.h"
#include "common/tables.h"
#include "conf/printable.h"
#include "musterctl/commands.h"

/* Says every problem of the file. ERR_NOT_FOUND, ERR_NOMEM, ERR_INVALID for all other problems. */
static enum err check_file(const struct command_call *call, const char *path,
                           const struct role *role)
{
    struct conf *conf = NULL;
    struct buf problems;
    struct str rest, line;
    enum err read = ERR_OK, err = conf_open(role->table, &conf);

    buf_init(&problems, PROGRAM_TEXT_MAX);
    if (!err) err = read = program_add_file(conf, path);
    if (conf && err != ERR_NOMEM) err = conf_finish(conf);
    if (!err) {
        err = role_problems(role, conf, &problems);
        rest = buf_peek(&problems);
        while (rest.len > 0 && str_split(&rest, '\n', &line))
            if (line.len > 0) (void)conf_problem(conf, "%s: %.*s", path, STR_ARG(line));
    }
    if (err == ERR_INVALID)
        program_say_problems(call, conf_problems(conf));
    else if (err)
        (void)program_fail(call, err, NULL);
    buf_deinit(&problems);
    conf_close(conf);
    return read == ERR_NOT_FOUND ? read : err;
}

static enum err make_good(const void *conf, struct buf *into)
{
    enum err err = printable_append(str_from(conf_argument(conf, 0)), into);
    return err ? err : buf_appendf(into, ": good for muster %s\n", conf_text(conf, "role"));
}

static int run_check(void *context, const struct command_call *call)
{
    struct conf *conf;
    int exit_code;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    err = check_file(call, conf_argument(conf, 0), roles[conf_choice(conf, "role")]);
    exit_code = err ? err_exit_code(err) : program_print_made(call, make_good, conf);
    conf_close(conf);
    return exit_code;
}

static enum err make_reference(const void *conf, struct buf *into)
{
    const struct role *role = roles[conf_choice(conf, "role")];
    char title[64];

    snprintf(title, sizeof title, "muster %s", role->name);
    return conf_print_reference(role->table, title, into);
}

static int run_reference(void *context, const struct command_call *call)
{
    struct conf *conf;
    int exit_code;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    exit_code = program_print_made(call, make_reference, conf);
    conf_close(conf);
    return exit_code;
}

static const struct command check_command = {
    .name = "check",
    .summary = "check a configuration file",
    .about =
        "Reads the file as `muster dev --config FILE` would and prints every problem with its line "
        "and column, and what the settings contradict. Nothing is started and nothing is written; "
        "the "
        "environment is not looked at.",
    .options = &config_check_table,
    COMMAND_ARGUMENTS("FILE", 1, 1),
    .examples = COMMAND_EXAMPLES({"musterctl config check muster.toml",
                                  "every problem with line and column, or that there is none"}),
    .exits = BIT(1) | BIT(2) | BIT(5),
    .run = run_check,
};

static const struct command reference_command = {
    .name = "reference",
    .summary = "print every option with its default",
    .about =
        "Prints a TOML file that names every option with what it does, its bounds, its flag, its "
        "environment variable and its default. All of it is commented out.",
    .options = &config_reference_table,
    .examples = COMMAND_EXAMPLES({"musterctl config reference > muster.toml",
                                  "a file to start from: everything is there, commented out"}),
    .exits = BIT(1) | BIT(2),
    .run = run_reference,
};

const struct command config_command = {
    .name = "config",
    .summary = "configuration files: check one, print the reference",
    .about = "Helps with configuration files. `muster dev --print-config` shows what is in force.",
    .children = COMMAND_CHILDREN(&check_command, &reference_command),
};
