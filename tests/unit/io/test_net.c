/* SPDX-License-Identifier: Apache-2.0 */
#include "ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 64 };
static struct rig rig;
static struct end clients[MANY], served[MANY];
static struct server server;

static void start(struct listen_options options)
{
    rig_open(&rig);
    memset(clients, 0, sizeof clients);
    memset(served, 0, sizeof served);
    server = (struct server){.ends = served, .count = MANY};
    if (options.address) server_open(&rig, &server, options);
}
static void dial(int i)
{
    end_dial(&rig, &clients[i],
             (struct dial_options){.address = listener_address(server.listener)});
}
static void finish(void)
{
    for (int i = 0; i < MANY; i++) {
        if (clients[i].stream) stream_close(clients[i].stream);
        if (served[i].stream) stream_close(served[i].stream);
    }
    listener_close(server.listener);
    listener_close(NULL);
    rig_close(&rig);
    for (int i = 0; i < MANY; i++)
        CHECK("every started end is notified", !clients[i].stream && !served[i].stream);
}
static const char *unix_address(const char *name)
{
    static char address[128];
    snprintf(address, sizeof address, "unix:%s/%s", test_dir(), name);
    return address;
}
static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}
static uint16_t port_of(const char *address)
{
    return (uint16_t)atoi(strrchr(address, ':') + 1);
}
/* A port without a listener. */
static uint16_t dead_port(void)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK("bind", bind(fd, (struct sockaddr *)&address, len) == 0);
    CHECK("name", getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* -- dialing -- */

TEST(both_ends_know_each_others_address)
{
    char dialed[64];

    start((struct listen_options){.address = "127.0.0.1:0"});
    snprintf(dialed, sizeof dialed, "%s", listener_address(server.listener));
    CHECK("a real port", port_of(dialed) > 0);
    dial(0);
    RIG_UNTIL("they meet", &rig, clients[0].opened && served[0].opened);
    CHECK_TEXT("the client sees the listener", clients[0].peer, dialed);
    CHECK_HAS("the server sees the client", served[0].peer, "127.0.0.1:");
    CHECK("plaintext has no identity", !stream_peer_identity(clients[0].stream));
    CHECK_TEXT("and no protocol", stream_alpn(served[0].stream), "");
    finish();
}

TEST(ipv6_and_every_interface_work)
{
    start((struct listen_options){0});
    struct listener *listener;
    struct note note = {""};
    struct listen_options options = {
        .address = "[::1]:0", .on_accept = server_on_accept, .owner = &server};
    if (net_listen(rig.net, &options, &listener, &note)) {
        rig_close(&rig);
        SKIP("no IPv6 on this machine: %s", note.text);
    }
    CHECK_HAS("brackets", listener_address(listener), "[::1]:");
    server.listener = listener;
    dial(0);
    RIG_UNTIL("they meet", &rig, clients[0].opened && served[0].opened);
    CHECK_HAS("peer", served[0].peer, "[::1]:");
    finish();

    start((struct listen_options){.address = ":0"});
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", port_of(listener_address(server.listener)));
    end_dial(&rig, &clients[0], (struct dial_options){.address = address});
    RIG_UNTIL("they meet over IPv4 too", &rig, clients[0].opened && served[0].opened);
    finish();
}

TEST(a_name_is_looked_up_and_its_addresses_tried_in_turn)
{
    char address[32];

    start((struct listen_options){.address = "127.0.0.1:0"});
    snprintf(address, sizeof address, "localhost:%u", port_of(listener_address(server.listener)));
    end_dial(&rig, &clients[0], (struct dial_options){.address = address});
    RIG_UNTIL("they meet", &rig, clients[0].opened && served[0].opened);
    finish();
}

TEST(a_refused_dial_says_who_refused)
{
    char address[32], want[96];

    start((struct listen_options){0});
    snprintf(address, sizeof address, "127.0.0.1:%u", dead_port());
    snprintf(want, sizeof want, "dial %s: connection refused", address);
    end_dial(&rig, &clients[0], (struct dial_options){.address = address});
    CHECK_U64("not from inside the call", clients[0].closed, 0);
    RIG_UNTIL("reported", &rig, clients[0].closed);
    CHECK_ERR("may work later", clients[0].why, ERR_UNAVAILABLE);
    CHECK_TEXT("note", clients[0].note.text, want);
    CHECK_U64("never open", clients[0].opened, 0);
    finish();

    start((struct listen_options){0});
    end_dial(&rig, &clients[0], (struct dial_options){.address = unix_address("nobody.sock")});
    RIG_UNTIL("reported", &rig, clients[0].closed);
    CHECK_ERR("may work later", clients[0].why, ERR_UNAVAILABLE);
    CHECK_HAS("note", clients[0].note.text, "no such file");
    finish();
}

TEST(a_dial_into_silence_ends_at_its_deadline)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int listening = socket(AF_INET, SOCK_STREAM, 0), fillers[4];
    char text[32];

    /* A listener with a full queue that never accepts: the kernel drops further connections. */
    CHECK("bind", bind(listening, (struct sockaddr *)&address, len) == 0);
    CHECK("listen", listen(listening, 0) == 0);
    CHECK("name", getsockname(listening, (struct sockaddr *)&address, &len) == 0);
    for (size_t i = 0; i < ARRAY_LEN(fillers); i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], (struct sockaddr *)&address, len);
    }
    start((struct listen_options){0});
    snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(address.sin_port));
    end_dial(&rig, &clients[0], (struct dial_options){.address = text, .timeout_ms = 150});
    mono_time begun = loop_now(rig.loop);
    CHECK_OK("writing ahead", end_write(&clients[0], "hello"));
    RIG_UNTIL("reported", &rig, clients[0].closed);
    CHECK_ERR("late", clients[0].why, ERR_TIMEOUT);
    CHECK("not early", mono_elapsed_ms(begun, loop_now(rig.loop)) >= 149);
    CHECK_HAS("note", clients[0].note.text, text);
    finish();
    for (size_t i = 0; i < ARRAY_LEN(fillers); i++) close(fillers[i]);
    close(listening);
}

