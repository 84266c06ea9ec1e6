/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a pod, and writes its CapacityRequest. */
#include "model/quantity.h"
#include "operator/kube/objects.h"

#define NOTE_IGNORE KUBE_CRD_GROUP "/ignore"
#define NOTE_MIRROR "kubernetes.io/config.mirror"

static bool is_daemon(const struct json *pod)
{
    const struct json *owners = json_find(pod, "metadata.ownerReferences");

    for (size_t i = 0; owners && i < json_count(owners); i++)
        if (str_equal(kube_text(json_item(owners, i), "kind"), STR("DaemonSet"))) return true;
    return false;
}

enum err pod_read(const struct json *pod, struct pod_view *ret_view, struct note *note)
{
    struct str phase = kube_text(pod, "status.phase");
    bool finished = str_equal(phase, STR("Succeeded")) || str_equal(phase, STR("Failed"));
    enum err err = kube_names(pod, &ret_view->namespace_, &ret_view->name, &ret_view->uid, note);

    if (err) return err;
    ret_view->generation = kube_generation(pod);
    ret_view->node = kube_text(pod, "spec.nodeName");
    ret_view->leaving = json_find(pod, "metadata.deletionTimestamp") != NULL;
    ret_view->finished = finished;
    ret_view->moves = !finished && !is_daemon(pod) &&
                      kube_label(pod, "metadata.annotations", STR(NOTE_MIRROR)).len == 0;
    ret_view->wants =
        ret_view->moves &&
        !str_equal(kube_label(pod, "metadata.annotations", STR(NOTE_IGNORE)), STR("true"));
    return ERR_OK;
}

/* -- resources of a pod, computed as the Kubernetes scheduler does -- */

struct pod_amount {
    struct str name;
    struct quantity amount;
};
struct pod_amounts {
    struct pod_amount rows[KUBE_RESOURCES_MAX];
    size_t count;
};

static enum err amounts_row(struct pod_amounts *needs, struct str name, struct pod_amount **ret_row,
                            struct note *note)
{
    for (size_t i = 0; i < needs->count; i++)
        if (str_equal(needs->rows[i].name, name)) {
            *ret_row = &needs->rows[i];
            return ERR_OK;
        }
    if (needs->count == ARRAY_LEN(needs->rows))
        return note_fail(note, ERR_TOO_LARGE, "more than %d names of resources",
                         KUBE_RESOURCES_MAX);
    *ret_row = &needs->rows[needs->count++];
    **ret_row = (struct pod_amount){.name = name};
    return ERR_OK;
}

static enum err amounts_add(struct pod_amounts *needs, const struct json *amounts,
                            struct note *note)
{
    void *cursor = NULL;
    const struct json *value;
    struct str name;
    enum err err = ERR_OK;

    while (!err && amounts && json_next(amounts, &cursor, &name, &value)) {
        struct quantity amount;
        struct pod_amount *row;
        err = quantity_parse(kube_text(value, ""), &amount, note);
        if (!err) err = amounts_row(needs, name, &row, note);
        if (!err) err = quantity_add(&row->amount, &amount);
        if (err) note_prefix(note, "requests of %.*s", STR_ARG(name));
    }
    return err;
}

static enum err amounts_raise(struct pod_amounts *needs, const struct pod_amounts *to,
                              struct note *note)
{
    for (size_t i = 0; i < to->count; i++) {
        struct pod_amount *row;
        enum err err = amounts_row(needs, to->rows[i].name, &row, note);
        if (err) return err;
        if (quantity_compare(&row->amount, &to->rows[i].amount) < 0)
            row->amount = to->rows[i].amount;
    }
    return ERR_OK;
}

/* All containers run at once. An init container runs beside the earlier sidecar init containers. */
static enum err pod_needs(const struct json *pod, struct pod_amounts *ret_needs, struct note *note)
{
    const struct json *containers = json_find(pod, "spec.containers");
    const struct json *init = json_find(pod, "spec.initContainers");
    struct pod_amounts stay = {0}, most = {0};
    enum err err = ERR_OK;

    for (size_t i = 0; !err && init && i < json_count(init); i++) {
        const struct json *one = json_item(init, i);
        const struct json *requests = json_find(one, "resources.requests");
        struct pod_amounts now;
        if (str_equal(kube_text(one, "restartPolicy"), STR("Always")))
            err = amounts_add(&stay, requests, note);
        now = stay;
        if (!err && !str_equal(kube_text(one, "restartPolicy"), STR("Always")))
            err = amounts_add(&now, requests, note);
        if (!err) err = amounts_raise(&most, &now, note);
    }
    *ret_needs = stay;
    for (size_t i = 0; !err && containers && i < json_count(containers); i++)
        err =
            amounts_add(ret_needs, json_find(json_item(containers, i), "resources.requests"), note);
    if (!err) err = amounts_raise(ret_needs, &most, note);
    if (!err) err = amounts_add(ret_needs, json_find(pod, "spec.overhead"), note);
    return err;
}

enum err pod_requests(const struct json *pod, struct dimensions *dimensions,
                      struct resources *ret_requests, struct note *note)
{
    char texts[KUBE_RESOURCES_MAX][QUANTITY_TEXT_CAP];
    struct label pairs[KUBE_RESOURCES_MAX];
    struct pod_amounts needs;
    enum err err = pod_needs(pod, &needs, note);

