/* SPDX-License-Identifier: Apache-2.0 */
/* The common frame of every role: configuration, data directory, loop, log, metrics, events,
 * probes, status page, signals and TLS files. A role is a table of its functions:
 *
 *     static const struct chassis_hooks hooks = {.role = &shard_role, ...};
 *     ... CHASSIS_RUN(hooks)
 *
 *   Start    check settings, check files, data directory, log, metrics, events, pages, then the
 *            role's steps; the first failure ends the process
 *   Stop     at SIGTERM or SIGINT: the role's drains one after the other, end of the loop, close
 *            the role, close the common parts in reverse order; exit code 0
 *   SIGHUP   read the configuration again, log what changed, reopen the log file, check the TLS
 *            files; an invalid configuration changes nothing */
#ifndef COMMON_CHASSIS_H
#define COMMON_CHASSIS_H
#include <stdio.h>

#include "common/instruments.h"
#include "common/program.h"
#include "common/status.h"
#include "common/tables.h"

struct chassis;
/* The first member of every role's state. Parts that the role does not use stay NULL. muster/role.h
 * sets the members below `metrics` and closes them. */
struct role_base {
    struct chassis *chassis;
    struct io *io;
    const struct chassis_hooks *hooks;
    const struct conf *conf, *conf_now; /* settings of the start, and of the last reload */
    const struct status_server *status;
    const char *warning; /* HTTP is open to the network without TLS; else NULL */
    struct instruments *instruments;
    struct metrics *metrics;
    struct log_source log;
    struct health_check *ready;
    struct tls_context *server_tls, *client_tls;
    struct rpc_client_metrics *client_metrics;
    struct rpc_meter *meter;
    struct rpc_server *server;
    struct rpc_health *health;
    struct rpc_reflection *reflection;
};
typedef enum err chassis_step_fn(void *state, struct note *note);
typedef void chassis_drain_fn(void *state);

/* One role's functions, all on the loop's thread. All but the first three members may be NULL. */
struct chassis_hooks {
    const struct role *role;
    size_t state_size; /* bytes; zeroed before the first step */
    /* The role's start steps, run after every common part is open; the list ends with NULL. A step
     * may turn the loop. A long step must fail when chassis_stopping(). */
    chassis_step_fn *const *steps;
    /* The role's drains, run at SIGTERM or SIGINT; the list ends with NULL. Each drain calls
     * chassis_drained once, possibly before it returns. */
    chassis_drain_fn *const *drains;
    const char *ready_check, *ready_reason; /* of role_open_ready */
    unsigned tls;                           /* bits for role_open_tls */
    bool locks_data_dir;                    /* the role locks its data directory itself */
    bool knows_callers;                     /* HTTPS asks for client certificates */
    bool second_signal_ends; /* a second SIGTERM or SIGINT ends the process with 143 or 130 */
    /* Checks the contents of the files that the settings name. common/files.h has already checked
     * that the files can be opened. */
    enum err (*check)(const struct conf *conf, struct fs *fs, struct note *note);
    /* Prints the first lines on the terminal, before the status page's address and any log line. */
    void (*say_first)(void *state, FILE *out);
    void (*say_started)(void *state, FILE *out);
    bool (*owns_stdout)(const void *state); /* true: the lines above go to stderr */
    /* Called at SIGHUP when the settings were read again, even if they were refused. */
    void (*reload)(void *state);
    void (*close)(void *state); /* also called after a failed step; the chassis frees the state */
};
/* Compiles only for a state whose first member is `struct role_base role`. */
#define CHASSIS_STATE(type)                                                                        \
    .state_size = sizeof(union {                                                                   \
        type state;                                                                                \
        static_assert(_Generic(((type *)0)->role, struct role_base                                 \
                               : offsetof(type, role) == 0),                                       \
                      #type " begins with its struct role_base");                                  \
    })
#define CHASSIS_STEPS(...)  ((chassis_step_fn *const[]){__VA_ARGS__, NULL})
#define CHASSIS_DRAINS(...) ((chassis_drain_fn *const[]){__VA_ARGS__, NULL})
/* Runs a role's process: the `run` of the role's command, whose `data` are the hooks. */
int chassis_run(void *program, const struct command_call *call);
#define CHASSIS_RUN(hooks) .exits = BIT(4) | BIT(6), .run = chassis_run, .data = &(hooks)

/* -- for a role's hooks -- */
enum { CHASSIS_HTTP_OK = 200 };
/* Publishes a page of the role at `path`, if there is an HTTP listener. After an error the old page
 * stays. */
void chassis_publish(struct chassis *chassis, const char *path, int status,
                     const char *content_type, struct str content);
/* Opens a TLS 1.3 context from tls.cert-file, tls.key-file and tls.ca-file. `alpn` may be NULL.
 * Errors of tls_context_open. */
enum err chassis_tls(const struct chassis *chassis, enum tls_side side, const char *alpn,
                     struct tls_context **ret_context, struct note *note);
void chassis_turn(struct chassis *chassis);
void chassis_set_true(void *truth);
/* Calls end(of, done, owner) and turns the loop until done() is called. NULL `of`: does nothing. */
#define CHASSIS_AWAIT(chassis, end, of)                                                            \
    do {                                                                                           \
        bool done_ = (of) == NULL;                                                                 \
        if (!done_) end((of), chassis_set_true, &done_);                                           \
        while (!done_) chassis_turn(chassis);                                                      \
    } while (0)
void chassis_drained(void *chassis);
bool chassis_stopping(const struct chassis *chassis); /* SIGTERM or SIGINT came */
void chassis_stop(struct chassis *chassis);           /* ends the loop; exit code 0 */
/* Ends a role that cannot continue: logs the error, prints it on stderr and exits with code 1. */
void chassis_fail(struct chassis *chassis, enum err err, const struct note *note);
/* Like chassis_fail, with another exit code. */
void chassis_give_up(struct chassis *chassis, int exit_code, enum err err, const struct note *note);
#endif
