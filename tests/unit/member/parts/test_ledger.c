/* SPDX-License-Identifier: Apache-2.0 */
/* member/ledger: what workers.md 24.7 says, by its numbers, and what a damaged file or a full disk
 * must not do. */
#include "member/ledger/ledger.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/prng.h"
#include "lib/test.h"
#include "member/ledger/check.h"
#include "member/ledger/db.h"
#include "unit/io/rig.h"

#define RUN    "01JFEAVS7C5DE5XEAEAB91EBT5"
#define WORKER "01JFEAVS7C5DE5XEAEAB91EBT6"
enum { FILE_BYTES = 64 << 20 };

static const char *new_path(void)
{
    static char path[4200];
    static int count;

    snprintf(path, sizeof path, "%s/db-%d", test_dir(), count++);
    return path;
}

static struct ledger_db *opened(const char *path)
{
    struct ledger_db *db = NULL;
    struct note note = {""};

    CHECK_OK(note.text, ledger_db_open(fs_real(), path, FILE_BYTES, &db, &note));
    return db;
}

static struct ledger_txn *begun(struct ledger_db *db, bool write)
{
    struct ledger_txn *txn = NULL;

    CHECK_OK("begun", ledger_begin(db, write, &txn));
    return txn;
}

static struct ledger_key key_of(enum ledger_space space, const char *part)
{
    return (struct ledger_key){.space = space, .parts = {str_from(part)}, .part_count = 1};
}

static void put(struct ledger_db *db, enum ledger_space space, const char *part, const char *value)
{
    struct ledger_txn *txn = begun(db, true);
    struct ledger_key key = key_of(space, part);

    CHECK_OK("put", ledger_put(txn, &key, str_from(value)));
    CHECK_OK("committed", ledger_commit(txn));
}

