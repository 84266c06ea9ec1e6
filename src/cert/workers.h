/* SPDX-License-Identifier: Apache-2.0 */
/* The certificates of a run's workers: what the coordinator's worker listener shows and what a
 * worker dials with (workers.md § 17).
 *
 * Without files of one's own there is a development CA in tls_dir: the first of coordinator and
 * workers makes it, all others find it, byte for byte as it was. Leaves live in memory
 * only, for 90 days, and are made anew before they end; connections that exist stay. With
 * cert_file, key_file and ca_file no CA is made and no CA key is needed.
 *
 * Prints nothing: its caller prints cert_workers_notice(), once, on standard error. Calls
 * block for small files and a key generation, about a millisecond; one thread. */
#ifndef CERT_WORKERS_H
#define CERT_WORKERS_H
#include "base/note.h"
#include "base/time.h"
#include "base/ulid.h"
#include "io/fs.h"
#include "io/tls.h"

struct cert_workers;
struct cert_workers_options {
    const char *tls_dir;                        /* unused with the three files */
    const char *ca_file, *cert_file, *key_file; /* all three or none */
    bool strict_permissions; /* a CA key that others may read is refused, not warned of */
    /* NULL: the listener's side. Otherwise a client's, whose name is worker-<ULID>. */
    const struct ulid *worker;
};

/* ERR_INVALID (some of the three files), ERR_CONFLICT (half a CA: the note names the missing file),
 * ERR_DENIED (strict permissions) and what cert/cert.h and io/tls.h answer. All is copied. */
enum err cert_workers_open(struct fs *fs, const struct cert_workers_options *options, wall_time now,
                           struct cert_workers **ret_certs, struct note *note);
void cert_workers_close(struct cert_workers *certs); /* NULL is fine; the context lives on in use */

/* TLS 1.2 or 1.3, ALPN h2; both sides need a certificate of the CA. Borrowed. */
struct tls_context *cert_workers_context(struct cert_workers *certs);
/* "Generated dev CA at <tls_dir>/ca.pem" if this open made it, else "". */
const char *cert_workers_notice(const struct cert_workers *certs);
/* Why somebody should look at it (a key that others may read, a CA near its end), else "". */
const char *cert_workers_warning(const struct cert_workers *certs);

/* Call it now and then (once a minute) and on SIGHUP: makes the leaf anew when a third of its life
 * is left, reads changed files again. On error the old material stays in force. */
enum err cert_workers_refresh(struct cert_workers *certs, wall_time now, bool *ret_changed,
                              struct note *note);

/* Is the peer's common name or one of its DNS names worker-<worker>? */
bool cert_is_worker(const struct tls_identity *peer, const struct ulid *worker);
#endif
