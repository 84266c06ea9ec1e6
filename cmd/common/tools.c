#include "common/tools.h"

#include "common/program.h"

/* For a command without options: whatever follows it is refused. */
static int only_print(void *context, const struct command_call *call, program_make_fn *make)
{
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);

    if (err) return err_exit_code(err);
    conf_close(conf);
    return program_print_made(call, make, call);
}

static int run_version(void *context, const struct command_call *call)
{
    return only_print(context, call, program_make_version);
}

const struct command version_command = {
    .name = "version",
    .summary = "version, commit, compiler and engines",
    .about = "Prints which build this is, and the engines it runs on as they are loaded now. The "
             "same as "
             "--version.",
    .exits = BIT(1) | BIT(2),
    .run = run_version,
};

static enum err make_completion(const void *call, struct buf *into)
{
    return command_completion_bash(((const struct command_call *)call)->path[0], into);
}

static int run_completion_bash(void *context, const struct command_call *call)
{
    return only_print(context, call, make_completion);
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
    .exits = BIT(1) | BIT(2),
    .run = run_completion_bash,
};
static const struct command *const completion_children[] = {&bash_command, NULL};
const struct command completion_command = {
    .name = "completion",
    .summary = "completion scripts for shells",
    .about = "Scripts that let a shell complete commands and options.",
    .children = completion_children,
};
