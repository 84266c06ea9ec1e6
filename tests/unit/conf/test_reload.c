/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/conf.h"

#include "lib/test.h"
#include "table.h"

static struct conf *load_table(const struct option_table *table, const char *text)
{
    struct conf *conf;
    CHECK_OK("open", conf_open(table, &conf));
    CHECK_OK("file", conf_add_file(conf, "muster.toml", str_from(text)));
    CHECK_OK("finish", conf_finish(conf));
    return conf;
}

static struct conf *load(const char *text)
{
    return load_table(&test_table, text);
}

static struct conf *load_switch(const char *text)
{
    static const struct option options[] = {{.name = "paused",
                                             .kind = OPTION_BOOL,
                                             .flags = OPTION_RELOAD_ON,
                                             .fallback = "false",
                                             .help = "a switch"}};
    static const struct option_table table = {options, ARRAY_LEN(options)};

    return load_table(&table, text);
}

static void check_text(const struct conf *current, const struct conf *next,
                       const struct conf_change *change, const char *want)
{
    struct buf out;
    buf_init(&out, 4096);
    CHECK_OK("text", conf_change_text(current, next, change, &out));
    CHECK_STR("the message", buf_peek(&out), str_from(want));
    buf_deinit(&out);
}

TEST(the_same_again_changes_nothing)
{
    struct conf *current = load("name = 'a'\n[log]\nlevel = 'info'\n");
    struct conf *next = load("[log]\nlevel = \"info\"\n[http]\n#\n");
    struct conf_changes changes;
    conf_close(next);
    next = load("log.flush-every = '1000ms'\nname = 'a'\n");
    CHECK_OK("reload", conf_reload(current, next, &changes));
    CHECK_SIZE("another source or spelling of the same value is no change", changes.count, 0);
    conf_close(current);
    conf_close(next);
}

TEST(reloadable_options_change_and_the_rest_waits)
{
    struct conf *current =
        load("name = 'a'\npeers = ['x:1']\ntoken = 's1'\n[log]\nlevel = 'info'\n");
    struct conf *next =
        load("name = 'b'\npeers = ['x:1', 'y:1']\ntoken = 's2'\n[log]\nlevel = 'debug'\n");
    struct conf_changes changes;
    CHECK_OK("reload", conf_reload(current, next, &changes));
    CHECK_SIZE("four changed", changes.count, 4);
    CHECK_SIZE("two of them wait", changes.waiting, 2);
    check_text(current, next, &changes.each[0],
               "name: \"a\" stays in force; \"b\" needs a restart");
    check_text(current, next, &changes.each[1], "token: \"s1\" -> \"s2\"");
    check_text(current, next, &changes.each[2],
               "peers: [\"x:1\"] stays in force; [\"x:1\", \"y:1\"] needs a restart");
    check_text(current, next, &changes.each[3], "log.level: \"info\" -> \"debug\"");
    conf_close(current); /* next must not refer to it */
    CHECK_TEXT("the old name is in force", conf_text(next, "name"), "a");
    CHECK_STR("the old list too", conf_list(next, "peers").items[0], STR("x:1"));
    CHECK_TEXT("the new level is", conf_text(next, "log.level"), "debug");
    conf_close(next);
}

TEST(a_pending_change_is_reported_at_every_reload_until_it_is_reverted)
{
    struct conf *first = load("name = 'a'\n"), *second = load("name = 'b'\n"),
                *third = load("name = 'b'\n");
    struct conf *fourth = load("name = 'a'\n");
    struct conf_changes changes;
    CHECK_OK("reload", conf_reload(first, second, &changes));
    CHECK_SIZE("waits", changes.waiting, 1);
    CHECK_OK("again", conf_reload(second, third, &changes));
    CHECK_SIZE("still waits", changes.waiting, 1);
    CHECK_OK("reverted", conf_reload(third, fourth, &changes));
    CHECK_SIZE("nothing to report", changes.count, 0);
    conf_close(first);
    conf_close(second);
    conf_close(third);
    conf_close(fourth);
}

TEST(a_switch_is_enabled_at_once_and_disabled_by_a_restart)
{
    struct conf *first = load_switch(""), *second = load_switch("paused = true\n"),
                *third = load_switch("paused = false\n"), *fourth = load_switch(""),
                *fifth = load_switch("paused = true\n");
    struct conf_changes changes;

    CHECK_OK("on", conf_reload(first, second, &changes));
    CHECK_SIZE("a change", changes.count, 1);
    CHECK_SIZE("none waits", changes.waiting, 0);
    check_text(first, second, &changes.each[0], "paused: false -> true");
    CHECK("in force", conf_bool(second, "paused") && !conf_waits(second, "paused"));
    CHECK_OK("off", conf_reload(second, third, &changes));
    CHECK_SIZE("waits", changes.waiting, 1);
    check_text(second, third, &changes.each[0],
               "paused: true stays in force; false needs a restart");
    CHECK("still on", conf_bool(third, "paused") && conf_waits(third, "paused"));
    CHECK_OK("taken out", conf_reload(third, fourth, &changes));
    CHECK("still on", conf_bool(fourth, "paused") && conf_waits(fourth, "paused"));
    CHECK_OK("on again", conf_reload(fourth, fifth, &changes));
    CHECK_SIZE("nothing to report", changes.count, 0);
    CHECK("on", conf_bool(fifth, "paused") && !conf_waits(fifth, "paused"));
    conf_close(first);
    conf_close(second);
    conf_close(third);
    conf_close(fourth);
    conf_close(fifth);
}

TEST(set_and_not_set_are_two_values)
{
    struct conf *current = load("peers = []\n"), *next = load("");
    struct conf_changes changes;
    struct buf out;
    CHECK_OK("reload", conf_reload(current, next, &changes));
    CHECK_SIZE("a change", changes.count, 1);
    check_text(current, next, &changes.each[0], "peers: [] stays in force; none needs a restart");
    conf_close(current);
    buf_init(&out, 4096);
    CHECK_OK("prints", conf_print(next, "x", &out));
    CHECK_OK("end", buf_append_byte(&out, '\0'));
    CHECK_HAS("the old value in force, the new beside it", out.data,
              "peers = []                              # at start: muster.toml:1:9; restart to "
              "take none from not set");
    buf_deinit(&out);
    current = load("");
    conf_close(next);
    next = load("peers = ['a']\n");
    CHECK_OK("reload", conf_reload(current, next, &changes));
    check_text(current, next, &changes.each[0],
               "peers: none stays in force; [\"a\"] needs a restart");
    CHECK("not in force", !conf_is_set(next, "peers"));
    conf_close(current);
    conf_close(next);
}
