/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP/2 connection for gRPC, as bytes in and bytes out, over nghttp2.
 *
 * No socket, clock or thread: feed it what arrived, send what h2_take_output gathers, pass the
 * time. Events come from inside h2_feed and, for what sending itself brought about (on_writable,
 * on_closed), at the end of h2_take_output; never from a call that only queues
 * (request, respond, send, reset, consume, ...). Inside an event those calls are all allowed;
 * h2_feed, h2_take_output and h2_close are not.
 *
 * What abuses the connection (rapid resets, ping and settings floods, header bombs, frames that
 * carry nothing) is counted here against named limits and answered with GOAWAY; h2_feed then says
 * ERR_DENIED and the owner flushes and closes. A protocol error is answered the same way by
 * nghttp2: its input is ignored from then on, and once the GOAWAY was taken h2_is_over holds. That
 * connection alone suffers. */
#ifndef WIRE_H2_H
#define WIRE_H2_H
#include "base/buf.h"
#include "base/str.h"
#include "base/time.h"

struct h2;
enum h2_side { H2_SERVER, H2_CLIENT };
struct h2_header {
    struct str name, value;
};

/* The error codes of RFC 9113 that we use ourselves. */
enum h2_code {
    H2_NO_ERROR = 0,
    H2_PROTOCOL_ERROR = 1,
    H2_INTERNAL_ERROR = 2,
    H2_STREAM_CLOSED = 5,
    H2_REFUSED_STREAM = 7, /* the peer did not act on it: trying again is safe */
    H2_CANCEL = 8,
    H2_ENHANCE_YOUR_CALM = 11,
};

struct h2_limits { /* 0 takes the default behind each; ERR_INVALID past what HTTP/2 can say */
    uint32_t streams_max;       /* 1,024 open at once, announced; more are refused */
    uint32_t header_bytes_max;  /* 64 KiB per header block, RFC 9113 accounting */
    uint32_t headers_max;       /* 128 fields per block */
    uint32_t stream_window;     /* 256 KiB: bytes a peer may send before we consume */
    uint32_t connection_window; /* 4 MiB */
    uint32_t stream_output_max; /* 256 KiB: bytes we hold per stream for a peer */
    uint32_t output_max;        /* 2 MiB: the same over all streams of the connection */
    uint32_t memory_max;        /* 16 MiB in all, nghttp2's own included; past it: GOAWAY */
    /* 2,000: streams that die by the peer's doing and cost us a start or a whole answer for nothing:
     * before it, or when it is decided. Five times as many after headers of the answer: watches end
     * so, too. */
    uint32_t resets_per_minute_max;
    uint32_t pings_per_minute_max; /* 300 without data between */
    /* Quicker pings than this, with nothing sent by us between, are strikes, as gRPC counts them:
     * two are forgiven. 0: any may come. */
    uint64_t ping_min_interval_ms;
    uint32_t settings_per_minute_max;    /* 60 */
    uint32_t idle_frames_per_minute_max; /* 2,000: empty DATA, PRIORITY, unknown types, window
                                          * updates that no data called for, resets of the dead */
};
struct h2_events { /* on_goaway, on_ping_ack and on_writable may be NULL */
    /* Request headers (server), response headers or trailers (client: `trailers`). Views are valid
     * during the call. `end`: the peer sends nothing after them, and on_end does not come. Interim
     * (1xx) answers are dropped; trailers of a request, which gRPC does not have, come as
     * on_end. */
    void (*on_headers)(void *owner, int32_t stream, const struct h2_header *headers, size_t count,
                       bool trailers, bool end);
    /* Count what was taken with h2_consume, now or later: that is the back-pressure. What a stream
     * has not consumed when it closes is given back to the connection by itself. */
    void (*on_data)(void *owner, int32_t stream, struct str bytes);
    void (*on_end)(void *owner, int32_t stream);      /* the peer has sent all, no trailers */
    void (*on_writable)(void *owner, int32_t stream); /* after ERR_FULL: below half of the bound */
    /* Exactly once per stream that was ever reported (on_headers, or h2_request that succeeded), unless
     * h2_close comes first; `code` is the HTTP/2 error, 0 for a good end. */
    void (*on_closed)(void *owner, int32_t stream, uint32_t code);
    void (*on_goaway)(void *owner, int32_t last_stream, uint32_t code);
    void (*on_ping_ack)(void *owner, uint64_t token);
};

/* ERR_NOMEM, ERR_INVALID. */
enum err h2_open(enum h2_side side, const struct h2_limits *limits, const struct h2_events *events,
                 void *owner, struct h2 **ret_h2);
void h2_close(struct h2 *h2); /* no events; NULL is fine */
/* ERR_DENIED: abuse, GOAWAY is in the output; flush, then close. ERR_NOMEM: close. Once it failed
 * it answers the same for ever. No bytes is fine. */
enum err h2_feed(struct h2 *h2, struct str bytes, mono_time now);
/* Appends what may be sent now, at most `max` bytes more. ERR_NOMEM, ERR_DENIED: the
 * connection is dead and mute, close it. ERR_FULL, ERR_NOMEM also when it is `into` that cannot
 * grow; then nothing is lost: what was appended stays, the rest comes with the next call. */
