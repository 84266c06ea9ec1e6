/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/golden.h"
#include "lib/test.h"
#include "prom_parse.h"

static struct metrics *registry(void)
{
    struct metrics *metrics;
    CHECK_OK("open", metrics_open(&metrics));
    return metrics;
}

static struct metric_family *family(struct metrics *metrics, struct metric_options options)
{
    struct metric_family *made = NULL;
    struct note note = {""};
    enum err err = metrics_add(metrics, &options, &made, &note);
    if (err) print_error("%s\n", note.text);
    CHECK_OK("add", err);
    return made;
}

static void written(struct metrics *metrics, struct buf *text, struct prom *parsed)
{
    buf_init(text, 16 << 20);
    CHECK_OK("write", metrics_write(metrics, text));
    bool fine = prom_parse(parsed, buf_peek(text));
    if (!fine) print_error("%s\n", parsed->why);
    CHECK("a strict reader takes it", fine);
}

static double sample(struct metrics *metrics, const char *name, const char *labels)
{
    struct buf text;
    struct prom parsed;
    double value = NAN;
    written(metrics, &text, &parsed);
    const struct prom_sample *found = prom_find(&parsed, name, labels);
    if (found) value = found->value;
    free(parsed.samples);
    buf_deinit(&text);
    return value;
}

static void fill(struct metrics *metrics)
{
    static const double buckets[] = {0.001, 0.01, 0.1, 1};
    struct metric_family *f;
    f = family(metrics, (struct metric_options){.name = "zeta_total", .help = "Plain counter."});
    counter_add(metric_counter(f, NULL), 41);
    counter_inc(metric_counter(f, NULL));
    f = family(metrics, (struct metric_options){
                            .name = "busy_seconds_total", .help = "Time.", .per_unit = 1e9});
    counter_add(metric_counter(f, NULL), 1500000001);
    f = family(metrics, (struct metric_options){.name = "machines",
                                                .help = "With \\ and\nline end.",
                                                .kind = METRIC_GAUGE,
                                                .labels = {"state", "zone"}});
    gauge_set(metric_gauge(f, (struct str[]){STR("idle"), STR("b")}), 2.5);
    gauge_set(metric_gauge(f, (struct str[]){STR("idle"), STR("a")}), -1);
    gauge_set(metric_gauge(f, (struct str[]){STR("configured"), STR("say \"hi\"\n\\")}), NAN);
    gauge_set(metric_gauge(f, (struct str[]){STR("broken \xff"), STR("\xc3\xbc")}), INFINITY);
    gauge_add(metric_gauge(f, (struct str[]){STR("idle"), STR("a")}), 0.25);
    f = family(metrics, (struct metric_options){.name = "latency_seconds",
                                                .help = "Spread.",
                                                .kind = METRIC_HISTOGRAM,
                                                .labels = {"phase"},
                                                .buckets = buckets,
                                                .bucket_count = 4});
    struct histogram *h = metric_histogram(f, &STR("one"));
    const double observed[] = {0.0005, 0.001, 0.0011, 0.5, 1, 1.5, NAN, -2};
    for (size_t i = 0; i < ARRAY_LEN(observed); i++) histogram_observe(h, observed[i]);
    f = family(metrics, (struct metric_options){.name = "empty",
                                                .help = "No series yet.",
                                                .kind = METRIC_GAUGE,
                                                .labels = {"x"}});
    (void)f;
    f = family(metrics, (struct metric_options){.name = "peers",
                                                .help = "Bounded.",
                                                .kind = METRIC_GAUGE,
                                                .labels = {"id"},
                                                .series_max = 2});
    for (int i = 0; i < 5; i++) {
        char id[16];
        snprintf(id, sizeof id, "p%d", i);
        gauge_add(metric_gauge(f, &(struct str){id, strlen(id)}), 1);
    }
}

TEST(the_text_is_as_the_transcript_says_and_a_strict_reader_takes_it)
{
    struct metrics *metrics = registry();
    struct buf text;
    struct prom parsed;
    fill(metrics);
    written(metrics, &text, &parsed);
    golden_check("obs/metrics.txt", buf_peek(&text));
    free(parsed.samples);
    buf_deinit(&text);
    metrics_close(metrics);
}

