/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/command.h"

#include "lib/test.h"
#include "table.h"

static int run_nothing(void *context, const struct command_call *call)
{
    (void)context;
    (void)call;
    return 0;
}

static const struct command_example issue_examples[] = {
    {"tool cert issue replica --name n1", "a certificate for one replica"}, {NULL, NULL}};
static const struct command issue = {.name = "issue",
                                     .summary = "make a certificate",
                                     .about = "Makes one. Asking twice changes nothing.",
                                     .options = &test_table,
                                     .arguments = "KIND [ID]",
                                     .arguments_min = 1,
                                     .arguments_max = 2,
                                     .examples = issue_examples,
                                     .exits = BIT(4),
                                     .run = run_nothing};
static const struct command show = {.name = "show-cert",
                                    .verb = "show",
                                    .summary = "show one",
                                    .about = "Shows one.",
                                    .run = run_nothing};
static const struct command *const cert_children[] = {&issue, &show, NULL};
static const struct command cert = {.name = "cert",
                                    .summary = "certificates",
                                    .about = "A small authority.",
                                    .verbs = true,
                                    .children = cert_children};
static const struct command dev = {.name = "dev",
                                   .summary = "try it out",
                                   .about = "Starts it.",
                                   .options = &test_table,
                                   .run = run_nothing};
static const struct command *const program_children[] = {&dev, &cert, NULL};
static const struct command program = {
    .name = "tool", .summary = "a tool", .about = "It does things.", .children = program_children};

static const struct command_word other_words[] = {
    {"get", '~', "show"},
    {"describe", '~', "explain"},
    {"describe", '~', "show"},
    {"pki", '~', "cert"},
    {"sign node", '=', "cert issue"},
    {"try", '=', "dev"},
    {"options", '=', ""},
    {"-A", '=', ""},
    {"logs", '!', "write to a file: tool dev"},
    {"get", '!', "nouns are cert"},
    {"revoke cert", '!', "wait until it ends: tool cert show"},
    {"-L", '!', "choose by name: tool cert show"},
    {NULL, 0, NULL}};
static const struct command with_synonyms = {.name = "tool",
                                             .summary = "a tool",
                                             .about = "It does things.",
                                             .words = other_words,
                                             .children = program_children};

static enum err resolve_in(const struct command *tree, const char *const *words,
                           struct command_call *ret_call, struct note *note)
{
    static const char *copy[16]; /* that is put in order */
    size_t count = 0;
    for (; words[count]; count++) copy[count] = words[count];
    return command_resolve(tree, count, copy, ret_call, note);
}

static enum err resolve(const char *const *words, struct command_call *ret_call, struct note *note)
{
    return resolve_in(&program, words, ret_call, note);
}

static const struct {
    const char *why, *words[6];
    enum command_wish wish;
    const char *path;
    size_t rest;
} found[] = {
    {"a command", {"dev"}, COMMAND_RUN, "tool dev", 0},
    {"with options", {"dev", "--name", "x"}, COMMAND_RUN, "tool dev", 2},
    {"a command in a group", {"cert", "issue", "replica"}, COMMAND_RUN, "tool cert issue", 1},
    {"help of the program", {"--help"}, COMMAND_HELP, "tool", 1},
    {"short help", {"-h"}, COMMAND_HELP, "tool", 1},
    {"help of a group", {"cert", "--help"}, COMMAND_HELP, "tool cert", 1},
    {"help beats other mistakes", {"dev", "--nmae", "x", "--help"}, COMMAND_HELP, "tool dev", 3},
    {"after -- it is an argument", {"dev", "--", "--help"}, COMMAND_RUN, "tool dev", 2},
    {"help as a word", {"help"}, COMMAND_HELP, "tool", 0},
    {"help as a word, of a command", {"help", "cert", "issue"}, COMMAND_HELP, "tool cert issue", 0},
    {"the version", {"--version"}, COMMAND_VERSION, "tool", 1},
    {"nothing at all", {NULL}, COMMAND_MISSING, "tool", 0},
    {"a group alone", {"cert"}, COMMAND_MISSING, "tool cert", 0},
    {"an option before the command", {"--name", "x", "dev"}, COMMAND_RUN, "tool dev", 2},
    {"with its value behind =", {"--name=x", "dev", "--name=y"}, COMMAND_RUN, "tool dev", 2},
    {"between its words",
     {"cert", "--name", "x", "issue", "n1"},
     COMMAND_RUN,
     "tool cert issue",
     3},
    {"a flat name", {"show-cert"}, COMMAND_RUN, "tool cert show", 0},
};
TEST(a_command_line_names_a_command)
{
    for (size_t i = 0; i < ARRAY_LEN(found); i++) {
        struct command_call call;
        char path[COMMAND_PATH_CAP];
        CHECK_OK(found[i].why, resolve(found[i].words, &call, NULL));
        command_path_text(&call, path);
        CHECK_TEXT(found[i].why, path, found[i].path);
        CHECK_U64(found[i].why, call.wish, found[i].wish);
        CHECK_SIZE(found[i].why, call.rest_count, found[i].rest);
    }
}

