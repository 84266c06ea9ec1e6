/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/file/record.h"

#include <stdio.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/hex.h"

/* Over all bytes with the four of the checksum itself taken as zero. */
static uint32_t crc_around(const char *bytes, size_t len, size_t at)
{
    static const char zero[4];
    uint32_t crc = crc32c(0, bytes, at);
    crc = crc32c(crc, zero, sizeof zero);
    return crc32c(crc, bytes + at + sizeof zero, len - at - sizeof zero);
}

static bool sealed(struct str bytes, size_t at)
{
    return load_le32(bytes.at + at) == crc_around(bytes.at, bytes.len, at);
}

static void seal(char *bytes, size_t len, size_t at)
{
    store_le32(bytes + at, crc_around(bytes, len, at));
}

static void put_magic(char *out, const char *magic)
{
    for (size_t i = 0; i < 8; i++) out[i] = magic[i];
}

static bool is_time(uint64_t value)
{
    return value <= INT64_MAX;
}

static bool is_zero(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != 0) return false;
    return true;
}

/* -- heads -- */

size_t head_size(const struct head *head)
{
    return HEAD_HEADER + head->key.len + head->owner.len + head->value.len;
}

static char *put(char *at, struct str bytes)
{
    if (bytes.len > 0) memcpy(at, bytes.at, bytes.len);
    return at + bytes.len;
}

void head_encode(const struct head *head, char *out)
{
    assert(head->key.len >= 1 && head->key.len <= PRIM_KEY_MAX);
    assert(head->owner.len <= PRIM_OWNER_MAX && head->value.len <= PRIM_VALUE_LARGE_MAX);
    assert(head->revision > 0 && head->revision <= REVISION_MAX);
    put_magic(out, "CRDHEAD1");
    store_le32(out + 8, HEAD_HEADER);
    store_le32(out + 12, head->flags);
    store_le64(out + 16, head->revision);
    store_le64(out + 24, head->token);
    store_le64(out + 32, head->create_revision);
    store_le64(out + 40, head->changes);
    store_le64(out + 48, (uint64_t)head->ttl_ms);
    store_le64(out + 56, (uint64_t)head->deadline_ns);
    memcpy(out + 64, head->boot_id, 16);
    memcpy(out + 80, head->lease_id.b, 16);
    store_le64(out + 96, head->wall_ms);
    store_le32(out + 104, head->who.pid);
    store_le32(out + 108, 0);
    store_le64(out + 112, head->who.start_ticks);
    store_le64(out + 120, head->who.pid_namespace);
    memcpy(out + 128, head->request_id.b, 16);
    store_le32(out + 144, head->reason);
    store_le16(out + 148, (uint16_t)head->key.len);
    store_le16(out + 150, (uint16_t)head->owner.len);
    store_le32(out + 152, (uint32_t)head->value.len);
    put(put(put(out + HEAD_HEADER, head->key), head->owner), head->value);
    seal(out, head_size(head), 156);
}

static bool head_lengths_fit(struct str bytes, size_t *key, size_t *owner, size_t *value)
{
    *key = load_le16(bytes.at + 148);
    *owner = load_le16(bytes.at + 150);
    *value = load_le32(bytes.at + 152);
    return *key >= 1 && *key <= PRIM_KEY_MAX && *owner <= PRIM_OWNER_MAX &&
           *value <= PRIM_VALUE_LARGE_MAX && bytes.len == HEAD_HEADER + *key + *owner + *value;
}

static bool head_makes_sense(const struct head *head)
{
    bool live = (head->flags & HEAD_LIVE) != 0, tombstone = (head->flags & HEAD_TOMBSTONE) != 0;
    bool leased = (head->flags & HEAD_LEASED) != 0;
    if ((head->flags & ~(uint32_t)HEAD_FLAGS) != 0 || live == tombstone) return false;
    if (head->revision == 0 || head->revision > REVISION_MAX) return false;
    if (head->create_revision > head->revision || head->token > head->revision) return false;
    if (leased && (head->token == 0 || head->ttl_ms <= 0)) return false;
    return head->ttl_ms >= 0 && head->ttl_ms <= PRIM_TTL_MAX_MS && head->deadline_ns >= 0;
}

