/* SPDX-License-Identifier: Apache-2.0 */
/* A command's configuration: every option's value and where it came from.
 *
 * Pure of the operating system: arguments, environment and file content are handed in. One order
 * of precedence: flag, then environment, then file, then default; the order of the conf_add_*
 * calls does not matter. Everything wrong is gathered, not only the first mistake, and every
 * line names its source: "muster.toml:7:3: unknown key 'htpp.listen' (did you mean
 * 'http.listen'?)".
 *
 * The surprising rules: a value is checked even where a stronger source hides it; an environment
 * variable that is set to nothing counts as not set; a MUSTER_ variable that no command knows is
 * refused, as a misspelt key is (MUSTER_TEST_* is left to the tests). */
#ifndef CONF_CONF_H
#define CONF_CONF_H
#include "conf/option.h"

enum { CONF_FILE_MAX = 1024 * 1024 }; /* bytes of a configuration file */
enum { CONF_ARGUMENTS_MAX = 256 };
enum { CONF_PROBLEMS_MAX = 20 }; /* reported one by one; the rest is counted */

enum conf_source { CONF_UNSET, CONF_DEFAULT, CONF_FILE, CONF_ENVIRONMENT, CONF_FLAG };

struct conf; /* opaque; one owner, one thread */

/* `table` must outlive it and obey conf/option.h's rules (a test checks our tables). ERR_NOMEM. */
enum err conf_open(const struct option_table *table, struct conf **ret_conf);
void conf_close(struct conf *conf); /* NULL is fine */

/* All three: ERR_INVALID when something is wrong (see conf_problems; going on is fine, to gather
 * more), ERR_NOMEM when nothing can be said. */
/* Words that are no options are kept as arguments; after "--" all are. Of one flag given twice the
 * last counts; a list gathers them all. */
enum err conf_add_flags(struct conf *conf, size_t count, const char *const *words);
/* `environment` ends with NULL, entries are "NAME=value". `others`, which ends with NULL or is
 * NULL, holds the tables of all other commands: their variables are neither ours nor unknown. */
enum err conf_add_environment(struct conf *conf, const char *const *environment,
                              const struct option_table *const *others);
enum err conf_add_file(struct conf *conf, const char *file_name, struct str content);
/* A problem with fetching a source, such as a file that cannot be read: one more line, with
 * unprintable characters escaped. ERR_INVALID; ERR_NOMEM when it could not be noted. */
enum err conf_problem(struct conf *conf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Fills in defaults and looks for required values. ERR_INVALID when anything was wrong so far. */
enum err conf_finish(struct conf *conf);
/* One line for each problem, in the order they were found; "" when there was none. Borrowed. */
struct str conf_problems(const struct conf *conf);

/* -- reading; a name that is not in the table, or of another kind, is our own bug -- */
bool conf_is_set(const struct conf *conf, const char *name); /* by any source or default */
/* After conf_reload: the sources say something else than what is in force. */
bool conf_waits(const struct conf *conf, const char *name);
enum conf_source conf_source(const struct conf *conf, const char *name);
const char *conf_text(const struct conf *conf, const char *name); /* NULL when not set; borrowed */
uint64_t conf_number(const struct conf *conf, const char *name);  /* count, ms, bytes; 0 unset */
double conf_decimal(const struct conf *conf, const char *name);   /* 0 unset */
bool conf_bool(const struct conf *conf, const char *name);
size_t conf_choice(const struct conf *conf, const char *name); /* which of `choices`; must be set */
struct option_value conf_list(const struct conf *conf, const char *name);
/* Was [section] in the file, be it empty, or a key of it given by flag or environment? */
bool conf_has_section(const struct conf *conf, const char *section);
size_t conf_argument_count(const struct conf *conf);
/* "" for an omitted optional argument; conf_argument_count() distinguishes it from an empty one. */
const char *conf_argument(const struct conf *conf, size_t place);

/* -- printing; ERR_FULL, ERR_NOMEM -- */
/* The values in force as TOML that loads again, each with a comment that names its source. Options
 * that cannot be in a file are comments only; an absent gated section is left out. */
enum err conf_print(const struct conf *conf, const char *title, struct buf *into);
/* The whole table as a commented TOML file with every default: a manual and a starting point. */
enum err conf_print_reference(const struct option_table *table, const char *title,
                              struct buf *into);

/* -- reload -- */
struct conf_change {
    const struct option *option;
    bool applied; /* false: needs a restart, the old value stays in force */
};
struct conf_changes {
    struct conf_change *each; /* in table order; borrowed from the new configuration */
    size_t count, waiting;    /* waiting: how many need a restart */
};
/* Compares `next`, loaded and finished from the same table, with what is in force. Options that can
 * change at run time do; for the others `next` takes over the old value, so afterwards `next` is in
 * force and `current` can be closed. ERR_NOMEM: `next` is half done; close it, keep `current`. */
enum err conf_reload(const struct conf *current, struct conf *next,
                     struct conf_changes *ret_changes);
/* "log.level: "info" -> "debug"" for an applied change; for one that waits, what the new value is
 * and that it needs a restart. */
enum err conf_change_text(const struct conf *current, const struct conf *next,
                          const struct conf_change *change, struct buf *into);
#endif
