/* SPDX-License-Identifier: Apache-2.0 */
/* Names out of a certificate, each checked before anybody compares it.
 *
 * Two passes over the same extension: the first judges every name and adds up the room, the second
 * copies into one block. A name is judged by its declared length, never by where a NUL stands. */
#include "io/tls_identity.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

/* RFC 5280 allows 20 octets; some issuers add one. Nobody needs more than this. */
enum { SERIAL_OCTETS_MAX = 32 };

/* What the first pass found. The pointers are borrowed from the certificate and from `san`. */
struct findings {
    GENERAL_NAMES *san;
    unsigned char *common_name; /* UTF-8, OpenSSL's heap */
    size_t common_name_len;
    char *serial_hex; /* OpenSSL's heap */
    size_t uri_count, dns_count, bytes;
};

static enum err refuse(struct note *note, const char *why)
{
    note_set(note, "certificate names cannot be used: %s", why);
    return ERR_UNAUTHENTICATED;
}

static bool out_of_memory(void)
{
    return ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE;
}

/* A URI or DNS name is an IA5String: visible ASCII, no blank. */
static enum err judge_ascii(struct str name, const char *kind, struct note *note)
{
    if (name.len == 0) {
        note_set(note, "certificate names cannot be used: an empty %s", kind);
        return ERR_UNAUTHENTICATED;
    }
    for (size_t i = 0; i < name.len; i++) {
        unsigned char byte = (unsigned char)name.at[i];
        if (byte > 0x20 && byte < 0x7f) continue;
        note_set(note, "certificate names cannot be used: byte 0x%02x in a %s", byte, kind);
        return ERR_UNAUTHENTICATED;
    }
    return ERR_OK;
}

/* A common name is any text without control characters (C0, DEL, and C1 as UTF-8 spells it). */
static enum err judge_common_name(struct str name, struct note *note)
{
    if (!str_is_utf8(name)) return refuse(note, "a common name that is not UTF-8");
    for (size_t i = 0; i < name.len; i++) {
        unsigned char byte = (unsigned char)name.at[i];
        bool c1 = byte == 0xc2 && i + 1 < name.len && (unsigned char)name.at[i + 1] < 0xa0;
        if (byte >= 0x20 && byte != 0x7f && !c1) continue;
        note_set(note, "certificate names cannot be used: control byte 0x%02x in a common name",
                 byte);
        return ERR_UNAUTHENTICATED;
    }
    return ERR_OK;
}

static struct str view_of(const ASN1_STRING *string)
{
    return str_of(ASN1_STRING_get0_data(string), (size_t)ASN1_STRING_length(string));
}

/* The name as bytes when it is of a kind we read; *ret_kind is then GEN_URI or GEN_DNS, else -1. */
static struct str name_of(const GENERAL_NAMES *san, int index, int *ret_kind)
{
    int kind;
    const void *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(san, index), &kind);
    *ret_kind = kind == GEN_URI || kind == GEN_DNS ? kind : -1;
    return *ret_kind < 0 ? STR_EMPTY : view_of(value);
}

static enum err find_alternative_names(X509 *certificate, struct findings *found, struct note *note)
{
    int occurs = 0;

    found->san = X509_get_ext_d2i(certificate, NID_subject_alt_name, &occurs, NULL);
    if (!found->san) {
        if (occurs == -1) return ERR_OK; /* none */
        if (occurs == -2) return refuse(note, "two lists of alternative names");
        return out_of_memory() ? ERR_NOMEM : refuse(note, "alternative names do not parse");
    }
    for (int i = 0; i < sk_GENERAL_NAME_num(found->san); i++) {
        int kind;
        struct str name = name_of(found->san, i, &kind);
        size_t *count = kind == GEN_URI ? &found->uri_count : &found->dns_count;
        enum err err;
        if (kind < 0) continue;
        if (++*count > TLS_NAMES_MAX) return refuse(note, "more names than the limit");
        err = judge_ascii(name, kind == GEN_URI ? "URI" : "DNS name", note);
        if (err) return err;
        found->bytes += name.len;
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
        if (len < 0)
            return out_of_memory() ? ERR_NOMEM : refuse(note, "a common name that is no text");
        err = judge_common_name(str_of(text, (size_t)len), note);
        if (err || count > 0) {
            OPENSSL_free(text);
            if (err) return err;
        } else {
            found->common_name = text;
            found->common_name_len = (size_t)len;
        }
        count++;
    }
    if (count > 1) found->common_name_len = 0; /* several: which one is meant is anybody's guess */
    found->bytes += found->common_name_len;
    return ERR_OK;
}

static enum err find_serial(X509 *certificate, struct findings *found, struct note *note)
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
    BIGNUM *number;

    if (ASN1_STRING_length(serial) > SERIAL_OCTETS_MAX)
        return refuse(note, "a serial number longer than the limit");
    number = ASN1_INTEGER_to_BN(serial, NULL);
    if (!number) return out_of_memory() ? ERR_NOMEM : refuse(note, "no serial number");
    found->serial_hex = BN_bn2hex(number);
    BN_free(number);
    if (!found->serial_hex) return ERR_NOMEM;
    found->bytes += strlen(found->serial_hex);
    return ERR_OK;
}

