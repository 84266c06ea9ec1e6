/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "lib/fake_clock.h"
#include "lib/golden.h"
#include "lib/test.h"
#include "obs/ring.h"

struct capture {
    struct fake_clock clock;
    struct logger *logger;
    struct buf out;
};

static void take(void *context, enum log_level level, struct str line)
{
    struct capture *c = context;
    char *end;
    (void)level;
    if (buf_append(&c->out, line) != ERR_OK || buf_reserve(&c->out, 1, &end) != ERR_OK) abort();
    *end = '\0'; /* not part of the text; for strstr */
}

static void capture_open(struct capture *c, enum log_format format, enum log_level level)
{
    fake_clock_init(&c->clock);
    buf_init(&c->out, 16 << 20);
    struct logger_options options = {.clock = &c->clock.clock,
                                     .level = level,
                                     .format = format,
                                     .sink = take,
                                     .sink_context = c,
                                     .repeats_per_second = 3};
    CHECK_OK("open", logger_open(&options, &c->logger));
}

static void capture_close(struct capture *c)
{
    logger_close(c->logger);
    buf_deinit(&c->out);
}

/* Writes every kind of field, in either format. */
static void say_everything(struct log_source *log, struct capture *c)
{
    LOG_INFO(log, "started");
    LOG_DEBUG(log, "numbers", log_u64("u64", UINT64_MAX), log_i64("i64", INT64_MIN),
              log_f64("third", 1.0 / 3), log_f64("tenth", 0.1), log_f64("big", 1e300),
              log_f64("nan", NAN), log_f64("inf", -INFINITY), log_bool("yes", true));
    fake_clock_advance(&c->clock, 1500);
    LOG_WARN(log, "action failed", log_text("machine", "m-1"), log_err("err", ERR_NOT_LEADER));
    LOG_ERROR(log, "values", log_text("plain", "10.0.0.1:80"), log_text("empty", ""),
              log_text("null", NULL), log_text("blank", "a b"), log_text("equals", "a=b"),
              log_text("quote", "say \"hi\""), log_text("backslash", "C:\\x"));
    LOG_TRACE(log, "forged", log_text("lines", "x\nts=2026-01-01 level=error msg=fake\r\n"),
              log_text("terminal", "\x1b[2J\x07\x7f"), log_text("c1", "\xc2\x9b"),
              log_text("separators", "\xe2\x80\xa8\xe2\x80\xa9"),
              log_text("direction", "\xe2\x80\xae\xe2\x81\xa6"),
              log_text("umlaut", "\xc3\xbc\xe2\x82\xac"),
              log_text("broken", "a\xff\xc3(\xed\xa0\x80z"), log_str("nul", STR("a\0b")));
}

static void transcript(enum log_format format, const char *path)
{
    struct capture c;
    struct log_source log;
    capture_open(&c, format, LOG_LEVEL_TRACE);
    log_source_init(
        &log, c.logger, "shard",
        (const struct log_field[]){log_text("shard", "s 1"), log_u64("epoch", 4), LOG_END});
    say_everything(&log, &c);
    golden_check(path, buf_peek(&c.out));
    capture_close(&c);
}

TEST(logfmt_reads_as_the_transcript_says)
{
    transcript(LOG_FORMAT_LOGFMT, "obs/log.logfmt");
}

TEST(json_reads_as_the_transcript_says)
{
    transcript(LOG_FORMAT_JSON, "obs/log.ndjson");
}

TEST(every_json_line_is_json_on_one_line)
{
    struct capture c;
    struct log_source log;
    struct str rest, line;
    size_t lines = 0;
    capture_open(&c, LOG_FORMAT_JSON, LOG_LEVEL_TRACE);
    log_source_init(&log, c.logger, "x", NULL);
    say_everything(&log, &c);
    rest = buf_peek(&c.out);
    while (str_split(&rest, '\n', &line) && line.len > 0) {
        json_error_t error;
        json_t *json =
            json_loadb(line.at, line.len,
                       JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &error);
        if (!json) print_error("%s: %.*s\n", error.text, STR_ARG(line));
        CHECK("a foreign reader takes it", json != NULL);
        json_decref(json);
        lines++;
    }
    CHECK_SIZE("one line per call", lines, 5);
    capture_close(&c);
}

