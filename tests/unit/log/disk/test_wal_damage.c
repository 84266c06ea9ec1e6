/* SPDX-License-Identifier: Apache-2.0 */
/* Damage and torn tails. A changed bit below the acknowledged end stops the log, with file and
 * offset; a changed bit after it is cut off. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk_rig.h"
#include "lib/fault_fs.h"
#include "lib/sim_fs_dump.h"

static const struct sim_fs_options perfect = {0};

static void segment_path(uint64_t sequence, char path[64])
{
    snprintf(path, 64, RIG_DIR "/log/%016" PRIx64 ".seg", sequence);
}

static void flip(struct rig *rig, uint64_t sequence, uint64_t offset, int bit)
{
    char path[64], byte;
    struct fs_file *file;
    size_t got;
    segment_path(sequence, path);
    CHECK_OK("open", fs_open(rig->fs, path, FS_READ | FS_WRITE, 0, &file));
    CHECK_OK("read", fs_read_at(rig->fs, file, offset, &byte, 1, &got));
    byte = (char)(byte ^ 1 << bit);
    CHECK_OK("write", fs_write_at(rig->fs, file, offset, str_of(&byte, 1)));
    CHECK_OK("sync", fs_sync(rig->fs, file));
    fs_close(rig->fs, file);
}

/* Read-only, so that the disk is unchanged for the next flip. */
static enum err look(struct rig *rig, struct rig_log *found, struct wal_report *report,
                     struct note *note)
{
    struct wal *wal = NULL;
    *found = (struct rig_log){0};
    note->text[0] = '\0';
    enum err err = wal_open(&rig->options, true, rig_log_found, found, &wal, report, note);
    wal_close(wal);
    return err;
}

/* Three segments; `sealed`, or killed before the seal. */
static void build(struct rig *rig, struct rig_log *log, uint64_t seed, bool sealed)
{
    struct wal *wal = NULL;
    rig_open(rig, &perfect, seed);
    *log = (struct rig_log){0};
    CHECK_OK("open", wal_open(&rig->options, false, NULL, NULL, &wal, NULL, NULL));
    CHECK_OK("append", rig_append(wal, (struct rig_append){1, 1, 20, 4000}, log, NULL));
    CHECK_OK("append", rig_append(wal, (struct rig_append){21, 1, 1, 33}, log, NULL));
    CHECK_OK("append", rig_append(wal, (struct rig_append){20, 2, 10, 4500}, log, NULL));
    CHECK_OK("append", rig_append(wal, (struct rig_append){30, 2, 3, 40}, log, NULL));
    CHECK_U64("three", wal_stats(wal).last_sequence, 3);
    if (!sealed) sim_fs_process_died(rig->disk);
    wal_close(wal);
    sim_fs_reclaim(rig->disk);
}

/* Finds the end of each segment's records by reading the file. */
struct extent {
    uint64_t end[4]; /* by sequence: just after its last record */
    uint64_t starts[64][2];
    size_t count;
};

static void add_start(struct extent *extent, uint64_t sequence, uint64_t offset, uint64_t size)
{
    extent->starts[extent->count][0] = sequence;
    extent->starts[extent->count++][1] = offset;
    if (offset + size > extent->end[sequence]) extent->end[sequence] = offset + size;
}

static enum err note_place(void *context, const struct wal_found *found)
{
    add_start(context, found->place.sequence, found->place.offset, found->place.size);
    return ERR_OK;
}

/* The offset of the record that contains this byte. */
static uint64_t start_of(const struct extent *extent, uint64_t sequence, uint64_t offset)
{
    uint64_t start = SEGMENT_HEAD;
    for (size_t i = 0; i < extent->count; i++)
        if (extent->starts[i][0] == sequence && extent->starts[i][1] <= offset &&
            extent->starts[i][1] > start)
            start = extent->starts[i][1];
    return start;
}

