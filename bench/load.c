/* SPDX-License-Identifier: Apache-2.0 */
/* muster-load: a gRPC load generator, for every bench that needs one.
 *
 * Closed loop (default): `--streams` calls are always under way, spread over `--connections`; the
 * next begins when one ends. Open loop (`--rate`): calls begin at fixed moments whether or not
 * others have ended, and a latency counts from the moment the call was meant to begin, so a server
 * that stalls is not flattered by a client that waits for it. `--kind bidi`: each stream is one
 * long call, and a message with its answer is counted.
 *
 * One thread; latencies in a histogram that is right to 1.6 %. The CPU time of the servers given by
 * `--pid` is read from /proc over the measured part only, after `--warmup`. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

enum { STOP_WITHIN_MS = 10000, TICK_MS = 1, VARY_DIGITS_MIN = 3, CONNECTIONS_MORE = 64 };

uint64_t load_now_ns(const struct load *l)
{
    return clock_mono_ns(l->io->clock).ns;
}

void load_die(const char *what, struct str text)
{
    fprintf(stderr, "muster-load: %s: %.*s\n", what, STR_ARG(text));
    exit(1);
}

/* -- results -- */

static void count(struct load *l, const struct rpc_outcome *outcome)
{
    if (l->state != MEASURING) return;
    l->by_status[outcome->status]++;
    if (!outcome->err) return;
    l->errors++;
    l->unknown += outcome->err == ERR_UNKNOWN;
    if (!l->first_error[0])
        snprintf(l->first_error, sizeof l->first_error, "%s: %.*s", err_name(outcome->err),
                 STR_ARG(outcome->text));
}

static void count_good(struct load *l, uint64_t began_ns, size_t operations)
{
    if (l->state != MEASURING || began_ns < l->began_ns) return;
    l->calls += operations;
    latency_add(&l->latency, load_now_ns(l) - began_ns);
}

static void count_refused(struct load *l, struct str message)
{
    if (l->state != MEASURING) return;
    l->errors++;
    if (l->first_error[0]) return;
    snprintf(l->first_error, sizeof l->first_error, "refused by an answer of %zu bytes",
             message.len);
}

static void stop_measuring(struct load *l);

void load_stop_if_done(struct load *l)
{
    if (l->running > 0) return;
    if (l->state == STOPPING)
        real_io_stop(l->real);
    else if (l->plan.count && l->begun >= l->plan.count)
        stop_measuring(l);
}

/* -- unary -- */

static void call_next(struct slot *slot);

/* Handles the answer: begins the operation's next call, or ends it. */
static void work_answered(struct slot *slot, struct str message)
{
    struct load *l = slot->load;
    const struct work *work = l->plan.work;
    int done = work ? work->answered(slot, message) : 1;

    if (done < 0)
        count_refused(l, message);
    else if (done == 0 && l->state != STOPPING)
        call_next(slot);
    else if (done > 0 && !(work && work->watched))
        count_good(l, slot->began_ns, (size_t)done);
    if (done < 0) slot->outstanding = 0;
    if (done != 0 && slot->outstanding == 0) load_begin(slot);
}

static void unary_done(void *owner, const struct rpc_client_call *call,
                       const struct rpc_outcome *outcome, struct str message)
{
    struct slot *slot = owner;
    struct load *l = slot->load;

    (void)call;
    l->running--;
    count(l, outcome);
    if (l->plan.work && l->plan.work->watched) slot->step = 0;
    if (l->plan.rate > 0) {
        if (!outcome->err) count_good(l, slot->began_ns, 1);
        free(slot);
    } else if (!outcome->err) {
        work_answered(slot, message);
    } else {
        slot->step = slot->outstanding = 0;
        load_begin(slot);
    }
    load_stop_if_done(l);
}

static struct rpc_call_options call_options(const struct load *l)
{
    return (struct rpc_call_options){.path = l->plan.path,
                                     .timeout_ms = l->plan.timeout_ms,
                                     .wait_for_ready = true,
                                     .idempotent = l->plan.idempotent,
                                     .untraced = !l->plan.trace,
                                     .response_max = REQUEST_MAX};
}

/* -- bidi: one long call per stream -- */

static const char *next_request(struct slot *slot);

