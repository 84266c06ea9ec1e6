/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and closes the connections to other replicas; metrics; the work of each turn. The last
 * stream or job that ends frees the memory. Loop's thread only. */
#include "log/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/tls.h"
#include "log/peers_internal.h"

/* -- names of refusals -- */

static const struct str refusal_names[REFUSED_COUNT] = {
    [REFUSED_FRAME] = {"frame", 5},       [REFUSED_VERSION] = {"version", 7},
    [REFUSED_CLUSTER] = {"cluster", 7},   [REFUSED_RECEIVER] = {"receiver", 8},
    [REFUSED_IDENTITY] = {"identity", 8}, [REFUSED_TLS] = {"tls", 3},
    [REFUSED_LATE] = {"late", 4},         [REFUSED_SILENT] = {"silent", 6},
    [REFUSED_ORDER] = {"order", 5},       [REFUSED_FULL] = {"full", 4},
    [REFUSED_MEMORY] = {"memory", 6},
};
static const struct str drop_names[DROP_COUNT] = {
    [DROP_FULL] = {"full", 4},
    [DROP_UNCONNECTED] = {"unconnected", 11},
    [DROP_MEMORY] = {"memory", 6},
};

const char *peers_refusal_name(enum refusal refusal)
{
    return refusal_names[refusal].at;
}

const char *peers_lane_name(enum frame_lane lane)
{
    return lane == LANE_BULK ? "bulk" : "control";
}

void peers_id_text(uint64_t id, char text[ID_TEXT_CAP])
{
    snprintf(text, ID_TEXT_CAP, "%016llx", (unsigned long long)id);
}

struct peer *peers_find(const struct peers *peers, uint64_t id)
{
    LIST_EACH(&peers->list, node)
    {
        struct peer *peer = CONTAINER_OF(node, struct peer, link);
        if (peer->id == id) return peer;
    }
    return NULL;
}

struct peer_frame peers_hello(const struct peers *peers, enum frame_lane lane, uint64_t to,
                              uint64_t nonce)
{
    return (struct peer_frame){.kind = FRAME_HELLO,
                               .u.hello = {.protocol = FRAME_PROTOCOL,
                                           .lane = lane,
                                           .cluster_id = peers->cluster_id,
                                           .from = peers->id,
                                           .to = to,
                                           .nonce = nonce,
                                           .level = peers->level,
                                           .name = str_from(peers->name),
                                           .address = str_from(peers->address)}};
}

bool peers_identity_ok(const struct peers *peers, const struct stream *stream,
                       const struct frame_hello *hello, struct note *note)
{
    static const struct str prefix = {"muster://replica/", 17};
    char id_text[ID_TEXT_CAP];
    struct str uri, named;

    if (!peers->tls_server) return true;
    if (tls_identity_uri(stream_peer_identity(stream), STR("muster"), &uri) ||
        !str_starts(uri, prefix)) {
        note_set(note, "its certificate carries no single replica identity");
        return false;
    }
    named = str_tail(uri, prefix.len);
    peers_id_text(hello->from, id_text);
    if (named.len > 0 && (str_equal(named, hello->name) || str_equal(named, str_from(id_text))))
        return true;
    note_set(note, "its certificate is for %.*s, its hello says %.*s, id %s", STR_ARG(uri),
             STR_ARG(hello->name), id_text);
    return false;
}

/* -- metrics -- */

static enum err add_counters(struct metrics *metrics, struct peers_meter *meter, struct note *note)
{
    static const struct str directions[2] = {{"in", 2}, {"out", 3}};
    static const struct str results[2] = {{"connected", 9}, {"failed", 6}};
    const struct {
        const char *name, *help, *label;
        const struct str *values;
        size_t count;
        struct counter **counters;
    } families[] = {
        {"muster_log_peer_refused_total",
         "Connections to the Raft port that were refused or closed, by reason.", "reason",
         refusal_names, REFUSED_COUNT, meter->refused},
        {"muster_log_peer_frames_dropped_total",
         "Frames to other replicas that were dropped before sending, by reason.", "reason",
         drop_names, DROP_COUNT, meter->dropped},
        {"muster_log_peer_bytes_total",
         "Bytes sent to and received from other replicas, framing included.", "direction",
         directions, 2, meter->bytes},
        {"muster_log_peer_dials_total",
         "Connection attempts to other replicas by result. connected means that the hello arrived.",
         "result", results, 2, meter->dials},
    };

    for (size_t i = 0; i < ARRAY_LEN(families); i++) {
        const struct metric_options options = {.name = families[i].name,
                                               .help = families[i].help,
                                               .kind = METRIC_COUNTER,
                                               .labels = {families[i].label}};
        struct metric_family *family;
        enum err err = metrics_add(metrics, &options, &family, note);
        if (err) return err;
        for (size_t k = 0; k < families[i].count; k++)
            families[i].counters[k] = metric_counter(family, &families[i].values[k]);
    }
    return ERR_OK;
}

static enum err add_metrics(struct metrics *metrics, struct peers_meter *meter, struct note *note)
{
    enum err err;