TEST(a_line_too_long_is_cut_at_a_field_and_says_so)
{
    for (int format = 0; format < 2; format++) {
        struct capture c;
        struct log_source log;
        char value[900];
        memset(value, 'v', sizeof value);
        struct str v = str_of(value, sizeof value);
        capture_open(&c, (enum log_format)format, LOG_LEVEL_INFO);
        log_source_init(&log, c.logger, "component_of_great_length_that_is_still_allowed1", NULL);
        LOG_INFO(&log, "long", log_str("a", v), log_str("b", v), log_str("c", v), log_str("d", v),
                 log_str("e", v), log_u64("small_but_late", 1));
        CHECK("within the limit", c.out.len <= LOG_LINE_MAX);
        CHECK_HAS("marked", c.out.data, format ? ",\"cut\":true}" : " cut=true\n");
        CHECK("a later field is not smuggled in", !memmem(c.out.data, c.out.len, "late", 4));
        CHECK("nor half a field", !memmem(c.out.data, c.out.len, format ? "\"e\"" : " e=", 3));
        CHECK_U64("counted", logger_stats(c.logger).cut, 1);
        if (format) {
            json_t *json = json_loadb(c.out.data, c.out.len, 0, NULL);
            CHECK("still JSON", json != NULL);
            json_decref(json);
        }
        capture_close(&c);
    }
}

