/* SPDX-License-Identifier: Apache-2.0 */
/* The certificates of one run: for the coordinator's worker listener, and for the workers that
 * connect to it (workers.md § 17). A call blocks for about a millisecond. One thread.
 *
 * Without configured files, tls_dir has a development CA. The coordinator or the first worker
 * creates the CA. Leaves exist in memory only, are valid for 90 days, and are replaced before they
 * expire. With cert_file, key_file and ca_file there is no CA. The caller prints
 * cert_workers_notice() once to standard error. */
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
    /* A worker's id, for the client certificate worker-<ULID>; NULL: the listener's certificate. */
    const struct ulid *worker;
};

/* Copies all options. Also returns errors of cert/cert.h or io/tls.h.
 *   ERR_INVALID    only some of the three files are set
 *   ERR_CONFLICT   the CA is incomplete; the note names the missing file
 *   ERR_DENIED     with strict_permissions: others can read the CA key */
enum err cert_workers_open(struct fs *fs, const struct cert_workers_options *options, wall_time now,
                           struct cert_workers **ret_certs, struct note *note);
/* Accepts NULL. The TLS context stays valid while it is referenced. */
void cert_workers_close(struct cert_workers *certs);

/* A borrowed context: TLS 1.2 or 1.3, ALPN h2, both sides with a certificate of the CA. */
struct tls_context *cert_workers_context(struct cert_workers *certs);
/* "Generated dev CA at <tls_dir>/ca.pem" if this open created the CA, else "". */
const char *cert_workers_notice(const struct cert_workers *certs);
/* A warning (other users can read the key, or the CA expires soon), else "". */
const char *cert_workers_warning(const struct cert_workers *certs);

/* Call this about once a minute and on SIGHUP. Replaces the leaf when a third of its lifetime is
 * left, and reloads changed files. After an error the old certificates stay in use. */
enum err cert_workers_refresh(struct cert_workers *certs, wall_time now, bool *ret_changed,
                              struct note *note);

/* True if the peer's common name or one of its DNS names is worker-<worker>. */
bool cert_is_worker(const struct tls_identity *peer, const struct ulid *worker);
#endif
