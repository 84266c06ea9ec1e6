/* SPDX-License-Identifier: Apache-2.0 */
/* Types and functions that the peers*.c files share.
 *
 *   peers.c       opening and closing, the list of peers, the turn, metrics
 *   peers_in.c    connections from other replicas: delivery, back-pressure, silence
 *   peers_greet.c admission of those connections: the hello, and protection against replay
 *   peers_out.c   connections to other replicas: back-off, the hello, queues
 *   peers_file.c  one file over the bulk lane
 *
 * A line is one lane to one peer. A line survives its connections:
 *
 *     OFF --wanted--> DIALING --hello came--> OPEN
 *      ^                 |                      |
 *      |<--on_closed-- CLOSING <--any failure---+
 *      +--wanted--> WAITING --timer--> DIALING
 *
 * A stream calls its owner until on_closed. `kept` counts streams and jobs; after peers_close
 * the last one frees struct peers. */
#ifndef LOG_PEERS_INTERNAL_H
#define LOG_PEERS_INTERNAL_H
#include "base/list.h"
#include "base/prng.h"
#include "log/peers.h"

enum {
    BACKOFF_MIN_MS = 20,
    BACKOFF_MAX_MS = 1000,
    DIAL_STALE_MS = 300, /* a hello from the peer restarts an older dial */
    DIAL_MS = 2000,      /* limit for resolve, connect and handshake */
    HELLO_MS = 2000,     /* limit from connect or accept to the peer's hello */
    IDLE_MS_DEFAULT = 3000,
    BEATS_PER_IDLE = 3,
    SLOW_FACTOR = 10, /* limit for a whole frame, in units of idle_ms */
    STALL_MS = 60000, /* maximum pause of a snapshot transfer */
    QUEUE_BYTES_DEFAULT = 32 << 20,
    KEPT_BYTES = 64 << 10, /* an idle line frees a larger empty buffer */
    STRANGERS_MAX = 64,    /* connections without a hello; a new connection closes the oldest */
    OUTSIDERS_MAX = 32,    /* connections of senders that peers_set did not list */
    IN_STREAMS_MAX = 512,
    IN_OUTPUT_MAX = 16 << 10,  /* buffer for the hello and beats to a dialer */
    BULK_OUTPUT_MAX = 1 << 20, /* bytes of a file not accepted by the kernel yet */
    FRAME_BYTES_MAX = FRAME_HEAD + FRAME_MAX,
    ID_TEXT_CAP = 17,
};

/* Why a connection was closed; a label of muster_log_peer_refused_total. */
enum refusal {
    REFUSED_FRAME,
    REFUSED_VERSION,
    REFUSED_CLUSTER,
    REFUSED_RECEIVER, /* addressed to another replica, or from this replica */
    REFUSED_IDENTITY, /* the certificate does not name the sender */
    REFUSED_TLS,
    REFUSED_LATE,   /* the hello or a frame took too long */
    REFUSED_SILENT, /* no beats, or the peer does not read */
    REFUSED_ORDER,  /* a frame that is not allowed at this point */
    REFUSED_FULL,
    REFUSED_MEMORY,
    REFUSED_COUNT
};
enum drop { DROP_FULL, DROP_UNCONNECTED, DROP_MEMORY, DROP_COUNT };
enum { BYTES_IN, BYTES_OUT };

struct peers_meter { /* NULL pointers without metrics */
    struct counter *refused[REFUSED_COUNT], *dropped[DROP_COUNT], *bytes[2];
    struct counter *dials[2]; /* [0]: got a hello; [1]: failed */
    struct gauge *connected;
};

/* -- connections to other replicas -- */
enum line_state { LINE_OFF, LINE_WAITING, LINE_DIALING, LINE_OPEN, LINE_CLOSING };
struct peer_line {
    struct peer *peer;
    enum frame_lane lane;
    enum line_state state;
    struct stream *stream;
    struct timer timer;  /* next dial, the hello's deadline or the next beat */
    uint64_t backoff_ms; /* pause before the next dial, without jitter */
    mono_time dialed;
    mono_time dial_at; /* earliest next dial */
    bool connected;    /* DIALING: connected, but no hello yet */
    bool quiet;        /* a file transfer ended: do not log the close */
    bool reported;     /* failure logged: do not log further failed dials */
    uint64_t nonce;    /* random; the nonces of both sides give the session number */
    struct frame_link in, out;
    struct buf input;
    struct buf output;
    struct list dirty; /* in peers->dirty while `output` is not empty */
    mono_time heard;
    struct note why; /* why this side closed; empty: the peer closed */
};
struct sending { /* written by peers_file.c only */
    struct peers *peers;
    struct peer *peer; /* NULL after peers_close */
    struct loop_worker *worker;
    struct frame_snap_begin begin;
    uint64_t sent; /* bytes of the file given to the stream */
    bool begun, ended;
    bool over; /* the transfer has ended: `report` delivers `result` */
    enum err result;
    struct task report;
    mono_time moved;
    bool has_chunk; /* `room` has the next `got` bytes */

