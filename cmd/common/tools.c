/* SPDX-License-Identifier: Apache-2.0 */
#include "common/tools.h"

#include <stdio.h>
#include <string.h>

#include "common/program.h"
#include "common/tables.h"
#include "common/version.h"

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

/* -- completion -- */

static enum err make_bash(const void *call, struct buf *into)
{
    return command_completion_bash(((const struct command_call *)call)->path[0], into);
}

static int run_completion_bash(void *context, const struct command_call *call)
{
    return only_print(context, call, make_bash);
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
             "It is made from the same tables as --help.",
    .examples = bash_examples,
    .exits = BIT(1) | BIT(2),
    .run = run_completion_bash,
};

static enum err make_zsh(const void *call, struct buf *into)
{
    return command_completion_zsh(((const struct command_call *)call)->path[0], into);
}

static int run_completion_zsh(void *context, const struct command_call *call)
{
    return only_print(context, call, make_zsh);
}

static const struct command_example zsh_examples[] = {
    {"source <(muster completion zsh)", "for this shell, after compinit; musterctl has its own"},
    {"muster completion zsh > ~/.zfunc/_muster", "for every new one, with ~/.zfunc in fpath"},
    {NULL, NULL},
};
static const struct command zsh_command = {
    .name = "zsh",
    .summary = "a script for zsh",
    .about = "Prints a script that teaches zsh the commands, options and choices of this program, "
             "and what each is for. It is made from the same tables as --help.",
    .examples = zsh_examples,
    .exits = BIT(1) | BIT(2),
    .run = run_completion_zsh,
};

static enum err make_fish(const void *call, struct buf *into)
{
    return command_completion_fish(((const struct command_call *)call)->path[0], into);
}

static int run_completion_fish(void *context, const struct command_call *call)
{
    return only_print(context, call, make_fish);
}

static const struct command_example fish_examples[] = {
    {"muster completion fish | source", "for this shell; musterctl has its own"},
    {"muster completion fish > ~/.config/fish/completions/muster.fish", "for every new one"},
    {NULL, NULL},
};
static const struct command fish_command = {
    .name = "fish",
    .summary = "a script for fish",
    .about = "Prints a script that teaches fish the commands, options and choices of this program, "
             "and what each is for. It is made from the same tables as --help.",
    .examples = fish_examples,
    .exits = BIT(1) | BIT(2),
    .run = run_completion_fish,
};

static const struct command *const completion_children[] = {&bash_command, &zsh_command,
                                                            &fish_command, NULL};
const struct command completion_command = {
    .name = "completion",
    .summary = "completion scripts for shells",
    .about = "Scripts that let a shell complete commands and options. `make install` puts them "
             "where the shells look.",
    .children = completion_children,
};

/* -- manual pages -- */

#define FILE_PAGE "muster.toml.5"

struct page {
    const struct command *program;
    struct str wanted; /* "musterctl-cert-issue.1" */
    struct buf *into;
    bool found;
};

static enum err list_page(void *owner, const struct command *command, const char *path)
{
    struct page *page = owner;
    size_t from = page->into->len;
    enum err err = buf_appendf(page->into, "%s.1\n", path);

    (void)command;
    for (size_t i = from; i < page->into->len && !err; i++)
        if (page->into->data[i] == ' ') page->into->data[i] = '-';
    return err;
}

/* The path is the page's name with spaces; both have the same length. */
static bool is_named(const char *path, struct str wanted)
{
    if (wanted.len != strlen(path) + 2 || !str_ends(wanted, STR(".1"))) return false;
    for (size_t i = 0; path[i]; i++)
        if (wanted.at[i] != (path[i] == ' ' ? '-' : path[i])) return false;
    return true;
}

static enum err resolve_path(const struct command *program, const char *path,
                             struct command_call *ret_call)
{
    char words[COMMAND_PATH_CAP], *at = words;
    const char *list[COMMAND_DEPTH_MAX] = {NULL};
    size_t count = 0;

