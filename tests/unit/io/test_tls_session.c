/* TLS without sockets: the certificate matrix in memory, then the ways of bytes. */
#include <string.h>

#include <openssl/ssl.h>

#include "unit/io/tls_pair.h"

#define NAME FORGE_NAME
#define TEXT FORGE_TEXT

/* -- the certificate matrix ------------------------------------------------------------------- */

enum { ROOT_A = BIT(0), ROOT_B = BIT(1) };
struct party {
    struct forge_spec spec;             /* all zero: bigfleet://admin, DNS localhost, 127.0.0.1 */
    bool from_b;                        /* signed by root B instead of A */
    bool none;                          /* shows no certificate */
    unsigned trusts;                    /* 0: root A */
    enum tls_version version_min;       /* all zero: 1.2 */
    const char *alpn[4];
};
struct row {
    const char *why;
    struct party client, server;
    bool optional;
    const char *name;                   /* that the client expects; NULL: localhost */
    enum err want_server, want_client;
    const char *says;                   /* in the note of the side that refused first */
};

static const struct row matrix[] = {
    {.why = "both honest"},
    {.why = "the server by its address", .name = "127.0.0.1"},
    {.why = "no client certificate where one is required", .client = {.none = true},
     .want_server = ERR_UNAUTHENTICATED, .want_client = ERR_DENIED,
     .says = "did not return a certificate"},
    {.why = "no client certificate where none is required", .client = {.none = true},
     .optional = true},
    {.why = "client from another CA", .client = {.from_b = true, .trusts = ROOT_A},
     .want_server = ERR_UNAUTHENTICATED, .want_client = ERR_DENIED, .says = "issuer"},
    {.why = "another CA is refused even where a certificate is optional",
     .client = {.from_b = true, .trusts = ROOT_A}, .optional = true,
     .want_server = ERR_UNAUTHENTICATED, .want_client = ERR_DENIED, .says = "issuer"},
    {.why = "server from another CA", .server = {.from_b = true, .trusts = ROOT_A},
     .want_server = ERR_DENIED, .want_client = ERR_UNAUTHENTICATED, .says = "issuer"},
    {.why = "two roots live at once: the new client", .client = {.from_b = true},
     .server = {.trusts = ROOT_A | ROOT_B}},
    {.why = "two roots live at once: the old client", .server = {.trusts = ROOT_A | ROOT_B}},
    {.why = "old root removed: the old client is refused", .server = {.trusts = ROOT_B},
     .want_server = ERR_UNAUTHENTICATED, .want_client = ERR_DENIED, .says = "issuer"},
    {.why = "client certificate expired", .client = {.spec = {.from_s = -7200, .until_s = -60}},
     .want_server = ERR_UNAUTHENTICATED, .want_client = ERR_DENIED, .says = "expired"},
    {.why = "client certificate not yet valid",
     .client = {.spec = {.from_s = 3600, .until_s = 7200}}, .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED, .says = "not yet valid"},
    {.why = "server certificate expired", .server = {.spec = {.from_s = -7200, .until_s = -60}},
     .want_server = ERR_DENIED, .want_client = ERR_UNAUTHENTICATED, .says = "expired"},
    {.why = "server certificate not yet valid",
     .server = {.spec = {.from_s = 3600, .until_s = 7200}}, .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED, .says = "not yet valid"},
    {.why = "a certificate for servers only, shown by a client",
     .client = {.spec = {.use = "serverAuth"}}, .want_server = ERR_UNAUTHENTICATED,
     .want_client = ERR_DENIED, .says = "purpose"},
    {.why = "a certificate for clients only, shown by a server",
     .server = {.spec = {.use = "clientAuth"}}, .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED, .says = "purpose"},
    {.why = "two bigfleet URIs: the handshake is fine, the identity is not (wire.md T6)",
     .client = {.spec = {.names = {NAME(URI, "bigfleet://admin"),
                                   NAME(URI, "bigfleet://readonly")}}}},
    {.why = "no URI at all (wire.md T7)",
     .client = {.spec = {.common_names = {TEXT("nobody")}}}},
    {.why = "a NUL in the client's URI",
     .client = {.spec = {.names = {NAME(URI, "bigfleet://admin\0x")}}},
     .want_server = ERR_UNAUTHENTICATED, .want_client = ERR_DENIED, .says = "byte 0x00 in a URI"},
    {.why = "a NUL in the client's DNS name",
     .client = {.spec = {.names = {NAME(DNS, "worker-1\0x")}}},
     .want_server = ERR_UNAUTHENTICATED, .want_client = ERR_DENIED,
     .says = "byte 0x00 in a DNS name"},
    {.why = "a NUL in the client's common name",
     .client = {.spec = {.common_names = {TEXT("worker-1\0x")}}},
     .want_server = ERR_UNAUTHENTICATED, .want_client = ERR_DENIED,
     .says = "byte 0x00 in a common name"},
    {.why = "a NUL in the server's second DNS name",
     .server = {.spec = {.names = {NAME(DNS, "localhost"), NAME(DNS, "a\0b")}}},
     .want_server = ERR_DENIED, .want_client = ERR_UNAUTHENTICATED, .says = "byte 0x00"},
    {.why = "the classic: a NUL after the name the client asks for",
     .server = {.spec = {.names = {NAME(DNS, "localhost\0.evil.example")}}},
     .want_server = ERR_DENIED, .want_client = ERR_UNAUTHENTICATED, .says = "refused"},
    {.why = "too many names", .client = {.spec = {.repeat_uris = TLS_NAMES_MAX + 1}},
     .want_server = ERR_UNAUTHENTICATED, .want_client = ERR_DENIED, .says = "limit"},
    {.why = "wrong host name", .name = "elsewhere.example", .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED, .says = "ostname mismatch"},
    {.why = "wrong address", .name = "127.0.0.2", .want_server = ERR_DENIED,
     .want_client = ERR_UNAUTHENTICATED, .says = "IP address mismatch"},
    {.why = "the common name is no host name",
     .server = {.spec = {.common_names = {TEXT("localhost")}, .names = {NAME(URI, "a://b")}}},
     .want_server = ERR_DENIED, .want_client = ERR_UNAUTHENTICATED, .says = "ostname mismatch"},
    {.why = "a wildcard covers one label",
     .server = {.spec = {.names = {NAME(DNS, "*.fleet.example")}}}, .name = "a.fleet.example"},
    {.why = "and not two",
     .server = {.spec = {.names = {NAME(DNS, "*.fleet.example")}}}, .name = "a.b.fleet.example",
     .want_server = ERR_DENIED, .want_client = ERR_UNAUTHENTICATED, .says = "mismatch"},
    {.why = "a protocol in common", .client = {.alpn = {"http/1.1", "h2"}}, .server = {.alpn = {"h2"}}},
    {.why = "no protocol in common", .client = {.alpn = {"http/1.1"}}, .server = {.alpn = {"h2"}},
     .want_server = ERR_UNSUPPORTED, .want_client = ERR_UNSUPPORTED,
     .says = "no application protocol"},
    {.why = "a client that offers no protocol to a server that insists", .server = {.alpn = {"h2"}},
     .want_server = ERR_UNSUPPORTED, .want_client = ERR_UNSUPPORTED,
     .says = "no application protocol"},
    {.why = "a server that chooses none, and a client that insists", .client = {.alpn = {"h2"}},
     .want_client = ERR_UNSUPPORTED, .says = "none of our protocols"},
};

