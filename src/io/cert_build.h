/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, roots and leaves as OpenSSL objects; no files, no clock. For cert*.c only. */
#ifndef IO_CERT_BUILD_H
#define IO_CERT_BUILD_H
#include <openssl/x509.h>

#include "io/cert.h"

/* Seconds since 1970; a development root begins before and ends far after. */
struct cert_validity {
    int64_t from_s, until_s;
};

enum err cert_key_new(EVP_PKEY **ret_key); /* EC P-256; ERR_NOMEM, ERR_INTERNAL */
/* A self-signed root. */
enum err cert_root_new(EVP_PKEY *key, struct str common_name, bool name_as_san,
                       struct cert_validity validity, X509 **ret_root);
/* What a leaf says of itself: subject, alternative names, uses; unsigned, without key and dates. */
enum err cert_template_new(const struct cert_request *request, X509 **ret_template);
/* The same, taken from a certificate that exists. */
enum err cert_template_from(X509 *certificate, X509 **ret_template);
bool cert_template_matches(const X509 *template, const X509 *certificate);
enum err cert_leaf_sign(const X509 *template, EVP_PKEY *key, X509 *root, EVP_PKEY *root_key,
                        struct cert_validity validity, X509 **ret_leaf);

bool cert_may_sign(X509 *certificate);     /* CA:TRUE, and no key usage against it */
bool cert_is_authority(X509 *certificate); /* the same, and whatever old readers take for one */

enum err cert_put_pem(X509 *certificate, struct buf *pem);
enum err cert_put_key_pem(EVP_PKEY *key, struct buf *pem); /* PKCS#8, not encrypted */
/* ERR_PARSE when there is no key, ERR_NOMEM. */
enum err cert_key_from_pem(struct str pem, EVP_PKEY **ret_key);
/* All certificates, in order; at most `cap`. ERR_PARSE for none or damage, ERR_TOO_LARGE,
 * ERR_NOMEM. */
enum err cert_list_from_pem(struct str pem, X509 **list, size_t cap, size_t *ret_count);
void cert_list_free(X509 **list, size_t count);

bool cert_holds_key_pem(struct str pem); /* a private key, encrypted or damaged ones too */
bool cert_name_is_address(struct str name, unsigned char bytes[16], size_t *ret_len);
#endif
