/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate matrix over loopback sockets and files, foreign peers (openssl s_client,
 * s_server), and certificates that change while connections are made all the time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cert/cert.h"
#include "lib/proc.h"
#include "unit/io/ends.h"
#include "unit/io/tls_matrix.h"

static struct rig rig;
static struct end client, served;
static struct server server;

static void close_all(void)
{
    if (client.stream) stream_close(client.stream);
    if (served.stream) stream_close(served.stream);
    if (server.listener) listener_close(server.listener);
    RIG_UNTIL("all have ended", &rig, !client.stream && !served.stream);
    rig_close(&rig);
}

static struct {
    unsigned count;
    enum err why;
    char peer[80];
    struct note note;
} refused;

static void on_refused(void *owner, const char *peer_address, enum err why, const struct note *note)
{
    CHECK("the listener's owner", owner == &server);
    refused.count++;
    refused.why = why;
    refused.note = *note;
    snprintf(refused.peer, sizeof refused.peer, "%s", peer_address);
}

static void open_server(struct tls_context *context)
{
    rig_open(&rig);
    client = served = (struct end){0};
    memset(&refused, 0, sizeof refused);
    server = (struct server){.ends = &served, .count = 1};
    server_open(&rig, &server,
                (struct listen_options){
                    .address = "127.0.0.1:0", .tls = context, .on_refused = on_refused});
}

/* -- our client against our server ------------------------------------------------------------- */

static void check_good(const struct row *row)
{
    struct str uri = STR_EMPTY;
    enum err err;

    RIG_UNTIL(row->why, &rig, (client.opened && served.opened) || client.closed);
    CHECK_ERR(row->why, client.why, ERR_OK);
    CHECK_U64("nobody is refused", refused.count, 0);
    CHECK_OK("words", end_write(&client, "words"));
    RIG_UNTIL(row->why, &rig, served.got == 5);
    CHECK(row->why, !stream_peer_identity(served.stream) == row->client.none);
    err = tls_identity_uri(stream_peer_identity(served.stream), STR("bigfleet"), &uri);
    if (row->client.spec.names[1].kind == FORGE_URI)
        CHECK_ERR(row->why, err, ERR_CONFLICT);
    else if (row->client.none || row->client.spec.common_names[0].len)
        CHECK_ERR(row->why, err, ERR_NOT_FOUND);
    else
        CHECK_STR(row->why, uri, STR("bigfleet://admin"));
}

static void check_refused(const struct row *row)
{
    RIG_UNTIL(row->why, &rig, client.closed);
    CHECK_ERR(row->why, client.why, row->want_client);
    if (row->want_client == ERR_UNAUTHENTICATED) {
        CHECK_HAS(row->why, client.note.text, row->says);
        CHECK_U64("never open", client.opened, 0);
    }
    if (!row->want_server) return;
    RIG_UNTIL("the listener counts it", &rig,
              listener_stats(server.listener).failed_handshake == 1);
    CHECK_SIZE("no handler is reached", server.accepted, 0);
    CHECK_U64("and its owner receives the refusal", refused.count, 1);
    CHECK_ERR(row->why, refused.why, row->want_server);
    CHECK_HAS("the peer's address", refused.peer, "127.0.0.1:");
    CHECK("with words", refused.note.text[0] != '\0');
    if (row->want_server != ERR_DENIED) CHECK_HAS(row->why, refused.note.text, row->says);
}

TEST(certificate_matrix_over_sockets_and_files)
{
    struct rooted roots;

    roots_make(&roots);
    for (size_t i = 0; i < ARRAY_LEN(matrix); i++) {
        const struct row *row = &matrix[i];
        struct tls_context *for_server =
            context_in(test_dir(), &row->server, TLS_SERVER, row->optional, &roots);
        struct tls_context *for_client =
            context_in(test_dir(), &row->client, TLS_CLIENT, false, &roots);
        open_server(for_server);
        end_dial(&rig, &client,
                 (struct dial_options){.address = listener_address(server.listener),
                                       .tls = for_client,
                                       .tls_name = row->name ? row->name : "localhost"});
        tls_context_unref(for_client); /* the stream has its own reference */
        if (row->want_client)
            check_refused(row);
        else
            check_good(row);
        close_all();
        tls_context_unref(for_server);
    }
    roots_free(&roots);
}

