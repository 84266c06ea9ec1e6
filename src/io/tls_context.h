/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a TLS context: changed by tls_context.c alone. For the files of the TLS part only;
 * callers of io see io/tls.h. */
#ifndef IO_TLS_CONTEXT_H
#define IO_TLS_CONTEXT_H
#include <openssl/ssl.h>

#include "io/tls.h"

/* Where a piece of PEM comes from. */
enum {
    SOURCE_CERT,
    SOURCE_KEY,
    SOURCE_CA,
    SOURCES_MAX = 6, /* certificate, key, four bundles */
    ALPN_WIRE_MAX = 4 * 256,
};
struct source {
    char *path;     /* NULL: from memory */
    struct buf pem; /* from memory, or during a load */
};

struct tls_context {
    size_t refs;
    struct fs *fs;
    enum tls_side side;
    enum tls_version version_min;
    bool peer_optional, peer_unproven;
    unsigned char alpn[ALPN_WIRE_MAX]; /* length-prefixed, as on the wire */
    unsigned alpn_len;
    struct source sources[SOURCES_MAX];
    size_t source_count; /* cert and key always have a place, maybe empty */
    bool has_pair, has_ca, in_memory;
    SSL_CTX *current;
    struct fs_info loaded[SOURCES_MAX], refused[SOURCES_MAX];
    bool refused_known;
    mono_time recheck_at;
    struct tls_info info;
};

/* Looks at the files if TLS_RECHECK_MS have passed since the last look. A pair that was found bad
 * is not tried again until a file changes; what failed for another reason is. */
void tls_context_recheck(struct tls_context *context, mono_time now);

/* Defined by tls_session.c, whose session an SSL's app data is. Called from inside the handshake
 * when the peer's chain, validity, use and name were found good; anything but ERR_OK ends it by
 * an alert. */
enum err tls_session_judge(void *session, X509 *leaf);
/* The peer's certificate proves nothing: it has no identity, whatever follows. */
void tls_session_doubt(void *session);
#endif
