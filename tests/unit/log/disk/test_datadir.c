/* SPDX-License-Identifier: Apache-2.0 */
/* The data directory: created, read, adopted, checked, forced, replaced. Power cuts are in
 * tests/fault/log. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "disk_rig.h"
#include "log/datadir_internal.h"
#include "log/envelope.h"
#include "log/meta.h"
#include "snap_rig.h"

static const struct sim_fs_options perfect = {0};
#define DIR "/node/data"

static void bed_open(struct rig *rig, uint64_t seed)
{
    rig_open(rig, &perfect, seed);
    CHECK_OK("parent", fs_make_dirs(rig->fs, "/node", 0700));
}

static struct members founders_of(size_t count)
{
    struct members members = {.count = count};
    for (size_t i = 0; i < count; i++) {
        members.at[i].id = count == 1 ? 0 : 100 + i;
        members.at[i].role = MEMBER_VOTER;
        snprintf(members.at[i].address, sizeof members.at[i].address, "10.0.0.%zu:7791", i + 1);
    }
    return members;
}

static enum err format(struct rig *rig, const struct members *founders, uint64_t replica,
                       uint64_t cluster, struct datadir *ret, struct note *note)
{
    return datadir_format(&(struct datadir_format_options){.fs = rig->fs,
                                                           .entropy = &rig->entropy.base,
                                                           .dir = DIR,
                                                           .founders = founders,
                                                           .replica_id = replica,
                                                           .cluster_id = cluster},
                          ret, note);
}

struct content {
    struct vote vote;
    size_t entries;
    uint64_t last, last_term;
    struct members members; /* of the last change */
    bool recovers;          /* the last entry recovers the machine */
    uint32_t level;         /* of the last entry that recovers */
    struct machine_recovery recovery;
    struct wal_report report;
};

static enum err note_entry(void *context, const struct wal_found *found)
{
    struct content *content = context;
    content->entries++;
    content->last = found->entry.index;
    content->last_term = found->entry.term;
    struct log_envelope envelope;
    content->recovers = !found->reset && found->entry.kind == ENTRY_COMMAND &&
                        !envelope_parse(found->entry.bytes, &envelope, NULL) &&
                        envelope.machine == ENVELOPE_MACHINE_META &&
                        meta_recovery(envelope.command, &content->recovery);
    if (content->recovers) content->level = envelope.level;
    if (!found->reset && found->entry.kind == ENTRY_CHANGE)
        CHECK_OK("a configuration", members_decode(found->entry.bytes, &content->members));
    return ERR_OK;
}

static struct content content_of(struct rig *rig, const struct datadir *datadir)
{
    struct content content = {.entries = 0};
    struct vote_file *file;
    struct wal *wal;
    struct note note = {""};
    struct wal_options options = {.fs = rig->fs,
                                  .dir = DIR,
                                  .replica_id = datadir->replica_id,
                                  .cluster_id = datadir->cluster_id};
    CHECK_OK("vote", vote_open(rig->fs, DIR, true, &file, &content.vote, &note));
    vote_close(file);
    CHECK_OK("log", wal_open(&options, true, note_entry, &content, &wal, &content.report, &note));
    wal_close(wal);
    return content;
}

static void put_file(struct rig *rig, const char *path, struct str text)
{
    struct fs_file *file;
    CHECK_OK("open", fs_open(rig->fs, path, FS_WRITE | FS_CREATE | FS_TRUNCATE, 0600, &file));
    CHECK_OK("write", fs_write_at(rig->fs, file, 0, text));
    fs_close(rig->fs, file);
}

/* -- FORMAT -- */