struct rooted {
    struct forge_pair a, b;
};

static struct tls_context *context_of(const struct party *party, enum tls_side side, bool optional,
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
    struct tls_options options = {.side = side, .version_min = party->version_min,
                                  .peer_optional = optional};
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
    CHECK_OK(note.text, tls_context_open(NULL, &options, &context, &note));
    forge_free(&leaf);
    buf_deinit(&ca);
    return context;
}

static void roots_make(struct rooted *roots)
{
    forge_root(&roots->a, "root a");
    forge_root(&roots->b, "root b");
}

static void roots_free(struct rooted *roots)
{
    forge_free(&roots->a);
    forge_free(&roots->b);
}

static void check_row(const struct row *row, const struct rooted *roots, enum tls_version lowest,
                      size_t step)
{
    struct party server_party = row->server;
    struct tls_context *server_context, *client_context;
    struct tls_end client, server;
    const struct note *first;

    server_party.version_min = lowest;
    server_context = context_of(&server_party, TLS_SERVER, row->optional, roots);
    client_context = context_of(&row->client, TLS_CLIENT, false, roots);
    tls_end_open(&server, server_context, NULL);
    tls_end_open(&client, client_context, row->name ? row->name : "localhost");
    tls_context_unref(server_context); /* the sessions hold what they need */
    tls_context_unref(client_context);
    tls_converse(&client, &server, step);

    CHECK_ERR(row->why, server.err, row->want_server);
    CHECK_ERR(row->why, client.err, row->want_client);
    first = tls_session_failure(row->want_server == ERR_UNAUTHENTICATED ||
                                        row->want_client == ERR_OK ||
                                        (row->want_server == ERR_UNSUPPORTED)
                                    ? server.session
                                    : client.session);
    CHECK_HAS(row->why, first->text, row->says ? row->says : "");
    if (!row->want_server && !row->want_client) {
        CHECK(row->why, server.open && client.open);
        CHECK(row->why, !tls_session_identity(server.session) == row->client.none);
        CHECK(row->why, tls_session_identity(client.session) != NULL);
        CHECK_TEXT("both sides agree on the protocol", tls_session_alpn(client.session),
                   tls_session_alpn(server.session));
    } else if (row->want_server) {
        CHECK(row->why, !server.open);
    }
    tls_end_close(&client);
    tls_end_close(&server);
}

