/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes a namespace, and probes its capabilities. */
#include <stdio.h>
#include <stdlib.h>

#include "base/hex.h"
#include "prim/kube/store.h"
#include "prim/stores.h"
#include "prim/url.h"

enum {
    TTL_MIN_MS = 2000,
    REVIEW_MAX = 512,
};

/* The object whose uid is the store's identity. If the object is deleted, old handles belong to
 * another store (R5). Without a bucket label the object is not an entry. */
#define STORE_OBJECT "muster-store"

static coord_caps kube_caps(struct prim_backend *backend)
{
    const struct kube_store *store = store_of(backend);
    coord_caps caps = {
        .bits = COORD_CAP_CREATE | COORD_CAP_CAS | COORD_CAP_TTL | COORD_CAP_SLOTS |
                COORD_CAP_LIST_ATOMIC | COORD_CAP_DURABLE | COORD_CAP_DURABLE_LEASED |
                COORD_CAP_HA | COORD_CAP_OBSERVED_EXPIRY | COORD_CAP_FORCE | COORD_CAP_LATE_RENEWAL,
        .scope = COORD_SCOPE_CLUSTER,
        .watch = store->can_watch ? COORD_WATCH_COALESCING : COORD_WATCH_NONE,
        .token = COORD_TOKEN_STORE,
        .replay = COORD_REPLAY_LAST,
        .server = "kubernetes coordination.k8s.io/v1",
        .note =
            "expiry is observed: a contender waits ttl + max(ttl/10, 1 s) of its own clock, from "
            "its own first sight; each renewal is one write of the cluster's etcd",
    };
    return caps;
}

static void kube_close_store(struct prim_backend *backend)
{
    struct kube_store *store = store_of(backend);

    kube_sights_deinit(&store->sights);
    kube_close(store->kube);
    pthread_mutex_destroy(&store->lock);
    free(store->namespace_);
    free(store);
}

static const struct prim_backend_ops ops = {
    .name = "k8s",
    .renewals_max = 20,
    .guards_max = 64, /* each watch is a connection and a thread */
    .capabilities = kube_caps,
    PRIM_CHANGE_OPS,
    .create = prim_change_create,
    .cas = prim_change_cas,
    .renew = prim_change_renew,
    .release = prim_change_release,
    .adopt = kube_op_adopt,
    .watch = kube_op_watch,
    .unwatch = kube_op_unwatch,
    .close = kube_close_store,
    .ways = &kube_ways,
};

/* -- probes -- */

static uint64_t open_left_ms(const struct prim_open *in)
{
    return (uint64_t)prim_left_ms(&in->clock, in->deadline_ns);
}

/* Asks the server for permission by an access review. No verb is tried on real objects. */
static coord_result review(struct kube_store *store, const struct prim_open *in, const char *verb,
                           bool *ret_allowed)
{
    struct kube_path path = {"authorization.k8s.io",     "v1", NULL,
                             "selfsubjectaccessreviews", NULL, NULL};
    struct kube_answer answer = {0};
    struct note note = {""};
    coord_result result = prim_ok(COORD_R_NONE);
    char body[REVIEW_MAX];
    int len = snprintf(body, sizeof body,
                       "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":"
                       "\"SelfSubjectAccessReview\",\"spec\":{\"resourceAttributes\":{"
                       "\"namespace\":\"%s\",\"verb\":\"%s\",\"group\":\"coordination.k8s.io\","
                       "\"resource\":\"leases\"}}}",
                       store->namespace_, verb);
    assert(len > 0 && len < REVIEW_MAX); /* is_dns_word allows 63 plain bytes */
    enum err err = kube_create(store->kube, &path, str_of(body, (size_t)len), open_left_ms(in),
                               &answer, &note);

    if (!err && json_get_bool(answer.object, "status.allowed", ret_allowed, &note))
        result = prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE, "access review: %s", note.text);
    if (err) {
        result = kube_store_err(store, err, &answer, &note);
        result.flags = 0; /* a review changes nothing */
    }
    kube_answer_deinit(&answer);
    return result;
}

static coord_result check_rights(struct kube_store *store, const struct prim_open *in)
{
    static const char *const verbs[] = {"get", "list", "create", "update"};
    coord_result result;
    bool allowed;

    for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
        allowed = false;
        result = review(store, in, verbs[i], &allowed);
        if (result.code != COORD_OK) return result;
        if (!allowed)
            return prim_answer(
                COORD_UNAVAILABLE, COORD_R_FORBIDDEN,
                "no right to %s leases in namespace %s; needed are get, list, watch, "
                "create and update",
                verbs[i], store->namespace_);
    }
    /* Without permission or answer, the capability bit is not set (C3). */
    allowed = false;
    result = review(store, in, "watch", &allowed);
    store->can_watch = result.code == COORD_OK && allowed;
    return prim_ok(COORD_R_NONE);
}