/* A message, or a store's batch of them. */
static void bidi_send(struct slot *slot)
{
    struct load *l = slot->load;

    slot->began_ns = load_now_ns(l);
    slot->outstanding = l->plan.work ? l->plan.batch : 1;
    for (size_t i = 0; i < slot->outstanding; i++) {
        if (l->plan.work) (void)next_request(slot);
        if (rpc_call_send(slot->call, buf_peek(&l->request))) rpc_call_cancel(slot->call);
    }
}

static void bidi_message(void *owner, struct rpc_client_call *call, struct str message)
{
    struct slot *slot = owner;
    struct load *l = slot->load;

    if (l->plan.work && l->plan.work->answered(slot, message) < 0) count_refused(l, message);
    if (slot->outstanding == 0 || --slot->outstanding > 0) return;
    count_good(l, slot->began_ns, l->plan.work ? l->plan.batch : 1);
    if (l->state == STOPPING)
        rpc_call_end(call);
    else
        bidi_send(slot);
}

static void bidi_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct slot *slot = owner;
    struct load *l = slot->load;

    (void)call;
    l->running--;
    slot->call = NULL;
    if (l->state != STOPPING) {
        count(l, outcome);
        load_begin(slot);
    }
    load_stop_if_done(l);
}

/* -- a request of its own for each call -- */

static bool is_place(const struct buf *request, size_t at, size_t *ret_len)
{
    size_t len = 0;

    while (at + len < request->len && request->data[at + len] == '#') len++;
    *ret_len = len;
    return len >= VARY_DIGITS_MIN;
}

/* Finds the runs of '#' once; they are digits afterwards. */
static void find_places(struct load *l)
{
    for (size_t at = 0, len; at < l->request.len; at += len + 1) {
        if (!is_place(&l->request, at, &len)) continue;
        if (l->place_count == ARRAY_LEN(l->places)) break;
        l->places[l->place_count++] = (struct place){at, len};
    }
}

static void vary(struct load *l)
{
    for (size_t i = 0; i < l->place_count; i++) {
        uint64_t number = l->varied % l->plan.vary;

        for (size_t digit = l->places[i].len; digit-- > 0; number /= 10)
            l->request.data[l->places[i].at + digit] = (char)('0' + number % 10);
    }
    l->varied++;
}

static const struct rpc_call_events bidi_events = {bidi_message, NULL, bidi_end};

/* Makes the slot's next request; its path. */
static const char *next_request(struct slot *slot)
{
    struct load *l = slot->load;

    if (l->plan.vary) vary(l);
    if (!l->plan.work) return l->plan.path;
    buf_clear(&l->request);
    return l->plan.work->next(slot, &l->request);
}

static void call_next(struct slot *slot)
{
    struct load *l = slot->load;
    struct rpc_call_options options = call_options(l);
    enum err err;

    options.path = next_request(slot);
    if (l->plan.bidi)
        err = rpc_call_start(slot->channel, &options, &bidi_events, slot, &slot->call);
    else
        err = rpc_unary(slot->channel, &options, buf_peek(&l->request), unary_done, slot, NULL);
    if (err) load_die("cannot begin a call", str_from(err_text(err)));
    l->running++;
    if (l->plan.bidi) bidi_send(slot);
}

void load_begin(struct slot *slot)
{
    struct load *l = slot->load;

    if (l->state == STOPPING || (l->plan.count && l->begun >= l->plan.count)) return;
    l->begun++;
    if (l->plan.rate <= 0) slot->began_ns = load_now_ns(l);
    if (l->plan.work && l->plan.work->watched) {
        slot->step = 1;
        slot->outstanding = l->plan.watchers;
    }
    call_next(slot);
}

/* -- the open loop: begins all due calls; latencies count from the due times -- */

static void on_tick(struct timer *timer)
{
    struct load *l = CONTAINER_OF(timer, struct load, tick);
    uint64_t step_ns = (uint64_t)((double)NS_PER_SECOND / l->plan.rate);
    uint64_t now = load_now_ns(l);

    while (l->state != STOPPING) {
        uint64_t due_ns = l->ended_ns + l->due_calls * step_ns; /* ended_ns: when ticking began */
        struct slot *slot;
        if (due_ns > now) break;
        l->due_calls++;
        if (l->running >= l->plan.streams) {
            l->missed += l->state == MEASURING; /* the bound on calls that wait for the server */
            continue;
        }
        slot = malloc(sizeof *slot);
        if (!slot) break;
        *slot = (struct slot){.load = l,
                              .channel = l->channels[l->next_channel++ % l->plan.connections],
                              .began_ns = due_ns};
        load_begin(slot);
    }
    if (l->state != STOPPING) timer_start_in(timer, TICK_MS);
}