    for (size_t i = 0; i < needs.count && !err; i++)
        pairs[i] = (struct label){needs.rows[i].name,
                                  str_of(texts[i], quantity_text(&needs.rows[i].amount, texts[i]))};
    return err ? err
               : resources_parse(dimensions, "requests", pairs, needs.count, ret_requests, note);
}

/* -- writing the CapacityRequest -- */

static void put_requirements(struct ndjson *w, const struct json *pod)
{
    const struct json *selector = json_find(pod, "spec.nodeSelector"), *value;
    const struct json *terms = json_find(pod, "spec.affinity.nodeAffinity."
                                              "requiredDuringSchedulingIgnoredDuringExecution."
                                              "nodeSelectorTerms.0.matchExpressions");
    void *cursor = NULL;
    struct str key;

    ndjson_open_array(w, STR("requirements"));
    while (selector && json_next(selector, &cursor, &key, &value)) {
        ndjson_open_object(w, NDJSON_ITEM);
        ndjson_string(w, STR("key"), key);
        ndjson_c_string(w, STR("operator"), "In");
        ndjson_open_array(w, STR("values"));
        ndjson_string(w, NDJSON_ITEM, kube_text(value, ""));
        ndjson_close_array(w);
        ndjson_close_object(w);
    }
    /* Terms are alternatives, so the first one is enough. */
    for (size_t i = 0; terms && i < json_count(terms); i++)
        kube_put(w, NDJSON_ITEM, json_item(terms, i));
    ndjson_close_array(w);
}

static void put_spreads(struct ndjson *w, const struct json *pod)
{
    const struct json *spreads = json_find(pod, "spec.topologySpreadConstraints");

    ndjson_open_array(w, STR("topologySpread"));
    for (size_t i = 0; spreads && i < json_count(spreads); i++) {
        const struct json *one = json_item(spreads, i);
        int64_t skew = 1;
        (void)json_get_i64(one, "maxSkew", &skew, NULL);
        ndjson_open_object(w, NDJSON_ITEM);
        ndjson_string(w, STR("topologyKey"), kube_text(one, "topologyKey"));
        ndjson_i64(w, STR("maxSkew"), skew);
        ndjson_string(w, STR("whenUnsatisfiable"), kube_text(one, "whenUnsatisfiable"));
        ndjson_close_object(w);
    }
    ndjson_close_array(w);
}

static void put_colocation(struct ndjson *w, const struct json *pod)
{
    const struct json *term = json_find(
        pod, "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.0");
    const struct json *selector = term ? json_find(term, "labelSelector") : NULL;

    if (!term) return;
    ndjson_open_object(w, STR("coLocation"));
    ndjson_string(w, STR("topologyKey"), kube_text(term, "topologyKey"));
    if (selector) kube_put(w, STR("labelSelector"), selector);
    ndjson_close_object(w);
}

/* With an owner reference, the API server deletes the request with the pod, even if no operator
 * runs. */
static void put_owner(struct ndjson *w, const struct pod_view *pod)
{
    ndjson_open_array(w, STR("ownerReferences"));
    ndjson_open_object(w, NDJSON_ITEM);
    ndjson_c_string(w, STR("apiVersion"), "v1");
    ndjson_c_string(w, STR("kind"), "Pod");
    ndjson_string(w, STR("name"), pod->name);
    ndjson_string(w, STR("uid"), pod->uid);
    ndjson_close_object(w);
    ndjson_close_array(w);
}

static void put_amounts(struct ndjson *w, const struct pod_amounts *needs)
{
    ndjson_open_object(w, STR("resources"));
    for (size_t i = 0; i < needs->count; i++) {
        char text[QUANTITY_TEXT_CAP];
        size_t len = quantity_text(&needs->rows[i].amount, text);
        ndjson_string(w, needs->rows[i].name, str_of(text, len));
    }
    ndjson_close_object(w);
}

enum err capacity_write(const struct json *pod, struct str version, struct buf *out,
                        struct note *note)
{
    static const char *const penalties[][2] = {
        {KUBE_CRD_GROUP "/interruption-penalty", "interruptionPenalty"},
        {KUBE_CRD_GROUP "/reclamation-penalty", "reclamationPenalty"},
    };
    struct pod_amounts needs;
    struct pod_view view;
    struct ndjson w;
    int64_t priority = 0;
    enum err err = pod_read(pod, &view, note);

    if (!err) err = pod_needs(pod, &needs, note);
    if (err) return err;
    (void)json_get_i64(pod, "spec.priority", &priority, NULL);
    ndjson_begin(&w, out, NDJSON_LINE);
    kube_put_head(&w, "CapacityRequest", view.namespace_, view.name, version);
    put_owner(&w, &view);
    ndjson_close_object(&w);
    ndjson_open_object(&w, STR("spec"));
    ndjson_string(&w, STR("podUID"), view.uid);
    put_requirements(&w, pod);
    put_amounts(&w, &needs);
    ndjson_i64(&w, STR("priority"), priority);
    for (size_t i = 0; i < ARRAY_LEN(penalties); i++) {
        struct str value = kube_label(pod, "metadata.annotations", str_from(penalties[i][0]));
        if (value.len) ndjson_string(&w, str_from(penalties[i][1]), value);
    }
    put_spreads(&w, pod);
    put_colocation(&w, pod);
    ndjson_close_object(&w);
    return ndjson_end(&w);
}
