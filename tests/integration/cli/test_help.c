/* SPDX-License-Identifier: Apache-2.0 */
/* Help, version, completion and wrong command lines of both programs. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "common/tables.h"
#include "common/version.h"
#include "lib/golden.h"

static struct proc proc;

TEST(every_option_table_is_valid)
{
    for (size_t i = 0; all_tables[i]; i++) {
        struct note note = {""};
        CHECK(note.text, option_table_valid(all_tables[i], &note));
    }
}

/* A role checks all files that its options name before it makes anything (cmd/common/files.c). */
TEST(every_option_that_names_a_file_says_how_it_is_checked)
{
    for (size_t i = 0; roles[i]; i++) {
        for (size_t k = 0; k < roles[i]->table->count; k++) {
            const struct option *option = &roles[i]->table->options[k];
            struct str placeholder = str_from(option_placeholder(option));
            bool names_file =
                str_starts(placeholder, STR("FILE")) || str_starts(placeholder, STR("MANIFEST"));
            CHECK(option->name, names_file == (option->file != OPTION_FILE_NONE));
        }
    }
}

/* The commands as people type them; the transcript is named after the words. */
static const char *const commands[][4] = {
    {"muster"},
    {"muster", "dev"},
    {"muster", "check"},
    {"muster", "coordinator"},
    {"muster", "coordinator", "run"},
    {"muster", "coordinator", "force-config"},
    {"muster", "coordinator", "rejoin"},
    {"muster", "coordinator", "restore"},
    {"muster", "coordinator", "ledger"},
    {"muster", "shard"},
    {"muster", "shard", "run"},
    {"muster", "shard", "set-epoch"},
    {"muster", "provider"},
    {"muster", "provider", "run"},
    {"muster", "operator"},
    {"muster", "operator", "run"},
    {"muster", "worker"},
    {"muster", "worker", "run"},
    {"muster", "plan"},
    {"muster", "completion"},
    {"muster", "completion", "bash"},
    {"muster", "completion", "zsh"},
    {"muster", "completion", "fish"},
    {"muster", "version"},
    {"musterctl"},
    {"musterctl", "top"},
    {"musterctl", "explain"},
    {"musterctl", "explain", "need"},
    {"musterctl", "explain", "machine"},
    {"musterctl", "explain", "worker"},
    {"musterctl", "doctor"},
    {"musterctl", "list-shards"},
    {"musterctl", "list-domain-assignments"},
    {"musterctl", "list-quotas"},
    {"musterctl", "list-providers"},
    {"musterctl", "list-clusters"},
    {"musterctl", "list-leaving-domains"},
    {"musterctl", "list-shard-reports"},
    {"musterctl", "needs"},
    {"musterctl", "assign-domain"},
    {"musterctl", "unassign-domain"},
    {"musterctl", "add-shard"},
    {"musterctl", "remove-shard"},
    {"musterctl", "bind-cluster"},
    {"musterctl", "set-quota"},
    {"musterctl", "upsert-provider"},
    {"musterctl", "instruction"},
    {"musterctl", "instruction", "list"},
    {"musterctl", "instruction", "queue"},
    {"musterctl", "replica"},
    {"musterctl", "replica", "list"},
    {"musterctl", "replica", "add"},
    {"musterctl", "replica", "remove"},
    {"musterctl", "replica", "transfer"},
    {"musterctl", "replica", "bootstrap"},
    {"musterctl", "state-hash"},
    {"musterctl", "provider"},
    {"musterctl", "provider", "verify"},
    {"musterctl", "status"},
    {"musterctl", "workers"},
    {"musterctl", "partitions"},
    {"musterctl", "assignment"},
    {"musterctl", "checkpoints"},
    {"musterctl", "work"},
    {"musterctl", "drain"},
    {"musterctl", "evict"},
    {"musterctl", "release-hold"},
    {"musterctl", "checkpoint"},
    {"musterctl", "checkpoint", "now"},
    {"musterctl", "backup"},
    {"musterctl", "restore"},
    {"musterctl", "snapshot"},
    {"musterctl", "snapshot", "save"},
    {"musterctl", "snapshot", "restore"},
    {"musterctl", "auth"},
    {"musterctl", "auth", "table"},
    {"musterctl", "coord"},
    {"musterctl", "coord", "exec"},
    {"musterctl", "coord", "create"},
    {"musterctl", "coord", "cas"},
    {"musterctl", "coord", "get"},
    {"musterctl", "coord", "delete"},
    {"musterctl", "coord", "acquire"},
    {"musterctl", "coord", "renew"},
    {"musterctl", "coord", "release"},
    {"musterctl", "coord", "holders"},
    {"musterctl", "coord", "resize"},
    {"musterctl", "coord", "watch"},
    {"musterctl", "coord", "caps"},
    {"musterctl", "store"},
    {"musterctl", "store", "get"},
    {"musterctl", "store", "put"},
    {"musterctl", "store", "del"},
    {"musterctl", "store", "ls"},
    {"musterctl", "store", "watch"},
    {"musterctl", "store", "compact"},
    {"musterctl", "store", "status"},
    {"musterctl", "store", "import"},
    {"musterctl", "store", "export"},
    {"musterctl", "cert"},
    {"musterctl", "cert", "ca"},
    {"musterctl", "cert", "issue"},
    {"musterctl", "cert", "show"},
    {"musterctl", "cert", "renew"},
    {"musterctl", "cert", "rotate"},
    {"musterctl", "cert", "retire"},
    {"musterctl", "config"},
    {"musterctl", "config", "check"},
    {"musterctl", "config", "reference"},
};

