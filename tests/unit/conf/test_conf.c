/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/conf.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "table.h"

enum { FLAG = 1, VARIABLE = 2, FILE_ = 4 };

static const char *problems(const struct conf *conf)
{
    static char text[16384];
    snprintf(text, sizeof text, "%.*s", STR_ARG(conf_problems(conf)));
    return text;
}

/* Loads with flags and environment variables, each a list that ends with NULL. */
static enum err load(const char *const *flags, const char *const *environment, const char *file,
                     struct conf **ret_conf)
{
    size_t count = 0;
    CHECK_OK("open", conf_open(&test_table, ret_conf));
    while (flags && flags[count]) count++;
    (void)conf_add_flags(*ret_conf, count, flags);
    (void)conf_add_environment(*ret_conf, environment, NULL);
    if (file) (void)conf_add_file(*ret_conf, "muster.toml", str_from(file));
    return conf_finish(*ret_conf);
}

/* Every subset of the three sources, in both orders of the calls. */
TEST(a_flag_beats_the_environment_beats_the_file_beats_the_default)
{
    static const char *const flags[] = {"--http-listen", "flag:1"};
    static const char *const environment[] = {"PATH=/bin", "MUSTER_HTTP_LISTEN=environment:1",
                                              NULL};
    struct str file = STR("[http]\nlisten = \"file:1\"\n");

    for (int given = 0; given < 8; given++) {
        for (int reversed = 0; reversed < 2; reversed++) {
            const char *want = given & FLAG       ? "flag:1"
                               : given & VARIABLE ? "environment:1"
                               : given & FILE_    ? "file:1"
                                                  : "127.0.0.1:8790";
            enum conf_source source = given & FLAG       ? CONF_FLAG
                                      : given & VARIABLE ? CONF_ENVIRONMENT
                                      : given & FILE_    ? CONF_FILE
                                                         : CONF_DEFAULT;
            struct conf *conf;
            CHECK_OK("open", conf_open(&test_table, &conf));
            for (int step = 0; step < 3; step++) {
                int which = reversed ? 2 - step : step;
                if (which == 0 && given & FLAG) CHECK_OK("flags", conf_add_flags(conf, 2, flags));
                if (which == 1 && given & VARIABLE) {
                    CHECK_OK("environment", conf_add_environment(conf, environment, NULL));
                }
                if (which == 2 && given & FILE_)
                    CHECK_OK("file", conf_add_file(conf, "f.toml", file));
            }
            CHECK_OK("finish", conf_finish(conf));
            CHECK_TEXT("the strongest source counts", conf_text(conf, "http.listen"), want);
            CHECK_U64("and is remembered", conf_source(conf, "http.listen"), source);
            conf_close(conf);
        }
    }
}

TEST(every_kind_can_be_read)
{
    static const char *const flags[] = {"--name=x=y",
                                        "--no-color",
                                        "--peers",
                                        "a:1,b:2",
                                        "--peers=c:3",
                                        "--http-connections-max",
                                        "12",
                                        "--log-level",
                                        "warn",
                                        "--log-flush-every=1m",
                                        "--log-file-max",
                                        "1MiB",
                                        "--json",
                                        NULL};
    struct conf *conf;
    CHECK_OK("loads", load(flags, NULL, NULL, &conf));
    CHECK_TEXT("only the first = cuts", conf_text(conf, "name"), "x=y");
    CHECK("negated", !conf_bool(conf, "color"));
    CHECK("a flag alone is true", conf_bool(conf, "json"));
    CHECK_SIZE("a list flag gathers", conf_list(conf, "peers").item_count, 3);
    CHECK_STR("in order", conf_list(conf, "peers").items[2], STR("c:3"));
    CHECK_U64("number", conf_number(conf, "http.connections-max"), 12);
    CHECK_SIZE("choice", conf_choice(conf, "log.level"), 2);
    CHECK_TEXT("its word", conf_text(conf, "log.level"), "warn");
    CHECK_U64("milliseconds", conf_number(conf, "log.flush-every"), 60000);
    CHECK_U64("bytes", conf_number(conf, "log.file-max"), 1048576);
    CHECK("not set", !conf_is_set(conf, "token"));
    CHECK("not set is NULL", conf_text(conf, "token") == NULL);
    conf_close(conf);
}

TEST(an_alias_sets_its_option)
{
    static const char *const apart[] = {"-l", "warn", NULL}, *const joined[] = {"-l=error", NULL};
    struct conf *conf;
    CHECK_OK("loads", load(apart, NULL, NULL, &conf));
    CHECK_TEXT("the next word is its value", conf_text(conf, "log.level"), "warn");
    conf_close(conf);
    CHECK_OK("loads", load(joined, NULL, NULL, &conf));
    CHECK_TEXT("or the text after the =", conf_text(conf, "log.level"), "error");
    conf_close(conf);
}

