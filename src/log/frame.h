/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between replicas as bytes: length first, checked before anything is stored. Pure.
 *
 * docs/protocols/raft-port.md has the bytes. A frame is a head of FRAME_HEAD bytes (length, kind,
 * two CRC-32C, number) and a payload of at most FRAME_MAX. The frames of each direction are
 * numbered from 1 without gap, and their checksums are salted with the connection's session, which
 * both sides drew in the two hellos: a frame recorded on another connection is refused, by its head
 * alone, before its payload is waited for. */
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
    FRAME_PROTOCOL = 1,           /* of hello */
    FRAME_CHUNK_MAX = 256 << 10,  /* of a snapshot */
    FRAME_ENTRIES_MAX = 8192,     /* in one append */
    FRAME_APPEND_BYTES = 1 << 20, /* what the sender aims at; one larger entry goes alone */
};
enum peer_frame_kind {
    FRAME_HELLO = 1, /* first on each side of a connection, unsalted */
    FRAME_APPEND,
    FRAME_APPEND_RESULT,
    FRAME_VOTE,
    FRAME_VOTE_RESULT,
    FRAME_TIMEOUT_NOW,
    FRAME_READ_ROUND, /* leader asks: do you still know me as leader of this term? */
    FRAME_READ_ANSWER,
    FRAME_HASH,       /* state hash at an index */
    FRAME_SNAP_BEGIN, /* bulk lane: announces size, index, term, of this leader's term */
    FRAME_SNAP_CHUNK,
    FRAME_SNAP_END,
    FRAME_BEAT, /* nothing but "I am here", both ways on both lanes */
    FRAME_KIND_COUNT
};
enum frame_lane { LANE_CONTROL = 1, LANE_BULK = 2 };
struct frame_hello {
    uint32_t protocol;
    enum frame_lane lane;
    uint64_t cluster_id, from, to; /* to: whom the dialer wants; a wiped replica is another */
    uint64_t nonce;                /* this side's half of the session */
    uint32_t level;                /* highest cluster level it speaks */
    struct str name, address;      /* label, and where the sender can be reached */
};
struct frame_read { /* round and answer */
    uint64_t term, round;
    bool yes; /* answer only */
};
struct frame_hash {
    uint64_t index, term, hash;
};
struct frame_snap_begin {
    uint64_t term, index, index_term, bytes, id; /* id: new for each sending */
};
struct frame_snap_chunk {
    uint64_t id, offset;
    struct str bytes;
};
struct peer_frame {
    enum peer_frame_kind kind;
    union {
        struct frame_hello hello;
        struct { /* APPEND: entries are decoded one by one with frame_next_entry */
            uint64_t term, prev_index, prev_term, commit;
            uint32_t entry_count;
            struct str entries;  /* what is left of them, as bytes of the wire */
            uint64_t next_index; /* of the first that is left */
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
    uint64_t session; /* 0 while hellos are exchanged */
    uint64_t number;  /* of the last frame */
};
/* Appends a whole frame; after an error `into` and the link are as before. ERR_TOO_LARGE, ERR_FULL,
 * ERR_NOMEM. An APPEND is written with the bytes its `entries` has, as frame_take left them. */
enum err frame_append(struct frame_link *link, const struct peer_frame *frame, struct buf *into);
/* For an APPEND whose entries are anywhere: begin writes the head and the fixed part, each
 * frame_add_entry adds one and counts it, and frame_seal puts in length, number and checksums.
 * `start` is where the frame began in `into`; cut `into` back to it to give up before the seal.
 * frame_add_entry: ERR_TOO_LARGE past FRAME_MAX or FRAME_ENTRIES_MAX, ERR_FULL, ERR_NOMEM, and the
 * frame is as before. */
enum err frame_begin_append(const struct peer_frame *frame, struct buf *into, size_t *ret_start);
enum err frame_add_entry(const struct entry *entry, struct buf *into, size_t start);
void frame_seal(struct frame_link *link, struct buf *into, size_t start);
/* Takes the frame at the start of `bytes`. ERR_OK with *ret_size; ERR_NOT_READY: more bytes are
 * needed; ERR_TOO_LARGE, ERR_CORRUPT (checksum, number, session), ERR_PARSE (payload), ERR_VERSION:
 * close the connection. Views into `bytes`. The link moves on only with ERR_OK. */
enum err frame_take(struct frame_link *link, struct str bytes, struct peer_frame *ret_frame,
                    size_t *ret_size, struct note *note);
/* After ERR_NOT_READY: how many bytes the next look is worth, the head or the whole frame. */
size_t frame_wanted(struct str bytes);
/* Walks the entries of an APPEND that frame_take has checked. False at the end. */
bool frame_next_entry(struct peer_frame *frame, struct entry *ret_entry);
uint64_t frame_session(uint64_t dialer_nonce, uint64_t listener_nonce); /* never 0 */
const char *frame_kind_name(enum peer_frame_kind kind);                 /* "append" */
#endif
