/* SPDX-License-Identifier: Apache-2.0 */
/* muster-beats: a fleet of workers that only beat, for bench_heartbeat.py.
 *
 * Each worker sends rollout's Beat once an interval, at times spread evenly over the interval,
 * whether or not earlier beats were answered; a latency counts from the time when the beat was due.
 * Workers share connections as configured; `--second` adds to each a warm connection to the next
 * target, as our own workers have, and a beat whose server is gone goes there. A worker whose last
 * acknowledged beat was sent longer ago than the fence counts as fenced, once until the next
 * acknowledgement.
 *
 * All workers join first, a bounded number at a time (each join is a replicated write); then the
 * measurement begins. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_tls.h"
#include "cpu.h"
#include "io/real.h"
#include "latency.h"
#include "rpc/client.h"

enum {
    TARGETS_MAX = 16,
    WORKERS_MAX = 1 << 20,
    CONNECTIONS_MORE = 64, /* of one line, when the server's limit on streams is reached */
    TICK_MS = 1,
    JOINING_MAX = 512,
    STOP_WITHIN_MS = 5000,
    BEAT_TIMEOUT_MS = 1000,
    READY = 2,
};
#define PATH      "/rollout.transport.v1.Heartbeat/Beat"
#define WORKER_ID "01ARZ3NDEKTSV4RRFF00000000" /* the last digits are the worker's number */

struct fleet;
struct beater {
    struct fleet *fleet;
    uint64_t sent_ns, due_ns; /* of the beat in flight */
    uint64_t ok_ns;           /* when the last acknowledged one was sent */
    bool under_way, joined, fenced;
};
struct plan {
    const char *targets[TARGETS_MAX + 1];
    size_t target_count, workers, connections, first;
    uint64_t interval_ms, fence_ms;
    double seconds, warmup_seconds;
    const char *run;
    struct client_tls tls;
    bool second, json;
};
struct fleet {
    struct plan plan;
    struct real_io *real;
    struct io *io;
    struct tls_context *tls;
    struct rpc_channel **lines;
    struct beater *workers;
    struct timer tick, phase;
    enum { JOINING, WARMING, MEASURING, STOPPING } state;
    size_t joined, joining, join_next, lines_open, under_way;
    uint64_t pace_began_ns, paced; /* beats begun since */
    struct latency latency;
    uint64_t beats, errors, overlapped, fenced, began_ns, ended_ns;
    struct cpu_meter cpu;
    char first_error[256];
};

static uint64_t now_ns(const struct fleet *f)
{
    return clock_mono_ns(f->io->clock).ns;
}

static void die(const char *what, const char *text)
{
    fprintf(stderr, "muster-beats: %s: %s\n", what, text);
    exit(1);
}

/* -- one beat -- */

static size_t put_varint(char *at, uint64_t value)
{
    size_t len = 0;

    while (value > 127) {
        at[len++] = (char)((value & 127) | 128);
        value >>= 7;
    }
    at[len++] = (char)value;
    return len;
}

static size_t put_text(char *at, char tag, const char *text)
{
    size_t len = strlen(text);

    at[0] = tag;
    at[1] = (char)len;
    memcpy(at + 2, text, len);
    return len + 2;
}

/* A BeatRequest: worker, due two intervals from now, Ready, run id. */
static size_t make_beat(const struct fleet *f, size_t number, char *request)
{
    char id[] = WORKER_ID, due[24];
    uint64_t due_ms = (uint64_t)clock_wall(f->io->clock).ms + 2 * f->plan.interval_ms;
    size_t len = 0, due_len = 0;

    for (size_t digit = sizeof id - 1; number > 0; number /= 10)
        id[--digit] = (char)('0' + number % 10);
    due[due_len++] = 0x08;
    due_len += put_varint(due + due_len, due_ms / 1000);
    due[due_len++] = 0x10;
    due_len += put_varint(due + due_len, due_ms % 1000 * 1000000);
    len += put_text(request, 0x0a, id);
    request[len++] = 0x12;
    request[len++] = (char)due_len;
    memcpy(request + len, due, due_len);
    len += due_len;
    request[len++] = 0x18;
    request[len++] = READY;
    return len + put_text(request + len, 0x22, f->plan.run);
}

static void join_more(struct fleet *f);

