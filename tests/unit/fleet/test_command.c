/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and times as JSON: the bytes of coordinator.md section 4, and the deviations that a
 * reader accepts. */
#include <stdio.h>
#include <string.h>

#include "fleet/format/command.h"
#include "lib/test.h"

static const struct fleet_slice slices[] = {{{"b", 1}, 200}, {{"a", 1}, 1}, {{"a", 1}, 100}};

/* -- golden bytes: each command, written and read -- */
static const struct {
    const char *why;
    struct fleet_command command;
    const char *text;
} golden[] = {
    {"AddShard",
     {FLEET_ADD_SHARD, .add_shard = {.id = {"shard-a", 7},
                                     .address = {"host:1", 6},
                                     .registered_at = {FLEET_TIME_UNIX + 1780315200, 123450000},
                                     .last_heartbeat = {5, 5}}},
     "{\"kind\":1,\"add_shard\":{\"entry\":{\"ID\":\"shard-a\",\"Address\":\"host:1\","
     "\"RegisteredAt\":"
     "\"2026-06-01T12:00:00.12345Z\",\"LastHeartbeat\":\"0001-01-01T00:00:00Z\"}}}"},
    {"RemoveShard",
     {FLEET_REMOVE_SHARD, .remove_shard = {"shard-a", 7}},
     "{\"kind\":2,\"remove_shard\":{\"id\":\"shard-a\"}}"},
    {"BindCluster",
     {FLEET_BIND_CLUSTER, .bind_cluster = {{"cluster-x", 9}, {"shard-a", 7}}},
     "{\"kind\":3,\"bind_cluster\":{\"cluster\":\"cluster-x\",\"shard\":\"shard-a\"}}"},
    {"AssignDomain",
     {FLEET_ASSIGN_DOMAIN, .assign_domain = {{"rack", 4}, {"r-1", 3}, {"shard-a", 7}}},
     "{\"kind\":4,\"assign_domain\":{\"domain\":{\"Key\":\"rack\",\"Value\":\"r-1\"},\"shard\":"
     "\"shard-a\"}}"},
    {"UnassignDomain",
     {FLEET_UNASSIGN_DOMAIN, .unassign_domain = {.key = {"rack", 4}, .value = {"r-1", 3}}},
     "{\"kind\":5,\"unassign_domain\":{\"domain\":{\"Key\":\"rack\",\"Value\":\"r-1\"}}}"},
    {"SetQuota",
     {FLEET_SET_QUOTA, .set_quota = {{"aws", 3}, {"us-east-1", 9}, slices, 3}},
     "{\"kind\":6,\"set_quota\":{\"key\":{\"Provider\":\"aws\",\"Region\":\"us-east-1\"},\"per_"
     "shard\":"
     "{\"a\":100,\"b\":200}}}"},
    {"SetQuota with an unset map",
     {FLEET_SET_QUOTA, .set_quota = {{"aws", 3}, {"us-east-1", 9}, NULL, 0}},
     "{\"kind\":6,\"set_quota\":{\"key\":{\"Provider\":\"aws\",\"Region\":\"us-east-1\"},\"per_"
     "shard\":"
     "null}}"},
    {"UpsertProvider",
     {FLEET_UPSERT_PROVIDER, .upsert_provider = {{"aws-east", 8}, {"host:1", 6}, {"us-east-1", 9}}},
     "{\"kind\":7,\"upsert_provider\":{\"provider\":{\"Name\":\"aws-east\",\"Address\":\"host:1\","
     "\"Region\":\"us-east-1\"}}}"},
    {"AssignDomain, forced",
     {FLEET_ASSIGN_DOMAIN, .force = true, .assign_domain = {{"zone", 4}, {"1", 1}, {"a", 1}}},
     "{\"kind\":4,\"assign_domain\":{\"domain\":{\"Key\":\"zone\",\"Value\":\"1\"},\"shard\":"
     "\"a\",\"force\":1}}"},
    {"ClearLeaving",
     {FLEET_CLEAR_LEAVING,
      .clear_leaving = {{"zone", 4}, {"1", 1}, {"a", 1}, UINT64_C(18446744073709551615)}},
     "{\"kind\":8,\"clear_leaving\":{\"domain\":{\"Key\":\"zone\",\"Value\":\"1\"},\"shard\":"
     "\"a\",\"since\":18446744073709551615}}"},
    {"escapes",
     {FLEET_REMOVE_SHARD,
      .remove_shard = {"<&>\"\\\n\r\t\b\x01\x7f\xe2\x80\xa8\xe2\x80\xa9\xe2\x82\xac", 20}},
     "{\"kind\":2,\"remove_shard\":{\"id\":"
     "\"\\u003c\\u0026\\u003e\\\"\\\\\\n\\r\\t\\u0008\\u0001\x7f"
     "\\u2028\\u2029\xe2\x82\xac\"}}"},
};

