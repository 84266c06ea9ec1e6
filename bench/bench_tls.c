/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of our TLS beside OpenSSL's, in one run on one machine.
 *
 * Handshakes and records: our session against OpenSSL driven by hand over its own memory BIOs,
 * with the same certificates, ciphers and both sides in one thread, so that the difference is
 * ours. Then streams over loopback, TLS against plain, and the size of an idle connection in
 * memory. Best of several rounds; CPU is the thread's. */
#include "bench.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "cert/cert.h"
#include "io/real.h"
#include "io/tls.h"
#include "io/tls_session.h"

enum { ROUNDS = 5, HANDSHAKES = 200, IDLE = 500 };
static const size_t BULK = 64u << 20;

/* -- certificates ------------------------------------------------------------------------------ */

static char dir[] = "/tmp/muster-bench-tls-XXXXXX";
static char ca_file[64];
static struct buf certs[2], keys[2], ca_pem; /* by enum tls_side */
static struct tls_context *contexts[2];

static void make_material(void)
{
    static const struct cert_request requests[2] = {
        [TLS_SERVER] = {.kind = CERT_REPLICA, .id = {"1", 1}},
        [TLS_CLIENT] = {.kind = CERT_SHARD, .id = {"s-1", 3}},
    };
    struct cert_report report;
    wall_time now = clock_wall(clock_real());

    MUST(mkdtemp(dir));
    snprintf(ca_file, sizeof ca_file, "%s/ca.pem", dir);
    MUST(!cert_ca_ensure(fs_real(), &(struct cert_ca_options){.dir = dir}, now, &report, NULL));
    buf_init(&ca_pem, CERT_FILE_MAX);
    MUST(!fs_read_whole(fs_real(), ca_file, CERT_FILE_MAX, &ca_pem));
    for (int side = 0; side < 2; side++) {
        buf_init(&certs[side], CERT_FILE_MAX);
        buf_init(&keys[side], CERT_FILE_MAX);
        MUST(
            !cert_leaf_make(fs_real(), dir, &requests[side], now, &certs[side], &keys[side], NULL));
        MUST(!tls_context_open(NULL,
                               &(struct tls_options){.side = (enum tls_side)side,
                                                     .version_min = TLS_V1_3,
                                                     .cert_pem = buf_peek(&certs[side]),
                                                     .key_pem = buf_peek(&keys[side]),
                                                     .ca_pem = buf_peek(&ca_pem),
                                                     .alpn = {"h2"}},
                               &contexts[side], NULL));
    }
}

static void remove_material(void)
{
    char path[64];
    static const char *const names[] = {"ca.pem", "ca.key.pem", "LOCK"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)fs_remove(fs_real(), path);
    }
    (void)fs_remove(fs_real(), dir);
    for (int side = 0; side < 2; side++) {
        tls_context_unref(contexts[side]);
        buf_deinit(&certs[side]);
        buf_deinit(&keys[side]);
    }
    buf_deinit(&ca_pem);
}

/* -- our sessions, back to back ---------------------------------------------------------------- */

struct pair {
    struct tls_session *ends[2];
    double cpu[2]; /* CPU time of each side's calls */
};

static size_t pump(struct pair *pair, int from, int to)
{
    static char plain[TLS_RECORD_MAX];
    struct str out = tls_session_output(pair->ends[from]);
    size_t got = 0, total = 0;
    double before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    bool shaking;

    if (out.len == 0) return 0;
    MUST(!tls_session_feed(pair->ends[to], out));
    do {
        shaking = pair->ends[to]->state == TLS_SHAKING;
        MUST(!tls_session_read(pair->ends[to], plain, sizeof plain, &got));
        total += got;
        shaking = shaking && pair->ends[to]->state == TLS_OPEN;
    } while (got || shaking);
    tls_session_consume(pair->ends[from], out.len);
    pair->cpu[to] += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    return total + 1;
}

static void pair_open(struct pair *pair)
{
    static char plain[16];
    size_t got;
    double before;

    for (int side = 0; side < 2; side++) {
        before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        MUST(!tls_session_open(contexts[side], "localhost", &pair->ends[side], NULL));
        pair->cpu[side] += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    }
    before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    MUST(!tls_session_read(pair->ends[TLS_CLIENT], plain, sizeof plain, &got));
    pair->cpu[TLS_CLIENT] += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    while (pump(pair, TLS_CLIENT, TLS_SERVER) | pump(pair, TLS_SERVER, TLS_CLIENT)) continue;
    MUST(pair->ends[TLS_SERVER]->state == TLS_OPEN);
}

static void pair_close(struct pair *pair)
{
    for (int side = 0; side < 2; side++) {
        double before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        tls_session_close(pair->ends[side]);
        pair->cpu[side] += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    }
}

