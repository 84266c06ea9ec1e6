/* SPDX-License-Identifier: Apache-2.0 */
/* TLS without sockets: the certificate matrix in memory, then the byte interface. */
#include <string.h>

#include <openssl/ssl.h>

#include "unit/io/tls_matrix.h"
#include "unit/io/tls_pair.h"

static struct tls_context *context_of(const struct party *party, enum tls_side side, bool optional,
                                      const struct rooted *roots)
{
    return context_in(NULL, party, side, optional, roots);
}

/* -- the certificate matrix ------------------------------------------------------------------- */

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
    tls_context_unref(server_context); /* the sessions hold their own references */
    tls_context_unref(client_context);
    tls_converse(&client, &server, step);

    CHECK_ERR(row->why, server.err, row->want_server);
    CHECK_ERR(row->why, client.err, row->want_client);
    first = row->want_server == ERR_UNAUTHENTICATED || row->want_client == ERR_OK ||
                    row->want_server == ERR_UNSUPPORTED
                ? &server.session->failure
                : &client.session->failure;
    CHECK_HAS(row->why, first->text, row->says ? row->says : "");
    if (!row->want_server && !row->want_client) {
        CHECK(row->why, server.open && client.open);
        CHECK(row->why, !tls_session_identity(server.session) == row->client.none);
        CHECK(row->why, tls_session_identity(client.session) != NULL);
        CHECK_TEXT("both sides agree on the protocol", client.session->alpn, server.session->alpn);
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
    for (size_t i = 0; i < ARRAY_LEN(matrix); i++)
        check_row(&matrix[i], &roots, TLS_V1_3, SIZE_MAX);
    roots_free(&roots);
}

TEST(certificate_matrix_on_a_listener_that_also_allows_1_2)
{
    struct rooted roots;
    roots_make(&roots);
    for (size_t i = 0; i < ARRAY_LEN(matrix); i++)
        check_row(&matrix[i], &roots, TLS_V1_2, SIZE_MAX);
    roots_free(&roots);
}

TEST(certificate_matrix_when_bytes_arrive_one_by_one)
{
    struct rooted roots;
    roots_make(&roots);
    for (size_t i = 0; i < ARRAY_LEN(matrix); i++) check_row(&matrix[i], &roots, TLS_V1_3, 1);
    roots_free(&roots);
}

/* Every row of the matrix in which the server refused the client's certificate. */
TEST(a_server_that_accepts_any_certificate_trusts_only_valid_ones)
{
    struct rooted roots;
    size_t refused = 0;

    roots_make(&roots);
    for (size_t i = 0; i < ARRAY_LEN(matrix); i++) {
        const struct row *row = &matrix[i];
        bool good = row->want_server == ERR_OK && row->want_client == ERR_OK;
        struct party server_party = row->server;
        struct tls_context *server_context, *client_context;
        struct tls_end client, server;

        if (!good && row->want_server != ERR_UNAUTHENTICATED) continue;
        refused += !good;
        server_party.takes_any = true;
        server_context = context_of(&server_party, TLS_SERVER, true, &roots);
        client_context = context_of(&row->client, TLS_CLIENT, false, &roots);
        tls_end_open(&server, server_context, NULL);
        tls_end_open(&client, client_context, row->name ? row->name : "localhost");
        tls_context_unref(server_context);
        tls_context_unref(client_context);
        tls_converse(&client, &server, SIZE_MAX);
        CHECK_ERR(row->why, server.err, ERR_OK);
        CHECK_ERR(row->why, client.err, ERR_OK);
        CHECK(row->why, server.open && client.open);
        CHECK(row->why,
              (tls_session_identity(server.session) != NULL) == (good && !row->client.none));
        CHECK_TEXT(row->why, server.session->failure.text, "");
        tls_end_close(&client);
        tls_end_close(&server);
    }
    CHECK("there are such rows", refused > 5);
    roots_free(&roots);
}