static const char *program_of(const char *name)
{
    return strcmp(name, "muster") == 0 ? cli_muster() : cli_musterctl();
}

TEST(help_is_what_the_transcript_says_and_the_same_however_asked_for)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const char *program = program_of(commands[i][0]), *const *words = commands[i] + 1;
        char golden[128];
        static char first[PROC_OUTPUT_CAP];
        const char *asked[] = {words[0], words[0] ? words[1] : NULL, NULL, NULL};
        size_t count = words[0] ? (words[1] ? 2 : 1) : 0;

        asked[count] = "--help";
        CHECK_I64("--help is not a mistake", cli_run(&proc, program, asked, NULL), 0);
        snprintf(golden, sizeof golden, "cli/help-%s%s%s%s%s.txt", commands[i][0],
                 count > 0 ? "-" : "", count > 0 ? words[0] : "", count > 1 ? "-" : "",
                 count > 1 ? words[1] : "");
        golden_check(golden, str_from(proc.output));
        snprintf(first, sizeof first, "%s", proc.output);
        CHECK_I64(
            "help COMMAND",
            cli_run(&proc, program, WORDS("help", words[0], words[0] ? words[1] : NULL), NULL), 0);
        CHECK_TEXT("the same text", proc.output, first);
        asked[count] = "-h";
        CHECK_I64("-h", cli_run(&proc, program, asked, NULL), 0);
        CHECK_TEXT("the same text", proc.output, first);
    }
}

/* Every command of musterctl without any argument, against a coordinator that is not there: it
 * succeeds or exits with a documented code, and never aborts. The cert commands would write
 * files. */
TEST(no_command_aborts_when_its_arguments_are_left_out)
{
    static const char *const variables[] = {"MUSTER_COORDINATOR=127.0.0.1:1", "MUSTER_TIMEOUT=1s",
                                            NULL};

    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const char *const *words = commands[i] + 1;
        int code;
        if (strcmp(commands[i][0], "musterctl") != 0 || !words[0] || strcmp(words[0], "cert") == 0)
            continue;
        code = cli_run(&proc, cli_musterctl(), WORDS(words[0], words[1]), variables);
        CHECK(proc.output, code >= 0 && code <= 6);
    }
}

TEST(no_help_line_is_wider_than_a_terminal)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        const char *const *words = commands[i] + 1;
        CHECK_I64("help",
                  cli_run(&proc, program_of(commands[i][0]),
                          WORDS("help", words[0], words[0] ? words[1] : NULL), NULL),
                  0);
        size_t column = 0;
        for (const char *c = proc.output; *c; c++) {
            column = *c == '\n' ? 0 : column + 1;
            CHECK(proc.output, column <= 100);
            CHECK("no colour and no other escapes", *c != '\033');
        }
    }
}

TEST(the_version_names_commit_compiler_and_engines)
{
    static char first[PROC_OUTPUT_CAP];
    CHECK_I64("--version", cli_run(&proc, cli_muster(), WORDS("--version"), NULL), 0);
    CHECK_HAS("version", proc.output, version_number());
    CHECK_HAS("commit", proc.output, " (commit ");
    CHECK("compiler", strstr(proc.output, ", gcc ") || strstr(proc.output, ", clang "));
    CHECK_HAS("libuv", proc.output, "\nlibuv 1.");
    CHECK_HAS("OpenSSL", proc.output, "\nOpenSSL 3.");
    CHECK_HAS("jansson", proc.output, "\njansson 2.");
    CHECK_HAS("nghttp2, linked in", proc.output, "\nnghttp2 1.");
    CHECK_HAS("protobuf-c, linked in", proc.output, "\nprotobuf-c 1.");
    CHECK_HAS("libraft, the only one we simulated", proc.output, "\nlibraft 0.22.1\n");
    snprintf(first, sizeof first, "%s", proc.output);
    CHECK_I64("as a command", cli_run(&proc, cli_muster(), WORDS("version"), NULL), 0);
    CHECK_TEXT("the same", proc.output, first);
    CHECK_I64("musterctl", cli_run(&proc, cli_musterctl(), WORDS("--version"), NULL), 0);
    CHECK_HAS("its own name", proc.output, "musterctl ");
}

