/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the other replicas: admission, sending, and dropping.
 *
 * Each replica dials each other replica. A connection carries frames one way, from the dialer; the
 * listener returns only the hello, keep-alive beats and the acknowledgement of a snapshot. There
 * are two lanes: control (appends and everything small) and bulk (snapshots), so that a heartbeat
 * never queues behind a snapshot. When a peer's queue is full, frames that the protocol can repeat
 * are dropped, and metrics count every drop.
 *
 * Both sides of a connection send three beats per idle_ms, and a side that received nothing for
 * idle_ms closes the connection. Reason: after a partition TCP retries only when its own back-off
 * has passed, which may be a minute; a new connection takes about a second.
 *
 * Admission: the hello names cluster, sender and receiver. All three names must be right, because a
 * wiped replica has the old address and a new identity. Under TLS the peer's certificate must
 * contain muster://replica/<x>, where x is the name or the 16 hex digits of the id in its hello. A
 * joiner without a cluster accepts the first cluster whose hello contains the joiner's id, and
 * dials no peer before that. A replica with a valid hello may send frames even if it is no member,
 * because a leader may be missing in our configuration. A replayed hello gives no access
 * (peers_greet.c). Names are resolved at every dial. Back-off is 20 ms to 1 s with jitter, and is
 * reset when peers_set names the peer and when the peer sends a hello.
 *
 * Malformed bytes close the sender's connection and affect no other peer. */
#ifndef LOG_PEERS_H
#define LOG_PEERS_H
#include "base/note.h"
#include "io/io.h"
#include "log/frame.h"
#include "obs/log.h"
#include "obs/metrics.h"

struct peers;
struct peers_events { /* called on the loop's thread; views are valid during the call */
    /* Delivers a frame of the control lane. In a vote request the candidate is the sender. Returns
     * false if the replica cannot take a step now. Reading of this connection then pauses until
     * peers_resume, and the frame is delivered again. */
    bool (*on_frame)(void *owner, uint64_t from, struct peer_frame *frame);
    /* Delivers a frame of the bulk lane: replica `from` begins, continues or ends a snapshot.
     * Returns false like on_frame. Chunks arrive in order without gap, and their total is the
     * announced size. If the connection breaks before the end, on_snap_lost follows. */
    bool (*on_snap)(void *owner, uint64_t from, struct peer_frame *frame);
    void (*on_snap_lost)(void *owner, uint64_t from);
    /* Passes a joiner the id of its cluster, which the joiner must store durably. Frames of that
     * cluster follow only afterwards. Returns false to refuse the connection. */
    bool (*on_cluster)(void *owner, uint64_t cluster_id);
    /* A peer sent its hello and cluster level. `address` is empty unless the peer dialed us. */
    void (*on_hello)(void *owner, uint64_t from, uint32_t level, struct str address);
    /* A replica of another cluster, with a valid identity, sent a hello addressed to replica `to`,
     * which can be this replica. The connection is refused. May be NULL. */
    void (*on_foreign)(void *owner, uint64_t cluster_id, uint64_t to);
    /* The transfer of a snapshot ended. ERR_OK means that the peer accepted the whole snapshot. */
    void (*on_snap_sent)(void *owner, uint64_t to, uint64_t id, enum err err);
    void *owner;
};
struct peers_options {
    struct io *io;
    const struct log_source *log; /* may be NULL */
    struct metrics *metrics;      /* may be NULL */
    const char *listen, *address, *name;
    struct tls_context *tls_server, *tls_client; /* set both or none; borrowed until peers_close */
    uint64_t id, cluster_id;
    uint32_t level;
    size_t queue_bytes; /* limit per peer; an empty queue accepts any frame; 0 means 32 MiB */
    uint64_t idle_ms;   /* a connection without data for this long is closed; 0 means 3,000 */
    struct peers_events events;
};
enum err peers_open(const struct peers_options *options, struct peers **ret_peers,
                    struct note *note); /* starts listening; errors of net_listen and metrics_add */
/* Closes all connections; no callback follows. Must not be called from a callback. The memory is
 * freed later, when all streams are closed and the worker has closed its file. Accepts NULL. */
void peers_close(struct peers *peers);
const char *peers_address(const struct peers *peers); /* the address that other replicas dial */
/* Sets the list of peers. Listed peers are dialed. A peer that is no longer listed is removed, and
 * a snapshot transfer to that peer ends with ERR_CANCELLED. A changed address is dialed anew. This
 * replica's own entry is ignored. ERR_FULL (more than PEERS_MAX) and ERR_INVALID (bad address)
 * change nothing. After ERR_NOMEM some peers are missing. */
enum { PEERS_MAX = 2 * REPLICA_MEMBERS_MAX };
struct peer_where {
    uint64_t id;
    const char *address;
};
enum err peers_set(struct peers *peers, const struct peer_where *where, size_t count);
/* Queues a frame, which is sent at the end of the turn. After ERR_FULL, ERR_UNAVAILABLE (no
 * connection) or ERR_NOMEM the frame is dropped, which Raft treats as loss. */
enum err peers_send(struct peers *peers, uint64_t to, const struct peer_frame *frame);
/* Sends an append with `count` entries after frame->u.append.prev_index, split into frames of about
 * FRAME_APPEND_BYTES. `next` returns the entries in order. If `next` returns false, the call ends
 * with ERR_NOT_FOUND. *ret_sent is the number of entries sent, also after an error. */
typedef bool peers_entry_fn(void *context, uint64_t index, struct entry *ret_entry);
enum err peers_send_append(struct peers *peers, uint64_t to, const struct peer_frame *frame,
                           uint32_t count, peers_entry_fn *next, void *context, uint32_t *ret_sent);
size_t peers_queued(const struct peers *peers, uint64_t to); /* bytes in the peer's queue */
bool peers_connected(const struct peers *peers, uint64_t to);
/* Returns the address of a connected peer, or "" without a connection. */
const char *peers_met_at(const struct peers *peers, uint64_t to);
/* Sends the first begin->bytes bytes of a file over the bulk lane, read in chunks on `worker`.
 * Calls on_snap_sent at the end. The file must stay readable until on_snap_sent, and the worker
 * must not be closed before peers_close or on_snap_sent. ERR_BUSY (already sending to this peer),
 * ERR_NOT_FOUND (no such peer), ERR_NOMEM. */
enum err peers_send_file(struct peers *peers, uint64_t to, const struct frame_snap_begin *begin,
                         const char *path, struct loop_worker *worker);
/* Stops sending the file. on_snap_sent follows with ERR_CANCELLED. */
void peers_stop_file(struct peers *peers, uint64_t to);
/* Called inside on_snap: refuses the snapshot that `from` is sending and closes the connection. The
 * sender's on_snap_sent reports a broken connection. on_snap_lost follows here if the begin frame
 * was accepted. */
void peers_refuse_snap(struct peers *peers, uint64_t from);
void peers_resume(struct peers *peers); /* resumes reading on all connections, later in this turn */
#endif
