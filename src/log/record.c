/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding of records and segment heads; see record.h and docs/formats/log.md. The two checksums
 * use different halves of the salt because CRC is linear. With one half, two segments whose salts
 * agree in that half would accept each other's records. */
#include "log/record.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"

enum {
    RECORD_AT_CRC = 0,
    AT_HEAD_CRC = 4,
    RECORD_AT_LENGTH = 8,
    RECORD_AT_KIND = 12,
    RECORD_AT_SERIAL = 16,
    AT_SYNCED = 24,
    RECORD_AT_INDEX = 32,
    RECORD_AT_TERM = 40,
};
static_assert(RECORD_AT_TERM + 8 == RECORD_HEAD, "the head ends where the bytes begin");
static_assert(RECORD_HEAD % RECORD_ALIGN == 0 && SEGMENT_HEAD % RECORD_ALIGN == 0,
              "a record begins at a multiple of RECORD_ALIGN");

static uint32_t salted(uint32_t half, const char *from, size_t len)
{
    char salt[4];
    store_le32(salt, half);
    return crc32c(crc32c(0, salt, sizeof salt), from, len);
}
static uint32_t head_crc(uint64_t salt, const char *record)
{
    return salted((uint32_t)salt, record + RECORD_AT_LENGTH, RECORD_HEAD - RECORD_AT_LENGTH);
}
static uint32_t whole_crc(uint64_t salt, const char *record, size_t size)
{
    return salted((uint32_t)(salt >> 32), record + AT_HEAD_CRC, size - AT_HEAD_CRC);
}

static bool kind_known(uint32_t kind)
{
    return (kind >= RECORD_COMMAND && kind <= RECORD_CHANGE) || kind == RECORD_RESET ||
           kind == RECORD_SEAL;
}

size_t record_size(size_t bytes)
{
    assert(bytes <= ENTRY_BYTES_MAX);
    return (RECORD_HEAD + bytes + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
}

void record_write(const struct log_record *record, uint64_t salt, void *room)
{
    char *at = room;
    size_t size = record_size(record->bytes.len);
    assert(kind_known(record->kind));
    assert(record->serial > 0 && record->synced < record->serial);
    store_le32(at + RECORD_AT_LENGTH, (uint32_t)record->bytes.len);
    store_le32(at + RECORD_AT_KIND, record->kind);
    store_le64(at + RECORD_AT_SERIAL, record->serial);
    store_le64(at + AT_SYNCED, record->synced);
    store_le64(at + RECORD_AT_INDEX, record->index);
    store_le64(at + RECORD_AT_TERM, record->term);
    if (record->bytes.len > 0) memcpy(at + RECORD_HEAD, record->bytes.at, record->bytes.len);
    memset(at + RECORD_HEAD + record->bytes.len, 0, size - RECORD_HEAD - record->bytes.len);
    store_le32(at + AT_HEAD_CRC, head_crc(salt, at));
    store_le32(at + RECORD_AT_CRC, whole_crc(salt, at, size));
}

enum err record_read_head(struct str bytes, uint64_t salt, struct log_record *ret_record,
                          size_t *ret_size)
{
    const char *at = bytes.at;
    if (bytes.len < RECORD_HEAD) {
        *ret_size = RECORD_HEAD;
        return ERR_TOO_LARGE;
    }
    uint32_t length = load_le32(at + RECORD_AT_LENGTH), kind = load_le32(at + RECORD_AT_KIND);
    uint64_t serial = load_le64(at + RECORD_AT_SERIAL), synced = load_le64(at + AT_SYNCED);
    /* These fields are checked before the checksum, because zeros and old bytes are the common
     * case. */
    if (length > ENTRY_BYTES_MAX || !kind_known(kind) || synced >= serial) return ERR_CORRUPT;
    if (load_le32(at + AT_HEAD_CRC) != head_crc(salt, at)) return ERR_CORRUPT;
    *ret_record = (struct log_record){
        .kind = (enum record_kind)kind,
        .serial = serial,
        .synced = synced,
        .index = load_le64(at + RECORD_AT_INDEX),
        .term = load_le64(at + RECORD_AT_TERM),
        .bytes = STR_EMPTY,
    };
    *ret_size = record_size(length);
    return ERR_OK;
}

enum err record_read(struct str bytes, uint64_t salt, struct log_record *ret_record,
                     size_t *ret_size)
{
    struct log_record record;
    size_t size = 0;
    enum err err = record_read_head(bytes, salt, &record, &size);
    if (err == ERR_CORRUPT) return err;
    if (err || size > bytes.len) {
        *ret_size = size;
        return ERR_TOO_LARGE;
    }
    if (load_le32(bytes.at + RECORD_AT_CRC) != whole_crc(salt, bytes.at, size)) return ERR_CORRUPT;
    record.bytes = str_of(bytes.at + RECORD_HEAD, load_le32(bytes.at + RECORD_AT_LENGTH));
    *ret_record = record;
    *ret_size = size;
    return ERR_OK;
}

/* -- segment head: 0 magic  8 format  16 sequence  24 salt  32 cluster  40 replica ... crc32c -- */

enum {
    AT_SEGMENT_CRC = SEGMENT_HEAD - 8, /* covers all earlier bytes */
    SEGMENT_FORMAT = 1,
};
static const char segment_magic[8] = {'m', 'u', 's', 't', 'e', 'r', 'l', 'g'};

void segment_head_write(const struct segment_head *head, char room[SEGMENT_HEAD])
{
    assert(head->sequence > 0);
    memset(room, 0, SEGMENT_HEAD);
    memcpy(room, segment_magic, sizeof segment_magic);
    store_le32(room + 8, SEGMENT_FORMAT);
    store_le64(room + 16, head->sequence);
    store_le64(room + 24, head->salt);
    store_le64(room + 32, head->cluster_id);
    store_le64(room + 40, head->replica_id);
    store_le32(room + AT_SEGMENT_CRC, crc32c(0, room, AT_SEGMENT_CRC));
}

enum err segment_head_read(struct str bytes, struct segment_head *ret_head)
{
    const char *at = bytes.at;
    if (bytes.len < SEGMENT_HEAD) return ERR_CORRUPT;
    if (memcmp(at, segment_magic, sizeof segment_magic) != 0) return ERR_CORRUPT;
    if (load_le64(at + AT_SEGMENT_CRC) != crc32c(0, at, AT_SEGMENT_CRC)) return ERR_CORRUPT;
    if (load_le32(at + 8) != SEGMENT_FORMAT) return ERR_VERSION;
    if (load_le64(at + 16) == 0) return ERR_CORRUPT;
    *ret_head = (struct segment_head){
        .sequence = load_le64(at + 16),
        .salt = load_le64(at + 24),
        .cluster_id = load_le64(at + 32),
        .replica_id = load_le64(at + 40),
    };
    return ERR_OK;
}
