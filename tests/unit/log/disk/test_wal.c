/* The log on a disk that does what it is told: append, roll, replace, reset, seal, release,
 * recycle, reading back. What power cuts and damage do is in test_wal_crash.c and
 * test_wal_damage.c. */
#include <stdlib.h>
#include <string.h>

#include "disk_rig.h"

static const struct sim_fs_options perfect = {0};

static struct wal *reopen(struct rig *rig, struct wal *wal, struct rig_log *found,
                          struct wal_report *report)
{
    struct note note = {""};
    struct wal *next = NULL;
    wal_close(wal);
    *found = (struct rig_log){0};
    enum err err = wal_open(&rig->options, false, rig_log_found, found, &next, report, &note);
    if (err) print_message("%s\n", note.text);
    CHECK_OK("opens", err);
    return next;
}

TEST(what_was_appended_is_found_again)
{
    static struct rig_log log, found;
    struct rig rig;
    struct wal_report report;
    rig_open(&rig, &perfect, 1);
    log = (struct rig_log){0};
    struct wal *wal = reopen(&rig, NULL, &found, &report);
    CHECK_U64("nothing at first", report.records, 0);
    for (uint64_t index = 1; index <= 100; index += 10)
        CHECK_OK("append",
                 rig_append(wal, (struct rig_append){index, 1, 10, index % 7 * 13}, &log, NULL));
    struct wal_stats stats = wal_stats(wal);
    CHECK_U64("one sync each", stats.syncs, 10);
    wal = reopen(&rig, wal, &found, &report);
    CHECK("all of it", rig_log_equal(&log, &found, 1));
    CHECK_U64("nothing was torn", report.torn_bytes, 0);
    CHECK_U64("entries and a seal", report.records, 101);
    for (size_t i = 0; i < log.count; i++)
        CHECK("the same places",
              memcmp(&log.at[i].place, &found.at[i].place, sizeof found.at[i].place) == 0);
    wal_close(wal);
    rig_close(&rig);
}

TEST(a_log_rolls_into_the_next_segment)
{
    static struct rig_log log, found;
    struct rig rig;
    struct wal_report report;
    rig_open(&rig, &perfect, 2);
    log = (struct rig_log){0};
    struct wal *wal = reopen(&rig, NULL, &found, &report);
    for (uint64_t index = 1; index <= 300; index += 3)
        CHECK_OK("append", rig_append(wal, (struct rig_append){index, 1, 3, 1500}, &log, NULL));
    CHECK("several segments", wal_stats(wal).segments > 6);
    wal = reopen(&rig, wal, &found, &report);
    CHECK("all of it", rig_log_equal(&log, &found, 1));
    CHECK_U64("segments", report.segments, wal_stats(wal).segments);
    /* one call that fills many segments */
    CHECK_OK("append", rig_append(wal, (struct rig_append){301, 2, 400, 3000}, &log, NULL));
    wal = reopen(&rig, wal, &found, &report);
    CHECK("all of it again", rig_log_equal(&log, &found, 1));
    wal_close(wal);
    rig_close(&rig);
}