enum err h2_take_output(struct h2 *h2, size_t max, struct buf *into);
bool h2_has_output(const struct h2 *h2);
bool h2_is_over(const struct h2 *h2); /* nothing more to read or write: close it */

/* Header names are lower case. All three: ERR_INVALID (a name or value HTTP/2 cannot carry, or not
 * this side's or this moment's call), ERR_TOO_LARGE (60 KiB of headers), ERR_CLOSED, ERR_NOMEM. */
/* Client: opens a stream. `end`: no body follows. ERR_FULL: the peer's stream limit; ERR_CLOSED: it
 * is going away, or this connection has used up its stream ids. */
enum err h2_request(struct h2 *h2, const struct h2_header *headers, size_t count, bool end,
                    int32_t *ret_stream);
/* How many may be open at once, as far as is known: the peer's limit, which is taken for 100 until
 * it has spoken, and our own. */
size_t h2_requests_max(const struct h2 *h2);
/* Server: response headers, once. `end` makes it a trailers-only answer. */
enum err h2_respond(struct h2 *h2, int32_t stream, const struct h2_header *headers, size_t count,
                    bool end);
/* Server: after what waits; ends the stream. An answer that ends before the request did also resets
 * the stream with NO_ERROR, so that the peer stops sending; on_closed then says 0. */
enum err h2_send_trailers(struct h2 *h2, int32_t stream, const struct h2_header *headers,
                          size_t count);
/* All the parts or none. ERR_FULL: wait for on_writable; ERR_CLOSED: the stream is gone;
 * ERR_TOO_LARGE: more than stream_output_max, it would never fit: cut it, by h2_send_room;
 * ERR_INVALID: not before h2_respond, nor after an end. ERR_NOMEM. */
enum err h2_send(struct h2 *h2, int32_t stream, const struct str *parts, size_t count);
/* How many bytes h2_send would take now; 0 for a stream that is gone. Asking for room that is not
 * there does not arm on_writable: h2_send with one byte more does. */
size_t h2_send_room(const struct h2 *h2, int32_t stream);
enum err h2_send_end(struct h2 *h2, int32_t stream); /* client: half-close after what waits */
/* Drops what waits. on_closed follows; no other event of this stream does. */
void h2_reset(struct h2 *h2, int32_t stream, uint32_t code);
void h2_consume(struct h2 *h2, int32_t stream, size_t bytes);
/* What the owner keeps for a stream, NULL at first. Until on_closed of the stream returns; h2_bind
 * does nothing for a stream that is gone. */
void h2_bind(struct h2 *h2, int32_t stream, void *bound);
void *h2_bound(const struct h2 *h2, int32_t stream);
size_t h2_stream_pending(const struct h2 *h2,
                         int32_t stream);   /* handed to h2_send, not yet taken */
size_t h2_pending(const struct h2 *h2);     /* the same over all streams */
uint64_t h2_data_sent(const struct h2 *h2); /* taken so far: what the peer's windows let go */
/* Server: bytes of answers' headers and trailers that are queued and not yet taken; without
 * trailers that wait for a window. */
size_t h2_answers_pending(const struct h2 *h2);
size_t h2_receive_window(const struct h2 *h2); /* bytes the peer may send before we consume */
size_t h2_streams(const struct h2 *h2);        /* open now */
size_t h2_memory(const struct h2 *h2);         /* bytes this connection holds on the heap */
/* Server: data for streams that were gone, which nghttp2 drops without a word. A DATA frame counts as
 * its length, an empty one as 1. Excused: what may have crossed the ends of the streams, at most; a
 * peer past that sends to nobody on purpose. */
uint64_t h2_data_late(const struct h2 *h2);
uint64_t h2_data_excused(const struct h2 *h2);
/* Server: how the peer paces its bytes. The payload of frames other than HEADERS and CONTINUATION may
 * come as slowly as it likes: that is back-pressure, or ends with a ping that is not answered. */
struct h2_pace {
    bool begun;      /* a byte has come */
    bool greeted;    /* the client's magic and one whole frame have come */
    bool stalls;     /* a frame's head or a header block has begun and is not whole */
    mono_time since; /* `stalls`: its first byte */
};
const struct h2_pace *h2_pace(const struct h2 *h2);
const char *h2_abuse(const struct h2 *h2); /* what h2_feed said ERR_DENIED because of; static */
enum err h2_ping(struct h2 *h2, uint64_t token);
/* Says "no new streams"; those open go on. A server does it in two steps. The first, with code 0,
 * only announces: what is under way to us is still served. The second is final: what comes later is
 * refused with REFUSED_STREAM. Ping in between, and take the second step on the answer. With
 * another code, and for a client, the first is final. */
void h2_go_away(struct h2 *h2, uint32_t code);
/* The same, with words for the peer's log. gRPC clients look for H2_TOO_MANY_PINGS there, and ping
 * less often from then on. */
void h2_go_away_because(struct h2 *h2, uint32_t code, struct str why);
#define H2_TOO_MANY_PINGS STR("too_many_pings")
#endif
