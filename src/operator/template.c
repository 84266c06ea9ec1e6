/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: split into texts and placeholders when read, and joined when rendered. Every value is
 * checked for its context (plain, shell, json, yaml). No I/O. */
#include "operator/template.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "operator/template_shell.h"
#include "text/utf8.h"

struct template
{
    struct arena arena;
    struct buf parts; /* struct template_part */
};

static const struct template_part *template_parts(const struct template *t, size_t *ret_count)
{
    *ret_count = t->parts.len / sizeof(struct template_part);
    return (const void *)t->parts.data;
}

static enum err template_add(struct template *t, struct template_part part)
{
    enum err err;

    if (part.kind == PART_TEXT && part.text.len == 0) return ERR_OK;
    err = buf_append(&t->parts, str_of(&part, sizeof part));
    return err == ERR_FULL ? ERR_TOO_LARGE : err;
}

static enum err add_requirement(struct template *t, enum context context, size_t line,
                                struct str rest, struct note *note)
{
    struct template_part part = {.kind = PART_REQUIREMENT, .context = context, .line = line};
    size_t bar = str_find(rest, '|');

    part.text = str_trim(str_of(rest.at, bar));
    part.has_otherwise = bar < rest.len;
    part.otherwise = str_trim(str_tail(rest, bar + 1));
    if (requirement_key_check("requirement", part.text, note)) return ERR_PARSE;
    return template_add(t, part);
}

static enum context read_context(struct str *word)
{
    const struct {
        struct str prefix;
        enum context context;
    } contexts[] = {
        {STR("shell "), CONTEXT_SHELL}, {STR("json "), CONTEXT_JSON}, {STR("yaml "), CONTEXT_JSON}};

    for (size_t i = 0; i < ARRAY_LEN(contexts); i++) {
        if (!str_starts(*word, contexts[i].prefix)) continue;
        *word = str_trim(str_tail(*word, contexts[i].prefix.len));
        return contexts[i].context;
    }
    return CONTEXT_PLAIN;
}

static enum err add_placeholder(struct template *t, struct str text, size_t line, struct note *note)
{
    const struct {
        struct str word;
        struct template_part part;
    } words[] = {
        {STR("cluster_id"), {.kind = PART_CLUSTER}},
        {STR("request_id"), {.kind = PART_REQUEST}},
        {STR("requirements"), {.kind = PART_REQUIREMENTS}},
        {STR("open"), {.kind = PART_TEXT, .text = STR("{{")}},
        {STR("close"), {.kind = PART_TEXT, .text = STR("}}")}},
    };
    struct str word = str_trim(text);
    enum context context = read_context(&word);

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        struct template_part part = words[i].part;
        if (!str_equal(word, words[i].word)) continue;
        if (context != CONTEXT_PLAIN && part.kind == PART_TEXT) break;
        if (context == CONTEXT_JSON && part.kind == PART_REQUIREMENTS)
            return note_fail(
                note, ERR_PARSE,
                "{{requirements}} is JSON already, and YAML; write it without a context");
        part.context = context;
        part.line = line;
        return template_add(t, part);
    }
    if (str_starts(word, STR("requirement ")))
        return add_requirement(t, context, line, str_tail(word, sizeof "requirement"), note);
    return note_fail(note, ERR_PARSE,
                     "{{%.*s}} is not a placeholder; a plain {{ is written {{open}}",
                     (int)min_size(text.len, 60), text.at);
}

static size_t find_two(struct str text, const char *two)
{
    const char *at = text.len ? memmem(text.at, text.len, two, 2) : NULL;

    return at ? (size_t)(at - text.at) : text.len;
}

static bool is_quote(struct str text, size_t at)
{
    return at < text.len && str_has(STR("'\"`"), text.at[at]);
}

static bool is_quoted(struct str line)
{
    char open = '\0';

    for (size_t i = 0; i < line.len; i++) {
        char c = line.at[i];
        if (c == '\\' && open != '\'')
            i++;
        else if (open ? c == open : is_quote(line, i))
            open = open ? '\0' : c;
    }
    return open != '\0';
}

/* Refuses {{json}} inside quotes: the value would have two pairs of quotes. */
static enum err check_quotes(struct str before, struct str word, struct str after,
                             struct note *note)
{
    struct str rest = str_trim(word), line = before;
    const char *end = before.len ? memrchr(before.at, '\n', before.len) : NULL;

    if (read_context(&rest) != CONTEXT_JSON) return ERR_OK;
    if (end) line = str_tail(before, (size_t)(end - before.at) + 1);
    if (!is_quote(after, 0) && !is_quoted(line)) return ERR_OK;
    return note_fail(note, ERR_PARSE,
                     "{{%.*s}} quotes its value itself; remove the quotes around it",
                     (int)min_size(word.len, 60), word.at);
}

