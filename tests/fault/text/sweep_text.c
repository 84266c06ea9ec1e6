/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails, for every k, in everything of text that allocates; jansson's own
 * allocations count, too, because text/json.c gives it a malloc of ours. After
 * each failure the call returns out of memory only, outputs are unchanged, nothing
 * leaks (AddressSanitizer counts). A failure that no call reports fails the test. */
#include <stdlib.h>
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "text/json.h"
#include "text/ndjson.h"
#include "text/toml.h"

enum { MEMORY = 4 << 20 };

/* Every kind of value, and enough keys that the index and the arena grow several times. */
static void make_toml(struct buf *input)
{
    buf_init(input, MEMORY);
    buf_append_c(input,
                 "a.b.'c' = \"\"\"x\\u00e9\n\"\"\"\nd = 1979-05-27 07:32:00Z\ne = [1, 2.5, [{}]]\n"
                 "long = 1.00000000000000000000000000000000000000000000000000000000000000000001\n"
                 "[[f.g]]\n[[f.g]]\nh = true\n[f.i]\n");
    for (int i = 0; i < 300; i++)
        buf_appendf(input, "key-%d = {\"quoted %d\" = '''text number %d'''}\n", i, i, i);
}

TEST(toml_is_read_whole_or_reports_that_memory_ran_out)
{
    struct buf input;
    uint64_t turns = 0;

    make_toml(&input);
    FAULT_SWEEP_ALLOC(k)
    {
        struct toml *document = NULL;
        struct toml_position where = {0, 0};
        struct note note = {""};
        enum err err = toml_open(buf_peek(&input), MEMORY, &document, &where, &note);

        CHECK_ERR("the failure is reported", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        if (err) {
            CHECK("nothing came out", document == NULL);
            CHECK("a place", where.line >= 1 && where.column >= 1);
            CHECK_HAS("a note", note.text, "out of memory");
        } else {
            CHECK_SIZE("all keys are there", toml_count(toml_find(toml_root(document), "f.i")),
                       300);
        }
        toml_close(document);
        turns = k;
    }
    CHECK("the arena took several blocks, each was refused once", turns > 5);
    buf_deinit(&input);
}

/* Deep, wide and long: jansson's tables, arrays and strings all grow. */
static void make_json(struct buf *input)
{
    buf_init(input, MEMORY);
    buf_append_c(
        input, "{\"a\": {\"b\": [1, 2.5, true, null, \"\\u00e9 and a text that is longer than what"
               " a string buffer takes at first, so that it has to grow\"]}, \"items\": [");
    for (int i = 0; i < 40; i++) buf_appendf(input, "%s{\"id\": %d}", i ? "," : "", i);
    buf_append_c(input, "]");
    for (int i = 0; i < 40; i++) buf_appendf(input, ", \"key %d\": %d.5", i, i);
    buf_append_c(input, "}");
}

TEST(json_is_read_whole_or_reports_that_memory_ran_out)
{
    struct buf input;
    uint64_t turns = 0;

    make_json(&input);
    FAULT_SWEEP_ALLOC(k)
    {
        struct json *json = NULL;
        struct note note = {""};
        enum err err = json_open(buf_peek(&input), MEMORY, &json, &note);

        CHECK_ERR("the failure is reported, and never as a mistake of the text", err,
                  fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        if (err) {
            CHECK("nothing came out", json == NULL);
            CHECK_TEXT("a note", note.text, "out of memory");
        } else {
            CHECK_SIZE("all keys are there", json_count(json), 42);
        }
        json_close(json);
        turns = k;
    }
    CHECK("jansson's allocations were the ones refused", turns > 200);
    buf_deinit(&input);
}

TEST(a_mistake_in_json_is_distinct_from_a_lack_of_memory)
{
    uint64_t parse_errors = 0, turns = 0;

    FAULT_SWEEP_ALLOC(k)
    {
        struct json *json = NULL;
        enum err err =
            json_open(STR("{\"a\": [\"b\", {\"c\": 1}], \"d\": nul}"), MEMORY, &json, NULL);

        CHECK_ERR("memory first, then the text", err, fault_alloc_fired() ? ERR_NOMEM : ERR_PARSE);
        parse_errors += err == ERR_PARSE;
        turns = k;
    }
    CHECK_U64("the run without a failure reads the mistake", parse_errors, 1);
    CHECK("the others did not", turns > 5);
}

static enum err put_line(struct buf *out)
{
    struct ndjson w;

    ndjson_begin(&w, out, NDJSON_PRETTY);
    for (uint64_t i = 0; i < 50; i++) {
        ndjson_open_array(&w, STR("list"));
        ndjson_string(&w, NDJSON_ITEM, STR("some text with a \"quote\" and a \xff byte"));
        ndjson_double(&w, NDJSON_ITEM, (double)i / 7);
        ndjson_close_array(&w);
        ndjson_u64(&w, STR("number"), i);
    }
    return ndjson_end(&w);
}

TEST(a_line_is_written_whole_or_not_at_all)
{
    struct buf whole;
    uint64_t turns = 0;

    buf_init(&whole, MEMORY);
    CHECK_OK("the line to expect", put_line(&whole));
    FAULT_SWEEP_ALLOC(k)
    {
        struct buf out;
        bool before;
        enum err err;

        buf_init(&out, MEMORY);
        before = buf_append_c(&out, "before\n") == ERR_OK;
        err = put_line(&out);
        CHECK_ERR("the failure is reported", err,
                  fault_alloc_fired() && before ? ERR_NOMEM : ERR_OK);
        if (err)
            CHECK_STR("earlier content stays", buf_peek(&out), STR("before\n"));
        else
            CHECK_STR("the whole line", str_tail(buf_peek(&out), before ? 7 : 0), buf_peek(&whole));
        buf_deinit(&out);
        turns = k;
    }
    CHECK("the buffer grew several times", turns > 4);
    buf_deinit(&whole);
}

TEST(a_document_is_written_whole_or_not_at_all)
{
    struct buf input;
    struct json *json = NULL;
    uint64_t turns = 0;

    make_json(&input);
    CHECK_OK("the document", json_open(buf_peek(&input), MEMORY, &json, NULL));
    FAULT_SWEEP_ALLOC(k)
    {
        struct buf out;
        enum err err;

        buf_init(&out, MEMORY);
        err = json_write(json, NDJSON_LINE, &out);
        CHECK_ERR("the failure is reported", err, fault_alloc_fired() ? ERR_NOMEM : ERR_OK);
        if (err) CHECK_SIZE("nothing is left behind", out.len, 0);
        buf_deinit(&out);
        turns = k;
    }
    CHECK("the buffer grew several times", turns > 4);
    json_close(json);
    buf_deinit(&input);
}
