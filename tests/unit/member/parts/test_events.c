/* SPDX-License-Identifier: Apache-2.0 */
/* member/events/events.h: the cases of workers.md 24.6, by number. */
#include "member/events/events.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/fs.h"
#include "lib/test.h"
#include "text/json.h"

#define RUN         "01JFEAVS7C5DE5XEAEAB91EBT5"
#define WORKER      "01JFEAVS7C5DE5XEAEAB91EBT6"
#define FIELDS(...) ((const struct log_field[]){__VA_ARGS__, LOG_END})

/* A clock that only the test moves. */
static uint64_t now_ms;
static mono_ns fake_mono(struct clock *clock __attribute__((unused)))
{
    return (mono_ns){now_ms * NS_PER_MS};
}
static wall_time fake_wall(struct clock *clock __attribute__((unused)))
{
    return (wall_time){1794727489589ull};
}
static struct clock fake_clock = {fake_mono, fake_wall};

/* A sink in a file, and its options. */
struct rig {
    char path[4200];
    struct events *sink;
    struct member_events *events;
};

static struct rig rig_open(struct member_events_options options)
{
    static int count;
    struct rig rig = {0};
    struct events_options sink = {
        .kind = EVENTS_FILE, .fs = fs_real(), .clock = clock_real(), .path = rig.path};

    snprintf(rig.path, sizeof rig.path, "%s/events-%d", test_dir(), count++);
    CHECK_OK("sink", events_open(&sink, &rig.sink, NULL));
    options.sink = rig.sink;
    options.clock = &fake_clock;
    options.run_id = STR(RUN);
    CHECK_OK("open", member_events_open(&options, &rig.events));
    return rig;
}

/* Closes the sink and returns everything it wrote; the caller frees the text. */
static char *rig_close(struct rig *rig)
{
    struct buf bytes;
    char *text;

    member_events_close(rig->events);
    events_close(rig->sink);
    buf_init(&bytes, 64 << 20);
    CHECK_OK("read", fs_read_whole(fs_real(), rig->path, 64 << 20, &bytes));
    CHECK_OK("text", buf_detach(&bytes, &text));
    buf_deinit(&bytes);
    return text;
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) count++;
    return count;
}

static const char *line_of(const struct event_line *event, bool ids, bool rollout_only)
{
    static char text[4096];
    struct buf line;

    buf_init(&line, EVENT_LINE_MAX);
    CHECK_OK("written", event_line_write(event, STR(RUN), ids, rollout_only, &line));
    snprintf(text, sizeof text, "%.*s", STR_ARG(buf_peek(&line)));
    buf_deinit(&line);
    return text;
}

TEST(cases_98_99_100_a_failure_reads_exactly_as_rollouts_does)
{
    struct event_line event = {.topic = TOPIC_WORKER_FAILED,
                               .at = {1794727489589ull},
                               .worker_id = STR(WORKER),
                               .entry_index = 9,
                               .entry_place = 1,
                               .incarnation = 2,
                               .fields = FIELDS(log_u64("due_at_ms", 1794727484347ull))};

#define HEAD                                                                                       \
    "{\"ts\":{\"secs_since_epoch\":1794727489,\"nanos_since_epoch\":589000000},"                   \
    "\"kind\":{\"domain\":{\"topic\":\"worker_failed\"}},\"level\":\"warn\","                      \
    "\"run_id\":\"" RUN "\",\"worker_id\":\"" WORKER "\",\"trace_id\":null,\"span_id\":null,"      \
    "\"plugin_id\":null,\"algorithm\":null,\"message\":null,"
    CHECK_TEXT("as it was", line_of(&event, false, false),
               HEAD "\"attrs\":{\"due_at_ms\":1794727484347}}\n");
    CHECK_TEXT("with its identity", line_of(&event, true, false),
               HEAD "\"attrs\":{\"due_at_ms\":1794727484347,\"event_id\":\"9.1\","
                    "\"incarnation\":2}}\n");
    event.replayed = true;
    event.run_id = STR("01JFEAVS7C5DE5XEAEAB91EBT7");
    CHECK_HAS("the run of the beat", line_of(&event, true, false),
              "\"run_id\":\"01JFEAVS7C5DE5XEAEAB91EBT7\"");
    CHECK_HAS("again", line_of(&event, true, false), "\"incarnation\":2,\"replayed\":true}}\n");
}

