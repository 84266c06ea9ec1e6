/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a provider for its shard: a List of 500,000 machines, received, decoded and merged;
 * mutating calls, 40,000 under way.
 *
 * Peer in the same run: the same List by the generated decoder (message_stream). The provider is
 * provider_stub, a process of its own. CPU, not time: it is the shard's that has a budget, half a
 * second for the List, merging included, and little of a core for 5,000 calls a second.
 *
 *   bench_provider [MACHINES [LATENCY_MS]]     `decode` behind it, for callgrind: that part only */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tests/lib/machine_write.h"
#include "bench.h"
#include "io/real.h"
#include "model/metadata.h"
#include "provider/client.h"
#include "provider/list.h"
#include "shard/core/core.h"
#include "shard/plan/generate.h"
#include "wire/message.h"
#include "wire/pack.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"

enum { ROUNDS = 5, CHUNK = 256 << 10, CALLS_AT_ONCE = 40000, CALLS = 200000 };

static struct generate_options fleet = {.machines = 500000, .clusters = 200, .seed = 1};
static const char *latency = "1000";

/* --- decoding --- */

static uint64_t seen, refused;

struct merging {
    struct core *core;
    struct effects effects;
    mono_time now;
};

static enum err on_machine(void *context, const struct machine_record *record)
{
    (void)context;
    seen += record->machine.id.len > 0;
    return ERR_OK;
}
static void on_refused(void *context, struct str id, const char *why)
{
    (void)context;
    (void)id;
    (void)why;
    refused++;
}
static void on_removed(void *context, struct str id)
{
    (void)context;
    (void)id;
}
static const struct provider_list_events list_events = {on_machine, on_refused, on_removed};

/* Merges a machine as the shard does. */
static enum err merge_machine(void *context, const struct machine_record *record)
{
    struct merging *m = context;

    seen++;
    return core_list_machine(m->core, &record->machine, record->metadata, record->metadata_count,
                             m->now, &m->effects);
}

static enum err on_element(void *owner, struct str bytes, size_t len)
{
    struct arena *arena = owner;
    ProtobufCMessage *element;

    MUST(bytes.len == len);
    MUST(!message_read(&bigfleet__v1alpha1__machine__descriptor, bytes, NULL, arena, &element,
                       NULL));
    arena_reset(arena);
    seen++;
    return ERR_OK;
}

static void make_list(struct buf *list)
{
    struct pack pack = {list, ERR_OK};
    struct dimensions dimensions;
    struct arena arena;
    struct buf one;

    dimensions_init(&dimensions);
    arena_init(&arena, 16 << 20);
    buf_init(&one, 1 << 20);
    for (uint32_t i = 0; i < fleet.machines; i++) {
        struct label metadata[METADATA_MAX];
        struct machine_record record = {.metadata = metadata};
        struct machine_metadata m;
        arena_reset(&arena);
        buf_clear(&one);
        MUST(!generate_machine(&fleet, i, &arena, &dimensions, &record.machine));
        m = (struct machine_metadata){record.machine.stamp, record.machine.destination,
                                      record.machine.promised};
        if (record.machine.cluster.len > 0)
            MUST(!metadata_encode(&arena, &m, metadata, &record.metadata_count));
        MUST(!machine_write(&dimensions, &record, &one));
        pack_bytes(&pack, 1, buf_peek(&one));
    }
    MUST(!pack.err);
    buf_deinit(&one);
    arena_deinit(&arena);
    dimensions_deinit(&dimensions);
}

