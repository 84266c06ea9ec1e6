/* SPDX-License-Identifier: Apache-2.0 */
/* The log on a disk without faults: append, roll, replace, reset, seal, release, recycle, read
 * back. Power cuts are in test_wal_faults.c, damage is in test_wal_damage.c. */
#include <stdio.h>
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

/* -- replacing, resetting, sealing -- */

TEST(an_index_that_comes_again_replaces_it_and_all_after_it)
{
    static struct rig_log log, found;
    struct rig rig;
    struct wal_report report;
    rig_open(&rig, &perfect, 3);
    log = (struct rig_log){0};
    struct wal *wal = reopen(&rig, NULL, &found, &report);
    CHECK_OK("append", rig_append(wal, (struct rig_append){1, 1, 20, 50}, &log, NULL));
    CHECK_OK("replace", rig_append(wal, (struct rig_append){11, 2, 3, 60}, &log, NULL));
    CHECK_U64("the model knows", rig_log_last(&log), 13);
    wal = reopen(&rig, wal, &found, &report);
    CHECK("found so", rig_log_equal(&log, &found, 1));
    CHECK_OK("all of it", rig_append(wal, (struct rig_append){1, 3, 1, 0}, &log, NULL));
    wal = reopen(&rig, wal, &found, &report);
    CHECK("one is left", rig_log_equal(&log, &found, 1) && found.count == 1);
    wal_close(wal);
    rig_close(&rig);
}

TEST(after_a_reset_the_log_goes_on_behind_the_snapshot)
{
    static struct rig_log log, found;
    struct rig rig;
    struct wal_report report;
    rig_open(&rig, &perfect, 4);
    log = (struct rig_log){0};
    struct wal *wal = reopen(&rig, NULL, &found, &report);
    CHECK_OK("append", rig_append(wal, (struct rig_append){1, 1, 5, 50}, &log, NULL));
    CHECK_OK("reset", wal_reset(wal, 1000, 4, NULL));
    rig_log_reset(&log, 1000, 4);
    wal = reopen(&rig, wal, &found, &report);
    CHECK("nothing but the place", rig_log_equal(&log, &found, 1) && found.base_term == 4);
    CHECK_OK("append", rig_append(wal, (struct rig_append){1001, 5, 2, 50}, &log, NULL));
    wal = reopen(&rig, wal, &found, &report);
    CHECK("behind it", rig_log_equal(&log, &found, 1));
    wal_close(wal);
    rig_close(&rig);
}

TEST(a_seal_is_written_once)
{
    static struct rig_log log, found;
    struct rig rig;
    struct wal_report report;
    rig_open(&rig, &perfect, 5);
    log = (struct rig_log){0};
    struct wal *wal = reopen(&rig, NULL, &found, &report);
    CHECK_OK("nothing to seal", wal_seal(wal, NULL));
    CHECK_U64("no sync", wal_stats(wal).syncs, 0);
    CHECK_OK("append", rig_append(wal, (struct rig_append){1, 1, 2, 9}, &log, NULL));
    CHECK_OK("seal", wal_seal(wal, NULL));
    CHECK_OK("again", wal_seal(wal, NULL));
    CHECK_U64("one append, one seal", wal_stats(wal).syncs, 2);
    wal = reopen(&rig, wal, &found, &report);
    CHECK_U64("two entries, one seal", report.records, 3);
    CHECK_OK("it is sealed still", wal_seal(wal, NULL));
    CHECK_U64("no sync", wal_stats(wal).syncs, 0);
    wal_close(wal);
    rig_close(&rig);
}

/* -- upkeep -- */

static void upkeep(struct wal *wal)
{
    for (int i = 0; wal_wants_spare(wal); i++) {
        CHECK("it ends", i < 1000);
        CHECK_OK("prepare", wal_prepare(wal, NULL));
    }
}

static uint64_t file_size(struct rig *rig, uint64_t sequence)
{
    char path[64];
    struct fs_info info;
    snprintf(path, sizeof path, RIG_DIR "/log/%016llx.seg", (unsigned long long)sequence);
    return fs_stat(rig->fs, path, &info) ? 0 : info.size;
}

TEST(segments_are_zeroed_ahead_of_need)
{
    static struct rig_log log, found;
    struct rig rig;
    struct wal_report report;
    rig_open(&rig, &perfect, 6);
    log = (struct rig_log){0};
    struct wal *wal = reopen(&rig, NULL, &found, &report);
    CHECK_U64("a new segment is short", file_size(&rig, 1), SEGMENT_HEAD);
    CHECK("wants more", wal_wants_spare(wal));
    upkeep(wal);
    struct wal_stats stats = wal_stats(wal);
    CHECK_U64("spares", stats.spares, 2);
    for (uint64_t i = 1; i <= 3; i++) CHECK_U64("whole", file_size(&rig, i), RIG_SEGMENT);
    CHECK_U64("known", stats.disk_bytes, 3 * RIG_SEGMENT);
    /* Within the prepared segments no file grows and none is created. */
    CHECK_OK("append", rig_append(wal, (struct rig_append){1, 1, 110, 1500}, &log, NULL));
    CHECK_U64("in the third", wal_stats(wal).last_sequence, 3);
    for (uint64_t i = 1; i <= 3; i++) CHECK_U64("as before", file_size(&rig, i), RIG_SEGMENT);
    CHECK_U64("no other", file_size(&rig, 4), 0);
    CHECK_OK("beyond it grows", rig_append(wal, (struct rig_append){111, 1, 30, 1500}, &log, NULL));
    CHECK("a fourth", file_size(&rig, 4) > SEGMENT_HEAD);
    wal = reopen(&rig, wal, &found, &report);
    CHECK("all of it", rig_log_equal(&log, &found, 1));
    wal_close(wal);
    rig_close(&rig);
}

