/* SPDX-License-Identifier: Apache-2.0 */
/* The state file under every cut, every damaged byte, every failing call and power cuts. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/fault_fs.h"
#include "lib/test.h"
#include "provider/host/journal.h"
#include "sim/sim_fs.h"

#define PATH "/state"
enum { FIRST_SEAL = JOURNAL_HEAD + JOURNAL_BATCH_HEAD }; /* a new file ends with a seal */

struct heard {
    struct buf text; /* payloads, each with a newline */
};

static enum err hear(void *context, struct str payload, struct note *note)
{
    struct heard *heard = context;

    (void)note;
    if (payload.len == 0) return ERR_OK; /* a seal */
    CHECK_OK("read", buf_append(&heard->text, payload));
    return buf_append_byte(&heard->text, '\n');
}

static enum err open_journal(struct fs *fs, struct heard *heard, struct journal **ret,
                             struct journal_report *report, struct note *note)
{
    const struct journal_options options = {.fs = fs, .path = PATH, .salt = 99};

    buf_clear(&heard->text);
    note->text[0] = '\0';
    return journal_open(&options, hear, heard, ret, report, note);
}

static struct sim_fs *disk_open(const struct sim_fs_options *options, uint64_t seed)
{
    struct sim_fs *disk = NULL;
    struct prng prng;

    prng_seed(&prng, seed);
    CHECK_OK("disk", sim_fs_open(options, &prng, &disk));
    return disk;
}

/* The result of journal_open for a file of these bytes. */
static enum err open_bytes(struct str bytes, struct heard *heard, struct note *note)
{
    struct sim_fs *disk = disk_open(&(struct sim_fs_options){0}, 1);
    struct journal_report report;
    struct journal *j = NULL;
    enum err err;

    CHECK_OK("file", fs_publish(sim_fs_fs(disk), PATH, bytes, 0600, 1));
    err = open_journal(sim_fs_fs(disk), heard, &j, &report, note);
    journal_close(j);
    sim_fs_close(disk);
    return err;
}

/* Writes a file of three batches. `ends`: where each batch ends. */
static void make_file(struct buf *file, uint64_t ends[3], bool sealed)
{
    struct sim_fs *disk = disk_open(&(struct sim_fs_options){0}, 1);
    struct heard heard;
    struct journal_report report;
    struct journal *j = NULL;
    struct note note;

    buf_init(&heard.text, 1 << 20);
    CHECK_OK("open", open_journal(sim_fs_fs(disk), &heard, &j, &report, &note));
    CHECK("made", report.made);
    CHECK_OK("one", journal_append(j, STR("one"), &note));
    ends[0] = journal_size(j);
    CHECK_OK("two", journal_append(j, STR("two-two"), &note));
    ends[1] = journal_size(j);
    CHECK_OK("three", journal_append(j, STR("three, the longest"), &note));
    ends[2] = journal_size(j);
    if (!sealed) CHECK_OK("read", fs_read_whole(sim_fs_fs(disk), PATH, 1 << 20, file));
    journal_close(j);
    if (sealed) CHECK_OK("read", fs_read_whole(sim_fs_fs(disk), PATH, 1 << 20, file));
    buf_deinit(&heard.text);
    sim_fs_close(disk);
}

TEST(a_file_torn_at_any_byte_opens_with_what_was_whole)
{
    static const char *const wholes[] = {"", "one\n", "one\ntwo-two\n",
                                         "one\ntwo-two\nthree, the longest\n"};
    struct buf file;
    struct heard heard;
    uint64_t ends[3];

    buf_init(&file, 1 << 20);
    buf_init(&heard.text, 1 << 20);
    make_file(&file, ends, false);
    for (size_t cut = JOURNAL_HEAD; cut <= file.len; cut++) {
        struct sim_fs *disk = disk_open(&(struct sim_fs_options){0}, 1);
        struct fs *fs = sim_fs_fs(disk);
        struct journal_report report;
        struct journal *j = NULL;
        struct note note;
        size_t whole = cut >= ends[2] ? 3 : cut >= ends[1] ? 2 : cut >= ends[0] ? 1 : 0;

        CHECK_OK("put", fs_publish(fs, PATH, str_of(file.data, cut), 0600, 1));
        check_err(note.text, open_journal(fs, &heard, &j, &report, &note), ERR_OK, "open", __FILE__,
                  __LINE__);
        CHECK_STR("the complete part", buf_peek(&heard.text), str_from(wholes[whole]));
        CHECK_U64("the rest is reported", report.torn_bytes,
                  whole              ? cut - ends[whole - 1]
                  : cut < FIRST_SEAL ? cut - JOURNAL_HEAD
                                     : cut - FIRST_SEAL);
        CHECK_OK("it goes on", journal_append(j, STR("more"), &note));
        journal_close(j);
        CHECK_OK("again", open_journal(fs, &heard, &j, &report, &note));
        CHECK("both", str_ends(buf_peek(&heard.text), STR("more\n")));
        journal_close(j);
        sim_fs_close(disk);
    }
    buf_deinit(&file);
    buf_deinit(&heard.text);
}

