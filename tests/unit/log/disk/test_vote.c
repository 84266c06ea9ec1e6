/* SPDX-License-Identifier: Apache-2.0 */
/* Term and vote: two equal copies, of which one may be torn or damaged. Power cuts are in
 * tests/fault/log. */
#include <string.h>

#include "disk_rig.h"

static const struct sim_fs_options perfect = {0};
#define VOTE_PATH RIG_DIR "/log/VOTE"

static struct vote read_vote(struct rig *rig, bool read_only)
{
    struct note note = {""};
    struct vote_file *file = NULL;
    struct vote vote = {0};
    enum err err = vote_open(rig->fs, RIG_DIR, read_only, &file, &vote, &note);
    if (err) print_message("%s\n", note.text);
    CHECK_OK("opens", err);
    vote_close(file);
    return vote;
}

static void write_vote(struct rig *rig, uint64_t term, uint64_t candidate)
{
    struct vote_file *file = NULL;
    struct vote vote;
    CHECK_OK("opens", vote_open(rig->fs, RIG_DIR, false, &file, &vote, NULL));
    CHECK_OK("writes", vote_write(file, (struct vote){term, candidate}, NULL));
    vote_close(file);
}

TEST(a_vote_is_found_again)
{
    struct rig rig;
    struct vote_file *file = NULL;
    struct vote vote;
    struct note note = {""};
    rig_open(&rig, &perfect, 1);
    CHECK_ERR("none to look at", vote_open(rig.fs, RIG_DIR, true, &file, &vote, &note),
              ERR_NOT_FOUND);
    vote = read_vote(&rig, false);
    CHECK_U64("made", vote.term, 0);
    CHECK_U64("for nobody", vote.candidate, 0);
    write_vote(&rig, 3, UINT64_MAX);
    write_vote(&rig, 3, 7);
    vote = read_vote(&rig, true);
    CHECK_U64("term", vote.term, 3);
    CHECK_U64("candidate", vote.candidate, 7);
    rig_close(&rig);
}

TEST(a_left_over_beginning_is_no_hindrance)
{
    struct rig rig;
    struct fs_file *file;
    rig_open(&rig, &perfect, 2);
    CHECK_OK("left over",
             fs_open(rig.fs, RIG_DIR "/log/.VOTE.00000000.tmp", FS_WRITE | FS_CREATE, 0600, &file));
    fs_close(rig.fs, file);
    CHECK_U64("made", read_vote(&rig, false).term, 0);
    rig_close(&rig);
}

static void damage(struct rig *rig, uint64_t offset, int bit)
{
    struct fs_file *file;
    char byte;
    size_t got;
    CHECK_OK("open", fs_open(rig->fs, VOTE_PATH, FS_READ | FS_WRITE, 0, &file));
    CHECK_OK("read", fs_read_at(rig->fs, file, offset, &byte, 1, &got));
    byte = (char)(byte ^ 1 << bit);
    CHECK_OK("write", fs_write_at(rig->fs, file, offset, str_of(&byte, 1)));
    fs_close(rig->fs, file);
}

TEST(any_bit_of_one_copy_may_change)
{
    struct rig rig;
    rig_open(&rig, &perfect, 3);
    write_vote(&rig, 5, 6);
    write_vote(&rig, 8, 9);
    for (uint64_t copy = 0; copy < 2; copy++)
        for (uint64_t bit = 0; bit < 48 * 8; bit++) {
            damage(&rig, copy * 4096 + bit / 8, (int)(bit % 8));
            struct vote vote = read_vote(&rig, true);
            CHECK("the newest all the same", vote.term == 8 && vote.candidate == 9);
            damage(&rig, copy * 4096 + bit / 8, (int)(bit % 8));
        }
    /* Opening for use repairs it. */
    damage(&rig, 24, 0);
    CHECK_U64("term", read_vote(&rig, false).term, 8);
    damage(&rig, 4096 + 24, 0);
    CHECK_U64("the first is whole again", read_vote(&rig, true).term, 8);
    rig_close(&rig);
}

TEST(without_a_copy_that_can_be_read_it_is_damaged)
{
    struct rig rig;
    struct vote_file *file = NULL;
    struct vote vote = {0};
    struct note note = {""};
    rig_open(&rig, &perfect, 4);
    write_vote(&rig, 5, 6);
    damage(&rig, 24, 0);
    damage(&rig, 4096 + 30, 0);
    CHECK_ERR("damaged", vote_open(rig.fs, RIG_DIR, false, &file, &vote, &note), ERR_CORRUPT);
    CHECK_HAS("which", note.text, VOTE_PATH);
    struct fs_file *raw;
    CHECK_OK("open", fs_open(rig.fs, VOTE_PATH, FS_WRITE, 0, &raw));
    CHECK_OK("empty", fs_truncate(rig.fs, raw, 0));
    fs_close(rig.fs, raw);
    CHECK_ERR("empty", vote_open(rig.fs, RIG_DIR, false, &file, &vote, &note), ERR_CORRUPT);
    rig_close(&rig);
}

TEST(a_failed_write_is_final)
{
    struct rig rig;
    struct vote_file *file = NULL;
    struct vote vote;
    struct note note = {""};
    for (int call = SIM_FS_WRITE; call <= SIM_FS_SYNC; call++)
        for (uint64_t nth = 1; nth <= 2; nth++) {
            rig_open(&rig, &perfect, 5);
            CHECK_OK("opens", vote_open(rig.fs, RIG_DIR, false, &file, &vote, NULL));
            sim_fs_fail_once(rig.disk, (enum sim_fs_call)call, nth, ERR_IO);
            CHECK_ERR("fails", vote_write(file, (struct vote){1, 2}, &note), ERR_IO);
            CHECK_HAS("where", note.text, VOTE_PATH);
            CHECK_ERR("for good", vote_write(file, (struct vote){2, 2}, &note), ERR_IO);
            CHECK_HAS("the message", note.text, "failed before");
            vote_close(file);
            rig_close(&rig);
        }
}

/* The bytes that were read may exist only in the kernel's memory, because a failed sync may have
 * dropped them. */
TEST(a_vote_that_was_read_is_durable_in_both_copies)
{
    const struct sim_fs_options drops = {.failed_sync_drops_per_million = 1000000};
    struct rig rig;
    struct vote_file *file = NULL;
    struct vote vote;
    rig_open(&rig, &drops, 6);
    write_vote(&rig, 1, 2);
    CHECK_OK("opens", vote_open(rig.fs, RIG_DIR, false, &file, &vote, NULL));
    sim_fs_fail_once(rig.disk, SIM_FS_SYNC, 1, ERR_IO);
    CHECK_ERR("fails", vote_write(file, (struct vote){3, 4}, NULL), ERR_IO);
    sim_fs_process_died(rig.disk);
    vote_close(file);
    CHECK_U64("seen", read_vote(&rig, false).term, 3);
    sim_fs_crash(rig.disk);
    damage(&rig, 4096 + 24, 0);
    CHECK_U64("one copy", read_vote(&rig, true).term, 3);
    damage(&rig, 4096 + 24, 0);
    damage(&rig, 24, 0);
    CHECK_U64("the other", read_vote(&rig, true).term, 3);
    rig_close(&rig);
}
