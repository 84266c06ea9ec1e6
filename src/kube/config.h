/* SPDX-License-Identifier: Apache-2.0 */
/* The address of the API server and the client's credentials, from a pod's service account or a
 * kubeconfig file.
 *
 * Unsupported settings of a kubeconfig are refused by name, because ignoring `exec` or `as` would
 * change the identity. The files of a config are read by kube_config_find(); only the token file is
 * read again when it changes. */
#ifndef KUBE_CONFIG_H
#define KUBE_CONFIG_H
#include "base/note.h"
#include "base/str.h"
#include "io/fs.h"

#define KUBE_SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"
enum {
    KUBE_PEM_MAX = 1 << 20,    /* bytes of a certificate, a bundle or a key */
    KUBE_TOKEN_MAX = 64 << 10, /* bytes; real tokens have about 1,000 */
};

/* Heap strings owned by the config. NULL: not set. */
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

void kube_config_deinit(struct kube_config *config); /* zeroed or deinited is fine */
/* After ERR_NOMEM *to is a partial copy, which the caller must deinit. */
enum err kube_config_copy(const struct kube_config *from, struct kube_config *to);

struct kube_config_options {
    struct fs *fs;           /* NULL: the kernel's file system */
    const char *kubeconfig;  /* path; NULL: the search order of kube_config_find() */
    const char *context;     /* NULL: the file's current-context */
    const char *account_dir; /* NULL: KUBE_SERVICE_ACCOUNT_DIR */
};
/* Searches the given path; $KUBECONFIG; the service account if KUBERNETES_SERVICE_HOST and _PORT
 * are set; ~/.kube/config. ERR_NOT_FOUND, ERR_PARSE, ERR_UNSUPPORTED (exec plugins and similar),
 * ERR_INVALID, ERR_TOO_LARGE, or an error of fs.h. */
enum err kube_config_find(const struct kube_config_options *options, struct kube_config *ret_config,
                          struct note *note);
/* Decodes a kubeconfig without reading other files. Relative paths start at `directory`. */
enum err kube_config_decode(struct str text, const char *directory, const char *context,
                            struct kube_config *ret_config, struct note *note);

/* Trims blanks, and checks for printable ASCII without blanks. Returns a heap string.
 * ERR_INVALID. */
enum err kube_token_clean(struct str text, char **ret_token, struct note *note);
#endif
