/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate and key that HTTPS shows, and the authorities whose clients it knows, both
 * replaceable while the server runs.
 *
 * GnuTLS, which the library is built on, asks for the pair once per handshake, on the HTTP thread.
 * A handshake under way keeps pointing at the pair it was given, and nobody tells us when it is
 * over: a replaced pair is therefore freed when no connection is open, or at close. That is a few
 * kilobytes per renewal. */
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/http_internal.h"

enum { HTTP_CHAIN_MAX = 16 }; /* certificates in a file */

struct http_pair {
    struct http_pair *next; /* older */
    gnutls_pcert_st chain[HTTP_CHAIN_MAX];
    unsigned chain_len;
    gnutls_privkey_t key;
};

static _Thread_local struct http_server *of_this_thread; /* the callback has no context */

void http_pair_thread(struct http_server *server)
{
    of_this_thread = server;
}

static void pair_free(struct http_pair *pair)
{
    if (!pair) return;
    for (unsigned i = 0; i < pair->chain_len; i++) gnutls_pcert_deinit(&pair->chain[i]);
    if (pair->key) gnutls_privkey_deinit(pair->key);
    free(pair);
}

/* That they can be read and belong together. */
static int pair_check(const gnutls_datum_t *cert, const gnutls_datum_t *key)
{
    gnutls_certificate_credentials_t credentials;
    int code = gnutls_certificate_allocate_credentials(&credentials);
    if (code < 0) return code;
    code = gnutls_certificate_set_x509_key_mem2(credentials, cert, key, GNUTLS_X509_FMT_PEM, NULL,
                                                GNUTLS_PKCS_PLAIN);
    gnutls_certificate_free_credentials(credentials);
    return code;
}

static int pair_import(struct http_pair *pair, const gnutls_datum_t *cert,
                       const gnutls_datum_t *key)
{
    unsigned count = HTTP_CHAIN_MAX;
    int code = gnutls_pcert_list_import_x509_raw(pair->chain, &count, cert, GNUTLS_X509_FMT_PEM, 0);
    if (code < 0) return code;
    pair->chain_len = count;
    code = gnutls_privkey_init(&pair->key);
    if (code < 0) return code;
    return gnutls_privkey_import_x509_raw(pair->key, key, GNUTLS_X509_FMT_PEM, NULL, 0);
}

static enum err pair_make(const struct http_server *server, struct str cert_pem, struct str key_pem,
                          struct http_pair **ret_pair, struct note *note)
{
    const gnutls_datum_t cert = {(unsigned char *)cert_pem.at, (unsigned)cert_pem.len};
    const gnutls_datum_t key = {(unsigned char *)key_pem.at, (unsigned)key_pem.len};
    struct http_pair *pair;
    int code;

    if (!server->tls) {
        note_set(note, "the server was opened without TLS");
        return ERR_INVALID;
    }
    if (cert_pem.len > HTTP_PEM_MAX || key_pem.len > HTTP_PEM_MAX) {
        note_set(note, "certificate or key is too large");
        return ERR_TOO_LARGE;
    }
    code = pair_check(&cert, &key);
    if (code < 0) goto refused;
    pair = calloc(1, sizeof *pair);
    if (!pair) return ERR_NOMEM;
    code = pair_import(pair, &cert, &key);
    if (code >= 0) {
        *ret_pair = pair;
        return ERR_OK;
    }
    pair_free(pair);
refused:
    if (code == GNUTLS_E_MEMORY_ERROR) return ERR_NOMEM;
    note_set(note, "certificate and key do not work together: %s", gnutls_strerror(code));
    return ERR_PARSE;
}

void http_pairs_trim(struct http_server *server)
{
    struct http_pair *old = NULL;
    http_lock(server);
    if (server->pair) {
        old = server->pair->next;
        server->pair->next = NULL;
    }
    http_unlock(server);
    while (old) {
        struct http_pair *next = old->next;
        pair_free(old);
        old = next;
    }
}

void http_pairs_free(struct http_server *server)
{
    http_pairs_trim(server);
    pair_free(server->pair);
    server->pair = NULL;
}