/* -- phases -- */

static void start_measuring(struct load *l)
{
    l->state = MEASURING;
    l->began_ns = load_now_ns(l);
    cpu_meter_begin(&l->cpu);
    timer_start_in(&l->phase, (uint64_t)(l->plan.seconds * MS_PER_SECOND));
}

static void stop_measuring(struct load *l)
{
    l->ended_ns = load_now_ns(l);
    cpu_meter_end(&l->cpu);
    l->state = STOPPING;
    timer_stop(&l->tick);
    timer_start_in(&l->phase, STOP_WITHIN_MS);
    load_stop_if_done(l);
}

static void on_phase(struct timer *timer)
{
    struct load *l = CONTAINER_OF(timer, struct load, phase);

    if (l->state == WARMING)
        start_measuring(l);
    else if (l->state == MEASURING)
        stop_measuring(l);
    else
        real_io_stop(l->real); /* some never ended; closing ends them */
}

static void channel_closed(void *owner)
{
    struct load *l = owner;

    if (--l->channels_open == 0) real_io_stop(l->real);
}

/* -- printing -- */

static double us(uint64_t ns)
{
    return (double)ns / 1000;
}

static void print_json(const struct load *l, double seconds)
{
    const struct latency *h = &l->latency;

    printf("{\"calls\":%" PRIu64 ",\"seconds\":%.3f,\"rate\":%.1f,\"errors\":%" PRIu64
           ",\"unknown\":%" PRIu64 ",\"missed\":%" PRIu64
           ",\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f"
           ",\"mean_us\":%.1f,\"server_cpu_us_per_call\":%.3f,\"client_cpu_us_per_call\":%.3f}\n",
           l->calls, seconds, (double)l->calls / seconds, l->errors, l->unknown, l->missed,
           us(latency_at(h, 0.5)), us(latency_at(h, 0.9)), us(latency_at(h, 0.99)),
           us(latency_at(h, 0.999)), us(h->max_ns),
           h->count ? h->sum_ns / (double)h->count / 1000 : 0,
           l->calls ? (double)cpu_meter_servers_ns(&l->cpu) / (double)l->calls / 1000 : 0,
           l->calls ? (double)l->cpu.own_ns / (double)l->calls / 1000 : 0);
}

static void print_text(const struct load *l, double seconds)
{
    const struct latency *h = &l->latency;

    if (l->plan.rate > 0)
        printf("open loop, %.0f/s over %zu connections", l->plan.rate, l->plan.connections);
    else
        printf("closed loop, %zu streams over %zu connections", l->plan.streams,
               l->plan.connections);
    printf(", %s %s, %.1f s\n", l->plan.bidi ? "bidi" : "unary", l->plan.path, seconds);
    printf("  rate     %10.0f /s   (%" PRIu64 " done, %" PRIu64 " errors, %" PRIu64
           " of unknown outcome, %" PRIu64 " missed)\n",
           (double)l->calls / seconds, l->calls, l->errors, l->unknown, l->missed);
    printf("  latency  p50 %.0f us, p90 %.0f us, p99 %.0f us, p99.9 %.0f us, max %.0f us\n",
           us(latency_at(h, 0.5)), us(latency_at(h, 0.9)), us(latency_at(h, 0.99)),
           us(latency_at(h, 0.999)), us(h->max_ns));
    for (size_t i = 0; i < l->cpu.count; i++)
        printf("  cpu      pid %d: %.2f us per call, %.2f cores\n", (int)l->cpu.pids[i],
               l->calls ? (double)l->cpu.spent_ns[i] / (double)l->calls / 1000 : 0,
               (double)l->cpu.spent_ns[i] / (seconds * 1e9));
    printf("  cpu      this generator: %.2f us per call, %.2f cores\n",
           l->calls ? (double)l->cpu.own_ns / (double)l->calls / 1000 : 0,
           (double)l->cpu.own_ns / (seconds * 1e9));
    for (size_t i = 1; i < ARRAY_LEN(l->by_status); i++)
        if (l->by_status[i])
            printf("  status   %s: %" PRIu64 "\n", grpc_status_name((enum grpc_status)i),
                   l->by_status[i]);
    if (l->first_error[0]) printf("  first    %s\n", l->first_error);
}

