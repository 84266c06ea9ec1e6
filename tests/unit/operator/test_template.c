/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/prng.h"
#include "lib/test.h"
#include "operator/template.h"

static struct note note;

static enum err render_for(const char *text, struct str cluster, const struct blob_request *request,
                           struct buf *out)
{
    struct template *template;
    enum err err = template_open(str_from(text), &template, &note);

    buf_clear(out);
    if (err) return err;
    err = template_render(template, cluster, request, out, &note);
    template_close(template);
    return err;
}

static enum err render(const char *text, struct buf *out)
{
    const struct str values[] = {STR("m5.large"), STR("m5.xlarge")};
    const struct requirement requirements[] = {{STR("disk"), OPERATOR_EXISTS, NULL, 0},
                                               {STR("type"), OPERATOR_IN, values, 2}};
    const struct blob_request request = {STR("00ff"), requirements, 2};

    return render_for(text, STR("cluster-a"), &request, out);
}

/* The template with one requirement "type In (local, value)". */
static enum err render_value(const char *text, const char *value, struct buf *out)
{
    const struct str values[] = {STR("local"), str_from(value)};
    const struct requirement requirements[] = {{STR("type"), OPERATOR_IN, values, 2}};
    const struct blob_request request = {STR("00ff"), requirements, 1};

    return render_for(text, STR("cluster-a"), &request, out);
}

/* What `program` prints when `text` is its standard input; the text is at most a few KiB. */
static void output_of(const char *program, struct str text, struct buf *out)
{
    char command[512], path[] = "/tmp/muster-template-XXXXXX", chunk[4096];
    int file = mkstemp(path);
    FILE *from;

    CHECK("file", file >= 0);
    CHECK("written", write(file, text.at, text.len) == (ssize_t)text.len);
    snprintf(command, sizeof command, "%s %s 2>&1", program, path);
    from = popen(command, "r");
    CHECK("started", from != NULL);
    buf_clear(out);
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, from)) > 0;)
        CHECK_OK("read", buf_append(out, str_of(chunk, got)));
    CHECK("exits with 0", pclose(from) == 0);
    close(file);
    unlink(path);
}

static const char *const hostile_values[] = {
    "$(id)",
    "`id`",
    "a; id",
    "a && id",
    "' ; id; '",
    "\" ; id ; \"",
    "a > /tmp/owned",
    "$HOME",
    "\\",
    "\\$(id)",
    "x' $(id)",
    "--flag",
    "-",
    "#",
    "a: b",
    "*",
    "{a: 1}",
    "!!int 1",
    "&x",
    "%TAG",
    "\"",
    "${IFS}",
    "~root",
    "caf\xc3\xa9",
};

TEST(placeholders_are_filled_in_and_the_rest_stays_byte_for_byte)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", ""},
        {"plain {text} }}\n", "plain {text} }}\n"},
        {"# it's\ny=\"a\" x={{shell request_id}}\ncat <<-END\nx\n\tEND\n",
         "# it's\ny=\"a\" x='00ff'\ncat <<-END\nx\n\tEND\n"},
        {"{{cluster_id}}{{ request_id }}", "cluster-a00ff"},
        {"a {{requirement type}} b", "a m5.large,m5.xlarge b"},
        {"{{requirement zone|any zone}}{{requirement zone|}}", "any zone"},
        {"{{requirement type|x}}", "m5.large,m5.xlarge"},
        {"{{open}}x{{close}}", "{{x}}"},
        {"{{requirements}}",
         "[{\"key\":\"disk\",\"operator\":\"Exists\",\"values\":[]},"
         "{\"key\":\"type\",\"operator\":\"In\",\"values\":[\"m5.large\",\"m5.xlarge\"]}]"},
    };
    struct buf out;

    buf_init(&out, 1024);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_OK(cases[i].text, render(cases[i].text, &out));
        CHECK_STR(cases[i].text, buf_peek(&out), str_from(cases[i].want));
    }
    buf_deinit(&out);
}