TEST(released_segments_are_recycled_and_their_records_never_reappear)
{
    static struct rig_log log, found;
    struct rig rig;
    struct wal_report report;
    rig_open(&rig, &perfect, 7);
    log = (struct rig_log){0};
    struct wal *wal = reopen(&rig, NULL, &found, &report);
    for (uint64_t index = 1; index <= 200; index++)
        CHECK_OK("append", rig_append(wal, (struct rig_append){index, 1, 1, 1500}, &log, NULL));
    uint64_t last = wal_stats(wal).last_sequence;
    CHECK("several", last > 4);
    CHECK_OK("release", wal_release(wal, last, NULL));
    upkeep(wal);
    struct wal_stats stats = wal_stats(wal);
    CHECK_U64("one in use", stats.segments, 1);
    CHECK_U64("two spares", stats.spares, 2);
    CHECK_U64("the first are gone", file_size(&rig, 1), 0);
    for (uint64_t i = last + 1; i <= last + 2; i++)
        CHECK("recycled, not zeroed", file_size(&rig, i) > RIG_SEGMENT / 2);
    uint64_t from = log.at[log.count - 1].index;
    wal = reopen(&rig, wal, &found, &report);
    CHECK("the remaining entries", rig_log_equal(&log, &found, from));
    CHECK_U64("spares are known again", wal_stats(wal).spares, 2);
    /* The old records are at exactly the offsets where new records are expected. */
    for (uint64_t index = 201; index <= 260; index++) {
        CHECK_OK("append", rig_append(wal, (struct rig_append){index, 2, 1, 1500}, &log, NULL));
        sim_fs_process_died(rig.disk); /* no seal */
        wal = reopen(&rig, wal, &found, &report);
        CHECK("nothing old", rig_log_equal(&log, &found, from));
    }
    wal_close(wal);
    rig_close(&rig);
}

TEST(a_full_disk_ends_upkeep_but_not_the_log)
{
    static struct rig_log log, found;
    struct rig rig;
    struct wal_report report;
    struct note note = {""};
    struct sim_fs_options small = {.capacity = RIG_SEGMENT + RIG_SEGMENT / 2 + 4096};
    rig_open(&rig, &small, 8);
    log = (struct rig_log){0};
    struct wal *wal = reopen(&rig, NULL, &found, &report);
    enum err err = ERR_OK;
    while (!err && wal_wants_spare(wal)) err = wal_prepare(wal, &note);
    CHECK_ERR("reported", err, ERR_NO_SPACE);
    CHECK_HAS("where", note.text, RIG_DIR "/log");
    CHECK("not asked again", !wal_wants_spare(wal));
    CHECK_ERR("if asked all the same", wal_prepare(wal, &note), ERR_NO_SPACE);
    CHECK_OK("appends go on", rig_append(wal, (struct rig_append){1, 1, 5, 1500}, &log, NULL));
    wal = reopen(&rig, wal, &found, &report);
    CHECK("all of it", rig_log_equal(&log, &found, 1));
    /* No space for another segment: the log stops, and every call reports that. */
    err = rig_append(wal, (struct rig_append){6, 1, 100, 1500}, &log, &note);
    CHECK_ERR("the end", err, ERR_NO_SPACE);
    CHECK_ERR("final", rig_append(wal, (struct rig_append){6, 1, 1, 1}, &log, &note), ERR_NO_SPACE);
    CHECK_ERR("final", wal_seal(wal, &note), ERR_NO_SPACE);
    CHECK_HAS("and the message", note.text, "failed before");
    wal_close(wal);
    rig_close(&rig);
}

/* -- reading back -- */

