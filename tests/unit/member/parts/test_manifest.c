/* SPDX-License-Identifier: Apache-2.0 */
/* member/config/manifest.h: the cases of workers.md 24.14 about manifests, by number. */
#include "member/config/manifest.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"

#define COMMON                                                                                     \
    "name = 'echo'\nversion = '0.1.0'\nkind = 'reward-model'\ntrait_id = 't'\n"                    \
    "network_allowlist = []\n"
#define RUNTIME "[runtime]\ngpu = false\nmemory_mib = 64\n"
#define PYO3                                                                                       \
    COMMON "mode = 'pyo3'\n" RUNTIME "python_min = '3.11'\n[entry.pyo3]\nmodule = 'm'\n"           \
           "factory = 'f'\n"
#define SIDECAR                                                                                    \
    COMMON "mode = 'sidecar'\n" RUNTIME                                                            \
           "[entry.sidecar]\ncommand = ['python3', 's.py']\nprotocol = 'framed-json-uds'\n"        \
           "socket_template = './data/sidecars/{name}-{pid}.sock'\n"
#define CDYLIB                                                                                     \
    COMMON "mode = 'rust-cdylib'\n" RUNTIME "[entry.cdylib]\npath = 'libx.so'\nsymbol = 's'\n"

static struct manifest *opened(const char *why, const char *text)
{
    struct manifest *manifest = NULL;
    struct note note = {""};
    enum err err = manifest_open(str_from(text), &manifest, &note);

    CHECK_TEXT(why, note.text, "");
    CHECK_OK(why, err);
    return manifest;
}

TEST(case_197_the_three_samples_parse_to_their_mode_and_entry)
{
    struct manifest *m = opened("pyo3", PYO3);
    const struct manifest_facts *f = manifest_facts(m);

    CHECK_U64("mode", f->mode, MANIFEST_PYO3);
    manifest_close(m);
    m = opened("sidecar", SIDECAR);
    f = manifest_facts(m);
    CHECK_U64("mode", f->mode, MANIFEST_SIDECAR);
    CHECK_SIZE("words", f->command_count, 2);
    CHECK_TEXT("program", f->command[0], "python3");
    CHECK_TEXT("argument", f->command[1], "s.py");
    CHECK("ended", f->command[2] == NULL);
    CHECK_U64("protocol", f->protocol, MANIFEST_FRAMED_JSON_UDS);
    CHECK_STR("socket", f->socket_template, STR("./data/sidecars/{name}-{pid}.sock"));
    CHECK_STR("name", f->name, STR("echo"));
    manifest_close(m);
    m = opened("cdylib", CDYLIB);
    f = manifest_facts(m);
    CHECK_U64("mode", f->mode, MANIFEST_CDYLIB);
    CHECK_STR("path", f->library, STR("libx.so"));
    CHECK_STR("symbol", f->symbol, STR("s"));
    manifest_close(m);
}

/* A sample with one text replaced. */
static const char *changed(const char *sample, const char *from, const char *to)
{
    static char text[8192];
    const char *at = strstr(sample, from);

    CHECK(from, at != NULL);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - sample), sample, to, at + strlen(from));
    return text;
}

