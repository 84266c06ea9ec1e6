/* SPDX-License-Identifier: Apache-2.0 */
/* The certificates of a run's workers: what the coordinator's worker listener shows and what a
 * worker dials with (workers.md § 17).
 *
 * Without files of one's own there is a development CA in tls_dir: whoever of coordinator and
 * workers comes first makes it, all others find it, byte for byte as it was. Leaves live in memory
 * only, for 90 days, and are made anew before they end; connections that exist stay. With
 * cert_file, key_file and ca_file no CA is made and no CA key is needed.
 *
 * Prints nothing: whoever opens it says member_ca_said(), once, on standard error. Calls block for
 * small files and a key generation, about a millisecond; one thread. */
#ifndef MEMBER_CA_CA_H
#define MEMBER_CA_CA_H
#include "base/note.h"
#include "base/time.h"
#include "base/ulid.h"
#include "io/fs.h"
#include "io/tls.h"

struct member_ca;
struct member_ca_options {
    const char *tls_dir;                        /* unused with the three files */
    const char *ca_file, *cert_file, *key_file; /* all three or none */
    bool strict_permissions; /* a CA key that others may read is refused, not warned of */
    /* NULL: the listener's side. Otherwise a client's, whose name is worker-<ULID>. */
    const struct ulid *worker;
};

/* ERR_INVALID (some of the three files), ERR_CONFLICT (half a CA: the note names the missing file),
 * ERR_DENIED (strict permissions) and what io/cert.h and io/tls.h answer. Everything is copied. */
enum err member_ca_open(struct fs *fs, const struct member_ca_options *options, wall_time now,
                        struct member_ca **ret_ca, struct note *note);
void member_ca_close(struct member_ca *ca); /* NULL is fine; the context lives while it is used */

/* TLS 1.2 or 1.3, ALPN h2; both sides need a certificate of the CA. Borrowed. */
struct tls_context *member_ca_context(struct member_ca *ca);
/* "Generated dev CA at <tls_dir>/ca.pem" if this open made it, else "". */
const char *member_ca_said(const struct member_ca *ca);
/* Why somebody should look at it (a key that others may read, a CA near its end), else "". */
const char *member_ca_warning(const struct member_ca *ca);

/* Call it now and then (once a minute) and on SIGHUP: makes the leaf anew when a third of its life
 * is left, reads changed files again. On error the old material stays in force. */
enum err member_ca_refresh(struct member_ca *ca, wall_time now, bool *ret_changed,
                           struct note *note);

/* bind_identity: is the peer's common name or one of its DNS names worker-<worker>? */
bool member_ca_is_worker(const struct tls_identity *peer, const struct ulid *worker);
#endif
