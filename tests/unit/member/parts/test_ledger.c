/* SPDX-License-Identifier: Apache-2.0 */
/* member/ledger: the cases of workers.md 24.7, by number, and the effects of a damaged file and of
 * a full disk. */
#include "member/ledger/ledger.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/prng.h"
#include "lib/test.h"
#include "member/ledger/file.h"
#include "unit/io/rig.h"

#define RUN    "01JFEAVS7C5DE5XEAEAB91EBT5"
#define WORKER "01JFEAVS7C5DE5XEAEAB91EBT6"

static const char *new_path(void)
{
    static char path[4200];
    static int count;

    snprintf(path, sizeof path, "%s/db-%d", test_dir(), count++);
    return path;
}

static void write_file(const char *path, const char *bytes, size_t len)
{
    FILE *file = fopen(path, "w");

    CHECK("opened", file != NULL);
    CHECK_SIZE("written", fwrite(bytes, 1, len, file), len);
    CHECK("closed", fclose(file) == 0);
}

/* -- rows -- */

TEST(case_120_rollouts_heartbeat_bytes_are_read)
{
    static const uint8_t tail[] = {0x04, 0xbb, 0xdb, 0xe0, 0xf0, 0x9d, 0x34,
                                   0xd3, 0xd3, 0xe0, 0xf0, 0x9d, 0x34};
    uint8_t bytes[67];
    struct heartbeat_row row, again;
    struct buf written;

    bytes[0] = bytes[27] = 0x1a;
    memcpy(bytes + 1, WORKER, 26);
    memcpy(bytes + 28, RUN, 26);
    memcpy(bytes + 54, tail, sizeof tail);
    CHECK_OK("read", heartbeat_row_read(str_of((char *)bytes, sizeof bytes), &row));
    CHECK_STR("the worker", row.worker_id, STR(WORKER));
    CHECK_STR("of which run", row.run_id, STR(RUN));
    CHECK_U64("READY", row.phase, 2);
    CHECK_U64("due", row.due_at_ms, 1794727488955ull);
    CHECK_U64("received", row.received_at_ms, 1794727487955ull);
    CHECK("no load", !row.has_load);
    buf_init(&written, ROW_BYTES_MAX);
    CHECK_OK("written", heartbeat_row_write(&row, &written));
    CHECK_STR("as it was", buf_peek(&written), str_of((char *)bytes, sizeof bytes));
    buf_clear(&written);
    row.has_load = true;
    row.load = 0.42;
    CHECK_OK("with a load", heartbeat_row_write(&row, &written));
    CHECK_OK("read", heartbeat_row_read(buf_peek(&written), &again));
    CHECK("the same", again.has_load && again.load == 0.42);
    buf_deinit(&written);
}

TEST(a_row_that_is_cut_or_has_something_behind_it_is_refused)
{
    struct worker_row worker = {.worker_id = STR(WORKER),
                                .run_id = STR(RUN),
                                .registered_at_ms = 5,
                                .incarnation = 300,
                                .standing = 2,
                                .reason = 3,
                                .draining = true,
                                .instance = STR("abc")},
                      got;
    struct heartbeat_row beat;
    struct buf bytes;

    buf_init(&bytes, 2 * ROW_BYTES_MAX);
    CHECK_OK("written", worker_row_write(&worker, &bytes));
    CHECK_OK("read", worker_row_read(buf_peek(&bytes), &got));
    CHECK("the same", got.registered_at_ms == 5 && got.incarnation == 300 && got.standing == 2 &&
                          got.reason == 3 && got.draining && str_equal(got.instance, STR("abc")));
    for (size_t len = 0; len < bytes.len; len++) {
        enum err err = worker_row_read(str_of(bytes.data, len), &got);
        CHECK("cut", err == ERR_PARSE || (len == 55 && got.incarnation == 0));
        CHECK_ERR("not a beat", heartbeat_row_read(str_of(bytes.data, len), &beat), ERR_PARSE);
    }
    CHECK_OK("one more", buf_append_byte(&bytes, 'x'));
    CHECK_ERR("behind it", worker_row_read(buf_peek(&bytes), &got), ERR_PARSE);
    buf_deinit(&bytes);
    worker.worker_id = STR("with a blank");
    buf_init(&bytes, ROW_BYTES_MAX);
    CHECK_ERR("no id", worker_row_write(&worker, &bytes), ERR_INVALID);
    CHECK_ERR("a longer varint of the same value",
              heartbeat_row_read(STR("\x01"
                                     "a"
                                     "\x01"
                                     "b"
                                     "\x04"
                                     "\x81\x00"
                                     "\x01"),
                                 &beat),
              ERR_PARSE);
    CHECK_OK("shorter", heartbeat_row_read(STR("\x01"
                                               "a"
                                               "\x01"
                                               "b"
                                               "\x04"
                                               "\x01"
                                               "\x01"),
                                           &beat));
    CHECK_ERR("something behind it",
              heartbeat_row_read(STR("\x01"
                                     "a"
                                     "\x01"
                                     "b"
                                     "\x04"
                                     "\x01"
                                     "\x01"
                                     "\x01"
                                     "\x01"),
                                 &beat),
              ERR_PARSE);
    CHECK_ERR("no phase",
              heartbeat_row_read(STR("\x01"
                                     "a"
                                     "\x01"
                                     "b"
                                     "\x0a"
                                     "\x01"
                                     "\x01"),
                                 &beat),
              ERR_PARSE);
    buf_deinit(&bytes);
}