static void answered(void *owner, const struct rpc_client_call *call,
                     const struct rpc_outcome *outcome, struct str message)
{
    struct beater *w = owner;
    struct fleet *f = w->fleet;
    bool counts = f->state == MEASURING && w->due_ns >= f->began_ns;

    (void)call;
    (void)message;
    w->under_way = false;
    f->under_way--;
    if (!outcome->err) {
        w->ok_ns = w->sent_ns;
        w->fenced = false;
        if (counts) latency_add(&f->latency, now_ns(f) - w->due_ns);
        f->beats += counts;
    } else {
        f->errors += counts;
        /* As our own workers: use the warm connection, and do not dial for a late answer. */
        if (f->state != JOINING && outcome->status == GRPC_DEADLINE_EXCEEDED && !outcome->answered)
            rpc_channel_answer_late(f->lines[(size_t)(w - f->workers) % f->plan.connections],
                                    2 * BEAT_TIMEOUT_MS);
        if (!f->first_error[0])
            snprintf(f->first_error, sizeof f->first_error, "%s: %.*s", err_name(outcome->err),
                     STR_ARG(outcome->text));
    }
    if (!w->joined && f->state == JOINING) {
        f->joining--;
        w->joined = !outcome->err;
        f->joined += w->joined;
        if (!w->joined) f->join_next = 0; /* it joins again in its turn */
        join_more(f);
    }
    if (f->state == STOPPING && f->under_way == 0) real_io_stop(f->real);
}

static void beat(struct beater *w, uint64_t due_ns)
{
    struct fleet *f = w->fleet;
    size_t number = (size_t)(w - f->workers);
    char request[128];
    size_t len = make_beat(f, f->plan.first + number, request);
    struct rpc_call_options options = {.path = PATH,
                                       .timeout_ms = f->state == JOINING ? 10000 : BEAT_TIMEOUT_MS,
                                       .attempts_max = f->state == JOINING ? 0 : 1,
                                       .idempotent = true,
                                       .wait_for_ready = true,
                                       .untraced = true};

    w->due_ns = due_ns;
    w->sent_ns = now_ns(f);
    if (rpc_unary(f->lines[number % f->plan.connections], &options, str_of(request, len), answered,
                  w, NULL))
        die("cannot begin a beat", "the channel is full");
    w->under_way = true;
    f->under_way++;
}

/* -- joining, then time -- */

static void join_more(struct fleet *f)
{
    size_t looked = 0;

    while (f->joining < JOINING_MAX && looked++ < f->plan.workers) {
        struct beater *w = &f->workers[f->join_next++ % f->plan.workers];
        if (w->joined || w->under_way) continue;
        f->joining++;
        beat(w, now_ns(f));
    }
    if (f->joined < f->plan.workers || f->state != JOINING) return;
    f->state = WARMING;
    f->pace_began_ns = now_ns(f);
    timer_start_in(&f->phase, (uint64_t)(f->plan.warmup_seconds * MS_PER_SECOND));
    timer_start_in(&f->tick, 0);
}

/* Sends every beat that is due: the workers in turn, `workers` of them an interval. */
static void on_tick(struct timer *timer)
{
    struct fleet *f = CONTAINER_OF(timer, struct fleet, tick);
    double step_ns = (double)f->plan.interval_ms * 1e6 / (double)f->plan.workers;
    uint64_t now = now_ns(f);

    while (f->state != STOPPING) {
        uint64_t due_ns = f->pace_began_ns + (uint64_t)((double)f->paced * step_ns);
        struct beater *w = &f->workers[f->paced % f->plan.workers];
        if (due_ns > now) break;
        f->paced++;
        if (!w->fenced && now - w->ok_ns > f->plan.fence_ms * 1000000) {
            w->fenced = true;
            f->fenced += f->state == MEASURING;
        }
        if (w->under_way)
            f->overlapped += f->state == MEASURING; /* the previous beat is not answered yet */
        else
            beat(w, due_ns);
    }
    if (f->state != STOPPING) timer_start_in(timer, TICK_MS);
}

static void on_phase(struct timer *timer)
{
    struct fleet *f = CONTAINER_OF(timer, struct fleet, phase);

    if (f->state == WARMING) {
        f->state = MEASURING;
        f->began_ns = now_ns(f);
        cpu_meter_begin(&f->cpu);
        timer_start_in(timer, (uint64_t)(f->plan.seconds * MS_PER_SECOND));
    } else if (f->state == MEASURING) {
        f->ended_ns = now_ns(f);
        cpu_meter_end(&f->cpu);
        f->state = STOPPING;
        timer_start_in(timer, STOP_WITHIN_MS);
        if (f->under_way == 0) real_io_stop(f->real);
    } else {
        real_io_stop(f->real);
    }
}

