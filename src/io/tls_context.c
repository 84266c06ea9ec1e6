/* SPDX-License-Identifier: Apache-2.0 */
/* One side's TLS settings: read, checked, converted to an SSL_CTX, and replaced as a whole when
 * files change.
 *
 * A load builds a new SSL_CTX separately and swaps it in at the end. Connections hold a reference
 * to the SSL_CTX they were made with. */
#include "io/tls_context.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "io/fs.h"
#include "io/tls_identity.h"

enum {
    FILE_BYTES_MAX = 1024 * 1024, /* a bundle of all public roots needs a quarter of this */
    BUNDLE_CERTS_MAX = 512,       /* root certificates in all CA files */
    CHAIN_CERTS_MAX = 16,         /* certificates in cert_file, with our own */
    PEER_CHAIN_BYTES_MAX = 65536, /* limits the memory for a peer's chain */
    PEER_CHAIN_DEPTH_MAX = 8,
};

const char *tls_engine_version(void)
{
    return OpenSSL_version(OPENSSL_VERSION);
}

/* -- rules for connections --------------------------------------------------------------------- */

static int on_verify(int good, X509_STORE_CTX *verify)
{
    SSL *ssl;

    if (!good || X509_STORE_CTX_get_error_depth(verify) != 0) return good;
    ssl = X509_STORE_CTX_get_ex_data(verify, SSL_get_ex_data_X509_STORE_CTX_idx());
    switch (tls_session_judge(SSL_get_app_data(ssl), X509_STORE_CTX_get_current_cert(verify))) {
    case ERR_OK: return 1;
    case ERR_NOMEM: X509_STORE_CTX_set_error(verify, X509_V_ERR_OUT_OF_MEM); return 0;
    default: X509_STORE_CTX_set_error(verify, X509_V_ERR_APPLICATION_VERIFICATION); return 0;
    }
}

/* A peer with an unverified certificate counts like a peer without one. */
static int on_verify_any(int good, X509_STORE_CTX *verify)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(verify, SSL_get_ex_data_X509_STORE_CTX_idx());

    if (!on_verify(good, verify)) tls_session_doubt(SSL_get_app_data(ssl));
    return 1;
}

static bool is_in_time(const X509 *certificate)
{
    return X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0 &&
           X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0;
}

/* A renewed root often keeps its name, and many issuers write no key identifier. OpenSSL would take
 * the first root of the name. Here the signature decides. */
static int choose_issuer(X509 **ret_issuer, X509_STORE_CTX *verify, X509 *certificate)
{
    STACK_OF(X509) *named = X509_STORE_CTX_get1_certs(verify, X509_get_issuer_name(certificate));
    X509 *found = NULL;

    for (int i = 0; sk_X509_num(named) > 1 && i < sk_X509_num(named); i++) {
        X509 *candidate = sk_X509_value(named, i);
        if (found && is_in_time(found)) break;
        if (X509_check_issued(candidate, certificate) == X509_V_OK &&
            X509_verify(certificate, X509_get0_pubkey(candidate)) == 1)
            found = candidate;
    }
    ERR_clear_error(); /* errors of candidates that did not sign */
    if (found) X509_up_ref(found);
    sk_X509_pop_free(named, X509_free);
    if (!found) return X509_STORE_CTX_get1_issuer(ret_issuer, verify, certificate);
    *ret_issuer = found;
    return 1;
}

/* The select callback is not called for peers that offer no protocol. */
static int on_client_hello(SSL *ssl, int *alert, void *owner)
{
    const struct tls_context *context = owner;
    const unsigned char *offered;
    size_t len;

    if (context->alpn_len == 0 ||
        SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &offered,
                                  &len))
        return SSL_CLIENT_HELLO_SUCCESS;
    *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
    ERR_raise(ERR_LIB_SSL, SSL_R_NO_APPLICATION_PROTOCOL);
    return SSL_CLIENT_HELLO_ERROR;
}

