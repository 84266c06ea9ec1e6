/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of base, each beside a peer in the same run:
 *   crc32c by instruction          beside the table
 *   map put, get, miss, walk       beside glibc's hsearch and tsearch
 *   heap: restart one of N timers  beside libuv's timers
 * Ratios are of CPU time, best of several rounds, so that a neighbour's burst does not count.
 * usage: bench_base [commit] */
#include "bench.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <uv.h>

#include "base/crc32c.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/prng.h"
#include "base/ulid.h"

enum { ROUNDS = 7, KEYS = 100000, TIMERS = 10000, CRC_BYTES = 64 << 20, CRC_WINDOW = 1 << 20 };

struct cost {
    double wall_ns, cpu_ns;
}; /* per operation */
typedef void job_fn(void *context);

/* Runs `before` outside the clock, then `job` inside it. */
static struct cost measure(job_fn *before, job_fn *job, job_fn *after, void *context,
                           double operations)
{
    struct cost best = {1e18, 1e18};

    for (int round = 0; round < ROUNDS; round++) {
        if (before) before(context);
        double wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        job(context);
        cpu = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / operations;
        wall = (clock_ns(CLOCK_MONOTONIC) - wall) / operations;
        if (after) after(context);
        if (cpu < best.cpu_ns) best = (struct cost){wall, cpu};
    }
    return best;
}

static void print_row(const char *what, const char *peer, struct cost ours, struct cost theirs)
{
    printf("%-28s ours %8.1f ns CPU %8.1f ns wall   %-10s %8.1f ns CPU   %6.2f x the CPU\n", what,
           ours.cpu_ns, ours.wall_ns, peer, theirs.cpu_ns, theirs.cpu_ns / ours.cpu_ns);
}

/* crc32c */

struct crc_job {
    unsigned char *bytes;
    size_t len;
    uint32_t fast, table;
};

static void crc_fast(void *context)
{
    struct crc_job *job = context;
    for (size_t done = 0; done < CRC_BYTES; done += job->len)
        job->fast ^= crc32c(0, job->bytes + done % CRC_WINDOW, job->len);
}

static void crc_table(void *context)
{
    struct crc_job *job = context;
    for (size_t done = 0; done < CRC_BYTES; done += job->len)
        job->table ^= crc32c_portable(0, job->bytes + done % CRC_WINDOW, job->len);
}

static void bench_crc32c(void)
{
    static const size_t sizes[] = {64, 512, 4096, 65536};
    struct crc_job job = {.bytes = malloc(CRC_WINDOW + 65536)};
    struct prng p;

    if (!job.bytes) abort();
    prng_seed(&p, 1);
    prng_fill(&p, job.bytes, CRC_WINDOW + 65536);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        job.len = sizes[i];
        struct cost fast = measure(NULL, crc_fast, NULL, &job, CRC_BYTES);
        struct cost table = measure(NULL, crc_table, NULL, &job, CRC_BYTES);
        printf("crc32c of %5zu bytes        ours %8.2f GB/s (%s)%12s table      %8.2f GB/s     "
               "%6.2f x "
               "the CPU\n",
               sizes[i], 1 / fast.cpu_ns, crc32c_kind(), "", 1 / table.cpu_ns,
               table.cpu_ns / fast.cpu_ns);
    }
    if (job.fast != job.table) abort(); /* both must give the same result */
    free(job.bytes);
}

/* map, hsearch, tsearch: the same keys, put in the same order, asked for in one shuffled order */

struct keys {
    char text[KEYS][ULID_TEXT_CAP], absent[KEYS][ULID_TEXT_CAP];
    uint32_t shuffled[KEYS];
    struct map map;
    struct hsearch_data table;
    void *tree;
    size_t found;
};

static void keys_init(struct keys *k)
{
    struct prng p;

    prng_seed(&p, 1);
    for (size_t i = 0; i < KEYS; i++) {
        struct ulid ulid;
        prng_fill(&p, &ulid, sizeof ulid);
        ulid_text(&ulid, k->text[i]);
        prng_fill(&p, &ulid, sizeof ulid);
        ulid_text(&ulid, k->absent[i]);
        k->shuffled[i] = (uint32_t)i;
    }
    for (size_t i = KEYS - 1; i > 0; i--) {
        size_t j = prng_below(&p, i + 1);
        uint32_t other = k->shuffled[i];
        k->shuffled[i] = k->shuffled[j];
        k->shuffled[j] = other;
    }
}