TEST(format_is_read_as_it_was_written)
{
    struct datadir got,
        datadir = {.replica_id = 0x8c1f0e5b7a3d2240, .cluster_id = 0x19d2c07be4aa6f31};
    char text[DATADIR_TEXT_CAP];
    size_t len = datadir_text(&datadir, text);
    CHECK_STR("the text", str_of(text, len),
              STR("muster-data 1\nreplica 8c1f0e5b7a3d2240\ncluster 19d2c07be4aa6f31\n"
                  "check 3fe0096d\n"));
    CHECK_OK("reads", datadir_parse(str_of(text, len), &got));
    CHECK("equal", got.replica_id == datadir.replica_id && got.cluster_id == datadir.cluster_id);
    for (size_t i = 0; i < len; i++) {
        CHECK_ERR("cut", datadir_parse(str_of(text, i), &got), ERR_CORRUPT);
        for (int bit = 0; bit < 8; bit++) {
            text[i] = (char)(text[i] ^ 1 << bit);
            enum err err = datadir_parse(str_of(text, len), &got);
            /* "muster-data 3" differs from 1 by one bit, and is another format. */
            CHECK("no bit may change", err == ERR_CORRUPT || (i == 12 && err == ERR_VERSION));
            text[i] = (char)(text[i] ^ 1 << bit);
        }
    }
    static const struct {
        const char *text;
        enum err err;
    } cases[] = {
        {"", ERR_CORRUPT},
        {"muster-data 2\n", ERR_VERSION},
        {"muster-data 12\nwhatever comes then\n", ERR_VERSION},
        {"muster-data x\n", ERR_CORRUPT},
        {"muster-data 1", ERR_CORRUPT},
        {"muster-data 1\r\nreplica 0000000000000001\n", ERR_CORRUPT},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_ERR(cases[i].text, datadir_parse(str_from(cases[i].text), &got), cases[i].err);
    /* no replica has identity 0 */
    len = datadir_text(&(struct datadir){.replica_id = 0, .cluster_id = 1}, text);
    CHECK_ERR("nobody's", datadir_parse(str_of(text, len), &got), ERR_CORRUPT);
}

/* -- making -- */

TEST(a_founder_begins_with_term_one_and_its_configuration)
{
    struct rig rig;
    struct note note = {""};
    struct datadir made, read;
    struct members founders = founders_of(1);
    bed_open(&rig, 1);
    CHECK_ERR("not there yet", datadir_read(rig.fs, DIR, &read, &note), ERR_NOT_FOUND);
    enum err err = format(&rig, &founders, 0, 0, &made, &note);
    if (err) print_message("%s\n", note.text);
    CHECK_OK("made", err);
    CHECK("identities are drawn", made.replica_id != 0 && made.cluster_id != 0);
    CHECK_OK("read", datadir_read(rig.fs, DIR, &read, &note));
    CHECK("the same", memcmp(&made, &read, sizeof made) == 0);
    struct content content = content_of(&rig, &made);
    CHECK_U64("term", content.vote.term, 1);
    CHECK_U64("voted for nobody", content.vote.candidate, 0);
    CHECK_U64("one entry", content.entries, 1);
    CHECK_U64("at index 1", content.last, 1);
    CHECK_U64("of term 1", content.last_term, 1);
    CHECK_U64("one member", content.members.count, 1);
    CHECK_U64("itself", content.members.at[0].id, made.replica_id);
    CHECK_TEXT("its address", content.members.at[0].address, "10.0.0.1:7791");
    CHECK_ERR("not twice", format(&rig, &founders, 0, 0, &made, &note), ERR_EXISTS);
    rig_close(&rig);
}

TEST(several_founders_hold_the_same_configuration)
{
    struct rig rig;
    struct note note = {""};
    struct datadir made;
    struct members founders = founders_of(3);
    bed_open(&rig, 2);
    CHECK_OK("made", format(&rig, &founders, 101, 55, &made, &note));
    CHECK("as asked", made.replica_id == 101 && made.cluster_id == 55);
    struct content content = content_of(&rig, &made);
    CHECK_U64("three", content.members.count, 3);
    CHECK_U64("in order", content.members.at[2].id, 102);
    rig_close(&rig);
}

TEST(a_joiner_is_empty)
{
    struct rig rig;
    struct note note = {""};
    struct datadir made, read;
    bed_open(&rig, 3);
    CHECK_OK("made", format(&rig, NULL, 0, 0, &made, &note));
    CHECK_U64("of no cluster", made.cluster_id, 0);
    struct content content = content_of(&rig, &made);
    CHECK_U64("term", content.vote.term, 0);
    CHECK_U64("no entry", content.entries, 0);
    CHECK_OK("adopts", datadir_adopt(rig.fs, DIR, 77, 1, &note));
    CHECK_OK("again", datadir_adopt(rig.fs, DIR, 77, 2, &note));
    CHECK_OK("read", datadir_read(rig.fs, DIR, &read, &note));
    CHECK("the cluster is known", read.cluster_id == 77 && read.replica_id == made.replica_id);
    CHECK_ERR("not another", datadir_adopt(rig.fs, DIR, 78, 3, &note), ERR_CONFLICT);
    CHECK_HAS("which", note.text, "of cluster 000000000000004d");
    rig_close(&rig);
}

TEST(founders_that_make_no_sense_are_refused)
{
    struct rig rig;
    struct note note = {""};
    struct datadir made;
    struct members founders = founders_of(3);
    bed_open(&rig, 4);
    CHECK_ERR("not among them", format(&rig, &founders, 999, 1, &made, &note), ERR_INVALID);
    founders.at[1].id = 0;
    CHECK_ERR("no id", format(&rig, &founders, 100, 1, &made, &note), ERR_INVALID);
    founders.at[1].id = 100;
    CHECK_ERR("twice", format(&rig, &founders, 100, 1, &made, &note), ERR_INVALID);
    founders = founders_of(3);
    founders.at[2].role = MEMBER_LEARNER;
    CHECK_ERR("a learner", format(&rig, &founders, 100, 1, &made, &note), ERR_INVALID);
    founders = founders_of(3);
    founders.at[2].address[0] = '\0';
    CHECK_ERR("no address", format(&rig, &founders, 100, 1, &made, &note), ERR_INVALID);
    founders = founders_of(8);
    CHECK_ERR("too many", format(&rig, &founders, 100, 1, &made, &note), ERR_INVALID);
    founders = founders_of(7);
    CHECK_OK("seven may", format(&rig, &founders, 100, 1, &made, &note));
    rig_close(&rig);
}

TEST(data_without_a_format_file_is_not_overwritten)
{
    struct rig rig;
    struct note note = {""};
    struct datadir made;
    bed_open(&rig, 5);
    CHECK_OK("made", format(&rig, NULL, 0, 0, &made, &note));
    CHECK_OK("lost", fs_remove(rig.fs, DIR "/FORMAT"));
    CHECK_ERR("refused", format(&rig, NULL, 0, 0, &made, &note), ERR_EXISTS);
    CHECK_HAS("why", note.text, "has no FORMAT");
    put_file(&rig, DIR "/FORMAT.new", STR("half made\n"));
    CHECK_ERR("half made is not made", datadir_read(rig.fs, DIR, &made, &note), ERR_NOT_FOUND);
    CHECK_OK("but created again", format(&rig, NULL, 0, 0, &made, &note));
    CHECK_OK("read", datadir_read(rig.fs, DIR, &made, &note));
    rig_close(&rig);
}

TEST(a_directory_that_lacks_a_part_is_damaged)
{
    static const struct {
        const char *path, *text;
        enum err err;
    } cases[] = {
        {"log/VOTE", NULL, ERR_CORRUPT},
        {"log/FORMAT", NULL, ERR_CORRUPT},
        {"snap/FORMAT", NULL, ERR_CORRUPT},
        {"log/FORMAT", "muster-log 2\n", ERR_VERSION},
        {"snap/FORMAT", "muster-snap 2\n", ERR_VERSION},
        {"log/FORMAT", "muster-snap 1\n", ERR_CORRUPT},
        {"FORMAT", "muster-data 2\n", ERR_VERSION},
        {"FORMAT", "", ERR_CORRUPT},
        {"FORMAT.new", "", ERR_NOT_READY},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig rig;
        struct note note = {""};
        struct datadir made, read = {.replica_id = 5};
        char path[64];
        bed_open(&rig, 6);
        CHECK_OK("made", format(&rig, NULL, 0, 0, &made, &note));
        snprintf(path, sizeof path, DIR "/%s", cases[i].path);
        if (cases[i].text)
            put_file(&rig, path, str_from(cases[i].text));
        else
            CHECK_OK("remove", fs_remove(rig.fs, path));
        CHECK_ERR(path, datadir_read(rig.fs, DIR, &read, &note), cases[i].err);
        CHECK_HAS("which", note.text, path);
        CHECK_U64("untouched", read.replica_id, 5);
        rig_close(&rig);
    }
}

/* -- check -- */

static enum err check(struct rig *rig, struct buf *report, struct note *note)
{
    buf_clear(report);
    note->text[0] = '\0';
    enum err err = datadir_check(rig->fs, DIR, report, note);
    if (buf_append_byte(report, '\0') == ERR_OK) report->len--;
    return err;
}

/* A log of 1..9 in two segments, a snapshot at 4. */
static void fill(struct rig *rig, struct datadir *ret_datadir)
{
    struct note note = {""};
    struct members founders = founders_of(1);
    struct wal *wal;
    CHECK_OK("made", format(rig, &founders, 0, 0, ret_datadir, &note));
    struct wal_options options = {.fs = rig->fs,
                                  .entropy = &rig->entropy.base,
                                  .dir = DIR,
                                  .replica_id = ret_datadir->replica_id,
                                  .segment_bytes = RIG_SEGMENT};
    CHECK_OK("open", wal_open(&options, false, NULL, NULL, &wal, NULL, &note));
    CHECK_OK("append", rig_append(wal, (struct rig_append){2, 1, 8, 9000}, NULL, NULL));
    CHECK_U64("two", wal_stats(wal).segments, 2);
    wal_close(wal);
    CHECK_OK("snapshot", snap_rig_write(rig->fs, DIR, 4, 1, &note));
}

TEST(a_sound_directory_checks)
{
    struct rig rig;
    struct note note;
    struct datadir datadir;
    struct buf report;
    bed_open(&rig, 7);
    buf_init(&report, 1 << 16);
    CHECK_ERR("no directory", check(&rig, &report, &note), ERR_NOT_FOUND);
    fill(&rig, &datadir);
    enum err err = check(&rig, &report, &note);
    if (err) print_message("%s", report.data);
    CHECK_OK("sound", err);
    CHECK_HAS("entries", report.data, "log: entries 1 to 9, ");
    CHECK_HAS("segments", report.data, " in 2 segments, 0 spare");
    CHECK_HAS("snapshot", report.data, "snapshot: index 4, term 1, ");
    CHECK_HAS("vote", report.data, "vote: term 1, for 0000000000000000");
    CHECK_HAS("summary", report.data, "all of it is well");
    struct fs_lock *lock;
    CHECK_OK("in use", fs_lock_dir(rig.fs, DIR, &lock, &note));
    CHECK_ERR("refused", check(&rig, &report, &note), ERR_BUSY);
    fs_unlock(rig.fs, lock);
    buf_deinit(&report);
    rig_close(&rig);
}

static void damage(struct rig *rig, const char *path, uint64_t offset)
{
    struct fs_file *file;
    char byte;
    size_t got;
    CHECK_OK("open", fs_open(rig->fs, path, FS_READ | FS_WRITE, 0, &file));
    CHECK_OK("read", fs_read_at(rig->fs, file, offset, &byte, 1, &got));
    byte = (char)(byte ^ 1);
    CHECK_OK("write", fs_write_at(rig->fs, file, offset, str_of(&byte, 1)));
    fs_close(rig->fs, file);
}

TEST(every_finding_is_reported)
{
    struct rig rig;
    struct note note;
    struct datadir datadir;
    struct buf report;
    bed_open(&rig, 8);
    buf_init(&report, 1 << 16);
    fill(&rig, &datadir);
    damage(&rig, DIR "/log/0000000000000001.seg", 5000);
    damage(&rig, DIR "/log/VOTE", 30);
    damage(&rig, DIR "/log/VOTE", 4096 + 30);
    damage(&rig, DIR "/snap/0000000000000004-0000000000000001.snap", 400);
    CHECK_ERR("bad", check(&rig, &report, &note), ERR_CORRUPT);
    CHECK_HAS("how many", note.text, "3 findings");
    CHECK_HAS("the log", report.data, "bad: " DIR "/log/0000000000000001.seg: offset 4");
    CHECK_HAS("the vote", report.data, "bad: " DIR "/log/VOTE");
    CHECK_HAS("the snapshot", report.data,
              "bad: " DIR "/snap/0000000000000004-0000000000000001.snap: offset ");
    damage(&rig, DIR "/FORMAT", 20);
    CHECK_ERR("bad", check(&rig, &report, &note), ERR_CORRUPT);
    CHECK_HAS("the file", report.data, "bad: " DIR "/FORMAT: ");
    buf_deinit(&report);
    rig_close(&rig);
}

TEST(a_log_that_does_not_join_its_snapshot_is_found)
{
    struct rig rig;
    struct note note;
    struct datadir datadir;
    struct buf report;
    struct wal *wal;
    bed_open(&rig, 9);
    buf_init(&report, 1 << 16);
    fill(&rig, &datadir);
    struct wal_options options = {.fs = rig.fs,
                                  .entropy = &rig.entropy.base,
                                  .dir = DIR,
                                  .replica_id = datadir.replica_id,
                                  .segment_bytes = RIG_SEGMENT};
    /* Released too far: the snapshot ends at 4, and the log begins after entry 5. */
    CHECK_OK("open", wal_open(&options, false, NULL, NULL, &wal, NULL, &note));
    CHECK_OK("release", wal_release(wal, 2, &note));
    while (wal_wants_spare(wal)) CHECK_OK("prepare", wal_prepare(wal, &note));
    wal_close(wal);
    CHECK_ERR("bad", check(&rig, &report, &note), ERR_CORRUPT);
    CHECK_HAS("which", report.data, "the snapshot ends at 4, the log begins at ");
    /* With a snapshot newer than the whole log, the log is only old. */
    CHECK_OK("snapshot", snap_rig_write(rig.fs, DIR, 40, 2, &note));
    CHECK_OK("sound", check(&rig, &report, &note));
    CHECK_HAS("the note", report.data, "log: is older than the snapshot at 40 and will be dropped");
    /* A term in the log that the vote file does not have. */
    CHECK_OK("open", wal_open(&options, false, NULL, NULL, &wal, NULL, &note));
    CHECK_OK("append", rig_append(wal, (struct rig_append){9, 7, 1, 10}, NULL, NULL));
    wal_close(wal);
    CHECK_ERR("bad", check(&rig, &report, &note), ERR_CORRUPT);
    CHECK_HAS("which", report.data, "VOTE: term 1, but the log has term 7");
    buf_deinit(&report);
    rig_close(&rig);
}

/* -- force-config -- */

TEST(a_forced_replica_is_the_only_voter_of_a_new_cluster)
{
    struct rig rig;
    struct note note = {""};
    struct datadir before, after, read;
    struct vote_file *vote_file;
    struct vote vote;
    struct wal *wal;
    struct members founders = founders_of(3);
    bed_open(&rig, 10);
    CHECK_OK("made", format(&rig, &founders, 101, 55, &before, &note));
    CHECK_OK("vote", vote_open(rig.fs, DIR, false, &vote_file, &vote, &note));
    CHECK_OK("vote", vote_write(vote_file, (struct vote){6, 100}, &note));
    vote_close(vote_file);
    struct wal_options options = {
        .fs = rig.fs, .entropy = &rig.entropy.base, .dir = DIR, .replica_id = 101};
    CHECK_OK("open", wal_open(&options, false, NULL, NULL, &wal, NULL, &note));
    CHECK_OK("append", rig_append(wal, (struct rig_append){2, 4, 5, 10}, NULL, NULL));
    wal_close(wal);

    struct datadir_force force = {
        .fs = rig.fs, .entropy = &rig.entropy.base, .dir = DIR, .wall_ms = 1794727489000};
    enum err err = datadir_force_config(&force, &after, &note);
    if (err) print_message("%s\n", note.text);
    CHECK_OK("forced", err);
    CHECK_U64("the same replica", after.replica_id, 101);
    CHECK("another cluster", after.cluster_id != 55 && after.cluster_id != 0);
    CHECK_OK("read", datadir_read(rig.fs, DIR, &read, &note));
    CHECK("the same", memcmp(&read, &after, sizeof read) == 0);
    struct content content = content_of(&rig, &after);
    CHECK_U64("behind all it had, and the recovery behind that", content.last, 8);
    CHECK("a recovery", content.recovers);
    CHECK_U64("which older releases refuse", content.level, CLUSTER_LEVEL);
    CHECK_U64("from this moment", content.recovery.floor, 1794727489000 * 1024);
    CHECK_U64("in a term that no lost leader had", content.last_term, 1794727489000 * 1024);
    CHECK("with its own vote",
          content.vote.term == content.last_term && content.vote.candidate == 101);
    CHECK_U64("alone", content.members.count, 1);
    CHECK_U64("itself", content.members.at[0].id, 101);
    CHECK_U64("as a voter", content.members.at[0].role, MEMBER_VOTER);
    CHECK_TEXT("where it was", content.members.at[0].address, "10.0.0.2:7791");
    force.address = "192.0.2.9:1";
    struct machine_recovery first = content.recovery;
    CHECK_OK("once more", datadir_force_config(&force, &after, &note));
    content = content_of(&rig, &after);
    CHECK("another identity", memcmp(first.identity, content.recovery.identity, 16) != 0);
    CHECK_U64("in a later term, by a clock that does not move", content.last_term,
              1794727489000 * 1024 + (1ull << 40));
    CHECK_TEXT("elsewhere", content.members.at[0].address, "192.0.2.9:1");
    struct buf report;
    buf_init(&report, 1 << 16);
    CHECK_OK("sound", check(&rig, &report, &note));
    buf_deinit(&report);
    rig_close(&rig);
}

/* Only a snapshot, newer than the log: the configuration is written after the snapshot. */
TEST(a_forced_replica_goes_on_behind_its_snapshot)
{
    struct rig rig;
    struct note note = {""};
    struct datadir made, after;
    bed_open(&rig, 11);
    CHECK_OK("made", format(&rig, NULL, 2000, 0, &made, &note)); /* a member of that snapshot */
    CHECK_OK("snapshot", snap_rig_write(rig.fs, DIR, 20, 1, &note));
    struct datadir_force force = {.fs = rig.fs, .entropy = &rig.entropy.base, .dir = DIR};
    CHECK_OK("forced", datadir_force_config(&force, &after, &note));
    struct content content = content_of(&rig, &after);
    CHECK_U64("behind it", content.last, 22);
    CHECK("and a recovery", content.recovers && content.recovery.floor == 0);
    CHECK_U64("in a later term, without a clock", content.last_term, 3 + (1ull << 40));
    CHECK_TEXT("where it was", content.members.at[0].address, "host:0");
    rig_close(&rig);
    bed_open(&rig, 11);
    CHECK_OK("made", format(&rig, NULL, 1, 0, &made, &note));
    force.fs = rig.fs;
    CHECK_ERR("no address is known", datadir_force_config(&force, &after, &note), ERR_INVALID);
    CHECK_HAS("the note", note.text, "give one");
    CHECK_OK("nothing was begun", datadir_read(rig.fs, DIR, &made, &note));
    force.address = "192.0.2.9:1";
    CHECK_OK("given", datadir_force_config(&force, &after, &note));
    CHECK_OK("read", datadir_read(rig.fs, DIR, &made, &note));
    rig_close(&rig);
}

/* -- rejoin -- */

TEST(a_damaged_replica_restarts_empty_under_another_identity)
{
    struct rig rig;
    struct note note = {""};
    struct datadir made, old, next, read;
    struct fs_info info;
    char path[96];
    bed_open(&rig, 12);
    fill(&rig, &made);
    damage(&rig, DIR "/log/0000000000000001.seg", 5000);
    damage(&rig, DIR "/log/VOTE", 30);
    damage(&rig, DIR "/log/VOTE", 4096 + 30);
    enum err err = datadir_rejoin(rig.fs, &rig.entropy.base, DIR, &old, &next, &note);
    if (err) print_message("%s\n", note.text);
    CHECK_OK("rejoins", err);
    CHECK("the old identity", memcmp(&old, &made, sizeof old) == 0);
    CHECK("another", next.replica_id != old.replica_id && next.replica_id != 0);
    CHECK_U64("of no cluster: the one it joins may be another than it left", next.cluster_id, 0);
    CHECK_OK("read", datadir_read(rig.fs, DIR, &read, &note));
    CHECK("written", memcmp(&read, &next, sizeof read) == 0);
    struct content content = content_of(&rig, &next);
    CHECK_U64("empty", content.entries, 0);
    CHECK_U64("of no term", content.vote.term, 0);
    static const char *const kept[] = {"log/VOTE", "log/0000000000000001.seg",
                                       "snap/0000000000000004-0000000000000001.snap"};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        snprintf(path, sizeof path, DIR "/damaged-%016" PRIx64 "/%s", old.replica_id, kept[i]);
        CHECK_OK("put aside", fs_stat(rig.fs, path, &info));
    }
    CHECK_ERR("no snapshot here",
              fs_stat(rig.fs, DIR "/snap/0000000000000004-0000000000000001.snap", &info),
              ERR_NOT_FOUND);
    CHECK_OK("and once more", datadir_rejoin(rig.fs, &rig.entropy.base, DIR, &old, &next, &note));
    CHECK("from there", old.replica_id == read.replica_id && next.replica_id != old.replica_id);
    rig_close(&rig);
}

