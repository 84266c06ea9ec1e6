/* SPDX-License-Identifier: Apache-2.0 */
/* The fleet tables at their normal size and at ten times that: commands a second, bytes a domain,
 * a snapshot's time and size, restoring it. Beside each: an insert into a bare hash map of the same
 * keys, and a copy of the same bytes. */
#include <string.h>

#include "base/map.h"
#include "base/prng.h"
#include "bench.h"
#include "fleet/format/command.h"
#include "fleet/format/state.h"

enum { SHARDS = 2000, KEY_CAP = 64, SLICE = 256 << 10 };

static double now_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

struct data {
    size_t count;
    uint32_t *order; /* a shuffle */
    char (*values)[16];
    char shards[SHARDS][16];
    struct buf commands; /* the JSON of all assignments, in shuffled order */
    size_t *ends;
};

static struct fleet_command assignment(const struct data *d, size_t i)
{
    size_t domain = d->order[i];

    return (struct fleet_command){FLEET_ASSIGN_DOMAIN,
                                  .assign_domain = {STR("topology.kubernetes.io/rack"),
                                                    str_from(d->values[domain]),
                                                    str_from(d->shards[domain % SHARDS])}};
}

static void data_make(struct data *d, size_t count)
{
    struct prng prng;

    prng_seed(&prng, 1);
    d->count = count;
    d->order = malloc(count * sizeof d->order[0]);
    d->values = malloc(count * sizeof d->values[0]);
    d->ends = malloc(count * sizeof d->ends[0]);
    MUST(d->order && d->values && d->ends);
    for (size_t i = 0; i < count; i++) {
        size_t other = prng_below(&prng, i + 1);
        d->order[i] = d->order[other];
        d->order[other] = (uint32_t)i;
        snprintf(d->values[i], sizeof d->values[i], "rack-%07zu", i);
    }
    for (size_t i = 0; i < SHARDS; i++)
        snprintf(d->shards[i], sizeof d->shards[i], "shard-%04zu", i);
    buf_init(&d->commands, (size_t)1 << 30);
    for (size_t i = 0; i < count; i++) {
        struct fleet_command command = assignment(d, i);
        MUST(fleet_command_encode(&command, &d->commands) == ERR_OK);
        d->ends[i] = d->commands.len;
    }
}

static void data_free(struct data *d)
{
    free(d->order);
    free(d->values);
    free(d->ends);
    buf_deinit(&d->commands);
}

static struct fleet *fleet_with_shards(const struct data *d)
{
    struct fleet *fleet;

    MUST(fleet_open(&fleet) == ERR_OK);
    for (size_t i = 0; i < SHARDS; i++) {
        struct fleet_command command = {
            FLEET_ADD_SHARD,
            .add_shard = {.id = str_from(d->shards[i]), .address = STR("host:7780")}};
        MUST(fleet_apply(fleet, &command).status == FLEET_DONE);
    }
    return fleet;
}

static void row(const char *what, size_t count, double ns, const char *peer, double peer_ns)
{
    printf("  %-34s %9.0f ns each %10.0f/s   %s %.0f ns each, ratio %.2f\n", what,
           ns / (double)count, (double)count * 1e9 / ns, peer, peer_ns / (double)count,
           ns / peer_ns);
}

static double bare_map(const struct data *d)
{
    struct map map;
    double start;

    map_init(&map, MAP_MOST, 1);
    start = now_ns();
    for (size_t i = 0; i < d->count; i++) {
        char *value = d->values[d->order[i]];
        MUST(map_put(&map, str_from(value), value) == ERR_OK);
    }
    start = now_ns() - start;
    map_deinit(&map);
    return start;
}

static void run_commands(const struct data *d, struct fleet *fleet, bool text)
{
    struct fleet_result result;
    struct arena arena;

    arena_init(&arena, 1 << 20);
    for (size_t i = 0, at = 0; i < d->count; at = d->ends[i++]) {
        struct fleet_command command;
        arena_reset(&arena);
        if (text)
            MUST(fleet_command_decode(str_of(d->commands.data + at, d->ends[i] - at), &arena,
                                      &command, &result, NULL) == ERR_OK);
        else
            command = assignment(d, i);
        MUST(fleet_apply(fleet, &command).changed);
    }
    arena_deinit(&arena);
}