TEST(a_name_that_does_not_exist_is_unavailable)
{
    setenv("RES_OPTIONS", "timeout:1 attempts:1", 1); /* an unreachable resolver costs 1 s */
    start((struct listen_options){0});
    end_dial(&rig, &clients[0], (struct dial_options){.address = "no-such-host.invalid:80"});
    end_dial(&rig, &clients[1],
             (struct dial_options){.address = "no-such-host.invalid:80", .timeout_ms = 1});
    end_dial(&rig, &clients[2], (struct dial_options){.address = "no-such-host.invalid:80"});
    stream_close(clients[2].stream);
    RIG_UNTIL("reported", &rig, clients[0].closed && clients[1].closed && clients[2].closed);
    CHECK_ERR("may exist later", clients[0].why, ERR_UNAVAILABLE);
    CHECK_HAS("note", clients[0].note.text, "look up no-such-host.invalid:80: ");
    CHECK("the deadline covers the lookup",
          clients[1].why == ERR_TIMEOUT || clients[1].why == ERR_UNAVAILABLE);
    CHECK_ERR("closed by us", clients[2].why, ERR_CLOSED);
    finish();
}

TEST(an_address_that_is_none_is_refused_at_once)
{
    static const char *const none[] = {"", "localhost", "127.0.0.1:0", ":80", "unix:", "[::1]"};
    struct note note;

    start((struct listen_options){0});
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        struct dial_options options = {.address = none[i]};
        struct stream *untouched = (struct stream *)&rig;
        note.text[0] = '\0';
        CHECK_ERR(none[i], net_dial(rig.net, &options, &end_events, &clients[0], &untouched, &note),
                  ERR_INVALID);
        CHECK("output untouched", untouched == (struct stream *)&rig);
        CHECK_HAS("the address is named", note.text, none[i]);
    }
    finish();
}

TEST(a_dial_can_be_called_off_at_any_time)
{
    char dead[32], named[32];

    for (int turns = 0; turns < 4; turns++) {
        start((struct listen_options){.address = "127.0.0.1:0"});
        snprintf(dead, sizeof dead, "127.0.0.1:%u", dead_port());
        snprintf(named, sizeof named, "localhost:%u", port_of(listener_address(server.listener)));
        dial(0);
        end_dial(&rig, &clients[1], (struct dial_options){.address = dead});
        end_dial(&rig, &clients[2], (struct dial_options){.address = named});
        end_dial(&rig, &clients[3], (struct dial_options){.address = unix_address("nobody.sock")});
        for (int i = 0; i < turns; i++) real_io_turn(rig.real, false);
        for (int i = 0; i < 4; i++)
            if (clients[i].stream) stream_close(clients[i].stream);
        RIG_UNTIL("reported", &rig,
                  clients[0].closed && clients[1].closed && clients[2].closed && clients[3].closed);
        finish();
    }
}

