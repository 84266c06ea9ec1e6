/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a TLS context. For the files of the TLS part only; callers of io see io/tls.h. */
#ifndef IO_TLS_CONTEXT_H
#define IO_TLS_CONTEXT_H
#include <openssl/ssl.h>

#include "io/tls.h"

/* A fresh connection object with the material of this moment; NULL when out of memory. */
SSL *tls_context_ssl_new(struct tls_context *context);
enum tls_side tls_context_side(const struct tls_context *context);
bool tls_context_wants_alpn(const struct tls_context *context);
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
