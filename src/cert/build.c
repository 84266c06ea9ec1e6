/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates as OpenSSL objects: the content of each kind of certificate, and signing. Uses no
 * files and no clock. Any thread.
 *
 * Every certificate, also a root, starts as an unsigned template. Alternative names are built from
 * bytes, because in OpenSSL's configuration text a comma in a name would start another name. */
#include "cert/internal.h"

#include <string.h>

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "io/net.h"
#include "io/tls_identity.h"

enum { SERIAL_OCTETS = 20 }; /* the maximum of RFC 5280; 158 bits are random */

/* The content of a kind of certificate. "<id>" is replaced by the request's id. */
struct recipe {
    const char *name, *id_means; /* id_means is NULL if the kind has no id */
    const char *common_name;
    const char *uri, *second_uri;
    const char *dns; /* first DNS name, before the requested names */
    const char *use;
    bool serves; /* if no names are requested: localhost and its addresses */
    bool plain;  /* no basic constraints, as workers.md 17.1 specifies */
};
#define USE_BOTH "serverAuth,clientAuth" /* one certificate for all connections of a process */
#define ADMIN    "bigfleet://admin"
static const struct recipe recipes[CERT_KIND_COUNT] = {
    [CERT_REPLICA] = {"replica", "replica id", "replica-<id>", "muster://replica/<id>", ADMIN, NULL,
                      USE_BOTH, true, false},
    [CERT_ADMIN] = {"admin", NULL, "admin", ADMIN, NULL, NULL, USE_BOTH, true, false},
    [CERT_READONLY] = {"readonly", NULL, "readonly", "bigfleet://readonly", NULL, NULL, USE_BOTH,
                       true, false},
    [CERT_SHARD] = {"shard", "shard id", "shard-<id>", "bigfleet://shard/<id>", NULL, NULL,
                    USE_BOTH, true, false},
    [CERT_CLUSTER] = {"cluster", "cluster id", "cluster-<id>", "bigfleet://cluster/<id>", NULL,
                      NULL, USE_BOTH, true, false},
    [CERT_PROVIDER] = {"provider", "provider name", "provider-<id>", NULL, NULL, NULL, USE_BOTH,
                       true, false},
    [CERT_WORKER] = {"worker", "worker ULID", "worker-<id>", NULL, NULL, "worker-<id>",
                     "clientAuth", false, true},
    [CERT_WORKER_SERVICE] = {"worker-service", NULL, "localhost", NULL, NULL, NULL, "serverAuth",
                             true, true},
    [CERT_STORE] = {"store", "client name", "<id>", NULL, NULL, NULL, USE_BOTH, false, false},
    [CERT_SERVER] = {"server", NULL, NULL, NULL, NULL, NULL, USE_BOTH, true, false},
};

const char *cert_kind_name(enum cert_kind kind)
{
    return recipes[kind].name;
}

const char *cert_kind_id_means(enum cert_kind kind)
{
    return recipes[kind].id_means;
}

enum err cert_kind_parse(struct str name, enum cert_kind *ret_kind)
{
    if (str_equal(name, STR("operator"))) name = STR("cluster");
    for (size_t i = 0; i < CERT_KIND_COUNT; i++) {
        if (!str_equal(name, str_from(recipes[i].name))) continue;
        *ret_kind = (enum cert_kind)i;
        return ERR_OK;
    }
    return ERR_NOT_FOUND;
}

enum err cert_key_new(EVP_PKEY **ret_key)
{
    EVP_PKEY *key;

    ERR_clear_error();
    key = EVP_EC_gen("P-256");
    if (!key) return tls_engine_failed(ERR_INTERNAL, NULL);
    *ret_key = key;
    return ERR_OK;
}

/* -- parts ------------------------------------------------------------------------------------- */

static bool set_serial(X509 *certificate)
{
    unsigned char bytes[SERIAL_OCTETS];
    BIGNUM *number;
    bool good;

    if (RAND_bytes(bytes, sizeof bytes) != 1) return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x3f) | 0x40); /* a positive number of full length */
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

