/* SPDX-License-Identifier: Apache-2.0 */
/* The state as JSON: golden bytes, accepted deviations, dropped rows and their report, and equal
 * tables after a write and a read cut at any byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "fleet/format/command.h"
#include "fleet/format/state.h"
#include "lib/test.h"

static struct fleet *open_fleet(void)
{
    struct fleet *fleet;

    CHECK_OK("open", fleet_open(&fleet));
    return fleet;
}

/* Runs the commands, one JSON text a line. */
static void run(struct fleet *fleet, const char *script)
{
    struct str rest = str_from(script), line;
    struct fleet_command command;
    struct fleet_result result;
    struct arena arena;

    arena_init(&arena, 1 << 20);
    while (str_split(&rest, '\n', &line)) {
        CHECK_OK("a command", fleet_command_decode(line, &arena, &command, &result, NULL));
        CHECK_U64("done", fleet_apply(fleet, &command).status, FLEET_DONE);
    }
    arena_deinit(&arena);
}

static const char script[] =
    "{\"kind\":1,\"add_shard\":{\"entry\":{\"ID\":\"b\",\"Address\":\"h:2\"}}}\n"
    "{\"kind\":1,\"add_shard\":{\"entry\":{\"ID\":\"a\",\"Address\":\"h:1\",\"RegisteredAt\":"
    "\"2026-06-01T12:00:00.12345Z\"}}}\n"
    "{\"kind\":3,\"bind_cluster\":{\"cluster\":\"y\",\"shard\":\"a\"}}\n"
    "{\"kind\":3,\"bind_cluster\":{\"cluster\":\"<x>\",\"shard\":\"b\"}}\n"
    "{\"kind\":4,\"assign_domain\":{\"domain\":{\"Key\":\"zone\",\"Value\":\"1\"},\"shard\":\"a\"}}"
    "\n"
    "{\"kind\":4,\"assign_domain\":{\"domain\":{\"Key\":\"rack\",\"Value\":\"2\"},\"shard\":\"b\"}}"
    "\n"
    "{\"kind\":6,\"set_quota\":{\"key\":{\"Provider\":\"aws\",\"Region\":\"us\"},\"per_shard\":{"
    "\"b\":-2,\"a\":1}}}\n"
    "{\"kind\":6,\"set_quota\":{\"key\":{\"Provider\":\"aws\",\"Region\":\"eu\"}}}\n"
    "{\"kind\":7,\"upsert_provider\":{\"provider\":{\"Name\":\"p\",\"Address\":\"h\",\"Region\":"
    "\"r\"}}}";
#define SHARD_A                                                                                    \
    "{\"ID\":\"a\",\"Address\":\"h:1\",\"RegisteredAt\":\"2026-06-01T12:00:00.12345Z\","           \
    "\"LastHeartbeat\":\"%s\"}"
#define SHARD_B                                                                                    \
    "{\"ID\":\"b\",\"Address\":\"h:2\",\"RegisteredAt\":\"0001-01-01T00:00:00Z\","                 \
    "\"LastHeartbeat\":\"0001-01-01T00:00:00Z\"}"
#define NEWER                                                                                      \
    "{\"shards\":[" SHARD_A "," SHARD_B "],\"cluster_to_shard\":{\"\\u003cx\\u003e\":\"b\","       \
    "\"y\":\"a\"},\"domain_to_shard\":[{\"domain\":{\"Key\":\"rack\",\"Value\":\"2\"},"            \
    "\"shard\":\"b\"},{\"domain\":{\"Key\":\"zone\",\"Value\":\"1\"},\"shard\":\"a\"}]"
#define OLDER                                                                                      \
    NEWER ",\"quotas\":[{\"key\":{\"Provider\":\"aws\",\"Region\":\"eu\"},\"per_shard\":null},"    \
          "{\"key\":{\"Provider\":\"aws\",\"Region\":\"us\"},\"per_shard\":{\"a\":1,\"b\":-2}}],"  \
          "\"providers\":[{\"Name\":\"p\",\"Address\":\"h\",\"Region\":\"r\"}]"

