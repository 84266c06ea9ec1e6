/* SPDX-License-Identifier: Apache-2.0 */
#include "model/resource.h"

#include <stdio.h>

#include "lib/dimensions_find.h"
#include "lib/test.h"

/* Vectors have the form "cpu=4,memory=16Gi". */
static struct dimensions dims;

static size_t split(const char *text, struct label pairs[32])
{
    struct str rest = str_from(text), part;
    size_t count = 0;

    if (!*text) return 0;
    while (str_split(&rest, ',', &part)) {
        size_t equals = str_find(part, '=');
        pairs[count++] = (struct label){str_of(part.at, equals), str_tail(part, equals + 1)};
    }
    return count;
}

static struct resources vector(const char *text)
{
    struct label pairs[32];
    struct resources r = {0};

    CHECK_OK(text, resources_parse(&dims, "v", pairs, split(text, pairs), &r, NULL));
    return r;
}

static struct resource_sum sum(const char *text)
{
    struct label pairs[32];
    struct resource_sum s = {0};

    CHECK_OK(text, resource_sum_parse(&dims, "v", pairs, split(text, pairs), &s, NULL));
    return s;
}

static void check_text(const char *why, const struct resource_sum *s, const char *want)
{
    struct buf out;

    buf_init(&out, RESOURCES_TEXT_MAX);
    CHECK_OK(why, resource_sum_text(&dims, s, &out));
    CHECK_STR(why, buf_peek(&out), str_from(want));
    buf_deinit(&out);
}

static void fresh(void)
{
    dimensions_deinit(&dims);
    dimensions_init(&dims);
}

TEST(names_become_numbers_once)
{
    uint32_t cpu = 9, memory = 9, again = 9;

    fresh();
    CHECK_OK("memory", dimensions_index(&dims, STR("memory"), &memory, NULL));
    CHECK_OK("cpu", dimensions_index(&dims, STR("cpu"), &cpu, NULL));
    CHECK_OK("memory again", dimensions_index(&dims, STR("memory"), &again, NULL));
    CHECK_U64("by first use", memory, 0);
    CHECK_U64("then the next", cpu, 1);
    CHECK_U64("the same", again, memory);
    CHECK_U64("two", dims.count, 2);
    CHECK("sorted by name", dims.by_name[0] == cpu && dims.by_name[1] == memory);
    CHECK("found", dimensions_find(&dims, STR("cpu"), &again) && again == cpu);
    CHECK("asking adds nothing", !dimensions_find(&dims, STR("gpu"), &again) && dims.count == 2);
}

TEST(the_table_of_names_has_an_end)
{
    struct note note = {""};
    char name[16];
    uint32_t index;

    fresh();
    for (int i = 0; i < DIMENSIONS_MAX; i++) {
        snprintf(name, sizeof name, "r%d", (i * 37) % DIMENSIONS_MAX);
        CHECK_OK(name, dimensions_index(&dims, str_from(name), &index, NULL));
        CHECK_U64(name, index, i);
    }
    for (uint32_t i = 1; i < dims.count; i++)
        CHECK("in order",
              str_compare(dims.names[dims.by_name[i - 1]], dims.names[dims.by_name[i]]) < 0);
    CHECK_ERR("the 65th", dimensions_index(&dims, STR("one-more"), &index, &note), ERR_FULL);
    CHECK_TEXT("why", note.text, "name: this shard knows 64 others already");
    CHECK_OK("an old one", dimensions_index(&dims, STR("r63"), &index, NULL));
    struct label pair = {STR("one-more"), STR("1")};
    struct resources r;
    CHECK_ERR("in a vector", resources_parse(&dims, "resources", &pair, 1, &r, &note), ERR_FULL);
    CHECK_TEXT("named", note.text, "resources[one-more]: name: this shard knows 64 others already");
}

