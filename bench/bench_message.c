/* SPDX-License-Identifier: Apache-2.0 */
/* One machine and a List of 10,000: our reader (guard, then decode into an arena) beside
 * protobuf-c's own with malloc and free, in the same run; the guard alone; the streaming decoder;
 * writing.
 *
 * The machine has 14 fields and 6 labels, as a provider would send it. Best of several rounds, so
 * that a neighbour's burst does not count. */
#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_provider.pb-c.h"

enum { MACHINES = 10000, SINGLES = 20000, ROUNDS = 7, MEMORY = 256 << 20, LABELS = 6 };
#define MACHINE (&bigfleet__v1alpha1__machine__descriptor)
#define LIST    (&bigfleet__v1alpha1__machine_list__descriptor)

typedef Bigfleet__V1alpha1__Machine machine;
typedef Bigfleet__V1alpha1__MachineList machine_list;

static void must(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "bench_message: %s\n", what);
    exit(1);
}

/* -- the messages -- */

__attribute__((format(printf, 2, 3))) static char *text(struct arena *arena, const char *format,
                                                        ...)
{
    char *at = arena_alloc(arena, 64);
    va_list args;

    must(at != NULL, "no memory");
    va_start(args, format);
    vsnprintf(at, 64, format, args);
    va_end(args);
    return at;
}

static Bigfleet__V1alpha1__Resources *resources(struct arena *arena, int number)
{
    Bigfleet__V1alpha1__Resources *r = arena_alloc(arena, sizeof *r);

    bigfleet__v1alpha1__resources__init(r);
    r->n_resources = 2;
    r->resources = arena_calloc(arena, 2, sizeof *r->resources);
    for (int i = 0; i < 2; i++) {
        r->resources[i] = arena_alloc(arena, sizeof **r->resources);
        bigfleet__v1alpha1__resources__resources_entry__init(r->resources[i]);
        r->resources[i]->key = text(arena, "%s", i ? "memory" : "cpu");
        r->resources[i]->value = text(arena, "%d%s", 4 + number % 60, i ? "Gi" : "");
    }
    return r;
}

static machine *machine_at(struct arena *arena, int number)
{
    static const char *const keys[LABELS] = {
        "topology.example.org/zone", "topology.example.org/rack", "node.example.org/instance-type",
        "node.example.org/arch",     "node.example.org/os",       "team"};
    machine *m = arena_alloc(arena, sizeof *m);

    bigfleet__v1alpha1__machine__init(m);
    m->id = text(arena, "machine-%08d", number);
    m->state = (Bigfleet__V1alpha1__MachineState)(1 + number % 8);
    m->host = arena_alloc(arena, sizeof *m->host);
    bigfleet__v1alpha1__host_ref__init(m->host);
    m->host->provider = text(arena, "cloud-%d", number % 3);
    m->host->ref = text(arena, "i-0123456789ab%05d", number);
    m->instance_type = text(arena, "m%d.2xlarge", number % 7);
    m->zone = text(arena, "region-1%c", 'a' + number % 3);
    m->capacity_type = (Bigfleet__V1alpha1__CapacityType)(1 + number % 4);
    m->price_per_hour = 0.25 + number % 100;
    m->interruption_probability = 0.01;
    m->resources = resources(arena, number);
    m->cluster = text(arena, "cluster-%d", number % 40);
    m->n_labels = LABELS;
    m->labels = arena_calloc(arena, LABELS, sizeof *m->labels);
    for (int i = 0; i < LABELS; i++) {
        m->labels[i] = arena_alloc(arena, sizeof **m->labels);
        bigfleet__v1alpha1__machine__labels_entry__init(m->labels[i]);
        m->labels[i]->key = text(arena, "%s", keys[i]);
        m->labels[i]->value = text(arena, "value-%d", number % 50);
    }
    return m;
}

/* -- the jobs: each handles the bytes once -- */

struct job {
    const ProtobufCMessageDescriptor *type;
    struct str bytes;
    const ProtobufCMessage *message;
    struct arena arena;
    struct buf out;
    uint64_t seen;
};

static void guard_only(struct job *job)
{
    must(message_guard(job->type, job->bytes, NULL, NULL) == ERR_OK, "guard");
}

static void read_ours(struct job *job)
{
    ProtobufCMessage *message = NULL;

    must(message_read(job->type, job->bytes, NULL, &job->arena, &message, NULL) == ERR_OK, "read");
    arena_reset(&job->arena);
}

