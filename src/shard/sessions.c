/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/sessions.h"

#include <stdio.h>
#include <stdlib.h>

#include "shard/sessions_internal.h"

enum {
    KEY_MAX = FINGERPRINT_MAX + 1,
    INFLATED_MAX = 4 << 20, /* about 10 ms of the loop; stock operators do not compress */
};

/* -- telling the owner -- */

void sessions_wake(struct sessions *s)
{
    loop_defer(s->io->loop, &s->task);
}

void sessions_tell(struct sessions *s)
{
    struct list *node;

    blobs_tell(s);
    while ((node = list_pop(&s->due))) session_look(CONTAINER_OF(node, struct session, due));
}

static void on_task(struct task *task)
{
    sessions_tell(CONTAINER_OF(task, struct sessions, task));
}

/* -- clusters -- */

struct session_cluster *cluster_find(const struct sessions *s, struct str id)
{
    return map_get(&s->clusters, id);
}

struct session_cluster *known_cluster(struct sessions *s, struct str id)
{
    struct session_cluster *cluster = cluster_find(s, id);

    if (cluster) return cluster;
    cluster = malloc(sizeof *cluster + id.len);
    if (!cluster) return NULL;
    memcpy(cluster->text, id.at, id.len);
    cluster->id = str_of(cluster->text, id.len);
    cluster->session = NULL;
    cluster->sessions = 0;
    outbox_init(&cluster->departed,
                (struct outbox_limits){s->limits.departed_frames_max, s->limits.departed_bytes_max},
                s->seed);
    if (map_put(&s->clusters, cluster->id, cluster)) {
        free(cluster);
        return NULL;
    }
    return cluster;
}

void cluster_settle(struct sessions *s, struct session_cluster *cluster)
{
    if (cluster->sessions > 0 || cluster->departed.count > 0) return;
    assert(!cluster->session);
    map_remove(&s->clusters, cluster->id);
    outbox_deinit(&cluster->departed);
    free(cluster);
}

/* Whatever changed in it. */
static void recount_departed(struct sessions *s, const struct outbox *box, size_t bytes,
                             size_t count)
{
    s->departed_bytes += box->bytes - bytes; /* both modulo: they may have shrunk */
    s->stats.departed += (uint32_t)(box->count - count);
}

static void cluster_drop_departed(struct sessions *s, struct session_cluster *cluster,
                                  struct str key)
{
    size_t bytes = cluster->departed.bytes, count = cluster->departed.count;

    outbox_drop_key(&cluster->departed, key);
    recount_departed(s, &cluster->departed, bytes, count);
}

void cluster_keep_departed(struct sessions *s, struct session_cluster *cluster, struct str key,
                           struct str frame)
{
    struct outbox *box = &cluster->departed;
    size_t bytes = box->bytes, count = box->count;
    enum err err = ERR_FULL;

    if (frame.len <= s->limits.departed_bytes_max - s->departed_bytes)
        err = outbox_put(box, key, frame, true);
    if (err == ERR_FULL && box->count == box->limits.frames_max) {
        outbox_drop(box, outbox_first(box));
        s->stats.departed_dropped++;
        err = outbox_put(box, key, frame, true);
    }
    if (err) s->stats.departed_dropped++;
    recount_departed(s, box, bytes, count);
}

/* -- life -- */

#define DEFAULT(field, value)                                                                      \
    if (!l.field) l.field = (value)

static enum err settle(const struct sessions_options *given, struct sessions_options *ret_limits,
                       struct note *note)
{
    struct sessions_options l = *given;

    DEFAULT(sessions_max, 10000);
    DEFAULT(blobs_max, 100000);
    DEFAULT(rollup_max, (size_t)256 << 20);
    DEFAULT(rollup_budget, (size_t)1 << 30);
    DEFAULT(outbox_frames_max, 524288);
    DEFAULT(outbox_bytes_max, (size_t)256 << 20);
    DEFAULT(outboxes_bytes_max, (size_t)512 << 20);
    DEFAULT(departed_frames_max, 4096);
    DEFAULT(departed_bytes_max, (size_t)64 << 20);
    DEFAULT(blob_max, (size_t)1 << 20);
    DEFAULT(hello_timeout_ms, 30 * MS_PER_SECOND);
    DEFAULT(rollup_timeout_ms, 60 * MS_PER_SECOND);
    if (l.rollup_budget < l.rollup_max)
        return note_fail(note, ERR_INVALID, "roll-up budget: %zu bytes, one message may have %zu",
                         l.rollup_budget, l.rollup_max);
    *ret_limits = l;
    return ERR_OK;
}

enum err sessions_open(const struct sessions_options *options, struct sessions **ret_sessions,
                       struct note *note)
{
    struct sessions *s = calloc(1, sizeof *s);
    enum err err;

    if (!s) return ERR_NOMEM;
    err = settle(options, &s->limits, note);
    s->io = options->io;
    if (!err) err = timer_init(&s->stall, s->io->loop, lane_on_stall);
    if (err) {
        free(s);
        return err;
    }
    if (options->log) s->log = *options->log;
    s->events = options->events;
    s->owner = options->owner;
    s->seed = entropy_u64(s->io->entropy);
    s->first_instruction = entropy_u64(s->io->entropy);
    map_init(&s->clusters, (size_t)s->limits.sessions_max * 2, s->seed);
    map_init(&s->waiters, s->limits.blobs_max, s->seed);
    list_init(&s->all);
    list_init(&s->due);
    list_init(&s->starved);
    list_init(&s->answered);
    task_init(&s->task, on_task);
    frame_writer_init(&s->writer);
    buf_init(&s->key, KEY_MAX);
    *ret_sessions = s;
    return ERR_OK;
}