static const struct {
    const char *why, *words[4], *want;
} refused[] = {
    {"a slip", {"dve"}, "unknown command 'dve' (did you mean 'dev'?); see tool --help"},
    {"a slip in a group",
     {"cert", "isue"},
     "unknown command 'isue' (did you mean 'issue'?); see tool cert --help"},
    {"nothing near", {"frobnicate"}, "unknown command 'frobnicate'; see tool --help"},
    {"a slip after help",
     {"help", "cret"},
     "unknown command 'cret' (did you mean 'cert'?); see tool --help"},
    {"the verb first",
     {"show", "certs"},
     "unknown command 'show certs' (did you mean 'cert show'?)"},
    {"another verb first",
     {"get", "cert"},
     "unknown command 'get cert' (did you mean 'cert issue'?)"},
    {"an option without a command",
     {"--name", "dev"},
     "--name: no command is given; see tool --help"},
    {"the version belongs to the program",
     {"cert", "--version"},
     "--version: no command is given; see tool cert --help"},
};
TEST(an_unknown_command_is_refused_with_the_nearest)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct command_call call = {.depth = 77};
        struct note note = {""};
        CHECK_ERR(refused[i].why, resolve(refused[i].words, &call, &note), ERR_INVALID);
        CHECK_TEXT(refused[i].why, note.text, refused[i].want);
        CHECK_SIZE("the output is untouched", call.depth, 77);
    }
}

static const struct {
    const char *why, *words[6], *path;
    size_t rest;
} guessed[] = {
    {"verb and plural", {"get", "certs", "a"}, "tool cert show", 1},
    {"verb and noun, options between", {"get", "--name", "x", "cert"}, "tool cert show", 2},
    {"plural and verb", {"certs", "show"}, "tool cert show", 0},
    {"a synonym of a noun", {"issue", "pki", "replica"}, "tool cert issue", 1},
    {"the second name of a synonym", {"describe", "cert"}, "tool cert show", 0},
    {"a synonym in a group", {"cert", "get"}, "tool cert show", 0},
    {"an old name with an argument like a group", {"show-cert", "cert"}, "tool cert show", 1},
    {"a noun with a name", {"get", "cert/a"}, "tool cert show", 1},
    {"two words of another tool", {"sign", "node", "a"}, "tool cert issue", 1},
    {"in the other order, in the plural", {"nodes", "sign"}, "tool cert issue", 0},
    {"with a name", {"sign", "node/a", "b"}, "tool cert issue", 2},
    {"one word of another tool", {"try", "--name", "x"}, "tool dev", 2},
    {"an option that changes nothing", {"-A", "dev", "--name", "x"}, "tool dev", 2},
    {"not after --", {"dev", "--", "-A"}, "tool dev", 2},
};
TEST(a_program_with_synonyms_accepts_other_words_and_orders)
{
    for (size_t i = 0; i < ARRAY_LEN(guessed); i++) {
        struct command_call call;
        struct note note = {""};
        char path[COMMAND_PATH_CAP];
        CHECK_OK(guessed[i].why, resolve_in(&with_synonyms, guessed[i].words, &call, &note));
        command_path_text(&call, path);
        CHECK_TEXT(guessed[i].why, path, guessed[i].path);
        CHECK_SIZE(guessed[i].why, call.rest_count, guessed[i].rest);
    }
}

static const struct {
    const char *why, *words[4], *want;
} advised[] = {
    {"a word", {"logs", "x"}, "no command 'logs'; write to a file: tool dev"},
    {"a word in a group", {"cert", "logs"}, "no command 'cert logs'; write to a file: tool dev"},
    {"two words",
     {"revoke", "certs", "a"},
     "no command 'revoke cert'; wait until it ends: tool cert show"},
    {"a noun", {"get", "foos"}, "unknown noun 'foos' after 'get'; nouns are cert"},
    {"an option in its place", {"get", "--name"}, "no command 'get'; nouns are cert"},
    {"an option", {"dev", "-L", "a=b"}, "no option -L of 'dev'; choose by name: tool cert show"},
    {"an option with its value",
     {"dev", "-L=a"},
     "no option -L of 'dev'; choose by name: tool cert show"},
};
TEST(words_of_another_tool_get_advice)
{
    for (size_t i = 0; i < ARRAY_LEN(advised); i++) {
        struct command_call call;
        struct note note = {""};
        CHECK_ERR(advised[i].why, resolve_in(&with_synonyms, advised[i].words, &call, &note),
                  ERR_INVALID);
        CHECK_TEXT(advised[i].why, note.text, advised[i].want);
    }
}