static void write_state(struct fleet *fleet, struct fleet_state_style style, size_t budget,
                        struct buf *text)
{
    struct fleet_state_writer *writer;
    bool done = false;

    buf_clear(text);
    CHECK_OK("writer", fleet_state_write_open(fleet, style, &writer));
    while (!done) {
        size_t before = text->len;
        CHECK_OK("next", fleet_state_write_next(writer, budget, text, &done));
        CHECK("at least one byte", text->len > before || done);
    }
    fleet_state_write_close(writer);
}

static enum err read_once(struct str text, size_t piece, const struct fleet_state_options *options,
                          struct fleet_state_summary *ret_summary, struct note *note)
{
    struct fleet_state_reader *reader;
    enum err err = fleet_state_read_begin(options, &reader);

    CHECK_OK("begin", err);
    for (size_t at = 0; !err && at < text.len; at += piece)
        err = fleet_state_read_next(reader, str_of(text.at + at, min_size(piece, text.len - at)),
                                    note);
    if (!err) err = fleet_state_read_end(reader, ret_summary, note);
    fleet_state_read_close(reader);
    return err;
}

/* Reads the state again, in pieces. */
static enum err read_state(struct str text, size_t piece, const struct fleet_state_options *options,
                           struct fleet_state_summary *ret_summary, struct note *note)
{
    struct fleet_state_options later = *options;
    struct fleet_state_summary second;
    enum err err = read_once(text, piece, options, ret_summary, note);

    if (err || !ret_summary->again) return err;
    later.only = ret_summary->again;
    err = read_once(text, piece, &later, &second, note);
    for (size_t t = 0; !err && t < FLEET_TABLES; t++) {
        ret_summary->taken.of[t] += second.taken.of[t];
        ret_summary->dropped.of[t] += second.dropped.of[t];
    }
    return err;
}

TEST(the_state_is_written_byte_for_byte)
{
    struct fleet_time beat = {FLEET_TIME_UNIX + 1780315201, 0};
    struct fleet *fleet = open_fleet();
    char want[2048];
    struct buf text;

    buf_init(&text, 1 << 16);
    write_state(fleet, (struct fleet_state_style){0}, 1000, &text);
    CHECK_STR(
        "empty", buf_peek(&text),
        STR("{\"shards\":null,\"cluster_to_shard\":{},\"domain_to_shard\":null,\"quotas\":null,"
            "\"providers\":null}"));
    run(fleet, script);
    fleet_heartbeat(fleet, STR("a"), beat);
    snprintf(want, sizeof want, OLDER "}", "0001-01-01T00:00:00Z");
    write_state(fleet, (struct fleet_state_style){0}, 1, &text);
    CHECK_STR("row by row", buf_peek(&text), str_from(want));
    write_state(fleet, (struct fleet_state_style){0}, 1 << 16, &text);
    CHECK_STR("at once", buf_peek(&text), str_from(want));
    snprintf(want, sizeof want, OLDER "}", "2026-06-01T12:00:01Z");
    write_state(fleet, (struct fleet_state_style){.heartbeats = true}, 50, &text);
    CHECK_STR("with heartbeats", buf_peek(&text), str_from(want));
    snprintf(want, sizeof want,
             OLDER ",\"muster\":{\"format\":1,\"index\":77,\"hash\":\"%016llx\"}}",
             "0001-01-01T00:00:00Z", (unsigned long long)fleet_hash(fleet));
    write_state(fleet, (struct fleet_state_style){.sealed = true, .index = 77}, 50, &text);
    CHECK_STR("sealed", buf_peek(&text), str_from(want));
    buf_deinit(&text);
    fleet_close(fleet);
}

