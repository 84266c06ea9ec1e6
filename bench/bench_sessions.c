/* SPDX-License-Identifier: Apache-2.0 */
/* 5,000 operators on one shard: memory of an idle session, CPU of a frame to it, cost of a
 * reconnect of all at once, and cost of reading a roll-up.
 *
 * The operators are a process of their own on loopback; only the server's side is counted. The peer
 * of a frame is the same bytes written to a bare socket. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "io/real.h"
#include "rpc/client.h"
#include "shard/need_wire.h"
#include "shard/session_frame.h"
#include "shard/sessions.h"

enum { SESSIONS_MAX = 8000, ROUNDS = 20, ROWS = 50000 };

static size_t sessions_count = 5000;

static double cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long total, resident;

    MUST(file && fscanf(file, "%lu %lu", &total, &resident) == 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

struct shared { /* by parent and child */
    uint64_t heard, reconnects;
};

/* -- the operators: a child that connects on command and counts the frames that it receives -- */

struct peer {
    struct rpc_channel *channel;
    struct rpc_client_call *call;
    struct timer retry;
    size_t number;
};
static struct {
    struct real_io *real;
    struct peer *all;
    char address[64];
    struct shared *shared;
    struct timer look;
    uint64_t reconnects;
} child;

static void dial(struct peer *o);

static void on_message(void *owner, struct rpc_client_call *call, struct str bytes)
{
    (void)owner, (void)call, (void)bytes;
    __atomic_add_fetch(&child.shared->heard, 1, __ATOMIC_RELAXED);
}

/* The server ended the call: connect again at once. */
static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct peer *o = owner;

    (void)call, (void)outcome;
    timer_start_in(&o->retry, 1);
}

static void on_retry(struct timer *timer)
{
    dial(CONTAINER_OF(timer, struct peer, retry));
}

static const struct rpc_call_events call_events = {on_message, NULL, on_end};

static void dial(struct peer *o)
{
    char hello[64];
    int len = snprintf(hello + 4, sizeof hello - 4, "cluster-%05zu", o->number);

    hello[0] = 0x0a;
    hello[1] = (char)(len + 2);
    hello[2] = 0x0a;
    hello[3] = (char)len;
    MUST(!rpc_call_start(o->channel,
                         &(struct rpc_call_options){.path = "/bigfleet.v1alpha1.Shard/Session",
                                                    .wait_for_ready = true,
                                                    .attempts_max = 1},
                         &call_events, o, &o->call));
    MUST(!rpc_call_send(o->call, str_of(hello, (size_t)len + 4)));
}

/* All operators hang up at once on command, and come back. */
static void on_look(struct timer *timer)
{
    uint64_t asked = __atomic_load_n(&child.shared->reconnects, __ATOMIC_RELAXED);

    timer_start_in(timer, 5);
    if (asked == child.reconnects) return;
    child.reconnects = asked;
    for (size_t i = 0; i < sessions_count; i++) rpc_call_cancel(child.all[i].call);
}

static void operators_run(void)
{
    const char *addresses[] = {child.address, NULL};

    MUST(!real_io_open(&child.real));
    child.all = calloc(sessions_count, sizeof *child.all);
    for (size_t i = 0; i < sessions_count; i++) {
        struct peer *o = &child.all[i];
        o->number = i;
        MUST(!timer_init(&o->retry, real_io_io(child.real)->loop, on_retry));
        MUST(!rpc_channel_open(
            &(struct rpc_channel_options){.io = real_io_io(child.real), .addresses = addresses},
            &o->channel, NULL));
        dial(o);
        if (i % 100 == 0) real_io_turn(child.real, false);
    }
    MUST(!timer_init(&child.look, real_io_io(child.real)->loop, on_look));
    timer_start_in(&child.look, 5);
    real_io_run(child.real);
}

/* -- the shard's side -- */

static struct sessions *sessions;
static size_t opened;

static void on_open(void *owner, struct str cluster, enum operator_link)
{
    (void)owner, (void)cluster;
    opened++;
}
static void on_close(void *owner, struct str cluster)
{
    (void)owner, (void)cluster;
}
static void on_rollup(void *owner, struct rollup *rollup)
{
    (void)owner;
    sessions_rollup_done(sessions, rollup, ROLLUP_ACKNOWLEDGED);
}
static void on_blob(void *owner, struct session_blob *request, enum blob_end end,
                    struct str content)
{
    (void)owner, (void)request, (void)end, (void)content;
}
static void on_drain_report(void *owner, const struct drain_report *report)
{
    (void)owner, (void)report;
}
static const struct sessions_events events = {on_open, on_close, on_rollup, on_blob,
                                              on_drain_report};

