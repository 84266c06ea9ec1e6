/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of a connection's end, shared by sim_tcp.c, sim_stream.c and sim_net.c; nobody
 * else includes it.
 *
 * A socket is the kernel's: numbered bytes, acknowledgements, timers. It outlives the process's
 * handle (what was taken is still sent after a close) and dies with the power. A stream is the
 * process's handle: callbacks, pause, output that the kernel has not taken yet. Kernel code never
 * calls back; it marks the stream ready, and the process hears of it in its next turn. */
#ifndef SIM_TCP_H
#define SIM_TCP_H
#include "base/buf.h"
#include "sim/world.h"

enum {
    SIM_SEGMENT_MAX = 1448,         /* bytes of a stream in one packet */
    SIM_SEND_BUFFER = 64 * 1024,    /* taken by the kernel, not yet acknowledged */
    SIM_RECEIVE_BUFFER = 64 * 1024, /* acknowledged, not yet read: the window */
    SIM_BACKLOG_MAX = 128,          /* connections of a listener that wait for accept */
    SIM_SOCKETS_MAX = 65536,        /* per host; further ones are refused */
    SIM_ADDRESS_CAP = 160,
    SIM_KEY_CAP = 128, /* "7000", "lo:7000" or "unix:/path" */
};
#define SIM_RESEND_NS            (200 * NS_PER_MS) /* first; doubles */
#define SIM_RESEND_DOUBLINGS_MAX 5
#define SIM_SYN_RESEND_NS        (1000 * NS_PER_MS)
#define SIM_LINGER_NS            (10000 * NS_PER_MS) /* of a socket whose process closed it */

struct sim_socket;

struct sim_listener {
    struct listener base;
    struct list link; /* on its host */
    struct sim_host *host;
    char key[SIM_KEY_CAP], address[SIM_ADDRESS_CAP];
    struct listen_options options;
    struct list backlog; /* sockets, half open or waiting for accept */
    size_t backlog_count;
    struct sim_ready ready;
    bool accepting, closed;
};
struct sim_stream {
    struct stream base;
    struct list link, unsent; /* on its host */
    struct sim_host *host;
    struct sim_socket *socket;     /* NULL: never had one, or the process closed it */
    struct sim_listener *listener; /* that counts it as open */
    struct stream_events events;
    void *owner;
    bool started; /* it has events; an accepted one gets them later */
    bool opened, paused, ended, end_reported, closing, failed;
    struct buf pending;          /* written, not yet taken by the kernel */
    size_t output_max, drain_at; /* on_drained is due when no more than drain_at is pending */
    bool drain_wanted;
    struct sim_event deadline; /* of a dial */
    struct sim_ready ready;
    enum err why;
    struct note note;
    char peer_address[SIM_ADDRESS_CAP];
};

enum sim_socket_state {
    SIM_SYN_SENT,
    SIM_SYN_RECEIVED, /* answered, not yet confirmed: half open */
    SIM_ESTABLISHED,
    SIM_TIME_WAIT, /* both ended; only repeats of the last acknowledgement */
    SIM_GONE,      /* no longer known to the network; the stream reads the rest */
};
struct sim_socket {
    struct list link;    /* in its host's bucket */
    struct list waiting; /* in its listener's backlog */
    struct sim_host *host, *peer;
    uint64_t connection;
    uint8_t side;
    bool tls;
    enum sim_socket_state state;
    struct sim_stream *stream;     /* NULL: closed by the process, or not accepted yet */
    struct sim_listener *listener; /* until accepted */
    char key[SIM_KEY_CAP];         /* dialed; for resending the first packet */

    struct buf out;                           /* from `unacked` on */
    uint64_t unacked, next, sent, window_end; /* numbers of bytes; the end of the stream is one too;
                                                   next goes back for a resend, sent does not */
    bool fin_wanted, fin_acked;
    unsigned resends;
    sim_time waiting_since; /* for an answer, without progress */
    sim_time resend_at, linger_until;
    struct sim_event timer;

    struct buf in;
    struct list early; /* packets that came before their turn, by number */
    uint64_t expected;
    bool fin_received;

    bool was_open;
    enum err why; /* when SIM_GONE */
    const char *why_text;
};

/* -- sim_tcp.c: what the process's side may ask of the kernel -- */
enum err sim_socket_dial(struct sim_host *host, struct sim_host *peer, const char *key, bool tls,
                         struct sim_socket **ret_socket);
void sim_socket_free(struct sim_socket *s); /* silently; NULL is fine */
/* Takes what fits. Returns how much; the rest waits for sim_stream_progress. */
size_t sim_socket_take(struct sim_socket *s, struct str bytes);
void sim_socket_push(struct sim_socket *s);             /* sends what may be sent */
void sim_socket_end(struct sim_socket *s);              /* after what was taken */
void sim_socket_read(struct sim_socket *s, size_t len); /* that much of `in` was delivered */
/* The process's handle goes; what was taken is still sent, or a reset when something was not
 * read. */
void sim_socket_abandon(struct sim_socket *s);
void sim_socket_reset(struct sim_socket *s); /* sends a reset to the peer, then frees */
void sim_sockets_power_cut(struct sim_host *host);

/* -- sim_stream.c -- */
struct sim_stream *sim_stream_new(struct sim_host *host, size_t output_max); /* NULL: no memory */
void sim_stream_attach(struct sim_stream *stream, struct sim_socket *socket);
void sim_stream_free(struct sim_stream *stream); /* without a callback */

/* -- sim_net.c and sim_stream.c: what the kernel reports -- */
void sim_stream_progress(struct sim_stream *stream); /* something changed; look at it in a turn */
struct sim_listener *sim_listener_find(struct sim_host *host, struct str key);
bool sim_listener_wants(struct sim_listener *listener, bool tls); /* false: count and refuse */
void sim_listener_drop(struct sim_socket *s);                     /* leaves the backlog */
#endif
