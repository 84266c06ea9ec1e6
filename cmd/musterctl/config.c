/* musterctl config: looks at configuration files without starting anything. */
#include <stdio.h>

#include "common/program.h"
#include "common/tables.h"
#include "io/fs.h"
#include "musterctl/commands.h"

/* Every problem of the file, or that it is good. */
static enum err check_file(const char *path, const char *role, const struct option_table *table,
                           struct note *note)
{
    struct buf content;
    struct conf *conf = NULL;
    enum err err;

    buf_init(&content, CONF_FILE_MAX + 1);
    err = fs_read_whole(fs_real(), path, CONF_FILE_MAX, &content);
    if (err) {
        note_set(note, "%s: %s", path, err_text(err));
        goto done;
    }
    err = conf_open(table, &conf);
    if (!err) err = conf_add_file(conf, path, buf_peek(&content));
    if (!err || err == ERR_INVALID) err = conf_finish(conf);
    if (err == ERR_INVALID) fprintf(stderr, "%.*s", STR_ARG(conf_problems(conf)));
    if (!err) printf("%s: good for muster %s\n", path, role);
done:
    conf_close(conf);
    buf_deinit(&content);
    return err;
}

static int run_check(void *context, const struct command_call *call)
{
    struct conf *conf;
    struct note note = {""};
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    err = check_file(conf_argument(conf, 0), conf_text(conf, "role"),
                     role_tables[conf_choice(conf, "role")], &note);
    conf_close(conf);
    if (err == ERR_INVALID && !note.text[0]) return err_exit_code(err); /* all was said */
    return err ? program_fail(call, err, &note) : 0;
}

static int run_reference(void *context, const struct command_call *call)
{
    struct conf *conf;
    struct buf text;
    char title[64];
    int exit_code;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    buf_init(&text, PROGRAM_TEXT_MAX);
    snprintf(title, sizeof title, "muster %s", conf_text(conf, "role"));
    err = conf_print_reference(role_tables[conf_choice(conf, "role")], title, &text);
    exit_code = err ? program_fail(call, err, NULL) : program_print(buf_peek(&text));
    buf_deinit(&text);
    conf_close(conf);
    return exit_code;
}

static const struct command_example check_examples[] = {
    {"musterctl config check muster.toml",
     "every problem with line and column, or that there is none"},
    {NULL, NULL},
};
static const struct command check_command = {
    .name = "check",
    .summary = "check a configuration file",
    .about =
        "Reads the file as `muster dev --config FILE` would and prints every problem with its line "
        "and column. Nothing is started and nothing is written.",
    .options = &config_check_table,
    .arguments = "FILE",
    .arguments_min = 1,
    .arguments_max = 1,
    .examples = check_examples,
    .exits = BIT(2) | BIT(5),
    .run = run_check,
};

static const struct command_example reference_examples[] = {
    {"musterctl config reference > muster.toml",
     "a file to start from: everything is there, commented out"},
    {NULL, NULL},
};
static const struct command reference_command = {
    .name = "reference",
    .summary = "print every option with its default",
    .about =
        "Prints a TOML file that names every option with what it does, its bounds, its flag, its "
        "environment variable and its default. All of it is commented out.",
    .options = &config_reference_table,
    .examples = reference_examples,
    .exits = BIT(2),
    .run = run_reference,
};

static const struct command *const children[] = {&check_command, &reference_command, NULL};
const struct command config_command = {
    .name = "config",
    .summary = "configuration files: check one, print the reference",
    .about = "Helps with configuration files. `muster dev --print-config` shows what is in force.",
    .children = children,
};
