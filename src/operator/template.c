#include "operator/template.h"

#include <stdlib.h>

#include "base/arena.h"
#include "text/ndjson.h"

enum part_kind { PART_TEXT, PART_CLUSTER, PART_REQUEST, PART_REQUIREMENTS, PART_REQUIREMENT };
struct part {
    enum part_kind kind;
    struct str text;      /* TEXT; REQUIREMENT: the key */
    struct str otherwise; /* REQUIREMENT */
    bool has_otherwise;
};
struct template
{
    struct arena arena;
    struct part *parts;
    size_t count, cap;
};

static enum err add(struct template *t, struct part part)
{
    struct part *more;

    if (part.kind == PART_TEXT && part.text.len == 0) return ERR_OK;
    if (t->count == TEMPLATE_PARTS_MAX) return ERR_TOO_LARGE;
    if (t->count == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 16;
        more = realloc(t->parts, t->cap * sizeof *more);
        if (!more) return ERR_NOMEM;
        t->parts = more;
    }
    t->parts[t->count++] = part;
    return ERR_OK;
}

static enum err add_requirement(struct template *t, struct str rest, struct note *note)
{
    struct part part = {.kind = PART_REQUIREMENT};
    size_t bar = str_find(rest, '|');

    part.text = str_trim(str_of(rest.at, bar));
    part.has_otherwise = bar < rest.len;
    part.otherwise = str_trim(str_tail(rest, bar + 1));
    if (requirement_key_check("requirement", part.text, note)) return ERR_PARSE;
    return add(t, part);
}

static enum err add_placeholder(struct template *t, struct str word, struct note *note)
{
    const struct {
        struct str word;
        struct part part;
    } words[] = {
        {STR("cluster_id"), {.kind = PART_CLUSTER}},
        {STR("request_id"), {.kind = PART_REQUEST}},
        {STR("requirements"), {.kind = PART_REQUIREMENTS}},
        {STR("open"), {.kind = PART_TEXT, .text = STR("{{")}},
        {STR("close"), {.kind = PART_TEXT, .text = STR("}}")}},
    };

    word = str_trim(word);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (str_equal(word, words[i].word)) return add(t, words[i].part);
    if (str_starts(word, STR("requirement ")))
        return add_requirement(t, str_tail(word, sizeof "requirement"), note);
    note_set(note, "{{%.*s}} is no placeholder; a plain {{ is written {{open}}",
             (int)min_size(word.len, 60), word.at);
    return ERR_PARSE;
}

/* Where `two` stands, or the end. */
static size_t find_two(struct str text, const char *two)
{
    const char *at = text.len ? memmem(text.at, text.len, two, 2) : NULL;

    return at ? (size_t)(at - text.at) : text.len;
}

static size_t lines_in(struct str text)
{
    size_t lines = 0;

    for (size_t i = 0; i < text.len; i++) lines += text.at[i] == '\n';
    return lines;
}

static enum err read_parts(struct template *t, struct str text, struct note *note)
{
    struct str rest = text;
    enum err err = ERR_OK;

    while (!err && rest.len > 0) {
        size_t open = find_two(rest, "{{"), close;
        size_t line = 1 + lines_in(str_of(text.at, (size_t)(rest.at - text.at) + open));

        err = add(t, (struct part){.kind = PART_TEXT, .text = str_of(rest.at, open)});
        if (err || open == rest.len) break;
        rest = str_tail(rest, open + 2);
        close = find_two(rest, "}}");
        if (close == rest.len) {
            note_set(note, "line %zu: {{ without }}", line);
            return ERR_PARSE;
        }
        err = add_placeholder(t, str_of(rest.at, close), note);
        if (err == ERR_PARSE) note_prefix(note, "line %zu", line);
        rest = str_tail(rest, close + 2);
    }
    if (err == ERR_TOO_LARGE) note_set(note, "more than %d placeholders", TEMPLATE_PARTS_MAX);
    return err;
}

enum err template_open(struct str text, struct template **ret_template, struct note *note)
{
    struct template *t;
    char *copy;
    enum err err;

    if (text.len > TEMPLATE_BYTES_MAX) {
        note_set(note, "%zu bytes, at most %d are allowed", text.len, TEMPLATE_BYTES_MAX);
        return ERR_TOO_LARGE;
    }
    t = calloc(1, sizeof *t);
    if (!t) return ERR_NOMEM;
    arena_init(&t->arena, (size_t)2 * TEMPLATE_BYTES_MAX);
    copy = arena_dup(&t->arena, text);
    err = copy ? read_parts(t, str_of(copy, text.len), note) : ERR_NOMEM;
    if (err) {
        template_close(t);
        return err;
    }
    *ret_template = t;
    return ERR_OK;
}

void template_close(struct template *t)
{
    if (!t) return;
    arena_deinit(&t->arena);
    free(t->parts);
    free(t);
}

/* -- filling in -- */

static enum err write_requirements(const struct blob_request *request, struct buf *out)
{
    struct ndjson w;
    enum err err;

    ndjson_begin_value(&w, out, NDJSON_LINE);
    ndjson_open_array(&w, NDJSON_ITEM);
    for (size_t i = 0; i < request->requirement_count; i++) {
        const struct requirement *r = &request->requirements[i];
        ndjson_open_object(&w, NDJSON_ITEM);
        ndjson_string(&w, STR("key"), r->key);
        ndjson_c_string(&w, STR("operator"), operator_name(r->op));
        ndjson_open_array(&w, STR("values"));
        for (size_t v = 0; v < r->value_count; v++) ndjson_string(&w, NDJSON_ITEM, r->values[v]);
        ndjson_close_array(&w);
        ndjson_close_object(&w);
    }
    ndjson_close_array(&w);
    err = ndjson_end(&w);
    if (!err) out->len--; /* the end of the line */
    return err;
}

static enum err write_requirement(const struct part *part, const struct blob_request *request,
                                  struct buf *out, struct note *note)
{
    for (size_t i = 0; i < request->requirement_count; i++) {
        const struct requirement *r = &request->requirements[i];
        enum err err = ERR_OK;
        if (!str_equal(r->key, part->text) || r->op != OPERATOR_IN) continue;
        for (size_t v = 0; v < r->value_count && !err; v++) {
            if (v) err = buf_append_byte(out, ',');
            if (!err) err = buf_append(out, r->values[v]);
        }
        return err;
    }
    if (part->has_otherwise) return buf_append(out, part->otherwise);
    note_set(note, "the template wants a requirement on %.*s, and there is none",
             STR_ARG(part->text));
    return ERR_NOT_FOUND;
}

enum err template_render(const struct template *t, struct str cluster,
                         const struct blob_request *request, struct buf *out, struct note *note)
{
    size_t before = out->len;
    enum err err = ERR_OK;

    for (size_t i = 0; i < t->count && !err; i++) {
        const struct part *part = &t->parts[i];
        switch (part->kind) {
        case PART_TEXT: err = buf_append(out, part->text); break;
        case PART_CLUSTER: err = buf_append(out, cluster); break;
        case PART_REQUEST: err = buf_append(out, request->request_id); break;
        case PART_REQUIREMENTS: err = write_requirements(request, out); break;
        case PART_REQUIREMENT: err = write_requirement(part, request, out, note); break;
        }
    }
    if (err == ERR_FULL) note_set(note, "the blob has more than %zu bytes", out->max);
    if (err) out->len = before;
    return err;
}