static void findings_deinit(struct findings *found)
{
    GENERAL_NAMES_free(found->san);
    OPENSSL_free(found->common_name);
    OPENSSL_free(found->serial_hex);
}

/* The block: identity, then the views of URIs and DNS names, then all their bytes. */
struct block {
    struct tls_identity identity;
    struct str names[];
};

static struct str put(char **room, struct str bytes)
{
    struct str copy = {*room, bytes.len};
    if (bytes.len) memcpy(*room, bytes.at, bytes.len);
    *room += bytes.len;
    return copy;
}

static struct tls_identity *block_build(const struct findings *found, wall_time not_after)
{
    size_t names = found->uri_count + found->dns_count;
    struct block *block = malloc(sizeof *block + names * sizeof(struct str) + found->bytes);
    struct str *uri, *dns;
    char *room;

    if (!block) return NULL;
    uri = block->names;
    dns = block->names + found->uri_count;
    room = (char *)(block->names + names);
    block->identity = (struct tls_identity){
        .uris = uri,
        .uri_count = found->uri_count,
        .dns_names = dns,
        .dns_count = found->dns_count,
        .not_after = not_after,
    };
    for (int i = 0; found->san && i < sk_GENERAL_NAME_num(found->san); i++) {
        int kind;
        struct str name = name_of(found->san, i, &kind);
        if (kind == GEN_URI) *uri++ = put(&room, name);
        if (kind == GEN_DNS) *dns++ = put(&room, name);
    }
    block->identity.common_name = put(&room, str_of(found->common_name, found->common_name_len));
    block->identity.serial_hex = put(&room, str_from(found->serial_hex));
    assert(uri == block->names + found->uri_count && dns == block->names + names);
    assert(room == (char *)(block->names + names) + found->bytes);
    return &block->identity;
}

enum err tls_identity_read(X509 *certificate, struct tls_identity **ret_identity, struct note *note)
{
    struct findings found = {0};
    struct tls_identity *identity = NULL;
    wall_time not_after = {0};
    enum err err;

    err = find_alternative_names(certificate, &found, note);
    if (!err) err = find_common_name(certificate, &found, note);
    if (!err) err = find_serial(certificate, &found, note);
    if (!err && tls_wall_from_asn1(X509_get0_notAfter(certificate), &not_after))
        err = refuse(note, "an end of validity that is no time");
    if (!err) {
        identity = block_build(&found, not_after);
        if (!identity) err = ERR_NOMEM;
    }
    findings_deinit(&found);
    if (err == ERR_NOMEM) note_set(note, "certificate names: out of memory");
    if (!err) *ret_identity = identity;
    return err;
}

enum err tls_identity_from_der(struct str der, struct tls_identity **ret_identity,
                               struct note *note)
{
    const unsigned char *at = (const unsigned char *)der.at;
    X509 *certificate;
    enum err err;

    ERR_clear_error(); /* or an old failure would be taken for this one's */
    certificate = der.len <= LONG_MAX ? d2i_X509(NULL, &at, (long)der.len) : NULL;
    if (!certificate) {
        note_set(note, "not a certificate");
        err = out_of_memory() ? ERR_NOMEM : ERR_PARSE;
    } else {
        err = tls_identity_read(certificate, ret_identity, note);
    }
    X509_free(certificate);
    ERR_clear_error();
    return err;
}

void tls_identity_free(struct tls_identity *identity)
{
    if (identity) free(CONTAINER_OF(identity, struct block, identity));
}

/* A scheme is compared without regard to case, so that "BIGFLEET:" beside "bigfleet:" counts as
 * two; the URI itself is given as it stands, and callers compare it exactly. */
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

static struct str copy_text(char **at, struct str text)
{
    struct str copy = {*at, text.len};

    if (text.len > 0) memcpy(*at, text.at, text.len);
    *at += text.len;
    return copy;
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
    for (size_t i = 0; i < identity->uri_count; i++) names[i] = copy_text(&at, identity->uris[i]);
    for (size_t i = 0; i < identity->dns_count; i++)
        names[identity->uri_count + i] = copy_text(&at, identity->dns_names[i]);
    copy->common_name = copy_text(&at, identity->common_name);
    copy->serial_hex = copy_text(&at, identity->serial_hex);
    return copy;
}

enum err tls_wall_from_asn1(const ASN1_TIME *time, wall_time *ret_time)
{
    struct tm parts;
    time_t seconds;

    if (!time || !ASN1_TIME_to_tm(time, &parts)) return ERR_PARSE;
    seconds = timegm(&parts);
    ret_time->ms = seconds < 0 ? 0 : (uint64_t)seconds * MS_PER_SECOND;
    return ERR_OK;
}
