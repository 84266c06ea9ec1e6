/* SPDX-License-Identifier: Apache-2.0 */
/* The original's tool: its command lines, turned into ours. */
#include "common/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/program.h"
#include "common/tools.h"
#include "common/words.h"
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

/* -- options before the command -- */

static bool bigfleetctl_option_is(const struct option *option, const char *word)
{
    const char *name = word + strspn(word, "-"), *also = option->also;
    char flag[OPTION_NAME_CAP];

    option_flag_name(option, flag);
    return strcmp(flag + 2, name) == 0 || (also && strcmp(also + strspn(also, "-"), name) == 0);
}

/* Whether the word is an option, of whichever command, that takes the next word as its value. */
static bool bigfleetctl_takes_next_word(const char *word)
{
    for (size_t i = 0; children[i]; i++) {
        const struct option_table *table = children[i]->options;
        for (size_t j = 0; table && j < table->count; j++)
            if (table->options[j].kind != OPTION_BOOL &&
                bigfleetctl_option_is(&table->options[j], word))
                return true;
    }
    return false;
}

static bool bigfleetctl_is_group(const char *word)
{
    for (size_t i = 0; children[i]; i++)
        if (strcmp(children[i]->name, word) == 0) return children[i]->children != NULL;
    return false;
}

/* The command first, then what stood before it, then the rest: as our own programs have it. */
static void bigfleetctl_reorder(int count, char **given, struct words *words)
{
    static struct words flags; /* `given`, each option with two dashes */
    int command = count, after;
    bool value = false; /* of the option before it */

    for (int i = 0; i < count; i++) {
        char *word = given[i];
        bool option = i > 0 && !value && word[0] == '-' && word[1] != '\0';

        (option ? words_add_flag : words_add)(&flags, word);
        if (flags.too_many) break;
        word = flags.word[i];
        if (i > 0 && !value && !option && command == count) command = i;
        value = option && bigfleetctl_takes_next_word(word);
    }
    words->too_many = flags.too_many;
    if (words->too_many) return;
    after = command < count ? command + 1 : count;
    if (after < count && bigfleetctl_is_group(flags.word[command])) after++;
    words_add(words, flags.word[0]);
    for (int i = command; i < after; i++) words_add(words, flags.word[i]);
    for (int i = 1; i < command; i++) words_add(words, flags.word[i]);
    for (int i = after; i < count; i++) words_add(words, flags.word[i]);
}

int bigfleetctl_main(int argc, char **argv)
{
    static struct words words;

    assert(argc > 0);
    bigfleetctl_reorder(argc, argv, &words);
    if (words.too_many) fprintf(stderr, "%s: too many words\n", program.name);
    return !words.too_many && program_main(&program, words.count, words.word) == 0 ? EXIT_SUCCESS
                                                                                   : EXIT_FAILURE;
}