TEST(what_cannot_be_meant_is_refused_with_its_line)
{
    static const struct {
        const char *text, *says;
        enum err want;
    } cases[] = {
        {"a\nb {{cluster}}", "line 2: {{cluster}} is not a placeholder", ERR_PARSE},
        {"a\n\n{{cluster_id", "line 3: {{ without }}", ERR_PARSE},
        {"{{requirement }}", "line 1", ERR_PARSE},
        {"a\nx=\"{{shell requirement type}}\"",
         "line 2: {{shell requirement type}} is inside the double quotes", ERR_PARSE},
        {"x='{{ json requirement type }}", "quotes its value itself", ERR_PARSE},
        {"x=\"a {{json requirement type}} b\"", "quotes its value itself", ERR_PARSE},
        {"cat <<END\n{{shell requirement type}}\nEND", "because of a here-document on line 1",
         ERR_PARSE},
        {"{{json requirements}}", "without a context", ERR_PARSE},
        {"{{shell open}}", "{{shell open}} is not a placeholder", ERR_PARSE},
        {"{{sql requirement type}}", "{{sql requirement type}} is not a placeholder", ERR_PARSE},
        {"{{requirement a b\x01}}", "line 1", ERR_PARSE},
        {"{{requirement zone}}", "zone", ERR_NOT_FOUND},
        {"{{requirement disk}}", "disk", ERR_NOT_FOUND}, /* Exists has no value */
    };
    struct buf out;

    buf_init(&out, 1024);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CHECK_ERR(cases[i].text, render(cases[i].text, &out), cases[i].want);
        CHECK_HAS(cases[i].text, note.text, cases[i].says);
    }
    buf_deinit(&out);
}

TEST(a_value_that_is_not_plain_is_refused_without_a_context)
{
    struct buf out;

    buf_init(&out, 1024);
    for (size_t i = 0; i < ARRAY_LEN(hostile_values); i++) {
        CHECK_ERR(hostile_values[i],
                  render_value("x={{requirement type}}", hostile_values[i], &out), ERR_INVALID);
        CHECK_HAS("names the remedy", note.text, "write {{shell requirement type}}");
        CHECK_SIZE("nothing is half written", out.len, 0);
    }
    CHECK_ERR(
        "cluster id",
        render_for("{{cluster_id}}", STR("a b"), &(struct blob_request){STR("0"), NULL, 0}, &out),
        ERR_INVALID);
    CHECK_ERR("control character", render_value("{{shell requirement type}}", "a\nid", &out),
              ERR_INVALID);
    CHECK_HAS("control character", note.text, "control character");
    CHECK_ERR("U+0085", render_value("{{yaml requirement type}}", "a\xc2\x85 b", &out),
              ERR_INVALID);
    CHECK_ERR("U+FFFF", render_value("{{json requirement type}}", "a\xef\xbf\xbf", &out),
              ERR_INVALID);
    buf_deinit(&out);
}

/* What the blob is for: a real shell prints the value and runs nothing of it. */
TEST(a_real_shell_sees_one_word)
{
    struct buf out, said;
    char want[128];

    buf_init(&out, 1024);
    buf_init(&said, 4096);
    for (size_t i = 0; i < ARRAY_LEN(hostile_values); i++) {
        CHECK_OK(hostile_values[i],
                 render_value("printf '[%s]' {{shell requirement type}}", hostile_values[i], &out));
        output_of("/bin/sh", buf_peek(&out), &said);
        snprintf(want, sizeof want, "[local,%s]", hostile_values[i]);
        CHECK_STR(hostile_values[i], buf_peek(&said), str_from(want));
    }
    buf_deinit(&out);
    buf_deinit(&said);
}

