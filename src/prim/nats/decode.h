/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of a NATS server, as plain data. The client library of Debian 12 knows neither message
 * TTLs nor markers, so the answers are read here. Every function takes any bytes. */
#ifndef PRIM_NATS_DECODE_H
#define PRIM_NATS_DECODE_H
#include "base/buf.h"
#include "base/note.h"
#include "prim/change.h"

enum {
    JET_ANSWER_MAX = 4 * 1024 * 1024,
    JET_TTL_MIN_MS = 2000,
};

/* Error numbers of the JetStream API. */
enum {
    JET_E_NO_PEERS = 10005, /* no servers for so many replicas */
    JET_E_NO_MESSAGE = 10037,
    JET_E_STREAM_EXISTS = 10058,
    JET_E_NO_STREAM = 10059,
    JET_E_WRONG_LAST = 10071,
    JET_E_SUBJECT_BUSY = 10163,    /* clusters: another write to this subject is under way; */
    JET_E_SUBJECT_IN_WORK = 10164, /* the same. Nothing done */
    JET_E_TTL_INVALID = 10165,
    JET_E_TTL_DISABLED = 10166,
    JET_E_TOO_MANY = 10167, /* requests: nothing done */
};
/* In each answer: code 0 when it is none. */
struct jet_error {
    uint32_t code, number; /* like an HTTP status; one of the above, or another */
    char text[120];
};

struct jet_account {
    struct jet_error error;
    uint64_t level; /* 0: a server before 2.11 */
};
struct jet_stream {
    struct jet_error error;
    bool mine;         /* its subjects are exactly those of the bucket */
    bool message_ttl;  /* and the marker's */
    char fault[160];   /* why it is unfit, or "" */
    uint64_t replicas; /* 1 when not said */
    bool on_disk;
    uint64_t message_max; /* bytes; 0: no limit of its own */
    char version[32];     /* of the server that wrote the configuration; "" unknown */
    char created[48];
    int64_t now_ms; /* the answering server's wall clock; 0 unknown */
};
struct jet_ack {
    struct jet_error error;
    uint64_t sequence;
};
struct jet_consumer {
    struct jet_error error;
    uint64_t pending;
    char name[64];
};

/* ERR_PARSE: not such an answer; the note says what is missing. */
enum err jet_decode_account(struct str json, struct jet_account *ret, struct note *note);
enum err jet_decode_stream(struct str json, struct str bucket, struct jet_stream *ret,
                           struct note *note);
/* An acknowledgement without a sequence is ERR_PARSE: it proves nothing. */
enum err jet_decode_ack(struct str json, struct jet_ack *ret, struct note *note);
enum err jet_decode_consumer(struct str json, struct jet_consumer *ret, struct note *note);

/* The last message of a subject, and what it says about the key. Without a lease create_revision is
 * that of the creation, with one of the grant; left_ms is not set. */
struct jet_state {
    struct prim_seen seen;
    int64_t stored_ms; /* the server's wall clock; 0 unknown. For hints only */
};
/* A message with this envelope. */
void jet_seen_of(const struct claim_envelope *envelope, uint64_t sequence,
                 struct prim_seen *ret_seen);
/* `marker` and `operation` are the values of Nats-Marker-Reason and KV-Operation, "" when not
 * there. */
void jet_state_of(uint64_t sequence, struct str marker, struct str operation, struct str payload,
                  struct jet_state *ret_state);
/* The value of a header in a raw block; "" when not there. */
struct str jet_header(struct str block, struct str name);
/* Answer of the message-get call. The state borrows from `memory`, which it clears first. */
enum err jet_decode_message(struct str json, struct buf *memory, struct jet_error *ret_error,
                            struct jet_state *ret_state, struct note *note);

/* The reply subject of a message that a consumer delivered. */
struct jet_delivery {
    uint64_t stream_sequence, consumer_sequence, pending;
};
enum err jet_decode_delivery(struct str reply, struct jet_delivery *ret);
#endif
