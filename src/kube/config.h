/* SPDX-License-Identifier: Apache-2.0 */
/* The address of the API server and the client's credentials, from a pod's service account or a
 * kubeconfig file.
 *
 * A kubeconfig setting that this client does not support is refused by name. Ignoring `exec` or
 * `as` would mean acting under a different identity. Files that a config names are read at once.
 * Only the token file is read again, whenever it changes. */
#ifndef KUBE_CONFIG_H
#define KUBE_CONFIG_H
#include "base/note.h"
#include "base/str.h"
#include "io/fs.h"

#define KUBE_SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"
enum {
    KUBE_PEM_MAX = 1 << 20,    /* bytes of a certificate, a bundle or a key */
    KUBE_TOKEN_MAX = 64 << 10, /* bytes of a token; real tokens have about 1,000 */
};

/* Heap strings owned by the config. A string that the source does not set is NULL. */
struct kube_config {
    char *server;          /* "https://10.0.0.1:6443", possibly with a path; no trailing slash */
    char *tls_server_name; /* NULL: the host of `server` */
    char *ca_pem;          /* NULL: the system's root certificates */
    char *client_cert_pem, *client_key_pem; /* both are set, or neither */
    char *token, *token_file;               /* token_file takes precedence, as in kubectl */
    char *namespace_;
    bool insecure_skip_verify;
    /* Paths from a kubeconfig, until kube_config_find() has read the files. */
    char *ca_file, *client_cert_file, *client_key_file;
};

void kube_config_deinit(struct kube_config *config); /* a zeroed or deinited config is fine */
/* Copies a config. After ERR_NOMEM *to is a partial copy, which the caller must deinit. */
enum err kube_config_copy(const struct kube_config *from, struct kube_config *to);

struct kube_config_options {
    struct fs *fs;           /* NULL: the kernel's file system */
    const char *kubeconfig;  /* path of the file; NULL: the search order of kube_config_find() */
    const char *context;     /* NULL: the file's current-context */
    const char *account_dir; /* NULL: KUBE_SERVICE_ACCOUNT_DIR */
};
/* Finds the config. The search order is: the given path; $KUBECONFIG; the service account when
 * KUBERNETES_SERVICE_HOST and _PORT are set; ~/.kube/config. Returns ERR_NOT_FOUND if all are
 * missing, ERR_PARSE, ERR_UNSUPPORTED (exec plugins and similar, named in the note), ERR_INVALID,
 * ERR_TOO_LARGE, or an error of fs.h. */
enum err kube_config_find(const struct kube_config_options *options, struct kube_config *ret_config,
                          struct note *note);
/* Decodes a kubeconfig without reading other files. Relative paths start at `directory`. */
enum err kube_config_decode(struct str text, const char *directory, const char *context,
                            struct kube_config *ret_config, struct note *note);

/* Trims blanks around a token and checks that it is printable ASCII without blanks, as an HTTP
 * header requires. Returns a heap string. ERR_INVALID. */
enum err kube_token_clean(struct str text, char **ret_token, struct note *note);
#endif
