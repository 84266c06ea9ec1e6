/* SPDX-License-Identifier: Apache-2.0 */
/* Leases as bytes (blob.h). Pure: no clock, no I/O, any thread. A damaged or forged blob cannot
 * break a limit of names.h. */
#include "prim/blob.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "prim/names.h"

static const char blob_magic[8] = "MSTLEAS1";

size_t blob_encode(const coord_id *store_id, const struct prim_claim *claim, void *blob, size_t cap)
{
    size_t owner_len = strlen(claim->owner), size = BLOB_HEADER + owner_len + 4;
    for (size_t i = 0; i < claim->count; i++) size += BLOB_KEY_HEADER + strlen(claim->held[i].key);
    assert(size <= BLOB_MAX && claim->count >= 1 && claim->count <= PRIM_KEYS_PER_LEASE_MAX);
    if (blob == NULL || cap < size) return size;
    uint8_t *to = blob;
    memcpy(to, blob_magic, sizeof blob_magic);
    store_le32(to + 8, (uint32_t)size);
    store_le16(to + 12, (uint16_t)claim->count);
    store_le16(to + 14, (uint16_t)owner_len);
    memcpy(to + 16, store_id->b, sizeof store_id->b);
    memcpy(to + 32, claim->lease_id.b, sizeof claim->lease_id.b);
    store_le64(to + 48, (uint64_t)claim->ttl_ms);
    memcpy(to + BLOB_HEADER, claim->owner, owner_len);
    uint8_t *at = to + BLOB_HEADER + owner_len;
    for (size_t i = 0; i < claim->count; i++) {
        const struct prim_held *held = &claim->held[i];
        size_t len = strlen(held->key);
        store_le64(at, held->token);
        store_le64(at + 8, held->create_revision);
        store_le32(at + 16, held->slot);
        store_le16(at + 20, (uint16_t)len);
        memcpy(at + BLOB_KEY_HEADER, held->key, len);
        at += BLOB_KEY_HEADER + len;
    }
    store_le32(at, crc32c(0, to, size - 4));
    return size;
}

static bool is_number(uint64_t value)
{
    return value >= 1 && value <= INT64_MAX;
}

/* Checks the limits, because keys come from a file or an environment variable. */
static bool blob_read_key(struct str *rest, struct prim_held *held, char **text)
{
    const char *at = rest->at;
    if (rest->len < BLOB_KEY_HEADER) return false;
    size_t len = load_le16(at + 20);
    if (rest->len < BLOB_KEY_HEADER + len) return false;
    struct str key = str_of(at + BLOB_KEY_HEADER, len);
    uint32_t slot = load_le32(at + 16), named = COORD_NO_SLOT;
    bool is_slot = claim_slot_number(prim_leaf_of(key), &named) && named < PRIM_SLOTS_MAX;
    *held = (struct prim_held){*text, load_le64(at), load_le64(at + 8), slot};
    if (!is_number(held->token) || !is_number(held->create_revision) ||
        prim_check_key(key).code != COORD_OK || slot != (is_slot ? named : COORD_NO_SLOT))
        return false;
    memcpy(*text, key.at, key.len);
    (*text)[key.len] = '\0';
    *text += key.len + 1;
    *rest = str_tail(*rest, BLOB_KEY_HEADER + len);
    return true;
}

enum err blob_decode(struct str bytes, struct blob *ret_blob)
{
    if (bytes.len < BLOB_HEADER + 4 || bytes.len > BLOB_MAX ||
        memcmp(bytes.at, blob_magic, sizeof blob_magic) != 0 ||
        load_le32(bytes.at + 8) != bytes.len ||
        load_le32(bytes.at + bytes.len - 4) != crc32c(0, bytes.at, bytes.len - 4))
        return ERR_CORRUPT;
    size_t count = load_le16(bytes.at + 12), owner_len = load_le16(bytes.at + 14);
    uint64_t ttl_ms = load_le64(bytes.at + 48);
    struct str rest = str_of(bytes.at + BLOB_HEADER, bytes.len - BLOB_HEADER - 4);
    if (count < 1 || count > PRIM_KEYS_PER_LEASE_MAX || owner_len > PRIM_OWNER_MAX ||
        rest.len < owner_len || ttl_ms < 1 || ttl_ms > PRIM_TTL_MAX_MS)
        return ERR_CORRUPT;
    /* One block for records and texts. The blob is longer than all texts. */
    struct prim_held *held = calloc(1, count * sizeof *held + owner_len + bytes.len + count + 1);
    if (held == NULL) return ERR_NOMEM;
    char *owner = (char *)(held + count), *text = owner + owner_len + 1;
    memcpy(owner, rest.at, owner_len);
    rest = str_tail(rest, owner_len);
    bool fine = prim_check_owner(owner).code == COORD_OK && strlen(owner) == owner_len;
    for (size_t i = 0; fine && i < count; i++) fine = blob_read_key(&rest, &held[i], &text);
    if (!fine || rest.len != 0) {
        free(held);
        return ERR_CORRUPT;
    }
    *ret_blob = (struct blob){
        .claim = {.owner = owner, .ttl_ms = (int64_t)ttl_ms, .held = held, .count = count},
        .memory = held};
    memcpy(ret_blob->store_id.b, bytes.at + 16, sizeof ret_blob->store_id.b);
    memcpy(ret_blob->claim.lease_id.b, bytes.at + 32, sizeof ret_blob->claim.lease_id.b);
    return ERR_OK;
}
