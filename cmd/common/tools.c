/* SPDX-License-Identifier: Apache-2.0 */
/* `version`, `completion` and `man`. Completion and manual pages are made from the program's
 * command tree and option tables. One thread. */
#include "common/tools.h"

#include <stdio.h>
#include <string.h>

#include "common/help.h"
#include "common/program.h"
#include "common/tables.h"
#include "common/version.h"

const struct command version_command = {
    HELP_MUSTER_VERSION,
    PROGRAM_ACT(0, program_version),
};

/* -- completion -- */

static enum err tools_completion(struct program_run *run)
{
    return command_completion(run->call->path[0], command_of(run->call)->name, &run->out);
}

const struct command completion_command = COMMAND_TREE(
    HELP_MUSTER_COMPLETION, COMMAND(HELP_MUSTER_COMPLETION_BASH, PROGRAM_ACT(0, tools_completion)),
    COMMAND(HELP_MUSTER_COMPLETION_ZSH, PROGRAM_ACT(0, tools_completion)),
    COMMAND(HELP_MUSTER_COMPLETION_FISH, PROGRAM_ACT(0, tools_completion)));

/* -- manual pages -- */

#define FILE_PAGE "muster.toml.5"

struct page {
    struct str wanted; /* "musterctl-cert-issue.1" */
    struct buf *into;
    bool found;
};

/* "musterctl-cert-issue.1" */
static void tools_page_name(const char *path, char name[COMMAND_PATH_CAP + 2])
{
    snprintf(name, COMMAND_PATH_CAP + 2, "%s.1", path);
    for (char *c = name; *c; c++)
        if (*c == ' ') *c = '-';
}

/* Prints the requested manual page; without a request, lists the names of all pages. */
static enum err tools_visit_page(void *owner, const struct command_call *call, const char *path)
{
    struct page *page = owner;
    char release[64], name[COMMAND_PATH_CAP + 2];

    tools_page_name(path, name);
    if (page->wanted.len == 0) return buf_appendf(page->into, "%s\n", name);
    if (!str_equal(page->wanted, str_from(name))) return ERR_OK;
    page->found = true;
    snprintf(release, sizeof release, "muster %s", version_number());
    return command_man(call, release, page->into);
}

static enum err tools_role_section(const struct role *role, struct buf *into)
{
    struct buf reference;
    char title[64];
    enum err err;

    snprintf(title, sizeof title, "muster %s", role->name);
    buf_init(&reference, PROGRAM_TEXT_MAX);
    err = conf_print_reference(role->table, title, &reference);
    if (!err) err = buf_appendf(into, ".SH MUSTER %s\n.EX\n", role->name);
    if (!err) err = command_man_text(buf_peek(&reference), true, into);
    buf_deinit(&reference);
    return err ? err : buf_append_c(into, ".EE\n");
}

static enum err tools_file_page(struct buf *into)
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

    for (size_t i = 0; roles[i] && !err; i++) err = tools_role_section(roles[i], into);
    return err ? err
               : buf_append_c(into, ".SH SEE ALSO\n\\fBmuster\\fP(1),\n\\fBmusterctl\\fP(1)\n");
}

static enum err tools_print_page(struct program_run *run)
{
    struct page page = {.wanted = str_from(conf_argument(run->conf, 0)), .into = &run->out};
    bool is_ctl = strcmp(run->call->path[0]->name, "musterctl") == 0;
    enum err err;

    if (is_ctl && str_equal(page.wanted, STR(FILE_PAGE))) return tools_file_page(page.into);
    err = command_visit(run->call->path[0], tools_visit_page, &page);
    if (err || page.found) return err;
    if (page.wanted.len > 0) return ERR_NOT_FOUND;
    return is_ctl ? buf_append_c(page.into, FILE_PAGE "\n") : ERR_OK;
}

const struct command man_command = {
    HELP_MUSTER_MAN,
    COMMAND_ARGUMENTS("[PAGE]", 0, 1),
    PROGRAM_ACT(BIT(5), tools_print_page),
    .hidden = true,
};
