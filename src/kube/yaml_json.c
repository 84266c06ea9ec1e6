/* SPDX-License-Identifier: Apache-2.0 */
/* Converts YAML to JSON (yaml_json.h) from the events of libyaml. Pure, any thread.
 *
 * Invariant: values, keys and depth are bounded before memory is allocated for them. */
#include "kube/yaml_json.h"

#include <yaml.h>

#include "base/arena.h"

enum {
    ARENA_MAX = 64 << 20,
    JSON_BYTES_MAX = 6 * KUBE_YAML_BYTES_MAX + (4 << 20), /* each byte as \u00XX, plus commas */
};

struct key {
    struct str text;
    const struct key *before;
};
struct level { /* an open mapping or list */
    bool mapping;
    const struct key *keys; /* keys of the mapping that were read so far */
    size_t key_count;
    struct str key; /* key of the next value; NULL: the next event is a key */
};
struct reader {
    struct note *note;
    struct arena arena;
    struct ndjson out;
    struct level open[KUBE_YAML_DEPTH_MAX];
    size_t depth, nodes;
    bool ended;
};

static enum err refuse(struct reader *r, enum err err, yaml_mark_t at, const char *what)
{
    return note_fail(r->note, err, "line %zu, column %zu: %s", at.line + 1, at.column + 1, what);
}

static bool is_null(const yaml_event_t *event, struct str text)
{
    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    return text.len == 0 || str_equal(text, STR("~")) || str_equal(text, STR("null"));
}

static struct level *innermost(struct reader *r)
{
    return r->depth ? &r->open[r->depth - 1] : NULL;
}

/* Begins a value and sets *ret_key to its key. */
static enum err take_value(struct reader *r, const yaml_event_t *event, struct str *ret_key)
{
    struct level *level = innermost(r);

    *ret_key = NDJSON_ITEM;
    if (!level && r->nodes) return refuse(r, ERR_PARSE, event->start_mark, "a second document");
    if (++r->nodes > KUBE_YAML_NODES_MAX)
        return refuse(r, ERR_TOO_LARGE, event->start_mark, "too many values");
    if (!level || !level->mapping) return ERR_OK;
    if (!level->key.at) return refuse(r, ERR_PARSE, event->start_mark, "a key that is not a word");
    *ret_key = level->key;
    level->key = (struct str){NULL, 0};
    return ERR_OK;
}

static enum err take_container(struct reader *r, const yaml_event_t *event, bool mapping)
{
    struct str key;
    enum err err = take_value(r, event, &key);

    if (err) return err;
    if (r->depth == KUBE_YAML_DEPTH_MAX)
        return refuse(r, ERR_TOO_LARGE, event->start_mark, "nested too deep");
    r->open[r->depth++] = (struct level){.mapping = mapping};
    (mapping ? ndjson_open_object : ndjson_open_array)(&r->out, key);
    return ERR_OK;
}

static enum err take_key(struct reader *r, const yaml_event_t *event, struct level *level,
                         struct str text)
{
    struct key *key;
    char *copy;

    for (const struct key *k = level->keys; k; k = k->before)
        if (str_equal(k->text, text))
            return refuse(r, ERR_PARSE, event->start_mark, "a key that is there twice");
    if (level->key_count++ == KUBE_YAML_KEYS_MAX)
        return refuse(r, ERR_TOO_LARGE, event->start_mark, "too many keys");
    key = ARENA_NEW(&r->arena, struct key);
    copy = arena_dup(&r->arena, text);
    if (!key || !copy) return refuse(r, ERR_NOMEM, event->start_mark, "out of memory");
    *key = (struct key){str_of(copy, text.len), level->keys};
    level->keys = key;
    level->key = key->text;
    return ERR_OK;
}

static enum err take_scalar(struct reader *r, const yaml_event_t *event)
{
    struct str key, text = str_of(event->data.scalar.value, event->data.scalar.length);
    struct level *level = innermost(r);
    enum err err;

    if (str_has(text, '\0')) return refuse(r, ERR_PARSE, event->start_mark, "a NUL in a value");
    if (level && level->mapping && !level->key.at) return take_key(r, event, level, text);
    err = take_value(r, event, &key);
    if (err) return err;
    if (is_null(event, text))
        ndjson_null(&r->out, key);
    else
        ndjson_string(&r->out, key, text);
    return ERR_OK;
}

static enum err take_event(struct reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT: return take_scalar(r, event);
    case YAML_MAPPING_START_EVENT: return take_container(r, event, true);
    case YAML_SEQUENCE_START_EVENT: return take_container(r, event, false);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        (innermost(r)->mapping ? ndjson_close_object : ndjson_close_array)(&r->out);
        r->depth--;
        return ERR_OK;
    case YAML_ALIAS_EVENT:
        return refuse(r, ERR_UNSUPPORTED, event->start_mark, "aliases are not supported");
    case YAML_STREAM_END_EVENT:
        r->ended = true;
        return r->nodes ? ERR_OK : refuse(r, ERR_PARSE, event->start_mark, "no document");
    default: return ERR_OK; /* events that start or end the stream or document */
    }
}

static enum err read_all(struct reader *r, yaml_parser_t *parser)
{
    enum err err = ERR_OK;

    /* Ends, because all but a bounded number of events consume bytes of the text. */
    while (!err && !r->ended) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            if (parser->error == YAML_MEMORY_ERROR)
                return refuse(r, ERR_NOMEM, parser->problem_mark, "out of memory");
            return refuse(r, ERR_PARSE, parser->problem_mark,
                          parser->problem ? parser->problem : "not YAML");
        }
        err = take_event(r, &event);
        yaml_event_delete(&event);
    }
    return err;
}

enum err kube_yaml_open(struct str text, struct json **ret_json, struct note *note)
{
    struct reader reader = {.note = note};
    yaml_parser_t parser;
    struct buf json;
    enum err err, written;

    if (text.len > KUBE_YAML_BYTES_MAX)
        return note_fail(note, ERR_TOO_LARGE, "larger than %d bytes", KUBE_YAML_BYTES_MAX);
    if (!yaml_parser_initialize(&parser)) return note_fail(note, ERR_NOMEM, "out of memory");
    arena_init(&reader.arena, ARENA_MAX);
    buf_init(&json, JSON_BYTES_MAX);
    ndjson_begin_value(&reader.out, &json, NDJSON_LINE);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.at, text.len);
    err = read_all(&reader, &parser);
    yaml_parser_delete(&parser);
    if (!err) {
        written = ndjson_end(&reader.out);
        err = written ? written : json_open(buf_peek(&json), JSON_BYTES_MAX, ret_json, note);
        if (written) note_set(note, "%s", err_text(err));
    }
    buf_deinit(&json);
    arena_deinit(&reader.arena);
    return err;
}
