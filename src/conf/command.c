/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/command.h"

#include <stdio.h>
#include <string.h>

#include "conf/nearest.h"

const struct command *command_of(const struct command_call *call)
{
    assert(call->depth > 0);
    return call->path[call->depth - 1];
}

void command_path_text(const struct command_call *call, char text[COMMAND_PATH_CAP])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < call->depth; i++) {
        used += (size_t)snprintf(text + used, COMMAND_PATH_CAP - used, "%s%s", i > 0 ? " " : "",
                                 call->path[i]->name);
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

static enum err visit(struct command_call *call, command_visit_fn *each, void *owner)
{
    const struct command *const *children = command_of(call)->children;
    char path[COMMAND_PATH_CAP];
    enum err err;

    command_path_text(call, path);
    err = each(owner, call, path);
    for (; children && *children && !err; children++) {
        if ((*children)->hidden) continue;
        assert(call->depth < COMMAND_DEPTH_MAX); /* the tree is ours */
        call->path[call->depth++] = *children;
        err = visit(call, each, owner);
        call->depth--;
    }
    return err;
}

enum err command_visit(const struct command *program, command_visit_fn *each, void *owner)
{
    struct command_call call = {.path = {program}, .depth = 1};

    return visit(&call, each, owner);
}

static const struct command *find_child(const struct command *parent, const char *name)
{
    for (size_t i = 0; parent->children && parent->children[i]; i++) {
        if (strcmp(parent->children[i]->name, name) == 0) return parent->children[i];
    }
    return NULL;
}

static enum err unknown_command(const struct command_call *call, const char *word,
                                struct note *note)
{
    const struct command *parent = command_of(call);
    char path[COMMAND_PATH_CAP];
    struct nearest nearest;

    nearest_init(&nearest, str_from(word));
    for (size_t i = 0; parent->children && parent->children[i]; i++) {
        nearest_offer(&nearest, str_from(parent->children[i]->name), i);
    }
    command_path_text(call, path);
    if (nearest_found(&nearest)) {
        note_set(note, "unknown command '%s' (did you mean '%s'?); see %s --help", word,
                 parent->children[nearest.place]->name, path);
    } else {
        note_set(note, "unknown command '%s'; see %s --help", word, path);
    }
    return ERR_INVALID;
}

/* Follows command words as far as they go: until an option, or a command without children. */
static enum err walk(struct command_call *call, struct note *note)
{
    while (command_of(call)->children && call->rest_count > 0 && call->rest[0][0] != '-') {
        const struct command *child = find_child(command_of(call), call->rest[0]);
        if (!child) return unknown_command(call, call->rest[0], note);
        assert(call->depth < COMMAND_DEPTH_MAX); /* the tree is ours */
        call->path[call->depth++] = child;
        call->rest++;
        call->rest_count--;
    }
    return ERR_OK;
}

static bool has_help(const struct command_call *call)
{
    for (size_t i = 0; i < call->rest_count && strcmp(call->rest[i], "--") != 0; i++) {
        if (strcmp(call->rest[i], "--help") == 0 || strcmp(call->rest[i], "-h") == 0) return true;
    }
    return false;
}

/* A group was named and then something that is no command. */
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
    return note_fail(note, ERR_INVALID, "%s: options come after the command, as in %s %s %s",
                     call->rest[0], path, command_of(call)->children[0]->name, call->rest[0]);
}

enum err command_resolve(const struct command *program, size_t count, const char *const *words,
                         struct command_call *ret_call, struct note *note)
{
    struct command_call call = {.path = {program}, .depth = 1, .rest = words, .rest_count = count};
    bool help_word = count > 0 && strcmp(words[0], "help") == 0;
    enum err err;

    if (help_word) {
        call.rest++;
        call.rest_count--;
    }
    err = walk(&call, note);
    if (err) return err;
    if (help_word || has_help(&call))
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