    if (!metrics) return ERR_OK;
    err = add_counters(metrics, meter, note);
    if (!err)
        err = metrics_add_gauge(metrics, "muster_log_peers_connected",
                                "Replicas to which this replica has a control connection.",
                                &meter->connected, note);
    return err;
}

void peers_count_refusal(struct peers *peers, enum refusal refusal)
{
    if (peers->meter.refused[refusal]) counter_inc(peers->meter.refused[refusal]);
}

void peers_count_drop(struct peers *peers, enum drop drop)
{
    if (peers->meter.dropped[drop]) counter_inc(peers->meter.dropped[drop]);
}

void peers_count_bytes(struct peers *peers, int direction, uint64_t bytes)
{
    if (peers->meter.bytes[direction]) counter_add(peers->meter.bytes[direction], bytes);
}

/* -- the hook at the end of a turn -- */

static void on_turn(struct turn_hook *hook)
{
    struct peers *peers = CONTAINER_OF(hook, struct peers, hook);

    for (struct list *node; (node = list_pop(&peers->dirty));)
        peer_line_flush(CONTAINER_OF(node, struct peer_line, dirty));
}

static void peers_on_wake(struct task *task)
{
    (void)task; /* the task makes the turn's hooks run again */
}

void peers_wake(struct peers *peers)
{
    loop_defer(peers->io->loop, &peers->wake);
}

static void on_resume(struct task *task)
{
    peer_in_resume_all(CONTAINER_OF(task, struct peers, resume));
}

void peers_resume(struct peers *peers)
{
    loop_defer(peers->io->loop, &peers->resume);
}

/* -- the list of peers -- */

static void peer_free(struct peer *peer)
{
    list_remove(&peer->link);
    peer_line_deinit(&peer->control);
    peer_line_deinit(&peer->bulk);
    free(peer);
}

void peer_free_if_over(struct peer *peer)
{
    if (peer->gone && !peer->control.stream && !peer->bulk.stream && !peer->sending)
        peer_free(peer);
}

static struct peer *peer_new(struct peers *peers, uint64_t id)
{
    struct peer *peer = calloc(1, sizeof *peer);

    if (!peer) return NULL;
    peer->peers = peers;
    peer->id = id;
    peers_id_text(id, peer->id_text);
    list_init(&peer->link);
    if (peer_line_init(&peer->control, peer, LANE_CONTROL) ||
        peer_line_init(&peer->bulk, peer, LANE_BULK)) {
        peer_free(peer);
        return NULL;
    }
    return peer;
}

static void leave_out(struct peers *peers, struct peer *peer)
{
    list_remove(&peer->link);
    list_append(&peers->gone, &peer->link);
    peers->count--;
    peer->gone = true;
    if (peer->sending) peer_file_over(peer->sending, ERR_CANCELLED);
    peer_line_drop(&peer->control, "it was left out");
    peer_line_drop(&peer->bulk, "it was left out");
    peer_free_if_over(peer);
}

static enum err name_peer(struct peers *peers, const struct peer_where *where)
{
    struct peer *peer = peers_find(peers, where->id);
    bool moved;

    if (!peer) {
        peer = peer_new(peers, where->id);
        if (!peer) return ERR_NOMEM;
        list_append(&peers->list, &peer->link);
        peers->count++;
    }
    peer->named = true;
    moved = strcmp(peer->address, where->address) != 0;
    if (moved) {
        memcpy(peer->address, where->address, strlen(where->address) + 1);
        peer_line_drop(&peer->control, "its address changed");
        peer_line_drop(&peer->bulk, "its address changed");
        peer->control.dial_at = peer->bulk.dial_at = (mono_time){0};
    }
    peer_line_hurry(&peer->control);
    return ERR_OK;
}

static bool is_usable(const struct peers *peers, const struct peer_where *where)
{
    struct address_parts parts;

    if (where->id == peers->id) return true;
    return where->id != 0 && strlen(where->address) <= REPLICA_ADDRESS_MAX &&
           address_split(where->address, &parts, NULL) == ERR_OK;
}

enum err peers_set(struct peers *peers, const struct peer_where *where, size_t count)
{
    enum err err = ERR_OK;

    if (count > PEERS_MAX) return ERR_FULL;
    for (size_t i = 0; i < count; i++)
        if (!is_usable(peers, &where[i])) return ERR_INVALID;
    LIST_EACH(&peers->list, node) CONTAINER_OF(node, struct peer, link)->named = false;
    for (size_t i = 0; i < count; i++)
        if (where[i].id != peers->id && name_peer(peers, &where[i])) err = ERR_NOMEM;
    LIST_EACH_SAFE(&peers->list, node, following)
    {
        struct peer *peer = CONTAINER_OF(node, struct peer, link);
        if (!peer->named) leave_out(peers, peer);
    }
    return err;
}

bool peers_connected(const struct peers *peers, uint64_t to)
{
    const struct peer *peer = peers_find(peers, to);

    return peer && peer->control.state == LINE_OPEN;
}

