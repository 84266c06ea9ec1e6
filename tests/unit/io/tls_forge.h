/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates that no correct issuer makes: wrong dates, NULs in names, a hundred names, foreign
 * roots. Made with OpenSSL directly, so that the code under test does not make its own evidence. */
#ifndef TESTS_TLS_FORGE_H
#define TESTS_TLS_FORGE_H
#include <openssl/x509.h>

#include "base/buf.h"
#include "base/str.h"

/* For tables, where STR() is no constant. */
#define FORGE_TEXT(literal)                                                                        \
    {                                                                                              \
        "" literal, sizeof(literal) - 1                                                            \
    }
#define FORGE_NAME(kind, literal)                                                                  \
    {                                                                                              \
        FORGE_##kind, FORGE_TEXT(literal)                                                          \
    }
enum forge_kind { FORGE_END, FORGE_URI, FORGE_DNS, FORGE_IP };
struct forge_name {
    enum forge_kind kind;
    struct str text; /* any bytes */
};
enum { FORGE_NAMES_MAX = 8 };
struct forge_spec {
    struct str common_names[2]; /* any bytes; empty ends the list */
    int common_name_type;       /* ASN.1; 0: UTF8String */
    struct forge_name names[FORGE_NAMES_MAX];
    int repeat_uris, repeat_dns; /* this many numbered ones more */
    bool two_san_lists;
    int64_t from_s, until_s; /* from now; both 0: an hour back to an hour on */
    const char *use;         /* extended key usage; NULL: server and client */
    bool is_ca;
};
struct forge_pair {
    EVP_PKEY *key;
    X509 *certificate;
    struct buf cert_pem, key_pem;
};

/* NULL issuer: self-signed. Aborts when OpenSSL fails, because the test would prove nothing. */
void forge(struct forge_pair *made, const struct forge_pair *issuer, const struct forge_spec *spec);
void forge_root(struct forge_pair *made, const char *common_name);
void forge_free(struct forge_pair *made);
struct str forge_cert(const struct forge_pair *pair);
struct str forge_key(const struct forge_pair *pair);
#endif
