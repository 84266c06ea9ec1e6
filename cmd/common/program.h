/* What both programs do before and after a command: find it, load its configuration, print help and
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
 * thing wrong. Nothing is printed, so a reload can use it. */
enum err program_read_conf(const struct program *program, const struct command_call *call,
                           struct conf **ret_conf, struct buf *problems);
/* The same for a command that starts: problems go to stderr. ERR_INVALID, ERR_NOMEM, or what
 * reading the file answered. */
enum err program_load_conf(const struct program *program, const struct command_call *call,
                           struct conf **ret_conf);
/* "muster dev: TEXT" on stderr, and the exit code of `err`. */
int program_fail(const struct command_call *call, enum err err, const struct note *note);
/* Writes all of it to stdout. An exit code: a reader that went away is a failure. */
int program_print(struct str text);

/* Everything a bounded text of ours needs. */
enum { PROGRAM_TEXT_MAX = COMMAND_TEXT_MAX };
#endif