/* Runs in a network namespace whose only port for outgoing connections is the one that is dialed.
 * */
static int dial_oneself(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd;

    if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) return 2;
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (ioctl(fd, SIOCSIFFLAGS, &lo)) return 2;
    close(fd);
    fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY);
    if (fd < 0 || write(fd, "40000 40000", 11) != 11) return 2;
    close(fd);
    start((struct listen_options){0});
    end_dial(&rig, &clients[0], (struct dial_options){.address = "127.0.0.1:40000"});
    while (!clients[0].closed && !clients[0].opened) real_io_turn(rig.real, true);
    return clients[0].opened ? 1 : 0;
}

TEST(a_dial_that_meets_itself_counts_as_refused)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) _exit(dial_oneself());
    CHECK("child", waitpid(child, &status, 0) == child && WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) SKIP("no network namespace to be had here");
    CHECK_I64("refused, not open", WEXITSTATUS(status), 0);
}

/* -- listening -- */

TEST(more_streams_than_allowed_are_closed_at_accept)
{
    start((struct listen_options){.address = "127.0.0.1:0", .streams_max = 3});
    for (int i = 0; i < 5; i++) dial(i);
    RIG_UNTIL("two are turned away", &rig, listener_stats(server.listener).refused_full == 2);
    RIG_UNTIL("and see it", &rig,
              clients[0].ended + clients[0].closed + clients[1].ended + clients[1].closed +
                      clients[2].ended + clients[2].closed + clients[3].ended + clients[3].closed +
                      clients[4].ended + clients[4].closed >=
                  2);
    CHECK_SIZE("three are open", listener_stats(server.listener).open, 3);
    CHECK_U64("three were accepted", listener_stats(server.listener).accepted, 3);
    stream_close(served[1].stream);
    RIG_UNTIL("closed", &rig, served[1].closed);
    CHECK_SIZE("two are open", listener_stats(server.listener).open, 2);
    dial(5);
    RIG_UNTIL("there is a place again", &rig, served[3].opened);
    finish();
}

TEST(an_address_that_is_taken_is_busy_and_one_that_is_not_ours_unavailable)
{
    struct listen_options options = {.on_accept = server_on_accept, .owner = &server};
    struct listener *untouched = (struct listener *)&rig;
    struct note note = {""};

    start((struct listen_options){.address = "127.0.0.1:0"});
    options.address = listener_address(server.listener);
    CHECK_ERR("taken", net_listen(rig.net, &options, &untouched, &note), ERR_BUSY);
    CHECK_HAS("which", note.text, options.address);
    options.address = "192.0.2.1:0";
    CHECK_ERR("elsewhere", net_listen(rig.net, &options, &untouched, &note), ERR_UNAVAILABLE);
    options.address = "127.0.0.1";
    CHECK_ERR("no port", net_listen(rig.net, &options, &untouched, &note), ERR_INVALID);
    CHECK("output untouched", untouched == (struct listener *)&rig);
    finish();
}

TEST(an_address_can_be_listened_on_again_at_once)
{
    char address[64];

    start((struct listen_options){.address = "127.0.0.1:0"});
    snprintf(address, sizeof address, "%s", listener_address(server.listener));
    dial(0);
    RIG_UNTIL("they meet", &rig, clients[0].opened && served[0].opened);
    stream_close(
        served[0].stream); /* this side closes first, so the kernel keeps its port in TIME_WAIT */
    RIG_UNTIL("closed", &rig, served[0].closed);
    listener_close(server.listener);
    server_open(&rig, &server, (struct listen_options){.address = address});
    end_dial(&rig, &clients[1], (struct dial_options){.address = address});
    RIG_UNTIL("they meet again", &rig, clients[1].opened && served[1].opened);
    finish();
}

TEST(accepted_streams_outlive_their_listener)
{
    start((struct listen_options){.address = "127.0.0.1:0"});
    dial(0);
    RIG_UNTIL("they meet", &rig, clients[0].opened && served[0].opened);
    listener_close(server.listener);
    server.listener = NULL;
    CHECK_OK("write", end_write(&served[0], "still here"));
    RIG_UNTIL("arrives", &rig, clients[0].got == 10);
    finish();
}

