/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and reads the configuration of a client (config.h). Any thread.
 *
 * Invariant: a returned config refers to no file but the token file. */
#include "kube/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube/yaml_json.h"

#define TEXT(member) offsetof(struct kube_config, member)
static const size_t config_texts[] = {TEXT(server),           TEXT(tls_server_name), TEXT(ca_pem),
                                      TEXT(client_cert_pem),  TEXT(client_key_pem),  TEXT(token),
                                      TEXT(token_file),       TEXT(namespace_),      TEXT(ca_file),
                                      TEXT(client_cert_file), TEXT(client_key_file)};

void kube_config_deinit(struct kube_config *config)
{
    for (size_t i = 0; i < ARRAY_LEN(config_texts); i++) {
        char **text = (char **)((char *)config + config_texts[i]);
        free(*text);
        *text = NULL;
    }
}

enum err kube_config_copy(const struct kube_config *from, struct kube_config *to)
{
    *to = (struct kube_config){.insecure_skip_verify = from->insecure_skip_verify};
    for (size_t i = 0; i < ARRAY_LEN(config_texts); i++) {
        const char *text = *(char *const *)((const char *)from + config_texts[i]);
        if (!text) continue;
        *(char **)((char *)to + config_texts[i]) = str_dup(str_from(text));
        if (!*(char **)((char *)to + config_texts[i])) return ERR_NOMEM;
    }
    return ERR_OK;
}

enum err kube_token_clean(struct str text, char **ret_token, struct note *note)
{
    struct str token = str_trim(text);

    if (token.len == 0 || token.len > KUBE_TOKEN_MAX)
        return note_fail(note, ERR_INVALID, "a token of %zu bytes", token.len);
    /* Another byte could end the header and begin a second one. */
    for (size_t i = 0; i < token.len; i++)
        if (token.at[i] <= ' ' || token.at[i] > '~')
            return note_fail(note, ERR_INVALID, "a token with a byte that no header may hold");
    char *copy = str_dup(token);
    if (!copy) return note_fail(note, ERR_NOMEM, "out of memory");
    *ret_token = copy;
    return ERR_OK;
}

/* The text is on the heap. ERR_PARSE: the file contains a NUL byte. */
static enum err read_text(struct fs *fs, const char *path, size_t max, char **ret_text,
                          struct note *note)
{
    struct buf bytes;
    char *text = NULL;
    enum err err;

    buf_init(&bytes, max);
    err = fs_read_whole(fs, path, max, &bytes);
    if (!err && str_has(buf_peek(&bytes), '\0')) err = ERR_PARSE;
    if (!err) err = buf_detach(&bytes, &text);
    buf_deinit(&bytes);
    if (err) return note_fail(note, err, "%s: %s", path, err_text(err));
    *ret_text = text;
    return ERR_OK;
}

static enum err config_load_files(struct kube_config *config, struct fs *fs, struct note *note)
{
    struct {
        char **from, **into;
    } files[] = {{&config->ca_file, &config->ca_pem},
                 {&config->client_cert_file, &config->client_cert_pem},
                 {&config->client_key_file, &config->client_key_pem}};

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        if (!*files[i].from) continue;
        enum err err = read_text(fs, *files[i].from, KUBE_PEM_MAX, files[i].into, note);
        if (err) return err;
        free(*files[i].from);
        *files[i].from = NULL;
    }
    return ERR_OK;
}

static enum err join(const char *directory, const char *name, char **ret_path)
{
    if (asprintf(ret_path, "%s/%s", directory, name) >= 0) return ERR_OK;
    *ret_path = NULL;
    return ERR_NOMEM;
}

static enum err config_in_cluster(struct fs *fs, const char *host, const char *port,
                                  const char *account_dir, struct kube_config *ret_config,
                                  struct note *note)
{
    struct kube_config c = {0};
    char *path = NULL, *text = NULL;
    enum err err = ERR_OK;
    uint64_t number;

    if (!host[0] || strpbrk(host, "/@?# []") || str_to_u64(str_from(port), &number) ||
        number == 0 || number > UINT16_MAX)
        return note_fail(note, ERR_INVALID, "service '%s' port '%s' is no address", host, port);
    if (asprintf(&c.server, strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port) <
        0) {
        c.server = NULL;
        err = ERR_NOMEM;
    }
    if (!err) err = join(account_dir, "token", &c.token_file);
    if (!err) err = join(account_dir, "ca.crt", &c.ca_file);
    if (!err) err = join(account_dir, "namespace", &path);
    if (err) note_set(note, "%s", err_text(err));
    /* Read the token now, so that a pod without a service account fails at open. */
    if (!err) err = read_text(fs, c.token_file, KUBE_TOKEN_MAX, &text, note);
    if (!err) err = kube_token_clean(str_from(text), &c.token, note);
    free(text);
    text = NULL;
    if (!err) err = config_load_files(&c, fs, note);
    if (!err) err = read_text(fs, path, KUBE_TOKEN_MAX, &text, note);
    if (!err) {
        c.namespace_ = str_dup(str_trim(str_from(text)));
        if (!c.namespace_) err = ERR_NOMEM;
    }
    free(text);
    free(path);
    if (err) {
        note_prefix(note, "service account");
        kube_config_deinit(&c);
        return err;
    }
    *ret_config = c;
    return ERR_OK;
}

static enum err read_kubeconfig(struct fs *fs, const char *path, const char *context,
                                struct kube_config *ret_config, struct note *note)
{
    struct kube_config config = {0};
    char *text = NULL, *directory = NULL;
    const char *slash = strrchr(path, '/');
    enum err err = read_text(fs, path, KUBE_YAML_BYTES_MAX, &text, note);

    if (err) return err;
    directory = slash ? str_dup(str_of(path, (size_t)(slash - path))) : str_dup(STR("."));
    err = directory ? ERR_OK : ERR_NOMEM;
    if (err) note_set(note, "out of memory");
    if (!err) err = kube_config_decode(str_from(text), directory, context, &config, note);
    if (!err) err = config_load_files(&config, fs, note);
    free(directory);
    free(text);
    if (err) {
        note_prefix(note, "kubeconfig %s", path);
        kube_config_deinit(&config);
        return err;
    }
    *ret_config = config;
    return ERR_OK;
}

enum err kube_config_find(const struct kube_config_options *options, struct kube_config *ret_config,
                          struct note *note)
{
    struct fs *fs = options->fs ? options->fs : fs_real();
    const char *listed = getenv("KUBECONFIG"), *home = getenv("HOME");
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    const char *account = options->account_dir ? options->account_dir : KUBE_SERVICE_ACCOUNT_DIR;
    char path[FS_PATH_CAP];
    enum err err;

    if (options->kubeconfig)
        return read_kubeconfig(fs, options->kubeconfig, options->context, ret_config, note);
    if (listed && listed[0]) {
        if (strchr(listed, ':'))
            return note_fail(note, ERR_UNSUPPORTED,
                             "KUBECONFIG names several files; merging is not supported, name one");
        return read_kubeconfig(fs, listed, options->context, ret_config, note);
    }
    if (host && host[0] && port && port[0])
        return config_in_cluster(fs, host, port, account, ret_config, note);
    if (!home || snprintf(path, sizeof path, "%s/.kube/config", home) >= (int)sizeof path)
        return note_fail(note, ERR_NOT_FOUND, "no kubeconfig: no home directory");
    err = read_kubeconfig(fs, path, options->context, ret_config, note);
    if (err == ERR_NOT_FOUND) note_prefix(note, "no KUBECONFIG, no service account");
    return err;
}
