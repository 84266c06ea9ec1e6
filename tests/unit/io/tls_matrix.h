/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate matrix: pairs of parties, which side refuses, and its error. Run in memory and
 * over sockets. */
#ifndef TESTS_TLS_MATRIX_H
#define TESTS_TLS_MATRIX_H
#include <stdio.h>
#include <string.h>

#include "io/tls.h"
#include "lib/test.h"
#include "unit/io/tls_forge.h"

#define NAME FORGE_NAME
#define TEXT FORGE_TEXT

enum { ROOT_A = BIT(0), ROOT_B = BIT(1) };
struct party {
    struct forge_spec spec;       /* all zero: bigfleet://admin, DNS localhost, 127.0.0.1 */
    bool from_b;                  /* signed by root B instead of A */
    bool none;                    /* sends no certificate */
    unsigned trusts;              /* 0: root A */
    enum tls_version version_min; /* all zero: 1.2 */
    const char *alpn[4];
    bool takes_any; /* a server that accepts any certificate */
};
struct row {
    const char *why;
    struct party client, server;
    bool optional;
    const char *name; /* the name that the client expects; NULL: localhost */
    enum err want_server, want_client;
    const char *says; /* part of the note of the side that refused first */
};

static const struct row matrix[] = {
    {.why = "both honest"},
    {.why = "the server by its address", .name = "127.0.0.1"},
    {.why = "no client certificate where one is required",
     .client = {.none = true},
     .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED,
     .says = "did not return a certificate"},
    {.why = "no client certificate where none is required",
     .client = {.none = true},
     .optional = true},
    {.why = "client from another CA",
     .client = {.from_b = true, .trusts = ROOT_A},
     .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED,
     .says = "issuer"},
    {.why = "another CA is refused even where a certificate is optional",
     .client = {.from_b = true, .trusts = ROOT_A},
     .optional = true,
     .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED,
     .says = "issuer"},
    {.why = "server from another CA",
     .server = {.from_b = true, .trusts = ROOT_A},
     .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED,
     .says = "issuer"},
    {.why = "two roots live at once: the new client",
     .client = {.from_b = true},
     .server = {.trusts = ROOT_A | ROOT_B}},
    {.why = "two roots live at once: the old client", .server = {.trusts = ROOT_A | ROOT_B}},
    {.why = "old root removed: the old client is refused",
     .server = {.trusts = ROOT_B},
     .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED,
     .says = "issuer"},
    {.why = "client certificate expired",
     .client = {.spec = {.from_s = -7200, .until_s = -60}},
     .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED,
     .says = "expired"},
    {.why = "client certificate not yet valid",
     .client = {.spec = {.from_s = 3600, .until_s = 7200}},
     .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED,
     .says = "not yet valid"},
    {.why = "server certificate expired",
     .server = {.spec = {.from_s = -7200, .until_s = -60}},
     .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED,
     .says = "expired"},
    {.why = "server certificate not yet valid",
     .server = {.spec = {.from_s = 3600, .until_s = 7200}},
     .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED,
     .says = "not yet valid"},
    {.why = "a certificate for servers only, shown by a client",
     .client = {.spec = {.use = "serverAuth"}},
     .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED,
     .says = "purpose"},
    {.why = "a certificate for clients only, shown by a server",
     .server = {.spec = {.use = "clientAuth"}},
     .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED,
     .says = "purpose"},
    {.why = "two bigfleet URIs: the handshake is fine, the identity is not (wire.md T6)",
     .client = {.spec = {.names = {NAME(URI, "bigfleet://admin"),
                                   NAME(URI, "bigfleet://readonly")}}}},
    {.why = "no URI at all (wire.md T7)", .client = {.spec = {.common_names = {TEXT("nobody")}}}},
    {.why = "a NUL in the client's URI",
     .client = {.spec = {.names = {NAME(URI, "bigfleet://admin\0x")}}},
     .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED,
     .says = "byte 0x00 in a URI"},
    {.why = "a NUL in the client's DNS name",
     .client = {.spec = {.names = {NAME(DNS, "worker-1\0x")}}},
     .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED,
     .says = "byte 0x00 in a DNS name"},
    {.why = "a NUL in the client's common name",
     .client = {.spec = {.common_names = {TEXT("worker-1\0x")}}},
     .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED,
     .says = "byte 0x00 in a common name"},
    {.why = "a NUL in the server's second DNS name",
     .server = {.spec = {.names = {NAME(DNS, "localhost"), NAME(DNS, "a\0b")}}},
     .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED,
     .says = "byte 0x00"},
    {.why = "the classic: a NUL after the name the client asks for",
     .server = {.spec = {.names = {NAME(DNS, "localhost\0.evil.example")}}},
     .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED,
     .says = "refused"},
    {.why = "too many names",
     .client = {.spec = {.repeat_uris = TLS_NAMES_MAX + 1}},
     .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED,
     .says = "limit"},
    {.why = "wrong host name",
     .name = "elsewhere.example",
     .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED,
     .says = "ostname mismatch"},
    {.why = "wrong address",
     .name = "127.0.0.2",
     .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED,
     .says = "IP address mismatch"},
    {.why = "the common name is no host name",
     .server = {.spec = {.common_names = {TEXT("localhost")}, .names = {NAME(URI, "a://b")}}},
     .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED,
     .says = "ostname mismatch"},
    {.why = "a wildcard covers one label",
     .server = {.spec = {.names = {NAME(DNS, "*.fleet.example")}}},
     .name = "a.fleet.example"},
    {.why = "and not two",
     .server = {.spec = {.names = {NAME(DNS, "*.fleet.example")}}},
     .name = "a.b.fleet.example",
     .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED,
     .says = "mismatch"},
    {.why = "a protocol in common",
     .client = {.alpn = {"http/1.1", "h2"}},
     .server = {.alpn = {"h2"}}},
    {.why = "no protocol in common",
     .client = {.alpn = {"http/1.1"}},
     .server = {.alpn = {"h2"}},
     .want_server = ERR_UNSUPPORTED,
     .want_client = ERR_UNSUPPORTED,
     .says = "no application protocol"},
    {.why = "a client that offers no protocol to a server that insists",
     .server = {.alpn = {"h2"}},
     .want_server = ERR_UNSUPPORTED,
     .want_client = ERR_UNSUPPORTED,
     .says = "no application protocol"},
    {.why = "a server that chooses none, and a client that insists",
     .client = {.alpn = {"h2"}},
     .want_client = ERR_UNSUPPORTED,
     .says = "none of our protocols"},
};