/* {{requirements}} in single quotes and in a here-document, as templates are written. */
TEST(a_real_shell_runs_nothing_of_the_list_of_requirements)
{
    static const char text[] =
        "printf '%s\n' {{shell requirements}}\n"
        "printf '%s\n' '{{requirements}}'\ncat <<END\n{{requirements}}\nEND\n";
    static const char check[] = "python3 -c 'import json, os, sys, subprocess\n"
                                "lines = subprocess.check_output([\"/bin/sh\", "
                                "sys.argv[1]]).decode().strip().split(\"\\n\")\n"
                                "assert len(lines) == 3 and len(set(lines)) == 1, lines\n"
                                "print(json.loads(lines[0])[0][\"values\"][1], end=\"\")'";
    struct buf out, said;

    buf_init(&out, 4096);
    buf_init(&said, 4096);
    for (size_t i = 0; i < ARRAY_LEN(hostile_values); i++) {
        CHECK_OK(hostile_values[i], render_value(text, hostile_values[i], &out));
        output_of(check, buf_peek(&out), &said);
        CHECK_STR(hostile_values[i], buf_peek(&said), str_from(hostile_values[i]));
    }
    buf_deinit(&out);
    buf_deinit(&said);
}

TEST(a_real_reader_of_yaml_and_json_sees_one_string)
{
    static const char check[] = "python3 -c 'import json, sys, yaml\n"
                                "text = open(sys.argv[1]).read()\n"
                                "a, b = yaml.safe_load(text)[\"x\"], json.loads(text)[\"x\"]\n"
                                "assert a == b, (a, b)\nprint(a, end=\"\")'";
    struct buf out, said;
    char want[128];

    buf_init(&out, 1024);
    buf_init(&said, 4096);
    for (size_t i = 0; i < ARRAY_LEN(hostile_values); i++) {
        const char *text =
            i % 2 ? "{\"x\": {{json requirement type}}}" : "{\"x\": {{yaml requirement type}}}";
        CHECK_OK(hostile_values[i], render_value(text, hostile_values[i], &out));
        output_of(check, buf_peek(&out), &said);
        snprintf(want, sizeof want, "local,%s", hostile_values[i]);
        CHECK_STR(hostile_values[i], buf_peek(&said), str_from(want));
    }
    buf_deinit(&out);
    buf_deinit(&said);
}

/* -- no value runs, wherever the template's author put the placeholder -- */

/* Each makes the file OWNED when a shell runs any part of it. */
static const char *const attacks[] = {
    "$(touch OWNED)",
    "`touch OWNED`",
    "a touch OWNED b",
    "a; touch OWNED; b",
    "a & touch OWNED & b",
    "a | touch OWNED | b",
    "a > OWNED",
    "'$(touch OWNED)'",
    "' ; touch OWNED; '",
    "' touch OWNED '",
    "x' touch OWNED 'y",
    "\"$(touch OWNED)\"",
    "\" ; touch OWNED ; \"",
    "\" touch OWNED \"",
    "\\'; touch OWNED; '",
    "\\\"; touch OWNED; \"",
    "\\`touch OWNED\\`",
    "\\;touch OWNED",
    ") ; touch OWNED ; (",
    "} ; touch OWNED ; {",
    "a[$(touch OWNED)]",
    "END",
    "\xe2\x80\x83touch OWNED\xc2\xa0; touch OWNED",
    "\xf0\x9f\x98\x80 touch OWNED",
};

/* Files NUMBER.sh in a directory of their own, which each shell then runs. */
struct scripts {
    char directory[40];
    size_t count;
};

static void scripts_open(struct scripts *scripts)
{
    *scripts = (struct scripts){.directory = "/tmp/muster-template-XXXXXX"};
    CHECK("directory", mkdtemp(scripts->directory) != NULL);
}

static void scripts_add(struct scripts *scripts, struct str text)
{
    char path[80];
    FILE *file;

    snprintf(path, sizeof path, "%s/%zu.sh", scripts->directory, scripts->count++);
    file = fopen(path, "w");
    CHECK("file", file != NULL);
    CHECK("written", fwrite(text.at, 1, text.len, file) == text.len && fclose(file) == 0);
}

