/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the answers of a NATS server, because the client library of Debian 12 knows neither
 * message TTLs nor markers. Every function accepts arbitrary bytes. */
#ifndef PRIM_NATS_DECODE_H
#define PRIM_NATS_DECODE_H
#include "base/buf.h"
#include "base/note.h"
#include "prim/change.h"

enum {
    JET_ANSWER_MAX = 4 * 1024 * 1024,
    JET_TTL_MIN_MS = 2000,
};

enum {
    JET_E_NO_PEERS = 10005, /* too few servers for the number of replicas */
    JET_E_NO_MESSAGE = 10037,
    JET_E_STREAM_EXISTS = 10058,
    JET_E_NO_STREAM = 10059,
    JET_E_WRONG_LAST = 10071,
    JET_E_SUBJECT_BUSY = 10163,    /* in a cluster: another write to this subject is under way */
    JET_E_SUBJECT_IN_WORK = 10164, /* like JET_E_SUBJECT_BUSY; nothing was done */
    JET_E_TTL_INVALID = 10165,
    JET_E_TTL_DISABLED = 10166,
    JET_E_TOO_MANY = 10167, /* too many requests; nothing was done */
};
/* Code 0: no error. */
struct jet_error {
    uint32_t code, number; /* code: as in HTTP; number: JET_E_* or another */
    char text[120];
};

struct jet_account {
    struct jet_error error;
    uint64_t level; /* 0: the server is older than 2.11 */
};
struct jet_stream {
    struct jet_error error;
    bool mine; /* the stream has exactly the bucket's subjects */
    bool message_ttl;
    char fault[160];   /* why the stream cannot be used, or "" */
    uint64_t replicas; /* 1 if the server sends no number */
    bool on_disk;
    uint64_t message_max; /* largest message; 0: no limit of its own */
    char version[32];     /* server that wrote the configuration; "" unknown */
    char created[48];
    int64_t now_ms; /* wall clock of the answering server; 0 unknown */
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

/* ERR_PARSE: the note says what is missing. */
enum err jet_decode_account(struct str json, struct jet_account *ret, struct note *note);
enum err jet_decode_stream(struct str json, struct str bucket, struct jet_stream *ret,
                           struct note *note);
/* ERR_PARSE without a sequence, because the answer then proves nothing. */
enum err jet_decode_ack(struct str json, struct jet_ack *ret, struct note *note);
enum err jet_decode_consumer(struct str json, struct jet_consumer *ret, struct note *note);

/* The last message of a subject. create_revision is that of the creation or, with a lease, of the
 * grant. left_ms is not set. */
struct jet_state {
    struct prim_seen seen;
    int64_t stored_ms; /* server's wall clock at the write, for hints; 0: unknown */
};
void jet_seen_of(const struct claim_envelope *envelope, uint64_t sequence,
                 struct prim_seen *ret_seen);
/* marker, operation: the headers Nats-Marker-Reason and KV-Operation; "": missing. */
void jet_state_of(uint64_t sequence, struct str marker, struct str operation, struct str payload,
                  struct jet_state *ret_state);
/* Returns the value of a header in a raw block; "": missing. */
struct str jet_header(struct str block, struct str name);
/* Decodes the answer of the message-get call. Clears `memory`, from which the state borrows. */
enum err jet_decode_message(struct str json, struct buf *memory, struct jet_error *ret_error,
                            struct jet_state *ret_state, struct note *note);

/* Fields in the reply subject of a message that a consumer delivered. */
struct jet_delivery {
    uint64_t stream_sequence, consumer_sequence, pending;
};
enum err jet_decode_delivery(struct str reply, struct jet_delivery *ret);
#endif