TEST(a_listener_may_be_closed_while_it_accepts)
{
    start((struct listen_options){.address = "127.0.0.1:0"});
    server.closes_itself = true;
    for (int i = 0; i < 5; i++) dial(i);
    RIG_UNTIL("the first comes, the others are turned away", &rig,
              served[0].opened && clients[4].closed + clients[4].ended > 0);
    CHECK_SIZE("no more than one", server.accepted, 1);
    finish();
}

TEST(without_files_a_listener_waits_instead_of_spinning)
{
    struct sockaddr_in address;
    struct rlimit before, low;
    int fd;

    start((struct listen_options){.address = "127.0.0.1:0"});
    fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK("limit", getrlimit(RLIMIT_NOFILE, &before) == 0);
    address = loopback(port_of(listener_address(server.listener)));
    CHECK("in the kernel's queue", connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    low = before;
    low.rlim_cur = 3; /* no lower descriptor is free */
    CHECK("limit", setrlimit(RLIMIT_NOFILE, &low) == 0);
    uint64_t turns_before = loop_stats(rig.loop).turns;
    bool tried = false;
    rig.late = false;
    timer_start_in(&rig.deadline, 350);
    while (!rig.late) {
        real_io_turn(rig.real, true);
        tried = tried || listener_stats(server.listener).failed_accept > 0;
    }
    uint64_t turns = loop_stats(rig.loop).turns - turns_before;
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK("it tried", tried);
    CHECK("a few times", listener_stats(server.listener).failed_accept <= 10 && turns <= 40);
    RIG_UNTIL("and takes it when there are files again", &rig, served[0].opened);
    close(fd);
    finish();
}

/* -- Unix sockets -- */

TEST(a_unix_socket_is_there_while_listened_on_and_gone_after)
{
    struct stat info;

    start((struct listen_options){.address = unix_address("own.sock")});
    const char *path = unix_address("own.sock") + 5;
    CHECK("there", lstat(path, &info) == 0 && S_ISSOCK(info.st_mode));
    CHECK_TEXT("address", listener_address(server.listener), unix_address("own.sock"));
    dial(0);
    RIG_UNTIL("they meet", &rig, clients[0].opened && served[0].opened);
    CHECK_TEXT("peer", served[0].peer, "unix");
    CHECK_TEXT("peer", clients[0].peer, "unix");
    CHECK_OK("write", end_write(&clients[0], "over unix"));
    RIG_UNTIL("arrives", &rig, served[0].got == 9);
    finish();
    CHECK("gone", lstat(path, &info) != 0 && errno == ENOENT);
}

/* Creates the socket file that a killed process leaves behind. */
static void leave_stale(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    CHECK("the path fits", strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    CHECK("bind", bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK("listen", listen(fd, 1) == 0);
    close(fd);
}

TEST(a_stale_unix_socket_is_replaced_a_live_one_and_a_file_are_not)
{
    struct listen_options options = {.on_accept = server_on_accept, .owner = &server};
    struct listener *untouched = (struct listener *)&rig;
    struct note note = {""};
    struct stat info;
    FILE *file;

    leave_stale(unix_address("stale.sock") + 5);
    start((struct listen_options){.address = unix_address("stale.sock")});
    dial(0);
    RIG_UNTIL("the stale one was replaced", &rig, clients[0].opened && served[0].opened);
    options.address = unix_address("stale.sock");
    CHECK_ERR("a live one is not", net_listen(rig.net, &options, &untouched, &note), ERR_BUSY);
    dial(1);
    RIG_UNTIL("and serves on", &rig, clients[1].opened && served[1].opened);

    options.address = unix_address("file");
    file = fopen(options.address + 5, "w");
    CHECK("file", file != NULL);
    fclose(file);
    CHECK_ERR("a file is not", net_listen(rig.net, &options, &untouched, &note), ERR_BUSY);
    CHECK("and stays", lstat(options.address + 5, &info) == 0 && S_ISREG(info.st_mode));
    options.address = unix_address("no/such/dir.sock");
    CHECK_ERR("no directory", net_listen(rig.net, &options, &untouched, &note), ERR_UNAVAILABLE);
    CHECK("output untouched", untouched == (struct listener *)&rig);
    finish();
}

TEST(closing_leaves_a_successors_unix_socket_alone)
{
    struct listener *first, *second;
    struct listen_options options = {
        .address = unix_address("shared.sock"), .on_accept = server_on_accept, .owner = &server};
    struct note note = {""};

    start((struct listen_options){0});
    CHECK_OK("first", net_listen(rig.net, &options, &first, &note));
    unlink(options.address + 5); /* another program removes it */
    CHECK_OK("second", net_listen(rig.net, &options, &second, &note));
    listener_close(first);
    server.listener = second;
    dial(0);
    RIG_UNTIL("the second still has its path", &rig, clients[0].opened && served[0].opened);
    finish();
}

/* -- lives -- */

/* Writes more than the kernel takes, so that on_drained is called. */
static void write_until_full(struct end *end)
{
    static const char zeros[200 * 1024];
    struct str part = str_of(zeros, sizeof zeros);
    enum err err = ERR_OK;

    for (int i = 0; i < 1000 && !err; i++) err = stream_write(end->stream, &part, 1);
    CHECK_ERR("the kernel is full, and so are we", err, ERR_FULL);
}

TEST(a_stream_may_be_closed_in_each_of_its_callbacks)
{
    static const enum when whens[] = {IN_OPEN, IN_BYTES, IN_DRAINED, IN_END, IN_CLOSED};

    for (size_t w = 0; w < ARRAY_LEN(whens); w++) {
        start((struct listen_options){.address = "127.0.0.1:0"});
        clients[0].close_when = whens[w];
        dial(0);
        RIG_UNTIL("accepted", &rig, served[0].opened);
        if (whens[w] != IN_OPEN) {
            RIG_UNTIL("open", &rig, clients[0].opened);
            write_until_full(&clients[0]);
            CHECK_OK("write", end_write(&served[0], "bytes"));
            stream_end(served[0].stream);
            if (whens[w] == IN_CLOSED) stream_end(clients[0].stream);
        }
        RIG_UNTIL("closed, once", &rig, clients[0].closed);
        CHECK("orderly", clients[0].why == ERR_CLOSED);
        finish();
    }
}

TEST(an_accepted_stream_may_be_closed_in_each_of_its_callbacks)
{
    static const enum when whens[] = {IN_ACCEPT, IN_BYTES, IN_END};

    for (size_t w = 0; w < ARRAY_LEN(whens); w++) {
        start((struct listen_options){.address = unix_address("close.sock")});
        served[0].close_when = whens[w];
        dial(0);
        RIG_UNTIL("open", &rig, clients[0].opened);
        CHECK_OK("write", end_write(&clients[0], "bytes"));
        stream_end(clients[0].stream);
        RIG_UNTIL("the other side is closed", &rig, clients[0].closed);
        finish();
    }
}

static void run_lives(const char *address, int rounds)
{
    start((struct listen_options){.address = address, .streams_max = MANY});
    for (int round = 0; round < rounds; round++) {
        memset(clients, 0, sizeof clients);
        memset(served, 0, sizeof served);
        server.accepted = 0;
        for (int i = 0; i < MANY; i++) dial(i);
        size_t closed = 0;
        for (int i = 0; i < MANY; i++) clients[i].close_when = i % 3 == 0 ? IN_OPEN : NEVER;
        for (rig.late = false; closed < 2 * MANY && !rig.late;) {
            closed = 0;
            for (int i = 0; i < MANY; i++) {
                if (clients[i].stream && clients[i].opened && i % 3 == 1)
                    stream_end(clients[i].stream);
                if (clients[i].stream && clients[i].opened && i % 3 == 2)
                    stream_close(clients[i].stream);
                if (served[i].stream && served[i].ended) stream_end(served[i].stream);
                closed += clients[i].closed + served[i].closed;
            }
            if (!timer_running(&rig.deadline)) timer_start_in(&rig.deadline, RIG_DEADLINE_MS);
            if (closed < 2 * MANY) real_io_turn(rig.real, true);
        }
        timer_stop(&rig.deadline);
        CHECK_SIZE("all are notified", closed, 2 * MANY);
    }
    CHECK_SIZE("none is left", listener_stats(server.listener).open, 0);
    CHECK_U64("all were accepted", listener_stats(server.listener).accepted,
              (uint64_t)rounds * MANY);
    finish();
}

TEST(thousands_of_connections_come_and_go_over_tcp)
{
    run_lives("127.0.0.1:0", 32);
}
TEST(thousands_of_connections_come_and_go_over_unix_sockets)
{
    run_lives(unix_address("lives.sock"), 32);
}