/* -- the file -- */

enum { SAMPLE_ROWS = 40 };
static void make_sample(const char *path, struct buf *ret_bytes)
{
    struct buf content;
    char key[32];

    buf_init(&content, LEDGER_FILE_MAX);
    CHECK_OK("begun", ledger_file_begin(&content));
    for (int i = 0; i < SAMPLE_ROWS; i++) {
        snprintf(key, sizeof key, "workers/w%d", i);
        CHECK_OK("added", ledger_record_add(&content, str_from(key), str_of(key, (size_t)i % 20)));
    }
    CHECK_OK("written", ledger_file_write(fs_real(), path, &content, 1, NULL));
    CHECK_OK("read", fs_read_whole(fs_real(), path, LEDGER_FILE_MAX, ret_bytes));
    buf_deinit(&content);
}

/* Number of readable rows; SIZE_MAX: the file cannot be read. */
static size_t rows_in(const char *path)
{
    struct str records, key, value;
    struct buf content;
    size_t count = 0;

    buf_init(&content, LEDGER_FILE_MAX);
    if (ledger_file_read(fs_real(), path, &content, &records, NULL))
        count = SIZE_MAX;
    else
        while (ledger_record_next(&records, &key, &value)) count++;
    buf_deinit(&content);
    return count;
}

TEST(a_file_has_what_was_last_written_and_nothing_else)
{
    const char *path = new_path();
    struct str records, key, value;
    struct buf bytes, content;

    buf_init(&bytes, LEDGER_FILE_MAX);
    buf_init(&content, LEDGER_FILE_MAX);
    make_sample(path, &bytes);
    CHECK_SIZE("all of them", rows_in(path), SAMPLE_ROWS);
    CHECK_OK("begun", ledger_file_begin(&content));
    CHECK_OK("added", ledger_record_add(&content, STR("plugins/a"), STR("{}")));
    CHECK_OK("an empty value is one", ledger_record_add(&content, STR("b"), STR_EMPTY));
    CHECK_OK("written", ledger_file_write(fs_real(), path, &content, 2, NULL));
    CHECK_OK("read", ledger_file_read(fs_real(), path, &bytes, &records, NULL));
    CHECK("first", ledger_record_next(&records, &key, &value));
    CHECK_STR("key", key, STR("plugins/a"));
    CHECK_STR("value", value, STR("{}"));
    CHECK("second", ledger_record_next(&records, &key, &value) && value.len == 0);
    CHECK("no third", !ledger_record_next(&records, &key, &value));
    buf_deinit(&bytes);
    buf_deinit(&content);
}

