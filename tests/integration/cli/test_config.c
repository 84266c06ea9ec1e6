/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration of real processes: sources, precedence, refusals, the reference in the docs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "lib/golden.h"

static struct proc proc;

TEST(flag_beats_environment_beats_file_beats_default)
{
    const char *file = cli_path("muster.toml");
    const char *variables[] = {"MUSTER_HTTP_LISTEN=127.0.0.1:2", "MUSTER_LOG_LEVEL=warn", NULL};
    cli_write(file,
              "[http]\nlisten = \"127.0.0.1:3\"\nlive-every = \"3s\"\n[log]\nlevel = \"error\"\n");
    CHECK_I64("prints",
              cli_run(&proc, cli_muster(),
                      WORDS("dev", "--config", file, "--http-listen=127.0.0.1:1", "--print-config"),
                      variables),
              0);
    CHECK_HAS("flag", proc.output,
              "listen = \"127.0.0.1:1\"                  # flag --http-listen\n");
    CHECK_HAS("environment", proc.output,
              "level = \"warn\"                          # environment MUSTER_LOG_LEVEL\n");
    CHECK_HAS("file, with its place", proc.output, "live-every = \"3s\"                       # ");
    CHECK_HAS("file, with its place", proc.output, "muster.toml:3:14\n");
    CHECK_HAS("default", proc.output, "data-dir = \"dev-data\"                   # default\n");
}

TEST(the_file_can_be_named_by_the_environment)
{
    char variable[4200];
    const char *variables[] = {variable, NULL};
    cli_write(cli_path("named.toml"), "data-dir = \"x\"\n");
    snprintf(variable, sizeof variable, "MUSTER_CONFIG=%s", cli_path("named.toml"));
    CHECK_I64("prints", cli_run(&proc, cli_muster(), WORDS("dev", "--print-config"), variables), 0);
    CHECK_HAS("read", proc.output, "data-dir = \"x\"");
    CHECK_HAS("and named itself", proc.output, "# environment MUSTER_CONFIG");
}

TEST(the_output_of_print_config_is_a_configuration_file)
{
    const char *file = cli_path("printed.toml");
    CHECK_I64(
        "prints",
        cli_run(&proc, cli_muster(), WORDS("dev", "--print-config", "--log-level=debug"), NULL), 0);
    cli_write(file, proc.output);
    CHECK_I64("checks", cli_run(&proc, cli_musterctl(), WORDS("config", "check", file), NULL), 0);
    CHECK_HAS("good", proc.output, "printed.toml: good for muster dev\n");
}

TEST(every_mistake_of_every_source_is_reported_at_once)
{
    const char *file = cli_path("wrong.toml");
    const char *variables[] = {"MUSTER_HTTP_LITSEN=x:1", NULL};
    cli_write(file, "[htpp]\nlisten = 'x:1'\n[http]\n  listne = 'x:1'\n[log]\nlevel = 7\n");
    CHECK_I64("refused",
              cli_run(&proc, cli_muster(), WORDS("dev", "--config", file, "--lgo-level=debug"),
                      variables),
              2);
    CHECK_HAS("flag", proc.output,
              "muster dev: --lgo-level: unknown option (did you mean --log-level?)\n");
    CHECK_HAS(
        "variable", proc.output,
        "muster dev: environment MUSTER_HTTP_LITSEN: unknown (did you mean MUSTER_HTTP_LISTEN?)\n");
    CHECK_HAS("section", proc.output, "wrong.toml:1:2: unknown section 'htpp'");
    CHECK_HAS("key", proc.output,
              "wrong.toml:4:3: unknown key 'http.listne' (did you mean 'http.listen'?)\n");
    CHECK_HAS(
        "type", proc.output,
        "wrong.toml:6:9: 'log.level': must be a string with one of the choices, not an integer\n");
    CHECK_I64("the same without starting",
              cli_run(&proc, cli_musterctl(), WORDS("config", "check", file), NULL), 2);
    CHECK_HAS("key", proc.output,
              "wrong.toml:4:3: unknown key 'http.listne' (did you mean 'http.listen'?)\n");
}

