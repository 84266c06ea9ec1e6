/* SPDX-License-Identifier: Apache-2.0 */
/* The identity in a certificate: what is read, what is refused, and which URI counts. */
#include "io/tls_identity.h"

#include <string.h>

#include "lib/test.h"
#include "unit/io/tls_forge.h"

#define NAME FORGE_NAME
#define TEXT FORGE_TEXT

static enum err read_spec(const struct forge_spec *spec, struct tls_identity **ret_identity,
                          struct note *note)
{
    struct forge_pair leaf;
    unsigned char *der = NULL;
    const unsigned char *at;
    X509 *read;
    int len;
    enum err err;

    forge(&leaf, NULL, spec);
    len = i2d_X509(leaf.certificate, &der);
    CHECK("the forged certificate has an encoding", len > 0);
    at = der;
    read = d2i_X509(NULL, &at, len);
    CHECK("and is read back", read);
    err = tls_identity_read(read, ret_identity, note);
    X509_free(read);
    OPENSSL_free(der);
    forge_free(&leaf);
    return err;
}

TEST(every_uri_dns_name_and_the_common_name_are_read)
{
    struct tls_identity *id;
    struct note note;

    CHECK_OK(
        "an honest certificate",
        read_spec(
            &(struct forge_spec){.common_names = {TEXT("replica-1")},
                                 .names = {NAME(URI, "muster://replica/1"), NAME(DNS, "a.example"),
                                           NAME(IP, "\x7f\x00\x00\x01"),
                                           NAME(URI, "bigfleet://admin"), NAME(DNS, "b.example")}},
            &id, &note));
    CHECK_SIZE("URIs", id->uri_count, 2);
    CHECK_STR("in their order", id->uris[0], STR("muster://replica/1"));
    CHECK_STR("in their order", id->uris[1], STR("bigfleet://admin"));
    CHECK_SIZE("DNS names", id->dns_count, 2);
    CHECK_STR("in their order", id->dns_names[1], STR("b.example"));
    CHECK_STR("common name", id->common_name, STR("replica-1"));
    CHECK("a serial", id->serial_hex.len > 0);
    CHECK("an end", id->not_after.ms > 0);
    free(id);
}

TEST(a_certificate_without_names_has_an_empty_identity)
{
    struct tls_identity *id;
    struct str uri = STR("untouched");

    CHECK_OK("nothing but a key", read_spec(&(struct forge_spec){0}, &id, NULL));
    CHECK_SIZE("no URI", id->uri_count + id->dns_count + id->common_name.len, 0);
    CHECK_ERR("so no identity", tls_identity_uri(id, STR("bigfleet"), &uri), ERR_NOT_FOUND);
    CHECK_STR("and the output untouched", uri, STR("untouched"));
    free(id);
    CHECK_ERR("nor has a peer without certificate", tls_identity_uri(NULL, STR("bigfleet"), &uri),
              ERR_NOT_FOUND);
}

static const struct {
    const char *why;
    struct forge_spec spec;
    const char *says;
} refused[] = {
    {"a NUL ends the URI for C but not for the issuer",
     {.names = {NAME(URI, "bigfleet://admin\0.evil")}},
     "byte 0x00 in a URI"},
    {"the same in a DNS name",
     {.names = {NAME(DNS, "good.example\0.evil")}},
     "byte 0x00 in a DNS name"},
    {"the same in a common name",
     {.common_names = {TEXT("worker-1\0x")}},
     "control byte 0x00 in a common name"},
    {"in the second common name too",
     {.common_names = {TEXT("fine"), TEXT("b\0d")}},
     "control byte 0x00"},
    {"a line feed would forge a log line",
     {.names = {NAME(URI, "bigfleet://x\nadmin")}},
     "byte 0x0a in a URI"},
    {"delete is a control byte", {.common_names = {TEXT("a\x7f")}}, "0x7f"},
    {"C1 controls hide in UTF-8", {.common_names = {TEXT("a\xc2\x85z")}}, "0xc2"},
    {"a blank is no part of a URI", {.names = {NAME(URI, "bigfleet://a b")}}, "byte 0x20"},
    {"an IA5String is ASCII",
     {.names = {NAME(DNS, "b\xc3\xbc"
                          "cher")}},
     "byte 0xc3"},
    {"the same NUL in sixteen bits",
     {.common_names = {TEXT("\0a\0\0\0b")}, .common_name_type = V_ASN1_BMPSTRING},
     "control byte 0x00"},
    {"a name that names nothing", {.names = {NAME(URI, "")}}, "an empty URI"},
    {"a bad name anywhere spoils the rest",
     {.names = {NAME(URI, "bigfleet://admin"), NAME(DNS, "x\0y")}},
     "byte 0x00"},
    {"65 URIs are over the limit", {.repeat_uris = TLS_NAMES_MAX + 1}, "limit"},
    {"65 DNS names are over the limit", {.repeat_dns = TLS_NAMES_MAX + 1}, "limit"},
    {"two lists of names", {.names = {NAME(URI, "a://b")}, .two_san_lists = true}, "two lists"},
};