static enum err read_parts(struct template *t, struct str text, struct note *note)
{
    struct str rest = text;
    size_t line = 1;
    enum err err = ERR_OK;

    while (!err && rest.len > 0) {
        size_t open = find_two(rest, "{{"), close;
        struct str before = str_of(rest.at, open), word;

        err = template_add(t,
                           (struct template_part){.kind = PART_TEXT, .line = line, .text = before});
        if (err || open == rest.len) break;
        line += str_count(before, '\n');
        rest = str_tail(rest, open + 2);
        close = find_two(rest, "}}");
        if (close == rest.len) return note_fail(note, ERR_PARSE, "line %zu: {{ without }}", line);
        word = str_of(rest.at, close);
        rest = str_tail(rest, close + 2);
        err = check_quotes(str_of(text.at, (size_t)(word.at - 2 - text.at)), word, rest, note);
        if (!err) err = add_placeholder(t, word, line, note);
        if (err == ERR_PARSE) note_prefix(note, "line %zu", line);
        line += str_count(word, '\n');
    }
    if (err == ERR_TOO_LARGE) note_set(note, "more than %d placeholders", TEMPLATE_PARTS_MAX);
    return err;
}

enum err template_open(struct str text, struct template **ret_template, struct note *note)
{
    const struct template_part *parts;
    struct template *t;
    size_t count;
    char *copy;
    enum err err;

    if (text.len > TEMPLATE_BYTES_MAX)
        return note_fail(note, ERR_TOO_LARGE, "%zu bytes, at most %d are allowed", text.len,
                         TEMPLATE_BYTES_MAX);
    t = calloc(1, sizeof *t);
    if (!t) return ERR_NOMEM;
    arena_init(&t->arena, (size_t)2 * TEMPLATE_BYTES_MAX);
    buf_init(&t->parts, TEMPLATE_PARTS_MAX * sizeof(struct template_part));
    copy = arena_dup(&t->arena, text);
    err = copy ? read_parts(t, str_of(copy, text.len), note) : ERR_NOMEM;
    parts = template_parts(t, &count);
    if (!err) err = template_shell_check(parts, count, note);
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
    buf_deinit(&t->parts);
    free(t);
}

/* -- rendering a template -- */

/* True if no character has a special meaning in shells, YAML, JSON and TOML. */
static bool is_plain(struct str value)
{
    if (value.len == 0) return true;
    for (size_t i = 0; i < value.len; i++)
        if (!is_alphanumeric(value.at[i]) && !str_has(STR("._-/"), value.at[i])) return false;
    return is_alphanumeric(value.at[0]) && is_alphanumeric(value.at[value.len - 1]);
}

static bool has_control(struct str value)
{
    /* YAML forbids U+2028, U+2029, U+FFFE, U+FFFF and U+0080..U+009F, or takes them as newlines. */
    static const char *const sequences[] = {"\xe2\x80\xa8", "\xe2\x80\xa9", "\xef\xbf\xbe",
                                            "\xef\xbf\xbf"};

    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.at[i];
        if (c < ' ' || c == 0x7f) return true;
        if (c == 0xc2 && i + 1 < value.len && (unsigned char)value.at[i + 1] < 0xa0) return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(sequences); i++)
        if (value.len && memmem(value.at, value.len, sequences[i], 3)) return true;
    return false;
}

static enum err write_shell_word(struct str value, struct buf *out)
{
    enum err err = buf_append_byte(out, '\'');

    for (size_t i = 0; i < value.len && !err; i++)
        err = value.at[i] == '\'' ? buf_append_c(out, "'\\''") : buf_append_byte(out, value.at[i]);
    return err ? err : buf_append_byte(out, '\'');
}

/* Writes characters without a meaning in shells unchanged, and others as \uXXXX. A shell may drop
 * the backslash, but never executes the text. Characters above U+FFFF stay, because YAML has no
 * surrogate pairs. */
static enum err write_json_string(struct str value, struct buf *out)
{
    enum err err = buf_append_byte(out, '"');

    for (size_t i = 0, step; i < value.len && !err; i += step) {
        const unsigned char *at = (const unsigned char *)value.at + i;
        unsigned code = at[0];
        char escaped[8];
        step = utf8_step(value.at + i, value.len - i);
        if (step == 2) code = (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu);
        if (step == 3) code = (at[0] & 0xfu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
        if (step == 0) return ERR_INVALID; /* the text is not UTF-8 */
        snprintf(escaped, sizeof escaped, "\\u%04x", code & 0xffff);
        if (step == UTF8_LEN_MAX)
            err = buf_append(out, str_of(value.at + i, step));
        else if (is_alphanumeric(value.at[i]) || str_has(STR("_./:@-"), value.at[i]))
            err = buf_append_byte(out, value.at[i]);
        else
            err = buf_append_c(out, escaped);
    }
    return err ? err : buf_append_byte(out, '"');
}

static enum err write_value(const struct template_part *part, struct str value, struct buf *out,
                            struct note *note)
{
    char room[TEMPLATE_NAME_CAP];