TEST(a_word_may_show_the_help_and_an_option_its_own_value)
{
    struct command_call call;
    CHECK_OK("resolve",
             resolve_in(&with_synonyms, (const char *const[]){"options", NULL}, &call, NULL));
    CHECK_U64("help", call.wish, COMMAND_HELP);
    CHECK_SIZE("of the program", call.depth, 1);
    CHECK_OK("resolve",
             resolve_in(&with_synonyms, (const char *const[]){"dev", "--name", "-L", NULL}, &call,
                        NULL));
    CHECK_SIZE("a value is no option", call.rest_count, 2);
    CHECK_OK("resolve", resolve((const char *const[]){"show-cert", NULL}, &call, NULL));
    CHECK("by its flat name", call.flat);
    CHECK_OK("resolve", resolve((const char *const[]){"cert", "show", NULL}, &call, NULL));
    CHECK("by its verb", !call.flat);
}

TEST(an_unknown_verb_lists_those_of_its_group)
{
    struct command_call call;
    struct note note = {""};
    CHECK_ERR(
        "noun",
        resolve_in(&with_synonyms, (const char *const[]){"describe", "foos", NULL}, &call, &note),
        ERR_INVALID);
    CHECK_TEXT("names it", note.text, "unknown noun 'foos' after 'describe'; see tool --help");
    CHECK_ERR("verb", resolve((const char *const[]){"cert", "frobnicate", NULL}, &call, &note),
              ERR_INVALID);
    CHECK_TEXT("verbs", note.text, "unknown command 'frobnicate': tool cert has issue, show");
}

TEST(the_number_of_arguments_is_checked)
{
    struct command_call call;
    struct note note = {""};
    CHECK_OK("resolve", resolve((const char *const[]){"cert", "issue", NULL}, &call, NULL));
    CHECK_ERR("none", command_check_arguments(&call, 0, &note), ERR_INVALID);
    CHECK_TEXT("names the word", note.text, "KIND [ID] is needed; see tool cert issue --help");
    CHECK_OK("one", command_check_arguments(&call, 1, &note));
    CHECK_OK("two", command_check_arguments(&call, 2, &note));
    CHECK_ERR("three", command_check_arguments(&call, 3, &note), ERR_INVALID);
    CHECK_TEXT("the message", note.text,
               "too many arguments for 'KIND [ID]'; see tool cert issue --help");
    CHECK_OK("resolve", resolve((const char *const[]){"dev", NULL}, &call, NULL));
    CHECK_ERR("none wanted", command_check_arguments(&call, 1, &note), ERR_INVALID);
    CHECK_TEXT("the message", note.text, "takes no arguments; see tool dev --help");
}

static void help_of(const char *const *words, struct buf *into)
{
    struct command_call call;
    buf_init(into, COMMAND_TEXT_MAX);
    CHECK_OK("resolve", resolve(words, &call, NULL));
    CHECK_OK("help", command_help(&call, into));
}

TEST(help_of_a_group_lists_its_commands)
{
    struct buf out;
    help_of((const char *const[]){"help", NULL}, &out);
    CHECK_STR("whole text", buf_peek(&out),
              STR("tool: a tool\n\nUsage: tool COMMAND [OPTION]...\n\n  It does things.\n\n"
                  "Commands:\n  dev   try it out\n  cert  certificates\n\n"
                  "See tool help COMMAND for one of them, --version for the version.\n"));
    buf_deinit(&out);
}

TEST(help_of_a_command_teaches)
{
    struct buf out;
    help_of((const char *const[]){"cert", "issue", "--help", NULL}, &out);
    CHECK_OK("end", buf_append_byte(&out, '\0'));
    CHECK_HAS("usage", out.data, "Usage: tool cert issue [OPTION]... KIND [ID]\n");
    CHECK_HAS("a default and a variable", out.data,
              "  --http-listen ADDRESS\n      where pages are served\n"
              "      Default: 127.0.0.1:8790. Environment: MUSTER_HTTP_LISTEN.\n");
    CHECK_HAS("a negation", out.data, "  --[no-]color\n");
    CHECK_HAS("but not of a flag about this call", out.data, "  --json\n");
    CHECK_HAS("choices and reload", out.data,
              "One of debug, info, warn, error. Default: info. Also: -l. Environment: "
              "MUSTER_LOG_LEVEL.\n      Reloaded on SIGHUP.\n");
    CHECK_HAS("bounds", out.data, "From 10ms to 1m. Default: 1s.");
    CHECK_HAS("a lower bound alone", out.data, "From 4KiB on. Default: 64MiB.");
    CHECK_HAS("examples", out.data, "Examples:\n  tool cert issue replica --name n1\n");
    CHECK_HAS("only its own exit codes", out.data,
              "Exit codes:\n  0  done\n  1  failed while running\n"
              "  2  wrong command line or configuration\n  4  conflict, or it exists already\n");
    size_t column = 0;
    for (const char *c = out.data; *c; c++) {
        column = *c == '\n' ? 0 : column + 1;
        CHECK("no line is wider than the terminal", column <= 100);
    }
    buf_deinit(&out);
}

