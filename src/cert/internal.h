/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the files of src/cert share. */
#ifndef CERT_INTERNAL_H
#define CERT_INTERNAL_H
#include <openssl/x509.h>

#include "cert/cert.h"
#include "io/tls_identity.h"

/* -- build.c: keys and certificates as OpenSSL objects; no files, no clock -- */

#define CERT_DAY_S 86400
/* Seconds since 1970. */
struct cert_validity {
    int64_t from_s, until_s;
};
enum err cert_key_new(EVP_PKEY **ret_key); /* EC P-256; ERR_NOMEM, ERR_INTERNAL */
/* A template is an unsigned certificate without key and dates: subject, alternative names, uses. */
enum err cert_template_root(struct str common_name, bool name_as_san, X509 **ret_template);
enum err cert_template_new(const struct cert_request *request, X509 **ret_template);
enum err cert_template_from(const X509 *certificate, X509 **ret_template);
bool cert_template_matches(const X509 *template, const X509 *certificate);
/* Issues a certificate for `key`, signed by `root`; NULL: self-signed. */
enum err cert_sign(const X509 *template, EVP_PKEY *key, X509 *root, EVP_PKEY *root_key,
                   struct cert_validity validity, X509 **ret_certificate);

/* The result of X509_check_ca(): 1 for CA:TRUE with compatible key usage, above 1 for a certificate
 * that only old implementations accept as an authority. */
int cert_is_authority(X509 *certificate);
static inline wall_time cert_not_before(const X509 *certificate)
{
    return tls_wall_from_asn1(X509_get0_notBefore(certificate));
}
static inline wall_time cert_not_after(const X509 *certificate)
{
    return tls_wall_from_asn1(X509_get0_notAfter(certificate));
}

enum err cert_put_pem(const X509 *certificate, struct buf *pem);
enum err cert_put_key_pem(const EVP_PKEY *key, struct buf *pem); /* PKCS#8, not encrypted */

/* -- authority.c: the files of the authority -- */
struct cert_authority {
    X509 *roots[CERT_ROOTS_MAX];
    size_t root_count, signer; /* signer: index of the root with the key */
    EVP_PKEY *key;
    bool key_exposed;
};
/* ERR_NOT_FOUND: neither file exists. ERR_CONFLICT: one file is missing, the key belongs to no
 * root, or a certificate among the roots may not sign. */
enum err cert_authority_load(struct fs *fs, const char *dir, struct cert_authority *ret_authority,
                             struct note *note);
void cert_authority_deinit(struct cert_authority *authority); /* accepts a zeroed struct */
/* The index of the root that signed the certificate; CERT_ROOTS_MAX: none. */
size_t cert_signed_by(X509 *certificate, const struct cert_authority *authority);

/* -- files.c -- */
enum { CERT_MODE_PUBLIC = 0644, CERT_MODE_SECRET = 0600, CERT_MODE_DIR = 0700 };
/* Reads a whole file into `into`. The caller wipes a key with tls_wipe. Notes name the file. */
enum err cert_read(struct fs *fs, const char *path, struct buf *into, struct note *note);
/* ERR_UNKNOWN: visible, maybe not durable. */
enum err cert_publish(struct fs *fs, const char *path, struct str content, uint32_t mode,
                      struct note *note);
enum err cert_publish_key(struct fs *fs, const char *path, const EVP_PKEY *key, struct note *note);
enum err cert_publish_list(struct fs *fs, const char *path, X509 *const *list, size_t count,
                           struct note *note);
/* ERR_BUSY: another process kept the lock for a few seconds. */
enum err cert_lock(struct fs *fs, const char *dir, struct fs_lock **ret_lock, struct note *note);
#endif