TEST(case_101_attrs_are_null_when_there_is_nothing_to_say)
{
    static const enum event_topic topics[] = {TOPIC_WORKER_REGISTERED, TOPIC_WORKER_HEARTBEAT,
                                              TOPIC_WORKER_DEREGISTERED};

    for (size_t i = 0; i < ARRAY_LEN(topics); i++) {
        struct event_line event = {
            .topic = topics[i], .worker_id = STR(WORKER), .entry_index = 3, .incarnation = 1};
        CHECK_HAS("null", line_of(&event, false, false), "\"attrs\":null}\n");
    }
    struct event_line beat = {
        .topic = TOPIC_WORKER_HEARTBEAT, .at = {1794727489589ull}, .worker_id = STR(WORKER)};
    CHECK("a heartbeat is 302 to 304 bytes, without its end",
          strlen(line_of(&beat, false, false)) - 1 >= 302 &&
              strlen(line_of(&beat, false, false)) - 1 <= 304);
}

TEST(every_topic_has_a_name_a_level_and_sorted_attributes)
{
    for (int topic = 0; topic < TOPIC_COUNT; topic++) {
        const struct event_topic_info *info = &event_topic_infos[topic];
        struct event_line event = {.topic = (enum event_topic)topic,
                                   .message = STR("a \"b\"\n"),
                                   .fields = FIELDS(log_text("z", "last"), log_bool("b", true),
                                                    log_i64("a", -1), log_f64("m", 0.5))};
        const char *line = line_of(&event, false, false);

        CHECK("named", info->name && info->level);
        CHECK_HAS(info->name, line, info->name);
        CHECK_HAS("sorted", line, "\"attrs\":{\"a\":-1,\"b\":true,\"m\":0.5,\"z\":\"last\"}}\n");
        CHECK_HAS("escaped, on one line", line, "\"message\":\"a \\\"b\\\"\\n\"");
        CHECK_SIZE("one line", count_of(line, "\n"), 1);
        CHECK_HAS("nobody", line, "\"worker_id\":null");
    }
}

TEST(case_102_what_was_emitted_is_counted_by_topic)
{
    struct rig rig = rig_open((struct member_events_options){.ids = true});
    struct event_line event = {.topic = TOPIC_COORDINATOR_FENCED,
                               .worker_id = STR(WORKER),
                               .message = STR("stale_epoch=0 < observed_epoch=1"),
                               .fields =
                                   FIELDS(log_u64("stale_epoch", 0), log_u64("observed_epoch", 1))};
    struct member_events_stats stats;
    char *text;

    CHECK_OK("emitted", member_events_emit(rig.events, &event));
    stats = member_events_stats(rig.events);
    CHECK_U64("once", stats.written[TOPIC_COORDINATOR_FENCED], 1);
    CHECK_U64("not another", stats.written[TOPIC_WORKER_FAILED], 0);
    text = rig_close(&rig);
    CHECK_HAS("level", text, "\"level\":\"error\"");
    CHECK_HAS("attributes", text, "\"attrs\":{\"observed_epoch\":1,\"stale_epoch\":0}");
    free(text);
}

/* -- 103 -- */

enum { THREADS = 64, EACH = 157 };
static void *emit_many(void *context)
{
    struct event_line event = {.topic = TOPIC_WORKER_REGISTERED, .worker_id = STR(WORKER)};
    for (int i = 0; i < EACH; i++) (void)member_events_emit(context, &event);
    return NULL;
}

