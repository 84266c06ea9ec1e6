/* SPDX-License-Identifier: Apache-2.0 */
/* Reads certificates: out of PEM text, and whom one names. For the TLS part and src/cert; all others
 * see io/tls.h. */
#ifndef IO_TLS_IDENTITY_H
#define IO_TLS_IDENTITY_H
#include <openssl/x509.h>

#include "io/tls.h"

/* One block of memory, for free(). ERR_UNAUTHENTICATED for a certificate whose
 * names cannot be used (see io/tls.h), with a note that says why; ERR_NOMEM. */
enum err tls_identity_read(X509 *certificate, struct tls_identity **ret_identity,
                           struct note *note);
/* The moment an ASN.1 time names; 0 for one before 1970, and for what is no time. */
wall_time tls_wall_from_asn1(const ASN1_TIME *time);

/* All certificates of a PEM text, in order, at most `cap`. ERR_PARSE: there is none, or one is
 * damaged; ERR_TOO_LARGE, ERR_NOMEM; with a note. */
enum err tls_pem_certificates(struct str pem, X509 **list, size_t cap, size_t *ret_count,
                              struct note *note);
void tls_certificates_free(X509 **list, size_t count);
void tls_wipe(struct buf *secret); /* overwrites, then buf_deinit */
enum err tls_pem_key(struct str pem, EVP_PKEY **ret_key, struct note *note); /* errors as above */
/* Why OpenSSL failed: ERR_NOMEM for a failed allocation, else `otherwise`, with a note. Empties its
 * queue of errors. */
enum err tls_engine_failed(enum err otherwise, struct note *note);
#endif
