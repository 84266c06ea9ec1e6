/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in an S3 object store: one object per partition, s3://BUCKET/PREFIX/<8 digits>.ckpt,
 * replaced by conditional PUTs (If-Match, If-None-Match).
 *
 * A store that ignores conditions would let two owners overwrite each other. Before the first
 * write, a PUT that the store must refuse tests the store.
 *
 * Credentials and endpoint come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
 * AWS_REGION, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL. Plain http is accepted for the local machine
 * only. */
#include <curl/curl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hex.h"
#include "io/net.h"
#include "text/percent.h"
#include "worker/checkpoint.h"

enum {
    CONNECT_TIMEOUT_MS = 5000,
    CHECKPOINT_S3_CALL_TIMEOUT_MS = 30000,
    HOST_CAP = 256,
    CHECKPOINT_S3_KEY_CAP = 256,
    REGION_CAP = 64,
    TOKEN_CAP = 4096,
    HEADER_MAX = TOKEN_CAP + 64,
    PATH_MAX_BYTES = 4096,
};

struct s3_store {
    struct checkpoint_store base;
    CURL *curl;
    char scheme[8], host[HOST_CAP], path[HOST_CAP]; /* parts of the endpoint's URL */
    char bucket[HOST_CAP], prefix[HOST_CAP], region[REGION_CAP];
    char access_key[CHECKPOINT_S3_KEY_CAP], secret_key[CHECKPOINT_S3_KEY_CAP], token[TOKEN_CAP];
    bool probed;
};

static pthread_once_t curl_started = PTHREAD_ONCE_INIT;
static void start_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* -- one request -- */

struct answer {
    struct buf *body;
    long status;
    char etag[CHECKPOINT_VERSION_CAP];
    bool too_large;
};

static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
    struct answer *answer = context;

    if (answer->body && buf_append(answer->body, str_of(bytes, size * count))) {
        answer->too_large = true;
        return 0;
    }
    return size * count;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *context)
{
    struct answer *answer = context;
    struct str line = str_of(bytes, size * count), name, value;
    size_t colon = str_find(line, ':');

    if (str_starts(line, STR("HTTP/"))) answer->etag[0] = '\0';
    name = str_of(line.at, colon);
    value = str_trim(str_tail(line, colon + 1));
    if (str_equal_nocase(name, STR("etag")) && value.len < sizeof answer->etag)
        snprintf(answer->etag, sizeof answer->etag, "%.*s", STR_ARG(value));
    return size * count;
}

static enum err add_line(struct curl_slist **list, const char *name, struct str value)
{
    char line[HEADER_MAX];
    struct curl_slist *longer;

    if (snprintf(line, sizeof line, "%s: %.*s", name, STR_ARG(value)) >= HEADER_MAX)
        return ERR_FULL;
    longer = curl_slist_append(*list, line);
    if (!longer) return ERR_NOMEM;
    *list = longer;
    return ERR_OK;
}

struct s3_call {
    const char *method;
    struct str path; /* URL-encoded, including the endpoint's path */
    struct str body;
    const char *condition, *condition_value; /* a header ("if-match") and its value, or NULL */
};

/* The headers that libcurl signs in addition to host and date. None may be empty: libcurl signs an
 * empty header but does not send it. */
static enum err headers_of(const struct s3_store *s, const struct s3_call *call,
                           struct curl_slist **ret_list)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    char hex[2 * EVP_MAX_MD_SIZE + 1];
    unsigned len = 0;
    enum err err = ERR_OK;

    if (EVP_Digest(call->body.at, call->body.len, digest, &len, EVP_sha256(), NULL) != 1)
        return ERR_NOMEM;
    hex_write(digest, len, hex);
    err = add_line(ret_list, "x-amz-content-sha256", str_from(hex));
    if (!err && s->token[0]) err = add_line(ret_list, "x-amz-security-token", str_from(s->token));
    if (!err && call->condition)
        err = add_line(ret_list, call->condition, str_from(call->condition_value));
    if (!err && call->body.len) err = add_line(ret_list, "content-type", STR("application/json"));
    return err;
}

static bool never_sent(CURLcode code)
{
    return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
           code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION;
}

/* ERR_OK: an answer arrived, with any status. */
static enum err perform(struct s3_store *s, const struct s3_call *call, struct curl_slist *headers,
                        struct answer *answer, struct note *note)
{
    char url[PATH_MAX_BYTES + HOST_CAP], signer[REGION_CAP + 16];
    CURL *curl = s->curl;
    CURLcode code;
    bool bad = false;

