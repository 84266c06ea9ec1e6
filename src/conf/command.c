/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the command that a command line names, in the program's tree of commands. Nothing is
 * allocated, and any thread may call. */
#include "conf/command.h"

#include <stdio.h>
#include <string.h>

#include "conf/nearest.h"

const struct command *command_of(const struct command_call *call)
{
    assert(call->depth > 0);
    return call->path[call->depth - 1];
}

const char *command_name(const struct command *parent, const struct command *child)
{
    return parent->verbs && child->verb ? child->verb : child->name;
}

void command_path_text(const struct command_call *call, char text[COMMAND_PATH_CAP])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < call->depth; i++) {
        used += (size_t)snprintf(text + used, COMMAND_PATH_CAP - used, "%s%s", i > 0 ? " " : "",
                                 i > 0 ? command_name(call->path[i - 1], call->path[i])
                                       : call->path[0]->name);
        assert(used < COMMAND_PATH_CAP);
    }
}

const char *command_exit_meaning(size_t code)
{
    static const char *const meanings[] = {
        "done",
        "failed while running",
        "wrong command line or configuration",
        "not the leader, or not ready",
        "conflict, or it exists already",
        "not found",
        "unavailable, or the outcome is unknown",
    };

    return code < ARRAY_LEN(meanings) ? meanings[code] : NULL;
}

static enum err command_visit_call(struct command_call *call, command_visit_fn *each, void *owner)
{
    const struct command *const *children = command_of(call)->children;
    char path[COMMAND_PATH_CAP];
    enum err err;

    command_path_text(call, path);
    err = each(owner, call, path);
    for (; children && *children && !err; children++) {
        if ((*children)->hidden) continue;
        assert(call->depth < COMMAND_DEPTH_MAX); /* never fails: the command tree is constant */
        call->path[call->depth++] = *children;
        err = command_visit_call(call, each, owner);
        call->depth--;
    }
    return err;
}

enum err command_visit(const struct command *program, command_visit_fn *each, void *owner)
{
    struct command_call call = {.path = {program}, .depth = 1};

    return command_visit_call(&call, each, owner);
}

static const struct command *command_find_child(const struct command *parent, const char *name)
{
    for (size_t i = 0; parent->children && parent->children[i]; i++)
        if (strcmp(command_name(parent, parent->children[i]), name) == 0)
            return parent->children[i];
    return NULL;
}

static void command_enter(struct command_call *call, const struct command *child)
{
    assert(call->depth < COMMAND_DEPTH_MAX); /* never fails: the command tree is constant */
    call->path[call->depth++] = child;
}

/* Finds a child by another word for its name, such as "get" for "list". */
static const struct command *command_find_synonym(const struct command_call *call, const char *name)
{
    const struct command_synonym *all = call->path[0]->synonyms;
    const struct command *child = NULL;

    for (size_t i = 0; all && all[i].word && !child; i++)
        if (strcmp(all[i].word, name) == 0)
            child = command_find_child(command_of(call), all[i].name);
    return child;
}

/* Finds the group of a noun: "shard", "shards", or a synonym of a group. */
static const struct command *group_of_noun(const struct command_call *call, const char *word)
{
    const struct command *program = call->path[0], *other = command_find_synonym(call, word);
    size_t len = strlen(word);

    for (size_t i = 0; program->children[i]; i++) {
        const struct command *group = program->children[i];
        size_t own = strlen(group->name);
        if (!group->children || group->hidden || strncmp(group->name, word, own) != 0) continue;
        if (len == own || (len == own + 1 && word[own] == 's')) return group;
    }
    return other && other->children ? other : NULL;
}

/* A child of a group with `verbs` has two names. */
static bool command_enter_named(struct command_call *call, const char *name)
{
    const struct command *here = command_of(call), *child = command_find_child(here, name);

    if (!child) child = command_find_synonym(call, name);
    if (child) command_enter(call, child);
    for (size_t i = 0; !child && call->depth == 1 && here->children[i]; i++) {
        const struct command *group = here->children[i];
        for (size_t j = 0; !child && group->verbs && group->children[j]; j++) {
            const struct command *one = group->children[j];
            if (!one->verb || strcmp(one->name, name) != 0) continue;
            child = one;
            command_enter(call, group);
            command_enter(call, child);
        }
    }
    return child != NULL;
}

static enum err unknown_command(const struct command_call *call, const char *word, const char *next,
                                struct note *note)
{
    const struct command *parent = command_of(call);
    const struct command *group = call->depth == 1 && next ? group_of_noun(call, next) : NULL;
    char path[COMMAND_PATH_CAP], verbs[256];
    struct nearest nearest;
    size_t used = 0;