TEST(case_103_64_threads_give_10000_whole_lines)
{
    struct rig rig = rig_open((struct member_events_options){0});
    pthread_t threads[THREADS];
    char *text, *rest;
    size_t lines = 0;

    for (int i = 0; i < THREADS; i++)
        CHECK("begun", pthread_create(&threads[i], NULL, emit_many, rig.events) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    text = rest = rig_close(&rig);
    for (char *line; (line = strsep(&rest, "\n")) && *line; lines++) {
        struct json *json = NULL;
        CHECK_OK(line, json_open(str_from(line), 4096, &json, NULL));
        json_close(json);
    }
    CHECK_SIZE("all of them", lines, THREADS * EACH);
    free(text);
}

/* -- 104 -- */

TEST(case_104_without_a_reader_heartbeats_are_dropped_and_transitions_kept)
{
    enum { QUEUE = 100, BEATS = 4000, TRANSITIONS = 60 };
    int ends[2];
    struct events_options sink = {.kind = EVENTS_STDOUT, .queue_max = QUEUE};
    struct member_events_options options = {.clock = &fake_clock, .run_id = STR(RUN)};
    struct event_line event = {.topic = TOPIC_WORKER_SUSPECTED, .worker_id = STR(WORKER)};
    struct member_events_stats stats;
    struct member_events *events;
    static char all[4 << 20];
    size_t len = 0;

    CHECK("pipe", pipe(ends) == 0);
    sink.fd = ends[1];
    CHECK_OK("sink", events_open(&sink, &options.sink, NULL));
    CHECK_OK("open", member_events_open(&options, &events));
    for (int i = 0; i < BEATS; i++) member_events_heartbeat(events, STR(WORKER));
    for (int i = 0; i < TRANSITIONS; i++)
        CHECK_OK("taken: a heartbeat makes room", member_events_emit(events, &event));
    stats = member_events_stats(events);
    CHECK("some were dropped", stats.dropped > 0);
    CHECK_U64("and nothing else", stats.refused, 0);
    CHECK("ready", !events_stats(options.sink).refusing);
    for (int i = 0; i < QUEUE; i++) (void)member_events_emit(events, &event);
    stats = member_events_stats(events);
    CHECK("a transition without room is the caller's again", stats.refused > 0);
    CHECK("and the sink reports that it refuses", events_stats(options.sink).refusing);
    while (!events_flush(options.sink) || len == 0) {
        ssize_t got = read(ends[0], all + len, sizeof all - 1 - len);
        CHECK("read", got > 0);
        len += (size_t)got;
    }
    CHECK("ready again", !events_stats(options.sink).refusing);
    member_events_close(events);
    events_close(options.sink);
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], all + len, sizeof all - 1 - len)) > 0;)
        len += (size_t)got;
    close(ends[0]);
    all[len] = '\0';
    CHECK_SIZE("every transition that was taken is there", count_of(all, "worker_suspected"),
               stats.written[TOPIC_WORKER_SUSPECTED]);
    CHECK("60 at least", stats.written[TOPIC_WORKER_SUSPECTED] >= TRANSITIONS);
}

/* -- 105 -- */

static void beats(struct member_events *events, uint64_t second, size_t count)
{
    now_ms = second * MS_PER_SECOND;
    for (size_t i = 0; i < count; i++) member_events_heartbeat(events, STR(WORKER));
}