TEST(a_damaged_file_is_found_out)
{
    struct buf sample, content;
    struct str records;
    char path[4200];

    snprintf(path, sizeof path, "%s", new_path());
    buf_init(&sample, LEDGER_FILE_MAX);
    buf_init(&content, LEDGER_FILE_MAX);
    make_sample(path, &sample);
    for (size_t i = 0; i < 2 * sample.len; i++) {
        bool cut = i >= sample.len;
        size_t at = i % sample.len;
        struct note note = {""};
        enum err err;

        if (!cut) sample.data[at] ^= 0x20;
        write_file(path, sample.data, cut ? at : sample.len);
        err = ledger_file_read(fs_real(), path, &content, &records, &note);
        CHECK_ERR("found out", err,
                  cut && !at ? ERR_NOT_FOUND
                  : at < 16  ? ERR_CONFLICT
                             : ERR_CORRUPT);
        CHECK("with a reason", note.text[0]);
        if (!cut) sample.data[at] ^= 0x20;
    }
    buf_deinit(&sample);
    buf_deinit(&content);
}

TEST(a_foreign_file_is_called_so_and_a_missing_file_is_no_damage)
{
    const char *path = new_path();
    static char zeros[8192];
    struct note note = {""};
    struct str records;
    struct buf content;

    buf_init(&content, LEDGER_FILE_MAX);
    CHECK_ERR("absent", ledger_file_read(fs_real(), path, &content, &records, &note),
              ERR_NOT_FOUND);
    write_file(path, "redb, or whatever", 17);
    CHECK_ERR("short", ledger_file_read(fs_real(), path, &content, &records, &note), ERR_CONFLICT);
    CHECK_HAS("the message", note.text, "is no file of rows of muster's");
    write_file(path, zeros, sizeof zeros);
    CHECK_ERR("zeros", ledger_file_read(fs_real(), path, &content, &records, &note), ERR_CONFLICT);
    buf_deinit(&content);
}

/* -- the ledger -- */

static struct heartbeat_row beat_of(const char *id, uint64_t at)
{
    return (struct heartbeat_row){.worker_id = str_from(id),
                                  .run_id = STR(RUN),
                                  .phase = 2,
                                  .due_at_ms = at + 1000,
                                  .received_at_ms = at};
}

static struct member_ledger *ledger_on(struct rig *rig, struct member_ledger_options options)
{
    static struct log_source silent;
    struct member_ledger *ledger = NULL;

    options.io = rig->io;
    options.log = &silent;
    options.flush_ms = 5;
    options.retry_ms = 5;
    CHECK_OK("open", member_ledger_open(&options, &ledger));
    return ledger;
}

static uint64_t received_of(const char *path, const char *id)
{
    struct heartbeat_row row = {0};
    struct str records, key, value;
    struct buf content;
    char wanted[64];

    snprintf(wanted, sizeof wanted, "heartbeats/%s", id);
    buf_init(&content, LEDGER_FILE_MAX);
    CHECK_OK("read", ledger_file_read(fs_real(), path, &content, &records, NULL));
    while (ledger_record_next(&records, &key, &value))
        if (str_equal(key, str_from(wanted))) CHECK_OK("a row", heartbeat_row_read(value, &row));
    buf_deinit(&content);
    return row.received_at_ms;
}

TEST(rows_are_overwritten_and_written_behind)
{
    char path[4300];
    struct rig rig;
    struct member_ledger *ledger;
    struct heartbeat_row row = beat_of(WORKER, 100);
    struct worker_row worker = {.worker_id = STR(WORKER), .run_id = STR(RUN), .incarnation = 1};

    snprintf(path, sizeof path, "%s/deep/down/x.db", new_path());
    rig_open(&rig);
    ledger = ledger_on(&rig, (struct member_ledger_options){.path = path});
    member_ledger_worker(ledger, &worker);
    member_ledger_beat(ledger, &row);
    row = beat_of(WORKER, 200);
    member_ledger_beat(ledger, &row);
    RIG_UNTIL("written", &rig, member_ledger_stats(ledger).batches == 1);
    CHECK_U64("two rows: the worker's and its last beat", member_ledger_stats(ledger).rows, 2);
    row = beat_of("second", 250);
    member_ledger_beat(ledger, &row);
    row = beat_of("second", 300);
    member_ledger_beat(ledger, &row);
    member_ledger_forget(ledger, STR(WORKER));
    member_ledger_close(ledger); /* writes the queued rows */
    rig_close(&rig);
    CHECK_U64("forgotten", received_of(path, WORKER), 0);
    CHECK_U64("the last ones too", received_of(path, "second"), 300);
}

