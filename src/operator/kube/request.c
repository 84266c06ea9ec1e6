/* SPDX-License-Identifier: Apache-2.0 */
/* A CapacityRequest: what it asks for, and what became of it. */
#include <math.h>

#include "operator/kube/json.h"
#include "text/real.h"

enum err capacity_view_read(const struct json *object, struct capacity_view *ret_view,
                            struct note *note)
{
    ret_view->generation = kube_generation(object);
    ret_view->pod_uid = kube_text(object, "spec.podUID");
    ret_view->phase = kube_text(object, "status.phase");
    ret_view->managed =
        str_equal(kube_label(object, "metadata.labels", KUBE_LABEL_MANAGED), STR(KUBE_MANAGED_BY));
    return kube_names(object, &ret_view->namespace_, &ret_view->name, &ret_view->uid, note);
}

static enum err read_texts(const struct json *array, struct arena *arena,
                           const struct str **ret_texts, size_t *ret_count, struct note *note)
{
    size_t count = array ? json_count(array) : 0;
    struct str *texts = arena_calloc(arena, count ? count : 1, sizeof *texts);

    if (!texts) return ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        enum err err = json_get_string(json_item(array, i), "", &texts[i], note);
        if (err) return err;
    }
    *ret_texts = texts;
    *ret_count = count;
    return ERR_OK;
}

static enum err read_requirement(const struct json *object, struct arena *arena,
                                 struct requirement *ret, struct note *note)
{
    struct str op;
    enum err err = json_get_string(object, "key", &ret->key, note);

    if (!err) err = json_get_string(object, "operator", &op, note);
    if (!err)
        err = read_texts(json_find(object, "values"), arena, &ret->values, &ret->value_count, note);
    if (err) return err;
    for (enum requirement_operator i = OPERATOR_IN; i <= OPERATOR_DOES_NOT_EXIST; i++)
        if (str_equal(op, str_from(operator_name(i)))) {
            ret->op = i;
            return ERR_OK;
        }
    note_set(note, "operator %.*s: a machine has no numbers to compare", STR_ARG(op));
    return ERR_UNSUPPORTED;
}

static enum err read_requirements(const struct json *spec, struct arena *arena, struct request *ret,
                                  struct note *note)
{
    const struct json *array = json_find(spec, "requirements");
    size_t count = array ? json_count(array) : 0;
    struct requirement *rows = arena_calloc(arena, count ? count : 1, sizeof *rows);
    enum err err = rows ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; !err && i < count; i++) {
        err = read_requirement(json_item(array, i), arena, &rows[i], note);
        if (err) note_prefix(note, "spec.requirements[%zu]", i);
    }
    ret->requirements = rows;
    ret->requirement_count = count;
    return err;
}

static enum err read_resources(const struct json *spec, struct arena *arena, struct request *ret,
                               struct note *note)
{
    const struct json *map = json_find(spec, "resources"), *value;
    size_t count = map ? json_count(map) : 0, i = 0;
    struct label *rows = arena_calloc(arena, count ? count : 1, sizeof *rows);
    void *cursor = NULL;

    if (!rows) return ERR_NOMEM;
    ret->resources = rows;
    while (map && json_next(map, &cursor, &rows[i].key, &value)) {
        enum err err = json_get_string(value, "", &rows[i].value, note);
        if (err) {
            note_prefix(note, "spec.resources.%.*s", STR_ARG(rows[i].key));
            return err;
        }
        if (++i == count) break;
    }
    ret->resource_count = i;
    return ERR_OK;
}

static enum err read_spreads(const struct json *spec, struct arena *arena, struct request *ret,
                             struct note *note)
{
    const struct json *array = json_find(spec, "topologySpread");
    size_t count = array ? json_count(array) : 0;
    struct spread *rows = arena_calloc(arena, count ? count : 1, sizeof *rows);
    enum err err = rows ? ERR_OK : ERR_NOMEM;

    for (size_t i = 0; !err && i < count; i++) {
        const struct json *one = json_item(array, i);
        int64_t skew = 1;
        err = json_get_string(one, "topologyKey", &rows[i].key, note);
        if (!err && json_find(one, "maxSkew")) err = json_get_i64(one, "maxSkew", &skew, note);
        if (err) note_prefix(note, "spec.topologySpread[%zu]", i);
        rows[i].max_skew = skew > INT32_MAX ? INT32_MAX : skew < 1 ? 1 : (int32_t)skew;
        rows[i].when = str_equal(kube_text(one, "whenUnsatisfiable"), STR("ScheduleAnyway"))
                           ? SPREAD_SCHEDULE_ANYWAY
                           : SPREAD_DO_NOT_SCHEDULE;
    }
    ret->spreads = rows;
    ret->spread_count = count;
    return err;
}

