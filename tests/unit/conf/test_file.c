#include "conf/conf.h"

#include <string.h>

#include "lib/test.h"
#include "table.h"

static enum err load_file(const char *text, struct conf **ret_conf)
{
    CHECK_OK("open", conf_open(&test_table, ret_conf));
    (void)conf_add_file(*ret_conf, "muster.toml", str_from(text));
    return conf_finish(*ret_conf);
}

TEST(every_kind_can_stand_in_a_file)
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
     "muster.toml:1:1: 'config' cannot stand in a file; use the flag --config\n"},
    {"flag only", "json = true\n",
     "muster.toml:1:1: 'json' cannot stand in a file; use the flag --json\n"},
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
    {"a secret is not repeated", "pin = \"hunter2\"\n",
     "muster.toml:1:7: 'pin': the value cannot be used (it is secret, so not shown)\n"},
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
