/* SPDX-License-Identifier: Apache-2.0 */
/* A stream over a kernel socket, and what dialing and listening need of it. Nobody else includes
 * this.
 *
 *     DIALING --connected--> OPEN --end of both sides, failure, stream_close--> CLOSING --> gone
 *        \________________failure, stream_close_______________________________/
 *
 * Output waits in two buffers: `front` is on its way to the kernel from `front_at` on, `back`
 * gathers what is written meanwhile; they change places when the front is through. */
#ifndef IO_STREAM_REAL_H
#define IO_STREAM_REAL_H
#include "base/buf.h"
#include "io/real_internal.h"

enum {
    STREAM_OUTPUT_MAX_DEFAULT = 1024 * 1024,
    STREAM_READ_PER_TURN = 256 * 1024, /* then others have their go; what is left stays readable */
    STREAM_DIRECT_MIN = 32 * 1024,     /* a write this large skips our buffer when that is empty */
    STREAM_KEEP = 4 * 1024,            /* an idle stream holds no larger buffer than this */
    STREAM_PEER_CAP = 80,              /* "[v6%scope]:port" */
    DIAL_TIMEOUT_DEFAULT_MS = 10 * 1000,
};

struct dial;
struct real_listener;
enum stream_state { STREAM_DIALING, STREAM_OPEN, STREAM_CLOSING };

struct real_stream {
    struct stream stream;
    struct real_io *real;
    enum stream_state state;
    struct real_listener *listener; /* that accepted it, while both live */
    struct list in_listener, in_unsent;
    struct real_listener *shakes_for; /* during the TLS handshake of an accepted one; */
    struct stream *tls;               /* over this one */
    struct list in_handshakes;
    struct dial *dial; /* of a dialed one until it is open */
    struct stream_events events;
    void *owner;
    struct task notify; /* on_drained; on_closed of one without a handle */

    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    uv_connect_t connect;
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool has_handle; /* uv is initialised, and its close has not been reported */

    struct buf front, back;
    size_t front_at, writing;    /* writing: bytes of the front that libuv is writing */
    size_t output_max, drain_at; /* on_drained is due when no more than drain_at is pending */
    uint64_t read_turn;          /* how much was read in which turn */
    size_t read_bytes;
    bool started, paused, reading;
    bool drain_wanted, drain_due;
    bool peer_ended, ending, shut; /* ending: stream_end was called; shut: the kernel knows */

    enum err why;     /* of CLOSING */
    const char *verb; /* what failed, for the note; NULL: nothing did */
    int code;         /* libuv's; 0: `why` says it */
    char peer[STREAM_PEER_CAP];
};

/* Not started, not paused, without a handle. NULL: out of memory. */
struct real_stream *stream_new(struct real_io *real, size_t output_max);
void stream_free(struct real_stream *s); /* one that never had a handle */
/* Makes an open stream of a connected socket, which is its own on success only. */
int stream_adopt(struct real_stream *s, int fd, bool is_unix);
/* The socket is connected: from here on it reads and writes. */
void stream_opened(struct real_stream *s);
/* The stream begins to close; on_closed follows, with a note "<verb> <address>: <why>", or "closed"
 * without a verb. */
void stream_fail(struct real_stream *s, const char *verb, enum err why, int code);
/* The last call for a closing stream; from the close callback of its handle. */
void stream_finish(struct real_stream *s);
/* "1.2.3.4:80", "[::1]:80", "unix". */
void stream_address_text(const struct sockaddr_storage *address, char text[STREAM_PEER_CAP]);

/* -- io/dial_real.c -- */
void dial_stop(struct dial *dial);    /* its stream begins to close */
void dial_release(struct dial *dial); /* its stream forgets it; NULL is fine */
/* -- io/listen_real.c -- */
void listener_forget(struct real_listener *listener, struct real_stream *s);
#endif
