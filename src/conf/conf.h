/* SPDX-License-Identifier: Apache-2.0 */
/* A command's configuration: every option's value and its source.
 *
 * No system calls: arguments, environment and file content are parameters. The order of precedence
 * is flag, environment, file, default. All problems are collected, each with its source:
 * "muster.toml:7:3: unknown key 'htpp.listen' (did you mean 'http.listen'?)".
 *
 * A value is checked even if a stronger source overrides it. An empty environment variable counts
 * as not set. An unknown MUSTER_ variable is refused, like a misspelt key; MUSTER_TEST_* is
 * reserved for tests. */
#ifndef CONF_CONF_H
#define CONF_CONF_H
#include "conf/option.h"

enum { CONF_FILE_MAX = 1024 * 1024 };
enum { CONF_ARGUMENTS_MAX = 256 };
enum { CONF_PROBLEMS_MAX = 20 }; /* further problems are only counted */

enum conf_source { CONF_UNSET, CONF_DEFAULT, CONF_FILE, CONF_ENVIRONMENT, CONF_FLAG };

struct conf; /* for one thread */

/* `table` must obey conf/option.h and outlive the configuration. ERR_NOMEM. */
enum err conf_open(const struct option_table *table, struct conf **ret_conf);
void conf_close(struct conf *conf); /* NULL is fine */

/* The conf_add_* functions return ERR_INVALID after a problem, and ERR_NOMEM if a problem could not
 * be recorded. The caller may continue after ERR_INVALID, to collect more problems. */
/* Adds flags. Other words are arguments, and so are all words after "--". The last use of a flag
 * counts, but a list option collects the items of all uses. */
enum err conf_add_flags(struct conf *conf, size_t count, const char *const *words);
/* Adds variables. `environment` ends with NULL; its entries are "NAME=value". Variables of the
 * tables in `others` (NULL, or ends with NULL) are ignored. */
enum err conf_add_environment(struct conf *conf, const char *const *environment,
                              const struct option_table *const *others);
/* Lets the first argument set the option `names`; "key=value": the two options around its '='.
 * Call after conf_add_flags. */
enum err conf_take_argument_as(struct conf *conf, const char *names);
enum err conf_add_file(struct conf *conf, const char *file_name, struct str content);
/* Adds a problem as one line, for example that a file cannot be read. Unprintable characters are
 * escaped. Returns ERR_INVALID, or ERR_NOMEM if the line could not be added. */
enum err conf_problem(struct conf *conf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets defaults and checks required options. ERR_INVALID if there is any problem. */
enum err conf_finish(struct conf *conf);
/* One line per problem, or "". Valid as long as `conf`. */
struct str conf_problems(const struct conf *conf);

/* -- reading values: `name` must be in the table and have the function's kind -- */
bool conf_is_set(const struct conf *conf, const char *name);
/* True if, after conf_reload, a new value of the option needs a restart. */
bool conf_waits(const struct conf *conf, const char *name);
enum conf_source conf_source(const struct conf *conf, const char *name);
const char *conf_text(const struct conf *conf, const char *name); /* NULL when not set; borrowed */
uint64_t conf_number(const struct conf *conf, const char *name);  /* count, ms, bytes; 0: not set */
double conf_decimal(const struct conf *conf, const char *name);   /* 0: not set */
bool conf_bool(const struct conf *conf, const char *name);
size_t conf_choice(const struct conf *conf, const char *name); /* index in `choices`; must be set */
struct option_value conf_list(const struct conf *conf, const char *name);
/* True if the file has the section, or a flag or variable sets one of its keys. */
bool conf_has_section(const struct conf *conf, const char *section);
size_t conf_argument_count(const struct conf *conf);
/* "" if the argument is missing or empty. */
const char *conf_argument(const struct conf *conf, size_t place);

/* -- printing; ERR_FULL, ERR_NOMEM -- */
/* Prints the current values as valid TOML, each with a comment that names its source. Options that
 * cannot be in a file become comments. */
enum err conf_print(const struct conf *conf, const char *title, struct buf *into);
/* Prints every option with its default as a commented TOML file, which users can read and edit. */
enum err conf_print_reference(const struct option_table *table, const char *title,
                              struct buf *into);

/* -- reload -- */
struct conf_change {
    const struct option *option;
    bool applied; /* false: the old value is kept until a restart */
};
struct conf_changes {
    struct conf_change *each; /* in table order; the new configuration owns the array */
    size_t count, waiting;    /* waiting: number of changes that need a restart */
};
/* Makes `next` the successor of `current`; both are from the same table. An option that cannot
 * change at run time keeps its current value in `next`. Then `current` can be closed. ERR_NOMEM:
 * close `next`, keep `current`. */
enum err conf_reload(const struct conf *current, struct conf *next,
                     struct conf_changes *ret_changes);
/* Describes a change, for example "log.level: "info" -> "debug"", and whether it needs a
 * restart. */
enum err conf_change_text(const struct conf *current, const struct conf *next,
                          const struct conf_change *change, struct buf *into);
#endif