TEST(a_damaged_byte_is_refused_with_its_place_and_never_loses_what_was_sealed)
{
    struct buf file;
    struct heard heard;
    uint64_t ends[3];

    buf_init(&file, 1 << 20);
    buf_init(&heard.text, 1 << 20);
    make_file(&file, ends, true);
    for (size_t at = 0; at < ends[2]; at++) {
        struct note note = {.text = ""};
        char offset[32];
        enum err err;

        file.data[at] ^= 0x20;
        err = open_bytes(buf_peek(&file), &heard, &note);
        file.data[at] ^= 0x20;
        CHECK("refused", err == ERR_CORRUPT || err == ERR_VERSION);
        if (at < JOURNAL_HEAD) continue;
        snprintf(offset, sizeof offset, "offset %llu",
                 (unsigned long long)(at < FIRST_SEAL ? JOURNAL_HEAD
                                      : at < ends[0]  ? FIRST_SEAL
                                      : at < ends[1]  ? ends[0]
                                                      : ends[1]));
        CHECK_HAS("where", note.text, offset);
    }
    for (size_t len = 0; len < JOURNAL_HEAD; len++) {
        struct note note = {.text = ""};

        CHECK_ERR("no such file", open_bytes(str_of(file.data, len), &heard, &note), ERR_CORRUPT);
    }
    buf_deinit(&file);
    buf_deinit(&heard.text);
}

TEST(bytes_of_a_client_are_never_read_as_a_batch)
{
    struct buf file, forged;
    struct heard heard;
    uint64_t ends[3];
    struct note note = {.text = ""};

    buf_init(&file, 1 << 20);
    buf_init(&forged, 1 << 20);
    buf_init(&heard.text, 1 << 20);
    make_file(&file, ends, false);
    /* A torn batch whose payload contains a valid batch of the same file. */
    buf_append(&forged, str_of(file.data, ends[1]));
    buf_append(&forged, STR("torn head................................"));
    buf_append(&forged, str_of(file.data + ends[1], ends[2] - ends[1]));
    CHECK_OK("a torn tail", open_bytes(buf_peek(&forged), &heard, &note));
    CHECK_STR("no more than was there", buf_peek(&heard.text), STR("one\ntwo-two\n"));
    buf_deinit(&file);
    buf_deinit(&forged);
    buf_deinit(&heard.text);
}

/* Appends numbers and sometimes creates new files; returns the last acknowledged number, and in
 * *ret_tried the last attempted one. */
static uint64_t work(struct fs *fs, uint64_t first, uint64_t *ret_tried)
{
    struct heard heard;
    struct journal_report report;
    struct journal *j = NULL;
    struct note note;
    uint64_t done = first, number = first;

    buf_init(&heard.text, 1 << 20);
    if (open_journal(fs, &heard, &j, &report, &note)) goto out;
    for (int i = 0; i < 12; i++) {
        char text[32];

        number++;
        snprintf(text, sizeof text, "%llu", (unsigned long long)number);
        *ret_tried = number;
        if (journal_append(j, str_from(text), &note)) break;
        done = number;
        if (i % 5 != 4) continue;
        if ((journal_rewrite(j, number, STR("new"), false, &note) ||
             journal_rewrite(j, 0, str_from(text), true, &note)) &&
            journal_failed(j))
            break;
    }
    journal_close(j);
out:
    buf_deinit(&heard.text);
    return done;
}

static uint64_t last_of(const struct heard *heard)
{
    struct str rest = str_trim(buf_peek(&heard->text)), line;
    uint64_t number = 0;

    while (rest.len > 0 && str_split(&rest, '\n', &line))
        if (!str_equal(line, STR("new"))) (void)str_to_u64(line, &number);
    return number;
}