static void map_fresh(void *context)
{
    struct keys *k = context;
    map_deinit(&k->map);
    map_init(&k->map, KEYS, 7);
}

static void map_fill(void *context)
{
    struct keys *k = context;
    for (size_t i = 0; i < KEYS; i++)
        if (map_put(&k->map, str_of(k->text[i], ULID_LEN), k->text[i])) abort();
}

static void map_ask(void *context)
{
    struct keys *k = context;
    for (size_t i = 0; i < KEYS; i++)
        k->found += map_get(&k->map, str_of(k->text[k->shuffled[i]], ULID_LEN)) ? 1 : 0;
}

static void map_miss(void *context)
{
    struct keys *k = context;
    for (size_t i = 0; i < KEYS; i++)
        k->found += map_get(&k->map, str_of(k->absent[i], ULID_LEN)) ? 1 : 0;
}

static void map_walk(void *context)
{
    struct keys *k = context;
    size_t cursor = 0;
    for (struct map_entry *entry; (entry = map_next(&k->map, &cursor));)
        k->found += entry->key.at[0] == '0' ? 1 : 0;
}

static void table_fresh(void *context)
{
    struct keys *k = context;
    hdestroy_r(&k->table);
    memset(&k->table, 0, sizeof k->table);
    if (!hcreate_r(KEYS * 2, &k->table)) abort(); /* as empty as our slots are */
}

static void table_fill(void *context)
{
    struct keys *k = context;
    for (size_t i = 0; i < KEYS; i++) {
        ENTRY item = {k->text[i], k->text[i]}, *got;
        if (!hsearch_r(item, ENTER, &got, &k->table)) abort();
    }
}

static void table_ask(void *context)
{
    struct keys *k = context;
    for (size_t i = 0; i < KEYS; i++) {
        ENTRY item = {k->text[k->shuffled[i]], NULL}, *got;
        k->found += hsearch_r(item, FIND, &got, &k->table) ? 1 : 0;
    }
}