TEST(certificate_matrix_with_tls_1_3)
{
    struct rooted roots;
    roots_make(&roots);
    for (size_t i = 0; i < ARRAY_LEN(matrix); i++) check_row(&matrix[i], &roots, TLS_V1_3, SIZE_MAX);
    roots_free(&roots);
}

TEST(certificate_matrix_on_a_listener_that_also_allows_1_2)
{
    struct rooted roots;
    roots_make(&roots);
    for (size_t i = 0; i < ARRAY_LEN(matrix); i++) check_row(&matrix[i], &roots, TLS_V1_2, SIZE_MAX);
    roots_free(&roots);
}

TEST(certificate_matrix_when_bytes_arrive_one_by_one)
{
    struct rooted roots;
    roots_make(&roots);
    for (size_t i = 0; i < ARRAY_LEN(matrix); i++) check_row(&matrix[i], &roots, TLS_V1_3, 1);
    roots_free(&roots);
}

/* -- foreign peers: OpenSSL's own client, driven by hand ---------------------------------------- */

struct raw {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out;
};

static void raw_open(struct raw *raw, int lowest, int highest)
{
    raw->context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(raw->context, 0);
    SSL_CTX_set_min_proto_version(raw->context, lowest);
    SSL_CTX_set_max_proto_version(raw->context, highest);
    raw->ssl = SSL_new(raw->context);
    raw->in = BIO_new(BIO_s_mem());
    raw->out = BIO_new(BIO_s_mem());
    SSL_set_bio(raw->ssl, raw->in, raw->out);
    SSL_set_connect_state(raw->ssl);
}

static void raw_close(struct raw *raw)
{
    SSL_free(raw->ssl);
    SSL_CTX_free(raw->context);
}

