/* SPDX-License-Identifier: Apache-2.0 */
/* The encoding of a frame; docs/protocols/raft-port.md has the bytes. Every kind has a minimum and
 * maximum length, so the head alone reveals most errors. */
#include "log/frame.h"

#include "base/bytes.h"
#include "base/crc32c.h"

enum {
    FRAME_AT_LENGTH = 0,
    FRAME_AT_KIND = 4,
    AT_SUM = 8,
    AT_HEAD_SUM = 12,
    AT_NUMBER = 16,
    HELLO_FIXED = 48,
    HELLO_MAX = 1024, /* space for extensions of later protocols */
    APPEND_FIXED = 40,
    APPEND_AT_COUNT = 32,
    ENTRY_HEAD = 16,
};
static_assert(HELLO_FIXED + REPLICA_NAME_MAX + REPLICA_ADDRESS_MAX <= HELLO_MAX, "hello fits");
static_assert(APPEND_FIXED + ENTRY_HEAD + ENTRY_BYTES_MAX <= FRAME_MAX, "an entry fits");

/* An integer field of struct peer_frame. Fields follow each other on the wire. */
struct frame_field {
    uint16_t at;
    uint8_t size; /* bytes in struct peer_frame; 0: reserved, written as zeros */
    uint8_t wire; /* bytes in the frame; 0 ends the list */
    bool is_flag;
};
#define FRAME_OF  ((const struct peer_frame *)NULL)
#define WHERE(of) .at = offsetof(struct peer_frame, u.of), .size = sizeof FRAME_OF->u.of
#define FIELD(of, bytes)                                                                           \
    {                                                                                              \
        WHERE(of), .wire = (bytes)                                                                 \
    }

#define FLAG(of, bytes)                                                                            \
    {                                                                                              \
        WHERE(of), .wire = (bytes), .is_flag = true                                                \
    }

/* The fields of each frame kind. Texts, entries or a chunk follow the fields. */
static const struct {
    const char *name;
    struct frame_field fields[10];
    uint32_t more_min, more_max; /* limits of the bytes after the fields */
} kinds[FRAME_KIND_COUNT] = {
    [FRAME_HELLO] = {"hello",
                     {FIELD(hello.protocol, 4), FIELD(hello.lane, 4), FIELD(hello.cluster_id, 8),
                      FIELD(hello.from, 8), FIELD(hello.to, 8), FIELD(hello.nonce, 8),
                      FIELD(hello.level, 4), FIELD(hello.name.len, 2), FIELD(hello.address.len, 2)},
                     .more_max = HELLO_MAX - HELLO_FIXED},
    [FRAME_APPEND] = {"append",
                      {FIELD(append.term, 8),
                       FIELD(append.prev_index, 8),
                       FIELD(append.prev_term, 8),
                       FIELD(append.commit, 8),
                       FIELD(append.entry_count, 4),
                       {.wire = 4}},
                      .more_max = FRAME_MAX - APPEND_FIXED},
    [FRAME_APPEND_RESULT] = {"append_result",
                             {FIELD(append_result.term, 8), FIELD(append_result.rejected, 8),
                              FIELD(append_result.last_log_index, 8),
                              FIELD(append_result.features, 2), FIELD(append_result.capacity, 2),
                              FIELD(append_result.version, 4)}},
    [FRAME_VOTE] = {"vote",
                    {FIELD(vote.term, 8),
                     FIELD(vote.candidate_id, 8),
                     FIELD(vote.last_log_index, 8),
                     FIELD(vote.last_log_term, 8),
                     FLAG(vote.disrupt_leader, 1),
                     FLAG(vote.pre_vote, 1),
                     {.wire = 2},
                     FIELD(vote.version, 4)}},
    [FRAME_VOTE_RESULT] = {"vote_result",
                           {FIELD(vote_result.term, 8), FLAG(vote_result.vote_granted, 1),
                            FLAG(vote_result.pre_vote, 1), FIELD(vote_result.features, 2),
                            FIELD(vote_result.capacity, 2), FIELD(vote_result.version, 2)}},
    [FRAME_TIMEOUT_NOW] = {"timeout_now",
                           {FIELD(timeout_now.term, 8), FIELD(timeout_now.last_log_index, 8),
                            FIELD(timeout_now.last_log_term, 8), FIELD(timeout_now.version, 8)}},
    [FRAME_READ_ROUND] = {"read_round", {FIELD(read.term, 8), FIELD(read.round, 8)}},
    [FRAME_READ_ANSWER] = {"read_answer",
                           {FIELD(read.term, 8), FIELD(read.round, 8), FLAG(read.yes, 8)}},
    [FRAME_HASH] = {"hash", {FIELD(hash.index, 8), FIELD(hash.term, 8), FIELD(hash.hash, 8)}},
    [FRAME_SNAP_BEGIN] = {"snap_begin",
                          {FIELD(snap_begin.term, 8), FIELD(snap_begin.index, 8),
                           FIELD(snap_begin.index_term, 8), FIELD(snap_begin.bytes, 8),
                           FIELD(snap_begin.id, 8)}},
    [FRAME_SNAP_CHUNK] = {"snap_chunk",
                          {FIELD(snap_chunk.id, 8), FIELD(snap_chunk.offset, 8)},
                          .more_min = 1,
                          .more_max = FRAME_CHUNK_MAX},
    [FRAME_SNAP_END] = {"snap_end", {FIELD(snap_end.id, 8)}},
    [FRAME_BEAT] = {"beat", {{0}}},
};

