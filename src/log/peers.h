/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the other replicas: their admission, what is sent, what is dropped.
 *
 * Each replica dials each other one; a connection carries frames one way, from the dialer, and only
 * the hello, a beat now and then and the end of a snapshot come back. Two lanes: control
 * (everything small and appends) and bulk (snapshots), so that a heartbeat never queues behind a
 * snapshot. What the protocol can send again is dropped when a peer's queue is full; nothing is
 * dropped silently (metrics).
 *
 * Both sides of a connection beat three times in idle_ms, and a side that heard nothing for idle_ms
 * hangs up: after a partition TCP would try again only when its own back-off, by then perhaps a
 * minute, has passed; a new connection is there in about a second.
 *
 * Admission: the hello names cluster, sender and receiver; all three must be right (a wiped
 * replica has the old address and another identity). Under TLS the peer's certificate must carry
 * muster://replica/<x> with x the name or the 16 hex digits of the id in its hello. A joiner that
 * knows no cluster yet takes the first one that speaks to it by its id, and dials nobody before.
 * Any replica with a right hello may speak, a member or not: a leader may be new to us.
 * A hello that somebody recorded and says again leads nowhere (peers_greet.c).
 * Names are resolved anew on every dial; back-off is jittered, 20 ms to 1 s, and starts anew when
 * peers_set names a peer or the peer itself says hello.
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
    /* A frame on the control lane; a vote's candidate is its sender. False: stop reading this
     * connection until peers_resume: the replica takes no step just now; the frame will be given
     * again. */
    bool (*on_frame)(void *owner, uint64_t from, struct peer_frame *frame);
    /* The bulk lane. `from` began, went on with, or ended a snapshot; the same false. The chunks
     * come in order and without gap, and are as many bytes as was said when the end comes. A
     * connection that breaks in between is on_snap_lost. */
    bool (*on_snap)(void *owner, uint64_t from, struct peer_frame *frame);
    void (*on_snap_lost)(void *owner, uint64_t from);
    /* A joiner learned its cluster: write it down; nothing is heard of it before. False
     * refuses. */
    bool (*on_cluster)(void *owner, uint64_t cluster_id);
    /* A peer said hello: what it speaks and, when it dialed us, where it says it is; else empty. */
    void (*on_hello)(void *owner, uint64_t from, uint32_t level, struct str address);
    /* A replica of another cluster said hello, to the replica `to`, which may be us; refused. Its
     * identity is good. May be NULL. */
    void (*on_foreign)(void *owner, uint64_t cluster_id, uint64_t to);
    /* The sending of a snapshot ended: ERR_OK the peer's on_snap has taken the end of it. */
    void (*on_snap_sent)(void *owner, uint64_t to, uint64_t id, enum err err);
    void *owner;
};
struct peers_options {
    struct io *io;
    const struct log_source *log; /* may be NULL */
    struct metrics *metrics;      /* may be NULL */
    const char *listen, *address, *name;
    struct tls_context *tls_server, *tls_client; /* both or neither; borrowed until closed */
    uint64_t id, cluster_id;
    uint32_t level;
    size_t queue_bytes; /* per peer; an empty queue takes any one frame; 0: 32 MiB */
    uint64_t idle_ms;   /* a silent connection is closed after; 0: 3,000 */
    struct peers_events events;
};
enum err peers_open(const struct peers_options *options, struct peers **ret_peers,
                    struct note *note); /* listens; errors of net_listen and metrics_add */
/* No callback follows. Not from inside one. Its memory is given back when the loop has reported
 * that its streams are closed and the worker is done with its file. NULL is fine. */
void peers_close(struct peers *peers);
const char *peers_address(const struct peers *peers); /* as others know it */
/* These are there, and are dialed; a peer that is left out is removed, and what was being sent to it
 * ends with ERR_CANCELLED. An address that changed is dialed anew. Self is left out. ERR_FULL past
 * PEERS_MAX, ERR_INVALID (an address), and nothing has changed; ERR_NOMEM, some are not there. */
enum { PEERS_MAX = 2 * REPLICA_MEMBERS_MAX };
struct peer_where {
    uint64_t id;
    const char *address;
};
enum err peers_set(struct peers *peers, const struct peer_where *where, size_t count);
/* ERR_FULL, ERR_UNAVAILABLE (no connection), ERR_NOMEM: dropped, which Raft may see as loss. What
 * is sent leaves at the end of the turn. */
enum err peers_send(struct peers *peers, uint64_t to, const struct peer_frame *frame);
/* An append with `count` entries after frame->u.append.prev_index, cut into several frames of about
 * FRAME_APPEND_BYTES: the entries come from `next`, in order; false, there is none, ends it with
 * ERR_NOT_FOUND. *ret_sent: how many went, which may be some also after an error. */
typedef bool peers_entry_fn(void *context, uint64_t index, struct entry *ret_entry);
enum err peers_send_append(struct peers *peers, uint64_t to, const struct peer_frame *frame,
                           uint32_t count, peers_entry_fn *next, void *context, uint32_t *ret_sent);
size_t peers_queued(const struct peers *peers, uint64_t to); /* bytes */
bool peers_connected(const struct peers *peers, uint64_t to);
const char *peers_met_at(const struct peers *peers, uint64_t to); /* "": not connected */
/* Sends the first begin->bytes of a file over the bulk lane, read in chunks on `worker`; one at a
 * time per peer (ERR_BUSY), until on_snap_sent, which follows. The file stays readable until then,
 * and the worker is not closed before peers_close or on_snap_sent. ERR_NOT_FOUND (no such peer),
 * ERR_NOMEM. */
enum err peers_send_file(struct peers *peers, uint64_t to, const struct frame_snap_begin *begin,
                         const char *path, struct loop_worker *worker);
void peers_stop_file(struct peers *peers, uint64_t to); /* on_snap_sent with ERR_CANCELLED */
/* From on_snap: what `from` is sending is not wanted, so it is hung up on; its on_snap_sent says
 * that the sending broke. on_snap_lost follows if the begin had been taken. */
void peers_refuse_snap(struct peers *peers, uint64_t from);
void peers_resume(struct peers *peers); /* reading goes on everywhere, later in this turn */
#endif