enum err head_decode(struct str bytes, struct head *ret_head)
{
    size_t key, owner, value;
    struct head head = {0};
    if (bytes.len < HEAD_HEADER || memcmp(bytes.at, "CRDHEAD1", 8) != 0) return ERR_CORRUPT;
    if (load_le32(bytes.at + 8) != HEAD_HEADER || load_le32(bytes.at + 108) != 0)
        return ERR_CORRUPT;
    if (!head_lengths_fit(bytes, &key, &owner, &value) || !sealed(bytes, 156)) return ERR_CORRUPT;
    head.flags = load_le32(bytes.at + 12);
    head.revision = load_le64(bytes.at + 16);
    head.token = load_le64(bytes.at + 24);
    head.create_revision = load_le64(bytes.at + 32);
    head.changes = load_le64(bytes.at + 40);
    head.ttl_ms = (int64_t)load_le64(bytes.at + 48);
    head.deadline_ns = (int64_t)load_le64(bytes.at + 56);
    memcpy(head.boot_id, bytes.at + 64, 16);
    memcpy(head.lease_id.b, bytes.at + 80, 16);
    head.wall_ms = load_le64(bytes.at + 96);
    head.who.pid = load_le32(bytes.at + 104);
    head.who.start_ticks = load_le64(bytes.at + 112);
    head.who.pid_namespace = load_le64(bytes.at + 120);
    memcpy(head.request_id.b, bytes.at + 128, 16);
    head.reason = load_le32(bytes.at + 144);
    head.key = str_of(bytes.at + HEAD_HEADER, key);
    head.owner = str_of(head.key.at + key, owner);
    head.value = str_of(head.owner.at + owner, value);
    if (!head_makes_sense(&head)) return ERR_CORRUPT;
    *ret_head = head;
    return ERR_OK;
}

/* -- leases -- */

void lease_record_encode(const struct lease_record *record, char out[LEASE_RECORD])
{
    put_magic(out, "CRDLEAS1");
    memcpy(out + 8, record->lease_id.b, 16);
    memcpy(out + 24, record->boot_id, 16);
    store_le64(out + 40, (uint64_t)record->ttl_ms);
    store_le64(out + 48, (uint64_t)record->deadline_ns);
    store_le64(out + 56, (uint64_t)record->granted_ns);
    store_le32(out + 64, record->state);
    store_le32(out + 68, record->who.pid);
    store_le64(out + 72, record->who.start_ticks);
    store_le64(out + 80, record->who.pid_namespace);
    store_le64(out + 88, record->renew_count);
    store_le64(out + 96, record->lost_count);
    memset(out + 104, 0, 16);
    store_le32(out + 120, 1);
    seal(out, LEASE_RECORD, 124);
}

enum err lease_record_decode(struct str bytes, struct lease_record *ret_record)
{
    struct lease_record record = {0};
    if (bytes.len != LEASE_RECORD || memcmp(bytes.at, "CRDLEAS1", 8) != 0) return ERR_CORRUPT;
    if (!sealed(bytes, 124) || load_le32(bytes.at + 120) != 1 || !is_zero(bytes.at + 104, 16))
        return ERR_CORRUPT;
    uint32_t state = load_le32(bytes.at + 64);
    uint64_t ttl = load_le64(bytes.at + 40);
    if (state < LEASE_LIVE || state > LEASE_DEAD || ttl == 0 || ttl > PRIM_TTL_MAX_MS ||
        !is_time(load_le64(bytes.at + 48)) || !is_time(load_le64(bytes.at + 56)))
        return ERR_CORRUPT;
    memcpy(record.lease_id.b, bytes.at + 8, 16);
    memcpy(record.boot_id, bytes.at + 24, 16);
    record.ttl_ms = (int64_t)ttl;
    record.deadline_ns = (int64_t)load_le64(bytes.at + 48);
    record.granted_ns = (int64_t)load_le64(bytes.at + 56);
    record.state = (enum lease_state)state;
    record.who.pid = load_le32(bytes.at + 68);
    record.who.start_ticks = load_le64(bytes.at + 72);
    record.who.pid_namespace = load_le64(bytes.at + 80);
    record.renew_count = load_le64(bytes.at + 88);
    record.lost_count = load_le64(bytes.at + 96);
    *ret_record = record;
    return ERR_OK;
}

