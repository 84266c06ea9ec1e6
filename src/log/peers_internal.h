/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of peers share. Nothing outside them includes this.
 *
 *   peers.c       opening and closing, the list of peers, the turn, counting
 *   peers_in.c    connections others dialed: frames up, holding back, silence
 *   peers_greet.c admission to them: the hello, and proof that it is no recorded one
 *   peers_out.c   connections we dial: back-off, the hello, queues
 *   peers_file.c  one file over the bulk lane
 *
 * A line is one lane to one peer and outlives its connections:
 *
 *     OFF --wanted--> DIALING --hello came--> OPEN
 *      ^                 |                      |
 *      |<--on_closed-- CLOSING <--any failure---+
 *      +--wanted--> WAITING --timer--> DIALING
 *
 * A stream's memory goes with its on_closed, so everything it may call is kept until then: `kept`
 * counts streams and jobs, and the last one to come back after peers_close frees the whole. */
#ifndef LOG_PEERS_INTERNAL_H
#define LOG_PEERS_INTERNAL_H
#include "base/list.h"
#include "base/prng.h"
#include "log/peers.h"

enum {
    BACKOFF_MIN_MS = 20,
    BACKOFF_MAX_MS = 1000,
    DIAL_STALE_MS = 300, /* a dial this old is begun anew when the other side shows up */
    DIAL_MS = 2000,      /* resolve, connect, handshake */
    HELLO_MS = 2000,     /* from then, or from accept, to the other's hello */
    IDLE_MS_DEFAULT = 3000,
    BEATS_PER_IDLE = 3,
    SLOW_FACTOR = 10, /* a frame that has begun must be whole within so many idle_ms */
    STALL_MS = 60000, /* a file that does not move is given up */
    QUEUE_BYTES_DEFAULT = 32 << 20,
    KEPT_BYTES = 64 << 10,     /* an empty buffer larger than this is given back when idle */
    STRANGERS_MAX = 64,        /* accepted, no hello yet; the oldest makes room */
    OUTSIDERS_MAX = 32,        /* connections of senders that peers_set did not name */
    IN_STREAMS_MAX = 512,      /* handshakes that are under way included */
    IN_OUTPUT_MAX = 16 << 10,  /* our hello and beats to a dialer */
    BULK_OUTPUT_MAX = 1 << 20, /* bytes of a file on their way to the kernel */
    FRAME_BYTES_MAX = FRAME_HEAD + FRAME_MAX,
    ID_TEXT_CAP = 17,
};

/* Why a connection was refused or hung up on; a label of muster_log_peer_refused_total. */
enum refusal {
    REFUSED_FRAME,    /* bytes that are no frame of this connection */
    REFUSED_VERSION,  /* another protocol */
    REFUSED_CLUSTER,  /* another cluster */
    REFUSED_RECEIVER, /* meant for another replica, or sent by ourselves */
    REFUSED_IDENTITY, /* the certificate does not name the sender */
    REFUSED_TLS,      /* no handshake */
    REFUSED_LATE,     /* no hello, or half a frame, for too long */
    REFUSED_SILENT,   /* no beat; or it does not read ours */
    REFUSED_ORDER,    /* a frame that may not come here */
    REFUSED_FULL,     /* too many connections */
    REFUSED_MEMORY,
    REFUSED_COUNT
};
enum drop { DROP_FULL, DROP_UNCONNECTED, DROP_MEMORY, DROP_COUNT };
enum { BYTES_IN, BYTES_OUT };

struct peers_meter { /* NULLs without metrics */
    struct counter *refused[REFUSED_COUNT], *dropped[DROP_COUNT], *bytes[2];
    struct counter *dials[2]; /* that got the hello; that failed */
    struct gauge *connected;
};

/* -- out -- */
enum line_state { LINE_OFF, LINE_WAITING, LINE_DIALING, LINE_OPEN, LINE_CLOSING };
struct peer_line {
    struct peer *peer;
    enum frame_lane lane;
    enum line_state state;
    struct stream *stream; /* DIALING, OPEN, CLOSING */
    struct timer timer;    /* WAITING: dial; DIALING: the hello is late; OPEN: beat */
    uint64_t backoff_ms;   /* the next pause, before jitter */
    mono_time dialed;      /* the last time; 0: never */
    mono_time dial_at;     /* not before */
    bool connected;        /* DIALING: only its hello is missing */
    bool quiet;            /* it ends because its file is over: no news */
    bool reported;         /* that it is down: once, not with every dial */
    uint64_t nonce;        /* our half of the session */
    struct frame_link in, out;
    struct buf input;  /* their hello and beats; never large */
    struct buf output; /* frames of this turn */
    struct list dirty; /* in peers->dirty while output holds something */
    mono_time heard;
    struct note why; /* we hung up; empty when the other side did */
};
struct sending { /* changed by peers_file.c alone */
    struct peers *peers;
    struct peer *peer; /* NULL: peers_close has run */
    struct loop_worker *worker;
    struct frame_snap_begin begin;
    uint64_t sent; /* bytes of the file handed to the stream */
    bool begun, ended;
    bool over; /* how it ended is known, and reported soon */
    enum err result;
    struct task report;
    mono_time moved; /* when it last went on */
    bool has_chunk;  /* `room` holds `got` bytes that come next */

