/* SPDX-License-Identifier: Apache-2.0 */
/* meta.json, tar and the archive made of them: golden bytes, the table of coordinator.md 6.6, and
 * every cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/format/archive.h"
#include "lib/test.h"

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
    CHECK_U64("version", meta.version, 1);
    CHECK_TEXT("id", meta.id, "2-3-1794727977390");
    CHECK_U64("index", meta.index, 3);
    CHECK_U64("term", meta.term, 2);
    CHECK_SIZE("servers", meta.server_count, 1);
    CHECK_TEXT("server", meta.servers[0].id, "node-1");
    CHECK_TEXT("address", meta.servers[0].address, "127.0.0.1:17791");
    CHECK_U64("configuration", meta.configuration_index, 1);
    CHECK_U64("size", meta.size, 60);
    fleet_meta_name(&meta, 1794727977390);
    CHECK_TEXT("named", meta.id, "2-3-1794727977390");
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
        {"servers as an object", "{\"Index\":1,\"Configuration\":{\"Servers\":{}}}", ERR_PARSE,
         "meta.json: field 'Servers': expected a list"},
        {"servers of texts", "{\"Index\":1,\"Configuration\":{\"Servers\":[\"a\"]}}", ERR_PARSE,
         "meta.json: expected objects in the list"},
        {"a server of null", "{\"Index\":1,\"Configuration\":{\"Servers\":[null]}}", ERR_OK, ""},
    };
    struct fleet_meta meta;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct note note = {""};
        CHECK_ERR(cases[i].why, fleet_meta_read(str_from(cases[i].text), &meta, &note),
                  cases[i].err);
        CHECK_TEXT(cases[i].why, note.text, cases[i].note);
    }
}

TEST(more_servers_and_longer_names_than_we_keep_are_cut)
{
    static struct fleet_meta meta, again;
    static char name[1000];
    struct buf text;

    memset(name, 'n', sizeof name - 1);
    buf_init(&text, 1 << 20);
    CHECK_OK(
        "head",
        buf_appendf(&text, "{\"Index\":5,\"ID\":\"%s\",\"Configuration\":{\"Servers\":[", name));
    for (unsigned i = 0; i < FLEET_META_SERVERS_MAX + 5; i++)
        CHECK_OK("server",
                 buf_appendf(&text, "%s{\"Suffrage\":%u,\"ID\":\"%u\"}", i ? "," : "", i, i));
    CHECK_OK("tail", buf_append_c(&text, "]}}"));
    CHECK_OK("read", fleet_meta_read(buf_peek(&text), &meta, NULL));
    CHECK_SIZE("servers", meta.server_count, FLEET_META_SERVERS_MAX);
    CHECK_SIZE("name", strlen(meta.id), FLEET_META_TEXT_MAX);
    CHECK_U64("known suffrages only", meta.servers[9].suffrage, FLEET_STAGING);
    CHECK_TEXT("its own address", meta.servers[9].address, "");
    buf_clear(&text);
    CHECK_OK("written", fleet_meta_write(&meta, false, &text));
    CHECK_OK("read again", fleet_meta_read(buf_peek(&text), &again, NULL));
    CHECK("the same", memcmp(&meta, &again, sizeof meta) == 0);
    buf_deinit(&text);
}

/* -- archives -- */
struct taken {
    struct buf state;
    enum err answer;
};

static enum err take_state(void *owner, struct str bytes, struct note *note)
{
    struct taken *taken = owner;

    note_set(note, "the state function's own words");
    CHECK_OK("room", buf_append(&taken->state, bytes));
    return taken->answer;
}

static enum err open_archive(struct str bytes, size_t piece, struct taken *taken,
                             struct fleet_meta *ret_meta, uint64_t *ret_size, struct note *note)
{
    struct fleet_archive_reader *reader;
    enum err err;