/* NULL when absent. */
static const char *value_at(struct ledger_db *db, enum ledger_space space, const char *part)
{
    static char text[256];
    struct ledger_txn *txn = begun(db, false);
    struct ledger_key key = key_of(space, part);
    struct str value = STR_EMPTY;
    enum err err = ledger_get(txn, &key, &value);

    CHECK("found or not", !err || err == ERR_NOT_FOUND);
    snprintf(text, sizeof text, "%.*s", STR_ARG(value));
    ledger_abort(txn);
    return err ? NULL : text;
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
    CHECK_STR("who", row.worker_id, STR(WORKER));
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
    CHECK_ERR("a longer varint that says the same",
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

/* -- the key-value file -- */

TEST(case_108_what_was_put_is_there_and_what_was_deleted_is_not)
{
    struct ledger_db *db = opened(new_path());
    struct ledger_txn *txn;
    struct ledger_key key = key_of(LEDGER_WORKERS, "w1");

    put(db, LEDGER_WORKERS, "w1", "v1");
    CHECK_TEXT("there", value_at(db, LEDGER_WORKERS, "w1"), "v1");
    txn = begun(db, true);
    CHECK_OK("deleted", ledger_delete(txn, &key));
    CHECK_OK("committed", ledger_commit(txn));
    CHECK("absent", !value_at(db, LEDGER_WORKERS, "w1"));
    ledger_db_close(db);
}

TEST(case_109_many_are_given_in_the_order_asked_for_with_gaps)
{
    struct ledger_db *db = opened(new_path());
    struct ledger_key keys[] = {key_of(LEDGER_WORKERS, "w3"), key_of(LEDGER_WORKERS, "missing"),
                                key_of(LEDGER_WORKERS, "w0"), key_of(LEDGER_WORKERS, "w4")};
    struct str values[4];
    bool found[4];
    struct ledger_txn *txn;

    for (int i = 0; i < 5; i++)
        put(db, LEDGER_WORKERS, (const char *[]){"w0", "w1", "w2", "w3", "w4"}[i],
            (const char *[]){"v0", "v1", "v2", "v3", "v4"}[i]);
    txn = begun(db, false);
    CHECK_OK("got", ledger_get_many(txn, keys, ARRAY_LEN(keys), values, found));
    CHECK("a gap", found[0] && !found[1] && found[2] && found[3]);
    CHECK_STR("first", values[0], STR("v3"));
    CHECK_STR("third", values[2], STR("v0"));
    CHECK_STR("last", values[3], STR("v4"));
    ledger_abort(txn);
    ledger_db_close(db);
}

static bool count_one(void *context, const struct ledger_key *key, struct str value)
{
    size_t *count = context;
    CHECK("a path", key->part_count >= 1 && value.len > 0);
    (*count)++;
    return true;
}

static size_t scanned(struct ledger_db *db, struct ledger_key prefix, size_t limit)
{
    struct ledger_txn *txn = begun(db, false);
    size_t count = 0;

    CHECK_OK("scanned", ledger_scan(txn, &prefix, limit, count_one, &count));
    ledger_abort(txn);
    return count;
}

TEST(case_110_a_scan_stays_in_its_space_its_run_and_its_limit)
{
    struct ledger_db *db = opened(new_path());
    struct ledger_key item = {
        .space = LEDGER_WORK, .run = STR(RUN), .parts = {STR("item"), STR("ab")}, .part_count = 2};
    struct ledger_key items = {
        .space = LEDGER_WORK, .run = STR(RUN), .parts = {STR("item")}, .part_count = 1};
    struct ledger_txn *txn;
    char name[16];

    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "w%d", i);
        put(db, LEDGER_WORKERS, name, "x");
    }
    put(db, LEDGER_RUNS, "r0", "x");
    put(db, LEDGER_RUNS, "r1", "x");
    CHECK_SIZE("three", scanned(db, (struct ledger_key){.space = LEDGER_WORKERS}, 100), 3);
    CHECK_SIZE("two", scanned(db, (struct ledger_key){.space = LEDGER_RUNS}, 100), 2);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "h%d", i);
        put(db, LEDGER_HEARTBEATS, name, "x");
    }
    CHECK_SIZE("limit", scanned(db, (struct ledger_key){.space = LEDGER_HEARTBEATS}, 3), 3);
    txn = begun(db, true);
    CHECK_OK("put", ledger_put(txn, &item, STR("x")));
    item.parts[0] = STR("items");
    CHECK_OK("put", ledger_put(txn, &item, STR("x")));
    item.run = STR(WORKER);
    item.parts[0] = STR("item");
    CHECK_OK("put", ledger_put(txn, &item, STR("x")));
    CHECK_OK("committed", ledger_commit(txn));
    CHECK_SIZE("of its run, below its first part", scanned(db, items, 100), 1);
    ledger_db_close(db);
}

TEST(cases_111_112_a_swap_compares_exact_bytes)
{
    struct ledger_db *db = opened(new_path());
    struct ledger_key key = key_of(LEDGER_META, "k");
    struct str v1 = STR("v1"), v2 = STR("v2"), v3 = STR("v3");
    struct ledger_txn *txn = begun(db, true);
    bool swapped = false;

    CHECK_OK("insert", ledger_swap(txn, &key, NULL, &v1, &swapped));
    CHECK("111: absent", swapped);
    CHECK_OK("insert", ledger_swap(txn, &key, NULL, &v2, &swapped));
    CHECK("111: there", !swapped);
    CHECK_OK("swap", ledger_swap(txn, &key, &v1, &v2, &swapped));
    CHECK("112: as expected", swapped);
    CHECK_OK("swap", ledger_swap(txn, &key, &v1, &v3, &swapped));
    CHECK("112: not as expected", !swapped);
    CHECK_OK("committed", ledger_commit(txn));
    CHECK_TEXT("112: stays", value_at(db, LEDGER_META, "k"), "v2");
    txn = begun(db, true);
    CHECK_OK("swap", ledger_swap(txn, &key, &v2, NULL, &swapped));
    CHECK("112: to absent", swapped);
    CHECK_OK("committed", ledger_commit(txn));
    CHECK("112: deleted", !value_at(db, LEDGER_META, "k"));
    ledger_db_close(db);
}

