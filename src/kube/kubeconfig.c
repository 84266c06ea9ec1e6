/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes a kubeconfig: its current context names a cluster and a user. */
#include <stdio.h>
#include <stdlib.h>

#include "kube/config.h"
#include "kube/yaml_json.h"
#include "text/base64.h"

/* Unsupported settings that would change the identity or the address. */
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

/* NULL: the key is missing or its value is null. */
static const struct json *member(const struct json *node, const char *key)
{
    const struct json *value = NULL;

    if (node && json_kind(node) == JSON_KIND_OBJECT) value = json_member(node, str_from(key));
    return value && json_kind(value) != JSON_KIND_NULL ? value : NULL;
}

/* "": the key is missing. */
static enum err word_field(struct decoding *d, const struct json *node, const char *key,
                           struct str *ret_text)
{
    const struct json *value = member(node, key);

    *ret_text = STR_EMPTY;
    if (!value || !json_get_string(value, "", ret_text, NULL)) return ERR_OK;
    return note_fail(d->note, ERR_PARSE, "%s: not a word", key);
}

/* *ret_text is unchanged if the key is missing. */
static enum err text_field(struct decoding *d, const struct json *node, const char *key,
                           char **ret_text)
{
    struct str text;
    enum err err = word_field(d, node, key, &text);

    if (err || text.len == 0) return err;
    *ret_text = str_dup(text);
    return *ret_text ? ERR_OK : no_memory(d->note);
}

static enum err path_field(struct decoding *d, const struct json *node, const char *key,
                           char **ret_path)
{
    struct str path;
    enum err err = word_field(d, node, key, &path);

    if (err || path.len == 0) return err;
    if (path.at[0] == '/' || !d->directory) return text_field(d, node, key, ret_path);
    if (asprintf(ret_path, "%s/%.*s", d->directory, STR_ARG(path)) >= 0) return ERR_OK;
    *ret_path = NULL;
    return no_memory(d->note);
}

static enum err data_field(struct decoding *d, const struct json *node, const char *key,
                           char **ret_text)
{
    struct str encoded;
    struct buf bytes;
    enum err err = word_field(d, node, key, &encoded);

    if (err || encoded.len == 0) return err;
    buf_init(&bytes, KUBE_PEM_MAX);
    err = base64_decode(encoded, &bytes);
    if (!err && str_has(buf_peek(&bytes), '\0')) err = ERR_PARSE;
    if (!err) err = buf_detach(&bytes, ret_text);
    if (err) note_set(d->note, "%s: %s", key, err_text(err));
    buf_deinit(&bytes);
    return err == ERR_FULL ? ERR_TOO_LARGE : err;
}

static enum err bool_field(struct decoding *d, const struct json *node, const char *key,
                           bool *ret_truth)
{
    struct str text;
    enum err err = word_field(d, node, key, &text);

    if (err || text.len == 0) return err;
    *ret_truth = str_equal(text, STR("true"));
    if (*ret_truth || str_equal(text, STR("false"))) return ERR_OK;
    return note_fail(d->note, ERR_PARSE, "%s: '%.*s' is neither true nor false", key,
                     STR_ARG(text));
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

/* Finds the mapping `what` of the entry called `name` in the list `lists`. */
static enum err find_named(struct decoding *d, const struct json *root, const char *lists,
                           const char *what, struct str name, const struct json **ret_node)
{
    const struct json *list = member(root, lists);
    bool is_list = list && json_kind(list) == JSON_KIND_ARRAY;
    struct str text;

    for (size_t i = 0; is_list && i < json_count(list); i++) {
        const struct json *given = member(json_item(list, i), "name");
        if (!given || json_get_string(given, "", &text, NULL)) continue;
        if (!str_equal(text, name)) continue;
        *ret_node = member(json_item(list, i), what);
        return ERR_OK; /* a missing mapping is equal to an empty one */
    }
    return note_fail(d->note, ERR_NOT_FOUND, "%s: no %s is called '%.*s'", lists, what,
                     STR_ARG(name));
}

static enum err decode_cluster(struct decoding *d, const struct json *cluster)
{
    struct kube_config *c = d->config;
    enum err err = refuse_any(d, cluster, cluster_refused, ARRAY_LEN(cluster_refused));

    if (!err) err = text_field(d, cluster, "server", &c->server);
    if (!err) err = text_field(d, cluster, "tls-server-name", &c->tls_server_name);
    if (!err) err = bool_field(d, cluster, "insecure-skip-tls-verify", &c->insecure_skip_verify);
    if (!err) err = data_field(d, cluster, "certificate-authority-data", &c->ca_pem);
    if (!err && !c->ca_pem) err = path_field(d, cluster, "certificate-authority", &c->ca_file);
    if (err) return err;
    if (!c->server) return note_fail(d->note, ERR_PARSE, "the cluster has no server");
    for (size_t len = strlen(c->server); len && c->server[len - 1] == '/';) c->server[--len] = '\0';
    if (c->insecure_skip_verify && (c->ca_pem || c->ca_file)) {
        note_set(d->note, "insecure-skip-tls-verify beside a certificate authority");
        return ERR_INVALID; /* one of the two settings must be wrong */
    }
    return ERR_OK;
}

static enum err decode_user(struct decoding *d, const struct json *user)
{
    struct kube_config *c = d->config;
    struct str token = STR_EMPTY;
    enum err err = refuse_any(d, user, user_refused, ARRAY_LEN(user_refused));

    if (!err) err = path_field(d, user, "tokenFile", &c->token_file);
    if (!err) err = word_field(d, user, "token", &token);
    if (!err && token.len > 0) err = kube_token_clean(token, &c->token, d->note);
    if (!err) err = data_field(d, user, "client-certificate-data", &c->client_cert_pem);
    if (!err && !c->client_cert_pem)
        err = path_field(d, user, "client-certificate", &c->client_cert_file);
    if (!err) err = data_field(d, user, "client-key-data", &c->client_key_pem);
    if (!err && !c->client_key_pem) err = path_field(d, user, "client-key", &c->client_key_file);
    if (err) return err;
    bool cert = c->client_cert_pem || c->client_cert_file;
    bool key = c->client_key_pem || c->client_key_file;
    if (cert != key)
        return note_fail(d->note, ERR_INVALID, "a client certificate and its key go together");
    return ERR_OK;
}

static enum err decode_context(struct decoding *d, const struct json *root, const char *wanted)
{
    const struct json *context = NULL, *cluster = NULL, *user = NULL;
    struct str name = str_from(wanted), cluster_name, user_name;
    enum err err = wanted ? ERR_OK : word_field(d, root, "current-context", &name);

    if (!err && name.len == 0) return note_fail(d->note, ERR_NOT_FOUND, "no current-context");
    if (!err) err = find_named(d, root, "contexts", "context", name, &context);
    if (!err) err = word_field(d, context, "cluster", &cluster_name);
    if (!err) err = word_field(d, context, "user", &user_name);
    if (!err) err = text_field(d, context, "namespace", &d->config->namespace_);
    if (!err && cluster_name.len == 0)
        return note_fail(d->note, ERR_PARSE, "context '%.*s' names no cluster", STR_ARG(name));
    if (!err) err = find_named(d, root, "clusters", "cluster", cluster_name, &cluster);
    if (!err) err = decode_cluster(d, cluster);
    if (!err && user_name.len > 0) err = find_named(d, root, "users", "user", user_name, &user);
    return err ? err : decode_user(d, user);
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
