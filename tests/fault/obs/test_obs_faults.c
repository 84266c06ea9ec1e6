/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation or file call of the observers fails. The process must go on; a lost line
 * is counted. */
#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "io/fs.h"
#include "io/http.h"
#include "io/loop.h"
#include "lib/fake_clock.h"
#include "lib/fault_alloc.h"
#include "lib/fault_fs.h"
#include "lib/test.h"
#include "obs/events.h"
#include "obs/health.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "sim/sim_fs.h"

static struct fake_clock now;

/* -- allocations -- */

TEST(metrics_survive_any_allocation_that_fails)
{
    static const double buckets[] = {1, 2};
    enum err last = ERR_INTERNAL;
    FAULT_SWEEP_ALLOC(k)
    {
        struct metrics *metrics = NULL;
        struct metric_family *f = NULL, *h = NULL;
        struct buf text;
        struct note note;
        buf_init(&text, 1 << 20);
        last = metrics_open(&metrics);
        if (!last)
            last = metrics_add(
                metrics,
                &(struct metric_options){.name = "c_total", .help = "h", .labels = {"a", "b"}}, &f,
                &note);
        if (!last)
            last = metrics_add(metrics,
                               &(struct metric_options){.name = "h",
                                                        .help = "h",
                                                        .kind = METRIC_HISTOGRAM,
                                                        .labels = {"a"},
                                                        .buckets = buckets,
                                                        .bucket_count = 2},
                               &h, &note);
        if (!last) {
            for (int i = 0; i < 20; i++) {
                char label[8];
                snprintf(label, sizeof label, "%d", i);
                /* Never NULL: without memory it is "other". */
                counter_inc(metric_counter(f, (struct str[]){str_from(label), STR("x")}));
                histogram_observe(metric_histogram(h, &(struct str){label, strlen(label)}), 1.5);
            }
            metric_round_begin(f);
            metric_round_end(f);
            last = metrics_add_process(metrics, &(struct metrics_build){"1", "c"}, &note);
        }
        if (!last) last = metrics_write(metrics, &text);
        if (last) CHECK_SIZE("nothing half-written", text.len, 0);
        buf_deinit(&text);
        metrics_close(metrics);
    }
    CHECK_OK("the last run had no failure", last);
}

static void no_wake(struct loop *loop)
{
    (void)loop;
}

TEST(health_survives_any_allocation_that_fails)
{
    static const struct loop_ops ops = {.wake = no_wake};
    enum err last = ERR_INTERNAL;
    fake_clock_init(&now);
    FAULT_SWEEP_ALLOC(k)
    {
        struct http_server *server = NULL;
        struct metrics *metrics = NULL;
        struct logger *logger = NULL;
        struct health *health = NULL;
        struct health_check *check;
        struct note note;
        struct loop loop;
        loop_core_init(&loop, &ops, &now.clock);
        last = http_open(&(struct http_options){.address = "127.0.0.1:0"}, &server, &note);
        if (!last) last = metrics_open(&metrics);
        if (!last)
            last = logger_open(&(struct logger_options){.clock = &now.clock, .fd = 2}, &logger);
        if (!last)
            last = health_open(
                &(struct health_options){.loop = &loop, .metrics = metrics, .logger = logger},
                &health, &note);
        if (!last) last = health_serve(health, server, &note);
        if (!last) last = health_check_add(health, "c", "r", &check);
        health_close(health);
        http_close(server);
        loop_core_deinit(&loop);
        metrics_close(metrics);
        logger_close(logger);
    }
    CHECK_OK("the last run had no failure", last);
}

/* -- event files: every call of the file system, each kind of failure -- */

static const char path[] = "/events";
static struct fs *disk_fs; /* in memory: real syncs would make the sweep last minutes */
static struct sim_fs *disk;
enum { LINES = 12 };

static void disk_open(void)
{
    struct prng prng;
    prng_seed(&prng, 1);
    CHECK_OK("disk", sim_fs_open(&(struct sim_fs_options){.clock = &now.clock}, &prng, &disk));
    disk_fs = sim_fs_fs(disk);
}

static void sweep_away(void)
{
    char name[400];
    for (int i = 0; i <= 5; i++) {
        snprintf(name, sizeof name, i ? "%s.%d" : "%s", path, i);
        (void)fs_remove(disk_fs, name);
    }
}

/* Whole lines in all files, each number once. `torn`: pieces are allowed, and a piece that happens
 * to be all but the line end makes its line appear twice. */
