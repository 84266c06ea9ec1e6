/* One HTTP/2 connection for gRPC, as bytes in and bytes out, over nghttp2.
 *
 * No socket, clock or thread: feed it what arrived, send what h2_take_output gathers, pass the time.
 * Events come from inside h2_feed only, never from a call that sends; do not call h2_close from an
 * event. What abuses the connection (rapid resets, ping and settings floods, header bombs, frames
 * after the end) is counted here against named limits and answered with GOAWAY; h2_feed then says
 * ERR_DENIED and the owner flushes and closes. That connection alone suffers. */
#ifndef WIRE_H2_H
#define WIRE_H2_H
#include "base/buf.h"
#include "base/str.h"
#include "base/time.h"

struct h2;
enum h2_side { H2_SERVER, H2_CLIENT };
struct h2_header { struct str name, value; };

struct h2_limits {                      /* 0 takes the default behind each */
    uint32_t streams_max;               /* 1,024 open at once, announced; more are refused */
    uint32_t header_bytes_max;          /* 64 KiB per header block, RFC 9113 accounting */
    uint32_t headers_max;               /* 128 fields per block */
    uint32_t stream_window;             /* 256 KiB: bytes a peer may send before we consume */
    uint32_t connection_window;         /* 4 MiB */
    uint32_t stream_output_max;         /* 256 KiB: bytes we hold per stream for a peer */
    uint32_t output_max;                /* 2 MiB: control frames and data gathered, not yet taken */
    uint32_t resets_per_minute_max;     /* 2,000: streams the peer opened and reset before an answer */
    uint32_t pings_per_minute_max;      /* 300 without data between */
    uint32_t settings_per_minute_max;   /* 60 */
};
struct h2_events {
    /* Request headers (server), response headers or trailers (client: `trailers`). Views are valid
     * during the call. `end`: the peer sends nothing after them. */
    void (*on_headers)(void *owner, int32_t stream, const struct h2_header *headers, size_t count,
                       bool trailers, bool end);
    /* Count what was taken with h2_consume, now or later: that is the back-pressure. */
    void (*on_data)(void *owner, int32_t stream, struct str bytes);
    void (*on_end)(void *owner, int32_t stream);        /* the peer has sent all, no trailers */
    void (*on_writable)(void *owner, int32_t stream);   /* after ERR_FULL: below half of the bound */
    /* Exactly once per stream that was ever told; `code` is the HTTP/2 error, 0 for a good end. */
    void (*on_closed)(void *owner, int32_t stream, uint32_t code);
    void (*on_goaway)(void *owner, int32_t last_stream, uint32_t code);
    void (*on_ping_ack)(void *owner, uint64_t token);
};

/* ERR_NOMEM, ERR_INVALID. */
enum err h2_open(enum h2_side side, const struct h2_limits *limits, const struct h2_events *events,
                 void *owner, struct h2 **ret_h2);
void h2_close(struct h2 *h2);           /* no events; NULL is fine */
/* ERR_DENIED: abuse or protocol error, GOAWAY is in the output; flush, then close. ERR_NOMEM. */
enum err h2_feed(struct h2 *h2, struct str bytes, mono_time now);
/* Appends what may be sent now, at most `max` bytes more. */
enum err h2_take_output(struct h2 *h2, size_t max, struct buf *into);
bool h2_has_output(const struct h2 *h2);
bool h2_is_over(const struct h2 *h2);   /* nothing more to read or write */

/* Client: opens a stream. `end`: no body follows. ERR_FULL: the peer's stream limit; ERR_CLOSED: it is
 * going away. */
enum err h2_request(struct h2 *h2, const struct h2_header *headers, size_t count, bool end,
                    int32_t *ret_stream);
/* Server: response headers, once. `end` makes it a trailers-only answer. */
enum err h2_respond(struct h2 *h2, int32_t stream, const struct h2_header *headers, size_t count,
                    bool end);
/* All the parts or none. ERR_FULL: wait for on_writable; ERR_CLOSED: the stream is gone. */
enum err h2_send(struct h2 *h2, int32_t stream, const struct str *parts, size_t count);
enum err h2_send_trailers(struct h2 *h2, int32_t stream, const struct h2_header *headers,
                          size_t count);        /* server: after what waits; ends the stream */
enum err h2_send_end(struct h2 *h2, int32_t stream);    /* client: half-close after what waits */
void h2_reset(struct h2 *h2, int32_t stream, uint32_t code);
void h2_consume(struct h2 *h2, int32_t stream, size_t bytes);
size_t h2_stream_pending(const struct h2 *h2, int32_t stream);
size_t h2_streams(const struct h2 *h2); /* open now */
enum err h2_ping(struct h2 *h2, uint64_t token);
/* Says "no new streams"; those open go on. Twice is fine: the second is final. */
void h2_go_away(struct h2 *h2, uint32_t code);
const char *h2_engine_version(void);
#endif
