/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rig rig;
static struct end client, served;
static struct server server;

static void open_pair(const char *address, size_t client_max, size_t server_max,
                      const struct stream_events *server_events)
{
    rig_open(&rig);
    client = served = (struct end){0};
    server = (struct server){.ends = &served, .count = 1, .events = server_events};
    server_open(&rig, &server,
                (struct listen_options){.address = address, .output_max = server_max});
    end_dial(&rig, &client,
             (struct dial_options){.address = listener_address(server.listener),
                                   .output_max = client_max});
}
static void meet(void)
{
    RIG_UNTIL("they meet", &rig, client.opened && served.opened);
}
static void close_pair(void)
{
    if (client.stream) stream_close(client.stream);
    if (served.stream) stream_close(served.stream);
    listener_close(server.listener);
    RIG_UNTIL("both are notified", &rig, client.closed && served.closed);
    rig_close(&rig);
}

/* -- 64 MiB in both directions through small buffers -- */

enum { BOUND = 64 * 1024, PIECE = 24 * 1024, SMALL_BOUND = 4096 };
static const uint64_t BULK = 64ull << 20;
static uint64_t sent, stashed_most;
static unsigned full_count;
static struct buf stash; /* bytes that the echo could not write yet */

static char bulk_byte(uint64_t at)
{
    return (char)((at * 31 + (at >> 8) * 7 + (at >> 20)) & 0xff);
}

static void send_more(struct end *end)
{
    static char piece[PIECE];

    while (sent < BULK && end->stream) {
        size_t len = (size_t)min_u64(PIECE, BULK - sent);
        for (size_t i = 0; i < len; i++) piece[i] = bulk_byte(sent + i);
        struct str parts[2] = {str_of(piece, len / 3), str_of(piece + len / 3, len - len / 3)};
        enum err err = stream_write(end->stream, parts, 2);
        CHECK("never more than the bound waits", stream_pending(end->stream) <= BOUND);
        if (err == ERR_FULL) {
            full_count++;
            return;
        }
        CHECK_OK("write", err);
        sent += len;
    }
    if (sent == BULK) stream_end(end->stream);
}
static void check_bulk(struct end *end, struct str bytes)
{
    uint64_t at = end->got - bytes.len;
    size_t wrong = 0;
    for (size_t i = 0; i < bytes.len; i++) wrong += bytes.at[i] != bulk_byte(at + i);
    CHECK_SIZE("every byte comes back in its place", wrong, 0);
}
static void echo(struct end *end, struct str bytes)
{
    CHECK_SIZE("no bytes while paused", stash.len, 0);
    enum err err = stream_write(end->stream, &bytes, 1);
    CHECK("never more than the bound waits", stream_pending(end->stream) <= BOUND);
    if (err == ERR_FULL) {
        CHECK_OK("stash", buf_append(&stash, bytes));
        stashed_most = max_u64(stashed_most, stash.len);
        stream_pause(end->stream);
    } else {
        CHECK_OK("echo", err);
    }
}
static void echo_rest(struct end *end)
{
    if (stash.len == 0) return;
    struct str bytes = buf_peek(&stash);
    CHECK_OK("after on_drained it fits", stream_write(end->stream, &bytes, 1));
    buf_clear(&stash);
    stream_resume(end->stream);
    if (end->ended) stream_end(end->stream);
}
static void echo_end(struct end *end)
{
    if (stash.len == 0) stream_end(end->stream);
}

static void run_bulk(const char *address)
{
    sent = stashed_most = full_count = 0;
    buf_init(&stash, BOUND);
    open_pair(address, BOUND, BOUND, NULL);
    client.on_bytes = check_bulk;
    client.on_drained = send_more;
    served.on_bytes = echo;
    served.on_drained = echo_rest;
    served.on_end = echo_end;
    meet();
    send_more(&client);
    RIG_UNTIL("both sides end and close", &rig, client.closed && served.closed);
    CHECK_U64("all came to the server", served.got, BULK);
    CHECK_U64("and back", client.got, BULK);
    CHECK("the producer was held", full_count > 0);
    CHECK_ERR("orderly", client.why, ERR_CLOSED);
    CHECK_ERR("orderly", served.why, ERR_CLOSED);
    buf_deinit(&stash);
    close_pair();
}

TEST(sixty_four_mebibytes_pass_through_small_bounds_over_tcp)
{
    run_bulk("127.0.0.1:0");
}
TEST(sixty_four_mebibytes_pass_through_small_bounds_over_a_unix_socket)
{
    char address[128];
    snprintf(address, sizeof address, "unix:%s/bulk.sock", test_dir());
    run_bulk(address);
}

