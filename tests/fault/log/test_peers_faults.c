/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails while two nodes open, connect, send frames and a file, pause, move and
 * close. After any failure a repeated call succeeds, frames keep their order, a
 * file that was sent well is whole, and nothing leaks. */
#include <stdio.h>
#include <string.h>

#include "lib/fault_alloc.h"
#include "lib/test.h"
#include "log/peers.h"
#include "sim/sim.h"

enum { CLUSTER = 5, FILE_BYTES = 270 << 10, STEP_MS = 20, STEPS_MAX = 2000, ENTRIES = 40 };

struct node {
    struct io *io;
    struct peers *peers;
    struct loop_worker *worker;
    uint64_t id, got, last, entries, snap_bytes, whole;
    uint64_t asked, ended, sent_well;
    unsigned refuse;
};
static struct sim *sim;
static struct node nodes[2];

static bool on_frame(void *owner, uint64_t from, struct peer_frame *frame)
{
    struct node *node = owner;
    struct entry entry;

    (void)from;
    if (node->refuse > 0) {
        node->refuse--;
        return false;
    }
    if (frame->kind == FRAME_HASH) {
        CHECK("in order", frame->u.hash.index > node->last);
        node->last = frame->u.hash.index;
        node->got++;
    }
    while (frame->kind == FRAME_APPEND && frame_next_entry(frame, &entry)) {
        CHECK_U64("whole", entry.bytes.len, 500);
        node->entries++;
    }
    return true;
}

static bool on_snap(void *owner, uint64_t from, struct peer_frame *frame)
{
    struct node *node = owner;

    (void)from;
    if (frame->kind == FRAME_SNAP_BEGIN) node->snap_bytes = 0;
    if (frame->kind == FRAME_SNAP_CHUNK) node->snap_bytes += frame->u.snap_chunk.bytes.len;
    if (frame->kind == FRAME_SNAP_END && node->snap_bytes == FILE_BYTES) node->whole++;
    return true;
}

static void on_snap_sent(void *owner, uint64_t to, uint64_t id, enum err err)
{
    struct node *node = owner;

    (void)to;
    CHECK_U64("which", id, node->asked);
    node->ended++;
    if (!err) node->sent_well++;
}

static bool next_entry(void *context, uint64_t index, struct entry *ret_entry)
{
    static char room[500];

    (void)context;
    *ret_entry = (struct entry){
        .index = index, .term = 1, .kind = ENTRY_COMMAND, .bytes = str_of(room, sizeof room)};
    return true;
}

/* -- each function repeats its call until it succeeds -- */

static void want_node(size_t i)
{
    struct node *node = &nodes[i];
    struct peers_options options = {
        .io = node->io,
        .listen = i ? "b:1" : "a:1",
        .name = "n",
        .id = node->id,
        .cluster_id = CLUSTER,
        .idle_ms = 900,
        .events = {
            .on_frame = on_frame, .on_snap = on_snap, .on_snap_sent = on_snap_sent, .owner = node}};
    enum err err;

    if (!node->worker &&
        worker_open(node->io->loop, &(struct worker_options){"w", 4}, &node->worker))
        node->worker = NULL;
    if (node->peers) return;
    err = peers_open(&options, &node->peers, NULL);
    CHECK("only memory may be missing", !err || err == ERR_NOMEM || err == ERR_FULL);
    if (err) node->peers = NULL;
}

static bool want_peer(size_t i)
{
    const struct peer_where where = {nodes[1 - i].id, i ? "a:1" : "b:1"};
    enum err err = peers_set(nodes[i].peers, &where, 1);

    CHECK("only memory may be missing", !err || err == ERR_NOMEM);
    return !err;
}

static void want_file(struct node *node)
{
    struct frame_snap_begin begin = {
        .term = 1, .index = 1, .bytes = FILE_BYTES, .id = node->asked + 1};
    enum err err = peers_send_file(node->peers, 2, &begin, "/snap", node->worker);

    CHECK("only memory may be missing", !err || err == ERR_NOMEM);
    if (!err) node->asked++;
}

static void write_file(struct fs *fs)
{
    static char content[FILE_BYTES];
    struct fs_file *file;

    CHECK_OK("open", fs_open(fs, "/snap", FS_WRITE | FS_CREATE, 0600, &file));
    CHECK_OK("write", fs_write_at(fs, file, 0, str_of(content, sizeof content)));
    fs_close(fs, file);
}

static void act(void)
{
    struct node *a = &nodes[0], *b = &nodes[1];
    bool named[2] = {false, false};
    uint64_t index = 0, prev = 0;

    for (int step = 0; step < STEPS_MAX; step++) {
        struct peer_frame frame = {.kind = FRAME_HASH, .u.hash = {.index = index + 1, .term = 1}};
        struct peer_frame append = {.kind = FRAME_APPEND,
                                    .u.append = {.term = 1, .prev_index = prev, .prev_term = 1}};
        uint32_t sent = 0;
        for (size_t i = 0; i < 2; i++) {
            want_node(i);
            if (nodes[i].peers && !named[i]) named[i] = want_peer(i);
        }
        if (named[0] && named[1] && a->worker) {
            if (!peers_send(a->peers, 2, &frame)) index++;
            if (prev < ENTRIES)
                (void)peers_send_append(a->peers, 2, &append, 10, next_entry, NULL, &sent);
            prev += sent;
            if (a->sent_well == 0 && a->asked == a->ended) want_file(a);
            if (step % 5 == 0) b->refuse = 1;
            peers_resume(b->peers);
        }
        sim_run_for(sim, STEP_MS);
        if (a->sent_well > 0 && b->got > 5 && b->entries > 0) return;
    }
    CHECK("all of it comes in the end", false);
}

TEST(nothing_is_lost_for_good_when_memory_runs_out_once)
{
    struct sim_host *hosts[2];
    bool fired = true;
    uint64_t k;

    for (k = 1; fired; k++) {
        CHECK("it ends", k < FAULT_SWEEP_MAX);
        CHECK_OK("a world", sim_open(&(struct sim_options){.seed = 3}, &sim));
        for (size_t i = 0; i < 2; i++) {
            CHECK_OK("a host", sim_host_add(sim, &(struct sim_host_options){.name = i ? "b" : "a"},
                                            &hosts[i]));
            nodes[i] = (struct node){.io = sim_host_io(hosts[i]), .id = i + 1};
        }
        write_file(nodes[0].io->fs);
        fault_alloc_arm(k);
        act();
        for (size_t i = 0; i < 2; i++) {
            peers_close(nodes[i].peers);
            worker_close(nodes[i].worker);
        }
        sim_run_for(sim, 1);
        fired = fault_alloc_fired();
        fault_alloc_arm(0);
        CHECK_U64("every sending ended once", nodes[0].ended, nodes[0].asked);
        CHECK("a file that was sent well is whole", nodes[1].whole >= nodes[0].sent_well);
        sim_close(sim);
    }
    fprintf(stderr, "%llu allocations\n", (unsigned long long)k);
    CHECK("there was something to fail", k > 100);
}
