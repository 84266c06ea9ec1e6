/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's socket and the process's stream of a connection. For sim_tcp.c, sim_stream.c and
 * sim_net.c.
 *
 * A socket has numbered bytes, acknowledgements and timers. It outlives the process's handle, and
 * is lost in a power cut. A stream is the process's handle: callbacks, pause, and output that the
 * kernel has not accepted yet. Kernel code never calls back: it marks the stream ready for the next
 * turn. */
#ifndef SIM_TCP_H
#define SIM_TCP_H
#include "base/buf.h"
#include "sim/world.h"

enum {
    SIM_SEGMENT_MAX = 1448,         /* bytes of data in one packet */
    SIM_SEND_BUFFER = 64 * 1024,    /* bytes accepted by the kernel but not acknowledged yet */
    SIM_RECEIVE_BUFFER = 64 * 1024, /* bytes acknowledged but not read yet: the window */
    SIM_BACKLOG_MAX = 128,          /* connections of a listener that wait to be accepted */
    SIM_SOCKETS_MAX = 65536,        /* per host; further connections are refused */
    SIM_ADDRESS_CAP = 160,
    SIM_KEY_CAP = 128, /* "7000", "lo:7000" or "unix:/path" */
};
#define SIM_RESEND_NS            (200 * NS_PER_MS) /* first timeout; doubles each time */
#define SIM_RESEND_DOUBLINGS_MAX 5
#define SIM_SYN_RESEND_NS        (1000 * NS_PER_MS)
#define SIM_LINGER_NS            (10000 * NS_PER_MS) /* how long a closed socket still lives */

struct sim_socket;

struct sim_listener {
    struct listener base;
    struct list link; /* in host.listeners */
    struct sim_host *host;
    char key[SIM_KEY_CAP], address[SIM_ADDRESS_CAP];
    struct listen_options options;
    struct list backlog; /* half open, or waiting to be accepted */
    size_t backlog_count;
    struct sim_ready ready;
    bool accepting, closed;
};
struct sim_stream {
    struct stream base;
    struct list link, unsent; /* in host.streams and in host.unsent */
    struct sim_host *host;
    struct sim_socket *socket;     /* NULL: none yet, or closed by the process */
    struct sim_listener *listener; /* the listener that counts this stream as open */
    struct stream_events events;
    void *owner;
    bool started; /* has callbacks; an accepted stream gets them later */
    bool opened, paused, ended, end_reported, closing, failed;
    struct buf pending;          /* output that the kernel has not accepted yet */
    size_t output_max, drain_at; /* on_drained is called when at most drain_at bytes are pending */
    bool drain_wanted;
    struct sim_event deadline;
    struct sim_ready ready;
    enum err why;
    struct note note;
    char peer_address[SIM_ADDRESS_CAP];
};

enum sim_socket_state {
    SIM_SYN_SENT,
    SIM_SYN_RECEIVED, /* half open: our answer is not confirmed yet */
    SIM_ESTABLISHED,
    SIM_TIME_WAIT, /* both sides have ended; only answers repeated packets */
    SIM_GONE,      /* not in the network any more; the stream may read the rest */
};
struct sim_socket {
    struct list link;
    struct list waiting; /* member of listener->backlog */
    struct sim_host *host, *peer;
    uint64_t connection;
    uint8_t side;
    bool tls;
    enum sim_socket_state state;
    struct sim_stream *stream;     /* NULL: closed by the process, or not accepted yet */
    struct sim_listener *listener; /* NULL once accepted */
    char key[SIM_KEY_CAP];

    struct buf out;                           /* output, starting at byte number `unacked` */
    uint64_t unacked, next, sent, window_end; /* a resend moves `next` back, but not `sent` */
    bool fin_wanted, fin_acked;
    unsigned resends;
    sim_time waiting_since; /* start of the wait for an answer */
    sim_time resend_at, linger_until;
    struct sim_event timer;

    struct buf in;
    struct list early; /* packets beyond `expected`, sorted by number */
    uint64_t expected;
    bool fin_received;

    bool was_open;
    enum err why;
    const char *why_text;
};

/* -- sim_tcp.c: calls from the process to the kernel -- */
enum err sim_socket_dial(struct sim_host *host, struct sim_host *peer, const char *key, bool tls,
                         struct sim_socket **ret_socket);
void sim_socket_free(struct sim_socket *s); /* sends nothing to the peer; accepts NULL */
/* Accepts the output that fits into the buffer, and returns its size. sim_stream_progress is called
 * when there is room again. */
size_t sim_socket_take(struct sim_socket *s, struct str bytes);
void sim_socket_push(struct sim_socket *s); /* sends packets as the window allows */
void sim_socket_end(struct sim_socket *s);  /* ends the stream after all output */
void sim_socket_read(struct sim_socket *s, size_t len);
/* Closes the process's handle. Accepted output is still sent. If received data was not read, the
 * peer gets a reset instead. */
void sim_socket_abandon(struct sim_socket *s);
void sim_socket_reset(struct sim_socket *s); /* sends a reset to the peer, then frees the socket */
void sim_sockets_power_cut(struct sim_host *host);

/* -- sim_stream.c -- */
struct sim_stream *sim_stream_new(struct sim_host *host, size_t output_max); /* NULL: no memory */
void sim_stream_attach(struct sim_stream *stream, struct sim_socket *socket);
void sim_stream_free(struct sim_stream *stream); /* frees without calling back */

/* -- sim_net.c and sim_stream.c: reports from the kernel -- */
void sim_stream_progress(struct sim_stream *stream); /* the socket changed: schedules a turn */
struct sim_listener *sim_listener_find(struct sim_host *host, struct str key);
/* if false, the caller counts and refuses the connection */
bool sim_listener_wants(struct sim_listener *listener, bool tls);
void sim_listener_drop(struct sim_socket *s);
#endif
