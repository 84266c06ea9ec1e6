/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and checks the manifest of a plugin. The manifest owns every text of the facts, and each
 * text ends with NUL. Loads nothing. */
#include "member/config/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "text/toml_json.h"

enum { MEMORY_MAX = 4 << 20, DOCUMENT_MAX = 16 * MANIFEST_FILE_MAX };
enum { PYTHON_MAJOR = 3, PYTHON_MINOR = 11 };

struct manifest {
    struct toml *document;
    struct arena memory;
    struct manifest_facts facts;
};

static const char *const kinds[] = {"env-harness",       "tool-harness", "eval-harness",
                                    "reward-model",      "storage",      "queue",
                                    "inference-backend", "object-store", NULL};
static const char *const modes[] = {"pyo3", "sidecar", "rust-cdylib", NULL};
static const char *const entries[] = {"entry.pyo3", "entry.sidecar", "entry.cdylib"};
static const char *const protocols[] = {"framed-json-uds", "grpc-uds", NULL};

/* -- values, each with a terminating NUL -- */

static enum err manifest_keep(struct manifest *m, const char *path, struct str text,
                              const char **ret_copy, struct note *note)
{
    if (str_has(text, '\0')) return note_fail(note, ERR_INVALID, "'%s' holds a NUL", path);
    *ret_copy = arena_dup(&m->memory, text);
    return *ret_copy ? ERR_OK : ERR_NOMEM;
}

static bool is_blank(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!strchr(" \t\r\n", text.at[i])) return false;
    return true;
}

static enum err need(struct manifest *m, const char *path, struct str *ret_text, struct note *note)
{
    struct str text;
    const char *copy;
    enum err err = toml_find_string(toml_root(m->document), path, &text, note);

    if (err) return ERR_PARSE;
    if (is_blank(text)) return note_fail(note, ERR_INVALID, "'%s' must not be blank", path);
    err = manifest_keep(m, path, text, &copy, note);
    if (!err) *ret_text = str_of(copy, text.len);
    return err;
}

static enum err may(struct manifest *m, const char *path, struct str *ret_text, struct note *note)
{
    if (toml_find(toml_root(m->document), path)) return need(m, path, ret_text, note);
    *ret_text = STR_EMPTY;
    return ERR_OK;
}

static enum err one_of(const char *path, struct str text, const char *const *choices,
                       size_t *ret_choice, struct note *note)
{
    char list[NOTE_CAP] = "";
    size_t i = 0, used = 0;

    for (; choices[i] && !str_equal(str_from(choices[i]), text); i++)
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", choices[i]);
    *ret_choice = i;
    if (choices[i]) return ERR_OK;
    return note_fail(note, ERR_INVALID, "'%s' is '%.*s', and not one of %s", path,
                     (int)min_size(text.len, 40), text.at, list);
}

/* *ret_list ends with NULL */
static enum err need_list(struct manifest *m, const char *path, size_t max,
                          const char *const **ret_list, size_t *ret_count, struct note *note)
{
    const struct toml_value *list = toml_find(toml_root(m->document), path);
    size_t count = list ? toml_count(list) : 0, i = 0;
    const char **texts;
    enum err err = ERR_OK;

    if (!list || toml_type(list) != TOML_ARRAY)
        return note_fail(note, ERR_PARSE,
                         list ? "'%s' must be an array of strings" : "'%s' is missing", path);
    if (count > max)
        return note_fail(note, ERR_INVALID, "'%s' has %zu items, and at most %zu are taken", path,
                         count, max);
    texts = arena_calloc(&m->memory, count + 1, sizeof *texts);
    if (!texts) return ERR_NOMEM;
    for (const struct toml_value *v = toml_first(list); v && !err; v = toml_next(v)) {
        struct str text;
        err = toml_string(v, &text, note) ? ERR_PARSE
                                          : manifest_keep(m, path, text, &texts[i++], note);
    }
    *ret_list = texts;
    *ret_count = count;
    return err;
}

/* -- sections of a manifest -- */

static enum err check_kind(struct manifest *m, struct note *note)
{
    const struct toml_value *value = toml_find(toml_root(m->document), "kind");
    struct str kind = STR_EMPTY;
    size_t choice;
    enum err err;

    if (value && toml_type(value) == TOML_TABLE) return need(m, "kind.custom", &kind, note);
    err = need(m, "kind", &kind, note);
    return err ? err : one_of("kind", kind, kinds, &choice, note);
}

/* Accepts "3.11" and later; text after the second number is ignored. */
static enum err check_python(struct str version, struct note *note)
{
    char *dot, *end;
    unsigned long major = strtoul(version.at, &dot, 10), minor;

    if (dot != version.at && *dot == '.') {
        minor = strtoul(dot + 1, &end, 10);
        if (end != dot + 1 &&
            (major > PYTHON_MAJOR || (major == PYTHON_MAJOR && minor >= PYTHON_MINOR)))
            return ERR_OK;
    }
    return note_fail(note, ERR_INVALID,
                     "'runtime.python_min' is '%.20s', and must be %d.%d at least", version.at,
                     PYTHON_MAJOR, PYTHON_MINOR);
}

