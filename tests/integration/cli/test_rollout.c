/* SPDX-License-Identifier: Apache-2.0 */
/* The names and the hidden commands of the programs we replace (workers.md 15, 24.11). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define RUN "01JFEAVS7C5DE5XEAEAB91EBT5"
static struct proc proc;

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) count++;
    return count;
}

TEST(case_168_help_names_the_configuration)
{
    CHECK_I64("coordinator",
              cli_run(&proc, cli_muster(), WORDS("coordinator", "run", "--help"), NULL), 0);
    CHECK_HAS("its file", proc.output, "--config");
    CHECK_I64("worker", cli_run(&proc, cli_muster(), WORDS("worker", "run", "--help"), NULL), 0);
    CHECK_HAS("its file", proc.output, "--config");
    CHECK_HAS("and plugins", proc.output, "--plugin");
    CHECK_I64("group", cli_run(&proc, cli_muster(), WORDS("coordinator", "--help"), NULL), 0);
    CHECK_HAS("run", proc.output, "run");
}

TEST(case_172_test_fence_prints_one_event_and_is_killed_by_signal_6)
{
    CHECK_I64("killed", cli_run(&proc, cli_muster(), WORDS("test-fence", "0", "1"), NULL), -1);
    CHECK_I64("by an abort", proc_exit_signal(&proc), SIGABRT);
    CHECK_SIZE("one event", count_of(proc.output, "\"topic\":\"coordinator_fenced\""), 1);
    CHECK_HAS("epochs", proc.output, "\"attrs\":{\"observed_epoch\":1,\"stale_epoch\":0}");
    CHECK_HAS("in words", proc.output, "\"message\":\"stale_epoch=0 < observed_epoch=1\"");
    CHECK_I64("no epoch", cli_run(&proc, cli_muster(), WORDS("test-fence", "x", "1"), NULL), 2);
}

TEST(case_173_mock_run_dispatches_completes_and_steals)
{
    const char *storage = cli_path("mock.db");

    CHECK_I64("ends well",
              cli_run(&proc, cli_muster(), WORDS("mock-run", "--storage", storage, "--run-id", RUN),
                      NULL),
              0);
    CHECK_SIZE("dispatched", count_of(proc.output, "work_dispatched"), 8);
    CHECK_SIZE("completed", count_of(proc.output, "work_completed"), 8);
    CHECK_SIZE("stolen", count_of(proc.output, "work_stolen"), 2);
    CHECK_SIZE("the end, once", count_of(proc.output, "run_done"), 1);
    CHECK_HAS("its numbers", proc.output, "\"attrs\":{\"done\":8,\"items\":8,\"stolen\":2}");
    CHECK_HAS("of the run", proc.output, "\"run_id\":\"" RUN "\"");
    CHECK("its rows", access(storage, F_OK) == 0);
    CHECK_I64("one worker steals from nobody",
              cli_run(&proc, cli_muster(),
                      WORDS("mock-run", "--storage", storage, "--run-id", RUN, "--workers", "1"),
                      NULL),
              0);
    CHECK_HAS("its numbers", proc.output, "\"attrs\":{\"done\":8,\"items\":8,\"stolen\":0}");
    CHECK_I64("no ULID",
              cli_run(&proc, cli_muster(),
                      WORDS("mock-run", "--storage", storage, "--run-id", "nope"), NULL),
              2);
    CHECK_HAS("named", proc.output, "--run-id");
}

TEST(hidden_commands_are_in_no_list)
{
    CHECK_I64("help", cli_run(&proc, cli_muster(), WORDS("--help"), NULL), 0);
    CHECK("not there", !strstr(proc.output, "test-fence") && !strstr(proc.output, "mock-run"));
    CHECK_I64("completion", cli_run(&proc, cli_muster(), WORDS("completion", "bash"), NULL), 0);
    CHECK_SIZE("nor offered", count_of(proc.output, "sim test-fence"), 0);
}

/* A link of another name to one of the programs. */
static const char *linked(const char *program, const char *name)
{
    const char *path = cli_path(name);
    CHECK("linked", symlink(program, path) == 0);
    return path;
}

TEST(the_programs_answer_to_the_names_of_those_they_replace)
{
    const char *rollout = linked(cli_muster(), "rollout");
    const char *alone = linked(cli_muster(), "rollout-coordinator");
    const char *ripple = linked(cli_musterctl(), "ripple-cli");

    CHECK_I64("rollout coordinator run",
              cli_run(&proc, rollout, WORDS("coordinator", "run", "--config", "/no/such"), NULL),
              2);
    CHECK_HAS("170: the path", proc.output, "/no/such");
    CHECK_I64("rollout-coordinator run",
              cli_run(&proc, alone, WORDS("run", "--config", "/no/such"), NULL), 2);
    CHECK_HAS("170: the path", proc.output, "/no/such");
    CHECK_I64("169: without a file it says which flag is missing",
              cli_run(&proc, alone, WORDS("run"), NULL), 2);
    CHECK_HAS("169: the flag", proc.output, "--config");
    CHECK_I64("169: the same by the other name",
              cli_run(&proc, rollout, WORDS("coordinator", "run"), NULL), 2);
    CHECK_HAS("169: the flag", proc.output, "--config");
    CHECK_I64("ripple-cli status, and nobody there",
              cli_run(&proc, ripple, WORDS("status", "--coordinator", "127.0.0.1:1"), NULL), 2);
}