TEST(a_file_that_is_not_there_is_named)
{
    CHECK_I64("start",
              cli_run(&proc, cli_muster(), WORDS("dev", "--config", "/nowhere/muster.toml"), NULL),
              2);
    CHECK_HAS("says which", proc.output, "muster dev: /nowhere/muster.toml: not found\n");
    CHECK_I64(
        "check",
        cli_run(&proc, cli_musterctl(), WORDS("config", "check", "/nowhere/muster.toml"), NULL), 5);
    CHECK_HAS("says which", proc.output,
              "musterctl config check: /nowhere/muster.toml: not found\n");
}

TEST(a_file_that_is_no_regular_file_is_refused_everywhere)
{
    const char *fifo = cli_path("pipe.toml"), *dir = cli_path("");
    CHECK("a pipe", mkfifo(fifo, 0600) == 0);
    const struct {
        const char *path, *why;
    } cases[] = {
        {dir, ": is a directory\n"},
        {fifo, ": is not a regular file\n"},
        {"/dev/null", ": is not a regular file\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *words[] = {"dev", "--print-config", "--config", cases[i].path, NULL};
        int code = cli_run(&proc, cli_muster(), words, NULL);
        CHECK_HAS("start", proc.output, cases[i].why);
        CHECK_I64(proc.output, code, 2);
        code = cli_run(&proc, cli_musterctl(), WORDS("config", "check", cases[i].path), NULL);
        CHECK_HAS("check", proc.output, cases[i].why);
        CHECK_I64(proc.output, code, 2);
    }
}

/* Settings that check accepts must start, as far as check can know. */
TEST(check_refuses_what_dev_refuses)
{
    static const struct {
        const char *file, *says;
    } cases[] = {
        {"[tls]\ncert-file = 'x.pem'\n", "tls.cert-file and tls.key-file belong together"},
        {"[http]\nlisten = '0.0.0.0:1'\n", "not loopback"},
        {"[http]\nlisten = 'unix:/tmp/x'\n", "host:port"},
        {"data-dir = ''\n", "data-dir must not be empty"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *file = cli_path("contradiction.toml");
        cli_write(file, cases[i].file);
        CHECK_I64(cases[i].file, cli_run(&proc, cli_muster(), WORDS("dev", "--config", file), NULL),
                  2);
        CHECK_HAS("dev", proc.output, cases[i].says);
        int code = cli_run(&proc, cli_musterctl(), WORDS("config", "check", file), NULL);
        CHECK_HAS("check", proc.output, cases[i].says);
        CHECK_I64(cases[i].file, code, 2);
    }
}

TEST(nothing_foreign_reaches_the_terminal_raw)
{
    static const char *const hostile = "\033[2J\xc2\x9b-\nforged: line";
    char flag[128], path[4200];
    snprintf(flag, sizeof flag, "--log-level=%s", hostile);
    snprintf(path, sizeof path, "%s/%s", "/nowhere", hostile);
    const struct {
        const char *program, *words[4];
    } cases[] = {
        {cli_muster(), {hostile}},
        {cli_muster(), {"dev", flag}},
        {cli_muster(), {"dev", hostile}},
        {cli_muster(), {"dev", "--config", path}},
        {cli_musterctl(), {"config", "check", path}},
        {cli_musterctl(), {"cert", "show", path}},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *words[] = {cases[i].words[0], cases[i].words[1], cases[i].words[2], NULL};
        CHECK("refused", cli_run(&proc, cases[i].program, words, NULL) != 0);
        CHECK(proc.output, !strchr(proc.output, '\033') && !strstr(proc.output, "\xc2\x9b"));
        CHECK(proc.output, strchr(proc.output, '\n') == proc.output + proc.output_len - 1);
    }
}

TEST(variables_of_other_commands_and_of_tests_are_let_be)
{
    const char *variables[] = {"MUSTER_LOG_LEVEL=debug", "MUSTER_TEST_ANYTHING=1",
                               "MUSTER_FROBNICATE=1", NULL};
    CHECK_I64("a command that reads none looks at none",
              cli_run(&proc, cli_musterctl(), WORDS("version"), variables), 0);
    CHECK_I64("a command that reads some refuses the unknown",
              cli_run(&proc, cli_muster(), WORDS("dev"), variables), 2);
    CHECK_TEXT("only the unknown", proc.output,
               "muster dev: environment MUSTER_FROBNICATE: unknown\n");
}

TEST(settings_that_contradict_each_other_are_refused)
{
    static const struct {
        const char *why, *words[4], *says;
    } cases[] = {
        {"a certificate without a key",
         {"dev", "--tls-cert-file=x.pem"},
         "tls.cert-file and tls.key-file belong together"},
        {"a key without a certificate",
         {"dev", "--tls-key-file=x.pem"},
         "tls.cert-file and tls.key-file belong together"},
        {"plaintext for everybody", {"dev", "--http-listen=0.0.0.0:0"}, "not loopback"},
        {"a Unix socket", {"dev", "--http-listen=unix:/tmp/x"}, "host:port"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_I64(cases[i].why, cli_run(&proc, cli_muster(), cases[i].words, NULL), 2);
        CHECK_HAS(cases[i].why, proc.output, cases[i].says);
    }
}

/* The page in docs/ quotes the reference; the two must not drift apart. */
TEST(the_reference_is_what_the_docs_show)
{
    CHECK_I64("prints", cli_run(&proc, cli_musterctl(), WORDS("config", "reference"), NULL), 0);
    golden_check_quoted("cli/config-reference.toml", str_from(proc.output),
                        "docs/configuration.md");
    const char *reference = cli_path("reference.toml");
    cli_write(reference, proc.output);
    CHECK_I64("it is a good file",
              cli_run(&proc, cli_musterctl(), WORDS("config", "check", reference), NULL), 0);
}

/* -- workers.md 24.12: the part about the two programs -- */

#define BAD_WORKERS                                                                                \
    "run_id = '01JFEAVS7C5DE5XEAEAB91EBT5'\n[storage]\npath = '%s/x.db'\n[transport]\n"            \
    "tls_dir = '%s/tls'\nworker_self_fence_timeout = '6s'\nclock_skew_budget = '2s'\n"

TEST(cases_181_188_all_violations_are_reported_and_nothing_is_created)
{
    char text[4096], data[1024], made[1100];
    const char *file = cli_path("workers.toml");
    static const char *const left[] = {"", "/tls", "/x.db"};

    snprintf(data, sizeof data, "%s", cli_path("workers-data"));
    snprintf(text, sizeof text, BAD_WORKERS, data, data);
    cli_write(file, text);
    CHECK_I64("refused",
              cli_run(&proc, cli_muster(),
                      WORDS("coordinator", "run", "--config", file, "--data-dir", data), NULL),
              2);
    CHECK_HAS("one", proc.output, "split-brain prevention");
    CHECK_HAS("both", proc.output, "transport.clock_skew_budget 2s");
    for (size_t i = 0; i < ARRAY_LEN(left); i++) {
        snprintf(made, sizeof made, "%s%s", data, left[i]);
        CHECK(made, access(made, F_OK) != 0);
    }
    CHECK_I64("config check asks the same",
              cli_run(&proc, cli_musterctl(),
                      WORDS("config", "check", "--role", "coordinator", file), NULL),
              2);
    CHECK_HAS("one", proc.output, "split-brain prevention");
    CHECK_HAS("both", proc.output, "transport.clock_skew_budget 2s");
}

TEST(case_170_a_missing_file_is_named)
{
    CHECK_I64("refused",
              cli_run(&proc, cli_muster(), WORDS("coordinator", "run", "--config", "/no/such.toml"),
                      NULL),
              2);
    CHECK_HAS("which", proc.output, "/no/such.toml");
}

TEST(the_reference_of_a_role_with_workers_is_a_good_file)
{
    const char *reference = cli_path("coordinator.toml");

    CHECK_I64("prints",
              cli_run(&proc, cli_musterctl(), WORDS("config", "reference", "--role", "coordinator"),
                      NULL),
              0);
    cli_write(reference, proc.output);
    CHECK_I64("good",
              cli_run(&proc, cli_musterctl(),
                      WORDS("config", "check", "--role", "coordinator", reference), NULL),
              0);
}