/* -- set-up -- */

static void line_closed(void *owner)
{
    struct fleet *f = owner;

    if (--f->lines_open == 0) real_io_stop(f->real);
}

static void open_lines(struct fleet *f)
{
    struct note note = {0};
    enum err err = client_tls_open(&f->plan.tls, f->io, &f->tls, &note);

    f->lines = calloc(f->plan.connections, sizeof *f->lines);
    f->workers = calloc(f->plan.workers, sizeof *f->workers);
    if (!f->lines || !f->workers) err = ERR_NOMEM;
    for (size_t i = 0; !err && i < f->plan.connections; i++) {
        /* Each line begins with its own target, so several share the load. */
        const char *addresses[TARGETS_MAX + 1] = {0};
        for (size_t t = 0; t < f->plan.target_count; t++)
            addresses[t] = f->plan.targets[(i + t) % f->plan.target_count];
        err = rpc_channel_open(
            &(struct rpc_channel_options){.io = f->io,
                                          .addresses = addresses,
                                          .tls = f->tls,
                                          .tls_name = f->plan.tls.name,
                                          .warm_second = f->plan.second && f->plan.target_count > 1,
                                          .dial_timeout_ms = 30000,
                                          .backoff_first_ms = 5000, /* not all at once */
                                          .ping_after_ms = 10000,
                                          .ping_timeout_ms = 2000,
                                          .calls_max = WORKERS_MAX,
                                          .connections_max = CONNECTIONS_MORE},
            &f->lines[i], &note);
    }
    if (err) die("open", note.text[0] ? note.text : err_text(err));
}

static bool all_ready(const struct fleet *f)
{
    for (size_t i = 0; i < f->plan.connections; i++) {
        if (!rpc_channel_ready(f->lines[i])) return false;
        if (f->plan.second && f->plan.target_count > 1 && !rpc_channel_warm_peer(f->lines[i])[0])
            return false;
    }
    return true;
}

static void run(struct fleet *f)
{
    while (!all_ready(f)) real_io_turn(f->real, true);
    for (size_t i = 0; i < f->plan.workers; i++) f->workers[i].fleet = f;
    f->state = JOINING;
    join_more(f);
    real_io_run(f->real);
    timer_stop(&f->tick);
    f->lines_open = f->plan.connections;
    for (size_t i = 0; i < f->plan.connections; i++) rpc_channel_close(f->lines[i], line_closed, f);
    real_io_run(f->real);
}

static void print(const struct fleet *f)
{
    double seconds = (double)(f->ended_ns - f->began_ns) / 1e9, beats = (double)f->beats;
    double beats_or_1 = beats > 0 ? beats : 1;
    size_t sockets = f->plan.connections * (f->plan.second && f->plan.target_count > 1 ? 2 : 1);

    printf(f->plan.json ? "{\"workers\":%zu,\"connections\":%zu,\"rate\":%.0f,\"errors\":%" PRIu64
                          ",\"overlapped\":%" PRIu64 ",\"fenced\":%" PRIu64
                          ",\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"max_ms\":%.3f"
                          ",\"server_cpu_us\":%.2f,\"client_cpu_us\":%.2f}\n"
                        : "%zu workers on %zu connections: %.0f beats/s, %" PRIu64
                          " errors, %" PRIu64 " overlapped, %" PRIu64
                          " fenced; p50 %.3f ms, p99 %.3f ms, p99.9 %.3f ms, max "
                          "%.3f ms; CPU a beat: servers %.2f us, this %.2f us\n",
           f->plan.workers, sockets, beats / seconds, f->errors, f->overlapped, f->fenced,
           (double)latency_at(&f->latency, 0.5) / 1e6, (double)latency_at(&f->latency, 0.99) / 1e6,
           (double)latency_at(&f->latency, 0.999) / 1e6, (double)f->latency.max_ns / 1e6,
           (double)cpu_meter_servers_ns(&f->cpu) / beats_or_1 / 1000,
           (double)f->cpu.own_ns / beats_or_1 / 1000);
    if (f->first_error[0]) fprintf(stderr, "muster-beats: first error: %s\n", f->first_error);
}

