/* SPDX-License-Identifier: Apache-2.0 */
/* TLS streams over real sockets, only what differs from plain streams: refusals, cuts, silence,
 * garbage. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ends.h"
#include "io/tls_session.h"
#include "unit/io/tls_forge.h"

#define NAME FORGE_NAME

static struct rig rig;
static struct end client, served;
static struct server server;
static struct forge_pair root, other_root;
static struct tls_context *for_server, *for_client, *for_stranger;

static struct tls_context *context_of(enum tls_side side, const struct forge_pair *issuer)
{
    static const struct forge_spec spec = {.names = {NAME(URI, "bigfleet://shard/s-1"),
                                                     NAME(DNS, "localhost"),
                                                     NAME(IP, "\x7f\x00\x00\x01")}};
    struct forge_pair leaf;
    struct tls_context *context;

    forge(&leaf, issuer, &spec);
    CHECK_OK("context", tls_context_open(NULL,
                                         &(struct tls_options){.side = side,
                                                               .version_min = TLS_V1_3,
                                                               .cert_pem = forge_cert(&leaf),
                                                               .key_pem = forge_key(&leaf),
                                                               .ca_pem = forge_cert(&root),
                                                               .alpn = {"h2"}},
                                         &context, NULL));
    forge_free(&leaf);
    return context;
}

static void begin(struct listen_options options)
{
    rig_open(&rig);
    client = served = (struct end){0};
    server = (struct server){.ends = &served, .count = 1};
    forge_root(&root, "root");
    forge_root(&other_root, "other root");
    for_server = context_of(TLS_SERVER, &root);
    for_client = context_of(TLS_CLIENT, &root);
    for_stranger = context_of(TLS_CLIENT, &other_root);
    if (!options.address) options.address = "127.0.0.1:0";
    options.tls = for_server;
    server_open(&rig, &server, options);
}

static void finish(void)
{
    if (client.stream) stream_close(client.stream);
    if (served.stream) stream_close(served.stream);
    if (server.listener) listener_close(server.listener);
    RIG_UNTIL("both are notified", &rig, !client.stream && !served.stream);
    rig_close(&rig);
    tls_context_unref(for_server);
    tls_context_unref(for_client);
    tls_context_unref(for_stranger);
    forge_free(&root);
    forge_free(&other_root);
}

static void dial(struct tls_context *context)
{
    end_dial(&rig, &client,
             (struct dial_options){.address = listener_address(server.listener), .tls = context});
}

static void meet(void)
{
    dial(for_client);
    RIG_UNTIL("they meet", &rig, client.opened && served.opened);
}

/* -- a raw peer: a session without a stream of its own, over a plain stream ----------------------
 * */

static struct tls_session *hand;
static char hand_plain[TLS_RECORD_MAX];

static void hand_flush(void)
{
    struct str out = tls_session_output(hand);
    if (out.len == 0) return;
    CHECK_OK("by hand", stream_write(client.stream, &out, 1));
    tls_session_consume(hand, out.len);
}

static void hand_bytes(struct end *end, struct str bytes)
{
    size_t got = 0;

    (void)end;
    CHECK_OK("feed", tls_session_feed(hand, bytes));
    while (!tls_session_read(hand, hand_plain, sizeof hand_plain, &got) && got) continue;
    hand_flush();
}

static void meet_by_hand(void)
{
    size_t got;

    CHECK_OK("session", tls_session_open(for_client, "localhost", &hand, NULL));
    client.on_bytes = hand_bytes;
    end_dial(&rig, &client, (struct dial_options){.address = listener_address(server.listener)});
    CHECK_OK("hello", tls_session_read(hand, hand_plain, sizeof hand_plain, &got));
    hand_flush();
    RIG_UNTIL("they meet", &rig, served.opened && hand->state == TLS_OPEN);
}