/* The first script that made OWNED and all it contains, or "". */
static void scripts_run(const struct scripts *scripts, struct buf *ret_owned)
{
    static const char command[] =
        "cd %s\ncat >run <<'RUN'\n"
        "for f in *.sh; do\n"
        "    (. ./$f) </dev/null >/dev/null 2>&1\n"
        "    if [ -e OWNED ]; then echo \"$1: $f\"; cat $f; rm -f OWNED; exit; fi\n"
        "done\n"
        "RUN\n"
        "for s in sh bash; do timeout 300 $s ./run $s || echo \"$s did not end\"; done; cd /; rm "
        "-rf %s";
    char text[sizeof command + 2 * sizeof scripts->directory], chunk[512];
    FILE *from;

    snprintf(text, sizeof text, command, scripts->directory, scripts->directory);
    from = popen(text, "r");
    CHECK("started", from != NULL);
    buf_clear(ret_owned);
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, from)) > 0;)
        CHECK_OK("read", buf_append(ret_owned, str_of(chunk, got)));
    CHECK("ended", pclose(from) == 0);
}

/* With every attack as the only value. False: the template was refused. */
static bool add_attacks(struct scripts *scripts, const char *text)
{
    struct template *template;
    struct buf out;

    if (template_open(str_from(text), &template, &note)) return false;
    buf_init(&out, 8192);
    for (size_t i = 0; i < ARRAY_LEN(attacks); i++) {
        struct str value = str_from(attacks[i]);
        const struct requirement requirements[] = {{STR("type"), OPERATOR_IN, &value, 1}};
        const struct blob_request request = {STR("00ff"), requirements, 1};
        buf_clear(&out);
        if (!template_render(template, STR("cluster-a"), &request, &out, &note))
            scripts_add(scripts, buf_peek(&out));
    }
    buf_deinit(&out);
    template_close(template);
    return true;
}

static void check_attacks(const struct scripts *scripts)
{
    struct buf owned;

    buf_init(&owned, (size_t)1 << 20);
    scripts_run(scripts, &owned);
    CHECK_STR("nothing of a value ran", buf_peek(&owned), STR(""));
    buf_deinit(&owned);
}

/* A list or a string as JSON is accepted anywhere, and inert in every state of a shell. `@` is
 * the placeholder. */
TEST(json_runs_nowhere_in_a_real_shell)
{
    static const char *const shapes[] = {
        "x=@",
        "echo @",
        "x=\"@\"",
        "x='@'",
        "x=\"\n@\n\"",
        "x='\n@\n'",
        "x=$(echo @)",
        "x=\"$(echo \"@\")\"",
        "x=`echo @`",
        "x=`echo \"@\"`",
        "x=`echo \\`echo @\\``",
        "x=$'@'",
        "x=$\"@\"",
        "x=${y:-@}",
        "x=\"${y:-@}\"",
        "x=${y:-\"@\"}",
        "x=$((@))",
        "x=\\@",
        "echo $@",
        "# @",
        "cat <<END\n@\nEND",
        "cat <<'END'\n@\nEND",
        "cat <<-END\n\t@\n\tEND",
        "cat <<A; cat <<B\n@\nA\n@\nB",
        "cat <<END\n$(echo @)\n`echo @`\nEND",
        "sh -c \"echo @\"",
        "sh -c 'echo @'",
        "sh -c \"\necho @\n\"",
        "sh -c \"echo '@'\"",
        "sh -c 'echo \"@\"'",
        "eval \"x=@\"",
        "eval \"x='@'\"",
        "(echo @)",
        "case @ in a) ;; esac",
        "case x in @) ;; esac",
        "for i in @; do echo $i; done",
        "if [ @ = x ]; then :; fi",
        "echo a>@.out",
        "cat <<<@",
    };
    static const char *const placeholders[] = {"{{requirements}}", "{{json requirement type}}"};
    struct scripts scripts;
    struct buf text;

    scripts_open(&scripts);
    buf_init(&text, 1024);
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        for (size_t k = 0; k < ARRAY_LEN(placeholders); k++) {
            buf_clear(&text);
            for (const char *at = shapes[i]; *at; at++)
                CHECK_OK("text", *at == '@' ? buf_append_c(&text, placeholders[k])
                                            : buf_append_byte(&text, *at));
            CHECK_OK("text", buf_append_byte(&text, '\0'));
            /* {{json}} inside quotes is refused as a mistake; the list is not. */
            CHECK(shapes[i], add_attacks(&scripts, text.data) || k > 0);
        }
    check_attacks(&scripts);
    buf_deinit(&text);
}

