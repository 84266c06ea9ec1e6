/* SPDX-License-Identifier: Apache-2.0 */
/* meta.json, tar and the snapshot made of them: golden bytes, the table of coordinator.md 6.6, and
 * every cut of the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "archive_rig.h"
#include "fleet/format/tar.h"
#include "fleet/snapshot_read.h"

/* -- meta.json -- */
static const char sample[] =
    "{\"Version\":1,\"ID\":\"2-3-1794727977390\",\"Index\":3,\"Term\":2,\"Peers\":"
    "\"ka8xMjcuMC4wLjE6MTc3OTE=\",\"Configuration\":{\"Servers\":[{\"Suffrage\":0,\"ID\":\"node-"
    "1\","
    "\"Address\":\"127.0.0.1:17791\"}]},\"ConfigurationIndex\":1,\"Size\":60}";

TEST(the_originals_meta_is_read_and_ours_is_written_byte_for_byte)
{
    struct fleet_meta meta;
    struct note note = {""};
    struct buf text;

    CHECK_OK(note.text, fleet_meta_read(str_from(sample), &meta, &note));
    CHECK_U64("index", meta.index, 3);
    CHECK_U64("term", meta.term, 2);
    CHECK_U64("size", meta.size, 60);
    meta.created_ms = 1794727977390;
    meta.configuration_index = 1;
    meta.server_count = 1;
    meta.servers[0] = (struct fleet_meta_server){FLEET_VOTER, "node-1", "127.0.0.1:17791"};
    buf_init(&text, 4096);
    CHECK_OK("compact", fleet_meta_write(&meta, false, &text));
    CHECK_STR(
        "compact", buf_peek(&text),
        STR("{\"Version\":1,\"ID\":\"2-3-1794727977390\",\"Index\":3,\"Term\":2,\"Peers\":null,"
            "\"Configuration\":{\"Servers\":[{\"Suffrage\":0,\"ID\":\"node-1\",\"Address\":"
            "\"127.0.0.1:17791\"}]},\"ConfigurationIndex\":1,\"Size\":60}"));
    buf_clear(&text);
    CHECK_OK("indented", fleet_meta_write(&meta, true, &text));
    CHECK_STR("indented", buf_peek(&text),
              STR("{\n  \"Version\": 1,\n  \"ID\": \"2-3-1794727977390\",\n  \"Index\": 3,\n"
                  "  \"Term\": 2,\n  \"Peers\": null,\n  \"Configuration\": {\n    \"Servers\": [\n"
                  "      {\n        \"Suffrage\": 0,\n        \"ID\": \"node-1\",\n"
                  "        \"Address\": \"127.0.0.1:17791\"\n      }\n    ]\n  },\n"
                  "  \"ConfigurationIndex\": 1,\n  \"Size\": 60\n}"));
    buf_deinit(&text);
}

TEST(a_meta_is_refused_by_the_rules_of_opening)
{
    static const struct {
        const char *why, *text;
        enum err err;
        const char *note;
    } cases[] = {
        {"D3: only what a restore needs", "{\"ID\":\"2-12-1749700000000\",\"Index\":12,\"Term\":2}",
         ERR_OK, ""},
        {"the library's own copy", "{\"Index\":1,\"CRC\":\"AAAAAAAAAAA=\",\"x\":[1]}", ERR_OK, ""},
        {"keys in any case", "{\"index\":7,\"TERM\":1}", ERR_OK, ""},
        {"index 0", "{\"Index\":0,\"Term\":2}", ERR_INVALID,
         "meta.json: index 0: not a valid coordinator snapshot"},
        {"no index", "{}", ERR_INVALID, "meta.json: index 0: not a valid coordinator snapshot"},
        {"not JSON", "Index: 12", ERR_PARSE, "meta.json: offset 5: not a value"},
        {"half", "{\"Index\":12", ERR_PARSE, "meta.json: it ends early"},
        {"empty", "", ERR_PARSE, "meta.json: it ends early"},
        {"index as a text", "{\"Index\":\"12\"}", ERR_PARSE,
         "meta.json: field 'Index': expected a whole number"},
        {"nothing else is looked at", "{\"Index\":1,\"Configuration\":{\"Servers\":{}}}", ERR_OK,
         ""},
    };
    struct fleet_meta meta;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct note note = {""};
        CHECK_ERR(cases[i].why, fleet_meta_read(str_from(cases[i].text), &meta, &note),
                  cases[i].err);
        CHECK_TEXT(cases[i].why, note.text, cases[i].note);
    }
}