TEST(a_connection_cut_without_close_notify_is_an_error_and_no_end)
{
    begin((struct listen_options){0});
    meet_by_hand();
    CHECK_OK("half a story", tls_session_write(hand, STR("pay 100")));
    hand_flush();
    stream_end(client.stream); /* a TCP end, which anybody on the path can forge */
    RIG_UNTIL("noticed", &rig, served.closed);
    CHECK_TEXT("the received bytes are delivered", served.last, "pay 100");
    CHECK_U64("but no end", served.ended, 0);
    CHECK_ERR("an error", served.why, ERR_IO);
    CHECK_HAS("that says so", served.note.text, "without close_notify");
    tls_session_close(hand);
    finish();
}

TEST(a_connection_that_ends_with_close_notify_is_orderly)
{
    begin((struct listen_options){0});
    meet_by_hand();
    CHECK_OK("the whole story", tls_session_write(hand, STR("pay 100")));
    CHECK_OK("its end", tls_session_end(hand));
    hand_flush();
    RIG_UNTIL("reported", &rig, served.ended);
    CHECK_U64("and still open for our answer", served.closed, 0);
    CHECK_OK("answer", end_write(&served, "paid"));
    stream_end(served.stream);
    RIG_UNTIL("answered, though the peer keeps its socket open", &rig,
              hand->peer_ended && served.closed);
    CHECK_ERR("orderly", served.why, ERR_CLOSED);
    tls_session_close(hand);
    finish();
}

static struct timer pause_timer;
static bool pause_over;

static void on_pause_over(struct timer *timer)
{
    (void)timer;
    pause_over = true;
}

/* The answer is larger than the kernel's buffers but small enough to be encrypted at once: the rest
 * waits below TLS, and the end of the stream must wait for it. */
TEST(a_peer_that_asked_ended_and_reads_late_gets_the_whole_answer)
{
    static char answer[384 * 1024];
    struct str part = {answer, sizeof answer};
    char address[128];

    snprintf(address, sizeof address, "unix:%s/late.sock", test_dir());
    begin((struct listen_options){.address = address});
    CHECK_OK("timer", timer_init(&pause_timer, rig.loop, on_pause_over));
    end_dial(&rig, &client,
             (struct dial_options){.address = address, .tls = for_client, .tls_name = "localhost"});
    RIG_UNTIL("they meet", &rig, client.opened && served.opened);
    stream_pause(client.stream);
    CHECK_OK("ask", end_write(&client, "everything, please"));
    stream_end(client.stream);
    RIG_UNTIL("asked", &rig, served.ended);
    CHECK_OK("answer", stream_write(served.stream, &part, 1));
    stream_end(served.stream);
    pause_over = false;
    timer_start_in(&pause_timer, 2500); /* past the linger, twice */
    RIG_UNTIL("the peer is away", &rig, pause_over);
    CHECK_U64("a stuck peer holds the stream, as without TLS", served.closed, 0);
    stream_resume(client.stream);
    RIG_UNTIL("both end", &rig, client.closed && served.closed);
    CHECK_U64("the whole answer", client.got, sizeof answer);
    CHECK_ERR("orderly", client.why, ERR_CLOSED);
    CHECK_ERR("orderly", served.why, ERR_CLOSED);
    timer_deinit(&pause_timer);
    finish();
}

TEST(closing_without_ending_is_a_cut_for_the_peer)
{
    begin((struct listen_options){0});
    meet();
    CHECK_OK("write", end_write(&client, "never sent"));
    stream_close(client.stream);
    CHECK_U64("not from inside the call", client.closed, 0);
    CHECK_ERR("closed", end_write(&client, "x"), ERR_CLOSED);
    stream_pause(client.stream);
    stream_resume(client.stream);
    stream_end(client.stream);
    RIG_UNTIL("reported", &rig, client.closed && served.closed);
    CHECK_ERR("as asked", client.why, ERR_CLOSED);
    CHECK_ERR("a cut", served.why, ERR_IO);
    CHECK_U64("dropped", served.got, 0);
    finish();
}

