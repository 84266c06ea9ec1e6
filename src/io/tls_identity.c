/* SPDX-License-Identifier: Apache-2.0 */
/* Reads certificates and keys from PEM text, and reads and checks the names in a certificate. A
 * name has its declared length and does not end at a NUL. Any thread. */
#include "io/tls_identity.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

/* RFC 5280 allows 20 octets; some issuers add one. */
enum { SERIAL_OCTETS_MAX = 32 };

/* The views point into the arrays, the certificate and OpenSSL's memory. */
struct findings {
    GENERAL_NAMES *san;
    unsigned char *common_name; /* UTF-8; freed with OPENSSL_free */
    char *serial_hex;           /* freed with OPENSSL_free */
    struct str uris[TLS_NAMES_MAX], dns_names[TLS_NAMES_MAX];
    struct tls_identity identity;
};

enum err tls_engine_failed(enum err otherwise, struct note *note)
{
    unsigned long first = ERR_peek_error();
    const char *text = ERR_reason_error_string(first);
    bool nomem = ERR_GET_REASON(first) == ERR_R_MALLOC_FAILURE ||
                 ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE;

    ERR_clear_error();
    note_set(note, "%s", nomem ? "out of memory" : text ? text : "unknown reason");
    return nomem ? ERR_NOMEM : otherwise;
}

/* -- PEM --------------------------------------------------------------------------------------- */

static int no_password(char *, int, int, void *)
{
    return 0; /* otherwise OpenSSL asks at the terminal */
}

void tls_wipe(struct buf *secret)
{
    if (secret->data) OPENSSL_cleanse(secret->data, secret->cap);
    buf_deinit(secret);
}

void tls_certificates_free(X509 **list, size_t count)
{
    for (size_t i = 0; i < count; i++) X509_free(list[i]);
}

enum err tls_pem_certificates(struct str pem, X509 **list, size_t cap, size_t *ret_count,
                              struct note *note)
{
    enum err err = ERR_OK;
    size_t count = 0;
    BIO *bio;

    ERR_clear_error();
    bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    for (X509 *one; bio && !err && (one = PEM_read_bio_X509(bio, NULL, no_password, NULL));) {
        if (count < cap) {
            list[count++] = one;
        } else {
            X509_free(one);
            err = note_fail(note, ERR_TOO_LARGE, "more than %zu certificates", cap);
        }
    }
    /* "no start line" is the normal end */
    if (!err && (!bio || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE))
        err = tls_engine_failed(ERR_PARSE, note);
    else if (!err && count == 0)
        err = note_fail(note, ERR_PARSE, "holds no certificate");
    ERR_clear_error();
    BIO_free(bio);
    if (err)
        tls_certificates_free(list, count);
    else
        *ret_count = count;
    return err;
}

enum err tls_pem_key(struct str pem, EVP_PKEY **ret_key, struct note *note)
{
    BIO *bio;
    EVP_PKEY *key;

    ERR_clear_error();
    bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    BIO_free(bio);
    if (!key) {
        enum err err = tls_engine_failed(ERR_PARSE, note);
        if (err == ERR_PARSE) note_set(note, "holds no private key that can be read");
        return err;
    }
    *ret_key = key;
    return ERR_OK;
}

/* -- names ------------------------------------------------------------------------------------- */

/* Out of memory, or malformed. */
static enum err not_read(struct note *note, const char *what)
{
    note_set(note, "%s", what);
    return tls_engine_failed(ERR_UNAUTHENTICATED, NULL);
}

/* A URI or DNS name is an IA5String: visible ASCII without blanks. */
static enum err judge_ascii(struct str name, const char *kind, struct note *note)
{
    if (name.len == 0) return note_fail(note, ERR_UNAUTHENTICATED, "an empty %s", kind);
    for (size_t i = 0; i < name.len; i++) {
        unsigned char byte = (unsigned char)name.at[i];
        if (byte > 0x20 && byte < 0x7f) continue;
        return note_fail(note, ERR_UNAUTHENTICATED, "byte 0x%02x in a %s", byte, kind);
    }
    return ERR_OK;
}

/* A common name has no control characters (C0, DEL, and C1 encoded as UTF-8). */
static enum err judge_common_name(struct str name, struct note *note)
{
    if (!str_is_utf8(name))
        return note_fail(note, ERR_UNAUTHENTICATED, "a common name that is not UTF-8");
    for (size_t i = 0; i < name.len; i++) {
        unsigned char byte = (unsigned char)name.at[i];
        bool c1 = byte == 0xc2 && i + 1 < name.len && (unsigned char)name.at[i + 1] < 0xa0;
        if (byte >= 0x20 && byte != 0x7f && !c1) continue;
        return note_fail(note, ERR_UNAUTHENTICATED, "control byte 0x%02x in a common name", byte);
    }
    return ERR_OK;
}

static enum err find_alternative_names(X509 *certificate, struct findings *found, struct note *note)
{
    struct tls_identity *identity = &found->identity;
    int occurs = 0;

    found->san = X509_get_ext_d2i(certificate, NID_subject_alt_name, &occurs, NULL);
    if (!found->san) {
        if (occurs == -1) return ERR_OK; /* no such extension */
        if (occurs == -2)
            return note_fail(note, ERR_UNAUTHENTICATED, "two lists of alternative names");
        return not_read(note, "alternative names do not parse");
    }
    for (int i = 0; i < sk_GENERAL_NAME_num(found->san); i++) {
        int kind;
        const void *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(found->san, i), &kind);
        struct str *names = kind == GEN_URI ? found->uris : found->dns_names, name;
        size_t *count = kind == GEN_URI ? &identity->uri_count : &identity->dns_count;
        enum err err;
        if (kind != GEN_URI && kind != GEN_DNS) continue;
        if (*count == TLS_NAMES_MAX)
            return note_fail(note, ERR_UNAUTHENTICATED, "more names than the limit");
        name = str_of(ASN1_STRING_get0_data(value), (size_t)ASN1_STRING_length(value));
        err = judge_ascii(name, kind == GEN_URI ? "URI" : "DNS name", note);
        if (err) return err;
        names[(*count)++] = name;
    }
    return ERR_OK;
}