TEST(a_written_state_is_read_back_at_every_cut)
{
    struct fleet *fleet = open_fleet();
    struct fleet_state_summary summary;
    struct fleet_row shard;
    struct note note = {""};
    struct buf text;

    buf_init(&text, 1 << 16);
    run(fleet, script);
    fleet_heartbeat(fleet, STR("a"), (struct fleet_time){5, 5});
    write_state(fleet, (struct fleet_state_style){.sealed = true, .index = 9, .heartbeats = true},
                100, &text);
    for (size_t piece = 1; piece < text.len + 1; piece++) {
        struct fleet *copy = open_fleet();
        struct fleet_state_options options = {.fleet = copy, .strict = true};
        CHECK_OK(note.text, read_state(buf_peek(&text), piece, &options, &summary, &note));
        CHECK_U64("hash", fleet_hash(copy), fleet_hash(fleet));
        CHECK_U64("index", summary.index, 9);
        CHECK("sealed", summary.sealed);
        CHECK_U32("taken", summary.taken.of[FLEET_DOMAINS], 2);
        CHECK_U32("dropped", summary.dropped.of[FLEET_DOMAINS], 0);
        CHECK("found", fleet_find(copy, FLEET_SHARDS, STR("a"), STR_EMPTY, &shard));
        CHECK_I64("its heartbeat", shard.shard.last_heartbeat.seconds, 5);
        fleet_close(copy);
    }
    CHECK_OK("checked only",
             read_state(buf_peek(&text), 7, &(struct fleet_state_options){.strict = true}, &summary,
                        &note));
    buf_deinit(&text);
    fleet_close(fleet);
}

/* Domain rack=2 is leaving b, which is not registered any more. */
TEST(leaving_domains_are_a_member_of_their_own_that_is_there_only_when_there_are_any)
{
    static const char member[] =
        ",\"domains_leaving\":[{\"domain\":{\"Key\":\"rack\",\"Value\":\"2\"},\"shard\":\"b\","
        "\"since\":40}],\"muster\":{\"format\":2,";
    struct fleet_command removal = {FLEET_REMOVE_SHARD, .remove_shard = {"b", 1}};
    struct fleet *fleet = open_fleet();
    struct fleet_state_summary summary;
    struct note note = {""};
    struct buf text;

    buf_init(&text, 1 << 16);
    run(fleet, script);
    fleet_apply_entry(fleet, &removal, (struct fleet_entry){40, FLEET_LEAVING_LEVEL});
    write_state(fleet, (struct fleet_state_style){.sealed = true, .index = 41}, 3, &text);
    CHECK("the member", memmem(text.data, text.len, member, sizeof member - 1));
    for (size_t piece = 1; piece < text.len + 1; piece++) {
        struct fleet *copy = open_fleet();
        struct fleet_state_options options = {.fleet = copy, .strict = true};
        CHECK_OK(note.text, read_state(buf_peek(&text), piece, &options, &summary, &note));
        CHECK_U64("hash", fleet_hash(copy), fleet_hash(fleet));
        CHECK_U32("taken", summary.taken.of[FLEET_LEAVING], 1);
        fleet_close(copy);
    }
    buf_deinit(&text);
    fleet_close(fleet);
}

/* -- reading -- */
struct drops {
    struct buf lines;
};

static void note_drop(void *owner, const struct fleet_row *row, const struct fleet_result *why)
{
    bool leaving = row->table == FLEET_LEAVING; /* no command of the log brings such a row */
    struct fleet_command command = {.kind = FLEET_CLEAR_LEAVING};
    struct drops *drops = owner;
    struct note text;

    if (!leaving) command = fleet_row_command(row);
    fleet_result_text(leaving ? NULL : &command, why, &text);
    CHECK_OK("room", buf_append_c(&drops->lines, text.text));
    CHECK_OK("room", buf_append_byte(&drops->lines, '\n'));
}

