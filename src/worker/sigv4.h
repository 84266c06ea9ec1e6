/* SPDX-License-Identifier: Apache-2.0 */
/* Signs an HTTP request for S3 and what speaks like it (AWS Signature Version 4). */
#ifndef WORKER_SIGV4_H
#define WORKER_SIGV4_H
#include "base/buf.h"
#include "base/time.h"

enum { SIGV4_HEADERS_MAX = 16, SIGV4_HEX = 64, SIGV4_DATE_CAP = 17 };

struct sigv4_header {
    const char *name; /* in lower case */
    struct str value;
};
struct sigv4_request {
    const char *method;
    struct str path;  /* as it stands in the request line, encoded */
    struct str query; /* encoded and in order; without '?' */
    /* All that are to be signed, in any order; host, x-amz-date and x-amz-content-sha256 must be
     * among them. */
    const struct sigv4_header *headers;
    size_t header_count;
    const char *payload_hex; /* SHA-256 of the body */
    const char *date;        /* "20130524T000000Z", as in x-amz-date */
    const char *region, *service, *access_key, *secret_key;
};
/* Appends the value of the Authorization header. ERR_INVALID (too many headers, a date that is
 * none), ERR_FULL, ERR_NOMEM. */
enum err sigv4_authorization(const struct sigv4_request *request, struct buf *into);
void sigv4_sha256(struct str bytes, char hex[SIGV4_HEX + 1]);
void sigv4_date(wall_time now, char date[SIGV4_DATE_CAP]);
/* Appends a path with every byte but A-Z a-z 0-9 - . _ ~ and '/' as %XX. */
enum err sigv4_encode_path(struct str path, struct buf *into);
#endif