static enum err check_runtime(struct manifest *m, struct note *note)
{
    const struct toml_value *root = toml_root(m->document);
    struct str python = STR_EMPTY;
    int64_t memory;
    bool gpu;
    enum err err;

    if (toml_find_bool(root, "runtime.gpu", &gpu, note) ||
        toml_find_i64(root, "runtime.memory_mib", &memory, note))
        return ERR_PARSE;
    if (memory < 0)
        return note_fail(note, ERR_INVALID,
                         "'runtime.memory_mib' is %lld, and must not be negative",
                         (long long)memory);
    if (m->facts.mode != MANIFEST_PYO3) return ERR_OK;
    err = need(m, "runtime.python_min", &python, note);
    return err ? err : check_python(python, note);
}

static enum err read_sidecar(struct manifest *m, struct note *note)
{
    struct manifest_facts *f = &m->facts;
    struct str protocol = STR_EMPTY;
    size_t choice;
    enum err err = need_list(m, "entry.sidecar.command", MANIFEST_COMMAND_MAX, &f->command,
                             &f->command_count, note);

    if (!err && (!f->command_count || !f->command[0][0]))
        return note_fail(note, ERR_INVALID, "'entry.sidecar.command' names no program");
    if (!err) err = need(m, "entry.sidecar.protocol", &protocol, note);
    if (!err) err = one_of("entry.sidecar.protocol", protocol, protocols, &choice, note);
    if (err) return err;
    f->protocol = (enum manifest_protocol)choice;
    return may(m, "entry.sidecar.socket_template", &f->socket_template, note);
}

static enum err read_entry(struct manifest *m, struct note *note)
{
    const struct toml_value *root = toml_root(m->document);
    struct manifest_facts *f = &m->facts;
    struct str other;
    enum err err = ERR_OK;

    if (!toml_find(root, entries[f->mode])) {
        for (size_t i = 0; i < ARRAY_LEN(entries); i++)
            if (toml_find(root, entries[i]))
                return note_fail(note, ERR_INVALID, "mode '%s' needs [%s], and there is [%s]",
                                 modes[f->mode], entries[f->mode], entries[i]);
        return note_fail(note, ERR_INVALID, "mode '%s' needs [%s]", modes[f->mode],
                         entries[f->mode]);
    }
    switch (f->mode) {
    case MANIFEST_SIDECAR: return read_sidecar(m, note);
    case MANIFEST_CDYLIB:
        err = need(m, "entry.cdylib.path", &f->library, note);
        return err ? err : need(m, "entry.cdylib.symbol", &f->symbol, note);
    case MANIFEST_PYO3:
        err = need(m, "entry.pyo3.module", &other, note);
        return err ? err : need(m, "entry.pyo3.factory", &other, note);
    }
    return err;
}

static enum err read_all(struct manifest *m, struct note *note)
{
    struct manifest_facts *f = &m->facts;
    struct str mode = STR_EMPTY, other;
    const char *const *allowed;
    size_t choice = 0;
    enum err err = need(m, "name", &f->name, note);

    if (!err) err = need(m, "version", &f->version, note);
    if (!err) err = check_kind(m, note);
    if (!err) err = need(m, "trait_id", &other, note);
    if (!err) err = need(m, "mode", &mode, note);
    if (!err) err = one_of("mode", mode, modes, &choice, note);
    f->mode = (enum manifest_mode)choice;
    if (!err) err = need_list(m, "network_allowlist", MANIFEST_ALLOW_MAX, &allowed, &choice, note);
    if (!err) err = may(m, "config_schema_path", &other, note);
    if (!err) err = check_runtime(m, note);
    return err ? err : read_entry(m, note);
}

/* -- open and close -- */

enum err manifest_open(struct str toml, struct manifest **ret_manifest, struct note *note)
{
    struct manifest *m;
    enum err err;

    if (toml.len > MANIFEST_FILE_MAX)
        return note_fail(note, ERR_TOO_LARGE, "larger than %d bytes", MANIFEST_FILE_MAX);
    m = calloc(1, sizeof *m);
    if (!m) return ERR_NOMEM;
    arena_init(&m->memory, MEMORY_MAX);
    err = toml_open(toml, DOCUMENT_MAX, &m->document, NULL, note);
    if (!err) err = read_all(m, note);
    if (err)
        manifest_close(m);
    else
        *ret_manifest = m;
    return err;
}

void manifest_close(struct manifest *manifest)
{
    if (!manifest) return;
    toml_close(manifest->document);
    arena_deinit(&manifest->memory);
    free(manifest);
}

const struct manifest_facts *manifest_facts(const struct manifest *manifest)
{
    return &manifest->facts;
}

/* -- the manifest as JSON -- */

enum err manifest_json(const struct manifest *manifest, struct buf *into)
{
    const struct toml_value *odd = NULL;
    struct ndjson line;

    ndjson_begin_value(&line, into, NDJSON_LINE);
    toml_write_json(toml_root(manifest->document), NDJSON_ITEM, &line, &odd);
    return ndjson_end(&line);
}
