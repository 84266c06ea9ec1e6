/* SPDX-License-Identifier: Apache-2.0 */
/* TLS: certificates, trust and identity, over OpenSSL with memory BIOs (bytes in, bytes out).
 *
 * A context has the settings of one side: certificate, key, trusted roots, lowest version and
 * protocols. A context reloads its files when they change, for new connections. After an error the
 * context keeps the old files' content. Several roots may be trusted at the same time, which allows
 * CA rotation. */
#ifndef IO_TLS_H
#define IO_TLS_H
#include "base/note.h"
#include "base/str.h"
#include "io/fs.h"
#include "io/net.h"

/* The identity of a peer, read once per connection from its verified leaf certificate.
 *
 * A URI, DNS name or common name with a control byte or invalid text makes the certificate
 * unusable, because different programs would read different names. Names of other kinds (addresses,
 * e-mail) are ignored. */
enum { TLS_NAMES_MAX = 64 }; /* of each kind; a certificate with more is refused */
struct tls_identity {
    const struct str *uris;
    size_t uri_count;
    const struct str *dns_names;
    size_t dns_count;
    struct str common_name; /* empty if there is no common name, or several */
    struct str serial_hex;
    wall_time not_after;
};
/* Returns the single URI with scheme `scheme` ("bigfleet", "muster"). ERR_NOT_FOUND: none;
 * ERR_CONFLICT: several. In both cases the peer has no identity. */
enum err tls_identity_uri(const struct tls_identity *identity, struct str scheme,
                          struct str *ret_uri);

/* One block of memory for free(), or NULL. */
struct tls_identity *tls_identity_copy(const struct tls_identity *identity);

enum tls_side { TLS_SERVER, TLS_CLIENT };
enum tls_version { TLS_V1_2, TLS_V1_3 };
struct tls_options {
    enum tls_side side;
    enum tls_version version_min;
    const char *cert_file, *key_file; /* PEM; a client may leave both NULL */
    const char *ca_files[4];          /* PEM bundles, all trusted; ends with NULL */
    bool peer_optional;               /* server: accept a peer without certificate */
    /* With peer_optional: also accepts an unverified certificate, but without an identity. The
     * server sends its list of authorities, so that a browser offers no unsuitable certificate. */
    bool peer_unproven;
    /* Protocols in order of preference. If there are any, a peer that supports none is refused. */
    const char *alpn[4];
    /* PEM texts instead of the three files, for a key that is never written to disk. Copied. */
    struct str cert_pem, key_pem, ca_pem;
};
struct tls_context;

/* Fails with a note that names the file: ERR_CONFLICT (the key does not belong to the certificate),
 * ERR_INVALID, ERR_NOT_FOUND, ERR_PARSE, ERR_NOMEM, ERR_TOO_LARGE, errors of reading. `fs` must
 * outlive the context. A context and its streams use one thread. */
enum err tls_context_open(struct fs *fs, const struct tls_options *options,
                          struct tls_context **ret_context, struct note *note);
/* The opener and each live stream hold a reference. */
void tls_context_ref(struct tls_context *context);
void tls_context_unref(struct tls_context *context); /* NULL is allowed */
/* Loads the files if any changed (mtime, size, inode); *ret_changed is then true. An error keeps
 * the old content. Call from a timer and on SIGHUP. */
enum err tls_context_reload(struct tls_context *context, bool *ret_changed, struct note *note);
/* For a context without files. Replaces everything, or nothing on error. */
enum err tls_context_replace(struct tls_context *context, struct str cert_pem, struct str key_pem,
                             struct str ca_pem, struct note *note);
struct tls_info {
    wall_time not_before, not_after; /* of our certificate; 0 without one */
    uint64_t loads, failed_loads;
    struct note last_failure; /* empty if the current content of the files is loaded */
};
struct tls_info tls_context_info(const struct tls_context *context);

/* -- for implementations of struct net: a TLS stream over a plain stream --
 *
 * In addition to the rules of io/net.h:
 * - A connection that is cut without close_notify is closed with ERR_IO, never reported as an end.
 * - stream_close without stream_end looks like a cut to the peer. To close in order, call
 *   stream_end, and stream_close in on_end.
 * - With TLS 1.3 a client is open before the server has checked its certificate. ERR_DENIED may
 *   therefore follow on_open.
 * - A new stream checks the context's files again, at most once per TLS_RECHECK_MS.
 * - on_closed reports:
 *   ERR_UNAUTHENTICATED: this side refused the peer (certificate, name)
 *   ERR_DENIED: the peer refused this side
 *   ERR_UNSUPPORTED: no common version or protocol
 *   ERR_PARSE: not TLS
 *   ERR_TIMEOUT, or the error of the plain stream */
enum { TLS_RECHECK_MS = 1000 };

/* The output_max of a plain stream for `output_max` bytes of plaintext. */
size_t tls_plain_output_max(size_t output_max);

typedef enum err net_dial_fn(struct net *net, const struct dial_options *options,
                             const struct stream_events *events, void *owner,
                             struct stream **ret_stream, struct note *note);
/* Calls `dial_plain` once, without TLS, and wraps the stream. `options` contains the defaults.
 * Errors of net_dial. */
enum err tls_dial(struct loop *loop, struct net *net, net_dial_fn *dial_plain,
                  const struct dial_options *options, const struct stream_events *events,
                  void *owner, struct stream **ret_stream, struct note *note);

/* Wraps an accepted plain stream that is open, paused and not started, with the bound
 * tls_plain_output_max. Only the TLS settings of `options` are used. on_open follows the handshake;
 * on_closed without on_open means that the handshake failed. On error the caller keeps own_plain.
 * ERR_NOMEM, ERR_FULL (timers), ERR_INVALID (a client's context). */
enum err tls_accept(struct loop *loop, const struct listen_options *options,
                    struct stream *own_plain, const struct stream_events *events, void *owner,
                    struct stream **ret_stream, struct note *note);

const char *tls_engine_version(void); /* version of the loaded OpenSSL */
#endif
