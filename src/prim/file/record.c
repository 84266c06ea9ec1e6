/* SPDX-License-Identifier: Apache-2.0 */
/* The file formats of a file store and its file names (record.h). Pure: no clock, no I/O.
 *
 * A record is a table of fields. Bytes between fields are zero. A decoded record must encode to the
 * same bytes, which checks magic, checksum and zeros together. */
#include "prim/file/record.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stddef.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/hex.h"
#include "prim/answer.h"

struct field {
    uint16_t at, offset, size; /* places in file and struct; 4 or 8 bytes mean a number */
};
struct shape {
    const char *magic;
    size_t len, crc_at;
    uint32_t mark_at, mark; /* mark: a constant; 0: none */
    const struct field *fields;
    size_t count;
    size_t size;
    bool (*makes_sense)(const void *record);
};
#define FIELD(type, place, member)                                                                 \
    {                                                                                              \
        place, offsetof(struct type, member), sizeof(((struct type *)0)->member)                   \
    }

/* Checksum over all bytes, with its own field taken as zero. */
static uint32_t crc_around(const char *bytes, size_t len, size_t at)
{
    static const char zero[4];
    uint32_t crc = crc32c(0, bytes, at);
    crc = crc32c(crc, zero, sizeof zero);
    return crc32c(crc, bytes + at + sizeof zero, len - at - sizeof zero);
}

/* Stores everything but the checksum. */
static void fields_store(const struct shape *shape, const void *record, char *out)
{
    memset(out, 0, shape->len);
    memcpy(out, shape->magic, 8);
    if (shape->mark_at > 0) store_le32(out + shape->mark_at, shape->mark);
    for (size_t i = 0; i < shape->count; i++) {
        const struct field *field = &shape->fields[i];
        const char *from = (const char *)record + field->offset;
        uint32_t small;
        uint64_t large;
        switch (field->size) {
        case 4:
            memcpy(&small, from, 4);
            store_le32(out + field->at, small);
            break;
        case 8:
            memcpy(&large, from, 8);
            store_le64(out + field->at, large);
            break;
        default: memcpy(out + field->at, from, field->size);
        }
    }
}

static void fields_load(const struct shape *shape, const char *bytes, void *record)
{
    for (size_t i = 0; i < shape->count; i++) {
        const struct field *field = &shape->fields[i];
        char *to = (char *)record + field->offset;
        uint32_t small;
        uint64_t large;
        switch (field->size) {
        case 4:
            small = load_le32(bytes + field->at);
            memcpy(to, &small, 4);
            break;
        case 8:
            large = load_le64(bytes + field->at);
            memcpy(to, &large, 8);
            break;
        default: memcpy(to, bytes + field->at, field->size);
        }
    }
}

size_t record_encode(const struct shape *shape, const void *record, char out[RECORD_MAX])
{
    assert(shape->len <= RECORD_MAX);
    fields_store(shape, record, out);
    store_le32(out + shape->crc_at, crc_around(out, shape->len, shape->crc_at));
    return shape->len;
}

enum err record_decode(const struct shape *shape, struct str bytes, void *ret_record)
{
    char again[RECORD_MAX];
    _Alignas(struct lease_record) char record[sizeof(struct lease_record)] = {0};
    assert(shape->size <= sizeof record);
    if (bytes.len != shape->len) return ERR_CORRUPT;
    fields_load(shape, bytes.at, record);
    (void)record_encode(shape, record, again);
    if (memcmp(again, bytes.at, bytes.len) != 0 || !shape->makes_sense(record)) return ERR_CORRUPT;
    memcpy(ret_record, record, shape->size);
    return ERR_OK;
}

/* -- heads -- */

static const struct field head_fields[] = {
    FIELD(head, 12, flags),
    FIELD(head, 16, revision),
    FIELD(head, 24, token),
    FIELD(head, 32, create_revision),
    FIELD(head, 40, changes),
    FIELD(head, 48, ttl_ms),
    FIELD(head, 56, deadline_ns),
    FIELD(head, 64, boot_id),
    FIELD(head, 80, lease_id),
    FIELD(head, 96, wall_ms),
    FIELD(head, 104, who.pid),
    FIELD(head, 112, who.start_ticks),
    FIELD(head, 120, who.pid_namespace),
    FIELD(head, 128, request_id),
    FIELD(head, 144, reason),
};
static const struct shape head_shape = {.magic = "CRDHEAD1",
                                        .len = HEAD_HEADER,
                                        .crc_at = 156,
                                        .mark_at = 8,
                                        .mark = HEAD_HEADER,
                                        .fields = head_fields,
                                        .count = ARRAY_LEN(head_fields)};

