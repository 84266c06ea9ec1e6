/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates as OpenSSL objects.
 *
 * Alternative names are built from bytes, never through OpenSSL's configuration text, where a
 * comma in a name would start another name. */
#include "io/cert_build.h"

#include <arpa/inet.h>
#include <string.h>
#include <time.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

enum { SERIAL_OCTETS = 20 }; /* the most RFC 5280 allows; 158 of the bits are random */

/* What a kind of leaf is made of. "<id>" stands for the request's id. */
struct recipe {
    const char *common_name;
    const char *uris[2];
    const char *dns; /* always there, before the names asked for */
    const char *use; /* extended key usage */
    bool serves;     /* without names: localhost and its addresses */
    bool plain;      /* no basic constraints: as workers.md 17.1 lists it */
};
#define USE_BOTH "serverAuth,clientAuth" /* one certificate serves every edge of a process */
static const struct recipe recipes[CERT_KIND_COUNT] = {
    [CERT_REPLICA] = {.common_name = "replica-<id>",
                      .uris = {"muster://replica/<id>", "bigfleet://admin"},
                      .use = USE_BOTH,
                      .serves = true},
    [CERT_ADMIN] = {.common_name = "admin",
                    .uris = {"bigfleet://admin"},
                    .use = USE_BOTH,
                    .serves = true},
    [CERT_READONLY] = {.common_name = "readonly",
                       .uris = {"bigfleet://readonly"},
                       .use = USE_BOTH,
                       .serves = true},
    [CERT_SHARD] = {.common_name = "shard-<id>",
                    .uris = {"bigfleet://shard/<id>"},
                    .use = USE_BOTH,
                    .serves = true},
    [CERT_CLUSTER] = {.common_name = "cluster-<id>",
                      .uris = {"bigfleet://cluster/<id>"},
                      .use = USE_BOTH,
                      .serves = true},
    [CERT_PROVIDER] = {.common_name = "provider-<id>", .use = USE_BOTH, .serves = true},
    [CERT_WORKER] = {.common_name = "worker-<id>",
                     .dns = "worker-<id>",
                     .use = "clientAuth",
                     .plain = true},
    [CERT_WORKER_SERVICE] = {.common_name = "localhost",
                             .use = "serverAuth",
                             .serves = true,
                             .plain = true},
    [CERT_STORE] = {.common_name = "<id>", .use = USE_BOTH},
    [CERT_SERVER] = {.use = USE_BOTH, .serves = true},
};

static enum err engine_err(void)
{
    bool nomem = ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE ||
                 ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE;
    ERR_clear_error();
    return nomem ? ERR_NOMEM : ERR_INTERNAL;
}

enum err cert_key_new(EVP_PKEY **ret_key)
{
    EVP_PKEY *key;

    ERR_clear_error();
    key = EVP_EC_gen("P-256");
    if (!key) return engine_err();
    *ret_key = key;
    return ERR_OK;
}

/* -- pieces ------------------------------------------------------------------------------------ */

static bool set_serial(X509 *certificate)
{
    unsigned char bytes[SERIAL_OCTETS];
    BIGNUM *number;
    bool good;

    if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x3f) | 0x40); /* positive, and always all octets */
    number = BN_bin2bn(bytes, sizeof bytes, NULL);
    good = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
    return good;
}

static bool set_validity(X509 *certificate, struct cert_validity validity)
{
    return ASN1_TIME_set(X509_getm_notBefore(certificate), (time_t)validity.from_s) &&
           ASN1_TIME_set(X509_getm_notAfter(certificate), (time_t)validity.until_s);
}

static bool set_common_name(X509 *certificate, struct str name)
{
    return X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                      MBSTRING_UTF8, (const unsigned char *)name.at, (int)name.len,
                                      -1, 0) == 1;
}

static bool add_extension(X509 *certificate, X509V3_CTX *context, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, context, nid, value);
    bool good = extension && X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    return good;
}

