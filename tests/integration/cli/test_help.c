/* SPDX-License-Identifier: Apache-2.0 */
/* Help, version, completion and wrong command lines of both programs. */
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "common/tables.h"
#include "common/version.h"
#include "lib/golden.h"
#include "lib/option_table.h"

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

enum { COMMANDS_MAX = 256, NAME_CAP = 32 };
/* Every command, as the help of both programs lists them. */
static struct command_line {
    const char *program, *words[3]; /* ends with NULL */
    char names[2][NAME_CAP];
} commands[COMMANDS_MAX];
static size_t command_count;

static const char *program_of(const char *name)
{
    return strcmp(name, "muster") == 0 ? cli_muster() : cli_musterctl();
}

static void commands_add(const char *program, const char *group, struct str name)
{
    struct command_line *one = &commands[command_count];
    size_t at = 0;

    CHECK("COMMANDS_MAX", command_count < COMMANDS_MAX);
    one->program = program;
    if (group) one->words[at++] = group;
    if (name.len) {
        snprintf(one->names[at], NAME_CAP, "%.*s", STR_ARG(name));
        one->words[at] = one->names[at];
    }
    command_count++;
}

static void commands_find_below(const char *program, const char *group)
{
    struct str rest, line;
    bool listed = false;

    CHECK_I64("help", cli_run(&proc, program_of(program), WORDS("help", group), NULL), 0);
    rest = str_from(proc.output);
    while (str_split(&rest, '\n', &line)) {
        if (str_equal(line, STR("Commands:")))
            listed = true;
        else if (line.len == 0)
            listed = false;
        else if (listed && str_starts(line, STR("  ")))
            commands_add(program, group, str_of(line.at + 2, str_find(str_tail(line, 2), ' ')));
    }
}

static void commands_find(void)
{
    static const char *const programs[] = {"muster", "musterctl"};

    if (command_count) return;
    for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
        size_t first, end;
        commands_add(programs[i], NULL, STR_EMPTY);
        first = command_count;
        commands_find_below(programs[i], NULL);
        end = command_count;
        for (size_t k = first; k < end; k++) commands_find_below(programs[i], commands[k].words[0]);
    }
}

TEST(help_is_what_the_transcript_says_and_the_same_however_asked_for)
{
    commands_find();
    for (size_t i = 0; i < command_count; i++) {
        const char *program = program_of(commands[i].program), *const *words = commands[i].words;
        char golden[128];
        static char first[PROC_OUTPUT_CAP];
        const char *asked[] = {words[0], words[0] ? words[1] : NULL, NULL, NULL};
        size_t count = words[0] ? (words[1] ? 2 : 1) : 0;

        asked[count] = "--help";
        CHECK_I64("--help is not a mistake", cli_run(&proc, program, asked, NULL), 0);
        snprintf(golden, sizeof golden, "cli/help-%s%s%s%s%s.txt", commands[i].program,
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

TEST(each_transcript_of_help_has_its_command)
{
    char pattern[4096];
    glob_t found;

    commands_find();
    snprintf(pattern, sizeof pattern, "%s/tests/golden/cli/help-*.txt", cli_source());
    CHECK_I64(pattern, glob(pattern, 0, NULL, &found), 0);
    CHECK_SIZE("a transcript for each command; delete that of a command that is gone",
               found.gl_pathc, command_count);
    globfree(&found);
}

/* Every command of musterctl without any argument, against a coordinator that is not there: it
 * succeeds or exits with a documented code, and never aborts. The cert commands would write
 * files. */
TEST(no_command_aborts_when_its_arguments_are_left_out)
{
    static const char *const variables[] = {"MUSTER_COORDINATOR=127.0.0.1:1", "MUSTER_TIMEOUT=1s",
                                            NULL};

    commands_find();
    for (size_t i = 0; i < command_count; i++) {
        const char *const *words = commands[i].words;
        int code;
        if (strcmp(commands[i].program, "musterctl") != 0 || !words[0] ||
            strcmp(words[0], "cert") == 0)
            continue;
        code = cli_run(&proc, cli_musterctl(), WORDS(words[0], words[1]), variables);
        CHECK(proc.output, code >= 0 && code <= 6);
    }
}

TEST(no_help_line_is_wider_than_a_terminal)
{
    commands_find();
    for (size_t i = 0; i < command_count; i++) {
        const char *const *words = commands[i].words;
        struct str rest, line;

        CHECK_I64("help",
                  cli_run(&proc, program_of(commands[i].program),
                          WORDS("help", words[0], words[0] ? words[1] : NULL), NULL),
                  0);
        CHECK("no colour and no other escapes", !strchr(proc.output, '\033'));
        rest = str_from(proc.output);
        while (str_split(&rest, '\n', &line)) {
            char why[512];
            snprintf(why, sizeof why, "%s help %s: at most 100 columns, shorten: %.*s",
                     commands[i].program, words[0] ? words[0] : "", STR_ARG(line));
            CHECK(why, line.len <= 100);
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
    CHECK_HAS("the loaded version", note.text, "libraft 0.15.0 is loaded");
    CHECK_HAS("the right version", note.text, "0.22.1");
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
    {"an option without a command",
     "muster",
     {"--config", "dev"},
     2,
     "--config: no command is given; see muster --help"},
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

/* bash itself must load the script, and complete with it. */
TEST(the_completion_script_completes)
{
    static const struct {
        const char *why, *line, *want;
    } cases[] = {
        {"musterctl's commands", "COMP_WORDS=(musterctl s); COMP_CWORD=1",
         "shard\nstore\nsnapshot\n"},
        {"a command of a group", "COMP_WORDS=(musterctl replica t); COMP_CWORD=2", "transfer\n"},
        {"a choice after a letter", "COMP_WORDS=(musterctl shard list -o j); COMP_CWORD=4",
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