const char *peers_met_at(const struct peers *peers, uint64_t to)
{
    return peers_connected(peers, to) ? peers_find(peers, to)->address : "";
}

size_t peers_queued(const struct peers *peers, uint64_t to)
{
    const struct peer *peer = peers_find(peers, to);

    return peer ? peer_line_queued(&peer->control) : 0;
}

/* -- opening and closing -- */

static void on_refused(void *owner, const char *peer_address, enum err why, const struct note *note)
{
    struct peers *peers = owner;

    peers_count_refusal(peers, REFUSED_TLS);
    LOG_WARN(&peers->log, "rejected a connection from a peer",
             log_text("reason", peers_refusal_name(REFUSED_TLS)), log_text("peer", peer_address),
             log_err("err", why), log_text("note", note ? note->text : ""));
}

static enum err listen_now(struct peers *peers, const struct peers_options *options,
                           struct note *note)
{
    const struct listen_options listen = {.address = options->listen,
                                          .tls = options->tls_server,
                                          .streams_max = IN_STREAMS_MAX,
                                          .handshake_timeout_ms = DIAL_MS + HELLO_MS,
                                          .output_max = IN_OUTPUT_MAX,
                                          .on_accept = peer_in_accept,
                                          .on_refused = on_refused,
                                          .owner = peers};
    enum err err = net_listen(options->io->net, &listen, &peers->listener, note);
    const char *address;

    if (err) return err;
    address = options->address ? options->address : listener_address(peers->listener);
    if (strlen(address) <= REPLICA_ADDRESS_MAX) {
        memcpy(peers->address, address, strlen(address) + 1);
        return ERR_OK;
    }
    return note_fail(note, ERR_INVALID, "the address %s is too long", address);
}

static void peers_settle(struct peers *peers, const struct peers_options *options)
{
    peers->io = options->io;
    if (options->log) peers->log = *options->log;
    peers->events = options->events;
    peers->tls_server = options->tls_server;
    peers->tls_client = options->tls_client;
    peers->id = options->id;
    peers->cluster_id = options->cluster_id;
    peers->level = options->level;
    peers->queue_bytes = options->queue_bytes ? options->queue_bytes : QUEUE_BYTES_DEFAULT;
    peers->idle_ms = max_u64(options->idle_ms ? options->idle_ms : IDLE_MS_DEFAULT, BEATS_PER_IDLE);
    if (options->name) memcpy(peers->name, options->name, strlen(options->name) + 1);
    list_init(&peers->list);
    list_init(&peers->gone);
    list_init(&peers->strangers);
    list_init(&peers->incoming);
    list_init(&peers->dirty);
    task_init(&peers->wake, peers_on_wake);
    task_init(&peers->resume, on_resume);
    prng_seed(&peers->prng, entropy_u64(options->io->entropy));
}

enum err peers_open(const struct peers_options *options, struct peers **ret_peers,
                    struct note *note)
{
    struct peers *peers;
    enum err err;

    assert(options->events.on_frame && options->events.on_snap && options->id && options->listen);
    assert(!options->tls_server == !options->tls_client);
    peers = calloc(1, sizeof *peers);
    if (!peers) return ERR_NOMEM;
    peers_settle(peers, options);
    err = add_metrics(options->metrics, &peers->meter, note);
    if (!err) err = listen_now(peers, options, note);
    if (err) {
        listener_close(peers->listener);
        free(peers);
        return err;
    }
    turn_hook_add(peers->io->loop, &peers->hook, on_turn);
    *ret_peers = peers;
    return ERR_OK;
}

static void free_all(struct peers *peers)
{
    struct list *lists[] = {&peers->list, &peers->gone};

    assert(list_empty(&peers->strangers) && list_empty(&peers->incoming));
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        LIST_EACH_SAFE(lists[i], node, following)
        {
            peer_free(CONTAINER_OF(node, struct peer, link));
        }
    }
    free(peers);
}

void peers_release(struct peers *peers)
{
    assert(peers->kept > 0);
    peers->kept--;
    if (peers->closing && peers->kept == 0) free_all(peers);
}

static void shut_all(struct list *list)
{
    LIST_EACH(list, node)
    {
        struct peer *peer = CONTAINER_OF(node, struct peer, link);
        peer_line_shut(&peer->control);
        peer_line_shut(&peer->bulk);
        if (peer->sending) peer_file_shut(peer->sending);
        peer->sending = NULL;
    }
}

void peers_close(struct peers *peers)
{
    if (!peers) return;
    assert(!peers->calling && !peers->closing);
    peers->closing = true;
    if (peers->meter.connected) gauge_set(peers->meter.connected, 0);
    listener_close(peers->listener);
    turn_hook_remove(&peers->hook);
    task_cancel(&peers->wake);
    task_cancel(&peers->resume);
    peers->kept++; /* until peers_release() below */
    shut_all(&peers->list);
    shut_all(&peers->gone);
    peer_in_shut_all(peers);
    peers_release(peers);
}

const char *peers_address(const struct peers *peers)
{
    return peers->address;
}