size_t head_size(const struct head *head)
{
    return HEAD_HEADER + head->key.len + head->owner.len + head->value.len;
}

void head_encode(const struct head *head, char *out)
{
    char *at = out + HEAD_HEADER;
    assert(head->key.len >= 1 && head->key.len <= PRIM_KEY_MAX);
    assert(head->owner.len <= PRIM_OWNER_MAX && head->value.len <= PRIM_VALUE_LARGE_MAX);
    assert(head->revision > 0 && head->revision <= REVISION_MAX);
    fields_store(&head_shape, head, out);
    store_le16(out + 148, (uint16_t)head->key.len);
    store_le16(out + 150, (uint16_t)head->owner.len);
    store_le32(out + 152, (uint32_t)head->value.len);
    str_put(&at, head->key);
    str_put(&at, head->owner);
    str_put(&at, head->value);
    store_le32(out + head_shape.crc_at, crc_around(out, head_size(head), head_shape.crc_at));
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
    if (bytes.len < HEAD_HEADER || memcmp(bytes.at, head_shape.magic, 8) != 0) return ERR_CORRUPT;
    if (load_le32(bytes.at + 8) != HEAD_HEADER || load_le32(bytes.at + 108) != 0)
        return ERR_CORRUPT;
    if (!head_lengths_fit(bytes, &key, &owner, &value) ||
        load_le32(bytes.at + head_shape.crc_at) !=
            crc_around(bytes.at, bytes.len, head_shape.crc_at))
        return ERR_CORRUPT;
    fields_load(&head_shape, bytes.at, &head);
    head.key = str_of(bytes.at + HEAD_HEADER, key);
    head.owner = str_of(head.key.at + key, owner);
    head.value = str_of(head.owner.at + owner, value);
    if (!head_makes_sense(&head)) return ERR_CORRUPT;
    *ret_head = head;
    return ERR_OK;
}

/* -- leases, locks, epoch, floor -- */

static const struct field lease_fields[] = {
    FIELD(lease_record, 8, lease_id),
    FIELD(lease_record, 24, boot_id),
    FIELD(lease_record, 40, ttl_ms),
    FIELD(lease_record, 48, deadline_ns),
    FIELD(lease_record, 56, granted_ns),
    FIELD(lease_record, 64, state),
    FIELD(lease_record, 68, who.pid),
    FIELD(lease_record, 72, who.start_ticks),
    FIELD(lease_record, 80, who.pid_namespace),
    FIELD(lease_record, 88, renew_count),
    FIELD(lease_record, 96, lost_count),
};
static const struct field lock_fields[] = {
    FIELD(lock_record, 8, who.pid),          FIELD(lock_record, 12, op),
    FIELD(lock_record, 16, who.start_ticks), FIELD(lock_record, 24, who.pid_namespace),
    FIELD(lock_record, 32, boot_id),         FIELD(lock_record, 48, locked_ns),
};
static const struct field epoch_fields[] = {
    FIELD(epoch_record, 8, epoch),          FIELD(epoch_record, 16, boot_id),
    FIELD(epoch_record, 32, store_id),      FIELD(epoch_record, 48, format_inode),
    FIELD(epoch_record, 56, format_change),
};
static const struct field floor_fields[] = {
    FIELD(floor_record, 8, floor),
    FIELD(floor_record, 32, store_id),
};

static bool lease_makes_sense(const void *record)
{
    const struct lease_record *lease = record;
    return lease->state >= LEASE_LIVE && lease->state <= LEASE_DEAD && lease->ttl_ms > 0 &&
           lease->ttl_ms <= PRIM_TTL_MAX_MS && lease->deadline_ns >= 0 && lease->granted_ns >= 0;
}

static bool lock_makes_sense(const void *record)
{
    return ((const struct lock_record *)record)->locked_ns >= 0;
}

static bool epoch_makes_sense(const void *record)
{
    const struct epoch_record *epoch = record;
    return epoch->epoch > 0 && epoch->epoch < EPOCH_MAX;
}

static bool floor_makes_sense(const void *record)
{
    return ((const struct floor_record *)record)->floor <= REVISION_MAX;
}

