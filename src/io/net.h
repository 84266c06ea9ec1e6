/* SPDX-License-Identifier: Apache-2.0 */
/* Byte streams to other processes: TCP and Unix sockets, plain or TLS, real or simulated.
 *
 * Addresses are text: "host:port", "[v6]:port", "unix:/path". Names are resolved at every dial. All
 * callbacks run on the loop's thread, never inside the call that caused them.
 *
 * on_closed is called exactly once, as the last callback; the stream is freed when on_closed
 * returns. Its error is:
 * - ERR_CLOSED after stream_close, or when both sides have ended
 * - ERR_IO for a broken connection
 * - ERR_UNAVAILABLE or ERR_TIMEOUT for a failed attempt to connect */
#ifndef IO_NET_H
#define IO_NET_H
#include "base/note.h"
#include "base/str.h"
#include "io/loop.h"

struct net;
struct listener;
struct stream;
struct tls_context;
struct tls_identity;

struct stream_events {
    /* The connection and its TLS handshake are complete. May be NULL. */
    void (*on_open)(void *owner);
    void (*on_bytes)(void *owner, struct str bytes); /* `bytes` is valid during the call */
    void (*on_drained)(void *owner); /* pending output fell below half of output_max; may be NULL */
    /* The peer sends no more data, but writing still works. NULL: this side ends, too. */
    void (*on_end)(void *owner);
    /* ERR_CLOSED: orderly close. */
    void (*on_closed)(void *owner, enum err why, const struct note *note);
};

struct dial_options {
    const char *address;
    struct tls_context *tls; /* NULL: plaintext; an open stream holds a reference */
    const char *tls_name;    /* host name to verify; NULL: the host in `address` */
    uint64_t timeout_ms;     /* for lookup, connection and handshake; 0: 10 s */
    size_t output_max;       /* bytes not accepted by the kernel; 0: 1 MiB */
};
struct listen_options {
    /* Port 0 selects a free port, see listener_address. ":port" means all interfaces. */
    const char *address;
    struct tls_context *tls;
    size_t streams_max;            /* open streams; 0: 1,024 */
    uint64_t handshake_timeout_ms; /* 0: 10 s */
    size_t output_max;             /* per stream; 0: 1 MiB */
    /* own_stream is open and paused. The callee owns the stream and must call stream_start or
     * stream_close before it returns. */
    void (*on_accept)(void *owner, struct stream *own_stream);
    /* A TLS handshake failed, see on_closed. May be NULL. The simulator has no TLS. */
    void (*on_refused)(void *owner, const char *peer_address, enum err why,
                       const struct note *note);
    void *owner;
};
struct listener_stats {
    uint64_t accepted, refused_full, failed_handshake;
    uint64_t failed_accept; /* failed, or waited for descriptors or memory */
    size_t open;            /* also streams in a handshake */
};

/* -- provided by an implementation, for the functions below -- */
struct net {
    enum err (*dial)(struct net *net, const struct dial_options *options,
                     const struct stream_events *events, void *owner, struct stream **ret_stream,
                     struct note *note);
    enum err (*listen)(struct net *net, const struct listen_options *options,
                       struct listener **ret_listener, struct note *note);
};
struct listener_ops {
    void (*pause)(struct listener *listener, bool paused);
    void (*close)(struct listener *listener);
};
struct listener {
    const struct listener_ops *ops;
    const char *address; /* with the real port; owned by the implementation */
    struct listener_stats stats;
};
struct stream_ops {
    void (*start)(struct stream *stream, const struct stream_events *events, void *owner);
    enum err (*write)(struct stream *stream, const struct str *parts, size_t count);
    size_t (*pending)(const struct stream *stream);
    void (*pause)(struct stream *stream);
    void (*resume)(struct stream *stream);
    void (*end)(struct stream *stream);
    void (*close)(struct stream *stream);
};
struct stream {
    const struct stream_ops *ops;
    const char *peer_address, *alpn; /* owned by the implementation */
    const struct tls_identity *peer_identity;
};

/* ERR_INVALID for a malformed address, ERR_NOMEM, ERR_FULL (timers). on_closed reports a failure to
 * connect. Data written before on_open is sent at on_open. */
static inline enum err net_dial(struct net *net, const struct dial_options *options,
                                const struct stream_events *events, void *owner,
                                struct stream **ret_stream, struct note *note)
{
    return net->dial(net, options, events, owner, ret_stream, note);
}
/* ERR_INVALID, ERR_BUSY (address in use), ERR_DENIED, ERR_UNAVAILABLE, ERR_NOMEM. */
static inline enum err net_listen(struct net *net, const struct listen_options *options,
                                  struct listener **ret_listener, struct note *note)
{
    return net->listen(net, options, ret_listener, note);
}
static inline const char *listener_address(const struct listener *listener)
{
    return listener->address;
}
static inline struct listener_stats listener_stats(const struct listener *listener)
{
    return listener->stats;
}
/* A paused listener leaves new connections in the kernel's queue. No effect in the simulator. */
static inline void listener_pause(struct listener *listener, bool paused)
{
    listener->ops->pause(listener, paused);
}
/* Accepted streams stay open. `listener` may be NULL. */
static inline void listener_close(struct listener *listener)
{
    if (listener) listener->ops->close(listener);
}

/* Sets the receiver of a stream's events. An accepted stream has no events before. */
static inline void stream_start(struct stream *stream, const struct stream_events *events,
                                void *owner)
{
    stream->ops->start(stream, events, owner);
}
/* Copies all parts or none; the writes of one turn are sent together. ERR_FULL: above output_max,
 * but this write fits after on_drained. ERR_TOO_LARGE: this write never fits. ERR_CLOSED after
 * stream_end, stream_close or a failure. */
static inline enum err stream_write(struct stream *stream, const struct str *parts, size_t count)
{
    return stream->ops->write(stream, parts, count);
}
static inline size_t stream_pending(const struct stream *stream)
{
    return stream->ops->pending(stream);
}
/* No on_bytes until resumed. */
static inline void stream_pause(struct stream *stream)
{
    stream->ops->pause(stream);
}
static inline void stream_resume(struct stream *stream)
{
    stream->ops->resume(stream);
}
/* Half-closes after the pending output. */
static inline void stream_end(struct stream *stream)
{
    stream->ops->end(stream);
}
/* Drops pending output. on_closed follows. */
static inline void stream_close(struct stream *stream)
{
    stream->ops->close(stream);
}
/* "unix" for a Unix peer; before on_open the dialed address. Borrowed. */
static inline const char *stream_peer_address(const struct stream *stream)
{
    return stream->peer_address;
}
/* The verified identity of the peer; NULL on plaintext. Borrowed until on_closed. */
static inline const struct tls_identity *stream_peer_identity(const struct stream *stream)
{
    return stream->peer_identity;
}
/* "" if none was negotiated. */
static inline const char *stream_alpn(const struct stream *stream)
{
    return stream->alpn;
}

/* For "unix:/path", `host` is the path. */
struct address_parts {
    bool is_unix;
    struct str host;
    uint16_t port;
};
enum err address_split(const char *address, struct address_parts *ret_parts, struct note *note);
/* Returns the number of bytes, 4 or 16; 0 for other text, also with brackets or scope. */
size_t address_ip(struct str host, uint8_t ret_bytes[16]);
bool address_is_loopback(const char *address); /* 127/8, ::1, localhost and unix: */

#endif
