/* SPDX-License-Identifier: Apache-2.0 */
/* Parses certificates from PEM text and reads the names in them. For the TLS files and src/cert;
 * other code uses io/tls.h. */
#ifndef IO_TLS_IDENTITY_H
#define IO_TLS_IDENTITY_H
#include <openssl/x509.h>

#include "io/tls.h"

/* Returns the identity in one block of memory, for free(). ERR_UNAUTHENTICATED with a note: the
 * certificate's names cannot be used (io/tls.h). ERR_NOMEM. */
enum err tls_identity_read(X509 *certificate, struct tls_identity **ret_identity,
                           struct note *note);
/* 0 for a time before 1970 and for invalid text. */
wall_time tls_wall_from_asn1(const ASN1_TIME *time);

/* Parses all certificates of a PEM text, in order, at most `cap`. Fails with a note: ERR_PARSE if
 * no certificate is found or one is damaged, ERR_TOO_LARGE, ERR_NOMEM. */
enum err tls_pem_certificates(struct str pem, X509 **list, size_t cap, size_t *ret_count,
                              struct note *note);
void tls_certificates_free(X509 **list, size_t count);
void tls_wipe(struct buf *secret); /* overwrites the bytes, then calls buf_deinit */
/* Errors as for tls_pem_certificates. */
enum err tls_pem_key(struct str pem, EVP_PKEY **ret_key, struct note *note);
/* Converts and clears OpenSSL's errors: ERR_NOMEM for a failed allocation, otherwise `otherwise`,
 * with a note. */
enum err tls_engine_failed(enum err otherwise, struct note *note);
#endif
