/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/conf.h"

#include <string.h>

#include "lib/option_table.h"
#include "lib/test.h"
#include "table.h"

static enum err load_file(const char *text, struct conf **ret_conf)
{
    CHECK_OK("open", conf_open(&test_table, ret_conf));
    (void)conf_add_file(*ret_conf, "muster.toml", str_from(text));
    return conf_finish(*ret_conf);
}

TEST(every_kind_can_be_set_in_a_file)
{
    struct conf *conf;
    CHECK_OK("loads", load_file("name = 'x'\ncolor = false\npeers = ['a:1', \"b,2\"]\n"
                                "http.listen = \"[::1]:1\"\n"
                                "[log]\nlevel = \"error\"\nflush-every = \"2s\"\nfile-max = 8192\n",
                                &conf));
    CHECK_TEXT("string", conf_text(conf, "name"), "x");
    CHECK("boolean", !conf_bool(conf, "color"));
    CHECK_STR("an item may hold a comma here", conf_list(conf, "peers").items[1], STR("b,2"));
    CHECK_TEXT("a dotted key is a section too", conf_text(conf, "http.listen"), "[::1]:1");
    CHECK_SIZE("choice", conf_choice(conf, "log.level"), 3);
    CHECK_U64("duration", conf_number(conf, "log.flush-every"), 2000);
    CHECK_U64("a size as an integer of bytes", conf_number(conf, "log.file-max"), 8192);
    CHECK_U64("the rest are defaults", conf_source(conf, "http.connections-max"), CONF_DEFAULT);
    conf_close(conf);
    CHECK_OK("sizes as text, an inline table", load_file("log = {file-max = \"1MiB\"}", &conf));
    CHECK_U64("size", conf_number(conf, "log.file-max"), 1048576);
    conf_close(conf);
    CHECK_OK("an empty file is fine", load_file("", &conf));
    conf_close(conf);
    CHECK_OK("so is an empty section", load_file("[http]\n[log]\n", &conf));
    conf_close(conf);
}

static const struct {
    const char *why, *file, *want;
} refused[] = {
    {"a misspelt key in a section", "[http]\n  listne = 'x:1'\n",
     "muster.toml:2:3: unknown key 'http.listne' (did you mean 'http.listen'?)\n"},
    {"a misspelt key", "\nnmae = 'x'\n",
     "muster.toml:2:1: unknown key 'nmae' (did you mean 'name'?)\n"},
    {"the section left out", "listen = 'x:1'\n",
     "muster.toml:1:1: unknown key 'listen' (did you mean 'http.listen'?)\n"},
    {"the wrong section", "[log]\nlisten = 'x:1'\n",
     "muster.toml:2:1: unknown key 'log.listen' (did you mean 'http.listen'?)\n"},
    {"an unknown section", "[frobnicate]\nlisten = 'x:1'\n",
     "muster.toml:1:2: unknown section 'frobnicate'\n"},
    {"nothing near", "frobnicate = 1\n", "muster.toml:1:1: unknown key 'frobnicate'\n"},
    {"a key in quotes", "\"http.listen\" = 'x:1'\n",
     "muster.toml:1:1: unknown key 'http.listen': in quotes it is one word; write it without\n"},
    {"a section as a key", "http = 1\n", "muster.toml:1:1: 'http' is a section: write [http]\n"},
    {"a section as an array of tables", "[[http]]\nlisten = 'x:1'\n",
     "muster.toml:1:3: 'http' is a section: write [http]\n"},
    {"not for files", "config = 'x'\n",
     "muster.toml:1:1: 'config' cannot be in a file; use the flag --config\n"},
    {"flag only", "json = true\n",
     "muster.toml:1:1: 'json' cannot be in a file; use the flag --json\n"},
    {"a key that steers a terminal", "\"a\\u001bb\" = 1\n",
     "muster.toml:1:1: unknown key 'a\\x1Bb'\n"},
    {"a table where a value belongs", "[name]\nx = 1\n",
     "muster.toml:1:2: 'name': must be a string, not a table\n"},
    {"an integer for a duration", "[log]\nflush-every = 10\n",
     "muster.toml:2:15: 'log.flush-every': must be a string with a duration, such as \"10s\", not "
     "an integer\n"},
    {"a duration without a unit", "[log]\nflush-every = \"10\"\n",
     "muster.toml:2:15: 'log.flush-every': needs a unit, such as 10ms, 10s or 10m\n"},
    {"a string for a number", "http.connections-max = \"12\"\n",
     "muster.toml:1:24: 'http.connections-max': must be an integer, not a string\n"},
    {"a negative number", "http.connections-max = -1\n",
     "muster.toml:1:24: 'http.connections-max': must not be negative\n"},
    {"out of bounds", "http.connections-max = 65537\n",
     "muster.toml:1:24: 'http.connections-max': must be between 1 and 65536, got 65537\n"},
    {"a string for a boolean", "color = \"true\"\n",
     "muster.toml:1:9: 'color': must be a boolean, true or false, not a string\n"},
    {"a float", "name = 1.5\n", "muster.toml:1:8: 'name': must be a string, not a float\n"},
    {"a string for a list", "peers = \"a\"\n",
     "muster.toml:1:9: 'peers': must be an array of strings, not a string\n"},
    {"a number in a list", "peers = [\"a\", 1]\n",
     "muster.toml:1:9: 'peers': must be an array of strings; item 2 is an integer\n"},
    {"a list for a string", "name = []\n",
     "muster.toml:1:8: 'name': must be a string, not an array\n"},
    {"NUL in a string", "name = \"a\\u0000b\"\n",
     "muster.toml:1:8: 'name': must be valid UTF-8 without a NUL\n"},
};
TEST(what_is_wrong_is_refused_with_line_and_column)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct conf *conf;
        CHECK_ERR(refused[i].why, load_file(refused[i].file, &conf), ERR_INVALID);
        CHECK_STR(refused[i].why, conf_problems(conf), str_from(refused[i].want));
        conf_close(conf);
    }
}