/* -- foreign clients: openssl s_client --------------------------------------------------------- */

struct site {
    char dir[300], ca[400], cert[400], key[400], client_cert[400], client_key[400];
    struct cert_ca_options ca_options;
    struct cert_leaf_options for_server, for_client;
};

static wall_time now(void)
{
    return (wall_time){(uint64_t)time(NULL) * MS_PER_SECOND};
}

static void site_leaf(const struct cert_leaf_options *options, enum cert_kind kind, const char *id)
{
    struct cert_request request = {.kind = kind, .id = str_from(id)};
    struct cert_report report;
    struct note note = {0};
    enum err err = cert_leaf_ensure(fs_real(), options, &request, now(), &report, &note);
    CHECK_ERR(note.text, err, ERR_OK);
}

static void site_make(struct site *site)
{
    static int count;
    struct cert_report report;

    snprintf(site->dir, sizeof site->dir, "%s/site-%d", test_dir(), count++);
    snprintf(site->ca, sizeof site->ca, "%s/ca.pem", site->dir);
    snprintf(site->cert, sizeof site->cert, "%s/server.pem", site->dir);
    snprintf(site->key, sizeof site->key, "%s/server.key.pem", site->dir);
    snprintf(site->client_cert, sizeof site->client_cert, "%s/client.pem", site->dir);
    snprintf(site->client_key, sizeof site->client_key, "%s/client.key.pem", site->dir);
    site->ca_options = (struct cert_ca_options){.dir = site->dir};
    site->for_server = (struct cert_leaf_options){site->dir, site->cert, site->key, false, false};
    site->for_client =
        (struct cert_leaf_options){site->dir, site->client_cert, site->client_key, false, false};
    CHECK_OK("ca", cert_ca_ensure(fs_real(), &site->ca_options, now(), &report, NULL));
    site_leaf(&site->for_server, CERT_REPLICA, "1");
    site_leaf(&site->for_client, CERT_SHARD, "s-1");
}

static struct tls_context *site_context(const struct site *site, enum tls_side side,
                                        enum tls_version lowest, const char *alpn)
{
    struct tls_options options = {
        .side = side,
        .version_min = lowest,
        .cert_file = side == TLS_SERVER ? site->cert : site->client_cert,
        .key_file = side == TLS_SERVER ? site->key : site->client_key,
        .ca_files = {site->ca},
        .alpn = {alpn},
    };
    struct tls_context *context = NULL;
    struct note note = {0};
    enum err err = tls_context_open(fs_real(), &options, &context, &note);

    CHECK_ERR(note.text, err, ERR_OK);
    return context;
}

static bool has_openssl(void)
{
    static struct proc proc;
    return proc_run(&proc, (const char *[]){"openssl", "version", NULL}) == 0;
}

/* Runs turns while the process runs; its output is read to the end. */
static void run_with(struct proc *proc, int deadline_ms)
{
    bool ended = false;

    for (int waited = 0; !ended && waited < deadline_ms; waited += 5) {
        real_io_turn(rig.real, false);
        ended = proc_wait_end(proc, 5);
    }
    CHECK("the foreign program ends", ended);
}