TEST(any_bit_below_the_acknowledged_end_stops_the_log)
{
    static struct rig_log log, found;
    static struct extent extent;
    struct rig rig;
    struct note note;
    struct wal *wal = NULL;
    build(&rig, &log, 1, true);
    extent = (struct extent){0};
    CHECK_OK("places", wal_open(&rig.options, true, note_place, &extent, &wal, NULL, &note));
    wal_close(wal);
    for (uint64_t s = 1; s <= 2; s++) /* the seals that end the first two */
        add_start(&extent, s, extent.end[s], RECORD_HEAD);
    for (uint64_t s = 1; s <= 3; s++) {
        uint64_t step = 1;
        for (uint64_t at = 0; at < extent.end[s]; at += step) {
            uint64_t start = at < SEGMENT_HEAD ? 0 : start_of(&extent, s, at);
            char want[64];
            flip(&rig, s, at, (int)(at % 8));
            CHECK_ERR("stops", look(&rig, &found, NULL, &note), ERR_CORRUPT);
            snprintf(want, sizeof want, "%016" PRIx64 ".seg: offset %" PRIu64 ":", s, start);
            CHECK_HAS("names file and offset", note.text, want);
            flip(&rig, s, at, (int)(at % 8));
            /* Every byte of heads, a sample of long bodies. */
            step = at < SEGMENT_HEAD ? 37 : at - start < RECORD_HEAD ? 1 : 211;
        }
    }
    CHECK_OK("as it was", look(&rig, &found, NULL, &note));
    CHECK("all of it", rig_log_equal(&log, &found, 1));
    rig_close(&rig);
}

TEST(a_bit_after_the_covered_end_is_a_torn_tail)
{
    static struct rig_log log, found;
    struct rig rig;
    struct note note;
    struct wal_report report;
    build(&rig, &log, 2, false);
    const struct rig_entry *last = &log.at[log.count - 3]; /* of the last append */
    for (size_t i = 0; i < 3; i++)
        for (uint64_t at = last[i].place.offset; at < last[i].place.offset + last[i].place.size;
             at++) {
            flip(&rig, last[i].place.sequence, at, (int)(at % 8));
            CHECK_OK("opens", look(&rig, &found, &report, &note));
            CHECK_U64("cut there", rig_log_last(&found), last[i].index - 1);
            CHECK_U64("the place is reported", report.torn_offset, last[i].place.offset);
            flip(&rig, last[i].place.sequence, at, (int)(at % 8));
        }
    /* The last append covers the record before it. */
    flip(&rig, last[-1].place.sequence, last[-1].place.offset + 60, 3);
    CHECK_ERR("stops", look(&rig, &found, &report, &note), ERR_CORRUPT);
    rig_close(&rig);
}

TEST(a_torn_tail_does_not_come_back_to_life)
{
    static struct rig_log log, found;
    struct rig rig;
    struct note note;
    struct wal_report report;
    struct wal *wal = NULL;
    build(&rig, &log, 3, false);
    const struct rig_entry *first = &log.at[log.count - 3];
    uint64_t index = first->index;
    flip(&rig, first->place.sequence, first->place.offset, 0);
    found = (struct rig_log){0};
    CHECK_OK("opens", wal_open(&rig.options, false, rig_log_found, &found, &wal, &report, &note));
    CHECK_U64("cut", rig_log_last(&found), index - 1);
    CHECK_U64("three records of it", report.torn_bytes, 3 * record_size(40));
    CHECK_OK("append", rig_append(wal, (struct rig_append){index, 9, 1, 40}, &log, NULL));
    wal_close(wal);
    CHECK_OK("opens", look(&rig, &found, &report, &note));
    CHECK("only the new one", rig_log_equal(&log, &found, 1));
    CHECK_U64("nothing torn", report.torn_bytes, 0);
    rig_close(&rig);
}

/* -- wrong files -- */

static void rename_segment(struct rig *rig, uint64_t from, uint64_t to)
{
    char a[64], b[64];
    segment_path(from, a);
    segment_path(to, b);
    CHECK_OK("rename", fs_rename(rig->fs, a, b));
}

TEST(a_segment_that_is_missing_or_misnamed_stops_the_log)
{
    static struct rig_log log, found;
    struct rig rig;
    struct note note;
    char path[64];
    build(&rig, &log, 4, true);
    rename_segment(&rig, 2, 9);
    CHECK_ERR("stops", look(&rig, &found, NULL, &note), ERR_CORRUPT);
    CHECK_HAS("which", note.text, "0000000000000002.seg: is missing");
    rename_segment(&rig, 9, 2);
    CHECK_OK("well again", look(&rig, &found, NULL, &note));
    rename_segment(&rig, 3, 4);
    CHECK_ERR("stops", look(&rig, &found, NULL, &note), ERR_CORRUPT);
    CHECK_HAS("which", note.text, "0000000000000003.seg: is missing");
    rename_segment(&rig, 4, 3);
    segment_path(3, path);
    CHECK_OK("removed", fs_remove(rig.fs, path));
    CHECK_ERR("stops", look(&rig, &found, NULL, &note), ERR_CORRUPT);
    CHECK_HAS("which", note.text, "0000000000000003.seg: is missing");
    /* The first segment may have been released; another test checks that it joins the snapshot. */
    segment_path(1, path);
    rig_close(&rig);
    build(&rig, &log, 4, true);
    CHECK_OK("removed", fs_remove(rig.fs, path));
    CHECK_OK("opens", look(&rig, &found, NULL, &note));
    CHECK("the rest", rig_log_equal(&log, &found, 25));
    rig_close(&rig);
}