TEST(case_113_an_abort_leaves_no_trace)
{
    const char *path = new_path();
    struct ledger_db *db = opened(path);
    struct ledger_txn *txn = begun(db, true);
    char name[16];

    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "w%d", i);
        struct ledger_key key = key_of(LEDGER_WORKERS, name);
        CHECK_OK("put", ledger_put(txn, &key, STR("x")));
    }
    ledger_abort(txn);
    ledger_db_close(db);
    db = opened(path);
    CHECK_SIZE("none", scanned(db, (struct ledger_key){.space = LEDGER_WORKERS}, 100), 0);
    ledger_db_close(db);
}

struct heard {
    size_t puts, deletes;
    char last[32];
};
static void hear(void *context, const struct ledger_key *key, bool deleted)
{
    struct heard *heard = context;
    *(deleted ? &heard->deletes : &heard->puts) += 1;
    snprintf(heard->last, sizeof heard->last, "%.*s", STR_ARG(key->parts[0]));
}

TEST(case_114_changes_are_told_after_the_commit_and_only_then)
{
    struct ledger_db *db = opened(new_path());
    struct heard one = {0}, two = {0}, other = {0};
    struct ledger_key key = key_of(LEDGER_WORKERS, "w");
    struct ledger_txn *txn;

    CHECK_OK("watch", ledger_watch(db, LEDGER_WORKERS, hear, &one));
    CHECK_OK("watch", ledger_watch(db, LEDGER_WORKERS, hear, &two));
    CHECK_OK("watch", ledger_watch(db, LEDGER_META, hear, &other));
    txn = begun(db, true);
    CHECK_OK("put", ledger_put(txn, &key, STR("x")));
    CHECK_SIZE("not yet", one.puts, 0);
    CHECK_OK("committed", ledger_commit(txn));
    CHECK_SIZE("now", one.puts, 1);
    CHECK_SIZE("both", two.puts, 1);
    CHECK_TEXT("which", one.last, "w");
    CHECK_SIZE("another space is silent", other.puts, 0);
    txn = begun(db, true);
    CHECK_OK("put", ledger_put(txn, &key, STR("y")));
    ledger_abort(txn);
    CHECK_SIZE("not of an abort", one.puts, 1);
    txn = begun(db, true);
    CHECK_OK("deleted", ledger_delete(txn, &key));
    CHECK_OK("again", ledger_delete(txn, &key));
    CHECK_OK("committed", ledger_commit(txn));
    CHECK_SIZE("once", one.deletes, 1);
    ledger_db_close(db);
}

TEST(case_115_an_unknown_name_space_is_named)
{
    enum ledger_space space;
    struct note note = {""};

    CHECK_OK("known", ledger_space_parse(STR("queue_items"), &space, &note));
    CHECK_U64("which", space, LEDGER_QUEUE_ITEMS);
    CHECK_ERR("unknown", ledger_space_parse(STR("wrokers"), &space, &note), ERR_NOT_FOUND);
    CHECK_HAS("named", note.text, "wrokers");
    CHECK_HAS("with those there are", note.text, "workers");
    CHECK_HAS("all of them", note.text, "runs");
}

TEST(case_116_rows_of_every_space_survive_reopening)
{
    const char *path = new_path();
    struct ledger_db *db = opened(path);

    for (int i = 0; i < LEDGER_SPACE_COUNT; i++)
        put(db, (enum ledger_space)i, "k", ledger_space_name((enum ledger_space)i));
    ledger_db_close(db);
    db = opened(path);
    for (int i = 0; i < LEDGER_SPACE_COUNT; i++)
        CHECK_TEXT("there", value_at(db, (enum ledger_space)i, "k"),
                   ledger_space_name((enum ledger_space)i));
    ledger_db_close(db);
}