static const struct {
    const char *why;
    enum tls_version lowest;
    const char *options; /* of s_client; CERT, OTHER and CA are replaced by file names */
    bool good;
    const char *says; /* in its output */
} s_clients[] = {
    {"an honest client", TLS_V1_3, "CERT -alpn h2", true, "world"},
    {"a 1.2 client where 1.2 is allowed", TLS_V1_2, "CERT -alpn h2 -tls1_2", true, "world"},
    {"a 1.2 client where it is not", TLS_V1_3, "CERT -alpn h2 -tls1_2", false, "protocol version"},
    {"a 1.1 client", TLS_V1_2, "CERT -alpn h2 -tls1_1 -cipher DEFAULT@SECLEVEL=0", false,
     "protocol version"},
    {"no certificate", TLS_V1_3, "-alpn h2", false, "certificate required"},
    {"no certificate, 1.2", TLS_V1_2, "-alpn h2 -tls1_2", false, "handshake failure"},
    {"a certificate from another CA", TLS_V1_3, "OTHER -alpn h2", false, "unknown ca"},
    {"no protocol offered", TLS_V1_3, "CERT", false, "no application protocol"},
    {"another protocol offered", TLS_V1_3, "CERT -alpn http/1.1", false, "no application protocol"},
    {"a client that checks our name", TLS_V1_3, "CERT -alpn h2 -verify_hostname localhost", true,
     "world"},
    {"a client that expected somebody else", TLS_V1_3, "CERT -alpn h2 -verify_hostname x.example",
     false, "ostname mismatch"},
};

static void answer_world(struct end *end, struct str bytes)
{
    (void)bytes;
    CHECK_OK("answer", end_write(end, "world\n"));
    stream_end(end->stream);
}

static void expand(char *command, size_t size, const char *options, const struct site *site,
                   const struct site *other)
{
    const char *rest = strchr(options, ' ');
    const struct site *from = strncmp(options, "OTHER", 5) == 0  ? other
                              : strncmp(options, "CERT", 4) == 0 ? site
                                                                 : NULL;
    size_t len;

    len =
        (size_t)snprintf(command, size,
                         "echo hello | openssl s_client -connect %s -servername localhost -CAfile "
                         "%s -verify_return_error -quiet -ign_eof ",
                         listener_address(server.listener), site->ca);
    if (from)
        snprintf(command + len, size - len, "-cert %s -key %s %s", from->client_cert,
                 from->client_key, rest ? rest : "");
    else
        snprintf(command + len, size - len, "%s", options);
}

TEST(openssl_as_a_foreign_client)
{
    struct site site, other;
    static struct proc proc;

    if (!has_openssl()) SKIP("no openssl command to talk to");
    site_make(&site);
    site_make(&other);
    for (size_t i = 0; i < ARRAY_LEN(s_clients); i++) {
        struct tls_context *context = site_context(&site, TLS_SERVER, s_clients[i].lowest, "h2");
        char command[3000];
        open_server(context);
        served.on_bytes = answer_world;
        expand(command, sizeof command, s_clients[i].options, &site, &other);
        CHECK("starts", proc_start(&proc, (const char *[]){"sh", "-c", command, NULL}, NULL));
        run_with(&proc, PROC_DEADLINE_MS);
        CHECK_HAS(s_clients[i].why, proc.output, s_clients[i].says);
        CHECK(s_clients[i].why, (served.got > 0) == s_clients[i].good);
        if (s_clients[i].good)
            RIG_UNTIL(s_clients[i].why, &rig, served.closed);
        else
            RIG_UNTIL(s_clients[i].why, &rig,
                      listener_stats(server.listener).failed_handshake == 1);
        proc_end(&proc);
        close_all();
        tls_context_unref(context);
    }
}

/* -- a foreign server: openssl s_server -------------------------------------------------------- */