static const struct {
    const char *why, *text;
    enum err err;
    unsigned shards, clusters, domains; /* taken */
    const char *drops;                  /* or the error's note */
} reads[] = {
    {"D3: keys in lower case, nothing but an id", "{\"shards\":[{\"id\":\"shard-a\"}]}", ERR_OK, 1,
     0, 0, ""},
    {"empty", "{}", ERR_OK, 0, 0, 0, ""},
    {"nulls",
     "{\"shards\":null,\"cluster_to_shard\":null,\"domain_to_shard\":null,\"quotas\":null,"
     "\"providers\":null}",
     ERR_OK, 0, 0, 0, ""},
    {"unknown members", "{\"x\":[{\"shards\":[1]}],\"y\":1,\"shards\":[{\"ID\":\"a\",\"z\":{}}]}",
     ERR_OK, 1, 0, 0, ""},
    {"an entry that points at nobody disappears, and is reported",
     "{\"shards\":[{\"ID\":\"a\"}],\"cluster_to_shard\":{\"c\":\"a\",\"d\":\"x\"},"
     "\"domain_to_shard\":[{\"domain\":{\"Key\":\"k\",\"Value\":\"v\"},\"shard\":\"y\"},"
     "{\"domain\":{\"Key\":\"k\",\"Value\":\"w\"},\"shard\":\"a\"}]}",
     ERR_OK, 1, 1, 1, "shard not found: x\nshard not found: y\n"},
    {"duplicates in lists: the rules of writing",
     "{\"shards\":[{\"ID\":\"a\"},{\"ID\":\"b\"},{\"ID\":\"a\"},{\"ID\":\"\"},null],"
     "\"domain_to_shard\":[{\"domain\":{\"Key\":\"k\",\"Value\":\"v\"},\"shard\":\"a\"},"
     "{\"domain\":{\"Key\":\"k\",\"Value\":\"v\"},\"shard\":\"b\"}]}",
     ERR_OK, 2, 0, 1,
     "shard exists: a\nshard id is empty\nshard id is empty\n"
     "domain already assigned: k=v: current a, requested b\n"},
    {"shards last, as a tool that sorts keys leaves them",
     "{\"cluster_to_shard\":{\"c\":\"a\",\"d\":\"x\"},\"domain_to_shard\":[{\"domain\":{\"Key\":"
     "\"k\",\"Value\":\"v\"},\"shard\":\"a\"}],\"providers\":[{\"Name\":\"p\"}],\"quotas\":null,"
     "\"shards\":[{\"ID\":\"a\"}]}",
     ERR_OK, 1, 1, 1, "shard not found: x\n"},
    {"domains before clusters before shards: in the order of the text",
     "{\"domain_to_shard\":[{\"domain\":{\"Key\":\"k\",\"Value\":\"v\"},\"shard\":\"x\"}],"
     "\"cluster_to_shard\":{\"d\":\"y\"},\"shards\":[]}",
     ERR_OK, 0, 0, 0, "shard not found: x\nshard not found: y\n"},
    {"no shards at all", "{\"cluster_to_shard\":{\"c\":\"a\"}}", ERR_OK, 0, 0, 0,
     "shard not found: a\n"},
    {"a cluster of null", "{\"shards\":[{\"ID\":\"a\"}],\"cluster_to_shard\":{\"c\":null}}", ERR_OK,
     1, 0, 0, "shard not found: \n"},
    {"indented",
     "{\n  \"shards\": [\n    {\n      \"ID\": \"a\"\n    }\n  ],\n  \"cluster_to_shard\": {}\n}\n",
     ERR_OK, 1, 0, 0, ""},
    {"not an object", "[]", ERR_PARSE, 0, 0, 0, "state: offset 1: expected an object"},
    {"half", "{\"shards\":[", ERR_PARSE, 0, 0, 0, "state: offset 11: it ends early"},
    {"nothing", "", ERR_PARSE, 0, 0, 0, "state: offset 0: it ends early"},
    {"bytes behind", "{}x", ERR_PARSE, 0, 0, 0, "state: offset 2: bytes after the value"},
    {"shards as an object", "{\"shards\":{}}", ERR_PARSE, 0, 0, 0,
     "state: offset 11: field 'shards': expected a list"},
    {"clusters as a list", "{\"cluster_to_shard\":[]}", ERR_PARSE, 0, 0, 0,
     "state: offset 21: field 'cluster_to_shard': expected an object"},
    {"a cluster of a number", "{\"cluster_to_shard\":{\"a\":1}}", ERR_PARSE, 0, 0, 0,
     "state: offset 26: field 'cluster_to_shard': expected texts"},
    {"a row that is a text", "{\"shards\":[\"a\"]}", ERR_PARSE, 0, 0, 0,
     "state: offset 14: field 'shards': expected objects"},
    {"a table twice", "{\"shards\":[],\"SHARDS\":[]}", ERR_PARSE, 0, 0, 0,
     "state: offset 23: field 'shards': expected it once"},
    {"a time that is none", "{\"shards\":[{\"ID\":\"a\",\"RegisteredAt\":\"x\"}]}", ERR_PARSE, 0, 0,
     0, "state: offset 40: field 'RegisteredAt': not a time"},
    {"a seal of the future", "{\"muster\":{\"format\":3,\"index\":1,\"hash\":\"0\"}}", ERR_VERSION,
     0, 0, 0, "state: offset 43: sealed in format 3"},
    {"a seal of the past", "{\"muster\":{\"format\":0,\"index\":1,\"hash\":\"0\"}}", ERR_VERSION, 0,
     0, 0, "state: offset 43: sealed in format 0"},
    {"leaving domains first, as a tool that sorts keys leaves them: an owner beside them",
     "{\"domain_to_shard\":[{\"domain\":{\"Key\":\"k\",\"Value\":\"v\"},\"shard\":\"a\"}],"
     "\"domains_leaving\":[{\"domain\":{\"Key\":\"k\",\"Value\":\"v\"},\"shard\":\"x\",\"since\":4}"
     "],"
     "\"shards\":[{\"ID\":\"a\"}]}",
     ERR_OK, 1, 0, 1, ""},
    {"leaving nobody, or its own owner",
     "{\"shards\":[{\"ID\":\"a\"}],\"domain_to_shard\":[{\"domain\":{\"Key\":\"k\",\"Value\":\"v\"}"
     ","
     "\"shard\":\"a\"}],\"domains_leaving\":[{\"domain\":{\"Key\":\"k\",\"Value\":\"v\"},"
     "\"shard\":\"a\",\"since\":4},{}]}",
     ERR_OK, 1, 0, 1, "domain already assigned\nshard id is empty\n"},
    {"leaving domains as an object", "{\"domains_leaving\":{}}", ERR_PARSE, 0, 0, 0,
     "state: offset 20: field 'domains_leaving': expected a list"},
    {"a seal without a hash", "{\"muster\":{\"format\":1,\"index\":1,\"hash\":\"0\"}}", ERR_PARSE,
     0, 0, 0, "state: offset 43: the seal's hash is no hash"},
};

