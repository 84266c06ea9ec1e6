/* SPDX-License-Identifier: Apache-2.0 */
/* A program's commands as one tree of data: what to run, what to print for --help, what to
 * complete.
 *
 * Finds the command a command line names and refuses what is none, with the nearest that is. It
 * runs nothing and prints nothing: texts go into buffers, and the caller decides. Help teaches
 * by example: usage, what it does, options with defaults and environment names, examples, exit
 * codes.
 *
 * Options may come before, between and after the words of the command: "musterctl -o json shard
 * list". --help works at every level and beats everything else on the line. */
#ifndef CONF_COMMAND_H
#define CONF_COMMAND_H
#include "conf/option.h"

enum { COMMAND_DEPTH_MAX = 4 };                  /* muster, config, show, ... */
#define COMMAND_EXITS (BIT(0) | BIT(1) | BIT(2)) /* that every command can end with */

struct command_call;
typedef int command_fn(void *context, const struct command_call *call); /* an exit code */

struct command_example {
    const char *line, *what;
};
struct command {
    const char *name;
    /* Its name in a group with `verbs`: "list" of "list-shards", which is "shard list" then. The
     * program knows it by its name, too, in no list. NULL: its name. */
    const char *verb;
    const char *summary; /* one line in its parent's list; lower case, no full stop */
    const char *about;   /* what it does, in a few sentences; a newline ends a paragraph */
    const struct option_table *options; /* NULL: none */
    const char *arguments;              /* as usage shows them, "FILE..."; NULL: it takes none */
    size_t arguments_min, arguments_max;
    const struct command_example *examples; /* ends with a NULL line; NULL: none */
    uint32_t exits; /* BIT(code) for each exit code it can end with beside COMMAND_EXITS */
    const struct command *const *children; /* ends with NULL; NULL: it runs by itself */
    command_fn *run;                       /* NULL exactly when it has children */
    const void *data;                      /* for `run`; nobody else looks at it */
    bool says_name_only; /* of a program: mistakes begin with its name, without the command's */
    bool verbs;          /* of a group: its children are called by their verbs */
    bool hidden;         /* in no list and no completion; it runs and has its help all the same */
};

/* The values of three of its fields, in place. */
#define COMMAND_EXAMPLES(...)                                                                      \
    (const struct command_example[])                                                               \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }
#define COMMAND_CHILDREN(...)                                                                      \
    (const struct command *const[])                                                                \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
/* The beginning of a command that runs: its texts, its options, and the arguments it takes. */
#define COMMAND_ROW(help, table) help, .options = &table##_table
#define COMMAND_ROW_WITH(help, table, usage, min, max)                                             \
    help, .options = &table##_table, COMMAND_ARGUMENTS(usage, min, max)
/* A group; one whose children are called by their verbs. */
#define COMMAND_TREE(help, ...)                                                                    \
    {                                                                                              \
        help, .children = COMMAND_CHILDREN(__VA_ARGS__)                                            \
    }
#define COMMAND_GROUP(help, ...)                                                                   \
    {                                                                                              \
        help, .verbs = true, .children = COMMAND_CHILDREN(__VA_ARGS__)                             \
    }
/* One of them, in place. */
#define COMMAND(...) (&(const struct command){__VA_ARGS__})
/* Its arguments, at least `min` and at most `max`. */
#define COMMAND_ARGUMENTS(usage, min, max)                                                         \
    .arguments = (usage), .arguments_min = (min), .arguments_max = (max)

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

/* `words` are the command line without the program's name; they are put in order, the command's
 * own first. ERR_INVALID with a note such as "unknown command 'dve' (did you mean 'dev'?)". */
enum err command_resolve(const struct command *program, size_t count, const char **words,
                         struct command_call *ret_call, struct note *note);
/* The child's name in its parent. */
const char *command_name(const struct command *parent, const struct command *child);
/* Is the word a flag, of any command of the program, that takes the next word as its value? */
bool command_takes_value(const struct command *program, const char *word);
const struct command *command_of(const struct command_call *call);
/* "muster cert issue". */
enum { COMMAND_PATH_CAP = 128 };
void command_path_text(const struct command_call *call, char text[COMMAND_PATH_CAP]);
/* ERR_INVALID with a note when a command gets too few or too many arguments. */
enum err command_check_arguments(const struct command_call *call, size_t count, struct note *note);

/* The program and every command that is not hidden, parents first; `path` is "muster cert issue", and
 * `call` leads there, without words behind it. Stops at the first error and returns it. */
typedef enum err command_visit_fn(void *owner, const struct command_call *call, const char *path);
enum err command_visit(const struct command *program, command_visit_fn *each, void *owner);

/* -- texts; ERR_FULL, ERR_NOMEM -- */
enum { COMMAND_TEXT_MAX = 512 * 1024 }; /* a ceiling that fits every text below */
enum err command_help(const struct command_call *call, struct buf *into);
/* A script that completes commands, options and choices; zsh and fish show what each is for. */
/* `shell` is bash, zsh or fish. */
enum err command_completion(const struct command *program, const char *shell, struct buf *into);
/* The page of one command for man(1), as troff; of the program it lists all commands. `release` is
 * what the page's foot says: "muster 0.1.0". */
enum err command_man(const struct command_call *call, const char *release, struct buf *into);
/* Any text as troff: what steers troff is escaped. `literal`: a text that is typed, or the content
 * of a file, every character of which is itself; else words between backticks are bold. */
enum err command_man_text(struct str text, bool literal, struct buf *into);

/* -- pieces that help and man pages share -- */
const char *command_exit_meaning(size_t code); /* NULL past the last */
/* "--timeout" into `flag` ("--[no-]x" for a switch), and the value behind it: "DURATION", "". */
const char *command_option_usage(const struct option *option, char flag[OPTION_NAME_CAP]);
/* Choices, bounds, default, other spellings: sentences, maybe none, with a space at the end. */
enum err command_option_facts(const struct option *option, struct buf *facts);
#endif