TEST(words_that_are_no_options_are_arguments)
{
    static const char *const flags[] = {"replica", "--name", "x",  "two", "-",
                                        "--",      "--json", "-z", NULL};
    struct conf *conf;
    CHECK_OK("loads", load(flags, NULL, NULL, &conf));
    CHECK_SIZE("all five", conf_argument_count(conf), 5);
    CHECK_TEXT("first", conf_argument(conf, 0), "replica");
    CHECK_TEXT("between options", conf_argument(conf, 1), "two");
    CHECK_TEXT("a dash alone is a word", conf_argument(conf, 2), "-");
    CHECK_TEXT("after -- everything is", conf_argument(conf, 3), "--json");
    CHECK("and it set nothing", !conf_is_set(conf, "json"));
    conf_close(conf);
}

TEST(the_last_of_a_repeated_flag_counts)
{
    static const char *const flags[] = {"--name",     "a",          "--name=b", "--color",
                                        "--no-color", "--color=on", NULL};
    struct conf *conf;
    CHECK_OK("loads", load(flags, NULL, NULL, &conf));
    CHECK_TEXT("the last name", conf_text(conf, "name"), "b");
    CHECK("the last colour", conf_bool(conf, "color"));
    conf_close(conf);
}

static const struct {
    const char *why;
    const char *flags[3];
    const char *environment[3];
    const char *want;
} refused[] = {
    {"a swapped letter",
     {"--http-lsiten=x:1"},
     {NULL},
     "--http-lsiten: unknown option (did you mean --http-listen?)\n"},
    {"a section left out",
     {"--listen=x:1"},
     {NULL},
     "--listen: unknown option (did you mean --http-listen?)\n"},
    {"a dot where a dash belongs",
     {"--http.listen=x:1"},
     {NULL},
     "--http.listen: unknown option (did you mean --http-listen?)\n"},
    {"nothing near", {"--frobnicate"}, {NULL}, "--frobnicate: unknown option\n"},
    {"a short option", {"-n"}, {NULL}, "-n: unknown option; most are written out, as in --help\n"},
    {"no value", {"--name"}, {NULL}, "--name: needs a value, as in --name TEXT\n"},
    {"an option is no value",
     {"--name", "--json"},
     {NULL},
     "--name: needs a value, as in --name TEXT\n"},
    {"a negation takes no value", {"--no-color=true"}, {NULL}, "--no-color: takes no value\n"},
    {"only a bool can be negated", {"--no-name"}, {NULL}, "--no-name: unknown option"},
    {"a bad flag value",
     {"--log-flush-every=10"},
     {NULL},
     "--log-flush-every: needs a unit, such as 10ms, 10s or 10m\n"},
    {"out of bounds",
     {"--http-connections-max=0"},
     {NULL},
     "--http-connections-max: must be between 1 and 65536, got 0\n"},
    {"a swapped letter in a variable",
     {NULL},
     {"MUSTER_HTTP_LITSEN=x:1"},
     "environment MUSTER_HTTP_LITSEN: unknown (did you mean MUSTER_HTTP_LISTEN?)\n"},
    {"an unknown variable",
     {NULL},
     {"MUSTER_FROBNICATE=1"},
     "environment MUSTER_FROBNICATE: unknown\n"},
    {"almost of a Service",
     {NULL},
     {"MUSTER_HTTP_PORT=8790"},
     "environment MUSTER_HTTP_PORT: unknown"},
    {"almost of a Service's port",
     {NULL},
     {"MUSTER_PORT_X_TCP=1"},
     "environment MUSTER_PORT_X_TCP: unknown"},
    {"a bad variable",
     {NULL},
     {"MUSTER_LOG_LEVEL=loud"},
     "environment MUSTER_LOG_LEVEL: must be one of debug, info, warn, error, got 'loud'\n"},
    {"a flag-only option has no variable",
     {NULL},
     {"MUSTER_JSON=1"},
     "environment MUSTER_JSON: unknown\n"},
    {"checked though a flag hides it",
     {"--log-level=info"},
     {"MUSTER_LOG_LEVEL=loud"},
     "environment MUSTER_LOG_LEVEL: must be one of"},
};
TEST(what_is_wrong_is_refused_with_its_source_and_the_right_name)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct conf *conf;
        CHECK_ERR(refused[i].why, load(refused[i].flags, refused[i].environment, NULL, &conf),
                  ERR_INVALID);
        CHECK(problems(conf),
              strncmp(problems(conf), refused[i].want, strlen(refused[i].want)) == 0);
        conf_close(conf);
    }
}