TEST(a_file_that_is_no_toml_is_refused_where_it_breaks)
{
    struct conf *conf;
    CHECK_ERR("refused", load_file("name = 'x'\nname = 'y'\n", &conf), ERR_INVALID);
    CHECK("our form of the place, once",
          str_starts(conf_problems(conf), STR("muster.toml:2:1: ")) &&
              memmem(conf_problems(conf).at, conf_problems(conf).len, "column", 6) == NULL);
    conf_close(conf);
}

TEST(a_file_has_a_ceiling)
{
    static char text[CONF_FILE_MAX + 1];
    struct conf *conf;
    memset(text, '\n', sizeof text);
    CHECK_OK("open", conf_open(&test_table, &conf));
    CHECK_ERR("one too many", conf_add_file(conf, "f", str_of(text, sizeof text)), ERR_INVALID);
    conf_close(conf);
    CHECK_OK("open", conf_open(&test_table, &conf));
    CHECK_OK("the largest", conf_add_file(conf, "f", str_of(text, CONF_FILE_MAX)));
    conf_close(conf);
}

TEST(a_list_in_a_file_has_a_ceiling)
{
    struct conf *conf;
    struct buf text;
    buf_init(&text, 4096);
    CHECK_OK("text", buf_append_c(&text, "peers = ["));
    for (int i = 0; i < OPTION_LIST_MAX + 1; i++) CHECK_OK("item", buf_append_c(&text, "'x',"));
    CHECK_OK("text", buf_append(&text, STR("]\0")));
    CHECK_ERR("refused", load_file(text.data, &conf), ERR_INVALID);
    CHECK("with the bound",
          memmem(conf_problems(conf).at, conf_problems(conf).len, "more than 64 items", 18));
    conf_close(conf);
    buf_deinit(&text);
}

