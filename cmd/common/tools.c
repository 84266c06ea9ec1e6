#include "common/tools.h"

#include <string.h>

#include "common/program.h"
#include "common/version.h"

static int print_made(const struct command_call *call, struct buf *text, enum err err)
{
    int exit_code = err ? program_fail(call, err, NULL) : program_print(buf_peek(text));
    buf_deinit(text);
    return exit_code;
}

static int run_version(void *context, const struct command_call *call)
{
    struct conf *conf;
    struct buf text;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    conf_close(conf);
    buf_init(&text, PROGRAM_TEXT_MAX);
    err = version_print(call->path[0]->name, &text);
    return print_made(call, &text, err);
}

const struct command version_command = {
    .name = "version",
    .summary = "version, commit, compiler and engines",
    .about = "Prints which build this is, and the engines it runs on as they are loaded now. The "
             "same as "
             "--version.",
    .exits = BIT(2),
    .run = run_version,
};

static int run_completion_bash(void *context, const struct command_call *call)
{
    struct conf *conf;
    struct buf text;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    conf_close(conf);
    buf_init(&text, PROGRAM_TEXT_MAX);
    err = command_completion_bash(call->path[0], &text);
    return print_made(call, &text, err);
}

static const struct command_example bash_examples[] = {
    {"source <(muster completion bash)", "for this shell; musterctl has its own"},
    {"muster completion bash > ~/.local/share/bash-completion/completions/muster",
     "for every new one"},
    {NULL, NULL},
};
static const struct command bash_command = {
    .name = "bash",
    .summary = "a script for bash",
    .about = "Prints a script that teaches bash the commands, options and choices of this program. "
             "It is "
             "made from the same tables as --help.",
    .examples = bash_examples,
    .exits = BIT(2),
    .run = run_completion_bash,
};
static const struct command *const completion_children[] = {&bash_command, NULL};
const struct command completion_command = {
    .name = "completion",
    .summary = "completion scripts for shells",
    .about = "Scripts that let a shell complete commands and options.",
    .children = completion_children,
};
