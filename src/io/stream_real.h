/* SPDX-License-Identifier: Apache-2.0 */
/* A stream over a kernel socket, with the parts that dialing and listening use. Private to these
 * files.
 *
 *     DIALING --connected--> OPEN --end of both sides, failure, stream_close--> CLOSING --> gone
 *        \________________failure, stream_close_______________________________/
 *
 * Output has two buffers: `front` is being sent, from `front_at` on, and new writes go to `back`.
 * When `front` is sent, the buffers are swapped. */
#ifndef IO_STREAM_REAL_H
#define IO_STREAM_REAL_H
#include "base/buf.h"
#include "io/real_internal.h"

enum {
    STREAM_OUTPUT_MAX_DEFAULT = 1024 * 1024,
    STREAM_READ_PER_TURN = 256 * 1024, /* bytes per stream and turn */
    STREAM_DIRECT_MIN = 32 * 1024,     /* larger writes bypass an empty buffer */
    STREAM_KEEP = 4 * 1024,            /* bytes of buffers that an idle stream keeps */
    STREAM_PEER_CAP = 80,              /* longest text: "[v6%scope]:port" */
    DIAL_TIMEOUT_DEFAULT_MS = 10 * 1000,
};

struct dial;
struct real_listener;
enum stream_state { STREAM_DIALING, STREAM_OPEN, STREAM_CLOSING };

struct real_stream {
    struct stream stream;
    struct real_io *real;
    enum stream_state state;
    struct real_listener *listener; /* NULL when the listener is closed */
    struct list in_listener, in_unsent;
    struct real_listener *shakes_for; /* the listener during the TLS handshake, or NULL */
    struct stream *tls;               /* the TLS stream that uses this stream */
    struct list in_handshakes;
    struct dial *dial; /* NULL once the stream is open */
    struct stream_events events;
    void *owner;
    struct task notify; /* calls on_drained; also on_closed if `has_handle` is false */

    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    uv_connect_t connect;
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool has_handle; /* the close callback of `uv` did not run yet */

    struct buf front, back;
    size_t front_at, writing;    /* writing: bytes of `front` given to libuv */
    size_t output_max, drain_at; /* at drain_at unsent bytes on_drained is called */
    uint64_t read_turn;          /* the turn of read_bytes */
    size_t read_bytes;
    bool started, paused, reading;
    bool drain_wanted, drain_due;
    bool peer_ended, ending, shut; /* ending: stream_end was called; shut: shutdown is done */

    enum err why;     /* reason for the state CLOSING */
    const char *verb; /* the operation that failed, for the note, or NULL */
    int code;         /* libuv's error; 0 if there is only `why` */
    char peer[STREAM_PEER_CAP];
};

/* The stream has no handle yet. NULL if memory runs out. */
struct real_stream *stream_new(struct real_io *real, size_t output_max);
void stream_free(struct real_stream *s); /* for a stream that never had a handle */
/* Makes an open stream from a connected socket, which the stream owns only on success. */
int stream_adopt(struct real_stream *s, int fd, bool is_unix);
/* Call when the socket is connected. */
void stream_opened(struct real_stream *s);
/* on_closed follows with the note "<verb> <address>: <why>", or "closed" without a verb. */
void stream_fail(struct real_stream *s, const char *verb, enum err why, int code);
/* Called from the handle's close callback. */
void stream_finish(struct real_stream *s);
/* "1.2.3.4:80", "[::1]:80", "unix". */
void stream_address_text(const struct sockaddr_storage *address, char text[STREAM_PEER_CAP]);

/* -- io/dial_real.c -- */
void dial_stop(struct dial *dial);    /* starts to close the dial's stream */
void dial_release(struct dial *dial); /* separates the dial from its stream; accepts NULL */
/* -- io/listen_real.c -- */
void listener_forget(struct real_listener *listener, struct real_stream *s);
#endif
