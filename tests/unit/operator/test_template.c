#include "lib/test.h"
#include "operator/template.h"

static struct note note;

static enum err render(const char *text, struct buf *out)
{
    const struct str values[] = {STR("m5.large"), STR("m5.xlarge")};
    const struct requirement requirements[] = {{STR("disk"), OPERATOR_EXISTS, NULL, 0},
                                               {STR("type"), OPERATOR_IN, values, 2}};
    const struct blob_request request = {STR("00ff"), requirements, 2};
    struct template *template;
    enum err err = template_open(str_from(text), &template, &note);

    buf_clear(out);
    if (err) return err;
    err = template_render(template, STR("cluster-a"), &request, out, &note);
    template_close(template);
    return err;
}

TEST(placeholders_are_filled_in_and_the_rest_stays_byte_for_byte)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", ""},
        {"plain {text} }}\n", "plain {text} }}\n"},
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
        {"a\nb {{cluster}}", "line 2: {{cluster}} is no placeholder", ERR_PARSE},
        {"a\n\n{{cluster_id", "line 3: {{ without }}", ERR_PARSE},
        {"{{requirement }}", "line 1", ERR_PARSE},
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

TEST(a_blob_ends_at_its_ceiling)
{
    struct buf out;

    buf_init(&out, 8);
    CHECK_ERR("full", render("1234{{cluster_id}}", &out), ERR_FULL);
    CHECK_SIZE("nothing half written", out.len, 0);
    CHECK_HAS("says so", note.text, "more than 8 bytes");
    buf_deinit(&out);
}
