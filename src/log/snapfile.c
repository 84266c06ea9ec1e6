/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding of a snapshot file: the head, with the state's index and the members, and the chunks.
 * docs/formats/log.md has the bytes. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "log/snapfile_internal.h"

enum {
    MEMBER_FIXED = 16,
    SNAP_FORMAT = 1,
};
static const char snapfile_magic[SNAP_MAGIC_BYTES] = {'m', 'u', 's', 't', 'e', 'r', 's', 'n'};
static_assert(SNAP_HEAD_FIXED + 8 +
                      REPLICA_MEMBERS_MAX * (MEMBER_FIXED + REPLICA_ADDRESS_MAX + 8) <=
                  SNAP_HEAD_MAX,
              "the largest head fits");

bool snap_is(struct str first_bytes)
{
    return first_bytes.len >= sizeof snapfile_magic &&
           memcmp(first_bytes.at, snapfile_magic, sizeof snapfile_magic) == 0;
}

static size_t align_up(size_t len)
{
    return (len + SNAP_ALIGN - 1) / SNAP_ALIGN * SNAP_ALIGN;
}

/* -- the head -- */

size_t snap_head_write(const struct snap_head *head, char *room, uint32_t *ret_crc)
{
    const struct members *members = &head->mark.members;
    size_t at = SNAP_HEAD_FIXED;
    assert(members->count <= REPLICA_MEMBERS_MAX);
    memset(room, 0, SNAP_HEAD_MAX);
    for (size_t i = 0; i < members->count; i++) {
        const struct member *member = &members->at[i];
        size_t len = strnlen(member->address, REPLICA_ADDRESS_MAX);
        store_le64(room + at, member->id);
        store_le32(room + at + 8, (uint32_t)member->role);
        store_le32(room + at + 12, (uint32_t)len);
        memcpy(room + at + MEMBER_FIXED, member->address, len);
        at += align_up(MEMBER_FIXED + len);
    }
    size_t size = at + 8;
    assert(size <= SNAP_HEAD_MAX);
    memcpy(room, snapfile_magic, sizeof snapfile_magic);
    store_le32(room + 8, SNAP_FORMAT);
    store_le32(room + 12, (uint32_t)size);
    store_le64(room + 16, head->mark.index);
    store_le64(room + 24, head->mark.term);
    store_le64(room + 32, head->mark.members_index);
    store_le64(room + 40, head->cluster_id);
    store_le64(room + 48, head->clock_ns);
    store_le32(room + 56, head->level);
    store_le32(room + 60, (uint32_t)members->count);
    *ret_crc = crc32c(0, room, size - 4);
    store_le32(room + size - 4, *ret_crc);
    return size;
}

/* The last member must end at `end`. */
static enum err members_read(const char *bytes, size_t end, uint32_t count,
                             struct members *ret_members)
{
    size_t at = SNAP_HEAD_FIXED;
    ret_members->count = count;
    if (count > REPLICA_MEMBERS_MAX) return ERR_CORRUPT;
    for (uint32_t i = 0; i < count; i++) {
        struct member *member = &ret_members->at[i];
        if (end - at < MEMBER_FIXED) return ERR_CORRUPT;
        uint32_t role = load_le32(bytes + at + 8), len = load_le32(bytes + at + 12);
        if (len > REPLICA_ADDRESS_MAX || end - at < align_up(MEMBER_FIXED + len))
            return ERR_CORRUPT;
        if (role != MEMBER_LEARNER && role != MEMBER_VOTER) return ERR_CORRUPT;
        *member = (struct member){.id = load_le64(bytes + at), .role = (enum member_role)role};
        memcpy(member->address, bytes + at + MEMBER_FIXED, len);
        if (memchr(member->address, '\0', len)) return ERR_CORRUPT;
        at += align_up(MEMBER_FIXED + len);
    }
    return at == end ? ERR_OK : ERR_CORRUPT;
}