TEST(case_117_a_path_is_printable)
{
    static const struct {
        const char *why;
        struct str part;
        enum err want;
    } cases[] = {
        {"NUL", {"a\0b", 3}, ERR_INVALID},   {"0x01", {"\x01", 1}, ERR_INVALID},
        {"0x7F", {"\x7f", 1}, ERR_INVALID},  {"no ASCII", {"\xc3\xa9", 2}, ERR_INVALID},
        {"hex", {"00ff", 4}, ERR_NOT_FOUND}, {"a blank", {" ", 1}, ERR_NOT_FOUND},
    };
    static char long_part[LEDGER_KEY_MAX];
    struct ledger_db *db = opened(new_path());
    struct ledger_txn *txn = begun(db, true);
    struct ledger_key key = {.space = LEDGER_EPOCH, .run = STR(RUN)};
    struct str value;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct ledger_key bad = {
            .space = LEDGER_WORKERS, .parts = {cases[i].part}, .part_count = 1};
        CHECK_ERR(cases[i].why, ledger_get(txn, &bad, &value), cases[i].want);
    }
    CHECK_OK("an empty path is a key", ledger_put(txn, &key, STR("7")));
    CHECK_OK("there", ledger_get(txn, &key, &value));
    memset(long_part, 'x', sizeof long_part);
    key.parts[0] = str_of(long_part, sizeof long_part);
    key.part_count = 1;
    CHECK_ERR("too long", ledger_put(txn, &key, STR("7")), ERR_TOO_LARGE);
    ledger_abort(txn);
    ledger_db_close(db);
}

TEST(one_process_has_the_file)
{
    const char *path = new_path();
    struct ledger_db *db = opened(path), *second = NULL;
    struct note note = {""};

    CHECK_ERR("held", ledger_db_open(fs_real(), path, FILE_BYTES, &second, &note), ERR_BUSY);
    CHECK_HAS("says so", note.text, "another");
    ledger_db_close(db);
    ledger_db_close(opened(path));
}

/* -- damage -- */

static void write_file(const char *path, const char *bytes, size_t len)
{
    FILE *file = fopen(path, "w");

    CHECK("opened", file != NULL);
    CHECK_SIZE("written", fwrite(bytes, 1, len, file), len);
    CHECK("closed", fclose(file) == 0);
}

/* A file with all that there is in one: several levels, freed pages, a value of its own pages. */
static void make_sample(const char *path, struct buf *ret_bytes)
{
    static char big[20000];
    struct ledger_db *db = opened(path);
    char name[32];

    memset(big, 'b', sizeof big - 1);
    for (int round = 0; round < 4; round++) {
        struct ledger_txn *txn = begun(db, true);
        for (int i = 0; i < (round == 3 ? 3000 : 200); i++) {
            snprintf(name, sizeof name, "worker-%d", i);
            struct ledger_key key = key_of(i % 2 ? LEDGER_WORKERS : LEDGER_HEARTBEATS, name);
            if (round == 3 && i % 3 == 0)
                CHECK_OK("deleted", ledger_delete(txn, &key));
            else
                CHECK_OK("put", ledger_put(txn, &key,
                                           STR("a row of some sixty bytes, as they are "
                                               "in a ledger of workers")));
        }
        struct ledger_key key = key_of(LEDGER_PLUGINS, "big");
        CHECK_OK("put", ledger_put(txn, &key, str_from(big)));
        CHECK_OK("committed", ledger_commit(txn));
    }
    ledger_db_close(db);
    CHECK_OK("read", fs_read_whole(fs_real(), path, FILE_BYTES, ret_bytes));
}

static bool see_one(void *context, const struct ledger_key *key, struct str value)
{
    size_t *sum = context;
    for (size_t i = 0; i < value.len; i++) *sum += (uint8_t)value.at[i];
    *sum += key->part_count;
    return true;
}