TEST(old_entries_are_read_where_they_were_written)
{
    static struct rig_log log, found;
    static struct entry entries[400];
    static struct wal_place places[400];
    struct rig rig;
    struct wal_report report;
    struct note note = {""};
    struct buf into;
    rig_open(&rig, &perfect, 9);
    log = (struct rig_log){0};
    struct wal *wal = reopen(&rig, NULL, &found, &report);
    CHECK_OK("append", rig_append(wal, (struct rig_append){1, 1, 150, 1100}, &log, NULL));
    CHECK_OK("append", rig_append(wal, (struct rig_append){151, 1, 150, 0}, &log, NULL));
    CHECK_OK("append", rig_append(wal, (struct rig_append){301, 1, 1, 100000}, &log, NULL));
    for (size_t i = 0; i < log.count; i++) places[i] = log.at[i].place;
    buf_init(&into, 1 << 20);
    CHECK_OK("before", buf_append_c(&into, "before"));
    CHECK_OK("all", wal_read(rig.fs, RIG_DIR, places, log.count, &into, entries, &note));
    CHECK("earlier content stays", memcmp(into.data, "before", 6) == 0);
    for (size_t i = 0; i < log.count; i++) {
        static char want[100000];
        CHECK_U64("index", entries[i].index, i + 1);
        CHECK_U64("kind", entries[i].kind, ENTRY_COMMAND);
        rig_bytes(i + 1, 1, want, log.at[i].len);
        CHECK("bytes", str_equal(entries[i].bytes, str_of(want, log.at[i].len)));
    }
    /* any order, repeated */
    struct wal_place some[] = {places[300], places[3], places[3], places[299], places[0]};
    buf_clear(&into);
    CHECK_OK("some", wal_read(rig.fs, RIG_DIR, some, 5, &into, entries, &note));
    CHECK_U64("index", entries[0].index, 301);
    CHECK_U64("index", entries[2].index, 4);
    CHECK_U64("index", entries[4].index, 1);
    /* a size limit, a wrong place, a removed segment */
    struct buf small;
    buf_init(&small, 2000);
    CHECK_OK("something", buf_append_c(&small, "kept"));
    CHECK_ERR("full", wal_read(rig.fs, RIG_DIR, places, 3, &small, entries, &note), ERR_FULL);
    CHECK_STR("as it was", buf_peek(&small), STR("kept"));
    buf_deinit(&small);
    struct wal_place wrong = places[0];
    wrong.offset += 8;
    CHECK_ERR("no record", wal_read(rig.fs, RIG_DIR, &wrong, 1, &into, entries, &note),
              ERR_CORRUPT);
    CHECK_HAS("where", note.text, "0000000000000001.seg: offset 4104");
    uint64_t last = wal_stats(wal).last_sequence;
    CHECK_OK("release", wal_release(wal, last, NULL));
    upkeep(wal);
    CHECK_ERR("gone", wal_read(rig.fs, RIG_DIR, places, 1, &into, entries, &note), ERR_NOT_FOUND);
    buf_deinit(&into);
    wal_close(wal);
    rig_close(&rig);
}

TEST(options_and_callbacks_are_answered)
{
    struct rig rig;
    struct note note = {""};
    struct wal *wal = NULL;
    rig_open(&rig, &perfect, 10);
    struct wal_options options = rig.options;
    options.segment_bytes = 65535;
    CHECK_ERR("too small", wal_open(&options, false, NULL, NULL, &wal, NULL, &note), ERR_INVALID);
    options.segment_bytes = (1ull << 30) + 1;
    CHECK_ERR("too large", wal_open(&options, false, NULL, NULL, &wal, NULL, &note), ERR_INVALID);
    options = rig.options;
    options.spares = 17;
    CHECK_ERR("too many", wal_open(&options, false, NULL, NULL, &wal, NULL, &note), ERR_INVALID);
    options = rig.options;
    options.create = false;
    CHECK_ERR("no log", wal_open(&options, false, NULL, NULL, &wal, NULL, &note), ERR_CORRUPT);
    CHECK_HAS("the note", note.text, "holds no segment");
    options.dir = "/nowhere";
    CHECK_ERR("no directory", wal_open(&options, false, NULL, NULL, &wal, NULL, &note),
              ERR_NOT_FOUND);
    rig_close(&rig);
}

static enum err refuse(void *context, const struct wal_found *found)
{
    return found->entry.index == *(uint64_t *)context ? ERR_VERSION : ERR_OK;
}

TEST(a_reader_may_refuse)
{
    static struct rig_log log, found;
    struct rig rig;
    struct wal *none = NULL;
    uint64_t index = 3;
    rig_open(&rig, &perfect, 11);
    log = (struct rig_log){0};
    struct wal *wal = reopen(&rig, NULL, &found, NULL);
    CHECK_OK("append", rig_append(wal, (struct rig_append){1, 1, 5, 5}, &log, NULL));
    wal_close(wal);
    CHECK_ERR("its answer", wal_open(&rig.options, false, refuse, &index, &none, NULL, NULL),
              ERR_VERSION);
    rig_close(&rig);
}

TEST(one_write_and_one_sync_an_append)
{
    static struct rig_log log, found;
    struct rig rig;
    rig_open(&rig, &perfect, 12);
    log = (struct rig_log){0};
    struct wal *wal = reopen(&rig, NULL, &found, NULL);
    upkeep(wal);
    for (uint64_t index = 1; index <= 90; index += 30) {
        uint64_t before = sim_fs_stats(rig.disk).calls;
        CHECK_OK("append", rig_append(wal, (struct rig_append){index, 1, 30, 100}, &log, NULL));
        CHECK_U64("two calls", sim_fs_stats(rig.disk).calls - before, 2);
    }
    wal_close(wal);
    rig_close(&rig);
}