/* -- writing -- */

static uint64_t write_calls(void)
{
    FILE *file = fopen("/proc/self/io", "r");
    char line[128];
    unsigned long long calls = 0;
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) sscanf(line, "syscw: %llu", &calls);
    fclose(file);
    return calls;
}

TEST(small_writes_of_one_turn_leave_in_one_system_call)
{
    open_pair("127.0.0.1:0", 0, 0, NULL);
    meet();
    uint64_t before = write_calls();
    if (before == 0) SKIP("this kernel does not count a process's writes");
    for (int i = 0; i < 100; i++) CHECK_OK("write", end_write(&client, "0123456789"));
    CHECK_SIZE("gathered", stream_pending(client.stream), 1000);
    CHECK_U64("nothing left yet", write_calls(), before);
    real_io_turn(rig.real, true);
    CHECK_U64("one call for all", write_calls(), before + 1);
    CHECK_SIZE("gone", stream_pending(client.stream), 0);
    RIG_UNTIL("arrive", &rig, served.got == 1000);
    close_pair();
}

static unsigned ticks;
static void on_tick(struct timer *timer)
{
    ticks++;
    timer_start_in(timer, 0);
}
static void write_again(struct end *end)
{
    static char piece[SMALL_BOUND / 2 + 100];
    struct str part = {piece, sizeof piece};
    while (end->stream && stream_write(end->stream, &part, 1) == ERR_OK) continue;
}

/* The kernel takes hundreds of such writes. Each write makes room for the next, so a peer that
 * reads as fast would keep the turn going for ever. */
TEST(a_peer_that_reads_everything_does_not_block_the_turn)
{
    struct timer timer;
    uint64_t most = 0;

    open_pair("127.0.0.1:0", SMALL_BOUND, SMALL_BOUND, NULL);
    meet();
    ticks = 0;
    CHECK_OK("timer", timer_init(&timer, rig.loop, on_tick));
    timer_start_in(&timer, 0);
    client.on_drained = write_again;
    write_again(&client);
    for (int turn = 0; turn < 200; turn++) {
        unsigned drained = client.drained, before = ticks;
        real_io_turn(rig.real, false);
        most = max_u64(most, client.drained - drained);
        CHECK("a restarted timer waits for the next turn", ticks <= before + 1);
    }
    CHECK("it is written again when there is room", client.drained > 20);
    CHECK("but not without end in one turn", most <= 32);
    CHECK("and the timer has its go", ticks > 1);
    client.on_drained = NULL;
    timer_deinit(&timer);
    close_pair();
}

static struct turn_hook late_hook;
static bool hook_wrote;
static void writes_in_hook(struct turn_hook *hook)
{
    (void)hook;
    if (!hook_wrote) CHECK_OK("write", end_write(&client, "from a hook"));
    hook_wrote = true;
}

TEST(bytes_written_by_a_turn_hook_are_sent_in_the_same_turn)
{
    open_pair("127.0.0.1:0", 0, 0, NULL);
    meet();
    hook_wrote = false;
    turn_hook_add(rig.loop, &late_hook, writes_in_hook);
    real_io_turn(rig.real, false);
    CHECK_SIZE("gone", stream_pending(client.stream), 0);
    turn_hook_remove(&late_hook);
    RIG_UNTIL("arrives", &rig, served.got > 0);
    CHECK_TEXT("whole", served.last, "from a hook");
    close_pair();
}

TEST(bytes_written_before_the_connection_is_open_are_sent_when_it_opens)
{
    open_pair("127.0.0.1:0", 100, 0, NULL);
    CHECK_OK("early", end_write(&client, "early"));
    CHECK_SIZE("waits", stream_pending(client.stream), 5);
    stream_end(client.stream);
    CHECK_ERR("ended", end_write(&client, "late"), ERR_CLOSED);
    RIG_UNTIL("the server sees the end", &rig, served.ended);
    CHECK_TEXT("and the bytes before it", served.last, "early");
    close_pair();
}