TEST(covers_asks_only_for_what_is_wanted)
{
    static const struct {
        const char *have, *want;
        bool covers;
    } cases[] = {
        {"cpu=4,memory=16Gi", "cpu=4,memory=16Gi", true},
        {"cpu=4,memory=16Gi", "cpu=4,memory=17179869184", true},
        {"cpu=4,memory=16Gi", "cpu=4001m,memory=1", false},
        {"cpu=4,memory=16Gi", "cpu=1,memory=17Gi", false},
        {"cpu=4,memory=16Gi", "memory=16Gi", true},
        {"cpu=4,memory=16Gi", "memory=17Gi", false},
        {"cpu=4", "cpu=1,gpu=1", false},
        {"cpu=4", "cpu=1,gpu=0", true},
        {"gpu=8", "cpu=1", false},
        {"gpu=8,cpu=1", "cpu=1", true},
        {"", "", true},
        {"cpu=4", "", true},
        {"", "cpu=0", true},
        {"", "cpu=1n", false},
        {"a=1,c=3,e=5", "b=0,c=3,d=0,e=5", true},
        {"a=1,c=3,e=5", "b=0,c=3,d=0,e=6", false},
        {"a=1,c=3,e=5", "a=2,e=5", false},
    };

    fresh();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct resources have = vector(cases[i].have), want = vector(cases[i].want);
        CHECK(cases[i].want, resources_covers(&have, &want) == cases[i].covers);
    }
}

TEST(sums_over_the_union_of_names)
{
    static const struct {
        const char *a, *b, *sum;
    } cases[] = {
        {"cpu=4,memory=40Gi", "cpu=1,memory=32Gi", "cpu=5,memory=72Gi"},
        {"cpu=4", "memory=1Gi", "cpu=4,memory=1Gi"},
        {"cpu=1", "cpu=4", "cpu=5"},
        {"cpu=100m", "cpu=50m", "cpu=150m"},
        {"", "cpu=1", "cpu=1"},
        {"cpu=1", "", "cpu=1"},
        {"memory=0", "memory=1Gi", "memory=1Gi"},
        {"memory=1Gi", "memory=1G", "memory=2073741824"},
        {"memory=1e3", "memory=1k", "memory=2e3"},
    };

    fresh();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct resource_sum a = sum(cases[i].a), b = sum(cases[i].b), s = a;
        struct resources narrow = vector(cases[i].b);
        resource_sum_add(&s, &narrow);
        check_text(cases[i].a, &s, cases[i].sum);
        resource_sum_copy(&s, &a);
        resource_sum_add_sum(&s, &b);
        check_text("of sums", &s, cases[i].sum);
    }
}

TEST(the_larger_of_each)
{
    struct resources a, b;
    struct resource_sum s;

    fresh();
    a = vector("memory=1Gi,cpu=4,x=1");
    b = vector("cpu=8,memory=512Mi,gpu=0");
    CHECK_OK("max", resources_max(&a, &b));
    resource_sum_scale(&s, &a, 1);
    check_text("per dimension", &s, "cpu=8,gpu=0,memory=1Gi,x=1");
    a = vector("a1=1,a2=1,a3=1,a4=1,a5=1,a6=1,a7=1,a8=1,a9=1");
    b = vector("b1=1,b2=1,b3=1,b4=1,b5=1,b6=1,b7=1,b8=1");
    CHECK_ERR("17 names", resources_max(&a, &b), ERR_FULL);
    CHECK_U64("untouched", resource_bits(a.mask), 9);
}

TEST(zero_and_equal)
{
    struct resources a, b;
    struct resource_sum s;

    fresh();
    s = sum("");
    CHECK("empty", resource_sum_is_zero(&s));
    s = sum("cpu=0,memory=0Ki");
    CHECK("named zeroes", resource_sum_is_zero(&s));
    s = sum("cpu=0,memory=1n");
    CHECK("the least", !resource_sum_is_zero(&s));
    a = vector("memory=16Gi,gpu=0");
    b = vector("memory=17179869184,cpu=0");
    CHECK("equal, however written", resources_equal(&a, &b));
    b = vector("memory=17179869183");
    CHECK("unequal", !resources_equal(&a, &b) && !resources_equal(&b, &a));
}