TEST(openssl_as_a_foreign_server)
{
    struct site site, other;
    struct tls_context *good, *stranger;
    static struct proc proc;
    char address[64], *accept;
    struct str uri;

    if (!has_openssl()) SKIP("no openssl command to talk to");
    site_make(&site);
    site_make(&other);
    snprintf(other.ca, sizeof other.ca, "%s",
             site.ca); /* trusts the server, is not trusted by it */
    good = site_context(&site, TLS_CLIENT, TLS_V1_3, "h2");
    stranger = site_context(&other, TLS_CLIENT, TLS_V1_3, "h2");
    rig_open(&rig);
    server = (struct server){0};
    served = (struct end){0};
    CHECK("starts",
          proc_start(&proc,
                     (const char *[]){"openssl", "s_server", "-accept", "127.0.0.1:0", "-cert",
                                      site.cert, "-key", site.key, "-CAfile", site.ca, "-Verify",
                                      "1", "-verify_return_error", "-alpn", "h2", "-rev", NULL},
                     NULL));
    CHECK("listens", proc_wait_output(&proc, "ACCEPT ", PROC_DEADLINE_MS));
    CHECK("says where", proc_wait_output(&proc, "\n", PROC_DEADLINE_MS));
    accept = strstr(proc.output, "ACCEPT ");
    snprintf(address, sizeof address, "%s", accept + strlen("ACCEPT "));
    address[strcspn(address, " \r\n")] = '\0';

    client = (struct end){0};
    end_dial(&rig, &client, (struct dial_options){.address = address, .tls = good});
    RIG_UNTIL("opens", &rig, client.opened || client.closed);
    CHECK_TEXT("no failure", client.note.text, "");
    CHECK_OK("knows it",
             tls_identity_uri(stream_peer_identity(client.stream), STR("muster"), &uri));
    CHECK_STR("as the replica", uri, STR("muster://replica/1"));
    CHECK_OK("words", end_write(&client, "amen\n"));
    RIG_UNTIL("turned round", &rig, client.got >= 5 || client.closed);
    CHECK_TEXT("by a foreign hand", client.last, "nema\n");
    stream_close(client.stream);
    RIG_UNTIL("closed", &rig, client.closed);

    client = (struct end){0};
    end_dial(&rig, &client, (struct dial_options){.address = address, .tls = stranger});
    RIG_UNTIL("refused", &rig, client.closed);
    CHECK_ERR("by the foreign server", client.why, ERR_DENIED);

    client = (struct end){0};
    end_dial(&rig, &client,
             (struct dial_options){.address = address, .tls = good, .tls_name = "x.example"});
    RIG_UNTIL("refused", &rig, client.closed);
    CHECK_ERR("by us", client.why, ERR_UNAUTHENTICATED);
    proc_end(&proc);
    rig_close(&rig);
    tls_context_unref(good);
    tls_context_unref(stranger);
}

/* -- certificates that change under load ------------------------------------------------------- */

enum { CALLERS = 4 };
struct caller {
    struct stream *stream;
    struct task again;
    char serial[80]; /* of the server, as last seen */
    uint64_t calls, failed;
    bool open;
};
struct callee {
    struct stream *stream;
};
static struct caller callers[CALLERS];
static struct tls_context *caller_context;
static struct listener *called;
static bool calling;
static enum err last_failure;
static struct note last_failure_note;
static size_t callees;

static void caller_dial(struct caller *caller);

static void caller_open(void *owner)
{
    struct caller *caller = owner;
    snprintf(caller->serial, sizeof caller->serial, "%.*s",
             STR_ARG(stream_peer_identity(caller->stream)->serial_hex));
    caller->open = true;
    CHECK_OK("ping", stream_write(caller->stream, &STR("ping"), 1));
}
static void caller_bytes(void *owner, struct str bytes)
{
    struct caller *caller = owner;
    CHECK_STR("echo", bytes, STR("ping"));
    caller->calls++;
    stream_end(caller->stream);
}
static void caller_closed(void *owner, enum err why, const struct note *note)
{
    struct caller *caller = owner;
    caller->stream = NULL;
    if (why != ERR_CLOSED) {
        caller->failed++;
        last_failure = why;
        last_failure_note = *note;
    }
    if (calling) loop_defer(rig.loop, &caller->again);
}
static const struct stream_events caller_events = {
    .on_open = caller_open, .on_bytes = caller_bytes, .on_closed = caller_closed};
static void caller_dial(struct caller *caller)
{
    CHECK_OK("dial", net_dial(rig.net,
                              &(struct dial_options){.address = listener_address(called),
                                                     .tls = caller_context,
                                                     .tls_name = "localhost"},
                              &caller_events, caller, &caller->stream, NULL));
}
static void caller_again(struct task *task)
{
    caller_dial(CONTAINER_OF(task, struct caller, again));
}