static void read_malloc(struct job *job)
{
    ProtobufCMessage *message =
        protobuf_c_message_unpack(job->type, NULL, job->bytes.len, (const uint8_t *)job->bytes.at);

    must(message != NULL, "unpack");
    protobuf_c_message_free_unpacked(message, NULL);
}

static enum err see(void *owner, struct str bytes, size_t len)
{
    struct job *job = owner;
    ProtobufCMessage *element = NULL;

    must(bytes.len == len, "whole");
    must(message_read(MACHINE, bytes, NULL, &job->arena, &element, NULL) == ERR_OK, "element");
    job->seen++;
    arena_reset(&job->arena);
    return ERR_OK;
}

static void read_stream(struct job *job)
{
    struct message_stream *stream = NULL;
    ProtobufCMessage *rest = NULL;
    struct str left = job->bytes;

    job->seen = 0;
    must(message_stream_open_raw(LIST, "machines", 1 << 16, 1 << 16, see, job, &stream) == ERR_OK,
         "open");
    while (left.len > 0) { /* as it comes from a connection */
        size_t len = min_size(left.len, 16 << 10);
        must(message_stream_feed(stream, str_of(left.at, len), NULL) == ERR_OK, "feed");
        left = str_tail(left, len);
    }
    must(message_stream_end(stream, &job->arena, &rest, NULL) == ERR_OK, "end");
    must(job->seen == MACHINES, "count");
    message_stream_close(stream);
    arena_reset(&job->arena);
}

static void write_ours(struct job *job)
{
    buf_clear(&job->out);
    must(message_write(job->message, &job->out, NULL) == ERR_OK, "write");
}

static double measure(const char *name, struct job *job, void (*run)(struct job *), int times,
                      double unit, double against)
{
    double best_cpu = 1e18, best_wall = 1e18;

    for (int round = 0; round < ROUNDS; round++) {
        double wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < times; i++) run(job);
        cpu = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / times;
        wall = (clock_ns(CLOCK_MONOTONIC) - wall) / times;
        if (cpu < best_cpu) best_cpu = cpu;
        if (wall < best_wall) best_wall = wall;
    }
    printf("  %-34s %10.1f %10.1f", name, best_wall / unit, best_cpu / unit);
    if (against > 0) printf("  %5.2f", best_cpu / against);
    printf("\n");
    return best_cpu;
}

static void bench(const char *title, struct job *job, int times, double unit, bool list)
{
    double plain;

    printf("%s, %zu bytes; columns: wall, CPU, CPU as a part of protobuf-c with malloc\n", title,
           job->bytes.len);
    plain = measure("read, protobuf-c with malloc", job, read_malloc, times, unit, 0);
    measure("read, ours (guard and arena)", job, read_ours, times, unit, plain);
    measure("  of which the guard", job, guard_only, times, unit, plain);
    if (list) measure("read, streamed in 16 KiB pieces", job, read_stream, times, unit, plain);
    measure("write", job, write_ours, times, unit, plain);
}

int main(void)
{
    struct arena arena;
    struct buf one, many;
    machine_list list = BIGFLEET__V1ALPHA1__MACHINE_LIST__INIT;
    struct job job = {.type = MACHINE};

    arena_init(&arena, MEMORY);
    arena_init(&job.arena, MEMORY);
    buf_init(&one, MEMORY);
    buf_init(&many, MEMORY);
    buf_init(&job.out, MEMORY);
    list.n_machines = MACHINES;
    list.machines = arena_calloc(&arena, MACHINES, sizeof *list.machines);
    for (int i = 0; i < MACHINES; i++) list.machines[i] = machine_at(&arena, i);
    must(message_write(&list.machines[0]->base, &one, NULL) == ERR_OK, "one");
    must(message_write(&list.base, &many, NULL) == ERR_OK, "many");

    job.bytes = buf_peek(&one);
    job.message = &list.machines[0]->base;
    bench("one machine (ns)", &job, SINGLES, 1, false);
    job.type = LIST;
    job.bytes = buf_peek(&many);
    job.message = &list.base;
    bench("a List of 10,000 (ms)", &job, 1, 1e6, true);

    buf_deinit(&job.out);
    buf_deinit(&many);
    buf_deinit(&one);
    arena_deinit(&job.arena);
    arena_deinit(&arena);
    return 0;
}