static double our_handshake_ns(void)
{
    double best = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        struct pair pair = {0};
        for (int i = 0; i < HANDSHAKES; i++) {
            pair_open(&pair);
            pair_close(&pair);
        }
        best = pair.cpu[TLS_SERVER] < best ? pair.cpu[TLS_SERVER] : best;
    }
    return best / HANDSHAKES;
}

static double our_bulk_ns(void)
{
    static char chunk[65536];
    struct pair pair = {0};
    double best = 1e18;

    pair_open(&pair);
    for (int round = 0; round < ROUNDS; round++) {
        double before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        size_t arrived = 0;
        for (size_t sent = 0; sent < BULK; sent += sizeof chunk) {
            MUST(!tls_session_write(pair.ends[TLS_CLIENT], str_of(chunk, sizeof chunk)));
            arrived += pump(&pair, TLS_CLIENT, TLS_SERVER) - 1;
        }
        MUST(arrived == BULK);
        best = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before < best
                   ? clock_ns(CLOCK_THREAD_CPUTIME_ID) - before
                   : best;
    }
    pair_close(&pair);
    return best;
}

/* -- OpenSSL by hand, over its own memory BIOs ------------------------------------------------- */

static SSL_CTX *raw_contexts[2];

static void raw_context(int side)
{
    SSL_CTX *made = SSL_CTX_new(side == TLS_SERVER ? TLS_server_method() : TLS_client_method());
    BIO *cert = BIO_new_mem_buf(certs[side].data, (int)certs[side].len);
    BIO *key = BIO_new_mem_buf(keys[side].data, (int)keys[side].len);
    BIO *ca = BIO_new_mem_buf(ca_pem.data, (int)ca_pem.len);
    X509 *leaf = PEM_read_bio_X509(cert, NULL, NULL, NULL);
    X509 *root = PEM_read_bio_X509(ca, NULL, NULL, NULL);
    EVP_PKEY *pkey = PEM_read_bio_PrivateKey(key, NULL, NULL, NULL);

    MUST(SSL_CTX_use_certificate(made, leaf) == 1 && SSL_CTX_use_PrivateKey(made, pkey) == 1);
    MUST(X509_STORE_add_cert(SSL_CTX_get_cert_store(made), root) == 1);
    SSL_CTX_set_verify(made, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(made, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_num_tickets(made, 0);
    SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    X509_free(leaf);
    X509_free(root);
    EVP_PKEY_free(pkey);
    BIO_free(cert);
    BIO_free(key);
    BIO_free(ca);
    raw_contexts[side] = made;
}

struct raw {
    SSL *ssl[2];
    double cpu[2];
};

static void raw_carry(struct raw *raw, int from, int to)
{
    char *bytes;
    long len = BIO_get_mem_data(SSL_get_wbio(raw->ssl[from]), &bytes);

    if (len > 0) BIO_write(SSL_get_rbio(raw->ssl[to]), bytes, (int)len);
    (void)BIO_reset(SSL_get_wbio(raw->ssl[from]));
}

static void raw_step(struct raw *raw, int side)
{
    double before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (!SSL_is_init_finished(raw->ssl[side])) SSL_do_handshake(raw->ssl[side]);
    raw->cpu[side] += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    raw_carry(raw, side, !side);
}

static void raw_open(struct raw *raw)
{
    for (int side = 0; side < 2; side++) {
        double before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        raw->ssl[side] = SSL_new(raw_contexts[side]);
        SSL_set_bio(raw->ssl[side], BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        if (side == TLS_SERVER)
            SSL_set_accept_state(raw->ssl[side]);
        else
            SSL_set_connect_state(raw->ssl[side]);
        raw->cpu[side] += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    }
    for (int i = 0; i < 4; i++) raw_step(raw, i % 2 ? TLS_SERVER : TLS_CLIENT);
    MUST(SSL_is_init_finished(raw->ssl[TLS_SERVER]) && SSL_is_init_finished(raw->ssl[TLS_CLIENT]));
}

static void raw_close(struct raw *raw)
{
    for (int side = 0; side < 2; side++) {
        double before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        SSL_free(raw->ssl[side]);
        raw->cpu[side] += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    }
}

static double raw_handshake_ns(void)
{
    double best = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        struct raw raw = {0};
        for (int i = 0; i < HANDSHAKES; i++) {
            raw_open(&raw);
            raw_close(&raw);
        }
        best = raw.cpu[TLS_SERVER] < best ? raw.cpu[TLS_SERVER] : best;
    }
    return best / HANDSHAKES;
}

static double raw_bulk_ns(void)
{
    static char chunk[65536], plain[65536];
    struct raw raw = {0};
    double best = 1e18;

    raw_open(&raw);
    for (int round = 0; round < ROUNDS; round++) {
        double before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        size_t arrived = 0;
        for (size_t sent = 0; sent < BULK; sent += sizeof chunk) {
            int got;
            MUST(SSL_write(raw.ssl[TLS_CLIENT], chunk, sizeof chunk) == sizeof chunk);
            raw_carry(&raw, TLS_CLIENT, TLS_SERVER);
            while ((got = SSL_read(raw.ssl[TLS_SERVER], plain, sizeof plain)) > 0)
                arrived += (size_t)got;
        }
        MUST(arrived == BULK);
        best = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before < best
                   ? clock_ns(CLOCK_THREAD_CPUTIME_ID) - before
                   : best;
    }
    raw_close(&raw);
    return best;
}

/* -- streams over loopback --------------------------------------------------------------------- */

struct bulk {
    struct real_io *real;
    struct stream *client, *served;
    size_t sent, got;
    bool open, stop;
    unsigned closed;
};

static void bulk_send(void *owner)
{
    static char chunk[65536];
    struct bulk *b = owner;
    struct str part = {chunk, sizeof chunk};

    b->open = true;
    while (b->sent < BULK && stream_write(b->client, &part, 1) == ERR_OK) b->sent += part.len;
}
static void bulk_got(void *owner, struct str bytes)
{
    ((struct bulk *)owner)->got += bytes.len;
}
static void bulk_closed(void *owner, enum err why, const struct note *note)
{
    (void)why, (void)note;
    ((struct bulk *)owner)->closed++;
}
static const struct stream_events bulk_events = {
    .on_open = bulk_send, .on_bytes = bulk_got, .on_drained = bulk_send, .on_closed = bulk_closed};
static void bulk_accept(void *owner, struct stream *own_stream)
{
    struct bulk *b = owner;
    b->served = own_stream;
    stream_start(own_stream, &bulk_events, b);
}

/* Both ends on one loop: the CPU of sending and receiving together, per byte. */
static double stream_bulk_ns(bool tls)
{
    double best = 1e18;

    for (int round = 0; round < ROUNDS; round++) {
        struct bulk b = {0};
        struct listener *listener;
        double before;
        MUST(!real_io_open(&b.real));
        MUST(!net_listen(real_io_io(b.real)->net,
                         &(struct listen_options){.address = "127.0.0.1:0",
                                                  .tls = tls ? contexts[TLS_SERVER] : NULL,
                                                  .on_accept = bulk_accept,
                                                  .owner = &b},
                         &listener, NULL));
        MUST(!net_dial(real_io_io(b.real)->net,
                       &(struct dial_options){.address = listener_address(listener),
                                              .tls = tls ? contexts[TLS_CLIENT] : NULL},
                       &bulk_events, &b, &b.client, NULL));
        while (!b.open || !b.served) real_io_turn(b.real, true);
        before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        while (b.got < BULK) real_io_turn(b.real, true);
        best = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before < best
                   ? clock_ns(CLOCK_THREAD_CPUTIME_ID) - before
                   : best;
        stream_close(b.client);
        stream_close(b.served);
        listener_close(listener);
        while (b.closed < 2) real_io_turn(b.real, true);
        real_io_close(b.real);
    }
    return best;
}

/* -- idle connections -------------------------------------------------------------------------- */

static double idle_bytes(void)
{
    static struct pair pairs[IDLE];
    struct mallinfo2 before = mallinfo2(), after;

    for (int i = 0; i < IDLE; i++) pair_open(&pairs[i]);
    after = mallinfo2();
    for (int i = 0; i < IDLE; i++) pair_close(&pairs[i]);
    return (double)(after.uordblks - before.uordblks) / IDLE / 2;
}

int main(void)
{
    double ours, raw, plain;

    make_material();
    raw_context(TLS_SERVER);
    raw_context(TLS_CLIENT);
    printf("# %s, EC P-256, TLS 1.3, both sides verified\n", tls_engine_version());
    raw = raw_handshake_ns();
    ours = our_handshake_ns();
    printf("handshake, server CPU        %8.1f us   OpenSSL by hand %8.1f us   ratio %.2f   %.0f/s "
           "a core\n",
           ours / 1e3, raw / 1e3, ours / raw, 1e9 / ours);
    raw = raw_bulk_ns();
    ours = our_bulk_ns();
    printf("records, both sides' CPU     %8.0f MB/s OpenSSL by hand %8.0f MB/s ratio %.2f\n",
           (double)BULK * 1e3 / ours, (double)BULK * 1e3 / raw, raw / ours);
    plain = stream_bulk_ns(false);
    ours = stream_bulk_ns(true);
    printf("streams, both ends' CPU      %8.0f MB/s without TLS     %8.0f MB/s ratio %.2f\n",
           (double)BULK * 1e3 / ours, (double)BULK * 1e3 / plain, plain / ours);
    printf("idle session, one side       %8.1f KB\n", idle_bytes() / 1e3);
    SSL_CTX_free(raw_contexts[TLS_SERVER]);
    SSL_CTX_free(raw_contexts[TLS_CLIENT]);
    remove_material();
    return 0;
}
