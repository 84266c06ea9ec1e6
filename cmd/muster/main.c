/* SPDX-License-Identifier: Apache-2.0 */
/* muster: the fleet control plane; each role is a command. Started under the name of an older
 * program (bigfleet, rollout), it accepts that program's command lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/help.h"
#include "common/program.h"
#include "common/tables.h"
#include "common/tools.h"
#include "common/words.h"
#include "muster/commands.h"

static const struct command_word other_words[] = {HELP_WORDS_MUSTER};
static const struct command program = {
    HELP_MUSTER, .words = other_words,
    .children = COMMAND_CHILDREN(
        &dev_command, &coordinator_command, &shard_command, &operator_command, &provider_command,
        &worker_command,
        COMMAND(HELP_MUSTER_CHECK, COMMAND_ARGUMENTS("DIR", 1, 1),
                PROGRAM_ACT(BIT(4) | BIT(5), check_act)),
        COMMAND(COMMAND_ROW(HELP_MUSTER_PLAN, plan), PROGRAM_ACT(BIT(5), plan_act)),
        COMMAND(COMMAND_ROW_WITH(HELP_MUSTER_TEST_FENCE, test_fence, "STALE OBSERVED", 2, 2),
                PROGRAM_ACT(0, test_fence_act), .hidden = true),
        COMMAND(COMMAND_ROW(HELP_MUSTER_MOCK_RUN, mock_run), PROGRAM_ACT(0, mock_run_act),
                .hidden = true),
        &completion_command, &man_command, &version_command)};
static struct words words;

/* -- rollout: its coordinators need a --config file -- */

static bool has_config(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--config", 8) == 0 || strcmp(argv[i], "--help") == 0) return true;
    return false;
}

static int rollout_main(int argc, char **argv)
{
    bool runs = argc > 2 && strcmp(argv[1], "coordinator") == 0 && strcmp(argv[2], "run") == 0;

    if (!runs || has_config(argc, argv)) return program_main(&program, argc, argv);
    fprintf(stderr, "%s: --config FILE is required\n", words_program(argv[0]));
    return 2;
}

/* Runs under the name of rollout's coordinator; its commands are those of `muster coordinator`. */
static int rollout_coordinator_main(int argc, char **argv)
{
    static char coordinator[] = "coordinator";

    words_add(&words, argv[0]);
    words_add(&words, coordinator);
    for (int i = 1; i < argc; i++) words_add(&words, argv[i]);
    return words.too_many ? program_main(&program, argc, argv)
                          : rollout_main(words.count, words.word);
}

/* -- bigfleet: `bigfleet coordinator -id=node-1` is `muster coordinator run --id=node-1` -- */

/* True if a source sets --execute-concurrency. Adding BigFleet's default as a flag would override
 * it. */
static bool bigfleet_sets_concurrency(int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (strstr(argv[i], "-config")) return true;
    return getenv("MUSTER_CONFIG") || getenv("MUSTER_EXECUTE_CONCURRENCY");
}

/* Applies BigFleet's defaults where they differ: a coordinator is node-1 and bootstraps no cluster
 * unless asked to. */
static int bigfleet_main(int argc, char **argv)
{
    static char run[] = "run", id[] = "--id=node-1", no_bootstrap[] = "--no-bootstrap";
    static char one_at_a_time[] = "--execute-concurrency=1";
    bool coordinator = argc > 1 && strcmp(argv[1], "coordinator") == 0;
    bool shard = argc > 1 && strcmp(argv[1], "shard") == 0;

    /* A command line with the word `run` already has muster's form. */
    if ((!coordinator && !shard) || (argc > 2 && argv[2][0] != '-'))
        return program_main(&program, argc, argv);
    words_add(&words, argv[0]);
    words_add(&words, argv[1]);
    words_add(&words, run);
    /* Defaults come first, because the last value of an option wins. */
    if (coordinator) words_add(&words, id);
    if (coordinator) words_add(&words, no_bootstrap);
    if (shard && !bigfleet_sets_concurrency(argc, argv)) words_add(&words, one_at_a_time);
    for (int i = 2; i < argc; i++) words_add_flag(&words, argv[i]);
    if (!words.too_many) return program_main(&program, words.count, words.word);
    fprintf(stderr, "%s: too many words\n", argv[0]);
    return 2;
}

int main(int argc, char **argv)
{
    const char *name = argc > 0 ? words_program(argv[0]) : "";

    if (strcmp(name, "muster") == 0 && argc > 1 && strcmp(argv[1], "sim") == 0) {
        fprintf(stderr, "muster: the simulator is a program of its own: muster-sim --scenario log "
                        "--seed 7; see muster-sim --help\n");
        return 2;
    }
    if (strcmp(name, "bigfleet") == 0) return bigfleet_main(argc, argv);
    if (strcmp(name, "rollout") == 0) return rollout_main(argc, argv);
    if (strcmp(name, "rollout-coordinator") == 0) return rollout_coordinator_main(argc, argv);
    return program_main(&program, argc, argv);
}