static void check_with(const char *command, struct str text)
{
    FILE *pipe = popen(command, "w");
    CHECK("starts", pipe != NULL);
    fwrite(text.at, 1, text.len, pipe);
    CHECK_I64("accepts", pclose(pipe), 0);
}

TEST(prometheus_itself_takes_the_text)
{
    struct metrics *metrics = registry();
    struct buf text;
    struct prom parsed;
    bool promtool = system("command -v promtool >/dev/null 2>&1") == 0;
    bool python = system("/usr/bin/python3 -c 'import prometheus_client' >/dev/null 2>&1") == 0;
    if (!promtool && !python) {
        metrics_close(metrics);
        SKIP("neither promtool nor python3 prometheus_client is installed");
    }
    fill(metrics);
    written(metrics, &text, &parsed);
    /* promtool also lints names; only its parser counts here. */
    if (promtool)
        check_with("promtool check metrics >/dev/null 2>&1; test $? -ne 1", buf_peek(&text));
    if (python)
        check_with("/usr/bin/python3 -c 'import sys; from prometheus_client.parser import "
                   "text_string_to_metric_families as f;"
                   "sys.exit(0 if len(list(f(sys.stdin.read()))) >= 7 else 1)'",
                   buf_peek(&text));
    free(parsed.samples);
    buf_deinit(&text);
    metrics_close(metrics);
}

static const double good[] = {1, 2};

TEST(a_name_is_there_once)
{
    struct metrics *metrics = registry();
    struct metric_family *made = NULL;
    struct note note;
    family(metrics, (struct metric_options){.name = "a:b_c9", .help = "h"});
    CHECK_ERR(
        "twice",
        metrics_add(metrics, &(struct metric_options){.name = "a:b_c9", .help = "h"}, &made, &note),
        ERR_EXISTS);
    CHECK_HAS("names it", note.text, "a:b_c9");
    CHECK("the output is untouched", made == NULL);
    metrics_close(metrics);
    metrics_close(NULL);
}

TEST(past_its_bound_a_family_has_one_more_series_called_other)
{
    struct metrics *metrics = registry();
    struct metric_family *f =
        family(metrics, (struct metric_options){
                            .name = "x_total", .help = "h", .labels = {"a", "b"}, .series_max = 3});
    char value[METRIC_LABEL_MAX + 50];
    for (int i = 0; i < 100; i++) {
        char a[16];
        snprintf(a, sizeof a, "%d", i);
        counter_inc(metric_counter(f, (struct str[]){str_from(a), STR("v")}));
    }
    CHECK_I64("the rest shares one", (int64_t)sample(metrics, "x_total", "a=other;b=other;"), 97);
    CHECK_I64("and it is reported",
              (int64_t)sample(metrics, "muster_metrics_overflow_total", "metric=x_total;"), 97);
    CHECK("those with room go on", metric_counter(f, (struct str[]){STR("1"), STR("v")}) !=
                                       metric_counter(f, (struct str[]){STR("77"), STR("v")}));
    CHECK("values that read \"other\" are that one series",
          metric_counter(f, (struct str[]){STR("other"), STR("other")}) ==
              metric_counter(f, (struct str[]){STR("88"), STR("v")}));
    f = family(metrics, (struct metric_options){.name = "y_total", .help = "h", .labels = {"a"}});
    memset(value, 'v', sizeof value);
    memcpy(value + METRIC_LABEL_MAX - 1, "\xc3\xbc", 2);
    counter_inc(metric_counter(f, &(struct str){value, sizeof value}));
    value[METRIC_LABEL_MAX - 1] = '\0';
    char want[256];
    snprintf(want, sizeof want, "a=%s;", value);
    CHECK_I64("a long value is cut between characters", (int64_t)sample(metrics, "y_total", want),
              1);
    metrics_close(metrics);
}

