/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a kubeconfig: a current context names a cluster and a user, each in a list of named
 * entries. */
#include <stdio.h>
#include <stdlib.h>

#include "kube/config.h"
#include "kube/yaml_json.h"
#include "text/base64.h"

/* What would change who we are or where we connect, and is not done here. */
static const char *const user_refused[] = {"exec", "auth-provider", "username",  "password",
                                           "as",   "as-uid",        "as-groups", "as-user-extra"};
static const char *const cluster_refused[] = {"proxy-url"};

struct decoding {
    struct kube_config *config;
    const char *directory;
    struct note *note;
};

static enum err no_memory(struct note *note)
{
    return note_fail(note, ERR_NOMEM, "out of memory");
}

/* NULL: it is not there, or null. */
static const struct json *member(const struct json *node, const char *key)
{
    const struct json *value = NULL;

    if (node && json_kind(node) == JSON_KIND_OBJECT) value = json_member(node, str_from(key));
    return value && json_kind(value) != JSON_KIND_NULL ? value : NULL;
}

/* The scalar at `key`; *ret_text NULL when there is none. */
static enum err field(struct decoding *d, const struct json *node, const char *key, char **ret_text)
{
    const struct json *value = member(node, key);
    struct str text;

    if (!value) return ERR_OK;
    if (json_get_string(value, "", &text, NULL))
        return note_fail(d->note, ERR_PARSE, "%s: not a word", key);
    if (text.len == 0) return ERR_OK;
    *ret_text = str_dup(text);
    return *ret_text ? ERR_OK : no_memory(d->note);
}

static enum err path_field(struct decoding *d, const struct json *node, const char *key,
                           char **ret_path)
{
    char *path = NULL;
    enum err err = field(d, node, key, &path);

    if (!err && path && path[0] != '/' && d->directory) {
        char *joined;
        int len = asprintf(&joined, "%s/%s", d->directory, path);
        free(path);
        path = joined;
        if (len < 0) err = no_memory(d->note);
    }
    if (err) return err;
    *ret_path = path;
    return ERR_OK;
}

static enum err data_field(struct decoding *d, const struct json *node, const char *key,
                           char **ret_text)
{
    char *encoded = NULL;
    struct buf bytes;
    enum err err = field(d, node, key, &encoded);

    if (err || !encoded) return err;
    buf_init(&bytes, KUBE_PEM_MAX);
    err = base64_decode(str_from(encoded), &bytes);
    if (!err && str_has(buf_peek(&bytes), '\0')) err = ERR_PARSE;
    if (!err) err = buf_detach(&bytes, ret_text);
    if (err) note_set(d->note, "%s: %s", key, err_text(err));
    buf_deinit(&bytes);
    free(encoded);
    return err == ERR_FULL ? ERR_TOO_LARGE : err;
}

static enum err refuse_any(struct decoding *d, const struct json *node, const char *const *names,
                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (member(node, names[i]))
            return note_fail(d->note, ERR_UNSUPPORTED,
                             "'%s' is not supported here; use a token or a certificate", names[i]);
    return ERR_OK;
}

/* The mapping `what` of the entry called `name` in the list `lists`. */
static enum err named(struct decoding *d, const struct json *root, const char *lists,
                      const char *what, const char *name, const struct json **ret_node)
{
    const struct json *list = member(root, lists);
    bool is_list = list && json_kind(list) == JSON_KIND_ARRAY;
    struct str text;

    for (size_t i = 0; is_list && i < json_count(list); i++) {
        const struct json *given = member(json_item(list, i), "name");
        if (!given || json_get_string(given, "", &text, NULL)) continue;
        if (!str_equal(text, str_from(name))) continue;
        *ret_node = member(json_item(list, i), what);
        return ERR_OK; /* without a body it asks for nothing, as an empty one */
    }
    return note_fail(d->note, ERR_NOT_FOUND, "%s: no %s is called '%s'", lists, what, name);
}

static enum err boolean(struct decoding *d, const struct json *node, const char *key,
                        bool *ret_truth)
{
    char *text = NULL;
    enum err err = field(d, node, key, &text);

    if (err || !text) return err;
    if (str_equal(str_from(text), STR("true")))
        *ret_truth = true;
    else if (str_equal(str_from(text), STR("false")))
        *ret_truth = false;
    else {
        note_set(d->note, "%s: '%s' is neither true nor false", key, text);
        err = ERR_PARSE;
    }
    free(text);
    return err;
}

