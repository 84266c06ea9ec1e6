/* SPDX-License-Identifier: Apache-2.0 */
/* One event line written by text/ndjson.h and by jansson, in the same run.
 *
 * Three jobs, the same line: ours from the values; jansson from the values (build a tree, dump it,
 * drop it), which would be the cost of a replacement; and jansson's dump alone of an existing tree,
 * the comparison that favours jansson most. Best of several rounds, so that a neighbour's
 * burst does not count. */
#include "bench.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "text/ndjson.h"

enum { LINES = 100000, ROUNDS = 7, LINE_MAX_BYTES = 4096 };

struct event {
    const char *time, *kind, *replica, *message;
    uint64_t term, index;
    double latency_ms;
    bool leader;
};

static void event_at(uint64_t i, struct event *event)
{
    *event = (struct event){
        .time = "2026-11-15T10:54:18.123Z",
        .kind = "log.append",
        .replica = "replica-2",
        .message = "accepted 3 entries from \"replica-1\"; sync took longer than usual",
        .term = 7 + i / 1000,
        .index = 1234567890 + i,
        .latency_ms = (double)(i % 5000) / 1000,
        .leader = i % 2 == 0,
    };
}

static void write_ours(const struct event *event, struct buf *out)
{
    struct ndjson w;

    ndjson_begin(&w, out, NDJSON_LINE);
    ndjson_c_string(&w, STR("time"), event->time);
    ndjson_c_string(&w, STR("kind"), event->kind);
    ndjson_c_string(&w, STR("replica"), event->replica);
    ndjson_u64(&w, STR("term"), event->term);
    ndjson_u64(&w, STR("index"), event->index);
    ndjson_double(&w, STR("latency_ms"), event->latency_ms);
    ndjson_bool(&w, STR("leader"), event->leader);
    ndjson_c_string(&w, STR("message"), event->message);
    ndjson_open_array(&w, STR("peers"));
    for (uint64_t peer = 1; peer <= 3; peer++) ndjson_u64(&w, NDJSON_ITEM, peer);
    ndjson_close_array(&w);
    if (ndjson_end(&w)) abort();
}

static json_t *tree_of(const struct event *event)
{
    json_t *tree = json_object(), *peers = json_array();

    json_object_set_new(tree, "time", json_string(event->time));
    json_object_set_new(tree, "kind", json_string(event->kind));
    json_object_set_new(tree, "replica", json_string(event->replica));
    json_object_set_new(tree, "term", json_integer((json_int_t)event->term));
    json_object_set_new(tree, "index", json_integer((json_int_t)event->index));
    json_object_set_new(tree, "latency_ms", json_real(event->latency_ms));
    json_object_set_new(tree, "leader", json_boolean(event->leader));
    json_object_set_new(tree, "message", json_string(event->message));
    for (int peer = 1; peer <= 3; peer++) json_array_append_new(peers, json_integer(peer));
    json_object_set_new(tree, "peers", peers);
    return tree;
}

static void dump_tree(const json_t *tree, struct buf *out)
{
    char *room;
    size_t len;

    if (buf_reserve(out, LINE_MAX_BYTES, &room)) abort();
    len = json_dumpb(tree, room, LINE_MAX_BYTES, JSON_COMPACT);
    if (len == 0 || len > LINE_MAX_BYTES) abort();
    buf_commit(out, len);
    if (buf_append_byte(out, '\n')) abort();
}

/* The two writers must write the same text before they are compared. */
static void prove_equal(void)
{
    struct event event;
    struct buf ours, theirs;
    json_t *tree, *back;

    event_at(41, &event);
    buf_init(&ours, LINE_MAX_BYTES * 2);
    buf_init(&theirs, LINE_MAX_BYTES * 2);
    write_ours(&event, &ours);
    tree = tree_of(&event);
    dump_tree(tree, &theirs);
    back = json_loadb(ours.data, ours.len, 0, NULL);
    if (!back || !json_equal(tree, back)) {
        fprintf(stderr, "the lines differ:\n%.*s%.*s", STR_ARG(buf_peek(&ours)),
                STR_ARG(buf_peek(&theirs)));
        exit(1);
    }
    printf("line: %zu bytes (ours), %zu bytes (jansson), same content\n", ours.len, theirs.len);
    json_decref(back);
    json_decref(tree);
    buf_deinit(&theirs);
    buf_deinit(&ours);
}

enum job { OURS, JANSSON_BUILD_AND_DUMP, JANSSON_DUMP_ONLY };
struct cost {
    double wall_ns, cpu_ns;
};

static struct cost measure(enum job job, struct buf *out)
{
    struct cost best = {1e18, 1e18};
    struct event event;
    json_t *ready;

    event_at(41, &event);
    ready = tree_of(&event);
    for (int round = 0; round < ROUNDS; round++) {
        double wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        for (uint64_t i = 0; i < LINES; i++) {
            event_at(i, &event);
            buf_clear(out);
            if (job == OURS) {
                write_ours(&event, out);
            } else {
                json_t *tree = job == JANSSON_DUMP_ONLY ? json_incref(ready) : tree_of(&event);
                dump_tree(tree, out);
                json_decref(tree);
            }
        }
        cpu = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / LINES;
        wall = (clock_ns(CLOCK_MONOTONIC) - wall) / LINES;
        if (cpu < best.cpu_ns) best = (struct cost){wall, cpu};
    }
    json_decref(ready);
    return best;
}

int main(void)
{
    static const char *const names[] = {
        [OURS] = "ours, from values",
        [JANSSON_BUILD_AND_DUMP] = "jansson, tree and dump",
        [JANSSON_DUMP_ONLY] = "jansson, dump only",
    };
    struct cost costs[ARRAY_LEN(names)];
    struct buf out;

    prove_equal();
    buf_init(&out, LINE_MAX_BYTES * 2);
    for (size_t job = 0; job < ARRAY_LEN(names); job++) {
        costs[job] = measure((enum job)job, &out);
        printf("%-24s %8.0f ns wall  %8.0f ns CPU per line  %6.2f x ours\n", names[job],
               costs[job].wall_ns, costs[job].cpu_ns, costs[job].cpu_ns / costs[OURS].cpu_ns);
    }
    buf_deinit(&out);
    return 0;
}
