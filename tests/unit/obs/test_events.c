/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/events.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "io/fs.h"
#include "io/real.h"
#include "lib/fake_clock.h"
#include "lib/fault_fs.h"
#include "lib/test.h"
#include "obs/log.h"

static char path_room[256];
static const char *fresh_path(void)
{
    static int number;
    snprintf(path_room, sizeof path_room, "%s/events-%d", test_dir(), ++number);
    return path_room;
}

static char *content(const char *path, const char *suffix)
{
    char full[300];
    struct buf text;
    char *all;
    snprintf(full, sizeof full, "%s%s", path, suffix);
    buf_init(&text, 64 << 20);
    if (fs_read_whole(fs_real(), full, 64 << 20, &text) != ERR_OK ||
        buf_detach(&text, &all) != ERR_OK) {
        buf_deinit(&text);
        return NULL;
    }
    return all;
}

static void content_is(const char *why, const char *path, const char *suffix, const char *want)
{
    char *got = content(path, suffix);
    if (want && !got) CHECK(why, false);
    if (want) CHECK_TEXT(why, got, want);
    if (!want) CHECK(why, got == NULL);
    free(got);
}

struct reported { /* log lines about the sink */
    struct logger *logger;
    struct log_source log;
    int times;
    char last[256];
};
static void reported_line(void *context, enum log_level level, struct str line)
{
    struct reported *reported = context;
    (void)level;
    reported->times++;
    snprintf(reported->last, sizeof reported->last, "%.*s", STR_ARG(line));
}

static void reported_open(struct reported *reported, struct events_options *options)
{
    const struct logger_options to = {
        .clock = clock_real(), .sink = reported_line, .sink_context = reported};
    *reported = (struct reported){.times = 0};
    CHECK_OK("log", logger_open(&to, &reported->logger));
    log_source_init(&reported->log, reported->logger, "test", NULL);
    options->log = &reported->log;
    options->name = "lines";
}

static struct events *sink(struct events_options options)
{
    struct events *events = NULL;
    struct note note = {""};
    enum err err = events_open(&options, &events, &note);
    if (err) print_error("%s\n", note.text);
    CHECK_OK("open", err);
    return events;
}

static struct fake_clock clock_now;
static struct events_options file_options(const char *path)
{
    fake_clock_init(&clock_now);
    return (struct events_options){
        .kind = EVENTS_FILE, .fs = fs_real(), .clock = &clock_now.clock, .path = path};
}

TEST(lines_are_appended_and_nowhere_is_a_sink_too)
{
    const char *path = fresh_path();
    struct events *events = sink(file_options(path));
    struct stat info;
    CHECK_OK("write", events_write(events, EVENT_KEEP, STR("{\"a\":1}")));
    CHECK_OK("write", events_write(events, EVENT_MAY_DROP, STR("{\"a\":2}")));
    content_is("visible at once", path, "", "{\"a\":1}\n{\"a\":2}\n");
    CHECK_ERR("a line break", events_write(events, EVENT_KEEP, STR("a\nb")), ERR_INVALID);
    CHECK_ERR("nothing", events_write(events, EVENT_KEEP, STR("")), ERR_INVALID);
    char *large = calloc(1, EVENTS_LINE_MAX);
    memset(large, 'x', EVENTS_LINE_MAX);
    CHECK_ERR("too large", events_write(events, EVENT_KEEP, str_of(large, EVENTS_LINE_MAX)),
              ERR_TOO_LARGE);
    CHECK_OK("the largest", events_write(events, EVENT_KEEP, str_of(large, EVENTS_LINE_MAX - 1)));
    free(large);
    events_close(events);
    CHECK("mode", stat(path, &info) == 0 && (info.st_mode & 0777) == 0644);
    events = sink(file_options(path));
    CHECK_OK("after the existing bytes", events_write(events, EVENT_KEEP, STR("{}")));
    events_close(events);
    CHECK_U64("size", (uint64_t)(stat(path, &info), info.st_size), 16 + EVENTS_LINE_MAX + 3);
    events = sink((struct events_options){.kind = EVENTS_NONE});
    CHECK_OK("nowhere", events_write(events, EVENT_KEEP, STR("{}")));
    CHECK("nothing waits", events_flush(events));
    events_close(events);
    events_close(NULL);
}