TEST(another_libraft_is_refused)
{
    struct note note = {""};
    CHECK_OK("the one", version_check_raft(2201, &note));
    CHECK_ERR("Debian 12's own", version_check_raft(1500, &note), ERR_VERSION);
    CHECK_HAS("what is loaded", note.text, "libraft 0.15.0 is loaded");
    CHECK_HAS("what would be right", note.text, "0.22.1");
    CHECK_I64("and it ends with 1", err_exit_code(ERR_VERSION), 1);
    CHECK_ERR("a newer one too", version_check_raft(2202, &note), ERR_VERSION);
}

static const struct {
    const char *why, *program, *words[4];
    int code;
    const char *says;
} wrong[] = {
    {"nothing", "muster", {NULL}, 2, "Usage: muster COMMAND"},
    {"a group alone", "musterctl", {"cert"}, 2, "Usage: musterctl cert COMMAND"},
    {"a slip",
     "muster",
     {"dve"},
     2,
     "muster: unknown command 'dve' (did you mean 'dev'?); see muster --help\n"},
    {"the simulator",
     "muster",
     {"sim", "log"},
     2,
     "muster: the simulator is a program of its own: muster-sim"},
    {"a role that is none", "muster", {"janitor"}, 2, "muster: unknown command 'janitor'; see"},
    {"an option too early",
     "muster",
     {"--config", "x", "dev"},
     2,
     "--config: options come after the command"},
    {"a misspelt option",
     "muster",
     {"dev", "--http-lsiten=x:1"},
     2,
     "muster dev: --http-lsiten: unknown option (did you mean --http-listen?)\n"},
    {"an argument too many",
     "muster",
     {"dev", "now"},
     2,
     "muster dev: takes no arguments; see muster dev --help\n"},
    {"an argument missing",
     "musterctl",
     {"cert", "show"},
     2,
     "musterctl cert show: FILE... is needed; see musterctl cert show --help\n"},
    {"an option of nothing",
     "muster",
     {"version", "--json"},
     2,
     "muster version: --json: unknown option\n"},
};
TEST(a_wrong_command_line_ends_with_2_and_says_what_would_be_right)
{
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        CHECK_I64(wrong[i].why, cli_run(&proc, program_of(wrong[i].program), wrong[i].words, NULL),
                  wrong[i].code);
        CHECK_HAS(wrong[i].why, proc.output, wrong[i].says);
    }
}

/* bash itself is the judge: the script must load, and complete. */
TEST(the_completion_script_completes)
{
    static const struct {
        const char *why, *line, *want;
    } cases[] = {
        {"musterctl's commands", "COMP_WORDS=(musterctl list-sha); COMP_CWORD=1",
         "list-shards\nlist-shard-reports\n"},
        {"a command of a group", "COMP_WORDS=(musterctl replica t); COMP_CWORD=2", "transfer\n"},
        {"a choice after a letter", "COMP_WORDS=(musterctl list-shards -o j); COMP_CWORD=3",
         "json\n"},
        {"a command", "COMP_WORDS=(muster de); COMP_CWORD=1", "dev\n"},
        {"an option", "COMP_WORDS=(muster dev --http-l); COMP_CWORD=2",
         "--http-listen\n--http-live-every\n"},
        {"a negated option", "COMP_WORDS=(muster dev --no-i); COMP_CWORD=2", "--no-insecure\n"},
        {"a choice", "COMP_WORDS=(muster dev --log-level w); COMP_CWORD=3", "warn\n"},
        {"nothing", "COMP_WORDS=(muster dev --frob); COMP_CWORD=2", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char script[4096];
        bool ctl = strstr(cases[i].line, "(musterctl ") != NULL;
        snprintf(script, sizeof script,
                 "set -u; source <('%s' completion bash) && %s && _%s_complete && "
                 "for word in \"${COMPREPLY[@]}\"; do echo \"$word\"; done",
                 ctl ? cli_musterctl() : cli_muster(), cases[i].line, ctl ? "musterctl" : "muster");
        CHECK_I64(cases[i].why, cli_run(&proc, "bash", WORDS("--norc", "-c", script), NULL), 0);
        CHECK_TEXT(cases[i].why, proc.output, cases[i].want);
    }
}

TEST(a_reader_that_went_away_is_a_failure_not_a_success)
{
    char script[4096];
    snprintf(script, sizeof script, "'%s' --help > /dev/full; echo \"code $?\"", cli_muster());
    CHECK_I64("runs", cli_run(&proc, "sh", WORDS("-c", script), NULL), 0);
    CHECK_HAS("could not print", proc.output, "code 1\n");
    CHECK_HAS("and says so", proc.output, "cannot write to standard output: No space left");
    snprintf(script, sizeof script, "'%s' --version > /dev/full; echo \"code $?\"", cli_muster());
    CHECK_I64("runs", cli_run(&proc, "sh", WORDS("-c", script), NULL), 0);
    CHECK_HAS("could not print", proc.output, "code 1\n");
    CHECK_HAS("and says so", proc.output, "cannot write to standard output: No space left");
}
