/* SPDX-License-Identifier: Apache-2.0 */
#include "peers_rig.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_MAX = 1 << 20, GOT_MAX = 64 << 20, TURNS_MAX = 2000000 };

struct rig rig;
static char tls_stub; /* virtual time never reads TLS contexts */

/* -- the world -- */

static void on_deadline(struct timer *timer)
{
    CONTAINER_OF(timer, struct rig, deadline)->late = true;
}

void rig_open(bool real)
{
    static const char *const names[RIG_NODES + 1] = {"a", "b", "c", "d", "stranger"};
    struct sim_host *host;

    /* A failed test left its world open; the next test must not depend on it. */
    memset(rig.nodes, 0, sizeof rig.nodes);
    memset(rig.strangers, 0, sizeof rig.strangers);
    rig.late = false;
    rig.deadline = (struct timer){0};
    rig.real = real;
    if (real) {
        CHECK_OK("a loop", real_io_open(&rig.real_io));
        CHECK_OK("a timer", timer_init(&rig.deadline, real_io_io(rig.real_io)->loop, on_deadline));
        for (size_t i = 0; i < RIG_NODES; i++) rig.nodes[i].io = real_io_io(rig.real_io);
        return;
    }
    CHECK_OK("a world", sim_open(&(struct sim_options){.seed = 7}, &rig.sim));
    for (size_t i = 0; i <= RIG_NODES; i++) {
        CHECK_OK("a host", sim_host_add(rig.sim,
                                        &(struct sim_host_options){.name = names[i],
                                                                   .identity = rig.identities[i]},
                                        &host));
        if (i == RIG_NODES) {
            rig.stranger_host = host;
            break;
        }
        rig.nodes[i].host = host;
        rig.nodes[i].io = sim_host_io(host);
    }
}

bool rig_turn(void)
{
    if (!rig.real) { return sim_step(rig.sim) && sim_events(rig.sim) < TURNS_MAX; }
    if (!timer_running(&rig.deadline) && !rig.late) timer_start_in(&rig.deadline, RIG_WAIT_MS);
    real_io_turn(rig.real_io, true);
    return !rig.late;
}

uint64_t rig_ms(void)
{
    return sim_now(rig.sim).ns / 1000000;
}

void rig_run(uint64_t ms)
{
    mono_time until;

    if (!rig.real) {
        sim_run_for(rig.sim, ms);
        return;
    }
    timer_stop(&rig.deadline);
    rig.late = false;
    until = mono_after(clock_mono(real_io_io(rig.real_io)->clock), ms);
    timer_start(&rig.deadline, until);
    while (!rig.late) real_io_turn(rig.real_io, true);
    rig.late = false;
}

void rig_close(void)
{
    for (size_t i = 0; i < RIG_STRANGERS; i++) {
        struct stranger *s = &rig.strangers[i];
        if (s->stream) stream_close(s->stream);
    }
    for (size_t i = 0; i < RIG_NODES; i++) rig_node_close(i);
    if (rig.real) {
        timer_deinit(&rig.deadline);
        real_io_close(rig.real_io);
    } else {
        sim_run_for(rig.sim, 1);
        sim_close(rig.sim);
    }
    for (size_t i = 0; i < RIG_STRANGERS; i++) buf_deinit(&rig.strangers[i].got);
    rig = (struct rig){0};
}

/* -- the events of a node -- */

static bool refuses(struct node *node)
{
    if (!node->refuse) return false;
    if (node->refuse_after > 0) {
        node->refuse_after--;
        return false;
    }
    node->refused++;
    return true;
}

static bool on_frame(void *owner, uint64_t from, struct peer_frame *frame)
{
    struct node *node = owner;
    struct entry entry;

    if (refuses(node)) {
        while (frame->kind == FRAME_APPEND && frame_next_entry(frame, &entry)) continue;
        return false;
    }
    node->frames++;
    node->by_kind[frame->kind]++;
    node->from = from;
    node->last = *frame;
    while (frame->kind == FRAME_APPEND && frame_next_entry(frame, &entry)) {
        if (node->last_index && entry.index != node->last_index + 1) node->order_errors++;
        node->entries++;
        node->entry_bytes += entry.bytes.len;
        node->last_index = entry.index;
        node->last_term = entry.term;
        node->entries_hash = str_hash(entry.bytes, node->entries_hash);
    }
    return true;
}

