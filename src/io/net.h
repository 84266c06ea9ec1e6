/* SPDX-License-Identifier: Apache-2.0 */
/* Byte streams to other processes: TCP and Unix sockets, plain or TLS, or the simulator's.
 *
 * Addresses are text: "host:port", "[v6]:port", "unix:/path"; names are resolved anew on every
 * dial. All callbacks run on the loop's thread and never from inside the call that caused them.
 * on_closed comes exactly once and last; the stream's memory is gone when it returns. It comes
 * by itself when both sides have ended: ERR_CLOSED for that and after stream_close, ERR_IO for a
 * connection that broke, ERR_UNAVAILABLE or ERR_TIMEOUT for one that never came to be. */
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
    void (*on_open)(void *owner);                    /* connected, and TLS agreed; may be NULL */
    void (*on_bytes)(void *owner, struct str bytes); /* valid during the call */
    void (*on_drained)(void *owner); /* output that was over half its bound is below it; or NULL */
    /* The peer sends no more; writing still works. NULL: our side is ended too. */
    void (*on_end)(void *owner);
    void (*on_closed)(void *owner, enum err why, const struct note *note); /* ERR_CLOSED: orderly */
};

struct dial_options {
    const char *address;
    struct tls_context *tls; /* NULL: plaintext; held by reference until closed */
    const char *tls_name;    /* host name to verify; NULL: the host of `address` */
    uint64_t timeout_ms;     /* resolve, connect and handshake together; 0: 10 s */
    size_t output_max;       /* bytes written and not yet taken by the kernel; 0: 1 MiB */
};
struct listen_options {
    const char *address; /* port 0 takes a free one, see listener_address; ":port" is
                                           every interface */
    struct tls_context *tls;
    size_t streams_max;            /* open at once; more are closed at accept; 0: 1,024 */
    uint64_t handshake_timeout_ms; /* 0: 10 s */
    size_t output_max;             /* per stream; 0: 1 MiB */
    /* The stream is open, paused, and the callee's: call stream_start at once or stream_close. */
    void (*on_accept)(void *owner, struct stream *own_stream);
    /* A TLS handshake came to nothing; `why` and the note as in on_closed (io/tls.h). For the log
     * and the metrics: the peer is gone. May be NULL; the simulator has no TLS to refuse by. */
    void (*on_refused)(void *owner, const char *peer_address, enum err why,
                       const struct note *note);
    void *owner;
};
struct listener_stats {
    uint64_t accepted, refused_full, failed_handshake;
    uint64_t failed_accept; /* lost or put off for want of files or memory */
    size_t open;            /* handshakes that are under way included */
};

/* -- what an implementation provides; each is the function below that has its name -- */
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
    const char *address; /* with the real port; in the implementation's memory */
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
    const char *peer_address, *alpn; /* in the implementation's memory */
    const struct tls_identity *peer_identity;
};

/* ERR_INVALID for an address that is none, ERR_NOMEM, ERR_FULL (timers). A failure to connect
 * comes by on_closed. What is written before on_open waits and leaves then. */
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
/* With the real port; borrowed */
static inline const char *listener_address(const struct listener *listener)
{
    return listener->address;
}
static inline struct listener_stats listener_stats(const struct listener *listener)
{
    return listener->stats;
}
/* While paused nothing is accepted: new connections wait in the kernel. Not in the simulator. */
static inline void listener_pause(struct listener *listener, bool paused)
{
    listener->ops->pause(listener, paused);
}
/* Accepted streams live on; NULL is fine */
static inline void listener_close(struct listener *listener)
{
    if (listener) listener->ops->close(listener);
}

/* For an accepted stream: from now on its events come here, beginning with bytes. Starting a
 * dialed one anew redirects its events, which is how TLS wraps it. */
static inline void stream_start(struct stream *stream, const struct stream_events *events,
                                void *owner)
{
    stream->ops->start(stream, events, owner);
}
/* Copies all the parts or none. ERR_FULL past output_max: wait for on_drained, after which this
 * write fits. ERR_TOO_LARGE: more than output_max at once, which never fits. ERR_CLOSED after
 * stream_end, stream_close or a failure. Small writes of one turn leave in one system call. */
static inline enum err stream_write(struct stream *stream, const struct str *parts, size_t count)
{
    return stream->ops->write(stream, parts, count);
}
/* Bytes not yet taken by the kernel */
static inline size_t stream_pending(const struct stream *stream)
{
    return stream->ops->pending(stream);
}
/* No on_bytes until resumed */
static inline void stream_pause(struct stream *stream)
{
    stream->ops->pause(stream);
}
static inline void stream_resume(struct stream *stream)
{
    stream->ops->resume(stream);
}
/* Half-close after what is pending */
static inline void stream_end(struct stream *stream)
{
    stream->ops->end(stream);
}
/* Drops what is pending; on_closed follows */
static inline void stream_close(struct stream *stream)
{
    stream->ops->close(stream);
}
/* Borrowed; "unix" for a Unix peer; the address that is dialed before on_open */
static inline const char *stream_peer_address(const struct stream *stream)
{
    return stream->peer_address;
}
/* The identity that the peer proved; NULL on plaintext. Borrowed until on_closed. */
static inline const struct tls_identity *stream_peer_identity(const struct stream *stream)
{
    return stream->peer_identity;
}
/* Agreed protocol, "" when none */
static inline const char *stream_alpn(const struct stream *stream)
{
    return stream->alpn;
}

/* Splits an address. ERR_INVALID with a note. Views point into `address`; unix: host is the
 * path. */
struct address_parts {
    bool is_unix;
    struct str host;
    uint16_t port;
};
enum err address_split(const char *address, struct address_parts *ret_parts, struct note *note);
/* The bytes of an IP address without brackets or scope: 4 or 16; 0 for anything else. */
size_t address_ip(struct str host, uint8_t ret_bytes[16]);
bool address_is_loopback(const char *address); /* 127/8, ::1, localhost, unix: */

#endif