TEST(names_that_read_differently_to_two_readers_are_refused)
{
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct tls_identity *id = NULL;
        struct note note = {0};
        CHECK_ERR(refused[i].why, read_spec(&refused[i].spec, &id, &note), ERR_UNAUTHENTICATED);
        CHECK_HAS(refused[i].why, note.text, refused[i].says);
        CHECK(refused[i].why, id == NULL);
    }
}

static const struct {
    const char *why;
    struct forge_spec spec;
    size_t uris, dns;
    struct str common_name;
} accepted[] = {
    {"64 of each kind are within the limit",
     {.repeat_uris = TLS_NAMES_MAX, .repeat_dns = TLS_NAMES_MAX},
     TLS_NAMES_MAX,
     TLS_NAMES_MAX,
     {"", 0}},
    {"a common name may hold any letters",
     {.common_names = {TEXT("b\xc3\xbc"
                            "cher")}},
     0,
     0,
     {"b\xc3\xbc"
      "cher",
      7}},
    {"of two common names neither counts", {.common_names = {TEXT("a"), TEXT("b")}}, 0, 0, {"", 0}},
};

TEST(unusual_but_plain_names_are_read)
{
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
        struct tls_identity *id;
        CHECK_OK(accepted[i].why, read_spec(&accepted[i].spec, &id, NULL));
        CHECK_SIZE(accepted[i].why, id->uri_count, accepted[i].uris);
        CHECK_SIZE(accepted[i].why, id->dns_count, accepted[i].dns);
        CHECK_STR(accepted[i].why, id->common_name, accepted[i].common_name);
        free(id);
    }
}

static const struct {
    const char *why;
    const char *uris[4];
    enum err want;
    const char *uri;
} choices[] = {
    {"exactly one", {"bigfleet://admin"}, ERR_OK, "bigfleet://admin"},
    {"other schemes beside it are ignored",
     {"spiffe://x", "bigfleet://shard/s-1", "muster://replica/1"},
     ERR_OK,
     "bigfleet://shard/s-1"},
    {"none", {"spiffe://x"}, ERR_NOT_FOUND, NULL},
    {"two", {"bigfleet://admin", "bigfleet://readonly"}, ERR_CONFLICT, NULL},
    {"the same one twice is still two",
     {"bigfleet://admin", "bigfleet://admin"},
     ERR_CONFLICT,
     NULL},
    {"case of the scheme does not hide the second",
     {"bigfleet://admin", "BigFleet://x"},
     ERR_CONFLICT,
     NULL},
    {"a scheme ends at its colon", {"bigfleets://admin"}, ERR_NOT_FOUND, NULL},
    {"and has one", {"bigfleet"}, ERR_NOT_FOUND, NULL},
    {"without slashes it is one, and equals nothing we ask for",
     {"bigfleet:admin"},
     ERR_OK,
     "bigfleet:admin"},
};

TEST(an_identity_is_the_single_uri_of_its_scheme)
{
    for (size_t i = 0; i < ARRAY_LEN(choices); i++) {
        struct str uris[4], got = STR_EMPTY;
        struct tls_identity id = {.uris = uris};
        for (; id.uri_count < 4 && choices[i].uris[id.uri_count]; id.uri_count++)
            uris[id.uri_count] = str_from(choices[i].uris[id.uri_count]);
        CHECK_ERR(choices[i].why, tls_identity_uri(&id, STR("bigfleet"), &got), choices[i].want);
        CHECK_STR(choices[i].why, got, str_from(choices[i].uri));
    }
}