    if (has_control(value))
        return note_fail(note, ERR_INVALID,
                         "the value of %s has a control character, which no context can carry",
                         template_part_name(part, room));
    if (!str_is_utf8(value))
        return note_fail(note, ERR_INVALID,
                         "the value of %s is not UTF-8, which no context can carry",
                         template_part_name(part, room));
    if (part->context == CONTEXT_SHELL) return write_shell_word(value, out);
    if (part->context == CONTEXT_JSON) return write_json_string(value, out);
    return buf_append(out, value);
}

static enum err plain_check(const struct template_part *part, struct str value, struct note *note)
{
    char room[TEMPLATE_NAME_CAP];
    const char *name = template_part_name(part, room);

    if (part->context != CONTEXT_PLAIN || is_plain(value)) return ERR_OK;
    return note_fail(
        note, ERR_INVALID,
        "the value '%.*s' of %s is not plain (letters and digits, inside also . _ - /); in the "
        "template write {{shell %s}}, {{json %s}} or {{yaml %s}}",
        (int)min_size(value.len, 80), value.at, name, name, name, name);
}

static enum err list_requirements(const struct blob_request *request, struct buf *list)
{
    enum err err = buf_append_byte(list, '[');

    for (size_t i = 0; i < request->requirement_count && !err; i++) {
        const struct requirement *r = &request->requirements[i];
        err = buf_append_c(list, i ? ",{\"key\":" : "{\"key\":");
        if (!err) err = write_json_string(r->key, list);
        if (!err) err = buf_append_c(list, ",\"operator\":");
        if (!err) err = write_json_string(str_from(operator_name(r->op)), list);
        if (!err) err = buf_append_c(list, ",\"values\":[");
        for (size_t v = 0; v < r->value_count && !err; v++) {
            if (v) err = buf_append_byte(list, ',');
            if (!err) err = write_json_string(r->values[v], list);
        }
        if (!err) err = buf_append_c(list, "]}");
    }
    return err ? err : buf_append_byte(list, ']');
}

static enum err list_values(const struct template_part *part, const struct requirement *r,
                            struct buf *list, struct note *note)
{
    enum err err = ERR_OK;

    for (size_t v = 0; v < r->value_count && !err; v++) {
        err = plain_check(part, r->values[v], note);
        if (!err && v) err = buf_append_byte(list, ',');
        if (!err) err = buf_append(list, r->values[v]);
    }
    return err;
}

static enum err render_requirement(const struct template_part *part,
                                   const struct blob_request *request, struct buf *scratch,
                                   struct buf *out, struct note *note)
{
    char room[TEMPLATE_NAME_CAP];

    for (size_t i = 0; i < request->requirement_count; i++) {
        const struct requirement *r = &request->requirements[i];
        enum err err;
        if (!str_equal(r->key, part->text) || r->op != OPERATOR_IN) continue;
        err = list_values(part, r, scratch, note);
        return err ? err : write_value(part, buf_peek(scratch), out, note);
    }
    if (part->has_otherwise) return write_value(part, part->otherwise, out, note);
    return note_fail(note, ERR_NOT_FOUND, "the template needs a %s, and the request has none",
                     template_part_name(part, room));
}

static enum err render_part(const struct template_part *part, struct str cluster,
                            const struct blob_request *request, struct buf *scratch,
                            struct buf *out, struct note *note)
{
    enum err err;

    buf_clear(scratch);
    switch (part->kind) {
    case PART_TEXT: return buf_append(out, part->text);
    case PART_CLUSTER:
        err = plain_check(part, cluster, note);
        return err ? err : write_value(part, cluster, out, note);
    case PART_REQUEST: return write_value(part, request->request_id, out, note);
    case PART_REQUIREMENTS:
        err = list_requirements(request, scratch);
        if (err == ERR_INVALID)
            note_set(note, "a requirement is not UTF-8, which JSON cannot carry");
        return err ? err : write_value(part, buf_peek(scratch), out, note);
    case PART_REQUIREMENT: return render_requirement(part, request, scratch, out, note);
    }
    assert(!"a part has one of the kinds above");
    return ERR_INVALID;
}

enum err template_render(const struct template *t, struct str cluster,
                         const struct blob_request *request, struct buf *out, struct note *note)
{
    size_t before = out->len, count;
    const struct template_part *parts = template_parts(t, &count);
    struct buf scratch;
    enum err err = ERR_OK;

    buf_init(&scratch, out->max);
    for (size_t i = 0; i < count && !err; i++)
        err = render_part(&parts[i], cluster, request, &scratch, out, note);
    buf_deinit(&scratch);
    if (err == ERR_FULL) note_set(note, "the blob has more than %zu bytes", out->max);
    if (err) out->len = before;
    return err;
}