TEST(commands_are_written_byte_for_byte_and_read_back)
{
    struct fleet_command command;
    struct fleet_result result;
    struct buf text, again;
    struct arena arena;

    buf_init(&text, 4096);
    buf_init(&again, 4096);
    arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < ARRAY_LEN(golden); i++) {
        buf_clear(&text);
        CHECK_OK(golden[i].why, fleet_command_encode(&golden[i].command, &text));
        CHECK_STR(golden[i].why, buf_peek(&text), str_from(golden[i].text));
        CHECK_OK(golden[i].why,
                 fleet_command_decode(buf_peek(&text), &arena, &command, &result, NULL));
        CHECK_U64(golden[i].why, command.kind, golden[i].command.kind);
        buf_clear(&again);
        CHECK_OK(golden[i].why, fleet_command_encode(&command, &again));
        CHECK_STR(golden[i].why, buf_peek(&again), buf_peek(&text));
    }
    arena_deinit(&arena);
    buf_deinit(&text);
    buf_deinit(&again);
}

TEST(what_is_no_command_is_not_written)
{
    struct fleet_command command = {.kind = (enum fleet_kind)9};
    struct buf text;

    buf_init(&text, 80);
    CHECK_OK("before", buf_append_c(&text, "x"));
    CHECK_ERR("kind", fleet_command_encode(&command, &text), ERR_INVALID);
    command = (struct fleet_command){FLEET_REMOVE_SHARD, .remove_shard = {"\xff", 1}};
    CHECK_ERR("not UTF-8", fleet_command_encode(&command, &text), ERR_INVALID);
    command = (struct fleet_command){FLEET_ADD_SHARD, .add_shard = {.registered_at = {-1, 0}}};
    CHECK_ERR("time", fleet_command_encode(&command, &text), ERR_INVALID);
    CHECK_ERR("room", fleet_command_encode(&golden[0].command, &text), ERR_FULL);
    CHECK_STR("all or nothing", buf_peek(&text), STR("x"));
    buf_deinit(&text);
}