TEST(one_tool_does_not_finish_another_s_work)
{
    struct rig rig;
    struct note note = {""};
    struct datadir made, other, old;
    bed_open(&rig, 13);
    fill(&rig, &made);
    struct datadir_force force = {.fs = rig.fs, .entropy = &rig.entropy.base, .dir = DIR};
    struct datadir next = {.replica_id = made.replica_id + 1, .cluster_id = made.cluster_id};
    CHECK_OK("a rejoin", datadir_mark_write(rig.fs, DIR, DATADIR_NEXT, &next, 1, &note));
    CHECK_ERR("interrupted", datadir_force_config(&force, &other, &note), ERR_NOT_READY);
    CHECK_OK("finished", datadir_rejoin(rig.fs, &rig.entropy.base, DIR, &old, &other, &note));
    CHECK_U64("as it was begun", other.replica_id, next.replica_id);
    next = (struct datadir){.replica_id = other.replica_id, .cluster_id = 4711};
    CHECK_OK("a force", datadir_mark_write(rig.fs, DIR, DATADIR_NEXT, &next, 2, &note));
    CHECK_ERR("interrupted", datadir_rejoin(rig.fs, &rig.entropy.base, DIR, &old, &other, &note),
              ERR_NOT_READY);
    force.address = "192.0.2.9:1";
    CHECK_OK("finished", datadir_force_config(&force, &other, &note));
    CHECK_U64("as it was begun", other.cluster_id, 4711);
    rig_close(&rig);
}