TEST(case_105_beyond_the_limit_one_heartbeat_in_n_is_reported)
{
    struct rig rig =
        rig_open((struct member_events_options){.heartbeat_limit = 500, .rollout_only = false});
    struct event_line event = {.topic = TOPIC_WORKER_RECOVERED, .worker_id = STR(WORKER)};
    struct member_events_stats stats;
    uint64_t before;
    char *text;

    beats(rig.events, 10, 400);
    CHECK_U64("below it all", member_events_stats(rig.events).written[TOPIC_WORKER_HEARTBEAT], 400);
    beats(rig.events, 11, 2000);
    CHECK_U64("the first second is cut",
              member_events_stats(rig.events).written[TOPIC_WORKER_HEARTBEAT], 900);
    before = 900;
    beats(rig.events, 12, 2000);
    for (int i = 0; i < 20; i++) CHECK_OK("a transition", member_events_emit(rig.events, &event));
    stats = member_events_stats(rig.events);
    CHECK("then it is thinned: about 500 of 2000",
          stats.written[TOPIC_WORKER_HEARTBEAT] - before > 350 &&
              stats.written[TOPIC_WORKER_HEARTBEAT] - before <= 500);
    CHECK_U64("the rest is counted", stats.suppressed + stats.written[TOPIC_WORKER_HEARTBEAT],
              4400);
    CHECK_U64("transitions are never sampled", stats.written[TOPIC_WORKER_RECOVERED], 20);
    before = stats.written[TOPIC_WORKER_HEARTBEAT];
    beats(rig.events, 20, 10);
    CHECK_U64("a quiet second writes all again",
              member_events_stats(rig.events).written[TOPIC_WORKER_HEARTBEAT], before + 10);
    text = rig_close(&rig);
    CHECK_HAS("how many it is the sample of", text, "\"attrs\":{\"sampled\":4}");
    CHECK_SIZE("only there", count_of(text, "sampled"), before - 900);
    free(text);
}

TEST(heartbeats_can_be_sampled_or_switched_off)
{
    struct rig rig =
        rig_open((struct member_events_options){.heartbeat = HEARTBEAT_EVENTS_SAMPLED});
    uint64_t written;
    char *text;

    beats(rig.events, 1, 4000);
    written = member_events_stats(rig.events).written[TOPIC_WORKER_HEARTBEAT];
    CHECK("about one in a hundred", written > 10 && written < 100);
    member_events_set(rig.events, HEARTBEAT_EVENTS_NONE, 0, false, false);
    beats(rig.events, 2, 100);
    CHECK_U64("none", member_events_stats(rig.events).written[TOPIC_WORKER_HEARTBEAT], written);
    member_events_set(rig.events, HEARTBEAT_EVENTS_ALL, 0, false, false);
    beats(rig.events, 30, 100);
    CHECK_U64("all", member_events_stats(rig.events).written[TOPIC_WORKER_HEARTBEAT],
              written + 100);
    text = rig_close(&rig);
    CHECK_HAS("marked", text, "\"sampled\":100");
    free(text);
}

/* -- 106 -- */

TEST(case_106_rollouts_consumers_can_have_rollouts_topics_and_fields_only)
{
    struct rig rig = rig_open((struct member_events_options){.rollout_only = true});
    char *text;

    for (int topic = 0; topic < TOPIC_COUNT; topic++) {
        struct event_line event = {
            .topic = (enum event_topic)topic,
            .worker_id = STR(WORKER),
            .entry_index = 7,
            .incarnation = 3,
            .fields = FIELDS(log_text("previous", "dead"), log_u64("due_at_ms", 5),
                             log_text("work_id", "ab"), log_u64("work", 1), log_u64("id", 1))};
        CHECK_OK("emitted", member_events_emit(rig.events, &event));
    }
    text = rig_close(&rig);
    CHECK_SIZE("nine topics", count_of(text, "\n"), 9);
    CHECK_SIZE("none of ours", count_of(text, "suspected") + count_of(text, "partition"), 0);
    CHECK_SIZE("no field of ours", count_of(text, "previous") + count_of(text, "incarnation"), 0);
    CHECK_SIZE("a failure's deadline", count_of(text, "\"attrs\":{\"due_at_ms\":5}"), 1);
    CHECK_SIZE("an item's name", count_of(text, "\"attrs\":{\"work_id\":\"ab\"}"), 3);
    free(text);
}