    buf_clear(&taken->state);
    CHECK_OK("open", fleet_archive_open(take_state, taken, &reader));
    err = ERR_OK;
    for (size_t at = 0; !err && at < bytes.len; at += piece)
        err = fleet_archive_read(reader, str_of(bytes.at + at, min_size(piece, bytes.len - at)),
                                 note);
    if (!err) err = fleet_archive_end(reader, ret_meta, ret_size, note);
    fleet_archive_close(reader);
    return err;
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

TEST(d3_an_archive_is_written_block_by_block_and_reopens_with_identical_bytes)
{
    struct taken taken = {.answer = ERR_OK};
    struct fleet_meta meta;
    uint64_t size;
    struct note note = {""};
    struct buf tar;

    buf_init(&tar, 1 << 16);
    buf_init(&taken.state, 1 << 16);
    CHECK_OK("head", fleet_archive_head(STR(META), sizeof STATE - 1, &tar));
    CHECK_OK("state", buf_append_c(&tar, STATE));
    CHECK_OK("tail", fleet_archive_tail(sizeof STATE - 1, &tar));
    CHECK_SIZE("no padding to a record", tar.len, 512 * 6);
    CHECK_STR("name", str_of(tar.data, 10), STR("meta.json\0"));
    CHECK_STR("mode, owner, group", str_of(tar.data + 100, 24),
              STR("0000644\0000000000\0000000000\0"));
    CHECK_STR("size and time", str_of(tar.data + 124, 24), STR("00000000057\00000000000000\0"));
    CHECK_STR("type", str_of(tar.data + 156, 1), STR("0"));
    CHECK_STR("magic", str_of(tar.data + 257, 8), STR("ustar\00000"));
    CHECK_STR("the next", str_of(tar.data + 1024, 6), STR("state\0"));
    for (size_t piece = 1; piece < 2000; piece += piece < 20 ? 1 : 331) {
        CHECK_OK(note.text, open_archive(buf_peek(&tar), piece, &taken, &meta, &size, &note));
        CHECK_U64("index", meta.index, 12);
        CHECK_U64("term", meta.term, 2);
        CHECK_U64("size", size, sizeof STATE - 1);
        CHECK_STR("identical", buf_peek(&taken.state), STR(STATE));
    }
    taken.answer = ERR_NO_SPACE;
    CHECK_ERR("what the state function says",
              open_archive(buf_peek(&tar), 512, &taken, &meta, &size, &note), ERR_NO_SPACE);
    taken.answer = ERR_OK;
    for (size_t len = 0; len < tar.len; len++) {
        enum err err = open_archive(str_of(tar.data, len), 4096, &taken, &meta, &size, &note);
        if (len == 2048 || (len >= 2048 && len % 512 == 0))
            CHECK_OK("whole without its end", err);
        else
            CHECK_ERR("cut", err, ERR_PARSE);
    }
    buf_deinit(&tar);
    buf_deinit(&taken.state);
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
         "archive: state before meta.json"},
        {"no state", {{"meta.json", '0', META}}, ERR_PARSE, "archive: it holds no state"},
        {"no meta", {{"other", '0', META}}, ERR_PARSE, "archive: it holds no meta.json"},
        {"nothing", {{NULL, 0, NULL}}, ERR_PARSE, "archive: it holds no meta.json"},
        {"names match exactly",
         {{"./meta.json", '0', META}, {"./state", '0', STATE}},
         ERR_PARSE,
         "archive: it holds no meta.json"},
        {"a link is no state",
         {{"meta.json", '0', META}, {"state", '2', ""}},
         ERR_PARSE,
         "archive: it holds no state"},
        {"index 0",
         {{"meta.json", '0', "{\"Index\":0}"}, {"state", '0', STATE}},
         ERR_INVALID,
         "archive: meta.json: index 0: not a valid coordinator snapshot"},
        {"meta not JSON",
         {{"meta.json", '0', "x"}, {"state", '0', STATE}},
         ERR_PARSE,
         "archive: meta.json: it ends early"},
        {"meta twice",
         {{"meta.json", '0', META}, {"meta.json", '0', META}},
         ERR_PARSE,
         "archive: meta.json twice"},
        {"state twice",
         {{"meta.json", '0', META}, {"state", '0', STATE}, {"state", '0', STATE}},
         ERR_PARSE,
         "archive: state twice"},
        {"a long name that begins like ours",
         {{"meta.json", '0', META},
          {"long", 'L', "state-of-something-else"},
          {"state", '0', "no"},
          {"state", '0', STATE}},
         ERR_OK,
         ""},
    };
    struct taken taken = {.answer = ERR_OK};
    struct buf tar;

    buf_init(&taken.state, 1 << 16);
    buf_init(&tar, 1 << 16);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet_meta meta;
        uint64_t size;
        struct note note = {""};
        buf_clear(&tar);
        for (size_t e = 0; e < 5 && cases[i].entries[e].name; e++)
            put_entry(&tar, cases[i].entries[e].name, cases[i].entries[e].type,
                      cases[i].entries[e].content);
        put_end(&tar);
        CHECK_ERR(cases[i].why, open_archive(buf_peek(&tar), 700, &taken, &meta, &size, &note),
                  cases[i].err);
        if (cases[i].err)
            CHECK_TEXT(cases[i].why, note.text, cases[i].note);
        else
            CHECK_STR(cases[i].why, buf_peek(&taken.state), STR(STATE));
    }
    buf_deinit(&tar);
    buf_deinit(&taken.state);
}