TEST(a_file_that_is_full_is_rotated_and_the_oldest_goes)
{
    const char *path = fresh_path();
    struct events_options options = file_options(path);
    options.rotate_bytes = 8;
    options.keep = 2;
    struct events *events = sink(options);
    static const char *const lines[] = {"{\"n\":1}", "{\"n\":2}", "{\"n\":3}", "{\"n\":4}"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        CHECK_OK("write", events_write(events, EVENT_KEEP, str_from(lines[i])));
    content_is("the newest", path, "", "{\"n\":4}\n");
    content_is("the one before", path, ".1", "{\"n\":3}\n");
    content_is("the oldest kept", path, ".2", "{\"n\":2}\n");
    content_is("no more than asked for", path, ".3", NULL);
    CHECK_U64("counted", events_stats(events).rotations, 3);
    events_close(events);
}

TEST(a_file_moved_away_by_others_is_followed)
{
    const char *path = fresh_path();
    struct events *events = sink(file_options(path));
    char moved[300];
    snprintf(moved, sizeof moved, "%s.old", path);
    CHECK_OK("write", events_write(events, EVENT_KEEP, STR("1")));
    CHECK("logrotate", rename(path, moved) == 0);
    CHECK_OK("write", events_write(events, EVENT_KEEP, STR("2")));
    content_is("until the next look it goes to the old one", moved, "", "1\n2\n");
    fake_clock_advance(&clock_now, 1000);
    CHECK_OK("write", events_write(events, EVENT_KEEP, STR("3")));
    content_is("then to the name", path, "", "3\n");
    CHECK("deleted", unlink(path) == 0);
    fake_clock_advance(&clock_now, 1000);
    CHECK_OK("write", events_write(events, EVENT_KEEP, STR("4")));
    content_is("made again", path, "", "4\n");
    events_close(events);
}

/* -- a full disk: a limit on the file's size, and the fault file system -- */

TEST(a_full_disk_queues_reports_once_and_recovers)
{
    const char *path = fresh_path();
    struct reported reported;
    struct fault_fs fault;
    struct events_options options = file_options(path);
    fault_fs_init(&fault, fs_real());
    options.fs = fault_fs_fs(&fault);
    reported_open(&reported, &options);
    options.queue_max = 3;
    struct events *events = sink(options);
    CHECK_OK("write", events_write(events, EVENT_KEEP, STR("{\"n\":1}")));
    fault_fs_arm(&fault, (struct fault_fs_plan){.calls = FAULT_FS_WRITE,
                                                .nth = 1,
                                                .err = ERR_NO_SPACE,
                                                .partial = 4,
                                                .from_then_on = true});
    CHECK_OK("queued", events_write(events, EVENT_MAY_DROP, STR("{\"beat\":1}")));
    CHECK_OK("queued", events_write(events, EVENT_KEEP, STR("{\"n\":2}")));
    CHECK_OK("queued", events_write(events, EVENT_MAY_DROP, STR("{\"beat\":2}")));
    CHECK_I64("reported once", reported.times, 1);
    CHECK_HAS("the failure", reported.last, "err=NO_SPACE");
    CHECK_ERR("a beat too many is dropped",
              events_write(events, EVENT_MAY_DROP, STR("{\"beat\":3}")), ERR_FULL);
    CHECK_OK("a transition takes the oldest beat's place",
             events_write(events, EVENT_KEEP, STR("{\"n\":3}")));
    CHECK_OK("and the next one's", events_write(events, EVENT_KEEP, STR("{\"n\":4}")));
    CHECK_ERR("then the caller must hold back", events_write(events, EVENT_KEEP, STR("{\"n\":5}")),
              ERR_FULL);
    CHECK("nothing flows", !events_flush(events));
    CHECK_I64("still reported once", reported.times, 1);
    CHECK_U64("lost", events_stats(events).lost, 3);
    CHECK_SIZE("waiting", events_stats(events).queued, 3);
    fault_fs_disarm(&fault);
    CHECK("it flows", events_flush(events));
    CHECK_I64("reported again", reported.times, 2);
    CHECK_HAS("that it is over", reported.last, "event lines are written again");
    CHECK_HAS("and the number of lost events", reported.last, "lost=3");
    CHECK_OK("go on", events_write(events, EVENT_KEEP, STR("{\"n\":5}")));
    fault_fs_arm(&fault,
                 (struct fault_fs_plan){
                     .calls = FAULT_FS_WRITE, .nth = 1, .err = ERR_IO, .from_then_on = true});
    CHECK_OK("queued again", events_write(events, EVENT_KEEP, STR("{\"n\":6}")));
    CHECK_I64("a new failure is reported again", reported.times, 3);
    CHECK_HAS("the failure", reported.last, "err=IO");
    fault_fs_disarm(&fault);
    CHECK_OK("the next line takes it along", events_write(events, EVENT_KEEP, STR("{\"n\":7}")));
    CHECK_I64("and its end", reported.times, 4);
    CHECK_HAS("this time without loss", reported.last, "lost=0");
    char *all = content(path, "");
    for (int n = 1; n <= 7; n++) {
        char want[32];
        snprintf(want, sizeof want, "{\"n\":%d}\n", n);
        CHECK_HAS("every transition is there", all, want);
    }
    CHECK("in order", strstr(all, "{\"n\":2}") < strstr(all, "{\"n\":3}"));
    free(all);
    events_close(events);
    logger_close(reported.logger);
}

/* With RLIMIT_FSIZE the kernel itself writes a part and then refuses, like a full disk. */
static int limited_child(const char *path)
{
    struct events_options options = file_options(path);
    struct events *events;
    struct note note;
    signal(SIGXFSZ, SIG_IGN);
    if (events_open(&options, &events, &note) != ERR_OK) return 1;
    if (events_write(events, EVENT_KEEP, STR("{\"n\":1}")) != ERR_OK) return 2;
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){12, RLIM_INFINITY});
    if (events_write(events, EVENT_KEEP, STR("{\"n\":2}")) != ERR_OK) return 3;
    if (events_stats(events).queued != 1) return 4;
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
    if (!events_flush(events)) return 5;
    if (events_write(events, EVENT_KEEP, STR("{\"n\":3}")) != ERR_OK) return 6;
    events_close(events);
    return 0;
}