static bool add_name(GENERAL_NAMES *names, int kind, const void *bytes, size_t len)
{
    ASN1_STRING *text =
        ASN1_STRING_type_new(kind == GEN_IPADD ? V_ASN1_OCTET_STRING : V_ASN1_IA5STRING);
    GENERAL_NAME *name = GENERAL_NAME_new();

    if (!text || !name || !ASN1_STRING_set(text, bytes, (int)len)) goto fail;
    GENERAL_NAME_set0_value(name, kind, text);
    text = NULL;
    if (!sk_GENERAL_NAME_push(names, name)) goto fail;
    return true;

fail:
    ASN1_STRING_free(text);
    GENERAL_NAME_free(name);
    return false;
}

bool cert_name_is_address(struct str name, unsigned char bytes[16], size_t *ret_len)
{
    char text[INET6_ADDRSTRLEN];

    if (name.len == 0 || name.len >= sizeof text) return false;
    memcpy(text, name.at, name.len);
    text[name.len] = '\0';
    if (strlen(text) != name.len) return false;
    *ret_len = inet_pton(AF_INET, text, bytes) == 1    ? 4
               : inet_pton(AF_INET6, text, bytes) == 1 ? 16
                                                       : 0;
    return *ret_len > 0;
}

static bool add_host(GENERAL_NAMES *names, struct str name)
{
    unsigned char bytes[16];
    size_t len;

    if (cert_name_is_address(name, bytes, &len)) return add_name(names, GEN_IPADD, bytes, len);
    return add_name(names, GEN_DNS, name.at, name.len);
}

/* Fills "<id>" in, which ends every pattern that has it; the request was checked, so it fits. */
static struct str fill(const char *pattern, struct str id, char room[128])
{
    const char *hole = strstr(pattern, "<id>");
    size_t head = hole ? (size_t)(hole - pattern) : 0;

    if (!hole) return str_from(pattern);
    assert(hole[4] == '\0' && head + id.len <= 128);
    memcpy(room, pattern, head);
    memcpy(room + head, id.at, id.len);
    return str_of(room, head + id.len);
}

static bool add_recipe_names(GENERAL_NAMES *names, const struct recipe *recipe,
                             const struct cert_request *request)
{
    static const char *const local[] = {"localhost", "127.0.0.1", "::1"};
    /* The development certificates of workers.md 17.1 have no IPv6 address. */
    size_t local_count = !recipe->serves ? 1 : request->kind == CERT_WORKER_SERVICE ? 2 : 3;
    char room[128];

    for (size_t i = 0; i < ARRAY_LEN(recipe->uris) && recipe->uris[i]; i++) {
        struct str uri = fill(recipe->uris[i], request->id, room);
        if (!add_name(names, GEN_URI, uri.at, uri.len)) return false;
    }
    if (recipe->dns && !add_host(names, fill(recipe->dns, request->id, room))) return false;
    for (size_t i = 0; i < request->name_count; i++)
        if (!add_host(names, request->names[i])) return false;
    if (request->name_count > 0 || request->kind == CERT_STORE) return true;
    for (size_t i = 0; i < local_count; i++)
        if (!add_host(names, str_from(local[i]))) return false;
    return true;
}

/* -- whole certificates ------------------------------------------------------------------------ */

static bool sign(X509 *certificate, EVP_PKEY *key)
{
    return X509_sign(certificate, key, EVP_sha256()) > 0;
}

enum err cert_root_new(EVP_PKEY *key, struct str common_name, bool name_as_san,
                       struct cert_validity validity, X509 **ret_root)
{
    X509 *root;
    X509V3_CTX context;
    GENERAL_NAMES *names = NULL;
    bool good;

    ERR_clear_error();
    root = X509_new();
    good = root && X509_set_version(root, X509_VERSION_3) && set_serial(root) &&
           set_validity(root, validity) && set_common_name(root, common_name) &&
           X509_set_issuer_name(root, X509_get_subject_name(root)) && X509_set_pubkey(root, key);
    if (good) {
        X509V3_set_ctx(&context, root, root, NULL, NULL, 0);
        good = add_extension(root, &context, NID_basic_constraints, "critical,CA:TRUE") &&
               add_extension(root, &context, NID_key_usage,
                             "critical,digitalSignature,keyCertSign,cRLSign") &&
               add_extension(root, &context, NID_subject_key_identifier, "hash");
    }
    if (good && name_as_san) {
        names = GENERAL_NAMES_new();
        good = names && add_host(names, common_name) &&
               X509_add1_ext_i2d(root, NID_subject_alt_name, names, 0, 0) == 1;
    }
    good = good && sign(root, key);
    GENERAL_NAMES_free(names);
    if (!good) {
        X509_free(root);
        return engine_err();
    }
    *ret_root = root;
    return ERR_OK;
}