struct rooted {
    struct forge_pair a, b;
};

static inline const char *matrix_put(const char *dir, enum tls_side side, int which,
                                     struct str *pem)
{
    static char paths[2][3][600];
    static uint64_t unique;
    char *path = paths[side][which];

    if (pem->len == 0) return NULL;
    snprintf(path, 600, "%s/matrix-%d-%d.pem", dir, side, which);
    CHECK_OK("written", fs_publish(fs_real(), path, *pem, 0600, ++unique));
    *pem = STR_EMPTY;
    return path;
}

static inline void matrix_to_files(const char *dir, struct tls_options *options)
{
    options->cert_file = matrix_put(dir, options->side, 0, &options->cert_pem);
    options->key_file = matrix_put(dir, options->side, 1, &options->key_pem);
    options->ca_files[0] = matrix_put(dir, options->side, 2, &options->ca_pem);
}

/* With `dir` keys and certificates go through files there, otherwise through memory. */
static inline struct tls_context *context_in(const char *dir, const struct party *party,
                                             enum tls_side side, bool optional,
                                             const struct rooted *roots)
{
    static const struct forge_spec usual = {
        .common_names = {TEXT("usual")},
        .names = {NAME(URI, "bigfleet://admin"), NAME(DNS, "localhost"),
                  NAME(IP, "\x7f\x00\x00\x01")},
    };
    unsigned trusts = party->trusts ? party->trusts : ROOT_A;
    struct forge_spec spec = party->spec;
    struct forge_pair leaf;
    struct buf ca;
    struct tls_context *context = NULL;
    struct tls_options options = {
        .side = side,
        .version_min = party->version_min,
        .peer_optional = optional,
        .peer_unproven = party->takes_any,
    };
    struct note note = {0};

    if (!spec.common_names[0].len && !spec.names[0].kind && !spec.repeat_uris) {
        memcpy(spec.common_names, usual.common_names, sizeof spec.common_names);
        memcpy(spec.names, usual.names, sizeof spec.names);
    }
    forge(&leaf, party->from_b ? &roots->b : &roots->a, &spec);
    buf_init(&ca, 1 << 20);
    if (trusts & ROOT_A) CHECK_OK("ca", buf_append(&ca, forge_cert(&roots->a)));
    if (trusts & ROOT_B) CHECK_OK("ca", buf_append(&ca, forge_cert(&roots->b)));
    options.ca_pem = buf_peek(&ca);
    if (!party->none) {
        options.cert_pem = forge_cert(&leaf);
        options.key_pem = forge_key(&leaf);
    }
    memcpy(options.alpn, party->alpn, sizeof options.alpn);
    if (dir) matrix_to_files(dir, &options);
    CHECK_ERR(note.text, tls_context_open(fs_real(), &options, &context, &note), ERR_OK);
    forge_free(&leaf);
    buf_deinit(&ca);
    return context;
}

static inline void roots_make(struct rooted *roots)
{
    forge_root(&roots->a, "root a");
    forge_root(&roots->b, "root b");
}

static inline void roots_free(struct rooted *roots)
{
    forge_free(&roots->a);
    forge_free(&roots->b);
}
#endif