static uint32_t fixed_length(uint32_t kind)
{
    uint32_t length = 0;

    for (const struct frame_field *f = kinds[kind].fields; f->wire > 0; f++) length += f->wire;
    return length;
}

const char *frame_kind_name(enum peer_frame_kind kind)
{
    return kind > 0 && kind < FRAME_KIND_COUNT ? kinds[kind].name : "unknown";
}

static uint64_t mix(uint64_t x) /* one round of splitmix64 */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t frame_session(uint64_t dialer_nonce, uint64_t listener_nonce)
{
    uint64_t session = mix(dialer_nonce ^ mix(listener_nonce));

    return session ? session : 1;
}

static uint32_t head_sum(uint64_t session, const char *head)
{
    char salt[8];

    store_le64(salt, session);
    return crc32c(crc32c(crc32c(0, salt, 8), head, AT_SUM), head + AT_NUMBER, 8);
}

/* -- writing -- */

static size_t payload_length(const struct peer_frame *frame)
{
    size_t fixed = fixed_length(frame->kind);

    switch (frame->kind) {
    case FRAME_HELLO: return fixed + frame->u.hello.name.len + frame->u.hello.address.len;
    case FRAME_APPEND: return fixed + frame->u.append.entries.len;
    case FRAME_SNAP_CHUNK: return fixed + frame->u.snap_chunk.bytes.len;
    default: return fixed;
    }
}

/* Address of the value's low-order `size` bytes, for either byte order. */
static char *low_end(uint64_t *value, size_t size)
{
    return (char *)value + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof *value - size : 0);
}

static char *put_fields(char *at, const struct peer_frame *frame)
{
    for (const struct frame_field *f = kinds[frame->kind].fields; f->wire > 0; at += f++->wire) {
        uint64_t value = 0;
        char bytes[8];

        memcpy(low_end(&value, f->size), (const char *)frame + f->at, f->size);
        assert(f->wire == sizeof bytes || value >> 8 * f->wire == 0);
        store_le64(bytes, value);
        memcpy(at, bytes, f->wire);
    }
    return at;
}

static char *put_payload(char *at, const struct peer_frame *frame)
{
    at = put_fields(at, frame);
    switch (frame->kind) {
    case FRAME_HELLO:
        assert(frame->u.hello.name.len <= REPLICA_NAME_MAX);
        assert(frame->u.hello.address.len <= REPLICA_ADDRESS_MAX);
        str_put(&at, frame->u.hello.name);
        str_put(&at, frame->u.hello.address);
        break;
    case FRAME_APPEND: str_put(&at, frame->u.append.entries); break;
    case FRAME_SNAP_CHUNK: str_put(&at, frame->u.snap_chunk.bytes); break;
    default: break;
    }
    return at;
}