enum err cert_template_new(const struct cert_request *request, X509 **ret_template)
{
    const struct recipe *recipe = &recipes[request->kind];
    char room[128];
    struct str common_name = recipe->common_name   ? fill(recipe->common_name, request->id, room)
                             : request->name_count ? request->names[0]
                                                   : STR("localhost");
    X509 *template;
    X509V3_CTX context;
    GENERAL_NAMES *names;
    bool good;

    ERR_clear_error();
    template = X509_new();
    names = GENERAL_NAMES_new();
    good = template && names && set_common_name(template, common_name) &&
           add_recipe_names(names, recipe, request);
    if (good) {
        X509V3_set_ctx(&context, template, template, NULL, NULL, 0);
        good = (recipe->plain ||
                add_extension(template, &context, NID_basic_constraints, "critical,CA:FALSE")) &&
               add_extension(template, &context, NID_key_usage,
                             "critical,digitalSignature,keyEncipherment") &&
               add_extension(template, &context, NID_ext_key_usage, recipe->use);
    }
    if (good && sk_GENERAL_NAME_num(names) > 0)
        good = X509_add1_ext_i2d(template, NID_subject_alt_name, names, 0, 0) == 1;
    GENERAL_NAMES_free(names);
    if (!good) {
        X509_free(template);
        return engine_err();
    }
    *ret_template = template;
    return ERR_OK;
}

/* The extensions that say who and what for; the others follow from key and issuer. */
static const int said_by_template[] = {NID_basic_constraints, NID_key_usage, NID_ext_key_usage,
                                       NID_subject_alt_name};

static X509_EXTENSION *extension_of(const X509 *certificate, int nid)
{
    int at = X509_get_ext_by_NID(certificate, nid, -1);
    return at < 0 ? NULL : X509_get_ext(certificate, at);
}

static bool copy_sayings(X509 *to, const X509 *from)
{
    if (!X509_set_subject_name(to, X509_get_subject_name(from))) return false;
    for (size_t i = 0; i < ARRAY_LEN(said_by_template); i++) {
        X509_EXTENSION *extension = extension_of(from, said_by_template[i]);
        if (extension && !X509_add_ext(to, extension, -1)) return false;
    }
    return true;
}

enum err cert_template_from(X509 *certificate, X509 **ret_template)
{
    X509 *template;

    ERR_clear_error();
    template = X509_new();
    if (!template || !copy_sayings(template, certificate)) {
        X509_free(template);
        return engine_err();
    }
    *ret_template = template;
    return ERR_OK;
}

bool cert_template_matches(const X509 *template, const X509 *certificate)
{
    if (X509_NAME_cmp(X509_get_subject_name(template), X509_get_subject_name(certificate)) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(said_by_template); i++) {
        X509_EXTENSION *a = extension_of(template, said_by_template[i]);
        X509_EXTENSION *b = extension_of(certificate, said_by_template[i]);
        if (!a != !b) return false;
        if (a && (X509_EXTENSION_get_critical(a) != X509_EXTENSION_get_critical(b) ||
                  ASN1_OCTET_STRING_cmp(X509_EXTENSION_get_data(a), X509_EXTENSION_get_data(b))))
            return false;
    }
    return true;
}

enum err cert_leaf_sign(const X509 *template, EVP_PKEY *key, X509 *root, EVP_PKEY *root_key,
                        struct cert_validity validity, X509 **ret_leaf)
{
    X509 *leaf;
    X509V3_CTX context;
    bool good;

