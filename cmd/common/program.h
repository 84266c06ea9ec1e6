/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a command in both programs: finds the command, loads its configuration, prints help
 * and mistakes, turns errors into exit codes. Commands are functions in cmd/<program>/. */
#ifndef COMMON_PROGRAM_H
#define COMMON_PROGRAM_H
#include "conf/command.h"
#include "conf/conf.h"

struct program {
    const struct command *root;
    const char *const *environment;
};

int program_main(const struct command *root, int argc, char **argv);

/* Reads a command's flags, environment and configuration file (option `config`), and checks the
 * number of arguments. After an error `problems` has a line for each problem. Prints nothing. */
enum err program_read_conf(const struct program *program, const struct command_call *call,
                           struct conf **ret_conf, struct buf *problems);
/* Like program_read_conf, but prints problems on stderr. ERR_INVALID, ERR_NOMEM. */
enum err program_load_conf(const struct program *program, const struct command_call *call,
                           struct conf **ret_conf);
/* Adds a file to the sources of `conf`. An error in the file, or in reading it, becomes a problem
 * of `conf`. ERR_INVALID, ERR_NOMEM and the errors of fs_read_whole. */
enum err program_add_file(struct conf *conf, const char *path);

/* -- printing; on stderr, text from outside is made printable -- */
/* Prints "muster dev: LINE" on stderr for each line of `problems` (from conf_problems). */
void program_say_problems(const struct command_call *call, struct str problems);
/* Prints "muster dev: TEXT" on stderr and returns the exit code of `err`. */
int program_fail(const struct command_call *call, enum err err, const struct note *note);
/* Writes `text` to stdout and returns an exit code. A failed write is reported on stderr. */
int program_print(struct str text);

/* -- a command that needs no server and prints: PROGRAM_ACT(exit codes, fn) in struct command -- */
struct program_run {
    const struct command_call *call;
    const struct conf *conf;
    struct buf out; /* printed when the command ends, even after an error */
    struct note note;
    int exit_code; /* exit code of a command that prints its problems itself */
};
typedef enum err program_act_fn(struct program_run *run);
struct program_action {
    program_act_fn *act;
};
int program_act(void *context, const struct command_call *call); /* what `data` says */
#define PROGRAM_ACT(codes, fn)                                                                     \
    .exits = (codes), .run = program_act, .data = (&(const struct program_action){.act = (fn)})
enum err program_version(struct program_run *run); /* prints which build this is */

/* Changes the owner of files in a service's data directory from root to the directory's owner, so
 * that the service can read what a command of root wrote. Errors are ignored: the service will
 * report the file. */
void program_give_to_owner(const char *dir);

/* bytes of output, error and help texts */
enum { PROGRAM_TEXT_MAX = COMMAND_TEXT_MAX };
#endif