TEST(completion_knows_commands_options_and_choices)
{
    struct buf out;
    buf_init(&out, COMMAND_TEXT_MAX);
    CHECK_OK("writes", command_completion(&program, "bash", &out));
    CHECK_OK("end", buf_append_byte(&out, '\0'));
    CHECK_HAS("program", out.data, "'tool') words=(dev cert help --version --help) ;;");
    CHECK_HAS("group", out.data, "'tool cert') words=(issue show --help) ;;");
    CHECK_HAS("options", out.data, "--color --no-color --peers --http-listen");
    CHECK_HAS("choices", out.data,
              "'tool dev --log-level'|'tool dev -l') words=(debug info warn error) ;;");
    buf_deinit(&out);
}

TEST(the_other_shells_show_what_each_is_for)
{
    struct buf out;
    buf_init(&out, COMMAND_TEXT_MAX);
    CHECK_OK("zsh", command_completion(&program, "zsh", &out));
    CHECK_OK("end", buf_append_byte(&out, '\0'));
    CHECK_HAS("commands", out.data,
              "'tool cert') described=( 'issue:make a certificate' 'show:show one'");
    buf_clear(&out);
    CHECK_OK("fish", command_completion(&program, "fish", &out));
    CHECK_OK("end", buf_append_byte(&out, '\0'));
    CHECK_HAS("commands", out.data,
              "complete -c tool -n '__tool_at cert' -f -a issue -d 'make a certificate'\n");
    CHECK_HAS("options", out.data, "-n '__tool_at cert issue' -l no-color -d ");
    CHECK_HAS("choices", out.data, " -l log-level -x -a 'debug info warn error' -d ");
    buf_deinit(&out);
}

TEST(a_manual_page_is_the_tables_once_more)
{
    struct command_call call;
    struct buf out;
    CHECK_OK("resolve", resolve((const char *const[]){"cert", "issue", NULL}, &call, NULL));
    buf_init(&out, COMMAND_TEXT_MAX);
    CHECK_OK("writes", command_man(&call, "tool 1.2", &out));
    CHECK_OK("end", buf_append_byte(&out, '\0'));
    CHECK_HAS("head", out.data, ".TH \"TOOL-CERT-ISSUE\" 1 \"\" \"tool 1.2\" \"User Commands\"\n");
    CHECK_HAS("name", out.data, "tool\\-cert\\-issue \\- make a certificate\n");
    CHECK_HAS("usage", out.data, "\\fBtool cert issue\\fP [OPTION]... KIND [ID]\n");
    CHECK_HAS("a switch", out.data, "\\fB\\-\\-[no\\-]color\\fP\n");
    CHECK_HAS("an example", out.data, "\\fBtool cert issue replica \\-\\-name n1\\fP\n");
    CHECK_HAS("exits", out.data, ".TP\n4\nconflict, or it exists already\n");
    CHECK_HAS("where it belongs", out.data, "\\fBtool\\-cert\\fP(1),\n");
    buf_deinit(&out);
}

TEST(no_text_steers_troff)
{
    struct buf out;
    buf_init(&out, 1024);
    CHECK_OK("writes", command_man_text(STR(".so x\n'br a\\n -1 re-do --x `a-b` \xe2\x86\x92 \xff"),
                                        false, &out));
    CHECK_OK("end", buf_append_byte(&out, '\0'));
    CHECK_TEXT("guarded", out.data,
               "\\&.so x\n\\&'br a\\en \\-1 re-do \\-\\-x \\fBa\\-b\\fP \\[u2192] ?");
    buf_deinit(&out);
}

TEST(a_full_buffer_is_an_answer)
{
    struct command_call call;
    CHECK_OK("resolve", resolve((const char *const[]){"cert", "issue", NULL}, &call, NULL));
    for (size_t max = 1; max < 1000; max += 13) {
        struct buf out;
        buf_init(&out, max);
        CHECK_ERR("help", command_help(&call, &out), ERR_FULL);
        buf_clear(&out);
        CHECK_ERR("completion", command_completion(&program, "bash", &out), ERR_FULL);
        buf_clear(&out);
        CHECK_ERR("zsh", command_completion(&program, "zsh", &out), ERR_FULL);
        buf_clear(&out);
        CHECK_ERR("fish", command_completion(&program, "fish", &out), ERR_FULL);
        buf_clear(&out);
        CHECK_ERR("man", command_man(&call, "tool 1.2", &out), ERR_FULL);
        buf_deinit(&out);
    }
}