    snprintf(url, sizeof url, "%s://%s%.*s", s->scheme, s->host, STR_ARG(call->path));
    snprintf(signer, sizeof signer, "aws:amz:%s:s3", s->region);
    curl_easy_reset(curl); /* keeps the connections */
    bad |= curl_easy_setopt(curl, CURLOPT_URL, url);
    bad |= curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    bad |= curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    bad |= curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    bad |= curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, signer);
    bad |= curl_easy_setopt(curl, CURLOPT_USERNAME, s->access_key);
    bad |= curl_easy_setopt(curl, CURLOPT_PASSWORD, s->secret_key);
    bad |= curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
    bad |= curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    /* send the body without waiting for "100 Continue" */
    bad |= curl_easy_setopt(curl, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
    bad |= curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    bad |= curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    bad |= curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)CHECKPOINT_S3_CALL_TIMEOUT_MS);
    bad |= curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    bad |= curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    bad |= curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    bad |= curl_easy_setopt(curl, CURLOPT_HEADERDATA, answer);
    if (call->body.len) {
        bad |= curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body.at);
        bad |= curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.len);
    }
    if (bad) return ERR_NOMEM;
    code = curl_easy_perform(curl);
    if (code == CURLE_OK) {
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
        return ERR_OK;
    }
    note_set(note, "%s %s: %s", call->method, url, curl_easy_strerror(code));
    if (answer->too_large) return ERR_TOO_LARGE;
    return never_sent(code) ? ERR_UNAVAILABLE : ERR_UNKNOWN;
}

static enum err refused(const struct s3_call *call, const struct answer *answer, bool writes,
                        struct note *note)
{
    note_set(note, "%s %.*s: HTTP %ld", call->method, STR_ARG(call->path), answer->status);
    switch (answer->status) {
    case 403: return ERR_DENIED;
    case 404: return writes ? ERR_CONFLICT : ERR_NOT_FOUND; /* if-match on a missing object */
    case 409:
    case 412: return ERR_CONFLICT;
    case 503: return ERR_UNAVAILABLE;
    default: break;
    }
    if (answer->status >= 500) return writes ? ERR_UNKNOWN : ERR_UNAVAILABLE;
    return ERR_INVALID;
}

/* -- the two calls -- */

/* Appends an object's path. Bytes other than A-Z a-z 0-9 - . _ ~ / become %XX. */
static enum err path_of(const struct s3_store *s, const char *name, struct buf *into)
{
    const char *const parts[] = {s->path, "/", s->bucket, "/", s->prefix, s->prefix[0] ? "/" : "",
                                 name};
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < ARRAY_LEN(parts); i++)
        err = percent_encode(str_from(parts[i]), STR("/"), into);
    return err;
}

/* Every status except 200 is an error. */
static enum err s3_call(struct s3_store *s, struct s3_call *call, const char *name,
                        struct answer *answer, struct note *note)
{
    bool writes = call->condition != NULL;
    struct curl_slist *headers = NULL;
    struct buf path;
    enum err err;

    buf_init(&path, PATH_MAX_BYTES);
    err = path_of(s, name, &path);
    call->path = buf_peek(&path);
    if (!err) err = headers_of(s, call, &headers);
    if (!err) err = perform(s, call, headers, answer, note);
    if (err == ERR_UNKNOWN && !writes) err = ERR_UNAVAILABLE; /* a read changes nothing */
    if (!err && answer->status != 200) err = refused(call, answer, writes, note);
    curl_slist_free_all(headers);
    buf_deinit(&path);
    return err;
}

static enum err put(struct s3_store *s, const char *name, const char *condition, const char *value,
                    struct str content, struct answer *answer, struct note *note)
{
    struct s3_call call = {
        .method = "PUT", .body = content, .condition = condition, .condition_value = value};

    return s3_call(s, &call, name, answer, note);
}

static enum err probe(struct s3_store *s, struct note *note)
{
    enum err err = ERR_OK;

    for (int i = 0; i < 2 && (!err || err == ERR_CONFLICT); i++) {
        struct answer answer = {0};
        err = put(s, "conditional-writes", "if-none-match", "*", STR("{}"), &answer, note);
    }
    if (err == ERR_CONFLICT) { /* the store honours conditions */
        s->probed = true;
        return ERR_OK;
    }
    if (err) return err == ERR_UNKNOWN ? ERR_UNAVAILABLE : err;
    return note_fail(note, ERR_UNSUPPORTED,
                     "%s does not refuse If-None-Match: two owners could overwrite each other",
                     s->host);
}

static enum err s3_read(struct checkpoint_store *store, uint32_t partition, struct buf *into,
                        struct checkpoint_version *ret_version, struct note *note)
{
    struct s3_store *s = CONTAINER_OF(store, struct s3_store, base);
    struct s3_call call = {.method = "GET", .body = STR_EMPTY};
    struct answer answer = {.body = into};
    char name[32];
    enum err err;

    ret_version->text[0] = '\0';
    snprintf(name, sizeof name, "%08" PRIu32 ".ckpt", partition);
    err = s3_call(s, &call, name, &answer, note);
    if (!err && !answer.etag[0]) {
        note_set(note, "%s answers without an ETag", s->host);
        err = ERR_UNSUPPORTED;
    }
    if (!err) snprintf(ret_version->text, sizeof ret_version->text, "%s", answer.etag);
    return err;
}

