/* What every role stands on: configuration, data directory, loop, log, metrics, events, probes,
 * status page, signals, TLS files and reload. A role brings its own parts and nothing of the
 * above.
 *
 *     int run_dev(void *context, const struct command_call *call)
 *     {
 *         return chassis_run(context, call, &(struct chassis_role){.name = "dev"});
 *     }
 *
 * SIGTERM and SIGINT stop it in order: exit code 0. SIGHUP reads the configuration again, says
 * what changed and what needs a restart, opens log and event files anew and looks at the TLS
 * files; a configuration that is wrong changes nothing. */
#ifndef COMMON_CHASSIS_H
#define COMMON_CHASSIS_H
#include "common/program.h"
#include "io/http.h"
#include "io/io.h"
#include "io/tls.h"

struct chassis;

struct chassis_role {
    const char *name;
    /* Builds the role on the chassis. A failure ends the process with the note. NULL: nothing to
     * do. */
    enum err (*open)(void *self, struct chassis *chassis, struct note *note);
    /* Some reloadable options changed; `conf` is what is in force now. NULL: nothing to do. */
    void (*reload)(void *self, const struct conf *conf);
    void (*close)(void *self); /* after open succeeded; NULL: nothing to do */
    void *self;
};

/* The whole life of a role's process; an exit code. */
int chassis_run(const struct program *program, const struct command_call *call,
                const struct chassis_role *role);

struct io *chassis_io(struct chassis *chassis);
/* What is in force, until the next reload. Texts of options that need a restart stay valid to
 * the end. */
const struct conf *chassis_conf(const struct chassis *chassis);
struct tls_context *chassis_tls(struct chassis *chassis); /* NULL: plaintext */
#endif