/* -- reading: accepts what the original accepts, refuses the rest with the field's name -- */
#define DOMAIN "\"assign_domain\":{\"domain\":{\"Key\":\"rack\",\"Value\":\"r-1\"},\"shard\":\"a\"}"
static const struct {
    const char *why, *text;
    enum fleet_status status;
    const char *sentence; /* the text of a refusal; for a command, its canonical text */
} reads[] = {
    {"keys in any case",
     "{\"KIND\":4,\"Assign_Domain\":{\"DOMAIN\":{\"key\":\"rack\",\"vALUE\":\"r-1\"},\"Shard\":"
     "\"a\"}}",
     FLEET_DONE, "{\"kind\":4," DOMAIN "}"},
    {"the payload before the kind", "{" DOMAIN ",\"kind\":4}", FLEET_DONE,
     "{\"kind\":4," DOMAIN "}"},
    {"blanks", " {\n\"kind\" : 4 , " DOMAIN " }\r\n", FLEET_DONE, "{\"kind\":4," DOMAIN "}"},
    {"unknown keys, whatever they hold",
     "{\"x\":{\"kind\":9,\"y\":[[{}],1]},\"kind\":4," DOMAIN ",\"z\":null}", FLEET_DONE,
     "{\"kind\":4," DOMAIN "}"},
    {"the last of duplicates", "{\"kind\":1,\"kind\":4," DOMAIN "}", FLEET_DONE,
     "{\"kind\":4," DOMAIN "}"},
    {"the last of duplicates inside",
     "{\"kind\":2,\"remove_shard\":{\"id\":\"x\",\"ID\":\"y\",\"id\":\"z\"}}", FLEET_DONE,
     "{\"kind\":2,\"remove_shard\":{\"id\":\"z\"}}"},
    {"an object twice is one",
     "{\"kind\":3,\"bind_cluster\":{\"cluster\":\"c\"},\"bind_cluster\":{"
     "\"shard\":\"s\"}}",
     FLEET_DONE, "{\"kind\":3,\"bind_cluster\":{\"cluster\":\"c\",\"shard\":\"s\"}}"},
    {"of the same shard, the last",
     "{\"kind\":6,\"set_quota\":{\"per_shard\":{\"a\":1,\"b\":2,\"a\":3,\"c\":null}}}", FLEET_DONE,
     "{\"kind\":6,\"set_quota\":{\"key\":{\"Provider\":\"\",\"Region\":\"\"},\"per_shard\":{\"a\":"
     "3,"
     "\"b\":2,\"c\":0}}}"},
    {"null leaves a map unset",
     "{\"kind\":6,\"set_quota\":{\"per_shard\":{\"a\":1},\"per_shard\":"
     "null}}",
     FLEET_DONE,
     "{\"kind\":6,\"set_quota\":{\"key\":{\"Provider\":\"\",\"Region\":\"\"},\"per_shard\":null}}"},
    {"null leaves a text alone", "{\"kind\":2,\"remove_shard\":{\"id\":\"x\",\"id\":null}}",
     FLEET_DONE, "{\"kind\":2,\"remove_shard\":{\"id\":\"x\"}}"},
    {"other payloads do not matter", "{\"kind\":4,\"remove_shard\":{\"id\":\"q\"}," DOMAIN "}",
     FLEET_DONE, "{\"kind\":4," DOMAIN "}"},
    {"missing fields are empty", "{\"kind\":1,\"add_shard\":{\"entry\":{\"ID\":\"a\"}}}",
     FLEET_DONE,
     "{\"kind\":1,\"add_shard\":{\"entry\":{\"ID\":\"a\",\"Address\":\"\",\"RegisteredAt\":"
     "\"0001-01-01T00:00:00Z\",\"LastHeartbeat\":\"0001-01-01T00:00:00Z\"}}}"},
    {"escapes in texts", "{\"kind\":2,\"remove_shard\":{\"\\u0069d\":\"\\u0061\\n\"}}", FLEET_DONE,
     "{\"kind\":2,\"remove_shard\":{\"id\":\"a\\n\"}}"},
    {"bytes that are no text", "{\"kind\":2,\"remove_shard\":{\"id\":\"a\xff\"}}", FLEET_DONE,
     "{\"kind\":2,\"remove_shard\":{\"id\":\"a\xef\xbf\xbd\"}}"},
    {"an offset of time",
     "{\"kind\":1,\"add_shard\":{\"entry\":{\"RegisteredAt\":\"2026-06-01T14:00:00+02:00\"}}}",
     FLEET_DONE,
     "{\"kind\":1,\"add_shard\":{\"entry\":{\"ID\":\"\",\"Address\":\"\",\"RegisteredAt\":"
     "\"2026-06-01T12:00:00Z\",\"LastHeartbeat\":\"0001-01-01T00:00:00Z\"}}}"},
    {"not JSON", "AddShard", FLEET_UNREADABLE, "command cannot be read"},
    {"nothing", "", FLEET_UNREADABLE, "command cannot be read"},
    {"not an object", "[]", FLEET_UNREADABLE, "command cannot be read"},
    {"half", "{\"kind\":4", FLEET_UNREADABLE, "command cannot be read"},
    {"bytes behind", "{\"kind\":4," DOMAIN "}}", FLEET_UNREADABLE, "command cannot be read"},
    {"a text for a number", "{\"kind\":\"4\"," DOMAIN "}", FLEET_UNREADABLE,
     "command cannot be read"},
    {"a broken number", "{\"kind\":4.5," DOMAIN "}", FLEET_UNREADABLE, "command cannot be read"},
    {"a negative kind", "{\"kind\":-1," DOMAIN "}", FLEET_UNREADABLE, "command cannot be read"},
    {"a number for a text", "{\"kind\":2,\"remove_shard\":{\"id\":5}}", FLEET_UNREADABLE,
     "command cannot be read"},
    {"a text for an object", "{\"kind\":2,\"remove_shard\":\"a\"}", FLEET_UNREADABLE,
     "command cannot be read"},
    {"a list for an object", "{\"kind\":2,\"remove_shard\":[]}", FLEET_UNREADABLE,
     "command cannot be read"},
    {"a slice past 32 bits", "{\"kind\":6,\"set_quota\":{\"per_shard\":{\"a\":2147483648}}}",
     FLEET_UNREADABLE, "command cannot be read"},
    {"a slice that is a text", "{\"kind\":6,\"set_quota\":{\"per_shard\":{\"a\":\"1\"}}}",
     FLEET_UNREADABLE, "command cannot be read"},
    {"a time that is none", "{\"kind\":1,\"add_shard\":{\"entry\":{\"RegisteredAt\":\"today\"}}}",
     FLEET_UNREADABLE, "command cannot be read"},
    {"kind 0", "{" DOMAIN "}", FLEET_UNKNOWN_KIND, "unknown command kind 0"},
    {"kind 9", "{\"kind\":9," DOMAIN "}", FLEET_UNKNOWN_KIND, "unknown command kind 9"},
    {"kind 300", "{\"kind\":300}", FLEET_UNKNOWN_KIND, "unknown command kind 300"},
    {"an empty object", "{}", FLEET_UNKNOWN_KIND, "unknown command kind 0"},
    {"null is no object", "null", FLEET_UNREADABLE, "command cannot be read"},
    {"no payload", "{\"kind\":1}", FLEET_PAYLOAD_MISSING, "command without its payload: AddShard"},
    {"another's payload", "{\"kind\":5," DOMAIN "}", FLEET_PAYLOAD_MISSING,
     "command without its payload: UnassignDomain"},
    {"a payload taken back", "{\"kind\":4," DOMAIN ",\"assign_domain\":null}",
     FLEET_PAYLOAD_MISSING, "command without its payload: AssignDomain"},
};