/* Makes everything of the file from `offset` on zeros, as it was before it was written. */
static void cut(struct rig *rig, uint64_t sequence, uint64_t offset)
{
    static char zeros[2 * RIG_SEGMENT];
    char path[64];
    struct fs_file *file;
    uint64_t size;
    segment_path(sequence, path);
    CHECK_OK("open", fs_open(rig->fs, path, FS_READ | FS_WRITE, 0, &file));
    CHECK_OK("size", fs_file_size(rig->fs, file, &size));
    CHECK_OK("cut", fs_write_at(rig->fs, file, offset, str_of(zeros, size - offset)));
    CHECK_OK("sync", fs_sync(rig->fs, file));
    fs_close(rig->fs, file);
}

static void check_lost(struct rig *rig, const char *where)
{
    static struct rig_log found;
    struct wal *wal = NULL;
    struct note note;
    CHECK_ERR("check refuses", look(rig, &found, NULL, &note), ERR_CORRUPT);
    CHECK_ERR("a start refuses", wal_open(&rig->options, false, NULL, NULL, &wal, NULL, &note),
              ERR_CORRUPT);
    CHECK_HAS("the file", note.text, where);
    CHECK_HAS("what is missing", note.text, RIG_DIR "/log/DURABLE names record");
    CHECK_HAS("what to do", note.text, "muster coordinator rejoin");
}

TEST(a_log_that_lost_its_end_is_refused)
{
    static struct rig_log log, found;
    struct rig rig;
    struct note note;
    char want[64];
    for (size_t i = 0; i <= 3; i++) { /* the last three entries, then only the seal */
        build(&rig, &log, 9, true);
        const struct wal_place *last = &log.at[log.count - 1].place;
        uint64_t end = i < 3 ? log.at[log.count - 3 + i].place.offset : last->offset + last->size;
        cut(&rig, 3, end);
        snprintf(want, sizeof want, "0000000000000003.seg: offset %" PRIu64 ":", end);
        check_lost(&rig, want);
        rig_close(&rig);
    }
    /* After a kill, what was published still counts; the rest may be gone. */
    build(&rig, &log, 9, true);
    struct wal *wal = NULL;
    CHECK_OK("open", wal_open(&rig.options, false, NULL, NULL, &wal, NULL, NULL));
    CHECK_OK("append", rig_append(wal, (struct rig_append){33, 2, 1, 40}, &log, NULL));
    CHECK_OK("publish", wal_publish(wal, NULL));
    CHECK_OK("append", rig_append(wal, (struct rig_append){34, 2, 1, 40}, &log, NULL));
    sim_fs_process_died(rig.disk);
    wal_close(wal);
    cut(&rig, 3, log.at[log.count - 1].place.offset);
    CHECK_OK("not published", look(&rig, &found, NULL, &note));
    cut(&rig, 3, log.at[log.count - 2].place.offset);
    check_lost(&rig, "0000000000000003.seg: offset");
    rig_close(&rig);
}

TEST(a_log_of_which_only_spares_are_left_is_refused)
{
    static struct rig_log log;
    struct rig rig;
    struct wal *wal = NULL;
    char path[64];
    rig_open(&rig, &perfect, 10);
    log = (struct rig_log){0};
    CHECK_OK("open", wal_open(&rig.options, false, NULL, NULL, &wal, NULL, NULL));
    CHECK_OK("append", rig_append(wal, (struct rig_append){1, 1, 1, 40}, &log, NULL));
    while (wal_wants_spare(wal)) CHECK_OK("spares", wal_prepare(wal, NULL));
    wal_close(wal);
    segment_path(1, path);
    CHECK_OK("removed", fs_remove(rig.fs, path));
    check_lost(&rig, "0000000000000002.seg: offset 4096:");
    rig_close(&rig);
}