TEST(peers_are_known_when_they_are_handed_over)
{
    struct str uri;

    begin((struct listen_options){0});
    dial(for_client);
    CHECK("nobody is known before the handshake", !stream_peer_identity(client.stream));
    RIG_UNTIL("they meet", &rig, client.opened && served.opened);
    CHECK_OK("server knows",
             tls_identity_uri(stream_peer_identity(served.stream), STR("bigfleet"), &uri));
    CHECK_STR("the identity", uri, STR("bigfleet://shard/s-1"));
    CHECK_OK("client knows",
             tls_identity_uri(stream_peer_identity(client.stream), STR("bigfleet"), &uri));
    CHECK_TEXT("protocol", stream_alpn(served.stream), "h2");
    CHECK_TEXT("protocol", stream_alpn(client.stream), "h2");
    CHECK_HAS("address", client.peer, "127.0.0.1:");
    finish();
}

TEST(a_refused_client_learns_why_and_reaches_no_handler)
{
    begin((struct listen_options){0});
    dial(for_stranger);
    RIG_UNTIL("refused", &rig, client.closed);
    CHECK_ERR("by the server", client.why, ERR_DENIED);
    CHECK_HAS("with its reason", client.note.text, "unknown CA");
    RIG_UNTIL("counted", &rig, listener_stats(server.listener).failed_handshake == 1);
    CHECK_SIZE("nobody was handed over", server.accepted, 0);
    RIG_UNTIL("its place is free", &rig, listener_stats(server.listener).open == 0);
    finish();
}

static void close_on_refused(void *owner, const char *peer_address, enum err why,
                             const struct note *note)
{
    struct server *own = owner;

    CHECK_HAS("the peer", peer_address, "127.0.0.1:");
    CHECK_ERR("why", why, ERR_UNAUTHENTICATED);
    CHECK_HAS("the reason", note->text, "issuer");
    listener_close(own->listener);
    own->listener = NULL;
}

TEST(a_listener_may_be_closed_when_it_reports_a_refusal)
{
    begin((struct listen_options){.on_refused = close_on_refused});
    dial(for_stranger);
    RIG_UNTIL("refused, and closed", &rig, client.closed && !server.listener);
    finish();
}

TEST(a_server_with_another_name_than_dialed_is_refused)
{
    begin((struct listen_options){0});
    end_dial(&rig, &client,
             (struct dial_options){.address = listener_address(server.listener),
                                   .tls = for_client,
                                   .tls_name = "other.example"});
    RIG_UNTIL("refused", &rig, client.closed);
    CHECK_ERR("by us", client.why, ERR_UNAUTHENTICATED);
    CHECK_HAS("for its name", client.note.text, "ostname mismatch");
    CHECK_U64("never open", client.opened, 0);
    RIG_UNTIL("the server was notified", &rig,
              listener_stats(server.listener).failed_handshake == 1);
    finish();
}

static const struct {
    const char *why;
    struct str bytes;
} garbage[] = {
    {"HTTP", FORGE_TEXT("GET / HTTP/1.1\r\n\r\n")},
    {"HTTP/2 without TLS", FORGE_TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
    {"zeros", FORGE_TEXT("\0\0\0\0\0\0\0\0\0\0\0\0")},
    {"half a hello and then nothing like it",
     FORGE_TEXT(
         "\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03garbagegarbage\x16\x03\x01zzzzzzzzzz")},
};

TEST(bytes_that_are_no_tls_are_closed_and_counted)
{
    for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
        begin((struct listen_options){.handshake_timeout_ms = 200});
        end_dial(&rig, &client,
                 (struct dial_options){.address = listener_address(server.listener)});
        CHECK_OK("garbage", stream_write(client.stream, &garbage[i].bytes, 1));
        RIG_UNTIL(garbage[i].why, &rig, client.ended || client.closed);
        if (client.stream) stream_end(client.stream);
        RIG_UNTIL(garbage[i].why, &rig, listener_stats(server.listener).failed_handshake == 1);
        CHECK_SIZE("nobody was handed over", server.accepted, 0);
        finish();
    }
}

TEST(a_silent_peer_is_closed_in_time)
{
    begin((struct listen_options){.handshake_timeout_ms = 30});
    end_dial(&rig, &client, (struct dial_options){.address = listener_address(server.listener)});
    RIG_UNTIL("closed", &rig, client.ended || client.closed);
    CHECK_U64("counted", listener_stats(server.listener).failed_handshake, 1);
    finish();
}