TEST(a_decimal_in_a_file_is_a_number)
{
    static const struct option options[] = {
        {.name = "share", .kind = OPTION_DECIMAL, .max = 1000000, .help = "h"}};
    static const struct option_table table = {options, ARRAY_LEN(options)};
    static const struct {
        const char *file;
        double want;
        const char *problem;
    } cases[] = {
        {"share = 0.05", 0.05, ""},
        {"share = 1", 1, ""},
        {"share = 1.5", 0, "between 0.0 and 1.0, got 1.5"},
        {"share = -0.1", 0, "negative"},
        {"share = nan", 0, "negative"},
        {"share = inf", 0, "larger"},
        {"share = '0.05'", 0, "must be a number, such as 0.05, not a string"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct conf *conf;
        bool good = cases[i].problem[0] == '\0';

        CHECK_OK("open", conf_open(&table, &conf));
        (void)conf_add_file(conf, "f", str_from(cases[i].file));
        CHECK_ERR(cases[i].file, conf_finish(conf), good ? ERR_OK : ERR_INVALID);
        if (good)
            CHECK(cases[i].file, conf_decimal(conf, "share") == cases[i].want);
        else
            CHECK("the problem is named",
                  memmem(conf_problems(conf).at, conf_problems(conf).len, cases[i].problem,
                         strlen(cases[i].problem)) != NULL);
        conf_close(conf);
    }
}

/* -- keys of other programs -- */

static const struct option foreign_options[] = {
    {.name = "run_id", .kind = OPTION_STRING, .help = "x"},
    {.name = "node", .kind = OPTION_STRING, .also_key = "cluster.id", .help = "x"},
    {.name = "urls", .kind = OPTION_LIST, .flags = OPTION_ONE_OR_LIST, .help = "x"},
    {.name = "transport.listen_addr",
     .kind = OPTION_STRING,
     .fallback = "here",
     .flags = OPTION_GATED,
     .help = "x"},
};
static const struct option_table foreign_table = {foreign_options, ARRAY_LEN(foreign_options)};

static struct conf *foreign(const char *file, const char *flag, enum err want)
{
    struct conf *conf;

    CHECK_OK("open", conf_open(&foreign_table, &conf));
    if (flag) (void)conf_add_flags(conf, 1, &flag);
    (void)conf_add_file(conf, "x.toml", str_from(file));
    CHECK_ERR(file, conf_finish(conf), want);
    return conf;
}

TEST(a_key_may_join_its_words_with_underscores)
{
    struct note note = {""};
    struct conf *conf = foreign("run_id = 'a'\n[transport]\nlisten_addr = 'b'\n", NULL, ERR_OK);

    CHECK(note.text, option_table_valid(&foreign_table, &note));
    CHECK_TEXT("top", conf_text(conf, "run_id"), "a");
    CHECK_TEXT("in a section", conf_text(conf, "transport.listen_addr"), "b");
    conf_close(conf);
    conf = foreign("", "--transport-listen-addr=c", ERR_OK);
    CHECK_TEXT("its flag has none", conf_text(conf, "transport.listen_addr"), "c");
    conf_close(conf);
    conf = foreign("listen_adr = 'b'\n", NULL, ERR_INVALID);
    CHECK_STR(
        "the nearest is found by its key alone", conf_problems(conf),
        STR("x.toml:1:1: unknown key 'listen_adr' (did you mean 'transport.listen_addr'?)\n"));
    conf_close(conf);
}

TEST(an_option_may_have_two_names_in_a_file_and_is_set_under_one)
{
    struct conf *conf = foreign("[cluster]\nid = 'a'\n", NULL, ERR_OK);

    CHECK_TEXT("the other name", conf_text(conf, "node"), "a");
    conf_close(conf);
    conf = foreign("node = 'a'\n[cluster]\nid = 'b'\n", NULL, ERR_INVALID);
    CHECK_STR("not both", conf_problems(conf),
              STR("x.toml:3:6: 'node' and 'cluster.id' are two names of one option; line 1 has the "
                  "other\n"));
    conf_close(conf);
    conf = foreign("[cluster]\nlease = 'b'\n", NULL, ERR_INVALID);
    CHECK_STR("its section is no free room", conf_problems(conf),
              STR("x.toml:2:1: unknown key 'cluster.lease'\n"));
    conf_close(conf);
}

TEST(a_single_string_may_replace_a_list_of_one_where_allowed)
{
    struct conf *conf = foreign("urls = 'a,b'\n", NULL, ERR_OK);

    CHECK_SIZE("one", conf_list(conf, "urls").item_count, 1);
    CHECK_STR("as it is", conf_list(conf, "urls").items[0], STR("a,b"));
    conf_close(conf);
}

TEST(a_section_counts_as_given_when_it_is_empty_and_by_a_flag)
{
    struct conf *conf = foreign("[transport]\n", NULL, ERR_OK);

    CHECK("empty", conf_has_section(conf, "transport"));
    conf_close(conf);
    conf = foreign("", "--transport-listen-addr=c", ERR_OK);
    CHECK("by a flag", conf_has_section(conf, "transport"));
    conf_close(conf);
    conf = foreign("run_id = 'transport'\n", NULL, ERR_OK);
    CHECK("by nothing", !conf_has_section(conf, "transport"));
    conf_close(conf);
}

TEST(a_section_that_switches_something_on_is_printed_only_when_it_was_given)
{
    struct conf *conf = foreign("", NULL, ERR_OK);
    struct buf text;

    buf_init(&text, 4096);
    CHECK_OK("printed", conf_print(conf, "x", &text));
    CHECK_OK("ended", buf_append_byte(&text, '\0'));
    CHECK("not there", !strstr(text.data, "transport"));
    buf_clear(&text);
    conf_close(conf);
    conf = foreign("[transport]\n", NULL, ERR_OK);
    CHECK_OK("printed", conf_print(conf, "x", &text));
    CHECK_OK("ended", buf_append_byte(&text, '\0'));
    CHECK_HAS("there", text.data, "\n[transport]\nlisten_addr = \"here\"");
    buf_clear(&text);
    conf_close(conf);
    CHECK_OK("printed", conf_print_reference(&foreign_table, "x", &text));
    CHECK_OK("ended", buf_append_byte(&text, '\0'));
    CHECK_HAS("the manual has it, commented out", text.data, "\n#[transport]\n");
    buf_deinit(&text);
}