TEST(scaling)
{
    struct resources unit;
    struct resource_sum s, t;

    fresh();
    unit = vector("cpu=2,memory=1Ti");
    resource_sum_scale(&s, &unit, 500000);
    check_text("half a million machines of 1 TiB", &s, "cpu=1M,memory=500000Ti");
    resource_sum_scale_sum(&t, &s, 3);
    check_text("three times that", &t, "cpu=3M,memory=1500000Ti");
    resource_sum_scale(&s, &unit, 0);
    CHECK_U64("none is empty", s.mask, 0);
    resource_sum_scale_sum(&t, &t, 0);
    CHECK_U64("also of sums", t.mask, 0);
    unit = vector("");
    resource_sum_scale(&s, &unit, 7);
    CHECK_U64("nothing stays nothing", s.mask, 0);
    unit = vector("memory=8Pi");
    resource_sum_scale(&s, &unit, UINT64_MAX);
    CHECK("stops at the top", resource_sum_get(&s, 1) == QUANTITY_MILLI_MAX);
    resource_sum_scale_sum(&s, &s, UINT64_MAX);
    CHECK("and stays", resource_sum_get(&s, 1) == QUANTITY_MILLI_MAX);
    resource_sum_add_sum(&s, &s);
    CHECK("twice that too", resource_sum_get(&s, 1) == QUANTITY_MILLI_MAX);
}

TEST(keys_do_not_depend_on_how_amounts_were_written)
{
    static const char *const same[] = {"memory=128Gi,cpu=16",
                                       "cpu=16000m,memory=137438953472,gpu=0"};

    fresh();
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        struct resource_sum s = sum(same[i]);
        struct buf out;
        buf_init(&out, RESOURCES_TEXT_MAX);
        CHECK_OK("something before it", buf_append_c(&out, "x:"));
        CHECK_OK(same[i], resource_sum_key(&dims, &s, &out));
        CHECK_STR(same[i], buf_peek(&out), STR("x:cpu=16000,memory=137438953472000"));
        buf_deinit(&out);
        buf_init(&out, 6);
        CHECK_ERR("no room", resource_sum_key(&dims, &s, &out), ERR_FULL);
        CHECK_ERR("no room", resource_sum_text(&dims, &s, &out), ERR_FULL);
        CHECK_SIZE("nothing is left behind", out.len, 0);
        buf_deinit(&out);
    }
}

TEST(hostile_vectors_are_refused_by_name)
{
    const struct {
        const char *why;
        struct label pairs[3];
        size_t count;
        enum err narrow, wide;
        const char *note;
    } cases[] = {
        {"negative",
         {{STR("cpu"), STR("-1")}},
         1,
         ERR_INVALID,
         ERR_INVALID,
         "resources[cpu]: negative"},
        {"barely negative",
         {{STR("cpu"), STR("-1n")}},
         1,
         ERR_INVALID,
         ERR_INVALID,
         "resources[cpu]: negative"},
        {"no number",
         {{STR("cpu"), STR("NaN")}},
         1,
         ERR_PARSE,
         ERR_PARSE,
         "resources[cpu]: quantity without a digit"},
        {"infinite",
         {{STR("cpu"), STR("1e400")}},
         1,
         ERR_TOO_LARGE,
         ERR_TOO_LARGE,
         "resources[cpu]: quantity of 2^63 or more"},
        {"more than a machine can have",
         {{STR("memory"), STR("1Ei")}},
         1,
         ERR_TOO_LARGE,
         ERR_OK,
         "resources[memory]: more than 2^63 thousandths"},
        {"twice",
         {{STR("cpu"), STR("1")}, {STR("cpu"), STR("1")}},
         2,
         ERR_INVALID,
         ERR_INVALID,
         "resources[cpu]: given twice"},
        {"no name",
         {{STR("cpu"), STR("1")}, {STR(""), STR("1")}},
         2,
         ERR_INVALID,
         ERR_INVALID,
         "resources[1]: name: empty"},
        {"a name with a NUL",
         {{STR("a\0"), STR("1")}},
         1,
         ERR_INVALID,
         ERR_INVALID,
         "resources[0]: name: control character 0x00 at byte 1"},
        {"a name that would blur keys",
         {{STR("a=1,b"), STR("1")}},
         1,
         ERR_INVALID,
         ERR_INVALID,
         "resources[a=1,b]: name: ',' or '='"},
    };

    fresh();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct resources r = {.mask = 77};
        struct resource_sum s = {.mask = 77};
        struct note note = {""};
        CHECK_ERR(cases[i].why,
                  resources_parse(&dims, "resources", cases[i].pairs, cases[i].count, &r, &note),
                  cases[i].narrow);
        CHECK_TEXT(cases[i].why, note.text, cases[i].note);
        CHECK_U64("untouched", r.mask, 77);
        CHECK_ERR(cases[i].why,
                  resource_sum_parse(&dims, "resources", cases[i].pairs, cases[i].count, &s, NULL),
                  cases[i].wide);
        CHECK("untouched", cases[i].wide == ERR_OK || s.mask == 77);
    }
    fresh();
    struct label nonsense = {STR("new"), STR("?")};
    struct resources r;
    CHECK_ERR("nonsense", resources_parse(&dims, "v", &nonsense, 1, &r, NULL), ERR_PARSE);
    CHECK_U64("leaves no name behind", dims.count, 0);
}