static enum err s3_write(struct checkpoint_store *store, uint32_t partition,
                         const struct checkpoint_version *expected, struct str content,
                         struct checkpoint_version *ret_version, struct note *note)
{
    struct s3_store *s = CONTAINER_OF(store, struct s3_store, base);
    bool there = expected->text[0] != '\0';
    struct answer answer = {0};
    char name[32];
    enum err err = s->probed ? ERR_OK : probe(s, note);

    snprintf(name, sizeof name, "%08" PRIu32 ".ckpt", partition);
    if (!err)
        err = put(s, name, there ? "if-match" : "if-none-match", there ? expected->text : "*",
                  content, &answer, note);
    if (!err && !answer.etag[0]) err = ERR_UNKNOWN; /* written, but with unknown version */
    if (!err) snprintf(ret_version->text, sizeof ret_version->text, "%s", answer.etag);
    return err;
}

static void s3_close(struct checkpoint_store *store)
{
    struct s3_store *s = CONTAINER_OF(store, struct s3_store, base);

    curl_easy_cleanup(s->curl);
    memset(s->secret_key, 0, sizeof s->secret_key);
    free(s);
}

/* -- endpoint and credentials -- */

static const char *first_of(const char *name, const char *other)
{
    const char *value = getenv(name);

    if ((!value || !value[0]) && other) value = getenv(other);
    return value && value[0] ? value : NULL;
}

static bool keep(char *into, size_t cap, struct str text)
{
    if (text.len >= cap) return false;
    snprintf(into, cap, "%.*s", STR_ARG(text));
    return true;
}

static enum err set_endpoint(struct s3_store *s, const char *endpoint, struct note *note)
{
    struct str rest = str_from(endpoint);
    bool plain = str_starts(rest, STR("http://"));
    char authority[HOST_CAP + 4];
    size_t slash;

    if (!plain && !str_starts(rest, STR("https://")))
        return note_fail(note, ERR_INVALID, "endpoint '%s' must begin with https://", endpoint);
    snprintf(s->scheme, sizeof s->scheme, "%s", plain ? "http" : "https");
    rest = str_tail(rest, plain ? sizeof "http://" - 1 : sizeof "https://" - 1);
    while (str_ends(rest, STR("/"))) rest.len--;
    slash = str_find(rest, '/');
    if (slash == 0 || !keep(s->host, sizeof s->host, str_of(rest.at, slash)) ||
        !keep(s->path, sizeof s->path, str_tail(rest, slash)))
        return note_fail(note, ERR_INVALID, "endpoint '%s' is none", endpoint);
    snprintf(authority, sizeof authority, "%s%s", s->host,
             str_has(str_from(s->host), ':') ? "" : ":80");
    if (plain && !address_is_loopback(authority))
        return note_fail(note, ERR_INVALID, "endpoint '%s': plain http is for this machine only",
                         endpoint);
    return ERR_OK;
}

static enum err set_up(struct s3_store *s, struct str bucket_and_prefix, struct note *note)
{
    size_t slash = str_find(bucket_and_prefix, '/');
    struct str prefix = str_tail(bucket_and_prefix, slash + 1);
    const char *key = first_of("AWS_ACCESS_KEY_ID", NULL);
    const char *secret = first_of("AWS_SECRET_ACCESS_KEY", NULL);
    const char *token = first_of("AWS_SESSION_TOKEN", NULL);
    const char *region = first_of("AWS_REGION", "AWS_DEFAULT_REGION");
    const char *endpoint = first_of("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    char usual[HOST_CAP];

    while (str_ends(prefix, STR("/"))) prefix.len--;
    if (slash == 0 || !keep(s->bucket, sizeof s->bucket, str_of(bucket_and_prefix.at, slash)) ||
        !keep(s->prefix, sizeof s->prefix, prefix))
        return note_fail(note, ERR_INVALID, "a bucket is needed: s3://bucket/prefix");
    if (!key || !secret || !keep(s->access_key, sizeof s->access_key, str_from(key)) ||
        !keep(s->secret_key, sizeof s->secret_key, str_from(secret)) ||
        !keep(s->token, sizeof s->token, str_from(token)))
        return note_fail(note, ERR_INVALID,
                         "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set");
    if (!keep(s->region, sizeof s->region, str_from(region ? region : "us-east-1")))
        return note_fail(note, ERR_INVALID, "AWS_REGION is too long");
    snprintf(usual, sizeof usual, "https://s3.%s.amazonaws.com", s->region);
    return set_endpoint(s, endpoint ? endpoint : usual, note);
}

enum err checkpoint_s3_open(struct str bucket_and_prefix, struct checkpoint_store **ret_store,
                            struct note *note)
{
    static const struct checkpoint_store_ops ops = {s3_read, s3_write, s3_close};
    struct s3_store *s = calloc(1, sizeof *s);
    enum err err;

    if (!s) return ERR_NOMEM;
    s->base.ops = &ops;
    err = set_up(s, bucket_and_prefix, note);
    if (!err) {
        pthread_once(&curl_started, start_curl);
        s->curl = curl_easy_init();
        if (!s->curl) err = ERR_NOMEM;
    }
    if (err) {
        s3_close(&s->base);
        return err;
    }
    *ret_store = &s->base;
    return ERR_OK;
}
