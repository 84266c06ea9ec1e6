/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/tls_forge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "forge: %s failed\n", #condition);                                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void put_name(GENERAL_NAMES *names, enum forge_kind kind, struct str text)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value =
        ASN1_STRING_type_new(kind == FORGE_IP ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);

    MUST(name && value && ASN1_STRING_set(value, text.at, (int)text.len));
    GENERAL_NAME_set0_value(name,
                            kind == FORGE_URI   ? GEN_URI
                            : kind == FORGE_DNS ? GEN_DNS
                                                : GEN_IPADD,
                            value);
    MUST(sk_GENERAL_NAME_push(names, name));
}

static void put_extension(X509 *certificate, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    MUST(extension && X509_add_ext(certificate, extension, -1));
    X509_EXTENSION_free(extension);
}

static void put_common_name(X509_NAME *subject, int type, struct str name)
{
    /* Sets the entry directly, because the usual call checks the bytes. */
    X509_NAME_ENTRY *entry =
        X509_NAME_ENTRY_create_by_NID(NULL, NID_commonName, type ? type : V_ASN1_UTF8STRING,
                                      (const unsigned char *)name.at, (int)name.len);
    MUST(entry && X509_NAME_add_entry(subject, entry, -1, 0));
    X509_NAME_ENTRY_free(entry);
}

static void put_names(X509 *certificate, const struct forge_spec *spec)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    char text[64];

    for (size_t i = 0; i < FORGE_NAMES_MAX && spec->names[i].kind; i++)
        put_name(names, spec->names[i].kind, spec->names[i].text);
    for (int i = 0; i < spec->repeat_uris; i++) {
        snprintf(text, sizeof text, "other://name/%d", i);
        put_name(names, FORGE_URI, str_from(text));
    }
    for (int i = 0; i < spec->repeat_dns; i++) {
        snprintf(text, sizeof text, "host-%d", i);
        put_name(names, FORGE_DNS, str_from(text));
    }
    if (sk_GENERAL_NAME_num(names) > 0)
        MUST(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_APPEND) ==
             1);
    if (spec->two_san_lists)
        MUST(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_APPEND) ==
             1);
    GENERAL_NAMES_free(names);
}

static void take_text(BIO *bio, struct buf *into)
{
    char *bytes;
    long len = BIO_get_mem_data(bio, &bytes);
    MUST(len > 0 && !buf_append(into, str_of(bytes, (size_t)len)));
}

void forge(struct forge_pair *made, const struct forge_pair *issuer, const struct forge_spec *spec)
{
    bool dated = spec->from_s || spec->until_s;
    X509 *certificate = X509_new();
    uint64_t serial;
    BIO *bio = BIO_new(BIO_s_mem());

    *made = (struct forge_pair){.key = EVP_EC_gen("P-256"), .certificate = certificate};
    buf_init(&made->cert_pem, 1 << 20);
    buf_init(&made->key_pem, 1 << 20);
    MUST(made->key && certificate && bio && X509_set_version(certificate, X509_VERSION_3));
    MUST(RAND_bytes((unsigned char *)&serial, sizeof serial) == 1);
    MUST(ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1 | 1));
    MUST(X509_gmtime_adj(X509_getm_notBefore(certificate), dated ? spec->from_s : -3600));
    MUST(X509_gmtime_adj(X509_getm_notAfter(certificate), dated ? spec->until_s : 3600));
    for (size_t i = 0; i < ARRAY_LEN(spec->common_names) && spec->common_names[i].len; i++)
        put_common_name(X509_get_subject_name(certificate), spec->common_name_type,
                        spec->common_names[i]);
    MUST(X509_set_issuer_name(certificate,
                              X509_get_subject_name(issuer ? issuer->certificate : certificate)));
    MUST(X509_set_pubkey(certificate, made->key));
    put_extension(certificate, NID_basic_constraints,
                  spec->is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (!spec->is_ca)
        put_extension(certificate, NID_ext_key_usage,
                      spec->use ? spec->use : "serverAuth,clientAuth");
    put_names(certificate, spec);
    MUST(X509_sign(certificate, issuer ? issuer->key : made->key, EVP_sha256()) > 0);
    MUST(PEM_write_bio_X509(bio, certificate));
    take_text(bio, &made->cert_pem);
    BIO_free(bio);
    bio = BIO_new(BIO_s_mem());
    MUST(PEM_write_bio_PKCS8PrivateKey(bio, made->key, NULL, NULL, 0, NULL, NULL));
    take_text(bio, &made->key_pem);
    BIO_free(bio);
}

void forge_root(struct forge_pair *made, const char *common_name)
{
    forge(made, NULL, &(struct forge_spec){.common_names = {str_from(common_name)}, .is_ca = true});
}

void forge_free(struct forge_pair *made)
{
    EVP_PKEY_free(made->key);
    X509_free(made->certificate);
    buf_deinit(&made->cert_pem);
    buf_deinit(&made->key_pem);
}

struct str forge_cert(const struct forge_pair *pair)
{
    return buf_peek(&pair->cert_pem);
}
struct str forge_key(const struct forge_pair *pair)
{
    return buf_peek(&pair->key_pem);
}