static uint32_t lines_found(bool torn)
{
    uint32_t found = 0;
    for (int i = 0; i <= 5; i++) {
        char name[400];
        struct buf text;
        struct str rest, line;
        buf_init(&text, 1 << 20);
        snprintf(name, sizeof name, i ? "%s.%d" : "%s", path, i);
        enum err err = fs_read_whole(disk_fs, name, 1 << 20, &text);
        if (err == ERR_NOMEM) { /* the fault hit the test itself, which happens once */
            buf_clear(&text);
            err = fs_read_whole(disk_fs, name, 1 << 20, &text);
        }
        if (!err) {
            rest = buf_peek(&text);
            if (rest.len > 0 && !torn) CHECK("ends with a line end", rest.at[rest.len - 1] == '\n');
            while (str_split(&rest, '\n', &line)) {
                unsigned n;
                int used = 0;
                char copy[64];
                if (line.len == 0) continue;
                snprintf(copy, sizeof copy, "%.*s", STR_ARG(line));
                if (sscanf(copy, "{\"n\":%2u}%n", &n, &used) == 1 && (size_t)used == line.len) {
                    CHECK("a line is there once", torn || !(found & 1u << n));
                    found |= 1u << n;
                } else {
                    CHECK("no torn line", torn);
                }
            }
        }
        buf_deinit(&text);
    }
    return found;
}

/* True when the fault came to pass. */
static bool event_scenario(struct fs *fs, struct fault_fs *fault, bool torn, const char *why)
{
    bool fired;
    struct events *events = NULL;
    struct note note;
    struct events_stats stats = {0};
    uint32_t taken = 0;
    struct events_options options = {.kind = EVENTS_FILE,
                                     .fs = fs,
                                     .clock = &now.clock,
                                     .path = path,
                                     .rotate_bytes = 24,
                                     .keep = 5};
    fake_clock_init(&now);
    sweep_away();
    if (events_open(&options, &events, &note) != ERR_OK) return true;
    for (unsigned i = 0; i < LINES; i++) {
        char line[32];
        snprintf(line, sizeof line, "{\"n\":%02u}", i);
        if (events_write(events, EVENT_KEEP, str_from(line)) == ERR_OK) taken |= 1u << i;
        fake_clock_advance(&now, 400);
    }
    fired = fault && fault_fs_fired(fault);
    if (fault) fault_fs_disarm(fault); /* the disk is well again */
    (void)events_flush(events);
    stats = events_stats(events);
    events_close(events);
    CHECK_SIZE("nothing waits once the disk is well", stats.queued, 0);
    uint32_t found = lines_found(torn);
    if (found != taken) fprintf(stderr, "%s: taken %x found %x\n", why, taken, found);
    CHECK("every line that was taken is there, and no other", found == taken);
    return fired;
}

TEST(event_files_survive_any_file_call_that_fails)
{
    static const struct {
        const char *why;
        uint32_t calls;
        enum err err;
        size_t partial;
        bool for_good;
    } plans[] = {
        {"open", FAULT_FS_OPEN, ERR_DENIED, 0, false},
        {"write nothing", FAULT_FS_WRITE, ERR_NO_SPACE, 0, false},
        {"write a part", FAULT_FS_WRITE, ERR_NO_SPACE, 3, false},
        {"write all but the end", FAULT_FS_WRITE, ERR_IO, 8, false},
        {"writes fail from then on", FAULT_FS_WRITE, ERR_NO_SPACE, 5, true},
        {"sync", FAULT_FS_SYNC, ERR_IO, 0, false},
        {"sync of the directory", FAULT_FS_SYNC_DIR, ERR_IO, 0, false},
        {"rename", FAULT_FS_RENAME, ERR_IO, 0, false},
        {"renames from then on", FAULT_FS_RENAME, ERR_DENIED, 0, true},
        {"remove", FAULT_FS_REMOVE, ERR_IO, 0, false},
        {"look", FAULT_FS_LOOK, ERR_IO, 0, false},
        {"anything", FAULT_FS_ANY, ERR_IO, 2, false},
        {"everything from then on", FAULT_FS_ANY, ERR_IO, 2, true},
    };
    fake_clock_init(&now);
    disk_open();
    for (size_t i = 0; i < ARRAY_LEN(plans); i++) {
        struct fault_fs fault;
        struct fault_fs_plan plan = {.calls = plans[i].calls,
                                     .err = plans[i].err,
                                     .partial = plans[i].partial,
                                     .from_then_on = plans[i].for_good};
        /* A torn line is cut off again, unless that fails too. */
        bool torn = plan.from_then_on && plan.partial > 0;
        uint64_t runs = 0;
        bool fired = true;
        fault_fs_init(&fault, disk_fs);
        for (plan.nth = 1; fired; plan.nth++, runs++) { /* until a run has fewer such calls */
            fault_fs_arm(&fault, plan);
            fired = event_scenario(fault_fs_fs(&fault), &fault, torn, plans[i].why);
        }
        fprintf(stderr, "%s: %lu runs\n", plans[i].why, (unsigned long)runs);
    }
    sim_fs_close(disk);
}

TEST(events_survive_any_allocation_that_fails)
{
    uint64_t runs = 0;
    fake_clock_init(&now);
    disk_open();
    FAULT_SWEEP_ALLOC(k)
    {
        (void)event_scenario(disk_fs, NULL, false, "memory");
        runs++;
    }
    fprintf(stderr, "%lu runs\n", (unsigned long)runs);
    sim_fs_close(disk);
}
