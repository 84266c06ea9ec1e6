/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/conf.h"
#include "conf/writer.h"

#include <string.h>

#include "lib/test.h"
#include "table.h"

static const char *const flags[] = {"--name", "a \"b\"", "--token=hunter2", "--config=muster.toml"};
static const char *const environment[] = {"MUSTER_LOG_LEVEL=debug", NULL};
static const struct str file = {"[http]\nconnections-max = 9\n[log]\nlevel = 'warn'\n", 54};

static void load(struct conf **ret_conf)
{
    CHECK_OK("open", conf_open(&test_table, ret_conf));
    CHECK_OK("flags", conf_add_flags(*ret_conf, ARRAY_LEN(flags), flags));
    CHECK_OK("environment", conf_add_environment(*ret_conf, environment, NULL));
    CHECK_OK("file", conf_add_file(*ret_conf, "muster.toml", str_from(file.at)));
    CHECK_OK("finish", conf_finish(*ret_conf));
}

TEST(each_value_is_printed_with_its_source)
{
    struct conf *conf;
    struct buf out;
    buf_init(&out, 65536);
    load(&conf);
    CHECK_OK("prints", conf_print(conf, "muster dev", &out));
    CHECK_STR("whole text", buf_peek(&out),
              STR("# muster dev: the configuration in force, each value with its source.\n"
                  "# config = \"muster.toml\"                # flag --config\n"
                  "name = \"a \\\"b\\\"\"                        # flag --name\n"
                  "token = \"hunter2\"                       # flag --token\n"
                  "color = true                            # default\n"
                  "# peers =                               # not set\n"
                  "\n[http]\n"
                  "listen = \"127.0.0.1:8790\"               # default\n"
                  "connections-max = 9                     # muster.toml:2:19\n"
                  "\n[log]\n"
                  "level = \"debug\"                         # environment MUSTER_LOG_LEVEL\n"
                  "flush-every = \"1s\"                      # default\n"
                  "file-max = \"64MiB\"                      # default\n"));
    conf_close(conf);
    buf_deinit(&out);
}

TEST(what_is_printed_loads_again_to_the_same_values)
{
    struct conf *conf, *again;
    struct buf out;
    buf_init(&out, 65536);
    load(&conf);
    CHECK_OK("prints", conf_print(conf, "x", &out));
    CHECK_OK("open", conf_open(&test_table, &again));
    CHECK_OK("the text is a configuration file", conf_add_file(again, "printed", buf_peek(&out)));
    CHECK_OK("finish", conf_finish(again));
    CHECK_TEXT("quotes survive", conf_text(again, "name"), conf_text(conf, "name"));
    CHECK_U64("choice", conf_choice(again, "log.level"), conf_choice(conf, "log.level"));
    CHECK_U64("duration", conf_number(again, "log.flush-every"),
              conf_number(conf, "log.flush-every"));
    CHECK_U64("size", conf_number(again, "log.file-max"), conf_number(conf, "log.file-max"));
    conf_close(again);
    conf_close(conf);
    buf_deinit(&out);
}

TEST(the_reference_names_every_option_and_loads_with_and_without_comments)
{
    struct conf *conf;
    struct buf out;
    buf_init(&out, 65536);
    CHECK_OK("prints", conf_print_reference(&test_table, "muster dev", &out));
    CHECK_OK("end", buf_append_byte(&out, '\0'));
    CHECK_HAS("flag and variable", out.data,
              "# the least serious line that is written\n# One of: debug, info, warn, error.\n"
              "# Flag --log-level, environment MUSTER_LOG_LEVEL; reloaded on SIGHUP.\n#level = "
              "\"info\"\n");
    CHECK_HAS("bounds", out.data, "# From 10ms to 1m.\n");
    CHECK_HAS("a lower bound alone", out.data, "# From 4KiB on.\n");
    CHECK_HAS("an example where there is no default", out.data,
              "#peers = [\"a:1\", \"b:2\"]  # not set by default\n");
    CHECK("flag-only options are left out", strstr(out.data, "--json") == NULL);
    CHECK_OK("open", conf_open(&test_table, &conf));
    CHECK_OK("as it is, it sets nothing", conf_add_file(conf, "reference", str_from(out.data)));
    conf_close(conf);
    buf_deinit(&out);
}

TEST(text_is_broken_between_words)
{
    static const struct {
        const char *why, *text, *want;
    } cases[] = {
        {"fits", "a b c", "> a b c\n"},
        {"to the last column", "aaa bbbb", "> aaa bbbb\n"},
        {"one more", "aaa bbbbb", "> aaa\n. bbbbb\n"},
        {"a long word has its own line", "a bbbbbbbbbbbbbb c", "> a\n. bbbbbbbbbbbbbb\n. c\n"},
        {"blanks collapse", "a    b", "> a b\n"},
        {"a newline ends a line", "a\nb", "> a\n. b\n"},
        {"nothing", "", "> \n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct wrap_options options = {.first = "> ", .rest = ". ", .width = 10};
        struct buf out;
        struct writer w = {.into = &out};
        buf_init(&out, 1000);
        writer_wrap(&w, str_from(cases[i].text), &options);
        CHECK_OK("wraps", w.err);
        CHECK_STR(cases[i].why, buf_peek(&out), str_from(cases[i].want));
        buf_deinit(&out);
    }
}

TEST(a_full_buffer_is_an_answer)
{
    struct conf *conf;
    load(&conf);
    for (size_t max = 1; max < 400; max += 7) {
        struct buf out;
        buf_init(&out, max);
        CHECK_ERR("values", conf_print(conf, "x", &out), ERR_FULL);
        buf_clear(&out);
        CHECK_ERR("reference", conf_print_reference(&test_table, "x", &out), ERR_FULL);
        buf_deinit(&out);
    }
    conf_close(conf);
}