TEST(a_log_without_the_file_durable_opens_and_gets_one)
{
    static struct rig_log log, found;
    struct rig rig;
    struct note note;
    struct wal *wal = NULL;
    build(&rig, &log, 11, true);
    CHECK_OK("an older release", fs_remove(rig.fs, RIG_DIR "/log/DURABLE"));
    CHECK_OK("open", wal_open(&rig.options, false, NULL, NULL, &wal, NULL, NULL));
    sim_fs_process_died(rig.disk);
    wal_close(wal);
    cut(&rig, 3, log.at[log.count - 1].place.offset);
    check_lost(&rig, "0000000000000003.seg");
    /* A file that does not say which record is damage. */
    struct fs_file *file;
    CHECK_OK("open", fs_open(rig.fs, RIG_DIR "/log/DURABLE", FS_WRITE, 0, &file));
    CHECK_OK("damage", fs_write_at(rig.fs, file, 20, STR("x")));
    fs_close(rig.fs, file);
    CHECK_ERR("damaged", look(&rig, &found, NULL, &note), ERR_CORRUPT);
    CHECK_HAS("which file", note.text, "log/DURABLE");
    rig_close(&rig);
}

TEST(the_segment_of_the_last_record_is_not_released)
{
    static struct rig_log log, found;
    struct rig rig;
    struct wal *wal = NULL;
    struct note note = {""};
    rig_open(&rig, &perfect, 12);
    log = (struct rig_log){0};
    CHECK_OK("open", wal_open(&rig.options, false, NULL, NULL, &wal, NULL, NULL));
    /* Leaves no room for a seal beside the one that ends the segment. */
    size_t len = RIG_SEGMENT - SEGMENT_HEAD - 2 * RECORD_HEAD;
    CHECK_OK("append", rig_append(wal, (struct rig_append){1, 1, 1, len}, &log, NULL));
    CHECK_OK("seal", wal_seal(wal, NULL));
    CHECK_U64("the next segment", wal_stats(wal).last_sequence, 2);
    CHECK_OK("release", wal_release(wal, 2, NULL));
    while (wal_wants_spare(wal)) CHECK_OK("upkeep", wal_prepare(wal, NULL));
    CHECK_U64("both are kept", wal_stats(wal).segments, 2);
    wal_close(wal);
    CHECK_OK("opens", look(&rig, &found, NULL, &note));
    CHECK("all of it", rig_log_equal(&log, &found, 1));
    rig_close(&rig);
}

TEST(a_segment_of_another_replica_or_format_is_refused)
{
    static struct rig_log log, found;
    static char head[SEGMENT_HEAD];
    struct rig rig;
    struct note note;
    build(&rig, &log, 5, true);
    rig.options.replica_id = RIG_REPLICA + 1;
    CHECK_ERR("refused", look(&rig, &found, NULL, &note), ERR_CORRUPT);
    CHECK_HAS("the file", note.text, "of replica 000000000000004d, not of 000000000000004e");
    rig.options.replica_id = RIG_REPLICA;
    rig.options.cluster_id = RIG_CLUSTER + 1; /* adopted, or forced, since */
    CHECK_OK("the cluster may change", look(&rig, &found, NULL, &note));
    struct fs_file *file;
    char path[64];
    segment_path(2, path);
    CHECK_OK("open", fs_open(rig.fs, path, FS_WRITE, 0, &file));
    CHECK_OK("zeros", fs_write_at(rig.fs, file, 0, str_of(head, sizeof head)));
    fs_close(rig.fs, file);
    CHECK_ERR("no head", look(&rig, &found, NULL, &note), ERR_CORRUPT);
    CHECK_HAS("where", note.text, "0000000000000002.seg: offset 0: head of a segment");
    rig_close(&rig);
}

TEST(looking_changes_nothing)
{
    static struct rig_log log, found;
    struct rig rig;
    struct note note;
    build(&rig, &log, 6, false);
    flip(&rig, 3, log.at[log.count - 1].place.offset + 50, 1);
    struct fs_file *file;
    CHECK_OK("a temporary", fs_open(rig.fs, RIG_DIR "/log/.spare.00000000.tmp",
                                    FS_WRITE | FS_CREATE, 0600, &file));
    fs_close(rig.fs, file);
    struct buf before, after;
    buf_init(&before, 1 << 20);
    buf_init(&after, 1 << 20);
    CHECK_OK("dump", sim_fs_dump(rig.disk, &before));
    CHECK_OK("looks", look(&rig, &found, NULL, &note));
    CHECK_OK("dump", sim_fs_dump(rig.disk, &after));
    CHECK_STR("the same", buf_peek(&after), buf_peek(&before));
    buf_deinit(&before);
    buf_deinit(&after);
    rig_close(&rig);
}