    command_path_text(call, path);
    if (group)
        return note_fail(note, ERR_INVALID, "unknown command '%s %s' (did you mean '%s %s'?)", word,
                         next, group->name,
                         command_find_child(group, word) ? word
                                                         : command_name(group, group->children[0]));
    nearest_init(&nearest, str_from(word));
    for (size_t i = 0; parent->children && parent->children[i]; i++)
        nearest_offer(&nearest, str_from(command_name(parent, parent->children[i])), i);
    if (nearest_found(&nearest))
        return note_fail(note, ERR_INVALID,
                         "unknown command '%s' (did you mean '%s'?); see %s --help", word,
                         command_name(parent, parent->children[nearest.place]), path);
    for (size_t i = 0; call->depth == 1 && next && parent->synonyms && parent->synonyms[i].word;
         i++)
        if (strcmp(parent->synonyms[i].word, word) == 0)
            return note_fail(note, ERR_INVALID, "unknown noun '%s' after '%s'; see %s --help", next,
                             word, path);
    if (call->depth == 1)
        return note_fail(note, ERR_INVALID, "unknown command '%s'; see %s --help", word, path);
    for (size_t i = 0; parent->children[i]; i++)
        used += (size_t)snprintf(verbs + used, sizeof verbs - used, "%s%s", i ? ", " : "",
                                 command_name(parent, parent->children[i]));
    assert(used < sizeof verbs); /* never fails: the command tree is constant */
    return note_fail(note, ERR_INVALID, "unknown command '%s': %s has %s", word, path, verbs);
}

/* -- options that precede the words of the command -- */

bool command_takes_value(const struct command *program, const char *word)
{
    const struct option_table *table = program->options;

    for (size_t i = 0; table && i < table->count; i++)
        if (option_is_flag(&table->options[i], str_from(word)))
            return table->options[i].kind != OPTION_BOOL;
    for (size_t i = 0; program->children && program->children[i]; i++)
        if (command_takes_value(program->children[i], word)) return true;
    return false;
}

/* How many words at the start are options or values of options. */
static size_t command_skip_options(const struct command *program, size_t count,
                                   const char *const *words)
{
    size_t i = 0;

    while (i < count && words[i][0] == '-' && strcmp(words[i], "--") != 0)
        i += command_takes_value(program, words[i]) ? 2 : 1;
    return min_size(i, count);
}

/* Puts the group first: "get shards" becomes "shard get", and "workers list" becomes "worker list".
 * But "evict worker" stays, because it is the old name of a command with the argument "worker". */
static void command_order_words(const struct command_call *call, const char **words)
{
    const struct command *program = call->path[0], *group;
    size_t count = call->rest_count, at = command_skip_options(program, count, words), next, after;
    struct command_call old = *call;

    if (!program->synonyms || at == count || command_find_child(program, words[at])) return;
    next = at + 1 + command_skip_options(program, count - at - 1, words + at + 1);
    if (next >= count) return;
    after = next + 1 + command_skip_options(program, count - next - 1, words + next + 1);
    group = group_of_noun(call, words[next]);
    if (group && (after < count || !command_enter_named(&old, words[at]))) {
        words[next] = words[at];
        words[at] = group->name;
        return;
    }
    group = group_of_noun(call, words[at]);
    if (group) words[at] = group->name;
}

/* Enters a child for each word that names a child, and stops at the first other word. */
static enum err command_walk(struct command_call *call, const char **words, struct note *note)
{
    command_order_words(call, words);
    while (command_of(call)->children) {
        size_t at = command_skip_options(call->path[0], call->rest_count, words);
        const char *word = at < call->rest_count ? words[at] : "-";

        if (word[0] == '-') break;
        if (!command_enter_named(call, word))
            return unknown_command(call, word, at + 1 < call->rest_count ? words[at + 1] : NULL,
                                   note);
        memmove(words + 1, words, at * sizeof *words);
        words[0] = word;
        call->rest = ++words;
        call->rest_count--;
    }
    return ERR_OK;
}

static bool command_has_help(const struct command_call *call)
{
    for (size_t i = 0; i < call->rest_count && strcmp(call->rest[i], "--") != 0; i++) {
        if (strcmp(call->rest[i], "--help") == 0 || strcmp(call->rest[i], "-h") == 0) return true;
    }
    return false;
}

/* Nothing, --version or an option follows the name of the group. */
static enum err group_without_command(struct command_call *call, struct note *note)
{
    char path[COMMAND_PATH_CAP];

    if (call->rest_count == 0) {
        call->wish = COMMAND_MISSING;
        return ERR_OK;
    }
    if (call->depth == 1 && strcmp(call->rest[0], "--version") == 0) {
        call->wish = COMMAND_VERSION;
        return ERR_OK;
    }
    command_path_text(call, path);
    return note_fail(note, ERR_INVALID, "%s: no command is given; see %s --help", call->rest[0],
                     path);
}

enum err command_resolve(const struct command *program, size_t count, const char **words,
                         struct command_call *ret_call, struct note *note)
{
    struct command_call call = {.path = {program}, .depth = 1, .rest = words, .rest_count = count};
    bool help_word = count > 0 && strcmp(words[0], "help") == 0;
    enum err err;

    if (help_word) {
        call.rest = ++words;
        call.rest_count--;
    }
    err = command_walk(&call, words, note);
    if (err) return err;
    if (help_word || command_has_help(&call))
        call.wish = COMMAND_HELP;
    else if (command_of(&call)->children)
        err = group_without_command(&call, note);
    if (!err) *ret_call = call;
    return err;
}

enum err command_check_arguments(const struct command_call *call, size_t count, struct note *note)
{
    const struct command *command = command_of(call);
    char path[COMMAND_PATH_CAP];

    if (count >= command->arguments_min && count <= command->arguments_max) return ERR_OK;
    command_path_text(call, path);
    if (!command->arguments)
        note_set(note, "takes no arguments; see %s --help", path);
    else if (count < command->arguments_min)
        note_set(note, "%s is needed; see %s --help", command->arguments, path);
    else
        note_set(note, "too many arguments for '%s'; see %s --help", command->arguments, path);
    return ERR_INVALID;
}