TEST(rows_of_the_process_before_stay)
{
    char path[4200];
    struct rig rig;
    struct member_ledger *ledger;
    struct heartbeat_row first = beat_of("first", 100), second = beat_of("second", 100);

    snprintf(path, sizeof path, "%s", new_path());
    rig_open(&rig);
    ledger = ledger_on(&rig, (struct member_ledger_options){.path = path});
    member_ledger_beat(ledger, &first);
    member_ledger_beat(ledger, &second);
    RIG_UNTIL("written", &rig, member_ledger_stats(ledger).batches == 1);
    first = beat_of("first", 150);
    member_ledger_beat(ledger, &first);
    RIG_UNTIL("again", &rig, member_ledger_stats(ledger).batches == 2);
    CHECK_U64("rows that had changed", member_ledger_stats(ledger).rows, 3);
    member_ledger_close(ledger);

    ledger = ledger_on(&rig, (struct member_ledger_options){.path = path});
    first = beat_of("third", 200);
    member_ledger_beat(ledger, &first); /* sent before the file is read, like the next one */
    member_ledger_forget(ledger, STR("second"));
    RIG_UNTIL("written", &rig, member_ledger_stats(ledger).batches == 1);
    CHECK_U64("one had changed", member_ledger_stats(ledger).rows, 1);
    member_ledger_close(ledger);
    rig_close(&rig);
    CHECK_U64("of before", received_of(path, "first"), 150);
    CHECK_U64("forgotten", received_of(path, "second"), 0);
    CHECK_U64("new", received_of(path, "third"), 200);
}

static bool slow;
static bool is_slow(void *owner __attribute__((unused)))
{
    return slow;
}

TEST(a_round_is_skipped_while_the_log_is_slow)
{
    struct rig rig;
    struct member_ledger *ledger;
    struct heartbeat_row row = beat_of(WORKER, 100);

    slow = true;
    rig_open(&rig);
    ledger =
        ledger_on(&rig, (struct member_ledger_options){.path = new_path(), .log_is_slow = is_slow});
    member_ledger_beat(ledger, &row);
    RIG_UNTIL("skipped", &rig, member_ledger_stats(ledger).skipped >= 3);
    CHECK_U64("nothing was written", member_ledger_stats(ledger).batches, 0);
    slow = false;
    RIG_UNTIL("then it is", &rig, member_ledger_stats(ledger).batches == 1);
    member_ledger_close(ledger);
    rig_close(&rig);
}

TEST(a_row_without_room_is_dropped_and_counted)
{
    struct rig rig;
    struct member_ledger *ledger;
    struct heartbeat_row row;

    slow = true;
    rig_open(&rig);
    ledger = ledger_on(&rig, (struct member_ledger_options){
                                 .path = new_path(), .rows_max = 2, .log_is_slow = is_slow});
    row = beat_of("a", 1);
    member_ledger_beat(ledger, &row);
    row = beat_of("b", 1);
    member_ledger_beat(ledger, &row);
    row = beat_of("c", 1);
    member_ledger_beat(ledger, &row);
    CHECK_U64("dropped", member_ledger_stats(ledger).dropped, 1);
    row = beat_of("a", 2);
    member_ledger_beat(ledger, &row);
    CHECK_U64("a worker with a row keeps it", member_ledger_stats(ledger).dropped, 1);
    row = beat_of("not an id", 2);
    member_ledger_beat(ledger, &row);
    CHECK_U64("an impossible row", member_ledger_stats(ledger).dropped, 2);
    member_ledger_close(ledger);
    rig_close(&rig);
}

