/* SPDX-License-Identifier: Apache-2.0 */
/* The log: one line per event, as logfmt for people or as JSON. Any thread.
 *
 *     LOG_WARN(&shard->log, "action failed", log_str("machine", id), log_err("err", err));
 *
 * A line is one write(2) and never blocks. Lines that a full pipe does not accept are dropped and
 * counted. Input from outside cannot forge a line, because everything but plain text is quoted and
 * escaped. The message is a literal; variable data goes into fields. A place that logs more than
 * repeats_per_second is counted and reported as a line with the field `repeated`.
 *
 * Written lines also go into the recent-events ring (obs/ring.h).
 *
 *   logfmt: ts=2026-01-01T00:00:00.000Z level=warn component=shard msg="action failed" machine=m-1
 *   JSON:   {"timestamp":"...","level":"WARN","fields":{"message":"...","machine":"m-1"},
 *            "target":"shard"}, on one line */
#ifndef OBS_LOG_H
#define OBS_LOG_H
#include <stdatomic.h>

#include "base/err.h"
#include "base/list.h"
#include "base/str.h"
#include "io/clock.h"

enum log_level {
    LOG_LEVEL_TRACE,
    LOG_LEVEL_DEBUG,
    LOG_LEVEL_INFO,
    LOG_LEVEL_WARN,
    LOG_LEVEL_ERROR,
    LOG_LEVEL_COUNT
};
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

enum {
    /* With the line end. A pipe accepts this size as a whole. Fields that do not fit are left out,
     * and `cut=true` is added. */
    LOG_LINE_MAX = 4096,
    LOG_VALUE_MAX = 1024, /* bytes of one text value; longer text is cut and ends in "..." */
    LOG_COMPONENT_MAX = 48,
    LOG_BOUND_MAX = 512, /* rendered fields of a source */
};

/* -- fields -- */
enum log_kind {
    LOG_KIND_END,
    LOG_KIND_STR,
    LOG_KIND_U64,
    LOG_KIND_I64,
    LOG_KIND_F64,
    LOG_KIND_BOOL
};
struct log_field {
    const char *key; /* static text: lower case letters, digits, '_' and '.' */
    enum log_kind kind;
    union {
        struct str text;
        uint64_t u64;
        int64_t i64;
        double f64;
        bool yes;
    } u;
};
#define LOG_END ((struct log_field){0})
static inline struct log_field log_str(const char *key, struct str value)
{
    return (struct log_field){.key = key, .kind = LOG_KIND_STR, .u.text = value};
}
static inline struct log_field log_text(const char *key, const char *value) /* NULL: empty text */
{
    return log_str(key, str_from(value));
}
static inline struct log_field log_u64(const char *key, uint64_t value)
{
    return (struct log_field){.key = key, .kind = LOG_KIND_U64, .u.u64 = value};
}
static inline struct log_field log_i64(const char *key, int64_t value)
{
    return (struct log_field){.key = key, .kind = LOG_KIND_I64, .u.i64 = value};
}
static inline struct log_field log_f64(const char *key, double value)
{
    return (struct log_field){.key = key, .kind = LOG_KIND_F64, .u.f64 = value};
}
static inline struct log_field log_bool(const char *key, bool value)
{
    return (struct log_field){.key = key, .kind = LOG_KIND_BOOL, .u.yes = value};
}
static inline struct log_field log_err(const char *key, enum err value)
{
    return log_text(key, err_name(value));
}

/* -- logger -- */
struct logger;
/* `line` has its line end. Called under the log's lock, so it must not log. */
typedef void logger_sink_fn(void *context, enum log_level level, struct str line);
struct logger_options {
    struct clock *clock;
    enum log_level level; /* lower levels are not written */
    enum log_format format;
    int fd; /* borrowed; used if there is no sink */
    logger_sink_fn *sink;
    void *sink_context;
    uint32_t repeats_per_second; /* lines of one log site per second; 0: 10 */
};
enum log_loss {
    LOG_LOSS_UNREAD, /* the reader of the pipe is too slow */
    LOG_LOSS_NO_SPACE,
    LOG_LOSS_FAILED, /* any other cause: no reader, an I/O error */
    LOG_LOSS_COUNT,
};
struct logger_stats {
    uint64_t written, repeats, cut; /* repeats: lines counted instead of written */
    uint64_t dropped[LOG_LOSS_COUNT];
};
/* ERR_INVALID (no clock, bad fd or level), ERR_NOMEM. */
enum err logger_open(const struct logger_options *options, struct logger **ret_logger);
void logger_close(struct logger *logger); /* reports the remaining repeats; NULL is allowed */
void logger_set_level(struct logger *logger, enum log_level level); /* any thread; for SIGHUP */
struct logger_stats logger_stats(struct logger *logger);
/* Call about once a second. Reports repeated lines whose second is over, and dropped lines. */
void logger_tick(struct logger *logger);

/* -- log source: a component, and fields that are added to each of its lines -- */
struct log_source {
    struct logger *logger; /* NULL: no logging */
    const char *component; /* static text */
    size_t bound_len;
    char bound[LOG_BOUND_MAX];
};
/* `fields` ends with LOG_END, or is NULL. Fields beyond LOG_BOUND_MAX are left out. */
void log_source_init(struct log_source *source, struct logger *logger, const char *component,
                     const struct log_field *fields);

/* -- lines -- */
struct log_site { /* one per place in the source, made by the macros; guarded by the log's lock */
    struct list link;
    uint64_t serial; /* of the logger that the counts belong to */
    const char *message, *component;
    enum log_level level;
    uint64_t second;
    uint32_t count;
    uint64_t suppressed;
};
void log_write(const struct log_source *source, struct log_site *site, enum log_level level,
               const char *message, const struct log_field *fields);
bool log_enabled(const struct log_source *source, enum log_level level);

#define LOG_AT(source, level, message, ...)                                                        \
    do {                                                                                           \
        static struct log_site log_site_here;                                                      \
        if (log_enabled((source), (level)))                                                        \
            log_write((source), &log_site_here, (level), "" message,                               \
                      (const struct log_field[]){__VA_ARGS__});                                    \
    } while (0)
/* LOG_INFO(source, "message", fields...): fields are evaluated only if the line is written. */
#define LOG_TRACE(source, ...) LOG_AT(source, LOG_LEVEL_TRACE, __VA_ARGS__, LOG_END)
#define LOG_DEBUG(source, ...) LOG_AT(source, LOG_LEVEL_DEBUG, __VA_ARGS__, LOG_END)
#define LOG_INFO(source, ...)  LOG_AT(source, LOG_LEVEL_INFO, __VA_ARGS__, LOG_END)
#define LOG_WARN(source, ...)  LOG_AT(source, LOG_LEVEL_WARN, __VA_ARGS__, LOG_END)
#define LOG_ERROR(source, ...) LOG_AT(source, LOG_LEVEL_ERROR, __VA_ARGS__, LOG_END)
#endif