static void callee_bytes(void *owner, struct str bytes)
{
    struct callee *callee = owner;
    CHECK_OK("echo", stream_write(callee->stream, &bytes, 1));
}
static void callee_closed(void *owner, enum err why, const struct note *note)
{
    (void)why, (void)note;
    callees--;
    free(owner);
}
static void callee_accept(void *owner, struct stream *own_stream)
{
    static const struct stream_events events = {.on_bytes = callee_bytes,
                                                .on_closed = callee_closed};
    struct callee *callee = calloc(1, sizeof *callee);
    (void)owner;
    callee->stream = own_stream;
    callees++;
    stream_start(own_stream, &events, callee);
}

static uint64_t calls_failed(void)
{
    uint64_t failed = 0;
    for (int i = 0; i < CALLERS; i++) failed += callers[i].failed;
    return failed;
}
static uint64_t calls_made(void)
{
    uint64_t made = 0;
    for (int i = 0; i < CALLERS; i++) made += callers[i].calls;
    return made;
}
static void call_more(const char *why, uint64_t more)
{
    uint64_t goal = calls_made() + more;
    RIG_UNTIL(why, &rig, calls_made() >= goal || calls_failed() > 0);
    if (calls_failed()) fprintf(stderr, "%s: %s\n", err_name(last_failure), last_failure_note.text);
    CHECK_U64("no call fails", calls_failed(), 0);
}
static bool all_see(const char *serial)
{
    for (int i = 0; i < CALLERS; i++)
        if (strcmp(callers[i].serial, serial) != 0) return false;
    return true;
}

static void load_begin(struct tls_context *for_server, struct tls_context *for_client)
{
    struct listen_options options = {
        .address = "127.0.0.1:0", .tls = for_server, .on_accept = callee_accept};

    rig_open(&rig);
    CHECK_OK("listen", net_listen(rig.net, &options, &called, NULL));
    caller_context = for_client;
    calling = true;
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){0};
        task_init(&callers[i].again, caller_again);
        caller_dial(&callers[i]);
    }
}
static void load_end(void)
{
    calling = false;
    listener_close(called);
    for (int i = 0; i < CALLERS; i++)
        if (callers[i].stream) stream_close(callers[i].stream);
    RIG_UNTIL("all are gone", &rig,
              !callers[0].stream && !callers[1].stream && !callers[2].stream &&
                  !callers[3].stream && callees == 0);
    rig_close(&rig);
}

static char *content(const char *path)
{
    struct buf bytes;
    char *text;
    buf_init(&bytes, CERT_FILE_MAX);
    CHECK_OK(path, fs_read_whole(fs_real(), path, CERT_FILE_MAX, &bytes));
    CHECK_OK(path, buf_detach(&bytes, &text));
    return text;
}
static void put(const char *path, const char *text)
{
    static uint64_t unique;
    CHECK_OK(path, fs_publish(fs_real(), path, str_from(text), 0600, ++unique));
}

TEST(certificates_are_replaced_under_load_and_no_call_fails)
{
    struct site site;
    struct tls_context *for_server, *for_client;
    struct cert_report report;
    char first[80], second[80], third[80];
    char *good_key, *other_key;
    bool changed;

    site_make(&site);
    for_server = site_context(&site, TLS_SERVER, TLS_V1_3, "h2");
    for_client = site_context(&site, TLS_CLIENT, TLS_V1_3, "h2");
    load_begin(for_server, for_client);
    call_more("the first pair serves", 40);
    snprintf(first, sizeof first, "%s", callers[0].serial);

    site.for_server.force = site.for_server.new_key = true;
    CHECK_OK("a new pair",
             cert_leaf_ensure(fs_real(), &site.for_server, NULL, now(), &report, NULL));
    CHECK_OK("as on SIGHUP", tls_context_reload(for_server, &changed, NULL));
    CHECK("taken", changed);
    call_more("the second pair serves", 40);
    CHECK("and is seen", strcmp(callers[0].serial, first) != 0 && all_see(callers[0].serial));
    snprintf(second, sizeof second, "%s", callers[0].serial);

    good_key = content(site.key);
    put(site.key, "-----BEGIN PRIVATE KEY-----\nhalf a f");
    CHECK("a broken key is refused", tls_context_reload(for_server, &changed, NULL) != ERR_OK);
    call_more("the old pair stays", 40);
    CHECK("the second", all_see(second));
    CHECK_U64("counted", tls_context_info(for_server).failed_loads, 1);

    other_key = content(site.client_key);
    put(site.key, other_key);
    CHECK_ERR("another's key is refused", tls_context_reload(for_server, &changed, NULL),
              ERR_CONFLICT);
    call_more("the old pair stays", 40);
    CHECK("the second", all_see(second));
    CHECK_U64("counted", tls_context_info(for_server).failed_loads, 2);
    put(site.key, good_key);

    /* Without a call of reload, handshakes check the files, at most once a second. */
    CHECK_OK("a third pair",
             cert_leaf_ensure(fs_real(), &site.for_server, NULL, now(), &report, NULL));
    RIG_UNTIL("it is found without a reload", &rig,
              calls_failed() > 0 ||
                  (strcmp(callers[0].serial, second) != 0 && all_see(callers[0].serial)));
    snprintf(third, sizeof third, "%s", callers[0].serial);
    call_more("the third pair serves", 40);
    CHECK("and stays", all_see(third));
    load_end();
    free(good_key);
    free(other_key);
    tls_context_unref(for_server);
    tls_context_unref(for_client);
}