TEST(a_value_too_long_is_cut_between_characters)
{
    struct capture c;
    struct log_source log;
    char value[LOG_VALUE_MAX + 10];
    memset(value, 'v', sizeof value);
    memcpy(value + LOG_VALUE_MAX - 1, "\xc3\xbc", 2); /* an umlaut across the limit */
    capture_open(&c, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
    log_source_init(&log, c.logger, "x", NULL);
    LOG_INFO(&log, "long", log_str("a", str_of(value, sizeof value)), log_u64("after", 1));
    CHECK("valid text", str_is_utf8(buf_peek(&c.out)));
    CHECK("marked, and the next field is there",
          memmem(c.out.data, c.out.len, "v...\" after=1\n", 14));
    capture_close(&c);
}

static void complain(struct log_source *log, uint64_t n)
{
    LOG_WARN(log, "it happened", log_u64("n", n));
}

TEST(repeats_are_counted_and_reported_with_the_next_line)
{
    struct capture c;
    struct log_source log;
    capture_open(&c, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
    log_source_init(&log, c.logger, "x", NULL);
    for (uint64_t i = 0; i < 4216; i++) complain(&log, i);
    LOG_INFO(&log, "another place is not held back");
    CHECK_U64("counted", logger_stats(c.logger).repeats, 4213);
    fake_clock_advance(&c.clock, 1000);
    complain(&log, 9999);
    golden_check("obs/log.repeats", buf_peek(&c.out));
    capture_close(&c);
}

TEST(repeats_are_reported_by_the_tick_and_by_close)
{
    struct capture c;
    struct log_source log;
    capture_open(&c, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
    log_source_init(&log, c.logger, "x", NULL);
    for (uint64_t i = 0; i < 5; i++) complain(&log, i);
    buf_clear(&c.out);
    logger_tick(c.logger);
    CHECK_SIZE("not before the second is over", c.out.len, 0);
    fake_clock_advance(&c.clock, 1000);
    logger_tick(c.logger);
    CHECK("reported", memmem(c.out.data, c.out.len, "msg=\"it happened\" repeated=2\n", 29));
    buf_clear(&c.out);
    logger_tick(c.logger);
    CHECK_SIZE("once", c.out.len, 0);
    for (uint64_t i = 0; i < 10; i++) complain(&log, i);
    buf_clear(&c.out);
    logger_close(c.logger);
    CHECK("close reports the rest", memmem(c.out.data, c.out.len, "repeated=7\n", 11));
    buf_deinit(&c.out);
    capture_open(&c, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
    log_source_init(&log, c.logger, "x", NULL);
    complain(&log, 1);
    CHECK("a new log starts afresh", memmem(c.out.data, c.out.len, "n=1\n", 4));
    capture_close(&c);
}

TEST(levels_are_obeyed_and_changed_while_running)
{
    struct capture c;
    struct log_source log, silent;
    int evaluated = 0;
    capture_open(&c, LOG_FORMAT_LOGFMT, LOG_LEVEL_WARN);
    log_source_init(&log, c.logger, "x", NULL);
    log_source_init(&silent, NULL, "x", NULL);
    LOG_INFO(&log, "no", log_i64("n", ++evaluated));
    LOG_ERROR(&silent, "no", log_i64("n", ++evaluated));
    CHECK_SIZE("below the level", c.out.len, 0);
    CHECK_I64("its fields are not even looked at", evaluated, 0);
    logger_set_level(c.logger, LOG_LEVEL_TRACE);
    LOG_TRACE(&log, "yes");
    CHECK("now", c.out.len > 0);
    capture_close(&c);
}

TEST(a_full_pipe_drops_counts_and_reports_but_never_waits)
{
    struct fake_clock clock;
    struct logger *logger;
    struct log_source log;
    int ends[2];
    char text[8192];
    uint64_t dropped;

    fake_clock_init(&clock);
    CHECK("pipe", pipe(ends) == 0);
    struct logger_options options = {
        .clock = &clock.clock, .fd = ends[1], .repeats_per_second = 1000000};
    CHECK_OK("open", logger_open(&options, &logger));
    CHECK("the pipe itself is not changed for others", !(fcntl(ends[1], F_GETFL) & O_NONBLOCK));
    log_source_init(&log, logger, "x", NULL);
    for (uint64_t i = 0; i < 5000; i++)
        LOG_INFO(&log, "line", log_u64("n", i)); /* a pipe holds 64 KiB */
    dropped = logger_stats(logger).dropped[LOG_LOSS_UNREAD];
    CHECK("some were dropped", dropped > 0);
    CHECK_U64("all are accounted for", logger_stats(logger).written + dropped, 5000);
    CHECK("the reader reads", read(ends[0], text, sizeof text) == sizeof text);
    LOG_INFO(&log, "after");
    close(ends[1]);
    logger_close(logger);

    struct buf rest;
    buf_init(&rest, 1 << 20);
    for (ssize_t got; (got = read(ends[0], text, sizeof text)) > 0;)
        buf_append(&rest, str_of(text, (size_t)got));
    close(ends[0]);
    char want[64];
    snprintf(want, sizeof want, "count=%llu\n", (unsigned long long)dropped);
    buf_append(&rest, str_of("", 1));
    CHECK_HAS("the loss is reported", rest.data, want);
    CHECK_HAS("before the line that got through", strstr(rest.data, want), "msg=after\n");
    buf_deinit(&rest);
}

TEST(a_full_disk_is_reported_as_what_it_is)
{
    struct fake_clock clock;
    struct logger *logger;
    struct log_source log;
    char path[256], text[4096] = "";
    struct rlimit old;

    fake_clock_init(&clock);
    snprintf(path, sizeof path, "%s/full.log", test_dir());
    int fd = open(path, O_CREAT | O_RDWR | O_APPEND, 0600);
    int full = open("/dev/full", O_WRONLY);
    CHECK("open", fd >= 0 && full >= 0);
    struct logger_options options = {.clock = &clock.clock, .fd = full};
    CHECK_OK("open", logger_open(&options, &logger));
    log_source_init(&log, logger, "x", NULL);
    LOG_INFO(&log, "one");
    LOG_INFO(&log, "two");
    CHECK_U64("no space", logger_stats(logger).dropped[LOG_LOSS_NO_SPACE], 2);
    CHECK_U64("is not an unread pipe", logger_stats(logger).dropped[LOG_LOSS_UNREAD], 0);
    logger_close(logger);

    signal(SIGXFSZ, SIG_IGN);
    options.fd = fd;
    CHECK_OK("open", logger_open(&options, &logger));
    log_source_init(&log, logger, "x", NULL);
    getrlimit(RLIMIT_FSIZE, &old);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, old.rlim_max});
    LOG_INFO(&log, "lost");
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK_U64("any other failure", logger_stats(logger).dropped[LOG_LOSS_FAILED], 1);
    LOG_INFO(&log, "after");
    CHECK("read", pread(fd, text, sizeof text - 1, 0) > 0);
    CHECK_HAS("in its own format", text, "dropped: they could not be written\" count=1\n");
    logger_close(logger);
    close(full);
    close(fd);
}

TEST(bad_options_are_refused)
{
    struct logger *logger;
    struct fake_clock clock;
    fake_clock_init(&clock);
    CHECK_ERR("no clock", logger_open(&(struct logger_options){.fd = 2}, &logger), ERR_INVALID);
    CHECK_ERR("no such fd",
              logger_open(&(struct logger_options){.clock = &clock.clock, .fd = 987}, &logger),
              ERR_INVALID);
    logger_close(NULL);
}

enum { THREADS = 6, EACH = 500 };
static void *chatter(void *argument)
{
    struct log_source *log = argument;
    char value[300];
    memset(value, 'y', sizeof value);
    for (int i = 0; i < EACH; i++)
        LOG_INFO(log, "chat", log_i64("i", i), log_str("v", str_of(value, 100 + (size_t)i % 200)));
    return NULL;
}

TEST(lines_of_many_threads_are_never_mixed)
{
    struct fake_clock clock;
    struct logger *logger;
    struct log_source log;
    pthread_t threads[THREADS];
    char path[256], line[8192];
    size_t lines = 0;
    FILE *file;

    fake_clock_init(&clock);
    snprintf(path, sizeof path, "%s/chatter.log", test_dir());
    int fd = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    struct logger_options options = {
        .clock = &clock.clock, .fd = fd, .repeats_per_second = 1000000};
    CHECK_OK("open", logger_open(&options, &logger));
    log_source_init(&log, logger, "x", NULL);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, chatter, &log);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    logger_close(logger);
    close(fd);
    file = fopen(path, "r");
    while (fgets(line, sizeof line, file)) {
        CHECK("a whole line",
              str_starts(str_from(line),
                         STR("ts=2026-01-01T00:00:00.000Z level=info component=x msg=chat i=")));
        CHECK("to its end", strcmp(strchr(line, '\n') - 2, "yy\n") == 0);
        lines++;
    }
    fclose(file);
    CHECK_SIZE("all of them", lines, THREADS * EACH);
}

TEST(the_ring_remembers_what_was_logged)
{
    struct capture c;
    struct log_source log;
    struct buf ring;
    char text[200];
    memset(text, 't', sizeof text);
    text[sizeof text - 1] = '\0';
    buf_init(&ring, 1 << 20);
    capture_open(&c, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO);
    log_source_init(&log, c.logger, "x", NULL);
    LOG_ERROR(&log, "the last words");
    CHECK_OK("dump", ring_dump(&ring));
    buf_append(&ring, str_of("", 1));
    CHECK_HAS("there", ring.data, " log.error the last words\n");
    ring.len = 0;
    log_source_init(&log, c.logger, "x",
                    (const struct log_field[]){log_text("shard", "s1"), LOG_END});
    LOG_ERROR(&log, "action failed", log_text("machine", "m-1"), log_u64("epoch", 4));
    LOG_ERROR(&log, "long", log_u64("n", 1), log_text("text", text), log_u64("later", 2));
    CHECK_OK("dump", ring_dump(&ring));
    buf_append(&ring, str_of("", 1));
    CHECK_HAS("with its fields", ring.data,
              " log.error action failed machine=m-1 epoch=4 shard=s1\n");
    CHECK_HAS("whole fields only", ring.data, " log.error long n=1\n");
    buf_deinit(&ring);
    capture_close(&c);
}
