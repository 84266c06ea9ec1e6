/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ALGORITHM "AWS4-HMAC-SHA256"
enum { DIGEST_LEN = 32, DAY_LEN = 8, TEXT_MAX = 64 << 10, KEY_TEXT_MAX = 512 };

static void to_hex(const uint8_t *bytes, char hex[SIGV4_HEX + 1])
{
    for (size_t i = 0; i < DIGEST_LEN; i++) snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
}

void sigv4_sha256(struct str bytes, char hex[SIGV4_HEX + 1])
{
    uint8_t digest[EVP_MAX_MD_SIZE] = {0};

    EVP_Digest(bytes.at, bytes.len, digest, NULL, EVP_sha256(), NULL);
    to_hex(digest, hex);
}

void sigv4_date(wall_time now, char date[SIGV4_DATE_CAP])
{
    time_t seconds = (time_t)(now.ms / MS_PER_SECOND);
    struct tm parts;

    if (!gmtime_r(&seconds, &parts) || !strftime(date, SIGV4_DATE_CAP, "%Y%m%dT%H%M%SZ", &parts))
        date[0] = '\0';
}

enum err sigv4_encode_path(struct str path, struct buf *into)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < path.len; i++) {
        char c = path.at[i];
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '~' || c == '/';
        err = plain ? buf_append_byte(into, c) : buf_appendf(into, "%%%02X", (unsigned char)c);
    }
    return err;
}

/* -- the text that is signed -- */

static int by_name(const void *left, const void *right)
{
    const struct sigv4_header *a = left, *b = right;
    return strcmp(a->name, b->name);
}

static enum err append_names(const struct sigv4_header *headers, size_t count, struct buf *into)
{
    enum err err = ERR_OK;

    for (size_t i = 0; !err && i < count; i++)
        err = buf_appendf(into, "%s%s", i ? ";" : "", headers[i].name);
    return err;
}

static enum err canonical(const struct sigv4_request *r, const struct sigv4_header *headers,
                          struct buf *into)
{
    enum err err =
        buf_appendf(into, "%s\n%.*s\n%.*s\n", r->method, STR_ARG(r->path), STR_ARG(r->query));

    for (size_t i = 0; !err && i < r->header_count; i++) {
        struct str value = str_trim(headers[i].value);
        err = buf_appendf(into, "%s:%.*s\n", headers[i].name, STR_ARG(value));
    }
    if (!err) err = buf_append_byte(into, '\n');
    if (!err) err = append_names(headers, r->header_count, into);
    if (!err) err = buf_appendf(into, "\n%s", r->payload_hex);
    return err;
}

static void hmac(const uint8_t key[DIGEST_LEN], const char *text, uint8_t out[DIGEST_LEN])
{
    unsigned len = DIGEST_LEN;
    HMAC(EVP_sha256(), key, DIGEST_LEN, (const uint8_t *)text, strlen(text), out, &len);
}

static enum err signing_key(const struct sigv4_request *r, const char *day, uint8_t key[DIGEST_LEN])
{
    char first[KEY_TEXT_MAX];
    unsigned len = DIGEST_LEN;
    int text_len = snprintf(first, sizeof first, "AWS4%s", r->secret_key);

    if (text_len < 0 || text_len >= (int)sizeof first) return ERR_INVALID;
    HMAC(EVP_sha256(), first, text_len, (const uint8_t *)day, strlen(day), key, &len);
    OPENSSL_cleanse(first, sizeof first);
    hmac(key, r->region, key);
    hmac(key, r->service, key);
    hmac(key, "aws4_request", key);
    return ERR_OK;
}

static enum err sign(const struct sigv4_request *r, const struct sigv4_header *headers,
                     const char *day, struct buf *text, char signature[SIGV4_HEX + 1])
{
    uint8_t key[DIGEST_LEN];
    char hash[SIGV4_HEX + 1];
    char *to_sign = NULL;
    enum err err = canonical(r, headers, text);

    if (err) return err;
    sigv4_sha256(buf_peek(text), hash);
    buf_clear(text);
    err = buf_appendf(text, "%s\n%s\n%s/%s/%s/aws4_request\n%s", ALGORITHM, r->date, day, r->region,
                      r->service, hash);
    if (!err) err = buf_detach(text, &to_sign);
    if (!err) err = signing_key(r, day, key);
    if (!err) hmac(key, to_sign, key);
    if (!err) to_hex(key, signature);
    OPENSSL_cleanse(key, sizeof key);
    free(to_sign);
    return err;
}

enum err sigv4_authorization(const struct sigv4_request *r, struct buf *into)
{
    struct sigv4_header headers[SIGV4_HEADERS_MAX];
    char signature[SIGV4_HEX + 1], day[DAY_LEN + 1];
    size_t start = into->len;
    struct buf text;
    enum err err;

    if (r->header_count == 0 || r->header_count > SIGV4_HEADERS_MAX ||
        strlen(r->date) != SIGV4_DATE_CAP - 1)
        return ERR_INVALID;
    memcpy(headers, r->headers, r->header_count * sizeof headers[0]);
    qsort(headers, r->header_count, sizeof headers[0], by_name);
    snprintf(day, sizeof day, "%.*s", DAY_LEN, r->date);
    buf_init(&text, TEXT_MAX);
    err = sign(r, headers, day, &text, signature);
    buf_deinit(&text);
    if (err) return err;
    err = buf_appendf(into, "%s Credential=%s/%s/%s/%s/aws4_request,SignedHeaders=", ALGORITHM,
                      r->access_key, day, r->region, r->service);
    if (!err) err = append_names(headers, r->header_count, into);
    if (!err) err = buf_appendf(into, ",Signature=%s", signature);
    if (err) into->len = start;
    return err;
}