static enum err decode_cluster(struct decoding *d, const struct json *cluster)
{
    struct kube_config *c = d->config;
    enum err err = refuse_any(d, cluster, cluster_refused, ARRAY_LEN(cluster_refused));

    if (!err) err = field(d, cluster, "server", &c->server);
    if (!err) err = field(d, cluster, "tls-server-name", &c->tls_server_name);
    if (!err) err = boolean(d, cluster, "insecure-skip-tls-verify", &c->insecure_skip_verify);
    if (!err) err = data_field(d, cluster, "certificate-authority-data", &c->ca_pem);
    if (!err && !c->ca_pem) err = path_field(d, cluster, "certificate-authority", &c->ca_file);
    if (err) return err;
    if (!c->server) return note_fail(d->note, ERR_PARSE, "the cluster has no server");
    for (size_t len = strlen(c->server); len && c->server[len - 1] == '/';) c->server[--len] = '\0';
    if (c->insecure_skip_verify && (c->ca_pem || c->ca_file)) {
        note_set(d->note, "insecure-skip-tls-verify beside a certificate authority");
        return ERR_INVALID; /* as every client: one of the two is a mistake */
    }
    return ERR_OK;
}

static enum err decode_user(struct decoding *d, const struct json *user)
{
    struct kube_config *c = d->config;
    char *token = NULL;
    enum err err = refuse_any(d, user, user_refused, ARRAY_LEN(user_refused));

    if (!err) err = path_field(d, user, "tokenFile", &c->token_file);
    if (!err) err = field(d, user, "token", &token);
    if (!err && token) err = kube_token_clean(str_from(token), &c->token, d->note);
    if (!err) err = data_field(d, user, "client-certificate-data", &c->client_cert_pem);
    if (!err && !c->client_cert_pem)
        err = path_field(d, user, "client-certificate", &c->client_cert_file);
    if (!err) err = data_field(d, user, "client-key-data", &c->client_key_pem);
    if (!err && !c->client_key_pem) err = path_field(d, user, "client-key", &c->client_key_file);
    free(token);
    if (err) return err;
    bool cert = c->client_cert_pem || c->client_cert_file;
    bool key = c->client_key_pem || c->client_key_file;
    if (cert != key)
        return note_fail(d->note, ERR_INVALID,
                         "a client certificate and its key must stand together");
    return ERR_OK;
}

static enum err decode_context(struct decoding *d, const struct json *root, const char *wanted)
{
    const struct json *context = NULL, *cluster = NULL, *user = NULL;
    char *name = NULL, *cluster_name = NULL, *user_name = NULL;
    enum err err = ERR_OK;

    if (wanted)
        name = str_dup(str_from(wanted));
    else
        err = field(d, root, "current-context", &name);
    if (!err && !name) {
        if (wanted)
            err = no_memory(d->note);
        else {
            note_set(d->note, "no current-context");
            err = ERR_NOT_FOUND;
        }
    }
    if (!err) err = named(d, root, "contexts", "context", name, &context);
    if (!err) err = field(d, context, "cluster", &cluster_name);
    if (!err) err = field(d, context, "user", &user_name);
    if (!err) err = field(d, context, "namespace", &d->config->namespace_);
    if (!err && !cluster_name) {
        note_set(d->note, "context '%s' names no cluster", name);
        err = ERR_PARSE;
    }
    if (!err) err = named(d, root, "clusters", "cluster", cluster_name, &cluster);
    if (!err) err = decode_cluster(d, cluster);
    if (!err && user_name) err = named(d, root, "users", "user", user_name, &user);
    if (!err) err = decode_user(d, user);
    free(user_name);
    free(cluster_name);
    free(name);
    return err;
}

enum err kube_config_decode(struct str text, const char *directory, const char *context,
                            struct kube_config *ret_config, struct note *note)
{
    struct kube_config config = {0};
    struct decoding d = {&config, directory, note};
    struct json *root = NULL;
    enum err err = kube_yaml_open(text, &root, note);

    if (err) return err;
    if (json_kind(root) != JSON_KIND_OBJECT) {
        note_set(note, "not a kubeconfig: no mapping");
        err = ERR_PARSE;
    }
    if (!err) err = decode_context(&d, root, context);
    json_close(root);
    if (err) {
        kube_config_deinit(&config);
        return err;
    }
    *ret_config = config;
    return ERR_OK;
}