/* -- restore -- */

struct given {
    const char *const *pieces; /* "2abc": section and bytes; ends with NULL */
};

static enum err give(void *owner, uint32_t *ret_section, struct buf *into, struct note *note)
{
    struct given *given = owner;
    (void)note;
    if (!*given->pieces) {
        *ret_section = DATADIR_SECTIONS_END;
        return ERR_OK;
    }
    *ret_section = (uint32_t)((*given->pieces)[0] - '0');
    return buf_append_c(into, *given->pieces++ + 1);
}

static enum err refuse(void *owner, uint32_t *ret_section, struct buf *into, struct note *note)
{
    (void)owner;
    (void)ret_section;
    (void)into;
    note_set(note, "the archive ends early");
    return ERR_CORRUPT;
}

static enum err restore(struct rig *rig, uint64_t index, const char *const *pieces,
                        struct datadir *ret, struct note *note)
{
    struct given given = {pieces};
    struct datadir_restore how = {.fs = rig->fs,
                                  .entropy = &rig->entropy.base,
                                  .dir = DIR,
                                  .address = "192.0.2.7:7791",
                                  .index = index,
                                  .term = 2,
                                  .level = 1,
                                  .next = pieces ? give : refuse,
                                  .owner = &given};
    return datadir_restore(&how, ret, note);
}

