/* SPDX-License-Identifier: Apache-2.0 */
/* Reads who a certificate names. For the TLS part and src/cert; all others see io/tls.h. */
#ifndef IO_TLS_IDENTITY_H
#define IO_TLS_IDENTITY_H
#include <openssl/x509.h>

#include "io/tls.h"

/* One block of memory, for free(). ERR_UNAUTHENTICATED for a certificate whose
 * names cannot be used (see io/tls.h), with a note that says why; ERR_NOMEM. */
enum err tls_identity_read(X509 *certificate, struct tls_identity **ret_identity,
                           struct note *note);
/* The same from DER bytes; also ERR_PARSE. What a fuzzer feeds. */
enum err tls_identity_from_der(struct str der, struct tls_identity **ret_identity,
                               struct note *note);

/* The moment an ASN.1 time names; before 1970 gives 0. ERR_PARSE. */
enum err tls_wall_from_asn1(const ASN1_TIME *time, wall_time *ret_time);
#endif