/* -- locks, epoch, floor -- */

void lock_record_encode(const struct lock_record *record, char out[LOCK_RECORD])
{
    put_magic(out, "CRDLOCK1");
    store_le32(out + 8, record->who.pid);
    store_le32(out + 12, record->op);
    store_le64(out + 16, record->who.start_ticks);
    store_le64(out + 24, record->who.pid_namespace);
    memcpy(out + 32, record->boot_id, 16);
    store_le64(out + 48, (uint64_t)record->locked_ns);
    store_le32(out + 56, 0);
    seal(out, LOCK_RECORD, 60);
}

enum err lock_record_decode(struct str bytes, struct lock_record *ret_record)
{
    struct lock_record record = {0};
    if (bytes.len != LOCK_RECORD || memcmp(bytes.at, "CRDLOCK1", 8) != 0 || !sealed(bytes, 60) ||
        load_le32(bytes.at + 56) != 0 || !is_time(load_le64(bytes.at + 48)))
        return ERR_CORRUPT;
    record.who.pid = load_le32(bytes.at + 8);
    record.op = load_le32(bytes.at + 12);
    record.who.start_ticks = load_le64(bytes.at + 16);
    record.who.pid_namespace = load_le64(bytes.at + 24);
    memcpy(record.boot_id, bytes.at + 32, 16);
    record.locked_ns = (int64_t)load_le64(bytes.at + 48);
    *ret_record = record;
    return ERR_OK;
}

void epoch_record_encode(const struct epoch_record *record, char out[EPOCH_RECORD])
{
    put_magic(out, "CRDEPOC1");
    store_le64(out + 8, record->epoch);
    memcpy(out + 16, record->boot_id, 16);
    memcpy(out + 32, record->store_id.b, 16);
    store_le64(out + 48, record->format_inode);
    store_le32(out + 56, record->format_change);
    seal(out, EPOCH_RECORD, 60);
}

enum err epoch_record_decode(struct str bytes, struct epoch_record *ret_record)
{
    struct epoch_record record = {0};
    if (bytes.len != EPOCH_RECORD || memcmp(bytes.at, "CRDEPOC1", 8) != 0 || !sealed(bytes, 60))
        return ERR_CORRUPT;
    record.epoch = load_le64(bytes.at + 8);
    if (record.epoch == 0 || record.epoch >= EPOCH_MAX) return ERR_CORRUPT;
    memcpy(record.boot_id, bytes.at + 16, 16);
    memcpy(record.store_id.b, bytes.at + 32, 16);
    record.format_inode = load_le64(bytes.at + 48);
    record.format_change = load_le32(bytes.at + 56);
    *ret_record = record;
    return ERR_OK;
}

void floor_record_encode(uint64_t floor, const coord_id *store_id, char out[FLOOR_RECORD])
{
    put_magic(out, "CRDFLOR1");
    store_le64(out + 8, floor);
    memset(out + 16, 0, 16);
    memcpy(out + 32, store_id->b, 16);
    memset(out + 48, 0, 12);
    seal(out, FLOOR_RECORD, 60);
}

enum err floor_record_decode(struct str bytes, uint64_t *ret_floor, coord_id *ret_store_id)
{
    if (bytes.len != FLOOR_RECORD || memcmp(bytes.at, "CRDFLOR1", 8) != 0 || !sealed(bytes, 60) ||
        !is_zero(bytes.at + 16, 16) || !is_zero(bytes.at + 48, 12) ||
        load_le64(bytes.at + 8) > REVISION_MAX)
        return ERR_CORRUPT;
    *ret_floor = load_le64(bytes.at + 8);
    memcpy(ret_store_id->b, bytes.at + 32, 16);
    return ERR_OK;
}

