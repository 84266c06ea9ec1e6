/* SPDX-License-Identifier: Apache-2.0 */
/* The ground of every role: configuration, data directory, loop, log, metrics, events, probes,
 * status page, signals, TLS files and reload; and the one sequence that all of them start and stop
 * by. A role is a table of what is its own:
 *
 *     static const struct chassis_hooks hooks = {.role = &shard_role, .steps = CHASSIS_STEPS(...), ...};
 *     ... CHASSIS_RUN(hooks)
 *
 * Start: settings checked -> files checked -> data directory -> log, metrics, events, pages ->
 * the role's steps, in their order. The first that fails ends the process.
 * Stop: the role's drains, one after the other -> the loop ends -> the role is closed, then the
 * parts below it, in reverse order. After a start that failed only the closing.
 *
 * SIGTERM and SIGINT stop it in order: exit code 0. SIGHUP reads the configuration again, says what
 * changed and what needs a restart, opens the log file anew and checks the TLS files; a wrong
 * configuration changes nothing. The event file and TLS files are checked every second anyway. */
#ifndef COMMON_CHASSIS_H
#define COMMON_CHASSIS_H
#include <stdio.h>

#include "common/instruments.h"
#include "common/program.h"
#include "common/status.h"
#include "common/tables.h"

struct chassis;
/* The state of every role begins with this. Parts that the role does not use stay NULL; muster/role.h
 * fills in what is below `metrics`, and closes it. */
struct role_base {
    struct chassis *chassis;
    struct io *io;
    const struct chassis_hooks *hooks;
    const struct conf *conf, *conf_now; /* as it was at the start; as of the last reload */
    const struct status_server *status; /* its HTTP server and address */
    const char *warning; /* the HTTP listener is open to the network without TLS; NULL: it is not */
    struct instruments *instruments;
    struct metrics *metrics;
    struct log_source log; /* with the name of the role's own on every line */
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

/* A role's own part; all but the first three may be NULL. All on the loop's thread. */
struct chassis_hooks {
    const struct role *role;
    size_t state_size; /* zeroed before the first step; see CHASSIS_STATE */
    /* After everything else is open; ends with NULL. A step may turn the loop; what waits long looks
     * at chassis_stopping() and gives up with any error: exit code 0. */
    chassis_step_fn *const *steps;
    /* At SIGTERM or SIGINT; ends with NULL. Each calls chassis_drained once, maybe at once. */
    chassis_drain_fn *const *drains;
    const char *ready_check, *ready_reason; /* of role_open_ready */
    unsigned tls;                           /* of role_open_tls */
    bool locks_data_dir;                    /* the role does it itself */
    bool knows_callers;      /* HTTPS asks callers for a certificate of tls.ca-file, or none */
    bool second_signal_ends; /* SIGTERM or SIGINT while it stops: 143 or 130, at once */
    /* Checks the contents of the files that the settings name, before a directory is made or a port is
     * bound; that they can be opened was checked (common/files.h). */
    enum err (*check)(const struct conf *conf, struct fs *fs, struct note *note);
    /* The first lines on the terminal, before the status page; no log line precedes them. */
    void (*say_first)(void *state, FILE *out);
    /* More lines on the terminal. */
    void (*say_started)(void *state, FILE *out);
    bool (*owns_stdout)(const void *state); /* then such lines go to stderr */
    /* SIGHUP, after the settings were looked at, right or wrong. */
    void (*reload)(void *state);
    void (*close)(void *state); /* also after a step that failed; the chassis frees the state */
};
/* Only a state that begins with `struct role_base role` compiles. */
#define CHASSIS_STATE(type)                                                                        \
    .state_size = sizeof(union {                                                                   \
        type state;                                                                                \
        static_assert(_Generic(((type *)0)->role, struct role_base                                 \
                               : offsetof(type, role) == 0),                                       \
                      #type " begins with its struct role_base");                                  \
    })
#define CHASSIS_STEPS(...)  ((chassis_step_fn *const[]){__VA_ARGS__, NULL})
#define CHASSIS_DRAINS(...) ((chassis_drain_fn *const[]){__VA_ARGS__, NULL})
/* The `run` of a role's command, whose `data` are the hooks: the whole life of its process. */
int chassis_run(void *program, const struct command_call *call);
#define CHASSIS_RUN(hooks) .exits = BIT(4) | BIT(6), .run = chassis_run, .data = &(hooks)

/* -- for a role's hooks -- */
enum { CHASSIS_HTTP_OK = 200 };
/* Publishes a page of the role; no effect without HTTP. If publishing fails, the old page stays. */
void chassis_publish(struct chassis *chassis, const char *path, int status,
                     const char *content_type, struct str content);
/* Of the role's three files (tls.cert-file and its like), TLS 1.3; `alpn` may be NULL. What
 * tls_context_open answers. */
enum err chassis_tls(const struct chassis *chassis, enum tls_side side, const char *alpn,
                     struct tls_context **ret_context, struct note *note);
void chassis_turn(struct chassis *chassis); /* one turn of the loop, waiting; open and close only */
void chassis_set_true(void *truth);         /* a done() to turn for: sets the bool it is given */
/* Calls end(of, done, owner) and turns the loop until it is done; nothing when `of` is NULL. */
#define CHASSIS_AWAIT(chassis, end, of)                                                            \
    do {                                                                                           \
        bool done_ = (of) == NULL;                                                                 \
        if (!done_) end((of), chassis_set_true, &done_);                                           \
        while (!done_) chassis_turn(chassis);                                                      \
    } while (0)
void chassis_drained(void *chassis);                  /* the end of a drain: the next one begins */
bool chassis_stopping(const struct chassis *chassis); /* SIGTERM or SIGINT came */
void chassis_stop(struct chassis *chassis);           /* the loop ends; exit code 0 */
/* It cannot go on: said in the log and on stderr, and the exit code is 1. */
void chassis_fail(struct chassis *chassis, enum err err, const struct note *note);
/* The same with an exit code of the role's own. */
void chassis_give_up(struct chassis *chassis, int exit_code, enum err err, const struct note *note);
#endif