static void table_miss(void *context)
{
    struct keys *k = context;
    for (size_t i = 0; i < KEYS; i++) {
        ENTRY item = {k->absent[i], NULL}, *got;
        k->found += hsearch_r(item, FIND, &got, &k->table) ? 1 : 0;
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void keep_key(void *key)
{
    (void)key;
}

static void tree_fresh(void *context)
{
    struct keys *k = context;
    tdestroy(k->tree, keep_key);
    k->tree = NULL;
}

static void tree_fill(void *context)
{
    struct keys *k = context;
    for (size_t i = 0; i < KEYS; i++)
        if (!tsearch(k->text[i], &k->tree, by_text)) abort();
}

static void tree_ask(void *context)
{
    struct keys *k = context;
    for (size_t i = 0; i < KEYS; i++)
        k->found += tfind(k->text[k->shuffled[i]], &k->tree, by_text) ? 1 : 0;
}

static size_t walked;
static void tree_visit(const void *node, VISIT visit, int depth)
{
    (void)depth;
    if (visit == postorder || visit == leaf)
        walked += (*(const char *const *)node)[0] == '0' ? 1 : 0;
}

static void tree_walk(void *context)
{
    struct keys *k = context;
    twalk(k->tree, tree_visit);
    k->found += walked;
}

static void bench_map(void)
{
    struct keys *k = calloc(1, sizeof *k);
    struct cost put, get, miss, walk;

    if (!k) abort();
    keys_init(k);
    put = measure(map_fresh, map_fill, NULL, k, KEYS);
    get = measure(NULL, map_ask, NULL, k, KEYS);
    miss = measure(NULL, map_miss, NULL, k, KEYS);
    walk = measure(NULL, map_walk, NULL, k, KEYS);
    print_row("map put, growing", "hsearch*", put, measure(table_fresh, table_fill, NULL, k, KEYS));
    print_row("", "tsearch", put, measure(tree_fresh, tree_fill, NULL, k, KEYS));
    print_row("map get", "hsearch", get, measure(NULL, table_ask, NULL, k, KEYS));
    print_row("", "tsearch", get, measure(NULL, tree_ask, NULL, k, KEYS));
    print_row("map get, absent", "hsearch", miss, measure(NULL, table_miss, NULL, k, KEYS));
    print_row("map walk, per entry", "tsearch", walk, measure(NULL, tree_walk, NULL, k, KEYS));
    printf(
        "  %d keys of %d bytes; * hsearch cannot grow: its table is made in full size outside the "
        "clock\n",
        KEYS, ULID_LEN);
    table_fresh(k);
    hdestroy_r(&k->table);
    tree_fresh(k);
    map_deinit(&k->map);
    free(k);
}

/* heap, libuv's timers: N are running, each operation restarts one with a new time; then all are
 * stopped in order of start */

struct timers {
    struct heap heap;
    struct heap_node nodes[TIMERS];
    uv_loop_t loop;
    uv_timer_t handles[TIMERS];
    struct prng prng;
};

static void on_timer(uv_timer_t *handle)
{
    (void)handle;
}

static void heap_restart(void *context)
{
    struct timers *t = context;
    for (size_t i = 0; i < KEYS; i++) {
        size_t which = prng_below(&t->prng, TIMERS);
        if (heap_put(&t->heap, &t->nodes[which], 1000000 + prng_below(&t->prng, 1000000))) abort();
    }
}

static void uv_restart(void *context)
{
    struct timers *t = context;
    for (size_t i = 0; i < KEYS; i++) {
        size_t which = prng_below(&t->prng, TIMERS);
        if (uv_timer_start(&t->handles[which], on_timer, 1000000 + prng_below(&t->prng, 1000000),
                           0))
            abort();
    }
}

static void heap_start_all(void *context)
{
    struct timers *t = context;
    for (size_t i = 0; i < TIMERS; i++)
        if (heap_put(&t->heap, &t->nodes[i], 1000000 + prng_below(&t->prng, 1000000))) abort();
}

static void uv_start_all(void *context)
{
    struct timers *t = context;
    for (size_t i = 0; i < TIMERS; i++)
        if (uv_timer_start(&t->handles[i], on_timer, 1000000 + prng_below(&t->prng, 1000000), 0))
            abort();
}

static void heap_stop_all(void *context)
{
    struct timers *t = context;
    for (size_t i = 0; i < TIMERS; i++) heap_remove(&t->heap, &t->nodes[i]);
}

static void uv_stop_all(void *context)
{
    struct timers *t = context;
    for (size_t i = 0; i < TIMERS; i++) uv_timer_stop(&t->handles[i]);
}

static void heap_pop_all(void *context)
{
    struct timers *t = context;
    while (heap_pop_due(&t->heap, UINT64_MAX)) continue;
}

static void bench_heap(void)
{
    struct timers *t = calloc(1, sizeof *t);

    if (!t || uv_loop_init(&t->loop)) abort();
    prng_seed(&t->prng, 1);
    heap_init(&t->heap, TIMERS);
    for (size_t i = 0; i < TIMERS; i++) uv_timer_init(&t->loop, &t->handles[i]);
    heap_start_all(t);
    uv_start_all(t);
    print_row("heap restart, 10,000 in", "libuv", measure(NULL, heap_restart, NULL, t, KEYS),
              measure(NULL, uv_restart, NULL, t, KEYS));
    print_row("heap start all", "libuv", measure(heap_stop_all, heap_start_all, NULL, t, TIMERS),
              measure(uv_stop_all, uv_start_all, NULL, t, TIMERS));
    print_row("heap stop all, any order", "libuv",
              measure(heap_start_all, heap_stop_all, NULL, t, TIMERS),
              measure(uv_start_all, uv_stop_all, NULL, t, TIMERS));
    struct cost pop = measure(heap_start_all, heap_pop_all, NULL, t, TIMERS);
    printf("heap pop in order            ours %8.1f ns CPU %8.1f ns wall\n", pop.cpu_ns,
           pop.wall_ns);
    for (size_t i = 0; i < TIMERS; i++) uv_close((uv_handle_t *)&t->handles[i], NULL);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    uv_loop_close(&t->loop);
    heap_deinit(&t->heap);
    free(t);
}

int main(void)
{
    bench_crc32c();
    bench_map();
    bench_heap();
    return 0;
}
