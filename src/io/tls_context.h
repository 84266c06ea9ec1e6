/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a TLS context, which only tls_context.c changes. Other modules use io/tls.h. */
#ifndef IO_TLS_CONTEXT_H
#define IO_TLS_CONTEXT_H
#include <openssl/ssl.h>

#include "io/tls.h"

/* A source of PEM text. */
enum {
    SOURCE_CERT,
    SOURCE_KEY,
    SOURCE_CA,
    SOURCES_MAX = 6, /* one certificate, one key and four CA bundles */
    ALPN_WIRE_MAX = 4 * 256,
};
struct source {
    char *path;     /* NULL if the PEM text is in memory */
    struct buf pem; /* text from a file is kept only during a load */
};

struct tls_context {
    size_t refs;
    struct fs *fs;
    enum tls_side side;
    enum tls_version version_min;
    bool peer_optional, peer_unproven;
    unsigned char alpn[ALPN_WIRE_MAX]; /* each name after a length byte, as in the TLS extension */
    unsigned alpn_len;
    struct source sources[SOURCES_MAX];
    size_t source_count; /* the first two are always certificate and key */
    bool has_pair, has_ca, in_memory;
    SSL_CTX *current;
    struct fs_info loaded[SOURCES_MAX], refused[SOURCES_MAX];
    bool refused_known;
    mono_time recheck_at;
    struct tls_info info;
};

/* Checks the files at most every TLS_RECHECK_MS. Invalid files are read again only when a file
 * changes. */
void tls_context_recheck(struct tls_context *context, mono_time now);

/* Implemented by tls_session.c; `session` is the SSL's app data. Called after the peer's chain,
 * validity, use and name were verified. An error ends the handshake with an alert. */
enum err tls_session_judge(void *session, X509 *leaf);
/* The session will have no identity. */
void tls_session_doubt(void *session);
#endif
