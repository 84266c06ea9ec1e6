/* SPDX-License-Identifier: Apache-2.0 */
/* Describes each option of a command once. Every spelling and check is derived from here.
 *
 *     option          http.listen
 *     flag            --http-listen 127.0.0.1:8790      (or --http-listen=...)
 *     environment     MUSTER_HTTP_LISTEN
 *     TOML            [http]
 *                     listen = "127.0.0.1:8790"
 *
 * Names are lower-case words, joined by '-' inside a part and by '.' between section and key. A
 * name from another program's file may have '_' (run_id); its flag has '-'. A duration must have a
 * unit, except "0". A size without a unit is in bytes. */
#ifndef CONF_OPTION_H
#define CONF_OPTION_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/note.h"
#include "base/str.h"
#include "conf/units.h"

#define OPTION_ENVIRONMENT_PREFIX "MUSTER_"
enum { OPTION_NAME_CAP = 64 };   /* bytes of any spelling, including the closing NUL */
enum { OPTION_LIST_MAX = 64 };   /* longer lists are refused */
enum { OPTION_TEXT_MAX = 4096 }; /* bytes of a value; longer values are refused */

enum option_kind {
    OPTION_STRING,
    OPTION_U64,      /* such as 42, within min..max */
    OPTION_DURATION, /* 250ms 10s 5m 1h 2d, or joined: 1m30s; stored in ms */
    OPTION_SIZE,     /* 512 64KiB 16MiB 2GiB 1TiB; stored in bytes */
    OPTION_DECIMAL,  /* 0.05, 1 or 12.5; at most six decimal places; stored in millionths */
    OPTION_BOOL,     /* true false yes no on off 1 0; --x alone is true, --no-x is false */
    OPTION_ADDRESS,  /* host:port [v6]:port unix:/path */
    OPTION_ENUM,
    OPTION_LIST, /* a,b,c, or a repeated flag, or a TOML array of strings */
};

enum option_flags {
    OPTION_RELOAD = BIT(0),      /* a change takes effect at SIGHUP */
    OPTION_RELOAD_ON = BIT(1),   /* BOOL: SIGHUP can enable the option; disabling needs a restart */
    OPTION_REQUIRED = BIT(2),    /* an error if no source has a value */
    OPTION_NOT_IN_FILE = BIT(3), /* set only by a flag or the environment */
    OPTION_FLAG_ONLY = BIT(4),   /* affects only the current call, for example --json */
    OPTION_OFF = BIT(5),         /* ADDRESS: "0" disables the listener; see option_address_off */
    OPTION_LISTEN = BIT(6),      /* ADDRESS: ":7790" becomes 0.0.0.0:7790, every interface */
    OPTION_ONE_OR_LIST = BIT(7), /* LIST: a file may contain one string instead of a list */
    /* A section means something by its presence (conf_has_section), so a section that was not given
     * is not printed. */
    OPTION_GATED = BIT(8),
    OPTION_DIAL = BIT(9), /* ADDRESS: port 0 is refused, because nobody can dial it */
};

/* The kind of file that an option's path names. A role checks the file before it makes a directory
 * or binds a port. */
enum option_file {
    OPTION_FILE_NONE,
    OPTION_FILE_INPUT,        /* the file must exist and be readable */
    OPTION_FILE_OUTPUT,       /* the role writes the file; its directory must exist */
    OPTION_FILE_OUTPUT_BELOW, /* like OPTION_FILE_OUTPUT, but relative to data-dir */
    OPTION_FILE_OTHER,        /* the file may be missing, or is checked elsewhere */
};

struct option {
    const char *name;
    enum option_kind kind;
    uint32_t flags;
    const char *fallback;       /* the default, as a user would type it; NULL: not set */
    uint64_t min, max;          /* bounds of the count, ms, bytes or millionths; max 0: none */
    const char *const *choices; /* for ENUM; ends with NULL */
    const char *placeholder;    /* name of the value in help: "ADDRESS"; NULL: by kind */
    const char *help;           /* one or two sentences, lower case */
    const char *example;
    const char *also;     /* a second spelling of the flag ("--tls-cert", "-o"), or NULL */
    const char *alias;    /* spelling accepted, but not in help and completion; or NULL */
    const char *also_key; /* a second name in a file ("cluster.id"), or NULL */
    enum option_file file;
};
/* A row: the option's name, its kind without OPTION_, then other fields. */
#define OPTION(option_name, option_kind, ...)                                                      \
    {                                                                                              \
        .name = (option_name), .kind = OPTION_##option_kind, __VA_ARGS__                           \
    }
struct option_table {
    const struct option *options;
    size_t count;
};

const struct option *option_find(const struct option_table *table, const char *name);

struct option_value {
    uint64_t number;         /* for U64, DURATION, SIZE, DECIMAL, BOOL (0 or 1), ENUM (index) */
    struct str text;         /* for STRING, ADDRESS, ENUM; ends with a NUL */
    const struct str *items; /* for LIST; each item ends with a NUL */
    size_t item_count;
};

void option_flag_name(const struct option *option,
                      char name[OPTION_NAME_CAP]); /* "--http-listen" */
void option_environment_name(const struct option *option,
                             char name[OPTION_NAME_CAP]); /* "MUSTER_HTTP_LISTEN" */
/* Also true for the second spelling. */
bool option_is_flag(const struct option *option, struct str name);
struct str option_section(const struct option *option); /* such as "http"; or empty */
struct str option_key(const struct option *option);     /* "listen" */
const char *option_placeholder(const struct option *option);

/* Reads a value from a flag or the environment. Copies texts into `arena`. ERR_PARSE and
 * ERR_INVALID have a note that says what would be valid. ERR_TOO_LARGE, ERR_NOMEM. */
enum err option_parse(const struct option *option, struct str text, struct arena *arena,
                      struct option_value *ret_value, struct note *note);
bool option_address_off(const char *address); /* for options with OPTION_OFF */
/* The last steps of option_parse, for TOML values, which have types. */
enum err option_check_number(const struct option *option, uint64_t number, struct note *note);
enum err option_make_list(const struct option *option, const struct str *items, size_t count,
                          struct arena *arena, struct option_value *ret_value, struct note *note);
bool option_value_equal(const struct option *option, const struct option_value *a,
                        const struct option_value *b);
/* Appends the value as TOML: "10s" with its quotes, 42, true, ["a", "b"]. ERR_FULL, ERR_NOMEM. */
enum err option_format(const struct option *option, const struct option_value *value,
                       struct buf *into);
/* Writes a number as a user would type it: 10s, 64KiB, 42, 0.05. */
void option_number_text(const struct option *option, uint64_t number, char text[UNITS_TEXT_CAP]);
#endif