static struct machine sample_machine(struct dimensions *dimensions)
{
    static const struct label labels[] = {{{"kubernetes.io/arch", 18}, {"amd64", 5}},
                                          {{"pool", 4}, {"batch", 5}}};
    static const struct label amounts[] = {{{"cpu", 3}, {"96", 2}}, {{"memory", 6}, {"384Gi", 5}}};
    struct machine m = {.id = STR("machine-000123456"),
                        .state = MACHINE_CONFIGURED,
                        .host_provider = STR("cloud"),
                        .host_ref = STR("aws:///eu-west-1a/i-0123456789abcdef0"),
                        .attributes = {STR("m5.24xlarge"), STR("eu-west-1a"), labels, 2},
                        .last_error = STR_EMPTY};

    MUST(!resources_parse(dimensions, "resources", amounts, 2, &m.resources, NULL));
    return m;
}

static void send_round(struct str frame)
{
    for (size_t i = 0; i < sessions_count; i++) {
        char cluster[32];
        int len = snprintf(cluster, sizeof cluster, "cluster-%05zu", i);
        sessions_node_state(sessions, str_of(cluster, (size_t)len), STR("machine-000123456"), false,
                            frame);
    }
}

/* The operators' counters wake nobody here: an idle loop looks again after a short sleep. */
static void turn_until(struct real_io *real, const uint64_t *value, uint64_t at_least)
{
    while (__atomic_load_n(value, __ATOMIC_RELAXED) < at_least) {
        real_io_turn(real, false);
        usleep(500);
    }
}

