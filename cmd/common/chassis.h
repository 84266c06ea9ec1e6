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
#include <stdio.h>

#include "common/instruments.h"
#include "common/program.h"
#include "common/tables.h"

struct chassis;
/* What a role adds; each may be NULL. All on the loop's thread. */
struct chassis_hooks {
    bool locks_data_dir; /* the role does it itself */
    /* After everything else is open; `ret_state` is given to the others. May turn the loop; what
     * waits long looks at chassis_stopping() and gives up with any error: exit code 0. */
    enum err (*open)(struct chassis *chassis, void **ret_state, struct note *note);
    /* More lines for whoever started it. */
    void (*say_started)(void *state, FILE *out);
    /* SIGTERM or SIGINT: end in order, then chassis_stop. */
    void (*stop)(void *state);
    void (*close)(void *state); /* also after an open that failed, if it set the state */
};
/* The whole life of a role's process; an exit code. */
int chassis_run(const struct program *program, const struct command_call *call,
                const struct role *role, const struct chassis_hooks *hooks);

/* -- for a role's hooks -- */
struct io *chassis_io(const struct chassis *chassis);
const struct conf *chassis_conf(const struct chassis *chassis); /* as it was at the start */
struct instruments *chassis_instruments(const struct chassis *chassis);
const char *chassis_http_address(const struct chassis *chassis); /* with the real port */
void chassis_turn(struct chassis *chassis); /* one turn of the loop, waiting; open and close only */
bool chassis_stopping(const struct chassis *chassis); /* SIGTERM or SIGINT came */
void chassis_stop(struct chassis *chassis);           /* the loop ends; exit code 0 */
/* It cannot go on: said in the log and on stderr, and the exit code is 1. */
void chassis_fail(struct chassis *chassis, enum err err, const struct note *note);
#endif
