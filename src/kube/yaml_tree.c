/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/yaml_tree.h"

#include <stdlib.h>
#include <yaml.h>

#include "base/arena.h"

enum { ARENA_MAX = 64 << 20 };
enum kind { NODE_SCALAR, NODE_MAPPING, NODE_LIST, NODE_NULL };

struct kube_yaml_node {
    enum kind kind;
    struct str key, text;         /* key: inside a mapping; text: of a scalar */
    struct kube_yaml_node *first; /* children, in the order of the text */
    struct kube_yaml_node *last, *next;
};

struct kube_yaml {
    struct arena arena;
    struct kube_yaml_node *root;
};

struct reader {
    struct kube_yaml *yaml;
    struct note *note;
    struct kube_yaml_node *open[KUBE_YAML_DEPTH_MAX];
    bool key_known[KUBE_YAML_DEPTH_MAX]; /* of the mapping at that depth: its value comes next */
    struct str key[KUBE_YAML_DEPTH_MAX];
    size_t depth, nodes;
    bool ended;
};

static enum err refuse(struct reader *r, enum err err, yaml_mark_t at, const char *what)
{
    note_set(r->note, "line %zu, column %zu: %s", at.line + 1, at.column + 1, what);
    return err;
}

static bool is_null(const yaml_event_t *event)
{
    struct str text = str_of(event->data.scalar.value, event->data.scalar.length);
    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    return text.len == 0 || str_equal(text, STR("~")) || str_equal(text, STR("null"));
}

static enum err take_text(struct reader *r, const yaml_event_t *event, struct str *ret_text)
{
    struct str text = str_of(event->data.scalar.value, event->data.scalar.length);
    char *copy;

    if (str_has(text, '\0')) return refuse(r, ERR_PARSE, event->start_mark, "a NUL in a value");
    copy = arena_dup(&r->yaml->arena, text);
    if (!copy) return refuse(r, ERR_NOMEM, event->start_mark, "out of memory");
    *ret_text = str_of(copy, text.len);
    return ERR_OK;
}

/* Hangs a new node under what is open, or makes it the root. */
static enum err add_node(struct reader *r, const yaml_event_t *event, enum kind kind,
                         struct str text)
{
    struct kube_yaml_node *node, *parent = r->depth ? r->open[r->depth - 1] : NULL;
    struct str key = STR_EMPTY;

    if (!parent && r->yaml->root)
        return refuse(r, ERR_PARSE, event->start_mark, "a second document");
    if (++r->nodes > KUBE_YAML_NODES_MAX)
        return refuse(r, ERR_TOO_LARGE, event->start_mark, "too many values");
    if (parent && parent->kind == NODE_MAPPING) {
        if (!r->key_known[r->depth - 1])
            return refuse(r, ERR_PARSE, event->start_mark, "a key that is not a word");
        key = r->key[r->depth - 1];
        r->key_known[r->depth - 1] = false;
    }
    node = ARENA_NEW(&r->yaml->arena, struct kube_yaml_node);
    if (!node) return refuse(r, ERR_NOMEM, event->start_mark, "out of memory");
    *node = (struct kube_yaml_node){.kind = kind, .key = key, .text = text};
    if (!parent)
        r->yaml->root = node;
    else if (parent->last)
        parent->last = parent->last->next = node;
    else
        parent->first = parent->last = node;
    if (kind == NODE_SCALAR || kind == NODE_NULL) return ERR_OK;
    if (r->depth == KUBE_YAML_DEPTH_MAX)
        return refuse(r, ERR_TOO_LARGE, event->start_mark, "nested too deep");
    r->key_known[r->depth] = false;
    r->open[r->depth++] = node;
    return ERR_OK;
}

static enum err scalar(struct reader *r, const yaml_event_t *event)
{
    struct kube_yaml_node *parent = r->depth ? r->open[r->depth - 1] : NULL;
    struct str text = STR_EMPTY;
    enum err err = take_text(r, event, &text);

