/* musterctl: the tool beside a fleet. */
#include "common/program.h"
#include "common/tools.h"
#include "musterctl/commands.h"

static const struct command_example examples[] = {
    {"musterctl cert ca", "make a development authority in ./tls"},
    {"musterctl cert issue replica --id 1", "a certificate for one replica"},
    {"musterctl config check muster.toml", "is this file good?"},
    {NULL, NULL},
};
static const struct command *const children[] = {
    &cert_command, &config_command, &completion_command, &version_command, NULL,
};
static const struct command program = {
    .name = "musterctl",
    .summary = "tools beside a fleet: certificates and configuration",
    .about = "Makes the certificates a fleet proves itself with and checks configuration files. "
             "Commands "
             "that talk to a running fleet arrive with the roles they talk to.",
    .examples = examples,
    .children = children,
};

int main(int argc, char **argv)
{
    return program_main(&program, argc, argv);
}
