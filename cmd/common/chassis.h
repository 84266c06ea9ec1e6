/* What every role stands on: configuration, data directory, loop, log, metrics, events, probes,
 * status page, signals, TLS files and reload.
 *
 *     int run_dev(void *context, const struct command_call *call)
 *     {
 *         return chassis_run(context, call, &dev_role);
 *     }
 *
 * SIGTERM and SIGINT stop it in order: exit code 0. SIGHUP reads the configuration again, says
 * what changed and what needs a restart, opens the log file anew and looks at the TLS files; a
 * configuration that is wrong changes nothing. The event file and the TLS files are looked at every
 * second anyway. */
#ifndef COMMON_CHASSIS_H
#define COMMON_CHASSIS_H
#include "common/program.h"
#include "common/tables.h"

/* The whole life of a role's process; an exit code. */
int chassis_run(const struct program *program, const struct command_call *call,
                const struct role *role);
#endif
