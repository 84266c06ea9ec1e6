/* SPDX-License-Identifier: Apache-2.0 */
/* A server and a client connection joined in memory: the output of each is fed to the other, whole
 * or cut as the test chooses. Each side records its events, per stream and as a log. Also hand-made
 * frames that no correct peer sends. */
#ifndef TESTS_UNIT_WIRE_H2_PAIR_H
#define TESTS_UNIT_WIRE_H2_PAIR_H
#include "base/buf.h"
#include "base/prng.h"
#include "wire/h2.h"

enum { SEEN_MAX = 4096, PIECE_MAX = 1 << 16 };

struct seen { /* of one stream */
    unsigned headers, trailers, ends, closed, writable;
    bool end_with_headers;
    uint32_t code;
    char status[32]; /* :status, or :path on the server */
    char grpc_status[32];
    struct buf data;
};
struct h2_peer {
    struct h2 *h2;
    enum h2_side side;
    struct seen
        *seen;      /* SEEN_MAX elements, by stream / 2; the last one is for all higher streams */
    struct buf log; /* one line per event; consecutive data of one stream is one line */
    int32_t log_stream; /* the stream whose data line is still open */
    size_t log_data;
    bool hold; /* do not consume */
    unsigned goaways, acks, reported;
    int32_t goaway_last;
    uint32_t goaway_code;
    uint64_t ack_token;
    enum err err; /* of the last feed */
    size_t fed;
    /* Hooks of the test's service; each may be NULL. Called after the event was recorded. */
    void (*on_headers)(struct h2_peer *p, int32_t stream, const struct h2_header *headers,
                       size_t count, bool trailers, bool end);
    void (*on_data)(struct h2_peer *p, int32_t stream, struct str bytes);
    void (*on_end)(struct h2_peer *p, int32_t stream);
    void (*on_writable)(struct h2_peer *p, int32_t stream);
    void (*on_closed)(struct h2_peer *p, int32_t stream, uint32_t code);
    void *test;
};
struct h2_pair {
    struct h2_peer server, client;
    mono_time now;
    struct prng prng;
    size_t piece_max; /* 0: whole; otherwise random pieces of 1..piece_max bytes; 1: byte by byte */
    bool quiet_log;
};

enum err h2_peer_open(struct h2_peer *p, enum h2_side side, const struct h2_limits *limits);
void h2_peer_close(struct h2_peer *p);
struct seen *h2_peer_seen(struct h2_peer *p, int32_t stream);
void h2_log_flush(struct h2_peer *p);

enum err h2_pair_open(struct h2_pair *pair, const struct h2_limits *server,
                      const struct h2_limits *client);
void h2_pair_close(struct h2_pair *pair);
/* Moves all output of `from` to `to` once; true when a byte moved. */
bool h2_pair_carry(struct h2_pair *pair, struct h2_peer *from, struct h2_peer *to);
/* Moves output until neither side has any. False: it did not end. */
bool h2_pair_pump(struct h2_pair *pair);
enum err h2_pair_feed(struct h2_pair *pair, struct h2_peer *to, struct str bytes);

/* A service that echoes data as it arrives and sends trailers when the peer ends. */
void h2_echo(struct h2_peer *server);
/* A request with gRPC's usual headers. */
enum err h2_call(struct h2_peer *client, const char *path, bool end, int32_t *ret_stream);
enum err h2_answer(struct h2_peer *server, int32_t stream); /* 200, data follows */
enum err h2_finish(struct h2_peer *server, int32_t stream); /* grpc-status: 0 */

/* -- frames by hand -- */
void raw_preface(struct buf *out); /* the client's magic and empty SETTINGS */
void raw_frame(struct buf *out, uint8_t type, uint8_t flags, int32_t stream, struct str payload);
void raw_field(struct buf *out, struct str name, struct str value); /* HPACK, a plain literal */
void raw_request(struct buf *out, int32_t stream, bool end);        /* HEADERS with raw_fields */
void raw_u32(struct buf *out, uint32_t value);
#endif