/* Two ends of one connection over loopback. */
static void tcp_pair(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    MUST(!bind(listener, (struct sockaddr *)&address, len) && !listen(listener, 1));
    MUST(!getsockname(listener, (struct sockaddr *)&address, &len));
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    MUST(!connect(ends[0], (struct sockaddr *)&address, len));
    MUST(!setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
    ends[1] = accept(listener, NULL, NULL);
    MUST(ends[1] >= 0);
    close(listener);
}

/* The same bytes written to a bare socket. */
static double bare_write_ns(struct str frame)
{
    int ends[2];
    char sink[1 << 16];
    double before, spent = 0;
    size_t writes = 20000;

    tcp_pair(ends);
    for (size_t i = 0; i < writes; i++) {
        before = cpu_ns();
        MUST(write(ends[0], frame.at, frame.len) == (ssize_t)frame.len);
        spent += cpu_ns() - before;
        MUST(read(ends[1], sink, sizeof sink) > 0);
    }
    close(ends[0]);
    close(ends[1]);
    return spent / (double)writes;
}

static void measure_rollup(void)
{
    struct dimensions dimensions;
    struct rollup_rows rows;
    struct arena arena;
    struct buf bytes, row, part;
    struct pack pack;
    double before;

    buf_init(&bytes, 256 << 20);
    buf_init(&row, 1 << 20);
    buf_init(&part, 1 << 20);
    pack = (struct pack){&bytes, ERR_OK};
    pack_text(&pack, 1, STR("cluster-a"));
    pack_u64(&pack, 2, 1700000000000000000);
    for (size_t i = 0; i < ROWS; i++) {
        struct pack need = pack_begin(&row);
        char zone[32];
        struct pack requirement = pack_begin(&part);
        snprintf(zone, sizeof zone, "zone-%zu", i);
        pack_text(&requirement, 1, STR("topology.kubernetes.io/zone"));
        pack_u64(&requirement, 2, 1);
        pack_text(&requirement, 3, str_from(zone));
        pack_row(&need, 1, &requirement);
        pack_pair(&need, 2, STR("cpu"), STR("96"), &part);
        pack_pair(&need, 2, STR("memory"), STR("384Gi"), &part);
        pack_u64(&need, 3, 1000);
        pack_pair(&need, 8, STR("cpu"), STR("4"), &part);
        pack_row(&pack, 3, &need);
    }
    MUST(!pack.err);
    arena_init(&arena, (size_t)1 << 30);
    dimensions_init(&dimensions);
    before = cpu_ns();
    MUST(!rollup_read(buf_peek(&bytes), STR("cluster-a"), 0, &arena, &dimensions, &rows, NULL));
    printf("roll-up of %zu rows, %.1f MB: %.2f us a row, %.0f MB while it is read\n", rows.count,
           (double)bytes.len / 1e6, (cpu_ns() - before) / 1e3 / ROWS, (double)arena.used / 1e6);
    arena_deinit(&arena);
    dimensions_deinit(&dimensions);
    buf_deinit(&bytes);
    buf_deinit(&row);
    buf_deinit(&part);
}

static void measure_sessions(struct shared *shared, pid_t *ret_child)
{
    struct rpc_server_limits limits = {0};
    struct dimensions dimensions;
    struct frame_writer writer;
    struct rpc_server *server;
    struct real_io *real;
    struct machine machine;
    double before, write_ns, send_ns;
    size_t resident, frames = ROUNDS * sessions_count;
    uint64_t base;

    MUST(!real_io_open(&real));
    MUST(!sessions_open(&(struct sessions_options){.io = real_io_io(real), .events = &events},
                        &sessions));
    sessions_server_limits(sessions, &limits);
    MUST(!rpc_server_open(&(struct rpc_server_options){.io = real_io_io(real), .limits = limits},
                          &server, NULL));
    MUST(!sessions_serve(sessions, server, NULL));
    MUST(!rpc_server_listen(server, "127.0.0.1:0", NULL, NULL));
    snprintf(child.address, sizeof child.address, "%s", rpc_server_address(server, 0));
    resident = resident_bytes();
    *ret_child = fork();
    MUST(*ret_child >= 0);
    if (*ret_child == 0) {
        operators_run();
        _exit(0);
    }
    before = cpu_ns();
    turn_until(real, &shared->heard, sessions_count);
    MUST(sessions_stats(sessions).active == sessions_count);
    printf("%zu sessions: %.1f us of CPU to open one, %.1f KiB each while idle\n", sessions_count,
           (cpu_ns() - before) / 1e3 / (double)sessions_count,
           (double)(resident_bytes() - resident) / 1024 / (double)sessions_count);

    dimensions_init(&dimensions);
    frame_writer_init(&writer);
    machine = sample_machine(&dimensions);
    before = cpu_ns();
    for (size_t i = 0; i < frames; i++)
        MUST(!frame_write_node_state(&writer, STR("cluster-00000"), &machine, &dimensions));
    write_ns = (cpu_ns() - before) / (double)frames;
    before = cpu_ns();
    base = shared->heard;
    for (size_t i = 0; i < ROUNDS; i++) {
        send_round(buf_peek(&writer.frame));
        turn_until(real, &shared->heard, base + (i + 1) * sessions_count);
    }
    send_ns = (cpu_ns() - before) / (double)frames;
    printf("a NodeStateUpdate of %zu bytes: %.2f us to write, %.2f us to send to a session of its "
           "own (bare write: %.2f us)\n",
           writer.frame.len, write_ns / 1e3, send_ns / 1e3,
           bare_write_ns(buf_peek(&writer.frame)) / 1e3);

    /* Many at once, as a resync has them: one connection, one flush. */
    before = cpu_ns();
    base = shared->heard;
    for (size_t i = 0; i < 100000; i++) {
        char name[32];
        int len = snprintf(name, sizeof name, "machine-%zu", i);
        sessions_node_state(sessions, STR("cluster-00007"), str_of(name, (size_t)len), false,
                            buf_peek(&writer.frame));
    }
    turn_until(real, &shared->heard, base + 100000);
    printf("a resync of 100,000 machines to one session: %.2f us a frame\n",
           (cpu_ns() - before) / 1e3 / 100000);

    before = cpu_ns();
    opened = 0;
    __atomic_store_n(&shared->reconnects, 1, __ATOMIC_RELAXED);
    while (opened < sessions_count) real_io_turn(real, true);
    printf("all %zu hang up and come back: %.1f us of CPU each\n", sessions_count,
           (cpu_ns() - before) / 1e3 / (double)sessions_count);
    frame_writer_deinit(&writer);
    dimensions_deinit(&dimensions);
}

int main(int argc, char **argv)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t operators;

    MUST(shared != MAP_FAILED);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) sessions_count = strtoul(argv[1], NULL, 10);
    MUST(sessions_count > 8 && sessions_count <= SESSIONS_MAX);
    child.shared = shared;
    measure_rollup();
    measure_sessions(shared, &operators);
    kill(operators, SIGKILL);
    waitpid(operators, NULL, 0);
    return 0; /* the system frees the rest */
}
