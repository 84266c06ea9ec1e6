/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a command in both programs: find it, load its configuration, print help and
 * mistakes, turn errors into exit codes. Commands themselves are functions in cmd/<program>/. */
#ifndef COMMON_PROGRAM_H
#define COMMON_PROGRAM_H
#include "conf/command.h"
#include "conf/conf.h"

struct program {
    const struct command *root;
    const char *const *environment;
};

/* Whole run of a program; the value is main's. */
int program_main(const struct command *root, int argc, char **argv);

/* Reads flags, environment and, when the command has an option `config` that is set, that file. On
 * success the number of arguments has been checked too. On failure `problems` holds a line for each
 * problem. Nothing is printed, so a reload can use it. */
enum err program_read_conf(const struct program *program, const struct command_call *call,
                           struct conf **ret_conf, struct buf *problems);
/* The same for a command that starts: problems go to stderr. ERR_INVALID, ERR_NOMEM. */
enum err program_load_conf(const struct program *program, const struct command_call *call,
                           struct conf **ret_conf);
/* Adds a file to the sources of `conf`. Every error in it, or in reading it, becomes a problem of
 * `conf`. ERR_INVALID, ERR_NOMEM, and what fs_read_whole answers. */
enum err program_add_file(struct conf *conf, const char *path);

/* -- what is printed; text from outside is made printable on stderr -- */
/* "muster dev: LINE" on stderr for each line of conf_problems. */
void program_say_problems(const struct command_call *call, struct str problems);
/* "muster dev: TEXT" on stderr, and the exit code of `err`. */
int program_fail(const struct command_call *call, enum err err, const struct note *note);
/* Writes all of it to stdout. An exit code: a write that failed is said on stderr, and is 1. */
int program_print(struct str text);

/* -- a command that works by itself and prints: PROGRAM_ACT(exit codes, fn) in struct command -- */
struct program_run {
    const struct command_call *call;
    const struct conf *conf;
    struct buf out; /* printed when the command ends, also when it ends badly */
    struct note note;
    int exit_code; /* of one that ends well, and still has something to say */
};
typedef enum err program_act_fn(struct program_run *run);
struct program_action {
    program_act_fn *act;
};
int program_act(void *context, const struct command_call *call); /* what `data` says */
#define PROGRAM_ACT(codes, fn)                                                                     \
    .exits = (codes), .run = program_act, .data = &(const struct program_action)                   \
    {                                                                                              \
        .act = (fn)                                                                                \
    }
enum err program_version(struct program_run *run); /* prints which build this is */

/* For a command that root runs over the data directory of a service: gives what root owns in it to the
 * directory's owner, so that the service can start. Errors are left to that start, which names the
 * file. */
void program_give_to_owner(const char *dir);

/* Maximum size of the output, error and help buffers of the programs, in bytes. */
enum { PROGRAM_TEXT_MAX = COMMAND_TEXT_MAX };
#endif