TEST(a_shell_word_runs_nowhere_in_a_real_shell)
{
    static const struct {
        const char *text, *says;
    } refused[] = {
        {"x=\"{{shell requirement type}}\"",
         "line 1: {{shell requirement type}} is inside the double quotes that line 1 opens"},
        {"x='{{shell requirement type}}'", "inside the single quotes that line 1 opens"},
        {"sh -c \"\necho {{shell requirement type}}\n\"",
         "line 2: {{shell requirement type}} is inside the double quotes that line 1 opens"},
        {"CONFIG='\ntype={{shell requirement type}}\n'",
         "line 2: {{shell requirement type}} is inside the single quotes that line 1 opens"},
        {"CONFIG=\"\ntype={{shell requirement type}}\n\"", "double quotes that line 1 opens"},
        {"x=\"a\\\"{{shell requirement type}}\\\"\"", "double quotes"},
        {"cat <<END\n{{shell requirement type}}\nEND",
         "line 2: it is not clear whether {{shell requirement type}} is inside quotes, because of "
         "a "
         "here-document on line 1"},
        {"cat <<A; cat <<B\na\nA\n{{shell requirement type}}\nB", "a here-document on line 1"},
        {"cat <<END\n END\n{{shell requirement type}}\nEND", "here-document"},
        {"cat <<END\nEND \n{{shell requirement type}}\nEND", "here-document"},
        {"cat <<-END\n \tEND\n{{shell requirement type}}\nEND", "here-document"},
        {"cat << \"E D\"\nE\n{{shell requirement type}}\nE D", "here-document"},
        {"cat <<\\END\n\\END\n{{shell requirement type}}\nEND", "here-document"},
        {"cat <<E'N'D\nE'N'D\n{{shell requirement type}}\nEND", "here-document"},
        {"(cat <<END)\n{{shell requirement type}}\nEND", "here-document"},
        {"cat <<END\n'\nEND\ncat <<END\n{{shell requirement type}}\nEND",
         "a here-document on line 1"},
        {"cat <<{{shell requirement type}}\na\n", "here-document"},
        {"cat <<END \"a\nb\"\n{{shell requirement type}}\nEND", "it is not clear"},
        {"cat <<END\na\\\nEND\n{{shell requirement type}}\nEND", "it is not clear"},
        {"cat <<END\n$(echo\nEND\n)\nEND\n{{shell requirement type}}", "it is not clear"},
        {"x=`echo {{shell requirement type}}`", "it is not clear"},
        {"x=$(echo {{shell requirement type}})", "it is not clear"},
        {"x=\"$(echo {{shell requirement type}})\"", "it is not clear"},
        {"x=\"$(echo \"{{shell requirement type}}\")\"", "it is not clear"},
        {"x=$(cat <<END)\n{{shell requirement type}}\nEND", "it is not clear"},
        {"x=\"$(case a in a) echo \"b {{shell requirement type}}\" ;; esac)\"", "it is not clear"},
        {"x=${y:-{{shell requirement type}}}", "it is not clear"},
        {"x=\"${y:-it's}\" '{{shell requirement type}}'", "it is not clear"},
        {"cat <<END\n) $(echo\nEND\n)\nEND\n{{shell requirement type}}", "it is not clear"},
        {"cat <<END\n$(echo ')'; echo\nEND\n)\nEND\n{{shell requirement type}}", "it is not clear"},
        {"x=$(cat <<END\nEND)\n'\nEND\n)\n{{shell requirement type}}'", "it is not clear"},
        {"x=\"$\\\n(echo \"{{shell requirement type}}\")\"", "it is not clear"},
        {"cat <\\\n<END\n'\nEND\n{{shell requirement type}}'", "it is not clear"},
        {"x=$(({{shell requirement type}}))", "it is not clear"},
        {"x=$'{{shell requirement type}}'", "it is not clear"},
        {"x=$'it\\'s' {{shell requirement type}}", "it is not clear"},
        {"x=${{shell requirement type}}", "it is not clear"},
        {"x=\\{{shell requirement type}}", "it is not clear"},
        {"x=$[1<<A]\n'\nA]\n{{shell requirement type}}", "it is not clear"},
        {"a[1<<A]=1\n'\nA]=1\n{{shell requirement type}}", "it is not clear"},
        {"((x<<A))\n'\nA))\n{{shell requirement type}}", "it is not clear"},
        {"# it is {{shell requirement type}}", "inside the comment"},
        {"x={{requirement zone|it's}} {{shell requirement type}}", "it is not clear"},
        {"echo {{requirement zone|}}# '\n{{shell requirement type}} '", "it is not clear"},
        {"echo a<\\\n<END\n{{shell requirement type}}\nEND", "it is not clear"},
        {"echo a#\\\n'{{shell requirement type}}'", "it is not clear"},
        {"# {{requirement type}}\n# '\n'{{shell requirement type}}'", "single quotes"},
        {"x='a' y='b\" {{shell requirement type}}", "single quotes"},
        {"x=a#'b {{shell requirement type}}'", "single quotes"},
        {"cat <<END\n{{requirement type}}\nEND",
         "line 2: {{requirement type}} could end the here-document that line 1 begins"},
        {"cat <<-END\n\t{{requirement type}}\nEND", "could end the here-document"},
        {"cat <<\"{{open}}EOF\"\n{{open}}{{requirement type}}\n{{open}}EOF",
         "could end the here-document"},
        {"cat <<aEOF\n{{cluster_id}}{{requirement type}}\naEOF", "could end the here-document"},
        {"cat <<EOF\nE\\\nO{{requirement type}}\nEOF", "could end the here-document"},
        {"cat <<EOF\n{{requirement zone}}{{requirement type}}\nEOF", "could end the here-document"},
        {"cat <<END\nE{{requirement type}}\nEND", "could end the here-document"},
        {"cat <<'E D'\nE {{requirement type}}\nE D", "could end the here-document"},
        {"cat <<E\\ D\nE {{requirement type}}\nE D", "could end the here-document"},
        {"cat <\\\n<END\n{{requirement type}}\nEND", "could end the here-document"},
        {"cat <{{requirement zone|}}<END\n{{requirement type}}\nEND",
         "could end the here-document"},
        {"cat <<E{{requirement zone|}}ND\n{{requirement type}}\nEND",
         "could end the here-document"},
        {"cat <<A; cat <<B\na\nA\nB{{requirement type}}\nB", "could end the here-document"},
    };
    struct scripts scripts;
    struct buf out;

    scripts_open(&scripts);
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) (void)add_attacks(&scripts, refused[i].text);
    check_attacks(&scripts);
    buf_init(&out, 1024);
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        CHECK_ERR(refused[i].text, render(refused[i].text, &out), ERR_PARSE);
        CHECK_HAS(refused[i].text, note.text, refused[i].says);
    }
    buf_deinit(&out);
}