#define SHAPE(kind, magic, len, crc_at, mark_at, mark)                                             \
    const struct shape kind##_shape = {magic,                                                      \
                                       len,                                                        \
                                       crc_at,                                                     \
                                       mark_at,                                                    \
                                       mark,                                                       \
                                       kind##_fields,                                              \
                                       ARRAY_LEN(kind##_fields),                                   \
                                       sizeof(struct kind##_record),                               \
                                       kind##_makes_sense}
SHAPE(lease, "CRDLEAS1", 128, 124, 120, 1);
SHAPE(lock, "CRDLOCK1", 64, 60, 0, 0);
SHAPE(epoch, "CRDEPOC1", 64, 60, 0, 0);
SHAPE(floor, "CRDFLOR1", 64, 60, 0, 0);

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

size_t format_encode(const coord_id *store_id, char out[FORMAT_CAP])
{
    char id[PRIM_ID_TEXT_CAP];
    prim_id_text(store_id, id);
    int len = snprintf(out, FORMAT_CAP, "musterfs 1\nstore %.8s-%.4s-%.4s-%.4s-%s\nencoding pct1\n",
                       id, id + 8, id + 12, id + 16, id + 20);
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
    if (!hex_read_id(str_of(rest.at + 6, 36), id.b)) return ERR_CORRUPT;
    /* FORMAT has one encoding, so this comparison checks all other bytes. */
    if (!str_equal(bytes, str_of(again, format_encode(&id, again)))) return ERR_CORRUPT;
    *ret_store_id = id;
    return ERR_OK;
}

/* -- names -- */

static void hashed(struct str raw, char *name)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    int done = EVP_Digest(raw.at, raw.len, digest, NULL, EVP_sha256(), NULL);
    assert(done == 1); /* fails only if the algorithm is missing */
    name[0] = '~';
    hex_write(digest, 20, name + 1);
}

void layout_name(struct str raw, char name[LAYOUT_NAME_CAP])
{
    size_t len = 0;
    if (raw.len == 0) {
        memcpy(name, "~", 2);
        return;
    }
    for (size_t i = 0; i < raw.len; i++) {
        size_t need = prim_is_plain(raw.at[i]) ? 1 : 3;
        if (len + need > LAYOUT_PLAIN_MAX) {
            hashed(raw, name);
            return;
        }
        if (need == 1) {
            name[len++] = raw.at[i];
        } else {
            name[len++] = '%';
            name[len++] = "0123456789ABCDEF"[(unsigned char)raw.at[i] >> 4];
            name[len++] = "0123456789ABCDEF"[raw.at[i] & 15];
        }
    }
    name[len] = '\0';
}

bool layout_lease_id(const char *name, coord_id *ret_id)
{
    return strlen(name) == PRIM_ID_TEXT_CAP - 1 && hex_read_id(str_from(name), ret_id->b);
}

void layout_temp(const struct layout_temp *temp, char name[LAYOUT_TEMP_CAP])
{
    int len = snprintf(name, LAYOUT_TEMP_CAP, "%02x%02x%02x%02x.%" PRIu32 ".%" PRIu64 ".%" PRIu64,
                       temp->boot[0], temp->boot[1], temp->boot[2], temp->boot[3], temp->pid,
                       temp->start_ticks, temp->number);
    assert(len > 0 && len < LAYOUT_TEMP_CAP);
}

bool layout_temp_parse(const char *name, struct layout_temp *ret_temp)
{
    struct layout_temp temp = {0};
    struct str rest = str_from(name), part;
    uint64_t pid;
    if (!str_split(&rest, '.', &part) || part.len != 8) return false;
    for (size_t i = 0; i < 8; i++) {
        int digit = hex_value_lower(part.at[i]);
        if (digit < 0) return false;
        temp.boot[i / 2] = (uint8_t)(temp.boot[i / 2] << 4 | digit);
    }
    if (!str_split(&rest, '.', &part) || str_to_u64(part, &pid) || pid > UINT32_MAX) return false;
    temp.pid = (uint32_t)pid;
    if (!str_split(&rest, '.', &part) || str_to_u64(part, &temp.start_ticks)) return false;
    if (!str_split(&rest, '.', &part) || str_to_u64(part, &temp.number)) return false;
    if (str_split(&rest, '.', &part)) return false;
    *ret_temp = temp;
    return true;
}