    if (err) return err;
    if (!parent || parent->kind != NODE_MAPPING || r->key_known[r->depth - 1])
        return add_node(r, event, is_null(event) ? NODE_NULL : NODE_SCALAR, text);
    size_t keys = 0;
    for (const struct kube_yaml_node *n = parent->first; n; n = n->next, keys++)
        if (str_equal(n->key, text))
            return refuse(r, ERR_PARSE, event->start_mark, "a key that stands twice");
    if (keys == KUBE_YAML_KEYS_MAX)
        return refuse(r, ERR_TOO_LARGE, event->start_mark, "too many keys");
    r->key[r->depth - 1] = text;
    r->key_known[r->depth - 1] = true;
    return ERR_OK;
}

static enum err take_event(struct reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT: return scalar(r, event);
    case YAML_MAPPING_START_EVENT: return add_node(r, event, NODE_MAPPING, STR_EMPTY);
    case YAML_SEQUENCE_START_EVENT: return add_node(r, event, NODE_LIST, STR_EMPTY);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT: r->depth--; return ERR_OK;
    case YAML_ALIAS_EVENT:
        return refuse(r, ERR_UNSUPPORTED, event->start_mark, "aliases are not supported");
    case YAML_STREAM_END_EVENT:
        r->ended = true;
        if (!r->yaml->root) return refuse(r, ERR_PARSE, event->start_mark, "no document");
        return ERR_OK;
    default: return ERR_OK; /* stream and document marks */
    }
}

static enum err read_all(struct reader *r, yaml_parser_t *parser)
{
    enum err err = ERR_OK;

    /* Ends: every event but a bounded number of marks uses up bytes of a bounded text. */
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

enum err kube_yaml_open(struct str text, struct kube_yaml **ret_yaml, struct note *note)
{
    struct reader reader = {.note = note};
    yaml_parser_t parser;
    enum err err;

    if (text.len > KUBE_YAML_BYTES_MAX) {
        note_set(note, "larger than %d bytes", KUBE_YAML_BYTES_MAX);
        return ERR_TOO_LARGE;
    }
    reader.yaml = calloc(1, sizeof *reader.yaml);
    if (!reader.yaml || !yaml_parser_initialize(&parser)) {
        free(reader.yaml);
        note_set(note, "out of memory");
        return ERR_NOMEM;
    }
    arena_init(&reader.yaml->arena, ARENA_MAX);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.at, text.len);
    err = read_all(&reader, &parser);
    yaml_parser_delete(&parser);
    if (err) {
        kube_yaml_close(reader.yaml);
        return err;
    }
    *ret_yaml = reader.yaml;
    return ERR_OK;
}

void kube_yaml_close(struct kube_yaml *yaml)
{
    if (!yaml) return;
    arena_deinit(&yaml->arena);
    free(yaml);
}

const struct kube_yaml_node *kube_yaml_root(const struct kube_yaml *yaml)
{
    return yaml->root;
}

const struct kube_yaml_node *kube_yaml_member(const struct kube_yaml_node *mapping, const char *key)
{
    if (!kube_yaml_is_mapping(mapping)) return NULL;
    for (const struct kube_yaml_node *n = mapping->first; n; n = n->next)
        if (str_equal(n->key, str_from(key))) return n->kind == NODE_NULL ? NULL : n;
    return NULL;
}

const struct kube_yaml_node *kube_yaml_first(const struct kube_yaml_node *list)
{
    return kube_yaml_is_list(list) ? list->first : NULL;
}

const struct kube_yaml_node *kube_yaml_after(const struct kube_yaml_node *item)
{
    return item ? item->next : NULL;
}

bool kube_yaml_is_mapping(const struct kube_yaml_node *node)
{
    return node && node->kind == NODE_MAPPING;
}

bool kube_yaml_is_list(const struct kube_yaml_node *node)
{
    return node && node->kind == NODE_LIST;
}

bool kube_yaml_text(const struct kube_yaml_node *node, struct str *ret_text)
{
    if (!node || node->kind != NODE_SCALAR) return false;
    *ret_text = node->text;
    return true;
}
