/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a connection; only for the h2_*.c files.
 *
 *     h2.c          opening and closing a connection, feeding, small calls
 *     h2_recv.c     nghttp2's callbacks for received bytes
 *     h2_send.c     streams opened and answered, output gathered
 *     h2_fields.c   header fields to be sent
 *     h2_queue.c    pending bytes of a stream
 *     h2_streams.c  streams by number
 *     h2_guard.c    abuse, counted per minute
 *     h2_memory.c   a counted, bounded heap for one connection
 *
 * A stream is in the table from the moment its owner knows its number until nghttp2 closes the
 * stream. No events may be called while output is gathered. Streams that close meanwhile wait in
 * `closed`. */
#ifndef WIRE_H2_INTERNAL_H
#define WIRE_H2_INTERNAL_H
#include <nghttp2/nghttp2.h>

#include "base/list.h"
#include "wire/h2.h"

/* nghttp2 sends no header block whose worst-case size exceeds 64 KiB. These limits keep every block
 * below that size. */
#define H2_HEADERS_OUT_MAX (60u << 10)
enum { H2_FIELDS_OUT_MAX = 256, H2_NAMES_KEPT = 4 };

/* -- h2_memory.c -- */
enum { H2_KEPT_STEP = 64, H2_KEPT_SIZES = 16 };
struct h2_memory {
    size_t used, max;
    bool over;                     /* `max` was reached, so an allocation was refused */
    char *kept[H2_KEPT_SIZES + 1]; /* freed small blocks for reuse, by size class */
    size_t kept_bytes;
};
void *h2_memory_alloc(struct h2_memory *m, size_t size);
void h2_memory_free(struct h2_memory *m, void *memory);
void h2_memory_trim(struct h2_memory *m); /* frees the kept blocks */
nghttp2_mem h2_memory_for_engine(struct h2_memory *m);

/* -- h2_queue.c -- */
struct h2_chunk;
struct h2_queue {
    struct h2_chunk *first, *last;
    size_t len;
};
enum err h2_queue_push(struct h2_queue *q, struct h2_memory *m, const struct str *parts,
                       size_t count, size_t total);
size_t h2_queue_pull(struct h2_queue *q, struct h2_memory *m, uint8_t *into, size_t room);
void h2_queue_clear(struct h2_queue *q, struct h2_memory *m);

/* -- h2_streams.c -- */
struct h2_stream {
    struct h2_stream *chain; /* next stream in the same bucket of h2_streams */
    struct list link;        /* member of h2.blocked or h2.closed, or of no list */
    int32_t id;
    uint32_t close_code;
    void *bound; /* the owner's pointer, see h2_bind */
    struct h2_queue output;
    size_t unconsumed;    /* bytes passed to on_data, less those of h2_consume */
    nghttp2_nv *trailers; /* kept until the stream closes, because nghttp2 does not copy */
    size_t trailers_count;
    size_t answer_bytes, trailer_bytes; /* server: part of h2.answers_pending */
    uint64_t length, came;              /* server: declared and received length of the body */
    bool answered; /* server: h2_respond was called; client: response headers were reported */
    bool deferred; /* nghttp2 asked for data, and the stream had none */
    bool ending;   /* this side ended the stream: queue nothing more */
    bool peer_ended;
    bool reset; /* this side reset the stream: only on_closed may follow */
    bool sent;  /* client: the request was sent */
};
struct h2_streams {
    struct h2_stream **buckets;
    size_t bucket_count, count; /* bucket_count is a power of two */
};
enum err h2_streams_init(struct h2_streams *s, struct h2_memory *m);
void h2_streams_put(struct h2_streams *s, struct h2_memory *m, struct h2_stream *stream);
struct h2_stream *h2_streams_get(const struct h2_streams *s, int32_t id);
void h2_streams_remove(struct h2_streams *s, struct h2_stream *stream);

/* -- h2_guard.c -- */
enum h2_abuse {
    H2_ABUSE_RESET,
    H2_ABUSE_ABANDON,
    H2_ABUSE_PING,
    H2_ABUSE_SETTINGS,
    H2_ABUSE_IDLE,
    H2_ABUSE_COUNT
};
struct h2_guard {
    mono_time now;    /* time of the last call of h2_feed */
    mono_time minute; /* start of the minute that `seen` counts */
    uint32_t seen[H2_ABUSE_COUNT];
    uint32_t updates_due; /* window updates that this side's data justifies */
    bool has_pinged;
    bool has_sent;    /* this side sent headers or data since the last ping */
    mono_time pinged; /* time of the last ping */
    uint32_t ping_strikes;
    const char *abuse; /* name of the exceeded limit, or NULL */
};
void h2_guard_time(struct h2_guard *g, mono_time now);
/* Counts one event. True if the limit for this kind of abuse is exceeded. */
bool h2_guard_count(struct h2_guard *g, const struct h2_limits *limits, enum h2_abuse abuse);
bool h2_guard_frame(struct h2_guard *g, const struct h2_limits *limits,
                    const nghttp2_frame_hd *head, bool stream_is_open);