TEST(a_restored_replica_is_the_only_voter_under_new_identities)
{
    static const char *const pieces[] = {"2one", "2two", "3three", NULL};
    struct rig rig;
    struct note note = {""};
    struct datadir made, next, read;
    struct snap_head head;
    struct buf report;
    char name[SNAP_NAME_CAP];
    bed_open(&rig, 14);
    fill(&rig, &made);
    enum err err = restore(&rig, 12, pieces, &next, &note);
    if (err) print_message("%s\n", note.text);
    CHECK_OK("restored", err);
    CHECK("another replica", next.replica_id != made.replica_id && next.replica_id != 0);
    CHECK("of another cluster", next.cluster_id != made.cluster_id && next.cluster_id != 0);
    CHECK_OK("read", datadir_read(rig.fs, DIR, &read, &note));
    CHECK("written", memcmp(&read, &next, sizeof read) == 0);
    CHECK_OK("one snapshot", snap_newest(rig.fs, DIR, name, &head, &note));
    CHECK_U64("index", head.mark.index, 12);
    CHECK_U64("term", head.mark.term, 2);
    CHECK_U64("one member", head.mark.members.count, 1);
    CHECK_U64("itself", head.mark.members.at[0].id, next.replica_id);
    CHECK("a voter", head.mark.members.at[0].role == MEMBER_VOTER);
    CHECK_STR("at its address", str_from(head.mark.members.at[0].address), STR("192.0.2.7:7791"));
    struct content content = content_of(&rig, &next);
    CHECK_U64("the term is seeded", content.vote.term, 2);
    CHECK_U64("nothing in the log", content.last, 12);
    buf_init(&report, 1 << 16);
    CHECK_OK("checks out", datadir_check(rig.fs, DIR, &report, &note));
    buf_deinit(&report);
    CHECK_OK("and over itself", restore(&rig, 3, pieces, &read, &note));
    CHECK_OK("older is fine", snap_newest(rig.fs, DIR, name, &head, &note));
    CHECK_U64("its index", head.mark.index, 3);
    rig_close(&rig);
}