static double decode_ours(struct str bytes)
{
    struct dimensions dimensions;
    struct machine_reader *reader;
    struct provider_list *list;
    struct provider_list_end end;
    double began = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    dimensions_init(&dimensions);
    MUST(!machine_reader_open(&dimensions, &reader));
    MUST(!provider_list_open(reader, &list_events, NULL, &list));
    for (seen = 0; bytes.len > 0; bytes = str_tail(bytes, CHUNK))
        MUST(!provider_list_feed(list, str_of(bytes.at, min_size(CHUNK, bytes.len)), NULL));
    MUST(!provider_list_finish(list, &end, NULL) && seen == fleet.machines && !refused);
    provider_list_close(list);
    machine_reader_close(reader);
    dimensions_deinit(&dimensions);
    return clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

static double decode_and_merge(struct merging *m, struct str bytes)
{
    static const struct provider_list_events events = {merge_machine, on_refused, on_removed};
    double began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    struct machine_reader *reader;
    struct provider_list *list;
    struct provider_list_end end;

    MUST(!machine_reader_open(core_dimensions(m->core), &reader));
    MUST(!provider_list_open(reader, &events, m, &list));
    m->now.ms += 10000;
    core_list_begin(m->core, LIST_FULL);
    for (seen = 0; bytes.len > 0; bytes = str_tail(bytes, CHUNK))
        MUST(!provider_list_feed(list, str_of(bytes.at, min_size(CHUNK, bytes.len)), NULL));
    MUST(!provider_list_finish(list, &end, NULL) && seen == fleet.machines);
    core_list_end(m->core, end.whole, m->now, &m->effects);
    MUST(core_listed(m->core));
    provider_list_close(list);
    machine_reader_close(reader);
    effects_deinit(&m->effects);
    effects_init(&m->effects);
    return clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

static void bench_merge(struct str bytes)
{
    struct merging m = {.now = {1000}};
    double first, again = 1e18;

    effects_init(&m.effects);
    MUST(!core_open(&(struct core_options){0}, &m.core));
    first = decode_and_merge(&m, bytes);
    for (int i = 0; i < ROUNDS; i++) {
        double took = decode_and_merge(&m, bytes);
        again = took < again ? took : again;
    }
    printf("decoded and merged: %.2f s the first time, %.2f s (%.0f ns a machine) when nothing "
           "changed\n",
           first / 1e9, again / 1e9, again / fleet.machines);
    core_close(m.core);
    effects_deinit(&m.effects);
}

static double decode_theirs(struct str bytes)
{
    struct message_stream *stream;
    struct arena arena;
    double began = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    arena_init(&arena, 1 << 24);
    MUST(!message_stream_open_raw(&bigfleet__v1alpha1__machine_list__descriptor, "machines",
                                  PROVIDER_MACHINE_MAX, PROVIDER_MACHINE_MAX, on_element, &arena,
                                  &stream));
    for (seen = 0; bytes.len > 0; bytes = str_tail(bytes, CHUNK))
        MUST(!message_stream_feed(stream, str_of(bytes.at, min_size(CHUNK, bytes.len)), NULL));
    MUST(seen == fleet.machines);
    message_stream_close(stream);
    arena_deinit(&arena);
    return clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

static void bench_decode(bool once)
{
    double ours = 1e18, theirs = 1e18;
    struct buf list;

    buf_init(&list, INT32_MAX);
    make_list(&list);
    for (int i = 0; i < (once ? 1 : ROUNDS); i++) {
        double took = decode_ours(buf_peek(&list));
        ours = took < ours ? took : ours;
        if (once) continue;
        took = decode_theirs(buf_peek(&list));
        theirs = took < theirs ? took : theirs;
    }
    printf("decode %u machines, %.0f MB: %.0f ns a machine, %.2f s", fleet.machines,
           (double)list.len / 1e6, ours / fleet.machines, ours / 1e9);
    if (once)
        printf("\n");
    else
        printf("; generated decoder %.0f ns, %.1f times ours\n", theirs / fleet.machines,
               theirs / ours);
    if (!once) bench_merge(buf_peek(&list));
    buf_deinit(&list);
}

/* --- over a socket --- */

static struct {
    struct real_io *real;
    struct io *io;
    struct provider *provider;
    struct loop_worker *decider;
    struct machine_reader *reader;
    struct dimensions dimensions;
    struct provider_list *list;
    struct provider_list_end end;
    bool done;
    uint64_t asked, answered, good;
    double decide_ns; /* CPU of the decider's thread, after the last job */
} client;

struct piece {
    struct job job;
    struct provider_chunk *chunk; /* NULL: the end */
};

static void decode_piece(struct job *job)
{
    struct piece *piece = CONTAINER_OF(job, struct piece, job);

    if (piece->chunk)
        MUST(!provider_list_feed(client.list, piece->chunk->bytes, NULL));
    else
        MUST(!provider_list_finish(client.list, &client.end, NULL));
    client.decide_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void decoded(struct job *job, enum err err)
{
    struct piece *piece = CONTAINER_OF(job, struct piece, job);

    MUST(!err);
    if (piece->chunk)
        provider_chunk_done(piece->chunk);
    else
        client.done = true;
    free(piece);
}

static void submit(struct provider_chunk *chunk)
{
    struct piece *piece = calloc(1, sizeof *piece);

    MUST(piece);
    piece->chunk = chunk;
    job_init(&piece->job, decode_piece, decoded);
    MUST(!worker_submit(client.decider, &piece->job));
}

static void on_chunk(void *context, struct provider_chunk *own_chunk)
{
    (void)context;
    submit(own_chunk);
}

static void on_end(void *context, const struct provider_answer *answer)
{
    (void)context;
    MUST(answer->end == PROVIDER_DONE);
    submit(NULL);
}

static long rss_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void bench_list(void)
{
    static const struct provider_fetch_events events = {on_chunk, on_end};
    double best_loop = 1e18, best_decide = 1e18;

    for (int i = 0; i < ROUNDS; i++) {
        double loop = clock_ns(CLOCK_THREAD_CPUTIME_ID), decide = client.decide_ns;
        struct provider_fetch *fetch;
        client.done = false;
        seen = 0;
        MUST(!provider_list_open(client.reader, &list_events, NULL, &client.list));
        MUST(!provider_fetch_start(client.provider, &(struct provider_fetch_request){0}, &events,
                                   NULL, &fetch));
        while (!client.done) real_io_turn(client.real, true);
        MUST(seen == fleet.machines && client.end.whole);
        provider_list_close(client.list);
        loop = clock_ns(CLOCK_THREAD_CPUTIME_ID) - loop;
        decide = client.decide_ns - decide;
        if (loop + decide > best_loop + best_decide) continue;
        best_loop = loop;
        best_decide = decide;
    }
    printf(
        "List from a provider: %.2f s of CPU, %.2f receiving and %.2f decoding; %ld MiB at most\n",
        (best_loop + best_decide) / 1e9, best_loop / 1e9, best_decide / 1e9, rss_kib() / 1024);
}

static void on_answer(void *context, const struct provider_answer *answer)
{
    (void)context;
    client.answered++;
    client.good += answer->end == PROVIDER_DONE;
}

static void ask(uint64_t number)
{
    static const struct label metadata[] = {
        {{"bigfleet.lucy.sh/assigned-priority", 34}, {"900000", 6}},
        {{"bigfleet.lucy.sh/assigned-need-fingerprint", 42}, {"p=1000|ipb=6|rpb=6|reqs=|spr=", 29}},
    };
    static char blob[1024];
    struct arena arena;
    struct machine machine;
    struct provider_request request = {.verb = (enum provider_verb)(number % 4),
                                       .cluster = STR("cluster-1"),
                                       .blob = str_of(blob, sizeof blob),
                                       .metadata = metadata,
                                       .metadata_count = 2,
                                       .timeout_ms = 120000};

    arena_init(&arena, 1 << 20);
    MUST(!generate_machine(&fleet, (uint32_t)(number % fleet.machines), &arena, &client.dimensions,
                           &machine));
    request.machine = machine.id;
    MUST(!provider_call(client.provider, &request, on_answer, NULL));
    client.asked++;
    arena_deinit(&arena);
}

static void bench_calls(void)
{
    double began = clock_ns(CLOCK_MONOTONIC), cpu, making;
    uint32_t connections = 0, running = 0;
    struct arena arena;
    struct machine machine;

    cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    while (client.answered < CALLS) {
        while (client.asked < CALLS && client.asked - client.answered < CALLS_AT_ONCE)
            ask(client.asked);
        real_io_turn(client.real, true);
        if (provider_stats(client.provider).running > running)
            running = provider_stats(client.provider).running;
        connections = provider_stats(client.provider).connections;
    }
    cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    making = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint32_t i = 0; i < CALLS; i++) { /* the cost of the bench itself */
        arena_init(&arena, 1 << 20);
        MUST(!generate_machine(&fleet, i % fleet.machines, &arena, &client.dimensions, &machine));
        arena_deinit(&arena);
    }
    making = clock_ns(CLOCK_THREAD_CPUTIME_ID) - making;
    MUST(client.good == CALLS);
    printf("%d calls, %u at once on %u connections, answered after %s ms: %.1f us of CPU each, "
           "%.0f/s, %ld MiB at most\n",
           CALLS, running, connections, latency, (cpu - making) / CALLS / 1e3,
           CALLS / ((clock_ns(CLOCK_MONOTONIC) - began) / 1e9), rss_kib() / 1024);
}

/* --- the provider --- */

/* The stub ends with its input, and with this process. */
static FILE *start_stub(char address[100])
{
    char machines[16], needs[16], clusters[16];
    int in[2], out[2];
    FILE *lines;

    snprintf(machines, sizeof machines, "%u", fleet.machines);
    snprintf(needs, sizeof needs, "%u", fleet.needs);
    snprintf(clusters, sizeof clusters, "%u", fleet.clusters);
    MUST(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl(STUB_PROGRAM, "provider_stub", "127.0.0.1:0", machines, needs, clusters, latency,
              (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    lines = fdopen(out[0], "r");
    MUST(lines && fscanf(lines, "listening on %99s", address) == 1);
    fclose(lines);
    return fdopen(in[1], "w");
}

static void closed(void *owner)
{
    *(bool *)owner = true;
}

static void bench_client(void)
{
    char address[100];
    FILE *stub = start_stub(address);
    bool over = false;

    MUST(stub && !real_io_open(&client.real));
    client.io = real_io_io(client.real);
    dimensions_init(&client.dimensions);
    MUST(!machine_reader_open(&client.dimensions, &client.reader));
    MUST(!worker_open(client.io->loop, &(struct worker_options){"decide", 64}, &client.decider));
    MUST(!provider_open(
        &(struct provider_options){
            .io = client.io, .address = address, .shard_id = "bench", .epoch = 1},
        &client.provider, NULL));
    bench_list();
    bench_calls();
    provider_close(client.provider, closed, &over);
    while (!over) real_io_turn(client.real, true);
    worker_close(client.decider);
    machine_reader_close(client.reader);
    dimensions_deinit(&client.dimensions);
    real_io_close(client.real);
    fclose(stub);
    wait(NULL);
}

int main(int argc, char **argv)
{
    bool once = argc > 3;

    if (argc > 1) fleet.machines = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2) latency = argv[2];
    fleet.needs = fleet.machines / 10 + 1;
    if (!once) bench_client(); /* before there is a whole List in this process */
    bench_decode(once);
    return 0;
}