TEST(a_damaged_ledger_is_set_aside_and_a_new_one_begun)
{
    char path[4200], aside[4300];
    struct rig rig;
    struct member_ledger *ledger;
    struct heartbeat_row row = beat_of(WORKER, 100);
    struct buf sample;

    snprintf(path, sizeof path, "%s", new_path());
    snprintf(aside, sizeof aside, "%s.damaged", path);
    buf_init(&sample, LEDGER_FILE_MAX);
    make_sample(path, &sample);
    write_file(path, sample.data, sample.len - 1);
    rig_open(&rig);
    ledger = ledger_on(&rig, (struct member_ledger_options){.path = path});
    member_ledger_beat(ledger, &row);
    RIG_UNTIL("written", &rig, member_ledger_stats(ledger).batches == 1);
    CHECK("no trouble is left", !member_ledger_stats(ledger).in_trouble);
    member_ledger_close(ledger);
    rig_close(&rig);
    CHECK("the old one is kept", access(aside, F_OK) == 0);
    CHECK_U64("the new one serves", received_of(path, WORKER), 100);
    buf_deinit(&sample);
}

TEST(a_file_of_somebody_elses_is_not_touched_and_beats_go_on)
{
    const char *path = new_path();
    char got[64] = "";
    struct rig rig;
    struct member_ledger *ledger;
    struct heartbeat_row row = beat_of(WORKER, 100);
    FILE *file;

    write_file(path, "redb and nothing of ours", 24);
    rig_open(&rig);
    ledger = ledger_on(&rig, (struct member_ledger_options){.path = path});
    member_ledger_beat(ledger, &row);
    RIG_UNTIL("found out", &rig, member_ledger_stats(ledger).in_trouble);
    CHECK_U64("once", member_ledger_stats(ledger).failures, 1);
    member_ledger_beat(ledger, &row);
    CHECK_U64("rows are dropped", member_ledger_stats(ledger).dropped, 1);
    member_ledger_close(ledger);
    rig_close(&rig);
    file = fopen(path, "r");
    CHECK("there", file && fgets(got, sizeof got, file));
    fclose(file);
    CHECK_TEXT("as it was", got, "redb and nothing of ours");
}

/* A limit on the size of files simulates a full disk. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    CHECK("limit", getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    CHECK("limit", setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static void beat_all(struct member_ledger *ledger, uint64_t at)
{
    char id[16];

    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof id, "w%d", i);
        struct heartbeat_row row = beat_of(id, at);
        member_ledger_beat(ledger, &row);
    }
}

TEST(case_248_a_full_disk_affects_no_worker_and_ends_when_there_is_room)
{
    struct rig rig;
    struct member_ledger *ledger;
    struct heartbeat_row row = beat_of(WORKER, 100);
    char path[4200];

    snprintf(path, sizeof path, "%s", new_path());
    signal(SIGXFSZ, SIG_IGN);
    rig_open(&rig);
    limit_files(10);
    ledger = ledger_on(&rig, (struct member_ledger_options){.path = path});
    member_ledger_beat(ledger, &row);
    RIG_UNTIL("fails", &rig, member_ledger_stats(ledger).failures >= 2);
    row = beat_of(WORKER, 200);
    member_ledger_beat(ledger, &row);
    CHECK("reported", member_ledger_stats(ledger).in_trouble);
    CHECK_U64("nothing is lost of it", member_ledger_stats(ledger).dropped, 0);
    limit_files(RLIM_INFINITY);
    RIG_UNTIL("written again", &rig, member_ledger_stats(ledger).batches >= 1);
    CHECK("over", !member_ledger_stats(ledger).in_trouble);

    limit_files(10000); /* full again, while it is in use */
    beat_all(ledger, 300);
    RIG_UNTIL("fails", &rig, member_ledger_stats(ledger).in_trouble);
    limit_files(RLIM_INFINITY);
    RIG_UNTIL("written again", &rig, member_ledger_stats(ledger).batches >= 2);
    member_ledger_close(ledger);
    rig_close(&rig);
    CHECK_U64("the newest", received_of(path, WORKER), 200);
    CHECK_U64("all of them", received_of(path, "w999"), 300);
}

TEST(without_a_ledger_everything_is_taken)
{
    struct heartbeat_row row = beat_of(WORKER, 100);

    member_ledger_beat(NULL, &row);
    member_ledger_forget(NULL, STR(WORKER));
    CHECK_U64("nothing", member_ledger_stats(NULL).rows, 0);
    member_ledger_close(NULL);
}