TEST(a_peer_that_leaves_during_the_handshake_is_counted)
{
    begin((struct listen_options){0});
    end_dial(&rig, &client, (struct dial_options){.address = listener_address(server.listener)});
    RIG_UNTIL("connected", &rig, client.opened);
    stream_end(client.stream);
    RIG_UNTIL("counted", &rig, listener_stats(server.listener).failed_handshake == 1);
    finish();
}

TEST(a_listener_closes_with_handshakes_under_way)
{
    begin((struct listen_options){0});
    end_dial(&rig, &client, (struct dial_options){.address = listener_address(server.listener)});
    RIG_UNTIL("accepted", &rig, listener_stats(server.listener).accepted == 1);
    listener_close(server.listener);
    server.listener = NULL;
    RIG_UNTIL("closed", &rig, client.ended || client.closed);
    CHECK_SIZE("nobody was handed over", server.accepted, 0);
    finish();
}

/* -- dialling a peer that is no TLS server ------------------------------------------------------
 * */

static void answer_nonsense(struct end *end, struct str bytes)
{
    (void)bytes;
    CHECK_OK("nonsense", end_write(end, "220 mail.example ready\r\n"));
}

TEST(a_server_without_tls_has_its_own_error)
{
    begin((struct listen_options){0});
    listener_close(server.listener);
    server_open(&rig, &server, (struct listen_options){.address = "127.0.0.1:0"});
    served.on_bytes = answer_nonsense;
    dial(for_client);
    RIG_UNTIL("given up", &rig, client.closed);
    CHECK_ERR("not TLS", client.why, ERR_PARSE);
    CHECK_U64("never open", client.opened, 0);
    finish();
}

TEST(a_server_that_never_answers_is_a_time_out)
{
    begin((struct listen_options){0});
    listener_close(server.listener);
    server_open(&rig, &server, (struct listen_options){.address = "127.0.0.1:0"});
    end_dial(&rig, &client,
             (struct dial_options){.address = listener_address(server.listener),
                                   .tls = for_client,
                                   .timeout_ms = 30});
    RIG_UNTIL("given up", &rig, client.closed);
    CHECK_ERR("in time", client.why, ERR_TIMEOUT);
    finish();
}

TEST(a_dial_that_never_connected_does_not_blame_the_handshake)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listening = socket(AF_INET, SOCK_STREAM, 0), fillers[4];
    char text[32], want[64];

    /* A listener with a full queue that never accepts: the kernel drops further connections. */
    CHECK("bind", bind(listening, (struct sockaddr *)&address, len) == 0);
    CHECK("listen", listen(listening, 0) == 0);
    CHECK("name", getsockname(listening, (struct sockaddr *)&address, &len) == 0);
    for (size_t i = 0; i < ARRAY_LEN(fillers); i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], (struct sockaddr *)&address, len);
    }
    begin((struct listen_options){0});
    snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(address.sin_port));
    snprintf(want, sizeof want, "dial %s: ", text);
    end_dial(&rig, &client,
             (struct dial_options){.address = text, .tls = for_client, .timeout_ms = 100});
    RIG_UNTIL("given up", &rig, client.closed);
    CHECK_ERR("in time", client.why, ERR_TIMEOUT);
    CHECK_HAS("the dial's own error", client.note.text, want);
    finish();
    for (size_t i = 0; i < ARRAY_LEN(fillers); i++) close(fillers[i]);
    close(listening);
}

TEST(nobody_listening_is_unavailable_as_without_tls)
{
    char address[128];

    begin((struct listen_options){0});
    snprintf(address, sizeof address, "%s", listener_address(server.listener));
    listener_close(server.listener);
    server.listener = NULL;
    end_dial(&rig, &client, (struct dial_options){.address = address, .tls = for_client});
    RIG_UNTIL("reported", &rig, client.closed);
    CHECK_ERR("why", client.why, ERR_UNAVAILABLE);
    finish();
}