TEST(a_root_is_rotated_under_load_and_then_old_clients_are_refused)
{
    struct site site;
    struct tls_context *for_server, *for_client, *left_behind;
    struct cert_report ca_report;
    struct cert_report report;
    char *old_cert, *old_key, *old_ca;
    bool changed;

    site_make(&site);
    for_server = site_context(&site, TLS_SERVER, TLS_V1_3, "h2");
    for_client = site_context(&site, TLS_CLIENT, TLS_V1_3, "h2");
    load_begin(for_server, for_client);
    call_more("one root", 20);

    CHECK_OK("rotate", cert_ca_rotate(fs_real(), &site.ca_options, now(), &ca_report, NULL));
    CHECK_SIZE("both roots", ca_report.roots, 2);
    CHECK_OK("server learns", tls_context_reload(for_server, &changed, NULL));
    call_more("old leaves, both roots at the server only", 20);
    CHECK_OK("client learns", tls_context_reload(for_client, &changed, NULL));
    call_more("old leaves, both roots", 20);
    CHECK_OK("server renews",
             cert_leaf_ensure(fs_real(), &site.for_server, NULL, now(), &report, NULL));
    CHECK_TEXT("because", report.why, "signed by an older root");
    CHECK_OK("and serves it", tls_context_reload(for_server, &changed, NULL));
    call_more("new server, old client", 20);
    old_cert = content(site.client_cert);
    old_key = content(site.client_key);
    old_ca = content(site.ca);
    CHECK_OK("client renews",
             cert_leaf_ensure(fs_real(), &site.for_client, NULL, now(), &report, NULL));
    CHECK_OK("and shows it", tls_context_reload(for_client, &changed, NULL));
    call_more("both new", 20);
    CHECK_OK("the old root goes",
             cert_ca_retire(fs_real(), &site.ca_options, false, now(), &ca_report, NULL));
    CHECK_OK("server forgets it", tls_context_reload(for_server, &changed, NULL));
    call_more("both new, one root", 20);
    load_end();

    /* A client without files, which missed the change of certificates. */
    CHECK_OK("left behind", tls_context_open(NULL,
                                             &(struct tls_options){.side = TLS_CLIENT,
                                                                   .cert_pem = str_from(old_cert),
                                                                   .key_pem = str_from(old_key),
                                                                   .ca_pem = str_from(old_ca),
                                                                   .alpn = {"h2"}},
                                             &left_behind, NULL));
    open_server(for_server);
    end_dial(&rig, &client,
             (struct dial_options){.address = listener_address(server.listener),
                                   .tls = left_behind,
                                   .tls_name = "localhost"});
    RIG_UNTIL("refused", &rig, client.closed);
    CHECK_ERR("by the server", client.why, ERR_DENIED);
    CHECK_SIZE("no handler is reached", server.accepted, 0);
    close_all();
    free(old_cert);
    free(old_key);
    free(old_ca);
    tls_context_unref(left_behind);
    tls_context_unref(for_server);
    tls_context_unref(for_client);
}