static bool on_snap(void *owner, uint64_t from, struct peer_frame *frame)
{
    struct node *node = owner;

    if (refuses(node)) return false;
    node->by_kind[frame->kind]++;
    node->from = from;
    if (frame->kind == FRAME_SNAP_BEGIN) {
        node->snap = frame->u.snap_begin;
        buf_clear(&node->snap_bytes);
    } else if (frame->kind == FRAME_SNAP_CHUNK && node->refuse_snap) {
        peers_refuse_snap(node->peers, from);
    } else if (frame->kind == FRAME_SNAP_CHUNK) {
        CHECK_U64("chunks come in order", frame->u.snap_chunk.offset, node->snap_bytes.len);
        CHECK_OK("room", buf_append(&node->snap_bytes, frame->u.snap_chunk.bytes));
    } else {
        CHECK_U64("whole", node->snap_bytes.len, node->snap.bytes);
        node->snaps_whole++;
    }
    return true;
}

static void on_snap_lost(void *owner, uint64_t from)
{
    struct node *node = owner;

    node->from = from;
    node->snaps_lost++;
}

static bool on_cluster(void *owner, uint64_t cluster_id)
{
    struct node *node = owner;

    CHECK_U64("a cluster", cluster_id != 0, true);
    node->clusters++;
    return !node->refuse_cluster;
}

static void on_hello(void *owner, uint64_t from, uint32_t level, struct str address)
{
    struct node *node = owner;

    node->hellos++;
    node->from = from;
    node->last_level = level;
    if (!address.len) return; /* we dialed it */
    node->addresses++;
    snprintf(node->last_address, sizeof node->last_address, "%.*s", STR_ARG(address));
}

static void on_snap_sent(void *owner, uint64_t to, uint64_t id, enum err err)
{
    struct node *node = owner;

    node->sent_count++;
    node->sent_to = to;
    node->sent_id = id;
    node->sent_err = err;
}

static void on_line(void *context, enum log_level level, struct str line)
{
    struct node *node = context;

    (void)level;
    (void)buf_append(&node->log, line); /* full: enough was logged */
}

/* -- nodes -- */

struct node *rig_node_open(size_t i, uint64_t cluster_id)
{
    return rig_node_open_as(i, cluster_id, i + 1);
}

struct node *rig_node_open_as(size_t i, uint64_t cluster_id, uint64_t id)
{
    struct node *node = &rig.nodes[i];
    struct io *io = node->io;
    struct sim_host *host = node->host;
    char listen[64];
    struct note note = {""};
    struct peers_options options;

    CHECK("one at a time", !node->peers);
    *node = (struct node){.rig = &rig, .io = io, .host = host, .id = id};
    buf_init(&node->log, LOG_MAX);
    buf_init(&node->snap_bytes, GOT_MAX);
    CHECK_OK("log", logger_open(&(struct logger_options){.clock = io->clock,
                                                         .level = LOG_LEVEL_INFO,
                                                         .sink = on_line,
                                                         .sink_context = node,
                                                         .repeats_per_second = 1000},
                                &node->logger));
    log_source_init(&node->log_source, node->logger, "log", NULL);
    CHECK_OK("metrics", metrics_open(&node->metrics));
    CHECK_OK("worker", worker_open(io->loop, &(struct worker_options){"bulk", 16}, &node->worker));
    if (rig.real)
        snprintf(listen, sizeof listen, "127.0.0.1:0");
    else
        snprintf(listen, sizeof listen, "%c:7791", (char)('a' + i));
    options = (struct peers_options){
        .io = io,
        .log = &node->log_source,
        .metrics = node->metrics,
        .listen = listen,
        .name = (const char *[]){"n1", "n2", "n3", "n4"}[i],
        .tls_server = rig.tls && !rig.real ? (void *)&tls_stub : rig.tls_server,
        .tls_client = rig.tls && !rig.real ? (void *)&tls_stub : rig.tls_client,
        .id = node->id,
        .cluster_id = cluster_id,
        .level = 3,
        .queue_bytes = rig.queue_bytes,
        .idle_ms = rig.idle_ms ? rig.idle_ms
                   : rig.real  ? RIG_REAL_IDLE_MS
                               : RIG_IDLE_MS,
        .events = {.on_frame = on_frame,
                   .on_snap = on_snap,
                   .on_snap_lost = on_snap_lost,
                   .on_cluster = on_cluster,
                   .on_hello = on_hello,
                   .on_snap_sent = on_snap_sent,
                   .owner = node},
    };
    CHECK_OK(note.text, peers_open(&options, &node->peers, &note));
    snprintf(node->address, sizeof node->address, "%s", peers_address(node->peers));
    return node;
}

