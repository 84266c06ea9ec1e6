/* SPDX-License-Identifier: Apache-2.0 */
#include "musterctl/bigfleetctl.h"
#include "common/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/program.h"
#include "common/tools.h"
#include "musterctl/commands.h"

static const struct command *const children[] = {
    &list_shards_command,     &list_domain_assignments_command,
    &list_quotas_command,     &assign_domain_command,
    &unassign_domain_command, &remove_shard_command,
    &snapshot_command,        &completion_command,
    &version_command,         NULL,
};
static const struct command program = {
    HELP_BIGFLEETCTL,
    .children = children,
    .says_name_only = true,
};

bool bigfleetctl_is(const char *program_name)
{
    const char *slash = strrchr(program_name, '/');

    return strcmp(slash ? slash + 1 : program_name, program.name) == 0;
}

/* -- options before the command -- */

static bool names(const struct option *option, const char *word)
{
    const char *name = word + strspn(word, "-"), *also = option->also;
    char flag[OPTION_NAME_CAP];

    option_flag_name(option, flag);
    return strcmp(flag + 2, name) == 0 || (also && strcmp(also + strspn(also, "-"), name) == 0);
}

/* Whether the word is an option, of whichever command, that takes the next word as its value. */
static bool takes_next_word(const char *word)
{
    for (size_t i = 0; children[i]; i++) {
        const struct option_table *table = children[i]->options;
        for (size_t j = 0; table && j < table->count; j++)
            if (table->options[j].kind != OPTION_BOOL && names(&table->options[j], word))
                return true;
    }
    return false;
}

/* -coordinator is --coordinator, as Go's flags are; `text` has room for it. */
static char *two_dashes(char *word, char **text)
{
    char *longer = *text;

    if (word[0] != '-' || word[1] == '-' || strlen(word) <= 2) return word;
    if (word[2] == '=') return word; /* -o=json */
    *text += sprintf(longer, "-%s", word) + 1;
    return longer;
}

static bool is_group(const char *word)
{
    for (size_t i = 0; children[i]; i++)
        if (strcmp(children[i]->name, word) == 0) return children[i]->children != NULL;
    return false;
}

/* The command first, then what stood before it, then the rest: as our own programs have it. */
static void reorder(size_t count, char **given, char **text, char **words)
{
    size_t command = count, after, used = 1;
    bool value = false; /* of the option before it */

    for (size_t i = 1; i < count; i++) {
        bool option;

        if (!value) given[i] = two_dashes(given[i], text);
        option = !value && given[i][0] == '-' && given[i][1] != '\0';
        if (!value && !option && command == count) command = i;
        value = option && takes_next_word(given[i]);
    }
    after = min_size(command + 1, count);
    if (after < count && is_group(given[command])) after++;
    words[0] = given[0];
    for (size_t i = command; i < after; i++) words[used++] = given[i];
    for (size_t i = 1; i < command; i++) words[used++] = given[i];
    for (size_t i = after; i < count; i++) words[used++] = given[i];
}

int bigfleetctl_main(int argc, char **argv)
{
    char **words = calloc((size_t)argc + 1, sizeof(char *)), *memory, *text;
    size_t size = 1;
    int exit_code = EXIT_FAILURE;

    assert(argc > 0);
    for (int i = 0; i < argc; i++) size += strlen(argv[i]) + 2;
    memory = text = malloc(size);
    if (words && memory) {
        reorder((size_t)argc, argv, &text, words);
        if (program_main(&program, argc, words) == 0) exit_code = EXIT_SUCCESS;
    }
    free(memory);
    free(words);
    return exit_code;
}