/* -- set-up -- */

/* An EchoRequest with a payload (field 2), or plain bytes, or the bytes of a file. */
static void make_request(struct load *l)
{
    size_t len = l->plan.payload;
    char *room;

    buf_init(&l->request, REQUEST_MAX);
    if (l->plan.request_file) {
        FILE *file = fopen(l->plan.request_file, "rb");
        char block[4096];
        size_t got;
        if (!file) load_die(l->plan.request_file, STR("cannot be read"));
        while ((got = fread(block, 1, sizeof block, file)) > 0)
            if (buf_append(&l->request, str_of(block, got))) exit(1);
        fclose(file);
        return;
    }
    if (!l->plan.raw && len > 0) {
        if (buf_append_byte(&l->request, 0x12)) exit(1);
        for (size_t n = len;; n >>= 7) {
            if (buf_append_byte(&l->request, (char)(n > 127 ? (n & 127) | 128 : n))) exit(1);
            if (n <= 127) break;
        }
    }
    if (buf_reserve(&l->request, len, &room)) exit(1);
    if (len > 0) memset(room, 'x', len);
    buf_commit(&l->request, len);
}

static size_t channel_count(const struct load *l)
{
    return l->plan.connections + (l->plan.watchers ? l->plan.watch_connections : 0);
}

static void open_channels(struct load *l)
{
    struct note note = {0};
    enum err err = client_tls_open(&l->plan.tls, l->io, &l->tls, &note);

    l->channels = calloc(channel_count(l), sizeof *l->channels);
    l->slots = calloc(l->plan.streams, sizeof *l->slots);
    if (!l->channels || !l->slots) err = ERR_NOMEM;
    for (size_t i = 0; !err && i < channel_count(l); i++) {
        /* Each connection begins with its own target, so several share the load. */
        const char *addresses[] = {l->plan.targets[i % l->plan.target_count], NULL};
        err = rpc_channel_open(&(struct rpc_channel_options){.io = l->io,
                                                             .addresses = addresses,
                                                             .tls = l->tls,
                                                             .tls_name = l->plan.tls.name,
                                                             .calls_max = STREAMS_MAX,
                                                             .connections_max = CONNECTIONS_MORE},
                               &l->channels[i], &note);
    }
    if (err) load_die("open", str_from(note.text[0] ? note.text : err_text(err)));
}

static bool all_ready(const struct load *l)
{
    for (size_t i = 0; i < channel_count(l); i++)
        if (!rpc_channel_ready(l->channels[i])) return false;
    return true;
}

static void run(struct load *l)
{
    while (!all_ready(l)) real_io_turn(l->real, true);
    if (l->plan.watchers) watches_open(l);
    l->state = WARMING;
    if (l->plan.count)
        start_measuring(l);
    else
        timer_start_in(&l->phase, (uint64_t)(l->plan.warmup_seconds * MS_PER_SECOND));
    if (l->plan.rate > 0) {
        l->ended_ns = load_now_ns(l);
        timer_start_in(&l->tick, 0);
    } else {
        for (size_t i = 0; i < l->plan.streams; i++) {
            l->slots[i] = (struct slot){
                .load = l, .channel = l->channels[i % l->plan.connections], .number = i};
            load_begin(&l->slots[i]);
        }
    }
    real_io_run(l->real);
    watches_end(l);
    l->channels_open = channel_count(l);
    for (size_t i = 0; i < channel_count(l); i++)
        rpc_channel_close(l->channels[i], channel_closed, l);
    real_io_run(l->real);
}