/* The slices are put together outside of the time: the log hands each to its disk thread. */
static void write_all(struct fleet *fleet, struct buf *text, double *ret_ns, double *ret_slice_ns)
{
    struct fleet_state_writer *writer;
    struct buf slice;
    bool done = false;
    double start = now_ns(), ns;

    *ret_slice_ns = *ret_ns = 0;
    buf_init(&slice, (size_t)2 * SLICE);
    MUST(fleet_state_write_open(fleet, (struct fleet_state_style){.sealed = true}, &writer) ==
         ERR_OK);
    while (!done) {
        buf_clear(&slice);
        MUST(fleet_state_write_next(writer, SLICE, &slice, &done) == ERR_OK);
        ns = now_ns() - start;
        *ret_ns += ns;
        if (ns > *ret_slice_ns) *ret_slice_ns = ns;
        MUST(buf_append(text, buf_peek(&slice)) == ERR_OK);
        start = now_ns();
    }
    fleet_state_write_close(writer);
    buf_deinit(&slice);
}

static double read_all(struct fleet *fleet, struct str text)
{
    struct fleet_state_options options = {.fleet = fleet, .strict = true};
    struct fleet_state_summary summary;
    struct fleet_state_reader *reader;
    double start = now_ns();

    MUST(fleet_state_read_begin(&options, &reader) == ERR_OK);
    for (; text.len > 0; text = str_tail(text, SLICE))
        MUST(fleet_state_read_next(reader, str_of(text.at, min_size(text.len, SLICE)), NULL) ==
             ERR_OK);
    MUST(fleet_state_read_end(reader, &summary, NULL) == ERR_OK);
    fleet_state_read_close(reader);
    return now_ns() - start;
}

static double copy_all(struct str text)
{
    char *copy = malloc(text.len);
    double start;

    MUST(copy);
    memset(copy, 1, text.len); /* its pages are there */
    start = now_ns();
    memcpy(copy, text.at, text.len);
    start = now_ns() - start;
    MUST(copy[text.len / 2] == text.at[text.len / 2]);
    free(copy);
    return start;
}

static void bench(size_t count)
{
    struct fleet *fleet, *copy;
    struct fleet_walk walk = {0};
    struct fleet_row found;
    struct data d;
    struct buf text;
    double bare, ns, slice_ns, copy_ns;
    uint64_t empty;

    data_make(&d, count);
    printf("%zu domains, %d shards, in random order\n", count, SHARDS);
    bare = bare_map(&d);
    fleet = fleet_with_shards(&d);
    empty = fleet_bytes(fleet);
    ns = now_ns();
    run_commands(&d, fleet, false);
    row("AssignDomain, as a struct", count, now_ns() - ns, "bare map insert", bare);
    printf("  %-34s %9.1f bytes each, names of 12 bytes\n", "memory of a domain",
           (double)(fleet_bytes(fleet) - empty) / (double)count);
    copy = fleet_with_shards(&d);
    ns = now_ns();
    run_commands(&d, copy, true);
    row("AssignDomain, from the log's JSON", count, now_ns() - ns, "bare map insert", bare);
    MUST(fleet_hash(copy) == fleet_hash(fleet));
    ns = now_ns();
    for (size_t i = 0; i < count; i++) {
        struct fleet_command command = assignment(&d, i);
        MUST(fleet_find(fleet, FLEET_DOMAINS, command.assign_domain.key,
                        command.assign_domain.value, &found));
    }
    row("lookup", count, now_ns() - ns, "bare map insert", bare);
    ns = now_ns();
    for (size_t i = 0; i < count; i++) MUST(fleet_next_assignment(fleet, &walk, &found));
    row("listing, by shard", count, now_ns() - ns, "bare map insert", bare);
    buf_init(&text, (size_t)1 << 30);
    write_all(fleet, &text, &ns, &slice_ns);
    copy_ns = copy_all(buf_peek(&text));
    printf("  %-34s %9.1f ms for %.1f MB, longest slice %.2f ms; copying as much %.1f ms\n",
           "snapshot, slices of 256 KiB", ns / 1e6, (double)text.len / 1e6, slice_ns / 1e6,
           copy_ns / 1e6);
    fleet_clear(copy);
    ns = read_all(copy, buf_peek(&text));
    MUST(fleet_hash(copy) == fleet_hash(fleet));
    printf("  %-34s %9.1f ms; copying as much %.1f ms\n", "restore", ns / 1e6, copy_ns / 1e6);
    ns = now_ns();
    for (size_t i = 0; i < SHARDS; i++) {
        struct fleet_command command = {FLEET_REMOVE_SHARD, .remove_shard = str_from(d.shards[i])};
        MUST(fleet_apply(copy, &command).domains_freed == count / SHARDS);
    }
    row("RemoveShard, per domain it owned", count, now_ns() - ns, "bare map insert", bare);
    buf_deinit(&text);
    fleet_close(fleet);
    fleet_close(copy);
    data_free(&d);
}

int main(void)
{
    bench(100000);
    bench(1000000);
    return 0;
}