static void raw_converse(struct raw *raw, struct tls_end *server)
{
    char bytes[65536];
    bool any = true;

    while (any) {
        struct str out;
        int got;
        any = false;
        if (!SSL_is_init_finished(raw->ssl)) SSL_do_handshake(raw->ssl);
        else SSL_read(raw->ssl, bytes, sizeof bytes);
        got = BIO_read(raw->out, bytes, sizeof bytes);
        if (got > 0 && !server->err) {
            CHECK_OK("feed", tls_session_feed(server->session, str_of(bytes, (size_t)got)));
            tls_end_read(server);
            CHECK_OK("settle", tls_session_settle(server->session));
            any = true;
        }
        out = tls_session_output(server->session);
        if (out.len > 0) {
            BIO_write(raw->in, out.at, (int)out.len);
            tls_session_consume(server->session, out.len);
            any = true;
        }
    }
}

static const struct {
    const char *why;
    enum tls_version lowest;
    int from, to;
    enum err want;
    const char *version;
} versions[] = {
    {"1.2 against a listener that wants 1.3", TLS_V1_3, TLS1_2_VERSION, TLS1_2_VERSION,
     ERR_UNSUPPORTED, NULL},
    {"1.2 against a listener that allows it", TLS_V1_2, TLS1_2_VERSION, TLS1_2_VERSION, ERR_OK,
     "TLSv1.2"},
    {"1.3 against a listener that allows 1.2", TLS_V1_2, TLS1_2_VERSION, TLS1_3_VERSION, ERR_OK,
     "TLSv1.3"},
    {"1.1 is refused everywhere", TLS_V1_2, TLS1_1_VERSION, TLS1_1_VERSION, ERR_UNSUPPORTED, NULL},
};

TEST(the_lowest_version_is_kept)
{
    struct rooted roots;

    roots_make(&roots);
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        struct tls_context *context = context_of(
            &(struct party){.version_min = versions[i].lowest}, TLS_SERVER, true, &roots);
        struct tls_end server;
        struct raw raw;
        tls_end_open(&server, context, NULL);
        tls_context_unref(context);
        raw_open(&raw, versions[i].from, versions[i].to);
        raw_converse(&raw, &server);
        CHECK_ERR(versions[i].why, server.err, versions[i].want);
        if (versions[i].version)
            CHECK_TEXT(versions[i].why, tls_session_version(server.session), versions[i].version);
        raw_close(&raw);
        tls_end_close(&server);
    }
    roots_free(&roots);
}

TEST(no_session_can_be_resumed_and_none_renegotiated)
{
    struct rooted roots;
    struct tls_context *context;

    roots_make(&roots);
    context = context_of(&(struct party){0}, TLS_SERVER, true, &roots);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        struct tls_end server;
        struct raw raw;
        tls_end_open(&server, context, NULL);
        raw_open(&raw, version, version);
        raw_converse(&raw, &server);
        CHECK("open", server.open && SSL_is_init_finished(raw.ssl));
        CHECK("nothing to resume with", !SSL_SESSION_is_resumable(SSL_get_session(raw.ssl)));
        if (version == TLS1_2_VERSION) {
            CHECK("the client may ask", SSL_renegotiate(raw.ssl) == 1);
            SSL_do_handshake(raw.ssl);
            raw_converse(&raw, &server);
            CHECK("but is not heard", SSL_num_renegotiations(raw.ssl) == 0 ||
                                          !SSL_is_init_finished(raw.ssl));
        }
        raw_close(&raw);
        tls_end_close(&server);
    }
    tls_context_unref(context);
    roots_free(&roots);
}