static enum err find_common_name(X509 *certificate, struct findings *found, struct note *note)
{
    const X509_NAME *subject = X509_get_subject_name(certificate);
    int count = 0;

    for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;) {
        const ASN1_STRING *value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
        unsigned char *text = NULL;
        int len = ASN1_STRING_to_UTF8(&text, value);
        enum err err;
        if (len < 0) return not_read(note, "a common name that is no text");
        err = judge_common_name(str_of(text, (size_t)len), note);
        if (err || count > 0) {
            OPENSSL_free(text);
            if (err) return err;
        } else {
            found->common_name = text;
            found->identity.common_name = str_of(text, (size_t)len);
        }
        count++;
    }
    /* the intended name is unknown */
    if (count > 1) found->identity.common_name = STR_EMPTY;
    return ERR_OK;
}

static enum err find_serial(X509 *certificate, struct findings *found, struct note *note)
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
    BIGNUM *number;

    if (ASN1_STRING_length(serial) > SERIAL_OCTETS_MAX)
        return note_fail(note, ERR_UNAUTHENTICATED, "a serial number longer than the limit");
    number = ASN1_INTEGER_to_BN(serial, NULL);
    if (!number) return not_read(note, "no serial number");
    found->serial_hex = BN_bn2hex(number);
    BN_free(number);
    found->identity.serial_hex = str_from(found->serial_hex);
    return found->serial_hex ? ERR_OK : ERR_NOMEM;
}

static void findings_deinit(struct findings *found)
{
    GENERAL_NAMES_free(found->san);
    OPENSSL_free(found->common_name);
    OPENSSL_free(found->serial_hex);
}

enum err tls_identity_read(X509 *certificate, struct tls_identity **ret_identity, struct note *note)
{
    struct findings found = {.identity.common_name = STR_EMPTY};
    struct tls_identity *identity = NULL;
    enum err err;

    found.identity.uris = found.uris;
    found.identity.dns_names = found.dns_names;
    err = find_alternative_names(certificate, &found, note);
    if (!err) err = find_common_name(certificate, &found, note);
    if (!err) err = find_serial(certificate, &found, note);
    if (!err && !ASN1_TIME_check(X509_get0_notAfter(certificate)))
        err = note_fail(note, ERR_UNAUTHENTICATED, "an end of validity that is no time");
    if (!err) {
        found.identity.not_after = tls_wall_from_asn1(X509_get0_notAfter(certificate));
        identity = tls_identity_copy(&found.identity);
        if (!identity) err = ERR_NOMEM;
    }
    findings_deinit(&found);
    if (err == ERR_UNAUTHENTICATED) note_prefix(note, "certificate names cannot be used");
    if (err == ERR_NOMEM) note_set(note, "certificate names: out of memory");
    if (!err) *ret_identity = identity;
    return err;
}

/* Case-insensitive, so that "BIGFLEET:" beside "bigfleet:" counts as two. */
static bool has_scheme(struct str uri, struct str scheme)
{
    struct str head = {uri.at, scheme.len};
    return uri.len > scheme.len && uri.at[scheme.len] == ':' && str_equal_nocase(head, scheme);
}

enum err tls_identity_uri(const struct tls_identity *identity, struct str scheme,
                          struct str *ret_uri)
{
    const struct str *found = NULL;

    for (size_t i = 0; identity && i < identity->uri_count; i++) {
        if (!has_scheme(identity->uris[i], scheme)) continue;
        if (found) return ERR_CONFLICT;
        found = &identity->uris[i];
    }
    if (!found) return ERR_NOT_FOUND;
    *ret_uri = *found;
    return ERR_OK;
}

static size_t names_bytes(const struct str *names, size_t count)
{
    size_t bytes = count * sizeof *names;

    for (size_t i = 0; i < count; i++) bytes += names[i].len;
    return bytes;
}

struct tls_identity *tls_identity_copy(const struct tls_identity *identity)
{
    size_t count = identity->uri_count + identity->dns_count;
    struct tls_identity *copy =
        malloc(sizeof *copy + names_bytes(identity->uris, identity->uri_count) +
               names_bytes(identity->dns_names, identity->dns_count) + identity->common_name.len +
               identity->serial_hex.len);
    struct str *names;
    char *at;

    if (!copy) return NULL;
    names = (struct str *)(copy + 1);
    at = (char *)(names + count);
    *copy = *identity;
    copy->uris = names;
    copy->dns_names = names + identity->uri_count;
    for (size_t i = 0; i < identity->uri_count; i++) names[i] = str_put(&at, identity->uris[i]);
    for (size_t i = 0; i < identity->dns_count; i++)
        names[identity->uri_count + i] = str_put(&at, identity->dns_names[i]);
    copy->common_name = str_put(&at, identity->common_name);
    copy->serial_hex = str_put(&at, identity->serial_hex);
    return copy;
}

wall_time tls_wall_from_asn1(const ASN1_TIME *time)
{
    struct tm parts;
    time_t seconds = time && ASN1_TIME_to_tm(time, &parts) ? timegm(&parts) : 0;

    return (wall_time){seconds < 0 ? 0 : (uint64_t)seconds * MS_PER_SECOND};
}
