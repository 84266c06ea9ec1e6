/* SPDX-License-Identifier: Apache-2.0 */
/* TLS: certificates, trust and identity, over OpenSSL with memory BIOs (bytes in, bytes out).
 *
 * A context is one side's material: certificate, key, trusted roots, lowest version, protocols.
 * It is re-read when its files change; a pair that does not load or does not match leaves the old
 * one in force and says so. Several roots may be live at once, which is how a CA is rotated.
 * Connections that exist keep what they were made with. */
#ifndef IO_TLS_H
#define IO_TLS_H
#include "base/note.h"
#include "base/str.h"
#include "io/fs.h"
#include "io/net.h"

/* The identity of a peer, read once per connection from its verified leaf certificate.
 *
 * Every URI, DNS name and common name is checked while the handshake runs. One with an embedded
 * NUL, another control byte or bytes that are no text makes the whole certificate unusable, and
 * the peer is refused with an alert: a name that reads differently to two readers is nobody's
 * name. Names of other kinds (addresses, e-mail) are not read. */
enum { TLS_NAMES_MAX = 64 }; /* of each kind; a certificate with more is refused */
struct tls_identity {
    const struct str *uris;
    size_t uri_count;
    const struct str *dns_names;
    size_t dns_count;
    struct str common_name; /* empty when none, and when there are several */
    struct str serial_hex;
    wall_time not_after;
};
/* The single URI whose scheme is `scheme` ("bigfleet", "muster"). ERR_NOT_FOUND for none,
 * ERR_CONFLICT for several: both mean "no identity". Other SANs do not matter. */
enum err tls_identity_uri(const struct tls_identity *identity, struct str scheme,
                          struct str *ret_uri);

/* One block of memory, for free(); NULL: out of memory. */
struct tls_identity *tls_identity_copy(const struct tls_identity *identity);

enum tls_side { TLS_SERVER, TLS_CLIENT };
enum tls_version { TLS_V1_2, TLS_V1_3 };
struct tls_options {
    enum tls_side side;
    enum tls_version version_min;
    const char *cert_file, *key_file; /* PEM; a client may leave both NULL */
    const char *ca_files[4];          /* PEM bundles, all live; NULL ends the list */
    bool peer_optional; /* server: let in a peer without certificate; default: require */
    /* server, with the above: let in a peer whose certificate proves nothing, without an identity;
     * peers learn which authorities count, so that a browser offers no other certificate */
    bool peer_unproven;
    /* In order of preference; when the list is not empty a peer that agrees to none of them is
     * refused, on both sides. */
    const char *alpn[4];
    /* Instead of the files, for a pair that is never written to disk; copied. Either the three
     * paths or these, never both. */
    struct str cert_pem, key_pem, ca_pem;
};
struct tls_context;

/* ERR_INVALID, ERR_NOT_FOUND, ERR_PARSE, ERR_CONFLICT (key does not belong to certificate),
 * ERR_NOMEM, ERR_TOO_LARGE and what reading files gives, with a note that names the file. `fs` is
 * borrowed until the last reference is gone. A context and its streams belong to one thread. */
enum err tls_context_open(struct fs *fs, const struct tls_options *options,
                          struct tls_context **ret_context, struct note *note);
void tls_context_ref(struct tls_context *context);   /* holders: the opener, each live stream */
void tls_context_unref(struct tls_context *context); /* NULL is fine */
/* Looks at the files and loads them if any changed (mtime, size or inode). ERR_OK with *ret_changed
 * false: nothing to do. On error the old material stays. Call it from a timer and on SIGHUP. */
enum err tls_context_reload(struct tls_context *context, bool *ret_changed, struct note *note);
/* The same for a context without files: replaces the material, or leaves the old one on error. */
enum err tls_context_replace(struct tls_context *context, struct str cert_pem, struct str key_pem,
                             struct str ca_pem, struct note *note);
struct tls_info {
    wall_time not_before, not_after; /* of our certificate; both 0 when there is none */
    uint64_t loads, failed_loads;
    struct note last_failure; /* empty when what is in force is what the files hold */
};
struct tls_info tls_context_info(const struct tls_context *context);

/* -- for the nets: a TLS stream over a plain one. Everybody else passes `tls` in options. --
 *
 * A TLS stream keeps every rule of io/net.h. What is particular to it:
 *  - the end of a stream is close_notify, then the half-close. A connection that is cut without
 *    close_notify is closed with ERR_IO, never reported as an orderly end. stream_close without
 *    stream_end is such a cut for the peer: to part in order, end, and close in on_end;
 *  - on_closed says ERR_UNAUTHENTICATED when we refused the peer (certificate, name), ERR_DENIED
 *    when the peer refused us, ERR_UNSUPPORTED for no common version or protocol, ERR_PARSE for
 *    bytes that are no TLS, ERR_TIMEOUT, else what the plain stream said;
 *  - with TLS 1.3 a client is open before the server has judged its certificate, so a refusal may
 *    come after on_open, as on_closed with ERR_DENIED;
 *  - the context's files are looked at again with a new stream, at most once in TLS_RECHECK_MS. */
enum { TLS_RECHECK_MS = 1000 };

/* What a plain stream that will be wrapped is opened with: room for as much plaintext as records. */
size_t tls_plain_output_max(size_t output_max);

typedef enum err net_dial_fn(struct net *net, const struct dial_options *options,
                             const struct stream_events *events, void *owner,
                             struct stream **ret_stream, struct note *note);
/* The whole of a TLS dial: calls `dial_plain` once with tls cleared and the output bound set as
 * above, and wraps what it gives. Time-out and defaults are those of `options`. Errors as
 * net_dial. */
enum err tls_dial(struct loop *loop, struct net *net, net_dial_fn *dial_plain,
                  const struct dial_options *options, const struct stream_events *events,
                  void *owner, struct stream **ret_stream, struct note *note);

/* Takes an accepted plain stream that is open, paused and not started, and that was made with
 * tls_plain_output_max(options->output_max). Of the options those of TLS count. on_open: the
 * handshake is done, and the stream may be started anew with other events; on_closed without it: the
 * handshake failed. After an error own_plain is still the caller's. ERR_NOMEM, ERR_FULL (timers),
 * ERR_INVALID (a client's context). */
enum err tls_accept(struct loop *loop, const struct listen_options *options,
                    struct stream *own_plain, const struct stream_events *events, void *owner,
                    struct stream **ret_stream, struct note *note);

const char *tls_engine_version(void); /* of the library that is loaded */
#endif
