/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the command that a command line names, in the program's tree of commands. Nothing is
 * allocated, and any thread may call. */
#include "conf/command.h"

#include <stdio.h>
#include <string.h>

#include "conf/internal.h"
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
    const struct command_word *word = call->path[0]->words;
    const struct command *child = NULL;

    for (; word && word->words && !child; word++)
        if (word->kind == '~' && strcmp(word->words, name) == 0)
            child = command_find_child(command_of(call), word->means);
    return child;
}

/* Finds the group of a noun: "shard", "shards", "shard/NAME", or a synonym of a group. */
static const struct command *group_of_noun(const struct command_call *call, const char *word)
{
    const struct command *program = call->path[0], *other = command_find_synonym(call, word);

    for (size_t i = 0; program->children[i]; i++) {
        const struct command *group = program->children[i];
        if (group->children && !group->hidden &&
            phrase_is_noun(str_from(word), str_from(group->name)))
            return group;
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
            call->flat = true;
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
    const struct command_word *advice = phrase_find(call->path[0], "!", str_from(word), NULL);
    bool verb = call->depth == 1 && next && next[0] != '-' &&
                phrase_find(call->path[0], "~", str_from(word), NULL);
    char path[COMMAND_PATH_CAP], verbs[256];
    struct nearest nearest;
    size_t used = 0;

    command_path_text(call, path);
    if (verb && !group)
        return note_fail(note, ERR_INVALID, "unknown noun '%s' after '%s'; %s%s%s", next, word,
                         advice ? advice->means : "see ", advice ? "" : path,
                         advice ? "" : " --help");
    if (advice)
        return note_fail(note, ERR_INVALID, "no command '%s%s%s'; %s",
                         call->depth > 1 ? command_name(call->path[0], parent) : "",
                         call->depth > 1 ? " " : "", word, advice->means);
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

/* Finds the first words that are no options. The place of a missing word is `count`. */
static void command_find_words(const struct command_call *call, const char *const *words,
                               size_t places[3])
{
    size_t count = call->rest_count, from = 0;

    for (size_t i = 0; i < 3; i++) {
        places[i] = from + command_skip_options(call->path[0], count - from, words + from);
        from = min_size(places[i] + 1, count);
    }
}

/* Removes a word that is understood; of "shard/NAME" the name stays. */
static const char **command_drop_word(struct command_call *call, const char **words, size_t place)
{
    const char *slash = strchr(words[place], '/');

    if (!slash) return phrase_drop(call, words, place);
    words[place] = slash + 1;
    return words;
}

/* Enters the command that a row of the program's words means. ERR_INVALID: there is none. */
static enum err command_enter_meaning(struct command_call *call, const struct command_word *found,
                                      struct note *note)
{
    struct str rest = str_from(found->means), part;
    char name[COMMAND_PATH_CAP];

    if (found->kind == '!')
        return note_fail(note, ERR_INVALID, "no command '%s'; %s", found->words, found->means);
    if (rest.len == 0) call->wish = COMMAND_HELP;
    while (rest.len > 0 && str_split(&rest, ' ', &part)) {
        snprintf(name, sizeof name, "%.*s", STR_ARG(part));
        if (!command_enter_named(call, name)) assert(false); /* cannot fail: constant data */
    }
    return ERR_OK;
}

/* Understands the first one or two words: as words of another tool, or as verb and noun in any
 * order, so that "get shards" is "shard list". An old name of a command stays: "evict worker"
 * evicts the worker "worker". */
static enum err command_take_words(struct command_call *call, const char ***words,
                                   struct note *note)
{
    const struct command *program = call->path[0], *group;
    const struct command_word *found = NULL;
    struct command_call old = *call;
    const char *first, *second;
    size_t at[3], noun;

    command_find_words(call, *words, at);
    if (!program->words || at[0] == call->rest_count) return ERR_OK;
    first = (*words)[at[0]];
    second = at[1] < call->rest_count ? (*words)[at[1]] : NULL;
    if (second) found = phrase_find(program, "=!", str_from(first), second);
    if (found) *words = command_drop_word(call, *words, at[1]);
    if (!found && !command_find_child(program, first))
        found = phrase_find(program, "=", str_from(first), NULL);
    if (found) {
        *words = command_drop_word(call, *words, at[0]);
        return command_enter_meaning(call, found, note);
    }
    if (command_find_child(program, first) || !second) return ERR_OK;
    noun = 1;
    group = group_of_noun(call, second);
    if (!group ||
        (at[2] == call->rest_count && !strchr(second, '/') && command_enter_named(&old, first))) {
        noun = 0;
        group = group_of_noun(call, first);
    }
    if (!group) return ERR_OK;
    *words = command_drop_word(call, *words, at[noun]);
    command_enter(call, group);
    return ERR_OK;
}

/* Enters a child for each word that names a child, and stops at the first other word. */
static enum err command_walk(struct command_call *call, const char ***words, struct note *note)
{
    enum err err = command_take_words(call, words, note);

    while (!err && call->wish != COMMAND_HELP && command_of(call)->children) {
        size_t at = command_skip_options(call->path[0], call->rest_count, *words);
        const char *word = at < call->rest_count ? (*words)[at] : "-";

        if (word[0] == '-') break;
        if (!command_enter_named(call, word))
            return unknown_command(call, word, at + 1 < call->rest_count ? (*words)[at + 1] : NULL,
                                   note);
        *words = phrase_drop(call, *words, at);
    }
    return err;
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
    err = command_walk(&call, &words, note);
    if (err) return err;
    if (help_word || call.wish == COMMAND_HELP || command_has_help(&call))
        call.wish = COMMAND_HELP;
    else if (command_of(&call)->children)
        err = group_without_command(&call, note);
    else
        err = phrase_heed_options(&call, words, note);
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