/* -- archives -- */
static struct sim_fs *disk;

static struct fs *fresh_disk(void)
{
    static const struct sim_fs_options perfect = {0};
    struct prng prng;

    prng_seed(&prng, 1);
    CHECK_OK("a disk", sim_fs_open(&perfect, &prng, &disk));
    return sim_fs_fs(disk);
}

/* Opens an archive of these bytes. */
static enum err open_archive(struct fs *fs, struct str bytes, struct snapshot_facts *ret_facts,
                             struct note *note)
{
    sample_put(fs, "/t", bytes);
    return snapshot_read(fs, "/t", false, NULL, ret_facts, note);
}

static void put_entry(struct buf *into, const char *name, char type, const char *content)
{
    char block[TAR_BLOCK], zeros[TAR_BLOCK] = {0};
    unsigned sum = 0;

    CHECK_OK("header", tar_header(name, strlen(content), block));
    block[156] = type;
    memset(block + 148, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK; i++) sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
    CHECK_OK("room", buf_append(into, str_of(block, TAR_BLOCK)));
    CHECK_OK("room", buf_append_c(into, content));
    CHECK_OK("room", buf_append(into, str_of(zeros, tar_padding(strlen(content)))));
}

static void put_end(struct buf *into)
{
    static const char zeros[TAR_END_BYTES];

    CHECK_OK("room", buf_append(into, str_of(zeros, sizeof zeros)));
}

#define META  "{\"ID\":\"2-12-1749700000000\",\"Index\":12,\"Term\":2}"
#define STATE "{\"shards\":[{\"id\":\"shard-a\"}]}"

TEST(d3_an_archive_is_written_block_by_block_and_reopens)
{
    struct fs *fs = fresh_disk();
    struct snapshot_facts facts;
    struct save_facts saved;
    struct save_file *file;
    struct note note = {""};
    struct buf tar;

    buf_init(&tar, 1 << 16);
    CHECK_OK("open", save_open(fs, "/d3.tar", SAVE_SNAPSHOT, 1, &file, &note));
    CHECK_OK("meta", save_meta(file, STR(META), &note));
    CHECK_ERR("once", save_meta(file, STR(META), &note), ERR_PARSE);
    CHECK_OK("state", save_data(file, STR(STATE), &note));
    CHECK_OK(note.text, save_finish(file, &saved, &note));
    CHECK_U64("index", saved.index, 12);
    CHECK_U64("bytes", saved.bytes, 512 * 6);
    CHECK_OK("read", fs_read_whole(fs, "/d3.tar", 1 << 16, &tar));
    CHECK_SIZE("no padding to a record", tar.len, 512 * 6);
    CHECK_STR("name", str_of(tar.data, 10), STR("meta.json\0"));
    CHECK_STR("mode, owner, group", str_of(tar.data + 100, 24),
              STR("0000644\0000000000\0000000000\0"));
    CHECK_STR("size and time", str_of(tar.data + 124, 24), STR("00000000057\00000000000000\0"));
    CHECK_STR("type", str_of(tar.data + 156, 1), STR("0"));
    CHECK_STR("magic", str_of(tar.data + 257, 8), STR("ustar\00000"));
    CHECK_STR("meta", str_of(tar.data + 512, sizeof META - 1), STR(META));
    CHECK_STR("the next", str_of(tar.data + 1024, 6), STR("state\0"));
    CHECK_STR("state", str_of(tar.data + 1536, sizeof STATE - 1), STR(STATE));
    CHECK_OK("reopens", open_archive(fs, buf_peek(&tar), &facts, &note));
    CHECK_U64("index", facts.index, 12);
    CHECK_U64("term", facts.term, 2);
    CHECK_U64("size", facts.bytes, sizeof STATE - 1);
    CHECK_U64("rows", facts.state.taken.of[FLEET_SHARDS], 1);
    for (size_t len = 0; len < tar.len; len++) {
        enum err err = open_archive(fs, str_of(tar.data, len), &facts, &note);
        if (len >= 2048 && len % 512 == 0)
            CHECK_OK("whole without its end", err);
        else
            CHECK_ERR("cut", err, ERR_PARSE);
    }
    buf_deinit(&tar);
    sim_fs_close(disk);
}

