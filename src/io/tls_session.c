/* SPDX-License-Identifier: Apache-2.0 */
/* Connects OpenSSL to two bounded buffers through a custom BIO, because OpenSSL's own memory BIO
 * has no limit and never frees memory. One thread. */
#include "io/tls_session.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "io/net.h"
#include "io/tls_context.h"
#include "io/tls_identity.h"

enum {
    HOST_NAME_MAX_LEN = 253,
    TLS_SESSION_IDLE_OUTPUT_MAX = 2 * TLS_RECORD_MAX, /* kept by an idle session */
};

/* -- the BIO ----------------------------------------------------------------------------------- */

static int bio_read(BIO *bio, char *into, int cap)
{
    struct tls_session *session = BIO_get_data(bio);
    size_t take = min_size((size_t)cap, session->input.len - session->input_at);

    BIO_clear_retry_flags(bio);
    if (take == 0) { /* more may follow; 0 would mean the end */
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(into, session->input.data + session->input_at, take);
    session->input_at += take;
    if (session->input_at == session->input.len) {
        session->input_at = 0;
        buf_deinit(&session->input); /* an idle session needs no input memory */
    }
    return (int)take;
}

static int bio_write(BIO *bio, const char *bytes, int len)
{
    struct tls_session *session = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    session->output_err = buf_append(&session->output, str_of(bytes, (size_t)len));
    return session->output_err ? -1 : len;
}

static long bio_ctrl(BIO *, int command, long, void *)
{
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method_new(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "muster session");

    if (!method || !BIO_meth_set_read(method, bio_read) || !BIO_meth_set_write(method, bio_write) ||
        !BIO_meth_set_ctrl(method, bio_ctrl)) {
        BIO_meth_free(method);
        return NULL;
    }
    return method;
}

/* The first caller makes the process's method. Any thread. */
static BIO_METHOD *bio_method(void)
{
    static _Atomic(BIO_METHOD *) shared;
    BIO_METHOD *mine, *first = atomic_load(&shared);

    if (first) return first;
    mine = bio_method_new();
    if (!mine || atomic_compare_exchange_strong(&shared, &first, mine)) return mine;
    BIO_meth_free(mine);
    return first;
}

/* -- opening ----------------------------------------------------------------------------------- */

/* Only DNS and address SANs prove the name, never the common name. */
static enum err expect_peer(SSL *ssl, const char *name, struct note *note)
{
    X509_VERIFY_PARAM *expected = SSL_get0_param(ssl);
    size_t len = name ? strlen(name) : 0;
    uint8_t address[16];
    bool good;

    if (len == 0 || len > HOST_NAME_MAX_LEN)
        return note_fail(note, ERR_INVALID,
                         "tls: a client needs the host name or address it expects");
    X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                                  X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (address_ip(str_from(name), address) > 0)
        good = X509_VERIFY_PARAM_set1_ip_asc(expected, name);
    else
        good =
            X509_VERIFY_PARAM_set1_host(expected, name, len) && SSL_set_tlsext_host_name(ssl, name);
    if (good) return ERR_OK;
    return note_fail(note, ERR_NOMEM, "tls: out of memory");
}

enum err tls_session_open(struct tls_context *context, const char *peer_name,
                          struct tls_session **ret_session, struct note *note)
{
    struct tls_session *session = calloc(1, sizeof *session);
    BIO_METHOD *method = bio_method();
    BIO *bio = NULL;
    enum err err = ERR_NOMEM;

    ERR_clear_error();
    if (!session) return note_fail(note, ERR_NOMEM, "tls: out of memory");
    if (!method) goto fail;
    buf_init(&session->input, TLS_HELD_MAX);
    buf_init(&session->output, TLS_OUTPUT_MAX);
    session->ssl = SSL_new(context->current);
    bio = BIO_new(method);
    if (!session->ssl || !bio) goto fail;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio);
    bio = NULL; /* the SSL object owns it now */
    if (!SSL_set_app_data(session->ssl, session)) goto fail;
    if (context->side == TLS_SERVER) {
        SSL_set_accept_state(session->ssl);
    } else {
        err = expect_peer(session->ssl, peer_name, note);
        if (err) goto fail;
        SSL_set_connect_state(session->ssl);
    }
    session->context = context;
    tls_context_ref(context);
    *ret_session = session;
    return ERR_OK;

fail:
    if (err == ERR_NOMEM) note_set(note, "tls: out of memory");
    BIO_free(bio);
    tls_session_close(session);
    ERR_clear_error();
    return err;
}