enum err snap_head_read(struct str bytes, struct snap_head *ret_head, size_t *ret_size,
                        uint32_t *ret_crc)
{
    const char *at = bytes.at;
    struct snap_head head = {0};
    if (bytes.len < SNAP_HEAD_FIXED) {
        *ret_size = SNAP_HEAD_FIXED;
        return ERR_TOO_LARGE;
    }
    size_t size = load_le32(at + 12);
    if (memcmp(at, snapfile_magic, sizeof snapfile_magic) != 0) return ERR_CORRUPT;
    if (size < SNAP_HEAD_FIXED + 8 || size > SNAP_HEAD_MAX || size % SNAP_ALIGN != 0)
        return ERR_CORRUPT;
    if (size > bytes.len) {
        *ret_size = size;
        return ERR_TOO_LARGE;
    }
    uint32_t crc = crc32c(0, at, size - 4);
    if (load_le32(at + size - 4) != crc) return ERR_CORRUPT;
    if (load_le32(at + 8) != SNAP_FORMAT) return ERR_VERSION;
    head.mark.index = load_le64(at + 16);
    head.mark.term = load_le64(at + 24);
    head.mark.members_index = load_le64(at + 32);
    head.cluster_id = load_le64(at + 40);
    head.clock_ns = load_le64(at + 48);
    head.level = load_le32(at + 56);
    enum err err = members_read(at, size - 8, load_le32(at + 60), &head.mark.members);
    if (err) return err;
    *ret_head = head;
    *ret_size = size;
    *ret_crc = crc;
    return ERR_OK;
}

/* -- chunks -- */

size_t snap_chunk_size(size_t bytes)
{
    assert(bytes <= SNAP_CHUNK_MAX);
    return align_up(SNAP_CHUNK_HEAD + bytes);
}

static uint32_t chunk_crc(uint32_t head_crc, const char *chunk, size_t size)
{
    char salt[4];
    store_le32(salt, head_crc);
    return crc32c(crc32c(0, salt, sizeof salt), chunk + 4, size - 4);
}

void snap_chunk_write(const struct snap_chunk *chunk, uint32_t head_crc, char *room)
{
    size_t size = snap_chunk_size(chunk->bytes.len);
    memset(room, 0, SNAP_CHUNK_HEAD);
    store_le32(room + 4, (uint32_t)chunk->bytes.len);
    store_le32(room + 8, chunk->section);
    store_le64(room + 16, chunk->number);
    if (chunk->bytes.len > 0) memcpy(room + SNAP_CHUNK_HEAD, chunk->bytes.at, chunk->bytes.len);
    memset(room + SNAP_CHUNK_HEAD + chunk->bytes.len, 0, size - SNAP_CHUNK_HEAD - chunk->bytes.len);
    store_le32(room, chunk_crc(head_crc, room, size));
}

enum err snap_chunk_read(struct str bytes, uint32_t head_crc, struct snap_chunk *ret_chunk,
                         size_t *ret_size)
{
    const char *at = bytes.at;
    if (bytes.len < SNAP_CHUNK_HEAD) {
        *ret_size = SNAP_CHUNK_HEAD;
        return ERR_TOO_LARGE;
    }
    uint32_t length = load_le32(at + 4);
    if (length > SNAP_CHUNK_MAX) return ERR_CORRUPT;
    size_t size = snap_chunk_size(length);
    if (size > bytes.len) {
        *ret_size = size;
        return ERR_TOO_LARGE;
    }
    if (load_le32(at) != chunk_crc(head_crc, at, size)) return ERR_CORRUPT;
    *ret_chunk = (struct snap_chunk){
        .section = load_le32(at + 8),
        .number = load_le64(at + 16),
        .bytes = str_of(at + SNAP_CHUNK_HEAD, length),
    };
    *ret_size = size;
    return ERR_OK;
}

/* -- a stream -- */

enum err snap_stream_begin(struct snap_stream *stream, const struct snap_head *head,
                           struct buf *into)
{
    char room[SNAP_HEAD_MAX];
    size_t size;
    *stream = (struct snap_stream){.chunks = 0};
    size = snap_head_write(head, room, &stream->head_crc);
    return buf_append(into, str_of(room, size));
}

static enum err chunk_put(const struct snap_stream *stream, uint32_t section, struct str bytes,
                          struct buf *into)
{
    struct snap_chunk chunk = {.section = section, .number = stream->chunks, .bytes = bytes};
    size_t size = snap_chunk_size(bytes.len);
    char *room;
    enum err err = buf_reserve(into, size, &room);
    if (err) return err;
    snap_chunk_write(&chunk, stream->head_crc, room);
    buf_commit(into, size);
    return ERR_OK;
}

enum err snap_stream_chunk(struct snap_stream *stream, uint32_t section, struct str bytes,
                           struct buf *into)
{
    assert(section >= stream->section && section != SNAP_SECTION_END);
    enum err err = chunk_put(stream, section, bytes, into);
    if (err) return err;
    stream->section = section;
    stream->chunks++;
    stream->bytes += bytes.len;
    return ERR_OK;
}

enum err snap_stream_end(const struct snap_stream *stream, struct buf *into)
{
    char end[SNAP_END_BYTES];
    store_le64(end, stream->chunks);
    store_le64(end + 8, stream->bytes);
    return chunk_put(stream, SNAP_SECTION_END, str_of(end, sizeof end), into);
}
