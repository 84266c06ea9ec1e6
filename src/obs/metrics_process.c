/* SPDX-License-Identifier: Apache-2.0 */
/* Operating system metrics of this process, read when the metrics are written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/fs.h"
#include "io/process_look.h"
#include "obs/metrics_impl.h"

enum { PROC_TEXT_MAX = 16 * 1024, PROC_STAT_MAX = 1 << 20 };

struct process_numbers {
    uint64_t cpu_ns, threads, virtual_memory, resident, open_fds, max_fds;
};
static const struct metric_field rows[] = {
    {"process_cpu_seconds_total", "User and system CPU time spent, in seconds.", METRIC_COUNTER,
     METRIC_FIELD(struct process_numbers, cpu_ns), .per_unit = 1e9},
    {"process_resident_memory_bytes", "Memory in use, in bytes.", METRIC_GAUGE,
     METRIC_FIELD(struct process_numbers, resident)},
    {"process_virtual_memory_bytes", "Address space taken, in bytes.", METRIC_GAUGE,
     METRIC_FIELD(struct process_numbers, virtual_memory)},
    {"process_open_fds", "Open file descriptors.", METRIC_GAUGE,
     METRIC_FIELD(struct process_numbers, open_fds)},
    {"process_max_fds", "The most file descriptors there may be.", METRIC_GAUGE,
     METRIC_FIELD(struct process_numbers, max_fds)},
    {"process_threads", "Threads of the process.", METRIC_GAUGE,
     METRIC_FIELD(struct process_numbers, threads)},
};

static struct process_numbers numbers; /* last values read; kept if reading fails */
/* Guards `numbers`, because two threads may write a page at the same time. */
static pthread_mutex_t numbers_lock = PTHREAD_MUTEX_INITIALIZER;

static void count_one(void *context, const char *name, enum fs_kind kind)
{
    (void)name, (void)kind;
    ++*(size_t *)context;
}

static void read_stat(void)
{
    struct buf text;
    uint64_t ticks = (uint64_t)max_u64((uint64_t)sysconf(_SC_CLK_TCK), 1);
    struct str all;

    buf_init(&text, PROC_TEXT_MAX);
    if (fs_read_whole(fs_real(), "/proc/self/stat", PROC_TEXT_MAX, &text) == ERR_OK) {
        all = buf_peek(&text);
        numbers.cpu_ns =
            (process_stat_field(all, 14) + process_stat_field(all, 15)) * (1000000000 / ticks);
        numbers.threads = process_stat_field(all, 20);
        numbers.virtual_memory = process_stat_field(all, 23);
        numbers.resident = process_stat_field(all, 24) * (uint64_t)sysconf(_SC_PAGESIZE);
    }
    buf_deinit(&text);
}

/* seconds since 1970: boot time plus ticks since boot */
static double start_time(void)
{
    struct buf text;
    struct str rest, line;
    uint64_t boot = 0, ticks = 0;

    buf_init(&text, PROC_STAT_MAX);
    if (fs_read_whole(fs_real(), "/proc/stat", PROC_STAT_MAX, &text) == ERR_OK) {
        rest = buf_peek(&text);
        while (str_split(&rest, '\n', &line))
            if (str_starts(line, STR("btime "))) (void)str_to_u64(str_tail(line, 6), &boot);
    }
    buf_clear(&text);
    if (fs_read_whole(fs_real(), "/proc/self/stat", PROC_TEXT_MAX, &text) == ERR_OK)
        ticks = process_stat_field(buf_peek(&text), 22);
    buf_deinit(&text);
    return (double)boot + (double)ticks / (double)max_u64((uint64_t)sysconf(_SC_CLK_TCK), 1);
}

static void metrics_process_collect(void *context)
{
    struct rlimit limit;
    size_t fds = 0;

    pthread_mutex_lock(&numbers_lock);
    read_stat();
    if (fs_list(fs_real(), "/proc/self/fd", count_one, &fds) == ERR_OK && fds > 0)
        numbers.open_fds = fds - 1; /* minus the descriptor of the listing itself */
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) numbers.max_fds = limit.rlim_cur;
    metrics_set_fields(context, &numbers);
    pthread_mutex_unlock(&numbers_lock);
}

/* gcc's __VERSION__ is a bare number; clang's begins with the name of clang or its packager. */
#ifdef __clang__
#define COMPILER_TEXT __VERSION__
#else
#define COMPILER_TEXT "gcc " __VERSION__
#endif

static enum err add_build(struct metrics *metrics, const struct metrics_build *build,
                          struct note *note)
{
    struct metric_options options = {.name = "muster_build_info",
                                     .help = "The build that is running; always 1.",
                                     .kind = METRIC_GAUGE,
                                     .labels = {"version", "commit", "compiler"},
                                     .series_max = 1};
    struct metric_family *family;
    enum err err = metrics_add(metrics, &options, &family, note);
    if (err) return err;
    gauge_set(
        metric_gauge(family, (const struct str[]){str_from(build->version), str_from(build->commit),
                                                  STR(COMPILER_TEXT)}),
        1);
    return ERR_OK;
}

enum err metrics_add_process(struct metrics *metrics, const struct metrics_build *build,
                             struct note *note)
{
    struct metric_fields *fields;
    struct gauge *started;
    enum err err = metrics_add_fields(metrics, rows, ARRAY_LEN(rows), &fields, note);

    if (!err)
        err = metrics_add_gauge(metrics, "process_start_time_seconds",
                                "When the process began, in seconds since 1970.", &started, note);
    if (!err) err = add_build(metrics, build, note);
    if (!err) err = metrics_on_write(metrics, metrics_process_collect, fields);
    if (!err) gauge_set(started, start_time());
    return err; /* families made before the error stay, with value 0 */
}