/* -- the log's line -- */

struct heard {
    char text[1024];
    size_t lines;
};
static void hear(void *context, enum log_level level, struct str line)
{
    struct heard *heard = context;
    heard->lines += level == LOG_LEVEL_WARN;
    snprintf(heard->text, sizeof heard->text, "%.*s", STR_ARG(line));
}

TEST(case_107_a_failure_warns_in_the_log_once_and_the_sink_holds_events_only)
{
    struct heard heard = {0};
    struct logger_options options = {
        .clock = &fake_clock, .format = LOG_FORMAT_JSON, .sink = hear, .sink_context = &heard};
    struct event_line event = {.topic = TOPIC_WORKER_FAILED,
                               .worker_id = STR(WORKER),
                               .fields = FIELDS(log_u64("due_at_ms", 1794727484347ull))};
    struct log_source source;
    struct logger *logger;
    struct rig rig;
    char *text;

    CHECK_OK("logger", logger_open(&options, &logger));
    log_source_init(&source, logger, "coordinator", NULL);
    rig = rig_open((struct member_events_options){.log = &source});
    CHECK_OK("emitted", member_events_emit(rig.events, &event));
    event.replayed = true;
    CHECK_OK("again by a new leader", member_events_emit(rig.events, &event));
    text = rig_close(&rig);
    CHECK_SIZE("two lines of events", count_of(text, "\n"), 2);
    CHECK_SIZE("no log among them", count_of(text, "target"), 0);
    CHECK_SIZE("one warning", heard.lines, 1);
    CHECK_HAS("the worker", heard.text, "\"worker_id\":\"" WORKER "\"");
    CHECK_HAS("when", heard.text, "\"due_at_ms\":1794727484347");
    CHECK_HAS("from where", heard.text, "\"target\":\"coordinator\"");
    logger_close(logger);
    free(text);
}

TEST(a_full_disk_is_answered_and_nothing_else_is_lost)
{
    struct events_options sink = {.kind = EVENTS_FILE,
                                  .fs = fs_real(),
                                  .clock = clock_real(),
                                  .path = "/dev/full",
                                  .queue_max = 3};
    struct member_events_options options = {.clock = &fake_clock, .run_id = STR(RUN)};
    struct event_line event = {.topic = TOPIC_WORKER_REGISTERED, .worker_id = STR(WORKER)};
    struct member_events *events;
    int full;

    /* A device is no file to the file system, so the sink of /dev/full is standard output. */
    full = open("/dev/full", O_WRONLY);
    if (full < 0) SKIP("no /dev/full here");
    sink.kind = EVENTS_STDOUT;
    sink.fd = full;
    CHECK_OK("sink", events_open(&sink, &options.sink, NULL));
    CHECK_OK("open", member_events_open(&options, &events));
    for (int i = 0; i < 3; i++) CHECK_OK("waits", member_events_emit(events, &event));
    CHECK_ERR("then it is the caller's", member_events_emit(events, &event), ERR_FULL);
    CHECK("and the sink reports that it refuses", events_stats(options.sink).refusing);
    member_events_heartbeat(events, STR(WORKER));
    CHECK_U64("a heartbeat is lost, and counted", member_events_stats(events).dropped, 1);
    member_events_close(events);
    events_close(options.sink);
    close(full);
}

TEST(without_a_sink_everything_is_taken)
{
    struct member_events_options options = {.clock = &fake_clock, .run_id = STR(RUN)};
    struct event_line event = {.topic = TOPIC_WORKER_REGISTERED};
    struct member_events *events;

    CHECK_OK("nowhere", member_events_emit(NULL, &event));
    member_events_heartbeat(NULL, STR(WORKER));
    CHECK_OK("open", member_events_open(&options, &events));
    CHECK_OK("nowhere", member_events_emit(events, &event));
    member_events_heartbeat(events, STR(WORKER));
    member_events_close(events);
}
