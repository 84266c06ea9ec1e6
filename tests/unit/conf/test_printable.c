/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/printable.h"

#include "conf/conf.h"
#include "lib/test.h"
#include "table.h"

static const struct {
    const char *why, *text, *want;
} texts[] = {
    {"plain", "a b/c\\d 'e'", "a b/c\\d 'e'"},
    {"letters of the world", "K\xc3\xb6ln \xe6\x9d\xb1 \xf0\x9f\x90\xb3",
     "K\xc3\xb6ln \xe6\x9d\xb1 \xf0\x9f\x90\xb3"},
    {"line ends", "a\nb\r\tc", "a\\nb\\r\\tc"},
    {"escape and delete", "\033[2Jx\x7f", "\\x1B[2Jx\\x7F"},
    {"the one-character form of escape [",
     "\xc2\x9b"
     "2J",
     "\\u009B2J"},
    {"the byte alone",
     "\x9b"
     "2J",
     "\\x9B2J"},
    {"no UTF-8", "K\xf6ln", "K\\xF6ln"},
    {"cut in the middle", "a\xe6\x9d", "a\\xE6\\x9D"},
    {"writing turned round",
     "a\xe2\x80\xae"
     "b",
     "a\\u202Eb"},
    {"another line end",
     "a\xe2\x80\xa8"
     "b",
     "a\\u2028b"},
};
TEST(terminal_control_characters_are_escaped)
{
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct buf out;
        buf_init(&out, 256);
        CHECK_OK(texts[i].why, printable_append(str_from(texts[i].text), &out));
        CHECK_STR(texts[i].why, buf_peek(&out), str_from(texts[i].want));
        buf_deinit(&out);
    }
}

/* Hostile bytes in each place of each source: every message is one line. */
TEST(no_source_can_forge_a_line_or_reach_the_terminal)
{
    static const char hostile[] = "x\n\033[2J\xc2\x9b"
                                  "forged: line";
    static const char *const flags[] = {"--x\n\033[2J=1", "-\033",       "--http-listen",
                                        hostile,          "--color",     "--http-connections-max",
                                        hostile,          "--log-level", hostile};
    static const char *const environment[] = {"MUSTER_X\n\033[2J=1",
                                              "MUSTER_COLOR=x\n\033[2J\xc2\x9b"
                                              "forged: line",
                                              NULL};
    static const char file[] = "\"x\\n\\u001b[2J\\u009b\" = 1\n"
                               "[log]\nlevel = \"x\\n\\u001b[2J\\u009bforged: line\"\n";
    struct conf *conf;
    size_t lines = 0;

    CHECK_OK("open", conf_open(&test_table, &conf));
    CHECK_ERR("flags", conf_add_flags(conf, ARRAY_LEN(flags), flags), ERR_INVALID);
    CHECK_ERR("environment", conf_add_environment(conf, environment, NULL), ERR_INVALID);
    CHECK_ERR("file", conf_add_file(conf, "a\n\033[2J.toml", str_from(file)), ERR_INVALID);
    CHECK_ERR("from the reader of the file", conf_problem(conf, "%s: not found", hostile),
              ERR_INVALID);
    CHECK_ERR("finish", conf_finish(conf), ERR_INVALID);
    struct str problems = conf_problems(conf);
    for (size_t i = 0; i < problems.len; i++) {
        lines += problems.at[i] == '\n';
        CHECK("no control byte", problems.at[i] == '\n' || (problems.at[i] & 0xe0) != 0);
        CHECK("nor its longer form", (unsigned char)problems.at[i] != 0x9b);
    }
    CHECK_SIZE("a line each", lines, 10);
    conf_close(conf);
}

TEST(a_file_name_cannot_forge_a_line_of_what_is_printed)
{
    struct conf *conf;
    struct buf out;

    buf_init(&out, 65536);
    CHECK_OK("open", conf_open(&test_table, &conf));
    CHECK_OK("file", conf_add_file(conf, "a\nname = 1\n", STR("name = \"b\\u009b\"\n")));
    CHECK_OK("finish", conf_finish(conf));
    CHECK_OK("prints", conf_print(conf, "muster dev", &out));
    CHECK_OK("ends", buf_append_byte(&out, '\0'));
    CHECK_HAS("on one line, value and source", out.data,
              "\nname = \"b\\u009B\"                        # a\\nname = 1\\n:1:8\n");
    conf_close(conf);
    buf_deinit(&out);
}
