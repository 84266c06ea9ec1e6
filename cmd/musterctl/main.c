/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl: the command line tool for a running fleet. */
#include <string.h>

#include "common/help.h"
#include "common/program.h"
#include "common/restore_archive.h"
#include "common/tables.h"
#include "common/tools.h"
#include "common/words.h"
#include "ctl/doctor.h"
#include "ctl/explain.h"
#include "ctl/inspect.h"
#include "musterctl/commands.h"
#include "musterctl/run.h"

/* Words of other tools. A word with two names means the first one that the noun has. */
static const struct command_synonym synonyms[] = {
    {"get", "list"},       {"ls", "list"},
    {"list", "ls"},        {"show", "explain"},
    {"show", "list"},      {"describe", "explain"},
    {"describe", "list"},  {"delete", "remove"},
    {"delete", "del"},     {"rm", "remove"},
    {"rm", "del"},         {"set", "put"},
    {"kv", "store"},       {"health", "doctor"},
    {"member", "replica"}, {"members", "replica"},
    {"nodes", "replica"},  {"coordinators", "replica"},
    {NULL, NULL}};

static const struct command explain_need_command = {
    .verb = "explain",
    COMMAND_ROW_WITH(HELP_MUSTERCTL_EXPLAIN_NEED, explain, "CLUSTER[/WHICH]", 1, 1),
    CTL_OFFLINE(CTL_EXITS | BIT(5), explain_need)};
static const struct command need_command = COMMAND_GROUP(
    HELP_MUSTERCTL_NEED,
    COMMAND(COMMAND_ROW(HELP_MUSTERCTL_NEEDS, needs), CTL_OFFLINE(CTL_EXITS, needs_act)),
    &explain_need_command);
static const struct command explain_command = COMMAND_TREE(
    HELP_MUSTERCTL_EXPLAIN, &explain_need_command, &explain_machine_command,
    COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_EXPLAIN_WORKER, explain_worker, "WORKER", 1, 1),
            CTL_ACT(BIT(5), explain_worker)));

static const struct command main_program = {
    HELP_MUSTERCTL, .synonyms = synonyms,
    .children = COMMAND_CHILDREN(
        COMMAND(COMMAND_ROW(HELP_MUSTERCTL_TOP, top), CTL_OFFLINE(BIT(6), top_act)),
        &explain_command,
        COMMAND(COMMAND_ROW(HELP_MUSTERCTL_DOCTOR, doctor), CTL_OFFLINE(0, doctor_act)),
        &shard_command, &domain_command, &cluster_command, &need_command, &machine_command,
        &quota_command, &provider_command, &instruction_command, &replica_command, &worker_command,
        &partition_command, &checkpoint_command, &queue_command, &store_command, &coord_command,
        COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_BACKUP, ctl, "FILE | verify FILE", 1, 2),
                CTL_ACT(BIT(5), backup_act)),
        COMMAND(COMMAND_ROW_WITH(HELP_MUSTERCTL_RESTORE, coordinator_restore, "ARCHIVE", 1, 1),
                PROGRAM_ACT(BIT(4) | BIT(5), restore_act)),
        &snapshot_command, &auth_command, &cert_command, &config_command, &completion_command,
        &man_command, &version_command)};

int main(int argc, char **argv)
{
    if (argc > 0 && strcmp(words_program(argv[0]), "bigfleetctl") == 0)
        return bigfleetctl_main(argc, argv);
    return program_main(&main_program, argc, argv);
}