TEST(a_stream_that_is_not_whole_leaves_no_file)
{
    static const struct {
        const char *why, *meta, *state;
        enum err err;
    } cases[] = {
        {"nothing came", NULL, NULL, ERR_PARSE},
        {"no meta first", NULL, STATE, ERR_PARSE},
        {"meta is no JSON", "x", STATE, ERR_PARSE},
        {"half a state", META, "{\"shards\":[", ERR_PARSE},
        {"less than meta says", "{\"Index\":1,\"Size\":99}", STATE, ERR_CORRUPT},
    };
    struct fs *fs = fresh_disk();
    struct fs_info info;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct note note = {""};
        struct save_facts facts;
        struct save_file *file;
        enum err err = save_open(fs, "/s.tar", SAVE_SNAPSHOT, i, &file, &note);

        if (!err && cases[i].meta) err = save_meta(file, str_from(cases[i].meta), &note);
        if (!err && cases[i].state) err = save_data(file, str_from(cases[i].state), &note);
        if (err)
            save_abandon(file);
        else
            err = save_finish(file, &facts, &note);
        CHECK_ERR(cases[i].why, err, cases[i].err);
        CHECK("the reason", note.text[0]);
        CHECK_ERR("no file", fs_stat(fs, "/s.tar", &info), ERR_NOT_FOUND);
    }
    sim_fs_close(disk);
}

TEST(a_file_that_is_no_backup_is_not_replaced)
{
    struct fs *fs = fresh_disk();
    struct save_file *file;
    struct note note = {""};

    CHECK_OK("a key", fs_publish(fs, "/key.pem", STR("private"), 0600, 1));
    CHECK_ERR("refused", save_open(fs, "/key.pem", SAVE_BACKUP, 1, &file, &note), ERR_EXISTS);
    CHECK_TEXT("the reason", note.text, "/key.pem: is no backup; remove it first");
    CHECK_OK("an empty file", fs_publish(fs, "/new", STR_EMPTY, 0600, 2));
    CHECK_OK("is replaced", save_open(fs, "/new", SAVE_BACKUP, 2, &file, &note));
    save_abandon(file);
    CHECK_OK("a backup", fs_publish(fs, "/old", STR("mustersn and so on"), 0600, 3));
    CHECK_OK("is replaced", save_open(fs, "/old", SAVE_BACKUP, 3, &file, &note));
    save_abandon(file);
    sim_fs_close(disk);
}

