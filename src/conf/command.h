/* A program's commands as one tree of data: what to run, what to print for --help, what to
 * complete.
 *
 * Finds the command a command line names and refuses what is none, with the nearest that is. It
 * runs nothing and prints nothing: texts go into buffers, and the caller decides. Help teaches
 * by example: usage, what it does, options with defaults and environment names, examples, exit
 * codes.
 *
 * The surprising rule: options stand after the command they belong to ("muster dev --config x"),
 * so that a word in front of it is always a command. --help works at every level and beats
 * everything else on the line. */
#ifndef CONF_COMMAND_H
#define CONF_COMMAND_H
#include "conf/option.h"

enum { COMMAND_DEPTH_MAX = 4 }; /* muster, config, show, ... */

struct command_call;
typedef int command_fn(void *context, const struct command_call *call); /* an exit code */

struct command_example {
    const char *line, *what;
};
struct command {
    const char *name;
    const char *summary; /* one line in its parent's list; lower case, no full stop */
    const char *about;   /* what it does, in a few sentences; a newline ends a paragraph */
    const struct option_table *options; /* NULL: none */
    const char *arguments;              /* as usage shows them, "FILE..."; NULL: it takes none */
    size_t arguments_min, arguments_max;
    const struct command_example *examples; /* ends with a NULL line; NULL: none */
    uint32_t exits; /* BIT(code) for each exit code besides 0 it can end with */
    const struct command *const *children; /* ends with NULL; NULL: it runs by itself */
    command_fn *run;                       /* NULL exactly when it has children */
    bool says_name_only; /* of a program: mistakes begin with its name, without the command's */
    bool hidden;         /* in no list and no completion; it runs and has its help all the same */
};

enum command_wish {
    COMMAND_RUN,     /* run the last of the path with the rest */
    COMMAND_HELP,    /* somebody asked for help */
    COMMAND_MISSING, /* a group without its command: show help, but it is a mistake */
    COMMAND_VERSION,
};
struct command_call {
    enum command_wish wish;
    const struct command *path[COMMAND_DEPTH_MAX]; /* path[0] is the program */
    size_t depth;
    const char *const *rest; /* options and arguments; borrowed from the words */
    size_t rest_count;
};

/* `words` are the command line without the program's name. ERR_INVALID with a note such as
 * "unknown command 'dve' (did you mean 'dev'?)". */
enum err command_resolve(const struct command *program, size_t count, const char *const *words,
                         struct command_call *ret_call, struct note *note);
const struct command *command_of(const struct command_call *call);
/* "muster cert issue". */
enum { COMMAND_PATH_CAP = 128 };
void command_path_text(const struct command_call *call, char text[COMMAND_PATH_CAP]);
/* ERR_INVALID with a note when a command gets too few or too many arguments. */
enum err command_check_arguments(const struct command_call *call, size_t count, struct note *note);

/* -- texts; ERR_FULL, ERR_NOMEM -- */
enum { COMMAND_TEXT_MAX = 256 * 1024 }; /* a ceiling that fits every text below */
enum err command_help(const struct command_call *call, struct buf *into);
/* A script for bash that completes commands, options and choices. */
enum err command_completion_bash(const struct command *program, struct buf *into);
#endif