TEST(a_shell_word_is_accepted_where_it_is_a_word)
{
    static const char *const accepted[] = {
        "x={{shell requirement type}}",
        "echo a {{shell requirement type}} b",
        "x=\"a\" y='b' z={{shell requirement type}} w=\"c\"",
        "# don't\nx={{shell requirement type}}",
        "# cat <<END\nx={{shell requirement type}}",
        "x=\"$HOME ${HOME} it's\" w=${x} $# $$\nx={{shell requirement type}}",
        "f() { (echo \"$1\") 2>&1 | cat >/dev/null; }\ncase a in a) f b;; (b) :;; esac\nf {{shell "
        "requirement type}}",
        "a=(1 {{shell requirement type}})",
        "(echo {{shell requirement type}})",
        "if :; then\n  echo {{shell requirement type}} # it's\nfi",
        "echo a \\\n  b \\\n# '\necho {{shell requirement type}}",
        "cat <<END {{json requirement type}}\na\nEND\n",
        "#cloud-config\nruncmd:\n  - echo {{shell requirement type}}\n",
        "x=it\\'s\necho {{shell requirement type}}",
        "x='a'\\''b'\necho {{shell requirement type}}",
        "x={{shell requirement type}}\ncat <<END\nits $x `date` $(date) \"\nEND\n",
        "cat <<END\ntype={{requirement zone|a}} {{json requirement "
        "type}}\n{{cluster_id}}\n{{requirements}}\nEND\n",
    };
    struct scripts scripts;

    scripts_open(&scripts);
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
        bool taken = add_attacks(&scripts, accepted[i]);
        if (!taken) CHECK_STR(accepted[i], str_from(note.text), STR(""));
    }
    check_attacks(&scripts);
}