TEST(a_restore_that_cannot_be_done_changes_nothing)
{
    static const char *const pieces[] = {"2one", NULL};
    struct rig rig;
    struct note note = {""};
    struct datadir made, next, read;
    struct fs_lock *lock;
    bed_open(&rig, 15);
    fill(&rig, &made);
    CHECK_ERR("index 0", restore(&rig, 0, pieces, &next, &note), ERR_INVALID);
    CHECK("the message", strstr(note.text, "not a valid coordinator snapshot"));
    CHECK_ERR("past all sense", restore(&rig, UINT64_MAX, pieces, &next, &note), ERR_INVALID);
    CHECK_ERR("bad bytes", restore(&rig, 12, NULL, &next, &note), ERR_CORRUPT);
    CHECK_STR("as asked", str_from(note.text), STR("the archive ends early"));
    CHECK_OK("locked", fs_lock_dir(rig.fs, DIR, &lock, &note));
    CHECK_ERR("in use", restore(&rig, 12, pieces, &next, &note), ERR_BUSY);
    fs_unlock(rig.fs, lock);
    CHECK_OK("read", datadir_read(rig.fs, DIR, &read, &note));
    CHECK("as it was", memcmp(&read, &made, sizeof read) == 0);
    rig_close(&rig);
}

TEST(a_half_restored_directory_is_refused_until_it_is_restored)
{
    static const char *const pieces[] = {"2one", NULL};
    struct rig rig;
    struct note note = {""};
    struct datadir made, next, old;
    struct members founders = founders_of(1);
    bed_open(&rig, 16);
    fill(&rig, &made);
    put_file(&rig, DIR "/" DATADIR_RESTORE, STR("muster-restore 1\n"));
    struct datadir_force force = {.fs = rig.fs, .entropy = &rig.entropy.base, .dir = DIR};
    CHECK_ERR("start", datadir_read(rig.fs, DIR, &next, &note), ERR_NOT_READY);
    CHECK("the message", strstr(note.text, "a restore was interrupted: run it again"));
    CHECK_ERR("force", datadir_force_config(&force, &next, &note), ERR_NOT_READY);
    CHECK_ERR("rejoin", datadir_rejoin(rig.fs, &rig.entropy.base, DIR, &old, &next, &note),
              ERR_NOT_READY);
    CHECK_OK("no FORMAT any more", fs_remove(rig.fs, DIR "/FORMAT"));
    CHECK_ERR("start", datadir_read(rig.fs, DIR, &next, &note), ERR_NOT_READY);
    CHECK_ERR("make", format(&rig, &founders, 0, 0, &next, &note), ERR_NOT_READY);
    CHECK_OK("restored", restore(&rig, 12, pieces, &next, &note));
    CHECK_OK("start", datadir_read(rig.fs, DIR, &next, &note));
    rig_close(&rig);
}