static enum err read_selector(const struct json *selector, struct arena *arena,
                              struct label **ret_labels, size_t *ret_label_count,
                              struct selector_term **ret_terms, size_t *ret_term_count,
                              struct note *note)
{
    const struct json *map = selector ? json_find(selector, "matchLabels") : NULL, *value;
    const struct json *terms = selector ? json_find(selector, "matchExpressions") : NULL;
    size_t labels = map ? json_count(map) : 0, expressions = terms ? json_count(terms) : 0, i = 0;
    void *cursor = NULL;

    *ret_labels = arena_calloc(arena, labels ? labels : 1, sizeof **ret_labels);
    *ret_terms = arena_calloc(arena, expressions ? expressions : 1, sizeof **ret_terms);
    *ret_label_count = labels;
    *ret_term_count = expressions;
    if (!*ret_labels || !*ret_terms) return ERR_NOMEM;
    while (i < labels && json_next(map, &cursor, &(*ret_labels)[i].key, &value))
        (*ret_labels)[i++].value = kube_text(value, "");
    for (i = 0; i < expressions; i++) {
        const struct json *one = json_item(terms, i);
        struct selector_term *term = &(*ret_terms)[i];
        enum err err = json_get_string(one, "key", &term->key, note);
        if (!err) err = json_get_string(one, "operator", &term->op, note);
        if (!err)
            err = read_texts(json_find(one, "values"), arena, &term->values, &term->value_count,
                             note);
        if (err) return err;
    }
    return ERR_OK;
}

static enum err read_colocation(const struct json *spec, struct arena *arena, struct request *ret,
                                struct note *note)
{
    const struct json *term = json_find(spec, "coLocation");
    struct selector_term *terms;
    struct label *labels;
    size_t label_count, term_count;
    struct buf group;
    char *copy;
    enum err err;

    if (!term) return ERR_OK;
    err = json_get_string(term, "topologyKey", &ret->same_key, note);
    if (!err)
        err = read_selector(json_find(term, "labelSelector"), arena, &labels, &label_count, &terms,
                            &term_count, note);
    if (err) {
        note_prefix(note, "spec.coLocation");
        return err;
    }
    buf_init(&group, KUBE_OBJECT_MAX);
    err = group_write(ret->same_key, labels, label_count, terms, term_count, &group);
    if (!err) {
        copy = arena_dup(arena, buf_peek(&group));
        ret->group = str_of(copy, buf_peek(&group).len);
        err = copy ? ERR_OK : ERR_NOMEM;
    }
    buf_deinit(&group);
    return err;
}

/* "2.5" dollars, or "pinned". */
static enum err read_penalty(const struct json *spec, const char *field, struct arena *arena,
                             bool *ret_has, double *ret_value, struct note *note)
{
    struct str text = kube_text(spec, field);
    char *copy;
    enum err err;

    *ret_has = json_find(spec, field) != NULL;
    if (!*ret_has) return ERR_OK;
    if (str_equal(text, STR("pinned"))) {
        *ret_value = (double)INFINITY;
        return ERR_OK;
    }
    copy = arena_dup(arena, text);
    err = copy ? real_read(copy, ret_value) : ERR_NOMEM;
    if (err) note_set(note, "spec.%s: expected dollars as \"2.5\", or \"pinned\"", field);
    return err;
}

enum err capacity_read(const struct json *object, struct arena *arena, struct request *ret_request,
                       struct note *note)
{
    const struct json *spec = json_find(object, "spec");
    struct request *r = ret_request;
    int64_t priority = 0, count = 1;
    enum err err = ERR_OK;

    *r = (struct request){0};
    if (!spec) {
        note_set(note, "spec: missing");
        return ERR_PARSE;
    }
    if (json_find(spec, "priority")) err = json_get_i64(spec, "priority", &priority, note);
    if (!err && json_find(spec, "count")) err = json_get_i64(spec, "count", &count, note);
    if (!err && (count < 1 || count > REQUEST_COUNT_MAX || priority != (int32_t)priority)) {
        note_set(note, "spec: count or priority out of bounds");
        err = ERR_INVALID;
    }
    r->priority = (int32_t)priority;
    r->count = (uint32_t)count;
    if (!err) err = read_requirements(spec, arena, r, note);
    if (!err) err = read_resources(spec, arena, r, note);
    if (!err) err = read_spreads(spec, arena, r, note);
    if (!err) err = read_colocation(spec, arena, r, note);
    if (!err)
        err = read_penalty(spec, "interruptionPenalty", arena, &r->has_interruption_penalty,
                           &r->interruption_penalty, note);
    if (!err)
        err = read_penalty(spec, "reclamationPenalty", arena, &r->has_reclamation_penalty,
                           &r->reclamation_penalty, note);
    return err;
}

enum err capacity_status_write(const struct json *object, const char *phase, struct str message,
                               struct buf *out)
{
    struct ndjson w;

    ndjson_begin(&w, out, NDJSON_LINE);
    kube_put_members(&w, object, STR("status"));
    ndjson_open_object(&w, STR("status"));
    ndjson_c_string(&w, STR("phase"), phase);
    if (message.len) ndjson_string(&w, STR("message"), message);
    ndjson_close_object(&w);
    return ndjson_end(&w);
}