/* Random templates: what the scanner accepts, real shells run without running a value. */
TEST(a_shell_word_in_random_templates_runs_nowhere)
{
    static const char *const words[] = {
        "'",
        "\"",
        "\\",
        "`",
        "$(",
        ")",
        "${x:-",
        "}",
        "${x#",
        "<<E\n",
        "<<-E ",
        "E\n",
        "\tE\n",
        "<<'E'",
        "<<\"E\" ",
        "#",
        " #",
        " ",
        "\n",
        "\n",
        "a",
        "echo ",
        ": ",
        "(",
        "((",
        "))",
        "$((",
        "1<<2",
        "$'",
        "$",
        "case x in x",
        ";; ",
        "esac ",
        "[",
        "<",
        "${x}",
        "\\\n",
        " \\\n",
        "{{requirement zone|}}",
        "{{requirement type}}",
        "{{json requirement type}}",
        "{{shell requirement type}}",
        "{{shell requirement type}}",
    };
    enum { SHAPES = 400, WORDS_MAX = 12 };
    const char *seed = getenv("MUSTER_TEST_SEED"), *many = getenv("MUSTER_TEST_SHAPES");
    size_t shapes = many ? (size_t)atol(many) : SHAPES;
    struct prng random;
    struct scripts scripts;
    size_t accepted = 0;

    prng_seed(&random, seed ? (uint64_t)atol(seed) : 1);
    scripts_open(&scripts);
    for (size_t i = 0; i < shapes; i++) {
        char text[512] = "";
        size_t count = 1 + prng_below(&random, WORDS_MAX);
        for (size_t k = 0; k < count; k++)
            strcat(text, words[prng_below(&random, ARRAY_LEN(words))]);
        strcat(text, "{{shell requirement type}}\n");
        accepted += add_attacks(&scripts, text);
    }
    CHECK("some are accepted", accepted > shapes / 100);
    check_attacks(&scripts);
}

TEST(a_blob_ends_at_its_ceiling)
{
    struct buf out;

    buf_init(&out, 8);
    CHECK_ERR("full", render("1234{{cluster_id}}", &out), ERR_FULL);
    CHECK_SIZE("nothing half written", out.len, 0);
    CHECK_HAS("says so", note.text, "more than 8 bytes");
    buf_deinit(&out);
}