TEST(a_round_removes_what_was_not_set_again)
{
    struct metrics *metrics = registry();
    struct metric_family *f = family(
        metrics,
        (struct metric_options){
            .name = "g", .help = "h", .kind = METRIC_GAUGE, .labels = {"c"}, .series_max = 2});
    gauge_set(metric_gauge(f, &STR("a")), 1);
    gauge_set(metric_gauge(f, &STR("b")), 2);
    gauge_set(metric_gauge(f, &STR("too many")), 3);
    metric_round_begin(f);
    gauge_set(metric_gauge(f, &STR("b")), 5);
    metric_round_end(f);
    CHECK("gone", isnan(sample(metrics, "g", "c=a;")));
    CHECK("gone too", isnan(sample(metrics, "g", "c=other;")));
    CHECK_I64("stays", (int64_t)sample(metrics, "g", "c=b;"), 5);
    gauge_set(metric_gauge(f, &STR("c")), 7);
    CHECK_I64("its room is free again", (int64_t)sample(metrics, "g", "c=c;"), 7);
    f = family(metrics,
               (struct metric_options){.name = "plain", .help = "h", .kind = METRIC_GAUGE});
    gauge_set(metric_gauge(f, NULL), 4);
    metric_round_begin(f);
    metric_round_end(f);
    CHECK_I64("a family without labels keeps its one", (int64_t)sample(metrics, "plain", ""), 4);
    metrics_close(metrics);
}

TEST(a_buffer_too_small_is_left_as_it_was)
{
    struct metrics *metrics = registry();
    struct buf text;
    fill(metrics);
    buf_init(&text, 300);
    CHECK_OK("before", buf_append_c(&text, "before"));
    CHECK_ERR("full", metrics_write(metrics, &text), ERR_FULL);
    CHECK_STR("as before", buf_peek(&text), STR("before"));
    buf_deinit(&text);
    metrics_close(metrics);
}

TEST(process_metrics_are_there_and_true)
{
    struct metrics *metrics = registry();
    struct note note = {""};
    int extra;
    double fds;
    CHECK_OK("add",
             metrics_add_process(
                 metrics, &(struct metrics_build){.version = "1.2.3", .commit = "abc"}, &note));
    CHECK_ERR("once",
              metrics_add_process(
                  metrics, &(struct metrics_build){.version = "1.2.3", .commit = "abc"}, &note),
              ERR_EXISTS);
    CHECK("memory", sample(metrics, "process_resident_memory_bytes", "") > 100e3);
    CHECK("address space", sample(metrics, "process_virtual_memory_bytes", "") > 1e6);
    CHECK("threads", sample(metrics, "process_threads", "") >= 1);
    CHECK("started after 2020", sample(metrics, "process_start_time_seconds", "") > 1577836800);
    CHECK("cpu", sample(metrics, "process_cpu_seconds_total", "") >= 0);
    fds = sample(metrics, "process_open_fds", "");
    extra = dup(1);
    CHECK_I64("one more open file is seen", (int64_t)sample(metrics, "process_open_fds", ""),
              (int64_t)fds + 1);
    close(extra);
    CHECK("limit", sample(metrics, "process_max_fds", "") >= fds);
    char labels[256];
    snprintf(labels, sizeof labels, "version=1.2.3;commit=abc;compiler=%s%s;",
             strstr(__VERSION__, "lang") ? "" : "gcc ", __VERSION__);
    CHECK_I64("build", (int64_t)sample(metrics, "muster_build_info", labels), 1);
    metrics_close(metrics);
}

TEST(values_that_print_alike_are_one_series)
{
    struct metrics *metrics;
    struct metric_family *f;
    struct note note;
    char text[METRIC_LABEL_MAX + 10];
    CHECK_OK("open", metrics_open(&metrics));
    CHECK_OK("add", metrics_add(metrics,
                                &(struct metric_options){
                                    .name = "x_total", .help = "h", .labels = {"peer"}},
                                &f, &note));
    counter_add(metric_counter(f, &STR("a\xff")), 1);
    counter_add(metric_counter(f, &STR("a\xfe")), 2);
    counter_add(metric_counter(f, &STR("a\xef\xbf\xbd")), 4);
    CHECK_I64("one", (int64_t)sample(metrics, "x_total", "peer=a\xef\xbf\xbd;"), 7);
    memset(text, 0xff, sizeof text); /* grows to three times its length and is cut to the limit */
    counter_add(metric_counter(f, &(struct str){text, sizeof text}), 1);
    metrics_close(metrics);
}