void rig_node_close(size_t i)
{
    struct node *node = &rig.nodes[i];

    if (!node->peers) return;
    peers_close(node->peers);
    node->peers = NULL;
    worker_close(node->worker);
    logger_close(node->logger);
    metrics_close(node->metrics);
    buf_deinit(&node->log);
    buf_deinit(&node->snap_bytes);
}

void rig_node_set(size_t i, size_t count, ...)
{
    struct peer_where where[RIG_NODES];
    va_list ids;

    va_start(ids, count);
    for (size_t k = 0; k < count; k++) {
        int id = va_arg(ids, int);
        where[k] = (struct peer_where){(uint64_t)id, rig.nodes[id - 1].address};
    }
    va_end(ids);
    CHECK_OK("the peers", peers_set(rig.nodes[i].peers, where, count));
}

uint64_t rig_node_counter(struct node *node, const char *family, const char *label)
{
    struct buf text;
    char key[160];
    const char *at;
    uint64_t value = 0;

    buf_init(&text, LOG_MAX);
    CHECK_OK("metrics", metrics_write(node->metrics, &text));
    CHECK_OK("a closing NUL", buf_append_byte(&text, '\0'));
    snprintf(key, sizeof key, "muster_log_peer_%s_total{%s} ", family, label);
    at = strstr(text.data, key);
    if (at) value = strtoull(at + strlen(key), NULL, 10);
    buf_deinit(&text);
    CHECK(key, at != NULL);
    return value;
}

uint64_t rig_refused(struct node *node, const char *reason)
{
    char label[64];

    snprintf(label, sizeof label, "reason=\"%s\"", reason);
    return rig_node_counter(node, "refused", label);
}

char *rig_path(size_t i, const char *name)
{
    static char path[256];

    if (rig.real)
        snprintf(path, sizeof path, "%s/%zu-%s", test_dir(), i, name);
    else
        snprintf(path, sizeof path, "/%s", name);
    return path;
}

void rig_write_file(size_t i, const char *path, size_t bytes)
{
    struct fs *fs = rig.nodes[i].io->fs;
    struct fs_file *file;
    char *content = malloc(bytes + 1);

    CHECK("memory", content != NULL);
    for (size_t k = 0; k < bytes; k++) content[k] = (char)(k * 31 + (k >> 10));
    CHECK_OK("open", fs_open(fs, path, FS_WRITE | FS_CREATE | FS_TRUNCATE, 0600, &file));
    CHECK_OK("write", fs_write_at(fs, file, 0, str_of(content, bytes)));
    fs_close(fs, file);
    free(content);
}

size_t rig_node_log_count(struct node *node, const char *part)
{
    struct str rest = buf_peek(&node->log);
    size_t count = 0, len = strlen(part);

    for (size_t i = 0; i + len <= rest.len; i++)
        if (memcmp(rest.at + i, part, len) == 0) count++;
    return count;
}

/* -- strangers -- */

static void stranger_on_open(void *owner)
{
    ((struct stranger *)owner)->open = true;
}

static void stranger_on_bytes(void *owner, struct str bytes)
{
    CHECK_OK("room", buf_append(&((struct stranger *)owner)->got, bytes));
}