TEST(a_reader_accepts_what_the_original_accepts_and_refuses_the_rest_by_name)
{
    struct arena arena;
    struct buf text;

    arena_init(&arena, 1 << 20);
    buf_init(&text, 4096);
    for (size_t i = 0; i < ARRAY_LEN(reads); i++) {
        struct fleet_result result = {.status = FLEET_DONE, .field = ""};
        struct fleet_command command;
        enum err err =
            fleet_command_decode(str_from(reads[i].text), &arena, &command, &result, NULL);
        CHECK_ERR(reads[i].why, err, reads[i].status == FLEET_DONE ? ERR_OK : ERR_INVALID);
        CHECK_TEXT(reads[i].why, fleet_status_text(result.status),
                   fleet_status_text(reads[i].status));
        buf_clear(&text);
        if (err) {
            struct note sentence;
            fleet_result_text(NULL, &result, &sentence);
            CHECK_OK("text", buf_append_c(&text, sentence.text));
        } else {
            CHECK_OK("text", fleet_command_encode(&command, &text));
        }
        CHECK_STR(reads[i].why, buf_peek(&text), str_from(reads[i].sentence));
    }
    buf_deinit(&text);
    arena_deinit(&arena);
}

TEST(a_refusal_reports_the_place)
{
    struct fleet_command command;
    struct fleet_result result;
    struct arena arena;
    struct note note = {""};

    arena_init(&arena, 1 << 20);
    CHECK_ERR("bad", fleet_command_decode(STR("{\"kind\":}"), &arena, &command, &result, &note),
              ERR_INVALID);
    CHECK_TEXT("where", note.text, "offset 8: expected a value");
    CHECK_ERR("bad",
              fleet_command_decode(STR("{\"kind\":2,\"remove_shard\":{\"id\":[]}}"), &arena,
                                   &command, &result, &note),
              ERR_INVALID);
    CHECK_TEXT("which", note.text, "field 'id': expected a text");
    arena_deinit(&arena);
}