/* -- foreign peers: OpenSSL's own client, driven step by step ------------------------------------
 * */

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
        if (!SSL_is_init_finished(raw->ssl))
            SSL_do_handshake(raw->ssl);
        else
            SSL_read(raw->ssl, bytes, sizeof bytes);
        got = BIO_read(raw->out, bytes, sizeof bytes);
        if (got > 0 && !server->err) {
            CHECK_OK("feed", tls_session_feed(server->session, str_of(bytes, (size_t)got)));
            tls_end_read(server);
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
        struct tls_context *context = context_of(&(struct party){.version_min = versions[i].lowest},
                                                 TLS_SERVER, true, &roots);
        struct tls_end server;
        struct raw raw;
        tls_end_open(&server, context, NULL);
        tls_context_unref(context);
        raw_open(&raw, versions[i].from, versions[i].to);
        raw_converse(&raw, &server);
        CHECK_ERR(versions[i].why, server.err, versions[i].want);
        if (versions[i].version)
            CHECK_TEXT(versions[i].why, SSL_get_version(server.session->ssl), versions[i].version);
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
            CHECK("but is not received",
                  SSL_num_renegotiations(raw.ssl) == 0 || !SSL_is_init_finished(raw.ssl));
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
        CHECK_HAS(no_tls[i].why, server.session->failure.text, "tls: ");
        tls_end_read(&server);
        CHECK_ERR("and stay ended", server.err, ERR_PARSE);
        tls_end_close(&server);
    }
    tls_context_unref(context);
    roots_free(&roots);
}

/* -- the byte interface --------------------------------------------------------------------------
 * */

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
    CHECK_TEXT("protocol", j.server.session->alpn, "h2");
    CHECK_TEXT("version", SSL_get_version(j.server.session->ssl), "TLSv1.3");
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
        tls_session_consume(j.client.session, tls_session_output(j.client.session).len);
    }
    for (int i = 0; i < 3; i++) {
        CHECK("input is held", j.server.session->input.len > 0);
        CHECK_OK("one record at a time",
                 tls_session_read(j.server.session, plain, sizeof plain, &got));
        CHECK_STR("in order", str_of(plain, got), STR("piece"));
    }
    CHECK("and then no more", j.server.session->input.len == 0);
    part(&j);
}

TEST(buffered_bytes_are_bounded)
{
    struct joined j;
    static char much[TLS_HELD_MAX];

    join(&j);
    CHECK_OK("as much as may be held",
             tls_session_feed(j.server.session, str_of(much, sizeof much)));
    CHECK_ERR("one more", tls_session_feed(j.server.session, STR("x")), ERR_FULL);
    part(&j);
}

TEST(ending_closes_one_direction_only)
{
    struct joined j;

    join(&j);
    CHECK_OK("the last bytes", tls_session_write(j.client.session, STR("bye")));
    CHECK_OK("end", tls_session_end(j.client.session));
    CHECK_OK("twice is once", tls_session_end(j.client.session));
    tls_carry(&j.client, &j.server, SIZE_MAX);
    CHECK_STR("the bytes arrived", buf_peek(&j.server.got), STR("bye"));
    CHECK("and the end", j.server.session->peer_ended);
    CHECK("not of the other direction", !j.client.session->peer_ended);
    CHECK_OK("which goes on", tls_session_write(j.server.session, STR("answer")));
    tls_carry(&j.server, &j.client, SIZE_MAX);
    CHECK_STR("can be read", buf_peek(&j.client.got), STR("answer"));
    CHECK_OK("until it ends too", tls_session_end(j.server.session));
    tls_carry(&j.server, &j.client, SIZE_MAX);
    CHECK("in order", j.client.session->peer_ended && !j.client.err && !j.server.err);
    CHECK_OK("bytes after the end", tls_session_feed(j.client.session, STR("rubbish")));
    tls_end_read(&j.client);
    CHECK("and is not kept", !j.client.err && j.client.session->input.len == 0);
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
    CHECK("the peer is notified", tls_session_output(j.server.session).len > 0);
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
