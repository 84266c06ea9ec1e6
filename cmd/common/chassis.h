/* SPDX-License-Identifier: Apache-2.0 */
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
    bool locks_data_dir;     /* the role does it itself */
    bool knows_callers;      /* HTTPS asks who calls: a certificate of tls.ca-file, or none */
    bool second_signal_ends; /* SIGTERM or SIGINT while it stops: 143 or 130, at once */
    /* What the files that the settings name contain, before a directory is made or a port is
     * bound; that they can be opened was checked (common/files.h). */
    enum err (*check)(const struct conf *conf, struct fs *fs, struct note *note);
    /* After everything else is open; `ret_state` is given to the others. May turn the loop; what
     * waits long looks at chassis_stopping() and gives up with any error: exit code 0. */
    enum err (*open)(struct chassis *chassis, void **ret_state, struct note *note);
    /* The first lines for whoever started it, before the status page; no log line precedes them. */
    void (*say_first)(void *state, FILE *out);
    /* More lines for whoever started it. */
    void (*say_started)(void *state, FILE *out);
    bool (*owns_stdout)(const void *state); /* then such lines go to stderr */
    /* SIGHUP, after the settings were looked at, right or wrong. */
    void (*reload)(void *state);
    /* SIGTERM or SIGINT: end in order, then chassis_stop. */
    void (*stop)(void *state);
    void (*close)(void *state); /* also after an open that failed, if it set the state */
};
/* The whole life of a role's process; an exit code. */
int chassis_run(const struct program *program, const struct command_call *call,
                const struct role *role, const struct chassis_hooks *hooks);

/* -- for a role's hooks -- */
struct io *chassis_io(const struct chassis *chassis);
const struct conf *chassis_conf(const struct chassis *chassis);     /* as it was at the start */
const struct conf *chassis_conf_now(const struct chassis *chassis); /* until the next reload */
struct instruments *chassis_instruments(const struct chassis *chassis);
const char *chassis_http_address(const struct chassis *chassis); /* with the real port */
struct http_server *chassis_http(const struct chassis *chassis); /* NULL: it is off */
/* What is said of a listener that is open to the network without TLS; NULL: it is not. */
const char *chassis_warning(const struct chassis *chassis);
/* A page of the role's own, as http_publish; nothing when there is no HTTP. */
enum err chassis_publish(struct chassis *chassis, const char *path, const char *content_type,
                         struct str content);
enum err chassis_publish_as(struct chassis *chassis, const char *path, int status,
                            const char *content_type, struct str content);
/* Of the role's three files (tls.cert-file and its like), TLS 1.3; `alpn` may be NULL. What
 * tls_context_open answers. */
enum err chassis_tls(const struct chassis *chassis, enum tls_side side, const char *alpn,
                     struct tls_context **ret_context, struct note *note);
void chassis_turn(struct chassis *chassis); /* one turn of the loop, waiting; open and close only */
void chassis_set_true(void *truth);         /* a done() to turn for: sets the bool it is given */
bool chassis_stopping(const struct chassis *chassis); /* SIGTERM or SIGINT came */
void chassis_stop(struct chassis *chassis);           /* the loop ends; exit code 0 */
/* It cannot go on: said in the log and on stderr, and the exit code is 1. */
void chassis_fail(struct chassis *chassis, enum err err, const struct note *note);
/* The same with an exit code of the role's own. */
void chassis_give_up(struct chassis *chassis, int exit_code, enum err err, const struct note *note);
#endif
