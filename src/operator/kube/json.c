/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that all Kubernetes objects have: names, labels, metadata. No I/O. */
#include "operator/kube/objects.h"

struct str kube_text(const struct json *object, const char *path)
{
    struct str text;

    return json_get_string(object, path, &text, NULL) ? STR_EMPTY : text;
}

struct str kube_label(const struct json *object, const char *map, struct str key)
{
    const struct json *labels = json_find(object, map);
    const struct json *value = labels ? json_member(labels, key) : NULL;

    return value ? kube_text(value, "") : STR_EMPTY;
}

int64_t kube_generation(const struct json *object)
{
    int64_t generation = 0;

    return json_get_i64(object, "metadata.generation", &generation, NULL) ? 0 : generation;
}

enum err kube_names(const struct json *object, struct str *ret_namespace, struct str *ret_name,
                    struct str *ret_uid, struct note *note)
{
    enum err err = json_get_string(object, "metadata.namespace", ret_namespace, note);

    if (!err) err = json_get_string(object, "metadata.name", ret_name, note);
    if (!err) err = json_get_string(object, "metadata.uid", ret_uid, note);
    if (err) return ERR_PARSE;
    if (ret_uid->len == 0 || ret_uid->len > ID_MAX || ret_name->len >= KUBE_NAME_CAP ||
        ret_namespace->len >= KUBE_NAME_CAP)
        return note_fail(note, ERR_PARSE, "metadata: a name or uid of an impossible length");
    return ERR_OK;
}

bool kube_part_same(const struct json *a, const struct json *b, const char *part)
{
    const struct json *left = json_find(a, part), *right = json_find(b, part);

    return left && right && json_same(left, right);
}

void kube_put(struct ndjson *w, struct str key, const struct json *value)
{
    struct buf text;

    buf_init(&text, KUBE_OBJECT_MAX);
    if (json_write(value, NDJSON_LINE, &text))
        ndjson_raw(w, key, STR_EMPTY); /* makes the record invalid */
    else
        ndjson_raw(w, key, str_trim(buf_peek(&text)));
    buf_deinit(&text);
}

void kube_put_members(struct ndjson *w, const struct json *object, struct str but)
{
    void *cursor = NULL;
    const struct json *value;
    struct str key;

    while (object && json_next(object, &cursor, &key, &value))
        if (!str_equal(key, but)) kube_put(w, key, value);
}

void kube_put_head(struct ndjson *w, const char *kind, struct str namespace_, struct str name,
                   struct str version)
{
    ndjson_c_string(w, STR("apiVersion"), KUBE_CRD_GROUP "/" KUBE_CRD_VERSION);
    ndjson_c_string(w, STR("kind"), kind);
    ndjson_open_object(w, STR("metadata"));
    ndjson_string(w, STR("name"), name);
    if (namespace_.len) ndjson_string(w, STR("namespace"), namespace_);
    if (version.len) ndjson_string(w, STR("resourceVersion"), version);
    ndjson_open_object(w, STR("labels"));
    ndjson_c_string(w, KUBE_LABEL_MANAGED, KUBE_MANAGED_BY);
    ndjson_close_object(w);
}
