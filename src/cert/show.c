/* SPDX-License-Identifier: Apache-2.0 */
/* Describes a certificate file in text that a person can check. Accepts any certificate; foreign
 * bytes are printed as visible ASCII only. Calls block; any thread. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "cert/internal.h"

enum { SHOWN_MAX = 256, TEXT_MAX = 64 * 1024, DAY_MS = 86400 * 1000 };

/* Appends foreign bytes as visible ASCII, so that they are safe on a terminal. */
static enum err put_visible(struct buf *into, struct str bytes)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < bytes.len; i++) {
        unsigned char byte = (unsigned char)bytes.at[i];
        if (byte >= 0x20 && byte < 0x7f && byte != '\\')
            err = buf_append_byte(into, bytes.at[i]);
        else
            err = buf_appendf(into, "\\x%02x", byte);
    }
    return err;
}

static enum err put_name(struct buf *into, const X509_NAME *name)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes;
    long len;
    enum err err = ERR_NOMEM;

    /* Fields in the certificate's order, with control bytes escaped: "CN=replica-1". */
    if (bio && X509_NAME_print_ex(bio, name, 0, XN_FLAG_ONELINE & ~XN_FLAG_SPC_EQ) >= 0) {
        len = BIO_get_mem_data(bio, &bytes);
        err = put_visible(into, str_of(bytes, (size_t)len));
    }
    BIO_free(bio);
    return err;
}

static enum err put_hex(struct buf *into, const unsigned char *bytes, size_t len,
                        const char *between)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < len; i++)
        err = buf_appendf(into, "%s%02X", i ? between : "", bytes[i]);
    return err;
}

static enum err put_fingerprint(struct buf *into, const X509 *certificate)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (!X509_digest(certificate, EVP_sha256(), digest, &len)) return ERR_NOMEM;
    return put_hex(into, digest, len, ":");
}

static enum err put_key(struct buf *into, const X509 *certificate)
{
    EVP_PKEY *key = X509_get0_pubkey(certificate);
    char group[64] = "";
    const char *kind = key ? EVP_PKEY_get0_type_name(key) : NULL;

    if (!kind) return buf_append_c(into, "unknown");
    if (EVP_PKEY_get_group_name(key, group, sizeof group, NULL))
        return buf_appendf(into, "%s %s", kind, strcmp(group, "prime256v1") == 0 ? "P-256" : group);
    return buf_appendf(into, "%s %d bits", kind, EVP_PKEY_get_bits(key));
}

/* -- alternative names ------------------------------------------------------------------------- */

static enum err put_address(struct buf *into, struct str bytes)
{
    char text[INET6_ADDRSTRLEN];
    int family = bytes.len == 4 ? AF_INET : bytes.len == 16 ? AF_INET6 : -1;

    if (family < 0 || !inet_ntop(family, bytes.at, text, sizeof text))
        return buf_append_c(into, "?");
    return buf_append_c(into, text);
}

static enum err put_alternative_name(struct buf *into, const GENERAL_NAME *name)
{
    int kind;
    const void *value = GENERAL_NAME_get0_value(name, &kind);
    bool is_text = kind == GEN_URI || kind == GEN_DNS || kind == GEN_EMAIL || kind == GEN_IPADD;
    struct str bytes = is_text
                           ? str_of(ASN1_STRING_get0_data(value), (size_t)ASN1_STRING_length(value))
                           : STR_EMPTY;
    enum err err = buf_append_c(into, kind == GEN_URI     ? "URI:"
                                      : kind == GEN_DNS   ? "DNS:"
                                      : kind == GEN_IPADD ? "IP:"
                                      : kind == GEN_EMAIL ? "email:"
                                                          : "other:");

    if (err) return err;
    return kind == GEN_IPADD ? put_address(into, bytes) : put_visible(into, bytes);
}

static enum err take_text(struct buf *text, enum err err, char **ret_text)
{
    if (!err) err = buf_detach(text, ret_text);
    return err == ERR_FULL ? ERR_TOO_LARGE : err;
}