/* Writes the head of a frame whose payload is written. */
static void seal(struct frame_link *link, char *head, enum peer_frame_kind kind, size_t length)
{
    uint32_t sum;

    assert(length >= fixed_length(kind) + kinds[kind].more_min);
    assert(length <= fixed_length(kind) + kinds[kind].more_max);
    assert((kind == FRAME_HELLO) == (link->session == 0));
    store_le32(head + FRAME_AT_LENGTH, (uint32_t)length);
    store_le32(head + FRAME_AT_KIND, kind);
    store_le64(head + AT_NUMBER, ++link->number);
    sum = head_sum(link->session, head);
    store_le32(head + AT_HEAD_SUM, sum);
    store_le32(head + AT_SUM, crc32c(sum, head + FRAME_HEAD, length));
}

enum err frame_append(struct frame_link *link, const struct peer_frame *frame, struct buf *into)
{
    size_t length;
    char *head, *end;
    enum err err;

    assert(frame->kind > 0 && frame->kind < FRAME_KIND_COUNT);
    length = payload_length(frame);
    if (length > fixed_length(frame->kind) + kinds[frame->kind].more_max) return ERR_TOO_LARGE;
    err = buf_reserve(into, FRAME_HEAD + length, &head);
    if (err) return err;
    end = put_payload(head + FRAME_HEAD, frame);
    assert((size_t)(end - head) == FRAME_HEAD + length);
    seal(link, head, frame->kind, length);
    buf_commit(into, FRAME_HEAD + length);
    return ERR_OK;
}

enum err frame_begin_append(const struct peer_frame *frame, struct buf *into, size_t *ret_start)
{
    size_t start = into->len;
    char *head;
    enum err err = buf_reserve(into, FRAME_HEAD + APPEND_FIXED, &head);

    assert(frame->kind == FRAME_APPEND);
    if (err) return err;
    put_fields(head + FRAME_HEAD, frame);
    store_le32(head + FRAME_HEAD + APPEND_AT_COUNT, 0);
    buf_commit(into, FRAME_HEAD + APPEND_FIXED);
    *ret_start = start;
    return ERR_OK;
}

enum err frame_add_entry(const struct entry *entry, struct buf *into, size_t start)
{
    size_t length = into->len - start - FRAME_HEAD;
    uint32_t count = load_le32(into->data + start + FRAME_HEAD + APPEND_AT_COUNT);
    char *at;
    enum err err;

    if (entry->bytes.len > ENTRY_BYTES_MAX || count == FRAME_ENTRIES_MAX) return ERR_TOO_LARGE;
    if (ENTRY_HEAD + entry->bytes.len > FRAME_MAX - length) return ERR_TOO_LARGE;
    err = buf_reserve(into, ENTRY_HEAD + entry->bytes.len, &at);
    if (err) return err;
    store_le64(at, entry->term);
    store_le32(at + 8, (uint32_t)entry->bytes.len);
    store_le32(at + 12, entry->kind);
    at += ENTRY_HEAD;
    str_put(&at, entry->bytes);
    buf_commit(into, ENTRY_HEAD + entry->bytes.len);
    store_le32(into->data + start + FRAME_HEAD + APPEND_AT_COUNT, count + 1);
    return ERR_OK;
}

void frame_seal(struct frame_link *link, struct buf *into, size_t start)
{
    seal(link, into->data + start, FRAME_APPEND, into->len - start - FRAME_HEAD);
}

/* -- reading -- */

/* Decodes a payload that is at least as long as its fields. `bad`: a value is invalid. */
struct frame_reader {
    const char *at;
    size_t left;
    bool bad;
};