TEST(more_than_the_bound_at_once_is_refused_for_good)
{
    static const char zeros[101];
    struct str parts[2] = {str_of(zeros, 50), str_of(zeros, 51)};

    open_pair("127.0.0.1:0", 100, 0, NULL);
    meet();
    CHECK_ERR("101 of 100", stream_write(client.stream, parts, 2), ERR_TOO_LARGE);
    parts[1].len = SIZE_MAX - 20;
    CHECK_ERR("no overflow", stream_write(client.stream, parts, 2), ERR_TOO_LARGE);
    CHECK_SIZE("nothing was taken", stream_pending(client.stream), 0);
    parts[1].len = 50;
    CHECK_OK("100 of 100", stream_write(client.stream, parts, 2));
    CHECK_OK("nothing is always fine", stream_write(client.stream, NULL, 0));
    real_io_turn(rig.real, false);
    CHECK_U64("it was over half its bound, so its end is notified, in the turn that sent it",
              client.drained, 1);
    RIG_UNTIL("arrives", &rig, served.got == 100);
    close_pair();
}

static void retry_big(struct end *end)
{
    static const char zeros[80];
    struct str part = str_of(zeros, sizeof zeros);
    CHECK_OK("now it fits", stream_write(end->stream, &part, 1));
    end->on_drained = NULL;
}

TEST(a_refused_write_is_notified_when_it_fits_even_if_less_than_half_waited)
{
    static const char zeros[80];
    struct str small = str_of(zeros, 40), big = str_of(zeros, 80);

    open_pair("127.0.0.1:0", 100, 0, NULL);
    meet();
    client.on_drained = retry_big;
    CHECK_OK("40 wait, under half", stream_write(client.stream, &small, 1));
    CHECK_ERR("80 more do not fit", stream_write(client.stream, &big, 1), ERR_FULL);
    RIG_UNTIL("reported, and all arrives", &rig, served.got == 120);
    close_pair();
}

TEST(a_large_write_of_many_parts_arrives_in_order)
{
    enum { LARGE = 700 * 1000, PARTS = 40 };
    static char bytes[LARGE];
    struct str parts[PARTS];

    for (size_t i = 0; i < LARGE; i++) bytes[i] = bulk_byte(i);
    for (size_t count = 1; count <= PARTS; count += 13) {
        open_pair("127.0.0.1:0", 0, 0, NULL);
        served.on_bytes = check_bulk;
        meet();
        for (size_t i = 0; i < count; i++) {
            size_t from = LARGE / count * i, to = i + 1 == count ? LARGE : LARGE / count * (i + 1);
            parts[i] = str_of(bytes + from, to - from);
        }
        CHECK_OK("write", stream_write(client.stream, parts, count));
        CHECK("no more than was written waits", stream_pending(client.stream) <= LARGE);
        RIG_UNTIL("arrives", &rig, served.got == LARGE);
        close_pair();
    }
}

/* -- pausing -- */

TEST(a_paused_reader_holds_the_writer_and_loses_nothing)
{
    static char piece[16 * 1024];
    struct str part = str_of(piece, sizeof piece);
    uint64_t wrote = 0;
    enum err err = ERR_OK;

    open_pair("127.0.0.1:0", BOUND, 0, NULL);
    meet();
    stream_pause(served.stream);
    for (int idle = 0; idle < 20; idle++) { /* until the kernel's own buffers are full, too */
        while (!(err = stream_write(client.stream, &part, 1))) wrote += part.len, idle = 0;
        CHECK_ERR("full", err, ERR_FULL);
        real_io_turn(rig.real, false);
        if (wrote > 256u << 20) break;
    }
    CHECK("the writer is held", wrote < 256u << 20);
    CHECK("bounded", stream_pending(client.stream) <= BOUND && stream_pending(client.stream) > 0);
    CHECK_U64("nothing is delivered", served.got, 0);
    stream_resume(served.stream);
    RIG_UNTIL("all arrives", &rig, served.got == wrote);
    CHECK("notified that there is room", client.drained > 0);
    close_pair();
}

static void pauses_itself(struct end *end, struct str bytes)
{
    (void)bytes;
    stream_pause(end->stream);
}

TEST(a_reader_that_pauses_in_on_bytes_gets_no_more)
{
    static char piece[400 * 1024];
    struct str part = str_of(piece, sizeof piece);

    open_pair("127.0.0.1:0", 0, 0, NULL);
    served.on_bytes = pauses_itself;
    meet();
    CHECK_OK("write", stream_write(client.stream, &part, 1));
    RIG_UNTIL("some comes", &rig, served.got > 0);
    uint64_t got = served.got;
    for (int i = 0; i < 20; i++) real_io_turn(rig.real, false);
    CHECK_U64("and no more", served.got, got);
    served.on_bytes = NULL;
    stream_resume(served.stream);
    stream_pause(served.stream);
    stream_resume(served.stream);
    RIG_UNTIL("all of it", &rig, served.got == part.len);
    close_pair();
}

