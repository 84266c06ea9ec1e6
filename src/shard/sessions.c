/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the sessions, sends on a cluster's session, and keeps data between sessions.
 * Loop's thread. */
#include "shard/sessions.h"

#include <stdlib.h>

#include "shard/sessions_internal.h"

enum {
    KEY_MAX = FINGERPRINT_MAX + 2 + GROUP_MAX,
    INFLATED_MAX = 4 << 20, /* inflating more would block the event loop for over 10 ms */
};

static void free_ended(struct sessions *s)
{
    LIST_EACH_SAFE(&s->ended, node, following)
    session_free(CONTAINER_OF(node, struct session, link));
}

static void on_free_ended(struct task *task)
{
    free_ended(CONTAINER_OF(task, struct sessions, free_ended));
}

/* -- clusters -- */

struct session_cluster *known_cluster(struct sessions *s, struct str id)
{
    struct session_cluster *cluster = map_get(&s->clusters, id);

    if (cluster) return cluster;
    cluster = map_make(&s->clusters, id, sizeof *cluster);
    if (!cluster) return NULL;
    cluster->id = str_of((const char *)(cluster + 1), id.len);
    outbox_init(&cluster->departed,
                (struct outbox_limits){s->limits.departed_frames_max, s->limits.departed_bytes_max},
                &s->departed, s->seed);
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

void cluster_keep_departed(struct sessions *s, struct session_cluster *cluster, struct str key,
                           struct str frame)
{
    struct outbox *box = &cluster->departed;
    enum err err = ERR_FULL;

    if (frame.len <= s->limits.departed_bytes_max - s->departed.bytes)
        err = outbox_put(box, key, frame, true);
    if (err == ERR_FULL && box->count == box->limits.frames_max) {
        outbox_drop(box, outbox_first(box));
        s->stats.departed_dropped++;
        err = outbox_put(box, key, frame, true);
    }
    if (err) s->stats.departed_dropped++;
}

/* -- open and close -- */

#define DEFAULT(field, value)                                                                      \
    if (!l.field) l.field = (value)

static struct sessions_options sessions_settle(const struct sessions_options *given)
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
    assert(l.rollup_budget >= l.rollup_max);
    return l;
}

enum err sessions_open(const struct sessions_options *options, struct sessions **ret_sessions)
{
    struct sessions *s = calloc(1, sizeof *s);
    enum err err;

    if (!s) return ERR_NOMEM;
    s->limits = sessions_settle(options);
    s->io = options->io;
    err = timer_init(&s->stall, s->io->loop, lane_on_stall);
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
    map_init(&s->requests, s->limits.blobs_max, s->seed);
    list_init(&s->all);
    list_init(&s->ended);
    list_init(&s->starved);
    task_init(&s->free_ended, on_free_ended);
    frame_writer_init(&s->writer);
    buf_init(&s->key, KEY_MAX);
    *ret_sessions = s;
    return ERR_OK;
}

void sessions_close(struct sessions *s)
{
    struct map_entry *entry;
    size_t cursor = 0;

    if (!s) return;
    free_ended(s);
    assert(list_empty(&s->all) && map_count(&s->requests) == 0); /* the server is closed first */
    map_deinit(&s->requests);
    while ((entry = map_next(&s->clusters, &cursor)))
        outbox_deinit(&((struct session_cluster *)entry->value)->departed);
    map_free(&s->clusters);
    assert(s->stats.rollup_bytes == 0); /* the owner has returned every roll-up */
    task_cancel(&s->free_ended);
    timer_deinit(&s->stall);
    frame_writer_deinit(&s->writer);
    buf_deinit(&s->key);
    free(s);
}

void sessions_server_limits(const struct sessions *s, struct rpc_server_limits *limits)
{
    size_t window = limits->stream_window ? limits->stream_window : 256 << 10;

    limits->connections_max = s->limits.sessions_max * 2 + 1000;
    /* Without TLS an address is the identity, and all peers may share an address. */
    limits->connections_per_identity_max = limits->connections_max;
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

/* -- functions for a cluster -- */

struct session *session_of(const struct sessions *s, struct str cluster)
{
    const struct session_cluster *known = map_get(&s->clusters, cluster);

    return known ? known->session : NULL;
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
    session_send_written(session, STR_EMPTY,
                         frame_write_reclaim(&s->writer, action_id(s, action, id), machine,
                                             grace_ms, preemptor_priority));
    return true;
}

/* Returns the key under which a newer frame replaces an older one: a letter for the kind, then the
 * machine or fingerprint. If memory runs out, the key is empty. */
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
    struct session_cluster *known = map_get(&s->clusters, cluster);

    if (!known && departed) known = known_cluster(s, cluster);
    if (!known) {
        s->stats.departed_dropped += departed;
        return;
    }
    outbox_drop_key(&known->departed, key); /* the kept frame with this key is outdated */
    if (known->session)
        session_send(known->session, key, departed, frame);
    else if (departed)
        cluster_keep_departed(s, known, key, frame);
    cluster_settle(s, known);
}

void sessions_resynced(struct sessions *s, struct str cluster)
{
    struct session *session = session_of(s, cluster);
    struct session_cluster *known = session ? session->cluster : NULL;
    struct out_frame *frame;

    while (session && !session->over && (frame = outbox_first(&known->departed))) {
        outbox_detach(&known->departed, frame);
        session_send(session, frame->key, true, frame->bytes);
        free(frame);
    }
}

void sessions_capacity(struct sessions *s, struct str cluster, const struct capacity_offer *offer)
{
    struct session *session = session_of(s, cluster);
    enum err err;

    if (!session) return;
    err = frame_write_capacity(&s->writer, offer);
    session_send_written(session, key_of(s, 'c', offer->profile->fingerprint), err);
}

void sessions_need_status(struct sessions *s, struct str cluster, const struct need_status *status)
{
    struct session *session = session_of(s, cluster);
    struct str key;
    enum err err;

    if (!session || !session->takes_status) return;
    err = frame_write_need_status(&s->writer, status);
    key = key_of(s, 's', status->fingerprint);
    if (key.len && (buf_append_byte(&s->key, '\0') || buf_append(&s->key, status->group)))
        buf_clear(&s->key); /* sent without a key */
    session_send_written(session, buf_peek(&s->key), err);
}

struct sessions_stats sessions_stats(const struct sessions *s)
{
    struct sessions_stats stats = s->stats;

    stats.superseded = s->outboxes.superseded;
    stats.outbox_bytes = s->outboxes.bytes;
    stats.departed = (uint32_t)s->departed.frames;
    stats.blobs_waiting = (uint32_t)map_count(&s->requests);
    return stats;
}