static enum err all_names(const X509 *certificate, struct buf *text,
                          struct cert_description *description)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    int count = names ? sk_GENERAL_NAME_num(names) : 0;
    enum err err = ERR_OK;

    if (count > 0) {
        description->names = calloc((size_t)count, sizeof *description->names);
        if (!description->names) err = ERR_NOMEM;
    }
    for (int i = 0; !err && i < count; i++) {
        err = take_text(text, put_alternative_name(text, sk_GENERAL_NAME_value(names, i)),
                        &description->names[i]);
        if (!err) description->name_count++;
    }
    GENERAL_NAMES_free(names);
    ERR_clear_error();
    return err;
}

/* -- whole certificates ------------------------------------------------------------------------ */

static enum err describe(X509 *certificate, wall_time now, struct cert_description *description)
{
    /* all bits without extended key usage */
    uint32_t use = X509_get_extended_key_usage(certificate);
    const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
    struct buf text;
    int64_t left_ms;
    enum err err;

    description->is_ca = cert_is_authority(certificate) > 0;
    description->self_signed = X509_self_signed(certificate, 0) == 1;
    description->server_use = (use & XKU_SSL_SERVER) != 0;
    description->client_use = (use & XKU_SSL_CLIENT) != 0;
    description->not_before = cert_not_before(certificate);
    description->not_after = cert_not_after(certificate);
    left_ms = (int64_t)(description->not_after.ms - now.ms);
    description->days_left = left_ms >= 0 ? left_ms / DAY_MS : -((-left_ms + DAY_MS - 1) / DAY_MS);
    buf_init(&text, TEXT_MAX);
    err = take_text(&text, put_name(&text, X509_get_subject_name(certificate)),
                    &description->subject);
    if (!err)
        err = take_text(&text, put_name(&text, X509_get_issuer_name(certificate)),
                        &description->issuer);
    if (!err)
        err = take_text(
            &text,
            put_hex(&text, ASN1_STRING_get0_data(serial), (size_t)ASN1_STRING_length(serial), ""),
            &description->serial_hex);
    if (!err)
        err = take_text(&text, put_fingerprint(&text, certificate), &description->fingerprint);
    if (!err) err = take_text(&text, put_key(&text, certificate), &description->key);
    if (!err) err = all_names(certificate, &text, description);
    buf_deinit(&text);
    ERR_clear_error();
    return err;
}

void cert_descriptions_free(struct cert_description *list, size_t count)
{
    for (size_t i = 0; list && i < count; i++) {
        free(list[i].subject);
        free(list[i].issuer);
        free(list[i].serial_hex);
        free(list[i].fingerprint);
        free(list[i].key);
        for (size_t n = 0; n < list[i].name_count; n++) free(list[i].names[n]);
        free(list[i].names);
    }
    free(list);
}

static bool holds_key(struct str pem)
{
    /* The first line of every kind of PEM private key ends with this mark. */
    const struct str mark = STR("PRIVATE KEY-----");
    return pem.len > 0 && memmem(pem.at, pem.len, mark.at, mark.len);
}

enum err cert_describe(struct fs *fs, const char *path, wall_time now,
                       struct cert_description **ret_list, size_t *ret_count, struct note *note)
{
    X509 *certificates[SHOWN_MAX];
    struct cert_description *list = NULL;
    struct buf pem;
    size_t count = 0;
    enum err err;

    buf_init(&pem, CERT_FILE_MAX);
    err = cert_read(fs, path, &pem, note);
    if (!err) {
        err = tls_pem_certificates(buf_peek(&pem), certificates, SHOWN_MAX, &count, NULL);
        if (err == ERR_PARSE && holds_key(buf_peek(&pem)))
            err = ERR_OK;
        else if (err == ERR_PARSE)
            note_set(note, "%s: holds no certificate that can be read", path);
        else if (err)
            note_set(note, "%s: %s", path, err_text(err));
    }
    tls_wipe(&pem); /* the bytes may be a key */
    if (err) return err;
    if (count > 0) {
        list = calloc(count, sizeof *list);
        if (!list) err = ERR_NOMEM;
    }
    for (size_t i = 0; !err && i < count; i++) err = describe(certificates[i], now, &list[i]);
    tls_certificates_free(certificates, count);
    if (err) {
        note_set(note, "%s: %s", path, err_text(err));
        cert_descriptions_free(list, count);
        return err;
    }
    *ret_list = list;
    *ret_count = count;
    return ERR_OK;
}