void tls_session_close(struct tls_session *session)
{
    if (!session) return;
    SSL_free(session->ssl);
    tls_context_unref(session->context);
    free(session->identity);
    buf_deinit(&session->input);
    buf_deinit(&session->output);
    free(session);
}

enum err tls_session_judge(void *owner, X509 *leaf)
{
    struct tls_session *session = owner;

    free(session->identity);
    session->identity = NULL;
    return tls_identity_read(leaf, &session->identity, &session->failure);
}

void tls_session_doubt(void *owner)
{
    struct tls_session *session = owner;

    session->doubted = true;
    session->failure.text[0] = '\0';
}

/* -- failures ---------------------------------------------------------------------------------- */

static enum err fail_with(struct tls_session *session, enum err err)
{
    session->state = TLS_FAILED;
    session->failed = err;
    note_prefix(&session->failure, "tls");
    ERR_clear_error();
    return err;
}

/* Alerts about our identity, versions or protocols. */
static enum err judge_alert(int alert)
{
    switch (alert) {
    case SSL_AD_HANDSHAKE_FAILURE: /* TLS 1.2: a certificate is missing */
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_DECRYPT_ERROR: /* the peer could not verify our signature */
    case SSL_AD_CERTIFICATE_REQUIRED: return ERR_DENIED;
    case SSL_AD_PROTOCOL_VERSION:
    case SSL_AD_INSUFFICIENT_SECURITY:
    case SSL_AD_NO_APPLICATION_PROTOCOL: return ERR_UNSUPPORTED;
    default: return ERR_IO;
    }
}

static enum err refused_peer(struct tls_session *session)
{
    long result = SSL_get_verify_result(session->ssl);

    if (result == X509_V_ERR_OUT_OF_MEM)
        return note_fail(&session->failure, ERR_NOMEM, "out of memory");
    /* If our own check failed, tls_session_judge has set the reason. */
    if (result != X509_V_ERR_APPLICATION_VERIFICATION)
        note_set(&session->failure, "%s", X509_verify_cert_error_string(result));
    note_prefix(&session->failure, "peer's certificate refused");
    return ERR_UNAUTHENTICATED;
}

static enum err judge_reason(struct tls_session *session, unsigned long code)
{
    const char *text = ERR_reason_error_string(code);
    int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
    int alert = reason - SSL_AD_REASON_OFFSET;

    if (alert >= 0 && alert <= UINT8_MAX) {
        note_set(&session->failure, "refused by the peer: %s", SSL_alert_desc_string_long(alert));
        return judge_alert(alert);
    }
    note_set(&session->failure, "%s", text ? text : "engine failed without a reason");
    switch (reason) {
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return ERR_UNAUTHENTICATED;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_VERSION_TOO_HIGH:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_KEY_SHARE:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_APPLICATION_PROTOCOL: return ERR_UNSUPPORTED;
    default: return ERR_PARSE;
    }
}

/* OpenSSL's queue begins with the innermost layer, whose error is less specific. */
static enum err fail(struct tls_session *session)
{
    unsigned long code, first = 0;
    bool refused = false, nomem = false;

