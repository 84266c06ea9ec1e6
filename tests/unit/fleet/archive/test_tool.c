/* SPDX-License-Identifier: Apache-2.0 */
/* fleet/archive_tool.h: the text and the JSON about an archive, and refused files. */
#include "fleet/archive_tool.h"

#include <stdio.h>

#include "archive_rig.h"
#include "text/json.h"

enum { INDEX = 12 };
static const struct sim_fs_options perfect = {0};
struct bed {
    struct sim_fs *disk;
    struct sample_entropy entropy;
    struct restore_request request;
    struct buf out;
    struct note note;
};

static void bed_open(struct bed *bed)
{
    struct prng prng;

    prng_seed(&prng, 1);
    CHECK_OK("a disk", sim_fs_open(&perfect, &prng, &bed->disk));
    sample_entropy_init(&bed->entropy, 3);
    bed->request = (struct restore_request){
        .to = {.fs = sim_fs_fs(bed->disk),
               .entropy = &bed->entropy.base,
               .dir = "/data",
               .address = "192.0.2.7:7791",
               .wall_ms = 1},
        .archive = "/b.muster",
        .name = "n0",
    };
    bed->note = (struct note){""};
    buf_init(&bed->out, 1 << 20);
    CHECK_OK("a backup",
             sample_save(bed->request.to.fs, bed->request.archive, SAVE_BACKUP, INDEX, &bed->note));
}

static void bed_close(struct bed *bed)
{
    buf_deinit(&bed->out);
    sim_fs_close(bed->disk);
}

static enum err restore(struct bed *bed)
{
    buf_clear(&bed->out);
    return archive_tool_restore(&bed->request, NULL, &bed->out, &bed->note);
}

static const char *said(struct bed *bed)
{
    CHECK_OK("ended", buf_append_byte(&bed->out, '\0'));
    bed->out.len--;
    return bed->out.data;
}

TEST(the_text_shows_what_was_restored_and_what_to_do_next)
{
    struct bed bed;

    bed_open(&bed);
    CHECK_OK(bed.note.text, restore(&bed));
    CHECK_HAS("the content", said(&bed),
              "restored snapshot index=12 term=2 into /data as single-voter n0");
    CHECK_HAS("next", said(&bed), "start this replica first");
    CHECK_HAS("a clock behind the backup", said(&bed), "set it right");
    bed_close(&bed);
}

TEST(the_json_shows_the_same)
{
    struct json *json = NULL;
    struct str text;
    struct bed bed;
    uint64_t shards = 0;

    bed_open(&bed);
    bed.request.json = true;
    CHECK_OK(bed.note.text, restore(&bed));
    CHECK_OK(bed.note.text, json_open(buf_peek(&bed.out), bed.out.len, &json, &bed.note));
    CHECK_OK("result", json_get_string(json, "result", &text, NULL));
    CHECK_STR("result", text, STR("restored"));
    CHECK_OK("kind", json_get_string(json, "kind", &text, NULL));
    CHECK_STR("kind", text, STR("backup"));
    CHECK_OK("rows", json_get_u64(json, "rows.shards", &shards, NULL));
    CHECK_U64("a shard for each index", shards, INDEX);
    CHECK_OK("cluster", json_get_string(json, "cluster", &text, NULL));
    CHECK_U64("in 16 digits", text.len, 16);
    json_close(json);
    bed_close(&bed);
}

TEST(data_of_a_replica_is_replaced_only_when_that_is_wanted)
{
    struct bed bed;

    bed_open(&bed);
    CHECK_OK(bed.note.text, restore(&bed));
    CHECK_ERR("a directory in use", restore(&bed), ERR_EXISTS);
    CHECK_HAS("how to go on", bed.note.text, "say --yes");
    bed.request.replaces = true;
    CHECK_OK(bed.note.text, restore(&bed));
    bed.request.replaces = false;
    CHECK_OK("FORMAT is lost", fs_remove(bed.request.to.fs, "/data/FORMAT"));
    CHECK_ERR("a log without FORMAT", restore(&bed), ERR_EXISTS);
    CHECK_HAS("names a file", bed.note.text, "/data/log: holds ");
    CHECK_HAS("how to go on", bed.note.text, "say --yes to remove it");
    bed_close(&bed);
}

static struct bed *warned;

static void warn(const char *part)
{
    struct fs_info info;

    CHECK("the part", strcmp(part, "roster") == 0);
    CHECK_ERR("nothing is changed yet", fs_stat(warned->wish.to.fs, "/data/log", &info),
              ERR_NOT_FOUND);
    warned = NULL;
}

TEST(what_an_archive_lacks_is_said_before_anything_changes)
{
    struct bed bed;

    bed_open(&bed);
    warned = &bed;
    bed.wish.warn = warn;
    CHECK_OK(bed.note.text, restore(&bed));
    CHECK("a whole backup lacks nothing", warned == &bed);
    bed_close(&bed);
    bed_open(&bed);
    bed.wish.warn = warn;
    bed.wish.archive = "/tables";
    CHECK_OK("tables", sample_save(bed.wish.to.fs, "/tables", SAVE_SNAPSHOT, INDEX, &bed.note));
    CHECK_OK(bed.note.text, restore(&bed));
    CHECK("was said", !warned);
    bed_close(&bed);
}

TEST(verification_says_what_is_there_and_changes_nothing)
{
    struct fs_info info;
    struct bed bed;

    bed_open(&bed);
    CHECK_OK("sound", archive_tool_verify(bed.request.to.fs, bed.request.archive, false, NULL,
                                          &bed.out, &bed.note));
    CHECK_HAS("the content", said(&bed), "verified backup index=12 term=2 in /b.muster");
    CHECK_HAS("each section", said(&bed), "section fleet: ");
    CHECK_HAS("rows", said(&bed), "holds: 12 shards");
    CHECK_ERR("nothing made", fs_stat(bed.request.to.fs, "/data", &info), ERR_NOT_FOUND);
    buf_clear(&bed.out);
    CHECK_OK("as JSON", archive_tool_verify(bed.request.to.fs, bed.request.archive, true, NULL,
                                            &bed.out, &bed.note));
    CHECK_HAS("the content", said(&bed), "\"result\":\"verified\"");
    bed_close(&bed);
}

TEST(an_archive_that_is_none_is_corrupt_and_not_a_wrong_command_line)
{
    struct bed bed;

    bed_open(&bed);
    sample_put(bed.request.to.fs, "/b.muster", STR("muster? no"));
    CHECK_ERR("no archive", restore(&bed), ERR_CORRUPT);
    CHECK_U64("no output", bed.out.len, 0);
    bed_close(&bed);
}