enum { THREADS = 4, EACH = 20000 };
struct shared {
    struct metrics *metrics;
    struct metric_family *counters, *gauges, *spreads;
};

static void *updates(void *argument)
{
    struct shared *s = argument;
    struct counter *counter = metric_counter(s->counters, &STR("x"));
    struct gauge *gauge = metric_gauge(s->gauges, NULL);
    struct histogram *spread = metric_histogram(s->spreads, NULL);
    for (int i = 0; i < EACH; i++) {
        char label[16];
        counter_inc(counter);
        gauge_add(gauge, i % 2 ? 1 : -1);
        histogram_observe(spread, i % 3);
        if (i % 100 == 0) {
            snprintf(label, sizeof label, "%d", i % 10000);
            counter_inc(metric_counter(s->counters, &(struct str){label, strlen(label)}));
        }
    }
    return NULL;
}

TEST(nothing_is_lost_between_threads_while_the_page_is_written)
{
    struct shared s = {.metrics = registry()};
    pthread_t threads[THREADS];
    s.counters = family(
        s.metrics,
        (struct metric_options){.name = "c_total", .help = "h", .labels = {"l"}, .series_max = 20});
    s.gauges =
        family(s.metrics, (struct metric_options){.name = "g", .help = "h", .kind = METRIC_GAUGE});
    s.spreads = family(s.metrics, (struct metric_options){.name = "h",
                                                          .help = "h",
                                                          .kind = METRIC_HISTOGRAM,
                                                          .buckets = good,
                                                          .bucket_count = 2});
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, updates, &s);
    for (int i = 0; i < 50; i++) (void)sample(s.metrics, "h_count", "");
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_I64("counter", (int64_t)sample(s.metrics, "c_total", "l=x;"), THREADS * EACH);
    CHECK_I64("gauge", (int64_t)sample(s.metrics, "g", ""), 0);
    CHECK_I64("histogram", (int64_t)sample(s.metrics, "h_count", ""), THREADS * EACH);
    metrics_close(s.metrics);
}

TEST(numbers_of_a_struct_are_shown_by_a_table)
{
    struct numbers {
        uint64_t done_ns;
        uint32_t open, shut;
    } numbers = {.done_ns = 1500000000, .open = 3, .shut = 4};
    static const struct metric_field rows[] = {
        {"done_seconds_total", "Counted in nanoseconds.", METRIC_COUNTER,
         METRIC_FIELD(struct numbers, done_ns), .per_unit = 1e9},
        {"doors", "By state.", METRIC_GAUGE, METRIC_FIELD(struct numbers, open), .label = "state",
         .value = "open"},
        {"doors", "", METRIC_GAUGE, METRIC_FIELD(struct numbers, shut), .label = "state",
         .value = "shut"},
    };
    struct metrics *metrics = registry();
    struct metric_fields *fields = NULL;
    struct note note = {""};

    CHECK_OK("add", metrics_add_fields(metrics, rows, ARRAY_LEN(rows), &fields, &note));
    CHECK("0 at first", sample(metrics, "doors", "state=shut;") == 0);
    metrics_set_fields(fields, &numbers);
    CHECK("counter", sample(metrics, "done_seconds_total", "") == 1.5);
    CHECK("a label each", sample(metrics, "doors", "state=open;") == 3 &&
                              sample(metrics, "doors", "state=shut;") == 4);
    numbers = (struct numbers){.done_ns = 1};
    metrics_set_fields(fields, &numbers);
    CHECK("a counter never falls", sample(metrics, "done_seconds_total", "") == 1.5);
    CHECK("a gauge does", sample(metrics, "doors", "state=open;") == 0);
    CHECK_ERR("twice", metrics_add_fields(metrics, rows, ARRAY_LEN(rows), &fields, &note),
              ERR_EXISTS);
    metrics_set_fields(NULL, &numbers);
    metrics_close(metrics);
}
