/* SPDX-License-Identifier: Apache-2.0 */
/* worker/tally.h */
#include "lib/test.h"
#include "worker/tally.h"

static void add(struct partition_tally *tally, const char *line)
{
    struct tally_record record;

    CHECK_OK("a record", tally_parse(str_from(line), &record));
    CHECK_OK("added", tally_add(tally, &record));
}

static void check_total(const struct partition_tally *tally, const char *key, uint64_t count,
                        int64_t sum)
{
    const struct tally_total *total = map_get(&tally->totals, str_from(key));

    CHECK("there", total != NULL);
    CHECK_U64("count", total->count, count);
    CHECK_I64("sum", total->sum, sum);
}

static void write(const struct partition_tally *tally, struct buf *into)
{
    struct ndjson line;

    ndjson_begin(&line, into, NDJSON_LINE);
    CHECK_OK("written", tally_write(tally, &line));
    CHECK_OK("ended", ndjson_end(&line));
}

TEST(lines_are_keys_with_numbers)
{
    static const struct {
        const char *line;
        enum err want;
        const char *key;
        int64_t number;
    } cases[] = {
        {"apple", ERR_OK, "apple", 1},
        {"apple 7", ERR_OK, "apple", 7},
        {"  apple\t-3 \r", ERR_OK, "apple", -3},
        {"", ERR_NOT_FOUND, "", 0},
        {"  \t", ERR_NOT_FOUND, "", 0},
        {"apple x", ERR_PARSE, "", 0},
        {"apple 1 2", ERR_PARSE, "", 0},
        {"\xff\xfe 1", ERR_PARSE, "", 0},
        {"a 9223372036854775808", ERR_PARSE, "", 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tally_record record = {.key = ""};
        CHECK_ERR(cases[i].line, tally_parse(str_from(cases[i].line), &record), cases[i].want);
        if (cases[i].want) continue;
        CHECK_TEXT("key", record.key, cases[i].key);
        CHECK_I64("number", record.number, cases[i].number);
    }
}

TEST(totals_offsets_and_rejections_come_back_as_they_were)
{
    struct partition_tally *tally, *again;
    struct buf first, second;
    struct json *json;

    CHECK_OK("open", tally_open(&tally));
    CHECK_OK("open", tally_open(&again));
    buf_init(&first, 4096);
    buf_init(&second, 4096);
    add(tally, "pear 5");
    add(tally, "apple");
    add(tally, "pear -2");
    add(tally, "\"quoted\\\" 1");
    tally->rejected++;
    CHECK_OK("offset", tally_set_offset(tally, STR("00000001.txt"), 4711));
    check_total(tally, "pear", 2, 3);
    write(tally, &first);
    CHECK_OK("json", json_open(buf_peek(&first), 4096, &json, NULL));
    CHECK_OK("read", tally_read(again, json, NULL));
    json_close(json);
    check_total(again, "pear", 2, 3);
    CHECK_U64("offset", tally_offset(again, STR("00000001.txt")), 4711);
    CHECK_U64("records", again->records, 4);
    write(again, &second);
    CHECK_STR("the same bytes", buf_peek(&second), buf_peek(&first));
    buf_deinit(&first);
    buf_deinit(&second);
    tally_close(tally);
    tally_close(again);
}

TEST(a_sum_past_64_bits_is_rejected_and_changes_nothing)
{
    struct partition_tally *tally;

    CHECK_OK("open", tally_open(&tally));
    add(tally, "k 9223372036854775807");
    add(tally, "k 1");
    check_total(tally, "k", 1, INT64_MAX);
    tally_close(tally);
}

TEST(an_invalid_record_is_refused_completely)
{
    static const char *const texts[] = {
        "{}",
        "{\"node_snapshots\":{\"totals\":{}}}",
        "{\"node_snapshots\":{\"totals\":{\"a\":[1]},\"rejected\":0},\"input_offsets\":{}}",
        "{\"node_snapshots\":{\"totals\":{\"a\":[1,\"x\"]},\"rejected\":0},\"input_offsets\":{}}",
        "{\"node_snapshots\":{\"totals\":{},\"rejected\":0},\"input_offsets\":{\"s\":-1}}",
    };
    struct partition_tally *tally;

    CHECK_OK("open", tally_open(&tally));
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct json *json;
        CHECK_OK("json", json_open(str_from(texts[i]), 4096, &json, NULL));
        CHECK_ERR(texts[i], tally_read(tally, json, NULL), ERR_PARSE);
        CHECK_SIZE("nothing is left", map_count(&tally->totals), 0);
        json_close(json);
    }
    tally_close(tally);
}
