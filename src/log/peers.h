/* Connections to the other replicas: who may speak, what is sent, what is dropped.
 *
 * Each replica dials each other one; a connection carries frames one way, from the dialer, and only
 * the hello comes back. Two lanes: control (everything small and appends) and bulk (snapshots), so
 * that a heartbeat never queues behind a snapshot. What the protocol can send again is dropped when
 * a peer's queue is full; nothing is dropped silently (metrics).
 *
 * Who may speak: the hello names cluster, sender and receiver; all three must be right (a wiped
 * replica has the old address and another identity). Under TLS the peer's certificate must carry
 * muster://replica/<x> with x the name or the 16 hex digits of the id in its hello. A joiner that
 * knows no cluster yet takes the first one that speaks to it by its id. Names are resolved anew on
 * every dial; back-off is jittered, 20 ms to 1 s, and starts anew when a peer is told to be there.
 *
 * Hostile bytes cost their sender the connection and nobody else anything. */
#ifndef LOG_PEERS_H
#define LOG_PEERS_H
#include "base/note.h"
#include "io/io.h"
#include "log/frame.h"
#include "obs/log.h"
#include "obs/metrics.h"

struct peers;
struct peers_events { /* on the loop's thread; views are valid during the call */
    /* A frame on the control lane. False: stop reading this connection until peers_resume: the
     * replica takes no step just now; the frame will be given again. */
    bool (*on_frame)(void *owner, uint64_t from, struct frame *frame);
    /* The bulk lane. `from` began, went on with, or ended a snapshot; the same false. A connection
     * that breaks in between is on_snap_lost. */
    bool (*on_snap)(void *owner, uint64_t from, struct frame *frame);
    void (*on_snap_lost)(void *owner, uint64_t from);
    /* A joiner was told its cluster: write it down before answering; false refuses. */
    bool (*on_cluster)(void *owner, uint64_t cluster_id);
    /* A peer said hello: what it speaks and where it says it is. */
    void (*on_hello)(void *owner, uint64_t from, uint32_t level, struct str address);
    /* The sending of a snapshot ended: ERR_OK all of it was taken by the peer's kernel. */
    void (*on_snap_sent)(void *owner, uint64_t to, uint64_t id, enum err err);
    void *owner;
};
struct peers_options {
    struct io *io;
    const struct log_source *log; /* may be NULL */
    struct metrics *metrics;      /* may be NULL */
    const char *listen, *address, *name;
    struct tls_context *tls_server, *tls_client;
    uint64_t id, cluster_id;
    uint32_t level;
    size_t queue_bytes; /* per peer */
    uint64_t idle_ms;   /* a silent incoming control connection is closed after */
    struct peers_events events;
};
enum err peers_open(const struct peers_options *options, struct peers **ret_peers,
                    struct note *note);               /* listens; errors as net_listen */
void peers_close(struct peers *peers);                /* no callback follows; NULL is fine */
const char *peers_address(const struct peers *peers); /* as told to others */
/* These are there; others are hung up on. An address that changed is dialed anew. Self is left
 * out. */
struct peer_where {
    uint64_t id;
    const char *address;
};
enum err peers_set(struct peers *peers, const struct peer_where *where, size_t count);
/* ERR_FULL, ERR_UNAVAILABLE (no connection): dropped, which Raft may see as loss. */
enum err peers_send(struct peers *peers, uint64_t to, const struct frame *frame);
/* An append with `count` entries after frame->u.append.prev_index, cut into several frames of about
 * FRAME_APPEND_BYTES: the entries come from `next`, in order. *ret_sent: how many went. */
typedef bool peers_entry_fn(void *context, uint64_t index, struct entry *ret_entry);
enum err peers_send_append(struct peers *peers, uint64_t to, const struct frame *frame,
                           uint32_t count, peers_entry_fn *next, void *context, uint32_t *ret_sent);
size_t peers_queued(const struct peers *peers, uint64_t to); /* bytes */
bool peers_connected(const struct peers *peers, uint64_t to);
/* Sends a file over the bulk lane, read in chunks on `worker`; one at a time per peer (ERR_BUSY).
 * on_snap_sent follows. The file stays readable until then. */
enum err peers_send_file(struct peers *peers, uint64_t to, const struct frame_snap_begin *begin,
                         const char *path, struct worker *worker);
void peers_stop_file(struct peers *peers, uint64_t to); /* on_snap_sent with ERR_CANCELLED */
void peers_resume(struct peers *peers); /* reading goes on everywhere, from the next turn */
#endif