TEST(cases_198_to_201_what_is_refused_and_what_is_not)
{
    static const struct {
        const char *why, *sample, *from, *to, *says; /* says NULL: accepted */
    } cases[] = {
        {"198: unknown kind", SIDECAR, "'reward-model'", "'rewards'", "'kind' is 'rewards'"},
        {"198: pyo3 without python_min", PYO3, "python_min = '3.11'\n", "",
         "'runtime.python_min' is missing"},
        {"198: python 2.7", PYO3, "'3.11'", "'2.7'", "must be 3.11 at least"},
        {"198: python 3.9", PYO3, "'3.11'", "'3.9'", "must be 3.11 at least"},
        {"198: no version", PYO3, "'3.11'", "'three'", "must be 3.11 at least"},
        {"198: python 3.13", PYO3, "'3.11'", "'3.13'", NULL},
        {"199: blank name", SIDECAR, "'echo'", "' '", "'name' must not be blank"},
        {"199: blank version", SIDECAR, "'0.1.0'", "''", "'version' must not be blank"},
        {"199: no allowlist", SIDECAR, "network_allowlist = []\n", "",
         "'network_allowlist' is missing"},
        {"199: no gpu", SIDECAR, "gpu = false\n", "", "'runtime.gpu' is missing"},
        {"199: an extra key", SIDECAR, "gpu = false\n", "gpu = true\nx = 1979-05-27\n", NULL},
        {"200: a kind of one's own", SIDECAR, "'reward-model'", "{ custom = 'x' }", NULL},
        {"200: without a name", SIDECAR, "'reward-model'", "{ other = 'x' }", "'kind.custom'"},
        {"201: an entry of another mode", CDYLIB, "'rust-cdylib'", "'sidecar'",
         "mode 'sidecar' needs [entry.sidecar], and there is [entry.cdylib]"},
        {"201: no entry", CDYLIB, "[entry.cdylib]", "[entri.cdylib]", "needs [entry.cdylib]"},
        {"unknown mode", SIDECAR, "'sidecar'", "'thread'", "'mode' is 'thread'"},
        {"no program", SIDECAR, "['python3', 's.py']", "[]", "names no program"},
        {"a number for a word", SIDECAR, "'s.py'", "7", "string"},
        {"unknown protocol", SIDECAR, "framed-json-uds", "http", "entry.sidecar.protocol"},
        {"negative memory", SIDECAR, "64", "-1", "must not be negative"},
        {"a list that is none", SIDECAR, "network_allowlist = []", "network_allowlist = 'x'",
         "must be an array"},
        {"a NUL in a name", SIDECAR, "'echo'", "\"a\\u0000b\"", "NUL"},
        {"no TOML", SIDECAR, "name = ", "name ", "line 1"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct manifest *m = NULL;
        struct note note = {""};
        enum err err = manifest_open(str_from(changed(cases[i].sample, cases[i].from, cases[i].to)),
                                     &m, &note);

        CHECK(cases[i].why, (err == ERR_OK) == !cases[i].says);
        CHECK(cases[i].why, !err || err == ERR_PARSE || err == ERR_INVALID);
        if (cases[i].says) CHECK_HAS(cases[i].why, note.text, cases[i].says);
        manifest_close(m);
    }
}

TEST(case_206_a_manifest_as_json_keeps_everything)
{
    struct manifest *m = opened("sample", CDYLIB "[x]\ny = [1, 2.5, {z = true}]\n");
    struct buf json;

    buf_init(&json, 4096);
    CHECK_OK("written", manifest_json(m, &json));
    CHECK_STR("as it was", buf_peek(&json),
              STR("{\"name\":\"echo\",\"version\":\"0.1.0\",\"kind\":\"reward-model\","
                  "\"trait_id\":\"t\",\"network_allowlist\":[],\"mode\":\"rust-cdylib\","
                  "\"runtime\":{\"gpu\":false,\"memory_mib\":64},"
                  "\"entry\":{\"cdylib\":{\"path\":\"libx.so\",\"symbol\":\"s\"}},"
                  "\"x\":{\"y\":[1,2.5,{\"z\":true}]}}\n"));
    buf_deinit(&json);
    manifest_close(m);
}

TEST(a_time_as_json_keeps_its_offset)
{
    struct manifest *m = opened("times", CDYLIB "[x]\neast = 2026-06-01T12:00:00+05:30\n"
                                                "west = 2026-06-01T12:00:00-00:30\n");
    struct buf json;

    buf_init(&json, 4096);
    CHECK_OK("written", manifest_json(m, &json));
    CHECK_OK("ended", buf_append_byte(&json, '\0'));
    CHECK_HAS("east", json.data, "\"east\":\"2026-06-01T12:00:00+05:30\"");
    CHECK_HAS("west, less than an hour", json.data, "\"west\":\"2026-06-01T12:00:00-00:30\"");
    buf_deinit(&json);
    manifest_close(m);
}