TEST(a_foreign_state_is_read_by_the_rules_of_writing_and_dropped_rows_are_reported)
{
    for (size_t i = 0; i < ARRAY_LEN(reads); i++) {
        struct fleet *fleet = open_fleet();
        struct fleet_state_summary summary = {0};
        struct drops drops;
        struct fleet_state_options options = {
            .fleet = fleet, .dropped = note_drop, .owner = &drops};
        struct note note = {""};
        size_t piece = reads[i].err ? SIZE_MAX / 2 : 3;

        buf_init(&drops.lines, 4096);
        CHECK_ERR(reads[i].why,
                  read_state(str_from(reads[i].text), piece, &options, &summary, &note),
                  reads[i].err);
        if (reads[i].err) {
            CHECK_TEXT(reads[i].why, note.text, reads[i].drops);
        } else {
            CHECK_U32(reads[i].why, fleet_counts(fleet).of[FLEET_SHARDS], reads[i].shards);
            CHECK_U32(reads[i].why, fleet_counts(fleet).of[FLEET_CLUSTERS], reads[i].clusters);
            CHECK_U32(reads[i].why, fleet_counts(fleet).of[FLEET_DOMAINS], reads[i].domains);
            CHECK_U32(reads[i].why, summary.taken.of[FLEET_DOMAINS], reads[i].domains);
            CHECK_STR(reads[i].why, buf_peek(&drops.lines), str_from(reads[i].drops));
        }
        buf_deinit(&drops.lines);
        fleet_close(fleet);
    }
}