void group_value_encode(const struct group_value *group, char out[GROUP_VALUE])
{
    store_le32(out, group->slot_count);
    store_le64(out + 4, (uint64_t)group->cooldown_ms);
    store_le32(out + 12, group->slots_high);
}

enum err group_value_decode(struct str bytes, struct group_value *ret_group)
{
    struct group_value group = {0};
    if (bytes.len != GROUP_VALUE) return ERR_CORRUPT;
    group.slot_count = load_le32(bytes.at);
    group.cooldown_ms = (int64_t)load_le64(bytes.at + 4);
    group.slots_high = load_le32(bytes.at + 12);
    if (group.slot_count == 0 || group.slots_high > PRIM_SLOTS_MAX ||
        group.slots_high < group.slot_count || group.cooldown_ms < 0 ||
        group.cooldown_ms > PRIM_COOLDOWN_MAX_MS)
        return ERR_CORRUPT;
    *ret_group = group;
    return ERR_OK;
}

/* -- FORMAT -- */

static const char uuid_groups[] = {4, 2, 2, 2, 6};

static size_t uuid_text(const coord_id *id, char *out)
{
    size_t len = 0, byte = 0;
    for (size_t g = 0; g < sizeof uuid_groups; g++) {
        if (g > 0) out[len++] = '-';
        for (int i = 0; i < uuid_groups[g]; i++, byte++) {
            out[len++] = "0123456789abcdef"[id->b[byte] >> 4];
            out[len++] = "0123456789abcdef"[id->b[byte] & 15];
        }
    }
    return len;
}

static bool uuid_parse(struct str text, coord_id *ret_id)
{
    size_t at = 0, byte = 0;
    if (text.len != 36) return false;
    for (size_t g = 0; g < sizeof uuid_groups; g++) {
        if (g > 0 && text.at[at++] != '-') return false;
        for (int i = 0; i < uuid_groups[g]; i++, byte++, at += 2) {
            int high = hex_value_lower(text.at[at]), low = hex_value_lower(text.at[at + 1]);
            if (high < 0 || low < 0) return false;
            ret_id->b[byte] = (uint8_t)(high << 4 | low);
        }
    }
    return true;
}

size_t format_encode(const coord_id *store_id, char out[FORMAT_CAP])
{
    char uuid[37] = {0};
    uuid_text(store_id, uuid);
    int len = snprintf(out, FORMAT_CAP, "musterfs 1\nstore %s\nencoding pct1\n", uuid);
    assert(len > 0 && len < FORMAT_CAP);
    uint32_t crc = crc32c(0, out, (size_t)len);
    int more = snprintf(out + len, FORMAT_CAP - (size_t)len, "crc32c %08x\n", crc);
    assert(more > 0 && len + more < FORMAT_CAP);
    return (size_t)len + (size_t)more;
}

enum err format_decode(struct str bytes, coord_id *ret_store_id)
{
    char again[FORMAT_CAP];
    coord_id id;
    struct str first = str_of(bytes.at, str_find(bytes, '\n'));
    if (!str_starts(first, STR("musterfs "))) return ERR_CORRUPT;
    if (!str_equal(first, STR("musterfs 1"))) return ERR_VERSION;
    struct str rest = str_tail(bytes, first.len + 1);
    if (!str_starts(rest, STR("store ")) || rest.len < 42) return ERR_CORRUPT;
    if (!uuid_parse(str_of(rest.at + 6, 36), &id)) return ERR_CORRUPT;
    /* There is one way to write it, so that the rest need not be taken apart. */
    if (!str_equal(bytes, str_of(again, format_encode(&id, again)))) return ERR_CORRUPT;
    *ret_store_id = id;
    return ERR_OK;
}