TEST(power_cuts_lose_nothing_that_was_acknowledged)
{
    uint64_t seed = test_seed();

    for (uint64_t i = 0; i < 300; i++) {
        const struct sim_fs_options options = {.write_lost_per_million = 300000,
                                               .write_torn_per_million = 300000,
                                               .name_lost_per_million = 300000,
                                               .sync_fails_per_million = i % 3 ? 0 : 30000,
                                               .write_fails_per_million = i % 3 ? 0 : 20000};
        struct sim_fs *disk = disk_open(&options, seed + i);
        struct fault_fs fault;
        uint64_t done = 0;
        struct heard heard;

        buf_init(&heard.text, 1 << 20);
        fault_fs_init(&fault, sim_fs_fs(disk));
        for (int run = 0; run < 4; run++) {
            struct journal_report report;
            struct journal *j = NULL;
            uint64_t tried = done;
            struct note note;

            /* The process dies during some call: no later call reaches the disk. */
            fault_fs_arm(&fault,
                         (struct fault_fs_plan){.calls = FAULT_FS_ANY,
                                                .nth = 1 + (seed + i * 7 + (uint64_t)run * 13) % 60,
                                                .err = ERR_IO,
                                                .partial = (size_t)(i % 40),
                                                .from_then_on = true});
            done = work(fault_fs_fs(&fault), done, &tried);
            fault_fs_disarm(&fault);
            sim_fs_crash(disk);
            CHECK_OK("heal", sim_fs_set_options(disk, &(struct sim_fs_options){0}));
            if (open_journal(sim_fs_fs(disk), &heard, &j, &report, &note)) {
                fprintf(stderr, "seed %llu run %d: %s\n", (unsigned long long)(seed + i), run,
                        note.text);
                CHECK("opens", false);
            }
            CHECK("nothing acknowledged is lost", last_of(&heard) >= done);
            CHECK("nothing is made up", last_of(&heard) <= tried);
            done = last_of(&heard);
            journal_close(j);
            CHECK_OK("harsh again", sim_fs_set_options(disk, &options));
        }
        buf_deinit(&heard.text);
        sim_fs_close(disk);
    }
}

/* The kernel may hold a killed process's writes in memory only. The next process answers from them,
 * so it must make them durable first. */
TEST(records_that_a_start_has_read_survive_a_power_cut)
{
    const struct sim_fs_options harsh = {.write_lost_per_million = 1000000,
                                         .name_lost_per_million = 1000000};

    for (uint64_t nth = 1; nth < 60; nth++) {
        struct sim_fs *disk = disk_open(&harsh, nth);
        struct heard heard;
        struct fault_fs fault;
        uint64_t tried = 0, seen;
        struct journal_report report;
        struct journal *j = NULL;
        struct note note;

        buf_init(&heard.text, 1 << 20);
        fault_fs_init(&fault, sim_fs_fs(disk));
        fault_fs_arm(&fault,
                     (struct fault_fs_plan){
                         .calls = FAULT_FS_ANY, .nth = nth, .err = ERR_IO, .from_then_on = true});
        (void)work(fault_fs_fs(&fault), 0, &tried);
        CHECK_OK("started", open_journal(sim_fs_fs(disk), &heard, &j, &report, &note));
        seen = last_of(&heard);
        sim_fs_crash(disk);
        journal_close(j);
        CHECK_OK("started again", open_journal(sim_fs_fs(disk), &heard, &j, &report, &note));
        CHECK_U64("all that was read", last_of(&heard), seen);
        journal_close(j);
        buf_deinit(&heard.text);
        sim_fs_close(disk);
    }
}

TEST(a_failed_sync_is_final)
{
    struct sim_fs *disk = disk_open(&(struct sim_fs_options){0}, 1);
    struct fault_fs fault;
    struct heard heard;
    struct journal_report report;
    struct journal *j = NULL;
    struct note note;

    buf_init(&heard.text, 1 << 20);
    fault_fs_init(&fault, sim_fs_fs(disk));
    CHECK_OK("open", open_journal(fault_fs_fs(&fault), &heard, &j, &report, &note));
    fault_fs_arm(&fault, (struct fault_fs_plan){.calls = FAULT_FS_SYNC, .nth = 1, .err = ERR_IO});
    CHECK_ERR("fails", journal_append(j, STR("x"), &note), ERR_IO);
    CHECK_ERR("and stays so", journal_append(j, STR("y"), &note), ERR_IO);
    CHECK_ERR("the next file too", journal_rewrite(j, 5, STR_EMPTY, false, &note), ERR_IO);
    journal_close(j);
    buf_deinit(&heard.text);
    sim_fs_close(disk);
}