/* -- ending -- */

static void answer_and_end(struct end *end)
{
    CHECK_OK("writing still works", end_write(end, "answer"));
    stream_end(end->stream);
    stream_end(end->stream);
}

TEST(each_side_ends_on_its_own_and_the_stream_closes_after_both)
{
    open_pair("127.0.0.1:0", 0, 0, NULL);
    served.on_end = answer_and_end;
    meet();
    CHECK_OK("write", end_write(&client, "question"));
    stream_end(client.stream);
    RIG_UNTIL("closed by itself", &rig, client.closed && served.closed);
    CHECK_TEXT("question", served.last, "question");
    CHECK_TEXT("answer", client.last, "answer");
    CHECK_U64("the client saw the end", client.ended, 1);
    CHECK_U64("the server saw the end", served.ended, 1);
    CHECK_ERR("orderly", client.why, ERR_CLOSED);
    CHECK_ERR("orderly", served.why, ERR_CLOSED);
    close_pair();
}

TEST(the_accepting_side_may_end_first)
{
    open_pair("127.0.0.1:0", 0, 0, NULL);
    meet();
    stream_end(served.stream);
    RIG_UNTIL("seen", &rig, client.ended);
    CHECK_OK("the other direction works on", end_write(&client, "still here"));
    RIG_UNTIL("arrives", &rig, served.got == 10);
    CHECK("open", !client.closed && !served.closed);
    stream_end(client.stream);
    RIG_UNTIL("closed by itself", &rig, client.closed && served.closed);
    close_pair();
}

TEST(without_on_end_our_side_ends_with_the_peers)
{
    static const struct stream_events no_end = {.on_bytes = end_on_bytes,
                                                .on_closed = end_on_closed};

    open_pair("127.0.0.1:0", 0, 0, &no_end);
    meet();
    stream_end(client.stream);
    RIG_UNTIL("both close", &rig, client.closed && served.closed);
    CHECK_ERR("orderly", client.why, ERR_CLOSED);
    CHECK_ERR("orderly", served.why, ERR_CLOSED);
    close_pair();
}

TEST(closing_drops_waiting_writes_and_ends_every_call)
{
    open_pair("127.0.0.1:0", 0, 0, NULL);
    meet();
    CHECK_OK("write", end_write(&client, "never sent"));
    stream_close(client.stream);
    CHECK_U64("not from inside the call", client.closed, 0);
    CHECK_ERR("closed", end_write(&client, "x"), ERR_CLOSED);
    stream_pause(client.stream);
    stream_resume(client.stream);
    stream_end(client.stream);
    RIG_UNTIL("reported", &rig, client.closed && served.ended);
    CHECK_ERR("as asked", client.why, ERR_CLOSED);
    CHECK_U64("dropped", served.got, 0);
    close_pair();
}

/* -- a raw peer -- */

static int raw_peer(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    const char *port = strrchr(listener_address(server.listener), ':') + 1;

    address.sin_port = htons((uint16_t)atoi(port));
    CHECK("raw connect", connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}
static void open_server(void)
{
    rig_open(&rig);
    served = (struct end){0};
    server = (struct server){.ends = &served, .count = 1};
    server_open(&rig, &server, (struct listen_options){.address = "127.0.0.1:0"});
}

TEST(a_peer_that_resets_is_an_error_with_its_reason)
{
    struct linger reset = {.l_onoff = 1};

    open_server();
    int fd = raw_peer();
    RIG_UNTIL("accepted", &rig, served.opened);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
    RIG_UNTIL("closed", &rig, served.closed);
    CHECK_ERR("not orderly", served.why, ERR_IO);
    CHECK_HAS("reason", served.note.text, "connection reset by peer");
    CHECK_HAS("and the peer", served.note.text, served.peer);
    listener_close(server.listener);
    rig_close(&rig);
}

TEST(writing_to_a_peer_that_is_gone_fails_without_a_signal)
{
    open_server();
    int fd = raw_peer();
    RIG_UNTIL("accepted", &rig, served.opened);
    stream_pause(served.stream); /* only a write can notice the close */
    close(fd);
    for (int i = 0; i < 1000 && !served.closed; i++) {
        if (end_write(&served, "anyone?") == ERR_CLOSED) break;
        real_io_turn(rig.real, false);
    }
    RIG_UNTIL("closed", &rig, served.closed);
    CHECK_ERR("broken", served.why, ERR_IO);
    listener_close(server.listener);
    rig_close(&rig);
}