static void stranger_on_end(void *owner)
{
    struct stranger *s = owner;

    s->ended = true;
    stream_end(s->stream);
}

static void stranger_on_closed(void *owner, enum err why, const struct note *note)
{
    struct stranger *s = owner;

    (void)note;
    s->closed = true;
    s->why = why;
    s->stream = NULL;
}

static const struct stream_events stranger_events = {.on_open = stranger_on_open,
                                                     .on_bytes = stranger_on_bytes,
                                                     .on_end = stranger_on_end,
                                                     .on_closed = stranger_on_closed};

struct stranger *stranger_dial(size_t i, struct node *to)
{
    struct stranger *s = &rig.strangers[i];
    struct io *io = rig.real ? real_io_io(rig.real_io) : sim_host_io(rig.stranger_host);
    const struct dial_options options = {.address = to->address,
                                         .tls = rig.tls && !rig.real ? (void *)&tls_stub
                                                                     : rig.tls_stranger,
                                         .output_max = 32 << 20};

    CHECK("one at a time", !s->stream);
    buf_deinit(&s->got);
    *s = (struct stranger){.rig = &rig, .io = io, .nonce = 1000 + i};
    buf_init(&s->got, GOT_MAX);
    CHECK_OK("dial", net_dial(io->net, &options, &stranger_events, s, &s->stream, NULL));
    RIG_UNTIL("it connects", s->open || s->closed);
    return s;
}

void stranger_close(struct stranger *s)
{
    if (s->stream) stream_close(s->stream);
    RIG_UNTIL("it is closed", s->closed);
}

void stranger_write(struct stranger *s, struct str bytes)
{
    CHECK("it is there", s->stream != NULL);
    CHECK_OK("write", stream_write(s->stream, &bytes, 1));
}

void stranger_send(struct stranger *s, const struct peer_frame *frame)
{
    struct buf bytes;

    buf_init(&bytes, GOT_MAX);
    CHECK_OK("encode", frame_append(&s->out, frame, &bytes));
    stranger_write(s, buf_peek(&bytes));
    buf_deinit(&bytes);
}

struct peer_frame stranger_hello(uint64_t from, uint64_t to, enum frame_lane lane)
{
    return (struct peer_frame){.kind = FRAME_HELLO,
                               .u.hello = {.protocol = FRAME_PROTOCOL,
                                           .lane = lane,
                                           .cluster_id = RIG_CLUSTER,
                                           .from = from,
                                           .to = to,
                                           .nonce = 1000,
                                           .level = 2,
                                           .name = STR("s"),
                                           .address = STR("stranger:1")}};
}

bool stranger_take(struct stranger *s, struct peer_frame *ret_frame)
{
    size_t size = 0;
    enum err err =
        frame_take(&s->in, str_tail(buf_peek(&s->got), s->got_at), ret_frame, &size, NULL);

    if (err == ERR_NOT_READY) return false;
    CHECK_OK("the answer consists of frames", err);
    s->got_at += size;
    return true;
}

void stranger_greet(struct stranger *s, uint64_t from, struct node *to, enum frame_lane lane)
{
    struct peer_frame hello = stranger_hello(from, to->id, lane), answer = {0};

    stranger_send(s, &hello);
    RIG_UNTIL("a hello comes back",
              s->closed || answer.kind == FRAME_HELLO || stranger_take(s, &answer));
    CHECK("it was not refused", answer.kind == FRAME_HELLO);
    CHECK_U64("from", answer.u.hello.from, to->id);
    CHECK_U64("to", answer.u.hello.to, from);
    s->in.session = s->out.session = frame_session(hello.u.hello.nonce, answer.u.hello.nonce);
}

void stranger_meet(struct stranger *s, uint64_t from, struct node *to, enum frame_lane lane)
{
    uint64_t before = to->hellos;

    stranger_greet(s, from, to, lane);
    stranger_send(s, &(struct peer_frame){.kind = FRAME_BEAT});
    RIG_UNTIL("it is known", to->hellos > before || s->closed || s->ended);
}
