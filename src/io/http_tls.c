/* The certificate and key that HTTPS shows, replaceable while the server runs.
 *
 * GnuTLS, which the library is built on, asks for the pair once per handshake, on the HTTP thread.
 * A handshake under way keeps pointing at the pair it was given, and nobody tells us when it is
 * over: a replaced pair is therefore freed when no connection is open, or at close. That is a few
 * kilobytes per renewal. */
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
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

static enum err pair_make(struct str cert_pem, struct str key_pem, struct http_pair **ret_pair,
                          struct note *note)
{
    const gnutls_datum_t cert = {(unsigned char *)cert_pem.at, (unsigned)cert_pem.len};
    const gnutls_datum_t key = {(unsigned char *)key_pem.at, (unsigned)key_pem.len};
    struct http_pair *pair;
    int code;

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

enum err http_replace_pair(struct http_server *server, struct str cert_pem, struct str key_pem,
                           struct note *note)
{
    struct http_pair *pair;
    enum err err;

    if (!server->tls) {
        note_set(note, "the server was opened without TLS");
        return ERR_INVALID;
    }
    err = pair_make(cert_pem, key_pem, &pair, note);
    if (err) return err;
    http_lock(server);
    pair->next = server->pair;
    server->pair = pair;
    http_unlock(server);
    return ERR_OK;
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
