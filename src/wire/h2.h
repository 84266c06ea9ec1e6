/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP/2 connection for gRPC, as bytes in and bytes out, over nghttp2.
 *
 * No socket, clock or thread: the owner passes received bytes and the time to h2_feed, and sends
 * the output of h2_take_output. Events are called in h2_feed and at the end of h2_take_output. An
 * event may call every function except h2_feed, h2_take_output and h2_close.
 *
 * A peer that exceeds a limit below gets GOAWAY, and h2_feed returns ERR_DENIED: flush the output,
 * then close. After a protocol error nghttp2 sends GOAWAY and ignores further input: close when
 * h2_is_over. */
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

/* Only the codes of RFC 9113 that this module uses. */
enum h2_code {
    H2_NO_ERROR = 0,
    H2_PROTOCOL_ERROR = 1,
    H2_INTERNAL_ERROR = 2,
    H2_STREAM_CLOSED = 5,
    H2_REFUSED_STREAM = 7, /* the peer did not process the request: a retry is safe */
    H2_CANCEL = 8,
    H2_ENHANCE_YOUR_CALM = 11,
};

struct h2_limits {              /* 0: the default; ERR_INVALID above HTTP/2's limits */
    uint32_t streams_max;       /* default: 1,024 open streams; more are refused */
    uint32_t header_bytes_max;  /* default: 64 KiB per header block, counted as in RFC 9113 */
    uint32_t headers_max;       /* default: 128 fields per header block */
    uint32_t stream_window;     /* default: 256 KiB that a peer may send before h2_consume */
    uint32_t connection_window; /* default: 4 MiB for all streams of the connection */
    uint32_t stream_output_max; /* default: 256 KiB of pending output per stream */
    uint32_t output_max;        /* default: 2 MiB of pending output of all streams */
    uint32_t memory_max;        /* default: 16 MiB with nghttp2's memory; beyond: GOAWAY */
    /* Default: 2,000 streams that the peer reset before or right after the response. Five times as
     * many may be reset during their response, because watches end in this way. */
    uint32_t resets_per_minute_max;
    uint32_t pings_per_minute_max; /* default: 300 pings without data in between */
    /* Pings at a shorter interval, without data from this side in between, are strikes as in gRPC.
     * Two strikes are allowed. 0: no limit. */
    uint64_t ping_min_interval_ms;
    uint32_t settings_per_minute_max;    /* default: 60 */
    uint32_t idle_frames_per_minute_max; /* default: 2,000 frames without content: see h2_guard.c */
};
struct h2_events { /* on_goaway, on_ping_ack and on_writable may be NULL */
    /* Request headers (server), response headers or trailers (client: `trailers`). `headers` is
     * valid during the call. `end`: the peer sends nothing more, and on_end is not called. 1xx
     * responses are dropped. Trailers of a request are reported as on_end. */
    void (*on_headers)(void *owner, int32_t stream, const struct h2_header *headers, size_t count,
                       bool trailers, bool end);
    /* Received data. The owner calls h2_consume for the bytes, now or later: this is the
     * back-pressure. A closed stream consumes its bytes. */
    void (*on_data)(void *owner, int32_t stream, struct str bytes);
    /* The peer has sent everything, without trailers. */
    void (*on_end)(void *owner, int32_t stream);
    /* Called after an ERR_FULL of h2_send, when pending output is below half of the bound. */
    void (*on_writable)(void *owner, int32_t stream);
    /* Called once per stream of on_headers or h2_request, unless h2_close comes first. `code` is
     * the HTTP/2 error code, 0 for a normal end. */
    void (*on_closed)(void *owner, int32_t stream, uint32_t code);
    void (*on_goaway)(void *owner, int32_t last_stream, uint32_t code);
    void (*on_ping_ack)(void *owner, uint64_t token);
};

/* ERR_NOMEM, ERR_INVALID. */
enum err h2_open(enum h2_side side, const struct h2_limits *limits, const struct h2_events *events,
                 void *owner, struct h2 **ret_h2);
void h2_close(struct h2 *h2); /* calls no events; accepts NULL */
/* Reads `bytes`, which may be empty. ERR_DENIED: abuse; flush the GOAWAY, then close. ERR_NOMEM:
 * close. A failure is final. */
enum err h2_feed(struct h2 *h2, struct str bytes, mono_time now);
/* Appends at most `max` bytes of output. ERR_NOMEM, ERR_DENIED: the connection failed; close. If
 * only `into` cannot grow, the error is that of `into`, and the next call loses nothing. */
enum err h2_take_output(struct h2 *h2, size_t max, struct buf *into);
bool h2_has_output(const struct h2 *h2);
bool h2_is_over(const struct h2 *h2); /* nothing is left to read or write: close */

