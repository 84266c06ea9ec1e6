/* SPDX-License-Identifier: Apache-2.0 */
#include "musterctl/bigfleetctl.h"

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
    .name = "bigfleetctl",
    .summary = "the commands of bigfleetctl, by musterctl",
    .about = "Takes the command lines of bigfleetctl. The leader is found from any replica; "
             "musterctl has all of this and more.",
    .examples = COMMAND_EXAMPLES(
        {"bigfleetctl --coordinator c1:7790 list-shards", "options may stand before the command"},
        {"bigfleetctl assign-domain --key zone --value eu-1a --shard shard-0",
         "a domain gets an owner"}),
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

/* How many words stand before the command. */
static size_t count_leading(size_t count, char **words)
{
    size_t at = 0;

    while (at < count && words[at][0] == '-' && words[at][1] != '\0') {
        bool with_value = takes_next_word(words[at]) && at + 1 < count;
        at += with_value ? 2 : 1;
    }
    return at;
}

/* -coordinator is --coordinator, as Go's flags are. */
static char *two_dashes(char *word)
{
    size_t len = strlen(word);
    char *longer;

    if (word[0] != '-' || word[1] == '-' || len <= 2) return word;
    if (word[2] == '=') return word; /* -o=json */
    longer = malloc(len + 2);
    if (!longer) return NULL;
    longer[0] = '-';
    memcpy(longer + 1, word, len + 1);
    return longer;
}

static bool is_group(const char *word)
{
    for (size_t i = 0; children[i]; i++)
        if (strcmp(children[i]->name, word) == 0) return children[i]->children != NULL;
    return false;
}

static void copy_words(char **into, size_t *at, char **words, size_t count)
{
    for (size_t i = 0; i < count; i++) into[(*at)++] = words[i];
}

/* The command first, then what stood before it, then the rest: as our own programs have it. */
static int run_reordered(int argc, char **argv)
{
    size_t count = (size_t)argc - 1, leading = count_leading(count, argv + 1), used = 0;
    size_t command = leading < count ? 1 : 0;
    char **words = calloc((size_t)argc + 1, sizeof(char *));
    int exit_code;

    if (!words) return EXIT_FAILURE;
    if (command && is_group(argv[1 + leading]) && leading + 1 < count) command = 2;
    words[used++] = argv[0];
    copy_words(words, &used, argv + 1 + leading, command);
    copy_words(words, &used, argv + 1, leading);
    copy_words(words, &used, argv + 1 + leading + command, count - leading - command);
    exit_code = program_main(&program, argc, words);
    free(words);
    return exit_code;
}

static void free_words(char **words, char **argv, int argc)
{
    for (int i = 0; i < argc; i++)
        if (words[i] != argv[i]) free(words[i]); /* one that was made longer */
    free(words);
}

int bigfleetctl_main(int argc, char **argv)
{
    char **words = calloc((size_t)argc + 1, sizeof(char *));
    bool good = true, value = false;
    int exit_code = EXIT_FAILURE;

    assert(argc > 0);
    if (!words) return EXIT_FAILURE;
    for (int i = 0; i < argc && good; i++) {
        words[i] = i == 0 || value ? argv[i] : two_dashes(argv[i]);
        good = words[i] != NULL;
        value = good && !value && words[i][0] == '-' && takes_next_word(words[i]);
    }
    if (good && run_reordered(argc, words) == 0) exit_code = EXIT_SUCCESS;
    free_words(words, argv, argc);
    return exit_code;
}