static const char usage[] =
    "usage: muster-load --target ADDRESS [--target ...] [options]\n"
    "  --connections M      1       --streams N   64 (closed loop: under way; open loop: at most)\n"
    "  --seconds S          5       --warmup S    1\n"
    "  --rate R             open loop, calls a second\n"
    "  --kind unary|bidi    unary\n"
    "  --path /S/M          /muster.test.v1.Echo/Unary (or /Bidi)\n"
    "  --payload BYTES      16, in an EchoRequest; --raw: as they are; --request-file F: F's "
    "bytes\n"
    "  --vary N             each run of ### in the request is a number below N, another for each "
    "call\n"
    "  --store muster|etcd --op put|create|cas|get|get-stale|claim|lease|renew|watch\n"
    "                       in place of --path: operations of a store\n"
    "    --prefix P           bench; of the keys      --value BYTES  256\n"
    "    --keys N             no end; get, renew: those there are\n"
    "    --batch N            1; renew: leases at once\n"
    "    --watchers N         watch: how many         --watch-connections N  10\n"
    "  --count N            so many operations instead of seconds\n"
    "  --timeout-ms T       none    --idempotent  a lost call is asked again\n"
    "  --trace              a traceparent with each call, as our own clients send and stock ones "
    "do "
    "not\n"
    "  --tls-ca F [--tls-cert F --tls-key F] [--tls-name HOST]\n"
    "  --pid P              a server whose CPU to read; may be repeated\n"
    "  --json               one line for programs    --allow-errors  exit 0 all the same\n"
    "exit codes: 0 done, 1 failed or calls failed, 2 wrong options\n";

static int misused(const char *what)
{
    fprintf(stderr, "muster-load: %s\n%s", what, usage);
    return 2;
}

static bool parse(struct plan *p, struct cpu_meter *cpu, int argc, char **argv)
{
    enum {
        CONNECTIONS = 256,
        STREAMS,
        SECONDS,
        WARMUP,
        RATE,
        KIND,
        PATH,
        PAYLOAD,
        RAW,
        REQUEST,
        VARY,
        TIMEOUT,
        IDEMPOTENT,
        TRACE,
        CA,
        CERT,
        KEY,
        NAME,
        PID,
        JSON,
        ALLOW,
        TARGET,
        STORE,
        OP,
        PREFIX,
        VALUE,
        KEYS,
        BATCH,
        WATCHERS,
        WATCH_CONNECTIONS,
        COUNT
    };
    static const struct option options[] = {
        {"target", 1, NULL, TARGET},
        {"connections", 1, NULL, CONNECTIONS},
        {"streams", 1, NULL, STREAMS},
        {"seconds", 1, NULL, SECONDS},
        {"warmup", 1, NULL, WARMUP},
        {"rate", 1, NULL, RATE},
        {"kind", 1, NULL, KIND},
        {"path", 1, NULL, PATH},
        {"payload", 1, NULL, PAYLOAD},
        {"raw", 0, NULL, RAW},
        {"request-file", 1, NULL, REQUEST},
        {"vary", 1, NULL, VARY},
        {"timeout-ms", 1, NULL, TIMEOUT},
        {"idempotent", 0, NULL, IDEMPOTENT},
        {"trace", 0, NULL, TRACE},
        {"tls-ca", 1, NULL, CA},
        {"tls-cert", 1, NULL, CERT},
        {"tls-key", 1, NULL, KEY},
        {"tls-name", 1, NULL, NAME},
        {"pid", 1, NULL, PID},
        {"json", 0, NULL, JSON},
        {"allow-errors", 0, NULL, ALLOW},
        {"store", 1, NULL, STORE},
        {"op", 1, NULL, OP},
        {"prefix", 1, NULL, PREFIX},
        {"value", 1, NULL, VALUE},
        {"keys", 1, NULL, KEYS},
        {"batch", 1, NULL, BATCH},
        {"watchers", 1, NULL, WATCHERS},
        {"watch-connections", 1, NULL, WATCH_CONNECTIONS},
        {"count", 1, NULL, COUNT},
        {0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case TARGET:
            if (p->target_count == TARGETS_MAX) return false;
            p->targets[p->target_count++] = optarg;
            break;
        case CONNECTIONS: p->connections = strtoul(optarg, NULL, 10); break;
        case STREAMS: p->streams = strtoul(optarg, NULL, 10); break;
        case SECONDS: p->seconds = strtod(optarg, NULL); break;
        case WARMUP: p->warmup_seconds = strtod(optarg, NULL); break;
        case RATE: p->rate = strtod(optarg, NULL); break;
        case KIND:
            p->bidi = strcmp(optarg, "bidi") == 0;
            if (!p->bidi && strcmp(optarg, "unary") != 0) return false;
            break;
        case PATH: p->path = optarg; break;
        case PAYLOAD: p->payload = strtoul(optarg, NULL, 10); break;
        case RAW: p->raw = true; break;
        case REQUEST: p->request_file = optarg; break;
        case VARY: p->vary = strtoull(optarg, NULL, 10); break;
        case TIMEOUT: p->timeout_ms = strtoull(optarg, NULL, 10); break;
        case IDEMPOTENT: p->idempotent = true; break;
        case TRACE: p->trace = true; break;
        case CA: p->tls.ca = optarg; break;
        case CERT: p->tls.cert = optarg; break;
        case KEY: p->tls.key = optarg; break;
        case NAME: p->tls.name = optarg; break;
        case PID:
            if (!cpu_meter_add(cpu, optarg)) return false;
            break;
        case JSON: p->json = true; break;
        case ALLOW: p->allow_errors = true; break;
        case STORE: p->store = optarg; break;
        case OP: p->op = optarg; break;
        case PREFIX: p->prefix = optarg; break;
        case VALUE: p->value = strtoul(optarg, NULL, 10); break;
        case KEYS: p->keys = strtoull(optarg, NULL, 10); break;
        case BATCH: p->batch = strtoul(optarg, NULL, 10); break;
        case WATCHERS: p->watchers = strtoul(optarg, NULL, 10); break;
        case WATCH_CONNECTIONS: p->watch_connections = strtoul(optarg, NULL, 10); break;
        case COUNT: p->count = strtoull(optarg, NULL, 10); break;
        default: return false;
        }
    }
    if (p->store || p->op) {
        p->work = p->store && p->op ? load_work(p->store, p->op) : NULL;
        if (!p->work || p->path || p->rate > 0) return false;
        if (p->work->watched != (p->watchers > 0)) return false;
        p->bidi = p->work->bidi;
        p->path = p->work->name;
    }
    if (!p->path) p->path = p->bidi ? "/muster.test.v1.Echo/Bidi" : "/muster.test.v1.Echo/Unary";
    return optind == argc;
}

