/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the objects that the operator shows (machines, hints) and the nodes that it cordons. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hex.h"
#include "operator/kube/objects.h"

/* -- names of objects -- */

#define UPCOMING_PREFIX "un-" /* fixed by the wire format */
#define NOTE_MACHINE    KUBE_CRD_GROUP "/machine"

bool kube_is_name(struct str id)
{
    if (id.len == 0 || id.len >= KUBE_NAME_CAP) return false;
    for (size_t i = 0; i < id.len; i++) {
        char c = id.at[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        bool between = i > 0 && i + 1 < id.len && (c == '-' || (c == '.' && id.at[i - 1] != '.'));
        if (!letter && !between) return false;
    }
    return true;
}

static void digest_name(const char *prefix, struct str of, char ret_name[KUBE_NAME_CAP])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    size_t at = (size_t)snprintf(ret_name, KUBE_NAME_CAP, "%s", prefix);

    if (EVP_Digest(of.at, of.len, digest, &len, EVP_sha256(), NULL) != 1) abort();
    assert(at + 2 * len < KUBE_NAME_CAP);
    hex_write(digest, len, ret_name + at);
}

void upcoming_name(struct str machine_id, char ret_name[KUBE_NAME_CAP])
{
    if (kube_is_name(machine_id) && sizeof UPCOMING_PREFIX - 1 + machine_id.len < KUBE_NAME_CAP)
        (void)snprintf(ret_name, KUBE_NAME_CAP, UPCOMING_PREFIX "%.*s", STR_ARG(machine_id));
    else /* "und-" keeps digests apart from ids, whose names begin with "un-" */
        digest_name("und-", machine_id, ret_name);
}

void available_name(struct str key, char ret_name[KUBE_NAME_CAP])
{
    struct str prefix = STR("available:");

    digest_name("ac-", str_starts(key, prefix) ? str_tail(key, prefix.len) : key, ret_name);
}

/* -- UpcomingNode and AvailableCapacity -- */

static void put_labels(struct ndjson *w, struct str key, const struct label *labels, size_t count)
{
    ndjson_open_object(w, key);
    for (size_t i = 0; i < count; i++) ndjson_string(w, labels[i].key, labels[i].value);
    ndjson_close_object(w);
}

enum err upcoming_body(const struct cluster_node *node, struct buf *out)
{
    struct ndjson w;

    ndjson_begin(&w, out, NDJSON_LINE);
    ndjson_open_object(&w, STR("spec"));
    ndjson_string(&w, STR("machineID"), node->machine_id);
    if (node->node_name.len) ndjson_string(&w, STR("nodeName"), node->node_name);
    if (node->provider_id.len) ndjson_string(&w, STR("providerID"), node->provider_id);
    put_labels(&w, STR("labels"), node->labels, node->label_count);
    put_labels(&w, STR("resources"), node->resources, node->resource_count);
    ndjson_open_array(&w, STR("taints"));
    for (size_t i = 0; i < node->taint_count; i++) {
        ndjson_open_object(&w, NDJSON_ITEM);
        ndjson_string(&w, STR("key"), node->taints[i].key);
        ndjson_string(&w, STR("value"), node->taints[i].value);
        ndjson_string(&w, STR("effect"), node->taints[i].effect);
        ndjson_close_object(&w);
    }
    ndjson_close_array(&w);
    ndjson_close_object(&w);
    ndjson_open_object(&w, STR("status"));
    ndjson_c_string(&w, STR("phase"), node_phase_name(node->phase));
    if (node->last_error.len) ndjson_string(&w, STR("lastError"), node->last_error);
    ndjson_close_object(&w);
    return ndjson_end(&w);
}

enum err upcoming_machine(const struct json *object, struct str *ret_machine_id, struct note *note)
{
    return json_get_string(object, "spec.machineID", ret_machine_id, note) ? ERR_PARSE : ERR_OK;
}

enum err available_body(const struct available *hint, struct buf *out)
{
    static const char *const confidences[] = {"Unknown", "None", "Low", "Medium", "High"};
    struct ndjson w;

    ndjson_begin(&w, out, NDJSON_LINE);
    ndjson_open_object(&w, STR("spec"));
    ndjson_open_array(&w, STR("requirements"));
    for (size_t i = 0; i < hint->requirement_count; i++) {
        const struct requirement *r = &hint->requirements[i];
        ndjson_open_object(&w, NDJSON_ITEM);
        ndjson_string(&w, STR("key"), r->key);
        ndjson_c_string(&w, STR("operator"), operator_name(r->op));
        ndjson_open_array(&w, STR("values"));
        for (size_t k = 0; k < r->value_count; k++) ndjson_string(&w, NDJSON_ITEM, r->values[k]);
        ndjson_close_array(&w);
        ndjson_close_object(&w);
    }
    ndjson_close_array(&w);
    ndjson_close_object(&w);
    ndjson_open_object(&w, STR("status"));
    ndjson_u64(&w, STR("count"), hint->count);
    ndjson_c_string(&w, STR("confidence"),
                    confidences[hint->confidence < ARRAY_LEN(confidences) ? hint->confidence : 0]);
    ndjson_double(&w, STR("costPerHour"), hint->cost_per_hour);
    ndjson_close_object(&w);
    return ndjson_end(&w);
}

enum err shown_write(const char *kind, const char *name, struct str version,
                     const struct json *body, struct buf *out)
{
    struct ndjson w;

    ndjson_begin(&w, out, NDJSON_LINE);
    kube_put_head(&w, kind, STR_EMPTY, str_from(name), version);
    ndjson_close_object(&w);
    kube_put_members(&w, body, STR_EMPTY);
    return ndjson_end(&w);
}

/* -- nodes of the cluster -- */

struct str node_machine(const struct json *node)
{
    return kube_label(node, "metadata.annotations", STR(NOTE_MACHINE));
}

enum err node_cordon_write(const struct json *node, struct str machine, bool *ret_already,
                           struct buf *out)
{
    const struct json *metadata = json_find(node, "metadata"), *value;
    struct ndjson w;
    struct str key;
    void *cursor = NULL;
    bool closed = false;

    *ret_already = !json_get_bool(node, "spec.unschedulable", &closed, NULL) && closed &&
                   str_equal(node_machine(node), machine);
    ndjson_begin(&w, out, NDJSON_LINE);
    while (json_next(node, &cursor, &key, &value))
        if (!str_equal(key, STR("spec")) && !str_equal(key, STR("metadata")))
            kube_put(&w, key, value);
    ndjson_open_object(&w, STR("metadata"));
    kube_put_members(&w, metadata, STR("annotations"));
    ndjson_open_object(&w, STR("annotations"));
    kube_put_members(&w, json_find(node, "metadata.annotations"), STR(NOTE_MACHINE));
    ndjson_string(&w, STR(NOTE_MACHINE), machine);
    ndjson_close_object(&w);
    ndjson_close_object(&w);
    ndjson_open_object(&w, STR("spec"));
    kube_put_members(&w, json_find(node, "spec"), STR("unschedulable"));
    ndjson_bool(&w, STR("unschedulable"), true);
    ndjson_close_object(&w);
    return ndjson_end(&w);
}

bool node_is(const struct json *node, struct str machine, struct str provider_id)
{
    if (provider_id.len) return str_equal(kube_text(node, "spec.providerID"), provider_id);
    return machine.len && str_equal(node_machine(node), machine);
}