    /* The job's while it runs. */
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
    struct list link; /* in peers->list or, when it was left out, peers->gone */
    struct peers *peers;
    uint64_t id;
    char id_text[ID_TEXT_CAP];
    struct peer_line control, bulk;
    struct sending *sending; /* a file, until on_snap_sent */
    bool gone, named;        /* named: by the peers_set that runs */
    char address[REPLICA_ADDRESS_MAX + 1];
};

/* -- in -- */
struct incoming {
    struct list link; /* in peers->strangers or peers->incoming */
    struct peers *peers;
    struct stream *stream;
    struct timer timer;
    struct frame_link in, out;
    struct buf input; /* from input_at on: bytes that were not taken yet */
    size_t input_at;
    enum frame_lane lane;
    uint64_t from;
    char from_text[ID_TEXT_CAP];
    bool greeted;        /* its hello was good and is answered; it may be a recorded one */
    bool known;          /* it has spoken in the session that came of our answer */
    uint64_t cluster_id; /* of its hello; level, name and address too */
    uint32_t level;
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];
    bool held;  /* the frame at input_at was refused by the replica just now */
    bool ended; /* the dialer sends no more */
    bool closing;
    mono_time heard;       /* the last bytes */
    mono_time frame_since; /* when the frame that is coming in began; MONO_NEVER: none is */
    bool snap;             /* between begin and end */
    bool unwanted;         /* the owner said so of what it was given just now */
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
    struct list list, gone; /* of struct peer */
    size_t count;
    struct list strangers, incoming;
    size_t stranger_count;
    struct list dirty; /* lines with output */
    struct turn_hook hook;
    struct task wake, resume;
    struct prng prng;
    size_t kept;  /* streams and jobs that still know us */
    bool calling; /* inside a callback to the owner */
    bool closing;
    char name[REPLICA_NAME_MAX + 1], address[REPLICA_ADDRESS_MAX + 1];
};

/* -- peers.c -- */
struct peer *peers_find(const struct peers *peers, uint64_t id); /* NULL: not there */
void peers_release(struct peers *peers);                         /* one of `kept` came back */
void peers_count_refusal(struct peers *peers, enum refusal refusal);
void peers_count_drop(struct peers *peers, enum drop drop);
void peers_count_bytes(struct peers *peers, int direction, uint64_t bytes);
void peers_id_text(uint64_t id, char text[ID_TEXT_CAP]);
const char *peers_lane_name(enum frame_lane lane);
const char *peers_refusal_name(enum refusal refusal);
/* Our side's hello. */
struct peer_frame peers_hello(const struct peers *peers, enum frame_lane lane, uint64_t to,
                              uint64_t nonce);
/* Whether the certificate of the stream's peer names the sender of the hello. True without TLS. */
bool peers_identity_ok(const struct peers *peers, const struct stream *stream,
                       const struct frame_hello *hello, struct note *note);
void peer_free_if_over(struct peer *peer); /* gone, and nothing holds it any more */
void peers_wake(struct peers *peers);      /* a turn, and with it the hook, follows */

/* -- peers_in.c -- */
void peer_in_accept(void *peers, struct stream *own_stream);
void peer_in_resume_all(struct peers *peers);
void peer_in_shut_all(struct peers *peers); /* for good, without a word */

void peer_in_hang_up(struct incoming *incoming);
void peer_in_refuse(struct incoming *incoming, enum refusal refusal, const char *note);
enum err peer_in_answer(struct incoming *incoming,
                        const struct peer_frame *frame); /* on the way back */
void peer_in_leave_list(struct incoming *incoming);

/* -- peers_greet.c -- */
/* Both: ERR_OK, or it is refused. The hello is judged and answered; the first frame after it, a
 * beat, shows that the answer was read, and only then is the sender known. */
enum err peer_greet(struct incoming *incoming, const struct frame_hello *hello);
enum err peer_welcome(struct incoming *incoming, const struct peer_frame *first);

/* -- peers_out.c -- */
enum err peer_line_init(struct peer_line *line, struct peer *peer, enum frame_lane lane);
void peer_line_deinit(struct peer_line *line); /* without a stream */
void peer_line_look(struct peer_line *line);   /* dials if it is wanted and off */
void peer_line_hurry(struct peer_line *line);  /* the other side is there: no long back-off */
void peer_line_drop(struct peer_line *line,
                    const char *why);        /* hangs up; wanted, it is dialed anew */
void peer_line_shut(struct peer_line *line); /* for good, without a word */
void peer_line_mark_dirty(struct peer_line *line);
void peer_line_flush(struct peer_line *line);
size_t peer_line_queued(const struct peer_line *line);

/* -- peers_file.c -- */
void peer_file_pump(struct sending *sending);               /* the line is open or has room */
void peer_file_over(struct sending *sending, enum err err); /* on_snap_sent follows, later */
void peer_file_shut(struct sending *sending);               /* for good, without a word */
#endif