void h2_guard_work(struct h2_guard *g); /* call when headers or data were sent or received */

/* The header block being received. HTTP/2 does not interleave blocks. */
enum { H2_CONTINUATIONS_MAX = 16 }; /* of 16 KiB: four times a block's default limit */
#define H2_ANY_LENGTH UINT64_MAX
struct h2_block {
    unsigned continuations;
    struct h2_header *fields;
    nghttp2_rcbuf **held; /* two buffers per field; the field's views point into them */
    size_t count, cap, bytes;
    bool over;    /* a limit was exceeded: fields are counted, not kept */
    bool interim; /* a 1xx response */
    /* server, see h2_request.c */
    bool trailers, malformed;
    unsigned seen;
    uint64_t length; /* value of content-length, or H2_ANY_LENGTH */
};
/* h2_request.c: checks each field of a request or its trailers, then the whole request. */
void h2_request_field(struct h2_block *b, struct h2_header field);
bool h2_request_is_whole(const struct h2_block *b);
void h2_block_clear(struct h2_block *b);

struct h2;
/* h2_sift.c: reads the heads of a client's frames, and decides which bytes nghttp2 gets. */
struct h2_sift {
    struct h2_pace pace;
    uint8_t head[9]; /* received bytes of a frame's head; kept until the next frame */
    size_t held;
    size_t rest;     /* missing bytes of the frame or connection preface */
    int32_t newest;  /* highest id of a stream that the client opened */
    uint64_t data;   /* bytes of all DATA frames received, see h2_data_late */
    bool greeting;   /* reading the client's connection preface */
    bool in_headers; /* a header block, or its frame, is incomplete */
    bool dropping;   /* nghttp2 does not get this frame */
};
void h2_sift_init(struct h2_sift *s);
void h2_sift_feed(struct h2 *h2, struct str bytes);

/* Remembered streams that the peer ended by END_STREAM or a reset. */
enum { H2_ENDED_KEPT = 8 };

struct h2 {
    nghttp2_session *session;
    enum h2_side side;
    struct h2_limits limits;
    struct h2_events events;
    void *owner;
    struct h2_memory memory;
    struct h2_streams streams;
    struct h2_guard guard;
    struct h2_block block;
    struct h2_sift sift;       /* server */
    struct list blocked;       /* streams whose h2_send returned ERR_FULL, oldest first */
    struct list closed;        /* streams whose on_closed must be called; not in the table */
    struct h2_stream *closing; /* the stream whose on_closed is running, or NULL */
    uint32_t turns;            /* number of h2_take_output calls */
    size_t pending;            /* bytes of pending output of all streams */
    size_t answers_pending;
    struct str left;       /* output of nghttp2 that was not taken yet */
    int32_t last_accepted; /* streams with a higher id came after the final GOAWAY */
    enum err failed;       /* the error that ended the connection, or ERR_OK */
    bool mute;             /* failed, and cannot even send a GOAWAY */
    bool busy;             /* h2_feed or h2_take_output is running */
    bool gathering;        /* nghttp2 is collecting output: no event may be called */
    bool drained;          /* an output queue became shorter: call on_writable */
    bool announced, final; /* the two steps of h2_go_away were done */

    int32_t ended[H2_ENDED_KEPT]; /* ring buffer of stream ids; 0: empty */
    unsigned ended_next;
    uint64_t data_found;                /* bytes of DATA frames for existing streams */
    uint64_t data_excused, data_sent;   /* bytes, see h2.h */
    uint16_t names_said[H2_NAMES_KEPT]; /* counters of h2_fields.c */
};

/* -- h2_fields.c -- */
/* Without the flag NO_COPY, results point to the caller's text. ERR_INVALID, ERR_TOO_LARGE. */
enum err h2_fields_make(struct h2 *h2, const struct h2_header *headers, size_t count,
                        nghttp2_nv *into);

/* -- h2_recv.c -- */
void h2_remember_ended(struct h2 *h2, int32_t id);

/* -- h2.c -- */
void h2_fail(struct h2 *h2, enum err err, uint32_t code);
enum err h2_engine_err(struct h2 *h2, ssize_t code);
void h2_set_callbacks(nghttp2_session_callbacks *callbacks);      /* h2_recv.c */
void h2_set_send_callbacks(nghttp2_session_callbacks *callbacks); /* h2_send.c */
struct h2_stream *h2_stream_new(struct h2 *h2, int32_t id);
void h2_stream_free(struct h2 *h2, struct h2_stream *stream);
void h2_stream_drop_output(struct h2 *h2, struct h2_stream *stream);
void h2_report_closed(struct h2 *h2, struct h2_stream *stream);
void h2_report_writable(struct h2 *h2); /* h2_send.c */
/* The stream is not in the table. False: memory ran out, and the connection failed. */
bool h2_submit_reset(struct h2 *h2, int32_t id, uint32_t code);
/* Call when this side ends a stream before the peer. A window of data may be in transit and must
 * not count as late. */
void h2_excuse_data(struct h2 *h2);
#endif
