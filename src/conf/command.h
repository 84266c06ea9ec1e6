/* SPDX-License-Identifier: Apache-2.0 */
/* A program's commands as one tree of data: what to run, what to print for --help, and what to
 * complete.
 *
 * Finds the command that a command line names. An unknown command is refused, with the nearest name
 * as a hint. Options may come before, between and after the words of the command. --help works at
 * every level and overrides everything else. This module runs and prints nothing: its texts go into
 * buffers. */
#ifndef CONF_COMMAND_H
#define CONF_COMMAND_H
#include "conf/option.h"

enum { COMMAND_DEPTH_MAX = 4 };                  /* words such as muster config show */
#define COMMAND_EXITS (BIT(0) | BIT(1) | BIT(2)) /* exit codes of every command */

struct command_call;
typedef int command_fn(void *context, const struct command_call *call);

/* A row of a program's table of words that people know from other tools; ends with a NULL. */
struct command_word {
    const char *words; /* "ls", "delete worker" in any order, or an option: "-A" */
    /* '~': `means` is another name of a noun or verb, unless a command has the name `words`.
     * '=': `means` is the command, or "" for the program's help; "" also if an option is ignored.
     * '!': there is no such command or option, and `means` says what to type instead. */
    char kind;
    const char *means;
};
struct command_example {
    const char *line, *what;
};
struct command {
    const char *name;
    /* The name in a group with `verbs`: "list" for "list-shards", so that "shard list" works. Then
     * `name` works, too, but is not listed. NULL: `name` is the only name. */
    const char *verb;
    const char *summary;                /* one line in lists; lower case, no full stop */
    const char *about;                  /* a few sentences; a newline ends a paragraph */
    const struct option_table *options; /* NULL: no options */
    const char *arguments;              /* text in the usage line, like "FILE..."; or NULL */
    size_t arguments_min, arguments_max;
    const struct command_example *examples; /* ends with a NULL line; NULL: none */
    uint32_t exits;                         /* BIT(code) for each exit code besides COMMAND_EXITS */
    const struct command *const *children;  /* ends with NULL; NULL if `run` is set */
    command_fn *run;                        /* NULL if and only if the command has children */
    const void *data;                       /* data for `run`; not used by this module */
    const struct command_word *words;       /* of a program: words of other tools; or NULL */
    /* The option that the first argument sets; "key=value": two options. NULL: none. */
    const char *argument_sets;
    bool says_name_only; /* errors of the program begin with its name, without the command */
    bool verbs;          /* the command is a group whose children are named by their verbs */
    bool hidden;         /* the command is not listed or completed, but runs and has --help */
};

/* Values of the fields examples, children and exits of a command. */
#define COMMAND_EXAMPLES(...) ((const struct command_example[]){__VA_ARGS__, {NULL, NULL}})
#define COMMAND_CHILDREN(...) ((const struct command *const[]){__VA_ARGS__, NULL})
/* The first fields of a command that runs: its texts, its options and its arguments. */
#define COMMAND_ROW(help, table) help, .options = &table##_table
#define COMMAND_ROW_WITH(help, table, usage, min, max)                                             \
    help, .options = &table##_table, COMMAND_ARGUMENTS(usage, min, max)
/* A group of commands; COMMAND_GROUP sets `verbs`. */
#define COMMAND_TREE(help, ...)                                                                    \
    {                                                                                              \
        help, .children = COMMAND_CHILDREN(__VA_ARGS__)                                            \
    }
#define COMMAND_GROUP(help, ...)                                                                   \
    {                                                                                              \
        help, .verbs = true, .children = COMMAND_CHILDREN(__VA_ARGS__)                             \
    }
#define COMMAND(...) (&(const struct command){__VA_ARGS__})
#define COMMAND_ARGUMENTS(usage, min, max)                                                         \
    .arguments = (usage), .arguments_min = (min), .arguments_max = (max)

enum command_wish {
    COMMAND_RUN,     /* run the last command of `path` with the words of `rest` */
    COMMAND_HELP,    /* help was requested */
    COMMAND_MISSING, /* a group without a command: show its help as an error */
    COMMAND_VERSION,
};
struct command_call {
    enum command_wish wish;
    const struct command *path[COMMAND_DEPTH_MAX];
    size_t depth;
    const char *const *rest; /* options and arguments */
    size_t rest_count;
    bool flat; /* the command was found by its flat name, such as "list-shards" */
};

/* Finds the command that `words` (without the program's name) name, and moves the command's words
 * to the front. ERR_INVALID: "unknown command 'dve' (did you mean 'dev'?)". */
enum err command_resolve(const struct command *program, size_t count, const char **words,
                         struct command_call *ret_call, struct note *note);
/* The word that selects the child: its verb if the parent has `verbs`, or its name. */
const char *command_name(const struct command *parent, const struct command *child);
/* True if the word is a flag, of any command, whose value is the next word. */
bool command_takes_value(const struct command *program, const char *word);
const struct command *command_of(const struct command_call *call);
/* "muster cert issue". */
enum { COMMAND_PATH_CAP = 128 };
void command_path_text(const struct command_call *call, char text[COMMAND_PATH_CAP]);
/* ERR_INVALID with a note: too few or too many arguments. */
enum err command_check_arguments(const struct command_call *call, size_t count, struct note *note);

/* Visits the program and every command that is not hidden, parents first. `path` ("muster cert
 * issue") and `call` both describe the visited command. An error ends the visits. */
typedef enum err command_visit_fn(void *owner, const struct command_call *call, const char *path);
enum err command_visit(const struct command *program, command_visit_fn *each, void *owner);

/* -- texts; ERR_FULL, ERR_NOMEM -- */
enum { COMMAND_TEXT_MAX = 512 * 1024 }; /* larger than every text below */
enum err command_help(const struct command_call *call, struct buf *into);
/* Appends a script that completes commands, options and choices. `shell` is bash, zsh or fish. */
enum err command_completion(const struct command *program, const char *shell, struct buf *into);
/* Appends the man page of one command as troff. A program's page lists all its commands. `release`
 * is the footer, for example "muster 0.1.0". */
enum err command_man(const struct command_call *call, const char *release, struct buf *into);
/* Appends a text as troff. `literal`: every character stays the same. Otherwise words between
 * backticks become bold. */
enum err command_man_text(struct str text, bool literal, struct buf *into);

/* -- functions that help and man pages share -- */
const char *command_exit_meaning(size_t code); /* NULL: unknown code */
/* Writes "--timeout" into `flag` ("--[no-]x" for a switch). Returns the value's name or "". */
const char *command_option_usage(const struct option *option, char flag[OPTION_NAME_CAP]);
/* Appends sentences about choices, bounds, default and other spellings, each ending in a space. */
enum err command_option_facts(const struct option *option, struct buf *facts);
#endif