static coord_result find_identity(struct kube_store *store, const struct prim_open *in)
{
    static const char body[] = "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
                               "\"metadata\":{\"name\":\"" STORE_OBJECT "\"},\"spec\":{}}";
    struct kube_path object = kube_store_path(store, STORE_OBJECT),
                     all = kube_store_path(store, NULL);
    struct kube_answer answer = {0};
    struct note note = {""};
    struct str uid;
    coord_result result = prim_ok(COORD_R_NONE);
    enum err err = kube_get(store->kube, &object, open_left_ms(in), &answer, &note);

    if (err == ERR_NOT_FOUND) {
        kube_answer_deinit(&answer);
        err = kube_create(store->kube, &all, str_from(body), open_left_ms(in), &answer, &note);
        if (err == ERR_EXISTS || err == ERR_UNKNOWN) {
            kube_answer_deinit(&answer);
            err = kube_get(store->kube, &object, open_left_ms(in), &answer, &note);
        }
    }
    if (err) {
        result = kube_store_err(store, err, &answer, &note);
        result.flags = 0;
    } else if (json_get_string(answer.object, "metadata.uid", &uid, &note) ||
               !hex_read_id(uid, store->base.id.b)) {
        result =
            prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT, "lease %s has no uid", STORE_OBJECT);
    }
    kube_answer_deinit(&answer);
    prim_id_text(&store->base.id, store->id_text);
    return result;
}

/* -- opening -- */

/* Checks for lower-case letters and digits, with `signs` only between them. */
static bool is_dns_word(const char *word, size_t max, const char *signs)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t len = strlen(word);

    for (size_t i = 0; i < len; i++)
        if (!strchr(plain, word[i]) && (!strchr(signs, word[i]) || i == 0 || i == len - 1))
            return false;
    return len > 0 && len <= max;
}

static coord_result connect_as(struct kube_store *store, const struct kube_config_options *options,
                               const char *namespace_)
{
    struct kube_config config = {0};
    struct note note = {""};
    enum err err = kube_config_find(options, &config, &note);

    if (!err) err = kube_open(&config, &store->kube, &note);
    if (!err) {
        if (!namespace_) namespace_ = config.namespace_ ? config.namespace_ : "default";
        store->namespace_ = str_dup(str_from(namespace_));
        if (!store->namespace_) err = ERR_NOMEM;
    }
    kube_config_deinit(&config);
    if (err == ERR_NOMEM) return prim_no_memory();
    if (err == ERR_UNSUPPORTED)
        return prim_answer(COORD_UNSUPPORTED, COORD_R_SERVER, "%s", note.text);
    if (err) return prim_answer(COORD_INVALID, COORD_R_URL, "%s", note.text);
    if (!is_dns_word(store->namespace_, 63, "-"))
        return prim_answer(COORD_INVALID, COORD_R_URL, "not the name of a namespace");
    return prim_ok(COORD_R_NONE);
}

static coord_result open_by_url(struct kube_store *store, const struct prim_open *in)
{
    struct prim_url *url = in->url;
    const char *prefix = prim_url_param(url, "prefix");
    struct kube_config_options options = {.kubeconfig = prim_url_param(url, "kubeconfig"),
                                          .context = prim_url_param(url, "context")};
    coord_result result;

    if (url->host_count > 1 || (url->path[0] && strcmp(url->path, "/") != 0) || url->user)
        return prim_answer(COORD_INVALID, COORD_R_URL, "url: k8s://namespace, nothing more");
    if (!prefix) prefix = "muster";
    if (!is_dns_word(prefix, LEASE_PREFIX_MAX, "-."))
        return prim_answer(COORD_INVALID, COORD_R_URL, "url: prefix is a lower-case DNS name");
    memcpy(store->prefix, prefix, strlen(prefix) + 1);
    result = connect_as(store, &options, url->host_count ? url->hosts[0] : NULL);
    if (result.code == COORD_OK) result = check_rights(store, in);
    if (result.code == COORD_OK) result = find_identity(store, in);
    return result;
}

coord_result prim_kube_open(const struct prim_open *in, struct prim_backend **ret_backend)
{
    struct kube_store *store = calloc(1, sizeof *store);
    coord_result result;
    coord_id boot = prim_boot_id();

    if (!store || pthread_mutex_init(&store->lock, NULL)) {
        free(store);
        return prim_no_memory();
    }
    prim_backend_init(&store->base, &ops, in,
                      prim_limits(TTL_MIN_MS, PRIM_CHANGE_TTL_STEP_MS, PRIM_VALUE_MAX));
    if (!prim_id_is_zero(&boot)) prim_id_text(&boot, store->boot);
    kube_sights_init(&store->sights, prim_random());
    result = open_by_url(store, in);
    if (result.code != COORD_OK) {
        kube_close_store(&store->base);
        return result;
    }
    *ret_backend = &store->base;
    return result;
}