TEST(our_own_snapshots_must_be_whole_to_the_last_row)
{
    static const struct {
        const char *why, *text, *note;
    } cases[] = {
        {"no seal", "{\"shards\":[{\"ID\":\"a\"}]}", "state: it has no seal"},
        {"another hash",
         "{\"shards\":[{\"ID\":\"a\"}],\"muster\":{\"format\":1,\"index\":1,\"hash\":"
         "\"0000000000000000\"}}",
         "state: sealed with another hash"},
        {"a row that is refused", "{\"cluster_to_shard\":{\"c\":\"a\"},\"shards\":null}",
         "state: offset 28: a row of cluster_to_shard is refused: shard not found: a"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fleet *fleet = open_fleet();
        struct fleet_state_options options = {.fleet = fleet, .strict = true};
        struct fleet_state_summary summary;
        struct note note = {""};
        CHECK_ERR(cases[i].why,
                  read_state(str_from(cases[i].text), 1000, &options, &summary, &note),
                  ERR_CORRUPT);
        CHECK_TEXT(cases[i].why, note.text, cases[i].note);
        fleet_close(fleet);
    }
}

/* Commands between the slices of a snapshot: the snapshot has the state of its start. */
TEST(a_snapshot_taken_while_commands_go_on_is_the_state_it_began_with)
{
    struct fleet *fleet = open_fleet();
    struct buf before, during, command;
    struct prng prng;

    prng_seed(&prng, test_seed());
    buf_init(&before, 1 << 24);
    buf_init(&during, 1 << 24);
    buf_init(&command, 4096);
    run(fleet, script);
    for (unsigned round = 0; round < 40; round++) {
        struct fleet_state_style style = {.sealed = true, .index = round};
        struct fleet_state_summary summary;
        struct fleet_state_writer *writer;
        struct fleet *copy = open_fleet();
        struct fleet_state_options options = {.fleet = copy, .strict = true};
        struct note note = {""};
        bool done = false;
        uint64_t hash;

        write_state(fleet, style, 1 << 20, &before);
        hash = fleet_hash(fleet);
        buf_clear(&during);
        CHECK_OK("writer", fleet_state_write_open(fleet, style, &writer));
        while (!done) {
            for (unsigned i = 0; i < 20; i++) {
                char value[24], shard[24];
                struct fleet_command change = {0};
                snprintf(value, sizeof value, "v-%u", (unsigned)prng_below(&prng, 3000));
                snprintf(shard, sizeof shard, "s-%u", (unsigned)prng_below(&prng, 20));
                switch (prng_below(&prng, 8)) {
                case 0:
                    change = (struct fleet_command){FLEET_ADD_SHARD,
                                                    .add_shard = {.id = str_from(shard)}};
                    break;
                case 1:
                    if (prng_chance(&prng, 950000)) continue;
                    change =
                        (struct fleet_command){FLEET_REMOVE_SHARD, .remove_shard = str_from(shard)};
                    break;
                case 2:
                case 3:
                    change = (struct fleet_command){
                        FLEET_UNASSIGN_DOMAIN,
                        .unassign_domain = {STR("k"), str_from(value), STR_EMPTY}};
                    break;
                case 4:
                    change = (struct fleet_command){
                        FLEET_SET_QUOTA, .set_quota = {str_from(shard), str_from(value), NULL, 0}};
                    break;
                default:
                    change = (struct fleet_command){
                        FLEET_ASSIGN_DOMAIN,
                        .assign_domain = {STR("k"), str_from(value), str_from(shard)}};
                }
                fleet_apply(fleet, &change);
            }
            CHECK_OK("next", fleet_state_write_next(writer, 400, &during, &done));
        }
        fleet_state_write_close(writer);
        CHECK_STR("byte for byte", buf_peek(&during), buf_peek(&before));
        CHECK_OK(note.text, read_state(buf_peek(&during), 1000, &options, &summary, &note));
        CHECK_U64("hash", fleet_hash(copy), hash);
        fleet_close(copy);
    }
    buf_deinit(&before);
    buf_deinit(&during);
    buf_deinit(&command);
    fleet_close(fleet);
}
