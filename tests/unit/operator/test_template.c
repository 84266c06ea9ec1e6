/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
        {"cat <<-END\nx\n\tEND\ny=\"a\" x={{shell request_id}}",
         "cat <<-END\nx\n\tEND\ny=\"a\" x='00ff'"},
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
         "line 2: {{shell requirement type}} quotes its value itself", ERR_PARSE},
        {"x='{{ json requirement type }}", "quotes its value itself", ERR_PARSE},
        {"x=\"a {{shell requirement type}} b\"", "quotes its value itself", ERR_PARSE},
        {"cat <<END\n{{shell requirement type}}\nEND",
         "{{shell requirement type}} is inside a here-document", ERR_PARSE},
        {"{{shell cluster_id}}\"", "quotes its value itself", ERR_PARSE},
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
        "printf '%s\n' '{{requirements}}'\ncat <<END\n{{requirements}}\nEND\n"
        "printf '%s' {{shell requirements}}";
    static const char check[] =
        "python3 -c 'import json, os, sys, subprocess\n"
        "lines = subprocess.check_output([\"/bin/sh\", sys.argv[1]]).decode().split(\"\\n\")\n"
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

TEST(a_blob_ends_at_its_ceiling)
{
    struct buf out;

    buf_init(&out, 8);
    CHECK_ERR("full", render("1234{{cluster_id}}", &out), ERR_FULL);
    CHECK_SIZE("nothing half written", out.len, 0);
    CHECK_HAS("says so", note.text, "more than 8 bytes");
    buf_deinit(&out);
}
