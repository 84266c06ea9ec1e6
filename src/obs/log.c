/* SPDX-License-Identifier: Apache-2.0 */
/* One lock serves all loggers of the process, because they share the log sites and lines are short.
 * Under the lock a line is built on the stack and written in one call. */
#include "obs/log.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "io/line_out.h"
#include "obs/line.h"
#include "obs/ring.h"
#include "text/rfc3339.h"

enum { REPEATS_PER_SECOND = 10, CLOSING_MAX = 40 }; /* CLOSING_MAX: bytes at a line's end */
static_assert((int)LOG_LINE_MAX <= (int)LINE_OUT_ATOMIC, "a line reaches a pipe in one piece");

struct logger {
    uint64_t serial; /* starts at 1; distinguishes loggers at the same address */
    struct clock *clock;
    enum log_format format;
    atomic_int level;
    logger_sink_fn *sink;
    void *sink_context;
    struct line_out out;
    uint32_t repeats_per_second;
    struct list sites;             /* sites with suppressed lines */
    uint64_t lost[LOG_LOSS_COUNT]; /* by cause: lines dropped and not reported yet */
    struct logger_stats stats;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint_fast64_t last_serial;

static const struct {
    const char *name, *upper, *ring;
} levels[LOG_LEVEL_COUNT] = {
    {"trace", "TRACE", "log.trace"}, {"debug", "DEBUG", "log.debug"}, {"info", "INFO", "log.info"},
    {"warn", "WARN", "log.warn"},    {"error", "ERROR", "log.error"},
};

/* -- building a line -- */

static void add_value(struct log_line *line, enum log_format format, const struct log_field *field)
{
    switch (field->kind) {
    case LOG_KIND_STR:
        if (format == LOG_FORMAT_JSON)
            line_add_quoted(line, field->u.text, LOG_VALUE_MAX);
        else
            line_add_word(line, field->u.text, LOG_VALUE_MAX);
        break;
    case LOG_KIND_U64: line_add_u64(line, field->u.u64); break;
    case LOG_KIND_I64: line_add_i64(line, field->u.i64); break;
    case LOG_KIND_F64:
        if (format == LOG_FORMAT_JSON && !isfinite(field->u.f64))
            line_add(line, STR("null"));
        else
            line_add_double(line, field->u.f64);
        break;
    case LOG_KIND_BOOL: line_add_c(line, field->u.yes ? "true" : "false"); break;
    case LOG_KIND_END: break;
    }
}

static bool key_is_valid(const char *key)
{
    const char *at = key;
    while ((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || *at == '_' || *at == '.')
        at++;
    return at > key && *at == '\0';
}

/* Adds the whole field or nothing, so that a truncated line can still be parsed. */
static void add_field(struct log_line *line, enum log_format format, const struct log_field *field)
{
    size_t before = line->len;
    if (line->cut) return;
    assert(key_is_valid(field->key));
    line_add_c(line, format == LOG_FORMAT_JSON ? ",\"" : " ");
    line_add_c(line, field->key);
    line_add_c(line, format == LOG_FORMAT_JSON ? "\":" : "=");
    add_value(line, format, field);
    if (line->cut) line->len = before;
}

static void add_fields(struct log_line *line, enum log_format format,
                       const struct log_field *fields)
{
    for (; fields && fields->kind != LOG_KIND_END; fields++) add_field(line, format, fields);
}

void log_source_init(struct log_source *source, struct logger *logger, const char *component,
                     const struct log_field *fields)
{
    struct log_line bound;
    assert(strlen(component) <= LOG_COMPONENT_MAX && key_is_valid(component));
    *source = (struct log_source){.logger = logger, .component = component};
    line_init(&bound, source->bound, LOG_BOUND_MAX);
    if (logger) add_fields(&bound, logger->format, fields);
    source->bound_len = bound.len;
}

struct content {
    enum log_level level;
    const char *component, *message;
    struct str bound;
    const struct log_field *fields;
};

static struct str make_line(struct logger *logger, const struct content *c, char room[LOG_LINE_MAX])
{
    bool json = logger->format == LOG_FORMAT_JSON;
    char time[RFC3339_CAP];
    struct log_line line;

    line_init(&line, room, LOG_LINE_MAX - CLOSING_MAX - LOG_COMPONENT_MAX);
    wall_text(clock_wall(logger->clock), time);
    line_add_c(&line, json ? "{\"timestamp\":\"" : "ts=");
    line_add_c(&line, time);
    line_add_c(&line, json ? "\",\"level\":\"" : " level=");
    line_add_c(&line, json ? levels[c->level].upper : levels[c->level].name);
    line_add_c(&line, json ? "\",\"fields\":{\"message\":" : " component=");
    if (!json) {
        line_add_c(&line, c->component);
        line_add(&line, STR(" msg="));
    }
    add_value(&line, logger->format,
              &(struct log_field){.kind = LOG_KIND_STR, .u.text = str_from(c->message)});
    line_add(&line, c->bound);
    add_fields(&line, logger->format, c->fields);

    if (line.cut) logger->stats.cut++;
    line.cap = LOG_LINE_MAX; /* releases the room that was reserved for the end */
    if (line.cut) line_add_c(&line, json ? ",\"cut\":true" : " cut=true");
    if (json) {
        line_add(&line, STR("},\"target\":\""));
        line_add_c(&line, c->component);
        line_add(&line, STR("\"}"));
    }
    line_add(&line, STR("\n"));
    assert(line.at[line.len - 1] == '\n');
    return line_peek(&line);
}

/* -- writing a line: callers hold the lock -- */

static enum err log_line_out(struct logger *logger, enum log_level level, struct str line)
{
    enum err err = ERR_OK;
    if (logger->sink)
        logger->sink(logger->sink_context, level, line);
    else
        err = line_out_write(&logger->out, line);
    if (!err) logger->stats.written++;
    return err;
}

/* Each reason has its own count, because a full disk is not a slow reader. */
static enum err report_lost(struct logger *logger)
{
    static const char *const messages[LOG_LOSS_COUNT] = {
        [LOG_LOSS_UNREAD] = "lines were dropped: nobody read them",
        [LOG_LOSS_NO_SPACE] = "lines were dropped: no space for them",
        [LOG_LOSS_FAILED] = "lines were dropped: they could not be written",
    };
    char room[LOG_LINE_MAX];
    for (int i = 0; i < LOG_LOSS_COUNT; i++) {
        const struct log_field fields[] = {log_u64("count", logger->lost[i]), LOG_END};
        struct content c = {
            .level = LOG_LEVEL_WARN, .component = "log", .message = messages[i], .fields = fields};
        enum err err;
        if (logger->lost[i] == 0) continue;
        err = log_line_out(logger, c.level, make_line(logger, &c, room));
        if (err) return err; /* the count is reported with the next line */
        logger->lost[i] = 0;
    }
    return ERR_OK;
}

/* The ring gets the message and as many whole fields as fit: the line's fields, then the
 * source's. */
static void remember(const struct content *c)
{
    char room[RING_TEXT_MAX];
    struct log_line line;
    struct str message = str_from(c->message);
    line_init(&line, room, sizeof room);
    line_add(&line, str_of(message.at, min_size(message.len, sizeof room)));
    add_fields(&line, LOG_FORMAT_LOGFMT, c->fields);
    if (!line.cut) line_add(&line, c->bound); /* the bound fields are rendered already */
    ring_put_text(levels[c->level].ring, line_peek(&line));
}

static void emit(struct logger *logger, const struct content *c)
{
    char room[LOG_LINE_MAX];
    struct str line = make_line(logger, c, room);
    enum log_loss loss;
    enum err err;

    remember(c);
    err = report_lost(logger);
    if (!err) err = log_line_out(logger, c->level, line);
    if (!err) return;
    loss = err == ERR_FULL       ? LOG_LOSS_UNREAD
           : err == ERR_NO_SPACE ? LOG_LOSS_NO_SPACE
                                 : LOG_LOSS_FAILED;
    logger->lost[loss]++;
    logger->stats.dropped[loss]++;
}

/* -- repeats, under lock -- */

static void report_repeats(struct logger *logger, struct log_site *site)
{
    struct content c = {
        .level = site->level,
        .component = site->component,
        .message = site->message,
        .fields = (const struct log_field[]){log_u64("repeated", site->suppressed), LOG_END}};
    list_remove(&site->link);
    if (site->suppressed > 0) emit(logger, &c);
    site->suppressed = 0;
}

static void site_adopt(struct logger *logger, struct log_site *site)
{
    if (!site->link.next) list_init(&site->link); /* static storage starts zeroed */
    if (site->serial == logger->serial) return;
    list_remove(&site->link); /* another logger of this process used the site before */
    *site = (struct log_site){.serial = logger->serial};
    list_init(&site->link);
}

static bool site_allows(struct logger *logger, struct log_site *site, uint64_t second)
{
    site_adopt(logger, site);
    if (site->second != second) {
        if (site->suppressed > 0) report_repeats(logger, site);
        site->second = second;
        site->count = 0;
    }
    if (site->count < logger->repeats_per_second) {
        site->count++;
        return true;
    }
    if (site->suppressed++ == 0) list_append(&logger->sites, &site->link);
    logger->stats.repeats++;
    return false;
}

static uint64_t second_of(struct logger *logger)
{
    return clock_mono(logger->clock).ms / MS_PER_SECOND + 1; /* 0: an unused site */
}

bool log_enabled(const struct log_source *source, enum log_level level)
{
    return source->logger &&
           (int)level >= atomic_load_explicit(&source->logger->level, memory_order_relaxed);
}

void log_write(const struct log_source *source, struct log_site *site, enum log_level level,
               const char *message, const struct log_field *fields)
{
    struct logger *logger = source->logger;
    struct content c = {.level = level,
                        .component = source->component,
                        .message = message,
                        .bound = str_of(source->bound, source->bound_len),
                        .fields = fields};
    uint64_t second = second_of(logger);

    pthread_mutex_lock(&lock);
    if (site_allows(logger, site, second)) {
        site->level = level;
        site->message = message;
        site->component = source->component;
        emit(logger, &c);
    }
    pthread_mutex_unlock(&lock);
}

static void logger_catch_up(struct logger *logger, bool even_unfinished)
{
    uint64_t second = second_of(logger);

    pthread_mutex_lock(&lock);
    LIST_EACH_SAFE(&logger->sites, node, following)
    {
        struct log_site *site = CONTAINER_OF(node, struct log_site, link);
        if (even_unfinished || site->second != second) report_repeats(logger, site);
    }
    (void)report_lost(logger);
    if (!logger->sink) (void)line_out_flush(&logger->out);
    pthread_mutex_unlock(&lock);
}

void logger_tick(struct logger *logger)
{
    logger_catch_up(logger, false);
}

/* -- open and close -- */

enum err logger_open(const struct logger_options *options, struct logger **ret_logger)
{
    struct logger *logger;
    enum err err;

    if (!options->clock || options->level >= LOG_LEVEL_COUNT) return ERR_INVALID;
    logger = calloc(1, sizeof *logger);
    if (!logger) return ERR_NOMEM;
    logger->serial = atomic_fetch_add(&last_serial, 1) + 1;
    logger->clock = options->clock;
    logger->format = options->format;
    atomic_init(&logger->level, (int)options->level);
    logger->sink = options->sink;
    logger->sink_context = options->sink_context;
    logger->repeats_per_second =
        options->repeats_per_second ? options->repeats_per_second : REPEATS_PER_SECOND;
    list_init(&logger->sites);
    if (!logger->sink) {
        err = line_out_init(&logger->out, options->fd);
        if (err) {
            free(logger);
            return err;
        }
    }
    *ret_logger = logger;
    return ERR_OK;
}

void logger_close(struct logger *logger)
{
    if (!logger) return;
    logger_catch_up(logger, true);
    if (!logger->sink) line_out_deinit(&logger->out);
    free(logger);
}

void logger_set_level(struct logger *logger, enum log_level level)
{
    assert(level < LOG_LEVEL_COUNT);
    atomic_store(&logger->level, (int)level);
}

struct logger_stats logger_stats(struct logger *logger)
{
    struct logger_stats stats;
    pthread_mutex_lock(&lock);
    stats = logger->stats;
    pthread_mutex_unlock(&lock);
    return stats;
}