static const char *log_frame_take(struct frame_reader *r, size_t len)
{
    const char *at = r->at;

    assert(len <= r->left);
    r->at += len;
    r->left -= len;
    return at;
}

static void take_fields(struct frame_reader *r, struct peer_frame *frame)
{
    for (const struct frame_field *f = kinds[frame->kind].fields; f->wire > 0; f++) {
        char bytes[8] = {0};
        uint64_t value;

        memcpy(bytes, log_frame_take(r, f->wire), f->wire);
        value = load_le64(bytes);
        if ((f->size < sizeof value && value >> 8 * f->size) || (f->is_flag && value > 1)) {
            r->bad = true;
            value = 0;
        }
        memcpy((char *)frame + f->at, low_end(&value, f->size), f->size);
    }
}

/* True: the text is safe in log lines and as a C string. */
static bool is_plain(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] < 0x20 || text.at[i] == 0x7f) return false;
    return str_is_utf8(text);
}

static enum err read_hello(struct frame_reader *r, struct frame_hello *hello, struct note *note)
{
    size_t name_len = hello->name.len, address_len = hello->address.len;

    if (hello->protocol != FRAME_PROTOCOL) { /* another protocol may have other fields here */
        return note_fail(note, ERR_VERSION, "the peer speaks protocol %u, we speak %u",
                         hello->protocol, FRAME_PROTOCOL);
    }
    if (hello->lane != LANE_CONTROL && hello->lane != LANE_BULK) r->bad = true;
    if (hello->cluster_id == 0 || hello->from == 0 || hello->to == 0) r->bad = true;
    if (name_len > REPLICA_NAME_MAX || address_len > REPLICA_ADDRESS_MAX || address_len == 0 ||
        name_len + address_len != r->left) {
        r->bad = true;
        return ERR_OK;
    }
    hello->name = str_of(log_frame_take(r, name_len), name_len);
    hello->address = str_of(log_frame_take(r, address_len), address_len);
    if (!is_plain(hello->name) || !is_plain(hello->address)) r->bad = true;
    return ERR_OK;
}

static void read_entry(struct frame_reader *r, struct entry *entry)
{
    const char *head = log_frame_take(r, ENTRY_HEAD);
    uint32_t len = load_le32(head + 8), kind = load_le32(head + 12);

    entry->term = load_le64(head);
    if (kind < ENTRY_COMMAND || kind > ENTRY_CHANGE || len > ENTRY_BYTES_MAX || len > r->left) {
        r->bad = true;
        return;
    }
    entry->kind = (enum entry_kind)kind;
    entry->bytes = str_of(log_frame_take(r, len), len);
}

/* Terms never decrease within a log and never exceed the leader's term. */
static void check_entries(struct frame_reader *r, const struct peer_frame *frame)
{
    uint64_t term_before = frame->u.append.prev_term;
    struct entry entry = {0};

    for (uint32_t i = 0; i < frame->u.append.entry_count && !r->bad; i++) {
        if (r->left < ENTRY_HEAD) {
            r->bad = true;
            return;
        }
        read_entry(r, &entry);
        if (entry.term < term_before || entry.term > frame->u.append.term) r->bad = true;
        term_before = entry.term;
    }
}

static void read_append(struct frame_reader *r, struct peer_frame *frame)
{
    frame->u.append.entries = str_of(r->at, r->left);
    if (frame->u.append.entry_count > FRAME_ENTRIES_MAX ||
        frame->u.append.prev_term > frame->u.append.term ||
        frame->u.append.prev_index > UINT64_MAX / 2) {
        r->bad = true;
        return;
    }
    frame->u.append.next_index = frame->u.append.prev_index + 1;
    check_entries(r, frame);
}

static enum err read_payload(struct frame_reader *r, struct peer_frame *frame, struct note *note)
{
    take_fields(r, frame);
    switch (frame->kind) {
    case FRAME_HELLO: return read_hello(r, &frame->u.hello, note);
    case FRAME_APPEND: read_append(r, frame); break;
    case FRAME_SNAP_CHUNK:
        frame->u.snap_chunk.bytes = str_of(r->at, r->left);
        log_frame_take(r, r->left);
        break;
    default: break;
    }
    return ERR_OK;
}