static const struct sessions_events silence;

void sessions_close(struct sessions *s)
{
    struct map_entry *entry;
    size_t cursor = 0;

    if (!s) return;
    s->events = &silence; /* and nobody is there to call it: */
    LIST_EACH_SAFE(&s->all, node, following)
    {
        struct session *session = CONTAINER_OF(node, struct session, link);
        assert(session->over && !session->call); /* the server was closed */
        session->closed_told = true;
        session_look(session);
    }
    blobs_close(s);
    while ((entry = map_next(&s->clusters, &cursor))) {
        struct session_cluster *cluster = entry->value;
        outbox_deinit(&cluster->departed);
        free(cluster);
    }
    map_deinit(&s->clusters);
    assert(s->stats.rollup_bytes == 0); /* the owner has given back what it worked on */
    task_cancel(&s->task);
    timer_deinit(&s->stall);
    frame_writer_deinit(&s->writer);
    buf_deinit(&s->key);
    free(s);
}

void sessions_server_limits(const struct sessions *s, struct rpc_server_limits *limits)
{
    size_t window = limits->stream_window ? limits->stream_window : 256 << 10;

    limits->connections_max = s->limits.sessions_max * 2 + 1000;
    limits->connections_per_identity_max = limits->connections_max; /* plaintext: one address */
    limits->buffered_max = s->limits.rollup_budget + s->limits.sessions_max * window;
    limits->buffered_per_identity_max = limits->buffered_max;
}

enum err sessions_serve(struct sessions *s, struct rpc_server *server, struct note *note)
{
    return rpc_server_add(server,
                          &(struct rpc_method){.path = "/bigfleet.v1alpha1.Shard/Session",
                                               .kind = RPC_BIDI,
                                               .request_max = s->limits.rollup_max,
                                               .inflated_max = INFLATED_MAX,
                                               .response_max = 16 << 20,
                                               .handler = &session_handler,
                                               .service = s},
                          note);
}

void sessions_drain(struct sessions *s)
{
    s->draining = true;
    LIST_EACH_SAFE(&s->all, node, following)
    session_end(CONTAINER_OF(node, struct session, link), GRPC_UNAVAILABLE,
                "the shard is stopping");
}

/* -- verbs -- */

static struct session *session_of(const struct sessions *s, struct str cluster)
{
    const struct session_cluster *known = cluster_find(s, cluster);

    return known ? known->session : NULL;
}

bool sessions_has(const struct sessions *s, struct str cluster)
{
    return session_of(s, cluster) != NULL;
}

void sessions_set_term(struct sessions *s, int64_t term)
{
    s->term = term;
}

bool sessions_reclaim(struct sessions *s, struct str cluster, uint64_t action, struct str machine,
                      uint64_t grace_ms, int32_t preemptor_priority)
{
    struct session *session = session_of(s, cluster);
    char id[REQUEST_ID_LEN + 1];

    if (!session) return false;
    (void)snprintf(id, sizeof id, "%016llx", (unsigned long long)(s->first_instruction + action));
    s->stats.reclaims++;
    session_send_written(
        session, STR_EMPTY,
        frame_write_reclaim(&s->writer, str_from(id), machine, grace_ms, preemptor_priority));
    return true;
}

/* What a frame is superseded by: one letter for the kind, then the machine or fingerprint. Empty
 * when there is no memory: then it is not superseded. */
static struct str key_of(struct sessions *s, char kind, struct str what)
{
    buf_clear(&s->key);
    if (buf_append_byte(&s->key, kind) || buf_append(&s->key, what)) return STR_EMPTY;
    return buf_peek(&s->key);
}

void sessions_node_state(struct sessions *s, struct str cluster, struct str machine, bool departed,
                         struct str frame)
{
    struct str key = key_of(s, 'n', machine);
    struct session_cluster *known = cluster_find(s, cluster);

    if (!known && departed) known = known_cluster(s, cluster);
    if (!known) {
        s->stats.departed_dropped += departed;
        return;
    }
    cluster_drop_departed(s, known, key); /* it is not the last word any more */
    if (known->session)
        session_send(known->session, key, departed, frame);
    else if (departed)
        cluster_keep_departed(s, known, key, frame);
    cluster_settle(s, known);
}

void sessions_resynced(struct sessions *s, struct str cluster)
{
    struct session_cluster *known = cluster_find(s, cluster);
    struct session *session = known ? known->session : NULL;
    struct out_frame *frame;

    while (session && !session->over && (frame = outbox_first(&known->departed))) {
        size_t bytes = known->departed.bytes, count = known->departed.count;
        outbox_detach(&known->departed, frame);
        recount_departed(s, &known->departed, bytes, count);
        session_send(session, frame->key, true, frame->bytes);
        free(frame);
    }
}

void sessions_capacity(struct sessions *s, struct str cluster, const struct profile *profile,
                       uint32_t count, enum confidence confidence, double cost_per_hour)
{
    struct session *session = session_of(s, cluster);
    enum err err;

    if (!session) return;
    err = frame_write_capacity(&s->writer, profile, count, confidence, cost_per_hour);
    session_send_written(session, key_of(s, 'c', profile->fingerprint), err);
}

struct sessions_stats sessions_stats(const struct sessions *s)
{
    struct sessions_stats stats = s->stats;

    stats.blobs_waiting = (uint32_t)map_count(&s->waiters);
    return stats;
}
