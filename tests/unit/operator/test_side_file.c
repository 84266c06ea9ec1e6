/* SPDX-License-Identifier: Apache-2.0 */
/* operator/side_file.h: what is written when a write fails, and what is reported of a watched file. */
#include <stdio.h>

#include "base/prng.h"
#include "io/real.h"
#include "lib/fault_fs.h"
#include "lib/test.h"
#include "operator/side_file.h"
#include "sim/sim_fs.h"

static struct real_io *real;
static struct sim_fs *disk;
static struct fault_fs fault;
static struct io io; /* the real one, but for its files */
static uint64_t written;
static char content[64];
static unsigned contents, troubles;

static void on_content(void *, struct str text)
{
    contents++;
    snprintf(content, sizeof content, "%.*s", STR_ARG(text));
}

static void on_written(void *, uint64_t mark)
{
    written = mark;
}

static void on_trouble(void *, enum err, const char *)
{
    troubles++;
}

static void open_all(void)
{
    struct prng prng;

    prng_seed(&prng, 1);
    CHECK_OK("disk", sim_fs_open(&(struct sim_fs_options){0}, &prng, &disk));
    CHECK_OK("io", real_io_open(&real));
    fault_fs_init(&fault, sim_fs_fs(disk));
    io = *real_io_io(real);
    io.fs = fault_fs_fs(&fault);
    written = contents = troubles = 0;
    content[0] = '\0';
}

static void close_all(struct side_file *file)
{
    side_file_close(file);
    real_io_close(real);
    sim_fs_close(disk);
}

static void check_file(const char *wanted)
{
    struct buf text;

    buf_init(&text, 64);
    CHECK_OK("read", fs_read_whole(sim_fs_fs(disk), "/file", 64, &text));
    CHECK_STR("on disk", buf_peek(&text), str_from(wanted));
    buf_deinit(&text);
}

TEST(a_content_that_could_not_be_written_is_written_later)
{
    const struct side_file_options options = {.io = &io,
                                              .thread = "test",
                                              .path = "/file",
                                              .bytes_max = 64,
                                              .mode = 0600,
                                              .on_written = on_written,
                                              .on_trouble = on_trouble};
    struct side_file *file = NULL;
    struct note note;

    open_all();
    CHECK_OK("open", side_file_open(&options, &file, &note));
    fault_fs_arm(&fault, (struct fault_fs_plan){.calls = FAULT_FS_SYNC, .nth = 1, .err = ERR_IO});
    CHECK_OK("room", buf_append(side_file_room(file), STR("first")));
    side_file_write(file, 7);
    CHECK("busy", side_file_busy(file));
    while (written != 7) real_io_turn(real, true);
    CHECK_U32("one report", troubles, 1);
    CHECK("not busy", !side_file_busy(file));
    check_file("first");
    close_all(file);
}

TEST(the_newest_content_wins_and_the_last_is_written_at_the_end)
{
    const struct side_file_options options = {.io = &io,
                                              .thread = "test",
                                              .path = "/file",
                                              .bytes_max = 64,
                                              .mode = 0600,
                                              .on_trouble = on_trouble};
    struct side_file *file = NULL;
    struct note note;

    open_all();
    CHECK_OK("open", side_file_open(&options, &file, &note));
    for (char c = 'a'; c <= 'e'; c++) {
        CHECK_OK("room", buf_append_byte(side_file_room(file), c));
        side_file_write(file, 0);
    }
    side_file_close(file);
    check_file("e");
    close_all(NULL);
}

TEST(a_watched_file_is_read_when_it_appears_and_when_it_changes)
{
    const struct side_file_options options = {.io = &io,
                                              .thread = "test",
                                              .path = "/file",
                                              .bytes_max = 64,
                                              .on_content = on_content,
                                              .on_trouble = on_trouble};
    struct side_file *file = NULL;
    struct note note;
    struct str text;

    open_all();
    CHECK_OK("open", side_file_open(&options, &file, &note));
    CHECK_ERR("nothing there", side_file_read(file, &text, &note), ERR_NOT_FOUND);
    while (troubles == 0) real_io_turn(real, true);
    CHECK_OK("it appears", fs_publish(sim_fs_fs(disk), "/file", STR("one"), 0600, 1));
    while (contents == 0) real_io_turn(real, true);
    CHECK_TEXT("read", content, "one");
    CHECK_U32("one report", troubles, 1);
    close_all(file);
}