TEST(all_mistakes_are_reported_in_order)
{
    static const char *const flags[] = {"--nmae=x", "--http-listen=nowhere", NULL};
    static const char *const environment[] = {"MUSTER_COLOR=blue", NULL};
    struct conf *conf;
    CHECK_ERR("refused", load(flags, environment, "colour = 1\n", &conf), ERR_INVALID);
    const char *text = problems(conf);
    const char *a = strstr(text, "--nmae"), *b = strstr(text, "--http-listen: needs an address");
    const char *c = strstr(text, "environment MUSTER_COLOR"), *d = strstr(text, "muster.toml:1:1");
    CHECK(text, a && b && c && d);
    CHECK("in the order they were met", a < b && b < c && c < d);
    conf_close(conf);
}

TEST(past_the_bound_mistakes_are_counted)
{
    const char *flags[CONF_PROBLEMS_MAX + 4] = {NULL};
    struct conf *conf;
    for (size_t i = 0; i < CONF_PROBLEMS_MAX + 3; i++) flags[i] = "--frobnicate";
    CHECK_ERR("refused", load(flags, NULL, NULL, &conf), ERR_INVALID);
    size_t lines = 0;
    for (const char *c = problems(conf); *c; c++) lines += *c == '\n';
    CHECK_SIZE("each on a line, and the rest on one", lines, CONF_PROBLEMS_MAX + 1);
    CHECK_HAS("how many more", problems(conf), "and 3 more\n");
    conf_close(conf);
}

TEST(too_many_arguments_are_refused)
{
    const char *flags[CONF_ARGUMENTS_MAX + 2] = {NULL};
    struct conf *conf;
    for (size_t i = 0; i < CONF_ARGUMENTS_MAX + 1; i++) flags[i] = "x";
    CHECK_ERR("refused", load(flags, NULL, NULL, &conf), ERR_INVALID);
    CHECK_HAS("with the bound", problems(conf), "more than 256 arguments");
    conf_close(conf);
}

TEST(the_environment_knows_its_exceptions)
{
    static const struct option other_options[] = {
        {.name = "shard.id", .kind = OPTION_STRING, .help = "h"}};
    static const struct option_table other = {other_options, 1};
    static const struct option_table *const others[] = {&test_table, &other, NULL};
    static const char *const environment[] = {
        "MUSTER_TEST_SEED=7", "MUSTER_SHARD_ID=x", "MUSTER_NAME=", "MUSTERCTL=1", "NAME=y",
        "MUSTER_BROKEN",
        /* of Services called muster and muster-http */
        "MUSTER_SERVICE_HOST=10.0.0.1", "MUSTER_SERVICE_PORT=7790", "MUSTER_SERVICE_PORT_GRPC=7790",
        "MUSTER_PORT=tcp://10.0.0.1:7790", "MUSTER_PORT_7790_TCP=tcp://10.0.0.1:7790",
        "MUSTER_HTTP_PORT_8790_TCP_PROTO=tcp", "MUSTER_HTTP_PORT_8790_UDP_PORT=8790",
        "MUSTER_HTTP_PORT_8790_SCTP_ADDR=10.0.0.1", NULL};
    struct conf *conf;
    CHECK_OK("open", conf_open(&test_table, &conf));
    CHECK_OK("tests, other commands and other programs are let be",
             conf_add_environment(conf, environment, others));
    CHECK_OK("finish", conf_finish(conf));
    CHECK_TEXT("set to nothing is not set", conf_text(conf, "name"), "node");
    conf_close(conf);
}

TEST(a_required_option_that_nobody_set_is_named_in_both_spellings)
{
    static const struct option options[] = {
        {.name = "shard.id",
         .kind = OPTION_STRING,
         .flags = OPTION_REQUIRED,
         .help = "h",
         .placeholder = "ID"},
        {.name = "shard.as",
         .kind = OPTION_STRING,
         .flags = OPTION_REQUIRED | OPTION_FLAG_ONLY,
         .help = "h"},
    };
    static const struct option_table table = {options, 2};
    struct conf *conf;
    CHECK_OK("open", conf_open(&table, &conf));
    CHECK_ERR("refused", conf_finish(conf), ERR_INVALID);
    CHECK_TEXT("how to set them", problems(conf),
               "--shard-id ID is required (or environment MUSTER_SHARD_ID)\n--shard-as TEXT is "
               "required\n");
    conf_close(conf);
}

TEST(closing_nothing_is_fine)
{
    conf_close(NULL);
}