static enum err check_head(const struct frame_link *link, const char *head, struct note *note)
{
    uint32_t length = load_le32(head + FRAME_AT_LENGTH), kind = load_le32(head + FRAME_AT_KIND);
    uint64_t number = load_le64(head + AT_NUMBER);

    if (load_le32(head + AT_HEAD_SUM) != head_sum(link->session, head))
        return note_fail(note, ERR_CORRUPT,
                         "not a frame of this connection: the head's checksum is wrong");
    if (number != link->number + 1)
        return note_fail(note, ERR_CORRUPT, "frame number %llu where %llu was due",
                         (unsigned long long)number, (unsigned long long)link->number + 1);
    if (kind == 0 || kind >= FRAME_KIND_COUNT)
        return note_fail(note, ERR_PARSE, "kind %u is not known", kind);
    if ((kind == FRAME_HELLO) != (link->session == 0))
        return note_fail(note, ERR_PARSE, "%s %s", kinds[kind].name,
                         link->session ? "a second time" : "where a hello was due");
    if (length > fixed_length(kind) + kinds[kind].more_max)
        return note_fail(note, ERR_TOO_LARGE, "%s of %u bytes", kinds[kind].name, length);
    if (length < fixed_length(kind) + kinds[kind].more_min)
        return note_fail(note, ERR_PARSE, "%s of only %u bytes", kinds[kind].name, length);
    return ERR_OK;
}

enum err frame_take(struct frame_link *link, struct str bytes, struct peer_frame *ret_frame,
                    size_t *ret_size, struct note *note)
{
    const char *head = bytes.at;
    struct peer_frame frame = {0};
    struct frame_reader r;
    uint32_t length;
    enum err err;

    if (bytes.len < 4) return ERR_NOT_READY;
    length = load_le32(head + FRAME_AT_LENGTH);
    if (length > FRAME_MAX) return note_fail(note, ERR_TOO_LARGE, "a frame of %u bytes", length);
    if (bytes.len < FRAME_HEAD) return ERR_NOT_READY;
    err = check_head(link, head, note);
    if (err) return err;
    if (bytes.len - FRAME_HEAD < length) return ERR_NOT_READY;
    if (load_le32(head + AT_SUM) !=
        crc32c(load_le32(head + AT_HEAD_SUM), head + FRAME_HEAD, length))
        return note_fail(note, ERR_CORRUPT, "the payload's checksum is wrong");
    frame.kind = (enum peer_frame_kind)load_le32(head + FRAME_AT_KIND);
    r = (struct frame_reader){.at = head + FRAME_HEAD, .left = length};
    err = read_payload(&r, &frame, note);
    if (!err && (r.bad || r.left > 0)) {
        note_set(note, "%s with a value that cannot be", kinds[frame.kind].name);
        err = ERR_PARSE;
    }
    if (err) return err;
    link->number++;
    *ret_frame = frame;
    *ret_size = FRAME_HEAD + length;
    return ERR_OK;
}

size_t frame_wanted(struct str bytes)
{
    return bytes.len < FRAME_HEAD ? FRAME_HEAD : FRAME_HEAD + load_le32(bytes.at + FRAME_AT_LENGTH);
}

bool frame_next_entry(struct peer_frame *frame, struct entry *ret_entry)
{
    struct frame_reader r = {.at = frame->u.append.entries.at, .left = frame->u.append.entries.len};
    struct entry entry = {.index = frame->u.append.next_index};

    assert(frame->kind == FRAME_APPEND);
    if (r.left == 0) return false;
    assert(r.left >= ENTRY_HEAD);
    read_entry(&r, &entry);
    assert(!r.bad);
    frame->u.append.entries = str_of(r.at, r.left);
    frame->u.append.next_index++;
    *ret_entry = entry;
    return true;
}
