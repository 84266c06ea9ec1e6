/* SPDX-License-Identifier: Apache-2.0 */
/* The address of the API server and our identity: from a pod's service account or a kubeconfig file.
 *
 * A request of a file that we cannot fulfil is refused with its name, never skipped: a skipped `exec`
 * or `as` would mean acting as somebody else. Files that a config names are read at once, but for
 * the token's, which is read again whenever it changes. */
#ifndef KUBE_CONFIG_H
#define KUBE_CONFIG_H
#include "base/note.h"
#include "base/str.h"
#include "io/fs.h"

#define KUBE_SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"
enum {
    KUBE_PEM_MAX = 1 << 20,    /* bytes of a certificate, a bundle or a key */
    KUBE_TOKEN_MAX = 64 << 10, /* bytes; real ones have about one thousand */
};

/* Heap strings it owns; NULL where the source says nothing. */
struct kube_config {
    char *server;          /* "https://10.0.0.1:6443", perhaps with a path; no closing slash */
    char *tls_server_name; /* NULL: the host of `server` */
    char *ca_pem;          /* NULL: the roots of the system */
    char *client_cert_pem, *client_key_pem; /* both or neither */
    char *token, *token_file;               /* the file wins, as everywhere */
    char *namespace_;
    bool insecure_skip_verify;
    /* As written in a kubeconfig, until kube_config_find() has read them. */
    char *ca_file, *client_cert_file, *client_key_file;
};

void kube_config_deinit(struct kube_config *config); /* fine on a zeroed one, and twice */
/* ERR_NOMEM: *to is half a copy; deinit it. */
enum err kube_config_copy(const struct kube_config *from, struct kube_config *to);

struct kube_config_options {
    struct fs *fs;           /* NULL: the kernel's */
    const char *kubeconfig;  /* a path; NULL: look for one, see kube_config_find() */
    const char *context;     /* NULL: the file's current-context */
    const char *account_dir; /* NULL: KUBE_SERVICE_ACCOUNT_DIR */
};
/* The first of: the given path; $KUBECONFIG; the service account when KUBERNETES_SERVICE_HOST and
 * _PORT are set; ~/.kube/config. ERR_NOT_FOUND when there is none, ERR_PARSE, ERR_UNSUPPORTED (exec
 * plugins and the like, named in the note), ERR_INVALID, ERR_TOO_LARGE, errors of fs.h. */
enum err kube_config_find(const struct kube_config_options *options, struct kube_config *ret_config,
                          struct note *note);
/* The bytes of a kubeconfig alone; relative paths in it start at `directory`. Reads no file. */
enum err kube_config_decode(struct str text, const char *directory, const char *context,
                            struct kube_config *ret_config, struct note *note);

/* A token as a header may hold it: blanks around it cut, printable ASCII without blanks.
 * Heap. ERR_INVALID. */
enum err kube_token_clean(struct str text, char **ret_token, struct note *note);
#endif