TEST(a_line_cut_by_the_kernel_is_cut_off)
{
    const char *path = fresh_path();
    int status;
    pid_t child = fork();

    if (child == 0) _exit(limited_child(path));
    CHECK("child", waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK_I64("its step", WEXITSTATUS(status), 0);
    content_is("whole lines", path, "", "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
}

/* -- standard output -- */

TEST(a_reader_that_stops_does_not_block_others)
{
    int ends[2];
    struct reported reported;
    uint64_t refused = 0, dropped = 0;
    char room[65536];
    size_t bytes = 0, beats = 0, keeps = 0;
    CHECK("pipe", pipe(ends) == 0);
    struct events_options options = {.kind = EVENTS_STDOUT, .fd = ends[1], .queue_max = 50};
    reported_open(&reported, &options);
    struct events *events = sink(options);
    for (int i = 0; i < 10000; i++) {
        if (events_write(events, EVENT_MAY_DROP,
                         STR("{\"topic\":\"worker_heartbeat\",\"pad\":\"................\"}")) ==
            ERR_FULL)
            dropped++;
        if (i % 500 == 0 &&
            events_write(events, EVENT_KEEP, STR("{\"topic\":\"worker_failed\"}")) == ERR_FULL)
            refused++;
    }
    CHECK("beats were dropped", dropped > 0);
    CHECK_U64("no transition was refused: beats made room", refused, 0);
    CHECK_I64("the loss was reported once", reported.times, 1);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    struct buf all;
    buf_init(&all, 64 << 20);
    for (;;) { /* ends when the queue and the pipe are empty */
        ssize_t got = read(ends[0], room, sizeof room);
        if (got > 0) buf_append(&all, str_of(room, (size_t)got));
        if (got <= 0 && events_flush(events)) {
            got = read(ends[0], room, sizeof room);
            if (got <= 0) break;
            buf_append(&all, str_of(room, (size_t)got));
        }
    }
    struct str rest = buf_peek(&all), line;
    while (str_split(&rest, '\n', &line) && line.len > 0) {
        bytes += line.len + 1;
        if (str_equal(line, STR("{\"topic\":\"worker_failed\"}")))
            keeps++;
        else if (str_ends(line, STR("................\"}")) && str_starts(line, STR("{\"topic")))
            beats++;
        else
            CHECK("no other line", false);
    }
    CHECK_SIZE("to the last byte", bytes, all.len);
    CHECK_SIZE("every transition", keeps, 20);
    CHECK_U64("every beat is written or counted", beats + events_stats(events).lost, 10000);
    CHECK_I64("recovery is reported", reported.times, 2);
    buf_deinit(&all);
    events_close(events);
    logger_close(reported.logger);
    close(ends[0]);
    close(ends[1]);
}

TEST(the_rest_of_a_long_line_is_flushed_and_until_then_not_all_is_out)
{
    enum { LONG = 200000 };
    static char line[LONG], in[300000];
    int ends[2];
    size_t got = 0;
    ssize_t piece;
    memset(line, 'x', sizeof line);
    CHECK("pipe", pipe(ends) == 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    struct events *events = sink((struct events_options){.kind = EVENTS_STDOUT, .fd = ends[1]});
    CHECK_OK("taken", events_write(events, EVENT_KEEP, str_of(line, LONG)));
    CHECK("not all is out", !events_flush(events));
    for (int i = 0; i < 3; i++) {
        while ((piece = read(ends[0], in, sizeof in)) > 0) got += (size_t)piece;
        if (got < LONG - 65536) (void)events_flush(events);
    }
    events_close(events); /* the pipe has room for the rest */
    while ((piece = read(ends[0], in, sizeof in)) > 0) got += (size_t)piece;
    CHECK_SIZE("all of it", got, LONG + 1);
    close(ends[0]);
    close(ends[1]);
}

/* -- many writers -- */

enum { WRITERS = 4, LINES = 2000 };
static void *scribble(void *argument)
{
    struct events *events = argument;
    char line[200];
    for (int i = 0; i < LINES; i++) {
        memset(line, 'a' + i % 26, sizeof line);
        if (events_write(events, EVENT_KEEP, str_of(line, 50 + (size_t)i % 150)) != ERR_OK) abort();
    }
    return NULL;
}

static size_t whole_lines(char *text)
{
    size_t count = 0;
    for (char *line; text && (line = strsep(&text, "\n")) && *line; count++)
        if (strspn(line, (char[]){line[0], '\0'}) != strlen(line))
            CHECK("a line of one letter", false);
    return count;
}

TEST(lines_of_threads_are_never_mixed_while_files_rotate)
{
    const char *path = fresh_path();
    struct events_options options = file_options(path);
    pthread_t threads[WRITERS];
    size_t lines = 0;
    options.rotate_bytes = 100000;
    options.keep = 100;
    struct events *events = sink(options);
    for (int i = 0; i < WRITERS; i++) pthread_create(&threads[i], NULL, scribble, events);
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
    CHECK("it rotated", events_stats(events).rotations > 5);
    events_close(events);
    for (int i = 0; i <= 100; i++) {
        char suffix[16] = "";
        if (i > 0) snprintf(suffix, sizeof suffix, ".%d", i);
        char *text = content(path, suffix);
        lines += whole_lines(text);
        free(text);
    }
    CHECK_SIZE("none is missing", lines, WRITERS * LINES);
}

TEST(with_a_worker_rotation_does_not_wait_for_the_disk)
{
    const char *path = fresh_path();
    struct real_io *real;
    struct events_options options = file_options(path);
    CHECK_OK("real", real_io_open(&real));
    options.loop = real_io_io(real)->loop;
    options.rotate_bytes = 1;
    struct events *events = sink(options);
    for (int i = 0; i < 20; i++) CHECK_OK("write", events_write(events, EVENT_KEEP, STR("x")));
    CHECK_U64("rotated", events_stats(events).rotations, 19);
    events_close(events);
    real_io_close(real);
}

static atomic_int dir_syncs;
static _Atomic(pid_t) dir_sync_thread;
static enum err noted_sync_dir(struct fs *fs, const char *path)
{
    (void)fs, (void)path;
    atomic_store(&dir_sync_thread, gettid());
    atomic_fetch_add(&dir_syncs, 1);
    return ERR_OK;
}

TEST(with_a_worker_the_directory_is_synced_there_too)
{
    const char *path = fresh_path();
    struct real_io *real;
    struct fs noted = *fs_real(); /* counts one kind of call; used from two threads */
    struct events_options options = file_options(path);
    noted.sync_dir = noted_sync_dir;
    atomic_store(&dir_syncs, 0);
    CHECK_OK("real", real_io_open(&real));
    options.fs = &noted;
    options.loop = real_io_io(real)->loop;
    options.rotate_bytes = 1;
    struct events *events = sink(options);
    for (int i = 0; i < 2; i++) CHECK_OK("write", events_write(events, EVENT_KEEP, STR("x")));
    CHECK_U64("rotated", events_stats(events).rotations, 1);
    /* A closed worker returns jobs that it has not begun. */
    for (int i = 0; i < 10000 && atomic_load(&dir_syncs) == 0; i++) usleep(1000);
    events_close(events);
    real_io_close(real);
    CHECK_I64("synced, once", atomic_load(&dir_syncs), 1);
    CHECK("not by the writer", atomic_load(&dir_sync_thread) != gettid());
}

TEST(a_path_that_does_not_work_is_named)
{
    struct events *events = NULL;
    struct note note = {""};
    struct events_options options = file_options("/no/such/dir/events");
    CHECK_ERR("no directory", events_open(&options, &events, &note), ERR_NOT_FOUND);
    CHECK_HAS("named", note.text, "/no/such/dir/events");
    options.path = NULL;
    CHECK_ERR("no path", events_open(&options, &events, &note), ERR_INVALID);
    CHECK_ERR(
        "bad fd",
        events_open(&(struct events_options){.kind = EVENTS_STDOUT, .fd = 987}, &events, &note),
        ERR_INVALID);
    CHECK("untouched", events == NULL);
}
