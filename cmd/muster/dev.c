/* muster dev: everything that exists, on one machine. */
#include "common/chassis.h"
#include "common/tables.h"
#include "muster/commands.h"

static int run_dev(void *context, const struct command_call *call)
{
    return chassis_run(context, call, &dev_role, NULL);
}

static const struct command_example examples[] = {
    {"muster dev", "with the defaults; the status page is at http://127.0.0.1:8790/"},
    {"muster dev --http-listen 127.0.0.1:0 --data-dir /tmp/m",
     "on a free port, with its own directory"},
    {"MUSTER_LOG_LEVEL=debug muster dev", "an option from the environment"},
    {"muster dev --config muster.toml", "options from a file; kill -HUP reads it again"},
    {"muster dev --print-config", "what would be in force, and why"},
    {NULL, NULL},
};
const struct command dev_command = {
    .name = "dev",
    .summary = "run what exists on this machine",
    .about = "Runs the ground every role will stand on: the loop, its log, metrics, probes and a "
             "live status "
             "page. It holds no fleet yet; the roles join it with later releases.\n"
             "SIGTERM or Ctrl-C stops it. SIGHUP reads the configuration again, says what changed "
             "and what needs a restart, and opens the log file anew. An event file that was moved "
             "away and TLS files that changed are noticed without it.",
    .options = &dev_table,
    .examples = examples,
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(6),
    .run = run_dev,
};