    /* Owned by the job while it runs. */
    struct job job;
    bool reading;
    struct fs *fs;
    uint64_t at;
    size_t want, got;
    enum err read_err;
    char *room;
    char path[];
};
struct peer {
    struct list link; /* in peers->list, or in peers->gone after removal */
    struct peers *peers;
    uint64_t id;
    char id_text[ID_TEXT_CAP];
    struct peer_line control, bulk;
    struct sending *sending; /* the file being sent, until on_snap_sent */
    /* gone: removed, not freed yet. named: the running peers_set lists the peer. */
    bool gone, named;
    char address[REPLICA_ADDRESS_MAX + 1];
};

/* -- connections from other replicas -- */
struct incoming {
    struct list link;
    struct peers *peers;
    struct stream *stream;
    struct timer timer;
    struct frame_link in, out;
    struct buf input; /* bytes from input_at on are not consumed */
    size_t input_at;
    enum frame_lane lane;
    uint64_t from;
    char from_text[ID_TEXT_CAP];
    bool greeted;        /* the hello was valid and answered; may be a replay */
    bool known;          /* the peer used this side's answer: no replay */
    uint64_t cluster_id; /* cluster_id, level, name and address are from the hello */
    uint32_t level;
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];
    bool held;  /* reading is paused: the owner refused the frame at input_at */
    bool ended; /* the dialer closed its sending side */
    bool closing;
    mono_time heard;       /* when bytes arrived last */
    mono_time frame_since; /* first byte of an incomplete frame; else MONO_NEVER */
    bool snap;
    bool unwanted; /* the owner called peers_refuse_snap in this callback */
    uint64_t snap_id, snap_at, snap_bytes;
};

struct peers {
    struct io *io;
    struct log_source log;
    struct peers_events events;
    struct peers_meter meter;
    struct tls_context *tls_server, *tls_client;
    uint64_t id, cluster_id;
    uint32_t level;
    size_t queue_bytes;
    uint64_t idle_ms;
    struct listener *listener;
    struct list list, gone; /* listed by peers_set; removed but not freed */
    size_t count;
    struct list strangers, incoming;
    size_t stranger_count;
    struct list dirty;
    struct turn_hook hook;
    struct task wake, resume;
    struct prng prng;
    size_t kept; /* streams and jobs with a pointer to this struct */
    bool calling;
    bool closing;
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];
};

/* -- peers.c -- */
struct peer *peers_find(const struct peers *peers, uint64_t id); /* NULL: no such peer */
void peers_release(struct peers *peers);
void peers_count_refusal(struct peers *peers, enum refusal refusal);
void peers_count_drop(struct peers *peers, enum drop drop);
void peers_count_bytes(struct peers *peers, int direction, uint64_t bytes);
void peers_id_text(uint64_t id, char text[ID_TEXT_CAP]);
const char *peers_lane_name(enum frame_lane lane);
const char *peers_refusal_name(enum refusal refusal);
struct peer_frame peers_hello(const struct peers *peers, enum frame_lane lane, uint64_t to,
                              uint64_t nonce);
/* True without TLS, or if the peer's certificate names the hello's sender. */
bool peers_identity_ok(const struct peers *peers, const struct stream *stream,
                       const struct frame_hello *hello, struct note *note);
void peer_free_if_over(struct peer *peer); /* frees a removed peer that nothing uses */
void peers_wake(struct peers *peers);

/* -- peers_in.c -- */
void peer_in_accept(void *peers, struct stream *own_stream);
void peer_in_resume_all(struct peers *peers);
void peer_in_shut_all(struct peers *peers);

void peer_in_hang_up(struct incoming *incoming);
void peer_in_refuse(struct incoming *incoming, enum refusal refusal, const char *note);
enum err peer_in_answer(struct incoming *incoming,
                        const struct peer_frame *frame); /* sends to the dialer */
void peer_in_leave_list(struct incoming *incoming);

/* -- peers_greet.c -- */
/* peer_greet checks and answers the hello. peer_welcome takes the next frame, a beat, which
 * makes the sender `known`. An error: the connection is refused. */
enum err peer_greet(struct incoming *incoming, const struct frame_hello *hello);
enum err peer_welcome(struct incoming *incoming, const struct peer_frame *first);

/* -- peers_out.c -- */
enum err peer_line_init(struct peer_line *line, struct peer *peer, enum frame_lane lane);
void peer_line_deinit(struct peer_line *line); /* the line must have no stream */
void peer_line_look(struct peer_line *line);   /* dials if a wanted connection is missing */
void peer_line_hurry(struct peer_line *line);  /* the peer is reachable: shortens the back-off */
void peer_line_drop(struct peer_line *line,
                    const char *why);        /* closes the line; redials if wanted */
void peer_line_shut(struct peer_line *line); /* closes for good, without callbacks */
void peer_line_mark_dirty(struct peer_line *line);
void peer_line_flush(struct peer_line *line);
size_t peer_line_queued(const struct peer_line *line);

/* -- peers_file.c -- */
/* Continues the transfer, when the line opens or has room. */
void peer_file_pump(struct sending *sending);
/* Ends the transfer; on_snap_sent follows later. */
void peer_file_over(struct sending *sending, enum err err);
void peer_file_shut(struct sending *sending); /* ends the transfer, without callbacks */
#endif