int main(int argc, char **argv)
{
    static struct load load;
    struct load *l = &load;
    double seconds;
    bool failed;

    l->plan = (struct plan){.connections = 1,
                            .streams = 64,
                            .seconds = 5,
                            .warmup_seconds = 1,
                            .payload = 16,
                            .prefix = "bench",
                            .value = 256,
                            .batch = 1,
                            .watch_connections = 10};
    if (!parse(&l->plan, &l->cpu, argc, argv)) return misused("wrong options");
    if (l->plan.target_count == 0) return misused("--target is missing");
    if (l->plan.connections < 1 || l->plan.connections > CONNECTIONS_MAX || l->plan.streams < 1 ||
        l->plan.streams > STREAMS_MAX || !(l->plan.seconds > 0) || !(l->plan.warmup_seconds >= 0) ||
        l->plan.payload > REQUEST_MAX / 2 || l->plan.batch < 1 || l->plan.batch > 1024 ||
        l->plan.watch_connections < 1 || strlen(l->plan.prefix) > 200)
        return misused("a number is out of range");
    if (l->plan.bidi && l->plan.rate > 0) return misused("bidi has no open loop");
    if (real_io_open(&l->real)) return 1;
    l->io = real_io_io(l->real);
    if (timer_init(&l->phase, l->io->loop, on_phase) || timer_init(&l->tick, l->io->loop, on_tick))
        return 1;
    make_request(l);
    if (l->plan.vary) find_places(l);
    open_channels(l);
    run(l);
    seconds = (double)(l->ended_ns - l->began_ns) / 1e9;
    if (l->plan.json)
        print_json(l, seconds);
    else
        print_text(l, seconds);
    failed = l->errors > 0 || l->calls == 0;
    timer_deinit(&l->phase);
    timer_deinit(&l->tick);
    watches_close(l);
    tls_context_unref(l->tls);
    buf_deinit(&l->request);
    free(l->channels);
    free(l->slots);
    real_io_close(l->real);
    return failed && !l->plan.allow_errors ? 1 : 0;
}
