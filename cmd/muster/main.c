/* muster: the fleet control plane; its roles are its commands. */
#include "common/program.h"
#include "common/tools.h"
#include "muster/commands.h"

static const struct command_example examples[] = {
    {"muster dev", "start here, then open http://127.0.0.1:8790/"},
    {"muster dev --print-config", "every setting with where it came from"},
    {NULL, NULL},
};
static const struct command *const children[] = {
    &dev_command, &coordinator_command, &check_command,   &log_node_command,
    &sim_command, &completion_command,  &version_command, NULL,
};
static const struct command program = {
    .name = "muster",
    .summary = "a fleet control plane",
    .about =
        "This release runs the replicas of the fleet coordinator, by themselves or three at once "
        "with `muster dev`. The other roles (shard, worker, provider, operator) arrive with "
        "later releases and are listed here once they exist.",
    .examples = examples,
    .children = children,
};

int main(int argc, char **argv)
{
    return program_main(&program, argc, argv);
}