/* -- a read that returns wrong bytes once -- */

struct astray {
    struct fault_fs fault;
    enum err (*read_at)(struct fs *, struct fs_file *, uint64_t, void *, size_t, size_t *);
    uint64_t nth, seen;
};

static enum err read_astray(struct fs *fs, struct fs_file *file, uint64_t offset, void *into,
                            size_t len, size_t *ret_got)
{
    struct astray *astray = (struct astray *)fs;
    enum err err = astray->read_at(fs, file, offset, into, len, ret_got);
    if (!err && ++astray->seen == astray->nth) memset(into, 0x77, *ret_got);
    return err;
}

/* The wrong bytes must not be written anywhere, either. */
static void open_astray(bool read_only)
{
    static struct rig_log log, found;
    struct astray astray = {.nth = 1};
    bool reached = true;
    for (; reached; astray.nth++) {
        struct note note = {""};
        struct wal *wal = NULL;
        struct rig rig;
        build(&rig, &log, 7, false);
        fault_fs_init(&astray.fault, rig.fs);
        astray.read_at = astray.fault.fs.read_at;
        astray.fault.fs.read_at = read_astray;
        struct wal_options options = rig.options;
        options.fs = fault_fs_fs(&astray.fault);
        found = (struct rig_log){0};
        astray.seen = 0;
        enum err err = wal_open(&options, read_only, rig_log_found, &found, &wal, NULL, &note);
        reached = astray.seen >= astray.nth;
        if (err) print_message("read %" PRIu64 ": %s\n", astray.nth, note.text);
        CHECK_OK("opens", err);
        CHECK("all of it", rig_log_equal(&log, &found, 1));
        wal_close(wal);
        CHECK_OK("opens again", look(&rig, &found, NULL, &note));
        CHECK("as it was", rig_log_equal(&log, &found, 1));
        rig_close(&rig);
    }
    CHECK("several reads", astray.nth > 6);
}

TEST(a_read_that_is_led_astray_once_is_not_damage)
{
    open_astray(true);
    open_astray(false);
}

/* -- a segment that is recycled while it is read -- */

struct racing {
    struct fault_fs fault;
    enum err (*read_at)(struct fs *, struct fs_file *, uint64_t, void *, size_t, size_t *);
    struct wal *wal;
    uint64_t nth, seen;
};

static enum err read_racing(struct fs *fs, struct fs_file *file, uint64_t offset, void *into,
                            size_t len, size_t *ret_got)
{
    struct racing *racing = (struct racing *)fs;
    if (++racing->seen == racing->nth) {
        while (wal_wants_spare(racing->wal)) CHECK_OK("recycle", wal_prepare(racing->wal, NULL));
        CHECK_OK("write over it",
                 rig_append(racing->wal, (struct rig_append){41, 1, 40, 4000}, NULL, NULL));
    }
    return racing->read_at(fs, file, offset, into, len, ret_got);
}

TEST(a_segment_recycled_under_a_reader_is_gone_not_damaged)
{
    for (uint64_t nth = 1; nth <= 2; nth++) { /* before its head is read, and afterwards */
        static struct rig_log log;
        struct racing racing = {.nth = nth};
        struct rig rig;
        struct note note = {""};
        struct entry entry;
        struct buf into;
        rig_open(&rig, &perfect, 8);
        log = (struct rig_log){0};
        CHECK_OK("open", wal_open(&rig.options, false, NULL, NULL, &racing.wal, NULL, NULL));
        CHECK_OK("append", rig_append(racing.wal, (struct rig_append){1, 1, 40, 4000}, &log, NULL));
        CHECK_OK("release", wal_release(racing.wal, wal_stats(racing.wal).last_sequence, NULL));
        fault_fs_init(&racing.fault, rig.fs);
        racing.read_at = racing.fault.fs.read_at;
        racing.fault.fs.read_at = read_racing;
        buf_init(&into, 1 << 20);
        CHECK_ERR("gone",
                  wal_read(fault_fs_fs(&racing.fault), RIG_DIR, &log.at[3].place, 1, &into, &entry,
                           &note),
                  ERR_NOT_FOUND);
        CHECK("it came to that", racing.seen >= nth);
        buf_deinit(&into);
        wal_close(racing.wal);
        rig_close(&rig);
    }
}