/* What the ledger would do with a file that was found good. Any answer is fine, the end is not. */
static void use_all(const char *path)
{
    struct ledger_db *db = NULL;
    struct ledger_txn *txn;
    size_t sum = 0;

    if (ledger_db_open(fs_real(), path, FILE_BYTES, &db, NULL)) return;
    for (int i = 0; i < LEDGER_SPACE_COUNT; i++) {
        struct ledger_key all = {.space = (enum ledger_space)i};
        if (ledger_begin(db, false, &txn)) continue;
        (void)ledger_scan(txn, &all, SIZE_MAX, see_one, &sum);
        ledger_abort(txn);
    }
    if (!ledger_begin(db, true, &txn)) {
        char name[32];
        for (int i = 0; i < 300; i++) {
            snprintf(name, sizeof name, "worker-%d", i);
            struct ledger_key key = key_of(LEDGER_WORKERS, name);
            if (ledger_put(txn, &key, STR("another row"))) break;
        }
        (void)ledger_commit(txn);
    }
    ledger_db_close(db);
}

TEST(a_damaged_file_is_found_out_before_it_is_mapped)
{
    enum { CASES = 400 };
    struct buf sample;
    struct prng prng;
    size_t found = 0;
    char path[4200];

    snprintf(path, sizeof path, "%s", new_path());
    buf_init(&sample, FILE_BYTES);
    make_sample(path, &sample);
    CHECK_OK("whole", ledger_check(fs_real(), path, NULL));
    prng_seed(&prng, test_seed());
    for (int i = 0; i < CASES; i++) {
        char *bytes = malloc(sample.len);
        size_t len = sample.len;
        struct note note = {""};
        enum err err;

        CHECK("memory", bytes != NULL);
        memcpy(bytes, sample.data, len);
        if (prng_below(&prng, 4) == 0) {
            len = 1 + prng_below(&prng, len - 1);
        } else {
            /* Mostly where the structure is: the first bytes and the node offsets of a page. */
            size_t page = prng_below(&prng, len / 4096) * 4096;
            size_t at = page + prng_below(&prng, prng_below(&prng, 3) ? 160 : 4096);
            bytes[at] = (char)prng_u64(&prng);
        }
        write_file(path, bytes, len);
        free(bytes);
        err = ledger_check(fs_real(), path, &note);
        CHECK("an answer", !err || err == ERR_CORRUPT || err == ERR_CONFLICT);
        CHECK("with a reason", !err || note.text[0]);
        found += err != ERR_OK;
        use_all(path);
    }
    CHECK("much of it is found", found > CASES / 10);
    buf_deinit(&sample);
}

TEST(a_page_in_two_places_is_damage)
{
    enum { PAGE = 4096, BRANCH = 1 };
    char path[4200];
    struct note note = {""};
    struct buf sample;
    bool found = false;

    snprintf(path, sizeof path, "%s", new_path());
    buf_init(&sample, FILE_BYTES);
    make_sample(path, &sample);
    for (size_t at = 2 * PAGE; at < sample.len; at += PAGE) {
        char *page = sample.data + at;
        uint16_t flags, first, second;

        memcpy(&flags, page + 10, 2);
        memcpy(&first, page + 16, 2);
        memcpy(&second, page + 18, 2);
        if (flags != BRANCH) continue;
        memcpy(page + first, page + second, 6); /* its number of the page below */
        found = true;
    }
    CHECK("there is one", found);
    write_file(path, sample.data, sample.len);
    CHECK_ERR("found out", ledger_check(fs_real(), path, &note), ERR_CORRUPT);
    CHECK_HAS("why", note.text, "is used twice");
    buf_deinit(&sample);
}