static int on_handshake(gnutls_session_t session, const gnutls_datum_t *authorities,
                        int authority_count, const gnutls_pk_algorithm_t *algorithms,
                        int algorithm_count, gnutls_pcert_st **ret_chain, unsigned *ret_chain_len,
                        gnutls_privkey_t *ret_key)
{
    struct http_server *server = of_this_thread;
    (void)session, (void)authorities, (void)authority_count, (void)algorithms;
    (void)algorithm_count;
    if (!server) return -1;
    http_lock(server);
    *ret_chain = server->pair->chain;
    *ret_chain_len = server->pair->chain_len;
    *ret_key = server->pair->key;
    http_unlock(server);
    return 0;
}

void *http_on_handshake(void)
{
    union {
        gnutls_certificate_retrieve_function2 *call;
        void *value;
    } both = {.call = on_handshake}; /* the option's list holds object pointers only */
    static_assert(sizeof both.call == sizeof both.value, "POSIX: one size for both");
    return both.value;
}

/* -- who calls --
 *
 * The library asks for a certificate and takes any: what it is worth is decided here, against the
 * authorities as they are now, each time a handler wants to know. */

enum {
    CALLER_URI_MAX = 2048,
    CALLER_NAME_MAX = 512,
    CALLER_SERIAL_MAX = 32, /* octets; the standard allows 20 */
};

struct http_caller {
    struct tls_identity identity;
    struct str uris[TLS_NAMES_MAX];
    char *texts[TLS_NAMES_MAX];
    char name[CALLER_NAME_MAX], serial[2 * CALLER_SERIAL_MAX + 1];
};

static enum err trust_make(const struct http_server *server, struct str ca_pem,
                           gnutls_x509_trust_list_t *ret_list, struct note *note)
{
    const gnutls_datum_t pem = {(unsigned char *)ca_pem.at, (unsigned)ca_pem.len};
    gnutls_x509_trust_list_t list;
    int code;

    if (!server->ca_pem) {
        note_set(note, "the server was opened without authorities");
        return ERR_INVALID;
    }
    if (ca_pem.len > HTTP_PEM_MAX) return ERR_TOO_LARGE;
    if (gnutls_x509_trust_list_init(&list, 0) < 0) return ERR_NOMEM;
    code = gnutls_x509_trust_list_add_trust_mem(list, &pem, NULL, GNUTLS_X509_FMT_PEM, 0, 0);
    if (code <= 0) {
        gnutls_x509_trust_list_deinit(list, 1);
        note_set(note, "no authority can be read: %s", code < 0 ? gnutls_strerror(code) : "none");
        return ERR_PARSE;
    }
    *ret_list = list;
    return ERR_OK;
}

/* From here on nothing can fail. Either may be NULL: it stays as it is. */
static void take_over(struct http_server *server, struct http_pair *pair,
                      gnutls_x509_trust_list_t list)
{
    gnutls_x509_trust_list_t old = NULL;

    http_lock(server);
    if (pair) {
        pair->next = server->pair;
        server->pair = pair;
    }
    if (list) {
        old = server->trust;
        server->trust = list;
    }
    http_unlock(server);
    if (old) gnutls_x509_trust_list_deinit(old, 1);
}

enum err http_replace_trust(struct http_server *server, struct str ca_pem, struct note *note)
{
    gnutls_x509_trust_list_t list;
    enum err err = trust_make(server, ca_pem, &list, note);

    if (!err) take_over(server, NULL, list);
    return err;
}

enum err http_replace_pair(struct http_server *server, struct str cert_pem, struct str key_pem,
                           struct note *note)
{
    struct http_pair *pair;
    enum err err = pair_make(server, cert_pem, key_pem, &pair, note);

    if (!err) take_over(server, pair, NULL);
    return err;
}

enum err http_replace_tls(struct http_server *server, struct str cert_pem, struct str key_pem,
                          struct str ca_pem, struct note *note)
{
    gnutls_x509_trust_list_t list;
    struct http_pair *pair;
    enum err err = pair_make(server, cert_pem, key_pem, &pair, note);

    if (err) return err;
    err = trust_make(server, ca_pem, &list, note);
    if (err)
        pair_free(pair);
    else
        take_over(server, pair, list);
    return err;
}

void http_trust_free(struct http_server *server)
{
    if (server->trust) gnutls_x509_trust_list_deinit(server->trust, 1);
    server->trust = NULL;
}

static bool is_trusted(struct http_server *server, gnutls_x509_crt_t *chain, unsigned count)
{
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    unsigned status = ~0u;
    int code;

    http_lock(server); /* it may be replaced, and is then freed */
    code = gnutls_x509_trust_list_verify_crt2(server->trust, chain, count, &purpose, 1, 0, &status,
                                              NULL);
    http_unlock(server);
    return code >= 0 && status == 0;
}

