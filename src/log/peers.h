/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the other replicas: admission, sending, dropping (docs/protocols/raft-port.md).
 *
 * Each replica dials each other replica, on two lanes: control, and bulk for snapshots, so that
 * a heartbeat never waits behind a snapshot. A connection carries the dialer's frames. The
 * listener returns only the hello, beats (keep-alive) and the acknowledgement of a snapshot.
 * When a peer's queue is full, frames that the protocol can repeat are dropped.
 *
 * A replica without a cluster dials no peer, and joins the first cluster whose hello has the
 * replica's id. A sender that is no member is accepted, because this replica's configuration may
 * lack the leader. Malformed bytes close only their sender's connection. */
#ifndef LOG_PEERS_H
#define LOG_PEERS_H
#include "base/note.h"
#include "io/io.h"
#include "log/frame.h"
#include "obs/log.h"
#include "obs/metrics.h"

struct peers;
struct peers_events { /* on the loop's thread; views are valid during the call */
    /* Delivers a frame of the control lane. In a vote request the candidate is the sender.
     * False: the replica cannot take a step now. Reading then pauses until peers_resume, and the
     * frame is delivered again. */
    bool (*on_frame)(void *owner, uint64_t from, struct peer_frame *frame);
    /* Delivers a part of a snapshot from replica `from`. Chunks arrive in order without gap, and
     * their total is the announced size. Returns false like on_frame. on_snap_lost follows if
     * the connection breaks before the end. */
    bool (*on_snap)(void *owner, uint64_t from, struct peer_frame *frame);
    void (*on_snap_lost)(void *owner, uint64_t from);
    /* Passes the cluster id to a replica without a cluster. Store the id durably before
     * returning true. False refuses the connection. */
    bool (*on_cluster)(void *owner, uint64_t cluster_id);
    /* A peer sent its hello. `address` is empty unless the peer dialed this replica. */
    void (*on_hello)(void *owner, uint64_t from, uint32_t level, struct str address);
    /* A replica of another cluster, with a valid identity, sent a hello to replica `to`, perhaps
     * this one, and was refused. May be NULL. */
    void (*on_foreign)(void *owner, uint64_t cluster_id, uint64_t to);
    /* A snapshot's transfer ended. ERR_OK: the peer accepted the whole snapshot. */
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
    uint64_t idle_ms;   /* maximum silence of a connection; 0 means 3,000 */
    struct peers_events events;
};
enum err peers_open(const struct peers_options *options, struct peers **ret_peers,
                    struct note *note); /* starts listening; errors of net_listen and metrics_add */
/* Closes all connections; no callback follows. Must not be called in a callback. The memory is
 * freed when all streams and file jobs have ended. Accepts NULL. */
void peers_close(struct peers *peers);
const char *peers_address(const struct peers *peers);
/* Sets the peers to dial. A changed address is dialed anew. A peer that is no longer listed is
 * removed, and its snapshot transfer ends with ERR_CANCELLED. This replica's own entry is
 * ignored. ERR_FULL (more than PEERS_MAX) and ERR_INVALID (bad address) change nothing. After
 * ERR_NOMEM some peers are missing. */
enum { PEERS_MAX = 2 * REPLICA_MEMBERS_MAX };
struct peer_where {
    uint64_t id;
    const char *address;
};
enum err peers_set(struct peers *peers, const struct peer_where *where, size_t count);
/* Queues a frame for the end of the turn. After ERR_FULL, ERR_UNAVAILABLE (no connection) or
 * ERR_NOMEM the frame is lost. */
enum err peers_send(struct peers *peers, uint64_t to, const struct peer_frame *frame);
/* Sends an append with `count` entries after frame->u.append.prev_index, in frames of about
 * FRAME_APPEND_BYTES. `next` returns the entries in order, or false: then the call ends with
 * ERR_NOT_FOUND. *ret_sent: number of entries sent, also after an error. */
typedef bool peers_entry_fn(void *context, uint64_t index, struct entry *ret_entry);
enum err peers_send_append(struct peers *peers, uint64_t to, const struct peer_frame *frame,
                           uint32_t count, peers_entry_fn *next, void *context, uint32_t *ret_sent);
size_t peers_queued(const struct peers *peers, uint64_t to);
bool peers_connected(const struct peers *peers, uint64_t to);
/* Address of the connection, or "". */
const char *peers_met_at(const struct peers *peers, uint64_t to);
/* Sends the first begin->bytes bytes of a file over the bulk lane, read by `worker`, then calls
 * on_snap_sent. File and worker must exist until on_snap_sent or peers_close. ERR_BUSY (a
 * transfer to this peer runs), ERR_NOT_FOUND (no such peer), ERR_NOMEM. */
enum err peers_send_file(struct peers *peers, uint64_t to, const struct frame_snap_begin *begin,
                         const char *path, struct loop_worker *worker);
/* on_snap_sent follows with ERR_CANCELLED. */
void peers_stop_file(struct peers *peers, uint64_t to);
/* Call inside on_snap: refuses the snapshot and closes the connection, so the sender's transfer
 * breaks. on_snap_lost follows if the begin frame was accepted. */
void peers_refuse_snap(struct peers *peers, uint64_t from);
void peers_resume(struct peers *peers);
#endif