    ERR_clear_error();
    leaf = X509_new();
    good = leaf && X509_set_version(leaf, X509_VERSION_3) && set_serial(leaf) &&
           set_validity(leaf, validity) && copy_sayings(leaf, template) &&
           X509_set_issuer_name(leaf, X509_get_subject_name(root)) && X509_set_pubkey(leaf, key);
    if (good) {
        X509V3_set_ctx(&context, root, leaf, NULL, NULL, 0);
        /* Two roots of one name are told apart by these during a rotation; a root that others made
         * may have none. */
        bool named = extension_of(root, NID_subject_key_identifier) != NULL;
        good = add_extension(leaf, &context, NID_subject_key_identifier, "hash") &&
               (!named || add_extension(leaf, &context, NID_authority_key_identifier, "keyid")) &&
               sign(leaf, root_key);
    }
    if (!good) {
        X509_free(leaf);
        return engine_err();
    }
    *ret_leaf = leaf;
    return ERR_OK;
}

bool cert_may_sign(X509 *certificate)
{
    bool may = X509_check_ca(certificate) == 1;
    ERR_clear_error();
    return may;
}

bool cert_is_authority(X509 *certificate)
{
    bool is = X509_check_ca(certificate) > 0;
    ERR_clear_error();
    return is;
}

/* -- PEM --------------------------------------------------------------------------------------- */

static int no_password(char *into, int size, int writing, void *owner)
{
    (void)into, (void)size, (void)writing, (void)owner;
    return 0; /* otherwise OpenSSL would ask on the terminal */
}

static enum err take_bio(BIO *bio, bool written, struct buf *pem)
{
    char *bytes = NULL;
    long len = written ? BIO_get_mem_data(bio, &bytes) : 0;
    enum err err = len > 0 ? buf_append(pem, str_of(bytes, (size_t)len)) : engine_err();

    if (bytes) OPENSSL_cleanse(bytes, (size_t)len); /* it may be a key */
    BIO_free(bio);
    return err;
}

enum err cert_put_pem(X509 *certificate, struct buf *pem)
{
    BIO *bio;

    ERR_clear_error();
    bio = BIO_new(BIO_s_mem());
    return take_bio(bio, bio && PEM_write_bio_X509(bio, certificate), pem);
}

enum err cert_put_key_pem(EVP_PKEY *key, struct buf *pem)
{
    BIO *bio;

    ERR_clear_error();
    bio = BIO_new(BIO_s_mem());
    return take_bio(bio, bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL),
                    pem);
}

enum err cert_key_from_pem(struct str pem, EVP_PKEY **ret_key)
{
    BIO *bio;
    EVP_PKEY *key;
    enum err err = ERR_OK;

    ERR_clear_error();
    bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    BIO_free(bio);
    if (!key)
        err = engine_err() == ERR_NOMEM ? ERR_NOMEM : ERR_PARSE;
    else
        *ret_key = key;
    return err;
}

bool cert_holds_key_pem(struct str pem)
{
    const struct str mark = STR("PRIVATE KEY-----"); /* the end of every kind's first line */
    return pem.len > 0 && memmem(pem.at, pem.len, mark.at, mark.len);
}

void cert_list_free(X509 **list, size_t count)
{
    for (size_t i = 0; i < count; i++) X509_free(list[i]);
}

enum err cert_list_from_pem(struct str pem, X509 **list, size_t cap, size_t *ret_count)
{
    enum err err = ERR_OK;
    size_t count = 0;
    BIO *bio;

    ERR_clear_error();
    bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    if (!bio) return engine_err();
    for (X509 *one; !err && (one = PEM_read_bio_X509(bio, NULL, no_password, NULL));) {
        if (count < cap) {
            list[count++] = one;
        } else {
            X509_free(one);
            err = ERR_TOO_LARGE;
        }
    }
    BIO_free(bio);
    if (!err && (count == 0 || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE))
        err = engine_err() == ERR_NOMEM ? ERR_NOMEM : ERR_PARSE;
    ERR_clear_error(); /* "no start line" is how a good file ends */
    if (err)
        cert_list_free(list, count);
    else
        *ret_count = count;
    return err;
}