TEST(what_is_not_lmdbs_is_called_so_and_nothing_is_no_damage)
{
    const char *path = new_path();
    static char zeros[8192];
    struct note note = {""};

    CHECK_ERR("absent", ledger_check(fs_real(), path, &note), ERR_NOT_FOUND);
    write_file(path, "", 0);
    CHECK_ERR("empty", ledger_check(fs_real(), path, &note), ERR_NOT_FOUND);
    write_file(path, "redb, or whatever", 17);
    CHECK_ERR("short", ledger_check(fs_real(), path, &note), ERR_CONFLICT);
    CHECK_HAS("says so", note.text, "is no file of LMDB's");
    write_file(path, zeros, sizeof zeros);
    CHECK_ERR("zeros", ledger_check(fs_real(), path, &note), ERR_CONFLICT);
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
    struct ledger_db *db = opened(path);
    struct ledger_txn *txn = begun(db, false);
    struct ledger_key key = key_of(LEDGER_HEARTBEATS, id);
    struct heartbeat_row row = {0};
    struct str value;
    enum err err = ledger_get(txn, &key, &value);

    if (!err) CHECK_OK("a row", heartbeat_row_read(value, &row));
    ledger_abort(txn);
    ledger_db_close(db);
    return err ? 0 : row.received_at_ms;
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
    CHECK_SIZE("one worker waits", member_ledger_stats(ledger).waiting, 1);
    RIG_UNTIL("written", &rig, member_ledger_stats(ledger).batches == 1);
    CHECK_U64("two rows: the worker's and its last beat", member_ledger_stats(ledger).rows, 2);
    CHECK_SIZE("none waits", member_ledger_stats(ledger).waiting, 0);
    row = beat_of("second", 250);
    member_ledger_beat(ledger, &row);
    row = beat_of("second", 300);
    member_ledger_beat(ledger, &row);
    member_ledger_forget(ledger, STR(WORKER));
    member_ledger_close(ledger); /* writes what waits */
    rig_close(&rig);
    CHECK_U64("forgotten", received_of(path, WORKER), 0);
    CHECK_U64("the last ones too", received_of(path, "second"), 300);
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

TEST(what_finds_no_room_is_dropped_and_counted)
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
    CHECK_U64("who has a place keeps it", member_ledger_stats(ledger).dropped, 1);
    row = beat_of("not an id", 2);
    member_ledger_beat(ledger, &row);
    CHECK_U64("what cannot be a row", member_ledger_stats(ledger).dropped, 2);
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
    buf_init(&sample, FILE_BYTES);
    make_sample(path, &sample);
    write_file(path, sample.data, 3 * 4096);
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

/* A limit on the size of files stands for the disk. */
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

TEST(case_248_a_full_disk_disturbs_nobody_and_is_over_when_there_is_room)
{
    struct rig rig;
    struct member_ledger *ledger;
    struct heartbeat_row row = beat_of(WORKER, 100);
    char path[4200];

    snprintf(path, sizeof path, "%s", new_path());
    signal(SIGXFSZ, SIG_IGN);
    rig_open(&rig);
    limit_files(12000); /* the lock file fits, and two pages */
    ledger = ledger_on(&rig, (struct member_ledger_options){.path = path});
    member_ledger_beat(ledger, &row);
    RIG_UNTIL("fails", &rig, member_ledger_stats(ledger).failures >= 2);
    row = beat_of(WORKER, 200);
    member_ledger_beat(ledger, &row);
    CHECK("told", member_ledger_stats(ledger).in_trouble);
    CHECK_U64("nothing is lost of it", member_ledger_stats(ledger).dropped, 0);
    limit_files(RLIM_INFINITY);
    RIG_UNTIL("written again", &rig, member_ledger_stats(ledger).batches >= 2);
    CHECK("over", !member_ledger_stats(ledger).in_trouble);

    limit_files(100000); /* full once more, in the middle of its life */
    beat_all(ledger, 300);
    RIG_UNTIL("fails", &rig, member_ledger_stats(ledger).in_trouble);
    limit_files(RLIM_INFINITY);
    RIG_UNTIL("written again", &rig, member_ledger_stats(ledger).batches >= 3);
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
    CHECK_SIZE("nothing", member_ledger_stats(NULL).waiting, 0);
    member_ledger_close(NULL);
}
