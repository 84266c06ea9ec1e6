/* SPDX-License-Identifier: Apache-2.0 */
/* The certificates of a run's workers: for the coordinator's worker listener, and for workers that
 * dial it (workers.md § 17).
 *
 * Without configured files, tls_dir contains a development CA. The coordinator or the first worker
 * creates the CA; all others use it unchanged. Leaves exist in memory only, are valid for 90 days,
 * and are replaced before they expire; existing connections stay. With cert_file, key_file and
 * ca_file no CA is created and no CA key is needed.
 *
 * This module prints nothing: the caller prints cert_workers_notice() once to standard error. Calls
 * block for small files and a key generation, about a millisecond. One thread. */
#ifndef CERT_WORKERS_H
#define CERT_WORKERS_H
#include "base/note.h"
#include "base/time.h"
#include "base/ulid.h"
#include "io/fs.h"
#include "io/tls.h"

struct cert_workers;
struct cert_workers_options {
    const char *tls_dir;                        /* unused if the three files are set */
    const char *ca_file, *cert_file, *key_file; /* all three or none */
    bool strict_permissions; /* refuse a CA key that other users can read, instead of warning */
    /* NULL: certificate of the listener. Otherwise a client certificate named worker-<ULID>. */
    const struct ulid *worker;
};

/* Copies all options. ERR_INVALID (only some of the three files are set), ERR_CONFLICT (the CA is
 * incomplete: the note names the missing file), ERR_DENIED (strict permissions) and errors of
 * cert/cert.h and io/tls.h. */
enum err cert_workers_open(struct fs *fs, const struct cert_workers_options *options, wall_time now,
                           struct cert_workers **ret_certs, struct note *note);
/* NULL is fine; the context stays valid while referenced. */
void cert_workers_close(struct cert_workers *certs);

/* TLS 1.2 or 1.3, ALPN h2. Both sides need a certificate of the CA. Borrowed. */
struct tls_context *cert_workers_context(struct cert_workers *certs);
/* "Generated dev CA at <tls_dir>/ca.pem" if this open created the CA, else "". */
const char *cert_workers_notice(const struct cert_workers *certs);
/* A warning for the administrator (other users can read the key, the CA expires soon), else "". */
const char *cert_workers_warning(const struct cert_workers *certs);

/* Call it about once a minute and on SIGHUP. Replaces the leaf when a third of its lifetime is
 * left, and reloads changed files. On error the old material stays. */
enum err cert_workers_refresh(struct cert_workers *certs, wall_time now, bool *ret_changed,
                              struct note *note);

/* True if the peer's common name or one of its DNS names is worker-<worker>. */
bool cert_is_worker(const struct tls_identity *peer, const struct ulid *worker);
#endif
