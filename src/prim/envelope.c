/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes envelopes and group records (envelope.h). Pure: no clock, no I/O, any thread.
 *
 * Invariant: bytes with an unknown flag, a wrong length or checksum are never a value. */
#include "prim/envelope.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include "prim/names.h"

/* docs/formats/envelope.md */
enum {
    AT_FLAGS = 4,
    AT_OWNER_LEN = 6,
    AT_LEASE = 8,
    AT_REQUEST = 24,
    AT_REVISION = 40,
    AT_TOKEN = 48,
    AT_TTL = 56,
    AT_WALL = 64,
    AT_VALUE_LEN = 72,
    AT_CRC = 76,
    FLAGS_KNOWN = ENVELOPE_LEASED | ENVELOPE_TOMBSTONE | ENVELOPE_SLOT | ENVELOPE_GROUP,
};
static const char envelope_magic[4] = {'C', 'R', 'D', '1'};
static_assert(AT_CRC + 4 == ENVELOPE_HEADER, "the checksum is the last field of the header");

static uint32_t checksum(const char *bytes, size_t len)
{
    uint32_t crc = crc32c(0, bytes, AT_CRC);
    return crc32c(crc, bytes + ENVELOPE_HEADER, len - ENVELOPE_HEADER);
}

enum err envelope_encode(const struct claim_envelope *envelope, struct buf *out)
{
    struct str owner = envelope->owner, value = envelope->value;
    size_t len = ENVELOPE_HEADER + owner.len + value.len;
    char *at;
    assert(owner.len <= UINT16_MAX && value.len <= UINT32_MAX);
    assert((envelope->flags & ~(uint32_t)FLAGS_KNOWN) == 0 && envelope->ttl_ms >= 0);
    assert(!(envelope->flags & ENVELOPE_GROUP) || value.len == ENVELOPE_GROUP_VALUE);
    enum err err = buf_reserve(out, len, &at);
    if (err) return err;
    memcpy(at, envelope_magic, sizeof envelope_magic);
    store_le16(at + AT_FLAGS, (uint16_t)envelope->flags);
    store_le16(at + AT_OWNER_LEN, (uint16_t)owner.len);
    memcpy(at + AT_LEASE, envelope->lease_id.b, sizeof envelope->lease_id.b);
    memcpy(at + AT_REQUEST, envelope->request_id.b, sizeof envelope->request_id.b);
    store_le64(at + AT_REVISION, envelope->revision);
    store_le64(at + AT_TOKEN, envelope->token);
    store_le64(at + AT_TTL, (uint64_t)envelope->ttl_ms);
    store_le64(at + AT_WALL, envelope->wall_ms);
    store_le32(at + AT_VALUE_LEN, (uint32_t)value.len);
    if (owner.len > 0) memcpy(at + ENVELOPE_HEADER, owner.at, owner.len);
    if (value.len > 0) memcpy(at + ENVELOPE_HEADER + owner.len, value.at, value.len);
    store_le32(at + AT_CRC, checksum(at, len));
    buf_commit(out, len);
    return ERR_OK;
}

enum err envelope_decode(struct str bytes, struct claim_envelope *ret_envelope)
{
    const char *at = bytes.at;
    if (bytes.len < ENVELOPE_HEADER || memcmp(at, envelope_magic, sizeof envelope_magic) != 0)
        return ERR_CORRUPT;
    size_t owner_len = load_le16(at + AT_OWNER_LEN), value_len = load_le32(at + AT_VALUE_LEN);
    if (bytes.len - ENVELOPE_HEADER != owner_len + value_len ||
        load_le32(at + AT_CRC) != checksum(at, bytes.len))
        return ERR_CORRUPT;
    struct claim_envelope envelope = {
        .flags = load_le16(at + AT_FLAGS),
        .revision = load_le64(at + AT_REVISION),
        .token = load_le64(at + AT_TOKEN),
        .ttl_ms = (int64_t)load_le64(at + AT_TTL),
        .wall_ms = load_le64(at + AT_WALL),
        .owner = str_of(at + ENVELOPE_HEADER, owner_len),
        .value = str_of(at + ENVELOPE_HEADER + owner_len, value_len),
    };
    memcpy(envelope.lease_id.b, at + AT_LEASE, sizeof envelope.lease_id.b);
    memcpy(envelope.request_id.b, at + AT_REQUEST, sizeof envelope.request_id.b);
    bool leased = (envelope.flags & (ENVELOPE_LEASED | ENVELOPE_TOMBSTONE)) == ENVELOPE_LEASED;
    if (leased && (envelope.ttl_ms < 1 || envelope.ttl_ms > PRIM_TTL_MAX_MS)) return ERR_CORRUPT;
    /* A flag of a newer version may change the meaning of the value. */
    if ((envelope.flags & ~(uint32_t)FLAGS_KNOWN) != 0 || envelope.ttl_ms < 0 ||
        ((envelope.flags & ENVELOPE_GROUP) && value_len != ENVELOPE_GROUP_VALUE))
        return ERR_CORRUPT;
    *ret_envelope = envelope;
    return ERR_OK;
}

void envelope_group_value(const struct envelope_group *group, char value[ENVELOPE_GROUP_VALUE])
{
    store_le32(value, group->slot_count);
    store_le64(value + 4, (uint64_t)group->cooldown_ms);
}

enum err envelope_group_read(const struct claim_envelope *envelope,
                             struct envelope_group *ret_group)
{
    struct str value = envelope->value;
    uint64_t cooldown_ms;
    uint32_t count;

    if (!(envelope->flags & ENVELOPE_GROUP) || value.len != ENVELOPE_GROUP_VALUE)
        return ERR_CORRUPT;
    count = load_le32(value.at);
    cooldown_ms = load_le64(value.at + 4);
    if (count == 0 || count > PRIM_SLOTS_MAX || cooldown_ms > PRIM_COOLDOWN_MAX_MS)
        return ERR_CORRUPT;
    *ret_group = (struct envelope_group){count, (int64_t)cooldown_ms};
    return ERR_OK;
}
