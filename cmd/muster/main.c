/* SPDX-License-Identifier: Apache-2.0 */
/* muster: the fleet control plane; its roles are its commands. */
#include <stdio.h>
#include <string.h>

#include "common/help.h"
#include "common/program.h"
#include "common/tools.h"
#include "muster/bigfleet.h"
#include "muster/commands.h"

static const struct command program = {
    HELP_MUSTER,
    .children = COMMAND_CHILDREN(
        &dev_command, &coordinator_command, &shard_command, &operator_command, &provider_command,
        &worker_command, &check_command, &plan_command, &test_fence_command, &mock_run_command,
        &completion_command, &man_command, &version_command),
};

/* Under rollout's names it takes rollout's command lines: rollout-coordinator is its coordinator
 * alone, and neither runs one without a file. */
enum { WORDS_MAX = 256 };

static const char *own_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool has_config(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--config", 8) == 0 || strcmp(argv[i], "--help") == 0) return true;
    return false;
}

static int rollout_main(int argc, char **argv)
{
    bool runs = argc > 2 && strcmp(argv[1], "coordinator") == 0 && strcmp(argv[2], "run") == 0;

    if (runs && !has_config(argc, argv)) {
        fprintf(stderr, "%s: --config FILE is required\n", own_name(argv[0]));
        return 2;
    }
    return program_main(&program, argc, argv);
}

int main(int argc, char **argv)
{
    const char *name = argc > 0 ? own_name(argv[0]) : "";
    char *words[WORDS_MAX + 2] = {argv[0], (char[]){"coordinator"}};

    if (strcmp(name, "muster") == 0 && argc > 1 && strcmp(argv[1], "sim") == 0) {
        fprintf(stderr, "muster: the simulator is a program of its own: muster-sim --scenario log "
                        "--seed 7; see muster-sim --help\n");
        return 2;
    }
    if (strcmp(name, "bigfleet") == 0) return bigfleet_main(&program, argc, argv);
    if (strcmp(name, "rollout") == 0) return rollout_main(argc, argv);
    if (strcmp(name, "rollout-coordinator") != 0 || argc > WORDS_MAX)
        return program_main(&program, argc, argv);
    memcpy(words + 2, argv + 1, (size_t)(argc - 1) * sizeof(char *));
    return rollout_main(argc + 1, words);
}
