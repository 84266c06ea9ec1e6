/* SPDX-License-Identifier: Apache-2.0 */
/* The certificates of one run: for the coordinator's worker listener, and for the workers that
 * connect to the listener (workers.md § 17).
 *
 * Without configured files, tls_dir contains a development CA. The coordinator or the first worker
 * creates the CA; all others use it unchanged. Leaves exist in memory only, are valid for 90 days,
 * and are replaced before they expire; existing connections stay. With cert_file, key_file and
 * ca_file no CA is created and no CA key is needed.
 *
 * This module prints nothing: the caller prints cert_workers_notice() once to standard error. A
 * call blocks for small files and a key generation, about a millisecond. One thread. */
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
    const char *ca_file, *cert_file, *key_file; /* all three are set, or none */
    bool strict_permissions; /* refuse a CA key that other users can read, instead of warning */
    /* The worker of a client certificate named worker-<ULID>; NULL: the listener's certificate. */
    const struct ulid *worker;
};

/* Copies all options. Returns ERR_INVALID if only some of the three files are set, ERR_CONFLICT if
 * the CA is incomplete (the note names the missing file), ERR_DENIED for a CA key that others can
 * read with strict_permissions, or an error of cert/cert.h or io/tls.h. */
enum err cert_workers_open(struct fs *fs, const struct cert_workers_options *options, wall_time now,
                           struct cert_workers **ret_certs, struct note *note);
/* Accepts NULL. The TLS context stays valid while it is referenced. */
void cert_workers_close(struct cert_workers *certs);

/* Returns a borrowed context: TLS 1.2 or 1.3, ALPN h2, both sides with a certificate of the CA. */
struct tls_context *cert_workers_context(struct cert_workers *certs);
/* Returns "Generated dev CA at <tls_dir>/ca.pem" if this open created the CA, else "". */
const char *cert_workers_notice(const struct cert_workers *certs);
/* Returns a warning (other users can read the key, or the CA expires soon), else "". */
const char *cert_workers_warning(const struct cert_workers *certs);

/* Call this about once a minute and on SIGHUP. Replaces the leaf when a third of its lifetime is
 * left, and reloads changed files. After an error the old certificates stay in use. */
enum err cert_workers_refresh(struct cert_workers *certs, wall_time now, bool *ret_changed,
                              struct note *note);

/* True if the peer's common name or one of its DNS names is worker-<worker>. */
bool cert_is_worker(const struct tls_identity *peer, const struct ulid *worker);
#endif