static int on_alpn_select(SSL *, const unsigned char **out, unsigned char *out_len,
                          const unsigned char *offered, unsigned offered_len, void *owner)
{
    const struct tls_context *context = owner;
    unsigned char *chosen;

    if (SSL_select_next_proto(&chosen, out_len, context->alpn, context->alpn_len, offered,
                              offered_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static bool set_versions_and_ciphers(const struct tls_context *context, SSL_CTX *made)
{
    int lowest = context->version_min == TLS_V1_3 ? TLS1_3_VERSION : TLS1_2_VERSION;

    SSL_CTX_set_security_level(made, 2);
    return SSL_CTX_set_min_proto_version(made, lowest) &&
           SSL_CTX_set_max_proto_version(made, TLS1_3_VERSION) &&
           SSL_CTX_set_cipher_list(made, "ECDHE+AESGCM:ECDHE+CHACHA20") &&
           SSL_CTX_set_ciphersuites(made, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                          "TLS_CHACHA20_POLY1305_SHA256") &&
           SSL_CTX_set1_groups_list(made, "X25519:P-256:P-384");
}

static bool set_behaviour(struct tls_context *context, SSL_CTX *made)
{
    int verify = SSL_VERIFY_NONE;

    SSL_CTX_set_options(made, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                  SSL_OP_CIPHER_SERVER_PREFERENCE);
    /* Idle connections keep no record buffer. The chain is that of our file, without trusted
     * roots. */
    SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_cert_list(made, PEER_CHAIN_BYTES_MAX);
    SSL_CTX_set_verify_depth(made, PEER_CHAIN_DEPTH_MAX);
    /* Sessions are never resumed. */
    if (!SSL_CTX_set_num_tickets(made, 0)) return false;

    if (context->side == TLS_CLIENT || context->has_ca) verify = SSL_VERIFY_PEER;
    if (context->side == TLS_SERVER && !context->peer_optional)
        verify |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(made, verify, context->peer_unproven ? on_verify_any : on_verify);
    X509_STORE_set_get_issuer(SSL_CTX_get_cert_store(made), choose_issuer);

    if (context->alpn_len == 0) return true;
    if (context->side == TLS_CLIENT) /* returns 0 on success, unlike others */
        return SSL_CTX_set_alpn_protos(made, context->alpn, context->alpn_len) == 0;
    SSL_CTX_set_client_hello_cb(made, on_client_hello, context);
    SSL_CTX_set_alpn_select_cb(made, on_alpn_select, context);
    return true;
}

/* -- PEM into an SSL_CTX ----------------------------------------------------------------------- */

static const char *source_name(const struct tls_context *context, size_t which)
{
    static const char *const in_memory[] = {"certificate", "key", "ca"};
    const char *path = context->sources[which].path;
    return path ? path : in_memory[min_size(which, SOURCE_CA)];
}

static bool use_own(SSL_CTX *made, X509 *certificate, size_t index)
{
    if (index == 0) return SSL_CTX_use_certificate(made, certificate) == 1;
    return SSL_CTX_add1_chain_cert(made, certificate) == 1;
}

static bool trust_root(SSL_CTX *made, X509 *certificate, size_t)
{
    return X509_STORE_add_cert(SSL_CTX_get_cert_store(made), certificate) == 1;
}

static bool trust_and_name_root(SSL_CTX *made, X509 *certificate, size_t index)
{
    return trust_root(made, certificate, index) && SSL_CTX_add_client_CA(made, certificate) == 1;
}

typedef bool use_certificate_fn(SSL_CTX *made, X509 *certificate, size_t index);
/* *count is the number in all sources so far, at most `max`. */
static enum err use_certificates(const struct tls_context *context, size_t which, SSL_CTX *made,
                                 use_certificate_fn *use, size_t max, size_t *count,
                                 struct note *note)
{
    X509 *list[BUNDLE_CERTS_MAX];
    size_t got = 0;
    enum err err = tls_pem_certificates(buf_peek(&context->sources[which].pem), list, max - *count,
                                        &got, note);

    if (err == ERR_TOO_LARGE)
        note_set(note, "more than %zu certificates%s", max,
                 *count > 0 ? " with the files before it" : "");
    for (size_t i = 0; !err && i < got; i++)
        if (!use(made, list[i], *count + i)) err = tls_engine_failed(ERR_PARSE, note);
    tls_certificates_free(list, got);
    *count += got;
    if (err) note_prefix(note, "%s", source_name(context, which));
    return err;
}

static enum err use_key(const struct tls_context *context, SSL_CTX *made, struct note *note)
{
    EVP_PKEY *key = NULL;
    enum err err = tls_pem_key(buf_peek(&context->sources[SOURCE_KEY].pem), &key, note);

    if (!err && X509_check_private_key(SSL_CTX_get0_certificate(made), key) != 1)
        err = note_fail(note, ERR_CONFLICT, "the key does not belong to the certificate in %s",
                        source_name(context, SOURCE_CERT));
    else if (!err && SSL_CTX_use_PrivateKey(made, key) != 1)
        err = tls_engine_failed(ERR_PARSE, note);
    if (err) note_prefix(note, "%s", source_name(context, SOURCE_KEY));
    EVP_PKEY_free(key);
    return err;
}

static enum err build(struct tls_context *context, SSL_CTX **ret_made, struct note *note)
{
    size_t own = 0, roots = 0;
    SSL_CTX *made;
    enum err err = ERR_OK;

    ERR_clear_error();
    made = SSL_CTX_new(context->side == TLS_SERVER ? TLS_server_method() : TLS_client_method());
    if (!made || !set_versions_and_ciphers(context, made) || !set_behaviour(context, made)) {
        err = tls_engine_failed(ERR_PARSE, note);
        note_prefix(note, "tls");
    }
    if (!err && context->has_pair) {
        err = use_certificates(context, SOURCE_CERT, made, use_own, CHAIN_CERTS_MAX, &own, note);
        if (!err) err = use_key(context, made, note);
    }
    for (size_t i = SOURCE_CA; !err && context->has_ca && i < context->source_count; i++)
        err = use_certificates(context, i, made,
                               context->peer_unproven ? trust_and_name_root : trust_root,
                               BUNDLE_CERTS_MAX, &roots, note);
    ERR_clear_error();
    if (err)
        SSL_CTX_free(made);
    else
        *ret_made = made;
    return err;
}

/* -- loading ----------------------------------------------------------------------------------- */

static enum err read_stamps(const struct tls_context *context, struct fs_info *stamps,
                            struct note *note)
{
    for (size_t i = 0; i < context->source_count; i++) {
        const char *path = context->sources[i].path;
        enum err err = path ? fs_stat(context->fs, path, &stamps[i]) : ERR_OK;
        if (err) return fs_noted(err, "look at", path, note);
    }
    return ERR_OK;
}

static bool same_stamps(const struct tls_context *context, const struct fs_info *a,
                        const struct fs_info *b)
{
    for (size_t i = 0; i < context->source_count; i++)
        if (!fs_same(&a[i], &b[i])) return false;
    return true;
}

static enum err read_sources(struct tls_context *context, struct note *note)
{
    for (size_t i = 0; i < context->source_count; i++) {
        struct source *source = &context->sources[i];
        enum err err;
        if (!source->path) continue;
        err = fs_read_whole(context->fs, source->path, FILE_BYTES_MAX, &source->pem);
        if (err) return fs_noted(err, "read", source->path, note);
    }
    return ERR_OK;
}

static void adopt(struct tls_context *context, SSL_CTX *own_made)
{
    X509 *own = SSL_CTX_get0_certificate(own_made);

    SSL_CTX_free(context->current);
    context->current = own_made;
    context->info.loads++;
    context->info.last_failure.text[0] = '\0';
    context->info.not_before = tls_wall_from_asn1(own ? X509_get0_notBefore(own) : NULL);
    context->info.not_after = tls_wall_from_asn1(own ? X509_get0_notAfter(own) : NULL);
}

/* Reads the files, if any, and swaps the SSL_CTX. `stamps` were taken before, so that the next
 * check notices a change during the load. */
static enum err load(struct tls_context *context, const struct fs_info *stamps, struct note *note)
{
    SSL_CTX *made = NULL;
    enum err err = read_sources(context, note);

    if (!err) err = build(context, &made, note);
    for (size_t i = 0; i < SOURCES_MAX; i++) tls_wipe(&context->sources[i].pem);
    if (err) {
        /* Bad content is not read again until a file changes; a read error is worth a retry. */
        context->refused_known = err == ERR_PARSE || err == ERR_CONFLICT || err == ERR_TOO_LARGE;
        memcpy(context->refused, stamps, sizeof context->refused);
        return err;
    }
    adopt(context, made);
    memcpy(context->loaded, stamps, sizeof context->loaded);
    context->refused_known = false;
    return ERR_OK;
}

static enum err load_failed(struct tls_context *context, enum err err, const struct note *why,
                            struct note *note)
{
    context->info.failed_loads++;
    context->info.last_failure = *why;
    return note_fail(note, err, "%s", why->text);
}

static enum err reload(struct tls_context *context, bool skip_refused, bool *ret_changed,
                       struct note *note)
{
    struct fs_info stamps[SOURCES_MAX] = {0};
    struct note why = {0};
    enum err err;

    if (context->in_memory) {
        *ret_changed = false;
        return ERR_OK;
    }
    err = read_stamps(context, stamps, &why);
    if (!err && same_stamps(context, stamps, context->loaded)) {
        /* The loaded content is current again. */
        context->info.last_failure.text[0] = '\0';
        context->refused_known = false;
        *ret_changed = false;
        return ERR_OK;
    }
    if (!err && skip_refused && context->refused_known &&
        same_stamps(context, stamps, context->refused)) {
        *ret_changed = false;
        return ERR_OK;
    }
    if (!err) err = load(context, stamps, &why);
    if (err) return load_failed(context, err, &why, note);
    *ret_changed = true;
    return ERR_OK;
}

enum err tls_context_reload(struct tls_context *context, bool *ret_changed, struct note *note)
{
    return reload(context, false, ret_changed, note);
}

void tls_context_recheck(struct tls_context *context, mono_time now)
{
    bool changed;

    if (!mono_due(context->recheck_at, now)) return;
    context->recheck_at = mono_after(now, TLS_RECHECK_MS);
    /* tls_info counts errors */
    (void)reload(context, true, &changed, NULL);
}

/* -- opening and closing ----------------------------------------------------------------------- */

static enum err set_alpn(struct tls_context *context, const struct tls_options *options,
                         struct note *note)
{
    for (size_t i = 0; i < ARRAY_LEN(options->alpn) && options->alpn[i]; i++) {
        size_t len = strlen(options->alpn[i]);
        if (len == 0 || len > 255)
            return note_fail(note, ERR_INVALID, "tls: a protocol name has 1 to 255 bytes");
        context->alpn[context->alpn_len] = (unsigned char)len;
        memcpy(context->alpn + context->alpn_len + 1, options->alpn[i], len);
        context->alpn_len += (unsigned)len + 1;
    }
    return ERR_OK;
}

static enum err check_options(const struct tls_options *options, struct note *note)
{
    bool cert = options->cert_file || options->cert_pem.len;
    bool key = options->key_file || options->key_pem.len;
    bool ca = options->ca_files[0] || options->ca_pem.len;
    bool files = options->cert_file || options->key_file || options->ca_files[0];
    bool memory = options->cert_pem.len || options->key_pem.len || options->ca_pem.len;
    const char *why = NULL;

    if (files && memory)
        why = "files or memory, not both";
    else if (cert != key)
        why = "a certificate needs its key, and a key its certificate";
    else if (options->side == TLS_SERVER && !cert)
        why = "a server needs a certificate and its key";
    else if (options->side == TLS_CLIENT && !ca)
        why = "a client needs a CA to verify servers with";
    else if (!ca && !options->peer_optional)
        why = "a server that requires client certificates needs a CA";
    if (!why) return ERR_OK;
    return note_fail(note, ERR_INVALID, "tls: %s", why);
}

static enum err copy_path(struct tls_context *context, size_t which, const char *path)
{
    context->source_count = max_size(context->source_count, which + 1);
    if (!path) return ERR_OK;
    context->sources[which].path = str_dup(str_from(path));
    return context->sources[which].path ? ERR_OK : ERR_NOMEM;
}

static enum err copy_pem(struct tls_context *context, struct str cert, struct str key,
                         struct str ca)
{
    const struct str from[] = {cert, key, ca};
    enum err err = ERR_OK;

    for (size_t i = 0; i < ARRAY_LEN(from); i++) tls_wipe(&context->sources[i].pem);
    for (size_t i = 0; !err && i < ARRAY_LEN(from); i++)
        err = buf_append(&context->sources[i].pem, from[i]);
    context->source_count = ARRAY_LEN(from);
    return err == ERR_FULL ? ERR_TOO_LARGE : err;
}

static enum err load_first(struct tls_context *context, const struct tls_options *options,
                           struct note *note)
{
    struct fs_info stamps[SOURCES_MAX] = {0};
    enum err err = copy_path(context, SOURCE_CERT, options->cert_file);

    if (!err) err = copy_path(context, SOURCE_KEY, options->key_file);
    for (size_t i = 0; !err && i < ARRAY_LEN(options->ca_files) && options->ca_files[i]; i++)
        err = copy_path(context, SOURCE_CA + i, options->ca_files[i]);
    if (err) return note_fail(note, err, "tls: %s", err_text(err));
    err = read_stamps(context, stamps, note);
    return err ? err : load(context, stamps, note);
}

enum err tls_context_open(struct fs *fs, const struct tls_options *options,
                          struct tls_context **ret_context, struct note *note)
{
    struct tls_context *context;
    enum err err = check_options(options, note);

    if (err) return err;
    context = calloc(1, sizeof *context);
    if (!context) return note_fail(note, ERR_NOMEM, "tls: out of memory");
    *context = (struct tls_context){
        .refs = 1,
        .fs = fs,
        .side = options->side,
        .version_min = options->version_min,
        .peer_optional = options->peer_optional,
        .peer_unproven = options->peer_unproven,
        .has_pair = options->cert_file || options->cert_pem.len,
        .has_ca = options->ca_files[0] || options->ca_pem.len,
        .in_memory = !options->cert_file && !options->ca_files[0],
    };
    for (size_t i = 0; i < SOURCES_MAX; i++) buf_init(&context->sources[i].pem, FILE_BYTES_MAX);
    err = set_alpn(context, options, note);
    if (!err && context->in_memory)
        err = tls_context_replace(context, options->cert_pem, options->key_pem, options->ca_pem,
                                  note);
    else if (!err)
        err = load_first(context, options, note);
    if (err)
        tls_context_unref(context);
    else
        *ret_context = context;
    return err;
}

void tls_context_ref(struct tls_context *context)
{
    assert(context->refs > 0);
    context->refs++;
}

void tls_context_unref(struct tls_context *context)
{
    if (!context) return;
    assert(context->refs > 0);
    if (--context->refs > 0) return;
    for (size_t i = 0; i < SOURCES_MAX; i++) {
        free(context->sources[i].path);
        tls_wipe(&context->sources[i].pem);
    }
    SSL_CTX_free(context->current);
    free(context);
}

enum err tls_context_replace(struct tls_context *context, struct str cert_pem, struct str key_pem,
                             struct str ca_pem, struct note *note)
{
    const struct fs_info stamps[SOURCES_MAX] = {0};
    struct note why = {0};
    enum err err;

    assert(context->in_memory); /* others reload their files */
    err = copy_pem(context, cert_pem, key_pem, ca_pem);
    if (err)
        note_set(&why, "tls: %s", err_text(err));
    else
        err = load(context, stamps, &why);
    return err ? load_failed(context, err, &why, note) : ERR_OK;
}

struct tls_info tls_context_info(const struct tls_context *context)
{
    return context->info;
}
