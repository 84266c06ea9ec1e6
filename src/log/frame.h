/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding of the frames between replicas. The length comes first and is checked before anything is
 * stored. Pure.
 *
 * docs/protocols/raft-port.md has the bytes. A frame is a head of FRAME_HEAD bytes (length, kind,
 * two CRC-32C, number) and a payload of at most FRAME_MAX. The frames of each direction are
 * numbered from 1 without gap. Their checksums are salted with the connection's session, a number
 * that both sides drew in the two hellos. A frame recorded on another connection is therefore
 * refused by its head alone, before its payload is read. */
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
    FRAME_PROTOCOL = 1,           /* version in the hello */
    FRAME_CHUNK_MAX = 256 << 10,  /* payload of a snapshot chunk */
    FRAME_ENTRIES_MAX = 8192,     /* entries in one append */
    FRAME_APPEND_BYTES = 1 << 20, /* target size of an append; a larger entry is sent alone */
};
enum peer_frame_kind {
    FRAME_HELLO = 1, /* first frame of each side; its checksums are not salted */
    FRAME_APPEND,
    FRAME_APPEND_RESULT,
    FRAME_VOTE,
    FRAME_VOTE_RESULT,
    FRAME_TIMEOUT_NOW,
    FRAME_READ_ROUND, /* the leader asks whether the peer still accepts the leader's term */
    FRAME_READ_ANSWER,
    FRAME_HASH,       /* state hash at one index */
    FRAME_SNAP_BEGIN, /* starts a snapshot on the bulk lane: size, index, terms */
    FRAME_SNAP_CHUNK,
    FRAME_SNAP_END,
    FRAME_BEAT, /* keep-alive, sent in both directions of both lanes */
    FRAME_KIND_COUNT
};
enum frame_lane { LANE_CONTROL = 1, LANE_BULK = 2 };
struct frame_hello {
    uint32_t protocol;
    enum frame_lane lane;
    uint64_t cluster_id, from, to; /* `to` detects a wiped replica, whose id is new */
    uint64_t nonce;                /* both sides' nonces make the session number */
    uint32_t level;                /* highest cluster level the sender understands */
    struct str name, address;      /* label of the sender, and where the sender can be reached */
};
struct frame_read { /* content of FRAME_READ_ROUND and FRAME_READ_ANSWER */
    uint64_t term, round;
    bool yes; /* in FRAME_READ_ANSWER only: the peer still accepts the term */
};
struct frame_hash {
    uint64_t index, term, hash;
};
struct frame_snap_begin {
    uint64_t term, index, index_term, bytes, id; /* each snapshot transfer has a new id */
};
struct frame_snap_chunk {
    uint64_t id, offset;
    struct str bytes;
};
struct peer_frame {
    enum peer_frame_kind kind;
    union {
        struct frame_hello hello;
        struct { /* APPEND: frame_next_entry decodes entries one by one */
            uint64_t term, prev_index, prev_term, commit;
            uint32_t entry_count;
            struct str entries;  /* encoded entries not decoded yet */
            uint64_t next_index; /* index of the first entry not decoded yet */
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
/* The state of one direction of one connection. */
struct frame_link {
    uint64_t session; /* 0 during the exchange of hellos */
    uint64_t number;  /* number of the last frame */
};
/* Appends a whole frame. Returns ERR_TOO_LARGE, ERR_FULL or ERR_NOMEM, and then leaves `into` and
 * the link unchanged. For an APPEND, `entries` holds encoded bytes, as returned by frame_take. */
enum err frame_append(struct frame_link *link, const struct peer_frame *frame, struct buf *into);
/* These functions write an APPEND whose entries are not contiguous. frame_begin_append writes the
 * head and the fixed part, and sets *ret_start to the frame's offset in `into`. Each
 * frame_add_entry adds and counts an entry, or returns ERR_TOO_LARGE (FRAME_MAX,
 * FRAME_ENTRIES_MAX), ERR_FULL or ERR_NOMEM and changes nothing. frame_seal fills in length, number
 * and checksums. To give up before frame_seal, truncate `into` to the frame's offset. */
enum err frame_begin_append(const struct peer_frame *frame, struct buf *into, size_t *ret_start);
enum err frame_add_entry(const struct entry *entry, struct buf *into, size_t start);
void frame_seal(struct frame_link *link, struct buf *into, size_t start);
/* Decodes the frame at the start of `bytes` and returns views into `bytes`. ERR_OK sets *ret_size
 * and advances the link. ERR_NOT_READY asks for more bytes. After ERR_TOO_LARGE, ERR_CORRUPT
 * (checksum, number, session), ERR_PARSE (payload) or ERR_VERSION, close the connection. */
enum err frame_take(struct frame_link *link, struct str bytes, struct peer_frame *ret_frame,
                    size_t *ret_size, struct note *note);
/* Returns how many bytes the next frame_take needs, after ERR_NOT_READY. */
size_t frame_wanted(struct str bytes);
/* Returns the next entry of an APPEND that frame_take has checked. False after the last entry. */
bool frame_next_entry(struct peer_frame *frame, struct entry *ret_entry);
uint64_t frame_session(uint64_t dialer_nonce, uint64_t listener_nonce); /* never 0 */
const char *frame_kind_name(enum peer_frame_kind kind);                 /* such as "append" */
#endif
