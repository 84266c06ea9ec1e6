/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding of the frames between replicas (docs/protocols/raft-port.md). Pure.
 *
 * A frame is a head of FRAME_HEAD bytes and a payload of at most FRAME_MAX. Frames of each
 * direction are numbered from 1 without gap. Checksums are salted with the connection's session,
 * a number that both sides drew in their hellos. Therefore a frame recorded on another
 * connection is refused by its head, before its payload is read. */
#ifndef LOG_FRAME_H
#define LOG_FRAME_H
#include <raft.h>

#include "base/buf.h"
#include "base/note.h"
#include "log/entry.h"
#include "log/log.h"

enum {
    FRAME_HEAD = 24,
    FRAME_MAX = 16 << 20,
    FRAME_PROTOCOL = 1, /* version in the hello */
    FRAME_CHUNK_MAX = 256 << 10,
    FRAME_ENTRIES_MAX = 8192,
    FRAME_APPEND_BYTES = 1 << 20, /* target size of an append; a larger entry is sent alone */
};
enum peer_frame_kind {
    FRAME_HELLO = 1, /* first frame of each side; checksums without salt */
    FRAME_APPEND,
    FRAME_APPEND_RESULT,
    FRAME_VOTE,
    FRAME_VOTE_RESULT,
    FRAME_TIMEOUT_NOW,
    FRAME_READ_ROUND, /* "do you still accept my term?" */
    FRAME_READ_ANSWER,
    FRAME_HASH,
    FRAME_SNAP_BEGIN, /* starts a snapshot on the bulk lane */
    FRAME_SNAP_CHUNK,
    FRAME_SNAP_END,
    FRAME_BEAT, /* keep-alive, sent in both directions of both lanes */
    FRAME_KIND_COUNT
};
enum frame_lane { LANE_CONTROL = 1, LANE_BULK = 2 };
struct frame_hello {
    uint32_t protocol;
    enum frame_lane lane;
    uint64_t cluster_id, from, to; /* `to` reveals a wiped replica, whose id is new */
    uint64_t nonce;                /* random; the nonces of both sides give the session number */
    uint32_t level;                /* highest cluster level the sender understands */
    struct str name, address;      /* label of the sender; where to dial the sender */
};
struct frame_read {
    uint64_t term, round;
    bool yes; /* FRAME_READ_ANSWER only: the peer accepts the term */
};
struct frame_hash {
    uint64_t index, term, hash;
};
struct frame_snap_begin {
    uint64_t term, index, index_term, bytes, id; /* id: new for each transfer */
};
struct frame_snap_chunk {
    uint64_t id, offset;
    struct str bytes;
};
struct peer_frame {
    enum peer_frame_kind kind;
    union {
        struct frame_hello hello;
        struct { /* APPEND: frame_next_entry decodes the entries */
            uint64_t term, prev_index, prev_term, commit;
            uint32_t entry_count;
            struct str entries;  /* encoded entries not decoded yet */
            uint64_t next_index; /* index of the first entry in `entries` */
        } append;
        struct raft_append_entries_result append_result;
        struct raft_request_vote vote;
        struct raft_request_vote_result vote_result;
        struct raft_timeout_now timeout_now;
        struct frame_read read;
        struct frame_hash hash;
        struct frame_snap_begin snap_begin;
        struct frame_snap_chunk snap_chunk;
        struct {
            uint64_t id;
        } snap_end;
    } u;
};
/* One direction of one connection. */
struct frame_link {
    uint64_t session; /* 0 during the exchange of hellos */
    uint64_t number;
};
/* Appends a whole frame. `entries` of an APPEND are encoded bytes, as from frame_take.
 * ERR_TOO_LARGE, ERR_FULL and ERR_NOMEM leave `into` and the link unchanged. */
enum err frame_append(struct frame_link *link, const struct peer_frame *frame, struct buf *into);
/* Write an APPEND entry by entry. frame_begin_append writes the head and sets *ret_start to the
 * frame's offset in `into`. frame_add_entry adds and counts an entry; ERR_TOO_LARGE (FRAME_MAX,
 * FRAME_ENTRIES_MAX), ERR_FULL and ERR_NOMEM change nothing. frame_seal completes the head. To
 * give up, truncate `into` to the frame's offset. */
enum err frame_begin_append(const struct peer_frame *frame, struct buf *into, size_t *ret_start);
enum err frame_add_entry(const struct entry *entry, struct buf *into, size_t start);
void frame_seal(struct frame_link *link, struct buf *into, size_t start);
/* Decodes the frame at the start of `bytes` and returns views into `bytes`. ERR_OK sets
 * *ret_size and advances the link. ERR_NOT_READY: more bytes are needed. Close the connection
 * after ERR_TOO_LARGE, ERR_CORRUPT (checksum, number, session), ERR_PARSE (payload) or
 * ERR_VERSION. */
enum err frame_take(struct frame_link *link, struct str bytes, struct peer_frame *ret_frame,
                    size_t *ret_size, struct note *note);
/* After ERR_NOT_READY: how many bytes frame_take needs. */
size_t frame_wanted(struct str bytes);
/* Next entry of an APPEND from frame_take. False: no more entries. */
bool frame_next_entry(struct peer_frame *frame, struct entry *ret_entry);
uint64_t frame_session(uint64_t dialer_nonce, uint64_t listener_nonce); /* never 0 */
const char *frame_kind_name(enum peer_frame_kind kind);
#endif