static bool add_host(GENERAL_NAMES *names, struct str name)
{
    uint8_t bytes[16];
    size_t len = address_ip(name, bytes);

    if (len > 0) return add_name(names, GEN_IPADD, bytes, len);
    return add_name(names, GEN_DNS, name.at, name.len);
}

/* Replaces "<id>" at the end of `pattern`. A checked request fits. */
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
    /* The development certificates of workers.md 17.1 contain no IPv6 address. */
    size_t local_count = !recipe->serves ? 1 : request->kind == CERT_WORKER_SERVICE ? 2 : 3;
    char room[128];

    const char *const uris[] = {recipe->uri, recipe->second_uri};
    for (size_t i = 0; i < ARRAY_LEN(uris) && uris[i]; i++) {
        struct str uri = fill(uris[i], request->id, room);
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

/* -- templates --------------------------------------------------------------------------------- */

/* The values of a certificate's extensions. NULL: without this extension. */
struct content {
    struct str common_name;
    const char *constraints, *key_usage, *use;
    GENERAL_NAMES *names;
};

static enum err template_make(const struct content *content, X509 **ret_template)
{
    X509 *template = X509_new();
    X509V3_CTX context;
    bool good = template && content->names && set_common_name(template, content->common_name);

    if (good) {
        X509V3_set_ctx(&context, template, template, NULL, NULL, 0);
        good =
            (!content->constraints ||
             add_extension(template, &context, NID_basic_constraints, content->constraints)) &&
            add_extension(template, &context, NID_key_usage, content->key_usage) &&
            (!content->use || add_extension(template, &context, NID_ext_key_usage, content->use));
    }
    if (good && sk_GENERAL_NAME_num(content->names) > 0)
        good = X509_add1_ext_i2d(template, NID_subject_alt_name, content->names, 0, 0) == 1;
    GENERAL_NAMES_free(content->names);
    if (good) {
        *ret_template = template;
        return ERR_OK;
    }
    X509_free(template);
    return tls_engine_failed(ERR_INTERNAL, NULL);
}

enum err cert_template_root(struct str common_name, bool name_as_san, X509 **ret_template)
{
    struct content content = {.common_name = common_name,
                              .constraints = "critical,CA:TRUE",
                              .key_usage = "critical,digitalSignature,keyCertSign,cRLSign"};

    ERR_clear_error();
    content.names = GENERAL_NAMES_new();
    if (content.names && name_as_san && !add_host(content.names, common_name)) {
        GENERAL_NAMES_free(content.names);
        content.names = NULL;
    }
    return template_make(&content, ret_template);
}

enum err cert_template_new(const struct cert_request *request, X509 **ret_template)
{
    const struct recipe *recipe = &recipes[request->kind];
    char room[128];
    struct content content = {
        .common_name = recipe->common_name   ? fill(recipe->common_name, request->id, room)
                       : request->name_count ? request->names[0]
                                             : STR("localhost"),
        .constraints = recipe->plain ? NULL : "critical,CA:FALSE",
        .key_usage = "critical,digitalSignature,keyEncipherment",
        .use = recipe->use,
    };

    ERR_clear_error();
    content.names = GENERAL_NAMES_new();
    if (content.names && !add_recipe_names(content.names, recipe, request)) {
        GENERAL_NAMES_free(content.names);
        content.names = NULL;
    }
    return template_make(&content, ret_template);
}

/* The extensions that describe holder and use. All others follow from the key and the issuer. */
static const int template_extensions[] = {NID_basic_constraints, NID_key_usage, NID_ext_key_usage,
                                          NID_subject_alt_name};

static X509_EXTENSION *extension_of(const X509 *certificate, int nid)
{
    int at = X509_get_ext_by_NID(certificate, nid, -1);
    return at < 0 ? NULL : X509_get_ext(certificate, at);
}

static bool copy_template(X509 *to, const X509 *from)
{
    if (!X509_set_subject_name(to, X509_get_subject_name(from))) return false;
    for (size_t i = 0; i < ARRAY_LEN(template_extensions); i++) {
        X509_EXTENSION *extension = extension_of(from, template_extensions[i]);
        if (extension && !X509_add_ext(to, extension, -1)) return false;
    }
    return true;
}

enum err cert_template_from(const X509 *certificate, X509 **ret_template)
{
    X509 *template;

    ERR_clear_error();
    template = X509_new();
    if (!template || !copy_template(template, certificate)) {
        X509_free(template);
        return tls_engine_failed(ERR_INTERNAL, NULL);
    }
    *ret_template = template;
    return ERR_OK;
}

bool cert_template_matches(const X509 *template, const X509 *certificate)
{
    if (X509_NAME_cmp(X509_get_subject_name(template), X509_get_subject_name(certificate)) != 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(template_extensions); i++) {
        X509_EXTENSION *a = extension_of(template, template_extensions[i]);
        X509_EXTENSION *b = extension_of(certificate, template_extensions[i]);
        if (!a != !b) return false;
        if (a && (X509_EXTENSION_get_critical(a) != X509_EXTENSION_get_critical(b) ||
                  ASN1_OCTET_STRING_cmp(X509_EXTENSION_get_data(a), X509_EXTENSION_get_data(b))))
            return false;
    }
    return true;
}

/* -- certificates ------------------------------------------------------------------------------ */

enum err cert_sign(const X509 *template, EVP_PKEY *key, X509 *root, EVP_PKEY *root_key,
                   struct cert_validity validity, X509 **ret_certificate)
{
    X509 *made;
    X509V3_CTX context;
    bool good;

    ERR_clear_error();
    made = X509_new();
    good = made && X509_set_version(made, X509_VERSION_3) && set_serial(made) &&
           set_validity(made, validity) && copy_template(made, template) &&
           X509_set_issuer_name(made, X509_get_subject_name(root ? root : made)) &&
           X509_set_pubkey(made, key);
    if (good) {
        X509V3_set_ctx(&context, root ? root : made, made, NULL, NULL, 0);
        /* During a rotation the key identifiers distinguish two roots of the same name. A root that
         * muster did not make may have no key identifier. */
        bool named = root && extension_of(root, NID_subject_key_identifier) != NULL;
        good = add_extension(made, &context, NID_subject_key_identifier, "hash") &&
               (!named || add_extension(made, &context, NID_authority_key_identifier, "keyid")) &&
               X509_sign(made, root ? root_key : key, EVP_sha256()) > 0;
    }
    if (good) {
        *ret_certificate = made;
        return ERR_OK;
    }
    X509_free(made);
    return tls_engine_failed(ERR_INTERNAL, NULL);
}

int cert_is_authority(X509 *certificate)
{
    int is = X509_check_ca(certificate);
    ERR_clear_error();
    return is;
}

/* -- PEM --------------------------------------------------------------------------------------- */

static enum err take_bio(BIO *bio, bool written, struct buf *pem)
{
    char *bytes = NULL;
    long len = written ? BIO_get_mem_data(bio, &bytes) : 0;
    enum err err = len > 0 ? buf_append(pem, str_of(bytes, (size_t)len))
                           : tls_engine_failed(ERR_INTERNAL, NULL);

    if (bytes) OPENSSL_cleanse(bytes, (size_t)len); /* the bytes may be a key */
    BIO_free(bio);
    return err;
}

enum err cert_put_pem(const X509 *certificate, struct buf *pem)
{
    BIO *bio;

    ERR_clear_error();
    bio = BIO_new(BIO_s_mem());
    return take_bio(bio, bio && PEM_write_bio_X509(bio, certificate), pem);
}

enum err cert_put_key_pem(const EVP_PKEY *key, struct buf *pem)
{
    BIO *bio;

    ERR_clear_error();
    bio = BIO_new(BIO_s_mem());
    return take_bio(bio, bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL),
                    pem);
}