/* A name that reads differently to two readers is nobody's name. */
static bool is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~') return false;
    return len > 0;
}

/* False: something in it cannot be believed, and so nothing can. */
static bool read_uris(struct http_caller *caller, gnutls_x509_crt_t leaf)
{
    for (unsigned i = 0;; i++) {
        char text[CALLER_URI_MAX];
        size_t len = sizeof text, at = caller->identity.uri_count;
        int kind = gnutls_x509_crt_get_subject_alt_name(leaf, i, text, &len, NULL);

        if (kind == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE) return true;
        if (kind < 0) return false;
        if (kind != GNUTLS_SAN_URI) continue;
        if (at == TLS_NAMES_MAX || !is_plain(text, len)) return false;
        caller->texts[at] = str_dup(str_of(text, len));
        if (!caller->texts[at]) return false;
        caller->uris[at] = str_of(caller->texts[at], len);
        caller->identity.uri_count++;
    }
}

/* A common name as tls.h takes it: text without control characters (C0, DEL, and C1 in UTF-8). */
static bool is_name(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char byte = (unsigned char)name.at[i];
        bool c1 = byte == 0xc2 && i + 1 < name.len && (unsigned char)name.at[i + 1] < 0xa0;
        if (byte < ' ' || byte == 0x7f || c1) return false;
    }
    return str_is_utf8(name);
}

/* What logs call it by. Nothing is decided by a name, so one that is no text, or one of several, is
 * left out. */
static void read_name(struct http_caller *caller, gnutls_x509_crt_t leaf)
{
    unsigned char serial[CALLER_SERIAL_MAX];
    size_t len = sizeof caller->name, octets = sizeof serial, more = 0, zeros = 0;

    if (gnutls_x509_crt_get_dn_by_oid(leaf, GNUTLS_OID_X520_COMMON_NAME, 0, 0, caller->name,
                                      &len) >= 0 &&
        gnutls_x509_crt_get_dn_by_oid(leaf, GNUTLS_OID_X520_COMMON_NAME, 1, 0, NULL, &more) ==
            GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE &&
        is_name(str_of(caller->name, len)))
        caller->identity.common_name = str_of(caller->name, len);
    if (gnutls_x509_crt_get_serial(leaf, serial, &octets) < 0) return;
    while (zeros + 1 < octets && serial[zeros] == 0)
        zeros++; /* the sign of a number, not its digits */
    for (size_t i = zeros; i < octets; i++)
        snprintf(caller->serial + 2 * (i - zeros), 3, "%02X", serial[i]);
    caller->identity.serial_hex = str_from(caller->serial);
}

void http_caller_free(struct http_caller *caller)
{
    if (!caller) return;
    for (size_t i = 0; i < TLS_NAMES_MAX; i++) free(caller->texts[i]);
    free(caller);
}

static struct http_caller *caller_make(struct http_server *server, gnutls_x509_crt_t *chain,
                                       unsigned count)
{
    struct http_caller *caller;

    if (!is_trusted(server, chain, count)) return NULL;
    caller = calloc(1, sizeof *caller);
    if (!caller) return NULL;
    caller->identity.uris = caller->uris;
    read_name(caller, chain[0]);
    if (read_uris(caller, chain[0]) && caller->identity.uri_count > 0) return caller;
    http_caller_free(caller);
    return NULL;
}

struct http_caller *http_caller_of(struct http_server *server, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info;
    const gnutls_datum_t *given;
    gnutls_x509_crt_t chain[HTTP_CHAIN_MAX];
    struct http_caller *caller = NULL;
    unsigned count = 0, read = 0;
    bool good = true;

    if (!server->ca_pem) return NULL;
    info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    given = info ? gnutls_certificate_get_peers(info->tls_session, &count) : NULL;
    if (!given || count == 0 || count > HTTP_CHAIN_MAX) return NULL;
    while (read < count && good && gnutls_x509_crt_init(&chain[read]) >= 0) {
        good = gnutls_x509_crt_import(chain[read], &given[read], GNUTLS_X509_FMT_DER) >= 0;
        read++;
    }
    if (good && read == count) caller = caller_make(server, chain, count);
    while (read > 0) gnutls_x509_crt_deinit(chain[--read]);
    return caller;
}

const struct tls_identity *http_caller_identity(const struct http_caller *caller)
{
    return caller ? &caller->identity : NULL;
}