static const char usage[] =
    "usage: muster-beats --target ADDRESS [--target ...] --run ULID [options]\n"
    "  --workers N        100     --connections C  as many as workers, at most 500\n"
    "  --first N          0; number of the first worker, for several fleets at once\n"
    "  --second           a ready connection to the next target beside each\n"
    "  --interval-ms T    500     --fence-ms T     4000\n"
    "  --seconds S        5       --warmup S       1\n"
    "  --tls-ca F [--tls-cert F --tls-key F] [--tls-name HOST]\n"
    "  --pid P            a server whose CPU to read; may be repeated\n"
    "  --json             one line for programs\n"
    "exit codes: 0 done, 1 failed, 2 wrong options\n";

static bool parse(struct plan *p, struct cpu_meter *cpu, int argc, char **argv)
{
    enum {
        TARGET = 256,
        RUN,
        FIRST,
        WORKERS,
        CONNECTIONS,
        SECOND,
        INTERVAL,
        FENCE,
        SECONDS,
        WARMUP
    };
    enum { CA = 300, CERT, KEY, NAME, PID, JSON };
    static const struct option options[] = {
        {"target", 1, NULL, TARGET},
        {"run", 1, NULL, RUN},
        {"first", 1, NULL, FIRST},
        {"workers", 1, NULL, WORKERS},
        {"connections", 1, NULL, CONNECTIONS},
        {"second", 0, NULL, SECOND},
        {"interval-ms", 1, NULL, INTERVAL},
        {"fence-ms", 1, NULL, FENCE},
        {"seconds", 1, NULL, SECONDS},
        {"warmup", 1, NULL, WARMUP},
        {"tls-ca", 1, NULL, CA},
        {"tls-cert", 1, NULL, CERT},
        {"tls-key", 1, NULL, KEY},
        {"tls-name", 1, NULL, NAME},
        {"pid", 1, NULL, PID},
        {"json", 0, NULL, JSON},
        {0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case TARGET:
            if (p->target_count == TARGETS_MAX) return false;
            p->targets[p->target_count++] = optarg;
            break;
        case RUN: p->run = optarg; break;
        case FIRST: p->first = strtoul(optarg, NULL, 10); break;
        case WORKERS: p->workers = strtoul(optarg, NULL, 10); break;
        case CONNECTIONS: p->connections = strtoul(optarg, NULL, 10); break;
        case SECOND: p->second = true; break;
        case INTERVAL: p->interval_ms = strtoull(optarg, NULL, 10); break;
        case FENCE: p->fence_ms = strtoull(optarg, NULL, 10); break;
        case SECONDS: p->seconds = strtod(optarg, NULL); break;
        case WARMUP: p->warmup_seconds = strtod(optarg, NULL); break;
        case CA: p->tls.ca = optarg; break;
        case CERT: p->tls.cert = optarg; break;
        case KEY: p->tls.key = optarg; break;
        case NAME: p->tls.name = optarg; break;
        case PID:
            if (!cpu_meter_add(cpu, optarg)) return false;
            break;
        case JSON: p->json = true; break;
        default: return false;
        }
    }
    if (p->connections == 0) p->connections = p->workers < 500 ? p->workers : 500;
    return optind == argc && p->target_count > 0 && p->run && strlen(p->run) == 26 &&
           p->workers >= 1 && p->workers <= WORKERS_MAX && p->connections >= 1 &&
           p->connections <= p->workers && p->interval_ms >= 1 && p->seconds > 0 &&
           p->warmup_seconds >= 0;
}

int main(int argc, char **argv)
{
    static struct fleet fleet;
    struct fleet *f = &fleet;

    f->plan = (struct plan){
        .workers = 100, .interval_ms = 500, .fence_ms = 4000, .seconds = 5, .warmup_seconds = 1};
    if (!parse(&f->plan, &f->cpu, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    if (real_io_open(&f->real)) return 1;
    f->io = real_io_io(f->real);
    if (timer_init(&f->tick, f->io->loop, on_tick) || timer_init(&f->phase, f->io->loop, on_phase))
        return 1;
    open_lines(f);
    run(f);
    print(f);
    timer_deinit(&f->tick);
    timer_deinit(&f->phase);
    tls_context_unref(f->tls);
    free(f->lines);
    free(f->workers);
    real_io_close(f->real);
    return f->beats > 0 ? 0 : 1;
}