    while ((code = ERR_get_error()) != 0) {
        bool is_tls = ERR_GET_LIB(code) == ERR_LIB_SSL;
        if (!first || (is_tls && ERR_GET_LIB(first) != ERR_LIB_SSL)) first = code;
        if (is_tls && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED) refused = true;
        if (ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE) nomem = true;
    }
    if (session->output_err) {
        note_set(&session->failure, "output: %s", err_text(session->output_err));
        return fail_with(session, session->output_err);
    }
    if (nomem) {
        note_set(&session->failure, "out of memory");
        return fail_with(session, ERR_NOMEM);
    }
    if (refused) return fail_with(session, refused_peer(session));
    return fail_with(session, judge_reason(session, first));
}

/* -- moving bytes ------------------------------------------------------------------------------ */

enum err tls_session_feed(struct tls_session *session, struct str bytes)
{
    if (session->peer_ended) return ERR_OK; /* bytes after close_notify are ignored */
    buf_consume(&session->input, session->input_at);
    session->input_at = 0;
    return buf_append(&session->input, bytes);
}

static enum err shake(struct tls_session *session)
{
    const unsigned char *alpn;
    unsigned alpn_len;
    int done = SSL_do_handshake(session->ssl);

    if (done != 1) {
        if (SSL_get_error(session->ssl, done) == SSL_ERROR_WANT_READ) return ERR_OK;
        return fail(session);
    }
    SSL_get0_alpn_selected(session->ssl, &alpn, &alpn_len);
    assert(alpn_len < sizeof session->alpn);
    if (alpn_len) memcpy(session->alpn, alpn, alpn_len);
    if (alpn_len == 0 && session->context->alpn_len > 0) {
        note_set(&session->failure, "the peer agrees to none of our protocols");
        return fail_with(session, ERR_UNSUPPORTED);
    }
    session->state = TLS_OPEN;
    return ERR_OK;
}

enum err tls_session_read(struct tls_session *session, void *into, size_t cap, size_t *ret_got)
{
    size_t got = 0;

    if (session->state == TLS_FAILED) return session->failed;
    ERR_clear_error();
    if (session->state == TLS_SHAKING) {
        enum err err = shake(session);
        if (err) return err;
    } else if (!session->peer_ended && !SSL_read_ex(session->ssl, into, cap, &got)) {
        switch (SSL_get_error(session->ssl, 0)) {
        case SSL_ERROR_WANT_READ: break;
        case SSL_ERROR_ZERO_RETURN: session->peer_ended = true; break;
        default: return fail(session);
        }
        got = 0;
    }
    ERR_clear_error();
    *ret_got = got;
    return ERR_OK;
}

enum err tls_session_write(struct tls_session *session, struct str plain)
{
    if (session->state == TLS_FAILED) return session->failed;
    assert(session->state == TLS_OPEN && !session->ended);
    ERR_clear_error();
    while (plain.len > 0) {
        size_t done, size = min_size(plain.len, TLS_RECORD_MAX);
        if (!SSL_write_ex(session->ssl, plain.at, size, &done)) return fail(session);
        plain = str_tail(plain, done);
    }
    return ERR_OK;
}

enum err tls_session_end(struct tls_session *session)
{
    if (session->state == TLS_FAILED) return session->failed;
    assert(session->state == TLS_OPEN);
    if (session->ended) return ERR_OK;
    ERR_clear_error();
    if (SSL_shutdown(session->ssl) < 0) return fail(session);
    session->ended = true;
    return ERR_OK;
}

struct str tls_session_output(const struct tls_session *session)
{
    return buf_peek(&session->output);
}

void tls_session_consume(struct tls_session *session, size_t len)
{
    buf_consume(&session->output, len);
    /* Keeps an idle connection small. */
    if (session->output.len == 0 && session->output.cap > TLS_SESSION_IDLE_OUTPUT_MAX)
        buf_deinit(&session->output);
}

const struct tls_identity *tls_session_identity(const struct tls_session *session)
{
    return session->doubted ? NULL : session->identity;
}