TEST(a_vector_has_at_most_16_names)
{
    struct label pairs[17];
    char names[17][8];
    struct resources r;
    struct resource_sum s, t;
    struct note note = {""};

    fresh();
    for (int i = 0; i < 17; i++) {
        snprintf(names[i], sizeof names[i], "r%d", i);
        pairs[i] = (struct label){str_from(names[i]), STR("1")};
    }
    CHECK_OK("16", resources_parse(&dims, "v", pairs, 16, &r, NULL));
    CHECK_ERR("17", resources_parse(&dims, "v", pairs, 17, &r, &note), ERR_TOO_LARGE);
    CHECK_TEXT("why", note.text, "v: 17 entries, at most 16 are allowed");
    CHECK_ERR("in a sum", resource_sum_parse(&dims, "v", pairs, 17, &s, NULL), ERR_TOO_LARGE);
    CHECK_ERR("set", resources_set(&r, 16, 1, QUANTITY_DECIMAL_SI), ERR_FULL);
    CHECK_OK("replaced", resources_set(&r, 15, 5, QUANTITY_DECIMAL_SI));
    CHECK_I64("there", resources_get(&r, 15), 5);
    resource_sum_scale(&s, &r, 1);
    resource_sum_clear(&t);
    CHECK_OK("the 17th name", resource_sum_parse(&dims, "v", &pairs[16], 1, &t, NULL));
    resource_sum_add_sum(&s, &t);
    CHECK_U64("a sum takes more", resource_bits(s.mask), 17);
    CHECK_ERR("but is no vector then", resource_sum_narrow(&s, &r), ERR_TOO_LARGE);
}

TEST(narrow_and_packed_say_the_same)
{
    struct resource_sum s, back = {0};
    struct resources r = {0};
    int128 packed[3];

    fresh();
    s = sum("cpu=4,memory=16Gi,gpu=0");
    CHECK_OK("narrow", resource_sum_narrow(&s, &r));
    resource_sum_scale(&back, &r, 1);
    check_text("and wide again", &back, "cpu=4,gpu=0,memory=16Gi");
    packed[0] = 4000; /* cpu, memory, gpu: in the order of their first use */
    packed[1] = (int128)1000 << 34;
    packed[2] = 0;
    resource_sum_clear(&back);
    resource_sum_unpack(&back, s.mask, s.formats, packed);
    check_text("and unpacked", &back, "cpu=4,gpu=0,memory=16Gi");
    s = sum("memory=1Ei");
    CHECK_ERR("too much for one machine", resource_sum_narrow(&s, &r), ERR_TOO_LARGE);
    fresh();
    dimensions_deinit(&dims);
}
