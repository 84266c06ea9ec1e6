/* SPDX-License-Identifier: Apache-2.0 */
#include "musterctl/bigfleetctl.h"

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

/* -coordinator is --coordinator, as Go's flags are; `text` has room for it. */
static char *two_dashes(char *word, char **text)
{
    char *longer = *text;

    if (word[0] != '-' || word[1] == '-' || strlen(word) <= 2) return word;
    if (word[2] == '=') return word; /* -o=json */
    *text += sprintf(longer, "-%s", word) + 1;
    return longer;
}

int bigfleetctl_main(int argc, char **argv)
{
    char *memory, *text;
    size_t size = 1;
    bool value = false; /* of the option before it */
    int exit_code = EXIT_FAILURE;

    for (int i = 0; i < argc; i++) size += strlen(argv[i]) + 2;
    memory = text = malloc(size);
    if (!memory) return exit_code;
    for (int i = 1; i < argc; i++) {
        if (!value) argv[i] = two_dashes(argv[i], &text);
        value = !value && command_takes_value(&program, argv[i]);
    }
    if (program_main(&program, argc, argv) == 0) exit_code = EXIT_SUCCESS;
    free(memory);
    return exit_code;
}
