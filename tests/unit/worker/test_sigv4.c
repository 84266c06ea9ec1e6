/* SPDX-License-Identifier: Apache-2.0 */
/* worker/sigv4.h against the examples that the service's own manual publishes ("Authenticating
 * Requests: Using the Authorization Header"). */
#include <stdio.h>

#include "lib/test.h"
#include "worker/sigv4.h"

#define EMPTY_SHA "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define HOST      "examplebucket.s3.amazonaws.com"
#define DATE      "20130524T000000Z"

static void check(const struct sigv4_request *like, const char *signed_headers,
                  const char *signature)
{
    struct sigv4_request request = *like;
    char want[512];
    struct buf got;

    request.date = DATE;
    request.region = "us-east-1";
    request.service = "s3";
    request.access_key = "AKIAIOSFODNN7EXAMPLE";
    request.secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    snprintf(want, sizeof want,
             "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
             "SignedHeaders=%s,Signature=%s",
             signed_headers, signature);
    buf_init(&got, 4096);
    CHECK_OK("signed", sigv4_authorization(&request, &got));
    CHECK_STR("as published", buf_peek(&got), str_from(want));
    buf_deinit(&got);
}

TEST(get_object)
{
    struct sigv4_header headers[] = {{"x-amz-date", STR(DATE)},
                                     {"x-amz-content-sha256", STR(EMPTY_SHA)},
                                     {"range", STR("bytes=0-9")},
                                     {"host", STR(HOST)}};

    check(&(struct sigv4_request){.method = "GET",
                                  .path = STR("/test.txt"),
                                  .query = STR_EMPTY,
                                  .headers = headers,
                                  .header_count = 4,
                                  .payload_hex = EMPTY_SHA},
          "host;range;x-amz-content-sha256;x-amz-date",
          "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(put_object)
{
    char payload[SIGV4_HEX + 1];
    struct sigv4_header headers[] = {{"date", STR("Fri, 24 May 2013 00:00:00 GMT")},
                                     {"host", STR(HOST)},
                                     {"x-amz-content-sha256", STR_EMPTY},
                                     {"x-amz-date", STR(DATE)},
                                     {"x-amz-storage-class", STR("REDUCED_REDUNDANCY")}};
    struct buf path;

    sigv4_sha256(STR("Welcome to Amazon S3."), payload);
    CHECK_TEXT("of the body", payload,
               "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
    headers[2].value = str_from(payload);
    buf_init(&path, 64);
    CHECK_OK("encoded", sigv4_encode_path(STR("/test$file.text"), &path));
    CHECK_STR("only what is plain stays", buf_peek(&path), STR("/test%24file.text"));
    check(&(struct sigv4_request){.method = "PUT",
                                  .path = buf_peek(&path),
                                  .query = STR_EMPTY,
                                  .headers = headers,
                                  .header_count = 5,
                                  .payload_hex = payload},
          "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
          "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
    buf_deinit(&path);
}

TEST(a_query)
{
    struct sigv4_header headers[] = {
        {"host", STR(HOST)}, {"x-amz-content-sha256", STR(EMPTY_SHA)}, {"x-amz-date", STR(DATE)}};
    struct sigv4_request request = {.method = "GET",
                                    .path = STR("/"),
                                    .query = STR("lifecycle="),
                                    .headers = headers,
                                    .header_count = 3,
                                    .payload_hex = EMPTY_SHA};

    check(&request, "host;x-amz-content-sha256;x-amz-date",
          "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    request.query = STR("max-keys=2&prefix=J");
    check(&request, "host;x-amz-content-sha256;x-amz-date",
          "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(a_date)
{
    char date[SIGV4_DATE_CAP];

    sigv4_date((wall_time){1369353600000}, date);
    CHECK_TEXT("in UTC", date, DATE);
}