TEST(a_log_joins_its_snapshot_or_is_stale_or_there_is_a_gap)
{
    static const struct {
        const char *why;
        uint64_t mark, first, last, term_at_mark;
        enum datadir_join want;
    } cases[] = {
        {"nothing at all", 0, 1, 0, 0, DATADIR_JOINS},
        {"a log alone", 0, 1, 9, 0, DATADIR_JOINS},
        {"a log that lost its beginning", 0, 2, 9, 0, DATADIR_GAP},
        {"an empty log that goes on elsewhere", 0, 5, 4, 0, DATADIR_GAP},
        {"right behind the snapshot", 10, 11, 20, 0, DATADIR_JOINS},
        {"empty, right behind it", 10, 11, 10, 0, DATADIR_JOINS},
        {"around the snapshot", 10, 5, 20, 7, DATADIR_JOINS},
        {"up to the snapshot", 10, 5, 10, 7, DATADIR_JOINS},
        {"of another history", 10, 5, 20, 6, DATADIR_STALE},
        {"shorter than the snapshot", 10, 5, 9, 0, DATADIR_STALE},
        {"empty and before it", 10, 1, 0, 0, DATADIR_STALE},
        {"one entry is missing", 10, 12, 20, 0, DATADIR_GAP},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct snapshot_mark mark = {.index = cases[i].mark, .term = cases[i].mark ? 7 : 0};
        CHECK_I64(cases[i].why,
                  datadir_join(&mark, cases[i].first, cases[i].last, cases[i].term_at_mark),
                  cases[i].want);
    }
}