    snprintf(words, sizeof words, "%s", path);
    while ((at = strchr(at, ' '))) {
        *at++ = '\0';
        assert(count < COMMAND_DEPTH_MAX);
        list[count++] = at;
    }
    return command_resolve(program, count, list, ret_call, NULL);
}

static enum err find_page(void *owner, const struct command *command, const char *path)
{
    struct page *page = owner;
    struct command_call call = {0};
    char release[64];

    (void)command;
    if (!is_named(path, page->wanted)) return ERR_OK;
    page->found = true;
    snprintf(release, sizeof release, "muster %s", version_number());
    call.path[0] = page->program;
    call.depth = 1;
    if (strchr(path, ' ') && resolve_path(page->program, path, &call)) return ERR_INTERNAL;
    call.rest_count = 0;
    return command_man(&call, release, page->into);
}

static enum err role_section(const struct role *role, struct buf *into)
{
    struct buf reference;
    char title[64];
    enum err err;

    snprintf(title, sizeof title, "muster %s", role->name);
    buf_init(&reference, PROGRAM_TEXT_MAX);
    err = conf_print_reference(role->table, title, &reference);
    if (!err) err = buf_appendf(into, ".SH MUSTER %s\n.EX\n", role->name);
    if (!err) err = command_man_literal(buf_peek(&reference), into);
    buf_deinit(&reference);
    return err ? err : buf_append_c(into, ".EE\n");
}

static enum err file_page(struct buf *into)
{
    enum err err = buf_appendf(
        into,
        ".TH \"MUSTER.TOML\" 5 \"\" \"muster %s\" \"File Formats\"\n"
        ".SH NAME\nmuster.toml \\- settings of every role of muster\n"
        ".SH DESCRIPTION\nEach role reads one file, named by \\fB\\-\\-config\\fP. A flag beats "
        "the "
        "environment, which beats\nthe file, which beats the default. What is shown here is "
        "commented out, with its default;\n\\fBmusterctl config reference \\-\\-role\\fP prints "
        "it, "
        "\\fBmusterctl config check\\fP looks at a file.\n",
        version_number());

    for (size_t i = 0; roles[i] && !err; i++) err = role_section(roles[i], into);
    return err ? err
               : buf_append_c(into, ".SH SEE ALSO\n\\fBmuster\\fP(1),\n\\fBmusterctl\\fP(1)\n");
}

static enum err make_page(const void *wanted, struct buf *into)
{
    struct page page = *(const struct page *)wanted;
    bool is_ctl = strcmp(page.program->name, "musterctl") == 0;
    enum err err;

    page.into = into;
    if (page.wanted.len == 0) {
        err = command_visit(page.program, list_page, &page);
        return err || !is_ctl ? err : buf_append_c(into, FILE_PAGE "\n");
    }
    if (is_ctl && str_equal(page.wanted, STR(FILE_PAGE))) return file_page(into);
    err = command_visit(page.program, find_page, &page);
    return err || page.found ? err : ERR_NOT_FOUND;
}

static int run_man(void *context, const struct command_call *call)
{
    struct page page = {.program = call->path[0]};
    struct conf *conf;
    enum err err = program_load_conf(context, call, &conf);
    int exit_code;

    if (err) return err_exit_code(err);
    page.wanted = str_from(conf_argument(conf, 0));
    exit_code = program_print_made(call, make_page, &page);
    conf_close(conf);
    return exit_code;
}

static const struct command_example man_examples[] = {
    {"muster man", "which pages there are"},
    {"muster man muster-dev.1 | man -l -", "one of them, read at once"},
    {NULL, NULL},
};
const struct command man_command = {
    .name = "man",
    .summary = "manual pages",
    .about = "Prints a manual page, made from the same tables as --help; without one, the names of "
             "all. `make install` installs them.",
    .arguments = "[PAGE]",
    .arguments_max = 1,
    .examples = man_examples,
    .exits = BIT(1) | BIT(2) | BIT(5),
    .run = run_man,
    .hidden = true,
};