static const struct {
    const char *why;
    struct str bytes;
} no_tls[] = {
    {"an HTTP request", TEXT("GET / HTTP/1.1\r\nHost: a\r\n\r\n")},
    {"an HTTP/2 preface", TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
    {"zeros", TEXT("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")},
    {"a record of an absurd length", TEXT("\x16\x03\x01\xff\xff\x01\x00")},
    {"a hello that is none", TEXT("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")},
    {"an alert as first word", TEXT("\x17\x03\x03\x00\x01x")},
};

TEST(bytes_that_are_no_tls_end_the_session)
{
    struct rooted roots;
    struct tls_context *context;

    roots_make(&roots);
    context = context_of(&(struct party){0}, TLS_SERVER, false, &roots);
    for (size_t i = 0; i < ARRAY_LEN(no_tls); i++) {
        struct tls_end server;
        tls_end_open(&server, context, NULL);
        CHECK_OK("feed", tls_session_feed(server.session, no_tls[i].bytes));
        tls_end_read(&server);
        CHECK_ERR(no_tls[i].why, server.err, ERR_PARSE);
        CHECK_HAS(no_tls[i].why, tls_session_failure(server.session)->text, "tls: ");
        tls_end_read(&server);
        CHECK_ERR("and stay ended", server.err, ERR_PARSE);
        (void)tls_session_settle(server.session);
        tls_end_close(&server);
    }
    tls_context_unref(context);
    roots_free(&roots);
}

/* -- the ways of bytes -------------------------------------------------------------------------- */

struct joined {
    struct tls_end client, server;
};

static void join(struct joined *j)
{
    struct rooted roots;
    struct tls_context *server, *client;

    roots_make(&roots);
    server = context_of(&(struct party){.alpn = {"h2"}}, TLS_SERVER, false, &roots);
    client = context_of(&(struct party){.alpn = {"h2"}}, TLS_CLIENT, false, &roots);
    tls_end_open(&j->server, server, NULL);
    tls_end_open(&j->client, client, "localhost");
    tls_context_unref(server);
    tls_context_unref(client);
    tls_converse(&j->client, &j->server, SIZE_MAX);
    CHECK("joined", j->client.open && j->server.open);
    roots_free(&roots);
}

static void part(struct joined *j)
{
    tls_end_close(&j->client);
    tls_end_close(&j->server);
}

TEST(a_peer_is_known_once_the_session_is_open)
{
    struct joined j;
    struct str uri;

    join(&j);
    CHECK_OK("the server knows the client",
             tls_identity_uri(tls_session_identity(j.server.session), STR("bigfleet"), &uri));
    CHECK_STR("by its URI", uri, STR("bigfleet://admin"));
    CHECK_STR("and its common name", tls_session_identity(j.server.session)->common_name,
              STR("usual"));
    CHECK_TEXT("protocol", tls_session_alpn(j.server.session), "h2");
    CHECK_TEXT("version", tls_session_version(j.server.session), "TLSv1.3");
    part(&j);
}

TEST(large_writes_leave_in_full_records)
{
    enum { SIZE = 1024 * 1024 };
    struct joined j;
    struct str out;
    char *sent = malloc(SIZE);
    size_t records = 0;

    for (size_t i = 0; i < SIZE; i++) sent[i] = (char)(i * 31 >> 3);
    join(&j);
    CHECK_OK("write", tls_session_write(j.client.session, str_of(sent, SIZE)));
    out = tls_session_output(j.client.session);
    for (size_t at = 0; at < out.len; records++) {
        const unsigned char *head = (const unsigned char *)out.at + at;
        at += 5 + (size_t)(head[3] << 8 | head[4]);
        CHECK("records end where the output does", at <= out.len);
    }
    CHECK_SIZE("one record for 16 KiB", records, SIZE / TLS_RECORD_MAX);
    CHECK("with little on top", out.len - SIZE <= records * TLS_RECORD_EXTRA);
    tls_carry(&j.client, &j.server, 1009);
    CHECK_STR("and arrive as sent", buf_peek(&j.server.got), str_of(sent, SIZE));
    free(sent);
    part(&j);
}

TEST(input_that_is_not_read_is_kept)
{
    struct joined j;
    char plain[TLS_RECORD_MAX];
    size_t got;

    join(&j);
    for (int i = 0; i < 3; i++) {
        CHECK_OK("write", tls_session_write(j.client.session, STR("piece")));
        CHECK_OK("fed, not read",
                 tls_session_feed(j.server.session, tls_session_output(j.client.session)));
        CHECK_OK("settled", tls_session_settle(j.server.session));
        tls_session_consume(j.client.session, tls_session_output(j.client.session).len);
    }
    for (int i = 0; i < 3; i++) {
        CHECK("input is held", tls_session_has_input(j.server.session));
        CHECK_OK("one record at a time",
                 tls_session_read(j.server.session, plain, sizeof plain, &got));
        CHECK_STR("in order", str_of(plain, got), STR("piece"));
        CHECK_OK("settled", tls_session_settle(j.server.session));
    }
    CHECK("and then no more", !tls_session_has_input(j.server.session));
    part(&j);
}

TEST(what_is_held_is_bounded)
{
    struct joined j;
    static char much[TLS_HELD_MAX];

    join(&j);
    CHECK_OK("as much as may be held", tls_session_feed(j.server.session, str_of(much, sizeof much)));
    CHECK_OK("settled", tls_session_settle(j.server.session));
    CHECK_ERR("one more", tls_session_feed(j.server.session, STR("x")), ERR_FULL);
    part(&j);
}

TEST(ending_closes_one_direction_only)
{
    struct joined j;

    join(&j);
    CHECK_OK("last words", tls_session_write(j.client.session, STR("bye")));
    CHECK_OK("end", tls_session_end(j.client.session));
    CHECK_OK("twice is once", tls_session_end(j.client.session));
    tls_carry(&j.client, &j.server, SIZE_MAX);
    CHECK_STR("the words came", buf_peek(&j.server.got), STR("bye"));
    CHECK("and the end", tls_session_peer_ended(j.server.session));
    CHECK("not of the other direction", !tls_session_peer_ended(j.client.session));
    CHECK_OK("which goes on", tls_session_write(j.server.session, STR("answer")));
    tls_carry(&j.server, &j.client, SIZE_MAX);
    CHECK_STR("to be heard", buf_peek(&j.client.got), STR("answer"));
    CHECK_OK("until it ends too", tls_session_end(j.server.session));
    tls_carry(&j.server, &j.client, SIZE_MAX);
    CHECK("in order", tls_session_peer_ended(j.client.session) && !j.client.err && !j.server.err);
    CHECK_OK("what comes after the end", tls_session_feed(j.client.session, STR("rubbish")));
    tls_end_read(&j.client);
    CHECK_OK("does not count", tls_session_settle(j.client.session));
    CHECK("and is not kept", !j.client.err && !tls_session_has_input(j.client.session));
    part(&j);
}

TEST(a_changed_byte_is_noticed)
{
    struct joined j;
    struct buf copy;

    join(&j);
    CHECK_OK("write", tls_session_write(j.client.session, STR("amount: 100")));
    buf_init(&copy, 65536);
    CHECK_OK("copy", buf_append(&copy, tls_session_output(j.client.session)));
    copy.data[copy.len - 9] ^= 1;
    CHECK_OK("feed", tls_session_feed(j.server.session, buf_peek(&copy)));
    tls_end_read(&j.server);
    CHECK_ERR("refused", j.server.err, ERR_PARSE);
    CHECK_SIZE("nothing read", j.server.got.len, 0);
    CHECK("the peer is told", tls_session_output(j.server.session).len > 0);
    (void)tls_session_settle(j.server.session);
    buf_deinit(&copy);
    part(&j);
}

TEST(a_client_needs_a_name_to_expect)
{
    struct rooted roots;
    struct tls_context *context;
    struct tls_session *session = NULL;
    struct note note;
    char long_name[300];

    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    roots_make(&roots);
    context = context_of(&(struct party){0}, TLS_CLIENT, false, &roots);
    CHECK_ERR("none", tls_session_open(context, NULL, &session, &note), ERR_INVALID);
    CHECK_ERR("empty", tls_session_open(context, "", &session, &note), ERR_INVALID);
    CHECK_ERR("too long", tls_session_open(context, long_name, &session, &note), ERR_INVALID);
    CHECK("untouched", session == NULL);
    tls_session_close(NULL);
    tls_context_unref(context);
    tls_context_unref(NULL);
    roots_free(&roots);
}
