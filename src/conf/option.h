/* SPDX-License-Identifier: Apache-2.0 */
/* Describes each option of a command once; every spelling and every check comes from here.
 *
 * An option has one dotted name, and the rule that spells it everywhere is one rule:
 *
 *     option          http.listen
 *     flag            --http-listen 127.0.0.1:8790      (or --http-listen=...)
 *     environment     MUSTER_HTTP_LISTEN
 *     TOML            [http]
 *                     listen = "127.0.0.1:8790"
 *
 * Names are lower-case words joined by '-' inside a part and by '.' between section and key; '_'
 * joins words where a file's keys are somebody else's (run_id), and the flag has '-' there too. The
 * surprising rule: a duration has a unit always (only "0" may go without), so that nobody has to
 * know whether 10 means seconds or milliseconds; a size without a unit is bytes. */
#ifndef CONF_OPTION_H
#define CONF_OPTION_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"
#include "conf/units.h"

#define OPTION_ENVIRONMENT_PREFIX "MUSTER_"
enum { OPTION_NAME_CAP = 64 };   /* of every spelling, closing NUL included */
enum { OPTION_LIST_MAX = 64 };   /* items in one list; more are refused */
enum { OPTION_TEXT_MAX = 4096 }; /* bytes in one value; more are refused */

enum option_kind {
    OPTION_STRING,
    OPTION_U64,      /* 42, within min..max */
    OPTION_DURATION, /* 250ms 10s 5m 1h 2d, or joined: 1m30s; kept in milliseconds */
    OPTION_SIZE,     /* 512 64KiB 16MiB 2GiB 1TiB; kept in bytes */
    OPTION_DECIMAL,  /* 0.05, 1, 12.5: up to six digits behind the point; kept in millionths */
    OPTION_BOOL,     /* true false yes no on off 1 0; a flag alone is true, --no-x false */
    OPTION_ADDRESS,  /* host:port [v6]:port unix:/path */
    OPTION_ENUM,     /* one of `choices` */
    OPTION_LIST,     /* a,b,c, or the flag several times, or a TOML array of strings */
};

enum option_flags {
    OPTION_RELOAD = BIT(0),      /* a change takes effect on SIGHUP */
    OPTION_RELOAD_ON = BIT(1),   /* BOOL: SIGHUP switches it on; off needs a restart */
    OPTION_REQUIRED = BIT(2),    /* refused when no source gives a value */
    OPTION_NOT_IN_FILE = BIT(3), /* a flag or the environment only */
    OPTION_FLAG_ONLY = BIT(4),   /* says something about this call, such as --json */
    OPTION_OFF = BIT(5),         /* ADDRESS: "0" is none at all, see option_address_off */
    OPTION_LISTEN = BIT(6),      /* ADDRESS: ":7790" is every interface, kept as 0.0.0.0:7790 */
    OPTION_ONE_OR_LIST = BIT(7), /* LIST: a file may give a lone string */
    /* The presence of its section has a meaning (conf_has_section): a configuration is printed
     * without one that was not given. */
    OPTION_GATED = BIT(8),
};

/* The kind of file that a path names. A role checks it before it makes a directory or binds a port;
 * a shared rule, so that each option with a FILE says one of these. */
enum option_file {
    OPTION_FILE_NONE,         /* not a file */
    OPTION_FILE_INPUT,        /* must exist and be readable */
    OPTION_FILE_OUTPUT,       /* made by the role; its directory must exist */
    OPTION_FILE_OUTPUT_BELOW, /* the same; a path that does not begin with / is below data-dir */
    OPTION_FILE_OTHER,        /* may be missing, or has a check of its own */
};

struct option {
    const char *name;
    enum option_kind kind;
    uint32_t flags;
    const char *fallback;       /* the default, as it would be typed; NULL: not set */
    uint64_t min, max;          /* of what is kept: count, ms, bytes, millionths; max 0: none */
    const char *const *choices; /* ENUM; ends with NULL */
    const char *placeholder;    /* how help calls the value; NULL: by kind, "ADDRESS" */
    const char *help;           /* what it does, in a sentence or two, lower case */
    const char *example;        /* a value somebody might give; NULL: none */
    const char *also;           /* one more spelling of the flag, "--tls-cert", "-o", or NULL */
    const char *alias;          /* one that works and is not in help or completion, or NULL */
    const char *also_key;       /* one more name in a file, "cluster.id", or NULL */
    enum option_file file;
};
/* A row of a table: its name, its kind without OPTION_, then what else is to be said of it. */
#define OPTION(option_name, option_kind, ...)                                                      \
    {                                                                                              \
        .name = (option_name), .kind = OPTION_##option_kind, __VA_ARGS__                           \
    }
struct option_table {
    const struct option *options;
    size_t count;
};

/* NULL: the table has no option of this name. */
const struct option *option_find(const struct option_table *table, const char *name);

struct option_value {
    uint64_t number;         /* U64, DURATION, SIZE, DECIMAL, BOOL (0 or 1), ENUM (which) */
    struct str text;         /* STRING, ADDRESS, ENUM; with a closing NUL */
    const struct str *items; /* LIST; each with a closing NUL */
    size_t item_count;
};

void option_flag_name(const struct option *option,
                      char name[OPTION_NAME_CAP]); /* "--http-listen" */
void option_environment_name(const struct option *option,
                             char name[OPTION_NAME_CAP]); /* "MUSTER_HTTP_LISTEN" */
/* Is `name` the flag, or its other spelling? */
bool option_is_flag(const struct option *option, struct str name);
struct str option_section(const struct option *option); /* "http"; empty when it has none */
struct str option_key(const struct option *option);     /* "listen" */
const char *option_placeholder(const struct option *option);

/* Reads a value as typed in a flag or the environment. Texts are copied into `arena`.
 * ERR_PARSE and ERR_INVALID (out of bounds, not a choice) with a note that says what would be
 * right; ERR_TOO_LARGE; ERR_NOMEM. */
enum err option_parse(const struct option *option, struct str text, struct arena *arena,
                      struct option_value *ret_value, struct note *note);
bool option_address_off(const char *address); /* of an option with OPTION_OFF */
/* The two last steps on their own, for values that arrive typed (TOML): bounds; items. */
enum err option_check_number(const struct option *option, uint64_t number, struct note *note);
enum err option_make_list(const struct option *option, const struct str *items, size_t count,
                          struct arena *arena, struct option_value *ret_value, struct note *note);
bool option_value_equal(const struct option *option, const struct option_value *a,
                        const struct option_value *b);
/* As TOML writes it: "10s" with its quotes, 42, true, ["a", "b"]. ERR_FULL, ERR_NOMEM. */
enum err option_format(const struct option *option, const struct option_value *value,
                       struct buf *into);
/* A number as one would type it, without quotes: 10s, 64KiB, 42, 0.05. */
void option_number_text(const struct option *option, uint64_t number, char text[UNITS_TEXT_CAP]);
#endif