TEST(archives_are_opened_by_the_table_of_the_specification)
{
    static const struct {
        const char *why;
        struct {
            const char *name;
            char type;
            const char *content;
        } entries[5];
        enum err err;
        const char *note;
    } cases[] = {
        {"other entries are skipped",
         {{"README", '0', "x"}, {"meta.json", '0', META}, {"dir/", '5', ""}, {"state", '0', STATE}},
         ERR_OK,
         ""},
        {"an old writer's type", {{"meta.json", '\0', META}, {"state", '\0', STATE}}, ERR_OK, ""},
        {"extended headers are skipped",
         {{"x", 'x', "27 mtime=1749700000.1234567\n"},
          {"meta.json", '0', META},
          {"state", '0', STATE}},
         ERR_OK,
         ""},
        {"state before meta",
         {{"state", '0', STATE}, {"meta.json", '0', META}},
         ERR_PARSE,
         "/t: archive: state before meta.json"},
        {"no state", {{"meta.json", '0', META}}, ERR_PARSE, "/t: archive: it holds no state"},
        {"no meta", {{"other", '0', META}}, ERR_PARSE, "/t: archive: it holds no meta.json"},
        {"nothing", {{NULL, 0, NULL}}, ERR_PARSE, "/t: archive: it holds no meta.json"},
        {"names match exactly",
         {{"./meta.json", '0', META}, {"./state", '0', STATE}},
         ERR_PARSE,
         "/t: archive: it holds no meta.json"},
        {"a link is no state",
         {{"meta.json", '0', META}, {"state", '2', ""}},
         ERR_PARSE,
         "/t: archive: it holds no state"},
        {"index 0",
         {{"meta.json", '0', "{\"Index\":0}"}, {"state", '0', STATE}},
         ERR_INVALID,
         "/t: archive: meta.json: index 0: not a valid coordinator snapshot"},
        {"meta not JSON",
         {{"meta.json", '0', "x"}, {"state", '0', STATE}},
         ERR_PARSE,
         "/t: archive: meta.json: it ends early"},
        {"meta twice",
         {{"meta.json", '0', META}, {"meta.json", '0', META}},
         ERR_PARSE,
         "/t: archive: meta.json twice"},
        {"state twice",
         {{"meta.json", '0', META}, {"state", '0', STATE}, {"state", '0', STATE}},
         ERR_PARSE,
         "/t: archive: state twice"},
        {"a long name that begins like ours",
         {{"meta.json", '0', META},
          {"long", 'L', "state-of-something-else"},
          {"state", '0', "no"},
          {"state", '0', STATE}},
         ERR_OK,
         ""},
    };
    struct fs *fs = fresh_disk();
    struct buf tar;

    buf_init(&tar, 1 << 16);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct snapshot_facts facts = {0};
        struct note note = {""};
        buf_clear(&tar);
        for (size_t e = 0; e < 5 && cases[i].entries[e].name; e++)
            put_entry(&tar, cases[i].entries[e].name, cases[i].entries[e].type,
                      cases[i].entries[e].content);
        put_end(&tar);
        CHECK_ERR(cases[i].why, open_archive(fs, buf_peek(&tar), &facts, &note), cases[i].err);
        if (cases[i].err)
            CHECK_TEXT(cases[i].why, note.text, cases[i].note);
        else
            CHECK_U64(cases[i].why, facts.state.taken.of[FLEET_SHARDS], 1);
    }
    buf_deinit(&tar);
    sim_fs_close(disk);
}

TEST(bytes_that_are_no_tar_are_refused_with_their_offset)
{
    struct fs *fs = fresh_disk();
    struct snapshot_facts facts;
    struct note note = {""};
    struct buf tar;

    buf_init(&tar, 1 << 16);
    put_entry(&tar, "meta.json", '0', META);
    put_entry(&tar, "state", '0', STATE);
    put_end(&tar);
    for (size_t at = 1024; at < 1536; at++) {
        tar.data[at] ^= 4;
        CHECK_ERR("a changed byte", open_archive(fs, buf_peek(&tar), &facts, &note), ERR_PARSE);
        CHECK_TEXT("where", note.text, "/t: tar: header at offset 1024: its sum is wrong");
        tar.data[at] ^= 4;
    }
    CHECK_OK("repaired", open_archive(fs, buf_peek(&tar), &facts, &note));
    CHECK_OK("bytes after the end are ignored", buf_append_c(&tar, "garbage"));
    CHECK_OK("ignored", open_archive(fs, buf_peek(&tar), &facts, &note));
    buf_deinit(&tar);
    sim_fs_close(disk);
}

TEST(sizes_past_eleven_digits_are_binary)
{
    struct tar_entry entry;
    char block[TAR_BLOCK];

    CHECK_OK("8 GiB", tar_header("state", (uint64_t)1 << 33, block));
    CHECK("read", !tar_entry_read(block, &entry));
    CHECK_U64("its size", entry.size, (uint64_t)1 << 33);
    CHECK_TEXT("its name", entry.name, "state");
    CHECK_OK("the largest in digits", tar_header("state", ((uint64_t)1 << 33) - 1, block));
    CHECK_STR("digits", str_of(block + 124, 12), STR("77777777777\0"));
    CHECK_ERR("no name", tar_header("", 0, block), ERR_INVALID);
    CHECK_ERR("too large", tar_header("x", TAR_SIZE_MAX + 1, block), ERR_INVALID);
    CHECK_SIZE("padding", tar_padding(1), 511);
    CHECK_SIZE("padding", tar_padding(512), 0);
}