TEST(a_dial_that_cannot_begin_fails_at_once)
{
    struct stream *stream = NULL;
    struct note note;
    char long_name[400];

    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    begin((struct listen_options){0});
    CHECK_ERR("a path has no name to verify",
              net_dial(rig.net, &(struct dial_options){.address = "unix:/x", .tls = for_client},
                       &end_events, &client, &stream, &note),
              ERR_INVALID);
    CHECK_HAS("the note", note.text, "needs a name to verify");
    CHECK_ERR("too long a name",
              net_dial(rig.net,
                       &(struct dial_options){
                           .address = "localhost:1", .tls = for_client, .tls_name = long_name},
                       &end_events, &client, &stream, &note),
              ERR_INVALID);
    CHECK_ERR("no address",
              net_dial(rig.net, &(struct dial_options){.address = "nonsense", .tls = for_client},
                       &end_events, &client, &stream, &note),
              ERR_INVALID);
    CHECK("untouched", stream == NULL);
    finish();
}

/* -- closing from inside each callback --------------------------------------------------------- */

TEST(a_stream_may_be_closed_from_inside_any_of_its_callbacks)
{
    for (int when = IN_ACCEPT; when <= IN_CLOSED; when++) {
        for (int side = 0; side < 2; side++) {
            static char much[256 * 1024];
            struct str bulk = {much, sizeof much};
            begin((struct listen_options){0});
            *(side ? &served.close_when : &client.close_when) = (enum when)when;
            dial(for_client);
            RIG_UNTIL("the client opens", &rig, client.opened || client.closed);
            if (client.stream) (void)stream_write(client.stream, &bulk, 1);
            if (client.stream) stream_end(client.stream);
            RIG_UNTIL("the bytes came, or one side is gone", &rig,
                      served.got == sizeof much || client.closed || served.closed);
            if (served.stream) (void)stream_write(served.stream, &bulk, 1);
            if (served.stream) stream_end(served.stream);
            RIG_UNTIL("the client is notified", &rig, client.closed);
            finish();
        }
    }
}

TEST(early_bytes_of_an_accepted_stream_wait_for_its_owner)
{
    begin((struct listen_options){0});
    dial(for_client);
    CHECK_OK("before anything is open", end_write(&client, "first words"));
    stream_end(client.stream);
    RIG_UNTIL("they arrive", &rig, served.ended);
    CHECK_TEXT("whole", served.last, "first words");
    stream_end(served.stream);
    RIG_UNTIL("orderly", &rig, client.closed && served.closed);
    CHECK_ERR("orderly", client.why, ERR_CLOSED);
    CHECK_ERR("orderly", served.why, ERR_CLOSED);
    finish();
}

/* -- the buffer limit, shared by TLS and the stream below ----------------------------------------
 * */

enum { BOUND = 64 * 1024 };
static unsigned retries;

static void retry_large(struct end *end)
{
    static char large[BOUND - 1000];
    struct str part = {large, sizeof large};

    if (retries++ > 0) return; /* on_drained of the write below, at half the limit */
    CHECK_OK("after on_drained it fits", stream_write(end->stream, &part, 1));
}

TEST(a_write_that_needs_nearly_all_room_is_notified_when_it_fits)
{
    static char piece[4096], large[BOUND - 1000];
    struct str part = {piece, sizeof piece}, whole = {large, sizeof large};

    begin((struct listen_options){0});
    retries = 0;
    end_dial(&rig, &client,
             (struct dial_options){.address = listener_address(server.listener),
                                   .tls = for_client,
                                   .output_max = BOUND});
    RIG_UNTIL("they meet", &rig, client.opened && served.opened);
    stream_pause(served.stream);
    for (int idle = 0; idle < 20; idle++) { /* until the kernel's buffers are full, too */
        while (stream_write(client.stream, &part, 1) == ERR_OK) idle = 0;
        real_io_turn(rig.real, false);
    }
    CHECK_ERR("no room", stream_write(client.stream, &whole, 1), ERR_FULL);
    client.on_drained = retry_large;
    stream_resume(served.stream);
    RIG_UNTIL("reported", &rig, retries > 0);
    client.on_drained = NULL;
    finish();
}
