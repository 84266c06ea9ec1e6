/* SPDX-License-Identifier: Apache-2.0 */
/* bigfleetctl: translates BigFleet's command lines into musterctl's. */
#include <stdio.h>
#include <stdlib.h>

#include "common/help.h"
#include "common/program.h"
#include "common/tools.h"
#include "common/words.h"
#include "musterctl/commands.h"

static const struct command bigfleetctl_program = {
    HELP_BIGFLEETCTL, .says_name_only = true,
    .children = COMMAND_CHILDREN(&list_shards_command, &list_domain_assignments_command,
                                 &list_quotas_command, &assign_domain_command,
                                 &unassign_domain_command, &remove_shard_command, &snapshot_command,
                                 &completion_command, &version_command)};

int bigfleetctl_main(int argc, char **argv)
{
    static struct words words; /* the arguments, with two dashes before each option */
    bool value = false;        /* the next word is the value of an option */

    for (int i = 0; i < argc && !words.too_many; i++) {
        bool option = i > 0 && !value && argv[i][0] == '-' && argv[i][1] != '\0';

        (option ? words_add_flag : words_add)(&words, argv[i]);
        value = option && !words.too_many &&
                command_takes_value(&bigfleetctl_program, words.word[words.count - 1]);
    }
    if (words.too_many) fprintf(stderr, "%s: too many words\n", bigfleetctl_program.name);
    return !words.too_many && program_main(&bigfleetctl_program, words.count, words.word) == 0
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
}