/* h2_request, h2_respond and h2_send_trailers return:
 * ERR_INVALID: a name or value that HTTP/2 cannot carry, also an upper-case name; a call of the
 * wrong side or at the wrong time.
 * ERR_TOO_LARGE: above 60 KiB of headers. ERR_CLOSED, ERR_NOMEM. */
/* Client: opens a stream. `end`: no body follows. ERR_FULL: the peer's stream limit. ERR_CLOSED:
 * the connection is going away or has no stream ids left. */
enum err h2_request(struct h2 *h2, const struct h2_header *headers, size_t count, bool end,
                    int32_t *ret_stream);
/* How many requests may be open: the lower of this side's and the peer's limit. The peer's limit is
 * 100 until announced. */
size_t h2_requests_max(const struct h2 *h2);
/* Server: sends response headers, once. `end` makes a trailers-only response. */
enum err h2_respond(struct h2 *h2, int32_t stream, const struct h2_header *headers, size_t count,
                    bool end);
/* Server: sends trailers after the pending output and ends the stream. If the request has not
 * ended, the stream is also reset with NO_ERROR, and on_closed reports 0. */
enum err h2_send_trailers(struct h2 *h2, int32_t stream, const struct h2_header *headers,
                          size_t count);
/* Queues all parts or none. ERR_FULL: wait for on_writable. ERR_TOO_LARGE: above stream_output_max.
 * ERR_INVALID: before h2_respond or after an end. ERR_CLOSED, ERR_NOMEM. */
enum err h2_send(struct h2 *h2, int32_t stream, const struct str *parts, size_t count);
/* How many bytes h2_send would accept now; 0 for a closed stream. Does not request on_writable. */
size_t h2_send_room(const struct h2 *h2, int32_t stream);
/* Client: half-closes the stream after the pending output. */
enum err h2_send_end(struct h2 *h2, int32_t stream);
/* Resets the stream and drops its pending output. Only on_closed follows. */
void h2_reset(struct h2 *h2, int32_t stream, uint32_t code);
void h2_consume(struct h2 *h2, int32_t stream, size_t bytes);
/* h2_bound() returns `bound` until on_closed returns. No effect on a closed stream. */
void h2_bind(struct h2 *h2, int32_t stream, void *bound);
void *h2_bound(const struct h2 *h2, int32_t stream);
size_t h2_stream_pending(const struct h2 *h2, int32_t stream); /* bytes queued, but not taken yet */
size_t h2_pending(const struct h2 *h2);
uint64_t h2_data_sent(const struct h2 *h2); /* DATA bytes taken, as the peer's windows count them */
/* Server: bytes of queued headers and trailers. Trailers that wait for a window do not count. */
size_t h2_answers_pending(const struct h2 *h2);
size_t h2_receive_window(const struct h2 *h2); /* bytes that the peer may send before h2_consume */
size_t h2_streams(const struct h2 *h2);
size_t h2_memory(const struct h2 *h2); /* heap bytes of this connection */
/* Server: bytes of data for closed streams (late), and bytes that were possibly in transit when
 * their stream closed (excused). If late exceeds excused, the peer sends to closed streams on
 * purpose. An empty frame counts as 1. */
uint64_t h2_data_late(const struct h2 *h2);
uint64_t h2_data_excused(const struct h2 *h2);
/* Server: how fast the peer sends. Slow payloads other than HEADERS and CONTINUATION are allowed:
 * they are back-pressure, or end with an unanswered ping. */
struct h2_pace {
    bool begun;      /* at least one byte was received */
    bool greeted;    /* the connection preface and one whole frame were received */
    bool stalls;     /* a frame head or header block is incomplete */
    mono_time since; /* if `stalls`: time of the first byte of the head or block */
};
const struct h2_pace *h2_pace(const struct h2 *h2);
const char *h2_abuse(const struct h2 *h2); /* why h2_feed returned ERR_DENIED; static text */
enum err h2_ping(struct h2 *h2, uint64_t token);
/* Announces that no new streams are accepted; open streams continue. A server calls twice with code
 * 0, and waits for the answer to a ping in between. Until the second call, streams in transit are
 * still served. On a client, or with another code, the first call is final. */
void h2_go_away(struct h2 *h2, uint32_t code);
/* Adds debug data for the peer's log. gRPC clients look for H2_TOO_MANY_PINGS and then ping less
 * often. */
void h2_go_away_because(struct h2 *h2, uint32_t code, struct str why);
#define H2_TOO_MANY_PINGS STR("too_many_pings")
#endif