TEST(bytes_that_are_no_tar_are_refused_with_their_offset)
{
    struct taken taken = {.answer = ERR_OK};
    struct fleet_meta meta;
    struct note note = {""};
    struct buf tar;
    uint64_t size;

    buf_init(&taken.state, 1 << 16);
    buf_init(&tar, 1 << 16);
    put_entry(&tar, "meta.json", '0', META);
    put_entry(&tar, "state", '0', STATE);
    put_end(&tar);
    for (size_t at = 1024; at < 1536; at++) {
        tar.data[at] ^= 4;
        CHECK_ERR("a changed byte", open_archive(buf_peek(&tar), 4096, &taken, &meta, &size, &note),
                  ERR_PARSE);
        CHECK_TEXT("where", note.text, "tar: header at offset 1024: its sum is wrong");
        tar.data[at] ^= 4;
    }
    CHECK_OK("mended", open_archive(buf_peek(&tar), 4096, &taken, &meta, &size, &note));
    CHECK_OK("what follows the end is ignored", buf_append_c(&tar, "garbage"));
    CHECK_OK("ignored", open_archive(buf_peek(&tar), 4096, &taken, &meta, &size, &note));
    buf_deinit(&tar);
    buf_deinit(&taken.state);
}

TEST(sizes_past_eleven_digits_are_binary)
{
    struct str bytes;
    enum tar_event event;
    char block[TAR_BLOCK];
    struct tar_reader reader;

    CHECK_OK("8 GiB", tar_header("state", (uint64_t)1 << 33, block));
    tar_read_begin(&reader);
    bytes = str_of(block, sizeof block);
    CHECK_OK("read", tar_read(&reader, &bytes, &event, NULL));
    CHECK_U64("an entry", event, TAR_ENTRY);
    CHECK_U64("its size", reader.size, (uint64_t)1 << 33);
    CHECK_TEXT("its name", reader.name, "state");
    CHECK_OK("the largest in digits", tar_header("state", ((uint64_t)1 << 33) - 1, block));
    CHECK_STR("digits", str_of(block + 124, 12), STR("77777777777\0"));
    CHECK_ERR("no name", tar_header("", 0, block), ERR_INVALID);
    CHECK_ERR("too large", tar_header("x", TAR_SIZE_MAX + 1, block), ERR_INVALID);
    CHECK_SIZE("padding", tar_padding(1), 511);
    CHECK_SIZE("padding", tar_padding(512), 0);
}
