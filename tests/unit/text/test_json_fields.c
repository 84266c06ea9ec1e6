/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"
#include "text/json_fields.h"

struct pair {
    struct str key, value;
};
struct row {
    struct str name;
    int32_t skew;
};
struct whole {
    struct str name;
    uint64_t seed;
    uint32_t count;
    double price;
    bool fast;
    enum { NO_COLOUR, RED, BLUE } colour;
    const struct str *zones;
    const struct pair *labels;
    const struct row *rows;
    size_t zone_count, label_count, row_count;
    struct row inner;
    uint32_t twice;
};

static enum err read_twice(const struct json *value, void *into, struct arena *arena,
                           struct note *note)
{
    int64_t number;

    (void)arena;
    if (json_get_i64(value, "", &number, NULL)) return json_wrong(note, "must be a number");
    *(uint32_t *)into = 2 * (uint32_t)number;
    return ERR_OK;
}

static const char *const colours[] = {"", "red", "blue", NULL};
static const struct json_field row_fields[] = {
    {"name", JSON_AS_TEXT, JSON_MEMBER(struct row, name), .needed = true},
    {"skew", JSON_AS_NUMBER, JSON_MEMBER(struct row, skew), .least = -5, .most = 9},
};
static const struct row usual_row = {.skew = 1};
static const struct json_fields rows = {JSON_FIELDS(row_fields), .size = sizeof(struct row),
                                        .usual = &usual_row};
static const struct json_field fields[] = {
    {"name", JSON_AS_TEXT, JSON_MEMBER(struct whole, name)},
    {"seed", JSON_AS_NUMBER, JSON_MEMBER(struct whole, seed), .most = INT64_MAX},
    {"count", JSON_AS_NUMBER, JSON_MEMBER(struct whole, count), .most = UINT32_MAX},
    {"price", JSON_AS_DOUBLE, JSON_MEMBER(struct whole, price)},
    {"fast", JSON_AS_BOOL, JSON_MEMBER(struct whole, fast)},
    {"colour", JSON_AS_WORD, JSON_MEMBER(struct whole, colour), .words = colours},
    {"Colour", JSON_AS_WORD, JSON_MEMBER(struct whole, colour), .words = colours, .any_case = true},
    {"zones", JSON_AS_TEXTS, JSON_MEMBER(struct whole, zones), JSON_COUNT(struct whole, zone_count),
     .least = 1, .most = 2},
    {"labels", JSON_AS_PAIRS, JSON_MEMBER(struct whole, labels),
     JSON_COUNT(struct whole, label_count), .most = 2},
    {"rows", JSON_AS_ROWS, JSON_MEMBER(struct whole, rows), JSON_COUNT(struct whole, row_count),
     .most = 3, .row = &rows},
    {"inner", JSON_AS_ROW, JSON_MEMBER(struct whole, inner), .row = &rows},
    {"twice", JSON_AS_OWN, JSON_MEMBER(struct whole, twice), .own = read_twice},
};
static const struct json_fields table = {JSON_FIELDS(fields)};
static const struct json_fields loose = {JSON_FIELDS(fields), .loose = true};

static struct arena arena;
static struct note note;

static enum err read(const char *text, const struct json_fields *by, struct whole *whole)
{
    struct json *json = NULL;
    enum err err;

    note.text[0] = '\0';
    CHECK_OK("JSON", json_open(str_from(text), 4096, &json, &note));
    err = json_fields_read(json, by, whole, &arena, &note);
    json_close(json);
    return err;
}

TEST(every_kind_of_member_is_read_and_outlives_the_document)
{
    struct whole w = {.price = 2, .inner = {.skew = 7}};

    arena_init(&arena, 1 << 16);
    CHECK_OK("read",
             read("{\"name\":\"n\",\"seed\":9223372036854775807,\"count\":4294967295,\"fast\":true,"
                  "\"colour\":\"blue\",\"zones\":[\"a\",\"b\"],\"labels\":{\"k\":\"v\",\"l\":\"\"},"
                  "\"rows\":[{\"name\":\"x\",\"skew\":-5},{\"name\":\"y\"}],\"inner\":{\"name\":"
                  "\"i\"},\"twice\":21}",
                  &table, &w));
    CHECK_STR("text", w.name, STR("n"));
    CHECK_U64("64 bits", w.seed, INT64_MAX);
    CHECK_U32("32 bits", w.count, UINT32_MAX);
    CHECK("not given", w.price == 2);
    CHECK("truth", w.fast);
    CHECK_U32("word", w.colour, BLUE);
    CHECK_SIZE("texts", w.zone_count, 2);
    CHECK_STR("the second", w.zones[1], STR("b"));
    CHECK_SIZE("pairs", w.label_count, 2);
    CHECK_STR("key", w.labels[0].key, STR("k"));
    CHECK_STR("value", w.labels[0].value, STR("v"));
    CHECK_SIZE("rows", w.row_count, 2);
    CHECK_I64("given", w.rows[0].skew, -5);
    CHECK_I64("as usual", w.rows[1].skew, 1);
    CHECK_STR("a row inside", w.inner.name, STR("i"));
    CHECK_I64("the earlier value", w.inner.skew, 7);
    CHECK_U32("by a function", w.twice, 42);
    CHECK_OK("any capitals", read("{\"Colour\":\"RED\"}", &table, &w));
    CHECK_U32("word", w.colour, RED);
    CHECK_OK("keys of others", read("{\"other\":1}", &loose, &w));
    CHECK_OK("null", read("{\"zones\":null}", &loose, &w));
    arena_deinit(&arena);
}

TEST(the_first_that_is_wrong_is_named)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"[]", "must be a table"},
        {"{\"other\":1}", "unknown key 'other'"},
        {"{\"name\":1}", "name: must be a text"},
        {"{\"count\":1.5}", "count: must be a whole number"},
        {"{\"count\":-1}", "count: -1, between 0 and 4294967295 is allowed"},
        {"{\"price\":\"1\"}", "price: must be a number"},
        {"{\"fast\":1}", "fast: must be true or false"},
        {"{\"colour\":\"green\"}", "colour: must be red or blue"},
        {"{\"colour\":\"Red\"}", "colour: must be red or blue"},
        {"{\"colour\":\"\"}", "colour: must be red or blue"},
        {"{\"zones\":null}", "zones: must be a list of texts"},
        {"{\"zones\":{}}", "zones: must be a list of texts"},
        {"{\"zones\":[]}", "zones: 0 entries, 1 to 2 are allowed"},
        {"{\"zones\":[\"a\",1]}", "zones: must be a text"},
        {"{\"labels\":{\"k\":1}}", "labels: k: must be a text"},
        {"{\"rows\":[{\"name\":\"x\"},{\"name\":\"y\",\"skew\":10}]}",
         "rows: [1]: skew: 10, between -5 and 9 is allowed"},
        {"{\"rows\":[{}]}", "rows: [0]: name: is missing"},
        {"{\"inner\":{\"nme\":\"x\"}}", "inner: unknown key 'nme'"},
        {"{\"twice\":\"x\"}", "twice: must be a number"},
    };

    arena_init(&arena, 1 << 16);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct whole w = {0};

        CHECK_ERR(cases[i].text, read(cases[i].text, &table, &w), ERR_INVALID);
        CHECK_TEXT(cases[i].text, note.text, cases[i].says);
    }
    arena_deinit(&arena);
}
